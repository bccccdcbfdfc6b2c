// Sharing: a value that several nodes compute from the same two large tensors, and from nothing else, is computed once.
//
// It then takes the bytes of one of the two, and both can go: the gradient that passes a ReLU stands for the gradient before it and for the output that says where it passes.
// Three readers then pass over no more memory than before, and one large tensor less lives until the last of them. It is done only where these readers are the last ones of both.
#include <stdlib.h>
#include <string.h>

#include "onnx/graph/fuse_share.h"
#include "onnx/graph/fuse_form.h"

// Readers from which on nothing more is read and stored: two tensors for each of them before, one and what it takes to make it after.
enum { LEAST_READERS = 3, MOST_INSTRS = 12, PAIR = 2 };

// A value that a node computes from two tensors.
typedef struct shared_value {
  uint32_t tensors[PAIR];
  uint32_t node;
  uint16_t instr; // of the node's expression
  uint16_t instr_count;
  delta_expr_instr_t instrs[MOST_INSTRS]; // what computes it, with the tensors as inputs
} shared_value_t;

typedef struct sharing {
  const delta_graph_t *graph;
  delta_allocator_t allocator;
  DELTA_ARRAY(shared_value_t) values;
  uint32_t *value_of;      // by node: 1 + the value that it reads from now on; 0: none
  uint32_t *first_of;      // by value: 1 + the first of those that are equal to it; 0: it is computed where it is
  uint32_t *last_reader;   // by storage: DELTA_INDEX_NONE: the program needs it at its end
  delta_tensor_id_t *made; // by value: of the new graph
} sharing_t;

// ---- Values in expressions

// What instructions depend on.
enum { ON_FIRST = 1, ON_SECOND = 2, ON_BOTH = ON_FIRST | ON_SECOND, ON_OTHERS = 4 };

static void find_dependences(const delta_expr_t *expr, const uint16_t pair[PAIR], uint8_t *out_on) {
  for (uint16_t i = 0; i < expr->instr_count; ++i) {
    const delta_expr_instr_t *instr = &expr->instrs[i];
    out_on[i] = 0;
    if (instr->op == DELTA_EXPR_INPUT)
      out_on[i] = instr->operands[0] == pair[0] ? ON_FIRST : instr->operands[0] == pair[1] ? ON_SECOND : ON_OTHERS;
    const int arity = instr->op == DELTA_EXPR_INPUT ? 0 : delta_expr_op_info((delta_expr_op_t)instr->op)->arity;
    for (int k = 0; k < arity; ++k) out_on[i] |= out_on[instr->operands[k]];
  }
}

// Marks the instructions that another one needs, itself among them.
static void mark_cone(const delta_expr_t *expr, uint16_t top, bool *out_in_cone) {
  memset(out_in_cone, 0, expr->instr_count * sizeof *out_in_cone);
  out_in_cone[top] = true;
  for (uint16_t i = (uint16_t)(top + 1); i-- > 0;) {
    const delta_expr_instr_t *instr = &expr->instrs[i];
    if (!out_in_cone[i] || instr->op == DELTA_EXPR_INPUT) continue;
    for (int k = 0; k < delta_expr_op_info((delta_expr_op_t)instr->op)->arity; ++k) out_in_cone[instr->operands[k]] = true;
  }
}

// Whether the rest of the expression needs of two inputs nothing but the value of one instruction.
static bool is_all_of_them(const delta_expr_t *expr, const uint8_t *on, uint16_t top) {
  bool in_cone[DELTA_EXPR_MAX_INSTRS];
  mark_cone(expr, top, in_cone);
  for (uint16_t i = 0; i < expr->instr_count; ++i) {
    const delta_expr_instr_t *instr = &expr->instrs[i];
    if (in_cone[i] || instr->op == DELTA_EXPR_INPUT) continue;
    for (int k = 0; k < delta_expr_op_info((delta_expr_op_t)instr->op)->arity; ++k) {
      const uint16_t operand = instr->operands[k];
      if (operand != top && in_cone[operand] && (on[operand] & ON_BOTH)) return false;
    }
  }
  for (uint16_t k = 0; k < expr->output_count; ++k) {
    if (expr->outputs[k] != top && in_cone[expr->outputs[k]]) return false;
  }
  return true;
}

