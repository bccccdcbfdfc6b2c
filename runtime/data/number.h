// Number: decimal text of data files and SPECs. Independent of the locale; no hexadecimal, no nan, no inf.
#ifndef DELTA_RUNTIME_DATA_NUMBER_H_
#define DELTA_RUNTIME_DATA_NUMBER_H_

#include <stdbool.h>
#include <stdint.h>

// The whole of `text` as a finite number. False when it is none or too large.
bool delta_number_parse(const char *text, double *out_value);

// Whether `text` is empty or anything that programs write for a number, also nan, inf, hexadecimal, too large: not the name of a column.
bool delta_number_resembles(const char *text);

// The whole of `text` as an integer, also when written as "3.0" or "1e3" (exact up to 2^53). False when it is none or too large.
bool delta_number_parse_integer(const char *text, int64_t *out_value);

#endif // DELTA_RUNTIME_DATA_NUMBER_H_
