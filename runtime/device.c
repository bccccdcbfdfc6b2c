// Opening devices by name: one row per driver.
#include "runtime/device.h"

#include <string.h>

#include "runtime/absent.h"
#include "runtime/cpu/device.h"

typedef struct delta_driver_row {
  const char *name;
  delta_status_t (*open)(const delta_device_options_t *options, delta_allocator_t allocator, delta_device_t **out_device);
  delta_status_t (*free_bytes)(delta_device_t *device, uint64_t *out_free_bytes);
} delta_driver_row_t;

static const delta_driver_row_t driver_rows[] = {
    {"cpu", delta_cpu_device_open, delta_cpu_free_bytes},
};

static const delta_driver_row_t *find_driver(const char *name) {
  for (size_t i = 0; i < sizeof driver_rows / sizeof *driver_rows; ++i) {
    if (strcmp(driver_rows[i].name, name) == 0) return &driver_rows[i];
  }
  return NULL;
}

delta_status_t delta_device_open(const char *name, const delta_device_options_t *options, delta_allocator_t allocator,
                                 delta_device_t **out_device) {
  *out_device = NULL;
  const delta_driver_row_t *row = find_driver(name);
  if (!row) return delta_status_make(UNSUPPORTED, "device '%s' is not available in this version: give --device cpu", name);
  DELTA_RETURN_IF_ERROR(row->open(options, allocator, out_device));
  (*out_device)->name = row->name;
  return DELTA_OK;
}

void delta_device_close(delta_device_t *device) {
  if (device) device->driver->destroy(device);
}

delta_status_t delta_device_free_bytes(delta_device_t *device, uint64_t *out_free_bytes) {
  if (device->profile) return delta_absent_free_bytes(device, out_free_bytes);
  return find_driver(device->name)->free_bytes(device, out_free_bytes);
}
