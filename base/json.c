// JSON: what cJSON leaves open when text is hostile (size of numbers, keys given twice, zero bytes, text after the value), and access
// whose errors name the place.
#include "base/json.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "base/map.h"

enum { PLACE_BYTES = 512, MANY_KEYS = 16 };

struct delta_json_document {
  delta_allocator_t allocator;
  cJSON *root; // Owned.
  char *name;  // Owned; for messages.
};

// ---- Places: "programs[0].steps[12]", found by walking the document, since values do not know their parents. Only errors do this.

// Fills `path` with the values from `value` down to `target`; returns how many, 0 when `target` is not below. The parser limits the depth.
static size_t find_path(const cJSON *value, const cJSON *target, const cJSON **path, size_t depth) {
  if (depth > CJSON_NESTING_LIMIT) return 0;
  path[depth] = value;
  if (value == target) return depth + 1;
  for (const cJSON *child = value->child; child; child = child->next) {
    const size_t count = find_path(child, target, path, depth + 1);
    if (count > 0) return count;
  }
  return 0;
}

static size_t index_in_parent(const cJSON *parent, const cJSON *child) {
  size_t index = 0;
  for (const cJSON *item = parent->child; item && item != child; item = item->next) ++index;
  return index;
}

// Appends to the text of `length` bytes in `place`; what does not fit is cut.
static size_t append_place(char place[PLACE_BYTES], size_t length, const char *format, ...) DELTA_PRINTF(3, 4);
static size_t append_place(char place[PLACE_BYTES], size_t length, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  const int added = vsnprintf(place + length, PLACE_BYTES - length, format, arguments);
  va_end(arguments);
  const size_t room = PLACE_BYTES - length - 1;
  return length + (added < 0 ? 0 : (size_t)added < room ? (size_t)added : room);
}

// The place of `value`, and of its member `key` when that is not NULL.
static const char *describe_place(const delta_json_document_t *document, const cJSON *value, const char *key, char place[PLACE_BYTES]) {
  const cJSON *path[CJSON_NESTING_LIMIT + 1];
  const size_t count = find_path(document->root, value, path, 0);
  size_t length = 0;
  place[0] = 0;
  for (size_t i = 1; i < count; ++i) {
    if (cJSON_IsArray(path[i - 1])) {
      length = append_place(place, length, "[%zu]", index_in_parent(path[i - 1], path[i]));
    } else {
      length = append_place(place, length, "%s%s", length ? "." : "", path[i]->string);
    }
  }
  if (key) length = append_place(place, length, "%s%s", length ? "." : "", key);
  return length ? place : "the document";
}

// ---- Parsing

static size_t line_of(const char *text, const char *position) {
  size_t line = 1;
  for (; text < position; ++text) line += *text == '\n';
  return line;
}

// cJSON ends strings at an escaped zero character, which would make two different keys or names equal.
static const char *find_escaped_zero(const char *text, size_t size_bytes) {
  for (size_t i = 0; i + 5 < size_bytes; ++i) {
    if (text[i] != '\\') continue;
    if (memcmp(text + i + 1, "u0000", 5) == 0) return text + i;
    ++i; // an escaped backslash
  }
  return NULL;
}

static delta_status_t check_member_keys(const cJSON *object, const delta_json_document_t *document) {
  // The map costs memory, so small objects, nearly all there are, compare pairs.
  delta_map_t seen;
  delta_map_init(&seen, document->allocator);
  delta_status_t status = DELTA_OK;
  size_t count = 0;
  for (const cJSON *member = object->child; member && !status; member = member->next, ++count) {
    bool repeated = false;
    if (count < MANY_KEYS) {
      for (const cJSON *other = object->child; other != member && !repeated; other = other->next) {
        repeated = strcmp(other->string, member->string) == 0;
      }
    } else {
      repeated = delta_map_find(&seen, member->string) != DELTA_MAP_NONE;
    }
    char place[PLACE_BYTES];
    if (repeated) {
      status = delta_status_make(MALFORMED, "%s: %s: the key appears twice", document->name,
                                 describe_place(document, object, member->string, place));
    } else if (!status) {
      status = delta_map_set(&seen, member->string, 0);
    }
  }
  delta_map_deinit(&seen);
  return status;
}

