// Gradient checks: the gradient of every core operator and every instruction against central differences in float64, through the reference kernels.
// The checked function is the sum of all outputs times random weights; each input moves along random directions.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "onnx/gradient/gradient.h"
#include "tests/support/indices.h"
#include "onnx/reference/run.h"

enum { MAX_INPUTS = 20, MAX_PARAMETERS = 12 };

typedef struct fixture {
  delta_graph_t *graph;
  delta_emit_t emit;
  const int64_t *p; // the case's parameters
  delta_tensor_id_t xs[MAX_INPUTS];
  uint32_t x_count;
  uint32_t weight_count;
  delta_tensor_id_t loss;
  uint64_t draws;
} fixture_t;

static double draw(fixture_t *f) { return (double)delta_random_uniform(delta_random_word(17, f->draws++)); }

#define SHAPE(rank_, ...) ((delta_shape_t){.rank = (rank_), .dims = {__VA_ARGS__}})

static delta_tensor_id_t input(fixture_t *f, delta_shape_t shape) {
  char name[16];
  snprintf(name, sizeof name, "x%u", f->x_count);
  delta_tensor_id_t id;
  const delta_status_t status = delta_graph_add_input(f->graph, name, DELTA_DTYPE_FLOAT64, &shape, &id);
  cr_assert_null(status, "%s", delta_status_message(status));
  f->xs[f->x_count++] = id;
  return id;
}

static void output(fixture_t *f, delta_tensor_id_t y) {
  cr_assert(delta_emit_ok(&f->emit), "%s", delta_status_message(f->emit.status));
  const delta_shape_t shape = *delta_emit_shape(&f->emit, y);
  char name[16];
  snprintf(name, sizeof name, "weight%u", f->weight_count++);
  delta_tensor_id_t weight;
  const delta_status_t status = delta_graph_add_input(f->graph, name, delta_emit_dtype(&f->emit, y), &shape, &weight);
  cr_assert_null(status, "%s", delta_status_message(status));
  delta_tensor_id_t term = delta_emit_binary(&f->emit, DELTA_EXPR_MUL, y, weight);
  term = delta_emit_reduce(&f->emit, DELTA_REDUCE_SUM, term, (1u << shape.rank) - 1u);
  term = delta_emit_view(&f->emit, term, &(delta_shape_t){0});
  f->loss = f->weight_count == 1 ? term : delta_emit_binary(&f->emit, DELTA_EXPR_ADD, f->loss, term);
}

static delta_tensor_id_t constant_ints(fixture_t *f, delta_shape_t shape, const int64_t *values) {
  return delta_emit_constant(&f->emit, DELTA_DTYPE_INT64, &shape, values);
}

// Builders of the cases. p[0] and on are the case's parameters.

// Any instruction of one operand: p[0] the instruction.
static void build_unary(fixture_t *f) { output(f, delta_emit_unary(&f->emit, (delta_expr_op_t)f->p[0], input(f, SHAPE(2, 3, 5)))); }

// Any instruction of two operands, broadcast in several ways: p[0] the instruction, p[1] the way.
static void build_binary(fixture_t *f) {
  const delta_shape_t ways[][2] = {{SHAPE(3, 2, 3, 4), SHAPE(3, 2, 3, 4)}, {SHAPE(3, 2, 3, 4), SHAPE(2, 3, 1)},
                                   {SHAPE(1, 4), SHAPE(3, 2, 3, 4)},       {SHAPE(3, 2, 1, 4), SHAPE(3, 1, 3, 1)},
                                   {SHAPE(0, 0), SHAPE(2, 3, 4)},          {SHAPE(2, 1, 4), SHAPE(1, 4)},
                                   {SHAPE(2, 3, 4), SHAPE(3, 1, 1, 4)}};
  const delta_tensor_id_t a = input(f, ways[f->p[1]][0]);
  const delta_tensor_id_t b = input(f, ways[f->p[1]][1]);
  output(f, delta_emit_binary(&f->emit, (delta_expr_op_t)f->p[0], a, b));
}

// Against a constant: p[0] the instruction, p[1] / 10 the constant, p[2]: the constant is the first operand.
static void build_with_constant(fixture_t *f) {
  const delta_tensor_id_t x = input(f, SHAPE(2, 4, 5));
  const delta_tensor_id_t c = delta_emit_scalar(&f->emit, DELTA_DTYPE_FLOAT64, (double)f->p[1] / 10.0);
  output(f, f->p[2] ? delta_emit_binary(&f->emit, (delta_expr_op_t)f->p[0], c, x)
                    : delta_emit_binary(&f->emit, (delta_expr_op_t)f->p[0], x, c));
}

static void build_select(fixture_t *f) {
  const delta_tensor_id_t condition = delta_emit_binary_real(&f->emit, DELTA_EXPR_GT, input(f, SHAPE(2, 3, 4)), 0.1);
  const delta_tensor_id_t a = input(f, SHAPE(2, 3, 4));
  output(f, delta_emit_select(&f->emit, condition, a, input(f, SHAPE(1, 4))));
}

// One expression with two outputs, one of which is also read on the way to the other, and a broadcast input.
static void build_two_outputs(fixture_t *f) {
  const delta_tensor_id_t inputs[3] = {input(f, SHAPE(2, 3, 4)), input(f, SHAPE(1, 4)), input(f, SHAPE(2, 3, 1))};
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT64);
  const uint16_t product = delta_expr_binary(&b, DELTA_EXPR_MUL, delta_expr_input(&b, 0), delta_expr_input(&b, 1));
  const uint16_t curve = delta_expr_unary(&b, DELTA_EXPR_TANH, product);
  delta_expr_output(&b, curve);
  delta_expr_output(&b,
                    delta_expr_binary(&b, DELTA_EXPR_ADD, delta_expr_binary(&b, DELTA_EXPR_MUL, curve, curve), delta_expr_input(&b, 2)));
  delta_tensor_id_t outputs[2];
  delta_emit_exprs(&f->emit, &b, (const delta_dtype_t[]){DELTA_DTYPE_FLOAT64, DELTA_DTYPE_FLOAT64}, inputs, 3, outputs);
  output(f, outputs[0]);
  if (f->p[0]) output(f, outputs[1]);
}

// An activation after a bias: the bias's gradient is a sum of the other's.
static void build_activation(fixture_t *f) {
  const delta_tensor_id_t inputs[2] = {input(f, SHAPE(2, 3, 4)), input(f, SHAPE(3, 1, 1, 4))};
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT64);
  const uint16_t x = delta_expr_input(&b, 0), bias = delta_expr_input(&b, 1);
  delta_expr_output(&b, delta_expr_unary(&b, DELTA_EXPR_SIN, delta_expr_binary(&b, DELTA_EXPR_ADD, x, bias)));
  output(f, delta_emit_expr(&f->emit, &b, DELTA_DTYPE_FLOAT64, inputs, 2));
}

