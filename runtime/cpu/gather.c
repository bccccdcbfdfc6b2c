// Operators with an index tensor: GATHER, GATHER_GRAD, GATHER_ELEMENTS, SCATTER_ELEMENTS. All indices are checked before anything is moved.
#include <string.h>

#include "onnx/graph/access.h"
#include "runtime/cpu/team.h"

// An index tensor, read as int64.
typedef struct delta_indices {
  const void *data;
  bool wide; // int64, else int32
  int64_t size;
} delta_indices_t;

static int64_t raw_index(const delta_indices_t *indices, int64_t position) {
  return indices->wide ? ((const int64_t *)indices->data)[position] : ((const int32_t *)indices->data)[position];
}

// Negative indices count from the end.
static int64_t index_at(const delta_indices_t *indices, int64_t position) {
  int64_t index = raw_index(indices, position);
  return index < 0 ? index + indices->size : index;
}

// Reads input `input` as indices into a dimension of `size`; INVALID_ARGUMENT names the node and the first one outside.
static delta_status_t open_indices(const delta_kernel_launch_t *launch, uint32_t input, int64_t size, delta_indices_t *out_indices) {
  const delta_kernel_t *kernel = launch->kernel;
  const delta_tensor_t *tensor = delta_node_input(kernel->graph, kernel->node, input);
  *out_indices = (delta_indices_t){launch->buffers->inputs[input], tensor->dtype == DELTA_DTYPE_INT64, size};
  int64_t count = delta_shape_count(&tensor->shape), outside = 0;
  for (int64_t i = 0; i < count; ++i) {
    int64_t index = raw_index(out_indices, i);
    outside += (index < -size) | (index >= size);
  }
  if (outside == 0) return DELTA_OK;
  int64_t position = 0;
  while (raw_index(out_indices, position) >= -size && raw_index(out_indices, position) < size) ++position;
  return delta_index_outside(kernel->node, input, position, raw_index(out_indices, position), size);
}

static bool are_indices(const delta_tensor_t *tensor) { return tensor->dtype == DELTA_DTYPE_INT64 || tensor->dtype == DELTA_DTYPE_INT32; }

const char *delta_cpu_gather_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  return are_indices(delta_node_input(graph, node, 1)) ? NULL : "the indices are neither int64 nor int32";
}

// A gather along an axis: slices of `slice` elements.
typedef struct delta_gather_run {
  delta_indices_t indices;
  int64_t index_count;
  delta_lanes_t lanes; // of what is gathered from
  size_t element_bytes;
  const char *from;
  char *to;
} delta_gather_run_t;

// Items are slices of the result.
static void gather_slices(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_gather_run_t *run = context;
  size_t slice_bytes = (size_t)run->lanes.inner * run->element_bytes;
  for (int64_t slice = begin; slice < end; ++slice) {
    int64_t from = slice / run->index_count * run->lanes.size + index_at(&run->indices, slice % run->index_count);
    memcpy(run->to + (size_t)slice * slice_bytes, run->from + (size_t)from * slice_bytes, slice_bytes);
  }
}

delta_status_t delta_cpu_gather_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_gather_attrs_t *attrs = kernel->node->attrs;
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_tensor_t *x = delta_node_input(kernel->graph, kernel->node, 0);
  delta_gather_run_t run = {.index_count = delta_shape_count(&delta_node_input(kernel->graph, kernel->node, 1)->shape),
                            .lanes = delta_lanes_of(&x->shape, attrs->axis),
                            .element_bytes = delta_dtype_bytes(x->dtype),
                            .from = buffers->inputs[0],
                            .to = buffers->outputs[0]};
  DELTA_RETURN_IF_ERROR(open_indices(&launch, 1, run.lanes.size, &run.indices));
  if (run.lanes.inner == 0) return DELTA_OK;
  delta_team_run(kernel->threads, run.lanes.outer * run.index_count, 2 * run.lanes.inner * (int64_t)run.element_bytes, gather_slices, &run);
  return DELTA_OK;
}

