// Kernels that move, gather and draw, compared with the reference.
#include <criterion/criterion.h>

#include "tests/support/case_macros.h"

Test(movement_kernels, transpose) {
#define TRANSPOSE(...) NODE(TRANSPOSE, delta_transpose_attrs_t, {__VA_ARGS__}), 1, 1
  const delta_kernel_case_t rows[] = {
      {"matrix", TRANSPOSE(1, 0), .inputs = {REALS(67, 45)}},
      {"large matrix", TRANSPOSE(1, 0), .inputs = {REALS(300, 513)}},
      {"identity", TRANSPOSE(0, 1, 2), .inputs = {REALS(5, 6, 7)}},
      {"heads", TRANSPOSE(0, 2, 1, 3), .inputs = {REALS(2, 33, 4, 16)}},
      {"heads, last two", TRANSPOSE(0, 2, 3, 1), .inputs = {REALS(2, 33, 4, 16)}},
      {"channels last", TRANSPOSE(0, 2, 3, 1), .inputs = {REALS(2, 3, 33, 34)}},
      {"channels first", TRANSPOSE(0, 3, 1, 2), .inputs = {REALS(2, 33, 34, 3)}},
      {"reversed", TRANSPOSE(3, 2, 1, 0), .inputs = {REALS(3, 4, 5, 6)}},
      {"dimensions of 1", TRANSPOSE(2, 0, 3, 1), .inputs = {REALS(1, 7, 1, 9)}},
      {"bytes", TRANSPOSE(1, 0), .inputs = {OF(BOOL8, COUNTING, 2, 70, 33)}},
      {"float16", TRANSPOSE(0, 2, 1), .inputs = {OF(F16, RANDOM, 0, 3, 31, 37)}},
      {"int64", TRANSPOSE(1, 0), .inputs = {OF(I64, COUNTING, 1000, 40, 100)}},
      {"scalar", NODE(TRANSPOSE, delta_transpose_attrs_t, {0}), 1, 1, .inputs = {VALUE(F32, 3)}},
      {"empty", TRANSPOSE(1, 0, 2), .inputs = {REALS(3, 0, 4)}},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(movement_kernels, slice) {
#define SLICE(from, to, starts, steps)      NODE(SLICE, delta_slice_attrs_t, to, from, starts, steps), 1, 1
#define SLICE_GRAD(from, to, starts, steps) NODE(SLICE_GRAD, delta_slice_attrs_t, to, from, starts, steps), 1, 1
#define L(...) \
  { __VA_ARGS__ }
  const delta_kernel_case_t rows[] = {
      {"rows", SLICE(SHAPE(100, 50), SHAPE(20, 50), L(7, 0), L(1, 1)), .inputs = {REALS(100, 50)}},
      {"columns", SLICE(SHAPE(100, 50), SHAPE(100, 13), L(0, 30), L(1, 1)), .inputs = {REALS(100, 50)}},
      {"backwards", SLICE(SHAPE(9, 10), SHAPE(9, 10), L(8, 9), L(-1, -1)), .inputs = {REALS(9, 10)}},
      {"every third", SLICE(SHAPE(4, 200), SHAPE(2, 66), L(1, 1), L(2, 3)), .inputs = {REALS(4, 200)}},
      {"large", SLICE(SHAPE(8, 64, 500), SHAPE(8, 32, 400), L(0, 16, 50), L(1, 1, 1)), .inputs = {REALS(8, 64, 500)}},
      {"nothing", SLICE(SHAPE(4, 5), SHAPE(0, 5), L(0, 0), L(1, 1)), .inputs = {REALS(4, 5)}},
      {"booleans", SLICE(SHAPE(7, 7), SHAPE(3, 4), L(1, 6), L(2, -1)), .inputs = {OF(BOOL8, COUNTING, 2, 7, 7)}},
      {"gradient of rows", SLICE_GRAD(SHAPE(100, 50), SHAPE(20, 50), L(7, 0), L(1, 1)), .inputs = {REALS(20, 50)}},
      {"gradient, backwards", SLICE_GRAD(SHAPE(9, 10), SHAPE(3, 5), L(8, 9), L(-2, -2)), .inputs = {REALS(3, 5)}},
      {"gradient, large", SLICE_GRAD(SHAPE(8, 64, 500), SHAPE(8, 32, 400), L(0, 16, 50), L(1, 1, 1)), .inputs = {REALS(8, 32, 400)}},
      {"gradient of nothing", SLICE_GRAD(SHAPE(4, 5), SHAPE(0, 5), L(0, 0), L(1, 1)), .inputs = {REALS(0, 5)}},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(movement_kernels, split_and_concat) {
#define SPLIT(axis, ...) NODE(SPLIT, delta_split_attrs_t, axis, (const int64_t[]){__VA_ARGS__}), 1
#define CONCAT(axis_)    NODE(CONCAT, delta_split_attrs_t, .axis = axis_)
  const delta_kernel_case_t rows[] = {
      {"split rows", SPLIT(0, 3, 4, 5), 3, .inputs = {REALS(12, 7)}},
      {"split columns", SPLIT(2, 16, 16, 16), 3, .inputs = {REALS(5, 9, 48)}},
      {"split with an empty part", SPLIT(1, 2, 0, 3), 3, .inputs = {REALS(4, 5)}},
      {"split large", SPLIT(1, 100, 156), 2, .inputs = {REALS(64, 256, 5)}},
      {"split int64", SPLIT(0, 1, 2), 2, .inputs = {OF(I64, COUNTING, 100, 3, 2)}},
      {"concat rows", CONCAT(0), 3, 1, .inputs = {REALS(2, 7), REALS(3, 7), REALS(1, 7)}},
      {"concat columns", CONCAT(1), 2, 1, .inputs = {REALS(33, 20), REALS(33, 1)}},
      {"concat with an empty part", CONCAT(1), 3, 1, .inputs = {REALS(4, 2), REALS(4, 0), REALS(4, 3)}},
      {"concat lines", CONCAT(1), 3, 1, .inputs = {REALS(7, 64), REALS(7, 128), REALS(7, 192)}},
      {"concat halves", CONCAT(1), 2, 1, .inputs = {REALS(8, 16, 40, 40), REALS(8, 16, 40, 40)}},
      {"split uneven channels", SPLIT(1, 32, 96, 64), 3, .inputs = {REALS(5, 192, 9, 9)}},
      {"split short lines", SPLIT(1, 1, 2), 2, .inputs = {REALS(20000, 3)}},
      {"concat channels", CONCAT(1), 2, 1, .inputs = {REALS(4, 30, 20, 20), REALS(4, 34, 20, 20)}},
      {"concat one", CONCAT(1), 1, 1, .inputs = {REALS(4, 2)}},
      {"concat bytes", CONCAT(0), 2, 1, .inputs = {OF(BOOL8, COUNTING, 2, 3), OF(BOOL8, COUNTING, 2, 5)}},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(movement_kernels, pad) {
#define PAD(mode, from, begin, end, value) NODE(PAD, delta_pad_attrs_t, DELTA_PAD_##mode, begin, end, value, from), 1, 1
#define PAD_GRAD(mode, from, begin, end)   NODE(PAD_GRAD, delta_pad_attrs_t, DELTA_PAD_##mode, begin, end, 0, from), 1, 1
  const delta_kernel_case_t rows[] = {
      {"around", PAD(CONSTANT, SHAPE(2, 3, 5, 6), L(0, 0, 1, 2), L(0, 0, 3, 4), 1.5), .inputs = {REALS(2, 3, 5, 6)}},
      {"large", PAD(CONSTANT, SHAPE(4, 32, 30, 30), L(0, 0, 1, 1), L(0, 0, 1, 1), 0), .inputs = {REALS(4, 32, 30, 30)}},
      {"cut", PAD(CONSTANT, SHAPE(6, 7), L(-2, 3), L(1, -4), -1), .inputs = {REALS(6, 7)}},
      {"of nothing", PAD(CONSTANT, SHAPE(0, 2), L(1, 0), L(2, 1), 7), .inputs = {REALS(0, 2)}},
      {"to nothing", PAD(CONSTANT, SHAPE(2, 2), L(-1, 0), L(-1, 0), 7), .inputs = {REALS(2, 2)}},
      {"int64", PAD(CONSTANT, SHAPE(3), L(2), L(1), 9), .inputs = {OF(I64, COUNTING, 5, 3)}},
      {"infinite", PAD(CONSTANT, SHAPE(3, 3), L(1, 1), L(0, 2), -(double)INFINITY), .inputs = {REALS(3, 3)}},
      {"reflected", PAD(REFLECT, SHAPE(3, 4), L(1, 1), L(1, 1), 0), .inputs = {REALS(3, 4)}, .refused = true},
      {"gradient", PAD_GRAD(CONSTANT, SHAPE(2, 3, 5, 6), L(0, 0, 1, 2), L(0, 0, 3, 4)), .inputs = {REALS(2, 3, 9, 12)}},
      {"gradient of a cut", PAD_GRAD(CONSTANT, SHAPE(6, 7), L(-2, 3), L(1, -4)), .inputs = {REALS(5, 6)}},
      {"gradient of edges", PAD_GRAD(EDGE, SHAPE(3, 4), L(1, 1), L(1, 1)), .inputs = {REALS(5, 6)}, .refused = true},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(movement_kernels, gather) {
#define GATHER(axis_)          NODE(GATHER, delta_gather_attrs_t, .axis = axis_), 2, 1
#define GATHER_GRAD(axis, ...) NODE(GATHER_GRAD, delta_gather_attrs_t, axis, 0, SHAPE(__VA_ARGS__)), 2, 1
  const delta_kernel_case_t rows[] = {
      {"embedding", GATHER(0), .inputs = {REALS(1000, 33), OF(I64, COUNTING, 1000, 4, 65)}},
      {"negative int32 indices", GATHER(0), .inputs = {REALS(10, 3), OF(I32, INDICES, 10, 7)}},
      {"columns", GATHER(1), .inputs = {REALS(33, 20), OF(I64, INDICES, 20, 2, 3)}},
      {"middle", GATHER(1), .inputs = {REALS(3, 8, 5), OF(I64, INDICES, 8, 6)}},
      {"a scalar index", GATHER(0), .inputs = {REALS(4, 5), VALUE(I64, -1)}},
      {"no index", GATHER(0), .inputs = {REALS(4, 5), OF(I64, COUNTING, 4, 0)}},
      {"empty slices", GATHER(0), .inputs = {REALS(4, 0), OF(I64, COUNTING, 4, 2)}},
      {"int64 data", GATHER(0), .inputs = {OF(I64, COUNTING, 100, 9), OF(I64, COUNTING, 9, 5)}},
      {"outside", GATHER(0), .inputs = {REALS(4, 5), OF(I64, VALUE, 4, 3)}, .error = "node 'node' (gather): index 4"},
      {"before the first", GATHER(0), .inputs = {REALS(4, 5), OF(I32, VALUE, -5, 3)}, .error = "index -5"},
      {"gradient of an embedding", GATHER_GRAD(0, 500, 33), .inputs = {OF(I64, COUNTING, 500, 4, 300), REALS(4, 300, 33)},
       .tolerance = 1e-5},
      {"gradient, many the same", GATHER_GRAD(0, 3, 40), .inputs = {OF(I64, COUNTING, 3, 900), REALS(900, 40)}, .tolerance = 2e-5},
      {"gradient of columns", GATHER_GRAD(1, 33, 20), .inputs = {OF(I32, INDICES, 20, 30), REALS(33, 30)}, .tolerance = 1e-5},
      {"gradient, large columns", GATHER_GRAD(1, 64, 50, 40), .inputs = {OF(I32, INDICES, 50, 30), REALS(64, 30, 40)}, .tolerance = 1e-5},
      {"gradient of no index", GATHER_GRAD(0, 4, 5), .inputs = {OF(I64, COUNTING, 4, 0), REALS(0, 5)}},
      {"gradient, outside", GATHER_GRAD(0, 4, 5), .inputs = {OF(I64, VALUE, 7, 2), REALS(2, 5)}, .error = "index 7"},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(movement_kernels, elements) {
#define GATHER_ELEMENTS(axis_) NODE(GATHER_ELEMENTS, delta_gather_attrs_t, .axis = axis_), 2, 1
#define SCATTER(axis, kind)    NODE(SCATTER_ELEMENTS, delta_scatter_attrs_t, axis, DELTA_SCATTER_##kind), 3, 1
  const delta_kernel_case_t rows[] = {
      {"gather along the last", GATHER_ELEMENTS(1), .inputs = {REALS(30, 40), OF(I64, INDICES, 40, 20, 7)}},
      {"gather along the first", GATHER_ELEMENTS(0), .inputs = {REALS(30, 40, 5), OF(I64, INDICES, 30, 70, 33, 4)}},
      {"gather along the middle", GATHER_ELEMENTS(1), .inputs = {REALS(3, 40, 5), OF(I32, INDICES, 40, 3, 11, 5)}},
      {"gather large", GATHER_ELEMENTS(1), .inputs = {REALS(300, 400), OF(I64, COUNTING, 400, 300, 100)}},
      {"gather nothing", GATHER_ELEMENTS(1), .inputs = {REALS(3, 4), OF(I64, COUNTING, 4, 0, 2)}},
      {"gather bytes", GATHER_ELEMENTS(0), .inputs = {OF(BOOL8, COUNTING, 2, 9), OF(I64, COUNTING, 9, 5)}},
      {"gather outside", GATHER_ELEMENTS(1), .inputs = {REALS(3, 4), OF(I64, VALUE, -5, 3, 2)}, .error = "index -5"},
      {"add along the last", SCATTER(1, ADD), .inputs = {REALS(30, 40), OF(I64, INDICES, 40, 30, 70), REALS(30, 70)}, .tolerance = 1e-5},
      {"add along the first", SCATTER(0, ADD), .inputs = {REALS(30, 40), OF(I64, INDICES, 30, 70, 40), REALS(70, 40)}, .tolerance = 1e-5},
      {"add along the middle", SCATTER(1, ADD), .inputs = {REALS(64, 9, 40), OF(I32, INDICES, 9, 64, 20, 33), REALS(64, 20, 33)},
       .tolerance = 1e-5},
      {"put, the last wins", SCATTER(1, NONE), .inputs = {REALS(30, 10), OF(I64, INDICES, 10, 30, 20), REALS(30, 20)}},
      {"put int64", SCATTER(0, NONE), .inputs = {OF(I64, COUNTING, 9, 10), OF(I64, INDICES, 10, 20), OF(I64, COUNTING, 99, 20)}},
      {"put nothing", SCATTER(0, NONE), .inputs = {REALS(3, 4), OF(I64, COUNTING, 3, 0, 4), REALS(0, 4)}},
      {"largest", SCATTER(1, MAX), .inputs = {REALS(3, 4), OF(I64, INDICES, 4, 3, 4), REALS(3, 4)}, .refused = true},
      {"put outside", SCATTER(1, NONE), .inputs = {REALS(3, 4), OF(I64, VALUE, 4, 3, 4), REALS(3, 4)}, .error = "index 4"},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(movement_kernels, triangles) {
#define TRILU(upper, k) NODE(TRILU, delta_trilu_attrs_t, upper, k), 1, 1
  const delta_kernel_case_t rows[] = {
      {"upper", TRILU(true, 0), .inputs = {REALS(5, 7)}},
      {"lower", TRILU(false, 0), .inputs = {REALS(7, 5)}},
      {"upper, batch", TRILU(true, 2), .inputs = {REALS(40, 30, 33)}},
      {"lower, batch", TRILU(false, -3), .inputs = {REALS(40, 33, 30)}},
      {"all", TRILU(true, INT64_MIN), .inputs = {REALS(4, 4)}},
      {"none", TRILU(true, INT64_MAX), .inputs = {REALS(4, 4)}},
      {"lower all", TRILU(false, INT64_MAX), .inputs = {REALS(4, 4)}},
      {"booleans", TRILU(false, 1), .inputs = {OF(BOOL8, VALUE, 1, 9, 9)}},
      {"empty", TRILU(false, 1), .inputs = {REALS(3, 4, 0)}},
      {"no rows", TRILU(false, 1), .inputs = {REALS(3, 0, 4)}},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(movement_kernels, dropout) {
#define DROPOUT(ratio, stream)     NODE(DROPOUT, delta_dropout_attrs_t, ratio, stream, 0), 3
#define PART(ratio, stream, first) NODE(DROPOUT, delta_dropout_attrs_t, ratio, stream, first), 3
#define DRAW                       VALUE(I64, 42), VALUE(I64, 3)
  const delta_kernel_case_t rows[] = {
      {"with a mask", DROPOUT(0.3, 5), 2, .inputs = {REALS(3, 333), DRAW}},
      {"without", DROPOUT(0.5, 6), 1, .inputs = {REALS(257), DRAW}},
      {"nothing dropped", DROPOUT(0, 6), 2, .inputs = {REALS(100), DRAW}},
      {"everything dropped", DROPOUT(1, 6), 2, .inputs = {SPECIALS(100), DRAW}},
      {"large", DROPOUT(0.1, 7), 2, .inputs = {REALS(401, 1001), DRAW}},
      {"a part that begins with a counter", PART(0.1, 7, 1004), 2, .inputs = {REALS(37, 1001), DRAW}},
      {"a part that begins inside one", PART(0.1, 7, 1001), 2, .inputs = {REALS(37, 1001), DRAW}},
      {"special values", DROPOUT(0.1, 8), 2, .inputs = {SPECIALS(5000), DRAW}},
      {"a share of 2^-24 more", DROPOUT(0.25 + 0x1p-25, 8), 2, .inputs = {REALS(5000), DRAW}},
      {"empty", DROPOUT(0.1, 8), 2, .inputs = {REALS(0, 4), DRAW}},
      {"float16", DROPOUT(0.1, 8), 1, .inputs = {OF(F16, RANDOM, 0, 8), DRAW}, .refused = true},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(movement_kernels, random) {
#define DRAWN(shape, dtype, normal, low, high) \
  NODE(RANDOM, delta_random_attrs_t, shape, dtype, normal, low, high, 11), 2, 1, .inputs = { DRAW }
  const delta_kernel_case_t rows[] = {
      {"uniform", DRAWN(SHAPE(3, 333), F32, false, -2, 5)},
      {"normal", DRAWN(SHAPE(1000), F32, true, 1, 0.5)},
      {"uniform, large", DRAWN(SHAPE(300, 333), F32, false, 0, 1)},
      {"normal, large", DRAWN(SHAPE(400, 333), F32, true, 0, 1)},
      {"empty", DRAWN(SHAPE(0), F32, true, 0, 1)},
      {"float64", DRAWN(SHAPE(8), F64, true, 0, 1), .refused = true},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(movement_kernels, constant) {
  static const float values[] = {1, 2, 3, 4, 5, 6};
  static const int64_t numbers[] = {7, 8};
  const delta_kernel_case_t rows[] = {
      {"floats", NODE(CONSTANT, delta_constant_attrs_t, F32, SHAPE(2, 3), values), 0, 1, .tolerance = 0},
      {"int64", NODE(CONSTANT, delta_constant_attrs_t, I64, SHAPE(2), numbers), 0, 1, .tolerance = 0},
      {"scalar", NODE(CONSTANT, delta_constant_attrs_t, F32, SCALAR, values), 0, 1, .tolerance = 0},
      {"empty", NODE(CONSTANT, delta_constant_attrs_t, F32, SHAPE(0), values), 0, 1, .tolerance = 0},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(movement_kernels, along_an_axis) {
#define CUMSUM(...)     NODE(CUMSUM, delta_cumsum_attrs_t, __VA_ARGS__), 1, 1
#define ARG_REDUCE(...) NODE(ARG_REDUCE, delta_arg_reduce_attrs_t, __VA_ARGS__), 1, 1
  const delta_kernel_case_t rows[] = {
      {"sums, last axis", CUMSUM(1, false, false), .inputs = {REALS(30, 300)}},
      {"sums, middle axis", CUMSUM(1, true, false), .inputs = {REALS(5, 90, 130)}},
      {"sums, backwards", CUMSUM(0, false, true), .inputs = {REALS(90, 13)}},
      {"sums, backwards without its own", CUMSUM(1, true, true), .inputs = {SPECIALS(90, 13)}},
      {"sums of nothing", CUMSUM(1, true, true), .inputs = {REALS(90, 0)}},
      {"sums of int64", CUMSUM(0, false, false), .inputs = {OF(I64, COUNTING, 9, 5)}, .refused = true},
      {"largest, last axis", ARG_REDUCE(1, false, false), .inputs = {REALS(300, 70)}},
      {"smallest, first axis", ARG_REDUCE(0, true, false), .inputs = {REALS(70, 300)}},
      {"largest, class axis 1", ARG_REDUCE(1, false, false), .inputs = {REALS(3, 9, 200)}},
      {"largest of equals", ARG_REDUCE(1, false, false), .inputs = {OF(F32, COUNTING, 3, 300, 9)}},
      {"last of equals", ARG_REDUCE(1, true, true), .inputs = {OF(F32, COUNTING, 3, 300, 9)}},
      {"special values", ARG_REDUCE(1, false, false), .inputs = {SPECIALS(900, 9)}},
      {"last of special values", ARG_REDUCE(1, true, true), .inputs = {SPECIALS(900, 9)}},
      {"of int64", ARG_REDUCE(0, false, false), .inputs = {OF(I64, COUNTING, 9, 5)}, .refused = true},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(movement_kernels, resize) {
#define RESIZE(op, mode_, coordinate_, data, out, ...)                                                                               \
  NODE(op, delta_resize_attrs_t, .mode = DELTA_RESIZE_##mode_, .coordinate = DELTA_RESIZE_##coordinate_, .cubic_coefficient = -0.75, \
       .data_shape = data, .out_shape = out, .scales = {__VA_ARGS__}),                                                               \
      1, 1
  const delta_kernel_case_t rows[] = {
      {"nearest, twice", RESIZE(RESIZE, NEAREST, ASYMMETRIC, SHAPE(2, 3, 5, 6), SHAPE(2, 3, 10, 12), 1, 1, 2, 2),
       .inputs = {REALS(2, 3, 5, 6)}},
      {"linear", RESIZE(RESIZE, LINEAR, HALF_PIXEL, SHAPE(2, 30, 15, 16), SHAPE(2, 30, 37, 40), 1, 1, 2.5, 2.5),
       .inputs = {REALS(2, 30, 15, 16)}, .tolerance = 1e-6},
      {"linear, corners", RESIZE(RESIZE, LINEAR, ALIGN_CORNERS, SHAPE(1, 2, 7, 9), SHAPE(1, 2, 4, 3), 1, 1, 0.571428, 0.333333),
       .inputs = {REALS(1, 2, 7, 9)}, .tolerance = 1e-6},
      {"cubic", RESIZE(RESIZE, CUBIC, HALF_PIXEL, SHAPE(1, 3, 8, 9), SHAPE(1, 3, 16, 27), 1, 1, 2, 3), .inputs = {REALS(1, 3, 8, 9)},
       .tolerance = 2e-6},
      {"all axes", RESIZE(RESIZE, LINEAR, HALF_PIXEL, SHAPE(2, 3, 4), SHAPE(4, 6, 8), 2, 2, 2), .inputs = {REALS(2, 3, 4)},
       .tolerance = 1e-6},
      {"no change", RESIZE(RESIZE, LINEAR, HALF_PIXEL, SHAPE(2, 3), SHAPE(2, 3), 1, 1), .inputs = {REALS(2, 3)}},
      {"one axis", RESIZE(RESIZE, LINEAR, HALF_PIXEL, SHAPE(2, 3, 50), SHAPE(2, 3, 75), 1, 1, 1.5), .inputs = {REALS(2, 3, 50)},
       .tolerance = 1e-6},
      {"empty", RESIZE(RESIZE, LINEAR, HALF_PIXEL, SHAPE(0, 3), SHAPE(0, 6), 1, 2), .inputs = {REALS(0, 3)}, .refused = true},
      {"cropped", RESIZE(RESIZE, LINEAR, TF_CROP_AND_RESIZE, SHAPE(4, 4), SHAPE(8, 8), 2, 2), .inputs = {REALS(4, 4)}, .refused = true},
      {"gradient, nearest", RESIZE(RESIZE_GRAD, NEAREST, ASYMMETRIC, SHAPE(2, 3, 5, 6), SHAPE(2, 3, 10, 12), 1, 1, 2, 2),
       .inputs = {REALS(2, 3, 10, 12)}, .tolerance = 1e-6},
      {"gradient, linear", RESIZE(RESIZE_GRAD, LINEAR, HALF_PIXEL, SHAPE(2, 30, 15, 16), SHAPE(2, 30, 37, 40), 1, 1, 2.5, 2.5),
       .inputs = {REALS(2, 30, 37, 40)}, .tolerance = 2e-6},
      {"gradient, cubic", RESIZE(RESIZE_GRAD, CUBIC, HALF_PIXEL, SHAPE(1, 3, 8, 9), SHAPE(1, 3, 16, 27), 1, 1, 2, 3),
       .inputs = {REALS(1, 3, 16, 27)}, .tolerance = 3e-6},
      {"gradient, all axes", RESIZE(RESIZE_GRAD, LINEAR, HALF_PIXEL, SHAPE(2, 3, 4), SHAPE(4, 6, 8), 2, 2, 2), .inputs = {REALS(4, 6, 8)},
       .tolerance = 1e-6},
  };
  CHECK_KERNEL_CASES(rows);
}
