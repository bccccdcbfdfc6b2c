#include "tests/support/indices.h"

#include <criterion/criterion.h>

enum { MOST_CASES = 1024 };

struct criterion_test_params delta_test_indices(size_t count) {
  static size_t indices[MOST_CASES];
  cr_assert_leq(count, MOST_CASES);
  for (size_t i = 0; i < count; ++i) indices[i] = i;
  return cr_make_param_array(size_t, indices, count);
}
