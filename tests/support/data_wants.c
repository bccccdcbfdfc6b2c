// Data wants: see data_wants.h.
#include "tests/support/data_wants.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/status.h"

delta_feed_want_t delta_test_want(const char *name, delta_dtype_t dtype, int32_t rank, const int64_t *dims) {
  delta_feed_want_t result = {.name = name, .dtype = dtype, .shape.rank = rank};
  memcpy(result.shape.dims, dims, (size_t)rank * sizeof *dims);
  return result;
}

void delta_test_expect_message(delta_status_t status, delta_status_code_t code, const char *message, const char *label) {
  cr_expect_eq(delta_status_code(status), code, "%s: %s", label, delta_status_message(status));
  if (message)
    cr_expect(strstr(delta_status_message(status), message), "%s: '%s' lacks '%s'", label, delta_status_message(status), message);
  delta_status_free(status);
}
