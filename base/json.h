// JSON: reading through cJSON with checked access, and a streaming writer. Untrusted text is fine: size, nesting and every type are
// checked, and messages name the place ("programs[0].steps[12].node: expected an integer").
#ifndef DELTA_BASE_JSON_H_
#define DELTA_BASE_JSON_H_

#include <stdint.h>

#include "base/text.h"

// A value inside a parsed document. Borrowed from the document.
typedef struct cJSON delta_json_value_t;

// A parsed document. cJSON allocates with malloc whatever `allocator` is: its hooks are global to the process, and a library must not set them.
typedef struct delta_json_document delta_json_document_t;

// Parses `text` of `size_bytes` (a zero byte after it). `name` stands in messages. MALFORMED on bad syntax (with line), duplicate keys in one object, text after the value.
DELTA_MUST_USE delta_status_t delta_json_parse(const char *text, size_t size_bytes, const char *name, delta_allocator_t allocator,
                                               delta_json_document_t **out_document);
void delta_json_free(delta_json_document_t *document);
const delta_json_value_t *delta_json_root(const delta_json_document_t *document);

// Required members. MALFORMED with the place when absent, of another type, or out of range. Integers must be exact (below 2^53).
DELTA_MUST_USE delta_status_t delta_json_get_int64(const delta_json_document_t *document, const delta_json_value_t *object, const char *key,
                                                   int64_t minimum, int64_t maximum, int64_t *out_value);
DELTA_MUST_USE delta_status_t delta_json_get_double(const delta_json_document_t *document, const delta_json_value_t *object,
                                                    const char *key, double *out_value);
DELTA_MUST_USE delta_status_t delta_json_get_bool(const delta_json_document_t *document, const delta_json_value_t *object, const char *key,
                                                  bool *out_value);
// The string is borrowed from the document.
DELTA_MUST_USE delta_status_t delta_json_get_string(const delta_json_document_t *document, const delta_json_value_t *object,
                                                    const char *key, const char **out_text);
DELTA_MUST_USE delta_status_t delta_json_get_object(const delta_json_document_t *document, const delta_json_value_t *object,
                                                    const char *key, const delta_json_value_t **out_value);
DELTA_MUST_USE delta_status_t delta_json_get_array(const delta_json_document_t *document, const delta_json_value_t *object, const char *key,
                                                   const delta_json_value_t **out_array, size_t *out_count);
// NULL when absent.
const delta_json_value_t *delta_json_find(const delta_json_value_t *object, const char *key);
bool delta_json_is_null(const delta_json_value_t *value);
bool delta_json_is_object(const delta_json_value_t *value);

// Iterates an array in linear time: for (v = delta_json_first(array); v; v = delta_json_next(v)).
const delta_json_value_t *delta_json_first(const delta_json_value_t *array);
const delta_json_value_t *delta_json_next(const delta_json_value_t *value);
// The key of a member of an object, iterated the same way. Borrowed.
const char *delta_json_key(const delta_json_value_t *member);
// A member of an array as an integer, a number, a string; the message uses `place`.
DELTA_MUST_USE delta_status_t delta_json_as_int64(const delta_json_document_t *document, const delta_json_value_t *value, const char *place,
                                                  int64_t minimum, int64_t maximum, int64_t *out_value);
DELTA_MUST_USE delta_status_t delta_json_as_double(const delta_json_document_t *document, const delta_json_value_t *value,
                                                   const char *place, double *out_value);
DELTA_MUST_USE delta_status_t delta_json_as_string(const delta_json_document_t *document, const delta_json_value_t *value,
                                                   const char *place, const char **out_text);

// Streaming writer into a text. Errors stick: after a failure every call is a no-op, and delta_json_writer_status tells. Output is
// deterministic; doubles print with the fewest digits that read back equal; NaN and infinity print as null.
typedef struct delta_json_writer {
  delta_text_t *out; // Borrowed.
  delta_status_t status;
  uint32_t depth;
  bool compact; // one line; otherwise indented, with arrays of numbers on one line
  bool needs_comma[64];
  bool inline_array[64];
} delta_json_writer_t;

void delta_json_writer_init(delta_json_writer_t *writer, delta_text_t *out, bool compact);
// `key` is NULL inside arrays and at the root.
void delta_json_begin_object(delta_json_writer_t *writer, const char *key);
void delta_json_begin_inline_object(delta_json_writer_t *writer, const char *key); // it and all inside on one line
void delta_json_end_object(delta_json_writer_t *writer);
void delta_json_begin_array(delta_json_writer_t *writer, const char *key);
void delta_json_begin_inline_array(delta_json_writer_t *writer, const char *key);
void delta_json_end_array(delta_json_writer_t *writer);
void delta_json_write_int64(delta_json_writer_t *writer, const char *key, int64_t value);
void delta_json_write_double(delta_json_writer_t *writer, const char *key, double value);
void delta_json_write_bool(delta_json_writer_t *writer, const char *key, bool value);
void delta_json_write_string(delta_json_writer_t *writer, const char *key, const char *text);
void delta_json_write_null(delta_json_writer_t *writer, const char *key);
// Takes the status out (OK or the first error).
DELTA_MUST_USE delta_status_t delta_json_writer_finish(delta_json_writer_t *writer);

#endif // DELTA_BASE_JSON_H_
