// Attention block: the scores of a few queries of one matrix with all keys, for the forward and the backward kernel of attention.
//
// A block's scores are one row of keys for each of its queries, so memory is linear in the sequence. Keys that a mask hides from all queries of a block are
// left out: their probabilities are 0. That makes causal masks and padding cost half, or nothing, whatever they come from.
#ifndef DELTA_RUNTIME_CPU_ATTENTION_H_
#define DELTA_RUNTIME_CPU_ATTENTION_H_

#include "onnx/graph/attention_dims.h"
#include "runtime/cpu/product.h"
#include "runtime/cpu/team.h"

// Queries of a block: a multiple of the rows that products take at once. The usual 7 x 7 windows of images are one block.
enum { DELTA_ATTENTION_ROWS = 9 * DELTA_PRODUCT_ROWS };

// A launch of either kernel, as its threads read it.
typedef struct delta_attention_launch {
  const delta_kernel_t *kernel;
  const delta_kernel_buffers_t *buffers;
  const delta_attention_attrs_t *attrs;
  delta_attention_dims_t dims;
  const float *query, *key, *value;
  const float *mask; // NULL: none
  delta_attention_mask_t mask_layout;
  bool drops;
  uint64_t stream_key;
  int64_t score_row; // floats from one row of scores to the next
} delta_attention_launch_t;

const char *delta_cpu_attention_refuse(const delta_graph_t *graph, const delta_node_t *node);
delta_attention_launch_t delta_attention_launch(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers);

// The least room for a row is widened so that rows of a power of two do not share their places in a cache.
static inline int64_t delta_attention_score_row(const delta_attention_dims_t *dims) {
  return delta_product_padded(dims->keys) + DELTA_PRODUCT_COLUMNS;
}

typedef struct delta_attention_block {
  int64_t matrix;
  int64_t first_query, queries;
  int64_t first_key, keys; // those that some query sees; first_key begins a panel
} delta_attention_block_t;
int64_t delta_attention_block_count(const delta_attention_dims_t *dims);
delta_attention_block_t delta_attention_block(const delta_attention_launch_t *launch, int64_t matrix, int64_t block);

// The keys of a matrix as products with queries take them: delta_product_padded(keys) * size floats.
void delta_attention_pack_keys(const delta_attention_launch_t *launch, int64_t matrix, float *panels);
// scores[i * score_row + j]: scale * q k' + mask of the block's query i and its visible key j.
void delta_attention_scores(const delta_attention_launch_t *launch, const delta_attention_block_t *block, const float *key_panels,
                            float *scores);
// What dropout multiplies the probabilities of the block's query i with, 0 or 1 / (1 - ratio), for its visible keys.
void delta_attention_factors(const delta_attention_launch_t *launch, const delta_attention_block_t *block, int64_t i, float *factors);
// Turns a row of scores into probabilities and returns the logarithm of the sum of their exponentials; plus infinity for a hidden row that counts as 0.
float delta_attention_normalise(const delta_attention_launch_t *launch, float *row, int64_t keys);

#endif // DELTA_RUNTIME_CPU_ATTENTION_H_
