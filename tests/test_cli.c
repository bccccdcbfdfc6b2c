// The two programs, run as their users run them: exit statuses, messages of one line that name the object, files they write, signals.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/support/training.h"
#include "tests/support/words.h"
#include "tests/support/workplace.h"

#define PLAN_MEASURED "deltaplan model.onnx --batch 4 --loss cross_entropy -o "

// --- usage

// What is measured once is kept: by the cache, and by a file that makes the same plan elsewhere.
Test(cli, profiles, .timeout = 120) {
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(&w, PLAN_MEASURED "first.plan --save-profile profile.json && test -n \"$(ls cache/delta)\"");
  delta_workplace_expect(&w, PLAN_MEASURED "again.plan --profile profile.json --json | grep -q '\"profiling_seconds\": 0,'");
  delta_workplace_expect(&w, PLAN_MEASURED "other.plan --save-profile again.json && cmp profile.json again.json");
  // A profile is a device to plan for, also where there is none; where all was measured the plan is one for the machine itself.
  delta_workplace_expect(&w, PLAN_MEASURED "here.plan --budget 64MiB && " PLAN_MEASURED
                                           "absent.plan --budget 64MiB --device profile.json && "
                                           "sed -i /ing_seconds/d here.plan absent.plan && cmp here.plan absent.plan");
  const delta_line_case_t cases[] = {
      {PLAN_MEASURED "p --profile absent.json", "absent.json"},
      {PLAN_MEASURED "p --device absent.json", "absent.json"},
      {PLAN_MEASURED "p --device profile.json --profile profile.json", "--profile|--device"},
      {PLAN_MEASURED "p --device profile.json --save-profile t.json", "--save-profile|--device"},
      {PLAN_MEASURED "p --device profile.json --threads 999", "999|threads|--threads"},
      {PLAN_MEASURED "o.plan --batch 6 --device profile.json > o.txt && deltarun o.plan --data synthetic --steps 1",
       "cpu (estimated)|does not have|deltaplan"},
      {PLAN_MEASURED "p --profile model.onnx", "model.onnx"},
      {"sed 's/\"threads\": [0-9]*/\"threads\": 999/' profile.json > t.json; " PLAN_MEASURED "p --profile t.json",
       "t.json|999 threads|--threads 999"},
      {"sed 's/\"processor\": \".*\"/\"processor\": \"abacus\"/' profile.json > t.json; " PLAN_MEASURED "p --profile t.json",
       "processor|abacus"},
      {PLAN_MEASURED "p --profile estimate --save-profile t.json", "--save-profile|estimate"},
      {PLAN_MEASURED "p --layout sideways", "--layout|sideways|blocked_8"},
  };
  DELTA_EXPECT_FAILURES(&w, 1, cases);
  delta_workplace_close(&w);
}

#define DEVICE      " --device " DELTA_SOURCE_FOLDER "/profiles/cpu2.json "
#define FIT_LARGEST "sed -n 's/.*\"largest_batch\": \\([0-9]*\\).*/\\1/p'"
#define FIT_PLAN(n) "deltaplan model.onnx --loss cross_entropy" DEVICE "--budget 1MiB --batch " n " > plan.txt 2>&1"

// The largest batch of the table can be planned, and the next cannot.
Test(cli, fit, .timeout = 240) {
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(&w,
                         "deltaplan --fit model.onnx --loss cross_entropy --time-limit 1 --json --budget 4MiB,1MiB" DEVICE " > fit.json");
  delta_workplace_expect(&w, "test $(grep -c '\"largest_batch\"' fit.json) = 2");
  delta_workplace_expect(&w,
                         "deltaplan --fit model.onnx --loss cross_entropy --policy none --time-limit 0 --budget 1MiB..3MiB --json" DEVICE
                         " | grep -c '\"largest_batch\"' | grep -qx 3");
  delta_workplace_expect(&w, "n=$(sed -n 's/.*\"largest_batch\": \\([0-9]*\\).*/\\1/p' fit.json | head -n 1) && test $n -gt 1 && " FIT_PLAN(
                                 "$n") " && ! " FIT_PLAN("$((n + 1))") " && grep -q -- --budget plan.txt");
  delta_workplace_expect(&w, "deltaplan --fit model.onnx --loss cross_entropy --policy none --budget 1MiB" DEVICE " | grep -q '1.00 MiB'");
  // Without budgets: parts of what the device has. No plan and no profile is left behind.
  delta_workplace_expect(&w, "deltaplan --fit model.onnx --loss cross_entropy --policy none --time-limit 0" DEVICE " | grep -q '22.0 GiB'");
  delta_workplace_expect(&w, "test ! -e cache/delta");
  // In parts more fits, and what is said to fit can be planned so.
  delta_workplace_expect(&w, "deltaplan --fit model.onnx --loss cross_entropy --time-limit 1 --json --budget 1MiB --split auto" DEVICE
                             " > parts.json; whole=$(" FIT_LARGEST " fit.json | head -n 1); n=$(" FIT_LARGEST
                             " parts.json); test $n -gt $whole && ! " FIT_PLAN("$n") " && deltaplan model.onnx --loss cross_entropy" DEVICE
                                                                                     "--budget 1MiB --split auto --batch $n");
  delta_workplace_close(&w);
}

#define PROBLEM(tensors, nodes) \
  "printf '{\"budget_bytes\": 9, \"tensors\": [" tensors "], \"nodes\": [" nodes "]}' > p.json; deltaplan p.json"
#define TENSOR(name, bytes)   "{\"name\": \"" name "\", \"bytes\": " bytes "}"
#define NODE(inputs, outputs) "{\"name\": \"f\", \"compute_s\": 1, \"inputs\": [" inputs "], \"outputs\": [" outputs "]}"
#define PROFILE(from, to)     "sed 's/" from "/" to "/' " DELTA_SOURCE_FOLDER "/profiles/v100.json > t.json; " PLAN_MEASURED "p --device t.json"
#define RUN_EDITED(from, to)  "sed 's/" from "/" to "/' here.plan > edited.plan; deltarun edited.plan --data synthetic --steps 1"

