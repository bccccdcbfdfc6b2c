// Trainer: the loop over a data set: epochs and steps, order of samples, partial batches, accumulation, learning rate, evaluation.
#ifndef DELTA_RUNTIME_TRAINER_H_
#define DELTA_RUNTIME_TRAINER_H_

#include <signal.h>

#include <delta/checkpoint.h>

#include "runtime/metrics.h"
#include "runtime/rate.h"

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
  const delta_training_position_t *resume;     // where the session's states come from; NULL: the beginning
  int64_t save_every;                          // updates between two calls of on_save; 0: at the end of each epoch
  // At those times and when the training ends or stops, unless nothing has changed since; NULL: never. is_last: the training ends with it.
  delta_status_t (*on_save)(void *self, const delta_training_position_t *position, bool is_last);
  delta_status_t (*on_begin)(void *self, int64_t total_steps); // before the first step
  delta_status_t (*on_step)(void *self, const delta_metrics_step_t *step);
  delta_status_t (*on_evaluation)(void *self, const delta_metrics_evaluation_t *evaluation);
  void *self; // Borrowed.
} delta_trainer_options_t;

typedef struct delta_trainer_result {
  bool stopped;  // by stop_requested
  int64_t steps; // with those before a resumed training
  delta_metrics_step_t last_step;
  delta_metrics_evaluation_t last_evaluation; // samples 0: none was made
} delta_trainer_result_t;

// Trains, evaluating after each epoch and at the end; without data it evaluates once. A position to resume from must be of the same data, seed and shuffling
// (MISMATCH); another batch or schedule is a warning. Errors of data, session and callbacks pass through.
DELTA_MUST_USE delta_status_t delta_trainer_run(const delta_trainer_options_t *options, delta_allocator_t allocator,
                                                delta_trainer_result_t *out_result);

#endif // DELTA_RUNTIME_TRAINER_H_
