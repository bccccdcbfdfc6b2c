// CUDA's words for kernels as plain C++17: what a kernel says and calls, for files compiled by the host's compiler and for sources that the emulated run-time
// compiler gets. A thread of a block is a fiber (kernels with barriers) or one turn of a loop (kernels without); where it stands in the grid is thread-local.
//
// There are no atomics on floating-point numbers: kernels are deterministic. Dynamic shared memory has its own macro (runtime/cuda/launch.h). Fast functions
// are the precise ones.
#ifndef DELTA_TESTS_CUDA_EMULATED_KERNEL_H_
#define DELTA_TESTS_CUDA_EMULATED_KERNEL_H_

#include "emulated_block.h"
#include "emulated_module.h"
#include "emulated_place.h"

#ifdef DELTA_EMULATED_IS_FREE // a source of the run-time compiler, which declares functions and no header
#define __CUDACC_RTC__
#define DELTA_EMULATED_FUNCTION_1(name)     \
  extern "C" float name##f(float) noexcept; \
  extern "C" double name(double) noexcept;
#define DELTA_EMULATED_FUNCTION_2(name)            \
  extern "C" float name##f(float, float) noexcept; \
  extern "C" double name(double, double) noexcept;
// clang-format off
DELTA_EMULATED_FUNCTION_1(exp)
DELTA_EMULATED_FUNCTION_1(exp2)
DELTA_EMULATED_FUNCTION_1(expm1)
DELTA_EMULATED_FUNCTION_1(log)
DELTA_EMULATED_FUNCTION_1(log2)
DELTA_EMULATED_FUNCTION_1(log10)
DELTA_EMULATED_FUNCTION_1(log1p)
DELTA_EMULATED_FUNCTION_1(sqrt)
DELTA_EMULATED_FUNCTION_1(cbrt)
DELTA_EMULATED_FUNCTION_1(sin)
DELTA_EMULATED_FUNCTION_1(cos)
DELTA_EMULATED_FUNCTION_1(tan)
DELTA_EMULATED_FUNCTION_1(asin)
DELTA_EMULATED_FUNCTION_1(acos)
DELTA_EMULATED_FUNCTION_1(atan)
DELTA_EMULATED_FUNCTION_1(sinh)
DELTA_EMULATED_FUNCTION_1(cosh)
DELTA_EMULATED_FUNCTION_1(tanh)
DELTA_EMULATED_FUNCTION_1(asinh)
DELTA_EMULATED_FUNCTION_1(acosh)
DELTA_EMULATED_FUNCTION_1(atanh)
DELTA_EMULATED_FUNCTION_1(erf)
DELTA_EMULATED_FUNCTION_1(erfc)
DELTA_EMULATED_FUNCTION_1(fabs)
DELTA_EMULATED_FUNCTION_1(floor)
DELTA_EMULATED_FUNCTION_1(ceil)
DELTA_EMULATED_FUNCTION_1(rint)
DELTA_EMULATED_FUNCTION_1(round)
DELTA_EMULATED_FUNCTION_1(trunc)
DELTA_EMULATED_FUNCTION_1(nearbyint)
DELTA_EMULATED_FUNCTION_1(lgamma)
DELTA_EMULATED_FUNCTION_2(pow)
DELTA_EMULATED_FUNCTION_2(fmod)
DELTA_EMULATED_FUNCTION_2(atan2)
DELTA_EMULATED_FUNCTION_2(fmin)
DELTA_EMULATED_FUNCTION_2(fmax)
DELTA_EMULATED_FUNCTION_2(copysign)
DELTA_EMULATED_FUNCTION_2(hypot)
// clang-format on
#undef DELTA_EMULATED_FUNCTION_1
#undef DELTA_EMULATED_FUNCTION_2
extern "C" float fmaf(float, float, float) noexcept;
extern "C" double fma(double, double, double) noexcept;
typedef __SIZE_TYPE__ size_t;
extern "C" void *memcpy(void *, const void *, size_t) noexcept;
extern "C" void *memset(void *, int, size_t) noexcept;
static inline bool isnan(float x) { return __builtin_isnan(x); }
static inline bool isinf(float x) { return __builtin_isinf(x); }
static inline bool isfinite(float x) { return __builtin_isfinite(x); }
static inline bool isnan(double x) { return __builtin_isnan(x); }
static inline bool isinf(double x) { return __builtin_isinf(x); }
static inline bool isfinite(double x) { return __builtin_isfinite(x); }
static inline bool signbit(float x) { return __builtin_signbit(x); }
#else
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#endif

