// Order: a topological sort of the steps with priorities. A step becomes ready when what it depends on has run; of the ready ones the smallest key runs.
//
// Ranks, from first to last: steps on demand, updates (early_update), what only one update needs, the other steps by their place in the problem, updates
// (without early_update), constants nobody reads. Steps on demand need nothing but what is there from the start: in a second pass they sink to the first
// step that has to come after them.
//
// What several updates need is most of a backward pass, and keeps its order. What one update needs is that parameter's gradient and what its optimizer makes
// of it: running it at once lets the update run, and the gradient go.
#include "planner/planner.h"

typedef enum step_rank { RANK_ON_DEMAND, RANK_UPDATE, RANK_FOR_UPDATE, RANK_IN_ORDER, RANK_LATE, RANK_LAST } step_rank_t;

// Besides a step's index, what `update_of` may say: nobody, several updates and nobody else, somebody else.
#define NEEDED_BY_NOBODY  UINT32_MAX
#define NEEDED_BY_UPDATES (UINT32_MAX - 1)
#define NEEDED_BY_OTHERS  (UINT32_MAX - 2)

typedef struct order_builder {
  const delta_problem_t *problem;
  bool early_update;
  delta_region_t region;   // Owns the tables.
  uint32_t *producer;      // by tensor: step or NONE
  uint32_t *updater;       // by state tensor: the step that writes it, or NONE
  uint32_t *reader_starts; // by tensor: first entry in `readers`; one more at the end
  uint32_t *readers;       // steps, by tensor
  step_rank_t *ranks;      // by step
  uint32_t *update_of;     // by step: the one update that needs what it makes, directly or not
  uint32_t *missing;       // by step: dependencies that have not run
  uint32_t *target;        // by step: its place in `sorted`; of a step on demand, the place it sinks to
  uint32_t *sorted;        // steps after the first pass
  uint32_t *cursor;        // by target: where its next step goes; one more at the end
  uint64_t *heap;          // ready steps: rank in the high half, step in the low half
  uint32_t heap_count;
  delta_order_t *order;
} order_builder_t;

void delta_order_deinit(delta_order_t *order) {
  delta_release(order->allocator, order->steps);
  *order = (delta_order_t){0};
}

static void heap_push(order_builder_t *builder, uint32_t step) {
  uint64_t *heap = builder->heap;
  const uint64_t key = (uint64_t)builder->ranks[step] << 32 | step;
  uint32_t at = builder->heap_count++;
  for (; at > 0 && heap[(at - 1) / 2] > key; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = key;
}

static uint32_t heap_pop(order_builder_t *builder) {
  uint64_t *heap = builder->heap;
  const uint32_t step = (uint32_t)heap[0];
  const uint64_t moved = heap[--builder->heap_count];
  uint32_t at = 0;
  for (;;) {
    uint32_t child = 2 * at + 1;
    if (child >= builder->heap_count) break;
    if (child + 1 < builder->heap_count && heap[child + 1] < heap[child]) ++child;
    if (heap[child] >= moved) break;
    heap[at] = heap[child];
    at = child;
  }
  heap[at] = moved;
  return step;
}

static delta_status_t allocate_tables(order_builder_t *builder) {
  const delta_problem_t *problem = builder->problem;
  delta_region_t *region = &builder->region;
  size_t input_count = 0;
  for (uint32_t s = 0; s < problem->step_count; ++s) input_count += problem->steps[s].input_count;
  if (input_count > UINT32_MAX) return delta_status_make(UNSUPPORTED, "the program has %zu uses of tensors", input_count);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->tensor_count, &builder->producer));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->tensor_count, &builder->updater));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)problem->tensor_count + 1, &builder->reader_starts));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, input_count, &builder->readers));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->step_count, &builder->ranks));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->step_count, &builder->update_of));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->step_count, &builder->missing));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->step_count, &builder->target));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->step_count, &builder->sorted));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, (size_t)problem->step_count + 1, &builder->cursor));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->step_count, &builder->heap));
  return DELTA_ALLOCATE(builder->order->allocator, problem->step_count, &builder->order->steps);
}

