// Problem: what a planner is asked. Steps in a legal order with their costs, tensors with their bytes, lanes with bandwidths, a budget. It knows no ONNX and no device.
//
// A problem tensor is a storage: views are resolved before. A problem is immutable while it is planned and may be shared by threads.
#ifndef DELTA_PLANS_PROBLEM_H_
#define DELTA_PLANS_PROBLEM_H_

#include <math.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/region.h"

#define DELTA_PROBLEM_NONE UINT32_MAX

enum {
  DELTA_TENSOR_STATE = 1 << 0,  // outlives the program: its bytes are at a fixed address of the state area
  DELTA_TENSOR_INPUT = 1 << 1,  // holds its value before the first step
  DELTA_TENSOR_OUTPUT = 1 << 2, // needed after the last step
  // Of a state and of its new value: the state's home is the tier below, where its value is before the first step and its new value has to be after the last.
  // Both then have buffers like any tensor.
  DELTA_TENSOR_BELOW = 1 << 3,
  DELTA_TENSOR_PINNED = 1 << 4, // never leaves the device once it is there; an OUTPUT too
};

// X(identifier, name): what a tensor is, for reports of memory by kind.
#define DELTA_TENSOR_CLASSES(X) \
  X(PARAMETERS, "parameters")   \
  X(GRADIENTS, "gradients")     \
  X(OPTIMIZER, "optimizer_state") X(ACTIVATIONS, "activations") X(WORKSPACE, "workspace") X(INPUTS, "inputs") X(OTHER, "other")
typedef enum delta_tensor_class {
#define DELTA_CLASS_ENUM(id, name) DELTA_CLASS_##id,
  DELTA_TENSOR_CLASSES(DELTA_CLASS_ENUM)
#undef DELTA_CLASS_ENUM
      DELTA_CLASS_COUNT
} delta_tensor_class_t;

typedef struct delta_problem_tensor {
  const char *name;
  size_t size_bytes; // aligned; what the budget counts
  uint32_t flags;
  delta_tensor_class_t kind;
  // For a state's new value: the state tensor whose bytes it takes. The tensor has no buffer of its own; its producer writes the state.
  uint32_t becomes_state;
  uint32_t next_kin;        // parts of one tensor form a ring: 1 + the next of them; 0: alone
  size_t home_offset_bytes; // of a state with DELTA_TENSOR_BELOW: its slot in the tier below
} delta_problem_tensor_t;

enum {
  DELTA_STEP_PURE = 1 << 0,   // may run again with the same result
  DELTA_STEP_UPDATE = 1 << 1, // writes a state: every other reader of the state's old value runs before it
  // What rules of rival policies ask for; of steps of the forward pass alone. They change no meaning.
  DELTA_STEP_CONVOLUTION = 1 << 2,
  DELTA_STEP_PRODUCT = 1 << 3, // of matrices
  // The bytes of all inputs are the bytes of all outputs in another order, as where parts are put together or one whole is split. Where every input dies here and they lie
  // one behind another, in their order, the outputs may take these bytes: one behind another, in theirs.
  DELTA_STEP_IN_ROW = 1 << 4,
};

typedef struct delta_inplace_pair {
  uint32_t input, output; // problem tensors: the output may take the input's bytes if the input dies here
} delta_inplace_pair_t;

typedef struct delta_problem_step {
  const char *name;
  uint32_t node; // of the graph the problem was made from; DELTA_PROBLEM_NONE for others
  double seconds;
  size_t workspace_bytes; // aligned
  uint32_t flags;
  uint32_t *inputs; // problem tensors, each once
  uint32_t input_count;
  uint32_t *outputs;
  uint32_t output_count;
  delta_inplace_pair_t *inplace; // in order of preference; a state and its new value count when they have buffers
  uint32_t inplace_count;
} delta_problem_step_t;

typedef struct delta_problem {
  delta_allocator_t allocator;
  delta_region_t region; // Owns all lists and names.
  delta_problem_tensor_t *tensors;
  uint32_t tensor_count;
  delta_problem_step_t *steps;
  uint32_t step_count;
  size_t alignment_bytes;          // of buffers
  uint64_t budget_bytes;           // UINT64_MAX: unlimited
  uint64_t host_budget_bytes;      // below the arena; UINT64_MAX: unlimited
  uint64_t home_bytes;             // of the tier below, from its start: where states have their homes
  double offload_bytes_per_second; // device to host
  double prefetch_bytes_per_second;
  double shared_bytes_per_second; // both directions together; 0: independent
  // What a copy takes whatever it copies: until the lane, the system and the device are at it, and until the other lanes know that it has ended.
  double offload_start_seconds, prefetch_start_seconds;
  // What compute loses of its speed while a copy starts, and while its bytes are copied, at most DELTA_PROBLEM_MOST_DRAG: copies also take processors and memory.
  double offload_start_drag, prefetch_start_drag;
  double offload_drag, prefetch_drag;
} delta_problem_t;

#define DELTA_PROBLEM_MOST_DRAG 0.9

