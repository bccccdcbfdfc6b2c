// deltaplan: plans the training of an ONNX model. Arguments in, status out: the work is delta_plan_create.
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <delta/delta.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/json.h"
#include "base/number.h"
#include "base/text.h"
#include "cli/budgets.h"
#include "cli/common.h"
#include "cli/compare.h"
#include "cli/devices.h"
#include "cli/fit.h"
#include "cli/options.h"
#include "cli/plan_report.h"
#include "cli/problem_plan.h"
#include "cli/progress.h"
#include "cli/show.h"
#include "onnx/build.h"
#include "planner/planner.h"

// Everything a command line can set.
typedef struct delta_plan_settings {
  const char *split, *device, *output, *budget, *host_budget, *policy, *levers, *loss, *external_data, *profile, *save_profile, *layout,
      *dump_problem, *report, *trace, *model, *budgets, *math;
  int64_t batch, class_axis, ignore_index, accumulate, threads, seed;
  double time_limit, learning_rate, momentum, weight_decay, beta1, beta2, epsilon, clip_gradient_norm;
  int optimizer, batchnorm, init; // indices of their choices
  bool nesterov, batchnorm_unbiased, json, verbose, devices, fit, compare;
  delta_option_list_t dims, freeze, train;
} delta_plan_settings_t;

#define CHOICE_NAME(id, name, ...) name,
static const char *const optimizer_choices[] = {DELTA_OPTIMIZERS(CHOICE_NAME) NULL};
static const char *const batchnorm_choices[] = {DELTA_BATCHNORM_MODES(CHOICE_NAME) NULL};
#undef CHOICE_NAME
static const char *const init_choices[] = {"as-given", "random", NULL};

