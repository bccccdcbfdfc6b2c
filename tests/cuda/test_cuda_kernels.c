// Kernels of the CUDA driver: the cases of the CPU's (tests/test_cpu_*.c, which are linked into this program) on the emulation, and what only this driver does, since nothing
// stands behind its kernels: every type, index operators that the CPU leaves to the reference, sources that are kept on disk.
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "onnx/graph/infer.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/sources.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/support/case_macros.h"
#include "tests/support/model_file.h"

// Before any test: compiled sources are kept from run to run, beside what was built.
__attribute__((constructor)) static void choose_device(void) {
  setenv("XDG_CACHE_HOME", DELTA_BINARY_FOLDER "/tests/cache", 1);
  delta_kernel_case_device = "cuda:0";
}

// ---- Rows

Test(cuda_kernels, every_operator_has_a_row) {
  static const delta_core_op_t ops[] = {
#define DELTA_KERNEL(op, name, variant, refuse, prepare, run, release) DELTA_CORE_##op,
#include "runtime/cuda/kernels.inc"
#undef DELTA_KERNEL
  };
  for (int op = 0; op < DELTA_CORE_OP_COUNT; ++op) {
    bool found = false;
    for (size_t k = 0; k < sizeof ops / sizeof *ops; ++k) found = found || ops[k] == (delta_core_op_t)op;
    cr_expect(found, "%s has no kernel", delta_core_op_info((delta_core_op_t)op)->name);
  }
}

// A node that the first `count` rows refuse, with these words.
typedef struct refusal_case {
  const char *name;
  delta_test_node_t node;
  uint32_t input_count, output_count;
  delta_kernel_operand_t inputs[4];
  uint32_t rank;
  const char *words;
} refusal_case_t;

#define L(...) \
  { __VA_ARGS__ }
#define WINDOW2(k, s, p)                        \
  {                                             \
    2, {k, k}, {s, s}, {1, 1}, {p, p}, { p, p } \
  }

static delta_status_t query(const refusal_case_t *row, delta_kernel_offer_t *out_offer) {
  static const char *const names[] = {"a", "b", "c", "d"};
  delta_device_t *device = NULL;
  delta_graph_t *graph = NULL;
  delta_tensor_id_t inputs[4], outputs[4];
  delta_status_t status;
  bool exists;
  DELTA_GOTO_IF_ERROR(status, delta_device_open("cuda:0", &(delta_device_options_t){0}, delta_allocator_system(), &device), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_graph_create(delta_allocator_system(), &graph), cleanup);
  for (uint32_t k = 0; k < row->input_count; ++k)
    DELTA_GOTO_IF_ERROR(status, delta_graph_add_input(graph, names[k], row->inputs[k].dtype, &row->inputs[k].shape, &inputs[k]), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_test_add_node(graph, &row->node, inputs, row->input_count, outputs, row->output_count), cleanup);
  status = device->driver->kernel_query(device, graph, (delta_node_id_t){0}, row->rank, out_offer, &exists);
cleanup:
  delta_graph_free(graph);
  delta_device_close(device);
  return status;
}

Test(cuda_kernels, refusals_are_named) {
#define CONV_OF(x, y, ...)                                                                                                            \
  NODE(CONV, delta_conv_attrs_t, .window = WINDOW2(3, 1, 1), .group = 1, .data_spatial = {__VA_ARGS__}, .x_layout = DELTA_LAYOUT_##x, \
       .y_layout = DELTA_LAYOUT_##y),                                                                                                 \
      2, 1
  const refusal_case_t rows[] = {
      {"blocks of channels", CONV_OF(BLOCKED_8, BLOCKED_8, 9, 10), {REALS(2, 1, 9, 10, 8), REALS(8, 8, 3, 3)}, 0, "lie plain"},
      {"no images", CONV_OF(PLAIN, PLAIN, 9, 10), {REALS(0, 8, 9, 10), REALS(8, 8, 3, 3)}, 0, "nothing to convolve"},
      {"integers",
       NODE(MATMUL, delta_matmul_attrs_t, 0),
       2,
       1,
       {OF(I32, COUNTING, 9, 3, 4), OF(I32, COUNTING, 9, 4, 5)},
       0,
       "float types only"},
      {"no depth", NODE(MATMUL, delta_matmul_attrs_t, 0), 2, 1, {REALS(3, 0), REALS(0, 5)}, 0, "nothing to multiply"},
  };
  for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
    delta_kernel_offer_t offer = {0};
    delta_status_t status = query(&rows[k], &offer);
    cr_assert_null(status, "%s: %s", rows[k].name, delta_status_message(status));
    cr_assert_not_null(offer.refusal, "%s is not refused by %s", rows[k].name, offer.name);
    cr_expect_not_null(strstr(offer.refusal, rows[k].words), "%s: %s", rows[k].name, offer.refusal);
  }
}

