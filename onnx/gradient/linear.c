// Gradients of matrix products and convolutions. Weight gradients come before data gradients: they are final sooner, so an update may follow at once.
#include "onnx/gradient/rule.h"

// Rows of a matrix product whose other operand is one matrix for all batches: [..., m, k] as [all rows, k].
static delta_tensor_id_t flatten_rows(delta_emit_t *emit, delta_tensor_id_t x) {
  const delta_shape_t shape = *delta_emit_shape(emit, x);
  const delta_shape_t flat = {.rank = 2, .dims = {delta_shape_count_range(&shape, 0, shape.rank - 1), shape.dims[shape.rank - 1]}};
  return delta_emit_view(emit, x, &flat);
}

// y = a b: db = a' dy, or dy' a where b is stored transposed.
static delta_tensor_id_t matmul_by_b(const delta_gradient_args_t *args, const delta_matmul_attrs_t *attrs, delta_tensor_id_t dy) {
  delta_emit_t *emit = args->emit;
  delta_tensor_id_t a = delta_rule_input(args, 0);
  const delta_shape_t shape = *delta_rule_input_shape(args, 1);
  // One matrix for a whole batch of rows: a single product sums over the batch, where a batched one would have to be reduced afterwards.
  if (delta_shape_count_range(&shape, 0, shape.rank - 2) == 1 && !attrs->transpose_a) {
    a = flatten_rows(emit, a);
    dy = flatten_rows(emit, dy);
  }
  const delta_tensor_id_t product = attrs->transpose_b ? delta_emit_matmul(emit, dy, a, true, attrs->transpose_a)
                                                       : delta_emit_matmul(emit, a, dy, !attrs->transpose_a, false);
  if (delta_emit_shape(emit, product)->rank < shape.rank) return delta_emit_view(emit, product, &shape);
  return delta_emit_sum_to(emit, product, &shape);
}

// da = dy b', or b dy' where a is stored transposed.
static delta_tensor_id_t matmul_by_a(const delta_gradient_args_t *args, const delta_matmul_attrs_t *attrs, delta_tensor_id_t dy) {
  const delta_tensor_id_t b = delta_rule_input(args, 1);
  const delta_shape_t shape = *delta_rule_input_shape(args, 0);
  const delta_tensor_id_t product = attrs->transpose_a ? delta_emit_matmul(args->emit, b, dy, attrs->transpose_b, true)
                                                       : delta_emit_matmul(args->emit, dy, b, false, !attrs->transpose_b);
  if (delta_emit_shape(args->emit, product)->rank < shape.rank) return delta_emit_view(args->emit, product, &shape);
  return delta_emit_sum_to(args->emit, product, &shape);
}

delta_status_t delta_gradient_matmul(const delta_gradient_args_t *args) {
  const delta_matmul_attrs_t *attrs = args->node->attrs;
  const delta_tensor_id_t dy = args->output_gradients[0];
  if (args->wanted[1]) args->input_gradients[1] = matmul_by_b(args, attrs, dy);
  if (delta_rule_wants(args, 3)) args->input_gradients[3] = delta_emit_sum_to(args->emit, dy, delta_rule_input_shape(args, 3));
  if (args->wanted[0]) args->input_gradients[0] = matmul_by_a(args, attrs, dy);
  if (delta_rule_wants(args, 2)) args->input_gradients[2] = dy;
  return DELTA_OK;
}

// The three convolutions are bilinear forms of one trilinear function of data, weight and result: the gradient of each by either operand is one
// of the other two, with the same attributes.
static delta_tensor_id_t conv_forward(delta_emit_t *emit, const delta_conv_attrs_t *attrs, delta_tensor_id_t x, delta_tensor_id_t w) {
  return DELTA_EMIT(emit, CONV, *attrs, x, w);
}
static delta_tensor_id_t conv_data(delta_emit_t *emit, const delta_conv_attrs_t *attrs, delta_tensor_id_t dy, delta_tensor_id_t w) {
  return DELTA_EMIT(emit, CONV_DATA, *attrs, dy, w);
}
static delta_tensor_id_t conv_weight(delta_emit_t *emit, const delta_conv_attrs_t *attrs, delta_tensor_id_t x, delta_tensor_id_t dy) {
  return DELTA_EMIT(emit, CONV_WEIGHT, *attrs, x, dy);
}

// The bias is added to every element of its channel.
static void bias_gradient(const delta_gradient_args_t *args, delta_tensor_id_t dy) {
  if (!delta_rule_wants(args, 2)) return;
  const uint32_t all = (1u << delta_emit_shape(args->emit, dy)->rank) - 1u;
  const delta_tensor_id_t sums = delta_emit_reduce(args->emit, DELTA_REDUCE_SUM, dy, all & ~2u);
  args->input_gradients[2] = delta_emit_view(args->emit, sums, delta_rule_input_shape(args, 2));
}

delta_status_t delta_gradient_conv(const delta_gradient_args_t *args) {
  const delta_conv_attrs_t *attrs = args->node->attrs;
  const delta_tensor_id_t x = delta_rule_input(args, 0), w = delta_rule_input(args, 1), dy = args->output_gradients[0];
  if (args->wanted[1]) args->input_gradients[1] = conv_weight(args->emit, attrs, x, dy);
  bias_gradient(args, dy);
  if (args->wanted[0]) args->input_gradients[0] = conv_data(args->emit, attrs, dy, w);
  return DELTA_OK;
}

delta_status_t delta_gradient_conv_data(const delta_gradient_args_t *args) {
  const delta_conv_attrs_t *attrs = args->node->attrs;
  const delta_tensor_id_t y = delta_rule_input(args, 0), w = delta_rule_input(args, 1), gradient = args->output_gradients[0];
  if (args->wanted[1]) args->input_gradients[1] = conv_weight(args->emit, attrs, gradient, y);
  bias_gradient(args, gradient);
  if (args->wanted[0]) args->input_gradients[0] = conv_forward(args->emit, attrs, gradient, w);
  return DELTA_OK;
}

delta_status_t delta_gradient_conv_weight(const delta_gradient_args_t *args) {
  const delta_conv_attrs_t *attrs = args->node->attrs;
  const delta_tensor_id_t x = delta_rule_input(args, 0), y = delta_rule_input(args, 1), gradient = args->output_gradients[0];
  if (args->wanted[1]) args->input_gradients[1] = conv_forward(args->emit, attrs, x, gradient);
  if (args->wanted[0]) args->input_gradients[0] = conv_data(args->emit, attrs, y, gradient);
  return DELTA_OK;
}
