// Lowering of operators that make, find or compare positions: Range, Trilu, EyeLike, OneHot, ArgMax, TopK, CumSum.
#include <math.h>

#include "onnx/lower/formula.h"
#include "onnx/lower/lower.h"

// A number that must be known: a tensor of one element.
static int64_t known_int(delta_lower_t *lower, uint32_t input) {
  int64_t value = 0;
  size_t count = 0;
  if (delta_lower_known_ints(lower, input, &value, 1, &count) && count != 1) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "input %u is empty; one number is needed", input);
  }
  return value;
}

static double known_real(delta_lower_t *lower, uint32_t input) {
  double value = 0.0;
  size_t count = 0;
  if (delta_lower_known_reals(lower, input, &value, 1, &count) && count != 1) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "input %u is empty; one number is needed", input);
  }
  return value;
}

enum { RANGE_LIMIT = DELTA_FOLD_LIMIT_BYTES / 8 };

// How many numbers start, start + step, ... lie before limit; -1 when there is no such number or too many to hold.
static int64_t real_count(double start, double limit, double step) {
  double count = ceil((limit - start) / step);
  if (!(count > 0)) return step == 0 || isnan(count) ? -1 : 0;
  return count <= RANGE_LIMIT ? (int64_t)count : -1;
}

// The same for integers, whose differences need not fit int64.
static int64_t integer_count(int64_t start, int64_t limit, int64_t step) {
  if (step == 0) return -1;
  if (step > 0 ? start >= limit : start <= limit) return 0;
  uint64_t span = step > 0 ? (uint64_t)limit - (uint64_t)start : (uint64_t)start - (uint64_t)limit;
  uint64_t stride = step > 0 ? (uint64_t)step : 0 - (uint64_t)step;
  uint64_t steps = (span - 1) / stride;
  return steps < RANGE_LIMIT ? (int64_t)steps + 1 : -1;
}

static delta_tensor_id_t emit_range_values(delta_lower_t *lower, delta_dtype_t dtype, int64_t count) {
  void *data = NULL;
  delta_status_t status = delta_region_allocate(&lower->emit.graph->region, (size_t)count, delta_dtype_bytes(dtype), &data);
  if (status) return delta_emit_fail(&lower->emit, status);
  if (delta_dtype_is_float(dtype)) {
    double start = known_real(lower, 0), step = known_real(lower, 2);
    for (int64_t k = 0; k < count; ++k) delta_element_store_double(data, dtype, (size_t)k, start + (double)k * step);
  } else {
    uint64_t start = (uint64_t)known_int(lower, 0), step = (uint64_t)known_int(lower, 2); // a product may leave int64, the sum does not
    for (int64_t k = 0; k < count; ++k) delta_element_store_int64(data, dtype, (size_t)k, (int64_t)(start + (uint64_t)k * step));
  }
  return delta_emit_constant(&lower->emit, dtype, &(delta_shape_t){.rank = 1, .dims = {count}}, data);
}

// The range is a known value: shape arithmetic goes on with it.
delta_status_t delta_lower_range(delta_lower_t *lower) {
  double start = known_real(lower, 0), limit = known_real(lower, 1), step = known_real(lower, 2);
  if (!delta_lower_same_types(lower, 0)) return DELTA_OK;
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, lower->inputs[0]);
  int64_t count = delta_dtype_is_float(dtype) ? real_count(start, limit, step)
                                              : integer_count(known_int(lower, 0), known_int(lower, 1), known_int(lower, 2));
  if (count < 0) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "a range from %g to %g by %g; at most %d numbers are supported", start, limit,
                           step, RANGE_LIMIT);
    return DELTA_OK;
  }
  lower->outputs[0] = emit_range_values(lower, dtype, count);
  return DELTA_OK;
}

delta_status_t delta_lower_trilu(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  delta_trilu_attrs_t attrs = {.upper = delta_lower_int(lower, "upper", 1) != 0};
  if (!delta_tensor_is_none(delta_lower_input(lower, 1))) attrs.k = known_int(lower, 1);
  lower->outputs[0] = DELTA_EMIT(&lower->emit, TRILU, attrs, x);
  return DELTA_OK;
}

// One where the column is the row plus k.
delta_status_t delta_lower_eye_like(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, x);
  int64_t stated = delta_lower_int(lower, "dtype", delta_dtype_to_onnx(dtype)), k = delta_lower_int(lower, "k", 0);
  if (stated < 0 || stated > INT32_MAX || !delta_dtype_from_onnx((int32_t)stated, &dtype)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "attribute 'dtype' is %lld, which is no supported type", (long long)stated);
  }
  if (delta_emit_ok(&lower->emit) && shape.rank != 2) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the input has rank %d; it must be a matrix", shape.rank);
  }
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  const delta_tensor_id_t rows = delta_formula_positions(&lower->emit, shape.dims[0], 1);
  const delta_tensor_id_t columns = delta_formula_positions(&lower->emit, shape.dims[1], 0);
  const delta_tensor_id_t inputs[2] = {rows, columns};
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, inputs, 2);
  uint16_t wanted = delta_formula_add(&f, delta_formula_input(&f, 0), delta_expr_integer(&f.builder, k));
  lower->outputs[0] = delta_formula_emit(&f, delta_formula_binary(&f, DELTA_EXPR_EQ, wanted, delta_formula_input(&f, 1)), dtype);
  return DELTA_OK;
}

