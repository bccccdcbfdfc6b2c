// The rules, by operator. Each takes the axis of one split input and follows it to the other operands; what does not fit makes the node run whole.
#include "onnx/parts/rules.h"

#include "onnx/graph/attention_dims.h"

static const delta_shape_t *input_shape(const delta_part_rule_t *rule, uint32_t k) {
  return &delta_node_input(rule->graph, rule->node, k)->shape;
}
static const delta_shape_t *output_shape(const delta_part_rule_t *rule, uint32_t k) {
  return &delta_node_output(rule->graph, rule->node, k)->shape;
}

static bool has_input(const delta_part_rule_t *rule, uint32_t k) {
  return k < rule->node->input_count && !delta_tensor_is_none(rule->node->inputs[k]);
}

static int32_t found_axis(const delta_part_rule_t *rule, uint32_t k) { return has_input(rule, k) ? rule->found[k] : DELTA_PART_WHOLE; }

static void set_all_inputs(const delta_part_rule_t *rule, int32_t axis) {
  for (uint32_t k = 0; k < rule->node->input_count; ++k) rule->inputs[k] = axis;
}
static void set_all_outputs(const delta_part_rule_t *rule, int32_t axis) {
  for (uint32_t k = 0; k < rule->node->output_count; ++k) rule->outputs[k] = axis;
}

// The axis of the first of `count` inputs that is split; WHOLE when none is.
static int32_t first_axis(const delta_part_rule_t *rule, uint32_t count) {
  for (uint32_t k = 0; k < count && k < rule->node->input_count; ++k) {
    if (found_axis(rule, k) != DELTA_PART_WHOLE) return rule->found[k];
  }
  return DELTA_PART_WHOLE;
}

// The first `count` inputs and all outputs are split along one axis, other inputs are whole. False when they are not as long there.
static bool follow_axis(const delta_part_rule_t *rule, uint32_t count, int32_t axis) {
  if (axis == DELTA_PART_WHOLE) return false;
  const int64_t size = input_shape(rule, 0)->dims[axis];
  for (uint32_t k = 0; k < rule->node->input_count; ++k) {
    rule->inputs[k] = k < count && has_input(rule, k) ? axis : DELTA_PART_WHOLE;
    if (rule->inputs[k] == axis && (axis >= input_shape(rule, k)->rank || input_shape(rule, k)->dims[axis] != size)) return false;
  }
  set_all_outputs(rule, axis);
  return true;
}

// The dimension before which as many stand as before the input's. Samples are the outermost part of both, whose insides may be cut differently; the
// caller sees to it that both have whole samples.
static bool view_rule(const delta_part_rule_t *rule) {
  const delta_shape_t *from = input_shape(rule, 0), *to = output_shape(rule, 0);
  const int32_t axis = found_axis(rule, 0);
  const int64_t before = delta_shape_count_range(from, 0, axis);
  for (int32_t d = 0; d < to->rank; ++d) {
    if (to->dims[d] == 1 || delta_shape_count_range(to, 0, d) != before) continue;
    rule->inputs[0] = axis;
    rule->outputs[0] = d;
    return true;
  }
  return false;
}

// The axis of the result to which the largest split input points.
static int32_t broadcast_axis(const delta_part_rule_t *rule, const delta_shape_t *shape) {
  int32_t axis = DELTA_PART_WHOLE;
  int64_t largest = 0;
  for (uint32_t k = 0; k < rule->node->input_count; ++k) {
    const int32_t found = found_axis(rule, k);
    if (found == DELTA_PART_WHOLE || delta_shape_count(input_shape(rule, k)) <= largest) continue;
    largest = delta_shape_count(input_shape(rule, k));
    axis = found + shape->rank - input_shape(rule, k)->rank;
  }
  return axis;
}

// The axis of an input that is broadcast to `rank` dimensions; WHOLE where it repeats.
static int32_t aligned_axis(const delta_part_rule_t *rule, uint32_t k, int32_t rank, int32_t axis) {
  const delta_shape_t *shape = input_shape(rule, k);
  const int32_t own = axis - (rank - shape->rank);
  return own < 0 || shape->dims[own] == 1 ? DELTA_PART_WHOLE : own;
}

