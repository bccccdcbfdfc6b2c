// Softmax, its logarithm and their gradients in float32, threads over strips of lines.
#include <math.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/kernel.h"
#include "runtime/cpu/strip.h"
#include "runtime/cpu/vector_math.h"

DELTA_CPU_CLONES static void write_softmax(const delta_strips_t *strips, const delta_strip_t *strip, bool log, const float *x, float *y,
                                           const float *largest, const double *sums) {
  float factors[DELTA_STRIP_LINES]; // 1 / sum, or its logarithm and the largest together
  for (int64_t w = 0; w < strip->width; ++w)
    factors[w] = log ? (float)((double)largest[w] + __builtin_log(sums[w])) : (float)(1.0 / sums[w]);
  for (int64_t k = 0; k < strips->length; ++k) {
    const float *from = x + strip->start + k * strips->stride;
    float *to = y + strip->start + k * strips->stride;
    if (log) {
      for (int64_t w = 0; w < strip->width; ++w) to[w] = from[w] - factors[w];
    } else {
      for (int64_t w = 0; w < strip->width; ++w) to[w] = delta_vector_exp(from[w] - largest[w]) * factors[w];
    }
  }
}

// The same for a contiguous line, where the loop over its elements is the one to vectorise.
DELTA_CPU_CLONES static void write_softmax_line(int64_t length, bool log, const float *x, float *y, float largest, double sum) {
  float factor = log ? (float)((double)largest + __builtin_log(sum)) : (float)(1.0 / sum);
  if (log) {
    for (int64_t k = 0; k < length; ++k) y[k] = x[k] - factor;
  } else {
    for (int64_t k = 0; k < length; ++k) y[k] = delta_vector_exp(x[k] - largest) * factor;
  }
}

delta_status_t delta_cpu_softmax_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_softmax_attrs_t *attrs = kernel->node->attrs;
  const delta_strips_t strips = delta_strips_of(&delta_node_input(kernel->graph, kernel->node, 0)->shape, attrs->axis);
  const float *x = buffers->inputs[0];
  float *y = buffers->outputs[0];
#pragma omp parallel for schedule(static) num_threads(kernel->threads)
  for (int64_t s = 0; s < strips.count; ++s) {
    const delta_strip_t strip = delta_strip_at(&strips, s);
    float largest[DELTA_STRIP_LINES];
    double sums[DELTA_STRIP_LINES];
    delta_strip_exp_sums(&strips, &strip, x, largest, sums);
    if (strips.inner == 1) {
      write_softmax_line(strips.length, attrs->log, x + strip.start, y + strip.start, largest[0], sums[0]);
    } else {
      write_softmax(&strips, &strip, attrs->log, x, y, largest, sums);
    }
  }
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

delta_status_t delta_cpu_softmax_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_softmax_attrs_t *attrs = kernel->node->attrs;
  const delta_strips_t strips = delta_strips_of(&delta_node_input(kernel->graph, kernel->node, 0)->shape, attrs->axis);
  const float *dy = buffers->inputs[0], *y = buffers->inputs[1];
  float *dx = buffers->outputs[0];
#pragma omp parallel for schedule(static) num_threads(kernel->threads)
  for (int64_t s = 0; s < strips.count; ++s) {
    const delta_strip_t strip = delta_strip_at(&strips, s);
    if (strips.inner == 1) {
      double sum = gradient_line_sum(strips.length, attrs->log, dy + strip.start, y + strip.start);
      write_gradient_line(strips.length, attrs->log, dy + strip.start, y + strip.start, dx + strip.start, sum);
    } else {
      double sums[DELTA_STRIP_LINES];
      gradient_sums(&strips, &strip, attrs->log, dy, y, sums);
      write_gradient(&strips, &strip, attrs->log, dy, y, dx, sums);
    }
  }
  return DELTA_OK;
}
