// Partial sums by pieces of runs.
#include "runtime/cpu/sums.h"

#include <string.h>

#include "runtime/cpu/team.h"

// Sums along a run stay in the nearest cache.
enum { CHUNK_ELEMENTS = 8192, CHUNK_ALONG_ELEMENTS = 1024, WANTED_ITEMS = 32, LEAST_PIECE_ELEMENTS = 16384 };
// Combinations whose sums, by lane, stand beside a run in the nearest cache.
enum { BATCH = 32 };

static int64_t chunk_elements(const delta_sums_t *sums) { return sums->is_along ? CHUNK_ALONG_ELEMENTS : CHUNK_ELEMENTS; }

// Pieces cut the reduced elements behind results that are too few to share.
static void cut_pieces(delta_sums_t *sums) {
  const int64_t items = sums->is_along ? sums->kept * sums->chunks : sums->kept;
  const int64_t units = sums->is_along ? sums->reduced : sums->reduced * sums->chunks;
  const int64_t wanted = (WANTED_ITEMS + items - 1) / items, most = sums->runs.space.count / items / LEAST_PIECE_ELEMENTS;
  sums->pieces = wanted < units ? wanted : units;
  if (sums->pieces > most) sums->pieces = most > 1 ? most : 1;
}

const char *delta_sums_plan(delta_sums_t *sums, const delta_tile_space_t *space, const delta_compiled_spec_t *wanted_spec) {
  *sums = (delta_sums_t){.kept = 1, .reduced = 1};
  const char *reason = delta_runs_init(&sums->runs, space, delta_compiled_width());
  if (reason) return reason;
  const delta_runs_t *runs = &sums->runs;
  sums->is_along = !space->reduced[runs->outer_rank];
  if (sums->is_along && runs->period > 1) return "its runs are not reduced";
  for (int32_t d = 0; d < runs->outer_rank; ++d) *(space->reduced[d] ? &sums->reduced : &sums->kept) *= space->dims[d];
  sums->width = sums->is_along ? runs->length : runs->period;
  sums->results = sums->kept * sums->width;
  sums->elements_per_result = space->count / sums->results;
  sums->chunks = (runs->length + chunk_elements(sums) - 1) / chunk_elements(sums);
  cut_pieces(sums);
  delta_compiled_spec_t spec = *wanted_spec;
  spec.results = sums->is_along ? DELTA_COMPILED_SUMMED_ALONG : DELTA_COMPILED_SUMMED;
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
} delta_sums_launch_t;

static void sum_chunk(const delta_sums_t *sums, const delta_run_t *run, int64_t chunk, void *const *totals, delta_compiled_block_t *block) {
  const int64_t most = chunk_elements(sums), from = chunk * most, left = sums->runs.length - from;
  delta_runs_execute(&sums->compiled, run, totals, from, left < most ? left : most, false, block);
}

static void find_and_fill(const delta_sums_launch_t *launch, int64_t index, delta_run_t *run, delta_compiled_block_t *block) {
  const delta_sums_t *sums = launch->sums;
  delta_runs_find(&sums->runs, launch->inputs, index, run);
  delta_runs_fill(&sums->runs, &sums->compiled, run, block);
}

static size_t lanes_bytes(const delta_sums_t *sums) {
  return sums->compiled.spec.expr->output_count * sizeof(double[DELTA_COMPILED_LANES]);
}

// A piece of the elements behind the results of a kept combination, by lane. A unit is a chunk of a run.
static void sum_by_lane(const delta_sums_launch_t *launch, int64_t item, delta_compiled_block_t *block) {
  const delta_sums_t *sums = launch->sums;
  const int64_t kept = item / sums->pieces, piece = item % sums->pieces, units = sums->reduced * sums->chunks;
  const int64_t first = units * piece / sums->pieces, last = units * (piece + 1) / sums->pieces;
  delta_run_t run;
  memset(block->sums, 0, lanes_bytes(sums));
  for (int64_t u = first; u < last; ++u) {
    if (u == first || u % sums->chunks == 0) find_and_fill(launch, run_at(sums, kept, u / sums->chunks), &run, block);
    sum_chunk(sums, &run, u % sums->chunks, NULL, block);
  }
  fold_lanes(sums, block, kept, launch->partial + piece * partial_count(sums));
}

