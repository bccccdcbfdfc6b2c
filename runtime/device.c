// Opening devices by name: drivers of our own, one row each, and those of modules.
#include "runtime/device.h"

#include <string.h>

#include "runtime/cpu/device.h"
#include "runtime/module.h"

static delta_status_t count_cpu(uint32_t *out_count) {
  *out_count = 1;
  return DELTA_OK;
}

static delta_status_t open_cpu(uint32_t ordinal, const delta_device_options_t *options, delta_allocator_t allocator,
                               delta_device_t **out_device) {
  if (ordinal > 0) return delta_status_make(NOT_FOUND, "there is one CPU: give --device cpu");
  return delta_cpu_device_open(options, allocator, out_device);
}

// A row without functions is a module's.
static const delta_driver_row_t driver_rows[] = {
    {"cpu", count_cpu, open_cpu},
    {"cuda", NULL, NULL},
};

enum { DRIVER_COUNT = sizeof driver_rows / sizeof *driver_rows };

// The row for "NAME" or "NAME:N"; NULL: there is none.
static const delta_driver_row_t *parse_name(const char *name, uint32_t *out_ordinal) {
  *out_ordinal = 0;
  for (size_t i = 0; i < DRIVER_COUNT; ++i) {
    const size_t length = strlen(driver_rows[i].name);
    if (strncmp(driver_rows[i].name, name, length) != 0) continue;
    if (name[length] == '\0') return &driver_rows[i];
    const char *digits = name + length + 1;
    const size_t digit_count = strspn(digits, "0123456789");
    if (name[length] != ':' || digit_count == 0 || digit_count > 4 || digits[digit_count] != '\0') return NULL;
    for (size_t d = 0; d < digit_count; ++d) *out_ordinal = *out_ordinal * 10 + (uint32_t)(digits[d] - '0');
    return &driver_rows[i];
  }
  return NULL;
}

// The row with functions. `out_module` is to be closed; NULL: there is none.
static delta_status_t find_functions(const delta_driver_row_t *row, void **out_module, const delta_driver_row_t **out_row) {
  *out_module = NULL;
  *out_row = row;
  return row->open ? DELTA_OK : delta_module_open(row->name, out_module, out_row);
}

delta_status_t delta_device_open(const char *name, const delta_device_options_t *options, delta_allocator_t allocator,
                                 delta_device_t **out_device) {
  *out_device = NULL;
  uint32_t ordinal;
  void *module;
  const delta_driver_row_t *row = parse_name(name, &ordinal);
  if (!row) return delta_status_make(UNSUPPORTED, "device '%s': there is no such device; give cpu, cuda or cuda:N", name);
  DELTA_RETURN_IF_ERROR(delta_status_annotate(find_functions(row, &module, &row), "device '%s'", name));
  // Libraries of devices do not like to be unloaded: after success the module stays open.
  delta_status_t status = row->open(ordinal, options, allocator, out_device);
  if (status) delta_module_close(module);
  return delta_status_annotate(status, "device '%s'", name);
}

void delta_device_close(delta_device_t *device) {
  if (device) device->driver->destroy(device);
}

bool delta_device_is_name(const char *name) {
  uint32_t ordinal;
  return parse_name(name, &ordinal) != NULL;
}

const char *delta_driver_name(uint32_t index) { return index < DRIVER_COUNT ? driver_rows[index].name : NULL; }

delta_status_t delta_driver_count(const char *driver, uint32_t *out_count) {
  *out_count = 0;
  uint32_t ordinal;
  void *module;
  const delta_driver_row_t *row = parse_name(driver, &ordinal);
  if (!row) return delta_status_make(INVALID_ARGUMENT, "there is no driver '%s'", driver);
  DELTA_RETURN_IF_ERROR(find_functions(row, &module, &row));
  delta_status_t status = row->count(out_count);
  if (status) delta_module_close(module);
  return status;
}

delta_status_t delta_device_free_bytes(delta_device_t *device, uint64_t *out_free_bytes) {
  return device->driver->free_bytes(device, out_free_bytes);
}
