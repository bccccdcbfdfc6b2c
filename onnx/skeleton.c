// Copies the known fields of an ONNX file, cutting out weights. It follows the message descriptors, so it needs no list of ONNX's messages;
// the table below holds only the fields that are not copied as they are.
#include "onnx/skeleton.h"

#include <inttypes.h>
#include <limits.h>
#include <string.h>

#include "base/array.h"
#include "onnx/model.h"

// What becomes of a field.
typedef enum field_treatment {
  COPY,  // with everything in it
  DROP,  // left out; its content is not looked at
  EMPTY, // an empty message takes its place; its content is checked
  CUT,   // replaced by its position when it is large
} field_treatment_t;

typedef struct field_rule {
  const char *message;
  const char *field;
  field_treatment_t treatment;
} field_rule_t;

static const field_rule_t field_rules[] = {
    {"ModelProto", "doc_string", DROP},
    {"ModelProto", "metadata_props", DROP},
    {"ModelProto", "training_info", EMPTY},
    {"GraphProto", "doc_string", DROP},
    {"GraphProto", "quantization_annotation", DROP},
    {"NodeProto", "doc_string", DROP},
    {"FunctionProto", "doc_string", DROP},
    {"ValueInfoProto", "doc_string", DROP},
    {"AttributeProto", "doc_string", DROP},
    {"AttributeProto", "g", EMPTY},
    {"AttributeProto", "graphs", EMPTY},
    {"AttributeProto", "sparse_tensor", EMPTY},
    {"AttributeProto", "sparse_tensors", EMPTY},
    {"AttributeProto", "tensors", EMPTY},
    {"AttributeProto", "tp", EMPTY},
    {"AttributeProto", "type_protos", EMPTY},
    {"TensorProto", "doc_string", DROP},
    {"TensorProto", "raw_data", CUT},
    {"TensorProto", "float_data", CUT},
    {"TensorProto", "double_data", CUT},
};

// How a message's field is copied.
typedef struct field_plan {
  ProtobufCType type;
  bool is_repeated;
  field_treatment_t treatment;
  const ProtobufCMessageDescriptor *inner; // of a message
  const char *name;
} field_plan_t;

typedef struct copier {
  delta_wire_source_t *source; // Borrowed.
  delta_skeleton_t *out;       // Borrowed.
} copier_t;

static delta_status_t copy_message(copier_t *copier, const ProtobufCMessageDescriptor *descriptor, delta_wire_range_t range, uint32_t depth,
                                   bool emits);

void delta_skeleton_deinit(delta_skeleton_t *skeleton) {
  if (skeleton->items) delta_release(skeleton->allocator, skeleton->items);
  *skeleton = (delta_skeleton_t){0};
}

static delta_status_t append(delta_skeleton_t *out, const void *bytes, size_t count) {
  DELTA_RETURN_IF_ERROR(delta_array_reserve(out->allocator, out, count));
  memcpy(out->items + out->count, bytes, count);
  out->count += count;
  return DELTA_OK;
}

static delta_status_t append_varint(delta_skeleton_t *out, uint64_t value) {
  uint8_t bytes[DELTA_WIRE_VARINT_BYTES];
  return append(out, bytes, delta_wire_encode_varint(value, bytes));
}

static delta_status_t append_tag(delta_skeleton_t *out, uint32_t number, delta_wire_type_t type) {
  return append_varint(out, (uint64_t)number << 3 | (uint64_t)type);
}

// Copies a field as it stands in the file.
static delta_status_t append_range(copier_t *copier, delta_wire_range_t range) {
  delta_skeleton_t *out = copier->out;
  size_t bytes = (size_t)delta_wire_range_bytes(range);
  DELTA_RETURN_IF_ERROR(delta_array_reserve(out->allocator, out, bytes));
  DELTA_RETURN_IF_ERROR(delta_wire_read(copier->source, range, out->items + out->count));
  out->count += bytes;
  return DELTA_OK;
}

static delta_wire_type_t wire_type_of(ProtobufCType type) {
  switch (type) {
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_DOUBLE:
      return DELTA_WIRE_FIXED64;
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32:
    case PROTOBUF_C_TYPE_FLOAT:
      return DELTA_WIRE_FIXED32;
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE:
      return DELTA_WIRE_LENGTH;
    default:
      return DELTA_WIRE_VARINT;
  }
}

