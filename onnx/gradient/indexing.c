// Gradients of operators that read or write elements by index: what was gathered is scattered back, what was scattered is gathered.
// Duplicate indices sum in index order.
#include <string.h>

#include "onnx/gradient/rule.h"

static delta_tensor_id_t zeros_like_input(const delta_gradient_args_t *args, uint32_t k) {
  return delta_emit_fill(args->emit, delta_rule_input_dtype(args, k), delta_rule_input_shape(args, k), 0.0);
}

// dy added into zeros shaped as input 0, at `indices`, element by element along `axis`.
static delta_tensor_id_t scatter_elements_back(const delta_gradient_args_t *args, int32_t axis, delta_tensor_id_t indices) {
  const delta_scatter_attrs_t attrs = {.axis = axis, .kind = DELTA_SCATTER_ADD};
  const delta_tensor_id_t zeros = zeros_like_input(args, 0);
  return DELTA_EMIT(args->emit, SCATTER_ELEMENTS, attrs, zeros, indices, args->output_gradients[0]);
}

delta_status_t delta_gradient_gather(const delta_gradient_args_t *args) {
  delta_gather_attrs_t attrs = *(const delta_gather_attrs_t *)args->node->attrs;
  attrs.data_shape = *delta_rule_input_shape(args, 0);
  if (args->wanted[0])
    args->input_gradients[0] = DELTA_EMIT(args->emit, GATHER_GRAD, attrs, delta_rule_input(args, 1), args->output_gradients[0]);
  return DELTA_OK;
}

delta_status_t delta_gradient_gather_grad(const delta_gradient_args_t *args) {
  const delta_gather_attrs_t *attrs = args->node->attrs;
  if (args->wanted[1])
    args->input_gradients[1] = DELTA_EMIT(args->emit, GATHER, *attrs, args->output_gradients[0], delta_rule_input(args, 0));
  return DELTA_OK;
}

delta_status_t delta_gradient_gather_elements(const delta_gradient_args_t *args) {
  const delta_gather_attrs_t *attrs = args->node->attrs;
  if (args->wanted[0]) args->input_gradients[0] = scatter_elements_back(args, attrs->axis, delta_rule_input(args, 1));
  return DELTA_OK;
}

delta_status_t delta_gradient_topk(const delta_gradient_args_t *args) {
  const delta_topk_attrs_t *attrs = args->node->attrs;
  if (!args->wanted[0] || delta_tensor_is_none(args->output_gradients[0])) return DELTA_OK;
  args->input_gradients[0] = scatter_elements_back(args, attrs->axis, delta_rule_output(args, 1));
  return DELTA_OK;
}

// indices [batch..., lead..., k] with the batch's own coordinates put before each: [batch..., lead..., batch_dims + k], without batch dimensions.
static delta_tensor_id_t flatten_batch_indices(const delta_gradient_args_t *args, int32_t batch_dims) {
  delta_emit_t *emit = args->emit;
  const delta_tensor_id_t indices = delta_emit_cast(emit, delta_rule_input(args, 1), DELTA_DTYPE_INT64);
  if (batch_dims == 0 || !delta_emit_ok(emit)) return indices;
  delta_shape_t shape = *delta_emit_shape(emit, indices);
  const int32_t last = shape.rank - 1;
  const int64_t rows = delta_shape_count_range(&shape, 0, last), inner = delta_shape_count_range(&shape, batch_dims, last);
  shape.dims[last] = batch_dims;
  int64_t *coordinates = NULL;
  const delta_status_t status = DELTA_ALLOCATE(emit->graph->allocator, (size_t)delta_shape_count(&shape), &coordinates);
  if (status) return delta_emit_fail(emit, status);
  for (int64_t row = 0; row < rows; ++row) {
    int64_t rest = row / inner;
    for (int32_t d = batch_dims; d-- > 0; rest /= shape.dims[d]) coordinates[row * batch_dims + d] = rest % shape.dims[d];
  }
  const delta_tensor_id_t parts[2] = {delta_emit_constant(emit, DELTA_DTYPE_INT64, &shape, coordinates), indices};
  delta_release(emit->graph->allocator, coordinates);
  return delta_emit_concat(emit, parts, 2, last);
}

delta_status_t delta_gradient_gather_nd(const delta_gradient_args_t *args) {
  const delta_gather_attrs_t *attrs = args->node->attrs;
  if (!args->wanted[0]) return DELTA_OK;
  const delta_scatter_attrs_t scatter = {.kind = DELTA_SCATTER_ADD};
  const delta_tensor_id_t indices = flatten_batch_indices(args, attrs->batch_dims);
  const delta_tensor_id_t zeros = zeros_like_input(args, 0);
  args->input_gradients[0] = DELTA_EMIT(args->emit, SCATTER_ND, scatter, zeros, indices, args->output_gradients[0]);
  return DELTA_OK;
}

// Overwriting and adding have gradients. With NONE nothing flows into data that is overwritten, and, as in PyTorch, every update takes the gradient of
// the place it wrote to (of duplicate indices too).
static delta_status_t check_scatter(const delta_gradient_args_t *args, delta_scatter_kind_t kind) {
  if (kind == DELTA_SCATTER_NONE || kind == DELTA_SCATTER_ADD) return DELTA_OK;
  static const char *const names[] = {
#define DELTA_SCATTER_NAME(id, name) [DELTA_SCATTER_##id] = name,
      DELTA_SCATTER_KINDS(DELTA_SCATTER_NAME)
#undef DELTA_SCATTER_NAME
  };
  return delta_status_make(UNSUPPORTED, "node '%s': %s with reduction '%s' has no gradient; 'none' and 'add' have", args->node->name,
                           delta_core_op_info(args->node->op)->name, names[kind]);
}

static delta_status_t gradient_scatter(const delta_gradient_args_t *args, bool elements) {
  const delta_scatter_attrs_t *attrs = args->node->attrs;
  DELTA_RETURN_IF_ERROR(check_scatter(args, attrs->kind));
  delta_emit_t *emit = args->emit;
  const delta_tensor_id_t dy = args->output_gradients[0], indices = delta_rule_input(args, 1);
  if (args->wanted[2]) {
    const delta_gather_attrs_t gather = {.axis = attrs->axis};
    args->input_gradients[2] =
        elements ? DELTA_EMIT(emit, GATHER_ELEMENTS, gather, dy, indices) : DELTA_EMIT(emit, GATHER_ND, gather, dy, indices);
  }
  if (args->wanted[0] && attrs->kind == DELTA_SCATTER_ADD) args->input_gradients[0] = dy;
  if (args->wanted[0] && attrs->kind == DELTA_SCATTER_NONE) {
    const delta_tensor_id_t zeros = zeros_like_input(args, 2);
    args->input_gradients[0] = elements ? DELTA_EMIT(emit, SCATTER_ELEMENTS, *attrs, dy, indices, zeros)
                                        : DELTA_EMIT(emit, SCATTER_ND, *attrs, dy, indices, zeros);
  }
  return DELTA_OK;
}

delta_status_t delta_gradient_scatter_elements(const delta_gradient_args_t *args) { return gradient_scatter(args, true); }
delta_status_t delta_gradient_scatter_nd(const delta_gradient_args_t *args) { return gradient_scatter(args, false); }
