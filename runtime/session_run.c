// Running a program of a session once, and explaining a loss or a norm that is not finite.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/struct_size.h"
#include "runtime/session_parts.h"

// A scalar output by name, or `fallback` where the program has none.
static delta_status_t read_scalar(delta_session_t *session, const delta_live_program_t *program, const char *name, double fallback,
                                  double *out_value) {
  *out_value = fallback;
  uint32_t index = delta_session_find_output(program->parts.graph, name);
  if (index == DELTA_INDEX_NONE) return DELTA_OK;
  const delta_tensor_t *tensor = delta_graph_tensor(program->parts.graph, program->parts.graph->outputs.items[index].tensor);
  return delta_session_load_double(session, delta_executor_output(program->ran, index), tensor->dtype, out_value);
}

// What the program itself reports.
static delta_status_t read_results(delta_session_t *session, const delta_live_program_t *program, delta_run_report_t *report) {
  const struct {
    const char *name;
    double fallback, *out_value;
  } scalars[] = {
      {DELTA_NAME_LABEL_COUNT, (double)program->parts.batch, &report->label_count},
      {DELTA_NAME_CORRECT, -1, &report->correct},
      {DELTA_NAME_GRADIENT_NORM, -1, &report->gradient_norm},
      {DELTA_NAME_LOSS_SUM, NAN, &report->loss},
  };
  for (size_t i = 0; i < sizeof scalars / sizeof *scalars; ++i)
    DELTA_RETURN_IF_ERROR(read_scalar(session, program, scalars[i].name, scalars[i].fallback, scalars[i].out_value));
  return read_scalar(session, program, DELTA_NAME_LOSS, report->loss / report->label_count, &report->loss);
}

static delta_status_t fill_report(delta_session_t *session, const delta_live_program_t *program, const delta_run_result_t *result,
                                  double start_seconds, delta_run_report_t *report) {
  *report = (delta_run_report_t){
      .struct_size = sizeof *report,
      .stall_seconds = result->lanes[DELTA_LANE_COMPUTE].wait_seconds,
      .offload_seconds = result->lanes[DELTA_LANE_OFFLOAD].busy_seconds,
      .offload_stall_seconds = result->lanes[DELTA_LANE_OFFLOAD].wait_seconds,
      .prefetch_seconds = result->lanes[DELTA_LANE_PREFETCH].busy_seconds,
      .prefetch_stall_seconds = result->lanes[DELTA_LANE_PREFETCH].wait_seconds,
      .arena_peak_bytes = session->peak_committed_bytes,
      .host_bytes = session->tier ? delta_tier_size_bytes(session->tier) : 0,
      .events = session->events.pointers,
      .event_count = session->events.count,
  };
  DELTA_RETURN_IF_ERROR(read_results(session, program, report));
  report->seconds = delta_clock_seconds() - start_seconds;
  return DELTA_OK;
}

// --- a loss or a norm that is not finite

// What a program's run must give finite for training to go on: the loss, and the norm of the gradients where they are clipped. A micro-batch
// without labels that count has no mean, but its sum is 0 and the update divides by the count of all micro-batches: there the sum is watched.
static delta_run_options_t watch_outputs(const delta_live_program_t *program) {
  static const char *const loss_names[DELTA_PROGRAM_COUNT] = {
      [DELTA_PROGRAM_TRAIN] = DELTA_NAME_LOSS, [DELTA_PROGRAM_ACCUMULATE] = DELTA_NAME_LOSS_SUM};
  const char *loss = loss_names[program->parts.kind];
  const delta_graph_t *graph = program->parts.graph;
  return (delta_run_options_t){.finite_outputs = {loss ? delta_session_find_output(graph, loss) : DELTA_INDEX_NONE,
                                                  delta_session_find_output(graph, DELTA_NAME_GRADIENT_NORM)}};
}

// Whether the program has class labels and all that were fed are the one to ignore.
static delta_status_t has_no_label(delta_session_t *session, const delta_live_program_t *program, bool *out_has_none) {
  *out_has_none = false;
  if (!program->parts.facts.has_accuracy) return DELTA_OK;
  const delta_graph_t *graph = program->parts.graph;
  for (uint32_t i = 0; i < graph->inputs.count; ++i) {
    const delta_tensor_t *tensor = delta_graph_tensor(graph, graph->inputs.items[i]);
    if (strcmp(tensor->name, DELTA_NAME_LABEL) != 0) continue;
    const void *labels = NULL;
    DELTA_RETURN_IF_ERROR(delta_session_view(session, delta_executor_input(program->executor, i), delta_tensor_bytes(tensor), &labels));
    int64_t count = delta_shape_count(&tensor->shape), ignored = 0;
    while (ignored < count && delta_element_load_int64(labels, tensor->dtype, (size_t)ignored) == session->build.ignore_index) ++ignored;
    *out_has_none = ignored == count;
    return DELTA_OK;
  }
  return DELTA_OK;
}

