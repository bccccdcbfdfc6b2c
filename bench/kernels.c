// Times the CPU kernels one by one: for each node of a table what every kernel makes of it, in milliseconds (the least of many runs), bytes and
// operations a second, beside a plain copy of as many bytes.
//
//   kernels [threads] [part of a name] [cold]
//
// A kernel finds its data where the run before has left it, in a cache if it is small; so does the copy. `cold`: runs walk through more memory than caches
// hold, and so do the copies. The fastest of several ways to copy counts.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "bench/copies.h"
#include "onnx/graph/emit.h"
#include "runtime/device.h"

enum { MOST_INPUTS = 7, MOST_OUTPUTS = 3, LEAST_RUNS = 7, MOST_SETS = 64 };
static const size_t cold_bytes = 384 << 20;

// Of one kernel.
static const double enough_seconds = 0.3;

typedef struct bench_input {
  delta_dtype_t dtype;
  delta_shape_t shape;
} bench_input_t;

typedef struct bench_row {
  const char *name;
  delta_core_op_t op;
  const void *attrs;
  size_t attrs_bytes;
  uint32_t input_count, output_count;
  bench_input_t inputs[MOST_INPUTS];
  double operations; // of one run; 0: not told
} bench_row_t;

#define SHAPE(...)                                                                 \
  {                                                                                \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ } \
  }
#define REALS(...) \
  { DELTA_DTYPE_FLOAT32, SHAPE(__VA_ARGS__) }
