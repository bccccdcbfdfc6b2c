// Plan from JSON, second part: a program's schedule.
#include <stdio.h>

#include "plans/plan_json_read.h"

enum { PLACE_BYTES = 96 };

// Where in the file a list stands, for messages: "programs[1].schedule.buffers.tensor".
typedef struct list_place {
  uint32_t program;
  const char *path; // within the schedule
  uint32_t step;    // of `steps`, or UINT32_MAX
} list_place_t;

static const char *describe_item(const list_place_t *place, size_t item, char text[PLACE_BYTES]) {
  if (place->step == UINT32_MAX) {
    snprintf(text, PLACE_BYTES, "programs[%u].schedule.%s[%zu]", place->program, place->path, item);
  } else {
    snprintf(text, PLACE_BYTES, "programs[%u].schedule.steps[%u].%s[%zu]", place->program, place->step, place->path, item);
  }
  return text;
}

// An item of a list. The place is only put into words when there is something to report.
static delta_status_t read_item(const delta_plan_reader_t *reader, const delta_json_value_t *value, const list_place_t *place, size_t item,
                                int64_t minimum, int64_t maximum, int64_t *out_value) {
  delta_status_t status = delta_json_as_int64(reader->document, value, "", minimum, maximum, out_value);
  if (!status) return DELTA_OK;
  delta_status_free(status);
  char text[PLACE_BYTES];
  return delta_json_as_int64(reader->document, value, describe_item(place, item, text), minimum, maximum, out_value);
}

// A list of indices below `limit`; -1 stands for none where that is allowed.
static delta_status_t read_indices(const delta_plan_reader_t *reader, const delta_json_value_t *array, const list_place_t *place,
                                   bool may_be_none, uint32_t limit, uint32_t *out_items) {
  size_t item = 0;
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value), ++item) {
    int64_t index;
    DELTA_RETURN_IF_ERROR(read_item(reader, value, place, item, may_be_none ? -1 : 0, (int64_t)limit - 1, &index));
    out_items[item] = index < 0 ? DELTA_PROBLEM_NONE : (uint32_t)index;
  }
  return DELTA_OK;
}

// ---- Buffers

typedef struct buffer_column {
  const char *key;
  const char *path;
  size_t offset; // of the field in delta_buffer_t
  bool is_bytes; // size_t, else uint32_t
  bool may_be_none;
} buffer_column_t;

#define COLUMN(field, is_bytes, may_be_none) \
  { #field, "buffers." #field, offsetof(delta_buffer_t, field), is_bytes, may_be_none }
static const buffer_column_t buffer_columns[] = {
    COLUMN(tensor, false, true),      COLUMN(size_bytes, true, false), COLUMN(offset_bytes, true, false),
    COLUMN(first_step, false, false), COLUMN(last_step, false, false), COLUMN(inplace_of, false, true),
};
#undef COLUMN

static delta_status_t read_column(const delta_plan_reader_t *reader, const delta_json_value_t *array, const buffer_column_t *column,
                                  uint32_t program, delta_buffer_t *buffers) {
  const list_place_t place = {program, column->path, UINT32_MAX};
  const int64_t maximum = column->is_bytes ? DELTA_PLAN_INTEGER_LIMIT - 1 : (int64_t)DELTA_PROBLEM_NONE - 1;
  size_t item = 0;
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value), ++item) {
    int64_t number;
    DELTA_RETURN_IF_ERROR(read_item(reader, value, &place, item, column->may_be_none ? -1 : 0, maximum, &number));
    char *field = (char *)&buffers[item] + column->offset;
    if (column->is_bytes) {
      *(size_t *)field = (size_t)number;
    } else {
      *(uint32_t *)field = number < 0 ? DELTA_PROBLEM_NONE : (uint32_t)number;
    }
  }
  return DELTA_OK;
}

static delta_status_t read_buffers(const delta_plan_reader_t *reader, const delta_json_value_t *object, uint32_t program,
                                   delta_schedule_t *schedule) {
  const delta_json_value_t *buffers = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_object(reader->document, object, "buffers", &buffers));
  for (size_t c = 0; c < sizeof buffer_columns / sizeof *buffer_columns; ++c) {
    const delta_json_value_t *array = NULL;
    size_t count;
    DELTA_RETURN_IF_ERROR(delta_json_get_array(reader->document, buffers, buffer_columns[c].key, &array, &count));
    if (c == 0) {
      if (count >= DELTA_PROBLEM_NONE) return delta_status_make(MALFORMED, "%s: %zu buffers are too many", reader->name, count);
      schedule->buffer_count = (uint32_t)count;
      DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&schedule->region, count, &schedule->buffers));
    } else if (count != schedule->buffer_count) {
      return delta_status_make(MALFORMED, "%s: programs[%u].schedule.%s has %zu entries, buffers.tensor has %u", reader->name, program,
                               buffer_columns[c].path, count, schedule->buffer_count);
    }
    DELTA_RETURN_IF_ERROR(read_column(reader, array, &buffer_columns[c], program, schedule->buffers));
  }
  return DELTA_OK;
}

