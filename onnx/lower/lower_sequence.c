// Lowering of ReverseSequence, CumProd and Col2Im.
#include "onnx/lower/formula.h"
#include "onnx/lower/window.h"

// Each sample's first `length` elements along the time axis backwards; the rest stays.
delta_status_t delta_lower_reverse_sequence(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0), lengths = delta_lower_required(lower, 1);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  int32_t time_axis = delta_lower_axis(lower, "attribute 'time_axis'", delta_lower_int(lower, "time_axis", 0), shape.rank);
  int32_t batch_axis = delta_lower_axis(lower, "attribute 'batch_axis'", delta_lower_int(lower, "batch_axis", 1), shape.rank);
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  const delta_shape_t *found = delta_emit_shape(&lower->emit, lengths);
  if (time_axis == batch_axis || found->rank != 1 || found->dims[0] != shape.dims[batch_axis]) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the axes are %d and %d, and there are %lld lengths for %lld samples", time_axis,
                           batch_axis, (long long)delta_shape_count(found), (long long)shape.dims[batch_axis]);
    return DELTA_OK;
  }
  delta_shape_t along_batch = {.rank = shape.rank};
  for (int32_t d = 0; d < shape.rank; ++d) along_batch.dims[d] = d == batch_axis ? shape.dims[d] : 1;
  delta_tensor_id_t inputs[2];
  inputs[0] = delta_formula_positions(&lower->emit, shape.dims[time_axis], shape.rank - 1 - time_axis);
  inputs[1] = delta_emit_view(&lower->emit, lengths, &along_batch);
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, inputs, 2);
  uint16_t time = delta_formula_input(&f, 0), length = delta_formula_input(&f, 1);
  uint16_t mirrored = delta_formula_sub(&f, delta_formula_sub(&f, length, time), delta_formula_real(&f, 1.0));
  uint16_t from = delta_formula_select(&f, delta_formula_binary(&f, DELTA_EXPR_LT, time, length), mirrored, time);
  const delta_gather_attrs_t attrs = {.axis = time_axis};
  delta_tensor_id_t indices = delta_emit_expand(&lower->emit, delta_formula_emit(&f, from, DELTA_DTYPE_INT64), &shape);
  lower->outputs[0] = DELTA_EMIT(&lower->emit, GATHER_ELEMENTS, attrs, x, indices);
  return DELTA_OK;
}

// x moved by `count` places along the axis, with ones where nothing comes from.
static delta_tensor_id_t emit_moved(delta_lower_t *lower, delta_tensor_id_t x, int32_t axis, int64_t count, bool reverse) {
  delta_pad_attrs_t attrs = {.mode = DELTA_PAD_CONSTANT, .value = 1.0, .data_shape = *delta_emit_shape(&lower->emit, x)};
  attrs.begin[axis] = reverse ? -count : count;
  attrs.end[axis] = -attrs.begin[axis];
  return DELTA_EMIT(&lower->emit, PAD, attrs, x);
}

// Products of ever longer ranges: after the step of 2^k places each element is the product of the 2^(k+1) elements up to it.
delta_status_t delta_lower_cumprod(delta_lower_t *lower) {
  delta_tensor_id_t y = delta_lower_required(lower, 0);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, y);
  bool reverse = delta_lower_int(lower, "reverse", 0) != 0, exclusive = delta_lower_int(lower, "exclusive", 0) != 0;
  int64_t stated = 0;
  size_t count = 0;
  if (!delta_lower_known_ints(lower, 1, &stated, 1, &count)) return DELTA_OK;
  int32_t axis = delta_lower_axis(lower, "the axis", stated, shape.rank);
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  if (exclusive && shape.dims[axis] > 0) y = emit_moved(lower, y, axis, 1, reverse);
  for (int64_t places = 1; places < shape.dims[axis]; places *= 2) {
    y = delta_emit_binary(&lower->emit, DELTA_EXPR_MUL, y, emit_moved(lower, y, axis, places, reverse));
  }
  lower->outputs[0] = y;
  return DELTA_OK;
}