#define AT(member) offsetof(delta_plan_settings_t, member)
static const delta_option_t option_rows[] = {
    {.section = "OUTPUT",
     .name = "-o",
     .kind = DELTA_OPTION_TEXT,
     .argument = "MODEL.plan",
     .offset = AT(output),
     .help = "Writes the plan here. Without it the plan is made and described, and not kept."},
    {.section = "OUTPUT",
     .name = "--json",
     .kind = DELTA_OPTION_FLAG,
     .offset = AT(json),
     .help = "Prints one JSON object in place of text, also when nothing fits."},
    {.section = "OUTPUT", .name = "--verbose", .kind = DELTA_OPTION_FLAG, .offset = AT(verbose), .help = "Says more, on stderr."},
    {.section = "OUTPUT",
     .name = "--report",
     .kind = DELTA_OPTION_TEXT,
     .argument = "FILE.html",
     .offset = AT(report),
     .help = "Writes a page that shows the plan: memory over time, the lanes, what becomes of each tensor, and, when a model is planned, "
             "other budgets, which "
             "are tried for about --time-limit more."},
    {.section = "OUTPUT",
     .name = "--trace",
     .kind = DELTA_OPTION_TEXT,
     .argument = "FILE.json",
     .offset = AT(trace),
     .help = "Writes the planned timeline in the Chrome trace event format, for Perfetto."},
    {.section = "OUTPUT",
     .name = "--dump-problem",
     .kind = DELTA_OPTION_TEXT,
     .argument = "FILE.json",
     .offset = AT(dump_problem),
     .help = "Writes what the planner is asked for the training step, in the format that deltaplan reads in place of a model."},
    {.section = "OUTPUT",
     .name = "--save-profile",
     .kind = DELTA_OPTION_TEXT,
     .argument = "FILE.json",
     .offset = AT(save_profile),
     .help = "Writes the device's measured costs to a file, for --profile, and for --device on other machines."},
    {.section = "MEMORY",
     .name = "--budget",
     .kind = DELTA_OPTION_SIZES_TEXT,
     .argument = "SIZE|N%|minimum|unlimited",
     .offset = AT(budget),
     .choices = delta_budget_choices,
     .help =
         "Device memory for everything the step needs: 8GiB, 800MB, or a percentage of what the step takes without a budget. The default "
         "is what the device has free "
         "now, limits of the process and its group respected. If nothing fits, the exit status is 3 and the message has the least budget."},
    {.section = "MEMORY",
     .name = "--host-budget",
     .kind = DELTA_OPTION_SIZE_TEXT,
     .argument = "SIZE",
     .offset = AT(host_budget),
     .help = "Disk for swapped tensors and states, below the arena; by default as much as they need."},
    {.section = "MEMORY",
     .name = "--policy",
     .kind = DELTA_OPTION_TEXT,
     .argument = "NAME",
     .offset = AT(policy),
     .help =
         "How tensors are released when the budget is below what the step takes without one. delta (the default): the fastest plan that a "
         "search over swaps and rebuilds finds; swap, recompute: the same search with one of the two. delta-fixed: as DELTA chooses, with "
         "its copies on lanes of their own, and further until it fits. delta-released: DELTA as its authors released it; its budget is "
         "soft, and a plan that passes it is none. none: nothing is released, only our order and in-place reuse. eager: what an eager "
         "framework holds, to compare with. chen, checkmate, dtr, superneurons, vdnn, capuchin, tsplit, pofo: the rules of others, from "
         "their papers."},
    {.section = "MEMORY",
     .name = "--split",
     .kind = DELTA_OPTION_TEXT,
     .argument = "off|on|auto|N",
     .offset = AT(split),
     .help = "Whether the step runs in parts along the batch, one after the other where nothing couples them (batch statistics do): less "
             "memory, "
             "more and smaller kernels. off (the default); N: 2 to 16 parts; on: whatever plan is fastest within the time limit, whole or "
             "in parts; "
             "auto: in parts only if it does not fit whole. N:SHARE% splits only what has tensors of at least that share of the largest. "
             "Sums over the "
             "batch round differently in parts, so results depend on it."},
    {.section = "MEMORY",
     .name = "--levers",
     .kind = DELTA_OPTION_TEXT,
     .argument = "LIST",
     .offset = AT(levers),
     .help = "Which changes of the graph are made, for experiments: all (the default), none, NAME,NAME for these alone, or -NAME,-NAME "
             "for all but these. Results depend on them. A wrong name is answered with the list."},
    {.section = "MEMORY",
     .name = "--time-limit",
     .kind = DELTA_OPTION_NUMBER,
     .argument = "SECONDS",
     .offset = AT(time_limit),
     .minimum = 0,
     .maximum = 1e6,
     .help =
         "How long policies that search may take (10). They end earlier when no plan can be faster; with 0 they take their first plan."},
    {.section = "MEMORY",
     .name = "--seed",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(seed),
     .minimum = 0,
     .maximum = 1e15,
     .help = "Of the search's draws and of --init random (0)."},
    {.section = "MEMORY",
     .name = "--fit",
     .kind = DELTA_OPTION_FLAG,
     .offset = AT(fit),
     .help =
         "Prints, in place of a plan, a table of batches and budgets with the predicted slowdown of each, and the largest batch that "
         "fits each budget. --budget takes sizes and ranges with commas then, such as 4GiB,8GiB..24GiB, which goes up by its first (by "
         "default "
         "what the device has free, and parts of it); costs are estimated, not measured. With --batch N it is a table of that batch alone: "
         "what each budget costs, and never more than a smaller one. --budget then takes percentages too, such as 4%..100%:2% "
         "(by default 10%..100%:10%). --time-limit is for all of the table's searches together."},
    {.section = "MEMORY",
     .name = "--compare",
     .kind = DELTA_OPTION_FLAG,
     .offset = AT(compare),
     .help = "In place of a plan: a table of what every policy makes of each of --budgets, or of a problem file's own budget."},
    {.section = "MEMORY",
     .name = "--budgets",
     .kind = DELTA_OPTION_TEXT,
     .argument = "LIST",
     .offset = AT(budgets),
     .help = "Of --compare: sizes, percentages of what an eager framework holds, and ranges with commas, as in 60%,40%,8GiB or "
             "10%..90%:10%."},
    {.section = "DEVICE",
     .name = "--device",
     .kind = DELTA_OPTION_TEXT,
     .argument = "cpu|cuda[:N]|PROFILE.json",
     .offset = AT(device),
     .help = "The device to plan for: the CPU, a GPU of this machine by its number (0), or one that need not be there, by its profile: one "
             "that is installed with Delta in share/delta/profiles "
             "(v100.json, p100.json, rtx3090.json, h100_pcie.json, h200.json, cpu2.json), or one that --save-profile wrote. What a profile "
             "has not measured is estimated "
             "by its roofline. The default budget is then the profile's memory less its reserve."},
    {.section = "DEVICE",
     .name = "--profile",
     .kind = DELTA_OPTION_TEXT,
     .argument = "measure|estimate|FILE.json",
     .offset = AT(profile),
     .help = "What kernels take. measure (the default) runs each a few times, two minutes in all at most, and keeps the times below "
             "$XDG_CACHE_HOME/delta; estimate measures "
             "nothing; a file is one that --save-profile wrote on such a machine. An equal profile gives an equal plan."},
    {.section = "DEVICE",
     .name = "--layout",
     .kind = DELTA_OPTION_TEXT,
     .argument = "auto|NAME",
     .offset = AT(layout),
     .help = "How tensors of convolutions lie. auto (the default) takes for each region what is fastest by the profile; for experiments "
             "one for all: plain, channels_last, blocked_8, blocked_16."},
    {.section = "DEVICE",
     .name = "--devices",
     .kind = DELTA_OPTION_FLAG,
     .offset = AT(devices),
     .help = "Lists the devices of this machine, with their memory and how fast they copy, and ends."},
    {.section = "DEVICE",
     .name = "--threads",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(threads),
     .minimum = 1,
     .maximum = 1024,
     .help = "Compute threads; by default all processors the process may use. Results depend on it, so the plan fixes it."},
    {.section = "DEVICE",
     .name = "--math",
     .kind = DELTA_OPTION_TEXT,
     .argument = "float32|tf32",
     .offset = AT(math),
     .help = "How GPUs multiply float32 in convolutions and matrix products. float32 (the default, or what the profile of --device says): "
             "as it "
             "is; tf32: factors rounded to 10 bits of fraction, for the tensor cores of GPUs from sm_80 on, several times as fast. Sums "
             "and all "
             "other operators, attention among them, stay float32. Results depend on it, so the plan fixes it."},
    {.section = "MODEL",
     .name = "--batch",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(batch),
     .minimum = 1,
     .maximum = 1e9,
     .help = "Samples in a step: sets a symbolic first dimension of the inputs. One that contradicts a fixed number is an error."},
    {.section = "MODEL",
     .name = "--dim",
     .kind = DELTA_OPTION_TEXT_LIST,
     .argument = "NAME=N",
     .offset = AT(dims),
     .help = "Sets another symbolic dimension."},
    {.section = "MODEL",
     .name = "--model",
     .kind = DELTA_OPTION_TEXT,
     .argument = "FILE",
     .offset = AT(model),
     .help = "The model of a plan that is shown; by default the plan's, beside the plan."},
    {.section = "MODEL",
     .name = "--external-data",
     .kind = DELTA_OPTION_TEXT,
     .argument = "DIR",
     .offset = AT(external_data),
     .help = "Where external data may lie beside the model's folder, also by symbolic links into it."},
    {.section = "MODEL",
     .name = "--batchnorm",
     .kind = DELTA_OPTION_CHOICE,
     .argument = "MODE",
     .offset = AT(batchnorm),
     .choices = batchnorm_choices,
     .help = "Statistics of batch normalization in training: as-exported (node by node, the default), train (all by the batch), freeze "
             "(all by the running statistics)."},
    {.section = "MODEL",
     .name = "--bn-unbiased",
     .kind = DELTA_OPTION_FLAG,
     .offset = AT(batchnorm_unbiased),
     .help = "Running variances divide by n - 1, as PyTorch's do; ONNX divides by n."},
    {.section = "MODEL",
     .name = "--init",
     .kind = DELTA_OPTION_CHOICE,
     .argument = "as-given|random",
     .offset = AT(init),
     .choices = init_choices,
     .help = "as-given (the default): a model that has some of its weights and lacks the file of others is refused; one without any can be "
             "planned. random: weights whose file is missing are drawn when the plan is run: kernels and matrices by He's rule, scales 1, "
             "biases 0. For benchmarks."},
    {.section = "TRAINING",
     .name = "--loss",
     .kind = DELTA_OPTION_TEXT,
     .argument = "NAME[:OUTPUT]",
     .offset = AT(loss),
     .help = "cross_entropy, nll, mse, l1 or bce_with_logits of the first output, or of the one named; the data supplies the array "
             "'label'. output:NAME says that the model "
             "computes its loss."},
    {.section = "TRAINING",
     .name = "--class-axis",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(class_axis),
     .minimum = -8,
     .maximum = 7,
     .help = "The axis of the classes (1); negative counts from the end."},
    {.section = "TRAINING",
     .name = "--ignore-index",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(ignore_index),
     .help = "A label that does not count (-100)."},
    {.section = "TRAINING",
     .name = "--optimizer",
     .kind = DELTA_OPTION_CHOICE,
     .argument = "NAME",
     .offset = AT(optimizer),
     .choices = optimizer_choices + 1,
     .help = "sgd (the default), adam, adamw, adagrad, rmsprop or lamb."},
    {.section = "TRAINING",
     .name = "--lr",
     .kind = DELTA_OPTION_NUMBER,
     .argument = "X",
     .offset = AT(learning_rate),
     .minimum = 0,
     .maximum = 1e6,
     .help = "The learning rate runs begin with unless deltarun --lr says otherwise; by default the optimizer's own."},
    {.section = "TRAINING",
     .name = "--momentum",
     .kind = DELTA_OPTION_NUMBER,
     .argument = "X",
     .offset = AT(momentum),
     .minimum = 0,
     .maximum = 1,
     .help = "Of sgd and rmsprop (0)."},
    {.section = "TRAINING",
     .name = "--nesterov",
     .kind = DELTA_OPTION_FLAG,
     .offset = AT(nesterov),
     .help = "Nesterov's momentum, for sgd."},
    {.section = "TRAINING",
     .name = "--weight-decay",
     .kind = DELTA_OPTION_NUMBER,
     .argument = "X",
     .offset = AT(weight_decay),
     .minimum = 0,
     .maximum = 1e6,
     .help = "By default the optimizer's own: 0.01 for adamw and lamb, else 0."},
    {.section = "TRAINING",
     .name = "--beta1",
     .kind = DELTA_OPTION_NUMBER,
     .argument = "X",
     .offset = AT(beta1),
     .minimum = 0,
     .maximum = 1,
     .help = "Of adam, adamw and lamb (0.9)."},
    {.section = "TRAINING",
     .name = "--beta2",
     .kind = DELTA_OPTION_NUMBER,
     .argument = "X",
     .offset = AT(beta2),
     .minimum = 0,
     .maximum = 1,
     .help = "Of adam, adamw and lamb (0.999), and rmsprop's smoothing (0.99)."},
    {.section = "TRAINING",
     .name = "--epsilon",
     .kind = DELTA_OPTION_NUMBER,
     .argument = "X",
     .offset = AT(epsilon),
     .minimum = 0,
     .maximum = 1,
     .help = "Of the optimizer's denominator."},
    {.section = "TRAINING",
     .name = "--clip-grad-norm",
     .kind = DELTA_OPTION_NUMBER,
     .argument = "X",
     .offset = AT(clip_gradient_norm),
     .minimum = 0,
     .maximum = 1e30,
     .help = "Scales all gradients so that their common norm is at most X."},
    {.section = "TRAINING",
     .name = "--accumulate",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     .offset = AT(accumulate),
     .minimum = 1,
     .maximum = 1e6,
     .help = "Micro-batches of --batch samples per update; gradients are divided by the true count of labels."},
    {.section = "TRAINING",
     .name = "--freeze",
     .kind = DELTA_OPTION_TEXT_LIST,
     .argument = "GLOB",
     .offset = AT(freeze),
     .help = "Initializers that do not train; * matches any run of characters."},
    {.section = "TRAINING",
     .name = "--train",
     .kind = DELTA_OPTION_TEXT_LIST,
     .argument = "GLOB",
     .offset = AT(train),
     .help = "Initializers that train; with it no others do, and what it matches trains even when --freeze matches too."},
};
#undef AT

