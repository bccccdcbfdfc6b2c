// Skeleton: an ONNX file's bytes without its weights, made before anything is unpacked. Every nesting, length and packed field is checked on
// the way, unknown fields and groups are left out, and what Delta does not read (documentation, sub-graphs, training info) is emptied, so
// that the unpacker sees only a small, well-formed message. Where weights were cut out, a private field says where they are in the file.
#ifndef DELTA_ONNX_SKELETON_H_
#define DELTA_ONNX_SKELETON_H_

#include <protobuf-c/protobuf-c.h>

#include "onnx/wire.h"

// The private field of TensorProto: one delta_skeleton_cut_t for each piece that was cut out. Files cannot forge it: unknown fields are dropped.
enum { DELTA_SKELETON_CUT_FIELD = 1000 };

typedef struct delta_skeleton_cut {
  uint32_t field_number; // of TensorProto: the field whose content was cut out
  uint32_t reserved;
  delta_wire_range_t range;
} delta_skeleton_cut_t;

// FunctionProto.attribute_proto (defaults of attributes): newer than the system's onnx.proto, so it travels as an unknown field whose
// length prefix has DELTA_SKELETON_LENGTH_BYTES bytes.
enum { DELTA_SKELETON_ATTRIBUTE_PROTO_FIELD = 11, DELTA_SKELETON_LENGTH_BYTES = 5 };

typedef struct delta_skeleton {
  delta_allocator_t allocator;
  uint8_t *items; // Owned.
  size_t count, capacity;
} delta_skeleton_t;

// Reads the whole file of `source` as a message of type `descriptor`. MALFORMED says where and in which named part.
DELTA_MUST_USE delta_status_t delta_skeleton_make(delta_wire_source_t *source, const ProtobufCMessageDescriptor *descriptor,
                                                  delta_allocator_t allocator, delta_skeleton_t *out_skeleton);
void delta_skeleton_deinit(delta_skeleton_t *skeleton); // Safe on a zeroed struct.

#endif // DELTA_ONNX_SKELETON_H_
