// Graph: operations and the order between them, made by a capture; each stream that took part is a lane of it.
#ifndef DELTA_TESTS_CUDA_GRAPH_H_
#define DELTA_TESTS_CUDA_GRAPH_H_

#include "tests/cuda/emulation/stream.h"

typedef struct delta_emulated_node {
  delta_emulated_operation_t *operation; // Shared
  uint32_t lane;
  uint32_t *needs; // Owned; nodes that have to end before; all have smaller numbers
  uint32_t need_count;
} delta_emulated_node_t;

struct CUgraph_st {
  delta_emulated_node_t *nodes; // Owned
  uint32_t node_count, lane_count;
};

// Adds a node with a copy of `needs`, and takes `operation` over. False: no memory.
bool delta_emulated_graph_add(cudaGraph_t graph, delta_emulated_operation_t *operation, uint32_t lane, const uint32_t *needs,
                              uint32_t need_count);
void delta_emulated_graph_free(cudaGraph_t graph);

#endif // DELTA_TESTS_CUDA_GRAPH_H_
