// npz: what is known of each array grows in two steps: its header is parsed, then its bytes are verified and made readable by range.
#include "runtime/data/npz.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/data/zip.h"

typedef struct npz_array {
  const char *name;               // Owned by the region; the entry's without ".npy".
  const delta_zip_entry_t *entry; // Borrowed from the archive.
  bool has_header, is_prepared;
  delta_npy_header_t header;
  uint64_t base_offset; // of the array's bytes, in the archive or, for a deflated array, in the temporary file
} npz_array_t;

struct delta_npz {
  delta_allocator_t allocator;
  delta_zip_t zip;
  npz_array_t *arrays; // Owned.
  size_t count;
  delta_map_t names;
  delta_file_t temporary; // the inflated arrays, one after the other; closed until there is one
};

static const char npy_suffix[] = ".npy";
enum { NPY_SUFFIX_BYTES = 4 };

static bool is_npy_name(const char *name) {
  size_t length = strlen(name);
  return length > NPY_SUFFIX_BYTES && strcmp(name + length - NPY_SUFFIX_BYTES, npy_suffix) == 0;
}

static delta_status_t list_arrays(delta_npz_t *npz) {
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(npz->allocator, npz->zip.entries.count, &npz->arrays));
  for (size_t i = 0; i < npz->zip.entries.count; ++i) {
    const delta_zip_entry_t *entry = &npz->zip.entries.items[i];
    if (!is_npy_name(entry->name)) continue;
    char *name;
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&npz->zip.region, entry->name, strlen(entry->name) - NPY_SUFFIX_BYTES, &name));
    DELTA_RETURN_IF_ERROR(delta_map_set(&npz->names, name, (uint32_t)npz->count));
    npz->arrays[npz->count++] = (npz_array_t){.name = name, .entry = entry};
  }
  return DELTA_OK;
}

delta_status_t delta_npz_open(const char *path, delta_allocator_t allocator, delta_npz_t **out_npz) {
  delta_status_t status = DELTA_OK;
  delta_npz_t *npz = NULL;
  *out_npz = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &npz));
  npz->allocator = allocator;
  npz->zip.file.descriptor = -1;
  npz->temporary.descriptor = -1;
  delta_map_init(&npz->names, allocator);
  DELTA_GOTO_IF_ERROR(status, delta_zip_open(path, allocator, &npz->zip), cleanup);
  DELTA_GOTO_IF_ERROR(status, list_arrays(npz), cleanup);
  *out_npz = npz;
  return DELTA_OK;
cleanup:
  delta_npz_close(npz);
  return status;
}

void delta_npz_close(delta_npz_t *npz) {
  if (!npz) return;
  delta_allocator_t allocator = npz->allocator;
  delta_file_close(&npz->temporary);
  delta_map_deinit(&npz->names);
  delta_release(allocator, npz->arrays);
  delta_zip_close(&npz->zip);
  delta_release(allocator, npz);
}

size_t delta_npz_count(const delta_npz_t *npz) { return npz->count; }

const char *delta_npz_name(const delta_npz_t *npz, size_t index) { return npz->arrays[index].name; }

size_t delta_npz_find(const delta_npz_t *npz, const char *name) {
  uint32_t index = delta_map_find(&npz->names, name);
  return index == DELTA_MAP_NONE ? DELTA_NPZ_NONE : index;
}

static delta_status_t name_array(const delta_npz_t *npz, const npz_array_t *array, delta_status_t status) {
  return delta_status_annotate(status, "%s: array '%s'", npz->zip.file.path, array->name);
}

// Gathers the beginning of an array.
typedef struct npz_prefix {
  char *bytes; // DELTA_NPY_PREFIX_BYTES
  size_t count;
} npz_prefix_t;

static delta_status_t gather_prefix(void *self, const void *data, size_t size_bytes) {
  npz_prefix_t *prefix = self;
  memcpy(prefix->bytes + prefix->count, data, size_bytes);
  prefix->count += size_bytes;
  return DELTA_OK;
}

static delta_status_t parse_header(delta_npz_t *npz, npz_array_t *array) {
  delta_status_t status = DELTA_OK;
  npz_prefix_t prefix = {0};
  uint64_t size_bytes = array->entry->size_bytes;
  delta_zip_sink_t sink = {.self = &prefix, .write = gather_prefix};
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(npz->allocator, DELTA_NPY_PREFIX_BYTES, &prefix.bytes));
  uint64_t limit = size_bytes < DELTA_NPY_PREFIX_BYTES ? size_bytes : DELTA_NPY_PREFIX_BYTES;
  DELTA_GOTO_IF_ERROR(status, delta_zip_stream(&npz->zip, array->entry, limit, sink), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_npy_parse(prefix.bytes, prefix.count, size_bytes, &array->header), cleanup);
  array->has_header = true;
