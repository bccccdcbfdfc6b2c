// Options: values of every kind, what is a usage error, and the help text.
#include <criterion/criterion.h>
#include <stddef.h>
#include <string.h>

#include "base/status.h"
#include "cli/options.h"
#include "tests/support/trial.h"
#include "tests/support/support.h"

typedef struct settings {
  bool nesterov, shuffle;
  const char *budget, *host_budget, *output;
  int64_t steps, class_axis;
  double rate;
  delta_option_list_t patterns;
  int optimizer;
} settings_t;

static const char *const budget_words[] = {"N%", "minimum", "unlimited", NULL};
static const char *const optimizers[] = {"sgd", "adam", "adamw", NULL};

#define AT(field) .offset = offsetof(settings_t, field)

static const delta_option_t rows[] = {
    {.section = "OUTPUT", .name = "-o", .kind = DELTA_OPTION_TEXT, .argument = "FILE", AT(output), .help = "Where the plan goes."},
    {.section = "MEMORY",
     .name = "--budget",
     .kind = DELTA_OPTION_SIZE_TEXT,
     .argument = "SIZE|N%|minimum|unlimited",
     AT(budget),
     .choices = budget_words,
     .help = "Device memory for everything the step needs. Default: what is free now."},
    {.section = "MEMORY",
     .name = "--host-budget",
     .kind = DELTA_OPTION_SIZE_TEXT,
     .argument = "SIZE",
     AT(host_budget),
     .help = "For swapped tensors."},
    {.section = "TRAINING",
     .name = "--steps",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     AT(steps),
     .minimum = 1,
     .maximum = 1e18,
     .help = "Steps."},
    {.section = "TRAINING",
     .name = "--class-axis",
     .kind = DELTA_OPTION_INTEGER,
     .argument = "N",
     AT(class_axis),
     .help = "May be negative."},
    {.section = "TRAINING",
     .name = "--lr",
     .kind = DELTA_OPTION_NUMBER,
     .argument = "X",
     AT(rate),
     .minimum = 0,
     .maximum = 10,
     .help = "Learning rate."},
    {.section = "TRAINING", .name = "--nesterov", .kind = DELTA_OPTION_FLAG, AT(nesterov), .help = "Nesterov momentum."},
    {.section = "TRAINING", .name = "--no-shuffle", .kind = DELTA_OPTION_FLAG_OFF, AT(shuffle), .help = "Samples in order."},
    {.section = "TRAINING",
     .name = "--optimizer",
     .kind = DELTA_OPTION_CHOICE,
     .argument = "NAME",
     AT(optimizer),
     .choices = optimizers,
     .help = "The optimizer."},
    {.section = "TRAINING",
     .name = "--freeze",
     .kind = DELTA_OPTION_TEXT_LIST,
     .argument = "GLOB",
     AT(patterns),
     .help = "Do not train these."},
    {.section = "TRAINING", .name = "--train", .kind = DELTA_OPTION_TEXT_LIST, .argument = "GLOB", AT(patterns), .help = "Train these."},
    {.section = "OUTPUT",
     .name = "--split",
     .kind = DELTA_OPTION_TEXT,
     .argument = "off|on",
     AT(output),
     .help = "Split operators along the batch."},
};

static const char *const synopses[] = {"MODEL.onnx -o MODEL.plan [options]", "PROBLEM.json -o PLAN", NULL};

static const delta_program_t program = {.name = "deltaplan",
                                        .summary = "plan training within a memory budget",
                                        .version = "1.2.3",
                                        .synopses = synopses,
                                        .description = "Reads a model.\nWrites a plan.",
                                        .closing = "EXIT STATUS\n0 done\n2 usage",
                                        .options = rows,
                                        .option_count = sizeof rows / sizeof rows[0],
                                        .positional_maximum = 1};

enum { ARGUMENTS = 8 };

static delta_status_t parse(char *const arguments[ARGUMENTS], settings_t *settings, delta_allocator_t allocator, delta_options_t *options) {
  char *argv[ARGUMENTS + 2] = {"deltaplan"};
  int argc = 1;
  for (; argc <= ARGUMENTS && arguments[argc - 1]; ++argc) argv[argc] = arguments[argc - 1];
  *settings = (settings_t){.shuffle = true, .steps = 7, .rate = 0.5, .optimizer = 2};
  return delta_options_parse(&program, argc, argv, settings, allocator, options);
}

