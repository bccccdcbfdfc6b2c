// What the lowering of recurrent networks shares: activation functions by name and one direction's view of a node. Private to onnx/lower.
#ifndef DELTA_ONNX_LOWER_RNN_H_
#define DELTA_ONNX_LOWER_RNN_H_

#include "onnx/lower/activation.h"
#include "onnx/lower/formula.h"

enum { DELTA_RNN_MAX_GATES = 4, DELTA_RNN_MAX_ACTIVATIONS = 3 };

// An activation with its parameters, as a node states them.
typedef struct delta_rnn_activation {
  const delta_activation_t *function;
  double parameters[DELTA_ACTIVATION_PARAMETERS]; // alpha, beta
} delta_rnn_activation_t;

// Reads activations, activation_alpha and activation_beta of all directions: per_direction of each, named by `defaults` where the node names none.
// Names ignore case. An alpha (or beta) is taken from the list by each function that has one, in order. False after an error.
bool delta_rnn_read_activations(delta_lower_t *lower, const char *const *defaults, size_t per_direction, size_t directions,
                                delta_rnn_activation_t *activations);

// One direction of a node, ready to be unrolled. Lists of steps are in the order of time.
typedef struct delta_rnn {
  delta_lower_t *lower;
  int64_t steps, batch, inputs, hidden;
  int64_t gates;
  delta_rnn_activation_t activations[DELTA_RNN_MAX_ACTIVATIONS];
  double clip;                      // of what activations see; 0: none
  bool reversed;                    // time runs from the last step to the first
  delta_tensor_id_t x;              // [steps * batch, inputs]
  delta_tensor_id_t weight;         // [gates * hidden, inputs]
  delta_tensor_id_t recurrence;     // [gates * hidden, hidden]
  delta_tensor_id_t input_bias;     // [gates * hidden], or NONE
  delta_tensor_id_t recurrent_bias; // [gates * hidden], or NONE
  delta_tensor_id_t hidden_state;   // [batch, hidden]: the initial one, then that after the last step
  delta_tensor_id_t cell_state;     // likewise; LSTM only
  delta_tensor_id_t peepholes;      // [3 * hidden], or NONE
  delta_tensor_id_t lengths;        // [batch, 1] steps of each sample, or NONE: all
  delta_tensor_id_t *outputs;       // [steps], each [batch, hidden]
} delta_rnn_t;

// A formula of one step may ask for these.
uint16_t delta_rnn_activate(const delta_rnn_t *rnn, delta_formula_t *f, size_t activation, uint16_t x);
// Whether `step` lies within the sample: an instruction of a formula whose input `lengths_input` are the lengths.
uint16_t delta_rnn_is_inside(delta_formula_t *f, uint16_t lengths_input, int64_t step);

// x * weight^T + bias for all steps at once, in parts: parts[step * widths' count + k] is [batch, widths[k]]. One product, so that the weight is read once.
void delta_rnn_project(const delta_rnn_t *rnn, delta_tensor_id_t bias, const int64_t *widths, uint32_t width_count,
                       delta_tensor_id_t *parts);

// Cells: run all steps, fill outputs, leave the last states. Formulas: ONNX, operators RNN, GRU and LSTM.
delta_status_t delta_rnn_run_plain(delta_rnn_t *rnn);
delta_status_t delta_rnn_run_gru(delta_rnn_t *rnn);
delta_status_t delta_rnn_run_lstm(delta_rnn_t *rnn);

#endif // DELTA_ONNX_LOWER_RNN_H_
