// Code of an expression: one pass over the instructions, registers given as values come up and taken back after their last use.
//
// Note [Lazy comparisons]
// A comparison whose only readers are selects is written where a select needs it, into a mask, so that its 1 or 0 never stands in a register. Its operands
// live until then.
//
// Note [Groups of sums]
// What sums by lane cost is widening to float64, twice a vector and output: from memory it is half the work of what it is from a register, whose upper half has
// to be brought down first. So values go to memory as they come up, and sums are taken for a group of vectors, when those of the first are long there. The sums
// of a group begin with its first vector; then they are added to the block's, so that additions of one vector hardly wait for those of another.
#include "runtime/cpu/compiled_code.h"

#include <string.h>

#include "runtime/cpu/compiled_math.h"

enum { TEMPORARIES = 2, FIRST_TEMPORARY = 0, SECOND_TEMPORARY = 1, NEVER = INT16_MAX, MASK = 1 };

// Predicates of comparisons that do not signal.
enum { EQUAL = 0x00, UNORDERED = 0x03, NOT_EQUAL = 0x04, LESS = 0x11, LESS_OR_EQUAL = 0x12, GREATER_OR_EQUAL = 0x1D, GREATER = 0x1E };
enum { ROUND_NEAREST = 8, ROUND_DOWN = 9, ROUND_UP = 10 };

typedef enum code_form {
  FORM_NONE,
  FORM_BINARY,  // one instruction
  FORM_COMPARE, // by predicate `code`
  FORM_EXTREME, // smaller or larger, NaN wins
  FORM_ROUND,   // by mode `code`
  FORM_RELU,
  FORM_NEGATE,
  FORM_ABSOLUTE,
  FORM_RECIPROCAL,
  FORM_ROOT,
  FORM_IS_NAN,
  FORM_IS_ZERO,
  FORM_SELECT,
  FORM_FUNCTION, // compiled_math.h
} code_form_t;

typedef struct code_row {
  code_form_t form;
  uint8_t code; // vector operation, predicate or mode
} code_row_t;

static const code_row_t code_rows[DELTA_EXPR_OP_COUNT] = {
    [DELTA_EXPR_ADD] = {FORM_BINARY, DELTA_VECTOR_ADD},
    [DELTA_EXPR_SUB] = {FORM_BINARY, DELTA_VECTOR_SUB},
    [DELTA_EXPR_MUL] = {FORM_BINARY, DELTA_VECTOR_MUL},
    [DELTA_EXPR_DIV] = {FORM_BINARY, DELTA_VECTOR_DIV},
    [DELTA_EXPR_MIN] = {FORM_EXTREME, DELTA_VECTOR_MIN},
    [DELTA_EXPR_MAX] = {FORM_EXTREME, DELTA_VECTOR_MAX},
    [DELTA_EXPR_NEG] = {FORM_NEGATE, 0},
    [DELTA_EXPR_ABS] = {FORM_ABSOLUTE, 0},
    [DELTA_EXPR_RECIPROCAL] = {FORM_RECIPROCAL, 0},
    [DELTA_EXPR_SQRT] = {FORM_ROOT, 0},
    [DELTA_EXPR_RELU] = {FORM_RELU, 0},
    [DELTA_EXPR_FLOOR] = {FORM_ROUND, ROUND_DOWN},
    [DELTA_EXPR_CEIL] = {FORM_ROUND, ROUND_UP},
    [DELTA_EXPR_ROUND] = {FORM_ROUND, ROUND_NEAREST},
    [DELTA_EXPR_EQ] = {FORM_COMPARE, EQUAL},
    [DELTA_EXPR_NE] = {FORM_COMPARE, NOT_EQUAL},
    [DELTA_EXPR_LT] = {FORM_COMPARE, LESS},
    [DELTA_EXPR_LE] = {FORM_COMPARE, LESS_OR_EQUAL},
    [DELTA_EXPR_GT] = {FORM_COMPARE, GREATER},
    [DELTA_EXPR_GE] = {FORM_COMPARE, GREATER_OR_EQUAL},
    [DELTA_EXPR_NOT] = {FORM_IS_ZERO, EQUAL},
    [DELTA_EXPR_ISNAN] = {FORM_IS_NAN, UNORDERED},
    [DELTA_EXPR_SELECT] = {FORM_SELECT, 0},
    [DELTA_EXPR_EXP] = {FORM_FUNCTION, 0},
    [DELTA_EXPR_EXPM1] = {FORM_FUNCTION, 0},
    [DELTA_EXPR_LOG] = {FORM_FUNCTION, 0},
    [DELTA_EXPR_LOG1P] = {FORM_FUNCTION, 0},
    [DELTA_EXPR_ERF] = {FORM_FUNCTION, 0},
    [DELTA_EXPR_TANH] = {FORM_FUNCTION, 0},
    [DELTA_EXPR_SIGMOID] = {FORM_FUNCTION, 0},
};

