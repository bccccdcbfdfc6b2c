// Data files made by tests.
#include "tests/support/data_files.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static void *need(void *pointer) {
  if (!pointer) abort();
  return pointer;
}

void delta_test_append(delta_test_bytes_t *bytes, const void *data, size_t size_bytes) {
  if (bytes->capacity - bytes->count < size_bytes) {
    bytes->capacity = 2 * (bytes->count + size_bytes);
    bytes->data = need(realloc(bytes->data, bytes->capacity));
  }
  if (size_bytes > 0) memcpy(bytes->data + bytes->count, data, size_bytes);
  bytes->count += size_bytes;
}

void delta_test_append_integer(delta_test_bytes_t *bytes, uint64_t value, size_t size_bytes) {
  for (size_t i = 0; i < size_bytes; ++i) {
    unsigned char byte = i < sizeof value ? (unsigned char)(value >> 8 * i) : 0;
    delta_test_append(bytes, &byte, 1);
  }
}

void delta_test_bytes_free(delta_test_bytes_t *bytes) {
  free(bytes->data);
  *bytes = (delta_test_bytes_t){0};
}

void delta_test_npy_raw(delta_test_bytes_t *bytes, int version, const char *header, const void *data, size_t data_bytes) {
  delta_test_append(bytes, "\x93NUMPY", 6);
  delta_test_append_integer(bytes, (uint64_t)version, 1);
  delta_test_append_integer(bytes, 0, 1);
  delta_test_append_integer(bytes, strlen(header), version == 1 ? 2 : 4);
  delta_test_append(bytes, header, strlen(header));
  delta_test_append(bytes, data, data_bytes);
}

void delta_test_npy(delta_test_bytes_t *bytes, const char *descr, const char *shape, const void *data, size_t data_bytes) {
  char header[256];
  snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }   \n", descr, shape);
  delta_test_npy_raw(bytes, 1, header, data, data_bytes);
}

static void deflate_raw(const void *data, size_t size_bytes, delta_test_bytes_t *out) {
  z_stream stream = {0};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK) abort();
  size_t bound = deflateBound(&stream, size_bytes);
  unsigned char *buffer = need(malloc(bound));
  stream.next_in = (Bytef *)data;
  stream.avail_in = (uInt)size_bytes;
  stream.next_out = buffer;
  stream.avail_out = (uInt)bound;
  if (deflate(&stream, Z_FINISH) != Z_STREAM_END) abort();
  delta_test_append(out, buffer, bound - stream.avail_out);
  deflateEnd(&stream);
  free(buffer);
}

// The fields that local header and directory share: version, flags, method, time, date, crc, two sizes.
static void append_common(delta_test_bytes_t *bytes, unsigned flags, bool deflated, uint32_t crc, uint64_t stored, uint64_t size) {
  delta_test_append_integer(bytes, 45, 2);
  delta_test_append_integer(bytes, flags, 2);
  delta_test_append_integer(bytes, deflated ? 8 : 0, 2);
  delta_test_append_integer(bytes, 0, 4);
  delta_test_append_integer(bytes, crc, 4);
  delta_test_append_integer(bytes, stored, 4);
  delta_test_append_integer(bytes, size, 4);
}

void delta_test_zip_add(delta_test_zip_t *zip, const char *name, const void *data, size_t size_bytes, delta_test_zip_form_t form) {
  bool deflated = form == DELTA_TEST_ZIP_DEFLATED || form == DELTA_TEST_ZIP_STREAMED;
  bool streamed = form == DELTA_TEST_ZIP_STREAMED, wide = form == DELTA_TEST_ZIP_64;
  unsigned flags = streamed ? 8 : 0;
  size_t offset = zip->archive.count;
  delta_test_bytes_t stored = {0};
  uint32_t crc = (uint32_t)crc32(0, data, (uInt)size_bytes);
  if (deflated) {
    deflate_raw(data, size_bytes, &stored);
  } else {
    delta_test_append(&stored, data, size_bytes);
  }
  uint64_t sizes[] = {size_bytes, stored.count, offset};
  delta_test_append(&zip->archive, "PK\3\4", 4);
  append_common(&zip->archive, flags, deflated, streamed ? 0 : crc,
                streamed ? 0
                : wide   ? UINT32_MAX
                         : stored.count,
                streamed ? 0
                : wide   ? UINT32_MAX
                         : size_bytes);
  delta_test_append_integer(&zip->archive, strlen(name), 2);
  delta_test_append_integer(&zip->archive, wide ? 20 : 0, 2);
  delta_test_append(&zip->archive, name, strlen(name));
  if (wide) {
    delta_test_append_integer(&zip->archive, 1 | 16 << 16, 4);
    for (int i = 0; i < 2; ++i) delta_test_append_integer(&zip->archive, sizes[i], 8);
  }
  delta_test_append(&zip->archive, stored.data, stored.count);
  if (streamed) {
    delta_test_append(&zip->archive, "PK\7\10", 4);
    delta_test_append_integer(&zip->archive, crc, 4);
    delta_test_append_integer(&zip->archive, stored.count, 4);
    delta_test_append_integer(&zip->archive, size_bytes, 4);
  }
  delta_test_bytes_t *directory = &zip->directory;
  delta_test_append(directory, "PK\1\2", 4);
  delta_test_append_integer(directory, 45, 2);
  append_common(directory, flags, deflated, crc, wide ? UINT32_MAX : stored.count, wide ? UINT32_MAX : size_bytes);
  delta_test_append_integer(directory, strlen(name), 2);
  delta_test_append_integer(directory, wide ? 28 : 0, 2);
  delta_test_append_integer(directory, 0, 2 + 2 + 2 + 4); // comment, disk, attributes
  delta_test_append_integer(directory, wide ? UINT32_MAX : offset, 4);
  delta_test_append(directory, name, strlen(name));
  if (wide) {
    delta_test_append_integer(directory, 1 | 24 << 16, 4);
    for (int i = 0; i < 3; ++i) delta_test_append_integer(directory, sizes[i], 8);
  }
  delta_test_bytes_free(&stored);
  zip->has_zip64 |= wide;
  ++zip->entry_count;
}

