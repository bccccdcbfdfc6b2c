// What the threads of a block do together, as kernels call it (tests/cuda/emulation/block.c).
#ifndef DELTA_TESTS_CUDA_EMULATED_BLOCK_H_
#define DELTA_TESTS_CUDA_EMULATED_BLOCK_H_

#ifdef __cplusplus
extern "C" {
#endif
// Libraries that are compiled at run time find these in the program.
#pragma GCC visibility push(default)

// A barrier of the block. `site` is static and remembers which place in the kernels it is, so that a test can leave out one after another; `number` tells those of one line apart.
void delta_emulated_barrier(int *site, const char *file, int line, int number);
// The same for the lanes of `mask`.
void delta_emulated_warp_barrier(unsigned mask);
// The word that lane `source` of the own warp brings to this exchange of the lanes of `mask`; a lane outside brings nonsense.
unsigned long long delta_emulated_exchange(unsigned mask, unsigned long long word, int source);
// The lanes of `mask` that bring a truth.
unsigned delta_emulated_ballot(unsigned mask, int truth);
// Dynamic shared memory of the block.
void *delta_emulated_dynamic_shared(void);
void delta_emulated_fence(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif // DELTA_TESTS_CUDA_EMULATED_BLOCK_H_
