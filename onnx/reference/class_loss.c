// CROSS_ENTROPY, NLL and their gradients by reference: losses of one score per class against an integer label.
#include "onnx/reference/element.h"

// One place of the labels: where its scores lie, and what its label says.
typedef struct place {
  int64_t start, stride; // scores of class 0, and from class to class
  int64_t position;      // in the labels and what is shaped like them
  int64_t label;
  bool counts; // a label of a class, not the ignored one
  double weight;
} place_t;

// Where a node has its operands; `weights` may be one past the inputs.
typedef struct operands {
  uint32_t scores, labels, weights;
} operands_t;

static double load_real(const delta_reference_args_t *args, uint32_t input, int64_t index) {
  return delta_element_load_double(args->inputs[input], delta_reference_input(args, input)->dtype, (size_t)index);
}

static void store_real(const delta_reference_args_t *args, uint32_t output, int64_t index, double value) {
  if (output < args->node->output_count && args->outputs[output])
    delta_element_store_double(args->outputs[output], delta_reference_output(args, output)->dtype, (size_t)index, value);
}

static place_t place_at(const delta_reference_args_t *args, operands_t operands, const delta_lanes_t *lanes, int64_t position) {
  const delta_class_loss_attrs_t *attrs = args->node->attrs;
  place_t place = {.start = position / lanes->inner * lanes->size * lanes->inner + position % lanes->inner,
                   .stride = lanes->inner,
                   .position = position};
  place.label =
      delta_element_load_int64(args->inputs[operands.labels], delta_reference_input(args, operands.labels)->dtype, (size_t)position);
  place.counts = place.label >= 0 && place.label < attrs->classes && !(attrs->has_ignore && place.label == attrs->ignore_index);
  bool weighted = operands.weights < args->node->input_count && args->inputs[operands.weights];
  if (place.counts) place.weight = weighted ? load_real(args, operands.weights, place.label) : 1;
  return place;
}

typedef void place_function_t(const delta_reference_args_t *args, const place_t *place, int64_t classes);
// Visits every label. `scores_shape` is that of the logits, log probabilities or their gradient.
static delta_status_t for_each_place(const delta_reference_args_t *args, operands_t operands, const delta_shape_t *scores_shape,
                                     place_function_t *function) {
  const delta_class_loss_attrs_t *attrs = args->node->attrs;
  delta_lanes_t lanes = delta_lanes_of(scores_shape, attrs->axis);
  for (int64_t position = 0; position < lanes.outer * lanes.inner; ++position) {
    place_t place = place_at(args, operands, &lanes, position);
    function(args, &place, attrs->classes);
  }
  return DELTA_OK;
}

static double log_sum_exp(const delta_reference_args_t *args, const place_t *place, int64_t classes) {
  double largest = -(double)INFINITY, sum = 0;
  for (int64_t c = 0; c < classes; ++c) largest = fmax(largest, load_real(args, 0, place->start + c * place->stride));
  double shift = isfinite(largest) ? largest : 0;
  for (int64_t c = 0; c < classes; ++c) sum += exp(load_real(args, 0, place->start + c * place->stride) - shift);
  return shift + log(sum);
}

static void cross_entropy_place(const delta_reference_args_t *args, const place_t *place, int64_t classes) {
  double log_sum = log_sum_exp(args, place, classes);
  double loss = place->counts ? place->weight * (log_sum - load_real(args, 0, place->start + place->label * place->stride)) : 0;
  store_real(args, 0, place->position, loss);
  store_real(args, 1, place->position, place->weight);
  store_real(args, 2, place->position, log_sum);
}

delta_status_t delta_reference_cross_entropy(const delta_reference_args_t *args) {
  operands_t operands = {.scores = 0, .labels = 1, .weights = 2};
  return for_each_place(args, operands, &delta_reference_input(args, 0)->shape, cross_entropy_place);
}

static void cross_entropy_grad_place(const delta_reference_args_t *args, const place_t *place, int64_t classes) {
  double scale = place->counts ? load_real(args, 0, place->position) * place->weight : 0;
  double log_sum = load_real(args, 2, place->position);
  for (int64_t c = 0; c < classes; ++c) {
    int64_t at = place->start + c * place->stride;
    double difference = exp(load_real(args, 1, at) - log_sum) - (c == place->label ? 1 : 0);
    store_real(args, 0, at, place->counts ? scale * difference : 0);
  }
}

delta_status_t delta_reference_cross_entropy_grad(const delta_reference_args_t *args) {
  operands_t operands = {.scores = 1, .labels = 3, .weights = 4};
  return for_each_place(args, operands, &delta_reference_input(args, 1)->shape, cross_entropy_grad_place);
}

static void nll_place(const delta_reference_args_t *args, const place_t *place, int64_t classes) {
  (void)classes;
  double loss = place->counts ? -place->weight * load_real(args, 0, place->start + place->label * place->stride) : 0;
  store_real(args, 0, place->position, loss);
  store_real(args, 1, place->position, place->weight);
}

delta_status_t delta_reference_nll(const delta_reference_args_t *args) {
  operands_t operands = {.scores = 0, .labels = 1, .weights = 2};
  return for_each_place(args, operands, &delta_reference_input(args, 0)->shape, nll_place);
}

static void nll_grad_place(const delta_reference_args_t *args, const place_t *place, int64_t classes) {
  double gradient = place->counts ? -place->weight * load_real(args, 0, place->position) : 0;
  for (int64_t c = 0; c < classes; ++c)
    store_real(args, 0, place->start + c * place->stride, place->counts && c == place->label ? gradient : 0);
}

delta_status_t delta_reference_nll_grad(const delta_reference_args_t *args) {
  operands_t operands = {.labels = 1, .weights = 2};
  return for_each_place(args, operands, &delta_reference_output(args, 0)->shape, nll_grad_place);
}
