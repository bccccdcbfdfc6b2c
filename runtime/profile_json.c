// Profiles as files: one row per number for reading and writing.
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "plans/plan_json.h"
#include "runtime/profile.h"

#define PROFILE_FORMAT "delta profile"
enum { PROFILE_LIMIT_BYTES = 256 << 20, KERNEL_NAME_BYTES = 64, MOST_THREADS = 1024 };
static const double most_seconds = 1e6, most_workspace_bytes = 1e15;

typedef struct number_row {
  const char *name;
  double least, most;
} number_row_t;

static const number_row_t number_rows[] = {
#define NUMBER_ROW(id, name, least, most) {#name, least, most},
    DELTA_PROFILE_NUMBERS(NUMBER_ROW)
#undef NUMBER_ROW
};
// Of the optional numbers those that are there are read.
enum { FIRST_OPTIONAL = DELTA_PROFILE_OFFLOAD_BESIDE };

// ---- Writing

static int by_key(const void *a, const void *b) {
  return strcmp((*(const delta_profile_entry_t *const *)a)->key, (*(const delta_profile_entry_t *const *)b)->key);
}

static void write_numbers(delta_json_writer_t *writer, const delta_profile_t *profile) {
  delta_json_begin_object(writer, "numbers");
  for (uint32_t id = 0; id < DELTA_PROFILE_COUNT; ++id) {
    const delta_profile_number_t *number = &profile->numbers[id];
    if (!number->source) continue;
    delta_json_begin_inline_object(writer, number_rows[id].name);
    delta_json_write_double(writer, "value", number->value);
    delta_json_write_string(writer, "source", number->source);
    delta_json_end_object(writer);
  }
  delta_json_end_object(writer);
}

static void write_entry(delta_json_writer_t *writer, const delta_profile_entry_t *entry) {
  delta_json_begin_inline_object(writer, entry->kernel);
  delta_json_write_double(writer, "seconds", entry->seconds);
  if (entry->workspace_bytes) delta_json_write_int64(writer, "workspace_bytes", (int64_t)entry->workspace_bytes);
  delta_json_end_object(writer);
}

// In the order of their keys, kernels in that of preference: equal profiles give equal files.
static delta_status_t write_entries(delta_json_writer_t *writer, const delta_profile_t *profile) {
  const delta_profile_entry_t **sorted = NULL;
  size_t count = 0;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(profile->allocator, profile->entries.count, &sorted));
  for (size_t i = 0; i < profile->entries.count; ++i) {
    const delta_profile_entry_t *entry = &profile->entries.items[i];
    if (delta_profile_first(profile, entry->key) == entry) sorted[count++] = entry;
  }
  if (count > 1) qsort(sorted, count, sizeof *sorted, by_key);
  delta_json_begin_object(writer, "kernels");
  for (size_t i = 0; i < count; ++i) {
    delta_json_begin_object(writer, sorted[i]->key);
    for (const delta_profile_entry_t *entry = sorted[i]; entry; entry = delta_profile_next(profile, entry)) write_entry(writer, entry);
    delta_json_end_object(writer);
  }
  delta_json_end_object(writer);
  delta_release(profile->allocator, sorted);
  return DELTA_OK;
}

delta_status_t delta_profile_to_json(const delta_profile_t *profile, delta_text_t *text) {
  delta_json_writer_t writer;
  delta_json_writer_init(&writer, text, false);
  delta_json_begin_object(&writer, NULL);
  delta_json_write_string(&writer, "format", PROFILE_FORMAT);
  delta_json_write_int64(&writer, "version", DELTA_PROFILE_VERSION);
  delta_json_write_string(&writer, "device", profile->device);
  delta_json_write_string(&writer, "processor", profile->processor);
  delta_json_write_string(&writer, "instruction_set", profile->instruction_set);
  delta_json_write_string(&writer, "libraries", profile->libraries);
  delta_json_write_int64(&writer, "threads", profile->threads);
  if (profile->math == DELTA_FLOAT_MATH_TF32) delta_json_write_string(&writer, "math", delta_float_math_names.names[profile->math]);
  write_numbers(&writer, profile);
  const delta_status_t status = write_entries(&writer, profile);
  delta_json_end_object(&writer);
  return delta_status_join(status, delta_json_writer_finish(&writer));
}

