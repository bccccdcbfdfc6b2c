// Cross entropy, negative log likelihood and their gradients in float32, threads over strips of positions.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/strip.h"
#include "runtime/cpu/team.h"
#include "runtime/cpu/vector_math.h"

// The labels of a loss, and what they are worth.
typedef struct delta_class_labels {
  const delta_class_loss_attrs_t *attrs;
  const void *labels;
  delta_dtype_t dtype;
  const float *weights; // NULL: all 1
} delta_class_labels_t;

// The label at a position, or -1 where it does not count.
static int64_t counted_label(const delta_class_labels_t *labels, int64_t position) {
  int64_t label = delta_element_load_int64(labels->labels, labels->dtype, (size_t)position);
  bool counts = label >= 0 && label < labels->attrs->classes && !(labels->attrs->has_ignore && label == labels->attrs->ignore_index);
  return counts ? label : -1;
}

static float label_weight(const delta_class_labels_t *labels, int64_t label) {
  return label < 0 ? 0.0f : labels->weights ? labels->weights[label] : 1.0f;
}

static bool is_float32(const delta_tensor_t *tensor) { return !tensor || tensor->dtype == DELTA_DTYPE_FLOAT32; }

// Where the node has its labels; its weights stand behind them.
static uint32_t labels_input(const delta_node_t *node) { return node->op == DELTA_CORE_CROSS_ENTROPY_GRAD ? 3 : 1; }

const char *delta_cpu_class_loss_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  for (uint32_t i = 0; i < node->input_count; ++i) {
    if (i != labels_input(node) && !is_float32(delta_node_input(graph, node, i))) return "an input is not float32";
  }
  return NULL;
}

static delta_class_labels_t labels_of(const delta_kernel_launch_t *launch) {
  const delta_node_t *node = launch->kernel->node;
  uint32_t input = labels_input(node);
  return (delta_class_labels_t){
      .attrs = node->attrs,
      .labels = launch->buffers->inputs[input],
      .dtype = delta_node_input(launch->kernel->graph, node, input)->dtype,
      .weights = node->input_count > input + 1 ? launch->buffers->inputs[input + 1] : NULL,
  };
}

// Strips of the scores: the losses read them, the gradients have their shape.
static delta_strips_t strips_of(const delta_kernel_t *kernel) {
  const delta_class_loss_attrs_t *attrs = kernel->node->attrs;
  bool is_loss = kernel->node->op == DELTA_CORE_CROSS_ENTROPY || kernel->node->op == DELTA_CORE_NLL;
  const delta_tensor_t *scores =
      is_loss ? delta_node_input(kernel->graph, kernel->node, 0) : delta_node_output(kernel->graph, kernel->node, 0);
  return delta_strips_of(&scores->shape, attrs->axis);
}

static void run_strips(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, delta_team_part_t *part) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_strips_t strips = strips_of(kernel);
  delta_team_run(kernel->threads, strips.count, delta_strip_work_bytes(&strips), part, &launch);
}

// The logarithm of a line's sum of exponentials, from its largest element and the sum of what is left of that. Beside an infinity the sum says nothing.
static double log_of_sum(const float *line, const delta_strips_t *strips, float largest, double sum) {
  if (isfinite(largest)) return (double)largest + log(sum);
  for (int64_t k = 0; k < strips->length; ++k)
    if (isnan(line[k * strips->stride])) return (double)NAN;
  return (double)largest;
}

// Items are strips.
static void cross_entropy_strips(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_class_labels_t labels = labels_of(launch);
  const delta_strips_t strips = strips_of(launch->kernel);
  const float *logits = launch->buffers->inputs[0];
  float *losses = launch->buffers->outputs[0], *weights = launch->buffers->outputs[1], *log_sums = launch->buffers->outputs[2];
  for (int64_t s = begin; s < end; ++s) {
    const delta_strip_t strip = delta_strip_at(&strips, s);
    float largest[DELTA_STRIP_LINES];
    double sums[DELTA_STRIP_LINES];
    delta_strip_exp_sums(&strips, &strip, logits, largest, sums, NULL);
    for (int64_t w = 0; w < strip.width; ++w) {
      const float *line = logits + strip.start + w;
      int64_t label = counted_label(&labels, strip.line + w);
      float weight = label_weight(&labels, label);
      double log_sum = log_of_sum(line, &strips, largest[w], sums[w]);
      log_sums[strip.line + w] = (float)log_sum;
      weights[strip.line + w] = weight;
      losses[strip.line + w] = label < 0 ? 0.0f : (float)((double)weight * (log_sum - (double)line[label * strips.stride]));
    }
  }
}

