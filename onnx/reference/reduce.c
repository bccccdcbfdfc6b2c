// REDUCE, MOMENTS and ARG_REDUCE by reference. Sums accumulate in float64 (int64 for integers), in row-major order of the reduced elements.
#include "onnx/reference/expr_tile.h"

#include <string.h>

// The dimensions of a shape as two walks: over what is kept, and for each of those over what is reduced.
typedef struct reduction {
  delta_walk_t kept, reduced;
  int32_t row_dim;       // last reduced dimension, walked as a row; -1 when nothing is reduced
  int64_t row_count;     // its size
  int64_t reduced_count; // elements that go into one result
} reduction_t;

static void reduction_init(reduction_t *reduction, const delta_shape_t *shape, uint32_t axes, uint32_t operand_count) {
  delta_walk_init(&reduction->kept, shape, operand_count);
  delta_walk_init(&reduction->reduced, shape, operand_count);
  reduction->row_dim = -1;
  reduction->row_count = 1;
  reduction->reduced_count = 1;
  for (int32_t d = 0; d < shape->rank; ++d) {
    if (axes >> d & 1) {
      reduction->kept.dims[d] = 1;
      reduction->reduced_count *= shape->dims[d];
      reduction->row_dim = d;
      reduction->row_count = shape->dims[d];
    } else {
      reduction->reduced.dims[d] = 1;
    }
  }
  if (reduction->row_dim >= 0) reduction->reduced.dims[reduction->row_dim] = 1;
}

static void reduction_set_strides(reduction_t *reduction, uint32_t operand, const delta_shape_t *from, const delta_shape_t *shape) {
  delta_shape_broadcast_strides(from, shape, reduction->kept.strides[operand]);
  memcpy(reduction->reduced.strides[operand], reduction->kept.strides[operand], sizeof reduction->kept.strides[operand]);
}

static delta_number_t reduce_start(delta_reduce_kind_t kind, bool real, delta_dtype_t dtype) {
  switch (kind) {
    case DELTA_REDUCE_PROD:
      return delta_number_from(real, 1);
    case DELTA_REDUCE_MAX:
    case DELTA_REDUCE_MIN: {
      // In the type that is compared: a float expression may be stored as an integer.
      bool stored_real = delta_dtype_is_float(dtype);
      delta_dtype_t compared = stored_real == real ? dtype : real ? DELTA_DTYPE_FLOAT64 : DELTA_DTYPE_INT64;
      return delta_number_extreme(compared, kind == DELTA_REDUCE_MIN);
    }
    default:
      return delta_number_from(real, 0);
  }
}

static delta_number_t reduce_step(delta_reduce_kind_t kind, bool real, delta_number_t sum, delta_number_t value) {
  switch (kind) {
    case DELTA_REDUCE_PROD:
      return delta_number_mul(real, sum, value);
    case DELTA_REDUCE_MAX:
      return delta_number_beats(real, false, value, sum) ? value : sum;
    case DELTA_REDUCE_MIN:
      return delta_number_beats(real, true, value, sum) ? value : sum;
    default:
      return delta_number_add(real, sum, value);
  }
}

static delta_number_t reduce_finish(delta_reduce_kind_t kind, bool real, delta_number_t sum, int64_t count) {
  if (kind != DELTA_REDUCE_MEAN) return sum;
  if (real) return (delta_number_t){.real = sum.real / (double)count};
  return (delta_number_t){.integer = count ? sum.integer / count : 0};
}

// Reduces everything that goes into the result at the kept walk's place.
static void reduce_one(reduction_t *reduction, delta_expr_tile_t *tile, delta_number_t *sums) {
  const delta_reduce_attrs_t *attrs = tile->args->node->attrs;
  uint16_t width = tile->expr->output_count;
  delta_walk_t *walk = &reduction->reduced;
  for (bool more = delta_walk_begin(walk); more; more = delta_walk_next(walk)) {
    int64_t offsets[DELTA_WALK_OPERANDS];
    for (uint32_t k = 0; k < walk->operand_count; ++k) offsets[k] = reduction->kept.offsets[k] + walk->offsets[k];
    for (int64_t first = 0; first < reduction->row_count; first += DELTA_TILE_ELEMENTS) {
      int64_t left = reduction->row_count - first;
      int64_t count = left < DELTA_TILE_ELEMENTS ? left : DELTA_TILE_ELEMENTS;
      delta_expr_tile_eval(tile, walk, offsets, first, count);
      for (uint16_t k = 0; k < width; ++k)
        for (int64_t i = 0; i < count; ++i) sums[k] = reduce_step(attrs->kinds[k], tile->real, sums[k], tile->outputs[i * width + k]);
    }
  }
}

