// Partial sums by pieces of runs.
#include "runtime/cpu/sums.h"

#include <string.h>

#include "runtime/cpu/team.h"

enum { CHUNK_ELEMENTS = 8192, WANTED_ITEMS = 32, LEAST_PIECE_ELEMENTS = 16384 };

const char *delta_sums_plan(delta_sums_t *sums, const delta_tile_space_t *space, const delta_compiled_spec_t *wanted_spec) {
  *sums = (delta_sums_t){.kept = 1, .reduced = 1};
  const char *reason = delta_runs_init(&sums->runs, space, delta_compiled_width());
  if (reason) return reason;
  const delta_runs_t *runs = &sums->runs;
  if (!space->reduced[runs->outer_rank]) return "results lie along its runs";
  for (int32_t d = 0; d < runs->outer_rank; ++d) *(space->reduced[d] ? &sums->reduced : &sums->kept) *= space->dims[d];
  sums->results = sums->kept * runs->period;
  sums->elements_per_result = space->count / sums->results;
  sums->chunks = (runs->length + CHUNK_ELEMENTS - 1) / CHUNK_ELEMENTS;
  const int64_t units = sums->reduced * sums->chunks, wanted = (WANTED_ITEMS + sums->kept - 1) / sums->kept;
  const int64_t most = space->count / sums->kept / LEAST_PIECE_ELEMENTS;
  sums->pieces = wanted < units ? wanted : units;
  if (sums->pieces > most) sums->pieces = most > 1 ? most : 1;
  delta_compiled_spec_t spec = *wanted_spec;
  spec.sums = true;
  memcpy(spec.is_dense, runs->is_dense, sizeof spec.is_dense);
  return delta_compiled_plan(&sums->compiled, &spec);
}

void delta_sums_deinit(delta_sums_t *sums) { delta_compiled_deinit(&sums->compiled); }

static int64_t partial_count(const delta_sums_t *sums) { return sums->results * sums->compiled.spec.expr->output_count; }

size_t delta_sums_workspace_bytes(const delta_sums_t *sums) { return (size_t)(sums->pieces * partial_count(sums)) * sizeof(double); }

// The run at a combination of the kept and one of the reduced outer dimensions.
static int64_t run_at(const delta_sums_t *sums, int64_t kept, int64_t reduced) {
  const delta_tile_space_t *space = &sums->runs.space;
  int64_t run = 0, stride = 1;
  for (int32_t d = sums->runs.outer_rank - 1; d >= 0; --d) {
    int64_t *index = space->reduced[d] ? &reduced : &kept;
    run += *index % space->dims[d] * stride;
    *index /= space->dims[d];
    stride *= space->dims[d];
  }
  return run;
}

// Adds lanes of the same place in a period, in order.
static void fold_lanes(const delta_sums_t *sums, const delta_compiled_block_t *block, int64_t kept, double *partial) {
  const int64_t period = sums->runs.period;
  for (uint16_t k = 0; k < sums->compiled.spec.expr->output_count; ++k) {
    double *results = partial + k * sums->results + kept * period;
    for (int64_t p = 0; p < period; ++p) {
      results[p] = 0;
      for (int64_t lane = p; lane < sums->compiled.width; lane += period) results[p] += block->sums[k][lane];
    }
  }
}

typedef struct delta_sums_launch {
  const delta_sums_t *sums;
  const void *const *inputs;
  double *partial;
  int64_t begin; // the first kept combination
} delta_sums_launch_t;

// Items are pieces of results' elements.
static void sum_pieces(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_sums_launch_t *launch = context;
  const delta_sums_t *sums = launch->sums;
  const int64_t units = sums->reduced * sums->chunks;
  delta_compiled_block_t block;
  delta_run_t run;
  delta_compiled_begin(&sums->compiled, &block);
  for (int64_t item = begin; item < end; ++item) {
    const int64_t kept = launch->begin + item / sums->pieces, piece = item % sums->pieces;
    const int64_t first = units * piece / sums->pieces, last = units * (piece + 1) / sums->pieces;
    memset(block.sums, 0, sums->compiled.spec.expr->output_count * sizeof block.sums[0]);
    for (int64_t unit = first; unit < last; ++unit) {
      const int64_t from = unit % sums->chunks * CHUNK_ELEMENTS, left = sums->runs.length - from;
      if (from == 0 || unit == first) {
        delta_runs_find(&sums->runs, launch->inputs, run_at(sums, kept, unit / sums->chunks), &run);
        delta_runs_fill(&sums->runs, &sums->compiled, &run, &block);
      }
      delta_runs_execute(&sums->compiled, &run, NULL, from, left < CHUNK_ELEMENTS ? left : CHUNK_ELEMENTS, false, &block);
    }
    fold_lanes(sums, &block, kept, launch->partial + piece * partial_count(sums));
  }
}

void delta_sums_run(const delta_sums_t *sums, int32_t threads, const void *const *inputs, int64_t begin, int64_t end, double *partial) {
  const delta_sums_launch_t launch = {sums, inputs, partial, begin};
  const int64_t elements = sums->runs.space.count / (sums->kept * sums->pieces);
  delta_team_run(threads, (end - begin) * sums->pieces, elements * (int64_t)sizeof(double), sum_pieces, &launch);
}

double delta_sums_total(const delta_sums_t *sums, const double *partial, uint16_t output, int64_t result) {
  const double *first = partial + output * sums->results + result;
  double total = first[0];
  for (int64_t p = 1; p < sums->pieces; ++p) total += first[p * partial_count(sums)];
  return total;
}
