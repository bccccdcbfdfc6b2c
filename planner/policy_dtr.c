// Kirisame et al., "Dynamic tensor rematerialization" (ICLR 2021), run ahead of time: the step is played once, on a clock of the steps' own seconds, and what the rule does becomes
// the list of runs. Before a step that needs more than there is, the tensor goes with the smallest h = cost / (bytes * staleness). Its cost is what makes it, and all that is gone
// and hangs together with it: it, too, would have to come back (the equivalence-class form of h). What is needed and gone is made again first, with all it takes.
//
// Inputs, states, outputs and what cannot be made again never go. What no base step needs any more goes at once, and comes back only for another.
#include <math.h>

#include "planner/rival.h"

#define NONE DELTA_PROBLEM_NONE

typedef struct dtr_tensor {
  bool is_there, was_made, stays; // stays: it may never go
  uint32_t readers_left;          // base steps that have still to read it
  uint32_t lock_count;            // steps under way that read it
  uint32_t producer;              // problem step, or NONE
  double touched_seconds;         // when it was last made or read
  uint32_t group;                 // of what is gone and hangs together, or NONE
} dtr_tensor_t;

typedef struct dtr {
  delta_rival_t *rival;
  dtr_tensor_t *tensors;
  uint32_t *reader_starts, *readers; // by tensor: the problem steps that read it
  bool *is_overwritten;              // by state
  double clock_seconds;
  uint64_t used_bytes;
  DELTA_ARRAY(uint32_t) runs;
  DELTA_ARRAY(uint32_t) pending; // problem steps that wait for what they read
  // Groups of what is gone; made anew when something went or came.
  bool groups_are_old;
  double *group_seconds;
  uint32_t *group_stamps; // by group: the tensor that counted it last, plus one
  uint32_t *stack;
  bool is_stuck; // a step cannot run again, or there is no end: the rule has no plan
} dtr_t;

// What has to come back may push out what came back before: with too little memory, runs multiply without end. No plan with that many is wanted.
enum { MOST_RUNS_PER_STEP = 20 };

static bool is_counted(const dtr_t *dtr, uint32_t tensor) { return !delta_problem_tensor_is_state(&dtr->rival->problem->tensors[tensor]); }

static uint64_t bytes_of(const dtr_t *dtr, uint32_t tensor) { return dtr->rival->problem->tensors[tensor].size_bytes; }

// Whether a step may run a second time now.
static bool may_run_again(const dtr_t *dtr, uint32_t problem_step) {
  const delta_problem_step_t *step = &dtr->rival->problem->steps[problem_step];
  bool may = step->flags & DELTA_STEP_PURE;
  for (uint32_t k = 0; k < step->input_count; ++k) may = may && !dtr->is_overwritten[step->inputs[k]];
  return may;
}

// ---- What is gone, in groups

static bool is_gone(const dtr_t *dtr, uint32_t tensor) {
  return is_counted(dtr, tensor) && dtr->tensors[tensor].was_made && !dtr->tensors[tensor].is_there;
}

// Calls `visit` for every tensor that is made from a tensor, or that it is made from.
static void visit_neighbours(dtr_t *dtr, uint32_t tensor, void (*visit)(dtr_t *dtr, uint32_t neighbour, void *self), void *self) {
  const delta_problem_t *problem = dtr->rival->problem;
  const uint32_t producer = dtr->tensors[tensor].producer;
  for (uint32_t k = 0; producer != NONE && k < problem->steps[producer].input_count; ++k)
    visit(dtr, problem->steps[producer].inputs[k], self);
  for (uint32_t r = dtr->reader_starts[tensor]; r < dtr->reader_starts[tensor + 1]; ++r) {
    const delta_problem_step_t *reader = &problem->steps[dtr->readers[r]];
    for (uint32_t k = 0; k < reader->output_count; ++k) visit(dtr, reader->outputs[k], self);
  }
}

typedef struct group_walk {
  uint32_t group, stack_count;
} group_walk_t;

