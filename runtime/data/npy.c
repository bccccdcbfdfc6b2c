// npy: a parser for the one Python literal that a header is: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
#include "runtime/data/npy.h"

#include <string.h>

// The rest of the header's text.
typedef struct header_cursor {
  const char *at;
  const char *end;
} header_cursor_t;

// A piece of the header, or of the descr inside it.
typedef struct header_text {
  const char *start;
  size_t length;
} header_text_t;

static void skip_space(header_cursor_t *cursor) {
  while (cursor->at < cursor->end && strchr(" \t\n\r", *cursor->at) && *cursor->at) ++cursor->at;
}

// Takes `wanted` and the space before it, if it comes next.
static bool take_char(header_cursor_t *cursor, char wanted) {
  skip_space(cursor);
  if (cursor->at == cursor->end || *cursor->at != wanted) return false;
  ++cursor->at;
  return true;
}

static bool take_word(header_cursor_t *cursor, const char *word) {
  skip_space(cursor);
  size_t length = strlen(word);
  if ((size_t)(cursor->end - cursor->at) < length || memcmp(cursor->at, word, length) != 0) return false;
  cursor->at += length;
  return true;
}

static bool text_is(header_text_t text, const char *word) {
  return text.length == strlen(word) && memcmp(text.start, word, text.length) == 0;
}

static delta_status_t parse_string(header_cursor_t *cursor, header_text_t *out_text) {
  skip_space(cursor);
  if (cursor->at == cursor->end || (*cursor->at != '\'' && *cursor->at != '"'))
    return delta_status_make(MALFORMED, "npy header: expected a string");
  char quote = *cursor->at++;
  const char *close = memchr(cursor->at, quote, (size_t)(cursor->end - cursor->at));
  if (!close) return delta_status_make(MALFORMED, "npy header: a string does not end");
  *out_text = (header_text_t){.start = cursor->at, .length = (size_t)(close - cursor->at)};
  cursor->at = close + 1;
  return DELTA_OK;
}

static delta_status_t parse_dimension(header_cursor_t *cursor, int64_t *out_dimension) {
  skip_space(cursor);
  if (cursor->at < cursor->end && *cursor->at == '-')
    return delta_status_make(MALFORMED, "npy header: a dimension of the shape is negative");
  const char *start = cursor->at;
  int64_t value = 0;
  for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; ++cursor->at) {
    if (!delta_int64_mul(value, 10, &value) || !delta_int64_add(value, *cursor->at - '0', &value)) {
      return delta_status_make(MALFORMED, "npy header: a dimension of the shape is above 2^63");
    }
  }
  if (cursor->at == start) return delta_status_make(MALFORMED, "npy header: a dimension of the shape is not a number");
  if (cursor->at < cursor->end && *cursor->at == 'L') ++cursor->at; // written by Python 2
  *out_dimension = value;
  return DELTA_OK;
}

// (), (3,), (3, 4): one dimension needs its comma.
static delta_status_t parse_shape(header_cursor_t *cursor, delta_shape_t *out_shape) {
  *out_shape = (delta_shape_t){0};
  if (!take_char(cursor, '(')) return delta_status_make(MALFORMED, "npy header: the shape is not a tuple");
  bool comma = true;
  while (!take_char(cursor, ')')) {
    if (!comma) return delta_status_make(MALFORMED, "npy header: the shape is not a tuple");
    int64_t dimension = 0;
    DELTA_RETURN_IF_ERROR(parse_dimension(cursor, &dimension));
    if (out_shape->rank == DELTA_MAX_RANK) {
      return delta_status_make(UNSUPPORTED, "the array has more than %d dimensions; reshape it", DELTA_MAX_RANK);
    }
    out_shape->dims[out_shape->rank++] = dimension;
    comma = take_char(cursor, ',');
  }
  if (out_shape->rank == 1 && !comma) return delta_status_make(MALFORMED, "npy header: the shape is not a tuple");
  return DELTA_OK;
}

static delta_status_t refuse_descr(header_text_t descr) {
  return delta_status_make(
      UNSUPPORTED,
      "elements of dtype '%.*s' are not read; wanted bool, (u)int8 to (u)int64, float16, float32 or float64: convert with astype",
      (int)(descr.length < 64 ? descr.length : 64), descr.start);
}

