// Reductions of expressions in float32 and moments. Results are grouped into blocks that one thread computes alone, always in the same order, with
// float64 accumulators: neither the number of threads nor the time of day changes a bit.
#include <assert.h>
#include <math.h>
#include <string.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/team.h"
#include "runtime/cpu/tile.h"

// Which elements of the iteration space make a block of results.
//
// The innermost dimension decides: if it is reduced, a block is one result and its rows are runs of the innermost dimension; if it is kept, a block is a run
// of neighbouring results, and every row adds to all of them; short rows that follow each other share a tile. A reduction to few results is cut along the reduced elements into a fixed number of pieces.
typedef struct delta_reduce_state {
  delta_tile_space_t space;
  bool inner_reduced;
  int64_t inner;      // elements of the innermost dimension
  int64_t kept_outer; // index combinations of the kept dimensions, less the innermost
  int64_t reduced_outer;
  int64_t block;         // results in a block
  int64_t rows_per_tile; // that lie one after the other and together make a tile
  int64_t blocks_per_row;
  int64_t pieces; // of the reduced elements; partial results go to the workspace
  int64_t results;
  int64_t elements_per_result;
} delta_reduce_state_t;

enum { MOST_PIECES = 16, LEAST_PIECE_ELEMENTS = 16384 };

const char *delta_cpu_reduce_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  (void)graph;
  const delta_reduce_attrs_t *attrs = node->attrs;
  if (attrs->expr.compute != DELTA_DTYPE_FLOAT32) return "the expression does not compute in float32";
  return delta_shape_count(&attrs->shape) == 0 ? "there are no elements" : NULL;
}

const char *delta_cpu_moments_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const char *reason = delta_cpu_refuse_unless_float32(graph, node);
  if (reason) return reason;
  return delta_shape_count(&delta_node_input(graph, node, 0)->shape) == 0 ? "there are no elements" : NULL;
}

static void init_reduce(delta_reduce_state_t *state) {
  const delta_tile_space_t *space = &state->space;
  int32_t last = space->rank - 1;
  state->inner = space->dims[last];
  state->inner_reduced = space->reduced[last];
  state->kept_outer = state->reduced_outer = 1;
  for (int32_t d = 0; d < last; ++d) *(space->reduced[d] ? &state->reduced_outer : &state->kept_outer) *= space->dims[d];
  int64_t tile = DELTA_TILE_ELEMENTS;
  state->block = state->inner_reduced ? 1 : state->inner < tile ? state->inner : tile;
  state->blocks_per_row = state->inner_reduced ? 1 : (state->inner + tile - 1) / tile;
  const bool rows_follow = !state->inner_reduced && state->blocks_per_row == 1 && last > 0 && space->reduced[last - 1];
  state->rows_per_tile = rows_follow ? tile / state->inner : 1;
  state->results = state->kept_outer * (state->inner_reduced ? 1 : state->inner);
  state->elements_per_result = space->count / state->results;
  int64_t blocks = state->kept_outer * state->blocks_per_row;
  state->pieces = 1;
  // Few results: share one among threads. The cut depends on shapes alone.
  while (blocks * state->pieces < MOST_PIECES && state->pieces < state->reduced_outer * (state->inner_reduced ? state->inner : 1) &&
         state->block * state->elements_per_result / state->pieces >= 2 * LEAST_PIECE_ELEMENTS) {
    state->pieces *= 2;
  }
}

static delta_status_t prepare(delta_kernel_t *kernel, const delta_shape_t *shape, uint32_t axes, uint32_t outputs) {
  delta_reduce_state_t *state = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &state));
  kernel->state = state;
  delta_tile_space_init(&state->space, kernel->graph, kernel->node, shape, axes);
  init_reduce(state);
  kernel->workspace_bytes = state->pieces > 1 ? (size_t)(state->pieces * state->results) * outputs * sizeof(double) : 0;
  return DELTA_OK;
}

delta_status_t delta_cpu_reduce_prepare(delta_kernel_t *kernel) {
  const delta_reduce_attrs_t *attrs = kernel->node->attrs;
  return prepare(kernel, &attrs->shape, attrs->axes, attrs->expr.output_count);
}

delta_status_t delta_cpu_moments_prepare(delta_kernel_t *kernel) {
  const delta_moments_attrs_t *attrs = kernel->node->attrs;
  return prepare(kernel, &delta_node_input(kernel->graph, kernel->node, 0)->shape, attrs->axes, 1);
}

// The offset in the space of combination `index` of the outer dimensions that are (or are not) reduced.
static int64_t outer_offset(const delta_tile_space_t *space, bool reduced, int64_t index) {
  int64_t offset = 0, stride = space->dims[space->rank - 1];
  for (int32_t d = space->rank - 2; d >= 0; --d) {
    if (space->reduced[d] == reduced) {
      offset += index % space->dims[d] * stride;
      index /= space->dims[d];
    }
    stride *= space->dims[d];
  }
  return offset;
}

