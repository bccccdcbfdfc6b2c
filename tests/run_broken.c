// run_broken FOLDER [--filter TEXT] [--verbose]: runs a collection of broken and odd model files, a line a case.
//
// FOLDER holds index.json (what each case must give) and perhaps links.txt (symbolic links to make). Everything runs in a copy. Each case runs
// deltaplan, and deltarun where data is given, as child processes: they must end by themselves, with the right exit status, within time and
// memory, and a refusal must be one line that names what the index says. Expected values are compared with the reference kernels.
// Exit status: 0 when nothing failed, 1 when something did, 2 for wrong usage.
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/support/model_values.h"
#include "tests/support/process.h"
#include "tests/support/words.h"

enum { PATH_BYTES = 1024, WORDS_BYTES = 2048, REASON_BYTES = 2048, MESSAGE_BYTES = 2000, MOST_ARGUMENTS = 16 };

static const double limit_seconds = 2, limit_bytes = 300e6, kill_seconds = 60, tolerance = 1e-5;
static const char batch[] = "4";

typedef struct runner {
  const char *filter;
  bool verbose;
  char folder[PATH_BYTES]; // the copy
  char programs[PATH_BYTES];
  int passed, failed, left_out;
} runner_t;

// A case of the index.
typedef struct broken_case {
  const char *file, *expect, *stage, *data, *values; // data and values may be NULL
  char any_of[WORDS_BYTES], all_of[WORDS_BYTES];     // separated by '|'
} broken_case_t;

// How a case went so far: the first thing that is wrong, or nothing.
typedef struct verdict {
  bool failed;
  char reason[REASON_BYTES];
} verdict_t;

static void fail(verdict_t *verdict, const char *format, ...) DELTA_PRINTF(2, 3);
static void fail(verdict_t *verdict, const char *format, ...) {
  if (verdict->failed) return;
  va_list values;
  va_start(values, format);
  vsnprintf(verdict->reason, sizeof verdict->reason, format, values);
  va_end(values);
  verdict->failed = true;
}

// ---- The copy

static bool run_quietly(const char *const *arguments) {
  delta_process_t process = {.arguments = arguments, .limit_seconds = kill_seconds};
  delta_process_result_t result;
  delta_process_run(&process, &result);
  if (result.exit_status != 0) fprintf(stderr, "%s: %s\n", arguments[0], result.error);
  return result.exit_status == 0;
}

// links.txt: "LINK -> TARGET" in each line, LINK relative to the folder.
static void make_links(const char *folder) {
  char path[2 * PATH_BYTES], line[PATH_BYTES];
  snprintf(path, sizeof path, "%s/links.txt", folder);
  FILE *file = fopen(path, "r");
  while (file && fgets(line, sizeof line, file)) {
    line[strcspn(line, "\r\n")] = 0;
    char *arrow = strstr(line, " -> ");
    if (!arrow) continue;
    *arrow = 0;
    snprintf(path, sizeof path, "%s/%s", folder, line);
    if (symlink(arrow + 4, path) != 0) fprintf(stderr, "cannot make the link %s\n", path);
  }
  if (file) fclose(file);
}

static bool copy_folder(runner_t *runner, const char *from) {
  char source[PATH_BYTES + 4];
  const char *parent = getenv("TMPDIR");
  snprintf(runner->folder, sizeof runner->folder, "%s/delta-broken-XXXXXX", parent ? parent : "/tmp");
  if (!mkdtemp(runner->folder)) return false;
  snprintf(source, sizeof source, "%s/.", from);
  const char *const arguments[] = {"/bin/cp", "-r", "--no-preserve=mode", source, runner->folder, NULL};
  if (!run_quietly(arguments)) return false;
  make_links(runner->folder);
  return true;
}

static void remove_copy(const runner_t *runner) {
  const char *const arguments[] = {"/bin/rm", "-rf", runner->folder, NULL};
  run_quietly(arguments);
}

// ---- Running a program

