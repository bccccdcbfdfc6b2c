// Sample plans.
#include "tests/support/plan_sample.h"

#include <string.h>

enum { SAMPLE_STATES = 3, SAMPLE_PROGRAMS = 2 };

static void fill_digits(char *text, size_t field_bytes) {
  for (size_t i = 0; i + 1 < field_bytes; ++i) text[i] = "0123456789abcdef"[i % 16];
}

static void fill_build(delta_plan_t *plan) {
  static const delta_dim_binding_t dims[] = {{"length", 128}};
  static const char *const freeze[] = {"layer.*", "head \"quoted\"\n*"};
  plan->levers = DELTA_LEVERS_ALL & ~(1u << DELTA_LEVER_DROPOUT);
  plan->build = (delta_build_options_t){
      .import = {.batch = 16, .dims = dims, .dim_count = 1, .batchnorm = DELTA_BATCHNORM_FREEZE, .levers = plan->levers},
      .loss = DELTA_LOSS_CROSS_ENTROPY,
      .class_axis = -1,
      .ignore_index = -100,
      .optimizer = {.kind = DELTA_OPTIMIZER_ADAMW, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8},
      .clip_gradient_norm = 1.5,
      .freeze = freeze,
      .freeze_count = 2};
}

static void fill_states(delta_plan_t *plan) {
  delta_test_must(DELTA_REGION_ALLOCATE(&plan->region, SAMPLE_STATES, &plan->states));
  for (uint32_t i = 0; i < SAMPLE_STATES; ++i) {
    char *name = NULL;
    delta_test_must(delta_region_format(&plan->region, &name, "s%u", i));
    plan->states[i] = (delta_plan_state_t){.name = name,
                                           .kind = DELTA_STATE_MOMENT,
                                           .dtype = DELTA_DTYPE_FLOAT32,
                                           .shape = {.rank = 2, .dims = {5 * i, 3}},
                                           .offset_bytes = i * 256,
                                           .size_bytes = 256};
  }
  plan->states[0].shape = (delta_shape_t){.rank = 1, .dims = {5}};
  plan->state_count = SAMPLE_STATES;
  plan->totals.state_bytes = SAMPLE_STATES * 256;
}

delta_problem_t *delta_test_sample_problem(uint64_t seed, uint32_t index) {
  return delta_test_random_problem(seed * SAMPLE_PROGRAMS + index, 8 + (uint32_t)(seed % 7));
}

static void fill_programs(delta_plan_t *plan, uint64_t seed) {
  static const delta_program_kind_t kinds[SAMPLE_PROGRAMS] = {DELTA_PROGRAM_TRAIN, DELTA_PROGRAM_EVALUATE};
  delta_test_must(DELTA_REGION_ALLOCATE(&plan->region, SAMPLE_PROGRAMS, &plan->programs));
  for (uint32_t i = 0; i < SAMPLE_PROGRAMS; ++i) {
    delta_problem_t *problem = delta_test_sample_problem(seed, i);
    delta_plan_program_t *program = &plan->programs[plan->program_count++];
    *program = (delta_plan_program_t){.kind = kinds[i], .batch = 16};
    program->schedule = i == 0 ? delta_test_kept_schedule(problem, true) : delta_test_swapped_schedule(problem, seed);
    fill_digits(program->graph_hash, sizeof program->graph_hash);
    program->layout_count = i == 0 ? DELTA_LAYOUT_COUNT : 0;
    delta_test_must(DELTA_REGION_ALLOCATE(&plan->region, DELTA_LAYOUT_COUNT, &program->layouts));
    for (uint32_t r = 0; r < DELTA_LAYOUT_COUNT; ++r) program->layouts[r] = (delta_layout_t)r;
    program->kernel_count = i == 0 ? problem->step_count : 0;
    delta_test_must(DELTA_REGION_ALLOCATE(&plan->region, problem->step_count, &program->kernels));
    for (uint32_t k = 0; k < problem->step_count; ++k) program->kernels[k] = k % 2 == 0 ? "blocks" : "reference";
    if (program->schedule->arena_bytes > plan->totals.arena_bytes) plan->totals.arena_bytes = program->schedule->arena_bytes;
    delta_problem_free(problem);
  }
  plan->totals.arena_bytes += plan->totals.state_bytes;
  plan->totals.peak_bytes = plan->programs[0].schedule->peak_bytes + plan->totals.state_bytes;
}

delta_plan_t *delta_test_sample_plan(uint64_t seed) {
  delta_plan_t *plan = NULL;
  delta_test_must(delta_plan_create_empty(delta_allocator_system(), &plan));
  plan->model_file = "model.onnx";
  fill_digits(plan->model_sha256, sizeof plan->model_sha256);
  plan->policy = "none";
  plan->learning_rate = 0.1;
  plan->init_random = seed % 2 == 1;
  plan->init_seed = seed;
  plan->numerics = (delta_plan_numerics_t){.device = "cpu", .threads = 2, .instruction_set = "avx2", .libraries = "library 1.2"};
  fill_digits(plan->numerics.id, sizeof plan->numerics.id);
  fill_build(plan);
  fill_states(plan);
  fill_programs(plan, seed);
  plan->totals.step_seconds = plan->programs[0].schedule->step_seconds;
  plan->totals.lower_bound_seconds = plan->totals.step_seconds / 3;
  for (uint32_t c = 0; c < DELTA_CLASS_COUNT; ++c) plan->totals.memory_bytes[c] = 64 * c;
  return plan;
}