void delta_test_zip_add_array(delta_test_zip_t *zip, const char *name, const char *descr, const char *shape, const void *data,
                              size_t data_bytes, delta_test_zip_form_t form) {
  delta_test_bytes_t npy = {0};
  char entry[256];
  snprintf(entry, sizeof entry, "%s.npy", name);
  delta_test_npy(&npy, descr, shape, data, data_bytes);
  delta_test_zip_add(zip, entry, npy.data, npy.count, form);
  delta_test_bytes_free(&npy);
}

void delta_test_zip_finish(delta_test_zip_t *zip) {
  delta_test_bytes_t *archive = &zip->archive;
  uint64_t offset = archive->count, size = zip->directory.count, count = zip->entry_count;
  delta_test_append(archive, zip->directory.data, zip->directory.count);
  if (zip->has_zip64) {
    uint64_t end64 = archive->count;
    delta_test_append(archive, "PK\6\6", 4);
    delta_test_append_integer(archive, 44, 8);
    delta_test_append_integer(archive, 45 | 45 << 16, 4);
    delta_test_append_integer(archive, 0, 8);
    const uint64_t values[] = {count, count, size, offset};
    for (int i = 0; i < 4; ++i) delta_test_append_integer(archive, values[i], 8);
    delta_test_append(archive, "PK\6\7", 4);
    delta_test_append_integer(archive, 0, 4);
    delta_test_append_integer(archive, end64, 8);
    delta_test_append_integer(archive, 1, 4);
  }
  delta_test_append(archive, "PK\5\6", 4);
  delta_test_append_integer(archive, 0, 4);
  for (int i = 0; i < 2; ++i) delta_test_append_integer(archive, zip->has_zip64 ? UINT16_MAX : count, 2);
  delta_test_append_integer(archive, zip->has_zip64 ? UINT32_MAX : size, 4);
  delta_test_append_integer(archive, zip->has_zip64 ? UINT32_MAX : offset, 4);
  delta_test_append_integer(archive, 0, 2);
}

void delta_test_zip_free(delta_test_zip_t *zip) {
  delta_test_bytes_free(&zip->archive);
  delta_test_bytes_free(&zip->directory);
  *zip = (delta_test_zip_t){0};
}

static const char *test_folder(void) {
  static char folder[64];
  static long owner; // a forked test has a folder of its own
  if (owner != (long)getpid()) {
    owner = (long)getpid();
    snprintf(folder, sizeof folder, "/tmp/delta-test-XXXXXX");
    need(mkdtemp(folder));
  }
  return folder;
}

const char *delta_test_file_path(const char *name, char out_path[DELTA_TEST_FILE_PATH_BYTES]) {
  snprintf(out_path, DELTA_TEST_FILE_PATH_BYTES, "%s/%s", test_folder(), name);
  return out_path;
}

const char *delta_test_write_file(const char *name, const void *data, size_t size_bytes, char out_path[DELTA_TEST_FILE_PATH_BYTES]) {
  FILE *file = need(fopen(delta_test_file_path(name, out_path), "wb"));
  if (fwrite(data, 1, size_bytes, file) != size_bytes || fclose(file) != 0) abort();
  return out_path;
}

void delta_test_remove_folder(void) {
  char path[DELTA_TEST_FILE_PATH_BYTES];
  DIR *folder = opendir(test_folder());
  for (const struct dirent *entry = folder ? readdir(folder) : NULL; entry; entry = readdir(folder)) {
    if (entry->d_name[0] != '.') (void)unlink(delta_test_file_path(entry->d_name, path));
  }
  if (folder) closedir(folder);
  (void)rmdir(test_folder());
}
