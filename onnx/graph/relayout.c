// Every old tensor has a plain new one, a physical one, or both; whichever is missing is made where it is first read.
#include "onnx/graph/relayout.h"

#include <string.h>

#include "onnx/graph/rewrite.h"

typedef struct relayout {
  delta_rewrite_t rewrite; // its map has the plain tensors
  const delta_layout_regions_t *regions;
  const delta_layout_t *layouts;
  delta_tensor_id_t *physical; // Owned; per old tensor; NONE: not made
  delta_layout_t *lies_in;     // Owned; the layout of `physical`
  uint32_t *region_of_tensor;  // Owned; of its producer
  DELTA_ARRAY(uint32_t) region_of_node;
  delta_status_t status;
} relayout_t;

// The nodes emitted since the last call work for `region`.
static void mark_region(relayout_t *relayout, uint32_t region) {
  delta_graph_t *to = relayout->rewrite.to;
  while (!relayout->status && relayout->region_of_node.count < to->nodes.count)
    relayout->status = delta_array_push(to->allocator, &relayout->region_of_node, &region);
}

static const delta_shape_t *old_shape(const relayout_t *relayout, delta_tensor_id_t id) {
  return &delta_graph_tensor(relayout->rewrite.from, id)->shape;
}

// Blocks as two dimensions beside each other, in front of the spatial ones: between plain and blocked stands only a transposition.
static delta_shape_t split_channels(const delta_shape_t *plain, int64_t block) {
  delta_shape_t split = {.rank = plain->rank + 1, .dims = {plain->dims[0], plain->dims[1] / block, block}};
  for (int32_t d = 2; d < plain->rank; ++d) split.dims[d + 1] = plain->dims[d];
  return split;
}

// Moves the dimension `from` to the place `to`.
static delta_tensor_id_t move_dimension(relayout_t *relayout, delta_tensor_id_t x, int32_t rank, int32_t from, int32_t to) {
  int32_t permutation[DELTA_MAX_RANK] = {0};
  for (int32_t d = 0, next = 0; d < rank; ++d) {
    if (next == from) ++next;
    permutation[d] = d == to ? from : next++;
  }
  return delta_emit_transpose(&relayout->rewrite.emit, x, permutation);
}

static delta_tensor_id_t emit_physical(relayout_t *relayout, delta_tensor_id_t x, const delta_shape_t *plain, delta_layout_t layout) {
  const int64_t block = delta_layout_block(layout);
  if (block == 0) return move_dimension(relayout, x, plain->rank, 1, plain->rank - 1);
  const delta_shape_t split = split_channels(plain, block);
  return move_dimension(relayout, delta_emit_view(&relayout->rewrite.emit, x, &split), split.rank, 2, split.rank - 1);
}

static delta_tensor_id_t emit_plain(relayout_t *relayout, delta_tensor_id_t x, const delta_shape_t *plain, delta_layout_t layout) {
  const int32_t rank = delta_layout_physical(layout, plain).rank;
  const delta_tensor_id_t moved = move_dimension(relayout, x, rank, rank - 1, delta_layout_block(layout) ? 2 : 1);
  return delta_emit_view(&relayout->rewrite.emit, moved, plain);
}

static delta_tensor_id_t get_plain(relayout_t *relayout, delta_tensor_id_t id, uint32_t region) {
  if (delta_tensor_is_none(id)) return id;
  delta_rewrite_t *rewrite = &relayout->rewrite;
  if (delta_tensor_is_none(rewrite->map[id.index]) && !delta_tensor_is_none(relayout->physical[id.index])) {
    mark_region(relayout, region);
    const delta_tensor_id_t plain =
        emit_plain(relayout, relayout->physical[id.index], old_shape(relayout, id), relayout->lies_in[id.index]);
    delta_rewrite_bind(rewrite, id, plain);
    mark_region(relayout, relayout->region_of_tensor[id.index]);
  }
  return delta_rewrite_tensor(rewrite, id);
}

