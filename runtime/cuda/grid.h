// Grid: what .cu files share: storage types by dtype, how many blocks a launch has, lines of elements and the threads that share one. C++.
#ifndef DELTA_RUNTIME_CUDA_GRID_H_
#define DELTA_RUNTIME_CUDA_GRID_H_

#include "base/dtype.h"
#include "runtime/cuda/element.h"
#include "runtime/cuda/index.h"
#include "runtime/cuda/launch.h"

// X(dtype, storage type): of float types, of integer types, of bool, of all.
#define DELTA_CUDA_FLOATS(X)    \
  X(DELTA_DTYPE_FLOAT32, float) \
  X(DELTA_DTYPE_FLOAT64, double) X(DELTA_DTYPE_FLOAT16, delta_float16_t) X(DELTA_DTYPE_BFLOAT16, delta_bfloat16_t)
#define DELTA_CUDA_TYPES(X) \
  DELTA_CUDA_FLOATS(X)      \
  X(DELTA_DTYPE_INT32, int32_t) X(DELTA_DTYPE_INT64, int64_t) X(DELTA_DTYPE_UINT8, uint8_t) X(DELTA_DTYPE_BOOL, delta_bool_t)
// X(bytes, storage type): elements that are only moved.
typedef struct delta_bytes16 {
  alignas(16) uint64_t words[2];
} delta_bytes16_t;
#define DELTA_CUDA_ELEMENT_WIDTHS(X) X(1, uint8_t) X(2, uint16_t) X(4, uint32_t) X(8, uint64_t)
#define DELTA_CUDA_WIDTHS(X)         DELTA_CUDA_ELEMENT_WIDTHS(X) X(16, delta_bytes16_t)

static inline size_t delta_cuda_dtype_bytes(delta_dtype_t dtype) {
#define DELTA_CUDA_BYTES_OF(id, name, size, kind, numpy, onnx) size,
  static const size_t sizes[] = {DELTA_DTYPES(DELTA_CUDA_BYTES_OF)};
#undef DELTA_CUDA_BYTES_OF
  return sizes[dtype];
}

static const unsigned DELTA_BLOCK_THREADS = 256;

// Blocks for `count` items of `per_block` each; kernels go on in strides of the grid when there are more.
static inline unsigned delta_blocks(uint64_t count, uint64_t per_block) {
  const uint64_t blocks = (count + per_block - 1) / per_block, most = DELTA_CUDA_MOST_BLOCKS;
  return (unsigned)(blocks < 1 ? 1 : blocks < most ? blocks : most);
}

// The end of a launcher: CASE(dtype, storage type) is a `case` of one type.
#define DELTA_CUDA_SWITCH(key, TYPES, CASE) \
  switch (key) {                            \
    TYPES(CASE)                             \
    default:                                \
      return cudaErrorInvalidValue;         \
  }                                         \
  return cudaGetLastError()

// for (uint64_t i = ...) over the items of a launch, one thread an item at a time.
#define DELTA_EACH_ITEM(i, count) \
  for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < (uint64_t)(count); i += (uint64_t)gridDim.x * blockDim.x)

// ---- Lines: the elements along one axis, shared by the threads of a team.
//
// All threads of a block go through the same rounds of DELTA_EACH_ROUND, since they meet at barriers; a thread whose line is not there has a size of 0. A line's SIZE
// threads take elements member(), member() + SIZE, ...; all() gives each of them what all their values come to.

// One warp a line, the lanes along it: lines of neighbouring elements that are short.
struct delta_warp_team {
  enum { SIZE = 32, LINES = 8, SHARED = 1 };
  static __device__ int member() { return threadIdx.x % 32; }
  static __device__ int line() { return threadIdx.x / 32; }
  template <typename Value, typename Step>
  static __device__ Value all(Value value, Step step, Value *) {
    DELTA_UNROLL
    for (int bits = 16; bits > 0; bits /= 2) value = step(value, __shfl_xor_sync(0xffffffffu, value, bits));
    return value;
  }
};

// A whole block a line: lines of neighbouring elements that are long.
struct delta_block_team {
  enum { SIZE = 256, LINES = 1, SHARED = 8 };
  static __device__ int member() { return threadIdx.x; }
  static __device__ int line() { return 0; }
  template <typename Value, typename Step>
  static __device__ Value all(Value value, Step step, Value *shared) {
    value = delta_warp_team::all(value, step, shared);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    value = shared[0];
    DELTA_UNROLL
    for (int warp = 1; warp < SHARED; ++warp) value = step(value, shared[warp]);
    return value;
  }
};

// Eight threads a line, neighbouring threads on neighbouring lines: lines whose elements are apart.
struct delta_column_team {
  enum { SIZE = 8, LINES = 32, SHARED = 256 };
  static __device__ int member() { return threadIdx.x / 32; }
  static __device__ int line() { return threadIdx.x % 32; }
  template <typename Value, typename Step>
  static __device__ Value all(Value value, Step step, Value *shared) {
    __syncthreads();
    shared[threadIdx.x] = value;
    __syncthreads();
    value = shared[threadIdx.x % 32];
    DELTA_UNROLL
    for (int part = 1; part < SIZE; ++part) value = step(value, shared[part * 32 + threadIdx.x % 32]);
    return value;
  }
};

struct delta_add {
  template <typename Value>
  __device__ Value operator()(Value a, Value b) const {
    return a + b;
  }
};
// NaN loses.
struct delta_larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
  __device__ double operator()(double a, double b) const { return fmax(a, b); }
};

// outer * size * inner elements seen along one axis.
typedef struct delta_line_set {
  uint64_t count; // of lines
  int64_t size, inner;
  delta_divisor_t by_inner;
} delta_line_set_t;

static inline delta_line_set_t delta_line_set(int64_t outer, int64_t size, int64_t inner) {
  const uint64_t count = (uint64_t)outer * (uint64_t)inner;
  const delta_line_set_t lines = {count, size, inner, delta_divisor_of((uint64_t)inner, count)};
  return lines;
}

// The first element of a line.
DELTA_DEVICE int64_t delta_line_start(const delta_line_set_t &lines, uint64_t line) {
  const uint64_t outer = delta_divide(line, lines.by_inner);
  return (int64_t)outer * lines.size * lines.inner + (int64_t)(line - outer * lines.by_inner.divisor);
}

// A thread's line in the round that begins at line `first`.
typedef struct delta_line {
  uint64_t number;
  bool is_there;
  int64_t size, start; // 0 where it is not there
} delta_line_t;

template <typename Team>
DELTA_DEVICE delta_line_t delta_line_of(const delta_line_set_t &lines, uint64_t first) {
  delta_line_t line = {first + Team::line(), false, 0, 0};
  line.is_there = line.number < lines.count;
  if (line.is_there) {
    line.size = lines.size;
    line.start = delta_line_start(lines, line.number);
  }
  return line;
}

#define DELTA_EACH_ROUND(Team, block, lines) \
  for (uint64_t block = (uint64_t)blockIdx.x * Team::LINES; block < (lines).count; block += (uint64_t)gridDim.x * Team::LINES)

// Launches kernel<T, team>(lines, arguments...) with the team that fits the lines: LAUNCH(team) is a macro of the caller's.
#define DELTA_CUDA_FOR_LINES(lines, LAUNCH) \
  do {                                      \
    if ((lines).inner > 1)                  \
      LAUNCH(delta_column_team);            \
    else if ((lines).size > 1024)           \
      LAUNCH(delta_block_team);             \
    else                                    \
      LAUNCH(delta_warp_team);              \
  } while (0)

#endif // DELTA_RUNTIME_CUDA_GRID_H_
