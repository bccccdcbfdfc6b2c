// Addresses: packs are tried from the easy to the thorough, and with copies back early and late.
#include "planner/addresses.h"

#include "planner/advance.h"
#include "planner/evaluate.h"
#include "planner/retime.h"
#include "planner/simulate.h"

// A schedule with addresses is slower than the search had it where it is by more than this part.
static const double held_up_part = 1e-5;

// The timed schedule; its copies back come as early as they can, or as late.
static delta_status_t make_timed(const delta_problem_t *problem, const delta_order_t *order, const delta_decisions_t *decisions,
                                 uint64_t capacity_bytes, bool is_late, delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  delta_evaluator_t evaluator;
  delta_evaluation_t evaluation;
  delta_schedule_t *schedule = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_evaluator_init(&evaluator, problem, order, allocator));
  DELTA_GOTO_IF_ERROR(status, delta_evaluator_measure(&evaluator, decisions, capacity_bytes, &evaluation), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_evaluator_time(&evaluator, &evaluation), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_schedule_copy(evaluator.expansion.schedule, allocator, &schedule), cleanup);
  if (is_late) DELTA_GOTO_IF_ERROR(status, delta_delay_copies_back(problem, schedule, allocator), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_retime(problem, schedule, allocator), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_simulate_sums(problem, schedule, allocator), cleanup);
  *out_schedule = schedule;
  schedule = NULL;
cleanup:
  delta_schedule_free(schedule);
  delta_evaluator_deinit(&evaluator);
  return status;
}

delta_status_t delta_timed_schedule(const delta_problem_t *problem, const delta_order_t *order, const delta_decisions_t *decisions,
                                    uint64_t capacity_bytes, delta_allocator_t allocator, delta_schedule_t **out_schedule) {
  return make_timed(problem, order, decisions, capacity_bytes, false, allocator, out_schedule);
}

static void hold_buffer(delta_schedule_t *schedule, uint32_t buffer, uint32_t step, uint32_t last) {
  if (buffer != DELTA_PROBLEM_NONE && schedule->buffers[buffer].last_step == step) schedule->buffers[buffer].last_step = last;
}

// Copies back that start while a step runs stand behind it, so what it uses last seems to be gone when they start. Such buffers live on until the last of these copies.
static void hold_until_ends(delta_schedule_t *schedule) {
  for (uint32_t s = schedule->step_count; s-- > 0;) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    uint32_t last = s;
    if (step->kind != DELTA_STEP_RUN) continue;
    while (last + 1 < schedule->step_count && schedule->steps[last + 1].start_seconds < step->end_seconds) ++last;
    for (uint32_t k = 0; k < step->input_count; ++k) hold_buffer(schedule, step->inputs[k], s, last);
    for (uint32_t k = 0; k < step->output_count; ++k) hold_buffer(schedule, step->outputs[k], s, last);
    hold_buffer(schedule, step->workspace, s, last);
  }
}

// How a timed schedule gets its addresses, or others: in haste or not, or those at which copies back may start from certain steps on.
typedef struct placing {
  bool is_hasty;
  const uint32_t *earliest_steps; // by buffer; NULL: it has no addresses
} placing_t;

// Gives a timed schedule addresses, as if what a step uses last stayed until it has ended in time.
static delta_status_t lay_out_held(const delta_addresses_t *addresses, const placing_t *placing, delta_schedule_t *schedule) {
  const uint64_t capacity_bytes = addresses->capacity_bytes;
  uint32_t *last_steps = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(addresses->allocator, schedule->buffer_count, &last_steps));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) last_steps[b] = schedule->buffers[b].last_step;
  hold_until_ends(schedule);
  const delta_status_t status = placing->earliest_steps
                                    ? delta_advance_copies_back(schedule, placing->earliest_steps, capacity_bytes, addresses->allocator)
                                    : delta_layout_within(schedule, capacity_bytes, placing->is_hasty, addresses->allocator);
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) schedule->buffers[b].last_step = last_steps[b];
  delta_release(addresses->allocator, last_steps);
  return status;
}

// How addresses are looked for: copies back come as early as they can, which leaves most time for surprises, or as late; or may have to wait for what is still in use. What is easy is
// found in haste.
typedef struct layout_way {
  bool is_late, is_held, is_hasty;
} layout_way_t;
static const layout_way_t layout_ways[] = {{false, true, true}, {true, true, true}, {true, false, true}, {true, true, false}};