// False for a field that is unknown or has another wire type than its own: both are skipped, as protobuf says.
static bool plan_field(const ProtobufCMessageDescriptor *descriptor, const delta_wire_field_t *field, field_plan_t *out_plan) {
  const ProtobufCFieldDescriptor *known = protobuf_c_message_descriptor_get_field(descriptor, field->number);
  if (!known && strcmp(descriptor->short_name, "FunctionProto") == 0 && field->number == DELTA_SKELETON_ATTRIBUTE_PROTO_FIELD) {
    const ProtobufCFieldDescriptor *node = protobuf_c_message_descriptor_get_field_by_name(descriptor, "node");
    known = protobuf_c_message_descriptor_get_field_by_name((const ProtobufCMessageDescriptor *)node->descriptor, "attribute");
  }
  if (!known) return false;
  *out_plan = (field_plan_t){.type = known->type,
                             .is_repeated = known->label == PROTOBUF_C_LABEL_REPEATED,
                             .inner = known->type == PROTOBUF_C_TYPE_MESSAGE ? (const ProtobufCMessageDescriptor *)known->descriptor : NULL,
                             .name = known->name};
  delta_wire_type_t own_type = wire_type_of(known->type);
  if (field->type != own_type && !(field->type == DELTA_WIRE_LENGTH && out_plan->is_repeated)) return false;
  for (size_t i = 0; i < sizeof field_rules / sizeof *field_rules; ++i) {
    if (strcmp(field_rules[i].field, known->name) != 0 || strcmp(field_rules[i].message, descriptor->short_name) != 0) continue;
    out_plan->treatment = field_rules[i].treatment;
    break;
  }
  return true;
}

// A packed field must hold whole elements.
static delta_status_t check_packed(delta_wire_source_t *source, const field_plan_t *plan, const delta_wire_field_t *field) {
  delta_wire_type_t element = wire_type_of(plan->type);
  uint64_t bytes = delta_wire_range_bytes(field->payload);
  if (element == DELTA_WIRE_VARINT) {
    uint64_t value = 0;
    for (uint64_t position = field->payload.begin; position < field->payload.end;)
      DELTA_RETURN_IF_ERROR(delta_wire_varint(source, &position, field->payload.end, &value));
  } else if (bytes % (element == DELTA_WIRE_FIXED64 ? 8 : 4) != 0) {
    return delta_status_make(MALFORMED, "%s has %" PRIu64 " bytes, which is no whole number of elements", plan->name, bytes);
  }
  return DELTA_OK;
}

// Names become C strings: a zero byte would cut one off into another name.
static delta_status_t check_text(delta_wire_source_t *source, const field_plan_t *plan, const delta_wire_field_t *field) {
  uint8_t piece[256];
  for (uint64_t begin = field->payload.begin; begin < field->payload.end; begin += sizeof piece) {
    uint64_t left = field->payload.end - begin;
    size_t bytes = left < sizeof piece ? (size_t)left : sizeof piece;
    DELTA_RETURN_IF_ERROR(delta_wire_read(source, (delta_wire_range_t){begin, begin + bytes}, piece));
    if (memchr(piece, 0, bytes))
      return delta_status_make(MALFORMED, "%s (at byte %" PRIu64 ") contains a zero byte, which no name may", plan->name, field->begin);
  }
  return DELTA_OK;
}

static delta_status_t append_cut(copier_t *copier, const delta_wire_field_t *field) {
  delta_skeleton_cut_t cut = {.field_number = field->number, .range = field->payload};
  _Static_assert(sizeof cut < 128, "the length must fit in one byte");
  DELTA_RETURN_IF_ERROR(append_tag(copier->out, DELTA_SKELETON_CUT_FIELD, DELTA_WIRE_LENGTH));
  DELTA_RETURN_IF_ERROR(append_varint(copier->out, sizeof cut));
  return append(copier->out, &cut, sizeof cut);
}

// The name that a message gives itself, for messages; false when it has none.
static bool read_own_name(delta_wire_source_t *source, const ProtobufCMessageDescriptor *descriptor, delta_wire_range_t range,
                          char *out_name, size_t name_bytes) {
  const ProtobufCFieldDescriptor *known = protobuf_c_message_descriptor_get_field_by_name(descriptor, "name");
  if (!known || known->type != PROTOBUF_C_TYPE_STRING) return false;
  for (uint64_t position = range.begin; position < range.end;) {
    delta_wire_field_t field = {0};
    delta_status_t status = delta_wire_next(source, &position, range.end, &field);
    bool is_name = !status && field.number == known->id && field.type == DELTA_WIRE_LENGTH;
    if (is_name) {
      uint64_t length = delta_wire_range_bytes(field.payload);
      size_t kept = length < name_bytes ? (size_t)length : name_bytes - 1;
      status = delta_wire_read(source, (delta_wire_range_t){field.payload.begin, field.payload.begin + kept}, out_name);
      out_name[kept] = 0;
    }
    bool failed = status != DELTA_OK;
    delta_status_free(status);
    if (failed) return false;
    if (is_name) return out_name[0] != 0;
  }
  return false;
}

