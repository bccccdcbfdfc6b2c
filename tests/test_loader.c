// Loader: models written by the test, one table for each family: the structure of graphs, the storages of tensors, functions.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/model_file.h"
#include "tests/support/trial.h"
#include "tests/support/words.h"

enum { FLOAT = 1, UINT8 = 2, INT32 = 6, INT64 = 7, STRING = 8, BOOL = 9, FLOAT16 = 10, DOUBLE = 11, BFLOAT16 = 16 };

static const int64_t two[] = {2};

// A graph with the input x, the initializer w, these nodes and the output `output`.
static delta_test_message_t make_graph(const char *nodes, const char *output) {
  static const float values[] = {1.5f, -2.0f};
  delta_test_message_t graph = {0};
  delta_test_put_nodes(&graph, DELTA_TEST_GRAPH_NODE, nodes);
  delta_test_put_text(&graph, 2, "test");
  delta_test_message_t tensor = delta_test_tensor_raw("w", FLOAT, two, 1, values, sizeof values);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INITIALIZER, &tensor);
  delta_test_message_t input = delta_test_value_info("x", FLOAT, two, 1);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INPUT, &input);
  if (*output) {
    delta_test_message_t info = delta_test_value_info(output, FLOAT, two, 1);
    delta_test_put_message(&graph, DELTA_TEST_GRAPH_OUTPUT, &info);
  }
  return graph;
}

// Writes `message` (freed) as a file and loads it.
static delta_status_t load_message(delta_test_message_t *message, delta_allocator_t allocator, delta_model_t **out_model) {
  delta_test_folder_t folder;
  delta_test_folder_make(&folder);
  delta_test_folder_write(&folder, "model.onnx", message->bytes, message->count);
  delta_test_message_free(message);
  delta_status_t status = delta_test_load(&folder, "model.onnx", NULL, allocator, out_model);
  delta_test_folder_remove(&folder);
  return status;
}

// Checks the code of `status` and that the message has one of the words; frees it.
static void expect_status(delta_status_t status, delta_status_code_t code, const char *words, const char *name) {
  cr_expect_eq(delta_status_code(status), code, "%s: %s", name, delta_status_message(status));
  if (code != DELTA_STATUS_OK)
    cr_expect(delta_words_any(delta_status_message(status), words), "%s: no %s in: %s", name, words, delta_status_message(status));
  cr_expect_lt(strlen(delta_status_message(status)), 1000, "%s: a long message", name);
  delta_status_free(status);
}

// ---- Structure

typedef struct structure_case {
  char name[40];
  char nodes[120];
  char output[16];
  char opsets[40];
  delta_status_code_t code;
  char words[40];
  char order[60]; // names of the nodes of the model, in order
} structure_case_t;

