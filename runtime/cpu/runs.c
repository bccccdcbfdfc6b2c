// Runs of a space and what code needs for each.
#include "runtime/cpu/runs.h"

#include <string.h>

// What a run costs besides its elements is worth about as much.
enum { LEAST_VECTORS = 16 };

// How an input goes along a run of whole inner dimensions: dense, a single value, or the values of a period.
static bool is_dense(const delta_tile_space_t *space, uint32_t k, int32_t outer_rank) {
  int64_t stride = 1;
  for (int32_t d = space->rank - 1; d >= outer_rank; --d) {
    if (space->strides[k][d] != stride) return false;
    stride *= space->dims[d];
  }
  return true;
}

static bool repeats(const delta_tile_space_t *space, uint32_t k, int32_t outer_rank, bool is_periodic) {
  const int32_t last = space->rank - 1;
  if (!is_periodic) return space->strides[k][last] == 0;
  return space->strides[k][outer_rank] == 0 && space->strides[k][last] <= 1;
}

const char *delta_runs_init(delta_runs_t *runs, const delta_tile_space_t *space, int32_t width) {
  const int32_t last = space->rank - 1;
  if (width == 0) return "the processor has no AVX2";
  *runs = (delta_runs_t){.space = *space, .outer_rank = last, .length = space->dims[last], .count = 1, .period = 1};
  const int64_t inner = space->dims[last];
  const bool is_periodic = space->rank > 1 && inner <= width && width % inner == 0 && space->reduced[last] == false;
  if (is_periodic) {
    runs->outer_rank = last - 1;
    runs->length *= space->dims[last - 1];
    runs->period = inner;
  }
  if (space->parted == DELTA_TILE_APART || space->parted >= runs->outer_rank) return "parts of an input do not begin with runs";
  for (int32_t d = 0; d < runs->outer_rank; ++d) runs->count *= space->dims[d];
  if (runs->count > 1 && runs->length < LEAST_VECTORS * width) return "its runs are short";
  for (uint32_t k = 0; k < space->input_count; ++k) {
    runs->is_dense[k] = is_dense(space, k, runs->outer_rank);
    if (runs->is_dense[k] && space->dtypes[k] != DELTA_DTYPE_FLOAT32) return "an input is not float32";
    if (!runs->is_dense[k] && !repeats(space, k, runs->outer_rank, is_periodic)) return "an input neither advances nor repeats";
  }
  return NULL;
}

// Where a run of a virtual input begins: in front of the parted dimension a part is as much closer as it is smaller than the whole.
static const char *find_in_part(const delta_runs_t *runs, uint32_t k, const char *const *parts, int64_t index) {
  const delta_tile_space_t *space = &runs->space;
  const int32_t axis = ((const delta_split_attrs_t *)space->parts_of[k]->attrs)->axis;
  int64_t outer = 0, inner = 0, place = 0, size = 0;
  for (int32_t d = runs->outer_rank - 1; d >= 0; --d) {
    const int64_t at = index % space->dims[d];
    index /= space->dims[d];
    if (d == space->parted) place = at;
    if (d != space->parted) *(d < space->parted ? &outer : &inner) += at * space->strides[k][d];
  }
  uint32_t p = 0;
  for (;; ++p) {
    size = delta_node_input(space->graph, space->parts_of[k], p)->shape.dims[axis];
    if (place < size) break;
    place -= size;
  }
  const int64_t offset = outer / space->dims[space->parted] * size + place * space->strides[k][space->parted] + inner;
  return parts[p] + (size_t)offset * delta_dtype_bytes(space->dtypes[k]);
}

void delta_runs_find(const delta_runs_t *runs, const void *const *inputs, int64_t index, delta_run_t *out_run) {
  const delta_tile_space_t *space = &runs->space;
  int64_t offsets[DELTA_EXPR_MAX_INPUTS] = {0};
  const int64_t run = index;
  for (int32_t d = runs->outer_rank - 1; d >= 0; --d) {
    const int64_t place = index % space->dims[d];
    index /= space->dims[d];
    for (uint32_t k = 0; k < space->input_count; ++k) offsets[k] += place * space->strides[k][d];
  }
  for (uint32_t k = 0; k < space->input_count; ++k)
    out_run->inputs[k] = space->parts_of[k] ? find_in_part(runs, k, inputs[k], run)
                                            : (const char *)inputs[k] + (size_t)offsets[k] * delta_dtype_bytes(space->dtypes[k]);
}

