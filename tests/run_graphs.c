// run_graphs FOLDER [--filter TEXT]: plans full-size models that have no weights, a line a case.
//
// FOLDER holds index.json (a list of objects: name, file, loss, optimizer, pytorch_peak_bytes by batch size) and the model files. A case is one model at one
// batch size: it must load with all shapes and plan with policies none and eager; the arena must lie within 2 % of the sum of live bytes; and what policy eager holds
// must lie within a tolerance of what PyTorch holds (5 % for graphs of convolutions alone, 10 % for others). Exit status: 0 when nothing failed, 1 otherwise, 2 for wrong usage.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <delta/delta.h>

#include "base/file.h"
#include "base/json.h"

enum { TEXT_BYTES = 1024, INDEX_LIMIT_BYTES = 16 << 20 };
static const double arena_tolerance = 0.02;

typedef struct tally {
  int passed, failed;
} tally_t;

// One entry of the index.
typedef struct model_entry {
  const char *name;
  char path[TEXT_BYTES];
  const char *loss;
  int64_t class_axis, ignore_index;
  const char *optimizer;
  double eager_tolerance;
} model_entry_t;

static delta_status_t read_entry(const delta_json_document_t *index, const delta_json_value_t *value, const char *folder,
                                 model_entry_t *out) {
  const char *file = NULL;
  const delta_json_value_t *loss = NULL, *ops = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_string(index, value, "name", &out->name));
  DELTA_RETURN_IF_ERROR(delta_json_get_string(index, value, "file", &file));
  DELTA_RETURN_IF_ERROR(delta_json_get_string(index, value, "optimizer", &out->optimizer));
  DELTA_RETURN_IF_ERROR(delta_json_get_object(index, value, "loss", &loss));
  DELTA_RETURN_IF_ERROR(delta_json_get_string(index, loss, "name", &out->loss));
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(index, loss, "class_axis", -8, 8, &out->class_axis));
  out->ignore_index = -100;
  if (delta_json_find(loss, "ignore_index"))
    DELTA_RETURN_IF_ERROR(delta_json_get_int64(index, loss, "ignore_index", INT32_MIN, INT32_MAX, &out->ignore_index));
  DELTA_RETURN_IF_ERROR(delta_json_get_object(index, value, "ops", &ops));
  out->eager_tolerance = delta_json_find(ops, "MatMul") ? 0.10 : 0.05;
  if (snprintf(out->path, sizeof out->path, "%s/%s", folder, file) >= (int)sizeof out->path)
    return delta_status_make(INVALID_ARGUMENT, "the path of '%s' is too long", file);
  return DELTA_OK;
}

// Plans by one policy; the summary has the numbers.
static delta_status_t plan_by(const model_entry_t *entry, int64_t batch, const char *policy, delta_plan_summary_t *out_summary) {
  delta_plan_options_t options;
  delta_plan_options_init(&options);
  options.profile = "estimate";
  options.model_path = entry->path;
  options.policy = policy;
  options.budget = "unlimited";
  options.batch = batch;
  options.loss = entry->loss;
  options.class_axis = entry->class_axis;
  options.ignore_index = entry->ignore_index;
  options.optimizer = entry->optimizer;
  options.momentum = strcmp(entry->optimizer, "sgd") == 0 ? 0.9 : -1;
  *out_summary = (delta_plan_summary_t){.struct_size = sizeof *out_summary};
  delta_plan_t *plan = NULL;
  delta_status_t status = delta_plan_create(&options, delta_allocator_system(), &plan, out_summary);
  delta_plan_free(plan);
  return status;
}

static double relative(uint64_t value, double reference) { return (double)value / reference - 1; }

