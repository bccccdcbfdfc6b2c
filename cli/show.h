// Showing plans: the report and the trace of one just made, or of a file.
#ifndef DELTA_CLI_SHOW_H_
#define DELTA_CLI_SHOW_H_

#include <stdbool.h>

#include <delta/plan.h>

#include "cli/options.h"

typedef struct delta_show_request {
  const char *plan_path, *model_path, *external_data, *device; // the last three may be NULL
  const char *report, *trace;                                  // NULL: not wanted
  delta_log_sink_t log;
} delta_show_request_t;

// Whether a file is a plan, by how it begins. Unreadable files are not: whoever wants a model says what is wrong with them.
bool delta_is_plan_file(const char *path);

// Writes what is wanted of a plan that has its names.
DELTA_MUST_USE delta_status_t delta_show_write(const delta_plan_t *plan, const char *report, const char *trace);

// Loads the plan, builds its programs again and writes what is wanted. `options` are those of the command line: what says something of planning is refused.
DELTA_MUST_USE delta_status_t delta_show_plan(const delta_show_request_t *request, const delta_options_t *options,
                                              delta_allocator_t allocator);

#endif // DELTA_CLI_SHOW_H_
