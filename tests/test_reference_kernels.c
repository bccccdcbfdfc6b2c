// Reference kernels on small tensors whose results are worked out by hand, one table a family: types, axes, ties, NaN, empty sets, wrapping.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/support/case_macros.h"
#include "tests/support/one_node.h"

enum { MOST_OPERANDS = 4, MOST_VALUES = 32 };

typedef struct literal {
  delta_dtype_t dtype;
  delta_shape_t shape;
  double values[MOST_VALUES];
} literal_t;

typedef struct kernel_case {
  const char *name;
  delta_test_node_t node;
  literal_t inputs[MOST_OPERANDS];
  literal_t outputs[MOST_OPERANDS];
  uint32_t input_count, output_count;
} kernel_case_t;

static bool same_value(double a, double b) { return isnan(a) ? isnan(b) : a == b || fabs(a - b) <= 1e-6 * fmax(1, fabs(b)); }

static void check_output(const kernel_case_t *row, uint32_t k, const delta_test_tensor_t *output) {
  const literal_t *wanted = &row->outputs[k];
  cr_assert_eq(output->dtype, wanted->dtype, "%s: type of output %u", row->name, k);
  cr_assert(delta_shape_equal(&output->shape, &wanted->shape), "%s: shape of output %u", row->name, k);
  for (int64_t i = 0; i < delta_shape_count(&wanted->shape); ++i) {
    cr_assert(same_value(output->values[i], wanted->values[i]), "%s: output %u element %d is %.9g, not %.9g", row->name, k, (int)i,
              output->values[i], wanted->values[i]);
  }
}

static void check_case(const kernel_case_t *row) {
  delta_test_tensor_t inputs[MOST_OPERANDS], outputs[MOST_OPERANDS];
  const delta_test_tensor_t *operands[MOST_OPERANDS];
  for (uint32_t k = 0; k < row->input_count; ++k) {
    inputs[k] = delta_test_tensor_of(row->inputs[k].dtype, &row->inputs[k].shape, row->inputs[k].values);
    operands[k] = &inputs[k];
  }
  delta_status_t status = delta_test_run_node(&row->node, operands, row->input_count, outputs, row->output_count);
  cr_assert_null(status, "%s: %s", row->name, delta_status_message(status));
  for (uint32_t k = 0; k < row->output_count; ++k) check_output(row, k, &outputs[k]);
  for (uint32_t k = 0; k < row->input_count; ++k) delta_test_tensor_free(&inputs[k]);
  for (uint32_t k = 0; k < row->output_count; ++k) delta_test_tensor_free(&outputs[k]);
}

#define CHECK_CASES(rows) \
  for (size_t i = 0; i < sizeof(rows) / sizeof *(rows); ++i) check_case(&(rows)[i])

Test(reference_kernels, matmul) {
  const kernel_case_t rows[] = {
      {"plain",
       NODE(MATMUL, delta_matmul_attrs_t, 0),
       {{F32, SHAPE(2, 3), {1, 2, 3, 4, 5, 6}}, {F32, SHAPE(3, 2), {1, 0, 0, 1, 1, 1}}},
       {{F32, SHAPE(2, 2), {4, 5, 10, 11}}},
       2,
       1},
      {"both transposed",
       NODE(MATMUL, delta_matmul_attrs_t, .transpose_a = true, .transpose_b = true),
       {{F32, SHAPE(3, 2), {1, 4, 2, 5, 3, 6}}, {F32, SHAPE(2, 3), {1, 0, 1, 0, 1, 1}}},
       {{F32, SHAPE(2, 2), {4, 5, 10, 11}}},
       2,
       1},
      {"batches broadcast",
       NODE(MATMUL, delta_matmul_attrs_t, 0),
       {{F32, SHAPE(2, 1, 1, 2), {1, 2, 3, 4}}, {F32, SHAPE(3, 2, 1), {1, 1, 2, 0, 0, 2}}},
       {{F32, SHAPE(2, 3, 1, 1), {3, 2, 4, 7, 6, 8}}},
       2,
       1},
      {"integers wrap",
       NODE(MATMUL, delta_matmul_attrs_t, 0),
       {{I32, SHAPE(1, 2), {2147483647, 1}}, {I32, SHAPE(2, 1), {1, 1}}},
       {{I32, SHAPE(1, 1), {-2147483648.0}}},
       2,
       1},
      {"no depth",
       NODE(MATMUL, delta_matmul_attrs_t, 0),
       {{F32, SHAPE(1, 0), {0}}, {F32, SHAPE(0, 2), {0}}},
       {{F32, SHAPE(1, 2), {0, 0}}},
       2,
       1},
  };
  CHECK_CASES(rows);
}

