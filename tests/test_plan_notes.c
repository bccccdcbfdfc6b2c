// What planning says of a model: what its export has lost, what is tied, and no false alarm.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/training.h"
#include "tests/support/words.h"

enum { NOTES_BYTES = 1 << 14 };

static void keep_line(void *self, delta_log_level_t level, const char *line) {
  char *notes = self;
  const size_t used = strlen(notes);
  if (level != DELTA_LOG_DEBUG) snprintf(notes + used, NOTES_BYTES - used, "%s%s\n", level == DELTA_LOG_WARNING ? "WARNING " : "", line);
}

typedef struct notes_case {
  char path[64]; // below the shared folder
  char batchnorm[16];
  char words[96];  // all are said
  char absent[48]; // is not said
} notes_case_t;

ParameterizedTestParameters(plan_notes, of_exports) {
  static notes_case_t cases[] = {
      {"models-odd/eval_folded.onnx", "as-exported", "WARNING|onnx::Conv_146|do_constant_folding=False|tied|20 tensors train",
       "optimize=False"},
      {"models-odd/new_exporter_default.onnx", "as-exported", "WARNING|15 Conv nodes|optimize=False|17 tensors train", "tied"},
      {"models-odd/new_exporter_unoptimized.onnx", "as-exported", "WARNING|15 BatchNormalization|--batchnorm train|47 tensors train",
       "tied"},
      {"models-odd/new_exporter_unoptimized.onnx", "freeze", "47 tensors train", "WARNING"},
      {"models-odd/new_exporter_unoptimized.onnx", "train", "47 tensors train", "WARNING"},
      {"models/cnn/model.onnx", "as-exported", "10 tensors train|4 initializers do not train: running statistic", "WARNING"},
      {"models/mlp/model.onnx", "as-exported", "train", "WARNING"},
  };
  return cr_make_param_array(notes_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(notes_case_t *c, plan_notes, of_exports) {
  char path[DELTA_TEST_PATH_BYTES], notes[NOTES_BYTES] = "";
  DELTA_SKIP_WITHOUT_SHARED(c->path, path);
  delta_plan_options_t options = delta_test_plan_options(4);
  options.model_path = path;
  options.batchnorm = c->batchnorm;
  options.profile = "estimate";
  options.log = (delta_log_sink_t){.self = notes, .write = keep_line};
  delta_plan_t *plan = NULL;
  delta_test_expect_ok(delta_plan_create(&options, delta_allocator_system(), &plan, NULL), "plan");
  delta_plan_free(plan);
  cr_expect(delta_words_all(notes, c->words), "not all of '%s' in: %s", c->words, notes);
  cr_expect_null(strstr(notes, c->absent), "'%s' in: %s", c->absent, notes);
}