#define __global__
#define __device__
#define __host__
#define __constant__     static const
#define __shared__       static __thread
#define __forceinline__  inline __attribute__((always_inline))
#define __align__(bytes) __attribute__((aligned(bytes)))
#define __launch_bounds__(...)

// ---- Where the running thread stands

#define threadIdx (delta_emulated_place.thread)
#define blockIdx  (delta_emulated_place.block)
#define blockDim  (delta_emulated_place.block_dim)
#define gridDim   (delta_emulated_place.grid_dim)
static const int warpSize = 32;

// ---- What threads do together

#define __syncthreads()                                                   \
  do {                                                                    \
    static int delta_site;                                                \
    delta_emulated_barrier(&delta_site, __FILE__, __LINE__, __COUNTER__); \
  } while (0)

static inline void __syncwarp(unsigned mask = 0xffffffffu) { delta_emulated_warp_barrier(mask); }
static inline void __threadfence() { delta_emulated_fence(); }
static inline void __threadfence_block() { delta_emulated_fence(); }

static inline int delta_emulated_lane() {
  const dim3 size = delta_emulated_place.block_dim;
  const uint3 at = delta_emulated_place.thread;
  return (int)(((at.z * size.y + at.y) * size.x + at.x) % 32);
}

// What lane `source` brings, or the own value where the source lies outside the lane's part of `width` lanes.
template <class Value>
static inline Value delta_emulated_take(unsigned mask, Value value, int source, bool is_inside) {
  static_assert(sizeof(Value) <= sizeof(unsigned long long), "a lane exchanges up to 8 bytes");
  unsigned long long word = 0;
  __builtin_memcpy(&word, &value, sizeof value);
  word = delta_emulated_exchange(mask, word, is_inside ? source : delta_emulated_lane());
  __builtin_memcpy(&value, &word, sizeof value);
  return value;
}
template <class Value>
static inline Value __shfl_sync(unsigned mask, Value value, int source, int width = 32) {
  const int lane = delta_emulated_lane(), first = lane - lane % width;
  return delta_emulated_take(mask, value, first + (source & (width - 1)), true);
}
template <class Value>
static inline Value __shfl_up_sync(unsigned mask, Value value, unsigned distance, int width = 32) {
  const int lane = delta_emulated_lane(), first = lane - lane % width, source = lane - (int)distance;
  return delta_emulated_take(mask, value, source, source >= first);
}
template <class Value>
static inline Value __shfl_down_sync(unsigned mask, Value value, unsigned distance, int width = 32) {
  const int lane = delta_emulated_lane(), end = lane - lane % width + width, source = lane + (int)distance;
  return delta_emulated_take(mask, value, source, source < end);
}
template <class Value>
static inline Value __shfl_xor_sync(unsigned mask, Value value, int bits, int width = 32) {
  const int lane = delta_emulated_lane(), end = lane - lane % width + width, source = lane ^ bits;
  return delta_emulated_take(mask, value, source, source < end);
}
static inline unsigned __ballot_sync(unsigned mask, int truth) { return delta_emulated_ballot(mask, truth); }
static inline int __any_sync(unsigned mask, int truth) { return delta_emulated_ballot(mask, truth) != 0; }
static inline int __all_sync(unsigned mask, int truth) { return delta_emulated_ballot(mask, !truth) == 0; }

// ---- Atomics

