// Export: models written by the test are loaded, exported with new values, and loaded again.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "onnx/export.h"
#include "tests/support/model_file.h"
#include "tests/support/words.h"

enum { FLOAT = 1, INT64 = 7, FLOAT16 = 10 };

static const int64_t two[] = {2};
static const float one_two[] = {1, 2};

// How new values are made: every floating-point initializer whose name begins with a letter of `letters` becomes its value plus `add`.
typedef struct values {
  const delta_model_t *model;
  const char *letters;
  double add;
  const char *fails_at; // a name whose value cannot be read
  uint8_t lent[8192];
} values_t;

static delta_status_t new_value(void *self, const char *name, size_t size_bytes, const void **out_value) {
  values_t *values = self;
  const delta_model_value_t *value = &values->model->values[delta_model_find_value(values->model, name).index];
  const delta_model_tensor_t *tensor = &values->model->initializers[value->index];
  cr_assert_eq(tensor->size_bytes, size_bytes);
  if (values->fails_at && strcmp(name, values->fails_at) == 0) return delta_status_make(IO, "the value of '%s' cannot be read", name);
  bool is_replaced = strchr(values->letters, name[0]) && delta_dtype_is_float(tensor->dtype);
  *out_value = is_replaced ? values->lent : NULL;
  if (!is_replaced) return DELTA_OK;
  cr_assert_leq(size_bytes, sizeof values->lent);
  DELTA_RETURN_IF_ERROR(delta_model_read_tensor(values->model, tensor, values->lent, size_bytes));
  for (size_t i = 0; i < size_bytes / delta_dtype_bytes(tensor->dtype); ++i)
    delta_element_store_double(values->lent, tensor->dtype, i, delta_element_load_double(values->lent, tensor->dtype, i) + values->add);
  return DELTA_OK;
}

static delta_model_t *load(const delta_test_folder_t *folder, const char *name) {
  delta_model_t *model = NULL;
  delta_status_t status = delta_test_load(folder, name, NULL, delta_allocator_system(), &model);
  cr_assert_null(status, "%s: %s", name, delta_status_message(status));
  return model;
}

static delta_status_t export_as(const delta_test_folder_t *folder, const delta_model_t *model, const char *name, bool for_training,
                                const char *letters) {
  char path[DELTA_TEST_PATH_BYTES];
  values_t values = {.model = model, .letters = letters, .add = 10};
  delta_export_options_t options = {
      .path = delta_test_folder_path(folder, name, path), .for_training = for_training, .find_value = new_value, .self = &values};
  return delta_model_export(model, &options);
}

static void expect_ok(delta_status_t status, const char *name) { cr_assert_null(status, "%s: %s", name, delta_status_message(status)); }

// Element `index` of initializer `name`.
static double element(const delta_model_t *model, const char *name, size_t index) {
  delta_value_id_t id = delta_model_find_value(model, name);
  cr_assert_not(delta_value_is_none(id), "no '%s'", name);
  const delta_model_tensor_t *tensor = &model->initializers[model->values[id.index].index];
  void *data = malloc(tensor->size_bytes);
  expect_ok(delta_model_read_tensor(model, tensor, data, tensor->size_bytes), name);
  double value = delta_element_load_double(data, tensor->dtype, index);
  free(data);
  return value;
}

static void put_initializer(delta_test_message_t *graph, const char *name) {
  delta_test_message_t tensor = delta_test_tensor_raw(name, FLOAT, two, 1, one_two, sizeof one_two);
  delta_test_put_message(graph, DELTA_TEST_GRAPH_INITIALIZER, &tensor);
}

static void put_value(delta_test_message_t *graph, uint32_t field, const char *name) {
  delta_test_message_t value = delta_test_value_info(name, FLOAT, two, 1);
  delta_test_put_message(graph, field, &value);
}

static void write_model(const delta_test_folder_t *folder, const char *name, delta_test_message_t *graph, const char *opsets) {
  delta_test_message_t message = delta_test_model_message(graph, opsets);
  delta_test_folder_write(folder, name, message.bytes, message.count);
  delta_test_message_free(&message);
}

