// Readers: who reads each tensor of a graph, for passes that recognise patterns.
#ifndef DELTA_ONNX_GRAPH_READERS_H_
#define DELTA_ONNX_GRAPH_READERS_H_

#include "onnx/graph/graph.h"

enum { DELTA_READERS_KEPT = 2 };
typedef struct delta_tensor_readers {
  uint32_t count;                            // of uses by nodes, and as an output or a state's next value
  delta_node_id_t nodes[DELTA_READERS_KEPT]; // the first of them; NONE for a use that is no node
} delta_tensor_readers_t;

typedef struct delta_readers {
  delta_graph_t *graph;
  delta_tensor_readers_t *tensors; // Owned. By tensor.
} delta_readers_t;

DELTA_MUST_USE delta_status_t delta_readers_init(delta_graph_t *graph, delta_readers_t *out_readers);
void delta_readers_deinit(delta_readers_t *readers);

// The node that alone reads a tensor, once; NULL when there is none.
delta_node_t *delta_readers_only(const delta_readers_t *readers, delta_tensor_id_t tensor);
// The node that computes a tensor; NULL for inputs and states.
delta_node_t *delta_readers_producer(const delta_readers_t *readers, delta_tensor_id_t tensor);

#endif // DELTA_ONNX_GRAPH_READERS_H_
