// Regions by union of the nodes that share a tensor.
#include "onnx/graph/layout_regions.h"

#include <assert.h>

delta_shape_t delta_layout_pad_rank(const delta_shape_t *shape, int32_t rank) {
  delta_shape_t padded = {.rank = rank};
  for (int32_t d = 0; d < rank; ++d) {
    const int32_t from = d - (rank - shape->rank);
    padded.dims[d] = from < 0 ? 1 : shape->dims[from];
  }
  return padded;
}

bool delta_layout_is_free(const delta_shape_t *plain) { return plain->dims[1] == 1 || delta_shape_count_range(plain, 2, plain->rank) == 1; }

static bool may_lie(const delta_shape_t *shape) { return delta_layout_fits(DELTA_LAYOUT_CHANNELS_LAST, shape); }

static bool is_constant_pad(const delta_node_t *node) {
  const delta_pad_attrs_t *attrs = node->attrs;
  return attrs->mode == DELTA_PAD_CONSTANT && attrs->begin[1] == 0 && attrs->end[1] == 0;
}

static bool is_spatial_resize(const delta_node_t *node) {
  const delta_resize_attrs_t *attrs = node->attrs;
  return attrs->out_shape.dims[1] == attrs->data_shape.dims[1] && attrs->coordinate != DELTA_RESIZE_TF_CROP_AND_RESIZE;
}

delta_layout_part_t delta_layout_part_of(const delta_graph_t *graph, const delta_node_t *node, delta_shape_t *out_shape) {
  delta_layout_part_t part = DELTA_LAYOUT_PART_FOLLOWS;
  const delta_tensor_t *first = delta_node_input(graph, node, 0);
  *out_shape = first ? first->shape : (delta_shape_t){0};
  switch (node->op) {
    case DELTA_CORE_CONV:
    case DELTA_CORE_CONV_DATA:
    case DELTA_CORE_CONV_WEIGHT:
      assert(first);
      return first->dtype == DELTA_DTYPE_FLOAT32 ? DELTA_LAYOUT_PART_WINDOWS : DELTA_LAYOUT_PART_NONE;
    case DELTA_CORE_POINTWISE:
      *out_shape = ((const delta_pointwise_attrs_t *)node->attrs)->shape;
      part = DELTA_LAYOUT_PART_BROADCAST;
      break;
    case DELTA_CORE_REDUCE:
      *out_shape = ((const delta_reduce_attrs_t *)node->attrs)->shape;
      part = DELTA_LAYOUT_PART_BROADCAST;
      break;
    case DELTA_CORE_MAX_POOL:
    case DELTA_CORE_MAX_POOL_GRAD:
      if (((const delta_pool_attrs_t *)node->attrs)->index != DELTA_POOL_INDEX_WINDOW) return DELTA_LAYOUT_PART_NONE;
      break;
    case DELTA_CORE_PAD:
    case DELTA_CORE_PAD_GRAD:
      if (!may_lie(out_shape) || !is_constant_pad(node)) return DELTA_LAYOUT_PART_NONE;
      break;
    case DELTA_CORE_RESIZE:
    case DELTA_CORE_RESIZE_GRAD:
      if (!may_lie(out_shape) || !is_spatial_resize(node)) return DELTA_LAYOUT_PART_NONE;
      break;
    case DELTA_CORE_MOMENTS:
    case DELTA_CORE_AVERAGE_POOL:
    case DELTA_CORE_AVERAGE_POOL_GRAD:
    case DELTA_CORE_CONCAT:
    case DELTA_CORE_SPLIT:
      break;
    default:
      return DELTA_LAYOUT_PART_NONE;
  }
  return may_lie(out_shape) ? part : DELTA_LAYOUT_PART_NONE;
}

// Whether a node's operand can be one that lies in the node's layout: not weights, not results of another rank.
static bool operand_lies(const delta_node_t *node, delta_layout_part_t part, bool is_output, uint32_t k) {
  if (part == DELTA_LAYOUT_PART_NONE) return false;
  if (part != DELTA_LAYOUT_PART_WINDOWS) return true;
  if (node->op == DELTA_CORE_CONV_WEIGHT) return !is_output;
  return is_output || k == 0;
}

bool delta_layout_node_fits(const delta_graph_t *graph, const delta_node_t *node, delta_layout_t layout) {
  delta_shape_t shape;
  const delta_layout_part_t part = delta_layout_part_of(graph, node, &shape);
  if (part == DELTA_LAYOUT_PART_NONE || part == DELTA_LAYOUT_PART_WINDOWS || !delta_layout_fits(layout, &shape)) return false;
  if (part == DELTA_LAYOUT_PART_BROADCAST || node->op == DELTA_CORE_MOMENTS) return true;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (!delta_layout_fits(layout, &delta_node_input(graph, node, k)->shape)) return false;
  }
  for (uint32_t k = 0; k < node->output_count; ++k) {
    const delta_tensor_t *tensor = delta_node_output(graph, node, k);
    if (tensor && !delta_layout_fits(layout, &tensor->shape)) return false;
  }
  return true;
}

