// Kernels of layers: products, convolutions, pooling, softmax and losses, compared with the reference.
#include <criterion/criterion.h>

#include "tests/support/case_macros.h"

#define L(...) \
  { __VA_ARGS__ }

Test(layer_kernels, matmul) {
#define MATMUL(a, b) NODE(MATMUL, delta_matmul_attrs_t, a, b), 2, 1
#define PLAIN        MATMUL(false, false)
  const delta_kernel_case_t rows[] = {
      {"plain", PLAIN, .inputs = {REALS(33, 65), REALS(65, 47)}, .tolerance = 1e-5},
      {"large", PLAIN, .inputs = {REALS(200, 300), REALS(300, 170)}, .tolerance = 2e-5},
      {"added", NODE(MATMUL, delta_matmul_attrs_t, 0), 3, 1, .inputs = {REALS(33, 65), REALS(65, 47), REALS(33, 47)}, .tolerance = 1e-5},
      {"added, large", NODE(MATMUL, delta_matmul_attrs_t, 0), 3, 1, .inputs = {REALS(301, 20), REALS(20, 401), REALS(301, 401)},
       .tolerance = 1e-5},
      {"added, batch of rows", NODE(MATMUL, delta_matmul_attrs_t, false, true), 3, 1,
       .inputs = {REALS(4, 9, 20), REALS(11, 20), REALS(4, 9, 11)}, .tolerance = 1e-5},
      {"added, batch", NODE(MATMUL, delta_matmul_attrs_t, true, false), 3, 1,
       .inputs = {REALS(4, 20, 9), REALS(4, 20, 11), REALS(4, 9, 11)}, .tolerance = 1e-5},
      {"bias", NODE(MATMUL, delta_matmul_attrs_t, 0), 4, 1, .inputs = {REALS(33, 65), REALS(65, 47), REALS(33, 47), REALS(47)},
       .tolerance = 1e-5, .left_out = {false, false, true}},
      {"bias, batch of rows", NODE(MATMUL, delta_matmul_attrs_t, false, true), 4, 1,
       .inputs = {REALS(4, 9, 20), REALS(11, 20), REALS(4, 9, 11), REALS(11)}, .tolerance = 1e-5, .left_out = {false, false, true}},
      {"bias, batches broadcast", NODE(MATMUL, delta_matmul_attrs_t, 0), 4, 1,
       .inputs = {REALS(2, 1, 5, 6), REALS(3, 6, 4), REALS(1), REALS(4)}, .tolerance = 1e-5, .left_out = {false, false, true}},
      {"bias, one column", NODE(MATMUL, delta_matmul_attrs_t, 0), 4, 1, .inputs = {REALS(33, 65), REALS(65, 1), REALS(1), REALS(1)},
       .tolerance = 1e-5, .left_out = {false, false, true}},
      {"added with bias", NODE(MATMUL, delta_matmul_attrs_t, false, true), 4, 1,
       .inputs = {REALS(33, 65), REALS(47, 65), REALS(33, 47), REALS(47)}, .tolerance = 1e-5},
      {"added with bias, batch", NODE(MATMUL, delta_matmul_attrs_t, true, false), 4, 1,
       .inputs = {REALS(4, 20, 9), REALS(4, 20, 11), REALS(4, 9, 11), REALS(11)}, .tolerance = 1e-5},
      {"a transposed", MATMUL(true, false), .inputs = {REALS(65, 33), REALS(65, 47)}, .tolerance = 1e-5},
      {"b transposed", MATMUL(false, true), .inputs = {REALS(33, 65), REALS(47, 65)}, .tolerance = 1e-5},
      {"both transposed", MATMUL(true, true), .inputs = {REALS(65, 33), REALS(47, 65)}, .tolerance = 1e-5},
      {"row vector", PLAIN, .inputs = {REALS(1, 65), REALS(65, 47)}, .tolerance = 1e-5},
      {"row vector, b transposed", MATMUL(false, true), .inputs = {REALS(1, 65), REALS(47, 65)}, .tolerance = 1e-5},
      {"column vector", PLAIN, .inputs = {REALS(33, 65), REALS(65, 1)}, .tolerance = 1e-5},
      {"column vector, a transposed", MATMUL(true, false), .inputs = {REALS(65, 33), REALS(65, 1)}, .tolerance = 1e-5},
      {"dot product", PLAIN, .inputs = {REALS(1, 999), REALS(999, 1)}, .tolerance = 1e-5},
      {"outer product", PLAIN, .inputs = {REALS(33, 1), REALS(1, 47)}, .tolerance = 1e-5},
      {"outer product, transposed", MATMUL(true, true), .inputs = {REALS(1, 33), REALS(47, 1)}, .tolerance = 1e-5},
      {"one number", PLAIN, .inputs = {REALS(1, 1), REALS(1, 1)}, .tolerance = 1e-5},
      {"no depth", PLAIN, .inputs = {REALS(4, 0), REALS(0, 5)}, .refused = true},
      {"no rows", PLAIN, .inputs = {REALS(0, 4), REALS(4, 5)}, .refused = true},
      {"batch", PLAIN, .inputs = {REALS(7, 9, 20), REALS(7, 20, 11)}, .tolerance = 1e-5},
      {"batch, weights of a layer", PLAIN, .inputs = {REALS(4, 9, 20), REALS(20, 11)}, .tolerance = 1e-5},
      {"batch, weights transposed", MATMUL(false, true), .inputs = {REALS(4, 3, 9, 20), REALS(11, 20)}, .tolerance = 1e-5},
      {"batch, a transposed, one b", MATMUL(true, false), .inputs = {REALS(4, 20, 9), REALS(20, 11)}, .tolerance = 1e-5},
      {"one a, batch of b", PLAIN, .inputs = {REALS(9, 20), REALS(4, 20, 11)}, .tolerance = 1e-5},
      {"one transposed a, batch of b", MATMUL(true, true), .inputs = {REALS(20, 9), REALS(4, 11, 20)}, .tolerance = 1e-5},
      {"attention scores", MATMUL(false, true), .inputs = {REALS(2, 4, 33, 16), REALS(2, 4, 33, 16)}, .tolerance = 1e-5},
      {"attention values", PLAIN, .inputs = {REALS(2, 4, 33, 33), REALS(2, 4, 33, 16)}, .tolerance = 1e-5},
      {"attention, gradient of keys", MATMUL(true, false), .inputs = {REALS(2, 4, 33, 31), REALS(2, 4, 33, 16)}, .tolerance = 1e-5},
      {"batches broadcast", PLAIN, .inputs = {REALS(2, 1, 5, 6), REALS(3, 6, 4)}, .tolerance = 1e-5},
      {"batches broadcast, heads", PLAIN, .inputs = {REALS(2, 4, 5, 6), REALS(2, 1, 6, 7)}, .tolerance = 1e-5},
      {"batches broadcast, outer", MATMUL(true, true), .inputs = {REALS(1, 4, 6, 5), REALS(3, 4, 7, 6)}, .tolerance = 1e-5},
      {"batches broadcast crosswise", PLAIN, .inputs = {REALS(2, 1, 3, 5, 6), REALS(1, 4, 3, 6, 7)}, .tolerance = 1e-5},
      {"batch of dot products", PLAIN, .inputs = {REALS(6, 1, 30), REALS(6, 30, 1)}, .tolerance = 1e-5},
      {"batch of outer products", PLAIN, .inputs = {REALS(6, 30, 1), REALS(6, 1, 20)}, .tolerance = 1e-5},
      {"batch of 1", MATMUL(false, true), .inputs = {REALS(1, 1, 8, 30), REALS(1, 1, 9, 30)}, .tolerance = 1e-5},
      {"batch of none", PLAIN, .inputs = {REALS(0, 8, 30), REALS(0, 30, 9)}, .refused = true},
      {"float64", PLAIN, .inputs = {OF(F64, RANDOM, 0, 3, 4), OF(F64, RANDOM, 0, 4, 5)}, .refused = true, .tolerance = 1e-14},
      {"float64, added with bias", NODE(MATMUL, delta_matmul_attrs_t, 0), 4, 1,
       .inputs = {OF(F64, RANDOM, 0, 3, 4), OF(F64, RANDOM, 0, 4, 5), OF(F64, RANDOM, 0, 3, 5), OF(F64, RANDOM, 0, 5)}, .refused = true,
       .tolerance = 1e-14},
  };
  CHECK_KERNEL_CASES(rows);
}