// ---- Forms of nodes

typedef struct form_case {
  char name[40];
  char nodes[120]; // @train marks the node that gets training_mode = 1
  char outputs[24];
  char opset[8];
  delta_status_code_t code;
  char exported[160]; // the nodes of the exported model: "Op:inputs>outputs", attributes counted behind '#'
} form_case_t;

ParameterizedTestParameters(export, form) {
  static form_case_t cases[] = {
      {"batch norm 15", "BatchNormalization:x,s,b,m,v>y,p,q@train", "y", "15", DELTA_STATUS_OK, "BatchNormalization:x,s,b,m,v>y#0"},
      {"batch norm 15, evaluating", "BatchNormalization:x,s,b,m,v>y@bn", "y", "15", DELTA_STATUS_OK, "BatchNormalization:x,s,b,m,v>y#0"},
      {"batch norm 9", "BatchNormalization:x,s,b,m,v>y,p,q,e,f@bn", "y", "9", DELTA_STATUS_OK, "BatchNormalization:x,s,b,m,v>y#0"},
      {"batch norm 9, evaluating", "BatchNormalization:x,s,b,m,v>y@bn", "y", "9", DELTA_STATUS_OK, "BatchNormalization:x,s,b,m,v>y#0"},
      {"statistics are outputs", "BatchNormalization:x,s,b,m,v>y,p,q@train", "y,q", "15", DELTA_STATUS_OK,
       "BatchNormalization:x,s,b,m,v>y#0;Identity:v>q#0"},
      {"statistics are read", "BatchNormalization:x,s,b,m,v>t,p,q@train;Add:t,p>y@a", "y", "15", DELTA_STATUS_OK,
       "BatchNormalization:x,s,b,m,v>t#0;Identity:m>p#0;Add:t,p>y#0"},
      {"saved statistics are read", "BatchNormalization:x,s,b,m,v>y,p,q,e,f@bn", "y,e", "9", DELTA_STATUS_UNSUPPORTED, "bn"},
      {"dropout 13", "Dropout:x,r>y,k@d", "y", "13", DELTA_STATUS_OK, "Identity:x>y#0"},
      {"dropout 10", "Dropout:x>y@train", "y", "10", DELTA_STATUS_OK, "Identity:x>y#0"},
      {"constants of dropout", "Constant:>p@p;Constant:>q@q;Constant:>t@t;Dropout:x,p,t>h@d;Add:h,q>y@a", "y", "13", DELTA_STATUS_OK,
       "Constant:>q#0;Identity:x>h#0;Add:h,q>y#0"},
      {"a constant read elsewhere", "Constant:>p@p;Dropout:x,p>h@d;Add:h,p>y@a", "y", "13", DELTA_STATUS_OK,
       "Constant:>p#0;Identity:x>h#0;Add:h,p>y#0"},
      {"mask is read", "Dropout:x,r>y,k@d", "y,k", "13", DELTA_STATUS_UNSUPPORTED, "d"},
      {"another domain's", "my.Dropout:x>y,k@d", "y", "13,my:1", DELTA_STATUS_OK, "Dropout:x>y,k#0"},
      {"others stay", "Relu:x>t@a;Relu:t>y@b", "y", "13", DELTA_STATUS_OK, "Relu:x>t#0;Relu:t>y#0"},
  };
  return cr_make_param_array(form_case_t, cases, sizeof cases / sizeof *cases);
}

// Nodes of `nodes` in messages of their own, with training_mode where the name is "train".
static void put_form_nodes(delta_test_message_t *graph, const char *nodes) {
  while (*nodes) {
    char node[120];
    size_t length = strcspn(nodes, ";");
    snprintf(node, sizeof node, "%.*s", (int)length, nodes);
    delta_test_message_t holder = {0}, attribute = delta_test_attribute_int("training_mode", 1);
    delta_test_put_nodes(&holder, DELTA_TEST_GRAPH_NODE, node);
    // holder is the field: tag, length in one byte, content. The attribute goes behind the content.
    cr_assert_lt(holder.count + attribute.count, 127);
    delta_test_message_t content = {0};
    delta_test_put_raw(&content, holder.bytes + 2, holder.count - 2);
    if (strstr(node, "@train")) delta_test_put_message(&content, DELTA_TEST_NODE_ATTRIBUTE, &attribute);
    delta_test_put_message(graph, DELTA_TEST_GRAPH_NODE, &content);
    delta_test_message_free(&attribute);
    delta_test_message_free(&holder);
    nodes += length + (nodes[length] == ';');
  }
}

