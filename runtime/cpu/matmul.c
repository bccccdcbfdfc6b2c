// Matrix products through oneDNN, on plain layouts: a transposed operand is one with exchanged strides.
#include "runtime/cpu/matmul.h"

#include <string.h>

#include "runtime/cpu/team.h"

// An operand as oneDNN sees it.
typedef struct delta_matrix {
  int64_t dims[DELTA_MAX_RANK];
  int64_t strides[DELTA_MAX_RANK];
  int32_t rank;
} delta_matrix_t;

// The logical matrix of a tensor: its last two dimensions exchanged when transposed, leading ones of 1 added up to `rank`.
static delta_matrix_t view_matrix(const delta_shape_t *shape, bool transposed, int32_t rank) {
  delta_matrix_t matrix = {.rank = rank};
  int64_t strides[DELTA_MAX_RANK];
  delta_shape_strides(shape, strides);
  int32_t lead = rank - shape->rank;
  int64_t whole = delta_shape_count(shape);
  for (int32_t d = 0; d < rank; ++d) {
    matrix.dims[d] = d < lead ? 1 : shape->dims[d - lead];
    matrix.strides[d] = d < lead ? whole : strides[d - lead];
  }
  if (transposed) {
    int64_t dim = matrix.dims[rank - 1], stride = matrix.strides[rank - 1];
    matrix.dims[rank - 1] = matrix.dims[rank - 2];
    matrix.strides[rank - 1] = matrix.strides[rank - 2];
    matrix.dims[rank - 2] = dim;
    matrix.strides[rank - 2] = stride;
  }
  return matrix;
}

// Leading dimensions and rows in one: possible when the second operand is a single matrix and the first is not transposed.
static void flatten_rows(delta_matrix_t *matrix) {
  int64_t rows = 1;
  for (int32_t d = 0; d + 1 < matrix->rank; ++d) rows *= matrix->dims[d];
  int64_t columns = matrix->dims[matrix->rank - 1];
  *matrix = (delta_matrix_t){.dims = {rows, columns}, .strides = {columns, 1}, .rank = 2};
}

bool delta_matmul_is_single(const delta_shape_t *shape) { return delta_shape_count_range(shape, 0, shape->rank - 2) == 1; }

static delta_status_t layout_of(const delta_matrix_t *matrix, dnnl_memory_desc_t *out_layout) {
  return delta_onednn_strided(matrix->dims, matrix->strides, matrix->rank, out_layout);
}

// The same row for all rows of all matrices.
static delta_status_t layout_of_bias(const delta_matrix_t *y, dnnl_memory_desc_t *out_layout) {
  int64_t dims[DELTA_MAX_RANK];
  for (int32_t d = 0; d < y->rank; ++d) dims[d] = d + 1 < y->rank ? 1 : y->dims[d];
  return delta_onednn_dense(dims, y->rank, out_layout);
}

const char *delta_cpu_matmul_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const char *reason = delta_cpu_refuse_unless_float32(graph, node);
  if (reason) return reason;
  for (uint32_t i = 0; i < 2; ++i) {
    if (delta_shape_count(&delta_node_input(graph, node, i)->shape) == 0) return "an operand has no elements";
  }
  return NULL;
}

delta_status_t delta_matmul_layouts(const delta_kernel_t *kernel, delta_matmul_layouts_t *out_layouts) {
  const delta_matmul_attrs_t *attrs = kernel->node->attrs;
  const delta_shape_t *a_shape = &delta_node_input(kernel->graph, kernel->node, 0)->shape,
                      *b_shape = &delta_node_input(kernel->graph, kernel->node, 1)->shape;
  const delta_shape_t *y_shape = &delta_node_output(kernel->graph, kernel->node, 0)->shape;
  int32_t rank = y_shape->rank;
  delta_matrix_t a = view_matrix(a_shape, attrs->transpose_a, rank), b = view_matrix(b_shape, attrs->transpose_b, rank),
                 y = view_matrix(y_shape, false, rank);
  if (delta_matmul_is_single(b_shape) && !attrs->transpose_a) {
    flatten_rows(&a);
    flatten_rows(&y);
    delta_shape_t b_matrix = {.rank = 2, .dims = {b_shape->dims[b_shape->rank - 2], b_shape->dims[b_shape->rank - 1]}};
    b = view_matrix(&b_matrix, attrs->transpose_b, 2);
  }
  DELTA_RETURN_IF_ERROR(layout_of(&a, &out_layouts->a));
  DELTA_RETURN_IF_ERROR(layout_of(&b, &out_layouts->b));
  out_layouts->has_bias = delta_node_input(kernel->graph, kernel->node, 3) != NULL;
  if (out_layouts->has_bias) DELTA_RETURN_IF_ERROR(layout_of_bias(&y, &out_layouts->bias));
  return layout_of(&y, &out_layouts->y);
}

