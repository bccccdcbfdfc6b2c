// Inference of what works on elements one by one, or reduces them: constants, views, pointwise, reductions, softmax, random numbers.
#include <inttypes.h>
#include <math.h>

#include "onnx/graph/each.h"
#include "onnx/graph/infer.h"

static delta_status_t check_dtype(const char *name, delta_dtype_t dtype) {
  if ((unsigned)dtype < DELTA_DTYPE_COUNT) return DELTA_OK;
  return delta_status_make(INTERNAL, "%s is unknown type %d", name, (int)dtype);
}

delta_status_t delta_infer_constant(const delta_infer_args_t *args) {
  const delta_constant_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_constant_attrs_t);
  DELTA_RETURN_IF_ERROR(check_dtype("dtype", attrs->dtype));
  if (attrs->data == NULL) return delta_status_make(INTERNAL, "a constant without data");
  delta_infer_set(args, 0, attrs->dtype, &attrs->shape);
  return DELTA_OK;
}

delta_status_t delta_infer_view(const delta_infer_args_t *args) {
  const delta_view_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_view_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&attrs->shape, delta_dtype_bytes(x->dtype), "shape"));
  if (delta_shape_count(&attrs->shape) != delta_shape_count(&x->shape)) {
    char found[DELTA_SHAPE_TEXT_BYTES], wanted[DELTA_SHAPE_TEXT_BYTES];
    return delta_status_make(MALFORMED, "shape %s has another number of elements than the input's %s",
                             delta_shape_text(&attrs->shape, wanted), delta_shape_text(&x->shape, found));
  }
  delta_infer_set(args, 0, x->dtype, &attrs->shape);
  return DELTA_OK;
}

// What POINTWISE and REDUCE share: an expression over inputs that broadcast to one shape.
static delta_status_t check_expression(const delta_infer_args_t *args, const delta_expr_t *expr, const delta_shape_t *shape,
                                       const delta_dtype_t *dtypes) {
  DELTA_RETURN_IF_ERROR(delta_expr_validate(expr));
  DELTA_RETURN_IF_ERROR(delta_shape_validate(shape, sizeof(double), "shape"));
  if (expr->input_count != args->node->input_count || expr->output_count != args->node->output_count) {
    return delta_status_make(INTERNAL, "the expression has %u inputs and %u outputs, the node %" PRIu32 " and %" PRIu32, expr->input_count,
                             expr->output_count, args->node->input_count, args->node->output_count);
  }
  for (uint32_t k = 0; k < args->node->output_count; ++k) DELTA_RETURN_IF_ERROR(check_dtype("output type", dtypes[k]));
  for (uint32_t k = 0; k < args->node->input_count; ++k) {
    const delta_tensor_t *x = delta_infer_input(args, k);
    delta_shape_t joined;
    if (!delta_shape_broadcast(&x->shape, shape, &joined) || !delta_shape_equal(&joined, shape)) {
      char found[DELTA_SHAPE_TEXT_BYTES], wanted[DELTA_SHAPE_TEXT_BYTES];
      return delta_status_make(MALFORMED, "input '%s' of shape %s does not broadcast to %s", x->name, delta_shape_text(&x->shape, found),
                               delta_shape_text(shape, wanted));
    }
  }
  return DELTA_OK;
}

delta_status_t delta_infer_pointwise(const delta_infer_args_t *args) {
  const delta_pointwise_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_pointwise_attrs_t);
  DELTA_RETURN_IF_ERROR(check_expression(args, &attrs->expr, &attrs->shape, attrs->dtypes));
  for (uint32_t k = 0; k < args->node->output_count; ++k) delta_infer_set(args, k, attrs->dtypes[k], &attrs->shape);
  return DELTA_OK;
}

// One set: its own inputs have one shape, which is its outputs', shared ones a single element.
static delta_status_t infer_set(const delta_infer_args_t *args, uint32_t set) {
  const delta_each_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_each_attrs_t);
  const delta_tensor_t *own = NULL;
  for (uint32_t k = 0; k < attrs->expr.input_count; ++k) {
    const delta_tensor_t *x = delta_infer_input(args, delta_each_input(attrs, set, k));
    const bool is_shared = attrs->shared >> k & 1;
    if (is_shared && x->shape.rank != 0) return delta_status_make(INTERNAL, "shared input '%s' is no scalar", x->name);
    if (!is_shared && own) DELTA_RETURN_IF_ERROR(delta_infer_same_shape(x->name, &x->shape, &own->shape));
    if (!is_shared) own = x;
  }
  for (uint32_t k = 0; k < attrs->expr.output_count; ++k) {
    delta_infer_set(args, set * attrs->expr.output_count + k, attrs->dtypes[k], &own->shape);
  }
  return DELTA_OK;
}

delta_status_t delta_infer_each(const delta_infer_args_t *args) {
  const delta_each_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_each_attrs_t);
  const delta_expr_t *expr = &attrs->expr;
  DELTA_RETURN_IF_ERROR(delta_expr_validate(expr));
  const uint32_t all = (UINT32_C(1) << expr->input_count) - 1;
  const bool has_own = attrs->shared <= all && attrs->shared != all;
  if (attrs->count == 0 || attrs->count > UINT16_MAX || !has_own || args->node->output_count != attrs->count * expr->output_count ||
      args->node->input_count != delta_each_input_count(attrs)) {
    return delta_status_make(INTERNAL, "%" PRIu32 " inputs and %" PRIu32 " outputs are not those of %" PRIu32 " sets",
                             args->node->input_count, args->node->output_count, attrs->count);
  }
  for (uint16_t k = 0; k < expr->output_count; ++k) DELTA_RETURN_IF_ERROR(check_dtype("output type", attrs->dtypes[k]));
  for (uint32_t set = 0; set < attrs->count; ++set) DELTA_RETURN_IF_ERROR(infer_set(args, set));
  return DELTA_OK;
}

