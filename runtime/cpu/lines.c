// Operators that walk lines along one axis one element after the other: CUMSUM and ARG_REDUCE in float32, threads over strips.
#include "runtime/cpu/strip.h"
#include "runtime/cpu/team.h"

static const delta_shape_t *input_shape(const delta_kernel_t *kernel) { return &delta_node_input(kernel->graph, kernel->node, 0)->shape; }

static void run_strips(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, int32_t axis, delta_team_part_t *part) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_strips_t strips = delta_strips_of(input_shape(kernel), axis);
  delta_team_run(kernel->threads, strips.count, delta_strip_work_bytes(&strips), part, &launch);
}

// Items are strips.
static void cumsum_strips(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_cumsum_attrs_t *attrs = launch->kernel->node->attrs;
  const delta_strips_t strips = delta_strips_of(input_shape(launch->kernel), attrs->axis);
  const float *x = launch->buffers->inputs[0];
  float *y = launch->buffers->outputs[0];
  for (int64_t s = begin; s < end; ++s) {
    const delta_strip_t strip = delta_strip_at(&strips, s);
    double sums[DELTA_STRIP_LINES] = {0};
    for (int64_t k = 0; k < strips.length; ++k) {
      int64_t at = strip.start + (attrs->reverse ? strips.length - 1 - k : k) * strips.stride;
      for (int64_t w = 0; w < strip.width; ++w) {
        double next = sums[w] + (double)x[at + w];
        y[at + w] = (float)(attrs->exclusive ? sums[w] : next);
        sums[w] = next;
      }
    }
  }
}

delta_status_t delta_cpu_cumsum_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_strips(kernel, buffers, ((const delta_cumsum_attrs_t *)kernel->node->attrs)->axis, cumsum_strips);
  return DELTA_OK;
}

const char *delta_cpu_arg_reduce_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_tensor_t *x = delta_node_input(graph, node, 0);
  if (x->dtype != DELTA_DTYPE_FLOAT32) return "the input is not float32";
  return delta_shape_count(&x->shape) == 0 ? "there are no elements" : NULL;
}

// Whether `value` takes the place of `best`: strictly beyond it, or the first NaN; of equals, when the last one is wanted.
static bool takes_place(const delta_arg_reduce_attrs_t *attrs, float value, float best) {
  bool is_nan = value != value, had_nan = best != best;
  if (is_nan || had_nan) return is_nan && (attrs->select_last || !had_nan);
  if (value == best) return attrs->select_last;
  return attrs->smallest ? value < best : value > best;
}

static void arg_reduce_strips(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_arg_reduce_attrs_t *attrs = launch->kernel->node->attrs;
  const delta_strips_t strips = delta_strips_of(input_shape(launch->kernel), attrs->axis);
  const float *x = launch->buffers->inputs[0];
  int64_t *indices = launch->buffers->outputs[0];
  for (int64_t s = begin; s < end; ++s) {
    const delta_strip_t strip = delta_strip_at(&strips, s);
    float best[DELTA_STRIP_LINES];
    for (int64_t w = 0; w < strip.width; ++w) {
      best[w] = x[strip.start + w];
      indices[strip.line + w] = 0;
    }
    for (int64_t k = 1; k < strips.length; ++k) {
      for (int64_t w = 0; w < strip.width; ++w) {
        float value = x[strip.start + k * strips.stride + w];
        if (!takes_place(attrs, value, best[w])) continue;
        best[w] = value;
        indices[strip.line + w] = k;
      }
    }
  }
}

delta_status_t delta_cpu_arg_reduce_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_strips(kernel, buffers, ((const delta_arg_reduce_attrs_t *)kernel->node->attrs)->axis, arg_reduce_strips);
  return DELTA_OK;
}
