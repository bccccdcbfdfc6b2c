// Threads are made for each run: runs last for seconds, and nothing waits in between.
#include "runtime/crew.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>

#include "runtime/cpu/device.h"

enum { MOST_THREADS = 64 };

typedef struct crew {
  delta_crew_job_t job;
  void *self;
  uint32_t count;
  pthread_mutex_t mutex;
  // Under the mutex:
  uint32_t next;
  uint32_t failed; // the first job that failed
  delta_status_t failure;
} crew_t;

uint32_t delta_crew_threads(int32_t wanted) {
  const int32_t usable = delta_cpu_usable_processors();
  const int32_t threads = wanted > 0 && wanted < usable ? wanted : usable;
  return threads < MOST_THREADS ? (uint32_t)threads : MOST_THREADS;
}

// The next job to begin; false: there is none.
static bool take_next(crew_t *crew, uint32_t *out_index) {
  pthread_mutex_lock(&crew->mutex);
  *out_index = crew->next;
  const bool is_there = crew->next < crew->count && !crew->failure;
  if (is_there) ++crew->next;
  pthread_mutex_unlock(&crew->mutex);
  return is_there;
}

static void note_failure(crew_t *crew, uint32_t index, delta_status_t status) {
  pthread_mutex_lock(&crew->mutex);
  const bool is_first = !crew->failure || index < crew->failed;
  delta_status_t const other = is_first ? crew->failure : status;
  if (is_first) {
    crew->failure = status;
    crew->failed = index;
  }
  delta_status_free(other);
  pthread_mutex_unlock(&crew->mutex);
}

static void *serve(void *self) {
  crew_t *crew = self;
  for (uint32_t index; take_next(crew, &index);) {
    const delta_status_t status = crew->job(crew->self, index);
    if (status) note_failure(crew, index, status);
  }
  return NULL;
}

// Signals are for the program's own threads.
static uint32_t start_threads(crew_t *crew, uint32_t wanted, pthread_t threads[MOST_THREADS]) {
  enum { STACK_BYTES = 4 << 20 }; // limits of the process count them
  sigset_t all, before;
  pthread_attr_t attributes;
  uint32_t count = 0;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (count < wanted && pthread_create(&threads[count], &attributes, serve, crew) == 0) ++count;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return count;
}

delta_status_t delta_crew_run(uint32_t thread_count, uint32_t count, delta_crew_job_t job, void *self) {
  crew_t crew = {.job = job, .self = self, .count = count};
  pthread_t threads[MOST_THREADS];
  uint32_t wanted = thread_count < count ? thread_count : count;
  if (wanted > MOST_THREADS) wanted = MOST_THREADS;
  pthread_mutex_init(&crew.mutex, NULL);
  const uint32_t started = wanted > 1 ? start_threads(&crew, wanted - 1, threads) : 0;
  serve(&crew);
  for (uint32_t i = 0; i < started; ++i) pthread_join(threads[i], NULL);
  pthread_mutex_destroy(&crew.mutex);
  return crew.failure;
}