static delta_shape_t reduced_shape(const delta_shape_t *shape, uint32_t axes) {
  delta_shape_t reduced = *shape;
  for (int32_t d = 0; d < shape->rank; ++d) {
    if (axes >> d & 1) reduced.dims[d] = 1;
  }
  return reduced;
}

delta_status_t delta_infer_reduce(const delta_infer_args_t *args) {
  const delta_reduce_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_reduce_attrs_t);
  DELTA_RETURN_IF_ERROR(check_expression(args, &attrs->expr, &attrs->shape, attrs->dtypes));
  DELTA_RETURN_IF_ERROR(delta_infer_axes("axes", attrs->axes, attrs->shape.rank));
  const delta_shape_t shape = reduced_shape(&attrs->shape, attrs->axes);
  for (uint32_t k = 0; k < args->node->output_count; ++k) {
    if ((unsigned)attrs->kinds[k] > DELTA_REDUCE_PROD) return delta_status_make(INTERNAL, "unknown reduction %d", (int)attrs->kinds[k]);
    delta_infer_set(args, k, attrs->dtypes[k], &shape);
  }
  return DELTA_OK;
}

delta_status_t delta_infer_moments(const delta_infer_args_t *args) {
  const delta_moments_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_moments_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(delta_infer_float("input", x));
  DELTA_RETURN_IF_ERROR(delta_infer_axes("axes", attrs->axes, x->shape.rank));
  const delta_shape_t shape = reduced_shape(&x->shape, attrs->axes);
  delta_infer_set(args, 0, x->dtype, &shape);
  delta_infer_set(args, 1, x->dtype, &shape);
  return DELTA_OK;
}

delta_status_t delta_infer_arg_reduce(const delta_infer_args_t *args) {
  const delta_arg_reduce_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_arg_reduce_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(delta_infer_axis("axis", attrs->axis, x->shape.rank));
  const delta_shape_t shape = reduced_shape(&x->shape, UINT32_C(1) << attrs->axis);
  if (x->shape.dims[attrs->axis] == 0 && delta_shape_count(&shape) != 0) {
    return delta_status_make(MALFORMED, "axis %" PRId32 " has no elements to choose from", attrs->axis);
  }
  delta_infer_set(args, 0, DELTA_DTYPE_INT64, &shape);
  return DELTA_OK;
}

// SOFTMAX_GRAD has the output's gradient and the output, of one type and shape.
static delta_status_t infer_softmax(const delta_infer_args_t *args) {
  const delta_softmax_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_softmax_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(delta_infer_float("input", x));
  DELTA_RETURN_IF_ERROR(delta_infer_axis("axis", attrs->axis, x->shape.rank));
  for (uint32_t k = 1; k < args->node->input_count; ++k) {
    const delta_tensor_t *other = delta_infer_input(args, k);
    DELTA_RETURN_IF_ERROR(delta_infer_same_type("input", other, x->dtype));
    DELTA_RETURN_IF_ERROR(delta_infer_same_shape("input", &other->shape, &x->shape));
  }
  delta_infer_set(args, 0, x->dtype, &x->shape);
  return DELTA_OK;
}
delta_status_t delta_infer_softmax(const delta_infer_args_t *args) { return infer_softmax(args); }
delta_status_t delta_infer_softmax_grad(const delta_infer_args_t *args) { return infer_softmax(args); }

delta_status_t delta_infer_stream(const delta_infer_args_t *args, uint32_t first) {
  for (uint32_t k = first; k < first + 2; ++k) {
    const delta_tensor_t *key = delta_infer_input(args, k);
    if (key->dtype != DELTA_DTYPE_INT64 || delta_shape_count(&key->shape) != 1) {
      return delta_status_make(INTERNAL, "'%s' must be one int64", key->name);
    }
  }
  return DELTA_OK;
}

delta_status_t delta_infer_dropout(const delta_infer_args_t *args) {
  const delta_dropout_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_dropout_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(delta_infer_float("input", x));
  DELTA_RETURN_IF_ERROR(delta_infer_stream(args, 1));
  if (!(attrs->ratio >= 0 && attrs->ratio <= 1)) {
    return delta_status_make(MALFORMED, "ratio is %g; it must be from 0 to 1", attrs->ratio);
  }
  delta_infer_set(args, 0, x->dtype, &x->shape);
  delta_infer_set(args, 1, DELTA_DTYPE_BOOL, &x->shape);
  return DELTA_OK;
}

delta_status_t delta_infer_random(const delta_infer_args_t *args) {
  const delta_random_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_random_attrs_t);
  DELTA_RETURN_IF_ERROR(delta_infer_stream(args, 0));
  DELTA_RETURN_IF_ERROR(check_dtype("dtype", attrs->dtype));
  if (!isfinite(attrs->low) || !isfinite(attrs->high) || (attrs->normal ? attrs->high < 0 : attrs->high < attrs->low)) {
    return delta_status_make(MALFORMED, "%s are %g and %g", attrs->normal ? "mean and standard deviation" : "low and high", attrs->low,
                             attrs->high);
  }
  delta_infer_set(args, 0, attrs->dtype, &attrs->shape);
  return DELTA_OK;
}