// What users get wrong: one line each, that says which.
Test(cli, bad_input, .timeout = 240) {
  static const delta_line_case_t values[] = {
      {"deltaplan model.onnx --budget nan", "--budget|nan"},
      {"deltaplan model.onnx --budget 1e300", "--budget|1e300"},
      {"deltaplan model.onnx --budget 99999999TiB", "--budget|99999999TiB"},
      {"deltaplan model.onnx --time-limit -1", "--time-limit|-1"},
      {"deltaplan model.onnx --time-limit nan", "--time-limit|nan"},
  };
  static const delta_line_case_t files[] = {
      {PROFILE("15700000000000.0", "-1"), "t.json|flops_per_second|-1|1e+06"},
      {PROFILE("15700000000000.0", "1e300"), "t.json|flops_per_second|1e+300|1e+18"},
      {PROFILE("15700000000000.0", "\"NaN\""), "t.json|flops_per_second|a number"},
      {PROFILE("\"memory_bytes\"", "\"memory\""), "t.json|memory_bytes|missing"},
      {"head -c 600 " DELTA_SOURCE_FOLDER "/profiles/v100.json > t.json; " PLAN_MEASURED "p --device t.json", "t.json|JSON"},
      {PROBLEM(TENSOR("x", "-1"), ""), "p.json|bytes"},
      {PROBLEM(TENSOR("x", "1"), NODE("\"w\"", "\"x\"")), "p.json|'w'"},
      {PROBLEM(TENSOR("x", "1") ", " TENSOR("y", "1"), NODE("\"y\"", "\"x\"") ", " NODE("\"x\"", "\"y\"")), "p.json|'y'"},
      {"deltarun here.plan --model other.onnx --data synthetic --steps 1", "other.onnx|SHA-256|deltaplan"},
      {RUN_EDITED("\"libraries\": \"[^\"]*", "\"libraries\": \"onednn 0.0"), "onednn 0.0|this machine|deltaplan"},
      {RUN_EDITED("\"instruction_set\": \"[^\"]*", "\"instruction_set\": \"abacus"), "instruction set abacus|this machine|deltaplan"},
      {RUN_EDITED("\"device\": \"cpu", "\"device\": \"v100"), "'v100'|does not have|deltaplan"},
      {RUN_EDITED("\"device\": \"cpu", "\"device\": \"t.json"), "'t.json'|does not have|deltaplan"},
  };
  static const delta_line_case_t too_small[] = {
      {PLAN_MEASURED "p --profile estimate --budget 0 > notes.txt", "budget 0 B|--budget"},
      {PLAN_MEASURED "p --profile estimate --budget 1 --policy delta > notes.txt", "budget 1 B|--budget"},
  };
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(
      &w, PLAN_MEASURED "here.plan --profile estimate && cp model.onnx other.onnx && printf '\\240\\006\\001' >> other.onnx");
  DELTA_EXPECT_FAILURES(&w, 2, values);
  DELTA_EXPECT_FAILURES(&w, 1, files);
  DELTA_EXPECT_FAILURES(&w, 3, too_small);
  // No time is enough for a first plan, which runs.
  delta_workplace_expect(&w, PLAN_MEASURED
                         "quick.plan --profile estimate --policy delta --time-limit 0 --budget minimum && "
                         "deltarun quick.plan --data synthetic --steps 1");
  delta_workplace_close(&w);
}

Test(cli, wrong_usage_of_fit, .timeout = 120) {
  static const delta_line_case_t cases[] = {
      {"deltaplan --fit", "no model given"},
      {"deltaplan --fit model.onnx -o p.plan", "-o|--fit"},
      {"deltaplan --fit model.onnx --save-profile p.json", "--save-profile|--fit"},
      {"deltaplan --fit model.onnx --dump-problem p.json", "--dump-problem|--fit"},
      {"deltaplan --fit model.onnx --report p.html", "--report|--fit"},
      {"deltaplan --fit model.onnx --budget 1GiB,", "--budget|1GiB,"},
      {"deltaplan --fit model.onnx --budget 1GiB,,2GiB", "--budget|1GiB,,2GiB"},
      {"deltaplan --fit model.onnx --budget 1GiB,much", "--budget|much"},
      {"deltaplan --fit model.onnx --budget 1GiB,0", "--budget|0"},
      {"deltaplan --fit model.onnx --budget 50%", "--budget|50%|sizes"},
      {"deltaplan --fit model.onnx --budget minimum", "--budget|minimum|sizes"},
      {"deltaplan --fit model.onnx --budget 4%..100%", "--budget|4%..100%|--batch"},
      {"deltaplan --fit model.onnx --batch 4 --budget 4%..100%:2", "--budget|4%..100%:2|mixes"},
      {"deltaplan --fit model.onnx --batch 4 --budget 100%..4%", "--budget|100%..4%"},
      {"deltaplan --fit model.onnx --batch 4 --budget 50%,much", "--budget|much"},
      {"deltaplan --fit model.onnx --batch 4 --budget 0", "--budget|0"},
      {"deltaplan --fit model.onnx --batch 4 --report p.html", "--report|--fit"},
      {"deltaplan model.onnx --budget 1GiB,2GiB", "--budget|--fit"},
      {"deltaplan model.onnx --budget 4%..100%", "--budget|4%..100%|--fit"},
  };
  delta_workplace_t w;
  delta_workplace_open(&w);
  DELTA_EXPECT_FAILURES(&w, 2, cases);
  delta_workplace_close(&w);
}

