// Emit: what is given back unchanged, folded, made immediate, or refused.
#include <criterion/criterion.h>
#include <string.h>

#include "onnx/graph/emit.h"

static delta_graph_t *graph;
static delta_emit_t emit;

static void setup(void) {
  cr_assert_eq(delta_graph_create(delta_allocator_system(), &graph), DELTA_OK);
  delta_emit_init(&emit, graph);
  emit.name = "node";
}

static void teardown(void) {
  delta_status_free(delta_emit_finish(&emit));
  delta_graph_free(graph);
}

TestSuite(emit, .init = setup, .fini = teardown);

#define SHAPE(...) ((delta_shape_t){.rank = (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .dims = {__VA_ARGS__}})

static delta_tensor_id_t input(const char *name, delta_dtype_t dtype, delta_shape_t shape) {
  delta_tensor_id_t tensor;
  cr_assert_eq(delta_graph_add_input(graph, name, dtype, &shape, &tensor), DELTA_OK);
  return tensor;
}

static void expect_sound(void) {
  delta_status_t status = delta_emit_finish(&emit);
  cr_expect_eq(status, DELTA_OK, "%s", delta_status_message(status));
  delta_status_free(status);
  status = delta_graph_check(graph);
  cr_expect_eq(status, DELTA_OK, "%s", delta_status_message(status));
  delta_status_free(status);
}

static void expect_refused(delta_status_code_t code, const char *part) {
  delta_status_t status = delta_emit_finish(&emit);
  cr_expect_eq(delta_status_code(status), code, "%s", delta_status_message(status));
  cr_expect_not_null(strstr(delta_status_message(status), part), "'%s' is not in '%s'", part, delta_status_message(status));
  delta_status_free(status);
}

static const delta_node_t *producer(delta_tensor_id_t id) { return delta_graph_node(graph, delta_graph_tensor(graph, id)->producer); }

Test(emit, shape_arithmetic_folds) {
  const delta_tensor_id_t dims = delta_emit_int64s(&emit, (const int64_t[]){4, 6}, 2);
  const delta_tensor_id_t half = delta_emit_binary_real(&emit, DELTA_EXPR_DIV, dims, 2);
  const delta_tensor_id_t joined = delta_emit_concat(&emit, (const delta_tensor_id_t[]){dims, half}, 2, 0);
  const delta_tensor_id_t part = delta_emit_range(&emit, joined, 0, 1, 4);
  int64_t values[4];
  size_t count;
  cr_assert(delta_emit_constant_ints(&emit, part, values, 4, &count));
  cr_expect_eq(count, 3);
  cr_expect(values[0] == 6 && values[1] == 2 && values[2] == 3);
  cr_expect_not(delta_emit_constant_ints(&emit, part, values, 2, &count), "too long");
  expect_sound();
}

Test(emit, scalars_of_scalars_fold) {
  const delta_tensor_id_t a = delta_emit_scalar(&emit, DELTA_DTYPE_FLOAT32, 3), b = delta_emit_scalar(&emit, DELTA_DTYPE_FLOAT32, 4);
  double value;
  cr_assert(delta_emit_constant_real(&emit, delta_emit_binary(&emit, DELTA_EXPR_MUL, a, b), &value));
  cr_expect_eq(value, 12);
  cr_assert(delta_emit_constant_real(&emit, delta_emit_cast(&emit, a, DELTA_DTYPE_INT64), &value));
  cr_expect_eq(value, 3);
  expect_sound();
}

Test(emit, several_folded_outputs_are_constants) {
  const delta_tensor_id_t values = delta_emit_int64s(&emit, (const int64_t[]){1, 2, 3, 4, 5}, 5);
  delta_tensor_id_t parts[2];
  delta_emit_split(&emit, values, 0, (const int64_t[]){2, 3}, 2, parts);
  cr_expect_eq(producer(parts[1])->op, DELTA_CORE_CONSTANT);
  cr_expect_eq(((const int64_t *)delta_emit_tensor(&emit, parts[1])->data)[0], 3);
  expect_sound();
}

Test(emit, nothing_folds_when_folding_is_off) {
  emit.fold = false;
  const delta_tensor_id_t dims = delta_emit_int64s(&emit, (const int64_t[]){4, 6}, 2);
  cr_expect_eq(producer(delta_emit_unary(&emit, DELTA_EXPR_NEG, dims))->op, DELTA_CORE_POINTWISE);
  const delta_tensor_id_t sum = delta_emit_binary(&emit, DELTA_EXPR_ADD, delta_emit_scalar(&emit, DELTA_DTYPE_FLOAT32, 1),
                                                  delta_emit_scalar(&emit, DELTA_DTYPE_FLOAT32, 2));
  cr_expect_eq(producer(sum)->input_count, 0);
  expect_sound();
}

