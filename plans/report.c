// The page is cut where its data belongs; tables are lists by column, which are short and quick to read.
#include "plans/report.h"

#include <math.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/map.h"
#include "plans/plan_json.h"
#include "plans/report/page.h"

static void write_text(delta_json_writer_t *writer, const char *key, const char *name) {
  char text[DELTA_VIEW_TEXT_BYTES];
  if (name) {
    delta_json_write_string(writer, key, delta_view_text(name, text));
  } else {
    delta_json_write_null(writer, key);
  }
}

// Times as whole nanoseconds.
static void write_nanoseconds(delta_json_writer_t *writer, const char *key, double seconds) {
  delta_json_write_int64(writer, key, llround(seconds * 1e9));
}

// -1: none.
static void write_index(delta_json_writer_t *writer, const char *key, uint32_t index) {
  delta_json_write_int64(writer, key, index == DELTA_PROBLEM_NONE ? -1 : (int64_t)index);
}

static void write_head(delta_json_writer_t *writer, const delta_report_t *report) {
  write_text(writer, "model", report->model);
  write_text(writer, "device", report->device);
  write_text(writer, "policy", report->policy);
  write_text(writer, "numerics_id", report->numerics_id);
  delta_json_write_int64(writer, "batch", report->batch);
  if (report->budget_bytes == UINT64_MAX) delta_json_write_null(writer, "budget_bytes");
  if (report->budget_bytes != UINT64_MAX) delta_json_write_int64(writer, "budget_bytes", (int64_t)report->budget_bytes);
#define WRITE_SIZE(member) delta_json_write_int64(writer, #member, (int64_t)report->member);
  DELTA_REPORT_SIZES(WRITE_SIZE)
#undef WRITE_SIZE
#define WRITE_TIME(member) delta_json_write_double(writer, #member, report->member);
  DELTA_REPORT_TIMES(WRITE_TIME)
#undef WRITE_TIME
}

static void write_names(delta_json_writer_t *writer, const char *key, const char *const *names, size_t count) {
  delta_json_begin_array(writer, key);
  for (size_t i = 0; i < count; ++i) delta_json_write_string(writer, NULL, names[i]);
  delta_json_end_array(writer);
}

// The words that numbers in the lists stand for.
static void write_words(delta_json_writer_t *writer) {
#define WORD(id, name) name,
  static const char *const classes[] = {DELTA_TENSOR_CLASSES(WORD)};
  static const char *const kinds[] = {DELTA_STEP_KINDS(WORD)};
  static const char *const lanes[] = {DELTA_LANES(WORD)};
#undef WORD
  write_names(writer, "classes", classes, sizeof classes / sizeof *classes);
  write_names(writer, "kinds", kinds, sizeof kinds / sizeof *kinds);
  write_names(writer, "lanes", lanes, sizeof lanes / sizeof *lanes);
}

static void write_points(delta_json_writer_t *writer, const delta_report_t *report) {
  delta_json_begin_array(writer, "points");
  for (uint32_t i = 0; i < report->point_count; ++i) {
    const delta_budget_point_t *point = &report->points[i];
    delta_json_begin_object(writer, NULL);
    delta_json_write_int64(writer, "budget_bytes", (int64_t)point->budget_bytes);
    delta_json_write_bool(writer, "fits", point->fits);
    delta_json_write_int64(writer, "peak_bytes", (int64_t)point->peak_bytes);
    delta_json_write_double(writer, "step_seconds", point->step_seconds);
    delta_json_end_object(writer);
  }
  delta_json_end_array(writer);
}

// A list by column: `value` of each of `count` rows of the array `rows`, seen through `row`.
#define WRITE_COLUMN(writer, key, type, rows, row_count, write, value)                            \
  do {                                                                                            \
    delta_json_begin_array(writer, key);                                                          \
    for (const type *row = (rows); row < (rows) + (row_count); ++row) write(writer, NULL, value); \
    delta_json_end_array(writer);                                                                 \
  } while (0)

static void write_int(delta_json_writer_t *writer, const char *key, uint64_t value) { delta_json_write_int64(writer, key, (int64_t)value); }