static void describe_names(const delta_model_t *model, const delta_value_id_t *ids, uint32_t count, char out_text[200]) {
  for (uint32_t i = 0; i < count; ++i) {
    size_t used = strlen(out_text);
    snprintf(out_text + used, 200 - used, "%s%s", i ? "," : "", delta_value_is_none(ids[i]) ? "" : model->values[ids[i].index].name);
  }
}

static void describe(const delta_model_t *model, char out_text[200]) {
  *out_text = 0;
  for (uint32_t i = 0; i < model->node_count; ++i) {
    const delta_model_node_t *node = &model->nodes[i];
    snprintf(out_text + strlen(out_text), 200 - strlen(out_text), "%s%s:", i ? ";" : "", node->op_type);
    describe_names(model, node->inputs, node->input_count, out_text);
    snprintf(out_text + strlen(out_text), 200 - strlen(out_text), ">");
    describe_names(model, node->outputs, node->output_count, out_text);
    snprintf(out_text + strlen(out_text), 200 - strlen(out_text), "#%u", node->attribute_count);
  }
}

ParameterizedTest(form_case_t *test, export, form) {
  delta_test_folder_t folder;
  delta_test_message_t graph = {0};
  delta_test_folder_make(&folder);
  put_form_nodes(&graph, test->nodes);
  put_value(&graph, DELTA_TEST_GRAPH_INPUT, "x");
  for (const char *name = "s\0b\0m\0v\0r\0"; *name; name += 2) put_initializer(&graph, name);
  for (const char *output = test->outputs; *output; output += output[1] ? 2 : 1)
    put_value(&graph, DELTA_TEST_GRAPH_OUTPUT, (char[]){*output, 0});
  write_model(&folder, "model.onnx", &graph, test->opset);

  delta_model_t *model = load(&folder, "model.onnx");
  delta_status_t status = export_as(&folder, model, "out.onnx", false, "sbmv");
  cr_expect_eq(delta_status_code(status), test->code, "%s: %s", test->name, delta_status_message(status));
  if (status) {
    cr_expect(delta_words_any(delta_status_message(status), test->exported), "%s: %s", test->name, delta_status_message(status));
  } else {
    char text[200];
    delta_model_t *exported = load(&folder, "out.onnx");
    describe(exported, text);
    cr_expect_str_eq(text, test->exported, "%s: %s", test->name, text);
    for (const char *name = "s\0b\0m\0v\0"; *name; name += 2) cr_expect_eq(element(exported, name, 1), 12, "%s: '%s'", test->name, name);
    cr_expect_eq(element(exported, "r", 1), 2, "%s: a value changed that has none", test->name);
    delta_model_free(exported);
  }
  delta_status_free(status);
  delta_model_free(model);
  delta_test_folder_remove(&folder);
}