delta_status_t delta_profile_write(const delta_profile_t *profile, const char *path) {
  delta_text_t text;
  delta_text_init(&text, profile->allocator);
  delta_file_writer_t file = {.descriptor = -1};
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, delta_profile_to_json(profile, &text), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_file_writer_open(path, profile->allocator, &file), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_file_writer_write(&file, text.items, strlen(text.items)), cleanup);
  status = delta_file_writer_commit(&file);
cleanup:
  delta_file_writer_close(&file);
  delta_text_deinit(&text);
  return status;
}

// ---- Reading

typedef struct profile_reader {
  const delta_json_document_t *document;
  const char *name; // of the file
  bool is_forgiving;
  delta_profile_t *profile;
} profile_reader_t;

// Consumes what is wrong with one number or cost, where it may be left out.
static delta_status_t forgive(const profile_reader_t *reader, delta_status_t status) {
  if (!reader->is_forgiving || delta_status_code(status) != DELTA_STATUS_MALFORMED) return status;
  delta_status_free(status);
  return DELTA_OK;
}

static delta_status_t copy_text(const profile_reader_t *reader, const delta_json_value_t *object, const char *key, size_t most_bytes,
                                const char **out_text) {
  const char *text = NULL;
  char *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_string(reader->document, object, key, &text));
  const size_t length = strlen(text);
  if (length == 0 || length >= most_bytes)
    return delta_status_make(MALFORMED, "%s: %s: expected a text of 1 to %zu characters", reader->name, key, most_bytes - 1);
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&reader->profile->region, text, length, &copy));
  *out_text = copy;
  return DELTA_OK;
}

// Left out of profiles of float32 as it is.
static delta_status_t read_math(const profile_reader_t *reader, const delta_json_value_t *root) {
  const char *name = NULL, *tf32 = delta_float_math_names.names[DELTA_FLOAT_MATH_TF32];
  if (!delta_json_find(root, "math")) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_json_get_string(reader->document, root, "math", &name));
  if (strcmp(name, tf32) != 0)
    return delta_status_make(MALFORMED, "%s: math: expected '%s', or no such member; there is '%s'", reader->name, tf32, name);
  reader->profile->math = DELTA_FLOAT_MATH_TF32;
  return DELTA_OK;
}

static delta_status_t read_origin(const profile_reader_t *reader, const delta_json_value_t *root) {
  enum { NAME_BYTES = 64, TEXT_BYTES = 256 };
  delta_profile_t *profile = reader->profile;
  const char *format = NULL;
  int64_t version, threads;
  DELTA_RETURN_IF_ERROR(delta_json_get_string(reader->document, root, "format", &format));
  if (strcmp(format, PROFILE_FORMAT) != 0)
    return delta_status_make(MALFORMED, "%s: format: expected '" PROFILE_FORMAT "', there is '%s'", reader->name, format);
  DELTA_RETURN_IF_ERROR(
      delta_status_annotate(delta_json_get_int64(reader->document, root, "version", DELTA_PROFILE_VERSION, DELTA_PROFILE_VERSION, &version),
                            "a profile of another version of deltaplan (make it again with --save-profile)"));
  DELTA_RETURN_IF_ERROR(copy_text(reader, root, "device", DELTA_DEVICE_NAME_BYTES, &profile->device));
  DELTA_RETURN_IF_ERROR(copy_text(reader, root, "processor", TEXT_BYTES, &profile->processor));
  DELTA_RETURN_IF_ERROR(copy_text(reader, root, "instruction_set", NAME_BYTES, &profile->instruction_set));
  DELTA_RETURN_IF_ERROR(copy_text(reader, root, "libraries", TEXT_BYTES, &profile->libraries));
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, root, "threads", 1, MOST_THREADS, &threads));
  profile->threads = (int32_t)threads;
  return read_math(reader, root);
}

