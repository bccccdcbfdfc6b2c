// Lowering of matrix products.
#include <math.h>

#include "onnx/lower/lower.h"

// alpha * product + beta * c; c may be NONE. One expression, so that nothing is stored in between.
static delta_tensor_id_t scale_and_add(delta_lower_t *lower, delta_tensor_id_t product, double alpha, delta_tensor_id_t c, double beta) {
  bool adds = !delta_tensor_is_none(c) && beta != 0.0;
  if (!adds && alpha == 1.0) return product;
  const delta_tensor_id_t inputs[2] = {product, c};
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, product);
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  uint16_t y = delta_expr_input(&builder, 0);
  if (alpha != 1.0) y = delta_expr_binary(&builder, DELTA_EXPR_MUL, y, delta_expr_real(&builder, alpha));
  if (adds) {
    uint16_t term = delta_expr_input(&builder, 1);
    if (beta != 1.0) term = delta_expr_binary(&builder, DELTA_EXPR_MUL, term, delta_expr_real(&builder, beta));
    y = delta_expr_binary(&builder, DELTA_EXPR_ADD, y, term);
  }
  delta_expr_output(&builder, y);
  return delta_emit_expr(&lower->emit, &builder, dtype, inputs, adds ? 2 : 1);
}

static bool broadcasts_to(const delta_shape_t *from, const delta_shape_t *to) {
  delta_shape_t joined;
  return delta_shape_broadcast(from, to, &joined) && delta_shape_equal(&joined, to);
}

delta_status_t delta_lower_gemm(delta_lower_t *lower) {
  delta_tensor_id_t a = delta_lower_required(lower, 0);
  delta_tensor_id_t b = delta_lower_required(lower, 1);
  delta_tensor_id_t c = delta_lower_input(lower, 2);
  double alpha = delta_lower_float(lower, "alpha", 1.0);
  double beta = delta_lower_float(lower, "beta", 1.0);
  bool transpose_a = delta_lower_int(lower, "transA", 0) != 0;
  bool transpose_b = delta_lower_int(lower, "transB", 0) != 0;
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  int32_t a_rank = delta_emit_shape(&lower->emit, a)->rank, b_rank = delta_emit_shape(&lower->emit, b)->rank;
  if (a_rank != 2 || b_rank != 2) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the inputs have ranks %d and %d; both must be matrices", a_rank, b_rank);
    return DELTA_OK;
  }
  if (!delta_dtype_is_float(delta_emit_dtype(&lower->emit, a)) && (alpha != floor(alpha) || beta != floor(beta))) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "alpha %g and beta %g with integer matrices", alpha, beta);
    return DELTA_OK;
  }
  delta_tensor_id_t y = delta_emit_matmul(&lower->emit, a, b, transpose_a, transpose_b);
  if (!delta_tensor_is_none(c) && delta_lower_same_types(lower, 0) &&
      !broadcasts_to(delta_emit_shape(&lower->emit, c), delta_emit_shape(&lower->emit, y))) {
    char c_text[DELTA_SHAPE_TEXT_BYTES], y_text[DELTA_SHAPE_TEXT_BYTES];
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "input 2 of shape %s does not broadcast to the product's %s",
                           delta_shape_text(delta_emit_shape(&lower->emit, c), c_text),
                           delta_shape_text(delta_emit_shape(&lower->emit, y), y_text));
  }
  if (delta_emit_ok(&lower->emit)) lower->outputs[0] = scale_and_add(lower, y, alpha, c, beta);
  return DELTA_OK;
}

// The product with a plain matrix on the right takes all leading dimensions as rows of one matrix: so does its gradient, without a
// sum over a batch.
static delta_tensor_id_t multiply_rows(delta_lower_t *lower, delta_tensor_id_t a, delta_tensor_id_t b) {
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, a);
  const delta_shape_t rows = {.rank = 2, .dims = {delta_shape_count_range(&shape, 0, shape.rank - 1), shape.dims[shape.rank - 1]}};
  delta_tensor_id_t y = delta_emit_matmul(&lower->emit, delta_emit_view(&lower->emit, a, &rows), b, false, false);
  delta_shape_t result = shape;
  result.dims[shape.rank - 1] = delta_emit_shape(&lower->emit, y)->dims[1];
  return delta_emit_view(&lower->emit, y, &result);
}

delta_status_t delta_lower_matmul(delta_lower_t *lower) {
  delta_tensor_id_t a = delta_lower_required(lower, 0);
  delta_tensor_id_t b = delta_lower_required(lower, 1);
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  const delta_shape_t a_shape = *delta_emit_shape(&lower->emit, a), b_shape = *delta_emit_shape(&lower->emit, b);
  if (a_shape.rank == 0 || b_shape.rank == 0) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "a scalar cannot be multiplied as a matrix");
    return DELTA_OK;
  }
  // A vector is a row on the left and a column on the right; the dimension of 1 goes from the result.
  bool row = a_shape.rank == 1, column = b_shape.rank == 1;
  if (row) a = delta_emit_view(&lower->emit, a, &(delta_shape_t){.rank = 2, .dims = {1, a_shape.dims[0]}});
  if (column) b = delta_emit_view(&lower->emit, b, &(delta_shape_t){.rank = 2, .dims = {b_shape.dims[0], 1}});
  bool rows = a_shape.rank > 2 && b_shape.rank <= 2;
  delta_tensor_id_t y = rows ? multiply_rows(lower, a, b) : delta_emit_matmul(&lower->emit, a, b, false, false);
  if ((row || column) && delta_emit_ok(&lower->emit)) {
    delta_shape_t shape = *delta_emit_shape(&lower->emit, y);
    if (column) shape.rank -= 1;
    if (row && column) {
      shape.rank = 0;
    } else if (row) {
      shape.dims[shape.rank - 2] = shape.dims[shape.rank - 1];
      shape.rank -= 1;
    }
    for (int32_t d = shape.rank; d < DELTA_MAX_RANK; ++d) shape.dims[d] = 0;
    y = delta_emit_view(&lower->emit, y, &shape);
  }
  lower->outputs[0] = y;
  return DELTA_OK;
}
