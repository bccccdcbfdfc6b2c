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
  const char *report, *trace; // NULL, or the files that get them
} delta_problem_request_t;

// Whether a file has a JSON object and so is no model. Unreadable files are not: whoever wants a model says what is wrong with them.
bool delta_is_problem_file(const char *path);

// Plans, prints and writes. DOES_NOT_FIT: no plan was found.
DELTA_MUST_USE delta_status_t delta_plan_problem(const delta_problem_request_t *request, delta_allocator_t allocator);

#endif // DELTA_CLI_PROBLEM_PLAN_H_
