// Executor: programs of unusual models run and give the right values; every step is reported in order; bytes without a value hold the
// pattern.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/session_parts.h"
#include "tests/support/indices.h"
#include "tests/support/training.h"

// --- unusual models

typedef struct model_case {
  const char *name, *text, *loss;
} model_case_t;

#define LINEAR "input x float32 [N,4]\ninit w float32 [4,3] 0\nnode MatMul x w -> logits\n"
static const model_case_t model_cases[] = {
    {"an input nobody reads", "input unused float32 [N,2]\n" LINEAR "output logits\n", "cross_entropy"},
    {"an input is an output", LINEAR "output logits\noutput x\n", "cross_entropy"},
    {"a parameter is an output", LINEAR "output logits\noutput w\n", "cross_entropy"},
    {"an output twice as a view", LINEAR "node Flatten logits -> flat\noutput logits\noutput flat\n", "cross_entropy"},
    {"a constant is an output", LINEAR "init c float32 [2] 1.5 2.5\nnode Identity c -> d\noutput logits\noutput d\n", "cross_entropy"},
    {"an output is read on",
     LINEAR "node Relu logits -> r\ninit v float32 [3,3] 0\nnode MatMul r v -> s\noutput s\noutput r\noutput logits\n", "cross_entropy"},
    {"one parameter in two places",
     "input x float32 [N,4]\ninit w float32 [4,4] 0\nnode MatMul x w -> h\nnode MatMul h w -> logits\noutput logits\n", "cross_entropy"},
    {"embedding",
     "input ids int64 [N,2]\ninit table float32 [5,3] 0\nnode Gather table ids -> e\nnode ReduceMean e -> logits : axes=[1] keepdims=0\n"
     "output logits\n",
     "cross_entropy"},
    {"its own loss", LINEAR "node ReduceMean logits -> l : keepdims=0\noutput l\n", "output:l"},
    {"one sample is a scalar", "input x float32 [N]\ninit w float32 [1] 0\nnode Mul x w -> y\noutput y\n", "mse"},
};

ParameterizedTestParameters(executor, unusual_models) { return delta_test_indices(sizeof model_cases / sizeof *model_cases); }

// Trained by a full and a partial batch under both policies: finite losses, and the same ones.
ParameterizedTest(size_t *index, executor, unusual_models) {
  const model_case_t *c = &model_cases[*index];
  static const char *const policies[] = {"none", "eager"};
  double losses[2][3];
  for (int k = 0; k < 2; ++k) {
    delta_test_training_t training;
    delta_plan_options_t options = delta_test_plan_options(4);
    options.loss = c->loss;
    options.policy = policies[k];
    delta_test_training_open(&training, c->text, &options);
    losses[k][0] = delta_test_run(training.session, DELTA_RUN_TRAIN, 0, 4, 0.1).loss;
    losses[k][1] = delta_test_run(training.session, DELTA_RUN_TRAIN, 4, 3, 0.1).loss;
    losses[k][2] = delta_test_run(training.session, DELTA_RUN_EVALUATE, 0, 4, 0).loss;
    delta_test_training_close(&training);
  }
  for (int i = 0; i < 3; ++i) {
    cr_expect(isfinite(losses[0][i]), "%s: run %d: loss %g", c->name, i, losses[0][i]);
    cr_expect_float_eq(losses[0][i], losses[1][i], 1e-6, "%s: run %d: %g and %g", c->name, i, losses[0][i], losses[1][i]);
  }
}

Test(executor, outputs_that_are_inputs_and_parameters) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(2);
  delta_test_training_open(&training, LINEAR "output logits\noutput x\noutput w\n", &options);
  delta_test_batch_t batch;
  delta_test_batch_make(training.session, 0, 2, &batch);
  delta_test_expect_ok(delta_session_run(training.session, DELTA_RUN_EVALUATE, &batch.batch, 0, NULL), "evaluate");
  float x[2][4], w[4][3], parameter[4][3], logits[2][3];
  size_t size_bytes = 0;
  delta_test_expect_ok(delta_session_read_output(training.session, "x", 2, x, sizeof x, &size_bytes), "x");
  cr_expect_eq(memcmp(x, delta_test_batch_find(&batch, "x"), sizeof x), 0);
  delta_test_expect_ok(delta_session_read_output(training.session, "w", 2, w, sizeof w, &size_bytes), "w");
  delta_test_expect_ok(delta_session_read(training.session, "w", parameter, sizeof parameter), "w");
  cr_expect_eq(memcmp(w, parameter, sizeof w), 0);
  delta_test_expect_ok(delta_session_read_output(training.session, "logits", 2, logits, sizeof logits, &size_bytes), "logits");
  for (int i = 0; i < 2; ++i) {
    for (int k = 0; k < 3; ++k) {
      float sum = 0;
      for (int j = 0; j < 4; ++j) sum += x[i][j] * w[j][k];
      cr_expect_float_eq(logits[i][k], sum, 1e-5);
    }
  }
  delta_test_batch_free(&batch);
  delta_test_training_close(&training);
}

