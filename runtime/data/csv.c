// CSV: a window onto the file, a reader of cells on top of it, an index of rows beside it.
#include "runtime/data/csv.h"

#include <assert.h>
#include <string.h>

#include "base/array.h"
#include "base/number.h"
#include "base/region.h"

enum {
  WINDOW_BYTES = 64 << 10,
  CELL_BYTES = 512, // of the longest cell, with its end
  MARK_COUNT_MAX = 1 << 15,
  COLUMN_COUNT_MAX = 1 << 18,
  END_OF_FILE = -1,
};

// Where a row begins.
typedef struct csv_mark {
  uint64_t offset;
  uint64_t line;
} csv_mark_t;

struct delta_csv {
  delta_allocator_t allocator;
  delta_file_t file;
  delta_region_t region;         // the header's names
  DELTA_ARRAY(char *) names;     // of the columns; empty without a header
  DELTA_ARRAY(csv_mark_t) marks; // of rows 0, marks_every, 2 * marks_every, ...
  int64_t marks_every;
  int64_t rows;
  size_t columns;
  // The reader.
  char *window; // Owned; WINDOW_BYTES of the file from window_offset on.
  uint64_t window_offset;
  size_t window_bytes, at;
  uint64_t line;        // of the next character
  int64_t row;          // the current one
  csv_mark_t row_start; // of the current row
  bool is_at_start;     // of the current row
  char cell[CELL_BYTES];
};

static uint64_t position(const delta_csv_t *csv) { return csv->window_offset + csv->at; }

// Looks at the next character without taking it; the status is kept apart from END_OF_FILE.
static delta_status_t peek(delta_csv_t *csv, int *out_character) {
  if (csv->at == csv->window_bytes) {
    uint64_t offset = position(csv), left = csv->file.size_bytes - offset;
    size_t bytes = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
    if (bytes == 0) {
      *out_character = END_OF_FILE;
      return DELTA_OK;
    }
    DELTA_RETURN_IF_ERROR(delta_file_read(&csv->file, offset, csv->window, bytes));
    csv->window_offset = offset;
    csv->window_bytes = bytes;
    csv->at = 0;
  }
  *out_character = (unsigned char)csv->window[csv->at];
  return DELTA_OK;
}

static void go_to(delta_csv_t *csv, csv_mark_t mark) {
  bool inside = mark.offset >= csv->window_offset && mark.offset - csv->window_offset <= csv->window_bytes;
  if (!inside) {
    csv->window_offset = mark.offset;
    csv->window_bytes = 0;
  }
  csv->at = inside ? (size_t)(mark.offset - csv->window_offset) : 0;
  csv->line = mark.line;
}

static bool is_blank(int character) { return character == ' ' || character == '\t' || character == '\r'; }

// Skips blanks, and whole blank lines too if asked; *out_character is what follows.
static delta_status_t skip_blanks(delta_csv_t *csv, bool lines_too, int *out_character) {
  for (;;) {
    DELTA_RETURN_IF_ERROR(peek(csv, out_character));
    bool newline = lines_too && *out_character == '\n';
    if (!newline && !is_blank(*out_character)) return DELTA_OK;
    csv->line += newline;
    ++csv->at;
  }
}

// Finds the beginning of the next row, or the end of the file.
static delta_status_t begin_row(delta_csv_t *csv, bool *out_found) {
  int character;
  DELTA_RETURN_IF_ERROR(skip_blanks(csv, true, &character));
  csv->row_start = (csv_mark_t){.offset = position(csv), .line = csv->line};
  csv->is_at_start = true;
  *out_found = character != END_OF_FILE;
  return DELTA_OK;
}

static delta_status_t skip_line(delta_csv_t *csv) {
  int character;
  for (;;) {
    DELTA_RETURN_IF_ERROR(peek(csv, &character));
    if (character == END_OF_FILE) return DELTA_OK;
    const char *newline = memchr(csv->window + csv->at, '\n', csv->window_bytes - csv->at);
    csv->at = newline ? (size_t)(newline - csv->window) + 1 : csv->window_bytes;
    if (!newline) continue;
    ++csv->line;
    return DELTA_OK;
  }
}

// An error at the current line.
#define CSV_ERROR(csv, code, ...) \
  delta_status_annotate(delta_status_make(code, __VA_ARGS__), "%s, line %llu", (csv)->file.path, (unsigned long long)(csv)->line)

static delta_status_t put(delta_csv_t *csv, size_t *length, int character) {
  if (*length + 1 == CELL_BYTES) return CSV_ERROR(csv, MALFORMED, "a cell longer than %d bytes", CELL_BYTES - 1);
  csv->cell[(*length)++] = (char)character;
  return DELTA_OK;
}

