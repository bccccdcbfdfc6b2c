// Reference kernels by their properties: derivatives by central differences, losses two ways, what random numbers promise, whole graphs.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "onnx/reference/run.h"
#include "tests/support/one_node.h"
#include "tests/support/trial.h"
#include "tests/support/support.h"

#define SHAPE(...)                                                                 \
  {                                                                                \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ } \
  }

static delta_test_tensor_t run_one(const delta_test_node_t *node, const delta_test_tensor_t *const *inputs, uint32_t count) {
  delta_test_tensor_t outputs[3];
  const uint32_t output_count = node->op == DELTA_CORE_CROSS_ENTROPY                           ? 3
                                : node->op == DELTA_CORE_NLL || node->op == DELTA_CORE_DROPOUT ? 2
                                                                                               : 1;
  delta_status_t status = delta_test_run_node(node, inputs, count, outputs, output_count);
  cr_assert_null(status, "%s", delta_status_message(status));
  for (uint32_t k = 1; k < output_count; ++k) delta_test_tensor_free(&outputs[k]);
  return outputs[0];
}

// The gradient of <dy, y(x)> by x in central differences, against `gradient`. inputs[0] is x, which is restored.
static void check_differences(const delta_test_node_t *forward, delta_test_tensor_t *x, const delta_test_tensor_t *const *inputs,
                              uint32_t count, const delta_test_tensor_t *dy, const delta_test_tensor_t *gradient) {
  const double step = 1e-5;
  for (int64_t i = 0; i < delta_shape_count(&x->shape); ++i) {
    const double at = x->values[i];
    double sides[2];
    for (int side = 0; side < 2; ++side) {
      x->values[i] = at + (side ? step : -step);
      delta_test_tensor_t y = run_one(forward, inputs, count);
      sides[side] = delta_test_dot(dy, &y);
      delta_test_tensor_free(&y);
    }
    x->values[i] = at;
    cr_assert_float_eq(gradient->values[i], (sides[1] - sides[0]) / (2 * step), 1e-8, "element %d", (int)i);
  }
}

Test(reference_properties, softmax_rows_sum_to_one_and_gradient) {
  const delta_shape_t shape = SHAPE(2, 4, 3);
  for (int log_of = 0; log_of < 2; ++log_of) {
    const delta_softmax_attrs_t attrs = {.axis = 1, .log = log_of};
    const delta_test_node_t forward = DELTA_TEST_NODE(SOFTMAX, attrs), backward = DELTA_TEST_NODE(SOFTMAX_GRAD, attrs);
    delta_test_tensor_t x = delta_test_tensor_random(DELTA_DTYPE_FLOAT64, &shape, 0);
    delta_test_tensor_t dy = delta_test_tensor_random(DELTA_DTYPE_FLOAT64, &shape, 1);
    const delta_test_tensor_t *inputs[] = {&x};
    delta_test_tensor_t y = run_one(&forward, inputs, 1);
    for (int64_t line = 0; line < 6; ++line) {
      double sum = 0;
      for (int64_t i = 0; i < 4; ++i) {
        const double value = y.values[line / 3 * 12 + i * 3 + line % 3];
        sum += log_of ? exp(value) : value;
      }
      cr_assert_float_eq(sum, 1, 1e-14);
    }
    delta_test_tensor_t dx = run_one(&backward, (const delta_test_tensor_t *[]){&dy, &y}, 2);
    check_differences(&forward, &x, inputs, 1, &dy, &dx);
    delta_test_tensor_free(&x);
    delta_test_tensor_free(&dy);
    delta_test_tensor_free(&y);
    delta_test_tensor_free(&dx);
  }
}

