// Inference of what slides a window over spatial dimensions, and of matrix products: matmul, convolutions, pooling.
#include <inttypes.h>

#include "onnx/graph/infer.h"

delta_status_t delta_infer_matmul(const delta_infer_args_t *args) {
  const delta_matmul_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_matmul_attrs_t);
  const delta_tensor_t *a = delta_infer_input(args, 0), *b = delta_infer_input(args, 1);
  DELTA_RETURN_IF_ERROR(delta_infer_same_type("input", b, a->dtype));
  if (a->dtype == DELTA_DTYPE_BOOL) return delta_status_make(UNSUPPORTED, "a product of bool matrices");
  char a_text[DELTA_SHAPE_TEXT_BYTES], b_text[DELTA_SHAPE_TEXT_BYTES];
  const int32_t a_rank = a->shape.rank, b_rank = b->shape.rank;
  if (a_rank < 2 || b_rank < 2) {
    return delta_status_make(MALFORMED, "shapes %s and %s: both need two dimensions or more", delta_shape_text(&a->shape, a_text),
                             delta_shape_text(&b->shape, b_text));
  }
  const int64_t m = a->shape.dims[a_rank - (attrs->transpose_a ? 1 : 2)], a_depth = a->shape.dims[a_rank - (attrs->transpose_a ? 2 : 1)];
  const int64_t n = b->shape.dims[b_rank - (attrs->transpose_b ? 2 : 1)], b_depth = b->shape.dims[b_rank - (attrs->transpose_b ? 1 : 2)];
  delta_shape_t a_lead = a->shape, b_lead = b->shape, shape;
  a_lead.rank -= 2;
  b_lead.rank -= 2;
  if (a_depth != b_depth || !delta_shape_broadcast(&a_lead, &b_lead, &shape)) {
    return delta_status_make(MALFORMED, "shapes %s%s and %s%s do not multiply", delta_shape_text(&a->shape, a_text),
                             attrs->transpose_a ? " (transposed)" : "", delta_shape_text(&b->shape, b_text),
                             attrs->transpose_b ? " (transposed)" : "");
  }
  shape.dims[shape.rank++] = m;
  shape.dims[shape.rank++] = n;
  const delta_tensor_t *added = delta_infer_input(args, 2);
  if (added) {
    DELTA_RETURN_IF_ERROR(delta_infer_same_type("what is added", added, a->dtype));
    DELTA_RETURN_IF_ERROR(delta_infer_same_shape("what is added", &added->shape, &shape));
  }
  const delta_tensor_t *bias = delta_infer_input(args, 3);
  if (bias) {
    DELTA_RETURN_IF_ERROR(delta_infer_same_type("bias", bias, a->dtype));
    DELTA_RETURN_IF_ERROR(delta_infer_same_shape("bias", &bias->shape, &(delta_shape_t){.rank = 1, .dims = {n}}));
  }
  delta_infer_set(args, 0, a->dtype, &shape);
  return DELTA_OK;
}

// Extent of a dilated kernel: (kernel - 1) * dilation + 1.
static bool kernel_extent(const delta_window_t *window, int32_t d, int64_t *out_extent) {
  return delta_int64_mul(window->kernel[d] - 1, window->dilations[d], out_extent) && delta_int64_add(*out_extent, 1, out_extent);
}

static bool padded_extent(const delta_window_t *window, int32_t d, int64_t size, int64_t *out_extent) {
  return delta_int64_add(size, window->pads_begin[d], out_extent) && delta_int64_add(*out_extent, window->pads_end[d], out_extent);
}

