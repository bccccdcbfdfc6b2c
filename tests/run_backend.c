// run_backend FOLDER [--exceptions FILE] [--kernels NAME] [--filter TEXT] [--verbose]: runs a collection of ONNX backend tests, a line a case.
//
// FOLDER holds either list.txt (test, operator, opset, types, tier) with node-tests.tar.gz, or folders of tests (node/test_X/model.onnx), of which those that
// need what Delta does not offer are left out and not counted. FILE, by default FOLDER/skip.txt where there is one, names tests that cannot pass. Exit status:
// 0 when nothing failed, 1 when something did, 2 for wrong usage.
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/backend_case.h"

enum { PATH_BYTES = 1024, LINE_BYTES = 4096 };

static const delta_backend_kernels_t kernel_table[] = {
#define KERNELS_ROW(name, function) {name, function},
    DELTA_BACKEND_KERNELS(KERNELS_ROW)
#undef KERNELS_ROW
};

typedef struct arguments {
  const char *folder;
  const char *filter;
  const char *exceptions; // NULL: skip.txt of the folder
  const delta_backend_kernels_t *kernels;
  bool verbose;
} arguments_t;

typedef struct tally {
  int passed, failed, skipped;
} tally_t;

// ---- Arguments

static bool find_kernels(const char *name, const delta_backend_kernels_t **out_kernels) {
  for (size_t i = 0; i < sizeof kernel_table / sizeof *kernel_table; ++i) {
    if (strcmp(kernel_table[i].name, name) != 0) continue;
    *out_kernels = &kernel_table[i];
    return true;
  }
  return false;
}

static bool parse_arguments(int argc, char **argv, arguments_t *out) {
  *out = (arguments_t){.kernels = &kernel_table[0]};
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--verbose") == 0) {
      out->verbose = true;
    } else if (strcmp(argv[i], "--filter") == 0 && i + 1 < argc) {
      out->filter = argv[++i];
    } else if (strcmp(argv[i], "--exceptions") == 0 && i + 1 < argc) {
      out->exceptions = argv[++i];
    } else if (strcmp(argv[i], "--kernels") == 0 && i + 1 < argc) {
      if (!find_kernels(argv[++i], &out->kernels)) return false;
    } else if (argv[i][0] != '-' && !out->folder) {
      out->folder = argv[i];
    } else {
      return false;
    }
  }
  return out->folder != NULL;
}

static void print_usage(const char *program) {
  fprintf(stderr, "usage: %s FOLDER [--exceptions FILE] [--kernels", program);
  for (size_t i = 0; i < sizeof kernel_table / sizeof *kernel_table; ++i) fprintf(stderr, "%c%s", i ? '|' : ' ', kernel_table[i].name);
  fprintf(stderr, "] [--filter TEXT] [--verbose]\n");
}

// ---- One case

// Finds the row of `test` in the file of exceptions (test, whether it can pass, why: separated by tabs) and copies the reason.
static bool cannot_pass(const arguments_t *arguments, const char *test, char out_reason[LINE_BYTES]) {
  char path[PATH_BYTES], line[LINE_BYTES];
  snprintf(path, sizeof path, "%s/skip.txt", arguments->folder);
  FILE *file = fopen(arguments->exceptions ? arguments->exceptions : path, "r");
  bool found = false;
  while (file && !found && fgets(line, sizeof line, file)) {
    char *rest = line, *name = strsep(&rest, "\t"), *verdict = strsep(&rest, "\t"), *why = strsep(&rest, "\n");
    if (!name || !verdict || !why || strcmp(name, test) != 0 || strcmp(verdict, "cannot pass") != 0) continue;
    snprintf(out_reason, LINE_BYTES, "%s", why);
    found = true;
  }
  if (file) fclose(file);
  return found;
}

static void run_case(const arguments_t *arguments, const char *name, const char *folder, const char *tier, tally_t *tally) {
  if (arguments->filter && !strstr(name, arguments->filter)) return;
  char reason[DELTA_REASON_BYTES], exception[LINE_BYTES];
  const bool is_exception = cannot_pass(arguments, name, exception);
  const delta_backend_case_t backend_case = {folder, tier, is_exception ? exception : NULL, arguments->kernels};
  switch (delta_backend_run_case(&backend_case, reason)) {
    case DELTA_OUTCOME_PASSED:
      ++tally->passed;
      printf("ok %s%s%s\n", name, reason[0] ? ": " : "", reason);
      break;
    case DELTA_OUTCOME_FAILED:
      ++tally->failed;
      printf("FAIL %s: %s\n", name, reason);
      break;
    case DELTA_OUTCOME_SKIPPED:
      ++tally->skipped;
      printf("skip %s: %s\n", name, reason);
      break;
    case DELTA_OUTCOME_LEFT_OUT:
      printf("left out %s: %s\n", name, reason);
      break;
  }
  if (arguments->verbose) fflush(stdout); // a crash then shows the case before it
}

