// The cells of recurrent networks, unrolled over time: for each step one or two products with the state and one pointwise step.
//
// Note [Unrolled recurrence]
// What depends on the input alone is one product for all steps, split over time before the first step. A step adds the product with the previous state. Nothing
// else connects the steps, so that the planner sees each step's tensors apart. Where samples end earlier than others, the state stays
// as it is beyond their end, and the output there is 0; in the reverse direction this starts a sample at its own last step.
#include "onnx/lower/rnn.h"

// Inputs of a step's formula, by position.
typedef struct step_inputs {
  delta_tensor_id_t ids[DELTA_EXPR_MAX_INPUTS];
  uint32_t count;
} step_inputs_t;

static uint16_t push(step_inputs_t *inputs, delta_tensor_id_t id) {
  inputs->ids[inputs->count] = id;
  return (uint16_t)inputs->count++;
}

static int64_t step_at(const delta_rnn_t *rnn, int64_t order) { return rnn->reversed ? rnn->steps - 1 - order : order; }

uint16_t delta_rnn_is_inside(delta_formula_t *f, uint16_t lengths_input, int64_t step) {
  return delta_formula_binary(f, DELTA_EXPR_GT, delta_formula_input(f, lengths_input), delta_formula_real(f, (double)step));
}

void delta_rnn_project(const delta_rnn_t *rnn, delta_tensor_id_t bias, const int64_t *widths, uint32_t width_count,
                       delta_tensor_id_t *parts) {
  delta_emit_t *emit = &rnn->lower->emit;
  delta_tensor_id_t all = delta_emit_matmul(emit, rnn->x, rnn->weight, false, true);
  if (!delta_tensor_is_none(bias)) all = delta_emit_binary(emit, DELTA_EXPR_ADD, all, bias);
  delta_tensor_id_t columns[DELTA_RNN_MAX_GATES], *rows = NULL;
  int64_t *sizes = NULL;
  delta_emit_split(emit, all, 1, widths, width_count, columns);
  delta_status_t status = DELTA_REGION_ALLOCATE(&emit->graph->region, (size_t)rnn->steps, &rows);
  if (status == DELTA_OK) status = DELTA_REGION_ALLOCATE(&emit->graph->region, (size_t)rnn->steps, &sizes);
  if (status) {
    (void)delta_emit_fail(emit, status);
    return;
  }
  for (int64_t t = 0; t < rnn->steps; ++t) sizes[t] = rnn->batch;
  for (uint32_t k = 0; k < width_count; ++k) {
    delta_emit_split(emit, columns[k], 0, sizes, (uint32_t)rnn->steps, rows);
    for (int64_t t = 0; t < rnn->steps; ++t) parts[t * width_count + k] = rows[t];
  }
}

static delta_status_t allocate_parts(const delta_rnn_t *rnn, size_t per_step, delta_tensor_id_t **out_parts) {
  return DELTA_REGION_ALLOCATE(&rnn->lower->emit.graph->region, (size_t)rnn->steps * per_step, out_parts);
}

// The sum of both biases, or the one there is.
static delta_tensor_id_t joined_bias(const delta_rnn_t *rnn) {
  if (delta_tensor_is_none(rnn->input_bias)) return rnn->recurrent_bias;
  if (delta_tensor_is_none(rnn->recurrent_bias)) return rnn->input_bias;
  return delta_emit_binary(&rnn->lower->emit, DELTA_EXPR_ADD, rnn->input_bias, rnn->recurrent_bias);
}

// Emits a step: values[0] is the next hidden state, values[1] (count 2) the next cell state. `old` are their inputs' positions; `lengths` that of the lengths.
// Beyond a sample's end the states keep and the output is 0.
static void emit_step(delta_rnn_t *rnn, delta_formula_t *f, const uint16_t *values, const uint16_t *old, uint32_t count, uint16_t lengths,
                      int64_t step) {
  bool partial = !delta_tensor_is_none(rnn->lengths);
  delta_dtype_t dtype = delta_emit_dtype(&rnn->lower->emit, rnn->x);
  const delta_dtype_t dtypes[3] = {dtype, dtype, dtype};
  delta_tensor_id_t outputs[DELTA_EXPR_MAX_OUTPUTS] = {DELTA_TENSOR_NONE, DELTA_TENSOR_NONE, DELTA_TENSOR_NONE};
  uint16_t inside = partial ? delta_rnn_is_inside(f, lengths, step) : 0;
  for (uint32_t k = 0; k < count; ++k) {
    uint16_t next = partial ? delta_formula_select(f, inside, values[k], delta_formula_input(f, old[k])) : values[k];
    delta_expr_output(&f->builder, next);
  }
  if (partial) delta_expr_output(&f->builder, delta_formula_select(f, inside, values[0], delta_formula_real(f, 0.0)));
  delta_emit_exprs(f->emit, &f->builder, dtypes, f->inputs, f->input_count, outputs);
  rnn->hidden_state = outputs[0];
  if (count == 2) rnn->cell_state = outputs[1];
  rnn->outputs[step] = partial ? outputs[count] : outputs[0];
}

