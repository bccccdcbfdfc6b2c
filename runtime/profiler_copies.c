// Measuring how fast memory is copied, and what copies to the tier below the arena and back take: alone, and on their lanes beside compute on all processors, both ways at
// once, and how much compute loses to them. For devices whose memory is the host's.
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/cpu/team.h"
#include "runtime/lanes.h"
#include "runtime/profiler_parts.h"
#include "runtime/tier.h"

// A small copy is what it takes to start one.
enum { BLOCK_BYTES = 4 << 20, BLOCKS = 8, SMALL_BYTES = 4096, ALIGNMENT_BYTES = 4096 };
// Compute beside it works on so many blocks a thread, going over each several times, so that processors are as busy as memory. A unit beside a small copy outlasts it.
enum { WORK_BLOCK_BYTES = 16 << 10, WORK_BLOCKS = 128, SMALL_BLOCKS = 64, MOST_ROUNDS = 8 };
// Units are as many as there is time for.
enum { MOST_UNITS = 20, MOST_SMALL_UNITS = 32, LEAST_UNITS = 8 };
static const double most_unit_seconds = 1.2e-3, most_units_seconds = 12e-3, most_alone_seconds = 0.5;
// A lane has more large copies than it comes to.
enum { COPIES = 512, ALONE_PASSES = 3, PASSES = 5 };

// Two parts of memory and of the tier: what is copied below, and what is copied back.
typedef struct copy_bench {
  delta_device_t *device; // Borrowed.
  uint8_t *memory;        // aligned within the allocation
  void *allocation;       // Owned.
  delta_tier_t *tier;     // Owned.
  delta_lanes_t *lanes;   // Owned.
  delta_region_t region;  // Owns the rest.
  delta_schedule_t schedule;
  delta_lane_work_t work;
  delta_lane_copy_t *copies[DELTA_LANE_COUNT];
  double *signal_seconds; // by small unit
  float *work_memory;     // Owned; what compute works on
  int rounds;             // over each of its blocks
} copy_bench_t;

// What runs beside compute: large copies one after another, or a small one for each unit of compute.
typedef struct copy_load {
  bool writes, reads, is_small;
} copy_load_t;

// What one run of a load has shown, by lane.
typedef struct copy_facts {
  double lost_seconds; // by compute, for each second of large copies or for each small copy
  double copy_seconds; // of a copy, from when it could start
  double bytes_per_second;
} copy_facts_t;

typedef struct copy_samples {
  double lost_seconds[PASSES], copy_seconds[PASSES], bytes_per_second[PASSES];
} copy_samples_t;

static const copy_load_t loads[] = {{.writes = true, .is_small = true},
                                    {.reads = true, .is_small = true},
                                    {.writes = true},
                                    {.reads = true},
                                    {.writes = true, .reads = true}};
enum { SMALL_WRITES, SMALL_READS, WRITES, READS, BOTH, LOAD_COUNT };

static uint8_t *part_of(const copy_bench_t *bench, delta_lane_t lane) {
  return bench->memory + (lane == DELTA_LANE_OFFLOAD ? 0 : (size_t)BLOCKS * BLOCK_BYTES);
}

// ---- Alone

// Bytes a second of one pass over the blocks.
static delta_status_t time_pass(const copy_bench_t *bench, bool writes, double *out_speed) {
  uint8_t *memory = part_of(bench, writes ? DELTA_LANE_OFFLOAD : DELTA_LANE_PREFETCH);
  const double start_seconds = delta_clock_seconds();
  for (size_t offset = 0; offset < (size_t)BLOCKS * BLOCK_BYTES; offset += BLOCK_BYTES)
    DELTA_RETURN_IF_ERROR(writes ? delta_tier_write(bench->tier, offset, memory + offset, BLOCK_BYTES)
                                 : delta_tier_read(bench->tier, offset, memory + offset, BLOCK_BYTES));
  *out_speed = (double)BLOCKS * BLOCK_BYTES / (delta_clock_seconds() - start_seconds);
  return DELTA_OK;
}

