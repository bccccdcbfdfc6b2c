// CONV, CONV_DATA and CONV_WEIGHT by reference: direct convolution in up to three spatial dimensions.
//
// The three are the same sum over (image, output channel, input channel, window element, output position), each summed towards another tensor.
// Rows along the last spatial dimension are converted to float64 and summed a stretch at a time.
#include "onnx/reference/element.h"
#include "onnx/graph/window.h"

#include <string.h>

enum { CONV_ROW = 256 };

typedef struct conv {
  delta_window_geometry_t window;
  int64_t images, channels, filters;     // n, c, m
  int64_t group_channels, group_filters; // per group
  delta_dtype_t x_type, w_type, y_type;  // of the CONV's x, w, y
  const void *x, *w, *y;                 // those of them that are read
  const void *bias;                      // of what is written
} conv_t;

static conv_t conv_of(const delta_conv_attrs_t *attrs, const delta_tensor_t *x, const delta_tensor_t *w, const delta_tensor_t *y) {
  conv_t conv = {.window = delta_window_geometry(&attrs->window, attrs->data_spatial, y->shape.dims + 2),
                 .images = x->shape.dims[0],
                 .channels = x->shape.dims[1],
                 .filters = y->shape.dims[1],
                 .x_type = x->dtype,
                 .w_type = w->dtype,
                 .y_type = y->dtype};
  conv.group_channels = conv.channels / attrs->group;
  conv.group_filters = conv.filters / attrs->group;
  return conv;
}

// Element offsets of the rows at (image, channel or filter, depth, height), and of one window element of the weights.
static int64_t x_row(const conv_t *conv, int64_t image, int64_t channel, int64_t depth, int64_t height) {
  const int64_t *data = conv->window.data;
  return (((image * conv->channels + channel) * data[0] + depth) * data[1] + height) * data[2];
}
static int64_t y_row(const conv_t *conv, int64_t image, int64_t filter, int64_t depth, int64_t height) {
  const int64_t *out = conv->window.out;
  return (((image * conv->filters + filter) * out[0] + depth) * out[1] + height) * out[2];
}
static int64_t w_element(const conv_t *conv, int64_t filter, int64_t group_channel, const int64_t k[DELTA_WINDOW_DIMS]) {
  const int64_t *kernel = conv->window.kernel;
  return (((filter * conv->group_channels + group_channel) * kernel[0] + k[0]) * kernel[1] + k[1]) * kernel[2] + k[2];
}

static double conv_bias(const conv_t *conv, delta_dtype_t dtype, int64_t channel) {
  return conv->bias ? delta_element_load_double(conv->bias, dtype, (size_t)channel) : 0;
}

static int64_t row_end(int64_t first, int64_t size) { return size - first < CONV_ROW ? size : first + CONV_ROW; }

// Adds weight * x to sums[o - first] for the outputs [first, last) of one row, for every element of the window's last dimension.
static void add_conv_row(const conv_t *conv, int64_t x_start, int64_t w_start, int64_t first, int64_t last, double *sums) {
  const delta_window_geometry_t *window = &conv->window;
  double values[CONV_ROW];
  for (int64_t k = 0; k < window->kernel[2]; ++k) {
    int64_t begin, end;
    delta_window_outputs(window, 2, k, 0, window->data[2], first, last, &begin, &end);
    if (begin >= end) continue;
    double weight = delta_element_load_double(conv->w, conv->w_type, (size_t)(w_start + k));
    delta_row_t row = {conv->x_type, x_start + delta_window_position(window, 2, begin, k), window->strides[2]};
    delta_row_load_double(conv->x, row, end - begin, values, 1);
    for (int64_t o = begin; o < end; ++o) sums[o - first] += weight * values[o - begin];
  }
}

