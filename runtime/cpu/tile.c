// Broadcast loads and expression evaluation over tiles, with the instructions' own definitions.
#include "runtime/cpu/tile.h"

#include <math.h>
#include <string.h>

#include "onnx/graph/expr_math.h"
#include "onnx/graph/virtual.h"
#include "runtime/cpu/clones.h"

#define REAL              float
#define REAL_NAME(name)   float_##name
#define REAL_MATH(name)   name##f
#define REAL_VECTOR(name) delta_##name##f
#define REAL_CONST(real)  ((float)(real))
#include "onnx/graph/expr_real.inc"

// One loop per instruction; the function behind a constant index is inlined. Operands an instruction does not have are not read. Instructions that float32
// expressions do not have are kept out by validation.
typedef void (*tile_function_t)(float *out, const float *a, const float *b, const float *c, int64_t count);
#define X(id, name, arity)                                                                                            \
  DELTA_CPU_CLONES static void tile_##id(float *out, const float *a, const float *b, const float *c, int64_t count) { \
    for (int64_t i = 0; i < count; ++i)                                                                               \
      out[i] = float_functions[DELTA_EXPR_##id](a[i], (arity) > 1 ? b[i] : 0.0f, (arity) > 2 ? c[i] : 0.0f);          \
  }
#include "onnx/graph/expr_ops.inc"
#undef X

static const tile_function_t tile_functions[DELTA_EXPR_OP_COUNT] = {
#define X(id, name, arity) [DELTA_EXPR_##id] = tile_##id,
#include "onnx/graph/expr_ops.inc"
#undef X
};

// Whether dimensions d and d + 1 are one for every input and for the reduction.
static bool can_merge(const delta_tile_space_t *space, int32_t d) {
  if (space->reduced[d] != space->reduced[d + 1] || d == space->parted || d + 1 == space->parted) return false;
  for (uint32_t k = 0; k < space->input_count; ++k) {
    if (space->strides[k][d] != space->strides[k][d + 1] * space->dims[d + 1]) return false;
  }
  return true;
}

static void remove_dimension(delta_tile_space_t *space, int32_t d) {
  for (int32_t i = d; i + 1 < space->rank; ++i) {
    space->dims[i] = space->dims[i + 1];
    space->reduced[i] = space->reduced[i + 1];
    for (uint32_t k = 0; k < space->input_count; ++k) space->strides[k][i] = space->strides[k][i + 1];
  }
  --space->rank;
  if (d < space->parted) --space->parted;
}

static void merge_dimensions(delta_tile_space_t *space) {
  for (int32_t d = space->rank - 1; d >= 0; --d) {
    if (space->dims[d] == 1 && space->rank > 1) remove_dimension(space, d);
  }
  for (int32_t d = space->rank - 2; d >= 0; --d) {
    if (!can_merge(space, d)) continue;
    space->dims[d + 1] *= space->dims[d];
    remove_dimension(space, d);
  }
}

// Notes a virtual input's parts and the dimension they are along.
static void note_parts(delta_tile_space_t *space, uint32_t k, const delta_node_t *parts, int32_t input_rank) {
  if (!parts) return;
  const int32_t dimension = ((const delta_split_attrs_t *)parts->attrs)->axis + space->rank - input_rank;
  space->parts_of[k] = parts;
  space->parted = space->parted == DELTA_TILE_WHOLE || space->parted == dimension ? dimension : DELTA_TILE_APART;
}

void delta_tile_space_init(delta_tile_space_t *space, const delta_graph_t *graph, const delta_node_t *node, const delta_shape_t *shape,
                           uint32_t reduced_axes) {
  *space = (delta_tile_space_t){
      .rank = shape->rank, .count = delta_shape_count(shape), .input_count = node->input_count, .graph = graph, .parted = DELTA_TILE_WHOLE};
  if (shape->rank == 0) {
    space->rank = 1;
    space->dims[0] = 1;
  }
  for (int32_t d = 0; d < shape->rank; ++d) {
    space->dims[d] = shape->dims[d];
    space->reduced[d] = (reduced_axes >> d) & 1u;
  }
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_t *input = delta_node_input(graph, node, k);
    space->dtypes[k] = input->dtype;
    space->dense[k] = delta_shape_count(&input->shape) == space->count;
    delta_shape_broadcast_strides(&input->shape, shape, space->strides[k]);
    note_parts(space, k, delta_virtual_node(graph, node->inputs[k]), input->shape.rank);
  }
  merge_dimensions(space);
}