// The first instruction that depends on both inputs of a pair; instr_count: none that depends on nothing else and is all that is needed of them.
static uint16_t find_value(const delta_expr_t *expr, const uint16_t pair[PAIR]) {
  uint8_t on[DELTA_EXPR_MAX_INSTRS];
  find_dependences(expr, pair, on);
  uint16_t top = 0;
  while (top < expr->instr_count && (on[top] & ON_BOTH) != ON_BOTH) ++top;
  const bool is_value = top < expr->instr_count && !(on[top] & ON_OTHERS) && is_all_of_them(expr, on, top);
  return is_value ? top : expr->instr_count;
}

// Notes how an instruction computes its value, in a form that is equal for equal values.
static bool copy_cone(const delta_expr_t *expr, const uint16_t pair[PAIR], shared_value_t *value) {
  delta_expr_builder_t builder;
  delta_expr_t only = *expr;
  uint16_t inputs[DELTA_EXPR_MAX_INPUTS] = {0}, top;
  only.output_count = 1;
  only.outputs[0] = value->instr;
  delta_expr_builder_init(&builder, expr->compute);
  for (int k = 0; k < PAIR; ++k) inputs[pair[k]] = delta_expr_input(&builder, (uint16_t)k);
  delta_expr_inline(&builder, &only, inputs, &top);
  if (builder.overflow || builder.expr.instr_count > MOST_INSTRS || top + 1 != builder.expr.instr_count) return false;
  value->instr_count = builder.expr.instr_count;
  memcpy(value->instrs, builder.storage, builder.expr.instr_count * sizeof *builder.storage);
  return true;
}

// ---- Finding equal values

// A tensor of the size that the node runs over, in the type it computes in, that is no state's.
static bool is_large(const sharing_t *sharing, const delta_fuse_form_t *form, delta_tensor_id_t id) {
  const delta_tensor_t *tensor = delta_graph_tensor(sharing->graph, id);
  return delta_shape_equal(&tensor->shape, &form->shape) && tensor->dtype == form->expr.compute &&
         delta_graph_tensor(sharing->graph, tensor->storage)->role == DELTA_ROLE_COMPUTED;
}

static delta_status_t note_values(sharing_t *sharing, uint32_t node) {
  delta_fuse_form_t form;
  if (sharing->graph->nodes.items[node].phase != DELTA_PHASE_BACKWARD || !delta_fuse_form_of(&sharing->graph->nodes.items[node], &form))
    return DELTA_OK;
  for (uint16_t a = 0; a < form.expr.input_count; ++a) {
    for (uint16_t b = 0; b < form.expr.input_count; ++b) {
      const uint16_t pair[PAIR] = {a, b};
      if (form.inputs[a].index >= form.inputs[b].index || !is_large(sharing, &form, form.inputs[a]) ||
          !is_large(sharing, &form, form.inputs[b]))
        continue;
      shared_value_t value = {.tensors = {form.inputs[a].index, form.inputs[b].index}, .node = node, .instr = find_value(&form.expr, pair)};
      if (value.instr < form.expr.instr_count && copy_cone(&form.expr, pair, &value))
        DELTA_RETURN_IF_ERROR(delta_array_push(sharing->allocator, &sharing->values, &value));
    }
  }
  return DELTA_OK;
}

// By tensors, then by how they are computed, then by node.
static int compare_computed(const shared_value_t *a, const shared_value_t *b) {
  for (int k = 0; k < PAIR; ++k) {
    if (a->tensors[k] != b->tensors[k]) return a->tensors[k] < b->tensors[k] ? -1 : 1;
  }
  if (a->instr_count != b->instr_count) return a->instr_count < b->instr_count ? -1 : 1;
  return memcmp(a->instrs, b->instrs, a->instr_count * sizeof *a->instrs);
}