static bool broadcast_inputs(const delta_part_rule_t *rule, const delta_shape_t *shape, int32_t *out_axis) {
  const int32_t axis = broadcast_axis(rule, shape);
  for (uint32_t k = 0; k < rule->node->input_count; ++k) rule->inputs[k] = aligned_axis(rule, k, shape->rank, axis);
  *out_axis = axis;
  return axis >= 0;
}

static bool pointwise_rule(const delta_part_rule_t *rule) {
  int32_t axis;
  if (!broadcast_inputs(rule, &((const delta_pointwise_attrs_t *)rule->node->attrs)->shape, &axis)) return false;
  set_all_outputs(rule, axis);
  return true;
}

static bool reduce_rule(const delta_part_rule_t *rule) {
  const delta_reduce_attrs_t *attrs = rule->node->attrs;
  int32_t axis;
  if (!broadcast_inputs(rule, &attrs->shape, &axis)) return false;
  set_all_outputs(rule, attrs->axes >> axis & 1u ? DELTA_PART_SUM : axis);
  return true;
}

static bool moments_rule(const delta_part_rule_t *rule) {
  const delta_moments_attrs_t *attrs = rule->node->attrs;
  rule->inputs[0] = rule->found[0];
  set_all_outputs(rule, attrs->axes >> rule->found[0] & 1u ? DELTA_PART_SUM : rule->found[0]);
  return true;
}

// Operators that work along one axis and have inputs and outputs of one form.
static bool along_rule(const delta_part_rule_t *rule, uint32_t count, int32_t along) {
  const int32_t axis = first_axis(rule, count);
  return axis != along && follow_axis(rule, count, axis);
}
static bool arg_reduce_rule(const delta_part_rule_t *rule) {
  return along_rule(rule, 1, ((const delta_arg_reduce_attrs_t *)rule->node->attrs)->axis);
}
static bool softmax_rule(const delta_part_rule_t *rule) {
  return along_rule(rule, 2, ((const delta_softmax_attrs_t *)rule->node->attrs)->axis);
}
static bool cumsum_rule(const delta_part_rule_t *rule) {
  return along_rule(rule, 1, ((const delta_cumsum_attrs_t *)rule->node->attrs)->axis);
}
static bool topk_rule(const delta_part_rule_t *rule) { return along_rule(rule, 1, ((const delta_topk_attrs_t *)rule->node->attrs)->axis); }
static bool list_rule(const delta_part_rule_t *rule) {
  return along_rule(rule, rule->node->input_count, ((const delta_split_attrs_t *)rule->node->attrs)->axis);
}
static bool gather_elements_rule(const delta_part_rule_t *rule) {
  return along_rule(rule, 2, ((const delta_gather_attrs_t *)rule->node->attrs)->axis);
}
static bool scatter_elements_rule(const delta_part_rule_t *rule) {
  return along_rule(rule, 3, ((const delta_scatter_attrs_t *)rule->node->attrs)->axis);
}
static bool trilu_rule(const delta_part_rule_t *rule) {
  return rule->found[0] < input_shape(rule, 0)->rank - 2 && follow_axis(rule, 1, rule->found[0]);
}

static bool transpose_rule(const delta_part_rule_t *rule) {
  const delta_transpose_attrs_t *attrs = rule->node->attrs;
  rule->inputs[0] = rule->found[0];
  for (int32_t d = 0; d < input_shape(rule, 0)->rank; ++d) {
    if (attrs->permutation[d] == rule->found[0]) rule->outputs[0] = d;
  }
  return true;
}

// An operand of a product: which of its dimensions are rows or columns of the result, and which is summed over.
typedef struct product_operand {
  int32_t kept, summed;
} product_operand_t;

