// Model values: evaluates a model on arrays of an npz file and compares its outputs, with the reference kernels.
#ifndef DELTA_TESTS_SUPPORT_MODEL_VALUES_H_
#define DELTA_TESTS_SUPPORT_MODEL_VALUES_H_

#include <stdint.h>

#include "base/status.h"

// `npz_path` holds in/NAME for each input and out/NAME for each output of the model. MISMATCH names the first element that differs by more than
// `tolerance` (absolute, and relative to the wanted value).
DELTA_MUST_USE delta_status_t delta_test_check_values(const char *model_path, const char *npz_path, double tolerance);

// Loads and lowers a model for evaluation; a symbolic first dimension is taken as `batch`.
DELTA_MUST_USE delta_status_t delta_test_check_import(const char *model_path, int64_t batch);

#endif // DELTA_TESTS_SUPPORT_MODEL_VALUES_H_