static delta_status_t parse_descr(header_cursor_t *cursor, delta_npy_header_t *header) {
  skip_space(cursor);
  if (cursor->at < cursor->end && (*cursor->at == '[' || *cursor->at == '(')) {
    return delta_status_make(UNSUPPORTED, "elements are structures; save each field as an array of its own");
  }
  header_text_t descr;
  DELTA_RETURN_IF_ERROR(parse_string(cursor, &descr));
  if (descr.length > 1 && descr.start[1] == 'O') {
    return delta_status_make(UNSUPPORTED, "elements are Python objects (pickled), which are never loaded; save numbers");
  }
  if (descr.length < 2 || !strchr("<>|=", descr.start[0])) return refuse_descr(descr);
  if (!delta_file_dtype_from_numpy(descr.start + 1, descr.length - 1, &header->type)) return refuse_descr(descr);
  bool is_byte = delta_file_dtype_bytes(header->type) == 1;
  if (descr.start[0] == '|' && !is_byte) return refuse_descr(descr);
  header->swapped = !is_byte && descr.start[0] == (delta_machine_is_little_endian() ? '>' : '<');
  return DELTA_OK;
}

// Parses one `key: value`; `seen` has a bit for each key met before.
static delta_status_t parse_member(header_cursor_t *cursor, delta_npy_header_t *header, bool *fortran_order, unsigned *seen) {
  static const char *const keys[] = {"descr", "fortran_order", "shape"};
  enum { DESCR, FORTRAN_ORDER, SHAPE, KEY_COUNT };
  header_text_t key = {0};
  DELTA_RETURN_IF_ERROR(parse_string(cursor, &key));
  int index = 0;
  while (index < KEY_COUNT && !text_is(key, keys[index])) ++index;
  if (index == KEY_COUNT) return delta_status_make(MALFORMED, "npy header: a key other than descr, fortran_order and shape");
  if (*seen & (1u << index)) return delta_status_make(MALFORMED, "npy header: '%s' twice", keys[index]);
  *seen |= 1u << index;
  if (!take_char(cursor, ':')) return delta_status_make(MALFORMED, "npy header: no ':' after '%s'", keys[index]);
  if (index == DESCR) return parse_descr(cursor, header);
  if (index == SHAPE) return parse_shape(cursor, &header->shape);
  *fortran_order = take_word(cursor, "True");
  if (*fortran_order || take_word(cursor, "False")) return DELTA_OK;
  return delta_status_make(MALFORMED, "npy header: fortran_order is neither True nor False");
}

static delta_status_t parse_dictionary(header_cursor_t cursor, delta_npy_header_t *header, bool *fortran_order) {
  if (!take_char(&cursor, '{')) return delta_status_make(MALFORMED, "npy header: not a dictionary");
  unsigned seen = 0;
  bool comma = true;
  while (!take_char(&cursor, '}')) {
    if (!comma) return delta_status_make(MALFORMED, "npy header: not a dictionary");
    DELTA_RETURN_IF_ERROR(parse_member(&cursor, header, fortran_order, &seen));
    comma = take_char(&cursor, ',');
  }
  skip_space(&cursor);
  if (cursor.at != cursor.end) return delta_status_make(MALFORMED, "npy header: text after the dictionary");
  if (seen != 7) return delta_status_make(MALFORMED, "npy header: descr, fortran_order or shape is missing");
  return DELTA_OK;
}

// Checks that the shape's elements, no more and no fewer, follow the header.
static delta_status_t check_size(const delta_npy_header_t *header, uint64_t total_bytes) {
  int64_t bytes = (int64_t)delta_file_dtype_bytes(header->type);
  bool empty = false, fits = true;
  for (int32_t i = 0; i < header->shape.rank; ++i) {
    empty |= header->shape.dims[i] == 0;
    // Products of all other dimensions are kept in range too: a zero must not hide an overflow.
    if (header->shape.dims[i] != 0) fits = fits && delta_int64_mul(bytes, header->shape.dims[i], &bytes);
  }
  uint64_t present = total_bytes - header->data_offset;
  char text[DELTA_SHAPE_TEXT_BYTES];
  const char *shape = delta_shape_text(&header->shape, text), *type = delta_file_dtype_name(header->type);
  if (!fits) return delta_status_make(MALFORMED, "shape %s of %s is larger than any file", shape, type);
  uint64_t wanted = empty ? 0 : (uint64_t)bytes;
  if (present == wanted) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s: shape %s of %s takes %llu bytes, but %llu follow the header",
                           present < wanted ? "truncated" : "wrong size", shape, type, (unsigned long long)wanted,
                           (unsigned long long)present);
}

static delta_status_t check_order(const delta_npy_header_t *header, bool fortran_order) {
  int32_t long_dimensions = 0;
  for (int32_t i = 0; i < header->shape.rank; ++i) long_dimensions += header->shape.dims[i] > 1;
  if (!fortran_order || long_dimensions <= 1) return DELTA_OK;
  return delta_status_make(UNSUPPORTED, "stored in Fortran order; save it in C order (numpy.ascontiguousarray)");
}

