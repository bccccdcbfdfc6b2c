// Making a plan: every program of the model is built, its kernels selected and its schedule planned over one state area.
#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/struct_size.h"
#include "onnx/weights.h"
#include "plans/plan_show.h"
#include "plans/problem_json.h"
#include "runtime/absent.h"
#include "runtime/plan_create.h"
#include "runtime/plan_notes.h"
#include "runtime/plan_options.h"
#include "runtime/plan_refit.h"
#include "runtime/program.h"

enum { DELTA_MOST_PROGRAMS = 3, DELTA_BUDGETS_TRIED = 9 };

// What one call works on.
typedef struct delta_plan_maker {
  const delta_plan_options_t *options;
  delta_allocator_t allocator;
  delta_plan_t *plan;
  delta_model_t *model;
  delta_device_t *device;
  delta_policy_t policy;
  delta_program_choice_t choice; // how layouts and costs are found
  delta_program_parts_t parts[DELTA_MOST_PROGRAMS];
  uint32_t part_count;
  delta_planner_t *planners[DELTA_MOST_PROGRAMS]; // Owned; of the parts.
  uint32_t *movable;                              // states that may lie below, in the order in which they go there
  uint32_t movable_count, below_count;
  delta_cbc_t cbc; // for the policy that needs a solver
  delta_integer_solver_t solver;
  double limit_seconds, deadline_seconds; // of the search at hand
  double trying_seconds;                  // what other budgets took, for a report
  uint64_t resident_minimum_bytes;        // the least budget with all states in the arena
  uint64_t resident_program_bytes,
      below_program_bytes; // the least that programs need beside states: with all in the arena, with all below that may be
} delta_plan_maker_t;

// A device that is known by its profile alone measures nothing.
static delta_status_t check_absent(const delta_plan_maker_t *maker) {
  const delta_plan_options_t *options = maker->options;
  if (options->profile && strcmp(options->profile, "measure") != 0)
    return delta_status_make(INVALID_ARGUMENT, "--profile %s: --device %s is a profile already: leave --profile out", options->profile,
                             options->device);
  if (options->save_profile)
    return delta_status_make(INVALID_ARGUMENT, "--save-profile %s: with --device %s nothing is measured", options->save_profile,
                             options->device);
  uint64_t budget_bytes = 0;
  delta_status_free(options->budget ? delta_size_parse(options->budget, &budget_bytes) : DELTA_OK);
  if ((double)budget_bytes > delta_profile_number(maker->device->profile, DELTA_PROFILE_MEMORY_BYTES))
    delta_log(options->log, DELTA_LOG_WARNING, "--budget %s is more than device '%s' has", options->budget, maker->device->name);
  delta_log(
      options->log, DELTA_LOG_NOTE,
      "device '%s' is not measured here: %zu kernels have costs in '%s', the others are estimated by its roofline; memory for a plan: "
      "memory_bytes less reserve_bytes, unless --budget says otherwise",
      maker->device->name, maker->device->profile->entries.count, options->device);
  return DELTA_OK;
}

// Says what the times of a plan rest on that was never measured.
static void note_assumed(const delta_plan_maker_t *maker) {
  const delta_profile_t *profile = delta_profiler_profile(maker->choice.profiler);
  const delta_device_t *device = maker->device;
  const delta_log_sink_t log = maker->options->log;
  if (!profile) {
    delta_log(log, DELTA_LOG_NOTE,
              "nothing is measured: assumed are %.3g multiply-adds a second, %.3g GB/s of memory, copies below the arena at %.3g GB/s and "
              "back at "
              "%.3g GB/s",
              device->roofline.flops_per_second / 2, device->roofline.memory_bytes_per_second / 1e9, device->offload_bytes_per_second / 1e9,
              device->prefetch_bytes_per_second / 1e9);
  } else if (!delta_profile_is_measured(profile, DELTA_PROFILE_OFFLOAD) || !delta_profile_is_measured(profile, DELTA_PROFILE_PREFETCH)) {
    delta_log(log, DELTA_LOG_NOTE, "copies below the arena are not measured: assumed are %.3g GB/s, and back %.3g GB/s",
              delta_profile_number(profile, DELTA_PROFILE_OFFLOAD) / 1e9, delta_profile_number(profile, DELTA_PROFILE_PREFETCH) / 1e9);
  }
}