static double reduce_start(delta_reduce_kind_t kind) {
  switch (kind) {
    case DELTA_REDUCE_MAX:
      return -INFINITY;
    case DELTA_REDUCE_MIN:
      return INFINITY;
    case DELTA_REDUCE_PROD:
      return 1;
    default:
      return 0;
  }
}

static double combine(delta_reduce_kind_t kind, double a, double b) {
  switch (kind) {
    case DELTA_REDUCE_MAX:
      return a != a ? a : b != b ? b : a > b ? a : b;
    case DELTA_REDUCE_MIN:
      return a != a ? a : b != b ? b : a < b ? a : b;
    case DELTA_REDUCE_PROD:
      return a * b;
    default:
      return a + b;
  }
}

// Adds a tile to one accumulator. Sums run in independent lanes so that they do not wait for each other.
static double reduce_row(delta_reduce_kind_t kind, const float *row, int64_t count, double start) {
  if (kind != DELTA_REDUCE_SUM && kind != DELTA_REDUCE_MEAN) {
    for (int64_t i = 0; i < count; ++i) start = combine(kind, start, (double)row[i]);
    return start;
  }
  enum { LANES = 8 };
  double lanes[LANES] = {0};
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) {
    for (int lane = 0; lane < LANES; ++lane) lanes[lane] += (double)row[i + lane];
  }
  for (; i < count; ++i) lanes[0] += (double)row[i];
  for (int lane = 0; lane < LANES; ++lane) start += lanes[lane];
  return start;
}

DELTA_CPU_CLONES static void add_row(const float *row, int64_t count, double *accumulators) {
  for (int64_t i = 0; i < count; ++i) accumulators[i] += (double)row[i];
}

static void reduce_into(delta_reduce_kind_t kind, const float *row, int64_t count, double *accumulators) {
  if (kind == DELTA_REDUCE_SUM || kind == DELTA_REDUCE_MEAN) {
    add_row(row, count, accumulators);
  } else {
    for (int64_t i = 0; i < count; ++i) accumulators[i] = combine(kind, accumulators[i], (double)row[i]);
  }
}

// Adds rows of blocked channels; the accumulators stay in registers.
#define DELTA_SUM_ROWS(width)                                                                             \
  DELTA_CPU_CLONES static void sum_rows_##width(const float *rows, int64_t count, double *accumulators) { \
    double sums[width];                                                                                   \
    for (int i = 0; i < (width); ++i) sums[i] = accumulators[i];                                          \
    for (int64_t row = 0; row < count; row += (width)) {                                                  \
      for (int i = 0; i < (width); ++i) sums[i] += (double)rows[row + i];                                 \
    }                                                                                                     \
    for (int i = 0; i < (width); ++i) accumulators[i] = sums[i];                                          \
  }
DELTA_SUM_ROWS(8)
DELTA_SUM_ROWS(16)
#undef DELTA_SUM_ROWS

// One block of one piece: what all kernels below iterate. `visit` sees every tile of the block: `start` is its place in the space and `into` the first of the
// block's accumulators it belongs to (all of them when the innermost dimension is kept).
typedef struct delta_reduce_block {
  const delta_reduce_state_t *state;
  int64_t start;                  // offset of the block's first element
  int64_t count;                  // results
  int64_t first;                  // index of its first result
  int64_t row_begin, row_end;     // combinations of the reduced outer dimensions
  int64_t inner_begin, inner_end; // within the innermost dimension, when it is reduced
} delta_reduce_block_t;

static delta_reduce_block_t make_block(const delta_reduce_state_t *state, int64_t index) {
  int64_t piece = index % state->pieces, block = index / state->pieces;
  int64_t kept = block / state->blocks_per_row, column = block % state->blocks_per_row * DELTA_TILE_ELEMENTS;
  delta_reduce_block_t result = {.state = state, .row_end = state->reduced_outer, .inner_end = state->inner};
  result.start = outer_offset(&state->space, false, kept) + (state->inner_reduced ? 0 : column);
  result.count = state->inner_reduced ? 1 : state->inner - column < state->block ? state->inner - column : state->block;
  result.first = state->inner_reduced ? kept : kept * state->inner + column;
  // Pieces cut the rows; when there are too few rows, the innermost dimension.
  if (state->reduced_outer >= state->pieces) {
    result.row_begin = state->reduced_outer * piece / state->pieces;
    result.row_end = state->reduced_outer * (piece + 1) / state->pieces;
  } else {
    result.inner_begin = state->inner * piece / state->pieces;
    result.inner_end = state->inner * (piece + 1) / state->pieces;
  }
  return result;
}

