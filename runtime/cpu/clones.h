// One source, several instruction sets: a function marked DELTA_CPU_CLONES is compiled for each and chosen when the program is loaded.
#ifndef DELTA_RUNTIME_CPU_CLONES_H_
#define DELTA_RUNTIME_CPU_CLONES_H_

// The choice is made by relocations that run before a sanitizer's runtime is up, so sanitized builds have one version. So have builds with clang: it gives
// the versions of static functions external names, which clash between files.
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define DELTA_CPU_CLONES
#define DELTA_CPU_FMA_CLONES
#define DELTA_CPU_AVX512
#define DELTA_CPU_HAS_AVX512 0
#else
#define DELTA_CPU_CLONES     __attribute__((target_clones("avx512f", "arch=x86-64-v3", "default")))
// For files that are compiled with contraction to fused multiply-add.
#define DELTA_CPU_FMA_CLONES __attribute__((target_clones("fma", "default")))
// For a function that is written for the wider registers, and called only where they are.
#define DELTA_CPU_AVX512     __attribute__((target("avx512f")))
#define DELTA_CPU_HAS_AVX512 __builtin_cpu_supports("avx512f")
#endif

#endif // DELTA_RUNTIME_CPU_CLONES_H_
