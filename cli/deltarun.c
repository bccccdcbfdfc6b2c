// deltarun: trains and evaluates by a plan. Arguments in, status out: the loop is delta_session_train.
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <delta/delta.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/common.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "plans/plan.h"
#include "runtime/checkpoint_folder.h"
#include "runtime/metrics.h"
#include "runtime/rate.h"

// Everything a command line can set.
typedef struct delta_run_settings {
  const char *data, *evaluation, *model, *external_data, *output, *metrics, *trace, *budget, *budget_file, *tier, *checkpoint;
  int64_t steps, epochs, warmup, seed, trace_step, checkpoint_every, keep, other_programs;
  double learning_rate;
  int schedule, export_form, copies; // indices of their choices
  bool shuffle, drop_last, verbose, resume, verify;
} delta_run_settings_t;

#define CHOICE_NAME(id, name, help) name,
static const char *const schedule_choices[] = {DELTA_RATE_SCHEDULES(CHOICE_NAME) NULL};
#undef CHOICE_NAME
static const char *const export_choices[] = {"inference", "training", NULL};
static const char *const copies_choices[] = {"beside", "between", NULL};

#define AT(member) offsetof(delta_run_settings_t, member)
static const delta_option_t option_rows[] = {
    {.section = "DATA",
     .name = "--data",
     .kind = DELTA_OPTION_TEXT,
     .argument = "SPEC",
     .offset = AT(data),
     .help = "What to train on: FILE.npz, or NAME=FILE.npy[:scale=S][:mean=A/B/C][:std=A/B/C],... with the model's input names and "
             "'label', or idx:IMAGES,LABELS, or "
             "csv:FILE[:label=COLUMN], or synthetic[:samples=N]."},
    {.section = "DATA",
     .name = "--eval",
     .kind = DELTA_OPTION_TEXT,
     .argument = "SPEC",
     .offset = AT(evaluation),
     .help = "What to evaluate on, after each epoch; without --data the model is only evaluated."},
    {.section = "DATA",
     .name = "--shuffle",
     .kind = DELTA_OPTION_FLAG,
     .offset = AT(shuffle),
     .help = "Another order in each epoch, by --seed (the default)."},
    {.section = "DATA", .name = "--no-shuffle", .kind = DELTA_OPTION_FLAG_OFF, .offset = AT(shuffle), .help = "The order of the file."},
    {.section = "DATA",
     .name = "--drop-last",
     .kind = DELTA_OPTION_FLAG,
     .offset = AT(drop_last),
     .help = "Leaves out the last batch of an epoch when it is not full."},
    {.section = "DATA",
     .name = "--seed",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(seed),
     .help = "Of shuffling, dropout and synthetic data (0)."},
    {.section = "TRAINING",
     .name = "--epochs",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(epochs),
     .minimum = 1,
     .maximum = 1e9,
     .help = "How often to go through the data."},
    {.section = "TRAINING",
     .name = "--steps",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(steps),
     .minimum = 1,
     .maximum = 1e12,
     .help = "How many updates to make, in place of --epochs."},
    {.section = "TRAINING",
     .name = "--lr",
     .kind = DELTA_OPTION_NUMBER,
     .argument = "X",
     .offset = AT(learning_rate),
     .minimum = 0,
     .maximum = 1e6,
     .help = "The learning rate; by default the plan's."},
    {.section = "TRAINING",
     .name = "--schedule",
     .kind = DELTA_OPTION_CHOICE,
     .argument = "NAME",
     .offset = AT(schedule),
     .choices = schedule_choices,
     .help = "How the rate changes after the warm-up: constant (the default), linear or cosine towards zero, which would be reached after "
             "the last "
             "step, step (a tenth from 1/3 of the steps on, a hundredth from 2/3)."},
    {.section = "TRAINING",
     .name = "--warmup",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(warmup),
     .minimum = 0,
     .maximum = 1e9,
     .help = "Steps in which the rate rises evenly to its value, from 1/N of it."},
    {.section = "MODEL",
     .name = "--model",
     .kind = DELTA_OPTION_TEXT,
     .argument = "FILE",
     .offset = AT(model),
     .help = "The ONNX model; by default the plan's, beside the plan."},
    {.section = "MODEL",
     .name = "--external-data",
     .kind = DELTA_OPTION_TEXT,
     .argument = "DIR",
     .offset = AT(external_data),
     .help = "Where external data may lie beside the model's folder."},
    {.section = "MEMORY",
     .name = "--budget",
     .kind = DELTA_OPTION_SIZE_TEXT,
     .argument = "SIZE",
     .offset = AT(budget),
     .choices = delta_budget_choices,
     .help =
         "Replaces the plan's budget. Where the plan needs more, a new one is made when the training starts, which computes the same; exit "
         "status 3 when none fits."},
    {.section = "MEMORY",
     .name = "--tier",
     .kind = DELTA_OPTION_TEXT,
     .argument = "DIR",
     .offset = AT(tier),
     .help = "Folder of the file that holds swapped tensors while training; by default $TMPDIR, or /var/tmp without it. The file has no "
             "name and is gone "
             "when the program ends. The word memory: host memory beside the budget, of exact size, in place of a file."},
    {.section = "MEMORY",
     .name = "--copies",
     .kind = DELTA_OPTION_CHOICE,
     .argument = "WHEN",
     .offset = AT(copies),
     .choices = copies_choices,
     .help = "beside (the default): tensors are swapped while operators compute. between: one after the other with them, for comparison."},
    {.section = "MEMORY",
     .name = "--other-batches",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(other_programs),
     .minimum = 1,
     .maximum = 1024,
     .help = "For how many batch sizes that were not planned a program is kept once it has been made (8)."},
    {.section = "MEMORY",
     .name = "--budget-file",
     .kind = DELTA_OPTION_TEXT,
     .argument = "FILE",
     .offset = AT(budget_file),
     .help = "A file whose first line is a budget, in place of --budget. It is read again when the process gets the signal USR1, and the "
             "training "
             "goes on within the new budget after at most one step, with the same numbers. A budget that no plan fits is refused with a "
             "warning. "
             "Without this option the signal is ignored."},
    {.section = "OUTPUT",
     .name = "-o",
     .kind = DELTA_OPTION_TEXT,
     .argument = "TRAINED.onnx",
     .offset = AT(output),
     .help = "Writes the trained model."},
    {.section = "OUTPUT",
     .name = "--export",
     .kind = DELTA_OPTION_CHOICE,
     .argument = "FORM",
     .offset = AT(export_form),
     .choices = export_choices,
     .help = "inference (the default): batch normalization by running statistics, dropout removed. training: the form it was given in."},
    {.section = "OUTPUT",
     .name = "--metrics",
     .kind = DELTA_OPTION_TEXT,
     .argument = "FILE.jsonl",
     .offset = AT(metrics),
     .help = "Writes one JSON object a step and an evaluation."},
    {.section = "OUTPUT",
     .name = "--verbose",
     .kind = DELTA_OPTION_FLAG,
     .offset = AT(verbose),
     .help = "Says more, and at the end the time spent by operator, kernel and layout with the speed achieved."},
    {.section = "OUTPUT",
     .name = "--trace",
     .kind = DELTA_OPTION_TEXT,
     .argument = "FILE.json",
     .offset = AT(trace),
     .help = "Writes the measured timeline of the last step, and of the last evaluation, in the Chrome trace event format, for Perfetto."},
    {.section = "OUTPUT",
     .name = "--trace-step",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(trace_step),
     .minimum = 1,
     .maximum = 1e12,
     .help = "The step that --trace writes, in place of the last."},
    {.section = "OUTPUT",
     .name = "--verify",
     .kind = DELTA_OPTION_FLAG,
     .offset = AT(verify),
     .help = "Looks at every step, slowly: nothing is written outside its buffer, what was kept, swapped or made again is what it was, "
             "memory is as "
             "planned. The first difference ends the training and is named."},
    {.section = "CHECKPOINTS",
     .name = "--checkpoint",
     .kind = DELTA_OPTION_TEXT,
     .argument = "DIR",
     .offset = AT(checkpoint),
     .help = "Saves the state of training in a folder: at the end of each epoch, and when the training ends or is stopped by a signal."},
    {.section = "CHECKPOINTS",
     .name = "--checkpoint-every",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(checkpoint_every),
     .minimum = 1,
     .maximum = 1e12,
     .help = "Saves every N updates, in place of each epoch."},
    {.section = "CHECKPOINTS",
     .name = "--keep",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(keep),
     .minimum = 1,
     .maximum = 1e6,
     .help = "How many checkpoints stay in the folder: the newest (2)."},
    {.section = "CHECKPOINTS",
     .name = "--resume",
     .kind = DELTA_OPTION_FLAG,
     .offset = AT(resume),
     .help = "Goes on from the folder's newest checkpoint, as if the training had never stopped; from the beginning when there is none. "
             "--epochs and --steps count from the beginning, --metrics adds to its file."},
};
#undef AT

