// Trains the models of a folder and compares with their references: forward pass, loss, gradients, running statistics, and the weights after the
// steps of two optimizers. A case passes within the tolerance that its about.json gives. Prints a line per case and a total.
//
//   run_models FOLDER [--kernels cpu|cpu-eager|cpu-LAYOUT|cuda|cuda-verified|reference] [--threads N] [--model NAME] [--split N]
//
// By default plans and sessions of the CPU driver are tested; cuda has those of GPU 0, also with an arena that is verified; cpu-eager has the plans of policy eager; cpu-plain,
// cpu-channels-last, cpu-blocked-8 and cpu-blocked-16 have all convolutions in that layout; reference needs neither plan nor driver. With --split
// the CPU driver's programs run in N parts along the batch.
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "onnx/optimizer.h"
#include "runtime/data/npz.h"
#include "tests/support/stepper.h"

enum { PATH_BYTES = 1024, NAME_BYTES = 256, MAX_FEEDS = 8, MAX_MODELS = 256 };

typedef struct model_case {
  const char *name;
  const delta_stepper_kind_t *kind;
  int threads;
  uint32_t parts;
  delta_allocator_t allocator;
  delta_model_t *model;
  delta_json_document_t *about;
  delta_npz_t *data, *reference;
  delta_build_options_t options;
  int64_t batch, steps;
  bool random; // masks are drawn: the references are those without
} model_case_t;

typedef struct totals {
  int passed, failed, skipped;
} totals_t;

// What one comparison found: the largest difference, and whether any passed what was allowed.
typedef struct comparison {
  double worst, allowed; // of the element that came nearest to (or farthest beyond) its limit
  char where[NAME_BYTES];
  size_t compared;
} comparison_t;

static void compare(comparison_t *c, double found, double wanted, double allowed, const char *where) {
  const double difference = fabs(found - wanted);
  c->compared++;
  const bool worse = !(difference / allowed <= c->worst / c->allowed); // also for NaN
  if (c->compared > 1 && !worse) return;
  c->worst = difference;
  c->allowed = allowed;
  snprintf(c->where, sizeof c->where, "%s", where);
}

static void report(totals_t *totals, const char *model, const char *name, delta_status_t status, const comparison_t *c) {
  if (status) {
    printf("FAIL %s %s: %s\n", model, name, delta_status_message(status));
    delta_status_free(status);
    totals->failed++;
    return;
  }
  const bool passed = c->compared > 0 && c->worst <= c->allowed;
  printf("%s %s %s: %zu values, nearest to its limit %s: off by %.3g of %.3g\n", passed ? "ok  " : "FAIL", model, name, c->compared,
         c->where, c->worst, c->allowed);
  if (passed) {
    totals->passed++;
  } else {
    totals->failed++;
  }
}

// about.json

static const delta_json_value_t *about_find(const model_case_t *m, const char *group, const char *key) {
  const delta_json_value_t *object = delta_json_find(delta_json_root(m->about), group);
  return object ? delta_json_find(object, key) : NULL;
}

static delta_status_t about_number(const model_case_t *m, const char *group, const char *key, double *out_value) {
  const delta_json_value_t *object = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_object(m->about, delta_json_root(m->about), group, &object));
  return delta_json_get_double(m->about, object, key, out_value);
}

// Column `column` of per_tensor's row for an initializer.
static delta_status_t tensor_deviation(const model_case_t *m, const char *name, int column, double *out_value) {
  const delta_json_value_t *table = NULL, *rows = NULL, *row = NULL;
  size_t count;
  DELTA_RETURN_IF_ERROR(delta_json_get_object(m->about, delta_json_root(m->about), "per_tensor", &table));
  DELTA_RETURN_IF_ERROR(delta_json_get_object(m->about, table, "rows", &rows));
  DELTA_RETURN_IF_ERROR(delta_json_get_array(m->about, rows, name, &row, &count));
  const delta_json_value_t *value = delta_json_first(row);
  for (int k = 0; k < column && value; ++k) value = delta_json_next(value);
  if (value == NULL) return delta_status_make(MALFORMED, "per_tensor of '%s' has no column %d", name, column);
  return delta_json_as_double(m->about, value, name, out_value);
}

// Arrays

