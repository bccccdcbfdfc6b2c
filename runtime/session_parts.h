// What the files of the session share: session.c opens and closes, session_programs.c builds programs, session_inputs.c feeds them,
// session_run.c runs them, session_states.c reads and writes states and outputs.
#ifndef DELTA_RUNTIME_SESSION_PARTS_H_
#define DELTA_RUNTIME_SESSION_PARTS_H_

#include <delta/session.h>

#include "plans/plan.h"
#include "plans/view.h"
#include "runtime/executor.h"
#include "runtime/program.h"
#include "runtime/tally.h"

// A program ready to run.
typedef struct delta_live_program {
  delta_program_parts_t parts;
  delta_input_info_t *inputs;     // Owned; by graph input
  delta_schedule_t *own_schedule; // Owned; NULL when the plan's is used.
  const delta_schedule_t *schedule;
  delta_executor_t *executor; // Owned.
  delta_tally_t *tally;       // Borrowed from the session; NULL: not wanted
  delta_step_times_t *times;  // Owned; by schedule step, of the last run, on the clock; NULL: not wanted
} delta_live_program_t;

struct delta_session {
  delta_allocator_t allocator;
  delta_session_options_t options;
  const delta_plan_t *plan; // Borrowed.
  delta_model_t *model;     // Owned.
  delta_device_t *device;   // Owned.
  delta_arena_t *arena;     // Owned.
  delta_tier_t *tier;       // Owned; NULL until a program swaps.
  size_t state_bytes;
  uint64_t committed_bytes;
  uint64_t budget_bytes;
  delta_build_options_t build;
  delta_tally_t tally;                          // of all steps, when they are timed
  DELTA_ARRAY(delta_live_program_t *) programs; // Owned.
  delta_live_program_t *evaluated;              // the program whose outputs can be read; NULL for none
};

// session_programs.c
DELTA_MUST_USE delta_status_t delta_session_make_planned(delta_session_t *session); // all programs that the plan has
// The program of a kind for `rows` samples; planned and made if the plan has none.
DELTA_MUST_USE delta_status_t delta_session_find_program(delta_session_t *session, delta_program_kind_t kind, int64_t rows,
                                                         delta_live_program_t **out_program);
void delta_session_free_program(delta_session_t *session, delta_live_program_t *program); // NULL is fine.

// session_inputs.c: describes a program's inputs, once;
DELTA_MUST_USE delta_status_t delta_session_describe_inputs(delta_session_t *session, delta_live_program_t *program);
// writes the caller's samples, the seed and the learning rate where the program reads them; ranges of integers are checked.
DELTA_MUST_USE delta_status_t delta_session_feed(delta_session_t *session, delta_live_program_t *program, const delta_batch_t *batch,
                                                 double learning_rate);

// session_states.c
// Whether a state has a value that is not finite. In one that is not trained, and may be a mask, -infinity is none.
DELTA_MUST_USE delta_status_t delta_session_is_state_bad(delta_session_t *session, uint32_t index, bool *out_bad);
// What training has made of the states must be numbers. NOT_A_NUMBER names the first that is not.
DELTA_MUST_USE delta_status_t delta_session_check_trained(delta_session_t *session);
// Bytes of state number `index`, from an offset that is a multiple of DELTA_HOST_BLOCK_BYTES.
DELTA_MUST_USE delta_status_t delta_session_read_piece(delta_session_t *session, uint32_t index, size_t offset_bytes, void *buffer,
                                                       size_t size_bytes);
DELTA_MUST_USE delta_status_t delta_session_write_piece(delta_session_t *session, uint32_t index, size_t offset_bytes, const void *buffer,
                                                        size_t size_bytes);
DELTA_MUST_USE delta_status_t delta_session_initialize_states(delta_session_t *session);
// The counters of updates and of random draws; 0, and not written, where the programs have none. A step that stopped is undone by them.
typedef struct delta_counters {
  int64_t step, draw;
} delta_counters_t;
delta_counters_t delta_session_get_counters(const delta_session_t *session);
void delta_session_set_counters(delta_session_t *session, delta_counters_t counters);
uint32_t delta_session_find_output(const delta_graph_t *graph, const char *name); // index in graph->outputs, or DELTA_INDEX_NONE

#endif // DELTA_RUNTIME_SESSION_PARTS_H_
