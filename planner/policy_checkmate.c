// Jain et al., "Checkmate: breaking the memory wall with optimal tensor rematerialization" (MLSys 2020): the least recomputation, by integer programming. Stage t ends with the first
// run of step t; before it any earlier steps may run again, each once, in order. R[t,i]: step i runs in stage t; S[t,v]: tensor v is kept from stage t - 1 to stage t; F[t,v,k]: v goes
// after step k of stage t, as nobody needs it later in the stage or in the next; U[t,k]: what lives while step k of stage t runs.
//
// F needs no integers here: it is bounded by each of its conditions in a row of its own, which are integers. In-place writing is not modelled. The solver is a program that the caller
// has; only small problems are given to it, since the numbers of variables and rows grow with the square of the steps.
#include <math.h>

#include "base/text.h"
#include "planner/rival.h"

#define NONE DELTA_PROBLEM_NONE
enum { MOST_STEPS = 96, TERMS_PER_LINE = 8 };

// A step that a tensor may go after: its producer or a reader.
typedef struct checkmate_event {
  uint32_t tensor; // index of `tensors`
  uint32_t place;
} checkmate_event_t;

typedef struct checkmate {
  delta_rival_t *rival;
  uint32_t step_count;
  uint32_t *tensors; // that may go or stay
  uint32_t tensor_count;
  uint32_t *index_of;        // by problem tensor: its place in `tensors`, or NONE: it is always there
  checkmate_event_t *events; // by place, then tensor
  uint32_t event_count;
  uint32_t *written_at; // by state tensor: the place that writes it, or NONE
  uint64_t unit_bytes;  // divides all sizes
  uint64_t fixed_bytes; // of what is always there
  bool minimizes_peak;  // else time within the capacity
  delta_text_t text;
  uint32_t term_count; // of the row at hand
} checkmate_t;

// ---- Variables, numbered

static uint32_t run_variable(uint32_t stage, uint32_t place) { return stage * (stage - 1) / 2 + place; } // place < stage

static uint32_t keep_base(const checkmate_t *rule) { return rule->step_count * (rule->step_count - 1) / 2; }
static uint32_t keep_variable(const checkmate_t *rule, uint32_t stage, uint32_t tensor) {
  return keep_base(rule) + stage * rule->tensor_count + tensor;
}

static uint32_t free_base(const checkmate_t *rule) { return keep_base(rule) + rule->step_count * rule->tensor_count; }
static uint32_t free_variable(const checkmate_t *rule, uint32_t stage, uint32_t event) {
  return free_base(rule) + stage * rule->event_count + event;
}

static uint32_t live_base(const checkmate_t *rule) { return free_base(rule) + rule->step_count * rule->event_count; }
static uint32_t live_variable(const checkmate_t *rule, uint32_t stage, uint32_t place) {
  return live_base(rule) + stage * rule->step_count + place;
}

static uint32_t peak_variable(const checkmate_t *rule) { return live_base(rule) + rule->step_count * rule->step_count; }

// ---- Rows

static delta_status_t add_term(checkmate_t *rule, double factor, uint32_t variable) {
  const char *const separator = rule->term_count++ % TERMS_PER_LINE == TERMS_PER_LINE - 1 ? "\n " : "";
  if (factor == 0) return DELTA_OK;
  return delta_text_append(&rule->text, " %s%.17g x%u%s", factor < 0 ? "- " : "+ ", fabs(factor), variable, separator);
}

static delta_status_t end_row(checkmate_t *rule, const char *relation, double value) {
  rule->term_count = 0;
  return delta_text_append(&rule->text, " %s %.17g\n", relation, value);
}

static const delta_problem_step_t *step_at(const checkmate_t *rule, uint32_t place) { return delta_rival_step(rule->rival, place); }

static uint32_t producer_place(const checkmate_t *rule, uint32_t tensor) {
  const delta_gap_map_t *map = &rule->rival->map;
  return map->begins[map->starts[rule->tensors[tensor]]];
}

static bool stays(const checkmate_t *rule, uint32_t tensor) {
  return rule->rival->problem->tensors[rule->tensors[tensor]].flags & DELTA_TENSOR_OUTPUT;
}

// Whole units: sizes are multiples of one.
static double units_of(const checkmate_t *rule, uint64_t bytes) {
  const uint64_t units = bytes / rule->unit_bytes;
  return (double)units;
}

static double tensor_units(const checkmate_t *rule, uint32_t tensor) {
  return units_of(rule, rule->rival->problem->tensors[rule->tensors[tensor]].size_bytes);
}

