// npz source: one archive has an array for every want, by name.
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "runtime/data/npz.h"
#include "runtime/data/source.h"

typedef struct npz_source {
  delta_allocator_t allocator;
  delta_npz_t *npz;
  size_t *indices; // Owned; of the array of each want.
} npz_source_t;

static void close_npz_source(void *self) {
  npz_source_t *source = self;
  if (!source) return;
  delta_npz_close(source->npz);
  delta_release(source->allocator, source->indices);
  delta_release(source->allocator, source);
}

// Lists names of arrays, those that `used` does not mark: "'a', 'b' and 7 more".
static delta_status_t list_names(const delta_npz_t *npz, const bool *used, delta_text_t *text) {
  enum { NAMES_LISTED = 8 };
  size_t listed = 0, left = 0;
  for (size_t i = 0; i < delta_npz_count(npz); ++i) {
    if (used && used[i]) continue;
    if (listed == NAMES_LISTED) {
      ++left;
      continue;
    }
    DELTA_RETURN_IF_ERROR(delta_text_append(text, "%s'%s'", listed ? ", " : "", delta_npz_name(npz, i)));
    ++listed;
  }
  if (left > 0) return delta_text_append(text, " and %zu more", left);
  return listed > 0 ? DELTA_OK : delta_text_append(text, "none");
}

static delta_status_t refuse_missing(const delta_data_request_t *request, const delta_npz_t *npz, const delta_feed_want_t *want) {
  char shape[DELTA_SHAPE_TEXT_BYTES];
  delta_text_t names;
  delta_text_init(&names, request->allocator);
  delta_status_t status = list_names(npz, NULL, &names);
  if (!status) {
    status = delta_status_make(NOT_FOUND, "%s: no array '%s' (the model wants it as %s %s); arrays in the file: %s", request->spec,
                               want->name, delta_dtype_name(want->dtype), delta_data_want_text(want, shape), names.items);
  }
  delta_text_deinit(&names);
  return status;
}

static delta_status_t note_unused(const delta_data_request_t *request, const npz_source_t *source) {
  delta_status_t status = DELTA_OK;
  bool *used = NULL;
  delta_text_t names;
  size_t count = delta_npz_count(source->npz), used_count = 0;
  delta_text_init(&names, request->allocator);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(request->allocator, count, &used), cleanup);
  for (size_t want = 0; want < request->want_count; ++want) used[source->indices[want]] = true;
  for (size_t i = 0; i < count; ++i) used_count += used[i];
  if (used_count == count) goto cleanup;
  DELTA_GOTO_IF_ERROR(status, list_names(source->npz, used, &names), cleanup);
  delta_log(request->log, DELTA_LOG_NOTE, "%s: arrays the model does not use: %s", request->spec, names.items);
cleanup:
  delta_release(request->allocator, used);
  delta_text_deinit(&names);
  return status;
}

static delta_status_t bind_arrays(const delta_data_request_t *request, npz_source_t *source, delta_data_array_t *out_arrays) {
  for (size_t want = 0; want < request->want_count; ++want) {
    const char *name = request->wants[want].name;
    const delta_npy_header_t *header;
    char *place;
    source->indices[want] = delta_npz_find(source->npz, name);
    if (source->indices[want] == DELTA_NPZ_NONE) return refuse_missing(request, source->npz, &request->wants[want]);
    DELTA_RETURN_IF_ERROR(delta_npz_header(source->npz, source->indices[want], &header));
    DELTA_RETURN_IF_ERROR(delta_region_format(request->region, &place, "%s: array '%s'", request->spec, name));
    out_arrays[want] = (delta_data_array_t){.place = place, .type = header->type, .shape = header->shape};
  }
  return note_unused(request, source);
}

static delta_status_t open_npz_source(const delta_data_request_t *request, delta_data_array_t *out_arrays, void **out_self) {
  delta_status_t status = DELTA_OK;
  npz_source_t *source = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(request->allocator, 1, &source));
  source->allocator = request->allocator;
  DELTA_GOTO_IF_ERROR(status, delta_npz_open(request->spec, request->allocator, &source->npz), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(request->allocator, request->want_count, &source->indices), cleanup);
  DELTA_GOTO_IF_ERROR(status, bind_arrays(request, source, out_arrays), cleanup);
  *out_self = source;
  return DELTA_OK;
cleanup:
  close_npz_source(source);
  return status;
}

// Damage shows when the data are opened, not in the middle of an epoch; called once the shapes are known to fit, because it reads
// everything.
static delta_status_t prepare_npz_source(void *self, size_t want) {
  npz_source_t *source = self;
  return delta_npz_prepare(source->npz, source->indices[want]);
}

static delta_status_t read_npz_source(void *self, size_t want, uint64_t first, size_t count, void *out_elements) {
  npz_source_t *source = self;
  return delta_npz_read(source->npz, source->indices[want], first, count, out_elements);
}

const delta_data_format_t delta_data_npz = {
    .prefix = "", .open = open_npz_source, .prepare = prepare_npz_source, .read = read_npz_source, .close = close_npz_source};
