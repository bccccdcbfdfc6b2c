#include "runtime/safetensors.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/checked.h"
#include "base/json.h"

// The format's own limit on headers.
enum { LENGTH_BYTES = 8, HEADER_LIMIT_BYTES = 100 * 1000 * 1000, DATA_ALIGNMENT_BYTES = 8 };

static const char metadata_key[] = "__metadata__";

// X(dtype, the format's name)
#define STORED_TYPES(X) \
  X(FLOAT32, "F32")     \
  X(FLOAT64, "F64")     \
  X(FLOAT16, "F16")     \
  X(BFLOAT16, "BF16")   \
  X(INT32, "I32")       \
  X(INT64, "I64")       \
  X(BOOL, "BOOL")       \
  X(UINT8, "U8")
static const char *const type_names[DELTA_DTYPE_COUNT] = {
#define TYPE_NAME(id, name) [DELTA_DTYPE_##id] = name,
    STORED_TYPES(TYPE_NAME)
#undef TYPE_NAME
};

static delta_status_t parse_type(const char *name, delta_dtype_t *out_dtype) {
  for (int i = 0; i < DELTA_DTYPE_COUNT; ++i) {
    if (strcmp(type_names[i], name) != 0) continue;
    *out_dtype = (delta_dtype_t)i;
    return DELTA_OK;
  }
  return delta_status_make(UNSUPPORTED, "type '%s'; wanted one of F32, F64, F16, BF16, I32, I64, BOOL, U8", name);
}

// --- reading -----------------------------------------------------------------------------------------------------------------------------------

static delta_status_t read_shape(const delta_json_document_t *document, const delta_json_value_t *value, delta_shape_t *out_shape) {
  const delta_json_value_t *dims = NULL;
  size_t rank = 0;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(document, value, "shape", &dims, &rank));
  if (rank > DELTA_MAX_RANK) return delta_status_make(UNSUPPORTED, "a rank of %zu; up to %d is supported", rank, DELTA_MAX_RANK);
  *out_shape = (delta_shape_t){.rank = (int32_t)rank};
  int64_t *dim = out_shape->dims;
  for (const delta_json_value_t *d = delta_json_first(dims); d; d = delta_json_next(d)) {
    DELTA_RETURN_IF_ERROR(delta_json_as_int64(document, d, "shape", 0, INT64_C(1) << 52, dim++));
  }
  return DELTA_OK;
}

// The place as the file has it, counted from the end of the header.
static delta_status_t read_place(const delta_json_document_t *document, const delta_json_value_t *value,
                                 delta_safetensors_tensor_t *tensor) {
  const delta_json_value_t *offsets = NULL;
  size_t count = 0;
  int64_t begin = 0, end = 0;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(document, value, "data_offsets", &offsets, &count));
  if (count != 2) return delta_status_make(MALFORMED, "data_offsets has %zu numbers; wanted begin and end", count);
  const delta_json_value_t *first = delta_json_first(offsets);
  DELTA_RETURN_IF_ERROR(delta_json_as_int64(document, first, "data_offsets", 0, INT64_C(1) << 52, &begin));
  DELTA_RETURN_IF_ERROR(delta_json_as_int64(document, delta_json_next(first), "data_offsets", 0, INT64_C(1) << 52, &end));
  const int64_t wanted_bytes = delta_shape_count(&tensor->shape) * (int64_t)delta_dtype_bytes(tensor->dtype);
  if (end - begin != wanted_bytes) {
    return delta_status_make(MALFORMED, "its place has %lld bytes, its type and shape want %lld", (long long)(end - begin),
                             (long long)wanted_bytes);
  }
  tensor->offset_bytes = (uint64_t)begin;
  tensor->size_bytes = (uint64_t)wanted_bytes;
  return DELTA_OK;
}

static delta_status_t read_tensor(const delta_json_document_t *document, const delta_json_value_t *value,
                                  delta_safetensors_tensor_t *tensor) {
  const char *type = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_string(document, value, "dtype", &type));
  DELTA_RETURN_IF_ERROR(parse_type(type, &tensor->dtype));
  DELTA_RETURN_IF_ERROR(read_shape(document, value, &tensor->shape));
  DELTA_RETURN_IF_ERROR(delta_shape_validate(&tensor->shape, delta_dtype_bytes(tensor->dtype), "shape"));
  return read_place(document, value, tensor);
}