// A finite number of an object's member within [least, most].
static delta_status_t read_within(const profile_reader_t *reader, const delta_json_value_t *object, const char *owner, const char *key,
                                  double least, double most, double *out_value) {
  DELTA_RETURN_IF_ERROR(delta_json_get_double(reader->document, object, key, out_value));
  if (*out_value >= least && *out_value <= most) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s: %s.%s: expected a number from %g to %g, there is %g", reader->name, owner, key, least, most,
                           *out_value);
}

static delta_status_t read_number(const profile_reader_t *reader, const delta_json_value_t *numbers, uint32_t id) {
  const number_row_t *row = &number_rows[id];
  const delta_json_value_t *object = NULL;
  if (id >= FIRST_OPTIONAL && !delta_json_find(numbers, row->name)) return DELTA_OK;
  delta_profile_number_t number = {0};
  DELTA_RETURN_IF_ERROR(delta_json_get_object(reader->document, numbers, row->name, &object));
  enum { SOURCE_BYTES = 512 };
  DELTA_RETURN_IF_ERROR(copy_text(reader, object, "source", SOURCE_BYTES, &number.source));
  DELTA_RETURN_IF_ERROR(read_within(reader, object, row->name, "value", row->least, row->most, &number.value));
  reader->profile->numbers[id] = number;
  return DELTA_OK;
}

static bool is_known_number(const char *name) {
  for (uint32_t id = 0; id < DELTA_PROFILE_COUNT; ++id) {
    if (strcmp(number_rows[id].name, name) == 0) return true;
  }
  return false;
}

static bool is_power_of_two(double value) {
  int exponent;
  return frexp(value, &exponent) == 0.5;
}

// What sizes are to each other.
static delta_status_t check_sizes(const profile_reader_t *reader) {
  const delta_profile_t *profile = reader->profile;
  const double memory_bytes = delta_profile_number(profile, DELTA_PROFILE_MEMORY_BYTES),
               reserve_bytes = delta_profile_number(profile, DELTA_PROFILE_RESERVE_BYTES),
               granule_bytes = delta_profile_number(profile, DELTA_PROFILE_GRANULE_BYTES),
               alignment_bytes = delta_profile_number(profile, DELTA_PROFILE_ALIGNMENT_BYTES);
  if (reserve_bytes >= memory_bytes)
    return delta_status_make(MALFORMED, "%s: numbers.reserve_bytes: expected less than memory_bytes (%.0f), there is %.0f", reader->name,
                             memory_bytes, reserve_bytes);
  if (!is_power_of_two(granule_bytes))
    return delta_status_make(MALFORMED, "%s: numbers.granule_bytes: expected a power of two, there is %g", reader->name, granule_bytes);
  if (!is_power_of_two(alignment_bytes) || alignment_bytes > granule_bytes)
    return delta_status_make(MALFORMED, "%s: numbers.alignment_bytes: expected a power of two up to granule_bytes (%.0f), there is %g",
                             reader->name, granule_bytes, alignment_bytes);
  return DELTA_OK;
}

static delta_status_t read_numbers(const profile_reader_t *reader, const delta_json_value_t *root) {
  const delta_json_value_t *numbers = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_object(reader->document, root, "numbers", &numbers));
  for (uint32_t id = 0; id < DELTA_PROFILE_COUNT; ++id) DELTA_RETURN_IF_ERROR(forgive(reader, read_number(reader, numbers, id)));
  if (reader->is_forgiving) return DELTA_OK;
  for (const delta_json_value_t *member = delta_json_first(numbers); member; member = delta_json_next(member)) {
    if (!is_known_number(delta_json_key(member)))
      return delta_status_make(MALFORMED, "%s: numbers.%s: a profile has no such number (docs/profile-format.md lists them)", reader->name,
                               delta_json_key(member));
  }
  return check_sizes(reader);
}

static delta_status_t check_key(const profile_reader_t *reader, const char *key, size_t most_bytes) {
  if (key[0] != '\0' && strlen(key) < most_bytes) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s: kernels.%.40s: expected a key of 1 to %zu characters", reader->name, key, most_bytes - 1);
}