Test(emit, large_results_do_not_fold) {
  const delta_tensor_id_t one = delta_emit_int64s(&emit, (const int64_t[]){1, 2}, 2);
  const delta_shape_t large = SHAPE((DELTA_FOLD_LIMIT_BYTES / 8) + 1, 2);
  cr_expect_eq(producer(delta_emit_expand(&emit, one, &large))->op, DELTA_CORE_POINTWISE);
  // A result of one element over an enormous broadcast is work without bytes.
  static const int64_t zeros[1 << 15];
  delta_expr_builder_t builder;
  delta_expr_builder_init(&builder, DELTA_DTYPE_INT64);
  const delta_tensor_id_t column = delta_emit_constant(&emit, DELTA_DTYPE_INT64, &SHAPE(1 << 15, 1), zeros);
  const delta_tensor_id_t row = delta_emit_view(&emit, column, &SHAPE(1, 1 << 15));
  const delta_tensor_id_t inputs[] = {column, row};
  delta_expr_output(&builder, delta_expr_binary(&builder, DELTA_EXPR_ADD, delta_expr_input(&builder, 0), delta_expr_input(&builder, 1)));
  const delta_tensor_id_t sum = delta_emit_reduce_expr(&emit, DELTA_REDUCE_SUM, &builder, DELTA_DTYPE_INT64, inputs, 2, 3);
  cr_expect_eq(producer(sum)->op, DELTA_CORE_REDUCE);
  expect_sound();
}

Test(emit, scalar_constants_become_immediates) {
  const delta_tensor_id_t x = input("x", DELTA_DTYPE_INT64, SHAPE(3));
  const int64_t exact = (INT64_C(1) << 53) + 1;
  const delta_tensor_id_t y = delta_emit_binary(&emit, DELTA_EXPR_ADD, x, delta_emit_int64s(&emit, &exact, 1));
  const delta_node_t *node = producer(y);
  const delta_expr_t *expr = &((const delta_pointwise_attrs_t *)node->attrs)->expr;
  cr_expect_eq(node->input_count, 1);
  bool found = false;
  for (uint16_t i = 0; i < expr->instr_count; ++i) found = found || expr->instrs[i].immediate.integer == exact;
  cr_expect(found, "the integer is exact");
  expect_sound();
}

Test(emit, immediates_count_for_the_rank) {
  const delta_tensor_id_t x = input("x", DELTA_DTYPE_FLOAT32, SHAPE(3));
  const delta_tensor_id_t one = delta_emit_constant(&emit, DELTA_DTYPE_FLOAT32, &SHAPE(1, 1, 1), &(const float){1});
  cr_expect(delta_shape_equal(delta_emit_shape(&emit, delta_emit_binary(&emit, DELTA_EXPR_ADD, x, one)), &SHAPE(1, 1, 3)));
  expect_sound();
}

Test(emit, equal_inputs_are_one_input) {
  const delta_tensor_id_t x = input("x", DELTA_DTYPE_FLOAT32, SHAPE(3));
  cr_expect_eq(producer(delta_emit_binary(&emit, DELTA_EXPR_MUL, x, x))->input_count, 1);
  expect_sound();
}

Test(emit, fills_are_not_stored) {
  const delta_tensor_id_t fill = delta_emit_fill(&emit, DELTA_DTYPE_FLOAT32, &SHAPE(1000, 1000), 2);
  cr_expect_eq(producer(fill)->op, DELTA_CORE_POINTWISE);
  cr_expect_eq(producer(fill)->input_count, 0);
  cr_expect_null(delta_emit_tensor(&emit, fill)->data);
  expect_sound();
}

Test(emit, what_changes_nothing_gives_its_input) {
  const delta_tensor_id_t x = input("x", DELTA_DTYPE_FLOAT32, SHAPE(3, 1, 2));
  const delta_shape_t shape = SHAPE(3, 1, 2);
  const delta_tensor_id_t same[] = {delta_emit_cast(&emit, x, DELTA_DTYPE_FLOAT32),
                                    delta_emit_view(&emit, x, &shape),
                                    delta_emit_expand(&emit, x, &shape),
                                    delta_emit_reduce(&emit, DELTA_REDUCE_SUM, x, 0),
                                    delta_emit_sum_to(&emit, x, &shape),
                                    delta_emit_concat(&emit, &x, 1, 0),
                                    delta_emit_range(&emit, x, 0, 0, 3)};
  for (size_t i = 0; i < sizeof same / sizeof *same; ++i) cr_expect(delta_tensor_same(same[i], x), "%zu", i);
  cr_expect_not(delta_tensor_same(delta_emit_copy(&emit, x), x));
  cr_expect_eq(producer(delta_emit_transpose(&emit, x, (const int32_t[]){1, 0, 2}))->op, DELTA_CORE_VIEW);
  cr_expect_eq(producer(delta_emit_transpose(&emit, x, (const int32_t[]){2, 1, 0}))->op, DELTA_CORE_TRANSPOSE);
  expect_sound();
}