static const char *const synopses[] = {"MODEL.onnx -o MODEL.plan --loss NAME [options]",
                                       "PROBLEM.json [-o FILE.json] [--report FILE.html] [options]",
                                       "MODEL.plan [--report FILE.html] [--trace FILE.json]",
                                       "--fit MODEL.onnx --loss NAME [--budget SIZE,SIZE] [options]",
                                       "--fit MODEL.onnx --loss NAME --batch N [--budget 10%..100%:10%] [options]",
                                       "--compare MODEL.onnx|PROBLEM.json --budgets LIST [options]",
                                       "--devices",
                                       NULL};

static const delta_program_t program = {
    .name = "deltaplan",
    .summary = "plan the training of an ONNX model within a memory budget",
    .version = DELTA_VERSION_STRING,
    .synopses = synopses,
    .description =
        "Reads a forward model, makes its training graph (loss, gradients, updates), chooses kernels for the device, gives every tensor "
        "its place in one arena, and "
        "writes the plan for deltarun. What trains are the float initializers of rank 1 and more that reach the loss, less running "
        "statistics; --freeze and --train "
        "change that, and the output says how many train, how many do not and why.",
    .closing = "EXIT STATUS\n0 done; 1 an error, named on stderr; 2 wrong usage; 3 nothing fits the budget.",
    .options = option_rows,
    .option_count = sizeof option_rows / sizeof *option_rows,
    .positional_maximum = 1,
};

