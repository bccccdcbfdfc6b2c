// POINTWISE and REDUCE by reference: bit for bit what the expression evaluator gives, over broadcasting, types, kinds and empty sets.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "tests/support/one_node.h"

#define SHAPE(...)                                                                 \
  {                                                                                \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ } \
  }

// exp(a) * b + sigmoid(a), and a < b
static void build_expression(delta_expr_builder_t *builder) {
  delta_expr_builder_init(builder, DELTA_DTYPE_FLOAT32);
  const uint16_t a = delta_expr_input(builder, 0), b = delta_expr_input(builder, 1);
  const uint16_t product = delta_expr_binary(builder, DELTA_EXPR_MUL, delta_expr_unary(builder, DELTA_EXPR_EXP, a), b);
  delta_expr_output(builder, delta_expr_binary(builder, DELTA_EXPR_ADD, product, delta_expr_unary(builder, DELTA_EXPR_SIGMOID, a)));
  delta_expr_output(builder, delta_expr_binary(builder, DELTA_EXPR_LT, a, b));
}

Test(reference_expr, pointwise_gives_the_evaluators_bits) {
  delta_expr_builder_t builder;
  build_expression(&builder);
  // The last dimension is longer than the stretch that a kernel evaluates at a time.
  const delta_shape_t shape = SHAPE(2, 3, 131), a_shape = SHAPE(3, 1), b_shape = SHAPE(2, 1, 131);
  const delta_pointwise_attrs_t attrs = {.shape = shape, .dtypes = {DELTA_DTYPE_FLOAT32, DELTA_DTYPE_BOOL}, .expr = builder.expr};
  delta_test_tensor_t a = delta_test_tensor_random(DELTA_DTYPE_FLOAT32, &a_shape, 0), outputs[2];
  delta_test_tensor_t b = delta_test_tensor_random(DELTA_DTYPE_FLOAT16, &b_shape, 1);
  delta_status_t status = delta_test_run_node(&DELTA_TEST_NODE(POINTWISE, attrs), (const delta_test_tensor_t *[]){&a, &b}, 2, outputs, 2);
  cr_assert_null(status, "%s", delta_status_message(status));
  for (int64_t i = 0; i < 2 * 3 * 131; ++i) {
    const double b_value = b.values[i / (3 * 131) * 131 + i % 131];
    const float inputs[] = {(float)a.values[i / 131 % 3], delta_float16_to_float(delta_float16_from_double(b_value))};
    float wanted[2];
    delta_expr_eval_float(&builder.expr, inputs, wanted);
    cr_assert_eq((float)outputs[0].values[i], wanted[0], "element %d", (int)i);
    cr_assert_eq((float)outputs[1].values[i], wanted[1], "element %d", (int)i);
  }
  delta_test_tensor_free(&a);
  delta_test_tensor_free(&b);
  for (int k = 0; k < 2; ++k) delta_test_tensor_free(&outputs[k]);
}

// An output that has exactly the bytes of an input gives what one of its own gives.
Test(reference_expr, pointwise_in_place) {
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, DELTA_DTYPE_FLOAT32);
  const uint16_t a = delta_expr_input(&builder, 0), b = delta_expr_input(&builder, 1);
  delta_expr_output(&builder, delta_expr_binary(&builder, DELTA_EXPR_SUB, a, b));
  enum { COUNT = 200 };
  const delta_shape_t shape = SHAPE(COUNT), scalar = {0, {0}};
  delta_pointwise_attrs_t attrs = {.shape = shape, .dtypes = {DELTA_DTYPE_FLOAT32}, .expr = builder.expr};
  delta_graph_t *graph = NULL;
  delta_tensor_id_t ids[2], output;
  cr_assert_null(delta_graph_create(delta_allocator_system(), &graph));
  cr_assert_null(delta_graph_add_input(graph, "a", DELTA_DTYPE_FLOAT32, &shape, &ids[0]));
  cr_assert_null(delta_graph_add_input(graph, "b", DELTA_DTYPE_FLOAT32, &scalar, &ids[1]));
  output = ids[0];
  const delta_node_t node = {
      .op = DELTA_CORE_POINTWISE, .name = "node", .inputs = ids, .input_count = 2, .outputs = &output, .output_count = 1, .attrs = &attrs};
  float values[COUNT], b_value = 0.5f;
  for (int i = 0; i < COUNT; ++i) values[i] = (float)i;
  void *out = values;
  const delta_reference_args_t args = {graph, &node, (const void *[]){values, &b_value}, &out, delta_allocator_system()};
  cr_assert_null(delta_reference_pointwise(&args));
  for (int i = 0; i < COUNT; ++i) cr_assert_eq(values[i], (float)i - 0.5f);
  delta_graph_free(graph);
}

typedef struct reduce_case {
  const char *name;
  delta_reduce_kind_t kind;
  delta_dtype_t dtype, compute;
  delta_shape_t shape;
  uint32_t axes;
  double x[12], wanted[4];
} reduce_case_t;

static void check_reduce(const reduce_case_t *row) {
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, row->compute);
  delta_expr_output(&builder, delta_expr_input(&builder, 0));
  const delta_reduce_attrs_t attrs = {
      .shape = row->shape, .axes = row->axes, .kinds = {row->kind}, .dtypes = {row->dtype}, .expr = builder.expr};
  delta_test_tensor_t x = delta_test_tensor_of(row->dtype, &row->shape, row->x), y;
  delta_status_t status = delta_test_run_node(&DELTA_TEST_NODE(REDUCE, attrs), (const delta_test_tensor_t *[]){&x}, 1, &y, 1);
  cr_assert_null(status, "%s: %s", row->name, delta_status_message(status));
  for (int64_t i = 0; i < delta_shape_count(&y.shape); ++i) {
    const double wanted = row->wanted[i];
    cr_assert(isnan(wanted) ? isnan(y.values[i]) : y.values[i] == wanted, "%s: element %d is %.9g, not %.9g", row->name, (int)i,
              y.values[i], wanted);
  }
  delta_test_tensor_free(&x);
  delta_test_tensor_free(&y);
}

