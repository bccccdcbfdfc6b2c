// Session: a plan on a device, ready to run. What `deltarun` does. The whole life of a training is here: create, run programs, read and
// write parameters, export.
//
// A session belongs to one thread at a time, whichever it is, but for delta_session_cancel and delta_session_set_budget, as they say. Different sessions are independent: each may be run by a
// thread of its own, or several in turn by one.
//
// Compute threads are OpenMP's. Between two pieces of work they spin, by GNU OpenMP's default for milliseconds, and take the processor from
// whatever else the machine does: start the process with GOMP_SPINCOUNT=5000 (some ten microseconds, as deltaplan and deltarun do for
// themselves) or OMP_WAIT_POLICY=passive. The OpenMP runtime reads them when it is loaded: setenv in main is too late.
#ifndef DELTA_SESSION_H_
#define DELTA_SESSION_H_

#include <delta/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct delta_session delta_session_t;

// What one run executes.
typedef enum delta_run_program {
  DELTA_RUN_TRAIN,      // forward, backward, update; not of a plan that accumulates
  DELTA_RUN_ACCUMULATE, // forward, backward, add to the gradient sums
  DELTA_RUN_APPLY,      // update from the sums, by the true count of labels, and clear them
  DELTA_RUN_EVALUATE,   // forward for inference; loss and accuracy when a label is fed
} delta_run_program_t;

typedef struct delta_session_options {
  size_t struct_size;       // set by delta_session_options_init
  const delta_plan_t *plan; // Borrowed; outlives the session.
  const char *plan_path;    // the model is looked for beside it; may be NULL when model_path is given
  const char *model_path;   // NULL: the plan's model file beside the plan
  const char *external_data;
  const char *budget; // "8GiB", "60%", ...: replaces the plan's; NULL: as planned
  const char *tier; // folder of the file for swapped tensors, or "memory": host memory of exact size; NULL: $TMPDIR, or /var/tmp without it
  int copies_in_line;          // copies run between operators and not beside them: for comparison
  double copy_timeout_seconds; // a copy that takes longer, and a second more for each MiB, is an error that names it; 0: 60 seconds
  uint64_t seed;               // of dropout
  int other_programs;          // programs for other batches and dimensions than planned that are kept, the latest used; 0: 8
  int estimate_costs;          // plans that are made here count with estimates, not with what the cache has of measured kernels and copies
  int time_steps;              // keeps what each operator took, for delta_session_report_times
  int record_steps;            // keeps when each step of a program's last run ran, for delta_session_write_trace
  // Looks at every step: no byte outside a step's buffers is written, what was kept, swapped or dropped and made again is what it was, the arena has the bytes of the plan. The first
  // difference ends the run with MISMATCH, which names step, node and tensor. Slow.
  int verify;
  int verify_arena; // guard pages around the arena and dead bytes poisoned: slow, for tests
  delta_log_sink_t log;
} delta_session_options_t;
// Sets every option to its default; no plan.
DELTA_API void delta_session_options_init(delta_session_options_t *options);

// Builds the programs again and compares them with the plan (MISMATCH when model, options or machine differ), verifies every schedule,
// commits the arena, reads the weights into it. The caller destroys *out_session. NOT_FOUND names a model or a file of weights that is not there, DOES_NOT_FIT a budget that no plan
// keeps, OUT_OF_MEMORY and IO what arena and tier could not get.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_create(const delta_session_options_t *options, delta_allocator_t allocator,
                                                             delta_session_t **out_session);
// After a copy that timed out and has not come back, its thread and the memory it uses are left to the process. NULL is fine.
DELTA_API void delta_session_destroy(delta_session_t *session);
// Sends a table of the time spent by operator, kernel and layout since the session began, one note a line. Needs time_steps.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_report_times(const delta_session_t *session, delta_log_sink_t sink);