// What the choice of layouts, and later of a schedule, goes by.
static delta_status_t open_profile(delta_plan_maker_t *maker) {
  const delta_plan_options_t *options = maker->options;
  DELTA_RETURN_IF_ERROR(delta_layout_option_parse(options->layout, &maker->choice.layouts));
  if (maker->device->profile) return check_absent(maker);
  if (options->profile && strcmp(options->profile, "estimate") == 0) {
    if (options->save_profile)
      return delta_status_make(INVALID_ARGUMENT, "--save-profile %s: with --profile estimate nothing is measured", options->save_profile);
    note_assumed(maker);
    return DELTA_OK;
  }
  // Only a budget given as a size is known before the plan.
  uint64_t limit_bytes = 0;
  delta_status_free(options->budget ? delta_size_parse(options->budget, &limit_bytes) : DELTA_OK);
  const bool is_measured = !options->profile || strcmp(options->profile, "measure") == 0;
  const delta_profiler_options_t profiler_options = {.device = maker->device,
                                                     .path = is_measured ? NULL : options->profile,
                                                     .only_read = !is_measured,
                                                     .limit_bytes = limit_bytes,
                                                     .log = options->log,
                                                     .progress = options->progress,
                                                     .self = options->progress_self};
  DELTA_RETURN_IF_ERROR(delta_profiler_create(&profiler_options, maker->allocator, &maker->choice.profiler));
  DELTA_RETURN_IF_ERROR(delta_profiler_measure_copies(maker->choice.profiler));
  note_assumed(maker);
  return DELTA_OK;
}

// Hands on what was measured.
static delta_status_t keep_profile(delta_plan_maker_t *maker) {
  delta_profiler_t *profiler = maker->choice.profiler;
  if (!profiler) return DELTA_OK;
  maker->plan->totals.profiling_seconds = delta_profiler_seconds(profiler);
  delta_profiler_keep(profiler);
  return maker->options->save_profile ? delta_profile_write(delta_profiler_profile(profiler), maker->options->save_profile) : DELTA_OK;
}

// Nothing that is read is written over, and what cannot be written is known before the work.
static delta_status_t check_outputs(const delta_plan_maker_t *maker) {
  const delta_plan_options_t *options = maker->options;
  const struct {
    const char *option, *path;
    bool is_read;
  } files[] = {
      {"-o", options->output_path, false},     {"--save-profile", options->save_profile, false}, {"--report", options->report_path, false},
      {"--trace", options->trace_path, false}, {"--dump-problem", options->dump_problem, false}, {"--profile", options->profile, true}};
  for (size_t i = 0; i < sizeof files / sizeof *files; ++i) {
    if (!files[i].path || files[i].is_read) continue;
    DELTA_RETURN_IF_ERROR(delta_model_check_output(maker->model, files[i].path));
    DELTA_RETURN_IF_ERROR(delta_file_probe(files[i].path, maker->allocator));
    for (size_t k = i + 1; k < sizeof files / sizeof *files; ++k) {
      const bool is_written_back = files[k].is_read && files[i].path == options->save_profile;
      if (!files[k].path || is_written_back || !delta_file_is_same(files[i].path, files[k].path)) continue;
      return delta_status_make(INVALID_ARGUMENT, "%s and %s are both '%s': give two paths", files[i].option, files[k].option,
                               files[i].path);
    }
  }
  return DELTA_OK;
}

static delta_status_t open_model_and_device(delta_plan_maker_t *maker) {
  const delta_plan_options_t *options = maker->options;
  const delta_model_options_t model_options = {.path = options->model_path, .external_folder = options->external_data, .log = options->log};
  DELTA_RETURN_IF_ERROR(delta_model_load(&model_options, maker->allocator, &maker->model));
  DELTA_RETURN_IF_ERROR(delta_weights_check(maker->model, maker->plan->init_random, options->log));
  memcpy(maker->plan->model_sha256, maker->model->sha256, sizeof maker->plan->model_sha256);
  const delta_device_options_t device_options = {.threads = options->threads, .log = options->log};
  DELTA_RETURN_IF_ERROR(check_outputs(maker));
  DELTA_RETURN_IF_ERROR(
      delta_device_open_any(options->device ? options->device : "cpu", &device_options, maker->allocator, &maker->device));
  return open_profile(maker);
}

// The programs a plan has: those that a run with these options calls.
static uint32_t list_programs(const delta_plan_t *plan, delta_program_kind_t kinds[DELTA_MOST_PROGRAMS]) {
  uint32_t count = 0;
  if (plan->build.accumulates) {
    kinds[count++] = DELTA_PROGRAM_ACCUMULATE;
    kinds[count++] = DELTA_PROGRAM_APPLY;
  } else {
    kinds[count++] = DELTA_PROGRAM_TRAIN;
  }
  kinds[count++] = DELTA_PROGRAM_EVALUATE;
  return count;
}

static delta_status_t build_programs(delta_plan_maker_t *maker) {
  delta_program_kind_t kinds[DELTA_MOST_PROGRAMS];
  uint32_t count = list_programs(maker->plan, kinds);
  for (uint32_t i = 0; i < count; ++i) {
    DELTA_RETURN_IF_ERROR(delta_program_build(maker->model, &maker->plan->build, kinds[i], maker->plan->build.import.batch, maker->device,
                                              &maker->choice, maker->allocator, &maker->parts[i]));
    ++maker->part_count;
    DELTA_RETURN_IF_ERROR(delta_plan_place_states(maker->plan, maker->parts[i].graph, maker->device->alignment_bytes));
  }
  return DELTA_OK;
}

