// Problem files: the budget limits live bytes; addresses are laid out afterwards and may take more.
#include "cli/problem_plan.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "cli/problem_show.h"
#include "planner/addresses.h"
#include "planner/least.h"
#include "planner/rival_plan.h"
#include "plans/plan_json.h"
#include "plans/problem_json.h"
#include "runtime/integer_solver.h"

enum { FILE_LIMIT_BYTES = 1 << 30, HEAD_BYTES = 256, MOST_LINES = 40 };

static const char *const action_names[] = {
#define ACTION_NAME(id, name) name,
    DELTA_ACTIONS(ACTION_NAME)
#undef ACTION_NAME
};

typedef struct policy_liberties {
  const char *policy;
  delta_liberties_t liberties;
} policy_liberties_t;
static const policy_liberties_t policy_rows[] = {
    {"delta", {true, true}}, {"swap", {.may_swap = true}}, {"recompute", {.may_rebuild = true}}, {"none", {false, false}}};

typedef struct problem_plan {
  const delta_problem_request_t *request;
  delta_allocator_t allocator;
  const char *policy;
  delta_problem_t *problem; // Owned.
  delta_order_t order;
  delta_decision_list_t items;
  delta_decisions_t decisions;
  delta_search_result_t result;
  delta_rival_t rival;        // of a rival's policy: owns the lists of its decisions
  delta_schedule_t *schedule; // Owned.
  delta_time_limit_t limit;
  double bound_seconds;
  const char *seed_policy; // static, or NULL
  bool seed_is_plan;
} problem_plan_t;

bool delta_is_problem_file(const char *path) {
  char head[HEAD_BYTES];
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  const size_t count = fread(head, 1, sizeof head, file);
  fclose(file);
  size_t at = 0;
  while (at < count && strchr(" \t\r\n", head[at])) ++at;
  return at < count && head[at] == '{';
}

static double spent_part(void *self) { return delta_time_limit_spent(&((const problem_plan_t *)self)->limit); }

static delta_status_t read_problem(problem_plan_t *plan) {
  const delta_problem_request_t *request = plan->request;
  char *text = NULL;
  size_t size_bytes = 0;
  DELTA_RETURN_IF_ERROR(delta_file_read_all(request->path, FILE_LIMIT_BYTES, plan->allocator, &text, &size_bytes));
  delta_status_t status = delta_problem_from_json(text, size_bytes, request->path, plan->allocator, &plan->problem);
  delta_release(plan->allocator, text);
  if (status || !request->budget) return status;
  if (strcmp(request->budget, "unlimited") == 0) {
    plan->problem->budget_bytes = UINT64_MAX;
    return DELTA_OK;
  }
  return delta_status_annotate(delta_size_parse(request->budget, &plan->problem->budget_bytes), "--budget of a problem file");
}

static delta_status_t find_liberties(const char *policy, delta_liberties_t *out_liberties) {
  for (size_t i = 0; i < sizeof policy_rows / sizeof *policy_rows; ++i) {
    if (strcmp(policy_rows[i].policy, policy) != 0) continue;
    *out_liberties = policy_rows[i].liberties;
    return DELTA_OK;
  }
  return delta_status_make(
      UNSUPPORTED, "--policy %s plans models; for a problem file give delta, swap, recompute, none, or the name of a rival", policy);
}

// The rule of a rival's policy, or NULL.
static delta_rival_rule_t find_rule(const problem_plan_t *plan) {
  for (int p = 0; plan->request->policy && p < DELTA_POLICY_COUNT; ++p) {
    if (strcmp(delta_policy_info((delta_policy_t)p)->name, plan->request->policy) == 0) return delta_rival_rule((delta_policy_t)p);
  }
  return NULL;
}

// Runs a rule; plan->rival is its rival if that is better than the one before.
static delta_status_t follow_rule(problem_plan_t *plan, delta_rival_rule_t rule, bool *out_better) {
  delta_cbc_t cbc = {.limit_seconds = plan->request->time_limit_seconds, .allocator = plan->allocator};
  const delta_integer_solver_t solver = delta_cbc_solver(&cbc);
  delta_rival_t rival;
  DELTA_RETURN_IF_ERROR(delta_rival_init(&rival, plan->problem, &plan->order, plan->problem->budget_bytes,
                                         delta_cbc_is_installed() ? &solver : NULL, plan->allocator));
  delta_status_t status = rule(&rival);
  rival.solver = NULL;
  *out_better = !status && (!plan->rival.problem || rival.best_evaluation.seconds < plan->rival.best_evaluation.seconds);
  delta_rival_deinit(*out_better ? &plan->rival : &rival);
  if (*out_better) plan->rival = rival;
  return status;
}