#define ZEROS(dtype, ...) \
  { DELTA_DTYPE_##dtype, SHAPE(__VA_ARGS__) }
#define NODE(op, type, ...) DELTA_CORE_##op, &(const type){__VA_ARGS__}, sizeof(type)
#define L(...) \
  { __VA_ARGS__ }
#define SQUARE(k, s, p)                         \
  {                                             \
    2, {k, k}, {s, s}, {1, 1}, {p, p}, { p, p } \
  }
#define IN(k)                    \
  {                              \
    DELTA_EXPR_INPUT, {k}, { 0 } \
  }
#define DO(op, ...)                       \
  {                                       \
    DELTA_EXPR_##op, {__VA_ARGS__}, { 0 } \
  }
#define UNARY(op, shape)                                                               \
  NODE(POINTWISE, delta_pointwise_attrs_t, shape, {DELTA_DTYPE_FLOAT32},               \
       {DELTA_DTYPE_FLOAT32, 1, 2, 1, {1}, (delta_expr_instr_t[]){IN(0), DO(op, 0)}}), \
      1, 1
#define NUMBER(value)                        \
  {                                          \
    DELTA_EXPR_CONST, {0}, { .real = value } \
  }
// x (1 + erf(x / sqrt 2)) / 2 of x + bias, and its derivative times another input.
#define GELU_VALUES \
  IN(0), IN(1), DO(ADD, 0, 1), NUMBER(0.70710678118654752), DO(MUL, 2, 3), DO(ERF, 4), NUMBER(1), DO(ADD, 5, 6), NUMBER(0.5), DO(MUL, 2, 8)
#define GELU(...)                                                                                  \
  NODE(POINTWISE, delta_pointwise_attrs_t, SHAPE(__VA_ARGS__), {DELTA_DTYPE_FLOAT32},              \
       {DELTA_DTYPE_FLOAT32, 2, 11, 1, {10}, (delta_expr_instr_t[]){GELU_VALUES, DO(MUL, 9, 7)}}), \
      2, 1
#define GELU_GRAD(...)                                                                                                           \
  NODE(POINTWISE, delta_pointwise_attrs_t, SHAPE(__VA_ARGS__), {DELTA_DTYPE_FLOAT32},                                            \
       {DELTA_DTYPE_FLOAT32,                                                                                                     \
        3,                                                                                                                       \
        20,                                                                                                                      \
        1,                                                                                                                       \
        {19},                                                                                                                    \
        (delta_expr_instr_t[]){GELU_VALUES, DO(MUL, 7, 8), DO(MUL, 9, 2), DO(NEG, 11), DO(EXP, 12), NUMBER(0.39894228040143268), \
                               DO(MUL, 13, 14), DO(MUL, 15, 2), DO(ADD, 16, 10), IN(2), DO(MUL, 17, 18)}}),                      \
      3, 1
#define ADD_BIAS(...)                                                                             \
  NODE(POINTWISE, delta_pointwise_attrs_t, SHAPE(__VA_ARGS__), {DELTA_DTYPE_FLOAT32},             \
       {DELTA_DTYPE_FLOAT32, 2, 3, 1, {2}, (delta_expr_instr_t[]){IN(0), IN(1), DO(ADD, 0, 1)}}), \
      2, 1
#define SUM(shape, axes)                                                                     \
  NODE(REDUCE, delta_reduce_attrs_t, shape, axes, {DELTA_REDUCE_SUM}, {DELTA_DTYPE_FLOAT32}, \
       {DELTA_DTYPE_FLOAT32, 1, 1, 1, {0}, (delta_expr_instr_t[]){IN(0)}}),                  \
      1, 1

// What a normalisation's gradient sums behind a ReLU: of dy where x * scale + shift is above 0, and of that times x.
#define GRADIENT_SUMS(...)                                                                                                             \
  NODE(REDUCE, delta_reduce_attrs_t, SHAPE(__VA_ARGS__), 13, {DELTA_REDUCE_SUM, DELTA_REDUCE_SUM},                                     \
       {DELTA_DTYPE_FLOAT32, DELTA_DTYPE_FLOAT32},                                                                                     \
       {DELTA_DTYPE_FLOAT32,                                                                                                           \
        4,                                                                                                                             \
        10,                                                                                                                            \
        2,                                                                                                                             \
        {8, 9},                                                                                                                        \
        (delta_expr_instr_t[]){IN(0), IN(1), IN(2), IN(3), DO(MUL, 1, 2), DO(ADD, 4, 3), NUMBER(0), DO(LE, 5, 6), DO(SELECT, 7, 6, 0), \
                               DO(MUL, 8, 1)}}),                                                                                       \
      4, 2

// The same behind a ReLU6, of x that is normalised by a mean, a scale and a shift: of dy times -scale, times x - mean with its sign turned, and of -dy.
#define CLIPPED_SUMS(...)                                                                                            \
  NODE(REDUCE, delta_reduce_attrs_t, SHAPE(__VA_ARGS__), 13, {DELTA_REDUCE_SUM, DELTA_REDUCE_SUM, DELTA_REDUCE_SUM}, \
       {DELTA_DTYPE_FLOAT32, DELTA_DTYPE_FLOAT32, DELTA_DTYPE_FLOAT32},                                              \
       {DELTA_DTYPE_FLOAT32,                                                                                         \
        5,                                                                                                           \
        21,                                                                                                          \
        3,                                                                                                           \
        {17, 20, 15},                                                                                                \
        (delta_expr_instr_t[]){IN(0),                                                                                \
                               IN(1),                                                                                \
                               IN(2),                                                                                \
                               IN(3),                                                                                \
                               IN(4),                                                                                \
                               DO(MUL, 1, 2),                                                                        \
                               DO(MUL, 4, 2),                                                                        \
                               DO(SUB, 3, 6),                                                                        \
                               DO(ADD, 5, 7),                                                                        \
                               NUMBER(0),                                                                            \
                               DO(LE, 8, 9),                                                                         \
                               DO(SELECT, 10, 9, 8),                                                                 \
                               NUMBER(6),                                                                            \
                               DO(GE, 11, 12),                                                                       \
                               DO(SELECT, 13, 9, 0),                                                                 \
                               DO(SELECT, 10, 9, 14),                                                                \
                               DO(NEG, 15),                                                                          \
                               DO(MUL, 16, 2),                                                                       \
                               DO(MUL, 16, 4),                                                                       \
                               DO(MUL, 15, 1),                                                                       \
                               DO(ADD, 18, 19)}}),                                                                   \
      5, 3

// Sums of gradients in blocks: of tensors, and of vectors of their channels.
#define CHANNELS(c, b) REALS(1, c, 1, 1, b)
#define GRADIENT_ROW(n, c, h, w, b)                                                     \
  {                                                                                     \
    "gradient sums " #n "x" #c "x" #h "x" #w "x" #b, GRADIENT_SUMS(n, c, h, w, b),      \
        {REALS(n, c, h, w, b), REALS(n, c, h, w, b), CHANNELS(c, b), CHANNELS(c, b)}, 0 \
  }
#define CLIPPED_ROW(n, c, h, w, b)                                                                      \
  {                                                                                                     \
    "clipped gradient sums " #n "x" #c "x" #h "x" #w "x" #b, CLIPPED_SUMS(n, c, h, w, b),               \
        {REALS(n, c, h, w, b), REALS(n, c, h, w, b), CHANNELS(c, b), CHANNELS(c, b), CHANNELS(c, b)}, 0 \
  }

static const bench_row_t rows[] = {
    {"small: relu 64x64", UNARY(RELU, SHAPE(64, 64)), {REALS(64, 64)}, 0},
    {"add bias 32x64x56x56", ADD_BIAS(32, 64, 56, 56), {REALS(32, 64, 56, 56), REALS(64, 1, 1)}, 0},
    {"add bias, blocks of 16", ADD_BIAS(16, 60, 7, 7, 16), {REALS(16, 60, 7, 7, 16), REALS(1, 60, 1, 1, 16)}, 0},
    {"add bias, rows 512x768", ADD_BIAS(512, 768), {REALS(512, 768), REALS(768)}, 0},
    {"relu 6.4M", UNARY(RELU, SHAPE(6422528)), {REALS(6422528)}, 0},
    {"exp 128x3072", UNARY(EXP, SHAPE(128, 3072)), {REALS(128, 3072)}, 0},
    {"log 128x3072", UNARY(LOG, SHAPE(128, 3072)), {REALS(128, 3072)}, 0},
    {"tanh 128x3072", UNARY(TANH, SHAPE(128, 3072)), {REALS(128, 3072)}, 0},
    {"erf 128x3072", UNARY(ERF, SHAPE(128, 3072)), {REALS(128, 3072)}, 0},
    {"sigmoid 128x3072", UNARY(SIGMOID, SHAPE(128, 3072)), {REALS(128, 3072)}, 0},
    {"gelu 512x3072", GELU(512, 3072), {REALS(512, 3072), REALS(3072)}, 0},
    {"gelu gradient 512x3072", GELU_GRAD(512, 3072), {REALS(512, 3072), REALS(3072), REALS(512, 3072)}, 0},
    {"sqrt 128x3072", UNARY(SQRT, SHAPE(128, 3072)), {REALS(128, 3072)}, 0},
    {"sum of channels 32x64x56x56", SUM(SHAPE(32, 64, 56, 56), 13), {REALS(32, 64, 56, 56)}, 0},
    {"sum of rows 4096x1024", SUM(SHAPE(4096, 1024), 2), {REALS(4096, 1024)}, 0},
    {"sum of columns 4096x1024", SUM(SHAPE(4096, 1024), 1), {REALS(4096, 1024)}, 0},
    GRADIENT_ROW(16, 36, 14, 14, 16),
    GRADIENT_ROW(16, 6, 112, 112, 16),
    GRADIENT_ROW(16, 48, 14, 14, 8),
    CLIPPED_ROW(16, 48, 14, 14, 8),
    CLIPPED_ROW(16, 12, 112, 112, 8),
    GRADIENT_ROW(16, 120, 7, 7, 8),
    {"moments, blocks 16x36x14x14x16", NODE(MOMENTS, delta_moments_attrs_t, 13), 1, 2, {REALS(16, 36, 14, 14, 16)}, 0},
    {"moments, blocks 16x6x112x112x16", NODE(MOMENTS, delta_moments_attrs_t, 13), 1, 2, {REALS(16, 6, 112, 112, 16)}, 0},
    {"moments, channels 32x64x56x56", NODE(MOMENTS, delta_moments_attrs_t, 13), 1, 2, {REALS(32, 64, 56, 56)}, 0},
    {"moments, channels 32x512x7x7", NODE(MOMENTS, delta_moments_attrs_t, 13), 1, 2, {REALS(32, 512, 7, 7)}, 0},
    {"moments, rows 4096x768", NODE(MOMENTS, delta_moments_attrs_t, 2), 1, 2, {REALS(4096, 768)}, 0},
    {"attention 12 heads of 1024x64",
     NODE(ATTENTION, delta_attention_attrs_t, .scale = 0.125, .heads_inside = true),
     3,
     2,
     {REALS(1, 1024, 12, 64), REALS(1, 1024, 12, 64), REALS(1, 1024, 12, 64)},
     4.0 * 12 * 1024 * 1024 * 64},
    {"attention gradient 12 heads of 1024x64",
     NODE(ATTENTION_GRAD, delta_attention_attrs_t, .scale = 0.125, .heads_inside = true),
     6,
     3,
     {REALS(1, 1024, 12, 64), REALS(1, 1024, 12, 64), REALS(1, 12, 1024), REALS(1, 1024, 12, 64), REALS(1, 1024, 12, 64),
      REALS(1, 1024, 12, 64)},
     10.0 * 12 * 1024 * 1024 * 64},
    {"attention 4096 windows of 49x32",
     NODE(ATTENTION, delta_attention_attrs_t, .scale = 0.18),
     4,
     2,
     {REALS(1365, 3, 49, 32), REALS(1365, 3, 49, 32), REALS(1365, 3, 49, 32), REALS(3, 49, 49)},
     4.0 * 4095 * 49 * 49 * 32},
    {"product 1024x64x1024, 12 times",
     NODE(MATMUL, delta_matmul_attrs_t, false, true),
     2,
     1,
     {REALS(12, 1024, 64), REALS(12, 1024, 64)},
     2.0 * 12 * 1024 * 1024 * 64},
    {"softmax 4096x1024", NODE(SOFTMAX, delta_softmax_attrs_t, 1, false), 1, 1, {REALS(4096, 1024)}, 0},
    {"softmax gradient 4096x1024", NODE(SOFTMAX_GRAD, delta_softmax_attrs_t, 1, false), 2, 1, {REALS(4096, 1024), REALS(4096, 1024)}, 0},
    {"cross entropy 1024x8192",
     NODE(CROSS_ENTROPY, delta_class_loss_attrs_t, 1, 8192, false, 0),
     2,
     3,
     {REALS(1024, 8192), ZEROS(INT64, 1024)},
     0},
    {"max pool 3x3/2 16x64x112x112",
     NODE(MAX_POOL, delta_pool_attrs_t, .window = SQUARE(3, 2, 1), .out_spatial = L(56, 56), .data_spatial = L(112, 112)),
     1,
     2,
     {REALS(16, 64, 112, 112)},
     0},
    {"max pool gradient",
     NODE(MAX_POOL_GRAD, delta_pool_attrs_t, .window = SQUARE(3, 2, 1), .out_spatial = L(56, 56), .data_spatial = L(112, 112)),
     2,
     1,
     {REALS(16, 64, 56, 56), ZEROS(UINT8, 16, 64, 56, 56)},
     0},
    {"max pool 3x3/2 in blocks of 8",
     NODE(MAX_POOL, delta_pool_attrs_t, .layout = DELTA_LAYOUT_BLOCKED_8, .window = SQUARE(3, 2, 1), .out_spatial = L(56, 56),
          .data_spatial = L(112, 112)),
     1,
     2,
     {REALS(16, 8, 112, 112, 8)},
     0},
    {"max pool gradient in blocks of 8",
     NODE(MAX_POOL_GRAD, delta_pool_attrs_t, .layout = DELTA_LAYOUT_BLOCKED_8, .window = SQUARE(3, 2, 1), .out_spatial = L(56, 56),
          .data_spatial = L(112, 112)),
     2,
     1,
     {REALS(16, 8, 56, 56, 8), ZEROS(UINT8, 16, 8, 56, 56, 8)},
     0},
    {"max pool 2x2/2 16x64x112x112",
     NODE(MAX_POOL, delta_pool_attrs_t, .window = SQUARE(2, 2, 0), .out_spatial = L(56, 56), .data_spatial = L(112, 112)),
     1,
     2,
     {REALS(16, 64, 112, 112)},
     0},
    {"average pool 2x2/2",
     NODE(AVERAGE_POOL, delta_pool_attrs_t, .window = SQUARE(2, 2, 0), .out_spatial = L(56, 56), .data_spatial = L(112, 112)),
     1,
     1,
     {REALS(16, 64, 112, 112)},
     0},
    {"average pool gradient",
     NODE(AVERAGE_POOL_GRAD, delta_pool_attrs_t, .window = SQUARE(2, 2, 0), .out_spatial = L(56, 56), .data_spatial = L(112, 112)),
     1,
     1,
     {REALS(16, 64, 56, 56)},
     0},
    {"dropout 4M",
     NODE(DROPOUT, delta_dropout_attrs_t, .ratio = 0.1, .stream = 1),
     3,
     2,
     {REALS(4194304), {DELTA_DTYPE_INT64, {0, {0}}}, {DELTA_DTYPE_INT64, {0, {0}}}},
     0},
    {"transpose 2048x2048", NODE(TRANSPOSE, delta_transpose_attrs_t, {1, 0}), 1, 1, {REALS(2048, 2048)}, 0},
    {"transpose heads 8x512x12x64", NODE(TRANSPOSE, delta_transpose_attrs_t, {0, 2, 1, 3}), 1, 1, {REALS(8, 512, 12, 64)}, 0},
    {"channels last 16x64x112x112", NODE(TRANSPOSE, delta_transpose_attrs_t, {0, 2, 3, 1}), 1, 1, {REALS(16, 64, 112, 112)}, 0},
    {"pad 16x64x112x112",
     NODE(PAD, delta_pad_attrs_t, DELTA_PAD_CONSTANT, L(0, 0, 1, 1), L(0, 0, 1, 1), 0, SHAPE(16, 64, 112, 112)),
     1,
     1,
     {REALS(16, 64, 112, 112)},
     0},
    {"gather 8x512 of 50000x768", NODE(GATHER, delta_gather_attrs_t, 0, 0, {0}), 2, 1, {REALS(50000, 768), ZEROS(INT64, 8, 512)}, 0},
    {"gather gradient",
     NODE(GATHER_GRAD, delta_gather_attrs_t, 0, 0, SHAPE(5000, 768)),
     2,
     1,
     {ZEROS(INT64, 8, 512), REALS(8, 512, 768)},
     0},
    {"resize 2x linear 4x32x56x56",
     NODE(RESIZE, delta_resize_attrs_t, DELTA_RESIZE_LINEAR, DELTA_RESIZE_HALF_PIXEL, .scales = {1, 1, 2, 2},
          .data_shape = SHAPE(4, 32, 56, 56), .out_shape = SHAPE(4, 32, 112, 112)),
     1,
     1,
     {REALS(4, 32, 56, 56)},
     0},
    {"matmul 1024x1024x1024", NODE(MATMUL, delta_matmul_attrs_t, false, false), 2, 1, {REALS(1024, 1024), REALS(1024, 1024)}, 2.147e9},
    {"matmul, b transposed", NODE(MATMUL, delta_matmul_attrs_t, false, true), 2, 1, {REALS(1024, 1024), REALS(1024, 1024)}, 2.147e9},
    {"matmul, a transposed", NODE(MATMUL, delta_matmul_attrs_t, true, false), 2, 1, {REALS(1024, 1024), REALS(1024, 1024)}, 2.147e9},
    {"matmul 1x1024x4096", NODE(MATMUL, delta_matmul_attrs_t, false, false), 2, 1, {REALS(1, 1024), REALS(1024, 4096)}, 8.39e6},
    {"attention scores 8x12x128x64",
     NODE(MATMUL, delta_matmul_attrs_t, false, true),
     2,
     1,
     {REALS(8, 12, 128, 64), REALS(8, 12, 128, 64)},
     2.01e8},
    {"attention values", NODE(MATMUL, delta_matmul_attrs_t, false, false), 2, 1, {REALS(8, 12, 128, 128), REALS(8, 12, 128, 64)}, 2.01e8},
    {"attention keys' gradient",
     NODE(MATMUL, delta_matmul_attrs_t, true, false),
     2,
     1,
     {REALS(8, 12, 128, 128), REALS(8, 12, 128, 64)},
     2.01e8},
    {"batches broadcast 8x1 and 12",
     NODE(MATMUL, delta_matmul_attrs_t, false, false),
     2,
     1,
     {REALS(8, 1, 128, 64), REALS(12, 64, 128)},
     2.01e8},
    {"one a, 96 b", NODE(MATMUL, delta_matmul_attrs_t, false, false), 2, 1, {REALS(128, 64), REALS(96, 64, 128)}, 2.01e8},
    {"96 a transposed, one b", NODE(MATMUL, delta_matmul_attrs_t, true, false), 2, 1, {REALS(96, 64, 128), REALS(64, 128)}, 2.01e8},
    {"conv 3x3 16x64x56x56",
     NODE(CONV, delta_conv_attrs_t, .window = SQUARE(3, 1, 1), .group = 1, .data_spatial = L(56, 56)),
     2,
     1,
     {REALS(16, 64, 56, 56), REALS(64, 64, 3, 3)},
     3.7e9},
    {"conv 3x3 by data",
     NODE(CONV_DATA, delta_conv_attrs_t, .window = SQUARE(3, 1, 1), .group = 1, .data_spatial = L(56, 56)),
     2,
     1,
     {REALS(16, 64, 56, 56), REALS(64, 64, 3, 3)},
     3.7e9},
    {"conv 3x3 by weight",
     NODE(CONV_WEIGHT, delta_conv_attrs_t, .window = SQUARE(3, 1, 1), .group = 1, .data_spatial = L(56, 56)),
     2,
     1,
     {REALS(16, 64, 56, 56), REALS(16, 64, 56, 56)},
     3.7e9},
    {"conv 1x1 16x256>64x56x56",
     NODE(CONV, delta_conv_attrs_t, .window = SQUARE(1, 1, 0), .group = 1, .data_spatial = L(56, 56)),
     2,
     1,
     {REALS(16, 256, 56, 56), REALS(64, 256, 1, 1)},
     1.64e9},
    {"conv 1x1 16x64>256x56x56",
     NODE(CONV, delta_conv_attrs_t, .window = SQUARE(1, 1, 0), .group = 1, .data_spatial = L(56, 56)),
     2,
     1,
     {REALS(16, 64, 56, 56), REALS(256, 64, 1, 1)},
     1.64e9},
    {"conv 1x1 by data",
     NODE(CONV_DATA, delta_conv_attrs_t, .window = SQUARE(1, 1, 0), .group = 1, .data_spatial = L(56, 56)),
     2,
     1,
     {REALS(16, 64, 56, 56), REALS(64, 256, 1, 1)},
     1.64e9},
    {"conv 1x1 by weight",
     NODE(CONV_WEIGHT, delta_conv_attrs_t, .window = SQUARE(1, 1, 0), .group = 1, .data_spatial = L(56, 56)),
     2,
     1,
     {REALS(16, 256, 56, 56), REALS(16, 64, 56, 56)},
     1.64e9},
    {"conv 1x1/2 16x256>512x56x56",
     NODE(CONV, delta_conv_attrs_t, .window = SQUARE(1, 2, 0), .group = 1, .data_spatial = L(56, 56)),
     2,
     1,
     {REALS(16, 256, 56, 56), REALS(512, 256, 1, 1)},
     3.29e9},
    {"conv 3x3 16x512x7x7",
     NODE(CONV, delta_conv_attrs_t, .window = SQUARE(3, 1, 1), .group = 1, .data_spatial = L(7, 7)),
     2,
     1,
     {REALS(16, 512, 7, 7), REALS(512, 512, 3, 3)},
     3.7e9},
    {"conv 3x3 16x512x7x7 by weight",
     NODE(CONV_WEIGHT, delta_conv_attrs_t, .window = SQUARE(3, 1, 1), .group = 1, .data_spatial = L(7, 7)),
     2,
     1,
     {REALS(16, 512, 7, 7), REALS(16, 512, 7, 7)},
     3.7e9},
    {"conv 5x5 128x1>6x28x28",
     NODE(CONV, delta_conv_attrs_t, .window = SQUARE(5, 1, 2), .group = 1, .data_spatial = L(28, 28)),
     2,
     1,
     {REALS(128, 1, 28, 28), REALS(6, 1, 5, 5)},
     3e7},
    {"conv 5x5 by weight",
     NODE(CONV_WEIGHT, delta_conv_attrs_t, .window = SQUARE(5, 1, 2), .group = 1, .data_spatial = L(28, 28)),
     2,
     1,
     {REALS(128, 1, 28, 28), REALS(128, 6, 28, 28)},
     3e7},
    {"conv 7x7/2 16x3>64x224x224",
     NODE(CONV, delta_conv_attrs_t, .window = SQUARE(7, 2, 3), .group = 1, .data_spatial = L(224, 224)),
     2,
     1,
     {REALS(16, 3, 224, 224), REALS(64, 3, 7, 7)},
     3.78e9},
    {"depthwise 3x3 16x128x56x56",
     NODE(CONV, delta_conv_attrs_t, .window = SQUARE(3, 1, 1), .group = 128, .data_spatial = L(56, 56)),
     2,
     1,
     {REALS(16, 128, 56, 56), REALS(128, 1, 3, 3)},
     1.16e8},
    {"depthwise by data",
     NODE(CONV_DATA, delta_conv_attrs_t, .window = SQUARE(3, 1, 1), .group = 128, .data_spatial = L(56, 56)),
     2,
     1,
     {REALS(16, 128, 56, 56), REALS(128, 1, 3, 3)},
     1.16e8},
    {"depthwise by weight",
     NODE(CONV_WEIGHT, delta_conv_attrs_t, .window = SQUARE(3, 1, 1), .group = 128, .data_spatial = L(56, 56)),
     2,
     1,
     {REALS(16, 128, 56, 56), REALS(16, 128, 56, 56)},
     1.16e8},
};

// Memory as programs have it: from an arena of the device.
typedef struct bench_memory {
  delta_device_t *device;
  delta_arena_t *arena; // Owned.
  size_t used_bytes;
} bench_memory_t;

static delta_status_t open_memory(delta_device_t *device, size_t size_bytes, bench_memory_t *memory) {
  size_t whole_bytes;
  *memory = (bench_memory_t){.device = device};
  if (!delta_size_align(size_bytes, device->granule_bytes, &whole_bytes)) return delta_status_make(OUT_OF_MEMORY, "buffers are too large");
  DELTA_RETURN_IF_ERROR(device->driver->arena_reserve(device, whole_bytes, &memory->arena));
  DELTA_RETURN_IF_ERROR(device->driver->arena_commit(memory->arena, whole_bytes));
  memset(device->driver->arena_address(memory->arena, 0), 0, whole_bytes);
  return DELTA_OK;
}

static void close_memory(bench_memory_t *memory) {
  if (memory->arena) memory->device->driver->arena_destroy(memory->arena);
}

static size_t aligned_bytes(const delta_device_t *device, size_t size_bytes) {
  return (size_bytes + device->alignment_bytes - 1) / device->alignment_bytes * device->alignment_bytes;
}

static void *take_buffer(bench_memory_t *memory, size_t size_bytes) {
  void *buffer = memory->device->driver->arena_address(memory->arena, memory->used_bytes);
  memory->used_bytes += aligned_bytes(memory->device, size_bytes);
  return buffer;
}

// How many sets of buffers runs walk through.
static int count_sets(size_t set_bytes, bool is_cold) {
  const size_t wanted = is_cold ? cold_bytes / set_bytes + 2 : 1;
  return wanted < MOST_SETS ? (int)wanted : MOST_SETS;
}

// A plain copy by the same threads: half of the bytes are read, half are written.
static delta_status_t copy_seconds(delta_device_t *device, size_t moved_bytes, bool is_cold, double *out_seconds) {
  const size_t size_bytes = (moved_bytes / 2 + BENCH_LINE_BYTES - 1) / BENCH_LINE_BYTES * BENCH_LINE_BYTES;
  const int sets = count_sets(2 * aligned_bytes(device, size_bytes), is_cold);
  bench_copy_t copies[MOST_SETS] = {{.way = BENCH_MEMCPY}};
  bench_memory_t memory;
  delta_status_t status = open_memory(device, (size_t)sets * 2 * aligned_bytes(device, size_bytes), &memory);
  *out_seconds = 1e9;
  for (int i = 0; !status && i < sets; ++i) {
    char *from = take_buffer(&memory, size_bytes);
    status = bench_add_jobs(&copies[i], take_buffer(&memory, size_bytes), from, size_bytes);
  }
  const double end = delta_clock_seconds() + enough_seconds;
  for (int run = 0; !status && (run < BENCH_WAY_COUNT * LEAST_RUNS || delta_clock_seconds() < end); ++run) {
    bench_copy_t *copy = &copies[run % sets];
    copy->way = (bench_way_t)(run / sets % BENCH_WAY_COUNT);
    const double seconds = bench_copy_seconds(copy, device->threads);
    if (seconds < *out_seconds) *out_seconds = seconds;
  }
  for (int i = 0; i < sets; ++i) delta_array_deinit(delta_allocator_system(), &copies[i].jobs);
  close_memory(&memory);
  return status;
}

typedef struct bench_buffers {
  bench_memory_t memory;
  void *inputs[MOST_SETS][MOST_INPUTS], *outputs[MOST_SETS][MOST_OUTPUTS];
  int sets;
  size_t total_bytes; // of a set's tensors
} bench_buffers_t;

static void fill_input(const delta_tensor_t *tensor, float *data) {
  if (tensor->dtype != DELTA_DTYPE_FLOAT32) return;
  for (int64_t i = 0; i < delta_shape_count(&tensor->shape); ++i) data[i] = (float)((i * 7919) % 1021) / 512 - 1;
}

static delta_status_t make_buffers(delta_device_t *device, const delta_graph_t *graph, const delta_node_t *node, bool is_cold,
                                   bench_buffers_t *buffers) {
  size_t set_bytes = 0;
  for (uint32_t k = 0; k < node->input_count + node->output_count; ++k) {
    const delta_tensor_t *tensor =
        k < node->input_count ? delta_node_input(graph, node, k) : delta_node_output(graph, node, k - node->input_count);
    buffers->total_bytes += delta_tensor_bytes(tensor);
    set_bytes += aligned_bytes(device, delta_tensor_bytes(tensor));
  }
  buffers->sets = count_sets(set_bytes, is_cold);
  DELTA_RETURN_IF_ERROR(open_memory(device, (size_t)buffers->sets * set_bytes, &buffers->memory));
  for (int i = 0; i < buffers->sets; ++i) {
    for (uint32_t k = 0; k < node->input_count; ++k) {
      const delta_tensor_t *tensor = delta_node_input(graph, node, k);
      buffers->inputs[i][k] = take_buffer(&buffers->memory, delta_tensor_bytes(tensor));
      fill_input(tensor, buffers->inputs[i][k]);
    }
    for (uint32_t k = 0; k < node->output_count; ++k)
      buffers->outputs[i][k] = take_buffer(&buffers->memory, delta_tensor_bytes(delta_node_output(graph, node, k)));
  }
  return DELTA_OK;
}

static delta_status_t time_kernel(delta_device_t *device, const delta_graph_t *graph, uint32_t rank, const delta_kernel_offer_t *offer,
                                  const bench_buffers_t *buffers, double *out_seconds) {
  delta_kernel_t *kernel = NULL;
  bench_memory_t workspace;
  delta_status_t status = DELTA_OK;
  *out_seconds = 1e9;
  DELTA_GOTO_IF_ERROR(status, open_memory(device, offer->workspace_bytes + 1, &workspace), cleanup);
  DELTA_GOTO_IF_ERROR(status, device->driver->kernel_prepare(device, graph, (delta_node_id_t){0}, rank, &kernel), cleanup);
  const double end = delta_clock_seconds() + enough_seconds;
  for (int run = 0; !status && (run < LEAST_RUNS || delta_clock_seconds() < end); ++run) {
    const int set = run % buffers->sets;
    const delta_kernel_buffers_t launch = {(const void *const *)buffers->inputs[set], (void *const *)buffers->outputs[set],
                                           take_buffer(&workspace, 0)};
    const double start = delta_clock_seconds();
    status = device->driver->launch(device, DELTA_LANE_COMPUTE, kernel, &launch);
    const double seconds = delta_clock_seconds() - start;
    if (seconds < *out_seconds) *out_seconds = seconds;
  }
cleanup:
  device->driver->kernel_destroy(kernel);
  close_memory(&workspace);
  return status;
}

static delta_status_t print_time(delta_device_t *device, const bench_row_t *row, const delta_kernel_offer_t *offer, double seconds,
                                 size_t total_bytes, bool is_cold) {
  double copied;
  DELTA_RETURN_IF_ERROR(copy_seconds(device, total_bytes, is_cold, &copied));
  printf("%-32s %-10s %9.3f ms %7.2f GB/s %6.2f of a copy", row->name, offer->name, 1e3 * seconds, (double)total_bytes / seconds / 1e9,
         copied / seconds);
  if (row->operations > 0) printf(" %8.1f GFLOP/s", row->operations / seconds / 1e9);
  printf(" workspace %zu\n", offer->workspace_bytes);
  return DELTA_OK;
}

static delta_status_t build_graph(const bench_row_t *row, delta_graph_t *graph) {
  static const char *const names[MOST_INPUTS] = {"a", "b", "c", "d", "e", "f", "g"};
  delta_tensor_id_t inputs[MOST_INPUTS], outputs[MOST_OUTPUTS] = {DELTA_TENSOR_NONE, DELTA_TENSOR_NONE, DELTA_TENSOR_NONE};
  for (uint32_t k = 0; k < row->input_count; ++k)
    DELTA_RETURN_IF_ERROR(delta_graph_add_input(graph, names[k], row->inputs[k].dtype, &row->inputs[k].shape, &inputs[k]));
  delta_emit_t emit;
  delta_emit_init(&emit, graph);
  emit.name = row->name;
  delta_emit_node(&emit, row->op, row->attrs, row->attrs_bytes, inputs, row->input_count, outputs, row->output_count, UINT64_MAX);
  return delta_emit_finish(&emit);
}

static delta_status_t run_row(delta_device_t *device, const bench_row_t *row, bool is_cold) {
  delta_graph_t *graph = NULL;
  bench_buffers_t buffers = {.sets = 0};
  delta_status_t status = delta_graph_create(delta_allocator_system(), &graph);
  if (status) return status;
  DELTA_GOTO_IF_ERROR(status, build_graph(row, graph), cleanup);
  DELTA_GOTO_IF_ERROR(status, make_buffers(device, graph, &graph->nodes.items[0], is_cold, &buffers), cleanup);
  for (uint32_t rank = 0;; ++rank) {
    delta_kernel_offer_t offer;
    bool exists;
    double seconds;
    DELTA_GOTO_IF_ERROR(status, device->driver->kernel_query(device, graph, (delta_node_id_t){0}, rank, &offer, &exists), cleanup);
    if (!exists || strcmp(offer.name, "reference") == 0) break;
    if (offer.refusal) {
      printf("%-32s %-10s refuses: %s\n", row->name, offer.name, offer.refusal);
      continue;
    }
    DELTA_GOTO_IF_ERROR(status, time_kernel(device, graph, rank, &offer, &buffers, &seconds), cleanup);
    DELTA_GOTO_IF_ERROR(status, print_time(device, row, &offer, seconds, buffers.total_bytes, is_cold), cleanup);
  }
cleanup:
  close_memory(&buffers.memory);
  delta_graph_free(graph);
  return status;
}

int main(int count, char **arguments) {
  const delta_device_options_t options = {.threads = count > 1 ? atoi(arguments[1]) : 0};
  delta_device_t *device = NULL;
  delta_status_t status = delta_device_open("cpu", &options, delta_allocator_system(), &device);
  for (size_t i = 0; !status && i < sizeof rows / sizeof *rows; ++i) {
    if (count > 2 && !strstr(rows[i].name, arguments[2])) continue;
    status = delta_status_annotate(run_row(device, &rows[i], count > 3), "%s", rows[i].name);
  }
  if (status) fprintf(stderr, "%s\n", delta_status_message(status));
  delta_device_close(device);
  int code = status ? 1 : 0;
  delta_status_free(status);
  return code;
}