// What does not depend on the budget: planners for the states' homes of the moment, and the least budget that holds every program.
static delta_status_t prepare_planners(delta_plan_maker_t *maker, uint64_t *out_minimum_bytes) {
  uint64_t minimum_bytes = 0;
  for (uint32_t i = 0; i < maker->part_count; ++i) {
    delta_planner_destroy(maker->planners[i]);
    maker->planners[i] = NULL;
    DELTA_RETURN_IF_ERROR(delta_plan_apply_homes(maker->plan, maker->parts[i].problem));
    DELTA_RETURN_IF_ERROR(delta_program_planner(&maker->parts[i], maker->policy, maker->plan->levers,
                                                delta_cbc_is_installed() ? &maker->solver : NULL, maker->allocator, &maker->planners[i]));
    const uint64_t program_bytes = delta_planner_minimum_bytes(maker->planners[i]);
    if (program_bytes > minimum_bytes) minimum_bytes = program_bytes;
  }
  *out_minimum_bytes = delta_size_round_up(maker->plan->totals.state_bytes + minimum_bytes, maker->device->granule_bytes);
  return DELTA_OK;
}

// Prepares with the first `count` of the states that may lie below.
static delta_status_t prepare_with_below(delta_plan_maker_t *maker, uint32_t count, uint64_t *out_minimum_bytes) {
  bool *is_below = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(maker->allocator, maker->plan->state_count, &is_below));
  for (uint32_t i = 0; i < count; ++i) is_below[maker->movable[i]] = true;
  delta_plan_set_homes(maker->plan, is_below);
  delta_release(maker->allocator, is_below);
  maker->below_count = count;
  return prepare_planners(maker, out_minimum_bytes);
}

// Orders states that may lie below: those that fill at least a block there, optimizer states before others, large ones before small ones.
static bool goes_first(const delta_plan_state_t *a, const delta_plan_state_t *b) {
  const bool a_moment = a->kind == DELTA_STATE_MOMENT, b_moment = b->kind == DELTA_STATE_MOMENT;
  return a_moment != b_moment ? a_moment : a->size_bytes > b->size_bytes;
}

static delta_status_t list_movable(delta_plan_maker_t *maker) {
  const delta_plan_t *plan = maker->plan;
  uint64_t home_bytes = 0;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&maker->plan->region, plan->state_count, &maker->movable));
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    if (plan->states[i].size_bytes < DELTA_HOST_BLOCK_BYTES || plan->states[i].kind == DELTA_STATE_COUNTER) continue;
    home_bytes += delta_size_round_up(plan->states[i].size_bytes, DELTA_HOST_BLOCK_BYTES);
    if (home_bytes > plan->totals.host_budget_bytes) break;
    uint32_t at = maker->movable_count++;
    for (; at > 0 && goes_first(&plan->states[i], &plan->states[maker->movable[at - 1]]); --at) maker->movable[at] = maker->movable[at - 1];
    maker->movable[at] = i;
  }
  return DELTA_OK;
}

static delta_status_t copy_layouts(delta_plan_t *plan, const delta_program_parts_t *parts, delta_plan_program_t *program) {
  void *layouts = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy(&plan->region, parts->layouts, parts->layout_count, sizeof *parts->layouts, &layouts));
  program->layouts = layouts;
  program->layout_count = parts->layout_count;
  return DELTA_OK;
}

static bool is_past_deadline(void *self) { return delta_clock_seconds() > ((const delta_plan_maker_t *)self)->deadline_seconds; }

static void start_clock(void *self) {
  delta_plan_maker_t *maker = self;
  maker->deadline_seconds = delta_clock_seconds() + maker->limit_seconds;
}

// How long the next search may take.
static void give_effort(delta_plan_maker_t *maker, uint32_t index, double limit_seconds, bool proves_bound) {
  maker->limit_seconds = limit_seconds;
  start_clock(maker);
  const delta_planner_effort_t effort = {.seed = maker->options->seed,
                                         .is_past_deadline = is_past_deadline,
                                         .self = maker,
                                         .begins_with_rivals = maker->options->begin_with_rivals,
                                         .begin_search = start_clock,
                                         .proves_bound = proves_bound};
  delta_planner_set_effort(maker->planners[index], &effort);
}

// The part of the time that a program's search gets: only those that do not fit as they are need any, and the first, which runs in every step, most of it.
static double time_share(const delta_plan_maker_t *maker, uint32_t index, uint64_t capacity_bytes) {
  enum { FIRST_WEIGHT = 4 };
  int own = 0, all = 0;
  for (uint32_t i = 0; i < maker->part_count; ++i) {
    if (delta_planner_kept(maker->planners[i])->arena_bytes <= capacity_bytes) continue;
    const int weight = i == 0 ? FIRST_WEIGHT : 1;
    own += i == index ? weight : 0;
    all += weight;
  }
  return own > 0 ? (double)own / all : 0;
}

// Writes what the planner is asked, before it answers.
static delta_status_t dump_problem(delta_plan_maker_t *maker, uint64_t capacity_bytes) {
  delta_problem_t *problem = maker->parts[0].problem;
  delta_text_t text;
  delta_text_init(&text, maker->allocator);
  problem->budget_bytes = capacity_bytes;
  delta_status_t status = delta_problem_to_json(problem, &text);
  if (!status) status = delta_file_replace(maker->options->dump_problem, text.items, text.count, maker->allocator);
  delta_text_deinit(&text);
  return status;
}

