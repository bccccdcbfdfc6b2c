// Lowering of pooling: max and average over windows, or over all of the spatial dimensions.
#include "onnx/lower/window.h"

// Largest number of elements of a window whose index fits the byte that the lever keeps.
enum { WINDOW_INDEX_LIMIT = 255 };

// Fills window and sizes. A window that lies in the padding alone would have no value.
static bool read_pool(delta_lower_t *lower, delta_pool_attrs_t *attrs) {
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, delta_lower_required(lower, 0));
  bool ceil_mode = delta_lower_int(lower, "ceil_mode", 0) != 0;
  if (!delta_lower_window(lower, &shape, NULL, &attrs->window)) return false;
  for (int32_t d = 0; d < attrs->window.spatial; ++d) {
    int64_t pads = attrs->window.pads_begin[d] > attrs->window.pads_end[d] ? attrs->window.pads_begin[d] : attrs->window.pads_end[d];
    attrs->data_spatial[d] = shape.dims[d + 2];
    if ((pads - 1) / attrs->window.dilations[d] < attrs->window.kernel[d] - 1 || pads == 0) continue;
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED,
                           "spatial dimension %d: a pad of %lld holds a whole window of %lld with dilation %lld", d, (long long)pads,
                           (long long)attrs->window.kernel[d], (long long)attrs->window.dilations[d]);
    return false;
  }
  return delta_lower_window_out(lower, &attrs->window, &shape, ceil_mode, attrs->out_spatial);
}

// What the second output of a max pool holds. The byte form is Delta's own; ONNX's Indices are positions in the whole input.
static delta_pool_index_t choose_index(const delta_lower_t *lower, const delta_window_t *window, bool column_major) {
  bool exported = delta_lower_output_wanted(lower, 1);
  int64_t elements = 1;
  bool small = true;
  for (int32_t d = 0; d < window->spatial; ++d) small = small && delta_int64_mul(elements, window->kernel[d], &elements);
  small = small && elements <= WINDOW_INDEX_LIMIT;
  if (!exported && small && delta_lever_is_on(lower->options->levers, DELTA_LEVER_POOL_INDEX)) return DELTA_POOL_INDEX_WINDOW;
  return exported && column_major ? DELTA_POOL_INDEX_FLAT_COLUMN : DELTA_POOL_INDEX_FLAT;
}

delta_status_t delta_lower_max_pool(delta_lower_t *lower) {
  delta_pool_attrs_t attrs = {.count_include_pad = false};
  if (!read_pool(lower, &attrs)) return DELTA_OK;
  attrs.index = choose_index(lower, &attrs.window, delta_lower_int(lower, "storage_order", 0) != 0);
  // A training program keeps the index for the gradient; column-major positions are made for the file's own use alone.
  bool exported = delta_lower_output_wanted(lower, 1);
  bool keeps_index = exported || (lower->training && !lower->options->as_exported);
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  delta_tensor_id_t outputs[2] = {DELTA_TENSOR_NONE, DELTA_TENSOR_NONE};
  delta_emit_node(&lower->emit, DELTA_CORE_MAX_POOL, &attrs, sizeof attrs, &x, 1, outputs, 2, keeps_index ? 3 : 1);
  lower->outputs[0] = outputs[0];
  if (exported) lower->outputs[1] = outputs[1];
  return DELTA_OK;
}

delta_status_t delta_lower_average_pool(delta_lower_t *lower) {
  delta_pool_attrs_t attrs = {.count_include_pad = delta_lower_int(lower, "count_include_pad", 0) != 0};
  if (!read_pool(lower, &attrs)) return DELTA_OK;
  lower->outputs[0] = DELTA_EMIT(&lower->emit, AVERAGE_POOL, attrs, lower->inputs[0]);
  return DELTA_OK;
}

static delta_status_t lower_global_pool(delta_lower_t *lower, delta_reduce_kind_t kind) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  int32_t rank = delta_emit_shape(&lower->emit, x)->rank;
  if (delta_emit_ok(&lower->emit) && rank < 2) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the input has rank %d; batch and channels are required", rank);
  }
  uint32_t spatial = (1u << rank) - 1u;
  lower->outputs[0] = delta_emit_reduce(&lower->emit, kind, x, spatial & ~3u);
  return DELTA_OK;
}

delta_status_t delta_lower_global_average_pool(delta_lower_t *lower) { return lower_global_pool(lower, DELTA_REDUCE_MEAN); }
delta_status_t delta_lower_global_max_pool(delta_lower_t *lower) { return lower_global_pool(lower, DELTA_REDUCE_MAX); }
