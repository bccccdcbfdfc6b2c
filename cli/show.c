// A plan is not planned again to be shown; its outputs are looked at before its programs are built.
#include "cli/show.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/status.h"
#include "plans/plan_json.h"

enum { HEAD_BYTES = 64 };

bool delta_is_plan_file(const char *path) {
  char head[HEAD_BYTES];
  FILE *file = fopen(path, "rb");
  if (!file) return false;
  const size_t count = fread(head, 1, sizeof head - 1, file);
  fclose(file);
  head[count] = '\0';
  return strstr(head, "\"" DELTA_PLAN_FORMAT "\"") != NULL;
}

delta_status_t delta_show_write(const delta_plan_t *plan, const char *report, const char *trace) {
  if (report) DELTA_RETURN_IF_ERROR(delta_plan_write_report(plan, report));
  return trace ? delta_plan_write_trace(plan, trace) : DELTA_OK;
}

static delta_status_t check_options(const delta_options_t *options) {
  static const char *const shown[] = {"--report", "--trace", "--model", "--external-data", "--device", "--verbose"};
  for (size_t i = 0; i < options->program->option_count; ++i) {
    bool is_shown = !options->given[i];
    for (size_t k = 0; k < sizeof shown / sizeof *shown; ++k)
      is_shown = is_shown || strcmp(options->program->options[i].name, shown[k]) == 0;
    if (!is_shown)
      return delta_status_make(INVALID_ARGUMENT, "%s is for planning; a plan that is there is only shown: give its model to plan again",
                               options->program->options[i].name);
  }
  return DELTA_OK;
}

static delta_status_t check_output(const delta_show_request_t *request, const char *option, const char *path, delta_allocator_t allocator) {
  if (!path) return DELTA_OK;
  if (delta_file_is_same(path, request->plan_path) || (request->model_path && delta_file_is_same(path, request->model_path)))
    return delta_status_make(INVALID_ARGUMENT, "%s '%s': it is what is read; give another path", option, path);
  return delta_file_probe(path, allocator);
}

delta_status_t delta_show_plan(const delta_show_request_t *request, const delta_options_t *options, delta_allocator_t allocator) {
  delta_plan_t *plan = NULL;
  if (!request->report && !request->trace)
    return delta_status_make(INVALID_ARGUMENT,
                             "'%s' is a plan: give --report FILE.html or --trace FILE.json to see it, or run it with deltarun",
                             request->plan_path);
  if (request->report && request->trace && delta_file_is_same(request->report, request->trace))
    return delta_status_make(INVALID_ARGUMENT, "--report and --trace are both '%s': give two paths", request->report);
  DELTA_RETURN_IF_ERROR(check_options(options));
  DELTA_RETURN_IF_ERROR(check_output(request, "--report", request->report, allocator));
  DELTA_RETURN_IF_ERROR(check_output(request, "--trace", request->trace, allocator));
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_plan_load(request->plan_path, allocator, &plan), cleanup);
  DELTA_GOTO_IF_ERROR(
      status, delta_plan_open_model(plan, request->plan_path, request->model_path, request->external_data, request->device, request->log),
      cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_show_write(plan, request->report, request->trace), cleanup);
  if (request->report) printf("wrote %s\n", request->report);
  if (request->trace) printf("wrote %s\n", request->trace);
cleanup:
  delta_plan_free(plan);
  return status;
}
