// Building is deterministic, so a plan stores only the schedule, and these parts are made again when it is run.
#include "runtime/program.h"

#include <string.h>

#include "onnx/graph/update_groups.h"
#include "onnx/graph/virtual.h"
#include "plans/plan_json.h"

static delta_status_t plain_selection(const delta_graph_t *graph, delta_allocator_t allocator, delta_selection_t **out_selection) {
  *out_selection = NULL;
  delta_selection_t *selection = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &selection));
  selection->allocator = allocator;
  selection->node_count = (uint32_t)graph->nodes.count;
  delta_status_t status = DELTA_ALLOCATE(allocator, selection->node_count, &selection->costs);
  if (status) {
    delta_selection_free(selection);
    return status;
  }
  *out_selection = selection;
  return DELTA_OK;
}

// Copies run beside compute; how fast they are alone counts where that has not been measured.
static double speed_of(const delta_profile_t *profile, delta_profile_id_t alone, delta_profile_id_t beside) {
  return delta_profile_number(profile, profile->numbers[beside].source ? beside : alone);
}

static void set_speeds(const delta_device_t *device, const delta_profile_t *measured, delta_problem_t *problem) {
  const delta_profile_t *profile = measured ? measured : device->profile;
  problem->offload_bytes_per_second = device->offload_bytes_per_second;
  problem->prefetch_bytes_per_second = device->prefetch_bytes_per_second;
  if (!profile) return;
  problem->offload_bytes_per_second = speed_of(profile, DELTA_PROFILE_OFFLOAD, DELTA_PROFILE_OFFLOAD_BESIDE);
  problem->prefetch_bytes_per_second = speed_of(profile, DELTA_PROFILE_PREFETCH, DELTA_PROFILE_PREFETCH_BESIDE);
  problem->shared_bytes_per_second = delta_profile_number(profile, DELTA_PROFILE_SHARED);
  problem->offload_start_seconds = delta_profile_number(profile, DELTA_PROFILE_OFFLOAD_START);
  problem->prefetch_start_seconds = delta_profile_number(profile, DELTA_PROFILE_PREFETCH_START);
  problem->offload_start_drag = delta_profile_number(profile, DELTA_PROFILE_OFFLOAD_START_DRAG);
  problem->prefetch_start_drag = delta_profile_number(profile, DELTA_PROFILE_PREFETCH_START_DRAG);
  problem->offload_drag = delta_profile_number(profile, DELTA_PROFILE_OFFLOAD_DRAG);
  problem->prefetch_drag = delta_profile_number(profile, DELTA_PROFILE_PREFETCH_DRAG);
}

static delta_status_t apply_layouts(delta_device_t *device, const delta_program_choice_t *choice, delta_allocator_t allocator,
                                    delta_program_parts_t *parts) {
  return delta_layouts_apply(device, &choice->layouts, choice->profiler, allocator, &parts->graph, &parts->layouts, &parts->layout_count);
}

// After the layouts, which are then those of the whole batch, whatever the number of parts.
static delta_status_t split_batch(const delta_build_options_t *build, delta_allocator_t allocator, delta_program_parts_t *parts) {
  const delta_parts_options_t options = {.count = build->parts,
                                         .batch = delta_graph_rows(parts->graph),
                                         .region_percent = build->region_percent,
                                         .accumulates = delta_lever_is_on(build->import.levers, DELTA_LEVER_ACCUMULATE)};
  if (build->eager || delta_parts_count(&options) < 2 || parts->kind == DELTA_PROGRAM_APPLY) return DELTA_OK;
  delta_graph_t *split = NULL;
  DELTA_RETURN_IF_ERROR(delta_graph_in_parts(parts->graph, &options, allocator, &split));
  delta_graph_free(parts->graph);
  parts->graph = split;
  return DELTA_OK;
}

// Whether the device has a kernel for a node as it is.
static delta_status_t can_run(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node, bool *out_can) {
  bool exists = true;
  *out_can = false;
  for (uint32_t rank = 0; !*out_can; ++rank) {
    delta_kernel_offer_t offer;
    DELTA_RETURN_IF_ERROR(device->driver->kernel_query(device, graph, node, rank, &offer, &exists));
    if (!exists) return DELTA_OK;
    *out_can = !offer.refusal;
  }
  return DELTA_OK;
}

// Whether the device has kernels for all groups of a graph.
static delta_status_t can_run_groups(delta_device_t *device, const delta_graph_t *graph, bool *out_can) {
  *out_can = true;
  for (uint32_t n = 0; n < graph->nodes.count && *out_can; ++n) {
    if (graph->nodes.items[n].op == DELTA_CORE_EACH) DELTA_RETURN_IF_ERROR(can_run(device, graph, (delta_node_id_t){n}, out_can));
  }
  return DELTA_OK;
}

