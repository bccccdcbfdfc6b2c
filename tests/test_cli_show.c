// --report, --trace and budgets below the least, as users meet them: of models, plans and problem files, and of runs.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "planner/planner.h"
#include "tests/support/data_files.h"
#include "tests/support/model_write.h"
#include "tests/support/shell.h"

enum { SAMPLES = 22 };

// Names that would leave their strings, if they could.
static const char model_text[] =
    "input x float32 [N,4]\n"
    "init w1 float32 [4,64] 0.1\n"
    "init </script><img/src=x> float32 [64] 0\n"
    "init w2 float32 [64,3] 0.2\n"
    "node MatMul x w1 -> a\n"
    "node Add a </script><img/src=x> -> b\n"
    "node Tanh b -> c\n"
    "node MatMul c w2 -> logits\n"
    "output logits\n";

static const char problem_text[] =
    "{\"budget_bytes\": 11534336, \"h2d_bytes_per_s\": 1048576000, \"d2h_bytes_per_s\": 1048576000, \"tensors\": ["
    "{\"name\": \"x\", \"bytes\": 1048576, \"initial\": true, \"pinned\": true}, {\"name\": \"a\", \"bytes\": 4194304},"
    "{\"name\": \"</script>b\", \"bytes\": 4194304}, {\"name\": \"c\", \"bytes\": 4194304}, {\"name\": \"d\", \"bytes\": 4194304},"
    "{\"name\": \"e\", \"bytes\": 1048576, \"output\": true}], \"nodes\": ["
    "{\"name\": \"f\", \"compute_s\": 0.006, \"inputs\": [\"x\"], \"outputs\": [\"a\"]},"
    "{\"name\": \"g\", \"compute_s\": 0.004, \"inputs\": [\"a\"], \"outputs\": [\"</script>b\"]},"
    "{\"name\": \"h\", \"compute_s\": 0.014, \"inputs\": [\"</script>b\"], \"outputs\": [\"c\"]},"
    "{\"name\": \"i\", \"compute_s\": 0.014, \"inputs\": [\"c\"], \"outputs\": [\"d\"]},"
    "{\"name\": \"j\", \"compute_s\": 0.014, \"inputs\": [\"d\", \"a\"], \"outputs\": [\"e\"]}]}";

static void write_array(const delta_test_folder_t *folder, const char *name, const char *descr, const char *shape, const void *data,
                        size_t size_bytes) {
  delta_test_bytes_t bytes = {0};
  delta_test_npy(&bytes, descr, shape, data, size_bytes);
  delta_test_folder_write(folder, name, bytes.data, bytes.count);
  delta_test_bytes_free(&bytes);
}

static void open_folder(delta_test_folder_t *folder) {
  char path[DELTA_TEST_PATH_BYTES];
  float x[SAMPLES][4];
  int64_t labels[SAMPLES];
  for (int i = 0; i < SAMPLES; ++i) {
    for (int k = 0; k < 4; ++k) x[i][k] = (float)((7 * i + k) % 5) / 5;
    labels[i] = i % 3;
  }
  delta_test_folder_make(folder);
  delta_test_write_model(model_text, delta_test_folder_path(folder, "model.onnx", path));
  delta_test_folder_write(folder, "problem.json", problem_text, sizeof problem_text - 1);
  write_array(folder, "x.npy", "<f4", "(22, 4)", x, sizeof x);
  write_array(folder, "y.npy", "<i8", "(22,)", labels, sizeof labels);
}

#define PLAN "deltaplan model.onnx --batch 8 --loss cross_entropy --profile estimate --time-limit 1 "
#define RUN  "deltarun a.plan --data x=x.npy,label=y.npy --steps 5 --no-shuffle "

