// Properties: what a program wants to find again in a checkpoint, as texts by name.
#include <string.h>

#include "runtime/session_parts.h"

enum { MOST_PROPERTIES = 1024, MOST_TEXT_BYTES = 1 << 16 };

static delta_property_t *find_property(const delta_session_t *session, const char *name) {
  for (size_t i = 0; i < session->properties.count; ++i) {
    if (strcmp(session->properties.items[i].name, name) == 0) return &session->properties.items[i];
  }
  return NULL;
}

static delta_status_t copy_text(delta_session_t *session, const char *text, char **out_copy) {
  const size_t length = strlen(text);
  DELTA_RETURN_IF_ERROR(delta_allocate(session->allocator, length + 1, 1, (void **)out_copy));
  memcpy(*out_copy, text, length + 1);
  return DELTA_OK;
}

static void free_property(delta_session_t *session, const delta_property_t *property) {
  delta_release(session->allocator, property->name);
  delta_release(session->allocator, property->value);
}

static void remove_property(delta_session_t *session, delta_property_t *property) {
  free_property(session, property);
  delta_property_t *last = &session->properties.items[--session->properties.count];
  memmove(property, property + 1, (size_t)(last - property) * sizeof *property);
}

static delta_status_t add_property(delta_session_t *session, const char *name, const char *value) {
  delta_property_t property = {0};
  if (session->properties.count == MOST_PROPERTIES)
    return delta_status_make(UNSUPPORTED, "property '%s': there are %d already", name, MOST_PROPERTIES);
  delta_status_t status = copy_text(session, name, &property.name);
  if (!status) status = copy_text(session, value, &property.value);
  if (!status) status = delta_array_push(session->allocator, &session->properties, &property);
  if (status) free_property(session, &property);
  return status;
}

delta_status_t delta_session_set_property(delta_session_t *session, const char *name, const char *value) {
  if (!*name) return delta_status_make(INVALID_ARGUMENT, "a property without a name");
  if (strlen(name) > MOST_TEXT_BYTES || (value && strlen(value) > MOST_TEXT_BYTES))
    return delta_status_make(INVALID_ARGUMENT, "property '%.64s': a text of more than %d bytes", name, MOST_TEXT_BYTES);
  delta_property_t *known = find_property(session, name);
  if (!value) {
    if (known) remove_property(session, known);
    return DELTA_OK;
  }
  if (!known) return add_property(session, name, value);
  char *copy = NULL;
  DELTA_RETURN_IF_ERROR(copy_text(session, value, &copy));
  delta_release(session->allocator, known->value);
  known->value = copy;
  return DELTA_OK;
}

const char *delta_session_property(const delta_session_t *session, const char *name) {
  const delta_property_t *known = find_property(session, name);
  return known ? known->value : NULL;
}

size_t delta_session_property_count(const delta_session_t *session) { return session->properties.count; }

const char *delta_session_property_name(const delta_session_t *session, size_t index) {
  return index < session->properties.count ? session->properties.items[index].name : NULL;
}

void delta_session_free_properties(delta_session_t *session) {
  for (size_t i = 0; i < session->properties.count; ++i) free_property(session, &session->properties.items[i]);
  delta_array_deinit(session->allocator, &session->properties);
}
