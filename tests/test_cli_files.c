// The two programs and files that are not what they should be: pipes and folders in the place of data, plans that are none, file systems that are full
// or may not be written, data that shrinks while it is read, two runs with one output.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/words.h"
#include "tests/support/workplace.h"

#define PLAN "deltaplan model.onnx -o a.plan --loss cross_entropy --batch 4 --profile estimate"
#define DATA " --data x=x.npy,label=y.npy"

static void open_with_plan(delta_workplace_t *w) {
  delta_workplace_open(w);
  delta_workplace_expect(w, PLAN);
}

Test(cli_files, what_is_no_data, .timeout = 120) {
  static const delta_line_case_t cases[] = {
      {"mkfifo pipe; deltarun a.plan --data x=pipe,label=y.npy --steps 1", "--data|pipe|regular file"},
      {"deltarun a.plan --data csv:pipe --steps 1", "--data|pipe|regular file"},
      {"deltarun a.plan --data idx:pipe,pipe --steps 1", "--data|pipe|regular file"},
      {"mkfifo pipe.npz; deltarun a.plan --data pipe.npz --steps 1", "--data|pipe.npz|regular file"},
      {"mkdir folder; deltarun a.plan --data x=folder,label=y.npy --steps 1", "--data|folder"},
      {"mkdir folder.npz; deltarun a.plan --data folder.npz --steps 1", "--data|folder.npz"},
      {"ln -s loop.npy loop.npy; deltarun a.plan --data x=loop.npy,label=y.npy --steps 1", "--data|loop.npy"},
      {"ln -s nowhere.npy dead.npy; deltarun a.plan --data x=dead.npy,label=y.npy --steps 1", "--data|dead.npy"},
      {"deltarun a.plan --data x=/dev/zero,label=y.npy --steps 1", "--data|/dev/zero"},
      {"head -c 100 x.npy > cut.npy; deltarun a.plan --data x=cut.npy,label=y.npy --steps 1", "--data|cut.npy"},
      {": > empty.npy; deltarun a.plan --data x=empty.npy,label=y.npy --steps 1", "--data|empty.npy"},
  };
  delta_workplace_t w;
  open_with_plan(&w);
  DELTA_EXPECT_FAILURES(&w, 1, cases);
  delta_workplace_expect(&w, "ln -s x.npy link.npy; deltarun a.plan --data x=link.npy,label=y.npy --steps 1");
  delta_workplace_close(&w);
}

Test(cli_files, what_is_no_plan, .timeout = 120) {
  static const delta_line_case_t cases[] = {
      {"head -c 100000000 /dev/zero | tr '\\0' '[' > deep.plan; deltarun deep.plan" DATA " --steps 1; s=$?; rm deep.plan; exit $s",
       "deep.plan"},
      {"truncate -s 3G sparse.plan; deltarun sparse.plan" DATA " --steps 1", "sparse.plan"},
      {"cp model.onnx binary.plan; deltarun binary.plan" DATA " --steps 1", "binary.plan"},
      {"head -c 5000 /dev/zero > zeros.plan; deltarun zeros.plan" DATA " --steps 1", "zeros.plan"},
      {"tr '\\0-\\377' '\\200-\\377' < a.plan > high.plan; deltarun high.plan" DATA " --steps 1", "high.plan"},
      {"head -c 1 a.plan > cut.plan; deltarun cut.plan" DATA " --steps 1", "cut.plan"},
      {"head -c 3000 a.plan > cut.plan; deltarun cut.plan" DATA " --steps 1", "cut.plan"},
      {"head -c -3 a.plan > cut.plan; deltarun cut.plan" DATA " --steps 1", "cut.plan"},
      {"cat a.plan a.plan > twice.plan; deltarun twice.plan" DATA " --steps 1", "twice.plan"},
      {"printf '{}' > none.plan; deltarun none.plan" DATA " --steps 1", "none.plan|format"},
      {"mkfifo pipe.plan; deltarun pipe.plan" DATA " --steps 1", "pipe.plan|regular file"},
  };
  delta_workplace_t w;
  open_with_plan(&w);
  DELTA_EXPECT_FAILURES(&w, 1, cases);
  delta_workplace_close(&w);
}

// ---- Outputs

// A file system that has no room left, or may not be written: mounted where that is allowed.
typedef struct mount_case {
  const char *options;
  const char *fill; // run in it before
  const char *words;
} mount_case_t;

