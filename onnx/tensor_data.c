// Reads the elements of TensorProto messages. ONNX stores them in one of three ways: raw little-endian bytes, a typed field (narrow types sit
// in int32_data, one element in each), or a range of an external file.
#include "onnx/tensor_data.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"

// Numbers of TensorProto's data fields, as cuts name them.
enum { FIELD_FLOAT_DATA = 4, FIELD_RAW_DATA = 9, FIELD_DOUBLE_DATA = 10 };

void delta_tensor_context_init(delta_tensor_context_t *context, delta_allocator_t allocator, delta_region_t *region,
                               const delta_file_t *file, const delta_external_place_t *place) {
  *context = (delta_tensor_context_t){.allocator = allocator, .region = region, .file = file, .place = *place};
  delta_map_init(&context->file_by_location, allocator);
}

void delta_tensor_context_deinit(delta_tensor_context_t *context) {
  delta_map_deinit(&context->file_by_location);
  if (context->files.items) delta_array_deinit(context->allocator, &context->files);
}

static delta_status_t read_shape(const delta_tensor_fields_t *fields, delta_model_tensor_t *tensor) {
  if (!delta_dtype_from_onnx(fields->data_type, &tensor->dtype)) {
    if (fields->data_type <= 0) return delta_status_make(MALFORMED, "its element type %" PRId32 " is undefined", fields->data_type);
    return delta_status_make(UNSUPPORTED, "its element type (TensorProto.DataType %" PRId32 ") is not one Delta stores", fields->data_type);
  }
  if (fields->dim_count > DELTA_MAX_RANK)
    return delta_status_make(UNSUPPORTED, "it has %zu dimensions; at most %d are supported", fields->dim_count, DELTA_MAX_RANK);
  tensor->shape.rank = (int32_t)fields->dim_count;
  for (size_t i = 0; i < fields->dim_count; ++i) tensor->shape.dims[i] = fields->dims[i];
  size_t element_bytes = delta_dtype_bytes(tensor->dtype);
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&tensor->shape, element_bytes, fields->name));
  tensor->size_bytes = (size_t)delta_shape_count(&tensor->shape) * element_bytes;
  return DELTA_OK;
}

// The data file called `location`: opened once by the path rules, to be measured.
static delta_status_t find_external_file(delta_tensor_context_t *context, const char *location, uint32_t *out_index) {
  uint32_t index = delta_map_find(&context->file_by_location, location);
  if (index == DELTA_MAP_NONE) {
    delta_external_file_t entry = {.exists = true};
    delta_file_t file = {.descriptor = -1};
    delta_status_t status = delta_external_open(&context->place, location, context->allocator, &file);
    entry.size_bytes = file.size_bytes;
    if (!status) delta_file_close(&file);
    if (delta_status_code(status) == DELTA_STATUS_NOT_FOUND) {
      delta_status_free(status);
      status = DELTA_OK;
      entry.exists = false;
    }
    DELTA_RETURN_IF_ERROR(status);
    char *text = NULL;
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(context->region, location, strlen(location), &text));
    entry.location = text;
    index = (uint32_t)context->files.count;
    DELTA_RETURN_IF_ERROR(delta_array_push(context->allocator, &context->files, &entry));
    DELTA_RETURN_IF_ERROR(delta_map_set(&context->file_by_location, location, index));
  }
  *out_index = index;
  return DELTA_OK;
}

static delta_status_t read_external(delta_tensor_context_t *context, const delta_tensor_fields_t *fields, delta_model_tensor_t *tensor) {
  delta_external_info_t info = {0};
  DELTA_RETURN_IF_ERROR(delta_external_parse(fields->external, fields->external_count, &info));
  if (info.has_length && info.length_bytes != tensor->size_bytes)
    return delta_status_make(MALFORMED, "its external data has %" PRIu64 " bytes, its shape wants %zu", info.length_bytes,
                             tensor->size_bytes);
  DELTA_RETURN_IF_ERROR(find_external_file(context, info.location, &tensor->external_file));
  const delta_external_file_t *file = &context->files.items[tensor->external_file];
  if (file->exists && (info.offset_bytes > file->size_bytes || tensor->size_bytes > file->size_bytes - info.offset_bytes))
    return delta_status_make(MALFORMED, "its external data (%zu bytes at %" PRIu64 ") reaches beyond the end of '%s' (%" PRIu64 " bytes)",
                             tensor->size_bytes, info.offset_bytes, file->location, file->size_bytes);
  tensor->storage = DELTA_STORAGE_EXTERNAL;
  tensor->offset_bytes = info.offset_bytes;
  tensor->location = file->location;
  return DELTA_OK;
}

