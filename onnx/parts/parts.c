// Writing a graph in parts, in the order that its assignment gives.
#include "onnx/parts/parts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "onnx/graph/prune.h"
#include "onnx/parts/assignment.h"
#include "onnx/parts/attrs.h"
#include "onnx/parts/label_counts.h"
#include "onnx/parts/sums.h"

// What one call works on. New tensors of whole old ones are in the rewrite's map.
typedef struct writer {
  const delta_part_assignment_t *assignment;
  delta_rewrite_t rewrite;
  delta_tensor_id_t *parts; // by old tensor and part: a part of it, or of one that is summed the part's result
  int32_t *parts_axis;      // by old tensor: the axis along which `parts` is split
  uint64_t *order;          // what is written when: the time in the high half, the node in the low half
  size_t order_count;
  char name[256]; // of the node at hand, with its part
} writer_t;

// What emit says of the nodes that come.
typedef struct emit_labels {
  const char *name;
  delta_phase_t phase;
  uint32_t group;
} emit_labels_t;
static emit_labels_t labels_of(const writer_t *w) {
  return (emit_labels_t){w->rewrite.emit.name, w->rewrite.emit.phase, w->rewrite.emit.group};
}
static void restore_labels(writer_t *w, emit_labels_t labels) {
  w->rewrite.emit.name = labels.name;
  w->rewrite.emit.phase = labels.phase;
  w->rewrite.emit.group = labels.group;
}

static delta_tensor_id_t get_whole(writer_t *w, delta_tensor_id_t old);

static delta_tensor_id_t *part_slot(writer_t *w, delta_tensor_id_t old, uint32_t part) {
  return &w->parts[(size_t)old.index * w->assignment->count + part];
}

static const delta_node_t *producer_of(const writer_t *w, delta_tensor_id_t old) {
  const delta_tensor_t *tensor = delta_graph_tensor(w->assignment->graph, old);
  return tensor->role == DELTA_ROLE_COMPUTED ? delta_graph_node(w->assignment->graph, tensor->producer) : NULL;
}

// A result that repeats along the axis is not made whole to be cut: a smaller one is made for the part. NONE where it is another.
static delta_tensor_id_t make_repeated(writer_t *w, delta_tensor_id_t old, int32_t axis, int64_t size) {
  const delta_node_t *node = producer_of(w, old);
  if (!node || node->op != DELTA_CORE_POINTWISE || node->output_count != 1) return DELTA_TENSOR_NONE;
  delta_rewrite_attrs_t attrs;
  const void *copied = NULL;
  delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS];
  const int32_t rank = ((const delta_pointwise_attrs_t *)node->attrs)->shape.rank;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_shape_t *shape = &delta_node_input(w->assignment->graph, node, k)->shape;
    const int32_t own = axis - (rank - shape->rank);
    if (own >= 0 && shape->dims[own] != 1) return DELTA_TENSOR_NONE;
  }
  for (uint32_t k = 0; k < node->input_count; ++k) inputs[k] = get_whole(w, node->inputs[k]);
  const delta_status_t status = delta_rewrite_copy_attrs(&w->rewrite, node, &attrs, &copied);
  if (status) return delta_emit_fail(&w->rewrite.emit, status);
  attrs.pointwise.shape.dims[axis] = size;
  const emit_labels_t labels = labels_of(w);
  delta_rewrite_follow(&w->rewrite, node);
  const delta_tensor_id_t made = delta_emit_one(&w->rewrite.emit, node->op, &attrs, node->attrs_bytes, inputs, node->input_count);
  restore_labels(w, labels);
  return made;
}

