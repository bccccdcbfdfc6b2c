// The CUDA driver's device: opening it, its arena, the tier below it, queues and recordings, and what it says when a call fails. On the emulation.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cuda/device.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/support/support.h"

enum { GRANULE_BYTES = 2 << 20 };

static void check(delta_status_t status) { cr_assert_null(status, "%s", delta_status_message(status)); }

// Opens GPU 0 of an emulation with other settings than its own.
static delta_device_t *open_with(const delta_emulated_settings_t *settings) {
  delta_device_t *device = NULL;
  delta_emulated_reset();
  delta_emulated_configure(settings);
  check(delta_device_open("cuda:0", &(delta_device_options_t){0}, delta_allocator_system(), &device));
  return device;
}

static delta_device_t *open_device(void) {
  const delta_emulated_settings_t settings = delta_emulated_defaults();
  return open_with(&settings);
}

static void close_device(delta_device_t *device) {
  delta_device_close(device);
  cr_expect_eq(delta_emulated_used_bytes(), 0, "device memory is left");
  cr_expect_eq(delta_emulated_reports(), 0, "%s", delta_emulated_last_report());
}

// A failed status has this code, and words in its message, which are separated by '|'.
static void expect_failure(delta_status_t status, delta_status_code_t code, const char *words) {
  char text[256];
  snprintf(text, sizeof text, "%s", words);
  cr_assert_eq(delta_status_code(status), code, "%s", delta_status_message(status));
  for (char *word = strtok(text, "|"); word; word = strtok(NULL, "|"))
    cr_expect_not_null(strstr(delta_status_message(status), word), "'%s' is not in: %s", word, delta_status_message(status));
  delta_status_free(status);
}

// ---- Opening

Test(cuda_device, says_what_it_is) {
  delta_device_t *device = open_device();
  cr_expect_str_eq(device->name, "cuda:0");
  cr_expect(device->has_queues && !device->host_addressable);
  cr_expect_eq(device->granule_bytes, GRANULE_BYTES);
  cr_expect_str_eq(device->instruction_set, "sm_90-4");
  cr_expect_eq(strncmp(device->libraries, "cudart 13.0, cudnn ", 19), 0, "%s", device->libraries);
  cr_expect_not_null(strstr(device->libraries, ", kernels "), "%s", device->libraries);
  cr_expect_gt(strlen(device->processor), 0);
  close_device(device);
}

typedef struct open_case {
  const char *name;
  int32_t threads;
  uint32_t devices;
  const char *failing_call;
  delta_status_code_t code;
  const char *words;
} open_case_t;

static const open_case_t open_cases[] = {
    {"cuda", 0, 0, NULL, DELTA_STATUS_NOT_FOUND, "cuda|no GPU can be used"},
    {"cuda:3", 0, 1, NULL, DELTA_STATUS_NOT_FOUND, "cuda:3|there is 1 GPU"},
    {"cuda:0", 4, 1, NULL, DELTA_STATUS_INVALID_ARGUMENT, "--threads 4"},
    {"cuda:", 0, 1, NULL, DELTA_STATUS_UNSUPPORTED, "cuda:|cuda:N"},
    {"cuda:0", 0, 1, "cudaGetDeviceCount", DELTA_STATUS_NOT_FOUND, "cudaGetDeviceCount"},
    {"cuda:0", 0, 1, "cudaSetDevice", DELTA_STATUS_OK, "cudaSetDevice"},
    {"cuda:0", 0, 1, "cudaStreamCreateWithFlags", DELTA_STATUS_OK, "cudaStreamCreateWithFlags"},
    {"cuda:0", 0, 1, "cudaEventCreateWithFlags", DELTA_STATUS_OK, "cudaEventCreateWithFlags"},
    {"cuda:0", 0, 1, "cudnnCreate", DELTA_STATUS_OK, "cudnnCreate"},
    {"cuda:0", 0, 1, "cublasLtCreate", DELTA_STATUS_OK, "cublasLtCreate"},
};