// Writes the measured timeline of the last run of each program that has run, each from its own beginning, for a trace viewer (docs/report.md). Needs record_steps;
// INVALID_ARGUMENT when nothing has run. Written aside and renamed.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_write_trace(const delta_session_t *session, const char *path);

// One input array. `data` has the batch's `rows` samples of the input's element type, row-major, and so exactly rows * (bytes of a sample)
// bytes; borrowed during the run. An input without a batch dimension is fed whole.
typedef struct delta_feed {
  const char *name; // the model's input, or "label"
  const void *data;
  size_t size_bytes;
} delta_feed_t;

// What a run is fed with: every input that delta_session_input lists, the label too where the loss has one, also for EVALUATE. APPLY takes
// none: its batch is NULL.
typedef struct delta_batch {
  int64_t rows; // samples; a count the plan does not have is planned on first use and kept, as many as other_programs says
  // Dimensions that are other than planned, such as the length of sequences: those the plan was given sizes of (`deltaplan --dim`). Planned and kept like other counts of samples. A feed
  // then has the bytes that these dimensions make. Not of APPLY.
  const delta_dim_t *dims;
  size_t dim_count;
  const delta_feed_t *feeds;
  size_t feed_count;
  // Alternative to feeds: fills all inputs in place, buffers[i] being that of input i in the order of delta_session_input, for `rows`
  // samples. Called a second time only to find the source of a NaN, or to run again what a broken disk has stopped.
  delta_status_t (*fill)(void *self, void *const *buffers);
  void *self; // Borrowed.
} delta_batch_t;

typedef struct delta_run_report {
  size_t struct_size;   // the caller sets it to sizeof(delta_run_report_t) before the call
  double loss;          // mean over the batch's labels
  double label_count;   // labels (or elements) behind the mean
  double correct;       // EVALUATE with class labels; else -1
  double gradient_norm; // when clipping; else -1
  double seconds;
  double stall_seconds;                                 // in which compute waited for copies
  double offload_seconds, prefetch_seconds;             // in which each lane copied
  double offload_stall_seconds, prefetch_stall_seconds; // in which it had copies left and waited until it might
  uint64_t arena_peak_bytes;                            // committed bytes of the arena
  uint64_t host_bytes;                                  // of the file for swapped tensors
  const char *const *events; // what was decided beside the plan since the last run, one line each; borrowed until the next run
  size_t event_count;
} delta_run_report_t;

// Runs one program at a learning rate from 0 on, which EVALUATE and ACCUMULATE do not use. NOT_A_NUMBER when the loss, or the norm
// of gradients that are clipped, is not finite: the message names the first node with such a value and what the states are.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_run(delta_session_t *session, delta_run_program_t program, const delta_batch_t *batch,
                                                          double learning_rate, delta_run_report_t *out_report);

// Asks the run that is going on, or else the next one, to end with INTERRUPTED. It stops before its next operator as long as it has changed no state, and otherwise goes on to its end: then
// the next run is the one that ends so. States are those of whole runs in any case, and the session can be used on. Thread-safe while the session lives, also in a signal handler.
DELTA_API void delta_session_cancel(delta_session_t *session);

// Inputs of the programs, in the order of the model and then `label`. Names are borrowed from the session; INVALID_ARGUMENT for an index that there is not.
DELTA_API size_t delta_session_input_count(const delta_session_t *session);
DELTA_API DELTA_MUST_USE delta_status_t delta_session_input(const delta_session_t *session, size_t index, delta_input_info_t *out_info);

// Another budget, "8GiB", "60%" and so on, from the next run on; NULL: the plan's own. Another thread may call this while a run is under way, and as far as what has not run allows
// it holds in that run already. Where the plan at hand does not fit it, or is slower than it must be, a new one is made by
// a thread of its own: a smaller budget waits for it before the next run, a larger one takes effect when it is ready. Results do not change by a bit. What was done, and a
// budget that was refused because no plan fits it, are events of the next report.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_set_budget(delta_session_t *session, const char *budget);
// What the arena may take, in bytes; UINT64_MAX: unlimited.
DELTA_API uint64_t delta_session_budget(const delta_session_t *session);

