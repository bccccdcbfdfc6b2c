// Large dimensions: sizes beyond what 32 bits hold, in shapes, bytes and offsets, go through planning whole. Nothing of it is run: the smallest of these
// programs takes 24 GB.
#include <criterion/criterion.h>
#include <stdio.h>

#include "tests/support/training.h"

enum { FLOAT = 1, INT64 = 7 };
#define LONG        INT64_C(3000000000)
#define FLOAT_BYTES 4.0

typedef struct large_case {
  const char *name, *nodes; // of x and w to y
  int32_t input_type;
  int64_t input_dims[4], weight_dims[4]; // ended by 0
  double state_bytes, least_bytes;       // of weights; of the step
} large_case_t;

static const large_case_t cases[] = {
    {"pointwise", "Mul:x,w>y@a", FLOAT, {1, LONG}, {1}, 0, 2 * LONG *FLOAT_BYTES},
    {"pointwise weight", "Mul:x,w>y@a", FLOAT, {1, 1}, {LONG}, LONG *FLOAT_BYTES, 2 * LONG *FLOAT_BYTES},
    {"matmul, long rows", "MatMul:x,w>y@a", FLOAT, {1, LONG}, {LONG, 1}, LONG *FLOAT_BYTES, 2 * LONG *FLOAT_BYTES},
    {"matmul, many columns", "MatMul:x,w>y@a", FLOAT, {1, 2}, {2, LONG}, 2 * LONG *FLOAT_BYTES, 3 * LONG *FLOAT_BYTES},
    {"gather", "Gather:w,x>y@a", INT64, {1, 4}, {LONG, 1}, LONG *FLOAT_BYTES, LONG *FLOAT_BYTES},
    {"convolution", "Conv:x,w>y@a", FLOAT, {1, 1, LONG}, {1, 1, 3}, 0, 2 * LONG *FLOAT_BYTES},
    {"pooling", "Mul:x,w>h@a;GlobalAveragePool:h>y@b", FLOAT, {1, 1, LONG}, {1}, 0, LONG *FLOAT_BYTES},
    {"softmax", "Mul:x,w>h@a;Softmax:h>y@b", FLOAT, {1, LONG}, {1}, 0, 2 * LONG *FLOAT_BYTES},
    {"transposition", "Transpose:x>t@a;MatMul:x,t>s@b;Mul:s,w>y@c", FLOAT, {1, LONG}, {1}, 0, LONG *FLOAT_BYTES},
};

static size_t rank_of(const int64_t dims[4]) {
  size_t rank = 0;
  while (rank < 4 && dims[rank]) ++rank;
  return rank;
}

static void write_case(const delta_test_training_t *training, const large_case_t *test) {
  delta_test_message_t graph = {0};
  delta_test_put_nodes(&graph, DELTA_TEST_GRAPH_NODE, test->nodes);
  delta_test_message_t weight = delta_test_tensor_head("w", FLOAT, test->weight_dims, rank_of(test->weight_dims));
  delta_test_put_external(&weight, "location", "nowhere.bin");
  delta_test_put_varint(&weight, DELTA_TEST_TENSOR_LOCATION, 1);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INITIALIZER, &weight);
  delta_test_message_t input = delta_test_value_info("x", test->input_type, test->input_dims, rank_of(test->input_dims));
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INPUT, &input);
  delta_test_message_t output = {0}; // its shape is inferred
  delta_test_put_text(&output, 1, "y");
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_OUTPUT, &output);
  delta_test_message_t message = delta_test_model_message(&graph, "15");
  delta_test_folder_write(&training->folder, "model.onnx", message.bytes, message.count);
  delta_test_message_free(&message);
}

Test(large_dims, are_planned_whole, .timeout = 60) {
  delta_test_training_t training;
  delta_test_training_write(&training, delta_test_mlp);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const large_case_t *test = &cases[i];
    delta_plan_options_t options = delta_test_plan_options(0);
    delta_plan_summary_t summary = {.struct_size = sizeof summary};
    options.loss = "mse";
    options.model_path = training.model_path;
    write_case(&training, test);
    delta_plan_t *plan = NULL;
    delta_status_t status = delta_plan_create(&options, delta_allocator_system(), &plan, &summary);
    cr_expect_null(status, "%s: %s", test->name, delta_status_message(status));
    if (!status) {
      const double most_bytes = 20 * LONG * FLOAT_BYTES;
      cr_expect((double)summary.state_bytes >= test->state_bytes, "%s: states of %g bytes", test->name, (double)summary.state_bytes);
      cr_expect((double)summary.peak_bytes >= test->least_bytes && (double)summary.arena_bytes < most_bytes, "%s: peak %g, arena %g bytes",
                test->name, (double)summary.peak_bytes, (double)summary.arena_bytes);
      cr_expect(summary.arena_bytes >= summary.peak_bytes, "%s: the arena is smaller than what is live", test->name);
    }
    delta_status_free(status);
    delta_plan_free(plan);
  }
  delta_test_training_close(&training);
}
