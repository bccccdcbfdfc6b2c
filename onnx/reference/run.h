// Run: evaluates a whole graph with the reference kernels, every tensor in a buffer of its own. For tests: gradient checks, and comparing what
// a plan computes with what the graph says. Slow, and takes as much memory as all tensors together.
#ifndef DELTA_ONNX_REFERENCE_RUN_H_
#define DELTA_ONNX_REFERENCE_RUN_H_

#include "onnx/graph/graph.h"

// Values of a graph's tensors: values[id.index], delta_tensor_bytes() each; NULL where nothing is held.
typedef struct delta_reference_values {
  delta_allocator_t allocator;
  const delta_graph_t *graph; // Borrowed; outlives this.
  size_t count;
  void **buffers; // Owned, as is each buffer.
} delta_reference_values_t;

// Gives every input, and the `current` tensor of every state, a zeroed buffer; states without an initializer get their initial value. Fill the
// others through delta_reference_value() before running.
DELTA_MUST_USE delta_status_t delta_reference_values_init(const delta_graph_t *graph, delta_allocator_t allocator,
                                                          delta_reference_values_t *out_values);
void delta_reference_values_deinit(delta_reference_values_t *values); // Safe on a zeroed struct.

// The buffer of a tensor, or NULL when it holds none (not run yet).
void *delta_reference_value(const delta_reference_values_t *values, delta_tensor_id_t id);

// Evaluates all nodes in order; afterwards every tensor holds its value. States keep their values: delta_reference_advance_states() ends the
// step. Errors are those of the kernels, naming the node. Running again overwrites.
DELTA_MUST_USE delta_status_t delta_reference_run_graph(delta_reference_values_t *values);

// The same with `run_node` in place of the reference kernel, for other kernels of the same operators.
typedef delta_status_t delta_run_node_t(void *self, const delta_reference_args_t *args);
DELTA_MUST_USE delta_status_t delta_reference_run_graph_by(delta_reference_values_t *values, delta_run_node_t *run_node, void *self);

// Copies each state's `next` value to its `current` tensor, all at once: a `next` that is another state's `current` gives the old value.
DELTA_MUST_USE delta_status_t delta_reference_advance_states(delta_reference_values_t *values);

#endif // DELTA_ONNX_REFERENCE_RUN_H_