Test(reference_properties, cross_entropy_is_nll_of_log_softmax_and_gradient) {
  const delta_shape_t shape = SHAPE(3, 5, 2), label_shape = SHAPE(3, 2), weight_shape = SHAPE(5);
  const delta_softmax_attrs_t softmax = {.axis = 1, .log = true};
  const delta_class_loss_attrs_t loss = {.axis = 1, .classes = 5, .has_ignore = true, .ignore_index = -100};
  const delta_test_node_t forward = DELTA_TEST_NODE(CROSS_ENTROPY, loss);
  delta_test_tensor_t logits = delta_test_tensor_random(DELTA_DTYPE_FLOAT64, &shape, 0);
  delta_test_tensor_t labels = delta_test_tensor_of(DELTA_DTYPE_INT64, &label_shape, (const double[]){0, 4, -100, 2, 2, 1});
  delta_test_tensor_t weights = delta_test_tensor_of(DELTA_DTYPE_FLOAT64, &weight_shape, (const double[]){1, 2, 0.5, 3, 0.25});
  const delta_test_tensor_t *inputs[] = {&logits, &labels, &weights};
  delta_test_tensor_t outputs[3], nll[2];
  cr_assert_null(delta_test_run_node(&forward, inputs, 3, outputs, 3));

  delta_test_tensor_t logarithms = run_one(&DELTA_TEST_NODE(SOFTMAX, softmax), inputs, 1);
  cr_assert_null(
      delta_test_run_node(&DELTA_TEST_NODE(NLL, loss), (const delta_test_tensor_t *[]){&logarithms, &labels, &weights}, 3, nll, 2));
  for (int i = 0; i < 6; ++i) {
    cr_assert_float_eq(outputs[0].values[i], nll[0].values[i], 1e-12);
    cr_assert_eq(outputs[1].values[i], nll[1].values[i]);
  }
  cr_assert_eq(outputs[0].values[2], 0); // ignored

  delta_test_tensor_t dloss = delta_test_tensor_random(DELTA_DTYPE_FLOAT64, &label_shape, 1);
  const delta_test_tensor_t *operands[] = {&dloss, &logits, &outputs[2], &labels, &weights};
  delta_test_tensor_t gradient = run_one(&DELTA_TEST_NODE(CROSS_ENTROPY_GRAD, loss), operands, 5);
  check_differences(&forward, &logits, inputs, 3, &dloss, &gradient);

  delta_test_tensor_t nll_gradient =
      run_one(&DELTA_TEST_NODE(NLL_GRAD, loss), (const delta_test_tensor_t *[]){&dloss, &labels, &weights}, 3);
  const delta_test_tensor_t *nll_inputs[] = {&logarithms, &labels, &weights};
  check_differences(&DELTA_TEST_NODE(NLL, loss), &logarithms, nll_inputs, 3, &dloss, &nll_gradient);
  for (int k = 0; k < 3; ++k) delta_test_tensor_free(&outputs[k]);
  for (int k = 0; k < 2; ++k) delta_test_tensor_free(&nll[k]);
  delta_test_tensor_t *rest[] = {&logits, &labels, &weights, &logarithms, &dloss, &gradient, &nll_gradient};
  for (size_t k = 0; k < sizeof rest / sizeof *rest; ++k) delta_test_tensor_free(rest[k]);
}

