// File: positioned reads, and writes that replace a file as a whole or not at all.
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/text.h"

enum { TEMPORARY_NAMES = 100 };

// The status for a failed system call on `path`: NOT_FOUND where the name leads nowhere, IO otherwise.
static delta_status_t system_error(const char *action, const char *path, int error) {
  char reason[128];
  const char *text = strerror_r(error, reason, sizeof reason);
  if (error == ENOENT || error == ENOTDIR) return delta_status_make(NOT_FOUND, "cannot %s '%s': %s", action, path, text);
  return delta_status_make(IO, "cannot %s '%s': %s", action, path, text);
}

static delta_status_t copy_path(const char *path, delta_allocator_t allocator, char **out_path) {
  const size_t size_bytes = strlen(path) + 1;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, size_bytes, out_path));
  memcpy(*out_path, path, size_bytes);
  return DELTA_OK;
}

delta_status_t delta_file_adopt(int descriptor, const char *path, delta_allocator_t allocator, delta_file_t *out_file) {
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) return system_error("examine", path, errno);
  if (!S_ISREG(facts.st_mode)) {
    return delta_status_make(INVALID_ARGUMENT, "'%s' is not a regular file (a folder, pipe or device cannot be read here)", path);
  }
  char *own_path = NULL;
  DELTA_RETURN_IF_ERROR(copy_path(path, allocator, &own_path));
  *out_file = (delta_file_t){.descriptor = descriptor, .size_bytes = (uint64_t)facts.st_size, .path = own_path, .allocator = allocator};
  return DELTA_OK;
}

delta_status_t delta_file_open(const char *path, delta_allocator_t allocator, delta_file_t *out_file) {
  // Without O_NONBLOCK opening a pipe that nobody writes to would wait forever.
  int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return system_error("open", path, errno);
  delta_status_t status = delta_file_adopt(descriptor, path, allocator, out_file);
  if (status) close(descriptor);
  return status;
}

void delta_file_close(delta_file_t *file) {
  if (file->descriptor >= 0 && file->path) close(file->descriptor);
  delta_release(file->allocator, file->path);
  *file = (delta_file_t){.descriptor = -1, .allocator = file->allocator};
}

delta_status_t delta_file_read(const delta_file_t *file, uint64_t offset, void *buffer, size_t size_bytes) {
  char *cursor = buffer;
  for (size_t remaining = size_bytes; remaining > 0;) {
    if (offset > INT64_MAX) return delta_status_make(MALFORMED, "'%s' has no byte %llu", file->path, (unsigned long long)offset);
    const ssize_t got = pread(file->descriptor, cursor, remaining, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_error("read", file->path, errno);
    if (got == 0) {
      return delta_status_make(MALFORMED, "'%s' is truncated: it ends at byte %llu, and %zu more bytes were expected", file->path,
                               (unsigned long long)offset, remaining);
    }
    cursor += got;
    offset += (uint64_t)got;
    remaining -= (size_t)got;
  }
  return DELTA_OK;
}

delta_status_t delta_file_read_all(const char *path, size_t limit_bytes, delta_allocator_t allocator, char **out_data,
                                   size_t *out_size_bytes) {
  delta_file_t file = {.descriptor = -1};
  char *data = NULL;
  DELTA_RETURN_IF_ERROR(delta_file_open(path, allocator, &file));
  delta_status_t status = DELTA_OK;
  if (file.size_bytes > limit_bytes || file.size_bytes >= SIZE_MAX) {
    char size[DELTA_SIZE_TEXT_BYTES], limit[DELTA_SIZE_TEXT_BYTES];
    status = delta_status_make(UNSUPPORTED, "'%s' has %s; at most %s can be read", path, delta_size_text(file.size_bytes, size),
                               delta_size_text(limit_bytes, limit));
    goto cleanup;
  }
  const size_t size_bytes = (size_t)file.size_bytes;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, size_bytes + 1, &data), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_file_read(&file, 0, data, size_bytes), cleanup);
  *out_data = data;
  *out_size_bytes = size_bytes;
  data = NULL;
cleanup:
  delta_release(allocator, data);
  delta_file_close(&file);
  return status;
}

// Device and inode of the folder that `path` is in.
static bool find_folder(const char *path, struct stat *out_facts) {
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  const size_t length = slash ? (size_t)(slash - path) + 1 : 0;
  if (length >= sizeof folder) return false;
  memcpy(folder, path, length);
  folder[length] = '\0';
  return stat(length ? folder : ".", out_facts) == 0;
}

