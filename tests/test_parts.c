// Graphs in parts: which nodes run part by part, in what order, and that values stay.
#include <criterion/criterion.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "onnx/graph/emit.h"
#include "onnx/parts/parts.h"
#include "onnx/reference/run.h"
#include "plans/problem.h"
#include "tests/support/training.h"

#define SHAPE(rank_, ...) ((delta_shape_t){.rank = (rank_), .dims = {__VA_ARGS__}})
enum { BATCH = 7 };

typedef struct fixture {
  delta_graph_t *graph;
  delta_emit_t emit;
  uint32_t input_count;
} fixture_t;

static delta_tensor_id_t typed_input(fixture_t *f, delta_dtype_t dtype, delta_shape_t shape) {
  char name[16];
  snprintf(name, sizeof name, "x%u", f->input_count++);
  delta_tensor_id_t id;
  delta_test_expect_ok(delta_graph_add_input(f->graph, name, dtype, &shape, &id), name);
  return id;
}
static delta_tensor_id_t input(fixture_t *f, delta_shape_t shape) { return typed_input(f, DELTA_DTYPE_FLOAT64, shape); }
static delta_tensor_id_t exponential(fixture_t *f, delta_tensor_id_t x) { return delta_emit_unary(&f->emit, DELTA_EXPR_EXP, x); }

// What is made part by part. (What is made from inputs element by element can be had whole as well.)
static delta_tensor_id_t samples(fixture_t *f, delta_shape_t shape) {
  const delta_softmax_attrs_t attrs = {.axis = shape.rank - 1};
  return DELTA_EMIT(&f->emit, SOFTMAX, attrs, input(f, shape));
}