// Sums the outputs [first, last) of the row at (image, filter, od, oh).
static void sum_conv_row(const conv_t *conv, int64_t image, int64_t filter, int64_t od, int64_t oh, int64_t first, int64_t last,
                         double *sums) {
  const delta_window_geometry_t *window = &conv->window;
  int64_t group = filter / conv->group_filters;
  int64_t k_begin[2], k_end[2];
  delta_window_clip(window, 0, od, 0, 0, &k_begin[0], &k_end[0]);
  delta_window_clip(window, 1, oh, 0, 0, &k_begin[1], &k_end[1]);
  for (int64_t c = 0; c < conv->group_channels; ++c) {
    for (int64_t kd = k_begin[0]; kd < k_end[0]; ++kd) {
      for (int64_t kh = k_begin[1]; kh < k_end[1]; ++kh) {
        int64_t depth = delta_window_position(window, 0, od, kd), height = delta_window_position(window, 1, oh, kh);
        add_conv_row(conv, x_row(conv, image, group * conv->group_channels + c, depth, height),
                     w_element(conv, filter, c, (const int64_t[]){kd, kh, 0}), first, last, sums);
      }
    }
  }
}

delta_status_t delta_reference_conv(const delta_reference_args_t *args) {
  const delta_tensor_t *y = delta_reference_output(args, 0);
  conv_t conv = conv_of(args->node->attrs, delta_reference_input(args, 0), delta_reference_input(args, 1), y);
  conv.x = args->inputs[0];
  conv.w = args->inputs[1];
  conv.bias = args->node->input_count > 2 ? args->inputs[2] : NULL;
  const int64_t *out = conv.window.out;
  double sums[CONV_ROW];
  for (int64_t line = 0; line < conv.images * conv.filters * out[0] * out[1]; ++line) {
    int64_t oh = line % out[1], od = line / out[1] % out[0], plane = line / (out[1] * out[0]);
    int64_t filter = plane % conv.filters, image = plane / conv.filters;
    for (int64_t first = 0; first < out[2]; first += CONV_ROW) {
      int64_t last = row_end(first, out[2]);
      for (int64_t o = first; o < last; ++o) sums[o - first] = conv_bias(&conv, y->dtype, filter);
      sum_conv_row(&conv, image, filter, od, oh, first, last, sums);
      delta_row_store_double(args->outputs[0], (delta_row_t){y->dtype, y_row(&conv, image, filter, od, oh) + first, 1}, last - first, sums,
                             1);
    }
  }
  return DELTA_OK;
}

// Adds weight * dy to sums[position - first] for the positions [first, last) of one row of dx.
static void add_data_row(const conv_t *conv, int64_t y_start, int64_t w_start, int64_t first, int64_t last, double *sums) {
  const delta_window_geometry_t *window = &conv->window;
  for (int64_t k = 0; k < window->kernel[2]; ++k) {
    int64_t begin, end;
    delta_window_outputs(window, 2, k, first, last, 0, window->out[2], &begin, &end);
    if (begin >= end) continue;
    double weight = delta_element_load_double(conv->w, conv->w_type, (size_t)(w_start + k));
    double values[CONV_ROW]; // at most one output reads each of the CONV_ROW positions through element k
    delta_row_load_double(conv->y, (delta_row_t){conv->y_type, y_start + begin, 1}, end - begin, values, 1);
    for (int64_t o = begin; o < end; ++o) sums[delta_window_position(window, 2, o, k) - first] += weight * values[o - begin];
  }
}

static void sum_data_row(const conv_t *conv, int64_t image, int64_t channel, int64_t depth, int64_t height, int64_t first, int64_t last,
                         double *sums) {
  const delta_window_geometry_t *window = &conv->window;
  int64_t group = channel / conv->group_channels;
  for (int64_t m = 0; m < conv->group_filters; ++m) {
    int64_t filter = group * conv->group_filters + m;
    for (int64_t kd = 0; kd < window->kernel[0]; ++kd) {
      for (int64_t kh = 0; kh < window->kernel[1]; ++kh) {
        int64_t od, oh;
        if (!delta_window_output(window, 0, depth, kd, &od) || !delta_window_output(window, 1, height, kh, &oh)) continue;
        add_data_row(conv, y_row(conv, image, filter, od, oh),
                     w_element(conv, filter, channel % conv->group_channels, (const int64_t[]){kd, kh, 0}), first, last, sums);
      }
    }
  }
}

