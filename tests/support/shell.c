#include "tests/support/shell.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/words.h"

const delta_process_result_t *delta_test_shell(const delta_test_folder_t *folder, const char *line) {
  static delta_process_result_t result;
  static char script[8192];
  snprintf(script, sizeof script, "PATH='%s':$PATH; cd '%s'; export XDG_CACHE_HOME=\"$PWD/cache\"; %s", DELTA_BINARY_FOLDER, folder->path,
           line);
  const char *const arguments[] = {"/bin/sh", "-c", script, NULL};
  delta_process_run(&(delta_process_t){.arguments = arguments, .limit_seconds = 120}, &result);
  cr_assert(result.started && !result.timed_out, "%s: %s", line, result.error);
  return &result;
}

void delta_test_shell_works(const delta_test_folder_t *folder, const char *line) {
  const delta_process_result_t *result = delta_test_shell(folder, line);
  cr_assert_eq(result->exit_status, 0, "%s: exit %d: %s", line, result->exit_status, result->error);
}

void delta_test_shell_fails(const delta_test_folder_t *folder, int exit_status, const char *line, const char *words) {
  const delta_process_result_t *result = delta_test_shell(folder, line);
  const char *end = strchr(result->error, '\n');
  cr_expect_eq(result->exit_status, exit_status, "%s: exit %d: %s", line, result->exit_status, result->error);
  cr_expect(end && end != result->error && end[1] == '\0', "%s: not one line: %s", line, result->error);
  cr_expect(delta_words_all(result->error, words), "%s: not all of '%s' in: %s", line, words, result->error);
}
