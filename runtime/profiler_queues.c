// Measuring a device with queues, by its own clock: copies in both directions alone, together, and beside work that keeps its memory busy; and what one launch takes in a
// recording, where programs run.
#include "runtime/profiler_parts.h"
#include "runtime/tier.h"

enum { BLOCK_BYTES = 8 << 20, BLOCKS = 8, SMALL_BYTES = 4096, SMALL_COPIES = 64, PASSES = 3, LAUNCHES = 256, MOST_FILLS = 256 };
static const size_t part_bytes = (size_t)BLOCKS * BLOCK_BYTES;

// The arena has a part a lane; the tier one for each direction.
typedef struct queue_bench {
  delta_device_t *device; // Borrowed.
  delta_arena_t *arena;   // Owned.
  delta_tier_t *tier;     // Owned.
  double fill_seconds;    // of a part
} queue_bench_t;

// What runs at the same time.
typedef struct queue_load {
  bool offloads, prefetches;
  bool is_small;  // copies of no size to speak of
  uint32_t fills; // of the part of compute
} queue_load_t;

static uint8_t *part_of(const queue_bench_t *bench, delta_lane_t lane) {
  return bench->device->driver->arena_address(bench->arena, (size_t)lane * part_bytes);
}

static uint32_t mark_of(delta_lane_t lane, bool is_end) { return 2 * (uint32_t)lane + is_end; }

static delta_status_t put_copies(const queue_bench_t *bench, const queue_load_t *load, delta_lane_t lane) {
  const bool writes = lane == DELTA_LANE_OFFLOAD;
  const size_t copy_bytes = load->is_small ? SMALL_BYTES : BLOCK_BYTES, all_bytes = load->is_small ? SMALL_COPIES * copy_bytes : part_bytes;
  for (size_t offset = 0; offset < all_bytes; offset += copy_bytes)
    DELTA_RETURN_IF_ERROR(
        delta_tier_enqueue(bench->tier, lane, writes, (writes ? 0 : part_bytes) + offset, part_of(bench, lane) + offset, copy_bytes));
  return DELTA_OK;
}

static delta_status_t put_fills(const queue_bench_t *bench, uint32_t fills) {
  for (uint32_t i = 0; i < fills; ++i)
    DELTA_RETURN_IF_ERROR(
        bench->device->driver->fill(bench->device, DELTA_LANE_COMPUTE, part_of(bench, DELTA_LANE_COMPUTE), (uint8_t)i, part_bytes));
  return DELTA_OK;
}

static bool is_loaded(const queue_load_t *load, delta_lane_t lane) {
  return lane == DELTA_LANE_COMPUTE ? load->fills > 0 : lane == DELTA_LANE_OFFLOAD ? load->offloads : load->prefetches;
}

// Runs a load once. Compute goes first, so that it is there when the copies begin. *out_seconds: of the copies together, or of compute where there are none.
static delta_status_t run_load(const queue_bench_t *bench, const queue_load_t *load, double *out_seconds) {
  delta_device_t *device = bench->device;
  const bool copies = load->offloads || load->prefetches;
  const delta_lane_t first = load->offloads ? DELTA_LANE_OFFLOAD : load->prefetches ? DELTA_LANE_PREFETCH : DELTA_LANE_COMPUTE;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    const delta_lane_t lane = (delta_lane_t)l;
    if (!is_loaded(load, lane)) continue;
    DELTA_RETURN_IF_ERROR(device->driver->mark(device, lane, mark_of(lane, false)));
    DELTA_RETURN_IF_ERROR(lane == DELTA_LANE_COMPUTE ? put_fills(bench, load->fills) : put_copies(bench, load, lane));
    DELTA_RETURN_IF_ERROR(device->driver->mark(device, lane, mark_of(lane, true)));
  }
  DELTA_RETURN_IF_ERROR(device->driver->synchronize(device));
  *out_seconds = 0;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    const delta_lane_t lane = (delta_lane_t)l;
    double seconds = 0;
    if (!is_loaded(load, lane) || (copies && lane == DELTA_LANE_COMPUTE)) continue;
    DELTA_RETURN_IF_ERROR(device->driver->elapsed(device, mark_of(first, false), mark_of(lane, true), &seconds));
    if (seconds > *out_seconds) *out_seconds = seconds;
  }
  return DELTA_OK;
}