// A part of an old tensor along an axis.
static delta_tensor_id_t get_part(writer_t *w, delta_tensor_id_t old, int32_t axis, uint32_t part) {
  if (delta_tensor_is_none(old)) return DELTA_TENSOR_NONE;
  const int32_t known_axis = w->parts_axis[old.index];
  if (known_axis == axis && !delta_tensor_is_none(*part_slot(w, old, part))) return *part_slot(w, old, part);
  const int64_t size = delta_graph_tensor(w->assignment->graph, old)->shape.dims[axis];
  const int64_t begin = delta_part_begin(w->assignment, part, size), end = delta_part_begin(w->assignment, part + 1, size);
  delta_tensor_id_t made = make_repeated(w, old, axis, end - begin);
  if (delta_tensor_is_none(made)) made = delta_emit_range(&w->rewrite.emit, get_whole(w, old), axis, begin, end);
  if (known_axis == DELTA_PART_WHOLE || known_axis == axis) {
    w->parts_axis[old.index] = axis;
    *part_slot(w, old, part) = made;
  }
  return made;
}

// The whole of an old tensor: made, put together from its parts, or, where it is given, made now.
static delta_tensor_id_t get_whole(writer_t *w, delta_tensor_id_t old) {
  if (delta_tensor_is_none(old)) return DELTA_TENSOR_NONE;
  const delta_part_tensor_t *tensor = &w->assignment->tensors[old.index];
  if (!delta_tensor_is_none(w->rewrite.map[old.index]) || tensor->axis == DELTA_PART_WHOLE) return delta_rewrite_tensor(&w->rewrite, old);
  if (tensor->is_given) {
    const delta_node_t *node = producer_of(w, old);
    for (uint32_t k = 0; k < node->input_count; ++k) get_whole(w, node->inputs[k]);
    const emit_labels_t labels = labels_of(w);
    delta_rewrite_copy_node(&w->rewrite, node, UINT64_MAX);
    restore_labels(w, labels);
    return delta_rewrite_tensor(&w->rewrite, old);
  }
  const delta_tensor_id_t whole = delta_emit_concat(&w->rewrite.emit, part_slot(w, old, 0), w->assignment->count, tensor->axis);
  delta_rewrite_bind(&w->rewrite, old, whole);
  return whole;
}

static void write_once(writer_t *w, const delta_node_t *node) {
  bool made = true; // by who needed it earlier
  for (uint32_t k = 0; k < node->output_count; ++k)
    made = made && (delta_tensor_is_none(node->outputs[k]) || !delta_tensor_is_none(w->rewrite.map[node->outputs[k].index]));
  if (made) return;
  for (uint32_t k = 0; k < node->input_count; ++k) get_whole(w, node->inputs[k]);
  delta_rewrite_copy_node(&w->rewrite, node, UINT64_MAX);
}

static void write_pick(writer_t *w, const delta_node_t *node, const delta_part_node_t *made) {
  delta_slice_attrs_t attrs = *(const delta_slice_attrs_t *)node->attrs;
  const int32_t axis = made->inputs[0];
  const delta_tensor_id_t part = get_part(w, node->inputs[0], axis, made->part);
  const int64_t begin = attrs.starts[axis] - delta_part_begin(w->assignment, made->part, attrs.data_shape.dims[axis]);
  const delta_shape_t shape = *delta_emit_shape(&w->rewrite.emit, part);
  bool all = true;
  attrs.starts[axis] = begin;
  attrs.data_shape = shape;
  for (int32_t d = 0; d < shape.rank; ++d) all = all && attrs.starts[d] == 0 && attrs.steps[d] == 1 && attrs.shape.dims[d] == shape.dims[d];
  delta_rewrite_bind(&w->rewrite, node->outputs[0], all ? part : DELTA_EMIT(&w->rewrite.emit, SLICE, attrs, part));
}

// A part of a concatenation: what of its inputs lies in the part.
static delta_status_t write_join(writer_t *w, const delta_node_t *node, const delta_part_node_t *made, uint32_t part) {
  delta_tensor_id_t *inputs = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(w->rewrite.to->allocator, node->input_count, &inputs));
  uint32_t count = 0;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (made->inputs[k] == (int32_t)part) inputs[count++] = get_whole(w, node->inputs[k]);
  }
  *part_slot(w, node->outputs[0], part) = delta_emit_concat(&w->rewrite.emit, inputs, count, made->outputs[0]);
  delta_release(w->rewrite.to->allocator, inputs);
  return DELTA_OK;
}