static delta_status_t find_array(delta_npz_t *npz, const char *name, size_t *out_index, size_t *out_count) {
  *out_index = delta_npz_find(npz, name);
  if (*out_index == DELTA_NPZ_NONE) return delta_status_make(NOT_FOUND, "there is no array '%s'", name);
  const delta_npy_header_t *header = NULL;
  DELTA_RETURN_IF_ERROR(delta_npz_header(npz, *out_index, &header));
  *out_count = (size_t)delta_npy_element_count(header);
  return DELTA_OK;
}

// A whole array as float64; the caller releases it.
static delta_status_t read_array(const model_case_t *m, delta_npz_t *npz, const char *name, double **out_values, size_t *out_count) {
  size_t index;
  *out_values = NULL;
  DELTA_RETURN_IF_ERROR(find_array(npz, name, &index, out_count));
  const delta_npy_header_t *header = NULL;
  DELTA_RETURN_IF_ERROR(delta_npz_header(npz, index, &header));
  void *raw = NULL;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, delta_allocate(m->allocator, *out_count, delta_file_dtype_bytes(header->type), &raw), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(m->allocator, *out_count, out_values), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_npz_read(npz, index, 0, *out_count, raw), cleanup);
  delta_file_dtype_load_doubles(header->type, raw, *out_count, *out_values);
cleanup:
  delta_release(m->allocator, raw);
  return status;
}

// The reference array `prefix` + `name`.
static delta_status_t read_reference(const model_case_t *m, const char *prefix, const char *name, double **out_values, size_t *out_count) {
  char full[2 * NAME_BYTES];
  snprintf(full, sizeof full, "%s%s%s", m->random ? "dropout_off." : "", prefix, name);
  return read_array(m, m->reference, full, out_values, out_count);
}

// One step's inputs, with the rate and the seed.
typedef struct feeds {
  delta_stepper_feed_t items[MAX_FEEDS];
  void *owned[MAX_FEEDS];
  size_t count, owned_count;
  float rate;
  int64_t seed;
} feeds_t;

static void feeds_deinit(const model_case_t *m, feeds_t *feeds) {
  for (size_t k = 0; k < feeds->owned_count; ++k) delta_release(m->allocator, feeds->owned[k]);
}

static delta_status_t feeds_init(const model_case_t *m, int64_t step, double rate, feeds_t *feeds) {
  *feeds = (feeds_t){.rate = (float)rate, .seed = 1};
  feeds->items[feeds->count++] = (delta_stepper_feed_t){DELTA_NAME_RATE, &feeds->rate, sizeof feeds->rate};
  feeds->items[feeds->count++] = (delta_stepper_feed_t){DELTA_NAME_SEED, &feeds->seed, sizeof feeds->seed};
  for (size_t k = 0; k < delta_npz_count(m->data) && feeds->count < MAX_FEEDS; ++k) {
    const delta_npy_header_t *header = NULL;
    DELTA_RETURN_IF_ERROR(delta_npz_header(m->data, k, &header));
    const size_t count = (size_t)delta_npy_element_count(header) / (size_t)m->steps, bytes = delta_file_dtype_bytes(header->type);
    void *rows = NULL;
    DELTA_RETURN_IF_ERROR(delta_allocate(m->allocator, count, bytes, &rows));
    feeds->owned[feeds->owned_count++] = rows;
    DELTA_RETURN_IF_ERROR(delta_npz_read(m->data, k, (uint64_t)step * count, count, rows));
    feeds->items[feeds->count++] = (delta_stepper_feed_t){delta_npz_name(m->data, k), rows, count * bytes};
  }
  return DELTA_OK;
}

static delta_status_t run_step(const model_case_t *m, delta_stepper_t *stepper, delta_program_kind_t program, int64_t step, double rate) {
  feeds_t feeds;
  delta_status_t status = feeds_init(m, step, rate, &feeds);
  if (!status) status = m->kind->run(stepper, program, feeds.items, feeds.count);
  feeds_deinit(m, &feeds);
  return status;
}

static double limit(double deviation, double least) { return fmax(20.0 * deviation, least); }

static double largest(const double *values, size_t count) {
  double result = 0.0;
  for (size_t i = 0; i < count; ++i) result = fmax(result, fabs(values[i]));
  return result;
}

