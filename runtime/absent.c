// A driver without arena and kernels: whatever would run is refused, so the functions behind those are never reached.
#include "runtime/absent.h"

#include <stdio.h>
#include <string.h>

#include <delta/version.h>

#include "onnx/graph/units.h"
#include "onnx/graph/virtual.h"
#include "plans/plan_json.h"
#include "runtime/profile.h"

const char delta_absent_kernel[] = "estimated";

static void absent_destroy(delta_device_t *device) {
  delta_profile_free((delta_profile_t *)device->profile);
  delta_release(device->allocator, device);
}

static delta_status_t refuse(const delta_device_t *device) {
  return delta_status_make(UNSUPPORTED, "device '%s' is known by its profile alone: it can be planned for, and runs nothing here",
                           device->name);
}

static delta_status_t absent_arena_reserve(delta_device_t *device, size_t reserve_bytes, delta_arena_t **out_arena) {
  (void)reserve_bytes, (void)out_arena;
  return refuse(device);
}

static delta_status_t absent_kernel_prepare(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node, uint32_t rank,
                                            delta_kernel_t **out_kernel) {
  (void)graph, (void)node, (void)rank, (void)out_kernel;
  return refuse(device);
}

static void absent_kernel_destroy(delta_kernel_t *kernel) { (void)kernel; }

// Kernels for groups of updates, and such as take parts in place of a whole, are there where they were measured.
static bool is_expected(const delta_graph_t *graph, const delta_node_t *node) {
  return node->op != DELTA_CORE_EACH && !delta_reads_virtual(graph, node);
}

// The kernels that were measured, or one that stands for whatever will run the node.
static delta_status_t absent_kernel_query(delta_device_t *device, const delta_graph_t *graph, delta_node_id_t node, uint32_t rank,
                                          delta_kernel_offer_t *out_offer, bool *out_exists) {
  char key[DELTA_PROFILE_KEY_BYTES];
  delta_profile_key(graph, delta_graph_node(graph, node), key);
  const delta_profile_entry_t *entry = delta_profile_first(device->profile, key);
  *out_exists = entry || rank == 0;
  *out_offer =
      (delta_kernel_offer_t){.name = delta_absent_kernel, .works_in_row = delta_units_are_few(graph, delta_graph_node(graph, node))};
  if (!entry && !is_expected(graph, delta_graph_node(graph, node))) out_offer->refusal = "no kernel for it was measured";
  for (uint32_t k = 0; entry && k < rank; ++k) entry = delta_profile_next(device->profile, entry);
  if (rank > 0) *out_exists = entry != NULL;
  if (!entry) return DELTA_OK;
  out_offer->name = entry->kernel;
  out_offer->workspace_bytes = entry->workspace_bytes;
  return DELTA_OK;
}

// memory_bytes less reserve_bytes.
static delta_status_t absent_free_bytes(delta_device_t *device, uint64_t *out_free_bytes) {
  const double memory_bytes = delta_profile_number(device->profile, DELTA_PROFILE_MEMORY_BYTES),
               reserve_bytes = delta_profile_number(device->profile, DELTA_PROFILE_RESERVE_BYTES);
  *out_free_bytes = (uint64_t)(memory_bytes - reserve_bytes);
  return DELTA_OK;
}

static const delta_device_driver_t absent_driver = {
    .destroy = absent_destroy,
    .free_bytes = absent_free_bytes,
    .arena_reserve = absent_arena_reserve,
    .kernel_query = absent_kernel_query,
    .kernel_prepare = absent_kernel_prepare,
    .kernel_destroy = absent_kernel_destroy,
};

// Profiles name our version before the libraries; a device does not.
static const char *libraries_of(const delta_profile_t *profile) {
  static const char own[] = "delta " DELTA_VERSION_STRING ", ";
  const size_t length = sizeof own - 1;
  return strncmp(profile->libraries, own, length) == 0 ? profile->libraries + length : profile->libraries;
}

static delta_status_t check_threads(const delta_profile_t *profile, const delta_device_options_t *options, const char *path) {
  if (options->threads == 0 || options->threads == profile->threads) return DELTA_OK;
  return delta_status_make(MISMATCH, "profile '%s' is for %d threads, --threads says %d: leave --threads out", path, profile->threads,
                           options->threads);
}

static delta_status_t check_math(const delta_profile_t *profile, const delta_device_options_t *options, const char *path) {
  if (options->math == DELTA_FLOAT_MATH_UNSAID || options->math == profile->math) return DELTA_OK;
  return delta_status_make(MISMATCH, "profile '%s' is for products by %s, --math says %s: leave --math out", path,
                           delta_float_math_names.names[profile->math], delta_float_math_names.names[options->math]);
}

static void describe(delta_device_t *device, const delta_profile_t *profile, const delta_device_options_t *options) {
  device->driver = &absent_driver;
  device->name = profile->device;
  device->log = options->log;
  device->threads = profile->threads;
  device->math = profile->math;
  device->reads_virtual = true;
  device->granule_bytes = (size_t)delta_profile_number(profile, DELTA_PROFILE_GRANULE_BYTES);
  device->alignment_bytes = (size_t)delta_profile_number(profile, DELTA_PROFILE_ALIGNMENT_BYTES);
  snprintf(device->instruction_set, sizeof device->instruction_set, "%s", profile->instruction_set);
  snprintf(device->libraries, sizeof device->libraries, "%s", libraries_of(profile));
  device->roofline = delta_profile_roofline(profile);
  device->offload_bytes_per_second = delta_profile_number(profile, DELTA_PROFILE_OFFLOAD);
  device->prefetch_bytes_per_second = delta_profile_number(profile, DELTA_PROFILE_PREFETCH);
}

delta_status_t delta_absent_device_open(const char *path, const delta_device_options_t *options, delta_allocator_t allocator,
                                        delta_device_t **out_device) {
  *out_device = NULL;
  delta_profile_t *profile = NULL;
  delta_device_t *device = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_profile_load(path, DELTA_PROFILE_STRICT, allocator, &profile));
  DELTA_GOTO_IF_ERROR(status, check_threads(profile, options, path), cleanup);
  DELTA_GOTO_IF_ERROR(status, check_math(profile, options, path), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, 1, &device), cleanup);
  describe(device, profile, options);
  device->allocator = allocator;
  device->profile = profile;
  profile = NULL;
  *out_device = device;
cleanup:
  delta_profile_free(profile);
  return status;
}

delta_status_t delta_device_open_any(const char *device, const delta_device_options_t *options, delta_allocator_t allocator,
                                     delta_device_t **out_device) {
  return delta_text_ends_with(device, ".json") ? delta_absent_device_open(device, options, allocator, out_device)
                                               : delta_device_open(device, options, allocator, out_device);
}