// An expression of p[0] links x <- tanh(x * a + b), reduced when p[1]: its derivative passes the limits and must be unfolded.
static void build_long(fixture_t *f) {
  const delta_tensor_id_t inputs[3] = {input(f, SHAPE(2, 3, 4)), input(f, SHAPE(1, 4)), input(f, SHAPE(2, 3, 1))};
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT64);
  uint16_t x = delta_expr_input(&b, 0);
  for (int64_t i = 0; i < f->p[0]; ++i) {
    x = delta_expr_binary(&b, DELTA_EXPR_MUL, x, delta_expr_input(&b, 1));
    x = delta_expr_unary(&b, i % 2 ? DELTA_EXPR_SIN : DELTA_EXPR_TANH, delta_expr_binary(&b, DELTA_EXPR_ADD, x, delta_expr_input(&b, 2)));
  }
  delta_expr_output(&b, x);
  const delta_reduce_kind_t kind = f->p[1] == 2 ? DELTA_REDUCE_MAX : DELTA_REDUCE_SUM;
  output(f, delta_emit_reduce_expr(&f->emit, kind, &b, DELTA_DTYPE_FLOAT64, inputs, 3, f->p[1] ? 2u : 0u));
}

// A product of many inputs: with the gradient of the output the derivative needs more inputs than an expression has.
static void build_many_inputs(fixture_t *f) {
  delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS];
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT64);
  uint16_t sum = delta_expr_real(&b, 1.0);
  for (uint16_t k = 0; k < DELTA_EXPR_MAX_INPUTS; ++k) {
    inputs[k] = input(f, k % 3 ? SHAPE(2, 2, 3) : SHAPE(1, 3));
    const uint16_t x = delta_expr_input(&b, k);
    sum = k % 2 ? delta_expr_binary(&b, DELTA_EXPR_MUL, sum, x)
                : delta_expr_binary(&b, DELTA_EXPR_ADD, sum, delta_expr_unary(&b, DELTA_EXPR_SIN, x));
  }
  delta_expr_output(&b, sum);
  output(f, delta_emit_expr(&f->emit, &b, DELTA_DTYPE_FLOAT64, inputs, DELTA_EXPR_MAX_INPUTS));
}

// p[0] the kind, p[1] the axes.
static void build_reduce(fixture_t *f) {
  output(f, delta_emit_reduce(&f->emit, (delta_reduce_kind_t)f->p[0], input(f, SHAPE(3, 2, 3, 4)), (uint32_t)f->p[1]));
}

// A prologue over broadcast inputs: p[0] the kind, p[1] the axes.
static void build_reduce_prologue(fixture_t *f) {
  const delta_tensor_id_t inputs[2] = {input(f, SHAPE(3, 2, 3, 4)), input(f, SHAPE(2, 3, 1))};
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT64);
  const uint16_t product = delta_expr_binary(&b, DELTA_EXPR_MUL, delta_expr_input(&b, 0), delta_expr_input(&b, 1));
  delta_expr_output(&b, delta_expr_unary(&b, DELTA_EXPR_SIN, product));
  output(f, delta_emit_reduce_expr(&f->emit, (delta_reduce_kind_t)f->p[0], &b, DELTA_DTYPE_FLOAT64, inputs, 2, (uint32_t)f->p[1]));
}

// One reduction with an output of every kind.
static void build_reduce_outputs(fixture_t *f) {
  const delta_tensor_id_t inputs[2] = {input(f, SHAPE(3, 2, 3, 4)), input(f, SHAPE(1, 4))};
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT64);
  const uint16_t x = delta_expr_input(&b, 0), y = delta_expr_input(&b, 1);
  const uint16_t product = delta_expr_binary(&b, DELTA_EXPR_MUL, x, y);
  for (int k = 0; k < 4; ++k) delta_expr_output(&b, k % 2 ? x : product);
  delta_expr_output(&b, delta_expr_unary(&b, DELTA_EXPR_EXP, y));
  delta_expr_t expr = b.expr;
  void *instrs;
  cr_assert_null(delta_region_copy(&f->graph->region, expr.instrs, expr.instr_count, sizeof *expr.instrs, &instrs));
  expr.instrs = instrs;
  delta_reduce_attrs_t attrs = {.shape = SHAPE(3, 2, 3, 4), .axes = 5, .expr = expr};
  delta_tensor_id_t outputs[5];
  for (int k = 0; k < 5; ++k) {
    attrs.kinds[k] = (delta_reduce_kind_t)k;
    attrs.dtypes[k] = DELTA_DTYPE_FLOAT64;
  }
  delta_emit_node(&f->emit, DELTA_CORE_REDUCE, &attrs, sizeof attrs, inputs, 2, outputs, 5, 0);
  for (int k = 0; k < 5; ++k) {
    if (k != f->p[0]) output(f, outputs[k]);
  }
}

// Products where p[0] factors of the first row are zero; fill() makes them so.
static void build_product_zeros(fixture_t *f) { output(f, delta_emit_reduce(&f->emit, DELTA_REDUCE_PROD, input(f, SHAPE(2, 3, 4)), 2)); }

// p[0] the axes; p[1]: 1 mean, 2 variance, 3 both.
static void build_moments(fixture_t *f) {
  delta_tensor_id_t mean, variance;
  delta_emit_moments(&f->emit, input(f, SHAPE(3, 2, 3, 4)), (uint32_t)f->p[0], &mean, &variance);
  if (f->p[1] & 1) output(f, mean);
  if (f->p[1] & 2) output(f, variance);
}

// p[0], p[1] transposed; p[2] the leading dimensions; p[3]: 1 added, 2 a bias, 3 both.
static void build_matmul(fixture_t *f) {
  const delta_shape_t leads[][2] = {{SHAPE(0, 0), SHAPE(0, 0)},       {SHAPE(1, 3), SHAPE(1, 3)},    {SHAPE(2, 2, 3), SHAPE(0, 0)},
                                    {SHAPE(0, 0), SHAPE(2, 2, 3)},    {SHAPE(2, 2, 1), SHAPE(1, 3)}, {SHAPE(1, 1), SHAPE(2, 2, 3)},
                                    {SHAPE(2, 2, 3), SHAPE(2, 1, 1)}, {SHAPE(0, 0), SHAPE(2, 1, 1)}};
  delta_shape_t a = leads[f->p[2]][0], b = leads[f->p[2]][1];
  a.dims[a.rank++] = f->p[0] ? 5 : 4;
  a.dims[a.rank++] = f->p[0] ? 4 : 5;
  b.dims[b.rank++] = f->p[1] ? 2 : 5;
  b.dims[b.rank++] = f->p[1] ? 5 : 2;
  const delta_tensor_id_t first = input(f, a);
  const delta_tensor_id_t product = delta_emit_matmul(&f->emit, first, input(f, b), f->p[0] != 0, f->p[1] != 0);
  if (!f->p[3]) {
    output(f, product);
    return;
  }
  const delta_tensor_id_t added = f->p[3] & 1 ? input(f, *delta_emit_shape(&f->emit, product)) : DELTA_TENSOR_NONE,
                          bias = f->p[3] & 2 ? input(f, SHAPE(1, 2)) : DELTA_TENSOR_NONE;
  const delta_matmul_attrs_t attrs = {.transpose_a = f->p[0] != 0, .transpose_b = f->p[1] != 0};
  output(f, DELTA_EMIT(&f->emit, MATMUL, attrs, first, f->xs[1], added, bias));
}

