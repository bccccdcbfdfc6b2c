// Drivers in the order of the table, each with the devices it has.
#include "cli/devices.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"
#include "runtime/profiler.h"

enum { NAME_WIDTH = 7 };

static double gigabytes(const delta_profile_t *profile, delta_profile_id_t id) { return 1e-9 * delta_profile_number(profile, id); }

// A driver that has not measured, as one whose disk cannot be written to, says nothing.
static void print_speeds(const delta_profile_t *profile) {
  if (!delta_profile_is_measured(profile, DELTA_PROFILE_PREFETCH_BESIDE)) return;
  printf("%*s  copies below %.2f GB/s, back %.2f GB/s, both at once %.2f GB/s; beside compute %.2f and %.2f GB/s\n", NAME_WIDTH, "",
         gigabytes(profile, DELTA_PROFILE_OFFLOAD), gigabytes(profile, DELTA_PROFILE_PREFETCH), gigabytes(profile, DELTA_PROFILE_SHARED),
         gigabytes(profile, DELTA_PROFILE_OFFLOAD_BESIDE), gigabytes(profile, DELTA_PROFILE_PREFETCH_BESIDE));
}

static delta_status_t print_device(const char *name, delta_log_sink_t log, delta_allocator_t allocator) {
  delta_device_t *device = NULL;
  delta_profiler_t *profiler = NULL;
  uint64_t free_bytes = 0;
  char size_text[DELTA_SIZE_TEXT_BYTES], threads[32] = "";
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_device_open(name, &(delta_device_options_t){.log = log}, allocator, &device), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_device_free_bytes(device, &free_bytes), cleanup);
  const delta_profiler_options_t options = {.device = device, .log = log};
  DELTA_GOTO_IF_ERROR(status, delta_profiler_create(&options, allocator, &profiler), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_profiler_measure_copies(profiler), cleanup);
  delta_profiler_keep(profiler);
  const delta_profile_t *profile = delta_profiler_profile(profiler);
  if (device->host_addressable) snprintf(threads, sizeof threads, "%d threads  ", device->threads);
  printf("%-*s  %s  %s%s  %s free  %s\n", NAME_WIDTH, name, profile->processor, threads, device->instruction_set,
         delta_size_text(free_bytes, size_text), device->libraries);
  print_speeds(profile);
cleanup:
  delta_profiler_destroy(profiler);
  delta_device_close(device);
  return status;
}

// A driver with one device calls it by its own name.
static delta_status_t print_driver(const char *driver, uint32_t count, delta_log_sink_t log, delta_allocator_t allocator) {
  for (uint32_t i = 0; i < count; ++i) {
    char name[32];
    snprintf(name, sizeof name, strcmp(driver, "cpu") == 0 ? "%s" : "%s:%u", driver, i);
    DELTA_RETURN_IF_ERROR(print_device(name, log, allocator));
  }
  return DELTA_OK;
}

delta_status_t delta_devices_print(delta_log_sink_t log, delta_allocator_t allocator) {
  const char *driver;
  for (uint32_t i = 0; (driver = delta_driver_name(i)) != NULL; ++i) {
    uint32_t count;
    delta_status_t status = delta_driver_count(driver, &count);
    if (delta_status_code(status) == DELTA_STATUS_NOT_FOUND) {
      printf("%-*s  none: %s\n", NAME_WIDTH, driver, delta_status_message(status));
      delta_status_free(status);
      continue;
    }
    if (!status) status = print_driver(driver, count, log, allocator);
    if (status) return status;
  }
  return DELTA_OK;
}

delta_status_t delta_devices_check(const char *device) {
  if (delta_text_ends_with(device, ".json") || delta_device_is_name(device)) return DELTA_OK;
  return delta_status_make(INVALID_ARGUMENT, "--device %s: there is no such device; give cpu, cuda, cuda:N or PROFILE.json", device);
}