// Share and scale of what dropout keeps; the same draw gives the same mask, another draw another.
Test(reference_properties, dropout) {
  enum { COUNT = 20000 };
  const delta_shape_t shape = SHAPE(COUNT), scalar = {0, {0}};
  const delta_dropout_attrs_t attrs = {.ratio = 0.3, .stream = 5};
  delta_test_tensor_t x = delta_test_tensor_of(DELTA_DTYPE_FLOAT32, &shape, NULL), outputs[3][2];
  for (int i = 0; i < COUNT; ++i) x.values[i] = 7;
  delta_test_tensor_t seed = delta_test_tensor_of(DELTA_DTYPE_INT64, &scalar, (const double[]){3});
  for (int run = 0; run < 3; ++run) {
    delta_test_tensor_t draw = delta_test_tensor_of(DELTA_DTYPE_INT64, &scalar, (const double[]){run == 2 ? 9 : 8});
    cr_assert_null(
        delta_test_run_node(&DELTA_TEST_NODE(DROPOUT, attrs), (const delta_test_tensor_t *[]){&x, &seed, &draw}, 3, outputs[run], 2));
    delta_test_tensor_free(&draw);
  }
  int kept = 0, same = 0;
  for (int i = 0; i < COUNT; ++i) {
    const bool mask = outputs[0][1].values[i] != 0;
    cr_assert_eq(outputs[0][0].values[i], mask ? (double)(float)(7 / 0.7) : 0);
    cr_assert_eq(outputs[1][0].values[i], outputs[0][0].values[i]);
    kept += mask;
    same += outputs[2][1].values[i] == outputs[0][1].values[i];
  }
  cr_assert_float_eq((double)kept / COUNT, 0.7, 0.02); // six standard deviations
  cr_assert_float_eq((double)same / COUNT, 0.7 * 0.7 + 0.3 * 0.3, 0.025);
  for (int run = 0; run < 3; ++run)
    for (int k = 0; k < 2; ++k) delta_test_tensor_free(&outputs[run][k]);
  delta_test_tensor_free(&x);
  delta_test_tensor_free(&seed);
}

Test(reference_properties, dropout_at_the_ends) {
  const delta_shape_t shape = SHAPE(50), scalar = {0, {0}};
  for (int ratio = 0; ratio < 2; ++ratio) {
    const delta_dropout_attrs_t attrs = {.ratio = ratio};
    delta_test_tensor_t x = delta_test_tensor_random(DELTA_DTYPE_FLOAT64, &shape, 0);
    delta_test_tensor_t key = delta_test_tensor_of(DELTA_DTYPE_INT64, &scalar, NULL);
    delta_test_tensor_t y = run_one(&DELTA_TEST_NODE(DROPOUT, attrs), (const delta_test_tensor_t *[]){&x, &key, &key}, 3);
    for (int i = 0; i < 50; ++i) cr_assert_eq(y.values[i], ratio ? 0 : x.values[i]);
    delta_test_tensor_free(&x);
    delta_test_tensor_free(&key);
    delta_test_tensor_free(&y);
  }
}

typedef struct random_case {
  bool normal;
  double low, high, mean, deviation;
} random_case_t;

Test(reference_properties, random_numbers_have_their_moments) {
  const random_case_t rows[] = {{false, -1, 3, 1, 4 / 3.4641016}, {true, 2, 0.5, 2, 0.5}};
  const int64_t count = 40000;
  const delta_shape_t shape = SHAPE(40000), scalar = {0, {0}};
  for (size_t k = 0; k < sizeof rows / sizeof *rows; ++k) {
    const delta_random_attrs_t attrs = {
        .shape = shape, .dtype = DELTA_DTYPE_FLOAT32, .normal = rows[k].normal, .low = rows[k].low, .high = rows[k].high};
    delta_test_tensor_t key = delta_test_tensor_of(DELTA_DTYPE_INT64, &scalar, (const double[]){1});
    delta_test_tensor_t y = run_one(&DELTA_TEST_NODE(RANDOM, attrs), (const delta_test_tensor_t *[]){&key, &key}, 2);
    double sum = 0, square = 0;
    for (int64_t i = 0; i < count; ++i) {
      cr_assert(rows[k].normal || (y.values[i] >= rows[k].low && y.values[i] < rows[k].high));
      sum += y.values[i];
      square += (y.values[i] - rows[k].mean) * (y.values[i] - rows[k].mean);
    }
    cr_assert_float_eq(sum / (double)count, rows[k].mean, 6 * rows[k].deviation / 200);
    cr_assert_float_eq(sqrt(square / (double)count), rows[k].deviation, 0.03 * rows[k].deviation);
    delta_test_tensor_free(&key);
    delta_test_tensor_free(&y);
  }
}

