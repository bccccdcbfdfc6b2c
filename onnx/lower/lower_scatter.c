// Lowering of reads and writes at positions that are data.
#include "onnx/lower/formula.h"
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

// The positions along `axis` at which each sample's update is written: from its write index on, around the end when the cache is circular.
static delta_tensor_id_t write_positions(delta_lower_t *lower, const delta_shape_t *update, int64_t slots, int32_t axis) {
  static const char *const modes[] = {"linear", "circular"};
  const bool circular = delta_lower_choice(lower, "mode", delta_lower_string(lower, "mode", "linear"), modes, 2) == 1;
  const delta_tensor_id_t begins = delta_lower_input(lower, 2);
  delta_tensor_id_t positions = delta_formula_positions(&lower->emit, update->dims[axis], update->rank - 1 - axis);
  if (!delta_tensor_is_none(begins)) {
    delta_shape_t by_sample = {.rank = update->rank, .dims = {update->dims[0]}};
    for (int32_t d = 1; d < by_sample.rank; ++d) by_sample.dims[d] = 1;
    const delta_tensor_id_t inputs[2] = {positions, delta_emit_view(&lower->emit, begins, &by_sample)};
    delta_formula_t f;
    delta_formula_init(&f, &lower->emit, inputs, 2);
    const uint16_t offset = delta_formula_input(&f, 0), begin = delta_formula_input(&f, 1);
    uint16_t slot = delta_formula_add(&f, begin, offset);
    if (circular) slot = delta_formula_binary(&f, DELTA_EXPR_MOD, slot, delta_expr_integer(&f.builder, slots));
    positions = delta_formula_emit(&f, slot, DELTA_DTYPE_INT64);
  }
  return delta_emit_expand(&lower->emit, positions, update);
}

// A cache [batch, ..., slots, ...] into which each sample's update [batch, ..., fewer slots, ...] is written.
delta_status_t delta_lower_tensor_scatter(delta_lower_t *lower) {
  const delta_tensor_id_t cache = delta_lower_required(lower, 0), update = delta_lower_required(lower, 1);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, cache), part = *delta_emit_shape(&lower->emit, update);
  const int32_t axis = delta_lower_axis(lower, "attribute 'axis'", delta_lower_int(lower, "axis", -2), shape.rank);
  const delta_tensor_id_t begins = delta_lower_input(lower, 2);
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  bool fits = axis > 0 && part.rank == shape.rank && part.dims[axis] <= shape.dims[axis];
  for (int32_t d = 0; fits && d < shape.rank; ++d) fits = d == axis || part.dims[d] == shape.dims[d];
  if (fits && !delta_tensor_is_none(begins)) {
    const delta_shape_t *given = delta_emit_shape(&lower->emit, begins);
    fits = given->rank == 1 && given->dims[0] == shape.dims[0];
  }
  if (!fits) {
    char whole[DELTA_SHAPE_TEXT_BYTES], text[DELTA_SHAPE_TEXT_BYTES];
    (void)delta_lower_fail(
        lower, DELTA_STATUS_MALFORMED,
        "an update of shape %s along axis %d of %s: all else must agree, the axis must not be the batch, and there must be one "
        "write index for each sample",
        delta_shape_text(&part, text), axis, delta_shape_text(&shape, whole));
    return DELTA_OK;
  }
  const delta_scatter_attrs_t attrs = {.axis = axis, .kind = DELTA_SCATTER_NONE};
  const delta_tensor_id_t positions = write_positions(lower, &part, shape.dims[axis], axis);
  lower->outputs[0] = DELTA_EMIT(&lower->emit, SCATTER_ELEMENTS, attrs, cache, positions, update);
  return DELTA_OK;
}
