// The numbers are atomic; the mutex and the one condition are for those who have to sleep. Whoever raises a number looks whether someone sleeps, whoever is about to
// sleep says so before he looks at the number again: with sequentially consistent operations one of the two sees the other.
#include "runtime/lanes.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

typedef struct lane_thread {
  delta_lanes_t *lanes;
  delta_lane_t lane;
  pthread_t thread;
  bool is_started;
  bool is_running; // a run; under the mutex
  // The copy at hand, for whoever loses patience; NULL: the lane waits. Relaxed: an order that the plan forgot must not come about by looking at them.
  _Atomic(const delta_lane_copy_t *) copy;
  _Atomic double copy_start_seconds;
  delta_lane_times_t times;
} lane_thread_t;

struct delta_lanes {
  delta_allocator_t allocator;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  atomic_uint sleepers;
  atomic_uint ended[DELTA_LANE_COUNT]; // steps up to and including the last that has ended; 0: none
  atomic_uint limit;                   // copies from this step on are not started
  atomic_bool has_failed;
  const delta_lane_work_t *work;
  lane_thread_t threads[DELTA_LANE_COUNT]; // none for COMPUTE
  delta_status_t failure;                  // Owned; the first; under the mutex
  double start_seconds, compute_wait_seconds;
  uint64_t run; // number of the run; under the mutex
  bool stops;   // under the mutex
};

static const double LEAST_BYTES_PER_SECOND = 1 << 20; // of a disk that still works

// ---- Events

static void wake_sleepers(delta_lanes_t *lanes) {
  if (atomic_load(&lanes->sleepers) == 0) return;
  pthread_mutex_lock(&lanes->mutex);
  pthread_cond_broadcast(&lanes->changed);
  pthread_mutex_unlock(&lanes->mutex);
}

static void signal_step(delta_lanes_t *lanes, delta_lane_t lane, uint32_t step) {
  atomic_store(&lanes->ended[lane], step + 1);
  wake_sleepers(lanes);
}

static bool waits_are_over(delta_lanes_t *lanes, const delta_schedule_step_t *step) {
  for (uint32_t w = 0; w < step->wait_count; ++w) {
    const uint32_t awaited = step->waits[w];
    if (atomic_load(&lanes->ended[lanes->work->schedule->steps[awaited].lane]) <= awaited) return false;
  }
  return true;
}

// Under the mutex. The first failure is kept.
static void fail(delta_lanes_t *lanes, delta_status_t status) {
  lanes->failure = delta_status_join(lanes->failure, status);
  atomic_store(&lanes->has_failed, true);
  pthread_cond_broadcast(&lanes->changed);
}

// Under the mutex: sleeps until something changes, and no longer than a second.
static void sleep_a_while(delta_lanes_t *lanes) {
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  ++until.tv_sec;
  pthread_cond_timedwait(&lanes->changed, &lanes->mutex, &until);
}

// ---- Copies

static const char *direction_of(delta_lane_t lane) { return lane == DELTA_LANE_OFFLOAD ? "to" : "from"; }

static delta_status_t keep(const delta_lane_work_t *work, uint32_t earliest_step, uint32_t step, delta_status_t failure) {
  if (work->keeper_mutex) pthread_mutex_lock(work->keeper_mutex);
  delta_status_t status = delta_keeper_keep(work->keeper, step, earliest_step, failure);
  if (work->keeper_mutex) pthread_mutex_unlock(work->keeper_mutex);
  return status;
}

static delta_status_t copy_below(const delta_lane_work_t *work, uint32_t earliest_step, const delta_lane_copy_t *copy) {
  const uint64_t offset_bytes = work->schedule->steps[copy->step].host_offset_bytes;
  delta_status_t status = delta_tier_write(work->tier, offset_bytes, copy->memory, copy->size_bytes);
  return status && work->keeper ? keep(work, earliest_step, copy->step, status) : status;
}

static delta_status_t copy_back(const delta_lane_work_t *work, const delta_lane_copy_t *copy) {
  const void *kept = work->keeper ? delta_keeper_find(work->keeper, copy->step) : NULL;
  if (!kept) return delta_tier_read(work->tier, work->schedule->steps[copy->step].host_offset_bytes, copy->memory, copy->size_bytes);
  memcpy(copy->memory, kept, copy->size_bytes);
  return DELTA_OK;
}

