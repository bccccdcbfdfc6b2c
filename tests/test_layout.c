// Layout: reads every source file and checks that folders depend downwards only, that each library is seen by one folder only, that
// no file names a place on somebody's machine, and that files keep a size a reader can hold.
#include <criterion/criterion.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_BYTES = 1024, LINE_BYTES = 4096, MOST_LINES = 900 };

// ---- Walking the source tree

typedef void (*visit_t)(const char *relative, FILE *file);

static bool has_suffix(const char *text, const char *suffixes) {
  const char *dot = strrchr(text, '.');
  const char *found = dot ? strstr(suffixes, dot) : NULL;
  const char after = found ? found[strlen(dot)] : 0;
  return found && (after == ' ' || after == 0);
}

static bool is_source(const char *name) { return has_suffix(name, ".c .h .inc .cu .cuh"); }

static bool is_text(const char *name) { return !has_suffix(name, ".onnx .npy .npz .gz .png .bin .data"); }

static void walk(const char *folder, bool (*wanted)(const char *name), visit_t visit, int *count) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/%s", DELTA_SOURCE_FOLDER, folder);
  DIR *directory = opendir(path);
  if (!directory) return;
  for (struct dirent *entry; (entry = readdir(directory));) {
    char relative[PATH_BYTES];
    if (entry->d_name[0] == '.' || strncmp(entry->d_name, "build", 5) == 0) continue;
    const int length = snprintf(relative, sizeof relative, "%s%s%s", folder, *folder ? "/" : "", entry->d_name);
    cr_assert_lt(length, PATH_BYTES);
    if (entry->d_type == DT_DIR) {
      walk(relative, wanted, visit, count);
    } else if (entry->d_type == DT_REG && wanted(entry->d_name)) {
      snprintf(path, sizeof path, "%s/%.900s", DELTA_SOURCE_FOLDER, relative);
      FILE *file = fopen(path, "r");
      cr_assert_not_null(file, "cannot read %s", path);
      visit(relative, file);
      fclose(file);
      ++*count;
    }
  }
  closedir(directory);
}

// Whether `text` begins with one of the words in `prefixes`, which are separated by spaces.
static bool begins_with_any(const char *text, const char *prefixes) {
  while (*prefixes) {
    const size_t length = strcspn(prefixes, " ");
    if (strncmp(text, prefixes, length) == 0) return true;
    prefixes += length;
    prefixes += strspn(prefixes, " ");
  }
  return false;
}

// ---- Rules

// What the files below a path may include from the project. The first rule that fits counts.
typedef struct folder_rule {
  const char *path, *allowed;
} folder_rule_t;

static const folder_rule_t folder_rules[] = {
    {"include/delta/", "delta/"},
    {"base/", "base/ delta/"},
    {"onnx/", "onnx/ base/ delta/"},
    {"plans/problem.h", "base/"}, // the planner's view: it must not lead to onnx/
    {"plans/schedule.h", "base/ plans/problem.h"},
    {"plans/", "plans/ onnx/ base/ delta/"},
    {"planner/", "planner/ plans/problem.h plans/schedule.h plans/occupancy.h base/ delta/"},
    {"runtime/cpu/",
     "runtime/cpu/ runtime/device.h runtime/kernel_rows.h runtime/select.h planner/ plans/ onnx/reference/ onnx/graph/ base/ delta/"},
    {"runtime/cuda/",
     "runtime/cuda/ runtime/cache.h runtime/device.h runtime/kernel_rows.h runtime/select.h planner/ plans/ onnx/graph/ base/ delta/"},
    {"runtime/", "runtime/ planner/ plans/ onnx/ base/ delta/"},
    {"cli/", "cli/ runtime/ planner/ plans/ onnx/ base/ delta/"},
    {"examples/", "delta/"},
};

static const char project_folders[] = "delta/ base/ onnx/ plans/ planner/ runtime/ cli/ tests/";

// Libraries, and the only places that see them.
typedef struct library_rule {
  const char *headers, *places;
} library_rule_t;

static const library_rule_t library_rules[] = {
    {"onnx.pb-c.h protobuf-c/", "onnx/ tests/"}, // tests write model files
    {"omp.h oneapi/ dnnl", "runtime/cpu/"},
    {"cuda cudnn cublas nvrtc nvToolsExt", "runtime/cuda/ tests/cuda/"},
    {"cjson/", "base/json"},
    {"zlib.h", "runtime/data/ tests/"},
};

