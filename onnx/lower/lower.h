// Lowering of one ONNX node: what a lowering function sees, and the table of all operators (onnx/lower/ops.inc).
//
// A lowering function reads attributes and inputs, emits core operators and stores the results in lower->outputs. Errors stick, as in emit.h: attribute readers
// and emits may be called on after a failure. Functions are in onnx/lower/lower_FAMILY.c.
#ifndef DELTA_ONNX_LOWER_LOWER_H_
#define DELTA_ONNX_LOWER_LOWER_H_

#include "onnx/graph/emit.h"
#include "onnx/lower/import.h"

typedef struct delta_lower {
  delta_emit_t emit;
  const delta_model_t *model;
  const delta_import_options_t *options;
  const delta_model_node_t *node;
  int64_t opset;                   // node->opset
  const delta_tensor_id_t *inputs; // of the node; NONE where left out; input_count entries
  uint32_t input_count;
  delta_tensor_id_t *outputs; // to fill; output_count entries
  uint32_t output_count;
  bool training; // batch statistics and dropout are to be used where the node asks for them
  delta_import_facts_t *facts;
  struct delta_import_state *import; // the walk; private to import.c
} delta_lower_t;

// Input k, or NONE beyond the end.
delta_tensor_id_t delta_lower_input(const delta_lower_t *lower, uint32_t k);
// A required input: an error naming the node when absent.
delta_tensor_id_t delta_lower_required(delta_lower_t *lower, uint32_t k);
// Whether output k is used by anyone.
bool delta_lower_output_wanted(const delta_lower_t *lower, uint32_t k);

// Attributes. A value of another kind is an error naming node and attribute.
bool delta_lower_has(const delta_lower_t *lower, const char *name);
int64_t delta_lower_int(delta_lower_t *lower, const char *name, int64_t fallback);
double delta_lower_float(delta_lower_t *lower, const char *name, double fallback);
const char *delta_lower_string(delta_lower_t *lower, const char *name, const char *fallback);
// Copies at most `capacity` ints; returns the count, 0 when absent. More than capacity is an error.
size_t delta_lower_ints(delta_lower_t *lower, const char *name, int64_t *values, size_t capacity);
// An axis attribute or value made non-negative for `rank`; an error naming it when out of range.
int32_t delta_lower_axis(delta_lower_t *lower, const char *what, int64_t axis, int32_t rank);
// Axes of a node, which newer opsets take as input `input` and older ones as the attribute "axes": a mask of the dimensions of `rank`. An axis
// given twice is an error. False when the node names none (or an empty list), or after an error.
bool delta_lower_axes(delta_lower_t *lower, uint32_t input, int32_t rank, uint32_t *out_mask);
// Indices that are known when the graph is built must lie in [-size, size): an error names the first that does not.
void delta_lower_check_indices(delta_lower_t *lower, uint32_t input, int64_t size);
// All of the node's inputs from `first` on must have one element type; false after an error.
bool delta_lower_same_types(delta_lower_t *lower, uint32_t first);
// Values of an input that must be known at build time (shapes, axes, pads, k, scales): constants, initializers of any type, folded results.
// False after an error naming the node and input ("depends on data").
bool delta_lower_known_ints(delta_lower_t *lower, uint32_t input, int64_t *values, size_t capacity, size_t *out_count);
bool delta_lower_known_reals(delta_lower_t *lower, uint32_t input, double *values, size_t capacity, size_t *out_count);
// Index of `text` among names[0..count); an error listing them otherwise.
size_t delta_lower_choice(delta_lower_t *lower, const char *attribute, const char *text, const char *const *names, size_t count);

// Records an error about this node: "node 'Conv_3' (Conv): " + text. Returns NONE.
delta_tensor_id_t delta_lower_fail(delta_lower_t *lower, delta_status_code_t code, const char *format, ...) DELTA_PRINTF(3, 4);

// Binds the new value of a running statistic given as input k; errors if that input is no initializer.
void delta_lower_bind_statistic(delta_lower_t *lower, uint32_t input, delta_tensor_id_t next);
// The random stream inputs, made on first use, and a stream number for this node (stable across programs: the node's index).
void delta_lower_random(delta_lower_t *lower, delta_tensor_id_t *out_seed, delta_tensor_id_t *out_draw, uint64_t *out_stream);
// Called by nodes that draw in other programs only (dropout in evaluation): makes the state, so that all programs have the same list of states.
void delta_lower_may_draw(delta_lower_t *lower);

typedef struct delta_op_info {
  const char *domain;
  const char *name;
  int32_t since;                                            // first opset of the domain that has it (as lowered here)
  int32_t min_inputs, max_inputs, min_outputs, max_outputs; // -1: any number
  const char *attributes;                                   // comma-separated names, all opsets
  const char *tier;                                         // "T0", "T1", "T2"
  delta_status_t (*lower)(delta_lower_t *lower);
  const char *notes; // for docs/operators.md: limits, or ""
} delta_op_info_t;

// NULL when not supported. The default domain also answers for names that other domains define the same way (onnx-training forms).
const delta_op_info_t *delta_op_find(const char *domain, const char *name);
// All rows, in table order, for docs and tests.
const delta_op_info_t *delta_op_table(size_t *out_count);

#define DELTA_OP(domain, name, since, min_in, max_in, min_out, max_out, attributes, tier, function, notes) \
  delta_status_t function(delta_lower_t *lower);
#include "onnx/lower/ops.inc"
#undef DELTA_OP

#endif // DELTA_ONNX_LOWER_LOWER_H_
