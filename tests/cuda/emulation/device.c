// The emulated GPU as others see it, and the names of errors.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "tests/cuda/emulation/calls.h"

enum { VERSION = 13000, CAPABILITY_MINOR = 0, SHARED_OPT_IN_BYTES = 227 << 10 };

// ---- Errors

// The numbers of the runtime's and the driver interface's errors are the same where both have one.
static const struct error_row {
  int number;
  const char *name, *text;
} errors[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration", "invalid configuration argument"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver", "the driver is older than the runtime"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA device is there"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidKernelImage, "cudaErrorInvalidKernelImage", "the image of the kernels is invalid"},
    {CUDA_ERROR_MAP_FAILED, "CUDA_ERROR_MAP_FAILED", "mapping failed"},
    {CUDA_ERROR_UNMAP_FAILED, "CUDA_ERROR_UNMAP_FAILED", "unmapping failed"},
    {CUDA_ERROR_OPERATING_SYSTEM, "CUDA_ERROR_OPERATING_SYSTEM", "a call of the system failed"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorSymbolNotFound, "cudaErrorSymbolNotFound", "named symbol not found"},
    {cudaErrorNotReady, "cudaErrorNotReady", "not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress", "an illegal memory access"},
    {cudaErrorLaunchOutOfResources, "cudaErrorLaunchOutOfResources", "too many resources requested for launch"},
    {cudaErrorHostMemoryAlreadyRegistered, "cudaErrorHostMemoryAlreadyRegistered", "the memory is registered already"},
    {cudaErrorHostMemoryNotRegistered, "cudaErrorHostMemoryNotRegistered", "the memory is not registered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "launch failure"},
    {cudaErrorNotSupported, "cudaErrorNotSupported", "not supported"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported", "not permitted while a stream is captured"},
    {cudaErrorStreamCaptureInvalidated, "cudaErrorStreamCaptureInvalidated", "the capture failed earlier"},
    {cudaErrorStreamCaptureMerge, "cudaErrorStreamCaptureMerge", "two captures would become one"},
    {cudaErrorStreamCaptureUnmatched, "cudaErrorStreamCaptureUnmatched", "the capture did not begin in this stream"},
    {cudaErrorStreamCaptureUnjoined, "cudaErrorStreamCaptureUnjoined", "a captured stream is not joined"},
    {cudaErrorStreamCaptureIsolation, "cudaErrorStreamCaptureIsolation", "what is captured depends on what is not"},
    {cudaErrorCapturedEvent, "cudaErrorCapturedEvent", "the event was last recorded in a capture"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
};

static const struct error_row *find_error(int number) {
  for (size_t k = 0; k < sizeof errors / sizeof *errors; ++k) {
    if (errors[k].number == number) return &errors[k];
  }
  return NULL;
}

const char *cudaGetErrorName(cudaError_t error) {
  const struct error_row *row = find_error((int)error);
  return row ? row->name : "unrecognized error code";
}

const char *cudaGetErrorString(cudaError_t error) {
  const struct error_row *row = find_error((int)error);
  return row ? row->text : "unrecognized error code";
}

CUresult cuGetErrorName(CUresult error, const char **name) {
  const struct error_row *row = find_error((int)error);
  *name = row ? row->name : NULL;
  return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGetErrorString(CUresult error, const char **text) {
  const struct error_row *row = find_error((int)error);
  *text = row ? row->text : NULL;
  return row ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// ---- The runtime's view

static cudaError_t check_device(int device) {
  const uint32_t count = delta_emulated_settings()->devices;
  if (count == 0) return delta_emulated_error(cudaErrorNoDevice);
  return device >= 0 && (uint32_t)device < count ? cudaSuccess : delta_emulated_error(cudaErrorInvalidDevice);
}

cudaError_t cudaDriverGetVersion(int *version) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  *version = delta_emulated_settings()->driver_version;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int *version) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  *version = VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorInitializationError);
  if (delta_emulated_settings()->driver_version < VERSION) return delta_emulated_error(cudaErrorInsufficientDriver);
  *count = (int)delta_emulated_settings()->devices;
  return *count ? cudaSuccess : delta_emulated_error(cudaErrorNoDevice);
}

// The one context, and whether it is the calling thread's current one.
static char context;
static _Thread_local bool has_context;

bool delta_emulated_has_context(void) { return has_context; }
void delta_emulated_take_context(void) { has_context = true; }

cudaError_t cudaSetDevice(int device) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorInitializationError);
  const cudaError_t error = check_device(device);
  has_context = has_context || !error;
  return error ? error : device == 0 ? cudaSuccess : delta_emulated_error(cudaErrorNotSupported);
}