// The rule that refuses `header` in the file `relative`, in words; NULL when none does.
static const char *refused_by(const char *relative, const char *header) {
  for (size_t i = 0; i < sizeof library_rules / sizeof *library_rules; ++i) {
    const library_rule_t *rule = &library_rules[i];
    if (begins_with_any(header, rule->headers) && !begins_with_any(relative, rule->places)) return rule->places;
  }
  if (!begins_with_any(header, project_folders)) return NULL;
  for (size_t i = 0; i < sizeof folder_rules / sizeof *folder_rules; ++i) {
    const folder_rule_t *rule = &folder_rules[i];
    if (begins_with_any(relative, rule->path)) return begins_with_any(header, rule->allowed) ? NULL : rule->allowed;
  }
  return NULL;
}

// The header an #include line names, inside `line`; NULL for other lines.
static char *included_header(char *line) {
  char *cursor = line + strspn(line, " \t");
  if (*cursor != '#') return NULL;
  ++cursor;
  cursor += strspn(cursor, " \t");
  if (strncmp(cursor, "include", 7) != 0) return NULL;
  cursor += 7;
  cursor += strspn(cursor, " \t");
  if (*cursor != '"' && *cursor != '<') return NULL;
  ++cursor;
  cursor[strcspn(cursor, "\">")] = 0;
  return cursor;
}

static void check_source(const char *relative, FILE *file) {
  char line[LINE_BYTES];
  int line_count = 0;
  for (; fgets(line, sizeof line, file); ++line_count) {
    const bool parallel = strstr(line, "#pragma omp") == line + strspn(line, " \t");
    cr_expect(!parallel || begins_with_any(relative, "runtime/cpu/"), "%s uses OpenMP, which only runtime/cpu may", relative);
    const char *header = included_header(line);
    const char *rule = header ? refused_by(relative, header) : NULL;
    cr_expect_null(rule, "%s includes '%s' against the rule '%s'", relative, header, rule);
  }
  cr_expect_leq(line_count, MOST_LINES, "%s has %d lines; split it", relative, line_count);
}

Test(layout, folders_depend_downwards) {
  static const char *const folders[] = {"include", "base", "onnx", "plans", "planner", "runtime", "cli", "examples", "tests"};
  int count = 0;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; ++i) walk(folders[i], is_source, check_source, &count);
  cr_assert_gt(count, 40, "only %d source files were found", count);
}

// The rules themselves: each of these must be refused or accepted.
typedef struct rule_case {
  const char *relative, *header;
  bool allowed;
} rule_case_t;

static const rule_case_t rule_cases[] = {
    {"base/map.c", "base/map.h", true},
    {"planner/search.c", "plans/problem.h", true},
    {"planner/search.c", "plans/plan.h", false},
    {"planner/search.c", "onnx/graph/graph.h", false},
    {"planner/search.c", "runtime/device.h", false},
    {"base/map.c", "onnx/model.h", false},
    {"onnx/model.c", "plans/plan.h", false},
    {"runtime/cpu/conv.c", "runtime/cuda/device.h", false},
    {"plans/plan_read.c", "cjson/cJSON.h", false},
    {"runtime/executor.c", "onnx.pb-c.h", false},
    {"runtime/executor.c", "omp.h", false},
    {"runtime/cpu/conv.c", "oneapi/dnnl/dnnl.h", true},
    {"runtime/cpu/conv.c", "cuda_runtime.h", false},
    {"examples/train.c", "base/status.h", false},
};

Test(layout, rules_refuse_what_they_should) {
  for (size_t i = 0; i < sizeof rule_cases / sizeof *rule_cases; ++i) {
    cr_expect_eq(refused_by(rule_cases[i].relative, rule_cases[i].header) == NULL, rule_cases[i].allowed, "%s including %s",
                 rule_cases[i].relative, rule_cases[i].header);
  }
}

// Split so that this file does not name them.
static const char *const machine_paths[] = {
    "/ho"
    "me/",
    "/ro"
    "ot/",
    "/Us"
    "ers/",
    "/wo"
    "rk/",
    "/mn"
    "t/"};

static void check_machine_paths(const char *relative, FILE *file) {
  char line[LINE_BYTES];
  for (int number = 1; fgets(line, sizeof line, file); ++number) {
    for (size_t i = 0; i < sizeof machine_paths / sizeof *machine_paths; ++i) {
      cr_expect_null(strstr(line, machine_paths[i]), "%s:%d names a place on one machine: %s", relative, number, machine_paths[i]);
    }
  }
}

Test(layout, no_machine_paths) {
  int count = 0;
  walk("", is_text, check_machine_paths, &count);
  walk(".ci", is_text, check_machine_paths, &count);
  cr_assert_gt(count, 40, "only %d files were found", count);
}