static const char *name_of(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

bool delta_file_is_same(const char *a, const char *b) {
  struct stat a_facts, b_facts;
  const bool a_exists = stat(a, &a_facts) == 0, b_exists = stat(b, &b_facts) == 0;
  if (a_exists != b_exists) return false;
  if (!a_exists && (strcmp(name_of(a), name_of(b)) != 0 || !find_folder(a, &a_facts) || !find_folder(b, &b_facts))) return false;
  return a_facts.st_dev == b_facts.st_dev && a_facts.st_ino == b_facts.st_ino;
}

bool delta_file_is_at(const delta_file_t *file, const char *path) {
  struct stat facts, other;
  return fstat(file->descriptor, &facts) == 0 && stat(path, &other) == 0 && facts.st_dev == other.st_dev && facts.st_ino == other.st_ino;
}

// Where the bytes shall finally be: `path`, or the file that a link of that name leads to. *out_mode gets the permissions of a file that
// exists, 0 otherwise. Devices and folders are refused: renaming over /dev/null would replace it.
static delta_status_t resolve_target(const char *path, delta_allocator_t allocator, char **out_path, mode_t *out_mode) {
  struct stat facts;
  *out_mode = 0;
  if (stat(path, &facts) != 0) {
    if (errno != ENOENT) return system_error("write", path, errno);
    return copy_path(path, allocator, out_path);
  }
  if (!S_ISREG(facts.st_mode)) return delta_status_make(INVALID_ARGUMENT, "cannot write '%s': it exists and is not a regular file", path);
  char *resolved = realpath(path, NULL);
  if (!resolved) return system_error("write", path, errno);
  delta_status_t status = copy_path(resolved, allocator, out_path);
  free(resolved);
  if (!status) *out_mode = facts.st_mode & 0777;
  return status;
}

// Opens a new file beside the final one, under a name nobody uses.
static delta_status_t open_temporary(delta_file_writer_t *writer) {
  const size_t size_bytes = strlen(writer->path) + 48;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(writer->allocator, size_bytes, &writer->temporary_path));
  for (int i = 0; i < TEMPORARY_NAMES && writer->descriptor < 0; ++i) {
    snprintf(writer->temporary_path, size_bytes, "%s.tmp-%ld-%d", writer->path, (long)getpid(), i);
    writer->descriptor = open(writer->temporary_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (writer->descriptor < 0 && errno != EEXIST) break;
  }
  return writer->descriptor < 0 ? system_error("write", writer->path, errno) : DELTA_OK;
}

delta_status_t delta_file_writer_open(const char *path, delta_allocator_t allocator, delta_file_writer_t *out_writer) {
  delta_file_writer_t writer = {.descriptor = -1, .allocator = allocator};
  mode_t mode = 0;
  DELTA_RETURN_IF_ERROR(resolve_target(path, allocator, &writer.path, &mode));
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, open_temporary(&writer), failed);
  if (mode != 0 && fchmod(writer.descriptor, mode) != 0) {
    status = system_error("write", path, errno);
    goto failed;
  }
  *out_writer = writer;
  return DELTA_OK;
failed:
  delta_file_writer_close(&writer);
  return status;
}

delta_status_t delta_file_writer_write(delta_file_writer_t *writer, const void *data, size_t size_bytes) {
  const char *cursor = data;
  while (size_bytes > 0) {
    const ssize_t written = write(writer->descriptor, cursor, size_bytes);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error("write", writer->path, errno);
    cursor += written;
    size_bytes -= (size_t)written;
  }
  return DELTA_OK;
}

delta_status_t delta_file_writer_rewrite(delta_file_writer_t *writer, uint64_t offset, const void *data, size_t size_bytes) {
  const char *cursor = data;
  while (size_bytes > 0) {
    const ssize_t written = pwrite(writer->descriptor, cursor, size_bytes, (off_t)offset);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error("write", writer->path, errno);
    cursor += written;
    offset += (uint64_t)written;
    size_bytes -= (size_t)written;
  }
  return DELTA_OK;
}

// Makes the new name itself durable. File systems that cannot sync a folder say EINVAL; there is nothing more to do on them.
static delta_status_t sync_folder(const char *path, delta_allocator_t allocator) {
  char *folder = NULL;
  DELTA_RETURN_IF_ERROR(copy_path(path, allocator, &folder));
  char *slash = strrchr(folder, '/');
  if (slash) slash[slash == folder ? 1 : 0] = 0;
  delta_status_t status = DELTA_OK;
  int descriptor = open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0 || (fsync(descriptor) != 0 && errno != EINVAL)) status = system_error("sync the folder of", path, errno);
  if (descriptor >= 0) close(descriptor);
  delta_release(allocator, folder);
  return status;
}

delta_status_t delta_file_writer_commit(delta_file_writer_t *writer) {
  if (fsync(writer->descriptor) != 0) return system_error("write", writer->path, errno);
  const int closed = close(writer->descriptor);
  writer->descriptor = -1;
  if (closed != 0) return system_error("write", writer->path, errno);
  if (rename(writer->temporary_path, writer->path) != 0) return system_error("write", writer->path, errno);
  delta_release(writer->allocator, writer->temporary_path);
  writer->temporary_path = NULL;
  return sync_folder(writer->path, writer->allocator);
}

void delta_file_writer_close(delta_file_writer_t *writer) {
  if (writer->descriptor >= 0) close(writer->descriptor);
  if (writer->temporary_path) unlink(writer->temporary_path);
  delta_release(writer->allocator, writer->temporary_path);
  delta_release(writer->allocator, writer->path);
  *writer = (delta_file_writer_t){.descriptor = -1, .allocator = writer->allocator};
}

delta_status_t delta_file_replace(const char *path, const void *data, size_t size_bytes, delta_allocator_t allocator) {
  delta_file_writer_t writer = {.descriptor = -1};
  DELTA_RETURN_IF_ERROR(delta_file_writer_open(path, allocator, &writer));
  delta_status_t status = delta_file_writer_write(&writer, data, size_bytes);
  if (!status) status = delta_file_writer_commit(&writer);
  delta_file_writer_close(&writer);
  return status;
}

delta_status_t delta_file_probe(const char *path, delta_allocator_t allocator) {
  delta_file_writer_t writer = {.descriptor = -1};
  DELTA_RETURN_IF_ERROR(delta_file_writer_open(path, allocator, &writer));
  delta_file_writer_close(&writer);
  return DELTA_OK;
}