// The rest of a cell after its opening quote, up to and with the closing one.
static delta_status_t read_quoted(delta_csv_t *csv, size_t *length) {
  int character;
  for (;;) {
    DELTA_RETURN_IF_ERROR(peek(csv, &character));
    if (character == END_OF_FILE || character == '\n') return CSV_ERROR(csv, MALFORMED, "a quoted cell does not end on its line");
    ++csv->at;
    if (character == '"') {
      DELTA_RETURN_IF_ERROR(peek(csv, &character));
      if (character != '"') return DELTA_OK;
      ++csv->at;
    }
    DELTA_RETURN_IF_ERROR(put(csv, length, character));
  }
}

static delta_status_t read_plain(delta_csv_t *csv, size_t *length) {
  int character;
  for (;;) {
    DELTA_RETURN_IF_ERROR(peek(csv, &character));
    if (character == END_OF_FILE || character == '\n' || character == ',') break;
    ++csv->at;
    DELTA_RETURN_IF_ERROR(put(csv, length, character));
  }
  while (*length > 0 && is_blank(csv->cell[*length - 1])) --*length;
  return DELTA_OK;
}

// Reads one cell and what ends it, leaving the reader behind that.
static delta_status_t read_cell(delta_csv_t *csv, delta_csv_cell_t *out_cell) {
  size_t length = 0;
  int character;
  DELTA_RETURN_IF_ERROR(skip_blanks(csv, false, &character));
  if (character == '"') {
    ++csv->at;
    DELTA_RETURN_IF_ERROR(read_quoted(csv, &length));
    DELTA_RETURN_IF_ERROR(skip_blanks(csv, false, &character));
  } else {
    DELTA_RETURN_IF_ERROR(read_plain(csv, &length));
    DELTA_RETURN_IF_ERROR(peek(csv, &character));
  }
  csv->cell[length] = '\0';
  if (memchr(csv->cell, 0, length)) return CSV_ERROR(csv, MALFORMED, "a zero byte");
  if (character != ',' && character != '\n' && character != END_OF_FILE) return CSV_ERROR(csv, MALFORMED, "text after a quoted cell");
  *out_cell = (delta_csv_cell_t){.text = csv->cell, .line = csv->line, .ends_row = character != ','};
  if (character != END_OF_FILE) ++csv->at;
  csv->line += character == '\n';
  csv->is_at_start = false;
  return DELTA_OK;
}

// Remembers where the current row begins, if it is its turn. When the index is full every other mark goes.
static delta_status_t mark_row(delta_csv_t *csv) {
  if (csv->marks.count == MARK_COUNT_MAX && csv->rows % csv->marks_every == 0) {
    for (size_t i = 0; i < MARK_COUNT_MAX / 2; ++i) csv->marks.items[i] = csv->marks.items[2 * i];
    csv->marks.count = MARK_COUNT_MAX / 2;
    csv->marks_every *= 2;
  }
  if (csv->rows % csv->marks_every != 0) return DELTA_OK;
  return delta_array_push(csv->allocator, &csv->marks, &csv->row_start);
}

// Reads the first row: it sets the number of columns, and is the header if a cell is a word.
static delta_status_t read_first_row(delta_csv_t *csv, bool *out_is_header) {
  delta_csv_cell_t cell = {0};
  *out_is_header = false;
  while (!cell.ends_row) {
    char *name;
    if (csv->names.count == COLUMN_COUNT_MAX) return CSV_ERROR(csv, UNSUPPORTED, "more than %d cells", COLUMN_COUNT_MAX);
    DELTA_RETURN_IF_ERROR(read_cell(csv, &cell));
    *out_is_header |= !delta_number_resembles(cell.text);
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&csv->region, cell.text, strlen(cell.text), &name));
    DELTA_RETURN_IF_ERROR(delta_array_push(csv->allocator, &csv->names, &name));
  }
  csv->columns = csv->names.count;
  if (!*out_is_header) csv->names.count = 0;
  return DELTA_OK;
}

static delta_status_t check_row(delta_csv_t *csv) {
  size_t columns = 0;
  uint64_t line = csv->line;
  for (delta_csv_cell_t cell = {0}; !cell.ends_row; ++columns) DELTA_RETURN_IF_ERROR(read_cell(csv, &cell));
  if (columns == csv->columns) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s, line %llu: %zu cells, but %zu in the first line", csv->file.path, (unsigned long long)line,
                           columns, csv->columns);
}