delta_status_t delta_reference_reduce(const delta_reference_args_t *args) {
  const delta_reduce_attrs_t *attrs = args->node->attrs;
  const delta_expr_t *expr = &attrs->expr;
  reduction_t reduction;
  reduction_init(&reduction, &attrs->shape, attrs->axes, expr->input_count);
  for (uint16_t k = 0; k < expr->input_count; ++k)
    reduction_set_strides(&reduction, k, &delta_reference_input(args, k)->shape, &attrs->shape);

  delta_expr_tile_t tile;
  delta_expr_tile_init(&tile, args, expr, reduction.row_dim);
  int64_t position = 0;
  for (bool more = delta_walk_begin(&reduction.kept); more; more = delta_walk_next(&reduction.kept), ++position) {
    delta_number_t sums[DELTA_EXPR_MAX_OUTPUTS];
    for (uint16_t k = 0; k < expr->output_count; ++k) sums[k] = reduce_start(attrs->kinds[k], tile.real, attrs->dtypes[k]);
    reduce_one(&reduction, &tile, sums);
    for (uint16_t k = 0; k < expr->output_count; ++k) {
      delta_number_t result = reduce_finish(attrs->kinds[k], tile.real, sums[k], reduction.reduced_count);
      if (args->outputs[k]) delta_number_store(args->outputs[k], attrs->dtypes[k], position, tile.real, result);
    }
  }
  return DELTA_OK;
}

// Mean of (x - shift) ^ power over what goes into the result at the kept walk's place.
static double mean_power(reduction_t *reduction, const void *data, delta_dtype_t dtype, double shift, int power) {
  double sum = 0;
  delta_walk_t *walk = &reduction->reduced;
  int64_t stride = reduction->row_dim >= 0 ? walk->strides[0][reduction->row_dim] : 0;
  for (bool more = delta_walk_begin(walk); more; more = delta_walk_next(walk)) {
    int64_t start = reduction->kept.offsets[0] + walk->offsets[0];
    for (int64_t i = 0; i < reduction->row_count; ++i) {
      double centred = delta_element_load_double(data, dtype, (size_t)(start + i * stride)) - shift;
      sum += power == 2 ? centred * centred : centred;
    }
  }
  return sum / (double)reduction->reduced_count;
}

delta_status_t delta_reference_moments(const delta_reference_args_t *args) {
  const delta_moments_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0);
  reduction_t reduction;
  reduction_init(&reduction, &x->shape, attrs->axes, 1);
  reduction_set_strides(&reduction, 0, &x->shape, &x->shape);
  int64_t position = 0;
  for (bool more = delta_walk_begin(&reduction.kept); more; more = delta_walk_next(&reduction.kept), ++position) {
    double mean = mean_power(&reduction, args->inputs[0], x->dtype, 0, 1);
    double variance = mean_power(&reduction, args->inputs[0], x->dtype, mean, 2);
    if (args->outputs[0]) delta_element_store_double(args->outputs[0], x->dtype, (size_t)position, mean);
    if (args->outputs[1]) delta_element_store_double(args->outputs[1], x->dtype, (size_t)position, variance);
  }
  return DELTA_OK;
}

static int64_t arg_extreme(const delta_arg_reduce_attrs_t *attrs, const void *data, delta_dtype_t dtype, int64_t start, int64_t count,
                           int64_t stride) {
  bool real = delta_dtype_is_float(dtype);
  delta_number_t best = delta_number_load(data, dtype, start);
  int64_t best_index = 0;
  for (int64_t i = 1; i < count; ++i) {
    delta_number_t value = delta_number_load(data, dtype, start + i * stride);
    bool beats = delta_number_beats(real, attrs->smallest, value, best);
    bool ties = attrs->select_last && !beats && !delta_number_beats(real, attrs->smallest, best, value);
    if (!beats && !ties) continue;
    best = value;
    best_index = i;
  }
  return best_index;
}

delta_status_t delta_reference_arg_reduce(const delta_reference_args_t *args) {
  const delta_arg_reduce_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0);
  delta_lanes_t lanes = delta_lanes_of(&x->shape, attrs->axis);
  int64_t *indices = args->outputs[0];
  if (lanes.size == 0 && lanes.outer * lanes.inner > 0)
    return delta_status_make(INVALID_ARGUMENT, "node '%s' (arg_reduce): dimension %d has no elements to choose from", args->node->name,
                             attrs->axis);
  for (int64_t outer = 0; outer < lanes.outer; ++outer)
    for (int64_t inner = 0; inner < lanes.inner; ++inner)
      *indices++ = arg_extreme(attrs, args->inputs[0], x->dtype, outer * lanes.size * lanes.inner + inner, lanes.size, lanes.inner);
  return DELTA_OK;
}