Test(cli, wrong_usage_of_deltaplan, .timeout = 120) {
  static const delta_line_case_t cases[] = {
      {"deltaplan", "deltaplan|model|--help"},
      {"deltaplan model.onnx other.onnx", "other.onnx"},
      {"deltaplan model.onnx --los mse", "--los|--loss"},
      {"deltaplan model.onnx -o", "-o"},
      {"deltaplan model.onnx --budget much", "--budget|much"},
      {"deltaplan model.onnx --budget 0%", "--budget|0%"},
      {"deltaplan model.onnx --budget -5", "--budget|-5"},
      {"deltaplan model.onnx --policy best", "best|none"},
      {"deltaplan model.onnx --budgets 50%", "--budgets|--compare"},
      {"deltaplan model.onnx --compare", "--compare|--budgets"},
      {"deltaplan model.onnx --compare --budget 50% -o model.plan", "--compare|-o"},
      {"deltaplan model.onnx --compare --budget 50% --policy dtr", "--compare|--policy"},
      {"deltaplan model.onnx --math tf32", "--math tf32|CPU|--device cuda"},
      {"deltaplan model.onnx --math half --device cuda", "--math|half|float32, tf32"},
      {"deltaplan model.onnx --levers fast", "--levers|fast|attention|loss-chunks"},
      {"deltaplan model.onnx --levers fuse,", "--levers|attention"},
      {"deltaplan model.onnx --levers ''", "--levers"},
      {"deltaplan model.onnx --levers fuse --policy eager", "--levers|eager"},
      {"deltaplan model.onnx --split 17", "--split|17|16|auto"},
      {"deltaplan model.onnx --split 0", "--split|0"},
      {"deltaplan model.onnx --split 4:", "--split|4:|SHARE%"},
      {"deltaplan model.onnx --split 4:101%", "--split|101"},
      {"deltaplan model.onnx --split x", "--split|x|auto"},
      {"deltaplan model.onnx --split on --policy eager", "--split|eager"},
      {"deltaplan model.onnx --device cudo", "--device|cudo|cuda:N"},
      {"deltaplan model.onnx --device cuda:", "--device|cuda:N"},
      {"deltaplan model.onnx --device cuda:1x", "--device|cuda:N"},
      {"deltaplan model.onnx --device tpu", "--device|tpu|cpu"},
      {"deltaplan model.onnx --threads 0", "--threads|1"},
      {"deltaplan model.onnx --threads many", "--threads|many"},
      {"deltaplan model.onnx --threads 2000", "--threads|1024"},
      {"deltaplan model.onnx --batch 0", "--batch"},
      {"deltaplan model.onnx --batch 1.5", "--batch|1.5"},
      {"deltaplan model.onnx --dim N", "--dim|NAME=N"},
      {"deltaplan model.onnx --dim N=", "--dim|NAME=N"},
      {"deltaplan model.onnx --dim =3", "--dim|NAME=N"},
      {"deltaplan model.onnx --dim N=-1", "--dim|N=-1"},
      {"deltaplan model.onnx --batchnorm sometimes", "--batchnorm|sometimes|freeze"},
      {"deltaplan model.onnx --loss hinge", "--loss|hinge|cross_entropy"},
      {"deltaplan model.onnx --loss output", "--loss|output:NAME"},
      {"deltaplan model.onnx --loss mse:", "--loss|mse:"},
      {"deltaplan model.onnx --loss ''", "--loss"},
      {"deltaplan model.onnx --class-axis 9", "--class-axis"},
      {"deltaplan model.onnx --class-axis x", "--class-axis|x"},
      {"deltaplan model.onnx --ignore-index x", "--ignore-index|x"},
      {"deltaplan model.onnx --optimizer best", "--optimizer|best|adamw"},
      {"deltaplan model.onnx --lr -1", "--lr"},
      {"deltaplan model.onnx --lr nan", "--lr"},
      {"deltaplan model.onnx --lr 0x10", "--lr|0x10|decimal"},
      {"deltaplan model.onnx --dim N=0x4", "--dim|N=0x4"},
      {"deltaplan model.onnx --budget 0x10%", "--budget|0x10%"},
      {"deltaplan model.onnx --momentum 1", "--momentum"},
      {"deltaplan model.onnx --momentum -0.1", "--momentum"},
      {"deltaplan model.onnx --momentum 0.5 --optimizer adam", "--momentum|adam"},
      {"deltaplan model.onnx --nesterov", "--nesterov|--momentum"},
      {"deltaplan model.onnx --weight-decay -1", "--weight-decay"},
      {"deltaplan model.onnx --beta1 1 --optimizer adam", "--beta1"},
      {"deltaplan model.onnx --beta1 0.5", "--beta1|sgd"},
      {"deltaplan model.onnx --beta2 2 --optimizer lamb", "--beta2"},
      {"deltaplan model.onnx --beta2 0.5 --optimizer adagrad", "--beta2|adagrad"},
      {"deltaplan model.onnx --epsilon -1 --optimizer adam", "--epsilon"},
      {"deltaplan model.onnx --epsilon 0.1", "--epsilon|sgd"},
      {"deltaplan model.onnx --clip-grad-norm -1", "--clip-grad-norm"},
      {"deltaplan model.onnx --accumulate 0", "--accumulate"},
      {"deltaplan model.onnx --accumulate x", "--accumulate|x"},
      {"deltaplan model.onnx --freeze ''", "--freeze"},
      {"deltaplan model.onnx --json=yes", "--json"},
  };
  delta_workplace_t w;
  delta_workplace_open(&w);
  DELTA_EXPECT_FAILURES(&w, 2, cases);
  delta_workplace_close(&w);
}

Test(cli, wrong_usage_of_deltarun, .timeout = 120) {
  static const delta_line_case_t cases[] = {
      {"deltarun", "deltarun|plan|--help"},
      {"deltarun a.plan b.plan --eval x.npz", "b.plan"},
      {"deltarun model.onnx --eval x.npz", "model.onnx|not a plan|deltaplan"},
      {"deltarun a.plan", "--data|--eval"},
      {"deltarun a.plan --data x.npz", "--epochs|--steps"},
      {"deltarun a.plan --data x.npz --epochs 1 --steps 1", "--epochs|--steps"},
      {"deltarun a.plan --data x.npz --epochs 0", "--epochs"},
      {"deltarun a.plan --data x.npz --epochs x", "--epochs|x"},
      {"deltarun a.plan --data x.npz --steps -1", "--steps"},
      {"deltarun a.plan --data x.npz --steps 1 --seed x", "--seed|x"},
      {"deltarun a.plan --data x.npz --steps 1 --lr -1", "--lr"},
      {"deltarun a.plan --data x.npz --steps 1 --lr inf", "--lr"},
      {"deltarun a.plan --data x.npz --steps 1 --schedule best", "--schedule|best|cosine"},
      {"deltarun a.plan --data x.npz --steps 1 --warmup -1", "--warmup"},
      {"deltarun a.plan --data x.npz --steps 1 --export onnx -o t.onnx", "--export|onnx|inference"},
      {"deltarun a.plan --data x.npz --steps 1 --export training", "--export|-o"},
      {"deltarun a.plan --data x.npz --steps 1 --budget x", "--budget|x"},
      {"deltarun a.plan --data '' --steps 1", "--data"},
      {"deltarun a.plan --eval x.npz --epochs 1", "--epochs|--data"},
      {"deltarun a.plan --eval x.npz --lr 1", "--lr|--data"},
      {"deltarun a.plan --eval x.npz --drop-last", "--drop-last|--data"},
      {"deltarun a.plan --eval x.npz --bogus", "--bogus"},
  };
  delta_workplace_t w;
  delta_workplace_open(&w);
  DELTA_EXPECT_FAILURES(&w, 2, cases);
  delta_workplace_close(&w);
}

