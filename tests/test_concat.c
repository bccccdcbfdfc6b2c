// What is put together from parts: concatenations and splits that work in a row, and wholes that nobody makes. Training keeps its bits, and takes less memory.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "plans/plan.h"
#include "tests/support/training.h"

enum { STEPS = 3 };

// Skip connections around a smaller inside, as a U-Net's, whose parts are of different sizes.
static const char skip_net[] =
    "opset 15\n"
    "input x float32 [N,8,16,16]\n"
    "init w1 float32 [32,8,3,3] 0; init s1 float32 [32] 1; init b1 float32 [32] 0; init m1 float32 [32] 0; init v1 float32 [32] 1\n"
    "init w2 float32 [32,32,3,3] 0; init t float32 [32,16,2,2] 0; init w3 float32 [16,48,3,3] 0; init v float32 [16,5] 0\n"
    "node Conv x w1 -> a1 : pads=[1,1,1,1]\n"
    "node BatchNormalization a1 s1 b1 m1 v1 -> n1 d1 e1 : training_mode=1\n"
    "node Relu n1 -> h1\n"
    "node MaxPool h1 -> p1 : kernel_shape=[2,2] strides=[2,2]\n"
    "node Conv p1 w2 -> a2 : pads=[1,1,1,1]\n"
    "node Tanh a2 -> h2\n"
    "node ConvTranspose h2 t -> u : strides=[2,2]\n"
    "node Concat h1 u -> c : axis=1\n"
    "node Conv c w3 -> a3 : pads=[1,1,1,1]\n"
    "node Relu a3 -> h3\n"
    "node GlobalAveragePool h3 -> p\n"
    "node Flatten p -> f\n"
    "node MatMul f v -> logits\n"
    "output logits\n";

// Each layer normalizes all that came before it, as a DenseNet's.
static const char dense_net[] =
    "opset 15\n"
    "input x float32 [N,8,16,16]\n"
    "init w0 float32 [16,8,3,3] 0; init w1 float32 [16,16,3,3] 0; init w2 float32 [16,32,3,3] 0; init v float32 [48,5] 0\n"
    "init s2 float32 [32] 1; init b2 float32 [32] 0; init m2 float32 [32] 0; init v2 float32 [32] 1\n"
    "init s3 float32 [48] 1; init b3 float32 [48] 0; init m3 float32 [48] 0; init v3 float32 [48] 1\n"
    "node Conv x w0 -> a0 : pads=[1,1,1,1]\n"
    "node Conv a0 w1 -> a1 : pads=[1,1,1,1]\n"
    "node Concat a0 a1 -> c1 : axis=1\n"
    "node BatchNormalization c1 s2 b2 m2 v2 -> n1 d1 e1 : training_mode=1\n"
    "node Relu n1 -> r1\n"
    "node Conv r1 w2 -> a2 : pads=[1,1,1,1]\n"
    "node Concat a0 a1 a2 -> c2 : axis=1\n"
    "node BatchNormalization c2 s3 b3 m3 v3 -> n2 d2 e2 : training_mode=1\n"
    "node Relu n2 -> r2\n"
    "node GlobalAveragePool r2 -> p\n"
    "node Flatten p -> f\n"
    "node MatMul f v -> logits\n"
    "output logits\n";

typedef struct concat_case {
  const char *name, *model, *split;
  int64_t batch;
} concat_case_t;

typedef struct trained {
  delta_test_values_t states;
  double losses[STEPS];
  uint64_t peak_bytes, minimum_bytes;
} trained_t;

static void train(const concat_case_t *c, const char *levers, const char *budget, trained_t *trained) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(c->batch);
  options.levers = levers;
  options.budget = budget;
  options.split = c->split;
  options.time_limit_seconds = 1;
  delta_test_training_open(&training, c->model, &options);
  for (int i = 0; i < STEPS; ++i) trained->losses[i] = delta_test_run(training.session, DELTA_RUN_TRAIN, c->batch * i, c->batch, 0.05).loss;
  trained->states = delta_test_read_states(training.session, NULL);
  trained->peak_bytes = training.plan->totals.peak_bytes;
  trained->minimum_bytes = training.plan->totals.minimum_budget_bytes;
  delta_test_training_close(&training);
}

static void keeps_its_bits(const concat_case_t *c) {
  static const char *const budgets[] = {"unlimited", "70%", "minimum"};
  trained_t off, on;
  train(c, "-concat", "unlimited", &off);
  for (size_t i = 0; i < sizeof budgets / sizeof *budgets; ++i) {
    train(c, "all", budgets[i], &on);
    cr_expect_eq(memcmp(on.losses, off.losses, sizeof on.losses), 0, "%s, %s: losses differ", c->name, budgets[i]);
    cr_assert_eq(on.states.count, off.states.count);
    cr_expect_eq(memcmp(on.states.items, off.states.items, on.states.count * sizeof *on.states.items), 0, "%s, %s: states differ", c->name,
                 budgets[i]);
    cr_expect_leq(on.peak_bytes, off.peak_bytes, "%s, %s", c->name, budgets[i]);
    // Found by a search, so not to the byte.
    cr_expect_leq((double)on.minimum_bytes, 1.05 * (double)off.minimum_bytes, "%s, %s", c->name, budgets[i]);
    free(on.states.items);
  }
  free(off.states.items);
}

Test(concat, skip_connections_keep_their_bits, .timeout = 300) {
  static const concat_case_t cases[] = {
      {"skips", skip_net, "off", 6}, {"skips of one", skip_net, "off", 1}, {"skips in parts", skip_net, "4", 8}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) keeps_its_bits(&cases[i]);
}

Test(concat, dense_blocks_keep_their_bits, .timeout = 300) {
  static const concat_case_t cases[] = {
      {"dense", dense_net, "off", 6}, {"dense of one", dense_net, "off", 1}, {"dense in parts", dense_net, "4", 8}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) keeps_its_bits(&cases[i]);
}
