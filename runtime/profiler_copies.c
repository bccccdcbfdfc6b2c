// Measuring how fast memory is copied, and how fast the tier below the arena takes and gives bytes: alone, and beside a thread that keeps memory busy, as
// compute does, and both ways at once. For devices whose memory is the host's.
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "runtime/profiler_parts.h"
#include "runtime/tier.h"

enum { BLOCK_BYTES = 4 << 20, BLOCKS = 8, ALIGNMENT_BYTES = 4096 };

// Two halves: transfers use the first, the busy thread copies between the parts of the second.
typedef struct copy_bench {
  char *memory; // Owned; 2 * BLOCKS blocks, aligned within the allocation
  void *allocation;
  delta_tier_t *tier, *second; // Owned.
  atomic_bool stops;
  atomic_size_t read_blocks;
  delta_status_t read_status; // of the thread that reads
} copy_bench_t;

static void *keep_busy(void *self) {
  copy_bench_t *bench = self;
  char *half = bench->memory + (size_t)BLOCKS * BLOCK_BYTES;
  while (!atomic_load(&bench->stops)) memcpy(half, half + (size_t)BLOCKS / 2 * BLOCK_BYTES, (size_t)BLOCKS / 2 * BLOCK_BYTES);
  return NULL;
}

// Bytes a second of one pass over the blocks.
static delta_status_t time_pass(copy_bench_t *bench, bool writes, double *out_speed) {
  const double start_seconds = delta_clock_seconds();
  for (size_t block = 0; block < BLOCKS; ++block) {
    const size_t offset = block * BLOCK_BYTES;
    DELTA_RETURN_IF_ERROR(writes ? delta_tier_write(bench->tier, offset, bench->memory + offset, BLOCK_BYTES)
                                 : delta_tier_read(bench->tier, offset, bench->memory + offset, BLOCK_BYTES));
  }
  *out_speed = (double)BLOCKS * BLOCK_BYTES / (delta_clock_seconds() - start_seconds);
  return DELTA_OK;
}

// The median of three passes each way.
static delta_status_t time_transfers(copy_bench_t *bench, double *out_offload, double *out_prefetch) {
  enum { PASSES = 3 };
  double offload[PASSES], prefetch[PASSES];
  for (int pass = 0; pass < PASSES; ++pass) {
    DELTA_RETURN_IF_ERROR(time_pass(bench, true, &offload[pass]));
    DELTA_RETURN_IF_ERROR(time_pass(bench, false, &prefetch[pass]));
  }
  *out_offload = delta_profiler_quantile(offload, PASSES, 0.5);
  *out_prefetch = delta_profiler_quantile(prefetch, PASSES, 0.5);
  return DELTA_OK;
}

// The other direction, over and over, to the upper half of the blocks.
static void *keep_reading(void *self) {
  copy_bench_t *bench = self;
  for (size_t block = BLOCKS / 2; !atomic_load(&bench->stops); block = block + 1 < BLOCKS ? block + 1 : BLOCKS / 2) {
    const size_t offset = block * BLOCK_BYTES;
    delta_status_t status = delta_tier_read(bench->tier, offset, bench->memory + offset, BLOCK_BYTES);
    if (status) {
      bench->read_status = status;
      return NULL;
    }
    atomic_fetch_add(&bench->read_blocks, 1);
  }
  return NULL;
}

// Bytes a second of both directions together. A tier is for one thread: what is written goes to a second one.
static delta_status_t time_both(copy_bench_t *bench, double *out_speed) {
  enum { PASSES = 3 };
  pthread_t thread;
  delta_status_t status = DELTA_OK;
  atomic_store(&bench->stops, false);
  if (pthread_create(&thread, NULL, keep_reading, bench) != 0) return delta_status_make(OUT_OF_MEMORY, "no thread to copy back");
  const double start_seconds = delta_clock_seconds();
  size_t written_blocks = 0;
  for (; !status && written_blocks < (size_t)PASSES * BLOCKS / 2; ++written_blocks) {
    const size_t offset = written_blocks % (BLOCKS / 2) * BLOCK_BYTES;
    status = delta_tier_write(bench->second, offset, bench->memory + offset, BLOCK_BYTES);
  }
  const double seconds = delta_clock_seconds() - start_seconds;
  const size_t blocks = written_blocks + atomic_load(&bench->read_blocks);
  atomic_store(&bench->stops, true);
  pthread_join(thread, NULL);
  *out_speed = (double)blocks * BLOCK_BYTES / seconds;
  return delta_status_join(status, bench->read_status);
}

