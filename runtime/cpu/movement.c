// Operators that only move elements, of any type: TRANSPOSE, SLICE, SLICE_GRAD, PAD with a constant and its gradient, CONSTANT, TRILU.
#include <string.h>

#include "runtime/cpu/copy.h"
#include "runtime/cpu/team.h"

// Allocates `count` copies as the kernel's state.
static delta_status_t allocate_copies(delta_kernel_t *kernel, uint32_t count, delta_copy_t **out_copies) {
  *out_copies = NULL;
  delta_status_t status = DELTA_ALLOCATE(kernel->device->allocator, count, out_copies);
  kernel->state = *out_copies;
  return status;
}

static delta_status_t prepare_copy(delta_kernel_t *kernel, const delta_shape_t *box, const delta_strided_t *to,
                                   const delta_strided_t *from) {
  delta_copy_t *copy;
  DELTA_RETURN_IF_ERROR(allocate_copies(kernel, 1, &copy));
  delta_copy_init(copy, box, delta_dtype_bytes(delta_node_output(kernel->graph, kernel->node, 0)->dtype), to, from);
  return DELTA_OK;
}

delta_status_t delta_cpu_copy_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  delta_copy_run(kernel->state, buffers->outputs[0], buffers->inputs[0], kernel->threads);
  return DELTA_OK;
}

delta_status_t delta_cpu_transpose_prepare(delta_kernel_t *kernel) {
  const delta_transpose_attrs_t *attrs = kernel->node->attrs;
  const delta_shape_t *y = &delta_node_output(kernel->graph, kernel->node, 0)->shape;
  delta_strided_t x = delta_strided_dense(&delta_node_input(kernel->graph, kernel->node, 0)->shape), from = {0},
                  to = delta_strided_dense(y);
  for (int32_t d = 0; d < y->rank; ++d) from.strides[d] = x.strides[attrs->permutation[d]];
  return prepare_copy(kernel, y, &to, &from);
}

delta_status_t delta_cpu_slice_prepare(delta_kernel_t *kernel) {
  const delta_slice_attrs_t *attrs = kernel->node->attrs;
  delta_strided_t from = delta_strided_slice(attrs, &delta_node_input(kernel->graph, kernel->node, 0)->shape),
                  to = delta_strided_dense(&attrs->shape);
  return prepare_copy(kernel, &attrs->shape, &to, &from);
}

delta_status_t delta_cpu_slice_grad_prepare(delta_kernel_t *kernel) {
  const delta_slice_attrs_t *attrs = kernel->node->attrs;
  delta_strided_t from = delta_strided_dense(&attrs->shape), to = delta_strided_slice(attrs, &attrs->data_shape);
  return prepare_copy(kernel, &attrs->shape, &to, &from);
}

// A value repeated over a buffer.
typedef struct delta_fill {
  char *to;
  size_t element_bytes;
  char value[sizeof(uint64_t)];
} delta_fill_t;

static void fill_part(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_fill_t *fill = context;
  char *to = fill->to + begin * (int64_t)fill->element_bytes;
  size_t count = (size_t)(end - begin);
  bool same_bytes = true;
  for (size_t i = 1; i < fill->element_bytes; ++i) same_bytes &= fill->value[i] == fill->value[0];
  if (same_bytes) {
    memset(to, fill->value[0], count * fill->element_bytes);
    return;
  }
  // Each copy doubles what is filled.
  memcpy(to, fill->value, fill->element_bytes);
  for (size_t done = 1; done < count;) {
    size_t next = done < count - done ? done : count - done;
    memcpy(to + done * fill->element_bytes, to, next * fill->element_bytes);
    done += next;
  }
}

static void fill_output(const delta_kernel_t *kernel, void *to, double value) {
  const delta_tensor_t *output = delta_node_output(kernel->graph, kernel->node, 0);
  delta_fill_t fill = {.to = to, .element_bytes = delta_dtype_bytes(output->dtype)};
  delta_element_store_double(fill.value, output->dtype, 0, value);
  delta_team_run(kernel->threads, delta_shape_count(&output->shape), (int64_t)fill.element_bytes, fill_part, &fill);
}

// Zeros, and the input at its place.
delta_status_t delta_cpu_place_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  fill_output(kernel, buffers->outputs[0], 0);
  return delta_cpu_copy_run(kernel, buffers);
}

const char *delta_cpu_pad_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  (void)graph;
  const delta_pad_attrs_t *attrs = node->attrs;
  return attrs->mode == DELTA_PAD_CONSTANT ? NULL : "the padding is not constant";
}