// A function's own nodes are rewritten too, by the function's opset.
Test(export, nodes_of_functions) {
  delta_test_folder_t folder;
  char text[200];
  delta_test_message_t graph = {0}, function = {0};
  delta_test_folder_make(&folder);
  delta_test_put_nodes(&graph, DELTA_TEST_GRAPH_NODE, "my.Block:x,s,s,s,s>y@call");
  put_value(&graph, DELTA_TEST_GRAPH_INPUT, "x");
  put_value(&graph, DELTA_TEST_GRAPH_OUTPUT, "y");
  put_initializer(&graph, "s");
  delta_test_message_t message = delta_test_model_message(&graph, "15,my:1");
  delta_test_put_text(&function, 1, "Block");
  for (const char *name = "x\0s\0b\0m\0v\0"; *name; name += 2) delta_test_put_text(&function, 4, name);
  delta_test_put_text(&function, 5, "y");
  delta_test_put_nodes(&function, DELTA_TEST_FUNCTION_NODE, "BatchNormalization:x,s,b,m,v>t,p,q,e,f;Dropout:t>y,k");
  delta_test_put_opsets(&function, DELTA_TEST_FUNCTION_OPSET, "9");
  delta_test_put_text(&function, 10, "my");
  delta_test_put_message(&message, DELTA_TEST_MODEL_FUNCTION, &function);
  delta_test_folder_write(&folder, "model.onnx", message.bytes, message.count);
  delta_test_message_free(&message);

  delta_model_t *model = load(&folder, "model.onnx");
  expect_ok(export_as(&folder, model, "out.onnx", false, ""), "export");
  delta_model_t *exported = load(&folder, "out.onnx");
  describe(exported, text);
  cr_expect_str_eq(text, "BatchNormalization:x,s,s,s,s>call/t#0;Identity:call/t>y#0", "%s", text);
  delta_model_free(exported);
  delta_model_free(model);
  delta_test_folder_remove(&folder);
}

// ---- Storages of values

// Every way to store elements gets new values, or keeps its own.
Test(export, typed_values) {
  static const uint8_t halves[] = {0x80, 0x78, 0x80, 0x80, 0x01}; // 1 and 2
  delta_test_folder_t folder;
  delta_test_folder_make(&folder);
  delta_test_message_t graph = {0};
  delta_test_put_nodes(&graph, DELTA_TEST_GRAPH_NODE, "Add:x,raw>y@a");
  put_value(&graph, DELTA_TEST_GRAPH_INPUT, "x");
  put_value(&graph, DELTA_TEST_GRAPH_OUTPUT, "y");
  put_initializer(&graph, "raw");
  delta_test_message_t packed = delta_test_tensor_head("packed", FLOAT, two, 1);
  delta_test_put_bytes(&packed, 4, one_two, sizeof one_two);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INITIALIZER, &packed);
  delta_test_message_t single = delta_test_tensor_head("single", FLOAT, two, 1);
  for (int i = 0; i < 2; ++i) {
    uint8_t tag = 4 << 3 | 5;
    delta_test_put_raw(&single, &tag, 1);
    delta_test_put_raw(&single, &one_two[i], 4);
  }
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INITIALIZER, &single);
  delta_test_message_t half = delta_test_tensor_head("half", FLOAT16, two, 1);
  delta_test_put_bytes(&half, 5, halves, sizeof halves);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INITIALIZER, &half);
  delta_test_message_t integers = delta_test_tensor_head("whole", INT64, two, 1);
  delta_test_put_bytes(&integers, 7, "\x01\x02", 2);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INITIALIZER, &integers);
  write_model(&folder, "model.onnx", &graph, "15");

  static const char *const names[] = {"raw", "packed", "single", "half", "whole"};
  delta_model_t *model = load(&folder, "model.onnx");
  for (int replaces = 0; replaces < 2; ++replaces) {
    expect_ok(export_as(&folder, model, "out.onnx", false, replaces ? "rpshw" : ""), "export");
    delta_model_t *exported = load(&folder, "out.onnx");
    for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
      double added = replaces && i < 4 ? 10 : 0;
      cr_expect_eq(element(exported, names[i], 0), 1 + added, "%s", names[i]);
      cr_expect_eq(element(exported, names[i], 1), 2 + added, "%s", names[i]);
      cr_expect_eq(exported->initializers[i].dtype, model->initializers[i].dtype, "%s", names[i]);
    }
    delta_model_free(exported);
  }
  delta_model_free(model);
  delta_test_folder_remove(&folder);
}

static void read_file(const delta_test_folder_t *folder, const char *name, char **out_data, size_t *out_size) {
  char path[DELTA_TEST_PATH_BYTES];
  expect_ok(delta_file_read_all(delta_test_folder_path(folder, name, path), 1 << 20, delta_allocator_system(), out_data, out_size), name);
}