// The next tile of a block after position (row, inner); false at the end.
typedef struct delta_reduce_cursor {
  int64_t row, inner;
  int64_t start, count; // the tile
} delta_reduce_cursor_t;

static bool next_tile(const delta_reduce_block_t *block, delta_reduce_cursor_t *cursor) {
  const delta_reduce_state_t *state = block->state;
  if (cursor->row >= block->row_end) return false;
  int64_t row_offset = outer_offset(&state->space, true, cursor->row);
  if (!state->inner_reduced) {
    int64_t rows = block->row_end - cursor->row;
    if (rows > state->rows_per_tile) rows = state->rows_per_tile;
    if (rows > 1) {
      const int64_t length = state->space.dims[state->space.rank - 2], following = length - cursor->row % length;
      if (rows > following) rows = following;
    }
    cursor->start = block->start + row_offset;
    cursor->count = rows * block->count;
    cursor->row += rows;
    return true;
  }
  int64_t left = block->inner_end - cursor->inner;
  cursor->start = block->start + row_offset + cursor->inner;
  cursor->count = left < DELTA_TILE_ELEMENTS ? left : DELTA_TILE_ELEMENTS;
  cursor->inner += cursor->count;
  if (cursor->inner >= block->inner_end) {
    cursor->inner = block->inner_begin;
    ++cursor->row;
  }
  return true;
}

static delta_reduce_cursor_t first_tile(const delta_reduce_block_t *block) {
  return (delta_reduce_cursor_t){.row = block->row_begin, .inner = block->inner_begin};
}

static void accumulate(const delta_reduce_block_t *block, delta_reduce_kind_t kind, const float *tile, int64_t count,
                       double *accumulators) {
  if (block->state->inner_reduced) {
    accumulators[0] = reduce_row(kind, tile, count, accumulators[0]);
  } else if ((kind == DELTA_REDUCE_SUM || kind == DELTA_REDUCE_MEAN) && block->count == 8) {
    sum_rows_8(tile, count, accumulators);
  } else if ((kind == DELTA_REDUCE_SUM || kind == DELTA_REDUCE_MEAN) && block->count == 16) {
    sum_rows_16(tile, count, accumulators);
  } else {
    for (int64_t row = 0; row < count; row += block->count) reduce_into(kind, tile + row, block->count, accumulators);
  }
}

static double finish(const delta_reduce_state_t *state, delta_reduce_kind_t kind, double value) {
  return kind == DELTA_REDUCE_MEAN ? value / (double)state->elements_per_result : value;
}

static void reduce_block(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, const delta_reduce_block_t *block,
                         double *partial) {
  const delta_reduce_state_t *state = kernel->state;
  const delta_reduce_attrs_t *attrs = kernel->node->attrs;
  double accumulators[DELTA_EXPR_MAX_OUTPUTS][DELTA_TILE_ELEMENTS];
  delta_tile_values_t values;
  assert(block->count >= 1);
  for (uint16_t k = 0; k < attrs->expr.output_count; ++k) {
    for (int64_t i = 0; i < block->count; ++i) accumulators[k][i] = reduce_start(attrs->kinds[k]);
  }
  for (delta_reduce_cursor_t cursor = first_tile(block); next_tile(block, &cursor);) {
    delta_tile_eval(&attrs->expr, &state->space, buffers->inputs, cursor.start, cursor.count, &values);
    for (uint16_t k = 0; k < attrs->expr.output_count; ++k)
      accumulate(block, attrs->kinds[k], values.values[attrs->expr.outputs[k]], cursor.count, accumulators[k]);
  }
  for (uint16_t k = 0; k < attrs->expr.output_count; ++k) {
    for (int64_t i = 0; i < block->count; ++i) {
      if (partial) {
        partial[k * state->results + block->first + i] = accumulators[k][i];
      } else if (buffers->outputs[k]) {
        delta_element_store_double(buffers->outputs[k], attrs->dtypes[k], (size_t)(block->first + i),
                                   finish(state, attrs->kinds[k], accumulators[k][i]));
      }
    }
  }
}

// Items are pieces of blocks.
static void reduce_blocks(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_reduce_state_t *state = launch->kernel->state;
  const delta_reduce_attrs_t *attrs = launch->kernel->node->attrs;
  int64_t partial_count = state->results * attrs->expr.output_count;
  for (int64_t b = begin; b < end; ++b) {
    delta_reduce_block_t block = make_block(state, b);
    double *partial = state->pieces > 1 ? (double *)launch->buffers->workspace + b % state->pieces * partial_count : NULL;
    reduce_block(launch->kernel, launch->buffers, &block, partial);
  }
}

static int64_t item_count(const delta_reduce_state_t *state) { return state->kept_outer * state->blocks_per_row * state->pieces; }