static delta_status_t check_window(const delta_window_t *window, const delta_shape_t *data) {
  if (window->spatial < 1 || window->spatial > DELTA_MAX_SPATIAL || data->rank != window->spatial + 2) {
    return delta_status_make(UNSUPPORTED, "%" PRId32 " spatial dimensions with an input of rank %" PRId32 "; 1 to %d are supported",
                             window->spatial, data->rank, DELTA_MAX_SPATIAL);
  }
  for (int32_t d = 0; d < window->spatial; ++d) {
    int64_t extent;
    if (window->kernel[d] < 1 || window->strides[d] < 1 || window->dilations[d] < 1 || window->pads_begin[d] < 0 ||
        window->pads_end[d] < 0 || !kernel_extent(window, d, &extent)) {
      return delta_status_make(MALFORMED,
                               "spatial dimension %" PRId32 ": kernel %" PRId64 ", stride %" PRId64 ", dilation %" PRId64 ", pads %" PRId64
                               " and %" PRId64 " make no window",
                               d, window->kernel[d], window->strides[d], window->dilations[d], window->pads_begin[d], window->pads_end[d]);
    }
  }
  return DELTA_OK;
}

// The output size of a convolution along each spatial dimension.
static delta_status_t conv_out_spatial(const delta_window_t *window, const int64_t *data_spatial, int64_t *out_spatial) {
  for (int32_t d = 0; d < window->spatial; ++d) {
    int64_t extent = 0, padded = 0;
    if (data_spatial[d] < 0 || !kernel_extent(window, d, &extent) || !padded_extent(window, d, data_spatial[d], &padded) ||
        padded < extent) {
      return delta_status_make(MALFORMED,
                               "spatial dimension %" PRId32 ": a kernel of %" PRId64 " with dilation %" PRId64 " is larger than %" PRId64
                               " elements with pads %" PRId64 " and %" PRId64,
                               d, window->kernel[d], window->dilations[d], data_spatial[d], window->pads_begin[d], window->pads_end[d]);
    }
    out_spatial[d] = (padded - extent) / window->strides[d] + 1;
  }
  return DELTA_OK;
}

static delta_shape_t spatial_shape(int64_t batch, int64_t channels, const int64_t *spatial, int32_t count) {
  delta_shape_t shape = {.rank = count + 2, .dims = {batch, channels}};
  for (int32_t d = 0; d < count; ++d) shape.dims[d + 2] = spatial[d];
  return shape;
}

static delta_status_t check_groups(int64_t group, int64_t channels, int64_t filters) {
  if (group >= 1 && channels % group == 0 && filters % group == 0) return DELTA_OK;
  return delta_status_make(MALFORMED, "group is %" PRId64 "; it must divide the %" PRId64 " input and %" PRId64 " output channels", group,
                           channels, filters);
}

static delta_status_t check_bias(const delta_infer_args_t *args, int64_t channels, delta_dtype_t dtype) {
  const delta_tensor_t *bias = delta_infer_input(args, 2);
  if (bias == NULL) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_infer_same_type("bias", bias, dtype));
  return delta_infer_same_shape("bias", &bias->shape, &(delta_shape_t){.rank = 1, .dims = {channels}});
}

delta_status_t delta_infer_conv(const delta_infer_args_t *args) {
  const delta_conv_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_conv_attrs_t);
  const delta_window_t *window = &attrs->window;
  const delta_tensor_t *x = delta_infer_input(args, 0), *w = delta_infer_input(args, 1);
  DELTA_RETURN_IF_ERROR(delta_infer_float("input", x));
  DELTA_RETURN_IF_ERROR(delta_infer_same_type("weight", w, x->dtype));
  DELTA_RETURN_IF_ERROR(check_window(window, &x->shape));
  const int64_t batch = x->shape.dims[0], channels = x->shape.dims[1], filters = w->shape.dims[0];
  DELTA_RETURN_IF_ERROR(check_groups(attrs->group, channels, filters));
  const delta_shape_t weight = spatial_shape(filters, channels / attrs->group, window->kernel, window->spatial);
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("weight", &w->shape, &weight));
  DELTA_RETURN_IF_ERROR(check_bias(args, filters, x->dtype));
  const delta_shape_t data = spatial_shape(batch, channels, attrs->data_spatial, window->spatial);
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("input", &x->shape, &data));
  int64_t out_spatial[DELTA_MAX_SPATIAL];
  DELTA_RETURN_IF_ERROR(conv_out_spatial(window, attrs->data_spatial, out_spatial));
  const delta_shape_t shape = spatial_shape(batch, filters, out_spatial, window->spatial);
  delta_infer_set(args, 0, x->dtype, &shape);
  return DELTA_OK;
}