Test(cli, help_and_version) {
  static const struct {
    const char *line, *words;
  } cases[] = {
      {"deltaplan --help", "NAME|SYNOPSIS|--budget|EXIT STATUS"}, {"deltaplan nowhere.onnx --bogus --help", "SYNOPSIS"},
      {"deltaplan --version", "deltaplan " DELTA_VERSION_STRING}, {"deltaplan --devices", "cpu|threads|free|copies below|cuda"},
      {"deltarun -h", "NAME|SYNOPSIS|--data|EXIT STATUS"},        {"deltarun --version", "deltarun " DELTA_VERSION_STRING},
  };
  delta_workplace_t w;
  delta_workplace_open(&w);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const delta_process_result_t *result = delta_workplace_run(&w, cases[i].line);
    cr_expect_eq(result->exit_status, 0, "%s: %s", cases[i].line, result->error);
    cr_expect(delta_words_all(result->output, cases[i].words), "%s: %s", cases[i].line, result->output);
    cr_expect_str_empty(result->error);
  }
  delta_workplace_close(&w);
}

// --- errors

Test(cli, errors_of_deltaplan, .timeout = 120) {
  static const delta_line_case_t cases[] = {
      {"deltaplan nowhere.onnx --loss mse", "nowhere.onnx"},
      {"deltaplan . --loss mse", "."},
      {"deltaplan model.onnx --loss mse --batch 2 --external-data nowhere", "--external-data|nowhere|no such folder"},
      {"deltaplan model.onnx --loss mse --batch 2 --external-data x.npy", "--external-data|x.npy|not a folder"},
      {"deltaplan x.npy --loss mse", "x.npy"},
      {"deltaplan model.onnx --batch 2", "loss|--loss"},
      {"deltaplan model.onnx --batch 2 --loss mse:nobody", "nobody|logits"},
      {"deltaplan model.onnx --batch 2 --loss cross_entropy --class-axis 5", "--class-axis"},
      {"deltaplan fixed.onnx --loss mse --batch 5", "x|4|5"},
      {"deltaplan two.onnx --loss mse --batch 2", "1 dimension|is unknown|K|--dim"},
      {"deltaplan model.onnx --batch 2 --loss mse --freeze nobody", "nobody"},
      {"deltaplan model.onnx --batch 2 --loss mse --freeze '*'", "train"},
      {"deltaplan model.onnx --batch 2 --loss mse -o /no/such/folder/a.plan", "/no/such/folder/a.plan"},
      {"deltaplan model.onnx --batch 2 --loss mse -o /proc/a.plan", "/proc/a.plan"},
      {"deltaplan model.onnx --batch 2 --loss mse -o .", "."},
      {"deltaplan model.onnx --batch 2 --loss mse > /dev/full", "stdout"},
      {"trap '' XFSZ; ulimit -f 1; deltaplan model.onnx --batch 2 --loss mse -o a.plan", "a.plan|File too large"},
  };
  delta_workplace_t w;
  delta_workplace_open(&w);
  DELTA_EXPECT_FAILURES(&w, 1, cases);
  cr_expect_not(delta_workplace_has(&w, "a.plan"), "half a plan was left");
  delta_workplace_close(&w);
}

// What is wrong with a model is said before anything is measured; where copies cannot be measured that is said once.
Test(cli, measures_what_can_be_planned, .timeout = 120) {
#define NOWHERE "TMPDIR=/no/such/place "
  static const struct {
    const char *line;
    int exit_status;
    const char *notes;
  } cases[] = {
      {NOWHERE "deltaplan two.onnx --loss mse --batch 2", 1, "0"},
      {NOWHERE "deltaplan model.onnx --loss mse", 1, "0"},
      {NOWHERE "deltaplan fixed.onnx --loss mse --batch 5", 1, "0"},
      {NOWHERE "deltaplan model.onnx --loss mse --batch 2 --freeze nobody", 1, "0"},
      {NOWHERE "deltaplan model.onnx --loss mse --batch 2", 0, "1"},
  };
#undef NOWHERE
  delta_workplace_t w;
  delta_workplace_open(&w);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char line[512];
    snprintf(line, sizeof line,
             "%s > notes.txt 2>&1; test $? = %d && grep -c 'copies below the arena is not known' notes.txt | grep -qx %s && "
             "test $(find cache -type f | wc -l) = %s",
             cases[i].line, cases[i].exit_status, cases[i].notes, cases[i].notes);
    delta_workplace_expect(&w, line);
  }
  delta_workplace_close(&w);
}

