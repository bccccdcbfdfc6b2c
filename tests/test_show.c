// Report and trace: every buffer and every decision is in them, names cannot leave their strings, sums and peaks are the plan's, times never fall.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "plans/report.h"
#include "plans/trace.h"
#include "tests/support/planning.h"
#include "tests/support/support.h"

static const char hostile_name[] = "</script><img src=x onerror=alert(1)><!--\xff\n\"";
static const char hostile_shown[] = "</script><img src=x onerror=alert(1)><!--\\xff\\x0a\"";

// A random problem, planned so that tensors leave and come back.
typedef struct shown_case {
  uint64_t seed;
  delta_policy_t policy; // COUNT: random copies and repetitions
} shown_case_t;

static const shown_case_t shown_cases[] = {
    {1, DELTA_POLICY_COUNT}, {2, DELTA_POLICY_COUNT}, {3, DELTA_POLICY_COUNT},       {4, DELTA_POLICY_NONE},
    {5, DELTA_POLICY_DELTA}, {6, DELTA_POLICY_DELTA}, {7, DELTA_POLICY_DELTA_FIXED}, {8, DELTA_POLICY_RECOMPUTE},
};

static delta_schedule_t *plan_case(const shown_case_t *c, delta_problem_t *problem) {
  if (c->policy == DELTA_POLICY_COUNT) {
    delta_schedule_t *schedule = delta_test_swapped_schedule(problem, c->seed);
    delta_test_must(delta_simulate(problem, schedule, delta_allocator_system()));
    return schedule;
  }
  const delta_planner_options_t options = {.policy = c->policy, .early_update = true, .effort.evaluation_limit = 300};
  delta_planner_t *planner = NULL;
  delta_planner_result_t result;
  delta_test_must(delta_planner_create(problem, &options, delta_allocator_system(), &planner));
  delta_test_must(delta_planner_plan(planner, delta_planner_minimum_bytes(planner), &result));
  delta_planner_destroy(planner);
  return result.schedule;
}

typedef struct shown {
  delta_problem_t *problem;
  delta_schedule_t *schedule;
  delta_view_t view;
  delta_text_t text;
  delta_json_document_t *document;
} shown_t;

static void open_case(const shown_case_t *c, shown_t *shown) {
  *shown = (shown_t){.problem = delta_test_random_problem(c->seed, 40)};
  if (c->policy != DELTA_POLICY_COUNT && c->seed % 2) delta_test_move_states_below(shown->problem, c->seed);
  shown->problem->tensors[0].name = shown->problem->steps[0].name = hostile_name;
  shown->schedule = plan_case(c, shown->problem);
  shown->view = (delta_view_t){.program = "train", .batch = 4, .problem = shown->problem, .schedule = shown->schedule, .state_bytes = 4096};
  delta_text_init(&shown->text, delta_allocator_system());
}

static void close_case(shown_t *shown) {
  delta_json_free(shown->document);
  delta_text_deinit(&shown->text);
  delta_schedule_free(shown->schedule);
  delta_problem_free(shown->problem);
}

static void parse(shown_t *shown, const char *text, size_t size_bytes) {
  char *copy = NULL;
  delta_test_must(DELTA_ALLOCATE(delta_allocator_system(), size_bytes + 1, &copy));
  memcpy(copy, text, size_bytes);
  delta_status_t status = delta_json_parse(copy, size_bytes, "shown", delta_allocator_system(), &shown->document);
  cr_assert_null(status, "%s", delta_status_message(status));
  delta_release(delta_allocator_system(), copy);
}

static const delta_json_value_t *member(const delta_json_value_t *value, const char *key) {
  const delta_json_value_t *found = delta_json_find(value, key);
  cr_assert_not_null(found, "no member '%s'", key);
  return found;
}

static double number(const shown_t *shown, const delta_json_value_t *value) {
  double result = 0;
  delta_test_must(delta_json_as_double(shown->document, value, "number", &result));
  return result;
}

static double number_of(const shown_t *shown, const delta_json_value_t *object, const char *key) {
  return number(shown, member(object, key));
}

static const char *string(const shown_t *shown, const delta_json_value_t *value) {
  const char *result = NULL;
  delta_test_must(delta_json_as_string(shown->document, value, "string", &result));
  return result;
}

static size_t count_of(const delta_json_value_t *array) {
  size_t count = 0;
  for (const delta_json_value_t *v = delta_json_first(array); v; v = delta_json_next(v)) ++count;
  return count;
}

static size_t count_text(const char *text, const char *wanted) {
  size_t count = 0;
  for (const char *at = strstr(text, wanted); at; at = strstr(at + 1, wanted)) ++count;
  return count;
}

// ---- Report

static double sum_of(const shown_t *shown, const delta_json_value_t *array) {
  double sum = 0;
  for (const delta_json_value_t *v = delta_json_first(array); v; v = delta_json_next(v)) sum += number(shown, v);
  return sum;
}

