// Costs by key, numbers by name, and where they are kept.
#include "runtime/profile.h"

#include <stdio.h>
#include <string.h>

#include <delta/version.h>

#include "base/sha256.h"
#include "base/text.h"
#include "onnx/graph/graph_write.h"
#include "onnx/graph/virtual.h"
#include "plans/plan_json.h"
#include "runtime/cache.h"

// The processor as its maker or the system names it: speeds of one are not those of another.
static delta_status_t read_processor(delta_profile_t *profile, const delta_device_t *device) {
  static const char *const label = "model name";
  char line[256], *name = NULL;
  const bool is_host = device->processor[0] == '\0';
  if (!is_host) name = strcpy(line, device->processor);
  FILE *file = is_host ? fopen("/proc/cpuinfo", "r") : NULL;
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
  profile->device = device->name;
  profile->threads = device->threads;
  profile->math = device->math;
  DELTA_RETURN_IF_ERROR(
      delta_region_copy_string(&profile->region, device->instruction_set, strlen(device->instruction_set), &instruction_set));
  DELTA_RETURN_IF_ERROR(delta_region_format(&profile->region, &libraries, "delta %s, %s", DELTA_VERSION_STRING, device->libraries));
  profile->instruction_set = instruction_set;
  profile->libraries = libraries;
  return read_processor(profile, device);
}

const char delta_profile_measured[] = "measured";

static delta_status_t describe_device(delta_profile_t *profile, delta_device_t *device) {
  static const char *const assumed = "assumed until it is measured";
  uint64_t free_bytes = 0;
  DELTA_RETURN_IF_ERROR(delta_device_free_bytes(device, &free_bytes));
  delta_profile_set_number(profile, DELTA_PROFILE_MEMORY_BYTES, (double)(free_bytes + device->reserve_bytes),
                           "free when the profile was made");
  delta_profile_set_number(profile, DELTA_PROFILE_RESERVE_BYTES, (double)device->reserve_bytes, "what others use is not in memory_bytes");
  delta_profile_set_number(profile, DELTA_PROFILE_GRANULE_BYTES, (double)device->granule_bytes, "the driver");
  delta_profile_set_number(profile, DELTA_PROFILE_ALIGNMENT_BYTES, (double)device->alignment_bytes, "the driver");
#define SET_ROOFLINE(id, field, least, most) delta_profile_set_number(profile, DELTA_PROFILE_##id, device->roofline.field, assumed);
  DELTA_ROOFLINE_NUMBERS(SET_ROOFLINE)
#undef SET_ROOFLINE
  delta_profile_set_number(profile, DELTA_PROFILE_OFFLOAD, device->offload_bytes_per_second, assumed);
  delta_profile_set_number(profile, DELTA_PROFILE_PREFETCH, device->prefetch_bytes_per_second, assumed);
  delta_profile_set_number(profile, DELTA_PROFILE_SHARED, 0, assumed);
  return DELTA_OK;
}

delta_status_t delta_profile_create_empty(delta_allocator_t allocator, delta_profile_t **out_profile) {
  *out_profile = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, out_profile));
  delta_profile_t *profile = *out_profile;
  profile->allocator = allocator;
  delta_region_init(&profile->region, allocator);
  delta_map_init(&profile->keys, allocator);
  profile->math = DELTA_FLOAT_MATH_FLOAT32;
  return DELTA_OK;
}

delta_status_t delta_profile_create(delta_device_t *device, delta_allocator_t allocator, delta_profile_t **out_profile) {
  *out_profile = NULL;
  delta_profile_t *profile = NULL;
  delta_status_t status;
  DELTA_RETURN_IF_ERROR(delta_profile_create_empty(allocator, &profile));
  DELTA_GOTO_IF_ERROR(status, name_device(profile, device), cleanup);
  DELTA_GOTO_IF_ERROR(status, describe_device(profile, device), cleanup);
  *out_profile = profile;
  profile = NULL;
cleanup:
  delta_profile_free(profile);
  return status;
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
  for (uint32_t k = 0; k < node->input_count; ++k) {
    write_tensor(sink, delta_node_input(graph, node, k));
    if (delta_virtual_node(graph, node->inputs[k])) delta_graph_write(sink, " in parts");
  }
  delta_graph_write(sink, " ->");
  for (uint32_t k = 0; k < node->output_count; ++k) write_tensor(sink, delta_node_output(graph, node, k));
  char digest[DELTA_SHA256_TEXT_BYTES];
  delta_sha256_final_text(&hash, digest);
  snprintf(out_key, DELTA_PROFILE_KEY_BYTES, "%s/%.*s", delta_core_op_info(node->op)->name, DIGITS, digest);
}