Test(cli, errors_of_deltarun, .timeout = 120) {
#define DATA " --data x=x.npy,label=y.npy --steps 2"
  static const delta_line_case_t cases[] = {
      {"deltarun nowhere.plan" DATA, "nowhere.plan"},
      {"deltarun a.plan --external-data nowhere" DATA, "--external-data|nowhere|no such folder"},
      {"deltarun x.npy" DATA, "x.npy"},
      {"deltarun . " DATA, "."},
      {"mkdir empty; deltarun empty/../empty/a.plan" DATA, "a.plan"},
      {"cp a.plan empty/; deltarun empty/a.plan" DATA, "model.onnx|--model"},
      {"deltarun a.plan --model other.onnx" DATA, "other.onnx|deltaplan"},
      {"deltarun a.plan --model nowhere.onnx" DATA, "nowhere.onnx"},
      {"deltarun a.plan --data nowhere.npz --steps 1", "--data|nowhere.npz"},
      {"deltarun a.plan --data x=x.npy --steps 1", "--data|label"},
      {"deltarun a.plan --data z=x.npy,label=y.npy --steps 1", "--data|x"},
      {"deltarun a.plan --data x=x.npy,label=float.npy --steps 1", "--data|float.npy|label"},
      {"deltarun a.plan --data x=rank.npy,label=y.npy --steps 1", "--data|rank.npy"},
      {"deltarun a.plan --data x=x.npy,label=onehot.npy --steps 1", "onehot.npy|class numbers|--class-axis"},
      {"deltarun a.plan --data x=x.npy,label=short.npy --steps 1", "--data|21|22"},
      {"deltarun a.plan --data x=x.npy,label=range.npy --no-shuffle --steps 1", "range.npy|label|3"},
      {"deltarun a.plan --eval x=x.npy,label=nowhere.npy", "--eval|nowhere.npy"},
      {"deltarun a.plan" DATA " -o /no/such/folder/t.onnx", "/no/such/folder"},
      {"deltarun a.plan" DATA " -o /proc/t.onnx", "/proc/t.onnx"},
      {"deltarun a.plan" DATA " --metrics /no/such/folder/m.jsonl", "/no/such/folder/m.jsonl"},
      {"deltarun a.plan" DATA " --metrics /dev/full", "/dev/full|No space"},
      {"deltarun a.plan" DATA " > /dev/full", "stdout"},
      {"trap '' XFSZ; ulimit -f 0; deltarun a.plan" DATA " -o t.onnx", "t.onnx|File too large"},
      {"deltarun linear.plan --data x=x.npy,label=target.npy --steps 99 --lr 1e6", "step|not a finite number|--lr"},
  };
#undef DATA
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(&w, "deltaplan model.onnx -o a.plan --loss cross_entropy --batch 4");
  delta_workplace_expect(&w, "deltaplan other.onnx -o linear.plan --loss mse --batch 4");
  DELTA_EXPECT_FAILURES(&w, 1, cases);
  cr_expect_not(delta_workplace_has(&w, "t.onnx"), "half a model was left");
  delta_workplace_close(&w);
}

// A plan that was changed in a text editor is refused, and says what to do.
Test(cli, edited_plans_are_refused, .timeout = 120) {
#define EVALUATE "cmp -s a.plan b.plan || deltarun b.plan --eval x=x.npy,label=y.npy"
  static const delta_line_case_t cases[] = {
      {"sed 's/\"threads\": *1/\"threads\": 2/' a.plan > b.plan; " EVALUATE, "deltaplan"},
      {"sed 's/onednn [0-9.]*/onednn 0.0.1/' a.plan > b.plan; " EVALUATE, "0.0.1|deltaplan"},
      {"sed 's/\"instruction_set\": *\"[a-z0-9]*/&x/' a.plan > b.plan; " EVALUATE, "instruction set|deltaplan"},
      {"sed 's/\"id\": *\"..../\"id\": \"0123/' a.plan > b.plan; " EVALUATE, "numerics|deltaplan"},
      {"sed 's/\"graph_hash\": *\"..../\"graph_hash\": \"0123/' a.plan > b.plan; " EVALUATE, "graph|deltaplan"},
      {"sed 's/\"sha256\": *\"..../\"sha256\": \"0123/' a.plan > b.plan; " EVALUATE, "model.onnx|SHA-256|deltaplan"},
      {"sed 's/\"ignore_index\": *-100/\"ignore_index\": -1/' a.plan > b.plan; " EVALUATE, "graph|deltaplan"},
      {"head -c 500 a.plan > b.plan; " EVALUATE, "b.plan"},
      {": > b.plan; " EVALUATE, "b.plan"},
  };
#undef EVALUATE
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(&w, "deltaplan model.onnx -o a.plan --loss cross_entropy --batch 4 --threads 1");
  DELTA_EXPECT_FAILURES(&w, 1, cases);
  delta_workplace_close(&w);
}

// --- what fits

static delta_json_document_t *parse_json(const char *text) {
  delta_json_document_t *document = NULL;
  delta_test_expect_ok(delta_json_parse(text, strlen(text), "output", delta_allocator_system(), &document), "JSON");
  return document;
}

static double json_number(const delta_json_document_t *document, const char *key) {
  double value = 0;
  delta_test_expect_ok(delta_json_get_double(document, delta_json_root(document), key, &value), key);
  return value;
}

Test(cli, json_has_every_name, .timeout = 60) {
  static const char *const names[] = {"model",
                                      "device",
                                      "policy",
                                      "numerics_id",
                                      "nodes",
                                      "batch",
                                      "trainable_parameters",
                                      "budget_bytes",
                                      "arena_bytes",
                                      "peak_bytes",
                                      "unlimited_peak_bytes",
                                      "eager_peak_bytes",
                                      "minimum_budget_bytes",
                                      "state_bytes",
                                      "swapped_bytes",
                                      "swapped_tensors",
                                      "recomputed_nodes",
                                      "step_seconds",
                                      "unlimited_step_seconds",
                                      "slowdown",
                                      "recompute_seconds",
                                      "stall_seconds",
                                      "lower_bound_seconds",
                                      "planning_seconds",
                                      "profiling_seconds",
                                      "memory",
                                      "inputs"};
  static const struct {
    const char *line;
    int exit_status;
  } cases[] = {{"deltaplan model.onnx --loss cross_entropy --batch 4 --json --budget 1GiB", 0},
               {"deltaplan model.onnx --loss cross_entropy --batch 4 --json --budget 4096", 3}};
  delta_workplace_t w;
  delta_workplace_open(&w);
  double minimum = 0;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const delta_process_result_t *result = delta_workplace_run(&w, cases[i].line);
    cr_assert_eq(result->exit_status, cases[i].exit_status, "%s: %s", cases[i].line, result->error);
    delta_json_document_t *document = parse_json(result->output);
    for (size_t k = 0; k < sizeof names / sizeof *names; ++k)
      cr_expect_not_null(delta_json_find(delta_json_root(document), names[k]), "%s: no '%s'", cases[i].line, names[k]);
    cr_expect_eq(json_number(document, "trainable_parameters"), 4 * 6 + 6 + 6 * 3 + 3);
    cr_expect_eq(json_number(document, "batch"), 4);
    cr_expect_eq(json_number(document, "budget_bytes"), i ? 4096 : 1 << 30);
    minimum = json_number(document, "minimum_budget_bytes");
    delta_json_free(document);
  }
  char line[256];
  snprintf(line, sizeof line, "deltaplan model.onnx -o a.plan --loss cross_entropy --batch 4 --budget %.0f", minimum);
  delta_workplace_expect(&w, line);
  delta_workplace_expect(&w, "deltarun a.plan --data x=x.npy,label=y.npy --steps 3");
  snprintf(line, sizeof line, "deltarun a.plan --data x=x.npy,label=y.npy --steps 3 --budget %.0f", minimum - 1);
  const delta_line_case_t less[] = {
      {line, "budget"}, {"deltaplan model.onnx --loss cross_entropy --batch 4 --budget 4096", "needs|budget|--budget|4.00 KiB"}};
  DELTA_EXPECT_FAILURES(&w, 3, less);
  delta_workplace_close(&w);
}

