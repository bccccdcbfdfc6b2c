// Writes the attributes of each core operator, field by field.
#include <inttypes.h>

#include "base/sha256.h"
#include "onnx/graph/graph_write.h"

static void write_integer(delta_graph_sink_t sink, const char *name, int64_t value) {
  delta_graph_write(sink, " %s=%" PRId64, name, value);
}

static void write_real(delta_graph_sink_t sink, const char *name, double value) { delta_graph_write(sink, " %s=%a", name, value); }

static void write_shape(delta_graph_sink_t sink, const char *name, const delta_shape_t *shape) {
  char text[DELTA_SHAPE_TEXT_BYTES];
  delta_graph_write(sink, " %s=%s", name, delta_shape_text(shape, text));
}

static void write_integers(delta_graph_sink_t sink, const char *name, const int64_t *values, size_t count) {
  delta_graph_write(sink, " %s=", name);
  for (size_t i = 0; i < count; ++i) delta_graph_write(sink, "%s%" PRId64, i ? "," : "", values[i]);
}

static void write_reals(delta_graph_sink_t sink, const char *name, const double *values, size_t count) {
  delta_graph_write(sink, " %s=", name);
  for (size_t i = 0; i < count; ++i) delta_graph_write(sink, "%s%a", i ? "," : "", values[i]);
}

static void write_expr(delta_graph_sink_t sink, const delta_expr_t *expr, const delta_dtype_t *dtypes) {
  delta_graph_write(sink, " {%s:", delta_dtype_name(expr->compute));
  for (uint16_t i = 0; i < expr->instr_count; ++i) {
    const delta_expr_instr_t *instr = &expr->instrs[i];
    const delta_expr_op_info_t *info = delta_expr_op_info((delta_expr_op_t)instr->op);
    delta_graph_write(sink, " %u=%s", i, info->name);
    if (instr->op == DELTA_EXPR_INPUT) delta_graph_write(sink, " x%u", instr->operands[0]);
    if (instr->op == DELTA_EXPR_CONST && expr->compute == DELTA_DTYPE_INT64) delta_graph_write(sink, " %" PRId64, instr->immediate.integer);
    if (instr->op == DELTA_EXPR_CONST && expr->compute != DELTA_DTYPE_INT64) delta_graph_write(sink, " %a", instr->immediate.real);
    for (int k = 0; k < info->arity; ++k) delta_graph_write(sink, " %u", instr->operands[k]);
    delta_graph_write(sink, ";");
  }
  for (uint16_t k = 0; k < expr->output_count; ++k) delta_graph_write(sink, " -> %u %s", expr->outputs[k], delta_dtype_name(dtypes[k]));
  delta_graph_write(sink, "}");
}

static void write_constant(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_constant_attrs_t *attrs = node->attrs;
  delta_sha256_t hash;
  char text[DELTA_SHA256_TEXT_BYTES];
  delta_sha256_init(&hash);
  delta_sha256_update(&hash, attrs->data, (size_t)delta_shape_count(&attrs->shape) * delta_dtype_bytes(attrs->dtype));
  delta_sha256_final_text(&hash, text);
  delta_graph_write(sink, " data=%s", text);
}

static void write_view(delta_graph_sink_t sink, const delta_node_t *node) { (void)sink, (void)node; } // the output's shape says it

static void write_pointwise(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_pointwise_attrs_t *attrs = node->attrs;
  write_expr(sink, &attrs->expr, attrs->dtypes);
}

static void write_each(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_each_attrs_t *attrs = node->attrs;
  write_integer(sink, "count", attrs->count);
  write_integer(sink, "shared", attrs->shared);
  write_expr(sink, &attrs->expr, attrs->dtypes);
}

static void write_reduce(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_reduce_attrs_t *attrs = node->attrs;
  static const char *const kinds[] = {
#define DELTA_REDUCE_NAME(id, name) [DELTA_REDUCE_##id] = name,
      DELTA_REDUCE_KINDS(DELTA_REDUCE_NAME)
#undef DELTA_REDUCE_NAME
  };
  write_shape(sink, "shape", &attrs->shape);
  write_integer(sink, "axes", attrs->axes);
  for (uint16_t k = 0; k < attrs->expr.output_count; ++k) delta_graph_write(sink, " %s", kinds[attrs->kinds[k]]);
  write_expr(sink, &attrs->expr, attrs->dtypes);
}

static void write_moments(delta_graph_sink_t sink, const delta_node_t *node) {
  write_integer(sink, "axes", ((const delta_moments_attrs_t *)node->attrs)->axes);
}

static void write_arg_reduce(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_arg_reduce_attrs_t *attrs = node->attrs;
  write_integer(sink, "axis", attrs->axis);
  write_integer(sink, "smallest", attrs->smallest);
  write_integer(sink, "select_last", attrs->select_last);
}

static void write_matmul(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_matmul_attrs_t *attrs = node->attrs;
  write_integer(sink, "transpose_a", attrs->transpose_a);
  write_integer(sink, "transpose_b", attrs->transpose_b);
}