delta_status_t delta_cpu_cross_entropy_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_strips(kernel, buffers, cross_entropy_strips);
  return DELTA_OK;
}

DELTA_CPU_CLONES static void scaled_probabilities(const float *logits, float *out, int64_t length, float log_sum, float scale) {
  for (int64_t k = 0; k < length; ++k) out[k] = delta_vector_exp(logits[k] - log_sum) * scale;
}

// Where a label does not count, nothing flows, whatever the logits are.
DELTA_CPU_CLONES static void scaled_probabilities_side_by_side(const float *logits, float *out, const delta_strips_t *strips, int64_t width,
                                                               const float *log_sums, const float *scales, const int32_t *counts) {
  for (int64_t k = 0; k < strips->length; ++k) {
    int64_t at = k * strips->stride;
    for (int64_t w = 0; w < width; ++w) {
      float scaled = delta_vector_exp(logits[at + w] - log_sums[w]) * scales[w];
      out[at + w] = counts[w] ? scaled : 0.0f;
    }
  }
}

static void cross_entropy_grad_strips(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_class_labels_t labels = labels_of(launch);
  const delta_strips_t strips = strips_of(launch->kernel);
  const float *dloss = launch->buffers->inputs[0], *logits = launch->buffers->inputs[1], *log_sums = launch->buffers->inputs[2];
  float *out = launch->buffers->outputs[0];
  for (int64_t s = begin; s < end; ++s) {
    const delta_strip_t strip = delta_strip_at(&strips, s);
    int64_t line_labels[DELTA_STRIP_LINES];
    int32_t counts[DELTA_STRIP_LINES];
    float scales[DELTA_STRIP_LINES];
    assert(strip.width >= 1);
    for (int64_t w = 0; w < strip.width; ++w) {
      line_labels[w] = counted_label(&labels, strip.line + w);
      counts[w] = line_labels[w] >= 0;
      scales[w] = counts[w] ? dloss[strip.line + w] * label_weight(&labels, line_labels[w]) : 0.0f;
    }
    if (strips.inner > 1) {
      scaled_probabilities_side_by_side(logits + strip.start, out + strip.start, &strips, strip.width, log_sums + strip.line, scales,
                                        counts);
    } else if (counts[0]) {
      scaled_probabilities(logits + strip.start, out + strip.start, strips.length, log_sums[strip.line], scales[0]);
    } else {
      memset(out + strip.start, 0, (size_t)strips.length * sizeof *out);
    }
    for (int64_t w = 0; w < strip.width; ++w)
      if (counts[w]) out[strip.start + w + line_labels[w] * strips.stride] -= scales[w];
  }
}

delta_status_t delta_cpu_cross_entropy_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_strips(kernel, buffers, cross_entropy_grad_strips);
  return DELTA_OK;
}

static void nll_strips(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_class_labels_t labels = labels_of(launch);
  const delta_strips_t strips = strips_of(launch->kernel);
  const float *scores = launch->buffers->inputs[0];
  float *losses = launch->buffers->outputs[0], *weights = launch->buffers->outputs[1];
  for (int64_t s = begin; s < end; ++s) {
    const delta_strip_t strip = delta_strip_at(&strips, s);
    for (int64_t w = 0; w < strip.width; ++w) {
      int64_t label = counted_label(&labels, strip.line + w);
      weights[strip.line + w] = label_weight(&labels, label);
      losses[strip.line + w] = label < 0 ? 0.0f : -weights[strip.line + w] * scores[strip.start + w + label * strips.stride];
    }
  }
}

delta_status_t delta_cpu_nll_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_strips(kernel, buffers, nll_strips);
  return DELTA_OK;
}

static void nll_grad_strips(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_class_labels_t labels = labels_of(launch);
  const delta_strips_t strips = strips_of(launch->kernel);
  const float *dloss = launch->buffers->inputs[0];
  float *out = launch->buffers->outputs[0];
  for (int64_t s = begin; s < end; ++s) {
    const delta_strip_t strip = delta_strip_at(&strips, s);
    for (int64_t k = 0; k < strips.length; ++k) memset(out + strip.start + k * strips.stride, 0, (size_t)strip.width * sizeof *out);
    for (int64_t w = 0; w < strip.width; ++w) {
      int64_t label = counted_label(&labels, strip.line + w);
      if (label >= 0) out[strip.start + w + label * strips.stride] = -label_weight(&labels, label) * dloss[strip.line + w];
    }
  }
}

delta_status_t delta_cpu_nll_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  run_strips(kernel, buffers, nll_grad_strips);
  return DELTA_OK;
}
