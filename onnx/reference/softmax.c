// SOFTMAX and SOFTMAX_GRAD by reference. Each element is read before its result is stored, so an output may have exactly the bytes of an input.
#include "onnx/reference/element.h"

// One line of elements along the axis.
typedef struct line {
  delta_dtype_t dtype;
  int64_t start, stride, count;
} line_t;

static double line_load(const line_t *line, const void *data, int64_t i) {
  return delta_element_load_double(data, line->dtype, (size_t)(line->start + i * line->stride));
}
static void line_store(const line_t *line, void *data, int64_t i, double value) {
  delta_element_store_double(data, line->dtype, (size_t)(line->start + i * line->stride), value);
}

typedef void line_function_t(const delta_reference_args_t *args, const line_t *line, bool log);
static delta_status_t for_each_line(const delta_reference_args_t *args, line_function_t *function) {
  const delta_softmax_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0);
  delta_lanes_t lanes = delta_lanes_of(&x->shape, attrs->axis);
  for (int64_t outer = 0; outer < lanes.outer; ++outer) {
    for (int64_t inner = 0; inner < lanes.inner; ++inner) {
      line_t line = {x->dtype, outer * lanes.size * lanes.inner + inner, lanes.inner, lanes.size};
      function(args, &line, attrs->log);
    }
  }
  return DELTA_OK;
}

static void softmax_line(const delta_reference_args_t *args, const line_t *line, bool log_of) {
  double largest = -(double)INFINITY, sum = 0;
  for (int64_t i = 0; i < line->count; ++i) largest = fmax(largest, line_load(line, args->inputs[0], i));
  for (int64_t i = 0; i < line->count; ++i) sum += exp(line_load(line, args->inputs[0], i) - largest);
  for (int64_t i = 0; i < line->count; ++i) {
    double shifted = line_load(line, args->inputs[0], i) - largest;
    line_store(line, args->outputs[0], i, log_of ? shifted - log(sum) : exp(shifted) / sum);
  }
}

delta_status_t delta_reference_softmax(const delta_reference_args_t *args) { return for_each_line(args, softmax_line); }

static void softmax_grad_line(const delta_reference_args_t *args, const line_t *line, bool log_of) {
  const void *dy = args->inputs[0], *y = args->inputs[1];
  double sum = 0;
  for (int64_t i = 0; i < line->count; ++i) sum += line_load(line, dy, i) * (log_of ? 1 : line_load(line, y, i));
  for (int64_t i = 0; i < line->count; ++i) {
    double gradient = line_load(line, dy, i), value = line_load(line, y, i);
    line_store(line, args->outputs[0], i, log_of ? gradient - exp(value) * sum : value * (gradient - sum));
  }
}

delta_status_t delta_reference_softmax_grad(const delta_reference_args_t *args) { return for_each_line(args, softmax_grad_line); }