Test(reference_properties, concat_undoes_split) {
  static const int64_t sizes[] = {2, 0, 3};
  const delta_shape_t shape = SHAPE(2, 5, 3);
  const delta_split_attrs_t split = {.axis = 1, .sizes = sizes}, concat = {.axis = 1};
  delta_test_tensor_t x = delta_test_tensor_random(DELTA_DTYPE_FLOAT32, &shape, 0), parts[3];
  cr_assert_null(delta_test_run_node(&DELTA_TEST_NODE(SPLIT, split), (const delta_test_tensor_t *[]){&x}, 1, parts, 3));
  delta_test_tensor_t y = run_one(&DELTA_TEST_NODE(CONCAT, concat), (const delta_test_tensor_t *[]){&parts[0], &parts[1], &parts[2]}, 3);
  cr_assert(delta_shape_equal(&y.shape, &shape));
  for (int i = 0; i < 30; ++i) cr_assert_eq((float)y.values[i], (float)x.values[i]);
  for (int k = 0; k < 3; ++k) delta_test_tensor_free(&parts[k]);
  delta_test_tensor_free(&x);
  delta_test_tensor_free(&y);
}

// A nearest neighbour at whole factors repeats; a linear map of equal scale is the identity.
Test(reference_properties, resize_small) {
  delta_resize_attrs_t attrs = {.mode = DELTA_RESIZE_NEAREST,
                                .coordinate = DELTA_RESIZE_ASYMMETRIC,
                                .rounding = DELTA_RESIZE_FLOOR,
                                .scales = {2},
                                .out_shape = SHAPE(6),
                                .data_shape = SHAPE(3)};
  const delta_shape_t shape = SHAPE(3);
  delta_test_tensor_t x = delta_test_tensor_of(DELTA_DTYPE_INT32, &shape, (const double[]){4, 5, 6});
  delta_test_tensor_t y = run_one(&DELTA_TEST_NODE(RESIZE, attrs), (const delta_test_tensor_t *[]){&x}, 1);
  for (int i = 0; i < 6; ++i) cr_assert_eq(y.values[i], 4 + i / 2);
  delta_test_tensor_free(&y);
  attrs.mode = DELTA_RESIZE_LINEAR;
  attrs.coordinate = DELTA_RESIZE_HALF_PIXEL;
  attrs.scales[0] = 1;
  attrs.out_shape = shape;
  y = run_one(&DELTA_TEST_NODE(RESIZE, attrs), (const delta_test_tensor_t *[]){&x}, 1);
  for (int i = 0; i < 3; ++i) cr_assert_eq(y.values[i], 4 + i);
  delta_test_tensor_free(&x);
  delta_test_tensor_free(&y);
}

static void add_copy(delta_graph_t *graph, delta_tensor_id_t *x, delta_tensor_id_t *out_copy) {
  static const delta_transpose_attrs_t attrs = {.permutation = {0}};
  delta_node_t node = {.op = DELTA_CORE_TRANSPOSE,
                       .name = "copy",
                       .inputs = x,
                       .input_count = 1,
                       .outputs = out_copy,
                       .output_count = 1,
                       .attrs = &attrs,
                       .attrs_bytes = sizeof attrs};
  const delta_tensor_t tensor = {
      .name = "copy", .dtype = DELTA_DTYPE_FLOAT32, .shape = SHAPE(1), .storage = DELTA_TENSOR_NONE, .state = DELTA_INDEX_NONE};
  delta_node_id_t id;
  cr_assert_null(delta_graph_append_tensor(graph, &tensor, out_copy));
  cr_assert_null(delta_graph_append_node(graph, &node, &id));
}

