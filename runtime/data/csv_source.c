// CSV source: csv:FILE[:label=COLUMN]. One column is the label, the others, in order, are one row of the only input.
#include <stdio.h>
#include <string.h>

#include "runtime/data/csv.h"
#include "base/number.h"
#include "runtime/data/source.h"

typedef struct csv_source {
  delta_allocator_t allocator;
  delta_csv_t *csv;
  const char *path; // in the request's region
  size_t label_want;
  size_t label_column; // the number of columns when none is the label
  size_t input_columns;
  const delta_data_array_t *arrays; // Borrowed from the dataset.
} csv_source_t;

static void close_csv_source(void *self) {
  csv_source_t *source = self;
  if (!source) return;
  delta_csv_close(source->csv);
  delta_release(source->allocator, source);
}

// Integers are parsed as such: they would lose digits as float64.
static delta_file_dtype_t file_dtype_for(const delta_feed_want_t *want) {
  return delta_dtype_is_float(want->dtype) ? DELTA_FILE_DTYPE_FLOAT64 : DELTA_FILE_DTYPE_INT64;
}

static delta_status_t describe_array(const delta_data_request_t *request, const csv_source_t *source, size_t want, size_t columns,
                                     delta_data_array_t *out_arrays) {
  const delta_shape_t *wanted = &request->wants[want].shape;
  const char *name = request->wants[want].name;
  char shape[DELTA_SHAPE_TEXT_BYTES], *place;
  if (delta_shape_count_range(wanted, 1, wanted->rank) != (int64_t)columns) {
    const bool has_label = source->label_column < delta_csv_columns(source->csv);
    char label[64] = "";
    if (has_label) snprintf(label, sizeof label, " (column %zu was taken as the label)", source->label_column);
    return delta_status_make(MISMATCH, "%s: %zu columns for array '%s'%s, the model wants %s", source->path, columns, name, label,
                             delta_data_want_text(&request->wants[want], shape));
  }
  DELTA_RETURN_IF_ERROR(delta_region_format(request->region, &place, "%s: array '%s'", source->path, name));
  out_arrays[want] = (delta_data_array_t){.place = place, .type = file_dtype_for(&request->wants[want]), .shape = *wanted};
  out_arrays[want].shape.dims[0] = delta_csv_rows(source->csv);
  return DELTA_OK;
}

// Chooses the label's column: the one asked for, else the last if the model takes a label, else none.
static delta_status_t choose_label(const delta_data_request_t *request, csv_source_t *source, const char *column) {
  size_t columns = delta_csv_columns(source->csv);
  source->label_want = delta_data_find_label(request);
  bool has_label = column || source->label_want < request->want_count;
  source->label_column = has_label ? columns - 1 : columns;
  if (column) DELTA_RETURN_IF_ERROR(delta_csv_find_column(source->csv, column, &source->label_column));
  source->input_columns = columns - has_label;
  return DELTA_OK;
}

static delta_status_t open_file(const delta_data_request_t *request, csv_source_t *source, delta_data_array_t *out_arrays) {
  static const char option[] = ":label=";
  char *path, *column;
  size_t input;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(request->region, request->spec, strlen(request->spec), &path));
  column = strstr(path, option);
  if (column) {
    *column = '\0';
    column += strlen(option);
  }
  if (*path == '\0') return delta_status_make(INVALID_ARGUMENT, "'csv:%s': wanted csv:FILE or csv:FILE:label=COLUMN", request->spec);
  source->path = path;
  source->arrays = out_arrays;
  DELTA_RETURN_IF_ERROR(delta_csv_open(path, request->allocator, &source->csv));
  DELTA_RETURN_IF_ERROR(choose_label(request, source, column));
  DELTA_RETURN_IF_ERROR(delta_data_find_only_input(request, "CSV", &input));
  DELTA_RETURN_IF_ERROR(describe_array(request, source, input, source->input_columns, out_arrays));
  if (source->label_want == request->want_count) return DELTA_OK;
  return describe_array(request, source, source->label_want, 1, out_arrays);
}

static delta_status_t open_csv_source(const delta_data_request_t *request, delta_data_array_t *out_arrays, void **out_self) {
  csv_source_t *source = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(request->allocator, 1, &source));
  source->allocator = request->allocator;
  delta_status_t status = open_file(request, source, out_arrays);
  if (status) {
    close_csv_source(source);
    return status;
  }
  *out_self = source;
  return DELTA_OK;
}

static delta_status_t store_cell(const csv_source_t *source, const delta_csv_cell_t *cell, size_t column, delta_file_dtype_t type,
                                 void *out_elements, size_t index) {
  bool is_integer = type == DELTA_FILE_DTYPE_INT64;
  bool parsed = is_integer ? delta_number_parse_integer(cell->text, (int64_t *)out_elements + index)
                           : delta_number_parse(cell->text, (double *)out_elements + index);
  if (parsed) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s, line %llu, column %zu: '%s' is not %s%s", source->path, (unsigned long long)cell->line, column,
                           cell->text, is_integer ? "an integer" : "a finite number",
                           column == source->label_column ? "; the column was taken as the label, :label=COLUMN takes another" : "");
}

static delta_status_t read_csv_source(void *self, size_t want, uint64_t first, size_t count, void *out_elements) {
  csv_source_t *source = self;
  bool is_label = want == source->label_want;
  size_t row_elements = is_label ? 1 : source->input_columns, stored = 0;
  while (stored < count) {
    uint64_t element = first + stored;
    int64_t row = (int64_t)(element / row_elements);
    // Columns of this array are counted apart from the other's; `skipped` of them were read before.
    size_t skipped = (size_t)(element % row_elements), of_array = 0;
    delta_csv_cell_t cell = {0};
    DELTA_RETURN_IF_ERROR(delta_csv_seek(source->csv, row));
    for (size_t column = 0; !cell.ends_row && stored < count && of_array < row_elements; ++column) {
      DELTA_RETURN_IF_ERROR(delta_csv_next(source->csv, &cell));
      if ((column == source->label_column) != is_label || of_array++ < skipped) continue;
      DELTA_RETURN_IF_ERROR(store_cell(source, &cell, column, source->arrays[want].type, out_elements, stored++));
    }
    if (of_array < row_elements && stored < count) return delta_status_make(MALFORMED, "%s: has changed since it was opened", source->path);
  }
  return DELTA_OK;
}

const delta_data_format_t delta_data_csv = {.prefix = "csv:", .open = open_csv_source, .read = read_csv_source, .close = close_csv_source};