#define DELTA_EMULATED_ATOMICS(type)                                                                                          \
  static inline type atomicAdd(type *at, type value) { return __atomic_fetch_add(at, value, __ATOMIC_ACQ_REL); }              \
  static inline type atomicSub(type *at, type value) { return __atomic_fetch_sub(at, value, __ATOMIC_ACQ_REL); }              \
  static inline type atomicOr(type *at, type value) { return __atomic_fetch_or(at, value, __ATOMIC_ACQ_REL); }                \
  static inline type atomicAnd(type *at, type value) { return __atomic_fetch_and(at, value, __ATOMIC_ACQ_REL); }              \
  static inline type atomicExch(type *at, type value) { return __atomic_exchange_n(at, value, __ATOMIC_ACQ_REL); }            \
  static inline type atomicCAS(type *at, type wanted, type value) {                                                           \
    __atomic_compare_exchange_n(at, &wanted, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);                               \
    return wanted;                                                                                                            \
  }                                                                                                                           \
  static inline type atomicMax(type *at, type value) {                                                                        \
    type old = __atomic_load_n(at, __ATOMIC_ACQUIRE);                                                                         \
    while (old < value && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) continue; \
    return old;                                                                                                               \
  }                                                                                                                           \
  static inline type atomicMin(type *at, type value) {                                                                        \
    type old = __atomic_load_n(at, __ATOMIC_ACQUIRE);                                                                         \
    while (old > value && !__atomic_compare_exchange_n(at, &old, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) continue; \
    return old;                                                                                                               \
  }
DELTA_EMULATED_ATOMICS(int)
DELTA_EMULATED_ATOMICS(unsigned)
DELTA_EMULATED_ATOMICS(unsigned long long)
#undef DELTA_EMULATED_ATOMICS

// ---- Arithmetic

#define DELTA_EMULATED_ORDER(type)                                 \
  static inline type min(type a, type b) { return b < a ? b : a; } \
  static inline type max(type a, type b) { return a < b ? b : a; }
DELTA_EMULATED_ORDER(int)
DELTA_EMULATED_ORDER(unsigned)
DELTA_EMULATED_ORDER(long)
DELTA_EMULATED_ORDER(unsigned long)
DELTA_EMULATED_ORDER(long long)
DELTA_EMULATED_ORDER(unsigned long long)
#undef DELTA_EMULATED_ORDER
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
static inline float normcdff(float x) { return 0.5f * erfcf(-0.70710678118654752f * x); }
// Names that the C library has for itself.
#define __expf(x)    expf(x)
#define __logf(x)    logf(x)
#define __log2f(x)   log2f(x)
#define __powf(x, y) powf(x, y)
#define __sinf(x)    sinf(x)
#define __cosf(x)    cosf(x)
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }
static inline float __fadd_rn(float x, float y) { return x + y; }
static inline float __fsub_rn(float x, float y) { return x - y; }
static inline float __fmul_rn(float x, float y) { return x * y; }
static inline float __fdiv_rn(float x, float y) { return x / y; }
static inline float __frcp_rn(float x) { return 1.0f / x; }
static inline float __fsqrt_rn(float x) { return sqrtf(x); }
static inline float __fmaf_rn(float x, float y, float z) { return fmaf(x, y, z); }
static inline double __dadd_rn(double x, double y) { return x + y; }
static inline double __dsub_rn(double x, double y) { return x - y; }
static inline double __dmul_rn(double x, double y) { return x * y; }
static inline double __ddiv_rn(double x, double y) { return x / y; }
static inline double __dsqrt_rn(double x) { return sqrt(x); }
static inline double __fma_rn(double x, double y, double z) { return fma(x, y, z); }
static inline float __uint2float_rn(unsigned x) { return (float)x; }
static inline float __int2float_rn(int x) { return (float)x; }
static inline float __ll2float_rn(long long x) { return (float)x; }
static inline float __double2float_rn(double x) { return (float)x; }
static inline int __float2int_rn(float x) { return (int)rintf(x); }

template <class To, class From>
static inline To delta_emulated_bits(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
static inline unsigned __float_as_uint(float x) { return delta_emulated_bits<unsigned>(x); }
static inline int __float_as_int(float x) { return delta_emulated_bits<int>(x); }
static inline float __uint_as_float(unsigned x) { return delta_emulated_bits<float>(x); }
static inline float __int_as_float(int x) { return delta_emulated_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return delta_emulated_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return delta_emulated_bits<double>(x); }

static inline unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x * y) >> 32); }
static inline unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
  __extension__ typedef unsigned __int128 delta_wide_t;
  return (unsigned long long)(((delta_wide_t)x * y) >> 64);
}
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
static inline int __ffs(int x) { return __builtin_ffs(x); }

