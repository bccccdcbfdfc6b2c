// Trains the digits network from C: make a plan, open a session, feed batches, evaluate, export.
//   train DIGITS_FOLDER TRAINED.onnx
#include <delta/delta.h>

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 64, TRAIN_SAMPLES = 1437, TEST_SAMPLES = 360, PIXELS = 64, EPOCHS = 4 };
static float train_x[TRAIN_SAMPLES * PIXELS], test_x[TEST_SAMPLES * PIXELS];
static int64_t train_y[TRAIN_SAMPLES], test_y[TEST_SAMPLES];

static void read_array(const char *folder, const char *name, void *data, size_t size_bytes) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, -(long)size_bytes, SEEK_END) || fread(data, 1, size_bytes, file) != size_bytes) exit((perror(path), 1));
  fclose(file);
}

static void check(delta_status_t status) {
  if (status) exit((fprintf(stderr, "%s\n", delta_status_message(status)), 1));
}

int main(int argc, char **argv) {
  if (argc != 3) return fprintf(stderr, "usage: %s DIGITS_FOLDER TRAINED.onnx\n", argv[0]), 2;
  read_array(argv[1], "train_x.npy", train_x, sizeof train_x);
  read_array(argv[1], "train_y.npy", train_y, sizeof train_y);
  read_array(argv[1], "test_x.npy", test_x, sizeof test_x);
  read_array(argv[1], "test_y.npy", test_y, sizeof test_y);
  char model[1024];
  snprintf(model, sizeof model, "%s/resnet.onnx", argv[1]);

  delta_plan_options_t plan_options;
  delta_plan_options_init(&plan_options);
  plan_options.model_path = model;
  plan_options.batch = BATCH;
  plan_options.loss = "cross_entropy";
  plan_options.momentum = 0.9;
  plan_options.budget = "unlimited";
  delta_plan_t *plan;
  check(delta_plan_create(&plan_options, delta_allocator_system(), &plan, NULL));

  delta_session_options_t session_options;
  delta_session_options_init(&session_options);
  session_options.plan = plan;
  session_options.model_path = model;
  delta_session_t *session;
  check(delta_session_create(&session_options, delta_allocator_system(), &session));

  delta_run_report_t report = {.struct_size = sizeof report};
  for (int epoch = 0; epoch < EPOCHS; ++epoch) {
    for (int first = 0; first + BATCH <= TRAIN_SAMPLES; first += BATCH) {
      delta_feed_t feeds[] = {{"x", train_x + first * PIXELS, BATCH * PIXELS * sizeof *train_x},
                              {"label", train_y + first, BATCH * sizeof *train_y}};
      check(delta_session_run(session, DELTA_RUN_TRAIN, &(delta_batch_t){.rows = BATCH, .feeds = feeds, .feed_count = 2}, 0.02, &report));
    }
    printf("epoch %d: loss %.4f, arena %.1f MiB\n", epoch + 1, report.loss, (double)report.arena_peak_bytes / (1 << 20));
  }

  delta_feed_t feeds[] = {{"x", test_x, sizeof test_x}, {"label", test_y, sizeof test_y}};
  check(
      delta_session_run(session, DELTA_RUN_EVALUATE, &(delta_batch_t){.rows = TEST_SAMPLES, .feeds = feeds, .feed_count = 2}, 0, &report));
  printf("test accuracy %.4f\n", report.correct / report.label_count);
  check(delta_session_export(session, argv[2], 0));
  delta_session_destroy(session);
  delta_plan_free(plan);
}
