// Number: decimal text of data files and SPECs. Independent of the locale; no hexadecimal, no nan, no inf.
#ifndef DELTA_RUNTIME_DATA_NUMBER_H_
#define DELTA_RUNTIME_DATA_NUMBER_H_

#include <stdbool.h>
#include <stdint.h>

// The whole of `text` as a finite number. False when it is none or too large.
bool delta_number_parse(const char *text, double *out_value);

// The whole of `text` as an integer, also when written as "3.0" or "1e3" (exact up to 2^53). False when it is none or too large.
bool delta_number_parse_integer(const char *text, int64_t *out_value);

#endif // DELTA_RUNTIME_DATA_NUMBER_H_
