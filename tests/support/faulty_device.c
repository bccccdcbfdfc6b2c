// The CPU driver's table with some functions replaced, which know the faults by a static pointer.
#include "tests/support/faulty_device.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/outer_tier.h"

static delta_test_faults_t *faults;
static delta_device_driver_t driver;
static const delta_device_driver_t *cpu_driver;

static delta_status_t faulty_write(delta_tier_t *base, uint64_t offset_bytes, const void *data, size_t size_bytes) {
  delta_tier_t *inner = delta_test_inner_tier(base);
  const uint32_t number = faults->writes++;
  if (number == faults->failing_write) return delta_status_make(IO, "write number %u is one that fails", number);
  if (number != faults->write || size_bytes == 0) return delta_tier_write(inner, offset_bytes, data, size_bytes);
  uint8_t *copy = malloc(size_bytes);
  if (!copy) return delta_status_make(OUT_OF_MEMORY, "a copy for a test");
  memcpy(copy, data, size_bytes);
  copy[0] ^= 1;
  delta_status_t status = delta_tier_write(inner, offset_bytes, copy, size_bytes);
  free(copy);
  return status;
}

static delta_status_t faulty_read(delta_tier_t *base, uint64_t offset_bytes, void *data, size_t size_bytes) {
  delta_status_t status = delta_tier_read(delta_test_inner_tier(base), offset_bytes, data, size_bytes);
  if (faults->reads++ == faults->read) ((uint8_t *)data)[0] ^= 1;
  return status;
}

static const delta_tier_driver_t tier_driver = {
    .destroy = delta_test_outer_tier_destroy, .resize = delta_test_outer_tier_resize, .write = faulty_write, .read = faulty_read};

static delta_status_t faulty_tier_create(delta_device_t *device, const delta_tier_options_t *options, delta_allocator_t allocator,
                                         delta_tier_t **out_tier) {
  return delta_test_outer_tier_create(cpu_driver, device, options, &tier_driver, allocator, out_tier);
}

static delta_status_t faulty_launch(delta_device_t *device, delta_lane_t lane, delta_kernel_t *kernel,
                                    const delta_kernel_buffers_t *buffers) {
  const uint32_t number = faults->launches++;
  if (faults->on_launch) faults->on_launch(faults->self, number);
  delta_status_t status = cpu_driver->launch(device, lane, kernel, buffers);
  if (number == faults->launch) *faults->address ^= 1;
  if (!status && number == faults->commit_launch) status = driver.arena_commit(faults->arena, faults->commit_bytes);
  return status;
}

delta_status_t delta_test_faulty_device_open(delta_test_faults_t *wanted, delta_device_t **out_device) {
  const delta_device_options_t options = {.threads = 1};
  DELTA_RETURN_IF_ERROR(delta_device_open("cpu", &options, delta_allocator_system(), out_device));
  faults = wanted;
  cpu_driver = (*out_device)->driver;
  driver = *cpu_driver;
  driver.tier_create = faulty_tier_create;
  driver.launch = faulty_launch;
  (*out_device)->driver = &driver;
  return DELTA_OK;
}
