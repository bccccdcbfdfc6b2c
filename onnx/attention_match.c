// Finding attention: up from a softmax to the product of queries and keys, down to the product with the values.
#include "onnx/attention_match.h"

// A constant at or below this in the place of a score hides it: no score changes such a number.
static const double hiding_value = -1e30;

static bool add_part(delta_attention_match_t *match, const delta_node_t *node) {
  if (match->part_count == DELTA_ATTENTION_MAX_PARTS) return false;
  match->parts[match->part_count++] = node;
  return true;
}

static const delta_pointwise_attrs_t *pointwise_of(const delta_node_t *node) {
  return node->op == DELTA_CORE_POINTWISE && node->output_count == 1 ? node->attrs : NULL;
}

static bool depends_on(const delta_expr_t *expr, uint16_t instr, uint16_t input) {
  const delta_expr_instr_t *at = &expr->instrs[instr];
  if (at->op == DELTA_EXPR_INPUT) return at->operands[0] == input;
  for (int k = 0; k < delta_expr_op_info(at->op)->arity; ++k) {
    if (depends_on(expr, at->operands[k], input)) return true;
  }
  return false;
}

static bool is_constant(const delta_expr_t *expr, uint16_t instr, double *out_value) {
  if (expr->instrs[instr].op != DELTA_EXPR_CONST || expr->compute == DELTA_DTYPE_INT64) return false;
  *out_value = expr->instrs[instr].immediate.real;
  return true;
}

// One step from an instruction towards the scores: takes scale and mask off it. False when it does something else.
static bool step_to_scores(const delta_expr_t *expr, uint16_t *instr, double *factor, delta_attention_masking_t *masking) {
  const delta_expr_instr_t *at = &expr->instrs[*instr];
  const uint16_t scores = (uint16_t)masking->scores_input, a = at->operands[0], b = at->operands[1];
  delta_attention_term_t term = {.factor = *factor};
  double constant;
  switch (at->op) {
    case DELTA_EXPR_MUL:
      if (is_constant(expr, b, &constant)) {
        *instr = a;
      } else if (is_constant(expr, a, &constant)) {
        *instr = b;
      } else {
        return false;
      }
      *factor *= constant;
      return true;
    case DELTA_EXPR_DIV:
      if (!is_constant(expr, b, &constant) || constant == 0.0) return false;
      *instr = a;
      *factor /= constant;
      return true;
    case DELTA_EXPR_ADD:
      if (depends_on(expr, a, scores) == depends_on(expr, b, scores)) return false;
      *instr = depends_on(expr, a, scores) ? a : b;
      term.instr = *instr == a ? b : a;
      break;
    case DELTA_EXPR_SELECT: {
      const uint16_t otherwise = at->operands[2];
      term.hides = true;
      term.hides_where_true = depends_on(expr, otherwise, scores);
      *instr = term.hides_where_true ? otherwise : b;
      if (depends_on(expr, a, scores) || !is_constant(expr, term.hides_where_true ? b : otherwise, &term.hiding)) return false;
      if (!(term.hiding <= hiding_value && *factor > 0.0)) return false;
      term.instr = a;
      break;
    }
    default:
      return false;
  }
  if (masking->term_count == DELTA_ATTENTION_MAX_MASKS) return false;
  masking->terms[masking->term_count++] = term;
  return true;
}

// Reads a pointwise node as scale and masks of the scores in one of its inputs.
static bool read_masking(const delta_node_t *node, uint32_t scores_input, double *factor, delta_attention_masking_t *masking) {
  const delta_expr_t *expr = &pointwise_of(node)->expr;
  *masking = (delta_attention_masking_t){.node = node, .scores_input = scores_input};
  uint16_t instr = expr->outputs[0];
  while (expr->instrs[instr].op != DELTA_EXPR_INPUT) {
    if (!step_to_scores(expr, &instr, factor, masking)) return false;
  }
  return expr->instrs[instr].operands[0] == scores_input;
}

