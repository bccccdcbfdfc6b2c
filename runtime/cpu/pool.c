// Pooling in float32: MAX_POOL, AVERAGE_POOL and their gradients.
//
// Work goes row by row of the innermost spatial dimension: for each window element the loop runs over the outputs of the row, so that it is vector
// code whatever the window. Every sum is formed in float64 in the reference's order, every maximum by its rule, so results have the same bits.
#include <math.h>

#include "onnx/graph/window.h"
#include "runtime/cpu/clones.h"
#include "runtime/cpu/team.h"

enum { TILE = 256, NO_ELEMENT = -1, NO_WINDOW_INDEX = UINT8_MAX, NO_FLAT_INDEX = -1, INNER = DELTA_WINDOW_DIMS - 1 };

typedef struct delta_pool_state {
  delta_window_geometry_t window;
  delta_pool_index_t index;
  bool count_include_pad;
  int64_t planes;
  double *inner_counts; // Owned. What the divisor of an average counts along the innermost dimension, for each output there
} delta_pool_state_t;

const char *delta_cpu_pool_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  if (delta_node_input(graph, node, 0)->dtype != DELTA_DTYPE_FLOAT32) return "the input is not float32";
  if (((const delta_pool_attrs_t *)node->attrs)->layout != DELTA_LAYOUT_PLAIN) return "the layout is not the plain one";
  if (delta_shape_count(&delta_node_output(graph, node, 0)->shape) == 0) return "the output has no elements";
  return NULL;
}

// Positions along one dimension that the divisor of an average counts.
static double counted(const delta_pool_state_t *state, int d, int64_t out) {
  const delta_window_geometry_t *window = &state->window;
  int64_t begin, end, before = state->count_include_pad ? window->pads[d] : 0, after = state->count_include_pad ? window->pads_end[d] : 0;
  delta_window_clip(window, d, out, before, after, &begin, &end);
  return (double)(end - begin);
}

// A window of nothing gives 0.
static double divisor(double outer_count, double inner_count) {
  double count = outer_count * inner_count;
  return count > 0 ? count : 1;
}

delta_status_t delta_cpu_pool_prepare(delta_kernel_t *kernel) {
  const delta_pool_attrs_t *attrs = kernel->node->attrs;
  const delta_shape_t *shape = &delta_node_input(kernel->graph, kernel->node, 0)->shape;
  delta_pool_state_t *state = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &state));
  kernel->state = state;
  *state = (delta_pool_state_t){.window = delta_window_geometry(&attrs->window, attrs->data_spatial, attrs->out_spatial),
                                .index = attrs->index,
                                .count_include_pad = attrs->count_include_pad,
                                .planes = shape->dims[0] * shape->dims[1]};
  int64_t width = state->window.out[INNER];
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, (size_t)width, &state->inner_counts));
  for (int64_t out = 0; out < width; ++out) state->inner_counts[out] = counted(state, INNER, out);
  return DELTA_OK;
}

void delta_cpu_pool_release(delta_kernel_t *kernel) {
  delta_pool_state_t *state = kernel->state;
  if (state) delta_release(kernel->device->allocator, state->inner_counts);
  delta_release(kernel->device->allocator, state);
}

// The gradients sum a row of the data, one for each thread.
delta_status_t delta_cpu_pool_grad_prepare(delta_kernel_t *kernel) {
  DELTA_RETURN_IF_ERROR(delta_cpu_pool_prepare(kernel));
  const delta_pool_state_t *state = kernel->state;
  kernel->workspace_bytes = (size_t)kernel->threads * (size_t)state->window.data[INNER] * sizeof(double);
  return DELTA_OK;
}

// The outputs [*begin, *end) of the innermost dimension whose window element k lies inside the data.
static void inner_range(const delta_window_geometry_t *window, int64_t k, int64_t *begin, int64_t *end) {
  int64_t shift = k * window->dilations[INNER] - window->pads[INNER], stride = window->strides[INNER];
  *begin = delta_window_steps(-shift, stride);
  int64_t last = delta_window_steps(window->data[INNER] - shift, stride);
  *end = last < window->out[INNER] ? last : window->out[INNER];
}

// A row of outputs: their place in the two outer spatial dimensions, and the window elements there that lie inside the data.
typedef struct delta_pool_row {
  int64_t plane, out[INNER];
  int64_t begin[INNER], end[INNER];
} delta_pool_row_t;

static delta_pool_row_t row_of(const delta_window_geometry_t *window, int64_t number) {
  delta_pool_row_t row = {.plane = number / (window->out[0] * window->out[1]),
                          .out = {number / window->out[1] % window->out[0], number % window->out[1]}};
  for (int d = 0; d < INNER; ++d) delta_window_clip(window, d, row.out[d], 0, 0, &row.begin[d], &row.end[d]);
  return row;
}