static void write_window(delta_graph_sink_t sink, const delta_window_t *window) {
  const size_t spatial = (size_t)window->spatial;
  write_integers(sink, "kernel", window->kernel, spatial);
  write_integers(sink, "strides", window->strides, spatial);
  write_integers(sink, "dilations", window->dilations, spatial);
  write_integers(sink, "pads_begin", window->pads_begin, spatial);
  write_integers(sink, "pads_end", window->pads_end, spatial);
}

// Only where it is not plain.
static void write_layout(delta_graph_sink_t sink, const char *name, delta_layout_t layout) {
  if (layout != DELTA_LAYOUT_PLAIN) delta_graph_write(sink, " %s=%s", name, delta_layout_name(layout));
}

static void write_conv(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_conv_attrs_t *attrs = node->attrs;
  write_window(sink, &attrs->window);
  write_integer(sink, "group", attrs->group);
  write_integers(sink, "data_spatial", attrs->data_spatial, (size_t)attrs->window.spatial);
  write_layout(sink, "x_layout", attrs->x_layout);
  write_layout(sink, "y_layout", attrs->y_layout);
}

static void write_pool(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_pool_attrs_t *attrs = node->attrs;
  write_window(sink, &attrs->window);
  write_integers(sink, "out_spatial", attrs->out_spatial, (size_t)attrs->window.spatial);
  write_integers(sink, "data_spatial", attrs->data_spatial, (size_t)attrs->window.spatial);
  write_integer(sink, "count_include_pad", attrs->count_include_pad);
  write_integer(sink, "index", attrs->index);
  write_layout(sink, "layout", attrs->layout);
}

static void write_softmax(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_softmax_attrs_t *attrs = node->attrs;
  write_integer(sink, "axis", attrs->axis);
  write_integer(sink, "log", attrs->log);
}

static void write_stream(delta_graph_sink_t sink, uint64_t stream, int64_t first) {
  delta_graph_write(sink, " stream=%" PRIu64, stream);
  if (first != 0) write_integer(sink, "first", first);
}

static void write_attention(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_attention_attrs_t *attrs = node->attrs;
  write_real(sink, "scale", attrs->scale);
  write_integer(sink, "heads_inside", attrs->heads_inside);
  write_integer(sink, "hidden_rows_zero", attrs->hidden_rows_zero);
  if (attrs->ratio == 0.0) return;
  write_real(sink, "ratio", attrs->ratio);
  write_stream(sink, attrs->stream, attrs->first);
}

static void write_class_loss(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_class_loss_attrs_t *attrs = node->attrs;
  write_integer(sink, "axis", attrs->axis);
  write_integer(sink, "classes", attrs->classes);
  if (attrs->has_ignore) write_integer(sink, "ignore_index", attrs->ignore_index);
}

static void write_dropout(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_dropout_attrs_t *attrs = node->attrs;
  write_real(sink, "ratio", attrs->ratio);
  write_stream(sink, attrs->stream, attrs->first);
}

static void write_random(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_random_attrs_t *attrs = node->attrs;
  write_integer(sink, "normal", attrs->normal);
  write_real(sink, "low", attrs->low);
  write_real(sink, "high", attrs->high);
  delta_graph_write(sink, " stream=%" PRIu64, attrs->stream);
}

static void write_transpose(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_transpose_attrs_t *attrs = node->attrs;
  delta_graph_write(sink, " permutation=");
  for (int d = 0; d < DELTA_MAX_RANK; ++d) delta_graph_write(sink, "%s%" PRId32, d ? "," : "", attrs->permutation[d]);
}

static void write_slice(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_slice_attrs_t *attrs = node->attrs;
  write_shape(sink, "shape", &attrs->shape);
  write_shape(sink, "data_shape", &attrs->data_shape);
  write_integers(sink, "starts", attrs->starts, (size_t)attrs->shape.rank);
  write_integers(sink, "steps", attrs->steps, (size_t)attrs->shape.rank);
}

static void write_split(delta_graph_sink_t sink, const delta_node_t *node) {
  write_integer(sink, "axis", ((const delta_split_attrs_t *)node->attrs)->axis); // the outputs' shapes say the sizes
}

static void write_pad(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_pad_attrs_t *attrs = node->attrs;
  write_integer(sink, "mode", attrs->mode);
  write_integers(sink, "begin", attrs->begin, (size_t)attrs->data_shape.rank);
  write_integers(sink, "end", attrs->end, (size_t)attrs->data_shape.rank);
  write_real(sink, "value", attrs->value);
  write_shape(sink, "data_shape", &attrs->data_shape);
}

static void write_gather(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_gather_attrs_t *attrs = node->attrs;
  write_integer(sink, "axis", attrs->axis);
  write_integer(sink, "batch_dims", attrs->batch_dims);
}