static delta_tensor_id_t build_pointwise(fixture_t *f) {
  return delta_emit_binary(&f->emit, DELTA_EXPR_MUL, samples(f, SHAPE(2, BATCH, 4)), input(f, SHAPE(1, 4)));
}
static delta_tensor_id_t build_product(fixture_t *f) {
  return delta_emit_matmul(&f->emit, samples(f, SHAPE(2, BATCH, 4)), input(f, SHAPE(2, 4, 6)), false, false);
}
static delta_tensor_id_t product_with_bias(fixture_t *f, bool is_b_split) {
  const delta_matmul_attrs_t attrs = {.transpose_b = is_b_split};
  const delta_tensor_id_t split = samples(f, SHAPE(2, BATCH, 4)), whole = input(f, is_b_split ? SHAPE(2, 3, 4) : SHAPE(2, 4, 6));
  const delta_tensor_id_t bias =
      is_b_split ? delta_emit_reduce(&f->emit, DELTA_REDUCE_MAX, samples(f, SHAPE(2, BATCH, 4)), 2u) : input(f, SHAPE(1, 6));
  const delta_tensor_id_t row = delta_emit_view(&f->emit, bias, &SHAPE(1, is_b_split ? BATCH : 6));
  return DELTA_EMIT(&f->emit, MATMUL, attrs, is_b_split ? whole : split, is_b_split ? split : whole, DELTA_TENSOR_NONE, row);
}
static delta_tensor_id_t build_product_with_bias(fixture_t *f) { return product_with_bias(f, false); }
static delta_tensor_id_t build_columns_with_bias(fixture_t *f) { return product_with_bias(f, true); }
// Each part of the sum would have the bias.
static delta_tensor_id_t build_summed_with_bias(fixture_t *f) {
  const delta_matmul_attrs_t attrs = {.transpose_a = true};
  return DELTA_EMIT(&f->emit, MATMUL, attrs, samples(f, SHAPE(2, BATCH, 4)), samples(f, SHAPE(2, BATCH, 6)), DELTA_TENSOR_NONE,
                    input(f, SHAPE(1, 6)));
}
static delta_tensor_id_t build_weight_gradient(fixture_t *f) {
  return delta_emit_matmul(&f->emit, samples(f, SHAPE(2, BATCH, 4)), samples(f, SHAPE(2, BATCH, 6)), true, false);
}
static delta_tensor_id_t build_batched_product(fixture_t *f) {
  return delta_emit_matmul(&f->emit, samples(f, SHAPE(3, BATCH, 2, 4)), samples(f, SHAPE(3, BATCH, 4, 3)), false, false);
}
static delta_tensor_id_t build_rows(fixture_t *f) {
  const delta_tensor_id_t rows = delta_emit_view(&f->emit, samples(f, SHAPE(3, BATCH, 3, 4)), &SHAPE(2, BATCH * 3, 4));
  return delta_emit_matmul(&f->emit, rows, input(f, SHAPE(2, 4, 2)), false, false);
}
static delta_tensor_id_t build_transposed(fixture_t *f) {
  const int32_t permutation[] = {1, 0, 2};
  const delta_tensor_id_t x = delta_emit_transpose(&f->emit, samples(f, SHAPE(3, BATCH, 3, 4)), permutation);
  return delta_emit_reduce(&f->emit, DELTA_REDUCE_SUM, x, 1u);
}
static delta_tensor_id_t reduce(fixture_t *f, delta_reduce_kind_t kind) {
  return delta_emit_reduce(&f->emit, kind, samples(f, SHAPE(2, BATCH, 4)), 1u);
}
static delta_tensor_id_t build_sum(fixture_t *f) { return reduce(f, DELTA_REDUCE_SUM); }
static delta_tensor_id_t build_mean(fixture_t *f) { return reduce(f, DELTA_REDUCE_MEAN); }
static delta_tensor_id_t build_max(fixture_t *f) { return reduce(f, DELTA_REDUCE_MAX); }
static delta_tensor_id_t build_min(fixture_t *f) { return reduce(f, DELTA_REDUCE_MIN); }
static delta_tensor_id_t build_prod(fixture_t *f) { return reduce(f, DELTA_REDUCE_PROD); }
static delta_tensor_id_t build_large_sum(fixture_t *f) {
  return delta_emit_reduce(&f->emit, DELTA_REDUCE_MEAN, samples(f, SHAPE(2, BATCH, 9000)), 1u);
}
// A batch normalization: what follows the statistics waits for all parts.
static delta_tensor_id_t build_normalized(fixture_t *f) {
  const delta_tensor_id_t x = samples(f, SHAPE(3, BATCH, 3, 4));
  delta_tensor_id_t mean, variance;
  delta_emit_moments(&f->emit, x, 5u, &mean, &variance);
  const delta_tensor_id_t centred = delta_emit_binary(&f->emit, DELTA_EXPR_SUB, x, mean);
  return delta_emit_binary(&f->emit, DELTA_EXPR_DIV, centred, variance);
}
static delta_tensor_id_t build_layer_moments(fixture_t *f) {
  delta_tensor_id_t mean, variance;
  delta_emit_moments(&f->emit, samples(f, SHAPE(2, BATCH, 5)), 2u, &mean, &variance);
  return delta_emit_binary(&f->emit, DELTA_EXPR_ADD, mean, variance);
}
static const delta_conv_attrs_t conv_attrs = {
    .window = {.spatial = 1, .kernel = {3}, .strides = {1}, .dilations = {1}, .pads_begin = {1}, .pads_end = {1}},
    .group = 1,
    .data_spatial = {6}};