// The first of the program's inputs and states that was not finite before the step; NULL when all were. `out_what` says which of the two it is. States
// that the step has `updated` already say nothing of what they were before.
static delta_status_t find_bad_source(delta_session_t *session, const delta_live_program_t *program, bool updated, const char **out_what,
                                      const char **out_name) {
  const delta_graph_t *graph = program->parts.graph;
  *out_what = "input";
  for (uint32_t i = 0; i < graph->inputs.count; ++i) {
    const delta_tensor_t *tensor = delta_graph_tensor(graph, graph->inputs.items[i]);
    const void *data = NULL;
    *out_name = tensor->name;
    DELTA_RETURN_IF_ERROR(delta_session_view(session, delta_executor_input(program->executor, i), delta_tensor_bytes(tensor), &data));
    if (delta_has_infinite_value(data, tensor->dtype, &tensor->shape)) return DELTA_OK;
  }
  *out_what = "state";
  for (uint32_t i = 0; i < session->plan->state_count && !updated; ++i) {
    bool is_bad = false;
    DELTA_RETURN_IF_ERROR(delta_session_is_state_bad(session, i, &is_bad));
    *out_name = session->plan->states[i].name;
    if (is_bad) return DELTA_OK;
  }
  *out_name = NULL;
  return DELTA_OK;
}

// What a step that stopped left behind, for messages. An update from sums begins with those of the loss, and changes weights only after the norm.
static const char *describe_states(const delta_live_program_t *program, const delta_run_result_t *stopped) {
  if (stopped->ran_all && stopped->updates_done)
    return "the device had ended the step by then, with its updates: go on from the last checkpoint, or create the session again";
  if (program->parts.kind == DELTA_PROGRAM_APPLY) return "no weight was changed by this step, but the sums of its micro-batches are lost";
  return stopped->updates_done ? "states (running statistics, or weights updated early) were already changed by this step"
                               : "no state was changed by this step";
}

static delta_status_t not_finite(const delta_live_program_t *program, const char *what, const char *name,
                                 const delta_run_result_t *stopped) {
  const delta_graph_t *graph = program->parts.graph;
  const bool is_norm = stopped->output != DELTA_INDEX_NONE && stopped->output == delta_session_find_output(graph, DELTA_NAME_GRADIENT_NORM);
  return delta_status_make(
      NOT_A_NUMBER, "the %s is not a finite number; the first such value is in %s '%s'; %s; lower --lr, %scheck the data and the weights",
      is_norm ? "norm of the gradients" : "loss", what, name, describe_states(program, stopped), is_norm ? "or " : "clip gradients, or ");
}

// The loss, or the norm of the gradients, is not finite: runs again, looking at every value, to name where it began. The counters have been set back.
static delta_status_t explain_bad_value(delta_session_t *session, delta_live_program_t *program, const delta_batch_t *batch,
                                        double learning_rate, const delta_run_result_t *stopped) {
  bool has_none = false;
  DELTA_RETURN_IF_ERROR(delta_session_feed(session, program, batch, learning_rate));
  DELTA_RETURN_IF_ERROR(has_no_label(session, program, &has_none));
  if (has_none) {
    return delta_status_make(
        NOT_A_NUMBER,
        "no label of the batch counts: all are %lld, the one to ignore, and a mean over no labels is not a number; %s; "
        "check the labels or use a larger --batch",
        (long long)session->build.ignore_index, describe_states(program, stopped));
  }
  const char *what = NULL, *source = NULL;
  const bool is_update = program->parts.kind == DELTA_PROGRAM_APPLY;
  DELTA_RETURN_IF_ERROR(find_bad_source(session, program, stopped->updates_done > 0 && (!is_update || stopped->ran_all), &what, &source));
  if (source) return not_finite(program, what, source, stopped);
  if (is_update) return not_finite(program, "the result of node", stopped->node_name, stopped);
  delta_run_result_t found = {0};
  delta_run_options_t checked = watch_outputs(program);
  checked.check_values = true;
  DELTA_RETURN_IF_ERROR(delta_session_execute(session, program, &checked, &found));
  return not_finite(program, "the result of node", found.stopped ? found.node_name : stopped->node_name, stopped);
}

// A step stopped at a value that is not finite.
static delta_status_t end_stopped_step(delta_session_t *session, delta_live_program_t *program, const delta_batch_t *batch,
                                       double learning_rate, delta_counters_t counters, const delta_run_result_t *stopped) {
  DELTA_RETURN_IF_ERROR(delta_session_set_counters(session, counters));
  delta_status_t status = explain_bad_value(session, program, batch, learning_rate, stopped);
  return delta_status_join(status, delta_session_set_counters(session, counters));
}

// An update by the mean over no labels would make every weight NaN.
static delta_status_t check_accumulated(delta_session_t *session) {
  float count = 0;
  DELTA_RETURN_IF_ERROR(delta_session_read(session, DELTA_NAME_ACCUMULATED_COUNT, &count, sizeof count));
  if (count > 0) return DELTA_OK;
  return delta_status_make(NOT_A_NUMBER,
                           "no label was counted since the last update, and a mean over no labels is not a number; no state was changed by "
                           "this step; accumulate a micro-batch with labels before the update");
}

// --- running

