// Softmax cross entropy and its gradient in float32, threads over strips of positions.
#include <math.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/kernel.h"
#include "runtime/cpu/strip.h"
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

const char *delta_cpu_class_loss_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  uint32_t labels = node->op == DELTA_CORE_CROSS_ENTROPY ? 1 : 3;
  for (uint32_t i = 0; i < node->input_count; ++i) {
    if (i != labels && !is_float32(delta_node_input(graph, node, i))) return "an input is not float32";
  }
  return NULL;
}

static delta_class_labels_t labels_of(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, uint32_t input) {
  return (delta_class_labels_t){
      .attrs = kernel->node->attrs,
      .labels = buffers->inputs[input],
      .dtype = delta_node_input(kernel->graph, kernel->node, input)->dtype,
      .weights = kernel->node->input_count > input + 1 ? buffers->inputs[input + 1] : NULL,
  };
}

// The weights of a gradient stand behind its labels as those of the loss do: dloss, logits, log_sum, labels, weights.
delta_status_t delta_cpu_cross_entropy_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_class_labels_t labels = labels_of(kernel, buffers, 1);
  const delta_strips_t strips = delta_strips_of(&delta_node_input(kernel->graph, kernel->node, 0)->shape, labels.attrs->axis);
  const float *logits = buffers->inputs[0];
  float *losses = buffers->outputs[0], *weights = buffers->outputs[1], *log_sums = buffers->outputs[2];
#pragma omp parallel for schedule(static) num_threads(kernel->threads)
  for (int64_t s = 0; s < strips.count; ++s) {
    const delta_strip_t strip = delta_strip_at(&strips, s);
    float largest[DELTA_STRIP_LINES];
    double sums[DELTA_STRIP_LINES];
    delta_strip_exp_sums(&strips, &strip, logits, largest, sums);
    for (int64_t w = 0; w < strip.width; ++w) {
      int64_t label = counted_label(&labels, strip.line + w);
      float weight = label_weight(&labels, label);
      double log_sum = (double)largest[w] + log(sums[w]);
      log_sums[strip.line + w] = (float)log_sum;
      weights[strip.line + w] = weight;
      losses[strip.line + w] = label < 0 ? 0.0f : weight * (float)(log_sum - (double)logits[strip.start + w + label * strips.stride]);
    }
  }
  return DELTA_OK;
}

DELTA_CPU_CLONES static void scaled_probabilities(const float *logits, float *out, int64_t length, float log_sum, float scale) {
  for (int64_t k = 0; k < length; ++k) out[k] = delta_vector_exp(logits[k] - log_sum) * scale;
}

DELTA_CPU_CLONES static void scaled_probabilities_side_by_side(const float *logits, float *out, const delta_strips_t *strips, int64_t width,
                                                               const float *log_sums, const float *scales) {
  for (int64_t k = 0; k < strips->length; ++k) {
    int64_t at = k * strips->stride;
    for (int64_t w = 0; w < width; ++w) out[at + w] = delta_vector_exp(logits[at + w] - log_sums[w]) * scales[w];
  }
}

delta_status_t delta_cpu_cross_entropy_grad_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_class_labels_t labels = labels_of(kernel, buffers, 3);
  const delta_strips_t strips = delta_strips_of(&delta_node_input(kernel->graph, kernel->node, 1)->shape, labels.attrs->axis);
  const float *dloss = buffers->inputs[0], *logits = buffers->inputs[1], *log_sums = buffers->inputs[2];
  float *out = buffers->outputs[0];
#pragma omp parallel for schedule(static) num_threads(kernel->threads)
  for (int64_t s = 0; s < strips.count; ++s) {
    const delta_strip_t strip = delta_strip_at(&strips, s);
    float scales[DELTA_STRIP_LINES];
    for (int64_t w = 0; w < strip.width; ++w) {
      int64_t label = counted_label(&labels, strip.line + w);
      scales[w] = label < 0 ? 0.0f : dloss[strip.line + w] * label_weight(&labels, label);
    }
    if (strips.inner == 1) {
      scaled_probabilities(logits + strip.start, out + strip.start, strips.length, log_sums[strip.line], scales[0]);
    } else {
      scaled_probabilities_side_by_side(logits + strip.start, out + strip.start, &strips, strip.width, log_sums + strip.line, scales);
    }
    for (int64_t w = 0; w < strip.width; ++w) {
      int64_t label = counted_label(&labels, strip.line + w);
      if (label >= 0) out[strip.start + w + label * strips.stride] -= scales[w];
    }
  }
  return DELTA_OK;
}