// Behind all passes that would have to know groups.
static delta_status_t group_updates(const delta_build_options_t *build, delta_device_t *device, delta_allocator_t allocator,
                                    delta_program_parts_t *parts) {
  if (build->eager || !delta_lever_is_on(build->import.levers, DELTA_LEVER_UPDATE_GROUPS)) return DELTA_OK;
  bool can = false;
  delta_graph_t *grouped = NULL;
  DELTA_RETURN_IF_ERROR(delta_graph_group_updates(parts->graph, allocator, &grouped));
  const delta_status_t status = can_run_groups(device, grouped, &can);
  delta_graph_t *const left_over = can ? parts->graph : grouped;
  if (can) parts->graph = grouped;
  delta_graph_free(left_over);
  return status;
}

// What is put together for readers that can take its parts is not made. Where one of them cannot, nobody is given parts.
static delta_status_t read_parts(const delta_build_options_t *build, delta_device_t *device, delta_graph_t *graph) {
  if (build->eager || !device->reads_virtual || !delta_lever_is_on(build->import.levers, DELTA_LEVER_CONCAT)) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_graph_mark_virtual(graph));
  for (bool is_settled = false; !is_settled;) {
    is_settled = true;
    for (uint32_t n = 0; n < graph->nodes.count; ++n) {
      const delta_node_t *node = &graph->nodes.items[n];
      bool can = true;
      if (!delta_reads_virtual(graph, node)) continue;
      DELTA_RETURN_IF_ERROR(can_run(device, graph, (delta_node_id_t){n}, &can));
      if (can) continue;
      delta_graph_unmark_virtual(graph, node);
      is_settled = false;
    }
  }
  return DELTA_OK;
}

delta_status_t delta_program_build(const delta_model_t *model, const delta_build_options_t *build, delta_program_kind_t kind, int64_t batch,
                                   delta_device_t *device, const delta_program_choice_t *choice, delta_allocator_t allocator,
                                   delta_program_parts_t *out_parts) {
  *out_parts = (delta_program_parts_t){.kind = kind};
  delta_build_options_t options = *build;
  options.import.batch = batch;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_graph_build(model, &options, kind, allocator, &out_parts->graph, &out_parts->facts), cleanup);
  // Nothing is measured for a graph that cannot be built.
  if (choice->profiler) DELTA_GOTO_IF_ERROR(status, delta_profiler_measure_copies(choice->profiler), cleanup);
  if (!choice->plain && delta_lever_is_on(build->import.levers, DELTA_LEVER_LAYOUT))
    DELTA_GOTO_IF_ERROR(status, apply_layouts(device, choice, allocator, out_parts), cleanup);
  DELTA_GOTO_IF_ERROR(status, split_batch(build, allocator, out_parts), cleanup);
  DELTA_GOTO_IF_ERROR(status, group_updates(build, device, allocator, out_parts), cleanup);
  DELTA_GOTO_IF_ERROR(status, read_parts(build, device, out_parts->graph), cleanup);
  out_parts->batch = kind == DELTA_PROGRAM_APPLY ? 0 : delta_graph_rows(out_parts->graph);
  if (choice->profiler && !choice->plain) {
    const delta_graph_t *const graph = out_parts->graph;
    DELTA_GOTO_IF_ERROR(status, delta_profiler_measure(choice->profiler, &graph, 1), cleanup);
  }
  if (choice->plain) {
    DELTA_GOTO_IF_ERROR(status, plain_selection(out_parts->graph, allocator, &out_parts->selection), cleanup);
  } else {
    const delta_select_options_t select_options = {
        .device = device, .graph = out_parts->graph, .profile = delta_profiler_profile(choice->profiler), .source = choice->kernels};
    DELTA_GOTO_IF_ERROR(status, delta_select(&select_options, allocator, &out_parts->selection), cleanup);
  }
  const delta_problem_graph_options_t problem_options = {
      .costs = out_parts->selection->costs,
      .alignment_bytes = choice->plain ? 1 : device->alignment_bytes,
      .inplace = delta_lever_is_on(build->import.levers, DELTA_LEVER_INPLACE),
      .in_row = delta_lever_is_on(build->import.levers, DELTA_LEVER_CONCAT),
  };
  DELTA_GOTO_IF_ERROR(
      status, delta_problem_from_graph(out_parts->graph, &problem_options, allocator, &out_parts->problem, &out_parts->tensor_of_storage),
      cleanup);
  set_speeds(device, delta_profiler_profile(choice->profiler), out_parts->problem);
cleanup:
  if (status) delta_program_deinit(out_parts);
  return status;
}

