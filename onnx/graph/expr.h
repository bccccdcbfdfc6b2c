// Expression: the small program a pointwise or reduce node runs for each element of its broadcast inputs.
//
// Note [Expression semantics]
// All instructions of an expression compute in one type: float32, float64 or int64. Inputs of any element type convert to it when loaded
// (bool gives 0 or 1), results convert to the output tensor's type when stored (float to integer truncates and saturates, to bool is != 0).
// Instruction i may read only instructions before i. Every value is a pure function of the inputs' elements at the same (broadcast) index.
#ifndef DELTA_ONNX_GRAPH_EXPR_H_
#define DELTA_ONNX_GRAPH_EXPR_H_

#include "base/dtype.h"
#include "base/region.h"

typedef enum delta_expr_op {
#define X(id, name, arity) DELTA_EXPR_##id,
#include "onnx/graph/expr_ops.inc"
#undef X
  DELTA_EXPR_OP_COUNT
} delta_expr_op_t;

typedef struct delta_expr_instr {
  uint16_t op;          // delta_expr_op_t
  uint16_t operands[3]; // indices of earlier instructions; for INPUT operands[0] is the input's index
  union {
    double real;     // CONST, when the expression computes in a float type
    int64_t integer; // CONST, when it computes in int64
  } immediate;
} delta_expr_instr_t;

// Largest number of instructions, inputs and outputs; fusion stops there.
enum { DELTA_EXPR_MAX_INSTRS = 96, DELTA_EXPR_MAX_INPUTS = 16, DELTA_EXPR_MAX_OUTPUTS = 8 };

typedef struct delta_expr {
  delta_dtype_t compute; // FLOAT32, FLOAT64 or INT64
  uint16_t input_count;
  uint16_t instr_count;
  uint16_t output_count;
  uint16_t outputs[DELTA_EXPR_MAX_OUTPUTS]; // instruction that gives each output
  delta_expr_instr_t *instrs;               // Owned by the graph's region.
} delta_expr_t;

typedef struct delta_expr_op_info {
  const char *name;
  int arity;
} delta_expr_op_info_t;
const delta_expr_op_info_t *delta_expr_op_info(delta_expr_op_t op);

// Builds an expression on the stack; equal instructions are shared (common subexpressions), constants fold.
typedef struct delta_expr_builder {
  delta_expr_t expr; // expr.instrs points at `storage`
  delta_expr_instr_t storage[DELTA_EXPR_MAX_INSTRS];
  bool overflow; // too many instructions: the expression must not be used
} delta_expr_builder_t;

void delta_expr_builder_init(delta_expr_builder_t *builder, delta_dtype_t compute);
uint16_t delta_expr_input(delta_expr_builder_t *builder, uint16_t input_index);
uint16_t delta_expr_real(delta_expr_builder_t *builder, double value);     // in int64 expressions: the truncated value
uint16_t delta_expr_integer(delta_expr_builder_t *builder, int64_t value); // in float expressions: the converted value
// An instruction of one, two or three operands; unused ones are 0.
uint16_t delta_expr_unary(delta_expr_builder_t *builder, delta_expr_op_t op, uint16_t a);
uint16_t delta_expr_binary(delta_expr_builder_t *builder, delta_expr_op_t op, uint16_t a, uint16_t b);
uint16_t delta_expr_select(delta_expr_builder_t *builder, uint16_t condition, uint16_t a, uint16_t b);
void delta_expr_output(delta_expr_builder_t *builder, uint16_t instr);

// Whether an operation gives 0 or 1: comparisons, logic, tests.
bool delta_expr_gives_bool(delta_expr_op_t op);

// Any operation: operands beyond its arity are ignored.
uint16_t delta_expr_apply(delta_expr_builder_t *builder, delta_expr_op_t op, const uint16_t operands[3]);
// Appends what `from` needs for its outputs; inputs[k] is the builder's instruction that stands for input k. out_instrs[k] gives output k.
// What is appended does not depend on the order in which `from` was built, so neither does a graph on a compiler's order of arguments.
void delta_expr_inline(delta_expr_builder_t *builder, const delta_expr_t *from, const uint16_t *inputs, uint16_t *out_instrs);
// Drops instructions and inputs that no output needs. Input k of the result was input out_kept[k].
void delta_expr_compact(delta_expr_builder_t *builder, uint16_t out_kept[DELTA_EXPR_MAX_INPUTS]);

// Checks operand order, counts and compute type. INTERNAL otherwise.
DELTA_MUST_USE delta_status_t delta_expr_validate(const delta_expr_t *expr);

// Evaluates one element: inputs[] and outputs[] in the compute type. The plain definition that every kernel is compared with.
void delta_expr_eval_double(const delta_expr_t *expr, const double *inputs, double *outputs);
void delta_expr_eval_float(const delta_expr_t *expr, const float *inputs, float *outputs);
void delta_expr_eval_int64(const delta_expr_t *expr, const int64_t *inputs, int64_t *outputs);

#endif // DELTA_ONNX_GRAPH_EXPR_H_