// ---- Types

Test(cuda_kernels, types_of_products) {
#define MATMUL(inputs) NODE(MATMUL, delta_matmul_attrs_t, 0), inputs, 1
  const delta_kernel_case_t rows[] = {
      {"float64", MATMUL(2), .inputs = {OF(F64, RANDOM, 0, 33, 20), OF(F64, RANDOM, 0, 20, 17)}, .tolerance = 1e-13},
      {"float64, added", MATMUL(3), .inputs = {OF(F64, RANDOM, 0, 3, 4), OF(F64, RANDOM, 0, 4, 5), OF(F64, RANDOM, 0, 3, 5)},
       .tolerance = 1e-13},
      {"float16", MATMUL(2), .inputs = {OF(F16, RANDOM, 0, 33, 20), OF(F16, RANDOM, 0, 20, 17)}, .tolerance = 2e-3},
      {"bfloat16", MATMUL(2), .inputs = {OF(BF16, RANDOM, 0, 33, 20), OF(BF16, RANDOM, 0, 20, 17)}, .tolerance = 2e-2},
      {"int32", MATMUL(2), .inputs = {OF(I32, INDICES, 100, 33, 20), OF(I32, INDICES, 100, 20, 17)}},
      {"int64, batch", MATMUL(2), .inputs = {OF(I64, INDICES, 100, 4, 3, 20), OF(I64, INDICES, 100, 20, 17)}},
      {"int64, added", MATMUL(3), .inputs = {OF(I64, INDICES, 9, 3, 4), OF(I64, INDICES, 9, 4, 5), OF(I64, INDICES, 9, 3, 5)}},
      {"no depth, added", MATMUL(3), .inputs = {REALS(3, 0), REALS(0, 5), REALS(3, 5)}},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(cuda_kernels, types_of_layers) {
#define CONV(op, ...) NODE(op, delta_conv_attrs_t, .window = WINDOW2(3, 1, 1), .group = 1, .data_spatial = {__VA_ARGS__})
#define POOL(op, spatial_out, spatial) \
  NODE(op, delta_pool_attrs_t, .window = WINDOW2(2, 2, 0), .out_spatial = spatial_out, .data_spatial = spatial)
  const delta_kernel_case_t rows[] = {
      {"conv, float64", CONV(CONV, 9, 8), 3, 1,
       .inputs = {OF(F64, RANDOM, 0, 2, 3, 9, 8), OF(F64, RANDOM, 0, 4, 3, 3, 3), OF(F64, RANDOM, 0, 4)}, .tolerance = 1e-12},
      {"conv, float16", CONV(CONV, 9, 8), 2, 1, .inputs = {OF(F16, RANDOM, 0, 2, 3, 9, 8), OF(F16, RANDOM, 0, 4, 3, 3, 3)},
       .tolerance = 5e-3},
      {"conv by data, float64", CONV(CONV_DATA, 9, 8), 2, 1, .inputs = {OF(F64, RANDOM, 0, 2, 4, 9, 8), OF(F64, RANDOM, 0, 4, 3, 3, 3)},
       .tolerance = 1e-12},
      {"conv by weight, float64", CONV(CONV_WEIGHT, 9, 8), 2, 1, .inputs = {OF(F64, RANDOM, 0, 2, 3, 9, 8), OF(F64, RANDOM, 0, 2, 4, 9, 8)},
       .tolerance = 1e-12},
      {"conv by weight, no images", CONV(CONV_WEIGHT, 9, 8), 2, 1, .inputs = {REALS(0, 3, 9, 8), REALS(0, 4, 9, 8)}},
      {"max pool, float64", POOL(MAX_POOL, L(3, 4), L(6, 8)), 1, 2, .inputs = {OF(F64, RANDOM, 0, 2, 3, 6, 8)}},
      {"max pool, float16", POOL(MAX_POOL, L(3, 4), L(6, 8)), 1, 2, .inputs = {OF(F16, RANDOM, 0, 2, 3, 6, 8)}},
      {"average pool, bfloat16", POOL(AVERAGE_POOL, L(3, 4), L(6, 8)), 1, 1, .inputs = {OF(BF16, RANDOM, 0, 2, 3, 6, 8)}},
      {"softmax, float16", NODE(SOFTMAX, delta_softmax_attrs_t, 1, false), 1, 1, .inputs = {OF(F16, RANDOM, 0, 9, 33)}, .tolerance = 1e-3},
      {"softmax gradient, float64", NODE(SOFTMAX_GRAD, delta_softmax_attrs_t, 0, false), 2, 1,
       .inputs = {OF(F64, RANDOM, 0, 9, 33), OF(F64, POSITIVE, 0, 9, 33)}, .tolerance = 1e-13},
      {"cross entropy, float64", NODE(CROSS_ENTROPY, delta_class_loss_attrs_t, .axis = 1, .classes = 7), 2, 3,
       .inputs = {OF(F64, RANDOM, 0, 20, 7), OF(I64, COUNTING, 7, 20)}, .tolerance = 1e-13},
      {"cross entropy, long lines", NODE(CROSS_ENTROPY, delta_class_loss_attrs_t, .axis = 1, .classes = 3000), 2, 3,
       .inputs = {OF(F16, RANDOM, 0, 5, 3000), OF(I64, COUNTING, 3000, 5)}, .tolerance = 2e-3},
      {"moments, float16", NODE(MOMENTS, delta_moments_attrs_t, 2), 1, 2, .inputs = {OF(F16, RANDOM, 0, 9, 300)}, .tolerance = 1e-3},
      {"attention, float64", NODE(ATTENTION, delta_attention_attrs_t, .scale = 0.3), 3, 2,
       .inputs = {OF(F64, RANDOM, 0, 2, 70, 40), OF(F64, RANDOM, 0, 2, 50, 40), OF(F64, RANDOM, 0, 2, 50, 33)}, .tolerance = 1e-12},
      {"attention, float16", NODE(ATTENTION, delta_attention_attrs_t, .scale = 0.3), 3, 2,
       .inputs = {OF(F16, RANDOM, 0, 70, 8), OF(F16, RANDOM, 0, 50, 8), OF(F16, RANDOM, 0, 50, 8)}, .tolerance = 5e-3},
      {"attention, wide values", NODE(ATTENTION, delta_attention_attrs_t, .scale = 0.1), 3, 2,
       .inputs = {REALS(2, 70, 130), REALS(2, 90, 130), REALS(2, 90, 150)}, .tolerance = 1e-5},
      {"attention gradient, wide", NODE(ATTENTION_GRAD, delta_attention_attrs_t, .scale = 0.1), 6, 3,
       .inputs = {REALS(2, 70, 70), OF(F32, RANDOM, 0.1, 2, 70, 70), OF(F32, VALUE, 6, 2, 70), REALS(2, 70, 130), REALS(2, 90, 130),
                  REALS(2, 90, 70)},
       .tolerance = 1e-3},
      {"attention gradient, float64", NODE(ATTENTION_GRAD, delta_attention_attrs_t, .scale = 0.2), 7, 4,
       .inputs = {OF(F64, RANDOM, 0, 3, 40, 8), OF(F64, RANDOM, 0.1, 3, 40, 8), OF(F64, VALUE, 4, 3, 40), OF(F64, RANDOM, 0, 3, 40, 8),
                  OF(F64, RANDOM, 0, 3, 50, 8), OF(F64, RANDOM, 0, 3, 50, 8), OF(F64, RANDOM, 0, 40, 50)},
       .tolerance = 1e-11},
      {"dropout, bfloat16", NODE(DROPOUT, delta_dropout_attrs_t, 0.3, 5, 2), 3, 2,
       .inputs = {OF(BF16, RANDOM, 0, 70, 3), VALUE(I64, 42), VALUE(I64, 3)}},
  };
  CHECK_KERNEL_CASES(rows);
}

// ---- What the CPU leaves to the reference

Test(cuda_kernels, tuples_of_indices) {
#define GATHER_ND(batch) NODE(GATHER_ND, delta_gather_attrs_t, .batch_dims = batch), 2, 1
#define SCATTER_ND(kind) NODE(SCATTER_ND, delta_scatter_attrs_t, 0, DELTA_SCATTER_##kind), 3, 1
#define ELEMENTS(kind)   NODE(SCATTER_ELEMENTS, delta_scatter_attrs_t, 1, DELTA_SCATTER_##kind), 3, 1
  const delta_kernel_case_t rows[] = {
      {"gather", GATHER_ND(0), .inputs = {REALS(5, 6, 7), OF(I64, INDICES, 5, 9, 2)}},
      {"gather elements of batches", GATHER_ND(1), .inputs = {REALS(3, 6, 7), OF(I32, INDICES, 6, 3, 8, 2)}},
      {"gather bytes", GATHER_ND(0), .inputs = {OF(BOOL8, COUNTING, 2, 5, 6), OF(I64, INDICES, 5, 9, 2)}},
      {"gather nothing", GATHER_ND(0), .inputs = {REALS(5, 6), OF(I64, COUNTING, 5, 0, 1)}},
      {"put, the last wins", SCATTER_ND(NONE), .inputs = {REALS(5, 4), OF(I64, INDICES, 5, 30, 1), REALS(30, 4)}},
      {"add", SCATTER_ND(ADD), .inputs = {REALS(5, 4), OF(I64, INDICES, 4, 40, 2), REALS(40)}},
      {"multiply", SCATTER_ND(MUL), .inputs = {REALS(5, 4), OF(I32, INDICES, 5, 12, 1), REALS(12, 4)}},
      {"largest", SCATTER_ND(MAX), .inputs = {SPECIALS(5, 4), OF(I64, INDICES, 5, 30, 1), SPECIALS(30, 4)}},
      {"add int64", SCATTER_ND(ADD), .inputs = {OF(I64, INDICES, 9, 5), OF(I64, INDICES, 5, 30, 1), OF(I64, INDICES, 9, 30)}},
      {"elements, largest", ELEMENTS(MAX), .inputs = {SPECIALS(9, 7), OF(I64, INDICES, 7, 9, 20), SPECIALS(9, 20)}},
      {"elements, smallest of int32", ELEMENTS(MIN),
       .inputs = {OF(I32, INDICES, 9, 9, 7), OF(I64, INDICES, 7, 9, 20), OF(I32, INDICES, 9, 9, 20)}},
      {"elements, product of float16", ELEMENTS(MUL),
       .inputs = {OF(F16, RANDOM, 0, 9, 7), OF(I64, INDICES, 7, 5, 20), OF(F16, RANDOM, 0, 5, 20)}},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(cuda_kernels, padding) {
#define PAD(mode, from, begin, end, value) NODE(PAD, delta_pad_attrs_t, DELTA_PAD_##mode, begin, end, value, from), 1, 1
#define PAD_GRAD(mode, from, begin, end)   NODE(PAD_GRAD, delta_pad_attrs_t, DELTA_PAD_##mode, begin, end, 0, from), 1, 1
  const delta_kernel_case_t rows[] = {
      {"reflected", PAD(REFLECT, SHAPE(3, 4), L(2, 1), L(1, 3), 0), .inputs = {REALS(3, 4)}},
      {"reflected, cut", PAD(REFLECT, SHAPE(4, 5), L(2, -1), L(-1, 2), 0), .inputs = {REALS(4, 5)}},
      {"wrapped", PAD(WRAP, SHAPE(3, 4), L(5, 1), L(4, 9), 0), .inputs = {REALS(3, 4)}},
      {"edges, cut", PAD(EDGE, SHAPE(3, 4), L(-1, 2), L(2, -1), 0), .inputs = {REALS(3, 4)}},
      {"float16", PAD(CONSTANT, SHAPE(3, 4), L(1, 1), L(0, 2), 0.1), .inputs = {OF(F16, RANDOM, 0, 3, 4)}},
      {"gradient, reflected", PAD_GRAD(REFLECT, SHAPE(3, 4), L(2, 1), L(1, 3)), .inputs = {REALS(6, 8)}, .tolerance = 1e-6},
      {"gradient, wrapped", PAD_GRAD(WRAP, SHAPE(3, 4), L(5, 1), L(4, 9)), .inputs = {REALS(12, 14)}, .tolerance = 1e-6},
      {"gradient, edges", PAD_GRAD(EDGE, SHAPE(3, 4), L(2, 0), L(1, 3)), .inputs = {REALS(6, 7)}, .tolerance = 1e-6},
      {"gradient, edges cut", PAD_GRAD(EDGE, SHAPE(3, 4), L(-1, 2), L(2, -1)), .inputs = {REALS(4, 5)}, .tolerance = 1e-6},
      {"gradient, float64", PAD_GRAD(REFLECT, SHAPE(5), L(3), L(2)), .inputs = {OF(F64, RANDOM, 0, 10)}, .tolerance = 1e-14},
  };
  CHECK_KERNEL_CASES(rows);
}

Test(cuda_kernels, along_an_axis) {
#define TOPK(axis_, k_, smallest_) NODE(TOPK, delta_topk_attrs_t, axis_, k_, smallest_), 1, 2
  const delta_kernel_case_t rows[] = {
      {"largest", TOPK(1, 5, false), .inputs = {REALS(9, 70)}},
      {"all, first axis", TOPK(0, 13, true), .inputs = {REALS(13, 40)}},
      {"equal ones", TOPK(1, 9, false), .inputs = {OF(F32, COUNTING, 3, 20, 9)}},
      {"special values", TOPK(1, 9, false), .inputs = {SPECIALS(300, 9)}},
      {"long lines of int64", TOPK(1, 3, true), .inputs = {OF(I64, INDICES, 1e6, 2, 2000)}},
      {"sums of int32", NODE(CUMSUM, delta_cumsum_attrs_t, 0, false, true), 1, 1, .inputs = {OF(I32, INDICES, 100, 9, 5)}},
      {"index of the largest, uint8", NODE(ARG_REDUCE, delta_arg_reduce_attrs_t, 1, false, true), 1, 1,
       .inputs = {OF(U8, COUNTING, 9, 5, 30)}},
      {"index in a long line", NODE(ARG_REDUCE, delta_arg_reduce_attrs_t, 1, true, false), 1, 1, .inputs = {SPECIALS(3, 3000)}},
  };
  CHECK_KERNEL_CASES(rows);
}

// ---- Sets of tensors: s a + b, and s a in another type

Test(cuda_kernels, sets_of_tensors) {
#define IN(k)                    \
  {                              \
    DELTA_EXPR_INPUT, {k}, { 0 } \
  }
#define DO(op, ...)                       \
  {                                       \
    DELTA_EXPR_##op, {__VA_ARGS__}, { 0 } \
  }
#define SETS(count_)                                    \
  NODE(EACH, delta_each_attrs_t, count_, 1, {F32, F16}, \
       {F32, 3, 5, 2, {4, 3}, (delta_expr_instr_t[]){IN(0), IN(1), IN(2), DO(MUL, 0, 1), DO(ADD, 3, 2)}})
  const delta_kernel_case_t rows[] = {
      {"one", SETS(1), 3, 2, .inputs = {VALUE(F32, 0.7), REALS(33, 77), REALS(33, 77)}},
      {"three", SETS(3), 7, 6, .inputs = {VALUE(F32, 0.7), REALS(33, 77), REALS(33, 77), REALS(5), REALS(5), REALS(1024), REALS(1024)}},
      {"one of them empty", SETS(3), 7, 6, .inputs = {VALUE(F32, 0.7), REALS(3), REALS(3), REALS(0, 5), REALS(0, 5), REALS(8), REALS(8)}},
  };
  CHECK_KERNEL_CASES(rows);
}

// More sets than the arguments of one launch have room for: a node of 0 a + b for 300 pairs.
enum { MANY_SETS = 300, SET_ELEMENTS = 5, SET_INPUTS = 1 + 2 * MANY_SETS, BUFFER_BYTES = 64 };

static void add_many_sets(delta_graph_t *graph, const delta_each_attrs_t *attrs) {
  static delta_tensor_id_t inputs[SET_INPUTS], outputs[MANY_SETS];
  static delta_dtype_t types[MANY_SETS];
  static delta_shape_t shapes[MANY_SETS];
  for (int k = 0; k < SET_INPUTS; ++k) {
    char name[16];
    snprintf(name, sizeof name, "x%d", k);
    const delta_shape_t shape = k == 0 ? (delta_shape_t)SCALAR : (delta_shape_t)SHAPE(SET_ELEMENTS);
    cr_assert_null(delta_graph_add_input(graph, name, F32, &shape, &inputs[k]));
  }
  delta_node_t node = {.op = DELTA_CORE_EACH,
                       .name = "node",
                       .inputs = inputs,
                       .input_count = SET_INPUTS,
                       .outputs = outputs,
                       .output_count = MANY_SETS,
                       .attrs = attrs,
                       .attrs_bytes = sizeof *attrs};
  cr_assert_null(delta_infer_node(&(delta_infer_args_t){graph, &node, types, shapes}));
  for (uint32_t k = 0; k < MANY_SETS; ++k) {
    const delta_tensor_t tensor = {
        .name = "y", .dtype = types[k], .shape = shapes[k], .producer_output = k, .storage = DELTA_TENSOR_NONE, .state = DELTA_INDEX_NONE};
    cr_assert_null(delta_graph_append_tensor(graph, &tensor, &outputs[k]));
  }
  delta_node_id_t id;
  cr_assert_null(delta_graph_append_node(graph, &node, &id));
}

Test(cuda_kernels, many_sets_of_tensors) {
  delta_expr_instr_t instrs[] = {IN(0), IN(1), IN(2), DO(MUL, 0, 1), DO(ADD, 3, 2)};
  const delta_each_attrs_t attrs = {MANY_SETS, 1, {F32}, {F32, 3, 5, 1, {4}, instrs}};
  static void *addresses[SET_INPUTS + MANY_SETS];
  delta_device_t *device = NULL;
  delta_graph_t *graph = NULL;
  delta_arena_t *arena = NULL;
  delta_kernel_t *kernel = NULL;
  cr_assert_null(delta_device_open("cuda:0", &(delta_device_options_t){0}, delta_allocator_system(), &device));
  cr_assert_null(delta_graph_create(delta_allocator_system(), &graph));
  const delta_device_driver_t *driver = device->driver;
  cr_assert_null(driver->arena_reserve(device, device->granule_bytes, &arena));
  cr_assert_null(driver->arena_commit(arena, device->granule_bytes));
  for (size_t k = 0; k < SET_INPUTS + MANY_SETS; ++k) addresses[k] = driver->arena_address(arena, k * BUFFER_BYTES);
  for (int k = 0; k < SET_INPUTS; ++k) {
    const float x[SET_ELEMENTS] = {(float)k, (float)k + 1, (float)k + 2, (float)k + 3, (float)k + 4};
    cr_assert_null(driver->write(device, addresses[k], x, sizeof x));
  }
  add_many_sets(graph, &attrs);
  delta_status_t status = driver->kernel_prepare(device, graph, (delta_node_id_t){0}, 0, &kernel);
  cr_assert_null(status, "%s", delta_status_message(status));
  const delta_kernel_buffers_t buffers = {(const void *const *)addresses, addresses + SET_INPUTS, NULL};
  const uint32_t launches = delta_emulated_calls("cuLaunchKernel");
  cr_assert_null(driver->launch(device, DELTA_LANE_COMPUTE, kernel, &buffers));
  cr_expect_leq(delta_emulated_calls("cuLaunchKernel") - launches, 1 + MANY_SETS / 64, "sets are launched together");
  for (int set = 0; set < MANY_SETS; ++set) {
    float y[SET_ELEMENTS];
    cr_assert_null(driver->read(device, y, addresses[SET_INPUTS + set], sizeof y));
    for (int i = 0; i < SET_ELEMENTS; ++i) cr_expect_eq(y[i], (float)(2 + 2 * set + i), "set %d element %d: %g", set, i, (double)y[i]);
  }
  driver->kernel_destroy(kernel);
  driver->arena_destroy(arena);
  delta_graph_free(graph);
  delta_device_close(device);
}

// ---- Sources on disk

static const char source_text[] = "extern \"C\" __global__ void fill(int *to) { to[threadIdx.x] = 7; }\n";

static delta_status_t find_function(void) {
  delta_device_t *device = NULL;
  CUfunction function;
  DELTA_RETURN_IF_ERROR(delta_device_open("cuda:0", &(delta_device_options_t){0}, delta_allocator_system(), &device));
  const delta_status_t status = delta_cuda_source_function(delta_cuda_device(device), source_text, "fill", &function);
  delta_device_close(device);
  return status;
}

// The only file of the folder, or how many there are.
static size_t find_file(const char *folder, char path[600]) {
  DIR *entries = opendir(folder);
  size_t count = 0;
  for (const struct dirent *entry; entries && (entry = readdir(entries));) {
    if (entry->d_name[0] == '.') continue;
    snprintf(path, 600, "%s/%s", folder, entry->d_name);
    ++count;
  }
  if (entries) closedir(entries);
  return count;
}

static void check_kept(const char *folder, const char *what) {
  delta_status_t status = find_function();
  cr_assert_null(status, "%s: %s", what, delta_status_message(status));
  char path[600];
  cr_expect_eq(find_file(folder, path), 1, "%s: one source is one file", what);
}

Test(cuda_kernels, sources_are_kept_and_made_again_when_damaged) {
  delta_test_folder_t place;
  delta_test_folder_make(&place);
  char folder[512], path[600];
  setenv("XDG_CACHE_HOME", place.path, 1);
  snprintf(folder, sizeof folder, "%s/delta/cuda", place.path);
  check_kept(folder, "first");
  check_kept(folder, "again");
  cr_assert_eq(find_file(folder, path), 1);
  char *whole = NULL;
  size_t size_bytes = 0;
  cr_assert_null(delta_file_read_all(path, 1 << 24, delta_allocator_system(), &whole, &size_bytes));
  const size_t damages[] = {0, 20, size_bytes / 2};
  for (size_t k = 0; k < sizeof damages / sizeof *damages; ++k) {
    cr_assert_null(delta_file_replace(path, whole, damages[k], delta_allocator_system()));
    check_kept(folder, "cut");
  }
  whole[size_bytes - 1] ^= 1;
  cr_assert_null(delta_file_replace(path, whole, size_bytes, delta_allocator_system()));
  check_kept(folder, "changed");
  delta_release(delta_allocator_system(), whole);
  delta_test_folder_remove(&place);
}

Test(cuda_kernels, a_source_that_is_wrong_is_told_with_the_compilers_words) {
  delta_device_t *device = NULL;
  CUfunction function;
  cr_assert_null(delta_device_open("cuda:0", &(delta_device_options_t){0}, delta_allocator_system(), &device));
  delta_status_t status = delta_cuda_source_function(delta_cuda_device(device),
                                                     "extern \"C\" __global__ void f() { nothing_of_this_name = 1; }", "f", &function);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_INTERNAL);
  cr_expect_not_null(strstr(delta_status_message(status), "nothing_of_this_name"), "%s", delta_status_message(status));
  delta_status_free(status);
  delta_device_close(device);
}
