// The rewrite: every match becomes one node where its last part stood.
#include "onnx/attention.h"

#include <string.h>

#include "onnx/attention_match.h"
#include "onnx/graph/attention_dims.h"
#include "onnx/graph/rewrite.h"

// A mask made from a pointwise node, kept because layers repeat it.
typedef struct known_mask {
  const delta_attention_masking_t *masking;
  delta_tensor_id_t tensor; // new
} known_mask_t;

typedef struct recognition {
  delta_readers_t readers;
  DELTA_ARRAY(delta_attention_match_t) matches; // Owned.
  uint32_t *match_of;                           // Owned. By node: the match whose result it is, GONE, or KEPT.
  DELTA_ARRAY(known_mask_t) masks;              // Owned.
  delta_rewrite_t rewrite;
} recognition_t;
enum { KEPT = UINT32_MAX, GONE = UINT32_MAX - 1 };

static uint32_t index_of(const recognition_t *r, const delta_node_t *node) { return (uint32_t)(node - r->readers.graph->nodes.items); }

static delta_status_t find_matches(recognition_t *r) {
  const delta_graph_t *graph = r->readers.graph;
  for (size_t n = 0; n < graph->nodes.count; ++n) r->match_of[n] = KEPT;
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    delta_attention_match_t match;
    if (graph->nodes.items[n].op != DELTA_CORE_SOFTMAX || !delta_attention_find(&r->readers, &graph->nodes.items[n], &match)) continue;
    for (uint32_t k = 0; k < match.part_count; ++k) r->match_of[index_of(r, match.parts[k])] = GONE;
    r->match_of[index_of(r, match.result)] = (uint32_t)r->matches.count;
    DELTA_RETURN_IF_ERROR(delta_array_push(graph->allocator, &r->matches, &match));
  }
  return DELTA_OK;
}

// The value of a term: what it adds to the scores.
static uint16_t term_value(delta_expr_builder_t *b, const delta_attention_term_t *term, uint16_t instr) {
  uint16_t value = instr;
  if (term->hides) {
    const uint16_t hidden = delta_expr_real(b, term->hiding), shown = delta_expr_real(b, 0.0);
    value = term->hides_where_true ? delta_expr_select(b, instr, hidden, shown) : delta_expr_select(b, instr, shown, hidden);
  }
  return term->factor == 1.0 ? value : delta_expr_binary(b, DELTA_EXPR_MUL, value, delta_expr_real(b, term->factor));
}

static delta_tensor_id_t emit_terms(recognition_t *r, const delta_attention_masking_t *masking, delta_dtype_t dtype) {
  const delta_pointwise_attrs_t *attrs = masking->node->attrs;
  delta_expr_t expr = attrs->expr;
  uint16_t stand_ins[DELTA_EXPR_MAX_INPUTS], instrs[DELTA_EXPR_MAX_OUTPUTS], kept[DELTA_EXPR_MAX_INPUTS];
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, expr.compute);
  for (uint16_t k = 0; k < expr.input_count; ++k) stand_ins[k] = delta_expr_input(&b, k);
  expr.output_count = (uint16_t)masking->term_count;
  for (uint32_t k = 0; k < masking->term_count; ++k) expr.outputs[k] = masking->terms[k].instr;
  delta_expr_inline(&b, &expr, stand_ins, instrs);
  uint16_t sum = term_value(&b, &masking->terms[0], instrs[0]);
  for (uint32_t k = 1; k < masking->term_count; ++k) {
    sum = delta_expr_binary(&b, DELTA_EXPR_ADD, sum, term_value(&b, &masking->terms[k], instrs[k]));
  }
  delta_expr_output(&b, sum);
  delta_expr_compact(&b, kept);
  delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS];
  for (uint16_t k = 0; k < b.expr.input_count; ++k) inputs[k] = delta_rewrite_tensor(&r->rewrite, masking->node->inputs[kept[k]]);
  return delta_emit_expr(&r->rewrite.emit, &b, dtype, inputs, b.expr.input_count);
}

// Whether two nodes add the same to their scores: the same terms of the same expression over the same other inputs.
static bool same_masking(const delta_attention_masking_t *a, const delta_attention_masking_t *b) {
  const delta_expr_t *x = &((const delta_pointwise_attrs_t *)a->node->attrs)->expr,
                     *y = &((const delta_pointwise_attrs_t *)b->node->attrs)->expr;
  if (a->scores_input != b->scores_input || a->term_count != b->term_count || a->node->input_count != b->node->input_count) return false;
  if (x->compute != y->compute || x->instr_count != y->instr_count) return false;
  for (uint32_t k = 0; k < a->node->input_count; ++k) {
    if (k != a->scores_input && !delta_tensor_same(a->node->inputs[k], b->node->inputs[k])) return false;
  }
  for (uint32_t k = 0; k < a->term_count; ++k) {
    const delta_attention_term_t *s = &a->terms[k], *t = &b->terms[k];
    if (s->instr != t->instr || s->hides != t->hides || s->hides_where_true != t->hides_where_true || s->hiding != t->hiding ||
        s->factor != t->factor)
      return false;
  }
  for (uint16_t i = 0; i < x->instr_count; ++i) {
    const delta_expr_instr_t *s = &x->instrs[i], *t = &y->instrs[i];
    if (s->op != t->op || memcmp(s->operands, t->operands, sizeof s->operands) != 0 || s->immediate.integer != t->immediate.integer)
      return false;
  }
  return true;
}

