// Escape: one pass over the bytes; each step copies one whole character or writes one \xNN.
#include "base/escape.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { ESCAPED_BYTES = 4, ELLIPSIS_BYTES = 3 };

// Length of the printable UTF-8 character at `text`, or 0: not UTF-8 (RFC 3629: no overlong forms, no surrogates), or a control
// character (C0, DEL, C1, line and paragraph separators, which end a line for some readers).
static size_t printable_length(const uint8_t *text, size_t available) {
  uint8_t lead = text[0];
  if (lead < 0x80) return lead >= 0x20 && lead != 0x7f;
  size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || length > available) return 0;
  uint32_t code = lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((text[i] & 0xc0) != 0x80) return 0;
    code = code << 6 | (text[i] & 0x3fu);
  }
  static const uint32_t smallest[5] = {0, 0, 0xa0, 0x800, 0x10000};
  if (code < smallest[length] || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) return 0;
  return code == 0x2028 || code == 0x2029 ? 0 : length;
}

size_t delta_escape(const char *text, size_t length, char *out, size_t capacity) {
  static const char digits[] = "0123456789abcdef";
  size_t written = 0, cut = 0; // cut: the last place between characters that leaves room for the ellipsis
  for (size_t i = 0; i < length;) {
    const uint8_t *character = (const uint8_t *)text + i;
    size_t consumed = printable_length(character, length - i);
    bool escaped = consumed == 0;
    size_t needed = escaped ? ESCAPED_BYTES : consumed;
    if (written + ELLIPSIS_BYTES < capacity) cut = written;
    if (written + needed >= capacity) {
      size_t dots = capacity - 1 - cut < ELLIPSIS_BYTES ? capacity - 1 - cut : ELLIPSIS_BYTES;
      memset(out + cut, '.', dots);
      out[cut + dots] = 0;
      return cut + dots;
    }
    if (escaped) {
      const char form[ESCAPED_BYTES] = {'\\', 'x', digits[*character >> 4], digits[*character & 15]};
      memcpy(out + written, form, ESCAPED_BYTES);
      consumed = 1;
    } else {
      memcpy(out + written, character, consumed);
    }
    written += needed;
    i += consumed;
  }
  out[written] = 0;
  return written;
}
