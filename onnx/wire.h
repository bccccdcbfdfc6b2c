// Wire: the protobuf wire format, read field by field from a file through one bounded window. It knows tags, lengths and groups, not messages.
// Nothing here recurses, so no nesting in a file can grow the stack.
#ifndef DELTA_ONNX_WIRE_H_
#define DELTA_ONNX_WIRE_H_

#include "base/file.h"

// The deepest nesting of messages or groups that is read; real models stay below 20.
enum { DELTA_WIRE_DEPTH_LIMIT = 100 };

typedef enum delta_wire_type {
  DELTA_WIRE_VARINT = 0,
  DELTA_WIRE_FIXED64 = 1,
  DELTA_WIRE_LENGTH = 2,
  DELTA_WIRE_GROUP = 3,
  DELTA_WIRE_GROUP_END = 4,
  DELTA_WIRE_FIXED32 = 5,
} delta_wire_type_t;

// Bytes [begin, end) of the file.
typedef struct delta_wire_range {
  uint64_t begin, end;
} delta_wire_range_t;

static inline uint64_t delta_wire_range_bytes(delta_wire_range_t range) { return range.end - range.begin; }

typedef struct delta_wire_source {
  const delta_file_t *file; // Borrowed.
  delta_allocator_t allocator;
  uint8_t *window; // Owned; the bytes of the file from window_begin on.
  uint64_t window_begin;
  size_t window_bytes;
} delta_wire_source_t;

// One field: its tag, and where its content is. A group is one field; its content lies between the two tags.
typedef struct delta_wire_field {
  uint32_t number;
  delta_wire_type_t type;
  uint64_t begin;             // of the tag
  uint64_t length_begin;      // of the length's varint (LENGTH only)
  delta_wire_range_t payload; // content without tag and length
  uint64_t end;               // of the field
  uint64_t varint;            // the value (VARINT only)
} delta_wire_field_t;

DELTA_MUST_USE delta_status_t delta_wire_source_init(delta_wire_source_t *source, const delta_file_t *file, delta_allocator_t allocator);
void delta_wire_source_deinit(delta_wire_source_t *source); // Safe on a zeroed struct.

// Reads the field at *position of a message that ends at `limit` and moves *position behind it. MALFORMED names the byte and what is wrong.
DELTA_MUST_USE delta_status_t delta_wire_next(delta_wire_source_t *source, uint64_t *position, uint64_t limit,
                                              delta_wire_field_t *out_field);

// Reads one varint at *position, which ends before `limit`, and moves *position behind it.
DELTA_MUST_USE delta_status_t delta_wire_varint(delta_wire_source_t *source, uint64_t *position, uint64_t limit, uint64_t *out_value);

// Copies the bytes of `range` to `buffer`.
DELTA_MUST_USE delta_status_t delta_wire_read(delta_wire_source_t *source, delta_wire_range_t range, void *buffer);

// Writes `value` as a varint of the fewest bytes; returns how many.
enum { DELTA_WIRE_VARINT_BYTES = 10 };
size_t delta_wire_encode_varint(uint64_t value, uint8_t out_bytes[DELTA_WIRE_VARINT_BYTES]);

#endif // DELTA_ONNX_WIRE_H_
