#include "tests/support/trial.h"

#include <criterion/criterion.h>

bool delta_test_trial_begin(delta_test_trial_t *trial) {
  if (trial->is_over) return false;
  trial->number += trial->number > 0 && trial->leap_part > 0 ? 1 + trial->number / trial->leap_part : 1;
  delta_test_allocator_init(&trial->allocator, trial->number, trial->failure);
  return true;
}

delta_allocator_t delta_test_trial_allocator(delta_test_trial_t *trial) { return delta_test_allocator_interface(&trial->allocator); }

void delta_test_trial_end(delta_test_trial_t *trial, delta_status_t status, const char *what) {
  trial->is_over = trial->allocator.call_count < trial->number;
  cr_assert_eq(trial->allocator.live_bytes, 0, "%s: allocation %zu leaves %zu bytes", what, trial->number,
               (size_t)trial->allocator.live_bytes);
  cr_assert_eq(delta_status_code(status), trial->is_over ? DELTA_STATUS_OK : DELTA_STATUS_OUT_OF_MEMORY, "%s: allocation %zu: %s", what,
               trial->number, delta_status_message(status));
  delta_status_free(status);
}