// The plan is that of the rival.
static void take_rival(problem_plan_t *plan) {
  plan->decisions = delta_rival_best(&plan->rival);
  plan->result = (delta_search_result_t){.fits = plan->rival.best_evaluation.seconds < INFINITY,
                                         .evaluation = plan->rival.best_evaluation,
                                         .evaluation_count = plan->rival.evaluator.evaluation_count};
}

static delta_status_t plan_by_rule(problem_plan_t *plan, delta_rival_rule_t rule) {
  bool is_better;
  DELTA_RETURN_IF_ERROR(follow_rule(plan, rule, &is_better));
  take_rival(plan);
  return delta_rival_list_decisions(&plan->rival, &plan->decisions, &plan->items);
}

static delta_status_t follow_rivals(problem_plan_t *plan) {
  for (int p = 0; p < DELTA_POLICY_COUNT; ++p) {
    const delta_rival_rule_t rule = delta_rival_rule((delta_policy_t)p);
    bool is_better = false;
    if (!rule || p == DELTA_POLICY_CHECKMATE) continue;
    DELTA_RETURN_IF_ERROR(follow_rule(plan, rule, &is_better));
    if (is_better) plan->seed_policy = delta_policy_info((delta_policy_t)p)->name;
  }
  return DELTA_OK;
}

static delta_status_t plan_by_search(problem_plan_t *plan, delta_search_options_t *options) {
  delta_decision_list_t start_items = {0};
  delta_decisions_t start = {.tail = DELTA_ACTION_REBUILD_DROP};
  delta_status_t status = DELTA_OK;
  const bool begins = plan->request->begin_with_rivals && options->liberties.may_swap && options->liberties.may_rebuild;
  if (begins) DELTA_GOTO_IF_ERROR(status, follow_rivals(plan), cleanup);
  if (begins) {
    const delta_decisions_t best = delta_rival_best(&plan->rival);
    DELTA_GOTO_IF_ERROR(status, delta_rival_list_decisions(&plan->rival, &best, &start_items), cleanup);
    start.items = start_items.items;
    start.count = start_items.count;
    options->start = &start;
    plan->limit = delta_time_limit_from_now(plan->request->time_limit_seconds); // the rivals' time does not count
  }
  DELTA_GOTO_IF_ERROR(
      status, delta_search(plan->problem, &plan->order, options, plan->allocator, &plan->items, &plan->decisions, &plan->result), cleanup);
  plan->seed_is_plan = begins && plan->rival.best_evaluation.seconds < plan->result.evaluation.seconds;
  if (plan->seed_is_plan) take_rival(plan);
cleanup:
  delta_array_deinit(plan->allocator, &start_items);
  return status;
}

// Says what the least full decisions need, and what fills them.
static delta_status_t refuse_budget(const problem_plan_t *plan) {
  delta_schedule_t *schedule = NULL;
  delta_text_t peak;
  delta_text_init(&peak, plan->allocator);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_expand(plan->problem, &plan->order, &plan->decisions, plan->allocator, &schedule), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_describe_peak(plan->problem, schedule, &peak), cleanup);
  status = delta_status_make(DOES_NOT_FIT,
                             "%s: policy '%s' found no plan in %llu bytes; the least full one that it found needs %llu; %s (a longer "
                             "--time-limit may find a better one)",
                             plan->request->path, plan->policy, (unsigned long long)plan->problem->budget_bytes,
                             (unsigned long long)plan->result.evaluation.peak_bytes, peak.items);
cleanup:
  delta_schedule_free(schedule);
  delta_text_deinit(&peak);
  return status;
}

static delta_status_t search(problem_plan_t *plan) {
  const delta_problem_request_t *request = plan->request;
  delta_search_options_t options = {.capacity_bytes = plan->problem->budget_bytes,
                                    .effort = {.seed = request->seed, .spent_part = spent_part, .self = plan}};
  const delta_rival_rule_t rule = find_rule(plan);
  if (!rule) DELTA_RETURN_IF_ERROR(find_liberties(plan->policy, &options.liberties));
  DELTA_RETURN_IF_ERROR(delta_order_listed(plan->problem, plan->allocator, &plan->order));
  plan->limit = delta_time_limit_from_now(request->time_limit_seconds);
  DELTA_RETURN_IF_ERROR(rule ? plan_by_rule(plan, rule) : plan_by_search(plan, &options));
  if (!plan->result.fits) return refuse_budget(plan);
  DELTA_RETURN_IF_ERROR(delta_lower_bound(plan->problem, &plan->order, plan->problem->budget_bytes, plan->result.evaluation.seconds,
                                          plan->allocator, &plan->bound_seconds));
  DELTA_RETURN_IF_ERROR(
      delta_timed_schedule(plan->problem, &plan->order, &plan->decisions, plan->problem->budget_bytes, plan->allocator, &plan->schedule));
  return delta_layout_within(plan->schedule, plan->problem->budget_bytes, false, plan->allocator);
}

