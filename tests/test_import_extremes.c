// Extremes: every operator of the table with attributes, shapes and constant inputs that make no sense. Any outcome is right but a crash, an
// overflow (the sanitizer builds tell) or an error without the node's name.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/lower/lower.h"
#include "tests/support/model_text.h"

static const char *const attribute_values[] = {
    "0",
    "-1",
    "7",
    "-9223372036854775808",
    "9223372036854775807",
    "[]",
    "[0]",
    "[-1,2]",
    "[9223372036854775807,9223372036854775807]",
    "[-9223372036854775808,1]",
    "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]",
    "nan.",
    "-1.5",
    "1e30.",
    "'NOTSET'",
    "'SAME_LOWER'",
    "'none'",
    "''",
    "int64[1]{-9223372036854775808}",
    "float32[0]{}",
    "graph",
};

// What input k of the node is: a letter of a pattern. The last letter stands for all further inputs.
typedef struct input_kind {
  char letter;
  const char *line; // declares input "i%u"
} input_kind_t;

static const input_kind_t input_kinds[] = {
    {'s', "input i%u float32 []"},
    {'v', "input i%u float32 [3]"},
    {'m', "input i%u float32 [2,3]"},
    {'t', "input i%u float32 [2,3,4]"},
    {'i', "input i%u float32 [2,3,5,4]"},
    {'z', "input i%u float32 [2,0,3]"},
    {'8', "input i%u float32 [1,1,2,1,1,1,2,1]"},
    {'l', "input i%u int64 [2]"},
    {'b', "input i%u bool [2,3]"},
    {'c', "init i%u int64 [1] 0"},
    {'n', "init i%u int64 [2] -1 -1"},
    {'x', "init i%u int64 [2] 9223372036854775807"},
    {'y', "init i%u int64 [3] -9223372036854775808"},
    {'e', "init i%u int64 [0]"},
    {'f', "init i%u float32 [] nan"},
    {'4', "init i%u int64 [4] 1 0 2 1"},
    {'w', "init i%u float32 [3,3,2,2] 1"},
};

static const char *const patterns[] = {"s",   "v",   "m",   "t",     "i",     "z",     "8",   "b",   "lc",    "mc",    "mn", "mx", "my",
                                       "me",  "tcx", "ty",  "ic",    "if",    "i4",    "iw",  "zc",  "8x",    "cc",    "xn", "yx", "ee",
                                       "mll", "bmm", "mll", "tcccx", "tyyyy", "txxxx", "i4f", "iwv", "ivvvv", "mvvvv", "_m", "m_"};

enum { TEXT_BYTES = 2048 };

static const char *line_of(char letter) {
  for (size_t k = 0; k < sizeof input_kinds / sizeof *input_kinds; ++k) {
    if (input_kinds[k].letter == letter) return input_kinds[k].line;
  }
  return NULL;
}

// A model of one node with inputs by `pattern`; extra inputs up to the least count repeat the last letter.
static void write_model(const delta_op_info_t *row, int64_t opset, const char *pattern, const char *attribute, const char *value,
                        char text[TEXT_BYTES]) {
  char names[256] = "", line[128];
  size_t used = (size_t)snprintf(text, TEXT_BYTES, "opset %lld\n", (long long)opset);
  size_t length = strlen(pattern), count = row->min_inputs > (int32_t)length ? (size_t)row->min_inputs : length;
  for (size_t k = 0; k < count; ++k) {
    const char *format = line_of(pattern[k < length ? k : length - 1]);
    (void)snprintf(line, sizeof line, "%s\n", format ? format : "");
    size_t at = strcspn(line, "%");
    if (format) used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%.*s%zu%s", (int)at, line, k, line + at + 2);
    size_t named = strlen(names);
    (void)snprintf(names + named, sizeof names - named, format ? " i%zu" : " _", k);
  }
  (void)snprintf(text + used, TEXT_BYTES - used, "node %s%s%s%s -> y z : %s%s%s\noutput y\n", row->domain, row->domain[0] ? ":" : "",
                 row->name, names, attribute, attribute[0] ? "=" : "", value);
}

static void import_anything(const delta_op_info_t *row, const char *text, bool training) {
  delta_model_t *model = delta_test_model_of(text);
  if (row->max_outputs == 1) model->nodes[0].output_count = 1;
  const delta_import_options_t options = {.training = training, .as_exported = !training, .levers = DELTA_LEVERS_ALL};
  delta_graph_t *graph = NULL;
  delta_import_facts_t facts;
  delta_status_t status = delta_import(model, &options, delta_allocator_system(), &graph, &facts);
  if (status == NULL) {
    delta_status_t check = delta_graph_check(graph);
    cr_expect_null(check, "%s: %s", text, delta_status_message(check));
    delta_status_free(check);
  } else {
    cr_expect_neq(delta_status_code(status), DELTA_STATUS_INTERNAL, "%s: %s", text, delta_status_message(status));
    cr_expect_not_null(strstr(delta_status_message(status), "n0"), "%s: %s", text, delta_status_message(status));
  }
  delta_status_free(status);
  delta_graph_free(graph);
  delta_model_free(model);
}

static void try_row(const delta_op_info_t *row) {
  static const int64_t opsets[] = {7, 10, 12, 13, 18, 27};
  char text[TEXT_BYTES], attribute[64];
  size_t turn = 0;
  for (size_t p = 0; p < sizeof patterns / sizeof *patterns; ++p) {
    write_model(row, opsets[turn++ % 6], patterns[p], "", "", text);
    import_anything(row, text, turn % 2 == 0);
    for (const char *at = row->attributes; *at != '\0'; at += *at == ',') {
      size_t length = strcspn(at, ",");
      (void)snprintf(attribute, sizeof attribute, "%.*s", (int)length, at);
      at += length;
      for (size_t v = 0; v < sizeof attribute_values / sizeof *attribute_values; ++v) {
        write_model(row, opsets[turn++ % 6], patterns[p], attribute, attribute_values[v], text);
        import_anything(row, text, turn % 2 == 0);
      }
    }
  }
}

// One parameter an operator: its index in the table.
ParameterizedTestParameters(import_extremes, operator) {
  size_t count = 0;
  (void)delta_op_table(&count);
  int *indices = cr_malloc(count * sizeof *indices);
  for (size_t k = 0; k < count; ++k) indices[k] = (int)k;
  return cr_make_param_array(int, indices, count);
}

ParameterizedTest(int *index, import_extremes, operator, .timeout = 60) {
  size_t count = 0;
  try_row(&delta_op_table(&count)[*index]);
}