Test(options, every_kind) {
  settings_t settings;
  delta_options_t options;
  char *const arguments[][ARGUMENTS] = {
      {"model.onnx", "-o", "a.plan", "--budget", "60%", "--steps=3", "--lr", "1e-2"},
      {"--nesterov", "--no-shuffle", "--optimizer=adam", "--freeze", "layer*", "--train=head", "--class-axis", "-1"}};
  cr_assert_null(parse(arguments[0], &settings, delta_allocator_system(), &options));
  cr_expect_eq(options.request, DELTA_OPTIONS_RUN);
  cr_assert_eq(options.positionals.count, 1);
  cr_expect_str_eq(options.positionals.items[0], "model.onnx");
  cr_expect_str_eq(settings.output, "a.plan");
  cr_expect_str_eq(settings.budget, "60%");
  cr_expect_eq(settings.steps, 3);
  cr_expect_eq(settings.rate, 1e-2);
  cr_expect(settings.shuffle && !settings.nesterov && settings.optimizer == 2, "defaults stay");
  cr_expect(delta_options_given(&options, "--lr") && !delta_options_given(&options, "--optimizer"));
  delta_options_deinit(&options, &settings);
  cr_assert_null(parse(arguments[1], &settings, delta_allocator_system(), &options));
  cr_expect(settings.nesterov && !settings.shuffle);
  cr_expect_eq(settings.optimizer, 1);
  cr_expect_eq(settings.class_axis, -1);
  cr_assert_eq(settings.patterns.count, 2);
  cr_expect_str_eq(settings.patterns.items[0].option, "--freeze");
  cr_expect_str_eq(settings.patterns.items[0].text, "layer*");
  cr_expect_str_eq(settings.patterns.items[1].option, "--train");
  cr_expect_str_eq(settings.patterns.items[1].text, "head");
  delta_options_deinit(&options, &settings);
}

typedef struct usage_case {
  char *arguments[ARGUMENTS];
  const char *message; // NULL: accepted
} usage_case_t;

static const usage_case_t usage_cases[] = {
    {{"--budget", "8GiB"}, NULL},
    {{"--budget", "minimum"}, NULL},
    {{"--budget", "12.5%"}, NULL},
    {{"--budget=unlimited", "--budget=1MB"}, NULL},
    {{"--", "--budget"}, NULL},
    {{"-"}, NULL},
    {{"--lr", "-0"}, NULL},
    {{"--budget", "N%"}, "--budget 'N%': wanted a size such as 800MB or 8GiB, N%, minimum or unlimited"},
    {{"--budget", "-5%"}, "wanted a size"},
    {{"--budget", "8 apples"}, "'8 apples': wanted a size"},
    {{"--budget="}, "wanted a size"},
    {{"--host-budget", "60%"}, "--host-budget '60%': wanted a size such as 800MB or 8GiB"},
    {{"--steps", "ten"}, "--steps 'ten': wanted an integer"},
    {{"--steps", "3.5"}, "wanted an integer"},
    {{"--steps", "99999999999999999999"}, "wanted an integer"},
    {{"--steps", "0"}, "--steps '0': wanted at least 1"},
    {{"--lr", "11"}, "--lr '11': wanted from 0 to 10"},
    {{"--lr", "nan"}, "wanted a decimal number"},
    {{"--lr", "inf"}, "wanted a decimal number"},
    {{"--lr", "-Infinity"}, "wanted a decimal number"},
    {{"--lr", "1e999"}, "wanted a decimal number"},
    {{"--lr", "1x"}, "wanted a decimal number"},
    {{"--lr", "0x10"}, "wanted a decimal number"},
    {{"--lr", "0x1p-3"}, "wanted a decimal number"},
    {{"--lr", " 1"}, "wanted a decimal number"},
    {{"--lr", "1,5"}, "wanted a decimal number"},
    {{"--lr", "+1e-1"}, NULL},
    {{"--steps", "0x10"}, "wanted an integer"},
    {{"--steps", " 3"}, "wanted an integer"},
    {{"--steps", "1e3"}, "wanted an integer"},
    {{"--steps", "-"}, "wanted an integer"},
    {{"--budget", "0x10%"}, "wanted a size"},
    {{"--budget", "nan%"}, "wanted a size"},
    {{"--budget", "inf%"}, "wanted a size"},
    {{"--budget", "%"}, "wanted a size"},
    {{"--budget", "5%%"}, "wanted a size"},
    {{"--budget", "0x10MB"}, "wanted a size"},
    {{"--optimizer", "sgdd"}, "--optimizer 'sgdd': wanted sgd, adam or adamw"},
    {{"-o", ""}, "-o '': wanted FILE"},
    {{"--freeze", ""}, "--freeze '': wanted GLOB"},
    {{"-o"}, "-o needs a value: -o FILE"},
    {{"--lr", "--nesterov"}, "--lr needs a value: --lr X"},
    {{"--lr", "-o", "x"}, "--lr needs a value"},
    {{"--nesterov=yes"}, "--nesterov takes no value"},
    {{"--optimiser", "sgd"}, "no option --optimiser; did you mean --optimizer?"},
    {{"--momentun"}, "no option --momentun; deltaplan --help lists them"},
    {{"--budge=3MB"}, "no option --budge; did you mean --budget?"},
    {{"--opt", "sgd"}, "did you mean --optimizer?"},
    {{"-x"}, "no option -x"},
    {{"a.onnx", "b.onnx"}, "'b.onnx' is one argument too many"},
};

