// Planning of compiled expressions, their memory, and the slots of a run.
#include "runtime/cpu/compiled.h"

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/cpu/compiled_code.h"
#include "runtime/cpu/compiled_math.h"
#include "runtime/cpu/instruction_set.h"
#include "runtime/cpu/tile.h"

// Each takes two of sixteen registers.
enum { MOST_NARROW_SUMS = 5 };

int32_t delta_compiled_width(void) {
  static const int32_t widths[] = {
      [DELTA_INSTRUCTION_SET_SSE2] = 0, [DELTA_INSTRUCTION_SET_AVX2] = 8, [DELTA_INSTRUCTION_SET_AVX512] = DELTA_COMPILED_LANES};
  return widths[delta_cpu_instruction_set()];
}

static bool has_operand(const delta_expr_instr_t *instr, int k) { return k < delta_expr_op_info((delta_expr_op_t)instr->op)->arity; }

static void find_live(delta_compiled_t *compiled) {
  const delta_expr_t *expr = compiled->spec.expr;
  for (uint16_t k = 0; k < expr->output_count; ++k)
    if (compiled->spec.is_wanted[k]) compiled->is_live[expr->outputs[k]] = true;
  for (int32_t i = expr->instr_count - 1; i >= 0; --i) {
    for (int k = 0; compiled->is_live[i] && has_operand(&expr->instrs[i], k); ++k) compiled->is_live[expr->instrs[i].operands[k]] = true;
  }
}

static bool take_slot(delta_compiled_t *compiled, int16_t *out_slot) {
  if (compiled->slot_count == DELTA_COMPILED_SLOTS) return false;
  *out_slot = (int16_t)compiled->slot_count++;
  return true;
}

static bool take_pointer(delta_compiled_t *compiled, int16_t *out_pointer) {
  if (compiled->pointer_count == DELTA_COMPILED_POINTERS) return false;
  *out_pointer = (int16_t)compiled->pointer_count++;
  return true;
}

// Places an input: a pointer or a slot.
static const char *place_input(delta_compiled_t *compiled, uint16_t instr) {
  const uint16_t input = compiled->spec.expr->instrs[instr].operands[0];
  compiled->is_varying[instr] = compiled->spec.is_dense[input];
  if (compiled->spec.is_dense[input]) {
    if (compiled->pointer_of_input[input] >= 0) return NULL;
    return take_pointer(compiled, &compiled->pointer_of_input[input]) ? NULL : "too many tensors for its registers";
  }
  if (compiled->slot_of_input[input] < 0 && !take_slot(compiled, &compiled->slot_of_input[input])) return "too many values at once";
  compiled->slot_of[instr] = compiled->slot_of_input[input];
  return NULL;
}

static const char *place_values(delta_compiled_t *compiled) {
  const delta_expr_t *expr = compiled->spec.expr;
  for (uint16_t i = 0; i < expr->instr_count; ++i) {
    const delta_expr_instr_t *instr = &expr->instrs[i];
    if (!compiled->is_live[i]) continue;
    if (instr->op == DELTA_EXPR_INPUT) {
      const char *reason = place_input(compiled, i);
      if (reason) return reason;
      continue;
    }
    for (int k = 0; has_operand(instr, k); ++k) compiled->is_varying[i] |= compiled->is_varying[instr->operands[k]];
    if (!compiled->is_varying[i]) {
      if (!take_slot(compiled, &compiled->slot_of[i])) return "too many values at once";
    } else if (!delta_compiled_has_code((delta_expr_op_t)instr->op)) {
      return "an instruction has no vector form";
    }
  }
  for (uint16_t k = 0; k < expr->output_count; ++k) {
    if (compiled->spec.results == DELTA_COMPILED_SUMMED || !compiled->spec.is_wanted[k]) continue;
    if (!take_pointer(compiled, &compiled->pointer_of_output[k])) return "too many tensors for its registers";
  }
  return NULL;
}

// Whether an instruction on values that do not vary is computed by tiles' functions.
static bool is_outside(delta_expr_op_t op) { return !delta_compiled_has_code(op) || delta_math_register_count(op) > 0; }

// Values that do not vary are computed in front of the loop, but for functions and what has no code, and what these need.
static void find_outside(delta_compiled_t *compiled) {
  const delta_expr_t *expr = compiled->spec.expr;
  for (int32_t i = expr->instr_count - 1; i >= 0; --i) {
    const delta_expr_instr_t *instr = &expr->instrs[i];
    if (compiled->slot_of[i] < 0 || instr->op == DELTA_EXPR_INPUT || instr->op == DELTA_EXPR_CONST) {
      compiled->is_outside[i] = false;
      continue;
    }
    compiled->is_outside[i] |= is_outside((delta_expr_op_t)instr->op);
    compiled->has_outside |= compiled->is_outside[i];
    for (int k = 0; compiled->is_outside[i] && has_operand(instr, k); ++k) compiled->is_outside[instr->operands[k]] = true;
  }
}

