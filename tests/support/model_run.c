#include "tests/support/model_run.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"

// ---- Data: bits of a counter, scaled to each input's legal values

typedef struct data_source {
  delta_session_t *session;
  int64_t rows;
  uint64_t state;
  delta_status_t (*feeding)(void *self);
  void *self;
} data_source_t;

uint64_t delta_test_next_bits(uint64_t *state) {
  uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

static delta_status_t fill_inputs(void *self, void *const *buffers) {
  data_source_t *source = self;
  uint64_t state = source->state;
  for (size_t i = 0; i < delta_session_input_count(source->session); ++i) {
    delta_input_info_t info;
    DELTA_RETURN_IF_ERROR(delta_session_input(source->session, i, &info));
    delta_dtype_t dtype = DELTA_DTYPE_FLOAT32;
    for (int d = 0; d < DELTA_DTYPE_COUNT; ++d) {
      if (strcmp(delta_dtype_name((delta_dtype_t)d), info.dtype) == 0) dtype = (delta_dtype_t)d;
    }
    size_t count = (size_t)source->rows;
    for (int d = 1; d < info.rank; ++d) count *= (size_t)info.dims[d];
    const uint64_t span = info.maximum > info.minimum ? (uint64_t)(info.maximum - info.minimum) : 1;
    for (size_t k = 0; k < count; ++k) {
      const uint64_t bits = delta_test_next_bits(&state);
      if (delta_dtype_is_float(dtype)) {
        delta_element_store_double(buffers[i], dtype, k, (double)(bits >> 11) * 0x1p-53);
      } else {
        delta_element_store_int64(buffers[i], dtype, k, info.minimum + (int64_t)(bits % span));
      }
    }
  }
  return source->feeding ? source->feeding(source->self) : DELTA_OK;
}

delta_status_t delta_test_run_seeded_with(delta_session_t *session, delta_run_program_t program, int64_t rows, uint64_t seed,
                                          delta_status_t (*feeding)(void *self), void *self, delta_run_report_t *out_report) {
  data_source_t source = {.session = session, .rows = rows, .state = seed, .feeding = feeding, .self = self};
  const delta_batch_t batch = {.rows = rows, .fill = fill_inputs, .self = &source};
  *out_report = (delta_run_report_t){.struct_size = sizeof *out_report};
  return delta_session_run(session, program, &batch, 0.01, out_report);
}

delta_status_t delta_test_run_seeded(delta_session_t *session, delta_run_program_t program, int64_t rows, uint64_t seed,
                                     delta_run_report_t *out_report) {
  return delta_test_run_seeded_with(session, program, rows, seed, NULL, NULL, out_report);
}

delta_status_t delta_test_read_all_states(delta_session_t *session, uint8_t **out_states, size_t *out_size_bytes) {
  *out_states = NULL;
  for (int pass = 0; pass < 2; ++pass) {
    size_t at = 0;
    for (size_t i = 0; i < delta_session_state_count(session); ++i) {
      delta_state_info_t info;
      DELTA_RETURN_IF_ERROR(delta_session_state(session, i, &info));
      if (pass > 0) DELTA_RETURN_IF_ERROR(delta_session_read(session, info.name, *out_states + at, info.size_bytes));
      at += info.size_bytes;
    }
    if (pass > 0) break;
    *out_size_bytes = at;
    DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(delta_allocator_system(), at, out_states));
  }
  return DELTA_OK;
}

// ---- Options

delta_plan_options_t delta_test_model_plan_options(const delta_test_model_run_t *run, const char *policy, const char *budget) {
  delta_plan_options_t options;
  delta_plan_options_init(&options);
  options.model_path = run->model->path;
  options.policy = policy;
  options.budget = budget;
  if (run->time_limit_seconds > 0) options.time_limit_seconds = run->time_limit_seconds;
  options.batch = run->batch;
  options.loss = run->loss;
  options.class_axis = run->class_axis;
  options.ignore_index = run->ignore_index;
  options.optimizer = run->optimizer;
  options.momentum = strcmp(run->optimizer, "sgd") == 0 ? 0.9 : -1;
  options.threads = run->threads;
  if (run->device) {
    options.device = run->device;
    options.profile = "estimate";
  }
  options.init = "random"; // only where weights are missing
  return options;
}

delta_status_t delta_test_read_about(delta_test_model_run_t *run) {
  const delta_allocator_t allocator = delta_allocator_system();
  char *text = NULL;
  size_t size_bytes;
  snprintf(run->loss, sizeof run->loss, "cross_entropy");
  run->class_axis = 1;
  run->ignore_index = -100;
  delta_status_t status = delta_file_read_all(run->model->about_path, 1 << 24, allocator, &text, &size_bytes);
  if (delta_status_code(status) == DELTA_STATUS_NOT_FOUND) {
    delta_status_free(status);
    if (run->batch == 0) run->batch = 8;
    return DELTA_OK;
  }
  delta_json_document_t *about = NULL;
  const delta_json_value_t *loss = NULL;
  const char *name = NULL;
  if (!status) status = delta_json_parse(text, size_bytes, run->model->about_path, allocator, &about);
  if (!status) status = delta_json_get_object(about, delta_json_root(about), "loss", &loss);
  if (!status) status = delta_json_get_string(about, loss, "name", &name);
  if (!status) snprintf(run->loss, sizeof run->loss, "%s", strcmp(name, "bce_logits") == 0 ? "bce_with_logits" : name);
  if (!status && delta_json_find(loss, "class_axis")) status = delta_json_get_int64(about, loss, "class_axis", -8, 8, &run->class_axis);
  if (!status && delta_json_find(loss, "ignore_index")) {
    status = delta_json_get_int64(about, loss, "ignore_index", -1000000, 1000000, &run->ignore_index);
  }
  if (!status && run->batch == 0) status = delta_json_get_int64(about, delta_json_root(about), "batch_size", 1, 1 << 20, &run->batch);
  delta_json_free(about);
  delta_release(allocator, text);
  return status;
}

// ---- Models

static int compare_models(const void *a, const void *b) {
  return strcmp(((const delta_test_model_t *)a)->name, ((const delta_test_model_t *)b)->name);
}

static bool exists(const char *path) {
  FILE *file = fopen(path, "r");
  if (file) fclose(file);
  return file != NULL;
}

size_t delta_test_list_models(const char *folder, delta_test_model_t *models, size_t count, size_t most) {
  DIR *directory = opendir(folder);
  for (struct dirent *entry; directory && count < most && (entry = readdir(directory));) {
    delta_test_model_t *model = &models[count];
    const char *dot = strrchr(entry->d_name, '.');
    if (entry->d_name[0] == '.') continue;
    *model = (delta_test_model_t){0};
    snprintf(model->name, sizeof model->name, "%s", entry->d_name);
    if (dot && strcmp(dot, ".onnx") == 0) {
      snprintf(model->path, sizeof model->path, "%s/%s", folder, entry->d_name);
    } else {
      snprintf(model->path, sizeof model->path, "%s/%s/model.onnx", folder, entry->d_name);
      snprintf(model->about_path, sizeof model->about_path, "%s/%s/about.json", folder, entry->d_name);
    }
    if (exists(model->path)) ++count;
  }
  if (directory) closedir(directory);
  qsort(models, count, sizeof *models, compare_models);
  return count;
}

bool delta_test_is_listed(const char *list, const char *name) {
  const size_t length = strlen(name);
  for (const char *at = list; at && *at; at += strcspn(at, ","), at += *at == ',') {
    if (strncmp(at, name, length) == 0 && (at[length] == ',' || !at[length])) return true;
  }
  return !list;
}
