// Texts of types and operators live in the plan's region, problems with their programs.
#include "plans/plan_show.h"

#include "onnx/graph/core_ops.h"
#include "onnx/graph/graph.h"
#include "plans/plan_json.h"
#include "plans/report.h"
#include "plans/trace.h"

const char *delta_plan_program_name(delta_program_kind_t kind) { return delta_program_names.names[kind]; }

static delta_status_t format_type(delta_region_t *region, delta_dtype_t dtype, const delta_shape_t *shape, const char **out_type) {
  char text[DELTA_SHAPE_TEXT_BYTES], *type = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_format(region, &type, "%s %s", delta_dtype_name(dtype), delta_shape_text(shape, text)));
  *out_type = type;
  return DELTA_OK;
}

delta_status_t delta_view_name_graph(const delta_graph_t *graph, const uint32_t *tensor_of_storage, const delta_problem_t *problem,
                                     delta_region_t *region, const char *const **out_types, const char *const **out_operators) {
  const char **types = NULL, **operators = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->tensor_count, &types));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->step_count, &operators));
  for (uint32_t i = 0; i < graph->tensors.count; ++i) {
    const delta_tensor_t *tensor = &graph->tensors.items[i];
    if (tensor->storage.index != i || tensor_of_storage[i] == DELTA_PROBLEM_NONE) continue;
    DELTA_RETURN_IF_ERROR(format_type(region, tensor->dtype, &tensor->shape, &types[tensor_of_storage[i]]));
  }
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    const delta_node_t *node = delta_graph_node(graph, (delta_node_id_t){problem->steps[s].node});
    operators[s] = delta_core_op_info(node->op)->name;
  }
  *out_types = types;
  *out_operators = operators;
  return DELTA_OK;
}

delta_status_t delta_plan_keep_view(delta_plan_t *plan, uint32_t index, const delta_graph_t *graph, const uint32_t *tensor_of_storage,
                                    delta_problem_t **inout_problem) {
  delta_plan_program_t *program = &plan->programs[index];
  DELTA_RETURN_IF_ERROR(
      delta_view_name_graph(graph, tensor_of_storage, *inout_problem, &plan->region, &program->types, &program->operators));
  program->problem = *inout_problem;
  *inout_problem = NULL;
  return DELTA_OK;
}

// Views of all programs. The caller releases the list.
static delta_status_t list_views(const delta_plan_t *plan, delta_view_t **out_views) {
  delta_view_t *views = NULL;
  for (uint32_t i = 0; i < plan->program_count; ++i) {
    if (plan->programs[i].problem) continue;
    return delta_status_make(INVALID_ARGUMENT,
                             "the plan has no names of tensors and steps: make it with report_path or trace_path, or give it its model");
  }
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(plan->allocator, plan->program_count, &views));
  for (uint32_t i = 0; i < plan->program_count; ++i) {
    const delta_plan_program_t *program = &plan->programs[i];
    views[i] = (delta_view_t){.program = delta_plan_program_name(program->kind),
                              .batch = program->batch,
                              .problem = program->problem,
                              .schedule = program->schedule,
                              .types = program->types,
                              .operators = program->operators,
                              .state_bytes = plan->totals.state_bytes};
  }
  *out_views = views;
  return DELTA_OK;
}

// States with a place in the arena.
static delta_status_t list_states(const delta_plan_t *plan, delta_region_t *region, const delta_report_state_t **out_states,
                                  uint32_t *out_count) {
  delta_report_state_t *states = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, plan->state_count, &states));
  *out_states = states;
  *out_count = 0;
  for (uint32_t i = 0; i < plan->state_count; ++i) {
    const delta_plan_state_t *state = &plan->states[i];
    if (state->is_below) continue;
    delta_report_state_t *shown = &states[(*out_count)++];
    *shown = (delta_report_state_t){.name = state->name,
                                    .kind = delta_state_kind_names.names[state->kind],
                                    .offset_bytes = state->offset_bytes,
                                    .size_bytes = state->size_bytes};
    DELTA_RETURN_IF_ERROR(format_type(region, state->dtype, &state->shape, &shown->type));
  }
  return DELTA_OK;
}

static delta_status_t describe_device(const delta_plan_t *plan, delta_region_t *region, const char **out_device) {
  const delta_plan_numerics_t *numerics = &plan->numerics;
  char *device = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_format(region, &device, "%s (%d %s, %s%s)", numerics->device, (int)numerics->threads,
                                            numerics->threads == 1 ? "thread" : "threads", numerics->instruction_set,
                                            numerics->math == DELTA_FLOAT_MATH_TF32 ? ", TF32" : ""));
  *out_device = device;
  return DELTA_OK;
}

static delta_status_t fill_report(const delta_plan_t *plan, delta_region_t *region, delta_report_t *report) {
  const delta_plan_totals_t *totals = &plan->totals;
  report->model = plan->model_file;
  report->policy = plan->policy;
  report->numerics_id = plan->numerics.id;
  report->batch = delta_plan_rows(plan);
  report->budget_bytes = totals->budget_bytes;
#define COPY_NUMBER(member) report->member = totals->member;
  DELTA_REPORT_SIZES(COPY_NUMBER)
  DELTA_REPORT_TIMES(COPY_NUMBER)
#undef COPY_NUMBER
  report->points = plan->points;
  report->point_count = plan->point_count;
  report->view_count = plan->program_count;
  DELTA_RETURN_IF_ERROR(describe_device(plan, region, &report->device));
  return list_states(plan, region, &report->states, &report->state_count);
}

delta_status_t delta_plan_write_report(const delta_plan_t *plan, const char *path) {
  delta_report_t report = {0};
  delta_view_t *views = NULL;
  delta_region_t region;
  DELTA_RETURN_IF_ERROR(list_views(plan, &views));
  delta_region_init(&region, plan->allocator);
  report.views = views;
  delta_status_t status = fill_report(plan, &region, &report);
  if (!status) status = delta_report_write(&report, path, plan->allocator);
  delta_region_deinit(&region);
  delta_release(plan->allocator, views);
  return status;
}

delta_status_t delta_plan_write_trace(const delta_plan_t *plan, const char *path) {
  delta_view_t *views = NULL;
  DELTA_RETURN_IF_ERROR(list_views(plan, &views));
  const delta_trace_head_t head = {.model = plan->model_file, .source = "planned"};
  delta_status_t status = delta_trace_write(&head, views, plan->program_count, path, plan->allocator);
  delta_release(plan->allocator, views);
  return status;
}
