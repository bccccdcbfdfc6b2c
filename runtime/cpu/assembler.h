// Assembler: the few x86-64 instructions that compiled expressions are made of, for 256-bit (AVX2, VEX) or 512-bit (AVX-512, EVEX) vectors.
//
// Instructions go into a buffer of fixed size; what does not fit sets `overflow`. Sources: Intel's Software Developer's Manual, volume 2, chapter 2.
#ifndef DELTA_RUNTIME_CPU_ASSEMBLER_H_
#define DELTA_RUNTIME_CPU_ASSEMBLER_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DELTA_ASSEMBLER_BYTES = 32768 };

typedef struct delta_assembler {
  uint8_t bytes[DELTA_ASSEMBLER_BYTES];
  size_t count;
  bool wide; // 512-bit
  bool overflow;
} delta_assembler_t;

// General registers by their numbers in the encoding.
typedef enum delta_gpr {
  DELTA_RAX,
  DELTA_RCX,
  DELTA_RDX,
  DELTA_RBX,
  DELTA_RSP,
  DELTA_RBP,
  DELTA_RSI,
  DELTA_RDI,
  DELTA_R8,
  DELTA_R9,
  DELTA_R10,
  DELTA_R11,
  DELTA_R12,
  DELTA_R13,
  DELTA_R14,
  DELTA_R15
} delta_gpr_t;

// A vector instruction: opcode map (1: 0F, 2: 0F38, 3: 0F3A), mandatory prefix (0: none, 1: 66), opcode, W bit.
typedef struct delta_vector_op {
  uint8_t map, prefix, opcode, w;
} delta_vector_op_t;

// X(name, map, prefix, opcode, w)
#define DELTA_VECTOR_OPS(X)                                                          \
  X(LOAD, 1, 0, 0x10, 0)                                                             \
  X(STORE, 1, 0, 0x11, 0)                                                            \
  X(STREAM, 1, 0, 0x2B, 0)                                                           \
  X(ADD, 1, 0, 0x58, 0)                                                              \
  X(MUL, 1, 0, 0x59, 0)                                                              \
  X(SUB, 1, 0, 0x5C, 0)                                                              \
  X(MIN, 1, 0, 0x5D, 0)                                                              \
  X(DIV, 1, 0, 0x5E, 0)                                                              \
  X(MAX, 1, 0, 0x5F, 0)                                                              \
  X(SQRT, 1, 0, 0x51, 0)                                                             \
  X(AND, 1, 1, 0xDB, 0)                                                              \
  X(AND_NOT, 1, 1, 0xDF, 0)                                                          \
  X(XOR, 1, 1, 0xEF, 0)                                                              \
  X(COMPARE, 1, 0, 0xC2, 0)                                                          \
  X(ROUND, 3, 1, 0x08, 0)                                                            \
  X(WIDEN, 1, 0, 0x5A, 0)  /* the lower half's float32 to float64 */                 \
  X(NARROW, 1, 1, 0x5A, 1) /* float64 to half a vector of float32 */                 \
  X(ADD_DOUBLE, 1, 1, 0x58, 1)                                                       \
  X(MUL_DOUBLE, 1, 1, 0x59, 1)                                                       \
  X(SUB_DOUBLE, 1, 1, 0x5C, 1)                                                       \
  X(MIN_DOUBLE, 1, 1, 0x5D, 1)                                                       \
  X(DIV_DOUBLE, 1, 1, 0x5E, 1)                                                       \
  X(MAX_DOUBLE, 1, 1, 0x5F, 1)                                                       \
  X(COMPARE_DOUBLE, 1, 1, 0xC2, 1)                                                   \
  X(MULTIPLY_ADD, 2, 1, 0xA8, 1) /* float64: reg = vvvv * reg + rm */                \
  X(ADD_PRODUCT, 2, 1, 0xB8, 1)  /* float64: reg = vvvv * rm + reg */                \
  X(ADD_INTEGER, 1, 1, 0xD4, 1)  /* of 64 bits */                                    \
  X(SUB_INTEGER, 1, 1, 0xFB, 1)                                                      \
  X(SHIFT_INTEGER, 1, 1, 0x73, 1)  /* vvvv is the destination, reg says which way */ \
  X(UPPER_HALF_512, 3, 1, 0x1B, 1) /* rm is the destination */                       \
  X(UPPER_HALF_256, 3, 1, 0x19, 0)                                                   \
  X(INSERT_HALF_512, 3, 1, 0x1A, 1)                                                  \
  X(INSERT_HALF_256, 3, 1, 0x18, 0)                                                  \
  X(BLEND_MASKED, 2, 1, 0x65, 0)  /* 512: rm where the mask has a bit */             \
  X(BLEND_BY_SIGN, 3, 1, 0x4A, 0) /* 256: rm where the last operand is negative */   \
  X(BLEND_MASKED_DOUBLE, 2, 1, 0x65, 1)                                              \
  X(BLEND_BY_SIGN_DOUBLE, 3, 1, 0x4B, 0)

typedef enum delta_vector_op_id {
#define X(name, map, prefix, opcode, w) DELTA_VECTOR_##name,
  DELTA_VECTOR_OPS(X)
#undef X
} delta_vector_op_id_t;

// The last operand of a vector instruction: a register, or memory at base + scale * RAX + displacement.
typedef struct delta_vector_operand {
  bool is_memory;
  uint8_t reg; // vector register
  delta_gpr_t base;
  uint8_t scale; // of RAX, which is added: 1 or 2; 0: it is not
  int32_t displacement;
} delta_vector_operand_t;

static inline delta_vector_operand_t delta_in_register(uint8_t reg) { return (delta_vector_operand_t){.reg = reg}; }
static inline delta_vector_operand_t delta_in_memory(delta_gpr_t base, uint8_t scale, int32_t displacement) {
  return (delta_vector_operand_t){.is_memory = true, .base = base, .scale = scale, .displacement = displacement};
}

// Writes `op` with the registers of the fields reg and vvvv (0 where the instruction has none) and the operand rm.
void delta_assemble_vector(delta_assembler_t *assembler, delta_vector_op_id_t op, uint8_t reg, uint8_t vvvv, delta_vector_operand_t rm);
// The same with a mask register of 512-bit code; `zeroes`: elements without a bit become 0.
void delta_assemble_masked(delta_assembler_t *assembler, delta_vector_op_id_t op, uint8_t reg, uint8_t vvvv, delta_vector_operand_t rm,
                           uint8_t mask, bool zeroes);
// A byte that follows an instruction.
void delta_assemble_immediate(delta_assembler_t *assembler, uint8_t value);

void delta_assemble_push(delta_assembler_t *assembler, delta_gpr_t reg);
void delta_assemble_pop(delta_assembler_t *assembler, delta_gpr_t reg);
// reg = 64 bits at RDI + displacement
void delta_assemble_load_pointer(delta_assembler_t *assembler, delta_gpr_t reg, int32_t displacement);
void delta_assemble_clear_index(delta_assembler_t *assembler);
// RAX += step; jumps to the place `loop` in the buffer while RAX is below the 64 bits at RDI + displacement.
void delta_assemble_loop_end(delta_assembler_t *assembler, int32_t step, int32_t displacement, size_t loop);
// Ends vector code and returns.
void delta_assemble_return(delta_assembler_t *assembler);

#endif // DELTA_RUNTIME_CPU_ASSEMBLER_H_
