// Workplace: a temporary folder with models and data, in which the programs are run as their users run them, by lines of shell.
#ifndef DELTA_TESTS_SUPPORT_WORKPLACE_H_
#define DELTA_TESTS_SUPPORT_WORKPLACE_H_

#include "tests/support/model_file.h"
#include "tests/support/process.h"

// Its models: model.onnx (two layers of x [N, 4] to 3 classes), bn.onnx, fixed.onnx (batch 4), two.onnx (two outputs), other.onnx. Its data, of
// DELTA_WORKPLACE_SAMPLES samples: x.npy, y.npy (classes), target.npy (floats), and arrays that are wrong: range.npy, float.npy, rank.npy,
// onehot.npy, short.npy.
enum { DELTA_WORKPLACE_SAMPLES = 22 };
typedef struct delta_workplace {
  delta_test_folder_t folder;
} delta_workplace_t;

void delta_workplace_open(delta_workplace_t *w);
void delta_workplace_close(delta_workplace_t *w);
void delta_workplace_write_model(const delta_workplace_t *w, const char *name, const char *text); // tests/support/model_write.h

// Runs a line of shell in the folder, where the programs under test are found by name. The result is valid until the next run.
const delta_process_result_t *delta_workplace_run(const delta_workplace_t *w, const char *line);
// The same, expecting exit status 0.
void delta_workplace_expect(const delta_workplace_t *w, const char *line);

// Lines that fail: each ends with the exit status and one line on stderr, which has the words (tests/support/words.h).
typedef struct delta_line_case {
  const char *line;
  const char *words;
} delta_line_case_t;
void delta_workplace_expect_failures(const delta_workplace_t *w, int exit_status, const delta_line_case_t *cases, size_t count);
#define DELTA_EXPECT_FAILURES(w, exit_status, cases) delta_workplace_expect_failures(w, exit_status, cases, sizeof(cases) / sizeof *(cases))

// The text of a file in the folder; the caller frees. NULL when there is none.
char *delta_workplace_read(const delta_workplace_t *w, const char *name);
bool delta_workplace_has(const delta_workplace_t *w, const char *name);

#endif // DELTA_TESTS_SUPPORT_WORKPLACE_H_