// Adds factor * R[stage, place], a constant where place is the stage's own; then returns what goes to the other side.
static delta_status_t add_run(checkmate_t *rule, double factor, uint32_t stage, uint32_t place, double *inout_value) {
  if (place < stage) return add_term(rule, factor, run_variable(stage, place));
  *inout_value -= factor;
  return DELTA_OK;
}

// Whether a step may run again in a stage.
static bool may_run_again(const checkmate_t *rule, uint32_t stage, uint32_t place) {
  const delta_problem_step_t *step = step_at(rule, place);
  bool may = step->flags & DELTA_STEP_PURE;
  for (uint32_t k = 0; k < step->input_count; ++k) {
    const uint32_t written_at = rule->written_at[step->inputs[k]];
    may = may && (written_at == NONE || written_at >= stage);
  }
  return may;
}

// What a step reads is kept, or made in the stage before it.
static delta_status_t write_inputs(checkmate_t *rule, uint32_t stage, uint32_t place) {
  const delta_problem_step_t *step = step_at(rule, place);
  if (place < stage && !may_run_again(rule, stage, place)) {
    DELTA_RETURN_IF_ERROR(add_term(rule, 1, run_variable(stage, place)));
    return end_row(rule, "=", 0);
  }
  for (uint32_t k = 0; k < step->input_count; ++k) {
    const uint32_t tensor = rule->index_of[step->inputs[k]];
    double value = 0;
    if (tensor == NONE) continue;
    DELTA_RETURN_IF_ERROR(add_run(rule, 1, stage, place, &value));
    DELTA_RETURN_IF_ERROR(add_run(rule, -1, stage, producer_place(rule, tensor), &value));
    DELTA_RETURN_IF_ERROR(add_term(rule, -1, keep_variable(rule, stage, tensor)));
    DELTA_RETURN_IF_ERROR(end_row(rule, "<=", value));
  }
  return DELTA_OK;
}

// What is kept was kept before, or has been made in the stage before.
static delta_status_t write_kept(checkmate_t *rule, uint32_t stage) {
  for (uint32_t v = 0; v < rule->tensor_count; ++v) {
    const uint32_t made_at = producer_place(rule, v);
    double value = 0;
    DELTA_RETURN_IF_ERROR(add_term(rule, 1, keep_variable(rule, stage, v)));
    if (made_at >= stage) {
      DELTA_RETURN_IF_ERROR(end_row(rule, "=", 0));
      continue;
    }
    if (stays(rule, v)) {
      DELTA_RETURN_IF_ERROR(end_row(rule, "=", 1));
      continue;
    }
    DELTA_RETURN_IF_ERROR(add_term(rule, -1, keep_variable(rule, stage - 1, v)));
    DELTA_RETURN_IF_ERROR(add_run(rule, -1, stage - 1, made_at, &value));
    DELTA_RETURN_IF_ERROR(end_row(rule, "<=", value));
  }
  return DELTA_OK;
}

// A tensor goes after a step only if the step runs, no later step of the stage reads it, and the next stage does not keep it.
static delta_status_t write_free(checkmate_t *rule, uint32_t stage, uint32_t event) {
  const checkmate_event_t *at = &rule->events[event];
  const uint32_t variable = free_variable(rule, stage, event);
  double value = 0;
  DELTA_RETURN_IF_ERROR(add_term(rule, 1, variable));
  DELTA_RETURN_IF_ERROR(add_run(rule, -1, stage, at->place, &value));
  DELTA_RETURN_IF_ERROR(end_row(rule, "<=", value));
  for (uint32_t later = event + 1; later < rule->event_count && rule->events[later].place <= stage; ++later) {
    if (rule->events[later].tensor != at->tensor) continue;
    value = 1;
    DELTA_RETURN_IF_ERROR(add_term(rule, 1, variable));
    DELTA_RETURN_IF_ERROR(add_run(rule, 1, stage, rule->events[later].place, &value));
    DELTA_RETURN_IF_ERROR(end_row(rule, "<=", value));
  }
  const bool is_last = stage + 1 == rule->step_count;
  if (is_last && !stays(rule, at->tensor)) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(add_term(rule, 1, variable));
  if (!is_last) DELTA_RETURN_IF_ERROR(add_term(rule, 1, keep_variable(rule, stage + 1, at->tensor)));
  return end_row(rule, "<=", is_last ? 0 : 1);
}

