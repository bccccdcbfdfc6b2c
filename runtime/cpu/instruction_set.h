// The instruction set that kernels of ours choose by. oneDNN's limit (ONEDNN_MAX_CPU_ISA) holds for ours as well: one switch for the whole process.
#ifndef DELTA_RUNTIME_CPU_INSTRUCTION_SET_H_
#define DELTA_RUNTIME_CPU_INSTRUCTION_SET_H_

#include <stdint.h>

// In the order of their extent. Clones (clones.h) do not follow the limit: their bits are the same.
typedef enum delta_instruction_set {
  DELTA_INSTRUCTION_SET_SSE2,
  DELTA_INSTRUCTION_SET_AVX2, // with fused multiply-add
  DELTA_INSTRUCTION_SET_AVX512,
} delta_instruction_set_t;

delta_instruction_set_t delta_cpu_instruction_set(void);
const char *delta_cpu_instruction_set_name(void); // "avx512": what profiles and plans name

#endif // DELTA_RUNTIME_CPU_INSTRUCTION_SET_H_