// NAME=N of every --dim.
static delta_status_t parse_dims(const delta_option_list_t *list, delta_dim_t *dims, char *names) {
  for (size_t i = 0; i < list->count; ++i) {
    const char *text = list->items[i].text, *equals = strchr(text, '=');
    int64_t size = 0;
    if (!equals || equals == text || !delta_number_parse_digits(equals + 1, &size) || size < 0)
      return delta_status_make(INVALID_ARGUMENT, "--dim %s: give NAME=N", text);
    memcpy(names, text, (size_t)(equals - text));
    names[equals - text] = '\0';
    dims[i] = (delta_dim_t){.name = names, .size = size};
    names += equals - text + 1;
  }
  return DELTA_OK;
}

static size_t texts_bytes(const delta_option_list_t *list) {
  size_t bytes = 0;
  for (size_t i = 0; i < list->count; ++i) bytes += strlen(list->items[i].text) + 1;
  return bytes;
}

// Lists of the settings in the form of the plan options.
typedef struct delta_plan_lists {
  delta_dim_t *dims; // Owned, as all here.
  char *dim_names;
  const char **freeze, **train;
} delta_plan_lists_t;

static void collect_texts(const delta_option_list_t *list, const char **texts) {
  for (size_t i = 0; i < list->count; ++i) texts[i] = list->items[i].text;
}

