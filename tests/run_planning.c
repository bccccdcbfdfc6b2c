// run_planning FOLDER [--filter TEXT] [--evaluations N]: plans small problems whose optima are proven, a line a problem and mode.
//
// FOLDER holds problem files of docs/problem-format.md with an object `optimum` beside the problem: by mode (recompute_only, swap_only, both) status, makespan_s or
// lower_bound_s and best_known_s, or minimum_feasible_budget_bytes. The optima are proven for a planner with more liberties than this one has: lanes in any order,
// transfers at any time, a step run again at any moment. Ours runs the nodes in the file's order, copies first come first served, and decides each gap between two uses once.
// So its plans may be slower than the optimum or not be found, but never faster and never above the budget. A case fails when a plan is faster than what is proven, when the
// judge (a second look at the timed schedule, instant by instant, by the rules of the optima) refuses it, or when no plan is found although one exists.
// Exit status: 0 when nothing failed, 1 otherwise, 2 for wrong usage.
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "planner/evaluate.h"
#include "planner/search.h"
#include "plans/problem_json.h"

enum { PATH_BYTES = 1024, FILE_LIMIT_BYTES = 16 << 20, MOST_FILES = 1000 };
static const double seconds_tolerance = 1e-9;

typedef struct tally {
  int passed, failed, skipped;
  int proven, within_1, within_5; // plans beside a proven optimum
} tally_t;

typedef struct planning_mode {
  const char *key;
  delta_liberties_t liberties;
} planning_mode_t;
static const planning_mode_t modes[] = {
    {"recompute_only", {.may_rebuild = true}}, {"swap_only", {.may_swap = true}}, {"both", {.may_swap = true, .may_rebuild = true}}};

// ---- The judge

// Bytes of a buffer count from the start of its writer to the end of its last user.
static void find_span(const delta_schedule_t *schedule, uint32_t b, double *out_begin, double *out_end) {
  const delta_buffer_t *buffer = &schedule->buffers[b];
  bool is_written = false, is_used = false;
  *out_begin = *out_end = 0;
  for (uint32_t s = buffer->first_step; s <= buffer->last_step && s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    bool touches = false;
    for (uint32_t k = 0; k < step->output_count; ++k) {
      if (step->outputs[k] != b) continue;
      *out_begin = step->start_seconds;
      is_written = touches = true;
    }
    for (uint32_t k = 0; k < step->input_count; ++k) touches |= step->inputs[k] == b;
    if ((touches || s == schedule->step_count - 1) && (!is_used || step->end_seconds > *out_end)) *out_end = step->end_seconds;
    is_used |= touches;
  }
  if (!is_written) *out_begin = 0;
}

static const char *judge_bytes(const delta_schedule_t *schedule, uint64_t budget_bytes) {
  double *begins = calloc(schedule->buffer_count + 1, sizeof *begins), *ends = calloc(schedule->buffer_count + 1, sizeof *ends);
  const char *why = begins && ends ? NULL : "out of memory";
  for (uint32_t b = 0; !why && b < schedule->buffer_count; ++b) find_span(schedule, b, &begins[b], &ends[b]);
  for (uint32_t s = 0; !why && s < schedule->step_count; ++s) {
    const double now = schedule->steps[s].start_seconds + seconds_tolerance;
    uint64_t bytes = 0;
    for (uint32_t b = 0; b < schedule->buffer_count; ++b) bytes += begins[b] <= now && now < ends[b] ? schedule->buffers[b].size_bytes : 0;
    if (bytes > budget_bytes) why = "more bytes than the budget at one instant";
  }
  free(begins);
  free(ends);
  return why;
}