const char *delta_cpu_gather_grad_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  if (!are_indices(delta_node_input(graph, node, 0))) return "the indices are neither int64 nor int32";
  return delta_node_input(graph, node, 1)->dtype == DELTA_DTYPE_FLOAT32 ? NULL : "the gradient is not float32";
}

// Items are rows of the result, each owned by one thread: all indices are read by every thread and those of its own rows are summed, in index order.
static void gather_grad_rows(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_gather_run_t *run = context;
  const delta_lanes_t *lanes = &run->lanes;
  int64_t inner = lanes->inner;
  memset(run->to + (size_t)(begin * inner) * sizeof(float), 0, (size_t)((end - begin) * inner) * sizeof(float));
  for (int64_t outer = begin / lanes->size; outer * lanes->size < end; ++outer) {
    int64_t first = begin - outer * lanes->size, last = end - outer * lanes->size; // rows of this outer index that the thread owns
    for (int64_t i = 0; i < run->index_count; ++i) {
      int64_t row = index_at(&run->indices, i);
      if (row < first || row >= last) continue;
      const float *from = (const float *)run->from + (outer * run->index_count + i) * inner;
      float *to = (float *)run->to + (outer * lanes->size + row) * inner;
      for (int64_t k = 0; k < inner; ++k) to[k] += from[k];
    }
  }
}

delta_status_t delta_cpu_gather_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_gather_attrs_t *attrs = kernel->node->attrs;
  const delta_kernel_launch_t launch = {kernel, buffers};
  delta_gather_run_t run = {.index_count = delta_shape_count(&delta_node_input(kernel->graph, kernel->node, 0)->shape),
                            .lanes = delta_lanes_of(&attrs->data_shape, attrs->axis),
                            .from = buffers->inputs[1],
                            .to = buffers->outputs[0]};
  DELTA_RETURN_IF_ERROR(open_indices(&launch, 0, run.lanes.size, &run.indices));
  if (delta_shape_count(&attrs->data_shape) == 0) return DELTA_OK;
  delta_team_run(kernel->threads, run.lanes.outer * run.lanes.size, run.lanes.inner * (int64_t)sizeof(float), gather_grad_rows, &run);
  return DELTA_OK;
}

// Where the elements of an index tensor (of the data's rank) point: lines along the last dimension, with the axis left to the index.
typedef struct delta_elements_run {
  delta_indices_t indices;
  int32_t rank, axis;
  int64_t dims[DELTA_MAX_RANK];    // of the indices
  int64_t strides[DELTA_MAX_RANK]; // of the data
  size_t element_bytes;
  bool adds; // float32 updates to what is there; else they take its place
  const char *from;
  char *to;
} delta_elements_run_t;

static delta_elements_run_t elements_run(const delta_kernel_t *kernel, int32_t axis) {
  const delta_tensor_t *data = delta_node_input(kernel->graph, kernel->node, 0);
  const delta_shape_t *shape = &delta_node_input(kernel->graph, kernel->node, 1)->shape;
  delta_elements_run_t run = {.rank = shape->rank, .axis = axis, .element_bytes = delta_dtype_bytes(data->dtype)};
  memcpy(run.dims, shape->dims, sizeof run.dims);
  delta_shape_strides(&data->shape, run.strides);
  return run;
}

// Offset in the data of the first element of a line, without the axis.
static int64_t line_offset(const delta_elements_run_t *run, int64_t line) {
  int64_t offset = 0;
  for (int32_t d = run->rank - 2; d >= 0; --d) {
    if (d != run->axis) offset += line % run->dims[d] * run->strides[d];
    line /= run->dims[d];
  }
  return offset;
}

// Items are lines of indices.
static void gather_element_lines(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_elements_run_t *run = context;
  int32_t last = run->rank - 1;
  int64_t count = run->dims[last], step = last == run->axis ? 0 : run->strides[last], axis_stride = run->strides[run->axis];
  for (int64_t line = begin; line < end; ++line) {
    int64_t offset = line_offset(run, line);
    for (int64_t i = 0; i < count; ++i) {
      int64_t from = offset + i * step + index_at(&run->indices, line * count + i) * axis_stride;
      memcpy(run->to + (size_t)(line * count + i) * run->element_bytes, run->from + (size_t)from * run->element_bytes, run->element_bytes);
    }
  }
}

