// Fuzz target: model files. Loads the input, reads every weight that is there, and writes the model out again in both forms.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "onnx/export.h"

enum { PATH_BYTES = 64, MOST_BYTES = 1 << 20 };

static char folder[PATH_BYTES];

static void remove_folder(void) {
  static const char *const names[] = {"model.onnx", "out.onnx"};
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    char path[2 * PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s", folder, names[i]);
    unlink(path);
  }
  rmdir(folder);
}

// The folder that inputs are written to, in memory where the system has such a place.
static const char *work_folder(void) {
  if (*folder) return folder;
  snprintf(folder, sizeof folder, "%s/delta-fuzz-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
  if (!mkdtemp(folder)) abort();
  atexit(remove_folder);
  return folder;
}

static void write_file(const char *path, const uint8_t *data, size_t size_bytes) {
  int descriptor = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (descriptor < 0 || write(descriptor, data, size_bytes) != (ssize_t)size_bytes) abort();
  close(descriptor);
}

static void read_weights(const delta_model_t *model) {
  for (uint32_t i = 0; i < model->initializer_count; ++i) {
    const delta_model_tensor_t *tensor = &model->initializers[i];
    if (tensor->size_bytes > MOST_BYTES || !delta_model_tensor_is_available(model, tensor)) continue;
    void *values = malloc(tensor->size_bytes + 1);
    if (values) delta_status_free(delta_model_read_tensor(model, tensor, values, tensor->size_bytes));
    free(values);
  }
}

static delta_status_t zero_value(void *self, const char *name, size_t size_bytes, const void **out_value) {
  static const uint8_t zeros[MOST_BYTES];
  (void)self;
  *out_value = name[0] % 2 == 0 && size_bytes <= sizeof zeros ? zeros : NULL;
  return NULL;
}

static bool has_only_small_weights(const delta_model_t *model) {
  for (uint32_t i = 0; i < model->initializer_count; ++i) {
    if (model->initializers[i].size_bytes > MOST_BYTES) return false;
  }
  return true;
}

// What was exported must load again.
static void export_and_load(const delta_model_t *model, const char *path, bool for_training) {
  delta_export_options_t options = {.path = path, .for_training = for_training, .find_value = zero_value};
  delta_status_t status = delta_model_export(model, &options);
  if (!status) {
    delta_model_t *exported = NULL;
    delta_model_options_t load_options = {.path = path};
    status = delta_model_load(&load_options, delta_allocator_system(), &exported);
    if (status) {
      fprintf(stderr, "the exported model: %s\n", delta_status_message(status));
      abort();
    }
    delta_model_free(exported);
  }
  delta_status_free(status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  char path[2 * PATH_BYTES], out_path[2 * PATH_BYTES];
  snprintf(path, sizeof path, "%s/model.onnx", work_folder());
  snprintf(out_path, sizeof out_path, "%s/out.onnx", work_folder());
  write_file(path, data, size_bytes);
  delta_model_t *model = NULL;
  delta_model_options_t options = {.path = path};
  delta_status_t status = delta_model_load(&options, delta_allocator_system(), &model);
  if (!status) {
    read_weights(model);
    for (int form = 0; form < 2 && has_only_small_weights(model); ++form) export_and_load(model, out_path, form == 0);
  }
  delta_status_free(status);
  delta_model_free(model);
  return 0;
}
