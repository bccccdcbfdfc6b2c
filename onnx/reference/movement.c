// Movement by reference: CONSTANT, VIEW, TRANSPOSE, SLICE, SLICE_GRAD, SPLIT, CONCAT, TRILU. Elements are moved as bytes, whatever their type.
#include "onnx/reference/element.h"

#include <string.h>

static void copy_all(void *to, const void *from, const delta_tensor_t *tensor) {
  if (to != from) memmove(to, from, delta_tensor_bytes(tensor));
}

delta_status_t delta_reference_constant(const delta_reference_args_t *args) {
  const delta_constant_attrs_t *attrs = args->node->attrs;
  copy_all(args->outputs[0], attrs->data, delta_reference_output(args, 0));
  return DELTA_OK;
}

delta_status_t delta_reference_view(const delta_reference_args_t *args) {
  copy_all(args->outputs[0], args->inputs[0], delta_reference_output(args, 0));
  return DELTA_OK;
}

delta_status_t delta_reference_transpose(const delta_reference_args_t *args) {
  const delta_transpose_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0), *y = delta_reference_output(args, 0);
  int64_t x_strides[DELTA_MAX_RANK];
  delta_shape_strides(&x->shape, x_strides);
  delta_strided_t from = {0}, to = {0};
  delta_shape_strides(&y->shape, to.strides);
  for (int32_t d = 0; d < y->shape.rank; ++d) from.strides[d] = x_strides[attrs->permutation[d]];
  delta_copy_strided(&y->shape, delta_dtype_bytes(y->dtype), args->outputs[0], &to, args->inputs[0], &from);
  return DELTA_OK;
}

delta_status_t delta_reference_slice(const delta_reference_args_t *args) {
  const delta_slice_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0);
  delta_strided_t from = delta_strided_slice(attrs, &x->shape), to = {0};
  delta_shape_strides(&attrs->shape, to.strides);
  delta_copy_strided(&attrs->shape, delta_dtype_bytes(x->dtype), args->outputs[0], &to, args->inputs[0], &from);
  return DELTA_OK;
}

delta_status_t delta_reference_slice_grad(const delta_reference_args_t *args) {
  const delta_slice_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *dx = delta_reference_output(args, 0);
  memset(args->outputs[0], 0, delta_tensor_bytes(dx));
  delta_strided_t from = {0}, to = delta_strided_slice(attrs, &attrs->data_shape);
  delta_shape_strides(&attrs->shape, from.strides);
  delta_copy_strided(&attrs->shape, delta_dtype_bytes(dx->dtype), args->outputs[0], &to, args->inputs[0], &from);
  return DELTA_OK;
}

// Moves one part of a tensor between its own buffer and its place along `axis` of the whole.
static void move_part(const delta_tensor_t *part, const delta_tensor_t *whole, int32_t axis, int64_t begin, void *to, const void *from,
                      bool into_whole) {
  delta_strided_t in_part = {0}, in_whole = {0};
  delta_shape_strides(&part->shape, in_part.strides);
  delta_shape_strides(&whole->shape, in_whole.strides);
  in_whole.start = begin * in_whole.strides[axis];
  delta_copy_strided(&part->shape, delta_dtype_bytes(part->dtype), to, into_whole ? &in_whole : &in_part, from,
                     into_whole ? &in_part : &in_whole);
}

delta_status_t delta_reference_split(const delta_reference_args_t *args) {
  const delta_split_attrs_t *attrs = args->node->attrs;
  int64_t begin = 0;
  for (uint32_t k = 0; k < args->node->output_count; ++k) {
    const delta_tensor_t *part = delta_reference_output(args, k);
    if (part) move_part(part, delta_reference_input(args, 0), attrs->axis, begin, args->outputs[k], args->inputs[0], false);
    begin += attrs->sizes[k];
  }
  return DELTA_OK;
}

delta_status_t delta_reference_concat(const delta_reference_args_t *args) {
  const delta_split_attrs_t *attrs = args->node->attrs;
  int64_t begin = 0;
  for (uint32_t k = 0; k < args->node->input_count; ++k) {
    const delta_tensor_t *part = delta_reference_input(args, k);
    move_part(part, delta_reference_output(args, 0), attrs->axis, begin, args->outputs[0], args->inputs[k], true);
    begin += part->shape.dims[attrs->axis];
  }
  return DELTA_OK;
}

delta_status_t delta_reference_trilu(const delta_reference_args_t *args) {
  const delta_trilu_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0);
  copy_all(args->outputs[0], args->inputs[0], x);
  size_t element_bytes = delta_dtype_bytes(x->dtype);
  int64_t rows = x->shape.dims[x->shape.rank - 2], columns = x->shape.dims[x->shape.rank - 1];
  int64_t line_count = delta_shape_count_range(&x->shape, 0, x->shape.rank - 1);
  for (int64_t line = 0; line < line_count; ++line) {
    // Column j of row i is on diagonal j - i. Zeroed: below diagonal k, or above it.
    int64_t row = line % rows;
    int64_t edge = attrs->upper ? attrs->k : attrs->k + (attrs->k < INT64_MAX);
    int64_t split = edge > columns - row ? columns : edge < -row ? 0 : edge + row; // first column on or above `edge`
    int64_t begin = attrs->upper ? 0 : split, end = attrs->upper ? split : columns;
    memset((char *)args->outputs[0] + (size_t)(line * columns + begin) * element_bytes, 0, (size_t)(end - begin) * element_bytes);
  }
  return DELTA_OK;
}
