// Emit: the general path of every node. Infer, then fold what is constant, else append.
#include "onnx/graph/emit.h"

#include <string.h>

#include "onnx/graph/infer.h"

void delta_emit_init(delta_emit_t *emit, delta_graph_t *graph) {
  *emit = (delta_emit_t){.graph = graph, .name = "", .phase = DELTA_PHASE_FORWARD, .fold = true};
}

delta_status_t delta_emit_finish(delta_emit_t *emit) {
  const delta_status_t status = emit->status;
  emit->status = DELTA_OK;
  return status;
}

delta_tensor_id_t delta_emit_fail(delta_emit_t *emit, delta_status_t status) {
  emit->status = delta_status_join(emit->status, status);
  return DELTA_TENSOR_NONE;
}

bool delta_emit_ok(const delta_emit_t *emit) { return emit->status == DELTA_OK; }

const delta_tensor_t *delta_emit_tensor(const delta_emit_t *emit, delta_tensor_id_t id) {
  static const delta_tensor_t empty = {.name = "", .dtype = DELTA_DTYPE_FLOAT32, .state = DELTA_INDEX_NONE};
  if (delta_tensor_is_none(id) || id.index >= emit->graph->tensors.count) return &empty;
  return delta_graph_tensor(emit->graph, id);
}

const delta_shape_t *delta_emit_shape(const delta_emit_t *emit, delta_tensor_id_t id) { return &delta_emit_tensor(emit, id)->shape; }

delta_dtype_t delta_emit_dtype(const delta_emit_t *emit, delta_tensor_id_t id) { return delta_emit_tensor(emit, id)->dtype; }

// A node being emitted: the node with borrowed lists, and what was inferred of its outputs.
typedef struct pending_node {
  delta_node_t node;
  delta_dtype_t *types;
  delta_shape_t *shapes;
  uint64_t wanted;
} pending_node_t;

static bool output_wanted(const pending_node_t *pending, uint32_t k) {
  return !delta_core_output_optional(pending->node.op, k) || (k < 64 && (pending->wanted >> k & 1));
}

// Element operations of the reference kernel, or false when they pass any sensible number. Where every output element may read every input
// element the product is counted: constants that large do not occur in models that are worth folding.
static bool fold_work(const delta_graph_t *graph, const pending_node_t *pending, size_t *out_work) {
  size_t read = 0, written = 0;
  for (uint32_t k = 0; k < pending->node.input_count; ++k) {
    const delta_tensor_t *input = delta_node_input(graph, &pending->node, k);
    if (input != NULL && !delta_size_add(read, (size_t)delta_shape_count(&input->shape), &read)) return false;
  }
  for (uint32_t k = 0; k < pending->node.output_count; ++k) {
    if (!delta_size_add(written, (size_t)delta_shape_count(&pending->shapes[k]), &written)) return false;
  }
  switch (pending->node.op) {
    case DELTA_CORE_POINTWISE: {
      const delta_pointwise_attrs_t *attrs = pending->node.attrs;
      return delta_size_mul((size_t)delta_shape_count(&attrs->shape), attrs->expr.instr_count, out_work);
    }
    case DELTA_CORE_REDUCE: {
      const delta_reduce_attrs_t *attrs = pending->node.attrs;
      return delta_size_mul((size_t)delta_shape_count(&attrs->shape), attrs->expr.instr_count, out_work);
    }
    case DELTA_CORE_MATMUL:
    case DELTA_CORE_CONV:
    case DELTA_CORE_CONV_DATA:
    case DELTA_CORE_CONV_WEIGHT:
    case DELTA_CORE_MAX_POOL:
    case DELTA_CORE_AVERAGE_POOL:
    case DELTA_CORE_AVERAGE_POOL_GRAD:
    case DELTA_CORE_RESIZE:
    case DELTA_CORE_RESIZE_GRAD:
      return delta_size_mul(read, written, out_work);
    default:
      return delta_size_add(read, written, out_work);
  }
}

static bool fold_bytes(const pending_node_t *pending, size_t *out_bytes) {
  *out_bytes = 0;
  for (uint32_t k = 0; k < pending->node.output_count; ++k) {
    size_t bytes;
    if (!delta_size_mul((size_t)delta_shape_count(&pending->shapes[k]), delta_dtype_bytes(pending->types[k]), &bytes)) return false;
    if (bytes > DELTA_FOLD_LIMIT_BYTES || !delta_size_add(*out_bytes, bytes, out_bytes)) return false;
  }
  return true;
}

// Fills have no inputs and stay nodes, so that they are not stored.
static bool inputs_constant(const delta_graph_t *graph, const delta_node_t *node) {
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_t *input = delta_node_input(graph, node, k);
    if (input != NULL && input->data == NULL) return false;
  }
  return node->input_count > 0;
}

