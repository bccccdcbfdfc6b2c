// What the files of the session share: session.c opens and closes, session_programs.c builds programs, session_inputs.c feeds them,
// session_run.c runs them, session_states.c reads and writes states and outputs, session_parameters.c many states at once, session_host.c is between the host and what stands in
// the arena.
#ifndef DELTA_RUNTIME_SESSION_PARTS_H_
#define DELTA_RUNTIME_SESSION_PARTS_H_

#include <pthread.h>
#include <stdatomic.h>

#include <delta/session.h>

#include "plans/plan.h"
#include "plans/view.h"
#include "runtime/events.h"
#include "runtime/executor.h"
#include "runtime/pressure.h"
#include "runtime/program.h"
#include "runtime/replan.h"
#include "runtime/tally.h"

// A schedule that a program follows in place of its plan's (session_reflex.c).
typedef struct delta_amended {
  delta_schedule_t *schedule; // Owned; NULL: the plan's is followed
  delta_executor_t *executor; // Owned.
  // What it was made for:
  const delta_schedule_t *of;
  uint64_t capacity_bytes;
  double offload_speed, prefetch_speed;
} delta_amended_t;

// A program ready to run.
typedef struct delta_live_program {
  delta_program_parts_t parts;
  delta_dim_binding_t *dims;      // Owned; sizes of the dimensions that the plan names, in its order; NULL: the plan's
  delta_input_info_t *inputs;     // Owned; by graph input
  void *staging;                  // Owned; inputs that a caller fills and the host cannot address; NULL until one does
  delta_schedule_t *own_schedule; // Owned; NULL when the plan's is used.
  const delta_schedule_t *schedule;
  delta_executor_t *executor; // Owned.
  delta_executor_t *ran;      // Borrowed: that of the last run, where its outputs stand; NULL: none
  delta_amended_t amended;    // followed by the last run from amid a step on
  delta_amended_t bridge;     // followed from the first step on, until there is a new plan
  delta_tally_t *tally;       // Borrowed from the session; NULL: not wanted
  delta_step_times_t *times;  // Owned; by schedule step, of the last run, on the clock; NULL: not wanted
  uint64_t last_use;          // by the session's count of uses
} delta_live_program_t;

// What a program wants to find again in a checkpoint.
typedef struct delta_property {
  char *name, *value; // Owned.
} delta_property_t;

// What the lanes do, over a window of runs of the first program.
typedef struct delta_watch {
  uint32_t runs;
  double offload_bytes, prefetch_bytes;
  double offload_seconds, prefetch_seconds; // in which they were copied
  double wait_seconds, busy_seconds;        // of compute
  double offload_speed, prefetch_speed;     // bytes a second, to plan with from now on; 0: as the plan had it
  bool wants_plan;                          // with these
} delta_watch_t;

// What decides within steps.
typedef struct delta_reflex {
  bool is_off;                      // nothing is decided within a step (tests, benchmarks)
  pthread_mutex_t mutex;            // of what may be asked for while a program runs
  bool is_running;                  // a program; under the mutex
  uint64_t user_bytes, limit_bytes; // what the user asked for, what the system gives; under the mutex
  uint64_t asked_bytes;             // of the two the smaller, while a program runs; under the mutex
  atomic_bool has_ask;
  double offload_speed, prefetch_speed; // of copies that were late; 0: none were since there is this plan
  uint32_t skipped, skips;              // operators since the clock was read, and how many it is to be
  double clock_seconds;                 // when it was read last
} delta_reflex_t;

// What operators of the first program take (session_pace.c).
typedef struct delta_pace {
  uint32_t runs, window_runs;       // all; those of the window at hand
  const delta_schedule_t *schedule; // that the lists are for
  double *step_seconds;             // Owned; by schedule step: of the run at hand
  double *least_seconds;            // Owned; by problem step: the least of the window
  double *corrected_seconds;        // Owned; by problem step: to plan with from now on; NULL: the problem's
  bool is_told;                     // that operators are slow, and that no plan can help
} delta_pace_t;