static const char *const synopses[] = {"MODEL.plan --data SPEC --epochs N [--eval SPEC] [-o TRAINED.onnx] [options]",
                                       "MODEL.plan --eval SPEC", NULL};

static const delta_program_t program = {
    .name = "deltarun",
    .summary = "train an ONNX model by a plan",
    .version = DELTA_VERSION_STRING,
    .synopses = synopses,
    .description =
        "Builds the plan's programs again, checks them against the plan, reads the weights into the arena and trains. The arena never "
        "grows beyond the budget.",
    .closing =
        "EXIT STATUS\n0 done; 1 an error, named on stderr; 2 wrong usage; 3 does not fit the budget; 129, 130 or 143 stopped by a signal, "
        "after "
        "the step and with what was "
        "asked for written, a checkpoint too (a second signal stops at once).",
    .options = option_rows,
    .option_count = sizeof option_rows / sizeof *option_rows,
    .positional_maximum = 1,
};

// --- signals ---------------------------------------------------------------------------------------------------------------------------------

static volatile sig_atomic_t stop_signal;
static int stopped_by; // the signal that ended the training before its time; 0: none

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { STOP_SIGNALS = sizeof stop_signals / sizeof *stop_signals };
static bool is_watched[STOP_SIGNALS];

static volatile sig_atomic_t has_budget_signal;

