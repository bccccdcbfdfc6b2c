// Fuzz target: JSON from outside, as plans, profiles and problems are read: parse, then visit every value through the checked access.
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

// Tries every kind of access on `value` and goes down. The parser bounds the depth.
static void visit(const delta_json_document_t *document, const delta_json_value_t *value) {
  int64_t integer;
  double number;
  size_t count;
  const char *text;
  const delta_json_value_t *array;
  delta_status_free(delta_json_as_int64(document, value, "value", INT64_MIN, INT64_MAX, &integer));
  delta_status_free(delta_json_as_string(document, value, "value", &text));
  delta_status_free(delta_json_get_double(document, value, "a", &number));
  delta_status_free(delta_json_get_array(document, value, "b", &array, &count));
  for (const delta_json_value_t *child = delta_json_first(value); child; child = delta_json_next(child)) visit(document, child);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  // Every message searches the document for its place: keep that from being quadratic.
  if (size_bytes > 4096) return 0;
  char *text = malloc(size_bytes + 1);
  if (!text) return 0;
  memcpy(text, data, size_bytes);
  text[size_bytes] = 0;
  delta_json_document_t *document = NULL;
  delta_status_t status = delta_json_parse(text, size_bytes, "fuzz", delta_allocator_system(), &document);
  if (!status) visit(document, delta_json_root(document));
  delta_status_free(status);
  delta_json_free(document);
  free(text);
  return 0;
}
