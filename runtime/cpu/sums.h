// Sums of compiled expressions over parts of a space: what reductions and moments share.
//
// Elements are summed in float64, by lane where a result's lie in a run, in pieces that depend on the shape alone, and the pieces are added in order:
// neither the number of threads nor the time of day changes a bit.
#ifndef DELTA_RUNTIME_CPU_SUMS_H_
#define DELTA_RUNTIME_CPU_SUMS_H_

#include "runtime/cpu/runs.h"

typedef struct delta_sums {
  delta_runs_t runs;
  delta_compiled_t compiled;
  int64_t kept, reduced; // combinations of the outer dimensions that are kept, and of those that are reduced
  bool is_along;         // every element of a run is another result's
  int64_t width;         // results of a kept combination
  int64_t chunks;        // of a run
  int64_t pieces;        // of the reduced elements behind one result
  int64_t results;       // of one output
  int64_t elements_per_result;
} delta_sums_t;

// Plans sums over the reduced dimensions of a space: of `spec`, whose inputs are placed here. Returns why that cannot be, or NULL.
const char *delta_sums_plan(delta_sums_t *sums, const delta_tile_space_t *space, const delta_compiled_spec_t *spec);
void delta_sums_deinit(delta_sums_t *sums); // Safe on a zeroed struct.
// float64 partial sums: pieces x outputs x results.
size_t delta_sums_workspace_bytes(const delta_sums_t *sums);

// Computes the partial sums of all results. `inputs` are those of the expression.
void delta_sums_run(const delta_sums_t *sums, int32_t threads, const void *const *inputs, double *partial);
// The sum behind one result.
double delta_sums_total(const delta_sums_t *sums, const double *partial, uint16_t output, int64_t result);

#endif // DELTA_RUNTIME_CPU_SUMS_H_
