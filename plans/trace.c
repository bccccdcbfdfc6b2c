// Events of a program are sorted by time before they are written, so that readers of a stream need no buffer.
#include "plans/trace.h"

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"

static const char *const lane_names[] = {
#define LANE_NAME(id, name) name,
    DELTA_LANES(LANE_NAME)
#undef LANE_NAME
};

// A step, or what lives while it runs.
typedef struct trace_event {
  double start_seconds;
  uint32_t step;
  bool is_counter;
  uint64_t live_bytes;
} trace_event_t;

// By time; at one time the counter first, then steps in their order.
static int by_time(const void *a, const void *b) {
  const trace_event_t *x = a, *y = b;
  if (x->start_seconds != y->start_seconds) return x->start_seconds < y->start_seconds ? -1 : 1;
  if (x->step != y->step) return x->step < y->step ? -1 : 1;
  return (int)y->is_counter - (int)x->is_counter;
}

// Bytes that live while each step runs, those of the states too. What works in place has one set of bytes for both.
static delta_status_t count_live(const delta_view_t *view, delta_allocator_t allocator, int64_t **out_live_bytes) {
  const delta_schedule_t *schedule = view->schedule;
  int64_t *changes = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, (size_t)schedule->step_count + 2, &changes));
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {
    const delta_buffer_t *buffer = &schedule->buffers[b];
    changes[buffer->first_step + (buffer->inplace_of != DELTA_PROBLEM_NONE)] += (int64_t)buffer->size_bytes;
    changes[buffer->last_step + 1] -= (int64_t)buffer->size_bytes;
  }
  int64_t live_bytes = (int64_t)view->state_bytes;
  for (uint32_t s = 0; s < schedule->step_count; ++s) changes[s] = live_bytes += changes[s];
  *out_live_bytes = changes;
  return DELTA_OK;
}

static delta_status_t list_events(const delta_view_t *view, delta_allocator_t allocator, trace_event_t **out_events) {
  const uint32_t step_count = view->schedule->step_count;
  trace_event_t *events = NULL;
  int64_t *live_bytes = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, 2 * (size_t)step_count, &events), cleanup);
  DELTA_GOTO_IF_ERROR(status, count_live(view, allocator, &live_bytes), cleanup);
  double latest_seconds = 0;
  for (uint32_t s = 0; s < step_count; ++s) {
    const double start_seconds = delta_view_times(view, s).start_seconds;
    if (start_seconds > latest_seconds) latest_seconds = start_seconds;
    events[2 * s] = (trace_event_t){.start_seconds = start_seconds, .step = s};
    // Lanes run ahead of each other; memory is counted in the order of the schedule, so its time does not fall.
    events[2 * s + 1] =
        (trace_event_t){.start_seconds = latest_seconds, .step = s, .is_counter = true, .live_bytes = (uint64_t)live_bytes[s]};
  }
  if (step_count > 0) qsort(events, 2 * (size_t)step_count, sizeof *events, by_time);
  *out_events = events;
  events = NULL;
cleanup:
  delta_release(allocator, live_bytes);
  delta_release(allocator, events);
  return status;
}

// The format counts in microseconds; nanoseconds are what clocks give.
static double microseconds(double seconds) { return round(seconds * 1e9) / 1e3; }

static void write_text(delta_json_writer_t *writer, const char *key, const char *name) {
  char text[DELTA_VIEW_TEXT_BYTES];
  delta_json_write_string(writer, key, delta_view_text(name, text));
}

// What every event begins with. The caller ends the object.
static void begin_event(delta_json_writer_t *writer, const char *phase, size_t process, const char *name) {
  delta_json_begin_inline_object(writer, NULL);
  delta_json_write_string(writer, "ph", phase);
  delta_json_write_int64(writer, "pid", (int64_t)process);
  write_text(writer, "name", name);
}

static void write_name(delta_json_writer_t *writer, const char *what, size_t process, uint32_t thread, const char *name) {
  begin_event(writer, "M", process, what);
  delta_json_write_int64(writer, "tid", thread);
  delta_json_begin_object(writer, "args");
  delta_json_write_string(writer, "name", name);
  delta_json_end_object(writer);
  delta_json_end_object(writer);
}

static delta_status_t write_process(delta_json_writer_t *writer, const delta_view_t *view, size_t process, delta_allocator_t allocator) {
  delta_text_t name;
  delta_text_init(&name, allocator);
  delta_status_t status = delta_text_append(&name, "%s", view->program);
  if (!status && view->batch > 0) status = delta_text_append(&name, ", batch %lld", (long long)view->batch);
  if (!status) {
    write_name(writer, "process_name", process, 0, name.items);
    for (uint32_t lane = 0; lane < DELTA_LANE_COUNT; ++lane) write_name(writer, "thread_name", process, lane, lane_names[lane]);
  }
  delta_text_deinit(&name);
  return status;
}

static void write_counter(delta_json_writer_t *writer, size_t process, const trace_event_t *event) {
  begin_event(writer, "C", process, "memory");
  delta_json_write_double(writer, "ts", microseconds(event->start_seconds));
  delta_json_begin_object(writer, "args");
  delta_json_write_int64(writer, "live_bytes", (int64_t)event->live_bytes);
  delta_json_end_object(writer);
  delta_json_end_object(writer);
}

