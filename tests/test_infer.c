// Inference: the outputs of every core operator, and refusal of what hostile files may state.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "onnx/graph/emit.h"

enum { INPUTS_MAX = 7, OUTPUTS_MAX = 4 };
typedef struct operand {
  delta_dtype_t dtype;
  delta_shape_t shape;
} operand_t;

typedef struct infer_case {
  const char *what;
  delta_core_op_t op;
  const void *attrs;
  size_t attrs_bytes;
  uint32_t input_count, output_count;
  operand_t inputs[INPUTS_MAX];
  const char *wanted; // types and shapes of the outputs; or, after '!', a part of the message
} infer_case_t;

#define DIMS(...)                                                                                        \
  {                                                                                                      \
    .rank = (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .dims = { __VA_ARGS__ } \
  }
#define F(...) \
  { DELTA_DTYPE_FLOAT32, DIMS(__VA_ARGS__) }
#define D(...) \
  { DELTA_DTYPE_FLOAT64, DIMS(__VA_ARGS__) }
#define I(...) \
  { DELTA_DTYPE_INT64, DIMS(__VA_ARGS__) }
#define U8(...) \
  { DELTA_DTYPE_UINT8, DIMS(__VA_ARGS__) }
#define INT64_SCALAR         \
  {                          \
    DELTA_DTYPE_INT64, { 0 } \
  }
#define ATTRS(type, ...) &(const type){__VA_ARGS__}, sizeof(type)

#define WINDOW2(k, s, d, p)                                                                                            \
  {                                                                                                                    \
    .spatial = 2, .kernel = {k, k}, .strides = {s, s}, .dilations = {d, d}, .pads_begin = {p, p}, .pads_end = { p, p } \
  }
#define CONV(k, s, d, p, g, in) ATTRS(delta_conv_attrs_t, .window = WINDOW2(k, s, d, p), .group = g, .data_spatial = {in, in})
#define POOL(k, s, p, in, out, i) \
  ATTRS(delta_pool_attrs_t, .window = WINDOW2(k, s, 1, p), .out_spatial = {out, out}, .data_spatial = {in, in}, .index = i)

static const infer_case_t cases[] = {
    {"view", DELTA_CORE_VIEW, ATTRS(delta_view_attrs_t, DIMS(6)), 1, 1, {F(2, 3)}, "float32[6]"},
    {"view of another count", DELTA_CORE_VIEW, ATTRS(delta_view_attrs_t, DIMS(7)), 1, 1, {F(2, 3)}, "!shape [7]"},
    {"view of negative size", DELTA_CORE_VIEW, ATTRS(delta_view_attrs_t, DIMS(-2, -3)), 1, 1, {F(2, 3)}, "!"},
    {"view that overflows", DELTA_CORE_VIEW, ATTRS(delta_view_attrs_t, DIMS(INT64_MAX, 4)), 1, 1, {F(2, 3)}, "!"},
    {"moments", DELTA_CORE_MOMENTS, ATTRS(delta_moments_attrs_t, 5), 1, 2, {F(2, 3, 4)}, "float32[1, 3, 1] float32[1, 3, 1]"},
    {"moments beyond the rank", DELTA_CORE_MOMENTS, ATTRS(delta_moments_attrs_t, 9), 1, 2, {F(2, 3)}, "!axes has the bits 0x9"},
    {"moments of integers", DELTA_CORE_MOMENTS, ATTRS(delta_moments_attrs_t, 1), 1, 2, {I(2, 3)}, "!float type"},
    {"arg_reduce", DELTA_CORE_ARG_REDUCE, ATTRS(delta_arg_reduce_attrs_t, .axis = 1), 1, 1, {F(2, 3)}, "int64[2, 1]"},
    {"arg_reduce of nothing", DELTA_CORE_ARG_REDUCE, ATTRS(delta_arg_reduce_attrs_t, .axis = 1), 1, 1, {F(2, 0)}, "!no elements"},
    {"arg_reduce, negative axis", DELTA_CORE_ARG_REDUCE, ATTRS(delta_arg_reduce_attrs_t, .axis = -1), 1, 1, {F(2, 3)}, "!axis is -1"},
    {"matmul", DELTA_CORE_MATMUL, ATTRS(delta_matmul_attrs_t, false, true), 2, 1, {F(5, 1, 2, 3), F(7, 4, 3)}, "float32[5, 7, 2, 4]"},
    {"matmul, added", DELTA_CORE_MATMUL, ATTRS(delta_matmul_attrs_t, 0), 3, 1, {F(2, 3), F(3, 4), F(2, 4)}, "float32[2, 4]"},
    {"matmul, added another shape", DELTA_CORE_MATMUL, ATTRS(delta_matmul_attrs_t, 0), 3, 1, {F(2, 3), F(3, 4), F(4)}, "!what is added"},
    {"matmul, bias", DELTA_CORE_MATMUL, ATTRS(delta_matmul_attrs_t, 0), 4, 1, {F(2, 3), F(3, 4), F(2, 4), F(4)}, "float32[2, 4]"},
    {"matmul, bias of rows", DELTA_CORE_MATMUL, ATTRS(delta_matmul_attrs_t, 0), 4, 1, {F(2, 3), F(3, 4), F(2, 4), F(2)}, "!bias"},
    {"matmul, depths", DELTA_CORE_MATMUL, ATTRS(delta_matmul_attrs_t, true, false), 2, 1, {F(2, 3), F(3, 4)}, "!do not multiply"},
    {"matmul, vector", DELTA_CORE_MATMUL, ATTRS(delta_matmul_attrs_t, 0), 2, 1, {F(3), F(3, 4)}, "!two dimensions"},
    {"matmul, types", DELTA_CORE_MATMUL, ATTRS(delta_matmul_attrs_t, 0), 2, 1, {F(2, 3), D(3, 4)}, "!float64"},
    {"conv", DELTA_CORE_CONV, CONV(3, 2, 1, 1, 1, 8), 3, 1, {F(2, 4, 8, 8), F(6, 4, 3, 3), F(6)}, "float32[2, 6, 4, 4]"},
    {"conv, groups", DELTA_CORE_CONV, CONV(3, 1, 2, 0, 2, 8), 2, 1, {F(2, 4, 8, 8), F(6, 2, 3, 3)}, "float32[2, 6, 4, 4]"},
    {"conv, group of 3", DELTA_CORE_CONV, CONV(3, 1, 1, 0, 3, 8), 2, 1, {F(2, 4, 8, 8), F(6, 2, 3, 3)}, "!group is 3"},
    {"conv, group of 0", DELTA_CORE_CONV, CONV(3, 1, 1, 0, 0, 8), 2, 1, {F(2, 4, 8, 8), F(6, 2, 3, 3)}, "!group is 0"},
    {"conv, kernel too large", DELTA_CORE_CONV, CONV(9, 1, 1, 0, 1, 8), 2, 1, {F(2, 4, 8, 8), F(6, 4, 9, 9)}, "!larger than 8"},
    {"conv, stride 0", DELTA_CORE_CONV, CONV(3, 0, 1, 0, 1, 8), 2, 1, {F(2, 4, 8, 8), F(6, 4, 3, 3)}, "!stride 0"},
    {"conv, huge dilation", DELTA_CORE_CONV, CONV(3, 1, INT64_MAX, 0, 1, 8), 2, 1, {F(2, 4, 8, 8), F(6, 4, 3, 3)}, "!no window"},
    {"conv, huge pads", DELTA_CORE_CONV, CONV(3, 1, 1, INT64_MAX, 1, 8), 2, 1, {F(2, 4, 8, 8), F(6, 4, 3, 3)}, "!pads"},
    {"conv, negative pads", DELTA_CORE_CONV, CONV(3, 1, 1, -1, 1, 8), 2, 1, {F(2, 4, 8, 8), F(6, 4, 3, 3)}, "!pads -1"},
    {"conv, weight", DELTA_CORE_CONV, CONV(3, 1, 1, 0, 1, 8), 2, 1, {F(2, 4, 8, 8), F(6, 3, 3, 3)}, "!weight has shape"},
    {"conv, bias", DELTA_CORE_CONV, CONV(3, 1, 1, 0, 1, 8), 3, 1, {F(2, 4, 8, 8), F(6, 4, 3, 3), F(5)}, "!bias has shape [5]"},
    {"conv, rank", DELTA_CORE_CONV, CONV(3, 1, 1, 0, 1, 8), 2, 1, {F(2, 4, 8), F(6, 4, 3, 3)}, "!rank 3"},
    {"conv_data", DELTA_CORE_CONV_DATA, CONV(3, 2, 1, 1, 1, 8), 3, 1, {F(2, 6, 4, 4), F(6, 4, 3, 3), F(4)}, "float32[2, 4, 8, 8]"},
    {"conv_data, size", DELTA_CORE_CONV_DATA, CONV(3, 2, 1, 1, 1, 9), 2, 1, {F(2, 6, 4, 4), F(6, 4, 3, 3)}, "!input has shape"},
    {"conv_weight", DELTA_CORE_CONV_WEIGHT, CONV(3, 2, 1, 1, 2, 8), 2, 1, {F(2, 4, 8, 8), F(2, 6, 4, 4)}, "float32[6, 2, 3, 3]"},
    {"max_pool",
     DELTA_CORE_MAX_POOL,
     POOL(2, 2, 0, 8, 4, DELTA_POOL_INDEX_FLAT),
     1,
     2,
     {F(1, 3, 8, 8)},
     "float32[1, 3, 4, 4] int64[1, 3, 4, 4]"},
    {"max_pool, large window", DELTA_CORE_MAX_POOL, POOL(16, 1, 0, 16, 1, DELTA_POOL_INDEX_WINDOW), 1, 2, {F(1, 3, 16, 16)}, "!255"},
    {"max_pool, outside", DELTA_CORE_MAX_POOL, POOL(2, 2, 0, 8, 5, DELTA_POOL_INDEX_FLAT), 1, 1, {F(1, 3, 8, 8)}, "!do not begin inside"},
    {"max_pool, overflow", DELTA_CORE_MAX_POOL, POOL(2, INT64_MAX, 0, 8, 5, DELTA_POOL_INDEX_FLAT), 1, 1, {F(1, 3, 8, 8)}, "!windows"},
    {"max_pool_grad",
     DELTA_CORE_MAX_POOL_GRAD,
     POOL(2, 2, 0, 8, 4, DELTA_POOL_INDEX_WINDOW),
     2,
     1,
     {F(1, 3, 4, 4), U8(1, 3, 4, 4)},
     "float32[1, 3, 8, 8]"},
    {"max_pool_grad, index",
     DELTA_CORE_MAX_POOL_GRAD,
     POOL(2, 2, 0, 8, 4, DELTA_POOL_INDEX_FLAT),
     2,
     1,
     {F(1, 3, 4, 4), U8(1, 3, 4, 4)},
     "!index"},
    {"average_pool", DELTA_CORE_AVERAGE_POOL, POOL(3, 2, 1, 8, 4, DELTA_POOL_INDEX_FLAT), 1, 1, {F(1, 3, 8, 8)}, "float32[1, 3, 4, 4]"},
    {"average_pool_grad",
     DELTA_CORE_AVERAGE_POOL_GRAD,
     POOL(3, 2, 1, 8, 4, DELTA_POOL_INDEX_FLAT),
     1,
     1,
     {F(1, 3, 4, 4)},
     "float32[1, 3, 8, 8]"},
#define ATTENTION(...) ATTRS(delta_attention_attrs_t, .scale = 1, __VA_ARGS__)
    {"attention",
     DELTA_CORE_ATTENTION,
     ATTENTION(.ratio = 0),
     3,
     2,
     {F(2, 3, 4), F(2, 5, 4), F(2, 5, 6)},
     "float32[2, 3, 6] float32[2, 3]"},
    {"attention, heads inside",
     DELTA_CORE_ATTENTION,
     ATTENTION(.heads_inside = true),
     4,
     2,
     {F(2, 3, 7, 4), F(2, 5, 7, 4), F(2, 5, 7, 6), F(2, 1, 3, 5)},
     "float32[2, 3, 7, 6] float32[2, 7, 3]"},
    {"attention, keys", DELTA_CORE_ATTENTION, ATTENTION(.ratio = 0), 3, 1, {F(2, 3, 4), F(2, 5, 3), F(2, 5, 6)}, "!keys"},
    {"attention, values", DELTA_CORE_ATTENTION, ATTENTION(.ratio = 0), 3, 1, {F(2, 3, 4), F(2, 5, 4), F(2, 6, 6)}, "!number of values"},
    {"attention, mask", DELTA_CORE_ATTENTION, ATTENTION(.ratio = 0), 4, 1, {F(2, 3, 4), F(2, 5, 4), F(2, 5, 6), F(4, 5)}, "!broadcast"},
    {"attention, ratio without seed", DELTA_CORE_ATTENTION, ATTENTION(.ratio = 0.1), 3, 1, {F(3, 4), F(5, 4), F(5, 6)}, "!seed"},
    {"attention, ratio", DELTA_CORE_ATTENTION, ATTENTION(.ratio = 2), 3, 1, {F(3, 4), F(5, 4), F(5, 6)}, "!ratio is 2"},
    {"attention, rank", DELTA_CORE_ATTENTION, ATTENTION(.heads_inside = true), 3, 1, {F(3, 4), F(5, 4), F(5, 6)}, "!queries of rank 2"},
    {"attention_grad",
     DELTA_CORE_ATTENTION_GRAD,
     ATTENTION(.ratio = 0),
     7,
     4,
     {F(2, 3, 6), F(2, 3, 6), F(2, 3), F(2, 3, 4), F(2, 5, 4), F(2, 5, 6), F(3, 5)},
     "float32[2, 3, 4] float32[2, 5, 4] float32[2, 5, 6] float32[3, 5]"},
    {"attention_grad, sums",
     DELTA_CORE_ATTENTION_GRAD,
     ATTENTION(.ratio = 0),
     6,
     3,
     {F(2, 3, 6), F(2, 3, 6), F(3, 2), F(2, 3, 4), F(2, 5, 4), F(2, 5, 6)},
     "!log_sum"},
    {"softmax", DELTA_CORE_SOFTMAX, ATTRS(delta_softmax_attrs_t, 1, false), 1, 1, {F(2, 3)}, "float32[2, 3]"},
    {"softmax of a scalar", DELTA_CORE_SOFTMAX, ATTRS(delta_softmax_attrs_t, 0, false), 1, 1, {{DELTA_DTYPE_FLOAT32, {0}}}, "!axis is 0"},
    {"softmax_grad", DELTA_CORE_SOFTMAX_GRAD, ATTRS(delta_softmax_attrs_t, 0, true), 2, 1, {F(2, 3), F(2, 3)}, "float32[2, 3]"},
    {"softmax_grad, shapes", DELTA_CORE_SOFTMAX_GRAD, ATTRS(delta_softmax_attrs_t, 0, true), 2, 1, {F(2, 3), F(3, 2)}, "!shape [3, 2]"},
    {"cross_entropy",
     DELTA_CORE_CROSS_ENTROPY,
     ATTRS(delta_class_loss_attrs_t, 1, 10, false, 0),
     3,
     3,
     {F(4, 10, 5), I(4, 5), F(10)},
     "float32[4, 5] float32[4, 5] float32[4, 5]"},
    {"cross_entropy, labels",
     DELTA_CORE_CROSS_ENTROPY,
     ATTRS(delta_class_loss_attrs_t, 1, 10, false, 0),
     2,
     3,
     {F(4, 10), F(4)},
     "!labels"},
    {"cross_entropy, classes",
     DELTA_CORE_CROSS_ENTROPY,
     ATTRS(delta_class_loss_attrs_t, 1, 9, false, 0),
     2,
     3,
     {F(4, 10), I(4)},
     "!9 classes"},
    {"cross_entropy_grad",
     DELTA_CORE_CROSS_ENTROPY_GRAD,
     ATTRS(delta_class_loss_attrs_t, 1, 10, false, 0),
     4,
     1,
     {F(4), F(4, 10), F(4), I(4)},
     "float32[4, 10]"},
    {"nll", DELTA_CORE_NLL, ATTRS(delta_class_loss_attrs_t, 0, 10, false, 0), 2, 2, {F(10, 3), I(3)}, "float32[3] float32[3]"},
    {"nll_grad", DELTA_CORE_NLL_GRAD, ATTRS(delta_class_loss_attrs_t, 1, 10, false, 0), 2, 1, {F(4, 5), I(4, 5)}, "float32[4, 10, 5]"},
    {"nll_grad, huge", DELTA_CORE_NLL_GRAD, ATTRS(delta_class_loss_attrs_t, 1, INT64_MAX, false, 0), 2, 1, {F(4, 5), I(4, 5)}, "!"},
    {"dropout", DELTA_CORE_DROPOUT, ATTRS(delta_dropout_attrs_t, .ratio = 1), 3, 1, {F(2), INT64_SCALAR, INT64_SCALAR}, "float32[2]"},
    {"dropout, ratio",
     DELTA_CORE_DROPOUT,
     ATTRS(delta_dropout_attrs_t, .ratio = NAN),
     3,
     1,
     {F(2), INT64_SCALAR, INT64_SCALAR},
     "!ratio is nan"},
    {"dropout, seed", DELTA_CORE_DROPOUT, ATTRS(delta_dropout_attrs_t, .ratio = 0), 3, 1, {F(2), I(2), INT64_SCALAR}, "!one int64"},
    {"random",
     DELTA_CORE_RANDOM,
     ATTRS(delta_random_attrs_t, .shape = DIMS(2), .normal = true, .high = 1),
     2,
     1,
     {INT64_SCALAR, INT64_SCALAR},
     "float32[2]"},
    {"random, range",
     DELTA_CORE_RANDOM,
     ATTRS(delta_random_attrs_t, .shape = DIMS(2), .low = 1),
     2,
     1,
     {INT64_SCALAR, INT64_SCALAR},
     "!low and high"},
    {"transpose", DELTA_CORE_TRANSPOSE, ATTRS(delta_transpose_attrs_t, {2, 0, 1}), 1, 1, {F(2, 3, 4)}, "float32[4, 2, 3]"},
    {"transpose, repeated",
     DELTA_CORE_TRANSPOSE,
     ATTRS(delta_transpose_attrs_t, {1, 1, 0}),
     1,
     1,
     {F(2, 3, 4)},
     "!permutation has 1 twice"},
    {"transpose, outside", DELTA_CORE_TRANSPOSE, ATTRS(delta_transpose_attrs_t, {0, 1, 40}), 1, 1, {F(2, 3, 4)}, "!permutation is 40"},
    {"slice", DELTA_CORE_SLICE, ATTRS(delta_slice_attrs_t, DIMS(2, 2), DIMS(4, 5), {3, 0}, {-2, 4}), 1, 1, {F(4, 5)}, "float32[2, 2]"},
    {"slice, outside", DELTA_CORE_SLICE, ATTRS(delta_slice_attrs_t, DIMS(2, 3), DIMS(4, 5), {3, 0}, {-2, 4}), 1, 1, {F(4, 5)}, "!axis 1"},
    {"slice, step 0", DELTA_CORE_SLICE, ATTRS(delta_slice_attrs_t, DIMS(2), DIMS(4), {0}, {0}), 1, 1, {F(4)}, "!by 0"},
    {"slice, overflow", DELTA_CORE_SLICE, ATTRS(delta_slice_attrs_t, DIMS(3), DIMS(4), {3}, {INT64_MIN}), 1, 1, {F(4)}, "!axis 0"},
    {"slice_grad", DELTA_CORE_SLICE_GRAD, ATTRS(delta_slice_attrs_t, DIMS(2), DIMS(4), {0}, {2}), 1, 1, {F(2)}, "float32[4]"},
    {"split",
     DELTA_CORE_SPLIT,
     ATTRS(delta_split_attrs_t, 1, (const int64_t[]){1, 0, 2}),
     1,
     3,
     {F(2, 3)},
     "float32[2, 1] float32[2, 0] float32[2, 2]"},
    {"split, sum", DELTA_CORE_SPLIT, ATTRS(delta_split_attrs_t, 1, (const int64_t[]){1, 1}), 1, 2, {F(2, 3)}, "!sum to 2"},
    {"split, negative", DELTA_CORE_SPLIT, ATTRS(delta_split_attrs_t, 1, (const int64_t[]){4, -1}), 1, 2, {F(2, 3)}, "!size 1 is -1"},
    {"concat", DELTA_CORE_CONCAT, ATTRS(delta_split_attrs_t, 1, NULL), 2, 1, {F(2, 3), F(2, 0)}, "float32[2, 3]"},
    {"concat, shapes", DELTA_CORE_CONCAT, ATTRS(delta_split_attrs_t, 1, NULL), 2, 1, {F(2, 3), F(3, 3)}, "!has shape [3, 3]"},
    {"concat, ranks", DELTA_CORE_CONCAT, ATTRS(delta_split_attrs_t, 1, NULL), 2, 1, {F(2, 3), F(2)}, "!has shape [2]"},
    {"pad",
     DELTA_CORE_PAD,
     ATTRS(delta_pad_attrs_t, .begin = {1, -1}, .end = {0, 2}, .data_shape = DIMS(2, 3)),
     1,
     1,
     {F(2, 3)},
     "float32[3, 4]"},
    {"pad, cut away",
     DELTA_CORE_PAD,
     ATTRS(delta_pad_attrs_t, .begin = {-2}, .end = {-2}, .data_shape = DIMS(3)),
     1,
     1,
     {F(3)},
     "!cannot be padded by -2 and -2"},
    {"pad, cut and refill",
     DELTA_CORE_PAD,
     ATTRS(delta_pad_attrs_t, .begin = {-5}, .end = {9}, .data_shape = DIMS(3)),
     1,
     1,
     {F(3)},
     "!cannot be padded"},
    {"pad, reflection",
     DELTA_CORE_PAD,
     ATTRS(delta_pad_attrs_t, DELTA_PAD_REFLECT, .begin = {3}, .data_shape = DIMS(3)),
     1,
     1,
     {F(3)},
     "!cannot be padded by 3"},
    {"pad, edge of nothing",
     DELTA_CORE_PAD,
     ATTRS(delta_pad_attrs_t, DELTA_PAD_EDGE, .begin = {1}, .data_shape = DIMS(0)),
     1,
     1,
     {F(0)},
     "!cannot be padded"},
    {"pad, overflow",
     DELTA_CORE_PAD,
     ATTRS(delta_pad_attrs_t, .begin = {INT64_MAX}, .end = {INT64_MAX}, .data_shape = DIMS(3)),
     1,
     1,
     {F(3)},
     "!cannot be padded"},
    {"pad_grad", DELTA_CORE_PAD_GRAD, ATTRS(delta_pad_attrs_t, .begin = {1}, .data_shape = DIMS(3)), 1, 1, {F(4)}, "float32[3]"},
    {"gather", DELTA_CORE_GATHER, ATTRS(delta_gather_attrs_t, .axis = 1), 2, 1, {F(2, 3, 4), I(5, 6)}, "float32[2, 5, 6, 4]"},
    {"gather, rank",
     DELTA_CORE_GATHER,
     ATTRS(delta_gather_attrs_t, .axis = 1),
     2,
     1,
     {F(2, 3, 4, 1, 1), I(1, 1, 1, 1, 1)},
     "!8 dimensions"},
    {"gather, indices", DELTA_CORE_GATHER, ATTRS(delta_gather_attrs_t, .axis = 1), 2, 1, {F(2, 3), F(5)}, "!indices"},
    {"gather of nothing", DELTA_CORE_GATHER, ATTRS(delta_gather_attrs_t, .axis = 0), 2, 1, {F(0, 3), I(5)}, "!no elements"},
    {"gather_grad",
     DELTA_CORE_GATHER_GRAD,
     ATTRS(delta_gather_attrs_t, .axis = 0, .data_shape = DIMS(9, 3)),
     2,
     1,
     {I(5), F(5, 3)},
     "float32[9, 3]"},
    {"gather_elements", DELTA_CORE_GATHER_ELEMENTS, ATTRS(delta_gather_attrs_t, .axis = 1), 2, 1, {F(2, 3), I(2, 9)}, "float32[2, 9]"},
    {"gather_elements, size", DELTA_CORE_GATHER_ELEMENTS, ATTRS(delta_gather_attrs_t, .axis = 1), 2, 1, {F(2, 3), I(3, 3)}, "!do not fit"},
    {"scatter_elements",
     DELTA_CORE_SCATTER_ELEMENTS,
     ATTRS(delta_scatter_attrs_t, .axis = 0),
     3,
     1,
     {F(2, 3), I(2, 2), F(2, 2)},
     "float32[2, 3]"},
    {"scatter_elements, updates",
     DELTA_CORE_SCATTER_ELEMENTS,
     ATTRS(delta_scatter_attrs_t, .axis = 0),
     3,
     1,
     {F(2, 3), I(2, 2), F(2, 1)},
     "!updates"},
    {"gather_nd", DELTA_CORE_GATHER_ND, ATTRS(delta_gather_attrs_t, .batch_dims = 1), 2, 1, {F(2, 3, 4), I(2, 7, 1)}, "float32[2, 7, 4]"},
    {"gather_nd, depth", DELTA_CORE_GATHER_ND, ATTRS(delta_gather_attrs_t, .batch_dims = 1), 2, 1, {F(2, 3, 4), I(2, 7, 3)}, "!do not fit"},
    {"gather_nd, batch",
     DELTA_CORE_GATHER_ND,
     ATTRS(delta_gather_attrs_t, .batch_dims = -1),
     2,
     1,
     {F(2, 3, 4), I(2, 7, 1)},
     "!batch_dims -1"},
    {"scatter_nd", DELTA_CORE_SCATTER_ND, ATTRS(delta_scatter_attrs_t, 0), 3, 1, {F(4, 3), I(5, 1), F(5, 3)}, "float32[4, 3]"},
    {"trilu", DELTA_CORE_TRILU, ATTRS(delta_trilu_attrs_t, .k = INT64_MIN), 1, 1, {F(4, 3)}, "float32[4, 3]"},
    {"trilu, vector", DELTA_CORE_TRILU, ATTRS(delta_trilu_attrs_t, 0), 1, 1, {F(4)}, "!rank 1"},
    {"cumsum", DELTA_CORE_CUMSUM, ATTRS(delta_cumsum_attrs_t, .axis = 0), 1, 1, {F(4)}, "float32[4]"},
    {"cumsum, axis", DELTA_CORE_CUMSUM, ATTRS(delta_cumsum_attrs_t, .axis = 1), 1, 1, {F(4)}, "!axis is 1"},
    {"topk", DELTA_CORE_TOPK, ATTRS(delta_topk_attrs_t, .axis = 0, .k = 2), 1, 2, {F(4)}, "float32[2] int64[2]"},
    {"topk, too many", DELTA_CORE_TOPK, ATTRS(delta_topk_attrs_t, .axis = 0, .k = 5), 1, 2, {F(4)}, "!k is 5"},
    {"resize",
     DELTA_CORE_RESIZE,
     ATTRS(delta_resize_attrs_t, .scales = {2, 2}, .out_shape = DIMS(4, 6), .data_shape = DIMS(2, 3)),
     1,
     1,
     {F(2, 3)},
     "float32[4, 6]"},
    {"resize, scale",
     DELTA_CORE_RESIZE,
     ATTRS(delta_resize_attrs_t, .scales = {2, 0}, .out_shape = DIMS(4, 6), .data_shape = DIMS(2, 3)),
     1,
     1,
     {F(2, 3)},
     "!scale 0"},
    {"resize, huge",
     DELTA_CORE_RESIZE,
     ATTRS(delta_resize_attrs_t, .scales = {2, 2}, .out_shape = DIMS(INT64_MAX, 2), .data_shape = DIMS(2, 3)),
     1,
     1,
     {F(2, 3)},
     "!"},
    {"resize_grad",
     DELTA_CORE_RESIZE_GRAD,
     ATTRS(delta_resize_attrs_t, .scales = {2, 2}, .out_shape = DIMS(4, 6), .data_shape = DIMS(2, 3)),
     1,
     1,
     {F(4, 6)},
     "float32[2, 3]"},
    {"too few inputs", DELTA_CORE_MATMUL, ATTRS(delta_matmul_attrs_t, 0), 1, 1, {F(2, 3)}, "!1 inputs"},
    {"too many outputs", DELTA_CORE_TRILU, ATTRS(delta_trilu_attrs_t, 0), 1, 2, {F(2, 3)}, "!2 outputs"},
};

// "float32[2, 3] int64[4]".
static void describe(const delta_graph_t *graph, const delta_tensor_id_t *ids, uint32_t count, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (uint32_t k = 0; k < count; ++k) {
    char shape[DELTA_SHAPE_TEXT_BYTES];
    const delta_tensor_t *tensor = delta_graph_tensor(graph, ids[k]);
    used += (size_t)snprintf(text + used, size - used, "%s%s%s", k ? " " : "", delta_dtype_name(tensor->dtype),
                             delta_shape_text(&tensor->shape, shape));
  }
}

static void run_case(const infer_case_t *c) {
  delta_graph_t *graph = NULL;
  cr_assert_eq(delta_graph_create(delta_allocator_system(), &graph), DELTA_OK);
  delta_tensor_id_t inputs[INPUTS_MAX], outputs[OUTPUTS_MAX];
  for (uint32_t k = 0; k < c->input_count; ++k) {
    char name[16];
    snprintf(name, sizeof name, "x%u", k);
    cr_assert_eq(delta_graph_add_input(graph, name, c->inputs[k].dtype, &c->inputs[k].shape, &inputs[k]), DELTA_OK);
  }
  delta_emit_t emit;
  delta_emit_init(&emit, graph);
  emit.name = "tested";
  delta_emit_node(&emit, c->op, c->attrs, c->attrs_bytes, inputs, c->input_count, outputs, c->output_count, UINT64_MAX);
  delta_status_t status = delta_emit_finish(&emit);
  const char *message = delta_status_message(status);
  if (c->wanted[0] == '!') {
    cr_expect_neq(status, DELTA_OK, "%s is accepted", c->what);
    cr_expect_not_null(strstr(message, c->wanted + 1), "%s: %s", c->what, message);
    cr_expect_not_null(strstr(message, "node 'tested' ("), "%s: %s", c->what, message);
  } else if (status) {
    cr_expect(false, "%s: %s", c->what, message);
  } else {
    char text[512];
    describe(graph, outputs, c->output_count, text, sizeof text);
    cr_expect_str_eq(text, c->wanted, "%s: %s", c->what, text);
  }
  delta_status_free(status);
  delta_graph_free(graph);
}

Test(infer, outputs_are_as_stated_and_bad_attributes_are_refused) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) run_case(&cases[i]);
}

Test(infer, every_operator_has_a_case) {
  for (int op = 0; op < DELTA_CORE_OP_COUNT; ++op) {
    // Made by emits of their own, and tested with them.
    if (op == DELTA_CORE_CONSTANT || op == DELTA_CORE_POINTWISE || op == DELTA_CORE_EACH || op == DELTA_CORE_REDUCE) continue;
    bool accepted = false;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) accepted = accepted || ((int)cases[i].op == op && cases[i].wanted[0] != '!');
    cr_expect(accepted, "%s", delta_core_op_info((delta_core_op_t)op)->name);
  }
}
