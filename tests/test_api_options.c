// The public option structs: every field a program can set wrongly is refused with its name, before any work, and never taken for another value.
#include <criterion/criterion.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "tests/support/training.h"
#include "tests/support/words.h"

// One field set to one value.
typedef enum field_kind { REAL, INT64, INT32, UINT64, TEXT } field_kind_t;
typedef struct field_case {
  const char *name;
  field_kind_t kind;
  size_t offset;
  double real; // or an integer
  const char *text;
  const char *words; // of the refusal; NULL: accepted
} field_case_t;

static void set_field(void *options, const field_case_t *c) {
  void *field = (char *)options + c->offset;
  switch (c->kind) {
    case REAL:
      memcpy(field, &c->real, sizeof c->real);
      break;
    case INT64:
      memcpy(field, &(int64_t){(int64_t)c->real}, sizeof(int64_t));
      break;
    case INT32:
      memcpy(field, &(int32_t){(int32_t)c->real}, sizeof(int32_t));
      break;
    case UINT64:
      memcpy(field, &(uint64_t){(uint64_t)c->real}, sizeof(uint64_t));
      break;
    case TEXT:
      memcpy(field, &c->text, sizeof c->text);
      break;
  }
}

#define PLAN(kind, member, ...) \
  { #member, kind, offsetof(delta_plan_options_t, member), __VA_ARGS__ }
static const field_case_t plan_cases[] = {
    PLAN(REAL, learning_rate, NAN, NULL, "--lr"),
    PLAN(REAL, learning_rate, INFINITY, NULL, "--lr"),
    PLAN(REAL, learning_rate, -INFINITY, NULL, "--lr"),
    PLAN(REAL, learning_rate, 1e7, NULL, "--lr"),
    PLAN(REAL, learning_rate, 0, NULL, NULL),
    PLAN(REAL, learning_rate, -1, NULL, NULL),
    PLAN(REAL, momentum, NAN, NULL, "--momentum"),
    PLAN(REAL, momentum, 1, NULL, "--momentum"),
    PLAN(REAL, weight_decay, NAN, NULL, "--weight-decay"),
    PLAN(REAL, weight_decay, INFINITY, NULL, "--weight-decay"),
    PLAN(REAL, weight_decay, -INFINITY, NULL, "--weight-decay"),
    PLAN(REAL, beta1, 0.5, NULL, "--beta1|sgd"),
    PLAN(REAL, beta1, NAN, NULL, "--beta1"),
    PLAN(REAL, beta2, NAN, NULL, "--beta2"),
    PLAN(REAL, epsilon, NAN, NULL, "--epsilon"),
    PLAN(REAL, epsilon, -INFINITY, NULL, "--epsilon"),
    PLAN(REAL, clip_gradient_norm, -1, NULL, "--clip-grad-norm"),
    PLAN(REAL, clip_gradient_norm, NAN, NULL, "--clip-grad-norm"),
    PLAN(REAL, clip_gradient_norm, INFINITY, NULL, "--clip-grad-norm"),
    PLAN(REAL, clip_gradient_norm, 2.5, NULL, NULL),
    PLAN(REAL, time_limit_seconds, -1, NULL, "--time-limit"),
    PLAN(REAL, time_limit_seconds, NAN, NULL, "--time-limit"),
    PLAN(REAL, time_limit_seconds, INFINITY, NULL, "--time-limit"),
    PLAN(REAL, time_limit_seconds, 0, NULL, NULL),
    PLAN(INT64, batch, -1, NULL, "--batch"),
    PLAN(INT64, batch, 9e18, NULL, "--batch"),
    PLAN(INT64, accumulate, 0, NULL, "--accumulate"),
    PLAN(INT64, accumulate, -3, NULL, "--accumulate"),
    PLAN(INT64, accumulate, 1e12, NULL, "--accumulate"),
    PLAN(INT64, class_axis, 8, NULL, "--class-axis"),
    PLAN(INT64, class_axis, -9e18, NULL, "--class-axis"),
    PLAN(INT64, ignore_index, 9.1e15, NULL, "--ignore-index"),
    PLAN(INT64, ignore_index, -9e18, NULL, "--ignore-index"),
    PLAN(INT32, threads, -1, NULL, "--threads"),
    PLAN(INT32, threads, 2e9, NULL, "2000000000 threads"),
    PLAN(UINT64, init_seed, 1e19, NULL, "--init random"),
    PLAN(UINT64, seed, 1e19, NULL, NULL),
    PLAN(UINT64, dim_count, 1, NULL, "--dim"),
    PLAN(UINT64, freeze_count, 2, NULL, "--freeze"),
    PLAN(UINT64, train_count, 1, NULL, "--train"),
    PLAN(TEXT, math, 0, "tf32", "--math tf32|CPU"),
    PLAN(TEXT, math, 0, "", "--math"),
    PLAN(TEXT, math, 0, "float32", NULL),
    PLAN(TEXT, budget, 0, "much", "--budget|much"),
    PLAN(TEXT, budget, 0, "0x10%", "--budget"),
    PLAN(TEXT, budget, 0, "-5%", "--budget"),
    PLAN(TEXT, budget, 0, "", "--budget"),
    PLAN(TEXT, host_budget, 0, "-1", "--host-budget"),
    PLAN(TEXT, host_budget, 0, "1GiB", NULL),
    PLAN(TEXT, policy, 0, "best", "best|none"),
    PLAN(TEXT, policy, 0, NULL, NULL),
    PLAN(TEXT, levers, 0, "", "--levers"),
    PLAN(TEXT, optimizer, 0, "best", "--optimizer|best|sgd"),
    PLAN(TEXT, optimizer, 0, NULL, NULL),
    PLAN(TEXT, loss, 0, "", "--loss"),
    PLAN(TEXT, loss, 0, "hinge", "--loss|hinge"),
    PLAN(TEXT, loss, 0, NULL, "--loss"),
    PLAN(TEXT, batchnorm, 0, "never", "--batchnorm|never|freeze"),
    PLAN(TEXT, batchnorm, 0, NULL, NULL),
    PLAN(TEXT, layout, 0, "sideways", "--layout|sideways"),
    PLAN(TEXT, layout, 0, NULL, NULL),
    PLAN(TEXT, init, 0, "zero", "--init|zero|random"),
    PLAN(TEXT, init, 0, NULL, NULL),
    PLAN(TEXT, device, 0, "tpu", "tpu|cpu"),
    PLAN(TEXT, profile, 0, "/nowhere/p.json", "/nowhere/p.json"),
    PLAN(TEXT, save_profile, 0, "p.json", "--save-profile|estimate"),
    PLAN(TEXT, external_data, 0, "/nowhere", "--external-data|/nowhere|no such folder"),
    PLAN(TEXT, external_data, 0, "/dev/null", "--external-data|/dev/null|not a folder"),
    PLAN(TEXT, external_data, 0, "/", NULL),
    PLAN(TEXT, output_path, 0, "/nowhere/a.plan", "/nowhere/a.plan"),
};

#define SESSION(kind, member, ...) \
  { #member, kind, offsetof(delta_session_options_t, member), __VA_ARGS__ }
static const field_case_t session_cases[] = {
    SESSION(TEXT, plan, 0, NULL, "no plan"),
    SESSION(TEXT, model_path, 0, NULL, "model"),
    SESSION(TEXT, model_path, 0, "/nowhere/m.onnx", "/nowhere/m.onnx|--model"),
    SESSION(TEXT, external_data, 0, "/nowhere", "--external-data|/nowhere|no such folder"),
    SESSION(TEXT, budget, 0, "much", "--budget|much"),
    SESSION(TEXT, budget, 0, "0x10%", "--budget"),
    SESSION(TEXT, budget, 0, "nan%", "--budget"),
    SESSION(TEXT, budget, 0, "unlimited", NULL),
    SESSION(UINT64, seed, 1e19, NULL, NULL),
};

// The message of a failed call, or of none.
static void expect(const char *what, const field_case_t *c, delta_status_t status) {
  const char *message = delta_status_message(status);
  cr_expect_eq(status != NULL, c->words != NULL, "%s: %s %g %s: %s", what, c->name, c->real, c->text ? c->text : "", message);
  if (status && c->words) cr_expect(delta_words_all(message, c->words), "%s: %s: not all of '%s' in: %s", what, c->name, c->words, message);
  delta_status_free(status);
}

Test(api_options, plan_fields) {
  delta_test_training_t training;
  delta_test_training_write(&training, delta_test_mlp);
  for (size_t i = 0; i < sizeof plan_cases / sizeof *plan_cases; ++i) {
    delta_plan_options_t options = delta_test_plan_options(4);
    set_field(&options, &plan_cases[i]);
    expect("plan", &plan_cases[i], delta_test_training_plan(&training, &options, delta_allocator_system()));
    delta_plan_free(training.plan);
    training.plan = NULL;
  }
  delta_test_training_close(&training);
}

Test(api_options, session_fields) {
  delta_test_training_t training;
  delta_plan_options_t plan_options = delta_test_plan_options(4);
  delta_test_training_prepare(&training, delta_test_mlp, &plan_options);
  for (size_t i = 0; i < sizeof session_cases / sizeof *session_cases; ++i) {
    delta_session_options_t options = delta_test_session_options(&training);
    set_field(&options, &session_cases[i]);
    expect("session", &session_cases[i], delta_session_create(&options, delta_allocator_system(), &training.session));
    delta_session_destroy(training.session);
    training.session = NULL;
  }
  delta_test_training_close(&training);
}

Test(api_options, dimensions) {
  static const struct {
    delta_dim_t dim;
    const char *words;
  } cases[] = {{{NULL, 4}, "--dim|no name"}, {{"", 4}, "--dim|no name"}, {{"M", -1}, "--dim|M"}, {{"M", INT64_MAX}, "--dim|M"}};
  delta_test_training_t training;
  delta_test_training_write(&training, delta_test_mlp);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    delta_plan_options_t options = delta_test_plan_options(4);
    options.dims = &cases[i].dim;
    options.dim_count = 1;
    delta_test_expect_status(delta_test_training_plan(&training, &options, delta_allocator_system()), DELTA_STATUS_INVALID_ARGUMENT,
                             cases[i].words);
  }
  delta_test_training_close(&training);
}
