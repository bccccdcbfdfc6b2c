// Finding updates of one form, and emitting each group where its last member stood.
#include "onnx/graph/update_groups.h"

#include <string.h>

#include "onnx/graph/each.h"
#include "onnx/graph/readers.h"
#include "onnx/graph/rewrite.h"

// Updates that become one node.
typedef struct update_group {
  const delta_node_t *first, *last;
  uint32_t shared; // inputs of the expression
  uint32_t count;
  size_t size_bytes; // of one state for each set
} update_group_t;

typedef struct grouping {
  const delta_readers_t *readers;
  delta_allocator_t allocator;
  size_t limit_bytes;
  uint32_t *group_of; // Owned; by node, or DELTA_INDEX_NONE
  DELTA_ARRAY(update_group_t) groups;
} grouping_t;

static size_t largest_tensor_bytes(const delta_graph_t *graph) {
  size_t largest = 0;
  for (size_t i = 0; i < graph->tensors.count; ++i) {
    const size_t bytes = delta_tensor_bytes(&graph->tensors.items[i]);
    if (bytes > largest) largest = bytes;
  }
  return largest;
}

static const delta_pointwise_attrs_t *attrs_of(const delta_node_t *node) { return node->attrs; }

// Whether a node only makes new values of states, which nobody else reads.
static bool is_update(const delta_readers_t *readers, const delta_node_t *node) {
  if (node->op != DELTA_CORE_POINTWISE || attrs_of(node)->expr.compute != DELTA_DTYPE_FLOAT32 || attrs_of(node)->shape.rank == 0)
    return false;
  for (uint32_t k = 0; k < node->output_count; ++k) {
    const delta_tensor_t *output = delta_node_output(readers->graph, node, k);
    const bool is_next = output->state != DELTA_INDEX_NONE && readers->tensors[node->outputs[k].index].count == 1;
    if (!is_next || output->dtype != DELTA_DTYPE_FLOAT32) return false;
  }
  return true;
}

// The scalars among a node's inputs; false when one is neither that nor of the node's shape.
static bool find_shared(const delta_graph_t *graph, const delta_node_t *node, uint32_t *out_shared) {
  *out_shared = 0;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_t *input = delta_node_input(graph, node, k);
    if (input->shape.rank == 0) {
      *out_shared |= UINT32_C(1) << k;
    } else if (!delta_shape_equal(&input->shape, &attrs_of(node)->shape)) {
      return false;
    }
  }
  return node->input_count > 0 && *out_shared != (UINT32_C(1) << node->input_count) - 1;
}

static bool same_instr(const delta_expr_instr_t *a, const delta_expr_instr_t *b, delta_dtype_t compute) {
  const bool same_value = compute == DELTA_DTYPE_INT64 ? a->immediate.integer == b->immediate.integer
                                                       : memcmp(&a->immediate.real, &b->immediate.real, sizeof a->immediate.real) == 0;
  return a->op == b->op && memcmp(a->operands, b->operands, sizeof a->operands) == 0 && (a->op != DELTA_EXPR_CONST || same_value);
}

static bool same_expr(const delta_expr_t *a, const delta_expr_t *b) {
  if (a->compute != b->compute || a->input_count != b->input_count || a->output_count != b->output_count ||
      a->instr_count != b->instr_count || memcmp(a->outputs, b->outputs, a->output_count * sizeof *a->outputs) != 0) {
    return false;
  }
  for (uint16_t i = 0; i < a->instr_count; ++i) {
    if (!same_instr(&a->instrs[i], &b->instrs[i], a->compute)) return false;
  }
  return true;
}

static bool may_join(const grouping_t *grouping, const update_group_t *group, const delta_node_t *node, uint32_t shared, size_t bytes) {
  const delta_node_t *first = group->first;
  if (group->count == DELTA_UPDATE_GROUP_SETS || bytes > grouping->limit_bytes - group->size_bytes || group->shared != shared ||
      first->phase != node->phase || !same_expr(&attrs_of(first)->expr, &attrs_of(node)->expr)) {
    return false;
  }
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if ((shared >> k & 1) && !delta_tensor_same(first->inputs[k], node->inputs[k])) return false;
  }
  return true;
}

// Adds a node to the last group of its form, or begins one.
static delta_status_t place_update(grouping_t *grouping, uint32_t n) {
  const delta_graph_t *graph = grouping->readers->graph;
  const delta_node_t *node = &graph->nodes.items[n];
  uint32_t shared;
  grouping->group_of[n] = DELTA_INDEX_NONE;
  if (!is_update(grouping->readers, node) || !find_shared(graph, node, &shared)) return DELTA_OK;
  const size_t bytes = delta_tensor_bytes(delta_node_output(graph, node, 0));
  if (bytes > grouping->limit_bytes) return DELTA_OK;
  for (size_t g = grouping->groups.count; g-- > 0;) {
    update_group_t *group = &grouping->groups.items[g];
    if (!may_join(grouping, group, node, shared, bytes)) continue;
    group->last = node;
    group->size_bytes += bytes;
    ++group->count;
    grouping->group_of[n] = (uint32_t)g;
    return DELTA_OK;
  }
  grouping->group_of[n] = (uint32_t)grouping->groups.count;
  const update_group_t group = {.first = node, .last = node, .shared = shared, .count = 1, .size_bytes = bytes};
  return delta_array_push(grouping->allocator, &grouping->groups, &group);
}

static delta_status_t find_groups(grouping_t *grouping) {
  const delta_graph_t *graph = grouping->readers->graph;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(grouping->allocator, graph->nodes.count, &grouping->group_of));
  for (uint32_t n = 0; n < graph->nodes.count; ++n) DELTA_RETURN_IF_ERROR(place_update(grouping, n));
  return DELTA_OK;
}

