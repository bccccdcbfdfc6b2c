#include "onnx/parts/label_counts.h"

#include "onnx/graph/rewrite.h"

// Losses without class weights.
static bool counts_labels(const delta_node_t *node) {
  return (node->op == DELTA_CORE_CROSS_ENTROPY || node->op == DELTA_CORE_NLL) && node->input_count == 2 &&
         !delta_tensor_is_none(node->outputs[1]);
}

// 1 where the label is a class and not ignored.
static delta_tensor_id_t emit_counts(delta_rewrite_t *rewrite, const delta_node_t *node) {
  const delta_class_loss_attrs_t *attrs = node->attrs;
  const delta_tensor_id_t labels = delta_rewrite_tensor(rewrite, node->inputs[1]);
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_INT64);
  const uint16_t label = delta_expr_input(&b, 0);
  const uint16_t from_0 = delta_expr_binary(&b, DELTA_EXPR_GE, label, delta_expr_integer(&b, 0));
  const uint16_t below = delta_expr_binary(&b, DELTA_EXPR_LT, label, delta_expr_integer(&b, attrs->classes));
  uint16_t counts = delta_expr_binary(&b, DELTA_EXPR_AND, from_0, below);
  if (attrs->has_ignore) {
    const uint16_t wanted = delta_expr_binary(&b, DELTA_EXPR_NE, label, delta_expr_integer(&b, attrs->ignore_index));
    counts = delta_expr_binary(&b, DELTA_EXPR_AND, counts, wanted);
  }
  delta_expr_output(&b, counts);
  const delta_dtype_t dtype = delta_graph_tensor(rewrite->from, node->outputs[1])->dtype;
  return delta_emit_expr(&rewrite->emit, &b, dtype, &labels, 1);
}

delta_status_t delta_graph_count_labels(const delta_graph_t *graph, delta_allocator_t allocator, delta_graph_t **out_graph) {
  delta_rewrite_t rewrite;
  DELTA_RETURN_IF_ERROR(delta_rewrite_begin(&rewrite, graph, allocator));
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    const delta_node_t *node = &graph->nodes.items[n];
    delta_rewrite_copy_node(&rewrite, node, UINT64_MAX);
    if (counts_labels(node)) delta_rewrite_bind(&rewrite, node->outputs[1], emit_counts(&rewrite, node));
  }
  return delta_rewrite_finish(&rewrite, out_graph);
}
