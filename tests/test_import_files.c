// The import of files: broken ones are refused by name, odd ones compute what they should, and the example models give their references.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/support/model_text.h"
#include "tests/support/shared_arrays.h"
#include "tests/support/support.h"

enum { LIMIT_BYTES = 1 << 22, TEXT_BYTES = 256, MESSAGE_LIMIT = 2000 };

static delta_json_document_t *read_json(const char *path) {
  char *text = NULL;
  size_t size = 0;
  delta_json_document_t *document = NULL;
  if (delta_file_read_all(path, LIMIT_BYTES, delta_allocator_system(), &text, &size) != NULL) abort();
  if (delta_json_parse(text, size, path, delta_allocator_system(), &document) != NULL) abort();
  free(text);
  return document;
}

static void get_text(const delta_json_document_t *document, const delta_json_value_t *object, const char *key, char out[TEXT_BYTES]) {
  const char *text = "";
  delta_status_free(delta_json_get_string(document, object, key, &text));
  (void)snprintf(out, TEXT_BYTES, "%s", text);
}

// ---- Broken and odd files

// Folders whose faults the loader or the import must find.
static const char *const broken_folders[] = {"operators/", "unsupported/", "structure/",     "names/",
                                             "tensors/",   "functions/",   "amplification/", "nesting/"};

static bool is_for_import(const char *file) {
  for (size_t k = 0; k < sizeof broken_folders / sizeof broken_folders[0]; ++k) {
    if (strncmp(file, broken_folders[k], strlen(broken_folders[k])) == 0) return true;
  }
  return false;
}

typedef struct file_case {
  char file[TEXT_BYTES], expect[TEXT_BYTES], stage[TEXT_BYTES], values[TEXT_BYTES];
  char names[TEXT_BYTES]; // one of them is in the message; separated by newlines
} file_case_t;

static void read_names(const delta_json_document_t *document, const delta_json_value_t *item, char out[TEXT_BYTES]) {
  const delta_json_value_t *names = NULL;
  size_t count = 0, used = 0;
  out[0] = '\0';
  delta_status_free(delta_json_get_array(document, item, "message_names_any_of", &names, &count));
  for (const delta_json_value_t *name = count ? delta_json_first(names) : NULL; name && used < TEXT_BYTES; name = delta_json_next(name)) {
    const char *text = "";
    delta_status_free(delta_json_as_string(document, name, "name", &text));
    used += (size_t)snprintf(out + used, TEXT_BYTES - used, "%s\n", text);
  }
}

// Case `number` of those that are for the import; false beyond the last.
static bool read_case(const delta_json_document_t *document, int number, file_case_t *out) {
  for (const delta_json_value_t *item = delta_json_first(delta_json_root(document)); item; item = delta_json_next(item)) {
    get_text(document, item, "file", out->file);
    if (!is_for_import(out->file) || number-- > 0) continue;
    get_text(document, item, "expect", out->expect);
    get_text(document, item, "stage", out->stage);
    get_text(document, item, "values", out->values);
    read_names(document, item, out->names);
    return true;
  }
  return false;
}

// One parameter a case: its number, or -1 where the material is absent.
ParameterizedTestParameters(import_files, broken) {
  char path[DELTA_TEST_PATH_BYTES];
  file_case_t unused;
  size_t count = 0;
  delta_json_document_t *document = delta_test_shared_path("broken/index.json", path) ? read_json(path) : NULL;
  while (document && read_case(document, (int)count, &unused)) count += 1;
  delta_json_free(document);
  int *numbers = cr_malloc((count + 1) * sizeof *numbers);
  numbers[0] = -1;
  for (size_t k = 0; k < count; ++k) numbers[k] = (int)k;
  return cr_make_param_array(int, numbers, count ? count : 1);
}

static bool is_word_part(char c) { return isalnum((unsigned char)c) || c == '_'; }