bool delta_compiled_has_code(delta_expr_op_t op) { return code_rows[op].form != FORM_NONE; }

typedef struct code_writer {
  delta_compiled_t *compiled; // which gets slots of constants
  delta_assembler_t *assembler;
  bool is_lazy[DELTA_EXPR_MAX_INSTRS]; // Note [Lazy comparisons]
  int16_t last_use[DELTA_EXPR_MAX_INSTRS];
  uint16_t uses[DELTA_EXPR_MAX_INSTRS];
  int8_t register_of[DELTA_EXPR_MAX_INSTRS];       // -1: none
  int8_t register_of_slot[DELTA_COMPILED_SLOTS];   // -1: read from memory
  uint16_t slot_reads[DELTA_COMPILED_SLOTS];       // in the loop
  uint32_t free_registers, used_registers, pinned; // bits; `used`: ever taken by a value
  int32_t displacement;                            // of the vector at hand within its group
  bool fails;
} code_writer_t;

static const delta_expr_instr_t *instr_at(const code_writer_t *writer, int32_t i) { return &writer->compiled->spec.expr->instrs[i]; }
static int arity_of(const delta_expr_instr_t *instr) { return delta_expr_op_info((delta_expr_op_t)instr->op)->arity; }
static bool is_code(const code_writer_t *writer, int32_t i) { return writer->compiled->is_live[i] && writer->compiled->is_varying[i]; }

static bool is_comparison(delta_expr_op_t op) {
  const code_form_t form = code_rows[op].form;
  return form == FORM_COMPARE || form == FORM_IS_NAN || form == FORM_IS_ZERO;
}

static bool is_stored(const code_writer_t *writer, int32_t i) {
  const delta_compiled_spec_t *spec = &writer->compiled->spec;
  for (uint16_t k = 0; k < spec->expr->output_count; ++k)
    if (spec->is_wanted[k] && spec->expr->outputs[k] == i) return true;
  return false;
}

// Counts uses; finds comparisons that only selects read, and after which instruction a value is no longer needed.
static void find_uses(code_writer_t *writer) {
  const delta_expr_t *expr = writer->compiled->spec.expr;
  for (int32_t i = 0; i < expr->instr_count; ++i)
    writer->is_lazy[i] = is_code(writer, i) && is_comparison((delta_expr_op_t)instr_at(writer, i)->op) && !is_stored(writer, i);
  for (int32_t i = 0; i < expr->instr_count; ++i) {
    const delta_expr_instr_t *instr = instr_at(writer, i);
    for (int k = 0; is_code(writer, i) && k < arity_of(instr); ++k) {
      ++writer->uses[instr->operands[k]];
      if (instr->op != DELTA_EXPR_SELECT || k != 0) writer->is_lazy[instr->operands[k]] = false;
      writer->last_use[instr->operands[k]] = (int16_t)i;
    }
  }
  for (int32_t i = expr->instr_count - 1; i >= 0; --i) {
    if (writer->compiled->spec.results == DELTA_COMPILED_STORED && is_stored(writer, i)) writer->last_use[i] = NEVER;
    for (int k = 0; writer->is_lazy[i] && k < arity_of(instr_at(writer, i)); ++k) {
      const uint16_t operand = instr_at(writer, i)->operands[k];
      if (writer->last_use[i] > writer->last_use[operand]) writer->last_use[operand] = writer->last_use[i];
    }
  }
}

static delta_vector_operand_t slot_memory(int16_t slot) {
  return delta_in_memory(DELTA_RDI, 0,
                         (int32_t)(offsetof(delta_compiled_block_t, slots) + (size_t)slot * sizeof(float[DELTA_COMPILED_LANES])));
}

static delta_vector_operand_t slot_operand(code_writer_t *writer, int16_t slot) {
  ++writer->slot_reads[slot];
  if (writer->register_of_slot[slot] >= 0) return delta_in_register((uint8_t)writer->register_of_slot[slot]);
  return slot_memory(slot);
}

static const delta_gpr_t pointer_registers[DELTA_COMPILED_POINTERS] = {DELTA_RCX, DELTA_RDX, DELTA_RSI, DELTA_R8,  DELTA_R9,
                                                                       DELTA_R10, DELTA_R11, DELTA_RBX, DELTA_RBP, DELTA_R12,
                                                                       DELTA_R13, DELTA_R14, DELTA_R15};
enum { FIRST_SAVED_POINTER = 7 };

static delta_vector_operand_t pointer_operand(const code_writer_t *writer, int16_t pointer) {
  return delta_in_memory(pointer_registers[pointer], 1, writer->displacement);
}

