// Names of losses, optimizers and modes come from the rows of their tables, and so do the lists in the messages.
#include "runtime/plan_options.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/struct_size.h"
#include "onnx/optimizer.h"
#include "plans/plan_json.h"

enum { MOST_MICRO_STEPS = 1000000 };

// What the optimizers' definitions leave to the run: the default learning rates, as in PyTorch 2 (lamb: as in its paper), and which numbers
// each has.
typedef struct delta_optimizer_use {
  double learning_rate;
  bool has_momentum, has_beta1, has_beta2, has_epsilon;
} delta_optimizer_use_t;
static const delta_optimizer_use_t optimizer_uses[DELTA_OPTIMIZER_COUNT] = {
    [DELTA_OPTIMIZER_SGD] = {.learning_rate = 0.01, .has_momentum = true},
    [DELTA_OPTIMIZER_ADAM] = {.learning_rate = 0.001, .has_beta1 = true, .has_beta2 = true, .has_epsilon = true},
    [DELTA_OPTIMIZER_ADAMW] = {.learning_rate = 0.001, .has_beta1 = true, .has_beta2 = true, .has_epsilon = true},
    [DELTA_OPTIMIZER_ADAGRAD] = {.learning_rate = 0.01, .has_epsilon = true},
    [DELTA_OPTIMIZER_RMSPROP] = {.learning_rate = 0.01, .has_momentum = true, .has_beta2 = true, .has_epsilon = true},
    [DELTA_OPTIMIZER_LAMB] = {.learning_rate = 0.001, .has_beta1 = true, .has_beta2 = true, .has_epsilon = true},
};

void delta_plan_options_init(delta_plan_options_t *options) {
  *options = (delta_plan_options_t){
      .struct_size = sizeof *options,
      .device = "cpu",
      .policy = "delta",
      .class_axis = 1,
      .ignore_index = -100,
      .optimizer = "sgd",
      .learning_rate = -1,
      .momentum = -1,
      .weight_decay = -1,
      .beta1 = -1,
      .beta2 = -1,
      .epsilon = -1,
      .accumulate = 1,
      .batchnorm = "as-exported",
      .profile = "measure",
      .layout = "auto",
      .init = "as-given",
      .time_limit_seconds = 10,
  };
}

// Index of the `length` characters of `text` among the names from `first` on; the table's count when it is none of them.
static uint32_t find_name(const char *text, size_t length, const delta_name_table_t *table, uint32_t first) {
  for (uint32_t i = first; i < table->count; ++i) {
    if (strlen(table->names[i]) == length && memcmp(table->names[i], text, length) == 0) return i;
  }
  return table->count;
}

static delta_status_t unknown_name(const char *option, const char *text, const delta_name_table_t *table, uint32_t first,
                                   delta_allocator_t allocator) {
  delta_text_t list;
  delta_text_init(&list, allocator);
  delta_status_t status = DELTA_OK;
  for (uint32_t i = first; i < table->count && !status; ++i)
    status = delta_text_append(&list, "%s%s", i > first ? ", " : "", table->names[i]);
  if (!status) status = delta_status_make(INVALID_ARGUMENT, "%s '%s': give one of %s", option, text, list.items);
  delta_text_deinit(&list);
  return status;
}

static delta_status_t apply_loss(const char *text, delta_plan_t *plan) {
  delta_build_options_t *build = &plan->build;
  if (!text) return DELTA_OK;
  size_t length = strcspn(text, ":");
  const uint32_t index = find_name(text, length, &delta_loss_names, 1);
  if (index == delta_loss_names.count) return unknown_name("--loss", text, &delta_loss_names, 1, plan->allocator);
  build->loss = (delta_loss_t)index;
  if (text[length] == ':') {
    const char *output = text + length + 1;
    if (!*output) return delta_status_make(INVALID_ARGUMENT, "--loss '%s': no output after the colon", text);
    char *copy = NULL;
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&plan->region, output, strlen(output), &copy));
    build->loss_output = copy;
  } else if (build->loss == DELTA_LOSS_OUTPUT) {
    return delta_status_make(INVALID_ARGUMENT, "--loss output: name the output that is the loss, as in --loss output:NAME");
  }
  return DELTA_OK;
}