// The box of elements that both sides of a padding have, and where it lies in each.
static delta_shape_t padded_box(const delta_pad_attrs_t *attrs, const delta_shape_t *whole, const delta_shape_t *padded,
                                delta_strided_t *out_in_whole, delta_strided_t *out_in_padded) {
  delta_shape_t box = *whole;
  *out_in_whole = delta_strided_dense(whole);
  *out_in_padded = delta_strided_dense(padded);
  for (int32_t d = 0; d < whole->rank; ++d) {
    int64_t cut_begin = attrs->begin[d] < 0 ? -attrs->begin[d] : 0, cut_end = attrs->end[d] < 0 ? -attrs->end[d] : 0;
    int64_t kept = whole->dims[d] - cut_begin - cut_end;
    box.dims[d] = kept > 0 ? kept : 0;
    out_in_whole->start += cut_begin * out_in_whole->strides[d];
    out_in_padded->start += (attrs->begin[d] > 0 ? attrs->begin[d] : 0) * out_in_padded->strides[d];
  }
  return box;
}

delta_status_t delta_cpu_pad_prepare(delta_kernel_t *kernel) {
  delta_strided_t from, to;
  delta_shape_t box = padded_box(kernel->node->attrs, &delta_node_input(kernel->graph, kernel->node, 0)->shape,
                                 &delta_node_output(kernel->graph, kernel->node, 0)->shape, &from, &to);
  return prepare_copy(kernel, &box, &to, &from);
}

delta_status_t delta_cpu_pad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_pad_attrs_t *attrs = kernel->node->attrs;
  fill_output(kernel, buffers->outputs[0], attrs->value);
  return delta_cpu_copy_run(kernel, buffers);
}

delta_status_t delta_cpu_pad_grad_prepare(delta_kernel_t *kernel) {
  delta_strided_t from, to;
  delta_shape_t box = padded_box(kernel->node->attrs, &delta_node_output(kernel->graph, kernel->node, 0)->shape,
                                 &delta_node_input(kernel->graph, kernel->node, 0)->shape, &to, &from);
  return prepare_copy(kernel, &box, &to, &from);
}

delta_status_t delta_cpu_constant_prepare(delta_kernel_t *kernel) {
  const delta_constant_attrs_t *attrs = kernel->node->attrs;
  delta_strided_t layout = delta_strided_dense(&attrs->shape);
  return prepare_copy(kernel, &attrs->shape, &layout, &layout);
}

delta_status_t delta_cpu_constant_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_constant_attrs_t *attrs = kernel->node->attrs;
  delta_copy_run(kernel->state, buffers->outputs[0], attrs->data, kernel->threads);
  return DELTA_OK;
}

// Items are lines along the last dimension; column j of row i is on diagonal j - i.
static void trilu_lines(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_trilu_attrs_t *attrs = launch->kernel->node->attrs;
  const delta_tensor_t *x = delta_node_input(launch->kernel->graph, launch->kernel->node, 0);
  int64_t rows = x->shape.dims[x->shape.rank - 2], columns = x->shape.dims[x->shape.rank - 1];
  size_t size = delta_dtype_bytes(x->dtype);
  bool in_place = launch->buffers->inputs[0] == launch->buffers->outputs[0];
  int64_t edge = attrs->upper ? attrs->k : attrs->k + (attrs->k < INT64_MAX); // the first diagonal on the other side of the cut
  for (int64_t line = begin; line < end; ++line) {
    int64_t row = line % rows;
    int64_t split = edge > columns - row ? columns : edge < -row ? 0 : edge + row;
    int64_t keep_begin = attrs->upper ? split : 0, keep_end = attrs->upper ? columns : split;
    const char *from = (const char *)launch->buffers->inputs[0] + (size_t)(line * columns) * size;
    char *to = (char *)launch->buffers->outputs[0] + (size_t)(line * columns) * size;
    if (!in_place) memcpy(to + (size_t)keep_begin * size, from + (size_t)keep_begin * size, (size_t)(keep_end - keep_begin) * size);
    memset(to, 0, (size_t)keep_begin * size);
    memset(to + (size_t)keep_end * size, 0, (size_t)(columns - keep_end) * size);
  }
}

delta_status_t delta_cpu_trilu_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_tensor_t *x = delta_node_input(kernel->graph, kernel->node, 0);
  int64_t columns = x->shape.dims[x->shape.rank - 1];
  if (columns == 0) return DELTA_OK;
  delta_team_run(kernel->threads, delta_shape_count(&x->shape) / columns, 2 * columns * (int64_t)delta_dtype_bytes(x->dtype), trilu_lines,
                 &launch);
  return DELTA_OK;
}
