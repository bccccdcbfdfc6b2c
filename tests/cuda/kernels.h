// Kernels that test the emulation: small, and each with one thing that can be left out.
#ifndef DELTA_TESTS_CUDA_KERNELS_H_
#define DELTA_TESTS_CUDA_KERNELS_H_

#include <cuda_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

// y = a x + y over `count` elements; free of barriers.
cudaError_t delta_test_axpy(float a, const float *x, float *y, int count, cudaStream_t stream);
// sums[b] = the sum of elements b * 256 .. of x, through shared memory and five barriers in a loop.
cudaError_t delta_test_block_sums(const float *x, float *sums, int blocks, cudaStream_t stream);
// The same through exchanges between lanes and dynamic shared memory.
cudaError_t delta_test_warp_sums(const float *x, float *sums, int blocks, cudaStream_t stream);
// y[i] = x[count - 1 - i] within each block of 64, through shared memory with one barrier.
cudaError_t delta_test_reverse(const float *x, float *y, int blocks, cudaStream_t stream);
// counts[value] = how often a value below 32 occurs.
cudaError_t delta_test_histogram(const int *values, int *counts, int count, cudaStream_t stream);
// Wrong ones: every thread of all blocks writes y[0]; a thread does not come to a barrier; a lane does not come to an exchange; element `at` is written.
cudaError_t delta_test_all_write(float *y, int blocks, cudaStream_t stream);
cudaError_t delta_test_missing_thread(float *y, cudaStream_t stream);
cudaError_t delta_test_missing_lane(float *y, cudaStream_t stream);
cudaError_t delta_test_write_at(float *y, long long at, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif // DELTA_TESTS_CUDA_KERNELS_H_