// The median of some runs, after one that warms up.
static delta_status_t time_load(const queue_bench_t *bench, const queue_load_t *load, double *out_seconds) {
  double seconds[PASSES];
  DELTA_RETURN_IF_ERROR(run_load(bench, load, &seconds[0]));
  for (int pass = 0; pass < PASSES; ++pass) DELTA_RETURN_IF_ERROR(run_load(bench, load, &seconds[pass]));
  *out_seconds = delta_profiler_quantile(seconds, PASSES, 0.5);
  return DELTA_OK;
}

// Bytes a second of a load's copies under the name of a number, and how long they took.
static delta_status_t measure_load(const queue_bench_t *bench, queue_load_t load, delta_profile_id_t id, delta_profile_t *profile,
                                   double *out_seconds) {
  DELTA_RETURN_IF_ERROR(time_load(bench, &load, out_seconds));
  const double bytes = (double)part_bytes * (load.offloads + load.prefetches);
  if (*out_seconds <= 0) return delta_status_make(IO, "the device's clock says that a copy took no time");
  delta_profile_set_number(profile, id, bytes / *out_seconds, delta_profile_measured);
  return DELTA_OK;
}

// What a copy takes whatever its bytes.
static delta_status_t measure_start(const queue_bench_t *bench, queue_load_t load, delta_profile_id_t id, delta_profile_t *profile) {
  double seconds;
  load.is_small = true;
  DELTA_RETURN_IF_ERROR(time_load(bench, &load, &seconds));
  const double speed = delta_profile_number(profile, load.offloads ? DELTA_PROFILE_OFFLOAD : DELTA_PROFILE_PREFETCH);
  const double start_seconds = seconds / SMALL_COPIES - SMALL_BYTES / speed;
  delta_profile_set_number(profile, id, start_seconds > 0 ? start_seconds : 0, delta_profile_measured);
  return DELTA_OK;
}

// As many fills as last while a copy runs that takes so long alone.
static uint32_t fills_beside(const queue_bench_t *bench, double copy_seconds) {
  const double fills = bench->fill_seconds > 0 ? 2 * copy_seconds / bench->fill_seconds + 1 : MOST_FILLS;
  return fills < MOST_FILLS ? (uint32_t)fills : MOST_FILLS;
}

static delta_status_t measure_copies(queue_bench_t *bench, delta_profile_t *profile) {
  double offload_seconds, prefetch_seconds, seconds;
  DELTA_RETURN_IF_ERROR(time_load(bench, &(queue_load_t){.fills = 1}, &bench->fill_seconds));
  DELTA_RETURN_IF_ERROR(measure_load(bench, (queue_load_t){.offloads = true}, DELTA_PROFILE_OFFLOAD, profile, &offload_seconds));
  DELTA_RETURN_IF_ERROR(measure_load(bench, (queue_load_t){.prefetches = true}, DELTA_PROFILE_PREFETCH, profile, &prefetch_seconds));
  DELTA_RETURN_IF_ERROR(measure_load(bench, (queue_load_t){.offloads = true, .prefetches = true}, DELTA_PROFILE_SHARED, profile, &seconds));
  DELTA_RETURN_IF_ERROR(measure_start(bench, (queue_load_t){.offloads = true}, DELTA_PROFILE_OFFLOAD_START, profile));
  DELTA_RETURN_IF_ERROR(measure_start(bench, (queue_load_t){.prefetches = true}, DELTA_PROFILE_PREFETCH_START, profile));
  const queue_load_t offload = {.offloads = true, .fills = fills_beside(bench, offload_seconds)},
                     prefetch = {.prefetches = true, .fills = fills_beside(bench, prefetch_seconds)};
  DELTA_RETURN_IF_ERROR(measure_load(bench, offload, DELTA_PROFILE_OFFLOAD_BESIDE, profile, &seconds));
  return measure_load(bench, prefetch, DELTA_PROFILE_PREFETCH_BESIDE, profile, &seconds);
}