// Two states that take each other's value: both must be read before either changes.
Test(reference_properties, states_advance_together) {
  delta_graph_t *graph = NULL;
  delta_reference_values_t values;
  cr_assert_null(delta_graph_create(delta_allocator_system(), &graph));
  delta_tensor_id_t current[2], copies[2];
  for (uint32_t k = 0; k < 2; ++k) {
    const delta_state_t state = {.name = k ? "b" : "a",
                                 .kind = DELTA_STATE_COUNTER,
                                 .dtype = DELTA_DTYPE_FLOAT32,
                                 .shape = SHAPE(1),
                                 .initializer = DELTA_INDEX_NONE,
                                 .initial_value = 1 + k,
                                 .current = DELTA_TENSOR_NONE,
                                 .next = DELTA_TENSOR_NONE};
    uint32_t index;
    cr_assert_null(delta_graph_add_state(graph, &state, &index));
    current[k] = graph->states.items[index].current;
  }
  for (uint32_t k = 0; k < 2; ++k) {
    add_copy(graph, &current[k], &copies[k]);
    cr_assert_null(delta_graph_set_next(graph, 1 - k, copies[k]));
  }
  cr_assert_null(delta_reference_values_init(graph, delta_allocator_system(), &values));
  for (int step = 0; step < 2; ++step) {
    cr_assert_eq(*(float *)delta_reference_value(&values, current[0]), (float)(step + 1));
    cr_assert_eq(*(float *)delta_reference_value(&values, current[1]), (float)(2 - step));
    cr_assert_null(delta_reference_run_graph(&values));
    cr_assert_null(delta_reference_advance_states(&values));
  }
  delta_reference_values_deinit(&values);
  delta_graph_free(graph);
}

// Each allocation of a kernel with temporaries fails once: the error comes back and nothing stays allocated.
Test(reference_properties, failed_allocations) {
  const delta_shape_t small = SHAPE(2, 3), large = SHAPE(2, 7), index_shape = SHAPE(3);
  const delta_resize_attrs_t resize = {
      .mode = DELTA_RESIZE_CUBIC, .cubic_coefficient = -0.5, .scales = {1, 7.0 / 3}, .data_shape = small, .out_shape = large};
  const delta_pad_attrs_t pad = {.mode = DELTA_PAD_EDGE, .begin = {0, 1}, .end = {0, 3}, .data_shape = small};
  const delta_gather_attrs_t gather = {.axis = 0, .data_shape = SHAPE(4)};
  delta_test_tensor_t x = delta_test_tensor_random(DELTA_DTYPE_FLOAT32, &small, 0);
  delta_test_tensor_t dy = delta_test_tensor_random(DELTA_DTYPE_FLOAT32, &large, 1);
  delta_test_tensor_t dg = delta_test_tensor_random(DELTA_DTYPE_FLOAT32, &index_shape, 2);
  delta_test_tensor_t index = delta_test_tensor_of(DELTA_DTYPE_INT64, &index_shape, (const double[]){3, 0, 3});
  const struct {
    delta_test_node_t node;
    const delta_test_tensor_t *inputs[2];
    uint32_t input_count;
  } rows[] = {{DELTA_TEST_NODE(RESIZE, resize), {&x}, 1},
              {DELTA_TEST_NODE(RESIZE_GRAD, resize), {&dy}, 1},
              {DELTA_TEST_NODE(PAD_GRAD, pad), {&dy}, 1},
              {DELTA_TEST_NODE(GATHER_GRAD, gather), {&index, &dg}, 2}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    for (delta_test_trial_t trial = {0}; delta_test_trial_begin(&trial);) {
      delta_test_tensor_t output;
      delta_status_t status =
          delta_test_run_node_with(delta_test_trial_allocator(&trial), &rows[i].node, rows[i].inputs, rows[i].input_count, &output, 1);
      delta_test_trial_end(&trial, status, delta_core_op_info(rows[i].node.op)->name);
      delta_test_tensor_free(&output);
    }
  }
  delta_test_tensor_t *tensors[] = {&x, &dy, &dg, &index};
  for (size_t k = 0; k < sizeof tensors / sizeof *tensors; ++k) delta_test_tensor_free(tensors[k]);
}