// The lengths as the last input, where there are any.
static uint16_t push_lengths(const delta_rnn_t *rnn, step_inputs_t *inputs) {
  return delta_tensor_is_none(rnn->lengths) ? 0 : push(inputs, rnn->lengths);
}

// H = f(X W^T + H R^T + b)
delta_status_t delta_rnn_run_plain(delta_rnn_t *rnn) {
  delta_emit_t *emit = &rnn->lower->emit;
  delta_tensor_id_t *parts = NULL;
  DELTA_RETURN_IF_ERROR(allocate_parts(rnn, 1, &parts));
  delta_rnn_project(rnn, joined_bias(rnn), &rnn->hidden, 1, parts);
  for (int64_t order = 0; order < rnn->steps && delta_emit_ok(emit); ++order) {
    int64_t t = step_at(rnn, order);
    step_inputs_t inputs = {.count = 0};
    uint16_t x = push(&inputs, parts[t]);
    uint16_t product = push(&inputs, delta_emit_matmul(emit, rnn->hidden_state, rnn->recurrence, false, true));
    uint16_t old = push(&inputs, rnn->hidden_state), lengths = push_lengths(rnn, &inputs);
    delta_formula_t f;
    delta_formula_init(&f, emit, inputs.ids, inputs.count);
    uint16_t sum = delta_formula_add(&f, delta_formula_input(&f, x), delta_formula_input(&f, product));
    uint16_t next = delta_rnn_activate(rnn, &f, 0, sum);
    emit_step(rnn, &f, &next, &old, 1, lengths, t);
  }
  return DELTA_OK;
}

// What one LSTM step's formula reads: the four gates before activation, the previous states, peepholes (NONE where there are none).
typedef struct lstm_step {
  step_inputs_t inputs;
  uint16_t gates[DELTA_RNN_MAX_GATES]; // i, o, f, c
  uint16_t hidden, cell, lengths;
  uint16_t peepholes[3]; // i, o, f
} lstm_step_t;

// A gate's sum, with the peephole's share of a cell state.
static uint16_t peeked(const delta_rnn_t *rnn, delta_formula_t *f, const lstm_step_t *step, int gate, uint16_t cell) {
  uint16_t sum = delta_formula_input(f, step->gates[gate]);
  if (delta_tensor_is_none(rnn->peepholes)) return sum;
  return delta_formula_add(f, sum, delta_formula_mul(f, delta_formula_input(f, step->peepholes[gate]), cell));
}

// C = f C + i g(...), H = o h(C)
static void emit_lstm_step(delta_rnn_t *rnn, const lstm_step_t *step, bool couples, int64_t t) {
  enum { GATE_I, GATE_O, GATE_F, GATE_C };
  delta_formula_t f;
  delta_formula_init(&f, &rnn->lower->emit, step->inputs.ids, step->inputs.count);
  uint16_t old = delta_formula_input(&f, step->cell);
  uint16_t input_gate = delta_rnn_activate(rnn, &f, 0, peeked(rnn, &f, step, GATE_I, old));
  uint16_t forget_gate = couples ? delta_formula_sub(&f, delta_formula_real(&f, 1.0), input_gate)
                                 : delta_rnn_activate(rnn, &f, 0, peeked(rnn, &f, step, GATE_F, old));
  uint16_t candidate = delta_rnn_activate(rnn, &f, 1, delta_formula_input(&f, step->gates[GATE_C]));
  uint16_t cell = delta_formula_add(&f, delta_formula_mul(&f, forget_gate, old), delta_formula_mul(&f, input_gate, candidate));
  uint16_t output_gate = delta_rnn_activate(rnn, &f, 0, peeked(rnn, &f, step, GATE_O, cell));
  uint16_t hidden = delta_formula_mul(&f, output_gate, delta_rnn_activate(rnn, &f, 2, cell));
  const uint16_t values[2] = {hidden, cell}, states[2] = {step->hidden, step->cell};
  emit_step(rnn, &f, values, states, 2, step->lengths, t);
}

