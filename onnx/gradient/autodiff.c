// Reverse-mode differentiation of a graph: walks the nodes backwards, asks each operator's gradient function, sums where a tensor has several uses.
#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "onnx/gradient/rule.h"

#define SLOT_NONE SIZE_MAX

typedef struct autodiff {
  delta_emit_t *emit;
  uint32_t levers;
  uint32_t next_group;                                        // for sums of gradients from several operators; NONE: not looked for yet
  delta_graph_mark_t first;                                   // what lies before is not visited
  size_t node_count, slot_count;                              // when differentiation began: what is emitted meanwhile is not visited
  const delta_tensor_id_t *xs;                                // Borrowed.
  size_t x_count;                                             //
  bool *leads;                                                // slot -> the tensor depends on some x through differentiable values
  bool *flows;                                                // slot -> some y depends on it
  delta_tensor_id_t *gradients;                               // slot -> sum of the gradients that arrived so far, or NONE
  DELTA_ARRAY(bool) wanted;                                   // scratch: one per input of a node
  DELTA_ARRAY(delta_tensor_id_t) in_gradients, out_gradients; // scratch
} autodiff_t;

static void autodiff_deinit(autodiff_t *self) {
  const delta_allocator_t allocator = self->emit->graph->allocator;
  delta_release(allocator, self->leads);
  delta_release(allocator, self->flows);
  delta_release(allocator, self->gradients);
  delta_array_deinit(allocator, &self->wanted);
  delta_array_deinit(allocator, &self->in_gradients);
  delta_array_deinit(allocator, &self->out_gradients);
}

// Where marks and gradient of a tensor are kept: tensors from the first on in their order, then those of xs that lie before. Other tensors have
// none. Without a part left out there are no such xs, so the search is short.
static size_t slot_of(const autodiff_t *self, delta_tensor_id_t id) {
  if (delta_tensor_is_none(id)) return SLOT_NONE;
  const size_t later = self->slot_count - self->x_count;
  if (id.index >= self->first.tensor_count)
    return id.index - self->first.tensor_count < later ? id.index - self->first.tensor_count : SLOT_NONE;
  for (size_t i = 0; i < self->x_count; ++i) {
    if (self->xs[i].index == id.index) return later + i;
  }
  return SLOT_NONE;
}

static bool is_marked(const autodiff_t *self, const bool *marks, delta_tensor_id_t id) {
  const size_t slot = slot_of(self, id);
  return slot != SLOT_NONE && marks[slot];
}

static void mark(const autodiff_t *self, bool *marks, delta_tensor_id_t id) {
  const size_t slot = slot_of(self, id);
  if (slot != SLOT_NONE) marks[slot] = true;
}

static bool carries_gradient(const autodiff_t *self, delta_tensor_id_t id) {
  return !delta_tensor_is_none(id) && delta_dtype_is_float(self->emit->graph->tensors.items[id.index].dtype);
}

static bool any_marked(const autodiff_t *self, const bool *marks, const delta_tensor_id_t *ids, uint32_t count) {
  for (uint32_t k = 0; k < count; ++k) {
    if (is_marked(self, marks, ids[k])) return true;
  }
  return false;
}

// The weights of labels are outputs that do not depend on the scores.
static bool output_differentiable(const delta_node_t *node, uint32_t k) {
  return !((node->op == DELTA_CORE_CROSS_ENTROPY || node->op == DELTA_CORE_NLL) && k == 1);
}

static void mark_path(autodiff_t *self, const delta_tensor_id_t *ys, size_t y_count) {
  const delta_graph_t *graph = self->emit->graph;
  for (size_t i = 0; i < self->x_count; ++i) {
    if (carries_gradient(self, self->xs[i])) mark(self, self->leads, self->xs[i]);
  }
  for (size_t n = self->first.node_count; n < self->node_count; ++n) {
    const delta_node_t *node = &graph->nodes.items[n];
    if (!any_marked(self, self->leads, node->inputs, node->input_count)) continue;
    for (uint32_t k = 0; k < node->output_count; ++k) {
      if (carries_gradient(self, node->outputs[k]) && output_differentiable(node, k)) mark(self, self->leads, node->outputs[k]);
    }
  }
  for (size_t i = 0; i < y_count; ++i) mark(self, self->flows, ys[i]);
  for (size_t n = self->node_count; n-- > self->first.node_count;) {
    const delta_node_t *node = &graph->nodes.items[n];
    if (!any_marked(self, self->flows, node->outputs, node->output_count)) continue;
    for (uint32_t k = 0; k < node->input_count; ++k) mark(self, self->flows, node->inputs[k]);
  }
}