Test(emit, copies_are_nodes_even_of_constants) {
  const delta_tensor_id_t constants[] = {delta_emit_scalar(&emit, DELTA_DTYPE_FLOAT32, 3),
                                         delta_emit_int64s(&emit, (const int64_t[]){1, 2}, 2)};
  for (size_t i = 0; i < 2; ++i) cr_expect_eq(producer(delta_emit_copy(&emit, constants[i]))->op, DELTA_CORE_POINTWISE);
  cr_expect(emit.fold);
  expect_sound();
}

Test(emit, sums_undo_broadcasting) {
  const delta_tensor_id_t x = input("x", DELTA_DTYPE_FLOAT32, SHAPE(5, 4, 3));
  const delta_shape_t shapes[] = {SHAPE(4, 3), SHAPE(4, 1), SHAPE(3), SHAPE(1, 1, 1), {0}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; ++i) {
    cr_expect(delta_shape_equal(delta_emit_shape(&emit, delta_emit_sum_to(&emit, x, &shapes[i])), &shapes[i]), "%zu", i);
  }
  expect_sound();
}

Test(emit, comparisons_are_bool) {
  const delta_tensor_id_t x = input("x", DELTA_DTYPE_FLOAT64, SHAPE(2)), y = input("y", DELTA_DTYPE_FLOAT64, SHAPE(2));
  const delta_tensor_id_t less = delta_emit_binary(&emit, DELTA_EXPR_LT, x, y);
  cr_expect_eq(delta_emit_dtype(&emit, less), DELTA_DTYPE_BOOL);
  cr_expect_eq(delta_emit_dtype(&emit, delta_emit_unary(&emit, DELTA_EXPR_NOT, less)), DELTA_DTYPE_BOOL);
  cr_expect_eq(delta_emit_dtype(&emit, delta_emit_select(&emit, less, x, y)), DELTA_DTYPE_FLOAT64);
  expect_sound();
}

Test(emit, errors_name_the_node_and_stick) {
  emit.name = "first";
  const delta_tensor_id_t x = input("x", DELTA_DTYPE_FLOAT32, SHAPE(2, 3)), y = input("y", DELTA_DTYPE_FLOAT32, SHAPE(2, 4));
  cr_expect(delta_tensor_is_none(delta_emit_binary(&emit, DELTA_EXPR_ADD, x, y)));
  emit.name = "second";
  cr_expect(delta_tensor_is_none(delta_emit_unary(&emit, DELTA_EXPR_NEG, x)));
  expect_refused(DELTA_STATUS_MALFORMED, "'first'");
  delta_emit_binary(&emit, DELTA_EXPR_ADD, x, delta_emit_cast(&emit, y, DELTA_DTYPE_FLOAT64));
  expect_refused(DELTA_STATUS_MALFORMED, "types must agree");
  delta_emit_unary(&emit, DELTA_EXPR_NEG, DELTA_TENSOR_NONE);
  expect_refused(DELTA_STATUS_INTERNAL, "'second'");
  delta_emit_matmul(&emit, x, y, false, false);
  expect_refused(DELTA_STATUS_MALFORMED, "node 'second' (matmul): shapes [2, 3] and [2, 4]");
  delta_emit_transpose(&emit, x, (const int32_t[]){0, 0});
  expect_refused(DELTA_STATUS_MALFORMED, "permutation has 0 twice");
}

Test(emit, errors_of_folding_are_reported) {
  const delta_tensor_id_t values = delta_emit_int64s(&emit, (const int64_t[]){1, 2}, 2);
  const delta_tensor_id_t index = delta_emit_int64s(&emit, (const int64_t[]){5}, 1);
  const delta_gather_attrs_t attrs = {.axis = 0};
  cr_expect(delta_tensor_is_none(DELTA_EMIT(&emit, GATHER, attrs, values, index)));
  expect_refused(DELTA_STATUS_INVALID_ARGUMENT, "node 'node'");
  expect_sound();
}

Test(emit, optional_outputs_exist_when_wanted) {
  const delta_tensor_id_t x = input("x", DELTA_DTYPE_FLOAT32, SHAPE(1, 1, 4, 4));
  const delta_pool_attrs_t attrs = {
      .window = {.spatial = 2, .kernel = {2, 2}, .strides = {2, 2}, .dilations = {1, 1}}, .out_spatial = {2, 2}, .data_spatial = {4, 4}};
  delta_tensor_id_t outputs[2];
  delta_emit_node(&emit, DELTA_CORE_MAX_POOL, &attrs, sizeof attrs, &x, 1, outputs, 2, 0);
  cr_expect(delta_tensor_is_none(outputs[1]));
  delta_emit_node(&emit, DELTA_CORE_MAX_POOL, &attrs, sizeof attrs, &x, 1, outputs, 2, 2);
  cr_expect_eq(delta_emit_dtype(&emit, outputs[1]), DELTA_DTYPE_UINT8);
  expect_sound();
}
