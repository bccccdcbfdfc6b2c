// Rate: one function of the step for each schedule.
#include "runtime/rate.h"

#include <delta/train.h>

#include <math.h>
#include <string.h>

static const char *const names[] = {
#define DELTA_RATE_NAME(id, name, help) name,
    DELTA_RATE_SCHEDULES(DELTA_RATE_NAME)
#undef DELTA_RATE_NAME
};

const char *delta_rate_schedule_name(delta_rate_schedule_t schedule) { return names[schedule]; }

delta_status_t delta_rate_schedule_parse(const char *name, delta_rate_schedule_t *out_schedule) {
#define DELTA_RATE_LIST(id, name, help) " " name
  for (int i = 0; i < DELTA_RATE_COUNT; ++i) {
    if (strcmp(names[i], name) != 0) continue;
    *out_schedule = (delta_rate_schedule_t)i;
    return DELTA_OK;
  }
  return delta_status_make(INVALID_ARGUMENT, "no learning-rate schedule '%s'; there are:" DELTA_RATE_SCHEDULES(DELTA_RATE_LIST), name);
#undef DELTA_RATE_LIST
}

// The part of the way from the end of the warm-up to the end of the run that lies before `step`, in [0, 1].
static double progress_at(const delta_rate_t *rate, int64_t step) {
  if (step <= rate->warmup_steps) return 0;
  if (step >= rate->total_steps) return 1;
  return (double)(step - rate->warmup_steps) / (double)(rate->total_steps - rate->warmup_steps);
}

double delta_rate_at(const delta_rate_t *rate, int64_t step) {
  const double pi = 3.141592653589793;
  if (step < rate->warmup_steps) return rate->base * (double)(step + 1) / (double)rate->warmup_steps;
  switch (rate->schedule) {
    case DELTA_RATE_LINEAR:
      return rate->base * (1 - progress_at(rate, step));
    case DELTA_RATE_COSINE:
      return rate->base * 0.5 * (1 + cos(pi * progress_at(rate, step)));
    case DELTA_RATE_STEP: {
      int64_t third = rate->total_steps / 3;
      // Rounded up, so that each level begins at or after its part of the steps: [0, n/3) [n/3, 2n/3) [2n/3, n).
      int64_t first_drop = third + (rate->total_steps % 3 > 0), second_drop = rate->total_steps - third;
      return step < first_drop ? rate->base : step < second_drop ? rate->base / 10 : rate->base / 100;
    }
    default:
      return rate->base;
  }
}

delta_status_t delta_learning_rate(const char *schedule, double rate, int64_t warmup_steps, int64_t total_steps, int64_t step,
                                   double *out_rate) {
  delta_rate_t wanted = {.base = rate, .warmup_steps = warmup_steps, .total_steps = total_steps};
  DELTA_RETURN_IF_ERROR(delta_rate_schedule_parse(schedule, &wanted.schedule));
  if (warmup_steps < 0 || total_steps < 1 || step < 0)
    return delta_status_make(INVALID_ARGUMENT, "a learning rate for step %lld of %lld with %lld of warm-up", (long long)step,
                             (long long)total_steps, (long long)warmup_steps);
  *out_rate = delta_rate_at(&wanted, step);
  return DELTA_OK;
}
