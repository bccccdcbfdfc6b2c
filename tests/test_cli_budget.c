// Budgets of a running deltarun as users meet them: below the plan's at the start, from a file that changes, and signals.
#include <criterion/criterion.h>

#include "tests/support/model_write.h"
#include "tests/support/sanitized.h"
#include "tests/support/shell.h"

static const char model_text[] =
    "input x float32 [N,16]\n"
    "init w1 float32 [16,64] 0.1\n"
    "init w2 float32 [64,64] 0.05\n"
    "init w3 float32 [64,3] 0.2\n"
    "node MatMul x w1 -> a\n"
    "node Tanh a -> b\n"
    "node MatMul b w2 -> c\n"
    "node Sigmoid c -> d\n"
    "node MatMul d w3 -> logits\n"
    "output logits\n";

// What a step computed, without what it took.
#define LOSSES(metrics, losses) "sed 's/,\"seconds.*//' " metrics " > " losses
#define RUN                     "deltarun m.plan --data synthetic --seed 5 "
// Enough steps for what happens amid them.
#ifdef DELTA_TEST_SANITIZED
#define LONG_RUN RUN "--steps 600 "
#else
#define LONG_RUN RUN "--steps 3000 "
#endif

static void open_folder(delta_test_folder_t *folder) {
  char path[DELTA_TEST_PATH_BYTES];
  delta_test_folder_make(folder);
  delta_test_write_model(model_text, delta_test_folder_path(folder, "model.onnx", path));
  delta_test_shell_works(folder,
                         "deltaplan model.onnx --batch 32 --loss cross_entropy --optimizer adamw --threads 1 --budget unlimited -o m.plan");
}

Test(cli_budget, below_the_plan_at_the_start) {
  delta_test_folder_t folder;
  open_folder(&folder);
  delta_test_shell_works(&folder, RUN "--steps 9 --metrics a.jsonl && " LOSSES("a.jsonl", "a"));
  delta_test_shell_works(&folder, RUN "--steps 9 --budget minimum --metrics b.jsonl && " LOSSES("b.jsonl", "b") " && cmp a b");
  delta_test_shell_works(&folder, RUN "--steps 9 --budget minimum --verify --metrics c.jsonl && " LOSSES("c.jsonl", "c") " && cmp a c");
  delta_test_shell_works(&folder,
                         "grep -q 'planned again' b.jsonl && grep -q prefetch_seconds b.jsonl && ! grep -q prefetch_seconds a.jsonl");
  delta_test_shell_works(
      &folder,
      RUN "--steps 9 --budget minimum --tier memory --copies between --other-batches 1 --verbose | grep -q 'lanes, seconds a step'");
  delta_test_shell_fails(&folder, 3, RUN "--steps 9 --budget 4096", "--budget");
  delta_test_folder_remove(&folder);
}

Test(cli_budget, a_file_that_changes) {
  delta_test_folder_t folder;
  open_folder(&folder);
  delta_test_shell_works(&folder, LONG_RUN "--metrics a.jsonl && " LOSSES("a.jsonl", "a"));
  delta_test_shell_works(&folder,
                         "echo 100% > budget; " LONG_RUN
                         "--metrics b.jsonl --budget-file budget & p=$!; "
                         "while [ ! -s b.jsonl ]; do sleep 0.01; done; echo minimum > budget; kill -USR1 $p; "
                         "while ! grep -q 'planned again' b.jsonl; do sleep 0.01; done; echo nonsense > budget; kill -USR1 $p; wait $p");
  delta_test_shell_works(&folder, LOSSES("b.jsonl", "b") " && cmp a b");
  delta_test_shell_works(&folder, LONG_RUN "& p=$!; sleep 0.3; kill -USR1 $p; wait $p");
  delta_test_folder_remove(&folder);
}

Test(cli_budget, faults) {
  delta_test_folder_t folder;
  open_folder(&folder);
  delta_test_shell_fails(&folder, 2, RUN "--steps 1 --budget 60% --budget-file b", "--budget SIZE|--budget-file");
  delta_test_shell_fails(&folder, 1, RUN "--steps 1 --budget-file missing", "--budget-file|missing");
  delta_test_shell_fails(&folder, 1, "echo much > b; " RUN "--steps 1 --budget-file b", "--budget|much");
  delta_test_shell_fails(&folder, 2, RUN "--steps 1 --copies never", "--copies|beside|between");
  delta_test_folder_remove(&folder);
}