static delta_tensor_id_t build_conv(fixture_t *f) {
  return DELTA_EMIT(&f->emit, CONV, conv_attrs, samples(f, SHAPE(3, BATCH, 8, 6)), input(f, SHAPE(3, 4, 8, 3)), input(f, SHAPE(1, 4)));
}
static delta_tensor_id_t build_conv_weight(fixture_t *f) {
  return DELTA_EMIT(&f->emit, CONV_WEIGHT, conv_attrs, samples(f, SHAPE(3, BATCH, 2, 6)), samples(f, SHAPE(3, BATCH, 4, 6)));
}
static delta_tensor_id_t dropout(fixture_t *f, delta_tensor_id_t x) {
  const delta_dropout_attrs_t attrs = {.ratio = 0.4, .stream = 11};
  return DELTA_EMIT(&f->emit, DROPOUT, attrs, x, delta_emit_scalar(&f->emit, DELTA_DTYPE_INT64, 5),
                    delta_emit_scalar(&f->emit, DELTA_DTYPE_INT64, 3));
}
static delta_tensor_id_t build_dropout(fixture_t *f) { return dropout(f, samples(f, SHAPE(2, BATCH, 5))); }
// Positions of a middle dimension are no range.
static delta_tensor_id_t build_dropout_inside(fixture_t *f) {
  const int32_t permutation[] = {1, 0};
  return dropout(f, delta_emit_transpose(&f->emit, samples(f, SHAPE(2, BATCH, 5)), permutation));
}
static delta_tensor_id_t build_attention(fixture_t *f) {
  const delta_attention_attrs_t attrs = {.scale = 0.5, .ratio = 0.3, .stream = 7};
  const delta_shape_t shape = SHAPE(4, BATCH, 2, 3, 5);
  return DELTA_EMIT(&f->emit, ATTENTION, attrs, samples(f, shape), samples(f, shape), samples(f, shape), input(f, SHAPE(2, 3, 3)),
                    delta_emit_scalar(&f->emit, DELTA_DTYPE_INT64, 5), delta_emit_scalar(&f->emit, DELTA_DTYPE_INT64, 3));
}
// The gradient of a mask that all samples share is summed over them.
static delta_tensor_id_t build_attention_gradient(fixture_t *f) {
  const delta_attention_attrs_t attrs = {.scale = 0.5, .heads_inside = true};
  const delta_shape_t shape = SHAPE(4, BATCH, 3, 2, 5), sums = SHAPE(3, BATCH, 2, 3);
  const delta_tensor_id_t inputs[7] = {samples(f, shape), samples(f, shape), samples(f, sums),           samples(f, shape),
                                       samples(f, shape), samples(f, shape), input(f, SHAPE(3, 2, 3, 3))};
  delta_tensor_id_t outputs[4];
  delta_emit_node(&f->emit, DELTA_CORE_ATTENTION_GRAD, &attrs, sizeof attrs, inputs, 7, outputs, 4, UINT64_C(8));
  return outputs[3];
}
static delta_tensor_id_t build_softmax(fixture_t *f) { return exponential(f, samples(f, SHAPE(2, BATCH, 5))); }
static delta_tensor_id_t build_sum_so_far(fixture_t *f) {
  const delta_cumsum_attrs_t attrs = {.axis = 0};
  return DELTA_EMIT(&f->emit, CUMSUM, attrs, samples(f, SHAPE(2, BATCH, 5)));
}
static delta_tensor_id_t build_lookup(fixture_t *f) {
  const delta_gather_attrs_t attrs = {.axis = 0};
  return DELTA_EMIT(&f->emit, GATHER, attrs, exponential(f, input(f, SHAPE(2, 30, 4))),
                    typed_input(f, DELTA_DTYPE_INT64, SHAPE(2, BATCH, 2)));
}
static delta_tensor_id_t build_table_gradient(fixture_t *f) {
  const delta_gather_attrs_t attrs = {.data_shape = SHAPE(2, 3, 4)};
  const delta_tensor_id_t rows = typed_input(f, DELTA_DTYPE_INT64, SHAPE(2, BATCH, 2));
  return DELTA_EMIT(&f->emit, GATHER_GRAD, attrs, rows, samples(f, SHAPE(3, BATCH, 2, 4)));
}
static delta_tensor_id_t build_large_table_gradient(fixture_t *f) {
  const delta_gather_attrs_t attrs = {.data_shape = SHAPE(2, 300, 4)};
  const delta_tensor_id_t rows = typed_input(f, DELTA_DTYPE_INT64, SHAPE(2, BATCH, 2));
  return DELTA_EMIT(&f->emit, GATHER_GRAD, attrs, rows, samples(f, SHAPE(3, BATCH, 2, 4)));
}
static delta_tensor_id_t build_loss(fixture_t *f) {
  const delta_class_loss_attrs_t attrs = {.axis = 1, .classes = 3, .has_ignore = true, .ignore_index = 1};
  const delta_tensor_id_t inputs[2] = {samples(f, SHAPE(2, BATCH, 3)), typed_input(f, DELTA_DTYPE_INT64, SHAPE(1, BATCH))};
  delta_tensor_id_t outputs[3];
  delta_emit_node(&f->emit, DELTA_CORE_CROSS_ENTROPY, &attrs, sizeof attrs, inputs, 2, outputs, 3, 0);
  const delta_tensor_id_t count = delta_emit_sum_to(&f->emit, outputs[1], &SHAPE(0, 0));
  return delta_emit_binary(&f->emit, DELTA_EXPR_DIV, outputs[0], count);
}
static delta_tensor_id_t build_constant_rows(fixture_t *f) {
  const delta_tensor_id_t rows = delta_emit_expand(&f->emit, exponential(f, input(f, SHAPE(1, 4))), &SHAPE(2, BATCH, 4));
  return delta_emit_binary(&f->emit, DELTA_EXPR_ADD, samples(f, SHAPE(2, BATCH, 4)), rows);
}
static delta_tensor_id_t build_padded(fixture_t *f) {
  const delta_pad_attrs_t attrs = {.mode = DELTA_PAD_REFLECT, .begin = {0, 1}, .end = {0, -2}, .data_shape = SHAPE(2, BATCH, 5)};
  return DELTA_EMIT(&f->emit, PAD, attrs, samples(f, SHAPE(2, BATCH, 5)));
}
static delta_tensor_id_t build_joined(fixture_t *f) {
  const delta_tensor_id_t parts[] = {samples(f, SHAPE(2, BATCH, 2)), samples(f, SHAPE(2, BATCH, 3))};
  return delta_emit_concat(&f->emit, parts, 2, 1);
}

