// RESIZE and RESIZE_GRAD by reference: linear maps applied to one axis after the other, in float64.
#include "onnx/reference/element.h"
#include "onnx/graph/resize_taps.h"

// Applies the taps to the axis of [outer, in, inner], or backwards to that of [outer, out, inner]. `to` is zeroed.
static void apply_taps(const delta_resize_taps_t *taps, int64_t outer_count, int64_t inner_count, bool backwards, const double *from,
                       double *to) {
  for (int64_t outer = 0; outer < outer_count; ++outer) {
    for (int64_t i = 0; i < taps->out; ++i) {
      for (int64_t k = i * taps->count; k < (i + 1) * taps->count; ++k) {
        int64_t in_row = (outer * taps->in + taps->indices[k]) * inner_count, out_row = (outer * taps->out + i) * inner_count;
        const double *from_row = from + (backwards ? out_row : in_row);
        double *to_row = to + (backwards ? in_row : out_row);
        double weight = taps->weights[k];
        if (weight == 0) continue;
        for (int64_t inner = 0; inner < inner_count; ++inner) to_row[inner] += weight * from_row[inner];
      }
    }
  }
}

// Replaces *values, of `shape`, by what the taps of axis d make of them, and the shape's dimension likewise.
static delta_status_t resize_axis(const delta_reference_args_t *args, int32_t d, const delta_resize_taps_t *taps, bool backwards,
                                  delta_shape_t *shape, double **values) {
  if (delta_resize_taps_change_nothing(taps)) return DELTA_OK;
  shape->dims[d] = backwards ? taps->in : taps->out;
  double *resized = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(args->allocator, (size_t)delta_shape_count(shape), &resized));
  apply_taps(taps, delta_shape_count_range(shape, 0, d), delta_shape_count_range(shape, d + 1, shape->rank), backwards, *values, resized);
  delta_release(args->allocator, *values);
  *values = resized;
  return DELTA_OK;
}

// Puts the extrapolation value where some coordinate was outside.
static void extrapolate(const delta_resize_attrs_t *attrs, const delta_resize_taps_t *taps, double *values) {
  delta_walk_t walk;
  delta_walk_init(&walk, &attrs->out_shape, 0);
  for (bool more = delta_walk_begin(&walk); more; more = delta_walk_next(&walk), ++values) {
    bool outside = false;
    for (int32_t d = 0; d < attrs->out_shape.rank; ++d) outside |= taps[d].outside[walk.index[d]];
    if (outside) *values = attrs->extrapolation_value;
  }
}

static delta_status_t resize(const delta_reference_args_t *args, bool backwards) {
  const delta_resize_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *from = delta_reference_input(args, 0), *to = delta_reference_output(args, 0);
  int32_t rank = attrs->data_shape.rank;
  delta_shape_t shape = backwards ? attrs->out_shape : attrs->data_shape;
  int64_t from_count = delta_shape_count(&shape), to_count = delta_shape_count(backwards ? &attrs->data_shape : &attrs->out_shape);
  delta_resize_taps_t taps[DELTA_MAX_RANK] = {0};
  double *values = NULL;
  delta_status_t status = DELTA_ALLOCATE(args->allocator, (size_t)from_count, &values);
  if (status) goto cleanup;
  delta_row_load_double(args->inputs[0], (delta_row_t){from->dtype, 0, 1}, from_count, values, 1);
  for (int32_t d = 0; d < rank; ++d) {
    DELTA_GOTO_IF_ERROR(status, delta_resize_taps_init(args->node, d, args->allocator, &taps[d]), cleanup);
    DELTA_GOTO_IF_ERROR(status, resize_axis(args, d, &taps[d], backwards, &shape, &values), cleanup);
  }
  if (!backwards && attrs->coordinate == DELTA_RESIZE_TF_CROP_AND_RESIZE) extrapolate(attrs, taps, values);
  delta_row_store_double(args->outputs[0], (delta_row_t){to->dtype, 0, 1}, to_count, values, 1);
cleanup:
  delta_release(args->allocator, values);
  for (int32_t d = 0; d < rank; ++d) delta_resize_taps_deinit(&taps[d], args->allocator);
  return status;
}

delta_status_t delta_reference_resize(const delta_reference_args_t *args) { return resize(args, false); }

delta_status_t delta_reference_resize_grad(const delta_reference_args_t *args) { return resize(args, true); }