static bool mounts(const delta_workplace_t *w, const mount_case_t *c) {
  char line[512];
  snprintf(line, sizeof line,
           "mkdir -p small; mount -t tmpfs -o size=16k tmpfs small 2>/dev/null && (cd small; %s) && mount -o remount,%s small", c->fill,
           c->options);
  return delta_workplace_run(w, line)->exit_status == 0;
}

Test(cli_files, file_systems_that_cannot_be_written, .timeout = 120) {
  static const mount_case_t mount_cases[] = {
      {"size=16k", "head -c 16k /dev/zero > rest", "small|No space"},
      {"ro", "true", "small|Read-only"},
  };
  static const char *const lines[] = {
      "deltaplan model.onnx -o small/b.plan --loss cross_entropy --batch 4 --profile estimate",
      "deltaplan model.onnx --save-profile small/p.json --loss cross_entropy --batch 4",
      "deltarun a.plan" DATA " --steps 300 -o small/t.onnx --metrics small/m.jsonl",
      "deltarun a.plan" DATA " --steps 300 --metrics small/m.jsonl",
  };
  delta_workplace_t w;
  open_with_plan(&w);
  size_t mounted = 0;
  for (size_t i = 0; i < sizeof mount_cases / sizeof *mount_cases; ++i) {
    if (!mounts(&w, &mount_cases[i])) continue;
    ++mounted;
    for (size_t k = 0; k < sizeof lines / sizeof *lines; ++k) {
      const delta_line_case_t line = {lines[k], mount_cases[i].words};
      delta_workplace_expect_failures(&w, 1, &line, 1);
    }
    const delta_process_result_t *result = delta_workplace_run(&w, "ls -A small | grep -v -e rest -e m.jsonl; umount small");
    cr_expect_str_empty(result->output, "%s: half a file was left: %s", mount_cases[i].options, result->output);
  }
  delta_workplace_close(&w);
  if (mounted == 0) cr_skip_test("no file system can be mounted here");
}

// Each run writes aside under a name of its own and renames: the file is that of one of them, whole.
Test(cli_files, two_runs_with_one_output, .timeout = 120) {
  delta_workplace_t w;
  open_with_plan(&w);
  delta_workplace_expect(&w, "for k in 1 2; do deltarun a.plan" DATA
                             " --epochs 3 --seed $k -o t$k.onnx; done; "
                             "deltarun a.plan" DATA
                             " --epochs 3 --seed 1 -o t.onnx & first=$!; "
                             "deltarun a.plan" DATA
                             " --epochs 3 --seed 2 -o t.onnx; second=$?; wait $first && [ $second = 0 ] && "
                             "{ cmp -s t.onnx t1.onnx || cmp -s t.onnx t2.onnx; }");
  delta_workplace_expect(
      &w,
      "deltaplan model.onnx -o b.plan --loss mse --batch 4 --profile estimate & first=$!; "
      "deltaplan model.onnx -o b.plan --loss mse --batch 4 --profile estimate; second=$?; wait $first && [ $second = 0 ] && "
      "deltarun b.plan --data x=x.npy,label=target.npy --steps 1");
  const delta_process_result_t *result = delta_workplace_run(&w, "ls -A | grep -c -e '^t\\.onnx.' -e '^b\\.plan.' -e '^\\.'");
  cr_expect_str_eq(result->output, "0\n", "files were left aside: %s", result->output);
  delta_workplace_close(&w);
}

// ---- Data that changes while it is read

Test(cli_files, data_that_shrinks_while_training, .timeout = 120) {
  static const char *const changes[] = {"truncate -s 200 x.npy", "truncate -s 0 x.npy"};
  for (size_t i = 0; i < sizeof changes / sizeof *changes; ++i) {
    delta_workplace_t w;
    open_with_plan(&w);
    char line[512];
    snprintf(line, sizeof line,
             "deltarun a.plan" DATA
             " --steps 1000000000 --metrics m.jsonl -o t.onnx & p=$!; until [ -s m.jsonl ]; do sleep 0.02; done; %s; wait $p",
             changes[i]);
    const delta_line_case_t shrinks = {line, "step|x.npy"};
    delta_workplace_expect_failures(&w, 1, &shrinks, 1);
    cr_expect_not(delta_workplace_has(&w, "t.onnx"), "%s: a model was written", changes[i]);
    delta_workplace_close(&w);
  }
}