// p: operator (0 CONV, 1 CONV_DATA, 2 CONV_WEIGHT), spatial dimensions, group, stride, dilation, pad begin, pad end, bias.
static void build_conv(fixture_t *f) {
  const int32_t spatial = (int32_t)f->p[1];
  delta_conv_attrs_t attrs = {.group = f->p[2], .window = {.spatial = spatial}};
  delta_shape_t x = {.rank = spatial + 2, .dims = {2, 4}}, w = {.rank = spatial + 2, .dims = {6, 4 / attrs.group}};
  delta_shape_t y = {.rank = spatial + 2, .dims = {2, 6}};
  for (int32_t d = 0; d < spatial; ++d) {
    attrs.window.kernel[d] = d == 1 ? 2 : 3;
    attrs.window.strides[d] = f->p[3];
    attrs.window.dilations[d] = f->p[4];
    attrs.window.pads_begin[d] = f->p[5];
    attrs.window.pads_end[d] = f->p[6];
    attrs.data_spatial[d] = x.dims[d + 2] = 6 + d;
    w.dims[d + 2] = attrs.window.kernel[d];
    y.dims[d + 2] = (x.dims[d + 2] + f->p[5] + f->p[6] - (attrs.window.kernel[d] - 1) * f->p[4] - 1) / f->p[3] + 1;
  }
  const delta_core_op_t ops[3] = {DELTA_CORE_CONV, DELTA_CORE_CONV_DATA, DELTA_CORE_CONV_WEIGHT};
  const delta_tensor_id_t first = input(f, f->p[0] == 1 ? y : x);
  const delta_tensor_id_t second = input(f, f->p[0] == 2 ? y : w);
  const delta_tensor_id_t bias = f->p[7] ? input(f, SHAPE(1, f->p[0] == 1 ? 4 : 6)) : DELTA_TENSOR_NONE;
  const delta_tensor_id_t inputs[3] = {first, second, bias};
  output(f, delta_emit_one(&f->emit, ops[f->p[0]], &attrs, sizeof attrs, inputs, f->p[7] ? 3 : 2));
}

// p: 0 maximum or 1 average, spatial dimensions, kernel, stride, dilation, pad, out size, index kind (3: no index kept) or count_include_pad.
static void build_pool(fixture_t *f) {
  const int32_t spatial = (int32_t)f->p[1];
  delta_pool_attrs_t attrs = {.window = {.spatial = spatial}};
  delta_shape_t x = {.rank = spatial + 2, .dims = {2, 3}};
  for (int32_t d = 0; d < spatial; ++d) {
    attrs.window.kernel[d] = f->p[2];
    attrs.window.strides[d] = f->p[3];
    attrs.window.dilations[d] = f->p[4];
    attrs.window.pads_begin[d] = attrs.window.pads_end[d] = f->p[5];
    attrs.out_spatial[d] = f->p[6];
    attrs.data_spatial[d] = x.dims[d + 2] = 7;
  }
  const delta_tensor_id_t data = input(f, x);
  if (f->p[0] == 1) {
    attrs.count_include_pad = f->p[7] != 0;
    output(f, DELTA_EMIT(&f->emit, AVERAGE_POOL, attrs, data));
    return;
  }
  const bool keep = f->p[7] < 3;
  attrs.index = keep ? (delta_pool_index_t)f->p[7] : DELTA_POOL_INDEX_WINDOW;
  delta_tensor_id_t outputs[2];
  delta_emit_node(&f->emit, DELTA_CORE_MAX_POOL, &attrs, sizeof attrs, &data, 1, outputs, keep ? 2 : 1, 2);
  output(f, outputs[0]);
}

// p[0] the axis, p[1] the logarithm.
static void build_softmax(fixture_t *f) {
  const delta_softmax_attrs_t attrs = {.axis = (int32_t)f->p[0], .log = f->p[1] != 0};
  output(f, DELTA_EMIT(&f->emit, SOFTMAX, attrs, input(f, SHAPE(3, 2, 3, 4))));
}

// p[0]: 0 cross entropy, 1 negative log likelihood; p[1] the axis; p[2] an ignored label; p[3] class weights; p[4] outputs taken: 1 loss, 2 log_sum.
static void build_class_loss(fixture_t *f) {
  const delta_class_loss_attrs_t attrs = {.axis = (int32_t)f->p[1], .classes = 4, .has_ignore = f->p[2] != 0, .ignore_index = -100};
  const delta_shape_t scores = f->p[1] == 0 ? SHAPE(1, 4) : f->p[1] == 1 ? SHAPE(3, 2, 4, 3) : SHAPE(3, 2, 3, 4);
  const delta_shape_t labels_shape = f->p[1] == 0 ? SHAPE(0, 0) : SHAPE(2, 2, 3);
  const int64_t labels[6] = {2, 0, f->p[2] ? -100 : 1, 3, 3, 1};
  const double weights[4] = {0.5, 2.0, 1.25, 0.75};
  const delta_tensor_id_t inputs[3] = {input(f, scores), constant_ints(f, labels_shape, labels),
                                       delta_emit_constant(&f->emit, DELTA_DTYPE_FLOAT64, &SHAPE(1, 4), weights)};
  delta_tensor_id_t outputs[3];
  delta_emit_node(&f->emit, f->p[0] ? DELTA_CORE_NLL : DELTA_CORE_CROSS_ENTROPY, &attrs, sizeof attrs, inputs, f->p[3] ? 3 : 2, outputs,
                  f->p[0] ? 2 : 3, 0);
  if (f->p[4] & 1) output(f, outputs[0]);
  if (f->p[4] & 2) output(f, outputs[2]);
}

// p[0] / 10 the ratio, p[1]: the mask is kept and the lever off.
static void build_dropout(fixture_t *f) {
  const delta_dropout_attrs_t attrs = {.ratio = (double)f->p[0] / 10.0, .stream = 3};
  const int64_t numbers[2] = {5, 7};
  const delta_tensor_id_t inputs[3] = {input(f, SHAPE(2, 5, 6)), constant_ints(f, SHAPE(0, 0), numbers),
                                       constant_ints(f, SHAPE(0, 0), numbers + 1)};
  delta_tensor_id_t outputs[2];
  delta_emit_node(&f->emit, DELTA_CORE_DROPOUT, &attrs, sizeof attrs, inputs, 3, outputs, f->p[1] ? 2 : 1, 2);
  output(f, outputs[0]);
}