static delta_status_t make_lists(const delta_plan_settings_t *settings, delta_allocator_t allocator, delta_plan_lists_t *lists) {
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, settings->dims.count, &lists->dims));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, texts_bytes(&settings->dims), &lists->dim_names));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, settings->freeze.count, &lists->freeze));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, settings->train.count, &lists->train));
  collect_texts(&settings->freeze, lists->freeze);
  collect_texts(&settings->train, lists->train);
  return parse_dims(&settings->dims, lists->dims, lists->dim_names);
}

static void free_lists(delta_allocator_t allocator, delta_plan_lists_t *lists) {
  delta_release(allocator, lists->dims);
  delta_release(allocator, lists->dim_names);
  delta_release(allocator, lists->freeze);
  delta_release(allocator, lists->train);
}

static delta_plan_options_t plan_options(const delta_plan_settings_t *settings, const char *model_path, const delta_plan_lists_t *lists,
                                         delta_log_sink_t log) {
  delta_plan_options_t options;
  delta_plan_options_init(&options);
  options.model_path = model_path;
  options.external_data = settings->external_data;
  options.output_path = settings->output;
  options.device = settings->device;
  if (settings->policy) options.policy = settings->policy;
  options.levers = settings->levers;
  options.split = settings->split;
  options.budget = settings->budget;
  options.host_budget = settings->host_budget;
  options.batch = settings->batch;
  options.dims = lists->dims;
  options.dim_count = settings->dims.count;
  options.loss = settings->loss;
  options.class_axis = settings->class_axis;
  options.ignore_index = settings->ignore_index;
  options.optimizer = optimizer_choices[settings->optimizer + 1];
  options.learning_rate = settings->learning_rate;
  options.momentum = settings->momentum;
  options.weight_decay = settings->weight_decay;
  options.beta1 = settings->beta1;
  options.beta2 = settings->beta2;
  options.epsilon = settings->epsilon;
  options.nesterov = settings->nesterov;
  options.clip_gradient_norm = settings->clip_gradient_norm;
  options.accumulate = settings->accumulate;
  options.freeze = lists->freeze;
  options.freeze_count = settings->freeze.count;
  options.train = lists->train;
  options.train_count = settings->train.count;
  options.batchnorm = batchnorm_choices[settings->batchnorm];
  options.batchnorm_unbiased = settings->batchnorm_unbiased;
  options.threads = (int32_t)settings->threads;
  options.math = settings->math;
  options.profile = settings->profile;
  options.save_profile = settings->save_profile;
  options.layout = settings->layout;
  options.init = init_choices[settings->init];
  options.init_seed = (uint64_t)settings->seed;
  options.time_limit_seconds = settings->time_limit;
  options.seed = (uint64_t)settings->seed;
  options.dump_problem = settings->dump_problem;
  options.report_path = settings->report;
  options.trace_path = settings->trace;
  options.log = log;
  return options;
}

