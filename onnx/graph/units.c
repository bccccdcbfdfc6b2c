// Units of CONCAT and SPLIT.
#include "onnx/graph/units.h"

#include "onnx/graph/access.h"

static bool joins(const delta_node_t *node) { return node->op == DELTA_CORE_CONCAT; }

static uint32_t part_count(const delta_node_t *node) { return joins(node) ? node->input_count : node->output_count; }

static const delta_tensor_t *part_of(const delta_graph_t *graph, const delta_node_t *node, uint32_t k) {
  return joins(node) ? delta_node_input(graph, node, k) : delta_node_output(graph, node, k);
}

// Bytes of a part in each line, or of the whole.
static int64_t line_bytes(const delta_tensor_t *tensor, int32_t axis) {
  return delta_shape_count_range(&tensor->shape, axis, tensor->shape.rank) * (int64_t)delta_dtype_bytes(tensor->dtype);
}

static int64_t divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

delta_units_t delta_units_of(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_split_attrs_t *attrs = node->attrs;
  delta_units_t units = {.lines = delta_lanes_of(&part_of(graph, node, 0)->shape, attrs->axis).outer};
  int64_t whole_bytes = 0;
  for (uint32_t k = 0; k < part_count(node); ++k) {
    const int64_t bytes = line_bytes(part_of(graph, node, k), attrs->axis);
    units.unit_bytes = divisor(bytes, units.unit_bytes);
    whole_bytes += bytes;
  }
  units.line_units = units.unit_bytes > 0 ? whole_bytes / units.unit_bytes : 0; // 0: parts without elements
  return units;
}

bool delta_units_are_few(const delta_graph_t *graph, const delta_node_t *node) {
  if (node->op != DELTA_CORE_CONCAT && node->op != DELTA_CORE_SPLIT) return false;
  for (uint32_t k = 0; k < part_count(node); ++k) {
    const delta_tensor_t *part = part_of(graph, node, k);
    if (!part || delta_tensor_bytes(part) == 0) return false;
  }
  const delta_units_t units = delta_units_of(graph, node);
  const bool are_words = units.unit_bytes % DELTA_UNITS_WORD_BYTES == 0;
  return are_words && units.line_units <= DELTA_UNITS_MAX && units.lines <= DELTA_UNITS_MAX / units.line_units;
}

void delta_units_sources(const delta_graph_t *graph, const delta_node_t *node, uint32_t *sources) {
  const delta_split_attrs_t *attrs = node->attrs;
  const delta_units_t units = delta_units_of(graph, node);
  int64_t in_parts = 0, first_unit = 0;
  for (uint32_t k = 0; k < part_count(node); ++k) {
    const int64_t part_units = line_bytes(part_of(graph, node, k), attrs->axis) / units.unit_bytes;
    for (int64_t line = 0; line < units.lines; ++line) {
      for (int64_t u = 0; u < part_units; ++u, ++in_parts) {
        const int64_t in_whole = line * units.line_units + first_unit + u;
        sources[joins(node) ? in_whole : in_parts] = (uint32_t)(joins(node) ? in_parts : in_whole);
      }
    }
    first_unit += part_units;
  }
}
