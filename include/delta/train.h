// Train: the loop over data files in one call: epochs, order of samples, learning-rate schedule, accumulation, evaluation. What `deltarun`
// does. Programs that feed arrays of their own call delta_session_run for each batch in its place.
#ifndef DELTA_TRAIN_H_
#define DELTA_TRAIN_H_

#include <signal.h>

#include <delta/checkpoint.h>

#ifdef __cplusplus
extern "C" {
#endif

// The rate of update `step`, from 0, of `total_steps` by a schedule ("constant", "linear", "cosine", "step") that rises to `rate` in `warmup_steps`: what delta_session_train gives its
// runs, for loops of one's own. INVALID_ARGUMENT lists the schedules.
DELTA_API DELTA_MUST_USE delta_status_t delta_learning_rate(const char *schedule, double rate, int64_t warmup_steps, int64_t total_steps,
                                                            int64_t step, double *out_rate);

// An update, once it is made.
typedef struct delta_train_step {
  int64_t step;  // from 1: the number of updates made
  int64_t epoch; // from 1
  double loss;
  double learning_rate;
  bool has_gradient_norm; // gradients are clipped
  double gradient_norm;   // before clipping
  double seconds;
  double samples_per_second;
  double stall_seconds;                            // the compute lane waiting for transfers
  double offload_seconds, offload_stall_seconds;   // the lane that copies below the arena: busy, and waiting until it may copy
  double prefetch_seconds, prefetch_stall_seconds; // the lane that copies back
  uint64_t arena_peak_bytes;
  uint64_t host_bytes;       // for swapped tensors
  const char *const *events; // Borrowed; what the dynamic layer did in this step
  size_t event_count;
} delta_train_step_t;

// An evaluation, over all samples of its data.
typedef struct delta_train_evaluation {
  int64_t step, epoch; // made before it
  double loss;         // not a number where no label counts
  bool has_accuracy;
  double accuracy; // a part of 1
  int64_t samples;
  double seconds;
} delta_train_evaluation_t;

// Initialize with delta_train_options_init, then set what differs. Everything is borrowed during the call. The words are those of
// `deltarun --help`, which has the meaning of each.
typedef struct delta_train_options {
  size_t struct_size;     // set by delta_train_options_init
  const char *data;       // what to train on, such as "x=x.npy,label=y.npy" or "csv:train.csv" (docs/data.md); NULL: only evaluate
  const char *evaluation; // what to evaluate on after each epoch, in the same form; NULL: nothing
  int64_t epochs, steps;  // how long to train: one of the two; the other is 0
  double learning_rate;   // negative: the plan's
  const char *schedule;   // "constant", "linear", "cosine", "step"; NULL: constant
  int64_t warmup_steps;   // in which the rate rises to its value
  bool shuffle;           // another order in each epoch; on by default
  bool drop_last;         // leave out the last batch of an epoch when it is not full
  uint64_t seed;          // of the order and of synthetic data
  const volatile sig_atomic_t *stop_requested; // looked at between steps: when it is not 0 the loop ends; NULL: never
  const delta_training_position_t *resume;     // where the session's states come from (delta_session_restore); NULL: the beginning
  int64_t save_every;                          // updates between two calls of on_save; 0: at the end of each epoch
  // Told what happens; NULL for none. A status that is not OK ends the loop and is handed on.
  delta_status_t (*on_begin)(void *self, int64_t total_steps); // before the first step
  delta_status_t (*on_step)(void *self, const delta_train_step_t *step);
  delta_status_t (*on_evaluation)(void *self, const delta_train_evaluation_t *evaluation);
  // The time has come to save, and also when the training ends or stops, unless nothing has changed since; is_last: it ends with this.
  delta_status_t (*on_save)(void *self, const delta_training_position_t *position, bool is_last);
  void *self;
  delta_log_sink_t log;
} delta_train_options_t;
// Sets every option to its default; no data.
DELTA_API void delta_train_options_init(delta_train_options_t *options);

typedef struct delta_train_result {
  size_t struct_size; // the caller sets it to sizeof(delta_train_result_t) before the call
  bool stopped;       // by stop_requested
  int64_t steps;      // updates made, also before an error
  delta_train_step_t last_step;
  delta_train_evaluation_t last_evaluation; // samples 0: none was made
} delta_train_result_t;

// Trains, evaluating after each epoch and at the end; without data it evaluates once. The last batch of an epoch is a smaller one where the
// samples do not divide, unless the model fixes its batch or drop_last is set: both are noted. A position to resume from is of
// the same data, seed and order (else MISMATCH); another batch or schedule is a warning. `out_result` may be NULL. INVALID_ARGUMENT
// names the option; errors of data, session (NOT_A_NUMBER names the step) and callbacks pass through.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_train(delta_session_t *session, const delta_train_options_t *options,
                                                            delta_train_result_t *out_result);

#ifdef __cplusplus
}
#endif

#endif // DELTA_TRAIN_H_
