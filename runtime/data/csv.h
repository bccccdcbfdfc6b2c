// CSV: rows of cells in a text file, found through an index of constant size.
//
// Separated by commas; cells may stand in double quotes ("" inside is one quote) and between spaces; lines end in LF or CR LF; blank lines
// do not count; a UTF-8 byte order mark is skipped. No cell spans lines. All rows have the same number of cells. The first line is a header
// when one of its cells is a word (neither empty nor like a number).
// Opening makes one pass over the file; it keeps the position of every k-th row, where k grows so that the index stays below 1 MiB.
#ifndef DELTA_RUNTIME_DATA_CSV_H_
#define DELTA_RUNTIME_DATA_CSV_H_

#include "base/file.h"

typedef struct delta_csv delta_csv_t;

typedef struct delta_csv_cell {
  const char *text; // without quotes and outer spaces; valid until the next call
  uint64_t line;    // counted from 1
  bool ends_row;
} delta_csv_cell_t;

// MALFORMED names path and line.
DELTA_MUST_USE delta_status_t delta_csv_open(const char *path, delta_allocator_t allocator, delta_csv_t **out_csv);
void delta_csv_close(delta_csv_t *csv); // NULL is fine.

int64_t delta_csv_rows(const delta_csv_t *csv); // without the header
size_t delta_csv_columns(const delta_csv_t *csv);

// The column that the header calls `name`; otherwise `name` as a number: from 0, or from -1 (the last) backwards. NOT_FOUND otherwise.
DELTA_MUST_USE delta_status_t delta_csv_find_column(const delta_csv_t *csv, const char *name, size_t *out_column);

// Goes to the first cell of a row. Cheap for the rows just after the current one.
DELTA_MUST_USE delta_status_t delta_csv_seek(delta_csv_t *csv, int64_t row);
// The next cell of the current row, then of the row after it.
DELTA_MUST_USE delta_status_t delta_csv_next(delta_csv_t *csv, delta_csv_cell_t *out_cell);

#endif // DELTA_RUNTIME_DATA_CSV_H_