static delta_status_t plan_program(delta_plan_maker_t *maker, uint32_t index) {
  delta_plan_t *plan = maker->plan;
  const delta_program_parts_t *parts = &maker->parts[index];
  const uint64_t capacity_bytes = delta_budget_capacity(plan->totals.budget_bytes, plan->totals.state_bytes, maker->device->granule_bytes);
  delta_planner_result_t result = {0};
  if (index == 0 && maker->options->dump_problem) DELTA_RETURN_IF_ERROR(dump_problem(maker, capacity_bytes));
  give_effort(maker, index, maker->options->time_limit_seconds * time_share(maker, index, capacity_bytes), index == 0);
  delta_status_t status = delta_planner_plan(maker->planners[index], capacity_bytes, &result);
  if (delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT) {
    const uint64_t needed_bytes = delta_size_round_up(plan->totals.state_bytes + result.minimum_budget_bytes, maker->device->granule_bytes);
    const uint64_t least_bytes = needed_bytes > plan->totals.minimum_budget_bytes ? needed_bytes : plan->totals.minimum_budget_bytes;
    char budget_text[DELTA_SIZE_TEXT_BYTES], state_text[DELTA_SIZE_TEXT_BYTES];
    return delta_status_annotate(status, "budget %s, of which states take %s (give --budget %llu or more, or a smaller --batch%s)",
                                 delta_size_text(plan->totals.budget_bytes, budget_text),
                                 delta_size_text(plan->totals.state_bytes, state_text), (unsigned long long)least_bytes,
                                 plan->build.parts > 1 || parts->batch < 2 ? "" : ", or --split auto");
  }
  if (status) return status;
  delta_plan_program_t *program = &plan->programs[plan->program_count++];
  program->kind = parts->kind;
  program->batch = parts->batch;
  program->schedule = result.schedule;
  if (index == 0) {
    plan->totals.lower_bound_seconds = result.lower_bound_seconds;
    plan->seed_policy = result.seed_policy;
    plan->seed_is_plan = result.seed_is_plan;
  }
  DELTA_RETURN_IF_ERROR(copy_layouts(plan, parts, program));
  delta_graph_hash(parts->graph, program->graph_hash);
  return DELTA_OK;
}

// Plans every program within the budget; sets arena, peak and times of the whole plan.
static delta_status_t plan_programs(delta_plan_maker_t *maker) {
  delta_plan_t *plan = maker->plan;
  delta_plan_totals_t *totals = &plan->totals;
  uint64_t arena_bytes = 0;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&plan->region, maker->part_count, &plan->programs));
  for (uint32_t i = 0; i < maker->part_count; ++i) {
    DELTA_RETURN_IF_ERROR(plan_program(maker, i));
    if (plan->programs[i].schedule->arena_bytes > arena_bytes) arena_bytes = plan->programs[i].schedule->arena_bytes;
  }
  const delta_schedule_t *first = plan->programs[0].schedule;
  totals->arena_bytes = delta_size_round_up(totals->state_bytes + arena_bytes, maker->device->granule_bytes);
  totals->peak_bytes = totals->state_bytes + first->peak_bytes;
  totals->step_seconds = first->step_seconds;
  return DELTA_OK;
}

// Bytes by kind at the peak of the first program, states included: the sum is peak_bytes.
static void count_memory(delta_plan_maker_t *maker) {
  const delta_plan_t *plan = maker->plan;
  const delta_schedule_t *schedule = plan->programs[0].schedule;
  uint64_t *memory = maker->plan->totals.memory_bytes;
  uint64_t counted_bytes = 0;
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    if (!plan->states[i].is_below) memory[delta_class_of_state(plan->states[i].kind)] += plan->states[i].size_bytes;
  }
  for (uint32_t i = 0; i < schedule->buffer_count; ++i) {
    const delta_buffer_t *buffer = &schedule->buffers[i];
    if (buffer->first_step > schedule->peak_step || buffer->last_step < schedule->peak_step) continue;
    // Bytes taken over in place at the peak are counted with the buffer that gives them.
    if (buffer->inplace_of != DELTA_PROBLEM_NONE && buffer->first_step == schedule->peak_step) continue;
    delta_tensor_class_t kind =
        buffer->tensor == DELTA_PROBLEM_NONE ? DELTA_CLASS_WORKSPACE : maker->parts[0].problem->tensors[buffer->tensor].kind;
    memory[kind] += buffer->size_bytes;
  }
  for (uint32_t i = 0; i < DELTA_CLASS_COUNT; ++i) counted_bytes += memory[i];
  // What aligning the states' places adds.
  if (plan->totals.peak_bytes > counted_bytes) memory[DELTA_CLASS_OTHER] += plan->totals.peak_bytes - counted_bytes;
}

