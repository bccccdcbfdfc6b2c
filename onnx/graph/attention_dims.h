// Attention dims: where the matrices of an attention lie in its tensors, for inference and all its kernels.
#ifndef DELTA_ONNX_GRAPH_ATTENTION_DIMS_H_
#define DELTA_ONNX_GRAPH_ATTENTION_DIMS_H_

#include <math.h>

#include "onnx/graph/graph.h"

// Inputs of ATTENTION, and of ATTENTION_GRAD.
enum {
  DELTA_ATTENTION_QUERY,
  DELTA_ATTENTION_KEY,
  DELTA_ATTENTION_VALUE,
  DELTA_ATTENTION_MASK,
  DELTA_ATTENTION_SEED,
  DELTA_ATTENTION_DRAW
};
enum { DELTA_ATTENTION_GRAD_DY, DELTA_ATTENTION_GRAD_Y, DELTA_ATTENTION_GRAD_LOG_SUM, DELTA_ATTENTION_GRAD_INPUTS };

// An attention is `matrices` products of queries and keys. Rows of one matrix are `heads` times the width apart: the heads stand between them, or are 1.
typedef struct delta_attention_dims {
  int64_t matrices, heads;
  int64_t queries, keys;
  int64_t size, value_size; // widths of queries and keys, and of values
  delta_shape_t scores;     // [.., queries, keys]; all but the last two dimensions count the matrices
} delta_attention_dims_t;

delta_attention_dims_t delta_attention_dims(const delta_attention_attrs_t *attrs, const delta_shape_t *query, const delta_shape_t *key,
                                            const delta_shape_t *value);
// The same of a node of either operator.
delta_attention_dims_t delta_attention_dims_of(const delta_graph_t *graph, const delta_node_t *node);

// First element of a matrix in a tensor with `rows` rows of `width`, and the distance of its rows.
static inline int64_t delta_attention_start(const delta_attention_dims_t *dims, int64_t matrix, int64_t rows, int64_t width) {
  return (matrix / dims->heads * rows * dims->heads + matrix % dims->heads) * width;
}
static inline int64_t delta_attention_step(const delta_attention_dims_t *dims, int64_t width) { return dims->heads * width; }

// Whether a row's sum is so far from 0 that its digits do not tell probabilities: all its keys are hidden by a large number. Gradients then sum again.
static inline bool delta_attention_sum_is_lost(double log_sum) { return isfinite(log_sum) && fabs(log_sum) > 1e5; }

// How a mask is read: element (i, j) of a matrix is at start + i * row + j * column.
typedef struct delta_attention_mask {
  int64_t strides[DELTA_MAX_RANK]; // over the scores' dimensions, 0 where it repeats
  int64_t row, column;
} delta_attention_mask_t;
delta_attention_mask_t delta_attention_mask(const delta_attention_dims_t *dims, const delta_shape_t *mask);
int64_t delta_attention_mask_start(const delta_attention_dims_t *dims, const delta_attention_mask_t *mask, int64_t matrix);

#endif // DELTA_ONNX_GRAPH_ATTENTION_DIMS_H_