void delta_tile_load_run(const void *data, delta_dtype_t dtype, int64_t offset, int64_t stride, int64_t count, float *out) {
  if (dtype == DELTA_DTYPE_FLOAT32) {
    const float *from = (const float *)data + offset;
    if (stride == 1) {
      memcpy(out, from, (size_t)count * sizeof *out);
    } else {
      for (int64_t i = 0; i < count; ++i) out[i] = from[i * stride];
    }
    return;
  }
  if (dtype == DELTA_DTYPE_INT64) {
    // Integers convert in one rounding.
    for (int64_t i = 0; i < count; ++i) out[i] = (float)((const int64_t *)data)[offset + i * stride];
    return;
  }
  for (int64_t i = 0; i < count; ++i) out[i] = (float)delta_element_load_double(data, dtype, (size_t)(offset + i * stride));
}

const float *delta_tile_load(const delta_tile_space_t *space, uint32_t k, const void *data, int64_t start, int64_t count, float *tile) {
  if (space->dense[k]) {
    if (space->dtypes[k] == DELTA_DTYPE_FLOAT32) return (const float *)data + start;
    delta_tile_load_run(data, space->dtypes[k], start, 1, count, tile);
    return tile;
  }
  const int64_t *strides = space->strides[k];
  int32_t inner = space->rank - 1;
  int64_t index[DELTA_MAX_RANK];
  int64_t rest = start, offset = 0;
  for (int32_t d = inner; d >= 0; --d) {
    index[d] = rest % space->dims[d];
    rest /= space->dims[d];
    offset += index[d] * strides[d];
  }
  // Values of a block of channels that repeat from position to position are loaded once and doubled.
  const int64_t period = space->dims[inner];
  const bool repeats = inner > 0 && strides[inner - 1] == 0 && index[inner] == 0 && 2 * period <= count;
  if (repeats) {
    int64_t left = (space->dims[inner - 1] - index[inner - 1]) * period;
    if (left >= count) {
      delta_tile_load_run(data, space->dtypes[k], offset, strides[inner], period, tile);
      for (int64_t filled = period; filled < count; filled *= 2)
        memcpy(tile + filled, tile, (size_t)(2 * filled <= count ? filled : count - filled) * sizeof *tile);
      return tile;
    }
  }
  for (int64_t done = 0; done < count;) {
    int64_t run = space->dims[inner] - index[inner];
    if (run > count - done) run = count - done;
    delta_tile_load_run(data, space->dtypes[k], offset, strides[inner], run, tile + done);
    done += run;
    // Step to the start of the next row.
    offset -= index[inner] * strides[inner];
    index[inner] = 0;
    for (int32_t d = inner - 1; d >= 0; --d) {
      offset += strides[d];
      if (++index[d] < space->dims[d]) break;
      offset -= strides[d] * space->dims[d];
      index[d] = 0;
    }
  }
  return tile;
}

static void fill_tile(float *tile, float value, int64_t count) {
  for (int64_t i = 0; i < count; ++i) tile[i] = value;
}

void delta_tile_apply(delta_expr_op_t op, float *out, const float *const operands[3], int64_t count) {
  tile_functions[op](out, operands[0], operands[1], operands[2], count);
}

void delta_tile_eval(const delta_expr_t *expr, const delta_tile_space_t *space, const void *const *inputs, int64_t start, int64_t count,
                     delta_tile_values_t *values) {
  for (uint16_t i = 0; i < expr->instr_count; ++i) {
    const delta_expr_instr_t *instr = &expr->instrs[i];
    float *out = values->storage[i];
    values->values[i] = out;
    if (instr->op == DELTA_EXPR_INPUT) {
      values->values[i] = delta_tile_load(space, instr->operands[0], inputs[instr->operands[0]], start, count, out);
    } else if (instr->op == DELTA_EXPR_CONST) {
      fill_tile(out, (float)instr->immediate.real, count);
    } else {
      tile_functions[instr->op](out, values->values[instr->operands[0]], values->values[instr->operands[1]],
                                values->values[instr->operands[2]], count);
    }
  }
}

int64_t delta_tile_work_bytes(const delta_expr_t *expr) {
  return (1 + (int64_t)expr->instr_count) * DELTA_TILE_ELEMENTS * (int64_t)sizeof(float);
}

void delta_tile_store(const float *tile, int64_t count, void *output, delta_dtype_t dtype, int64_t start) {
  if (dtype == DELTA_DTYPE_FLOAT32) {
    memcpy((float *)output + start, tile, (size_t)count * sizeof *tile);
    return;
  }
  for (int64_t i = 0; i < count; ++i) delta_element_store_double(output, dtype, (size_t)(start + i), (double)tile[i]);
}