// An operand of shape `plain`, perhaps padded in front, in a layout. What lies the same way in all is seen through a view.
static delta_tensor_id_t get_physical(relayout_t *relayout, delta_tensor_id_t id, const delta_shape_t *plain, delta_layout_t layout,
                                      uint32_t region) {
  if (layout == DELTA_LAYOUT_PLAIN) return get_plain(relayout, id, region);
  const bool is_here = !delta_tensor_is_none(relayout->physical[id.index]) && relayout->lies_in[id.index] == layout;
  if (is_here && delta_shape_equal(plain, old_shape(relayout, id))) return relayout->physical[id.index];
  delta_tensor_id_t x = get_plain(relayout, id, region);
  if (delta_shape_count(plain) == 1) return x;
  if (delta_layout_is_free(plain)) {
    const delta_shape_t physical = delta_layout_physical(layout, plain);
    return delta_emit_view(&relayout->rewrite.emit, x, &physical);
  }
  x = emit_physical(relayout, delta_emit_view(&relayout->rewrite.emit, x, plain), plain, layout);
  if (!delta_shape_equal(plain, old_shape(relayout, id))) return x;
  relayout->physical[id.index] = x;
  relayout->lies_in[id.index] = layout;
  return x;
}

static void bind_output(relayout_t *relayout, delta_tensor_id_t old, delta_tensor_id_t made, delta_layout_t layout) {
  if (delta_tensor_is_none(old)) return;
  const delta_shape_t *plain = old_shape(relayout, old);
  if (layout == DELTA_LAYOUT_PLAIN || delta_layout_is_free(plain)) {
    delta_rewrite_bind(&relayout->rewrite, old, delta_emit_view(&relayout->rewrite.emit, made, plain));
    return;
  }
  relayout->physical[old.index] = made;
  relayout->lies_in[old.index] = layout;
}

// A node about to be written, with copies of what changes.
typedef union layout_attrs {
  delta_pointwise_attrs_t pointwise;
  delta_reduce_attrs_t reduce;
  delta_moments_attrs_t moments;
  delta_conv_attrs_t conv;
  delta_pool_attrs_t pool;
  delta_split_attrs_t split;
  delta_pad_attrs_t pad;
  delta_resize_attrs_t resize;
} layout_attrs_t;

// Values per plain dimension, put at the physical dimensions; blocks are two dimensions that take `inside` in their last.
#define MOVE_VALUES(values, layout, rank, inside)                                                      \
  do {                                                                                                 \
    __typeof__(*(values)) moved[DELTA_MAX_RANK] = {0};                                                 \
    for (int32_t d = 0; d < (rank); ++d) moved[delta_layout_dimension(layout, rank, d)] = (values)[d]; \
    if (delta_layout_block(layout)) moved[rank] = (inside);                                            \
    memcpy(values, moved, sizeof moved);                                                               \
  } while (0)

static delta_status_t copy_expr(relayout_t *relayout, delta_expr_t *expr) {
  void *instrs = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy(&relayout->rewrite.to->region, expr->instrs, expr->instr_count, sizeof *expr->instrs, &instrs));
  expr->instrs = instrs;
  return DELTA_OK;
}

// Sizes of parts along the channels count blocks.
static delta_status_t copy_sizes(relayout_t *relayout, const delta_node_t *node, int64_t divisor, delta_split_attrs_t *attrs) {
  int64_t *sizes = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&relayout->rewrite.to->region, node->output_count, &sizes));
  for (uint32_t k = 0; k < node->output_count; ++k) sizes[k] = attrs->sizes[k] / divisor;
  attrs->sizes = sizes;
  return DELTA_OK;
}

static void move_resize(delta_resize_attrs_t *attrs, delta_layout_t layout, int32_t rank) {
  MOVE_VALUES(attrs->scales, layout, rank, 1.0);
  MOVE_VALUES(attrs->roi_start, layout, rank, 0.0);
  MOVE_VALUES(attrs->roi_end, layout, rank, 1.0);
  attrs->out_shape = delta_layout_physical(layout, &attrs->out_shape);
  attrs->data_shape = delta_layout_physical(layout, &attrs->data_shape);
}