// Whether `name` stands in the text as a whole word.
static bool has_word(const char *text, const char *name) {
  size_t length = strlen(name);
  for (const char *at = strstr(text, name); at; at = strstr(at + 1, name)) {
    bool starts = !isalnum((unsigned char)name[0]) || at == text || !is_word_part(at[-1]);
    bool ends = !isalnum((unsigned char)name[length - 1]) || !is_word_part(at[length]);
    if (starts && ends) return true;
  }
  return false;
}

static void expect_names(const file_case_t *c, const char *message) {
  char names[TEXT_BYTES], *state = NULL;
  (void)snprintf(names, sizeof names, "%s", c->names);
  cr_expect_lt(strlen(message), MESSAGE_LIMIT, "%s: the message has %zu bytes", c->file, strlen(message));
  for (const char *p = message; *p; ++p) cr_expect(!iscntrl((unsigned char)*p), "%s: the message has a control character", c->file);
  if (names[0] == '\0') return;
  for (char *name = strtok_r(names, "\n", &state); name; name = strtok_r(NULL, "\n", &state)) {
    if (has_word(message, name)) return;
  }
  cr_expect_fail("%s: '%s' names none of: %s", c->file, message, c->names);
}

// Loads and imports, with `batch` where the file leaves it open.
static delta_status_t import_file(const char *path, int64_t batch, delta_model_t **out_model, delta_graph_t **out_graph) {
  const delta_model_options_t load = {.path = path};
  DELTA_RETURN_IF_ERROR(delta_model_load(&load, delta_allocator_system(), out_model));
  bool is_open = false;
  for (uint32_t k = 0; k < (*out_model)->input_count; ++k) {
    const delta_model_type_t *type = &(*out_model)->values[(*out_model)->inputs[k].index].type;
    is_open = is_open || (type->has_shape && type->rank > 0 && type->dims[0].size < 0);
  }
  const delta_import_options_t options = {.batch = is_open ? batch : 0, .training = true, .levers = DELTA_LEVERS_ALL};
  delta_import_facts_t facts;
  DELTA_RETURN_IF_ERROR(delta_import(*out_model, &options, delta_allocator_system(), out_graph, &facts));
  return delta_graph_check(*out_graph);
}

// The batch of the first array, which is an input's.
static int64_t batch_of(const char *path) {
  delta_npz_t *npz = delta_test_open_npz(path);
  const delta_npy_header_t *header = NULL;
  cr_assert_null(delta_npz_header(npz, 0, &header));
  int64_t batch = header->shape.dims[0];
  delta_npz_close(npz);
  return batch;
}

// Feeds in/NAME, runs, compares out/NAME.
static void expect_values(const char *path, const delta_model_t *model, const delta_graph_t *graph) {
  char name[TEXT_BYTES];
  delta_npz_t *npz = delta_test_open_npz(path);
  delta_reference_values_t values = {0};
  cr_assert_null(delta_reference_values_init(graph, delta_allocator_system(), &values));
  delta_test_fill_states(model, &values);
  for (size_t k = 0; k < delta_npz_count(npz); ++k) {
    (void)snprintf(name, sizeof name, "%s", delta_npz_name(npz, k));
    if (strncmp(name, "in/", 3) == 0) delta_test_load_array(npz, name, &values, delta_graph_find_input(graph, name + 3));
  }
  delta_status_t status = delta_reference_run_graph(&values);
  cr_assert_null(status, "%s: %s", path, delta_status_message(status));
  for (size_t k = 0; k < delta_npz_count(npz); ++k) {
    (void)snprintf(name, sizeof name, "%s", delta_npz_name(npz, k));
    if (strncmp(name, "out/", 4) == 0) delta_test_expect_array(npz, name, &values, delta_graph_find_output(graph, name + 4), 1e-5, 1e-6);
  }
  delta_reference_values_deinit(&values);
  delta_npz_close(npz);
}

