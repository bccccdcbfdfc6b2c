// Opening a GPU, and the table of functions. The context is the runtime's primary one; its device is the thread's current one from opening on.
#include "runtime/cuda/device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cuda/arena.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/queues.h"

static void cuda_destroy(delta_device_t *base) {
  delta_cuda_device_t *device = delta_cuda_device(base);
  // What fails here is a device that has failed before, which was told of then.
  delta_status_free(delta_cuda_use(device));
  delta_cuda_sources_destroy(device->sources);
  if (device->cudnn) delta_status_free(DELTA_CUDNN_CHECK(cudnnDestroy(device->cudnn)));
  if (device->cublas) delta_status_free(DELTA_CUBLAS_CHECK(cublasLtDestroy(device->cublas)));
  delta_cuda_queues_close(device);
  delta_release(base->allocator, device);
}

// ---- Host access: in the stream of compute, and waited for, since streams that do not block have no order with calls that copy at once.

delta_status_t delta_cuda_use(const delta_cuda_device_t *device) { return DELTA_CUDA_CHECK(cudaSetDevice(device->ordinal)); }

static delta_status_t copy_now(delta_device_t *base, void *to, const void *from, size_t size_bytes, enum cudaMemcpyKind kind) {
  const cudaStream_t stream = delta_cuda_device(base)->streams[DELTA_LANE_COMPUTE];
  if (size_bytes == 0) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_cuda_use(delta_cuda_device(base)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaMemcpyAsync(to, from, size_bytes, kind, stream)));
  return DELTA_CUDA_CHECK(cudaStreamSynchronize(stream));
}

static delta_status_t cuda_write(delta_device_t *device, void *destination, const void *source, size_t size_bytes) {
  return copy_now(device, destination, source, size_bytes, cudaMemcpyHostToDevice);
}

static delta_status_t cuda_read(delta_device_t *device, void *destination, const void *source, size_t size_bytes) {
  return copy_now(device, destination, source, size_bytes, cudaMemcpyDeviceToHost);
}

static const delta_device_driver_t cuda_driver = {
    .destroy = cuda_destroy,
    .free_bytes = delta_cuda_free_bytes,
    .arena_reserve = delta_cuda_arena_reserve,
    .arena_commit = delta_cuda_arena_commit,
    .arena_destroy = delta_cuda_arena_destroy,
    .arena_address = delta_cuda_arena_address,
    .arena_committed = delta_cuda_arena_committed,
    .tier_create = delta_cuda_tier_create,
    .kernel_query = delta_cuda_kernel_query,
    .kernel_prepare = delta_cuda_kernel_prepare,
    .kernel_destroy = delta_kernel_free,
    .launch = delta_cuda_launch,
    .synchronize = delta_cuda_synchronize,
    .queues_reserve = delta_cuda_queues_reserve,
    .signal = delta_cuda_signal,
    .wait = delta_cuda_wait,
    .mark = delta_cuda_mark,
    .elapsed = delta_cuda_elapsed,
    .fill = delta_cuda_fill,
    .record_begin = delta_cuda_record_begin,
    .record_end = delta_cuda_record_end,
    .replay = delta_cuda_replay,
    .recording_destroy = delta_cuda_recording_destroy,
    .write = cuda_write,
    .read = cuda_read,
};

// ---- Opening

// Which part is missing, in front of CUDA's words, which call a driver that is not there an old one.
static delta_status_t explain_none(delta_status_t status) {
  enum { MINOR = 10, MAJOR = 1000 };
  char driver[64] = "";
  int version = 0;
  if (cudaDriverGetVersion(&version) == cudaSuccess && version == 0)
    snprintf(driver, sizeof driver, "NVIDIA's driver is not installed; ");
  else if (version > 0 && version < CUDART_VERSION)
    snprintf(driver, sizeof driver, "NVIDIA's driver is of CUDA %d.%d; ", version / MAJOR, version % MAJOR / MINOR);
  const delta_status_t told = delta_status_make(NOT_FOUND, "no GPU can be used: %s%s", driver, delta_status_message(status));
  delta_status_free(status);
  return told;
}

delta_status_t delta_cuda_device_count(uint32_t *out_count) {
  int count = 0;
  *out_count = 0;
  const delta_status_t status = DELTA_CUDA_CHECK(cudaGetDeviceCount(&count));
  if (status) return explain_none(status);
  if (count <= 0) return delta_status_make(NOT_FOUND, "no GPU can be used: CUDA's driver is there and finds none");
  *out_count = (uint32_t)count;
  return DELTA_OK;
}

static delta_status_t check_request(uint32_t ordinal, const delta_device_options_t *options) {
  uint32_t count;
  DELTA_RETURN_IF_ERROR(delta_cuda_device_count(&count));
  if (ordinal >= count)
    return delta_status_make(NOT_FOUND, "there %s %u GPU%s, and numbers begin with 0", count == 1 ? "is" : "are", count,
                             count == 1 ? "" : "s");
  if (options->threads < 0 || options->threads > 1)
    return delta_status_make(INVALID_ARGUMENT, "--threads %d: a GPU computes without threads of the host; leave --threads out",
                             options->threads);
  return DELTA_OK;
}

// Rough speeds of one multiprocessor and of a memory, used until the device has been profiled: they order choices by size, and are never shown as measurements.
static const delta_roofline_t assumed_roofline = {.flops_per_second = 1.5e11,
                                                  .memory_bytes_per_second = 1e12,
                                                  .conv_efficiency = 0.5,
                                                  .point_conv_efficiency = 0.5,
                                                  .matmul_efficiency = 0.7,
                                                  .memory_efficiency = 0.8,
                                                  .plain_conv_slowdown = 1,
                                                  .launch_seconds = 3e-6};
