// State of one import: what the walk over the nodes (import.c) shares with the helpers of lowering functions (lower.c). Private to
// onnx/lower.
#ifndef DELTA_ONNX_LOWER_IMPORT_STATE_H_
#define DELTA_ONNX_LOWER_IMPORT_STATE_H_

#include "onnx/lower/lower.h"

typedef struct delta_import_state {
  const delta_model_t *model;            // Borrowed.
  const delta_import_options_t *options; // Borrowed.
  delta_allocator_t allocator;
  delta_graph_t *graph;       // Owned until handed out.
  delta_region_t scratch;     // Owns the lists below.
  delta_tensor_id_t *tensors; // by value index: the core tensor that holds it; NONE: not made yet, or an input of a type that nobody reads
  uint32_t *uses;             // by value index: inputs of live nodes and graph outputs that name it
  bool *live;                 // by node index: whether an output of the graph depends on it
  const delta_op_info_t **rows; // by node index: the table row of a live node
  delta_tensor_id_t seed;       // NONE until a node draws
  delta_tensor_id_t draw;       // NONE until a node may draw
} delta_import_state_t;

// dims.c: the fixed shape of every input of the model, shapes[k] for model->inputs[k]. An input of a type that is no tensor keeps rank
// -1 when no live node reads it. All unknown symbols are listed in one error.
DELTA_MUST_USE delta_status_t delta_import_input_shapes(delta_import_state_t *state, delta_shape_t *shapes);

// support.c: finds the table row of every live node. One error lists all operators that have none.
DELTA_MUST_USE delta_status_t delta_import_find_rows(delta_import_state_t *state);

// lower_training.c: what a Gradient node differentiates, which it names by attribute and not as an input. NONE for every other node.
delta_value_id_t delta_import_differentiated(const delta_model_t *model, const delta_model_node_t *node);

// The known input called `name`, or NULL.
const delta_known_input_t *delta_import_known_input(const delta_import_options_t *options, const char *name);

#endif // DELTA_ONNX_LOWER_IMPORT_STATE_H_
