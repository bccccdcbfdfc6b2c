// Launch of a general matrix product: any type, any strides, any sizes; what MATMUL runs when the library does not take it.
#ifndef DELTA_RUNTIME_CUDA_PRODUCT_H_
#define DELTA_RUNTIME_CUDA_PRODUCT_H_

#include <cuda_runtime_api.h>

#include "base/dtype.h"
#include "runtime/cuda/index.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DELTA_CUDA_BATCH_RANK = 8 };

// y = a b, to which c and, for each column, a bias are added where they are not NULL. Element (i, j) of an operand's matrix is at i * row + j * column elements from its beginning; y and c are dense.
typedef struct delta_cuda_product {
  delta_dtype_t dtype;
  int64_t rows, depth, columns;
  int64_t a_row, a_column, b_row, b_column;
  // Batches, as the linear number of a box; strides are 0 where an operand repeats.
  uint64_t batches;
  int32_t batch_rank;
  delta_divisor_t batch_dims[DELTA_CUDA_BATCH_RANK];
  int64_t a_batch[DELTA_CUDA_BATCH_RANK], b_batch[DELTA_CUDA_BATCH_RANK];
} delta_cuda_product_t;

cudaError_t delta_cuda_product_launch(const delta_cuda_product_t *self, const void *a, const void *b, const void *c, const void *bias,
                                      void *y, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif // DELTA_RUNTIME_CUDA_PRODUCT_H_