static product_operand_t product_operand(const delta_part_rule_t *rule, uint32_t k) {
  const delta_matmul_attrs_t *attrs = rule->node->attrs;
  const int32_t rank = input_shape(rule, k)->rank;
  const bool kept_first = k == 0 ? !attrs->transpose_a : attrs->transpose_b;
  return (product_operand_t){.kept = kept_first ? rank - 2 : rank - 1, .summed = kept_first ? rank - 1 : rank - 2};
}

static bool matmul_rule(const delta_part_rule_t *rule) {
  const uint32_t leader = found_axis(rule, 0) != DELTA_PART_WHOLE ? 0 : 1;
  const int32_t found = found_axis(rule, leader), rank = output_shape(rule, 0)->rank;
  if (found == DELTA_PART_WHOLE) return false;
  const product_operand_t own = product_operand(rule, leader), other = product_operand(rule, 1 - leader);
  set_all_inputs(rule, DELTA_PART_WHOLE);
  rule->inputs[leader] = found;
  if (found == own.summed) {
    if (has_input(rule, 3)) return false; // each part would have it
    rule->inputs[1 - leader] = other.summed;
    rule->outputs[0] = DELTA_PART_SUM;
    return true;
  }
  rule->outputs[0] = found == own.kept ? rank - 2 + (int32_t)leader : found + rank - input_shape(rule, leader)->rank;
  if (found != own.kept) rule->inputs[1 - leader] = aligned_axis(rule, 1 - leader, rank, rule->outputs[0]);
  if (has_input(rule, 2)) rule->inputs[2] = rule->outputs[0];
  if (has_input(rule, 3) && rule->outputs[0] == rank - 1) rule->inputs[3] = 0;
  return true;
}

// Samples of a convolution or of pooling: only the first dimension. Weights and biases are whole.
static bool conv_rule(const delta_part_rule_t *rule) { return rule->found[0] == 0 && follow_axis(rule, 1, 0); }

static bool conv_weight_rule(const delta_part_rule_t *rule) {
  if (first_axis(rule, 2) != 0) return false;
  set_all_inputs(rule, 0);
  rule->outputs[0] = DELTA_PART_SUM;
  return true;
}

static bool pool_rule(const delta_part_rule_t *rule) {
  const delta_pool_attrs_t *attrs = rule->node->attrs;
  const bool has_index =
      rule->node->op == DELTA_CORE_MAX_POOL_GRAD ||
      (rule->node->op == DELTA_CORE_MAX_POOL && rule->node->output_count > 1 && !delta_tensor_is_none(rule->node->outputs[1]));
  // Flat indices count from the start of the whole tensor.
  if (has_index && attrs->index != DELTA_POOL_INDEX_WINDOW) return false;
  return first_axis(rule, 2) == 0 && follow_axis(rule, rule->node->input_count, 0);
}

// Dimensions that count matrices. Dropout of scores is drawn by position, which is a range only of the outermost dimension.
static bool attention_rule(const delta_part_rule_t *rule) {
  const delta_attention_attrs_t *attrs = rule->node->attrs;
  const bool is_gradient = rule->node->op == DELTA_CORE_ATTENTION_GRAD;
  const uint32_t first = is_gradient ? DELTA_ATTENTION_GRAD_INPUTS : 0, mask = first + DELTA_ATTENTION_MASK;
  const delta_attention_dims_t dims = delta_attention_dims_of(rule->graph, rule->node);
  const int32_t rank = dims.scores.rank, axis = first_axis(rule, mask);
  if (axis < 0 || axis >= (attrs->heads_inside ? rank - 3 : rank - 2)) return false;
  if (attrs->ratio > 0 && delta_shape_count_range(&dims.scores, 0, axis) != 1) return false;
  set_all_inputs(rule, DELTA_PART_WHOLE);
  for (uint32_t k = 0; k < mask; ++k) rule->inputs[k] = axis;
  if (has_input(rule, mask)) rule->inputs[mask] = aligned_axis(rule, mask, rank, axis);
  set_all_outputs(rule, axis);
  if (is_gradient && rule->node->output_count > 3) rule->outputs[3] = rule->inputs[mask] < 0 ? DELTA_PART_SUM : rule->inputs[mask];
  return true;
}

