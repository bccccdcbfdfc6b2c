// Trainer: the loop over a data set: epochs and steps, order of samples, partial batches, accumulation, learning rate, evaluation.
#ifndef DELTA_RUNTIME_TRAINER_H_
#define DELTA_RUNTIME_TRAINER_H_

#include <signal.h>

#include <delta/session.h>

#include "runtime/rate.h"

// One update, as the metrics write it.
typedef struct delta_step_record {
  int64_t step;  // 1 for the first
  int64_t epoch; // 1 for the first
  int64_t total_steps;
  double loss; // over all labels of the step's micro-batches
  double learning_rate;
  double gradient_norm; // negative: not clipping
  double seconds, stall_seconds;
  int64_t samples;
  uint64_t arena_peak_bytes;
} delta_step_record_t;

typedef struct delta_evaluation_record {
  int64_t step, epoch;
  double loss;
  double accuracy; // negative: no class labels
  int64_t samples;
  double seconds;
} delta_evaluation_record_t;

typedef struct delta_trainer_options {
  delta_session_t *session; // Borrowed.
  const char *data;         // SPEC of runtime/data/dataset.h; NULL: only evaluate
  const char *evaluation;   // SPEC; NULL: none
  int64_t batch;            // rows of a full (micro-)batch
  int64_t accumulate;       // micro-batches per update
  int64_t steps;            // 0: by epochs
  int64_t epochs;           // 0: by steps
  bool shuffle, drop_last;
  uint64_t seed;
  delta_rate_t rate; // total_steps is filled in
  delta_log_sink_t log;
  const volatile sig_atomic_t *stop_requested; // looked at between steps; NULL: never
  delta_status_t (*on_step)(void *self, const delta_step_record_t *record);
  delta_status_t (*on_evaluation)(void *self, const delta_evaluation_record_t *record);
  void *self; // Borrowed.
} delta_trainer_options_t;

typedef struct delta_trainer_result {
  bool stopped; // by stop_requested
  int64_t steps;
  delta_step_record_t last_step;
  delta_evaluation_record_t last_evaluation; // samples 0: none was made
} delta_trainer_result_t;

// Trains, evaluating after each epoch and at the end; without data it evaluates once. Errors of data, session and callbacks pass through.
DELTA_MUST_USE delta_status_t delta_trainer_run(const delta_trainer_options_t *options, delta_allocator_t allocator,
                                                delta_trainer_result_t *out_result);

#endif // DELTA_RUNTIME_TRAINER_H_
