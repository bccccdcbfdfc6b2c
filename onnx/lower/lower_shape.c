// Lowering of operators that state shapes or constants: no data moves, except where Expand repeats it.
#include <string.h>

#include "onnx/lower/lower.h"

delta_status_t delta_lower_identity(delta_lower_t *lower) {
  lower->outputs[0] = delta_lower_required(lower, 0);
  return DELTA_OK;
}

delta_status_t delta_lower_flatten(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  int64_t stated = delta_lower_int(lower, "axis", 1);
  int32_t axis = stated == shape.rank ? shape.rank : delta_lower_axis(lower, "attribute 'axis'", stated, shape.rank);
  delta_shape_t flat = {.rank = 2, .dims = {delta_shape_count_range(&shape, 0, axis), delta_shape_count_range(&shape, axis, shape.rank)}};
  lower->outputs[0] = delta_emit_view(&lower->emit, x, &flat);
  return DELTA_OK;
}

// What Reshape's dimension -1 stands for: dimensions that are copied (0) cancel, so that an empty batch leaves it defined.
static void infer_reshape_dim(delta_lower_t *lower, const delta_shape_t *from, const bool *copied, int32_t unknown, delta_shape_t *to) {
  int64_t have = 1, stated = 1;
  bool fits = true;
  for (int32_t d = 0; d < from->rank; ++d) {
    if (d >= to->rank || !copied[d]) fits = fits && delta_int64_mul(have, from->dims[d], &have);
  }
  for (int32_t d = 0; d < to->rank; ++d) {
    if (d != unknown && !copied[d]) fits = fits && delta_int64_mul(stated, to->dims[d], &stated);
  }
  if (!fits || stated == 0 || have % stated != 0) {
    char text[DELTA_SHAPE_TEXT_BYTES];
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED,
                           "the -1 of the new shape is not defined: %s does not divide by the other dimensions",
                           delta_shape_text(from, text));
    return;
  }
  to->dims[unknown] = have / stated;
}

delta_status_t delta_lower_reshape(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  const delta_shape_t from = *delta_emit_shape(&lower->emit, x);
  bool zero_is_zero = delta_lower_int(lower, "allowzero", 0) != 0;
  delta_shape_t to = {0};
  size_t rank = 0;
  if (!delta_lower_known_ints(lower, 1, to.dims, DELTA_MAX_RANK, &rank)) return DELTA_OK;
  to.rank = (int32_t)rank;
  bool copied[DELTA_MAX_RANK] = {false};
  bool has_zero = false;
  int32_t unknown = -1;
  for (int32_t d = 0; d < to.rank; ++d) {
    if (to.dims[d] == -1 && unknown < 0) {
      unknown = d;
    } else if (to.dims[d] < 0) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the new shape has %lld at dimension %d", (long long)to.dims[d], d);
    } else if (to.dims[d] == 0 && zero_is_zero) {
      has_zero = true;
    } else if (to.dims[d] == 0) {
      copied[d] = true;
      to.dims[d] = d < from.rank ? from.dims[d] : 0;
      if (d >= from.rank)
        (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the new shape copies dimension %d; the input's rank is %d", d, from.rank);
    }
  }
  if (has_zero && unknown >= 0) (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "allowzero with both 0 and -1 in the new shape");
  if (unknown >= 0 && delta_emit_ok(&lower->emit)) infer_reshape_dim(lower, &from, copied, unknown, &to);
  if (delta_emit_ok(&lower->emit)) lower->outputs[0] = delta_emit_view(&lower->emit, x, &to);
  return DELTA_OK;
}

delta_status_t delta_lower_squeeze(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  const delta_shape_t from = *delta_emit_shape(&lower->emit, x);
  uint32_t mask = 0;
  bool given = delta_lower_axes(lower, 1, from.rank, &mask);
  delta_shape_t to = {0};
  for (int32_t d = 0; d < from.rank; ++d) {
    bool dropped = given ? (mask >> d & 1u) != 0 : from.dims[d] == 1;
    if (!dropped) to.dims[to.rank++] = from.dims[d];
    if (dropped && from.dims[d] != 1) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "dimension %d is %lld; only dimensions of 1 can be squeezed", d,
                             (long long)from.dims[d]);
    }
  }
  lower->outputs[0] = delta_emit_view(&lower->emit, x, &to);
  return DELTA_OK;
}

