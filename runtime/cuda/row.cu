// Row: a block a strip.
#include "runtime/cuda/row.h"

#include "runtime/cuda/grid.h"

static const unsigned TILE_WORDS = 8192;

static __global__ void row_kernel(delta_cuda_row_t row, unsigned strip_words, uint32_t *words) {
  __shared__ uint32_t tile[TILE_WORDS];
  const uint64_t first = (uint64_t)blockIdx.x * strip_words, left = row.unit_words - first;
  const unsigned width = left < strip_words ? (unsigned)left : strip_words, count = row.units * width;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) tile[i] = words[i / width * row.unit_words + first + i % width];
  __syncthreads();
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x)
    words[i / width * row.unit_words + first + i % width] = tile[row.sources[i / width] * width + i % width];
}

cudaError_t delta_cuda_row_launch(const delta_cuda_row_t *self, void *bytes, cudaStream_t stream) {
  const unsigned strip_words = TILE_WORDS / self->units;
  const uint64_t blocks = (self->unit_words + strip_words - 1) / strip_words;
  if (self->units > DELTA_CUDA_ROW_UNITS || blocks > INT32_MAX) return cudaErrorInvalidValue;
  DELTA_CUDA_LAUNCH(row_kernel, (unsigned)blocks, DELTA_BLOCK_THREADS, 0, stream, *self, strip_words, (uint32_t *)bytes);
  return cudaGetLastError();
}