// The typed field that holds elements of `dtype`, with its name and element count.
typedef struct typed_field {
  const char *name;
  size_t count;
} typed_field_t;

static typed_field_t typed_field_of(const delta_tensor_fields_t *fields, delta_dtype_t dtype) {
  switch (dtype) {
    case DELTA_DTYPE_FLOAT32:
      return (typed_field_t){"float_data", fields->float_count};
    case DELTA_DTYPE_FLOAT64:
      return (typed_field_t){"double_data", fields->double_count};
    case DELTA_DTYPE_INT64:
      return (typed_field_t){"int64_data", fields->int64_count};
    default:
      return (typed_field_t){"int32_data", fields->int32_count};
  }
}

// Narrow types take the low bits of one int32 each.
static delta_status_t decode_int32(const int32_t *values, size_t count, delta_dtype_t dtype, void *out_elements) {
  for (size_t i = 0; i < count; ++i) {
    int32_t value = values[i];
    bool fits = true;
    switch (dtype) {
      case DELTA_DTYPE_INT32:
        ((int32_t *)out_elements)[i] = value;
        break;
      case DELTA_DTYPE_BOOL:
        ((uint8_t *)out_elements)[i] = value != 0;
        break;
      case DELTA_DTYPE_UINT8:
        fits = value >= 0 && value <= UINT8_MAX;
        ((uint8_t *)out_elements)[i] = (uint8_t)value;
        break;
      default:
        fits = value >= 0 && value <= UINT16_MAX;
        ((uint16_t *)out_elements)[i] = (uint16_t)value;
        break;
    }
    if (!fits) return delta_status_make(MALFORMED, "its int32_data holds %" PRId32 ", which is no %s", value, delta_dtype_name(dtype));
  }
  return DELTA_OK;
}

static delta_status_t decode_typed(const delta_tensor_fields_t *fields, const delta_model_tensor_t *tensor, void *out_elements) {
  switch (tensor->dtype) {
    case DELTA_DTYPE_FLOAT32:
      memcpy(out_elements, fields->floats, tensor->size_bytes);
      return DELTA_OK;
    case DELTA_DTYPE_FLOAT64:
      memcpy(out_elements, fields->doubles, tensor->size_bytes);
      return DELTA_OK;
    case DELTA_DTYPE_INT64:
      memcpy(out_elements, fields->int64s, tensor->size_bytes);
      return DELTA_OK;
    default:
      return decode_int32(fields->int32s, (size_t)delta_shape_count(&tensor->shape), tensor->dtype, out_elements);
  }
}

static delta_status_t size_error(const char *field, uint64_t bytes, const delta_model_tensor_t *tensor) {
  char shape[DELTA_SHAPE_TEXT_BYTES];
  return delta_status_make(MALFORMED, "its %s holds %" PRIu64 " bytes of %s, its shape %s wants %zu", field, bytes,
                           delta_dtype_name(tensor->dtype), delta_shape_text(&tensor->shape, shape), tensor->size_bytes);
}