static void on_budget_signal(int number) {
  (void)number;
  has_budget_signal = 1;
}

// The first signal asks the loop to end after its step; the second, whichever it is, ends the process by its default.
static void on_stop_signal(int number) {
  stop_signal = number;
  for (int i = 0; i < STOP_SIGNALS; ++i) {
    if (is_watched[i]) signal(stop_signals[i], SIG_DFL);
  }
}

// A hangup that the caller has the program ignore (nohup) stays ignored. Shells ignore interrupts for what they run in the background: those are watched.
static void watch_signals(bool has_budget_file) {
  struct sigaction action = {.sa_handler = on_stop_signal, .sa_flags = SA_RESTART}, before;
  const struct sigaction budget_action = {.sa_handler = has_budget_file ? on_budget_signal : SIG_IGN, .sa_flags = SA_RESTART};
  sigaction(SIGUSR1, &budget_action, NULL);
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < STOP_SIGNALS; ++i) {
    is_watched[i] = sigaction(stop_signals[i], NULL, &before) == 0 && (stop_signals[i] != SIGHUP || before.sa_handler != SIG_IGN);
    if (is_watched[i]) sigaction(stop_signals[i], &action, NULL);
  }
}

// --- what is shown and written while training --------------------------------------------------------------------------------------------------

typedef struct delta_run_output {
  delta_progress_t progress;
  delta_progress_state_t state;
  bool has_progress;
  delta_metrics_t metrics;
  bool has_metrics;
  const char *trace;  // NULL: none
  int64_t trace_step; // 0: the last
  bool has_trace;     // of the chosen step
  delta_checkpoint_folder_t checkpoints;
  delta_session_t *session; // Borrowed.
  const char *budget_file;  // NULL: none
  delta_log_sink_t log;
  delta_allocator_t allocator;
  double samples, seconds; // of all steps
  int64_t steps;
  double stall_seconds, offload_seconds, offload_stall_seconds, prefetch_seconds, prefetch_stall_seconds; // of all steps
} delta_run_output_t;

// The first line of the file.
static delta_status_t read_budget(const char *path, delta_allocator_t allocator, char **out_budget) {
  enum { MOST_BYTES = 4096 };
  size_t size_bytes;
  DELTA_RETURN_IF_ERROR(delta_status_annotate(delta_file_read_all(path, MOST_BYTES, allocator, out_budget, &size_bytes), "--budget-file"));
  (*out_budget)[strcspn(*out_budget, " \t\r\n")] = '\0';
  return DELTA_OK;
}