static int compare_values(const void *left, const void *right) {
  const shared_value_t *a = left, *b = right;
  const int order = compare_computed(a, b);
  return order != 0 ? order : a->node < b->node ? -1 : a->node > b->node;
}

// Whether nobody else reads a tensor's bytes from the first reader of the value on.
static bool are_last_readers(const sharing_t *sharing, const shared_value_t *values, size_t count, uint32_t tensor) {
  const uint32_t storage = delta_graph_tensor(sharing->graph, (delta_tensor_id_t){tensor})->storage.index;
  const uint32_t last = values[count - 1].node;
  if (sharing->last_reader[storage] > last) return false;
  size_t next = 0;
  for (uint32_t n = values[0].node; n <= last; ++n) {
    if (n == values[next].node) {
      ++next;
      continue;
    }
    const delta_node_t *node = &sharing->graph->nodes.items[n];
    for (uint32_t k = 0; k < node->input_count; ++k) {
      if (!delta_tensor_is_none(node->inputs[k]) && delta_graph_tensor(sharing->graph, node->inputs[k])->storage.index == storage)
        return false;
    }
  }
  return true;
}

// Whether a run of equal values is worth making once.
static bool is_worth_it(const sharing_t *sharing, const shared_value_t *values, size_t count) {
  if (count < LEAST_READERS) return false;
  for (size_t i = 0; i < count; ++i) {
    if (sharing->value_of[values[i].node] != 0 || (i > 0 && values[i].node == values[i - 1].node)) return false;
  }
  return are_last_readers(sharing, values, count, values->tensors[0]) && are_last_readers(sharing, values, count, values->tensors[1]);
}

static void choose_values(sharing_t *sharing) {
  const shared_value_t *values = sharing->values.items;
  for (size_t begin = 0, end; begin < sharing->values.count; begin = end) {
    for (end = begin + 1; end < sharing->values.count && compare_computed(&values[begin], &values[end]) == 0;) ++end;
    if (!is_worth_it(sharing, &values[begin], end - begin)) continue;
    for (size_t i = begin; i < end; ++i) {
      sharing->value_of[values[i].node] = (uint32_t)i + 1;
      sharing->first_of[i] = (uint32_t)begin + 1;
    }
  }
}

static void find_last_readers(sharing_t *sharing) {
  const delta_graph_t *graph = sharing->graph;
  for (uint32_t n = 0; n < graph->nodes.count; ++n) {
    const delta_node_t *node = &graph->nodes.items[n];
    for (uint32_t k = 0; k < node->input_count; ++k) {
      if (!delta_tensor_is_none(node->inputs[k])) sharing->last_reader[delta_graph_tensor(graph, node->inputs[k])->storage.index] = n;
    }
  }
  for (size_t i = 0; i < graph->outputs.count; ++i)
    sharing->last_reader[delta_graph_tensor(graph, graph->outputs.items[i].tensor)->storage.index] = DELTA_INDEX_NONE;
  for (size_t i = 0; i < graph->states.count; ++i) {
    const delta_tensor_id_t next = graph->states.items[i].next;
    if (!delta_tensor_is_none(next)) sharing->last_reader[delta_graph_tensor(graph, next)->storage.index] = DELTA_INDEX_NONE;
  }
}

// ---- The new graph

static void make_value(sharing_t *sharing, delta_rewrite_t *rewrite, uint32_t index) {
  shared_value_t *value = &sharing->values.items[index];
  delta_fuse_form_t form;
  delta_tensor_id_t inputs[PAIR];
  if (!delta_fuse_form_of(&sharing->graph->nodes.items[value->node], &form)) return;
  form.op = DELTA_CORE_POINTWISE;
  form.dtypes[0] = form.expr.compute;
  form.expr = (delta_expr_t){.compute = form.expr.compute,
                             .input_count = PAIR,
                             .instr_count = value->instr_count,
                             .output_count = 1,
                             .outputs = {(uint16_t)(value->instr_count - 1)},
                             .instrs = value->instrs};
  for (int k = 0; k < PAIR; ++k) inputs[k] = delta_rewrite_tensor(rewrite, (delta_tensor_id_t){value->tensors[k]});
  delta_fuse_emit_with(rewrite, &sharing->graph->nodes.items[value->node], &form, inputs, &sharing->made[index]);
}