// Elements that were cut out of the message: they stay in the file, or are read into the region.
static delta_status_t read_cut(delta_tensor_context_t *context, const delta_tensor_fields_t *fields, bool always_inline,
                               delta_model_tensor_t *tensor) {
  const delta_skeleton_cut_t *cut = &fields->cuts[fields->cut_count - 1];
  bool is_raw = cut->field_number == FIELD_RAW_DATA;
  delta_dtype_t own_type = cut->field_number == FIELD_FLOAT_DATA ? DELTA_DTYPE_FLOAT32 : DELTA_DTYPE_FLOAT64;
  const char *field = is_raw ? "raw_data" : own_type == DELTA_DTYPE_FLOAT32 ? "float_data" : "double_data";
  if (!is_raw && tensor->dtype != own_type)
    return delta_status_make(MALFORMED, "its elements are %s, but stand in %s", delta_dtype_name(tensor->dtype), field);
  // A repeated raw_data replaces the one before; the pieces of a repeated field would have to be joined.
  if (!is_raw && (fields->cut_count > 1 || fields->float_count + fields->double_count > 0))
    return delta_status_make(UNSUPPORTED, "its %s is stored in several pieces; save the model again with another tool", field);
  if (delta_wire_range_bytes(cut->range) != tensor->size_bytes) return size_error(field, delta_wire_range_bytes(cut->range), tensor);
  tensor->storage = DELTA_STORAGE_MODEL;
  tensor->offset_bytes = cut->range.begin;
  if (!always_inline) return DELTA_OK;

  void *elements = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_allocate(context->region, tensor->size_bytes, 1, &elements));
  DELTA_RETURN_IF_ERROR(delta_file_read(context->file, cut->range.begin, elements, tensor->size_bytes));
  tensor->storage = DELTA_STORAGE_INLINE;
  tensor->data = elements;
  return DELTA_OK;
}

static delta_status_t read_inline(delta_tensor_context_t *context, const delta_tensor_fields_t *fields, delta_model_tensor_t *tensor) {
  typed_field_t typed = typed_field_of(fields, tensor->dtype);
  size_t count = (size_t)delta_shape_count(&tensor->shape);
  if (fields->has_raw && fields->raw_bytes != tensor->size_bytes) return size_error("raw_data", fields->raw_bytes, tensor);
  if (!fields->has_raw && typed.count != count) {
    char shape[DELTA_SHAPE_TEXT_BYTES];
    return delta_status_make(MALFORMED, "its %s holds %zu elements, its shape %s wants %zu of %s", typed.name, typed.count,
                             delta_shape_text(&tensor->shape, shape), count, delta_dtype_name(tensor->dtype));
  }
  void *elements = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_allocate(context->region, tensor->size_bytes, 1, &elements));
  tensor->storage = DELTA_STORAGE_INLINE;
  tensor->data = elements;
  if (count == 0) return DELTA_OK;
  if (!fields->has_raw) return decode_typed(fields, tensor, elements);
  memcpy(elements, fields->raw, tensor->size_bytes);
  return DELTA_OK;
}

// At most one of the data fields may be used.
static delta_status_t check_single_storage(const delta_tensor_fields_t *fields) {
  bool has_raw = fields->has_raw, has_float = fields->float_count > 0, has_double = fields->double_count > 0;
  for (size_t i = 0; i < fields->cut_count; ++i) {
    has_raw |= fields->cuts[i].field_number == FIELD_RAW_DATA;
    has_float |= fields->cuts[i].field_number == FIELD_FLOAT_DATA;
    has_double |= fields->cuts[i].field_number == FIELD_DOUBLE_DATA;
  }
  int storages = (fields->is_external ? 1 : 0) + (has_raw ? 1 : 0) + (has_float ? 1 : 0) + (has_double ? 1 : 0) +
                 (fields->int32_count > 0 ? 1 : 0) + (fields->int64_count > 0 ? 1 : 0) + (fields->uint64_count > 0 ? 1 : 0) +
                 (fields->string_count > 0 ? 1 : 0);
  if (storages > 1) return delta_status_make(MALFORMED, "its elements are given in more than one data field");
  return DELTA_OK;
}

delta_status_t delta_tensor_data_read(delta_tensor_context_t *context, const delta_tensor_fields_t *fields, bool always_inline,
                                      delta_model_tensor_t *out_tensor) {
  delta_model_tensor_t tensor = {0};
  if (fields->is_segment) return delta_status_make(UNSUPPORTED, "it is a segment of a larger tensor");
  DELTA_RETURN_IF_ERROR(read_shape(fields, &tensor));
  DELTA_RETURN_IF_ERROR(check_single_storage(fields));
  char *name = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(context->region, fields->name, strlen(fields->name), &name));
  tensor.name = name;
  if (fields->is_external) {
    DELTA_RETURN_IF_ERROR(read_external(context, fields, &tensor));
  } else if (fields->cut_count > 0) {
    DELTA_RETURN_IF_ERROR(read_cut(context, fields, always_inline, &tensor));
  } else {
    DELTA_RETURN_IF_ERROR(read_inline(context, fields, &tensor));
  }
  *out_tensor = tensor;
  return DELTA_OK;
}
