// Pooling in float32 of tensors whose channels lie innermost: channels-last and blocked layouts. MAX_POOL with window indices, AVERAGE_POOL, and their
// gradients.
//
// Work goes row by row of the innermost spatial dimension: for each window element the loops run over the positions of the row and the channels of each.
// Every sum is formed in float64 in the reference's order, every maximum by its rule, so results have the same bits.
#include <math.h>

#include "onnx/graph/window.h"
#include "runtime/cpu/clones.h"
#include "runtime/cpu/team.h"

enum { TILE_VALUES = 1024, NO_ELEMENT = -1, NO_WINDOW_INDEX = UINT8_MAX, INNER = DELTA_WINDOW_DIMS - 1 };

typedef struct delta_pool_channels {
  delta_window_geometry_t window;
  bool count_include_pad;
  int64_t planes;   // images, or images times blocks of channels
  int64_t channels; // of one position
} delta_pool_channels_t;

const char *delta_cpu_pool_channels_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_pool_attrs_t *attrs = node->attrs;
  if (delta_node_input(graph, node, 0)->dtype != DELTA_DTYPE_FLOAT32) return "the input is not float32";
  if (attrs->layout == DELTA_LAYOUT_PLAIN) return "channels do not lie innermost";
  if (attrs->index != DELTA_POOL_INDEX_WINDOW) return "indices are not those of window elements";
  return delta_shape_count(&delta_node_output(graph, node, 0)->shape) == 0 ? "the output has no elements" : NULL;
}

delta_status_t delta_cpu_pool_channels_prepare(delta_kernel_t *kernel) {
  const delta_pool_attrs_t *attrs = kernel->node->attrs;
  const delta_shape_t *shape = &delta_node_input(kernel->graph, kernel->node, 0)->shape;
  delta_pool_channels_t *state = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &state));
  kernel->state = state;
  *state = (delta_pool_channels_t){.window = delta_window_geometry(&attrs->window, attrs->data_spatial, attrs->out_spatial),
                                   .count_include_pad = attrs->count_include_pad,
                                   .planes = shape->dims[0] * (delta_layout_block(attrs->layout) ? shape->dims[1] : 1),
                                   .channels = shape->dims[shape->rank - 1]};
  return DELTA_OK;
}

// The gradients sum a row of the data, one for each thread.
delta_status_t delta_cpu_pool_channels_grad_prepare(delta_kernel_t *kernel) {
  DELTA_RETURN_IF_ERROR(delta_cpu_pool_channels_prepare(kernel));
  const delta_pool_channels_t *state = kernel->state;
  kernel->workspace_bytes = (size_t)kernel->threads * (size_t)(state->window.data[INNER] * state->channels) * sizeof(double);
  return DELTA_OK;
}

// The outputs [*begin, *end) of the innermost dimension whose window element k lies inside the data.
static void inner_range(const delta_window_geometry_t *window, int64_t k, int64_t *begin, int64_t *end) {
  delta_window_outputs(window, INNER, k, 0, window->data[INNER], 0, window->out[INNER], begin, end);
}

// A part of a row of outputs, as many positions as fit; or a single one with a part of its channels.
typedef struct delta_pool_part {
  int64_t first, count;          // positions
  int64_t first_channel, values; // channels of each
} delta_pool_part_t;

static delta_pool_part_t first_part(const delta_pool_channels_t *state) {
  const int64_t fit = TILE_VALUES / state->channels, width = state->window.out[INNER];
  return (delta_pool_part_t){.count = fit < 1       ? 1
                                      : fit < width ? fit
                                                    : width,
                             .values = state->channels < TILE_VALUES ? state->channels : TILE_VALUES};
}

static bool next_part(const delta_pool_channels_t *state, delta_pool_part_t *part) {
  part->first_channel += part->values;
  if (part->first_channel < state->channels) {
    const int64_t left = state->channels - part->first_channel;
    part->values = left < TILE_VALUES ? left : TILE_VALUES;
    return true;
  }
  part->first += part->count;
  const int64_t left = state->window.out[INNER] - part->first;
  part->first_channel = 0;
  part->values = state->channels < TILE_VALUES ? state->channels : TILE_VALUES;
  part->count = left < part->count ? left : part->count;
  return left > 0;
}

// What the windows of a part have found so far.
typedef struct delta_pool_found {
  float best[TILE_VALUES];
  int32_t elements[TILE_VALUES];
  double sums[TILE_VALUES];
} delta_pool_found_t;

// Takes one window element of `count` positions: `values` channels each, `stride` apart in x and next to each other in what is found from `at` on.
typedef void delta_pool_take_t(delta_pool_found_t *found, int64_t at, const float *x, int64_t stride, int32_t element, int64_t count,
                               int64_t values);