// Where a value stands.
static delta_vector_operand_t operand_of(code_writer_t *writer, int32_t i) {
  if (!writer->compiled->is_varying[i]) return slot_operand(writer, writer->compiled->slot_of[i]);
  if (writer->register_of[i] >= 0) return delta_in_register((uint8_t)writer->register_of[i]);
  return pointer_operand(writer, writer->compiled->pointer_of_input[instr_at(writer, i)->operands[0]]);
}

// A free register, or that of an input, which can be read again.
static uint8_t take_register(code_writer_t *writer) {
  const delta_expr_t *expr = writer->compiled->spec.expr;
  for (int32_t i = 0; writer->free_registers == 0 && i < expr->instr_count; ++i) {
    const bool is_held = writer->register_of[i] >= 0 && instr_at(writer, i)->op == DELTA_EXPR_INPUT;
    if (!is_held || (writer->pinned >> writer->register_of[i] & 1u)) continue;
    writer->free_registers |= UINT32_C(1) << writer->register_of[i];
    writer->register_of[i] = -1;
  }
  if (writer->free_registers == 0) {
    writer->fails = true;
    return FIRST_TEMPORARY;
  }
  const uint8_t reg = (uint8_t)__builtin_ctz(writer->free_registers);
  writer->free_registers &= ~(UINT32_C(1) << reg);
  writer->used_registers |= UINT32_C(1) << reg;
  return reg;
}

static void release_dead(code_writer_t *writer, int32_t now) {
  for (int32_t i = 0; i <= now; ++i) {
    if (writer->register_of[i] < 0 || writer->last_use[i] > now) continue;
    writer->free_registers |= UINT32_C(1) << writer->register_of[i];
    writer->register_of[i] = -1;
  }
}

static void emit(code_writer_t *writer, delta_vector_op_id_t op, uint8_t reg, uint8_t vvvv, delta_vector_operand_t rm) {
  delta_assemble_vector(writer->assembler, op, reg, vvvv, rm);
}

// The register an operand stands in; from memory it comes to a temporary one.
static uint8_t to_register(code_writer_t *writer, delta_vector_operand_t operand, uint8_t temporary) {
  if (!operand.is_memory) return operand.reg;
  emit(writer, DELTA_VECTOR_LOAD, temporary, 0, operand);
  return temporary;
}

static void emit_zero(code_writer_t *writer, uint8_t reg) { emit(writer, DELTA_VECTOR_XOR, reg, reg, delta_in_register(reg)); }

// The condition of a comparison: into the mask of wide code, or the first temporary register of narrow code.
static void emit_condition(code_writer_t *writer, uint8_t predicate, delta_vector_operand_t a, delta_vector_operand_t b) {
  const uint8_t first = to_register(writer, a, SECOND_TEMPORARY);
  emit(writer, DELTA_VECTOR_COMPARE, writer->compiled->wide ? MASK : FIRST_TEMPORARY, first, b);
  delta_assemble_immediate(writer->assembler, predicate);
}

// out = condition ? yes : no
static void emit_blend(code_writer_t *writer, uint8_t out, delta_vector_operand_t yes, delta_vector_operand_t no) {
  const uint8_t other = to_register(writer, no, SECOND_TEMPORARY);
  if (writer->compiled->wide) {
    delta_assemble_masked(writer->assembler, DELTA_VECTOR_BLEND_MASKED, out, other, yes, MASK, false);
  } else {
    emit(writer, DELTA_VECTOR_BLEND_BY_SIGN, out, other, yes);
    delta_assemble_immediate(writer->assembler, FIRST_TEMPORARY << 4);
  }
}

// The condition that a comparison instruction states.
static void emit_comparison(code_writer_t *writer, const delta_expr_instr_t *instr) {
  const code_row_t *row = &code_rows[instr->op];
  const delta_vector_operand_t a = operand_of(writer, instr->operands[0]);
  if (row->form == FORM_IS_ZERO) {
    emit_zero(writer, FIRST_TEMPORARY);
    emit_condition(writer, row->code, delta_in_register(FIRST_TEMPORARY), a);
  } else if (row->form == FORM_IS_NAN) {
    const uint8_t value = to_register(writer, a, SECOND_TEMPORARY);
    emit_condition(writer, row->code, delta_in_register(value), delta_in_register(value));
  } else {
    emit_condition(writer, row->code, a, operand_of(writer, instr->operands[1]));
  }
}

static void emit_select_condition(code_writer_t *writer, int32_t condition) {
  if (writer->is_lazy[condition]) {
    emit_comparison(writer, instr_at(writer, condition));
    return;
  }
  emit_zero(writer, FIRST_TEMPORARY);
  emit_condition(writer, NOT_EQUAL, delta_in_register(FIRST_TEMPORARY), operand_of(writer, condition));
}