static delta_plan_settings_t default_settings(void) {
  delta_plan_options_t options;
  delta_plan_options_init(&options);
  return (delta_plan_settings_t){
      .device = options.device,
      .profile = options.profile,
      .layout = options.layout,
      .class_axis = options.class_axis,
      .ignore_index = options.ignore_index,
      .accumulate = options.accumulate,
      .learning_rate = options.learning_rate,
      .momentum = options.momentum,
      .weight_decay = options.weight_decay,
      .beta1 = options.beta1,
      .beta2 = options.beta2,
      .epsilon = options.epsilon,
      .time_limit = options.time_limit_seconds,
  };
}

// Whether deltarun finds the model beside the plan.
static delta_status_t finds_model(const char *plan_path, const char *model_path, delta_allocator_t allocator, bool *out_finds) {
  delta_text_t beside;
  delta_text_init(&beside, allocator);
  const char *plan_slash = strrchr(plan_path, '/'), *model_slash = strrchr(model_path, '/');
  delta_status_t status = delta_text_append(&beside, "%.*s%s", plan_slash ? (int)(plan_slash - plan_path) + 1 : 0, plan_path,
                                            model_slash ? model_slash + 1 : model_path);
  *out_finds = !status && delta_file_is_same(beside.items, model_path);
  delta_text_deinit(&beside);
  return status;
}

static delta_status_t describe_plan(const delta_plan_settings_t *settings, const delta_plan_summary_t *summary, const char *model_path,
                                    delta_allocator_t allocator) {
  delta_plan_report_text(summary, model_path, settings->output);
  bool finds = true;
  if (settings->output) DELTA_RETURN_IF_ERROR(finds_model(settings->output, model_path, allocator, &finds));
  if (!finds)
    printf("the model is not beside the plan; run it with: deltarun %s --model %s --data SPEC --epochs N\n", settings->output, model_path);
  return DELTA_OK;
}

// A bar while kernels are measured.
typedef struct delta_measuring {
  FILE *stream;
  delta_progress_t progress;
  delta_progress_state_t state;
  bool has_bar;
} delta_measuring_t;

static void on_measured(void *self, uint32_t done, uint32_t total) {
  delta_measuring_t *measuring = self;
  if (!measuring->has_bar || done == 1) {
    delta_progress_begin(&measuring->progress, measuring->stream, delta_progress_is_terminal(measuring->stream), "measuring", "run", total,
                         delta_clock_seconds());
    measuring->has_bar = true;
  }
  measuring->state = (delta_progress_state_t){.done = done, .loss = NAN};
  if (done == total) {
    // Piped, a measurement that took no time is not worth a line.
    if (measuring->progress.is_terminal) delta_progress_end(&measuring->progress, &measuring->state, delta_clock_seconds());
    measuring->has_bar = false;
  } else {
    delta_progress_update(&measuring->progress, &measuring->state, delta_clock_seconds());
  }
}

// Plans, writes, and describes; a plan that does not fit is described too, as JSON.
static delta_status_t make_plan(const delta_plan_settings_t *settings, const char *model_path, delta_allocator_t allocator) {
  delta_cli_log_t log = {.program = program.name, .notes_on_stdout = !settings->json, .verbose = settings->verbose};
  delta_plan_t *plan = NULL;
  delta_plan_lists_t lists = {0};
  delta_plan_summary_t summary = {.struct_size = sizeof summary};
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, make_lists(settings, allocator, &lists), cleanup);
  delta_plan_options_t options = plan_options(settings, model_path, &lists, delta_cli_log_sink(&log));
  delta_measuring_t measuring = {.stream = settings->json ? stderr : stdout};
  options.progress = on_measured;
  options.progress_self = &measuring;
  status = delta_plan_create(&options, allocator, &plan, &summary);
  bool has_numbers = !status || delta_status_code(status) == DELTA_STATUS_DOES_NOT_FIT;
  if (!status && settings->output) status = delta_plan_save(plan, settings->output);
  if (!status) status = delta_show_write(plan, settings->report, settings->trace);
  if (has_numbers && settings->json)
    status = delta_status_join(status, delta_plan_report_json(&summary, model_path, settings->device, allocator));
  if (!status && !settings->json) status = describe_plan(settings, &summary, model_path, allocator);