// The data row that outer window elements k0, k1 of a row of outputs read.
static int64_t data_row(const delta_window_geometry_t *window, const delta_pool_row_t *row, int64_t k0, int64_t k1) {
  int64_t position_0 = delta_window_position(window, 0, row->out[0], k0), position_1 = delta_window_position(window, 1, row->out[1], k1);
  return ((row->plane * window->data[0] + position_0) * window->data[1] + position_1) * window->data[INNER];
}

// Takes x where it beats the best so far: strictly larger, the first NaN, or the first of all.
DELTA_CPU_CLONES static void max_into(const float *x, int64_t stride, int32_t element, float *best, int32_t *elements, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float value = x[i * stride], old = best[i];
    bool takes = (elements[i] < 0) | (value > old) | ((value != value) & (old == old));
    best[i] = takes ? value : old;
    elements[i] = takes ? element : elements[i];
  }
}

static int64_t flat_index(const delta_pool_state_t *state, const delta_pool_row_t *row, int64_t out, int32_t element) {
  const delta_window_geometry_t *window = &state->window;
  int64_t k0 = element / (window->kernel[1] * window->kernel[2]), k1 = element / window->kernel[2] % window->kernel[1];
  int64_t inner = delta_window_position(window, INNER, out, element % window->kernel[2]);
  if (state->index == DELTA_POOL_INDEX_FLAT) return data_row(window, row, k0, k1) + inner;
  int64_t position_0 = delta_window_position(window, 0, row->out[0], k0), position_1 = delta_window_position(window, 1, row->out[1], k1);
  return row->plane * window->data_count + (inner * window->data[1] + position_1) * window->data[0] + position_0;
}

static void store_indices(const delta_pool_state_t *state, const delta_pool_row_t *row, int64_t first, int64_t at, const int32_t *elements,
                          int64_t count, void *indices) {
  for (int64_t i = 0; i < count; ++i) {
    if (state->index == DELTA_POOL_INDEX_WINDOW) {
      ((uint8_t *)indices)[at + i] = elements[i] < 0 ? NO_WINDOW_INDEX : (uint8_t)elements[i];
    } else {
      ((int64_t *)indices)[at + i] = elements[i] < 0 ? NO_FLAT_INDEX : flat_index(state, row, first + i, elements[i]);
    }
  }
}

// What one window element contributes to outputs [first, first + count) of a row: the loop over elements that both poolings share. `visit` gets the place
// in the tile, the data and the element's number.
typedef struct delta_pool_tile {
  float best[TILE];
  double sums[TILE];
  int32_t elements[TILE];
} delta_pool_tile_t;
typedef void delta_pool_visit_t(delta_pool_tile_t *tile, int64_t at, const float *x, int64_t stride, int32_t element, int64_t count);

static void visit_max(delta_pool_tile_t *tile, int64_t at, const float *x, int64_t stride, int32_t element, int64_t count) {
  max_into(x, stride, element, tile->best + at, tile->elements + at, count);
}

DELTA_CPU_CLONES static void sum_into(const float *x, int64_t stride, double *sums, int64_t count) {
  for (int64_t i = 0; i < count; ++i) sums[i] += (double)x[i * stride];
}

static void visit_sum(delta_pool_tile_t *tile, int64_t at, const float *x, int64_t stride, int32_t element, int64_t count) {
  (void)element;
  sum_into(x, stride, tile->sums + at, count);
}

static void visit_windows(const delta_window_geometry_t *window, const delta_pool_row_t *row, const float *x, int64_t first, int64_t count,
                          delta_pool_tile_t *tile, delta_pool_visit_t *visit) {
  int64_t stride = window->strides[INNER];
  for (int64_t k0 = row->begin[0]; k0 < row->end[0]; ++k0) {
    for (int64_t k1 = row->begin[1]; k1 < row->end[1]; ++k1) {
      const float *data = x + data_row(window, row, k0, k1);
      for (int64_t k2 = 0; k2 < window->kernel[INNER]; ++k2) {
        int64_t begin, end;
        inner_range(window, k2, &begin, &end);
        begin = begin > first ? begin : first;
        end = end < first + count ? end : first + count;
        if (begin >= end) continue;
        int32_t element = (int32_t)((k0 * window->kernel[1] + k1) * window->kernel[2] + k2);
        visit(tile, begin - first, data + delta_window_position(window, INNER, begin, k2), stride, element, end - begin);
      }
    }
  }
}