delta_status_t delta_rnn_run_lstm(delta_rnn_t *rnn) {
  delta_emit_t *emit = &rnn->lower->emit;
  bool couples = delta_lower_int(rnn->lower, "input_forget", 0) != 0;
  int64_t width = 4 * rnn->hidden;
  const int64_t gate_sizes[DELTA_RNN_MAX_GATES] = {rnn->hidden, rnn->hidden, rnn->hidden, rnn->hidden};
  delta_tensor_id_t *parts = NULL, peepholes[3] = {DELTA_TENSOR_NONE, DELTA_TENSOR_NONE, DELTA_TENSOR_NONE};
  DELTA_RETURN_IF_ERROR(allocate_parts(rnn, 1, &parts));
  delta_rnn_project(rnn, joined_bias(rnn), &width, 1, parts);
  if (!delta_tensor_is_none(rnn->peepholes)) delta_emit_split(emit, rnn->peepholes, 0, gate_sizes, 3, peepholes);
  for (int64_t order = 0; order < rnn->steps && delta_emit_ok(emit); ++order) {
    int64_t t = step_at(rnn, order);
    delta_tensor_id_t product = delta_emit_matmul(emit, rnn->hidden_state, rnn->recurrence, false, true);
    delta_tensor_id_t sums = delta_emit_binary(emit, DELTA_EXPR_ADD, parts[t], product), gates[DELTA_RNN_MAX_GATES];
    delta_emit_split(emit, sums, 1, gate_sizes, 4, gates);
    lstm_step_t step = {.inputs = {.count = 0}};
    for (int k = 0; k < 4; ++k) step.gates[k] = push(&step.inputs, gates[k]);
    step.hidden = push(&step.inputs, rnn->hidden_state);
    step.cell = push(&step.inputs, rnn->cell_state);
    for (int k = 0; k < 3 && !delta_tensor_is_none(rnn->peepholes); ++k) step.peepholes[k] = push(&step.inputs, peepholes[k]);
    step.lengths = push_lengths(rnn, &step.inputs);
    if (delta_emit_ok(emit)) emit_lstm_step(rnn, &step, couples, t);
  }
  return DELTA_OK;
}

// What one GRU step reads: the gates' shares of the input; of the state (for h, what it needs by the node's form), and the recurrent bias of h.
typedef struct gru_step {
  delta_tensor_id_t x_z, x_r, x_h;
  delta_tensor_id_t h_z, h_r, h_h; // h_r and bias only where the reset gate comes after the product
  delta_tensor_id_t bias;          // of h_h; NONE
} gru_step_t;

// n = g(x_h + [r *] (h_h + bias)), H = (1 - z) n + z H
static void emit_gru_step(delta_rnn_t *rnn, const gru_step_t *step, bool resets_product, int64_t t) {
  step_inputs_t inputs = {.count = 0};
  bool has_bias = resets_product && !delta_tensor_is_none(step->bias);
  uint16_t x_z = push(&inputs, step->x_z), h_z = push(&inputs, step->h_z), x_h = push(&inputs, step->x_h), h_h = push(&inputs, step->h_h);
  uint16_t x_r = resets_product ? push(&inputs, step->x_r) : 0, h_r = resets_product ? push(&inputs, step->h_r) : 0;
  uint16_t bias = has_bias ? push(&inputs, step->bias) : 0;
  uint16_t old = push(&inputs, rnn->hidden_state), lengths = push_lengths(rnn, &inputs);
  delta_formula_t f;
  delta_formula_init(&f, &rnn->lower->emit, inputs.ids, inputs.count);
  uint16_t z = delta_rnn_activate(rnn, &f, 0, delta_formula_add(&f, delta_formula_input(&f, x_z), delta_formula_input(&f, h_z)));
  uint16_t product = delta_formula_input(&f, h_h);
  if (has_bias) product = delta_formula_add(&f, product, delta_formula_input(&f, bias));
  if (resets_product) {
    uint16_t sum = delta_formula_add(&f, delta_formula_input(&f, x_r), delta_formula_input(&f, h_r));
    product = delta_formula_mul(&f, delta_rnn_activate(rnn, &f, 0, sum), product);
  }
  uint16_t candidate = delta_rnn_activate(rnn, &f, 1, delta_formula_add(&f, delta_formula_input(&f, x_h), product));
  uint16_t fresh = delta_formula_mul(&f, delta_formula_sub(&f, delta_formula_real(&f, 1.0), z), candidate);
  uint16_t next = delta_formula_add(&f, fresh, delta_formula_mul(&f, z, delta_formula_input(&f, old)));
  emit_step(rnn, &f, &next, &old, 1, lengths, t);
}