// A node that scales its one input by a positive constant.
static bool is_scaling(const delta_node_t *node, double *out_factor) {
  delta_attention_masking_t masking;
  *out_factor = 1.0;
  return pointwise_of(node) && node->input_count == 1 && read_masking(node, 0, out_factor, &masking) && masking.term_count == 0 &&
         *out_factor > 0.0;
}

static bool keeps_matrix(const delta_shape_t *a, const delta_shape_t *b) {
  return a->rank >= 2 && b->rank >= 2 && a->dims[a->rank - 1] == b->dims[b->rank - 1] && a->dims[a->rank - 2] == b->dims[b->rank - 2];
}

// Whether every leading dimension of `coarse` is a product of neighbouring ones of `fine`.
static bool refines(const delta_shape_t *fine, const delta_shape_t *coarse) {
  int32_t at = 0;
  for (int32_t d = 0; d + 2 < coarse->rank; ++d) {
    int64_t product = 1;
    while (at + 2 < fine->rank && product < coarse->dims[d]) product *= fine->dims[at++];
    if (product != coarse->dims[d]) return false;
  }
  return delta_shape_count_range(fine, at, fine->rank - 2) == 1;
}

// Walks a pointwise node backwards: *cursor becomes its input that holds the scores.
static bool pass_pointwise(const delta_readers_t *readers, const delta_node_t *node, delta_tensor_id_t *cursor,
                           delta_attention_match_t *match) {
  const delta_shape_t *shape = &delta_graph_tensor(readers->graph, *cursor)->shape;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_t *input = delta_node_input(readers->graph, node, k);
    if (delta_readers_only(readers, node->inputs[k]) != node || !delta_shape_equal(&input->shape, shape)) continue;
    if (match->masking_count == DELTA_ATTENTION_MAX_MASKS) return false;
    double factor = match->scale;
    delta_attention_masking_t masking;
    if (!read_masking(node, k, &factor, &masking)) continue;
    match->scale = factor;
    if (masking.term_count > 0) match->maskings[match->masking_count++] = masking;
    *cursor = node->inputs[k];
    return true;
  }
  return false;
}

// From the softmax's input back to the product of queries and keys; NULL when the way is not that of an attention.
static const delta_node_t *find_product(const delta_readers_t *readers, delta_tensor_id_t cursor, delta_attention_match_t *match) {
  match->scores = delta_graph_tensor(readers->graph, cursor)->shape;
  for (const delta_node_t *reader = NULL;;) {
    const delta_node_t *node = delta_readers_producer(readers, cursor);
    if (!node || !delta_readers_only(readers, cursor) || (reader && delta_readers_only(readers, cursor) != reader)) return NULL;
    const delta_shape_t *shape = &delta_graph_tensor(readers->graph, cursor)->shape;
    if (!refines(&match->scores, shape)) {
      if (!refines(shape, &match->scores)) return NULL;
      match->scores = *shape;
    }
    if (!add_part(match, node)) return NULL;
    if (node->op == DELTA_CORE_MATMUL) return node;
    if (node->op == DELTA_CORE_VIEW && keeps_matrix(shape, &delta_node_input(readers->graph, node, 0)->shape)) {
      cursor = node->inputs[0];
    } else if (!pointwise_of(node) || !pass_pointwise(readers, node, &cursor, match)) {
      return NULL;
    }
    reader = node;
  }
}

