// The folder, its models and its data.
#include "tests/support/workplace.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "tests/support/data_files.h"
#include "tests/support/model_write.h"
#include "tests/support/shell.h"
#include "tests/support/training.h"

static const char two_layers[] =
    "input x float32 [N,4]\n"
    "init w1 float32 [4,6] -0.66 0.63 0.47 -0.44 -0.01 -0.09 0.27 0.52 -0.73 -0.85 0.60 -0.12 0.47 -0.90 -0.10 0.40 -0.49 0.80 0.72 -0.84 "
    "-0.85 0.07 0.79 -0.21\n"
    "init b1 float32 [6] 0\n"
    "init w2 float32 [6,3] -0.51 -0.14 -0.85 -0.50 -0.11 -0.01 -0.48 -0.48 -0.51 -0.07 -0.38 -0.86 0.61 0.10 0.26 -0.57 0.89 0.65\n"
    "init b2 float32 [3] 0\n"
    "node MatMul x w1 -> a\n"
    "node Add a b1 -> b\n"
    "node Tanh b -> c\n"
    "node MatMul c w2 -> d\n"
    "node Add d b2 -> logits\n"
    "output logits\n";
static const char fixed_model[] = "input x float32 [4,4]\ninit w float32 [4,3] 0.5\nnode MatMul x w -> logits\noutput logits\n";
static const char two_outputs[] =
    "input x float32 [N,K]\ninit w float32 [4,3] 0.5\nnode MatMul x w -> a\nnode Relu a -> b\noutput a\noutput b\n";

static void write_npy(const delta_workplace_t *w, const char *name, const char *descr, const char *shape, const void *data,
                      size_t size_bytes) {
  delta_test_bytes_t bytes = {0};
  delta_test_npy(&bytes, descr, shape, data, size_bytes);
  delta_test_folder_write(&w->folder, name, bytes.data, bytes.count);
  delta_test_bytes_free(&bytes);
}

void delta_workplace_write_model(const delta_workplace_t *w, const char *name, const char *text) {
  char path[DELTA_TEST_PATH_BYTES];
  delta_test_write_model(text, delta_test_folder_path(&w->folder, name, path));
}

// Classes that a linear function of x tells apart, so that training has something to learn.
void delta_workplace_open(delta_workplace_t *w) {
  static float x[DELTA_WORKPLACE_SAMPLES][4];
  static int64_t labels[DELTA_WORKPLACE_SAMPLES], wrong[DELTA_WORKPLACE_SAMPLES];
  delta_test_folder_make(&w->folder);
  for (int i = 0; i < DELTA_WORKPLACE_SAMPLES; ++i) {
    for (int k = 0; k < 4; ++k) x[i][k] = (float)sin(1 + 4 * i + k);
    labels[i] = x[i][0] > 0.3F ? 0 : x[i][1] > 0 ? 1 : 2;
    wrong[i] = i;
  }
  write_npy(w, "x.npy", "<f4", "(22, 4)", x, sizeof x);
  write_npy(w, "y.npy", "<i8", "(22,)", labels, sizeof labels);
  write_npy(w, "range.npy", "<i8", "(22,)", wrong, sizeof wrong);
  write_npy(w, "float.npy", "<f4", "(22,)", x, DELTA_WORKPLACE_SAMPLES * sizeof(float));
  write_npy(w, "rank.npy", "<f4", "(22, 2, 2)", x, sizeof x);
  write_npy(w, "onehot.npy", "<i8", "(22, 1)", labels, sizeof labels);
  write_npy(w, "target.npy", "<f4", "(22, 3)", x, DELTA_WORKPLACE_SAMPLES * 3 * sizeof(float));
  write_npy(w, "short.npy", "<i8", "(21,)", labels, (DELTA_WORKPLACE_SAMPLES - 1) * sizeof *labels);
  delta_workplace_write_model(w, "model.onnx", two_layers);
  delta_workplace_write_model(w, "bn.onnx", delta_test_batchnorm);
  delta_workplace_write_model(w, "fixed.onnx", fixed_model);
  delta_workplace_write_model(w, "two.onnx", two_outputs);
  delta_workplace_write_model(w, "other.onnx",
                              "input x float32 [N,4]\ninit w float32 [4,3] 0.25\nnode MatMul x w -> logits\noutput logits\n");
}

const delta_process_result_t *delta_workplace_run(const delta_workplace_t *w, const char *line) {
  return delta_test_shell(&w->folder, line);
}

void delta_workplace_expect(const delta_workplace_t *w, const char *line) { delta_test_shell_works(&w->folder, line); }

void delta_workplace_expect_failures(const delta_workplace_t *w, int exit_status, const delta_line_case_t *cases, size_t count) {
  for (size_t i = 0; i < count; ++i) delta_test_shell_fails(&w->folder, exit_status, cases[i].line, cases[i].words);
}

char *delta_workplace_read(const delta_workplace_t *w, const char *name) {
  char path[DELTA_TEST_PATH_BYTES], *text = NULL;
  size_t size_bytes;
  delta_status_t status =
      delta_file_read_all(delta_test_folder_path(&w->folder, name, path), 1 << 24, delta_allocator_system(), &text, &size_bytes);
  delta_status_free(status);
  return text;
}

bool delta_workplace_has(const delta_workplace_t *w, const char *name) {
  char path[DELTA_TEST_PATH_BYTES];
  return access(delta_test_folder_path(&w->folder, name, path), F_OK) == 0;
}

void delta_workplace_close(delta_workplace_t *w) { delta_test_folder_remove(&w->folder); }
