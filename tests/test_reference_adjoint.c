// Gradient kernels are the adjoints of their forward kernels: for y linear in x (or, as a pooled maximum, at a fixed choice), <dy, y(x)> equals
// <dx(dy), x> for any dy. In float64, over strides, pads, dilations, groups and modes.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "tests/support/one_node.h"

// The gradient node's inputs, a letter each: g is dy, 0 1 2 are the forward node's inputs, i is its second output.
typedef struct adjoint_case {
  const char *name;
  delta_test_node_t forward, backward;
  uint32_t input_count, output_count;
  delta_shape_t inputs[3];
  const char *backward_inputs;
  uint32_t operand; // the forward input whose gradient it is
} adjoint_case_t;

enum { MOST_INPUTS = 3 };

static delta_status_t run_backward(const adjoint_case_t *row, const delta_test_tensor_t *inputs, const delta_test_tensor_t *outputs,
                                   const delta_test_tensor_t *dy, delta_test_tensor_t *out_gradient) {
  const delta_test_tensor_t *operands[MOST_INPUTS];
  uint32_t count = 0;
  for (const char *letter = row->backward_inputs; *letter; ++letter)
    operands[count++] = *letter == 'g' ? dy : *letter == 'i' ? &outputs[1] : &inputs[*letter - '0'];
  return delta_test_run_node(&row->backward, operands, count, out_gradient, 1);
}

static void check_adjoint(const adjoint_case_t *row) {
  delta_test_tensor_t inputs[MOST_INPUTS], outputs[2], gradient;
  const delta_test_tensor_t *operands[MOST_INPUTS];
  for (uint32_t k = 0; k < row->input_count; ++k) {
    inputs[k] = delta_test_tensor_random(DELTA_DTYPE_FLOAT64, &row->inputs[k], k);
    operands[k] = &inputs[k];
  }
  delta_status_t status = delta_test_run_node(&row->forward, operands, row->input_count, outputs, row->output_count);
  cr_assert_null(status, "%s: %s", row->name, delta_status_message(status));
  delta_test_tensor_t dy = delta_test_tensor_random(DELTA_DTYPE_FLOAT64, &outputs[0].shape, 17);
  status = run_backward(row, inputs, outputs, &dy, &gradient);
  cr_assert_null(status, "%s: %s", row->name, delta_status_message(status));
  cr_assert(delta_shape_equal(&gradient.shape, &row->inputs[row->operand]), "%s: shape of the gradient", row->name);
  const double forward = delta_test_dot(&dy, &outputs[0]), backward = delta_test_dot(&gradient, &inputs[row->operand]);
  cr_assert(fabs(forward) > 1e-3, "%s: <dy, y> is %g, which shows nothing", row->name, forward);
  cr_assert_float_eq(forward, backward, 1e-11 * (1 + fabs(forward)), "%s: <dy, y> %.15g, <dx, x> %.15g", row->name, forward, backward);
  for (uint32_t k = 0; k < row->input_count; ++k) delta_test_tensor_free(&inputs[k]);
  for (uint32_t k = 0; k < row->output_count; ++k) delta_test_tensor_free(&outputs[k]);
  delta_test_tensor_free(&dy);
  delta_test_tensor_free(&gradient);
}

#define CHECK_ADJOINTS(rows) \
  for (size_t i = 0; i < sizeof(rows) / sizeof *(rows); ++i) check_adjoint(&(rows)[i])

static const delta_conv_attrs_t conv_1d = {
    .window = {1, .kernel = {3}, .strides = {2}, .dilations = {2}, .pads_begin = {1}, .pads_end = {3}}, .group = 1, .data_spatial = {11}};
static const delta_conv_attrs_t conv_2d = {
    .window = {2, .kernel = {3, 2}, .strides = {1, 2}, .dilations = {1, 1}, .pads_begin = {1, 0}, .pads_end = {1, 1}},
    .group = 1,
    .data_spatial = {6, 7}};