// One thing at a time on each lane; nothing is read before it is there.
static const char *judge_order(const delta_schedule_t *schedule) {
  double lane_end[DELTA_LANE_COUNT] = {0};
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    const delta_schedule_step_t *step = &schedule->steps[s];
    if (step->start_seconds < lane_end[step->lane] - seconds_tolerance) return "two steps at once on a lane";
    lane_end[step->lane] = step->end_seconds;
    for (uint32_t k = 0; k < step->input_count; ++k) {
      for (uint32_t w = 0; w < s; ++w) {
        for (uint32_t o = 0; o < schedule->steps[w].output_count; ++o) {
          if (schedule->steps[w].outputs[o] == step->inputs[k] &&
              schedule->steps[w].end_seconds > step->start_seconds + seconds_tolerance) {
            return "a read before the write has ended";
          }
        }
      }
    }
    for (uint32_t w = 0; step->kind == DELTA_STEP_SWAP_IN && w < s; ++w) {
      const delta_schedule_step_t *copy = &schedule->steps[w];
      const bool is_same = copy->kind == DELTA_STEP_SWAP_OUT && copy->host_offset_bytes == step->host_offset_bytes;
      if (is_same && copy->end_seconds > step->start_seconds + seconds_tolerance) return "a copy back before the copy below has ended";
    }
  }
  return NULL;
}

// ---- Cases

typedef struct optimum {
  const char *status;
  double proven_seconds; // nothing is faster
  bool is_exact;         // and something is as fast
  bool exists;           // a plan is known
} optimum_t;

static delta_status_t read_optimum(const delta_json_document_t *document, const char *mode, optimum_t *out) {
  const delta_json_value_t *all = NULL, *entry = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_object(document, delta_json_root(document), "optimum", &all));
  DELTA_RETURN_IF_ERROR(delta_json_get_object(document, all, mode, &entry));
  DELTA_RETURN_IF_ERROR(delta_json_get_string(document, entry, "status", &out->status));
  out->is_exact = strcmp(out->status, "optimal") == 0;
  out->exists = out->is_exact || delta_json_find(entry, "best_known_s");
  out->proven_seconds = 0;
  if (strcmp(out->status, "infeasible") == 0) return DELTA_OK;
  return delta_json_get_double(document, entry, out->is_exact ? "makespan_s" : "lower_bound_s", &out->proven_seconds);
}

static const char *judge(const delta_problem_t *problem, const delta_order_t *order, const delta_decisions_t *decisions,
                         const optimum_t *optimum, double *out_seconds) {
  delta_evaluator_t evaluator;
  delta_evaluation_t evaluation;
  delta_status_t status = delta_evaluator_init(&evaluator, problem, order, delta_allocator_system());
  if (!status) status = delta_evaluator_measure(&evaluator, decisions, problem->budget_bytes, &evaluation);
  if (!status) status = delta_evaluator_time(&evaluator, &evaluation);
  const char *why = status ? "it cannot be carried out" : NULL;
  *out_seconds = status ? INFINITY : evaluation.seconds;
  if (!why) why = judge_order(evaluator.expansion.schedule);
  if (!why) why = judge_bytes(evaluator.expansion.schedule, problem->budget_bytes);
  if (!why && strcmp(optimum->status, "infeasible") == 0) why = "a plan where none is possible";
  double bound_seconds = 0;
  if (!why && delta_lower_bound(problem, order, problem->budget_bytes, INFINITY, delta_allocator_system(), &bound_seconds))
    why = "it has no bound";
  if (!why && bound_seconds > evaluation.seconds + seconds_tolerance) why = "faster than its lower bound";
  if (!why && optimum->is_exact && bound_seconds > optimum->proven_seconds + seconds_tolerance) why = "a lower bound above what is proven";
  if (!why && evaluation.seconds < optimum->proven_seconds - seconds_tolerance) why = "faster than what is proven";
  delta_status_free(status);
  delta_evaluator_deinit(&evaluator);
  return why;
}

static void count_case(const char *name, const char *mode, const optimum_t *optimum, double seconds, const char *why, tally_t *tally) {
  ++*(why ? &tally->failed : &tally->passed);
  printf("%s %s %s: ", why ? "FAIL" : "ok", name, mode);
  if (seconds < INFINITY)
    printf("%.0f ms, ", 1e3 * seconds);
  else
    printf("no plan, ");
  if (optimum->proven_seconds > 0) {
    printf("%s %.0f ms (%+.1f %%)", optimum->is_exact ? "optimum" : "bound", 1e3 * optimum->proven_seconds,
           100 * (seconds / optimum->proven_seconds - 1));
  } else {
    printf("%s", optimum->status);
  }
  printf("%s%s\n", why ? ": " : "", why ? why : "");
  if (!optimum->is_exact) return;
  ++tally->proven;
  tally->within_1 += seconds <= 1.01 * optimum->proven_seconds;
  tally->within_5 += seconds <= 1.05 * optimum->proven_seconds;
}