// r * H, of which the product with the recurrence is taken where the reset gate comes first.
static delta_tensor_id_t reset_state(const delta_rnn_t *rnn, delta_tensor_id_t x_r, delta_tensor_id_t h_r) {
  const delta_tensor_id_t inputs[3] = {x_r, h_r, rnn->hidden_state};
  delta_formula_t f;
  delta_formula_init(&f, &rnn->lower->emit, inputs, 3);
  uint16_t r = delta_rnn_activate(rnn, &f, 0, delta_formula_add(&f, delta_formula_input(&f, 0), delta_formula_input(&f, 1)));
  return delta_formula_emit(&f, delta_formula_mul(&f, r, delta_formula_input(&f, 2)), delta_emit_dtype(&rnn->lower->emit, x_r));
}

// The bias that can be added to the input's product: all of it, but for the recurrent bias of h where that is reset with its product. *out_rest: that one.
static delta_tensor_id_t gru_input_bias(const delta_rnn_t *rnn, bool resets_product, delta_tensor_id_t *out_rest) {
  delta_emit_t *emit = &rnn->lower->emit;
  *out_rest = DELTA_TENSOR_NONE;
  if (!resets_product || delta_tensor_is_none(rnn->recurrent_bias)) return joined_bias(rnn);
  const int64_t sizes[2] = {2 * rnn->hidden, rnn->hidden};
  delta_tensor_id_t recurrent[2], input[2], joined[2];
  delta_emit_split(emit, rnn->recurrent_bias, 0, sizes, 2, recurrent);
  delta_emit_split(emit, rnn->input_bias, 0, sizes, 2, input);
  joined[0] = delta_emit_binary(emit, DELTA_EXPR_ADD, input[0], recurrent[0]);
  joined[1] = input[1];
  *out_rest = recurrent[1];
  return delta_emit_concat(emit, joined, 2, 0);
}

delta_status_t delta_rnn_run_gru(delta_rnn_t *rnn) {
  delta_emit_t *emit = &rnn->lower->emit;
  bool resets_product = delta_lower_int(rnn->lower, "linear_before_reset", 0) != 0;
  const int64_t hidden = rnn->hidden, sizes[3] = {hidden, hidden, hidden}, recurrence_sizes[2] = {2 * hidden, hidden};
  delta_tensor_id_t *parts = NULL, recurrence[2] = {DELTA_TENSOR_NONE, DELTA_TENSOR_NONE};
  gru_step_t step = {.bias = DELTA_TENSOR_NONE};
  DELTA_RETURN_IF_ERROR(allocate_parts(rnn, 3, &parts));
  delta_rnn_project(rnn, gru_input_bias(rnn, resets_product, &step.bias), sizes, 3, parts);
  if (!resets_product) delta_emit_split(emit, rnn->recurrence, 0, recurrence_sizes, 2, recurrence);
  for (int64_t order = 0; order < rnn->steps && delta_emit_ok(emit); ++order) {
    int64_t t = step_at(rnn, order);
    delta_tensor_id_t shares[3];
    step.x_z = parts[3 * t];
    step.x_r = parts[3 * t + 1];
    step.x_h = parts[3 * t + 2];
    if (resets_product) {
      delta_emit_split(emit, delta_emit_matmul(emit, rnn->hidden_state, rnn->recurrence, false, true), 1, sizes, 3, shares);
      step.h_h = shares[2];
    } else {
      delta_emit_split(emit, delta_emit_matmul(emit, rnn->hidden_state, recurrence[0], false, true), 1, sizes, 2, shares);
      step.h_h = delta_emit_matmul(emit, reset_state(rnn, step.x_r, shares[1]), recurrence[1], false, true);
    }
    step.h_z = shares[0];
    step.h_r = shares[1];
    if (delta_emit_ok(emit)) emit_gru_step(rnn, &step, resets_product, t);
  }
  return DELTA_OK;
}
