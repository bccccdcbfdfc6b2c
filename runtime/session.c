// Session: programs of a plan over one arena. Programs are built again and compared with the plan when the session is made; a batch size that the plan
// does not have is planned when it first comes, in the same arena and state area, and kept.
#include <string.h>

#include "base/struct_size.h"
#include "runtime/plan_model.h"
#include "runtime/plan_options.h"
#include "runtime/session_parts.h"

void delta_session_options_init(delta_session_options_t *options) { *options = (delta_session_options_t){.struct_size = sizeof *options}; }

static delta_status_t open_model(delta_session_t *session) {
  const delta_session_options_t *options = &session->options;
  const delta_plan_model_place_t place = {
      .plan_path = options->plan_path, .model_path = options->model_path, .external_folder = options->external_data};
  return delta_plan_load_model(session->plan, &place, options->log, session->allocator, &session->model);
}

static delta_status_t check_device(const delta_session_t *session) {
  const delta_plan_numerics_t *numerics = &session->plan->numerics;
  const delta_device_t *device = session->device;
  if (strcmp(device->instruction_set, numerics->instruction_set) != 0 || strcmp(device->libraries, numerics->libraries) != 0) {
    return delta_status_make(
        MISMATCH, "the plan is for instruction set %s with %s, this machine has %s with %s: make a new plan with 'deltaplan %s -o PLAN'",
        numerics->instruction_set, numerics->libraries, device->instruction_set, device->libraries, session->plan->model_file);
  }
  return DELTA_OK;
}

// Costs that were measured on this machine serve plans of other batches and budgets; without a cache they are estimated.
static void open_profile(delta_session_t *session) {
  const delta_profiler_options_t options = {.device = session->device, .only_read = true};
  if (session->options.estimate_costs) return;
  delta_status_free(delta_profiler_create(&options, session->allocator, &session->profiler));
}

// The plan's budget, or the one that replaces it. What the device has free is no reason to refuse a plan that was given a size.
static delta_status_t resolve_budget(delta_session_t *session) {
  const delta_plan_totals_t *totals = &session->plan->totals;
  session->budget_bytes = totals->budget_bytes;
  if (!session->options.budget) return DELTA_OK;
  return delta_budget_resolve(session->options.budget, UINT64_MAX, totals->unlimited_peak_bytes, totals->minimum_budget_bytes,
                              session->device->granule_bytes, &session->budget_bytes);
}

static delta_status_t reserve_arena(delta_session_t *session) {
  const delta_plan_t *plan = session->plan;
  session->state_bytes = plan->totals.state_bytes;
  // Address space costs nothing: a batch size that comes later may need a little more than the planned ones, and a larger budget as much as there is use for.
  size_t reserve_bytes;
  const uint64_t most_bytes =
      plan->totals.arena_bytes > plan->totals.unlimited_peak_bytes ? plan->totals.arena_bytes : plan->totals.unlimited_peak_bytes;
  if (!delta_size_mul(most_bytes, 2, &reserve_bytes) || !delta_size_add(reserve_bytes, (size_t)64 << 20, &reserve_bytes)) {
    return delta_status_make(OUT_OF_MEMORY, "an arena of %llu bytes does not fit the address space", (unsigned long long)most_bytes);
  }
  session->reserve_bytes = reserve_bytes;
  return session->device->driver->arena_reserve(session->device, reserve_bytes, &session->arena);
}

static delta_status_t check_options(const delta_session_options_t *options) {
  DELTA_RETURN_IF_ERROR(
      delta_struct_size_check("session options", "call delta_session_options_init", options->struct_size, sizeof *options));
  if (!options->plan) return delta_status_make(INVALID_ARGUMENT, "session options: no plan given");
  if (options->other_programs < 0)
    return delta_status_make(INVALID_ARGUMENT, "session options: %d other programs", options->other_programs);
  if (options->copy_timeout_seconds >= 0) return DELTA_OK;
  return delta_status_make(INVALID_ARGUMENT, "session options: a copy timeout of %g seconds", options->copy_timeout_seconds);
}