// Common periods have copies of fixed size: a run of channels of a small image is hardly longer than what fills its slots.
static void fill_slot(const delta_runs_t *runs, uint32_t k, const char *data, float *slot) {
  enum { HALF = DELTA_COMPILED_LANES / 2 };
  const int64_t stride = runs->space.strides[k][runs->space.rank - 1];
  const bool is_plain = runs->space.dtypes[k] == DELTA_DTYPE_FLOAT32 && stride == 1;
  if (is_plain && runs->period == DELTA_COMPILED_LANES) {
    memcpy(slot, data, DELTA_COMPILED_LANES * sizeof *slot);
  } else if (is_plain && runs->period == HALF) {
    memcpy(slot, data, HALF * sizeof *slot);
    memcpy(slot + HALF, data, HALF * sizeof *slot);
  } else {
    delta_tile_load_run(data, runs->space.dtypes[k], 0, stride, runs->period, slot);
    for (int64_t lane = runs->period; lane < DELTA_COMPILED_LANES; ++lane) slot[lane] = slot[lane - runs->period];
  }
}

void delta_runs_fill(const delta_runs_t *runs, const delta_compiled_t *compiled, const delta_run_t *run, delta_compiled_block_t *block) {
  for (uint32_t k = 0; k < runs->space.input_count; ++k) {
    if (compiled->slot_of_input[k] >= 0) fill_slot(runs, k, run->inputs[k], block->slots[compiled->slot_of_input[k]]);
  }
  delta_compiled_update(compiled, block);
}

static size_t result_bytes(const delta_compiled_t *compiled) {
  return compiled->spec.results == DELTA_COMPILED_SUMMED_ALONG ? sizeof(double) : sizeof(float);
}

// The last elements, fewer than a vector, in room of their own.
static void execute_rest(const delta_compiled_t *compiled, const void *const *from, void *const *to, int64_t count,
                         delta_compiled_block_t *block) {
  const delta_expr_t *expr = compiled->spec.expr;
  const size_t whole_bytes = (size_t)count * result_bytes(compiled);
  _Alignas(64) char room[DELTA_COMPILED_POINTERS][DELTA_COMPILED_LANES * sizeof(double)];
  double sums[DELTA_EXPR_MAX_OUTPUTS][DELTA_COMPILED_LANES];
  memset(room, 0, compiled->pointer_count * sizeof room[0]);
  for (uint32_t p = 0; p < compiled->pointer_count; ++p) block->pointers[p] = room[p];
  for (uint16_t k = 0; k < expr->input_count; ++k) {
    if (compiled->pointer_of_input[k] >= 0) memcpy(room[compiled->pointer_of_input[k]], from[k], (size_t)count * sizeof(float));
  }
  for (uint16_t k = 0; k < expr->output_count; ++k) {
    if (compiled->pointer_of_output[k] >= 0) memcpy(room[compiled->pointer_of_output[k]], to[k], whole_bytes);
  }
  memcpy(sums, block->sums, expr->output_count * sizeof sums[0]);
  block->size_bytes = compiled->width * (int64_t)sizeof(float);
  delta_compiled_run(compiled, block, false);
  for (uint16_t k = 0; k < expr->output_count; ++k) {
    for (int64_t lane = count; lane < compiled->width; ++lane) block->sums[k][lane] = sums[k][lane];
    if (compiled->pointer_of_output[k] >= 0) memcpy(to[k], room[compiled->pointer_of_output[k]], whole_bytes);
  }
}

void delta_runs_execute(const delta_compiled_t *compiled, const delta_run_t *run, void *const *outputs, int64_t from, int64_t count,
                        bool streams, delta_compiled_block_t *block) {
  const delta_expr_t *expr = compiled->spec.expr;
  const int64_t whole = count / compiled->width * compiled->width, rest = count - whole;
  const void *rest_inputs[DELTA_EXPR_MAX_INPUTS];
  void *rest_outputs[DELTA_EXPR_MAX_OUTPUTS];
  for (uint16_t k = 0; k < expr->input_count; ++k) {
    if (compiled->pointer_of_input[k] < 0) continue;
    const char *start = run->inputs[k] + (size_t)from * sizeof(float);
    block->pointers[compiled->pointer_of_input[k]] = start;
    rest_inputs[k] = start + (size_t)whole * sizeof(float);
  }
  for (uint16_t k = 0; k < expr->output_count; ++k) {
    if (compiled->pointer_of_output[k] < 0) continue;
    char *start = (char *)outputs[k] + (size_t)from * result_bytes(compiled);
    block->pointers[compiled->pointer_of_output[k]] = start;
    rest_outputs[k] = start + (size_t)whole * result_bytes(compiled);
  }
  if (whole > 0) {
    block->size_bytes = whole * (int64_t)sizeof(float);
    delta_compiled_run(compiled, block, streams);
  }
  if (rest > 0) execute_rest(compiled, rest_inputs, rest_outputs, rest, block);
}