static void join_group(dtr_t *dtr, uint32_t tensor, void *self) {
  group_walk_t *walk = self;
  if (!is_gone(dtr, tensor) || dtr->tensors[tensor].group != NONE) return;
  dtr->tensors[tensor].group = walk->group;
  if (dtr->tensors[tensor].producer != NONE) {
    dtr->group_seconds[walk->group] += dtr->rival->problem->steps[dtr->tensors[tensor].producer].seconds;
  }
  dtr->stack[walk->stack_count++] = tensor;
}

static void make_groups(dtr_t *dtr) {
  const uint32_t tensor_count = dtr->rival->problem->tensor_count;
  group_walk_t walk = {0};
  for (uint32_t t = 0; t < tensor_count; ++t) {
    dtr->tensors[t].group = NONE;
    dtr->group_seconds[t] = 0;
    dtr->group_stamps[t] = 0;
  }
  for (uint32_t t = 0; t < tensor_count; ++t) {
    if (!is_gone(dtr, t) || dtr->tensors[t].group != NONE) continue;
    join_group(dtr, t, &walk);
    while (walk.stack_count > 0) visit_neighbours(dtr, dtr->stack[--walk.stack_count], join_group, &walk);
    ++walk.group;
  }
  dtr->groups_are_old = false;
}

typedef struct cost_walk {
  uint32_t stamp;
  double seconds;
} cost_walk_t;

static void add_group_cost(dtr_t *dtr, uint32_t tensor, void *self) {
  cost_walk_t *walk = self;
  const uint32_t group = is_gone(dtr, tensor) ? dtr->tensors[tensor].group : NONE;
  if (group == NONE || dtr->group_stamps[group] == walk->stamp) return;
  dtr->group_stamps[group] = walk->stamp;
  walk->seconds += dtr->group_seconds[group];
}

static double score(dtr_t *dtr, uint32_t tensor) {
  const dtr_tensor_t *entry = &dtr->tensors[tensor];
  cost_walk_t walk = {.stamp = tensor + 1, .seconds = dtr->rival->problem->steps[entry->producer].seconds};
  visit_neighbours(dtr, tensor, add_group_cost, &walk);
  const double stale_seconds = dtr->clock_seconds - entry->touched_seconds;
  return stale_seconds > 0 ? walk.seconds / ((double)bytes_of(dtr, tensor) * stale_seconds) : INFINITY;
}

// ---- Coming and going

static void let_go(dtr_t *dtr, uint32_t tensor) {
  dtr->tensors[tensor].is_there = false;
  dtr->used_bytes -= bytes_of(dtr, tensor);
  dtr->groups_are_old = true;
}

static void drop_if_dead(dtr_t *dtr, uint32_t tensor) {
  const dtr_tensor_t *entry = &dtr->tensors[tensor];
  if (entry->is_there && !entry->stays && entry->readers_left == 0 && entry->lock_count == 0) let_go(dtr, tensor);
}

static void make_room(dtr_t *dtr, uint64_t needed_bytes) {
  while (dtr->used_bytes + needed_bytes > dtr->rival->capacity_bytes) {
    uint32_t best = NONE;
    double best_score = INFINITY;
    if (dtr->groups_are_old) make_groups(dtr);
    for (uint32_t t = 0; t < dtr->rival->problem->tensor_count; ++t) {
      const dtr_tensor_t *entry = &dtr->tensors[t];
      if (!entry->is_there || entry->stays || entry->lock_count > 0 || !may_run_again(dtr, entry->producer)) continue;
      const double h = score(dtr, t);
      if (best != NONE && h >= best_score) continue;
      best = t;
      best_score = h;
    }
    if (best == NONE) return; // out of memory: it goes on, and what it comes to is measured
    let_go(dtr, best);
  }
}

static void lock_inputs(dtr_t *dtr, uint32_t problem_step, bool locks) {
  const delta_problem_step_t *step = &dtr->rival->problem->steps[problem_step];
  for (uint32_t k = 0; k < step->input_count; ++k) dtr->tensors[step->inputs[k]].lock_count += locks ? 1 : UINT32_MAX;
}