// What a GPU or a profile has of it, opening it tells.
static delta_status_t apply_math(const delta_plan_options_t *options, delta_plan_t *plan) {
  if (!options->math) return DELTA_OK;
  const uint32_t first = DELTA_FLOAT_MATH_FLOAT32, index = find_name(options->math, strlen(options->math), &delta_float_math_names, first);
  if (index == delta_float_math_names.count) return unknown_name("--math", options->math, &delta_float_math_names, first, plan->allocator);
  if (index == DELTA_FLOAT_MATH_TF32 && (!options->device || strcmp(options->device, "cpu") == 0))
    return delta_status_make(INVALID_ARGUMENT, "--math tf32: a CPU has no TF32; leave --math out, or plan for a GPU with --device cuda");
  plan->numerics.math = (delta_float_math_t)index;
  return DELTA_OK;
}

// A number of the user's, or the default where it was left out, within [least, most).
static delta_status_t apply_number(const char *option, double given, double fallback, double least, double most, double *out_value) {
  *out_value = given < 0 && isfinite(given) ? fallback : given;
  if (!(*out_value >= least && *out_value < most))
    return delta_status_make(INVALID_ARGUMENT, "%s %g: give a number from %g to below %g", option, given, least, most);
  return DELTA_OK;
}

// A number that the optimizer may not have.
static delta_status_t apply_own_number(const delta_optimizer_options_t *optimizer, bool has_it, const char *option, double given,
                                       double most, double *inout_value) {
  if (!has_it && (given > 0 || !isfinite(given)))
    return delta_status_make(INVALID_ARGUMENT, "%s does not apply to --optimizer %s", option, delta_optimizer_names.names[optimizer->kind]);
  return has_it ? apply_number(option, given, *inout_value, 0, most, inout_value) : DELTA_OK;
}

static delta_status_t apply_optimizer(const delta_plan_options_t *options, delta_plan_t *plan) {
  const char *name = options->optimizer ? options->optimizer : "sgd";
  const uint32_t index = find_name(name, strlen(name), &delta_optimizer_names, 1);
  if (index == delta_optimizer_names.count) return unknown_name("--optimizer", name, &delta_optimizer_names, 1, plan->allocator);
  const delta_optimizer_use_t *use = &optimizer_uses[index];
  delta_optimizer_options_t *optimizer = &plan->build.optimizer;
  *optimizer = delta_optimizer_defaults((delta_optimizer_t)index);
  optimizer->nesterov = options->nesterov != 0;
  DELTA_RETURN_IF_ERROR(apply_number("--lr", options->learning_rate, use->learning_rate, 0, 1e6, &plan->learning_rate));
  DELTA_RETURN_IF_ERROR(apply_number("--weight-decay", options->weight_decay, optimizer->weight_decay, 0, 1e6, &optimizer->weight_decay));
  DELTA_RETURN_IF_ERROR(apply_own_number(optimizer, use->has_momentum, "--momentum", options->momentum, 1, &optimizer->momentum));
  DELTA_RETURN_IF_ERROR(apply_own_number(optimizer, use->has_beta1, "--beta1", options->beta1, 1, &optimizer->beta1));
  DELTA_RETURN_IF_ERROR(apply_own_number(optimizer, use->has_beta2, "--beta2", options->beta2, 1, &optimizer->beta2));
  DELTA_RETURN_IF_ERROR(apply_own_number(optimizer, use->has_epsilon, "--epsilon", options->epsilon, 1e6, &optimizer->epsilon));
  if (optimizer->nesterov && (optimizer->kind != DELTA_OPTIMIZER_SGD || optimizer->momentum == 0)) {
    return delta_status_make(INVALID_ARGUMENT, "--nesterov needs --optimizer sgd with --momentum above 0");
  }
  return DELTA_OK;
}

// Whether a budget can be understood; what it comes to is known after the plan without one.
static delta_status_t check_budget(const char *text) {
  uint64_t budget_bytes;
  return delta_budget_resolve(text, 0, 0, 0, 1, &budget_bytes);
}