static void write_scatter(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_scatter_attrs_t *attrs = node->attrs;
  write_integer(sink, "axis", attrs->axis);
  write_integer(sink, "kind", attrs->kind);
}

static void write_trilu(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_trilu_attrs_t *attrs = node->attrs;
  write_integer(sink, "upper", attrs->upper);
  write_integer(sink, "k", attrs->k);
}

static void write_cumsum(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_cumsum_attrs_t *attrs = node->attrs;
  write_integer(sink, "axis", attrs->axis);
  write_integer(sink, "exclusive", attrs->exclusive);
  write_integer(sink, "reverse", attrs->reverse);
}

static void write_topk(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_topk_attrs_t *attrs = node->attrs;
  write_integer(sink, "axis", attrs->axis);
  write_integer(sink, "k", attrs->k);
  write_integer(sink, "smallest", attrs->smallest);
}

static void write_resize(delta_graph_sink_t sink, const delta_node_t *node) {
  const delta_resize_attrs_t *attrs = node->attrs;
  const size_t rank = (size_t)attrs->data_shape.rank;
  write_integer(sink, "mode", attrs->mode);
  write_integer(sink, "coordinate", attrs->coordinate);
  write_integer(sink, "rounding", attrs->rounding);
  write_real(sink, "cubic_coefficient", attrs->cubic_coefficient);
  write_integer(sink, "exclude_outside", attrs->exclude_outside);
  write_integer(sink, "antialias", attrs->antialias);
  write_real(sink, "extrapolation_value", attrs->extrapolation_value);
  write_reals(sink, "scales", attrs->scales, rank);
  write_reals(sink, "roi_start", attrs->roi_start, rank);
  write_reals(sink, "roi_end", attrs->roi_end, rank);
  write_shape(sink, "data_shape", &attrs->data_shape);
}

static void (*const writers[DELTA_CORE_OP_COUNT])(delta_graph_sink_t sink, const delta_node_t *node) = {
    [DELTA_CORE_CONSTANT] = write_constant,
    [DELTA_CORE_VIEW] = write_view,
    [DELTA_CORE_POINTWISE] = write_pointwise,
    [DELTA_CORE_EACH] = write_each,
    [DELTA_CORE_REDUCE] = write_reduce,
    [DELTA_CORE_MOMENTS] = write_moments,
    [DELTA_CORE_ARG_REDUCE] = write_arg_reduce,
    [DELTA_CORE_MATMUL] = write_matmul,
    [DELTA_CORE_CONV] = write_conv,
    [DELTA_CORE_CONV_DATA] = write_conv,
    [DELTA_CORE_CONV_WEIGHT] = write_conv,
    [DELTA_CORE_MAX_POOL] = write_pool,
    [DELTA_CORE_MAX_POOL_GRAD] = write_pool,
    [DELTA_CORE_AVERAGE_POOL] = write_pool,
    [DELTA_CORE_AVERAGE_POOL_GRAD] = write_pool,
    [DELTA_CORE_SOFTMAX] = write_softmax,
    [DELTA_CORE_SOFTMAX_GRAD] = write_softmax,
    [DELTA_CORE_ATTENTION] = write_attention,
    [DELTA_CORE_ATTENTION_GRAD] = write_attention,
    [DELTA_CORE_CROSS_ENTROPY] = write_class_loss,
    [DELTA_CORE_CROSS_ENTROPY_GRAD] = write_class_loss,
    [DELTA_CORE_NLL] = write_class_loss,
    [DELTA_CORE_NLL_GRAD] = write_class_loss,
    [DELTA_CORE_DROPOUT] = write_dropout,
    [DELTA_CORE_RANDOM] = write_random,
    [DELTA_CORE_TRANSPOSE] = write_transpose,
    [DELTA_CORE_SLICE] = write_slice,
    [DELTA_CORE_SLICE_GRAD] = write_slice,
    [DELTA_CORE_SPLIT] = write_split,
    [DELTA_CORE_CONCAT] = write_split,
    [DELTA_CORE_PAD] = write_pad,
    [DELTA_CORE_PAD_GRAD] = write_pad,
    [DELTA_CORE_GATHER] = write_gather,
    [DELTA_CORE_GATHER_GRAD] = write_gather,
    [DELTA_CORE_GATHER_ELEMENTS] = write_gather,
    [DELTA_CORE_SCATTER_ELEMENTS] = write_scatter,
    [DELTA_CORE_GATHER_ND] = write_gather,
    [DELTA_CORE_SCATTER_ND] = write_scatter,
    [DELTA_CORE_TRILU] = write_trilu,
    [DELTA_CORE_CUMSUM] = write_cumsum,
    [DELTA_CORE_TOPK] = write_topk,
    [DELTA_CORE_RESIZE] = write_resize,
    [DELTA_CORE_RESIZE_GRAD] = write_resize,
};

void delta_graph_write_attrs(delta_graph_sink_t sink, const delta_node_t *node) { writers[node->op](sink, node); }
