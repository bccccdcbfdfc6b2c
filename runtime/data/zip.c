// zip: end record -> directory -> entries, each step checked against the file's size before the next one trusts it.
#include "runtime/data/zip.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/checked.h"

enum {
  END_BYTES = 22,             // end of central directory record, without comment
  END64_LOCATOR_BYTES = 20,   // zip64 end of central directory locator
  END64_BYTES = 56,           // zip64 end of central directory record, without extensible data
  DIRECTORY_ENTRY_BYTES = 46, // central directory header, without name, extra fields and comment
  LOCAL_HEADER_BYTES = 30,    // local file header, without name and extra fields
  LONGEST_COMMENT_BYTES = 65535,
  LARGEST_DIRECTORY_BYTES = 64 << 20, // half a million arrays; a hostile file cannot ask for more memory than this
  STREAM_BYTES = 64 << 10,
};

enum { FLAG_ENCRYPTED = 1, METHOD_STORED = 0, METHOD_DEFLATED = 8, EXTRA_ZIP64 = 1 };

static uint64_t little_endian(const unsigned char *bytes, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;) value = value << 8 | bytes[i];
  return value;
}

static bool has_signature(const unsigned char *record, char third, char fourth) {
  return record[0] == 'P' && record[1] == 'K' && record[2] == (unsigned char)third && record[3] == (unsigned char)fourth;
}

// Where the central directory is, by the end record(s).
typedef struct zip_directory {
  uint64_t offset, size_bytes, entry_count;
  uint64_t end_offset; // of the record that must follow the directory
} zip_directory_t;

// Searches the end record backwards: the one whose comment reaches exactly to the end of the file.
static delta_status_t find_end_record(const delta_file_t *file, delta_allocator_t allocator, unsigned char record[END_BYTES],
                                      uint64_t *out_offset) {
  size_t tail_bytes = END_BYTES + LONGEST_COMMENT_BYTES;
  if (file->size_bytes < tail_bytes) tail_bytes = (size_t)file->size_bytes;
  unsigned char *tail = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, tail_bytes, &tail));
  delta_status_t status = delta_file_read(file, file->size_bytes - tail_bytes, tail, tail_bytes);
  bool found = false;
  for (size_t from_end = END_BYTES; !status && !found && from_end <= tail_bytes; ++from_end) {
    const unsigned char *at = tail + tail_bytes - from_end;
    found = has_signature(at, 5, 6) && little_endian(at + 20, 2) == from_end - END_BYTES;
    if (!found) continue;
    memcpy(record, at, END_BYTES);
    *out_offset = file->size_bytes - from_end;
  }
  delta_release(allocator, tail);
  if (!status && !found) status = delta_status_make(MALFORMED, "not a zip archive, or one that is cut short (no end record)");
  return status;
}

// Replaces what the end record says by the zip64 end record, where a locator stands before it.
static delta_status_t read_end64_record(const delta_file_t *file, uint64_t end_offset, zip_directory_t *directory) {
  unsigned char record[END64_BYTES];
  if (end_offset < END64_LOCATOR_BYTES) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_file_read(file, end_offset - END64_LOCATOR_BYTES, record, END64_LOCATOR_BYTES));
  if (!has_signature(record, 6, 7)) return DELTA_OK;
  uint64_t offset = little_endian(record + 8, 8);
  if (offset > end_offset - END64_LOCATOR_BYTES || end_offset - END64_LOCATOR_BYTES - offset < END64_BYTES) {
    return delta_status_make(MALFORMED, "the zip64 end record is not where its locator says");
  }
  DELTA_RETURN_IF_ERROR(delta_file_read(file, offset, record, END64_BYTES));
  if (!has_signature(record, 6, 6)) return delta_status_make(MALFORMED, "the zip64 end record is not where its locator says");
  if (little_endian(record + 16, 4) != 0 || little_endian(record + 20, 4) != 0) {
    return delta_status_make(UNSUPPORTED, "an archive in several parts; join them first");
  }
  *directory = (zip_directory_t){.entry_count = little_endian(record + 32, 8),
                                 .size_bytes = little_endian(record + 40, 8),
                                 .offset = little_endian(record + 48, 8),
                                 .end_offset = offset};
  return DELTA_OK;
}