// The same for several combinations, each in one piece of short runs, whose sums take turns in the block: runs follow each other as they lie in memory, since
// caches fetch ahead along a walk and not to where it jumps.
static void sum_batch(const delta_sums_launch_t *launch, int64_t first_kept, int64_t count, delta_compiled_block_t *block) {
  const delta_sums_t *sums = launch->sums;
  double lanes[BATCH][DELTA_EXPR_MAX_OUTPUTS][DELTA_COMPILED_LANES];
  delta_run_t run;
  for (int64_t k = 0; k < count; ++k) memset(lanes[k], 0, lanes_bytes(sums));
  for (int64_t r = 0; r < sums->reduced; ++r) {
    for (int64_t k = 0; k < count; ++k) {
      find_and_fill(launch, run_at(sums, first_kept + k, r), &run, block);
      memcpy(block->sums, lanes[k], lanes_bytes(sums));
      sum_chunk(sums, &run, 0, NULL, block);
      memcpy(lanes[k], block->sums, lanes_bytes(sums));
    }
  }
  for (int64_t k = 0; k < count; ++k) {
    memcpy(block->sums, lanes[k], lanes_bytes(sums));
    fold_lanes(sums, block, first_kept + k, launch->partial);
  }
}

// A piece of the rows behind a chunk of the results of a kept combination, onto the partial sums themselves.
static void sum_along(const delta_sums_launch_t *launch, int64_t item, delta_compiled_block_t *block) {
  const delta_sums_t *sums = launch->sums;
  const int64_t piece = item % sums->pieces, chunk = item / sums->pieces % sums->chunks;
  const int64_t kept = item / sums->pieces / sums->chunks;
  const int64_t first = sums->reduced * piece / sums->pieces, last = sums->reduced * (piece + 1) / sums->pieces;
  const int64_t from = chunk * chunk_elements(sums), left = sums->width - from;
  void *totals[DELTA_EXPR_MAX_OUTPUTS];
  delta_run_t run;
  for (uint16_t k = 0; k < sums->compiled.spec.expr->output_count; ++k) {
    double *total = launch->partial + piece * partial_count(sums) + k * sums->results + kept * sums->width;
    memset(total + from, 0, (size_t)(left < chunk_elements(sums) ? left : chunk_elements(sums)) * sizeof *total);
    totals[k] = total;
  }
  for (int64_t row = first; row < last; ++row) {
    find_and_fill(launch, run_at(sums, kept, row), &run, block);
    sum_chunk(sums, &run, chunk, totals, block);
  }
}

// Items are pieces.
static void sum_pieces(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_sums_launch_t *launch = context;
  delta_compiled_block_t block;
  delta_compiled_begin(&launch->sums->compiled, &block);
  const delta_sums_t *sums = launch->sums;
  const bool is_batched = !sums->is_along && sums->pieces == 1 && sums->chunks == 1;
  for (int64_t item = begin; item < end && is_batched; item += BATCH)
    sum_batch(launch, item, end - item < BATCH ? end - item : BATCH, &block);
  for (int64_t item = begin; item < end && !is_batched; ++item) (sums->is_along ? sum_along : sum_by_lane)(launch, item, &block);
}

void delta_sums_run(const delta_sums_t *sums, int32_t threads, const void *const *inputs, double *partial) {
  const delta_sums_launch_t launch = {sums, inputs, partial};
  const int64_t items = sums->kept * sums->pieces * (sums->is_along ? sums->chunks : 1), elements = sums->runs.space.count / items;
  delta_team_run(threads, items, elements * (int64_t)sizeof(double), sum_pieces, &launch);
}

double delta_sums_total(const delta_sums_t *sums, const double *partial, uint16_t output, int64_t result) {
  const double *first = partial + output * sums->results + result;
  double total = first[0];
  for (int64_t p = 1; p < sums->pieces; ++p) total += first[p * partial_count(sums)];
  return total;
}
