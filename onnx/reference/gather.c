// GATHER, GATHER_GRAD, GATHER_ELEMENTS and GATHER_ND by reference.
#include "onnx/reference/element.h"

#include <string.h>

delta_status_t delta_reference_gather(const delta_reference_args_t *args) {
  const delta_gather_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0);
  delta_lanes_t lanes = delta_lanes_of(&x->shape, attrs->axis);
  int64_t index_count = delta_shape_count(&delta_reference_input(args, 1)->shape);
  size_t slice_bytes = (size_t)lanes.inner * delta_dtype_bytes(x->dtype);
  char *to = args->outputs[0];
  for (int64_t outer = 0; outer < lanes.outer; ++outer) {
    for (int64_t i = 0; i < index_count; ++i, to += slice_bytes) {
      int64_t index;
      DELTA_RETURN_IF_ERROR(delta_index_load(args, 1, i, lanes.size, &index));
      memcpy(to, (const char *)args->inputs[0] + (size_t)(outer * lanes.size + index) * slice_bytes, slice_bytes);
    }
  }
  return DELTA_OK;
}

static delta_status_t sum_gathered(const delta_reference_args_t *args, double *sums) {
  const delta_gather_attrs_t *attrs = args->node->attrs;
  delta_lanes_t lanes = delta_lanes_of(&attrs->data_shape, attrs->axis);
  int64_t index_count = delta_shape_count(&delta_reference_input(args, 0)->shape);
  delta_dtype_t dtype = delta_reference_input(args, 1)->dtype;
  for (int64_t outer = 0; outer < lanes.outer; ++outer) {
    for (int64_t i = 0; i < index_count; ++i) {
      int64_t index;
      DELTA_RETURN_IF_ERROR(delta_index_load(args, 0, i, lanes.size, &index));
      int64_t from = (outer * index_count + i) * lanes.inner, to = (outer * lanes.size + index) * lanes.inner;
      for (int64_t inner = 0; inner < lanes.inner; ++inner)
        sums[to + inner] += delta_element_load_double(args->inputs[1], dtype, (size_t)(from + inner));
    }
  }
  return DELTA_OK;
}

delta_status_t delta_reference_gather_grad(const delta_reference_args_t *args) {
  const delta_gather_attrs_t *attrs = args->node->attrs;
  int64_t count = delta_shape_count(&attrs->data_shape);
  delta_sums_t sums;
  DELTA_RETURN_IF_ERROR(delta_sums_begin(args, count, &sums));
  delta_status_t status = sum_gathered(args, sums.values);
  delta_sums_store(args, count, &sums);
  return status;
}

delta_status_t delta_reference_gather_elements(const delta_reference_args_t *args) {
  const delta_gather_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0), *indices = delta_reference_input(args, 1);
  size_t element_bytes = delta_dtype_bytes(x->dtype);
  delta_walk_t walk;
  delta_walk_init(&walk, &indices->shape, 1);
  delta_shape_strides(&x->shape, walk.strides[0]);
  int64_t axis_stride = walk.strides[0][attrs->axis];
  walk.strides[0][attrs->axis] = 0; // the index takes this place
  int64_t position = 0;
  for (bool more = delta_walk_begin(&walk); more; more = delta_walk_next(&walk), ++position) {
    int64_t index;
    DELTA_RETURN_IF_ERROR(delta_index_load(args, 1, position, x->shape.dims[attrs->axis], &index));
    memcpy((char *)args->outputs[0] + (size_t)position * element_bytes,
           (const char *)args->inputs[0] + (size_t)(walk.offsets[0] + index * axis_stride) * element_bytes, element_bytes);
  }
  return DELTA_OK;
}

delta_status_t delta_reference_gather_nd(const delta_reference_args_t *args) {
  const delta_gather_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0);
  const delta_shape_t *shape = &delta_reference_input(args, 1)->shape;
  int32_t tuple = (int32_t)shape->dims[shape->rank - 1], batch_dims = attrs->batch_dims;
  int64_t tuple_count = delta_shape_count_range(shape, 0, shape->rank - 1);
  int64_t tuples_per_batch = delta_shape_count_range(shape, batch_dims, shape->rank - 1);
  int64_t batch_elements = delta_shape_count_range(&x->shape, batch_dims, x->shape.rank);
  size_t element_bytes = delta_dtype_bytes(x->dtype);
  size_t slice_bytes = (size_t)delta_shape_count_range(&x->shape, batch_dims + tuple, x->shape.rank) * element_bytes;
  int64_t strides[DELTA_MAX_RANK];
  delta_shape_strides(&x->shape, strides);
  char *to = args->outputs[0];
  for (int64_t i = 0; i < tuple_count; ++i, to += slice_bytes) {
    int64_t offset = i / tuples_per_batch * batch_elements;
    for (int32_t j = 0; j < tuple; ++j) {
      int64_t index;
      DELTA_RETURN_IF_ERROR(delta_index_load(args, 1, i * tuple + j, x->shape.dims[batch_dims + j], &index));
      offset += index * strides[batch_dims + j];
    }
    memcpy(to, (const char *)args->inputs[0] + (size_t)offset * element_bytes, slice_bytes);
  }
  return DELTA_OK;
}
