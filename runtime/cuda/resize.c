// RESIZE and RESIZE_GRAD: the lists of each axis, made once and brought to the device.
#include "runtime/cuda/resize.h"

#include <string.h>

#include "onnx/graph/resize_taps.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/table.h"

typedef struct resize {
  delta_cuda_resize_t launch;
  void *tables[DELTA_MAX_RANK]; // Owned; of the axes that change.
} resize_t;

// The table of one axis: starts, indices, weights, and which results are outside.
typedef struct axis_table {
  int64_t rows, entries;
  size_t size_bytes;
  char *data; // Owned.
} axis_table_t;

static int64_t *starts_of(const axis_table_t *table) { return (int64_t *)(void *)table->data; }
static int64_t *indices_of(const axis_table_t *table) { return starts_of(table) + table->rows + 1; }
static double *weights_of(const axis_table_t *table) { return (double *)(void *)(indices_of(table) + table->entries); }
static uint8_t *outside_of(const axis_table_t *table) { return (uint8_t *)(weights_of(table) + table->entries); }

// Counts the entries of each row, of results or (backwards) of elements, then writes them in order.
static void fill_table(const delta_resize_taps_t *taps, bool backwards, const axis_table_t *table) {
  int64_t *starts = starts_of(table), *indices = indices_of(table);
  double *weights = weights_of(table);
  const int64_t total = taps->out * taps->count;
  for (int64_t k = 0; k < total; ++k)
    if (taps->weights[k] != 0) ++starts[(backwards ? taps->indices[k] : k / taps->count) + 1];
  for (int64_t row = 0; row < table->rows; ++row) starts[row + 1] += starts[row];
  // Each row's start moves on as its entries are written, and ends where the next one began.
  for (int64_t k = 0; k < total; ++k) {
    if (taps->weights[k] == 0) continue;
    const int64_t at = starts[backwards ? taps->indices[k] : k / taps->count]++;
    indices[at] = backwards ? k / taps->count : taps->indices[k];
    weights[at] = taps->weights[k];
  }
  memmove(starts + 1, starts, (size_t)table->rows * sizeof *starts);
  starts[0] = 0;
  if (!backwards)
    for (int64_t i = 0; i < taps->out; ++i) outside_of(table)[i] = taps->outside[i];
}

static delta_status_t make_axis(delta_kernel_t *kernel, const delta_resize_taps_t *taps, bool backwards, bool extrapolates, int32_t d) {
  resize_t *resize = kernel->state;
  axis_table_t table = {.rows = backwards ? taps->in : taps->out, .entries = taps->out * taps->count};
  table.size_bytes =
      (size_t)(table.rows + 1 + table.entries) * sizeof(int64_t) + (size_t)table.entries * sizeof(double) + (size_t)table.rows;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, table.size_bytes, &table.data));
  fill_table(taps, backwards, &table);
  const delta_status_t status = delta_cuda_table_make(kernel->device, table.data, table.size_bytes, &resize->tables[d]);
  if (!status) {
    const axis_table_t placed = {.rows = table.rows, .entries = table.entries, .data = resize->tables[d]};
    resize->launch.axes[d] =
        (delta_cuda_resize_axis_t){starts_of(&placed), indices_of(&placed), weights_of(&placed), extrapolates ? outside_of(&placed) : NULL};
  }
  delta_release(kernel->device->allocator, table.data);
  return status;
}

static delta_status_t make_axes(delta_kernel_t *kernel, bool backwards) {
  const delta_resize_attrs_t *attrs = kernel->node->attrs;
  const bool extrapolates = !backwards && attrs->coordinate == DELTA_RESIZE_TF_CROP_AND_RESIZE;
  for (int32_t d = 0; d < attrs->data_shape.rank; ++d) {
    delta_resize_taps_t taps = {0};
    delta_status_t status = delta_resize_taps_init(kernel->node, d, kernel->device->allocator, &taps);
    if (!status && !delta_resize_taps_change_nothing(&taps)) status = make_axis(kernel, &taps, backwards, extrapolates, d);
    delta_resize_taps_deinit(&taps, kernel->device->allocator);
    DELTA_RETURN_IF_ERROR(status);
  }
  return DELTA_OK;
}

delta_status_t delta_cuda_resize_prepare(delta_kernel_t *kernel) {
  const delta_resize_attrs_t *attrs = kernel->node->attrs;
  const bool backwards = kernel->node->op == DELTA_CORE_RESIZE_GRAD;
  const delta_shape_t *from = backwards ? &attrs->out_shape : &attrs->data_shape, *to = backwards ? &attrs->data_shape : &attrs->out_shape;
  resize_t *resize = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &resize));
  kernel->state = resize;
  delta_cuda_resize_t *launch = &resize->launch;
  launch->dtype = delta_kernel_input(kernel, 0)->dtype;
  launch->rank = to->rank;
  launch->count = (uint64_t)delta_shape_count(to);
  launch->extrapolation_value = attrs->extrapolation_value;
  delta_shape_strides(from, launch->from_strides);
  for (int32_t d = 0; d < to->rank; ++d) launch->dims[d] = delta_divisor_of((uint64_t)to->dims[d], launch->count);
  if (launch->count == 0) return DELTA_OK;
  return make_axes(kernel, backwards);
}

void delta_cuda_resize_release(delta_kernel_t *kernel) {
  resize_t *resize = kernel->state;
  if (!resize) return;
  for (int32_t d = 0; d < DELTA_MAX_RANK; ++d) delta_cuda_table_free(resize->tables[d]);
  delta_release(kernel->device->allocator, resize);
}

delta_status_t delta_cuda_resize_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const resize_t *resize = kernel->state;
  return DELTA_CUDA_CHECK(delta_cuda_resize_launch(&resize->launch, buffers->inputs[0], buffers->outputs[0], stream));
}
