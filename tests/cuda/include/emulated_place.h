// Place: where the running thread of a kernel stands in its grid.
#ifndef DELTA_TESTS_CUDA_EMULATED_PLACE_H_
#define DELTA_TESTS_CUDA_EMULATED_PLACE_H_

#include "vector_types.h"

typedef struct delta_emulated_place {
  uint3 thread, block;
  dim3 block_dim, grid_dim;
} delta_emulated_place_t;

#ifdef __cplusplus
extern "C"
#else
extern
#endif
    __attribute__((visibility("default"))) __thread delta_emulated_place_t delta_emulated_place;

#endif // DELTA_TESTS_CUDA_EMULATED_PLACE_H_
