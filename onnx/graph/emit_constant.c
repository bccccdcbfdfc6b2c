// Emits of constants and fills, and reading constants back.
#include "onnx/graph/emit.h"

static delta_status_t add_constant(delta_emit_t *emit, delta_dtype_t dtype, const delta_shape_t *shape, const void *data,
                                   delta_tensor_id_t *out_tensor) {
  DELTA_RETURN_IF_ERROR(delta_shape_validate(shape, delta_dtype_bytes(dtype), emit->name));
  delta_constant_attrs_t attrs = {.dtype = dtype, .shape = *shape};
  void *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy(&emit->graph->region, data, (size_t)delta_shape_count(shape), delta_dtype_bytes(dtype), &copy));
  attrs.data = copy;
  *out_tensor = delta_emit_one(emit, DELTA_CORE_CONSTANT, &attrs, sizeof attrs, NULL, 0);
  return DELTA_OK;
}

delta_tensor_id_t delta_emit_constant(delta_emit_t *emit, delta_dtype_t dtype, const delta_shape_t *shape, const void *data) {
  if (!delta_emit_ok(emit)) return DELTA_TENSOR_NONE;
  delta_tensor_id_t result = DELTA_TENSOR_NONE;
  const delta_status_t status = add_constant(emit, dtype, shape, data, &result);
  return status ? delta_emit_fail(emit, status) : result;
}

delta_tensor_id_t delta_emit_scalar(delta_emit_t *emit, delta_dtype_t dtype, double value) {
  uint64_t element = 0;
  delta_element_store_double(&element, dtype, 0, value);
  return delta_emit_constant(emit, dtype, &(delta_shape_t){0}, &element);
}

delta_tensor_id_t delta_emit_int64s(delta_emit_t *emit, const int64_t *values, int32_t count) {
  return delta_emit_constant(emit, DELTA_DTYPE_INT64, &(delta_shape_t){.rank = 1, .dims = {count}}, values);
}

bool delta_emit_constant_ints(const delta_emit_t *emit, delta_tensor_id_t id, int64_t *values, size_t capacity, size_t *out_count) {
  const delta_tensor_t *tensor = delta_emit_tensor(emit, id);
  if (tensor->data == NULL || delta_dtype_is_float(tensor->dtype)) return false;
  const size_t count = (size_t)delta_shape_count(&tensor->shape);
  if (count > capacity) return false;
  for (size_t i = 0; i < count; ++i) values[i] = delta_element_load_int64(tensor->data, tensor->dtype, i);
  *out_count = count;
  return true;
}

bool delta_emit_constant_real(const delta_emit_t *emit, delta_tensor_id_t id, double *out_value) {
  const delta_tensor_t *tensor = delta_emit_tensor(emit, id);
  if (tensor->data == NULL || delta_shape_count(&tensor->shape) != 1) return false;
  *out_value = delta_element_load_double(tensor->data, tensor->dtype, 0);
  return true;
}