static uint32_t count_members(const delta_json_value_t *object) {
  uint32_t count = 0;
  for (const delta_json_value_t *m = delta_json_first(object); m; m = delta_json_next(m)) ++count;
  return count;
}

static delta_status_t read_texts(delta_safetensors_t *file, const delta_json_document_t *document, const delta_json_value_t *texts) {
  delta_safetensors_header_t *header = &file->header;
  if (!delta_json_is_object(texts)) return delta_status_make(MALFORMED, "the header's %s is not an object", metadata_key);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&file->region, count_members(texts), &header->texts));
  for (const delta_json_value_t *m = delta_json_first(texts); m; m = delta_json_next(m)) {
    const char *value = NULL;
    char *key = NULL, *copy = NULL;
    DELTA_RETURN_IF_ERROR(delta_json_as_string(document, m, metadata_key, &value));
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&file->region, delta_json_key(m), strlen(delta_json_key(m)), &key));
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&file->region, value, strlen(value), &copy));
    DELTA_RETURN_IF_ERROR(delta_map_set(&file->texts_by_key, key, header->text_count));
    header->texts[header->text_count++] = (delta_safetensors_text_t){key, copy};
  }
  return DELTA_OK;
}

static delta_status_t read_members(delta_safetensors_t *file, const delta_json_document_t *document) {
  delta_safetensors_header_t *header = &file->header;
  const delta_json_value_t *root = delta_json_root(document);
  if (!delta_json_is_object(root)) return delta_status_make(MALFORMED, "the header is not a JSON object");
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&file->region, count_members(root), &header->tensors));
  for (const delta_json_value_t *m = delta_json_first(root); m; m = delta_json_next(m)) {
    const char *key = delta_json_key(m);
    if (strcmp(key, metadata_key) == 0) {
      DELTA_RETURN_IF_ERROR(read_texts(file, document, m));
      continue;
    }
    char *name = NULL;
    delta_safetensors_tensor_t *tensor = &header->tensors[header->tensor_count];
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&file->region, key, strlen(key), &name));
    tensor->name = name;
    DELTA_RETURN_IF_ERROR(delta_status_annotate(read_tensor(document, m, tensor), "tensor '%s'", name));
    DELTA_RETURN_IF_ERROR(delta_map_set(&file->tensors_by_name, name, header->tensor_count++));
  }
  return DELTA_OK;
}

// Tensors may stand in the header in any order; their places have to follow each other and to fill the rest of the file.
static delta_status_t check_places(delta_safetensors_t *file, uint64_t data_offset_bytes) {
  delta_map_t by_begin;
  delta_map_init(&by_begin, file->file.allocator);
  delta_status_t status = DELTA_OK;
  uint64_t end_bytes = 0, data_bytes = file->file.size_bytes - data_offset_bytes;
  uint32_t placed = 0;
  char key[32];
  for (uint32_t i = 0; i < file->header.tensor_count; ++i) {
    delta_safetensors_tensor_t *tensor = &file->header.tensors[i];
    if (tensor->size_bytes == 0) {
      ++placed;
    } else {
      snprintf(key, sizeof key, "%llu", (unsigned long long)tensor->offset_bytes);
      DELTA_GOTO_IF_ERROR(status, delta_map_set(&by_begin, key, i), cleanup);
    }
  }
  for (; placed < file->header.tensor_count; ++placed) {
    snprintf(key, sizeof key, "%llu", (unsigned long long)end_bytes);
    const uint32_t next = delta_map_find(&by_begin, key);
    if (next == DELTA_MAP_NONE) {
      status = delta_status_make(MALFORMED, "no tensor begins at byte %s of the values: places overlap or have a gap", key);
      goto cleanup;
    }
    end_bytes += file->header.tensors[next].size_bytes;
  }
  if (end_bytes != data_bytes) {
    status = delta_status_make(MALFORMED, "the tensors have %llu bytes of values, the file %llu: it is truncated or damaged",
                               (unsigned long long)end_bytes, (unsigned long long)data_bytes);
    goto cleanup;
  }
  for (uint32_t i = 0; i < file->header.tensor_count; ++i) file->header.tensors[i].offset_bytes += data_offset_bytes;
cleanup:
  delta_map_deinit(&by_begin);
  return status;
}

