// The loop counts updates; an update is one batch, or `accumulate` micro-batches and an apply. Samples of an epoch are numbered by the
// shuffle.
#include <delta/train.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/struct_size.h"
#include "base/text.h"
#include "runtime/data/dataset.h"
#include "runtime/data/shuffle.h"
#include "runtime/events.h"
#include "runtime/rate.h"
#include "runtime/session_parts.h"

typedef struct delta_trainer {
  delta_session_t *session; // Borrowed.
  const delta_train_options_t *options;
  delta_allocator_t allocator;
  int64_t batch;      // rows of a full (micro-)batch
  int64_t accumulate; // micro-batches per update
  delta_rate_t rate;
  delta_dataset_t *data;       // Owned; NULL when only evaluating.
  delta_dataset_t *evaluation; // Owned; NULL: none.
  int64_t *samples;            // Owned; indices of one batch.
  int64_t batches_per_epoch;   // micro-batches
  int64_t steps_per_epoch;
  int64_t total_steps;
  delta_training_position_t position; // after the last update
  int64_t saved_step;                 // that on_save was last called for, or training began with
  delta_train_result_t *result;
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
  const delta_train_options_t *options = trainer->options;
  size_t count = delta_session_input_count(trainer->session);
  delta_feed_want_t *wants = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(trainer->allocator, count, &wants));
  delta_status_t status = DELTA_OK;
  for (size_t i = 0; i < count; ++i) DELTA_GOTO_IF_ERROR(status, describe_want(trainer->session, i, &wants[i]), cleanup);
  status = delta_dataset_open(spec, wants, count, options->seed, options->log, trainer->allocator, out_dataset);
cleanup:
  delta_release(trainer->allocator, wants);
  return status;
}

static int64_t divide_up(int64_t a, int64_t b) { return a / b + (a % b != 0); }

// How many batches an epoch has, and what becomes of a partial one.
static delta_status_t count_steps(delta_trainer_t *trainer) {
  const delta_train_options_t *options = trainer->options;
  int64_t samples = delta_dataset_samples(trainer->data), rest = samples % trainer->batch;
  bool drops_last = options->drop_last || delta_session_has_fixed_batch(trainer->session);
  if (samples < trainer->batch && drops_last) {
    return delta_status_make(INVALID_ARGUMENT, "the data has %lld sample%s, less than one batch of %lld: plan with a smaller --batch",
                             (long long)samples, DELTA_PLURAL(samples), (long long)trainer->batch);
  }
  trainer->batches_per_epoch = drops_last ? samples / trainer->batch : divide_up(samples, trainer->batch);
  if (rest && drops_last) {
    const char *reason = options->drop_last ? "--drop-last" : "the model fixes its batch";
    delta_log(options->log, DELTA_LOG_NOTE, "%lld sample%s of each epoch left out (%s): too few for a batch of %lld", (long long)rest,
              DELTA_PLURAL(rest), reason, (long long)trainer->batch);
  }
  trainer->steps_per_epoch = divide_up(trainer->batches_per_epoch, trainer->accumulate);
  trainer->total_steps = options->steps;
  if (!options->steps && __builtin_mul_overflow(options->epochs, trainer->steps_per_epoch, &trainer->total_steps)) {
    return delta_status_make(INVALID_ARGUMENT, "--epochs %lld is too many", (long long)options->epochs);
  }
  trainer->rate.total_steps = trainer->total_steps;
  return DELTA_OK;
}

static delta_status_t open_trainer(delta_trainer_t *trainer) {
  const delta_train_options_t *options = trainer->options;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(trainer->allocator, (size_t)trainer->batch, &trainer->samples));
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
  return left < trainer->batch ? left : trainer->batch;
}