// Recursion is bounded by the parser's nesting limit.
static delta_status_t check_keys(const cJSON *value, const delta_json_document_t *document) {
  if (cJSON_IsObject(value)) DELTA_RETURN_IF_ERROR(check_member_keys(value, document));
  for (const cJSON *child = value->child; child; child = child->next) DELTA_RETURN_IF_ERROR(check_keys(child, document));
  return DELTA_OK;
}

static delta_status_t parse_text(const char *text, size_t size_bytes, delta_json_document_t *document) {
  const char *zero = find_escaped_zero(text, size_bytes);
  if (zero) {
    return delta_status_make(MALFORMED, "%s: line %zu: a string contains a zero character", document->name, line_of(text, zero));
  }
  const char *end = text;
  document->root = cJSON_ParseWithLengthOpts(text, size_bytes + 1, &end, true);
  if (!document->root || end != text + size_bytes) {
    return delta_status_make(MALFORMED, "%s: line %zu: not valid JSON", document->name, line_of(text, end));
  }
  return check_keys(document->root, document);
}

delta_status_t delta_json_parse(const char *text, size_t size_bytes, const char *name, delta_allocator_t allocator,
                                delta_json_document_t **out_document) {
  delta_json_document_t *document = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &document));
  document->allocator = allocator;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, strlen(name) + 1, &document->name), failed);
  memcpy(document->name, name, strlen(name));
  DELTA_GOTO_IF_ERROR(status, parse_text(text, size_bytes, document), failed);
  *out_document = document;
  return DELTA_OK;
failed:
  delta_json_free(document);
  return status;
}

void delta_json_free(delta_json_document_t *document) {
  if (!document) return;
  cJSON_Delete(document->root);
  delta_release(document->allocator, document->name);
  delta_release(document->allocator, document);
}

const delta_json_value_t *delta_json_root(const delta_json_document_t *document) { return document->root; }

// ---- Access

const delta_json_value_t *delta_json_find(const delta_json_value_t *object, const char *key) {
  return cJSON_GetObjectItemCaseSensitive(object, key);
}

bool delta_json_is_null(const delta_json_value_t *value) { return cJSON_IsNull(value); }

bool delta_json_is_object(const delta_json_value_t *value) { return cJSON_IsObject(value); }

const delta_json_value_t *delta_json_first(const delta_json_value_t *array) { return array->child; }
const delta_json_value_t *delta_json_next(const delta_json_value_t *value) { return value->next; }
const char *delta_json_key(const delta_json_value_t *member) { return member->string; }

// What a member is expected to be: the check and the words for it.
typedef struct json_kind {
  cJSON_bool (*is_kind)(const cJSON *value);
  const char *text;
} json_kind_t;

static const json_kind_t kind_number = {cJSON_IsNumber, "a number"}, kind_bool = {cJSON_IsBool, "true or false"},
                         kind_string = {cJSON_IsString, "a string"}, kind_object = {cJSON_IsObject, "an object"},
                         kind_array = {cJSON_IsArray, "an array"};

static delta_status_t get_member(const delta_json_document_t *document, const cJSON *object, const char *key, const json_kind_t *kind,
                                 const cJSON **out_member) {
  char place[PLACE_BYTES];
  if (!cJSON_IsObject(object)) {
    return delta_status_make(MALFORMED, "%s: %s: expected an object", document->name, describe_place(document, object, NULL, place));
  }
  const cJSON *member = delta_json_find(object, key);
  if (!member || !kind->is_kind(member)) {
    return delta_status_make(MALFORMED, "%s: %s: expected %s%s", document->name, describe_place(document, object, key, place), kind->text,
                             member ? "" : ", but it is missing");
  }
  *out_member = member;
  return DELTA_OK;
}

