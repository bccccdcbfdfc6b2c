// Layout regions: the parts of a graph whose tensors may lie in one layout together. A region is made of convolutions and of the nodes that work on any
// physical shape, connected by tensors with channels and spatial dimensions; what joins regions, or leaves them, is converted.
#ifndef DELTA_ONNX_GRAPH_LAYOUT_REGIONS_H_
#define DELTA_ONNX_GRAPH_LAYOUT_REGIONS_H_

#include "onnx/graph/graph.h"

typedef struct delta_layout_regions {
  delta_allocator_t allocator;
  uint32_t *of_node; // Owned; per node its region, or DELTA_INDEX_NONE
  uint32_t count;    // numbered by their first nodes
} delta_layout_regions_t;

// The regions that have a convolution in float32. Depends on the graph alone.
DELTA_MUST_USE delta_status_t delta_layout_regions_init(const delta_graph_t *graph, delta_allocator_t allocator,
                                                        delta_layout_regions_t *out_regions);
void delta_layout_regions_deinit(delta_layout_regions_t *regions); // Safe on a zeroed struct.

// What a node does with layouts.
typedef enum delta_layout_part {
  DELTA_LAYOUT_PART_NONE,     // needs plain tensors
  DELTA_LAYOUT_PART_WINDOWS,  // a convolution: its attributes give x and y layouts of their own
  DELTA_LAYOUT_PART_FOLLOWS,  // works in one layout, all operands at full rank
  DELTA_LAYOUT_PART_BROADCAST // works in one layout, operands broadcast to `shape`
} delta_layout_part_t;
// `shape`: the plain shape the node works on.
delta_layout_part_t delta_layout_part_of(const delta_graph_t *graph, const delta_node_t *node, delta_shape_t *out_shape);

// A shape brought to `rank` by dimensions of 1 in front.
delta_shape_t delta_layout_pad_rank(const delta_shape_t *shape, int32_t rank);
// Whether elements lie in the same order in every layout: one channel, or one position.
bool delta_layout_is_free(const delta_shape_t *plain);
// Whether a node that follows or broadcasts can run in a layout.
bool delta_layout_node_fits(const delta_graph_t *graph, const delta_node_t *node, delta_layout_t layout);

#endif // DELTA_ONNX_GRAPH_LAYOUT_REGIONS_H_
