// Reads the protobuf wire format (https://protobuf.dev/programming-guides/encoding) through a window that slides over the file.
#include "onnx/wire.h"

#include <inttypes.h>
#include <string.h>

enum { WINDOW_BYTES = 256 * 1024 };

delta_status_t delta_wire_source_init(delta_wire_source_t *source, const delta_file_t *file, delta_allocator_t allocator) {
  *source = (delta_wire_source_t){.file = file, .allocator = allocator};
  return DELTA_ALLOCATE(allocator, file->size_bytes < WINDOW_BYTES ? (size_t)file->size_bytes : WINDOW_BYTES, &source->window);
}

void delta_wire_source_deinit(delta_wire_source_t *source) {
  if (source->window) delta_release(source->allocator, source->window);
  *source = (delta_wire_source_t){0};
}

// Makes the window begin at or before `offset`, with as many of the `wanted` bytes as the file has.
static delta_status_t slide_window(delta_wire_source_t *source, uint64_t offset, size_t wanted) {
  if (offset >= source->window_begin && offset + wanted <= source->window_begin + source->window_bytes) return DELTA_OK;
  uint64_t left = offset < source->file->size_bytes ? source->file->size_bytes - offset : 0;
  size_t bytes = left < WINDOW_BYTES ? (size_t)left : WINDOW_BYTES;
  source->window_bytes = 0;
  DELTA_RETURN_IF_ERROR(delta_file_read(source->file, offset, source->window, bytes));
  source->window_begin = offset;
  source->window_bytes = bytes;
  return DELTA_OK;
}

delta_status_t delta_wire_read(delta_wire_source_t *source, delta_wire_range_t range, void *buffer) {
  size_t bytes = (size_t)delta_wire_range_bytes(range);
  if (bytes == 0) return DELTA_OK;
  if (bytes > WINDOW_BYTES) return delta_file_read(source->file, range.begin, buffer, bytes);
  DELTA_RETURN_IF_ERROR(slide_window(source, range.begin, bytes));
  if (range.begin + bytes > source->window_begin + source->window_bytes) return delta_file_read(source->file, range.begin, buffer, bytes);
  memcpy(buffer, source->window + (range.begin - source->window_begin), bytes);
  return DELTA_OK;
}

delta_status_t delta_wire_varint(delta_wire_source_t *source, uint64_t *position, uint64_t limit, uint64_t *out_value) {
  uint64_t begin = *position;
  size_t available = limit - begin < DELTA_WIRE_VARINT_BYTES ? (size_t)(limit - begin) : DELTA_WIRE_VARINT_BYTES;
  DELTA_RETURN_IF_ERROR(slide_window(source, begin, available));
  const uint8_t *bytes = source->window + (begin - source->window_begin);
  size_t in_window = source->window_bytes - (size_t)(begin - source->window_begin);
  if (available > in_window) available = in_window;
  uint64_t value = 0;
  for (size_t i = 0; i < available; ++i) {
    if (i == DELTA_WIRE_VARINT_BYTES - 1 && bytes[i] > 1) break;
    value |= (uint64_t)(bytes[i] & 0x7f) << (7 * i);
    if (bytes[i] & 0x80) continue;
    *position = begin + i + 1;
    *out_value = value;
    return DELTA_OK;
  }
  return delta_status_make(MALFORMED, "byte %" PRIu64 ": a number %s", begin,
                           available < DELTA_WIRE_VARINT_BYTES ? "is cut off (truncated file or wrong length)" : "has more than 64 bits");
}

static delta_status_t read_tag(delta_wire_source_t *source, uint64_t *position, uint64_t limit, delta_wire_field_t *field) {
  uint64_t tag = 0;
  field->begin = *position;
  DELTA_RETURN_IF_ERROR(delta_wire_varint(source, position, limit, &tag));
  uint64_t number = tag >> 3;
  if (number == 0 || number >= (1u << 29))
    return delta_status_make(MALFORMED, "byte %" PRIu64 ": field number %" PRIu64 " is not allowed (no ONNX file, or damaged)",
                             field->begin, number);
  if ((tag & 7) > DELTA_WIRE_FIXED32)
    return delta_status_make(MALFORMED, "byte %" PRIu64 ": wire type %u does not exist (no ONNX file, or damaged)", field->begin,
                             (unsigned)(tag & 7));
  field->number = (uint32_t)number;
  field->type = (delta_wire_type_t)(tag & 7);
  return DELTA_OK;
}