delta_status_t delta_reference_conv_data(const delta_reference_args_t *args) {
  const delta_tensor_t *dx = delta_reference_output(args, 0);
  conv_t conv = conv_of(args->node->attrs, dx, delta_reference_input(args, 1), delta_reference_input(args, 0));
  conv.y = args->inputs[0];
  conv.w = args->inputs[1];
  conv.bias = args->node->input_count > 2 ? args->inputs[2] : NULL;
  const int64_t *data = conv.window.data;
  double sums[CONV_ROW];
  for (int64_t line = 0; line < conv.images * conv.channels * data[0] * data[1]; ++line) {
    int64_t height = line % data[1], depth = line / data[1] % data[0], plane = line / (data[1] * data[0]);
    int64_t channel = plane % conv.channels, image = plane / conv.channels;
    for (int64_t first = 0; first < data[2]; first += CONV_ROW) {
      int64_t last = row_end(first, data[2]);
      for (int64_t i = first; i < last; ++i) sums[i - first] = conv_bias(&conv, dx->dtype, channel);
      sum_data_row(&conv, image, channel, depth, height, first, last, sums);
      delta_row_t row = {dx->dtype, x_row(&conv, image, channel, depth, height) + first, 1};
      delta_row_store_double(args->outputs[0], row, last - first, sums, 1);
    }
  }
  return DELTA_OK;
}

// Sum of dy * x over the outputs of one row, for element k of the window's last dimension.
static double dot_rows(const conv_t *conv, int64_t x_start, int64_t y_start, int64_t k) {
  const delta_window_geometry_t *window = &conv->window;
  double x_values[CONV_ROW], y_values[CONV_ROW];
  int64_t begin, end;
  delta_window_outputs(window, 2, k, 0, window->data[2], 0, window->out[2], &begin, &end);
  double sum = 0;
  for (int64_t first = begin; first < end; first += CONV_ROW) {
    int64_t count = row_end(first, end) - first;
    delta_row_t row = {conv->x_type, x_start + delta_window_position(window, 2, first, k), window->strides[2]};
    delta_row_load_double(conv->x, row, count, x_values, 1);
    delta_row_load_double(conv->y, (delta_row_t){conv->y_type, y_start + first, 1}, count, y_values, 1);
    for (int64_t i = 0; i < count; ++i) sum += x_values[i] * y_values[i];
  }
  return sum;
}

// The gradient of one weight.
static double sum_weight(const conv_t *conv, int64_t filter, int64_t channel, const int64_t k[DELTA_WINDOW_DIMS]) {
  const delta_window_geometry_t *window = &conv->window;
  double sum = 0;
  for (int64_t image = 0; image < conv->images; ++image) {
    for (int64_t od = 0; od < window->out[0]; ++od) {
      int64_t depth = delta_window_position(window, 0, od, k[0]);
      if (depth < 0 || depth >= window->data[0]) continue;
      for (int64_t oh = 0; oh < window->out[1]; ++oh) {
        int64_t height = delta_window_position(window, 1, oh, k[1]);
        if (height < 0 || height >= window->data[1]) continue;
        sum += dot_rows(conv, x_row(conv, image, channel, depth, height), y_row(conv, image, filter, od, oh), k[2]);
      }
    }
  }
  return sum;
}

delta_status_t delta_reference_conv_weight(const delta_reference_args_t *args) {
  const delta_tensor_t *dw = delta_reference_output(args, 0);
  conv_t conv = conv_of(args->node->attrs, delta_reference_input(args, 0), dw, delta_reference_input(args, 1));
  conv.x = args->inputs[0];
  conv.y = args->inputs[1];
  const int64_t *kernel = conv.window.kernel;
  int64_t kernel_count = kernel[0] * kernel[1] * kernel[2];
  for (int64_t pair = 0; pair < conv.filters * conv.group_channels; ++pair) {
    int64_t filter = pair / conv.group_channels;
    int64_t channel = filter / conv.group_filters * conv.group_channels + pair % conv.group_channels;
    for (int64_t element = 0; element < kernel_count; ++element) {
      int64_t k[] = {element / (kernel[1] * kernel[2]), element / kernel[2] % kernel[1], element % kernel[2]};
      double sum = sum_weight(&conv, filter, channel, k);
      delta_element_store_double(args->outputs[0], dw->dtype, (size_t)(pair * kernel_count + element), sum);
    }
  }
  return DELTA_OK;
}
