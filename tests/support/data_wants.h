// Data wants: what the tests of data readers share.
#ifndef DELTA_TESTS_SUPPORT_DATA_WANTS_H_
#define DELTA_TESTS_SUPPORT_DATA_WANTS_H_

#include "runtime/data/dataset.h"

// An array that a program wants, of any range.
delta_feed_want_t delta_test_want(const char *name, delta_dtype_t dtype, int32_t rank, const int64_t *dims);

// Expects a status of a code whose message has `message` (NULL: any) in it, and frees it. `label` says in which case.
void delta_test_expect_message(delta_status_t status, delta_status_code_t code, const char *message, const char *label);

#endif // DELTA_TESTS_SUPPORT_DATA_WANTS_H_