// Emits the node for one part; outputs receive the new tensors.
static delta_status_t emit_part(writer_t *w, const delta_node_t *node, const delta_part_node_t *made, uint32_t part,
                                delta_tensor_id_t *inputs, delta_tensor_id_t *outputs) {
  uint64_t kept = 0;
  for (uint32_t k = 0; k < node->input_count; ++k)
    inputs[k] = made->inputs[k] < 0 ? get_whole(w, node->inputs[k]) : get_part(w, node->inputs[k], made->inputs[k], part);
  for (uint32_t k = 0; k < node->output_count && k < 64; ++k) {
    if (!delta_tensor_is_none(node->outputs[k])) kept |= UINT64_C(1) << k;
  }
  delta_part_attrs_t storage;
  const void *attrs = NULL;
  DELTA_RETURN_IF_ERROR(delta_part_attrs_make(w->assignment, &w->rewrite, node, part, &storage, &attrs));
  const bool adds = made->outputs[0] == DELTA_PART_SUM && part != delta_part_at(w->assignment, made->time.stage, 0);
  if (node->op == DELTA_CORE_MATMUL && adds)
    inputs[2] = delta_part_sum_so_far(&(delta_part_sum_t){w->assignment, node, made, &w->rewrite, w->parts});
  const uint32_t input_count = node->op == DELTA_CORE_MATMUL && adds ? (delta_tensor_is_none(inputs[2]) ? 2u : 3u) : node->input_count;
  w->rewrite.emit.kin = 1 + (uint32_t)(node - w->assignment->graph->nodes.items);
  delta_emit_node(&w->rewrite.emit, node->op, attrs, node->attrs_bytes, inputs, input_count, outputs, node->output_count, kept);
  w->rewrite.emit.kin = 0;
  return DELTA_OK;
}

// After a part: its results are kept, or added to those of the parts before.
static void take_outputs(writer_t *w, const delta_node_t *node, const delta_part_node_t *made, uint32_t position,
                         const delta_tensor_id_t *outputs) {
  const uint32_t part = delta_part_at(w->assignment, made->time.stage, position);
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (!delta_tensor_is_none(node->outputs[k])) *part_slot(w, node->outputs[k], part) = outputs[k];
  }
  const delta_part_sum_t sum = {.assignment = w->assignment, .node = node, .made = made, .rewrite = &w->rewrite, .parts = w->parts};
  delta_part_sum_add(&sum, position);
}

static delta_status_t write_part(writer_t *w, const delta_node_t *node, const delta_part_node_t *made, uint32_t position) {
  const uint32_t part = delta_part_at(w->assignment, made->time.stage, position);
  if (made->form == DELTA_PART_FORM_JOIN) return write_join(w, node, made, part);
  delta_tensor_id_t *operands = NULL;
  const delta_allocator_t allocator = w->rewrite.to->allocator;
  // One more for a sum that a product is added to.
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, (size_t)node->input_count + node->output_count + 1, &operands));
  delta_tensor_id_t *outputs = operands + node->input_count + 1;
  delta_status_t status = emit_part(w, node, made, part, operands, outputs);
  if (!status) take_outputs(w, node, made, position, outputs);
  delta_release(allocator, operands);
  return status;
}

static bool runs_in_parts(const delta_part_node_t *made) {
  return made->form == DELTA_PART_FORM_EACH || made->form == DELTA_PART_FORM_JOIN;
}

static int by_key(const void *a, const void *b) {
  const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return x < y ? -1 : x > y;
}

