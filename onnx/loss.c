// Loss: finding the output, the label's type and shape, and the formulas.
#include "onnx/loss.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"

typedef enum label_kind { LABEL_C, LABEL_F, LABEL_N } label_kind_t;
typedef struct loss_info {
  const char *name;
  label_kind_t label;
} loss_info_t;
static const loss_info_t infos[DELTA_LOSS_COUNT] = {
#define DELTA_LOSS_INFO(id, name, label, help) [DELTA_LOSS_##id] = {name, LABEL_##label},
    DELTA_LOSSES(DELTA_LOSS_INFO)
#undef DELTA_LOSS_INFO
};

static bool is_scalar_float(const delta_tensor_t *tensor) {
  return delta_dtype_is_float(tensor->dtype) && delta_shape_count(&tensor->shape) == 1;
}

// The model's outputs by name, for messages: 'a' [8, 10], 'b' [] (int64).
static delta_status_t append_outputs(const delta_graph_t *graph, delta_text_t *text) {
  enum { SHOWN = 8 };
  for (size_t k = 0; k < graph->outputs.count && k < SHOWN; ++k) {
    const delta_tensor_t *tensor = delta_graph_tensor(graph, graph->outputs.items[k].tensor);
    char shape[DELTA_SHAPE_TEXT_BYTES];
    DELTA_RETURN_IF_ERROR(
        delta_text_append(text, "%s'%s' %s", k ? ", " : "", graph->outputs.items[k].name, delta_shape_text(&tensor->shape, shape)));
    if (!delta_dtype_is_float(tensor->dtype)) DELTA_RETURN_IF_ERROR(delta_text_append(text, " (%s)", delta_dtype_name(tensor->dtype)));
  }
  if (graph->outputs.count <= SHOWN) return DELTA_OK;
  return delta_text_append(text, " and %zu more", graph->outputs.count - SHOWN);
}

static delta_status_t no_loss(const delta_graph_t *graph) {
  for (size_t k = 0; k < graph->outputs.count; ++k) {
    if (!is_scalar_float(delta_graph_tensor(graph, graph->outputs.items[k].tensor))) continue;
    return delta_status_make(INVALID_ARGUMENT,
                             "no loss: give --loss NAME; the model's output '%s' is one number: if that is the loss, --loss output:%s",
                             graph->outputs.items[k].name, graph->outputs.items[k].name);
  }
  delta_text_t text;
  delta_text_init(&text, graph->allocator);
  delta_status_t status = append_outputs(graph, &text);
  if (!status) {
    status = delta_status_make(INVALID_ARGUMENT,
                               "no loss: give --loss NAME (the model computes none; its outputs are %s), for example --loss cross_entropy",
                               text.items ? text.items : "none");
  }
  delta_text_deinit(&text);
  return status;
}

// A loss is one number: of anything else a mean would be trained that nobody asked for.
static delta_status_t check_own_loss(const delta_tensor_t *tensor, const char *name) {
  char shape[DELTA_SHAPE_TEXT_BYTES];
  if (delta_shape_count(&tensor->shape) == 1) return DELTA_OK;
  return delta_status_make(
      INVALID_ARGUMENT,
      "loss output:%s: output '%s' has shape %s; a loss is one number: name an output of one element, or give a --loss "
      "such as cross_entropy:%s",
      name, name, delta_shape_text(&tensor->shape, shape), name);
}