// Of PCI Express of the fourth generation.
static const double assumed_bytes_per_second = 2e10;

// Versions are numbers of two or more digits for each part.
static void name_libraries(delta_device_t *base, unsigned runtime) {
  enum { PART = 100, MOST = 1000 };
  const unsigned cudnn = (unsigned)cudnnGetVersion(), cublas = (unsigned)cublasLtGetVersion();
  snprintf(base->libraries, sizeof base->libraries, "cudart %u.%u, cudnn %u.%u.%u, cublas %u.%u.%u, kernels %u", runtime / 1000 % MOST,
           runtime % 1000 / 10, cudnn / PART / PART % MOST, cudnn / PART % PART, cudnn % PART, cublas / PART / PART % MOST,
           cublas / PART % PART, cublas % PART, (unsigned)DELTA_CUDA_KERNELS_REVISION % MOST);
}

static delta_status_t read_properties(delta_cuda_device_t *device) {
  const int ordinal = device->ordinal;
  int has_virtual_memory = 0, version = 0;
  CUdevice handle;
  delta_device_t *base = &device->base;
  DELTA_RETURN_IF_ERROR(delta_cuda_use(device));
  DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaDeviceGetAttribute(&device->capability_major, cudaDevAttrComputeCapabilityMajor, ordinal)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaDeviceGetAttribute(&device->capability_minor, cudaDevAttrComputeCapabilityMinor, ordinal)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaDeviceGetAttribute(&device->multiprocessor_count, cudaDevAttrMultiProcessorCount, ordinal)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaRuntimeGetVersion(&version)));
  DELTA_RETURN_IF_ERROR(DELTA_CU_CHECK(cuDeviceGet(&handle, ordinal)));
  DELTA_RETURN_IF_ERROR(DELTA_CU_CHECK(cuDeviceGetName(base->processor, (int)sizeof base->processor, handle)));
  DELTA_RETURN_IF_ERROR(
      DELTA_CU_CHECK(cuDeviceGetAttribute(&has_virtual_memory, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, handle)));
  device->has_virtual_memory = has_virtual_memory != 0;
  base->granule_bytes = DELTA_CUDA_GRANULE_BYTES;
  if (device->has_virtual_memory) DELTA_RETURN_IF_ERROR(delta_cuda_granule_bytes(ordinal, &base->granule_bytes));
  name_libraries(base, (unsigned)version);
  // By how many multiprocessors there are, libraries choose how products are cut, and so how sums are grouped.
  snprintf(base->instruction_set, sizeof base->instruction_set, "sm_%d%d-%d", device->capability_major, device->capability_minor,
           device->multiprocessor_count);
  return DELTA_OK;
}

// TF32 is a kind of tensor cores', which CUDA's own variable turns off for a whole process, whatever a program asks for.
static delta_status_t choose_math(delta_cuda_device_t *device, delta_float_math_t asked) {
  enum { FIRST_WITH_TF32 = 8 };
  const char *override = getenv("NVIDIA_TF32_OVERRIDE");
  device->base.math = asked == DELTA_FLOAT_MATH_TF32 ? asked : DELTA_FLOAT_MATH_FLOAT32;
  if (asked != DELTA_FLOAT_MATH_TF32) return DELTA_OK;
  if (device->capability_major < FIRST_WITH_TF32)
    return delta_status_make(UNSUPPORTED, "--math tf32: the GPU is sm_%d%d, and sm_80 is the first with TF32; leave --math out",
                             device->capability_major, device->capability_minor);
  if (override && strcmp(override, "0") == 0)
    return delta_status_make(UNSUPPORTED,
                             "--math tf32: NVIDIA_TF32_OVERRIDE=0 in the environment turns TF32 off: unset it, or leave --math out");
  return DELTA_OK;
}

static void describe(delta_cuda_device_t *device, const delta_device_options_t *options) {
  delta_device_t *base = &device->base;
  base->log = options->log;
  base->threads = 1;
  base->has_queues = true;
  base->alignment_bytes = 256;
  base->reserve_bytes = DELTA_CUDA_RESERVE_BYTES;
  base->roofline = assumed_roofline;
  base->roofline.flops_per_second *= device->multiprocessor_count;
  base->offload_bytes_per_second = base->prefetch_bytes_per_second = assumed_bytes_per_second;
}

static delta_status_t open_libraries(delta_cuda_device_t *device) {
  DELTA_RETURN_IF_ERROR(DELTA_CUDNN_CHECK(cudnnCreate(&device->cudnn)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDNN_CHECK(cudnnSetStream(device->cudnn, device->streams[DELTA_LANE_COMPUTE])));
  return DELTA_CUBLAS_CHECK(cublasLtCreate(&device->cublas));
}

delta_status_t delta_cuda_device_open(uint32_t ordinal, const delta_device_options_t *options, delta_allocator_t allocator,
                                      delta_device_t **out_device) {
  *out_device = NULL;
  delta_cuda_device_t *device = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(check_request(ordinal, options));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &device));
  device->base.driver = &cuda_driver;
  device->base.allocator = allocator;
  device->base.name = device->name;
  device->ordinal = (int)ordinal;
  device->reference_kernels = options->reference_kernels;
  snprintf(device->name, sizeof device->name, "cuda:%u", ordinal);
  DELTA_GOTO_IF_ERROR(status, read_properties(device), cleanup);
  DELTA_GOTO_IF_ERROR(status, choose_math(device, options->math), cleanup);
  describe(device, options);
  DELTA_GOTO_IF_ERROR(status, delta_cuda_queues_open(device), cleanup);
  DELTA_GOTO_IF_ERROR(status, open_libraries(device), cleanup);
  *out_device = &device->base;
  device = NULL;
cleanup:
  if (device) cuda_destroy(&device->base);
  return status;
}
