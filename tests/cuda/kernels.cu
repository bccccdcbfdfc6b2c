#include "tests/cuda/kernels.h"

#include "runtime/cuda/launch.h"

enum { SUM_THREADS = 256, REVERSE_THREADS = 64 };

static __global__ void __launch_bounds__(256) axpy(float a, const float *__restrict__ x, float *__restrict__ y, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = a * __ldg(&x[i]) + y[i];
}

template <int THREADS>
static __global__ void block_sums(const float *x, float *sums) {
  __shared__ float parts[THREADS];
  const int t = threadIdx.x;
  parts[t] = x[blockIdx.x * THREADS + t];
  __syncthreads();
  for (int half = THREADS / 2; half > 0; half /= 2) {
    if (t < half) parts[t] += parts[t + half];
    __syncthreads();
  }
  if (t == 0) sums[blockIdx.x] = parts[0];
}

static __device__ float warp_sum(float value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffffu, value, distance);
  return value;
}

static __global__ void warp_sums(const float *x, float *sums) {
  DELTA_CUDA_DYNAMIC_SHARED(float, parts);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float sum = warp_sum(x[blockIdx.x * blockDim.x + threadIdx.x]);
  if (lane == 0) parts[warp] = sum;
  __syncthreads();
  if (warp == 0) {
    const float total = warp_sum(lane < (int)blockDim.x / 32 ? parts[lane] : 0.0f);
    if (lane == 0) sums[blockIdx.x] = total;
  }
}

static __global__ void reverse(const float *x, float *y) {
  __shared__ float tile[REVERSE_THREADS];
  const int t = threadIdx.x, first = blockIdx.x * REVERSE_THREADS;
  tile[t] = x[first + t];
  __syncthreads();
  y[first + t] = tile[REVERSE_THREADS - 1 - t];
}

static __global__ void histogram(const int *values, int *counts, int count) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) atomicAdd(&counts[values[i]], 1);
}

static __global__ void all_write(float *y) { y[0] = (float)(blockIdx.x * blockDim.x + threadIdx.x); }

static __global__ void missing_thread(float *y) {
  if (threadIdx.x > 0) __syncthreads();
  if (threadIdx.x == 0) __syncwarp(3);
  y[threadIdx.x] = 1;
}

static __global__ void missing_lane(float *y) {
  if (threadIdx.x == 5) return;
  y[threadIdx.x] = __shfl_sync(0xffffffffu, 1.0f, 0);
}

static __global__ void write_at(float *y, long long at) { y[at] = 1; }

cudaError_t delta_test_axpy(float a, const float *x, float *y, int count, cudaStream_t stream) {
  DELTA_CUDA_LAUNCH_FREE(axpy, (count + 255) / 256, 256, 0, stream, a, x, y, count);
  return cudaGetLastError();
}

cudaError_t delta_test_block_sums(const float *x, float *sums, int blocks, cudaStream_t stream) {
  DELTA_CUDA_LAUNCH(block_sums<SUM_THREADS>, blocks, SUM_THREADS, 0, stream, x, sums);
  return cudaGetLastError();
}

cudaError_t delta_test_warp_sums(const float *x, float *sums, int blocks, cudaStream_t stream) {
  DELTA_CUDA_LAUNCH(warp_sums, blocks, SUM_THREADS, SUM_THREADS / 32 * sizeof(float), stream, x, sums);
  return cudaGetLastError();
}

cudaError_t delta_test_reverse(const float *x, float *y, int blocks, cudaStream_t stream) {
  DELTA_CUDA_LAUNCH(reverse, blocks, REVERSE_THREADS, 0, stream, x, y);
  return cudaGetLastError();
}

cudaError_t delta_test_histogram(const int *values, int *counts, int count, cudaStream_t stream) {
  DELTA_CUDA_LAUNCH_FREE(histogram, (count + 255) / 256, 256, 0, stream, values, counts, count);
  return cudaGetLastError();
}

cudaError_t delta_test_all_write(float *y, int blocks, cudaStream_t stream) {
  DELTA_CUDA_LAUNCH(all_write, blocks, 32, 0, stream, y);
  return cudaGetLastError();
}

cudaError_t delta_test_missing_thread(float *y, cudaStream_t stream) {
  DELTA_CUDA_LAUNCH(missing_thread, 1, 32, 0, stream, y);
  return cudaGetLastError();
}

cudaError_t delta_test_missing_lane(float *y, cudaStream_t stream) {
  DELTA_CUDA_LAUNCH(missing_lane, 1, 32, 0, stream, y);
  return cudaGetLastError();
}

cudaError_t delta_test_write_at(float *y, long long at, cudaStream_t stream) {
  DELTA_CUDA_LAUNCH_FREE(write_at, 1, 1, 0, stream, y, at);
  return cudaGetLastError();
}