// The larger (smaller) of two, NaN wins: the instruction itself gives its last operand when one is NaN.
static void emit_extreme(code_writer_t *writer, uint8_t op, uint8_t out, delta_vector_operand_t a, delta_vector_operand_t b) {
  const uint8_t first = to_register(writer, a, SECOND_TEMPORARY);
  const bool wide = writer->compiled->wide;
  const delta_vector_operand_t held = delta_in_register(first);
  if (wide) {
    emit_condition(writer, UNORDERED, held, held);
    emit(writer, (delta_vector_op_id_t)op, FIRST_TEMPORARY, first, b);
    delta_assemble_masked(writer->assembler, DELTA_VECTOR_BLEND_MASKED, out, FIRST_TEMPORARY, held, MASK, false);
    return;
  }
  // Narrow code needs the temporary register for its condition, so the result comes first; no operand shares its register.
  emit(writer, (delta_vector_op_id_t)op, out, first, b);
  emit_condition(writer, UNORDERED, held, held);
  emit_blend(writer, out, held, delta_in_register(out));
}

static delta_vector_operand_t ones(code_writer_t *writer) { return slot_operand(writer, DELTA_COMPILED_SLOT_ONES); }

// 1 where the condition holds, else 0.
static void emit_truth(code_writer_t *writer, uint8_t out) {
  if (writer->compiled->wide) {
    const delta_vector_operand_t one = ones(writer);
    delta_assemble_masked(writer->assembler, DELTA_VECTOR_LOAD, out, 0, one, MASK, true);
  } else {
    emit(writer, DELTA_VECTOR_AND, out, FIRST_TEMPORARY, ones(writer));
  }
}

// out = half of `from` in float64; `from` and `out` differ.
static void emit_half(code_writer_t *writer, uint8_t out, uint8_t from, int half) {
  if (half == 1) {
    emit(writer, writer->compiled->wide ? DELTA_VECTOR_UPPER_HALF_512 : DELTA_VECTOR_UPPER_HALF_256, from, 0, delta_in_register(out));
    delta_assemble_immediate(writer->assembler, 1);
    from = out;
  }
  emit(writer, DELTA_VECTOR_WIDEN, out, 0, delta_in_register(from));
}

// The slot of a function's constant.
static delta_vector_operand_t constant_operand(void *self, uint64_t bits) {
  code_writer_t *writer = self;
  delta_compiled_t *compiled = writer->compiled;
  uint32_t slot = compiled->first_constant;
  while (slot < compiled->slot_count && compiled->constants[slot - compiled->first_constant] != bits) ++slot;
  if (slot == DELTA_COMPILED_SLOTS) {
    writer->fails = true;
    return delta_in_register(FIRST_TEMPORARY);
  }
  if (slot == compiled->slot_count) compiled->constants[compiled->slot_count++ - compiled->first_constant] = bits;
  return slot_operand(writer, (int16_t)slot);
}

// out = half of the argument, which stays, in float64
static void emit_argument(code_writer_t *writer, uint8_t out, delta_vector_operand_t argument, int half) {
  if (argument.is_memory) {
    argument.displacement += half * writer->compiled->width / 2 * (int32_t)sizeof(float);
    emit(writer, DELTA_VECTOR_WIDEN, out, 0, argument);
  } else {
    emit_half(writer, out, argument.reg, half);
  }
}

// A function of each half, and of both halves one vector. The argument and `out` do not share a register.
static void emit_function(code_writer_t *writer, delta_expr_op_t op, delta_vector_operand_t argument, uint8_t out) {
  const int count = delta_math_register_count(op);
  delta_math_writer_t math = {.assembler = writer->assembler, .constant = constant_operand, .self = writer};
  for (int k = 0; k < count; ++k) math.registers[k] = take_register(writer);
  for (int half = 0; half < 2; ++half) {
    emit_argument(writer, math.registers[0], argument, half);
    delta_math_write(&math, op);
    emit(writer, DELTA_VECTOR_NARROW, half == 0 ? out : FIRST_TEMPORARY, 0, delta_in_register(math.registers[0]));
  }
  emit(writer, writer->compiled->wide ? DELTA_VECTOR_INSERT_HALF_512 : DELTA_VECTOR_INSERT_HALF_256, out, out,
       delta_in_register(FIRST_TEMPORARY));
  delta_assemble_immediate(writer->assembler, 1);
  for (int k = 0; k < count; ++k) writer->free_registers |= UINT32_C(1) << math.registers[k];
  if (!delta_math_copies_sign(op)) return;
  const uint8_t sign = to_register(writer, slot_operand(writer, DELTA_COMPILED_SLOT_SIGN), FIRST_TEMPORARY);
  emit(writer, DELTA_VECTOR_AND_NOT, out, sign, delta_in_register(out));
  emit(writer, DELTA_VECTOR_AND, SECOND_TEMPORARY, sign, argument);
  emit(writer, DELTA_VECTOR_XOR, out, out, delta_in_register(SECOND_TEMPORARY));
}