struct delta_session {
  delta_allocator_t allocator;
  delta_session_options_t options;
  const delta_plan_t *plan;   // Borrowed: the options' or own_plan.
  delta_plan_t *own_plan;     // Owned; NULL while the options' plan is followed.
  delta_model_t *model;       // Owned.
  delta_device_t *device;     // Owned.
  delta_profiler_t *profiler; // Owned; costs for plans that are made here; NULL: none
  delta_arena_t *arena;       // Owned.
  delta_tier_t *tier;         // Owned; NULL until a program swaps.
  delta_lanes_t *lanes;       // Owned; NULL until a program swaps, and where copies run in line.
  void *host_buffer;          // Owned; see session_host.c
  size_t host_buffer_bytes;
  size_t state_bytes;
  uint64_t reserve_bytes;                         // of the arena's address range
  uint64_t committed_bytes, peak_committed_bytes; // now; the most in the run at hand
  delta_reflex_t reflex;
  delta_pressure_t pressure;
  uint64_t budget_bytes;
  uint64_t wanted_budget_bytes; // what was asked for since the last step; budget_bytes: nothing
  delta_replan_t *replan;       // Owned; a plan that is being made
  uint64_t replan_budget_bytes; // for this budget
  delta_build_options_t build;
  delta_tally_t tally;                          // of all steps, when they are timed
  DELTA_ARRAY(delta_live_program_t *) programs; // Owned.
  delta_watch_t watch;
  bool avoids_tier;               // which does not take copies any more: plans are made without it
  uint64_t refused_retreat_bytes; // the budget that no plan without the tier fits; 0: none was tried
  atomic_bool cancels;            // asked for, perhaps by another thread, and not followed yet
  delta_pace_t pace;
  uint64_t use_count;    // of programs
  delta_events_t events; // the first reported_events have been reported
  size_t reported_events;
  DELTA_ARRAY(delta_property_t) properties;
  delta_live_program_t *evaluated; // the program whose outputs can be read; NULL for none
};

// session.c: as delta_session_create, on a device that was opened by the caller and belongs to the session from now on, also when this fails.
DELTA_MUST_USE delta_status_t delta_session_create_on(const delta_session_options_t *options, delta_device_t *device,
                                                      delta_allocator_t allocator, delta_session_t **out_session);

// session_programs.c
DELTA_MUST_USE delta_status_t delta_session_make_planned(delta_session_t *session); // all programs that the plan has
// The program of a kind for a batch's rows and dimensions; planned and made if the plan has none.
DELTA_MUST_USE delta_status_t delta_session_find_program(delta_session_t *session, delta_program_kind_t kind, const delta_batch_t *batch,
                                                         delta_live_program_t **out_program);
// Room below the arena, which is made when it is first needed.
DELTA_MUST_USE delta_status_t delta_session_reserve_tier(delta_session_t *session, uint64_t size_bytes);
// Room for the times of a schedule's steps; NULL where they are not wanted.
DELTA_MUST_USE delta_status_t delta_session_allocate_times(delta_session_t *session, const delta_schedule_t *schedule,
                                                           delta_step_times_t **out_times);
// An executor of a program by a plan's schedule, which has been verified. The program's own, if it has one, gives its kernels.
DELTA_MUST_USE delta_status_t delta_session_create_executor(delta_session_t *session, const delta_live_program_t *program,
                                                            const delta_plan_t *plan, const delta_schedule_t *schedule,
                                                            delta_executor_t **out_executor);
void delta_session_free_program(delta_session_t *session, delta_live_program_t *program); // NULL is fine.

// session_reflex.c: runs a program, and changes what has not run of it where the plan does not hold.
DELTA_MUST_USE delta_status_t delta_session_execute(delta_session_t *session, delta_live_program_t *program,
                                                    const delta_run_options_t *options, delta_run_result_t *out_result);
// Commits what the program's planned schedule needs, its inputs among it: a step before may have given bytes back.
DELTA_MUST_USE delta_status_t delta_session_commit_planned(delta_session_t *session, const delta_live_program_t *program);
// Drops all changed schedules of a program; before its executor goes, whose kernels they borrow.
void delta_session_drop_changes(delta_live_program_t *program);

// session_budget.c: takes the budget that was asked for while a program runs. False: none was.
bool delta_session_take_ask(delta_session_t *session);
// Asks for another budget on behalf of the system, as delta_session_set_budget on behalf of the user. The smaller of the two counts.
void delta_session_limit_budget(delta_session_t *session, uint64_t limit_bytes);
// Nothing may be asked for directly from here on, and may again.
void delta_session_begin_run(delta_session_t *session);
void delta_session_end_run(delta_session_t *session);
// plans the programs for the session's budget before they have executors or the states values;
DELTA_MUST_USE delta_status_t delta_session_plan_again(delta_session_t *session);
// follows what was asked for between two steps. An error leaves the session without states: it cannot go on.
DELTA_MUST_USE delta_status_t delta_session_adapt(delta_session_t *session);
void delta_session_stop_planning(delta_session_t *session);
// Makes a plan for the budget at hand and follows it, while the caller waits. Errors as of delta_session_adapt; those of making it change nothing.
DELTA_MUST_USE delta_status_t delta_session_replan_now(delta_session_t *session, bool *out_adopted);
// The same for a plan that leaves program_bytes beside the states, which go below for it. *out_made: more is left now, if not all of it.
DELTA_MUST_USE delta_status_t delta_session_make_room(delta_session_t *session, uint64_t program_bytes, bool *out_made);