// Whether the model fixes the number of rows: other batches than the planned one cannot run.
DELTA_API int delta_session_has_fixed_batch(const delta_session_t *session);

// Whether evaluation counts correct labels.
DELTA_API int delta_session_has_accuracy(const delta_session_t *session);

// States: parameters, running statistics, optimizer moments, in the order of the plan.
DELTA_API size_t delta_session_state_count(const delta_session_t *session);
typedef struct delta_state_info {
  const char *name; // borrowed from the session
  const char *kind; // "parameter", "statistic", "optimizer", ...
  const char *dtype;
  int rank;
  int64_t dims[8];
  size_t size_bytes;
} delta_state_info_t;
// INVALID_ARGUMENT for an index that there is not.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_state(const delta_session_t *session, size_t index, delta_state_info_t *out_info);
// Copy a state's value, row-major, to the buffer and from it. NOT_FOUND when there is no such state, INVALID_ARGUMENT when the buffer does not have exactly its bytes. Between two runs.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_read(delta_session_t *session, const char *name, void *buffer, size_t size_bytes);
DELTA_API DELTA_MUST_USE delta_status_t delta_session_write(delta_session_t *session, const char *name, const void *buffer,
                                                            size_t size_bytes);

// The same facts by name; NOT_FOUND when there is no such state.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_find_state(const delta_session_t *session, const char *name,
                                                                 delta_state_info_t *out_info);

// Parameters as one buffer, one behind another in the order of delta_session_state: those that train, or, where trainable_only is 0, the frozen ones among them as well.
// The buffer has exactly delta_session_parameters_bytes, else INVALID_ARGUMENT.
DELTA_API size_t delta_session_parameters_bytes(const delta_session_t *session, int trainable_only);
DELTA_API DELTA_MUST_USE delta_status_t delta_session_read_parameters(delta_session_t *session, int trainable_only, void *buffer,
                                                                      size_t size_bytes);
DELTA_API DELTA_MUST_USE delta_status_t delta_session_write_parameters(delta_session_t *session, int trainable_only, const void *buffer,
                                                                       size_t size_bytes);
// Forgets what DELTA_RUN_ACCUMULATE has summed since the last update, which clears the sums by itself.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_clear_gradients(delta_session_t *session);

// Outputs of the model, for the planned rows.
typedef struct delta_output_info {
  const char *name; // borrowed from the session
  const char *dtype;
  int rank;
  int64_t dims[8]; // with the planned batch where the model has it
} delta_output_info_t;
// INVALID_ARGUMENT for an index that there is not.
DELTA_API size_t delta_session_output_count(const delta_session_t *session);
DELTA_API DELTA_MUST_USE delta_status_t delta_session_output(const delta_session_t *session, size_t index, delta_output_info_t *out_info);

// An output of the model after an EVALUATE run of `rows` samples: *out_size_bytes is its size; the content is copied when buffer is not
// NULL and large enough. NOT_FOUND when there is no such output; INVALID_ARGUMENT when the last run was another, or the buffer is too small.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_read_output(delta_session_t *session, const char *name, int64_t rows, void *buffer,
                                                                  size_t capacity_bytes, size_t *out_size_bytes);

// Whether `path` may be written while the session lives: INVALID_ARGUMENT names the plan, the model or the file of its weights that it is.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_check_output(const delta_session_t *session, const char *path);

// Writes the trained model: for inference, or in the form it was given. The path must be another than those of delta_session_check_output. Written
// aside and renamed, files of weights before the model. UNSUPPORTED names what has no inference form, NOT_A_NUMBER a parameter that is not finite, IO the file.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_export(delta_session_t *session, const char *path, int for_training);

#ifdef __cplusplus
}
#endif

#endif // DELTA_SESSION_H_
