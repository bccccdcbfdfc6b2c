// What kernels allocate while they run: ours nothing, those of the library little. The C library's allocation functions are replaced by ones that count.
#include <criterion/criterion.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/case_macros.h"
#include "tests/support/sanitized.h"

static atomic_bool counts;
static atomic_size_t call_count, allocated_bytes;

#ifndef DELTA_TEST_SANITIZED
void *__libc_malloc(size_t size_bytes);
void *__libc_calloc(size_t count, size_t size_bytes);
void *__libc_realloc(void *pointer, size_t size_bytes);
void *__libc_memalign(size_t alignment, size_t size_bytes);

static void count_call(size_t size_bytes) {
  if (!atomic_load(&counts)) return;
  atomic_fetch_add(&call_count, 1);
  atomic_fetch_add(&allocated_bytes, size_bytes);
}

__attribute__((visibility("default"))) void *malloc(size_t size_bytes) {
  count_call(size_bytes);
  return __libc_malloc(size_bytes);
}
__attribute__((visibility("default"))) void *calloc(size_t count, size_t size_bytes) {
  count_call(count * size_bytes);
  return __libc_calloc(count, size_bytes);
}
__attribute__((visibility("default"))) void *realloc(void *pointer, size_t size_bytes) {
  count_call(size_bytes);
  return __libc_realloc(pointer, size_bytes);
}
__attribute__((visibility("default"))) void *memalign(size_t alignment, size_t size_bytes) {
  count_call(size_bytes);
  return __libc_memalign(alignment, size_bytes);
}
__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment, size_t size_bytes) { return memalign(alignment, size_bytes); }
__attribute__((visibility("default"))) int posix_memalign(void **out_pointer, size_t alignment, size_t size_bytes) {
  *out_pointer = memalign(alignment, size_bytes);
  return *out_pointer ? 0 : ENOMEM;
}
#endif

// The first launch may build the team of threads; after it nothing of ours allocates. The library does, and gives back, within these limits of all
// allocations of one launch: its own kernels for blocked layouts little, its matrix products inside convolutions on plain ones their packed operands.
enum { MOST_BYTES = 32 << 10, MOST_PLAIN_CONVOLUTION_BYTES = 2 << 20 };
static size_t most_bytes, most_plain_bytes; // seen, of kernels 'onednn_blocked' and 'onednn'

static void observe(bool begins, const char *kernel_name, int earlier) {
  if (begins) {
    atomic_store(&call_count, 0);
    atomic_store(&allocated_bytes, 0);
    atomic_store(&counts, true);
    return;
  }
  atomic_store(&counts, false);
  if (earlier == 0) return;
  size_t bytes = atomic_load(&allocated_bytes), calls = atomic_load(&call_count);
  if (strncmp(kernel_name, "onednn", 6) == 0) {
    size_t *most = strcmp(kernel_name, "onednn") == 0 ? &most_plain_bytes : &most_bytes;
    if (bytes > *most) *most = bytes;
  } else {
    cr_expect_eq(calls, 0, "a kernel '%s' allocates %zu bytes in %zu calls", kernel_name, bytes, calls);
  }
}

#define L(...) \
  { __VA_ARGS__ }
#define SQUARE(k, s, p)                         \
  {                                             \
    2, {k, k}, {s, s}, {1, 1}, {p, p}, { p, p } \
  }
#define POOL(op)      NODE(op, delta_pool_attrs_t, .window = SQUARE(2, 2, 0), .out_spatial = L(30, 30), .data_spatial = L(60, 60))
#define CONV(op)      NODE(op, delta_conv_attrs_t, .window = SQUARE(3, 1, 1), .group = 1, .data_spatial = L(30, 30))
#define CONV_1X1(op)  NODE(op, delta_conv_attrs_t, .window = SQUARE(1, 1, 0), .group = 1, .data_spatial = L(30, 30))
#define DEPTHWISE(op) NODE(op, delta_conv_attrs_t, .window = SQUARE(3, 1, 1), .group = 16, .data_spatial = L(30, 30))
#define MATMUL(a, b)  NODE(MATMUL, delta_matmul_attrs_t, a, b)