// Asks for the budget that the file names now. A file that says nothing sensible changes nothing.
static void reread_budget(const delta_run_output_t *output) {
  char *budget = NULL;
  delta_status_t status = read_budget(output->budget_file, output->allocator, &budget);
  if (!status) status = delta_session_set_budget(output->session, budget);
  if (status) delta_log(output->log, DELTA_LOG_WARNING, "the budget stays: %s", delta_status_message(status));
  delta_status_free(status);
  delta_release(output->allocator, budget);
}

static delta_status_t on_begin(void *self, int64_t total_steps) {
  delta_run_output_t *output = self;
  delta_progress_begin(&output->progress, stdout, delta_progress_is_terminal(stdout), "training", "step", total_steps,
                       delta_clock_seconds());
  output->has_progress = true;
  return DELTA_OK;
}

static void add_lanes(delta_run_output_t *output, const delta_train_step_t *step) {
  ++output->steps;
  output->stall_seconds += step->stall_seconds;
  output->offload_seconds += step->offload_seconds;
  output->offload_stall_seconds += step->offload_stall_seconds;
  output->prefetch_seconds += step->prefetch_seconds;
  output->prefetch_stall_seconds += step->prefetch_stall_seconds;
}

// The mean step of each lane.
static void report_lanes(const delta_run_output_t *output) {
  if (output->offload_seconds + output->prefetch_seconds == 0) return;
  const double steps = (double)output->steps;
  printf("lanes, seconds a step: compute %.4f and %.4f waiting; offload %.4f and %.4f waiting; prefetch %.4f and %.4f waiting\n",
         (output->seconds - output->stall_seconds) / steps, output->stall_seconds / steps, output->offload_seconds / steps,
         output->offload_stall_seconds / steps, output->prefetch_seconds / steps, output->prefetch_stall_seconds / steps);
}

static delta_status_t on_step(void *self, const delta_train_step_t *step) {
  delta_run_output_t *output = self;
  const uint64_t budget_bytes = delta_session_budget(output->session);
  if (has_budget_signal) {
    has_budget_signal = 0;
    reread_budget(output);
  }
  for (size_t i = 0; i < step->event_count; ++i) delta_progress_line(&output->progress, step->events[i]);
  output->state = (delta_progress_state_t){
      .done = step->step,
      .epoch = step->epoch,
      .loss = step->loss,
      .samples_per_second = step->samples_per_second,
      .used_bytes = step->arena_peak_bytes,
      .budget_bytes = budget_bytes == UINT64_MAX ? 0 : budget_bytes,
  };
  output->samples += step->samples_per_second * step->seconds;
  output->seconds += step->seconds;
  add_lanes(output, step);
  delta_progress_update(&output->progress, &output->state, delta_clock_seconds());
  if (output->trace && step->step == output->trace_step) {
    DELTA_RETURN_IF_ERROR(delta_session_write_trace(output->session, output->trace));
    output->has_trace = true;
  }
  return output->has_metrics ? delta_metrics_write_step(&output->metrics, step) : DELTA_OK;
}

static delta_status_t on_evaluation(void *self, const delta_train_evaluation_t *evaluation) {
  delta_run_output_t *output = self;
  char line[160];
  int length = snprintf(line, sizeof line, "epoch %lld: evaluation loss %.4f", (long long)evaluation->epoch, evaluation->loss);
  if (evaluation->has_accuracy) snprintf(line + length, sizeof line - (size_t)length, ", accuracy %.4f", evaluation->accuracy);
  // Evaluated alone there is no epoch, and no progress to stand above.
  const char *alone = strchr(line, ':') + 2;
  if (output->has_progress) {
    delta_progress_line(&output->progress, line);
  } else {
    puts(alone);
  }
  return output->has_metrics ? delta_metrics_write_evaluation(&output->metrics, evaluation) : DELTA_OK;
}