Test(reference_kernels, convolution) {
  const kernel_case_t rows[] = {
      {"3x3 ones, padded, with bias",
       NODE(CONV, delta_conv_attrs_t,
            .window = {2, .kernel = {3, 3}, .strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}}, .group = 1,
            .data_spatial = {3, 3}),
       {{F32, SHAPE(1, 1, 3, 3), {1, 2, 3, 4, 5, 6, 7, 8, 9}},
        {F32, SHAPE(1, 1, 3, 3), {1, 1, 1, 1, 1, 1, 1, 1, 1}},
        {F32, SHAPE(1), {100}}},
       {{F32, SHAPE(1, 1, 3, 3), {112, 121, 116, 127, 145, 133, 124, 139, 128}}},
       3,
       1},
      {"two groups in one dimension",
       NODE(CONV, delta_conv_attrs_t, .window = {1, .kernel = {2}, .strides = {1}, .dilations = {2}}, .group = 2, .data_spatial = {4}),
       {{F16, SHAPE(1, 2, 4), {1, 2, 3, 4, 5, 6, 7, 8}}, {F16, SHAPE(2, 1, 2), {1, 10, -1, 1}}},
       {{F16, SHAPE(1, 2, 2), {31, 42, 2, 2}}},
       2,
       1},
      {"transposed, stride 2, with bias",
       NODE(CONV_DATA, delta_conv_attrs_t, .window = {1, .kernel = {3}, .strides = {2}, .dilations = {1}}, .group = 1, .data_spatial = {6}),
       {{F32, SHAPE(1, 1, 2), {1, 10}}, {F32, SHAPE(1, 1, 3), {1, 2, 3}}, {F32, SHAPE(1), {0.5}}},
       {{F32, SHAPE(1, 1, 6), {1.5, 2.5, 13.5, 20.5, 30.5, 0.5}}},
       3,
       1},
  };
  CHECK_CASES(rows);
}

