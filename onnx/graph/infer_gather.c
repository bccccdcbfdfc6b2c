// Inference of what moves elements by indices that are data. Whether indices are in range is known only when they are.
#include <inttypes.h>

#include "onnx/graph/infer.h"

// Appends dims [begin, end) of `from`.
static delta_status_t append_dims(delta_shape_t *shape, const delta_shape_t *from, int32_t begin, int32_t end) {
  for (int32_t d = begin; d < end; ++d) {
    if (shape->rank == DELTA_MAX_RANK) return delta_status_make(UNSUPPORTED, "a result of more than %d dimensions", DELTA_MAX_RANK);
    shape->dims[shape->rank++] = from->dims[d];
  }
  return DELTA_OK;
}

static delta_status_t gathered_shape(const delta_shape_t *data, const delta_shape_t *indices, int32_t axis, delta_shape_t *out_shape) {
  DELTA_RETURN_IF_ERROR(delta_infer_axis("axis", axis, data->rank));
  *out_shape = (delta_shape_t){0};
  DELTA_RETURN_IF_ERROR(append_dims(out_shape, data, 0, axis));
  DELTA_RETURN_IF_ERROR(append_dims(out_shape, indices, 0, indices->rank));
  DELTA_RETURN_IF_ERROR(append_dims(out_shape, data, axis + 1, data->rank));
  if (data->dims[axis] > 0 || delta_shape_count(indices) == 0) return DELTA_OK;
  return delta_status_make(MALFORMED, "axis %" PRId32 " has no elements to gather", axis);
}

delta_status_t delta_infer_gather(const delta_infer_args_t *args) {
  const delta_gather_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_gather_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0), *indices = delta_infer_input(args, 1);
  DELTA_RETURN_IF_ERROR(delta_infer_index("indices", indices));
  delta_shape_t shape;
  DELTA_RETURN_IF_ERROR(gathered_shape(&x->shape, &indices->shape, attrs->axis, &shape));
  delta_infer_set(args, 0, x->dtype, &shape);
  return DELTA_OK;
}

delta_status_t delta_infer_gather_grad(const delta_infer_args_t *args) {
  const delta_gather_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_gather_attrs_t);
  const delta_tensor_t *indices = delta_infer_input(args, 0), *dy = delta_infer_input(args, 1);
  DELTA_RETURN_IF_ERROR(delta_infer_index("indices", indices));
  DELTA_RETURN_IF_ERROR(delta_infer_float("gradient", dy));
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&attrs->data_shape, delta_dtype_bytes(dy->dtype), "data_shape"));
  delta_shape_t wanted;
  DELTA_RETURN_IF_ERROR(gathered_shape(&attrs->data_shape, &indices->shape, attrs->axis, &wanted));
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("gradient", &dy->shape, &wanted));
  delta_infer_set(args, 0, dy->dtype, &attrs->data_shape);
  return DELTA_OK;
}

// Indices of the data's rank, no longer than the data except along the axis.
static delta_status_t check_element_indices(const delta_tensor_t *data, const delta_tensor_t *indices, int32_t axis) {
  DELTA_RETURN_IF_ERROR(delta_infer_index("indices", indices));
  DELTA_RETURN_IF_ERROR(delta_infer_axis("axis", axis, data->shape.rank));
  bool fits = indices->shape.rank == data->shape.rank;
  for (int32_t d = 0; fits && d < data->shape.rank; ++d) fits = d == axis || indices->shape.dims[d] <= data->shape.dims[d];
  if (fits && (data->shape.dims[axis] > 0 || delta_shape_count(&indices->shape) == 0)) return DELTA_OK;
  char data_text[DELTA_SHAPE_TEXT_BYTES], indices_text[DELTA_SHAPE_TEXT_BYTES];
  return delta_status_make(MALFORMED, "indices of shape %s do not fit data of shape %s along axis %" PRId32,
                           delta_shape_text(&indices->shape, indices_text), delta_shape_text(&data->shape, data_text), axis);
}