// Writes one instruction. Operands may share their register with the result, so that is written last.
static void emit_instruction(code_writer_t *writer, const delta_expr_instr_t *instr, const delta_vector_operand_t *operands, uint8_t out) {
  const code_row_t *row = &code_rows[instr->op];
  const delta_vector_operand_t a = operands[0], b = operands[1];
  switch (row->form) {
    case FORM_BINARY:
      emit(writer, (delta_vector_op_id_t)row->code, out, to_register(writer, a, FIRST_TEMPORARY), b);
      return;
    case FORM_EXTREME:
      emit_extreme(writer, row->code, out, a, b);
      return;
    case FORM_ROUND:
      emit(writer, DELTA_VECTOR_ROUND, out, 0, a);
      delta_assemble_immediate(writer->assembler, row->code);
      return;
    case FORM_RELU:
      // The larger of 0 and x: x where x is NaN or both are zeros.
      emit_zero(writer, FIRST_TEMPORARY);
      emit(writer, DELTA_VECTOR_MAX, out, FIRST_TEMPORARY, a);
      return;
    case FORM_NEGATE:
      emit(writer, DELTA_VECTOR_XOR, out, to_register(writer, slot_operand(writer, DELTA_COMPILED_SLOT_SIGN), FIRST_TEMPORARY), a);
      return;
    case FORM_ABSOLUTE:
      emit(writer, DELTA_VECTOR_AND_NOT, out, to_register(writer, slot_operand(writer, DELTA_COMPILED_SLOT_SIGN), FIRST_TEMPORARY), a);
      return;
    case FORM_RECIPROCAL:
      emit(writer, DELTA_VECTOR_DIV, out, to_register(writer, ones(writer), FIRST_TEMPORARY), a);
      return;
    case FORM_ROOT:
      emit(writer, DELTA_VECTOR_SQRT, out, 0, a);
      return;
    case FORM_SELECT:
      emit_select_condition(writer, instr->operands[0]);
      emit_blend(writer, out, b, operands[2]);
      return;
    case FORM_FUNCTION:
      emit_function(writer, (delta_expr_op_t)instr->op, a, out);
      return;
    default:
      emit_comparison(writer, instr);
      emit_truth(writer, out);
      return;
  }
}

// The register in which half of an output's values of a group are added.
static uint8_t sum_register(const code_writer_t *writer, uint16_t output, int half) {
  const uint8_t last = writer->compiled->wide ? 31 : 15;
  return (uint8_t)(last - 2 * output - half);
}

// Whether the squares of an output's values are summed as well, as the next output.
static bool has_squares(const code_writer_t *writer, uint16_t output) {
  const delta_compiled_spec_t *spec = &writer->compiled->spec;
  return output + 1 < spec->expr->output_count && spec->is_square[output + 1];
}

// Where a vector's values of an output stand until its group ends.
static delta_vector_operand_t kept_operand(const code_writer_t *writer, uint16_t output) {
  const int32_t vector = writer->displacement / (writer->compiled->width * (int32_t)sizeof(float));
  return delta_in_memory(DELTA_RDI, 0,
                         (int32_t)(offsetof(delta_compiled_block_t, kept) +
                                   (size_t)(vector * DELTA_EXPR_MAX_OUTPUTS + output) * sizeof(float[DELTA_COMPILED_LANES])));
}

// Where a vector's values of an output can be read at the end of its group: those of inputs and those that do not vary stand where they did.
static delta_vector_operand_t summand_operand(const code_writer_t *writer, uint16_t output) {
  const int32_t value = writer->compiled->spec.expr->outputs[output];
  const delta_expr_instr_t *instr = instr_at(writer, value);
  if (!writer->compiled->is_varying[value]) return slot_memory(writer->compiled->slot_of[value]);
  if (instr->op == DELTA_EXPR_INPUT) return pointer_operand(writer, writer->compiled->pointer_of_input[instr->operands[0]]);
  return kept_operand(writer, output);
}

