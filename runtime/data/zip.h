// zip: the directory of a zip archive (zip64 too) and the bytes of its entries, stored or deflated. Follows PKWARE's APPNOTE 6.3.
//
// Nothing is loaded whole but the directory, whose size is capped. The central directory is the truth; a local header must agree with it.
// No encryption, no archives in several parts, no bytes before the archive.
#ifndef DELTA_RUNTIME_DATA_ZIP_H_
#define DELTA_RUNTIME_DATA_ZIP_H_

#include "base/array.h"
#include "base/file.h"
#include "base/map.h"
#include "base/region.h"

typedef struct delta_zip_entry {
  const char *name; // Owned by the archive.
  bool is_deflated; // otherwise stored
  uint32_t crc;
  uint64_t stored_bytes; // in the archive
  uint64_t size_bytes;   // of the content
  uint64_t header_offset;
  uint64_t limit_offset; // where the next entry or the directory begins
} delta_zip_entry_t;

typedef struct delta_zip {
  delta_file_t file;
  delta_region_t region;
  DELTA_ARRAY(delta_zip_entry_t) entries; // in the order of the directory
  delta_map_t names;                      // of the entries
} delta_zip_t;

// Reads the directory. MALFORMED (naming the path): no zip file, cut short, offsets that lead elsewhere, overlapping entries, duplicate
// names.
// UNSUPPORTED: encryption, other methods of compression, several parts.
DELTA_MUST_USE delta_status_t delta_zip_open(const char *path, delta_allocator_t allocator, delta_zip_t *out_zip);
void delta_zip_close(delta_zip_t *zip); // Safe when closed or zeroed with zip->file.descriptor -1.

// Where the stored bytes of an entry begin, after its local header has been compared with the directory. Errors do not name the file.
DELTA_MUST_USE delta_status_t delta_zip_locate(const delta_zip_t *zip, const delta_zip_entry_t *entry, uint64_t *out_offset);

// Receives the next piece of an entry's content; a failure ends the stream.
typedef struct delta_zip_sink {
  void *self;
  delta_status_t (*write)(void *self, const void *data, size_t size_bytes);
} delta_zip_sink_t;

// Hands the first `limit_bytes` of an entry's content to `sink` in order, through buffers of constant size. When that is the whole content,
// its length and CRC are checked too. MALFORMED (not naming the file): damaged data.
DELTA_MUST_USE delta_status_t delta_zip_stream(const delta_zip_t *zip, const delta_zip_entry_t *entry, uint64_t limit_bytes,
                                               delta_zip_sink_t sink);

#endif // DELTA_RUNTIME_DATA_ZIP_H_