const char *delta_compiled_plan(delta_compiled_t *compiled, const delta_compiled_spec_t *spec) {
  *compiled = (delta_compiled_t){.spec = *spec, .width = delta_compiled_width(), .slot_count = DELTA_COMPILED_FIRST_SLOT};
  if (compiled->width == 0) return "the processor has no AVX2";
  if (spec->expr->compute != DELTA_DTYPE_FLOAT32) return "the expression does not compute in float32";
  compiled->wide = compiled->width == DELTA_COMPILED_LANES;
  for (size_t i = 0; i < DELTA_EXPR_MAX_INSTRS; ++i) compiled->slot_of[i] = -1;
  for (size_t k = 0; k < DELTA_EXPR_MAX_INPUTS; ++k) compiled->slot_of_input[k] = compiled->pointer_of_input[k] = -1;
  for (size_t k = 0; k < DELTA_EXPR_MAX_OUTPUTS; ++k) compiled->pointer_of_output[k] = -1;
  const bool is_summed = spec->results == DELTA_COMPILED_SUMMED;
  if (is_summed && !compiled->wide && spec->expr->output_count > MOST_NARROW_SUMS) return "too many sums at once";
  find_live(compiled);
  const char *reason = place_values(compiled);
  if (reason) return reason;
  find_outside(compiled);
  compiled->first_constant = compiled->slot_count;
  delta_assembler_t assembler = {.wide = compiled->wide};
  const delta_compiled_form_t form = is_summed ? DELTA_COMPILED_GROUPS : DELTA_COMPILED_PLAIN;
  if (!delta_compiled_write(compiled, form, &assembler)) return "too many values at once";
  return assembler.overflow ? "the expression is too long" : NULL;
}

delta_status_t delta_compiled_make(delta_compiled_t *compiled) {
  delta_assembler_t assembler = {.wide = compiled->wide};
  const delta_compiled_form_t second = compiled->spec.results == DELTA_COMPILED_SUMMED ? DELTA_COMPILED_GROUPS : DELTA_COMPILED_STREAMS;
  const bool has_first = delta_compiled_write(compiled, DELTA_COMPILED_PLAIN, &assembler);
  compiled->second_at = assembler.count;
  if (!has_first || !delta_compiled_write(compiled, second, &assembler) || assembler.overflow)
    return delta_status_make(UNSUPPORTED, "an expression is too long to be compiled");
  const size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  const size_t size_bytes = (assembler.count + page_bytes - 1) / page_bytes * page_bytes;
  void *memory = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return delta_status_make(OUT_OF_MEMORY, "there is no memory for %zu bytes of code", size_bytes);
  memcpy(memory, assembler.bytes, assembler.count);
  if (mprotect(memory, size_bytes, PROT_READ | PROT_EXEC) != 0) {
    munmap(memory, size_bytes);
    return delta_status_make(UNSUPPORTED, "the system does not let memory become code");
  }
  compiled->code = memory;
  compiled->code_bytes = size_bytes;
  return DELTA_OK;
}

void delta_compiled_deinit(delta_compiled_t *compiled) {
  if (compiled->code) munmap(compiled->code, compiled->code_bytes);
  compiled->code = NULL;
}

static void fill_slot(delta_compiled_block_t *block, int16_t slot, float value) {
  for (int lane = 0; lane < DELTA_COMPILED_LANES; ++lane) block->slots[slot][lane] = value;
}

void delta_compiled_begin(const delta_compiled_t *compiled, delta_compiled_block_t *block) {
  const delta_expr_t *expr = compiled->spec.expr;
  fill_slot(block, DELTA_COMPILED_SLOT_SIGN, -0.0f);
  fill_slot(block, DELTA_COMPILED_SLOT_ONES, 1.0f);
  for (uint16_t i = 0; i < expr->instr_count; ++i) {
    if (expr->instrs[i].op == DELTA_EXPR_CONST && compiled->slot_of[i] >= 0)
      fill_slot(block, compiled->slot_of[i], (float)expr->instrs[i].immediate.real);
  }
  for (uint32_t slot = compiled->first_constant; slot < compiled->slot_count; ++slot) {
    for (size_t at = 0; at < sizeof block->slots[slot]; at += sizeof(double))
      memcpy((char *)block->slots[slot] + at, &compiled->constants[slot - compiled->first_constant], sizeof(double));
  }
}

void delta_compiled_update(const delta_compiled_t *compiled, delta_compiled_block_t *block) {
  const delta_expr_t *expr = compiled->spec.expr;
  for (uint16_t i = 0; compiled->has_outside && i < expr->instr_count; ++i) {
    const delta_expr_instr_t *instr = &expr->instrs[i];
    if (!compiled->is_outside[i]) continue;
    const float *operands[3] = {NULL, NULL, NULL};
    for (int k = 0; has_operand(instr, k); ++k) operands[k] = block->slots[compiled->slot_of[instr->operands[k]]];
    delta_tile_apply((delta_expr_op_t)instr->op, block->slots[compiled->slot_of[i]], operands, DELTA_COMPILED_LANES);
  }
}

static void call(const delta_compiled_t *compiled, delta_compiled_block_t *block, bool is_second) {
  void (*function)(delta_compiled_block_t *);
  const uint8_t *start = compiled->code + (is_second ? compiled->second_at : 0);
  memcpy(&function, &start, sizeof function);
  function(block);
}

// Groups first, then the vectors that are left.
static void call_sums(const delta_compiled_t *compiled, delta_compiled_block_t *block) {
  const int64_t group_bytes = DELTA_COMPILED_GROUP * compiled->width * (int64_t)sizeof(float);
  const int64_t whole_bytes = block->size_bytes / group_bytes * group_bytes, rest_bytes = block->size_bytes - whole_bytes;
  if (whole_bytes > 0) {
    block->size_bytes = whole_bytes;
    call(compiled, block, true);
  }
  if (rest_bytes == 0) return;
  for (uint32_t p = 0; p < compiled->pointer_count; ++p) block->pointers[p] = (const char *)block->pointers[p] + whole_bytes;
  block->size_bytes = rest_bytes;
  call(compiled, block, false);
}

void delta_compiled_run(const delta_compiled_t *compiled, delta_compiled_block_t *block, bool streams) {
  if (compiled->spec.results == DELTA_COMPILED_SUMMED) {
    call_sums(compiled, block);
  } else {
    call(compiled, block, streams);
  }
}

void delta_compiled_end_streams(void) {
#if defined(__x86_64__)
  __builtin_ia32_sfence();
#endif
}