// ---- Output

static void write_decisions(delta_json_writer_t *writer, const problem_plan_t *plan) {
  delta_json_begin_array(writer, "decisions");
  for (size_t i = 0; i < plan->items.count; ++i) {
    delta_json_begin_inline_object(writer, NULL);
    delta_json_write_string(writer, "tensor", plan->problem->tensors[plan->items.items[i].tensor].name);
    delta_json_write_int64(writer, "after_use", plan->items.items[i].use);
    delta_json_write_string(writer, "action", action_names[plan->items.items[i].action]);
    delta_json_end_object(writer);
  }
  delta_json_end_array(writer);
}

static void write_buffers(delta_json_writer_t *writer, const problem_plan_t *plan, const char *key, const uint32_t *buffers,
                          uint32_t count) {
  if (count == 0) return;
  delta_json_begin_inline_array(writer, key);
  for (uint32_t k = 0; k < count; ++k) {
    if (buffers[k] == DELTA_PROBLEM_NONE) continue;
    const delta_buffer_t *buffer = &plan->schedule->buffers[buffers[k]];
    delta_json_begin_inline_object(writer, NULL);
    delta_json_write_string(writer, "tensor", plan->problem->tensors[buffer->tensor].name);
    delta_json_write_int64(writer, "offset", (int64_t)buffer->offset_bytes);
    delta_json_end_object(writer);
  }
  delta_json_end_array(writer);
}

static void write_steps(delta_json_writer_t *writer, const problem_plan_t *plan) {
  delta_json_begin_array(writer, "steps");
  for (uint32_t s = 0; s < plan->schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &plan->schedule->steps[s];
    delta_json_begin_inline_object(writer, NULL);
    delta_json_write_string(writer, "kind", delta_step_kind_names.names[step->kind]);
    if (step->kind == DELTA_STEP_RUN) delta_json_write_string(writer, "node", plan->problem->steps[step->problem_step].name);
    delta_json_write_double(writer, "start_s", step->start_seconds);
    delta_json_write_double(writer, "end_s", step->end_seconds);
    write_buffers(writer, plan, "inputs", step->inputs, step->input_count);
    write_buffers(writer, plan, "outputs", step->outputs, step->output_count);
    delta_json_end_object(writer);
  }
  delta_json_end_array(writer);
}

static delta_status_t describe(const problem_plan_t *plan, bool with_steps, delta_text_t *out_text) {
  delta_json_writer_t writer;
  const uint64_t budget_bytes = plan->problem->budget_bytes;
  delta_json_writer_init(&writer, out_text, false);
  delta_json_begin_object(&writer, NULL);
  delta_json_write_string(&writer, "problem", plan->request->path);
  delta_json_write_string(&writer, "policy", plan->policy);
  if (budget_bytes == UINT64_MAX) delta_json_write_null(&writer, "budget_bytes");
  if (budget_bytes != UINT64_MAX) delta_json_write_int64(&writer, "budget_bytes", (int64_t)budget_bytes);
  delta_json_write_int64(&writer, "peak_bytes", (int64_t)plan->result.evaluation.peak_bytes);
  delta_json_write_int64(&writer, "evaluations", (int64_t)plan->result.evaluation_count);
  delta_json_write_double(&writer, "lower_bound_seconds", plan->bound_seconds);
  if (plan->schedule) {
    delta_json_write_int64(&writer, "arena_bytes", (int64_t)plan->schedule->arena_bytes);
    delta_json_write_double(&writer, "makespan_seconds", plan->result.evaluation.seconds);
    delta_json_write_double(&writer, "recompute_seconds", plan->schedule->recompute_seconds);
    delta_json_write_double(&writer, "stall_seconds", plan->schedule->stall_seconds);
    write_decisions(&writer, plan);
    if (with_steps) write_steps(&writer, plan);
  }
  delta_json_end_object(&writer);
  DELTA_RETURN_IF_ERROR(delta_json_writer_finish(&writer));
  return delta_text_append(out_text, "\n");
}