// Compares a state with a reference array. factor: the state is divided by it first.
typedef struct state_check {
  const char *state, *prefix, *name; // reference array prefix + name
  double factor;
  double deviation; // limit is 20 times this,
  double least;     // at least this,
  double relative;  // and at least this part of the array's largest value
} state_check_t;

static delta_status_t check_state(const model_case_t *m, delta_stepper_t *stepper, const state_check_t *check, comparison_t *c) {
  double *wanted = NULL, *found = NULL;
  size_t count;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, read_reference(m, check->prefix, check->name, &wanted, &count), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(m->allocator, count, &found), cleanup);
  DELTA_GOTO_IF_ERROR(status, m->kind->read_state(stepper, check->state, found, count), cleanup);
  const double allowed = limit(check->deviation, fmax(check->least, check->relative * largest(wanted, count)));
  for (size_t i = 0; i < count; ++i) compare(c, found[i] / check->factor, wanted[i], allowed, check->name);
cleanup:
  delta_release(m->allocator, found);
  delta_release(m->allocator, wanted);
  return status;
}

typedef delta_status_t (*each_name_t)(const model_case_t *m, delta_stepper_t *stepper, const char *name, double number, comparison_t *c);

// Calls `function` for each name in a list of about.json.
static delta_status_t for_each_name(const model_case_t *m, delta_stepper_t *stepper, const char *list, each_name_t function, double number,
                                    comparison_t *c) {
  const delta_json_value_t *array = NULL;
  size_t count;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(m->about, delta_json_root(m->about), list, &array, &count));
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value)) {
    const char *name = NULL;
    DELTA_RETURN_IF_ERROR(delta_json_as_string(m->about, value, list, &name));
    DELTA_RETURN_IF_ERROR(function(m, stepper, name, number, c));
  }
  return DELTA_OK;
}

static delta_status_t check_gradient(const model_case_t *m, delta_stepper_t *stepper, const char *name, double count, comparison_t *c) {
  double deviation, largest_grad;
  char state[NAME_BYTES];
  snprintf(state, sizeof state, "%s/gradient", name);
  DELTA_RETURN_IF_ERROR(tensor_deviation(m, name, 1, &deviation));
  DELTA_RETURN_IF_ERROR(about_number(m, "float32_deviation", "largest_grad", &largest_grad));
  const state_check_t check = {state, "grad/", name, count, deviation, 1e-5 * largest_grad, 0.0};
  return check_state(m, stepper, &check, c);
}

static delta_status_t check_buffer(const model_case_t *m, delta_stepper_t *stepper, const char *name, double after_steps, comparison_t *c) {
  double deviation = 0.0;
  DELTA_RETURN_IF_ERROR(about_number(m, "float32_deviation", after_steps != 0.0 ? "sgd.buffer" : "buffer", &deviation));
  const state_check_t check = {name, after_steps != 0.0 ? "sgd.buffer/" : "buffer/", name, 1.0, deviation, 0.0, 1e-5};
  return check_state(m, stepper, &check, c);
}

static delta_status_t check_sgd_parameter(const model_case_t *m, delta_stepper_t *stepper, const char *name, double number,
                                          comparison_t *c) {
  (void)number;
  double deviation;
  DELTA_RETURN_IF_ERROR(tensor_deviation(m, name, 2, &deviation));
  const state_check_t check = {name, "sgd.param/", name, 1.0, deviation, 1e-6, 0.0};
  return check_state(m, stepper, &check, c);
}

// Elements whose gradient is rounding noise move by up to the rate in every step, in a direction that no two programs agree on.
static delta_status_t check_adamw_parameter(const model_case_t *m, delta_stepper_t *stepper, const char *name, double rate,
                                            comparison_t *c) {
  double *wanted = NULL, *gradient = NULL, *found = NULL, deviation, largest_grad;
  size_t count;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, about_number(m, "float32_deviation", "adamw.param_where_gradient", &deviation), cleanup);
  DELTA_GOTO_IF_ERROR(status, about_number(m, "float32_deviation", "largest_grad", &largest_grad), cleanup);
  DELTA_GOTO_IF_ERROR(status, read_reference(m, "adamw.param/", name, &wanted, &count), cleanup);
  DELTA_GOTO_IF_ERROR(status, read_reference(m, "grad/", name, &gradient, &count), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(m->allocator, count, &found), cleanup);
  DELTA_GOTO_IF_ERROR(status, m->kind->read_state(stepper, name, found, count), cleanup);
  for (size_t i = 0; i < count; ++i) {
    const bool noise = fabs(gradient[i]) <= 1e-6 * largest_grad;
    compare(c, found[i], wanted[i], noise ? 2.0 * (double)m->steps * rate : limit(deviation, 1e-6), name);
  }
