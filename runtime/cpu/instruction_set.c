// The least of what the processor has and what oneDNN is limited to.
#include "runtime/cpu/instruction_set.h"

#include <stdbool.h>

#include <dnnl.h>

delta_instruction_set_t delta_cpu_instruction_set(void) {
#if defined(__x86_64__)
  const dnnl_cpu_isa_t limit = dnnl_get_effective_cpu_isa();
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (has_avx512 && (limit & dnnl_cpu_isa_avx512_core) == dnnl_cpu_isa_avx512_core) return DELTA_INSTRUCTION_SET_AVX512;
  if (has_avx2 && (limit & dnnl_cpu_isa_avx2) == dnnl_cpu_isa_avx2) return DELTA_INSTRUCTION_SET_AVX2;
#endif
  return DELTA_INSTRUCTION_SET_SSE2;
}

const char *delta_cpu_instruction_set_name(void) {
  static const char *const names[] = {
      [DELTA_INSTRUCTION_SET_SSE2] = "sse2", [DELTA_INSTRUCTION_SET_AVX2] = "avx2", [DELTA_INSTRUCTION_SET_AVX512] = "avx512"};
  return names[delta_cpu_instruction_set()];
}