static delta_status_t find_directory(const delta_file_t *file, delta_allocator_t allocator, zip_directory_t *out_directory) {
  unsigned char record[END_BYTES];
  uint64_t end_offset = 0;
  DELTA_RETURN_IF_ERROR(find_end_record(file, allocator, record, &end_offset));
  if (little_endian(record + 4, 2) != 0 || little_endian(record + 6, 2) != 0) {
    return delta_status_make(UNSUPPORTED, "an archive in several parts; join them first");
  }
  *out_directory = (zip_directory_t){.entry_count = little_endian(record + 10, 2),
                                     .size_bytes = little_endian(record + 12, 4),
                                     .offset = little_endian(record + 16, 4),
                                     .end_offset = end_offset};
  DELTA_RETURN_IF_ERROR(read_end64_record(file, end_offset, out_directory));
  const zip_directory_t *directory = out_directory;
  if (directory->offset > directory->end_offset || directory->size_bytes != directory->end_offset - directory->offset) {
    return delta_status_make(MALFORMED, "the zip directory is not where the end record says");
  }
  if (directory->entry_count > directory->size_bytes / DIRECTORY_ENTRY_BYTES) {
    return delta_status_make(MALFORMED, "the zip directory is too short for its %llu entries", (unsigned long long)directory->entry_count);
  }
  if (directory->size_bytes > LARGEST_DIRECTORY_BYTES) {
    return delta_status_make(UNSUPPORTED, "a zip directory of %llu bytes; at most %d are read", (unsigned long long)directory->size_bytes,
                             LARGEST_DIRECTORY_BYTES);
  }
  return DELTA_OK;
}

// Takes the 64-bit values of the zip64 extra field for those that are 0xffffffff in the record, in the order of the specification.
static delta_status_t read_zip64_extra(const unsigned char *extra, size_t extra_bytes, delta_zip_entry_t *entry) {
  uint64_t *const fields[] = {&entry->size_bytes, &entry->stored_bytes, &entry->header_offset};
  const unsigned char *values = NULL;
  size_t value_bytes = 0;
  for (size_t at = 0; extra_bytes - at >= 4 && !values;) {
    size_t length = (size_t)little_endian(extra + at + 2, 2);
    if (length > extra_bytes - at - 4) return delta_status_make(MALFORMED, "entry '%s': its extra fields are cut short", entry->name);
    if (little_endian(extra + at, 2) == EXTRA_ZIP64) {
      values = extra + at + 4;
      value_bytes = length;
    }
    at += 4 + length;
  }
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; ++i) {
    if (*fields[i] != UINT32_MAX) continue;
    if (value_bytes < 8) return delta_status_make(MALFORMED, "entry '%s': its zip64 sizes are missing", entry->name);
    *fields[i] = little_endian(values, 8);
    values += 8;
    value_bytes -= 8;
  }
  return DELTA_OK;
}

static delta_status_t check_entry(const delta_zip_entry_t *entry, unsigned flags, unsigned method) {
  if (flags & FLAG_ENCRYPTED) return delta_status_make(UNSUPPORTED, "entry '%s' is encrypted", entry->name);
  if (method != METHOD_STORED && method != METHOD_DEFLATED) {
    return delta_status_make(UNSUPPORTED, "entry '%s' is compressed by method %u; read are 0 (stored) and 8 (deflated)", entry->name,
                             method);
  }
  if (!entry->is_deflated && entry->stored_bytes != entry->size_bytes) {
    return delta_status_make(MALFORMED, "entry '%s' is stored, but has two sizes", entry->name);
  }
  // Deflate cannot shrink by more than about 1032 to 1: a directory that promises more lies, and would cost disk space before that shows.
  if (entry->is_deflated && entry->size_bytes / 1040 > entry->stored_bytes) {
    return delta_status_make(MALFORMED, "entry '%s' promises more bytes than its compressed data can hold", entry->name);
  }
  return DELTA_OK;
}

