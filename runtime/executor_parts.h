// What the files of the executor share: executor.c prepares a program, executor_run.c runs it, executor_queues.c on devices that have queues, executor_check.c looks at
// results.
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

// The marks (device.h) around a step on a device with queues; DELTA_INDEX_NONE: none.
typedef struct delta_step_marks {
  uint32_t waits, begin, end; // before its waits, before and after its work
} delta_step_marks_t;

// What a program needs on a device with queues.
typedef struct delta_executor_queues {
  bool *is_awaited;          // by step: another lane waits for it
  delta_step_marks_t *marks; // by step
  uint32_t mark_count;
  uint32_t runs;                // that were put into the queues step by step
  delta_recording_t *recording; // Owned; NULL: none yet
  uint32_t recorded_resizes;    // of the tier
  bool refuses_recording;
} delta_executor_queues_t;

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
  delta_executor_queues_t queues;
  void *values; // Owned; a result that the host cannot address, for checks; NULL until one is looked at
  size_t values_bytes;
};

enum { DELTA_POISON_BYTE = 0xFF }; // a quiet NaN in every float type

// executor_check.c: looks at what a step has computed, when it has ended. Where a value must not be, the result says that the run stopped, at which step and output; otherwise
// a step that writes a state other than a counter is counted as an update.
DELTA_MUST_USE delta_status_t delta_executor_check_step(delta_executor_t *executor, const delta_run_options_t *options, uint32_t index,
                                                        delta_run_result_t *result);
// The same for the outputs that must be finite, and all steps, after a run.
DELTA_MUST_USE delta_status_t delta_executor_check_end(delta_executor_t *executor, const delta_run_options_t *options,
                                                       delta_run_result_t *result);

// executor_run.c
DELTA_MUST_USE delta_status_t delta_executor_launch(delta_executor_t *executor, uint32_t index);
void delta_executor_report_step(const delta_executor_t *executor, uint32_t index, double start_seconds, double end_seconds);

// executor_queues.c: makes what runs need, and runs.
DELTA_MUST_USE delta_status_t delta_executor_prepare_queues(delta_executor_t *executor);
void delta_executor_free_queues(delta_executor_t *executor);
DELTA_MUST_USE delta_status_t delta_executor_run_queues(delta_executor_t *executor, const delta_run_options_t *options,
                                                        delta_run_result_t *result);

#endif // DELTA_RUNTIME_EXECUTOR_PARTS_H_