static delta_status_t make_order(writer_t *w) {
  const delta_part_assignment_t *a = w->assignment;
  const size_t node_count = a->graph->nodes.count;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(w->rewrite.to->allocator, node_count * a->count, &w->order));
  for (uint32_t n = 0; n < node_count; ++n) {
    const delta_part_node_t *made = &a->nodes[n];
    const uint32_t first = runs_in_parts(made) ? 0 : made->time.position, last = runs_in_parts(made) ? a->count - 1 : first;
    for (uint32_t position = first; position <= last; ++position)
      w->order[w->order_count++] = ((uint64_t)made->time.stage * a->count + position) << 32 | n;
  }
  qsort(w->order, w->order_count, sizeof *w->order, by_key);
  return DELTA_OK;
}

static delta_status_t write_entry(writer_t *w, uint64_t key) {
  const delta_part_assignment_t *a = w->assignment;
  const uint32_t index = (uint32_t)key, position = (uint32_t)((key >> 32) % a->count);
  const delta_node_t *node = &a->graph->nodes.items[index];
  const delta_part_node_t *made = &a->nodes[index];
  delta_rewrite_follow(&w->rewrite, node);
  if (runs_in_parts(made)) {
    snprintf(w->name, sizeof w->name, "%.200s (part %" PRIu32 " of %" PRIu32 ")", node->name ? node->name : "",
             delta_part_at(a, made->time.stage, position) + 1, a->count);
    w->rewrite.emit.name = w->name;
    return write_part(w, node, made, position);
  }
  if (made->form == DELTA_PART_FORM_PICK) {
    write_pick(w, node, made);
  } else {
    write_once(w, node);
  }
  return DELTA_OK;
}

// What leaves the graph is whole.
static void make_results(writer_t *w) {
  const delta_graph_t *from = w->assignment->graph;
  for (size_t i = 0; i < from->outputs.count; ++i) get_whole(w, from->outputs.items[i].tensor);
  for (size_t i = 0; i < from->states.count; ++i) get_whole(w, from->states.items[i].next);
}

static delta_status_t allocate(writer_t *w, delta_allocator_t allocator) {
  const size_t tensor_count = w->assignment->graph->tensors.count;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, tensor_count * w->assignment->count, &w->parts));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, tensor_count, &w->parts_axis));
  for (size_t i = 0; i < tensor_count * w->assignment->count; ++i) w->parts[i] = DELTA_TENSOR_NONE;
  for (size_t i = 0; i < tensor_count; ++i) w->parts_axis[i] = w->assignment->tensors[i].axis;
  return DELTA_OK;
}

static delta_status_t write_graph(const delta_part_assignment_t *assignment, delta_allocator_t allocator, delta_graph_t **out_graph) {
  writer_t w = {.assignment = assignment};
  DELTA_RETURN_IF_ERROR(delta_rewrite_begin(&w.rewrite, assignment->graph, allocator));
  delta_status_t status = allocate(&w, allocator);
  if (!status) status = make_order(&w);
  for (size_t i = 0; i < w.order_count && !status && delta_emit_ok(&w.rewrite.emit); ++i) status = write_entry(&w, w.order[i]);
  if (status) delta_emit_fail(&w.rewrite.emit, status);
  if (delta_emit_ok(&w.rewrite.emit)) make_results(&w);
  status = delta_rewrite_finish(&w.rewrite, out_graph);
  delta_release(allocator, w.order);
  delta_release(allocator, w.parts_axis);
  delta_release(allocator, w.parts);
  return status;
}

delta_status_t delta_graph_in_parts(delta_graph_t *graph, const delta_parts_options_t *options, delta_allocator_t allocator,
                                    delta_graph_t **out_graph) {
  delta_graph_t *counted = NULL, *parts = NULL;
  delta_part_assignment_t assignment = {0};
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, delta_graph_count_labels(graph, allocator, &counted), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_part_assignment_init(counted, options, allocator, &assignment), cleanup);
  DELTA_GOTO_IF_ERROR(status, write_graph(&assignment, allocator, &parts), cleanup);
  status = delta_graph_prune(parts, allocator, out_graph);
cleanup:
  delta_graph_free(parts);
  delta_part_assignment_deinit(&assignment);
  delta_graph_free(counted);
  return status;
}