// U[stage, place] = what lived at the place before (what is kept, for the first) less what went after it, and what the place makes.
static delta_status_t write_live(checkmate_t *rule, uint32_t stage, uint32_t place) {
  const delta_problem_step_t *step = step_at(rule, place);
  double value = 0, made_units = 0;
  DELTA_RETURN_IF_ERROR(add_term(rule, 1, live_variable(rule, stage, place)));
  for (uint32_t k = 0; k < step->output_count; ++k) {
    const uint32_t tensor = rule->index_of[step->outputs[k]];
    if (tensor != NONE) made_units += tensor_units(rule, tensor);
  }
  DELTA_RETURN_IF_ERROR(add_run(rule, -made_units, stage, place, &value));
  if (place == 0) {
    value += units_of(rule, rule->fixed_bytes);
    for (uint32_t v = 0; v < rule->tensor_count; ++v) {
      DELTA_RETURN_IF_ERROR(add_term(rule, -tensor_units(rule, v), keep_variable(rule, stage, v)));
    }
    return end_row(rule, "=", value);
  }
  DELTA_RETURN_IF_ERROR(add_term(rule, -1, live_variable(rule, stage, place - 1)));
  for (uint32_t e = 0; e < rule->event_count; ++e) {
    if (rule->events[e].place != place - 1) continue;
    DELTA_RETURN_IF_ERROR(add_term(rule, tensor_units(rule, rule->events[e].tensor), free_variable(rule, stage, e)));
  }
  return end_row(rule, "=", value);
}

static delta_status_t write_limit(checkmate_t *rule, uint32_t stage, uint32_t place) {
  double value = rule->minimizes_peak ? 0 : floor((double)rule->rival->capacity_bytes / (double)rule->unit_bytes);
  DELTA_RETURN_IF_ERROR(add_term(rule, 1, live_variable(rule, stage, place)));
  DELTA_RETURN_IF_ERROR(add_run(rule, units_of(rule, step_at(rule, place)->workspace_bytes), stage, place, &value));
  if (rule->minimizes_peak) DELTA_RETURN_IF_ERROR(add_term(rule, -1, peak_variable(rule)));
  return end_row(rule, "<=", value);
}

static delta_status_t write_objective(checkmate_t *rule) {
  DELTA_RETURN_IF_ERROR(delta_text_append(&rule->text, "Minimize\n cost:"));
  if (rule->minimizes_peak) DELTA_RETURN_IF_ERROR(add_term(rule, 1, peak_variable(rule)));
  for (uint32_t stage = 1; stage < rule->step_count && !rule->minimizes_peak; ++stage) {
    for (uint32_t place = 0; place < stage; ++place) {
      DELTA_RETURN_IF_ERROR(add_term(rule, 1e3 * step_at(rule, place)->seconds + 1e-9, run_variable(stage, place)));
    }
  }
  rule->term_count = 0;
  return delta_text_append(&rule->text, "\nSubject To\n");
}

static delta_status_t write_integers(checkmate_t *rule) {
  DELTA_RETURN_IF_ERROR(delta_text_append(&rule->text, "Binaries\n"));
  for (uint32_t variable = 0; variable < free_base(rule); ++variable) {
    DELTA_RETURN_IF_ERROR(delta_text_append(&rule->text, " x%u\n", variable));
  }
  return delta_text_append(&rule->text, "End\n");
}

static delta_status_t write_program(checkmate_t *rule) {
  DELTA_RETURN_IF_ERROR(write_objective(rule));
  for (uint32_t v = 0; v < rule->tensor_count; ++v) {
    DELTA_RETURN_IF_ERROR(add_term(rule, 1, keep_variable(rule, 0, v)));
    DELTA_RETURN_IF_ERROR(end_row(rule, "=", 0));
  }
  for (uint32_t stage = 0; stage < rule->step_count; ++stage) {
    if (stage > 0) DELTA_RETURN_IF_ERROR(write_kept(rule, stage));
    for (uint32_t place = 0; place <= stage; ++place) {
      DELTA_RETURN_IF_ERROR(write_inputs(rule, stage, place));
      DELTA_RETURN_IF_ERROR(write_live(rule, stage, place));
      DELTA_RETURN_IF_ERROR(write_limit(rule, stage, place));
    }
    for (uint32_t e = 0; e < rule->event_count && rule->events[e].place <= stage; ++e) {
      DELTA_RETURN_IF_ERROR(write_free(rule, stage, e));
    }
  }
  return write_integers(rule);
}

// ---- Beginning

