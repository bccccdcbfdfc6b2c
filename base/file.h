// File: positioned reads and durable writes, with errors that name the path.
#ifndef DELTA_BASE_FILE_H_
#define DELTA_BASE_FILE_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/allocator.h"

typedef struct delta_file {
  int descriptor;      // -1 when closed
  uint64_t size_bytes; // when opened
  char *path;          // Owned; for messages.
  delta_allocator_t allocator;
} delta_file_t;

// Opens a regular file for reading. NOT_FOUND or IO name the path; a directory, pipe or device is INVALID_ARGUMENT.
DELTA_MUST_USE delta_status_t delta_file_open(const char *path, delta_allocator_t allocator, delta_file_t *out_file);
// Takes over an open descriptor (of a regular file).
DELTA_MUST_USE delta_status_t delta_file_adopt(int descriptor, const char *path, delta_allocator_t allocator, delta_file_t *out_file);
void delta_file_close(delta_file_t *file); // Safe when closed or zeroed with descriptor -1.

// Reads exactly size_bytes at offset; a shorter file is MALFORMED ("truncated"). Retries on EINTR.
DELTA_MUST_USE delta_status_t delta_file_read(const delta_file_t *file, uint64_t offset, void *buffer, size_t size_bytes);
// Reads a whole file of at most limit_bytes, adding a zero byte after it. The caller releases *out_data.
DELTA_MUST_USE delta_status_t delta_file_read_all(const char *path, size_t limit_bytes, delta_allocator_t allocator, char **out_data,
                                                  size_t *out_size_bytes);

// Whether two paths lead to one file (device and inode, after links), or to one name in one folder where there is no file yet.
bool delta_file_is_same(const char *a, const char *b);
bool delta_file_is_at(const delta_file_t *file, const char *path); // whether `path` leads to the open file
// Whether an output can be written to `path`, which is left as it is: fails as opening a writer there does.
DELTA_MUST_USE delta_status_t delta_file_probe(const char *path, delta_allocator_t allocator);

// A file written aside and renamed into place when complete: the old content survives any failure.
typedef struct delta_file_writer {
  int descriptor;
  char *path;           // Owned; the final name.
  char *temporary_path; // Owned; beside it.
  delta_allocator_t allocator;
} delta_file_writer_t;

DELTA_MUST_USE delta_status_t delta_file_writer_open(const char *path, delta_allocator_t allocator, delta_file_writer_t *out_writer);
DELTA_MUST_USE delta_status_t delta_file_writer_write(delta_file_writer_t *writer, const void *data, size_t size_bytes);
// Writes over what was written from `offset` on.
DELTA_MUST_USE delta_status_t delta_file_writer_rewrite(delta_file_writer_t *writer, uint64_t offset, const void *data, size_t size_bytes);
// fsync, rename, fsync of the folder.
DELTA_MUST_USE delta_status_t delta_file_writer_commit(delta_file_writer_t *writer);
// Closes; removes the temporary file when commit did not happen. Safe on a zeroed struct with descriptor -1.
void delta_file_writer_close(delta_file_writer_t *writer);

// All of that for a content that is there as a whole.
DELTA_MUST_USE delta_status_t delta_file_replace(const char *path, const void *data, size_t size_bytes, delta_allocator_t allocator);

#endif // DELTA_BASE_FILE_H_
