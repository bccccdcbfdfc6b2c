// The loop counts updates; an update is one batch, or `accumulate` micro-batches and an apply. Samples of an epoch are numbered by the
// shuffle.
#include "runtime/trainer.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/data/dataset.h"
#include "runtime/data/shuffle.h"
#include "runtime/events.h"

typedef struct delta_trainer {
  const delta_trainer_options_t *options;
  delta_allocator_t allocator;
  delta_dataset_t *data;       // Owned; NULL when only evaluating.
  delta_dataset_t *evaluation; // Owned; NULL: none.
  int64_t *samples;            // Owned; indices of one batch.
  int64_t batches_per_epoch;   // micro-batches
  int64_t steps_per_epoch;
  int64_t total_steps;
  delta_trainer_result_t *result;
  delta_events_t events; // of the step at hand
} delta_trainer_t;

// What the session's fill callback reads.
typedef struct delta_batch_source {
  delta_dataset_t *dataset;
  const int64_t *samples;
  int64_t count;
} delta_batch_source_t;

static delta_status_t fill_from_dataset(void *self, void *const *buffers) {
  const delta_batch_source_t *source = self;
  return delta_dataset_read(source->dataset, source->samples, source->count, buffers);
}

// --- opening

static delta_dtype_t dtype_by_name(const char *name) {
  for (int i = 0; i < DELTA_DTYPE_COUNT; ++i) {
    if (strcmp(delta_dtype_name((delta_dtype_t)i), name) == 0) return (delta_dtype_t)i;
  }
  return DELTA_DTYPE_COUNT;
}

static delta_status_t describe_want(const delta_session_t *session, size_t index, delta_feed_want_t *out_want) {
  delta_input_info_t info;
  DELTA_RETURN_IF_ERROR(delta_session_input(session, index, &info));
  *out_want = (delta_feed_want_t){
      .name = info.name,
      .dtype = dtype_by_name(info.dtype),
      .shape.rank = info.rank,
      .minimum = info.minimum,
      .maximum = info.maximum,
      .has_ignore = info.has_ignore != 0,
      .ignore_value = info.ignore_value,
  };
  memcpy(out_want->shape.dims, info.dims, sizeof out_want->shape.dims);
  return DELTA_OK;
}

static delta_status_t open_dataset(delta_trainer_t *trainer, const char *spec, delta_dataset_t **out_dataset) {
  const delta_trainer_options_t *options = trainer->options;
  size_t count = delta_session_input_count(options->session);
  delta_feed_want_t *wants = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(trainer->allocator, count, &wants));
  delta_status_t status = DELTA_OK;
  for (size_t i = 0; i < count; ++i) DELTA_GOTO_IF_ERROR(status, describe_want(options->session, i, &wants[i]), cleanup);
  status = delta_dataset_open(spec, wants, count, options->seed, options->log, trainer->allocator, out_dataset);
cleanup:
  delta_release(trainer->allocator, wants);
  return status;
}

static int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

// How many batches an epoch has, and what becomes of a partial one.
static delta_status_t count_steps(delta_trainer_t *trainer) {
  const delta_trainer_options_t *options = trainer->options;
  int64_t samples = delta_dataset_samples(trainer->data), rest = samples % options->batch;
  bool drops_last = options->drop_last || delta_session_has_fixed_batch(options->session);
  if (samples < options->batch && drops_last) {
    return delta_status_make(INVALID_ARGUMENT, "the data has %lld samples, less than one batch of %lld: plan with a smaller --batch",
                             (long long)samples, (long long)options->batch);
  }
  trainer->batches_per_epoch = drops_last ? samples / options->batch : divide_up(samples, options->batch);
  if (rest && drops_last) {
    const char *reason = options->drop_last ? "--drop-last" : "the model fixes its batch";
    delta_log(options->log, DELTA_LOG_NOTE, "%lld samples of each epoch are left out (%s): they do not fill a batch of %lld",
              (long long)rest, reason, (long long)options->batch);
  }
  trainer->steps_per_epoch = divide_up(trainer->batches_per_epoch, options->accumulate);
  trainer->total_steps = options->steps;
  if (!options->steps && __builtin_mul_overflow(options->epochs, trainer->steps_per_epoch, &trainer->total_steps)) {
    return delta_status_make(INVALID_ARGUMENT, "--epochs %lld is too many", (long long)options->epochs);
  }
  return DELTA_OK;
}

static delta_status_t open_trainer(delta_trainer_t *trainer) {
  const delta_trainer_options_t *options = trainer->options;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(trainer->allocator, (size_t)options->batch, &trainer->samples));
  if (options->evaluation)
    DELTA_RETURN_IF_ERROR(delta_status_annotate(open_dataset(trainer, options->evaluation, &trainer->evaluation), "--eval"));
  if (!options->data) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_status_annotate(open_dataset(trainer, options->data, &trainer->data), "--data"));
  return count_steps(trainer);
}