const char *delta_cpu_gather_elements_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  if (delta_node_input(graph, node, 1)->shape.rank == 0) return "a scalar";
  return delta_cpu_gather_refuse(graph, node);
}

delta_status_t delta_cpu_gather_elements_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_gather_attrs_t *attrs = kernel->node->attrs;
  const delta_kernel_launch_t launch = {kernel, buffers};
  delta_elements_run_t run = elements_run(kernel, attrs->axis);
  run.from = buffers->inputs[0];
  run.to = buffers->outputs[0];
  DELTA_RETURN_IF_ERROR(open_indices(&launch, 1, delta_node_input(kernel->graph, kernel->node, 0)->shape.dims[attrs->axis], &run.indices));
  int64_t lines = delta_shape_count_range(&delta_node_input(kernel->graph, kernel->node, 1)->shape, 0, run.rank - 1);
  delta_team_run(kernel->threads, lines, 4 * run.dims[run.rank - 1] * (int64_t)run.element_bytes, gather_element_lines, &run);
  return DELTA_OK;
}

const char *delta_cpu_scatter_elements_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_scatter_attrs_t *attrs = node->attrs;
  const delta_tensor_t *data = delta_node_input(graph, node, 0);
  if (attrs->kind != DELTA_SCATTER_ADD && attrs->kind != DELTA_SCATTER_NONE) return "the updates are neither added nor put";
  if (attrs->kind == DELTA_SCATTER_ADD && data->dtype != DELTA_DTYPE_FLOAT32) return "the data is not float32";
  return delta_cpu_gather_elements_refuse(graph, node);
}

// Items are slabs: indices of the dimensions before the axis, to whose data no other slab writes.
static void scatter_slabs(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_elements_run_t *run = context;
  int32_t last = run->rank - 1;
  int64_t count = run->dims[last], step = last == run->axis ? 0 : run->strides[last], axis_stride = run->strides[run->axis];
  int64_t lines = 1;
  for (int32_t d = run->axis; d < last; ++d) lines *= run->dims[d];
  int64_t first = last == run->axis ? begin : begin * lines, final = last == run->axis ? end : end * lines;
  for (int64_t line = first; line < final; ++line) {
    int64_t offset = line_offset(run, line);
    for (int64_t i = 0; i < count; ++i) {
      int64_t to = offset + i * step + index_at(&run->indices, line * count + i) * axis_stride, from = line * count + i;
      if (run->adds) {
        ((float *)run->to)[to] += ((const float *)run->from)[from];
      } else {
        memcpy(run->to + (size_t)to * run->element_bytes, run->from + (size_t)from * run->element_bytes, run->element_bytes);
      }
    }
  }
}

delta_status_t delta_cpu_scatter_elements_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_scatter_attrs_t *attrs = kernel->node->attrs;
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_tensor_t *data = delta_node_input(kernel->graph, kernel->node, 0);
  delta_elements_run_t run = elements_run(kernel, attrs->axis);
  run.from = buffers->inputs[2];
  run.to = buffers->outputs[0];
  DELTA_RETURN_IF_ERROR(open_indices(&launch, 1, data->shape.dims[attrs->axis], &run.indices));
  memcpy(buffers->outputs[0], buffers->inputs[0], delta_tensor_bytes(data));
  run.adds = attrs->kind == DELTA_SCATTER_ADD;
  const delta_shape_t *shape = &delta_node_input(kernel->graph, kernel->node, 1)->shape;
  int64_t slabs = delta_shape_count_range(shape, 0, attrs->axis);
  delta_team_run(kernel->threads, slabs, 16 * delta_shape_count_range(shape, attrs->axis, shape->rank), scatter_slabs, &run);
  return DELTA_OK;
}
