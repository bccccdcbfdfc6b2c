// IDX: header parser, and the source idx:IMAGES,LABELS.
#include "runtime/data/idx.h"

#include <string.h>

#include "base/log.h"
#include "runtime/data/source.h"

// X(code of the type in the header, element type)
#define IDX_TYPES(X) X(0x08, UINT8) X(0x09, INT8) X(0x0b, INT16) X(0x0c, INT32) X(0x0d, FLOAT32) X(0x0e, FLOAT64)

static bool find_idx_type(unsigned char code, delta_file_dtype_t *out_type) {
  static const struct {
    unsigned char code;
    delta_file_dtype_t type;
  } types[] = {
#define IDX_TYPE(code, type) {code, DELTA_FILE_DTYPE_##type},
      IDX_TYPES(IDX_TYPE)
#undef IDX_TYPE
  };
  for (size_t i = 0; i < sizeof types / sizeof types[0]; ++i) {
    if (types[i].code != code) continue;
    *out_type = types[i].type;
    return true;
  }
  return false;
}

// Dimensions, and the size that follows from them.
static delta_status_t read_dimensions(delta_idx_t *idx, int32_t rank) {
  unsigned char words[4 * DELTA_MAX_RANK];
  int64_t bytes = (int64_t)delta_file_dtype_bytes(idx->type);
  DELTA_RETURN_IF_ERROR(delta_file_read(&idx->file, 4, words, 4 * (size_t)rank));
  idx->data_offset = 4 + 4 * (uint64_t)rank;
  idx->shape.rank = rank;
  bool fits = true, empty = false;
  for (int32_t i = 0; i < rank; ++i) {
    const unsigned char *word = words + 4 * i;
    int64_t dimension = (int64_t)((uint32_t)word[0] << 24 | (uint32_t)word[1] << 16 | (uint32_t)word[2] << 8 | word[3]);
    idx->shape.dims[i] = dimension;
    empty |= dimension == 0;
    if (dimension > 0) fits = fits && delta_int64_mul(bytes, dimension, &bytes);
  }
  char shape[DELTA_SHAPE_TEXT_BYTES];
  uint64_t wanted = empty ? 0 : (uint64_t)bytes, present = idx->file.size_bytes - idx->data_offset;
  if (fits && wanted == present) return DELTA_OK;
  return delta_status_make(MALFORMED, "IDX header: shape %s of %s does not fit the %llu bytes that follow it",
                           delta_shape_text(&idx->shape, shape), delta_file_dtype_name(idx->type), (unsigned long long)present);
}

static delta_status_t read_header(delta_idx_t *idx) {
  unsigned char magic[4] = {0};
  DELTA_RETURN_IF_ERROR(delta_file_read(&idx->file, 0, magic, sizeof magic));
  if (magic[0] == 0x1f && magic[1] == 0x8b) return delta_status_make(UNSUPPORTED, "gzip-compressed; unpack it first: gunzip FILE.gz");
  if (magic[0] != 0 || magic[1] != 0 || !find_idx_type(magic[2], &idx->type)) return delta_status_make(MALFORMED, "not an IDX file");
  if (magic[3] < 1 || magic[3] > DELTA_MAX_RANK) {
    return delta_status_make(UNSUPPORTED, "an IDX file of %d dimensions; wanted 1 to %d", magic[3], DELTA_MAX_RANK);
  }
  return read_dimensions(idx, magic[3]);
}

delta_status_t delta_idx_open(const char *path, delta_allocator_t allocator, delta_idx_t *out_idx) {
  delta_idx_t idx = {.file.descriptor = -1};
  *out_idx = idx;
  DELTA_RETURN_IF_ERROR(delta_file_open(path, allocator, &idx.file));
  delta_status_t status = read_header(&idx);
  if (status) {
    delta_idx_close(&idx);
    return delta_status_annotate(status, "%s", path);
  }
  *out_idx = idx;
  return DELTA_OK;
}

void delta_idx_close(delta_idx_t *idx) { delta_file_close(&idx->file); }

// The two files. A want is the image or the label.
typedef struct idx_source {
  delta_allocator_t allocator;
  delta_idx_t images, labels;
  size_t label_want;
} idx_source_t;

static void close_idx_source(void *self) {
  idx_source_t *source = self;
  if (!source) return;
  delta_idx_close(&source->images);
  delta_idx_close(&source->labels);
  delta_release(source->allocator, source);
}