// Adds a vector to an output's sums by lane, which a group begins anew, and to those of its squares.
static void emit_lane_sum(code_writer_t *writer, uint16_t output) {
  const bool begins = writer->displacement == 0;
  delta_vector_operand_t from = summand_operand(writer, output);
  for (int half = 0; half < 2; ++half) {
    const uint8_t sum = sum_register(writer, output, half), added = begins ? sum : FIRST_TEMPORARY;
    emit(writer, DELTA_VECTOR_WIDEN, added, 0, from);
    from.displacement += writer->compiled->width / 2 * (int32_t)sizeof(float);
    if (!begins) emit(writer, DELTA_VECTOR_ADD_DOUBLE, sum, sum, delta_in_register(added));
    if (!has_squares(writer, output)) continue;
    const uint8_t squares = sum_register(writer, (uint16_t)(output + 1), half), square = begins ? squares : FIRST_TEMPORARY;
    emit(writer, DELTA_VECTOR_MUL_DOUBLE, square, added, delta_in_register(added));
    if (!begins) emit(writer, DELTA_VECTOR_ADD_DOUBLE, squares, squares, delta_in_register(square));
  }
}

// Adds half of a vector in float64 to an output's array.
static void emit_add_along(code_writer_t *writer, uint16_t output, uint8_t added, int half) {
  const int32_t half_bytes = writer->compiled->width / 2 * (int32_t)sizeof(double);
  const delta_vector_operand_t total =
      delta_in_memory(pointer_registers[writer->compiled->pointer_of_output[output]], 2, half * half_bytes);
  emit(writer, DELTA_VECTOR_ADD_DOUBLE, FIRST_TEMPORARY, added, total);
  emit(writer, DELTA_VECTOR_STORE, FIRST_TEMPORARY, 0, total);
}

// Adds to an output's array, and to that of its squares.
static void emit_sum_along(code_writer_t *writer, uint16_t output, uint8_t from) {
  const uint8_t added = has_squares(writer, output) ? take_register(writer) : FIRST_TEMPORARY;
  for (int half = 0; half < 2; ++half) {
    emit_half(writer, added, from, half);
    emit_add_along(writer, output, added, half);
    if (!has_squares(writer, output)) continue;
    emit(writer, DELTA_VECTOR_MUL_DOUBLE, added, added, delta_in_register(added));
    emit_add_along(writer, (uint16_t)(output + 1), added, half);
  }
  if (added != FIRST_TEMPORARY) writer->free_registers |= UINT32_C(1) << added;
}

// Squares go with the values they are of. Sums by lane are taken at the end of a group: Note [Groups of sums].
static void emit_sum(code_writer_t *writer, uint16_t output, int32_t value) {
  if (writer->compiled->spec.is_square[output]) return;
  const uint8_t from = to_register(writer, operand_of(writer, value), SECOND_TEMPORARY);
  if (writer->compiled->spec.results == DELTA_COMPILED_SUMMED) {
    emit(writer, DELTA_VECTOR_STORE, from, 0, kept_operand(writer, output));
  } else {
    emit_sum_along(writer, output, from);
  }
}

// Sums the vectors of a group by lane and adds the sums to those in the block, in float64.
static void emit_group_end(code_writer_t *writer, int32_t count) {
  const delta_compiled_spec_t *spec = &writer->compiled->spec;
  for (int32_t i = 0; i < count; ++i) {
    writer->displacement = i * writer->compiled->width * (int32_t)sizeof(float);
    for (uint16_t k = 0; k < spec->expr->output_count; ++k)
      if (spec->is_wanted[k] && !spec->is_square[k]) emit_lane_sum(writer, k);
  }
  for (uint16_t k = 0; k < spec->expr->output_count; ++k) {
    for (int half = 0; spec->is_wanted[k] && half < 2; ++half) {
      const size_t offset = offsetof(delta_compiled_block_t, sums) + k * sizeof(double[DELTA_COMPILED_LANES]) +
                            (size_t)half * (size_t)writer->compiled->width / 2 * sizeof(double);
      const delta_vector_operand_t total = delta_in_memory(DELTA_RDI, 0, (int32_t)offset);
      emit(writer, DELTA_VECTOR_ADD_DOUBLE, FIRST_TEMPORARY, sum_register(writer, k, half), total);
      emit(writer, DELTA_VECTOR_STORE, FIRST_TEMPORARY, 0, total);
    }
  }
}

// Brings an input into a register, if it is not in one.
static void hold_input(code_writer_t *writer, int32_t i) {
  if (writer->register_of[i] >= 0) return;
  const delta_vector_operand_t from = operand_of(writer, i);
  writer->register_of[i] = (int8_t)take_register(writer);
  emit(writer, DELTA_VECTOR_LOAD, (uint8_t)writer->register_of[i], 0, from);
}

// Brings inputs that are read more than once into registers.
static void hold_inputs(code_writer_t *writer, const delta_expr_instr_t *instr) {
  for (int k = 0; k < arity_of(instr); ++k) {
    const int32_t i = instr->operands[k];
    if (writer->is_lazy[i]) hold_inputs(writer, instr_at(writer, i));
    if (!is_code(writer, i)) continue;
    if (instr_at(writer, i)->op == DELTA_EXPR_INPUT && writer->uses[i] > 1) hold_input(writer, i);
    if (writer->register_of[i] >= 0) writer->pinned |= UINT32_C(1) << writer->register_of[i];
  }
}