cudaError_t cudaGetDevice(int *device) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorInitializationError);
  *device = 0;
  return check_device(0);
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorInitializationError);
  const cudaError_t error = check_device(device);
  if (error) return error;
  *properties = (struct cudaDeviceProp){.name = "Emulated GPU",
                                        .totalGlobalMem = (size_t)delta_emulated_settings()->device_bytes,
                                        .sharedMemPerBlock = 48 << 10,
                                        .regsPerBlock = 65536,
                                        .warpSize = 32,
                                        .maxThreadsPerBlock = 1024,
                                        .maxThreadsDim = {1024, 1024, 64},
                                        .maxGridSize = {2147483647, 65535, 65535},
                                        .totalConstMem = 64 << 10,
                                        .major = delta_emulated_settings()->capability_major,
                                        .minor = CAPABILITY_MINOR,
                                        .multiProcessorCount = (int)delta_emulated_settings()->processors,
                                        .canMapHostMemory = 1,
                                        .concurrentKernels = 1,
                                        .pciBusID = device + 1,
                                        .asyncEngineCount = 2,
                                        .unifiedAddressing = 1,
                                        .memoryBusWidth = 512,
                                        .l2CacheSize = 1 << 20,
                                        .maxThreadsPerMultiProcessor = 2048,
                                        .streamPrioritiesSupported = 1,
                                        .sharedMemPerMultiprocessor = 228 << 10,
                                        .regsPerMultiprocessor = 65536,
                                        .sharedMemPerBlockOptin = SHARED_OPT_IN_BYTES,
                                        .maxBlocksPerMultiProcessor = 32};
  return cudaSuccess;
}

static const struct attribute_row {
  int number; // the runtime's and the driver interface's are the same
  int value;
} attributes[] = {
    {cudaDevAttrMaxThreadsPerBlock, 1024},
    {cudaDevAttrMaxGridDimX, 2147483647},
    {cudaDevAttrMaxGridDimY, 65535},
    {cudaDevAttrMaxGridDimZ, 65535},
    {cudaDevAttrMaxSharedMemoryPerBlock, 48 << 10},
    {cudaDevAttrWarpSize, 32},
    {cudaDevAttrMaxRegistersPerBlock, 65536},
    {cudaDevAttrClockRate, 1000000},
    {cudaDevAttrIntegrated, 0},
    {cudaDevAttrConcurrentKernels, 1},
    {cudaDevAttrMemoryClockRate, 1000000},
    {cudaDevAttrGlobalMemoryBusWidth, 512},
    {cudaDevAttrL2CacheSize, 1 << 20},
    {cudaDevAttrMaxThreadsPerMultiProcessor, 2048},
    {cudaDevAttrAsyncEngineCount, 2},
    {cudaDevAttrUnifiedAddressing, 1},
    {cudaDevAttrComputeCapabilityMinor, CAPABILITY_MINOR},
    {cudaDevAttrMaxSharedMemoryPerBlockOptin, SHARED_OPT_IN_BYTES},
};

static bool find_attribute(int number, int *out_value) {
  if (number == CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) {
    *out_value = delta_emulated_settings()->has_virtual_memory;
    return true;
  }
  if (number == cudaDevAttrComputeCapabilityMajor) {
    *out_value = delta_emulated_settings()->capability_major;
    return true;
  }
  if (number == cudaDevAttrMultiProcessorCount) {
    *out_value = (int)delta_emulated_settings()->processors;
    return true;
  }
  for (size_t k = 0; k < sizeof attributes / sizeof *attributes; ++k) {
    if (attributes[k].number != number) continue;
    *out_value = attributes[k].value;
    return true;
  }
  return false;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorInitializationError);
  const cudaError_t error = check_device(device);
  if (error) return error;
  return find_attribute((int)attribute, value) ? cudaSuccess : delta_emulated_error(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char *text, int text_bytes, int device) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  const cudaError_t error = check_device(device);
  if (!error) snprintf(text, (size_t)text_bytes, "0000:%02X:00.0", device + 1);
  return error;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  DELTA_EMULATED_ENTER_RUNTIME(cudaErrorUnknown);
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

// ---- The driver interface's view

CUresult cuInit(unsigned int flags) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_NOT_INITIALIZED);
  if (flags) return CUDA_ERROR_INVALID_VALUE;
  return delta_emulated_settings()->devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

CUresult cuDriverGetVersion(int *version) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  *version = VERSION;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_NOT_INITIALIZED);
  *count = (int)delta_emulated_settings()->devices;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_NOT_INITIALIZED);
  if (ordinal < 0 || (uint32_t)ordinal >= delta_emulated_settings()->devices) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int name_bytes, CUdevice device) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  (void)device;
  snprintf(name, (size_t)name_bytes, "Emulated GPU");
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  (void)device;
  *bytes = (size_t)delta_emulated_settings()->device_bytes;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  (void)device;
  return find_attribute((int)attribute, value) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out_context, CUdevice device) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_OUT_OF_MEMORY);
  (void)device;
  *out_context = (CUcontext)(void *)&context;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  (void)device;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *out_context) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  *out_context = has_context ? (CUcontext)(void *)&context : NULL;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext wanted) {
  DELTA_EMULATED_ENTER(CUDA_ERROR_UNKNOWN);
  has_context = wanted == (CUcontext)(void *)&context;
  return has_context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
