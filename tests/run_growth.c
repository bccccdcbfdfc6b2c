// run_growth [STEPS...]: how the planner's time and memory grow with the size of the problem (1000 10000 100000).
//
// The problem is a made training step: a chain of blocks with skips forward, and back again. For half of what it takes without a budget it prints the least budget, the first plan
// that fits, how long they took (this process's own time), and the largest memory so far.
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "tests/support/planning.h"

enum { MIB = 1 << 20, SKIP = 4, TENSORS_PER_NODE = 2 };

static double own_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_utime.tv_sec + 1e-6 * (double)usage.ru_utime.tv_usec;
}

static double most_mebibytes(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_maxrss / 1024;
}

static void add_tensor(delta_problem_t *problem, uint32_t size_mib, uint32_t flags) {
  char *name = NULL;
  delta_test_must(delta_region_format(&problem->region, &name, "t%u", problem->tensor_count));
  problem->tensors[problem->tensor_count++] = (delta_problem_tensor_t){.name = name,
                                                                       .size_bytes = (size_t)size_mib * MIB,
                                                                       .flags = flags,
                                                                       .kind = DELTA_CLASS_ACTIVATIONS,
                                                                       .becomes_state = DELTA_PROBLEM_NONE};
}

static void add_step(delta_problem_t *problem, double seconds, const uint32_t *inputs, uint32_t input_count, uint32_t output) {
  delta_problem_step_t *step = &problem->steps[problem->step_count];
  char *name = NULL;
  delta_test_must(delta_region_format(&problem->region, &name, "s%u", problem->step_count++));
  *step = (delta_problem_step_t){.name = name,
                                 .node = DELTA_PROBLEM_NONE,
                                 .seconds = seconds,
                                 .flags = DELTA_STEP_PURE,
                                 .input_count = input_count,
                                 .output_count = 1};
  delta_test_must(delta_region_copy(&problem->region, inputs, input_count, sizeof *inputs, (void **)&step->inputs));
  delta_test_must(delta_region_copy(&problem->region, &output, 1, sizeof output, (void **)&step->outputs));
}

// Forward: t[i] of t[i-1], every few steps also of t[i-SKIP]. Backward: the gradient of t[i] of the one after it, t[i] and t[i-1].
static delta_problem_t *make_problem(uint32_t step_count) {
  delta_problem_t *problem = NULL;
  const uint32_t depth = step_count / 2;
  delta_test_must(delta_problem_create(delta_allocator_system(), &problem));
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, 2 * (size_t)depth + 2, &problem->tensors));
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, 2 * (size_t)depth, &problem->steps));
  problem->alignment_bytes = 64;
  problem->budget_bytes = problem->host_budget_bytes = UINT64_MAX;
  problem->offload_bytes_per_second = problem->prefetch_bytes_per_second = 100.0 * MIB;
  add_tensor(problem, 1, DELTA_TENSOR_INPUT);
  for (uint32_t i = 1; i <= depth; ++i) {
    const uint32_t inputs[] = {i - 1, i > SKIP ? i - SKIP : 0};
    add_tensor(problem, 1 + i * 7 % 5, 0);
    add_step(problem, 1e-3 * (1 + i * 13 % 7), inputs, i % SKIP == 0 && i > SKIP ? 2 : 1, i);
  }
  for (uint32_t i = depth; i > 0; --i) {
    const uint32_t inputs[] = {i, i - 1, problem->tensor_count - 1};
    add_tensor(problem, 1 + i * 7 % 5, i == 1 ? DELTA_TENSOR_OUTPUT : 0);
    add_step(problem, 2e-3 * (1 + i * 13 % 7), inputs, i == depth ? 2 : 3, problem->tensor_count - 1);
  }
  delta_test_must(delta_problem_check(problem));
  return problem;
}

static void run_size(uint32_t step_count) {
  delta_problem_t *problem = make_problem(step_count);
  const delta_planner_options_t options = {.policy = DELTA_POLICY_DELTA, .early_update = true, .effort = {.evaluation_limit = 1}};
  delta_planner_t *planner = NULL;
  delta_planner_result_t result;
  const double start_seconds = own_seconds();
  delta_test_must(delta_planner_create(problem, &options, delta_allocator_system(), &planner));
  const double ready_seconds = own_seconds();
  const uint64_t kept_bytes = delta_planner_kept(planner)->arena_bytes;
  delta_test_must(delta_planner_plan(planner, kept_bytes / 2, &result));
  const double busy_seconds = delta_problem_work_seconds(problem);
  printf("%7u steps: least %.1f %%; half: %.1f %% slower; %.2f s to the least, %.2f s in all, %.0f MiB\n", problem->step_count,
         100 * (double)delta_planner_minimum_bytes(planner) / (double)kept_bytes, 100 * (result.schedule->step_seconds / busy_seconds - 1),
         ready_seconds - start_seconds, own_seconds() - start_seconds, most_mebibytes());
  fflush(stdout);
  delta_schedule_free(result.schedule);
  delta_planner_destroy(planner);
  delta_problem_free(problem);
}

int main(int argc, char **argv) {
  static const uint32_t usual[] = {1000, 10000, 100000};
  if (argc > 1) {
    for (int k = 1; k < argc; ++k) run_size((uint32_t)strtoul(argv[k], NULL, 10));
  } else {
    for (size_t i = 0; i < sizeof usual / sizeof *usual; ++i) run_size(usual[i]);
  }
  return 0;
}