delta_status_t delta_infer_gather_elements(const delta_infer_args_t *args) {
  const delta_gather_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_gather_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0), *indices = delta_infer_input(args, 1);
  DELTA_RETURN_IF_ERROR(check_element_indices(x, indices, attrs->axis));
  delta_infer_set(args, 0, x->dtype, &indices->shape);
  return DELTA_OK;
}

static delta_status_t check_scatter(const delta_infer_args_t *args, const delta_shape_t *updates_shape) {
  const delta_scatter_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_scatter_attrs_t);
  const delta_tensor_t *data = delta_infer_input(args, 0), *updates = delta_infer_input(args, 2);
  if ((unsigned)attrs->kind > DELTA_SCATTER_MIN) return delta_status_make(INTERNAL, "unknown scatter kind %d", (int)attrs->kind);
  DELTA_RETURN_IF_ERROR(delta_infer_same_type("updates", updates, data->dtype));
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("updates", &updates->shape, updates_shape));
  delta_infer_set(args, 0, data->dtype, &data->shape);
  return DELTA_OK;
}

delta_status_t delta_infer_scatter_elements(const delta_infer_args_t *args) {
  const delta_scatter_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_scatter_attrs_t);
  const delta_tensor_t *data = delta_infer_input(args, 0), *indices = delta_infer_input(args, 1);
  DELTA_RETURN_IF_ERROR(check_element_indices(data, indices, attrs->axis));
  return check_scatter(args, &indices->shape);
}

// indices [batch..., lead..., k] pick slices of data after its batch dimensions: -> [batch..., lead..., data dims after batch + k].
static delta_status_t nd_shape(const delta_shape_t *data, const delta_tensor_t *indices, int32_t batch, delta_shape_t *out_shape) {
  DELTA_RETURN_IF_ERROR(delta_infer_index("indices", indices));
  const delta_shape_t *index_shape = &indices->shape;
  char data_text[DELTA_SHAPE_TEXT_BYTES], indices_text[DELTA_SHAPE_TEXT_BYTES];
  bool fits = batch >= 0 && batch < index_shape->rank && batch < data->rank;
  for (int32_t d = 0; fits && d < batch; ++d) fits = data->dims[d] == index_shape->dims[d];
  const int64_t depth = fits ? index_shape->dims[index_shape->rank - 1] : 0;
  if (!fits || depth < 1 || depth > data->rank - batch) {
    return delta_status_make(MALFORMED, "indices of shape %s do not fit data of shape %s with batch_dims %" PRId32,
                             delta_shape_text(index_shape, indices_text), delta_shape_text(data, data_text), batch);
  }
  *out_shape = (delta_shape_t){0};
  DELTA_RETURN_IF_ERROR(append_dims(out_shape, index_shape, 0, index_shape->rank - 1));
  DELTA_RETURN_IF_ERROR(append_dims(out_shape, data, batch + (int32_t)depth, data->rank));
  if (delta_shape_count_range(data, batch, batch + (int32_t)depth) > 0 || delta_shape_count(index_shape) == 0) return DELTA_OK;
  return delta_status_make(MALFORMED, "data of shape %s has no elements for the indices", delta_shape_text(data, data_text));
}

delta_status_t delta_infer_gather_nd(const delta_infer_args_t *args) {
  const delta_gather_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_gather_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0), *indices = delta_infer_input(args, 1);
  delta_shape_t shape;
  DELTA_RETURN_IF_ERROR(nd_shape(&x->shape, indices, attrs->batch_dims, &shape));
  delta_infer_set(args, 0, x->dtype, &shape);
  return DELTA_OK;
}

delta_status_t delta_infer_scatter_nd(const delta_infer_args_t *args) {
  const delta_tensor_t *data = delta_infer_input(args, 0), *indices = delta_infer_input(args, 1);
  delta_shape_t shape;
  DELTA_RETURN_IF_ERROR(nd_shape(&data->shape, indices, 0, &shape));
  return check_scatter(args, &shape);
}
