// Trains a classifier from C: make a plan, open a session, train with an evaluation after each epoch, export. Here with the digits network:
//   train resnet.onnx x=train_x.npy,label=train_y.npy x=test_x.npy,label=test_y.npy trained.onnx
#include <delta/delta.h>

#include <stdio.h>
#include <stdlib.h>

// Ends the program with the message of a call that failed.
static void check(delta_status_t status) {
  if (!status) return;
  fprintf(stderr, "%s\n", delta_status_message(status));
  exit(EXIT_FAILURE);
}

static delta_status_t print_evaluation(void *self, const delta_train_evaluation_t *evaluation) {
  (void)self;
  printf("epoch %lld: test loss %.4f, accuracy %.4f\n", (long long)evaluation->epoch, evaluation->loss, evaluation->accuracy);
  return NULL;
}

int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: %s MODEL.onnx TRAIN_DATA TEST_DATA TRAINED.onnx\n", argv[0]);
    return EXIT_FAILURE;
  }
  delta_plan_options_t plan_options;
  delta_plan_options_init(&plan_options);
  plan_options.model_path = argv[1];
  plan_options.batch = 64;
  plan_options.loss = "cross_entropy";
  plan_options.learning_rate = 0.02;
  plan_options.momentum = 0.9;
  plan_options.budget = "unlimited";
  delta_plan_t *plan;
  check(delta_plan_create(&plan_options, delta_allocator_system(), &plan, NULL));

  delta_session_options_t session_options;
  delta_session_options_init(&session_options);
  session_options.plan = plan;
  session_options.model_path = argv[1];
  delta_session_t *session;
  check(delta_session_create(&session_options, delta_allocator_system(), &session));

  delta_train_options_t train_options;
  delta_train_options_init(&train_options);
  train_options.data = argv[2];
  train_options.evaluation = argv[3];
  train_options.epochs = 4;
  train_options.on_evaluation = print_evaluation;
  delta_train_result_t result = {.struct_size = sizeof result};
  check(delta_session_train(session, &train_options, &result));
  printf("%lld steps in %.1f MiB\n", (long long)result.steps, (double)result.last_step.arena_peak_bytes / (1 << 20));
  printf("test accuracy %.4f\n", result.last_evaluation.accuracy);

  check(delta_session_export(session, argv[4], 0));
  delta_session_destroy(session);
  delta_plan_free(plan);
  return EXIT_SUCCESS;
}