typedef struct part_case {
  const char *name;
  delta_tensor_id_t (*build)(fixture_t *f);
  delta_core_op_t watched; // the operator of interest
  bool whole;              // it runs once; else once for each part
} part_case_t;
static const part_case_t cases[] = {
    {"product", build_product, DELTA_CORE_MATMUL, false},
    {"product with bias", build_product_with_bias, DELTA_CORE_MATMUL, false},
    {"columns with bias", build_columns_with_bias, DELTA_CORE_MATMUL, false},
    {"summed with bias", build_summed_with_bias, DELTA_CORE_MATMUL, true},
    {"with what is broadcast", build_pointwise, DELTA_CORE_POINTWISE, false},
    {"gradient of a weight", build_weight_gradient, DELTA_CORE_MATMUL, false},
    {"product of matrices", build_batched_product, DELTA_CORE_MATMUL, false},
    {"rows of samples", build_rows, DELTA_CORE_MATMUL, false},
    {"transposed", build_transposed, DELTA_CORE_TRANSPOSE, false},
    {"sum", build_sum, DELTA_CORE_REDUCE, false},
    {"mean", build_mean, DELTA_CORE_REDUCE, false},
    {"largest", build_max, DELTA_CORE_REDUCE, false},
    {"least", build_min, DELTA_CORE_REDUCE, false},
    {"product of all", build_prod, DELTA_CORE_REDUCE, false},
    {"large mean", build_large_sum, DELTA_CORE_REDUCE, false},
    {"batch normalization", build_normalized, DELTA_CORE_MOMENTS, false},
    {"layer normalization", build_layer_moments, DELTA_CORE_MOMENTS, false},
    {"convolution", build_conv, DELTA_CORE_CONV, false},
    {"gradient of a filter", build_conv_weight, DELTA_CORE_CONV_WEIGHT, false},
    {"dropout", build_dropout, DELTA_CORE_DROPOUT, false},
    {"dropout along another axis", build_dropout_inside, DELTA_CORE_DROPOUT, true},
    {"attention with dropout", build_attention, DELTA_CORE_ATTENTION, false},
    {"gradient of a mask", build_attention_gradient, DELTA_CORE_ATTENTION_GRAD, false},
    {"softmax", build_softmax, DELTA_CORE_SOFTMAX, false},
    {"along the batch", build_sum_so_far, DELTA_CORE_CUMSUM, true},
    {"lookup", build_lookup, DELTA_CORE_GATHER, false},
    {"gradient of a table", build_table_gradient, DELTA_CORE_GATHER_GRAD, false},
    {"gradient of a large table", build_large_table_gradient, DELTA_CORE_GATHER_GRAD, true},
    {"loss", build_loss, DELTA_CORE_CROSS_ENTROPY, false},
    {"padding", build_padded, DELTA_CORE_PAD, false},
    {"side by side", build_joined, DELTA_CORE_CONCAT, false},
};

