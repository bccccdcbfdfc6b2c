// Copies external data files with new values.
#include "onnx/export_external.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "onnx/edits.h"
#include "onnx/external.h"

enum { MOVED_ALIGNMENT = 64, NAMES_TRIED = 1000 };

// A range of a data file that a tensor uses. Attributes of nodes have no initializer: they are never replaced, but may share bytes.
typedef struct used_range {
  delta_wire_range_t range;
  uint32_t initializer; // DELTA_EDIT_NO_TENSOR for an attribute
  bool is_shared;       // with another tensor
} used_range_t;

typedef DELTA_ARRAY(used_range_t) used_ranges_t;

typedef struct data_copier {
  const delta_model_t *model;            // Borrowed.
  const delta_export_options_t *options; // Borrowed.
  delta_export_external_t *external;     // Borrowed.
  const delta_file_t *source;            // Borrowed; the old data file.
  delta_file_writer_t *writer;           // Borrowed.
  uint64_t written_bytes;
} data_copier_t;

static delta_status_t add_range(delta_allocator_t allocator, const delta_model_tensor_t *tensor, uint32_t file, uint32_t initializer,
                                used_ranges_t *ranges) {
  if (tensor->storage != DELTA_STORAGE_EXTERNAL || tensor->external_file != file || tensor->size_bytes == 0) return DELTA_OK;
  used_range_t used = {.range = {tensor->offset_bytes, tensor->offset_bytes + tensor->size_bytes}, .initializer = initializer};
  return delta_array_push(allocator, ranges, &used);
}

static int compare_ranges(const void *left, const void *right) {
  const used_range_t *a = left, *b = right;
  if (a->range.begin != b->range.begin) return a->range.begin < b->range.begin ? -1 : 1;
  return a->initializer < b->initializer ? -1 : a->initializer > b->initializer;
}

// All ranges that tensors use in data file `file`, by offset, the shared ones marked.
static delta_status_t list_ranges(const delta_model_t *model, uint32_t file, used_ranges_t *ranges) {
  delta_allocator_t allocator = model->allocator;
  for (uint32_t i = 0; i < model->initializer_count; ++i)
    DELTA_RETURN_IF_ERROR(add_range(allocator, &model->initializers[i], file, i, ranges));
  for (uint32_t i = 0; i < model->node_count; ++i) {
    for (uint32_t k = 0; k < model->nodes[i].attribute_count; ++k) {
      const delta_model_tensor_t *tensor = model->nodes[i].attributes[k].tensor;
      if (tensor) DELTA_RETURN_IF_ERROR(add_range(allocator, tensor, file, DELTA_EDIT_NO_TENSOR, ranges));
    }
  }
  if (ranges->count == 0) return DELTA_OK;
  qsort(ranges->items, ranges->count, sizeof *ranges->items, compare_ranges);
  size_t widest = 0; // the range that reaches furthest so far
  for (size_t i = 1; i < ranges->count; ++i) {
    if (ranges->items[i].range.begin < ranges->items[widest].range.end) ranges->items[i].is_shared = ranges->items[widest].is_shared = true;
    if (ranges->items[i].range.end > ranges->items[widest].range.end) widest = i;
  }
  return DELTA_OK;
}

static delta_status_t write_bytes(data_copier_t *copier, const void *bytes, size_t count) {
  copier->written_bytes += count;
  return delta_file_writer_write(copier->writer, bytes, count);
}

static delta_status_t copy_until(data_copier_t *copier, uint64_t end) {
  delta_wire_range_t range = {copier->written_bytes, end};
  DELTA_RETURN_IF_ERROR(delta_edits_copy_range(copier->source, range, copier->external->allocator, copier->writer));
  copier->written_bytes = end;
  return DELTA_OK;
}

// Writes the new value of an initializer, if it has one, in its own place or, when it shares that, at the end.
static delta_status_t write_initializer(data_copier_t *copier, const used_range_t *used) {
  static const uint8_t zeros[MOVED_ALIGNMENT] = {0};
  const delta_model_tensor_t *tensor = &copier->model->initializers[used->initializer];
  delta_export_place_t *place = &copier->external->places[used->initializer];
  const void *value = NULL;
  DELTA_RETURN_IF_ERROR(copier->options->find_value(copier->options->self, tensor->name, tensor->size_bytes, &value));
  place->is_replaced = value != NULL;
  if (!value) return DELTA_OK;
  if (used->is_shared) {
    DELTA_RETURN_IF_ERROR(write_bytes(copier, zeros, (size_t)(-copier->written_bytes % MOVED_ALIGNMENT)));
    place->offset_bytes = copier->written_bytes;
  } else {
    DELTA_RETURN_IF_ERROR(copy_until(copier, used->range.begin));
  }
  return write_bytes(copier, value, tensor->size_bytes);
}

