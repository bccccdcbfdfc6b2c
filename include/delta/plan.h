// Planning: from an ONNX model to a plan, and plans as files. What `deltaplan` does.
#ifndef DELTA_PLAN_H_
#define DELTA_PLAN_H_

#include <stddef.h>
#include <stdint.h>

#include <delta/allocator.h>
#include <delta/log.h>
#include <delta/status.h>

#ifdef __cplusplus
extern "C" {
#endif

// A plan does not change but by delta_plan_open_model: any number of sessions and threads may read it at once.
typedef struct delta_plan delta_plan_t;

// A dimension of the model given a size: `--dim NAME=N`.
typedef struct delta_dim {
  const char *name;
  int64_t size;
} delta_dim_t;

// What to plan. Initialize with delta_plan_options_init, then set what differs. Strings and lists are borrowed during the call. The words
// are those of `deltaplan --help`, which has the meaning of each.
typedef struct delta_plan_options {
  size_t struct_size; // set by delta_plan_options_init
  const char *model_path;
  const char *external_data; // folder, or NULL
  const char *device;        // "cpu", "cuda", "cuda:N", or "NAME.json": a profile, of a device that need not be there
  const char *policy;        // "delta"; docs/policies.md has all
  const char *levers;        // "all", "none", names with commas, "-name" for all but these; NULL: all
  const char *budget;        // "8GiB", "60%", "minimum", "unlimited"; NULL: what the device has free
  // In how many parts along the batch a step runs: "off", "2" to "16", "on" (whatever is fastest), "auto" (none unless it does not fit); NULL: off
  const char *split;
  const char *host_budget; // "4GiB": below the arena, for swapped tensors and states; NULL: unlimited
  int64_t batch;           // 0: the model's own
  const delta_dim_t *dims;
  size_t dim_count;
  const char *loss;      // "cross_entropy", "mse:OUTPUT", "output:NAME"; NULL: the model is only evaluated if it has no loss: an error
  int64_t class_axis;    // 1
  int64_t ignore_index;  // -100
  const char *optimizer; // "sgd"
  double learning_rate, momentum, weight_decay, beta1, beta2, epsilon; // negative: the optimizer's default
  int nesterov;
  double clip_gradient_norm; // 0: off
  int64_t accumulate;        // micro-steps per update; 1: plain training
  const char *const *freeze;
  size_t freeze_count;
  const char *const *train;
  size_t train_count;
  const char *batchnorm; // "as-exported", "train", "freeze"
  int batchnorm_unbiased;
  int32_t threads; // of kernels, and of the search for a plan; 0: as many as the process may use
  // Products of float32 in convolutions and matrix products: "float32", or "tf32" on GPUs that have it; NULL: float32, or the profile's.
  const char *math;
  // What kernels take: "measure" (each once, kept in the user's cache), "estimate" (nothing is measured), or a saved file.
  const char *profile;
  const char *save_profile; // a file that receives what was measured or read; NULL for none
  const char
      *layout; // how tensors of convolutions lie: "auto" (the fastest way); for experiments one for all: "plain", "channels_last", ...
  const char *output_path; // where the plan will be saved: refused before any work when it cannot be; NULL: not looked at
  // Where delta_plan_write_report and delta_plan_write_trace will write: the plan keeps what they need, and the paths are looked at like output_path; NULL for
  // none. With a report other budgets are tried too, for about as long as the search may take.
  const char *report_path, *trace_path;
  const char *init; // "as-given", or "random": weights whose external data is missing are drawn by role, for benchmarks
  uint64_t init_seed;
  // Told while kernels are measured; NULL for none.
  void (*progress)(void *self, uint32_t done, uint32_t total);
  void *progress_self;
  double time_limit_seconds; // of policies that search: delta, swap, recompute
  uint64_t seed;             // of the search
  int begin_with_rivals;     // policy "delta" also begins with the fastest plan of the other policies, and never ends with a slower one
  const char *dump_problem;  // NULL, or a file that gets what the planner is asked for the first program (docs/problem-format.md)
  delta_log_sink_t log;
} delta_plan_options_t;

// Sets every option to its default; no model, no loss.
DELTA_API void delta_plan_options_init(delta_plan_options_t *options);
// What is wrong with the options by themselves, without a look at the model or the device. INVALID_ARGUMENT names the option and what it
// may be. Planning checks the same.
DELTA_API DELTA_MUST_USE delta_status_t delta_plan_options_check(const delta_plan_options_t *options, delta_allocator_t allocator);

// Plans a model; the caller frees *out_plan. `out_summary` may be NULL; else it is filled as by delta_plan_summarize. INVALID_ARGUMENT names the option; NOT_FOUND, MALFORMED and
// UNSUPPORTED what is wrong with the model or a file, with all operators that are not known. A search that has a second or more goes on in several threads, which have ended when the call
// returns; they too call the allocator, one at a time. On DELTA_STATUS_DOES_NOT_FIT *out_plan is NULL and *out_summary has the sizes.
typedef struct delta_plan_summary delta_plan_summary_t;
DELTA_API DELTA_MUST_USE delta_status_t delta_plan_create(const delta_plan_options_t *options, delta_allocator_t allocator,
                                                          delta_plan_t **out_plan, delta_plan_summary_t *out_summary);
// Reads a plan; the caller frees *out_plan. The file is not trusted: MALFORMED names the member, MISMATCH another version of the format. Whether the plan is one of its
// model is proven when a session is created.
DELTA_API DELTA_MUST_USE delta_status_t delta_plan_load(const char *path, delta_allocator_t allocator, delta_plan_t **out_plan);
// Writes a plan: aside, then renamed. IO names the file.
DELTA_API DELTA_MUST_USE delta_status_t delta_plan_save(const delta_plan_t *plan, const char *path);
// After the last of its sessions. NULL is fine.
DELTA_API void delta_plan_free(delta_plan_t *plan);

// A page of HTML that shows the plan, and its timeline for a trace viewer (docs/report.md). The plan was made with report_path or trace_path set, or
// given its model since; INVALID_ARGUMENT otherwise. Written aside and renamed.
DELTA_API DELTA_MUST_USE delta_status_t delta_plan_write_report(const delta_plan_t *plan, const char *path);
DELTA_API DELTA_MUST_USE delta_status_t delta_plan_write_trace(const delta_plan_t *plan, const char *path);
// Gives a loaded plan what the two need, by building its programs again from the model: that at model_path, or, where it is NULL, its own beside plan_path. `device`
// is "NAME.json", the profile, when the plan was made for a device that is not there; NULL: the plan's. MISMATCH when the model is another, MALFORMED when
// the plan is not one of it. No weights are read.
DELTA_API DELTA_MUST_USE delta_status_t delta_plan_open_model(delta_plan_t *plan, const char *plan_path, const char *model_path,
                                                              const char *external_data, const char *device, delta_log_sink_t log);

// An input of the programs: what a data reader must supply.
typedef struct delta_input_info {
  const char *name;
  const char *dtype; // "float32"
  int rank;
  int64_t dims[8];          // with the planned batch first
  int64_t minimum, maximum; // legal values of integers, half open; equal: unknown
  int has_ignore;
  int64_t ignore_value;
} delta_input_info_t;

// The numbers of a plan; names as in `deltaplan --json`. Sizes in bytes.
struct delta_plan_summary {
  size_t struct_size; // the caller sets it to sizeof(delta_plan_summary_t) before the call
  const char *policy; // borrowed from the plan; NULL when there is none
  const char *device; // the one the plan is for; borrowed from the plan; NULL when there is none
  const char *math;   // "float32", "tf32": static
  char numerics_id[17];
  uint64_t nodes; // of the train (or accumulate) program's graph
  int64_t batch;
  int64_t trainable_parameters;
  uint32_t trainable_tensors;
  double learning_rate;  // the rate a run begins with unless it is told another
  int64_t accumulate;    // micro-batches per update
  int64_t parts;         // in which a step runs, along the batch
  uint64_t budget_bytes; // UINT64_MAX: unlimited
  uint64_t arena_bytes, peak_bytes, unlimited_peak_bytes, eager_peak_bytes, minimum_budget_bytes, state_bytes;
  uint64_t swapped_bytes;
  uint32_t swapped_tensors, recomputed_nodes;
  double step_seconds, unlimited_step_seconds, recompute_seconds, stall_seconds, lower_bound_seconds, planning_seconds, profiling_seconds;
  uint64_t memory_parameters_bytes, memory_gradients_bytes, memory_optimizer_bytes, memory_activations_bytes, memory_workspace_bytes,
      memory_inputs_bytes,
      memory_other_bytes;  // at the peak
  const char *seed_policy; // static, or NULL: with begin_with_rivals, the policy whose plan the search began with
  int seed_is_plan;        // and found nothing faster
  // What must be fed. Borrowed from the plan; none of a plan that was loaded or not made: there a session tells.
  const delta_input_info_t *inputs;
  size_t input_count;
};
// Fills *out_summary; INVALID_ARGUMENT when its struct_size is not set.
DELTA_API DELTA_MUST_USE delta_status_t delta_plan_summarize(const delta_plan_t *plan, delta_plan_summary_t *out_summary);

#ifdef __cplusplus
}
#endif

#endif // DELTA_PLAN_H_