// p[0]: 0 no mask, 1 a trained mask that repeats over batches, 2 over queries, 3 over keys, 4 over everything but keys; p[1] / 10 the ratio of dropout;
// p[2]: heads inside.
static void build_attention(fixture_t *f) {
  const delta_attention_attrs_t attrs = {.scale = 0.7, .ratio = (double)f->p[1] / 10.0, .stream = 5, .heads_inside = f->p[2] != 0};
  const delta_shape_t masks[] = {{0}, SHAPE(4, 1, 2, 3, 5), SHAPE(4, 2, 2, 1, 5), SHAPE(3, 2, 3, 1), SHAPE(1, 5)};
  const int64_t numbers[2] = {5, 7};
  delta_tensor_id_t inputs[6] = {input(f, attrs.heads_inside ? SHAPE(4, 2, 3, 2, 4) : SHAPE(4, 2, 2, 3, 4)),
                                 input(f, attrs.heads_inside ? SHAPE(4, 2, 5, 2, 4) : SHAPE(4, 2, 2, 5, 4)),
                                 input(f, attrs.heads_inside ? SHAPE(4, 2, 5, 2, 3) : SHAPE(4, 2, 2, 5, 3)),
                                 DELTA_TENSOR_NONE,
                                 constant_ints(f, SHAPE(0, 0), numbers),
                                 constant_ints(f, SHAPE(0, 0), numbers + 1)};
  if (f->p[0] > 0) inputs[3] = input(f, masks[f->p[0]]);
  delta_tensor_id_t outputs[2];
  delta_emit_node(&f->emit, DELTA_CORE_ATTENTION, &attrs, sizeof attrs, inputs, f->p[1] ? 6 : 4, outputs, f->p[3] ? 1 : 2, 2);
  output(f, outputs[0]);
}

static void build_transpose(fixture_t *f) {
  const int32_t permutation[4] = {(int32_t)f->p[0], (int32_t)f->p[1], (int32_t)f->p[2], (int32_t)f->p[3]};
  output(f, delta_emit_transpose(&f->emit, input(f, SHAPE(4, 2, 3, 4, 1)), permutation));
}

// p[0]: the slice's gradient as the forward operator.
static void build_slice(fixture_t *f) {
  const delta_slice_attrs_t attrs = {.shape = SHAPE(2, 2, 3), .data_shape = SHAPE(2, 5, 7), .starts = {1, 6}, .steps = {2, -3}};
  output(f, f->p[0] ? DELTA_EMIT(&f->emit, SLICE_GRAD, attrs, input(f, attrs.shape))
                    : DELTA_EMIT(&f->emit, SLICE, attrs, input(f, attrs.data_shape)));
}

// p[0]: bit mask of the parts that are used.
static void build_split(fixture_t *f) {
  const int64_t sizes[3] = {1, 3, 2};
  delta_tensor_id_t parts[3];
  delta_emit_split(&f->emit, input(f, SHAPE(3, 2, 6, 2)), 1, sizes, 3, parts);
  for (int k = 0; k < 3; ++k) {
    if ((f->p[0] >> k) & 1) output(f, parts[k]);
  }
}

// p[0]: one of the parts is a constant.
static void build_concat(fixture_t *f) {
  const double values[4] = {1, 2, 3, 4};
  delta_tensor_id_t parts[3] = {input(f, SHAPE(2, 2, 3)), input(f, SHAPE(2, 2, 1)), DELTA_TENSOR_NONE};
  parts[2] = f->p[0] ? delta_emit_constant(&f->emit, DELTA_DTYPE_FLOAT64, &SHAPE(2, 2, 2), values) : parts[0];
  output(f, delta_emit_concat(&f->emit, parts, 3, 1));
}

// p[0] the mode, p[1], p[2] begin and end of axis 0, p[3], p[4] of axis 1.
static void build_pad(fixture_t *f) {
  const delta_pad_attrs_t attrs = {.mode = (delta_pad_mode_t)f->p[0],
                                   .begin = {f->p[1], f->p[3]},
                                   .end = {f->p[2], f->p[4]},
                                   .value = 2.5,
                                   .data_shape = SHAPE(2, 4, 5)};
  output(f, DELTA_EMIT(&f->emit, PAD, attrs, input(f, attrs.data_shape)));
}

// p[0] the axis, p[1]: the gather's gradient as the forward operator. Indices repeat, and some count from the end.
static void build_gather(fixture_t *f) {
  const int64_t values[4] = {1, -1, 1, 0};
  const delta_tensor_id_t indices = constant_ints(f, SHAPE(2, 2, 2), values);
  const delta_gather_attrs_t attrs = {.axis = (int32_t)f->p[0], .data_shape = SHAPE(2, 3, 4)};
  const delta_shape_t gathered = f->p[0] == 0 ? SHAPE(3, 2, 2, 4) : SHAPE(3, 3, 2, 2);
  output(f, f->p[1] ? DELTA_EMIT(&f->emit, GATHER_GRAD, attrs, indices, input(f, gathered))
                    : DELTA_EMIT(&f->emit, GATHER, attrs, input(f, attrs.data_shape), indices));
}

// p[0] the axis.
static void build_gather_elements(fixture_t *f) {
  const int64_t values[6] = {1, 0, -1, 1, 1, 2};
  const delta_gather_attrs_t attrs = {.axis = (int32_t)f->p[0]};
  output(f, DELTA_EMIT(&f->emit, GATHER_ELEMENTS, attrs, input(f, SHAPE(2, 3, 4)), constant_ints(f, SHAPE(2, 2, 3), values)));
}

// p[0] the axis, p[1] the kind. Indices repeat only where they add.
static void build_scatter_elements(fixture_t *f) {
  const int64_t repeated[4] = {1, 0, 1, 2}, distinct[4] = {1, 0, 2, 1};
  const delta_scatter_attrs_t attrs = {.axis = (int32_t)f->p[0], .kind = (delta_scatter_kind_t)f->p[1]};
  const delta_tensor_id_t data = input(f, SHAPE(2, 3, 4));
  const delta_tensor_id_t indices = constant_ints(f, SHAPE(2, 2, 2), attrs.kind == DELTA_SCATTER_ADD ? repeated : distinct);
  output(f, DELTA_EMIT(&f->emit, SCATTER_ELEMENTS, attrs, data, indices, input(f, SHAPE(2, 2, 2))));
}

