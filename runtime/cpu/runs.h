// Runs: how compiled expressions walk an iteration space. A run is the longest tail of the space in which every input is dense, or repeats one value, or
// repeats the values of one vector (channels of a block). The rest of the space is an outer loop over runs.
#ifndef DELTA_RUNTIME_CPU_RUNS_H_
#define DELTA_RUNTIME_CPU_RUNS_H_

#include "runtime/cpu/compiled.h"
#include "runtime/cpu/tile.h"

typedef struct delta_runs {
  delta_tile_space_t space;
  int32_t outer_rank; // dimensions in front of a run
  int64_t length;     // elements of a run
  int64_t count;      // runs
  int64_t period;     // after how many elements values that repeat begin again; 1 where they are single
  bool is_dense[DELTA_EXPR_MAX_INPUTS];
} delta_runs_t;

// Cuts a space into runs for vectors of `width` floats. Returns why that cannot be, or NULL. A reduction's runs are reduced along their length, or along
// all of it but the period.
const char *delta_runs_init(delta_runs_t *runs, const delta_tile_space_t *space, int32_t width);

// One run: where each input's elements begin.
typedef struct delta_run {
  const char *inputs[DELTA_EXPR_MAX_INPUTS];
} delta_run_t;

// Finds a run; runs are counted along the outer dimensions.
void delta_runs_find(const delta_runs_t *runs, const void *const *inputs, int64_t index, delta_run_t *out_run);
// Fills a block's slots of inputs for a run, and what follows from them.
void delta_runs_fill(const delta_runs_t *runs, const delta_compiled_t *compiled, const delta_run_t *run, delta_compiled_block_t *block);
// Runs the code for elements [from, from + count) of a run whose slots are filled. `outputs` point at the results of the run's first element; NULL where
// sums are by lane. Elements beyond whole vectors are copied aside; of sums, the lanes without one add nothing.
void delta_runs_execute(const delta_compiled_t *compiled, const delta_run_t *run, void *const *outputs, int64_t from, int64_t count,
                        bool streams, delta_compiled_block_t *block);

#endif // DELTA_RUNTIME_CPU_RUNS_H_
