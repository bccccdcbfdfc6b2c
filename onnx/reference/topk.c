// TOPK by reference: selects one after the other, so it needs no space for sorting. A NaN counts as larger than every number.
#include "onnx/reference/element.h"

// One line of elements along the axis.
typedef struct line {
  const void *data;
  delta_dtype_t dtype;
  int64_t start, stride, count;
  bool smallest;
} line_t;

static delta_number_t line_load(const line_t *line, int64_t i) {
  return delta_number_load(line->data, line->dtype, line->start + i * line->stride);
}

// Whether a is larger than b.
static bool number_larger(bool real, delta_number_t a, delta_number_t b) {
  if (!real) return a.integer > b.integer;
  return isnan(a.real) ? !isnan(b.real) : a.real > b.real;
}

// Whether element i stands before element j in the result.
static bool line_precedes(const line_t *line, int64_t i, int64_t j) {
  bool real = delta_dtype_is_float(line->dtype);
  delta_number_t a = line_load(line, i), b = line_load(line, j);
  if (number_larger(real, a, b)) return !line->smallest;
  if (number_larger(real, b, a)) return line->smallest;
  return i < j;
}

// The first of all elements that stand after `previous` (-1: of all); -1 when there is none.
static int64_t line_next(const line_t *line, int64_t previous) {
  int64_t best = -1;
  for (int64_t i = 0; i < line->count; ++i) {
    if (previous >= 0 && !line_precedes(line, previous, i)) continue;
    if (best < 0 || line_precedes(line, i, best)) best = i;
  }
  return best;
}

delta_status_t delta_reference_topk(const delta_reference_args_t *args) {
  const delta_topk_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0);
  bool real = delta_dtype_is_float(x->dtype);
  int64_t *indices = args->outputs[1];
  delta_lanes_t lanes = delta_lanes_of(&x->shape, attrs->axis);
  for (int64_t lane = 0; lane < lanes.outer * lanes.inner; ++lane) {
    int64_t outer = lane / lanes.inner, inner = lane % lanes.inner;
    line_t line = {args->inputs[0], x->dtype, outer * lanes.size * lanes.inner + inner, lanes.inner, lanes.size, attrs->smallest};
    int64_t chosen = -1;
    for (int64_t k = 0; k < attrs->k; ++k) {
      chosen = line_next(&line, chosen);
      int64_t at = (outer * attrs->k + k) * lanes.inner + inner;
      if (args->outputs[0]) delta_number_store(args->outputs[0], x->dtype, at, real, line_load(&line, chosen));
      if (indices) indices[at] = chosen;
    }
  }
  return DELTA_OK;
}
