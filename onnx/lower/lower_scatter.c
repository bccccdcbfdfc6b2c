// Lowering of reads and writes at positions that are data.
#include "onnx/lower/lower.h"

delta_status_t delta_lower_gather_elements(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0), indices = delta_lower_required(lower, 1);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  delta_gather_attrs_t attrs = {.axis = delta_lower_axis(lower, "attribute 'axis'", delta_lower_int(lower, "axis", 0), shape.rank)};
  if (delta_emit_ok(&lower->emit)) delta_lower_check_indices(lower, 1, shape.dims[attrs.axis]);
  lower->outputs[0] = DELTA_EMIT(&lower->emit, GATHER_ELEMENTS, attrs, x, indices);
  return DELTA_OK;
}

// Known indices [..., depth] into the dimensions of `data` after `batch_dims`: each must lie inside its own dimension.
static void check_nd_indices(delta_lower_t *lower, const delta_shape_t *data, int32_t batch_dims) {
  const delta_tensor_t *indices = delta_emit_tensor(&lower->emit, delta_lower_required(lower, 1));
  int64_t depth = indices->shape.rank > 0 ? indices->shape.dims[indices->shape.rank - 1] : 0;
  if (indices->data == NULL || depth < 1 || depth > data->rank - batch_dims)
    return; // the node's inference says what is wrong with the depth
  int64_t count = delta_shape_count(&indices->shape);
  for (int64_t k = 0; k < count; ++k) {
    int64_t index = delta_element_load_int64(indices->data, indices->dtype, (size_t)k);
    int64_t dim = batch_dims + k % depth, size = data->dims[dim];
    if (index >= -size && index < size) continue;
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED,
                           "index %lld in input 1 ('%.100s') is outside dimension %lld of the data, which is %lld", (long long)index,
                           indices->name, (long long)dim, (long long)size);
    return;
  }
}

delta_status_t delta_lower_gather_nd(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0), indices = delta_lower_required(lower, 1);
  int64_t batch_dims = delta_lower_int(lower, "batch_dims", 0);
  if (batch_dims < 0 || batch_dims > DELTA_MAX_RANK) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'batch_dims' is %lld", (long long)batch_dims);
  }
  delta_gather_attrs_t attrs = {.batch_dims = (int32_t)batch_dims};
  if (delta_emit_ok(&lower->emit)) check_nd_indices(lower, delta_emit_shape(&lower->emit, x), attrs.batch_dims);
  lower->outputs[0] = DELTA_EMIT(&lower->emit, GATHER_ND, attrs, x, indices);
  return DELTA_OK;
}

static delta_scatter_kind_t scatter_kind(delta_lower_t *lower) {
  static const char *const names[] = {
#define SCATTER_NAME(id, name) name,
      DELTA_SCATTER_KINDS(SCATTER_NAME)
#undef SCATTER_NAME
  };
  const char *stated = delta_lower_string(lower, "reduction", "none");
  return (delta_scatter_kind_t)delta_lower_choice(lower, "reduction", stated, names, sizeof names / sizeof names[0]);
}

static delta_status_t emit_scatter(delta_lower_t *lower, delta_core_op_t op, const delta_scatter_attrs_t *attrs) {
  const delta_tensor_id_t inputs[3] = {delta_lower_required(lower, 0), delta_lower_required(lower, 1), delta_lower_required(lower, 2)};
  lower->outputs[0] = delta_emit_one(&lower->emit, op, attrs, sizeof *attrs, inputs, 3);
  return DELTA_OK;
}

delta_status_t delta_lower_scatter_nd(delta_lower_t *lower) {
  const delta_scatter_attrs_t attrs = {.kind = scatter_kind(lower)};
  const delta_shape_t *shape = delta_emit_shape(&lower->emit, delta_lower_required(lower, 0));
  if (delta_emit_ok(&lower->emit)) check_nd_indices(lower, shape, 0);
  return emit_scatter(lower, DELTA_CORE_SCATTER_ND, &attrs);
}

// ScatterElements, and Scatter, its first name.
delta_status_t delta_lower_scatter_elements(delta_lower_t *lower) {
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, delta_lower_required(lower, 0));
  const delta_scatter_attrs_t attrs = {.axis = delta_lower_axis(lower, "attribute 'axis'", delta_lower_int(lower, "axis", 0), shape.rank),
                                       .kind = scatter_kind(lower)};
  if (delta_emit_ok(&lower->emit)) delta_lower_check_indices(lower, 1, shape.dims[attrs.axis]);
  return emit_scatter(lower, DELTA_CORE_SCATTER_ELEMENTS, &attrs);
}