static void write_states(delta_json_writer_t *writer, const delta_report_t *report) {
  delta_json_begin_object(writer, "states");
#define STATE_COLUMN(member, write) \
  WRITE_COLUMN(writer, #member, delta_report_state_t, report->states, report->state_count, write, row->member)
  STATE_COLUMN(name, write_text);
  STATE_COLUMN(kind, write_text);
  STATE_COLUMN(type, write_text);
  STATE_COLUMN(offset_bytes, write_int);
  STATE_COLUMN(size_bytes, write_int);
#undef STATE_COLUMN
  delta_json_end_object(writer);
}

// Names repeat (operators, types): each once, and its number where it is used.
static delta_status_t write_shared_texts(delta_json_writer_t *writer, const char *key, const char *const *texts, uint32_t count,
                                         delta_allocator_t allocator) {
  delta_map_t numbers;
  uint32_t *used = NULL, used_count = 0;
  delta_map_init(&numbers, allocator);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, count, &used), cleanup);
  delta_json_begin_object(writer, key);
  delta_json_begin_array(writer, "of");
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t number = texts && texts[i] ? delta_map_find(&numbers, texts[i]) : DELTA_MAP_NONE;
    if (texts && texts[i] && number == DELTA_MAP_NONE) {
      DELTA_GOTO_IF_ERROR(status, delta_map_set(&numbers, texts[i], used_count), cleanup);
      used[used_count++] = i;
    }
    write_index(writer, NULL, texts && texts[i] ? delta_map_find(&numbers, texts[i]) : DELTA_PROBLEM_NONE);
  }
  delta_json_end_array(writer);
  delta_json_begin_array(writer, "texts");
  for (uint32_t k = 0; k < used_count; ++k) write_text(writer, NULL, texts[used[k]]);
  delta_json_end_array(writer);
  delta_json_end_object(writer);
cleanup:
  delta_release(allocator, used);
  delta_map_deinit(&numbers);
  return status;
}

static delta_status_t write_problem(delta_json_writer_t *writer, const delta_view_t *view, delta_allocator_t allocator) {
  const delta_problem_t *problem = view->problem;
  delta_json_begin_object(writer, "tensors");
  WRITE_COLUMN(writer, "name", delta_problem_tensor_t, problem->tensors, problem->tensor_count, write_text, row->name);
  WRITE_COLUMN(writer, "class", delta_problem_tensor_t, problem->tensors, problem->tensor_count, write_int, row->kind);
  DELTA_RETURN_IF_ERROR(write_shared_texts(writer, "type", view->types, problem->tensor_count, allocator));
  delta_json_end_object(writer);
  delta_json_begin_object(writer, "nodes");
  WRITE_COLUMN(writer, "name", delta_problem_step_t, problem->steps, problem->step_count, write_text, row->name);
  DELTA_RETURN_IF_ERROR(write_shared_texts(writer, "operator", view->operators, problem->step_count, allocator));
  delta_json_end_object(writer);
  return DELTA_OK;
}

