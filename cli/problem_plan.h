// Planning a problem file in place of a model.
#ifndef DELTA_CLI_PROBLEM_PLAN_H_
#define DELTA_CLI_PROBLEM_PLAN_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/allocator.h"

typedef struct delta_problem_request {
  const char *path, *output; // output: NULL, or the file that gets the timed steps
  const char *policy;        // NULL: delta
  const char *budget;        // NULL: the file's
  double time_limit_seconds;
  uint64_t seed;
  bool json;
  bool begin_with_rivals;     // policy delta: its search begins with the fastest plan of the rivals, and never ends with a slower one
  const char *report, *trace; // NULL, or the files that get them
} delta_problem_request_t;

// A plan in numbers.
typedef struct delta_problem_outcome {
  double seconds, recompute_seconds, stall_seconds;
  uint64_t peak_bytes, swapped_bytes; // peak: also of the least full plan where none fits
  const char *seed_policy;            // static, or NULL
  bool seed_is_plan;
} delta_problem_outcome_t;

// Whether a file has a JSON object and so is no model. Unreadable files are not: whoever wants a model says what is wrong with them.
bool delta_is_problem_file(const char *path);

// Plans, prints and writes. DOES_NOT_FIT: no plan was found.
DELTA_MUST_USE delta_status_t delta_plan_problem(const delta_problem_request_t *request, delta_allocator_t allocator);

// Plans without a word. budget_bytes: NULL, or in place of the file's; out_budget_bytes: NULL, or gets what was planned for. DOES_NOT_FIT as above; *out_outcome then has the peak.
DELTA_MUST_USE delta_status_t delta_plan_problem_quietly(const delta_problem_request_t *request, const uint64_t *budget_bytes,
                                                         delta_allocator_t allocator, delta_problem_outcome_t *out_outcome,
                                                         uint64_t *out_budget_bytes);

#endif // DELTA_CLI_PROBLEM_PLAN_H_