ParameterizedTest(int *number, import_files, broken, .timeout = 10) {
  char relative[DELTA_TEST_PATH_BYTES], path[DELTA_TEST_PATH_BYTES], values[DELTA_TEST_PATH_BYTES];
  DELTA_SKIP_WITHOUT_SHARED("broken/index.json", path);
  file_case_t read, *c = &read;
  delta_json_document_t *document = read_json(path);
  cr_assert(read_case(document, *number, c));
  delta_json_free(document);
  (void)snprintf(relative, sizeof relative, "broken/%.255s", c->values);
  bool has_values = c->values[0] != '\0' && delta_test_shared_path(relative, values);
  (void)snprintf(relative, sizeof relative, "broken/%.255s", c->file);
  DELTA_SKIP_WITHOUT_SHARED(relative, path);
  delta_model_t *model = NULL;
  delta_graph_t *graph = NULL;
  delta_status_t status = import_file(path, has_values ? batch_of(values) : 4, &model, &graph);
  if (status != NULL) {
    cr_expect_str_neq(c->expect, "ok", "%s was refused: %s", c->file, delta_status_message(status));
    expect_names(c, delta_status_message(status));
  } else {
    cr_expect(strcmp(c->expect, "error") != 0 || strcmp(c->stage, "run") == 0, "%s was accepted", c->file);
    if (has_values) expect_values(values, model, graph);
  }
  delta_status_free(status);
  delta_graph_free(graph);
  delta_model_free(model);
}

// ---- Example models: the forward pass of a training step

typedef struct model_case {
  char name[TEXT_BYTES];
  bool random; // dropout draws: the reference is of an evaluation
} model_case_t;

ParameterizedTestParameters(import_files, forward) {
  static model_case_t cases[] = {
      {"autoencoder", false}, {"bert", false},        {"cnn", false},          {"cnn_opset11", false},
      {"dropout_mlp", true},  {"gpt2", false},        {"lstm", false},         {"mlp", false},
      {"mlp_bce", false},     {"mobilenetv2", false}, {"resnet_basic", false}, {"resnet_bottleneck", false},
      {"unet", false},        {"vit", false},
  };
  return cr_make_param_array(model_case_t, cases, sizeof cases / sizeof cases[0]);
}

// The running statistics after the step, where the reference has them.
static void expect_statistics(delta_npz_t *reference, const delta_reference_values_t *values) {
  for (size_t k = 0; k < values->graph->states.count; ++k) {
    const delta_state_t *state = &values->graph->states.items[k];
    char name[TEXT_BYTES];
    (void)snprintf(name, sizeof name, "buffer/%s", state->name);
    bool known = delta_npz_find(reference, name) != DELTA_NPZ_NONE;
    cr_expect_eq(known, !delta_tensor_is_none(state->next), "state '%s'", state->name);
    if (known && !delta_tensor_is_none(state->next)) delta_test_expect_array(reference, name, values, state->next, 1e-5, 1e-7);
  }
}

// The batch size and the output that the reference is of.
static int64_t read_about(const char *folder, char output[TEXT_BYTES]) {
  char path[DELTA_TEST_PATH_BYTES + 32];
  (void)snprintf(path, sizeof path, "%s/about.json", folder);
  delta_json_document_t *about = read_json(path);
  int64_t batch = 0;
  cr_assert_null(delta_json_get_int64(about, delta_json_root(about), "batch_size", 1, 1024, &batch));
  get_text(about, delta_json_root(about), "output", output);
  delta_json_free(about);
  return batch;
}

static delta_npz_t *open_beside(const char *folder, const char *name) {
  char path[DELTA_TEST_PATH_BYTES + 32];
  (void)snprintf(path, sizeof path, "%s/%s", folder, name);
  return delta_test_open_npz(path);
}

// Runs the graph on the first batch of the data and compares its output and statistics.
static void expect_forward(const model_case_t *c, const char *folder, const char *output, const delta_model_t *model,
                           const delta_graph_t *graph) {
  delta_npz_t *data = open_beside(folder, "data.npz"), *reference = open_beside(folder, "reference.npz");
  delta_reference_values_t values = {0};
  cr_assert_null(delta_reference_values_init(graph, delta_allocator_system(), &values));
  delta_test_fill_states(model, &values);
  for (size_t k = 0; k < graph->inputs.count; ++k) {
    delta_test_load_array(data, delta_graph_tensor(graph, graph->inputs.items[k])->name, &values, graph->inputs.items[k]);
  }
  delta_status_t status = delta_reference_run_graph(&values);
  cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
  const char *wanted = c->random ? "dropout_off.logits" : "logits";
  delta_test_expect_array(reference, wanted, &values, delta_graph_find_output(graph, output), 2e-5, 1e-6);
  if (!c->random) expect_statistics(reference, &values);
  delta_reference_values_deinit(&values);
  delta_npz_close(reference);
  delta_npz_close(data);
}

