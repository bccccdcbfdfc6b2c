// POINTWISE by reference: the expression at every element of the broadcast shape; and EACH, set by set.
//
// A stretch of elements is loaded before any of its results is stored, so an output may have exactly the bytes of an input.
#include "onnx/graph/each.h"
#include "onnx/reference/expr_tile.h"

static void store_outputs(const delta_expr_tile_t *tile, int64_t start, int64_t count) {
  const delta_reference_args_t *args = tile->args;
  uint16_t width = tile->expr->output_count;
  for (uint16_t k = 0; k < width; ++k) {
    if (!args->outputs[k]) continue;
    const delta_pointwise_attrs_t *attrs = args->node->attrs;
    delta_row_t row = {attrs->dtypes[k], start, 1};
    if (tile->real) {
      delta_row_store_double(args->outputs[k], row, count, &tile->outputs[k].real, width);
    } else {
      delta_row_store_int64(args->outputs[k], row, count, &tile->outputs[k].integer, width);
    }
  }
}

delta_status_t delta_reference_pointwise(const delta_reference_args_t *args) {
  const delta_pointwise_attrs_t *attrs = args->node->attrs;
  int32_t row_dim = attrs->shape.rank - 1;
  int64_t row_count = row_dim >= 0 ? attrs->shape.dims[row_dim] : 1;

  delta_walk_t walk;
  delta_walk_init(&walk, &attrs->shape, attrs->expr.input_count);
  for (uint16_t k = 0; k < attrs->expr.input_count; ++k)
    delta_shape_broadcast_strides(&delta_reference_input(args, k)->shape, &attrs->shape, walk.strides[k]);
  if (row_dim >= 0) walk.dims[row_dim] = 1;

  delta_expr_tile_t tile;
  delta_expr_tile_init(&tile, args, &attrs->expr, row_dim);
  int64_t start = 0;
  for (bool more = delta_walk_begin(&walk); more; more = delta_walk_next(&walk)) {
    for (int64_t first = 0; first < row_count; first += DELTA_TILE_ELEMENTS) {
      int64_t count = row_count - first < DELTA_TILE_ELEMENTS ? row_count - first : DELTA_TILE_ELEMENTS;
      delta_expr_tile_eval(&tile, &walk, walk.offsets, first, count);
      store_outputs(&tile, start + first, count);
    }
    start += row_count;
  }
  return DELTA_OK;
}

delta_status_t delta_reference_each(const delta_reference_args_t *args) {
  const delta_each_attrs_t *attrs = args->node->attrs;
  for (uint32_t i = 0; i < attrs->count; ++i) {
    delta_each_set_t set;
    const void *inputs[DELTA_EXPR_MAX_INPUTS];
    delta_each_set_init(&set, args->graph, args->node, i);
    for (uint32_t k = 0; k < attrs->expr.input_count; ++k) inputs[k] = args->inputs[delta_each_input(attrs, i, k)];
    const delta_reference_args_t one = {&set.graph, &set.node, inputs, args->outputs + i * attrs->expr.output_count, args->allocator};
    DELTA_RETURN_IF_ERROR(delta_reference_pointwise(&one));
  }
  return DELTA_OK;
}