static void make_page(shown_t *shown) {
  const delta_report_state_t state = {.name = hostile_name, .kind = "parameter", .type = "float32 [4]", .size_bytes = 4096};
  const delta_budget_point_t point = {.budget_bytes = 1 << 20, .fits = true, .peak_bytes = 1 << 19, .step_seconds = 2};
  const delta_report_t report = {.model = hostile_name,
                                 .policy = "delta",
                                 .batch = 4,
                                 .budget_bytes = 1 << 20,
                                 .peak_bytes = shown->schedule->peak_bytes + 4096,
                                 .state_bytes = 4096,
                                 .step_seconds = shown->schedule->step_seconds,
                                 .states = &state,
                                 .state_count = 1,
                                 .views = &shown->view,
                                 .view_count = 1,
                                 .points = &point,
                                 .point_count = 1};
  delta_test_must(delta_report_text(&report, delta_allocator_system(), &shown->text));
  static const char begin[] = "<script type=\"application/json\" id=\"data\">", end[] = "</script>";
  const char *data = strstr(shown->text.items, begin);
  cr_assert_not_null(data);
  data += sizeof begin - 1;
  parse(shown, data, (size_t)(strstr(data, end) - data));
}

// The page is itself: nothing from a name is a tag, and nothing is fetched.
static void expect_closed(const shown_t *shown) {
  cr_expect_eq(count_text(shown->text.items, "<img"), 0);
  cr_expect_eq(count_text(shown->text.items, "<!--"), 0);
  cr_expect_eq(count_text(shown->text.items, "<script"), 2);
  cr_expect_eq(count_text(shown->text.items, "</script>"), 2);
  cr_expect_eq(count_text(shown->text.items, "src="), count_text(shown->text.items, "\\u003cimg src="), "something is fetched");
  cr_expect_eq(
      count_text(shown->text.items, "@DATA@") + count_text(shown->text.items, "@STYLE@") + count_text(shown->text.items, "@SCRIPT@"), 0);
  cr_expect_not_null(strstr(shown->text.items, "default-src 'none'"));
}

ParameterizedTestParameters(show, report) {
  return cr_make_param_array(shown_case_t, (void *)shown_cases, sizeof shown_cases / sizeof *shown_cases);
}

ParameterizedTest(shown_case_t *c, show, report) {
  shown_t shown;
  open_case(c, &shown);
  make_page(&shown);
  expect_closed(&shown);
  const delta_json_value_t *root = delta_json_root(shown.document), *program = delta_json_first(member(root, "programs"));
  const delta_json_value_t *buffers = member(program, "buffers"), *decisions = member(program, "decisions"),
                           *steps = member(program, "steps");
  cr_expect_str_eq(string(&shown, member(root, "model")), hostile_shown);
  cr_expect_str_eq(string(&shown, delta_json_first(member(member(program, "tensors"), "name"))), hostile_shown);
  cr_expect_str_eq(string(&shown, delta_json_first(member(member(program, "nodes"), "name"))), hostile_shown);
  cr_expect_str_eq(string(&shown, delta_json_first(member(member(root, "states"), "name"))), hostile_shown);
  cr_expect_eq(count_of(member(root, "points")), 1);
  // Every buffer, in order.
  const delta_json_value_t *offset = delta_json_first(member(buffers, "offset_bytes"));
  for (uint32_t b = 0; b < shown.schedule->buffer_count; ++b, offset = delta_json_next(offset))
    cr_expect_eq(number(&shown, offset), (double)shown.schedule->buffers[b].offset_bytes);
  cr_expect_null(offset);
  cr_expect_eq(count_of(member(steps, "start_ns")), shown.schedule->step_count);
  // Every decision: as many gaps as tensors come back, and what they cost.
  uint32_t swaps_in = 0, tensors = 0, stays = 0;
  for (uint32_t s = 0; s < shown.schedule->step_count; ++s) swaps_in += shown.schedule->steps[s].kind == DELTA_STEP_SWAP_IN;
  for (uint32_t t = 0; t < shown.problem->tensor_count; ++t) {
    uint32_t count = 0;
    for (uint32_t b = 0; b < shown.schedule->buffer_count; ++b) count += shown.schedule->buffers[b].tensor == t;
    tensors += count > 0;
    stays += count;
  }
  uint32_t kept = 0, swapped = 0, rebuilt = 0, below_at_end = 0;
  const delta_json_value_t *after = delta_json_first(member(decisions, "after"));
  for (const delta_json_value_t *a = delta_json_first(member(decisions, "action")); a;
       a = delta_json_next(a), after = delta_json_next(after)) {
    kept += strcmp(string(&shown, a), "keep") == 0;
    swapped += strcmp(string(&shown, a), "swap") == 0;
    rebuilt += strcmp(string(&shown, a), "rebuild") == 0;
    below_at_end += number(&shown, after) < 0;
  }
  cr_expect_eq(swapped, swaps_in + below_at_end, "%u swaps, %u copies back", swapped, swaps_in);
  cr_expect_geq(swapped + rebuilt, stays - tensors);
  cr_expect_leq(kept, tensors);
  cr_expect_eq(count_of(member(decisions, "tensor")), kept + swapped + rebuilt);
  const double slack_ns = 2.0 + (double)shown.schedule->step_count;
  cr_expect_float_eq(sum_of(&shown, member(decisions, "rebuild_ns")), shown.schedule->recompute_seconds * 1e9, slack_ns);
  cr_expect_leq(sum_of(&shown, member(decisions, "wait_ns")), shown.schedule->stall_seconds * 1e9 + slack_ns);
  close_case(&shown);
}

