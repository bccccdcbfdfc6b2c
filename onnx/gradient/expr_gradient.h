// Derivative of an expression: from a forward expression and gradients of its outputs to an expression that gives gradients of its inputs.
//
// Note [What a gradient reads]
// What a derivative reads must be kept in memory from the forward to the backward pass, so this is where memory is won or lost. Nothing new is ever
// stored: a value that a rule needs is an input of the forward node, one of its outputs, or computed again from those. Rules of operators whose
// derivative is cheap in their result (relu, tanh, sigmoid, exp, sqrt, reciprocal, tan, expm1) ask for the result, all others for operands. Whether
// values may be taken from outputs is decided for the node as a whole, by the bytes that all its wanted gradients read together: fewer wins, and on a
// tie outputs do, as in PyTorch. So relu alone reads its output, but a batch normalization with relu, which reads its input anyway, only that.
//
// Conventions where the derivative is not defined are PyTorch's: relu, abs and sign give 0 at 0; min and max share a tie evenly
// (torch.maximum), but against a constant the tensor takes all of it (torch.clamp); a power with exponent 0 has gradient 0.
#ifndef DELTA_ONNX_GRADIENT_EXPR_GRADIENT_H_
#define DELTA_ONNX_GRADIENT_EXPR_GRADIENT_H_

#include "onnx/graph/expr.h"

#define DELTA_EXPR_NONE UINT16_MAX // no such instruction: a zero gradient

typedef struct delta_expr_gradient {
  delta_expr_builder_t builder; // The expression under construction; its compute type is the forward expression's.
  const delta_expr_t *forward;  // Borrowed.
  // Input k of the new expression reads source sources[k]. Sources below DELTA_EXPR_MAX_INPUTS are the forward expression's inputs; the caller numbers
  // others (gradients of outputs, stored outputs) from there on. Only sources that are read take an input.
  uint16_t sources[DELTA_EXPR_MAX_INPUTS];
  uint16_t values[DELTA_EXPR_MAX_INSTRS];   // forward instruction -> instruction here, or NONE
  uint16_t stored[DELTA_EXPR_MAX_INSTRS];   // forward instruction -> source that holds its value, or NONE
  uint16_t adjoints[DELTA_EXPR_MAX_INSTRS]; // forward instruction -> its gradient here, or NONE
} delta_expr_gradient_t;

void delta_expr_gradient_init(delta_expr_gradient_t *gradient, const delta_expr_t *forward);
// The value of forward instruction `instr` may be read from `source`.
void delta_expr_gradient_store(delta_expr_gradient_t *gradient, uint16_t instr, uint16_t source);
// The instruction that loads a source.
uint16_t delta_expr_gradient_source(delta_expr_gradient_t *gradient, uint16_t source);
// The instruction that gives the value of a forward instruction.
uint16_t delta_expr_gradient_value(delta_expr_gradient_t *gradient, uint16_t instr);
// Adds `adjoint` (an instruction here) to the gradient of forward instruction `instr`.
void delta_expr_gradient_add(delta_expr_gradient_t *gradient, uint16_t instr, uint16_t adjoint);
// Propagates from the instructions with gradients to the inputs whose bit is set in `wanted`; out_gradients[k], for each of the forward's inputs, is
// the instruction with its gradient, or DELTA_EXPR_NONE. gradient->builder.overflow: the expression is too long and must not be used.
void delta_expr_gradient_run(delta_expr_gradient_t *gradient, uint32_t wanted, uint16_t *out_gradients);

#endif // DELTA_ONNX_GRADIENT_EXPR_GRADIENT_H_