// The line that says what is wrong: notes and warnings aside.
static const char *error_line(const delta_process_result_t *result, size_t *out_lines) {
  const char *line = result->error, *found = "";
  *out_lines = 0;
  while (*line) {
    size_t length = strcspn(line, "\n");
    const char *warning = strstr(line, "warning: ");
    bool is_warning = warning && warning < line + length;
    if (length > 0 && !is_warning) {
      found = line;
      ++*out_lines;
    }
    line += length + (line[length] == '\n');
  }
  return found;
}

static bool has_control_bytes(const char *text) {
  for (; *text; ++text) {
    if ((unsigned char)*text < ' ' && *text != '\n') return true;
  }
  return false;
}

// What holds for every run: it ends by itself, in time, in bounds, and a refusal is one line.
static void check_run(const delta_process_result_t *result, const char *what, verdict_t *verdict) {
  size_t lines = 0;
  if (!result->started) fail(verdict, "%s does not start: %.200s", what, result->error);
  if (result->timed_out) fail(verdict, "%s was still running after %g s", what, kill_seconds);
  if (result->signal) fail(verdict, "%s died of signal %d: %.600s", what, result->signal, result->error);
  if (result->exit_status != 0 && result->exit_status != 1 && result->exit_status != 3)
    fail(verdict, "%s: exit status %d: %.600s", what, result->exit_status, result->error);
  // Another process on the same processors makes the clock run, but not the program's own time.
  if (delta_process_is_plain_build() && result->wall_seconds > limit_seconds && result->cpu_seconds > limit_seconds)
    fail(verdict, "%s took %.1f s", what, result->wall_seconds);
  if (delta_process_is_plain_build() && result->peak_bytes > limit_bytes) fail(verdict, "%s took %.0f MB", what, result->peak_bytes / 1e6);
  if (has_control_bytes(result->error)) fail(verdict, "%s prints control characters", what);
  if (result->exit_status == 0) return;
  size_t length = strlen(error_line(result, &lines));
  if (lines != 1) fail(verdict, "%s prints %zu lines, not one: %.600s", what, lines, result->error);
  if (length > MESSAGE_BYTES) fail(verdict, "%s prints a line of %zu bytes", what, length);
}

static void run_program(runner_t *runner, const char *const *arguments, delta_process_result_t *result) {
  char path[2 * PATH_BYTES];
  const char *full[MOST_ARGUMENTS];
  snprintf(path, sizeof path, "%s/%s", runner->programs, arguments[0]);
  full[0] = path;
  size_t count = 1;
  for (; arguments[count]; ++count) full[count] = arguments[count];
  full[count] = NULL;
  delta_process_t process = {.arguments = full, .limit_seconds = kill_seconds};
  delta_process_run(&process, result);
  if (runner->verbose) {
    for (size_t i = 1; i < count; ++i) printf("  %s", full[i]);
    printf("\n  status %d, %.2f s, %.0f MB: %s\n", result->exit_status, result->wall_seconds, result->peak_bytes / 1e6, result->error);
  }
}

// Plans a model. What it needs to be told (a loss, a batch) is given once it asks for it: a model that computes its own loss and one of fixed
// size must not be told.
static void plan(runner_t *runner, const char *model, const char *loss, const char *plan_path, delta_process_result_t *result,
                 verdict_t *verdict) {
  const char *arguments[MOST_ARGUMENTS] = {"deltaplan", model, "-o", plan_path, "--profile", "estimate", "--optimizer", "sgd"};
  size_t count = 6;
  bool gave_loss = false, gave_batch = false;
  for (;;) {
    run_program(runner, arguments, result);
    check_run(result, "deltaplan", verdict);
    bool wants_loss = result->exit_status == 1 && !gave_loss && strstr(result->error, "--loss");
    bool wants_batch = result->exit_status == 1 && !gave_batch && strstr(result->error, "--batch");
    if (!wants_loss && !wants_batch) return;
    arguments[count++] = wants_loss ? "--loss" : "--batch";
    arguments[count++] = wants_loss ? loss : batch;
    gave_loss |= wants_loss;
    gave_batch |= !wants_loss;
  }
}

