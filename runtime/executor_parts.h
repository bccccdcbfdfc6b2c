// What the files of the executor share: executor.c prepares a program, executor_run.c runs it.
#ifndef DELTA_RUNTIME_EXECUTOR_PARTS_H_
#define DELTA_RUNTIME_EXECUTOR_PARTS_H_

#include "runtime/auditor.h"
#include "runtime/executor.h"

// One schedule step, ready to launch.
typedef struct delta_prepared_step {
  const delta_node_t *node; // NULL: a copy
  delta_kernel_t *kernel;   // Borrowed from executor->kernels.
  delta_kernel_buffers_t buffers;
  delta_lane_copy_t *copy; // Borrowed from executor->work; NULL: a kernel
} delta_prepared_step_t;

// Bytes without a value before or after a step.
typedef struct delta_void_range {
  uint32_t step;
  void *address;
  size_t size_bytes;
} delta_void_range_t;
typedef DELTA_ARRAY(delta_void_range_t) delta_void_ranges_t;

struct delta_executor {
  delta_executor_options_t options;
  delta_allocator_t allocator;
  delta_region_t region;    // Owns the address lists.
  delta_kernel_t **kernels; // Owned; per graph node.
  delta_prepared_step_t *steps;
  void **inputs;                  // per graph input
  void **outputs;                 // per graph output
  delta_lane_work_t work;         // the copies, by lane
  delta_keeper_t keeper;          // where the host can address the arena
  delta_auditor_t *auditor;       // Owned; NULL: none
  pthread_mutex_t keeper_mutex;   // only with an auditor
  bool overlaps;                  // copies run on lanes of their own
  size_t *state_offsets;          // per problem tensor that is a state or becomes one
  delta_void_ranges_t born, dead; // by step: what it writes first, what it reads last; only when poisoning
};

enum { DELTA_POISON_BYTE = 0xFF }; // a quiet NaN in every float type

#endif // DELTA_RUNTIME_EXECUTOR_PARTS_H_
