// Graph: core operators and the tensors between them, for one program and fixed shapes.
//
// Nodes are pure and stand in topological order. What outlives a step is a state: it has a tensor for its value when the program starts (`current`)
// and, where the program changes it, a tensor for its value when the program ends (`next`). The list of states is the same in every program of one plan.
// A graph is built by passes that read one graph and emit another; a finished graph is immutable and may be shared by threads.
#ifndef DELTA_ONNX_GRAPH_GRAPH_H_
#define DELTA_ONNX_GRAPH_GRAPH_H_

#include "base/array.h"
#include "base/map.h"
#include "onnx/graph/core_ops.h"

typedef struct delta_tensor_id {
  uint32_t index;
} delta_tensor_id_t;
typedef struct delta_node_id {
  uint32_t index;
} delta_node_id_t;
#define DELTA_TENSOR_NONE ((delta_tensor_id_t){UINT32_MAX})
#define DELTA_NODE_NONE   ((delta_node_id_t){UINT32_MAX})
#define DELTA_INDEX_NONE  UINT32_MAX

static inline bool delta_tensor_is_none(delta_tensor_id_t id) { return id.index == UINT32_MAX; }
static inline bool delta_tensor_same(delta_tensor_id_t a, delta_tensor_id_t b) { return a.index == b.index; }

typedef enum delta_tensor_role {
  DELTA_ROLE_COMPUTED, // by a node
  DELTA_ROLE_INPUT,    // fed by the caller at each run
  DELTA_ROLE_STATE,    // a state's value when the program starts
} delta_tensor_role_t;

typedef struct delta_tensor {
  const char *name; // unique among inputs, states and outputs; descriptive otherwise
  delta_dtype_t dtype;
  delta_shape_t shape;
  delta_tensor_role_t role;
  delta_node_id_t producer;  // COMPUTED
  uint32_t producer_output;  // which output of it
  delta_tensor_id_t storage; // whose bytes these are: itself, or for views the tensor at the end of the chain
  uint32_t state;            // STATE: index in graph->states; for a state's `next` value the same; else DELTA_INDEX_NONE
  const void *data;          // values known when the graph is built (a CONSTANT's output), else NULL
} delta_tensor_t;

// What part of a step a node belongs to; the first three run before the update of any parameter that they read.
typedef enum delta_phase { DELTA_PHASE_FORWARD, DELTA_PHASE_LOSS, DELTA_PHASE_BACKWARD, DELTA_PHASE_UPDATE } delta_phase_t;

typedef struct delta_node {
  delta_core_op_t op;
  delta_phase_t phase;
  const char *name;          // the ONNX node it comes from, with a suffix for gradients and updates; for messages
  delta_tensor_id_t *inputs; // DELTA_TENSOR_NONE: optional, left out
  uint32_t input_count;
  delta_tensor_id_t *outputs; // DELTA_TENSOR_NONE: not wanted (only for optional outputs)
  uint32_t output_count;
  const void *attrs; // the operator's attribute struct of core_ops.h
  size_t attrs_bytes;
  uint32_t group;  // nodes of one ONNX (or recognised) operator share it: what an eager framework runs as one
  uint32_t kin;    // nodes that do the same for other parts of the batch share it; 0: none does
  bool is_virtual; // CONCAT: its output is never made, readers get its inputs (onnx/graph/virtual.h)
} delta_node_t;

// X(identifier, name): kinds of state.
#define DELTA_STATE_KINDS(X)                                                              \
  X(PARAMETER, "parameter")     /* trains                                              */ \
  X(FROZEN, "frozen")           /* an initializer that does not train                  */ \
  X(STATISTIC, "statistic")     /* running mean or variance                            */ \
  X(MOMENT, "optimizer")        /* an optimizer's own values for one parameter         */ \
  X(ACCUMULATOR, "accumulator") /* sums over micro-steps: gradients, loss, label count */ \
  X(COUNTER, "counter")         /* steps, draws                                        */
typedef enum delta_state_kind {
#define DELTA_STATE_ENUM(id, name) DELTA_STATE_##id,
  DELTA_STATE_KINDS(DELTA_STATE_ENUM)
#undef DELTA_STATE_ENUM
} delta_state_kind_t;