static delta_status_t measure_alone(const copy_bench_t *bench, delta_profile_t *profile) {
  const double start_seconds = delta_clock_seconds();
  double offload[ALONE_PASSES], prefetch[ALONE_PASSES];
  uint32_t count = 0;
  do {
    DELTA_RETURN_IF_ERROR(time_pass(bench, true, &offload[count]));
    DELTA_RETURN_IF_ERROR(time_pass(bench, false, &prefetch[count]));
    ++count;
  } while (count < ALONE_PASSES && delta_clock_seconds() - start_seconds < most_alone_seconds);
  delta_profile_set_number(profile, DELTA_PROFILE_OFFLOAD, delta_profiler_quantile(offload, count, 0.5), delta_profile_measured);
  delta_profile_set_number(profile, DELTA_PROFILE_PREFETCH, delta_profiler_quantile(prefetch, count, 0.5), delta_profile_measured);
  return DELTA_OK;
}

static double time_copy(const copy_bench_t *bench) {
  enum { COPY_PASSES = 5 };
  const size_t part_bytes = (size_t)BLOCKS * BLOCK_BYTES;
  double speeds[COPY_PASSES];
  for (int pass = 0; pass < COPY_PASSES; ++pass) {
    const double start_seconds = delta_clock_seconds();
    memcpy(bench->memory, bench->memory + part_bytes, part_bytes);
    speeds[pass] = (double)part_bytes / (delta_clock_seconds() - start_seconds);
  }
  return delta_profiler_quantile(speeds, COPY_PASSES, 0.5);
}

// ---- Beside compute

// A schedule of units of compute with a copy of each lane behind each. Small copies wait for the unit before them.
static delta_status_t make_schedule(copy_bench_t *bench) {
  delta_region_t *region = &bench->region;
  delta_schedule_t *schedule = &bench->schedule;
  schedule->step_count = COPIES * DELTA_LANE_COUNT;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, schedule->step_count, &schedule->steps));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, MOST_SMALL_UNITS, &bench->signal_seconds));
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, COPIES, &bench->copies[l]));
  for (uint32_t s = 0; s < schedule->step_count; ++s) {
    delta_schedule_step_t *step = &schedule->steps[s];
    step->lane = (delta_lane_t)(s % DELTA_LANE_COUNT);
    DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, 1, &step->waits));
    step->waits[0] = s - s % DELTA_LANE_COUNT;
  }
  bench->work = (delta_lane_work_t){.schedule = schedule, .tier = bench->tier, .patience_seconds = INFINITY};
  return DELTA_OK;
}

static void prepare_lane(copy_bench_t *bench, delta_lane_t lane, const copy_load_t *load) {
  const bool runs = lane == DELTA_LANE_OFFLOAD ? load->writes : load->reads;
  const uint32_t count = load->is_small ? MOST_SMALL_UNITS : COPIES;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t s = i * DELTA_LANE_COUNT + (uint32_t)lane;
    const size_t block = i % (BLOCKS / 2) + (lane == DELTA_LANE_PREFETCH ? BLOCKS / 2 : 0), offset_bytes = block * BLOCK_BYTES;
    bench->schedule.steps[s].wait_count = load->is_small;
    bench->schedule.steps[s].host_offset_bytes = offset_bytes;
    bench->copies[lane][i] = (delta_lane_copy_t){.step = s,
                                                 .memory = part_of(bench, lane) + offset_bytes,
                                                 .size_bytes = load->is_small ? SMALL_BYTES : BLOCK_BYTES,
                                                 .tensor_name = "block"};
  }
  bench->work.copies[lane] = (delta_lane_copies_t){.items = bench->copies[lane], .count = runs ? count : 0};
}

typedef struct busy_work {
  float *memory; // of all blocks
  int rounds;
} busy_work_t;