Test(reference_kernels, pooling) {
#define POOL_2X2 .window = {2, .kernel = {2, 2}, .strides = {1, 1}, .dilations = {1, 1}}, .out_spatial = {1, 2}, .data_spatial = { 2, 3 }
#define POOL_1D(count_pad)                                                                                                    \
  .window = {1, .kernel = {3}, .strides = {2}, .dilations = {1}, .pads_begin = {1}}, .out_spatial = {3}, .data_spatial = {5}, \
  .count_include_pad = count_pad
  const kernel_case_t rows[] = {
      {"of equal ones the first, window index",
       NODE(MAX_POOL, delta_pool_attrs_t, POOL_2X2, .index = DELTA_POOL_INDEX_WINDOW),
       {{F32, SHAPE(1, 1, 2, 3), {1, 5, 2, 5, 3, 9}}},
       {{F32, SHAPE(1, 1, 1, 2), {5, 9}}, {U8, SHAPE(1, 1, 1, 2), {1, 3}}},
       1,
       2},
      {"NaN wins, flat index",
       NODE(MAX_POOL, delta_pool_attrs_t, POOL_2X2, .index = DELTA_POOL_INDEX_FLAT),
       {{F32, SHAPE(1, 2, 2, 3), {1, 5, 2, 5, NAN, 9, 0, 0, 1, 0, 0, 0}}},
       {{F32, SHAPE(1, 2, 1, 2), {NAN, NAN, 0, 1}}, {I64, SHAPE(1, 2, 1, 2), {4, 4, 6, 8}}},
       1,
       2},
      {"column-major index",
       NODE(MAX_POOL, delta_pool_attrs_t, POOL_2X2, .index = DELTA_POOL_INDEX_FLAT_COLUMN),
       {{F32, SHAPE(1, 1, 2, 3), {1, 5, 2, 6, 3, 9}}},
       {{F32, SHAPE(1, 1, 1, 2), {6, 9}}, {I64, SHAPE(1, 1, 1, 2), {1, 5}}},
       1,
       2},
      {"padding never wins",
       NODE(MAX_POOL, delta_pool_attrs_t, POOL_1D(false)),
       {{F32, SHAPE(1, 1, 5), {-3, -2, -4, -5, -6}}},
       {{F32, SHAPE(1, 1, 3), {-2, -2, -5}}},
       1,
       1},
      // The last window reaches one beyond the end, where there is no padding.
      {"average of what is inside",
       NODE(AVERAGE_POOL, delta_pool_attrs_t, POOL_1D(false)),
       {{F32, SHAPE(1, 1, 5), {1, 2, 3, 4, 6}}},
       {{F32, SHAPE(1, 1, 3), {1.5, 3, 5}}},
       1,
       1},
      {"average with padding",
       NODE(AVERAGE_POOL, delta_pool_attrs_t, POOL_1D(true)),
       {{F32, SHAPE(1, 1, 5), {1, 2, 3, 4, 6}}},
       {{F32, SHAPE(1, 1, 3), {1, 3, 5}}},
       1,
       1},
  };
  CHECK_CASES(rows);
}

Test(reference_kernels, moments_and_arg_reduce) {
  const kernel_case_t rows[] = {
      {"population variance",
       NODE(MOMENTS, delta_moments_attrs_t, .axes = 5),
       {{F32, SHAPE(2, 2, 2), {1, 3, 10, 10, 5, 7, 10, 14}}},
       {{F32, SHAPE(1, 2, 1), {4, 11}}, {F32, SHAPE(1, 2, 1), {5, 3}}},
       1,
       2},
      {"large mean keeps its variance",
       NODE(MOMENTS, delta_moments_attrs_t, .axes = 1),
       {{F32, SHAPE(2), {16777214, 16777216}}},
       {{F32, SHAPE(1), {16777215}}, {F32, SHAPE(1), {1}}},
       1,
       2},
      {"first of equal ones",
       NODE(ARG_REDUCE, delta_arg_reduce_attrs_t, .axis = 1),
       {{I32, SHAPE(2, 3), {4, 7, 7, 1, 1, 0}}},
       {{I64, SHAPE(2, 1), {1, 0}}},
       1,
       1},
      {"last of equal ones, smallest",
       NODE(ARG_REDUCE, delta_arg_reduce_attrs_t, .axis = 0, .smallest = true, .select_last = true),
       {{F32, SHAPE(3, 2), {4, 1, 4, 1, 5, 1}}},
       {{I64, SHAPE(1, 2), {1, 2}}},
       1,
       1},
      {"NaN is chosen",
       NODE(ARG_REDUCE, delta_arg_reduce_attrs_t, .axis = 0),
       {{F32, SHAPE(4), {1, NAN, 9, NAN}}},
       {{I64, SHAPE(1), {1}}},
       1,
       1},
  };
  CHECK_CASES(rows);
}