typedef struct delta_state {
  const char *name; // the initializer's, or made: "conv1.weight/momentum", "delta.step"
  delta_state_kind_t kind;
  delta_dtype_t dtype;
  delta_shape_t shape;
  uint32_t initializer;      // index in the model, or DELTA_INDEX_NONE
  double initial_value;      // fills the state when there is no initializer
  delta_tensor_id_t current; // NONE: this program does not read it
  delta_tensor_id_t next;    // NONE: this program does not change it
} delta_state_t;

typedef struct delta_graph_output {
  const char *name;
  delta_tensor_id_t tensor;
} delta_graph_output_t;

typedef struct delta_graph {
  delta_allocator_t allocator;
  delta_region_t region; // Owns names, attributes, lists and constants.
  DELTA_ARRAY(delta_node_t) nodes;
  DELTA_ARRAY(delta_tensor_t) tensors;
  DELTA_ARRAY(delta_state_t) states;
  DELTA_ARRAY(delta_tensor_id_t) inputs;
  DELTA_ARRAY(delta_graph_output_t) outputs;
  delta_map_t input_names, output_names, state_names; // name -> index in the list
} delta_graph_t;

DELTA_MUST_USE delta_status_t delta_graph_create(delta_allocator_t allocator, delta_graph_t **out_graph);
void delta_graph_free(delta_graph_t *graph); // NULL is fine.

const delta_tensor_t *delta_graph_tensor(const delta_graph_t *graph, delta_tensor_id_t id);
const delta_node_t *delta_graph_node(const delta_graph_t *graph, delta_node_id_t id);
// Input or output k of a node; NULL when left out.
const delta_tensor_t *delta_node_input(const delta_graph_t *graph, const delta_node_t *node, uint32_t k);
const delta_tensor_t *delta_node_output(const delta_graph_t *graph, const delta_node_t *node, uint32_t k);
size_t delta_tensor_bytes(const delta_tensor_t *tensor); // element count * element size
// Whether output `out` of the node may have the bytes of input `in` (flags and shapes; lifetimes are the planner's matter).
bool delta_node_may_overwrite(const delta_graph_t *graph, const delta_node_t *node, uint32_t in, uint32_t out);

DELTA_MUST_USE delta_status_t delta_graph_add_input(delta_graph_t *graph, const char *name, delta_dtype_t dtype, const delta_shape_t *shape,
                                                    delta_tensor_id_t *out_tensor);
DELTA_MUST_USE delta_status_t delta_graph_add_output(delta_graph_t *graph, const char *name, delta_tensor_id_t tensor);
// Adds a state and its `current` tensor. The name is copied.
DELTA_MUST_USE delta_status_t delta_graph_add_state(delta_graph_t *graph, const delta_state_t *state, uint32_t *out_state);
// Binds the value the state takes when the program ends: computed, of the state's type and shape, with bytes of its own (neither a view nor
// a constant: delta_emit_copy makes one of those).
DELTA_MUST_USE delta_status_t delta_graph_set_next(delta_graph_t *graph, uint32_t state, delta_tensor_id_t next);
uint32_t delta_graph_find_state(const delta_graph_t *graph, const char *name); // DELTA_INDEX_NONE when absent
delta_tensor_id_t delta_graph_find_output(const delta_graph_t *graph, const char *name);
delta_tensor_id_t delta_graph_find_input(const delta_graph_t *graph, const char *name);

// Appends a tensor or a node as it is, for emit and the passes. What they point to must live in the graph's region. The storage of a tensor whose
// `storage` is DELTA_TENSOR_NONE becomes the tensor itself.
DELTA_MUST_USE delta_status_t delta_graph_append_tensor(delta_graph_t *graph, const delta_tensor_t *tensor, delta_tensor_id_t *out_tensor);
DELTA_MUST_USE delta_status_t delta_graph_append_node(delta_graph_t *graph, const delta_node_t *node, delta_node_id_t *out_node);

// Walks every link of the graph: order, arities, shapes as inferred, storages, states. INTERNAL names the first fault. For tests and debug builds.
DELTA_MUST_USE delta_status_t delta_graph_check(const delta_graph_t *graph);

// SHA-256 over nodes, attributes, shapes, states: equal graphs have equal text. Names of computed tensors do not count.
void delta_graph_hash(const delta_graph_t *graph, char out_text[65]);

// A readable dump, one line a node, for tests and --verbose.
struct delta_text;
DELTA_MUST_USE delta_status_t delta_graph_dump(const delta_graph_t *graph, struct delta_text *out_text);

#endif // DELTA_ONNX_GRAPH_GRAPH_H_