// --- evaluation

static bool must_stop(const delta_trainer_t *trainer) { return trainer->options->stop_requested && *trainer->options->stop_requested; }

// Rows of the batch that begins at `first`.
static int64_t rows_at(const delta_trainer_t *trainer, const delta_dataset_t *dataset, int64_t first) {
  int64_t left = delta_dataset_samples(dataset) - first;
  return left < trainer->options->batch ? left : trainer->options->batch;
}

static delta_status_t evaluate(delta_trainer_t *trainer, int64_t step, int64_t epoch) {
  const delta_trainer_options_t *options = trainer->options;
  delta_metrics_evaluation_t record = {.step = step, .epoch = epoch, .has_accuracy = delta_session_has_accuracy(options->session) != 0};
  double start_seconds = delta_clock_seconds(), loss_sum = 0, labels = 0, correct = 0;
  for (int64_t first = 0; first < delta_dataset_samples(trainer->evaluation); first += options->batch) {
    delta_batch_source_t source = {
        .dataset = trainer->evaluation, .samples = trainer->samples, .count = rows_at(trainer, trainer->evaluation, first)};
    if (source.count < options->batch && delta_session_has_fixed_batch(options->session)) {
      delta_log(options->log, DELTA_LOG_NOTE, "%lld samples are left out of the evaluation: the model fixes its batch at %lld",
                (long long)source.count, (long long)options->batch);
      break;
    }
    if (must_stop(trainer)) {
      trainer->result->stopped = true;
      return DELTA_OK;
    }
    for (int64_t i = 0; i < source.count; ++i) trainer->samples[i] = first + i;
    const delta_batch_t batch = {.rows = source.count, .fill = fill_from_dataset, .self = &source};
    delta_run_report_t report = {.struct_size = sizeof report};
    DELTA_RETURN_IF_ERROR(delta_session_run(options->session, DELTA_RUN_EVALUATE, &batch, 0, &report));
    // A batch without any label to count has no mean, and adds nothing.
    if (report.label_count > 0) loss_sum += report.loss * report.label_count;
    labels += report.label_count;
    correct += report.correct;
    record.samples += source.count;
  }
  if (!(labels > 0)) delta_log(options->log, DELTA_LOG_WARNING, "no label of the evaluation counts: a mean over no labels is not a number");
  record.loss = loss_sum / labels;
  if (labels > 0 && !isfinite(record.loss)) {
    return delta_status_make(
        NOT_A_NUMBER,
        "the loss of the evaluation after step %lld is not a finite number; lower --lr, clip gradients, or check the data "
        "and the weights",
        (long long)step);
  }
  if (record.has_accuracy) record.accuracy = correct / labels;
  record.seconds = delta_clock_seconds() - start_seconds;
  trainer->result->last_evaluation = record;
  return options->on_evaluation ? options->on_evaluation(options->self, &record) : DELTA_OK;
}

// --- training

static delta_status_t run_batch(delta_trainer_t *trainer, const delta_shuffle_t *shuffle, int64_t batch_index, delta_run_program_t program,
                                double rate, delta_run_report_t *report) {
  int64_t first = batch_index * trainer->options->batch;
  delta_batch_source_t source = {.dataset = trainer->data, .samples = trainer->samples, .count = rows_at(trainer, trainer->data, first)};
  for (int64_t i = 0; i < source.count; ++i) trainer->samples[i] = delta_shuffle_at(shuffle, first + i);
  const delta_batch_t batch = {.rows = source.count, .fill = fill_from_dataset, .self = &source};
  return delta_session_run(trainer->options->session, program, &batch, rate, report);
}

static void add_report(delta_trainer_t *trainer, const delta_run_report_t *report, delta_metrics_step_t *record) {
  record->stall_seconds += report->stall_seconds;
  record->offload_seconds += report->offload_seconds;
  record->offload_stall_seconds += report->offload_stall_seconds;
  record->prefetch_seconds += report->prefetch_seconds;
  record->prefetch_stall_seconds += report->prefetch_stall_seconds;
  delta_events_append(&trainer->events, report->events, report->event_count);
}