// The node with the value in place of what computes it.
static void emit_reader(delta_rewrite_t *rewrite, const delta_node_t *node, const shared_value_t *value, delta_tensor_id_t made) {
  delta_fuse_form_t form;
  delta_expr_builder_t builder;
  uint16_t kept[DELTA_EXPR_MAX_INPUTS];
  delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS], outputs[DELTA_EXPR_MAX_OUTPUTS];
  if (!delta_fuse_form_of(node, &form)) return;
  // One of the two inputs stands for the value: afterwards nothing else reads them.
  uint16_t place = 0;
  while (form.inputs[place].index != value->tensors[0]) ++place;
  builder.expr = form.expr;
  builder.expr.instrs = builder.storage;
  builder.overflow = false;
  memcpy(builder.storage, form.expr.instrs, form.expr.instr_count * sizeof *builder.storage);
  builder.storage[value->instr] = (delta_expr_instr_t){.op = DELTA_EXPR_INPUT, .operands = {place}};
  delta_expr_compact(&builder, kept);
  form.expr = builder.expr;
  for (uint16_t k = 0; k < form.expr.input_count; ++k)
    inputs[k] = kept[k] == place ? made : delta_rewrite_tensor(rewrite, form.inputs[kept[k]]);
  delta_fuse_emit_with(rewrite, node, &form, inputs, outputs);
  for (uint16_t k = 0; k < form.expr.output_count; ++k) delta_rewrite_bind(rewrite, form.outputs[k], outputs[k]);
}

static delta_status_t write_graph(sharing_t *sharing, delta_graph_t **out_graph) {
  delta_rewrite_t rewrite;
  DELTA_RETURN_IF_ERROR(delta_rewrite_begin(&rewrite, sharing->graph, sharing->allocator));
  for (uint32_t n = 0; n < sharing->graph->nodes.count && delta_emit_ok(&rewrite.emit); ++n) {
    const delta_node_t *node = &sharing->graph->nodes.items[n];
    if (sharing->value_of[n] == 0) {
      delta_rewrite_copy_node(&rewrite, node, UINT64_MAX);
      continue;
    }
    const uint32_t value = sharing->value_of[n] - 1, first = sharing->first_of[value] - 1;
    if (value == first) make_value(sharing, &rewrite, first);
    if (delta_emit_ok(&rewrite.emit)) emit_reader(&rewrite, node, &sharing->values.items[value], sharing->made[first]);
  }
  return delta_rewrite_finish(&rewrite, out_graph);
}

static delta_status_t share(sharing_t *sharing, delta_graph_t **out_graph) {
  const size_t nodes = sharing->graph->nodes.count;
  for (uint32_t n = 0; n < nodes; ++n) DELTA_RETURN_IF_ERROR(note_values(sharing, n));
  if (sharing->values.count == 0) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(sharing->allocator, nodes, &sharing->value_of));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(sharing->allocator, sharing->values.count, &sharing->first_of));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(sharing->allocator, sharing->values.count, &sharing->made));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(sharing->allocator, sharing->graph->tensors.count, &sharing->last_reader));
  qsort(sharing->values.items, sharing->values.count, sizeof *sharing->values.items, compare_values);
  find_last_readers(sharing);
  choose_values(sharing);
  return write_graph(sharing, out_graph);
}

delta_status_t delta_fuse_share(const delta_graph_t *graph, delta_allocator_t allocator, delta_graph_t **out_graph) {
  sharing_t sharing = {.graph = graph, .allocator = allocator};
  *out_graph = NULL;
  const delta_status_t status = share(&sharing, out_graph);
  delta_array_deinit(allocator, &sharing.values);
  delta_release(allocator, sharing.value_of);
  delta_release(allocator, sharing.first_of);
  delta_release(allocator, sharing.made);
  delta_release(allocator, sharing.last_reader);
  return status;
}
