// Sums of parts: what a node that sums over the batch gives for each part, made into what it gives for all of it, in the order of the parts.
#ifndef DELTA_ONNX_PARTS_SUMS_H_
#define DELTA_ONNX_PARTS_SUMS_H_

#include "onnx/graph/rewrite.h"
#include "onnx/parts/assignment.h"

typedef struct delta_part_sum {
  const delta_part_assignment_t *assignment;
  const delta_node_t *node;
  const delta_part_node_t *made;
  delta_rewrite_t *rewrite;
  delta_tensor_id_t *parts; // by old tensor and part; the rows of the node's outputs are worked in
} delta_part_sum_t;

// The sum that the next part's product is added to as it is made; NONE where it is added afterwards.
delta_tensor_id_t delta_part_sum_so_far(const delta_part_sum_t *sum);

// Called when the results of the part at a position are in `parts`, positions ascending. Large results are added at once, small ones and moments when
// all are there. After the last, the new tensors stand for the outputs, and the rows are empty. Errors stick in the rewrite.
void delta_part_sum_add(const delta_part_sum_t *sum, uint32_t position);

#endif // DELTA_ONNX_PARTS_SUMS_H_