// Above 2^53 neighbouring integers share one float64, so the text's own value is lost.
static delta_status_t exact_int64(const delta_json_document_t *document, const cJSON *value, const char *place, int64_t minimum,
                                  int64_t maximum, int64_t *out_value) {
  const double number = value->valuedouble;
  if (!cJSON_IsNumber(value) || !(fabs(number) < 0x1p53) || number != floor(number)) {
    return delta_status_make(MALFORMED, "%s: %s: expected an integer", document->name, place);
  }
  if ((int64_t)number < minimum || (int64_t)number > maximum) {
    return delta_status_make(MALFORMED, "%s: %s: %lld is outside %lld to %lld", document->name, place, (long long)number,
                             (long long)minimum, (long long)maximum);
  }
  *out_value = (int64_t)number;
  return DELTA_OK;
}

delta_status_t delta_json_get_int64(const delta_json_document_t *document, const delta_json_value_t *object, const char *key,
                                    int64_t minimum, int64_t maximum, int64_t *out_value) {
  const cJSON *member = NULL;
  DELTA_RETURN_IF_ERROR(get_member(document, object, key, &kind_number, &member));
  // The place is only searched for when there is something to report.
  delta_status_t status = exact_int64(document, member, key, minimum, maximum, out_value);
  if (!status) return DELTA_OK;
  delta_status_free(status);
  char place[PLACE_BYTES];
  return exact_int64(document, member, describe_place(document, object, key, place), minimum, maximum, out_value);
}

delta_status_t delta_json_get_double(const delta_json_document_t *document, const delta_json_value_t *object, const char *key,
                                     double *out_value) {
  const cJSON *member = NULL;
  DELTA_RETURN_IF_ERROR(get_member(document, object, key, &kind_number, &member));
  if (!isfinite(member->valuedouble)) {
    char place[PLACE_BYTES];
    return delta_status_make(MALFORMED, "%s: %s: the number is too large", document->name, describe_place(document, object, key, place));
  }
  *out_value = member->valuedouble;
  return DELTA_OK;
}

delta_status_t delta_json_get_bool(const delta_json_document_t *document, const delta_json_value_t *object, const char *key,
                                   bool *out_value) {
  const cJSON *member = NULL;
  DELTA_RETURN_IF_ERROR(get_member(document, object, key, &kind_bool, &member));
  *out_value = cJSON_IsTrue(member);
  return DELTA_OK;
}

delta_status_t delta_json_get_string(const delta_json_document_t *document, const delta_json_value_t *object, const char *key,
                                     const char **out_text) {
  const cJSON *member = NULL;
  DELTA_RETURN_IF_ERROR(get_member(document, object, key, &kind_string, &member));
  *out_text = member->valuestring;
  return DELTA_OK;
}

delta_status_t delta_json_get_object(const delta_json_document_t *document, const delta_json_value_t *object, const char *key,
                                     const delta_json_value_t **out_value) {
  return get_member(document, object, key, &kind_object, out_value);
}

delta_status_t delta_json_get_array(const delta_json_document_t *document, const delta_json_value_t *object, const char *key,
                                    const delta_json_value_t **out_array, size_t *out_count) {
  const cJSON *member = NULL;
  DELTA_RETURN_IF_ERROR(get_member(document, object, key, &kind_array, &member));
  *out_array = member;
  *out_count = (size_t)cJSON_GetArraySize(member);
  return DELTA_OK;
}

delta_status_t delta_json_as_int64(const delta_json_document_t *document, const delta_json_value_t *value, const char *place,
                                   int64_t minimum, int64_t maximum, int64_t *out_value) {
  return exact_int64(document, value, place, minimum, maximum, out_value);
}

delta_status_t delta_json_as_double(const delta_json_document_t *document, const delta_json_value_t *value, const char *place,
                                    double *out_value) {
  if (!cJSON_IsNumber(value)) return delta_status_make(MALFORMED, "%s: %s: expected a number", document->name, place);
  if (!isfinite(value->valuedouble)) return delta_status_make(MALFORMED, "%s: %s: the number is too large", document->name, place);
  *out_value = value->valuedouble;
  return DELTA_OK;
}

delta_status_t delta_json_as_string(const delta_json_document_t *document, const delta_json_value_t *value, const char *place,
                                    const char **out_text) {
  if (!cJSON_IsString(value)) return delta_status_make(MALFORMED, "%s: %s: expected a string", document->name, place);
  *out_text = value->valuestring;
  return DELTA_OK;
}