static void expect_same_file(const delta_test_folder_t *folder, const char *a, const char *b) {
  char *data_a = NULL, *data_b = NULL;
  size_t size_a = 0, size_b = 0;
  read_file(folder, a, &data_a, &size_a);
  read_file(folder, b, &data_b, &size_b);
  cr_expect(size_a == size_b && memcmp(data_a, data_b, size_a) == 0, "%s and %s differ", a, b);
  free(data_a);
  free(data_b);
}

// Without new values the training form is the same file, with everything in it that Delta does not know.
Test(export, unknown_fields_stay) {
  delta_test_folder_t folder;
  delta_test_folder_make(&folder);
  delta_test_message_t graph = {0};
  delta_test_put_nodes(&graph, DELTA_TEST_GRAPH_NODE, "Add:x,w>y@a");
  delta_test_put_varint(&graph, 900, 77);
  put_value(&graph, DELTA_TEST_GRAPH_INPUT, "x");
  put_value(&graph, DELTA_TEST_GRAPH_OUTPUT, "y");
  put_initializer(&graph, "w");
  delta_test_put_text(&graph, 10, "documentation");
  delta_test_message_t message = delta_test_model_message(&graph, "15");
  delta_test_put_text(&message, 901, "unknown");
  static const uint8_t group[] = {0xab, 0x3f, 0x08, 0x01, 0xac, 0x3f}; // field 1013 as a group
  delta_test_put_raw(&message, group, sizeof group);
  delta_test_folder_write(&folder, "model.onnx", message.bytes, message.count);
  delta_test_message_free(&message);
  delta_model_t *model = load(&folder, "model.onnx");
  expect_ok(export_as(&folder, model, "out.onnx", true, ""), "training form");
  expect_same_file(&folder, "model.onnx", "out.onnx");
  expect_ok(export_as(&folder, model, "out.onnx", false, ""), "inference form");
  expect_same_file(&folder, "model.onnx", "out.onnx");
  delta_model_free(model);
  delta_test_folder_remove(&folder);
}

// ---- External data

static void put_external(delta_test_message_t *graph, const char *name, const char *location, const char *offset, const char *length) {
  delta_test_message_t tensor = delta_test_tensor_head(name, FLOAT, two, 1);
  delta_test_put_external(&tensor, "location", location);
  if (offset) delta_test_put_external(&tensor, "offset", offset);
  if (length) delta_test_put_external(&tensor, "length", length);
  delta_test_put_varint(&tensor, DELTA_TEST_TENSOR_LOCATION, 1);
  delta_test_put_message(graph, DELTA_TEST_GRAPH_INITIALIZER, &tensor);
}

// A model with four tensors in one file, two of which share bytes, and one in another.
static void write_external_model(const delta_test_folder_t *folder) {
  float data[6];
  for (size_t i = 0; i < 6; ++i) data[i] = (float)i;
  delta_test_folder_write(folder, "first.bin", data, sizeof data);
  delta_test_folder_write(folder, "second.bin", data, sizeof data);
  delta_test_message_t graph = {0};
  delta_test_put_nodes(&graph, DELTA_TEST_GRAPH_NODE, "Add:x,a>y@n");
  put_value(&graph, DELTA_TEST_GRAPH_INPUT, "x");
  put_value(&graph, DELTA_TEST_GRAPH_OUTPUT, "y");
  put_external(&graph, "a", "first.bin", NULL, "8");    // 0 1
  put_external(&graph, "b", "first.bin", "8", "8");     // 2 3
  put_external(&graph, "c", "first.bin", "12", NULL);   // 3 4, shares with b
  put_external(&graph, "d", "./second.bin", "16", "8"); // 4 5
  write_model(folder, "model.onnx", &graph, "15");
}

static void expect_values(const delta_model_t *model, const char *name, double first, double second) {
  cr_expect_eq(element(model, name, 0), first, "%s is %g", name, element(model, name, 0));
  cr_expect_eq(element(model, name, 1), second, "%s is %g", name, element(model, name, 1));
}