static delta_status_t check_buffers(const delta_plan_reader_t *reader, uint32_t program, const delta_schedule_t *schedule) {
  // A program without steps still has one moment, at which its inputs are there.
  const uint32_t moments = schedule->step_count > 0 ? schedule->step_count : 1;
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    const bool lives_in_order = buffer->first_step <= buffer->last_step && buffer->last_step < moments;
    const bool takes_over = buffer->inplace_of == DELTA_PROBLEM_NONE || buffer->inplace_of < schedule->buffer_count;
    const bool lies_inside =
        buffer->offset_bytes <= schedule->arena_bytes && buffer->size_bytes <= schedule->arena_bytes - buffer->offset_bytes;
    if (lives_in_order && takes_over && lies_inside) continue;
    return delta_status_make(MALFORMED, "%s: programs[%u].schedule.buffers: entry %u %s", reader->name, program, b,
                             !lives_in_order ? "does not live from one step to a later one"
                             : !takes_over   ? "takes over the bytes of a buffer that does not exist"
                                             : "lies outside the arena");
  }
  return DELTA_OK;
}

// ---- Steps

static delta_status_t read_index_list(const delta_plan_reader_t *reader, const delta_json_value_t *object, const list_place_t *place,
                                      bool may_be_none, uint32_t limit, delta_region_t *region, uint32_t **out_items, uint32_t *out_count) {
  const delta_json_value_t *array = NULL;
  size_t count;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(reader->document, object, place->path, &array, &count));
  if (count >= DELTA_PROBLEM_NONE) return delta_status_make(MALFORMED, "%s: a list of %zu entries is too long", reader->name, count);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, count, out_items));
  *out_count = (uint32_t)count;
  return read_indices(reader, array, place, may_be_none, limit, *out_items);
}

static delta_status_t find_kind(const delta_plan_reader_t *reader, const delta_json_value_t *object, const list_place_t *place,
                                delta_step_kind_t *out_kind) {
  uint32_t found = 0;
  for (uint32_t kind = 0; kind < delta_step_kind_names.count; ++kind) {
    if (!delta_json_find(object, delta_step_kind_names.names[kind])) continue;
    *out_kind = (delta_step_kind_t)kind;
    ++found;
  }
  if (found == 1) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s: programs[%u].schedule.steps[%u]: expected one of 'run', 'swap_out', 'swap_in'", reader->name,
                           place->program, place->step);
}

static delta_status_t read_run(const delta_plan_reader_t *reader, const delta_json_value_t *object, list_place_t place,
                               delta_schedule_t *schedule, delta_schedule_step_t *step) {
  int64_t number;
  const uint32_t limit = schedule->buffer_count;
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, object, "run", 0, (int64_t)DELTA_PROBLEM_NONE - 1, &number));
  step->lane = DELTA_LANE_COMPUTE;
  step->problem_step = (uint32_t)number;
  place.path = "in";
  DELTA_RETURN_IF_ERROR(read_index_list(reader, object, &place, true, limit, &schedule->region, &step->inputs, &step->input_count));
  place.path = "out";
  DELTA_RETURN_IF_ERROR(read_index_list(reader, object, &place, true, limit, &schedule->region, &step->outputs, &step->output_count));
  if (!delta_json_find(object, "workspace")) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, object, "workspace", 0, (int64_t)limit - 1, &number));
  step->workspace = (uint32_t)number;
  return DELTA_OK;
}

static delta_status_t read_swap(const delta_plan_reader_t *reader, const delta_json_value_t *object, delta_schedule_t *schedule,
                                delta_schedule_step_t *step) {
  const bool is_out = step->kind == DELTA_STEP_SWAP_OUT;
  int64_t buffer;
  uint64_t host_offset_bytes;
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, object, delta_step_kind_names.names[step->kind], 0,
                                             (int64_t)schedule->buffer_count - 1, &buffer));
  DELTA_RETURN_IF_ERROR(delta_plan_read_bytes(reader, object, "host_offset_bytes", &host_offset_bytes));
  step->lane = is_out ? DELTA_LANE_OFFLOAD : DELTA_LANE_PREFETCH;
  step->host_offset_bytes = (size_t)host_offset_bytes;
  uint32_t **list = is_out ? &step->inputs : &step->outputs;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&schedule->region, 1, list));
  (*list)[0] = (uint32_t)buffer;
  *(is_out ? &step->input_count : &step->output_count) = 1;
  return DELTA_OK;
}