cleanup:
  delta_plan_free(plan);
  free_lists(allocator, &lists);
  return status;
}

static delta_fit_request_t fit_request(const delta_plan_settings_t *settings, const char *model_path, const delta_plan_lists_t *lists) {
  return (delta_fit_request_t){
      .options = plan_options(settings, model_path, lists, (delta_log_sink_t){0}), .budgets = settings->budget, .json = settings->json};
}

static delta_status_t fit_model(const delta_plan_settings_t *settings, const char *model_path, delta_allocator_t allocator) {
  delta_plan_lists_t lists = {0};
  delta_status_t status = make_lists(settings, allocator, &lists);
  delta_measuring_t measuring = {.stream = settings->json ? stderr : stdout};
  delta_fit_request_t request = fit_request(settings, model_path, &lists);
  request.options.progress = on_measured;
  request.options.progress_self = &measuring;
  if (!status) status = delta_fit(&request, allocator);
  free_lists(allocator, &lists);
  return status;
}

// Percentages are of what a step takes, and so of one batch.
static delta_status_t check_fit_budgets(const delta_plan_settings_t *settings, delta_allocator_t allocator) {
  delta_fit_table_t table = {.allocator = allocator};
  delta_budget_list_t list = {.allocator = allocator, .option = "--budget"};
  delta_status_t status =
      settings->batch > 0 ? delta_budgets_parse(settings->budget, &list) : delta_fit_parse_budgets(settings->budget, &table);
  delta_fit_deinit(&table);
  delta_budgets_deinit(&list);
  return status;
}

// What does not go with --fit, and what goes with it alone.
static delta_status_t check_fit(const delta_plan_settings_t *settings, delta_allocator_t allocator) {
  if (!settings->fit) {
    const bool is_list = settings->budget && delta_budgets_are_many(settings->budget) && !settings->compare;
    return is_list
               ? delta_status_make(INVALID_ARGUMENT, "--budget %s: several budgets are for --fit and --compare; give one", settings->budget)
               : DELTA_OK;
  }
  const struct {
    const char *name, *value;
  } refused[] = {{"-o", settings->output},
                 {"--save-profile", settings->save_profile},
                 {"--dump-problem", settings->dump_problem},
                 {"--report", settings->report},
                 {"--trace", settings->trace}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
    if (refused[i].value)
      return delta_status_make(INVALID_ARGUMENT, "%s %s: --fit writes no files; leave one of the two out", refused[i].name,
                               refused[i].value);
  }
  return settings->budget ? check_fit_budgets(settings, allocator) : DELTA_OK;
}

static delta_status_t show_plan(const delta_plan_settings_t *settings, const char *path, const delta_options_t *options,
                                delta_allocator_t allocator) {
  delta_cli_log_t log = {.program = program.name, .notes_on_stdout = true, .verbose = settings->verbose};
  const delta_show_request_t request = {.plan_path = path,
                                        .model_path = settings->model,
                                        .external_data = settings->external_data,
                                        .device = delta_options_given(options, "--device") ? settings->device : NULL,
                                        .report = settings->report,
                                        .trace = settings->trace,
                                        .log = delta_cli_log_sink(&log)};
  return delta_show_plan(&request, options, allocator);
}

static delta_problem_request_t problem_request(const delta_plan_settings_t *settings, const char *path) {
  return (delta_problem_request_t){.path = path,
                                   .output = settings->output,
                                   .report = settings->report,
                                   .trace = settings->trace,
                                   .policy = settings->policy,
                                   .budget = settings->budget,
                                   .time_limit_seconds = settings->time_limit,
                                   .seed = (uint64_t)settings->seed,
                                   .json = settings->json};
}

