// Weights: which models may be planned when data files of their weights are missing.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "onnx/weights.h"
#include "tests/support/model_file.h"
#include "tests/support/training.h"
#include "tests/support/words.h"

enum { FLOAT = 1, INT64 = 7, ELEMENTS = 2 };
static const int64_t dims[] = {ELEMENTS};
static const char present_file[] = "present.bin", missing_file[] = "missing.bin";

// An initializer: where its elements are.
typedef struct part {
  const char *name; // NULL ends the list
  char place;       // 'i': in the model; 'p': in a data file that is there; 'm': in one that is missing
  int32_t data_type;
  size_t rank;
} part_t;

typedef struct weights_case {
  const char *name;
  part_t parts[3];
  bool draws;
  delta_status_code_t code;
  const char *words; // of the error, or of what is logged; "" for nothing
} weights_case_t;

static const weights_case_t cases[] = {
    {"all there", {{"w", 'p', FLOAT, 1}, {"b", 'i', FLOAT, 1}}, false, DELTA_STATUS_OK, ""},
    {"none there", {{"w", 'm', FLOAT, 1}, {"b", 'm', FLOAT, 1}}, false, DELTA_STATUS_OK, "warning|no weights|missing.bin|--init random"},
    {"one in the model",
     {{"w", 'm', FLOAT, 1}, {"b", 'i', FLOAT, 1}},
     false,
     DELTA_STATUS_NOT_FOUND,
     "w|missing.bin|--external-data|--init random"},
    {"one in another file", {{"w", 'p', FLOAT, 1}, {"b", 'm', FLOAT, 1}}, false, DELTA_STATUS_NOT_FOUND, "b|missing.bin"},
    {"an integer tensor", {{"w", 'p', FLOAT, 1}, {"ids", 'm', INT64, 1}}, false, DELTA_STATUS_NOT_FOUND, "ids|missing.bin"},
    {"scalars and integers are no weights",
     {{"w", 'm', FLOAT, 1}, {"half", 'i', FLOAT, 0}, {"ids", 'i', INT64, 1}},
     false,
     DELTA_STATUS_OK,
     "warning|no weights"},
    {"some are drawn", {{"w", 'm', FLOAT, 1}, {"b", 'i', FLOAT, 1}}, true, DELTA_STATUS_OK, "note|1 tensor|missing.bin|drawn"},
    {"all are drawn", {{"w", 'm', FLOAT, 1}, {"b", 'm', FLOAT, 1}}, true, DELTA_STATUS_OK, "note|2 tensors|drawn"},
    {"nothing to draw", {{"w", 'p', FLOAT, 1}}, true, DELTA_STATUS_OK, ""},
};

static void put_part(delta_test_message_t *graph, const part_t *part) {
  const int64_t data[ELEMENTS] = {0};
  const size_t element_bytes = part->data_type == FLOAT ? sizeof(float) : sizeof(int64_t);
  delta_test_message_t tensor;
  if (part->place == 'i') {
    tensor =
        delta_test_tensor_raw(part->name, part->data_type, dims, part->rank, data, part->rank ? ELEMENTS * element_bytes : element_bytes);
  } else {
    tensor = delta_test_tensor_head(part->name, part->data_type, dims, part->rank);
    delta_test_put_external(&tensor, "location", part->place == 'p' ? present_file : missing_file);
    delta_test_put_varint(&tensor, DELTA_TEST_TENSOR_LOCATION, 1);
  }
  delta_test_put_message(graph, DELTA_TEST_GRAPH_INITIALIZER, &tensor);
}

static void write_case(const delta_test_folder_t *folder, const weights_case_t *test) {
  const uint8_t data[ELEMENTS * sizeof(int64_t)] = {0};
  delta_test_message_t graph = {0};
  delta_test_put_nodes(&graph, DELTA_TEST_GRAPH_NODE, "Relu:w>y@a");
  for (const part_t *part = test->parts; part < test->parts + 3 && part->name; ++part) put_part(&graph, part);
  delta_test_message_t output = delta_test_value_info("y", FLOAT, dims, 1);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_OUTPUT, &output);
  delta_test_message_t message = delta_test_model_message(&graph, "15");
  delta_test_folder_write(folder, "model.onnx", message.bytes, message.count);
  delta_test_folder_write(folder, present_file, data, sizeof data);
  delta_test_message_free(&message);
}

typedef struct log_text {
  char text[512];
} log_text_t;

static void keep_line(void *self, delta_log_level_t level, const char *line) {
  log_text_t *log = self;
  const size_t used = strlen(log->text);
  snprintf(log->text + used, sizeof log->text - used, "%s: %s\n", level == DELTA_LOG_WARNING ? "warning" : "note", line);
}

Test(weights, missing_data_files) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const weights_case_t *test = &cases[i];
    delta_test_folder_t folder;
    delta_model_t *model = NULL;
    log_text_t log = {""};
    delta_test_folder_make(&folder);
    write_case(&folder, test);
    delta_test_expect_ok(delta_test_load(&folder, "model.onnx", NULL, delta_allocator_system(), &model), test->name);
    delta_status_t status = delta_weights_check(model, test->draws, (delta_log_sink_t){.self = &log, .write = keep_line});
    if (status) snprintf(log.text, sizeof log.text, "%s", delta_status_message(status));
    cr_expect_eq(delta_status_code(status), test->code, "%s: %s", test->name, log.text);
    cr_expect(delta_words_all(log.text, test->words), "%s: not all of '%s' in: %s", test->name, test->words, log.text);
    cr_expect(*test->words || !*log.text, "%s: said %s", test->name, log.text);
    delta_status_free(status);
    delta_model_free(model);
    delta_test_folder_remove(&folder);
  }
}