static bool run_case(const model_entry_t *entry, int64_t batch, double pytorch_bytes) {
  delta_plan_summary_t none, eager;
  delta_status_t status = plan_by(entry, batch, "none", &none);
  if (!status) status = plan_by(entry, batch, "eager", &eager);
  if (status) {
    printf("FAIL %s batch %lld: %s\n", entry->name, (long long)batch, delta_status_message(status));
    delta_status_free(status);
    return false;
  }
  double arena = relative(none.arena_bytes, (double)none.peak_bytes), eager_arena = relative(eager.arena_bytes, (double)eager.peak_bytes);
  double against_pytorch = relative(none.eager_peak_bytes, pytorch_bytes);
  bool passed = arena <= arena_tolerance && eager_arena <= arena_tolerance && fabs(against_pytorch) <= entry->eager_tolerance;
  printf(
      "%s %s batch %lld: %llu nodes, planned in %.2f s, arena %.1f MiB (%+.2f %% of live bytes, eager %+.2f %%), eager %.1f MiB (%+.1f %% "
      "of PyTorch)\n",
      passed ? "ok" : "FAIL", entry->name, (long long)batch, (unsigned long long)none.nodes, none.planning_seconds,
      (double)none.arena_bytes / (1 << 20), 100 * arena, 100 * eager_arena, (double)none.eager_peak_bytes / (1 << 20),
      100 * against_pytorch);
  return passed;
}

// Every batch size that the entry states a peak for.
static delta_status_t run_entry(const delta_json_document_t *index, const delta_json_value_t *value, const char *folder, tally_t *tally) {
  model_entry_t entry;
  const delta_json_value_t *peaks = NULL;
  DELTA_RETURN_IF_ERROR(read_entry(index, value, folder, &entry));
  DELTA_RETURN_IF_ERROR(delta_json_get_object(index, value, "pytorch_peak_bytes", &peaks));
  for (const delta_json_value_t *peak = delta_json_first(peaks); peak; peak = delta_json_next(peak)) {
    double total = 0;
    DELTA_RETURN_IF_ERROR(delta_json_get_double(index, peak, "total", &total));
    bool passed = run_case(&entry, strtoll(delta_json_key(peak), NULL, 10), total);
    ++*(passed ? &tally->passed : &tally->failed);
    fflush(stdout);
  }
  return DELTA_OK;
}

static delta_status_t run_folder(const char *folder, const char *filter, tally_t *tally) {
  delta_allocator_t allocator = delta_allocator_system();
  char path[TEXT_BYTES];
  char *text = NULL;
  size_t size_bytes = 0;
  delta_json_document_t *index = NULL;
  delta_status_t status = DELTA_OK;
  snprintf(path, sizeof path, "%s/index.json", folder);
  DELTA_GOTO_IF_ERROR(status, delta_file_read_all(path, INDEX_LIMIT_BYTES, allocator, &text, &size_bytes), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_json_parse(text, size_bytes, path, allocator, &index), cleanup);
  for (const delta_json_value_t *value = delta_json_first(delta_json_root(index)); value; value = delta_json_next(value)) {
    const char *name = NULL;
    DELTA_GOTO_IF_ERROR(status, delta_json_get_string(index, value, "name", &name), cleanup);
    if (filter && !strstr(name, filter)) continue;
    DELTA_GOTO_IF_ERROR(status, run_entry(index, value, folder, tally), cleanup);
  }
cleanup:
  delta_json_free(index);
  delta_release(allocator, text);
  return status;
}

int main(int argc, char **argv) {
  const char *filter = argc == 4 && strcmp(argv[2], "--filter") == 0 ? argv[3] : NULL;
  if (argc != 2 && !filter) {
    fprintf(stderr, "usage: %s FOLDER [--filter TEXT]\n", argv[0]);
    return 2;
  }
  tally_t tally = {0};
  delta_status_t status = run_folder(argv[1], filter, &tally);
  if (status) {
    printf("FAIL %s: %s\n", argv[1], delta_status_message(status));
    delta_status_free(status);
    ++tally.failed;
  }
  printf("%d passed, %d failed, 0 skipped\n", tally.passed, tally.failed);
  return tally.failed ? 1 : 0;
}