// A checkpoint that cannot be written is told, and tried again at the next time; only the last one is an error.
static delta_status_t on_save(void *self, const delta_training_position_t *position, bool is_last) {
  delta_run_output_t *output = self;
  delta_status_t status = delta_checkpoint_folder_save(&output->checkpoints, output->session, position);
  if (!status || is_last) return status;
  char line[1024];
  snprintf(line, sizeof line, "warning: training goes on without a checkpoint of step %lld: %s", (long long)position->step,
           delta_status_message(status));
  delta_progress_line(&output->progress, line);
  delta_status_free(status);
  return DELTA_OK;
}

// --- the run -----------------------------------------------------------------------------------------------------------------------------------

static delta_train_options_t train_options(const delta_run_settings_t *settings, delta_log_sink_t log, delta_run_output_t *output) {
  delta_train_options_t options;
  delta_train_options_init(&options);
  options.data = settings->data;
  options.evaluation = settings->evaluation;
  options.epochs = settings->epochs;
  options.steps = settings->steps;
  options.learning_rate = settings->learning_rate;
  options.schedule = schedule_choices[settings->schedule];
  options.warmup_steps = settings->warmup;
  options.shuffle = settings->shuffle;
  options.drop_last = settings->drop_last;
  options.seed = (uint64_t)settings->seed;
  options.stop_requested = &stop_signal;
  options.on_begin = on_begin;
  options.on_step = on_step;
  options.on_evaluation = on_evaluation;
  options.save_every = settings->checkpoint_every;
  options.on_save = settings->checkpoint ? on_save : NULL;
  options.self = output;
  options.log = log;
  return options;
}

// Opens the folder of checkpoints, and gives the session the newest of them when that is asked for.
static delta_status_t open_checkpoints(const delta_run_settings_t *settings, delta_run_output_t *output, delta_allocator_t allocator,
                                       delta_training_position_t *position, bool *out_resumes) {
  *out_resumes = false;
  if (!settings->checkpoint) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_checkpoint_folder_open(settings->checkpoint, settings->keep, allocator, &output->checkpoints));
  const char *last_path = output->checkpoints.last_path;
  if (last_path && !settings->resume) {
    return delta_status_make(
        INVALID_ARGUMENT, "checkpoint folder '%s' has checkpoints of a training ('%s'): give --resume to go on with it, or another folder",
        settings->checkpoint, last_path);
  }
  if (!last_path) return DELTA_OK;
  position->struct_size = sizeof *position;
  delta_status_t status = delta_session_restore(output->session, last_path, position);
  if (delta_status_code(status) == DELTA_STATUS_MALFORMED)
    return delta_status_annotate(status, "remove the newest checkpoint to go on from the one before");
  if (status) return status;
  *out_resumes = true;
  printf("resuming after step %lld from %s\n", (long long)position->step, last_path);
  return DELTA_OK;
}

// What a training that came to no number leaves is in its checkpoints.
static delta_status_t name_checkpoint(delta_status_t status, const delta_run_output_t *output) {
  if (delta_status_code(status) != DELTA_STATUS_NOT_A_NUMBER || !output->checkpoints.last_path) return status;
  delta_status_t named =
      delta_status_make(NOT_A_NUMBER, "%s; the last checkpoint is '%s'", delta_status_message(status), output->checkpoints.last_path);
  delta_status_free(status);
  return named;
}

static delta_status_t open_session(const delta_run_settings_t *settings, const char *plan_path, const delta_plan_t *plan,
                                   delta_log_sink_t log, delta_allocator_t allocator, delta_session_t **out_session) {
  char *budget = NULL;
  delta_session_options_t options;
  delta_session_options_init(&options);
  options.plan = plan;
  options.plan_path = plan_path;
  options.model_path = settings->model;
  options.external_data = settings->external_data;
  if (settings->budget_file) DELTA_RETURN_IF_ERROR(read_budget(settings->budget_file, allocator, &budget));
  options.budget = budget ? budget : settings->budget;
  options.tier = settings->tier;
  options.copies_in_line = settings->copies != 0;
  options.other_programs = (int)settings->other_programs;
  options.seed = (uint64_t)settings->seed;
  options.time_steps = settings->verbose;
  options.record_steps = settings->trace != NULL;
  options.verify = settings->verify;
  options.log = log;
  delta_status_t status = delta_session_create(&options, allocator, out_session);
  delta_release(allocator, budget);
  return status;
}