// Peak bytes of the training graph under another policy's build; `plain` leaves out workspaces and padding.
static delta_status_t measure_policy(delta_plan_maker_t *maker, delta_policy_t policy, bool plain, uint64_t *out_peak_bytes,
                                     double *out_seconds) {
  delta_build_options_t build = maker->plan->build;
  build.eager = policy == DELTA_POLICY_EAGER;
  build.import.levers = build.eager ? 0 : maker->plan->build.eager ? DELTA_LEVERS_ALL : maker->plan->levers;
  build.import.log = (delta_log_sink_t){0};
  build.parts = 1; // references are of the whole batch
  delta_program_parts_t parts = {0};
  delta_planner_result_t result = {0};
  delta_program_choice_t choice = maker->choice;
  choice.plain = plain;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(
      status,
      delta_program_build(maker->model, &build, maker->parts[0].kind, build.import.batch, maker->device, &choice, maker->allocator, &parts),
      cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_program_plan(&parts, policy, build.import.levers, UINT64_MAX, maker->allocator, &result), cleanup);
  uint64_t state_bytes = 0;
  for (size_t i = 0; i < parts.graph->states.count; ++i) {
    const delta_state_t *state = &parts.graph->states.items[i];
    state_bytes += (uint64_t)delta_shape_count(&state->shape) * delta_dtype_bytes(state->dtype);
  }
  *out_peak_bytes = (plain ? state_bytes : maker->plan->totals.state_bytes) + result.schedule->peak_bytes;
  *out_seconds = result.schedule->step_seconds;
cleanup:
  delta_schedule_free(result.schedule);
  delta_program_deinit(&parts);
  return status;
}

// What the same training takes without a budget, by this graph and as an eager framework would hold it.
static delta_status_t measure_references(delta_plan_maker_t *maker) {
  delta_plan_totals_t *totals = &maker->plan->totals;
  double eager_seconds = 0;
  DELTA_RETURN_IF_ERROR(measure_policy(maker, DELTA_POLICY_EAGER, true, &totals->eager_peak_bytes, &eager_seconds));
  if (maker->policy == DELTA_POLICY_EAGER || maker->plan->build.parts > 1) {
    DELTA_RETURN_IF_ERROR(measure_policy(maker, DELTA_POLICY_NONE, false, &totals->unlimited_peak_bytes, &totals->unlimited_step_seconds));
  } else {
    const delta_schedule_t *kept = delta_planner_kept(maker->planners[0]);
    totals->unlimited_peak_bytes = totals->state_bytes + kept->peak_bytes;
    totals->unlimited_step_seconds = kept->step_seconds;
  }
  totals->lower_bound_seconds = totals->unlimited_step_seconds;
  totals->node_count = maker->parts[0].graph->nodes.count;
  totals->trainable_parameters = (uint64_t)maker->parts[0].facts.trainable_parameters;
  totals->trainable_tensors = maker->parts[0].facts.trainable_tensors;
  return DELTA_OK;
}

static delta_status_t resolve_budget(delta_plan_maker_t *maker) {
  delta_plan_totals_t *totals = &maker->plan->totals;
  uint64_t free_bytes = 0;
  DELTA_RETURN_IF_ERROR(delta_device_free_bytes(maker->device, &free_bytes));
  return delta_budget_resolve(maker->options->budget, free_bytes, totals->unlimited_peak_bytes, totals->minimum_budget_bytes,
                              maker->device->granule_bytes, &totals->budget_bytes);
}

// The least budget: that with all states in the arena, or that with all below that may be.
static delta_status_t find_minimum(delta_plan_maker_t *maker) {
  const delta_plan_totals_t *totals = &maker->plan->totals;
  uint64_t *minimum_bytes = &maker->plan->totals.minimum_budget_bytes;
  *minimum_bytes = maker->resident_minimum_bytes;
  maker->resident_program_bytes = maker->resident_minimum_bytes - totals->state_bytes;
  if (!delta_policy_keeps_budgets(maker->policy)) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(list_movable(maker));
  if (maker->movable_count == 0) return DELTA_OK;
  uint64_t below_bytes;
  DELTA_RETURN_IF_ERROR(prepare_with_below(maker, maker->movable_count, &below_bytes));
  maker->below_program_bytes = below_bytes - totals->state_bytes;
  if (below_bytes < *minimum_bytes) *minimum_bytes = below_bytes;
  return DELTA_OK;
}

// The fewest states below for which what is left of the budget beside the others is at least program_bytes; all when no number does.
static uint32_t count_below_for(const delta_plan_maker_t *maker, uint64_t program_bytes) {
  uint64_t state_bytes = 0;
  for (uint32_t i = 0; i < maker->plan->state_count; ++i) state_bytes += maker->plan->states[i].size_bytes;
  uint32_t count = 0;
  while (count < maker->movable_count && state_bytes + program_bytes > maker->plan->totals.budget_bytes) {
    state_bytes -= maker->plan->states[maker->movable[count++]].size_bytes;
  }
  return count;
}

