// Part rules: how an operator works on one part of the batch. A tensor may be split along one axis into parts of whole samples; for each operator, what
// follows for its other operands when one of its inputs is.
#ifndef DELTA_ONNX_PARTS_RULES_H_
#define DELTA_ONNX_PARTS_RULES_H_

#include "onnx/graph/graph.h"

enum {
  DELTA_PART_WHOLE = -1, // the operand is there as a whole, the same for every part
  DELTA_PART_SUM = -2,   // of an output: the results of the parts are summed (REDUCE: by its kind; MOMENTS: combined)
};

// A node seen by its rule. Axes are by operand.
typedef struct delta_part_rule {
  const delta_graph_t *graph;
  const delta_node_t *node;
  const int32_t *found; // of inputs: the axis it is split along as things stand, or WHOLE
  int32_t *inputs;      // receives the axis each input is read along, or WHOLE
  int32_t *outputs;     // receives the axis each output is split along, or SUM
} delta_part_rule_t;

// Whether the node can run part by part, given that at least one input is split. Fills inputs and outputs; on false their contents mean nothing.
bool delta_part_rule_apply(const delta_part_rule_t *rule);

#endif // DELTA_ONNX_PARTS_RULES_H_