Test(cli_show, models_plans_and_problems, .timeout = 240) {
  delta_test_folder_t folder;
  open_folder(&folder);
  static const char *const lines[] = {
      PLAN "-o a.plan --report a.html --trace a.json",
      // A plan is shown as when it was made, but for the other budgets.
      "deltaplan a.plan --report b.html --trace b.json && cmp a.json b.json",
      "mkdir sub && cp a.plan sub && deltaplan sub/a.plan --model model.onnx --trace c.json && cmp a.json c.json",
      "deltaplan problem.json --time-limit 1 --report p.html --trace p.json",
      PLAN "--accumulate 2 --report acc.html && grep -q accumulate acc.html && grep -q apply acc.html",
      // No tag but the page's own, and the names are there.
      "for f in a b p; do test $(grep -c '<img' $f.html) = 0 && test $(grep -o '</script>' $f.html | wc -l) = 2 || exit 1; done",
      "grep -q '\\\\u003c/script>\\\\u003cimg' a.html && grep -q '\\\\u003c/script>b' p.html",
      "grep -q '\"fits\":true' a.html && grep -q '\"points\":\\[\\]' b.html && grep -q '\"fits\":true' p.html",
      // Training and evaluation are both there.
      "grep -q '\"program\":\"train\"' a.html && grep -q '\"program\":\"evaluate\"' a.html",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; ++i) delta_test_shell_works(&folder, lines[i]);
  delta_test_folder_remove(&folder);
}

Test(cli_show, runs, .timeout = 240) {
  delta_test_folder_t folder;
  open_folder(&folder);
  static const char *const lines[] = {
      PLAN "-o a.plan --trace a.json",
      RUN
      "--trace m.json && grep -q '\"times\": \"measured\"' m.json && grep -q 'train, batch 8' m.json && grep -q 'train, batch 6' m.json",
      // Before the last batch of the epoch nothing of its program has run.
      RUN "--trace n.json --trace-step 2 && grep -q 'train, batch 8' n.json && ! grep -q 'train, batch 6' n.json",
      // What is measured holds what is planned.
      "for f in a m n; do grep -o '\"live_bytes\": [0-9]*' $f.json | sort -t: -nk2 | tail -1; done | sort -u | wc -l | grep -qx 1",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; ++i) delta_test_shell_works(&folder, lines[i]);
  delta_test_shell_fails(&folder, 1, RUN "--trace o.json --trace-step 9 && false", "--trace-step|9|5|o.json");
  delta_test_shell_works(&folder, "! test -e o.json");
  delta_test_folder_remove(&folder);
}

typedef struct failing_line {
  int exit_status;
  const char *line, *words;
} failing_line_t;

