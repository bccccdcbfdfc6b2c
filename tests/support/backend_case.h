// Backend case: runs one test of an ONNX backend collection: a model, inputs and the outputs that any runtime must give.
#ifndef DELTA_TESTS_SUPPORT_BACKEND_CASE_H_
#define DELTA_TESTS_SUPPORT_BACKEND_CASE_H_

#include "tests/support/device_run.h"

// LEFT_OUT: a case of a collection without tiers that needs what Delta does not offer: other operators, element types or kinds of values.
typedef enum delta_outcome { DELTA_OUTCOME_PASSED, DELTA_OUTCOME_FAILED, DELTA_OUTCOME_SKIPPED, DELTA_OUTCOME_LEFT_OUT } delta_outcome_t;

// X(name, function): what evaluates the graph. The function computes every output of values->graph from the inputs and states it holds.
#define DELTA_BACKEND_KERNELS(X) \
  X("reference", delta_reference_run_graph) X("cpu", delta_test_cpu_run_graph) X("cuda", delta_test_cuda_run_graph)
typedef struct delta_backend_kernels {
  const char *name;
  delta_status_t (*run)(delta_reference_values_t *values);
} delta_backend_kernels_t;

typedef struct delta_backend_case {
  const char *folder;      // holds model.onnx and test_data_set_N
  const char *tier;        // "T0", "T1", "T2", or NULL: the strictest that its operators and types are listed for
  const char *cannot_pass; // why no runtime but the author's can give these outputs; NULL otherwise
  const delta_backend_kernels_t *kernels;
} delta_backend_case_t;

enum { DELTA_REASON_BYTES = 512 };

// Runs all data sets. `reason` says what differs, why it was skipped, or (passed) how it was checked if not by equality.
// Equal means: the same type and shape, floats within rtol 1e-3 and atol 1e-7, NaN equal to NaN, all else exact.
//
// What is not supported is a failure in T0 and T1, skipped in T2 and left out where no tier is stated; a wrong value is always a failure. Dropout in training mode is checked by
// the share and scale of what it keeps, since its mask comes from another generator.
delta_outcome_t delta_backend_run_case(const delta_backend_case_t *backend_case, char reason[DELTA_REASON_BYTES]);

#endif // DELTA_TESTS_SUPPORT_BACKEND_CASE_H_