static bool on_path(const autodiff_t *self, const delta_node_t *node) {
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (is_marked(self, self->leads, node->outputs[k]) && is_marked(self, self->flows, node->outputs[k])) return true;
  }
  return false;
}

// All operators without a gradient at once.
static delta_status_t check_differentiable(const autodiff_t *self) {
  enum { NAMES = 5 };
  const delta_graph_t *graph = self->emit->graph;
  delta_text_t names;
  delta_text_init(&names, graph->allocator);
  delta_status_t status = DELTA_OK;
  size_t count = 0;
  for (size_t n = self->first.node_count; n < self->node_count && !status; ++n) {
    const delta_node_t *node = &graph->nodes.items[n];
    const delta_core_op_info_t *info = delta_core_op_info(node->op);
    if (info->gradient != delta_gradient_none || !on_path(self, node)) continue;
    if (count++ < NAMES) status = delta_text_append(&names, "%s'%s' (%s)", count > 1 ? ", " : "", node->name, info->name);
  }
  if (!status && count > NAMES) status = delta_text_append(&names, " and %zu more", count - NAMES);
  if (!status && count > 0) {
    status = delta_status_make(UNSUPPORTED,
                               "no gradient through %zu node%s between the trained weights and the loss: %s; freeze the weights before "
                               "them with --freeze GLOB",
                               count, count == 1 ? "" : "s", names.items);
  }
  delta_text_deinit(&names);
  return status;
}

static uint32_t group_of(const autodiff_t *self, delta_tensor_id_t id) {
  const delta_tensor_t *tensor = delta_emit_tensor(self->emit, id);
  return tensor->role == DELTA_ROLE_COMPUTED ? delta_graph_node(self->emit->graph, tensor->producer)->group : DELTA_INDEX_NONE;
}

static uint32_t free_group(const delta_graph_t *graph) {
  uint32_t group = 0;
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    if (graph->nodes.items[n].group >= group) group = graph->nodes.items[n].group + 1;
  }
  return group;
}

// Adds `gradient` to what has arrived for `id`: pairwise, in order of arrival, so that the sum's order is fixed and each partial sum dies at once.
static void arrive(autodiff_t *self, delta_tensor_id_t id, delta_tensor_id_t gradient) {
  const size_t slot = slot_of(self, id);
  if (delta_tensor_is_none(gradient) || slot == SLOT_NONE) return;
  delta_tensor_id_t *sum = &self->gradients[slot];
  if (delta_tensor_is_none(*sum)) {
    *sum = gradient;
    return;
  }
  const uint32_t group = self->emit->group;
  if (group_of(self, *sum) != group_of(self, gradient)) {
    if (self->next_group == DELTA_INDEX_NONE) self->next_group = free_group(self->emit->graph);
    self->emit->group = self->next_group++; // a group of its own: the sum is part of neither operator
  }
  *sum = delta_emit_binary(self->emit, DELTA_EXPR_ADD, *sum, gradient);
  self->emit->group = group;
}

static delta_status_t prepare_scratch(autodiff_t *self, const delta_node_t *node) {
  const delta_allocator_t allocator = self->emit->graph->allocator;
  self->wanted.count = self->in_gradients.count = self->out_gradients.count = 0;
  DELTA_RETURN_IF_ERROR(delta_array_reserve(allocator, &self->wanted, node->input_count));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(allocator, &self->in_gradients, node->input_count));
  return delta_array_reserve(allocator, &self->out_gradients, node->output_count);
}

static delta_status_t differentiate_node(autodiff_t *self, const delta_node_t *node) {
  DELTA_RETURN_IF_ERROR(prepare_scratch(self, node));
  bool arrived = false;
  for (uint32_t k = 0; k < node->output_count; ++k) {
    const bool useful = is_marked(self, self->leads, node->outputs[k]);
    self->out_gradients.items[k] = useful ? self->gradients[slot_of(self, node->outputs[k])] : DELTA_TENSOR_NONE;
    arrived = arrived || !delta_tensor_is_none(self->out_gradients.items[k]);
  }
  if (!arrived) return DELTA_OK;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    self->wanted.items[k] = is_marked(self, self->leads, node->inputs[k]);
    self->in_gradients.items[k] = DELTA_TENSOR_NONE;
  }
  char *name = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_format(&self->emit->graph->region, &name, "%s/gradient", node->name));
  self->emit->name = name;
  self->emit->group = node->group;
  const delta_gradient_args_t args = {.emit = self->emit,
                                      .node = node,
                                      .output_gradients = self->out_gradients.items,
                                      .wanted = self->wanted.items,
                                      .input_gradients = self->in_gradients.items,
                                      .levers = self->levers};
  DELTA_RETURN_IF_ERROR(delta_core_op_info(node->op)->gradient(&args));
  if (!delta_emit_ok(self->emit)) return delta_status_annotate(delta_emit_finish(self->emit), "gradient of node '%s'", node->name);
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_id_t gradient = self->in_gradients.items[k];
    if (!self->wanted.items[k] || delta_tensor_is_none(gradient)) continue;
    assert(delta_shape_equal(delta_emit_shape(self->emit, gradient), delta_emit_shape(self->emit, node->inputs[k])));
    assert(delta_emit_dtype(self->emit, gradient) == delta_emit_dtype(self->emit, node->inputs[k]));
    arrive(self, node->inputs[k], gradient);
  }
  return DELTA_OK;
}