cleanup:
  delta_release(m->allocator, found);
  delta_release(m->allocator, gradient);
  delta_release(m->allocator, wanted);
  return status;
}

static delta_status_t check_loss(const model_case_t *m, delta_stepper_t *stepper, delta_program_kind_t program, const double *losses,
                                 int64_t step, const char *deviation_name, comparison_t *c) {
  double found, deviation;
  char where[NAME_BYTES];
  snprintf(where, sizeof where, "loss of step %lld", (long long)step + 1);
  DELTA_RETURN_IF_ERROR(about_number(m, "float32_deviation", deviation_name, &deviation));
  DELTA_RETURN_IF_ERROR(m->kind->read_output(stepper, program, DELTA_NAME_LOSS, &found, 1));
  compare(c, found, losses[step], limit(deviation, 1e-5 * largest(losses, (size_t)m->steps)), where);
  return DELTA_OK;
}

// Cases. Each runs on a stepper of its own.
typedef delta_status_t (*case_function_t)(model_case_t *m, delta_stepper_t *stepper, comparison_t *c);

static delta_status_t case_forward(model_case_t *m, delta_stepper_t *stepper, comparison_t *c) {
  double *wanted = NULL, *found = NULL, deviation;
  const char *output = NULL;
  size_t count;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, delta_json_get_string(m->about, delta_json_root(m->about), "output", &output), cleanup);
  DELTA_GOTO_IF_ERROR(status, about_number(m, "float32_deviation", "logits", &deviation), cleanup);
  DELTA_GOTO_IF_ERROR(status, run_step(m, stepper, DELTA_PROGRAM_EVALUATE, 0, 0.0), cleanup);
  DELTA_GOTO_IF_ERROR(status, read_reference(m, "", "logits", &wanted, &count), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(m->allocator, count, &found), cleanup);
  DELTA_GOTO_IF_ERROR(status, m->kind->read_output(stepper, DELTA_PROGRAM_EVALUATE, output, found, count), cleanup);
  const double allowed = limit(deviation, 1e-5 * largest(wanted, count));
  for (size_t i = 0; i < count; ++i) compare(c, found[i], wanted[i], allowed, output);
cleanup:
  delta_release(m->allocator, found);
  delta_release(m->allocator, wanted);
  return status;
}

static delta_status_t check_trainable(const model_case_t *m, const delta_build_facts_t *facts, comparison_t *c) {
  int64_t parameters;
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(m->about, delta_json_root(m->about), "parameters", 0, INT64_MAX >> 11, &parameters));
  compare(c, (double)facts->trainable_parameters, (double)parameters, 1e-9, "number of trainable parameters");
  return DELTA_OK;
}

static delta_status_t case_gradients(model_case_t *m, delta_stepper_t *stepper, comparison_t *c) {
  double count;
  DELTA_RETURN_IF_ERROR(run_step(m, stepper, DELTA_PROGRAM_ACCUMULATE, 0, 0.0));
  DELTA_RETURN_IF_ERROR(check_trainable(m, m->kind->facts(stepper, DELTA_PROGRAM_ACCUMULATE), c));
  DELTA_RETURN_IF_ERROR(m->kind->read_output(stepper, DELTA_PROGRAM_ACCUMULATE, DELTA_NAME_LABEL_COUNT, &count, 1));
  DELTA_RETURN_IF_ERROR(for_each_name(m, stepper, "trainable", check_gradient, count, c));
  return for_each_name(m, stepper, "bn_running_statistics", check_buffer, 0.0, c);
}