static bool adds(const delta_kernel_t *kernel) { return delta_node_input(kernel->graph, kernel->node, 2) != NULL; }

delta_status_t delta_matmul_describe(const delta_kernel_t *kernel, const delta_onednn_primitive_t *primitive,
                                     const delta_matmul_layouts_t *layouts, dnnl_primitive_desc_t *out_description) {
  dnnl_matmul_desc_t descriptor;
  const dnnl_memory_desc_t *bias = layouts->has_bias ? &layouts->bias : NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ONEDNN(dnnl_matmul_desc_init(&descriptor, &layouts->a, &layouts->b, bias, &layouts->y)));
  return adds(kernel) ? delta_onednn_describe_adding(primitive, &descriptor, out_description)
                      : delta_onednn_describe(primitive, &descriptor, NULL, out_description);
}

delta_status_t delta_matmul_add_bias(delta_onednn_primitive_t *primitive, const delta_matmul_layouts_t *layouts) {
  return layouts->has_bias ? delta_onednn_add(primitive, DNNL_ARG_BIAS, &layouts->bias) : DELTA_OK;
}

const void *delta_matmul_bias(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  return kernel->node->input_count > 3 ? buffers->inputs[3] : NULL;
}

delta_status_t delta_cpu_matmul_prepare(delta_kernel_t *kernel) {
  delta_onednn_primitive_t *primitive = NULL;
  delta_matmul_layouts_t layouts;
  dnnl_primitive_desc_t description = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_onednn_open(kernel, &primitive), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_matmul_layouts(kernel, &layouts), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_matmul_describe(kernel, primitive, &layouts, &description), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, DNNL_ARG_SRC, &layouts.a), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, DNNL_ARG_WEIGHTS, &layouts.b), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_onednn_add(primitive, DNNL_ARG_DST, &layouts.y), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_matmul_add_bias(primitive, &layouts), cleanup);
  status = delta_onednn_build(kernel, description);
cleanup:
  if (description) dnnl_primitive_desc_destroy(description);
  return status;
}

enum { COPIED_BYTES = 4096 }; // an item of what is shared

static void copy_items(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const size_t size_bytes = delta_tensor_bytes(delta_node_output(launch->kernel->graph, launch->kernel->node, 0));
  const size_t first = (size_t)begin * COPIED_BYTES, last = (size_t)end * COPIED_BYTES;
  memcpy((char *)launch->buffers->outputs[0] + first, (const char *)launch->buffers->inputs[2] + first,
         (last < size_bytes ? last : size_bytes) - first);
}

void delta_matmul_begin_sum(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  if (!adds(kernel) || buffers->inputs[2] == buffers->outputs[0]) return;
  const size_t size_bytes = delta_tensor_bytes(delta_node_output(kernel->graph, kernel->node, 0));
  const delta_kernel_launch_t launch = {kernel, buffers};
  delta_team_run(kernel->threads, (int64_t)((size_bytes + COPIED_BYTES - 1) / COPIED_BYTES), 2 * COPIED_BYTES, copy_items, &launch);
}

delta_status_t delta_cpu_matmul_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const void *addresses[] = {buffers->inputs[0], buffers->inputs[1], buffers->outputs[0], delta_matmul_bias(kernel, buffers)};
  delta_matmul_begin_sum(kernel, buffers);
  return delta_onednn_execute(kernel, addresses, buffers->workspace);
}