Test(reference_kernels, softmax_and_losses) {
  const kernel_case_t rows[] = {
      {"middle axis",
       NODE(SOFTMAX, delta_softmax_attrs_t, .axis = 1),
       {{F64, SHAPE(1, 2, 2), {0, 1000, 0, 1000 + 1.09861229}}},
       {{F64, SHAPE(1, 2, 2), {0.5, 0.25, 0.5, 0.75}}},
       1,
       1},
      {"logarithm",
       NODE(SOFTMAX, delta_softmax_attrs_t, .axis = 0, .log = true),
       {{F32, SHAPE(2), {0, -1000}}},
       {{F32, SHAPE(2), {0, -1000}}},
       1,
       1},
      {"ignored, outside and weighted labels",
       NODE(CROSS_ENTROPY, delta_class_loss_attrs_t, .axis = 1, .classes = 2, .has_ignore = true, .ignore_index = 1),
       {{F32, SHAPE(4, 2), {0, 0, 0, 0, 0, 0, 2, 2}}, {I64, SHAPE(4), {0, 1, 7, 0}}, {F32, SHAPE(2), {3, 5}}},
       {{F32, SHAPE(4), {3 * 0.69314718, 0, 0, 3 * 0.69314718}},
        {F32, SHAPE(4), {3, 0, 0, 3}},
        {F32, SHAPE(4), {0.69314718, 0.69314718, 0.69314718, 2.69314718}}},
       3,
       3},
      {"negative log likelihood, class axis in the middle",
       NODE(NLL, delta_class_loss_attrs_t, .axis = 1, .classes = 2),
       {{F32, SHAPE(1, 2, 2), {-1, -2, -3, -4}}, {I32, SHAPE(1, 2), {1, 0}}},
       {{F32, SHAPE(1, 2), {3, 2}}, {F32, SHAPE(1, 2), {1, 1}}},
       2,
       2},
      {"gradient of it",
       NODE(NLL_GRAD, delta_class_loss_attrs_t, .axis = 1, .classes = 2),
       {{F32, SHAPE(1, 2), {10, 20}}, {I32, SHAPE(1, 2), {1, 0}}, {F32, SHAPE(2), {1, 2}}},
       {{F32, SHAPE(1, 2, 2), {0, -20, -20, 0}}},
       3,
       1},
  };
  CHECK_CASES(rows);
}

Test(reference_kernels, movement) {
  static const int64_t sizes[] = {1, 2};
  const kernel_case_t rows[] = {
      {"transpose",
       NODE(TRANSPOSE, delta_transpose_attrs_t, .permutation = {2, 0, 1}),
       {{I32, SHAPE(1, 2, 3), {1, 2, 3, 4, 5, 6}}},
       {{I32, SHAPE(3, 1, 2), {1, 4, 2, 5, 3, 6}}},
       1,
       1},
      {"transpose of a scalar",
       NODE(TRANSPOSE, delta_transpose_attrs_t, .permutation = {0}),
       {{I32, SCALAR, {7}}},
       {{I32, SCALAR, {7}}},
       1,
       1},
      {"slice backwards",
       NODE(SLICE, delta_slice_attrs_t, .shape = SHAPE(2, 2), .data_shape = SHAPE(2, 3), .starts = {0, 2}, .steps = {1, -2}),
       {{F16, SHAPE(2, 3), {1, 2, 3, 4, 5, 6}}},
       {{F16, SHAPE(2, 2), {3, 1, 6, 4}}},
       1,
       1},
      {"slice of nothing",
       NODE(SLICE, delta_slice_attrs_t, .shape = SHAPE(0), .data_shape = SHAPE(3), .steps = {1}),
       {{F32, SHAPE(3), {1, 2, 3}}},
       {{F32, SHAPE(0), {0}}},
       1,
       1},
      {"split",
       NODE(SPLIT, delta_split_attrs_t, .axis = 1, .sizes = sizes),
       {{I64, SHAPE(2, 3), {1, 2, 3, 4, 5, 6}}},
       {{I64, SHAPE(2, 1), {1, 4}}, {I64, SHAPE(2, 2), {2, 3, 5, 6}}},
       1,
       2},
      {"concat",
       NODE(CONCAT, delta_split_attrs_t, .axis = 1),
       {{BOOL8, SHAPE(2, 1), {1, 0}}, {BOOL8, SHAPE(2, 0), {0}}, {BOOL8, SHAPE(2, 2), {0, 1, 1, 1}}},
       {{BOOL8, SHAPE(2, 3), {1, 0, 1, 0, 1, 1}}},
       3,
       1},
      {"upper triangle",
       NODE(TRILU, delta_trilu_attrs_t, .upper = true, .k = 1),
       {{I64, SHAPE(3, 3), {1, 2, 3, 4, 5, 6, 7, 8, 9}}},
       {{I64, SHAPE(3, 3), {0, 2, 3, 0, 0, 6, 0, 0, 0}}},
       1,
       1},
      {"lower triangle of a tall matrix",
       NODE(TRILU, delta_trilu_attrs_t, .upper = false, .k = -1),
       {{F32, SHAPE(3, 2), {1, 2, 3, 4, 5, 6}}},
       {{F32, SHAPE(3, 2), {0, 0, 3, 0, 5, 6}}},
       1,
       1},
      {"triangle far beyond",
       NODE(TRILU, delta_trilu_attrs_t, .upper = true, .k = INT64_MIN),
       {{F32, SHAPE(1, 2), {1, 2}}},
       {{F32, SHAPE(1, 2), {1, 2}}},
       1,
       1},
      {"running sums",
       NODE(CUMSUM, delta_cumsum_attrs_t, .axis = 1),
       {{I32, SHAPE(2, 3), {1, 2, 3, 4, 5, 6}}},
       {{I32, SHAPE(2, 3), {1, 3, 6, 4, 9, 15}}},
       1,
       1},
      {"backwards and exclusive",
       NODE(CUMSUM, delta_cumsum_attrs_t, .axis = 0, .exclusive = true, .reverse = true),
       {{F32, SHAPE(3), {1, 2, 3}}},
       {{F32, SHAPE(3), {5, 3, 0}}},
       1,
       1},
  };
  CHECK_CASES(rows);
}