Test(cpu_allocations, own_kernels) {
#ifdef DELTA_TEST_SANITIZED
  cr_skip_test("a sanitizer has its own allocation functions");
#endif
  delta_expr_instr_t instrs[] = {{DELTA_EXPR_INPUT, {0}, {0}}, {DELTA_EXPR_EXP, {0}, {0}}};
  const delta_pointwise_attrs_t pointwise = {SHAPE(700, 300), {F32}, {F32, 1, 2, 1, {1}, instrs}};
  const delta_reduce_attrs_t reduce = {SHAPE(700, 300), 1, {DELTA_REDUCE_SUM}, {F32}, {F32, 1, 2, 1, {1}, instrs}};
  const delta_kernel_case_t rows[] = {
      {"pointwise", DELTA_TEST_NODE(POINTWISE, pointwise), 1, 1, .inputs = {REALS(700, 300)}, .tolerance = 1e-5},
      {"reduce", DELTA_TEST_NODE(REDUCE, reduce), 1, 1, .inputs = {REALS(700, 300)}, .tolerance = 1e-5},
      {"moments", NODE(MOMENTS, delta_moments_attrs_t, 1), 1, 2, .inputs = {REALS(700, 300)}, .tolerance = 1e-5},
      {"arg reduce", NODE(ARG_REDUCE, delta_arg_reduce_attrs_t, 1, false, false), 1, 1, .inputs = {REALS(700, 300)}},
      {"softmax", NODE(SOFTMAX, delta_softmax_attrs_t, 1, false), 1, 1, .inputs = {REALS(700, 300)}, .tolerance = 1e-5},
      {"softmax gradient", NODE(SOFTMAX_GRAD, delta_softmax_attrs_t, 1, false), 2, 1, .inputs = {REALS(700, 300), REALS(700, 300)},
       .tolerance = 1e-4},
      {"cross entropy", NODE(CROSS_ENTROPY, delta_class_loss_attrs_t, 1, 300, false, 0), 2, 3,
       .inputs = {REALS(700, 300), OF(I64, COUNTING, 300, 700)}, .tolerance = 1e-5},
      {"cross entropy gradient", NODE(CROSS_ENTROPY_GRAD, delta_class_loss_attrs_t, 1, 300, false, 0), 4, 1,
       .inputs = {REALS(700), REALS(700, 300), OF(F32, VALUE, 6, 700), OF(I64, COUNTING, 300, 700)}, .tolerance = 1e-5},
      {"nll", NODE(NLL, delta_class_loss_attrs_t, 1, 300, false, 0), 2, 2, .inputs = {REALS(700, 300), OF(I64, COUNTING, 300, 700)},
       .tolerance = 1e-5},
      {"nll gradient", NODE(NLL_GRAD, delta_class_loss_attrs_t, 1, 300, false, 0), 2, 1,
       .inputs = {REALS(700), OF(I64, COUNTING, 300, 700)}, .tolerance = 1e-5},
      {"max pool", POOL(MAX_POOL), 1, 2, .inputs = {REALS(3, 16, 60, 60)}},
      {"max pool gradient", POOL(MAX_POOL_GRAD), 2, 1, .inputs = {REALS(3, 16, 30, 30), OF(U8, COUNTING, 4, 3, 16, 30, 30)}},
      {"average pool", POOL(AVERAGE_POOL), 1, 1, .inputs = {REALS(3, 16, 60, 60)}},
      {"average pool gradient", POOL(AVERAGE_POOL_GRAD), 1, 1, .inputs = {REALS(3, 16, 30, 30)}},
      {"dropout", NODE(DROPOUT, delta_dropout_attrs_t, 0.1, 3, 0), 3, 2, .inputs = {REALS(700, 300), VALUE(I64, 1), VALUE(I64, 2)}},
      {"random", NODE(RANDOM, delta_random_attrs_t, SHAPE(700, 300), F32, true, 0, 1, 3), 2, 1, .inputs = {VALUE(I64, 1), VALUE(I64, 2)}},
      {"transpose", NODE(TRANSPOSE, delta_transpose_attrs_t, {1, 0}), 1, 1, .inputs = {REALS(700, 300)}},
      {"slice", NODE(SLICE, delta_slice_attrs_t, SHAPE(700, 200), SHAPE(700, 300), L(0, 10), L(1, 1)), 1, 1, .inputs = {REALS(700, 300)}},
      {"slice gradient", NODE(SLICE_GRAD, delta_slice_attrs_t, SHAPE(700, 200), SHAPE(700, 300), L(0, 10), L(1, 1)), 1, 1,
       .inputs = {REALS(700, 200)}},
      {"split", NODE(SPLIT, delta_split_attrs_t, 1, (const int64_t[]){100, 200}), 1, 2, .inputs = {REALS(700, 300)}},
      {"concat", NODE(CONCAT, delta_split_attrs_t, 1, NULL), 2, 1, .inputs = {REALS(700, 100), REALS(700, 200)}},
      {"pad", NODE(PAD, delta_pad_attrs_t, DELTA_PAD_CONSTANT, L(1, 1), L(1, 1), 0, SHAPE(700, 300)), 1, 1, .inputs = {REALS(700, 300)}},
      {"gather", NODE(GATHER, delta_gather_attrs_t, 0, 0, {0, {0}}), 2, 1, .inputs = {REALS(700, 300), OF(I64, INDICES, 700, 900)}},
      {"gather gradient", NODE(GATHER_GRAD, delta_gather_attrs_t, 0, 0, SHAPE(700, 300)), 2, 1,
       .inputs = {OF(I64, INDICES, 700, 900), REALS(900, 300)}, .tolerance = 1e-5},
      {"gather elements", NODE(GATHER_ELEMENTS, delta_gather_attrs_t, 1, 0, {0, {0}}), 2, 1,
       .inputs = {REALS(700, 300), OF(I64, INDICES, 300, 700, 200)}},
      {"scatter elements", NODE(SCATTER_ELEMENTS, delta_scatter_attrs_t, 1, DELTA_SCATTER_ADD), 3, 1,
       .inputs = {REALS(700, 300), OF(I64, INDICES, 300, 700, 200), REALS(700, 200)}, .tolerance = 1e-5},
      {"triangle", NODE(TRILU, delta_trilu_attrs_t, true, 0), 1, 1, .inputs = {REALS(700, 300)}},
      {"cumulative sums", NODE(CUMSUM, delta_cumsum_attrs_t, 1, false, false), 1, 1, .inputs = {REALS(700, 300)}},
      {"resize",
       NODE(RESIZE, delta_resize_attrs_t, .mode = DELTA_RESIZE_LINEAR, .scales = {2, 2}, .data_shape = SHAPE(300, 100),
            .out_shape = SHAPE(600, 200)),
       1, 1, .inputs = {REALS(300, 100)}, .tolerance = 1e-5},
  };
  delta_kernel_case_observer = observe;
  CHECK_KERNEL_CASES(rows);
}

