// Costs by key, and their file.
#include "runtime/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <delta/version.h>

#include "base/file.h"
#include "base/json.h"
#include "base/sha256.h"
#include "onnx/graph/graph_write.h"

#define PROFILE_FORMAT "delta profile"
enum { PROFILE_VERSION = 1, PROFILE_LIMIT_BYTES = 256 << 20 };

// The processor as the system names it: speeds of one are not those of another.
static delta_status_t read_processor(delta_profile_t *profile) {
  static const char *const label = "model name";
  char line[256], *name = NULL;
  FILE *file = fopen("/proc/cpuinfo", "r");
  while (file && !name && fgets(line, sizeof line, file)) {
    char *colon = strncmp(line, label, strlen(label)) == 0 ? strchr(line, ':') : NULL;
    if (colon) name = colon + 1 + strspn(colon + 1, " ");
  }
  if (file) fclose(file);
  if (!name) name = strcpy(line, "unknown");
  name[strcspn(name, "\n")] = '\0';
  char *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&profile->region, name, strlen(name), &copy));
  profile->processor = copy;
  return DELTA_OK;
}

static delta_status_t name_device(delta_profile_t *profile, const delta_device_t *device) {
  char *instruction_set = NULL, *libraries = NULL;
  profile->device = device->driver->name;
  profile->threads = device->threads;
  DELTA_RETURN_IF_ERROR(
      delta_region_copy_string(&profile->region, device->instruction_set, strlen(device->instruction_set), &instruction_set));
  DELTA_RETURN_IF_ERROR(delta_region_format(&profile->region, &libraries, "delta %s, %s", DELTA_VERSION_STRING, device->libraries));
  profile->instruction_set = instruction_set;
  profile->libraries = libraries;
  return read_processor(profile);
}

delta_status_t delta_profile_create(const delta_device_t *device, delta_allocator_t allocator, delta_profile_t **out_profile) {
  *out_profile = NULL;
  delta_profile_t *profile = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &profile));
  profile->allocator = allocator;
  delta_region_init(&profile->region, allocator);
  delta_map_init(&profile->keys, allocator);
  delta_status_t status = name_device(profile, device);
  if (status) {
    delta_profile_free(profile);
    return status;
  }
  *out_profile = profile;
  return DELTA_OK;
}

void delta_profile_free(delta_profile_t *profile) {
  if (!profile) return;
  delta_array_deinit(profile->allocator, &profile->entries);
  delta_map_deinit(&profile->keys);
  delta_region_deinit(&profile->region);
  delta_release(profile->allocator, profile);
}

static void hash_text(void *self, const char *text, size_t length) { delta_sha256_update(self, text, length); }

static void write_tensor(delta_graph_sink_t sink, const delta_tensor_t *tensor) {
  char text[DELTA_SHAPE_TEXT_BYTES];
  if (tensor) delta_graph_write(sink, " %s%s", delta_dtype_name(tensor->dtype), delta_shape_text(&tensor->shape, text));
  if (!tensor) delta_graph_write(sink, " none");
}

void delta_profile_key(const delta_graph_t *graph, const delta_node_t *node, char out_key[DELTA_PROFILE_KEY_BYTES]) {
  enum { DIGITS = 32 };
  delta_sha256_t hash;
  delta_sha256_init(&hash);
  const delta_graph_sink_t sink = {&hash, hash_text};
  delta_graph_write_attrs(sink, node);
  for (uint32_t k = 0; k < node->input_count; ++k) write_tensor(sink, delta_node_input(graph, node, k));
  delta_graph_write(sink, " ->");
  for (uint32_t k = 0; k < node->output_count; ++k) write_tensor(sink, delta_node_output(graph, node, k));
  char digest[DELTA_SHA256_TEXT_BYTES];
  delta_sha256_final_text(&hash, digest);
  snprintf(out_key, DELTA_PROFILE_KEY_BYTES, "%s/%.*s", delta_core_op_info(node->op)->name, DIGITS, digest);
}

bool delta_profile_find(const delta_profile_t *profile, const char *key, double *out_seconds) {
  if (!profile) return false;
  const uint32_t index = delta_map_find(&profile->keys, key);
  if (index == DELTA_MAP_NONE) return false;
  *out_seconds = profile->entries.items[index].seconds;
  return true;
}

