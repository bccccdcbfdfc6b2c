// Making a plan: every program of the model is built, its kernels selected and its schedule planned over one state area.
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/struct_size.h"
#include "onnx/weights.h"
#include "plans/plan_show.h"
#include "runtime/absent.h"
#include "runtime/plan_create.h"
#include "runtime/plan_maker.h"
#include "runtime/plan_notes.h"
#include "runtime/plan_options.h"
#include "runtime/program.h"

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

// Says what the times of a plan rest on that was never measured. A device that is known by its profile has said so already.
static void note_assumed(const delta_plan_maker_t *maker) {
  const delta_profile_t *profile = delta_profiler_profile(maker->choice.profiler);
  const delta_device_t *device = maker->device;
  const delta_log_sink_t log = maker->options->log;
  if (device->profile) return;
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
  return delta_profiler_create(&profiler_options, maker->allocator, &maker->choice.profiler);
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
  const delta_device_options_t device_options = {.threads = options->threads, .math = maker->plan->numerics.math, .log = options->log};
  DELTA_RETURN_IF_ERROR(check_outputs(maker));
  DELTA_RETURN_IF_ERROR(
      delta_device_open_any(options->device ? options->device : "cpu", &device_options, maker->allocator, &maker->device));
  maker->plan->numerics.math = maker->device->math;
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
      .device = device_name, .threads = device->threads, .math = device->math, .instruction_set = instruction_set, .libraries = libraries};
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

// ---- A plan, from its options on

delta_status_t delta_plan_maker_open(delta_plan_maker_t *maker, const delta_plan_options_t *options, delta_allocator_t allocator) {
  *maker = (delta_plan_maker_t){.options = options,
                                .allocator = allocator,
                                .start_seconds = delta_clock_seconds(),
                                .proves_bound = true,
                                .cbc = {.limit_seconds = options->time_limit_seconds, .allocator = allocator}};
  delta_locked_allocator_init(&maker->locked, allocator);
  maker->solver = delta_cbc_solver(&maker->cbc);
  DELTA_RETURN_IF_ERROR(delta_plan_create_empty(allocator, &maker->plan));
  DELTA_RETURN_IF_ERROR(delta_plan_options_apply(options, maker->plan, &maker->policy));
  DELTA_RETURN_IF_ERROR(open_model_and_device(maker));
  DELTA_RETURN_IF_ERROR(build_programs(maker));
  note_assumed(maker);
  return DELTA_OK;
}

delta_status_t delta_plan_maker_settle(delta_plan_maker_t *maker) {
  delta_plan_notes(maker->model, &maker->plan->build, &maker->parts[0].facts, maker->options->log);
  DELTA_RETURN_IF_ERROR(delta_plan_maker_prepare(maker, &maker->resident_minimum_bytes));
  DELTA_RETURN_IF_ERROR(measure_references(maker));
  DELTA_RETURN_IF_ERROR(keep_profile(maker));
  DELTA_RETURN_IF_ERROR(name_numerics(maker));
  DELTA_RETURN_IF_ERROR(delta_plan_maker_find_minimum(maker));
  DELTA_RETURN_IF_ERROR(resolve_budget(maker));
  return delta_plan_maker_choose_fast_homes(maker);
}

// The numbers, also of a plan that does not fit; then there are no programs.
static delta_status_t summarize(const delta_plan_maker_t *maker, bool has_plan, delta_plan_summary_t *out_summary) {
  DELTA_RETURN_IF_ERROR(delta_plan_summarize(maker->plan, out_summary));
  out_summary->batch = maker->parts[0].batch; // also when no program has been planned
  if (!has_plan) out_summary->device = NULL;  // its name goes with the plan
  return DELTA_OK;
}

delta_status_t delta_plan_maker_finish(delta_plan_maker_t *maker, delta_plan_t **out_plan, delta_plan_summary_t *out_summary) {
  const delta_plan_options_t *options = maker->options;
  if (options->report_path) DELTA_RETURN_IF_ERROR(delta_plan_maker_try_budgets(maker));
  delta_status_t status = delta_plan_maker_plan(maker);
  if (!status) count_memory(maker);
  delta_plan_totals_t *totals = &maker->plan->totals;
  totals->planning_seconds = delta_clock_seconds() - maker->start_seconds - totals->profiling_seconds - maker->trying_seconds;
  if (out_summary && (!status || delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT))
    status = delta_status_join(status, summarize(maker, !status, out_summary));
  if (status) return status;
  DELTA_RETURN_IF_ERROR(keep_inputs(maker));
  if (out_summary) {
    out_summary->inputs = maker->plan->inputs;
    out_summary->input_count = maker->plan->input_count;
  }
  if (options->report_path || options->trace_path) DELTA_RETURN_IF_ERROR(keep_views(maker));
  // The log sink belongs to the caller and not to the plan.
  maker->plan->build.import.log = (delta_log_sink_t){0};
  *out_plan = maker->plan;
  maker->plan = NULL;
  return DELTA_OK;
}

void delta_plan_maker_close(delta_plan_maker_t *maker) {
  delta_plan_maker_drop_planners(maker);
  for (uint32_t i = 0; i < DELTA_MOST_PROGRAMS; ++i) delta_program_deinit(&maker->parts[i]);
  delta_locked_allocator_deinit(&maker->locked);
  delta_profiler_destroy(maker->choice.profiler);
  delta_device_close(maker->device);
  delta_model_free(maker->model);
  delta_plan_free(maker->plan);
  *maker = (delta_plan_maker_t){0};
}

delta_status_t delta_plan_create_one(const delta_plan_options_t *options, delta_allocator_t allocator, delta_plan_t **out_plan,
                                     delta_plan_summary_t *out_summary) {
  *out_plan = NULL;
  DELTA_RETURN_IF_ERROR(delta_struct_size_check("plan options", "call delta_plan_options_init", options->struct_size, sizeof *options));
  if (out_summary)
    DELTA_RETURN_IF_ERROR(
        delta_struct_size_check("plan summary", "set it to sizeof(delta_plan_summary_t)", out_summary->struct_size, sizeof *out_summary));
  delta_plan_maker_t maker;
  delta_status_t status = delta_plan_maker_open(&maker, options, allocator);
  if (!status) status = delta_plan_maker_settle(&maker);
  if (!status) status = delta_plan_maker_finish(&maker, out_plan, out_summary);
  delta_plan_maker_close(&maker);
  return status;
}
