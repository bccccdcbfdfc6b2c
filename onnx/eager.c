// GELU by the error function: 0.5 * x * (1 + erf(x / sqrt 2)), its factors in any order. Layer normalization written out: mean, difference, square, mean,
// epsilon, root, quotient, scale and shift.
#include "onnx/eager.h"

#include "onnx/graph/readers.h"

// The expression of a node with one output and `inputs` inputs, or NULL.
static const delta_expr_t *expression_of(const delta_node_t *node, uint32_t inputs) {
  if (!node || node->op != DELTA_CORE_POINTWISE || node->input_count != inputs || node->output_count != 1) return NULL;
  return &((const delta_pointwise_attrs_t *)node->attrs)->expr;
}

// Whether an expression is one instruction `op` over its inputs, or over its input and a constant.
static bool is_instruction(const delta_expr_t *expr, delta_expr_op_t op) {
  if (!expr) return false;
  const delta_expr_instr_t *last = &expr->instrs[expr->outputs[0]];
  if (last->op != op) return false;
  for (int k = 0; k < delta_expr_op_info(op)->arity; ++k) {
    uint16_t operand = expr->instrs[last->operands[k]].op;
    if (operand != DELTA_EXPR_INPUT && operand != DELTA_EXPR_CONST) return false;
  }
  return true;
}

static bool is_scaling(const delta_node_t *node) {
  const delta_expr_t *expr = expression_of(node, 1);
  return is_instruction(expr, DELTA_EXPR_MUL) || is_instruction(expr, DELTA_EXPR_DIV);
}

// The scaling that made `tensor`, if nobody else reads it.
static delta_node_t *scaling_before(const delta_readers_t *readers, delta_tensor_id_t tensor) {
  delta_node_t *node = delta_readers_producer(readers, tensor);
  return node && is_scaling(node) && delta_readers_only(readers, tensor) ? node : NULL;
}

// Gives the nodes of a GELU around an erf node its group.
static void recognise_gelu(const delta_readers_t *readers, delta_node_t *erf) {
  delta_node_t *inner = scaling_before(readers, erf->inputs[0]);
  delta_tensor_id_t x = inner ? inner->inputs[0] : erf->inputs[0];
  delta_node_t *plus_one = delta_readers_only(readers, erf->outputs[0]);
  if (!plus_one || !is_instruction(expression_of(plus_one, 1), DELTA_EXPR_ADD)) return;
  delta_node_t *product = delta_readers_only(readers, plus_one->outputs[0]);
  if (!product || !is_instruction(expression_of(product, 2), DELTA_EXPR_MUL)) return;
  delta_tensor_id_t factor = product->inputs[delta_tensor_same(product->inputs[0], plus_one->outputs[0]) ? 1 : 0];
  delta_node_t *half = NULL;
  if (!delta_tensor_same(factor, x)) {
    half = scaling_before(readers, factor);
    if (!half || !delta_tensor_same(half->inputs[0], x)) return;
  } else {
    half = delta_readers_only(readers, product->outputs[0]);
    if (half && !is_scaling(half)) half = NULL;
  }
  delta_node_t *parts[] = {inner, plus_one, product, half};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    if (parts[i]) parts[i]->group = erf->group;
  }
}

// The producer of a tensor if it is a mean over dimensions.
static delta_node_t *mean_before(const delta_readers_t *readers, delta_tensor_id_t tensor) {
  delta_node_t *node = delta_readers_producer(readers, tensor);
  if (!node || node->op != DELTA_CORE_REDUCE || node->input_count != 1 || node->output_count != 1) return NULL;
  return ((const delta_reduce_attrs_t *)node->attrs)->kinds[0] == DELTA_REDUCE_MEAN ? node : NULL;
}

// The producer of a tensor if it is one instruction over `inputs` inputs.
static delta_node_t *instruction_before(const delta_readers_t *readers, delta_tensor_id_t tensor, delta_expr_op_t op, uint32_t inputs) {
  delta_node_t *node = delta_readers_producer(readers, tensor);
  return node && is_instruction(expression_of(node, inputs), op) ? node : NULL;
}

// The only reader of a node's output if it is one instruction over two inputs.
static delta_node_t *instruction_after(const delta_readers_t *readers, const delta_node_t *node, delta_expr_op_t op) {
  delta_node_t *reader = node ? delta_readers_only(readers, node->outputs[0]) : NULL;
  return reader && is_instruction(expression_of(reader, 2), op) ? reader : NULL;
}

// Gives the nodes of a layer normalization around the root of its variance the root's group.
static void recognise_layer_norm(const delta_readers_t *readers, delta_node_t *root) {
  delta_node_t *with_epsilon = instruction_before(readers, root->inputs[0], DELTA_EXPR_ADD, 1);
  delta_node_t *variance = with_epsilon ? mean_before(readers, with_epsilon->inputs[0]) : NULL;
  delta_node_t *square = variance ? delta_readers_producer(readers, variance->inputs[0]) : NULL;
  if (!square || !expression_of(square, 1)) return;
  delta_node_t *difference = instruction_before(readers, square->inputs[0], DELTA_EXPR_SUB, 2);
  delta_node_t *mean = difference ? mean_before(readers, difference->inputs[1]) : NULL;
  delta_node_t *quotient = instruction_after(readers, root, DELTA_EXPR_DIV);
  delta_node_t *centred = quotient ? instruction_before(readers, quotient->inputs[0], DELTA_EXPR_SUB, 2) : NULL;
  if (!mean || !centred || !delta_tensor_same(mean->inputs[0], difference->inputs[0])) return;
  delta_node_t *scaled = instruction_after(readers, quotient, DELTA_EXPR_MUL);
  delta_node_t *shifted = instruction_after(readers, scaled, DELTA_EXPR_ADD);
  delta_node_t *parts[] = {mean, difference, centred, square, variance, with_epsilon, quotient, scaled, shifted};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; ++i) {
    if (parts[i]) parts[i]->group = root->group;
  }
}

delta_status_t delta_eager_recognise(delta_graph_t *graph) {
  delta_readers_t readers;
  DELTA_RETURN_IF_ERROR(delta_readers_init(graph, &readers));
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    delta_node_t *node = &graph->nodes.items[n];
    if (is_instruction(expression_of(node, 1), DELTA_EXPR_ERF)) recognise_gelu(&readers, node);
    if (is_instruction(expression_of(node, 1), DELTA_EXPR_SQRT)) recognise_layer_norm(&readers, node);
  }
  delta_readers_deinit(&readers);
  return DELTA_OK;
}
