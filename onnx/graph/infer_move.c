// Inference of what moves elements by a fixed rule: transpose, slices, concat, pad, triangles, cumulative sums, top-k, resize.
#include <inttypes.h>
#include <math.h>

#include "onnx/graph/infer.h"

delta_status_t delta_infer_transpose(const delta_infer_args_t *args) {
  const delta_transpose_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_transpose_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0);
  delta_shape_t shape = {.rank = x->shape.rank};
  uint32_t seen = 0;
  for (int32_t d = 0; d < shape.rank; ++d) {
    DELTA_RETURN_IF_ERROR(delta_infer_axis("permutation", attrs->permutation[d], shape.rank));
    if (seen >> attrs->permutation[d] & 1) {
      return delta_status_make(MALFORMED, "permutation has %" PRId32 " twice", attrs->permutation[d]);
    }
    seen |= UINT32_C(1) << attrs->permutation[d];
    shape.dims[d] = x->shape.dims[attrs->permutation[d]];
  }
  delta_infer_set(args, 0, x->dtype, &shape);
  return DELTA_OK;
}

// Every index that the slice reads lies inside data_shape.
static delta_status_t check_slice(const delta_slice_attrs_t *attrs, size_t element_bytes) {
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&attrs->data_shape, element_bytes, "data_shape"));
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&attrs->shape, element_bytes, "shape"));
  if (attrs->shape.rank != attrs->data_shape.rank) {
    return delta_status_make(MALFORMED, "a slice of rank %" PRId32 " from rank %" PRId32, attrs->shape.rank, attrs->data_shape.rank);
  }
  for (int32_t d = 0; d < attrs->shape.rank; ++d) {
    if (attrs->shape.dims[d] == 0) continue;
    const int64_t start = attrs->starts[d], step = attrs->steps[d], size = attrs->data_shape.dims[d];
    int64_t last = 0;
    if (step == 0 || start < 0 || start >= size || !delta_int64_mul(attrs->shape.dims[d] - 1, step, &last) ||
        !delta_int64_add(last, start, &last) || last < 0 || last >= size) {
      return delta_status_make(MALFORMED, "axis %" PRId32 ": %" PRId64 " elements from %" PRId64 " by %" PRId64 " leave [0, %" PRId64 ")",
                               d, attrs->shape.dims[d], start, step, size);
    }
  }
  return DELTA_OK;
}

static delta_status_t infer_slice(const delta_infer_args_t *args, bool backward) {
  const delta_slice_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_slice_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(check_slice(attrs, delta_dtype_bytes(x->dtype)));
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("input", &x->shape, backward ? &attrs->shape : &attrs->data_shape));
  delta_infer_set(args, 0, x->dtype, backward ? &attrs->data_shape : &attrs->shape);
  return DELTA_OK;
}
delta_status_t delta_infer_slice(const delta_infer_args_t *args) { return infer_slice(args, false); }
delta_status_t delta_infer_slice_grad(const delta_infer_args_t *args) { return infer_slice(args, true); }

delta_status_t delta_infer_split(const delta_infer_args_t *args) {
  const delta_split_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_split_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(delta_infer_axis("axis", attrs->axis, x->shape.rank));
  if (attrs->sizes == NULL) return delta_status_make(INTERNAL, "sizes are missing");
  int64_t total = 0;
  for (uint32_t k = 0; k < args->node->output_count; ++k) {
    if (attrs->sizes[k] < 0 || !delta_int64_add(total, attrs->sizes[k], &total)) {
      return delta_status_make(MALFORMED, "size %" PRIu32 " is %" PRId64, k, attrs->sizes[k]);
    }
    delta_shape_t shape = x->shape;
    shape.dims[attrs->axis] = attrs->sizes[k];
    delta_infer_set(args, k, x->dtype, &shape);
  }
  if (total == x->shape.dims[attrs->axis]) return DELTA_OK;
  return delta_status_make(MALFORMED, "the sizes sum to %" PRId64 ", but axis %" PRId32 " has %" PRId64, total, attrs->axis,
                           x->shape.dims[attrs->axis]);
}

delta_status_t delta_infer_concat(const delta_infer_args_t *args) {
  const delta_split_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_split_attrs_t);
  const delta_tensor_t *first = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(delta_infer_axis("axis", attrs->axis, first->shape.rank));
  delta_shape_t shape = first->shape;
  for (uint32_t k = 1; k < args->node->input_count; ++k) {
    const delta_tensor_t *x = delta_infer_input(args, k);
    DELTA_RETURN_IF_ERROR(delta_infer_same_type("input", x, first->dtype));
    delta_shape_t wanted = first->shape;
    if (x->shape.rank == wanted.rank) wanted.dims[attrs->axis] = x->shape.dims[attrs->axis];
    DELTA_RETURN_IF_ERROR(delta_infer_same_shape(x->name, &x->shape, &wanted));
    if (!delta_int64_add(shape.dims[attrs->axis], x->shape.dims[attrs->axis], &shape.dims[attrs->axis])) {
      return delta_status_make(MALFORMED, "axis %" PRId32 " of the result is too long", attrs->axis);
    }
  }
  delta_infer_set(args, 0, first->dtype, &shape);
  return DELTA_OK;
}

// The size after padding one axis, when its mode allows it: reflection reaches at most the far end, and nothing cannot be repeated.
static bool padded_size(const delta_pad_attrs_t *attrs, int32_t d, int64_t size, int64_t *out_size) {
  const int64_t begin = attrs->begin[d], end = attrs->end[d];
  int64_t kept = size;
  if (begin < 0 && !delta_int64_add(kept, begin, &kept)) return false;
  if (end < 0 && !delta_int64_add(kept, end, &kept)) return false;
  if (kept < 0) return false;
  if (!delta_int64_add(size, begin, out_size) || !delta_int64_add(*out_size, end, out_size) || *out_size < 0) return false;
  if (attrs->mode == DELTA_PAD_CONSTANT || (begin <= 0 && end <= 0)) return true;
  return attrs->mode == DELTA_PAD_REFLECT ? begin < size && end < size : size > 0;
}

