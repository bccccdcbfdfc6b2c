// What each lever is worth for a model: the peak of a training step, its estimated time and the least budget with the lever off, beside those with all on.
//
//   levers MODEL.onnx [--loss NAME] [--class-axis N] [--batch N] [--optimizer NAME] [--device cpu|PROFILE.json] [--profile estimate|measure]
//
// Weights need not be there. By default nothing is measured: times are rooflines, good for comparing.
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <delta/delta.h>

#include "onnx/levers.h"

static const char *const lever_names[] = {
#define LEVER_NAME(id, name, help) name,
    DELTA_LEVERS(LEVER_NAME)
#undef LEVER_NAME
};

typedef struct worth {
  double peak_mebibytes, least_mebibytes, step_seconds;
  unsigned long long nodes;
} worth_t;

static delta_status_t measure(delta_plan_options_t options, const char *levers, worth_t *out_worth) {
  enum { MEBIBYTE = 1 << 20 };
  delta_plan_summary_t summary = {.struct_size = sizeof summary};
  delta_plan_t *plan = NULL;
  options.levers = levers;
  const delta_status_t status = delta_plan_create(&options, delta_allocator_system(), &plan, &summary);
  if (status) return status;
  *out_worth = (worth_t){.peak_mebibytes = (double)summary.peak_bytes / MEBIBYTE,
                         .least_mebibytes = (double)summary.minimum_budget_bytes / MEBIBYTE,
                         .step_seconds = summary.step_seconds,
                         .nodes = (unsigned long long)summary.nodes};
  delta_plan_free(plan);
  return DELTA_OK;
}

static double percent(double value, double of) { return of > 0 ? 100 * (value / of - 1) : 0; }

// A line of the table: the numbers, and how they differ from those with all levers.
static delta_status_t print_row(const delta_plan_options_t *options, const char *label, const char *levers, const worth_t *all) {
  worth_t worth;
  const delta_status_t status = measure(*options, levers, &worth);
  if (status) return status;
  printf("%-20s %10.1f %+9.1f %+7.1f %%   %9.4f %+7.1f %%   %10.1f %+7.1f %%   %6llu\n", label, worth.peak_mebibytes,
         worth.peak_mebibytes - all->peak_mebibytes, percent(worth.peak_mebibytes, all->peak_mebibytes), worth.step_seconds,
         percent(worth.step_seconds, all->step_seconds), worth.least_mebibytes, percent(worth.least_mebibytes, all->least_mebibytes),
         worth.nodes);
  fflush(stdout);
  return DELTA_OK;
}

static delta_status_t print_table(const delta_plan_options_t *options) {
  worth_t all;
  delta_status_t status = measure(*options, "all", &all);
  if (status) return status;
  printf("%s, batch %lld, %s\n", options->model_path, (long long)options->batch, options->device);
  printf("%-20s %10s %9s %9s   %9s %9s   %10s %9s   %6s\n", "", "peak MiB", "more", "", "step s", "", "least MiB", "", "nodes");
  status = print_row(options, "all on", "all", &all);
  for (size_t i = 0; i < DELTA_LEVER_COUNT && !status; ++i) {
    char label[64], levers[64];
    snprintf(label, sizeof label, "%s off", lever_names[i]);
    snprintf(levers, sizeof levers, "-%s", lever_names[i]);
    status = print_row(options, label, levers, &all);
  }
  return status ? status : print_row(options, "all off", "none", &all);
}

// Takes one option and its value; false when it is none of ours.
static bool take_option(delta_plan_options_t *options, const char *name, const char *value) {
  const struct {
    const char *name;
    const char **text;
    int64_t *number;
  } rows[] = {{"--loss", &options->loss, NULL},     {"--class-axis", NULL, &options->class_axis},
              {"--batch", NULL, &options->batch},   {"--optimizer", &options->optimizer, NULL},
              {"--device", &options->device, NULL}, {"--profile", &options->profile, NULL}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    if (strcmp(name, rows[i].name) != 0) continue;
    if (rows[i].text) *rows[i].text = value;
    if (rows[i].number) *rows[i].number = strtoll(value, NULL, 10);
    return true;
  }
  return false;
}

int main(int argc, char **argv) {
  delta_plan_options_t options;
  delta_plan_options_init(&options);
  options.loss = "cross_entropy";
  options.device = "cpu";
  options.init = "random";
  options.budget = "unlimited";
  options.profile = NULL;
  bool understood = argc > 1 && argc % 2 == 0;
  for (int k = 2; understood && k + 1 < argc; k += 2) understood = take_option(&options, argv[k], argv[k + 1]);
  if (!understood) {
    fprintf(stderr,
            "usage: %s MODEL.onnx [--loss NAME] [--class-axis N] [--batch N] [--optimizer NAME] [--device cpu|PROFILE.json] [--profile "
            "estimate|measure]\n",
            argv[0]);
    return 2;
  }
  options.model_path = argv[1];
  // A device that is not there is a profile already.
  const bool is_there = strcmp(options.device, "cpu") == 0;
  if (!options.profile && is_there) options.profile = "estimate";
  const delta_status_t status = print_table(&options);
  if (!status) return 0;
  fprintf(stderr, "%s: %s\n", argv[1], delta_status_message(status));
  delta_status_free(status);
  return 1;
}
