// Schedule: the steps of one program with their buffers: which bytes of the arena hold which tensor when, on which lane each step runs, and what it waits for.
// It is the planner's result and the executor's input.
#ifndef DELTA_PLANS_SCHEDULE_H_
#define DELTA_PLANS_SCHEDULE_H_

#include "plans/problem.h"

// Slots in the tier below begin at multiples of this.
enum { DELTA_HOST_BLOCK_BYTES = 4096 };

// X(identifier, name)
#define DELTA_LANES(X) X(COMPUTE, "compute") X(OFFLOAD, "offload") X(PREFETCH, "prefetch")
typedef enum delta_lane {
#define DELTA_LANE_ENUM(id, name) DELTA_LANE_##id,
  DELTA_LANES(DELTA_LANE_ENUM)
#undef DELTA_LANE_ENUM
      DELTA_LANE_COUNT
} delta_lane_t;

// X(identifier, name): RUN a problem step (again, when recomputed); SWAP_OUT buffer -> host slot; SWAP_IN host slot -> buffer.
#define DELTA_STEP_KINDS(X) X(RUN, "run") X(SWAP_OUT, "swap_out") X(SWAP_IN, "swap_in")
typedef enum delta_step_kind {
#define DELTA_STEP_ENUM(id, name) DELTA_STEP_##id,
  DELTA_STEP_KINDS(DELTA_STEP_ENUM)
#undef DELTA_STEP_ENUM
      DELTA_STEP_KIND_COUNT
} delta_step_kind_t;

// One stay of a tensor (or a workspace) in the arena. Live from the first step that writes it to the last that uses it, both included, in schedule order.
typedef struct delta_buffer {
  uint32_t tensor; // problem tensor; DELTA_PROBLEM_NONE for a workspace
  size_t size_bytes;
  size_t offset_bytes;            // in the arena
  uint32_t first_step, last_step; // schedule steps; an INPUT's first_step is 0; an OUTPUT's last_step is the last
  // Buffer whose bytes it takes over at first_step (that buffer's last_step), or DELTA_PROBLEM_NONE. In a row (DELTA_STEP_IN_ROW) all outputs name the first input, and take the
  // bytes of all inputs together; their sizes then differ from the first input's.
  uint32_t inplace_of;
} delta_buffer_t;

// A step's position on its lane's queue is its position in the schedule. `waits` are schedule steps of other lanes that must have ended before it starts.
typedef struct delta_schedule_step {
  delta_step_kind_t kind;
  delta_lane_t lane;
  uint32_t problem_step; // RUN
  uint32_t *inputs;      // buffers, in the problem step's input order (RUN); the one buffer (SWAP_OUT). State tensors: DELTA_PROBLEM_NONE
  uint32_t input_count;
  uint32_t *outputs; // buffers, in output order; the one buffer (SWAP_IN). States and what becomes one: DELTA_PROBLEM_NONE
  uint32_t output_count;
  uint32_t workspace;       // buffer or DELTA_PROBLEM_NONE
  size_t host_offset_bytes; // SWAP_*: where in the tier below
  uint32_t *waits;
  uint32_t wait_count;
  double start_seconds, end_seconds; // as simulated
} delta_schedule_step_t;

// The other thing to do in a gap in which a tensor is copied below and back: it could be made again, which is done when copies turn out to be too slow, or fail.
typedef struct delta_alternative {
  uint32_t before, after; // buffers around the gap
  double rebuild_seconds; // of everything that would run again
} delta_alternative_t;

typedef struct delta_schedule {
  delta_region_t region; // Owns the lists.
  delta_schedule_step_t *steps;
  uint32_t step_count;
  delta_buffer_t *buffers;
  uint32_t buffer_count;
  uint64_t peak_bytes; // largest sum of live buffers at a step, in-place pairs counted once; without the states
  uint32_t peak_step;
  uint64_t arena_bytes; // largest offset + size; without the states; >= peak_bytes
  uint64_t host_bytes;
  double step_seconds; // simulated makespan
  double recompute_seconds, stall_seconds;
  uint64_t swapped_bytes;
  uint32_t swapped_tensors, recomputed_nodes;
  delta_alternative_t *alternatives; // in the order of the copies back; gaps that have none are left out
  uint32_t alternative_count;
} delta_schedule_t;

// Whether a buffer, and with it all outputs of its step, takes over the bytes of all inputs in a row.
static inline bool delta_buffer_is_in_row(const delta_buffer_t *buffers, uint32_t buffer) {
  const uint32_t source = buffers[buffer].inplace_of;
  return source != DELTA_PROBLEM_NONE && buffers[source].size_bytes != buffers[buffer].size_bytes;
}

DELTA_MUST_USE delta_status_t delta_schedule_create(delta_allocator_t allocator, delta_schedule_t **out_schedule);
void delta_schedule_free(delta_schedule_t *schedule); // NULL is fine.
DELTA_MUST_USE delta_status_t delta_schedule_copy(const delta_schedule_t *schedule, delta_allocator_t allocator,
                                                  delta_schedule_t **out_schedule);

// The problem step that is run at the peak, or next when a copy is; DELTA_PROBLEM_NONE in a schedule without runs from there on.
uint32_t delta_schedule_peak_problem_step(const delta_schedule_t *schedule);

// What certainly happens before what, one step after the other: fills ended[s], zeroed before, from those of earlier steps. ended[s][lane] is the number of schedule steps up
// to and including the last of that lane known to have ended before step s starts; 0: none. `last_of_lane` holds, for each lane, its last step before s plus one, and is moved on.
void delta_schedule_order_step(const delta_schedule_t *schedule, uint32_t s, uint32_t last_of_lane[DELTA_LANE_COUNT],
                               uint32_t (*ended)[DELTA_LANE_COUNT]);

// The verifier: proves that running `schedule` computes the problem within `arena_bytes`: buffers inside the arena and never overlapping while both live (but in-place pairs
// the problem allows), every read after its write on its lane or by waits, every problem step run at least once and only pure ones again, states written once and not read
// after, outputs alive at the end, workspaces of the right size, host slots not overlapping while used, sums equal to the stated peak. MALFORMED names step, tensor and fault.
// Always run before execution; linear-logarithmic in the schedule's size. Nothing of the schedule is trusted; the problem must have passed delta_problem_check.
// Lifetimes are exact: a buffer lives from its writer (or the start) to its last user (or the end), so that peak_bytes is what execution needs.
DELTA_MUST_USE delta_status_t delta_schedule_verify(const delta_schedule_t *schedule, const delta_problem_t *problem, uint64_t arena_bytes,
                                                    delta_allocator_t allocator);

#endif // DELTA_PLANS_SCHEDULE_H_