// p[0] batch_dims.
static void build_gather_nd(fixture_t *f) {
  const int64_t values[8] = {0, 1, 1, 2, 1, -1, 0, 1};
  const delta_gather_attrs_t attrs = {.batch_dims = (int32_t)f->p[0]};
  const delta_shape_t indices = f->p[0] == 0 ? SHAPE(3, 2, 2, 2) : f->p[0] == 1 ? SHAPE(3, 2, 4, 1) : SHAPE(4, 2, 2, 2, 1);
  const delta_shape_t data = f->p[0] == 2 ? SHAPE(4, 2, 2, 3, 2) : SHAPE(3, 2, 3, 4);
  output(f, DELTA_EMIT(&f->emit, GATHER_ND, attrs, input(f, data), constant_ints(f, indices, values)));
}

static void build_scatter_nd(fixture_t *f) {
  const int64_t values[4] = {0, 2, 1, 1};
  const delta_scatter_attrs_t attrs = {.kind = (delta_scatter_kind_t)f->p[0]};
  const delta_tensor_id_t data = input(f, SHAPE(3, 2, 3, 4));
  output(f, DELTA_EMIT(&f->emit, SCATTER_ND, attrs, data, constant_ints(f, SHAPE(2, 2, 2), values), input(f, SHAPE(2, 2, 4))));
}

static void build_trilu(fixture_t *f) {
  const delta_trilu_attrs_t attrs = {.upper = f->p[0] != 0, .k = f->p[1]};
  output(f, DELTA_EMIT(&f->emit, TRILU, attrs, input(f, SHAPE(3, 2, 4, 5))));
}

static void build_cumsum(fixture_t *f) {
  const delta_cumsum_attrs_t attrs = {.axis = 1, .exclusive = f->p[0] != 0, .reverse = f->p[1] != 0};
  output(f, DELTA_EMIT(&f->emit, CUMSUM, attrs, input(f, SHAPE(3, 2, 4, 3))));
}

static void build_topk(fixture_t *f) {
  const delta_topk_attrs_t attrs = {.axis = (int32_t)f->p[0], .k = 2, .smallest = f->p[1] != 0};
  const delta_tensor_id_t x = input(f, SHAPE(2, 4, 5));
  delta_tensor_id_t outputs[2];
  delta_emit_node(&f->emit, DELTA_CORE_TOPK, &attrs, sizeof attrs, &x, 1, outputs, 2, 0);
  output(f, outputs[0]);
}

// p: mode, coordinate, rounding, out size, antialias, exclude_outside, 1: the gradient as the forward operator.
static void build_resize(fixture_t *f) {
  delta_resize_attrs_t attrs = {.mode = (delta_resize_mode_t)f->p[0],
                                .coordinate = (delta_resize_coordinate_t)f->p[1],
                                .rounding = (delta_resize_rounding_t)f->p[2],
                                .cubic_coefficient = -0.75,
                                .antialias = f->p[4] != 0,
                                .exclude_outside = f->p[5] != 0,
                                .extrapolation_value = 3.0,
                                .out_shape = SHAPE(4, 1, 2, f->p[3], f->p[3] + 1),
                                .data_shape = SHAPE(4, 1, 2, 4, 5)};
  for (int32_t d = 0; d < 4; ++d) {
    attrs.scales[d] = (double)attrs.out_shape.dims[d] / (double)attrs.data_shape.dims[d];
    attrs.roi_start[d] = d < 2 ? 0.0 : -0.2;
    attrs.roi_end[d] = d < 2 ? 1.0 : 0.9;
  }
  output(f, f->p[6] ? DELTA_EMIT(&f->emit, RESIZE_GRAD, attrs, input(f, attrs.out_shape))
                    : DELTA_EMIT(&f->emit, RESIZE, attrs, input(f, attrs.data_shape)));
}

static void build_view(fixture_t *f) { output(f, delta_emit_view(&f->emit, input(f, SHAPE(3, 2, 3, 4)), &SHAPE(2, 8, 3))); }

// One input on several paths, an input that leads nowhere, and a cast on the way.
static void build_fan_out(fixture_t *f) {
  const delta_tensor_id_t x = input(f, SHAPE(2, 3, 3)), unused = input(f, SHAPE(1, 3));
  (void)unused;
  const delta_tensor_id_t product = delta_emit_matmul(&f->emit, x, x, false, true);
  const delta_tensor_id_t sum = delta_emit_binary(&f->emit, DELTA_EXPR_ADD, product, x);
  output(f, delta_emit_binary(&f->emit, DELTA_EXPR_MUL, sum, x));
  output(f, delta_emit_unary(&f->emit, DELTA_EXPR_TANH, sum));
  output(f, delta_emit_copy(&f->emit, x));
}

typedef struct gradient_case {
  const char *name;
  void (*build)(fixture_t *f);
  double low, high; // range of the inputs
  int64_t p[MAX_PARAMETERS];
} gradient_case_t;

#define UNARY(op, low, high)                         \
  {                                                  \
#op, build_unary, low, high, { DELTA_EXPR_##op } \
  }
#define BINARY(op, way, low, high)                         \
  {                                                        \
#op, build_binary, low, high, { DELTA_EXPR_##op, way } \
  }
#define CONSTANT(op, tenths, first, low, high)                                          \
  {                                                                                     \
#op " constant", build_with_constant, low, high, { DELTA_EXPR_##op, tenths, first } \
  }