delta_status_t delta_lane_copy_run(const delta_lane_work_t *work, delta_lane_t lane, uint32_t earliest_step, delta_lane_copy_t *copy) {
  copy->start_seconds = delta_clock_seconds();
  delta_status_t status = lane == DELTA_LANE_OFFLOAD ? copy_below(work, earliest_step, copy) : copy_back(work, copy);
  copy->end_seconds = delta_clock_seconds();
  copy->is_done = status == DELTA_OK;
  copy->has_failed = !copy->is_done;
  return delta_status_annotate(status, "schedule step %u, copying tensor '%s' %s the tier below", copy->step, copy->tensor_name,
                               direction_of(lane));
}

// The first step that may not have ended.
static uint32_t find_earliest(delta_lanes_t *lanes) {
  const delta_schedule_t *schedule = lanes->work->schedule;
  uint32_t earliest = schedule->step_count;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    uint32_t next = atomic_load(&lanes->ended[l]);
    while (next < earliest && schedule->steps[next].lane != (delta_lane_t)l) ++next;
    if (next < earliest) earliest = next;
  }
  return earliest;
}

static void set_copy(lane_thread_t *thread, const delta_lane_copy_t *copy) {
  atomic_store_explicit(&thread->copy_start_seconds, delta_clock_seconds(), memory_order_relaxed);
  atomic_store_explicit(&thread->copy, copy, memory_order_relaxed);
}

// Waits until the copy may start; false: it never will.
static bool wait_for_copy(lane_thread_t *thread, const delta_lane_copy_t *copy) {
  delta_lanes_t *lanes = thread->lanes;
  // A copy that was given up may come back when the schedule is gone.
  if (atomic_load(&lanes->has_failed)) return false;
  const delta_schedule_step_t *step = &lanes->work->schedule->steps[copy->step];
  bool may_start = waits_are_over(lanes, step);
  if (!may_start) {
    const double start_seconds = delta_clock_seconds();
    pthread_mutex_lock(&lanes->mutex);
    atomic_fetch_add(&lanes->sleepers, 1);
    while (!(may_start = waits_are_over(lanes, step)) && !atomic_load(&lanes->has_failed) && copy->step < atomic_load(&lanes->limit)) {
      pthread_cond_wait(&lanes->changed, &lanes->mutex);
    }
    atomic_fetch_sub(&lanes->sleepers, 1);
    pthread_mutex_unlock(&lanes->mutex);
    thread->times.wait_seconds += delta_clock_seconds() - start_seconds;
  }
  return may_start && !atomic_load(&lanes->has_failed) && copy->step < atomic_load(&lanes->limit);
}

static void run_copies(lane_thread_t *thread) {
  delta_lanes_t *lanes = thread->lanes;
  const delta_lane_copies_t *copies = &lanes->work->copies[thread->lane];
  for (uint32_t i = 0; i < copies->count; ++i) {
    delta_lane_copy_t *copy = &copies->items[i];
    if (copy->is_done) continue;
    if (!wait_for_copy(thread, copy)) return;
    set_copy(thread, copy);
    delta_status_t status = delta_lane_copy_run(lanes->work, thread->lane, find_earliest(lanes), copy);
    set_copy(thread, NULL);
    thread->times.busy_seconds += copy->end_seconds - copy->start_seconds;
    thread->times.copied_bytes += (double)copy->size_bytes;
    ++thread->times.copies;
    if (status) {
      pthread_mutex_lock(&lanes->mutex);
      fail(lanes, status);
      pthread_mutex_unlock(&lanes->mutex);
      return;
    }
    signal_step(lanes, thread->lane, copy->step);
  }
}

static void *serve(void *self) {
  lane_thread_t *thread = self;
  delta_lanes_t *lanes = thread->lanes;
  uint64_t run = 0;
  pthread_mutex_lock(&lanes->mutex);
  while (!lanes->stops) {
    if (lanes->run == run) {
      pthread_cond_wait(&lanes->changed, &lanes->mutex);
      continue;
    }
    run = lanes->run;
    pthread_mutex_unlock(&lanes->mutex);
    run_copies(thread);
    pthread_mutex_lock(&lanes->mutex);
    thread->is_running = false;
    pthread_cond_broadcast(&lanes->changed);
  }
  pthread_mutex_unlock(&lanes->mutex);
  return NULL;
}

// ---- Patience