static void index_tensors(order_builder_t *builder) {
  const delta_problem_t *problem = builder->problem;
  uint32_t *starts = builder->reader_starts;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) builder->producer[t] = builder->updater[t] = DELTA_PROBLEM_NONE;
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    const delta_problem_step_t *step = &problem->steps[s];
    for (uint32_t k = 0; k < step->output_count; ++k) {
      builder->producer[step->outputs[k]] = s;
      const uint32_t state = problem->tensors[step->outputs[k]].becomes_state;
      if (state != DELTA_PROBLEM_NONE) builder->updater[state] = s;
    }
    for (uint32_t k = 0; k < step->input_count; ++k) ++starts[step->inputs[k] + 1];
  }
  for (uint32_t t = 0; t < problem->tensor_count; ++t) starts[t + 1] += starts[t];
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    const delta_problem_step_t *step = &problem->steps[s];
    for (uint32_t k = 0; k < step->input_count; ++k) builder->readers[starts[step->inputs[k]]++] = s;
  }
  // Filling moved every start to its end, which is the next one's start.
  for (uint32_t t = problem->tensor_count; t > 0; --t) starts[t] = starts[t - 1];
  starts[0] = 0;
}

static bool is_update(const order_builder_t *builder, uint32_t step) { return builder->problem->steps[step].flags & DELTA_STEP_UPDATE; }

static uint32_t join_needs(uint32_t a, uint32_t b) {
  if (a == b || b == NEEDED_BY_NOBODY) return a;
  if (a == NEEDED_BY_NOBODY) return b;
  return a == NEEDED_BY_OTHERS || b == NEEDED_BY_OTHERS ? NEEDED_BY_OTHERS : NEEDED_BY_UPDATES;
}

// Which updates need what the step makes. Readers stand after the step, so theirs is known.
static uint32_t find_update(const order_builder_t *builder, const delta_problem_step_t *step) {
  uint32_t needed_by = NEEDED_BY_NOBODY;
  for (uint32_t k = 0; k < step->output_count; ++k) {
    const uint32_t tensor = step->outputs[k];
    if (builder->problem->tensors[tensor].flags & DELTA_TENSOR_OUTPUT) return NEEDED_BY_OTHERS;
    for (uint32_t r = builder->reader_starts[tensor]; r < builder->reader_starts[tensor + 1]; ++r) {
      const uint32_t reader = builder->readers[r];
      needed_by = join_needs(needed_by, is_update(builder, reader) ? reader : builder->update_of[reader]);
    }
  }
  return needed_by;
}

static bool has_readers(const order_builder_t *builder, const delta_problem_step_t *step) {
  for (uint32_t k = 0; k < step->output_count; ++k) {
    const uint32_t tensor = step->outputs[k];
    if (builder->reader_starts[tensor + 1] > builder->reader_starts[tensor]) return true;
  }
  return false;
}

// Whether every input is there from the start: given, or made by a step on demand.
static bool needs_only_what_is_there(const order_builder_t *builder, const delta_problem_step_t *step) {
  for (uint32_t k = 0; k < step->input_count; ++k) {
    const uint32_t producer = builder->producer[step->inputs[k]];
    if (producer != DELTA_PROBLEM_NONE && builder->ranks[producer] != RANK_ON_DEMAND) return false;
  }
  return true;
}

static step_rank_t rank_step(const order_builder_t *builder, uint32_t index) {
  const delta_problem_step_t *step = &builder->problem->steps[index];
  const uint32_t update = builder->update_of[index];
  if (step->flags & DELTA_STEP_UPDATE) return builder->early_update ? RANK_UPDATE : RANK_LATE;
  if (step->input_count == 0) return has_readers(builder, step) ? RANK_ON_DEMAND : RANK_LAST;
  if (!builder->early_update || update == NEEDED_BY_NOBODY || update == NEEDED_BY_OTHERS) return RANK_IN_ORDER;
  if (needs_only_what_is_there(builder, step)) return RANK_ON_DEMAND;
  return update == NEEDED_BY_UPDATES ? RANK_IN_ORDER : RANK_FOR_UPDATE;
}

static void rank_steps(order_builder_t *builder) {
  const delta_problem_t *problem = builder->problem;
  for (uint32_t s = problem->step_count; s-- > 0;) builder->update_of[s] = find_update(builder, &problem->steps[s]);
  // Producers stand before their readers, so what a step on demand needs has its rank already.
  for (uint32_t s = 0; s < problem->step_count; ++s) builder->ranks[s] = rank_step(builder, s);
}