static delta_status_t put_launches(const queue_bench_t *bench) {
  for (int i = 0; i < LAUNCHES; ++i)
    DELTA_RETURN_IF_ERROR(bench->device->driver->fill(bench->device, DELTA_LANE_COMPUTE, part_of(bench, DELTA_LANE_COMPUTE), 0, 1));
  return DELTA_OK;
}

static delta_status_t time_replay(const queue_bench_t *bench, delta_recording_t *recording, double *out_seconds) {
  delta_device_t *device = bench->device;
  DELTA_RETURN_IF_ERROR(device->driver->mark(device, DELTA_LANE_COMPUTE, 0));
  DELTA_RETURN_IF_ERROR(device->driver->replay(device, recording));
  DELTA_RETURN_IF_ERROR(device->driver->mark(device, DELTA_LANE_COMPUTE, 1));
  DELTA_RETURN_IF_ERROR(device->driver->synchronize(device));
  return device->driver->elapsed(device, 0, 1, out_seconds);
}

// Launches of no work, recorded.
static delta_status_t measure_launch(const queue_bench_t *bench, delta_profile_t *profile) {
  delta_device_t *device = bench->device;
  delta_recording_t *recording = NULL;
  double seconds[PASSES];
  DELTA_RETURN_IF_ERROR(device->driver->record_begin(device));
  delta_status_t status = put_launches(bench);
  status = delta_status_join(status, device->driver->record_end(device, &recording));
  if (!status) status = time_replay(bench, recording, &seconds[0]);
  for (int pass = 0; !status && pass < PASSES; ++pass) status = time_replay(bench, recording, &seconds[pass]);
  device->driver->recording_destroy(device, recording);
  const double launch_seconds = status ? 0 : delta_profiler_quantile(seconds, PASSES, 0.5) / LAUNCHES;
  if (launch_seconds > 0) delta_profile_set_number(profile, DELTA_PROFILE_LAUNCH_SECONDS, launch_seconds, delta_profile_measured);
  return status;
}

static delta_status_t open_bench(delta_profiler_t *profiler, queue_bench_t *bench) {
  delta_device_t *device = bench->device;
  const size_t arena_bytes = DELTA_LANE_COUNT * part_bytes;
  const delta_tier_options_t options = {.log = profiler->options.log};
  DELTA_RETURN_IF_ERROR(device->driver->queues_reserve(device, 0, 2 * DELTA_LANE_COUNT));
  DELTA_RETURN_IF_ERROR(device->driver->arena_reserve(device, arena_bytes, &bench->arena));
  DELTA_RETURN_IF_ERROR(device->driver->arena_commit(bench->arena, delta_size_round_up(arena_bytes, device->granule_bytes)));
  DELTA_RETURN_IF_ERROR(device->driver->tier_create(device, &options, profiler->allocator, &bench->tier));
  return delta_tier_reserve(bench->tier, 2 * (uint64_t)part_bytes);
}

delta_status_t delta_profiler_measure_queues(delta_profiler_t *profiler) {
  queue_bench_t bench = {.device = profiler->options.device};
  delta_status_t status = open_bench(profiler, &bench);
  if (!status) status = measure_launch(&bench, profiler->profile);
  if (!status) status = measure_copies(&bench, profiler->profile);
  delta_tier_destroy(bench.tier);
  if (bench.arena) bench.device->driver->arena_destroy(bench.arena);
  return status;
}