static const gradient_case_t cases[] = {
    UNARY(NEG, -1, 1),
    UNARY(ABS, -1, 1),
    UNARY(SIGN, -1, 1),
    UNARY(RECIPROCAL, 0.5, 2),
    UNARY(SQRT, 0.5, 2),
    UNARY(EXP, -1, 1),
    UNARY(LOG, 0.5, 2),
    UNARY(LOG1P, -0.5, 2),
    UNARY(EXPM1, -1, 1),
    UNARY(ERF, -1, 1),
    UNARY(SIN, -2, 2),
    UNARY(COS, -2, 2),
    UNARY(TAN, -1, 1),
    UNARY(ASIN, -0.8, 0.8),
    UNARY(ACOS, -0.8, 0.8),
    UNARY(ATAN, -2, 2),
    UNARY(SINH, -1, 1),
    UNARY(COSH, -1, 1),
    UNARY(TANH, -1, 1),
    UNARY(ASINH, -2, 2),
    UNARY(ACOSH, 1.2, 3),
    UNARY(ATANH, -0.8, 0.8),
    UNARY(SIGMOID, -2, 2),
    UNARY(RELU, -1, 1),
    UNARY(FLOOR, 0.1, 0.9),
    UNARY(CEIL, 0.1, 0.9),
    UNARY(ROUND, 0.6, 1.4),
    BINARY(ADD, 0, -1, 1),
    BINARY(ADD, 1, -1, 1),
    BINARY(ADD, 3, -1, 1),
    BINARY(ADD, 6, -1, 1),
    BINARY(SUB, 2, -1, 1),
    BINARY(SUB, 4, -1, 1),
    BINARY(MUL, 0, -1, 1),
    BINARY(MUL, 1, -1, 1),
    BINARY(MUL, 3, -1, 1),
    BINARY(MUL, 5, -1, 1),
    BINARY(MUL, 6, -1, 1),
    BINARY(DIV, 0, 0.5, 2),
    BINARY(DIV, 1, 0.5, 2),
    BINARY(DIV, 3, 0.5, 2),
    BINARY(MOD, 0, 0.5, 2),
    BINARY(MOD, 2, 0.5, 2),
    BINARY(FMOD, 0, 0.5, 2),
    BINARY(POW, 0, 0.5, 2),
    BINARY(POW, 1, 0.5, 2),
    BINARY(POW, 4, 0.5, 2),
    BINARY(MIN, 0, -1, 1),
    BINARY(MIN, 2, -1, 1),
    BINARY(MAX, 0, -1, 1),
    BINARY(MAX, 3, -1, 1),
    CONSTANT(POW, 20, 0, -1, 1),
    CONSTANT(POW, 30, 0, -1, 1),
    CONSTANT(POW, 5, 0, 0.5, 2),
    CONSTANT(POW, 10, 0, -1, 1),
    CONSTANT(POW, 0, 0, -1, 1),
    CONSTANT(POW, 20, 1, -1, 1),
    CONSTANT(MAX, 3, 0, -1, 1),
    CONSTANT(MIN, 3, 1, -1, 1),
    CONSTANT(DIV, 20, 1, 0.5, 2),
    CONSTANT(FMOD, -3, 0, -1, 1),
    CONSTANT(MOD, -3, 0, -1, 1),
    CONSTANT(MUL, 7, 0, -1, 1),
    {"select", build_select, -1, 1, {0}},
    {"two outputs, one used", build_two_outputs, -1, 1, {0}},
    {"two outputs", build_two_outputs, -1, 1, {1}},
    {"activation after a bias", build_activation, -1, 1, {0}},
    {"long expression", build_long, -1, 1, {20}},
    {"longest expression", build_long, -1, 1, {30}},
    {"long prologue", build_long, -1, 1, {30, 1}},
    {"long prologue of a maximum", build_long, -1, 1, {30, 2}},
    {"many inputs", build_many_inputs, 0.5, 1, {0}},
    {"sum over 1", build_reduce, -1, 1, {DELTA_REDUCE_SUM, 2}},
    {"sum over 0, 2", build_reduce, -1, 1, {DELTA_REDUCE_SUM, 5}},
    {"mean over all", build_reduce, -1, 1, {DELTA_REDUCE_MEAN, 7}},
    {"mean over 2", build_reduce, -1, 1, {DELTA_REDUCE_MEAN, 4}},
    {"maximum over 0, 1", build_reduce, -1, 1, {DELTA_REDUCE_MAX, 3}},
    {"minimum over 2", build_reduce, -1, 1, {DELTA_REDUCE_MIN, 4}},
    {"product over 1", build_reduce, 0.5, 1.5, {DELTA_REDUCE_PROD, 2}},
    {"sum of a prologue", build_reduce_prologue, -1, 1, {DELTA_REDUCE_SUM, 5}},
    {"mean of a prologue", build_reduce_prologue, -1, 1, {DELTA_REDUCE_MEAN, 2}},
    {"maximum of a prologue", build_reduce_prologue, -1, 1, {DELTA_REDUCE_MAX, 4}},
    {"product of a prologue", build_reduce_prologue, 0.5, 1, {DELTA_REDUCE_PROD, 3}},
    {"reduction of all kinds", build_reduce_outputs, 0.5, 1, {-1}},
    {"reduction of some kinds", build_reduce_outputs, 0.5, 1, {2}},
    {"product with a zero", build_product_zeros, 0.2, 0.9, {1}},
    {"product with two zeros", build_product_zeros, 0.2, 0.9, {2}},
    {"mean of moments", build_moments, -1, 1, {6, 1}},
    {"variance of moments", build_moments, -1, 1, {4, 2}},
    {"both moments", build_moments, -1, 1, {5, 3}},
    {"matmul", build_matmul, -1, 1, {0, 0, 0}},
    {"matmul, added", build_matmul, -1, 1, {0, 1, 0, 1}},
    {"matmul, added, one b", build_matmul, -1, 1, {0, 0, 2, 1}},
    {"matmul, bias", build_matmul, -1, 1, {0, 1, 0, 2}},
    {"matmul, bias, batch", build_matmul, -1, 1, {1, 0, 1, 2}},
    {"matmul, added with bias, one b", build_matmul, -1, 1, {0, 0, 2, 3}},
    {"matmul, a transposed", build_matmul, -1, 1, {1, 0, 0}},
    {"matmul, b transposed", build_matmul, -1, 1, {0, 1, 0}},
    {"matmul, both transposed", build_matmul, -1, 1, {1, 1, 0}},
    {"matmul, batch", build_matmul, -1, 1, {0, 0, 1}},
    {"matmul, batch, both transposed", build_matmul, -1, 1, {1, 1, 1}},
    {"matmul, one b", build_matmul, -1, 1, {0, 0, 2}},
    {"matmul, one b transposed", build_matmul, -1, 1, {0, 1, 2}},
    {"matmul, one b, a transposed", build_matmul, -1, 1, {1, 0, 2}},
    {"matmul, one a", build_matmul, -1, 1, {0, 0, 3}},
    {"matmul, one a, both transposed", build_matmul, -1, 1, {1, 1, 3}},
    {"matmul, both broadcast", build_matmul, -1, 1, {0, 1, 4}},
    {"matmul, a of one batch", build_matmul, -1, 1, {1, 0, 5}},
    {"matmul, b of one batch", build_matmul, -1, 1, {0, 0, 6}},
    {"matmul, b of one batch, more dimensions", build_matmul, -1, 1, {0, 0, 7}},
    {"conv 1-d", build_conv, -1, 1, {0, 1, 1, 1, 1, 1, 1, 1}},
    {"conv 2-d", build_conv, -1, 1, {0, 2, 1, 1, 1, 1, 1, 1}},
    {"conv 2-d strided, uneven pads", build_conv, -1, 1, {0, 2, 1, 2, 1, 1, 0, 0}},
    {"conv 2-d grouped, dilated", build_conv, -1, 1, {0, 2, 2, 1, 2, 1, 1, 1}},
    {"conv 3-d", build_conv, -1, 1, {0, 3, 1, 2, 1, 0, 1, 0}},
    {"conv_data 2-d", build_conv, -1, 1, {1, 2, 1, 2, 1, 1, 1, 1}},
    {"conv_data 1-d grouped", build_conv, -1, 1, {1, 1, 2, 1, 2, 1, 0, 0}},
    {"conv_weight 2-d", build_conv, -1, 1, {2, 2, 1, 2, 1, 1, 0, 0}},
    {"conv_weight 1-d grouped", build_conv, -1, 1, {2, 1, 2, 1, 1, 0, 0, 0}},
    {"max pool, window index", build_pool, -1, 1, {0, 2, 3, 2, 1, 1, 4, 0}},
    {"max pool, flat index", build_pool, -1, 1, {0, 2, 2, 2, 1, 0, 4, 1}},
    {"max pool, column index, dilated", build_pool, -1, 1, {0, 2, 2, 1, 2, 0, 5, 2}},
    {"max pool, no index", build_pool, -1, 1, {0, 1, 3, 2, 1, 1, 4, 3}},
    {"max pool 3-d", build_pool, -1, 1, {0, 3, 2, 2, 1, 0, 3, 0}},
    {"average pool", build_pool, -1, 1, {1, 2, 3, 2, 1, 1, 4, 0}},
    {"average pool, padding counts", build_pool, -1, 1, {1, 2, 3, 2, 1, 1, 4, 1}},
    {"average pool, ceil", build_pool, -1, 1, {1, 1, 2, 2, 1, 0, 4, 1}},
    {"softmax", build_softmax, -1, 1, {2, 0}},
    {"softmax, inner axis", build_softmax, -1, 1, {1, 0}},
    {"log softmax", build_softmax, -1, 1, {0, 1}},
    {"attention", build_attention, -1, 1, {0, 0, 0}},
    {"attention, heads inside", build_attention, -1, 1, {0, 0, 1}},
    {"attention, dropout", build_attention, -1, 1, {0, 3, 0}},
    {"attention, dropout, heads inside", build_attention, -1, 1, {1, 3, 1}},
    {"attention, dropout of all", build_attention, -1, 1, {0, 10, 0}},
    {"attention, sums not kept", build_attention, -1, 1, {1, 0, 0, 1}},
    {"attention, mask over batches", build_attention, -1, 1, {1, 0, 0}},
    {"attention, mask over queries", build_attention, -1, 1, {2, 0, 0}},
    {"attention, mask over keys", build_attention, -1, 1, {3, 0, 1}},
    {"attention, mask over keys alone", build_attention, -1, 1, {4, 0, 1}},
    {"cross entropy", build_class_loss, -1, 1, {0, 1, 0, 0, 1}},
    {"cross entropy, last axis", build_class_loss, -1, 1, {0, 2, 1, 1, 1}},
    {"cross entropy, only axis", build_class_loss, -1, 1, {0, 0, 0, 0, 1}},
    {"cross entropy, ignored", build_class_loss, -1, 1, {0, 1, 1, 0, 1}},
    {"cross entropy, weights", build_class_loss, -1, 1, {0, 1, 1, 1, 3}},
    {"cross entropy, log_sum", build_class_loss, -1, 1, {0, 2, 0, 0, 2}},
    {"nll", build_class_loss, -1, 1, {1, 1, 1, 0, 1}},
    {"nll, weights", build_class_loss, -1, 1, {1, 2, 0, 1, 1}},
    {"dropout", build_dropout, -1, 1, {3, 0}},
    {"dropout, kept mask", build_dropout, -1, 1, {3, 1}},
    {"dropout of all", build_dropout, -1, 1, {10, 1}},
    {"transpose", build_transpose, -1, 1, {2, 0, 3, 1}},
    {"transpose, a view", build_transpose, -1, 1, {3, 0, 1, 2}},
    {"slice", build_slice, -1, 1, {0}},
    {"slice_grad", build_slice, -1, 1, {1}},
    {"split", build_split, -1, 1, {7}},
    {"split, one part used", build_split, -1, 1, {2}},
    {"concat", build_concat, -1, 1, {0}},
    {"concat with a constant", build_concat, -1, 1, {1}},
    {"pad", build_pad, -1, 1, {DELTA_PAD_CONSTANT, 1, 2, 0, 1}},
    {"pad, cut", build_pad, -1, 1, {DELTA_PAD_CONSTANT, -1, 2, 1, -2}},
    {"pad, reflect", build_pad, -1, 1, {DELTA_PAD_REFLECT, 2, 1, 3, 0}},
    {"pad, edge", build_pad, -1, 1, {DELTA_PAD_EDGE, 1, 2, 0, 3}},
    {"pad, wrap", build_pad, -1, 1, {DELTA_PAD_WRAP, 2, 1, 1, 2}},
    {"gather, axis 0", build_gather, -1, 1, {0, 0}},
    {"gather, axis 1", build_gather, -1, 1, {1, 0}},
    {"gather_grad", build_gather, -1, 1, {1, 1}},
    {"gather_elements, axis 0", build_gather_elements, -1, 1, {0}},
    {"gather_elements, axis 1", build_gather_elements, -1, 1, {1}},
    {"scatter_elements", build_scatter_elements, -1, 1, {0, DELTA_SCATTER_NONE}},
    {"scatter_elements, add", build_scatter_elements, -1, 1, {1, DELTA_SCATTER_ADD}},
    {"gather_nd", build_gather_nd, -1, 1, {0}},
    {"gather_nd, a batch dimension", build_gather_nd, -1, 1, {1}},
    {"gather_nd, two batch dimensions", build_gather_nd, -1, 1, {2}},
    {"scatter_nd", build_scatter_nd, -1, 1, {DELTA_SCATTER_NONE}},
    {"scatter_nd, add", build_scatter_nd, -1, 1, {DELTA_SCATTER_ADD}},
    {"trilu, upper", build_trilu, -1, 1, {1, 1}},
    {"trilu, lower", build_trilu, -1, 1, {0, -1}},
    {"cumsum", build_cumsum, -1, 1, {0, 0}},
    {"cumsum, exclusive", build_cumsum, -1, 1, {1, 0}},
    {"cumsum, reverse", build_cumsum, -1, 1, {0, 1}},
    {"cumsum, exclusive, reverse", build_cumsum, -1, 1, {1, 1}},
    {"topk", build_topk, -1, 1, {1, 0}},
    {"topk, smallest, axis 0", build_topk, -1, 1, {0, 1}},
    {"resize, nearest", build_resize, -1, 1, {DELTA_RESIZE_NEAREST, DELTA_RESIZE_ASYMMETRIC, DELTA_RESIZE_FLOOR, 8}},
    {"resize, linear", build_resize, -1, 1, {DELTA_RESIZE_LINEAR, DELTA_RESIZE_HALF_PIXEL, 0, 7}},
    {"resize, linear, corners", build_resize, -1, 1, {DELTA_RESIZE_LINEAR, DELTA_RESIZE_ALIGN_CORNERS, 0, 3}},
    {"resize, linear, smaller, antialias", build_resize, -1, 1, {DELTA_RESIZE_LINEAR, DELTA_RESIZE_HALF_PIXEL, 0, 2, 1}},
    {"resize, cubic", build_resize, -1, 1, {DELTA_RESIZE_CUBIC, DELTA_RESIZE_PYTORCH_HALF_PIXEL, 0, 6, 0, 1}},
    {"resize, crop", build_resize, -1, 1, {DELTA_RESIZE_LINEAR, DELTA_RESIZE_TF_CROP_AND_RESIZE, 0, 5}},
    {"resize_grad", build_resize, -1, 1, {DELTA_RESIZE_LINEAR, DELTA_RESIZE_HALF_PIXEL, 0, 7, 0, 0, 1}},
    {"resize_grad, crop", build_resize, -1, 1, {DELTA_RESIZE_LINEAR, DELTA_RESIZE_TF_CROP_AND_RESIZE, 0, 5, 0, 0, 1}},
    {"view", build_view, -1, 1, {0}},
    {"fan-out", build_fan_out, -1, 1, {0}},
};