Test(cpu_allocations, library_kernels) {
#ifdef DELTA_TEST_SANITIZED
  cr_skip_test("a sanitizer has its own allocation functions");
#endif
  const delta_kernel_case_t rows[] = {
      {"matmul", MATMUL(false, false), 2, 1, .inputs = {REALS(300, 200), REALS(200, 250)}, .tolerance = 1e-4},
      {"matmul, transposed", MATMUL(true, true), 2, 1, .inputs = {REALS(200, 300), REALS(250, 200)}, .tolerance = 1e-4},
      {"matmul, vector", MATMUL(false, true), 2, 1, .inputs = {REALS(1, 200), REALS(250, 200)}, .tolerance = 1e-4},
      {"matmul, batches", MATMUL(false, true), 2, 1, .inputs = {REALS(8, 30, 200), REALS(8, 40, 200)}, .tolerance = 1e-4},
      {"matmul, batches broadcast", MATMUL(false, false), 2, 1, .inputs = {REALS(8, 1, 30, 20), REALS(3, 20, 40)}, .tolerance = 1e-4},
      {"convolution", CONV(CONV), 3, 1, .inputs = {REALS(4, 16, 30, 30), REALS(32, 16, 3, 3), REALS(32)}, .tolerance = 1e-4},
      {"convolution by data", CONV(CONV_DATA), 2, 1, .inputs = {REALS(4, 32, 30, 30), REALS(32, 16, 3, 3)}, .tolerance = 1e-4},
      {"convolution by weight", CONV(CONV_WEIGHT), 2, 1, .inputs = {REALS(4, 16, 30, 30), REALS(4, 32, 30, 30)}, .tolerance = 1e-3},
      {"1x1", CONV_1X1(CONV), 2, 1, .inputs = {REALS(4, 16, 30, 30), REALS(32, 16, 1, 1)}, .tolerance = 1e-4},
      {"1x1 by data", CONV_1X1(CONV_DATA), 2, 1, .inputs = {REALS(4, 32, 30, 30), REALS(32, 16, 1, 1)}, .tolerance = 1e-4},
      {"1x1 by weight", CONV_1X1(CONV_WEIGHT), 2, 1, .inputs = {REALS(4, 16, 30, 30), REALS(4, 32, 30, 30)}, .tolerance = 1e-3},
      {"depthwise", DEPTHWISE(CONV), 2, 1, .inputs = {REALS(4, 16, 30, 30), REALS(16, 1, 3, 3)}, .tolerance = 1e-4},
      {"depthwise by weight", DEPTHWISE(CONV_WEIGHT), 2, 1, .inputs = {REALS(4, 16, 30, 30), REALS(4, 16, 30, 30)}, .tolerance = 1e-3},
  };
  delta_kernel_case_observer = observe;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    char reason[DELTA_KERNEL_CASE_REASON_BYTES] = "";
    most_bytes = most_plain_bytes = 0;
    cr_expect(delta_kernel_case_run(&rows[i], reason), "%s", reason);
    cr_log_info("%s: the library allocates at most %zu bytes a launch, on blocked layouts %zu", rows[i].name, most_plain_bytes, most_bytes);
    size_t limit_bytes = rows[i].node.op == DELTA_CORE_MATMUL ? MOST_BYTES : MOST_PLAIN_CONVOLUTION_BYTES;
    cr_expect(most_bytes <= MOST_BYTES, "%s: the library allocates %zu bytes on blocked layouts", rows[i].name, most_bytes);
    cr_expect(most_plain_bytes <= limit_bytes, "%s: the library allocates %zu bytes", rows[i].name, most_plain_bytes);
  }
}