// The number of axes a node names, before their rank is known.
static size_t count_axes(delta_lower_t *lower, uint32_t input) {
  int64_t axes[DELTA_MAX_RANK];
  size_t count = 0;
  if (delta_tensor_is_none(delta_lower_input(lower, input))) return delta_lower_ints(lower, "axes", axes, DELTA_MAX_RANK);
  (void)delta_lower_known_ints(lower, input, axes, DELTA_MAX_RANK, &count);
  return count;
}

delta_status_t delta_lower_unsqueeze(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  const delta_shape_t from = *delta_emit_shape(&lower->emit, x);
  if (delta_tensor_is_none(delta_lower_input(lower, 1)) && !delta_lower_has(lower, "axes")) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "axes are required and left out");
    return DELTA_OK;
  }
  delta_shape_t to = {.rank = from.rank + (int32_t)count_axes(lower, 1)};
  if (to.rank > DELTA_MAX_RANK) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "the result has rank %d; at most %d is supported", to.rank, DELTA_MAX_RANK);
    return DELTA_OK;
  }
  uint32_t mask = 0;
  (void)delta_lower_axes(lower, 1, to.rank, &mask);
  int32_t next = 0;
  for (int32_t d = 0; d < to.rank && delta_emit_ok(&lower->emit); ++d) to.dims[d] = (mask >> d & 1u) ? 1 : from.dims[next++];
  lower->outputs[0] = delta_emit_view(&lower->emit, x, &to);
  return DELTA_OK;
}

// A bound of Shape's slice made to lie in [0, rank].
static int32_t clamp_bound(int64_t bound, int32_t rank) {
  if (bound < 0) bound = bound < -(int64_t)rank ? 0 : bound + rank;
  return (int32_t)(bound > rank ? rank : bound);
}

delta_status_t delta_lower_shape(delta_lower_t *lower) {
  const delta_shape_t *shape = delta_emit_shape(&lower->emit, delta_lower_required(lower, 0));
  int32_t start = clamp_bound(delta_lower_int(lower, "start", 0), shape->rank);
  int32_t end = clamp_bound(delta_lower_int(lower, "end", shape->rank), shape->rank);
  int64_t dims[DELTA_MAX_RANK];
  memcpy(dims, shape->dims, sizeof dims);
  lower->outputs[0] = delta_emit_int64s(&lower->emit, dims + start, end > start ? end - start : 0);
  return DELTA_OK;
}

delta_status_t delta_lower_size(delta_lower_t *lower) {
  int64_t count = delta_shape_count(delta_emit_shape(&lower->emit, delta_lower_required(lower, 0)));
  lower->outputs[0] = delta_emit_constant(&lower->emit, DELTA_DTYPE_INT64, &(delta_shape_t){0}, &count);
  return DELTA_OK;
}

// A tensor attribute's elements in the graph as a constant.
static delta_tensor_id_t emit_attribute_tensor(delta_lower_t *lower, const delta_model_tensor_t *tensor) {
  if (tensor == NULL || tensor->dtype == DELTA_DTYPE_COUNT) {
    return delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "attribute 'value' has an element type that is not supported");
  }
  if (tensor->storage == DELTA_STORAGE_INLINE) return delta_emit_constant(&lower->emit, tensor->dtype, &tensor->shape, tensor->data);
  void *data = NULL;
  delta_status_t status = delta_region_allocate(&lower->emit.graph->region, tensor->size_bytes, 1, &data);
  if (status == DELTA_OK) status = delta_model_read_tensor(lower->model, tensor, data, tensor->size_bytes);
  if (status) return delta_emit_fail(&lower->emit, status);
  return delta_emit_constant(&lower->emit, tensor->dtype, &tensor->shape, data);
}

static const delta_attribute_t *find_constant_value(const delta_model_node_t *node) {
  static const char *const names[] = {"value",      "value_float",  "value_floats",  "value_int",
                                      "value_ints", "value_string", "value_strings", "sparse_value"};
  for (size_t k = 0; k < sizeof names / sizeof names[0]; ++k) {
    const delta_attribute_t *attribute = delta_model_node_attribute(node, names[k]);
    if (attribute != NULL) return attribute;
  }
  return NULL;
}

