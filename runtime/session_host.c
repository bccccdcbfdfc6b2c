// What the host sees of the arena. Where it can address device memory that is lent as it stands; elsewhere bytes go through a buffer of the session's.
#include <stdint.h>

#include "runtime/session_parts.h"

delta_status_t delta_session_borrow(delta_session_t *session, size_t size_bytes, void **out_buffer) {
  if (size_bytes > session->host_buffer_bytes) {
    delta_session_return(session);
    DELTA_RETURN_IF_ERROR(delta_allocate(session->allocator, size_bytes, 1, &session->host_buffer));
    session->host_buffer_bytes = size_bytes;
  }
  *out_buffer = session->host_buffer;
  return DELTA_OK;
}

void delta_session_return(delta_session_t *session) {
  delta_release(session->allocator, session->host_buffer);
  session->host_buffer = NULL;
  session->host_buffer_bytes = 0;
}

delta_status_t delta_session_view(delta_session_t *session, const void *address, size_t size_bytes, const void **out_data) {
  *out_data = address;
  if (session->device->host_addressable) return DELTA_OK;
  void *buffer = NULL;
  DELTA_RETURN_IF_ERROR(delta_session_borrow(session, size_bytes, &buffer));
  *out_data = buffer;
  return session->device->driver->read(session->device, buffer, address, size_bytes);
}

// One element of any type.
typedef union element {
  int64_t integer;
  double real;
  uint8_t bytes[8];
} element_t;

delta_status_t delta_session_load_double(delta_session_t *session, const void *address, delta_dtype_t dtype, double *out_value) {
  element_t element = {0};
  DELTA_RETURN_IF_ERROR(session->device->driver->read(session->device, &element, address, delta_dtype_bytes(dtype)));
  *out_value = delta_element_load_double(&element, dtype, 0);
  return DELTA_OK;
}

delta_status_t delta_session_load_int64(delta_session_t *session, const void *address, delta_dtype_t dtype, int64_t *out_value) {
  element_t element = {0};
  DELTA_RETURN_IF_ERROR(session->device->driver->read(session->device, &element, address, delta_dtype_bytes(dtype)));
  *out_value = delta_element_load_int64(&element, dtype, 0);
  return DELTA_OK;
}

delta_status_t delta_session_store_double(delta_session_t *session, void *address, delta_dtype_t dtype, double value) {
  element_t element = {0};
  delta_element_store_double(&element, dtype, 0, value);
  return session->device->driver->write(session->device, address, &element, delta_dtype_bytes(dtype));
}

delta_status_t delta_session_store_int64(delta_session_t *session, void *address, delta_dtype_t dtype, int64_t value) {
  element_t element = {0};
  delta_element_store_int64(&element, dtype, 0, value);
  return session->device->driver->write(session->device, address, &element, delta_dtype_bytes(dtype));
}
