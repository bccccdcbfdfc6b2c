// Loads a model: file -> skeleton -> messages -> draft -> inlined draft -> model; and reads tensors by their position.
#include "onnx/model.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "onnx/assemble.h"
#include "onnx/external.h"
#include "onnx/file_hash.h"
#include "onnx/functions.h"
#include "onnx/tensor_data.h"
#include "onnx/unpack.h"

// Keeps the data files that tensors refer to.
static delta_status_t keep_external_files(delta_model_t *model, const delta_tensor_context_t *context) {
  DELTA_RETURN_IF_ERROR(
      delta_region_allocate(&model->region, context->files.count, sizeof *model->external_files, (void **)&model->external_files));
  model->external_count = (uint32_t)context->files.count;
  for (size_t i = 0; i < context->files.count; ++i) {
    const delta_external_file_t *file = &context->files.items[i];
    model->external_files[i] = (delta_model_external_t){.location = file->location, .exists = file->exists};
  }
  return DELTA_OK;
}

// Reads the open file into `model`.
static delta_status_t read_model(delta_model_t *model, const delta_file_t *file, const delta_model_options_t *options) {
  delta_tensor_context_t context = {0};
  delta_draft_nodes_t nodes = {0};
  delta_draft_t draft = {0};
  delta_external_place_t place = {.model_path = model->path, .external_folder = model->external_folder};
  delta_status_t status = DELTA_OK;
  if (file->size_bytes == 0) return delta_status_make(MALFORMED, "the file is empty");
  delta_tensor_context_init(&context, model->allocator, &model->region, file, &place);
  DELTA_GOTO_IF_ERROR(status, delta_file_hash(file, model->allocator, model->sha256), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_unpack_model(&context, options->memory_limit_bytes, &draft), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_assemble_check_header(&draft, options->log), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_functions_inline(&draft, model->allocator, &model->region, &nodes), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_assemble_model(model, &draft, &nodes, options->log), cleanup);
  DELTA_GOTO_IF_ERROR(status, keep_external_files(model, &context), cleanup);

cleanup:
  delta_array_deinit(model->allocator, &nodes);
  delta_tensor_context_deinit(&context);
  return status;
}

static delta_status_t copy_options(delta_model_t *model, const delta_model_options_t *options) {
  char *text = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&model->region, options->path, strlen(options->path), &text));
  model->path = text;
  if (!options->external_folder) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&model->region, options->external_folder, strlen(options->external_folder), &text));
  model->external_folder = text;
  return DELTA_OK;
}

delta_status_t delta_model_load(const delta_model_options_t *options, delta_allocator_t allocator, delta_model_t **out_model) {
  delta_file_t file = {.descriptor = -1};
  delta_model_t *model = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_external_check_folder(options->external_folder));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &model));
  model->allocator = allocator;
  delta_region_init(&model->region, allocator);
  delta_map_init(&model->value_by_name, allocator);
  DELTA_GOTO_IF_ERROR(status, copy_options(model, options), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_file_open(options->path, allocator, &file), cleanup);
  model->file_size_bytes = file.size_bytes;
  DELTA_GOTO_IF_ERROR(status, read_model(model, &file, options), cleanup);
  *out_model = model;
  model = NULL;

cleanup:
  // A failed open names the path itself.
  if (status && file.descriptor >= 0) status = delta_status_annotate(status, "%s", options->path);
  delta_file_close(&file);
  delta_model_free(model);
  return status;
}

void delta_model_free(delta_model_t *model) {
  if (!model) return;
  delta_allocator_t allocator = model->allocator;
  delta_map_deinit(&model->value_by_name);
  delta_region_deinit(&model->region);
  delta_release(allocator, model);
}

// Opens the file that holds a tensor's elements.
static delta_status_t open_storage(const delta_model_t *model, const delta_model_tensor_t *tensor, delta_file_t *out_file) {
  if (tensor->storage == DELTA_STORAGE_EXTERNAL) {
    delta_external_place_t place = {.model_path = model->path, .external_folder = model->external_folder};
    return delta_external_open(&place, tensor->location, model->allocator, out_file);
  }
  DELTA_RETURN_IF_ERROR(delta_file_open(model->path, model->allocator, out_file));
  if (out_file->size_bytes == model->file_size_bytes) return DELTA_OK;
  delta_file_close(out_file);
  return delta_status_make(MISMATCH, "'%s' has changed since it was loaded", model->path);
}

