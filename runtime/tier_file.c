// The tier that is a file. What is aligned as the file system asks is copied from where it lies and to where it goes, by the disk alone: memory that a processor copies is time
// that compute loses. The rest goes through an aligned piece of memory, one for each direction.
#include "runtime/tier.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "plans/schedule.h"

// One call copies no more than the system takes at once.
enum { BOUNCE_BYTES = 1 << 20, MOST_CALL_BYTES = 1 << 30 };

typedef struct file_tier {
  delta_tier_t base;
  char folder[PATH_MAX];
  int descriptor;                  // -1: none
  size_t memory_bytes, size_bytes; // what addresses and sizes are multiples of where no aligned memory is needed in between; powers of two
  void *bounce_memory;             // Owned.
  uint8_t *write_bounce, *read_bounce; // aligned parts of it
} file_tier_t;

static delta_status_t io_error(const file_tier_t *tier, const char *what, uint64_t offset_bytes, uint64_t size_bytes, int error) {
  char reason[128];
  return delta_status_make(IO, "the file for swapped tensors in '%s': %s %llu bytes at %llu: %s", tier->folder, what,
                           (unsigned long long)size_bytes, (unsigned long long)offset_bytes, strerror_r(error, reason, sizeof reason));
}

// ---- Opening

static int open_unnamed(const char *folder, int extra_flags) {
  int descriptor;
  do {
    descriptor = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | extra_flags, 0600);
  } while (descriptor < 0 && errno == EINTR);
  return descriptor;
}

// For file systems without unnamed files: one whose name goes at once.
static int open_named(const char *folder) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof path, "%s/delta-XXXXXX", folder) >= (int)sizeof path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  const int descriptor = mkostemp(path, O_CLOEXEC);
  if (descriptor >= 0) unlink(path);
  return descriptor;
}

// What the file system asks of addresses and sizes; whole blocks where it does not say.
static void ask_alignment(file_tier_t *tier) {
  tier->memory_bytes = tier->size_bytes = DELTA_HOST_BLOCK_BYTES;
#ifdef STATX_DIOALIGN
  struct statx facts;
  if (statx(tier->descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &facts) != 0 || !(facts.stx_mask & STATX_DIOALIGN)) return;
  if (facts.stx_dio_mem_align == 0 || facts.stx_dio_offset_align == 0 || facts.stx_dio_offset_align > DELTA_HOST_BLOCK_BYTES) return;
  tier->memory_bytes = facts.stx_dio_mem_align;
  tier->size_bytes = facts.stx_dio_offset_align;
#endif
}

static delta_status_t open_file(file_tier_t *tier, delta_log_sink_t log) {
  tier->descriptor = open_unnamed(tier->folder, O_DIRECT);
  if (tier->descriptor >= 0) {
    ask_alignment(tier);
    return DELTA_OK;
  }
  tier->memory_bytes = tier->size_bytes = 1;
  tier->descriptor = open_unnamed(tier->folder, 0);
  if (tier->descriptor < 0) tier->descriptor = open_named(tier->folder);
  if (tier->descriptor < 0) {
    const int error = errno;
    char reason[128];
    const char *text = strerror_r(error, reason, sizeof reason);
    if (error == ENOENT || error == ENOTDIR) {
      return delta_status_make(NOT_FOUND, "folder '%s' for swapped tensors: %s; give another with --tier DIR", tier->folder, text);
    }
    return delta_status_make(IO, "folder '%s' for swapped tensors: cannot make a file there: %s; give another with --tier DIR",
                             tier->folder, text);
  }
  delta_log(log, DELTA_LOG_NOTE,
            "the file system of '%s' cannot be read and written directly: swapped tensors also pass through the system's page cache",
            tier->folder);
  return DELTA_OK;
}

static delta_status_t set_up(file_tier_t *tier, const char *folder, delta_log_sink_t log) {
  if (!folder) folder = getenv("TMPDIR");
  if (!folder || !*folder) folder = "/var/tmp";
  if (snprintf(tier->folder, sizeof tier->folder, "%s", folder) >= (int)sizeof tier->folder) {
    return delta_status_make(INVALID_ARGUMENT, "the folder for swapped tensors has a path of %zu characters", strlen(folder));
  }
  DELTA_RETURN_IF_ERROR(delta_allocate(tier->base.allocator, 2 * BOUNCE_BYTES + DELTA_HOST_BLOCK_BYTES, 1, &tier->bounce_memory));
  const uintptr_t address = (uintptr_t)tier->bounce_memory + DELTA_HOST_BLOCK_BYTES - 1;
  tier->write_bounce =
      (uint8_t *)tier->bounce_memory + (address / DELTA_HOST_BLOCK_BYTES * DELTA_HOST_BLOCK_BYTES - (uintptr_t)tier->bounce_memory);
  tier->read_bounce = tier->write_bounce + BOUNCE_BYTES;
  return open_file(tier, log);
}

static void file_destroy(delta_tier_t *base) {
  file_tier_t *tier = (file_tier_t *)base;
  if (tier->descriptor >= 0) close(tier->descriptor);
  delta_release(base->allocator, tier->bounce_memory);
  delta_release(base->allocator, tier);
}

// ---- Size