// Calls a function whose last argument is the number of channels with a number that the compiler knows, where it is that of a blocked layout: loops over few channels are then
// without overhead.
#define BY_CHANNELS(function, channels, ...) \
  do {                                       \
    if ((channels) == 8) {                   \
      function(__VA_ARGS__, 8);              \
    } else if ((channels) == 16) {           \
      function(__VA_ARGS__, 16);             \
    } else {                                 \
      function(__VA_ARGS__, channels);       \
    }                                        \
  } while (0)

// Takes x where it beats the best so far: strictly larger, the first NaN, or the first of all.
static inline void take_max_values(float *restrict best, int32_t *restrict elements, const float *restrict x, int64_t stride,
                                   int32_t element, int64_t count, int64_t values) {
  for (int64_t i = 0; i < count; ++i, best += values, elements += values, x += stride) {
    for (int64_t c = 0; c < values; ++c) {
      const float value = x[c], old = best[c];
      const bool takes = (elements[c] < 0) | (value > old) | ((value != value) & (old == old));
      best[c] = takes ? value : old;
      elements[c] = takes ? element : elements[c];
    }
  }
}

DELTA_CPU_CLONES static void take_max(delta_pool_found_t *found, int64_t at, const float *x, int64_t stride, int32_t element, int64_t count,
                                      int64_t values) {
  BY_CHANNELS(take_max_values, values, found->best + at, found->elements + at, x, stride, element, count);
}

DELTA_CPU_CLONES static void take_sum(delta_pool_found_t *found, int64_t at, const float *x, int64_t stride, int32_t element, int64_t count,
                                      int64_t values) {
  (void)element;
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t c = 0; c < values; ++c) found->sums[at + i * values + c] += (double)x[i * stride + c];
  }
}

// A row of outputs: its place in the outer spatial dimensions, and the window elements there that lie inside the data.
typedef struct delta_pool_line {
  int64_t plane, out[INNER], begin[INNER], end[INNER];
} delta_pool_line_t;

static delta_pool_line_t line_of(const delta_window_geometry_t *window, int64_t number) {
  delta_pool_line_t line = {.plane = number / (window->out[0] * window->out[1]),
                            .out = {number / window->out[1] % window->out[0], number % window->out[1]}};
  for (int d = 0; d < INNER; ++d) delta_window_clip(window, d, line.out[d], 0, 0, &line.begin[d], &line.end[d]);
  return line;
}

static void visit_windows(const delta_pool_channels_t *state, const delta_pool_line_t *line, const delta_pool_part_t *part, const float *x,
                          delta_pool_found_t *found, delta_pool_take_t *take) {
  const delta_window_geometry_t *window = &state->window;
  for (int64_t k0 = line->begin[0]; k0 < line->end[0]; ++k0) {
    for (int64_t k1 = line->begin[1]; k1 < line->end[1]; ++k1) {
      const int64_t position_0 = delta_window_position(window, 0, line->out[0], k0);
      const int64_t position_1 = delta_window_position(window, 1, line->out[1], k1);
      const int64_t row = ((line->plane * window->data[0] + position_0) * window->data[1] + position_1) * window->data[INNER];
      for (int64_t k2 = 0; k2 < window->kernel[INNER]; ++k2) {
        int64_t begin, end;
        delta_window_outputs(window, INNER, k2, 0, window->data[INNER], part->first, part->first + part->count, &begin, &end);
        if (end > window->out[INNER]) end = window->out[INNER];
        if (begin >= end) continue;
        const int32_t element = (int32_t)((k0 * window->kernel[1] + k1) * window->kernel[2] + k2);
        const int64_t from = (row + delta_window_position(window, INNER, begin, k2)) * state->channels + part->first_channel;
        take(found, (begin - part->first) * part->values, x + from, window->strides[INNER] * state->channels, element, end - begin,
             part->values);
      }
    }
  }
}

// Positions along one dimension that the divisor of an average counts.
static int64_t counted(const delta_pool_channels_t *state, int d, int64_t out) {
  const delta_window_geometry_t *window = &state->window;
  int64_t begin, end, before = state->count_include_pad ? window->pads[d] : 0, after = state->count_include_pad ? window->pads_end[d] : 0;
  delta_window_clip(window, d, out, before, after, &begin, &end);
  return end - begin;
}

static double divisor(int64_t outer_count, int64_t inner_count) {
  double count = (double)outer_count * (double)inner_count;
  return count > 0 ? count : 1; // a window of nothing gives 0
}

DELTA_CPU_CLONES static void store_max(const delta_pool_found_t *found, int64_t from, int64_t count, float *y, uint8_t *indices) {
  for (int64_t c = 0; c < count; ++c) y[c] = found->best[from + c];
  if (!indices) return;
  for (int64_t c = 0; c < count; ++c) indices[c] = found->elements[from + c] < 0 ? NO_WINDOW_INDEX : (uint8_t)found->elements[from + c];
}