delta_status_t delta_profile_set(delta_profile_t *profile, const char *key, double seconds) {
  const uint32_t index = delta_map_find(&profile->keys, key);
  if (index != DELTA_MAP_NONE) {
    profile->entries.items[index].seconds = seconds;
    return DELTA_OK;
  }
  char *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&profile->region, key, strlen(key), &copy));
  const delta_profile_entry_t entry = {.key = copy, .seconds = seconds};
  DELTA_RETURN_IF_ERROR(delta_array_push(profile->allocator, &profile->entries, &entry));
  return delta_map_set(&profile->keys, copy, (uint32_t)profile->entries.count - 1);
}

static int by_key(const void *a, const void *b) {
  return strcmp((*(const delta_profile_entry_t *const *)a)->key, (*(const delta_profile_entry_t *const *)b)->key);
}

// Costs in the order of their keys: equal profiles give equal files.
static delta_status_t write_costs(delta_json_writer_t *writer, const delta_profile_t *profile) {
  const delta_profile_entry_t **sorted = NULL;
  const size_t count = profile->entries.count;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(profile->allocator, count, &sorted));
  for (size_t i = 0; i < count; ++i) sorted[i] = &profile->entries.items[i];
  qsort(sorted, count, sizeof *sorted, by_key);
  delta_json_begin_object(writer, "seconds");
  for (size_t i = 0; i < count; ++i) delta_json_write_double(writer, sorted[i]->key, sorted[i]->seconds);
  delta_json_end_object(writer);
  delta_release(profile->allocator, sorted);
  return DELTA_OK;
}

static delta_status_t profile_to_json(const delta_profile_t *profile, delta_text_t *text) {
  delta_json_writer_t writer;
  delta_json_writer_init(&writer, text, false);
  delta_json_begin_object(&writer, NULL);
  delta_json_write_string(&writer, "format", PROFILE_FORMAT);
  delta_json_write_int64(&writer, "version", PROFILE_VERSION);
  delta_json_write_string(&writer, "device", profile->device);
  delta_json_write_string(&writer, "processor", profile->processor);
  delta_json_write_string(&writer, "instruction_set", profile->instruction_set);
  delta_json_write_string(&writer, "libraries", profile->libraries);
  delta_json_write_int64(&writer, "threads", profile->threads);
#define WRITE_SPEED(field) delta_json_write_double(&writer, #field, profile->field);
  DELTA_PROFILE_SPEEDS(WRITE_SPEED)
#undef WRITE_SPEED
  const delta_status_t status = write_costs(&writer, profile);
  delta_json_end_object(&writer);
  return delta_status_join(status, delta_json_writer_finish(&writer));
}

delta_status_t delta_profile_write(const delta_profile_t *profile, const char *path) {
  delta_text_t text;
  delta_text_init(&text, profile->allocator);
  delta_file_writer_t file = {.descriptor = -1};
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, profile_to_json(profile, &text), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_file_writer_open(path, profile->allocator, &file), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_file_writer_write(&file, text.items, strlen(text.items)), cleanup);
  status = delta_file_writer_commit(&file);
cleanup:
  delta_file_writer_close(&file);
  delta_text_deinit(&text);
  return status;
}

static delta_status_t check_text(const delta_json_document_t *document, const char *path, const char *key, const char *wanted) {
  const char *found = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_string(document, delta_json_root(document), key, &found));
  if (strcmp(found, wanted) == 0) return DELTA_OK;
  return delta_status_make(MISMATCH, "profile '%s': %s is '%s', here it is '%s': measure again on this machine", path, key, found, wanted);
}

static delta_status_t check_origin(const delta_profile_t *profile, const delta_json_document_t *document, const char *path) {
  const delta_json_value_t *root = delta_json_root(document);
  int64_t version, threads;
  DELTA_RETURN_IF_ERROR(check_text(document, path, "format", PROFILE_FORMAT));
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(document, root, "version", PROFILE_VERSION, PROFILE_VERSION, &version));
  DELTA_RETURN_IF_ERROR(check_text(document, path, "device", profile->device));
  DELTA_RETURN_IF_ERROR(check_text(document, path, "processor", profile->processor));
  DELTA_RETURN_IF_ERROR(check_text(document, path, "instruction_set", profile->instruction_set));
  DELTA_RETURN_IF_ERROR(check_text(document, path, "libraries", profile->libraries));
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(document, root, "threads", 1, INT32_MAX, &threads));
  if (threads == profile->threads) return DELTA_OK;
  return delta_status_make(MISMATCH, "profile '%s': it is for %lld threads, here there are %d: give --threads %lld, or measure again", path,
                           (long long)threads, profile->threads, (long long)threads);
}

