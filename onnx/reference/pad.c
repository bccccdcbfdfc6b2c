// PAD and PAD_GRAD by reference. Negative amounts cut first; what is repeated comes from what is left.
#include "onnx/reference/element.h"

#include <string.h>

enum { PAD_FROM_CONSTANT = -1 };

// The index in dimension d of x that index i of the padded tensor repeats, or PAD_FROM_CONSTANT.
static int64_t pad_source(const delta_pad_attrs_t *attrs, int64_t size, int32_t d, int64_t i) {
  int64_t first = attrs->begin[d] < 0 ? -attrs->begin[d] : 0;
  int64_t kept = size - first - (attrs->end[d] < 0 ? -attrs->end[d] : 0);
  int64_t offset = i - (attrs->begin[d] > 0 ? attrs->begin[d] : 0); // from the first kept element
  if (offset >= 0 && offset < kept) return first + offset;
  if (attrs->mode == DELTA_PAD_CONSTANT || kept <= 0) return PAD_FROM_CONSTANT;
  if (attrs->mode == DELTA_PAD_EDGE || kept == 1) return first + (offset < 0 ? 0 : kept - 1);
  // Reflection repeats with the period of one way there and back, without the ends twice.
  int64_t period = attrs->mode == DELTA_PAD_WRAP ? kept : 2 * (kept - 1);
  int64_t phase = (offset % period + period) % period;
  return first + (phase < kept ? phase : period - phase);
}

// The element offset in x of the padded index, or PAD_FROM_CONSTANT.
static int64_t pad_source_offset(const delta_pad_attrs_t *attrs, const delta_shape_t *shape, const int64_t *strides, const int64_t *index) {
  int64_t offset = 0;
  for (int32_t d = 0; d < shape->rank; ++d) {
    int64_t source = pad_source(attrs, shape->dims[d], d, index[d]);
    if (source == PAD_FROM_CONSTANT) return PAD_FROM_CONSTANT;
    offset += source * strides[d];
  }
  return offset;
}

delta_status_t delta_reference_pad(const delta_reference_args_t *args) {
  const delta_pad_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0), *y = delta_reference_output(args, 0);
  size_t element_bytes = delta_dtype_bytes(x->dtype);
  int64_t strides[DELTA_MAX_RANK];
  delta_shape_strides(&x->shape, strides);
  char value[sizeof(double)];
  delta_element_store_double(value, x->dtype, 0, attrs->value);
  delta_walk_t walk;
  delta_walk_init(&walk, &y->shape, 0);
  char *to = args->outputs[0];
  for (bool more = delta_walk_begin(&walk); more; more = delta_walk_next(&walk), to += element_bytes) {
    int64_t offset = pad_source_offset(attrs, &x->shape, strides, walk.index);
    memcpy(to, offset == PAD_FROM_CONSTANT ? value : (const char *)args->inputs[0] + (size_t)offset * element_bytes, element_bytes);
  }
  return DELTA_OK;
}

delta_status_t delta_reference_pad_grad(const delta_reference_args_t *args) {
  const delta_pad_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *dy = delta_reference_input(args, 0);
  int64_t strides[DELTA_MAX_RANK], count = delta_shape_count(&attrs->data_shape);
  delta_shape_strides(&attrs->data_shape, strides);
  delta_sums_t sums;
  DELTA_RETURN_IF_ERROR(delta_sums_begin(args, count, &sums));
  delta_walk_t walk;
  delta_walk_init(&walk, &dy->shape, 0);
  int64_t from = 0;
  for (bool more = delta_walk_begin(&walk); more; more = delta_walk_next(&walk), ++from) {
    int64_t offset = pad_source_offset(attrs, &attrs->data_shape, strides, walk.index);
    if (offset != PAD_FROM_CONSTANT) sums.values[offset] += delta_element_load_double(args->inputs[0], dy->dtype, (size_t)from);
  }
  delta_sums_store(args, count, &sums);
  return DELTA_OK;
}
