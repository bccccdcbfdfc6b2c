// Rewrite: copies of nodes, and the maps from the old graph to the new one.
#include "onnx/graph/rewrite.h"

#include <stdio.h>

static delta_status_t copy_sources(delta_rewrite_t *rewrite) {
  const delta_graph_t *from = rewrite->from;
  for (size_t i = 0; i < from->tensors.count; ++i) rewrite->map[i] = DELTA_TENSOR_NONE;
  for (size_t i = 0; i < from->inputs.count; ++i) {
    const delta_tensor_t *tensor = delta_graph_tensor(from, from->inputs.items[i]);
    DELTA_RETURN_IF_ERROR(
        delta_graph_add_input(rewrite->to, tensor->name, tensor->dtype, &tensor->shape, &rewrite->map[from->inputs.items[i].index]));
  }
  for (size_t i = 0; i < from->states.count; ++i) {
    const delta_state_t *state = &from->states.items[i];
    uint32_t index;
    DELTA_RETURN_IF_ERROR(delta_graph_add_state(rewrite->to, state, &index));
    if (!delta_tensor_is_none(state->current)) rewrite->map[state->current.index] = rewrite->to->states.items[index].current;
  }
  return DELTA_OK;
}

static void release_maps(delta_rewrite_t *rewrite) {
  const delta_allocator_t allocator = rewrite->to->allocator;
  delta_release(allocator, rewrite->map);
  delta_map_deinit(&rewrite->constants);
  delta_array_deinit(allocator, &rewrite->constant_data);
}

delta_status_t delta_rewrite_begin(delta_rewrite_t *rewrite, const delta_graph_t *from, delta_allocator_t allocator) {
  *rewrite = (delta_rewrite_t){.from = from};
  DELTA_RETURN_IF_ERROR(delta_graph_create(allocator, &rewrite->to));
  delta_map_init(&rewrite->constants, allocator);
  delta_emit_init(&rewrite->emit, rewrite->to);
  rewrite->emit.fold = false;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, from->tensors.count, &rewrite->map), failed);
  DELTA_GOTO_IF_ERROR(status, copy_sources(rewrite), failed);
  return DELTA_OK;
failed:
  release_maps(rewrite);
  delta_graph_free(rewrite->to);
  return status;
}

static delta_status_t bind_results(delta_rewrite_t *rewrite) {
  const delta_graph_t *from = rewrite->from;
  for (size_t i = 0; i < from->outputs.count && delta_emit_ok(&rewrite->emit); ++i) {
    const delta_tensor_id_t tensor = delta_rewrite_tensor(rewrite, from->outputs.items[i].tensor);
    if (delta_emit_ok(&rewrite->emit)) DELTA_RETURN_IF_ERROR(delta_graph_add_output(rewrite->to, from->outputs.items[i].name, tensor));
  }
  for (uint32_t i = 0; i < from->states.count && delta_emit_ok(&rewrite->emit); ++i) {
    if (delta_tensor_is_none(from->states.items[i].next)) continue;
    const delta_tensor_id_t next = delta_rewrite_tensor(rewrite, from->states.items[i].next);
    if (delta_emit_ok(&rewrite->emit)) DELTA_RETURN_IF_ERROR(delta_graph_set_next(rewrite->to, i, next));
  }
  return delta_emit_finish(&rewrite->emit);
}

delta_status_t delta_rewrite_finish(delta_rewrite_t *rewrite, delta_graph_t **out_graph) {
  const delta_status_t status = bind_results(rewrite);
  release_maps(rewrite);
  if (status) {
    delta_graph_free(rewrite->to);
  } else {
    *out_graph = rewrite->to;
  }
  rewrite->to = NULL;
  return status;
}

delta_tensor_id_t delta_rewrite_tensor(delta_rewrite_t *rewrite, delta_tensor_id_t from) {
  if (delta_tensor_is_none(from) || !delta_emit_ok(&rewrite->emit)) return DELTA_TENSOR_NONE;
  const delta_tensor_id_t to = rewrite->map[from.index];
  if (!delta_tensor_is_none(to)) return to;
  return delta_emit_fail(&rewrite->emit, delta_status_make(INTERNAL, "rewriting the graph: tensor %u '%s' was not made", from.index,
                                                           rewrite->from->tensors.items[from.index].name));
}

void delta_rewrite_bind(delta_rewrite_t *rewrite, delta_tensor_id_t from, delta_tensor_id_t to) { rewrite->map[from.index] = to; }

void delta_rewrite_follow(delta_rewrite_t *rewrite, const delta_node_t *node) {
  rewrite->emit.name = node->name;
  rewrite->emit.phase = node->phase;
  rewrite->emit.group = node->group;
  rewrite->emit.kin = node->kin;
}

