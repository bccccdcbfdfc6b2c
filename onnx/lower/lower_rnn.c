// Lowering of RNN, GRU and LSTM: reads a node's form (directions, layout, states, lengths) and unrolls each direction; the cells are in rnn_cells.c.
#include "onnx/lower/rnn.h"

enum { INPUT_X, INPUT_W, INPUT_R, INPUT_B, INPUT_LENGTHS, INPUT_HIDDEN, INPUT_CELL, INPUT_PEEPHOLES };
enum { MAX_DIRECTIONS = 2, MAX_STEPS = UINT16_MAX };

// What differs between the three operators.
typedef struct rnn_form {
  int64_t gates;
  size_t activation_count;
  const char *activations[DELTA_RNN_MAX_ACTIVATIONS];
  bool has_cell;
  delta_status_t (*run)(delta_rnn_t *rnn);
} rnn_form_t;

// A node's dimensions.
typedef struct rnn_node {
  const rnn_form_t *form;
  int64_t steps, batch, inputs, hidden, directions;
  bool reversed;    // the only direction
  bool batch_first; // layout 1
  delta_rnn_activation_t activations[MAX_DIRECTIONS * DELTA_RNN_MAX_ACTIVATIONS];
} rnn_node_t;

static void expect_shape(delta_lower_t *lower, uint32_t input, const delta_shape_t *wanted) {
  delta_tensor_id_t id = delta_lower_input(lower, input);
  if (delta_tensor_is_none(id) || !delta_emit_ok(&lower->emit)) return;
  const delta_shape_t *found = delta_emit_shape(&lower->emit, id);
  if (delta_shape_equal(found, wanted)) return;
  char found_text[DELTA_SHAPE_TEXT_BYTES], wanted_text[DELTA_SHAPE_TEXT_BYTES];
  (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "input %u has shape %s; it must be %s", input, delta_shape_text(found, found_text),
                         delta_shape_text(wanted, wanted_text));
}

static void check_shapes(delta_lower_t *lower, const rnn_node_t *node) {
  const int64_t directions = node->directions, width = node->form->gates * node->hidden;
  const delta_shape_t state = {
      .rank = 3, .dims = {node->batch_first ? node->batch : directions, node->batch_first ? directions : node->batch, node->hidden}};
  expect_shape(lower, INPUT_W, &(delta_shape_t){.rank = 3, .dims = {directions, width, node->inputs}});
  expect_shape(lower, INPUT_R, &(delta_shape_t){.rank = 3, .dims = {directions, width, node->hidden}});
  expect_shape(lower, INPUT_B, &(delta_shape_t){.rank = 2, .dims = {directions, 2 * width}});
  expect_shape(lower, INPUT_LENGTHS, &(delta_shape_t){.rank = 1, .dims = {node->batch}});
  expect_shape(lower, INPUT_HIDDEN, &state);
  expect_shape(lower, INPUT_CELL, &state);
  expect_shape(lower, INPUT_PEEPHOLES, &(delta_shape_t){.rank = 2, .dims = {directions, 3 * node->hidden}});
}

static bool read_node(delta_lower_t *lower, rnn_node_t *node) {
  enum { FORWARD, REVERSE, BIDIRECTIONAL, DIRECTION_COUNT };
  static const char *const names[DIRECTION_COUNT] = {"forward", "reverse", "bidirectional"};
  size_t direction = delta_lower_choice(lower, "direction", delta_lower_string(lower, "direction", "forward"), names, DIRECTION_COUNT);
  const delta_shape_t x = *delta_emit_shape(&lower->emit, delta_lower_required(lower, INPUT_X));
  const delta_shape_t r = *delta_emit_shape(&lower->emit, delta_lower_required(lower, INPUT_R));
  (void)delta_lower_required(lower, INPUT_W);
  if (delta_emit_ok(&lower->emit) && (x.rank != 3 || r.rank != 3)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "inputs 0 and 2 have ranks %d and %d; both must be 3", x.rank, r.rank);
  }
  if (!delta_emit_ok(&lower->emit)) return false;
  node->directions = direction == BIDIRECTIONAL ? 2 : 1;
  node->reversed = direction == REVERSE;
  node->batch_first = delta_lower_int(lower, "layout", 0) != 0;
  node->steps = x.dims[node->batch_first ? 1 : 0];
  node->batch = x.dims[node->batch_first ? 0 : 1];
  node->inputs = x.dims[2];
  node->hidden = delta_lower_int(lower, "hidden_size", r.dims[2]);
  if (node->steps < 1 || node->steps > MAX_STEPS) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "%lld steps; 1 to %d can be unrolled", (long long)node->steps, MAX_STEPS);
    return false;
  }
  if (node->hidden != r.dims[2] || node->hidden > INT32_MAX) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'hidden_size' is %lld, input 2 is for %lld", (long long)node->hidden,
                           (long long)r.dims[2]);
    return false;
  }
  check_shapes(lower, node);
  const rnn_form_t *form = node->form;
  return delta_rnn_read_activations(lower, form->activations, form->activation_count, (size_t)node->directions, node->activations);
}