static delta_status_t read_step(const delta_plan_reader_t *reader, const delta_json_value_t *object, list_place_t place,
                                delta_schedule_t *schedule) {
  delta_schedule_step_t *step = &schedule->steps[place.step];
  *step = (delta_schedule_step_t){.problem_step = DELTA_PROBLEM_NONE, .workspace = DELTA_PROBLEM_NONE};
  DELTA_RETURN_IF_ERROR(delta_json_get_double(reader->document, object, "start", &step->start_seconds));
  DELTA_RETURN_IF_ERROR(delta_json_get_double(reader->document, object, "end", &step->end_seconds));
  DELTA_RETURN_IF_ERROR(find_kind(reader, object, &place, &step->kind));
  DELTA_RETURN_IF_ERROR(step->kind == DELTA_STEP_RUN ? read_run(reader, object, place, schedule, step)
                                                     : read_swap(reader, object, schedule, step));
  if (!delta_json_find(object, "waits")) return DELTA_OK;
  place.path = "waits";
  return read_index_list(reader, object, &place, false, place.step, &schedule->region, &step->waits, &step->wait_count);
}

static delta_status_t read_steps(const delta_plan_reader_t *reader, const delta_json_value_t *object, uint32_t program,
                                 delta_schedule_t *schedule) {
  const delta_json_value_t *array = NULL;
  size_t count;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(reader->document, object, "steps", &array, &count));
  if (count >= INT32_MAX) return delta_status_make(MALFORMED, "%s: %zu steps are too many", reader->name, count);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&schedule->region, count, &schedule->steps));
  list_place_t place = {program, "", 0};
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value), ++place.step) {
    DELTA_RETURN_IF_ERROR(read_step(reader, value, place, schedule));
  }
  schedule->step_count = (uint32_t)count;
  return DELTA_OK;
}

// ---- Alternatives

static delta_status_t read_alternatives(const delta_plan_reader_t *reader, const delta_json_value_t *object, uint32_t program,
                                        delta_schedule_t *schedule) {
  const delta_json_value_t *array = NULL;
  size_t count;
  if (!delta_json_find(object, "alternatives")) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(reader->document, object, "alternatives", &array, &count));
  if (count > schedule->step_count) {
    return delta_status_make(MALFORMED, "%s: programs[%u].schedule.alternatives: %zu entries for %u steps", reader->name, program, count,
                             schedule->step_count);
  }
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&schedule->region, count, &schedule->alternatives));
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value)) {
    int64_t before, after;
    double seconds;
    DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, value, "before", 0, (int64_t)schedule->buffer_count - 1, &before));
    DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, value, "after", 0, (int64_t)schedule->buffer_count - 1, &after));
    DELTA_RETURN_IF_ERROR(delta_json_get_double(reader->document, value, "rebuild_seconds", &seconds));
    if (!(seconds >= 0)) {
      return delta_status_make(MALFORMED, "%s: programs[%u].schedule.alternatives[%u].rebuild_seconds: %g is not a time", reader->name,
                               program, schedule->alternative_count, seconds);
    }
    schedule->alternatives[schedule->alternative_count++] =
        (delta_alternative_t){.before = (uint32_t)before, .after = (uint32_t)after, .rebuild_seconds = seconds};
  }
  return DELTA_OK;
}

// ---- The whole

static delta_status_t read_scalars(const delta_plan_reader_t *reader, const delta_json_value_t *object, delta_schedule_t *schedule) {
#define READ_BYTES(field) DELTA_RETURN_IF_ERROR(delta_plan_read_bytes(reader, object, #field, &schedule->field));
#define READ_COUNT(field) DELTA_RETURN_IF_ERROR(delta_plan_read_count(reader, object, #field, &schedule->field));
#define READ_REAL(field)  DELTA_RETURN_IF_ERROR(delta_json_get_double(reader->document, object, #field, &schedule->field));
  DELTA_SCHEDULE_BYTES(READ_BYTES)
  DELTA_SCHEDULE_COUNTS(READ_COUNT)
  DELTA_SCHEDULE_REALS(READ_REAL)
#undef READ_BYTES
#undef READ_COUNT
#undef READ_REAL
  return DELTA_OK;
}

static delta_status_t read_all(const delta_plan_reader_t *reader, const delta_json_value_t *object, uint32_t program,
                               delta_schedule_t *schedule) {
  DELTA_RETURN_IF_ERROR(read_scalars(reader, object, schedule));
  DELTA_RETURN_IF_ERROR(read_buffers(reader, object, program, schedule));
  DELTA_RETURN_IF_ERROR(read_steps(reader, object, program, schedule));
  DELTA_RETURN_IF_ERROR(read_alternatives(reader, object, program, schedule));
  DELTA_RETURN_IF_ERROR(check_buffers(reader, program, schedule));
  if (schedule->peak_step < schedule->step_count || schedule->peak_step == 0) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s: programs[%u].schedule.peak_step: step %u of %u", reader->name, program, schedule->peak_step,
                           schedule->step_count);
}

delta_status_t delta_plan_read_schedule(const delta_plan_reader_t *reader, const delta_json_value_t *object, uint32_t index,
                                        delta_schedule_t **out_schedule) {
  delta_schedule_t *schedule = NULL;
  DELTA_RETURN_IF_ERROR(delta_schedule_create(reader->plan->allocator, &schedule));
  delta_status_t status = read_all(reader, object, index, schedule);
  if (status) {
    delta_schedule_free(schedule);
    return status;
  }
  *out_schedule = schedule;
  return DELTA_OK;
}
