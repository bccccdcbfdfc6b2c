// What each lever is worth for a model: the peak of a training step and its estimated time with the lever off, beside those with all on.
//
//   levers MODEL.onnx LOSS [batch] [class axis] [optimizer]
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
  double peak_mebibytes, step_seconds;
  unsigned long long nodes;
} worth_t;

static delta_status_t measure(delta_plan_options_t options, const char *levers, worth_t *out_worth) {
  delta_plan_summary_t summary = {.struct_size = sizeof summary};
  delta_plan_t *plan = NULL;
  options.levers = levers;
  const delta_status_t status = delta_plan_create(&options, delta_allocator_system(), &plan, &summary);
  if (status) return status;
  *out_worth = (worth_t){(double)summary.peak_bytes / (1 << 20), summary.step_seconds, (unsigned long long)summary.nodes};
  delta_plan_free(plan);
  return DELTA_OK;
}

// A line of the table: the numbers, and how they differ from those with all levers.
static delta_status_t print_row(const delta_plan_options_t *options, const char *label, const char *levers, const worth_t *all) {
  worth_t worth;
  const delta_status_t status = measure(*options, levers, &worth);
  if (status) return status;
  printf("%-22s %10.1f MiB %+10.1f   %9.3f s %+7.1f %%   %6llu nodes\n", label, worth.peak_mebibytes,
         worth.peak_mebibytes - all->peak_mebibytes, worth.step_seconds, 100 * (worth.step_seconds / all->step_seconds - 1), worth.nodes);
  fflush(stdout);
  return DELTA_OK;
}

static delta_status_t print_table(const delta_plan_options_t *options) {
  worth_t all;
  delta_status_t status = measure(*options, "all", &all);
  if (status) return status;
  status = print_row(options, "all on", "all", &all);
  for (size_t i = 0; i < DELTA_LEVER_COUNT && !status; ++i) {
    char label[64], levers[64];
    snprintf(label, sizeof label, "%s off", lever_names[i]);
    snprintf(levers, sizeof levers, "-%s", lever_names[i]);
    status = print_row(options, label, levers, &all);
  }
  return status ? status : print_row(options, "all off", "none", &all);
}

int main(int argc, char **argv) {
  if (argc < 3 || argc > 6) {
    fprintf(stderr, "usage: %s MODEL.onnx LOSS [batch] [class axis] [optimizer]\n", argv[0]);
    return 2;
  }
  delta_plan_options_t options;
  delta_plan_options_init(&options);
  options.model_path = argv[1];
  options.loss = argv[2];
  options.budget = "unlimited";
  if (argc > 3) options.batch = strtoll(argv[3], NULL, 10);
  if (argc > 4) options.class_axis = strtoll(argv[4], NULL, 10);
  if (argc > 5) options.optimizer = argv[5];
  const delta_status_t status = print_table(&options);
  if (!status) return 0;
  fprintf(stderr, "%s: %s\n", argv[1], delta_status_message(status));
  delta_status_free(status);
  return 1;
}