// The attributes of a node that works in one layout.
static delta_status_t move_attrs(relayout_t *relayout, const delta_node_t *node, int32_t rank, delta_layout_t layout,
                                 layout_attrs_t *attrs) {
  memcpy(attrs, node->attrs, node->attrs_bytes);
  switch (node->op) {
    case DELTA_CORE_POINTWISE:
      attrs->pointwise.shape = delta_layout_physical(layout, &attrs->pointwise.shape);
      return copy_expr(relayout, &attrs->pointwise.expr);
    case DELTA_CORE_REDUCE:
      attrs->reduce.shape = delta_layout_physical(layout, &attrs->reduce.shape);
      attrs->reduce.axes = delta_layout_dimensions(layout, rank, attrs->reduce.axes);
      return copy_expr(relayout, &attrs->reduce.expr);
    case DELTA_CORE_MOMENTS:
      attrs->moments.axes = delta_layout_dimensions(layout, rank, attrs->moments.axes);
      return DELTA_OK;
    case DELTA_CORE_SPLIT:
    case DELTA_CORE_CONCAT: {
      const int64_t block = attrs->split.axis == 1 ? delta_layout_block(layout) : 0;
      attrs->split.axis = delta_layout_dimension(layout, rank, attrs->split.axis);
      return node->op == DELTA_CORE_SPLIT ? copy_sizes(relayout, node, block ? block : 1, &attrs->split) : DELTA_OK;
    }
    case DELTA_CORE_PAD:
    case DELTA_CORE_PAD_GRAD:
      MOVE_VALUES(attrs->pad.begin, layout, rank, 0);
      MOVE_VALUES(attrs->pad.end, layout, rank, 0);
      if (attrs->pad.data_shape.rank) attrs->pad.data_shape = delta_layout_physical(layout, &attrs->pad.data_shape);
      return DELTA_OK;
    case DELTA_CORE_RESIZE:
    case DELTA_CORE_RESIZE_GRAD:
      move_resize(&attrs->resize, layout, rank);
      return DELTA_OK;
    default:
      attrs->pool.layout = layout;
      return DELTA_OK;
  }
}

// The layouts of a convolution's x and y.
static void place_windows(const delta_graph_t *graph, const delta_node_t *node, delta_layout_t layout, delta_conv_attrs_t *attrs) {
  const bool by_data = node->op == DELTA_CORE_CONV_DATA, by_weight = node->op == DELTA_CORE_CONV_WEIGHT;
  const delta_tensor_t *first = delta_node_input(graph, node, 0), *result = delta_node_output(graph, node, 0);
  const delta_tensor_t *x = by_data ? result : first;
  const delta_tensor_t *y = by_data ? first : by_weight ? delta_node_input(graph, node, 1) : result;
  attrs->x_layout = delta_layout_fits(layout, &x->shape) ? layout : DELTA_LAYOUT_PLAIN;
  attrs->y_layout = delta_layout_fits(layout, &y->shape) ? layout : DELTA_LAYOUT_PLAIN;
}

// The layout of a convolution's operand.
static delta_layout_t windows_layout(const delta_node_t *node, const delta_conv_attrs_t *attrs, bool is_output, uint32_t k) {
  const bool by_data = node->op == DELTA_CORE_CONV_DATA, by_weight = node->op == DELTA_CORE_CONV_WEIGHT;
  if (by_weight) return is_output ? DELTA_LAYOUT_PLAIN : k == 0 ? attrs->x_layout : attrs->y_layout;
  if (!is_output && k > 0) return DELTA_LAYOUT_PLAIN;
  return is_output == by_data ? attrs->x_layout : attrs->y_layout;
}

static delta_status_t write_node(relayout_t *relayout, const delta_node_t *node, uint32_t region, delta_tensor_id_t *inputs,
                                 delta_tensor_id_t *outputs) {
  const delta_graph_t *from = relayout->rewrite.from;
  const delta_layout_t layout = relayout->layouts[region];
  delta_shape_t shape;
  const bool is_windows = delta_layout_part_of(from, node, &shape) == DELTA_LAYOUT_PART_WINDOWS;
  layout_attrs_t attrs;
  if (is_windows) {
    memcpy(&attrs, node->attrs, node->attrs_bytes);
    place_windows(from, node, layout, &attrs.conv);
  } else {
    DELTA_RETURN_IF_ERROR(move_attrs(relayout, node, shape.rank, layout, &attrs));
  }
  for (uint32_t k = 0; k < node->input_count; ++k) {
    inputs[k] = DELTA_TENSOR_NONE;
    if (delta_tensor_is_none(node->inputs[k])) continue;
    const delta_layout_t wanted = is_windows ? windows_layout(node, &attrs.conv, false, k) : layout;
    const delta_shape_t *own = old_shape(relayout, node->inputs[k]);
    const delta_shape_t plain = is_windows ? *own : delta_layout_pad_rank(own, shape.rank);
    inputs[k] = get_physical(relayout, node->inputs[k], &plain, wanted, region);
  }
  uint64_t kept = 0;
  for (uint32_t k = 0; k < node->output_count; ++k) {
    outputs[k] = DELTA_TENSOR_NONE;
    if (k < 64 && !delta_tensor_is_none(node->outputs[k])) kept |= UINT64_C(1) << k;
  }
  delta_emit_node(&relayout->rewrite.emit, node->op, &attrs, node->attrs_bytes, inputs, node->input_count, outputs, node->output_count,
                  kept);
  for (uint32_t k = 0; k < node->output_count; ++k)
    bind_output(relayout, node->outputs[k], outputs[k], is_windows ? windows_layout(node, &attrs.conv, true, k) : layout);
  return DELTA_OK;
}