// As few states below as the budget allows. What programs need beside the states grows with the states that are below, so its values for none and for all bound the
// number; between them it is halved a few times. All of them are known to do.
static delta_status_t halve_homes(delta_plan_maker_t *maker, uint32_t *out_count) {
  enum { MOST_TRIALS = 4 };
  uint64_t minimum_bytes;
  uint32_t least = count_below_for(maker, maker->resident_program_bytes), most = maker->movable_count;
  uint32_t next = count_below_for(maker, maker->below_program_bytes);
  for (int trial = 0; trial < MOST_TRIALS && least < most; ++trial) {
    if (next >= most) next = least + (most - least) / 2;
    DELTA_RETURN_IF_ERROR(prepare_with_below(maker, next, &minimum_bytes));
    if (minimum_bytes <= maker->plan->totals.budget_bytes) {
      most = next;
    } else {
      least = next + 1;
    }
    next = least + (most - least) / 2;
  }
  *out_count = most;
  return DELTA_OK;
}

static delta_status_t choose_homes(delta_plan_maker_t *maker) {
  const delta_plan_totals_t *totals = &maker->plan->totals;
  uint32_t count = 0;
  uint64_t minimum_bytes;
  const bool helps = totals->minimum_budget_bytes < maker->resident_minimum_bytes;
  const bool fits = totals->budget_bytes >= totals->minimum_budget_bytes;
  if (helps && totals->budget_bytes < maker->resident_minimum_bytes) count = maker->movable_count;
  if (count > 0 && fits) DELTA_RETURN_IF_ERROR(halve_homes(maker, &count));
  return maker->below_count == count ? DELTA_OK : prepare_with_below(maker, count, &minimum_bytes);
}

// ---- For reports

// Plans the first program within a budget, for how long it takes and what it holds.
static delta_status_t try_budget(delta_plan_maker_t *maker, uint64_t budget_bytes, delta_budget_point_t *out_point) {
  delta_plan_totals_t *totals = &maker->plan->totals;
  delta_planner_result_t result = {0};
  *out_point = (delta_budget_point_t){.budget_bytes = budget_bytes};
  totals->budget_bytes = budget_bytes;
  DELTA_RETURN_IF_ERROR(choose_homes(maker));
  give_effort(maker, 0, maker->options->time_limit_seconds / DELTA_BUDGETS_TRIED, false);
  delta_status_t status = delta_planner_plan(
      maker->planners[0], delta_budget_capacity(budget_bytes, totals->state_bytes, maker->device->granule_bytes), &result);
  if (delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT) {
    delta_status_free(status);
    return DELTA_OK;
  }
  if (status) return status;
  out_point->fits = true;
  out_point->peak_bytes = totals->state_bytes + result.schedule->peak_bytes;
  out_point->step_seconds = result.schedule->step_seconds;
  delta_schedule_free(result.schedule);
  return DELTA_OK;
}

// A plan for less is a plan for more.
static void offer_to_larger(delta_budget_point_t *points, uint32_t count) {
  for (uint32_t i = 1; i < count; ++i) {
    const delta_budget_point_t *smaller = &points[i - 1];
    if (!smaller->fits || (points[i].fits && points[i].step_seconds <= smaller->step_seconds)) continue;
    points[i].fits = true;
    points[i].peak_bytes = smaller->peak_bytes;
    points[i].step_seconds = smaller->step_seconds;
  }
}

// Tries budgets from the least to that of everything kept while there is time, coarse ones first, and late those for which states go below, which take longer. They
// are listed by budget; the plan's own is set again.
static delta_status_t try_budgets(delta_plan_maker_t *maker) {
  static const int eighths[DELTA_BUDGETS_TRIED] = {8, 4, 6, 2, 7, 5, 3, 1, 0};
  delta_plan_t *plan = maker->plan;
  const uint64_t own_bytes = plan->totals.budget_bytes, least_bytes = plan->totals.minimum_budget_bytes;
  const uint64_t most_bytes = delta_size_round_up(plan->totals.unlimited_peak_bytes, maker->device->granule_bytes);
  const double start_seconds = delta_clock_seconds(), end_seconds = start_seconds + maker->options->time_limit_seconds;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&plan->region, DELTA_BUDGETS_TRIED, &plan->points));
  delta_status_t status = DELTA_OK;
  for (int i = 0; i < DELTA_BUDGETS_TRIED && most_bytes > least_bytes && !status; ++i) {
    if (i > 0 && delta_clock_seconds() > end_seconds) break;
    delta_budget_point_t point;
    status = try_budget(maker, least_bytes + (most_bytes - least_bytes) / 8 * (uint64_t)eighths[i], &point);
    if (status) break;
    uint32_t at = plan->point_count++;
    for (; at > 0 && plan->points[at - 1].budget_bytes > point.budget_bytes; --at) plan->points[at] = plan->points[at - 1];
    plan->points[at] = point;
  }
  offer_to_larger(plan->points, plan->point_count);
  plan->totals.budget_bytes = own_bytes;
  maker->trying_seconds = delta_clock_seconds() - start_seconds;
  return status;
}