// The trace of the last step; one of a chosen step was written at that step.
static delta_status_t write_last_trace(const delta_run_output_t *output, const delta_train_result_t *result) {
  if (!output->trace || output->has_trace) return DELTA_OK;
  if (output->trace_step == 0) return delta_session_write_trace(output->session, output->trace);
  return delta_status_make(INVALID_ARGUMENT, "--trace-step %lld: this training ended at step %lld without it, so '%s' was not written",
                           (long long)output->trace_step, (long long)result->steps, output->trace);
}

static void report_end(const delta_run_settings_t *settings, const delta_train_result_t *result) {
  if (result->stopped) printf("stopped by a signal after step %lld\n", (long long)result->steps);
  if (settings->output) printf("wrote %s\n", settings->output);
  if (settings->trace) printf("wrote %s\n", settings->trace);
}

// Whether a data SPEC names the file at `path`.
static bool names_file(const char *spec, const char *path) {
  char name[PATH_MAX];
  while (spec && *spec) {
    const size_t length = strcspn(spec, ",:=");
    if (length < sizeof name) {
      memcpy(name, spec, length);
      name[length] = '\0';
      if (access(name, F_OK) == 0 && delta_file_is_same(name, path)) return true;
    }
    spec += length + (spec[length] != '\0');
  }
  return false;
}

// Nothing that is read is written over.
static delta_status_t check_output(const delta_run_settings_t *settings, const delta_session_t *session, const char *option,
                                   const char *path) {
  if (!path) return DELTA_OK;
  if (names_file(settings->data, path) || names_file(settings->evaluation, path))
    return delta_status_make(INVALID_ARGUMENT, "%s '%s': it is one of the data files; give another path", option, path);
  return delta_status_annotate(delta_session_check_output(session, path), "%s", option);
}

// Whether all outputs can be written, before the work rather than after it.
static delta_status_t check_outputs(const delta_run_settings_t *settings, const delta_session_t *session, delta_allocator_t allocator) {
  const struct {
    const char *option, *path;
  } outputs[] = {{"-o", settings->output}, {"--metrics", settings->metrics}, {"--trace", settings->trace}};
  const size_t count = sizeof outputs / sizeof *outputs;
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = i + 1; k < count; ++k) {
      if (!outputs[i].path || !outputs[k].path || !delta_file_is_same(outputs[i].path, outputs[k].path)) continue;
      return delta_status_make(INVALID_ARGUMENT, "%s and %s are both '%s': give two paths", outputs[i].option, outputs[k].option,
                               outputs[i].path);
    }
    DELTA_RETURN_IF_ERROR(check_output(settings, session, outputs[i].option, outputs[i].path));
    // Metrics are written line by line, to a pipe too: opening them tells.
    if (outputs[i].path && outputs[i].path != settings->metrics) DELTA_RETURN_IF_ERROR(delta_file_probe(outputs[i].path, allocator));
  }
  return DELTA_OK;
}

static delta_status_t train(const delta_run_settings_t *settings, const char *plan_path, delta_allocator_t allocator) {
  delta_cli_log_t log = {.program = program.name, .notes_on_stdout = true, .verbose = settings->verbose};
  delta_plan_t *plan = NULL;
  delta_session_t *session = NULL;
  delta_run_output_t output = {.metrics.descriptor = -1, .checkpoints.descriptor = -1};
  delta_train_result_t result = {.struct_size = sizeof result};
  delta_training_position_t position;
  bool resumes = false;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_plan_load(plan_path, allocator, &plan), cleanup);
  DELTA_GOTO_IF_ERROR(status, open_session(settings, plan_path, plan, delta_cli_log_sink(&log), allocator, &session), cleanup);
  DELTA_GOTO_IF_ERROR(status, check_outputs(settings, session, allocator), cleanup);
  output.session = session;
  output.log = delta_cli_log_sink(&log);
  output.allocator = allocator;
  output.budget_file = settings->budget_file;
  output.trace = settings->trace;
  output.trace_step = settings->trace_step;
  DELTA_GOTO_IF_ERROR(status, open_checkpoints(settings, &output, allocator, &position, &resumes), cleanup);
  if (settings->metrics) DELTA_GOTO_IF_ERROR(status, delta_metrics_open(settings->metrics, resumes, allocator, &output.metrics), cleanup);
  output.has_metrics = settings->metrics != NULL;
  delta_train_options_t options = train_options(settings, delta_cli_log_sink(&log), &output);
  options.resume = resumes ? &position : NULL;
  status = name_checkpoint(delta_session_train(session, &options, &result), &output);
  // Also before an error: the message stands on a line of its own. At the end the mean rate of the whole run is told.
  if (output.seconds > 0) output.state.samples_per_second = output.samples / output.seconds;
  if (output.has_progress) delta_progress_end(&output.progress, &output.state, delta_clock_seconds());
  if (status) goto cleanup;
  if (settings->verbose) report_lanes(&output);
  if (settings->verbose) DELTA_GOTO_IF_ERROR(status, delta_session_report_times(session, delta_cli_log_sink(&log)), cleanup);
  if (settings->output) DELTA_GOTO_IF_ERROR(status, delta_session_export(session, settings->output, settings->export_form), cleanup);
  DELTA_GOTO_IF_ERROR(status, write_last_trace(&output, &result), cleanup);
  report_end(settings, &result);
  stopped_by = result.stopped ? (int)stop_signal : 0;