static void work_on(const void *context, int64_t begin, int64_t end, int32_t thread) {
  enum { BLOCK_FLOATS = WORK_BLOCK_BYTES / sizeof(float) };
  const busy_work_t *work = context;
  (void)thread;
  for (int64_t block = begin; block < end; ++block) {
    float *memory = work->memory + block * BLOCK_FLOATS;
    for (int round = 0; round < work->rounds; ++round)
      for (int i = 0; i < BLOCK_FLOATS; ++i) memory[i] = 0.5f * memory[i] + 1;
  }
}

static void compute_unit(const copy_bench_t *bench, bool is_small) {
  const int32_t threads = bench->device->threads;
  delta_team_run(threads, (int64_t)threads * (is_small ? SMALL_BLOCKS : WORK_BLOCKS), WORK_BLOCK_BYTES, work_on,
                 &(busy_work_t){bench->work_memory, bench->rounds});
}

// Of some units: how many there were, and what one took in the mean.
typedef struct unit_facts {
  uint32_t count;
  double seconds;
} unit_facts_t;

static unit_facts_t compute_units(copy_bench_t *bench, const copy_load_t *load, bool signals) {
  const double start_seconds = delta_clock_seconds();
  double seconds = 0;
  uint32_t count = 0;
  while (count < (load->is_small ? MOST_SMALL_UNITS : MOST_UNITS) && (count < LEAST_UNITS || seconds < most_units_seconds)) {
    compute_unit(bench, load->is_small);
    const double now_seconds = delta_clock_seconds();
    seconds = now_seconds - start_seconds;
    if (signals) {
      bench->signal_seconds[count] = now_seconds;
      delta_lanes_signal(bench->lanes, count * DELTA_LANE_COUNT);
    }
    ++count;
  }
  return (unit_facts_t){count, seconds / count};
}

// The least of some units: the first ones touch new memory and wake the team.
static double unit_seconds(const copy_bench_t *bench) {
  enum { TRIES = 4 };
  double least_seconds = INFINITY;
  for (int i = 0; i < TRIES; ++i) {
    const double start_seconds = delta_clock_seconds();
    compute_unit(bench, false);
    least_seconds = fmin(least_seconds, delta_clock_seconds() - start_seconds);
  }
  return least_seconds;
}

// Where a unit takes long it goes over its blocks less often.
static void size_units(copy_bench_t *bench) {
  bench->rounds = MOST_ROUNDS;
  while (unit_seconds(bench) > most_unit_seconds && bench->rounds > 1) bench->rounds /= 2;
}

// A small copy as the step that needs it sees it: from when it may start, the one before it having ended.
static double small_seconds(const copy_bench_t *bench, delta_lane_t lane, uint32_t count) {
  double seconds[MOST_SMALL_UNITS], last_seconds = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const double end_seconds = bench->copies[lane][i].end_seconds;
    seconds[i] = end_seconds - fmax(bench->signal_seconds[i], last_seconds);
    last_seconds = end_seconds;
  }
  return fmax(0, delta_profiler_quantile(seconds, count, 0.5));
}