static void train(runner_t *runner, const char *plan_path, const char *data, delta_process_result_t *result, verdict_t *verdict) {
  const char *with_data[] = {"deltarun", plan_path, "--data", data, "--epochs", "1", NULL};
  const char *synthetic[] = {"deltarun", plan_path, "--data", "synthetic", "--steps", "1", NULL};
  run_program(runner, data ? with_data : synthetic, result);
  check_run(result, "deltarun", verdict);
}

// ---- Judging

// A refusal must name what the index says.
static void check_names(const broken_case_t *test, const delta_process_result_t *result, verdict_t *verdict) {
  size_t lines = 0;
  const char *line = error_line(result, &lines);
  if (*test->any_of && !delta_words_any(line, test->any_of)) fail(verdict, "names none of '%.300s': %.800s", test->any_of, line);
  if (*test->all_of && !delta_words_all(line, test->all_of)) fail(verdict, "does not name all of '%.300s': %.800s", test->all_of, line);
}

typedef struct values_check {
  const char *model, *npz; // npz NULL: only lowers it
} values_check_t;

static int check_values(void *self) {
  const values_check_t *check = self;
  delta_status_t status =
      check->npz ? delta_test_check_values(check->model, check->npz, tolerance) : delta_test_check_import(check->model, atoi(batch));
  if (status) fprintf(stderr, "%s\n", delta_status_message(status));
  int failed = status != NULL;
  delta_status_free(status);
  return failed;
}

// Whether the model can be lowered for evaluation and, with values, gives them.
static void judge_values(runner_t *runner, const broken_case_t *test, const char *model, verdict_t *verdict) {
  char npz[2 * PATH_BYTES];
  values_check_t check = {.model = model};
  if (test->values) {
    snprintf(npz, sizeof npz, "%s/%s", runner->folder, test->values);
    check.npz = npz;
  }
  delta_process_t process = {.function = check_values, .self = &check, .limit_seconds = kill_seconds};
  delta_process_result_t result;
  delta_process_run(&process, &result);
  if (result.exit_status != 0) fail(verdict, "evaluation: %.800s", result.error);
}

// Runs one case. A model without anything to train cannot be planned for training; it is accepted when it can be lowered.
static void judge(runner_t *runner, const broken_case_t *test, verdict_t *verdict) {
  char model[2 * PATH_BYTES], plan_path[2 * PATH_BYTES + 8], data[2 * PATH_BYTES];
  delta_process_result_t result;
  bool is_error = strcmp(test->expect, "error") == 0, is_ok = strcmp(test->expect, "ok") == 0;
  snprintf(model, sizeof model, "%s/%s", runner->folder, test->file);
  snprintf(plan_path, sizeof plan_path, "%s.plan", model); // beside its model, where deltarun looks for that
  if (test->data) snprintf(data, sizeof data, "%s/%s", runner->folder, test->data);
  plan(runner, model, test->data ? "cross_entropy" : "mse", plan_path, &result, verdict);
  bool refused = result.exit_status != 0;
  if (!refused && (test->data || is_error)) {
    train(runner, plan_path, test->data ? data : NULL, &result, verdict);
    refused = result.exit_status != 0;
    if (is_error && refused && strcmp(test->stage, "run") != 0)
      fail(verdict, "planned, and refused only when it ran: %.800s", result.error);
  }
  bool has_nothing_to_train = refused && delta_words_any(result.error, "nothing to train");
  if (is_error && !refused) fail(verdict, "accepted");
  if (is_ok && refused && !has_nothing_to_train) fail(verdict, "refused: %.800s", result.error);
  if (!is_ok && refused && !has_nothing_to_train) check_names(test, &result, verdict);
  if (is_error && has_nothing_to_train) fail(verdict, "reached the loss: %.800s", result.error);
  if (!is_error && (!refused || has_nothing_to_train) && (test->values || has_nothing_to_train)) judge_values(runner, test, model, verdict);
  unlink(plan_path);
}

// ---- The index

