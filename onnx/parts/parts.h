// Parts: a graph in which a region, or all of it, runs in parts along the batch.
//
// Note [Parts and stages]
// Every tensor that has samples in it is split along one axis into as many tensors as there are parts, and a node that reads such tensors becomes a node
// for each part. What sums over the batch (gradients of weights, statistics of a batch normalization, the loss) is made for each part and summed, in the
// order in which the parts run. A node that needs such a sum waits for all parts, and what follows from it belongs to the next stage. In a stage
// the parts run one after the other, each as far as it can, so that what lives only within a stage exists for one part at a time. Every other stage runs the parts
// backwards: what was made last is needed first, and what has to leave the device in between is what is needed last.
//
// The result is the same function of the same inputs; only sums over the batch round differently. Dropout draws by position, and draws the same.
#ifndef DELTA_ONNX_PARTS_PARTS_H_
#define DELTA_ONNX_PARTS_PARTS_H_

#include "onnx/graph/graph.h"

enum { DELTA_PARTS_MAX = 16 };

typedef struct delta_parts_options {
  uint32_t count;          // of parts; a batch of fewer samples has fewer parts
  int64_t batch;           // samples: inputs whose first dimension is this are split
  uint32_t region_percent; // nodes none of whose tensors is as large, in hundredths of the largest, run whole
  bool accumulates;        // products are added to the sum of those before as they are made
} delta_parts_options_t;

// The number of parts that a batch is really split into.
static inline uint32_t delta_parts_count(const delta_parts_options_t *options) {
  return options->batch < (int64_t)options->count ? (uint32_t)(options->batch < 1 ? 1 : options->batch) : options->count;
}
// First sample of a part; of the part after the last one, the number of samples.
static inline int64_t delta_parts_begin(const delta_parts_options_t *options, uint32_t part) {
  return options->batch * (int64_t)part / (int64_t)delta_parts_count(options);
}

// The graph in parts, in the order of stages and parts. Inputs, outputs and states are the same. The graph may be in layouts: samples are the first
// dimension in all of them.
DELTA_MUST_USE delta_status_t delta_graph_in_parts(delta_graph_t *graph, const delta_parts_options_t *options, delta_allocator_t allocator,
                                                   delta_graph_t **out_graph);

#endif // DELTA_ONNX_PARTS_PARTS_H_
