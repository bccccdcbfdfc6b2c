// run_kills FOLDER [KILLS]: trains the demo (../examples/digits) again and again, kills the process at random moments, resumes it, and compares what a training comes to in
// the end with one that was never stopped: the exported file has to be the same to the last bit, no checkpoint may be broken and no file may be left.
// A training that ends by itself counts as a case. By default 25 kills.
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/random.h"
#include "tests/support/process.h"

enum { KILLS = 25, EVERY = 3, KEEP = 2, PATH_BYTES = 64, LINE_BYTES = 4 * PATH_MAX };
static const double limit_seconds = 120;

typedef struct kills {
  char folder[PATH_BYTES];
  char digits[PATH_MAX]; // where model and data are
  delta_random_sequence_t random;
  double whole_seconds; // of a training that is not stopped
  long wanted, made;
  long passed, failed;
} kills_t;

static void run_line(const kills_t *kills, const char *line, double seconds, delta_process_result_t *result) {
  char whole[2 * LINE_BYTES];
  snprintf(whole, sizeof whole, "cd %s && exec %s", kills->folder, line);
  const char *const arguments[] = {"/bin/sh", "-c", whole, NULL};
  const delta_process_t process = {.arguments = arguments, .limit_seconds = seconds};
  delta_process_run(&process, result);
}

static void make_training_line(const kills_t *kills, const char *rest, char line[LINE_BYTES]) {
  snprintf(line, LINE_BYTES,
           DELTA_BINARY_FOLDER
           "/deltarun d.plan --model %s/resnet.onnx --data x=%s/train_x.npy,label=%s/train_y.npy --steps 30 --seed 3 "
           "--schedule cosine --warmup 4 %s",
           kills->digits, kills->digits, kills->digits, rest);
}

// Plans with states and tensors below the arena, and trains once without a stop.
static bool prepare(kills_t *kills) {
  char line[LINE_BYTES];
  delta_process_result_t result;
  snprintf(line, sizeof line,
           DELTA_BINARY_FOLDER
           "/deltaplan %s/resnet.onnx -o d.plan --loss cross_entropy --optimizer adamw --lr 0.002 --batch 32 --budget 1.5MB",
           kills->digits);
  run_line(kills, line, limit_seconds, &result);
  if (result.exit_status == 0) {
    make_training_line(kills, "-o whole.onnx", line);
    run_line(kills, line, limit_seconds, &result);
    kills->whole_seconds = result.wall_seconds;
  }
  if (result.exit_status != 0) printf("failed to prepare: %s\n", result.error);
  return result.exit_status == 0;
}

// Files of the checkpoints' folder.
static size_t count_files(const kills_t *kills) {
  char path[PATH_BYTES + sizeof "/checkpoints"];
  snprintf(path, sizeof path, "%s/checkpoints", kills->folder);
  DIR *directory = opendir(path);
  size_t count = 0;
  for (const struct dirent *entry = directory ? readdir(directory) : NULL; entry; entry = readdir(directory))
    count += entry->d_name[0] != '.';
  if (directory) closedir(directory);
  return count;
}

// What is wrong with a training that has come to its end; NULL: nothing.
static const char *find_fault(const kills_t *kills, const delta_process_result_t *last) {
  delta_process_result_t compared;
  if (last->exit_status != 0) return last->error;
  run_line(kills, "cmp whole.onnx killed.onnx", limit_seconds, &compared);
  if (compared.exit_status != 0) return "the trained model differs from that of a training that was never stopped";
  return count_files(kills) == KEEP ? NULL : "the folder has other files than the checkpoints that are kept";
}

// One training, killed until it comes through or all kills are made.
static void train_killed(kills_t *kills) {
  char line[LINE_BYTES], every[128];
  delta_process_result_t result;
  long stops = 0;
  snprintf(every, sizeof every, "--checkpoint checkpoints --checkpoint-every %d --keep %d --resume -o killed.onnx", EVERY, KEEP);
  make_training_line(kills, every, line);
  for (bool is_over = false; !is_over; is_over = !result.timed_out) {
    const double part = (double)delta_random_below(&kills->random, 1 << 20) / (1 << 20);
    run_line(kills, line, kills->made < kills->wanted ? part * kills->whole_seconds : limit_seconds, &result);
    stops += result.timed_out;
    kills->made += result.timed_out;
  }
  const char *fault = find_fault(kills, &result);
  printf("%s a training killed %ld times%s%s\n", fault ? "failed" : "ok", stops, fault ? ": " : "", fault ? fault : "");
  fflush(stdout);
  ++*(fault ? &kills->failed : &kills->passed);
  run_line(kills, "rm -rf checkpoints killed.onnx", limit_seconds, &result);
}

int main(int argc, char **argv) {
  kills_t kills = {.folder = "/tmp/delta-kills-XXXXXX", .random.state = 1, .wanted = argc > 2 ? strtol(argv[2], NULL, 10) : KILLS};
  delta_process_result_t removed;
  if (argc < 2 || argc > 3 || kills.wanted < 1 || !realpath(argv[1], kills.digits)) {
    fprintf(stderr, "usage: %s FOLDER [KILLS]\n", argv[0]);
    return 2;
  }
  if (mkdtemp(kills.folder) && prepare(&kills)) {
    while (kills.made < kills.wanted && kills.failed == 0) train_killed(&kills);
  } else {
    ++kills.failed;
  }
  run_line(&kills, "rm -rf -- \"$PWD\"", limit_seconds, &removed);
  printf("%ld kills\n%ld passed, %ld failed, 0 skipped\n", kills.made, kills.passed, kills.failed);
  return kills.failed > 0;
}