// Sets the payload of a field that is not a group, and moves *position behind it.
static delta_status_t read_payload(delta_wire_source_t *source, uint64_t *position, uint64_t limit, delta_wire_field_t *field) {
  uint64_t length = field->type == DELTA_WIRE_FIXED64 ? 8 : 4;
  if (field->type == DELTA_WIRE_VARINT) {
    field->payload.begin = *position;
    DELTA_RETURN_IF_ERROR(delta_wire_varint(source, position, limit, &field->varint));
    field->payload.end = *position;
    return DELTA_OK;
  }
  if (field->type == DELTA_WIRE_LENGTH) {
    field->length_begin = *position;
    DELTA_RETURN_IF_ERROR(delta_wire_varint(source, position, limit, &length));
  }
  if (length > limit - *position)
    return delta_status_make(
        MALFORMED, "byte %" PRIu64 ": field %u wants %" PRIu64 " bytes, its message has %" PRIu64 " left (truncated file or wrong length)",
        field->begin, (unsigned)field->number, length, limit - *position);
  field->payload = (delta_wire_range_t){*position, *position + length};
  *position = field->payload.end;
  return DELTA_OK;
}

// Moves *position behind the end tag of the group that `field` starts.
static delta_status_t skip_group(delta_wire_source_t *source, uint64_t *position, uint64_t limit, delta_wire_field_t *field) {
  uint32_t open_groups[DELTA_WIRE_DEPTH_LIMIT] = {field->number};
  size_t depth = 1;
  field->payload.begin = *position;
  while (depth > 0) {
    delta_wire_field_t inner = {0};
    if (*position >= limit)
      return delta_status_make(MALFORMED, "byte %" PRIu64 ": group %u is not closed", field->begin, (unsigned)open_groups[depth - 1]);
    DELTA_RETURN_IF_ERROR(read_tag(source, position, limit, &inner));
    if (inner.type == DELTA_WIRE_GROUP_END) {
      if (inner.number != open_groups[--depth])
        return delta_status_make(MALFORMED, "byte %" PRIu64 ": the end of group %u stands where group %u is open", inner.begin,
                                 (unsigned)inner.number, (unsigned)open_groups[depth]);
      field->payload.end = inner.begin;
    } else if (inner.type == DELTA_WIRE_GROUP) {
      if (depth == DELTA_WIRE_DEPTH_LIMIT)
        return delta_status_make(MALFORMED, "byte %" PRIu64 ": groups are nested more than %d deep", inner.begin, DELTA_WIRE_DEPTH_LIMIT);
      open_groups[depth++] = inner.number;
    } else {
      DELTA_RETURN_IF_ERROR(read_payload(source, position, limit, &inner));
    }
  }
  return DELTA_OK;
}

delta_status_t delta_wire_next(delta_wire_source_t *source, uint64_t *position, uint64_t limit, delta_wire_field_t *out_field) {
  delta_wire_field_t field = {0};
  DELTA_RETURN_IF_ERROR(read_tag(source, position, limit, &field));
  if (field.type == DELTA_WIRE_GROUP_END)
    return delta_status_make(MALFORMED, "byte %" PRIu64 ": a group ends that was not opened", field.begin);
  if (field.type == DELTA_WIRE_GROUP) {
    DELTA_RETURN_IF_ERROR(skip_group(source, position, limit, &field));
  } else {
    DELTA_RETURN_IF_ERROR(read_payload(source, position, limit, &field));
  }
  field.end = *position;
  *out_field = field;
  return DELTA_OK;
}

size_t delta_wire_encode_varint(uint64_t value, uint8_t out_bytes[DELTA_WIRE_VARINT_BYTES]) {
  size_t count = 0;
  do {
    out_bytes[count] = (uint8_t)(value & 0x7f);
    value >>= 7;
    if (value) out_bytes[count] |= 0x80;
    ++count;
  } while (value);
  return count;
}