static delta_status_t read_stored(const delta_model_t *model, const delta_model_tensor_t *tensor, void *buffer) {
  delta_file_t file = {.descriptor = -1};
  DELTA_RETURN_IF_ERROR(open_storage(model, tensor, &file));
  delta_status_t status = DELTA_OK;
  if (tensor->offset_bytes > file.size_bytes || tensor->size_bytes > file.size_bytes - tensor->offset_bytes) {
    status = delta_status_make(MALFORMED, "its data (%zu bytes at %" PRIu64 ") reaches beyond the end of '%s' (%" PRIu64 " bytes)",
                               tensor->size_bytes, tensor->offset_bytes, file.path, file.size_bytes);
  } else {
    status = delta_file_read(&file, tensor->offset_bytes, buffer, tensor->size_bytes);
  }
  delta_file_close(&file);
  return status;
}

delta_status_t delta_model_read_tensor(const delta_model_t *model, const delta_model_tensor_t *tensor, void *buffer, size_t size_bytes) {
  if (size_bytes != tensor->size_bytes)
    return delta_status_make(INVALID_ARGUMENT, "tensor '%.200s' has %zu bytes, the buffer %zu", tensor->name, tensor->size_bytes,
                             size_bytes);
  if (size_bytes == 0) return DELTA_OK;
  if (tensor->storage == DELTA_STORAGE_INLINE) {
    memcpy(buffer, tensor->data, size_bytes);
    return DELTA_OK;
  }
  delta_status_t status = read_stored(model, tensor, buffer);
  return status ? delta_status_annotate(status, "tensor '%.200s'", tensor->name) : DELTA_OK;
}

bool delta_model_tensor_is_available(const delta_model_t *model, const delta_model_tensor_t *tensor) {
  if (tensor->storage != DELTA_STORAGE_EXTERNAL) return true;
  delta_file_t file = {.descriptor = -1};
  delta_status_t status = open_storage(model, tensor, &file);
  bool is_available = !status && tensor->offset_bytes <= file.size_bytes && tensor->size_bytes <= file.size_bytes - tensor->offset_bytes;
  if (!status) delta_file_close(&file);
  delta_status_free(status);
  return is_available;
}

delta_value_id_t delta_model_find_value(const delta_model_t *model, const char *name) {
  uint32_t index = delta_map_find(&model->value_by_name, name);
  return index == DELTA_MAP_NONE ? DELTA_VALUE_NONE : (delta_value_id_t){index};
}

const delta_attribute_t *delta_model_node_attribute(const delta_model_node_t *node, const char *name) {
  for (uint32_t i = 0; i < node->attribute_count; ++i) {
    if (strcmp(node->attributes[i].name, name) == 0) return &node->attributes[i];
  }
  return NULL;
}

delta_status_t delta_model_check_output(const delta_model_t *model, const char *path) {
  if (delta_file_is_same(path, model->path))
    return delta_status_make(INVALID_ARGUMENT, "cannot write '%s': it is the model itself; give another path", path);
  const delta_external_place_t place = {.model_path = model->path, .external_folder = model->external_folder};
  for (uint32_t i = 0; i < model->external_count; ++i) {
    delta_file_t file = {.descriptor = -1};
    delta_status_t status = delta_external_open(&place, model->external_files[i].location, model->allocator, &file);
    const bool is_data = !status && delta_file_is_at(&file, path);
    if (!status) delta_file_close(&file);
    if (delta_status_code(status) == DELTA_STATUS_OUT_OF_MEMORY) return status;
    delta_status_free(status); // data that cannot be read cannot be written over
    if (is_data) {
      return delta_status_make(INVALID_ARGUMENT, "cannot write '%s': it holds data of the model '%s'; give another path", path,
                               model->path);
    }
  }
  return DELTA_OK;
}