// Units of compute beside copies, and without them before and after.
static delta_status_t run_load(copy_bench_t *bench, const copy_load_t *load, copy_facts_t *out_facts) {
  static const delta_run_point_t start = {0};
  delta_lane_times_t times[DELTA_LANE_COUNT];
  for (int l = DELTA_LANE_OFFLOAD; l < DELTA_LANE_COUNT; ++l) prepare_lane(bench, (delta_lane_t)l, load);
  const unit_facts_t before = compute_units(bench, load, false);
  delta_lane_work_begin(&bench->work, &start);
  DELTA_RETURN_IF_ERROR(delta_lanes_begin(bench->lanes, &bench->work, &start));
  const unit_facts_t beside = compute_units(bench, load, load->is_small);
  DELTA_RETURN_IF_ERROR(delta_lanes_end(bench->lanes, (load->is_small ? beside.count : 1) * DELTA_LANE_COUNT, times));
  const unit_facts_t after = compute_units(bench, load, false);
  const double lost_seconds = beside.seconds - 0.5 * (before.seconds + after.seconds);
  const delta_lane_t lane = load->writes ? DELTA_LANE_OFFLOAD : DELTA_LANE_PREFETCH;
  const double copied_bytes = times[DELTA_LANE_OFFLOAD].copied_bytes + times[DELTA_LANE_PREFETCH].copied_bytes;
  out_facts->lost_seconds = load->is_small ? lost_seconds : lost_seconds / beside.seconds;
  out_facts->copy_seconds =
      load->is_small ? small_seconds(bench, lane, beside.count) : times[lane].busy_seconds * BLOCK_BYTES / times[lane].copied_bytes;
  out_facts->bytes_per_second = copied_bytes / fmax(times[DELTA_LANE_OFFLOAD].busy_seconds, times[DELTA_LANE_PREFETCH].busy_seconds);
  return DELTA_OK;
}

// Other work of the machine only ever adds.
static double typical_seconds(double samples[PASSES]) { return delta_profiler_quantile(samples, PASSES, 0.25); }

static void set_part(delta_profile_t *profile, delta_profile_id_t id, double part) {
  delta_profile_set_number(profile, id, fmin(fmax(0, part), DELTA_PROBLEM_MOST_DRAG), delta_profile_measured);
}

// The numbers of one lane. What a large copy takes is its start and its bytes; so is what compute loses to it.
static void keep_lane(const copy_facts_t *small, const copy_facts_t *large, const delta_profile_id_t ids[4], delta_profile_t *profile) {
  const double more_bytes = BLOCK_BYTES - SMALL_BYTES, least_seconds = large->copy_seconds / 2;
  const double byte_seconds = fmax(large->copy_seconds - small->copy_seconds, least_seconds) / more_bytes;
  const double start_seconds = fmin(fmax(0, small->copy_seconds - SMALL_BYTES * byte_seconds), 1);
  const double copy_lost_seconds = large->lost_seconds * large->copy_seconds;
  delta_profile_set_number(profile, ids[0], 1 / byte_seconds, delta_profile_measured);
  delta_profile_set_number(profile, ids[1], start_seconds, delta_profile_measured);
  set_part(profile, ids[2], start_seconds > 0 ? small->lost_seconds / start_seconds : 0);
  set_part(profile, ids[3], (copy_lost_seconds - small->lost_seconds) / (BLOCK_BYTES * byte_seconds));
}

static delta_status_t measure_beside(copy_bench_t *bench, delta_profile_t *profile) {
  static const delta_profile_id_t offload[] = {DELTA_PROFILE_OFFLOAD_BESIDE, DELTA_PROFILE_OFFLOAD_START, DELTA_PROFILE_OFFLOAD_START_DRAG,
                                               DELTA_PROFILE_OFFLOAD_DRAG},
                                  prefetch[] = {DELTA_PROFILE_PREFETCH_BESIDE, DELTA_PROFILE_PREFETCH_START,
                                                DELTA_PROFILE_PREFETCH_START_DRAG, DELTA_PROFILE_PREFETCH_DRAG};
  copy_samples_t samples[LOAD_COUNT];
  copy_facts_t facts[LOAD_COUNT];
  size_units(bench);
  for (int pass = 0; pass < PASSES; ++pass) {
    for (int i = 0; i < LOAD_COUNT; ++i) {
      DELTA_RETURN_IF_ERROR(run_load(bench, &loads[i], &facts[i]));
      samples[i].lost_seconds[pass] = facts[i].lost_seconds;
      samples[i].copy_seconds[pass] = facts[i].copy_seconds;
      samples[i].bytes_per_second[pass] = facts[i].bytes_per_second;
    }
  }
  for (int i = 0; i < LOAD_COUNT; ++i)
    facts[i] = (copy_facts_t){typical_seconds(samples[i].lost_seconds), typical_seconds(samples[i].copy_seconds),
                              delta_profiler_quantile(samples[i].bytes_per_second, PASSES, 0.75)};
  keep_lane(&facts[SMALL_WRITES], &facts[WRITES], offload, profile);
  keep_lane(&facts[SMALL_READS], &facts[READS], prefetch, profile);
  delta_profile_set_number(profile, DELTA_PROFILE_SHARED, facts[BOTH].bytes_per_second, delta_profile_measured);
  return DELTA_OK;
}