// How long the copy that a thread is at takes already; 0: not too long yet.
static double find_overdue(const lane_thread_t *thread, const delta_lane_copy_t **out_copy) {
  const delta_lane_copy_t *copy = atomic_load_explicit(&thread->copy, memory_order_relaxed);
  *out_copy = copy;
  if (!copy) return 0;
  const double taken_seconds = delta_clock_seconds() - atomic_load_explicit(&thread->copy_start_seconds, memory_order_relaxed);
  const double allowed_seconds = thread->lanes->work->patience_seconds + (double)copy->size_bytes / LEAST_BYTES_PER_SECOND;
  return taken_seconds > allowed_seconds ? taken_seconds : 0;
}

// Under the mutex: fails the run when a copy has taken too long.
static void look_for_lost_copies(delta_lanes_t *lanes) {
  for (int l = 0; l < DELTA_LANE_COUNT && !lanes->failure; ++l) {
    const delta_lane_copy_t *copy;
    const double taken_seconds = find_overdue(&lanes->threads[l], &copy);
    if (taken_seconds == 0) continue;
    fail(lanes, delta_status_make(
                    IO,
                    "schedule step %u, copying tensor '%s' of %zu bytes %s the tier below: not ended after %.1f seconds; look at the "
                    "disk, or give another folder (--tier DIR)",
                    copy->step, copy->tensor_name, copy->size_bytes, direction_of((delta_lane_t)l), taken_seconds));
  }
}

// Under the mutex: whether every thread that still runs is at a copy that will not end.
static bool all_are_lost(const delta_lanes_t *lanes) {
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    const delta_lane_copy_t *copy;
    if (lanes->threads[l].is_running && find_overdue(&lanes->threads[l], &copy) == 0) return false;
  }
  return true;
}

static bool any_is_running(const delta_lanes_t *lanes) {
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    if (lanes->threads[l].is_running) return true;
  }
  return false;
}

// ---- Runs

delta_status_t delta_lanes_check(delta_lanes_t *lanes) {
  if (!lanes) return DELTA_OK;
  pthread_mutex_lock(&lanes->mutex);
  const bool is_stuck = any_is_running(lanes);
  pthread_mutex_unlock(&lanes->mutex);
  return is_stuck ? delta_status_make(IO, "a copy of an earlier step has not ended: close the session, and look at the disk") : DELTA_OK;
}

void delta_lane_work_begin(delta_lane_work_t *work, const delta_run_point_t *from) {
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    for (uint32_t i = 0; i < work->copies[l].count; ++i) {
      delta_lane_copy_t *copy = &work->copies[l].items[i];
      copy->start_seconds = copy->end_seconds = 0;
      copy->is_done = copy->step < from->ended[l];
      copy->has_failed = false;
    }
  }
}

delta_status_t delta_lanes_begin(delta_lanes_t *lanes, const delta_lane_work_t *work, const delta_run_point_t *from) {
  DELTA_RETURN_IF_ERROR(delta_lanes_check(lanes));
  pthread_mutex_lock(&lanes->mutex);
  delta_status_free(lanes->failure);
  lanes->failure = DELTA_OK;
  lanes->work = work;
  atomic_store(&lanes->has_failed, false);
  atomic_store(&lanes->limit, UINT32_MAX);
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    lane_thread_t *thread = &lanes->threads[l];
    atomic_store(&lanes->ended[l], from->ended[l]);
    thread->times = (delta_lane_times_t){0};
    thread->is_running = thread->is_started;
  }
  lanes->start_seconds = delta_clock_seconds();
  lanes->compute_wait_seconds = 0;
  ++lanes->run;
  pthread_cond_broadcast(&lanes->changed);
  pthread_mutex_unlock(&lanes->mutex);
  return DELTA_OK;
}

delta_lane_wait_t delta_lanes_wait(delta_lanes_t *lanes, uint32_t step, double late_seconds) {
  const delta_schedule_step_t *entry = &lanes->work->schedule->steps[step];
  bool is_late = false;
  if (!waits_are_over(lanes, entry)) {
    const double start_seconds = delta_clock_seconds();
    pthread_mutex_lock(&lanes->mutex);
    atomic_fetch_add(&lanes->sleepers, 1);
    // Whether it is late is looked at when a copy has ended: before that nothing could be changed, and a timer of its own for each wait would cost more than all else here.
    while (!waits_are_over(lanes, entry) && !atomic_load(&lanes->has_failed) && !is_late) {
      sleep_a_while(lanes);
      look_for_lost_copies(lanes);
      is_late = late_seconds > 0 && delta_clock_seconds() - start_seconds >= late_seconds;
    }
    atomic_fetch_sub(&lanes->sleepers, 1);
    pthread_mutex_unlock(&lanes->mutex);
    lanes->compute_wait_seconds += delta_clock_seconds() - start_seconds;
  }
  if (atomic_load(&lanes->has_failed)) return DELTA_LANE_FAILED;
  return is_late ? DELTA_LANE_LATE : DELTA_LANE_READY;
}