// Row `direction` of an input along the first dimension, without that dimension; NONE where the input is left out.
static delta_tensor_id_t row_of(delta_lower_t *lower, delta_tensor_id_t id, int64_t direction) {
  if (delta_tensor_is_none(id)) return id;
  const delta_shape_t from = *delta_emit_shape(&lower->emit, id);
  delta_shape_t row = {.rank = from.rank - 1};
  for (int32_t d = 0; d < row.rank; ++d) row.dims[d] = from.dims[d + 1];
  return delta_emit_view(&lower->emit, delta_emit_range(&lower->emit, id, 0, direction, direction + 1), &row);
}

// An initial state of one direction, zero when left out.
static delta_tensor_id_t initial_state(delta_lower_t *lower, const rnn_node_t *node, uint32_t input, int64_t direction) {
  static const int32_t directions_first[3] = {1, 0, 2};
  delta_tensor_id_t id = delta_lower_input(lower, input);
  if (delta_tensor_is_none(id)) {
    const delta_shape_t shape = {.rank = 2, .dims = {node->batch, node->hidden}};
    return delta_emit_fill(&lower->emit, delta_emit_dtype(&lower->emit, lower->inputs[INPUT_X]), &shape, 0.0);
  }
  if (node->batch_first) id = delta_emit_transpose(&lower->emit, id, directions_first);
  return row_of(lower, id, direction);
}

// The steps of each sample as [batch, 1]; NONE when all samples are whole, as far as is known.
static delta_tensor_id_t read_lengths(delta_lower_t *lower, const rnn_node_t *node) {
  delta_tensor_id_t id = delta_lower_input(lower, INPUT_LENGTHS);
  const delta_tensor_t *tensor = delta_emit_tensor(&lower->emit, id);
  if (delta_tensor_is_none(id)) return id;
  bool whole = tensor->data != NULL;
  for (int64_t k = 0; whole && k < node->batch; ++k) {
    whole = delta_element_load_int64(tensor->data, tensor->dtype, (size_t)k) >= node->steps;
  }
  if (whole) return DELTA_TENSOR_NONE;
  return delta_emit_view(&lower->emit, id, &(delta_shape_t){.rank = 2, .dims = {node->batch, 1}});
}

static delta_status_t run_direction(delta_lower_t *lower, const rnn_node_t *node, delta_tensor_id_t x, int64_t direction,
                                    delta_rnn_t *rnn) {
  const rnn_form_t *form = node->form;
  const int64_t width = form->gates * node->hidden, bias_sizes[2] = {width, width};
  delta_tensor_id_t biases[2] = {DELTA_TENSOR_NONE, DELTA_TENSOR_NONE};
  delta_tensor_id_t bias = row_of(lower, delta_lower_input(lower, INPUT_B), direction);
  if (!delta_tensor_is_none(bias)) delta_emit_split(&lower->emit, bias, 0, bias_sizes, 2, biases);
  *rnn = (delta_rnn_t){.lower = lower,
                       .steps = node->steps,
                       .batch = node->batch,
                       .inputs = node->inputs,
                       .hidden = node->hidden,
                       .gates = form->gates,
                       .clip = delta_lower_float(lower, "clip", 0.0),
                       .reversed = node->reversed || direction == 1,
                       .x = x,
                       .input_bias = biases[0],
                       .recurrent_bias = biases[1]};
  rnn->weight = row_of(lower, lower->inputs[INPUT_W], direction);
  rnn->recurrence = row_of(lower, lower->inputs[INPUT_R], direction);
  rnn->hidden_state = initial_state(lower, node, INPUT_HIDDEN, direction);
  rnn->cell_state = form->has_cell ? initial_state(lower, node, INPUT_CELL, direction) : DELTA_TENSOR_NONE;
  rnn->peepholes = row_of(lower, delta_lower_input(lower, INPUT_PEEPHOLES), direction);
  rnn->lengths = read_lengths(lower, node);
  for (size_t k = 0; k < form->activation_count; ++k) {
    rnn->activations[k] = node->activations[(size_t)direction * form->activation_count + k];
  }
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&lower->emit.graph->region, (size_t)node->steps, &rnn->outputs));
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  return form->run(rnn);
}