// Appends the entry at `record`; *out_record_bytes is its length in the directory.
static delta_status_t read_directory_entry(delta_zip_t *zip, const unsigned char *record, size_t available, size_t *out_record_bytes) {
  if (available < DIRECTORY_ENTRY_BYTES || !has_signature(record, 1, 2)) {
    return delta_status_make(MALFORMED, "entry %zu of the zip directory is damaged", zip->entries.count);
  }
  size_t name_bytes = (size_t)little_endian(record + 28, 2), extra_bytes = (size_t)little_endian(record + 30, 2);
  *out_record_bytes = DIRECTORY_ENTRY_BYTES + name_bytes + extra_bytes + (size_t)little_endian(record + 32, 2);
  if (*out_record_bytes > available || memchr(record + DIRECTORY_ENTRY_BYTES, 0, name_bytes)) {
    return delta_status_make(MALFORMED, "entry %zu of the zip directory is damaged", zip->entries.count);
  }
  char *name;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&zip->region, (const char *)record + DIRECTORY_ENTRY_BYTES, name_bytes, &name));
  unsigned method = (unsigned)little_endian(record + 10, 2);
  delta_zip_entry_t entry = {.name = name,
                             .is_deflated = method == METHOD_DEFLATED,
                             .crc = (uint32_t)little_endian(record + 16, 4),
                             .stored_bytes = little_endian(record + 20, 4),
                             .size_bytes = little_endian(record + 24, 4),
                             .header_offset = little_endian(record + 42, 4)};
  DELTA_RETURN_IF_ERROR(read_zip64_extra(record + DIRECTORY_ENTRY_BYTES + name_bytes, extra_bytes, &entry));
  DELTA_RETURN_IF_ERROR(check_entry(&entry, (unsigned)little_endian(record + 8, 2), method));
  if (delta_map_find(&zip->names, name) != DELTA_MAP_NONE) return delta_status_make(MALFORMED, "entry '%s' is there twice", name);
  DELTA_RETURN_IF_ERROR(delta_map_set(&zip->names, name, (uint32_t)zip->entries.count));
  return delta_array_push(zip->file.allocator, &zip->entries, &entry);
}

static delta_status_t read_directory(delta_zip_t *zip, const zip_directory_t *directory) {
  delta_allocator_t allocator = zip->file.allocator;
  delta_status_t status = DELTA_OK;
  unsigned char *records = NULL;
  size_t size_bytes = (size_t)directory->size_bytes, at = 0;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, size_bytes, &records));
  DELTA_GOTO_IF_ERROR(status, delta_file_read(&zip->file, directory->offset, records, size_bytes), cleanup);
  for (uint64_t i = 0; i < directory->entry_count; ++i) {
    size_t record_bytes = 0;
    DELTA_GOTO_IF_ERROR(status, read_directory_entry(zip, records + at, size_bytes - at, &record_bytes), cleanup);
    at += record_bytes;
  }
  if (at != size_bytes) status = delta_status_make(MALFORMED, "the zip directory has more bytes than its entries");
cleanup:
  delta_release(allocator, records);
  return status;
}

static int compare_header_offsets(const void *a, const void *b) {
  const delta_zip_entry_t *const *left = a, *const *right = b;
  return ((*left)->header_offset > (*right)->header_offset) - ((*left)->header_offset < (*right)->header_offset);
}

// Sets limit_offset of every entry and checks that the entries fit between their neighbours: no two share bytes. What the local header adds
// to that is checked by delta_zip_locate.
static delta_status_t separate_entries(delta_zip_t *zip, uint64_t directory_offset) {
  delta_allocator_t allocator = zip->file.allocator;
  delta_zip_entry_t **sorted = NULL;
  size_t count = zip->entries.count;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, count, &sorted));
  for (size_t i = 0; i < count; ++i) sorted[i] = &zip->entries.items[i];
  qsort(sorted, count, sizeof *sorted, compare_header_offsets);
  delta_status_t status = DELTA_OK;
  for (size_t i = 0; i < count && !status; ++i) {
    delta_zip_entry_t *entry = sorted[i];
    entry->limit_offset = i + 1 < count ? sorted[i + 1]->header_offset : directory_offset;
    if (entry->header_offset > entry->limit_offset) {
      status = delta_status_make(MALFORMED, "entry '%s' begins beyond the zip directory", entry->name);
    } else if (entry->limit_offset - entry->header_offset < LOCAL_HEADER_BYTES ||
               entry->limit_offset - entry->header_offset - LOCAL_HEADER_BYTES < entry->stored_bytes) {
      status = delta_status_make(MALFORMED, "entry '%s' overlaps what comes after it", entry->name);
    }
  }
  delta_release(allocator, sorted);
  return status;
}