static bool dies(const dtr_t *dtr, uint32_t input) {
  return is_counted(dtr, input) && dtr->tensors[input].readers_left == 1 && !dtr->tensors[input].stays;
}

// Bytes of inputs that are the outputs' in a row.
static uint64_t row_bytes(const dtr_t *dtr, const delta_problem_step_t *step) {
  uint64_t bytes = 0;
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (!(step->flags & DELTA_STEP_IN_ROW) || !dies(dtr, step->inputs[k])) return 0;
    bytes += bytes_of(dtr, step->inputs[k]);
  }
  return bytes;
}

// Bytes that a first run needs beyond what is there: one that may write over an input nobody else needs does.
static uint64_t needed_bytes(const dtr_t *dtr, uint32_t problem_step, bool is_first) {
  const delta_problem_step_t *step = &dtr->rival->problem->steps[problem_step];
  uint64_t bytes = step->workspace_bytes, taken_bytes = is_first ? row_bytes(dtr, step) : 0;
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (is_counted(dtr, step->outputs[k]) && !dtr->tensors[step->outputs[k]].is_there) bytes += bytes_of(dtr, step->outputs[k]);
  }
  for (uint32_t k = 0; is_first && k < step->inplace_count; ++k) {
    const uint32_t input = step->inplace[k].input;
    if (dies(dtr, input) && bytes_of(dtr, input) > taken_bytes) taken_bytes = bytes_of(dtr, input);
  }
  return bytes - (taken_bytes < bytes ? taken_bytes : bytes);
}

// Runs a step whose inputs are there and locked.
static delta_status_t run_step(dtr_t *dtr, uint32_t problem_step, bool is_first) {
  const delta_problem_step_t *step = &dtr->rival->problem->steps[problem_step];
  make_room(dtr, needed_bytes(dtr, problem_step, is_first));
  DELTA_RETURN_IF_ERROR(delta_array_push(dtr->rival->allocator, &dtr->runs, &problem_step));
  dtr->is_stuck = dtr->runs.count / MOST_RUNS_PER_STEP > dtr->rival->problem->step_count;
  dtr->clock_seconds += step->seconds;
  for (uint32_t k = 0; k < step->input_count; ++k) dtr->tensors[step->inputs[k]].touched_seconds = dtr->clock_seconds;
  for (uint32_t k = 0; k < step->output_count; ++k) {
    dtr_tensor_t *output = &dtr->tensors[step->outputs[k]];
    const uint32_t state = dtr->rival->problem->tensors[step->outputs[k]].becomes_state;
    if (state != NONE) dtr->is_overwritten[state] = true;
    if (!is_counted(dtr, step->outputs[k]) || output->is_there) continue;
    output->is_there = output->was_made = dtr->groups_are_old = true;
    output->touched_seconds = dtr->clock_seconds;
    dtr->used_bytes += bytes_of(dtr, step->outputs[k]);
  }
  lock_inputs(dtr, problem_step, false);
  for (uint32_t k = 0; k < step->input_count; ++k) {
    if (is_first) --dtr->tensors[step->inputs[k]].readers_left;
    if (is_counted(dtr, step->inputs[k])) drop_if_dead(dtr, step->inputs[k]);
  }
  for (uint32_t k = 0; k < step->output_count; ++k) {
    if (is_counted(dtr, step->outputs[k])) drop_if_dead(dtr, step->outputs[k]);
  }
  return DELTA_OK;
}

static delta_status_t await_step(dtr_t *dtr, uint32_t problem_step) {
  lock_inputs(dtr, problem_step, true);
  return delta_array_push(dtr->rival->allocator, &dtr->pending, &problem_step);
}

