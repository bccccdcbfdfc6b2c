// What kernels compiled from expressions are given, by value. Shared by C and device code; also text for what NVRTC compiles (sources.c).
#ifndef DELTA_RUNTIME_CUDA_EXPR_ARGS_H_
#define DELTA_RUNTIME_CUDA_EXPR_ARGS_H_

#ifndef DELTA_DEVICE_TEXT
#include "runtime/cuda/index.h"
#endif

enum { DELTA_EXPR_ARGS_INPUTS = 16, DELTA_EXPR_ARGS_OUTPUTS = 8, DELTA_EXPR_ARGS_RANK = 8 };

typedef struct delta_expr_args {
  const void *inputs[DELTA_EXPR_ARGS_INPUTS];
  void *outputs[DELTA_EXPR_ARGS_OUTPUTS]; // NULL: not wanted
  uint64_t count;                         // results
  uint64_t reduced;                       // elements that go into one result
  uint64_t share;                         // of these, what one of `splits` takes
  void *partials;                         // [splits][outputs][count] when splits > 1
  uint32_t splits;
  uint32_t aligned;                                              // all buffers begin at multiples of 16 bytes
  delta_divisor_t dims[DELTA_EXPR_ARGS_RANK];                    // kept dimensions, then reduced ones
  int64_t strides[DELTA_EXPR_ARGS_INPUTS][DELTA_EXPR_ARGS_RANK]; // in elements; 0 where an input repeats
} delta_expr_args_t;

// Of a kernel that runs an expression on many sets of tensors. All arguments of a launch have to fit in 4096 bytes.
enum { DELTA_EACH_ARGS_WORDS = 480 };
// A set is so many words: elements, the block of the grid at which it begins, the addresses of its own inputs and of its outputs.
enum { DELTA_SET_COUNT, DELTA_SET_FIRST_BLOCK, DELTA_SET_ADDRESSES };
typedef struct delta_each_args {
  const void *shared[DELTA_EXPR_ARGS_INPUTS]; // inputs that all sets share; others NULL
  uint32_t sets;
  uint32_t aligned; // all buffers begin at multiples of 16 bytes
  uint64_t words[DELTA_EACH_ARGS_WORDS];
} delta_each_args_t;

#endif // DELTA_RUNTIME_CUDA_EXPR_ARGS_H_