static delta_status_t compare(const delta_plan_settings_t *settings, const char *path, delta_allocator_t allocator) {
  const char *budgets = settings->budgets ? settings->budgets : settings->budget;
  if (delta_is_problem_file(path)) {
    delta_problem_request_t request = problem_request(settings, path);
    request.budget = NULL;
    return delta_compare_problem(&request, budgets, settings->json, allocator);
  }
  delta_plan_lists_t lists = {0};
  delta_status_t status = make_lists(settings, allocator, &lists);
  if (!status) {
    const delta_plan_options_t options = plan_options(settings, path, &lists, (delta_log_sink_t){0});
    status = delta_compare_model(&options, budgets, settings->json, allocator);
  }
  free_lists(allocator, &lists);
  return status;
}

// A comparison keeps nothing and takes every policy.
static delta_status_t check_compare(const delta_plan_settings_t *settings, const char *path) {
  const struct {
    const char *name, *value;
  } others[] = {{"-o", settings->output},
                {"--policy", settings->policy},
                {"--report", settings->report},
                {"--trace", settings->trace},
                {"--save-profile", settings->save_profile},
                {"--dump-problem", settings->dump_problem},
                {"--model", settings->model}};
  if (!settings->compare && settings->budgets) return delta_status_make(INVALID_ARGUMENT, "--budgets goes with --compare; give --budget");
  if (!settings->compare) return DELTA_OK;
  if (settings->fit) return delta_status_make(INVALID_ARGUMENT, "--fit and --compare are two tables: give one of them");
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
    if (others[i].value)
      return delta_status_make(INVALID_ARGUMENT, "--compare takes every policy and writes no file: leave out %s", others[i].name);
  }
  if (settings->budgets || settings->budget || delta_is_problem_file(path)) return DELTA_OK;
  return delta_status_make(INVALID_ARGUMENT, "--compare needs budgets: give --budgets 80%%,60%%,40%% or sizes");
}

// What is wrong with the command line beyond single options.
static delta_status_t check_usage(const void *self, const delta_options_t *options) {
  const delta_plan_settings_t *settings = self;
  if (settings->devices) return DELTA_OK;
  if (options->positionals.count == 0) return delta_status_make(INVALID_ARGUMENT, "no model given");
  DELTA_RETURN_IF_ERROR(delta_devices_check(settings->device));
  DELTA_RETURN_IF_ERROR(check_compare(settings, options->positionals.items[0]));
  DELTA_RETURN_IF_ERROR(check_fit(settings, options->allocator));
  delta_plan_lists_t lists = {0};
  delta_status_t status = make_lists(settings, options->allocator, &lists);
  if (!status) {
    delta_plan_options_t plan = plan_options(settings, options->positionals.items[0], &lists, (delta_log_sink_t){0});
    if (settings->fit || settings->compare) plan.budget = NULL; // a list, which is looked at elsewhere
    status = delta_plan_options_check(&plan, options->allocator);
  }
  free_lists(options->allocator, &lists);
  return status;
}

static delta_status_t run(const void *self, const delta_options_t *options, delta_allocator_t allocator) {
  const delta_plan_settings_t *settings = self;
  delta_cli_log_t log = {.program = program.name, .verbose = settings->verbose};
  if (settings->devices) return delta_devices_print(delta_cli_log_sink(&log), allocator);
  const char *path = options->positionals.items[0];
  if (settings->compare) return compare(settings, path, allocator);
  if (settings->fit && (delta_is_plan_file(path) || delta_is_problem_file(path)))
    return delta_status_make(INVALID_ARGUMENT, "--fit %s: the batch of this file is fixed; give a model", path);
  if (delta_is_plan_file(path)) return show_plan(settings, path, options, allocator);
  if (settings->model) return delta_status_make(INVALID_ARGUMENT, "--model goes with a plan, and '%s' is none", path);
  if (settings->fit) return fit_model(settings, path, allocator);
  if (!delta_is_problem_file(path)) return make_plan(settings, path, allocator);
  const delta_problem_request_t request = problem_request(settings, path);
  return delta_plan_problem(&request, allocator);
}

int main(int argc, char **argv) {
  delta_plan_settings_t settings = default_settings();
  return delta_cli_main(&(delta_cli_command_t){.program = &program, .settings = &settings, .check = check_usage, .run = run}, argc, argv);
}