// Outputs that are inputs come to registers before anything is stored: an output may have an input's bytes.
static void hold_stored_inputs(code_writer_t *writer) {
  const delta_compiled_spec_t *spec = &writer->compiled->spec;
  writer->pinned = 0;
  for (uint16_t k = 0; k < spec->expr->output_count; ++k) {
    const uint16_t value = spec->expr->outputs[k];
    if (!spec->is_wanted[k] || !is_code(writer, value)) continue;
    hold_input(writer, value);
    writer->pinned |= UINT32_C(1) << writer->register_of[value];
  }
}

static void emit_results(code_writer_t *writer, bool streams) {
  const delta_compiled_spec_t *spec = &writer->compiled->spec;
  if (spec->results == DELTA_COMPILED_STORED && spec->expr->output_count > 1) hold_stored_inputs(writer);
  for (uint16_t k = 0; k < spec->expr->output_count; ++k) {
    if (!spec->is_wanted[k]) continue;
    const int32_t value = spec->expr->outputs[k];
    if (spec->results != DELTA_COMPILED_STORED) {
      const bool is_computed = is_code(writer, value) && instr_at(writer, value)->op != DELTA_EXPR_INPUT;
      if (spec->results == DELTA_COMPILED_SUMMED_ALONG && !is_computed) emit_sum(writer, k, value);
      continue;
    }
    const uint8_t from = to_register(writer, operand_of(writer, value), FIRST_TEMPORARY);
    emit(writer, streams ? DELTA_VECTOR_STREAM : DELTA_VECTOR_STORE, from, 0,
         pointer_operand(writer, writer->compiled->pointer_of_output[k]));
  }
}

// Sums are taken as soon as their value is there.
static void emit_sums_of(code_writer_t *writer, int32_t value) {
  const delta_compiled_spec_t *spec = &writer->compiled->spec;
  for (uint16_t k = 0; spec->results != DELTA_COMPILED_STORED && k < spec->expr->output_count; ++k)
    if (spec->is_wanted[k] && spec->expr->outputs[k] == value) emit_sum(writer, k, value);
}

static void emit_values(code_writer_t *writer) {
  for (int32_t i = 0; i < writer->compiled->spec.expr->instr_count; ++i) {
    const delta_expr_instr_t *instr = instr_at(writer, i);
    if (!is_code(writer, i) || instr->op == DELTA_EXPR_INPUT || writer->is_lazy[i]) continue;
    writer->pinned = 0;
    hold_inputs(writer, instr);
    delta_vector_operand_t operands[3] = {{0}};
    for (int k = 0; k < arity_of(instr); ++k)
      if (!writer->is_lazy[instr->operands[k]]) operands[k] = operand_of(writer, instr->operands[k]);
    // Operands of comparisons must be found where they stand until the condition is written, so registers are given back after that.
    const delta_expr_op_t op = (delta_expr_op_t)instr->op;
    const code_form_t form = code_rows[op].form;
    const bool keeps = form == FORM_EXTREME || form == FORM_SELECT || form == FORM_FUNCTION || is_comparison(op);
    if (!keeps) release_dead(writer, i);
    const uint8_t out = take_register(writer);
    emit_instruction(writer, instr, operands, out);
    release_dead(writer, i);
    writer->register_of[i] = (int8_t)out;
    emit_sums_of(writer, i);
    if (writer->last_use[i] <= i) release_dead(writer, i);
  }
}

static void save_registers(code_writer_t *writer, bool restores) {
  for (int k = 0; k < DELTA_COMPILED_POINTERS - FIRST_SAVED_POINTER; ++k) {
    if (restores) {
      delta_assemble_pop(writer->assembler, pointer_registers[DELTA_COMPILED_POINTERS - 1 - k]);
    } else {
      delta_assemble_push(writer->assembler, pointer_registers[FIRST_SAVED_POINTER + k]);
    }
  }
}

static uint32_t registers_for_values(const code_writer_t *writer) {
  const delta_compiled_spec_t *spec = &writer->compiled->spec;
  uint32_t registers = (writer->compiled->wide ? UINT32_MAX : UINT16_MAX) & ~((UINT32_C(1) << TEMPORARIES) - 1);
  for (uint16_t k = 0; spec->results == DELTA_COMPILED_SUMMED && k < spec->expr->output_count; ++k) {
    for (int half = 0; half < 2; ++half) registers &= ~(UINT32_C(1) << sum_register(writer, k, half));
  }
  return registers;
}