// Runs a base step, after all that has to run again for it.
static delta_status_t run_base_step(dtr_t *dtr, uint32_t problem_step) {
  const delta_problem_t *problem = dtr->rival->problem;
  DELTA_RETURN_IF_ERROR(await_step(dtr, problem_step));
  while (dtr->pending.count > 0 && !dtr->is_stuck) {
    const uint32_t top = dtr->pending.items[dtr->pending.count - 1];
    uint32_t missing = NONE;
    for (uint32_t k = 0; k < problem->steps[top].input_count && missing == NONE; ++k) {
      const uint32_t input = problem->steps[top].inputs[k];
      if (is_counted(dtr, input) && !dtr->tensors[input].is_there) missing = input;
    }
    if (missing == NONE) {
      --dtr->pending.count;
      DELTA_RETURN_IF_ERROR(run_step(dtr, top, dtr->pending.count == 0));
      continue;
    }
    const uint32_t producer = dtr->tensors[missing].producer;
    dtr->is_stuck = producer == NONE || !may_run_again(dtr, producer);
    if (!dtr->is_stuck) DELTA_RETURN_IF_ERROR(await_step(dtr, producer));
  }
  return DELTA_OK;
}

// ---- Beginning

static void list_readers(dtr_t *dtr, uint32_t *next) {
  const delta_problem_t *problem = dtr->rival->problem;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) dtr->reader_starts[t + 1] = dtr->reader_starts[t] + dtr->tensors[t].readers_left;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) next[t] = dtr->reader_starts[t];
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    for (uint32_t k = 0; k < problem->steps[s].input_count; ++k) dtr->readers[next[problem->steps[s].inputs[k]]++] = s;
  }
}

static size_t list_tensors(dtr_t *dtr) {
  const delta_problem_t *problem = dtr->rival->problem;
  size_t reads = 0;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const bool is_input = problem->tensors[t].flags & DELTA_TENSOR_INPUT;
    dtr->tensors[t] = (dtr_tensor_t){.producer = dtr->rival->map.producers[t],
                                     .group = NONE,
                                     .is_there = is_input,
                                     .was_made = is_input,
                                     .stays = is_input || (problem->tensors[t].flags & DELTA_TENSOR_OUTPUT)};
    if (is_input && is_counted(dtr, t)) dtr->used_bytes += bytes_of(dtr, t);
  }
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    const delta_problem_step_t *step = &problem->steps[s];
    reads += step->input_count;
    for (uint32_t k = 0; k < step->input_count; ++k) ++dtr->tensors[step->inputs[k]].readers_left;
    for (uint32_t k = 0; k < step->output_count; ++k) dtr->tensors[step->outputs[k]].stays |= !(step->flags & DELTA_STEP_PURE);
  }
  return reads;
}

static delta_status_t begin(dtr_t *dtr) {
  delta_region_t *region = &dtr->rival->region;
  const uint32_t tensor_count = dtr->rival->problem->tensor_count;
  uint32_t *next = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, tensor_count, &dtr->tensors));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)tensor_count + 1, &dtr->reader_starts));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, tensor_count, &dtr->is_overwritten));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, tensor_count, &dtr->group_seconds));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, tensor_count, &dtr->group_stamps));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, tensor_count, &dtr->stack));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, tensor_count, &next));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, list_tensors(dtr), &dtr->readers));
  list_readers(dtr, next);
  return DELTA_OK;
}

static delta_status_t play(dtr_t *dtr) {
  DELTA_RETURN_IF_ERROR(begin(dtr));
  for (uint32_t p = 0; p < dtr->rival->order->step_count && !dtr->is_stuck; ++p) {
    DELTA_RETURN_IF_ERROR(run_base_step(dtr, dtr->rival->order->steps[p]));
  }
  return dtr->is_stuck ? DELTA_OK : delta_rival_offer_runs(dtr->rival, dtr->runs.items, (uint32_t)dtr->runs.count);
}

delta_status_t delta_rule_dtr(delta_rival_t *rival) {
  dtr_t dtr = {.rival = rival};
  delta_status_t status = play(&dtr);
  delta_array_deinit(rival->allocator, &dtr.runs);
  delta_array_deinit(rival->allocator, &dtr.pending);
  return status;
}