// Says in which part of the file an error is; only the outer levels, so that deep nesting gives no long message.
static delta_status_t annotate_part(copier_t *copier, delta_status_t status, const field_plan_t *plan, delta_wire_range_t range,
                                    uint32_t depth) {
  char name[64];
  if (!status || depth > 3 || delta_status_code(status) != DELTA_STATUS_MALFORMED) return status;
  if (read_own_name(copier->source, plan->inner, range, name, sizeof name))
    return delta_status_annotate(status, "%s '%s'", plan->name, name);
  return delta_status_annotate(status, "%s", plan->name);
}

// Copies a message field. The lengths inside change, so its own length gets a fixed number of bytes and is set afterwards.
static delta_status_t copy_submessage(copier_t *copier, const field_plan_t *plan, const delta_wire_field_t *field, uint32_t depth,
                                      bool emits) {
  if (depth == DELTA_WIRE_DEPTH_LIMIT)
    return delta_status_make(MALFORMED, "byte %" PRIu64 ": messages are nested more than %d deep", field->begin, DELTA_WIRE_DEPTH_LIMIT);
  delta_skeleton_t *out = copier->out;
  size_t length_at = 0;
  if (emits) {
    static const uint8_t zeros[DELTA_SKELETON_LENGTH_BYTES] = {0};
    DELTA_RETURN_IF_ERROR(append_tag(out, field->number, DELTA_WIRE_LENGTH));
    length_at = out->count;
    DELTA_RETURN_IF_ERROR(append(out, zeros, sizeof zeros));
  }
  bool emits_content = emits && plan->treatment != EMPTY;
  delta_status_t status = copy_message(copier, plan->inner, field->payload, depth + 1, emits_content);
  if (status) return annotate_part(copier, status, plan, field->payload, depth);
  if (!emits) return DELTA_OK;
  size_t length = out->count - length_at - DELTA_SKELETON_LENGTH_BYTES;
  if (length > INT_MAX) return delta_status_make(OUT_OF_MEMORY, "%s has more than 2 GiB without its weights", plan->name);
  for (size_t i = 0; i < DELTA_SKELETON_LENGTH_BYTES; ++i)
    out->items[length_at + i] = (uint8_t)((length >> (7 * i) & 0x7f) | (i + 1 < DELTA_SKELETON_LENGTH_BYTES ? 0x80 : 0));
  return DELTA_OK;
}

static delta_status_t copy_field(copier_t *copier, const ProtobufCMessageDescriptor *descriptor, const delta_wire_field_t *field,
                                 uint32_t depth, bool emits) {
  field_plan_t plan = {0};
  if (!plan_field(descriptor, field, &plan) || plan.treatment == DROP) return DELTA_OK;
  if (plan.inner) return copy_submessage(copier, &plan, field, depth, emits);
  if (plan.type == PROTOBUF_C_TYPE_STRING) {
    DELTA_RETURN_IF_ERROR(check_text(copier->source, &plan, field));
  } else if (plan.type != PROTOBUF_C_TYPE_BYTES && field->type == DELTA_WIRE_LENGTH) {
    DELTA_RETURN_IF_ERROR(check_packed(copier->source, &plan, field));
  }
  if (!emits) return DELTA_OK;
  if (plan.treatment == CUT && delta_wire_range_bytes(field->payload) > DELTA_INLINE_LIMIT_BYTES) return append_cut(copier, field);
  return append_range(copier, (delta_wire_range_t){field->begin, field->end});
}

static delta_status_t copy_message(copier_t *copier, const ProtobufCMessageDescriptor *descriptor, delta_wire_range_t range, uint32_t depth,
                                   bool emits) {
  for (uint64_t position = range.begin; position < range.end;) {
    delta_wire_field_t field = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(copier->source, &position, range.end, &field));
    DELTA_RETURN_IF_ERROR(copy_field(copier, descriptor, &field, depth, emits));
  }
  return DELTA_OK;
}

delta_status_t delta_skeleton_make(delta_wire_source_t *source, const ProtobufCMessageDescriptor *descriptor, delta_allocator_t allocator,
                                   delta_skeleton_t *out_skeleton) {
  delta_skeleton_t skeleton = {.allocator = allocator};
  copier_t copier = {.source = source, .out = &skeleton};
  delta_status_t status = copy_message(&copier, descriptor, (delta_wire_range_t){0, source->file->size_bytes}, 1, true);
  if (status) {
    delta_skeleton_deinit(&skeleton);
    return status;
  }
  *out_skeleton = skeleton;
  return DELTA_OK;
}
