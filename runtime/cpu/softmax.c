// Softmax, its logarithm and their gradients in float32, threads over strips of lines.
#include <math.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/strip.h"
#include "runtime/cpu/team.h"
#include "runtime/cpu/vector_math.h"

// The exponentials stand in y already.
DELTA_CPU_CLONES static void scale_exponentials(const delta_strips_t *strips, const delta_strip_t *strip, float *y, const double *sums) {
  float factors[DELTA_STRIP_LINES];
  for (int64_t w = 0; w < strip->width; ++w) factors[w] = (float)(1.0 / sums[w]);
  for (int64_t k = 0; k < strips->length; ++k) {
    float *to = y + strip->start + k * strips->stride;
    for (int64_t w = 0; w < strip->width; ++w) to[w] *= factors[w];
  }
}

// Large numbers keep their digits: the largest is subtracted before the logarithm of the sum.
DELTA_CPU_CLONES static void write_log(const delta_strips_t *strips, const delta_strip_t *strip, const float *x, float *y,
                                       const float *largest, const double *sums) {
  float logs[DELTA_STRIP_LINES];
  for (int64_t w = 0; w < strip->width; ++w) logs[w] = (float)__builtin_log(sums[w]);
  for (int64_t k = 0; k < strips->length; ++k) {
    const float *from = x + strip->start + k * strips->stride;
    float *to = y + strip->start + k * strips->stride;
    for (int64_t w = 0; w < strip->width; ++w) to[w] = from[w] - largest[w] - logs[w];
  }
}

// The same for a contiguous line, where the loop over its elements is the one to vectorise.
DELTA_CPU_CLONES static void scale_exponential_line(int64_t length, float *y, double sum) {
  float factor = (float)(1.0 / sum);
  for (int64_t k = 0; k < length; ++k) y[k] *= factor;
}

DELTA_CPU_CLONES static void write_log_line(int64_t length, const float *x, float *y, float largest, double sum) {
  float log = (float)__builtin_log(sum);
  for (int64_t k = 0; k < length; ++k) y[k] = x[k] - largest - log;
}

// Strips of what both operators work on: shapes of input and output are the same.
static delta_strips_t strips_of(const delta_kernel_t *kernel) {
  const delta_softmax_attrs_t *attrs = kernel->node->attrs;
  return delta_strips_of(&delta_node_input(kernel->graph, kernel->node, 0)->shape, attrs->axis);
}

static void run_strips(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, delta_team_part_t *part) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_strips_t strips = strips_of(kernel);
  delta_team_run(kernel->threads, strips.count, delta_strip_work_bytes(&strips), part, &launch);
}

// Items are strips.
static void softmax_strips(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  bool log = ((const delta_softmax_attrs_t *)launch->kernel->node->attrs)->log;
  const delta_strips_t strips = strips_of(launch->kernel);
  const float *x = launch->buffers->inputs[0];
  float *y = launch->buffers->outputs[0];
  for (int64_t s = begin; s < end; ++s) {
    const delta_strip_t strip = delta_strip_at(&strips, s);
    float largest[DELTA_STRIP_LINES];
    double sums[DELTA_STRIP_LINES];
    delta_strip_exp_sums(&strips, &strip, x, largest, sums, log ? NULL : y);
    if (strips.inner == 1 && log) {
      write_log_line(strips.length, x + strip.start, y + strip.start, largest[0], sums[0]);
    } else if (strips.inner == 1) {
      scale_exponential_line(strips.length, y + strip.start, sums[0]);
    } else if (log) {
      write_log(&strips, &strip, x, y, largest, sums);
    } else {
      scale_exponentials(&strips, &strip, y, sums);
    }
  }
}

delta_status_t delta_cpu_softmax_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_strips(kernel, buffers, softmax_strips);
  return DELTA_OK;
}

// Sums of dy * y, or of dy for the logarithm, over each line.
DELTA_CPU_CLONES static void gradient_sums(const delta_strips_t *strips, const delta_strip_t *strip, bool log, const float *dy,
                                           const float *y, double *sums) {
  for (int64_t w = 0; w < strip->width; ++w) sums[w] = 0;
  for (int64_t k = 0; k < strips->length; ++k) {
    int64_t at = strip->start + k * strips->stride;
    for (int64_t w = 0; w < strip->width; ++w) sums[w] += (double)dy[at + w] * (log ? 1.0 : (double)y[at + w]);
  }
}

DELTA_CPU_CLONES static double gradient_line_sum(int64_t length, bool log, const float *dy, const float *y) {
  enum { LANES = 8 };
  double sums[LANES] = {0}, sum = 0;
  int64_t k = 0;
  for (; k + LANES <= length; k += LANES) {
    for (int lane = 0; lane < LANES; ++lane) sums[lane] += (double)dy[k + lane] * (log ? 1.0 : (double)y[k + lane]);
  }
  for (; k < length; ++k) sums[0] += (double)dy[k] * (log ? 1.0 : (double)y[k]);
  for (int lane = 0; lane < LANES; ++lane) sum += sums[lane];
  return sum;
}

static float gradient_of(bool log, float dy, float y, float sum) { return log ? dy - delta_vector_exp(y) * sum : y * (dy - sum); }

DELTA_CPU_CLONES static void write_gradient(const delta_strips_t *strips, const delta_strip_t *strip, bool log, const float *dy,
                                            const float *y, float *dx, const double *sums) {
  for (int64_t k = 0; k < strips->length; ++k) {
    int64_t at = strip->start + k * strips->stride;
    for (int64_t w = 0; w < strip->width; ++w) dx[at + w] = gradient_of(log, dy[at + w], y[at + w], (float)sums[w]);
  }
}

DELTA_CPU_CLONES static void write_gradient_line(int64_t length, bool log, const float *dy, const float *y, float *dx, double sum) {
  for (int64_t k = 0; k < length; ++k) dx[k] = gradient_of(log, dy[k], y[k], (float)sum);
}

static void softmax_grad_strips(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  bool log = ((const delta_softmax_attrs_t *)launch->kernel->node->attrs)->log;
  const delta_strips_t strips = strips_of(launch->kernel);
  const float *dy = launch->buffers->inputs[0], *y = launch->buffers->inputs[1];
  float *dx = launch->buffers->outputs[0];
  for (int64_t s = begin; s < end; ++s) {
    const delta_strip_t strip = delta_strip_at(&strips, s);
    if (strips.inner == 1) {
      double sum = gradient_line_sum(strips.length, log, dy + strip.start, y + strip.start);
      write_gradient_line(strips.length, log, dy + strip.start, y + strip.start, dx + strip.start, sum);
    } else {
      double sums[DELTA_STRIP_LINES];
      gradient_sums(&strips, &strip, log, dy, y, sums);
      write_gradient(&strips, &strip, log, dy, y, dx, sums);
    }
  }
}

delta_status_t delta_cpu_softmax_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_strips(kernel, buffers, softmax_grad_strips);
  return DELTA_OK;
}