static void run(const delta_graph_t *graph, delta_reference_values_t *values) {
  delta_test_expect_ok(delta_reference_values_init(graph, delta_allocator_system(), values), "values");
  for (uint32_t k = 0; k < graph->inputs.count; ++k) {
    const delta_tensor_t *tensor = delta_graph_tensor(graph, graph->inputs.items[k]);
    void *data = delta_reference_value(values, graph->inputs.items[k]);
    for (int64_t i = 0; i < delta_shape_count(&tensor->shape); ++i) {
      const double value = (double)delta_random_uniform(delta_random_word(k + 1, (uint64_t)i));
      if (tensor->dtype == DELTA_DTYPE_INT64) {
        ((int64_t *)data)[i] = (int64_t)(3 * value);
      } else {
        ((double *)data)[i] = value - 0.5;
      }
    }
  }
  delta_test_expect_ok(delta_reference_run_graph(values), "run");
}

static void expect_equal(const char *name, const delta_graph_t *graph, const delta_graph_t *split, double tolerance) {
  delta_reference_values_t wanted, found;
  run(graph, &wanted);
  run(split, &found);
  const delta_tensor_id_t y = graph->outputs.items[0].tensor;
  const double *a = delta_reference_value(&found, split->outputs.items[0].tensor), *b = delta_reference_value(&wanted, y);
  for (int64_t i = 0; i < delta_shape_count(&delta_graph_tensor(graph, y)->shape); ++i)
    cr_expect(fabs(a[i] - b[i]) <= tolerance * (1 + fabs(b[i])), "%s: element %lld is %.17g, not %.17g", name, (long long)i, a[i], b[i]);
  delta_reference_values_deinit(&found);
  delta_reference_values_deinit(&wanted);
}

static delta_graph_t *build_graph(delta_tensor_id_t (*build)(fixture_t *f), const char *name) {
  fixture_t f = {0};
  delta_test_expect_ok(delta_graph_create(delta_allocator_system(), &f.graph), name);
  delta_emit_init(&f.emit, f.graph);
  f.emit.name = name;
  const delta_tensor_id_t y = build(&f);
  delta_test_expect_ok(delta_emit_finish(&f.emit), name);
  delta_test_expect_ok(delta_graph_add_output(f.graph, "y", y), name);
  return f.graph;
}

static delta_graph_t *split_graph(delta_graph_t *graph, const char *name, uint32_t count, uint32_t region_percent) {
  delta_graph_t *split = NULL;
  const delta_parts_options_t options = {.count = count, .batch = BATCH, .region_percent = region_percent, .accumulates = count % 2};
  delta_test_expect_ok(delta_graph_in_parts(graph, &options, delta_allocator_system(), &split), name);
  delta_test_expect_ok(delta_graph_check(split), name);
  return split;
}

