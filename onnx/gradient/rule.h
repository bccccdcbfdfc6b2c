// Shorthand for gradient functions, and what they share. Private to onnx/gradient.
#ifndef DELTA_ONNX_GRADIENT_RULE_H_
#define DELTA_ONNX_GRADIENT_RULE_H_

#include "onnx/gradient/gradient.h"

static inline delta_tensor_id_t delta_rule_input(const delta_gradient_args_t *args, uint32_t k) {
  return k < args->node->input_count ? args->node->inputs[k] : DELTA_TENSOR_NONE;
}
static inline delta_tensor_id_t delta_rule_output(const delta_gradient_args_t *args, uint32_t k) {
  return k < args->node->output_count ? args->node->outputs[k] : DELTA_TENSOR_NONE;
}
static inline const delta_shape_t *delta_rule_input_shape(const delta_gradient_args_t *args, uint32_t k) {
  return delta_emit_shape(args->emit, delta_rule_input(args, k));
}
static inline delta_dtype_t delta_rule_input_dtype(const delta_gradient_args_t *args, uint32_t k) {
  return delta_emit_dtype(args->emit, delta_rule_input(args, k));
}
static inline bool delta_rule_wants(const delta_gradient_args_t *args, uint32_t k) {
  return k < args->node->input_count && args->wanted[k];
}

// A moment in the growth of a graph.
typedef struct delta_graph_mark {
  size_t node_count, tensor_count;
} delta_graph_mark_t;
delta_graph_mark_t delta_graph_mark(const delta_graph_t *graph);

// As delta_autodiff_outputs, through the nodes added since
// `first`: the work is that of these nodes, however many there are before.
DELTA_MUST_USE delta_status_t delta_autodiff_since(delta_emit_t *emit, delta_graph_mark_t first, const delta_tensor_id_t *ys,
                                                   const delta_tensor_id_t *seeds, size_t y_count, const delta_tensor_id_t *xs,
                                                   size_t x_count, uint32_t levers, delta_tensor_id_t *out_gradients);

#endif // DELTA_ONNX_GRADIENT_RULE_H_