// A pointwise node whose large result is larger than any input: what a broadcast makes for nothing is not worth storing, and fused with
// its readers it is never made at all.
static bool only_broadcasts(const delta_graph_t *graph, const pending_node_t *pending, size_t bytes) {
  if (pending->node.op != DELTA_CORE_POINTWISE || bytes <= DELTA_FOLD_BROADCAST_BYTES) return false;
  const int64_t count = delta_shape_count(&pending->shapes[0]);
  for (uint32_t k = 0; k < pending->node.input_count; ++k) {
    if (delta_shape_count(&delta_node_input(graph, &pending->node, k)->shape) == count) return false;
  }
  return true;
}

// Decides whether to fold, and charges the limits.
static bool take_fold(delta_emit_t *emit, const pending_node_t *pending) {
  size_t bytes, work;
  if (!emit->fold || (delta_core_op_info(pending->node.op)->flags & DELTA_CORE_FLAG_RANDOM)) return false;
  if (!inputs_constant(emit->graph, &pending->node)) return false;
  if (!fold_bytes(pending, &bytes) || !fold_work(emit->graph, pending, &work)) return false;
  if (only_broadcasts(emit->graph, pending, bytes)) return false;
  if (bytes > DELTA_FOLD_TOTAL_BYTES - emit->folded_bytes || work > DELTA_FOLD_TOTAL_WORK - emit->folded_work) return false;
  emit->folded_bytes += bytes;
  emit->folded_work += work;
  return true;
}

// Runs of nodes carry one name; it is stored once.
static delta_status_t store_name(delta_graph_t *graph, const char *name, const char **out_name) {
  if (graph->nodes.count > 0 && strcmp(graph->nodes.items[graph->nodes.count - 1].name, name) == 0) {
    *out_name = graph->nodes.items[graph->nodes.count - 1].name;
    return DELTA_OK;
  }
  char *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&graph->region, name, strlen(name), &copy));
  *out_name = copy;
  return DELTA_OK;
}

// Moves what the node borrows into the region, and appends its output tensors (as if it were appended next).
static delta_status_t store_node(delta_graph_t *graph, pending_node_t *pending) {
  delta_node_t *node = &pending->node;
  void *inputs = NULL, *attrs = NULL;
  DELTA_RETURN_IF_ERROR(store_name(graph, node->name, &node->name));
  DELTA_RETURN_IF_ERROR(delta_region_copy(&graph->region, node->inputs, node->input_count, sizeof *node->inputs, &inputs));
  DELTA_RETURN_IF_ERROR(delta_region_copy(&graph->region, node->attrs, node->attrs_bytes, 1, &attrs));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&graph->region, node->output_count, &node->outputs));
  node->inputs = inputs;
  node->attrs = attrs;
  DELTA_RETURN_IF_ERROR(delta_array_reserve(graph->allocator, &graph->nodes, node->output_count));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(graph->allocator, &graph->tensors, node->output_count));
  for (uint32_t k = 0; k < node->output_count; ++k) {
    node->outputs[k] = DELTA_TENSOR_NONE;
    if (!output_wanted(pending, k)) continue;
    const delta_tensor_t tensor = {
        .name = node->name,
        .dtype = pending->types[k],
        .shape = pending->shapes[k],
        .role = DELTA_ROLE_COMPUTED,
        .producer = {(uint32_t)graph->nodes.count},
        .producer_output = k,
        .storage = node->op == DELTA_CORE_VIEW ? graph->tensors.items[node->inputs[0].index].storage : DELTA_TENSOR_NONE,
        .state = DELTA_INDEX_NONE};
    DELTA_RETURN_IF_ERROR(delta_graph_append_tensor(graph, &tensor, &node->outputs[k]));
  }
  return DELTA_OK;
}

// Makes an appended tensor the output of a CONSTANT node with this data.
static delta_status_t make_constant(delta_graph_t *graph, const delta_node_t *from, delta_tensor_id_t id, const void *data) {
  delta_tensor_t *tensor = &graph->tensors.items[id.index];
  const delta_constant_attrs_t attrs = {.dtype = tensor->dtype, .shape = tensor->shape, .data = data};
  void *stored_attrs = NULL, *outputs = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy(&graph->region, &attrs, 1, sizeof attrs, &stored_attrs));
  DELTA_RETURN_IF_ERROR(delta_region_copy(&graph->region, &id, 1, sizeof id, &outputs));
  const delta_node_t node = {.op = DELTA_CORE_CONSTANT,
                             .phase = from->phase,
                             .name = from->name,
                             .outputs = outputs,
                             .output_count = 1,
                             .attrs = stored_attrs,
                             .attrs_bytes = sizeof attrs,
                             .group = from->group};
  DELTA_RETURN_IF_ERROR(delta_graph_append_node(graph, &node, &tensor->producer));
  tensor->producer_output = 0;
  tensor->storage = id;
  tensor->data = data;
  return DELTA_OK;
}