delta_status_t delta_lower_constant(delta_lower_t *lower) {
  const delta_attribute_t *value = find_constant_value(lower->node);
  delta_shape_t scalar = {0};
  delta_shape_t list = {.rank = 1, .dims = {value ? (int64_t)value->count : 0}};
  delta_tensor_id_t *y = &lower->outputs[0];
  if (value == NULL) {
    *y = delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "has no attribute 'value'");
  } else if (value->kind == DELTA_ATTRIBUTE_TENSOR) {
    *y = emit_attribute_tensor(lower, value->tensor);
  } else if (value->kind == DELTA_ATTRIBUTE_FLOAT) {
    *y = delta_emit_constant(&lower->emit, DELTA_DTYPE_FLOAT32, &scalar, &value->f);
  } else if (value->kind == DELTA_ATTRIBUTE_FLOATS) {
    *y = delta_emit_constant(&lower->emit, DELTA_DTYPE_FLOAT32, &list, value->floats);
  } else if (value->kind == DELTA_ATTRIBUTE_INT) {
    *y = delta_emit_constant(&lower->emit, DELTA_DTYPE_INT64, &scalar, &value->i);
  } else if (value->kind == DELTA_ATTRIBUTE_INTS) {
    *y = delta_emit_constant(&lower->emit, DELTA_DTYPE_INT64, &list, value->ints);
  } else {
    *y = delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "attribute '%s' is not supported (a string or a sparse tensor)", value->name);
  }
  return DELTA_OK;
}

// The value of ConstantOfShape, 0 as float32 by default. False after an error.
static bool read_fill_value(delta_lower_t *lower, delta_dtype_t *out_dtype, uint8_t value[8]) {
  const delta_attribute_t *attribute = delta_model_node_attribute(lower->node, "value");
  memset(value, 0, 8);
  *out_dtype = DELTA_DTYPE_FLOAT32;
  if (attribute == NULL) return true;
  const delta_model_tensor_t *tensor = attribute->kind == DELTA_ATTRIBUTE_TENSOR ? attribute->tensor : NULL;
  if (tensor == NULL || tensor->dtype == DELTA_DTYPE_COUNT || delta_shape_count(&tensor->shape) != 1 ||
      tensor->storage != DELTA_STORAGE_INLINE) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'value' must be a tensor of one element of a supported type");
    return false;
  }
  *out_dtype = tensor->dtype;
  memcpy(value, tensor->data, delta_dtype_bytes(tensor->dtype));
  return true;
}

delta_status_t delta_lower_constant_of_shape(delta_lower_t *lower) {
  delta_shape_t shape = {0};
  size_t rank = 0;
  delta_dtype_t dtype;
  uint8_t value[8];
  if (!delta_lower_known_ints(lower, 0, shape.dims, DELTA_MAX_RANK, &rank) || !read_fill_value(lower, &dtype, value)) return DELTA_OK;
  shape.rank = (int32_t)rank;
  size_t element_bytes = delta_dtype_bytes(dtype);
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&shape, element_bytes, "the result"));
  size_t count = (size_t)delta_shape_count(&shape);
  // Small results are known values, which shape arithmetic reads; larger ones are filled when needed.
  if (count * element_bytes > DELTA_FOLD_BROADCAST_BYTES) {
    lower->outputs[0] = delta_emit_fill(&lower->emit, dtype, &shape, delta_element_load_double(value, dtype, 0));
    return DELTA_OK;
  }
  uint8_t *data = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_allocate(&lower->emit.graph->region, count, element_bytes, (void **)&data));
  for (size_t k = 0; k < count; ++k) memcpy(data + k * element_bytes, value, element_bytes);
  lower->outputs[0] = delta_emit_constant(&lower->emit, dtype, &shape, data);
  return DELTA_OK;
}

delta_status_t delta_lower_expand(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  delta_shape_t target = {0}, shape;
  size_t rank = 0;
  if (!delta_lower_known_ints(lower, 1, target.dims, DELTA_MAX_RANK, &rank)) return DELTA_OK;
  target.rank = (int32_t)rank;
  bool valid = true;
  for (int32_t d = 0; d < target.rank; ++d) valid = valid && target.dims[d] >= 0;
  if (!valid || !delta_shape_broadcast(delta_emit_shape(&lower->emit, x), &target, &shape)) {
    char from[DELTA_SHAPE_TEXT_BYTES], to[DELTA_SHAPE_TEXT_BYTES];
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "%s cannot be expanded to %s",
                           delta_shape_text(delta_emit_shape(&lower->emit, x), from), delta_shape_text(&target, to));
    return DELTA_OK;
  }
  lower->outputs[0] = delta_emit_expand(&lower->emit, x, &shape);
  return DELTA_OK;
}