// One kernel's cost. Members are not looked up by their keys: there may be many.
static delta_status_t read_entry(const profile_reader_t *reader, const char *key, const delta_json_value_t *member) {
  delta_profile_entry_t entry = {.key = key, .kernel = delta_json_key(member)};
  double workspace_bytes = 0;
  DELTA_RETURN_IF_ERROR(check_key(reader, entry.kernel, KERNEL_NAME_BYTES));
  DELTA_RETURN_IF_ERROR(read_within(reader, member, key, "seconds", DBL_MIN, most_seconds, &entry.seconds));
  if (delta_json_find(member, "workspace_bytes"))
    DELTA_RETURN_IF_ERROR(read_within(reader, member, key, "workspace_bytes", 0, most_workspace_bytes, &workspace_bytes));
  entry.workspace_bytes = (size_t)workspace_bytes;
  return delta_profile_set(reader->profile, &entry);
}

// The costs under one key.
static delta_status_t read_entries(const profile_reader_t *reader, const delta_json_value_t *kernels) {
  const char *key = delta_json_key(kernels);
  DELTA_RETURN_IF_ERROR(check_key(reader, key, DELTA_PROFILE_KEY_BYTES));
  if (!delta_json_is_object(kernels))
    return delta_status_make(MALFORMED, "%s: kernels.%s: expected an object of kernels", reader->name, key);
  for (const delta_json_value_t *member = delta_json_first(kernels); member; member = delta_json_next(member))
    DELTA_RETURN_IF_ERROR(forgive(reader, read_entry(reader, key, member)));
  return DELTA_OK;
}

static delta_status_t read_profile(const profile_reader_t *reader) {
  const delta_json_value_t *root = delta_json_root(reader->document), *kernels = NULL;
  DELTA_RETURN_IF_ERROR(read_origin(reader, root));
  DELTA_RETURN_IF_ERROR(read_numbers(reader, root));
  DELTA_RETURN_IF_ERROR(delta_json_get_object(reader->document, root, "kernels", &kernels));
  for (const delta_json_value_t *member = delta_json_first(kernels); member; member = delta_json_next(member))
    DELTA_RETURN_IF_ERROR(forgive(reader, read_entries(reader, member)));
  return DELTA_OK;
}

delta_status_t delta_profile_parse(const char *text, size_t size_bytes, const char *name, delta_profile_reading_t reading,
                                   delta_allocator_t allocator, delta_profile_t **out_profile) {
  *out_profile = NULL;
  delta_json_document_t *document = NULL;
  profile_reader_t reader = {.name = name, .is_forgiving = reading == DELTA_PROFILE_FORGIVING};
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_json_parse(text, size_bytes, name, allocator, &document), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_profile_create_empty(allocator, &reader.profile), cleanup);
  reader.document = document;
  DELTA_GOTO_IF_ERROR(status, read_profile(&reader), cleanup);
  *out_profile = reader.profile;
  reader.profile = NULL;
cleanup:
  delta_profile_free(reader.profile);
  delta_json_free(document);
  return delta_status_annotate(status, "profile");
}

delta_status_t delta_profile_load(const char *path, delta_profile_reading_t reading, delta_allocator_t allocator,
                                  delta_profile_t **out_profile) {
  char *text = NULL;
  size_t size_bytes;
  *out_profile = NULL;
  DELTA_RETURN_IF_ERROR(delta_status_annotate(delta_file_read_all(path, PROFILE_LIMIT_BYTES, allocator, &text, &size_bytes), "profile"));
  const delta_status_t status = delta_profile_parse(text, size_bytes, path, reading, allocator, out_profile);
  delta_release(allocator, text);
  return status;
}

delta_status_t delta_profile_read(delta_profile_t *profile, const char *path, delta_profile_reading_t reading) {
  delta_profile_t *other = NULL;
  DELTA_RETURN_IF_ERROR(delta_profile_load(path, reading, profile->allocator, &other));
  const delta_status_t status = delta_profile_merge(profile, other, path);
  delta_profile_free(other);
  return status;
}
