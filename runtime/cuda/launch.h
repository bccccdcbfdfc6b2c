// Launch: how .cu files call kernels and name their dynamic shared memory, in a form that compilers without CUDA understand too. Errors are those of
// cudaGetLastError().
#ifndef DELTA_RUNTIME_CUDA_LAUNCH_H_
#define DELTA_RUNTIME_CUDA_LAUNCH_H_

#include <cuda_runtime.h>

// DELTA_CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments...). A kernel whose name has commas stands in parentheses. ..._FREE is for kernels
// without barriers, exchanges between lanes and shared memory, which is all the same to a GPU.
#ifdef __CUDACC__
#define DELTA_CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, ...)      kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)
#define DELTA_CUDA_LAUNCH_FREE(kernel, grid, block, shared_bytes, stream, ...) kernel<<<grid, block, shared_bytes, stream>>>(__VA_ARGS__)
#else
#define DELTA_CUDA_LAUNCH(kernel, grid, block, shared_bytes, stream, ...) \
  delta_emulated_call_kernel(#kernel, 0, kernel, grid, block, shared_bytes, stream, __VA_ARGS__)
#define DELTA_CUDA_LAUNCH_FREE(kernel, grid, block, shared_bytes, stream, ...) \
  delta_emulated_call_kernel(#kernel, 1, kernel, grid, block, shared_bytes, stream, __VA_ARGS__)
#endif

// DELTA_CUDA_MOST_BLOCKS: of a launch whose kernel goes on in strides of the grid. The emulation may have fewer, so that small cases go round.
#ifdef __CUDACC__
#define DELTA_CUDA_MOST_BLOCKS (1u << 20)
#else
#define DELTA_CUDA_MOST_BLOCKS delta_emulated_most_blocks()
#endif

// DELTA_CUDA_DYNAMIC_SHARED(type, name): declares `name`, a pointer to the block's dynamic shared memory.
#ifdef __CUDACC__
extern __shared__ __align__(16) unsigned char delta_cuda_dynamic_shared[];
#define DELTA_CUDA_DYNAMIC_SHARED(type, name) type *name = reinterpret_cast<type *>(delta_cuda_dynamic_shared)
#else
#define DELTA_CUDA_DYNAMIC_SHARED(type, name) type *name = static_cast<type *>(delta_emulated_dynamic_shared())
#endif

#endif // DELTA_RUNTIME_CUDA_LAUNCH_H_
