// Number: decimal text of options, data files and SPECs. Independent of the locale; no hexadecimal, no nan, no inf, no white space.
#ifndef DELTA_BASE_NUMBER_H_
#define DELTA_BASE_NUMBER_H_

#include <stdbool.h>
#include <stdint.h>

// The whole of `text` as a finite number. False when it is none or too large.
bool delta_number_parse(const char *text, double *out_value);

// Whether `text` is empty or anything that programs write for a number, also nan, inf, hexadecimal, too large: not the name of a column.
bool delta_number_resembles(const char *text);

// The whole of `text` as a percentage above zero, such as "60%" or "12.5%". False when it is none.
bool delta_number_parse_percentage(const char *text, double *out_percent);

// The whole of `text`, a sign and digits alone, as an integer. False when it is none or too large.
bool delta_number_parse_digits(const char *text, int64_t *out_value);

// The whole of `text` as an integer, also when written as "3.0" or "1e3" (exact up to 2^53). False when it is none or too large.
bool delta_number_parse_integer(const char *text, int64_t *out_value);

#endif // DELTA_BASE_NUMBER_H_
