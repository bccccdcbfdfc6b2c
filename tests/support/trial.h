// Trials: what is done again and again, with another allocation that fails each time, until it gets by with fewer.
//
//   for (delta_test_trial_t trial = {.failure = DELTA_TEST_FAIL_ONCE}; delta_test_trial_begin(&trial);) {
//     delta_model_t *model = NULL;
//     delta_status_t status = delta_model_load(..., delta_test_trial_allocator(&trial), &model);
//     delta_model_free(model);
//     delta_test_trial_end(&trial, status, "load");
//   }
#ifndef DELTA_TESTS_SUPPORT_TRIAL_H_
#define DELTA_TESTS_SUPPORT_TRIAL_H_

#include <delta/status.h>

#include "tests/support/support.h"

typedef struct delta_test_trial {
  delta_test_failure_t failure;
  size_t leap_part; // calls left out between two trials: 1 / leap_part of those before; 0: none
  // The rest is kept by the functions.
  size_t number; // the call that fails, from 1
  delta_test_allocator_t allocator;
  bool is_over;
} delta_test_trial_t;

// Whether there is another trial; its allocator fails the next call.
bool delta_test_trial_begin(delta_test_trial_t *trial);
delta_allocator_t delta_test_trial_allocator(delta_test_trial_t *trial);
// Ends the running test unless all memory has come back, and the status, which it frees, is OUT_OF_MEMORY where a call has failed and OK where none has.
void delta_test_trial_end(delta_test_trial_t *trial, delta_status_t status, const char *what);

#endif // DELTA_TESTS_SUPPORT_TRIAL_H_