// Evaluates a stored node by its reference kernel; buffers[0..outputs) receive data in the region. The lists of pointers are longer than the
// node's, so that a kernel finds NULL for what is left out at the end.
enum { OPTIONAL_SLOTS = 8 };
static delta_status_t evaluate(delta_graph_t *graph, const delta_node_t *node, const void **inputs, void **buffers) {
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_t *input = delta_node_input(graph, node, k);
    inputs[k] = input == NULL ? NULL : input->data;
  }
  for (uint32_t k = 0; k < node->output_count; ++k) {
    const delta_tensor_t *output = delta_node_output(graph, node, k);
    if (output != NULL) DELTA_RETURN_IF_ERROR(delta_region_allocate(&graph->region, delta_tensor_bytes(output), 1, &buffers[k]));
  }
  const delta_reference_args_t args = {.graph = graph, .node = node, .inputs = inputs, .outputs = buffers, .allocator = graph->allocator};
  return delta_reference_node(&args);
}

static delta_status_t fold_node(delta_graph_t *graph, const delta_node_t *node) {
  const void **inputs = NULL;
  void **buffers = NULL;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(graph->allocator, (size_t)node->input_count + OPTIONAL_SLOTS, &inputs), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(graph->allocator, (size_t)node->output_count + OPTIONAL_SLOTS, &buffers), cleanup);
  DELTA_GOTO_IF_ERROR(status, evaluate(graph, node, inputs, buffers), cleanup);
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (delta_tensor_is_none(node->outputs[k])) continue;
    DELTA_GOTO_IF_ERROR(status, make_constant(graph, node, node->outputs[k], buffers[k]), cleanup);
  }
cleanup:
  delta_release(graph->allocator, buffers);
  delta_release(graph->allocator, inputs);
  return status;
}

static delta_status_t add_pending(delta_emit_t *emit, pending_node_t *pending) {
  delta_graph_t *graph = emit->graph;
  delta_node_t *node = &pending->node;
  const bool fold = take_fold(emit, pending);
  const void *known = NULL; // of a constant and of a constant's view: the same bytes
  if (node->op == DELTA_CORE_CONSTANT) known = ((const delta_constant_attrs_t *)node->attrs)->data;
  if (node->op == DELTA_CORE_VIEW) known = graph->tensors.items[node->inputs[0].index].data;
  const size_t tensor_count = graph->tensors.count;
  DELTA_RETURN_IF_ERROR(store_node(graph, pending));
  delta_node_id_t id;
  delta_status_t status;
  if (known != NULL) {
    status = make_constant(graph, node, node->outputs[0], known);
  } else if (fold) {
    status = delta_status_annotate(fold_node(graph, node), "node '%s' (%s)", node->name, delta_core_op_info(node->op)->name);
  } else {
    status = delta_graph_append_node(graph, node, &id);
  }
  if (status) graph->tensors.count = tensor_count;
  return status;
}

static delta_status_t emit_pending(delta_emit_t *emit, pending_node_t *pending) {
  const delta_allocator_t allocator = emit->graph->allocator;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, pending->node.output_count, &pending->types), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, pending->node.output_count, &pending->shapes), cleanup);
  const delta_infer_args_t args = {.graph = emit->graph, .node = &pending->node, .types = pending->types, .shapes = pending->shapes};
  DELTA_GOTO_IF_ERROR(status, delta_infer_node(&args), cleanup);
  status = add_pending(emit, pending);
cleanup:
  delta_release(allocator, pending->shapes);
  delta_release(allocator, pending->types);
  return status;
}

void delta_emit_node(delta_emit_t *emit, delta_core_op_t op, const void *attrs, size_t attrs_bytes, const delta_tensor_id_t *inputs,
                     uint32_t input_count, delta_tensor_id_t *outputs, uint32_t output_count, uint64_t wanted) {
  for (uint32_t k = 0; k < output_count; ++k) outputs[k] = DELTA_TENSOR_NONE;
  if (!delta_emit_ok(emit)) return;
  pending_node_t pending = {.node = {.op = op,
                                     .phase = emit->phase,
                                     .name = emit->name,
                                     .inputs = (delta_tensor_id_t *)inputs,
                                     .input_count = input_count,
                                     .output_count = output_count,
                                     .attrs = attrs,
                                     .attrs_bytes = attrs_bytes,
                                     .group = emit->group,
                                     .kin = emit->kin},
                            .wanted = wanted};
  const delta_status_t status = emit_pending(emit, &pending);
  if (status) {
    delta_emit_fail(emit, status);
  } else {
    memcpy(outputs, pending.node.outputs, output_count * sizeof *outputs);
  }
}

delta_tensor_id_t delta_emit_one(delta_emit_t *emit, delta_core_op_t op, const void *attrs, size_t attrs_bytes,
                                 const delta_tensor_id_t *inputs, uint32_t input_count) {
  delta_tensor_id_t output;
  delta_emit_node(emit, op, attrs, attrs_bytes, inputs, input_count, &output, 1, 0);
  return output;
}
