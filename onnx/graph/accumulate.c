// Finding additions of products, and rewriting them.
#include "onnx/graph/accumulate.h"

#include "onnx/graph/readers.h"
#include "onnx/graph/rewrite.h"

// Inputs of MATMUL.
enum { INPUT_ADDED = 2, INPUT_BIAS = 3, INPUT_COUNT = 4 };

// An addition that becomes a product's.
typedef struct accumulation {
  const delta_node_t *product;
  delta_tensor_id_t added; // to which the product is added
} accumulation_t;

static uint32_t input_of(delta_accumulate_kind_t kind) { return kind == DELTA_ACCUMULATE_BIASES ? INPUT_BIAS : INPUT_ADDED; }

// The product behind views that makes a tensor, if nobody else reads it.
static const delta_node_t *product_of(const delta_readers_t *readers, delta_accumulate_kind_t kind, delta_tensor_id_t tensor) {
  for (;;) {
    const delta_node_t *node = delta_readers_producer(readers, tensor);
    if (!node || !delta_readers_only(readers, tensor)) return NULL;
    if (node->op == DELTA_CORE_MATMUL) return delta_node_input(readers->graph, node, input_of(kind)) ? NULL : node;
    if (node->op != DELTA_CORE_VIEW) return NULL;
    tensor = node->inputs[0];
  }
}

static bool is_addition(const delta_graph_t *graph, const delta_node_t *node) {
  if (node->op != DELTA_CORE_POINTWISE || node->phase == DELTA_PHASE_UPDATE || node->input_count != 2 || node->output_count != 1)
    return false;
  const delta_expr_t *expr = &((const delta_pointwise_attrs_t *)node->attrs)->expr;
  const delta_tensor_t *sum = delta_node_output(graph, node, 0);
  if (expr->instr_count != 3 || expr->instrs[expr->outputs[0]].op != DELTA_EXPR_ADD || !delta_dtype_is_float(sum->dtype)) return false;
  for (uint32_t k = 0; k < 2; ++k) {
    if (delta_node_input(graph, node, k)->dtype != sum->dtype) return false;
  }
  return !delta_tensor_same(node->inputs[0], node->inputs[1]);
}

static int64_t last_dimension(const delta_shape_t *shape) { return shape->rank > 0 ? shape->dims[shape->rank - 1] : 1; }

// Whether a sum is a product, of the sum's shape but for views that keep its columns, and `term`.
static bool fits(const delta_shape_t *product, const delta_shape_t *term, const delta_shape_t *sum, delta_accumulate_kind_t kind) {
  const bool is_alike = delta_shape_equal(term, sum);
  if (kind == DELTA_ACCUMULATE_SUMS || is_alike) return kind == DELTA_ACCUMULATE_SUMS && is_alike;
  const int64_t columns = last_dimension(product);
  return last_dimension(sum) == columns && last_dimension(term) == columns && delta_shape_count(term) == columns;
}

// Of two products the later one is added to the earlier.
static bool find_accumulation(const delta_readers_t *readers, delta_accumulate_kind_t kind, const delta_node_t *node, accumulation_t *out) {
  *out = (accumulation_t){0};
  const delta_graph_t *graph = readers->graph;
  if (!is_addition(graph, node)) return false;
  const delta_shape_t *sum = &delta_node_output(graph, node, 0)->shape;
  for (uint32_t k = 0; k < 2; ++k) {
    const delta_node_t *product = product_of(readers, kind, node->inputs[k]);
    const bool is_earlier = product && out->product && product < out->product;
    if (!product || is_earlier || !delta_shape_equal(&delta_node_input(graph, node, k)->shape, sum)) continue;
    if (fits(&delta_node_output(graph, product, 0)->shape, &delta_node_input(graph, node, 1 - k)->shape, sum, kind))
      *out = (accumulation_t){product, node->inputs[1 - k]};
  }
  return out->product != NULL;
}

static void emit_accumulation(delta_rewrite_t *rewrite, delta_accumulate_kind_t kind, const delta_node_t *node,
                              const accumulation_t *accumulation) {
  const delta_node_t *product = accumulation->product;
  const delta_shape_t shape = delta_graph_tensor(rewrite->from, product->outputs[0])->shape,
                      sum_shape = delta_graph_tensor(rewrite->from, node->outputs[0])->shape;
  delta_rewrite_follow(rewrite, product);
  const uint32_t place = input_of(kind);
  delta_tensor_id_t inputs[INPUT_COUNT] = {0};
  for (uint32_t k = 0; k < INPUT_COUNT; ++k)
    inputs[k] = k < product->input_count ? delta_rewrite_tensor(rewrite, product->inputs[k]) : DELTA_TENSOR_NONE;
  inputs[place] = delta_rewrite_tensor(rewrite, accumulation->added);
  if (!delta_emit_ok(&rewrite->emit)) return;
  const delta_shape_t columns = {.rank = 1, .dims = {last_dimension(&shape)}};
  inputs[place] = delta_emit_view(&rewrite->emit, inputs[place], kind == DELTA_ACCUMULATE_BIASES ? &columns : &shape);
  const uint32_t count = delta_tensor_is_none(inputs[INPUT_BIAS]) ? INPUT_BIAS : INPUT_COUNT;
  const delta_tensor_id_t sum = delta_emit_one(&rewrite->emit, DELTA_CORE_MATMUL, product->attrs, product->attrs_bytes, inputs, count);
  delta_rewrite_bind(rewrite, node->outputs[0], delta_emit_view(&rewrite->emit, sum, &sum_shape));
}

// Marks the product, and the views between it and the addition, as gone.
static void mark_gone(const delta_readers_t *readers, const accumulation_t *accumulation, bool *gone) {
  const delta_node_t *node = accumulation->product;
  for (; node->op != DELTA_CORE_POINTWISE; node = delta_readers_only(readers, node->outputs[0]))
    gone[node - readers->graph->nodes.items] = true;
}

static delta_status_t rewrite_all(const delta_readers_t *readers, delta_accumulate_kind_t kind, const bool *gone,
                                  delta_allocator_t allocator, delta_graph_t **out_graph) {
  const delta_graph_t *graph = readers->graph;
  delta_rewrite_t rewrite;
  DELTA_RETURN_IF_ERROR(delta_rewrite_begin(&rewrite, graph, allocator));
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    accumulation_t accumulation;
    if (gone[n]) continue;
    if (find_accumulation(readers, kind, &graph->nodes.items[n], &accumulation)) {
      emit_accumulation(&rewrite, kind, &graph->nodes.items[n], &accumulation);
    } else {
      delta_rewrite_copy_node(&rewrite, &graph->nodes.items[n], UINT64_MAX);
    }
  }
  return delta_rewrite_finish(&rewrite, out_graph);
}

delta_status_t delta_graph_accumulate(delta_graph_t *graph, delta_accumulate_kind_t kind, delta_allocator_t allocator,
                                      delta_graph_t **out_graph) {
  delta_readers_t readers;
  bool *gone = NULL;
  delta_status_t status;
  DELTA_RETURN_IF_ERROR(delta_readers_init(graph, &readers));
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(graph->allocator, graph->nodes.count, &gone), cleanup);
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    accumulation_t accumulation;
    if (find_accumulation(&readers, kind, &graph->nodes.items[n], &accumulation)) mark_gone(&readers, &accumulation, gone);
  }
  status = rewrite_all(&readers, kind, gone, allocator, out_graph);
cleanup:
  delta_release(graph->allocator, gone);
  delta_readers_deinit(&readers);
  return status;
}