static void print_text(const problem_plan_t *plan) {
  const delta_schedule_t *schedule = plan->schedule;
  char size[DELTA_SIZE_TEXT_BYTES];
  printf("%s: %u nodes, %u tensors, policy %s\n", plan->request->path, plan->problem->step_count, plan->problem->tensor_count,
         plan->policy);
  printf("  %-28s %12g s\n", "makespan", plan->result.evaluation.seconds);
  printf("  %-28s %12g s\n", "no plan is faster than", plan->bound_seconds);
  printf("  %-28s %12s\n", "largest sum of live bytes", delta_size_text(plan->result.evaluation.peak_bytes, size));
  printf("  %-28s %12s\n", "arena", delta_size_text(schedule->arena_bytes, size));
  printf("  %-28s %12zu in %llu evaluations\n", "decisions", plan->items.count, (unsigned long long)plan->result.evaluation_count);
  for (size_t i = 0; i < plan->items.count && i < MOST_LINES; ++i) {
    const delta_decision_t *decision = &plan->items.items[i];
    const delta_problem_tensor_t *tensor = &plan->problem->tensors[decision->tensor];
    printf("    %-12s %s after use %u (%s)\n", action_names[decision->action], tensor->name, decision->use,
           delta_size_text(tensor->size_bytes, size));
  }
  if (plan->items.count > MOST_LINES) printf("    and %zu more, which --json lists\n", plan->items.count - MOST_LINES);
}

static delta_status_t write_output(const problem_plan_t *plan) {
  delta_text_t text;
  delta_text_init(&text, plan->allocator);
  delta_status_t status = describe(plan, true, &text);
  if (!status) status = delta_file_replace(plan->request->output, text.items, text.count, plan->allocator);
  delta_text_deinit(&text);
  return status;
}

static delta_status_t show(const problem_plan_t *plan, double planning_seconds) {
  delta_problem_shown_t shown = {.request = plan->request,
                                 .policy = plan->policy,
                                 .problem = plan->problem,
                                 .order = &plan->order,
                                 .schedule = plan->schedule,
                                 .lower_bound_seconds = plan->bound_seconds,
                                 .planning_seconds = planning_seconds};
  DELTA_RETURN_IF_ERROR(find_liberties(plan->policy, &shown.liberties));
  return delta_problem_show(&shown, plan->allocator);
}

static delta_status_t print_json(const problem_plan_t *plan) {
  delta_text_t text;
  delta_text_init(&text, plan->allocator);
  delta_status_t status = describe(plan, false, &text);
  if (!status) fputs(text.items, stdout);
  delta_text_deinit(&text);
  return status;
}

static void deinit_plan(problem_plan_t *plan) {
  delta_rival_deinit(&plan->rival);
  delta_schedule_free(plan->schedule);
  delta_array_deinit(plan->allocator, &plan->items);
  delta_order_deinit(&plan->order);
  delta_problem_free(plan->problem);
}

delta_status_t delta_plan_problem(const delta_problem_request_t *request, delta_allocator_t allocator) {
  problem_plan_t plan = {.request = request, .allocator = allocator, .order = {.allocator = allocator}};
  plan.policy = request->policy ? request->policy : policy_rows[0].policy;
  const double start_seconds = delta_clock_seconds();
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, read_problem(&plan), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_problem_check_outputs(request, allocator), cleanup);
  status = search(&plan);
  const double planning_seconds = delta_clock_seconds() - start_seconds;
  const bool has_numbers = !status || delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT;
  if (has_numbers && request->json) status = delta_status_join(status, print_json(&plan));
  if (!status && !request->json) print_text(&plan);
  if (!status && request->output) status = write_output(&plan);
  if (!status) status = show(&plan, planning_seconds);
cleanup:
  deinit_plan(&plan);
  return status;
}

delta_status_t delta_plan_problem_quietly(const delta_problem_request_t *request, const uint64_t *budget_bytes, delta_allocator_t allocator,
                                          delta_problem_outcome_t *out_outcome, uint64_t *out_budget_bytes) {
  problem_plan_t plan = {.request = request, .allocator = allocator, .order = {.allocator = allocator}};
  plan.policy = request->policy ? request->policy : policy_rows[0].policy;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, read_problem(&plan), cleanup);
  if (budget_bytes) plan.problem->budget_bytes = *budget_bytes;
  if (out_budget_bytes) *out_budget_bytes = plan.problem->budget_bytes;
  status = search(&plan);
  *out_outcome = (delta_problem_outcome_t){.seconds = plan.result.evaluation.seconds,
                                           .peak_bytes = plan.result.evaluation.peak_bytes,
                                           .seed_policy = plan.seed_policy,
                                           .seed_is_plan = plan.seed_is_plan};
  if (!plan.schedule) goto cleanup;
  out_outcome->recompute_seconds = plan.schedule->recompute_seconds;
  out_outcome->stall_seconds = plan.schedule->stall_seconds;
  out_outcome->swapped_bytes = plan.schedule->swapped_bytes;
cleanup:
  deinit_plan(&plan);
  return status;
}