delta_status_t delta_npy_parse(const void *prefix, size_t prefix_bytes, uint64_t total_bytes, delta_npy_header_t *out_header) {
  static const char magic[] = "\x93NUMPY";
  const unsigned char *bytes = prefix;
  if (prefix_bytes >= 2 && bytes[0] == 'P' && bytes[1] == 'K') {
    return delta_status_make(MALFORMED, "a zip archive, not an npy file; give an npz file by itself, without NAME=");
  }
  if (prefix_bytes < 10 || memcmp(bytes, magic, 6) != 0)
    return delta_status_make(MALFORMED, "not an npy file (it does not begin with \\x93NUMPY)");
  if (bytes[6] < 1 || bytes[6] > 3 || bytes[7] != 0) {
    return delta_status_make(UNSUPPORTED, "npy format %d.%d; read are 1.0, 2.0 and 3.0", bytes[6], bytes[7]);
  }
  size_t start = bytes[6] == 1 ? 10 : 12;
  uint64_t length = (uint64_t)bytes[8] | (uint64_t)bytes[9] << 8;
  if (bytes[6] > 1) {
    if (prefix_bytes < start) return delta_status_make(MALFORMED, "truncated inside the npy header");
    length |= (uint64_t)bytes[10] << 16 | (uint64_t)bytes[11] << 24;
  }
  if (start + length > total_bytes) return delta_status_make(MALFORMED, "truncated inside the npy header");
  if (start + length > prefix_bytes) {
    return delta_status_make(UNSUPPORTED, "npy header of %llu bytes; at most %d are read", (unsigned long long)length,
                             DELTA_NPY_PREFIX_BYTES);
  }
  delta_npy_header_t header = {.data_offset = start + length};
  bool fortran_order = false;
  header_cursor_t cursor = {.at = (const char *)bytes + start, .end = (const char *)bytes + start + length};
  DELTA_RETURN_IF_ERROR(parse_dictionary(cursor, &header, &fortran_order));
  DELTA_RETURN_IF_ERROR(check_size(&header, total_bytes));
  DELTA_RETURN_IF_ERROR(check_order(&header, fortran_order));
  *out_header = header;
  return DELTA_OK;
}

uint64_t delta_npy_element_count(const delta_npy_header_t *header) {
  uint64_t count = 1;
  for (int32_t i = 0; i < header->shape.rank; ++i) {
    if (header->shape.dims[i] == 0) return 0;
    count *= (uint64_t)header->shape.dims[i];
  }
  return count;
}

delta_status_t delta_npy_read_elements(const delta_file_t *file, uint64_t base_offset, const delta_npy_header_t *header, uint64_t first,
                                       uint64_t count, void *out_elements) {
  uint64_t present = delta_npy_element_count(header);
  if (first > present || count > present - first) {
    return delta_status_make(INVALID_ARGUMENT, "elements [%llu, +%llu) of an array of %llu", (unsigned long long)first,
                             (unsigned long long)count, (unsigned long long)present);
  }
  size_t bytes = delta_file_dtype_bytes(header->type);
  DELTA_RETURN_IF_ERROR(delta_file_read(file, base_offset + header->data_offset + first * bytes, out_elements, count * bytes));
  if (header->swapped) delta_file_dtype_swap(out_elements, count, bytes);
  return DELTA_OK;
}

delta_status_t delta_npy_open(const char *path, delta_allocator_t allocator, delta_npy_t *out_npy) {
  delta_status_t status = DELTA_OK;
  char *prefix = NULL;
  *out_npy = (delta_npy_t){.file.descriptor = -1};
  delta_npy_t npy = {.file.descriptor = -1};
  DELTA_RETURN_IF_ERROR(delta_file_open(path, allocator, &npy.file));
  size_t prefix_bytes = npy.file.size_bytes < DELTA_NPY_PREFIX_BYTES ? (size_t)npy.file.size_bytes : DELTA_NPY_PREFIX_BYTES;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, prefix_bytes, &prefix), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_file_read(&npy.file, 0, prefix, prefix_bytes), cleanup);
  status = delta_status_annotate(delta_npy_parse(prefix, prefix_bytes, npy.file.size_bytes, &npy.header), "%s", path);
cleanup:
  delta_release(allocator, prefix);
  if (status) {
    delta_npy_close(&npy);
  } else {
    *out_npy = npy;
  }
  return status;
}

void delta_npy_close(delta_npy_t *npy) { delta_file_close(&npy->file); }
