// Progress: a bar on a terminal, few plain lines elsewhere.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/progress.h"

static size_t count_lines(const char *text) {
  size_t lines = 0;
  for (; *text; ++text) lines += *text == '\n';
  return lines;
}

static const delta_progress_state_t state = {
    .done = 42, .loss = 0.12345, .samples_per_second = 812.4, .used_bytes = 12 << 20, .budget_bytes = 64 << 20};

Test(progress, plain_lines_are_few_and_plain) {
  char *text = NULL;
  size_t size;
  FILE *stream = open_memstream(&text, &size);
  delta_progress_t progress;
  delta_progress_state_t current = state;
  delta_progress_begin(&progress, stream, false, "training", "step", 1000, 100);
  for (int i = 0; i < 1000; ++i) {
    current.done = i + 1;
    delta_progress_update(&progress, &current, 100 + i * 0.003);
  }
  delta_progress_line(&progress, "epoch 1: accuracy 0.9");
  delta_progress_end(&progress, &current, 103);
  fclose(stream);
  cr_expect_eq(count_lines(text), 4, "%s", text);
  cr_expect(!strchr(text, '\033') && !strchr(text, '\r'), "control characters in '%s'", text);
  cr_expect(strstr(text, "\nepoch 1: accuracy 0.9\n"));
  cr_expect(strstr(text, "training: step 1000/1000, loss 0.1235, 812 samples/s, 12.0 MiB of 64.0 MiB, 0:03\n"), "%s", text);
  free(text);
}

Test(progress, a_bar_is_redrawn) {
  char *text = NULL;
  size_t size;
  FILE *stream = open_memstream(&text, &size);
  delta_progress_t progress;
  delta_progress_begin(&progress, stream, true, "training", "step", 140, 100);
  delta_progress_update(&progress, &state, 100.01);
  fflush(stream);
  cr_expect_eq(size, 0, "too early");
  delta_progress_update(&progress, &state, 142);
  fflush(stream);
  cr_expect_eq(text[0], '\r');
  cr_expect(strstr(text, "\r[##") && strstr(text, "] 42/140  loss 0.1235  812 samples/s  12.0 MiB of 64.0 MiB  1:38 left"), "%s", text);
  cr_expect_eq(count_lines(text), 0);
  cr_expect_leq(strlen(text), 80 + strlen("\r\033[K"), "wider than the terminal");
  delta_progress_line(&progress, "note");
  delta_progress_end(&progress, &state, 143);
  fclose(stream);
  cr_expect(strstr(text, "\r\033[Knote\n"), "the note stands in the bar's place");
  cr_expect_eq(text[strlen(text) - 1], '\n');
  free(text);
}

// What has not begun and what was just shown is not shown at the end.
Test(progress, the_end_says_nothing_twice) {
  static const int64_t done[] = {0, 2, 3};
  static const char *const texts[] = {"", "training: epoch 1, step 2/3, 0:01 left\n", "training: epoch 1, step 3/3, 0:02\n"};
  for (int k = 0; k < 3; ++k) {
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    delta_progress_t progress;
    const delta_progress_state_t reached = {.done = done[k], .epoch = 1, .loss = NAN};
    delta_progress_begin(&progress, stream, false, "training", "step", 3, 0);
    if (done[k] > 0) delta_progress_update(&progress, &reached, 2);
    delta_progress_end(&progress, &reached, 2);
    fclose(stream);
    cr_expect_str_eq(text, texts[k]);
    free(text);
  }
}

Test(progress, what_is_not_known_is_left_out) {
  char *text = NULL;
  size_t size;
  FILE *stream = open_memstream(&text, &size);
  delta_progress_t progress;
  const delta_progress_state_t bare = {.done = 3, .loss = NAN};
  delta_progress_begin(&progress, stream, false, "profiling", "operator", 0, 0);
  delta_progress_end(&progress, &bare, 3723);
  fclose(stream);
  cr_expect_str_eq(text, "profiling: operator 3, 1:02:03\n");
  free(text);
}
