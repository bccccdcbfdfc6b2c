// Executor: runs one program of a plan on a device, step by step, in a planned arena. The calling thread computes; copies run beside it on lanes, in any order that
// the plan's waits allow. On a device with queues the thread puts all of it into them and waits for the end; from the second run on it is one recording that is replayed.
// Addresses are resolved once, when it is made; nothing is allocated while it runs.
#ifndef DELTA_RUNTIME_EXECUTOR_H_
#define DELTA_RUNTIME_EXECUTOR_H_

#include <stdatomic.h>

#include "plans/plan.h"
#include "runtime/device.h"
#include "runtime/lanes.h"
#include "runtime/select.h"
#include "runtime/tier.h"

typedef struct delta_executor delta_executor_t;

// What happens at each step, for traces, profiles and tests. Copies that ran on lanes, and all steps of devices with queues, are told of when the run has ended.
typedef struct delta_step_event {
  uint32_t step; // of the schedule
  const delta_schedule_step_t *schedule_step;
  const delta_node_t *node;          // RUN
  double start_seconds, end_seconds; // on a monotonic clock
} delta_step_event_t;

typedef struct delta_executor_options {
  delta_device_t *device; // Borrowed, as all pointers here; they outlive the executor.
  const delta_graph_t *graph;
  const delta_problem_t *problem;
  const uint32_t *tensor_of_storage; // of delta_problem_from_graph
  const delta_selection_t *selection;
  const delta_schedule_t *schedule; // verified
  const delta_plan_t *plan;         // for the places of states
  delta_arena_t *arena;
  size_t state_bytes;            // where the program's own bytes begin in the arena
  delta_tier_t *tier;            // with room for the schedule's host bytes; NULL when there are none
  delta_lanes_t *lanes;          // where copies run; NULL: on the calling thread, between the steps that compute. Of devices without queues
  bool copies_in_line;           // on devices with queues: copies go into the queue of compute
  double patience_seconds;       // of lanes
  delta_executor_t *predecessor; // of the same graph: lends its kernels, and outlives this one or delta_executor_take_kernels; NULL: none
  bool audits;                   // an auditor looks at every step (runtime/auditor.h)
  // Fill bytes with a pattern before a step first writes them and after the last reads them (tests). A device with queues then waits for each step, as it does for audits.
  bool poison;
  void (*on_step)(void *self, const delta_step_event_t *event); // NULL for none
  void *self;
} delta_executor_options_t;

// Prepares the kernels of all steps, and where each finds its buffers. MISMATCH when the plan has no place for a state or an output of the graph.
DELTA_MUST_USE delta_status_t delta_executor_create(const delta_executor_options_t *options, delta_allocator_t allocator,
                                                    delta_executor_t **out_executor);
void delta_executor_destroy(delta_executor_t *executor); // NULL is fine.
// Makes the predecessor's kernels its own; all that is left to do with that one is to destroy it.
void delta_executor_take_kernels(delta_executor_t *executor);

// Where input `index` (of graph->inputs) is to be written before a run.
void *delta_executor_input(delta_executor_t *executor, uint32_t index);
// Where output `index` (of graph->outputs) stands after a run, until the next one.
const void *delta_executor_output(const delta_executor_t *executor, uint32_t index);

typedef struct delta_run_options {
  // Stops before the next step once one of these outputs (float scalars) has been computed and is not finite; DELTA_INDEX_NONE: none. A device with queues has run all
  // steps by then.
  uint32_t finite_outputs[2];
  // Look at every float result; stop at the first with NaN or +infinity. -infinity alone is how masks are written.
  bool check_values;
  // Stops before the next step once this is true, unless a state has been changed: a run changes all states or none. NULL: never.
  const atomic_bool *cancels;
  // Committed for the program's own bytes, in which a tensor that cannot be copied below may be kept; 0: it is not.
  uint64_t arena_bytes;
  delta_run_point_t from; // what has run already, by this executor or by one whose schedule began with the same steps
  // A run pauses: before a step that computes, from this step of the schedule on, when all copies before it have ended (0: never); when `wants_pause` says so, which is
  // asked before each step that computes (NULL: never); when a copy has been waited for so long (0: never).
  uint32_t pause_step;
  bool (*wants_pause)(void *self);
  void *self; // Borrowed.
  double late_seconds;
  double *step_seconds; // by step of the schedule: receives what each step that computes took; NULL: not wanted
} delta_run_options_t;

typedef struct delta_run_result {
  bool is_paused, is_late; // for one of the options' reasons; late: for the last
  bool has_failed_copy;    // the status is a copy's
  bool was_changed;        // the steps were not all the plan's
  delta_run_point_t point; // how far a run came that paused, or whose copy failed
  bool stopped;            // at `step`, by one of the checks
  bool cancelled;          // before `step`
  uint32_t step;
  const char *node_name;                      // of that step
  uint32_t output;                            // of finite_outputs, when it was that one; else DELTA_INDEX_NONE
  bool ran_all;                               // it was looked at after the last step
  uint32_t updates_done;                      // states already changed when it stopped, counters aside
  bool failed_below;                          // a copy to the tier below failed, and was not kept
  uint32_t kept_tensors;                      // that could not be copied below and are kept
  delta_status_t why_kept;                    // Borrowed until the next run; of the first
  delta_lane_times_t lanes[DELTA_LANE_COUNT]; // copies that run between steps count as waiting compute
} delta_run_result_t;

// Whether a tensor of a float type has a NaN or +infinity.
bool delta_has_bad_value(const void *data, delta_dtype_t dtype, const delta_shape_t *shape);
// The same, and -infinity is bad too: for what is fed, and for what is trained.
bool delta_has_infinite_value(const void *data, delta_dtype_t dtype, const delta_shape_t *shape);

// Runs the schedule on inputs that have been written, from where the options say. IO names the step and the tensor of a copy that failed, MISMATCH what the auditor has found;
// whatever it returns, *out_result says how far it came. On the calling thread, one run at a time.
DELTA_MUST_USE delta_status_t delta_executor_run(delta_executor_t *executor, const delta_run_options_t *options,
                                                 delta_run_result_t *out_result);

// ---- Of a run that paused, or whose copy failed: what whoever goes on with another schedule has to know.

// By step of the schedule: whether it has ended; whether it is a copy that failed.
void delta_executor_list_ended(const delta_executor_t *executor, const delta_run_point_t *point, bool *has_run, bool *has_failed);
// What was kept in free bytes; borrowed, as it is until the next run.
const delta_keeper_t *delta_executor_keeper(const delta_executor_t *executor);
// Takes over what another keeps: `steps` says for each step of its schedule which of this one's it is, or DELTA_PROBLEM_NONE.
void delta_executor_adopt_kept(delta_executor_t *executor, const delta_keeper_t *from, const uint32_t *steps);

#endif // DELTA_RUNTIME_EXECUTOR_H_