// What an item counts as when work is shared, for what a whole tile counts as.
static int64_t item_bytes(const delta_reduce_state_t *state, int64_t tile_bytes) {
  int64_t elements = state->space.count / item_count(state);
  return elements * tile_bytes / DELTA_TILE_ELEMENTS;
}

delta_status_t delta_cpu_reduce_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_reduce_state_t *state = kernel->state;
  const delta_reduce_attrs_t *attrs = kernel->node->attrs;
  delta_team_run(kernel->threads, item_count(state), item_bytes(state, delta_tile_work_bytes(&attrs->expr)), reduce_blocks, &launch);
  int64_t partial_count = state->results * attrs->expr.output_count;
  if (state->pieces == 1) return DELTA_OK;
  for (uint16_t k = 0; k < attrs->expr.output_count; ++k) {
    if (!buffers->outputs[k]) continue;
    for (int64_t r = 0; r < state->results; ++r) {
      const double *partial = (const double *)buffers->workspace + k * state->results + r;
      double value = partial[0];
      for (int64_t p = 1; p < state->pieces; ++p) value = combine(attrs->kinds[k], value, partial[p * partial_count]);
      delta_element_store_double(buffers->outputs[k], attrs->dtypes[k], (size_t)r, finish(state, attrs->kinds[k], value));
    }
  }
  return DELTA_OK;
}

DELTA_CPU_CLONES static void square_differences(const float *x, const float *mean, bool one_mean, int64_t count, float *squares) {
  for (int64_t i = 0; i < count; ++i) {
    const float difference = x[i] - (one_mean ? mean[0] : mean[i]);
    squares[i] = difference * difference;
  }
}

// Sums over a block of x, or of (x - mean) squared when `mean` is given, into accumulators.
static void moment_sums(const delta_reduce_block_t *block, const float *x, const float *mean, double *accumulators) {
  const delta_tile_space_t *space = &block->state->space;
  float loaded[DELTA_TILE_ELEMENTS], squares[DELTA_TILE_ELEMENTS];
  for (int64_t i = 0; i < block->count; ++i) accumulators[i] = 0;
  for (delta_reduce_cursor_t cursor = first_tile(block); next_tile(block, &cursor);) {
    const float *tile = delta_tile_load(space, 0, x, cursor.start, cursor.count, loaded);
    if (mean) {
      // Every row of the tile has the block's results; a tile of one result is one row.
      const int64_t width = block->state->inner_reduced ? cursor.count : block->count;
      for (int64_t row = 0; row < cursor.count; row += width)
        square_differences(tile + row, mean + block->first, block->state->inner_reduced, width, squares + row);
      tile = squares;
    }
    accumulate(block, DELTA_REDUCE_SUM, tile, cursor.count, accumulators);
  }
}

// One pass of the moments: the mean, or (`mean` given) the variance around it.
typedef struct delta_moment_pass {
  const delta_reduce_state_t *state;
  const float *x, *mean;
  float *out;
  double *partial;
} delta_moment_pass_t;

// Items are pieces of blocks.
static void moment_blocks(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_moment_pass_t *pass = context;
  const delta_reduce_state_t *state = pass->state;
  for (int64_t b = begin; b < end; ++b) {
    delta_reduce_block_t block = make_block(state, b);
    double accumulators[DELTA_TILE_ELEMENTS];
    moment_sums(&block, pass->x, pass->mean, accumulators);
    for (int64_t i = 0; i < block.count; ++i) {
      if (state->pieces > 1) {
        pass->partial[b % state->pieces * state->results + block.first + i] = accumulators[i];
      } else {
        pass->out[block.first + i] = (float)(accumulators[i] / (double)state->elements_per_result);
      }
    }
  }
}

static void run_moment_pass(const delta_kernel_t *kernel, const delta_moment_pass_t *pass) {
  const delta_reduce_state_t *state = pass->state;
  delta_team_run(kernel->threads, item_count(state), item_bytes(state, DELTA_TILE_ELEMENTS * (int64_t)sizeof(double)), moment_blocks, pass);
  if (state->pieces == 1) return;
  for (int64_t r = 0; r < state->results; ++r) {
    double sum = 0;
    for (int64_t p = 0; p < state->pieces; ++p) sum += pass->partial[p * state->results + r];
    pass->out[r] = (float)(sum / (double)state->elements_per_result);
  }
}

delta_status_t delta_cpu_moments_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  delta_moment_pass_t pass = {.state = kernel->state, .x = buffers->inputs[0], .out = buffers->outputs[0], .partial = buffers->workspace};
  run_moment_pass(kernel, &pass);
  pass.mean = pass.out;
  pass.out = buffers->outputs[1];
  run_moment_pass(kernel, &pass);
  return DELTA_OK;
}