Test(reference_kernels, padding) {
  const kernel_case_t rows[] = {
      {"constant",
       NODE(PAD, delta_pad_attrs_t, .begin = {2}, .end = {-1}, .value = 9, .data_shape = SHAPE(3)),
       {{I32, SHAPE(3), {1, 2, 3}}},
       {{I32, SHAPE(4), {9, 9, 1, 2}}},
       1,
       1},
      {"reflect",
       NODE(PAD, delta_pad_attrs_t, .mode = DELTA_PAD_REFLECT, .begin = {2}, .end = {1}, .data_shape = SHAPE(3)),
       {{I32, SHAPE(3), {1, 2, 3}}},
       {{I32, SHAPE(6), {3, 2, 1, 2, 3, 2}}},
       1,
       1},
      {"edge",
       NODE(PAD, delta_pad_attrs_t, .mode = DELTA_PAD_EDGE, .begin = {2}, .end = {1}, .data_shape = SHAPE(3)),
       {{I32, SHAPE(3), {1, 2, 3}}},
       {{I32, SHAPE(6), {1, 1, 1, 2, 3, 3}}},
       1,
       1},
      {"wrap",
       NODE(PAD, delta_pad_attrs_t, .mode = DELTA_PAD_WRAP, .begin = {4}, .end = {1}, .data_shape = SHAPE(3)),
       {{I32, SHAPE(3), {1, 2, 3}}},
       {{I32, SHAPE(8), {3, 1, 2, 3, 1, 2, 3, 1}}},
       1,
       1},
      {"edge of what is left",
       NODE(PAD, delta_pad_attrs_t, .mode = DELTA_PAD_EDGE, .begin = {-1}, .end = {2}, .data_shape = SHAPE(3)),
       {{I32, SHAPE(3), {1, 2, 3}}},
       {{I32, SHAPE(4), {2, 3, 3, 3}}},
       1,
       1},
  };
  CHECK_CASES(rows);
}