// Where a case has no code, any failure that names the call will do.
Test(cuda_device, opening_fails_with_a_reason) {
  for (size_t i = 0; i < sizeof open_cases / sizeof *open_cases; ++i) {
    const open_case_t *c = &open_cases[i];
    delta_emulated_settings_t settings = delta_emulated_defaults();
    settings.devices = c->devices;
    delta_emulated_reset();
    delta_emulated_configure(&settings);
    if (c->failing_call) delta_emulated_fail(c->failing_call, 1, 1);
    delta_test_allocator_t allocator;
    delta_test_allocator_init(&allocator, 0, DELTA_TEST_FAIL_ONCE);
    delta_device_t *device = NULL;
    delta_status_t status =
        delta_device_open(c->name, &(delta_device_options_t){.threads = c->threads}, delta_test_allocator_interface(&allocator), &device);
    cr_assert(status && !device, "case %zu", i);
    expect_failure(status, c->code != DELTA_STATUS_OK ? c->code : delta_status_code(status), c->words);
    cr_expect_eq(allocator.live_bytes, 0, "case %zu", i);
  }
}

Test(cuda_device, counts_devices) {
  uint32_t count;
  delta_emulated_settings_t settings = delta_emulated_defaults();
  delta_emulated_configure(&settings);
  check(delta_driver_count("cuda", &count));
  cr_expect_eq(count, settings.devices);
  settings.devices = 0;
  delta_emulated_configure(&settings);
  expect_failure(delta_driver_count("cuda", &count), DELTA_STATUS_NOT_FOUND, "no GPU");
}

Test(cuda_device, free_bytes_leave_the_reserve) {
  delta_device_t *device = open_device();
  uint64_t before = 0, after = 0;
  delta_arena_t *arena = NULL;
  check(delta_device_free_bytes(device, &before));
  cr_expect_leq(before + DELTA_CUDA_RESERVE_BYTES, delta_emulated_defaults().device_bytes);
  check(device->driver->arena_reserve(device, 4 * GRANULE_BYTES, &arena));
  check(device->driver->arena_commit(arena, 3 * GRANULE_BYTES));
  check(delta_device_free_bytes(device, &after));
  cr_expect_eq(before - after, 3 * GRANULE_BYTES);
  device->driver->arena_destroy(arena);
  close_device(device);
}

// ---- Arena

Test(cuda_arena, commits_and_gives_back_whole_granules) {
  static const size_t sizes[] = {1, 3 * GRANULE_BYTES, 3 * GRANULE_BYTES, 8 * GRANULE_BYTES - 5, 2 * GRANULE_BYTES, 0, GRANULE_BYTES};
  delta_device_t *device = open_device();
  const delta_device_driver_t *driver = device->driver;
  delta_arena_t *arena = NULL;
  check(driver->arena_reserve(device, 8 * GRANULE_BYTES, &arena));
  void *first = driver->arena_address(arena, 0);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; ++i) {
    check(driver->arena_commit(arena, sizes[i]));
    cr_expect_eq(delta_emulated_used_bytes(), (sizes[i] + GRANULE_BYTES - 1) / GRANULE_BYTES * GRANULE_BYTES, "size %zu", i);
    cr_expect_eq(driver->arena_address(arena, 0), first);
  }
  expect_failure(driver->arena_commit(arena, 9 * GRANULE_BYTES), DELTA_STATUS_INTERNAL, "reserves");
  driver->arena_destroy(arena);
  close_device(device);
}

Test(cuda_arena, keeps_what_stays_committed) {
  delta_device_t *device = open_device();
  const delta_device_driver_t *driver = device->driver;
  delta_arena_t *arena = NULL;
  uint32_t written[64], read[64] = {0};
  for (uint32_t i = 0; i < 64; ++i) written[i] = 7 * i + 1;
  check(driver->arena_reserve(device, 8 * GRANULE_BYTES, &arena));
  check(driver->arena_commit(arena, 2 * GRANULE_BYTES));
  check(driver->write(device, driver->arena_address(arena, GRANULE_BYTES - 128), written, sizeof written));
  check(driver->arena_commit(arena, 6 * GRANULE_BYTES));
  check(driver->arena_commit(arena, 2 * GRANULE_BYTES));
  check(driver->read(device, read, driver->arena_address(arena, GRANULE_BYTES - 128), sizeof read));
  cr_expect_arr_eq(read, written, sizeof read);
  driver->arena_destroy(arena);
  close_device(device);
}

