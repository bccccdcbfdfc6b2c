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

#endif // DELTA_ONNX_GRADIENT_RULE_H_
