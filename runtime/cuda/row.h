// Row: units of a whole and its parts put from one order into the other where they lie (onnx/graph/units.h). Every block of threads brings a strip of all units into shared memory
// and puts it back in the other order, so that no bytes are needed beside.
#ifndef DELTA_RUNTIME_CUDA_ROW_H_
#define DELTA_RUNTIME_CUDA_ROW_H_

#include <cuda_runtime_api.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DELTA_CUDA_ROW_UNITS = 1024 }; // at most; no fewer than DELTA_UNITS_MAX

typedef struct delta_cuda_row {
  uint32_t units;
  uint64_t unit_words;     // of 4 bytes
  const uint32_t *sources; // on the device: which unit comes to each place
} delta_cuda_row_t;
cudaError_t delta_cuda_row_launch(const delta_cuda_row_t *self, void *bytes, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif // DELTA_RUNTIME_CUDA_ROW_H_
