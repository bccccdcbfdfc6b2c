// The canonical text of a graph's parts: what dumps show and hashes cover. Every attribute is written field by field, because structs hold
// padding and pointers; floating-point values are hexadecimal, so that equal text means equal bits.
#ifndef DELTA_ONNX_GRAPH_GRAPH_WRITE_H_
#define DELTA_ONNX_GRAPH_GRAPH_WRITE_H_

#include "onnx/graph/graph.h"

// Receives text piece by piece.
typedef struct delta_graph_sink {
  void *self; // Borrowed.
  void (*write)(void *self, const char *text, size_t length);
} delta_graph_sink_t;

void delta_graph_write(delta_graph_sink_t sink, const char *format, ...) DELTA_PRINTF(2, 3);
// " name=value" for each attribute of the node.
void delta_graph_write_attrs(delta_graph_sink_t sink, const delta_node_t *node);
// The whole graph, one line a state, input, node and output. `names`: with the names of nodes and their groups, which do not count for a hash.
void delta_graph_write_all(delta_graph_sink_t sink, const delta_graph_t *graph, bool names);

#endif // DELTA_ONNX_GRAPH_GRAPH_WRITE_H_
