// The largest size that fits: every answer from every start, and few trials.
#include <criterion/criterion.h>

#include "planner/largest.h"
#include "tests/support/planning.h"

typedef struct threshold {
  int64_t largest;
  uint32_t trials;
} threshold_t;

static delta_status_t fits(void *self, int64_t size, bool *out_fits) {
  threshold_t *threshold = self;
  ++threshold->trials;
  *out_fits = size <= threshold->largest;
  return DELTA_OK;
}

Test(planner_largest, every_answer_from_every_start) {
  enum { LIMIT = 40 };
  for (int64_t largest = 0; largest <= LIMIT + 3; ++largest) {
    for (int64_t start = 1; start <= LIMIT + 3; ++start) {
      threshold_t threshold = {.largest = largest};
      int64_t found = -1;
      delta_test_must(delta_find_largest(fits, &threshold, start, LIMIT, &found));
      cr_expect_eq(found, largest < LIMIT ? largest : LIMIT, "largest %lld from %lld: %lld", (long long)largest, (long long)start,
                   (long long)found);
      cr_expect_leq(threshold.trials, 14, "largest %lld from %lld: %u trials", (long long)largest, (long long)start, threshold.trials);
    }
  }
}

Test(planner_largest, large_answers_take_few_trials) {
  threshold_t threshold = {.largest = 123456789};
  int64_t found = 0;
  delta_test_must(delta_find_largest(fits, &threshold, 1, INT64_MAX - 1, &found));
  cr_expect_eq(found, threshold.largest);
  cr_expect_leq(threshold.trials, 56, "%u trials", threshold.trials);
}

static delta_status_t fails(void *self, int64_t size, bool *out_fits) {
  (void)self, (void)out_fits;
  return size < 8 ? DELTA_OK : delta_status_make(IO, "size 8");
}

Test(planner_largest, a_good_start_takes_few_trials) {
  for (int64_t start = 995; start <= 1005; ++start) {
    threshold_t threshold = {.largest = 1000};
    int64_t found = 0;
    delta_test_must(delta_find_largest(fits, &threshold, start, 1 << 20, &found));
    cr_expect_eq(found, threshold.largest);
    cr_expect_leq(threshold.trials, 7, "from %lld: %u trials", (long long)start, threshold.trials);
  }
}

Test(planner_largest, errors_end_the_search) {
  int64_t found;
  delta_status_t status = delta_find_largest(fails, NULL, 8, 100, &found);
  cr_expect_eq(delta_status_code(status), DELTA_STATUS_IO);
  delta_status_free(status);
}
