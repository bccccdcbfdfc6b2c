// The calls of CUDA's driver interface. The library that has them comes with the GPU's driver and is not on machines without one, so nothing is linked with it: the runtime, which
// is linked in, finds each call when it is first made. Tests have these calls from their emulation in place of this file.
#include <stdatomic.h>
#include <stdint.h>

#include "runtime/cuda/status.h"

// X(call, parameters, arguments)
#define DRIVER_CALLS(X)                                                                                                              \
  X(cuGetErrorString, (CUresult error, const char **text), (error, text))                                                            \
  X(cuDeviceGet, (CUdevice * device, int ordinal), (device, ordinal))                                                                \
  X(cuDeviceGetName, (char *name, int length, CUdevice device), (name, length, device))                                              \
  X(cuDeviceGetAttribute, (int *value, CUdevice_attribute attribute, CUdevice device), (value, attribute, device))                   \
  X(cuMemGetAllocationGranularity, (size_t * granularity, const CUmemAllocationProp *prop, CUmemAllocationGranularity_flags option), \
    (granularity, prop, option))                                                                                                     \
  X(cuMemAddressReserve, (CUdeviceptr * address, size_t size, size_t alignment, CUdeviceptr wanted, unsigned long long flags),       \
    (address, size, alignment, wanted, flags))                                                                                       \
  X(cuMemAddressFree, (CUdeviceptr address, size_t size), (address, size))                                                           \
  X(cuMemCreate, (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags),    \
    (handle, size, prop, flags))                                                                                                     \
  X(cuMemRelease, (CUmemGenericAllocationHandle handle), (handle))                                                                   \
  X(cuMemMap, (CUdeviceptr address, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags),      \
    (address, size, offset, handle, flags))                                                                                          \
  X(cuMemUnmap, (CUdeviceptr address, size_t size), (address, size))                                                                 \
  X(cuMemSetAccess, (CUdeviceptr address, size_t size, const CUmemAccessDesc *access, size_t count), (address, size, access, count)) \
  X(cuModuleLoadData, (CUmodule * module, const void *image), (module, image))                                                       \
  X(cuModuleUnload, (CUmodule module), (module))                                                                                     \
  X(cuModuleGetFunction, (CUfunction * function, CUmodule module, const char *name), (function, module, name))                       \
  X(cuFuncSetAttribute, (CUfunction function, CUfunction_attribute attribute, int value), (function, attribute, value))              \
  X(cuLaunchKernel,                                                                                                                  \
    (CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, unsigned block_z,   \
     unsigned shared_bytes, CUstream stream, void **parameters, void **extra),                                                       \
    (function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes, stream, parameters, extra))

// NULL without a driver, or with one that does not have the call.
static void *find_call(const char *name) {
  void *call = NULL;
  enum cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
  if (cudaGetDriverEntryPointByVersion(name, &call, CUDART_VERSION, cudaEnableDefault, &found) != cudaSuccess) {
    (void)cudaGetLastError();
    return NULL;
  }
  return found == cudaDriverEntryPointSuccess ? call : NULL;
}

#define DRIVER_CALL(name, parameters, arguments)                     \
  CUresult CUDAAPI name parameters {                                 \
    static _Atomic(uintptr_t) found;                                 \
    if (atomic_load(&found) == 0) {                                  \
      atomic_store(&found, (uintptr_t)find_call(#name));             \
    }                                                                \
    __typeof__(&name) call = (__typeof__(&name))atomic_load(&found); \
    return call ? call arguments : CUDA_ERROR_NOT_FOUND;             \
  }
DRIVER_CALLS(DRIVER_CALL)
