// Inference of one node through its row, and the checks that many operators share.
#include "onnx/graph/infer.h"

#include <inttypes.h>

#include "onnx/graph/plain_node.h"

bool delta_core_output_optional(delta_core_op_t op, uint32_t k) {
  const delta_core_op_info_t *info = delta_core_op_info(op);
  return k >= info->min_outputs && !(info->flags & DELTA_CORE_FLAG_LIST);
}

static delta_status_t check_counts(const delta_infer_args_t *args, const delta_core_op_info_t *info) {
  const delta_node_t *node = args->node;
  if (node->input_count < info->min_inputs || node->input_count > info->max_inputs) {
    return delta_status_make(UNSUPPORTED, "%" PRIu32 " inputs; at least %" PRIu32 " and at most %" PRIu32 " are supported",
                             node->input_count, info->min_inputs, info->max_inputs);
  }
  if (node->output_count < info->min_outputs || node->output_count > info->max_outputs) {
    return delta_status_make(UNSUPPORTED, "%" PRIu32 " outputs; at least %" PRIu32 " and at most %" PRIu32 " are supported",
                             node->output_count, info->min_outputs, info->max_outputs);
  }
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const bool optional = k >= info->min_inputs && !(info->flags & DELTA_CORE_FLAG_LIST);
    if (delta_tensor_is_none(node->inputs[k])) {
      if (!optional) return delta_status_make(INTERNAL, "input %" PRIu32 " is missing", k);
    } else if (node->inputs[k].index >= args->graph->tensors.count) {
      return delta_status_make(INTERNAL, "input %" PRIu32 " is no tensor of the graph", k);
    }
  }
  return DELTA_OK;
}

// Infers by plain shapes and gives the outputs their physical ones.
static delta_status_t infer_layouts(const delta_infer_args_t *args, const delta_core_op_info_t *info) {
  delta_plain_node_t plain;
  DELTA_RETURN_IF_ERROR(delta_plain_node_init(&plain, args->graph, args->node, false));
  const delta_infer_args_t plain_args = {.graph = &plain.graph, .node = &plain.node, .types = args->types, .shapes = args->shapes};
  DELTA_RETURN_IF_ERROR(info->infer(&plain_args));
  for (uint32_t k = 0; k < args->node->output_count; ++k) {
    const delta_layout_t layout = delta_node_output_layout(args->node, k);
    if (layout == DELTA_LAYOUT_PLAIN) continue;
    if (!delta_layout_fits(layout, &args->shapes[k])) {
      char text[DELTA_SHAPE_TEXT_BYTES];
      return delta_status_make(MALFORMED, "an output of shape %s cannot lie in layout %s", delta_shape_text(&args->shapes[k], text),
                               delta_layout_name(layout));
    }
    args->shapes[k] = delta_layout_physical(layout, &args->shapes[k]);
  }
  return DELTA_OK;
}

static delta_status_t infer_checked(const delta_infer_args_t *args, const delta_core_op_info_t *info) {
  DELTA_RETURN_IF_ERROR(check_counts(args, info));
  DELTA_RETURN_IF_ERROR(delta_node_has_layouts(args->node) ? infer_layouts(args, info) : info->infer(args));
  for (uint32_t k = 0; k < args->node->output_count; ++k) {
    DELTA_RETURN_IF_ERROR(delta_shape_validate(&args->shapes[k], delta_dtype_bytes(args->types[k]), "output"));
  }
  return DELTA_OK;
}

delta_status_t delta_infer_node(const delta_infer_args_t *args) {
  const delta_core_op_info_t *info = delta_core_op_info(args->node->op);
  return delta_status_annotate(infer_checked(args, info), "node '%s' (%s)", args->node->name, info->name);
}

const delta_tensor_t *delta_infer_input(const delta_infer_args_t *args, uint32_t k) { return delta_node_input(args->graph, args->node, k); }

void delta_infer_set(const delta_infer_args_t *args, uint32_t k, delta_dtype_t dtype, const delta_shape_t *shape) {
  if (k >= args->node->output_count) return;
  args->types[k] = dtype;
  args->shapes[k] = *shape;
}

delta_status_t delta_infer_axis(const char *name, int64_t axis, int32_t rank) {
  if (axis >= 0 && axis < rank) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s is %" PRId64 ", but the rank is %" PRId32, name, axis, rank);
}

delta_status_t delta_infer_axes(const char *name, uint32_t axes, int32_t rank) {
  if (axes >> rank == 0) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s has the bits 0x%" PRIx32 ", but the rank is %" PRId32, name, axes, rank);
}

delta_status_t delta_infer_float(const char *name, const delta_tensor_t *tensor) {
  if (delta_dtype_is_float(tensor->dtype)) return DELTA_OK;
  return delta_status_make(UNSUPPORTED, "%s '%s' has type %s; a float type is needed", name, tensor->name, delta_dtype_name(tensor->dtype));
}

delta_status_t delta_infer_index(const char *name, const delta_tensor_t *tensor) {
  if (tensor->dtype == DELTA_DTYPE_INT32 || tensor->dtype == DELTA_DTYPE_INT64) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s '%s' has type %s; int32 or int64 is needed", name, tensor->name, delta_dtype_name(tensor->dtype));
}

delta_status_t delta_infer_same_type(const char *name, const delta_tensor_t *tensor, delta_dtype_t wanted) {
  if (tensor->dtype == wanted) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s '%s' has type %s, the others %s", name, tensor->name, delta_dtype_name(tensor->dtype),
                           delta_dtype_name(wanted));
}

delta_status_t delta_infer_same_shape(const char *name, const delta_shape_t *shape, const delta_shape_t *wanted) {
  if (delta_shape_equal(shape, wanted)) return DELTA_OK;
  char found_text[DELTA_SHAPE_TEXT_BYTES], wanted_text[DELTA_SHAPE_TEXT_BYTES];
  return delta_status_make(MALFORMED, "%s has shape %s; %s is needed", name, delta_shape_text(shape, found_text),
                           delta_shape_text(wanted, wanted_text));
}