Test(options, usage) {
  for (size_t i = 0; i < sizeof usage_cases / sizeof usage_cases[0]; ++i) {
    settings_t settings;
    delta_options_t options;
    delta_status_t status = parse(usage_cases[i].arguments, &settings, delta_allocator_system(), &options);
    const char *message = delta_status_message(status), *wanted = usage_cases[i].message;
    cr_expect_eq(delta_status_code(status), wanted ? DELTA_STATUS_INVALID_ARGUMENT : DELTA_STATUS_OK, "case %zu: %s", i, message);
    if (wanted) cr_expect(strstr(message, wanted), "case %zu: '%s' lacks '%s'", i, message, wanted);
    delta_status_free(status);
    delta_options_deinit(&options, &settings);
  }
}

Test(options, help_and_version_come_first) {
  static const struct {
    char *arguments[ARGUMENTS];
    delta_options_request_t request;
  } cases[] = {{{"--nonsense", "--help"}, DELTA_OPTIONS_HELP},
               {{"-h"}, DELTA_OPTIONS_HELP},
               {{"--lr", "x", "--version"}, DELTA_OPTIONS_VERSION},
               {{"--", "--help"}, DELTA_OPTIONS_RUN}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    settings_t settings;
    delta_options_t options;
    cr_assert_null(parse(cases[i].arguments, &settings, delta_allocator_system(), &options));
    cr_expect_eq(options.request, cases[i].request, "case %zu", i);
    delta_options_deinit(&options, &settings);
  }
}

static const char expected_help[] =
    "NAME\n"
    "    deltaplan - plan training within a memory budget\n"
    "\n"
    "SYNOPSIS\n"
    "    deltaplan MODEL.onnx -o MODEL.plan [options]\n"
    "    deltaplan PROBLEM.json -o PLAN\n"
    "\n"
    "DESCRIPTION\n"
    "    Reads a model.\n"
    "    Writes a plan.\n"
    "\n"
    "OUTPUT\n"
    "    -o FILE                   Where the plan goes.\n"
    "    --split off|on            Split operators along the\n"
    "                              batch.\n"
    "\n"
    "MEMORY\n"
    "    --budget SIZE|N%|minimum|unlimited\n"
    "                              Device memory for everything\n"
    "                              the step needs. Default:\n"
    "                              what is free now.\n"
    "    --host-budget SIZE        For swapped tensors.\n"
    "\n"
    "TRAINING\n"
    "    --steps N                 Steps.\n"
    "    --class-axis N            May be negative.\n"
    "    --lr X                    Learning rate.\n"
    "    --nesterov                Nesterov momentum.\n"
    "    --no-shuffle              Samples in order.\n"
    "    --optimizer NAME          The optimizer. One of: sgd,\n"
    "                              adam, adamw.\n"
    "    --freeze GLOB             Do not train these. May be\n"
    "                              repeated.\n"
    "    --train GLOB              Train these. May be\n"
    "                              repeated.\n"
    "\n"
    "OTHER\n"
    "    --help                    Print this text.\n"
    "    --version                 Print the version.\n"
    "\n"
    "EXIT STATUS\n"
    "    0 done\n"
    "    2 usage\n";

Test(options, help_text) {
  delta_text_t text;
  delta_text_init(&text, delta_allocator_system());
  cr_assert_null(delta_options_help(&program, 58, &text));
  cr_expect_str_eq(text.items, expected_help);
  delta_text_deinit(&text);
}

Test(options, allocation_failures) {
  for (delta_test_trial_t trial = {0}; delta_test_trial_begin(&trial);) {
    settings_t settings;
    delta_options_t options;
    delta_text_t text;
    char *const arguments[ARGUMENTS] = {"model.onnx", "--freeze", "a", "--train", "b"};
    delta_status_t status = parse(arguments, &settings, delta_test_trial_allocator(&trial), &options);
    delta_text_init(&text, delta_test_trial_allocator(&trial));
    if (!status) status = delta_options_help(&program, 80, &text);
    delta_text_deinit(&text);
    delta_options_deinit(&options, &settings);
    delta_test_trial_end(&trial, status, "options");
  }
}