// The device has less than is asked for: the message has both numbers, and what was there stays.
Test(cuda_arena, out_of_memory_names_what_was_asked_and_what_is_free) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  settings.device_bytes = 64 * (uint64_t)GRANULE_BYTES;
  delta_device_t *device = open_with(&settings);
  const delta_device_driver_t *driver = device->driver;
  delta_arena_t *arena = NULL;
  check(driver->arena_reserve(device, 100 * (size_t)GRANULE_BYTES, &arena));
  check(driver->arena_commit(arena, 2 * GRANULE_BYTES));
  expect_failure(driver->arena_commit(arena, 90 * (size_t)GRANULE_BYTES), DELTA_STATUS_OUT_OF_MEMORY,
                 "cuMemCreate|184549376 bytes asked for|free|--budget");
  cr_expect_eq(delta_emulated_used_bytes(), 2 * GRANULE_BYTES);
  check(driver->arena_commit(arena, 3 * GRANULE_BYTES));
  driver->arena_destroy(arena);
  close_device(device);
}

Test(cuda_arena, a_failed_call_leaves_it_as_it_was) {
  static const char *const calls[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess"};
  delta_device_t *device = open_device();
  const delta_device_driver_t *driver = device->driver;
  delta_arena_t *arena = NULL;
  check(driver->arena_reserve(device, 8 * GRANULE_BYTES, &arena));
  check(driver->arena_commit(arena, GRANULE_BYTES));
  for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) {
    const uint32_t tries = strcmp(calls[i], "cuMemSetAccess") == 0 ? 1 : 4;
    for (uint32_t n = 1; n <= tries; ++n) {
      delta_emulated_reset();
      delta_emulated_fail(calls[i], n, 1);
      delta_status_t status = driver->arena_commit(arena, 5 * GRANULE_BYTES);
      cr_assert(status, "%s, call %u", calls[i], n);
      expect_failure(status, delta_status_code(status), calls[i]);
      cr_expect_eq(delta_emulated_used_bytes(), GRANULE_BYTES, "%s, call %u", calls[i], n);
    }
  }
  delta_emulated_reset();
  check(driver->arena_commit(arena, 5 * GRANULE_BYTES));
  driver->arena_destroy(arena);
  close_device(device);
}

Test(cuda_arena, is_one_allocation_without_virtual_memory) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  settings.has_virtual_memory = false;
  delta_device_t *device = open_with(&settings);
  const delta_device_driver_t *driver = device->driver;
  delta_arena_t *arena = NULL;
  check(driver->arena_reserve(device, 8 * GRANULE_BYTES, &arena));
  cr_expect_eq(delta_emulated_used_bytes(), 0);
  check(driver->arena_commit(arena, 4 * GRANULE_BYTES));
  check(driver->arena_commit(arena, GRANULE_BYTES));
  cr_expect_eq(delta_emulated_used_bytes(), 4 * GRANULE_BYTES);
  check(driver->arena_commit(arena, 4 * GRANULE_BYTES));
  expect_failure(driver->arena_commit(arena, 5 * GRANULE_BYTES), DELTA_STATUS_OUT_OF_MEMORY, "cannot grow|no virtual memory|--budget");
  driver->arena_destroy(arena);
  close_device(device);
}

// ---- Tier

// A device with an arena of some granules and a tier below it.
typedef struct bench {
  delta_device_t *device;
  delta_arena_t *arena;
  delta_tier_t *tier;
  uint8_t *memory; // of the arena
} bench_t;

enum { BENCH_GRANULES = 4, TIER_BYTES = 64 * DELTA_HOST_BLOCK_BYTES, PIECE_BYTES = 3 * DELTA_HOST_BLOCK_BYTES };

