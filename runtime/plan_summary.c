// The numbers of a plan for programs and people.
#include <string.h>

#include <delta/plan.h>

#include "base/struct_size.h"
#include "plans/plan_json.h"

delta_status_t delta_plan_summarize(const delta_plan_t *plan, delta_plan_summary_t *out_summary) {
  DELTA_RETURN_IF_ERROR(
      delta_struct_size_check("plan summary", "set it to sizeof(delta_plan_summary_t)", out_summary->struct_size, sizeof *out_summary));
  const delta_plan_totals_t *totals = &plan->totals;
  const delta_schedule_t *schedule = plan->program_count ? plan->programs[0].schedule : NULL;
  *out_summary = (delta_plan_summary_t){
      .struct_size = sizeof *out_summary,
      .policy = plan->policy,
      .device = plan->numerics.device,
      .math = delta_float_math_names.names[plan->numerics.math],
      .nodes = totals->node_count,
      .batch = delta_plan_rows(plan),
      .trainable_parameters = (int64_t)totals->trainable_parameters,
      .trainable_tensors = (uint32_t)totals->trainable_tensors,
      .learning_rate = plan->learning_rate,
      .accumulate = plan->accumulate,
      .parts = plan->build.parts > 1 ? plan->build.parts : 1,
      .budget_bytes = totals->budget_bytes,
      .arena_bytes = totals->arena_bytes,
      .peak_bytes = totals->peak_bytes,
      .unlimited_peak_bytes = totals->unlimited_peak_bytes,
      .eager_peak_bytes = totals->eager_peak_bytes,
      .minimum_budget_bytes = totals->minimum_budget_bytes,
      .state_bytes = totals->state_bytes,
      .step_seconds = totals->step_seconds,
      .unlimited_step_seconds = totals->unlimited_step_seconds,
      .lower_bound_seconds = totals->lower_bound_seconds,
      .planning_seconds = totals->planning_seconds,
      .profiling_seconds = totals->profiling_seconds,
      .memory_parameters_bytes = totals->memory_bytes[DELTA_CLASS_PARAMETERS],
      .memory_gradients_bytes = totals->memory_bytes[DELTA_CLASS_GRADIENTS],
      .memory_optimizer_bytes = totals->memory_bytes[DELTA_CLASS_OPTIMIZER],
      .memory_activations_bytes = totals->memory_bytes[DELTA_CLASS_ACTIVATIONS],
      .memory_workspace_bytes = totals->memory_bytes[DELTA_CLASS_WORKSPACE],
      .memory_inputs_bytes = totals->memory_bytes[DELTA_CLASS_INPUTS],
      .memory_other_bytes = totals->memory_bytes[DELTA_CLASS_OTHER],
      .seed_policy = plan->seed_policy,
      .seed_is_plan = plan->seed_is_plan,
      .inputs = plan->inputs,
      .input_count = plan->input_count,
  };
  memcpy(out_summary->numerics_id, plan->numerics.id, sizeof out_summary->numerics_id);
  if (schedule) {
    out_summary->swapped_bytes = schedule->swapped_bytes;
    out_summary->swapped_tensors = schedule->swapped_tensors;
    out_summary->recomputed_nodes = schedule->recomputed_nodes;
    out_summary->recompute_seconds = schedule->recompute_seconds;
    out_summary->stall_seconds = schedule->stall_seconds;
  }
  return DELTA_OK;
}