// Scores have one axis more than labels and what is kept of each label.
static bool class_loss_rule(const delta_part_rule_t *rule) {
  const delta_class_loss_attrs_t *attrs = rule->node->attrs;
  const delta_core_op_t op = rule->node->op;
  const uint32_t scores = op == DELTA_CORE_CROSS_ENTROPY_GRAD ? 1 : op == DELTA_CORE_NLL_GRAD ? UINT32_MAX : 0;
  const uint32_t per_label = op == DELTA_CORE_CROSS_ENTROPY_GRAD ? 4 : 2; // inputs but for class weights
  const bool is_gradient = op == DELTA_CORE_CROSS_ENTROPY_GRAD || op == DELTA_CORE_NLL_GRAD;
  int32_t label_axis = DELTA_PART_WHOLE;
  for (uint32_t k = 0; k < per_label && label_axis == DELTA_PART_WHOLE; ++k) {
    const int32_t found = found_axis(rule, k);
    if (found == DELTA_PART_WHOLE) continue;
    if (k == scores && found == attrs->axis) return false;
    label_axis = k == scores && found > attrs->axis ? found - 1 : found;
  }
  if (label_axis == DELTA_PART_WHOLE) return false;
  const int32_t score_axis = label_axis < attrs->axis ? label_axis : label_axis + 1;
  for (uint32_t k = 0; k < rule->node->input_count; ++k)
    rule->inputs[k] = k >= per_label ? DELTA_PART_WHOLE : k == scores ? score_axis : label_axis;
  set_all_outputs(rule, is_gradient ? score_axis : label_axis);
  return true;
}

// Numbers are drawn by position, and a part of the outermost dimension is a range of positions.
static bool dropout_rule(const delta_part_rule_t *rule) {
  return delta_shape_count_range(input_shape(rule, 0), 0, rule->found[0] < 0 ? 0 : rule->found[0]) == 1 &&
         follow_axis(rule, 1, rule->found[0]);
}

// Only what is taken whole along the axis. What lies within one part is the caller's matter.
static bool slice_rule(const delta_part_rule_t *rule) {
  const delta_slice_attrs_t *attrs = rule->node->attrs;
  const int32_t axis = rule->found[0];
  const bool is_whole = attrs->starts[axis] == 0 && attrs->steps[axis] == 1 && attrs->shape.dims[axis] == attrs->data_shape.dims[axis];
  return is_whole && follow_axis(rule, 1, axis);
}

static bool pad_rule(const delta_part_rule_t *rule) {
  const delta_pad_attrs_t *attrs = rule->node->attrs;
  const int32_t axis = rule->found[0];
  return attrs->begin[axis] == 0 && attrs->end[axis] == 0 && follow_axis(rule, 1, axis);
}

static bool resize_rule(const delta_part_rule_t *rule) {
  const delta_resize_attrs_t *attrs = rule->node->attrs;
  const int32_t axis = rule->found[0];
  const bool is_whole = attrs->scales[axis] == 1.0 && attrs->out_shape.dims[axis] == attrs->data_shape.dims[axis] &&
                        attrs->coordinate != DELTA_RESIZE_TF_CROP_AND_RESIZE;
  return is_whole && follow_axis(rule, 1, axis);
}

static bool gather_rule(const delta_part_rule_t *rule) {
  const int32_t axis = ((const delta_gather_attrs_t *)rule->node->attrs)->axis, data = found_axis(rule, 0), index = found_axis(rule, 1);
  const int32_t index_rank = input_shape(rule, 1)->rank;
  set_all_inputs(rule, DELTA_PART_WHOLE);
  if (data != DELTA_PART_WHOLE) {
    if (data == axis) return false;
    rule->inputs[0] = data;
    rule->outputs[0] = data < axis ? data : data - 1 + index_rank;
    return true;
  }
  rule->inputs[1] = index;
  rule->outputs[0] = axis + index;
  return index != DELTA_PART_WHOLE;
}