static bench_t open_bench(void) {
  bench_t bench = {.device = open_device()};
  check(bench.device->driver->arena_reserve(bench.device, BENCH_GRANULES * GRANULE_BYTES, &bench.arena));
  check(bench.device->driver->arena_commit(bench.arena, BENCH_GRANULES * GRANULE_BYTES));
  check(bench.device->driver->tier_create(bench.device, &(delta_tier_options_t){0}, delta_allocator_system(), &bench.tier));
  check(delta_tier_reserve(bench.tier, TIER_BYTES));
  check(bench.device->driver->queues_reserve(bench.device, 8, 8));
  bench.memory = bench.device->driver->arena_address(bench.arena, 0);
  return bench;
}

static void close_bench(bench_t *bench) {
  delta_tier_destroy(bench->tier);
  bench->device->driver->arena_destroy(bench->arena);
  close_device(bench->device);
}

static void expect_bytes(const bench_t *bench, const uint8_t *address, uint8_t value, const char *what) {
  uint8_t bytes[PIECE_BYTES];
  check(bench->device->driver->read(bench->device, bytes, address, sizeof bytes));
  for (size_t i = 0; i < sizeof bytes; ++i) cr_assert_eq(bytes[i], value, "%s: byte %zu is %u, not %u", what, i, bytes[i], value);
}

Test(cuda_tier, is_of_exact_size_and_keeps_what_it_has) {
  bench_t bench = open_bench();
  uint8_t piece[PIECE_BYTES], found[PIECE_BYTES];
  memset(piece, 9, sizeof piece);
  cr_expect_eq(delta_tier_size_bytes(bench.tier), TIER_BYTES);
  check(delta_tier_write(bench.tier, DELTA_HOST_BLOCK_BYTES, piece, sizeof piece));
  check(delta_tier_reserve(bench.tier, 4 * (uint64_t)TIER_BYTES));
  check(delta_tier_trim(bench.tier, TIER_BYTES / 2));
  cr_expect_eq(delta_tier_size_bytes(bench.tier), TIER_BYTES / 2);
  check(delta_tier_read(bench.tier, DELTA_HOST_BLOCK_BYTES, found, sizeof found));
  cr_expect_arr_eq(found, piece, sizeof found);
  check(delta_tier_read(bench.tier, DELTA_HOST_BLOCK_BYTES, bench.memory, PIECE_BYTES));
  expect_bytes(&bench, bench.memory, 9, "read into the arena");
  delta_emulated_fail("cudaMallocHost", 1, 1);
  delta_status_t status = delta_tier_reserve(bench.tier, 8 * (uint64_t)TIER_BYTES);
  cr_assert(status);
  expect_failure(status, delta_status_code(status), "cudaMallocHost|pinned");
  check(delta_tier_read(bench.tier, DELTA_HOST_BLOCK_BYTES, found, sizeof found));
  cr_expect_arr_eq(found, piece, sizeof found);
  close_bench(&bench);
}

Test(cuda_tier, refuses_a_folder) {
  delta_device_t *device = open_device();
  delta_tier_t *tier = NULL;
  expect_failure(device->driver->tier_create(device, &(delta_tier_options_t){.folder = "/tmp"}, delta_allocator_system(), &tier),
                 DELTA_STATUS_UNSUPPORTED, "--tier /tmp|cuda:0|pinned|memory");
  check(device->driver->tier_create(device, &(delta_tier_options_t){.folder = DELTA_TIER_MEMORY}, delta_allocator_system(), &tier));
  delta_tier_destroy(tier);
  close_device(device);
}

// ---- Queues