// Calls `visit` for every step that must run after step `index`: readers of its results, and for every state it reads the step that writes the state.
static void visit_successors(order_builder_t *builder, uint32_t index,
                             void (*visit)(order_builder_t *builder, uint32_t index, uint32_t successor)) {
  const delta_problem_step_t *step = &builder->problem->steps[index];
  for (uint32_t k = 0; k < step->output_count; ++k) {
    const uint32_t tensor = step->outputs[k];
    for (uint32_t r = builder->reader_starts[tensor]; r < builder->reader_starts[tensor + 1]; ++r)
      visit(builder, index, builder->readers[r]);
  }
  for (uint32_t k = 0; k < step->input_count; ++k) {
    const uint32_t updater = builder->updater[step->inputs[k]];
    if (updater != DELTA_PROBLEM_NONE && updater != index) visit(builder, index, updater);
  }
}

static void count_dependency(order_builder_t *builder, uint32_t index, uint32_t successor) {
  (void)index;
  ++builder->missing[successor];
}

static void settle_dependency(order_builder_t *builder, uint32_t index, uint32_t successor) {
  (void)index;
  if (--builder->missing[successor] == 0) heap_push(builder, successor);
}

static void sink_before(order_builder_t *builder, uint32_t index, uint32_t successor) {
  if (builder->target[successor] < builder->target[index]) builder->target[index] = builder->target[successor];
}

static delta_status_t sort_steps(order_builder_t *builder) {
  const uint32_t step_count = builder->problem->step_count;
  for (uint32_t s = 0; s < step_count; ++s) visit_successors(builder, s, count_dependency);
  for (uint32_t s = 0; s < step_count; ++s) {
    if (builder->missing[s] == 0) heap_push(builder, s);
  }
  uint32_t count = 0;
  for (; builder->heap_count > 0; ++count) {
    const uint32_t step = heap_pop(builder);
    builder->target[step] = count;
    builder->sorted[count] = step;
    visit_successors(builder, step, settle_dependency);
  }
  for (uint32_t s = 0; s < step_count && count < step_count; ++s) {
    if (builder->missing[s] == 0) continue;
    return delta_status_make(MALFORMED, "step '%s' cannot be ordered: it needs what a step makes that has to run after it",
                             builder->problem->steps[s].name);
  }
  return DELTA_OK;
}

// Lets the steps on demand sink. Each has a successor, and those of them that are on demand have sunk before.
static void sink_steps(order_builder_t *builder) {
  for (uint32_t at = builder->problem->step_count; at-- > 0;) {
    const uint32_t step = builder->sorted[at];
    if (builder->ranks[step] != RANK_ON_DEMAND) continue;
    builder->target[step] = builder->problem->step_count;
    visit_successors(builder, step, sink_before);
  }
}

// Writes the order: by target; of one target the steps on demand first, as sorted.
static void write_order(order_builder_t *builder) {
  const uint32_t step_count = builder->problem->step_count;
  uint32_t *cursor = builder->cursor;
  for (uint32_t s = 0; s < step_count; ++s) ++cursor[builder->target[s] + 1];
  for (uint32_t p = 0; p < step_count; ++p) cursor[p + 1] += cursor[p];
  for (int on_demand = 1; on_demand >= 0; --on_demand) {
    for (uint32_t at = 0; at < step_count; ++at) {
      const uint32_t step = builder->sorted[at];
      if ((builder->ranks[step] == RANK_ON_DEMAND) == on_demand) builder->order->steps[cursor[builder->target[step]]++] = step;
    }
  }
  builder->order->step_count = step_count;
}

delta_status_t delta_order_listed(const delta_problem_t *problem, delta_allocator_t allocator, delta_order_t *out_order) {
  *out_order = (delta_order_t){.step_count = problem->step_count, .allocator = allocator};
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, problem->step_count, &out_order->steps));
  for (uint32_t s = 0; s < problem->step_count; ++s) out_order->steps[s] = s;
  return DELTA_OK;
}

delta_status_t delta_order_make(const delta_problem_t *problem, bool early_update, delta_allocator_t allocator, delta_order_t *out_order) {
  delta_order_t order = {.allocator = allocator};
  order_builder_t builder = {.problem = problem, .early_update = early_update, .order = &order};
  delta_region_init(&builder.region, allocator);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, allocate_tables(&builder), cleanup);
  index_tensors(&builder);
  rank_steps(&builder);
  DELTA_GOTO_IF_ERROR(status, sort_steps(&builder), cleanup);
  sink_steps(&builder);
  write_order(&builder);
cleanup:
  delta_region_deinit(&builder.region);
  if (status) {
    delta_order_deinit(&order);
    return status;
  }
  *out_order = order;
  return DELTA_OK;
}