static delta_status_t copy_strings(delta_plan_t *plan, const char *option, const char *const *strings, size_t count,
                                   const char *const **out_strings) {
  char **copies = NULL;
  for (size_t i = 0; i < count; ++i) {
    if (!strings || !strings[i] || !*strings[i])
      return delta_status_make(INVALID_ARGUMENT, "%s: number %zu of %zu is empty", option, i, count);
  }
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&plan->region, count, &copies));
  for (size_t i = 0; i < count; ++i)
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&plan->region, strings[i], strlen(strings[i]), &copies[i]));
  *out_strings = (const char *const *)copies;
  return DELTA_OK;
}

static delta_status_t apply_import(const delta_plan_options_t *options, delta_plan_t *plan) {
  delta_import_options_t *import = &plan->build.import;
  if (options->batch < 0 || options->batch > DELTA_MOST_ROWS) {
    return delta_status_make(INVALID_ARGUMENT, "--batch %lld: give a number of samples from 1 to %lld", (long long)options->batch,
                             (long long)DELTA_MOST_ROWS);
  }
  import->batch = options->batch;
  const char *mode = options->batchnorm ? options->batchnorm : delta_batchnorm_names.names[0];
  const uint32_t index = find_name(mode, strlen(mode), &delta_batchnorm_names, 0);
  if (index == delta_batchnorm_names.count) return unknown_name("--batchnorm", mode, &delta_batchnorm_names, 0, plan->allocator);
  import->batchnorm = (delta_batchnorm_mode_t)index;
  import->batchnorm_unbiased = options->batchnorm_unbiased != 0;
  delta_dim_binding_t *dims = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&plan->region, options->dim_count, &dims));
  for (size_t i = 0; i < options->dim_count; ++i) {
    char *symbol = NULL;
    if (!options->dims || !options->dims[i].name || !*options->dims[i].name)
      return delta_status_make(INVALID_ARGUMENT, "--dim: number %zu of %zu has no name", i, options->dim_count);
    if (options->dims[i].size < 0 || options->dims[i].size > DELTA_MOST_ROWS) {
      return delta_status_make(INVALID_ARGUMENT, "--dim %s=%lld: give a size from 0 to %lld", options->dims[i].name,
                               (long long)options->dims[i].size, (long long)DELTA_MOST_ROWS);
    }
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&plan->region, options->dims[i].name, strlen(options->dims[i].name), &symbol));
    dims[i] = (delta_dim_binding_t){.symbol = symbol, .size = options->dims[i].size};
  }
  import->dims = dims;
  import->dim_count = options->dim_count;
  import->levers = plan->levers;
  import->log = options->log;
  return DELTA_OK;
}

// One item of a list of levers: a name, or "-name", which starts from all when it comes first.
static delta_status_t apply_lever(const char *item, size_t length, bool is_first, delta_plan_t *plan) {
  const bool removes = length > 0 && item[0] == '-';
  const uint32_t index = find_name(item + removes, length - removes, &delta_lever_names, 0);
  if (index == delta_lever_names.count) return unknown_name("--levers", item, &delta_lever_names, 0, plan->allocator);
  if (is_first) plan->levers = removes ? DELTA_LEVERS_ALL : 0;
  const uint32_t bit = 1u << index;
  plan->levers = removes ? plan->levers & ~bit : plan->levers | bit;
  return DELTA_OK;
}

static delta_status_t apply_levers(const char *text, delta_plan_t *plan) {
  if (!text) return DELTA_OK;
  if (plan->build.eager) return delta_status_make(INVALID_ARGUMENT, "--levers does not apply to --policy eager, which has none");
  const bool is_word = strcmp(text, "all") == 0 || strcmp(text, "none") == 0;
  if (is_word) plan->levers = text[0] == 'a' ? DELTA_LEVERS_ALL : 0;
  for (const char *item = text; !is_word;) {
    const size_t length = strcspn(item, ",");
    DELTA_RETURN_IF_ERROR(apply_lever(item, length, item == text, plan));
    if (!item[length]) break;
    item += length + 1;
  }
  return DELTA_OK;
}

static delta_status_t apply_policy(const char *name, delta_plan_t *plan, delta_policy_t *out_policy) {
  DELTA_RETURN_IF_ERROR(delta_policy_parse(name ? name : "delta", out_policy));
  plan->policy = delta_policy_info(*out_policy)->name;
  plan->build.eager = *out_policy == DELTA_POLICY_EAGER;
  plan->levers = plan->build.eager ? 0 : DELTA_LEVERS_ALL;
  return DELTA_OK;
}