static void add_words(const delta_json_document_t *document, const delta_json_value_t *entry, const char *key,
                      char out_words[WORDS_BYTES]) {
  const delta_json_value_t *names = delta_json_find(entry, key);
  *out_words = 0;
  for (const delta_json_value_t *name = names ? delta_json_first(names) : NULL; name; name = delta_json_next(name)) {
    const char *word = "";
    delta_status_free(delta_json_as_string(document, name, key, &word));
    size_t used = strlen(out_words);
    snprintf(out_words + used, WORDS_BYTES - used, "%s%s", used ? "|" : "", word);
  }
}

static const char *optional_string(const delta_json_document_t *document, const delta_json_value_t *entry, const char *key) {
  const char *text = NULL;
  if (delta_json_find(entry, key)) delta_status_free(delta_json_get_string(document, entry, key, &text));
  return text;
}

static void run_case(runner_t *runner, const broken_case_t *test) {
  verdict_t verdict = {0};
  size_t length = strlen(test->file);
  if (runner->filter && !strstr(test->file, runner->filter)) return;
  if (length < 5 || strcmp(test->file + length - 5, ".onnx") != 0) {
    ++runner->left_out;
    return;
  }
  judge(runner, test, &verdict);
  if (verdict.failed) {
    ++runner->failed;
    for (char *byte = verdict.reason; *byte; ++byte) {
      if (*byte == '\n') *byte = ' ';
    }
    printf("FAIL %s: %s\n", test->file, verdict.reason);
  } else {
    ++runner->passed;
    printf("ok %s\n", test->file);
  }
  fflush(stdout);
}

static bool run_index(runner_t *runner, const delta_json_document_t *document) {
  for (const delta_json_value_t *entry = delta_json_first(delta_json_root(document)); entry; entry = delta_json_next(entry)) {
    broken_case_t test = {.file = optional_string(document, entry, "file"),
                          .expect = optional_string(document, entry, "expect"),
                          .stage = optional_string(document, entry, "stage"),
                          .data = optional_string(document, entry, "data"),
                          .values = optional_string(document, entry, "values")};
    add_words(document, entry, "message_names_any_of", test.any_of);
    add_words(document, entry, "message_names_all_of", test.all_of);
    if (!test.file || !test.expect || !test.stage) {
      fprintf(stderr, "index.json: a case has no file, expect or stage\n");
      return false;
    }
    run_case(runner, &test);
  }
  if (runner->left_out > 0) printf("%d cases are no models (checkpoints) and are left out\n", runner->left_out);
  printf("%d passed, %d failed, 0 skipped\n", runner->passed, runner->failed);
  return runner->failed == 0;
}

static bool run_folder(runner_t *runner, const char *folder) {
  char path[PATH_BYTES + 16];
  char *text = NULL;
  size_t size_bytes = 0;
  delta_json_document_t *document = NULL;
  bool passed = false;
  snprintf(path, sizeof path, "%s/index.json", folder);
  delta_status_t status = delta_file_read_all(path, 64 << 20, delta_allocator_system(), &text, &size_bytes);
  if (!status) status = delta_json_parse(text, size_bytes, path, delta_allocator_system(), &document);
  if (status) {
    fprintf(stderr, "%s\n", delta_status_message(status));
  } else if (!copy_folder(runner, folder)) {
    fprintf(stderr, "cannot copy '%s' to '%s'\n", folder, runner->folder);
  } else {
    passed = run_index(runner, document);
    remove_copy(runner);
  }
  delta_status_free(status);
  delta_json_free(document);
  free(text);
  return passed;
}

int main(int argc, char **argv) {
  static runner_t runner;
  const char *folder = NULL, *programs = getenv("DELTA_PROGRAMS");
  bool is_usage = false;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--verbose") == 0) {
      runner.verbose = true;
    } else if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc) {
      runner.filter = argv[++i];
    } else if (argv[i][0] != '-' && !folder) {
      folder = argv[i];
    } else {
      is_usage = true;
    }
  }
  if (is_usage || !folder) {
    fprintf(stderr, "usage: %s FOLDER [--filter TEXT] [--verbose]\n", argv[0]);
    return 2;
  }
  snprintf(runner.programs, sizeof runner.programs, "%s", programs ? programs : DELTA_BINARY_FOLDER);
  return run_folder(&runner, folder) ? 0 : 1;
}