static delta_status_t keep_views(delta_plan_maker_t *maker) {
  for (uint32_t i = 0; i < maker->part_count; ++i) {
    delta_program_parts_t *parts = &maker->parts[i];
    DELTA_RETURN_IF_ERROR(delta_plan_keep_view(maker->plan, i, parts->graph, parts->tensor_of_storage, &parts->problem));
  }
  return DELTA_OK;
}

// Whether the kernels of nodes are not known: no device can then run the plan.
static bool is_estimated(const delta_plan_maker_t *maker) {
  for (uint32_t i = 0; maker->device->profile && i < maker->part_count; ++i) {
    const delta_selection_t *selection = maker->parts[i].selection;
    for (uint32_t node = 0; node < selection->node_count; ++node) {
      if (selection->names[node] == delta_absent_kernel) return true;
    }
  }
  return false;
}

// Names everything the bits of a run depend on.
static delta_status_t name_numerics(delta_plan_maker_t *maker) {
  delta_plan_numerics_t *numerics = &maker->plan->numerics;
  const delta_device_t *device = maker->device;
  char *instruction_set = NULL, *libraries = NULL, *device_name = NULL;
  DELTA_RETURN_IF_ERROR(
      delta_region_format(&maker->plan->region, &device_name, "%s%s", device->name, is_estimated(maker) ? " (estimated)" : ""));
  DELTA_RETURN_IF_ERROR(
      delta_region_copy_string(&maker->plan->region, device->instruction_set, strlen(device->instruction_set), &instruction_set));
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&maker->plan->region, device->libraries, strlen(device->libraries), &libraries));
  *numerics = (delta_plan_numerics_t){
      .device = device_name, .threads = device->threads, .instruction_set = instruction_set, .libraries = libraries};
  const delta_program_parts_t *parts[DELTA_MOST_PROGRAMS];
  for (uint32_t i = 0; i < maker->part_count; ++i) parts[i] = &maker->parts[i];
  delta_program_numerics_id(parts, maker->part_count, device, numerics->id);
  return DELTA_OK;
}

// What the first program is fed with, for whoever prepares the data.
static delta_status_t keep_inputs(delta_plan_maker_t *maker) {
  delta_plan_t *plan = maker->plan;
  const delta_program_parts_t *parts = &maker->parts[0];
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&plan->region, parts->graph->inputs.count, &plan->inputs));
  for (uint32_t i = 0; i < parts->graph->inputs.count; ++i) {
    if (delta_is_own_name(delta_graph_tensor(parts->graph, parts->graph->inputs.items[i])->name)) continue;
    delta_input_info_t *info = &plan->inputs[plan->input_count];
    DELTA_RETURN_IF_ERROR(delta_program_input(parts, i, plan->build.ignore_index, info));
    char *name = NULL;
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&plan->region, info->name, strlen(info->name), &name));
    info->name = name;
    ++plan->input_count;
  }
  return DELTA_OK;
}

static void deinit_maker(delta_plan_maker_t *maker) {
  for (uint32_t i = 0; i < DELTA_MOST_PROGRAMS; ++i) {
    delta_planner_destroy(maker->planners[i]);
    delta_program_deinit(&maker->parts[i]);
  }
  delta_profiler_destroy(maker->choice.profiler);
  delta_device_close(maker->device);
  delta_model_free(maker->model);
  delta_plan_free(maker->plan);
}

delta_status_t delta_plan_create_one(const delta_plan_options_t *options, delta_allocator_t allocator, delta_plan_t **out_plan,
                                     delta_plan_summary_t *out_summary) {
  *out_plan = NULL;
  DELTA_RETURN_IF_ERROR(delta_struct_size_check("plan options", "call delta_plan_options_init", options->struct_size, sizeof *options));
  if (out_summary)
    DELTA_RETURN_IF_ERROR(
        delta_struct_size_check("plan summary", "set it to sizeof(delta_plan_summary_t)", out_summary->struct_size, sizeof *out_summary));
  double start_seconds = delta_clock_seconds();
  delta_plan_maker_t maker = {
      .options = options, .allocator = allocator, .cbc = {.limit_seconds = options->time_limit_seconds, .allocator = allocator}};
  maker.solver = delta_cbc_solver(&maker.cbc);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_plan_create_empty(allocator, &maker.plan), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_plan_options_apply(options, maker.plan, &maker.policy), cleanup);
  DELTA_GOTO_IF_ERROR(status, open_model_and_device(&maker), cleanup);
  DELTA_GOTO_IF_ERROR(status, build_programs(&maker), cleanup);
  delta_plan_notes(maker.model, &maker.plan->build, &maker.parts[0].facts, options->log);
  DELTA_GOTO_IF_ERROR(status, prepare_planners(&maker, &maker.resident_minimum_bytes), cleanup);
  DELTA_GOTO_IF_ERROR(status, measure_references(&maker), cleanup);
  DELTA_GOTO_IF_ERROR(status, keep_profile(&maker), cleanup);
  DELTA_GOTO_IF_ERROR(status, name_numerics(&maker), cleanup);
  DELTA_GOTO_IF_ERROR(status, find_minimum(&maker), cleanup);
  DELTA_GOTO_IF_ERROR(status, resolve_budget(&maker), cleanup);
  if (options->report_path) DELTA_GOTO_IF_ERROR(status, try_budgets(&maker), cleanup);
  DELTA_GOTO_IF_ERROR(status, choose_homes(&maker), cleanup);
  status = plan_programs(&maker);
  if (!status) count_memory(&maker);
  maker.plan->totals.planning_seconds = delta_clock_seconds() - start_seconds - maker.plan->totals.profiling_seconds - maker.trying_seconds;
  if (out_summary && (!status || delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT)) {
    status = delta_status_join(status, delta_plan_summarize(maker.plan, out_summary));
    out_summary->batch = maker.parts[0].batch; // also when no program has been planned
    if (status) out_summary->device = NULL;    // its name goes with the plan
  }
  if (status) goto cleanup;
  DELTA_GOTO_IF_ERROR(status, keep_inputs(&maker), cleanup);
  if (out_summary) {
    out_summary->inputs = maker.plan->inputs;
    out_summary->input_count = maker.plan->input_count;
  }
  if (options->report_path || options->trace_path) DELTA_GOTO_IF_ERROR(status, keep_views(&maker), cleanup);
  // The log sink belongs to the caller and not to the plan.
  maker.plan->build.import.log = (delta_log_sink_t){0};
  *out_plan = maker.plan;
  maker.plan = NULL;