// A request is followed once.
static delta_status_t end_cancelled(delta_session_t *session) {
  atomic_store(&session->cancels, false);
  return delta_status_make(INTERRUPTED, "cancelled; no state was changed by this step");
}

void delta_session_cancel(delta_session_t *session) { atomic_store(&session->cancels, true); }

static const delta_program_kind_t program_kinds[] = {
    [DELTA_RUN_TRAIN] = DELTA_PROGRAM_TRAIN,
    [DELTA_RUN_ACCUMULATE] = DELTA_PROGRAM_ACCUMULATE,
    [DELTA_RUN_APPLY] = DELTA_PROGRAM_APPLY,
    [DELTA_RUN_EVALUATE] = DELTA_PROGRAM_EVALUATE,
};

static delta_status_t feed_and_run(delta_session_t *session, delta_program_kind_t kind, const delta_batch_t *batch, double learning_rate,
                                   delta_live_program_t **out_program, delta_run_result_t *result) {
  DELTA_RETURN_IF_ERROR(delta_session_find_program(session, kind, batch, out_program));
  session->evaluated = NULL;
  if (kind == DELTA_PROGRAM_APPLY) DELTA_RETURN_IF_ERROR(check_accumulated(session));
  DELTA_RETURN_IF_ERROR(delta_session_feed(session, *out_program, batch, learning_rate));
  delta_run_options_t run = watch_outputs(*out_program);
  run.cancels = &session->cancels;
  run.step_seconds = delta_session_begin_pace(session, *out_program);
  return delta_session_execute(session, *out_program, &run, result);
}

static delta_status_t run_program(delta_session_t *session, delta_program_kind_t kind, const delta_batch_t *batch, double learning_rate,
                                  delta_run_report_t *out_report) {
  delta_live_program_t *program = NULL;
  delta_run_result_t result = {0};
  delta_events_drop(&session->events, session->reported_events);
  session->reported_events = 0;
  session->reflex.skips = 0;
  delta_session_look_around(session);
  delta_session_take_ask(session);
  DELTA_RETURN_IF_ERROR(delta_session_adapt(session));
  session->peak_committed_bytes = session->committed_bytes;
  const double start_seconds = delta_clock_seconds();
  delta_counters_t counters;
  DELTA_RETURN_IF_ERROR(delta_session_get_counters(session, &counters));
  delta_status_t status = feed_and_run(session, kind, batch, learning_rate, &program, &result);
  if (status && result.failed_below) {
    status = delta_status_join(status, delta_session_set_counters(session, counters));
    DELTA_RETURN_IF_ERROR(delta_session_retreat(session, &result, status));
    status = feed_and_run(session, kind, batch, learning_rate, &program, &result);
  }
  if (status) return status;
  if (result.cancelled) {
    DELTA_RETURN_IF_ERROR(delta_session_set_counters(session, counters));
    return end_cancelled(session);
  }
  if (result.stopped) return end_stopped_step(session, program, batch, learning_rate, counters, &result);
  if (kind == DELTA_PROGRAM_EVALUATE) session->evaluated = program;
  delta_session_watch(session, program, &result);
  delta_session_end_pace(session, program, &result);
  if (out_report) DELTA_RETURN_IF_ERROR(fill_report(session, program, &result, start_seconds, out_report));
  DELTA_RETURN_IF_ERROR(delta_session_consider_retreat(session, &result));
  if (out_report) out_report->event_count = session->events.count;
  session->reported_events = session->events.count;
  return DELTA_OK;
}

static delta_status_t check_arguments(delta_run_program_t which, const delta_batch_t *batch, double learning_rate,
                                      const delta_run_report_t *report) {
  if ((size_t)which >= sizeof program_kinds / sizeof *program_kinds)
    return delta_status_make(INVALID_ARGUMENT, "program %d does not exist", (int)which);
  if (!isfinite(learning_rate) || learning_rate < 0)
    return delta_status_make(INVALID_ARGUMENT, "the learning rate %g: give a finite number from 0 on", learning_rate);
  if (report)
    DELTA_RETURN_IF_ERROR(
        delta_struct_size_check("run report", "set it to sizeof(delta_run_report_t)", report->struct_size, sizeof *report));
  if (which != DELTA_RUN_APPLY && (batch->rows < 1 || batch->rows > DELTA_MOST_ROWS)) {
    return delta_status_make(INVALID_ARGUMENT, "a batch of %lld rows: give from 1 to %lld", (long long)batch->rows,
                             (long long)DELTA_MOST_ROWS);
  }
  return DELTA_OK;
}

delta_status_t delta_session_run(delta_session_t *session, delta_run_program_t which, const delta_batch_t *batch, double learning_rate,
                                 delta_run_report_t *out_report) {
  static const delta_batch_t no_batch = {0};
  if (!batch) batch = &no_batch;
  DELTA_RETURN_IF_ERROR(check_arguments(which, batch, learning_rate, out_report));
  if (atomic_load(&session->cancels)) return end_cancelled(session);
  delta_session_begin_run(session);
  delta_status_t status = run_program(session, program_kinds[which], batch, learning_rate, out_report);
  delta_session_end_run(session);
  return status;
}