// The micro-batches of one update: [begin, end) of the epoch.
static delta_status_t run_update(delta_trainer_t *trainer, const delta_shuffle_t *shuffle, int64_t begin, int64_t end,
                                 delta_metrics_step_t *record, int64_t *out_samples) {
  const delta_trainer_options_t *options = trainer->options;
  bool accumulates = options->accumulate > 1;
  double loss_sum = 0, labels = 0;
  delta_run_report_t report = {.struct_size = sizeof report};
  for (int64_t b = begin; b < end; ++b) {
    delta_run_program_t program = accumulates ? DELTA_RUN_ACCUMULATE : DELTA_RUN_TRAIN;
    DELTA_RETURN_IF_ERROR(run_batch(trainer, shuffle, b, program, record->learning_rate, &report));
    if (report.label_count > 0) loss_sum += report.loss * report.label_count;
    labels += report.label_count;
    *out_samples += rows_at(trainer, trainer->data, b * options->batch);
    add_report(trainer, &report, record);
  }
  if (accumulates) {
    DELTA_RETURN_IF_ERROR(delta_session_run(options->session, DELTA_RUN_APPLY, NULL, record->learning_rate, &report));
    add_report(trainer, &report, record);
  }
  record->loss = loss_sum / labels;
  record->has_gradient_norm = !(report.gradient_norm < 0); // also when it is not a number
  record->gradient_norm = report.gradient_norm;
  record->arena_peak_bytes = report.arena_peak_bytes;
  record->host_bytes = report.host_bytes;
  record->events = trainer->events.pointers;
  record->event_count = trainer->events.count;
  return DELTA_OK;
}

static delta_status_t train_step(delta_trainer_t *trainer, const delta_shuffle_t *shuffle, int64_t epoch, int64_t step_of_epoch) {
  const delta_trainer_options_t *options = trainer->options;
  delta_rate_t rate = options->rate;
  rate.total_steps = trainer->total_steps;
  delta_metrics_step_t record = {
      .step = trainer->result->steps + 1,
      .epoch = epoch + 1,
      .learning_rate = delta_rate_at(&rate, trainer->result->steps),
  };
  int64_t begin = step_of_epoch * options->accumulate;
  int64_t end = begin + options->accumulate < trainer->batches_per_epoch ? begin + options->accumulate : trainer->batches_per_epoch;
  double start_seconds = delta_clock_seconds();
  int64_t samples = 0;
  delta_events_drop(&trainer->events, trainer->events.count);
  delta_status_t status = run_update(trainer, shuffle, begin, end, &record, &samples);
  if (status) return delta_status_annotate(status, "step %lld", (long long)record.step);
  record.seconds = delta_clock_seconds() - start_seconds;
  record.samples_per_second = (double)samples / record.seconds;
  trainer->result->last_step = record;
  trainer->result->last_step.events = NULL; // they end with the loop
  trainer->result->last_step.event_count = 0;
  ++trainer->result->steps;
  return options->on_step ? options->on_step(options->self, &record) : DELTA_OK;
}

static delta_status_t train(delta_trainer_t *trainer) {
  const delta_trainer_options_t *options = trainer->options;
  if (options->rate.warmup_steps > trainer->total_steps) {
    delta_log(options->log, DELTA_LOG_NOTE,
              "--warmup %lld is longer than the run of %lld steps: the learning rate does not reach its value",
              (long long)options->rate.warmup_steps, (long long)trainer->total_steps);
  }
  if (options->on_begin) DELTA_RETURN_IF_ERROR(options->on_begin(options->self, trainer->total_steps));
  for (int64_t epoch = 0; trainer->result->steps < trainer->total_steps; ++epoch) {
    delta_shuffle_t shuffle;
    delta_shuffle_init(&shuffle, delta_dataset_samples(trainer->data), options->shuffle, options->seed, epoch);
    for (int64_t s = 0; s < trainer->steps_per_epoch && trainer->result->steps < trainer->total_steps; ++s) {
      if (must_stop(trainer)) {
        trainer->result->stopped = true;
        return DELTA_OK;
      }
      DELTA_RETURN_IF_ERROR(train_step(trainer, &shuffle, epoch, s));
    }
    if (trainer->evaluation) DELTA_RETURN_IF_ERROR(evaluate(trainer, trainer->result->steps, epoch + 1));
    if (trainer->result->stopped) return DELTA_OK;
  }
  return DELTA_OK;
}

static delta_status_t check_options(const delta_trainer_options_t *options) {
  if (!options->data && !options->evaluation)
    return delta_status_make(INVALID_ARGUMENT, "nothing to do: give --data SPEC to train, or --eval SPEC to evaluate");
  if (options->data && !options->steps && !options->epochs) return delta_status_make(INVALID_ARGUMENT, "give --steps N or --epochs N");
  if (options->steps < 0 || options->epochs < 0) return delta_status_make(INVALID_ARGUMENT, "--steps and --epochs cannot be negative");
  return DELTA_OK;
}

delta_status_t delta_trainer_run(const delta_trainer_options_t *options, delta_allocator_t allocator, delta_trainer_result_t *out_result) {
  *out_result = (delta_trainer_result_t){0};
  DELTA_RETURN_IF_ERROR(check_options(options));
  delta_trainer_t trainer = {.options = options, .allocator = allocator, .result = out_result};
  delta_status_t status = open_trainer(&trainer);
  if (!status) status = options->data ? train(&trainer) : evaluate(&trainer, 0, 0);
  delta_dataset_close(trainer.data);
  delta_dataset_close(trainer.evaluation);
  delta_release(allocator, trainer.samples);
  return status;
}