delta_status_t delta_zip_open(const char *path, delta_allocator_t allocator, delta_zip_t *out_zip) {
  delta_zip_t zip = {.file.descriptor = -1};
  zip_directory_t directory = {0};
  delta_status_t status = DELTA_OK;
  *out_zip = zip;
  DELTA_RETURN_IF_ERROR(delta_file_open(path, allocator, &zip.file));
  delta_region_init(&zip.region, allocator);
  delta_map_init(&zip.names, allocator);
  DELTA_GOTO_IF_ERROR(status, find_directory(&zip.file, allocator, &directory), cleanup);
  DELTA_GOTO_IF_ERROR(status, read_directory(&zip, &directory), cleanup);
  DELTA_GOTO_IF_ERROR(status, separate_entries(&zip, directory.offset), cleanup);
  *out_zip = zip;
  return DELTA_OK;
cleanup:
  delta_zip_close(&zip);
  return delta_status_annotate(status, "%s", path);
}

void delta_zip_close(delta_zip_t *zip) {
  delta_array_deinit(zip->file.allocator, &zip->entries);
  delta_map_deinit(&zip->names);
  delta_region_deinit(&zip->region);
  delta_file_close(&zip->file);
}

// Whether the local header's name is the directory's.
static delta_status_t compare_local_name(const delta_zip_t *zip, const delta_zip_entry_t *entry, bool *out_equal) {
  delta_allocator_t allocator = zip->file.allocator;
  size_t name_bytes = strlen(entry->name);
  char *name = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, name_bytes, &name));
  delta_status_t status = delta_file_read(&zip->file, entry->header_offset + LOCAL_HEADER_BYTES, name, name_bytes);
  if (!status) *out_equal = memcmp(name, entry->name, name_bytes) == 0;
  delta_release(allocator, name);
  return status;
}

delta_status_t delta_zip_locate(const delta_zip_t *zip, const delta_zip_entry_t *entry, uint64_t *out_offset) {
  unsigned char header[LOCAL_HEADER_BYTES];
  DELTA_RETURN_IF_ERROR(delta_file_read(&zip->file, entry->header_offset, header, sizeof header));
  size_t name_bytes = strlen(entry->name);
  uint64_t begin = LOCAL_HEADER_BYTES + little_endian(header + 26, 2) + little_endian(header + 28, 2);
  bool agrees = has_signature(header, 3, 4) && little_endian(header + 26, 2) == name_bytes &&
                little_endian(header + 8, 2) == (entry->is_deflated ? METHOD_DEFLATED : METHOD_STORED);
  if (agrees) DELTA_RETURN_IF_ERROR(compare_local_name(zip, entry, &agrees));
  if (!agrees) return delta_status_make(MALFORMED, "its local zip header does not agree with the directory");
  uint64_t room = entry->limit_offset - entry->header_offset;
  if (begin > room || entry->stored_bytes > room - begin) return delta_status_make(MALFORMED, "its zip data overlap what comes after them");
  *out_offset = entry->header_offset + begin;
  return DELTA_OK;
}

// What passes through a stream: content so far, its checksum, and where it goes.
typedef struct zip_content {
  const delta_zip_entry_t *entry;
  delta_zip_sink_t sink;
  uint64_t limit_bytes;
  uint64_t passed_bytes;
  uLong crc;
} zip_content_t;

static delta_status_t pass_content(zip_content_t *content, const unsigned char *data, size_t size_bytes) {
  uint64_t wanted = content->limit_bytes - content->passed_bytes;
  size_t passed = size_bytes < wanted ? size_bytes : (size_t)wanted;
  content->crc = crc32_z(content->crc, data, passed);
  content->passed_bytes += passed;
  return passed > 0 ? content->sink.write(content->sink.self, data, passed) : DELTA_OK;
}

static voidpf allocate_for_zlib(voidpf opaque, uInt count, uInt element_bytes) {
  const delta_allocator_t *allocator = opaque;
  size_t size_bytes;
  if (!delta_size_mul(count, element_bytes, &size_bytes) || size_bytes == 0) return Z_NULL;
  return allocator->allocate(allocator->self, size_bytes);
}

static void release_for_zlib(voidpf opaque, voidpf pointer) {
  const delta_allocator_t *allocator = opaque;
  allocator->release(allocator->self, pointer);
}

// The stored bytes of an entry, a piece at a time.
typedef struct zip_input {
  const delta_file_t *file;
  uint64_t offset, left_bytes;
  unsigned char *buffer; // STREAM_BYTES
} zip_input_t;

static delta_status_t next_input(zip_input_t *input, size_t *out_bytes) {
  *out_bytes = input->left_bytes < STREAM_BYTES ? (size_t)input->left_bytes : STREAM_BYTES;
  DELTA_RETURN_IF_ERROR(delta_file_read(input->file, input->offset, input->buffer, *out_bytes));
  input->offset += *out_bytes;
  input->left_bytes -= *out_bytes;
  return DELTA_OK;
}