Test(export, external_data) {
  delta_test_folder_t folder;
  delta_test_folder_make(&folder);
  write_external_model(&folder);
  delta_model_t *model = load(&folder, "model.onnx");
  expect_ok(export_as(&folder, model, "out.onnx", true, "abd"), "export");
  delta_model_t *exported = load(&folder, "out.onnx");
  expect_values(exported, "a", 10, 11);
  expect_values(exported, "b", 12, 13);
  expect_values(exported, "c", 3, 4);
  expect_values(exported, "d", 14, 15);
  cr_expect_str_eq(exported->initializers[0].location, "out.onnx.data");
  cr_expect_eq(exported->initializers[0].offset_bytes, 0);
  cr_expect_eq(exported->initializers[1].offset_bytes, 64, "a tensor that shares its place moves to the end");
  cr_expect_eq(exported->initializers[3].offset_bytes, 16);
  expect_values(model, "a", 0, 1);
  expect_values(model, "d", 4, 5);
  delta_model_free(exported);
  delta_model_free(model);
  delta_test_folder_remove(&folder);
}

// A model is never written over what it is read from, whatever the file is called.
Test(export, refuses_the_files_of_the_loaded_model) {
  static const char *const names[] = {"model.onnx", "./model.onnx", "link.onnx", "first.bin", "hard.bin"};
  delta_test_folder_t folder;
  char from[DELTA_TEST_PATH_BYTES], to[DELTA_TEST_PATH_BYTES];
  delta_test_folder_make(&folder);
  write_external_model(&folder);
  cr_assert_eq(symlink("model.onnx", delta_test_folder_path(&folder, "link.onnx", to)), 0);
  cr_assert_eq(link(delta_test_folder_path(&folder, "second.bin", from), delta_test_folder_path(&folder, "hard.bin", to)), 0);
  delta_model_t *model = load(&folder, "model.onnx");
  for (size_t i = 0; i < sizeof names / sizeof *names; ++i) {
    delta_status_t status = export_as(&folder, model, names[i], true, "abcd");
    cr_expect_eq(delta_status_code(status), DELTA_STATUS_INVALID_ARGUMENT, "%s: %s", names[i], delta_status_message(status));
    cr_expect(strstr(delta_status_message(status), names[i]) && strstr(delta_status_message(status), "another path"), "%s",
              delta_status_message(status));
    delta_status_free(status);
  }
  expect_values(model, "a", 0, 1);
  delta_model_free(model);
  delta_test_folder_remove(&folder);
}

// A new model whose data file would have the name of one that the loaded model needs takes another name.
Test(export, never_overwrites_the_data_of_the_loaded_model) {
  delta_test_folder_t folder;
  char from[DELTA_TEST_PATH_BYTES], to[DELTA_TEST_PATH_BYTES];
  delta_test_folder_make(&folder);
  delta_test_message_t graph = {0};
  delta_test_put_nodes(&graph, DELTA_TEST_GRAPH_NODE, "Add:x,a>y@n");
  put_value(&graph, DELTA_TEST_GRAPH_INPUT, "x");
  put_value(&graph, DELTA_TEST_GRAPH_OUTPUT, "y");
  put_external(&graph, "a", "out.onnx.data", "0", "8");
  write_model(&folder, "model.onnx", &graph, "15");
  delta_test_folder_write(&folder, "out.onnx.data", one_two, sizeof one_two);
  delta_model_t *model = load(&folder, "model.onnx");
  expect_ok(export_as(&folder, model, "out.onnx", true, "a"), "export");
  expect_values(model, "a", 1, 2);
  delta_model_t *exported = load(&folder, "out.onnx");
  expect_values(exported, "a", 11, 12);
  delta_model_free(exported);

  // A link in the place of the new data file is not followed.
  delta_test_folder_write(&folder, "precious", "content", 7);
  delta_test_folder_path(&folder, "precious", from);
  cr_assert_eq(symlink(from, delta_test_folder_path(&folder, "other.onnx.data", to)), 0);
  expect_ok(export_as(&folder, model, "other.onnx", true, "a"), "export over a link");
  char *content = NULL;
  size_t size_bytes = 0;
  read_file(&folder, "precious", &content, &size_bytes);
  cr_expect_str_eq(content, "content");
  free(content);
  exported = load(&folder, "other.onnx");
  cr_expect_str_eq(exported->initializers[0].location, "other.onnx.data1");
  expect_values(exported, "a", 11, 12);
  delta_model_free(exported);
  delta_model_free(model);
  delta_test_folder_remove(&folder);
}