// --- outputs

// No output takes the place of what is read, or of another output.
Test(cli, outputs_never_replace_what_is_read, .timeout = 120) {
#define DATA "deltarun a.plan --data x=x.npy,label=y.npy --steps 1 "
  static const delta_line_case_t cases[] = {
      {"deltaplan model.onnx -o model.onnx --loss mse --batch 2", "model.onnx|another path"},
      {"deltaplan model.onnx --save-profile model.onnx --loss mse --batch 2", "model.onnx|another path"},
      {"deltaplan model.onnx -o b.plan --save-profile ./b.plan --loss mse --batch 2", "-o|--save-profile"},
      {"deltaplan model.onnx -o ./link.onnx --loss mse --batch 2", "link.onnx|another path"},
      {DATA "-o model.onnx", "-o|model.onnx|another path"},
      {DATA "-o ../$(basename $PWD)/a.plan", "-o|a.plan|plan|another path"},
      {DATA "-o hard.onnx", "-o|hard.onnx|another path"},
      {DATA "--metrics a.plan", "--metrics|a.plan|plan|another path"},
      {DATA "--metrics link.onnx", "--metrics|link.onnx|another path"},
      {DATA "--metrics y.npy", "--metrics|y.npy|data"},
      {DATA "-o x.npy", "-o|x.npy|data"},
      {DATA "-o t.onnx --metrics ./t.onnx", "-o|--metrics|t.onnx"},
  };
#undef DATA
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(
      &w,
      "deltaplan model.onnx -o a.plan --loss cross_entropy --batch 4; ln -s model.onnx link.onnx; ln model.onnx hard.onnx; "
      "cp -r . ../copy; mv ../copy .");
  DELTA_EXPECT_FAILURES(&w, 1, cases);
  delta_workplace_expect(&w, "for f in model.onnx a.plan x.npy y.npy; do cmp $f copy/$f || exit; done; [ ! -e t.onnx ]");
  delta_workplace_close(&w);
}

// --- what is said

Test(cli, says_what_to_do_with_a_plan, .timeout = 60) {
  static const struct {
    const char *line, *words, *absent;
  } cases[] = {
      {"deltaplan model.onnx -o a.plan --loss cross_entropy --batch 4",
       "inputs: x float32 [4, 4]; label int64 [4], classes 0 to 2|wrote a.plan", "--model"},
      {"mkdir plans; deltaplan model.onnx -o plans/a.plan --loss cross_entropy --batch 4", "deltarun plans/a.plan --model model.onnx",
       "\n\n"},
      {"deltaplan model.onnx --loss cross_entropy --batch 4 --verbose 2>&1", "'w1' [4, 6] trains|'b2' [3] trains", "does not train"},
      {"deltaplan model.onnx --loss cross_entropy --batch 4 --verbose --train 'w*' 2>&1",
       "'w1' [4, 6] trains|'b2' does not train: does not match --train", "'b2' [3] trains"},
      {"deltaplan bn.onnx --loss cross_entropy --batch 4 2>&1", "arena", "warning"},
      {"deltarun a.plan --data x=x.npy,label=y.npy --steps 3", "training: epoch 1, step 3/3, loss", "step 3/3, loss 0,"},
      {"deltarun a.plan --data x=x.npy,label=range.npy --no-shuffle --steps 1 2>/dev/null || echo failed", "failed", "step 0/"},
  };
  delta_workplace_t w;
  delta_workplace_open(&w);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const delta_process_result_t *result = delta_workplace_run(&w, cases[i].line);
    cr_expect_eq(result->exit_status, 0, "%s: %s", cases[i].line, result->error);
    cr_expect(delta_words_all(result->output, cases[i].words), "%s: %s", cases[i].line, result->output);
    cr_expect_null(strstr(result->output, cases[i].absent), "%s: %s", cases[i].line, result->output);
  }
  delta_workplace_close(&w);
}

// --- a whole training

// The last object of a metrics file that has `key`; the caller frees.
static delta_json_document_t *last_metrics(const delta_workplace_t *w, const char *name, const char *key, size_t *out_lines) {
  char *text = delta_workplace_read(w, name), *at = text;
  cr_assert_not_null(text, "no '%s'", name);
  delta_json_document_t *found = NULL;
  for (*out_lines = 0; *at; ++*out_lines) {
    char *end = strchr(at, '\n');
    cr_assert_not_null(end, "a line of '%s' is not ended", name);
    *end = '\0';
    delta_json_document_t *document = parse_json(at);
    if (delta_json_find(delta_json_root(document), key)) {
      delta_json_free(found);
      found = document;
    } else {
      delta_json_free(document);
    }
    at = end + 1;
  }
  cr_assert_not_null(found, "no line of '%s' has '%s'", name, key);
  delta_release(delta_allocator_system(), text);
  return found;
}

typedef struct form_case {
  char form[16];
  char model[16];
} form_case_t;