static void succeed(delta_status_t status, const char *name) { cr_assert_null(status, "%s: %s", name, delta_status_message(status)); }

static double run_loss(const fixture_t *f, delta_reference_values_t *values, const char *name) {
  succeed(delta_reference_run_graph(values), name);
  return *(const double *)delta_reference_value(values, f->loss);
}

// The slope along `direction` by central differences.
static double measured_slope(const fixture_t *f, delta_reference_values_t *values, double *x, const double *direction, int64_t count,
                             const char *name) {
  const double step = 1e-5;
  double *start = malloc((size_t)count * sizeof *start);
  memcpy(start, x, (size_t)count * sizeof *start);
  for (int64_t i = 0; i < count; ++i) x[i] = start[i] + step * direction[i];
  const double above = run_loss(f, values, name);
  for (int64_t i = 0; i < count; ++i) x[i] = start[i] - step * direction[i];
  const double below = run_loss(f, values, name);
  memcpy(x, start, (size_t)count * sizeof *start);
  free(start);
  return (above - below) / (2.0 * step);
}

static void check_input(fixture_t *f, delta_reference_values_t *values, uint32_t k, delta_tensor_id_t gradient, const char *name) {
  const int64_t count = delta_shape_count(delta_emit_shape(&f->emit, f->xs[k]));
  double *x = delta_reference_value(values, f->xs[k]), *direction = malloc((size_t)count * sizeof *direction);
  for (int round = 0; round < 2; ++round) {
    double slope = 0.0;
    run_loss(f, values, name);
    const double *by_graph = delta_tensor_is_none(gradient) ? NULL : delta_reference_value(values, gradient);
    for (int64_t i = 0; i < count; ++i) {
      direction[i] = 2.0 * draw(f) - 1.0;
      if (by_graph) slope += by_graph[i] * direction[i];
    }
    const double wanted = measured_slope(f, values, x, direction, count, name);
    cr_assert(fabs(slope - wanted) <= 1e-7 * fmax(1.0, fabs(wanted)), "%s: input %u: slope %.12g, measured %.12g", name, k, slope, wanted);
  }
  free(direction);
}

