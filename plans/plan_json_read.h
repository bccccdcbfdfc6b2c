// Plan from JSON: what the reader's two parts share. plan_json_read.c reads what stands once in a file, plan_json_schedule.c one program's schedule.
#ifndef DELTA_PLANS_PLAN_JSON_READ_H_
#define DELTA_PLANS_PLAN_JSON_READ_H_

#include "plans/plan_json.h"

typedef struct delta_plan_reader {
  const delta_json_document_t *document;
  const char *name;   // of the file; for messages
  delta_plan_t *plan; // under construction
} delta_plan_reader_t;

// A member that is a number of bytes or a count.
DELTA_MUST_USE delta_status_t delta_plan_read_bytes(const delta_plan_reader_t *reader, const delta_json_value_t *object, const char *key,
                                                    uint64_t *out_value);
DELTA_MUST_USE delta_status_t delta_plan_read_count(const delta_plan_reader_t *reader, const delta_json_value_t *object, const char *key,
                                                    uint32_t *out_value);

// Reads the schedule of programs[index]; what can be checked without the problem is.
DELTA_MUST_USE delta_status_t delta_plan_read_schedule(const delta_plan_reader_t *reader, const delta_json_value_t *object, uint32_t index,
                                                       delta_schedule_t **out_schedule);

#endif // DELTA_PLANS_PLAN_JSON_READ_H_