void delta_profile_set_number(delta_profile_t *profile, delta_profile_id_t id, double value, const char *source) {
  profile->numbers[id] = (delta_profile_number_t){.value = value, .source = source};
}

bool delta_profile_is_measured(const delta_profile_t *profile, delta_profile_id_t id) {
  const char *source = profile->numbers[id].source;
  return source && strcmp(source, delta_profile_measured) == 0;
}

delta_roofline_t delta_profile_roofline(const delta_profile_t *profile) {
#define ROOFLINE_FIELD(id, field, least, most) .field = profile->numbers[DELTA_PROFILE_##id].value,
  return (delta_roofline_t){DELTA_ROOFLINE_NUMBERS(ROOFLINE_FIELD)};
#undef ROOFLINE_FIELD
}

const delta_profile_entry_t *delta_profile_first(const delta_profile_t *profile, const char *key) {
  const uint32_t index = delta_map_find(&profile->keys, key);
  return index == DELTA_MAP_NONE ? NULL : &profile->entries.items[index];
}

const delta_profile_entry_t *delta_profile_next(const delta_profile_t *profile, const delta_profile_entry_t *entry) {
  return entry->next == DELTA_MAP_NONE ? NULL : &profile->entries.items[entry->next];
}

const delta_profile_entry_t *delta_profile_find(const delta_profile_t *profile, const char *key, const char *kernel) {
  const delta_profile_entry_t *entry = profile ? delta_profile_first(profile, key) : NULL;
  while (entry && strcmp(entry->kernel, kernel) != 0) entry = delta_profile_next(profile, entry);
  return entry;
}

bool delta_profile_is_better(const delta_profile_entry_t *later, const delta_profile_entry_t *best) {
  enum { SMALL_BYTES = 1 << 20 };
  static const double clearly = 0.95, worth_memory = 0.85;
  if (later->workspace_bytes > best->workspace_bytes + SMALL_BYTES) return later->seconds < worth_memory * best->seconds;
  if (later->workspace_bytes + SMALL_BYTES < best->workspace_bytes) return worth_memory * later->seconds < best->seconds;
  return later->seconds < clearly * best->seconds;
}

const delta_profile_entry_t *delta_profile_best(const delta_profile_t *profile, const char *key, size_t most_workspace_bytes) {
  const delta_profile_entry_t *first = profile ? delta_profile_first(profile, key) : NULL, *best = NULL;
  for (const delta_profile_entry_t *entry = first; entry; entry = delta_profile_next(profile, entry)) {
    if (entry->workspace_bytes > most_workspace_bytes) continue;
    if (!best || delta_profile_is_better(entry, best)) best = entry;
  }
  return best ? best : first;
}

static delta_status_t copy_string(delta_profile_t *profile, const char *text, const char **out_copy) {
  char *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&profile->region, text, strlen(text), &copy));
  *out_copy = copy;
  return DELTA_OK;
}

// Adds an entry under a key whose last one is `last`, or that is new.
static delta_status_t append_entry(delta_profile_t *profile, const delta_profile_entry_t *entry, uint32_t last) {
  const uint32_t index = (uint32_t)profile->entries.count;
  delta_profile_entry_t copy = *entry;
  copy.next = DELTA_MAP_NONE;
  DELTA_RETURN_IF_ERROR(copy_string(profile, entry->kernel, &copy.kernel));
  DELTA_RETURN_IF_ERROR(copy_string(profile, entry->key, &copy.key));
  DELTA_RETURN_IF_ERROR(delta_array_push(profile->allocator, &profile->entries, &copy));
  if (last == DELTA_MAP_NONE) return delta_map_set(&profile->keys, copy.key, index);
  profile->entries.items[last].next = index;
  return DELTA_OK;
}