static delta_status_t index_rows(delta_csv_t *csv) {
  bool found, is_header = false;
  static const char byte_order_mark[] = "\xef\xbb\xbf";
  int character;
  csv->line = 1;
  csv->marks_every = 1;
  DELTA_RETURN_IF_ERROR(peek(csv, &character));
  if (csv->window_bytes >= 3 && memcmp(csv->window, byte_order_mark, 3) == 0) csv->at = 3;
  DELTA_RETURN_IF_ERROR(begin_row(csv, &found));
  if (!found) return delta_status_make(MALFORMED, "%s: no rows", csv->file.path);
  csv_mark_t first = csv->row_start;
  DELTA_RETURN_IF_ERROR(read_first_row(csv, &is_header));
  if (!is_header) go_to(csv, first);
  DELTA_RETURN_IF_ERROR(begin_row(csv, &found));
  while (found) {
    DELTA_RETURN_IF_ERROR(mark_row(csv));
    DELTA_RETURN_IF_ERROR(check_row(csv));
    ++csv->rows;
    DELTA_RETURN_IF_ERROR(begin_row(csv, &found));
  }
  csv->row = csv->rows;
  return DELTA_OK;
}

delta_status_t delta_csv_open(const char *path, delta_allocator_t allocator, delta_csv_t **out_csv) {
  delta_status_t status = DELTA_OK;
  delta_csv_t *csv = NULL;
  *out_csv = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &csv));
  csv->allocator = allocator;
  csv->file.descriptor = -1;
  delta_region_init(&csv->region, allocator);
  DELTA_GOTO_IF_ERROR(status, delta_file_open(path, allocator, &csv->file), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, WINDOW_BYTES, &csv->window), cleanup);
  DELTA_GOTO_IF_ERROR(status, index_rows(csv), cleanup);
  *out_csv = csv;
  return DELTA_OK;
cleanup:
  delta_csv_close(csv);
  return status;
}

void delta_csv_close(delta_csv_t *csv) {
  if (!csv) return;
  delta_allocator_t allocator = csv->allocator;
  delta_file_close(&csv->file);
  delta_array_deinit(allocator, &csv->names);
  delta_array_deinit(allocator, &csv->marks);
  delta_region_deinit(&csv->region);
  delta_release(allocator, csv->window);
  delta_release(allocator, csv);
}

int64_t delta_csv_rows(const delta_csv_t *csv) { return csv->rows; }

size_t delta_csv_columns(const delta_csv_t *csv) { return csv->columns; }

delta_status_t delta_csv_find_column(const delta_csv_t *csv, const char *name, size_t *out_column) {
  int64_t number, columns = (int64_t)csv->columns;
  for (size_t i = 0; i < csv->names.count; ++i) {
    if (strcmp(csv->names.items[i], name) != 0) continue;
    *out_column = i;
    return DELTA_OK;
  }
  if (!delta_number_parse_integer(name, &number) || number < -columns || number >= columns) {
    return delta_status_make(NOT_FOUND, "%s: no column '%s'; wanted a name of the header line%s or a number from %lld to %lld",
                             csv->file.path, name, csv->names.count ? "" : " (there is none)", (long long)-columns, (long long)columns - 1);
  }
  *out_column = (size_t)(number < 0 ? number + columns : number);
  return DELTA_OK;
}

delta_status_t delta_csv_seek(delta_csv_t *csv, int64_t row) {
  assert(row >= 0 && row < csv->rows);
  int64_t mark = row / csv->marks_every;
  bool found = true;
  if (csv->row > row || csv->row < mark * csv->marks_every) {
    csv->row = mark * csv->marks_every;
    csv->row_start = csv->marks.items[mark];
  } else if (csv->is_at_start && csv->row == row) {
    return DELTA_OK;
  }
  go_to(csv, csv->row_start);
  csv->is_at_start = true;
  while (csv->row < row && found) {
    DELTA_RETURN_IF_ERROR(skip_line(csv));
    DELTA_RETURN_IF_ERROR(begin_row(csv, &found));
    ++csv->row;
  }
  if (!found) return delta_status_make(MALFORMED, "%s: has become shorter since it was opened", csv->file.path);
  return DELTA_OK;
}

delta_status_t delta_csv_next(delta_csv_t *csv, delta_csv_cell_t *out_cell) {
  bool found;
  DELTA_RETURN_IF_ERROR(read_cell(csv, out_cell));
  if (!out_cell->ends_row) return DELTA_OK;
  ++csv->row;
  return begin_row(csv, &found);
}