// Where(IsNaN(p), 0, p) behind the softmax, if it is there: *cursor becomes its output.
static bool pass_guard(const delta_readers_t *readers, delta_tensor_id_t *cursor, delta_attention_match_t *match) {
  const delta_tensor_readers_t *of_cursor = &readers->tensors[cursor->index];
  if (of_cursor->count != 2) return true;
  for (int k = 0; k < 2; ++k) {
    if (of_cursor->nodes[k].index == DELTA_NODE_NONE.index) return false;
    const delta_node_t *test = &readers->graph->nodes.items[of_cursor->nodes[k].index];
    const delta_node_t *choice =
        of_cursor->nodes[1 - k].index == DELTA_NODE_NONE.index ? NULL : &readers->graph->nodes.items[of_cursor->nodes[1 - k].index];
    if (!choice || !pointwise_of(test) || !pointwise_of(choice) || test->input_count != 1 || choice->input_count != 2) continue;
    const delta_expr_t *tested = &pointwise_of(test)->expr, *chosen = &pointwise_of(choice)->expr;
    const delta_expr_instr_t *last = &chosen->instrs[chosen->outputs[0]];
    double constant = 1.0;
    if (tested->instrs[tested->outputs[0]].op != DELTA_EXPR_ISNAN || tested->instr_count != 2 || last->op != DELTA_EXPR_SELECT) continue;
    if (delta_readers_only(readers, test->outputs[0]) != choice || !is_constant(chosen, last->operands[1], &constant) || constant != 0.0)
      continue;
    const uint16_t condition = last->operands[0], value = last->operands[2];
    if (chosen->instrs[condition].op != DELTA_EXPR_INPUT || chosen->instrs[value].op != DELTA_EXPR_INPUT) continue;
    if (!delta_tensor_same(choice->inputs[chosen->instrs[condition].operands[0]], test->outputs[0])) continue;
    if (!delta_tensor_same(choice->inputs[chosen->instrs[value].operands[0]], *cursor)) continue;
    *cursor = choice->outputs[0];
    match->hidden_rows_zero = true;
    return add_part(match, test) && add_part(match, choice);
  }
  return false;
}

// From the softmax's output to the product with the values.
static bool find_result(const delta_readers_t *readers, delta_tensor_id_t cursor, delta_attention_match_t *match) {
  if (!pass_guard(readers, &cursor, match)) return false;
  const delta_node_t *node = delta_readers_only(readers, cursor);
  if (node && node->op == DELTA_CORE_DROPOUT) {
    const bool mask_read =
        node->output_count > 1 && !delta_tensor_is_none(node->outputs[1]) && readers->tensors[node->outputs[1].index].count > 0;
    if (mask_read || !delta_tensor_same(node->inputs[0], cursor) || !add_part(match, node)) return false;
    match->dropout = node;
    cursor = node->outputs[0];
    node = delta_readers_only(readers, cursor);
  }
  if (!node || node->op != DELTA_CORE_MATMUL || !delta_tensor_same(node->inputs[0], cursor)) return false;
  match->result = node;
  return !((const delta_matmul_attrs_t *)node->attrs)->transpose_a && add_part(match, node);
}

static void exchange(int32_t *a, int32_t *b) {
  const int32_t kept = *a;
  *a = *b;
  *b = kept;
}

// The operand's source becomes the input of the node that made it, which goes when nobody else reads it.
static void pass(const delta_readers_t *readers, delta_attention_operand_t *operand, delta_attention_match_t *match,
                 const delta_node_t *node) {
  operand->stays = operand->stays || readers->tensors[operand->source.index].count != 1 || !add_part(match, node);
  operand->source = node->inputs[0];
}

// Looks through the node that made an operand: a scaling into the match's scale, a transpose into the permutation.
static bool look_through(const delta_readers_t *readers, delta_attention_operand_t *operand, delta_attention_match_t *match, bool scales) {
  const delta_node_t *node = delta_readers_producer(readers, operand->source);
  const int32_t rank = operand->shape.rank;
  double factor;
  if (!node) return false;
  if (scales && is_scaling(node, &factor)) {
    match->scale *= factor;
  } else if (node->op == DELTA_CORE_TRANSPOSE) {
    const delta_transpose_attrs_t *attrs = node->attrs;
    for (int32_t d = 0; d < rank; ++d) operand->permutation[d] = attrs->permutation[operand->permutation[d]];
  } else {
    return false;
  }
  pass(readers, operand, match, node);
  return true;
}

