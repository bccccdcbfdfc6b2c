// Shell: command lines in a folder, with the programs of this build found by name, and what is expected of them.
#ifndef DELTA_TESTS_SUPPORT_SHELL_H_
#define DELTA_TESTS_SUPPORT_SHELL_H_

#include "tests/support/model_file.h"
#include "tests/support/process.h"

// Runs a line of shell in the folder. The result is good until the next call.
const delta_process_result_t *delta_test_shell(const delta_test_folder_t *folder, const char *line);

// Expects exit status 0.
void delta_test_shell_works(const delta_test_folder_t *folder, const char *line);

// Expects an exit status, and one line on stderr that has all `words` (tests/support/words.h).
void delta_test_shell_fails(const delta_test_folder_t *folder, int exit_status, const char *line, const char *words);

#endif // DELTA_TESTS_SUPPORT_SHELL_H_