// session_retreat.c: what becomes of a training whose tier does not take copies any more.
// A run failed with a copy to the tier, `failure`, which is consumed. OK: it is to be made again, by a plan without the tier.
DELTA_MUST_USE delta_status_t delta_session_retreat(delta_session_t *session, const delta_run_result_t *result, delta_status_t failure);
// A run came to its end though copies failed.
DELTA_MUST_USE delta_status_t delta_session_consider_retreat(delta_session_t *session, const delta_run_result_t *result);

// session_pressure.c: looks at what the system can give, every now and then. True: a budget has been asked for, by whomever, and is to be taken.
bool delta_session_look_around(delta_session_t *session);

// session_watch.c: looks at what a run took, and asks for a plan where copies are not what was planned with;
void delta_session_watch(delta_session_t *session, const delta_live_program_t *program, const delta_run_result_t *result);
// begins a window anew.
void delta_session_restart_watch(delta_session_t *session);

// session_pace.c: makes room for the times of the first program's steps, before it runs by another plan;
void delta_session_prepare_pace(delta_session_t *session);
// where the times of steps are to be put in the next run; NULL: it is not looked at;
double *delta_session_begin_pace(delta_session_t *session, const delta_live_program_t *program);
// looks at what the operators took, and asks for a plan where that is not what was planned with.
void delta_session_end_pace(delta_session_t *session, const delta_live_program_t *program, const delta_run_result_t *result);
void delta_session_free_pace(delta_session_t *session);
// Whether a plan that knew better could be faster: one that keeps everything cannot.
bool delta_plan_releases_anything(const delta_plan_t *plan);

// session_moves.c: states on their way from one plan's places to another's.
typedef struct delta_state_move {
  const delta_plan_t *from, *to;
  uint64_t moved_bytes; // 0: no place changes
  bool is_in_arena;     // where they are meanwhile: in the arena, or in the tier
  uint64_t spare_bytes; // from there on
  void *piece;          // Owned.
} delta_state_move_t;
// Copies what moves from its place in the session's plan to spare bytes: nothing has changed yet.
DELTA_MUST_USE delta_status_t delta_session_lift_states(delta_session_t *session, const delta_plan_t *to, delta_state_move_t *out_move);
// Copies it to its new place, which may be another's old one.
DELTA_MUST_USE delta_status_t delta_session_drop_states(delta_session_t *session, const delta_state_move_t *move);
// After a drop that has failed on its way: copies everything to its old place again.
DELTA_MUST_USE delta_status_t delta_session_put_back_states(delta_session_t *session, const delta_state_move_t *move);
void delta_session_end_move(delta_session_t *session, delta_state_move_t *move);

// session_host.c
// Bytes of the host, at least so many, until the next of these calls; returning them frees them.
DELTA_MUST_USE delta_status_t delta_session_borrow(delta_session_t *session, size_t size_bytes, void **out_buffer);
void delta_session_return(delta_session_t *session);
// What stands at an address of the arena, where the host can read it, until the next of these calls.
DELTA_MUST_USE delta_status_t delta_session_view(delta_session_t *session, const void *address, size_t size_bytes, const void **out_data);
// One element at an address of the arena.
DELTA_MUST_USE delta_status_t delta_session_load_double(delta_session_t *session, const void *address, delta_dtype_t dtype,
                                                        double *out_value);
DELTA_MUST_USE delta_status_t delta_session_load_int64(delta_session_t *session, const void *address, delta_dtype_t dtype,
                                                       int64_t *out_value);
DELTA_MUST_USE delta_status_t delta_session_store_double(delta_session_t *session, void *address, delta_dtype_t dtype, double value);
DELTA_MUST_USE delta_status_t delta_session_store_int64(delta_session_t *session, void *address, delta_dtype_t dtype, int64_t value);

// session_inputs.c: describes a program's inputs, once;
DELTA_MUST_USE delta_status_t delta_session_describe_inputs(delta_session_t *session, delta_live_program_t *program);
// writes the caller's samples, the seed and the learning rate where the program reads them; ranges of integers are checked.
DELTA_MUST_USE delta_status_t delta_session_feed(delta_session_t *session, delta_live_program_t *program, const delta_batch_t *batch,
                                                 double learning_rate);

// session_properties.c
void delta_session_free_properties(delta_session_t *session);

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
// Gives every state its first value: from the model's file, or, where the plan says so, drawn.
DELTA_MUST_USE delta_status_t delta_session_initialize_states(delta_session_t *session);
// The counters of updates and of random draws; 0, and not written, where the programs have none. A step that stopped is undone by them.
typedef struct delta_counters {
  int64_t step, draw;
} delta_counters_t;
DELTA_MUST_USE delta_status_t delta_session_get_counters(delta_session_t *session, delta_counters_t *out_counters);
DELTA_MUST_USE delta_status_t delta_session_set_counters(delta_session_t *session, delta_counters_t counters);
uint32_t delta_session_find_output(const delta_graph_t *graph, const char *name); // index in graph->outputs, or DELTA_INDEX_NONE

#endif // DELTA_RUNTIME_SESSION_PARTS_H_
