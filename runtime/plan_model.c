// Finds and loads the model of a plan; opens a loaded plan for report and trace.
#include "runtime/plan_model.h"

#include <string.h>

#include "plans/plan_show.h"
#include "runtime/absent.h"
#include "runtime/program.h"

static delta_status_t find_model(const delta_plan_t *plan, const delta_plan_model_place_t *place, delta_text_t *path) {
  if (place->model_path) return delta_text_append(path, "%s", place->model_path);
  if (!place->plan_path) return delta_status_make(INVALID_ARGUMENT, "neither the plan's path nor the model's is given");
  const char *slash = strrchr(place->plan_path, '/');
  const int folder_length = slash ? (int)(slash - place->plan_path + 1) : 0;
  return delta_text_append(path, "%.*s%s", folder_length, place->plan_path, plan->model_file);
}

delta_status_t delta_plan_load_model(const delta_plan_t *plan, const delta_plan_model_place_t *place, delta_log_sink_t log,
                                     delta_allocator_t allocator, delta_model_t **out_model) {
  delta_text_t path;
  delta_text_init(&path, allocator);
  *out_model = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, find_model(plan, place, &path), cleanup);
  const delta_model_options_t options = {.path = path.items, .external_folder = place->external_folder, .log = log};
  status = delta_model_load(&options, allocator, out_model);
  if (status && delta_status_code(status) == DELTA_STATUS_NOT_FOUND)
    status = delta_status_annotate(status, "the plan's model (give --model FILE)");
  if (!status && strcmp((*out_model)->sha256, plan->model_sha256) != 0) {
    status = delta_status_make(
        MISMATCH, "model '%s' is not the one the plan was made for (another SHA-256): make a new plan with deltaplan", path.items);
  }
cleanup:
  if (status) {
    delta_model_free(*out_model);
    *out_model = NULL;
  }
  delta_text_deinit(&path);
  return status;
}

// Builds one program again, proves its schedule against it, and keeps its names.
static delta_status_t open_program(delta_plan_t *plan, uint32_t index, const delta_model_t *model, delta_device_t *device) {
  const delta_plan_program_t *program = &plan->programs[index];
  const delta_program_choice_t choice = {.layouts = {.is_given = true, .layouts = program->layouts, .count = program->layout_count},
                                         .kernels = {.is_given = true, .names = program->kernels, .count = program->kernel_count}};
  delta_build_options_t build = plan->build;
  build.import.levers = plan->levers;
  const int64_t batch = program->kind == DELTA_PROGRAM_APPLY || build.import.batch == 0 ? build.import.batch : program->batch;
  delta_program_parts_t parts = {0};
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_program_build(model, &build, program->kind, batch, device, &choice, plan->allocator, &parts), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_plan_check_states(plan, parts.graph), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_plan_apply_homes(plan, parts.problem), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_schedule_verify(program->schedule, parts.problem, program->schedule->arena_bytes, plan->allocator),
                      cleanup);
  status = delta_plan_keep_view(plan, index, parts.graph, parts.tensor_of_storage, &parts.problem);
cleanup:
  delta_program_deinit(&parts);
  return delta_status_annotate(status, "program '%s': the plan was edited, or made by another version or for another machine",
                               delta_plan_program_name(program->kind));
}

delta_status_t delta_plan_open_model(delta_plan_t *plan, const char *plan_path, const char *model_path, const char *external_data,
                                     const char *device_name, delta_log_sink_t log) {
  const delta_plan_model_place_t place = {.plan_path = plan_path, .model_path = model_path, .external_folder = external_data};
  delta_model_t *model = NULL;
  delta_device_t *device = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_plan_load_model(plan, &place, log, plan->allocator, &model), cleanup);
  const delta_device_options_t device_options = {.threads = plan->numerics.threads, .math = plan->numerics.math, .log = log};
  DELTA_GOTO_IF_ERROR(status,
                      delta_status_annotate(delta_device_open_any(device_name ? device_name : plan->numerics.device, &device_options,
                                                                  plan->allocator, &device),
                                            "the plan's device (one that is not there is given by --device NAME.json)"),
                      cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_plan_check_places(plan, device->alignment_bytes), cleanup);
  for (uint32_t i = 0; i < plan->program_count; ++i) DELTA_GOTO_IF_ERROR(status, open_program(plan, i, model, device), cleanup);
cleanup:
  delta_device_close(device);
  delta_model_free(model);
  return status;
}