static uint64_t common_divisor(uint64_t a, uint64_t b) {
  while (b > 0) {
    const uint64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static void list_tensors(checkmate_t *rule) {
  const delta_problem_t *problem = rule->rival->problem;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const delta_problem_tensor_t *tensor = &problem->tensors[t];
    rule->index_of[t] = rule->written_at[t] = NONE;
    if (delta_problem_tensor_is_state(tensor)) continue;
    rule->unit_bytes = common_divisor(rule->unit_bytes, tensor->size_bytes);
    if (rule->rival->map.producers[t] == NONE) {
      rule->fixed_bytes += tensor->size_bytes;
      continue;
    }
    rule->index_of[t] = rule->tensor_count;
    rule->tensors[rule->tensor_count++] = t;
  }
  for (uint32_t p = 0; p < rule->step_count; ++p) {
    const delta_problem_step_t *step = step_at(rule, p);
    if (step->workspace_bytes > 0) rule->unit_bytes = common_divisor(rule->unit_bytes, step->workspace_bytes);
    for (uint32_t k = 0; k < step->output_count; ++k) {
      const uint32_t state = problem->tensors[step->outputs[k]].becomes_state;
      if (state != NONE) rule->written_at[state] = p;
    }
  }
  if (rule->unit_bytes == 0) rule->unit_bytes = 1;
}

static void list_events(checkmate_t *rule) {
  for (uint32_t p = 0; p < rule->step_count; ++p) {
    const delta_problem_step_t *step = step_at(rule, p);
    for (uint32_t k = 0; k < step->input_count + step->output_count; ++k) {
      const uint32_t tensor = rule->index_of[k < step->input_count ? step->inputs[k] : step->outputs[k - step->input_count]];
      if (tensor != NONE) rule->events[rule->event_count++] = (checkmate_event_t){tensor, p};
    }
  }
}

static delta_status_t begin(checkmate_t *rule) {
  delta_region_t *region = &rule->rival->region;
  const uint32_t tensor_count = rule->rival->problem->tensor_count;
  size_t event_count = 0;
  for (uint32_t p = 0; p < rule->step_count; ++p) event_count += (size_t)step_at(rule, p)->input_count + step_at(rule, p)->output_count;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, tensor_count, &rule->tensors));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, tensor_count, &rule->index_of));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, tensor_count, &rule->written_at));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, event_count, &rule->events));
  list_tensors(rule);
  list_events(rule);
  return DELTA_OK;
}

// ---- Solving

static delta_status_t offer_runs(const checkmate_t *rule, const double *values) {
  const delta_allocator_t allocator = rule->rival->allocator;
  DELTA_ARRAY(uint32_t) runs = {0};
  delta_status_t status = DELTA_OK;
  for (uint32_t stage = 0; stage < rule->step_count && !status; ++stage) {
    for (uint32_t place = 0; place <= stage && !status; ++place) {
      if (place < stage && values[run_variable(stage, place)] < 0.5) continue;
      status = delta_array_push(allocator, &runs, &rule->rival->order->steps[place]);
    }
  }
  if (!status) status = delta_rival_offer_runs(rule->rival, runs.items, (uint32_t)runs.count);
  delta_array_deinit(allocator, &runs);
  return status;
}

static delta_status_t solve(checkmate_t *rule, bool minimizes_peak, delta_integer_solution_t *out_solution) {
  const size_t value_count = (size_t)peak_variable(rule) + 1;
  double *values = NULL;
  rule->minimizes_peak = minimizes_peak;
  rule->text.count = 0;
  DELTA_RETURN_IF_ERROR(write_program(rule));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(rule->rival->allocator, value_count, &values));
  delta_status_t status = rule->rival->solver->solve(rule->rival->solver->self, rule->text.items, values, value_count, out_solution);
  if (!status && out_solution->is_found) status = offer_runs(rule, values);
  delta_release(rule->rival->allocator, values);
  return status;
}

delta_status_t delta_rule_checkmate(delta_rival_t *rival) {
  checkmate_t rule = {.rival = rival, .step_count = rival->order->step_count};
  delta_integer_solution_t solution = {0};
  if (!rival->solver) {
    return delta_status_make(UNSUPPORTED, "policy 'checkmate' needs a solver for integer programs: the program 'cbc' (Debian: coinor-cbc)");
  }
  if (rule.step_count > MOST_STEPS || rule.step_count < 2) {
    return delta_status_make(UNSUPPORTED,
                             "policy 'checkmate' plans programs of 2 to %d steps, this one has %u: its integer program would be too "
                             "large; take another policy",
                             MOST_STEPS, rule.step_count);
  }
  DELTA_RETURN_IF_ERROR(begin(&rule));
  delta_text_init(&rule.text, rival->allocator);
  delta_status_t status = rival->capacity_bytes > 0 ? solve(&rule, false, &solution) : DELTA_OK;
  // Where nothing fits, the least that does is of interest.
  if (!status && !solution.is_found) status = solve(&rule, true, &solution);
  delta_text_deinit(&rule.text);
  return status;
}