// ---- Failures

// When a value cannot be read, the file that was there stays, and nothing is left beside it.
Test(export, failure_keeps_the_old_file) {
  delta_test_folder_t folder;
  char path[DELTA_TEST_PATH_BYTES];
  static const char *const names[] = {"a", "d"};
  delta_test_folder_make(&folder);
  write_external_model(&folder);
  delta_test_folder_write(&folder, "out.onnx", "old", 3);
  delta_model_t *model = load(&folder, "model.onnx");
  for (size_t i = 0; i < 2; ++i) {
    values_t values = {.model = model, .letters = "abcd", .add = 10, .fails_at = names[i]};
    delta_export_options_t options = {.path = delta_test_folder_path(&folder, "out.onnx", path), .find_value = new_value, .self = &values};
    delta_status_t status = delta_model_export(model, &options);
    cr_expect_eq(delta_status_code(status), DELTA_STATUS_IO);
    delta_status_free(status);
    char *content = NULL;
    size_t size_bytes = 0;
    read_file(&folder, "out.onnx", &content, &size_bytes);
    cr_expect_str_eq(content, "old");
    free(content);
    cr_expect_neq(access(delta_test_folder_path(&folder, "out.onnx.data", path), F_OK), 0);
  }
  delta_model_free(model);
  delta_test_folder_remove(&folder);
}

Test(export, changed_and_missing_files) {
  delta_test_folder_t folder;
  char path[DELTA_TEST_PATH_BYTES];
  delta_test_folder_make(&folder);
  write_external_model(&folder);
  delta_model_t *model = load(&folder, "model.onnx");
  cr_assert_eq(unlink(delta_test_folder_path(&folder, "second.bin", path)), 0);
  delta_status_t status = export_as(&folder, model, "out.onnx", true, "a");
  cr_expect_eq(delta_status_code(status), DELTA_STATUS_NOT_FOUND);
  delta_status_free(status);

  FILE *file = fopen(delta_test_folder_path(&folder, "model.onnx", path), "r+b");
  cr_assert_not_null(file);
  cr_assert_eq(fputc(0x10, file), 0x10);
  fclose(file);
  status = export_as(&folder, model, "out.onnx", true, "a");
  cr_expect_eq(delta_status_code(status), DELTA_STATUS_MISMATCH);
  delta_status_free(status);
  delta_model_free(model);
  delta_test_folder_remove(&folder);
}

Test(export, allocations_that_fail) {
  delta_test_folder_t folder;
  delta_test_folder_make(&folder);
  write_external_model(&folder);
  for (int failure = DELTA_TEST_FAIL_ONCE; failure <= DELTA_TEST_FAIL_FROM_THEN_ON; ++failure) {
    size_t loading_calls = 0;
    for (size_t n = 1;; ++n) {
      delta_test_allocator_t faults;
      delta_test_allocator_init(&faults, loading_calls ? loading_calls + n : 0, (delta_test_failure_t)failure);
      delta_model_t *model = NULL;
      expect_ok(delta_test_load(&folder, "model.onnx", NULL, delta_test_allocator_interface(&faults), &model), "load");
      if (loading_calls == 0) {
        // The first round only counts.
        loading_calls = faults.call_count;
        delta_model_free(model);
        continue;
      }
      delta_status_t status = export_as(&folder, model, "out.onnx", false, "abd");
      bool done = faults.call_count < faults.fail_at;
      cr_assert_eq(delta_status_code(status), done ? DELTA_STATUS_OK : DELTA_STATUS_OUT_OF_MEMORY, "allocation %zu: %s", n,
                   delta_status_message(status));
      delta_status_free(status);
      delta_model_free(model);
      cr_assert_eq(faults.live_bytes, 0, "allocation %zu leaks", n);
      if (done) break;
    }
  }
  delta_test_folder_remove(&folder);
}