delta_status_t delta_profile_set(delta_profile_t *profile, const delta_profile_entry_t *entry) {
  uint32_t last = DELTA_MAP_NONE;
  for (uint32_t i = delta_map_find(&profile->keys, entry->key); i != DELTA_MAP_NONE; i = profile->entries.items[i].next) {
    delta_profile_entry_t *found = &profile->entries.items[i];
    last = i;
    if (strcmp(found->kernel, entry->kernel) != 0) continue;
    found->seconds = entry->seconds;
    found->workspace_bytes = entry->workspace_bytes;
    return DELTA_OK;
  }
  return append_entry(profile, entry, last);
}

// ---- One profile into another

static delta_status_t check_text(const char *path, const char *what, const char *found, const char *wanted) {
  if (strcmp(found, wanted) == 0) return DELTA_OK;
  return delta_status_make(MISMATCH,
                           "profile '%s': %s is '%s', here it is '%s': measure again on this machine, or plan for that one with --device",
                           path, what, found, wanted);
}

static delta_status_t check_origin(const delta_profile_t *profile, const delta_profile_t *other, const char *path) {
  DELTA_RETURN_IF_ERROR(check_text(path, "device", other->device, profile->device));
  DELTA_RETURN_IF_ERROR(check_text(path, "processor", other->processor, profile->processor));
  DELTA_RETURN_IF_ERROR(check_text(path, "instruction_set", other->instruction_set, profile->instruction_set));
  DELTA_RETURN_IF_ERROR(check_text(path, "libraries", other->libraries, profile->libraries));
  if (other->math != profile->math)
    return delta_status_make(MISMATCH, "profile '%s': it is for products by %s, here they are by %s: give --math %s, or measure again",
                             path, delta_float_math_names.names[other->math], delta_float_math_names.names[profile->math],
                             delta_float_math_names.names[other->math]);
  if (other->threads == profile->threads) return DELTA_OK;
  return delta_status_make(MISMATCH, "profile '%s': it is for %d threads, here there are %d: give --threads %d, or measure again", path,
                           other->threads, profile->threads, other->threads);
}

static delta_status_t merge_numbers(delta_profile_t *profile, const delta_profile_t *other) {
  for (uint32_t id = 0; id < DELTA_PROFILE_COUNT; ++id) {
    const delta_profile_number_t *number = &other->numbers[id];
    char *source = NULL;
    if (!number->source) continue;
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&profile->region, number->source, strlen(number->source), &source));
    profile->numbers[id] = (delta_profile_number_t){.value = number->value, .source = source};
  }
  return DELTA_OK;
}

delta_status_t delta_profile_merge(delta_profile_t *profile, const delta_profile_t *other, const char *path) {
  DELTA_RETURN_IF_ERROR(check_origin(profile, other, path));
  DELTA_RETURN_IF_ERROR(merge_numbers(profile, other));
  for (size_t i = 0; i < other->entries.count; ++i) DELTA_RETURN_IF_ERROR(delta_profile_set(profile, &other->entries.items[i]));
  return DELTA_OK;
}

// ---- Cache

delta_status_t delta_profile_cache_path(const delta_profile_t *profile, char **out_path) {
  delta_sha256_t hash;
  delta_sha256_init(&hash);
  delta_sha256_update(&hash, profile->processor, strlen(profile->processor));
  delta_sha256_update(&hash, profile->libraries, strlen(profile->libraries));
  char digest[DELTA_SHA256_TEXT_BYTES];
  delta_sha256_final_text(&hash, digest);
  delta_text_t name;
  delta_text_init(&name, profile->allocator);
  delta_status_t status =
      delta_text_append(&name, "%s-%s%s-%dthreads-v%d-%.12s.json", profile->device, profile->instruction_set,
                        profile->math == DELTA_FLOAT_MATH_TF32 ? "-tf32" : "", profile->threads, DELTA_PROFILE_VERSION, digest);
  if (!status) status = delta_cache_path(name.items, profile->allocator, out_path);
  delta_text_deinit(&name);
  return delta_status_annotate(status, "profile cache");
}
