// Kernels of attention, compared with the reference: sizes around the blocks, masks of every form, dropout, rows that see nothing.
#include <criterion/criterion.h>

#include "tests/support/case_macros.h"

#define ATTENTION(...) NODE(ATTENTION, delta_attention_attrs_t, __VA_ARGS__)
#define GRADIENT(...)  NODE(ATTENTION_GRAD, delta_attention_attrs_t, __VA_ARGS__)
#define INSIDE         .heads_inside = true
#define DROPS          .ratio = 0.3, .stream = 9
#define STREAM         VALUE(I64, 3), VALUE(I64, 5)
#define HIDDEN(...)    OF(F32, VALUE, -INFINITY, __VA_ARGS__)

Test(attention_kernels, forward) {
  const delta_kernel_case_t rows[] = {
      {"one head", ATTENTION(.scale = 0.3), 3, 2, .inputs = {REALS(7, 8), REALS(5, 8), REALS(5, 8)}, .tolerance = 1e-5},
      {"blocks", ATTENTION(.scale = 0.125), 3, 2, .inputs = {REALS(2, 3, 100, 64), REALS(2, 3, 130, 64), REALS(2, 3, 130, 64)},
       .tolerance = 1e-5},
      {"odd widths", ATTENTION(.scale = 0.2), 3, 2, .inputs = {REALS(3, 49, 13), REALS(3, 97, 13), REALS(3, 97, 21)}, .tolerance = 1e-5},
      {"one of each", ATTENTION(.scale = 1), 3, 2, .inputs = {REALS(1, 1), REALS(1, 1), REALS(1, 1)}, .tolerance = 1e-5},
      {"heads inside", ATTENTION(.scale = 0.2, INSIDE), 3, 2, .inputs = {REALS(2, 50, 3, 16), REALS(2, 33, 3, 16), REALS(2, 33, 3, 24)},
       .tolerance = 1e-5},
      {"no sums", ATTENTION(.scale = 0.2, INSIDE), 3, 1, .inputs = {REALS(2, 50, 3, 16), REALS(2, 33, 3, 16), REALS(2, 33, 3, 24)},
       .tolerance = 1e-5},
      {"whole mask", ATTENTION(.scale = 0.2), 4, 2,
       .inputs = {REALS(2, 2, 50, 8), REALS(2, 2, 60, 8), REALS(2, 2, 60, 8), REALS(2, 2, 50, 60)}, .tolerance = 1e-5},
      {"mask of queries and keys", ATTENTION(.scale = 0.2, INSIDE), 4, 2,
       .inputs = {REALS(2, 50, 2, 8), REALS(2, 60, 2, 8), REALS(2, 60, 2, 8), REALS(50, 60)}, .tolerance = 1e-5},
      {"mask of batches and keys", ATTENTION(.scale = 0.2), 4, 2,
       .inputs = {REALS(2, 2, 50, 8), REALS(2, 2, 60, 8), REALS(2, 2, 60, 8), REALS(2, 1, 1, 60)}, .tolerance = 1e-5},
      {"mask of queries", ATTENTION(.scale = 0.2), 4, 2, .inputs = {REALS(2, 50, 8), REALS(2, 60, 8), REALS(2, 60, 8), REALS(50, 1)},
       .tolerance = 1e-5},
      {"special masks", ATTENTION(.scale = 0.2), 4, 2, .inputs = {REALS(60, 8), REALS(5, 8), REALS(5, 8), SPECIALS(60, 5)},
       .tolerance = 1e-5},
      {"hidden rows", ATTENTION(.scale = 0.2), 4, 2, .inputs = {REALS(60, 8), REALS(5, 8), REALS(5, 8), HIDDEN(60, 5)}, .tolerance = 1e-5},
      {"hidden rows are 0", ATTENTION(.scale = 0.2, .hidden_rows_zero = true), 4, 2,
       .inputs = {REALS(60, 8), REALS(5, 8), REALS(5, 8), HIDDEN(60, 5)}, .tolerance = 1e-5},
      {"rows hidden by the least number", ATTENTION(.scale = 0.2), 4, 2,
       .inputs = {REALS(60, 8), REALS(50, 8), REALS(50, 8), OF(F32, VALUE, -3.4028234e38, 60, 50)}, .tolerance = 1e-5},
      {"large numbers", ATTENTION(.scale = 1), 3, 2, .inputs = {OF(F32, RANDOM, 50, 20, 8), OF(F32, RANDOM, 50, 30, 8), REALS(30, 8)},
       .tolerance = 3e-3},
      {"special values", ATTENTION(.scale = 1), 3, 2, .inputs = {SPECIALS(50, 4), REALS(30, 4), REALS(30, 4)}, .tolerance = 1e-5},
      {"dropout", ATTENTION(.scale = 0.2, DROPS), 6, 2,
       .inputs = {REALS(2, 3, 50, 8), REALS(2, 3, 301, 8), REALS(2, 3, 301, 8), REALS(1), STREAM}, .left_out = {[3] = true},
       .tolerance = 1e-5},
      {"dropout of a part", ATTENTION(.scale = 0.2, DROPS, .first = 90301), 6, 2,
       .inputs = {REALS(2, 3, 50, 8), REALS(2, 3, 301, 8), REALS(2, 3, 301, 8), REALS(1), STREAM}, .left_out = {[3] = true},
       .tolerance = 1e-5},
      {"dropout and mask, heads inside", ATTENTION(.scale = 0.2, INSIDE, DROPS), 6, 2,
       .inputs = {REALS(2, 50, 3, 8), REALS(2, 60, 3, 8), REALS(2, 60, 3, 8), REALS(2, 1, 50, 60), STREAM}, .tolerance = 1e-5},
      {"dropout of all", ATTENTION(.scale = 0.2, .ratio = 1), 6, 2, .inputs = {REALS(5, 8), REALS(6, 8), REALS(6, 8), REALS(6), STREAM},
       .tolerance = 1e-5},
      {"no keys", ATTENTION(.scale = 0.2), 3, 2, .inputs = {REALS(5, 8), REALS(0, 8), REALS(0, 8)}, .refused = true},
      {"float64", ATTENTION(.scale = 0.2), 3, 2, .inputs = {OF(F64, RANDOM, 0, 3, 4), OF(F64, RANDOM, 0, 3, 4), OF(F64, RANDOM, 0, 3, 4)},
       .refused = true, .tolerance = 1e-13},
  };
  CHECK_KERNEL_CASES(rows);
}