static bool is_moved(const relayout_t *relayout, const delta_node_t *node, uint32_t region) {
  if (region == DELTA_INDEX_NONE || relayout->layouts[region] == DELTA_LAYOUT_PLAIN) return false;
  delta_shape_t shape;
  if (delta_layout_part_of(relayout->rewrite.from, node, &shape) == DELTA_LAYOUT_PART_WINDOWS) return true;
  return delta_layout_node_fits(relayout->rewrite.from, node, relayout->layouts[region]);
}

static delta_status_t rewrite_node(relayout_t *relayout, uint32_t index) {
  const delta_graph_t *from = relayout->rewrite.from;
  const delta_node_t *node = &from->nodes.items[index];
  const delta_allocator_t allocator = relayout->rewrite.to->allocator;
  const uint32_t region = relayout->regions->of_node[index];
  delta_rewrite_follow(&relayout->rewrite, node);
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (!delta_tensor_is_none(node->outputs[k])) relayout->region_of_tensor[node->outputs[k].index] = region;
  }
  delta_status_t status = DELTA_OK;
  if (!is_moved(relayout, node, region)) {
    for (uint32_t k = 0; k < node->input_count; ++k) get_plain(relayout, node->inputs[k], region);
    delta_rewrite_copy_node(&relayout->rewrite, node, UINT64_MAX);
  } else {
    delta_tensor_id_t *operands = NULL;
    DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, (size_t)node->input_count + node->output_count, &operands));
    status = write_node(relayout, node, region, operands, operands + node->input_count);
    delta_release(allocator, operands);
  }
  mark_region(relayout, region);
  return delta_status_join(status, relayout->status);
}

// What leaves the graph is plain.
static void plain_results(relayout_t *relayout) {
  const delta_graph_t *from = relayout->rewrite.from;
  for (size_t i = 0; i < from->outputs.count; ++i) get_plain(relayout, from->outputs.items[i].tensor, DELTA_INDEX_NONE);
  for (size_t i = 0; i < from->states.count; ++i) get_plain(relayout, from->states.items[i].next, DELTA_INDEX_NONE);
}

static delta_status_t allocate_maps(relayout_t *relayout, delta_allocator_t allocator) {
  const size_t count = relayout->rewrite.from->tensors.count;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, count, &relayout->physical));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, count, &relayout->lies_in));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, count, &relayout->region_of_tensor));
  for (size_t i = 0; i < count; ++i) {
    relayout->physical[i] = DELTA_TENSOR_NONE;
    relayout->region_of_tensor[i] = DELTA_INDEX_NONE;
  }
  return DELTA_OK;
}

delta_status_t delta_graph_relayout(const delta_graph_t *graph, const delta_layout_regions_t *regions, const delta_layout_t *layouts,
                                    delta_allocator_t allocator, delta_graph_t **out_graph, uint32_t **out_region_of_node) {
  relayout_t relayout = {.regions = regions, .layouts = layouts};
  DELTA_RETURN_IF_ERROR(delta_rewrite_begin(&relayout.rewrite, graph, allocator));
  delta_status_t status = allocate_maps(&relayout, allocator);
  for (uint32_t i = 0; !status && i < graph->nodes.count; ++i) status = rewrite_node(&relayout, i);
  if (!status) {
    plain_results(&relayout);
    mark_region(&relayout, DELTA_INDEX_NONE);
    status = relayout.status;
  }
  if (status) delta_emit_fail(&relayout.rewrite.emit, status);
  status = delta_rewrite_finish(&relayout.rewrite, out_graph);
  if (!status && out_region_of_node) {
    *out_region_of_node = relayout.region_of_node.items;
    relayout.region_of_node.items = NULL;
  }
  delta_array_deinit(allocator, &relayout.region_of_node);
  delta_release(allocator, relayout.region_of_tensor);
  delta_release(allocator, relayout.lies_in);
  delta_release(allocator, relayout.physical);
  return status;
}