delta_status_t delta_session_create(const delta_session_options_t *options, delta_allocator_t allocator, delta_session_t **out_session) {
  *out_session = NULL;
  DELTA_RETURN_IF_ERROR(check_options(options));
  const delta_plan_numerics_t *numerics = &options->plan->numerics;
  const delta_device_options_t device_options = {.threads = numerics->threads, .math = numerics->math, .log = options->log};
  delta_device_t *device = NULL;
  DELTA_RETURN_IF_ERROR(
      delta_status_annotate(delta_device_open(numerics->device, &device_options, allocator, &device),
                            "the plan is for the device '%s', which this machine does not have (make one for this machine "
                            "with 'deltaplan %s -o PLAN')",
                            numerics->device, options->plan->model_file));
  return delta_session_create_on(options, device, allocator, out_session);
}

delta_status_t delta_session_create_on(const delta_session_options_t *options, delta_device_t *device, delta_allocator_t allocator,
                                       delta_session_t **out_session) {
  *out_session = NULL;
  delta_session_t *session = NULL;
  delta_status_t allocated = DELTA_ALLOCATE(allocator, 1, &session);
  if (allocated) {
    delta_device_close(device);
    return allocated;
  }
  session->allocator = allocator;
  session->device = device;
  session->options = *options;
  pthread_mutex_init(&session->reflex.mutex, NULL);
  session->reflex.limit_bytes = UINT64_MAX;
  delta_pressure_init(&session->pressure);
  // What the host is short of, an arena in a device's own memory cannot give.
  session->pressure.is_off = !device->host_addressable;
  delta_tally_init(&session->tally, allocator);
  session->plan = options->plan;
  session->build = options->plan->build;
  session->build.import.log = options->log;
  session->build.import.levers = options->plan->levers;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, open_model(session), cleanup);
  DELTA_GOTO_IF_ERROR(status, check_device(session), cleanup);
  DELTA_GOTO_IF_ERROR(status, resolve_budget(session), cleanup);
  session->wanted_budget_bytes = session->reflex.user_bytes = session->budget_bytes;
  open_profile(session);
  DELTA_GOTO_IF_ERROR(status, reserve_arena(session), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_session_make_planned(session), cleanup);
  delta_session_prepare_pace(session);
  DELTA_GOTO_IF_ERROR(status, delta_session_initialize_states(session), cleanup);
  *out_session = session;
  session = NULL;
cleanup:
  delta_session_destroy(session);
  return status;
}

delta_status_t delta_session_report_times(const delta_session_t *session, delta_log_sink_t sink) {
  if (!session->options.time_steps)
    return delta_status_make(INVALID_ARGUMENT, "times were not kept: set time_steps in the session's options");
  return delta_tally_report(&session->tally, sink);
}

uint64_t delta_session_budget(const delta_session_t *session) { return session->budget_bytes; }

void delta_session_destroy(delta_session_t *session) {
  if (!session) return;
  delta_session_stop_planning(session);
  // A copy that never came back still has its bytes and its place in a program: they stay.
  if (!delta_lanes_destroy(session->lanes)) return;
  for (size_t i = 0; i < session->programs.count; ++i) delta_session_free_program(session, session->programs.items[i]);
  delta_array_deinit(session->allocator, &session->programs);
  delta_session_free_properties(session);
  delta_tally_deinit(&session->tally);
  delta_session_free_pace(session);
  delta_tier_destroy(session->tier);
  if (session->arena) session->device->driver->arena_destroy(session->arena);
  delta_session_return(session);
  delta_profiler_destroy(session->profiler);
  delta_device_close(session->device);
  delta_model_free(session->model);
  delta_plan_free(session->own_plan);
  pthread_mutex_destroy(&session->reflex.mutex);
  delta_release(session->allocator, session);
}