static delta_status_t pass_stored(zip_input_t *input, zip_content_t *content) {
  while (content->passed_bytes < content->limit_bytes) {
    size_t bytes;
    DELTA_RETURN_IF_ERROR(next_input(input, &bytes));
    DELTA_RETURN_IF_ERROR(pass_content(content, input->buffer, bytes));
  }
  return DELTA_OK;
}

// Runs inflate until the limit has passed or, when the limit is the whole content, until the compressed data end.
static delta_status_t pass_inflated(z_stream *stream, zip_input_t *input, unsigned char *output, zip_content_t *content) {
  bool whole = content->limit_bytes == content->entry->size_bytes;
  int code = Z_OK;
  while (code != Z_STREAM_END && (whole || content->passed_bytes < content->limit_bytes)) {
    if (stream->avail_in == 0 && input->left_bytes > 0) {
      size_t bytes;
      DELTA_RETURN_IF_ERROR(next_input(input, &bytes));
      stream->next_in = input->buffer;
      stream->avail_in = (uInt)bytes;
    }
    stream->next_out = output;
    stream->avail_out = STREAM_BYTES;
    code = inflate(stream, Z_NO_FLUSH);
    if (code == Z_BUF_ERROR) return delta_status_make(MALFORMED, "its compressed data are cut short");
    if (code == Z_MEM_ERROR) return delta_status_make(OUT_OF_MEMORY, "no memory to inflate");
    if (code != Z_OK && code != Z_STREAM_END) return delta_status_make(MALFORMED, "its compressed data are damaged");
    size_t produced = STREAM_BYTES - stream->avail_out;
    if (whole && produced > content->limit_bytes - content->passed_bytes) {
      return delta_status_make(MALFORMED, "its compressed data hold more than the %llu bytes promised",
                               (unsigned long long)content->limit_bytes);
    }
    DELTA_RETURN_IF_ERROR(pass_content(content, output, produced));
  }
  if (whole && (stream->avail_in > 0 || input->left_bytes > 0)) return delta_status_make(MALFORMED, "bytes after its compressed data");
  return DELTA_OK;
}

static delta_status_t stream_inflated(delta_allocator_t *allocator, zip_input_t *input, unsigned char *output, zip_content_t *content) {
  z_stream stream = {.zalloc = allocate_for_zlib, .zfree = release_for_zlib, .opaque = allocator};
  enum { RAW_DEFLATE_WINDOW_BITS = -15 };
  if (inflateInit2(&stream, RAW_DEFLATE_WINDOW_BITS) != Z_OK) return delta_status_make(OUT_OF_MEMORY, "no memory to inflate");
  delta_status_t status = pass_inflated(&stream, input, output, content);
  (void)inflateEnd(&stream);
  return status;
}

delta_status_t delta_zip_stream(const delta_zip_t *zip, const delta_zip_entry_t *entry, uint64_t limit_bytes, delta_zip_sink_t sink) {
  assert(limit_bytes <= entry->size_bytes);
  delta_allocator_t allocator = zip->file.allocator;
  delta_status_t status = DELTA_OK;
  unsigned char *buffers = NULL;
  zip_input_t input = {.file = &zip->file, .left_bytes = entry->stored_bytes};
  zip_content_t content = {.entry = entry, .sink = sink, .limit_bytes = limit_bytes};
  DELTA_RETURN_IF_ERROR(delta_zip_locate(zip, entry, &input.offset));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 2 * STREAM_BYTES, &buffers));
  input.buffer = buffers;
  if (entry->is_deflated) {
    DELTA_GOTO_IF_ERROR(status, stream_inflated(&allocator, &input, buffers + STREAM_BYTES, &content), cleanup);
  } else {
    DELTA_GOTO_IF_ERROR(status, pass_stored(&input, &content), cleanup);
  }
  if (content.passed_bytes < limit_bytes) {
    status = delta_status_make(MALFORMED, "its compressed data hold %llu bytes, promised were %llu",
                               (unsigned long long)content.passed_bytes, (unsigned long long)limit_bytes);
  } else if (limit_bytes == entry->size_bytes && content.crc != entry->crc) {
    status = delta_status_make(MALFORMED, "its data are damaged (wrong checksum)");
  }
cleanup:
  delta_release(allocator, buffers);
  return status;
}