// A view of an exchanged matrix that only groups leading dimensions differently, where exporters transpose keys in fewer dimensions: read from before both.
static void look_through_view(const delta_readers_t *readers, delta_attention_operand_t *operand, delta_attention_match_t *match) {
  const delta_node_t *view = delta_readers_producer(readers, operand->source);
  if (!view || view->op != DELTA_CORE_VIEW) return;
  const delta_shape_t *outside = &delta_graph_tensor(readers->graph, operand->source)->shape,
                      *inside = &delta_node_input(readers->graph, view, 0)->shape;
  const delta_node_t *transpose = delta_readers_producer(readers, view->inputs[0]);
  const int32_t rank = outside->rank, inner_rank = inside->rank;
  if (!transpose || transpose->op != DELTA_CORE_TRANSPOSE || !keeps_matrix(outside, inside)) return;
  const int32_t *permutation = ((const delta_transpose_attrs_t *)transpose->attrs)->permutation;
  for (int32_t d = 0; d + 2 < inner_rank; ++d) {
    if (permutation[d] != d) return;
  }
  if (permutation[inner_rank - 1] != inner_rank - 2) return;
  exchange(&operand->permutation[rank - 1], &operand->permutation[rank - 2]);
  pass(readers, operand, match, view);
  pass(readers, operand, match, transpose);
}

static bool is_in_order(const delta_attention_operand_t *operand) {
  for (int32_t d = 0; d < operand->shape.rank; ++d) {
    if (operand->permutation[d] != d) return false;
  }
  return true;
}

// An operand of a product as [.., rows, width]. `exchanged`: the product reads it so that the last two dimensions have to change places.
static void read_operand(const delta_readers_t *readers, delta_tensor_id_t tensor, bool exchanged, bool scales,
                         delta_attention_match_t *match, delta_attention_operand_t *out_operand) {
  *out_operand = (delta_attention_operand_t){.source = tensor, .shape = delta_graph_tensor(readers->graph, tensor)->shape};
  const int32_t rank = out_operand->shape.rank;
  for (int32_t d = 0; d < rank; ++d) out_operand->permutation[d] = d;
  if (exchanged) {
    exchange(&out_operand->permutation[rank - 1], &out_operand->permutation[rank - 2]);
    const int64_t rows = out_operand->shape.dims[rank - 1];
    out_operand->shape.dims[rank - 1] = out_operand->shape.dims[rank - 2];
    out_operand->shape.dims[rank - 2] = rows;
  }
  while (look_through(readers, out_operand, match, scales)) {
  }
  if (!is_in_order(out_operand)) look_through_view(readers, out_operand, match);
}

// Whether two shapes have the same leading dimensions.
static bool same_leading(const delta_shape_t *a, const delta_shape_t *b) {
  if (a->rank != b->rank) return false;
  for (int32_t d = 0; d + 2 < a->rank; ++d) {
    if (a->dims[d] != b->dims[d]) return false;
  }
  return true;
}

bool delta_attention_find(const delta_readers_t *readers, const delta_node_t *softmax, delta_attention_match_t *out_match) {
  const delta_softmax_attrs_t *attrs = softmax->attrs;
  const delta_tensor_t *scores = delta_node_input(readers->graph, softmax, 0);
  *out_match = (delta_attention_match_t){.scale = 1.0};
  if (attrs->log || attrs->axis != scores->shape.rank - 1 || scores->shape.rank < 2) return false;
  const delta_node_t *product = find_product(readers, softmax->inputs[0], out_match);
  if (!product || !add_part(out_match, softmax) || !find_result(readers, softmax->outputs[0], out_match)) return false;
  const delta_matmul_attrs_t *first = product->attrs, *second = out_match->result->attrs;
  read_operand(readers, product->inputs[0], first->transpose_a, true, out_match, &out_match->query);
  read_operand(readers, product->inputs[1], !first->transpose_b, true, out_match, &out_match->key);
  read_operand(readers, out_match->result->inputs[1], second->transpose_b, false, out_match, &out_match->value);
  const delta_shape_t *product_shape = &delta_node_output(readers->graph, product, 0)->shape;
  return same_leading(&out_match->query.shape, product_shape) && same_leading(&out_match->key.shape, product_shape) &&
         same_leading(&out_match->value.shape, product_shape) && delta_shape_equal(&scores->shape, product_shape);
}