static delta_status_t find_output(const delta_graph_t *graph, const delta_build_options_t *options, delta_tensor_id_t *out_output,
                                  const char **out_name) {
  for (size_t k = 0; k < graph->outputs.count; ++k) {
    if (options->loss_output && strcmp(options->loss_output, graph->outputs.items[k].name) != 0) continue;
    *out_output = graph->outputs.items[k].tensor;
    *out_name = graph->outputs.items[k].name;
    const delta_tensor_t *tensor = delta_graph_tensor(graph, *out_output);
    const delta_dtype_t dtype = tensor->dtype;
    if (delta_dtype_is_float(dtype)) return options->loss == DELTA_LOSS_OUTPUT ? check_own_loss(tensor, *out_name) : DELTA_OK;
    return delta_status_make(INVALID_ARGUMENT, "loss %s: output '%s' is of type %s; a float type is wanted: name another output",
                             infos[options->loss].name, *out_name, delta_dtype_name(dtype));
  }
  delta_text_t text;
  delta_text_init(&text, graph->allocator);
  delta_status_t status = append_outputs(graph, &text);
  if (!status) {
    status = delta_status_make(INVALID_ARGUMENT, "loss %s: the model has no output '%s'; it has %s", infos[options->loss].name,
                               options->loss_output ? options->loss_output : "", text.items ? text.items : "none");
  }
  delta_text_deinit(&text);
  return status;
}

static delta_status_t class_label_shape(const delta_shape_t *scores, const delta_build_options_t *options, const char *name,
                                        int32_t *out_axis, delta_shape_t *out_shape) {
  const int64_t axis = options->class_axis < 0 ? options->class_axis + scores->rank : options->class_axis;
  if (axis < 0 || axis >= scores->rank) {
    char text[DELTA_SHAPE_TEXT_BYTES];
    return delta_status_make(INVALID_ARGUMENT,
                             "loss %s: output '%s' of shape %s has no axis %" PRId64 " for the classes; give --class-axis N",
                             infos[options->loss].name, name, delta_shape_text(scores, text), options->class_axis);
  }
  if (axis == 0) {
    return delta_status_make(INVALID_ARGUMENT,
                             "loss %s: axis 0 of output '%s' counts the samples of the batch and cannot be that of the classes; give "
                             "--class-axis N from 1 on",
                             infos[options->loss].name, name);
  }
  *out_axis = (int32_t)axis;
  *out_shape = (delta_shape_t){.rank = scores->rank - 1};
  for (int32_t d = 0; d < out_shape->rank; ++d) out_shape->dims[d] = scores->dims[d < axis ? d : d + 1];
  return DELTA_OK;
}

static delta_status_t add_label(delta_graph_t *graph, delta_dtype_t dtype, const delta_shape_t *shape, delta_tensor_id_t *out_label) {
  if (!delta_tensor_is_none(delta_graph_find_input(graph, DELTA_NAME_LABEL))) {
    return delta_status_make(INVALID_ARGUMENT,
                             "the model has an input '%s' itself; a loss that takes labels needs that name: rename the input, or use the "
                             "model's own loss with --loss output:NAME",
                             DELTA_NAME_LABEL);
  }
  return delta_graph_add_input(graph, DELTA_NAME_LABEL, dtype, shape, out_label);
}

// All axes, and a scalar instead of [1, 1, ...].
static delta_tensor_id_t sum_all(delta_emit_t *emit, delta_tensor_id_t x) { return delta_emit_sum_to(emit, x, &(delta_shape_t){0}); }

static void attach_class_loss(delta_emit_t *emit, const delta_build_options_t *options, delta_loss_values_t *values) {
  const delta_class_loss_attrs_t attrs = {.axis = values->class_axis,
                                          .classes = delta_emit_shape(emit, values->output)->dims[values->class_axis],
                                          .has_ignore = true,
                                          .ignore_index = options->ignore_index};
  delta_tensor_id_t inputs[2] = {values->output, values->label}, outputs[3];
  if (options->loss == DELTA_LOSS_CROSS_ENTROPY && delta_lever_is_on(options->import.levers, DELTA_LEVER_LOSS)) {
    delta_emit_node(emit, DELTA_CORE_CROSS_ENTROPY, &attrs, sizeof attrs, inputs, 2, outputs, 3, 0);
  } else {
    const delta_softmax_attrs_t softmax = {.axis = values->class_axis, .log = true};
    if (options->loss == DELTA_LOSS_CROSS_ENTROPY) inputs[0] = DELTA_EMIT(emit, SOFTMAX, softmax, values->output);
    delta_emit_node(emit, DELTA_CORE_NLL, &attrs, sizeof attrs, inputs, 2, outputs, 2, 0);
  }
  values->sum = sum_all(emit, outputs[0]);
  values->count = sum_all(emit, outputs[1]);
}

