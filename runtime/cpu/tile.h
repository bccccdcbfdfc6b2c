// Tiles: how pointwise and reduce kernels walk their inputs. An expression runs instruction by instruction over a tile of consecutive elements of the
// iteration space that stays in cache; inputs are loaded into the tile with broadcasting.
#ifndef DELTA_RUNTIME_CPU_TILE_H_
#define DELTA_RUNTIME_CPU_TILE_H_

#include "runtime/cpu/kernel.h"

enum { DELTA_TILE_ELEMENTS = 256 };
enum { DELTA_TILE_WHOLE = -1, DELTA_TILE_APART = -2 }; // no input is virtual; inputs have parts along different dimensions

// The iteration space of a node with its dimensions merged where every input (and the set of reduced axes) allows it.
typedef struct delta_tile_space {
  int32_t rank; // at least 1
  int64_t dims[DELTA_MAX_RANK];
  bool reduced[DELTA_MAX_RANK]; // REDUCE: whether the dimension is summed over
  int64_t count;                // product of dims
  uint32_t input_count;
  int64_t strides[DELTA_EXPR_MAX_INPUTS][DELTA_MAX_RANK]; // in elements; 0 where an input repeats
  delta_dtype_t dtypes[DELTA_EXPR_MAX_INPUTS];
  bool dense[DELTA_EXPR_MAX_INPUTS]; // the input's elements are those of the space, in order
  // Virtual inputs have parts along one dimension, which is not merged with others. Their strides are those of the whole.
  const delta_graph_t *graph;                          // Borrowed, as what follows.
  const delta_node_t *parts_of[DELTA_EXPR_MAX_INPUTS]; // that put the whole together; NULL: an ordinary input
  int32_t parted;                                      // the dimension, or one of those below
} delta_tile_space_t;

void delta_tile_space_init(delta_tile_space_t *space, const delta_graph_t *graph, const delta_node_t *node, const delta_shape_t *shape,
                           uint32_t reduced_axes);

// Loads elements [start, start + count) of the space from input k as float32; count <= DELTA_TILE_ELEMENTS. Returns `tile`, or the input's own bytes.
const float *delta_tile_load(const delta_tile_space_t *space, uint32_t k, const void *data, int64_t start, int64_t count, float *tile);

// Copies `count` elements that lie `stride` apart from element `offset` on, converting to float32.
void delta_tile_load_run(const void *data, delta_dtype_t dtype, int64_t offset, int64_t stride, int64_t count, float *out);

// Room for the values of all instructions of an expression over a tile.
typedef struct delta_tile_values {
  float storage[DELTA_EXPR_MAX_INSTRS][DELTA_TILE_ELEMENTS];
  const float *values[DELTA_EXPR_MAX_INSTRS]; // what each instruction gave
} delta_tile_values_t;

// Runs an expression in float32 over elements [start, start + count): result of instruction i at values->values[i].
void delta_tile_eval(const delta_expr_t *expr, const delta_tile_space_t *space, const void *const *inputs, int64_t start, int64_t count,
                     delta_tile_values_t *values);

// One instruction of `count` elements; neither an input nor a constant. Operands that it does not have are not read.
void delta_tile_apply(delta_expr_op_t op, float *out, const float *const operands[3], int64_t count);

// What a tile of an expression counts as when work is shared.
int64_t delta_tile_work_bytes(const delta_expr_t *expr);

// Stores a tile into elements [start, start + count) of a dense output of type dtype.
void delta_tile_store(const float *tile, int64_t count, void *output, delta_dtype_t dtype, int64_t start);

#endif // DELTA_RUNTIME_CPU_TILE_H_
