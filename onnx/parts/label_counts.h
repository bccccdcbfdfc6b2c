// Label counts: what a class loss says of its labels alone (1 for each that counts, 0 for others) is made from the labels, so that the number of labels
// that a mean is divided by is known before any scores are.
#ifndef DELTA_ONNX_PARTS_LABEL_COUNTS_H_
#define DELTA_ONNX_PARTS_LABEL_COUNTS_H_

#include "onnx/graph/graph.h"

DELTA_MUST_USE delta_status_t delta_graph_count_labels(const delta_graph_t *graph, delta_allocator_t allocator, delta_graph_t **out_graph);

#endif // DELTA_ONNX_PARTS_LABEL_COUNTS_H_
