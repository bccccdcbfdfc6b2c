// Tensor file: a reader of the few fields of TensorProto that hold dense tensors (onnx.proto, message TensorProto).
#include "tests/support/tensor_file.h"

#include <string.h>

#include "base/file.h"

enum {
  FIELD_DIMS = 1,
  FIELD_DATA_TYPE = 2,
  FIELD_FLOAT_DATA = 4,
  FIELD_INT32_DATA = 5,
  FIELD_INT64_DATA = 7,
  FIELD_RAW_DATA = 9,
  FIELD_DOUBLE_DATA = 10,
  ONNX_UINT16 = 4,
  MOST_BYTES = 1 << 30
};
enum { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

// What is left of a message.
typedef struct reader {
  const unsigned char *at, *end;
} reader_t;

// One field: a number, or bytes that may hold many.
typedef struct field {
  uint64_t number;
  uint32_t wire;
  uint64_t value;
  reader_t bytes;
} field_t;

static bool read_varint(reader_t *reader, uint64_t *out_value) {
  *out_value = 0;
  for (unsigned shift = 0; reader->at < reader->end && shift < 64; shift += 7) {
    const unsigned char byte = *reader->at++;
    *out_value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) return true;
  }
  return false;
}

static bool read_fixed(reader_t *reader, size_t size_bytes, uint64_t *out_value) {
  *out_value = 0;
  if ((size_t)(reader->end - reader->at) < size_bytes) return false;
  memcpy(out_value, reader->at, size_bytes); // little-endian, as the file
  reader->at += size_bytes;
  return true;
}

static bool read_scalar(reader_t *reader, uint32_t wire, uint64_t *out_value) {
  if (wire == WIRE_VARINT) return read_varint(reader, out_value);
  return read_fixed(reader, wire == WIRE_64 ? 8 : 4, out_value);
}

static bool read_field(reader_t *reader, field_t *out_field) {
  uint64_t tag, length;
  if (!read_varint(reader, &tag)) return false;
  *out_field = (field_t){.number = tag >> 3, .wire = (uint32_t)(tag & 7)};
  if (out_field->wire != WIRE_BYTES) return read_scalar(reader, out_field->wire, &out_field->value);
  if (!read_varint(reader, &length) || length > (size_t)(reader->end - reader->at)) return false;
  out_field->bytes = (reader_t){reader->at, reader->at + length};
  reader->at += length;
  return true;
}

// How the numbers of a field are stored when they are packed, and alone.
static uint32_t element_wire(uint64_t field_number) {
  return field_number == FIELD_FLOAT_DATA ? WIRE_32 : field_number == FIELD_DOUBLE_DATA ? WIRE_64 : WIRE_VARINT;
}

// Stores the bits of one typed value as element `index`; integer fields also hold narrower types, whose low bytes come first.
static bool store_bits(delta_tensor_file_t *tensor, size_t *index, uint64_t bits) {
  const size_t element_bytes = delta_dtype_bytes(tensor->dtype);
  if ((*index + 1) * element_bytes > tensor->size_bytes) return false;
  memcpy((char *)tensor->data + *index * element_bytes, &bits, element_bytes);
  ++*index;
  return true;
}

static bool store_field(delta_tensor_file_t *tensor, const field_t *field, size_t *index) {
  if (field->wire != WIRE_BYTES) return store_bits(tensor, index, field->value);
  reader_t packed = field->bytes;
  while (packed.at < packed.end) {
    uint64_t bits;
    if (!read_scalar(&packed, element_wire(field->number), &bits) || !store_bits(tensor, index, bits)) return false;
  }
  return true;
}

static bool add_dims(delta_shape_t *shape, const field_t *field) {
  reader_t packed = field->bytes;
  uint64_t value = field->value;
  const bool alone = field->wire != WIRE_BYTES;
  while (alone || packed.at < packed.end) {
    if (!alone && !read_varint(&packed, &value)) return false;
    if (shape->rank == DELTA_MAX_RANK) return false;
    shape->dims[shape->rank++] = (int64_t)value;
    if (alone) break;
  }
  return true;
}

// First pass: type and shape.
static delta_status_t read_header(reader_t reader, const char *path, delta_dtype_t declared, delta_tensor_file_t *tensor) {
  int32_t onnx_type = 0;
  for (field_t field; reader.at < reader.end;) {
    if (!read_field(&reader, &field) || (field.number == FIELD_DIMS && !add_dims(&tensor->shape, &field)))
      return delta_status_make(MALFORMED, "'%s': no TensorProto of at most %d dimensions", path, DELTA_MAX_RANK);
    if (field.number == FIELD_DATA_TYPE) onnx_type = (int32_t)field.value;
  }
  tensor->cut_bfloat16 = onnx_type == ONNX_UINT16 && declared == DELTA_DTYPE_BFLOAT16;
  if (tensor->cut_bfloat16) onnx_type = delta_dtype_to_onnx(declared);
  if (!delta_dtype_from_onnx(onnx_type, &tensor->dtype))
    return delta_status_make(UNSUPPORTED, "'%s': element type %d is not stored", path, (int)onnx_type);
  return delta_shape_validate(&tensor->shape, delta_dtype_bytes(tensor->dtype), path);
}

// Second pass: values.
static delta_status_t read_values(reader_t reader, const char *path, delta_tensor_file_t *tensor) {
  const size_t count = (size_t)delta_shape_count(&tensor->shape);
  tensor->size_bytes = count * delta_dtype_bytes(tensor->dtype);
  DELTA_RETURN_IF_ERROR(delta_allocate(tensor->allocator, tensor->size_bytes, 1, &tensor->data));
  size_t stored = 0;
  bool fine = true;
  for (field_t field; fine && reader.at < reader.end;) {
    fine = read_field(&reader, &field);
    if (!fine) break;
    if (field.number == FIELD_RAW_DATA) {
      fine = field.wire == WIRE_BYTES && (size_t)(field.bytes.end - field.bytes.at) == tensor->size_bytes;
      if (fine) memcpy(tensor->data, field.bytes.at, tensor->size_bytes);
      stored = count;
    } else if (field.number == FIELD_FLOAT_DATA || field.number == FIELD_INT32_DATA || field.number == FIELD_INT64_DATA ||
               field.number == FIELD_DOUBLE_DATA) {
      fine = store_field(tensor, &field, &stored);
    }
  }
  if (fine && stored == count) return DELTA_OK;
  return delta_status_make(MALFORMED, "'%s': the values do not fill the shape", path);
}

delta_status_t delta_tensor_file_read(const char *path, delta_dtype_t declared, delta_allocator_t allocator,
                                      delta_tensor_file_t *out_tensor) {
  *out_tensor = (delta_tensor_file_t){.allocator = allocator};
  char *data = NULL;
  size_t size_bytes = 0;
  DELTA_RETURN_IF_ERROR(delta_file_read_all(path, MOST_BYTES, allocator, &data, &size_bytes));
  const reader_t reader = {(const unsigned char *)data, (const unsigned char *)data + size_bytes};
  delta_status_t status = read_header(reader, path, declared, out_tensor);
  if (!status) status = read_values(reader, path, out_tensor);
  if (status) delta_tensor_file_free(out_tensor);
  delta_release(allocator, data);
  return status;
}

void delta_tensor_file_free(delta_tensor_file_t *tensor) {
  if (tensor->data) delta_release(tensor->allocator, tensor->data);
  *tensor = (delta_tensor_file_t){0};
}