static delta_status_t file_resize(delta_tier_t *base, uint64_t size_bytes) {
  file_tier_t *tier = (file_tier_t *)base;
  int result;
  do {
    result = size_bytes < base->size_bytes ? ftruncate(tier->descriptor, (off_t)size_bytes)
                                           : fallocate(tier->descriptor, 0, 0, (off_t)size_bytes);
  } while (result != 0 && errno == EINTR);
  // Some file systems cannot reserve: there a full disk is only met when it is written.
  if (result != 0 && errno == EOPNOTSUPP) result = ftruncate(tier->descriptor, (off_t)size_bytes);
  if (result == 0) return DELTA_OK;
  delta_status_t status = io_error(tier, "cannot reserve", 0, size_bytes, errno);
  return delta_status_annotate(status, "give a folder with more room (--tier DIR) or a larger --budget");
}

// ---- Copies

// One call's worth; how much was done in *out_bytes: all, or whole blocks.
static delta_status_t transfer_some(const file_tier_t *tier, bool writes, uint64_t offset_bytes, uint8_t *memory, size_t size_bytes,
                                    size_t *out_bytes) {
  const char *what = writes ? "cannot write" : "cannot read";
  ssize_t done;
  do {
    done = writes ? pwrite(tier->descriptor, memory, size_bytes, (off_t)offset_bytes)
                  : pread(tier->descriptor, memory, size_bytes, (off_t)offset_bytes);
  } while (done < 0 && errno == EINTR);
  if (done < 0) return io_error(tier, what, offset_bytes, size_bytes, errno);
  *out_bytes = (size_t)done == size_bytes ? size_bytes : (size_t)done / DELTA_HOST_BLOCK_BYTES * DELTA_HOST_BLOCK_BYTES;
  // Nothing at all: the disk is full, or the file has been cut.
  return *out_bytes > 0 ? DELTA_OK : io_error(tier, what, offset_bytes, size_bytes, writes ? ENOSPC : EIO);
}

// Without a piece of memory in between.
static delta_status_t transfer_direct(const file_tier_t *tier, bool writes, uint64_t offset_bytes, uint8_t *memory, size_t size_bytes) {
  for (size_t done = 0, part; done < size_bytes; done += part) {
    const size_t most_bytes = size_bytes - done < MOST_CALL_BYTES ? size_bytes - done : MOST_CALL_BYTES;
    DELTA_RETURN_IF_ERROR(transfer_some(tier, writes, offset_bytes + done, memory + done, most_bytes, &part));
  }
  return DELTA_OK;
}

static bool is_direct(const file_tier_t *tier, const void *memory, size_t size_bytes) {
  return (uintptr_t)memory % tier->memory_bytes == 0 && size_bytes % tier->size_bytes == 0;
}

static delta_status_t transfer_bounce(const file_tier_t *tier, bool writes, uint64_t offset_bytes, size_t size_bytes) {
  uint8_t *bounce = writes ? tier->write_bounce : tier->read_bounce;
  size_bytes = (size_bytes + DELTA_HOST_BLOCK_BYTES - 1) / DELTA_HOST_BLOCK_BYTES * DELTA_HOST_BLOCK_BYTES;
  for (size_t done = 0, part = 0; done < size_bytes; done += part) {
    DELTA_RETURN_IF_ERROR(transfer_some(tier, writes, offset_bytes + done, bounce + done, size_bytes - done, &part));
  }
  return DELTA_OK;
}

static delta_status_t file_write(delta_tier_t *base, uint64_t offset_bytes, const void *data, size_t size_bytes) {
  const file_tier_t *tier = (const file_tier_t *)base;
  if (is_direct(tier, data, size_bytes)) return transfer_direct(tier, true, offset_bytes, (uint8_t *)data, size_bytes);
  for (size_t done = 0, part; done < size_bytes; done += part) {
    part = size_bytes - done < BOUNCE_BYTES ? size_bytes - done : BOUNCE_BYTES;
    memcpy(tier->write_bounce, (const uint8_t *)data + done, part);
    DELTA_RETURN_IF_ERROR(transfer_bounce(tier, true, offset_bytes + done, part));
  }
  return DELTA_OK;
}

static delta_status_t file_read(delta_tier_t *base, uint64_t offset_bytes, void *data, size_t size_bytes) {
  const file_tier_t *tier = (const file_tier_t *)base;
  if (is_direct(tier, data, size_bytes)) return transfer_direct(tier, false, offset_bytes, data, size_bytes);
  for (size_t done = 0, part; done < size_bytes; done += part) {
    part = size_bytes - done < BOUNCE_BYTES ? size_bytes - done : BOUNCE_BYTES;
    DELTA_RETURN_IF_ERROR(transfer_bounce(tier, false, offset_bytes + done, part));
    memcpy((uint8_t *)data + done, tier->read_bounce, part);
  }
  return DELTA_OK;
}

static const delta_tier_driver_t file_driver = {.destroy = file_destroy, .resize = file_resize, .write = file_write, .read = file_read};

delta_status_t delta_tier_create_file(const char *folder, delta_log_sink_t log, delta_allocator_t allocator, delta_tier_t **out_tier) {
  *out_tier = NULL;
  file_tier_t *tier = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &tier));
  tier->base = (delta_tier_t){.driver = &file_driver, .allocator = allocator, .is_beside_compute = true};
  tier->descriptor = -1;
  delta_status_t status = set_up(tier, folder, log);
  if (status) {
    file_destroy(&tier->base);
    return status;
  }
  *out_tier = &tier->base;
  return DELTA_OK;
}