// Items are rows of outputs.
static void max_pool_rows(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_pool_state_t *state = launch->kernel->state;
  int64_t width = state->window.out[INNER];
  void *indices = launch->kernel->node->output_count > 1 ? launch->buffers->outputs[1] : NULL;
  for (int64_t number = begin; number < end; ++number) {
    delta_pool_row_t row = row_of(&state->window, number);
    for (int64_t first = 0; first < width; first += TILE) {
      delta_pool_tile_t tile;
      int64_t count = width - first < TILE ? width - first : TILE, at = number * width + first;
      for (int64_t i = 0; i < count; ++i) {
        tile.best[i] = -INFINITY;
        tile.elements[i] = NO_ELEMENT;
      }
      visit_windows(&state->window, &row, launch->buffers->inputs[0], first, count, &tile, visit_max);
      for (int64_t i = 0; i < count; ++i) ((float *)launch->buffers->outputs[0])[at + i] = tile.best[i];
      if (indices) store_indices(state, &row, first, at, tile.elements, count, indices);
    }
  }
}

static void average_pool_rows(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_pool_state_t *state = launch->kernel->state;
  int64_t width = state->window.out[INNER];
  float *y = launch->buffers->outputs[0];
  for (int64_t number = begin; number < end; ++number) {
    delta_pool_row_t row = row_of(&state->window, number);
    double outer_count = counted(state, 0, row.out[0]) * counted(state, 1, row.out[1]);
    for (int64_t first = 0; first < width; first += TILE) {
      delta_pool_tile_t tile;
      int64_t count = width - first < TILE ? width - first : TILE, at = number * width + first;
      for (int64_t i = 0; i < count; ++i) tile.sums[i] = 0;
      visit_windows(&state->window, &row, launch->buffers->inputs[0], first, count, &tile, visit_sum);
      for (int64_t i = 0; i < count; ++i) y[at + i] = (float)(tile.sums[i] / divisor(outer_count, state->inner_counts[first + i]));
    }
  }
}

static void run_forward(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, delta_team_part_t *part) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_window_geometry_t *window = &((const delta_pool_state_t *)kernel->state)->window;
  int64_t elements = window->kernel[0] * window->kernel[1] * window->kernel[2];
  int64_t rows = ((const delta_pool_state_t *)kernel->state)->planes * window->out[0] * window->out[1];
  delta_team_run(kernel->threads, rows, window->out[INNER] * elements * (int64_t)sizeof(float), part, &launch);
}

delta_status_t delta_cpu_max_pool_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_forward(kernel, buffers, max_pool_rows);
  return DELTA_OK;
}

delta_status_t delta_cpu_average_pool_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_forward(kernel, buffers, average_pool_rows);
  return DELTA_OK;
}

// What a row of outputs gives back through one window element, into the sums of a data row. `data` is the number of the data row's first position, in the
// numbering of the index (flat ones step by `data_step` along the row).
typedef struct delta_pool_share {
  const delta_pool_state_t *state;
  const delta_kernel_buffers_t *buffers;
  int64_t outputs; // number of the row's first output
  double outer_count;
  int64_t element; // number of the row's first window element
  int64_t data, data_step;
} delta_pool_share_t;
typedef void delta_pool_give_t(const delta_pool_share_t *share, int64_t k2, int64_t begin, int64_t end, double *sums);

DELTA_CPU_CLONES static void give_window_index(const float *dy, const uint8_t *indices, uint8_t element, double *sums, int64_t stride,
                                               int64_t count) {
  for (int64_t i = 0; i < count; ++i) sums[i * stride] += indices[i] == element ? (double)dy[i] : 0.0;
}

static void give_max(const delta_pool_share_t *share, int64_t k2, int64_t begin, int64_t end, double *sums) {
  const delta_window_geometry_t *window = &share->state->window;
  const float *dy = (const float *)share->buffers->inputs[0] + share->outputs;
  int64_t stride = window->strides[INNER], position = delta_window_position(window, INNER, begin, k2);
  if (share->state->index == DELTA_POOL_INDEX_WINDOW) {
    const uint8_t *indices = (const uint8_t *)share->buffers->inputs[1] + share->outputs;
    give_window_index(dy + begin, indices + begin, (uint8_t)(share->element + k2), sums + position, stride, end - begin);
    return;
  }
  const int64_t *indices = (const int64_t *)share->buffers->inputs[1] + share->outputs;
  for (int64_t out = begin; out < end; ++out, position += stride) {
    if (indices[out] == share->data + position * share->data_step) sums[position] += (double)dy[out];
  }
}

DELTA_CPU_CLONES static void give_shares(const float *dy, double outer_count, const double *inner_counts, double *sums, int64_t stride,
                                         int64_t count) {
  for (int64_t i = 0; i < count; ++i) sums[i * stride] += (double)dy[i] / divisor(outer_count, inner_counts[i]);
}

