// The CPU driver's table with some functions replaced. The replaced ones know the script by a static pointer: one device at a time.
#include "tests/support/surprise_device.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "runtime/cpu/kernel.h"
#include "tests/support/model_run.h"
#include "tests/support/outer_tier.h"

static delta_test_surprises_t *script;
static delta_device_driver_t driver;
static const delta_device_driver_t *cpu_driver;
static atomic_bool is_released;
static uint64_t kernel_draws, copy_draws[2]; // states of what is drawn; copies: of writes and of reads, begun with the tier

void delta_test_surprises_release(void) { atomic_store(&is_released, true); }

static void sleep_for(double seconds) {
  struct timespec time = {.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
  nanosleep(&time, NULL);
}

static void be_late(uint64_t *drawn, double most_seconds) {
  if (most_seconds > 0) sleep_for((double)(delta_test_next_bits(drawn) >> 11) * 0x1p-53 * most_seconds);
}

// A copy that began at a time takes as long as the script's speed has it.
static void be_slow(double start_seconds, size_t size_bytes) {
  if (script->copy_bytes_per_second <= 0) return;
  const double left_seconds = start_seconds + (double)size_bytes / script->copy_bytes_per_second - delta_clock_seconds();
  if (left_seconds > 0) sleep_for(left_seconds);
}

static delta_status_t surprise_write(delta_tier_t *base, uint64_t offset_bytes, const void *data, size_t size_bytes) {
  const uint32_t number = script->writes++;
  const double start_seconds = delta_clock_seconds();
  be_late(&copy_draws[0], script->copy_delay_seconds);
  while (number == script->write_that_hangs && !atomic_load(&is_released)) sleep_for(0.01);
  if (number >= script->write_that_fails && number - script->write_that_fails < script->writes_that_fail) {
    return delta_status_make(IO, "write number %u is one that fails", number);
  }
  delta_status_t status = delta_tier_write(delta_test_inner_tier(base), offset_bytes, data, size_bytes);
  be_slow(start_seconds, size_bytes);
  return status;
}

static delta_status_t surprise_read(delta_tier_t *base, uint64_t offset_bytes, void *data, size_t size_bytes) {
  const uint32_t number = script->reads++;
  const double start_seconds = delta_clock_seconds();
  be_late(&copy_draws[1], script->copy_delay_seconds);
  if (number == script->read_that_fails) return delta_status_make(IO, "read number %u is one that fails", number);
  delta_status_t status = delta_tier_read(delta_test_inner_tier(base), offset_bytes, data, size_bytes);
  be_slow(start_seconds, size_bytes);
  return status;
}

static const delta_tier_driver_t tier_driver = {
    .destroy = delta_test_outer_tier_destroy, .resize = delta_test_outer_tier_resize, .write = surprise_write, .read = surprise_read};

static delta_status_t surprise_tier_create(delta_device_t *device, const delta_tier_options_t *options, delta_allocator_t allocator,
                                           delta_tier_t **out_tier) {
  copy_draws[0] = script->seed;
  copy_draws[1] = script->seed ^ UINT64_C(0x5851F42D4C957F2D);
  return delta_test_outer_tier_create(cpu_driver, device, options, &tier_driver, allocator, out_tier);
}

// Kernels of libraries are not instrumented: a sanitizer of threads sees here what they read and write.
static void touch(const delta_kernel_t *kernel, const delta_tensor_id_t *ids, void *const *addresses, uint32_t count, bool writes) {
  enum { STRIDE_BYTES = 64 };
  for (uint32_t k = 0; k < count; ++k) {
    if (delta_tensor_is_none(ids[k])) continue;
    volatile uint8_t *bytes = addresses[k];
    const size_t size_bytes = delta_tensor_bytes(delta_graph_tensor(kernel->graph, ids[k]));
    for (size_t at = 0; at < size_bytes; at += STRIDE_BYTES) {
      const uint8_t value = bytes[at];
      if (writes) bytes[at] = value;
    }
  }
}

static delta_status_t surprise_launch(delta_device_t *device, delta_lane_t lane, delta_kernel_t *kernel,
                                      const delta_kernel_buffers_t *buffers) {
  const double start_seconds = delta_clock_seconds();
  if (script->on_launch) script->on_launch(script->self, script->launches);
  ++script->launches;
  be_late(&kernel_draws, script->kernel_delay_seconds);
  touch(kernel, kernel->node->inputs, (void *const *)buffers->inputs, kernel->node->input_count, false);
  delta_status_t status = cpu_driver->launch(device, lane, kernel, buffers);
  touch(kernel, kernel->node->outputs, buffers->outputs, kernel->node->output_count, true);
  if (script->kernel_slowness > 1) sleep_for((script->kernel_slowness - 1) * (delta_clock_seconds() - start_seconds));
  return status;
}

delta_status_t delta_test_surprise_device_open(int32_t threads, delta_test_surprises_t *surprises, delta_device_t **out_device) {
  const delta_device_options_t options = {.threads = threads};
  DELTA_RETURN_IF_ERROR(delta_device_open("cpu", &options, delta_allocator_system(), out_device));
  script = surprises;
  kernel_draws = surprises->seed + 1;
  atomic_store(&is_released, false);
  cpu_driver = (*out_device)->driver;
  driver = *cpu_driver;
  driver.tier_create = surprise_tier_create;
  driver.launch = surprise_launch;
  (*out_device)->driver = &driver;
  return DELTA_OK;
}