// One filter for each element of a block, with a one there: [channels * elements, 1, block...].
static delta_tensor_id_t emit_block_filters(delta_lower_t *lower, delta_dtype_t dtype, int64_t channels, const delta_window_t *window) {
  delta_shape_t shape = {.rank = window->spatial + 2};
  int64_t elements = 1;
  shape.dims[1] = 1;
  for (int32_t d = 0; d < window->spatial; ++d) {
    shape.dims[d + 2] = window->kernel[d];
    elements *= window->kernel[d]; // divides the channels of the blocks
  }
  shape.dims[0] = channels * elements;
  void *data = NULL;
  delta_status_t status = delta_shape_validate(&shape, delta_dtype_bytes(dtype), "the filters");
  if (status == DELTA_OK && (size_t)delta_shape_count(&shape) * delta_dtype_bytes(dtype) > DELTA_FOLD_LIMIT_BYTES) {
    return delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "blocks of %lld elements are too large", (long long)elements);
  }
  if (status == DELTA_OK) {
    status = delta_region_allocate(&lower->emit.graph->region, (size_t)delta_shape_count(&shape), delta_dtype_bytes(dtype), &data);
  }
  if (status) return delta_emit_fail(&lower->emit, status);
  for (int64_t k = 0; k < shape.dims[0]; ++k) delta_element_store_double(data, dtype, (size_t)(k * elements + k % elements), 1.0);
  return delta_emit_constant(&lower->emit, dtype, &shape, data);
}

// Reads image_shape, block_shape and the lists into a window over the image; false after an error. *out_outputs: number of blocks along each dimension.
static bool read_blocks(delta_lower_t *lower, delta_conv_attrs_t *attrs, int64_t *out_outputs) {
  int64_t image[DELTA_MAX_SPATIAL], block[DELTA_MAX_SPATIAL];
  size_t image_rank = 0, block_rank = 0;
  if (!delta_lower_known_ints(lower, 1, image, DELTA_MAX_SPATIAL, &image_rank)) return false;
  if (!delta_lower_known_ints(lower, 2, block, DELTA_MAX_SPATIAL, &block_rank)) return false;
  delta_shape_t shape = {.rank = (int32_t)image_rank + 2};
  for (size_t d = 0; d < image_rank; ++d) shape.dims[d + 2] = attrs->data_spatial[d] = image[d];
  if (image_rank != block_rank || image_rank < 1) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the image has %zu dimensions and the block %zu", image_rank, block_rank);
    return false;
  }
  return delta_lower_window_lists(lower, &shape, block, &attrs->window) &&
         delta_lower_window_out(lower, &attrs->window, &shape, false, out_outputs);
}

// Blocks are added where they lie in the image: the gradient of a convolution that takes the image apart.
delta_status_t delta_lower_col2im(delta_lower_t *lower) {
  delta_tensor_id_t x = delta_lower_required(lower, 0);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  delta_conv_attrs_t attrs = {.group = 1};
  int64_t outputs[DELTA_MAX_SPATIAL], elements = 1, blocks = 1;
  if (!delta_emit_ok(&lower->emit) || !read_blocks(lower, &attrs, outputs)) return DELTA_OK;
  delta_shape_t apart = {.rank = attrs.window.spatial + 2, .dims = {shape.dims[0], shape.dims[1]}};
  bool fits = shape.rank == 3;
  for (int32_t d = 0; d < attrs.window.spatial; ++d) {
    fits = fits && delta_int64_mul(elements, attrs.window.kernel[d], &elements) && delta_int64_mul(blocks, outputs[d], &blocks);
    apart.dims[d + 2] = outputs[d];
  }
  if (!fits || shape.dims[1] % elements != 0 || shape.dims[2] != blocks) {
    char text[DELTA_SHAPE_TEXT_BYTES];
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "%s is no batch of %lld blocks of %lld elements", delta_shape_text(&shape, text),
                           (long long)blocks, (long long)elements);
    return DELTA_OK;
  }
  attrs.group = shape.dims[1] / elements;
  delta_tensor_id_t filters = emit_block_filters(lower, delta_emit_dtype(&lower->emit, x), attrs.group, &attrs.window);
  lower->outputs[0] = DELTA_EMIT(&lower->emit, CONV_DATA, attrs, delta_emit_view(&lower->emit, x, &apart), filters);
  return DELTA_OK;
}
