// Statuses of the CUDA driver: what a call of a CUDA library returned, as a status that names the call and has the library's own text.
//
//   DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaMemcpyAsync(to, from, size_bytes, cudaMemcpyDefault, stream)));
//
// One macro per library, since each has its own type of result: DELTA_CUDA_CHECK (runtime), DELTA_CU_CHECK (driver interface), DELTA_CUDNN_CHECK, DELTA_CUBLAS_CHECK,
// DELTA_NVRTC_CHECK. Codes: memory that is not there is OUT_OF_MEMORY, what a library does not do for these shapes UNSUPPORTED, everything else IO, a device that does not
// answer as it should. An error of the CUDA runtime that is not sticky is cleared by being told. Thread-safe as far as the libraries are.
#ifndef DELTA_RUNTIME_CUDA_STATUS_H_
#define DELTA_RUNTIME_CUDA_STATUS_H_

#include <cublasLt.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>
#include <nvrtc.h>

#include "base/status.h"

#define DELTA_CUDA_CHECK(call)   delta_cuda_status((call), #call, 0)
#define DELTA_CU_CHECK(call)     delta_cu_status((call), #call, 0)
#define DELTA_CUDNN_CHECK(call)  delta_cudnn_status((call), #call)
#define DELTA_CUBLAS_CHECK(call) delta_cublas_status((call), #call)
#define DELTA_NVRTC_CHECK(call)  delta_nvrtc_status((call), #call)

// Of calls that take memory: when there is none the message has the bytes asked for and the bytes that are free.
#define DELTA_CUDA_CHECK_BYTES(call, asked_bytes) delta_cuda_status((call), #call, (asked_bytes))
#define DELTA_CU_CHECK_BYTES(call, asked_bytes)   delta_cu_status((call), #call, (asked_bytes))

// What the macros call. `call` is the expression; its function's name is told. asked_bytes 0: it takes none.
DELTA_MUST_USE delta_status_t delta_cuda_status(cudaError_t result, const char *call, size_t asked_bytes);
DELTA_MUST_USE delta_status_t delta_cu_status(CUresult result, const char *call, size_t asked_bytes);
DELTA_MUST_USE delta_status_t delta_cudnn_status(cudnnStatus_t result, const char *call);
DELTA_MUST_USE delta_status_t delta_cublas_status(cublasStatus_t result, const char *call);
DELTA_MUST_USE delta_status_t delta_nvrtc_status(nvrtcResult result, const char *call);

#endif // DELTA_RUNTIME_CUDA_STATUS_H_
