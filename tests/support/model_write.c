// Model write: one message per value, initializer and node of the loaded form.
#include "tests/support/model_write.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/model_file.h"
#include "tests/support/model_text.h"

// Types of attributes and fields of messages, as onnx.proto numbers them.
enum { ATTRIBUTE_FLOAT = 1, ATTRIBUTE_INT = 2, ATTRIBUTE_INTS = 7 };
enum { DIM_PARAM = 2, NODE_INPUT = 1, NODE_OUTPUT = 2, NODE_NAME = 3, NODE_OP_TYPE = 4 };

static delta_test_message_t value_message(const delta_model_value_t *value) {
  delta_test_message_t info = {0}, type = {0}, tensor = {0}, shape = {0};
  for (int32_t i = 0; i < value->type.rank; ++i) {
    const delta_model_dim_t *dim = &value->type.dims[i];
    delta_test_message_t message = {0};
    if (dim->size >= 0) delta_test_put_varint(&message, 1, (uint64_t)dim->size);
    if (dim->symbol) delta_test_put_text(&message, DIM_PARAM, dim->symbol);
    delta_test_put_message(&shape, 1, &message);
  }
  delta_test_put_varint(&tensor, 1, (uint64_t)value->type.onnx_type);
  if (value->type.has_shape) delta_test_put_message(&tensor, 2, &shape);
  delta_test_put_message(&type, 1, &tensor);
  delta_test_put_text(&info, 1, value->name);
  if (value->type.onnx_type) delta_test_put_message(&info, 2, &type);
  delta_test_message_free(&shape);
  delta_test_message_free(&type);
  return info;
}

static delta_test_message_t initializer_message(const delta_model_tensor_t *tensor) {
  return delta_test_tensor_raw(tensor->name, delta_dtype_to_onnx(tensor->dtype), tensor->shape.dims, (size_t)tensor->shape.rank,
                               tensor->data, tensor->size_bytes);
}

static void put_float(delta_test_message_t *message, uint32_t field, float value) {
  uint8_t tag = (uint8_t)(field << 3 | 5); // 32 bits
  delta_test_put_raw(message, &tag, 1);
  delta_test_put_raw(message, &value, sizeof value);
}

static delta_test_message_t attribute_message(const delta_attribute_t *attribute) {
  if (attribute->kind == DELTA_ATTRIBUTE_INT) return delta_test_attribute_int(attribute->name, attribute->i);
  delta_test_message_t message = {0};
  delta_test_put_text(&message, 1, attribute->name);
  if (attribute->kind == DELTA_ATTRIBUTE_FLOAT) {
    put_float(&message, 2, attribute->f);
    delta_test_put_varint(&message, 20, ATTRIBUTE_FLOAT);
  } else {
    cr_assert_eq(attribute->kind, DELTA_ATTRIBUTE_INTS, "attribute '%s' cannot be written", attribute->name);
    for (size_t i = 0; i < attribute->count; ++i) delta_test_put_varint(&message, 8, (uint64_t)attribute->ints[i]);
    delta_test_put_varint(&message, 20, ATTRIBUTE_INTS);
  }
  return message;
}

static const char *value_name(const delta_model_t *model, delta_value_id_t id) {
  return delta_value_is_none(id) ? "" : model->values[id.index].name;
}

static delta_test_message_t node_message(const delta_model_t *model, const delta_model_node_t *node) {
  delta_test_message_t message = {0};
  for (uint32_t i = 0; i < node->input_count; ++i) delta_test_put_text(&message, NODE_INPUT, value_name(model, node->inputs[i]));
  for (uint32_t i = 0; i < node->output_count; ++i) delta_test_put_text(&message, NODE_OUTPUT, value_name(model, node->outputs[i]));
  delta_test_put_text(&message, NODE_NAME, node->name);
  delta_test_put_text(&message, NODE_OP_TYPE, node->op_type);
  for (uint32_t i = 0; i < node->attribute_count; ++i) {
    delta_test_message_t attribute = attribute_message(&node->attributes[i]);
    delta_test_put_message(&message, DELTA_TEST_NODE_ATTRIBUTE, &attribute);
  }
  return message;
}

static void put_value(delta_test_message_t *graph, uint32_t field, const delta_model_t *model, delta_value_id_t id) {
  delta_test_message_t message = value_message(&model->values[id.index]);
  delta_test_put_message(graph, field, &message);
}

static delta_test_message_t graph_message(const delta_model_t *model) {
  delta_test_message_t graph = {0};
  for (uint32_t i = 0; i < model->node_count; ++i) {
    delta_test_message_t node = node_message(model, &model->nodes[i]);
    delta_test_put_message(&graph, DELTA_TEST_GRAPH_NODE, &node);
  }
  for (uint32_t i = 0; i < model->initializer_count; ++i) {
    delta_test_message_t initializer = initializer_message(&model->initializers[i]);
    delta_test_put_message(&graph, DELTA_TEST_GRAPH_INITIALIZER, &initializer);
  }
  for (uint32_t i = 0; i < model->input_count; ++i) put_value(&graph, DELTA_TEST_GRAPH_INPUT, model, model->inputs[i]);
  for (uint32_t i = 0; i < model->output_count; ++i) put_value(&graph, DELTA_TEST_GRAPH_OUTPUT, model, model->outputs[i]);
  return graph;
}

void delta_test_write_model(const char *text, const char *path) {
  delta_model_t *model = delta_test_model_of(text);
  char opset[24];
  snprintf(opset, sizeof opset, "%lld", (long long)model->opset);
  delta_test_message_t graph = graph_message(model);
  delta_test_message_t message = delta_test_model_message(&graph, opset);
  FILE *file = fopen(path, "wb");
  cr_assert_not_null(file, "cannot write '%s'", path);
  cr_assert_eq(fwrite(message.bytes, 1, message.count, file), message.count);
  cr_assert_eq(fclose(file), 0);
  delta_test_message_free(&message);
  delta_model_free(model);
}