Test(cli_show, faults, .timeout = 240) {
  static const failing_line_t cases[] = {
      {1, PLAN "--report /no/such/r.html", "/no/such/r.html"},
      {1, PLAN "--trace /no/such/t.json", "/no/such/t.json"},
      {1, PLAN "--report .", "."},
      {1, PLAN "--report /dev/full", "/dev/full"},
      {1, PLAN "--report model.onnx", "model.onnx"},
      {1, PLAN "--report same --trace same", "--report|--trace|same"},
      {1, PLAN "-o same --report same", "-o|--report|same"},
      {1, "trap '' XFSZ; ulimit -f 4; " PLAN "--report r.html", "r.html|File too large"},
      {1, "trap '' XFSZ; ulimit -f 1; " PLAN "--trace t.json", "t.json|File too large"},
      {1, "trap '' XFSZ; ulimit -f 4; deltaplan a.plan --report r.html", "r.html|File too large"},
      {1, "trap '' XFSZ; ulimit -f 4; deltaplan problem.json --time-limit 1 --report r.html > out", "r.html|File too large"},
      {1, "deltaplan problem.json --report problem.json", "--report|problem.json"},
      {1, "deltaplan problem.json --report r --trace r", "--report|--trace"},
      {1, "deltaplan a.plan", "a.plan|--report|deltarun"},
      {1, "deltaplan a.plan --report a.plan", "--report|a.plan"},
      {1, "deltaplan a.plan --report r.html --budget 1GiB", "--budget"},
      {1, "mkdir empty; cp a.plan empty; deltaplan empty/a.plan --report r.html", "model.onnx|--model"},
      {1, "deltaplan a.plan --model x.npy --report r.html", "x.npy"},
      {1, "sed 's/\"peak_bytes\": [0-9]*/\"peak_bytes\": 64/g' a.plan > bad.plan; deltaplan bad.plan --report r.html", "train|peak"},
      {1, "head -c 900 a.plan > cut.plan; deltaplan cut.plan --report r.html", "cut.plan"},
      {1, "deltaplan model.onnx --model model.onnx --loss mse --batch 2", "--model|model.onnx"},
      {1, RUN "--trace /no/such/t.json", "/no/such/t.json"},
      {1, RUN "--trace model.onnx", "--trace|model.onnx"},
      {1, RUN "--trace x.npy", "--trace|x.npy"},
      {1, RUN "-o same --trace same", "-o|--trace|same"},
      {1, "trap '' XFSZ; ulimit -f 1; " RUN "--trace t.json > out", "t.json|File too large"},
      {1,
       RUN "--trace t2.json --checkpoint ck > out && deltarun a.plan --data x=x.npy,label=y.npy --steps 7 --no-shuffle --checkpoint ck "
           "--resume --trace "
           "u.json --trace-step 3 > out",
       "--trace-step|3|7|u.json"},
      {2, RUN "--trace-step 3", "--trace-step|--trace"},
      {2, RUN "--trace t.json --trace-step 0", "--trace-step|1"},
  };
  delta_test_folder_t folder;
  open_folder(&folder);
  delta_test_shell_works(&folder, PLAN "-o a.plan");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i)
    delta_test_shell_fails(&folder, cases[i].exit_status, cases[i].line, cases[i].words);
  delta_test_shell_works(&folder, "! ls | grep -E 'r.html|t.json|same|tmp'");
  delta_test_folder_remove(&folder);
}

// Below the least budget: the exit status, and one line with the least, which does, the step and the tensors that set it.
static void expect_least(const delta_test_folder_t *folder, const char *policy) {
  char line[512];
  snprintf(line, sizeof line, PLAN "--policy %s --budget 1KiB", policy);
  delta_test_shell_fails(folder, 3, line, "--budget|step|largest tensors");
  const char *least = strstr(delta_test_shell(folder, line)->error, "--budget ");
  cr_assert_not_null(least, "%s names no budget", policy);
  const unsigned long long least_bytes = strtoull(least + strlen("--budget "), NULL, 10);
  snprintf(line, sizeof line, PLAN "--policy %s --budget %llu", policy, least_bytes);
  delta_test_shell_works(folder, line);
  snprintf(line, sizeof line, PLAN "--policy %s --budget %llu", policy, least_bytes - 4096);
  delta_test_shell_fails(folder, 3, line, "--budget|step|largest tensors");
}

Test(cli_show, least_budgets, .timeout = 240) {
  delta_test_folder_t folder;
  open_folder(&folder);
  for (int i = 0; i < DELTA_POLICY_COUNT; ++i) {
    // A soft policy misses a budget by what its rule makes for that budget: it has no least. A solver's least is what it finds in time.
    if (i != DELTA_POLICY_DELTA_RELEASED && i != DELTA_POLICY_CHECKMATE) expect_least(&folder, delta_policy_info((delta_policy_t)i)->name);
  }
  delta_test_shell_fails(&folder, 3, PLAN "--policy delta-released --budget 1KiB", "--budget|step|largest tensors");
  delta_test_shell_fails(&folder, 3, "deltaplan problem.json --budget 6MiB --time-limit 0.2", "6291456|10485760|step|j|largest tensors");
  delta_test_folder_remove(&folder);
}
