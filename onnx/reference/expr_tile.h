// Expression tile: evaluates a node's expression over a stretch of elements along one dimension of the broadcast shape.
// Shared by POINTWISE and REDUCE, so that a value is the same whether it is stored or only reduced.
#ifndef DELTA_ONNX_REFERENCE_EXPR_TILE_H_
#define DELTA_ONNX_REFERENCE_EXPR_TILE_H_

#include "onnx/reference/element.h"

enum { DELTA_TILE_ELEMENTS = 64 };

typedef struct delta_expr_tile {
  const delta_reference_args_t *args;
  const delta_expr_t *expr;
  bool real;       // outputs are float64 numbers, else int64
  int32_t row_dim; // the dimension along which a stretch lies; -1 in a scalar
  union {
    float reals32[DELTA_TILE_ELEMENTS * DELTA_EXPR_MAX_INPUTS];
    double reals64[DELTA_TILE_ELEMENTS * DELTA_EXPR_MAX_INPUTS];
    int64_t integers[DELTA_TILE_ELEMENTS * DELTA_EXPR_MAX_INPUTS];
  } inputs;                                                             // element by element, each with its inputs side by side
  delta_number_t outputs[DELTA_TILE_ELEMENTS * DELTA_EXPR_MAX_OUTPUTS]; // likewise
} delta_expr_tile_t;

void delta_expr_tile_init(delta_expr_tile_t *tile, const delta_reference_args_t *args, const delta_expr_t *expr, int32_t row_dim);

// Evaluates `count` (at most DELTA_TILE_ELEMENTS) elements from `first` on along row_dim. Operand k of the walk is input k; `offsets` are its
// element offsets where the row begins.
void delta_expr_tile_eval(delta_expr_tile_t *tile, const delta_walk_t *walk, const int64_t *offsets, int64_t first, int64_t count);

#endif // DELTA_ONNX_REFERENCE_EXPR_TILE_H_