// What a node adds to the scores, of type `dtype`.
static delta_tensor_id_t emit_masking(recognition_t *r, const delta_attention_masking_t *masking, delta_dtype_t dtype) {
  const delta_attention_term_t *only = &masking->terms[0];
  const delta_expr_instr_t *instr = &((const delta_pointwise_attrs_t *)masking->node->attrs)->expr.instrs[only->instr];
  if (masking->term_count == 1 && !only->hides && only->factor == 1.0 && instr->op == DELTA_EXPR_INPUT) {
    const delta_tensor_id_t mask = masking->node->inputs[instr->operands[0]];
    if (delta_graph_tensor(r->readers.graph, mask)->dtype == dtype) return delta_rewrite_tensor(&r->rewrite, mask);
  }
  for (size_t k = 0; k < r->masks.count; ++k) {
    if (delta_emit_dtype(&r->rewrite.emit, r->masks.items[k].tensor) == dtype && same_masking(r->masks.items[k].masking, masking))
      return r->masks.items[k].tensor;
  }
  const known_mask_t known = {masking, emit_terms(r, masking, dtype)};
  const delta_status_t status = delta_array_push(r->readers.graph->allocator, &r->masks, &known);
  return status ? delta_emit_fail(&r->rewrite.emit, status) : known.tensor;
}

// The shape of a mask that broadcasts to `coarse`, seen in `fine`, of which neighbouring dimensions multiply to those of `coarse`.
static delta_shape_t refine(const delta_shape_t *mask, const delta_shape_t *coarse, const delta_shape_t *fine) {
  delta_shape_t result = {.rank = fine->rank};
  const int32_t missing = coarse->rank - mask->rank;
  int32_t at = 0;
  for (int32_t d = 0; d + 2 < coarse->rank; ++d) {
    const bool repeats = d < missing || mask->dims[d - missing] == 1;
    for (int64_t product = 1; at + 2 < fine->rank && product < coarse->dims[d]; ++at) {
      result.dims[at] = repeats ? 1 : fine->dims[at];
      product *= fine->dims[at];
    }
  }
  while (at + 2 < fine->rank) result.dims[at++] = 1;
  for (int32_t d = 2; d > 0; --d) result.dims[fine->rank - d] = mask->rank >= d ? mask->dims[mask->rank - d] : 1;
  return result;
}

// The sum of all masks, or NONE.
static delta_tensor_id_t emit_mask(recognition_t *r, const delta_attention_match_t *match, delta_dtype_t dtype) {
  delta_emit_t *emit = &r->rewrite.emit;
  delta_tensor_id_t sum = DELTA_TENSOR_NONE;
  for (uint32_t k = match->masking_count; k-- > 0;) {
    const delta_attention_masking_t *masking = &match->maskings[k];
    const delta_shape_t *shape = &((const delta_pointwise_attrs_t *)masking->node->attrs)->shape;
    delta_tensor_id_t mask = emit_masking(r, masking, dtype);
    if (!delta_emit_ok(emit)) return DELTA_TENSOR_NONE;
    if (!delta_shape_equal(shape, &match->scores)) {
      const delta_shape_t refined = refine(delta_emit_shape(emit, mask), shape, &match->scores);
      mask = delta_emit_view(emit, mask, &refined);
    }
    sum = delta_tensor_is_none(sum) ? mask : delta_emit_binary(emit, DELTA_EXPR_ADD, sum, mask);
  }
  return sum;
}

// Exchanges heads and sequence: what stands between [.., heads, sequence, size] and the layout in which exports hold queries, keys and values.
static bool exchanges_heads(const int32_t *permutation, int32_t rank) {
  if (rank < 3 || permutation[rank - 1] != rank - 1) return false;
  for (int32_t d = 0; d + 3 < rank; ++d) {
    if (permutation[d] != d) return false;
  }
  return permutation[rank - 3] == rank - 2 && permutation[rank - 2] == rank - 3;
}

static delta_tensor_id_t emit_operand(recognition_t *r, const delta_attention_match_t *match, const delta_attention_operand_t *operand) {
  delta_emit_t *emit = &r->rewrite.emit;
  const delta_tensor_id_t source = delta_rewrite_tensor(&r->rewrite, operand->source);
  if (!delta_emit_ok(emit)) return DELTA_TENSOR_NONE;
  const bool in_order = delta_emit_shape(emit, source)->rank != operand->shape.rank;
  const delta_tensor_id_t ordered = in_order ? source : delta_emit_transpose(emit, source, operand->permutation);
  delta_shape_t shape = match->scores;
  for (int32_t d = 1; d <= 2; ++d) shape.dims[shape.rank - d] = operand->shape.dims[operand->shape.rank - d];
  return delta_emit_view(emit, ordered, &shape);
}