// The gradient of a table from rows: tables that are larger than all rows are made once, from all of them.
static bool gather_grad_rule(const delta_part_rule_t *rule) {
  const int32_t axis = ((const delta_gather_attrs_t *)rule->node->attrs)->axis, index_rank = input_shape(rule, 0)->rank;
  int32_t row = found_axis(rule, 1);
  if (row == DELTA_PART_WHOLE) row = axis + found_axis(rule, 0);
  rule->inputs[0] = DELTA_PART_WHOLE;
  rule->inputs[1] = row;
  if (row < axis || row >= axis + index_rank) {
    rule->outputs[0] = row < axis ? row : row - index_rank + 1;
    return true;
  }
  rule->inputs[0] = row - axis;
  rule->outputs[0] = DELTA_PART_SUM;
  return delta_tensor_bytes(delta_node_output(rule->graph, rule->node, 0)) <=
         delta_tensor_bytes(delta_node_input(rule->graph, rule->node, 1));
}

typedef bool (*rule_function_t)(const delta_part_rule_t *rule);
// Operators without a row run whole.
static const rule_function_t rules[DELTA_CORE_OP_COUNT] = {
    [DELTA_CORE_VIEW] = view_rule,
    [DELTA_CORE_POINTWISE] = pointwise_rule,
    [DELTA_CORE_REDUCE] = reduce_rule,
    [DELTA_CORE_MOMENTS] = moments_rule,
    [DELTA_CORE_ARG_REDUCE] = arg_reduce_rule,
    [DELTA_CORE_MATMUL] = matmul_rule,
    [DELTA_CORE_CONV] = conv_rule,
    [DELTA_CORE_CONV_DATA] = conv_rule,
    [DELTA_CORE_CONV_WEIGHT] = conv_weight_rule,
    [DELTA_CORE_MAX_POOL] = pool_rule,
    [DELTA_CORE_MAX_POOL_GRAD] = pool_rule,
    [DELTA_CORE_AVERAGE_POOL] = pool_rule,
    [DELTA_CORE_AVERAGE_POOL_GRAD] = pool_rule,
    [DELTA_CORE_SOFTMAX] = softmax_rule,
    [DELTA_CORE_SOFTMAX_GRAD] = softmax_rule,
    [DELTA_CORE_ATTENTION] = attention_rule,
    [DELTA_CORE_ATTENTION_GRAD] = attention_rule,
    [DELTA_CORE_CROSS_ENTROPY] = class_loss_rule,
    [DELTA_CORE_CROSS_ENTROPY_GRAD] = class_loss_rule,
    [DELTA_CORE_NLL] = class_loss_rule,
    [DELTA_CORE_NLL_GRAD] = class_loss_rule,
    [DELTA_CORE_DROPOUT] = dropout_rule,
    [DELTA_CORE_TRANSPOSE] = transpose_rule,
    [DELTA_CORE_SLICE] = slice_rule,
    [DELTA_CORE_SLICE_GRAD] = slice_rule,
    [DELTA_CORE_SPLIT] = list_rule,
    [DELTA_CORE_CONCAT] = list_rule,
    [DELTA_CORE_PAD] = pad_rule,
    [DELTA_CORE_PAD_GRAD] = pad_rule,
    [DELTA_CORE_GATHER] = gather_rule,
    [DELTA_CORE_GATHER_GRAD] = gather_grad_rule,
    [DELTA_CORE_GATHER_ELEMENTS] = gather_elements_rule,
    [DELTA_CORE_SCATTER_ELEMENTS] = scatter_elements_rule,
    [DELTA_CORE_TRILU] = trilu_rule,
    [DELTA_CORE_CUMSUM] = cumsum_rule,
    [DELTA_CORE_TOPK] = topk_rule,
    [DELTA_CORE_RESIZE] = resize_rule,
    [DELTA_CORE_RESIZE_GRAD] = resize_rule,
};

bool delta_part_rule_apply(const delta_part_rule_t *rule) { return rules[rule->node->op] && rules[rule->node->op](rule); }