static delta_status_t copy_data(data_copier_t *copier, const used_ranges_t *ranges) {
  for (int pass = 0; pass < 2; ++pass) {
    bool moves = pass == 1;
    for (size_t i = 0; i < ranges->count; ++i) {
      const used_range_t *used = &ranges->items[i];
      if (used->range.end > copier->source->size_bytes)
        return delta_status_make(MALFORMED, "external data file '%.200s' is shorter than its tensors", copier->source->path);
      if (used->initializer == DELTA_EDIT_NO_TENSOR || used->is_shared != moves) continue;
      DELTA_RETURN_IF_ERROR(write_initializer(copier, used));
    }
    if (!moves) DELTA_RETURN_IF_ERROR(copy_until(copier, copier->source->size_bytes));
  }
  return DELTA_OK;
}

static delta_status_t copy_file(const delta_model_t *model, const delta_export_options_t *options, uint32_t file,
                                delta_export_external_t *external) {
  delta_external_place_t place = {.model_path = model->path, .external_folder = model->external_folder};
  delta_file_t source = {.descriptor = -1};
  used_ranges_t ranges = {0};
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_external_open(&place, model->external_files[file].location, external->allocator, &source));
  data_copier_t copier = {
      .model = model, .options = options, .external = external, .source = &source, .writer = &external->files[file].writer};
  DELTA_GOTO_IF_ERROR(status, list_ranges(model, file, &ranges), cleanup);
  DELTA_GOTO_IF_ERROR(status, copy_data(&copier, &ranges), cleanup);

cleanup:
  delta_array_deinit(external->allocator, &ranges);
  delta_file_close(&source);
  return status;
}

// Whether `path` is a symbolic link or anything else but a regular file: writing must not follow it out of the folder.
static bool is_irregular(const char *path) {
  struct stat facts;
  return lstat(path, &facts) == 0 && !S_ISREG(facts.st_mode);
}

// Opens the writer of data file `file`: "MODEL.data", "MODEL.data1" and so on beside the new model. Links are passed over, and names that the
// loaded model needs.
static delta_status_t open_writer(const delta_model_t *model, const delta_export_options_t *options, uint32_t *number,
                                  delta_export_external_t *external, delta_export_file_t *file) {
  for (int i = 0; i < NAMES_TRIED; ++i, ++*number) {
    char suffix[16] = "", *path = NULL;
    if (*number > 0) snprintf(suffix, sizeof suffix, "%" PRIu32, *number);
    DELTA_RETURN_IF_ERROR(delta_region_format(&external->region, &path, "%s.data%s", options->path, suffix));
    delta_status_t needed = delta_model_check_output(model, path);
    if (needed && delta_status_code(needed) != DELTA_STATUS_INVALID_ARGUMENT) return needed;
    const bool is_free = !needed && !is_irregular(path);
    delta_status_free(needed);
    if (!is_free) continue;
    const char *slash = strrchr(path, '/');
    file->location = slash ? slash + 1 : path;
    ++*number;
    return delta_file_writer_open(path, external->allocator, &file->writer);
  }
  return delta_status_make(IO, "'%s.data': this and all similar names are taken by the loaded model's data", options->path);
}

delta_status_t delta_export_external_write(const delta_model_t *model, const delta_export_options_t *options,
                                           delta_export_external_t *out_external) {
  delta_export_external_t external = {.allocator = model->allocator, .file_count = model->external_count};
  uint32_t number = 0;
  delta_status_t status = DELTA_OK;
  delta_region_init(&external.region, model->allocator);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(external.allocator, external.file_count, &external.files), failed);
  for (uint32_t i = 0; i < external.file_count; ++i) external.files[i].writer.descriptor = -1;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(external.allocator, model->initializer_count, &external.places), failed);
  for (uint32_t i = 0; i < model->initializer_count; ++i) external.places[i].offset_bytes = model->initializers[i].offset_bytes;
  for (uint32_t i = 0; i < external.file_count; ++i) {
    DELTA_GOTO_IF_ERROR(status, open_writer(model, options, &number, &external, &external.files[i]), failed);
    DELTA_GOTO_IF_ERROR(status, copy_file(model, options, i, &external), failed);
  }
  *out_external = external;
  return DELTA_OK;

failed:
  delta_export_external_deinit(&external);
  return status;
}

delta_status_t delta_export_external_commit(delta_export_external_t *external) {
  for (uint32_t i = 0; i < external->file_count; ++i) DELTA_RETURN_IF_ERROR(delta_file_writer_commit(&external->files[i].writer));
  return DELTA_OK;
}

void delta_export_external_deinit(delta_export_external_t *external) {
  if (!external->allocator.release) return;
  for (uint32_t i = 0; external->files && i < external->file_count; ++i) delta_file_writer_close(&external->files[i].writer);
  delta_release(external->allocator, external->files);
  delta_release(external->allocator, external->places);
  delta_region_deinit(&external->region);
  *external = (delta_export_external_t){0};
}
