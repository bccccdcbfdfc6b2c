// CPU driver: identity of the machine and the table of functions. A launch runs on the calling thread and its OpenMP team before it returns, so the device has no
// queues of its own and its events are reached when they are signalled; copies have threads of the runtime (lanes.h).
#include "runtime/cpu/device.h"

#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <dnnl.h>

#include "runtime/cpu/arena.h"
#include "runtime/cpu/instruction_set.h"
#include "runtime/cpu/kernel.h"

static void cpu_destroy(delta_device_t *device) { delta_release(device->allocator, device); }

static delta_status_t cpu_synchronize(delta_device_t *device) {
  (void)device;
  return DELTA_OK;
}

static delta_status_t cpu_copy(delta_device_t *device, void *destination, const void *source, size_t size_bytes) {
  (void)device;
  if (size_bytes) memcpy(destination, source, size_bytes);
  return DELTA_OK;
}

static const delta_device_driver_t cpu_driver = {
    .destroy = cpu_destroy,
    .free_bytes = delta_cpu_free_bytes,
    .arena_reserve = delta_cpu_arena_reserve,
    .arena_commit = delta_cpu_arena_commit,
    .arena_destroy = delta_cpu_arena_destroy,
    .arena_address = delta_cpu_arena_address,
    .arena_committed = delta_cpu_arena_committed,
    .tier_create = delta_cpu_tier_create,
    .kernel_query = delta_cpu_kernel_query,
    .kernel_prepare = delta_cpu_kernel_prepare,
    .kernel_destroy = delta_kernel_free,
    .launch = delta_cpu_launch,
    .synchronize = cpu_synchronize,
    .write = cpu_copy,
    .read = cpu_copy,
};

// Rough speeds of one core, used until the device has been profiled: they order choices by size, and are never shown as measurements.
static const delta_roofline_t assumed_roofline = {.flops_per_second = 4e10,
                                                  .memory_bytes_per_second = 6e9,
                                                  .conv_efficiency = 1,
                                                  .point_conv_efficiency = 1,
                                                  .matmul_efficiency = 1,
                                                  .memory_efficiency = 1,
                                                  .plain_conv_slowdown = 2,
                                                  .launch_seconds = 1e-6};
// Cache lines need 64; what most disks ask of memory that they read and write themselves is this.
enum { ALIGNMENT_BYTES = 512 };
// Of a disk.
static const double assumed_offload_bytes_per_second = 1.2e9, assumed_prefetch_bytes_per_second = 1.5e9;

int32_t delta_cpu_usable_processors(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  int count = CPU_COUNT(&set);
  return count > 0 ? count : 1;
}

delta_status_t delta_cpu_device_open(const delta_device_options_t *options, delta_allocator_t allocator, delta_device_t **out_device) {
  *out_device = NULL;
  enum { MOST_THREADS = 1024 };
  if (options->threads < 0 || options->threads > MOST_THREADS) {
    return delta_status_make(INVALID_ARGUMENT, "%d threads: give a number from 1 to %d, or 0 for all processors", options->threads,
                             MOST_THREADS);
  }
  if (options->math == DELTA_FLOAT_MATH_TF32)
    return delta_status_make(INVALID_ARGUMENT, "--math tf32: a CPU has no TF32; leave --math out");
  delta_cpu_device_t *device = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &device));
  device->base.driver = &cpu_driver;
  device->base.name = "cpu";
  device->base.allocator = allocator;
  device->base.log = options->log;
  device->base.threads = options->threads ? options->threads : delta_cpu_usable_processors();
  device->base.math = DELTA_FLOAT_MATH_FLOAT32;
  device->base.host_addressable = device->base.reads_virtual = true;
  device->base.granule_bytes = DELTA_CPU_GRANULE_BYTES;
  device->base.alignment_bytes = ALIGNMENT_BYTES;
  device->base.roofline = assumed_roofline;
  device->base.roofline.flops_per_second *= device->base.threads;
  device->base.offload_bytes_per_second = assumed_offload_bytes_per_second;
  device->base.prefetch_bytes_per_second = assumed_prefetch_bytes_per_second;
  device->reference_kernels = options->reference_kernels;
  const dnnl_version_t *version = dnnl_version();
  snprintf(device->base.instruction_set, sizeof device->base.instruction_set, "%s", delta_cpu_instruction_set_name());
  snprintf(device->base.libraries, sizeof device->base.libraries, "onednn %d.%d.%d, kernels %d", version->major, version->minor,
           version->patch, DELTA_CPU_KERNELS_REVISION);
  *out_device = &device->base;
  return DELTA_OK;
}