// off, on, auto, or the number of parts, and after a colon the share of the largest tensor from which on nodes belong to the region that is split.
static delta_status_t apply_split(const char *text, delta_plan_t *plan) {
  plan->build.parts = 1;
  if (!text || strcmp(text, "off") == 0) return DELTA_OK;
  if (plan->build.eager) return delta_status_make(INVALID_ARGUMENT, "--split does not apply to --policy eager, which splits nothing");
  if (strcmp(text, "on") == 0 || strcmp(text, "auto") == 0) return DELTA_OK;
  const char *digits = "0123456789";
  const size_t length = strspn(text, digits), share = text[length] == ':' ? strspn(text + length + 1, digits) : 0;
  const bool has_share = share > 0 && share <= 3 && strcmp(text + length + 1 + share, "%") == 0;
  const long parts = length > 0 && length <= 2 ? strtol(text, NULL, 10) : 0, percent = has_share ? strtol(text + length + 1, NULL, 10) : 0;
  if (parts < 1 || parts > DELTA_PARTS_MAX || (text[length] && !has_share) || percent > 100)
    return delta_status_make(INVALID_ARGUMENT, "--split %s: give off, on, auto, or a number of parts from 1 to %d, alone or as N:SHARE%%",
                             text, DELTA_PARTS_MAX);
  plan->build.parts = (uint32_t)parts;
  plan->build.region_percent = (uint32_t)percent;
  return DELTA_OK;
}

delta_status_t delta_plan_options_apply(const delta_plan_options_t *options, delta_plan_t *plan, delta_policy_t *out_policy) {
  if (!options->model_path) return delta_status_make(INVALID_ARGUMENT, "no model file given");
  const char *slash = strrchr(options->model_path, '/');
  const char *file = slash ? slash + 1 : options->model_path;
  char *model_file = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&plan->region, file, strlen(file), &model_file));
  plan->model_file = model_file;
  DELTA_RETURN_IF_ERROR(apply_policy(options->policy, plan, out_policy));
  DELTA_RETURN_IF_ERROR(apply_levers(options->levers, plan));
  DELTA_RETURN_IF_ERROR(apply_split(options->split, plan));
  DELTA_RETURN_IF_ERROR(apply_import(options, plan));
  DELTA_RETURN_IF_ERROR(apply_loss(options->loss, plan));
  DELTA_RETURN_IF_ERROR(apply_optimizer(options, plan));
  delta_build_options_t *build = &plan->build;
  if (options->class_axis < -DELTA_MAX_RANK || options->class_axis >= DELTA_MAX_RANK) {
    return delta_status_make(INVALID_ARGUMENT, "--class-axis %lld: give a number from %d to %d", (long long)options->class_axis,
                             -DELTA_MAX_RANK, DELTA_MAX_RANK - 1);
  }
  // Integers of a plan file lie below 2^53.
  if (options->ignore_index <= -DELTA_PLAN_INTEGER_LIMIT || options->ignore_index >= DELTA_PLAN_INTEGER_LIMIT)
    return delta_status_make(INVALID_ARGUMENT, "--ignore-index %lld: give a number between -2^53 and 2^53",
                             (long long)options->ignore_index);
  build->class_axis = options->class_axis;
  build->ignore_index = options->ignore_index;
  build->clip_gradient_norm = options->clip_gradient_norm;
  if (!(build->clip_gradient_norm >= 0 && build->clip_gradient_norm <= 1e30)) {
    return delta_status_make(INVALID_ARGUMENT, "--clip-grad-norm %g: give a number above 0 and up to 10^30; 0 is off",
                             build->clip_gradient_norm);
  }
  if (!(options->time_limit_seconds >= 0 && options->time_limit_seconds <= 1e6))
    return delta_status_make(INVALID_ARGUMENT, "--time-limit %g: give seconds from 0 to 10^6", options->time_limit_seconds);
  if (options->accumulate < 1 || options->accumulate > MOST_MICRO_STEPS) {
    return delta_status_make(INVALID_ARGUMENT, "--accumulate %lld: give a number of micro-steps from 1 to %d",
                             (long long)options->accumulate, MOST_MICRO_STEPS);
  }
  DELTA_RETURN_IF_ERROR(apply_math(options, plan));
  if (options->threads < 0) return delta_status_make(INVALID_ARGUMENT, "--threads %d: give a number from 1 on", options->threads);
  DELTA_RETURN_IF_ERROR(check_budget(options->budget));
  if (options->host_budget) {
    DELTA_RETURN_IF_ERROR(delta_status_annotate(delta_size_parse(options->host_budget, &plan->totals.host_budget_bytes), "--host-budget"));
  }
  plan->accumulate = options->accumulate;
  const char *init = options->init ? options->init : "as-given";
  plan->init_random = strcmp(init, "random") == 0;
  if (!plan->init_random && strcmp(init, "as-given") != 0)
    return delta_status_make(INVALID_ARGUMENT, "--init %s: give random, or as-given for the model's own weights", init);
  // Integers of a plan file lie below 2^53.
  if (options->init_seed >> 53) return delta_status_make(INVALID_ARGUMENT, "the seed of --init random: give a number below 2^53");
  plan->init_seed = options->init_seed;
  build->accumulates = options->accumulate > 1;
  DELTA_RETURN_IF_ERROR(copy_strings(plan, "--freeze", options->freeze, options->freeze_count, &build->freeze));
  build->freeze_count = options->freeze_count;
  DELTA_RETURN_IF_ERROR(copy_strings(plan, "--train", options->train, options->train_count, &build->train));
  build->train_count = options->train_count;
  return DELTA_OK;
}

