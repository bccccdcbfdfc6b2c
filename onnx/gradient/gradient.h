// Gradient: reverse-mode differentiation on the core operators.
#ifndef DELTA_ONNX_GRADIENT_GRADIENT_H_
#define DELTA_ONNX_GRADIENT_GRADIENT_H_

#include "onnx/graph/emit.h"
#include "onnx/levers.h"

// What an operator's gradient function sees. It emits into the graph that holds the node.
typedef struct delta_gradient_args {
  delta_emit_t *emit;
  const delta_node_t *node;                  // a copy: stays valid while nodes are added
  const delta_tensor_id_t *output_gradients; // one per output; NONE: nothing flows into that output
  const bool *wanted;                        // one per input: whether its gradient leads anywhere
  delta_tensor_id_t *input_gradients;        // to fill where wanted; NONE: zero
  uint32_t levers;
} delta_gradient_args_t;

// Emits the gradients of sum(seed * y) by each of xs, in phase BACKWARD, visiting only nodes between some x and y. out_gradients[i] is NONE where
// nothing flows. Several uses of a tensor sum in a fixed order. Weight gradients are emitted before data gradients.
// UNSUPPORTED names nodes on the path that are not differentiable. Integer and bool tensors carry no gradient.
DELTA_MUST_USE delta_status_t delta_autodiff(delta_emit_t *emit, delta_tensor_id_t y, delta_tensor_id_t seed, const delta_tensor_id_t *xs,
                                             size_t count, uint32_t levers, delta_tensor_id_t *out_gradients);

// As delta_autodiff, of the sum over several outputs ys[k] with seeds seeds[k] (NONE: that output counts nothing).
DELTA_MUST_USE delta_status_t delta_autodiff_outputs(delta_emit_t *emit, const delta_tensor_id_t *ys, const delta_tensor_id_t *seeds,
                                                     size_t y_count, const delta_tensor_id_t *xs, size_t x_count, uint32_t levers,
                                                     delta_tensor_id_t *out_gradients);

#endif // DELTA_ONNX_GRADIENT_GRADIENT_H_
