// The measured timeline of a session's programs.
#include "plans/plan_show.h"
#include "plans/trace.h"
#include "runtime/session_parts.h"

// A program ran when its last step has ended.
static bool has_run(const delta_live_program_t *program) {
  const uint32_t count = program->schedule->step_count;
  return program->times && count > 0 && program->times[count - 1].end_seconds > 0;
}

// A view whose times begin at 0; texts and times live in the region.
static delta_status_t make_view(const delta_session_t *session, const delta_live_program_t *program, delta_region_t *region,
                                delta_view_t *out_view) {
  const uint32_t count = program->schedule->step_count;
  delta_step_times_t *times = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, count, &times));
  double begin_seconds = program->times[0].start_seconds;
  for (uint32_t s = 1; s < count; ++s) {
    if (program->times[s].start_seconds < begin_seconds) begin_seconds = program->times[s].start_seconds;
  }
  for (uint32_t s = 0; s < count; ++s) {
    times[s] = (delta_step_times_t){.start_seconds = program->times[s].start_seconds - begin_seconds,
                                    .end_seconds = program->times[s].end_seconds - begin_seconds};
  }
  *out_view = (delta_view_t){.program = delta_plan_program_name(program->parts.kind),
                             .batch = program->parts.batch,
                             .problem = program->parts.problem,
                             .schedule = program->schedule,
                             .times = times,
                             .state_bytes = session->state_bytes};
  return delta_view_name_graph(program->parts.graph, program->parts.tensor_of_storage, program->parts.problem, region, &out_view->types,
                               &out_view->operators);
}

delta_status_t delta_session_write_trace(const delta_session_t *session, const char *path) {
  if (!session->options.record_steps)
    return delta_status_make(INVALID_ARGUMENT, "steps were not recorded: set record_steps in the session's options");
  delta_view_t *views = NULL;
  delta_region_t region;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(session->allocator, session->programs.count, &views));
  delta_region_init(&region, session->allocator);
  size_t count = 0;
  delta_status_t status = DELTA_OK;
  for (size_t i = 0; i < session->programs.count; ++i) {
    if (!has_run(session->programs.items[i])) continue;
    DELTA_GOTO_IF_ERROR(status, make_view(session, session->programs.items[i], &region, &views[count++]), cleanup);
  }
  const delta_trace_head_t head = {.model = session->plan->model_file, .source = "measured"};
  status = count > 0 ? delta_trace_write(&head, views, count, path, session->allocator)
                     : delta_status_make(INVALID_ARGUMENT, "'%s': there is no trace before a program has run", path);
cleanup:
  delta_region_deinit(&region);
  delta_release(session->allocator, views);
  return status;
}