DELTA_MUST_USE delta_status_t delta_problem_create(delta_allocator_t allocator, delta_problem_t **out_problem);
void delta_problem_free(delta_problem_t *problem); // NULL is fine.

// Checks indices, order (every input is an INPUT, a STATE or produced before), single producers, in-place pairs, rows and sums without overflow.
// MALFORMED names step and tensor.
DELTA_MUST_USE delta_status_t delta_problem_check(const delta_problem_t *problem);

// The next in a tensor's ring; itself when it is alone.
static inline uint32_t delta_problem_next_kin(const delta_problem_t *problem, uint32_t tensor) {
  return problem->tensors[tensor].next_kin > 0 ? problem->tensors[tensor].next_kin - 1 : tensor;
}

// What a copy takes of its lane, as bytes at the lane's bandwidth: those it copies, and those that could be copied while it starts.
static inline double delta_problem_offload_bytes(const delta_problem_t *problem, size_t size_bytes) {
  return (double)size_bytes + problem->offload_start_seconds * problem->offload_bytes_per_second;
}
static inline double delta_problem_prefetch_bytes(const delta_problem_t *problem, size_t size_bytes) {
  return (double)size_bytes + problem->prefetch_start_seconds * problem->prefetch_bytes_per_second;
}

// How long a copy takes when nothing is shared; INFINITY where the problem has no such lane.
static inline double delta_problem_offload_seconds(const delta_problem_t *problem, size_t size_bytes) {
  const double rate = problem->offload_bytes_per_second;
  return rate > 0 ? delta_problem_offload_bytes(problem, size_bytes) / rate : INFINITY;
}
static inline double delta_problem_prefetch_seconds(const delta_problem_t *problem, size_t size_bytes) {
  const double rate = problem->prefetch_bytes_per_second;
  return rate > 0 ? delta_problem_prefetch_bytes(problem, size_bytes) / rate : INFINITY;
}

// How long compute is held up while a tensor is copied below and back, by a problem that has both lanes.
static inline double delta_problem_drag_seconds(const delta_problem_t *problem, size_t size_bytes) {
  const double start_seconds =
      problem->offload_start_drag * problem->offload_start_seconds + problem->prefetch_start_drag * problem->prefetch_start_seconds;
  return start_seconds + problem->offload_drag * (double)size_bytes / problem->offload_bytes_per_second +
         problem->prefetch_drag * (double)size_bytes / problem->prefetch_bytes_per_second;
}

// Bytes that the budget counts for `data_bytes` of data: a multiple of the alignment, and one unit for data of no bytes, so that every buffer has
// an address of its own. False on overflow.
bool delta_problem_buffer_bytes(size_t data_bytes, size_t alignment_bytes, size_t *out_size_bytes);

// Whether values of the tensor lie in the state area: a state, or a state's new value, whose home is not below. Such tensors have no buffers.
static inline bool delta_problem_tensor_is_state(const delta_problem_tensor_t *tensor) {
  const bool is_state = (tensor->flags & DELTA_TENSOR_STATE) || tensor->becomes_state != DELTA_PROBLEM_NONE;
  return is_state && !(tensor->flags & DELTA_TENSOR_BELOW);
}

// Gives a state its home: in the tier below at home_offset_bytes, or in the state area. `home_bytes` of the problem is the caller's.
void delta_problem_set_home(delta_problem_t *problem, uint32_t state, bool is_below, size_t home_offset_bytes);

// What all steps take that run once, one after another.
double delta_problem_work_seconds(const delta_problem_t *problem);

// A problem whose states may have other homes: its tensors are its own, in the region, and all else is that of `problem`, which outlives it. It is not freed but with the region.
DELTA_MUST_USE delta_status_t delta_problem_with_own_homes(const delta_problem_t *problem, delta_region_t *region,
                                                           delta_problem_t **out_problem);

// Cost of running one graph node, from select.
typedef struct delta_node_cost {
  double seconds;
  size_t workspace_bytes;
  bool works_in_row; // its kernel can do what DELTA_STEP_IN_ROW says
} delta_node_cost_t;

struct delta_graph;
typedef struct delta_problem_graph_options {
  const delta_node_cost_t *costs; // one per node
  size_t alignment_bytes;         // 64 on a CPU
  bool inplace;                   // offer in-place pairs
  bool in_row;                    // and rows, where the kernel of a node works in one
} delta_problem_graph_options_t;
// Makes the problem of a graph, whose costs are finite and not negative: views vanish into storages (tensor_of_storage[i] for graph tensor i: the problem tensor that holds its bytes, or DELTA_PROBLEM_NONE; the
// list has one entry per graph tensor and lives in the problem's region). State tensors carry the states' names. Budget unlimited, bandwidths 0.
DELTA_MUST_USE delta_status_t delta_problem_from_graph(const struct delta_graph *graph, const delta_problem_graph_options_t *options,
                                                       delta_allocator_t allocator, delta_problem_t **out_problem,
                                                       const uint32_t **out_tensor_of_storage);

#endif // DELTA_PLANS_PROBLEM_H_