// ---- Collections with a list

static bool has_file(const char *folder, const char *name) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return access(path, R_OK) == 0;
}

static int remove_entry(const char *path, const struct stat *facts, int kind, struct FTW *walk) {
  (void)facts;
  (void)kind;
  (void)walk;
  return remove(path);
}

// Unpacks the archive into a new folder; false after a message.
static bool unpack(const char *folder, char out_folder[PATH_BYTES]) {
  extern char **environ;
  char archive[PATH_BYTES];
  snprintf(archive, sizeof archive, "%s/node-tests.tar.gz", folder);
  const char *parent = getenv("TMPDIR");
  snprintf(out_folder, PATH_BYTES, "%s/delta-backend-XXXXXX", parent ? parent : "/tmp");
  if (!mkdtemp(out_folder)) {
    fprintf(stderr, "cannot make the folder '%s': %s\n", out_folder, strerror(errno));
    return false;
  }
  char *command[] = {"tar", "-xzf", archive, "-C", out_folder, NULL};
  pid_t process;
  int result = 0;
  if (posix_spawnp(&process, command[0], NULL, NULL, command, environ) != 0 || waitpid(process, &result, 0) < 0 || result != 0) {
    fprintf(stderr, "cannot unpack '%s' with tar\n", archive);
    return false;
  }
  return true;
}

static bool run_list(const arguments_t *arguments, const char *tests_folder, tally_t *tally) {
  char path[PATH_BYTES], line[LINE_BYTES], case_folder[PATH_BYTES];
  snprintf(path, sizeof path, "%s/list.txt", arguments->folder);
  FILE *file = fopen(path, "r");
  if (!file) {
    fprintf(stderr, "cannot read '%s': %s\n", path, strerror(errno));
    return false;
  }
  while (fgets(line, sizeof line, file)) {
    char *tier = strrchr(line, '\t');
    if (line[0] == '#' || !tier) continue;
    ++tier;
    tier[strcspn(tier, "\n")] = 0;
    const char *name = line;
    line[strcspn(line, "\t")] = 0;
    snprintf(case_folder, sizeof case_folder, "%s/%.400s", tests_folder, name);
    run_case(arguments, name, case_folder, tier, tally);
  }
  fclose(file);
  return true;
}

static bool run_packed(const arguments_t *arguments, tally_t *tally) {
  char folder[PATH_BYTES];
  const bool fine = unpack(arguments->folder, folder) && run_list(arguments, folder, tally);
  nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
  return fine;
}

// ---- Collections without a list

static int not_hidden(const struct dirent *entry) { return entry->d_name[0] != '.'; }

// Calls for each entry of `folder`, in order of names.
static bool for_each_entry(const char *folder, void (*function)(const char *name, const char *path, void *self), void *self) {
  struct dirent **entries;
  const int count = scandir(folder, &entries, not_hidden, alphasort);
  if (count < 0) return false;
  for (int i = 0; i < count; ++i) {
    char path[PATH_BYTES];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
    if (length < PATH_BYTES) function(entries[i]->d_name, path, self);
    free(entries[i]);
  }
  free(entries);
  return true;
}

typedef struct plain_run {
  const arguments_t *arguments;
  const char *group; // name of the folder of tests
  tally_t *tally;
} plain_run_t;

static void run_plain_case(const char *name, const char *path, void *self) {
  const plain_run_t *run = self;
  if (!has_file(path, "model.onnx")) return;
  char full_name[PATH_BYTES];
  snprintf(full_name, sizeof full_name, "%s/%.400s", run->group, name);
  run_case(run->arguments, full_name, path, NULL, run->tally);
}

static void run_plain_group(const char *name, const char *path, void *self) {
  plain_run_t run = *(const plain_run_t *)self;
  run.group = name;
  for_each_entry(path, run_plain_case, &run);
}

static bool run_plain(const arguments_t *arguments, tally_t *tally) {
  plain_run_t run = {.arguments = arguments, .tally = tally};
  if (for_each_entry(arguments->folder, run_plain_group, &run)) return true;
  fprintf(stderr, "cannot read the folder '%s': %s\n", arguments->folder, strerror(errno));
  return false;
}

int main(int argc, char **argv) {
  arguments_t arguments;
  if (!parse_arguments(argc, argv, &arguments)) {
    print_usage(argv[0]);
    return 2;
  }
  tally_t tally = {0};
  bool fine;
  if (!has_file(arguments.folder, "list.txt")) {
    fine = run_plain(&arguments, &tally);
  } else if (has_file(arguments.folder, "node-tests.tar.gz")) {
    fine = run_packed(&arguments, &tally);
  } else {
    fine = run_list(&arguments, arguments.folder, &tally);
  }
  if (!fine) return 1;
  printf("%d passed, %d failed, %d skipped\n", tally.passed, tally.failed, tally.skipped);
  return tally.failed > 0;
}
