// Running a program of a session once, and explaining a loss that is not finite.
#include <math.h>

#include "base/clock.h"
#include "runtime/session_parts.h"

// A scalar output by name, or `fallback` where the program has none.
static double read_scalar(const delta_live_program_t *program, const char *name, double fallback) {
  uint32_t index = delta_session_find_output(program->parts.graph, name);
  if (index == DELTA_INDEX_NONE) return fallback;
  const delta_tensor_t *tensor = delta_graph_tensor(program->parts.graph, program->parts.graph->outputs.items[index].tensor);
  return delta_element_load_double(delta_executor_output(program->executor, index), tensor->dtype, 0);
}

static void fill_report(const delta_session_t *session, const delta_live_program_t *program, double seconds, delta_run_report_t *report) {
  double rows = (double)program->parts.batch;
  *report = (delta_run_report_t){
      .struct_size = sizeof *report,
      .label_count = read_scalar(program, DELTA_NAME_LABEL_COUNT, rows),
      .correct = read_scalar(program, DELTA_NAME_CORRECT, -1),
      .gradient_norm = read_scalar(program, DELTA_NAME_GRADIENT_NORM, -1),
      .seconds = seconds,
      .arena_peak_bytes = session->committed_bytes,
  };
  report->loss = read_scalar(program, DELTA_NAME_LOSS, read_scalar(program, DELTA_NAME_LOSS_SUM, NAN) / report->label_count);
}

// The loss is not finite: runs again, looking at every value, to name where it began.
static delta_status_t explain_bad_loss(delta_session_t *session, delta_live_program_t *program, const delta_batch_t *batch,
                                       double learning_rate, const delta_run_result_t *stopped) {
  delta_run_result_t found = {0};
  const delta_run_options_t checked = {.finite_output = DELTA_INDEX_NONE, .check_values = true};
  DELTA_RETURN_IF_ERROR(delta_session_feed(session, program, batch, learning_rate));
  DELTA_RETURN_IF_ERROR(delta_executor_run(program->executor, &checked, &found));
  const char *node = found.stopped ? found.node_name : stopped->node_name;
  const char *states = stopped->updates_done ? "states were already being updated in this step" : "no state was changed by this step";
  return delta_status_make(
      NOT_A_NUMBER,
      "the loss is not a finite number; the first such value comes from node '%s'; %s. Lower --lr, clip gradients, or check the data", node,
      states);
}

static const delta_program_kind_t program_kinds[] = {
    [DELTA_PROGRAM_RUN_TRAIN] = DELTA_PROGRAM_TRAIN,
    [DELTA_PROGRAM_RUN_ACCUMULATE] = DELTA_PROGRAM_ACCUMULATE,
    [DELTA_PROGRAM_RUN_APPLY] = DELTA_PROGRAM_APPLY,
    [DELTA_PROGRAM_RUN_EVALUATE] = DELTA_PROGRAM_EVALUATE,
};

delta_status_t delta_session_run(delta_session_t *session, delta_run_program_t which, const delta_batch_t *batch, double learning_rate,
                                 delta_run_report_t *out_report) {
  if ((size_t)which >= sizeof program_kinds / sizeof *program_kinds)
    return delta_status_make(INVALID_ARGUMENT, "program %d does not exist", (int)which);
  delta_program_kind_t kind = program_kinds[which];
  static const delta_batch_t no_batch = {0};
  if (!batch) batch = &no_batch;
  if (kind != DELTA_PROGRAM_APPLY && batch->rows < 1)
    return delta_status_make(INVALID_ARGUMENT, "a batch of %lld rows: give at least one", (long long)batch->rows);
  delta_live_program_t *program = NULL;
  DELTA_RETURN_IF_ERROR(delta_session_find_program(session, kind, batch->rows, &program));
  session->evaluated = NULL;
  double start_seconds = delta_clock_seconds();
  DELTA_RETURN_IF_ERROR(delta_session_feed(session, program, batch, learning_rate));
  bool trains = kind == DELTA_PROGRAM_TRAIN || kind == DELTA_PROGRAM_ACCUMULATE;
  delta_run_result_t result = {0};
  const delta_run_options_t run = {.finite_output =
                                       trains ? delta_session_find_output(program->parts.graph, DELTA_NAME_LOSS) : DELTA_INDEX_NONE};
  DELTA_RETURN_IF_ERROR(delta_executor_run(program->executor, &run, &result));
  if (result.stopped) return explain_bad_loss(session, program, batch, learning_rate, &result);
  if (kind == DELTA_PROGRAM_EVALUATE) session->evaluated = program;
  if (out_report) fill_report(session, program, delta_clock_seconds() - start_seconds, out_report);
  return DELTA_OK;
}