// Items are rows of outputs.
static void max_lines(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_pool_channels_t *state = launch->kernel->state;
  float *y = launch->buffers->outputs[0];
  uint8_t *indices = launch->kernel->node->output_count > 1 ? launch->buffers->outputs[1] : NULL;
  delta_pool_found_t found = {0};
  for (int64_t number = begin; number < end; ++number) {
    const delta_pool_line_t line = line_of(&state->window, number);
    delta_pool_part_t part = first_part(state);
    do {
      for (int64_t i = 0; i < part.count * part.values; ++i) {
        found.best[i] = -INFINITY;
        found.elements[i] = NO_ELEMENT;
      }
      visit_windows(state, &line, &part, launch->buffers->inputs[0], &found, take_max);
      for (int64_t i = 0; i < part.count; ++i) {
        const int64_t at = (number * state->window.out[INNER] + part.first + i) * state->channels + part.first_channel;
        store_max(&found, i * part.values, part.values, y + at, indices ? indices + at : NULL);
      }
    } while (next_part(state, &part));
  }
}

static void average_lines(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_pool_channels_t *state = launch->kernel->state;
  float *y = launch->buffers->outputs[0];
  delta_pool_found_t found = {0};
  for (int64_t number = begin; number < end; ++number) {
    const delta_pool_line_t line = line_of(&state->window, number);
    const int64_t outer_count = counted(state, 0, line.out[0]) * counted(state, 1, line.out[1]);
    delta_pool_part_t part = first_part(state);
    do {
      for (int64_t i = 0; i < part.count * part.values; ++i) found.sums[i] = 0;
      visit_windows(state, &line, &part, launch->buffers->inputs[0], &found, take_sum);
      for (int64_t i = 0; i < part.count; ++i) {
        const int64_t at = (number * state->window.out[INNER] + part.first + i) * state->channels + part.first_channel;
        const double count = divisor(outer_count, counted(state, INNER, part.first + i));
        for (int64_t c = 0; c < part.values; ++c) y[at + c] = (float)(found.sums[i * part.values + c] / count);
      }
    } while (next_part(state, &part));
  }
}

static void run_forward(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, delta_team_part_t *part) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_pool_channels_t *state = kernel->state;
  const delta_window_geometry_t *window = &state->window;
  const int64_t elements = window->kernel[0] * window->kernel[1] * window->kernel[2];
  delta_team_run(kernel->threads, state->planes * window->out[0] * window->out[1],
                 window->out[INNER] * state->channels * elements * (int64_t)sizeof(float), part, &launch);
}

delta_status_t delta_cpu_max_pool_channels_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_forward(kernel, buffers, max_lines);
  return DELTA_OK;
}

delta_status_t delta_cpu_average_pool_channels_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_forward(kernel, buffers, average_lines);
  return DELTA_OK;
}

// What a row of outputs gives back through one window element, into the sums of a data row.
typedef struct delta_pool_gift {
  const delta_pool_channels_t *state;
  const float *dy;        // of the row
  const uint8_t *indices; // of the row
  int64_t outer_count;
  int64_t element; // number of the row's first window element
} delta_pool_gift_t;
typedef void delta_pool_give_t(const delta_pool_gift_t *gift, int64_t k2, int64_t begin, int64_t end, double *sums);

// `count` outputs give to positions `stride` values apart.
static inline void give_where_values(const float *restrict dy, const uint8_t *restrict indices, uint8_t element, double *restrict sums,
                                     int64_t stride, int64_t count, int64_t channels) {
  for (int64_t i = 0; i < count; ++i, dy += channels, indices += channels, sums += stride) {
    for (int64_t c = 0; c < channels; ++c) {
      const float value = dy[c];
      sums[c] += (double)(indices[c] == element ? value : 0.0f);
    }
  }
}

DELTA_CPU_CLONES static void give_where(const float *dy, const uint8_t *indices, uint8_t element, double *sums, int64_t stride,
                                        int64_t count, int64_t channels) {
  BY_CHANNELS(give_where_values, channels, dy, indices, element, sums, stride, count);
}

static void give_max(const delta_pool_gift_t *gift, int64_t k2, int64_t begin, int64_t end, double *sums) {
  const delta_window_geometry_t *window = &gift->state->window;
  const int64_t channels = gift->state->channels, position = delta_window_position(window, INNER, begin, k2);
  give_where(gift->dy + begin * channels, gift->indices + begin * channels, (uint8_t)(gift->element + k2), sums + position * channels,
             window->strides[INNER] * channels, end - begin, channels);
}