static uint16_t squared_error(delta_expr_builder_t *b, uint16_t x, uint16_t y) {
  const uint16_t difference = delta_expr_binary(b, DELTA_EXPR_SUB, x, y);
  return delta_expr_binary(b, DELTA_EXPR_MUL, difference, difference);
}

static uint16_t absolute_error(delta_expr_builder_t *b, uint16_t x, uint16_t y) {
  return delta_expr_unary(b, DELTA_EXPR_ABS, delta_expr_binary(b, DELTA_EXPR_SUB, x, y));
}

// max(x, 0) is written (x + |x|) / 2, whose derivative at 0 is 1/2 by the rule of |x|: the whole is then smooth there, as it should be.
static uint16_t logit_entropy(delta_expr_builder_t *b, uint16_t x, uint16_t y) {
  const uint16_t magnitude = delta_expr_unary(b, DELTA_EXPR_ABS, x);
  const uint16_t twice = delta_expr_binary(b, DELTA_EXPR_ADD, x, magnitude);
  const uint16_t positive = delta_expr_binary(b, DELTA_EXPR_MUL, twice, delta_expr_real(b, 0.5));
  const uint16_t linear = delta_expr_binary(b, DELTA_EXPR_SUB, positive, delta_expr_binary(b, DELTA_EXPR_MUL, x, y));
  const uint16_t decay = delta_expr_unary(b, DELTA_EXPR_EXP, delta_expr_unary(b, DELTA_EXPR_NEG, magnitude));
  return delta_expr_binary(b, DELTA_EXPR_ADD, linear, delta_expr_unary(b, DELTA_EXPR_LOG1P, decay));
}

typedef uint16_t (*element_loss_t)(delta_expr_builder_t *b, uint16_t x, uint16_t y);
static const element_loss_t element_losses[DELTA_LOSS_COUNT] = {
    [DELTA_LOSS_MSE] = squared_error, [DELTA_LOSS_L1] = absolute_error, [DELTA_LOSS_BCE_WITH_LOGITS] = logit_entropy};

static void attach_element_loss(delta_emit_t *emit, const delta_build_options_t *options, delta_loss_values_t *values) {
  const delta_shape_t shape = *delta_emit_shape(emit, values->output);
  const delta_dtype_t dtype = delta_emit_dtype(emit, values->output);
  const delta_tensor_id_t inputs[2] = {values->output, values->label};
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, delta_expr_compute_type(&dtype, 1));
  const uint16_t x = delta_expr_input(&builder, 0);
  const uint16_t y = delta_expr_input(&builder, 1);
  assert(element_losses[options->loss]); // losses of classes go another way
  delta_expr_output(&builder, element_losses[options->loss](&builder, x, y));
  const delta_tensor_id_t sum = delta_emit_reduce_expr(emit, DELTA_REDUCE_SUM, &builder, dtype, inputs, 2, (1u << shape.rank) - 1u);
  values->sum = delta_emit_view(emit, sum, &(delta_shape_t){0});
  values->count = delta_emit_scalar(emit, dtype, (double)delta_shape_count(&shape));
}

// The number of samples a program runs on: --batch, or the first dimension of the first input that has one.
static int64_t batch_size(const delta_graph_t *graph, const delta_build_options_t *options) {
  if (options->import.batch > 0) return options->import.batch;
  for (size_t k = 0; k < graph->inputs.count; ++k) {
    const delta_shape_t *shape = &delta_graph_tensor(graph, graph->inputs.items[k])->shape;
    if (shape->rank > 0) return shape->dims[0];
  }
  return 1;
}