Test(executor, ids_are_checked_before_the_step) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(4);
  delta_test_training_open(&training, model_cases[7].text, &options);
  delta_input_info_t info;
  delta_test_expect_ok(delta_session_input(training.session, 0, &info), "input");
  cr_expect_str_eq(info.name, "ids");
  cr_expect_eq(info.maximum, 5);
  delta_test_batch_t batch;
  delta_test_batch_make(training.session, 0, 4, &batch);
  ((int64_t *)delta_test_batch_find(&batch, "ids"))[3] = 5;
  delta_test_values_t before = delta_test_read_states(training.session, NULL);
  delta_test_expect_status(delta_session_run(training.session, DELTA_RUN_TRAIN, &batch.batch, 0.1, NULL), DELTA_STATUS_MISMATCH,
                           "ids|element 3 is 5|4");
  delta_test_values_t after = delta_test_read_states(training.session, NULL);
  cr_expect_eq(delta_test_distance(&before, &after), 0);
  free(before.items);
  free(after.items);
  delta_test_batch_free(&batch);
  delta_test_training_close(&training);
}

// --- steps

enum { MOST_STEPS = 256 };
typedef struct witness {
  const delta_executor_options_t *options;
  uint32_t count;
  double last_seconds;
  uint32_t unpoisoned; // buffers that were not filled before their first write, as far as they can be seen
} witness_t;

static bool is_poisoned(const uint8_t *bytes, size_t size_bytes) {
  for (size_t i = 0; i < size_bytes; ++i) {
    if (bytes[i] != 0xFF) return false;
  }
  return true;
}

static const uint8_t *buffer_bytes(const delta_executor_options_t *o, uint32_t buffer) {
  return o->device->driver->arena_address(o->arena, o->state_bytes + o->schedule->buffers[buffer].offset_bytes);
}

// After a step the buffers that died with the step before it hold the pattern, unless another lives there by now.
static void on_step(void *self, const delta_step_event_t *event) {
  witness_t *witness = self;
  const delta_schedule_t *schedule = witness->options->schedule;
  cr_assert_eq(event->step, witness->count++);
  cr_assert_eq(event->schedule_step, &schedule->steps[event->step]);
  cr_assert_not_null(event->node);
  cr_assert(event->start_seconds >= witness->last_seconds && event->end_seconds >= event->start_seconds);
  witness->last_seconds = event->end_seconds;
  for (uint32_t i = 0; i < schedule->buffer_count && event->step > 0; ++i) {
    const delta_buffer_t *dead = &schedule->buffers[i];
    bool is_free = dead->last_step + 1 == event->step;
    for (uint32_t k = 0; k < schedule->buffer_count && is_free; ++k) {
      const delta_buffer_t *other = &schedule->buffers[k];
      bool lives = other->first_step <= event->step && other->last_step + 1 >= event->step;
      is_free = k == i || !lives || other->offset_bytes >= dead->offset_bytes + dead->size_bytes ||
                dead->offset_bytes >= other->offset_bytes + other->size_bytes;
    }
    if (is_free && !is_poisoned(buffer_bytes(witness->options, i), dead->size_bytes)) ++witness->unpoisoned;
  }
}

Test(executor, steps_are_reported_in_order_and_dead_bytes_hold_the_pattern) {
  delta_test_training_t training;
  delta_plan_options_t options = delta_test_plan_options(4);
  delta_test_training_open(&training, delta_test_batchnorm, &options);
  delta_session_t *session = training.session;
  delta_live_program_t *program = session->programs.items[0];
  witness_t witness = {0};
  const delta_executor_options_t executor_options = {
      .device = session->device,
      .graph = program->parts.graph,
      .problem = program->parts.problem,
      .tensor_of_storage = program->parts.tensor_of_storage,
      .selection = program->parts.selection,
      .schedule = program->schedule,
      .plan = session->plan,
      .arena = session->arena,
      .state_bytes = session->state_bytes,
      .poison = true,
      .on_step = on_step,
      .self = &witness,
  };
  witness.options = &executor_options;
  delta_executor_t *executor = NULL;
  delta_test_expect_ok(delta_executor_create(&executor_options, delta_allocator_system(), &executor), "executor");
  for (uint32_t i = 0; i < program->parts.graph->inputs.count; ++i)
    memset(delta_executor_input(executor, i), 0,
           delta_tensor_bytes(delta_graph_tensor(program->parts.graph, program->parts.graph->inputs.items[i])));
  delta_run_result_t result;
  const delta_run_options_t run = {.finite_outputs = {DELTA_INDEX_NONE, DELTA_INDEX_NONE}};
  delta_test_expect_ok(delta_executor_run(executor, &run, &result), "run");
  cr_expect_eq(witness.count, program->schedule->step_count);
  cr_expect_gt(witness.count, 10);
  cr_expect_eq(witness.unpoisoned, 0, "%u dead buffers do not hold the pattern", witness.unpoisoned);
  cr_expect_not(result.stopped);
  cr_expect_gt(result.updates_done, 0);
  delta_executor_destroy(executor);
  delta_test_training_close(&training);
}