// Steps by the train program, or by accumulate and apply with one micro-step.
static delta_status_t take_steps(model_case_t *m, delta_stepper_t *stepper, const char *optimizer, bool apart, double rate,
                                 comparison_t *c) {
  double *losses = NULL;
  size_t count;
  char loss_name[NAME_BYTES];
  snprintf(loss_name, sizeof loss_name, "%s.loss", optimizer);
  DELTA_RETURN_IF_ERROR(read_reference(m, "", loss_name, &losses, &count));
  delta_status_t status = DELTA_OK;
  const delta_program_kind_t program = apart ? DELTA_PROGRAM_ACCUMULATE : DELTA_PROGRAM_TRAIN;
  for (int64_t step = 0; step < m->steps && !status; ++step) {
    status = run_step(m, stepper, program, step, rate);
    if (!status) status = check_loss(m, stepper, program, losses, step, loss_name, c);
    if (!status && apart) status = run_step(m, stepper, DELTA_PROGRAM_APPLY, step, rate);
  }
  delta_release(m->allocator, losses);
  return status;
}

static delta_status_t optimizer_number(const model_case_t *m, const char *optimizer, const char *key, double *out_value) {
  const delta_json_value_t *object = about_find(m, "optimizers", optimizer);
  if (object == NULL) return delta_status_make(MALFORMED, "about.json has no optimizer '%s'", optimizer);
  return delta_json_get_double(m->about, object, key, out_value);
}

static delta_status_t sgd(model_case_t *m, delta_stepper_t *stepper, bool apart, comparison_t *c) {
  double rate;
  DELTA_RETURN_IF_ERROR(optimizer_number(m, "sgd", "lr", &rate));
  DELTA_RETURN_IF_ERROR(take_steps(m, stepper, "sgd", apart, rate, c));
  DELTA_RETURN_IF_ERROR(for_each_name(m, stepper, "trainable", check_sgd_parameter, 0.0, c));
  return for_each_name(m, stepper, "bn_running_statistics", check_buffer, 1.0, c);
}

static delta_status_t case_sgd(model_case_t *m, delta_stepper_t *stepper, comparison_t *c) { return sgd(m, stepper, false, c); }
static delta_status_t case_sgd_apart(model_case_t *m, delta_stepper_t *stepper, comparison_t *c) { return sgd(m, stepper, true, c); }

static delta_status_t case_adamw(model_case_t *m, delta_stepper_t *stepper, comparison_t *c) {
  double rate;
  DELTA_RETURN_IF_ERROR(optimizer_number(m, "adamw", "lr", &rate));
  DELTA_RETURN_IF_ERROR(take_steps(m, stepper, "adamw", false, rate, c));
  return for_each_name(m, stepper, "trainable", check_adamw_parameter, rate, c);
}

// The mean loss over masks: within four standard errors of that of the reference's masks.
static delta_status_t case_masks(model_case_t *m, delta_stepper_t *stepper, comparison_t *c) {
  enum { DRAWS = 100 };
  double mean, variance, sum = 0.0;
  DELTA_RETURN_IF_ERROR(about_number(m, "statistics", "loss_mean", &mean));
  DELTA_RETURN_IF_ERROR(about_number(m, "statistics", "loss_variance", &variance));
  for (int draw = 0; draw < DRAWS; ++draw) {
    double loss;
    DELTA_RETURN_IF_ERROR(run_step(m, stepper, DELTA_PROGRAM_ACCUMULATE, 0, 0.0));
    DELTA_RETURN_IF_ERROR(m->kind->read_output(stepper, DELTA_PROGRAM_ACCUMULATE, DELTA_NAME_LOSS, &loss, 1));
    sum += loss;
  }
  compare(c, sum / DRAWS, mean, 4.0 * sqrt(variance / 200.0 + variance / DRAWS), "mean loss over masks");
  return DELTA_OK;
}

typedef enum case_filter { CASE_ALWAYS, CASE_WITHOUT_MASKS, CASE_WITH_MASKS } case_filter_t;
typedef struct case_info {
  const char *name;
  case_function_t run;
  delta_optimizer_t optimizer;
  bool accumulates; // the programs are accumulate and apply
  bool as_exported;
  case_filter_t filter;
} case_info_t;
static const case_info_t cases[] = {
    {"forward", case_forward, DELTA_OPTIMIZER_NONE, false, true, CASE_WITHOUT_MASKS},
    {"forward without masks", case_forward, DELTA_OPTIMIZER_NONE, false, false, CASE_WITH_MASKS},
    {"mean over masks", case_masks, DELTA_OPTIMIZER_SGD, true, false, CASE_WITH_MASKS},
    {"gradients", case_gradients, DELTA_OPTIMIZER_SGD, true, false, CASE_WITHOUT_MASKS},
    {"sgd", case_sgd, DELTA_OPTIMIZER_SGD, false, false, CASE_WITHOUT_MASKS},
    {"sgd, accumulate and apply", case_sgd_apart, DELTA_OPTIMIZER_SGD, true, false, CASE_WITHOUT_MASKS},
    {"adamw", case_adamw, DELTA_OPTIMIZER_ADAMW, false, false, CASE_WITHOUT_MASKS},
};

