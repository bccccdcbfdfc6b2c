// One node: a graph of inputs and a single node, evaluated by the reference run.
#include "tests/support/one_node.h"

#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "onnx/graph/infer.h"
#include "onnx/reference/run.h"

enum { MOST_OPERANDS = 16 };

delta_test_tensor_t delta_test_tensor_of(delta_dtype_t dtype, const delta_shape_t *shape, const double *values) {
  const size_t count = (size_t)delta_shape_count(shape);
  delta_test_tensor_t tensor = {dtype, *shape, calloc(count + 1, sizeof(double))};
  if (tensor.values == NULL) abort();
  if (values) memcpy(tensor.values, values, count * sizeof(double));
  return tensor;
}

delta_test_tensor_t delta_test_tensor_random(delta_dtype_t dtype, const delta_shape_t *shape, uint64_t stream) {
  delta_test_tensor_t tensor = delta_test_tensor_of(dtype, shape, NULL);
  const uint64_t key = delta_random_key(1, 0, stream);
  for (int64_t i = 0; i < delta_shape_count(shape); ++i) {
    double sum = 0;
    for (uint64_t word = 0; word < 4; ++word) sum += (double)delta_random_uniform(delta_random_word(key, 4 * (uint64_t)i + word));
    tensor.values[i] = sum - 2;
  }
  return tensor;
}

void delta_test_tensor_free(delta_test_tensor_t *tensor) {
  free(tensor->values);
  *tensor = (delta_test_tensor_t){0};
}

double delta_test_dot(const delta_test_tensor_t *a, const delta_test_tensor_t *b) {
  double sum = 0;
  for (int64_t i = 0; i < delta_shape_count(&a->shape); ++i) sum += a->values[i] * b->values[i];
  return sum;
}

delta_status_t delta_test_add_node(delta_graph_t *graph, const delta_test_node_t *wanted, delta_tensor_id_t *inputs, uint32_t input_count,
                                   delta_tensor_id_t *outputs, uint32_t output_count) {
  delta_node_t node = {.op = wanted->op,
                       .name = "node",
                       .inputs = inputs,
                       .input_count = input_count,
                       .outputs = outputs,
                       .output_count = output_count,
                       .attrs = wanted->attrs,
                       .attrs_bytes = wanted->attrs_bytes};
  delta_dtype_t types[MOST_OPERANDS];
  delta_shape_t shapes[MOST_OPERANDS];
  DELTA_RETURN_IF_ERROR(delta_infer_node(&(delta_infer_args_t){graph, &node, types, shapes}));
  for (uint32_t k = 0; k < output_count; ++k) {
    const delta_tensor_t tensor = {.name = "output",
                                   .dtype = types[k],
                                   .shape = shapes[k],
                                   .producer_output = k,
                                   .storage = DELTA_TENSOR_NONE,
                                   .state = DELTA_INDEX_NONE};
    DELTA_RETURN_IF_ERROR(delta_graph_append_tensor(graph, &tensor, &outputs[k]));
  }
  delta_node_id_t id;
  return delta_graph_append_node(graph, &node, &id);
}

static void fill(void *buffer, const delta_test_tensor_t *tensor) {
  for (int64_t i = 0; i < delta_shape_count(&tensor->shape); ++i)
    delta_element_store_double(buffer, tensor->dtype, (size_t)i, tensor->values[i]);
}

static delta_test_tensor_t read_tensor(const void *buffer, const delta_tensor_t *from) {
  delta_test_tensor_t tensor = delta_test_tensor_of(from->dtype, &from->shape, NULL);
  for (int64_t i = 0; i < delta_shape_count(&from->shape); ++i)
    tensor.values[i] = delta_element_load_double(buffer, from->dtype, (size_t)i);
  return tensor;
}

delta_status_t delta_test_run_node_with(delta_allocator_t allocator, const delta_test_node_t *node,
                                        const delta_test_tensor_t *const *inputs, uint32_t input_count, delta_test_tensor_t *outputs,
                                        uint32_t output_count) {
  static const char *const names[MOST_OPERANDS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p"};
  memset(outputs, 0, output_count * sizeof *outputs);
  delta_graph_t *graph = NULL;
  delta_reference_values_t values = {0};
  delta_tensor_id_t input_ids[MOST_OPERANDS], output_ids[MOST_OPERANDS];
  delta_status_t status = delta_graph_create(delta_allocator_system(), &graph);
  if (status) goto cleanup;
  for (uint32_t k = 0; k < input_count; ++k) {
    input_ids[k] = DELTA_TENSOR_NONE;
    if (inputs[k])
      DELTA_GOTO_IF_ERROR(status, delta_graph_add_input(graph, names[k], inputs[k]->dtype, &inputs[k]->shape, &input_ids[k]), cleanup);
  }
  DELTA_GOTO_IF_ERROR(status, delta_test_add_node(graph, node, input_ids, input_count, output_ids, output_count), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_reference_values_init(graph, allocator, &values), cleanup);
  for (uint32_t k = 0; k < input_count; ++k)
    if (inputs[k]) fill(delta_reference_value(&values, input_ids[k]), inputs[k]);
  DELTA_GOTO_IF_ERROR(status, delta_reference_run_graph(&values), cleanup);
  for (uint32_t k = 0; k < output_count; ++k)
    outputs[k] = read_tensor(delta_reference_value(&values, output_ids[k]), delta_graph_tensor(graph, output_ids[k]));
cleanup:
  delta_reference_values_deinit(&values);
  delta_graph_free(graph);
  return status;
}

delta_status_t delta_test_run_node(const delta_test_node_t *node, const delta_test_tensor_t *const *inputs, uint32_t input_count,
                                   delta_test_tensor_t *outputs, uint32_t output_count) {
  return delta_test_run_node_with(delta_allocator_system(), node, inputs, input_count, outputs, output_count);
}