ParameterizedTestParameters(loader, structure) {
  static structure_case_t cases[] = {
      {"one node", "Relu:x>y@a", "y", "15", DELTA_STATUS_OK, "", "a"},
      {"no node", "", "x", "15", DELTA_STATUS_OK, "", ""},
      {"initializer as output", "", "w", "15", DELTA_STATUS_OK, "", ""},
      {"reversed", "Relu:t>y@b;Add:x,w>t@a", "y", "15", DELTA_STATUS_OK, "", "a b"},
      {"sorted stays", "Add:x,w>t@a;Relu:x>u@b;Add:t,u>y@c", "y", "15", DELTA_STATUS_OK, "", "a b c"},
      {"names made", "Relu:x>t;Relu:t>y", "y", "15", DELTA_STATUS_OK, "", "Relu_0 Relu_1"},
      {"names made unique", "Relu:x>t@a;Relu:t>y@a", "y", "15", DELTA_STATUS_OK, "", "a a#2"},
      {"left-out input", "Clip:x,,w>y@a", "y", "15", DELTA_STATUS_OK, "", "a"},
      {"unused domain", "Relu:x>y@a", "y", "15,other:9999", DELTA_STATUS_OK, "", "a"},
      {"opset of old test data", "Not:x>y@a", "y", "1", DELTA_STATUS_OK, "", "a"},
      {"other domains only", "my.Op:x>y@a", "y", "my:3", DELTA_STATUS_OK, "", "a"},
      {"cycle", "Add:x,u>t@a;Relu:t>u@b;Relu:x>y@c", "y", "15", DELTA_STATUS_MALFORMED, "a", ""},
      {"own input", "Add:x,y>y@a", "y", "15", DELTA_STATUS_MALFORMED, "a", ""},
      {"output twice", "Relu:x>y@a;Relu:x>y@b", "y", "15", DELTA_STATUS_MALFORMED, "b", ""},
      {"output twice in a node", "Split:x>y,y@a", "y", "15", DELTA_STATUS_MALFORMED, "a", ""},
      {"output named as input", "Relu:w>x@a", "x", "15", DELTA_STATUS_MALFORMED, "a", ""},
      {"output named as initializer", "Relu:x>w@a", "w", "15", DELTA_STATUS_MALFORMED, "a", ""},
      {"unknown input", "Relu:nowhere>y@a", "y", "15", DELTA_STATUS_MALFORMED, "nowhere", ""},
      {"unknown output", "Relu:x>y@a", "z", "15", DELTA_STATUS_MALFORMED, "z", ""},
      {"no output", "Relu:x>y@a", "", "15", DELTA_STATUS_MALFORMED, "output", ""},
      {"no opset", "Relu:x>y@a", "y", "", DELTA_STATUS_MALFORMED, "opset", ""},
      {"no default opset", "Relu:x>y@a", "y", "my:1", DELTA_STATUS_MALFORMED, "opset", ""},
      {"domain not imported", "my.Op:x>y@a", "y", "15", DELTA_STATUS_MALFORMED, "my", ""},
      {"a newer opset", "Relu:x>y@a", "y", "30", DELTA_STATUS_OK, "", "a"},
      {"an opset of no version", "Relu:x>y@a", "y", "999", DELTA_STATUS_UNSUPPORTED, "not known", ""},
  };
  return cr_make_param_array(structure_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(structure_case_t *test, loader, structure) {
  delta_test_message_t graph = make_graph(test->nodes, test->output);
  delta_test_message_t message = delta_test_model_message(&graph, test->opsets);
  delta_model_t *model = NULL;
  delta_status_t status = load_message(&message, delta_allocator_system(), &model);
  expect_status(status, test->code, test->words, test->name);
  if (!model) return;
  char order[200] = "";
  for (uint32_t i = 0; i < model->node_count; ++i)
    snprintf(order + strlen(order), sizeof order - strlen(order), "%s%s", i ? " " : "", model->nodes[i].name);
  cr_expect_str_eq(order, test->order, "%s: nodes are %s", test->name, order);
  delta_model_free(model);
}

Test(loader, values_and_kinds) {
  delta_test_message_t graph = make_graph("Add:x,w>t@a;Split:t>,y@b", "y");
  delta_test_message_t message = delta_test_model_message(&graph, "15");
  delta_model_t *model = NULL;
  expect_status(load_message(&message, delta_allocator_system(), &model), DELTA_STATUS_OK, "", "model");
  cr_assert_not_null(model);
  delta_value_id_t x = delta_model_find_value(model, "x"), w = delta_model_find_value(model, "w"), y = delta_model_find_value(model, "y");
  cr_expect_eq(model->values[x.index].kind, DELTA_VALUE_INPUT);
  cr_expect_eq(model->values[w.index].kind, DELTA_VALUE_INITIALIZER);
  cr_expect_eq(model->values[y.index].kind, DELTA_VALUE_NODE_OUTPUT);
  cr_expect_eq(model->values[y.index].index, 1);
  cr_expect_eq(model->values[y.index].type.dtype, DELTA_DTYPE_FLOAT32);
  cr_expect_eq(model->values[y.index].type.dims[0].size, 2);
  cr_expect_eq(model->inputs[0].index, x.index);
  cr_expect_eq(model->nodes[0].inputs[1].index, w.index);
  cr_expect(delta_value_is_none(model->nodes[1].outputs[0]));
  cr_expect(delta_value_is_none(delta_model_find_value(model, "absent")));
  cr_expect_eq(model->opset, 15);
  cr_expect_eq(strlen(model->sha256), 64);
  delta_model_free(model);
}

// An input that repeats an initializer is no input; its type must agree.
Test(loader, initializer_is_also_input) {
  static const int64_t three[] = {3};
  for (int other_shape = 0; other_shape < 2; ++other_shape) {
    delta_test_message_t graph = make_graph("Add:x,w>y@a", "y");
    delta_test_message_t input = delta_test_value_info("w", FLOAT, other_shape ? three : two, 1);
    delta_test_put_message(&graph, DELTA_TEST_GRAPH_INPUT, &input);
    delta_test_message_t message = delta_test_model_message(&graph, "15");
    delta_model_t *model = NULL;
    delta_status_t status = load_message(&message, delta_allocator_system(), &model);
    expect_status(status, other_shape ? DELTA_STATUS_MALFORMED : DELTA_STATUS_OK, "w", "input that is an initializer");
    if (model) cr_expect_eq(model->input_count, 1);
    delta_model_free(model);
  }
}

// ---- Tensors

typedef struct tensor_case {
  char name[40];
  int32_t data_type;
  size_t rank;
  int64_t dims[3];
  uint32_t field;    // of TensorProto that gets `bytes`; 0: none
  uint8_t bytes[32]; // content of the field, packed
  size_t byte_count;
  delta_status_code_t code;
  size_t count; // elements wanted
  double values[4];
} tensor_case_t;

ParameterizedTestParameters(loader, tensor) {
  static tensor_case_t cases[] = {
      {"raw float32", FLOAT, 1, {2}, 9, {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}, 8, DELTA_STATUS_OK, 2, {1, -2}},
      {"float_data", FLOAT, 1, {2}, 4, {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0}, 8, DELTA_STATUS_OK, 2, {1, -2}},
      {"double_data", DOUBLE, 1, {1}, 10, {0, 0, 0, 0, 0, 0, 0xf8, 0x3f}, 8, DELTA_STATUS_OK, 1, {1.5}},
      {"int64_data", INT64, 1, {2}, 7, {5, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 11, DELTA_STATUS_OK, 2, {5, -2}},
      {"int32_data", INT32, 1, {2}, 5, {5, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 11, DELTA_STATUS_OK, 2, {5, -2}},
      {"float16 in int32_data", FLOAT16, 1, {2}, 5, {0x80, 0x78, 0x80, 0x80, 0x03}, 5, DELTA_STATUS_OK, 2, {1, -2}},
      {"bfloat16 in int32_data", BFLOAT16, 1, {1}, 5, {0x80, 0x7f}, 2, DELTA_STATUS_OK, 1, {1}},
      {"bool in int32_data", BOOL, 1, {3}, 5, {1, 0, 1}, 3, DELTA_STATUS_OK, 3, {1, 0, 1}},
      {"uint8 in int32_data", UINT8, 1, {2}, 5, {7, 0xff, 1}, 3, DELTA_STATUS_OK, 2, {7, 255}},
      {"raw bool", BOOL, 2, {1, 2}, 9, {0, 1}, 2, DELTA_STATUS_OK, 2, {0, 1}},
      {"scalar", FLOAT, 0, {0}, 9, {0, 0, 0x80, 0x3f}, 4, DELTA_STATUS_OK, 1, {1}},
      {"no elements", FLOAT, 2, {0, 3}, 0, {0}, 0, DELTA_STATUS_OK, 0, {0}},
      {"raw too short", FLOAT, 1, {2}, 9, {0, 0, 0x80, 0x3f}, 4, DELTA_STATUS_MALFORMED, 0, {0}},
      {"raw too long", FLOAT, 1, {1}, 9, {0}, 8, DELTA_STATUS_MALFORMED, 0, {0}},
      {"no data", FLOAT, 1, {2}, 0, {0}, 0, DELTA_STATUS_MALFORMED, 0, {0}},
      {"typed too short", INT64, 1, {3}, 7, {1, 2}, 2, DELTA_STATUS_MALFORMED, 0, {0}},
      {"floats in int64_data", FLOAT, 1, {2}, 7, {1, 2}, 2, DELTA_STATUS_MALFORMED, 0, {0}},
      {"uint8 out of range", UINT8, 1, {1}, 5, {0x80, 2}, 2, DELTA_STATUS_MALFORMED, 0, {0}},
      {"packed cut", INT64, 1, {2}, 7, {1, 0x80}, 2, DELTA_STATUS_MALFORMED, 0, {0}},
      {"packed odd", FLOAT, 1, {1}, 4, {1, 2, 3, 4, 5}, 5, DELTA_STATUS_MALFORMED, 0, {0}},
      {"negative dimension", FLOAT, 1, {-2}, 9, {0}, 8, DELTA_STATUS_MALFORMED, 0, {0}},
      {"product overflows to 0", FLOAT, 2, {INT64_C(1) << 32, INT64_C(1) << 32}, 9, {0}, 0, DELTA_STATUS_UNSUPPORTED, 0, {0}},
      {"bytes overflow", DOUBLE, 2, {INT64_C(1) << 31, INT64_C(1) << 30}, 9, {0}, 0, DELTA_STATUS_UNSUPPORTED, 0, {0}},
      {"undefined type", 0, 1, {1}, 9, {0}, 4, DELTA_STATUS_MALFORMED, 0, {0}},
      {"strings", STRING, 1, {1}, 6, {'a'}, 1, DELTA_STATUS_UNSUPPORTED, 0, {0}},
  };
  return cr_make_param_array(tensor_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(tensor_case_t *test, loader, tensor) {
  delta_test_message_t graph = make_graph("Relu:x>y@a", "y");
  delta_test_message_t tensor = delta_test_tensor_head("kernel", test->data_type, test->dims, test->rank);
  if (test->field) delta_test_put_bytes(&tensor, test->field, test->bytes, test->byte_count);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INITIALIZER, &tensor);
  delta_test_message_t message = delta_test_model_message(&graph, "15");
  delta_model_t *model = NULL;
  expect_status(load_message(&message, delta_allocator_system(), &model), test->code, "kernel", test->name);
  if (!model) return;
  const delta_model_tensor_t *read = &model->initializers[1];
  cr_assert_str_eq(read->name, "kernel");
  cr_assert_eq(read->size_bytes, test->count * delta_dtype_bytes(read->dtype), "%s: %zu bytes", test->name, read->size_bytes);
  for (size_t i = 0; i < test->count; ++i)
    cr_expect_eq(delta_element_load_double(read->data, read->dtype, i), test->values[i], "%s: element %zu", test->name, i);
  delta_model_free(model);
}

// Two data fields, a segment and a sparse tensor are refused by name.
Test(loader, tensor_stored_twice) {
  static const float values[] = {1, 2};
  delta_test_message_t graph = make_graph("Relu:x>y@a", "y");
  delta_test_message_t tensor = delta_test_tensor_raw("kernel", FLOAT, two, 1, values, sizeof values);
  delta_test_put_bytes(&tensor, 4, values, sizeof values);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INITIALIZER, &tensor);
  delta_test_message_t message = delta_test_model_message(&graph, "15");
  delta_model_t *model = NULL;
  expect_status(load_message(&message, delta_allocator_system(), &model), DELTA_STATUS_MALFORMED, "kernel", "stored twice");
}

// A large weight stays in the file: loading needs little memory, and reading gives its bytes, in raw_data as in float_data.
Test(loader, large_weights_stay_in_the_file) {
  enum { COUNT = 4 << 20 };
  static const uint32_t fields[] = {9, 4};
  static const int64_t dims[] = {COUNT};
  float *values = malloc(COUNT * sizeof *values);
  cr_assert_not_null(values);
  for (size_t i = 0; i < COUNT; ++i) values[i] = (float)i;
  for (size_t i = 0; i < 2; ++i) {
    delta_test_folder_t folder;
    delta_test_folder_make(&folder);
    delta_test_message_t graph = make_graph("Relu:x>y@a", "y");
    delta_test_message_t tensor = delta_test_tensor_head("kernel", FLOAT, dims, 1);
    delta_test_put_bytes(&tensor, fields[i], values, COUNT * sizeof *values);
    delta_test_put_message(&graph, DELTA_TEST_GRAPH_INITIALIZER, &tensor);
    delta_test_message_t message = delta_test_model_message(&graph, "15");
    delta_test_folder_write(&folder, "model.onnx", message.bytes, message.count);
    delta_test_message_free(&message);

    delta_test_allocator_t counter;
    delta_test_allocator_init(&counter, 0, DELTA_TEST_FAIL_ONCE);
    delta_model_t *model = NULL;
    expect_status(delta_test_load(&folder, "model.onnx", NULL, delta_test_allocator_interface(&counter), &model), DELTA_STATUS_OK, "",
                  "large");
    cr_assert_not_null(model);
    cr_expect_lt(counter.peak_bytes, 2u << 20, "loading took %zu bytes", (size_t)counter.peak_bytes);
    const delta_model_tensor_t *read = &model->initializers[1];
    cr_expect_eq(read->storage, DELTA_STORAGE_MODEL);
    float *copy = calloc(COUNT, sizeof *copy);
    expect_status(delta_model_read_tensor(model, read, copy, read->size_bytes), DELTA_STATUS_OK, "", "read");
    cr_expect_eq(memcmp(copy, values, COUNT * sizeof *values), 0, "field %u", fields[i]);
    free(copy);
    delta_model_free(model);
    cr_expect_eq(counter.live_bytes, 0);
    delta_test_folder_remove(&folder);
  }
  free(values);
}

// ---- Functions

typedef struct function_case {
  char name[40];
  char nodes[80];  // of the graph; my.F and my.G are functions
  char f_body[80]; // of F(a, b) -> (c, d)
  char g_body[80]; // of G(a, b) -> (c, d)
  delta_status_code_t code;
  char words[30];
  uint32_t node_count; // after inlining
} function_case_t;

ParameterizedTestParameters(loader, function) {
  static function_case_t cases[] = {
      {"called once", "my.F:x,w>y@call", "Add:a,b>c@n;Relu:c>d", "", DELTA_STATUS_OK, "", 2},
      {"called twice", "my.F:x,w>t@call;my.F:t,w>y@call", "Add:a,b>c@n;Relu:c>d", "", DELTA_STATUS_OK, "", 4},
      {"nested", "my.G:x,w>y@call", "Add:a,b>c@n;Relu:c>d", "my.F:a,b>c,d@inner", DELTA_STATUS_OK, "", 2},
      {"passes an input on", "my.F:x,w>t,y@call", "Relu:a>c@n;Identity:b>d", "", DELTA_STATUS_OK, "", 2},
      {"unsorted body", "my.F:x,w>y@call", "Relu:t>c@n;Add:a,b>t;Relu:t>d", "", DELTA_STATUS_OK, "", 3},
      {"fewer inputs", "my.F:x>y@call", "Clip:a,b>c@n;Relu:a>d", "", DELTA_STATUS_OK, "", 2},
      {"calls itself", "my.F:x,w>y@call", "my.F:a,b>c,d@n", "", DELTA_STATUS_MALFORMED, "F", 0},
      {"mutual recursion", "my.F:x,w>y@call", "my.G:a,b>c,d@n", "my.F:a,b>c,d@n", DELTA_STATUS_MALFORMED, "F|G", 0},
      {"unused recursion", "Relu:x>y@a", "my.F:a,b>c,d@n", "", DELTA_STATUS_OK, "", 1},
      {"too many inputs", "my.F:x,w,w>y@call", "Add:a,b>c@n;Relu:c>d", "", DELTA_STATUS_MALFORMED, "call", 0},
      {"too many outputs", "my.F:x,w>y,p,q@call", "Add:a,b>c@n;Relu:c>d", "", DELTA_STATUS_MALFORMED, "call", 0},
      {"reads an outer name", "my.F:x,w>y@call", "Add:a,x>c@n;Relu:c>d", "", DELTA_STATUS_MALFORMED, "x", 0},
      {"output not made", "my.F:x,w>y@call", "Add:a,b>c@n", "", DELTA_STATUS_MALFORMED, "d", 0},
      {"value made twice", "my.F:x,w>y@call", "Add:a,b>c@n;Relu:a>c@m;Relu:a>d", "", DELTA_STATUS_MALFORMED, "c", 0},
  };
  return cr_make_param_array(function_case_t, cases, sizeof cases / sizeof *cases);
}

static void put_function(delta_test_message_t *model, const char *name, const char *body) {
  if (!*body) return;
  delta_test_message_t function = {0};
  delta_test_put_text(&function, 1, name);
  delta_test_put_text(&function, 4, "a");
  delta_test_put_text(&function, 4, "b");
  delta_test_put_text(&function, 5, "c");
  delta_test_put_text(&function, 5, "d");
  delta_test_put_nodes(&function, DELTA_TEST_FUNCTION_NODE, body);
  delta_test_put_opsets(&function, DELTA_TEST_FUNCTION_OPSET, "14,my:1");
  delta_test_put_text(&function, 10, "my");
  delta_test_put_message(model, DELTA_TEST_MODEL_FUNCTION, &function);
}

ParameterizedTest(function_case_t *test, loader, function) {
  delta_test_message_t graph = make_graph(test->nodes, "y");
  delta_test_message_t message = delta_test_model_message(&graph, "15,my:1");
  put_function(&message, "F", test->f_body);
  put_function(&message, "G", test->g_body);
  delta_model_t *model = NULL;
  expect_status(load_message(&message, delta_allocator_system(), &model), test->code, test->words, test->name);
  if (!model) return;
  cr_expect_eq(model->node_count, test->node_count, "%s: %u nodes", test->name, model->node_count);
  for (uint32_t i = 0; i < model->node_count; ++i) {
    if (model->nodes[i].input_count > 0 && strcmp(test->name, "unused recursion") != 0)
      cr_expect_eq(model->nodes[i].opset, 14, "%s: a body has its own opset", test->name);
  }
  delta_model_free(model);
}

// Attributes of a call replace references in the body; defaults stand in for those a call leaves out; a reference to nothing is no attribute.
Test(loader, function_attributes) {
  delta_test_message_t graph = {0};
  for (int i = 0; i < 2; ++i) {
    delta_test_message_t call = {0};
    delta_test_put_text(&call, 1, i ? "t" : "x");
    delta_test_put_text(&call, 2, i ? "y" : "t");
    delta_test_put_text(&call, 4, "F");
    delta_test_put_text(&call, 7, "my");
    delta_test_message_t given = delta_test_attribute_int("outer", 5);
    if (i == 0) delta_test_put_message(&call, DELTA_TEST_NODE_ATTRIBUTE, &given);
    delta_test_message_free(&given);
    delta_test_put_message(&graph, DELTA_TEST_GRAPH_NODE, &call);
  }
  delta_test_message_t input = delta_test_value_info("x", FLOAT, two, 1), output = delta_test_value_info("y", FLOAT, two, 1);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INPUT, &input);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_OUTPUT, &output);
  delta_test_message_t message = delta_test_model_message(&graph, "15,my:1");

  delta_test_message_t function = {0}, node = {0};
  delta_test_put_text(&function, 1, "F");
  delta_test_put_text(&function, 4, "a");
  delta_test_put_text(&function, 5, "c");
  delta_test_put_text(&node, 1, "a");
  delta_test_put_text(&node, 2, "c");
  delta_test_put_text(&node, 4, "Flatten");
  delta_test_message_t axis = delta_test_attribute_reference("axis", "outer", 2),
                       none = delta_test_attribute_reference("none", "absent", 2);
  delta_test_put_message(&node, DELTA_TEST_NODE_ATTRIBUTE, &axis);
  delta_test_put_message(&node, DELTA_TEST_NODE_ATTRIBUTE, &none);
  delta_test_put_message(&function, DELTA_TEST_FUNCTION_NODE, &node);
  delta_test_put_opsets(&function, DELTA_TEST_FUNCTION_OPSET, "15");
  delta_test_put_text(&function, 10, "my");
  delta_test_message_t fallback = delta_test_attribute_int("outer", 9);
  delta_test_put_message(&function, 11, &fallback);
  delta_test_put_message(&message, DELTA_TEST_MODEL_FUNCTION, &function);

  delta_model_t *model = NULL;
  expect_status(load_message(&message, delta_allocator_system(), &model), DELTA_STATUS_OK, "", "attributes");
  cr_assert_not_null(model);
  cr_assert_eq(model->node_count, 2);
  for (uint32_t i = 0; i < 2; ++i) {
    const delta_attribute_t *attribute = delta_model_node_attribute(&model->nodes[i], "axis");
    cr_assert_not_null(attribute);
    cr_expect_eq(attribute->i, i ? 9 : 5);
    cr_expect_null(delta_model_node_attribute(&model->nodes[i], "none"));
  }
  delta_model_free(model);
}

// Functions that call the one before twice: 2^30 nodes, refused without making them.
Test(loader, functions_that_double) {
  delta_test_message_t graph = make_graph("my.F30:x>y@call", "y");
  delta_test_message_t message = delta_test_model_message(&graph, "15,my:1");
  for (int i = 0; i <= 30; ++i) {
    char name[16], body[80];
    snprintf(name, sizeof name, "F%d", i);
    snprintf(body, sizeof body, i ? "my.F%d:a>t;my.F%d:t>c" : "Relu:a>c", i - 1, i - 1);
    delta_test_message_t function = {0};
    delta_test_put_text(&function, 1, name);
    delta_test_put_text(&function, 4, "a");
    delta_test_put_text(&function, 5, "c");
    delta_test_put_nodes(&function, DELTA_TEST_FUNCTION_NODE, body);
    delta_test_put_opsets(&function, DELTA_TEST_FUNCTION_OPSET, "15,my:1");
    delta_test_put_text(&function, 10, "my");
    delta_test_put_message(&message, DELTA_TEST_MODEL_FUNCTION, &function);
  }
  delta_test_allocator_t counter;
  delta_test_allocator_init(&counter, 0, DELTA_TEST_FAIL_ONCE);
  delta_model_t *model = NULL;
  expect_status(load_message(&message, delta_test_allocator_interface(&counter), &model), DELTA_STATUS_UNSUPPORTED, "F30", "doubling");
  cr_expect_lt(counter.peak_bytes, 4u << 20);
  cr_expect_eq(counter.live_bytes, 0);
}

// ---- Limits and faults

// 200000 empty nodes are 400 kB on disk, and would be many times that unpacked.
Test(loader, memory_is_capped) {
  delta_test_folder_t folder;
  char path[DELTA_TEST_PATH_BYTES];
  delta_test_folder_make(&folder);
  delta_test_message_t graph = {0};
  for (int i = 0; i < 200000; ++i) delta_test_put_bytes(&graph, DELTA_TEST_GRAPH_NODE, NULL, 0);
  delta_test_message_t message = delta_test_model_message(&graph, "15");
  delta_test_folder_write(&folder, "model.onnx", message.bytes, message.count);
  delta_test_message_free(&message);
  delta_model_options_t options = {.path = delta_test_folder_path(&folder, "model.onnx", path), .memory_limit_bytes = 8 << 20};
  delta_model_t *model = NULL;
  expect_status(delta_model_load(&options, delta_allocator_system(), &model), DELTA_STATUS_OUT_OF_MEMORY, "memory", "cap");
  delta_test_folder_remove(&folder);
}

// Sub-graphs inside each other are refused before anything recurses over them.
Test(loader, nesting_is_bounded) {
  delta_test_message_t graph = {0};
  delta_test_put_nodes(&graph, DELTA_TEST_GRAPH_NODE, "Relu:x>y");
  for (int i = 0; i < 300; ++i) {
    delta_test_message_t attribute = {0}, node = {0}, outer = {0};
    delta_test_put_message(&attribute, 6, &graph);
    delta_test_put_message(&node, DELTA_TEST_NODE_ATTRIBUTE, &attribute);
    delta_test_put_message(&outer, DELTA_TEST_GRAPH_NODE, &node);
    graph = outer;
  }
  delta_test_message_t message = delta_test_model_message(&graph, "15");
  delta_model_t *model = NULL;
  expect_status(load_message(&message, delta_allocator_system(), &model), DELTA_STATUS_MALFORMED, "nested", "nesting");
}

// Every allocation fails once, and from then on.
Test(loader, allocations_that_fail) {
  delta_test_folder_t folder;
  delta_test_folder_make(&folder);
  delta_test_message_t graph = make_graph("my.F:x,w>t@call;Relu:u>y@b;Clip:t,,w>u", "y");
  delta_test_message_t tensor = delta_test_tensor_head("outside", FLOAT, two, 1);
  delta_test_put_external(&tensor, "location", "data.bin");
  delta_test_put_varint(&tensor, DELTA_TEST_TENSOR_LOCATION, 1);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INITIALIZER, &tensor);
  delta_test_message_t message = delta_test_model_message(&graph, "15,my:1");
  put_function(&message, "F", "Add:a,b>t@n;Relu:t>c;Relu:c>d");
  delta_test_folder_write(&folder, "model.onnx", message.bytes, message.count);
  delta_test_folder_write(&folder, "data.bin", "12345678", 8);
  delta_test_message_free(&message);
  for (int failure = DELTA_TEST_FAIL_ONCE; failure <= DELTA_TEST_FAIL_FROM_THEN_ON; ++failure) {
    for (delta_test_trial_t trial = {.failure = (delta_test_failure_t)failure}; delta_test_trial_begin(&trial);) {
      delta_model_t *model = NULL;
      delta_status_t status = delta_test_load(&folder, "model.onnx", NULL, delta_test_trial_allocator(&trial), &model);
      delta_model_free(model);
      delta_test_trial_end(&trial, status, "load");
    }
  }
  delta_test_folder_remove(&folder);
}