static delta_status_t read_header(delta_safetensors_t *file) {
  uint8_t length[LENGTH_BYTES];
  uint64_t header_bytes = 0;
  DELTA_RETURN_IF_ERROR(delta_file_read(&file->file, 0, length, sizeof length));
  for (int i = 0; i < LENGTH_BYTES; ++i) header_bytes |= (uint64_t)length[i] << 8 * i;
  if (header_bytes > HEADER_LIMIT_BYTES || header_bytes > file->file.size_bytes - LENGTH_BYTES) {
    return delta_status_make(MALFORMED, "a header of %llu bytes in a file of %llu: it is no safetensors file, or damaged",
                             (unsigned long long)header_bytes, (unsigned long long)file->file.size_bytes);
  }
  char *text = NULL;
  delta_json_document_t *document = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(file->file.allocator, header_bytes + 1, &text));
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_file_read(&file->file, LENGTH_BYTES, text, header_bytes), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_json_parse(text, header_bytes, "the header", file->file.allocator, &document), cleanup);
  DELTA_GOTO_IF_ERROR(status, read_members(file, document), cleanup);
  status = check_places(file, LENGTH_BYTES + header_bytes);
cleanup:
  delta_json_free(document);
  delta_release(file->file.allocator, text);
  return status;
}

delta_status_t delta_safetensors_open(const char *path, delta_allocator_t allocator, delta_safetensors_t *out_file) {
  *out_file = (delta_safetensors_t){.file.descriptor = -1};
  delta_region_init(&out_file->region, allocator);
  delta_map_init(&out_file->tensors_by_name, allocator);
  delta_map_init(&out_file->texts_by_key, allocator);
  delta_status_t status = delta_file_open(path, allocator, &out_file->file);
  if (!status) status = delta_status_annotate(read_header(out_file), "'%s'", path);
  if (status) delta_safetensors_close(out_file);
  return status;
}

void delta_safetensors_close(delta_safetensors_t *file) {
  delta_file_close(&file->file);
  delta_map_deinit(&file->tensors_by_name);
  delta_map_deinit(&file->texts_by_key);
  delta_region_deinit(&file->region);
  *file = (delta_safetensors_t){.file.descriptor = -1};
}

const delta_safetensors_tensor_t *delta_safetensors_find(const delta_safetensors_t *file, const char *name) {
  const uint32_t index = delta_map_find(&file->tensors_by_name, name);
  return index == DELTA_MAP_NONE ? NULL : &file->header.tensors[index];
}

const char *delta_safetensors_text(const delta_safetensors_t *file, const char *key) {
  const uint32_t index = delta_map_find(&file->texts_by_key, key);
  return index == DELTA_MAP_NONE ? NULL : file->header.texts[index].value;
}

// --- writing -----------------------------------------------------------------------------------------------------------------------------------

static delta_status_t place_tensors(delta_safetensors_header_t *header, uint64_t *out_data_bytes) {
  *out_data_bytes = 0;
  for (uint32_t i = 0; i < header->tensor_count; ++i) {
    delta_safetensors_tensor_t *tensor = &header->tensors[i];
    tensor->offset_bytes = *out_data_bytes;
    tensor->size_bytes = (uint64_t)delta_shape_count(&tensor->shape) * delta_dtype_bytes(tensor->dtype);
    if (__builtin_add_overflow(*out_data_bytes, tensor->size_bytes, out_data_bytes))
      return delta_status_make(UNSUPPORTED, "tensor '%s': more values than a file can have", tensor->name);
  }
  return DELTA_OK;
}

