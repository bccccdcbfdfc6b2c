// Launches of what draws random numbers by counter: DROPOUT and RANDOM.
#ifndef DELTA_RUNTIME_CUDA_RANDOM_H_
#define DELTA_RUNTIME_CUDA_RANDOM_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

// A stream, its seed and draw being numbers on the device, int32 or int64.
typedef struct delta_cuda_stream {
  const void *seed, *draw;
  delta_dtype_t seed_dtype, draw_dtype;
  uint64_t stream;
} delta_cuda_stream_t;

typedef struct delta_cuda_dropout {
  delta_dtype_t dtype; // a float type
  uint64_t count;
  double ratio;
  uint64_t first; // position of the first element in the stream
} delta_cuda_dropout_t;
// y may be x; `mask` (bytes) may be NULL.
cudaError_t delta_cuda_dropout_launch(const delta_cuda_dropout_t *self, const delta_cuda_stream_t *source, const void *x, void *y,
                                      void *mask, cudaStream_t stream);

typedef struct delta_cuda_random {
  delta_dtype_t dtype;
  uint64_t count;
  bool normal;
  double low, high;
} delta_cuda_random_t;
cudaError_t delta_cuda_random_launch(const delta_cuda_random_t *self, const delta_cuda_stream_t *source, void *y, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif // DELTA_RUNTIME_CUDA_RANDOM_H_
