// Elementary functions as code: those of onnx/graph/expr_math.h, operation by operation, so that results have the same bits.
//
// The definitions compute in float64, so a vector of float32 goes through in two halves. Constants stand in slots of the block like all that does not vary.
#ifndef DELTA_RUNTIME_CPU_COMPILED_MATH_H_
#define DELTA_RUNTIME_CPU_COMPILED_MATH_H_

#include "onnx/graph/expr.h"
#include "runtime/cpu/assembler.h"

// Registers of the compiler that writes the code: the first two are its temporaries, which a condition or a constant may take.
enum { DELTA_MATH_TEMPORARY = 0, DELTA_MATH_MASK = 1, DELTA_MATH_MOST_REGISTERS = 6 };

typedef struct delta_math_writer {
  delta_assembler_t *assembler;
  uint8_t registers[DELTA_MATH_MOST_REGISTERS];
  // Where a float64, given by its bits, stands in every place of a vector.
  delta_vector_operand_t (*constant)(void *self, uint64_t bits);
  void *self;
} delta_math_writer_t;

// How many registers the code of an instruction works in; 0: it is no function that has code.
int delta_math_register_count(delta_expr_op_t op);
// Whether the result takes the argument's sign once it is float32 again.
bool delta_math_copies_sign(delta_expr_op_t op);
// Writes the code for half a vector: the argument comes as float64 in the first register, and the result leaves in it.
void delta_math_write(delta_math_writer_t *writer, delta_expr_op_t op);

#endif // DELTA_RUNTIME_CPU_COMPILED_MATH_H_