cleanup:
  deinit_maker(&maker);
  return status;
}

// ---- Planning again

// What is known of the plan but for places and schedules, which come anew.
static delta_status_t begin_refit(const delta_refit_options_t *options, delta_plan_maker_t *maker) {
  const delta_plan_t *known = options->plan;
  DELTA_RETURN_IF_ERROR(delta_plan_create_empty(maker->allocator, &maker->plan));
  delta_plan_t *plan = maker->plan;
  const delta_region_t region = plan->region;
  *plan = *known;
  plan->allocator = maker->allocator;
  plan->region = region;
  plan->states = NULL;
  plan->programs = NULL;
  plan->state_count = plan->program_count = 0;
  plan->totals.budget_bytes = options->budget_bytes;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&plan->region, known->state_count, &plan->states));
  memcpy(plan->states, known->states, known->state_count * sizeof *plan->states);
  plan->state_count = known->state_count;
  for (uint32_t i = 0; i < known->program_count && i < DELTA_MOST_PROGRAMS; ++i) {
    // The homes of states are set in copies.
    delta_problem_t *problem = NULL;
    maker->parts[i] = *options->parts[i];
    DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&plan->region, 1, &problem));
    *problem = *maker->parts[i].problem;
    DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&plan->region, problem->tensor_count, &problem->tensors));
    memcpy(problem->tensors, maker->parts[i].problem->tensors, problem->tensor_count * sizeof *problem->tensors);
    if (options->offload_bytes_per_second > 0) problem->offload_bytes_per_second = options->offload_bytes_per_second;
    if (options->prefetch_bytes_per_second > 0) problem->prefetch_bytes_per_second = options->prefetch_bytes_per_second;
    maker->parts[i].problem = problem;
    ++maker->part_count;
  }
  return DELTA_OK;
}

static delta_status_t refit(const delta_refit_options_t *options, delta_plan_maker_t *maker) {
  uint64_t below_none_bytes;
  DELTA_RETURN_IF_ERROR(begin_refit(options, maker));
  DELTA_RETURN_IF_ERROR(delta_policy_parse(maker->plan->policy, &maker->policy));
  DELTA_RETURN_IF_ERROR(prepare_with_below(maker, 0, &below_none_bytes));
  if (below_none_bytes > options->budget_bytes && !delta_policy_keeps_budgets(maker->policy)) {
    maker->policy = DELTA_POLICY_DELTA_FIXED;
    maker->plan->policy = delta_policy_info(maker->policy)->name;
    DELTA_RETURN_IF_ERROR(prepare_with_below(maker, 0, &below_none_bytes));
  }
  maker->resident_minimum_bytes = below_none_bytes;
  DELTA_RETURN_IF_ERROR(find_minimum(maker));
  DELTA_RETURN_IF_ERROR(choose_homes(maker));
  return plan_programs(maker);
}

delta_status_t delta_plan_refit(const delta_refit_options_t *options, delta_allocator_t allocator, delta_plan_t **out_plan) {
  *out_plan = NULL;
  const double start_seconds = delta_clock_seconds();
  const delta_plan_options_t plan_options = {.time_limit_seconds = options->time_limit_seconds};
  delta_device_t granules = {.granule_bytes = options->granule_bytes}; // all of a device that planning looks at
  delta_plan_maker_t maker = {.options = &plan_options, .allocator = allocator, .device = &granules};
  delta_status_t status = refit(options, &maker);
  for (uint32_t i = 0; i < DELTA_MOST_PROGRAMS; ++i) delta_planner_destroy(maker.planners[i]);
  if (status) {
    delta_plan_free(maker.plan);
    return status;
  }
  maker.plan->totals.planning_seconds = delta_clock_seconds() - start_seconds;
  *out_plan = maker.plan;
  return DELTA_OK;
}