static void give_average(const delta_pool_gift_t *gift, int64_t k2, int64_t begin, int64_t end, double *sums) {
  const int64_t channels = gift->state->channels;
  for (int64_t out = begin; out < end; ++out) {
    double *to = sums + delta_window_position(&gift->state->window, INNER, out, k2) * channels;
    const float *dy = gift->dy + out * channels;
    const double count = divisor(gift->outer_count, counted(gift->state, INNER, out));
    for (int64_t c = 0; c < channels; ++c) to[c] += (double)dy[c] / count;
  }
}

// The window element with which output `out` reads position `data`; NO_ELEMENT when it does not.
static int64_t reading_element(const delta_window_geometry_t *window, int d, int64_t out, int64_t data) {
  const int64_t distance = data - delta_window_position(window, d, out, 0);
  if (distance < 0 || distance % window->dilations[d] != 0) return NO_ELEMENT;
  const int64_t element = distance / window->dilations[d];
  return element < window->kernel[d] ? element : NO_ELEMENT;
}

// Sums a data row. Window elements go backwards so that for each position the outputs come in ascending order.
static void gather_row(const delta_kernel_launch_t *launch, int64_t number, delta_pool_give_t *give, double *sums) {
  const delta_pool_channels_t *state = launch->kernel->state;
  const delta_window_geometry_t *window = &state->window;
  const int64_t plane = number / (window->data[0] * window->data[1]);
  const int64_t position[INNER] = {number / window->data[1] % window->data[0], number % window->data[1]};
  int64_t begin[INNER], end[INNER];
  for (int d = 0; d < INNER; ++d) delta_window_readers(window, d, position[d], &begin[d], &end[d]);
  for (int64_t i = 0; i < window->data[INNER] * state->channels; ++i) sums[i] = 0;
  for (int64_t out_0 = begin[0]; out_0 < end[0]; ++out_0) {
    const int64_t k0 = reading_element(window, 0, out_0, position[0]);
    for (int64_t out_1 = begin[1]; k0 >= 0 && out_1 < end[1]; ++out_1) {
      const int64_t k1 = reading_element(window, 1, out_1, position[1]);
      if (k1 < 0) continue;
      const int64_t outputs = ((plane * window->out[0] + out_0) * window->out[1] + out_1) * window->out[INNER] * state->channels;
      const bool is_max = launch->kernel->node->input_count > 1;
      const delta_pool_gift_t gift = {.state = state,
                                      .dy = (const float *)launch->buffers->inputs[0] + outputs,
                                      .indices = is_max ? (const uint8_t *)launch->buffers->inputs[1] + outputs : NULL,
                                      .outer_count = counted(state, 0, out_0) * counted(state, 1, out_1),
                                      .element = (k0 * window->kernel[1] + k1) * window->kernel[2]};
      for (int64_t k2 = window->kernel[INNER] - 1; k2 >= 0; --k2) {
        int64_t first, last;
        inner_range(window, k2, &first, &last);
        if (first < last) give(&gift, k2, first, last, sums);
      }
    }
  }
}

DELTA_CPU_CLONES static void store_row(const double *restrict sums, int64_t count, float *restrict dx) {
  for (int64_t i = 0; i < count; ++i) dx[i] = (float)sums[i];
}

static void gather_rows(const void *context, int64_t begin, int64_t end, int32_t thread, delta_pool_give_t *give) {
  const delta_kernel_launch_t *launch = context;
  const delta_pool_channels_t *state = launch->kernel->state;
  const int64_t width = state->window.data[INNER] * state->channels;
  double *sums = (double *)launch->buffers->workspace + thread * width;
  float *dx = launch->buffers->outputs[0];
  for (int64_t number = begin; number < end; ++number) {
    gather_row(launch, number, give, sums);
    store_row(sums, width, dx + number * width);
  }
}

// Items are rows of the data.
static void max_grad_rows(const void *context, int64_t begin, int64_t end, int32_t thread) {
  gather_rows(context, begin, end, thread, give_max);
}
static void average_grad_rows(const void *context, int64_t begin, int64_t end, int32_t thread) {
  gather_rows(context, begin, end, thread, give_average);
}

static void run_backward(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, delta_team_part_t *part) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_pool_channels_t *state = kernel->state;
  const delta_window_geometry_t *window = &state->window;
  delta_team_run(kernel->threads, state->planes * window->data[0] * window->data[1],
                 4 * window->data[INNER] * state->channels * (int64_t)sizeof(double), part, &launch);
}

delta_status_t delta_cpu_max_pool_channels_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_backward(kernel, buffers, max_grad_rows);
  return DELTA_OK;
}

delta_status_t delta_cpu_average_pool_channels_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_backward(kernel, buffers, average_grad_rows);
  return DELTA_OK;
}