ParameterizedTestParameters(cli, trained_model_evaluates_alike) {
  static form_case_t cases[] = {{"inference", "model.onnx"}, {"training", "model.onnx"}};
  return cr_make_param_array(form_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(form_case_t *c, cli, trained_model_evaluates_alike, .timeout = 60) {
  delta_workplace_t w;
  delta_workplace_open(&w);
  char line[512];
  snprintf(line, sizeof line, "deltaplan %s -o a.plan --loss cross_entropy --batch 4 --optimizer adamw --lr 0.05 --clip-grad-norm 1",
           c->model);
  delta_workplace_expect(&w, line);
  snprintf(
      line, sizeof line,
      "deltarun a.plan --data x=x.npy,label=y.npy --eval x=x.npy,label=y.npy --epochs 20 --seed 3 --metrics m.jsonl -o t.onnx --export %s",
      c->form);
  delta_workplace_expect(&w, line);
  size_t lines = 0;
  delta_json_document_t *step = last_metrics(&w, "m.jsonl", "gradient_norm", &lines);
  cr_expect_eq(lines, 20 * 6 + 20); // 22 samples in batches of 4, and an evaluation an epoch
  static const char *const names[] = {
      "step",       "epoch", "loss", "learning_rate", "seconds", "samples_per_second", "stall_seconds", "arena_peak_bytes",
      "host_bytes", "events"};
  for (size_t k = 0; k < sizeof names / sizeof *names; ++k)
    cr_expect_not_null(delta_json_find(delta_json_root(step), names[k]), "%s", names[k]);
  cr_expect_eq(json_number(step, "step"), 120);
  cr_expect_eq(json_number(step, "epoch"), 20);
  cr_expect_float_eq(json_number(step, "learning_rate"), 0.05, 1e-9);
  delta_json_document_t *trained = last_metrics(&w, "m.jsonl", "accuracy", &lines);
  cr_expect_gt(json_number(trained, "accuracy"), 0.8, "it learned nothing: %g", json_number(trained, "accuracy"));
  delta_workplace_expect(
      &w, "deltaplan t.onnx -o t.plan --loss cross_entropy --batch 5 && deltarun t.plan --eval x=x.npy,label=y.npy --metrics e.jsonl");
  delta_json_document_t *evaluated = last_metrics(&w, "e.jsonl", "accuracy", &lines);
  cr_expect_eq(lines, 1);
  cr_expect_eq(json_number(evaluated, "accuracy"), json_number(trained, "accuracy"));
  cr_expect_float_eq(json_number(evaluated, "loss"), json_number(trained, "loss"), 1e-5);
  delta_json_free(step);
  delta_json_free(trained);
  delta_json_free(evaluated);
  delta_workplace_close(&w);
}

// Micro-batches per update are in the plan file: 22 samples in batches of 4 are six micro-batches, so two updates of an epoch.
Test(cli, accumulation_is_in_the_plan_file, .timeout = 60) {
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(&w, "deltaplan model.onnx -o a.plan --loss cross_entropy --batch 4 --accumulate 4");
  delta_workplace_expect(&w, "deltarun a.plan --data x=x.npy,label=y.npy --epochs 3 --metrics m.jsonl");
  size_t lines = 0;
  delta_json_document_t *step = last_metrics(&w, "m.jsonl", "learning_rate", &lines);
  cr_expect_eq(lines, 3 * 2);
  cr_expect_eq(json_number(step, "step"), 6);
  cr_expect_eq(json_number(step, "epoch"), 3);
  delta_json_free(step);
  delta_workplace_close(&w);
}

// A resumed training gives the file of one that was never stopped; what cannot be resumed is said, and what does not go together too.
Test(cli, resumed_trainings_go_on, .timeout = 60) {
  static const delta_line_case_t refused[] = {
      {"deltarun a.plan --data x=x.npy,label=y.npy --epochs 4 --checkpoint ck", "ck|--resume"},
      {"deltarun a.plan --data x=x.npy,label=y.npy --epochs 4 --checkpoint ck --resume --seed 6", "--seed 5|6"},
      {"deltarun a.plan --data x=x.npy,label=y.npy --epochs 4 --checkpoint ck --resume --seed 5 --no-shuffle", "--shuffle"},
      {"deltarun a.plan --data synthetic:samples=9 --epochs 4 --checkpoint ck --resume --seed 5", "22 samples|9"},
      {"deltarun b.plan --data x=x.npy,label=y.npy --epochs 4 --checkpoint ck --resume --seed 5", "sgd|adam"},
      {"deltarun a.plan --data x=x.npy,label=y.npy --epochs 4 --checkpoint absent/ck", "absent/ck"},
  };
  static const delta_line_case_t misused[] = {
      {"deltarun a.plan --data x=x.npy,label=y.npy --epochs 4 --resume", "--resume|--checkpoint DIR"},
      {"deltarun a.plan --data x=x.npy,label=y.npy --epochs 4 --keep 3", "--keep|--checkpoint DIR"},
      {"deltarun a.plan --eval x=x.npy,label=y.npy --checkpoint ck", "--checkpoint|--data"},
  };
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(&w, "deltaplan model.onnx -o a.plan --loss cross_entropy --batch 4 --momentum 0.9");
  delta_workplace_expect(&w, "deltaplan model.onnx -o b.plan --loss cross_entropy --batch 4 --optimizer adam");
  delta_workplace_expect(&w, "deltarun a.plan --data x=x.npy,label=y.npy --epochs 4 --seed 5 --metrics whole.jsonl -o whole.onnx");
  delta_workplace_expect(&w, "deltarun a.plan --data x=x.npy,label=y.npy --steps 9 --seed 5 --metrics parts.jsonl --checkpoint ck");
  delta_workplace_expect_failures(&w, 1, refused, sizeof refused / sizeof *refused);
  delta_workplace_expect_failures(&w, 2, misused, sizeof misused / sizeof *misused);
  delta_workplace_expect(
      &w, "deltarun a.plan --data x=x.npy,label=y.npy --epochs 4 --seed 5 --metrics parts.jsonl --checkpoint ck --resume -o parts.onnx");
  delta_workplace_expect(&w,
                         "cmp whole.onnx parts.onnx && test $(wc -l <whole.jsonl) = $(wc -l <parts.jsonl) && test $(ls ck | wc -l) = 2");
  // One that cannot be written is told, and tried again; only the last is an error.
  const delta_process_result_t *full =
      delta_workplace_run(&w, "ulimit -f 1; deltarun a.plan --data x=x.npy,label=y.npy --epochs 3 --checkpoint full");
  cr_expect_eq(full->exit_status, 1, "exit %d", full->exit_status);
  cr_expect(delta_words_all(full->output, "without a checkpoint of step 6|File too large"), "%s", full->output);
  cr_expect(delta_words_all(full->error, "checkpoint|full|File too large"), "%s", full->error);
  delta_workplace_expect(&w, "test -z \"$(ls full)\"");
  delta_workplace_expect(
      &w,
      "printf X | dd of=ck/$(ls ck | tail -1) bs=1 seek=900 conv=notrunc 2>/dev/null; "
      "! deltarun a.plan --data x=x.npy,label=y.npy --epochs 5 --seed 5 --checkpoint ck --resume 2>&1 | grep -v 'remove the newest'");
  delta_workplace_close(&w);
}

// Equal seeds give equal files; another seed another order and so another file.
Test(cli, equal_seeds_give_equal_models, .timeout = 60) {
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(&w, "deltaplan model.onnx -o a.plan --loss cross_entropy --batch 4 --momentum 0.9");
  delta_workplace_expect(
      &w, "for k in 1 2; do deltarun a.plan --data x=x.npy,label=y.npy --epochs 2 --seed 5 -o t$k.onnx; done; cmp t1.onnx t2.onnx");
  delta_workplace_expect(&w, "deltarun a.plan --data x=x.npy,label=y.npy --epochs 2 --seed 6 -o t3.onnx; ! cmp -s t1.onnx t3.onnx");
  delta_workplace_expect(
      &w, "deltarun a.plan --data x=x.npy,label=y.npy --epochs 2 --seed 6 --no-shuffle -o t4.onnx; ! cmp -s t3.onnx t4.onnx");
  delta_workplace_close(&w);
}

// --- signals

typedef struct signal_case {
  char name[8];
  int exit_status;
} signal_case_t;

ParameterizedTestParameters(cli, signal_ends_after_the_step) {
  static signal_case_t cases[] = {{"INT", 130}, {"TERM", 143}, {"HUP", 129}};
  return cr_make_param_array(signal_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(signal_case_t *c, cli, signal_ends_after_the_step, .timeout = 60) {
  struct sigaction hangup;
  if (sigaction(SIGHUP, NULL, &hangup) == 0 && hangup.sa_handler == SIG_IGN && c->exit_status == 129)
    cr_skip_test("the tests run with hangups ignored, and so would the program");
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(&w, "deltaplan model.onnx -o a.plan --loss cross_entropy --batch 4");
  char line[512];
  snprintf(line, sizeof line,
           "deltarun a.plan --data x=x.npy,label=y.npy --steps 1000000000 --metrics m.jsonl -o t.onnx & p=$!; "
           "until [ -s m.jsonl ]; do sleep 0.02; done; kill -%s $p; wait $p",
           c->name);
  const delta_process_result_t *result = delta_workplace_run(&w, line);
  cr_expect_eq(result->exit_status, c->exit_status, "exit %d: %s", result->exit_status, result->error);
  cr_expect(delta_words_all(result->output, "stopped by a signal after step|wrote t.onnx"), "%s", result->output);
  cr_expect_str_empty(result->error);
  size_t lines = 0;
  delta_json_free(last_metrics(&w, "m.jsonl", "loss", &lines));
  delta_workplace_expect(&w, "deltaplan t.onnx --batch 2 --loss cross_entropy");
  delta_workplace_close(&w);
}

// A reader that goes away, a pipe that nobody reads, a file that may not grow.
Test(cli, lost_outputs_are_errors, .timeout = 60) {
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(&w, "deltaplan model.onnx -o a.plan --loss cross_entropy --batch 4");
  delta_workplace_run(&w, "deltarun a.plan --data x=x.npy,label=y.npy --epochs 2 -o t.onnx | true");
  cr_expect(delta_workplace_has(&w, "t.onnx"), "the model is written although nobody reads the output");
  const delta_process_result_t *result =
      delta_workplace_run(&w, "mkfifo pipe; deltarun a.plan --data x=x.npy,label=y.npy --epochs 1 --metrics pipe -o u.onnx");
  cr_expect_eq(result->exit_status, 1);
  cr_expect(delta_words_all(result->error, "pipe|nobody reads"), "%s", result->error);
  result = delta_workplace_run(&w, "ulimit -f 0; deltarun a.plan --data x=x.npy,label=y.npy --epochs 1 -o v.onnx");
  cr_expect_eq(result->exit_status, 1, "exit %d", result->exit_status);
  cr_expect_not(delta_workplace_has(&w, "v.onnx"));
  delta_workplace_close(&w);
}

// A loss may be fine in every step and what the last update leaves not: nothing is written then.
Test(cli, weights_that_are_no_numbers_are_not_written, .timeout = 60) {
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(&w, "deltaplan model.onnx -o a.plan --loss mse --batch 4 --lr 9e5 --momentum 0.9");
  const delta_process_result_t *result = delta_workplace_run(
      &w,
      "deltarun a.plan --data synthetic:samples=8 --steps 1 --lr 1e6 -o t.onnx; deltarun a.plan --data synthetic:samples=8 "
      "--steps 100 -o u.onnx");
  cr_expect_eq(result->exit_status, 1, "exit %d: %s", result->exit_status, result->output);
  cr_expect(delta_words_all(result->error, "finite"), "%s", result->error);
  cr_expect_not(delta_workplace_has(&w, "u.onnx"));
  delta_workplace_close(&w);
}

// A step of seconds: the second signal does not wait for it, and nothing is written.
Test(cli, second_signal_ends_at_once, .timeout = 120) {
  delta_workplace_t w;
  delta_workplace_open(&w);
  delta_workplace_expect(&w, "deltaplan " DELTA_SOURCE_FOLDER
                             "/examples/digits/resnet.onnx -o a.plan --loss cross_entropy --batch 4096 --threads 1 --budget unlimited");
  const delta_process_result_t *result = delta_workplace_run(
      &w, "deltarun a.plan --model " DELTA_SOURCE_FOLDER
          "/examples/digits/resnet.onnx --data synthetic:samples=4096 --steps 100000 --metrics m.jsonl -o t.onnx & p=$!; "
          "until [ -e m.jsonl ]; do sleep 0.02; done; kill -INT $p; sleep 0.3; kill -TERM $p; wait $p");
  cr_expect_eq(result->exit_status, 143, "exit %d: %s", result->exit_status, result->error);
  cr_expect_not(delta_workplace_has(&w, "t.onnx"));
  delta_workplace_close(&w);
}
