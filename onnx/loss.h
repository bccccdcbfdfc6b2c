// Loss: attaches a loss of build.h's table to an output of an imported graph.
//
// Definitions, those of PyTorch 2 (torch.nn.functional) with reduction "mean"; x is the output, y the label, n the count:
//   cross_entropy    sum(log(sum_c exp(x_c)) - x_y) / n over labels y != ignore_index; n is the number of those
//   nll              sum(-x_y) / n, over the same
//   mse              sum((x - y)^2) / n; n is the number of elements
//   l1               sum(|x - y|) / n
//   bce_with_logits  sum(max(x, 0) - x y + log(1 + exp(-|x|))) / n
//   output           the mean of the output's elements; n is the batch size
// A mean over no labels is 0 / 0: NaN.
#ifndef DELTA_ONNX_LOSS_H_
#define DELTA_ONNX_LOSS_H_

#include "onnx/build.h"
#include "onnx/graph/emit.h"

enum { DELTA_LOSS_MAX_HEADS = 3 };
// Tensors of an attached loss. `sum`, `count` and `mean` are scalars of the output's type; `count` may be a constant.
typedef struct delta_loss_values {
  delta_tensor_id_t output; // what the loss is taken of
  delta_tensor_id_t label;  // NONE for `output`
  delta_tensor_id_t sum, count, mean;
  int32_t class_axis; // of losses with class labels
  // Gradients that are already there when a loss runs in chunks: differentiation starts from them, and otherwise from the loss.
  delta_tensor_id_t heads[DELTA_LOSS_MAX_HEADS], head_gradients[DELTA_LOSS_MAX_HEADS];
  uint32_t head_count;
} delta_loss_values_t;

// Adds the input `label` and the loss in phase LOSS, and fills the label's part of the facts. INVALID_ARGUMENT: no loss given, no such output, an
// output of a wrong type or rank, a class axis out of range, a model input that has the label's name.
DELTA_MUST_USE delta_status_t delta_loss_attach(delta_emit_t *emit, const delta_build_options_t *options, delta_loss_values_t *out_values,
                                                delta_build_facts_t *out_facts);

// The number of labels that are not ignored and whose class has the largest score: a scalar of the output's type. For losses with class labels.
delta_tensor_id_t delta_loss_correct(delta_emit_t *emit, const delta_build_options_t *options, const delta_loss_values_t *values);

#endif // DELTA_ONNX_LOSS_H_