static delta_status_t infer_pad(const delta_infer_args_t *args, bool backward) {
  const delta_pad_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_pad_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0);
  if ((unsigned)attrs->mode > DELTA_PAD_WRAP) return delta_status_make(INTERNAL, "unknown pad mode %d", (int)attrs->mode);
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&attrs->data_shape, delta_dtype_bytes(x->dtype), "data_shape"));
  delta_shape_t padded = attrs->data_shape;
  for (int32_t d = 0; d < padded.rank; ++d) {
    if (!padded_size(attrs, d, attrs->data_shape.dims[d], &padded.dims[d])) {
      return delta_status_make(MALFORMED, "axis %" PRId32 " of %" PRId64 " elements cannot be padded by %" PRId64 " and %" PRId64, d,
                               attrs->data_shape.dims[d], attrs->begin[d], attrs->end[d]);
    }
  }
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("input", &x->shape, backward ? &padded : &attrs->data_shape));
  delta_infer_set(args, 0, x->dtype, backward ? &attrs->data_shape : &padded);
  return DELTA_OK;
}
delta_status_t delta_infer_pad(const delta_infer_args_t *args) { return infer_pad(args, false); }
delta_status_t delta_infer_pad_grad(const delta_infer_args_t *args) { return infer_pad(args, true); }

delta_status_t delta_infer_trilu(const delta_infer_args_t *args) {
  const delta_tensor_t *x = delta_infer_input(args, 0);
  if (x->shape.rank < 2) return delta_status_make(MALFORMED, "a triangle of rank %" PRId32 "; two dimensions are needed", x->shape.rank);
  delta_infer_set(args, 0, x->dtype, &x->shape);
  return DELTA_OK;
}

delta_status_t delta_infer_cumsum(const delta_infer_args_t *args) {
  const delta_cumsum_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_cumsum_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(delta_infer_axis("axis", attrs->axis, x->shape.rank));
  delta_infer_set(args, 0, x->dtype, &x->shape);
  return DELTA_OK;
}

delta_status_t delta_infer_topk(const delta_infer_args_t *args) {
  const delta_topk_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_topk_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(delta_infer_axis("axis", attrs->axis, x->shape.rank));
  if (attrs->k < 0 || attrs->k > x->shape.dims[attrs->axis]) {
    return delta_status_make(MALFORMED, "k is %" PRId64 ", but axis %" PRId32 " has %" PRId64 " elements", attrs->k, attrs->axis,
                             x->shape.dims[attrs->axis]);
  }
  delta_shape_t shape = x->shape;
  shape.dims[attrs->axis] = attrs->k;
  delta_infer_set(args, 0, x->dtype, &shape);
  delta_infer_set(args, 1, DELTA_DTYPE_INT64, &shape);
  return DELTA_OK;
}

static delta_status_t check_resize(const delta_resize_attrs_t *attrs, size_t element_bytes) {
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&attrs->data_shape, element_bytes, "data_shape"));
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&attrs->out_shape, element_bytes, "out_shape"));
  if ((unsigned)attrs->mode > DELTA_RESIZE_CUBIC || (unsigned)attrs->coordinate > DELTA_RESIZE_TF_HALF_PIXEL_FOR_NN ||
      (unsigned)attrs->rounding > DELTA_RESIZE_CEIL) {
    return delta_status_make(INTERNAL, "unknown mode %d, coordinate %d or rounding %d", (int)attrs->mode, (int)attrs->coordinate,
                             (int)attrs->rounding);
  }
  if (attrs->out_shape.rank != attrs->data_shape.rank || !isfinite(attrs->cubic_coefficient) || isnan(attrs->extrapolation_value)) {
    return delta_status_make(MALFORMED, "rank %" PRId32 " from %" PRId32 ", cubic coefficient %g, extrapolation value %g",
                             attrs->out_shape.rank, attrs->data_shape.rank, attrs->cubic_coefficient, attrs->extrapolation_value);
  }
  for (int32_t d = 0; d < attrs->out_shape.rank; ++d) {
    if (!(attrs->scales[d] > 0) || !isfinite(attrs->scales[d]) || !isfinite(attrs->roi_start[d]) || !isfinite(attrs->roi_end[d]) ||
        (attrs->data_shape.dims[d] == 0 && attrs->out_shape.dims[d] != 0)) {
      return delta_status_make(MALFORMED, "axis %" PRId32 ": %" PRId64 " elements to %" PRId64 " with scale %g, region %g to %g", d,
                               attrs->data_shape.dims[d], attrs->out_shape.dims[d], attrs->scales[d], attrs->roi_start[d],
                               attrs->roi_end[d]);
    }
  }
  return DELTA_OK;
}

static delta_status_t infer_resize(const delta_infer_args_t *args, bool backward) {
  const delta_resize_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_resize_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(check_resize(attrs, delta_dtype_bytes(x->dtype)));
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("input", &x->shape, backward ? &attrs->out_shape : &attrs->data_shape));
  delta_infer_set(args, 0, x->dtype, backward ? &attrs->data_shape : &attrs->out_shape);
  return DELTA_OK;
}
delta_status_t delta_infer_resize(const delta_infer_args_t *args) { return infer_resize(args, false); }
delta_status_t delta_infer_resize_grad(const delta_infer_args_t *args) { return infer_resize(args, true); }