// Images are [n, rows, columns]; a graph takes them with one channel or as rows of pixels.
static delta_shape_t image_shape(const delta_shape_t *file, const delta_shape_t *want) {
  delta_shape_t shape = *file;
  if (file->rank != 3) return shape;
  bool one_channel = want->rank == 4 && want->dims[1] == 1 && want->dims[2] == file->dims[1] && want->dims[3] == file->dims[2];
  bool flat = want->rank == 2 && want->dims[1] == file->dims[1] * file->dims[2];
  if (!one_channel && !flat) return shape;
  shape = *want;
  shape.dims[0] = file->dims[0];
  return shape;
}

static delta_status_t describe_images(const delta_data_request_t *request, const char *path, const idx_source_t *source,
                                      delta_data_array_t *out_arrays) {
  size_t want;
  char *place;
  DELTA_RETURN_IF_ERROR(delta_data_find_only_input(request, "IDX", &want));
  DELTA_RETURN_IF_ERROR(delta_region_format(request->region, &place, "%s: array '%s'", path, request->wants[want].name));
  bool is_byte = source->images.type == DELTA_FILE_DTYPE_UINT8;
  out_arrays[want] = (delta_data_array_t){.place = place,
                                          .type = source->images.type,
                                          .shape = image_shape(&source->images.shape, &request->wants[want].shape),
                                          .is_scaled = is_byte && delta_dtype_is_float(request->wants[want].dtype),
                                          .scale = 1.0 / 255};
  return DELTA_OK;
}

static delta_status_t describe_labels(const delta_data_request_t *request, const char *path, const idx_source_t *source,
                                      delta_data_array_t *out_arrays) {
  char *place;
  if (source->label_want == request->want_count) {
    delta_log(request->log, DELTA_LOG_NOTE, "%s: the model takes no label", path);
    return DELTA_OK;
  }
  DELTA_RETURN_IF_ERROR(delta_region_format(request->region, &place, "%s: array 'label'", path));
  out_arrays[source->label_want] = (delta_data_array_t){.place = place, .type = source->labels.type, .shape = source->labels.shape};
  return DELTA_OK;
}

static delta_status_t open_files(const delta_data_request_t *request, idx_source_t *source, delta_data_array_t *out_arrays) {
  char *images, *labels;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(request->region, request->spec, strlen(request->spec), &images));
  labels = strchr(images, ',');
  if (!labels || labels == images || labels[1] == '\0') {
    return delta_status_make(INVALID_ARGUMENT, "'idx:%s': wanted idx:IMAGES,LABELS", request->spec);
  }
  *labels++ = '\0';
  DELTA_RETURN_IF_ERROR(delta_idx_open(images, request->allocator, &source->images));
  DELTA_RETURN_IF_ERROR(delta_idx_open(labels, request->allocator, &source->labels));
  DELTA_RETURN_IF_ERROR(describe_images(request, images, source, out_arrays));
  return describe_labels(request, labels, source, out_arrays);
}

static delta_status_t open_idx_source(const delta_data_request_t *request, delta_data_array_t *out_arrays, void **out_self) {
  idx_source_t *source = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(request->allocator, 1, &source));
  *source = (idx_source_t){.allocator = request->allocator,
                           .images.file.descriptor = -1,
                           .labels.file.descriptor = -1,
                           .label_want = delta_data_find_label(request)};
  delta_status_t status = open_files(request, source, out_arrays);
  if (status) {
    close_idx_source(source);
    return status;
  }
  *out_self = source;
  return DELTA_OK;
}

static delta_status_t read_idx_source(void *self, size_t want, uint64_t first, size_t count, void *out_elements) {
  const idx_source_t *source = self;
  const delta_idx_t *idx = want == source->label_want ? &source->labels : &source->images;
  size_t bytes = delta_file_dtype_bytes(idx->type);
  DELTA_RETURN_IF_ERROR(delta_file_read(&idx->file, idx->data_offset + first * bytes, out_elements, count * bytes));
  if (delta_machine_is_little_endian()) delta_file_dtype_swap(out_elements, count, bytes);
  return DELTA_OK;
}

const delta_data_format_t delta_data_idx = {.prefix = "idx:", .open = open_idx_source, .read = read_idx_source, .close = close_idx_source};