static delta_status_t walk(autodiff_t *self, const delta_tensor_id_t *ys, const delta_tensor_id_t *seeds, size_t y_count) {
  for (size_t i = 0; i < y_count; ++i) arrive(self, ys[i], seeds[i]);
  for (size_t n = self->node_count; n-- > self->first.node_count;) {
    const delta_node_t node = self->emit->graph->nodes.items[n]; // a copy: the list may move while gradients are emitted
    if (on_path(self, &node)) DELTA_RETURN_IF_ERROR(differentiate_node(self, &node));
  }
  return DELTA_OK;
}

delta_graph_mark_t delta_graph_mark(const delta_graph_t *graph) {
  return (delta_graph_mark_t){.node_count = graph->nodes.count, .tensor_count = graph->tensors.count};
}

delta_status_t delta_autodiff_since(delta_emit_t *emit, delta_graph_mark_t first, const delta_tensor_id_t *ys,
                                    const delta_tensor_id_t *seeds, size_t y_count, const delta_tensor_id_t *xs, size_t x_count,
                                    uint32_t levers, delta_tensor_id_t *out_gradients) {
  DELTA_RETURN_IF_ERROR(delta_emit_finish(emit));
  const delta_allocator_t allocator = emit->graph->allocator;
  const delta_emit_t before = *emit;
  autodiff_t self = {.emit = emit,
                     .levers = levers,
                     .next_group = DELTA_INDEX_NONE,
                     .first = first,
                     .node_count = emit->graph->nodes.count,
                     .slot_count = emit->graph->tensors.count - first.tensor_count + x_count,
                     .xs = xs,
                     .x_count = x_count};
  emit->phase = DELTA_PHASE_BACKWARD;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, self.slot_count, &self.leads), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, self.slot_count, &self.flows), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, self.slot_count, &self.gradients), cleanup);
  for (size_t slot = 0; slot < self.slot_count; ++slot) self.gradients[slot] = DELTA_TENSOR_NONE;
  mark_path(&self, ys, y_count);
  DELTA_GOTO_IF_ERROR(status, check_differentiable(&self), cleanup);
  DELTA_GOTO_IF_ERROR(status, walk(&self, ys, seeds, y_count), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_emit_finish(emit), cleanup);
  for (size_t i = 0; i < x_count; ++i) out_gradients[i] = self.gradients[slot_of(&self, xs[i])];
cleanup:
  autodiff_deinit(&self);
  emit->name = before.name;
  emit->phase = before.phase;
  emit->group = before.group;
  return status;
}

delta_status_t delta_autodiff_outputs(delta_emit_t *emit, const delta_tensor_id_t *ys, const delta_tensor_id_t *seeds, size_t y_count,
                                      const delta_tensor_id_t *xs, size_t x_count, uint32_t levers, delta_tensor_id_t *out_gradients) {
  return delta_autodiff_since(emit, (delta_graph_mark_t){0}, ys, seeds, y_count, xs, x_count, levers, out_gradients);
}

delta_status_t delta_autodiff(delta_emit_t *emit, delta_tensor_id_t y, delta_tensor_id_t seed, const delta_tensor_id_t *xs, size_t count,
                              uint32_t levers, delta_tensor_id_t *out_gradients) {
  return delta_autodiff_outputs(emit, &y, &seed, 1, xs, count, levers, out_gradients);
}

delta_status_t delta_gradient_none(const delta_gradient_args_t *args) {
  return delta_status_make(UNSUPPORTED, "node '%s': operator %s has no gradient", args->node->name,
                           delta_core_op_info(args->node->op)->name);
}