// A window: kernel, strides, dilations, pads at begin and end.
#define WINDOW1(k, s, d, p, q)   \
  {                              \
    1, {k}, {s}, {d}, {p}, { q } \
  }
#define WINDOW2(k0, k1, s0, s1, d0, d1, p0, p1, q0, q1)   \
  {                                                       \
    2, {k0, k1}, {s0, s1}, {d0, d1}, {p0, p1}, { q0, q1 } \
  }
#define WINDOW3(k0, k1, k2, s, d, p)                              \
  {                                                               \
    3, {k0, k1, k2}, {s, s, s}, {d, d, d}, {p, p, p}, { p, p, p } \
  }
#define SQUARE(k, s, p) WINDOW2(k, k, s, s, 1, 1, p, p, p, p)

Test(layer_kernels, convolution) {
#define CONV(window_, group_, ...) NODE(CONV, delta_conv_attrs_t, .window = window_, .group = group_, .data_spatial = {__VA_ARGS__})
  const delta_kernel_case_t rows[] = {
      {"3x3", CONV(SQUARE(3, 1, 1), 1, 12, 13), 2, 1, .inputs = {REALS(2, 5, 12, 13), REALS(7, 5, 3, 3)}, .tolerance = 1e-5},
      {"3x3 with bias", CONV(SQUARE(3, 1, 1), 1, 12, 13), 3, 1, .inputs = {REALS(2, 16, 12, 13), REALS(32, 16, 3, 3), REALS(32)},
       .tolerance = 2e-5},
      {"bias left out", CONV(SQUARE(3, 1, 1), 1, 5, 5), 3, 1, .inputs = {REALS(2, 3, 5, 5), REALS(4, 3, 3, 3), REALS(4)}, .tolerance = 1e-5,
       .left_out = {false, false, true}},
      {"1x1", CONV(SQUARE(1, 1, 0), 1, 9, 9), 2, 1, .inputs = {REALS(2, 16, 9, 9), REALS(24, 16, 1, 1)}, .tolerance = 1e-5},
      {"1x1 with bias", CONV(SQUARE(1, 1, 0), 1, 9, 9), 3, 1, .inputs = {REALS(3, 16, 9, 9), REALS(24, 16, 1, 1), REALS(24)},
       .tolerance = 1e-5},
      {"1x1 padded", CONV(SQUARE(1, 1, 1), 1, 9, 9), 2, 1, .inputs = {REALS(2, 16, 9, 9), REALS(24, 16, 1, 1)}, .tolerance = 1e-5},
      {"1x1 stride 2", CONV(SQUARE(1, 2, 0), 1, 9, 9), 2, 1, .inputs = {REALS(2, 16, 9, 9), REALS(24, 16, 1, 1)}, .tolerance = 1e-5},
      {"7x7 stride 2", CONV(SQUARE(7, 2, 3), 1, 21, 22), 2, 1, .inputs = {REALS(1, 3, 21, 22), REALS(16, 3, 7, 7)}, .tolerance = 2e-5},
      {"uneven pads", CONV(WINDOW2(3, 2, 2, 1, 1, 1, 0, 1, 2, 0), 1, 9, 10), 2, 1, .inputs = {REALS(2, 3, 9, 10), REALS(4, 3, 3, 2)},
       .tolerance = 1e-5},
      {"dilated", CONV(WINDOW2(3, 3, 1, 2, 2, 3, 2, 1, 2, 1), 1, 15, 17), 2, 1, .inputs = {REALS(2, 3, 15, 17), REALS(4, 3, 3, 3)},
       .tolerance = 1e-5},
      {"groups", CONV(SQUARE(3, 1, 1), 4, 9, 9), 3, 1, .inputs = {REALS(2, 8, 9, 9), REALS(12, 2, 3, 3), REALS(12)}, .tolerance = 1e-5},
      {"depthwise", CONV(SQUARE(3, 1, 1), 16, 9, 9), 3, 1, .inputs = {REALS(2, 16, 9, 9), REALS(16, 1, 3, 3), REALS(16)},
       .tolerance = 1e-5},
      {"depthwise, two each", CONV(SQUARE(3, 2, 1), 5, 9, 9), 2, 1, .inputs = {REALS(2, 5, 9, 9), REALS(10, 1, 3, 3)}, .tolerance = 1e-5},
      {"one dimension", CONV(WINDOW1(5, 2, 1, 2, 1), 1, 40), 3, 1, .inputs = {REALS(3, 4, 40), REALS(6, 4, 5), REALS(6)},
       .tolerance = 1e-5},
      {"three dimensions", CONV(WINDOW3(3, 2, 3, 1, 1, 1), 1, 6, 7, 5), 3, 1,
       .inputs = {REALS(2, 3, 6, 7, 5), REALS(4, 3, 3, 2, 3), REALS(4)}, .tolerance = 1e-5},
      {"no images", CONV(SQUARE(3, 1, 1), 1, 12, 13), 2, 1, .inputs = {REALS(0, 5, 12, 13), REALS(7, 5, 3, 3)}, .refused = true},
      {"several slices", CONV(SQUARE(3, 1, 1), 1, 60, 60), 3, 1, .inputs = {REALS(12, 16, 60, 60), REALS(16, 16, 3, 3), REALS(16)},
       .tolerance = 2e-5},
      {"ragged end", CONV(SQUARE(3, 2, 0), 1, 10, 12), 2, 1, .inputs = {REALS(1, 2, 10, 12), REALS(3, 2, 3, 3)}, .tolerance = 1e-5},
  };
  CHECK_KERNEL_CASES(rows);
}