// Gradients are of any result and sums: the kernels take them as given.
Test(attention_kernels, backward) {
#define RESULTS(...) REALS(__VA_ARGS__), OF(F32, RANDOM, 0.1, __VA_ARGS__)
#define SUMS(...)    OF(F32, VALUE, 4, __VA_ARGS__)
  const delta_kernel_case_t rows[] = {
      {"one head", GRADIENT(.scale = 0.3), 6, 3, .inputs = {RESULTS(7, 8), SUMS(7), REALS(7, 8), REALS(5, 8), REALS(5, 8)},
       .tolerance = 3e-5},
      {"blocks", GRADIENT(.scale = 0.125), 6, 3,
       .inputs = {RESULTS(2, 3, 100, 64), SUMS(2, 3, 100), REALS(2, 3, 100, 64), REALS(2, 3, 130, 64), REALS(2, 3, 130, 64)},
       .tolerance = 1e-4},
      {"odd widths, heads inside", GRADIENT(.scale = 0.2, INSIDE), 6, 3,
       .inputs = {RESULTS(2, 50, 3, 21), SUMS(2, 3, 50), REALS(2, 50, 3, 13), REALS(2, 97, 3, 13), REALS(2, 97, 3, 21)}, .tolerance = 1e-4},
      {"mask", GRADIENT(.scale = 0.2), 7, 3,
       .inputs = {RESULTS(2, 50, 8), SUMS(2, 50), REALS(2, 50, 8), REALS(2, 60, 8), REALS(2, 60, 8), REALS(50, 60)}, .tolerance = 1e-4},
      {"hidden rows that are 0", GRADIENT(.scale = 0.2, .hidden_rows_zero = true), 7, 3,
       .inputs = {RESULTS(50, 8), OF(F32, VALUE, INFINITY, 50), REALS(50, 8), REALS(60, 8), REALS(60, 8), HIDDEN(50, 60)},
       .tolerance = 1e-4},
      {"rows hidden by the least number", GRADIENT(.scale = 0.2), 7, 3,
       .inputs = {RESULTS(50, 8), OF(F32, VALUE, -3.4028234e38, 50), REALS(50, 8), REALS(60, 8), REALS(60, 8),
                  OF(F32, VALUE, -3.4028234e38, 50, 60)},
       .tolerance = 1e-4},
      {"dropout", GRADIENT(.scale = 0.2, DROPS), 9, 3,
       .inputs = {RESULTS(2, 50, 8), SUMS(2, 50), REALS(2, 50, 8), REALS(2, 61, 8), REALS(2, 61, 8), REALS(1), STREAM},
       .left_out = {[6] = true}, .tolerance = 1e-4},
      {"trained mask, whole", GRADIENT(.scale = 0.2), 7, 4,
       .inputs = {RESULTS(2, 50, 8), SUMS(2, 50), REALS(2, 50, 8), REALS(2, 60, 8), REALS(2, 60, 8), REALS(2, 50, 60)}, .tolerance = 1e-4},
      {"trained mask of heads", GRADIENT(.scale = 0.2), 7, 4,
       .inputs = {RESULTS(9, 3, 49, 8), SUMS(9, 3, 49), REALS(9, 3, 49, 8), REALS(9, 3, 49, 8), REALS(9, 3, 49, 8), REALS(1, 3, 49, 49)},
       .tolerance = 2e-4},
      {"trained mask of windows and heads, dropout", GRADIENT(.scale = 0.2, DROPS), 9, 4,
       .inputs = {RESULTS(3, 2, 3, 20, 8), SUMS(3, 2, 3, 20), REALS(3, 2, 3, 20, 8), REALS(3, 2, 3, 20, 8), REALS(3, 2, 3, 20, 8),
                  REALS(2, 3, 20, 20), STREAM},
       .tolerance = 2e-4},
      {"trained mask of batches and keys", GRADIENT(.scale = 0.2, INSIDE), 7, 4,
       .inputs = {RESULTS(2, 50, 3, 8), SUMS(2, 3, 50), REALS(2, 50, 3, 8), REALS(2, 30, 3, 8), REALS(2, 30, 3, 8), REALS(2, 1, 1, 30)},
       .tolerance = 2e-4},
      {"trained mask of queries", GRADIENT(.scale = 0.2), 7, 4,
       .inputs = {RESULTS(2, 50, 8), SUMS(2, 50), REALS(2, 50, 8), REALS(2, 30, 8), REALS(2, 30, 8), REALS(50, 1)}, .tolerance = 2e-4},
  };
  CHECK_KERNEL_CASES(rows);
}
