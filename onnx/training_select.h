// Selection of what trains: every initializer of a model either trains or has a reason not to.
#ifndef DELTA_ONNX_TRAINING_SELECT_H_
#define DELTA_ONNX_TRAINING_SELECT_H_

#include "onnx/loss.h"
#include "onnx/graph/emit.h"

// A parameter that trains, and its gradient.
typedef struct delta_trained {
  uint32_t state;
  delta_tensor_id_t gradient;
} delta_trained_t;
typedef DELTA_ARRAY(delta_trained_t) delta_trained_list_t;

// Decides by kind, type and the globs of the options, without the graph's paths: out_trained gets the parameters of `graph` that may train (gradient
// NONE), all other PARAMETER states become FROZEN, and the reasons are counted. With --train only what matches it trains, whatever --freeze
// says of it; else all that --freeze does not match. Notes globs that match only what cannot train.
// INVALID_ARGUMENT: a glob that matches no initializer.
DELTA_MUST_USE delta_status_t delta_training_select(const delta_model_t *model, const delta_build_options_t *options, delta_graph_t *graph,
                                                    delta_log_sink_t log, delta_trained_list_t *out_trained,
                                                    delta_build_facts_t *out_facts);

// The text of a reason's row.
const char *delta_frozen_reason_text(delta_frozen_reason_t reason);

// Differentiates the loss (its sum or its mean) by the selected parameters. Those without a gradient become FROZEN and leave the list. What trains and
// what does not is logged name by name (DEBUG). INVALID_ARGUMENT when nothing is left.
DELTA_MUST_USE delta_status_t delta_training_differentiate(delta_emit_t *emit, const delta_build_options_t *options,
                                                           const delta_loss_values_t *loss, bool of_sum, delta_log_sink_t log,
                                                           delta_trained_list_t *trained, delta_build_facts_t *facts);

#endif // DELTA_ONNX_TRAINING_SELECT_H_