// ---- Trace

ParameterizedTestParameters(show, trace) {
  return cr_make_param_array(shown_case_t, (void *)shown_cases, sizeof shown_cases / sizeof *shown_cases);
}

ParameterizedTest(shown_case_t *c, show, trace) {
  shown_t shown;
  open_case(c, &shown);
  delta_view_t views[2] = {shown.view, shown.view};
  views[1].program = "evaluate";
  const delta_trace_head_t head = {.model = hostile_name, .source = "planned"};
  delta_test_must(delta_trace_text(&head, views, 2, delta_allocator_system(), &shown.text));
  parse(&shown, shown.text.items, shown.text.count);
  const delta_json_value_t *root = delta_json_root(shown.document);
  cr_expect_str_eq(string(&shown, member(member(root, "otherData"), "model")), hostile_shown);
  double time = 0, peak = 0, last_process = 0, lane_end[3][DELTA_LANE_COUNT] = {{0}};
  uint32_t steps = 0;
  for (const delta_json_value_t *e = delta_json_first(member(root, "traceEvents")); e; e = delta_json_next(e)) {
    const char *phase = string(&shown, member(e, "ph"));
    const double process = number_of(&shown, e, "pid");
    if (process != last_process) time = 0;
    last_process = process;
    if (phase[0] == 'M') continue;
    cr_assert_geq(number_of(&shown, e, "ts"), time, "times fall");
    time = number_of(&shown, e, "ts");
    if (phase[0] == 'C') {
      peak = fmax(peak, number_of(&shown, member(e, "args"), "live_bytes"));
    } else {
      // Steps of one lane run one after another.
      double *end = &lane_end[(int)process][(int)number_of(&shown, e, "tid")];
      cr_expect_geq(time, *end - 0.002);
      *end = time + number_of(&shown, e, "dur");
      ++steps;
    }
  }
  cr_expect_eq(last_process, 2);
  cr_expect_eq(steps, 2 * shown.schedule->step_count);
  cr_expect_eq(peak, (double)(shown.schedule->peak_bytes + shown.view.state_bytes), "peak %g", peak);
  close_case(&shown);
}

// Whatever allocation fails, nothing is left.
Test(show, allocations_may_fail, .timeout = 60) {
  shown_t shown;
  open_case(&shown_cases[4], &shown);
  const delta_report_t report = {.model = "m", .views = &shown.view, .view_count = 1};
  const delta_trace_head_t head = {.model = "m", .source = "planned"};
  size_t failures = 0;
  for (size_t n = 1;; ++n) {
    delta_test_allocator_t faults;
    delta_test_allocator_init(&faults, n, DELTA_TEST_FAIL_ONCE);
    const delta_allocator_t allocator = delta_test_allocator_interface(&faults);
    delta_text_t text;
    delta_text_init(&text, allocator);
    delta_status_t status = delta_report_text(&report, allocator, &text);
    if (!status) status = delta_trace_text(&head, &shown.view, 1, allocator, &text);
    cr_assert(!status || delta_status_code(status) == DELTA_STATUS_OUT_OF_MEMORY, "%s", delta_status_message(status));
    const bool failed = status != NULL;
    failures += failed;
    delta_status_free(status);
    delta_text_deinit(&text);
    cr_assert_eq(faults.live_bytes, 0, "allocation %zu leaves %zu bytes", n, (size_t)faults.live_bytes);
    if (!failed) break;
  }
  cr_assert_geq(failures, 20);
  close_case(&shown);
}

// Measured times take the place of planned ones.
Test(show, measured_times) {
  shown_t shown;
  open_case(&shown_cases[0], &shown);
  delta_step_times_t *times = NULL;
  delta_test_must(DELTA_ALLOCATE(delta_allocator_system(), shown.schedule->step_count, &times));
  for (uint32_t s = 0; s < shown.schedule->step_count; ++s) times[s] = (delta_step_times_t){7 + s, 7.5 + s};
  shown.view.times = times;
  const delta_trace_head_t head = {.model = "m", .source = "measured"};
  delta_test_must(delta_trace_text(&head, &shown.view, 1, delta_allocator_system(), &shown.text));
  parse(&shown, shown.text.items, shown.text.count);
  for (const delta_json_value_t *e = delta_json_first(member(delta_json_root(shown.document), "traceEvents")); e; e = delta_json_next(e)) {
    if (string(&shown, member(e, "ph"))[0] != 'X') continue;
    cr_expect_eq(number_of(&shown, e, "ts"), 1e6 * (7 + number_of(&shown, member(e, "args"), "step")));
    cr_expect_eq(number_of(&shown, e, "dur"), 5e5);
  }
  delta_release(delta_allocator_system(), times);
  close_case(&shown);
}