static double time_copy(const copy_bench_t *bench) {
  enum { PASSES = 5 };
  const size_t half_bytes = (size_t)BLOCKS * BLOCK_BYTES;
  double speeds[PASSES];
  for (int pass = 0; pass < PASSES; ++pass) {
    const double start_seconds = delta_clock_seconds();
    memcpy(bench->memory, bench->memory + half_bytes, half_bytes);
    speeds[pass] = (double)half_bytes / (delta_clock_seconds() - start_seconds);
  }
  return delta_profiler_quantile(speeds, PASSES, 0.5);
}

// Times both ways under the names of two numbers.
static delta_status_t measure_transfers(copy_bench_t *bench, delta_profile_id_t offload, delta_profile_id_t prefetch,
                                        delta_profile_t *profile) {
  double offload_speed, prefetch_speed;
  DELTA_RETURN_IF_ERROR(time_transfers(bench, &offload_speed, &prefetch_speed));
  delta_profile_set_number(profile, offload, offload_speed, delta_profile_measured);
  delta_profile_set_number(profile, prefetch, prefetch_speed, delta_profile_measured);
  return DELTA_OK;
}

static delta_status_t time_beside(copy_bench_t *bench, delta_profile_t *profile) {
  pthread_t thread;
  atomic_store(&bench->stops, false);
  if (pthread_create(&thread, NULL, keep_busy, bench) != 0) return delta_status_make(OUT_OF_MEMORY, "no thread to keep memory busy");
  const delta_status_t status = measure_transfers(bench, DELTA_PROFILE_OFFLOAD_BESIDE, DELTA_PROFILE_PREFETCH_BESIDE, profile);
  atomic_store(&bench->stops, true);
  pthread_join(thread, NULL);
  return status;
}

static delta_status_t make_tier(delta_log_sink_t log, delta_allocator_t allocator, delta_tier_t **out_tier) {
  DELTA_RETURN_IF_ERROR(delta_tier_create_file(NULL, log, allocator, out_tier));
  return delta_tier_reserve(*out_tier, (uint64_t)BLOCKS * BLOCK_BYTES);
}

static delta_status_t measure(copy_bench_t *bench, delta_profile_t *profile, delta_allocator_t allocator, delta_log_sink_t log) {
  const size_t size_bytes = (size_t)2 * BLOCKS * BLOCK_BYTES;
  DELTA_RETURN_IF_ERROR(delta_allocate(allocator, size_bytes + ALIGNMENT_BYTES, 1, &bench->allocation));
  bench->memory = (char *)bench->allocation + ALIGNMENT_BYTES - (uintptr_t)bench->allocation % ALIGNMENT_BYTES;
  memset(bench->memory, 1, size_bytes);
  delta_profile_set_number(profile, DELTA_PROFILE_COPY, time_copy(bench), delta_profile_measured);
  DELTA_RETURN_IF_ERROR(make_tier(log, allocator, &bench->tier));
  DELTA_RETURN_IF_ERROR(measure_transfers(bench, DELTA_PROFILE_OFFLOAD, DELTA_PROFILE_PREFETCH, profile));
  double both_speed;
  DELTA_RETURN_IF_ERROR(make_tier(log, allocator, &bench->second));
  DELTA_RETURN_IF_ERROR(time_both(bench, &both_speed));
  delta_profile_set_number(profile, DELTA_PROFILE_SHARED, both_speed, delta_profile_measured);
  return time_beside(bench, profile);
}

delta_status_t delta_profiler_measure_copies(delta_profiler_t *profiler) {
  delta_profile_t *profile = profiler->profile;
  if (profiler->options.only_read || delta_profile_is_measured(profile, DELTA_PROFILE_PREFETCH_BESIDE)) return DELTA_OK;
  copy_bench_t bench = {0};
  const double start_seconds = delta_clock_seconds();
  delta_status_t status = profiler->options.device->has_queues ? delta_profiler_measure_queues(profiler)
                                                               : measure(&bench, profile, profiler->allocator, profiler->options.log);
  delta_tier_destroy(bench.second);
  delta_tier_destroy(bench.tier);
  delta_release(profiler->allocator, bench.allocation);
  profiler->seconds += delta_clock_seconds() - start_seconds;
  profiler->is_changed = true;
  if (!status || delta_status_code(status) == DELTA_STATUS_OUT_OF_MEMORY) return status;
  // A plan that swaps will meet the same disk or memory and say so; others do without it.
  delta_log(profiler->options.log, DELTA_LOG_NOTE, "the speed of copies below the arena is not known: %s", delta_status_message(status));
  delta_status_free(status);
  return DELTA_OK;
}