static delta_status_t lay_out_one(const delta_addresses_t *addresses, const layout_way_t *way, delta_schedule_t **out_schedule) {
  DELTA_RETURN_IF_ERROR(make_timed(addresses->problem, addresses->order, addresses->decisions, addresses->searched_bytes, way->is_late,
                                   addresses->allocator, out_schedule));
  return way->is_held ? lay_out_held(addresses, &(placing_t){.is_hasty = way->is_hasty}, *out_schedule)
                      : delta_layout_within(*out_schedule, addresses->capacity_bytes, way->is_hasty, addresses->allocator);
}

delta_status_t delta_addresses_find(const delta_addresses_t *addresses, delta_schedule_t **out_schedule) {
  delta_schedule_t *least = NULL;
  for (size_t i = 0; i < sizeof layout_ways / sizeof *layout_ways; ++i) {
    delta_schedule_t *schedule = NULL;
    if (addresses->is_hasty && !layout_ways[i].is_hasty) continue;
    const delta_status_t status = lay_out_one(addresses, &layout_ways[i], &schedule);
    const bool is_less = !status && (!least || schedule->arena_bytes < least->arena_bytes);
    delta_schedule_free(is_less ? least : schedule);
    if (is_less) least = schedule;
    if (status) {
      delta_schedule_free(least);
      return status;
    }
    if (least->arena_bytes <= addresses->capacity_bytes) break;
  }
  *out_schedule = least;
  return DELTA_OK;
}

// ---- Copies back that addresses hold up

// By buffer: the step of the schedule during which its copy back starts when nothing holds it up; those that are not copied back: 0.
static delta_status_t list_earliest(const delta_addresses_t *addresses, const delta_schedule_t *schedule, uint32_t *earliest_steps) {
  delta_schedule_t *early = NULL;
  uint32_t at = 0;
  DELTA_RETURN_IF_ERROR(make_timed(addresses->problem, addresses->order, addresses->decisions, addresses->searched_bytes, false,
                                   addresses->allocator, &early));
  for (uint32_t s = 0; s < early->step_count; ++s) {
    const delta_schedule_step_t *step = &early->steps[s];
    if (step->kind != DELTA_STEP_SWAP_IN) continue;
    while (at < schedule->step_count &&
           (schedule->steps[at].kind != DELTA_STEP_RUN || schedule->steps[at].end_seconds <= step->start_seconds)) {
      ++at;
    }
    earliest_steps[step->outputs[0]] = at;
  }
  delta_schedule_free(early);
  return DELTA_OK;
}

static delta_status_t simulate_waits(const delta_addresses_t *addresses, delta_schedule_t *schedule) {
  DELTA_RETURN_IF_ERROR(delta_set_waits(schedule, DELTA_WAIT_FOR_BYTES, addresses->allocator));
  return delta_simulate(addresses->problem, schedule, addresses->allocator);
}

// Gives copies back that come late other addresses, at which they may start as early as the search had it.
static delta_status_t advance_copies(const delta_addresses_t *addresses, delta_schedule_t *schedule) {
  uint32_t *earliest_steps = NULL;
  delta_status_t status = DELTA_ALLOCATE(addresses->allocator, schedule->buffer_count, &earliest_steps);
  if (!status) status = list_earliest(addresses, schedule, earliest_steps);
  if (!status) status = lay_out_held(addresses, &(placing_t){.earliest_steps = earliest_steps}, schedule);
  if (!status) status = simulate_waits(addresses, schedule);
  delta_release(addresses->allocator, earliest_steps);
  return status;
}

// Where a schedule is slower than the search had it, copies back wait for bytes: then it is tried with other addresses.
delta_status_t delta_addresses_finish(const delta_addresses_t *addresses, delta_schedule_t **inout_schedule) {
  delta_schedule_t *advanced = NULL;
  DELTA_RETURN_IF_ERROR(delta_schedule_copy(*inout_schedule, addresses->allocator, &advanced));
  delta_status_t status = simulate_waits(addresses, *inout_schedule);
  const bool is_held_up = !status && (*inout_schedule)->step_seconds > (1 + held_up_part) * addresses->searched_seconds;
  if (is_held_up) status = advance_copies(addresses, advanced);
  if (is_held_up && !status && advanced->step_seconds < (*inout_schedule)->step_seconds) {
    delta_schedule_t *const slower = *inout_schedule;
    *inout_schedule = advanced;
    advanced = slower;
  }
  delta_schedule_free(advanced);
  return status;
}