static delta_status_t run_mode(const delta_json_document_t *document, const delta_problem_t *problem, const char *name,
                               const planning_mode_t *mode, uint64_t evaluations, tally_t *tally) {
  const delta_allocator_t allocator = delta_allocator_system();
  optimum_t optimum = {0};
  delta_order_t order = {.allocator = allocator};
  delta_decision_list_t items = {0};
  delta_decisions_t decisions;
  delta_search_result_t result;
  const delta_search_options_t options = {
      .liberties = mode->liberties, .capacity_bytes = problem->budget_bytes, .effort = {.evaluation_limit = evaluations}};
  DELTA_RETURN_IF_ERROR(read_optimum(document, mode->key, &optimum));
  delta_status_t status = delta_order_listed(problem, allocator, &order);
  if (!status) status = delta_search(problem, &order, &options, allocator, &items, &decisions, &result);
  if (!status) {
    double seconds = INFINITY;
    const char *why = result.fits      ? judge(problem, &order, &decisions, &optimum, &seconds)
                      : optimum.exists ? "no plan is found, but one exists"
                                       : NULL;
    count_case(name, mode->key, &optimum, seconds, why, tally);
  }
  delta_array_deinit(allocator, &items);
  delta_order_deinit(&order);
  return status;
}

static delta_status_t run_file(const char *folder, const char *file, uint64_t evaluations, tally_t *tally) {
  const delta_allocator_t allocator = delta_allocator_system();
  char path[PATH_BYTES];
  char *text = NULL;
  size_t size_bytes = 0;
  delta_json_document_t *document = NULL;
  delta_problem_t *problem = NULL;
  delta_status_t status = DELTA_OK;
  snprintf(path, sizeof path, "%s/%s", folder, file);
  DELTA_GOTO_IF_ERROR(status, delta_file_read_all(path, FILE_LIMIT_BYTES, allocator, &text, &size_bytes), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_json_parse(text, size_bytes, path, allocator, &document), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_problem_from_json(text, size_bytes, path, allocator, &problem), cleanup);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; ++i) {
    DELTA_GOTO_IF_ERROR(status, run_mode(document, problem, file, &modes[i], evaluations, tally), cleanup);
  }
cleanup:
  delta_problem_free(problem);
  delta_json_free(document);
  delta_release(allocator, text);
  return status;
}

static int is_problem(const struct dirent *entry) {
  const size_t length = strlen(entry->d_name);
  return length > 5 && strcmp(entry->d_name + length - 5, ".json") == 0;
}

int main(int argc, char **argv) {
  const char *filter = NULL;
  uint64_t evaluations = 20000;
  bool is_wrong = argc < 2 || argc % 2 != 0;
  for (int i = 2; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--filter") == 0) {
      filter = argv[i + 1];
    } else if (strcmp(argv[i], "--evaluations") == 0) {
      evaluations = strtoull(argv[i + 1], NULL, 10);
    } else {
      is_wrong = true;
    }
  }
  struct dirent **files = NULL;
  const int count = is_wrong ? -1 : scandir(argv[1], &files, is_problem, alphasort);
  if (count < 0) {
    fprintf(stderr, "usage: %s FOLDER [--filter TEXT] [--evaluations N]\n", argv[0]);
    return 2;
  }
  tally_t tally = {0};
  for (int i = 0; i < count; ++i) {
    delta_status_t status =
        filter && !strstr(files[i]->d_name, filter) ? DELTA_OK : run_file(argv[1], files[i]->d_name, evaluations, &tally);
    if (status) printf("FAIL %s: %s\n", files[i]->d_name, delta_status_message(status));
    tally.failed += status != NULL;
    delta_status_free(status);
    free(files[i]);
  }
  free(files);
  printf("proven optima: %d, met within 1 %%: %d, within 5 %%: %d\n", tally.proven, tally.within_1, tally.within_5);
  printf("%d passed, %d failed, %d skipped\n", tally.passed, tally.failed, tally.skipped);
  return tally.failed ? 1 : 0;
}