// ---- Emitting

// The inputs of the node, and the outputs of its members, which are of the old graph.
static void list_operands(const grouping_t *grouping, delta_rewrite_t *rewrite, uint32_t g, const delta_each_attrs_t *attrs,
                          delta_tensor_id_t *inputs, delta_tensor_id_t *outputs) {
  const delta_graph_t *graph = grouping->readers->graph;
  uint32_t set = 0;
  for (uint32_t n = 0; n < graph->nodes.count && set < attrs->count; ++n) {
    const delta_node_t *node = &graph->nodes.items[n];
    if (grouping->group_of[n] != g) continue;
    for (uint32_t k = 0; k < node->input_count; ++k)
      inputs[delta_each_input(attrs, set, k)] = delta_rewrite_tensor(rewrite, node->inputs[k]);
    for (uint32_t k = 0; k < node->output_count; ++k) outputs[set * node->output_count + k] = node->outputs[k];
    ++set;
  }
}

static delta_status_t emit_lists(const grouping_t *grouping, delta_rewrite_t *rewrite, uint32_t g, const delta_each_attrs_t *attrs,
                                 delta_tensor_id_t *inputs, delta_tensor_id_t *outputs, delta_tensor_id_t *made) {
  const update_group_t *group = &grouping->groups.items[g];
  const uint32_t input_count = delta_each_input_count(attrs), output_count = attrs->count * attrs->expr.output_count;
  char *name = NULL;
  list_operands(grouping, rewrite, g, attrs, inputs, outputs);
  DELTA_RETURN_IF_ERROR(delta_region_format(&rewrite->to->region, &name, "%s and %u more", group->first->name, group->count - 1));
  delta_rewrite_follow(rewrite, group->last);
  rewrite->emit.name = name;
  delta_emit_node(&rewrite->emit, DELTA_CORE_EACH, attrs, sizeof *attrs, inputs, input_count, made, output_count, UINT64_MAX);
  for (uint32_t k = 0; k < output_count; ++k) delta_rewrite_bind(rewrite, outputs[k], made[k]);
  return DELTA_OK;
}

static delta_status_t emit_group(const grouping_t *grouping, delta_rewrite_t *rewrite, uint32_t g) {
  const update_group_t *group = &grouping->groups.items[g];
  const delta_pointwise_attrs_t *of_set = attrs_of(group->first);
  delta_each_attrs_t attrs = {.count = group->count, .shared = group->shared, .expr = of_set->expr};
  memcpy(attrs.dtypes, of_set->dtypes, sizeof attrs.dtypes);
  void *instrs = NULL;
  DELTA_RETURN_IF_ERROR(
      delta_region_copy(&rewrite->to->region, of_set->expr.instrs, of_set->expr.instr_count, sizeof *of_set->expr.instrs, &instrs));
  attrs.expr.instrs = instrs;
  delta_tensor_id_t *lists = NULL;
  const uint32_t input_count = delta_each_input_count(&attrs), output_count = attrs.count * attrs.expr.output_count;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(grouping->allocator, (size_t)input_count + 2 * (size_t)output_count, &lists));
  const delta_status_t status = emit_lists(grouping, rewrite, g, &attrs, lists, lists + input_count, lists + input_count + output_count);
  delta_release(grouping->allocator, lists);
  return status;
}

// A group of one stays what it is.
static delta_status_t rewrite_node(const grouping_t *grouping, delta_rewrite_t *rewrite, uint32_t n) {
  const delta_node_t *node = &grouping->readers->graph->nodes.items[n];
  const uint32_t g = grouping->group_of[n];
  const update_group_t *group = g == DELTA_INDEX_NONE ? NULL : &grouping->groups.items[g];
  if (!group || group->count == 1) {
    delta_rewrite_copy_node(rewrite, node, UINT64_MAX);
    return DELTA_OK;
  }
  return node == group->last && delta_emit_ok(&rewrite->emit) ? emit_group(grouping, rewrite, g) : DELTA_OK;
}

static delta_status_t rewrite_all(const grouping_t *grouping, delta_allocator_t allocator, delta_graph_t **out_graph) {
  const delta_graph_t *graph = grouping->readers->graph;
  delta_rewrite_t rewrite;
  DELTA_RETURN_IF_ERROR(delta_rewrite_begin(&rewrite, graph, allocator));
  for (uint32_t n = 0; n < graph->nodes.count; ++n) {
    const delta_status_t status = rewrite_node(grouping, &rewrite, n);
    if (status) delta_emit_fail(&rewrite.emit, status);
  }
  return delta_rewrite_finish(&rewrite, out_graph);
}

delta_status_t delta_graph_group_updates(delta_graph_t *graph, delta_allocator_t allocator, delta_graph_t **out_graph) {
  delta_readers_t readers;
  DELTA_RETURN_IF_ERROR(delta_readers_init(graph, &readers));
  grouping_t grouping = {
      .readers = &readers, .allocator = allocator, .limit_bytes = largest_tensor_bytes(graph) / DELTA_UPDATE_GROUP_PARTS};
  if (grouping.limit_bytes > DELTA_UPDATE_GROUP_BYTES) grouping.limit_bytes = DELTA_UPDATE_GROUP_BYTES;
  delta_status_t status = find_groups(&grouping);
  if (!status) status = rewrite_all(&grouping, allocator, out_graph);
  delta_release(allocator, grouping.group_of);
  delta_array_deinit(allocator, &grouping.groups);
  delta_readers_deinit(&readers);
  return status;
}
