// Eager: matching on the nodes of the file, where an operator is a name; import numbers groups by node.
#include "onnx/eager.h"

#include <string.h>

#include "base/allocator.h"

enum { NODE_NONE = UINT32_MAX };

typedef struct matcher {
  const delta_model_t *model;
  uint32_t *uses;      // by value: inputs that name it
  uint32_t *last_user; // by value: the last node that reads it
  uint32_t *group;     // by node: the group it gets
} matcher_t;

static bool is_op(const matcher_t *self, uint32_t node, const char *op_type) {
  return node != NODE_NONE && strcmp(self->model->nodes[node].op_type, op_type) == 0;
}

// The node that makes input k of `node`, or NODE_NONE.
static uint32_t producer(const matcher_t *self, uint32_t node, uint32_t k) {
  if (node == NODE_NONE || k >= self->model->nodes[node].input_count) return NODE_NONE;
  const delta_value_id_t id = self->model->nodes[node].inputs[k];
  if (delta_value_is_none(id) || self->model->values[id.index].kind != DELTA_VALUE_NODE_OUTPUT) return NODE_NONE;
  return self->model->values[id.index].index;
}

// The producer of input 0 or 1 that is `op_type`, or NODE_NONE.
static uint32_t producer_of_type(const matcher_t *self, uint32_t node, const char *op_type) {
  for (uint32_t k = 0; k < 2; ++k) {
    const uint32_t found = producer(self, node, k);
    if (is_op(self, found, op_type)) return found;
  }
  return NODE_NONE;
}

// The only node that reads output 0 of `node`, if it is `op_type`; else NODE_NONE.
static uint32_t only_user(const matcher_t *self, uint32_t node, const char *op_type) {
  if (node == NODE_NONE) return NODE_NONE;
  const delta_value_id_t id = self->model->nodes[node].outputs[0];
  if (delta_value_is_none(id) || self->uses[id.index] != 1) return NODE_NONE;
  const uint32_t user = self->last_user[id.index];
  return is_op(self, user, op_type) ? user : NODE_NONE;
}

static bool reads(const matcher_t *self, uint32_t node, delta_value_id_t value) {
  for (uint32_t k = 0; k < self->model->nodes[node].input_count; ++k) {
    if (self->model->nodes[node].inputs[k].index == value.index) return true;
  }
  return false;
}

static void join(matcher_t *self, const uint32_t *nodes, size_t count, uint32_t group) {
  for (size_t k = 0; k < count; ++k) {
    if (nodes[k] != NODE_NONE) self->group[nodes[k]] = group;
  }
}

// x * 0.5 * (1 + erf(x / sqrt(2))), with the half before or after, and the quotient also as a product.
static void match_gelu(matcher_t *self, uint32_t erf) {
  uint32_t inner = producer(self, erf, 0);
  if (!is_op(self, inner, "Div") && !is_op(self, inner, "Mul")) return;
  const delta_value_id_t x = self->model->nodes[inner].inputs[0];
  const uint32_t shifted = only_user(self, erf, "Add");
  const uint32_t product = only_user(self, shifted, "Mul");
  if (product == NODE_NONE) return;
  const uint32_t half_before = producer_of_type(self, product, "Mul");
  const uint32_t half_after = only_user(self, product, "Mul");
  const bool before = half_before != NODE_NONE && reads(self, half_before, x);
  if (!before && !(reads(self, product, x) && half_after != NODE_NONE)) return;
  const uint32_t nodes[] = {inner, erf, shifted, product, before ? half_before : half_after};
  join(self, nodes, sizeof nodes / sizeof nodes[0], erf);
}

static void match_layer_norm(matcher_t *self, uint32_t root) {
  const uint32_t with_epsilon = producer(self, root, 0);
  const uint32_t variance = producer_of_type(self, with_epsilon, "ReduceMean");
  const uint32_t squares = producer(self, variance, 0);
  const uint32_t difference = producer(self, squares, 0);
  const uint32_t mean = producer(self, difference, 1);
  const uint32_t quotient = only_user(self, root, "Div");
  const bool fits = is_op(self, with_epsilon, "Add") && (is_op(self, squares, "Pow") || is_op(self, squares, "Mul")) &&
                    is_op(self, difference, "Sub") && is_op(self, mean, "ReduceMean") && is_op(self, producer(self, quotient, 0), "Sub");
  if (!fits || self->model->nodes[mean].inputs[0].index != self->model->nodes[difference].inputs[0].index) return;
  const uint32_t scaled = only_user(self, quotient, "Mul");
  const uint32_t shifted = only_user(self, scaled, "Add");
  const uint32_t nodes[] = {mean,   difference, producer(self, quotient, 0), squares, variance, with_epsilon, root, quotient,
                            scaled, shifted};
  join(self, nodes, sizeof nodes / sizeof nodes[0], root);
}

static void count_uses(matcher_t *self) {
  for (uint32_t n = 0; n < self->model->node_count; ++n) {
    const delta_model_node_t *node = &self->model->nodes[n];
    self->group[n] = n;
    for (uint32_t k = 0; k < node->input_count; ++k) {
      if (delta_value_is_none(node->inputs[k])) continue;
      self->uses[node->inputs[k].index] += 1;
      self->last_user[node->inputs[k].index] = n;
    }
  }
}

delta_status_t delta_graph_recognise_eager(const delta_model_t *model, delta_graph_t *graph) {
  const delta_allocator_t allocator = graph->allocator;
  matcher_t self = {.model = model};
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, model->value_count, &self.uses), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, model->value_count, &self.last_user), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, model->node_count, &self.group), cleanup);
  count_uses(&self);
  for (uint32_t n = 0; n < model->node_count; ++n) {
    if (is_op(&self, n, "Erf")) match_gelu(&self, n);
    if (is_op(&self, n, "Sqrt")) match_layer_norm(&self, n);
  }
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    delta_node_t *node = &graph->nodes.items[n];
    if (node->group < model->node_count) node->group = self.group[node->group];
  }
cleanup:
  delta_release(allocator, self.group);
  delta_release(allocator, self.last_user);
  delta_release(allocator, self.uses);
  return status;
}