// ---- Life

static delta_status_t open_bench(copy_bench_t *bench, delta_allocator_t allocator, delta_log_sink_t log) {
  const size_t size_bytes = (size_t)2 * BLOCKS * BLOCK_BYTES, work_floats = WORK_BLOCKS * WORK_BLOCK_BYTES / sizeof *bench->work_memory;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, work_floats * (size_t)bench->device->threads, &bench->work_memory));
  DELTA_RETURN_IF_ERROR(delta_allocate(allocator, size_bytes + ALIGNMENT_BYTES, 1, &bench->allocation));
  bench->memory = (uint8_t *)bench->allocation + ALIGNMENT_BYTES - (uintptr_t)bench->allocation % ALIGNMENT_BYTES;
  memset(bench->memory, 1, size_bytes);
  DELTA_RETURN_IF_ERROR(delta_tier_create_file(NULL, log, allocator, &bench->tier));
  DELTA_RETURN_IF_ERROR(delta_tier_reserve(bench->tier, (uint64_t)BLOCKS * BLOCK_BYTES));
  DELTA_RETURN_IF_ERROR(delta_lanes_create(allocator, &bench->lanes));
  return make_schedule(bench);
}

static delta_status_t measure(copy_bench_t *bench, delta_profile_t *profile, delta_allocator_t allocator, delta_log_sink_t log) {
  DELTA_RETURN_IF_ERROR(open_bench(bench, allocator, log));
  delta_profile_set_number(profile, DELTA_PROFILE_COPY, time_copy(bench), delta_profile_measured);
  DELTA_RETURN_IF_ERROR(measure_alone(bench, profile));
  return measure_beside(bench, profile);
}

static delta_status_t measure_file(delta_profiler_t *profiler) {
  copy_bench_t bench = {.device = profiler->options.device};
  delta_region_init(&bench.region, profiler->allocator);
  delta_status_t status = measure(&bench, profiler->profile, profiler->allocator, profiler->options.log);
  delta_lanes_destroy(bench.lanes); // no copy is lost: all were waited for
  delta_tier_destroy(bench.tier);
  delta_region_deinit(&bench.region);
  delta_release(profiler->allocator, bench.allocation);
  delta_release(profiler->allocator, bench.work_memory);
  return status;
}

delta_status_t delta_profiler_measure_copies(delta_profiler_t *profiler) {
  delta_profile_t *profile = profiler->profile;
  const bool is_known =
      delta_profile_is_measured(profile, DELTA_PROFILE_PREFETCH_BESIDE) && delta_profile_is_measured(profile, DELTA_PROFILE_PREFETCH_START);
  if (profiler->options.only_read || is_known || profiler->has_met_copies) return DELTA_OK;
  profiler->has_met_copies = true;
  const double start_seconds = delta_clock_seconds();
  delta_status_t status = profiler->options.device->has_queues ? delta_profiler_measure_queues(profiler) : measure_file(profiler);
  profiler->seconds += delta_clock_seconds() - start_seconds;
  profiler->is_changed = true;
  if (!status || delta_status_code(status) == DELTA_STATUS_OUT_OF_MEMORY) return status;
  // A plan that swaps will meet the same disk or memory and say so; others do without it.
  delta_log(profiler->options.log, DELTA_LOG_NOTE, "the speed of copies below the arena is not known: %s", delta_status_message(status));
  delta_status_free(status);
  return DELTA_OK;
}