static uint32_t count_nodes(const delta_graph_t *graph, delta_core_op_t op) {
  uint32_t count = 0;
  for (size_t n = 0; n < graph->nodes.count; ++n) count += graph->nodes.items[n].op == op && strstr(graph->nodes.items[n].name, "(part");
  return count;
}

Test(parts, operators) {
  static const uint32_t counts[] = {2, 3, BATCH, DELTA_PARTS_MAX};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    for (size_t k = 0; k < sizeof counts / sizeof *counts; ++k) {
      const uint32_t parts = counts[k] < BATCH ? counts[k] : BATCH;
      delta_graph_t *graph = build_graph(cases[i].build, cases[i].name), *split = split_graph(graph, cases[i].name, counts[k], 0);
      const uint32_t found = count_nodes(split, cases[i].watched), wanted = cases[i].whole ? 0 : parts;
      cr_expect_eq(found, wanted, "%s in %u parts: %u of its nodes run in parts, not %u", cases[i].name, counts[k], found, wanted);
      expect_equal(cases[i].name, graph, split, 1e-13);
      delta_graph_free(split);
      delta_graph_free(graph);
    }
  }
}

// The same masks to the last bit, and what repeats along the batch is made as small as a part.
Test(parts, values_to_the_bit) {
  static delta_tensor_id_t (*const masked[])(fixture_t * f) = {build_dropout, build_attention};
  for (size_t i = 0; i < sizeof masked / sizeof *masked; ++i) {
    delta_graph_t *whole = build_graph(masked[i], "dropout"), *parts = split_graph(whole, "dropout", 4, 0);
    expect_equal("dropout", whole, parts, 0);
    delta_graph_free(parts);
    delta_graph_free(whole);
  }
  delta_graph_t *graph = build_graph(build_constant_rows, "rows"), *split = split_graph(graph, "rows", 3, 0);
  expect_equal("rows", graph, split, 0);
  for (size_t n = 0; n < split->nodes.count; ++n) {
    const delta_shape_t *shape = &delta_node_output(split, &split->nodes.items[n], 0)->shape;
    cr_expect(shape->rank < 2 || shape->dims[0] < BATCH || split->nodes.items[n].op == DELTA_CORE_CONCAT, "node %zu is whole", n);
  }
  delta_graph_free(split);
  delta_graph_free(graph);
}

static void list_parts(const delta_graph_t *graph, char *text, size_t size) {
  for (size_t n = 0, length = 0; n < graph->nodes.count; ++n) {
    const delta_node_t *node = &graph->nodes.items[n];
    const char *part = strstr(node->name, "(part ");
    if (node->op == DELTA_CORE_CONCAT || node->op == DELTA_CORE_VIEW || node->op == DELTA_CORE_SLICE) continue;
    length += (size_t)snprintf(text + length, size - length, "%c", part ? part[6] : '-');
  }
}

typedef struct order_case {
  const char *name;
  delta_tensor_id_t (*build)(fixture_t *f);
  const char *parts; // of the nodes that work, in order
} order_case_t;

// Depth first; after statistics of the whole batch from the last part to the first.
Test(parts, order) {
  static const order_case_t orders[] = {
      {"no sum", build_softmax, "112233"},
      {"sum at the end", build_conv_weight, "111222333-"},
      {"batch normalization", build_normalized, "112233-332211"},
      {"loss", build_loss, "11--1222333"},
  };
  for (size_t i = 0; i < sizeof orders / sizeof *orders; ++i) {
    delta_graph_t *graph = build_graph(orders[i].build, orders[i].name), *split = split_graph(graph, orders[i].name, 3, 0);
    char text[256] = "";
    list_parts(split, text, sizeof text);
    cr_expect_str_eq(text, orders[i].parts, "%s: %s", orders[i].name, text);
    delta_graph_free(split);
    delta_graph_free(graph);
  }
}

