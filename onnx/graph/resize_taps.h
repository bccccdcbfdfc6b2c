// Taps of RESIZE: along each axis every output is a weighted sum of a few inputs; the gradient applies the same taps the other way round.
#ifndef DELTA_ONNX_GRAPH_RESIZE_TAPS_H_
#define DELTA_ONNX_GRAPH_RESIZE_TAPS_H_

#include "onnx/graph/graph.h"

typedef struct delta_resize_taps {
  int64_t in, out;
  int64_t count;    // taps of each output
  int64_t *indices; // Owned. [out, count], inside the axis
  double *weights;  // Owned. [out, count]
  bool *outside;    // Owned. [out]: takes the extrapolation value; has no weights
} delta_resize_taps_t;

// Makes the taps of axis d of a RESIZE or RESIZE_GRAD node. `taps` is zeroed by the caller, which also deinits it, whatever is returned.
// INVALID_ARGUMENT names the node and what of the axis cannot be.
DELTA_MUST_USE delta_status_t delta_resize_taps_init(const delta_node_t *node, int32_t d, delta_allocator_t allocator,
                                                     delta_resize_taps_t *taps);
void delta_resize_taps_deinit(delta_resize_taps_t *taps, delta_allocator_t allocator);
// Whether every output is its own input.
bool delta_resize_taps_change_nothing(const delta_resize_taps_t *taps);

#endif // DELTA_ONNX_GRAPH_RESIZE_TAPS_H_
