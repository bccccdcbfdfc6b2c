// One row per library: how its results are told, and which of them mean that memory is missing or that it does not do what was asked.
#include "runtime/cuda/status.h"

#include <stdio.h>
#include <string.h>

enum { CALL_BYTES = 64 };

// The name of the function in the text of a call.
static const char *name_of_call(const char *call, char name[CALL_BYTES]) {
  snprintf(name, CALL_BYTES, "%.*s", (int)strcspn(call, "("), call);
  return name;
}

// What all libraries' statuses look like.
static delta_status_t make_status(delta_status_code_t code, const char *call, const char *text, int result) {
  char name[CALL_BYTES];
  name_of_call(call, name);
  if (code == DELTA_STATUS_OUT_OF_MEMORY) return delta_status_make(OUT_OF_MEMORY, "%s: %s (%d)", name, text, result);
  if (code == DELTA_STATUS_UNSUPPORTED) return delta_status_make(UNSUPPORTED, "%s: %s (%d)", name, text, result);
  return delta_status_make(IO, "%s: %s (%d)", name, text, result);
}

// Memory that is not there: what was asked for, and what there is.
static delta_status_t no_memory(const char *call, const char *text, int result, size_t asked_bytes) {
  size_t free_bytes = 0, total_bytes = 0;
  char name[CALL_BYTES];
  if (asked_bytes == 0 || cudaMemGetInfo(&free_bytes, &total_bytes) != cudaSuccess)
    return make_status(DELTA_STATUS_OUT_OF_MEMORY, call, text, result);
  return delta_status_make(OUT_OF_MEMORY, "%s: %s (%d): %zu bytes asked for, %zu of the device's %zu are free; lower --budget or --batch",
                           name_of_call(call, name), text, result, asked_bytes, free_bytes, total_bytes);
}

delta_status_t delta_cuda_status(cudaError_t result, const char *call, size_t asked_bytes) {
  if (result == cudaSuccess) return DELTA_OK;
  (void)cudaGetLastError(); // a later call is not to be blamed for this one
  const char *text = cudaGetErrorString(result);
  if (result == cudaErrorMemoryAllocation) return no_memory(call, text, (int)result, asked_bytes);
  if (result == cudaErrorNoKernelImageForDevice)
    return delta_status_annotate(make_status(DELTA_STATUS_IO, call, text, (int)result),
                                 "the driver's module was built for other GPUs: build it with -DDELTA_CUDA_ARCHITECTURES for this one");
  return make_status(result == cudaErrorNotSupported ? DELTA_STATUS_UNSUPPORTED : DELTA_STATUS_IO, call, text, (int)result);
}

delta_status_t delta_cu_status(CUresult result, const char *call, size_t asked_bytes) {
  if (result == CUDA_SUCCESS) return DELTA_OK;
  const char *text = NULL;
  if (cuGetErrorString(result, &text) != CUDA_SUCCESS || !text) text = "an error without a name";
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return no_memory(call, text, (int)result, asked_bytes);
  return make_status(result == CUDA_ERROR_NOT_SUPPORTED ? DELTA_STATUS_UNSUPPORTED : DELTA_STATUS_IO, call, text, (int)result);
}

// cuDNN's results are a thousand for each kind, and a reason: 3002 is a shape that is not supported.
static bool is_refusal_of_cudnn(cudnnStatus_t result) {
  enum { KIND = 1000 };
  return result / KIND == CUDNN_STATUS_NOT_SUPPORTED / KIND;
}

// X(prefix, type, success, no memory, not supported, text)
#define LIBRARIES(X)                                                                                                                \
  X(cudnn, cudnnStatus_t, CUDNN_STATUS_SUCCESS,                                                                                     \
    result == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED || result == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, \
    is_refusal_of_cudnn(result), cudnnGetErrorString)                                                                               \
  X(cublas, cublasStatus_t, CUBLAS_STATUS_SUCCESS, result == CUBLAS_STATUS_ALLOC_FAILED,                                            \
    result == CUBLAS_STATUS_NOT_SUPPORTED || result == CUBLAS_STATUS_ARCH_MISMATCH, cublasLtGetStatusString)                        \
  X(nvrtc, nvrtcResult, NVRTC_SUCCESS, result == NVRTC_ERROR_OUT_OF_MEMORY, result == NVRTC_ERROR_INVALID_OPTION, nvrtcGetErrorString)

#define LIBRARY_STATUS(prefix, type, success, is_no_memory, is_not_supported, text)    \
  delta_status_t delta_##prefix##_status(type result, const char *call) {              \
    if (result == (success)) return DELTA_OK;                                          \
    const delta_status_code_t code = (is_no_memory)       ? DELTA_STATUS_OUT_OF_MEMORY \
                                     : (is_not_supported) ? DELTA_STATUS_UNSUPPORTED   \
                                                          : DELTA_STATUS_IO;           \
    return make_status(code, call, text(result), (int)result);                         \
  }
LIBRARIES(LIBRARY_STATUS)