// All steps of all directions: [steps, directions, batch, hidden], or with the batch first.
static delta_tensor_id_t join_outputs(delta_lower_t *lower, const rnn_node_t *node, const delta_rnn_t *rnns) {
  static const int32_t batch_first[4] = {2, 0, 1, 3};
  delta_tensor_id_t parts[MAX_DIRECTIONS];
  const delta_shape_t shape = {.rank = 4, .dims = {node->steps, 1, node->batch, node->hidden}};
  for (int64_t k = 0; k < node->directions; ++k) {
    delta_tensor_id_t all = delta_emit_concat(&lower->emit, rnns[k].outputs, (uint32_t)node->steps, 0);
    parts[k] = delta_emit_view(&lower->emit, all, &shape);
  }
  delta_tensor_id_t y = delta_emit_concat(&lower->emit, parts, (uint32_t)node->directions, 1);
  return node->batch_first ? delta_emit_transpose(&lower->emit, y, batch_first) : y;
}

// A last state of all directions: [directions, batch, hidden], or with the batch first.
static delta_tensor_id_t join_states(delta_lower_t *lower, const rnn_node_t *node, const delta_rnn_t *rnns, bool cell) {
  static const int32_t batch_first[3] = {1, 0, 2};
  delta_tensor_id_t parts[MAX_DIRECTIONS];
  const delta_shape_t shape = {.rank = 3, .dims = {1, node->batch, node->hidden}};
  for (int64_t k = 0; k < node->directions; ++k) {
    parts[k] = delta_emit_view(&lower->emit, cell ? rnns[k].cell_state : rnns[k].hidden_state, &shape);
  }
  delta_tensor_id_t y = delta_emit_concat(&lower->emit, parts, (uint32_t)node->directions, 0);
  return node->batch_first ? delta_emit_transpose(&lower->emit, y, batch_first) : y;
}

static delta_status_t lower_recurrent(delta_lower_t *lower, const rnn_form_t *form) {
  static const int32_t time_first[3] = {1, 0, 2};
  enum { OUTPUT_ALL, OUTPUT_HIDDEN, OUTPUT_CELL };
  rnn_node_t node = {.form = form};
  if (!read_node(lower, &node)) return DELTA_OK;
  delta_tensor_id_t x = lower->inputs[INPUT_X];
  if (node.batch_first) x = delta_emit_transpose(&lower->emit, x, time_first);
  x = delta_emit_view(&lower->emit, x, &(delta_shape_t){.rank = 2, .dims = {node.steps * node.batch, node.inputs}});
  delta_rnn_t rnns[MAX_DIRECTIONS];
  for (int64_t k = 0; k < node.directions; ++k) {
    DELTA_RETURN_IF_ERROR(run_direction(lower, &node, x, k, &rnns[k]));
    if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  }
  if (delta_lower_output_wanted(lower, OUTPUT_ALL)) lower->outputs[OUTPUT_ALL] = join_outputs(lower, &node, rnns);
  if (delta_lower_output_wanted(lower, OUTPUT_HIDDEN)) lower->outputs[OUTPUT_HIDDEN] = join_states(lower, &node, rnns, false);
  if (delta_lower_output_wanted(lower, OUTPUT_CELL)) lower->outputs[OUTPUT_CELL] = join_states(lower, &node, rnns, true);
  return DELTA_OK;
}

delta_status_t delta_lower_rnn(delta_lower_t *lower) {
  static const rnn_form_t form = {.gates = 1, .activation_count = 1, .activations = {"Tanh"}, .run = delta_rnn_run_plain};
  return lower_recurrent(lower, &form);
}

delta_status_t delta_lower_gru(delta_lower_t *lower) {
  static const rnn_form_t form = {.gates = 3, .activation_count = 2, .activations = {"Sigmoid", "Tanh"}, .run = delta_rnn_run_gru};
  return lower_recurrent(lower, &form);
}

delta_status_t delta_lower_lstm(delta_lower_t *lower) {
  static const rnn_form_t form = {
      .gates = 4, .activation_count = 3, .activations = {"Sigmoid", "Tanh", "Tanh"}, .has_cell = true, .run = delta_rnn_run_lstm};
  return lower_recurrent(lower, &form);
}