// Compute fills a buffer, offload copies it below, prefetch brings it back elsewhere: each waits for the one before.
static delta_status_t put_round_trip(const bench_t *bench, uint8_t value) {
  delta_device_t *device = bench->device;
  const delta_device_driver_t *driver = device->driver;
  uint8_t *from = bench->memory, *to = bench->memory + GRANULE_BYTES;
  DELTA_RETURN_IF_ERROR(driver->mark(device, DELTA_LANE_COMPUTE, 0));
  DELTA_RETURN_IF_ERROR(driver->fill(device, DELTA_LANE_COMPUTE, from, value, PIECE_BYTES));
  DELTA_RETURN_IF_ERROR(driver->signal(device, DELTA_LANE_COMPUTE, 0));
  DELTA_RETURN_IF_ERROR(driver->wait(device, DELTA_LANE_OFFLOAD, 0));
  DELTA_RETURN_IF_ERROR(delta_tier_enqueue(bench->tier, DELTA_LANE_OFFLOAD, true, 0, from, PIECE_BYTES));
  DELTA_RETURN_IF_ERROR(driver->signal(device, DELTA_LANE_OFFLOAD, 1));
  DELTA_RETURN_IF_ERROR(driver->wait(device, DELTA_LANE_PREFETCH, 1));
  DELTA_RETURN_IF_ERROR(delta_tier_enqueue(bench->tier, DELTA_LANE_PREFETCH, false, 0, to, PIECE_BYTES));
  return driver->mark(device, DELTA_LANE_PREFETCH, 1);
}

static void expect_round_trip(const bench_t *bench, uint8_t value, const char *what) {
  double seconds = -1;
  check(bench->device->driver->synchronize(bench->device));
  check(bench->device->driver->elapsed(bench->device, 0, 1, &seconds));
  cr_expect_geq(seconds, 0);
  expect_bytes(bench, bench->memory + GRANULE_BYTES, value, what);
}

Test(cuda_queues, order_comes_from_events) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  bench_t bench = open_bench();
  settings.copy_delay_seconds = 2e-3;
  delta_emulated_configure(&settings);
  for (uint8_t value = 1; value < 6; ++value) {
    check(put_round_trip(&bench, value));
    expect_round_trip(&bench, value, "put step by step");
  }
  close_bench(&bench);
}

Test(cuda_queues, a_recording_replays_in_order_and_is_timed) {
  bench_t bench = open_bench();
  delta_device_t *device = bench.device;
  delta_recording_t *recording = NULL;
  check(device->driver->record_begin(device));
  check(put_round_trip(&bench, 17));
  check(device->driver->record_end(device, &recording));
  cr_assert_not_null(recording);
  for (int turn = 0; turn < 3; ++turn) {
    check(device->driver->fill(device, DELTA_LANE_COMPUTE, bench.memory, 0, 2 * GRANULE_BYTES));
    check(device->driver->replay(device, recording));
    expect_round_trip(&bench, 17, "replayed");
  }
  cr_expect_eq(delta_emulated_calls("cudaGraphLaunch"), 3);
  cr_expect_eq(delta_emulated_calls("cudaGraphInstantiate"), 1);
  device->driver->recording_destroy(device, recording);
  close_bench(&bench);
}

// After a failure while it records the device goes on, and the recording can be made again.
Test(cuda_queues, a_failed_recording_is_left) {
  static const char *const calls[] = {"cudaStreamBeginCapture", "cudaStreamWaitEvent", "cudaMemcpyAsync", "cudaMemsetAsync",
                                      "cudaGraphInstantiate"};
  bench_t bench = open_bench();
  delta_device_t *device = bench.device;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; ++i) {
    delta_recording_t *recording = NULL;
    delta_emulated_reset();
    delta_emulated_fail(calls[i], 1, 1);
    delta_status_t status = device->driver->record_begin(device);
    if (!status) status = put_round_trip(&bench, 3);
    status = delta_status_join(status, device->driver->record_end(device, &recording));
    device->driver->recording_destroy(device, recording);
    cr_assert(status, "%s", calls[i]);
    expect_failure(status, delta_status_code(status), calls[i]);
    delta_emulated_reset();
    check(put_round_trip(&bench, (uint8_t)(40 + i)));
    expect_round_trip(&bench, (uint8_t)(40 + i), calls[i]);
  }
  close_bench(&bench);
}