cleanup:
  delta_release(npz->allocator, prefix.bytes);
  return status;
}

delta_status_t delta_npz_header(delta_npz_t *npz, size_t index, const delta_npy_header_t **out_header) {
  npz_array_t *array = &npz->arrays[index];
  if (!array->has_header) DELTA_RETURN_IF_ERROR(name_array(npz, array, parse_header(npz, array)));
  *out_header = &array->header;
  return DELTA_OK;
}

static const char *temporary_folder(void) {
  const char *folder = getenv("TMPDIR");
  return folder && *folder ? folder : "/var/tmp"; // not /tmp, which is often memory
}

static int open_unnamed(const char *folder) {
  int descriptor = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (descriptor >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return descriptor;
  char path[4096]; // a file system without unnamed files
  if ((size_t)snprintf(path, sizeof path, "%s/delta-data-XXXXXX", folder) >= sizeof path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  descriptor = mkostemp(path, O_CLOEXEC);
  if (descriptor >= 0) (void)unlink(path);
  return descriptor;
}

static delta_status_t open_temporary(delta_npz_t *npz) {
  const char *folder = temporary_folder();
  int descriptor = open_unnamed(folder);
  if (descriptor < 0) {
    return delta_status_make(IO, "cannot make a temporary file in '%s' to inflate into: %s; set TMPDIR or save with numpy.savez", folder,
                             strerror(errno));
  }
  delta_status_t status = delta_file_adopt(descriptor, folder, npz->allocator, &npz->temporary);
  if (status) close(descriptor);
  return status;
}

static delta_status_t append_to_temporary(void *self, const void *data, size_t size_bytes) {
  delta_file_t *file = self;
  const char *from = data;
  while (size_bytes > 0) {
    ssize_t written = pwrite(file->descriptor, from, size_bytes, (off_t)file->size_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      return delta_status_make(IO, "cannot inflate into a temporary file in '%s': %s; set TMPDIR or save with numpy.savez", file->path,
                               strerror(written < 0 ? errno : ENOSPC));
    }
    from += written;
    size_bytes -= (size_t)written;
    file->size_bytes += (uint64_t)written;
  }
  return DELTA_OK;
}

static delta_status_t discard(void *self, const void *data, size_t size_bytes) {
  (void)self, (void)data, (void)size_bytes;
  return DELTA_OK;
}

static delta_status_t prepare_array(delta_npz_t *npz, npz_array_t *array) {
  const delta_zip_entry_t *entry = array->entry;
  if (!entry->is_deflated) {
    DELTA_RETURN_IF_ERROR(delta_zip_locate(&npz->zip, entry, &array->base_offset));
    return delta_zip_stream(&npz->zip, entry, entry->size_bytes, (delta_zip_sink_t){.write = discard});
  }
  if (npz->temporary.descriptor < 0) DELTA_RETURN_IF_ERROR(open_temporary(npz));
  array->base_offset = npz->temporary.size_bytes;
  return delta_zip_stream(&npz->zip, entry, entry->size_bytes, (delta_zip_sink_t){.self = &npz->temporary, .write = append_to_temporary});
}

delta_status_t delta_npz_prepare(delta_npz_t *npz, size_t index) {
  npz_array_t *array = &npz->arrays[index];
  const delta_npy_header_t *header;
  if (array->is_prepared) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_npz_header(npz, index, &header));
  DELTA_RETURN_IF_ERROR(name_array(npz, array, prepare_array(npz, array)));
  array->is_prepared = true;
  return DELTA_OK;
}

delta_status_t delta_npz_read(delta_npz_t *npz, size_t index, uint64_t first, uint64_t count, void *out_elements) {
  npz_array_t *array = &npz->arrays[index];
  DELTA_RETURN_IF_ERROR(delta_npz_prepare(npz, index));
  const delta_file_t *file = array->entry->is_deflated ? &npz->temporary : &npz->zip.file;
  return name_array(npz, array, delta_npy_read_elements(file, array->base_offset, &array->header, first, count, out_elements));
}