delta_status_t delta_infer_conv_data(const delta_infer_args_t *args) {
  const delta_conv_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_conv_attrs_t);
  const delta_window_t *window = &attrs->window;
  const delta_tensor_t *dy = delta_infer_input(args, 0), *w = delta_infer_input(args, 1);
  DELTA_RETURN_IF_ERROR(delta_infer_float("input", dy));
  DELTA_RETURN_IF_ERROR(delta_infer_same_type("weight", w, dy->dtype));
  DELTA_RETURN_IF_ERROR(check_window(window, &dy->shape));
  const int64_t batch = dy->shape.dims[0], filters = dy->shape.dims[1];
  int64_t channels = 0;
  if (w->shape.rank != window->spatial + 2 || !delta_int64_mul(w->shape.dims[1], attrs->group, &channels)) {
    return delta_status_make(MALFORMED, "the weight's rank is %" PRId32 " and group is %" PRId64, w->shape.rank, attrs->group);
  }
  DELTA_RETURN_IF_ERROR(check_groups(attrs->group, channels, filters));
  const delta_shape_t weight = spatial_shape(filters, w->shape.dims[1], window->kernel, window->spatial);
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("weight", &w->shape, &weight));
  DELTA_RETURN_IF_ERROR(check_bias(args, channels, dy->dtype));
  int64_t out_spatial[DELTA_MAX_SPATIAL];
  DELTA_RETURN_IF_ERROR(conv_out_spatial(window, attrs->data_spatial, out_spatial));
  const delta_shape_t wanted = spatial_shape(batch, filters, out_spatial, window->spatial);
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("input", &dy->shape, &wanted));
  const delta_shape_t shape = spatial_shape(batch, channels, attrs->data_spatial, window->spatial);
  delta_infer_set(args, 0, dy->dtype, &shape);
  return DELTA_OK;
}

delta_status_t delta_infer_conv_weight(const delta_infer_args_t *args) {
  const delta_conv_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_conv_attrs_t);
  const delta_window_t *window = &attrs->window;
  const delta_tensor_t *x = delta_infer_input(args, 0), *dy = delta_infer_input(args, 1);
  DELTA_RETURN_IF_ERROR(delta_infer_float("input", x));
  DELTA_RETURN_IF_ERROR(delta_infer_same_type("gradient", dy, x->dtype));
  DELTA_RETURN_IF_ERROR(check_window(window, &x->shape));
  const int64_t batch = x->shape.dims[0], channels = x->shape.dims[1], filters = dy->shape.dims[1];
  DELTA_RETURN_IF_ERROR(check_groups(attrs->group, channels, filters));
  const delta_shape_t data = spatial_shape(batch, channels, attrs->data_spatial, window->spatial);
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("input", &x->shape, &data));
  int64_t out_spatial[DELTA_MAX_SPATIAL];
  DELTA_RETURN_IF_ERROR(conv_out_spatial(window, attrs->data_spatial, out_spatial));
  const delta_shape_t wanted = spatial_shape(batch, filters, out_spatial, window->spatial);
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("gradient", &dy->shape, &wanted));
  const delta_shape_t shape = spatial_shape(filters, channels / attrs->group, window->kernel, window->spatial);
  delta_infer_set(args, 0, x->dtype, &shape);
  return DELTA_OK;
}

static delta_status_t index_dtype(const delta_pool_attrs_t *attrs, delta_dtype_t *out_dtype) {
  *out_dtype = attrs->index == DELTA_POOL_INDEX_WINDOW ? DELTA_DTYPE_UINT8 : DELTA_DTYPE_INT64;
  if (attrs->index != DELTA_POOL_INDEX_WINDOW) return DELTA_OK;
  int64_t elements = 1;
  for (int32_t d = 0; d < attrs->window.spatial; ++d) {
    if (!delta_int64_mul(elements, attrs->window.kernel[d], &elements) || elements > UINT8_MAX) {
      return delta_status_make(UNSUPPORTED, "a window of more than %d elements has no one-byte index", UINT8_MAX);
    }
  }
  return DELTA_OK;
}

