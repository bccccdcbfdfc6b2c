// Plan: programs over one state area, and what is needed to build and check them again. Written as JSON (docs/plan-format.md); untrusted when read.
// Loading, saving and freeing one is in the public header.
#ifndef DELTA_PLANS_PLAN_H_
#define DELTA_PLANS_PLAN_H_

#include <delta/plan.h>

#include "base/text.h"
#include "onnx/build.h"
#include "plans/float_math.h"
#include "plans/report.h"
#include "plans/schedule.h"

enum { DELTA_PLAN_VERSION = 2 };

// A state's place in the state area, by name.
typedef struct delta_plan_state {
  const char *name;
  delta_state_kind_t kind;
  delta_dtype_t dtype;
  delta_shape_t shape;
  size_t offset_bytes;      // from the start of the arena; the state area comes first. Of one that lies below: where the state before ends
  size_t size_bytes;        // aligned
  bool is_below;            // its home is the tier below, and it has no bytes of the state area
  size_t home_offset_bytes; // in the tier below, a multiple of DELTA_HOST_BLOCK_BYTES
} delta_plan_state_t;

// Bytes of its value; size_bytes has what is padded behind it, too.
static inline size_t delta_plan_state_content_bytes(const delta_plan_state_t *state) {
  return (size_t)delta_shape_count(&state->shape) * delta_dtype_bytes(state->dtype);
}

typedef struct delta_plan_program {
  delta_program_kind_t kind;
  int64_t batch;           // 0 for APPLY
  char graph_hash[65];     // of the graph it was planned for
  delta_layout_t *layouts; // of each region of the graph, as chosen when the plan was made; in the plan's region
  uint32_t layout_count;
  const char *
      *kernels; // of each step of the problem, that is of each node that runs, as chosen when the plan was made; in the plan's region
  uint32_t kernel_count;
  delta_schedule_t *schedule; // Owned. Offsets count from the end of the state area.
  // For reports and traces; not in the file, and NULL where nobody asked for them (plans/plan_show.h).
  delta_problem_t *problem;     // Owned.
  const char *const *types;     // by problem tensor
  const char *const *operators; // by problem step
} delta_plan_program_t;

// Everything that the arithmetic depends on, as chosen before the budget: hashed into numerics_id.
typedef struct delta_plan_numerics {
  const char *device; // "cpu"
  int32_t threads;
  delta_float_math_t math; // never UNSAID once the plan is made
  const char *instruction_set;
  const char *libraries; // "onednn 2.6.3"
  char id[17];           // numerics_id: 16 hexadecimal digits
} delta_plan_numerics_t;

typedef struct delta_plan_totals {
  uint64_t node_count; // of the train program's graph
  uint64_t trainable_parameters, trainable_tensors;
  uint64_t budget_bytes;      // UINT64_MAX: unlimited
  uint64_t host_budget_bytes; // below the arena; UINT64_MAX: unlimited
  uint64_t arena_bytes;       // states and the largest program, rounded up to the device's granule
  uint64_t peak_bytes;        // of the train program: states and the largest sum of live buffers
  uint64_t state_bytes;
  uint64_t unlimited_peak_bytes, eager_peak_bytes, minimum_budget_bytes;
  double step_seconds, unlimited_step_seconds, lower_bound_seconds, planning_seconds, profiling_seconds;
  uint64_t memory_bytes[DELTA_CLASS_COUNT]; // of the train program, at its peak
} delta_plan_totals_t;

struct delta_plan {
  delta_allocator_t allocator;
  delta_region_t region;  // Owns strings and lists.
  const char *model_file; // file name without folder: looked for beside the plan
  char model_sha256[65];
  const char *policy;
  delta_build_options_t build; // strings owned; `import.batch` is --batch, or 0; log is empty
  uint32_t levers;             // those of build.import
  double learning_rate;        // the default rate of a run
  int64_t accumulate;          // micro-steps per update; 1: plain training
  bool init_random;            // weights whose external data is missing are drawn, by this seed
  uint64_t init_seed;
  delta_plan_numerics_t numerics;
  delta_plan_state_t *states;
  uint32_t state_count;
  delta_plan_program_t *programs;
  uint32_t program_count;
  delta_plan_totals_t totals;
  // Of a plan just made; not in the file:
  delta_input_info_t *inputs;
  uint32_t input_count;
  const char *seed_policy;      // static, or NULL: the policy whose plan the search began with
  bool seed_is_plan;            // and ended with
  delta_budget_point_t *points; // other budgets that were tried, for a report; not in the file
  uint32_t point_count;
};

// What a state is in reports of memory.
delta_tensor_class_t delta_class_of_state(delta_state_kind_t kind);

DELTA_MUST_USE delta_status_t delta_plan_create_empty(delta_allocator_t allocator, delta_plan_t **out_plan); // empty, budget unlimited

// Text of a plan; UNSUPPORTED for numbers of 2^53 and more, NaN and infinity. Equal plans give equal bytes, and read(write(plan)) writes the same bytes again.
DELTA_MUST_USE delta_status_t delta_plan_to_json(const delta_plan_t *plan, delta_text_t *out_text);
// Reads and checks everything that can be checked without the model: ranges, indices, orders of lists. MALFORMED names the place in the file.
DELTA_MUST_USE delta_status_t delta_plan_from_json(const char *text, size_t size_bytes, const char *name, delta_allocator_t allocator,
                                                   delta_plan_t **out_plan);

// Samples of a full batch: the rows of the first program. (build.import.batch is 0 where the model fixes its dimensions itself.)
int64_t delta_plan_rows(const delta_plan_t *plan);
// The program of a kind and batch, or NULL.
const delta_plan_program_t *delta_plan_find_program(const delta_plan_t *plan, delta_program_kind_t kind, int64_t batch);

// Gives the states homes: is_below[i] says whether state i lies in the tier below. Sets their places and totals.state_bytes.
void delta_plan_set_homes(delta_plan_t *plan, const bool *is_below);
// Bytes of the tier below that are homes.
uint64_t delta_plan_home_bytes(const delta_plan_t *plan);
// Tells a program's problem which of its states lie below, and where, and how much room there is.
DELTA_MUST_USE delta_status_t delta_plan_apply_homes(const delta_plan_t *plan, delta_problem_t *problem);

// Lays out the state area: states of `graph` not yet in the plan are appended (aligned), known ones are compared (MISMATCH names the state).
// Sets totals.state_bytes.
DELTA_MUST_USE delta_status_t delta_plan_place_states(delta_plan_t *plan, const delta_graph_t *graph, size_t alignment_bytes);

// Whether every state of the plan lies where delta_plan_place_states and delta_plan_set_homes put it, for a device of this alignment. MISMATCH names the
// first that does not.
DELTA_MUST_USE delta_status_t delta_plan_check_places(const delta_plan_t *plan, size_t alignment_bytes);

// Whether the plan has every state of `graph`, of the same kind, type and shape. MISMATCH names the first that it has not.
DELTA_MUST_USE delta_status_t delta_plan_check_states(const delta_plan_t *plan, const delta_graph_t *graph);

#endif // DELTA_PLANS_PLAN_H_
