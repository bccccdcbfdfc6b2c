// Inference of attention.
#include <inttypes.h>

#include "onnx/graph/attention_dims.h"
#include "onnx/graph/infer.h"

// Keys or values: as the queries but for the number of rows, and values for their width.
static delta_status_t check_operand(const char *name, const delta_attention_attrs_t *attrs, const delta_tensor_t *operand,
                                    const delta_tensor_t *query, int64_t width) {
  DELTA_RETURN_IF_ERROR(delta_infer_same_type(name, operand, query->dtype));
  const int32_t rank = query->shape.rank, sequence = attrs->heads_inside ? rank - 3 : rank - 2;
  delta_shape_t wanted = query->shape;
  wanted.dims[rank - 1] = width;
  if (operand->shape.rank == rank) wanted.dims[sequence] = operand->shape.dims[sequence];
  return delta_infer_same_shape(name, &operand->shape, &wanted);
}

static delta_status_t check_mask(const delta_tensor_t *mask, const delta_tensor_t *query, const delta_shape_t *scores) {
  if (!mask) return DELTA_OK;
  delta_shape_t joined;
  DELTA_RETURN_IF_ERROR(delta_infer_same_type("mask", mask, query->dtype));
  if (delta_shape_broadcast(&mask->shape, scores, &joined) && delta_shape_equal(&joined, scores)) return DELTA_OK;
  char found[DELTA_SHAPE_TEXT_BYTES], wanted[DELTA_SHAPE_TEXT_BYTES];
  return delta_status_make(MALFORMED, "the mask of shape %s does not broadcast to the scores' %s", delta_shape_text(&mask->shape, found),
                           delta_shape_text(scores, wanted));
}

static delta_status_t check_dropout(const delta_infer_args_t *args, const delta_attention_attrs_t *attrs, uint32_t seed) {
  if (!(attrs->ratio >= 0.0 && attrs->ratio <= 1.0)) {
    return delta_status_make(MALFORMED, "ratio is %g; 0 to 1 is wanted", attrs->ratio);
  }
  const bool has_seed = delta_infer_input(args, seed) != NULL, has_draw = delta_infer_input(args, seed + 1) != NULL;
  if (has_seed != has_draw || (!has_seed && attrs->ratio != 0.0)) return delta_status_make(INTERNAL, "dropout needs a seed and a draw");
  return has_seed ? delta_infer_stream(args, seed) : DELTA_OK;
}

// Checks what both operators read; `first` is the queries' input.
static delta_status_t check_inputs(const delta_infer_args_t *args, uint32_t first, delta_attention_dims_t *out_dims) {
  const delta_attention_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_attention_attrs_t);
  const delta_tensor_t *query = delta_infer_input(args, first + DELTA_ATTENTION_QUERY),
                       *key = delta_infer_input(args, first + DELTA_ATTENTION_KEY),
                       *value = delta_infer_input(args, first + DELTA_ATTENTION_VALUE);
  const int32_t rank = query->shape.rank, least = attrs->heads_inside ? 3 : 2;
  DELTA_RETURN_IF_ERROR(delta_infer_float("queries", query));
  if (rank < least) return delta_status_make(MALFORMED, "queries of rank %" PRId32 "; at least rank %" PRId32 " is wanted", rank, least);
  if (value->shape.rank != rank) return delta_infer_same_shape("values", &value->shape, &query->shape);
  DELTA_RETURN_IF_ERROR(check_operand("keys", attrs, key, query, query->shape.dims[rank - 1]));
  DELTA_RETURN_IF_ERROR(check_operand("values", attrs, value, key, value->shape.dims[rank - 1]));
  *out_dims = delta_attention_dims(attrs, &query->shape, &key->shape, &value->shape);
  if (value->shape.dims[attrs->heads_inside ? rank - 3 : rank - 2] != out_dims->keys) {
    return delta_status_make(MALFORMED, "there are %" PRId64 " keys, and another number of values", out_dims->keys);
  }
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&out_dims->scores, sizeof(double), "scores"));
  DELTA_RETURN_IF_ERROR(check_mask(delta_infer_input(args, first + DELTA_ATTENTION_MASK), query, &out_dims->scores));
  return check_dropout(args, attrs, first + DELTA_ATTENTION_SEED);
}

static delta_shape_t result_shape(const delta_attention_dims_t *dims, const delta_shape_t *query) {
  delta_shape_t shape = *query;
  shape.dims[shape.rank - 1] = dims->value_size;
  return shape;
}

// One number a row of scores.
static delta_shape_t row_shape(const delta_attention_dims_t *dims) {
  delta_shape_t shape = dims->scores;
  shape.dims[--shape.rank] = 0;
  return shape;
}

delta_status_t delta_infer_attention(const delta_infer_args_t *args) {
  delta_attention_dims_t dims = {0};
  DELTA_RETURN_IF_ERROR(check_inputs(args, 0, &dims));
  const delta_tensor_t *query = delta_infer_input(args, DELTA_ATTENTION_QUERY);
  const delta_shape_t result = result_shape(&dims, &query->shape), rows = row_shape(&dims);
  delta_infer_set(args, 0, query->dtype, &result);
  if (args->node->output_count > 1) delta_infer_set(args, 1, query->dtype, &rows);
  return DELTA_OK;
}

delta_status_t delta_infer_attention_grad(const delta_infer_args_t *args) {
  enum { FIRST = DELTA_ATTENTION_GRAD_INPUTS };
  delta_attention_dims_t dims = {0};
  DELTA_RETURN_IF_ERROR(check_inputs(args, FIRST, &dims));
  const delta_tensor_t *query = delta_infer_input(args, FIRST + DELTA_ATTENTION_QUERY),
                       *mask = delta_infer_input(args, FIRST + DELTA_ATTENTION_MASK);
  const delta_shape_t result = result_shape(&dims, &query->shape), rows = row_shape(&dims);
  static const char *const names[FIRST] = {"gradient", "result", "log_sum"};
  for (uint32_t k = 0; k < FIRST; ++k) {
    const delta_tensor_t *given = delta_infer_input(args, k);
    DELTA_RETURN_IF_ERROR(delta_infer_same_type(names[k], given, query->dtype));
    DELTA_RETURN_IF_ERROR(delta_infer_same_shape(names[k], &given->shape, k == DELTA_ATTENTION_GRAD_LOG_SUM ? &rows : &result));
  }
  for (uint32_t k = 0; k < 3; ++k) delta_infer_set(args, k, query->dtype, &delta_infer_input(args, FIRST + k)->shape);
  if (args->node->output_count < 4) return DELTA_OK;
  if (!mask) return delta_status_make(INTERNAL, "there is no mask whose gradient could be wanted");
  delta_infer_set(args, 3, query->dtype, &mask->shape);
  return DELTA_OK;
}