// The shape of the indices with the new axis in it. *out_axis: where.
static delta_shape_t one_hot_shape(delta_lower_t *lower, const delta_shape_t *indices, int32_t *out_axis) {
  int32_t axis = delta_lower_axis(lower, "attribute 'axis'", delta_lower_int(lower, "axis", -1), indices->rank + 1);
  delta_shape_t shape = {.rank = indices->rank + 1};
  *out_axis = axis;
  if (shape.rank > DELTA_MAX_RANK) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "a result of rank %d; at most %d is supported", shape.rank, DELTA_MAX_RANK);
    return *indices;
  }
  for (int32_t d = 0; d < shape.rank; ++d) shape.dims[d] = d == axis ? 1 : indices->dims[d < axis ? d : d - 1];
  return shape;
}

// Negative indices count from the end; what is outside is off everywhere.
delta_status_t delta_lower_one_hot(delta_lower_t *lower) {
  delta_tensor_id_t indices = delta_emit_cast(&lower->emit, delta_lower_required(lower, 0), DELTA_DTYPE_INT64);
  delta_tensor_id_t values = delta_lower_required(lower, 2);
  int32_t axis = 0;
  double depth = known_real(lower, 1);
  const delta_shape_t shape = one_hot_shape(lower, delta_emit_shape(&lower->emit, indices), &axis);
  if (delta_emit_ok(&lower->emit) && !(depth >= 1 && depth <= DELTA_FOLD_LIMIT_BYTES / (double)sizeof(int64_t))) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "a depth of %g", depth);
  }
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  delta_tensor_id_t inputs[4];
  inputs[0] = delta_emit_view(&lower->emit, indices, &shape);
  inputs[1] = delta_formula_positions(&lower->emit, (int64_t)depth, shape.rank - 1 - axis);
  inputs[2] = delta_emit_range(&lower->emit, values, 0, 0, 1);
  inputs[3] = delta_emit_range(&lower->emit, values, 0, 1, 2);
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, inputs, 4);
  uint16_t index = delta_formula_input(&f, 0), size = delta_formula_real(&f, floor(depth));
  uint16_t negative = delta_formula_binary(&f, DELTA_EXPR_LT, index, delta_formula_real(&f, 0.0));
  uint16_t position = delta_formula_select(&f, negative, delta_formula_add(&f, index, size), index);
  uint16_t hit = delta_formula_binary(&f, DELTA_EXPR_EQ, position, delta_formula_input(&f, 1));
  uint16_t y = delta_formula_select(&f, hit, delta_formula_input(&f, 3), delta_formula_input(&f, 2));
  lower->outputs[0] = delta_formula_emit(&f, y, delta_emit_dtype(&lower->emit, values));
  return DELTA_OK;
}

static delta_status_t lower_arg_reduce(delta_lower_t *lower, bool smallest) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  const delta_arg_reduce_attrs_t attrs = {
      .axis = delta_lower_axis(lower, "attribute 'axis'", delta_lower_int(lower, "axis", 0), shape.rank),
      .smallest = smallest,
      .select_last = delta_lower_int(lower, "select_last_index", 0) != 0};
  delta_tensor_id_t y = DELTA_EMIT(&lower->emit, ARG_REDUCE, attrs, x);
  if (delta_lower_int(lower, "keepdims", 1) == 0) {
    delta_shape_t kept = {0};
    for (int32_t d = 0; d < shape.rank; ++d) {
      if (d != attrs.axis) kept.dims[kept.rank++] = shape.dims[d];
    }
    y = delta_emit_view(&lower->emit, y, &kept);
  }
  lower->outputs[0] = y;
  return DELTA_OK;
}

delta_status_t delta_lower_arg_max(delta_lower_t *lower) { return lower_arg_reduce(lower, false); }
delta_status_t delta_lower_arg_min(delta_lower_t *lower) { return lower_arg_reduce(lower, true); }

// The result is always sorted, which the attribute `sorted` allows.
delta_status_t delta_lower_topk(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  int32_t rank = delta_emit_shape(&lower->emit, x)->rank;
  if (lower->opset < 10 && !delta_lower_has(lower, "k")) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'k' is required and left out");
  }
  const delta_topk_attrs_t attrs = {.axis = delta_lower_axis(lower, "attribute 'axis'", delta_lower_int(lower, "axis", -1), rank),
                                    .k = lower->opset < 10 ? delta_lower_int(lower, "k", 0) : known_int(lower, 1),
                                    .smallest = delta_lower_int(lower, "largest", 1) == 0};
  delta_emit_node(&lower->emit, DELTA_CORE_TOPK, &attrs, sizeof attrs, &x, 1, lower->outputs, 2, 0);
  return DELTA_OK;
}

delta_status_t delta_lower_cumsum(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  int32_t rank = delta_emit_shape(&lower->emit, x)->rank;
  const delta_cumsum_attrs_t attrs = {.axis = delta_lower_axis(lower, "the axis", known_int(lower, 1), rank),
                                      .exclusive = delta_lower_int(lower, "exclusive", 0) != 0,
                                      .reverse = delta_lower_int(lower, "reverse", 0) != 0};
  lower->outputs[0] = DELTA_EMIT(&lower->emit, CUMSUM, attrs, x);
  return DELTA_OK;
}