template <class Value>
static inline Value __ldg(const Value *at) {
  return *at;
}

#define DELTA_EMULATED_MAKE(name, type)                                                      \
  static inline name##2 make_##name##2(type x, type y) { return name##2 {x, y}; }            \
  static inline name##3 make_##name##3(type x, type y, type z) { return name##3 {x, y, z}; } \
  static inline name##4 make_##name##4(type x, type y, type z, type w) { return name##4 {x, y, z, w}; }
DELTA_EMULATED_MAKE(int, int)
DELTA_EMULATED_MAKE(uint, unsigned)
DELTA_EMULATED_MAKE(float, float)
DELTA_EMULATED_MAKE(uchar, unsigned char)
DELTA_EMULATED_MAKE(longlong, long long)
DELTA_EMULATED_MAKE(double, double)
#undef DELTA_EMULATED_MAKE

// ---- Calling a kernel

// Runs the threads of the block that delta_emulated_place names, one after another.
template <class Kernel>
static inline void delta_emulated_loop(const Kernel &kernel) {
  const dim3 size = delta_emulated_place.block_dim;
  for (unsigned z = 0; z < size.z; ++z) {
    for (unsigned y = 0; y < size.y; ++y) {
      for (unsigned x = 0; x < size.x; ++x) {
        delta_emulated_place.thread.x = x;
        delta_emulated_place.thread.y = y;
        delta_emulated_place.thread.z = z;
        kernel();
      }
    }
  }
}

// ---- A kernel of a module

// Takes arguments one by one from their addresses.
template <class... Parameters>
struct delta_emulated_taker;
template <>
struct delta_emulated_taker<> {
  template <class Kernel, class... Taken>
  static void call(const Kernel &kernel, void *const *, Taken... taken) {
    kernel(taken...);
  }
};
template <class First, class... Rest>
struct delta_emulated_taker<First, Rest...> {
  template <class Kernel, class... Taken>
  static void call(const Kernel &kernel, void *const *arguments, Taken... taken) {
    delta_emulated_taker<Rest...>::call(kernel, arguments + 1, taken..., *static_cast<First *>(*arguments));
  }
};

template <class Value>
struct delta_emulated_is_pointer {
  static const int value = 0;
};
template <class Value>
struct delta_emulated_is_pointer<Value *> {
  static const int value = 1;
};
template <class Value>
struct delta_emulated_is_pointer<Value *__restrict__> {
  static const int value = 1;
};

template <class... Parameters>
struct delta_emulated_signature {
  static constexpr delta_emulated_parameter_t parameters[sizeof...(Parameters) + 1] = {
      {sizeof(Parameters), delta_emulated_is_pointer<Parameters>::value}..., {0, 0}};

  template <void (*kernel)(Parameters...)>
  static void run_thread(void *const *arguments) {
    delta_emulated_taker<Parameters...>::call(kernel, arguments);
  }
  template <void (*kernel)(Parameters...)>
  static void run_block(void *const *arguments) {
    delta_emulated_loop([arguments] { delta_emulated_taker<Parameters...>::call(kernel, arguments); });
  }
  template <void (*kernel)(Parameters...)>
  static constexpr delta_emulated_function_t describe(const char *name, int is_free) {
    return {name, is_free, (int)sizeof...(Parameters), parameters, run_thread<kernel>, run_block<kernel>};
  }
};
template <class... Parameters>
delta_emulated_signature<Parameters...> delta_emulated_signature_of(void (*kernel)(Parameters...));

#define DELTA_EMULATED_KERNEL(kernel)                                                                                  \
  extern "C" __attribute__((visibility("default"))) const delta_emulated_function_t delta_emulated_function_##kernel = \
      decltype(delta_emulated_signature_of(kernel))::describe<kernel>(#kernel, DELTA_EMULATED_IS_FREE);

#endif // DELTA_TESTS_CUDA_EMULATED_KERNEL_H_