// Binds what the product with the values gave, and where heads are inside what transposes that back.
static void bind_result(recognition_t *r, const delta_attention_match_t *match, bool heads_inside, delta_tensor_id_t y) {
  delta_emit_t *emit = &r->rewrite.emit;
  const delta_tensor_id_t result = match->result->outputs[0];
  const delta_shape_t shape = delta_graph_tensor(r->readers.graph, result)->shape;
  if (!heads_inside) {
    delta_rewrite_bind(&r->rewrite, result, delta_emit_view(emit, y, &shape));
    return;
  }
  const delta_node_t *reader = delta_readers_only(&r->readers, result);
  if (reader && reader->op == DELTA_CORE_TRANSPOSE &&
      exchanges_heads(((const delta_transpose_attrs_t *)reader->attrs)->permutation, shape.rank)) {
    delta_rewrite_bind(&r->rewrite, reader->outputs[0], y);
    r->match_of[index_of(r, reader)] = GONE;
    return;
  }
  int32_t permutation[DELTA_MAX_RANK];
  for (int32_t d = 0; d < shape.rank; ++d) permutation[d] = d;
  permutation[shape.rank - 3] = shape.rank - 2;
  permutation[shape.rank - 2] = shape.rank - 3;
  delta_rewrite_bind(&r->rewrite, result, delta_emit_transpose(emit, y, permutation));
}

static void emit_attention(recognition_t *r, const delta_attention_match_t *match) {
  delta_emit_t *emit = &r->rewrite.emit;
  delta_rewrite_follow(&r->rewrite, match->result);
  const delta_dtype_t dtype = delta_graph_tensor(r->readers.graph, match->query.source)->dtype;
  const int32_t rank = match->query.shape.rank;
  const delta_shape_t *result_shape = &delta_graph_tensor(r->readers.graph, match->result->outputs[0])->shape;
  const bool same_shape = match->scores.rank == rank &&
                          delta_shape_count_range(&match->scores, 0, rank - 2) == delta_shape_count_range(result_shape, 0, rank - 2);
  const delta_attention_operand_t *operands[3] = {&match->query, &match->key, &match->value};
  delta_attention_attrs_t attrs = {.scale = match->scale, .hidden_rows_zero = match->hidden_rows_zero, .heads_inside = same_shape};
  for (int k = 0; k < 3; ++k) attrs.heads_inside = attrs.heads_inside && exchanges_heads(operands[k]->permutation, rank);
  delta_tensor_id_t inputs[DELTA_ATTENTION_DRAW + 1], outputs[2] = {DELTA_TENSOR_NONE, DELTA_TENSOR_NONE};
  for (int k = 0; k < 3; ++k) {
    inputs[k] = attrs.heads_inside ? delta_rewrite_tensor(&r->rewrite, operands[k]->source) : emit_operand(r, match, operands[k]);
  }
  inputs[DELTA_ATTENTION_MASK] = emit_mask(r, match, dtype);
  if (match->dropout) {
    const delta_dropout_attrs_t *dropout = match->dropout->attrs;
    attrs.ratio = dropout->ratio;
    attrs.stream = dropout->stream;
    inputs[DELTA_ATTENTION_SEED] = delta_rewrite_tensor(&r->rewrite, match->dropout->inputs[1]);
    inputs[DELTA_ATTENTION_DRAW] = delta_rewrite_tensor(&r->rewrite, match->dropout->inputs[2]);
  }
  const uint32_t with_mask = delta_tensor_is_none(inputs[DELTA_ATTENTION_MASK]) ? DELTA_ATTENTION_MASK : DELTA_ATTENTION_SEED;
  delta_emit_node(emit, DELTA_CORE_ATTENTION, &attrs, sizeof attrs, inputs, match->dropout ? DELTA_ATTENTION_DRAW + 1 : with_mask, outputs,
                  2, 2);
  if (delta_emit_ok(emit)) bind_result(r, match, attrs.heads_inside, outputs[0]);
}

static void emit_all(recognition_t *r) {
  const delta_graph_t *graph = r->readers.graph;
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    const uint32_t match = r->match_of[n];
    if (match == KEPT) {
      delta_rewrite_copy_node(&r->rewrite, &graph->nodes.items[n], UINT64_MAX);
    } else if (match != GONE) {
      emit_attention(r, &r->matches.items[match]);
    }
  }
}

delta_status_t delta_attention_recognise(delta_graph_t *graph, delta_allocator_t allocator, delta_graph_t **out_graph) {
  recognition_t r = {0};
  delta_status_t status;
  DELTA_RETURN_IF_ERROR(delta_readers_init(graph, &r.readers));
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(graph->allocator, graph->nodes.count, &r.match_of), cleanup);
  DELTA_GOTO_IF_ERROR(status, find_matches(&r), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_rewrite_begin(&r.rewrite, graph, allocator), cleanup);
  emit_all(&r);
  status = delta_rewrite_finish(&r.rewrite, out_graph);
cleanup:
  delta_array_deinit(graph->allocator, &r.masks);
  delta_array_deinit(graph->allocator, &r.matches);
  delta_release(graph->allocator, r.match_of);
  delta_readers_deinit(&r.readers);
  return status;
}
