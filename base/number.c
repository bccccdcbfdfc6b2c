// Number: the C library's conversions, in the C locale, behind a check of the characters.
#include "base/number.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// strtod in the C locale; whether the whole text is taken.
static bool convert(const char *text, double *out_value) {
  char *end;
  locale_t locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (locale == (locale_t)0) return false;
  *out_value = strtod_l(text, &end, locale);
  freelocale(locale);
  return end != text && *end == '\0';
}

bool delta_number_parse(const char *text, double *out_value) {
  double value;
  if (*text == '\0' || text[strspn(text, "0123456789+-.eE")] != '\0') return false;
  if (!convert(text, &value) || !isfinite(value)) return false;
  *out_value = value;
  return true;
}

bool delta_number_resembles(const char *text) {
  double value;
  return *text == '\0' || convert(text, &value);
}

bool delta_number_parse_percentage(const char *text, double *out_percent) {
  char number[64];
  const size_t length = strcspn(text, "%");
  if (length >= sizeof number || strcmp(text + length, "%") != 0) return false;
  memcpy(number, text, length);
  number[length] = '\0';
  double percent;
  if (!delta_number_parse(number, &percent) || !(percent > 0)) return false;
  *out_percent = percent;
  return true;
}

bool delta_number_parse_digits(const char *text, int64_t *out_value) {
  char *end;
  if (*text == '\0' || text[strspn(text, "0123456789+-")] != '\0') return false;
  errno = 0;
  const long long integer = strtoll(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0) return false;
  *out_value = integer;
  return true;
}

bool delta_number_parse_integer(const char *text, int64_t *out_value) {
  const double exact_limit = 9007199254740992.0; // 2^53
  double value;
  if (delta_number_parse_digits(text, out_value)) return true;
  if (!delta_number_parse(text, &value) || value != floor(value) || fabs(value) > exact_limit) return false;
  *out_value = (int64_t)value;
  return true;
}