void delta_program_deinit(delta_program_parts_t *parts) {
  if (parts->graph) delta_release(parts->graph->allocator, parts->layouts);
  delta_problem_free(parts->problem);
  delta_selection_free(parts->selection);
  delta_graph_free(parts->graph);
  *parts = (delta_program_parts_t){0};
}

static delta_status_t record_kernels(const delta_selection_t *selection, delta_plan_t *plan, delta_plan_program_t *program) {
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&plan->region, selection->node_count, &program->kernels));
  program->kernel_count = 0;
  for (uint32_t i = 0; i < selection->node_count; ++i) {
    const char *name = selection->names[i];
    char *copy = NULL;
    if (!name) continue; // nothing to run
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&plan->region, name, strlen(name), &copy));
    program->kernels[program->kernel_count++] = copy;
  }
  return DELTA_OK;
}

delta_status_t delta_program_record(const delta_program_parts_t *parts, delta_plan_t *plan, delta_plan_program_t *program) {
  void *layouts = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy(&plan->region, parts->layouts, parts->layout_count, sizeof *parts->layouts, &layouts));
  program->layouts = layouts;
  program->layout_count = parts->layout_count;
  return record_kernels(parts->selection, plan, program);
}

delta_status_t delta_program_planner(const delta_program_parts_t *parts, delta_policy_t policy, uint32_t levers, bool is_hasty,
                                     const delta_integer_solver_t *solver, delta_allocator_t allocator, delta_planner_t **out_planner) {
  const delta_planner_options_t options = {
      .policy = policy, .early_update = delta_lever_is_on(levers, DELTA_LEVER_EARLY_UPDATE), .hasty_least = is_hasty, .solver = solver};
  return delta_planner_create(parts->problem, &options, allocator, out_planner);
}

delta_status_t delta_program_plan(const delta_program_parts_t *parts, delta_policy_t policy, uint32_t levers, uint64_t capacity_bytes,
                                  delta_allocator_t allocator, delta_planner_result_t *out_result) {
  *out_result = (delta_planner_result_t){0};
  delta_planner_t *planner = NULL;
  delta_cbc_t cbc = {.allocator = allocator};
  const delta_integer_solver_t solver = delta_cbc_solver(&cbc);
  DELTA_RETURN_IF_ERROR(
      delta_program_planner(parts, policy, levers, false, delta_cbc_is_installed() ? &solver : NULL, allocator, &planner));
  delta_status_t status = delta_planner_plan(planner, capacity_bytes, out_result);
  delta_planner_destroy(planner);
  return status;
}

void delta_program_numerics_id(const delta_program_parts_t *const *parts, size_t count, const delta_device_t *device,
                               char out_id[DELTA_NUMERICS_ID_BYTES]) {
  delta_sha256_t hash;
  delta_sha256_init(&hash);
  for (size_t i = 0; i < count; ++i) delta_selection_hash(parts[i]->graph, parts[i]->selection, &hash);
  delta_sha256_update(&hash, &device->threads, sizeof device->threads);
  delta_sha256_update(&hash, device->instruction_set, strlen(device->instruction_set));
  delta_sha256_update(&hash, device->libraries, strlen(device->libraries));
  // Float32 adds nothing: plans that were made before there was a choice keep their name.
  const char *math = delta_float_math_names.names[device->math];
  if (device->math != DELTA_FLOAT_MATH_FLOAT32) delta_sha256_update(&hash, math, strlen(math));
  char text[DELTA_SHA256_TEXT_BYTES];
  delta_sha256_final_text(&hash, text);
  memcpy(out_id, text, DELTA_NUMERICS_ID_BYTES - 1);
  out_id[DELTA_NUMERICS_ID_BYTES - 1] = '\0';
}

delta_status_t delta_program_input(const delta_program_parts_t *parts, uint32_t input, int64_t ignore_index, delta_input_info_t *out_info) {
  const delta_tensor_id_t id = parts->graph->inputs.items[input];
  const delta_tensor_t *tensor = delta_graph_tensor(parts->graph, id);
  *out_info = (delta_input_info_t){.name = tensor->name, .dtype = delta_dtype_name(tensor->dtype), .rank = tensor->shape.rank};
  memcpy(out_info->dims, tensor->shape.dims, sizeof out_info->dims);
  if (strcmp(tensor->name, DELTA_NAME_LABEL) != 0 || parts->facts.label_classes == 0)
    return delta_graph_input_range(parts->graph, id, &out_info->minimum, &out_info->maximum);
  out_info->maximum = parts->facts.label_classes;
  out_info->has_ignore = 1;
  out_info->ignore_value = ignore_index;
  return DELTA_OK;
}