static void load_pointers(code_writer_t *writer) {
  for (uint32_t p = 0; p < writer->compiled->pointer_count; ++p)
    delta_assemble_load_pointer(writer->assembler, pointer_registers[p],
                                (int32_t)(offsetof(delta_compiled_block_t, pointers) + p * sizeof(void *)));
}

// Values that do not vary, each into its slot.
static void emit_constants(code_writer_t *writer) {
  enum { RESULT = TEMPORARIES };
  const delta_compiled_t *compiled = writer->compiled;
  for (int32_t i = 0; i < compiled->spec.expr->instr_count; ++i) {
    const delta_expr_instr_t *instr = instr_at(writer, i);
    if (compiled->slot_of[i] < 0 || compiled->is_outside[i] || instr->op == DELTA_EXPR_INPUT || instr->op == DELTA_EXPR_CONST) continue;
    delta_vector_operand_t operands[3] = {{0}};
    for (int k = 0; k < arity_of(instr); ++k) operands[k] = operand_of(writer, instr->operands[k]);
    emit_instruction(writer, instr, operands, RESULT);
    emit(writer, DELTA_VECTOR_STORE, RESULT, 0, slot_operand(writer, compiled->slot_of[i]));
  }
}

static void load_slots(code_writer_t *writer, const int8_t *registers) {
  for (int16_t slot = 0; slot < (int16_t)writer->compiled->slot_count; ++slot) {
    if (registers[slot] >= 0) emit(writer, DELTA_VECTOR_LOAD, (uint8_t)registers[slot], 0, slot_operand(writer, slot));
  }
  memcpy(writer->register_of_slot, registers, sizeof writer->register_of_slot);
}

// The function, with the values in `registers` and slots in those of `slot_registers`.
static void write_function(code_writer_t *writer, delta_compiled_form_t form, uint32_t registers, const int8_t *slot_registers) {
  const delta_compiled_t *compiled = writer->compiled;
  const int32_t vector_bytes = compiled->width * (int32_t)sizeof(float), count = form == DELTA_COMPILED_GROUPS ? DELTA_COMPILED_GROUP : 1;
  save_registers(writer, false);
  load_pointers(writer);
  emit_constants(writer);
  load_slots(writer, slot_registers);
  memset(writer->slot_reads, 0, sizeof writer->slot_reads);
  delta_assemble_clear_index(writer->assembler);
  const size_t loop = writer->assembler->count;
  for (int32_t i = 0; i < count; ++i) {
    writer->displacement = i * vector_bytes;
    writer->free_registers = registers;
    memset(writer->register_of, -1, sizeof writer->register_of);
    emit_values(writer);
    emit_results(writer, form == DELTA_COMPILED_STREAMS);
  }
  if (compiled->spec.results == DELTA_COMPILED_SUMMED) emit_group_end(writer, count);
  delta_assemble_loop_end(writer->assembler, count * vector_bytes, offsetof(delta_compiled_block_t, size_bytes), loop);
  save_registers(writer, true);
  delta_assemble_return(writer->assembler);
}

static void begin_writer(code_writer_t *writer, delta_compiled_t *compiled, delta_assembler_t *assembler) {
  *writer = (code_writer_t){.compiled = compiled, .assembler = assembler};
  memset(writer->register_of, -1, sizeof writer->register_of);
  memset(writer->register_of_slot, -1, sizeof writer->register_of_slot);
  find_uses(writer);
}

// Registers that no value ever takes hold the slots that are read most.
static void hold_slots(const code_writer_t *writer, uint32_t registers, int8_t *slot_registers) {
  while (registers) {
    int16_t best = -1;
    uint32_t most = 0;
    for (int16_t slot = 0; slot < (int16_t)writer->compiled->slot_count; ++slot) {
      const uint32_t reads = slot_registers[slot] < 0 ? writer->slot_reads[slot] : 0;
      if (reads > most) most = reads, best = slot;
    }
    if (best < 0) return;
    slot_registers[best] = (int8_t)__builtin_ctz(registers);
    registers &= registers - 1;
  }
}

// Written twice: the first time shows which registers values take; the others can hold slots.
bool delta_compiled_write(delta_compiled_t *compiled, delta_compiled_form_t form, delta_assembler_t *assembler) {
  code_writer_t writer;
  int8_t slot_registers[DELTA_COMPILED_SLOTS];
  const size_t start = assembler->count;
  memset(slot_registers, -1, sizeof slot_registers);
  begin_writer(&writer, compiled, assembler);
  const uint32_t registers = registers_for_values(&writer);
  write_function(&writer, form, registers, slot_registers);
  const uint32_t used = writer.used_registers;
  if (writer.fails) return false;
  hold_slots(&writer, registers & ~used, slot_registers);
  assembler->count = start;
  begin_writer(&writer, compiled, assembler);
  write_function(&writer, form, used, slot_registers);
  return !writer.fails;
}