void delta_lanes_signal(delta_lanes_t *lanes, uint32_t step) { signal_step(lanes, DELTA_LANE_COMPUTE, step); }

// Under the mutex: waits for the threads that will come back.
static void wait_for_threads(delta_lanes_t *lanes) {
  while (any_is_running(lanes) && !all_are_lost(lanes)) sleep_a_while(lanes);
  look_for_lost_copies(lanes);
}

delta_status_t delta_lanes_end(delta_lanes_t *lanes, uint32_t limit, delta_lane_times_t out_times[DELTA_LANE_COUNT]) {
  const double start_seconds = delta_clock_seconds();
  pthread_mutex_lock(&lanes->mutex);
  atomic_store(&lanes->limit, limit);
  pthread_cond_broadcast(&lanes->changed);
  wait_for_threads(lanes);
  const double end_seconds = delta_clock_seconds();
  lanes->compute_wait_seconds += end_seconds - start_seconds;
  for (int l = 0; l < DELTA_LANE_COUNT; ++l)
    out_times[l] = lanes->threads[l].is_running ? (delta_lane_times_t){0} : lanes->threads[l].times;
  delta_status_t failure = lanes->failure;
  lanes->failure = DELTA_OK;
  pthread_mutex_unlock(&lanes->mutex);
  out_times[DELTA_LANE_COMPUTE] = (delta_lane_times_t){.busy_seconds = end_seconds - lanes->start_seconds - lanes->compute_wait_seconds,
                                                       .wait_seconds = lanes->compute_wait_seconds};
  return failure;
}

// ---- Life

// Signals are for the program's own threads. Stacks are as small as copies need: limits of a process count all of them.
static delta_status_t start_threads(delta_lanes_t *lanes) {
  enum { STACK_BYTES = 512 << 10 };
  sigset_t all, before;
  pthread_attr_t attributes;
  int error = 0;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  for (int l = 0; l < DELTA_LANE_COUNT && error == 0; ++l) {
    lane_thread_t *thread = &lanes->threads[l];
    thread->lanes = lanes;
    thread->lane = (delta_lane_t)l;
    if (l == DELTA_LANE_COMPUTE) continue;
    error = pthread_create(&thread->thread, &attributes, serve, thread);
    thread->is_started = error == 0;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error == 0 ? DELTA_OK : delta_status_make(OUT_OF_MEMORY, "no thread for copies to the tier below: %s", strerror(error));
}

delta_status_t delta_lanes_create(delta_allocator_t allocator, delta_lanes_t **out_lanes) {
  *out_lanes = NULL;
  delta_lanes_t *lanes = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &lanes));
  lanes->allocator = allocator;
  pthread_mutex_init(&lanes->mutex, NULL);
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&lanes->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  delta_status_t status = start_threads(lanes);
  if (status) {
    delta_lanes_destroy(lanes);
    return status;
  }
  *out_lanes = lanes;
  return DELTA_OK;
}

bool delta_lanes_destroy(delta_lanes_t *lanes) {
  if (!lanes) return true;
  pthread_mutex_lock(&lanes->mutex);
  lanes->stops = true;
  pthread_cond_broadcast(&lanes->changed);
  const bool is_stuck = any_is_running(lanes);
  pthread_mutex_unlock(&lanes->mutex);
  for (int l = 0; l < DELTA_LANE_COUNT; ++l) {
    const lane_thread_t *thread = &lanes->threads[l];
    if (!thread->is_started) continue;
    if (is_stuck) {
      pthread_detach(thread->thread);
    } else {
      pthread_join(thread->thread, NULL);
    }
  }
  if (is_stuck) return false;
  pthread_cond_destroy(&lanes->changed);
  pthread_mutex_destroy(&lanes->mutex);
  delta_status_free(lanes->failure);
  delta_release(lanes->allocator, lanes);
  return true;
}
