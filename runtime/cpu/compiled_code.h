// Writes the code of a planned expression: what compiled.c and compiled_code.c share.
#ifndef DELTA_RUNTIME_CPU_COMPILED_CODE_H_
#define DELTA_RUNTIME_CPU_COMPILED_CODE_H_

#include "runtime/cpu/assembler.h"
#include "runtime/cpu/compiled.h"

// Slots that every block has.
enum { DELTA_COMPILED_SLOT_SIGN, DELTA_COMPILED_SLOT_ONES, DELTA_COMPILED_FIRST_SLOT };

// Whether code exists for an instruction on varying values.
bool delta_compiled_has_code(delta_expr_op_t op);

// Forms of the code.
typedef enum delta_compiled_form {
  DELTA_COMPILED_PLAIN,
  DELTA_COMPILED_STREAMS, // stores go around the cache
  DELTA_COMPILED_GROUPS,  // of sums: several vectors at once
} delta_compiled_form_t;

// Writes a function of one argument, the block, and gives slots to constants that have none yet. False when registers or slots do not suffice.
bool delta_compiled_write(delta_compiled_t *compiled, delta_compiled_form_t form, delta_assembler_t *assembler);

#endif // DELTA_RUNTIME_CPU_COMPILED_CODE_H_
