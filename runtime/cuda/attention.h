// Launches of attention and its gradient, in memory that grows with the sequence and not with its square.
#ifndef DELTA_RUNTIME_CUDA_ATTENTION_H_
#define DELTA_RUNTIME_CUDA_ATTENTION_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "base/dtype.h"
#include "runtime/cuda/index.h"
#include "runtime/cuda/random.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DELTA_CUDA_ATTENTION_RANK = 8 };

// Dimensions over which matrices are counted: how far apart in the matrices' number, and in the mask, neighbours lie.
typedef struct delta_cuda_mask_dims {
  int32_t rank;
  uint64_t count;
  delta_divisor_t dims[DELTA_CUDA_ATTENTION_RANK];
  int64_t matrix_strides[DELTA_CUDA_ATTENTION_RANK], mask_strides[DELTA_CUDA_ATTENTION_RANK];
} delta_cuda_mask_dims_t;

// `matrices` products of queries and keys, whose rows are `heads` times their width apart (onnx/graph/attention_dims.h).
typedef struct delta_cuda_attention {
  delta_dtype_t dtype; // of all tensors but seed and draw: a float type
  int64_t matrices, heads, queries, keys, size, value_size;
  double scale;
  bool hidden_rows_zero;
  // A mask's element (i, j) is row * i + column * j behind its matrix's beginning, 0 where it repeats; matrices are counted in `all`. Of the same
  // dimensions, `kept` are those in which the mask is as large, and `repeated` those in which it is not.
  int64_t mask_row, mask_column, mask_count;
  delta_cuda_mask_dims_t all, kept, repeated;
  // Of dropout: what is not below the threshold (24 bits) is kept, and multiplied by `kept_factor`.
  uint32_t threshold;
  double kept_factor;
  uint64_t first;
} delta_cuda_attention_t;

// Inputs as of ATTENTION; mask may be NULL, source->seed NULL is no dropout, log_sums may be NULL.
cudaError_t delta_cuda_attention_launch(const delta_cuda_attention_t *self, const delta_cuda_stream_t *source, const void *query,
                                        const void *key, const void *value, const void *mask, void *y, void *log_sums, cudaStream_t stream);

typedef struct delta_cuda_attention_gradient {
  const void *dy, *y, *log_sums, *query, *key, *value, *mask; // mask may be NULL
  void *dquery, *dkey, *dvalue, *dmask;                       // dmask may be NULL
  void *workspace;
} delta_cuda_attention_gradient_t;
// Bytes of the workspace; `of_mask`: with a gradient of the mask.
size_t delta_cuda_attention_grad_workspace(const delta_cuda_attention_t *self, bool of_mask);
cudaError_t delta_cuda_attention_grad_launch(const delta_cuda_attention_t *self, const delta_cuda_stream_t *source,
                                             const delta_cuda_attention_gradient_t *buffers, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif // DELTA_RUNTIME_CUDA_ATTENTION_H_
