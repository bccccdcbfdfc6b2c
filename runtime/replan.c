// One thread, one plan.
#include "runtime/replan.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

struct delta_replan {
  delta_refit_options_t options;
  const delta_program_parts_t **parts; // Owned; the options' list.
  pthread_t thread;
  atomic_bool is_done;
  delta_plan_t *plan; // Owned until the end.
  delta_status_t status;
};

static void *make_plan(void *self) {
  delta_replan_t *replan = self;
  // Of this thread alone. A system that refuses has it share the processors evenly.
  setpriority(PRIO_PROCESS, (id_t)gettid(), 10);
  replan->status = delta_plan_refit(&replan->options, delta_allocator_system(), &replan->plan);
  atomic_store(&replan->is_done, true);
  return NULL;
}

static delta_status_t start_thread(delta_replan_t *replan) {
  enum { STACK_BYTES = 4 << 20 }; // limits of the process count it
  sigset_t all, before;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, STACK_BYTES);
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  const int error = pthread_create(&replan->thread, &attributes, make_plan, replan);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  return error == 0 ? DELTA_OK : delta_status_make(OUT_OF_MEMORY, "no thread for a new plan: %s", strerror(error));
}

static void free_replan(delta_replan_t *replan) {
  delta_release(delta_allocator_system(), replan->parts);
  delta_release(delta_allocator_system(), replan);
}

delta_status_t delta_replan_start(const delta_refit_options_t *options, delta_replan_t **out_replan) {
  *out_replan = NULL;
  delta_replan_t *replan = NULL;
  const uint32_t count = options->plan->program_count;
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(delta_allocator_system(), 1, &replan));
  replan->options = *options;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(delta_allocator_system(), count, &replan->parts), cleanup);
  memcpy(replan->parts, options->parts, count * sizeof *replan->parts);
  replan->options.parts = replan->parts;
  DELTA_GOTO_IF_ERROR(status, start_thread(replan), cleanup);
  *out_replan = replan;
  replan = NULL;
cleanup:
  if (replan) free_replan(replan);
  return status;
}

bool delta_replan_is_done(const delta_replan_t *replan) { return atomic_load(&replan->is_done); }

delta_status_t delta_replan_end(delta_replan_t *replan, delta_plan_t **out_plan) {
  pthread_join(replan->thread, NULL);
  delta_status_t status = replan->status;
  *out_plan = replan->plan;
  free_replan(replan);
  return status;
}