// Copies a constant's bytes once, however many constants share them. The key has the size because empty data may have any address.
static delta_status_t copy_data(delta_rewrite_t *rewrite, const delta_constant_attrs_t *attrs, const void **out_data) {
  const size_t count = (size_t)delta_shape_count(&attrs->shape), element_bytes = delta_dtype_bytes(attrs->dtype);
  char key[64];
  snprintf(key, sizeof key, "%p %zu", attrs->data, count * element_bytes);
  const uint32_t known = delta_map_find(&rewrite->constants, key);
  if (known != DELTA_MAP_NONE) {
    *out_data = rewrite->constant_data.items[known];
    return DELTA_OK;
  }
  void *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy(&rewrite->to->region, attrs->data, count, element_bytes, &copy));
  *out_data = copy;
  DELTA_RETURN_IF_ERROR(delta_map_set(&rewrite->constants, key, (uint32_t)rewrite->constant_data.count));
  return delta_array_push(rewrite->to->allocator, &rewrite->constant_data, out_data);
}

static delta_status_t copy_instrs(delta_rewrite_t *rewrite, delta_expr_t *expr) {
  void *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy(&rewrite->to->region, expr->instrs, expr->instr_count, sizeof *expr->instrs, &copy));
  expr->instrs = copy;
  return DELTA_OK;
}

delta_status_t delta_rewrite_copy_attrs(delta_rewrite_t *rewrite, const delta_node_t *node, delta_rewrite_attrs_t *storage,
                                        const void **out_attrs) {
  *out_attrs = storage;
  switch (node->op) {
    case DELTA_CORE_CONSTANT:
      storage->constant = *(const delta_constant_attrs_t *)node->attrs;
      return copy_data(rewrite, node->attrs, &storage->constant.data);
    case DELTA_CORE_POINTWISE:
      storage->pointwise = *(const delta_pointwise_attrs_t *)node->attrs;
      return copy_instrs(rewrite, &storage->pointwise.expr);
    case DELTA_CORE_EACH:
      storage->each = *(const delta_each_attrs_t *)node->attrs;
      return copy_instrs(rewrite, &storage->each.expr);
    case DELTA_CORE_REDUCE:
      storage->reduce = *(const delta_reduce_attrs_t *)node->attrs;
      return copy_instrs(rewrite, &storage->reduce.expr);
    case DELTA_CORE_SPLIT: {
      void *sizes = NULL;
      storage->split = *(const delta_split_attrs_t *)node->attrs;
      DELTA_RETURN_IF_ERROR(
          delta_region_copy(&rewrite->to->region, storage->split.sizes, node->output_count, sizeof *storage->split.sizes, &sizes));
      storage->split.sizes = sizes;
      return DELTA_OK;
    }
    default:
      *out_attrs = node->attrs;
      return DELTA_OK;
  }
}

static delta_status_t copy_node(delta_rewrite_t *rewrite, const delta_node_t *node, uint64_t wanted, delta_tensor_id_t *inputs,
                                delta_tensor_id_t *outputs) {
  for (uint32_t k = 0; k < node->input_count; ++k) inputs[k] = delta_rewrite_tensor(rewrite, node->inputs[k]);
  if (!delta_emit_ok(&rewrite->emit)) return DELTA_OK;
  uint64_t kept = 0;
  for (uint32_t k = 0; k < node->output_count && k < 64; ++k) {
    if (!delta_tensor_is_none(node->outputs[k])) kept |= UINT64_C(1) << k;
  }
  delta_rewrite_attrs_t storage;
  const void *attrs = NULL;
  DELTA_RETURN_IF_ERROR(delta_rewrite_copy_attrs(rewrite, node, &storage, &attrs));
  delta_rewrite_follow(rewrite, node);
  delta_emit_node(&rewrite->emit, node->op, attrs, node->attrs_bytes, inputs, node->input_count, outputs, node->output_count,
                  kept & wanted);
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (!delta_tensor_is_none(node->outputs[k])) delta_rewrite_bind(rewrite, node->outputs[k], outputs[k]);
  }
  return DELTA_OK;
}

void delta_rewrite_copy_node(delta_rewrite_t *rewrite, const delta_node_t *node, uint64_t wanted) {
  if (!delta_emit_ok(&rewrite->emit)) return;
  const delta_allocator_t allocator = rewrite->to->allocator;
  delta_tensor_id_t *inputs = NULL, *outputs = NULL;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, node->input_count, &inputs), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, node->output_count, &outputs), cleanup);
  status = copy_node(rewrite, node, wanted, inputs, outputs);
cleanup:
  delta_release(allocator, outputs);
  delta_release(allocator, inputs);
  if (status) delta_emit_fail(&rewrite->emit, status);
}