Test(reference_kernels, gather_and_scatter) {
  const kernel_case_t rows[] = {
      {"gather, negative index",
       NODE(GATHER, delta_gather_attrs_t, .axis = 1),
       {{F16, SHAPE(2, 3), {1, 2, 3, 4, 5, 6}}, {I32, SHAPE(2), {-1, 0}}},
       {{F16, SHAPE(2, 2), {3, 1, 6, 4}}},
       2,
       1},
      {"gather by a scalar",
       NODE(GATHER, delta_gather_attrs_t, .axis = 0),
       {{I64, SHAPE(3), {5, 6, 7}}, {I64, SCALAR, {1}}},
       {{I64, SCALAR, {6}}},
       2,
       1},
      {"gather elements",
       NODE(GATHER_ELEMENTS, delta_gather_attrs_t, .axis = 0),
       {{F32, SHAPE(3, 2), {1, 2, 3, 4, 5, 6}}, {I64, SHAPE(2, 1), {2, -2}}},
       {{F32, SHAPE(2, 1), {5, 3}}},
       2,
       1},
      {"gather nd with a batch",
       NODE(GATHER_ND, delta_gather_attrs_t, .batch_dims = 1),
       {{I32, SHAPE(2, 2, 2), {0, 1, 2, 3, 4, 5, 6, 7}}, {I64, SHAPE(2, 1), {1, 0}}},
       {{I32, SHAPE(2, 2), {2, 3, 4, 5}}},
       2,
       1},
      {"duplicates sum",
       NODE(GATHER_GRAD, delta_gather_attrs_t, .axis = 0, .data_shape = SHAPE(3, 1)),
       {{I64, SHAPE(3), {2, 0, 2}}, {F32, SHAPE(3, 1), {1, 10, 100}}},
       {{F32, SHAPE(3, 1), {10, 0, 101}}},
       2,
       1},
      {"scatter, the last wins",
       NODE(SCATTER_ELEMENTS, delta_scatter_attrs_t, .axis = 1),
       {{F32, SHAPE(1, 3), {1, 2, 3}}, {I64, SHAPE(1, 2), {1, 1}}, {F32, SHAPE(1, 2), {8, 9}}},
       {{F32, SHAPE(1, 3), {1, 9, 3}}},
       3,
       1},
      {"scatter add",
       NODE(SCATTER_ELEMENTS, delta_scatter_attrs_t, .axis = 0, .kind = DELTA_SCATTER_ADD),
       {{I32, SHAPE(3), {1, 2, 3}}, {I64, SHAPE(2), {-3, 0}}, {I32, SHAPE(2), {8, 9}}},
       {{I32, SHAPE(3), {18, 2, 3}}},
       3,
       1},
      {"scatter max, NaN wins",
       NODE(SCATTER_ELEMENTS, delta_scatter_attrs_t, .axis = 0, .kind = DELTA_SCATTER_MAX),
       {{F32, SHAPE(3), {1, 2, 3}}, {I64, SHAPE(3), {0, 1, 2}}, {F32, SHAPE(3), {0, NAN, 4}}},
       {{F32, SHAPE(3), {1, NAN, 4}}},
       3,
       1},
      {"scatter nd of rows, multiplied",
       NODE(SCATTER_ND, delta_scatter_attrs_t, .kind = DELTA_SCATTER_MUL),
       {{I64, SHAPE(2, 2), {1, 2, 3, 4}}, {I64, SHAPE(2, 1), {1, 1}}, {I64, SHAPE(2, 2), {2, 3, 4, 5}}},
       {{I64, SHAPE(2, 2), {1, 2, 24, 60}}},
       3,
       1},
  };
  CHECK_CASES(rows);
}