// A number that a clock can have given.
static bool read_positive(const delta_json_document_t *document, const delta_json_value_t *value, double *out_value) {
  delta_status_t status = delta_json_as_double(document, value, "", out_value);
  const bool is_good = !status && *out_value > 0;
  if (status) delta_status_free(status);
  return is_good;
}

static delta_status_t read_costs(delta_profile_t *profile, const delta_json_document_t *document) {
  const delta_json_value_t *root = delta_json_root(document), *costs = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_object(document, root, "seconds", &costs));
#define READ_SPEED(field)                                                        \
  {                                                                              \
    const delta_json_value_t *value = delta_json_find(root, #field);             \
    double speed;                                                                \
    if (value && read_positive(document, value, &speed)) profile->field = speed; \
  }
  DELTA_PROFILE_SPEEDS(READ_SPEED)
#undef READ_SPEED
  for (const delta_json_value_t *value = delta_json_first(costs); value; value = delta_json_next(value)) {
    double seconds;
    if (strlen(delta_json_key(value)) < DELTA_PROFILE_KEY_BYTES && read_positive(document, value, &seconds))
      DELTA_RETURN_IF_ERROR(delta_profile_set(profile, delta_json_key(value), seconds));
  }
  return DELTA_OK;
}

delta_status_t delta_profile_read(delta_profile_t *profile, const char *path) {
  char *text = NULL;
  size_t size_bytes;
  delta_json_document_t *document = NULL;
  delta_status_t status;
  DELTA_RETURN_IF_ERROR(delta_file_read_all(path, PROFILE_LIMIT_BYTES, profile->allocator, &text, &size_bytes));
  DELTA_GOTO_IF_ERROR(status, delta_json_parse(text, size_bytes, path, profile->allocator, &document), cleanup);
  DELTA_GOTO_IF_ERROR(status, check_origin(profile, document, path), cleanup);
  status = read_costs(profile, document);
cleanup:
  delta_json_free(document);
  delta_release(profile->allocator, text);
  return status;
}

// Makes a folder and those above it, from `path + base` on.
static bool make_folders(char *path, size_t base) {
  for (char *slash = strchr(path + base, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    const bool is_there = mkdir(path, 0700) == 0 || errno == EEXIST;
    *slash = '/';
    if (!is_there) return false;
  }
  return true;
}

delta_status_t delta_profile_cache_path(const delta_profile_t *profile, char **out_path) {
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME"), *below = "";
  if (!cache || cache[0] != '/') {
    cache = home;
    below = "/.cache";
  }
  if (!cache || cache[0] != '/') return delta_status_make(NOT_FOUND, "no folder for the profile cache: set XDG_CACHE_HOME or HOME");
  delta_sha256_t hash;
  delta_sha256_init(&hash);
  delta_sha256_update(&hash, profile->processor, strlen(profile->processor));
  delta_sha256_update(&hash, profile->libraries, strlen(profile->libraries));
  char digest[DELTA_SHA256_TEXT_BYTES];
  delta_sha256_final_text(&hash, digest);
  delta_text_t text;
  delta_text_init(&text, profile->allocator);
  const delta_status_t status = delta_text_append(&text, "%s%s/delta/%s-%s-%dthreads-%.12s.json", cache, below, profile->device,
                                                  profile->instruction_set, profile->threads, digest);
  if (status) {
    delta_text_deinit(&text);
    return status;
  }
  if (!make_folders(text.items, 1)) {
    const delta_status_t failure =
        delta_status_make(IO, "cannot make the folder of the profile cache '%s': %s", text.items, strerror(errno));
    delta_text_deinit(&text);
    return failure;
  }
  *out_path = text.items;
  return DELTA_OK;
}
