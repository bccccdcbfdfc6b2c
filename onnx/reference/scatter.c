// SCATTER_ELEMENTS and SCATTER_ND by reference: updates are applied to a copy of the data one after the other, in index order.
#include "onnx/reference/element.h"

#include <string.h>

static delta_number_t scatter_value(delta_scatter_kind_t kind, bool real, delta_number_t old, delta_number_t update) {
  switch (kind) {
    case DELTA_SCATTER_ADD:
      return delta_number_add(real, old, update);
    case DELTA_SCATTER_MUL:
      return delta_number_mul(real, old, update);
    case DELTA_SCATTER_MAX:
      return delta_number_beats(real, false, update, old) ? update : old;
    case DELTA_SCATTER_MIN:
      return delta_number_beats(real, true, update, old) ? update : old;
    default:
      return update;
  }
}

// Applies `count` updates from element `from` on to the elements from `to` on.
static void scatter_run(const delta_reference_args_t *args, int64_t to, int64_t from, int64_t count) {
  const delta_scatter_attrs_t *attrs = args->node->attrs;
  delta_dtype_t dtype = delta_reference_input(args, 0)->dtype;
  bool real = delta_dtype_is_float(dtype);
  for (int64_t i = 0; i < count; ++i) {
    delta_number_t old = delta_number_load(args->outputs[0], dtype, to + i);
    delta_number_t update = delta_number_load(args->inputs[2], dtype, from + i);
    delta_number_store(args->outputs[0], dtype, to + i, real, scatter_value(attrs->kind, real, old, update));
  }
}

static void copy_data(const delta_reference_args_t *args) {
  if (args->outputs[0] != args->inputs[0]) memcpy(args->outputs[0], args->inputs[0], delta_tensor_bytes(delta_reference_input(args, 0)));
}

delta_status_t delta_reference_scatter_elements(const delta_reference_args_t *args) {
  const delta_scatter_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *data = delta_reference_input(args, 0), *indices = delta_reference_input(args, 1);
  copy_data(args);
  delta_walk_t walk;
  delta_walk_init(&walk, &indices->shape, 1);
  delta_shape_strides(&data->shape, walk.strides[0]);
  int64_t axis_stride = walk.strides[0][attrs->axis];
  walk.strides[0][attrs->axis] = 0; // the index takes this place
  int64_t position = 0;
  for (bool more = delta_walk_begin(&walk); more; more = delta_walk_next(&walk), ++position) {
    int64_t index;
    DELTA_RETURN_IF_ERROR(delta_index_load(args, 1, position, data->shape.dims[attrs->axis], &index));
    scatter_run(args, walk.offsets[0] + index * axis_stride, position, 1);
  }
  return DELTA_OK;
}

delta_status_t delta_reference_scatter_nd(const delta_reference_args_t *args) {
  const delta_tensor_t *data = delta_reference_input(args, 0);
  const delta_shape_t *shape = &delta_reference_input(args, 1)->shape;
  int32_t tuple = (int32_t)shape->dims[shape->rank - 1];
  int64_t tuple_count = delta_shape_count_range(shape, 0, shape->rank - 1);
  int64_t slice = delta_shape_count_range(&data->shape, tuple, data->shape.rank);
  int64_t strides[DELTA_MAX_RANK];
  delta_shape_strides(&data->shape, strides);
  copy_data(args);
  for (int64_t i = 0; i < tuple_count; ++i) {
    int64_t offset = 0;
    for (int32_t j = 0; j < tuple; ++j) {
      int64_t index;
      DELTA_RETURN_IF_ERROR(delta_index_load(args, 1, i * tuple + j, data->shape.dims[j], &index));
      offset += index * strides[j];
    }
    scatter_run(args, offset, i * slice, slice);
  }
  return DELTA_OK;
}
