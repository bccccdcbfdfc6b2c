// Gradient of attention: one operator that computes the probabilities again.
#include "onnx/gradient/rule.h"
#include "onnx/graph/attention_dims.h"

delta_status_t delta_gradient_attention(const delta_gradient_args_t *args) {
  enum { FIRST = DELTA_ATTENTION_GRAD_INPUTS, RESULTS = 4 };
  const delta_attention_attrs_t *attrs = args->node->attrs;
  if (args->node->output_count > 1 && !delta_tensor_is_none(args->output_gradients[1])) {
    return delta_status_make(UNSUPPORTED, "node '%s': nothing flows back through the sums of an attention", args->node->name);
  }
  if (delta_tensor_is_none(args->output_gradients[0])) return DELTA_OK;
  delta_tensor_id_t inputs[FIRST + DELTA_ATTENTION_DRAW + 1] = {args->output_gradients[0], delta_rule_output(args, 0),
                                                                delta_rule_output(args, 1)};
  for (uint32_t k = 0; k < args->node->input_count; ++k) inputs[FIRST + k] = args->node->inputs[k];
  if (delta_tensor_is_none(inputs[DELTA_ATTENTION_GRAD_LOG_SUM])) {
    // The forward node kept no sums: make them again.
    delta_tensor_id_t again[2];
    delta_emit_node(args->emit, DELTA_CORE_ATTENTION, attrs, sizeof *attrs, args->node->inputs, args->node->input_count, again, 2, 2);
    inputs[DELTA_ATTENTION_GRAD_LOG_SUM] = again[1];
  }
  const bool mask_wanted = delta_rule_wants(args, DELTA_ATTENTION_MASK);
  delta_tensor_id_t outputs[RESULTS];
  delta_emit_node(args->emit, DELTA_CORE_ATTENTION_GRAD, attrs, sizeof *attrs, inputs, FIRST + args->node->input_count, outputs,
                  mask_wanted ? RESULTS : RESULTS - 1, 1u << DELTA_ATTENTION_MASK);
  for (uint32_t k = 0; k <= DELTA_ATTENTION_MASK; ++k) {
    if (delta_rule_wants(args, k)) args->input_gradients[k] = outputs[k];
  }
  return DELTA_OK;
}