delta_status_t delta_layout_option_parse(const char *text, delta_layout_source_t *out_source) {
  *out_source = (delta_layout_source_t){0};
  if (!text || strcmp(text, "auto") == 0) return DELTA_OK;
  out_source->is_forced = true;
  if (delta_layout_find(text, &out_source->forced)) return DELTA_OK;
  return delta_status_make(INVALID_ARGUMENT, "--layout %s: give auto, plain, channels_last, blocked_8 or blocked_16", text);
}

delta_status_t delta_plan_options_check(const delta_plan_options_t *options, delta_allocator_t allocator) {
  DELTA_RETURN_IF_ERROR(delta_struct_size_check("plan options", "call delta_plan_options_init", options->struct_size, sizeof *options));
  delta_plan_t *scratch = NULL;
  delta_policy_t policy;
  DELTA_RETURN_IF_ERROR(delta_plan_create_empty(allocator, &scratch));
  delta_status_t status = delta_plan_options_apply(options, scratch, &policy);
  delta_plan_free(scratch);
  return status;
}

delta_status_t delta_budget_resolve(const char *text, uint64_t free_bytes, uint64_t unlimited_bytes, uint64_t minimum_bytes,
                                    size_t granule_bytes, uint64_t *out_budget_bytes) {
  if (!text) {
    *out_budget_bytes = free_bytes;
    return DELTA_OK;
  }
  if (strcmp(text, "unlimited") == 0) {
    *out_budget_bytes = UINT64_MAX;
    return DELTA_OK;
  }
  if (strcmp(text, "minimum") == 0) {
    *out_budget_bytes = minimum_bytes;
    return DELTA_OK;
  }
  if (delta_text_ends_with(text, "%")) {
    double percent;
    if (!delta_number_parse_percentage(text, &percent) || percent > 1e6)
      return delta_status_make(INVALID_ARGUMENT, "--budget %s: give a percentage above 0", text);
    // Up to whole granules, which are what is committed: 100% is then enough for what has no gaps.
    *out_budget_bytes = (uint64_t)ceil((double)unlimited_bytes * percent / 100 / (double)granule_bytes) * granule_bytes;
    return DELTA_OK;
  }
  return delta_status_annotate(delta_size_parse(text, out_budget_bytes), "--budget");
}

uint64_t delta_budget_capacity(uint64_t budget_bytes, uint64_t state_bytes, size_t granule_bytes) {
  if (budget_bytes == UINT64_MAX) return UINT64_MAX;
  const uint64_t whole_bytes = budget_bytes / granule_bytes * granule_bytes;
  return whole_bytes > state_bytes ? whole_bytes - state_bytes : 0;
}
