// Simulate: runs a schedule's lanes against the clock. Each lane takes its steps in schedule order; a step starts when its lane is free and the rule, by
// default that what it waits for has ended, lets it. Transfers go at their direction's bandwidth; while both directions are busy, together at no more than the shared
// bandwidth.
#include "planner/simulate.h"

#include <math.h>

#include "planner/lanes.h"

typedef struct simulated_lane {
  uint32_t next;   // step at the head of the queue, running or not; step_count: none left
  bool is_running; // the head has started
} simulated_lane_t;

typedef struct simulation {
  const delta_problem_t *problem;
  delta_schedule_t *schedule;
  const delta_start_rule_t *rule;
  double now_seconds;
  simulated_lane_t lanes[DELTA_LANE_COUNT];
  delta_lane_clock_t clocks[DELTA_LANE_COUNT];
} simulation_t;

static void advance_head(const simulation_t *simulation, delta_lane_t lane, simulated_lane_t *inout_lane) {
  while (inout_lane->next < simulation->schedule->step_count && simulation->schedule->steps[inout_lane->next].lane != lane) {
    ++inout_lane->next;
  }
}

static void start_step(simulation_t *simulation, int l, delta_schedule_step_t *step) {
  step->start_seconds = simulation->now_seconds;
  if (step->kind == DELTA_STEP_RUN) {
    delta_lane_clock_start(&simulation->clocks[l], simulation->problem->steps[step->problem_step].seconds, simulation->now_seconds);
  } else {
    const uint32_t buffer = step->kind == DELTA_STEP_SWAP_OUT ? step->inputs[0] : step->outputs[0];
    delta_lane_clock_start(&simulation->clocks[l], (double)simulation->schedule->buffers[buffer].size_bytes, simulation->now_seconds);
  }
}

// Starts what can start now. Returns whether anything runs.
static bool start_heads(simulation_t *simulation) {
  bool any_runs = false;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    simulated_lane_t *lane = &simulation->lanes[l];
    if (!lane->is_running && lane->next < simulation->schedule->step_count) {
      lane->is_running = simulation->rule->try_start(simulation->rule->self, lane->next);
      if (lane->is_running) start_step(simulation, l, &simulation->schedule->steps[lane->next]);
    }
    any_runs |= lane->is_running;
  }
  delta_lane_clock_t *clocks = simulation->clocks;
  delta_lane_clocks_share(simulation->problem, simulation->now_seconds, &clocks[DELTA_LANE_COMPUTE], &clocks[DELTA_LANE_OFFLOAD],
                          &clocks[DELTA_LANE_PREFETCH]);
  return any_runs;
}

// Lets time pass until the first running step ends, and ends all that end then.
static void run_to_next_end(simulation_t *simulation) {
  simulation->now_seconds = INFINITY;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) simulation->now_seconds = fmin(simulation->now_seconds, simulation->clocks[l].end_seconds);
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    simulated_lane_t *lane = &simulation->lanes[l];
    if (!lane->is_running || simulation->clocks[l].end_seconds > simulation->now_seconds) continue;
    simulation->schedule->steps[lane->next].end_seconds = simulation->now_seconds;
    simulation->rule->note_end(simulation->rule->self, lane->next);
    delta_lane_clock_end(&simulation->clocks[l]);
    lane->is_running = false;
    ++lane->next;
    advance_head(simulation, (delta_lane_t)l, lane);
  }
}

static delta_status_t check_transfers(const delta_problem_t *problem, const delta_schedule_t *schedule) {
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_step_kind_t kind = schedule->steps[s].kind;
    const double rate = kind == DELTA_STEP_SWAP_OUT ? problem->offload_bytes_per_second : problem->prefetch_bytes_per_second;
    if (kind != DELTA_STEP_RUN && !(rate > 0)) {
      return delta_status_make(INVALID_ARGUMENT, "step %u copies between device and host, but the problem gives no bandwidth for it", s);
    }
  }
  return DELTA_OK;
}

delta_status_t delta_simulate_sums(const delta_problem_t *problem, delta_schedule_t *schedule, delta_allocator_t allocator) {
  bool *has_run = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, problem->step_count, &has_run));
  schedule->step_seconds = schedule->recompute_seconds = schedule->stall_seconds = 0;
  double compute_end_seconds = 0;
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    if (step->end_seconds > schedule->step_seconds) schedule->step_seconds = step->end_seconds;
    if (step->kind != DELTA_STEP_RUN) continue;
    schedule->stall_seconds += step->start_seconds - compute_end_seconds;
    compute_end_seconds = step->end_seconds;
    if (has_run[step->problem_step]) schedule->recompute_seconds += step->end_seconds - step->start_seconds;
    has_run[step->problem_step] = true;
  }
  schedule->stall_seconds += schedule->step_seconds - compute_end_seconds;
  delta_release(allocator, has_run);
  return DELTA_OK;
}

delta_status_t delta_simulate_by_rule(const delta_problem_t *problem, delta_schedule_t *schedule, const delta_start_rule_t *rule) {
  DELTA_RETURN_IF_ERROR(check_transfers(problem, schedule));
  simulation_t simulation = {.problem = problem, .schedule = schedule, .rule = rule};
  simulation.clocks[DELTA_LANE_COMPUTE] = delta_lane_clock_compute();
  simulation.clocks[DELTA_LANE_OFFLOAD] = delta_lane_clock_offload(problem);
  simulation.clocks[DELTA_LANE_PREFETCH] = delta_lane_clock_prefetch(problem);
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) advance_head(&simulation, (delta_lane_t)l, &simulation.lanes[l]);
  while (start_heads(&simulation)) run_to_next_end(&simulation);
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    if (simulation.lanes[l].next < schedule->step_count) {
      return delta_status_make(INTERNAL, "step %u waits for a step that never ends", simulation.lanes[l].next);
    }
  }
  return DELTA_OK;
}

// ---- Waits

typedef struct wait_rule {
  const delta_schedule_t *schedule;
  bool *has_ended; // by step
} wait_rule_t;

static bool waits_are_over(void *self, uint32_t s) {
  const wait_rule_t *rule = self;
  const delta_schedule_step_t *step = &rule->schedule->steps[s];
  for (uint32_t w = 0; w < step->wait_count; ++w) {
    if (!rule->has_ended[step->waits[w]]) return false;
  }
  return true;
}

static void note_ended(void *self, uint32_t s) { ((wait_rule_t *)self)->has_ended[s] = true; }

delta_status_t delta_simulate(const delta_problem_t *problem, delta_schedule_t *schedule, delta_allocator_t allocator) {
  wait_rule_t waits = {.schedule = schedule};
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, schedule->step_count, &waits.has_ended));
  delta_status_t status =
      delta_simulate_by_rule(problem, schedule, &(delta_start_rule_t){.self = &waits, .try_start = waits_are_over, .note_end = note_ended});
  if (!status) status = delta_simulate_sums(problem, schedule, allocator);
  delta_release(allocator, waits.has_ended);
  return status;
}
