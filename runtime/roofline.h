// Roofline: what a node takes on a device that has not run it: the longer of its arithmetic and its traffic at the speeds the device reaches, and the start.
#ifndef DELTA_RUNTIME_ROOFLINE_H_
#define DELTA_RUNTIME_ROOFLINE_H_

#include "onnx/graph/graph.h"

// X(IDENTIFIER, field, least, most). Efficiencies are the parts of the two speeds that such nodes reach.
#define DELTA_ROOFLINE_NUMBERS(X)                                                               \
  X(FLOPS_PER_SECOND, flops_per_second, 1e6, 1e18)                                              \
  X(MEMORY_BYTES_PER_SECOND, memory_bytes_per_second, 1e6, 1e16)                                \
  X(CONV_EFFICIENCY, conv_efficiency, 1e-4, 1)                                                  \
  X(POINT_CONV_EFFICIENCY, point_conv_efficiency, 1e-4, 1) /* windows of one element */         \
  X(MATMUL_EFFICIENCY, matmul_efficiency, 1e-4, 1)         /* of attention, too */              \
  X(MEMORY_EFFICIENCY, memory_efficiency, 1e-4, 1)                                              \
  X(PLAIN_CONV_SLOWDOWN, plain_conv_slowdown, 1, 1e4) /* of convolutions in the plain layout */ \
  X(LAUNCH_SECONDS, launch_seconds, 1e-12, 1)

typedef struct delta_roofline {
#define DELTA_ROOFLINE_FIELD(id, field, least, most) double field;
  DELTA_ROOFLINE_NUMBERS(DELTA_ROOFLINE_FIELD)
#undef DELTA_ROOFLINE_FIELD
} delta_roofline_t;

// max(flops / (flops_per_second * efficiency), bytes / (memory_bytes_per_second * memory_efficiency)) + launch_seconds; finite and above 0. Not for views.
double delta_roofline_seconds(const delta_roofline_t *roofline, const delta_graph_t *graph, const delta_node_t *node);

// Multiply-adds of a node that is bound by arithmetic, times two (0 for others), and the bytes that it reads and writes.
double delta_node_flops(const delta_graph_t *graph, const delta_node_t *node);
double delta_node_bytes(const delta_graph_t *graph, const delta_node_t *node);

#endif // DELTA_RUNTIME_ROOFLINE_H_