Test(reference_kernels, topk) {
  const kernel_case_t rows[] = {
      {"equal ones by lower index",
       NODE(TOPK, delta_topk_attrs_t, .axis = 1, .k = 3),
       {{F32, SHAPE(1, 4), {2, 5, 2, 5}}},
       {{F32, SHAPE(1, 3), {5, 5, 2}}, {I64, SHAPE(1, 3), {1, 3, 0}}},
       1,
       2},
      {"smallest along the first axis",
       NODE(TOPK, delta_topk_attrs_t, .axis = 0, .k = 2, .smallest = true),
       {{I32, SHAPE(3, 2), {3, 1, 2, 2, 1, 3}}},
       {{I32, SHAPE(2, 2), {1, 1, 2, 2}}, {I64, SHAPE(2, 2), {2, 0, 1, 1}}},
       1,
       2},
      {"NaN is largest",
       NODE(TOPK, delta_topk_attrs_t, .axis = 0, .k = 4),
       {{F32, SHAPE(4), {INFINITY, NAN, 1, NAN}}},
       {{F32, SHAPE(4), {NAN, NAN, INFINITY, 1}}, {I64, SHAPE(4), {1, 3, 0, 2}}},
       1,
       2},
      {"none",
       NODE(TOPK, delta_topk_attrs_t, .axis = 0, .k = 0),
       {{F32, SHAPE(2), {1, 2}}},
       {{F32, SHAPE(0), {0}}, {I64, SHAPE(0), {0}}},
       1,
       2},
  };
  CHECK_CASES(rows);
}

// An index outside is an error that names the node, in every index operator.
Test(reference_kernels, index_outside_is_an_error) {
  const kernel_case_t rows[] = {
      {"gather", NODE(GATHER, delta_gather_attrs_t, 0), {{F32, SHAPE(3), {0}}, {I64, SHAPE(2), {0, 3}}}, {{0}}, 2, 1},
      {"gather_grad",
       NODE(GATHER_GRAD, delta_gather_attrs_t, .data_shape = SHAPE(3)),
       {{I64, SHAPE(1), {-4}}, {F32, SHAPE(1), {0}}},
       {{0}},
       2,
       1},
      {"gather_elements", NODE(GATHER_ELEMENTS, delta_gather_attrs_t, 0), {{F32, SHAPE(3), {0}}, {I64, SHAPE(1), {-4}}}, {{0}}, 2, 1},
      {"gather_nd", NODE(GATHER_ND, delta_gather_attrs_t, 0), {{F32, SHAPE(3), {0}}, {I64, SHAPE(1, 1), {3}}}, {{0}}, 2, 1},
      {"scatter_elements",
       NODE(SCATTER_ELEMENTS, delta_scatter_attrs_t, 0),
       {{F32, SHAPE(3), {0}}, {I32, SHAPE(1), {3}}, {F32, SHAPE(1), {0}}},
       {{0}},
       3,
       1},
      {"scatter_nd",
       NODE(SCATTER_ND, delta_scatter_attrs_t, 0),
       {{F32, SHAPE(3), {0}}, {I64, SHAPE(1, 1), {-5}}, {F32, SHAPE(1), {0}}},
       {{0}},
       3,
       1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    delta_test_tensor_t inputs[MOST_OPERANDS], output;
    const delta_test_tensor_t *operands[MOST_OPERANDS];
    for (uint32_t k = 0; k < rows[i].input_count; ++k) {
      inputs[k] = delta_test_tensor_of(rows[i].inputs[k].dtype, &rows[i].inputs[k].shape, rows[i].inputs[k].values);
      operands[k] = &inputs[k];
    }
    delta_status_t status = delta_test_run_node(&rows[i].node, operands, rows[i].input_count, &output, 1);
    cr_assert_eq(delta_status_code(status), DELTA_STATUS_INVALID_ARGUMENT, "%s", rows[i].name);
    cr_assert_not_null(strstr(delta_status_message(status), "node 'node'"), "%s: %s", rows[i].name, delta_status_message(status));
    cr_assert_not_null(strstr(delta_status_message(status), rows[i].name), "%s: %s", rows[i].name, delta_status_message(status));
    delta_status_free(status);
    for (uint32_t k = 0; k < rows[i].input_count; ++k) delta_test_tensor_free(&inputs[k]);
  }
}