static delta_status_t set_loss(model_case_t *m) {
  static const struct {
    const char *name;
    delta_loss_t loss;
  } losses[] = {{"cross_entropy", DELTA_LOSS_CROSS_ENTROPY}, {"mse", DELTA_LOSS_MSE}, {"bce_logits", DELTA_LOSS_BCE_WITH_LOGITS}};
  const delta_json_value_t *object = NULL;
  const char *name = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_object(m->about, delta_json_root(m->about), "loss", &object));
  DELTA_RETURN_IF_ERROR(delta_json_get_string(m->about, object, "name", &name));
  for (size_t k = 0; k < sizeof losses / sizeof losses[0]; ++k) {
    if (strcmp(losses[k].name, name) == 0) m->options.loss = losses[k].loss;
  }
  if (m->options.loss == DELTA_LOSS_NONE) return delta_status_make(UNSUPPORTED, "loss '%s' is not known here", name);
  m->options.class_axis = 1;
  m->options.ignore_index = -100;
  if (delta_json_find(object, "class_axis") == NULL) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(m->about, object, "class_axis", -8, 8, &m->options.class_axis));
  return delta_json_get_int64(m->about, object, "ignore_index", -1000000, 1000000, &m->options.ignore_index);
}

static delta_status_t set_optimizer(model_case_t *m, delta_optimizer_t kind) {
  m->options.optimizer = delta_optimizer_defaults(kind);
  if (kind == DELTA_OPTIMIZER_NONE) return DELTA_OK;
  const char *name = kind == DELTA_OPTIMIZER_SGD ? "sgd" : "adamw";
  DELTA_RETURN_IF_ERROR(optimizer_number(m, name, "weight_decay", &m->options.optimizer.weight_decay));
  if (kind == DELTA_OPTIMIZER_SGD) return optimizer_number(m, name, "momentum", &m->options.optimizer.momentum);
  return optimizer_number(m, name, "eps", &m->options.optimizer.epsilon);
}

static delta_status_t run_case(model_case_t *m, const case_info_t *info, comparison_t *c) {
  DELTA_RETURN_IF_ERROR(set_optimizer(m, info->optimizer));
  m->options.accumulates = info->accumulates;
  m->options.import.as_exported = info->as_exported;
  delta_stepper_t *stepper = NULL;
  DELTA_RETURN_IF_ERROR(m->kind->create(m->model, &m->options, m->threads, m->allocator, &stepper));
  const delta_status_t status = info->run(m, stepper, c);
  m->kind->destroy(stepper);
  return status;
}

static delta_status_t read_about(const char *path, delta_allocator_t allocator, delta_json_document_t **out_about) {
  char *text = NULL;
  size_t size_bytes;
  DELTA_RETURN_IF_ERROR(delta_file_read_all(path, 1 << 24, allocator, &text, &size_bytes));
  const delta_status_t status = delta_json_parse(text, size_bytes, path, allocator, out_about);
  delta_release(allocator, text);
  return status;
}

static delta_status_t open_model(model_case_t *m, const char *folder) {
  char path[4][PATH_BYTES];
  static const char *const files[4] = {"about.json", "model.onnx", "data.npz", "reference.npz"};
  for (int k = 0; k < 4; ++k) snprintf(path[k], sizeof path[k], "%s/%s/%s", folder, m->name, files[k]);
  DELTA_RETURN_IF_ERROR(read_about(path[0], m->allocator, &m->about));
  DELTA_RETURN_IF_ERROR(delta_model_load(&(delta_model_options_t){.path = path[1]}, m->allocator, &m->model));
  DELTA_RETURN_IF_ERROR(delta_npz_open(path[2], m->allocator, &m->data));
  DELTA_RETURN_IF_ERROR(delta_npz_open(path[3], m->allocator, &m->reference));
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(m->about, delta_json_root(m->about), "batch_size", 1, 1 << 20, &m->batch));
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(m->about, delta_json_root(m->about), "steps", 1, 1000, &m->steps));
  m->random = delta_json_find(delta_json_root(m->about), "statistics") != NULL;
  m->options = (delta_build_options_t){.import = {.batch = m->batch, .levers = DELTA_LEVERS_ALL}, .parts = m->parts};
  return set_loss(m);
}