// The window fits x's dimensions, and every window begins inside the padded input.
static delta_status_t check_pool(const delta_pool_attrs_t *attrs, const delta_shape_t *shape) {
  const delta_window_t *window = &attrs->window;
  DELTA_RETURN_IF_ERROR(check_window(window, shape));
  for (int32_t d = 0; d < window->spatial; ++d) {
    int64_t last_begin = 0, padded = 0;
    if (attrs->data_spatial[d] < 0 || attrs->out_spatial[d] < 0 || !padded_extent(window, d, attrs->data_spatial[d], &padded) ||
        !delta_int64_mul(attrs->out_spatial[d] - 1, window->strides[d], &last_begin) || last_begin >= padded) {
      return delta_status_make(MALFORMED,
                               "spatial dimension %" PRId32 ": %" PRId64 " windows with stride %" PRId64 " do not begin inside %" PRId64
                               " elements with pads %" PRId64 " and %" PRId64,
                               d, attrs->out_spatial[d], window->strides[d], attrs->data_spatial[d], window->pads_begin[d],
                               window->pads_end[d]);
    }
  }
  return DELTA_OK;
}

// Forward: input 0 has the data's spatial dimensions and output 0 the windows'; backward the other way round.
static delta_status_t infer_pool(const delta_infer_args_t *args, bool backward) {
  const delta_pool_attrs_t *attrs = DELTA_INFER_ATTRS(args, delta_pool_attrs_t);
  const delta_tensor_t *x = delta_infer_input(args, 0);
  DELTA_RETURN_IF_ERROR(delta_infer_float("input", x));
  DELTA_RETURN_IF_ERROR(check_pool(attrs, &x->shape));
  const int64_t *from = backward ? attrs->out_spatial : attrs->data_spatial, *to = backward ? attrs->data_spatial : attrs->out_spatial;
  const delta_shape_t wanted = spatial_shape(x->shape.dims[0], x->shape.dims[1], from, attrs->window.spatial);
  DELTA_RETURN_IF_ERROR(delta_infer_same_shape("input", &x->shape, &wanted));
  const delta_shape_t shape = spatial_shape(x->shape.dims[0], x->shape.dims[1], to, attrs->window.spatial);
  delta_infer_set(args, 0, x->dtype, &shape);
  return DELTA_OK;
}

delta_status_t delta_infer_max_pool(const delta_infer_args_t *args) {
  DELTA_RETURN_IF_ERROR(infer_pool(args, false));
  if (args->node->output_count == 1) return DELTA_OK;
  delta_dtype_t dtype;
  DELTA_RETURN_IF_ERROR(index_dtype(DELTA_INFER_ATTRS(args, delta_pool_attrs_t), &dtype));
  const delta_shape_t shape = args->shapes[0];
  delta_infer_set(args, 1, dtype, &shape);
  return DELTA_OK;
}

delta_status_t delta_infer_max_pool_grad(const delta_infer_args_t *args) {
  DELTA_RETURN_IF_ERROR(infer_pool(args, true));
  const delta_tensor_t *dy = delta_infer_input(args, 0), *index = delta_infer_input(args, 1);
  delta_dtype_t dtype;
  DELTA_RETURN_IF_ERROR(index_dtype(DELTA_INFER_ATTRS(args, delta_pool_attrs_t), &dtype));
  DELTA_RETURN_IF_ERROR(delta_infer_same_type("index", index, dtype));
  return delta_infer_same_shape("index", &index->shape, &dy->shape);
}

delta_status_t delta_infer_average_pool(const delta_infer_args_t *args) { return infer_pool(args, false); }
delta_status_t delta_infer_average_pool_grad(const delta_infer_args_t *args) { return infer_pool(args, true); }