#define F32   DELTA_DTYPE_FLOAT32, DELTA_DTYPE_FLOAT32
#define I32   DELTA_DTYPE_INT32, DELTA_DTYPE_INT64
#define I64   DELTA_DTYPE_INT64, DELTA_DTYPE_INT64
#define BOOLS DELTA_DTYPE_BOOL, DELTA_DTYPE_INT64
#define SCALAR \
  {            \
    0, { 0 }   \
  }

Test(reference_expr, reduce) {
  const reduce_case_t rows[] = {
      {"sum of the last", DELTA_REDUCE_SUM, F32, SHAPE(2, 3), 2, {1, 2, 3, 4, 5, 6}, {6, 15}},
      {"sum of the first", DELTA_REDUCE_SUM, F32, SHAPE(2, 3), 1, {1, 2, 3, 4, 5, 6}, {5, 7, 9}},
      {"mean of the outer two", DELTA_REDUCE_MEAN, F32, SHAPE(2, 2, 3), 5, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, {4, 7}},
      {"of nothing reduced", DELTA_REDUCE_MAX, F32, SHAPE(3), 0, {1, -2, 3}, {1, -2, 3}},
      {"of a scalar", DELTA_REDUCE_PROD, F32, SCALAR, 0, {7}, {7}},
      {"sum in float64", DELTA_REDUCE_SUM, F32, SHAPE(3), 1, {1e8, 1, -1e8}, {1}},
      {"integer mean truncates", DELTA_REDUCE_MEAN, I32, SHAPE(3), 1, {-1, -2, -2}, {-1}},
      {"integer product wraps", DELTA_REDUCE_PROD, I32, SHAPE(2), 1, {65536, 65536}, {0}},
      {"largest, NaN wins", DELTA_REDUCE_MAX, F32, SHAPE(2, 2), 2, {1, NAN, -5, -4}, {NAN, -4}},
      {"smallest, NaN wins", DELTA_REDUCE_MIN, F32, SHAPE(2, 2), 2, {NAN, 1, -5, -4}, {NAN, -5}},
      {"all of bools", DELTA_REDUCE_MIN, BOOLS, SHAPE(2, 2), 2, {1, 1, 1, 0}, {1, 0}},
      {"empty sum", DELTA_REDUCE_SUM, F32, SHAPE(2, 0), 2, {0}, {0, 0}},
      {"empty product", DELTA_REDUCE_PROD, I64, SHAPE(2, 0), 2, {0}, {1, 1}},
      {"empty mean", DELTA_REDUCE_MEAN, F32, SHAPE(1, 0), 2, {0}, {NAN}},
      {"empty largest", DELTA_REDUCE_MAX, F32, SHAPE(1, 0), 2, {0}, {-INFINITY}},
      {"empty smallest integer", DELTA_REDUCE_MIN, I32, SHAPE(1, 0), 2, {0}, {INT32_MAX}},
      {"empty largest bool", DELTA_REDUCE_MAX, BOOLS, SHAPE(1, 0), 2, {0}, {0}},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) check_reduce(&rows[i]);
}

// The prologue's values are those of the pointwise operator, however long the reduced stretch; several outputs reduce at once.
Test(reference_expr, reduce_of_an_expression) {
  delta_expr_builder_t builder;
  build_expression(&builder);
  const delta_shape_t shape = SHAPE(2, 3, 131), a_shape = SHAPE(3, 1), b_shape = SHAPE(2, 1, 131);
  const delta_reduce_attrs_t attrs = {.shape = shape,
                                      .axes = 5,
                                      .kinds = {DELTA_REDUCE_SUM, DELTA_REDUCE_MEAN},
                                      .dtypes = {DELTA_DTYPE_FLOAT64, DELTA_DTYPE_FLOAT64},
                                      .expr = builder.expr};
  delta_test_tensor_t a = delta_test_tensor_random(DELTA_DTYPE_FLOAT32, &a_shape, 0), outputs[2];
  delta_test_tensor_t b = delta_test_tensor_random(DELTA_DTYPE_FLOAT32, &b_shape, 1);
  delta_status_t status = delta_test_run_node(&DELTA_TEST_NODE(REDUCE, attrs), (const delta_test_tensor_t *[]){&a, &b}, 2, outputs, 2);
  cr_assert_null(status, "%s", delta_status_message(status));
  for (int row = 0; row < 3; ++row) {
    double sum = 0, less = 0;
    for (int i = 0; i < 2 * 131; ++i) {
      const float inputs[] = {(float)a.values[row], (float)b.values[i]};
      float values[2];
      delta_expr_eval_float(&builder.expr, inputs, values);
      sum += (double)values[0];
      less += (double)values[1];
    }
    cr_assert_eq(outputs[0].values[row], sum);
    cr_assert_eq(outputs[1].values[row], less / (2 * 131));
  }
  delta_test_tensor_free(&a);
  delta_test_tensor_free(&b);
  for (int k = 0; k < 2; ++k) delta_test_tensor_free(&outputs[k]);
}
