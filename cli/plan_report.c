// One row per number, for both forms where they share it.
#include "cli/plan_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json.h"

// X(JSON name, member, text)
#define MEMORY_ROWS(X)                                            \
  X("parameters", memory_parameters_bytes, "parameters")          \
  X("gradients", memory_gradients_bytes, "gradients")             \
  X("optimizer_state", memory_optimizer_bytes, "optimizer state") \
  X("activations", memory_activations_bytes, "activations")       \
  X("workspace", memory_workspace_bytes, "workspace")             \
  X("inputs", memory_inputs_bytes, "inputs")                      \
  X("other", memory_other_bytes, "other")

static void print_size(const char *what, uint64_t size_bytes) {
  char text[DELTA_SIZE_TEXT_BYTES];
  printf("  %-28s %12s\n", what, delta_size_text(size_bytes, text));
}

// "inputs: x float32 [64, 1, 8, 8]; label int64 [64], classes 0 to 9"
static void print_inputs(const delta_plan_summary_t *summary) {
  printf("inputs:");
  for (size_t i = 0; i < summary->input_count; ++i) {
    const delta_input_info_t *input = &summary->inputs[i];
    printf("%s %s %s [", i ? ";" : "", input->name, input->dtype);
    for (int d = 0; d < input->rank; ++d) printf("%s%lld", d ? ", " : "", (long long)input->dims[d]);
    printf("]");
    if (input->minimum < input->maximum) {
      printf(", %s %lld to %lld", input->has_ignore ? "classes" : "values", (long long)input->minimum, (long long)input->maximum - 1);
    }
  }
  printf("\n");
}

static void write_inputs(delta_json_writer_t *writer, const delta_plan_summary_t *summary) {
  delta_json_begin_array(writer, "inputs");
  for (size_t i = 0; i < summary->input_count; ++i) {
    const delta_input_info_t *input = &summary->inputs[i];
    delta_json_begin_object(writer, NULL);
    delta_json_write_string(writer, "name", input->name);
    delta_json_write_string(writer, "dtype", input->dtype);
    delta_json_begin_inline_array(writer, "shape");
    for (int d = 0; d < input->rank; ++d) delta_json_write_int64(writer, NULL, input->dims[d]);
    delta_json_end_array(writer);
    if (input->minimum < input->maximum) {
      delta_json_write_int64(writer, "minimum", input->minimum);
      delta_json_write_int64(writer, "maximum", input->maximum - 1);
    }
    delta_json_end_object(writer);
  }
  delta_json_end_array(writer);
}

// How long a step takes by the costs that the plan was made with, and what the budget costs: beside the step without one, and the least that any plan of this order takes with the states where this one has them.
static void print_step(const delta_plan_summary_t *summary) {
  const double unlimited = summary->unlimited_step_seconds;
  char size[DELTA_SIZE_TEXT_BYTES];
  printf("  %-28s %10.4f s", "predicted step", summary->step_seconds);
  if (summary->step_seconds > unlimited && unlimited > 0) {
    printf(", %.1f %% slower than without a budget", 100 * (summary->step_seconds / unlimited - 1));
    if (summary->lower_bound_seconds >= unlimited)
      printf("; at least %.1f %% by the bound", 100 * (summary->lower_bound_seconds / unlimited - 1));
  }
  printf("\n");
  if (summary->swapped_tensors > 0)
    printf("  %-28s %12s, %llu tensors\n", "swapped", delta_size_text(summary->swapped_bytes, size),
           (unsigned long long)summary->swapped_tensors);
  if (summary->recomputed_nodes > 0)
    printf("  %-28s %10.4f s, %llu operators\n", "computed again", summary->recompute_seconds,
           (unsigned long long)summary->recomputed_nodes);
}

