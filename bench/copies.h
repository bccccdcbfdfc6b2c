// Plain copies: what kernels that move memory are measured against. A copy is a list of jobs, shared among the threads of a team as kernels share their work.
//
// Which copy is the fastest depends on the machine and on where the data stands: the C library's memcpy, plain stores, or stores around the caches, which save
// reading what is overwritten. Whoever measures says which of them count. Nothing can be copied onto itself; a job whose ends are the same reads and writes in place.
#ifndef DELTA_BENCH_COPIES_H_
#define DELTA_BENCH_COPIES_H_

#include <stdint.h>
#include <string.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/array.h"
#include "base/clock.h"
#include "runtime/cpu/team.h"

enum { BENCH_JOB_BYTES = 64 << 10, BENCH_LINE_BYTES = 64 };

typedef struct bench_job {
  char *to;
  const char *from;
  size_t size_bytes; // whole lines
} bench_job_t;

typedef enum bench_way {
  BENCH_MEMCPY,
  BENCH_STORES,
  BENCH_STREAM, // stores around the caches
  BENCH_WAY_COUNT,
} bench_way_t;

typedef struct bench_copy {
  DELTA_ARRAY(bench_job_t) jobs; // Owned, by the system's allocator.
  bench_way_t way;
  uint64_t nothing; // 0, which compilers do not know
} bench_copy_t;

// Adds a copy of whole lines, in jobs that threads can share.
static inline delta_status_t bench_add_jobs(bench_copy_t *copy, char *to, const char *from, size_t size_bytes) {
  for (size_t at = 0; at < size_bytes; at += BENCH_JOB_BYTES) {
    const bench_job_t job = {to + at, from + at, size_bytes - at < BENCH_JOB_BYTES ? size_bytes - at : BENCH_JOB_BYTES};
    DELTA_RETURN_IF_ERROR(delta_array_push(delta_allocator_system(), &copy->jobs, &job));
  }
  return DELTA_OK;
}

// What a compiler must not move stores across, lest it makes a memcpy of them.
#define BENCH_BARRIER() __asm__ volatile("" ::: "memory")

static inline void bench_store(char *to, const char *from, size_t size_bytes) {
  for (size_t at = 0; at < size_bytes; at += BENCH_LINE_BYTES) {
    memcpy(to + at, from + at, BENCH_LINE_BYTES);
    BENCH_BARRIER();
  }
}

static inline void bench_stream(char *to, const char *from, size_t size_bytes) {
#if defined(__SSE2__)
  for (size_t at = 0; at < size_bytes; at += BENCH_LINE_BYTES) {
    for (size_t k = 0; k < BENCH_LINE_BYTES; k += sizeof(__m128i))
      _mm_stream_si128((__m128i *)(void *)(to + at + k), _mm_load_si128((const __m128i *)(const void *)(from + at + k)));
  }
  _mm_sfence();
#else
  bench_store(to, from, size_bytes);
#endif
}

static inline void bench_touch(char *at, size_t size_bytes, uint64_t nothing) {
  uint64_t *words = (uint64_t *)(void *)at;
  for (size_t i = 0; i < size_bytes / sizeof *words; ++i) words[i] ^= nothing;
}

static inline void bench_run_jobs(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const bench_copy_t *copy = context;
  for (int64_t i = begin; i < end; ++i) {
    const bench_job_t *job = &copy->jobs.items[i];
    if (job->to == job->from) {
      bench_touch(job->to, job->size_bytes, copy->nothing);
    } else if (copy->way == BENCH_MEMCPY) {
      memcpy(job->to, job->from, job->size_bytes);
    } else {
      (copy->way == BENCH_STORES ? bench_store : bench_stream)(job->to, job->from, job->size_bytes);
    }
  }
}

// Seconds of one run of all jobs.
static inline double bench_copy_seconds(const bench_copy_t *copy, int32_t threads) {
  const double start = delta_clock_seconds();
  delta_team_run(threads, (int64_t)copy->jobs.count, BENCH_JOB_BYTES, bench_run_jobs, copy);
  return delta_clock_seconds() - start;
}

#endif // DELTA_BENCH_COPIES_H_