static void write_buffers(delta_json_writer_t *writer, const delta_schedule_t *schedule) {
  delta_json_begin_object(writer, "buffers");
#define BUFFER_COLUMN(member, write) \
  WRITE_COLUMN(writer, #member, delta_buffer_t, schedule->buffers, schedule->buffer_count, write, row->member)
  BUFFER_COLUMN(tensor, write_index);
  BUFFER_COLUMN(size_bytes, write_int);
  BUFFER_COLUMN(offset_bytes, write_int);
  BUFFER_COLUMN(first_step, write_int);
  BUFFER_COLUMN(last_step, write_int);
  BUFFER_COLUMN(inplace_of, write_index);
#undef BUFFER_COLUMN
  delta_json_end_object(writer);
}

// What a step is about: a problem step, or the buffer that is copied.
static uint32_t subject_of(const delta_schedule_step_t *step) {
  return step->kind == DELTA_STEP_RUN ? step->problem_step : step->kind == DELTA_STEP_SWAP_OUT ? step->inputs[0] : step->outputs[0];
}

static void write_steps(delta_json_writer_t *writer, const delta_view_t *view) {
  const delta_schedule_t *schedule = view->schedule;
  delta_json_begin_object(writer, "steps");
  WRITE_COLUMN(writer, "kind", delta_schedule_step_t, schedule->steps, schedule->step_count, write_int, row->kind);
  WRITE_COLUMN(writer, "lane", delta_schedule_step_t, schedule->steps, schedule->step_count, write_int, row->lane);
  WRITE_COLUMN(writer, "subject", delta_schedule_step_t, schedule->steps, schedule->step_count, write_int, subject_of(row));
  delta_json_begin_array(writer, "start_ns");
  for (uint32_t s = 0; s < schedule->step_count; ++s) write_nanoseconds(writer, NULL, delta_view_times(view, s).start_seconds);
  delta_json_end_array(writer);
  delta_json_begin_array(writer, "end_ns");
  for (uint32_t s = 0; s < schedule->step_count; ++s) write_nanoseconds(writer, NULL, delta_view_times(view, s).end_seconds);
  delta_json_end_array(writer);
  delta_json_end_object(writer);
}

// One row a gap: what became of the tensor, and what that saved and cost.
static delta_status_t write_decisions(delta_json_writer_t *writer, const delta_view_t *view, delta_allocator_t allocator) {
  delta_view_gaps_t gaps;
  DELTA_RETURN_IF_ERROR(delta_view_list_gaps(view, allocator, &gaps));
  delta_json_begin_object(writer, "decisions");
#define GAP_COLUMN(key, write, value) WRITE_COLUMN(writer, key, delta_view_gap_t, gaps.items, gaps.count, write, value)
  GAP_COLUMN("tensor", write_index, row->tensor);
  GAP_COLUMN("action", delta_json_write_string, row->is_swapped ? "swap" : row->before == row->after ? "keep" : "rebuild");
  GAP_COLUMN("before", write_index, row->before);
  GAP_COLUMN("after", write_index, row->after);
  GAP_COLUMN("reader", write_index, row->reader);
  GAP_COLUMN("copy_ns", write_nanoseconds, row->copy_seconds);
  GAP_COLUMN("rebuild_ns", write_nanoseconds, row->rebuild_seconds);
  GAP_COLUMN("wait_ns", write_nanoseconds, row->wait_seconds);
#undef GAP_COLUMN
  delta_json_end_object(writer);
  delta_array_deinit(allocator, &gaps);
  return DELTA_OK;
}

static delta_status_t write_program(delta_json_writer_t *writer, const delta_view_t *view, delta_allocator_t allocator) {
  const delta_schedule_t *schedule = view->schedule;
  delta_json_begin_object(writer, NULL);
  write_text(writer, "program", view->program);
  delta_json_write_int64(writer, "batch", view->batch);
#define WRITE_NUMBER(member)  delta_json_write_int64(writer, #member, (int64_t)schedule->member);
#define WRITE_SECONDS(member) delta_json_write_double(writer, #member, schedule->member);
  DELTA_SCHEDULE_BYTES(WRITE_NUMBER)
  DELTA_SCHEDULE_COUNTS(WRITE_NUMBER)
  DELTA_SCHEDULE_REALS(WRITE_SECONDS)
#undef WRITE_SECONDS
#undef WRITE_NUMBER
  DELTA_RETURN_IF_ERROR(write_problem(writer, view, allocator));
  write_buffers(writer, schedule);
  write_steps(writer, view);
  DELTA_RETURN_IF_ERROR(write_decisions(writer, view, allocator));
  delta_json_end_object(writer);
  return DELTA_OK;
}

static delta_status_t write_data(const delta_report_t *report, delta_allocator_t allocator, delta_text_t *out_text) {
  delta_json_writer_t writer;
  delta_status_t status = DELTA_OK;
  delta_json_writer_init(&writer, out_text, true);
  delta_json_begin_object(&writer, NULL);
  write_head(&writer, report);
  write_words(&writer);
  write_points(&writer, report);
  write_states(&writer, report);
  delta_json_begin_array(&writer, "programs");
  for (uint32_t i = 0; i < report->view_count && !status; ++i) status = write_program(&writer, &report->views[i], allocator);
  delta_json_end_array(&writer);
  delta_json_end_object(&writer);
  return delta_status_join(status, delta_json_writer_finish(&writer));
}

// In JSON '<' stands inside strings only; written as an escape, no tag and no comment of HTML can begin there.
static delta_status_t append_without_tags(const char *json, delta_text_t *out_text) {
  for (const char *at = json;;) {
    const size_t length = strcspn(at, "<");
    DELTA_RETURN_IF_ERROR(delta_text_append(out_text, "%.*s", (int)length, at));
    if (!at[length]) return DELTA_OK;
    DELTA_RETURN_IF_ERROR(delta_text_append(out_text, "\\u003c"));
    at += length + 1;
  }
}

delta_status_t delta_report_text(const delta_report_t *report, delta_allocator_t allocator, delta_text_t *out_text) {
  delta_text_t json;
  delta_text_init(&json, allocator);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, write_data(report, allocator, &json), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_text_append(out_text, "%s", delta_report_page_head), cleanup);
  DELTA_GOTO_IF_ERROR(status, append_without_tags(json.items, out_text), cleanup);
  status = delta_text_append(out_text, "%s", delta_report_page_tail);
cleanup:
  delta_text_deinit(&json);
  return status;
}

delta_status_t delta_report_write(const delta_report_t *report, const char *path, delta_allocator_t allocator) {
  delta_text_t text;
  delta_text_init(&text, allocator);
  delta_status_t status = delta_report_text(report, allocator, &text);
  if (!status) status = delta_file_replace(path, text.items, text.count, allocator);
  delta_text_deinit(&text);
  return status;
}
