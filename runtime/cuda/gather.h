// Launches of operators that reach elements by index tensors: gather and scatter in their forms.
//
// A negative index counts from the end. One that is outside leads nowhere: gathered are zeros, scattered is nothing; programs check indices before the step.
#ifndef DELTA_RUNTIME_CUDA_GATHER_H_
#define DELTA_RUNTIME_CUDA_GATHER_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "base/dtype.h"
#include "runtime/cuda/index.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DELTA_CUDA_GATHER_RANK = 8 };

// GATHER: y[outer, i, inner] = x[outer, indices[i], inner], and its gradient, where equal indices add up in their order.
typedef struct delta_cuda_gather {
  delta_dtype_t dtype;
  delta_dtype_t indices;             // int32 or int64
  int64_t outer, size, inner, count; // `count` indices into a dimension of `size`
} delta_cuda_gather_t;
cudaError_t delta_cuda_gather_launch(const delta_cuda_gather_t *self, int32_t element_bytes, const void *x, const void *indices, void *y,
                                     cudaStream_t stream);
cudaError_t delta_cuda_gather_grad_launch(const delta_cuda_gather_t *self, const void *indices, const void *dy, void *dx,
                                          cudaStream_t stream);

// The kinds of scatter, in the order of delta_scatter_kind_t.
typedef enum delta_cuda_scatter_kind {
  DELTA_CUDA_SCATTER_NONE,
  DELTA_CUDA_SCATTER_ADD,
  DELTA_CUDA_SCATTER_MUL,
  DELTA_CUDA_SCATTER_MAX,
  DELTA_CUDA_SCATTER_MIN
} delta_cuda_scatter_kind_t;

// GATHER_ELEMENTS and SCATTER_ELEMENTS: an index for each element of a box, into one axis of the data.
typedef struct delta_cuda_elements {
  delta_dtype_t dtype;
  int32_t element_bytes;
  delta_dtype_t indices;
  delta_cuda_scatter_kind_t kind;
  int32_t rank, axis;
  uint64_t count, line_count;                   // elements of the indices; lines along the axis
  delta_divisor_t dims[DELTA_CUDA_GATHER_RANK]; // of the indices
  int64_t index_strides[DELTA_CUDA_GATHER_RANK], data_strides[DELTA_CUDA_GATHER_RANK];
  int64_t axis_size; // of the data
} delta_cuda_elements_t;
cudaError_t delta_cuda_gather_elements_launch(const delta_cuda_elements_t *self, const void *x, const void *indices, void *y,
                                              cudaStream_t stream);
// y holds the data.
cudaError_t delta_cuda_scatter_elements_launch(const delta_cuda_elements_t *self, const void *indices, const void *updates, void *y,
                                               cudaStream_t stream);

// GATHER_ND and SCATTER_ND: tuples of indices, each of which finds a slice of the data.
typedef struct delta_cuda_tuples {
  delta_dtype_t dtype;
  int32_t element_bytes;
  delta_dtype_t indices;
  delta_cuda_scatter_kind_t kind;
  uint64_t tuples;
  int64_t slice;                      // elements
  int32_t size;                       // indices in a tuple
  delta_divisor_t by_slice, by_batch; // by_batch: tuples of one batch
  int64_t batch_elements;             // of the data of one batch
  int64_t sizes[DELTA_CUDA_GATHER_RANK], strides[DELTA_CUDA_GATHER_RANK];
} delta_cuda_tuples_t;
cudaError_t delta_cuda_gather_nd_launch(const delta_cuda_tuples_t *self, const void *x, const void *indices, void *y, cudaStream_t stream);
// y holds the data; `places` has room for an int64 of each tuple.
cudaError_t delta_cuda_scatter_nd_launch(const delta_cuda_tuples_t *self, const void *indices, const void *updates, void *places, void *y,
                                         cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif // DELTA_RUNTIME_CUDA_GATHER_H_
