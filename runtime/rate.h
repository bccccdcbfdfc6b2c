// Rate: learning-rate schedules. The rate is an input of every step, never a constant of the plan.
#ifndef DELTA_RUNTIME_RATE_H_
#define DELTA_RUNTIME_RATE_H_

#include <stdint.h>

#include "base/status.h"

// X(identifier, name, help)
#define DELTA_RATE_SCHEDULES(X)                                              \
  X(CONSTANT, "constant", "the rate as given")                               \
  X(LINEAR, "linear", "falls linearly, to zero after the last step")         \
  X(COSINE, "cosine", "falls by half a cosine, to zero after the last step") \
  X(STEP, "step", "divided by 10 at 1/3 and 2/3 of the steps")

typedef enum delta_rate_schedule {
#define DELTA_RATE_ENUM(id, name, help) DELTA_RATE_##id,
  DELTA_RATE_SCHEDULES(DELTA_RATE_ENUM)
#undef DELTA_RATE_ENUM
      DELTA_RATE_COUNT
} delta_rate_schedule_t;

typedef struct delta_rate {
  delta_rate_schedule_t schedule;
  double base;
  int64_t warmup_steps; // rises linearly from base / warmup_steps to base over these
  int64_t total_steps;
} delta_rate_t;

// INVALID_ARGUMENT lists the names.
DELTA_MUST_USE delta_status_t delta_rate_schedule_parse(const char *name, delta_rate_schedule_t *out_schedule);
const char *delta_rate_schedule_name(delta_rate_schedule_t schedule);
// The rate of step `step` (0-based) of total_steps.
double delta_rate_at(const delta_rate_t *rate, int64_t step);

#endif // DELTA_RUNTIME_RATE_H_