static void attach_own_loss(delta_emit_t *emit, const delta_build_options_t *options, delta_loss_values_t *values) {
  const delta_dtype_t dtype = delta_emit_dtype(emit, values->output);
  values->mean = delta_emit_view(emit, values->output, &(delta_shape_t){0});
  values->count = delta_emit_scalar(emit, dtype, (double)batch_size(emit->graph, options));
  values->sum = delta_emit_binary(emit, DELTA_EXPR_MUL, values->mean, values->count);
}

delta_status_t delta_loss_attach(delta_emit_t *emit, const delta_build_options_t *options, delta_loss_values_t *out_values,
                                 delta_build_facts_t *out_facts) {
  delta_graph_t *graph = emit->graph;
  *out_values = (delta_loss_values_t){.label = DELTA_TENSOR_NONE, .mean = DELTA_TENSOR_NONE};
  if (options->loss == DELTA_LOSS_NONE) return no_loss(graph);
  const char *name = NULL;
  DELTA_RETURN_IF_ERROR(find_output(graph, options, &out_values->output, &name));
  const delta_shape_t shape = *delta_emit_shape(emit, out_values->output);
  delta_shape_t label_shape = shape;
  const label_kind_t label = infos[options->loss].label;
  if (label == LABEL_C) DELTA_RETURN_IF_ERROR(class_label_shape(&shape, options, name, &out_values->class_axis, &label_shape));
  const delta_dtype_t label_dtype = label == LABEL_C ? DELTA_DTYPE_INT64 : delta_emit_dtype(emit, out_values->output);
  if (label != LABEL_N) DELTA_RETURN_IF_ERROR(add_label(graph, label_dtype, &label_shape, &out_values->label));
  emit->name = "loss";
  emit->phase = DELTA_PHASE_LOSS;
  if (label == LABEL_C) {
    attach_class_loss(emit, options, out_values);
  } else if (label == LABEL_F) {
    attach_element_loss(emit, options, out_values);
  } else {
    attach_own_loss(emit, options, out_values);
  }
  if (delta_tensor_is_none(out_values->mean)) {
    out_values->mean = delta_emit_binary(emit, DELTA_EXPR_DIV, out_values->sum, out_values->count);
  }
  out_facts->has_label = label != LABEL_N;
  out_facts->has_accuracy = label == LABEL_C;
  out_facts->label_dtype = label_dtype;
  out_facts->label_shape = label_shape;
  out_facts->label_classes = label == LABEL_C ? shape.dims[out_values->class_axis] : 0;
  return delta_emit_finish(emit);
}

delta_tensor_id_t delta_loss_correct(delta_emit_t *emit, const delta_build_options_t *options, const delta_loss_values_t *values) {
  const delta_arg_reduce_attrs_t attrs = {.axis = values->class_axis};
  const delta_shape_t shape = *delta_emit_shape(emit, values->label);
  const delta_tensor_id_t best = delta_emit_view(emit, DELTA_EMIT(emit, ARG_REDUCE, attrs, values->output), &shape);
  const delta_tensor_id_t inputs[2] = {best, values->label};
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, DELTA_DTYPE_INT64);
  const uint16_t guess = delta_expr_input(&builder, 0);
  const uint16_t label = delta_expr_input(&builder, 1);
  const uint16_t hit = delta_expr_binary(&builder, DELTA_EXPR_EQ, guess, label);
  const uint16_t counts = delta_expr_binary(&builder, DELTA_EXPR_NE, label, delta_expr_integer(&builder, options->ignore_index));
  delta_expr_output(&builder, delta_expr_binary(&builder, DELTA_EXPR_AND, hit, counts));
  const delta_tensor_id_t sum =
      delta_emit_reduce_expr(emit, DELTA_REDUCE_SUM, &builder, delta_emit_dtype(emit, values->output), inputs, 2, (1u << shape.rank) - 1u);
  return delta_emit_view(emit, sum, &(delta_shape_t){0});
}
