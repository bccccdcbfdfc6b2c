// Launch: one call of a kernel as the emulation keeps it, in a stream's queue or in a graph that replays it.
#ifndef DELTA_TESTS_CUDA_EMULATED_LAUNCH_H_
#define DELTA_TESTS_CUDA_EMULATED_LAUNCH_H_

#include "cuda_runtime_api.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DELTA_EMULATED_MOST_POINTERS = 32 };

typedef struct delta_emulated_launch {
  const char *name; // Borrowed; of the kernel
  int is_free;      // of barriers, exchanges and shared memory: its threads are turns of a loop
  dim3 grid, block;
  size_t shared_bytes;
  void *self; // Owned; kernel and arguments
  void (*run_thread)(const void *self);
  void (*run_block)(const void *self); // all threads of a block of a kernel that is free
  void (*destroy)(void *self);
  // Arguments that are pointers: each must be device or pinned memory, or NULL.
  const void *pointers[DELTA_EMULATED_MOST_POINTERS];
  int pointer_count;
} delta_emulated_launch_t;

// Enqueues the launch; `self` is taken over, whatever comes of it. Errors are also those of cudaGetLastError.
cudaError_t delta_emulated_launch(const delta_emulated_launch_t *launch, cudaStream_t stream);

// Blocks of a launch whose kernel goes on in strides of the grid.
unsigned delta_emulated_most_blocks(void);

#ifdef __cplusplus
}
#endif

#endif // DELTA_TESTS_CUDA_EMULATED_LAUNCH_H_