static delta_status_t evaluate(delta_trainer_t *trainer, int64_t step, int64_t epoch) {
  const delta_train_options_t *options = trainer->options;
  delta_train_evaluation_t record = {.step = step, .epoch = epoch, .has_accuracy = delta_session_has_accuracy(trainer->session) != 0};
  double start_seconds = delta_clock_seconds(), loss_sum = 0, labels = 0, correct = 0;
  for (int64_t first = 0; first < delta_dataset_samples(trainer->evaluation); first += trainer->batch) {
    delta_batch_source_t source = {
        .dataset = trainer->evaluation, .samples = trainer->samples, .count = rows_at(trainer, trainer->evaluation, first)};
    if (source.count < trainer->batch && delta_session_has_fixed_batch(trainer->session)) {
      delta_log(options->log, DELTA_LOG_NOTE, "%lld sample%s left out of the evaluation: the model fixes its batch at %lld",
                (long long)source.count, DELTA_PLURAL(source.count), (long long)trainer->batch);
      break;
    }
    if (must_stop(trainer)) {
      trainer->result->stopped = true;
      return DELTA_OK;
    }
    for (int64_t i = 0; i < source.count; ++i) trainer->samples[i] = first + i;
    const delta_batch_t batch = {.rows = source.count, .fill = fill_from_dataset, .self = &source};
    delta_run_report_t report = {.struct_size = sizeof report};
    DELTA_RETURN_IF_ERROR(delta_session_run(trainer->session, DELTA_RUN_EVALUATE, &batch, 0, &report));
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
  int64_t first = batch_index * trainer->batch;
  delta_batch_source_t source = {.dataset = trainer->data, .samples = trainer->samples, .count = rows_at(trainer, trainer->data, first)};
  for (int64_t i = 0; i < source.count; ++i) trainer->samples[i] = delta_shuffle_at(shuffle, first + i);
  const delta_batch_t batch = {.rows = source.count, .fill = fill_from_dataset, .self = &source};
  return delta_session_run(trainer->session, program, &batch, rate, report);
}

static void add_report(delta_trainer_t *trainer, const delta_run_report_t *report, delta_train_step_t *record) {
  record->stall_seconds += report->stall_seconds;
  record->offload_seconds += report->offload_seconds;
  record->offload_stall_seconds += report->offload_stall_seconds;
  record->prefetch_seconds += report->prefetch_seconds;
  record->prefetch_stall_seconds += report->prefetch_stall_seconds;
  delta_events_append(&trainer->events, report->events, report->event_count);
}

// The micro-batches of one update: [begin, end) of the epoch.
static delta_status_t run_update(delta_trainer_t *trainer, const delta_shuffle_t *shuffle, int64_t begin, int64_t end,
                                 delta_train_step_t *record, int64_t *out_samples) {
  bool accumulates = trainer->accumulate > 1;
  double loss_sum = 0, labels = 0;
  delta_run_report_t report = {.struct_size = sizeof report};
  for (int64_t b = begin; b < end; ++b) {
    delta_run_program_t program = accumulates ? DELTA_RUN_ACCUMULATE : DELTA_RUN_TRAIN;
    DELTA_RETURN_IF_ERROR(run_batch(trainer, shuffle, b, program, record->learning_rate, &report));
    if (report.label_count > 0) loss_sum += report.loss * report.label_count;
    labels += report.label_count;
    *out_samples += rows_at(trainer, trainer->data, b * trainer->batch);
    add_report(trainer, &report, record);
  }
  if (accumulates) {
    DELTA_RETURN_IF_ERROR(delta_session_run(trainer->session, DELTA_RUN_APPLY, NULL, record->learning_rate, &report));
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
  const delta_train_options_t *options = trainer->options;
  delta_train_step_t record = {
      .step = trainer->result->steps + 1,
      .epoch = epoch + 1,
      .learning_rate = delta_rate_at(&trainer->rate, trainer->result->steps),
  };
  int64_t begin = step_of_epoch * trainer->accumulate;
  int64_t end = begin + trainer->accumulate < trainer->batches_per_epoch ? begin + trainer->accumulate : trainer->batches_per_epoch;
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

// --- where training stands

static int64_t rows_per_update(const delta_trainer_t *trainer) { return trainer->batch * trainer->accumulate; }

// A constant rate is the same however long the training is.
static void describe_schedule(const delta_trainer_t *trainer, char out_text[DELTA_SCHEDULE_TEXT_BYTES]) {
  const delta_rate_t *rate = &trainer->rate;
  const int length = snprintf(out_text, DELTA_SCHEDULE_TEXT_BYTES, "%s from %.9g, %lld steps of warm-up",
                              delta_rate_schedule_name(rate->schedule), rate->base, (long long)rate->warmup_steps);
  if (rate->schedule == DELTA_RATE_CONSTANT || length >= DELTA_SCHEDULE_TEXT_BYTES) return;
  snprintf(out_text + length, DELTA_SCHEDULE_TEXT_BYTES - (size_t)length, " in %lld", (long long)trainer->total_steps);
}

// The position at the beginning, or the one to resume from, if it fits the data.
static delta_status_t begin_position(delta_trainer_t *trainer) {
  const delta_train_options_t *options = trainer->options;
  delta_training_position_t *position = &trainer->position;
  const delta_training_position_t *resume = options->resume;
  const int64_t samples = delta_dataset_samples(trainer->data);
  *position = (delta_training_position_t){
      .struct_size = sizeof *position, .data_samples = samples, .seed = options->seed, .shuffle = options->shuffle};
  describe_schedule(trainer, position->schedule);
  if (!resume) return DELTA_OK;
  if (resume->data_samples != samples)
    return delta_status_make(MISMATCH, "the training to resume had %lld samples, the data has %lld", (long long)resume->data_samples,
                             (long long)samples);
  if (resume->seed != options->seed)
    return delta_status_make(MISMATCH, "the training to resume had --seed %llu, this has %llu", (unsigned long long)resume->seed,
                             (unsigned long long)options->seed);
  if (!resume->shuffle != !options->shuffle)
    return delta_status_make(MISMATCH, "the training to resume %s its data: give --%sshuffle",
                             resume->shuffle ? "shuffled" : "did not shuffle", resume->shuffle ? "" : "no-");
  if (strcmp(resume->schedule, position->schedule) != 0)
    delta_log(options->log, DELTA_LOG_WARNING, "the learning rate was %s; now it is %s", resume->schedule, position->schedule);
  if (resume->epoch_samples < samples && resume->epoch_samples % rows_per_update(trainer) != 0)
    delta_log(options->log, DELTA_LOG_WARNING,
              "%lld samples of the epoch were done, which is no whole number of updates of %lld: some are seen again",
              (long long)resume->epoch_samples, (long long)rows_per_update(trainer));
  position->step = resume->step;
  position->epoch = resume->epoch;
  position->epoch_samples = resume->epoch_samples;
  trainer->result->steps = trainer->saved_step = resume->step;
  return DELTA_OK;
}

// The first update of the epoch that is not done.
static int64_t next_update(const delta_trainer_t *trainer) {
  const int64_t done = trainer->position.epoch_samples;
  const int64_t update = done < trainer->position.data_samples ? done / rows_per_update(trainer) : trainer->steps_per_epoch;
  return update < trainer->steps_per_epoch ? update : trainer->steps_per_epoch;
}

static void advance_position(delta_trainer_t *trainer, int64_t epoch, int64_t updates) {
  int64_t samples = 0; // a last, partial batch ends the epoch, and so does a product that is too large
  if (__builtin_mul_overflow(updates, rows_per_update(trainer), &samples) || samples > trainer->position.data_samples)
    samples = trainer->position.data_samples;
  trainer->position.step = trainer->result->steps;
  trainer->position.epoch = epoch;
  trainer->position.epoch_samples = samples;
}

static delta_status_t save(delta_trainer_t *trainer, bool is_last) {
  if (!trainer->options->on_save || trainer->saved_step == trainer->position.step) return DELTA_OK;
  trainer->saved_step = trainer->position.step;
  return trainer->options->on_save(trainer->options->self, &trainer->position, is_last);
}

static bool is_save_due(const delta_trainer_t *trainer, int64_t updates) {
  const int64_t every = trainer->options->save_every;
  return every > 0 ? trainer->position.step % every == 0 : updates == trainer->steps_per_epoch;
}

// The rest of an epoch, or of the training when that ends first.
static delta_status_t train_epoch(delta_trainer_t *trainer, int64_t epoch) {
  const delta_train_options_t *options = trainer->options;
  delta_shuffle_t shuffle;
  delta_shuffle_init(&shuffle, delta_dataset_samples(trainer->data), options->shuffle, options->seed, epoch);
  for (int64_t s = epoch == trainer->position.epoch ? next_update(trainer) : 0;
       s < trainer->steps_per_epoch && trainer->result->steps < trainer->total_steps; ++s) {
    if (must_stop(trainer)) {
      trainer->result->stopped = true;
      return DELTA_OK;
    }
    DELTA_RETURN_IF_ERROR(train_step(trainer, &shuffle, epoch, s));
    advance_position(trainer, epoch, s + 1);
    if (is_save_due(trainer, s + 1) && trainer->result->steps < trainer->total_steps) DELTA_RETURN_IF_ERROR(save(trainer, false));
  }
  return trainer->evaluation ? evaluate(trainer, trainer->result->steps, epoch + 1) : DELTA_OK;
}

static delta_status_t train(delta_trainer_t *trainer) {
  const delta_train_options_t *options = trainer->options;
  if (options->warmup_steps > trainer->total_steps) {
    delta_log(options->log, DELTA_LOG_NOTE,
              "--warmup %lld is longer than the run of %lld steps: the learning rate does not reach its value",
              (long long)options->warmup_steps, (long long)trainer->total_steps);
  }
  DELTA_RETURN_IF_ERROR(begin_position(trainer));
  if (options->on_begin) DELTA_RETURN_IF_ERROR(options->on_begin(options->self, trainer->total_steps));
  int64_t epoch = trainer->position.epoch;
  // Also a training that was saved after its last update evaluates what it has come to.
  if (options->resume && trainer->result->steps >= trainer->total_steps) return train_epoch(trainer, epoch);
  for (; trainer->result->steps < trainer->total_steps && !trainer->result->stopped; ++epoch)
    DELTA_RETURN_IF_ERROR(train_epoch(trainer, epoch));
  return save(trainer, true);
}

static delta_status_t check_options(const delta_train_options_t *options) {
  if (!options->data && !options->evaluation)
    return delta_status_make(INVALID_ARGUMENT, "nothing to do: give --data SPEC to train, or --eval SPEC to evaluate");
  if (options->steps < 0 || options->epochs < 0) return delta_status_make(INVALID_ARGUMENT, "--steps and --epochs cannot be negative");
  if (options->data && (options->steps > 0) == (options->epochs > 0))
    return delta_status_make(INVALID_ARGUMENT, "give one of --steps N and --epochs N");
  if (options->save_every < 0)
    return delta_status_make(INVALID_ARGUMENT, "--checkpoint-every %lld: give a number of updates from 1 on, or 0 for each epoch",
                             (long long)options->save_every);
  if (options->warmup_steps < 0)
    return delta_status_make(INVALID_ARGUMENT, "--warmup %lld: give a number of steps from 0 on", (long long)options->warmup_steps);
  if (!isfinite(options->learning_rate))
    return delta_status_make(INVALID_ARGUMENT, "--lr %g: give a finite number, or a negative one for the plan's", options->learning_rate);
  return DELTA_OK;
}

static delta_status_t choose_rate(delta_trainer_t *trainer) {
  const delta_train_options_t *options = trainer->options;
  trainer->rate.base = options->learning_rate < 0 ? trainer->session->plan->learning_rate : options->learning_rate;
  trainer->rate.warmup_steps = options->warmup_steps;
  return options->schedule ? delta_rate_schedule_parse(options->schedule, &trainer->rate.schedule) : DELTA_OK;
}

void delta_train_options_init(delta_train_options_t *options) {
  *options = (delta_train_options_t){.struct_size = sizeof *options, .learning_rate = -1, .schedule = "constant", .shuffle = true};
}

delta_status_t delta_session_train(delta_session_t *session, const delta_train_options_t *options, delta_train_result_t *out_result) {
  delta_train_result_t result = {.struct_size = sizeof result};
  DELTA_RETURN_IF_ERROR(delta_struct_size_check("train options", "call delta_train_options_init", options->struct_size, sizeof *options));
  if (out_result) {
    DELTA_RETURN_IF_ERROR(
        delta_struct_size_check("train result", "set it to sizeof(delta_train_result_t)", out_result->struct_size, sizeof *out_result));
  }
  delta_trainer_t trainer = {.session = session,
                             .options = options,
                             .allocator = session->allocator,
                             .batch = delta_plan_rows(session->plan),
                             .accumulate = session->plan->accumulate,
                             .result = &result};
  delta_status_t status = check_options(options);
  if (!status) status = choose_rate(&trainer);
  if (!status) status = open_trainer(&trainer);
  if (!status) status = options->data ? train(&trainer) : evaluate(&trainer, 0, 0);
  delta_dataset_close(trainer.data);
  delta_dataset_close(trainer.evaluation);
  delta_release(trainer.allocator, trainer.samples);
  if (out_result) *out_result = result;
  return status;
}