static void write_tensor(delta_json_writer_t *json, const delta_safetensors_tensor_t *tensor) {
  delta_json_begin_object(json, tensor->name);
  delta_json_write_string(json, "dtype", type_names[tensor->dtype]);
  delta_json_begin_array(json, "shape");
  for (int32_t d = 0; d < tensor->shape.rank; ++d) delta_json_write_int64(json, NULL, tensor->shape.dims[d]);
  delta_json_end_array(json);
  delta_json_begin_array(json, "data_offsets");
  delta_json_write_int64(json, NULL, (int64_t)tensor->offset_bytes);
  delta_json_write_int64(json, NULL, (int64_t)(tensor->offset_bytes + tensor->size_bytes));
  delta_json_end_array(json);
  delta_json_end_object(json);
}

// The header with its length in front, padded with spaces so that the values are aligned.
static delta_status_t make_header(const delta_safetensors_header_t *header, delta_text_t *out_text) {
  delta_json_writer_t json;
  DELTA_RETURN_IF_ERROR(delta_text_append(out_text, "%*s", LENGTH_BYTES, ""));
  delta_json_writer_init(&json, out_text, true);
  delta_json_begin_object(&json, NULL);
  delta_json_begin_object(&json, metadata_key);
  for (uint32_t i = 0; i < header->text_count; ++i) delta_json_write_string(&json, header->texts[i].key, header->texts[i].value);
  delta_json_end_object(&json);
  for (uint32_t i = 0; i < header->tensor_count; ++i) write_tensor(&json, &header->tensors[i]);
  delta_json_end_object(&json);
  DELTA_RETURN_IF_ERROR(delta_json_writer_finish(&json));
  while (out_text->count % DATA_ALIGNMENT_BYTES) DELTA_RETURN_IF_ERROR(delta_text_append(out_text, " "));
  const uint64_t header_bytes = out_text->count - LENGTH_BYTES;
  for (int i = 0; i < LENGTH_BYTES; ++i) out_text->items[i] = (char)(header_bytes >> 8 * i);
  return DELTA_OK;
}

delta_status_t delta_safetensors_writer_open(const char *path, delta_safetensors_header_t *header, delta_allocator_t allocator,
                                             delta_safetensors_writer_t *out_writer) {
  *out_writer = (delta_safetensors_writer_t){.file.descriptor = -1};
  DELTA_RETURN_IF_ERROR(place_tensors(header, &out_writer->data_bytes));
  delta_text_t text;
  delta_text_init(&text, allocator);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, make_header(header, &text), cleanup);
  out_writer->header_bytes = text.count;
  DELTA_GOTO_IF_ERROR(status, delta_file_writer_open(path, allocator, &out_writer->file), cleanup);
  status = delta_file_writer_write(&out_writer->file, text.items, text.count);
cleanup:
  if (status) delta_safetensors_writer_close(out_writer);
  delta_text_deinit(&text);
  return status;
}

delta_status_t delta_safetensors_writer_append(delta_safetensors_writer_t *writer, const void *data, size_t size_bytes) {
  writer->written_bytes += size_bytes;
  return delta_file_writer_write(&writer->file, data, size_bytes);
}

delta_status_t delta_safetensors_writer_commit(delta_safetensors_writer_t *writer, const delta_safetensors_header_t *header) {
  if (writer->written_bytes != writer->data_bytes) {
    return delta_status_make(INTERNAL, "'%s': %llu bytes of values were written, %llu are wanted", writer->file.path,
                             (unsigned long long)writer->written_bytes, (unsigned long long)writer->data_bytes);
  }
  delta_text_t text;
  delta_text_init(&text, writer->file.allocator);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, make_header(header, &text), cleanup);
  if (text.count != writer->header_bytes) {
    status = delta_status_make(INTERNAL, "'%s': the header changed its length", writer->file.path);
    goto cleanup;
  }
  DELTA_GOTO_IF_ERROR(status, delta_file_writer_rewrite(&writer->file, 0, text.items, text.count), cleanup);
  status = delta_file_writer_commit(&writer->file);
cleanup:
  delta_text_deinit(&text);
  return status;
}

void delta_safetensors_writer_close(delta_safetensors_writer_t *writer) { delta_file_writer_close(&writer->file); }