// The tensors that a step writes, with their types where they are known.
static void write_outputs(delta_json_writer_t *writer, const delta_view_t *view, const delta_problem_step_t *step) {
  delta_json_begin_array(writer, "writes");
  for (uint32_t k = 0; k < step->output_count; ++k) {
    const uint32_t tensor = step->outputs[k];
    delta_json_begin_object(writer, NULL);
    write_text(writer, "tensor", view->problem->tensors[tensor].name);
    if (view->types && view->types[tensor]) delta_json_write_string(writer, "type", view->types[tensor]);
    delta_json_write_int64(writer, "bytes", (int64_t)view->problem->tensors[tensor].size_bytes);
    delta_json_end_object(writer);
  }
  delta_json_end_array(writer);
}

// has_run tells by problem step whether it ran before in this program: then it runs again.
static void write_run(delta_json_writer_t *writer, const delta_view_t *view, const delta_schedule_step_t *step, bool *has_run) {
  const delta_problem_step_t *problem_step = &view->problem->steps[step->problem_step];
  const char *operator= view->operators ? view->operators[step->problem_step] : NULL;
  if (operator) delta_json_write_string(writer, "operator", operator);
  delta_json_write_bool(writer, "again", has_run[step->problem_step]);
  write_outputs(writer, view, problem_step);
  has_run[step->problem_step] = true;
}

static void write_step(delta_json_writer_t *writer, const delta_view_t *view, size_t process, uint32_t index, bool *has_run) {
  const delta_schedule_step_t *step = &view->schedule->steps[index];
  const delta_step_times_t times = delta_view_times(view, index);
  const uint32_t buffer = step->kind == DELTA_STEP_RUN        ? DELTA_PROBLEM_NONE
                          : step->kind == DELTA_STEP_SWAP_OUT ? step->inputs[0]
                                                              : step->outputs[0];
  const delta_buffer_t *copied = buffer == DELTA_PROBLEM_NONE ? NULL : &view->schedule->buffers[buffer];
  begin_event(writer, "X", process, copied ? view->problem->tensors[copied->tensor].name : view->problem->steps[step->problem_step].name);
  delta_json_write_string(writer, "cat", step->kind == DELTA_STEP_RUN ? "run" : step->kind == DELTA_STEP_SWAP_OUT ? "swap_out" : "swap_in");
  delta_json_write_int64(writer, "tid", step->lane);
  delta_json_write_double(writer, "ts", microseconds(times.start_seconds));
  delta_json_write_double(writer, "dur", microseconds(times.end_seconds) - microseconds(times.start_seconds));
  delta_json_begin_object(writer, "args");
  delta_json_write_int64(writer, "step", index);
  if (copied) {
    delta_json_write_int64(writer, "bytes", (int64_t)copied->size_bytes);
  } else {
    write_run(writer, view, step, has_run);
  }
  delta_json_end_object(writer);
  delta_json_end_object(writer);
}

static delta_status_t write_program(delta_json_writer_t *writer, const delta_view_t *view, size_t process, delta_allocator_t allocator) {
  trace_event_t *events = NULL;
  bool *has_run = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, write_process(writer, view, process, allocator), cleanup);
  DELTA_GOTO_IF_ERROR(status, list_events(view, allocator, &events), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, view->problem->step_count, &has_run), cleanup);
  for (size_t i = 0; i < 2 * (size_t)view->schedule->step_count; ++i) {
    if (events[i].is_counter) {
      write_counter(writer, process, &events[i]);
    } else {
      write_step(writer, view, process, events[i].step, has_run);
    }
  }
cleanup:
  delta_release(allocator, events);
  delta_release(allocator, has_run);
  return status;
}

delta_status_t delta_trace_text(const delta_trace_head_t *head, const delta_view_t *views, size_t view_count, delta_allocator_t allocator,
                                delta_text_t *out_text) {
  delta_json_writer_t writer;
  delta_status_t status = DELTA_OK;
  delta_json_writer_init(&writer, out_text, false);
  delta_json_begin_object(&writer, NULL);
  delta_json_write_string(&writer, "displayTimeUnit", "ms");
  delta_json_begin_object(&writer, "otherData");
  write_text(&writer, "model", head->model);
  delta_json_write_string(&writer, "times", head->source);
  delta_json_end_object(&writer);
  delta_json_begin_array(&writer, "traceEvents");
  for (size_t i = 0; i < view_count && !status; ++i) status = write_program(&writer, &views[i], i + 1, allocator);
  delta_json_end_array(&writer);
  delta_json_end_object(&writer);
  status = delta_status_join(status, delta_json_writer_finish(&writer));
  return status ? status : delta_text_append(out_text, "\n");
}

delta_status_t delta_trace_write(const delta_trace_head_t *head, const delta_view_t *views, size_t view_count, const char *path,
                                 delta_allocator_t allocator) {
  delta_text_t text;
  delta_text_init(&text, allocator);
  delta_status_t status = delta_trace_text(head, views, view_count, allocator, &text);
  if (!status) status = delta_file_replace(path, text.items, text.count, allocator);
  delta_text_deinit(&text);
  return status;
}
