// Encoding of instructions. Memory operands have an index byte and 32 bits of displacement always: one form is enough.
#include "runtime/cpu/assembler.h"

#include <string.h>

static const delta_vector_op_t vector_ops[] = {
#define X(name, map, prefix, opcode, w) {map, prefix, opcode, w},
    DELTA_VECTOR_OPS(X)
#undef X
};

static void put(delta_assembler_t *assembler, uint8_t byte) {
  if (assembler->count == sizeof assembler->bytes) {
    assembler->overflow = true;
    return;
  }
  assembler->bytes[assembler->count++] = byte;
}

static void put_32(delta_assembler_t *assembler, int32_t value) {
  uint8_t bytes[sizeof value];
  memcpy(bytes, &value, sizeof value);
  for (size_t i = 0; i < sizeof bytes; ++i) put(assembler, bytes[i]);
}

// Bit `bit` of a register's number, inverted as prefixes want it, at the place `shift`.
static uint8_t inverted(unsigned number, int bit, int shift) { return (uint8_t)((((number >> bit) & 1u) ^ 1u) << shift); }

static void put_operand(delta_assembler_t *assembler, uint8_t reg, delta_vector_operand_t rm) {
  enum { NO_INDEX = 4, INDEX_FOLLOWS = 4, LONG_DISPLACEMENT = 0x80, REGISTER = 0xC0 };
  const uint8_t field = (uint8_t)((reg & 7) << 3);
  if (!rm.is_memory) {
    put(assembler, (uint8_t)(REGISTER | field | (rm.reg & 7)));
    return;
  }
  put(assembler, (uint8_t)(LONG_DISPLACEMENT | field | INDEX_FOLLOWS));
  put(assembler, (uint8_t)((rm.scale == 2 ? 1 << 6 : 0) | (rm.scale ? DELTA_RAX : NO_INDEX) << 3 | (rm.base & 7)));
  put_32(assembler, rm.displacement);
}

void delta_assemble_masked(delta_assembler_t *assembler, delta_vector_op_id_t id, uint8_t reg, uint8_t vvvv, delta_vector_operand_t rm,
                           uint8_t mask, bool zeroes) {
  const delta_vector_op_t *op = &vector_ops[id];
  const unsigned rm_number = rm.is_memory ? (unsigned)rm.base : rm.reg;
  const uint8_t v = (uint8_t)((~vvvv & 15u) << 3);
  if (assembler->wide) {
    // EVEX. Bit 4 of a register in rm stands where memory has its index's bit 3.
    put(assembler, 0x62);
    put(assembler, (uint8_t)(inverted(reg, 3, 7) | (rm.is_memory ? 0x40 : inverted(rm.reg, 4, 6)) | inverted(rm_number, 3, 5) |
                             inverted(reg, 4, 4) | op->map));
    put(assembler, (uint8_t)(op->w << 7 | v | 1 << 2 | op->prefix));
    put(assembler, (uint8_t)((zeroes ? 0x80 : 0) | 2 << 5 | inverted(vvvv, 4, 3) | mask));
  } else {
    put(assembler, 0xC4);
    put(assembler, (uint8_t)(inverted(reg, 3, 7) | 0x40 | inverted(rm_number, 3, 5) | op->map));
    put(assembler, (uint8_t)(op->w << 7 | v | 1 << 2 | op->prefix));
  }
  put(assembler, op->opcode);
  put_operand(assembler, reg, rm);
}

void delta_assemble_vector(delta_assembler_t *assembler, delta_vector_op_id_t id, uint8_t reg, uint8_t vvvv, delta_vector_operand_t rm) {
  delta_assemble_masked(assembler, id, reg, vvvv, rm, 0, false);
}

void delta_assemble_immediate(delta_assembler_t *assembler, uint8_t value) { put(assembler, value); }

static void put_stack(delta_assembler_t *assembler, uint8_t opcode, delta_gpr_t reg) {
  if (reg >= DELTA_R8) put(assembler, 0x41);
  put(assembler, (uint8_t)(opcode | (reg & 7)));
}

void delta_assemble_push(delta_assembler_t *assembler, delta_gpr_t reg) { put_stack(assembler, 0x50, reg); }
void delta_assemble_pop(delta_assembler_t *assembler, delta_gpr_t reg) { put_stack(assembler, 0x58, reg); }

// A 64-bit instruction of a register and the memory at RDI + displacement.
static void put_from_block(delta_assembler_t *assembler, uint8_t opcode, delta_gpr_t reg, int32_t displacement) {
  put(assembler, (uint8_t)(0x48 | (reg >= DELTA_R8 ? 4 : 0)));
  put(assembler, opcode);
  put(assembler, (uint8_t)(0x80 | (reg & 7) << 3 | DELTA_RDI));
  put_32(assembler, displacement);
}

void delta_assemble_load_pointer(delta_assembler_t *assembler, delta_gpr_t reg, int32_t displacement) {
  put_from_block(assembler, 0x8B, reg, displacement);
}

void delta_assemble_clear_index(delta_assembler_t *assembler) {
  put(assembler, 0x31);
  put(assembler, 0xC0);
}

void delta_assemble_loop_end(delta_assembler_t *assembler, int32_t step, int32_t displacement, size_t loop) {
  put(assembler, 0x48);
  put(assembler, 0x05);
  put_32(assembler, step);
  put_from_block(assembler, 0x3B, DELTA_RAX, displacement);
  put(assembler, 0x0F);
  put(assembler, 0x82);
  put_32(assembler, (int32_t)((int64_t)loop - (int64_t)(assembler->count + sizeof(int32_t))));
}

void delta_assemble_return(delta_assembler_t *assembler) {
  static const uint8_t clear_upper_and_return[] = {0xC5, 0xF8, 0x77, 0xC3};
  for (size_t i = 0; i < sizeof clear_upper_and_return; ++i) put(assembler, clear_upper_and_return[i]);
}