static void give_average(const delta_pool_share_t *share, int64_t k2, int64_t begin, int64_t end, double *sums) {
  const delta_window_geometry_t *window = &share->state->window;
  const float *dy = (const float *)share->buffers->inputs[0] + share->outputs;
  give_shares(dy + begin, share->outer_count, share->state->inner_counts + begin, sums + delta_window_position(window, INNER, begin, k2),
              window->strides[INNER], end - begin);
}

// The window element with which output `out` reads position `data`; NO_ELEMENT when it does not.
static int64_t reading_element(const delta_window_geometry_t *window, int d, int64_t out, int64_t data) {
  int64_t distance = data - delta_window_position(window, d, out, 0);
  if (distance < 0 || distance % window->dilations[d] != 0) return NO_ELEMENT;
  int64_t element = distance / window->dilations[d];
  return element < window->kernel[d] ? element : NO_ELEMENT;
}

// Sums what one row of outputs gives to one row of data. Window elements go backwards so that for each position the outputs come in ascending order.
static void give_row(delta_pool_share_t *share, delta_pool_give_t *give, double *sums) {
  const delta_window_geometry_t *window = &share->state->window;
  for (int64_t k2 = window->kernel[INNER] - 1; k2 >= 0; --k2) {
    int64_t begin, end;
    inner_range(window, k2, &begin, &end);
    if (begin < end) give(share, k2, begin, end, sums);
  }
}

static void gather_row(const delta_kernel_launch_t *launch, int64_t number, delta_pool_give_t *give, double *sums) {
  const delta_pool_state_t *state = launch->kernel->state;
  const delta_window_geometry_t *window = &state->window;
  int64_t plane = number / (window->data[0] * window->data[1]);
  int64_t position[INNER] = {number / window->data[1] % window->data[0], number % window->data[1]}, begin[INNER], end[INNER];
  for (int d = 0; d < INNER; ++d) delta_window_readers(window, d, position[d], &begin[d], &end[d]);
  delta_pool_share_t share = {.state = state, .buffers = launch->buffers, .data = number * window->data[INNER], .data_step = 1};
  if (state->index == DELTA_POOL_INDEX_FLAT_COLUMN) {
    share.data = plane * window->data_count + position[1] * window->data[0] + position[0];
    share.data_step = window->data[0] * window->data[1];
  }
  for (int64_t i = 0; i < window->data[INNER]; ++i) sums[i] = 0;
  for (int64_t out_0 = begin[0]; out_0 < end[0]; ++out_0) {
    int64_t k0 = reading_element(window, 0, out_0, position[0]);
    for (int64_t out_1 = begin[1]; k0 >= 0 && out_1 < end[1]; ++out_1) {
      int64_t k1 = reading_element(window, 1, out_1, position[1]);
      if (k1 < 0) continue;
      share.outputs = ((plane * window->out[0] + out_0) * window->out[1] + out_1) * window->out[INNER];
      share.outer_count = counted(state, 0, out_0) * counted(state, 1, out_1);
      share.element = (k0 * window->kernel[1] + k1) * window->kernel[2];
      give_row(&share, give, sums);
    }
  }
}

static void gather_rows(const delta_kernel_launch_t *launch, int64_t begin, int64_t end, int32_t thread, delta_pool_give_t *give) {
  const delta_pool_state_t *state = launch->kernel->state;
  int64_t width = state->window.data[INNER];
  double *sums = (double *)launch->buffers->workspace + thread * width;
  float *dx = launch->buffers->outputs[0];
  for (int64_t number = begin; number < end; ++number) {
    gather_row(launch, number, give, sums);
    for (int64_t i = 0; i < width; ++i) dx[number * width + i] = (float)sums[i];
  }
}

// Items are rows of the data.
static void max_pool_grad_rows(const void *context, int64_t begin, int64_t end, int32_t thread) {
  gather_rows(context, begin, end, thread, give_max);
}

static void average_pool_grad_rows(const void *context, int64_t begin, int64_t end, int32_t thread) {
  gather_rows(context, begin, end, thread, give_average);
}

static void run_backward(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, delta_team_part_t *part) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_pool_state_t *state = kernel->state;
  const delta_window_geometry_t *window = &state->window;
  delta_team_run(kernel->threads, state->planes * window->data[0] * window->data[1], 4 * window->data[INNER] * (int64_t)sizeof(double),
                 part, &launch);
}

delta_status_t delta_cpu_max_pool_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_backward(kernel, buffers, max_pool_grad_rows);
  return DELTA_OK;
}

delta_status_t delta_cpu_average_pool_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_backward(kernel, buffers, average_pool_grad_rows);
  return DELTA_OK;
}
