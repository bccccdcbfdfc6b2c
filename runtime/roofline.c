// Arithmetic and traffic of nodes, by shapes alone.
#include "runtime/roofline.h"

#include "onnx/graph/attention_dims.h"
#include "onnx/graph/plain_node.h"

// Arithmetic of a convolution: every element of the convolved tensor takes a product with each weight of one filter.
static double conv_flops(const delta_graph_t *graph, const delta_node_t *node) {
  const bool by_weight = node->op == DELTA_CORE_CONV_WEIGHT;
  const delta_tensor_t *weight = by_weight ? delta_node_output(graph, node, 0) : delta_node_input(graph, node, 1);
  const delta_tensor_t *convolved =
      node->op == DELTA_CORE_CONV ? delta_node_output(graph, node, 0) : delta_node_input(graph, node, by_weight);
  return 2.0 * (double)delta_shape_count_range(&weight->shape, 1, weight->shape.rank) * (double)delta_shape_count(&convolved->shape);
}

double delta_node_flops(const delta_graph_t *graph, const delta_node_t *node) {
  switch (node->op) {
    case DELTA_CORE_MATMUL: {
      const delta_matmul_attrs_t *attrs = node->attrs;
      const delta_shape_t *a = &delta_node_input(graph, node, 0)->shape;
      int64_t inner = a->dims[a->rank - (attrs->transpose_a ? 2 : 1)];
      return 2.0 * (double)inner * (double)delta_shape_count(&delta_node_output(graph, node, 0)->shape);
    }
    case DELTA_CORE_CONV:
    case DELTA_CORE_CONV_DATA:
    case DELTA_CORE_CONV_WEIGHT:
      return conv_flops(graph, node);
    case DELTA_CORE_ATTENTION:
    case DELTA_CORE_ATTENTION_GRAD: {
      const delta_attention_dims_t dims = delta_attention_dims_of(graph, node);
      const bool forward = node->op == DELTA_CORE_ATTENTION;
      const int64_t per_score = forward ? dims.size + dims.value_size : 3 * dims.size + 2 * dims.value_size;
      return 2.0 * (double)per_score * (double)delta_shape_count(&dims.scores);
    }
    default:
      return 0;
  }
}

// Of its first input such a node reads what it gives.
static bool reads_part(delta_core_op_t op) {
  return op == DELTA_CORE_SLICE || op == DELTA_CORE_GATHER || op == DELTA_CORE_GATHER_ELEMENTS || op == DELTA_CORE_GATHER_ND;
}

static double tensor_bytes(const delta_tensor_t *tensor) { return tensor ? (double)delta_tensor_bytes(tensor) : 0; }

double delta_node_bytes(const delta_graph_t *graph, const delta_node_t *node) {
  double read_bytes = 0, written_bytes = 0;
  for (uint32_t i = 0; i < node->output_count; ++i) written_bytes += tensor_bytes(delta_node_output(graph, node, i));
  for (uint32_t i = 0; i < node->input_count; ++i) {
    const double bytes = tensor_bytes(delta_node_input(graph, node, i));
    read_bytes += i == 0 && reads_part(node->op) && bytes > written_bytes ? written_bytes : bytes;
  }
  return read_bytes + written_bytes;
}

static bool is_conv(delta_core_op_t op) { return op == DELTA_CORE_CONV || op == DELTA_CORE_CONV_DATA || op == DELTA_CORE_CONV_WEIGHT; }

static bool has_point_window(const delta_node_t *node) {
  const delta_window_t *window = &((const delta_conv_attrs_t *)node->attrs)->window;
  for (int32_t d = 0; d < window->spatial; ++d) {
    if (window->kernel[d] != 1) return false;
  }
  return true;
}

// The part of the arithmetic's peak that a node reaches.
static double efficiency_of(const delta_roofline_t *roofline, const delta_node_t *node) {
  if (!is_conv(node->op)) return roofline->matmul_efficiency;
  const double efficiency = has_point_window(node) ? roofline->point_conv_efficiency : roofline->conv_efficiency;
  return delta_node_has_layouts(node) ? efficiency : efficiency / roofline->plain_conv_slowdown;
}

double delta_roofline_seconds(const delta_roofline_t *roofline, const delta_graph_t *graph, const delta_node_t *node) {
  const double compute_seconds = delta_node_flops(graph, node) / (roofline->flops_per_second * efficiency_of(roofline, node));
  const double memory_seconds = delta_node_bytes(graph, node) / (roofline->memory_bytes_per_second * roofline->memory_efficiency);
  return roofline->launch_seconds + (compute_seconds > memory_seconds ? compute_seconds : memory_seconds);
}
