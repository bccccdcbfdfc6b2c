// Expression tile: loads inputs in the expression's own type, runs it element by element, widens the results.
#include "onnx/reference/expr_tile.h"

void delta_expr_tile_init(delta_expr_tile_t *tile, const delta_reference_args_t *args, const delta_expr_t *expr, int32_t row_dim) {
  tile->args = args;
  tile->expr = expr;
  tile->real = expr->compute != DELTA_DTYPE_INT64;
  tile->row_dim = row_dim;
}

static void load_inputs(delta_expr_tile_t *tile, const delta_walk_t *walk, const int64_t *offsets, int64_t first, int64_t count) {
  uint16_t width = tile->expr->input_count;
  for (uint16_t k = 0; k < width; ++k) {
    int64_t stride = tile->row_dim >= 0 ? walk->strides[k][tile->row_dim] : 0;
    delta_row_t row = {delta_reference_input(tile->args, k)->dtype, offsets[k] + first * stride, stride};
    const void *data = tile->args->inputs[k];
    switch (tile->expr->compute) {
      case DELTA_DTYPE_FLOAT32:
        delta_row_load_float(data, row, count, tile->inputs.reals32 + k, width);
        break;
      case DELTA_DTYPE_FLOAT64:
        delta_row_load_double(data, row, count, tile->inputs.reals64 + k, width);
        break;
      default:
        delta_row_load_int64(data, row, count, tile->inputs.integers + k, width);
        break;
    }
  }
}

static void eval_element(delta_expr_tile_t *tile, int64_t i) {
  const delta_expr_t *expr = tile->expr;
  int64_t at = i * expr->input_count;
  delta_number_t *outputs = tile->outputs + i * expr->output_count;
  float reals32[DELTA_EXPR_MAX_OUTPUTS];
  double reals64[DELTA_EXPR_MAX_OUTPUTS];
  int64_t integers[DELTA_EXPR_MAX_OUTPUTS];
  switch (expr->compute) {
    case DELTA_DTYPE_FLOAT32:
      delta_expr_eval_float(expr, tile->inputs.reals32 + at, reals32);
      for (uint16_t k = 0; k < expr->output_count; ++k) outputs[k].real = (double)reals32[k];
      break;
    case DELTA_DTYPE_FLOAT64:
      delta_expr_eval_double(expr, tile->inputs.reals64 + at, reals64);
      for (uint16_t k = 0; k < expr->output_count; ++k) outputs[k].real = reals64[k];
      break;
    default:
      delta_expr_eval_int64(expr, tile->inputs.integers + at, integers);
      for (uint16_t k = 0; k < expr->output_count; ++k) outputs[k].integer = integers[k];
      break;
  }
}

void delta_expr_tile_eval(delta_expr_tile_t *tile, const delta_walk_t *walk, const int64_t *offsets, int64_t first, int64_t count) {
  load_inputs(tile, walk, offsets, first, count);
  for (int64_t i = 0; i < count; ++i) eval_element(tile, i);
}
