// The table of core operators, made from the rows.
#include "onnx/graph/core_ops.h"

static const delta_core_op_info_t core_ops[DELTA_CORE_OP_COUNT] = {
#define DELTA_CORE_ROW(id, op_name, min_in, max_in, min_out, max_out, gradient_name, op_flags) \
  [DELTA_CORE_##id] = {.name = #op_name,                                                       \
                       .min_inputs = min_in,                                                   \
                       .max_inputs = max_in,                                                   \
                       .min_outputs = min_out,                                                 \
                       .max_outputs = max_out,                                                 \
                       .flags = op_flags,                                                      \
                       .infer = delta_infer_##op_name,                                         \
                       .reference = delta_reference_##op_name,                                 \
                       .gradient = delta_gradient_##gradient_name},
    DELTA_CORE_OPS(DELTA_CORE_ROW)
#undef DELTA_CORE_ROW
};

const delta_core_op_info_t *delta_core_op_info(delta_core_op_t op) { return &core_ops[op]; }