static void fill(fixture_t *f, delta_reference_values_t *values, const gradient_case_t *c) {
  for (size_t i = 0; i < f->graph->inputs.count; ++i) {
    const delta_tensor_id_t id = f->graph->inputs.items[i];
    const bool is_weight = delta_graph_tensor(f->graph, id)->name[0] == 'w';
    double *data = delta_reference_value(values, id);
    for (int64_t e = 0; e < delta_shape_count(&delta_graph_tensor(f->graph, id)->shape); ++e) {
      data[e] = is_weight ? 2.0 * draw(f) - 1.0 : c->low + (c->high - c->low) * draw(f);
    }
    if (!is_weight && c->build == build_product_zeros) memset(data, 0, (size_t)c->p[0] * sizeof *data);
  }
}

// The rows of the operator table say which operators have a gradient; each of them stands in the graph of a case.
Test(gradient, every_operator_with_a_gradient_has_a_case) {
  static const char *const gradient_names[DELTA_CORE_OP_COUNT] = {
#define GRADIENT_NAME(id, name, least_in, most_in, least_out, most_out, gradient, flags) [DELTA_CORE_##id] = #gradient,
      DELTA_CORE_OPS(GRADIENT_NAME)
#undef GRADIENT_NAME
  };
  bool has_case[DELTA_CORE_OP_COUNT] = {false};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    fixture_t f = {.p = cases[i].p};
    succeed(delta_graph_create(delta_allocator_system(), &f.graph), cases[i].name);
    delta_emit_init(&f.emit, f.graph);
    f.emit.name = "node";
    cases[i].build(&f);
    succeed(delta_emit_finish(&f.emit), cases[i].name);
    for (size_t k = 0; k < f.graph->nodes.count; ++k) has_case[f.graph->nodes.items[k].op] = true;
    delta_graph_free(f.graph);
  }
  for (int op = 0; op < DELTA_CORE_OP_COUNT; ++op) {
    const bool has_gradient = strcmp(gradient_names[op], "none") != 0;
    cr_expect(has_case[op] || !has_gradient, "operator '%s' has a gradient and no case", delta_core_op_info((delta_core_op_t)op)->name);
  }
}

ParameterizedTestParameters(gradient, central_differences) { return delta_test_indices(sizeof cases / sizeof cases[0]); }

ParameterizedTest(size_t *index, gradient, central_differences) {
  const gradient_case_t *c = &cases[*index];
  fixture_t f = {.p = c->p};
  succeed(delta_graph_create(delta_allocator_system(), &f.graph), c->name);
  delta_emit_init(&f.emit, f.graph);
  f.emit.name = "node";
  c->build(&f);
  const delta_tensor_id_t one = delta_emit_scalar(&f.emit, DELTA_DTYPE_FLOAT64, 1.0);
  succeed(delta_emit_finish(&f.emit), c->name);
  delta_tensor_id_t gradients[MAX_INPUTS];
  const uint32_t levers = DELTA_LEVERS_ALL & ~(1u << DELTA_LEVER_DROPOUT);
  succeed(delta_autodiff(&f.emit, f.loss, one, f.xs, f.x_count, levers, gradients), c->name);
  succeed(delta_graph_check(f.graph), c->name);
  delta_reference_values_t values;
  succeed(delta_reference_values_init(f.graph, delta_allocator_system(), &values), c->name);
  fill(&f, &values, c);
  for (uint32_t k = 0; k < f.x_count; ++k) check_input(&f, &values, k, gradients[k], c->name);
  delta_reference_values_deinit(&values);
  delta_graph_free(f.graph);
}
