// Launches of kernels: what is checked before one is put into a stream.
#include <emulated_launch.h>
#include <stdlib.h>

#include "tests/cuda/emulation/calls.h"
#include "tests/cuda/emulation/memory.h"
#include "tests/cuda/emulation/stream.h"

enum { MOST_BLOCK_THREADS = 1024, MOST_SHARED_BYTES = 227 << 10, MOST_GRID_HEIGHT = 65535 };

static void run_launch(void *self, delta_emulated_team_t *team) { delta_emulated_team_run(team, self); }

static void destroy_launch(void *self) {
  delta_emulated_launch_t *launch = self;
  launch->destroy(launch->self);
  free(launch);
}

static cudaError_t check_launch(const delta_emulated_launch_t *launch) {
  const uint64_t threads = (uint64_t)launch->block.x * launch->block.y * launch->block.z,
                 blocks = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z;
  if (threads == 0 || threads > MOST_BLOCK_THREADS || launch->block.z > 64 || blocks == 0 || launch->grid.x > INT32_MAX ||
      launch->grid.y > MOST_GRID_HEIGHT || launch->grid.z > MOST_GRID_HEIGHT || launch->shared_bytes > MOST_SHARED_BYTES) {
    delta_emulated_report("kernel %s: no GPU has a grid of (%u, %u, %u) blocks of (%u, %u, %u) threads with %zu shared bytes", launch->name,
                          launch->grid.x, launch->grid.y, launch->grid.z, launch->block.x, launch->block.y, launch->block.z,
                          launch->shared_bytes);
    return cudaErrorInvalidConfiguration;
  }
  for (int k = 0; k < launch->pointer_count; ++k) {
    if (launch->pointers[k] && !delta_emulated_is_reachable(launch->name, "an argument", launch->pointers[k], 1)) {
      return cudaErrorIllegalAddress;
    }
  }
  return cudaSuccess;
}

static cudaError_t put_launch(const delta_emulated_launch_t *launch, cudaStream_t stream) {
  static delta_emulated_entry_t entry = {.name = "cudaLaunchKernel"};
  cudaError_t error = delta_emulated_enter(&entry) ? cudaErrorLaunchOutOfResources : delta_emulated_fault();
  if (!error) error = check_launch(launch);
  delta_emulated_launch_t *self = error ? NULL : malloc(sizeof *self);
  if (!self) {
    launch->destroy(launch->self);
    return error ? error : cudaErrorMemoryAllocation;
  }
  *self = *launch;
  const delta_emulated_operation_t operation = {.name = launch->name,
                                                .self = self,
                                                .run = run_launch,
                                                .destroy = destroy_launch,
                                                .delay_seconds = delta_emulated_settings()->launch_delay_seconds};
  return delta_emulated_put(stream, &operation);
}

cudaError_t delta_emulated_launch(const delta_emulated_launch_t *launch, cudaStream_t stream) {
  return delta_emulated_error(put_launch(launch, stream));
}

unsigned delta_emulated_most_blocks(void) { return delta_emulated_settings()->most_blocks; }

// Shared memory is what the launch asks for.
cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  (void)function;
  const bool is_known =
      attribute == cudaFuncAttributeMaxDynamicSharedMemorySize || attribute == cudaFuncAttributePreferredSharedMemoryCarveout;
  return is_known && value <= MOST_SHARED_BYTES ? cudaSuccess : delta_emulated_error(cudaErrorInvalidValue);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int block_threads, size_t shared_bytes) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  (void)function, (void)shared_bytes;
  if (block_threads < 1) return delta_emulated_error(cudaErrorInvalidValue);
  *blocks = 2048 / block_threads;
  return cudaSuccess;
}