static const delta_conv_attrs_t conv_grouped = {
    .window = {2, .kernel = {3, 3}, .strides = {2, 1}, .dilations = {1, 2}, .pads_begin = {2, 1}, .pads_end = {0, 2}},
    .group = 3,
    .data_spatial = {7, 8}};
static const delta_conv_attrs_t conv_3d = {
    .window = {3, .kernel = {2, 3, 2}, .strides = {1, 2, 3}, .dilations = {2, 1, 1}, .pads_begin = {0, 1, 1}, .pads_end = {1, 1, 0}},
    .group = 2,
    .data_spatial = {4, 5, 6}};
// Rows longer than the stretch a kernel sums at a time, and a stride that skips elements at the end.
static const delta_conv_attrs_t conv_long = {
    .window = {1, .kernel = {5}, .strides = {3}, .dilations = {1}, .pads_begin = {2}, .pads_end = {0}}, .group = 1, .data_spatial = {1030}};

#define CONV_ROWS(attrs, x, w)                                                                                                        \
  {#attrs " by x", {DELTA_CORE_CONV, &attrs, sizeof attrs}, {DELTA_CORE_CONV_DATA, &attrs, sizeof attrs}, 2, 1, {x, w}, "g1", 0}, {   \
#attrs " by w", {DELTA_CORE_CONV, &attrs, sizeof attrs }, {DELTA_CORE_CONV_WEIGHT, &attrs, sizeof attrs }, 2, 1, {x, w }, "0g", 1 \
  }
#define SHAPE(...)                                                                 \
  {                                                                                \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ } \
  }
#define AS_IS(...) __VA_ARGS__

Test(reference_adjoint, convolutions) {
  static const adjoint_case_t rows[] = {
      CONV_ROWS(conv_1d, AS_IS(SHAPE(2, 3, 11)), AS_IS(SHAPE(4, 3, 3))),
      CONV_ROWS(conv_2d, AS_IS(SHAPE(2, 3, 6, 7)), AS_IS(SHAPE(5, 3, 3, 2))),
      CONV_ROWS(conv_grouped, AS_IS(SHAPE(2, 6, 7, 8)), AS_IS(SHAPE(9, 2, 3, 3))),
      CONV_ROWS(conv_3d, AS_IS(SHAPE(1, 4, 4, 5, 6)), AS_IS(SHAPE(6, 2, 2, 3, 2))),
      CONV_ROWS(conv_long, AS_IS(SHAPE(1, 2, 1030)), AS_IS(SHAPE(2, 2, 5))),
  };
  CHECK_ADJOINTS(rows);
}

static const delta_pool_attrs_t pool_window = {
    .window = {2, .kernel = {3, 2}, .strides = {2, 1}, .dilations = {1, 2}, .pads_begin = {1, 1}, .pads_end = {1, 0}},
    .out_spatial = {4, 5},
    .data_spatial = {7, 6},
    .index = DELTA_POOL_INDEX_WINDOW};
static const delta_pool_attrs_t pool_flat = {
    .window = {3, .kernel = {2, 2, 3}, .strides = {1, 2, 2}, .dilations = {1, 1, 1}, .pads_begin = {0, 1, 1}, .pads_end = {0, 0, 1}},
    .out_spatial = {2, 2, 3},
    .data_spatial = {3, 4, 5},
    .index = DELTA_POOL_INDEX_FLAT};
static const delta_pool_attrs_t pool_column = {.window = {2, .kernel = {2, 2}, .strides = {1, 1}, .dilations = {1, 1}},
                                               .out_spatial = {3, 4},
                                               .data_spatial = {4, 5},
                                               .index = DELTA_POOL_INDEX_FLAT_COLUMN};
// Ceil mode: the last windows reach beyond the padding.
static const delta_pool_attrs_t average_outside = {
    .window = {2, .kernel = {3, 3}, .strides = {2, 2}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {0, 1}},
    .out_spatial = {4, 4},
    .data_spatial = {6, 6},
    .count_include_pad = false};