typedef struct region_finder {
  const delta_graph_t *graph;
  uint32_t *parent; // per node; a root is its own
} region_finder_t;

static uint32_t find_root(const region_finder_t *finder, uint32_t node) {
  while (finder->parent[node] != node) {
    finder->parent[node] = finder->parent[finder->parent[node]];
    node = finder->parent[node];
  }
  return node;
}

// The smaller number becomes the root: the order of regions is that of their first nodes.
static void join(region_finder_t *finder, uint32_t a, uint32_t b) {
  a = find_root(finder, a);
  b = find_root(finder, b);
  finder->parent[a > b ? a : b] = a < b ? a : b;
}

// Input `k` of a node when it is a tensor whose layout matters to the node; NULL otherwise.
static const delta_tensor_t *lying_input(const delta_graph_t *graph, const delta_node_t *node, delta_layout_part_t part, uint32_t k) {
  if (delta_tensor_is_none(node->inputs[k]) || !operand_lies(node, part, false, k)) return NULL;
  const delta_tensor_t *tensor = delta_graph_tensor(graph, node->inputs[k]);
  return may_lie(&tensor->shape) && !delta_layout_is_free(&tensor->shape) ? tensor : NULL;
}

static void join_producers(region_finder_t *finder, uint32_t index) {
  const delta_graph_t *graph = finder->graph;
  const delta_node_t *node = &graph->nodes.items[index];
  delta_shape_t shape;
  const delta_layout_part_t part = delta_layout_part_of(graph, node, &shape);
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_t *tensor = lying_input(graph, node, part, k);
    if (!tensor || tensor->role != DELTA_ROLE_COMPUTED) continue;
    const delta_node_t *producer = delta_graph_node(graph, tensor->producer);
    const delta_layout_part_t producer_part = delta_layout_part_of(graph, producer, &shape);
    if (operand_lies(producer, producer_part, true, tensor->producer_output)) join(finder, index, tensor->producer.index);
  }
}

// Two nodes that read one tensor belong together as well: it is converted for both or for neither.
static void join_readers(region_finder_t *finder, uint32_t index, uint32_t *reader_of_tensor) {
  const delta_graph_t *graph = finder->graph;
  const delta_node_t *node = &graph->nodes.items[index];
  delta_shape_t shape;
  const delta_layout_part_t part = delta_layout_part_of(graph, node, &shape);
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (!lying_input(graph, node, part, k)) continue;
    uint32_t *reader = &reader_of_tensor[node->inputs[k].index];
    if (*reader == DELTA_INDEX_NONE) *reader = index;
    join(finder, index, *reader);
  }
}

// Numbers the roots whose regions have a convolution.
static void number_regions(const region_finder_t *finder, uint32_t *number_of_root, delta_layout_regions_t *regions) {
  const uint32_t count = (uint32_t)finder->graph->nodes.count;
  delta_shape_t shape;
  for (uint32_t i = 0; i < count; ++i) number_of_root[i] = DELTA_INDEX_NONE;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t root = find_root(finder, i);
    if (delta_layout_part_of(finder->graph, &finder->graph->nodes.items[i], &shape) != DELTA_LAYOUT_PART_WINDOWS) continue;
    if (number_of_root[root] == DELTA_INDEX_NONE) number_of_root[root] = regions->count++;
  }
  for (uint32_t i = 0; i < count; ++i) regions->of_node[i] = number_of_root[find_root(finder, i)];
}

delta_status_t delta_layout_regions_init(const delta_graph_t *graph, delta_allocator_t allocator, delta_layout_regions_t *out_regions) {
  *out_regions = (delta_layout_regions_t){.allocator = allocator};
  region_finder_t finder = {.graph = graph};
  uint32_t *reader_of_tensor = NULL;
  const uint32_t count = (uint32_t)graph->nodes.count;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, count, &out_regions->of_node), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, count, &finder.parent), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, graph->tensors.count + count, &reader_of_tensor), cleanup);
  for (uint32_t i = 0; i < count; ++i) finder.parent[i] = i;
  for (size_t i = 0; i < graph->tensors.count; ++i) reader_of_tensor[i] = DELTA_INDEX_NONE;
  for (uint32_t i = 0; i < count; ++i) {
    join_producers(&finder, i);
    join_readers(&finder, i, reader_of_tensor);
  }
  number_regions(&finder, reader_of_tensor + graph->tensors.count, out_regions);
cleanup:
  delta_release(allocator, reader_of_tensor);
  delta_release(allocator, finder.parent);
  if (status) delta_layout_regions_deinit(out_regions);
  return status;
}

void delta_layout_regions_deinit(delta_layout_regions_t *regions) {
  if (regions->of_node) delta_release(regions->allocator, regions->of_node);
  *regions = (delta_layout_regions_t){0};
}