void delta_plan_report_text(const delta_plan_summary_t *summary, const char *model, const char *output) {
  printf("%s: %llu nodes, batch %lld, policy %s, for %s\n", model, (unsigned long long)summary->nodes, (long long)summary->batch,
         summary->policy, summary->device);
  print_size("arena", summary->arena_bytes);
  print_size("largest sum of live bytes", summary->peak_bytes);
#define PRINT_MEMORY(name, member, text) \
  if (summary->member) print_size("  " text, summary->member);
  MEMORY_ROWS(PRINT_MEMORY)
#undef PRINT_MEMORY
  print_size("without workspace", summary->peak_bytes - summary->memory_workspace_bytes);
  print_size("the same, eager framework", summary->eager_peak_bytes);
  print_size("least budget of this policy", summary->minimum_budget_bytes);
  if (summary->budget_bytes == UINT64_MAX) {
    printf("  %-28s %12s\n", "budget", "unlimited");
  } else {
    print_size("budget", summary->budget_bytes);
  }
  print_step(summary);
  // Processors have no choice.
  if (strncmp(summary->device, "cpu", 3) != 0) printf("  %-28s %12s\n", "products of float32 by", summary->math);
  if (summary->parts > 1) printf("  %-28s %12lld\n", "parts along the batch", (long long)summary->parts);
  printf("  planned in %.2f s, numerics %s\n", summary->planning_seconds, summary->numerics_id);
  print_inputs(summary);
  if (output) printf("wrote %s\n", output);
}

static void write_sizes(delta_json_writer_t *writer, const delta_plan_summary_t *summary) {
  if (summary->budget_bytes == UINT64_MAX) {
    delta_json_write_null(writer, "budget_bytes");
  } else {
    delta_json_write_int64(writer, "budget_bytes", (int64_t)summary->budget_bytes);
  }
#define WRITE_SIZE(member) delta_json_write_int64(writer, #member, (int64_t)summary->member);
  WRITE_SIZE(arena_bytes)
  WRITE_SIZE(peak_bytes)
  WRITE_SIZE(unlimited_peak_bytes)
  WRITE_SIZE(eager_peak_bytes)
  WRITE_SIZE(minimum_budget_bytes)
  WRITE_SIZE(state_bytes)
  WRITE_SIZE(swapped_bytes)
  WRITE_SIZE(swapped_tensors)
  WRITE_SIZE(recomputed_nodes)
#undef WRITE_SIZE
}

static void write_times(delta_json_writer_t *writer, const delta_plan_summary_t *summary) {
#define WRITE_TIME(member) delta_json_write_double(writer, #member, summary->member);
  WRITE_TIME(step_seconds)
  WRITE_TIME(unlimited_step_seconds)
  const bool is_planned = summary->step_seconds > 0; // else there is nothing to compare
  delta_json_write_double(writer, "slowdown", is_planned ? summary->step_seconds / summary->unlimited_step_seconds - 1 : (double)NAN);
  WRITE_TIME(recompute_seconds)
  WRITE_TIME(stall_seconds)
  WRITE_TIME(lower_bound_seconds)
  WRITE_TIME(planning_seconds)
  WRITE_TIME(profiling_seconds)
#undef WRITE_TIME
}

delta_status_t delta_plan_report_json(const delta_plan_summary_t *summary, const char *model, const char *device,
                                      delta_allocator_t allocator) {
  delta_text_t text;
  delta_text_init(&text, allocator);
  delta_json_writer_t writer;
  delta_json_writer_init(&writer, &text, false);
  delta_json_begin_object(&writer, NULL);
  delta_json_write_string(&writer, "model", model);
  delta_json_write_string(&writer, "device", device);
  delta_json_write_string(&writer, "policy", summary->policy);
  delta_json_write_string(&writer, "numerics_id", summary->numerics_id);
  delta_json_write_string(&writer, "math", summary->math);
  delta_json_write_int64(&writer, "nodes", (int64_t)summary->nodes);
  delta_json_write_int64(&writer, "batch", summary->batch);
  delta_json_write_int64(&writer, "parts", summary->parts);
  delta_json_write_int64(&writer, "trainable_parameters", summary->trainable_parameters);
  write_sizes(&writer, summary);
  write_times(&writer, summary);
  delta_json_begin_object(&writer, "memory");
#define WRITE_MEMORY(name, member, text) delta_json_write_int64(&writer, name, (int64_t)summary->member);
  MEMORY_ROWS(WRITE_MEMORY)
#undef WRITE_MEMORY
  delta_json_end_object(&writer);
  write_inputs(&writer, summary);
  delta_json_end_object(&writer);
  delta_status_t status = delta_json_writer_finish(&writer);
  if (!status) puts(text.items);
  delta_text_deinit(&text);
  return status;
}