// Layouts of x and y; physical shapes stand in the operands.
Test(layer_kernels, convolution_layouts) {
#define AT40 L(40, 42)
#define LAYOUTS(op, window_, group_, spatial, x, y)                                                                       \
  NODE(op, delta_conv_attrs_t, .window = window_, .group = group_, .data_spatial = spatial, .x_layout = DELTA_LAYOUT_##x, \
       .y_layout = DELTA_LAYOUT_##y)
#define AT9 L(9, 10)
  const delta_kernel_case_t rows[] = {
      {"channels last", LAYOUTS(CONV, SQUARE(3, 1, 1), 1, AT9, CHANNELS_LAST, CHANNELS_LAST), 3, 1,
       .inputs = {REALS(2, 9, 10, 5), REALS(7, 5, 3, 3), REALS(7)}, .tolerance = 1e-5},
      {"channels last, 1x1", LAYOUTS(CONV, SQUARE(1, 2, 0), 1, AT9, CHANNELS_LAST, CHANNELS_LAST), 2, 1,
       .inputs = {REALS(2, 9, 10, 16), REALS(24, 16, 1, 1)}, .tolerance = 1e-5},
      {"blocked by 8", LAYOUTS(CONV, SQUARE(3, 1, 1), 1, AT9, BLOCKED_8, BLOCKED_8), 2, 1,
       .inputs = {REALS(2, 2, 9, 10, 8), REALS(24, 16, 3, 3)}, .tolerance = 2e-5},
      {"blocked by 16", LAYOUTS(CONV, SQUARE(3, 2, 1), 1, AT9, BLOCKED_16, BLOCKED_16), 3, 1,
       .inputs = {REALS(2, 2, 9, 10, 16), REALS(16, 32, 3, 3), REALS(16)}, .tolerance = 2e-5},
      {"blocked, 1x1", LAYOUTS(CONV, SQUARE(1, 1, 0), 1, AT9, BLOCKED_16, BLOCKED_16), 2, 1,
       .inputs = {REALS(2, 2, 9, 10, 16), REALS(16, 32, 1, 1)}, .tolerance = 2e-5},
      {"stem: plain to blocked", LAYOUTS(CONV, SQUARE(3, 2, 1), 1, AT9, PLAIN, BLOCKED_16), 3, 1,
       .inputs = {REALS(2, 3, 9, 10), REALS(16, 3, 3, 3), REALS(16)}, .tolerance = 1e-5},
      {"head: blocked to plain", LAYOUTS(CONV, SQUARE(1, 1, 0), 1, AT9, BLOCKED_16, PLAIN), 3, 1,
       .inputs = {REALS(2, 1, 9, 10, 16), REALS(3, 16, 1, 1), REALS(3)}, .tolerance = 1e-5},
      {"groups, blocked", LAYOUTS(CONV, SQUARE(3, 1, 1), 2, AT9, BLOCKED_16, BLOCKED_16), 2, 1,
       .inputs = {REALS(2, 2, 9, 10, 16), REALS(32, 16, 3, 3)}, .tolerance = 2e-5},
      {"depthwise, blocked", LAYOUTS(CONV, SQUARE(3, 1, 1), 16, AT9, BLOCKED_8, BLOCKED_8), 2, 1,
       .inputs = {REALS(2, 2, 9, 10, 8), REALS(16, 1, 3, 3)}, .tolerance = 1e-5},
      {"depthwise, channels last", LAYOUTS(CONV, SQUARE(3, 1, 1), 5, AT9, CHANNELS_LAST, CHANNELS_LAST), 2, 1,
       .inputs = {REALS(2, 9, 10, 5), REALS(5, 1, 3, 3)}, .tolerance = 1e-5},
      {"one dimension, blocked", LAYOUTS(CONV, WINDOW1(5, 2, 1, 2, 1), 1, L(40), BLOCKED_8, BLOCKED_8), 2, 1,
       .inputs = {REALS(3, 1, 40, 8), REALS(16, 8, 5)}, .tolerance = 1e-5},
      {"three dimensions, channels last", LAYOUTS(CONV, WINDOW3(3, 2, 3, 1, 1, 1), 1, L(6, 7, 5), CHANNELS_LAST, CHANNELS_LAST), 2, 1,
       .inputs = {REALS(2, 6, 7, 5, 3), REALS(4, 3, 3, 2, 3)}, .tolerance = 1e-5},
      {"by data, channels last", LAYOUTS(CONV_DATA, SQUARE(3, 1, 1), 1, AT9, CHANNELS_LAST, CHANNELS_LAST), 3, 1,
       .inputs = {REALS(2, 9, 10, 7), REALS(7, 5, 3, 3), REALS(5)}, .tolerance = 1e-5},
      {"by data, blocked", LAYOUTS(CONV_DATA, SQUARE(3, 1, 1), 1, AT9, BLOCKED_16, BLOCKED_16), 3, 1,
       .inputs = {REALS(2, 1, 9, 10, 16), REALS(16, 32, 3, 3), REALS(32)}, .tolerance = 2e-5},
      {"by data, plain from blocked", LAYOUTS(CONV_DATA, SQUARE(3, 1, 1), 1, AT9, PLAIN, BLOCKED_16), 2, 1,
       .inputs = {REALS(2, 1, 9, 10, 16), REALS(16, 3, 3, 3)}, .tolerance = 1e-5},
      {"by data, depthwise, blocked", LAYOUTS(CONV_DATA, SQUARE(3, 1, 1), 16, AT9, BLOCKED_8, BLOCKED_8), 2, 1,
       .inputs = {REALS(2, 2, 9, 10, 8), REALS(16, 1, 3, 3)}, .tolerance = 1e-5},
      {"by weight, channels last", LAYOUTS(CONV_WEIGHT, SQUARE(3, 1, 1), 1, AT9, CHANNELS_LAST, CHANNELS_LAST), 2, 1,
       .inputs = {REALS(2, 9, 10, 5), REALS(2, 9, 10, 7)}, .tolerance = 5e-5},
      {"by weight, blocked", LAYOUTS(CONV_WEIGHT, SQUARE(3, 1, 1), 1, AT9, BLOCKED_16, BLOCKED_16), 2, 1,
       .inputs = {REALS(2, 2, 9, 10, 16), REALS(2, 1, 9, 10, 16)}, .tolerance = 5e-5},
      {"large enough for Winograd", LAYOUTS(CONV, SQUARE(3, 1, 1), 1, AT40, BLOCKED_16, BLOCKED_16), 3, 1,
       .inputs = {REALS(2, 4, 40, 42, 16), REALS(320, 64, 3, 3), REALS(320)}, .tolerance = 1e-4},
      {"by data, large enough", LAYOUTS(CONV_DATA, SQUARE(3, 1, 1), 1, AT40, BLOCKED_16, BLOCKED_16), 3, 1,
       .inputs = {REALS(2, 20, 40, 42, 16), REALS(320, 64, 3, 3), REALS(64)}, .tolerance = 1e-4},
      {"by weight, large enough", LAYOUTS(CONV_WEIGHT, SQUARE(3, 1, 1), 1, AT40, BLOCKED_16, BLOCKED_16), 2, 1,
       .inputs = {REALS(2, 4, 40, 42, 16), REALS(2, 20, 40, 42, 16)}, .tolerance = 1e-4},
      {"by weight, stem", LAYOUTS(CONV_WEIGHT, SQUARE(3, 1, 1), 1, AT9, PLAIN, BLOCKED_16), 2, 1,
       .inputs = {REALS(2, 3, 9, 10), REALS(2, 1, 9, 10, 16)}, .tolerance = 5e-5},
      {"by weight, depthwise, blocked", LAYOUTS(CONV_WEIGHT, SQUARE(3, 1, 1), 16, AT9, BLOCKED_8, BLOCKED_8), 2, 1,
       .inputs = {REALS(2, 2, 9, 10, 8), REALS(2, 2, 9, 10, 8)}, .tolerance = 5e-5},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(layer_kernels, convolution_by_data) {
#define CONV_DATA(window_, group_, ...) \
  NODE(CONV_DATA, delta_conv_attrs_t, .window = window_, .group = group_, .data_spatial = {__VA_ARGS__})
  const delta_kernel_case_t rows[] = {
      {"3x3", CONV_DATA(SQUARE(3, 1, 1), 1, 12, 13), 2, 1, .inputs = {REALS(2, 7, 12, 13), REALS(7, 5, 3, 3)}, .tolerance = 1e-5},
      {"stride 2, ragged", CONV_DATA(SQUARE(3, 2, 0), 1, 10, 12), 2, 1, .inputs = {REALS(1, 3, 4, 5), REALS(3, 2, 3, 3)},
       .tolerance = 1e-5},
      {"1x1", CONV_DATA(SQUARE(1, 1, 0), 1, 9, 9), 2, 1, .inputs = {REALS(3, 24, 9, 9), REALS(24, 16, 1, 1)}, .tolerance = 1e-5},
      {"1x1 with bias", CONV_DATA(SQUARE(1, 1, 0), 1, 9, 9), 3, 1, .inputs = {REALS(1, 24, 9, 9), REALS(24, 16, 1, 1), REALS(16)},
       .tolerance = 1e-5},
      {"1x1 stride 2", CONV_DATA(SQUARE(1, 2, 0), 1, 9, 9), 2, 1, .inputs = {REALS(2, 24, 5, 5), REALS(24, 16, 1, 1)}, .tolerance = 1e-5},
      {"uneven pads", CONV_DATA(WINDOW2(3, 2, 2, 1, 1, 1, 0, 1, 2, 0), 1, 9, 10), 2, 1, .inputs = {REALS(2, 4, 5, 10), REALS(4, 3, 3, 2)},
       .tolerance = 1e-5},
      {"dilated", CONV_DATA(WINDOW2(3, 3, 1, 2, 2, 3, 2, 1, 2, 1), 1, 15, 17), 2, 1, .inputs = {REALS(2, 4, 15, 7), REALS(4, 3, 3, 3)},
       .tolerance = 1e-5},
      {"groups", CONV_DATA(SQUARE(3, 1, 1), 4, 9, 9), 2, 1, .inputs = {REALS(2, 12, 9, 9), REALS(12, 2, 3, 3)}, .tolerance = 1e-5},
      {"depthwise", CONV_DATA(SQUARE(3, 1, 1), 16, 9, 9), 2, 1, .inputs = {REALS(2, 16, 9, 9), REALS(16, 1, 3, 3)}, .tolerance = 1e-5},
      {"one dimension", CONV_DATA(WINDOW1(5, 2, 1, 2, 1), 1, 40), 2, 1, .inputs = {REALS(3, 6, 20), REALS(6, 4, 5)}, .tolerance = 1e-5},
      {"three dimensions", CONV_DATA(WINDOW3(3, 2, 3, 1, 1, 1), 1, 6, 7, 5), 2, 1, .inputs = {REALS(2, 4, 6, 8, 5), REALS(4, 3, 3, 2, 3)},
       .tolerance = 1e-5},
      {"several slices", CONV_DATA(SQUARE(3, 1, 1), 1, 60, 60), 2, 1, .inputs = {REALS(12, 16, 60, 60), REALS(16, 16, 3, 3)},
       .tolerance = 2e-5},
      {"transposed with bias", CONV_DATA(SQUARE(4, 2, 1), 1, 12, 14), 3, 1, .inputs = {REALS(2, 7, 6, 7), REALS(7, 5, 4, 4), REALS(5)},
       .tolerance = 1e-5},
      {"transposed with bias, groups", CONV_DATA(SQUARE(2, 2, 0), 2, 12, 14), 3, 1,
       .inputs = {REALS(2, 6, 6, 7), REALS(6, 4, 2, 2), REALS(8)}, .tolerance = 1e-5},
      {"transposed with output padding", CONV_DATA(SQUARE(3, 2, 1), 1, 12, 14), 3, 1,
       .inputs = {REALS(2, 7, 6, 7), REALS(7, 5, 3, 3), REALS(5)}, .tolerance = 1e-5},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(layer_kernels, convolution_by_weight) {
#define CONV_WEIGHT(window_, group_, ...) \
  NODE(CONV_WEIGHT, delta_conv_attrs_t, .window = window_, .group = group_, .data_spatial = {__VA_ARGS__}), 2, 1
  const delta_kernel_case_t rows[] = {
      {"3x3", CONV_WEIGHT(SQUARE(3, 1, 1), 1, 12, 13), .inputs = {REALS(2, 5, 12, 13), REALS(2, 7, 12, 13)}, .tolerance = 5e-5},
      {"stride 2, ragged", CONV_WEIGHT(SQUARE(3, 2, 0), 1, 10, 12), .inputs = {REALS(1, 2, 10, 12), REALS(1, 3, 4, 5)}, .tolerance = 5e-5},
      {"1x1", CONV_WEIGHT(SQUARE(1, 1, 0), 1, 9, 9), .inputs = {REALS(2, 16, 9, 9), REALS(2, 24, 9, 9)}, .tolerance = 5e-5},
      {"1x1 stride 2", CONV_WEIGHT(SQUARE(1, 2, 0), 1, 9, 9), .inputs = {REALS(2, 16, 9, 9), REALS(2, 24, 5, 5)}, .tolerance = 5e-5},
      {"uneven pads", CONV_WEIGHT(WINDOW2(3, 2, 2, 1, 1, 1, 0, 1, 2, 0), 1, 9, 10), .inputs = {REALS(2, 3, 9, 10), REALS(2, 4, 5, 10)},
       .tolerance = 5e-5},
      {"dilated", CONV_WEIGHT(WINDOW2(3, 3, 1, 2, 2, 3, 2, 1, 2, 1), 1, 15, 17), .inputs = {REALS(2, 3, 15, 17), REALS(2, 4, 15, 7)},
       .tolerance = 5e-5},
      {"groups", CONV_WEIGHT(SQUARE(3, 1, 1), 4, 9, 9), .inputs = {REALS(2, 8, 9, 9), REALS(2, 12, 9, 9)}, .tolerance = 5e-5},
      {"depthwise", CONV_WEIGHT(SQUARE(3, 1, 1), 16, 9, 9), .inputs = {REALS(2, 16, 9, 9), REALS(2, 16, 9, 9)}, .tolerance = 5e-5},
      {"one dimension", CONV_WEIGHT(WINDOW1(5, 2, 1, 2, 1), 1, 40), .inputs = {REALS(3, 4, 40), REALS(3, 6, 20)}, .tolerance = 5e-5},
      {"three dimensions", CONV_WEIGHT(WINDOW3(3, 2, 3, 1, 1, 1), 1, 6, 7, 5), .inputs = {REALS(2, 3, 6, 7, 5), REALS(2, 4, 6, 8, 5)},
       .tolerance = 5e-5},
      {"several slices", CONV_WEIGHT(SQUARE(3, 1, 1), 1, 60, 60), .inputs = {REALS(12, 16, 60, 60), REALS(12, 16, 60, 60)},
       .tolerance = 3e-4},
      {"odd batch of slices", CONV_WEIGHT(SQUARE(3, 1, 1), 1, 128, 128), .inputs = {REALS(7, 12, 128, 128), REALS(7, 12, 128, 128)},
       .tolerance = 5e-4},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(layer_kernels, max_pooling) {
#define MAX_POOL(window_, out, data, index_) \
  NODE(MAX_POOL, delta_pool_attrs_t, .window = window_, .out_spatial = out, .data_spatial = data, .index = DELTA_POOL_INDEX_##index_), 1
#define MAX_POOL_GRAD(window_, out, data, index_)                                                      \
  NODE(MAX_POOL_GRAD, delta_pool_attrs_t, .window = window_, .out_spatial = out, .data_spatial = data, \
       .index = DELTA_POOL_INDEX_##index_),                                                            \
      2, 1
  const delta_kernel_case_t rows[] = {
      {"2x2", MAX_POOL(SQUARE(2, 2, 0), L(6, 7), L(12, 15), WINDOW), 2, .inputs = {REALS(2, 3, 12, 15)}},
      {"3x3, overlapping", MAX_POOL(SQUARE(3, 2, 1), L(15, 15), L(30, 29), WINDOW), 2, .inputs = {REALS(2, 20, 30, 29)}},
      {"flat index", MAX_POOL(SQUARE(3, 2, 1), L(8, 8), L(15, 16), FLAT), 2, .inputs = {REALS(2, 3, 15, 16)}},
      {"column-major index", MAX_POOL(SQUARE(3, 2, 1), L(8, 8), L(15, 16), FLAT_COLUMN), 2, .inputs = {REALS(2, 3, 15, 16)}},
      {"without index", MAX_POOL(SQUARE(3, 1, 1), L(5, 6), L(5, 6), WINDOW), 1, .inputs = {REALS(2, 3, 5, 6)}},
      {"special values", MAX_POOL(SQUARE(3, 1, 1), L(40, 30), L(40, 30), WINDOW), 2, .inputs = {SPECIALS(2, 3, 40, 30)}},
      {"all the lowest", MAX_POOL(SQUARE(2, 2, 0), L(2, 2), L(4, 4), WINDOW), 2, .inputs = {OF(F32, VALUE, -(double)INFINITY, 1, 1, 4, 4)}},
      {"equal elements", MAX_POOL(SQUARE(3, 2, 1), L(4, 4), L(7, 7), WINDOW), 2, .inputs = {OF(F32, COUNTING, 2, 2, 2, 7, 7)}},
      {"dilated, uneven pads", MAX_POOL(WINDOW2(3, 2, 2, 1, 2, 3, 1, 0, 2, 1), L(5, 11), L(10, 13), WINDOW), 2,
       .inputs = {REALS(2, 3, 10, 13)}},
      {"wide row", MAX_POOL(WINDOW1(3, 1, 1, 1, 1), L(700), L(700), FLAT), 2, .inputs = {REALS(3, 2, 700)}},
      {"three dimensions", MAX_POOL(WINDOW3(2, 3, 2, 2, 1, 0), L(3, 3, 2), L(6, 7, 5), WINDOW), 2, .inputs = {REALS(2, 3, 6, 7, 5)}},
      {"windows beyond the data", MAX_POOL(WINDOW1(2, 3, 1, 0, 4), L(4), L(7), WINDOW), 2, .inputs = {REALS(1, 2, 7)}},
      {"no images", MAX_POOL(SQUARE(2, 2, 0), L(6, 7), L(12, 15), WINDOW), 2, .inputs = {REALS(0, 3, 12, 15)}, .refused = true},
      {"gradient, 2x2", MAX_POOL_GRAD(SQUARE(2, 2, 0), L(6, 7), L(12, 15), WINDOW),
       .inputs = {REALS(2, 3, 6, 7), OF(U8, COUNTING, 4, 2, 3, 6, 7)}},
      {"gradient, 3x3", MAX_POOL_GRAD(SQUARE(3, 2, 1), L(15, 15), L(30, 29), WINDOW),
       .inputs = {REALS(2, 9, 15, 15), OF(U8, COUNTING, 9, 2, 9, 15, 15)}},
      {"gradient, any byte", MAX_POOL_GRAD(SQUARE(3, 2, 1), L(8, 8), L(15, 16), WINDOW),
       .inputs = {REALS(2, 3, 8, 8), OF(U8, COUNTING, 256, 2, 3, 8, 8)}},
      {"gradient, flat", MAX_POOL_GRAD(SQUARE(3, 2, 1), L(8, 8), L(15, 16), FLAT),
       .inputs = {REALS(1, 1, 8, 8), OF(I64, COUNTING, 240, 1, 1, 8, 8)}},
      {"gradient, wild", MAX_POOL_GRAD(SQUARE(3, 2, 1), L(8, 8), L(15, 16), FLAT),
       .inputs = {REALS(1, 2, 8, 8), OF(I64, INDICES, 1e15, 1, 2, 8, 8)}},
      {"gradient, column-major", MAX_POOL_GRAD(SQUARE(3, 1, 1), L(5, 6), L(5, 6), FLAT_COLUMN),
       .inputs = {REALS(1, 1, 5, 6), OF(I64, COUNTING, 30, 1, 1, 5, 6)}},
      {"gradient, three dimensions", MAX_POOL_GRAD(WINDOW3(2, 3, 2, 2, 1, 0), L(3, 3, 2), L(6, 7, 5), WINDOW),
       .inputs = {REALS(2, 3, 3, 3, 2), OF(U8, COUNTING, 12, 2, 3, 3, 3, 2)}},
      {"gradient, dilated", MAX_POOL_GRAD(WINDOW2(3, 2, 2, 1, 2, 3, 1, 0, 2, 1), L(5, 11), L(10, 13), WINDOW),
       .inputs = {REALS(2, 3, 5, 11), OF(U8, COUNTING, 6, 2, 3, 5, 11)}},
  };
  CHECK_KERNEL_CASES(rows);
}

// Physical shapes stand in the operands.
Test(layer_kernels, pooling_layouts) {
#define POOL(op, window_, out, data, lies) \
  NODE(op, delta_pool_attrs_t, .window = window_, .out_spatial = out, .data_spatial = data, .layout = DELTA_LAYOUT_##lies)
  const delta_kernel_case_t rows[] = {
      {"max, channels last", POOL(MAX_POOL, SQUARE(3, 2, 1), L(15, 15), L(30, 29), CHANNELS_LAST), 1, 2, .inputs = {REALS(2, 30, 29, 20)}},
      {"max, blocked", POOL(MAX_POOL, SQUARE(3, 2, 1), L(15, 15), L(30, 29), BLOCKED_8), 1, 2, .inputs = {REALS(2, 3, 30, 29, 8)}},
      {"max, many channels", POOL(MAX_POOL, SQUARE(2, 2, 0), L(3, 3), L(6, 6), CHANNELS_LAST), 1, 2, .inputs = {REALS(1, 6, 6, 1100)}},
      {"max, no index", POOL(MAX_POOL, SQUARE(2, 2, 0), L(3, 40), L(6, 80), BLOCKED_16), 1, 1, .inputs = {REALS(2, 2, 6, 80, 16)}},
      {"max, special values", POOL(MAX_POOL, SQUARE(3, 2, 1), L(15, 15), L(30, 29), BLOCKED_8), 1, 2,
       .inputs = {SPECIALS(2, 1, 30, 29, 8)}},
      {"max, one dimension", POOL(MAX_POOL, WINDOW1(3, 2, 1, 1, 1), L(20), L(40), CHANNELS_LAST), 1, 2, .inputs = {REALS(2, 40, 5)}},
      {"max, three dimensions", POOL(MAX_POOL, WINDOW3(2, 2, 2, 2, 1, 0), L(2, 3, 4), L(4, 6, 8), BLOCKED_8), 1, 2,
       .inputs = {REALS(2, 2, 4, 6, 8, 8)}},
      {"max gradient, channels last", POOL(MAX_POOL_GRAD, SQUARE(3, 2, 1), L(15, 15), L(30, 29), CHANNELS_LAST), 2, 1,
       .inputs = {REALS(2, 15, 15, 20), OF(U8, COUNTING, 9, 2, 15, 15, 20)}},
      {"max gradient, blocked", POOL(MAX_POOL_GRAD, SQUARE(2, 2, 0), L(15, 14), L(30, 29), BLOCKED_16), 2, 1,
       .inputs = {REALS(2, 2, 15, 14, 16), OF(U8, COUNTING, 4, 2, 2, 15, 14, 16)}},
      {"average, channels last", POOL(AVERAGE_POOL, SQUARE(3, 2, 1), L(15, 15), L(30, 29), CHANNELS_LAST), 1, 1,
       .inputs = {REALS(2, 30, 29, 20)}},
      {"average, blocked", POOL(AVERAGE_POOL, SQUARE(3, 1, 1), L(30, 29), L(30, 29), BLOCKED_8), 1, 1, .inputs = {REALS(2, 3, 30, 29, 8)}},
      {"average gradient, channels last", POOL(AVERAGE_POOL_GRAD, SQUARE(3, 2, 1), L(15, 15), L(30, 29), CHANNELS_LAST), 1, 1,
       .inputs = {REALS(2, 15, 15, 20)}},
      {"average gradient, blocked", POOL(AVERAGE_POOL_GRAD, SQUARE(2, 2, 0), L(15, 14), L(30, 28), BLOCKED_16), 1, 1,
       .inputs = {REALS(2, 2, 15, 14, 16)}},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(layer_kernels, average_pooling) {
#define AVERAGE(window_, out, data, pad) \
  NODE(AVERAGE_POOL, delta_pool_attrs_t, .window = window_, .out_spatial = out, .data_spatial = data, .count_include_pad = pad), 1, 1
#define AVERAGE_GRAD(window_, out, data, pad) \
  NODE(AVERAGE_POOL_GRAD, delta_pool_attrs_t, .window = window_, .out_spatial = out, .data_spatial = data, .count_include_pad = pad), 1, 1
  const delta_kernel_case_t rows[] = {
      {"2x2", AVERAGE(SQUARE(2, 2, 0), L(6, 7), L(12, 15), false), .inputs = {REALS(2, 3, 12, 15)}},
      {"3x3 without padding", AVERAGE(SQUARE(3, 2, 1), L(15, 15), L(30, 29), false), .inputs = {REALS(2, 20, 30, 29)}},
      {"3x3 with padding", AVERAGE(SQUARE(3, 2, 1), L(15, 15), L(30, 29), true), .inputs = {REALS(2, 20, 30, 29)}},
      {"ceil", AVERAGE(WINDOW2(3, 3, 2, 2, 1, 1, 1, 1, 1, 1), L(5, 5), L(8, 8), true), .inputs = {REALS(2, 3, 8, 8)}},
      {"one dimension", AVERAGE(WINDOW1(4, 1, 1, 1, 2), L(600), L(600), false), .inputs = {REALS(2, 3, 600)}},
      {"three dimensions, dilated", AVERAGE(WINDOW3(2, 2, 2, 1, 2, 1), L(5, 6, 7), L(5, 6, 7), true), .inputs = {REALS(2, 2, 5, 6, 7)}},
      {"whole planes", AVERAGE(WINDOW2(7, 9, 1, 1, 1, 1, 0, 0, 0, 0), L(1, 1), L(7, 9), false), .inputs = {REALS(3, 40, 7, 9)}},
      {"gradient, 2x2", AVERAGE_GRAD(SQUARE(2, 2, 0), L(6, 7), L(12, 15), false), .inputs = {REALS(2, 3, 6, 7)}},
      {"gradient, 3x3", AVERAGE_GRAD(SQUARE(3, 2, 1), L(15, 15), L(30, 29), false), .inputs = {REALS(2, 20, 15, 15)}},
      {"gradient with padding", AVERAGE_GRAD(SQUARE(3, 1, 1), L(15, 15), L(15, 15), true), .inputs = {REALS(2, 20, 15, 15)}},
      {"gradient, three dimensions", AVERAGE_GRAD(WINDOW3(2, 2, 2, 1, 2, 1), L(5, 6, 7), L(5, 6, 7), true),
       .inputs = {REALS(2, 2, 5, 6, 7)}},
      {"gradient of whole planes", AVERAGE_GRAD(WINDOW2(7, 9, 1, 1, 1, 1, 0, 0, 0, 0), L(1, 1), L(7, 9), false),
       .inputs = {REALS(3, 40, 1, 1)}},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(layer_kernels, softmax) {
#define SOFTMAX(axis, log)      NODE(SOFTMAX, delta_softmax_attrs_t, axis, log), 1, 1
#define SOFTMAX_GRAD(axis, log) NODE(SOFTMAX_GRAD, delta_softmax_attrs_t, axis, log), 2, 1
  const delta_kernel_case_t rows[] = {
      {"last axis", SOFTMAX(1, false), .inputs = {REALS(33, 101)}, .tolerance = 1e-6},
      {"long lines", SOFTMAX(1, false), .inputs = {OF(F32, RANDOM, 10, 4, 50257)}, .tolerance = 1e-6},
      {"first axis", SOFTMAX(0, false), .inputs = {REALS(33, 101)}, .tolerance = 1e-6},
      {"middle axis", SOFTMAX(1, false), .inputs = {OF(F32, RANDOM, 20, 5, 21, 130)}, .tolerance = 1e-6},
      {"one element", SOFTMAX(1, false), .inputs = {REALS(33, 1)}, .tolerance = 1e-6},
      {"large numbers", SOFTMAX(1, false), .inputs = {OF(F32, RANDOM, 1e4, 9, 33)}, .tolerance = 1e-6},
      {"masked", SOFTMAX(1, false), .inputs = {OF(F32, VALUE, -3.4e38, 9, 33)}, .tolerance = 1e-6},
      {"special values", SOFTMAX(1, false), .inputs = {SPECIALS(500, 7)}, .tolerance = 1e-6},
      {"special values, first axis", SOFTMAX(0, false), .inputs = {SPECIALS(7, 500)}, .tolerance = 1e-6},
      {"empty", SOFTMAX(1, false), .inputs = {REALS(0, 5)}, .tolerance = 1e-6},
      {"empty lines", SOFTMAX(1, false), .inputs = {REALS(5, 0)}, .tolerance = 1e-6},
      {"log, last axis", SOFTMAX(1, true), .inputs = {REALS(33, 101)}, .tolerance = 2e-6},
      {"log, first axis", SOFTMAX(0, true), .inputs = {REALS(33, 101)}, .tolerance = 2e-6},
      {"log, large numbers", SOFTMAX(1, true), .inputs = {OF(F32, RANDOM, 1e4, 9, 33)}, .tolerance = 2e-6},
      {"log, special values", SOFTMAX(1, true), .inputs = {SPECIALS(500, 7)}, .tolerance = 2e-6},
      {"gradient, last axis", SOFTMAX_GRAD(1, false), .inputs = {REALS(33, 101), OF(F32, POSITIVE, 0, 33, 101)}, .tolerance = 2e-6},
      {"gradient, middle axis", SOFTMAX_GRAD(1, false), .inputs = {REALS(5, 21, 130), OF(F32, POSITIVE, 0, 5, 21, 130)}, .tolerance = 2e-6},
      {"gradient of log", SOFTMAX_GRAD(1, true), .inputs = {REALS(33, 101), REALS(33, 101)}, .tolerance = 3e-6},
      {"gradient of log, first axis", SOFTMAX_GRAD(0, true), .inputs = {REALS(33, 101), REALS(33, 101)}, .tolerance = 3e-6},
      {"float64", SOFTMAX(1, false), .inputs = {OF(F64, RANDOM, 0, 3, 4)}, .refused = true, .tolerance = 1e-14},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(layer_kernels, class_losses) {
#define LOSS(op, axis_, ...) NODE(op, delta_class_loss_attrs_t, .axis = axis_, .classes = __VA_ARGS__)
#define IGNORES(index)       .has_ignore = true, .ignore_index = index
  const delta_kernel_case_t rows[] = {
      {"last axis", LOSS(CROSS_ENTROPY, 1, 11), 2, 3, .inputs = {REALS(50, 11), OF(I64, COUNTING, 11, 50)}, .tolerance = 2e-6},
      {"large", LOSS(CROSS_ENTROPY, 1, 5000), 2, 3, .inputs = {REALS(100, 5000), OF(I64, COUNTING, 5000, 100)}, .tolerance = 2e-6},
      {"class axis 1", LOSS(CROSS_ENTROPY, 1, 7), 2, 3, .inputs = {REALS(3, 7, 9, 11), OF(I32, COUNTING, 7, 3, 9, 11)}, .tolerance = 2e-6},
      {"ignored", LOSS(CROSS_ENTROPY, 1, 7, IGNORES(2)), 2, 3, .inputs = {REALS(90, 7), OF(I64, COUNTING, 7, 90)}, .tolerance = 2e-6},
      {"ignored, outside", LOSS(CROSS_ENTROPY, 1, 7, IGNORES(-100)), 2, 3, .inputs = {REALS(90, 7), OF(I64, INDICES, 9, 90)},
       .tolerance = 2e-6},
      {"weights", LOSS(CROSS_ENTROPY, 1, 7, IGNORES(0)), 3, 3, .inputs = {REALS(90, 7), OF(I64, COUNTING, 7, 90), OF(F32, POSITIVE, 0, 7)},
       .tolerance = 2e-6},
      {"special values", LOSS(CROSS_ENTROPY, 1, 7), 2, 3, .inputs = {SPECIALS(400, 7), OF(I64, COUNTING, 7, 400)}, .tolerance = 2e-6},
      {"special values, class axis 1", LOSS(CROSS_ENTROPY, 1, 7), 2, 3, .inputs = {SPECIALS(4, 7, 100), OF(I64, COUNTING, 7, 4, 100)},
       .tolerance = 2e-6},
      {"empty", LOSS(CROSS_ENTROPY, 1, 7), 2, 3, .inputs = {REALS(0, 7), OF(I64, COUNTING, 7, 0)}, .tolerance = 2e-6},
      {"gradient, last axis", LOSS(CROSS_ENTROPY_GRAD, 1, 11), 4, 1,
       .inputs = {REALS(50), REALS(50, 11), OF(F32, VALUE, 3, 50), OF(I64, COUNTING, 11, 50)}, .tolerance = 3e-6},
      {"gradient, class axis 1", LOSS(CROSS_ENTROPY_GRAD, 1, 7, IGNORES(3)), 5, 1,
       .inputs = {REALS(3, 9, 11), REALS(3, 7, 9, 11), OF(F32, VALUE, 2, 3, 9, 11), OF(I32, COUNTING, 7, 3, 9, 11),
                  OF(F32, POSITIVE, 0, 7)},
       .tolerance = 3e-6},
      {"gradient, outside", LOSS(CROSS_ENTROPY_GRAD, 1, 7), 4, 1,
       .inputs = {REALS(90), REALS(90, 7), OF(F32, VALUE, 2, 90), OF(I64, INDICES, 9, 90)}, .tolerance = 3e-6},
      {"gradient, ignored of special values", LOSS(CROSS_ENTROPY_GRAD, 1, 7, IGNORES(1)), 4, 1,
       .inputs = {REALS(90), SPECIALS(90, 7), OF(F32, VALUE, 2, 90), OF(I64, VALUE, 1, 90)}, .tolerance = 3e-6},
      {"gradient, ignored, class axis 1", LOSS(CROSS_ENTROPY_GRAD, 1, 7, IGNORES(1)), 4, 1,
       .inputs = {REALS(9, 50), SPECIALS(9, 7, 50), OF(F32, VALUE, 2, 9, 50), OF(I64, VALUE, 1, 9, 50)}, .tolerance = 3e-6},
      {"log likelihood", LOSS(NLL, 1, 7, IGNORES(3)), 3, 2, .inputs = {REALS(90, 7), OF(I64, INDICES, 9, 90), OF(F32, POSITIVE, 0, 7)},
       .tolerance = 1e-6},
      {"log likelihood, class axis 1", LOSS(NLL, 1, 7), 2, 2, .inputs = {REALS(5, 7, 90), OF(I32, COUNTING, 7, 5, 90)}, .tolerance = 1e-6},
      {"gradient of log likelihood", LOSS(NLL_GRAD, 1, 7, IGNORES(3)), 3, 1,
       .inputs = {REALS(90), OF(I64, INDICES, 9, 90), OF(F32, POSITIVE, 0, 7)}, .tolerance = 1e-6},
      {"gradient of log likelihood, class axis 1", LOSS(NLL_GRAD, 1, 7), 2, 1, .inputs = {REALS(5, 90), OF(I32, COUNTING, 7, 5, 90)},
       .tolerance = 1e-6},
  };
  CHECK_KERNEL_CASES(rows);
}