static delta_tensor_id_t build_narrowing(fixture_t *f) {
  const delta_tensor_id_t wide = exponential(f, samples(f, SHAPE(2, BATCH, 64)));
  const delta_tensor_id_t narrow = delta_emit_matmul(&f->emit, wide, input(f, SHAPE(2, 64, 2)), false, false);
  return exponential(f, delta_emit_matmul(&f->emit, narrow, input(f, SHAPE(2, 2, 4)), false, false));
}

// A problem knows which of its tensors are parts of one.
Test(parts, rings) {
  delta_graph_t *graph = build_graph(build_normalized, "rings"), *split = split_graph(graph, "rings", 3, 0);
  delta_node_cost_t costs[64] = {{0}};
  const delta_problem_graph_options_t options = {.costs = costs, .alignment_bytes = 1};
  const uint32_t *tensors = NULL;
  delta_problem_t *problem = NULL;
  cr_assert_leq(split->nodes.count, sizeof costs / sizeof *costs);
  delta_test_expect_ok(delta_problem_from_graph(split, &options, delta_allocator_system(), &problem, &tensors), "problem");
  uint32_t in_rings = 0;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    uint32_t length = 1;
    for (uint32_t next = delta_problem_next_kin(problem, t); next != t && length <= problem->tensor_count; ++length) {
      next = delta_problem_next_kin(problem, next);
    }
    cr_expect(length == 1 || length == 3, "tensor %u is in a ring of %u", t, length);
    in_rings += length == 3;
  }
  cr_expect_eq(in_rings, 3 * 5, "samples, two moments, two results: not %u", in_rings);
  delta_problem_free(problem);
  delta_graph_free(split);
  delta_graph_free(graph);
}

Test(parts, region) {
  delta_graph_t *graph = build_graph(build_narrowing, "narrowing"), *split = split_graph(graph, "narrowing", 2, 50);
  expect_equal("narrowing", graph, split, 1e-13);
  cr_expect_eq(count_nodes(split, DELTA_CORE_POINTWISE), 2);
  cr_expect_eq(count_nodes(split, DELTA_CORE_MATMUL), 2, "the second product has no large tensor");
  delta_graph_free(split);
  delta_graph_free(graph);
}

// A split session trains as the whole one does, to rounding, and its plan and every batch size have their parts.
static delta_test_values_t train(const char *model, const char *split, const char *budget, int64_t rows) {
  delta_plan_options_t options = delta_test_plan_options(6);
  options.split = split;
  options.budget = budget;
  delta_test_training_t training;
  delta_test_training_open(&training, model, &options);
  for (int64_t step = 0; step < 3; ++step) delta_test_run(training.session, DELTA_RUN_TRAIN, 6 * step, rows, 0.1);
  const delta_test_values_t values = delta_test_read_states(training.session, NULL);
  delta_test_training_close(&training);
  return values;
}

Test(parts, sessions) {
  static const char *const splits[] = {"2", "3:50%", "4", "16", "on", "auto"};
  static const char *const models[] = {delta_test_mlp, delta_test_batchnorm};
  for (size_t m = 0; m < sizeof models / sizeof *models; ++m) {
    for (int64_t rows = 5; rows <= 6; ++rows) {
      delta_test_values_t wanted = train(models[m], "off", "unlimited", rows);
      for (size_t k = 0; k < sizeof splits / sizeof *splits; ++k) {
        delta_test_values_t found = train(models[m], splits[k], k < 4 ? "minimum" : "unlimited", rows);
        const double distance = delta_test_distance(&found, &wanted);
        cr_expect_lt(distance, 1e-5, "model %zu, --split %s, %" PRId64 " rows: %g", m, splits[k], rows, distance);
        free(found.items);
      }
      free(wanted.items);
    }
  }
}