static void close_model(model_case_t *m) {
  delta_npz_close(m->reference);
  delta_npz_close(m->data);
  delta_json_free(m->about);
  delta_model_free(m->model);
}

static void run_model(const char *folder, const char *name, const model_case_t *how, totals_t *totals) {
  model_case_t m = {.name = name, .kind = how->kind, .threads = how->threads, .parts = how->parts, .allocator = delta_allocator_system()};
  delta_status_t status = open_model(&m, folder);
  if (status) report(totals, name, "load", status, NULL);
  for (size_t k = 0; k < sizeof cases / sizeof cases[0] && !status; ++k) {
    if (cases[k].filter != CASE_ALWAYS && (cases[k].filter == CASE_WITH_MASKS) != m.random) continue;
    comparison_t c = {.allowed = 1.0};
    report(totals, name, cases[k].name, run_case(&m, &cases[k], &c), &c);
    fflush(stdout);
  }
  close_model(&m);
}

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

// Names of the sub-folders with an about.json, sorted. Returns their number.
static size_t list_models(const char *folder, char *names[MAX_MODELS]) {
  size_t count = 0;
  DIR *directory = opendir(folder);
  for (struct dirent *entry; directory && count < MAX_MODELS && (entry = readdir(directory)) != NULL;) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s/about.json", folder, entry->d_name);
    FILE *about = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
    if (about == NULL) continue;
    fclose(about);
    names[count++] = strdup(entry->d_name);
  }
  if (directory) closedir(directory);
  qsort(names, count, sizeof names[0], compare_names);
  return count;
}

int main(int argc, char **argv) {
  static const delta_stepper_kind_t *const kinds[] = {&delta_stepper_session,    &delta_stepper_session_eager, &delta_stepper_layouts[0],
                                                      &delta_stepper_layouts[1], &delta_stepper_layouts[2],    &delta_stepper_layouts[3],
                                                      &delta_stepper_cuda[0],    &delta_stepper_cuda[1],       &delta_stepper_reference};
  const delta_stepper_kind_t *kind = kinds[0];
  const char *folder = NULL, *only = NULL;
  int threads = 1, parts = 0;
  for (int k = 1; k < argc; ++k) {
    if (strcmp(argv[k], "--kernels") == 0 && k + 1 < argc) {
      const char *name = argv[++k];
      kind = NULL;
      for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; ++i) {
        if (strcmp(kinds[i]->name, name) == 0) kind = kinds[i];
      }
    } else if (strcmp(argv[k], "--threads") == 0 && k + 1 < argc) {
      threads = atoi(argv[++k]);
    } else if (strcmp(argv[k], "--split") == 0 && k + 1 < argc) {
      parts = atoi(argv[++k]);
    } else if (strcmp(argv[k], "--model") == 0 && k + 1 < argc) {
      only = argv[++k];
    } else {
      folder = argv[k];
    }
  }
  char *names[MAX_MODELS];
  const size_t count = folder ? list_models(folder, names) : 0;
  if (kind == NULL || count == 0 || parts < 0 || parts > DELTA_PARTS_MAX) {
    fprintf(stderr,
            "usage: run_models FOLDER [--kernels cpu|cpu-eager|cpu-LAYOUT|cuda|cuda-verified|reference] [--threads N] [--model NAME] "
            "[--split N]; FOLDER has a "
            "folder per model\n");
    return 2;
  }
  totals_t totals = {0};
  for (size_t k = 0; k < count; ++k) {
    if (only && strcmp(only, names[k]) != 0) {
      totals.skipped++;
    } else {
      run_model(folder, names[k], &(model_case_t){.kind = kind, .threads = threads, .parts = (uint32_t)parts}, &totals);
    }
    free(names[k]);
  }
  printf("%d passed, %d failed, %d skipped\n", totals.passed, totals.failed, totals.skipped);
  return totals.failed > 0;
}