static const delta_pool_attrs_t average_padded = {
    .window = {2, .kernel = {3, 3}, .strides = {2, 2}, .dilations = {1, 2}, .pads_begin = {1, 1}, .pads_end = {0, 1}},
    .out_spatial = {4, 3},
    .data_spatial = {6, 6},
    .count_include_pad = true};

#define POOL_ROW(kind, attrs, outputs, operands, x) \
  { #attrs, {DELTA_CORE_##kind, &attrs, sizeof attrs }, {DELTA_CORE_##kind##_GRAD, &attrs, sizeof attrs }, 1, outputs, {x }, operands, 0 }

Test(reference_adjoint, pools) {
  static const adjoint_case_t rows[] = {
      POOL_ROW(MAX_POOL, pool_window, 2, "gi", AS_IS(SHAPE(2, 3, 7, 6))),
      POOL_ROW(MAX_POOL, pool_flat, 2, "gi", AS_IS(SHAPE(2, 2, 3, 4, 5))),
      POOL_ROW(MAX_POOL, pool_column, 2, "gi", AS_IS(SHAPE(2, 3, 4, 5))),
      POOL_ROW(AVERAGE_POOL, average_outside, 1, "g", AS_IS(SHAPE(2, 3, 6, 6))),
      POOL_ROW(AVERAGE_POOL, average_padded, 1, "g", AS_IS(SHAPE(2, 3, 6, 6))),
  };
  CHECK_ADJOINTS(rows);
}

static const delta_slice_attrs_t slice = {.shape = SHAPE(2, 3, 2), .data_shape = SHAPE(4, 3, 9), .starts = {3, 0, 1}, .steps = {-2, 1, 5}};
static const delta_pad_attrs_t pad_constant = {
    .mode = DELTA_PAD_CONSTANT, .begin = {2, -1}, .end = {1, 3}, .value = 0, .data_shape = SHAPE(3, 4)};
static const delta_pad_attrs_t pad_reflect = {.mode = DELTA_PAD_REFLECT, .begin = {2, 1}, .end = {1, 3}, .data_shape = SHAPE(3, 4)};
static const delta_pad_attrs_t pad_edge = {.mode = DELTA_PAD_EDGE, .begin = {2, -1}, .end = {4, 3}, .data_shape = SHAPE(3, 4)};
static const delta_pad_attrs_t pad_wrap = {.mode = DELTA_PAD_WRAP, .begin = {5, 1}, .end = {4, -2}, .data_shape = SHAPE(3, 4)};
static const delta_cumsum_attrs_t cumsum = {.axis = 1, .exclusive = true, .reverse = false};
static const delta_cumsum_attrs_t cumsum_back = {.axis = 1, .exclusive = true, .reverse = true};
static const delta_transpose_attrs_t transpose = {.permutation = {2, 0, 1}};
static const delta_transpose_attrs_t transpose_back = {.permutation = {1, 2, 0}};
static const delta_trilu_attrs_t trilu = {.upper = false, .k = 1};

#define MOVE_ROW(kind, back, attrs, back_attrs, x) \
  { #attrs, {DELTA_CORE_##kind, &attrs, sizeof attrs }, {DELTA_CORE_##back, &back_attrs, sizeof back_attrs }, 1, 1, {x }, "g", 0 }

Test(reference_adjoint, movement) {
  static const adjoint_case_t rows[] = {
      MOVE_ROW(SLICE, SLICE_GRAD, slice, slice, AS_IS(SHAPE(4, 3, 9))),
      MOVE_ROW(PAD, PAD_GRAD, pad_constant, pad_constant, AS_IS(SHAPE(3, 4))),
      MOVE_ROW(PAD, PAD_GRAD, pad_reflect, pad_reflect, AS_IS(SHAPE(3, 4))),
      MOVE_ROW(PAD, PAD_GRAD, pad_edge, pad_edge, AS_IS(SHAPE(3, 4))),
      MOVE_ROW(PAD, PAD_GRAD, pad_wrap, pad_wrap, AS_IS(SHAPE(3, 4))),
      MOVE_ROW(CUMSUM, CUMSUM, cumsum, cumsum_back, AS_IS(SHAPE(2, 5, 3))),
      MOVE_ROW(TRANSPOSE, TRANSPOSE, transpose, transpose_back, AS_IS(SHAPE(2, 3, 4))),
      MOVE_ROW(TRILU, TRILU, trilu, trilu, AS_IS(SHAPE(2, 3, 4))),
  };
  CHECK_ADJOINTS(rows);
}

// Every mode and coordinate, enlarging one axis and shrinking the other.
static delta_resize_attrs_t resize_attrs(delta_resize_mode_t mode, delta_resize_coordinate_t coordinate, bool antialias,
                                         bool exclude_outside) {
  return (delta_resize_attrs_t){.mode = mode,
                                .coordinate = coordinate,
                                .rounding = DELTA_RESIZE_ROUND_PREFER_FLOOR,
                                .cubic_coefficient = -0.75,
                                .exclude_outside = exclude_outside,
                                .antialias = antialias,
                                .scales = {1, 1.6, 0.6},
                                .roi_start = {0, 0.1, -0.2},
                                .roi_end = {1, 0.8, 0.9},
                                .out_shape = SHAPE(2, 8, 4),
                                .data_shape = SHAPE(2, 5, 7)};
}

Test(reference_adjoint, resize) {
  for (int mode = DELTA_RESIZE_NEAREST; mode <= DELTA_RESIZE_CUBIC; ++mode) {
    for (int coordinate = DELTA_RESIZE_HALF_PIXEL; coordinate <= DELTA_RESIZE_TF_HALF_PIXEL_FOR_NN; ++coordinate) {
      for (int flags = 0; flags < 4; ++flags) {
        const delta_resize_attrs_t attrs =
            resize_attrs((delta_resize_mode_t)mode, (delta_resize_coordinate_t)coordinate, flags & 1, flags & 2);
        char name[96];
        snprintf(name, sizeof name, "resize mode %d coordinate %d flags %d", mode, coordinate, flags);
        const adjoint_case_t row = {name, DELTA_TEST_NODE(RESIZE, attrs), DELTA_TEST_NODE(RESIZE_GRAD, attrs), 1, 1, {SHAPE(2, 5, 7)}, "g",
                                    0};
        check_adjoint(&row);
      }
    }
  }
}

// GATHER's second input holds indices, so it stands apart from the table: duplicates must sum.
Test(reference_adjoint, gather) {
  const delta_shape_t x_shape = SHAPE(2, 4, 3), index_shape = SHAPE(3, 2);
  const delta_gather_attrs_t attrs = {.axis = 1, .data_shape = x_shape};
  delta_test_tensor_t x = delta_test_tensor_random(DELTA_DTYPE_FLOAT64, &x_shape, 0), y, dx;
  delta_test_tensor_t indices = delta_test_tensor_of(DELTA_DTYPE_INT64, &index_shape, (const double[]){0, 3, 3, -1, 1, 0});
  delta_status_t status = delta_test_run_node(&DELTA_TEST_NODE(GATHER, attrs), (const delta_test_tensor_t *[]){&x, &indices}, 2, &y, 1);
  cr_assert_null(status, "%s", delta_status_message(status));
  delta_test_tensor_t dy = delta_test_tensor_random(DELTA_DTYPE_FLOAT64, &y.shape, 17);
  status = delta_test_run_node(&DELTA_TEST_NODE(GATHER_GRAD, attrs), (const delta_test_tensor_t *[]){&indices, &dy}, 2, &dx, 1);
  cr_assert_null(status, "%s", delta_status_message(status));
  cr_assert_float_eq(delta_test_dot(&dy, &y), delta_test_dot(&dx, &x), 1e-12);
  delta_test_tensor_free(&x);
  delta_test_tensor_free(&y);
  delta_test_tensor_free(&dx);
  delta_test_tensor_free(&dy);
  delta_test_tensor_free(&indices);
}