ParameterizedTest(model_case_t *c, import_files, forward) {
  char relative[DELTA_TEST_PATH_BYTES], folder[DELTA_TEST_PATH_BYTES], path[DELTA_TEST_PATH_BYTES + 32], output[TEXT_BYTES];
  (void)snprintf(relative, sizeof relative, "models/%s", c->name);
  DELTA_SKIP_WITHOUT_SHARED(relative, folder);
  (void)snprintf(path, sizeof path, "%s/model.onnx", folder);
  const delta_model_options_t load = {.path = path};
  delta_model_t *model = NULL;
  delta_status_t status = delta_model_load(&load, delta_allocator_system(), &model);
  cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
  const int64_t batch = read_about(folder, output);
  const delta_import_options_t options = {.batch = batch, .training = !c->random, .levers = DELTA_LEVERS_ALL};
  delta_import_facts_t facts;
  delta_graph_t *graph = NULL;
  status = delta_import(model, &options, delta_allocator_system(), &graph, &facts);
  cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
  cr_expect_eq(facts.folded_weights, 0);
  expect_forward(c, folder, output, model, graph);
  delta_graph_free(graph);
  delta_model_free(model);
}

// ---- Graphs of full size

typedef struct log_count {
  int lines;
  char first[TEXT_BYTES];
} log_count_t;

static void count_line(void *self, delta_log_level_t level, const char *line) {
  log_count_t *count = self;
  (void)level;
  if (count->lines++ == 0) (void)snprintf(count->first, sizeof count->first, "%s", line);
}

typedef struct graph_case {
  char name[TEXT_BYTES];
  uint32_t batchnorms;
} graph_case_t;

ParameterizedTestParameters(import_files, full_size) {
  static graph_case_t cases[] = {{"resnet50", 53}, {"resnet101", 104},   {"unet", 18}, {"bert_base", 0},    {"gpt2_small", 0},
                                 {"swin_t", 0},    {"mobilenet_v2", 52}, {"vgg16", 0}, {"densenet121", 121}};
  return cr_make_param_array(graph_case_t, cases, sizeof cases / sizeof cases[0]);
}

// Weights are absent: only shapes are read. Every shape the file declares must be the inferred one (else a note or an error says so).
ParameterizedTest(graph_case_t *c, import_files, full_size, .timeout = 10) {
  char relative[DELTA_TEST_PATH_BYTES], path[DELTA_TEST_PATH_BYTES];
  (void)snprintf(relative, sizeof relative, "graphs/%s.onnx", c->name);
  DELTA_SKIP_WITHOUT_SHARED(relative, path);
  log_count_t count = {0};
  const delta_log_sink_t log = {.self = &count, .write = count_line};
  delta_model_t *model = NULL;
  const delta_model_options_t load = {.path = path};
  delta_status_t status = delta_model_load(&load, delta_allocator_system(), &model);
  cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
  const delta_import_options_t options = {.batch = 4, .training = true, .levers = DELTA_LEVERS_ALL, .log = log};
  delta_import_facts_t facts;
  delta_graph_t *graph = NULL;
  status = delta_import(model, &options, delta_allocator_system(), &graph, &facts);
  cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
  cr_expect_eq(count.lines, 0, "%s: %s", c->name, count.first);
  cr_expect_eq(facts.batchnorm_training, c->batchnorms, "%s: %u", c->name, facts.batchnorm_training);
  cr_expect_eq(facts.batchnorm_inference, 0);
  cr_expect_eq(delta_graph_tensor(graph, graph->outputs.items[0].tensor)->shape.dims[0], 4);
  delta_graph_free(graph);
  delta_model_free(model);
}
