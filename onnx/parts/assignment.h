// Assignment: which nodes of a graph run in parts, along which axes, and when. Note [Parts and stages].
#ifndef DELTA_ONNX_PARTS_ASSIGNMENT_H_
#define DELTA_ONNX_PARTS_ASSIGNMENT_H_

#include "onnx/parts/parts.h"
#include "onnx/parts/rules.h"

typedef enum delta_part_form {
  DELTA_PART_FORM_ONCE, // runs once, on whole tensors
  DELTA_PART_FORM_EACH, // runs for each part
  DELTA_PART_FORM_PICK, // a SLICE that lies within one part, and reads that part alone
  DELTA_PART_FORM_JOIN, // a CONCAT of whole tensors, of which each part has its own
} delta_part_form_t;

// A place in the order: the parts of a stage run one after the other.
typedef struct delta_part_time {
  uint32_t stage, position; // position: how many parts of the stage have run before
} delta_part_time_t;

typedef struct delta_part_node {
  delta_part_form_t form;
  delta_part_time_t time; // EACH and JOIN: only the stage counts
  uint32_t part;          // PICK
  int32_t *inputs;        // axes by input, of EACH (delta_part_rule_t), PICK and JOIN
  int32_t *outputs;
} delta_part_node_t;

typedef struct delta_part_tensor {
  int32_t axis;           // along which it is split, or WHOLE
  bool is_given;          // its whole depends on nothing that runs in parts: it can be had at the start, whole and in parts
  delta_part_time_t time; // from when it exists: whole tensors; of split ones only the stage counts
} delta_part_tensor_t;

typedef struct delta_part_assignment {
  delta_graph_t *graph; // Borrowed.
  delta_parts_options_t options;
  uint32_t count;        // of parts
  delta_region_t region; // Owns the lists.
  delta_part_node_t *nodes;
  delta_part_tensor_t *tensors;
  bool *in_region; // by node: may run in parts
  bool *is_output; // by storage: the program needs it at its end
} delta_part_assignment_t;

DELTA_MUST_USE delta_status_t delta_part_assignment_init(delta_graph_t *graph, const delta_parts_options_t *options,
                                                         delta_allocator_t allocator, delta_part_assignment_t *out_assignment);
void delta_part_assignment_deinit(delta_part_assignment_t *assignment); // Safe on a zeroed struct.

// The part that runs at a position of a stage, and the position at which a part runs: the same function.
static inline uint32_t delta_part_at(const delta_part_assignment_t *assignment, uint32_t stage, uint32_t position) {
  return stage % 2 ? assignment->count - 1 - position : position;
}
// A part's range of a dimension of `size`.
static inline int64_t delta_part_begin(const delta_part_assignment_t *assignment, uint32_t part, int64_t size) {
  return delta_parts_begin(&assignment->options, part) * (size / assignment->options.batch);
}

#endif // DELTA_ONNX_PARTS_ASSIGNMENT_H_