cleanup:
  status = delta_status_join(status, delta_metrics_close(&output.metrics));
  delta_checkpoint_folder_close(&output.checkpoints);
  delta_session_destroy(session);
  delta_plan_free(plan);
  return status;
}

// Options that say something of training or of the trained model, where there is neither.
static delta_status_t check_unused(const delta_run_settings_t *settings, const delta_options_t *options) {
  static const char *const training[] = {"--epochs",  "--steps",      "--lr",        "--schedule",  "--warmup",
                                         "--shuffle", "--no-shuffle", "--drop-last", "--checkpoint"};
  static const char *const checkpoints[] = {"--checkpoint-every", "--keep", "--resume"};
  for (size_t i = 0; i < sizeof training / sizeof *training && !settings->data; ++i) {
    if (delta_options_given(options, training[i])) return delta_status_make(INVALID_ARGUMENT, "%s needs --data", training[i]);
  }
  if (delta_options_given(options, "--trace-step") && !(settings->trace && settings->data))
    return delta_status_make(INVALID_ARGUMENT, "--trace-step needs --trace and --data");
  for (size_t i = 0; i < sizeof checkpoints / sizeof *checkpoints && !settings->checkpoint; ++i) {
    if (delta_options_given(options, checkpoints[i]))
      return delta_status_make(INVALID_ARGUMENT, "%s needs --checkpoint DIR", checkpoints[i]);
  }
  if (delta_options_given(options, "--export") && !settings->output) return delta_status_make(INVALID_ARGUMENT, "--export needs -o");
  return DELTA_OK;
}

static delta_status_t check_usage(const void *self, const delta_options_t *options) {
  const delta_run_settings_t *settings = self;
  if (options->positionals.count == 0) return delta_status_make(INVALID_ARGUMENT, "no plan given");
  const char *plan = options->positionals.items[0];
  if (delta_text_ends_with(plan, ".onnx"))
    return delta_status_make(INVALID_ARGUMENT, "'%s' is not a plan; make one with deltaplan %s -o MODEL.plan", plan, plan);
  if (!settings->data && !settings->evaluation)
    return delta_status_make(INVALID_ARGUMENT, "give --data SPEC to train, or --eval SPEC to evaluate");
  if (settings->budget && settings->budget_file)
    return delta_status_make(INVALID_ARGUMENT, "give one of --budget SIZE and --budget-file FILE");
  if (settings->data && (settings->steps > 0) == (settings->epochs > 0))
    return delta_status_make(INVALID_ARGUMENT, "give one of --epochs N and --steps N");
  return check_unused(settings, options);
}

static delta_status_t run(const void *self, const delta_options_t *options, delta_allocator_t allocator) {
  watch_signals(((const delta_run_settings_t *)self)->budget_file != NULL);
  return train(self, options->positionals.items[0], allocator);
}

int main(int argc, char **argv) {
  delta_run_settings_t settings = {.learning_rate = -1, .shuffle = true, .keep = 2};
  const delta_cli_command_t command = {.program = &program, .settings = &settings, .check = check_usage, .run = run};
  int exit_status = delta_cli_main(&command, argc, argv);
  return exit_status == DELTA_EXIT_DONE && stopped_by ? 128 + stopped_by : exit_status;
}
