// What it costs to be ready for surprises while none comes: processor seconds and instructions of the thread that runs the steps, with and without all that watches and decides
// within a step.
//
//   reflexes MODEL.plan MODEL.onnx [runs]
//
// Steps with and without it take turns; printed are medians, and their quotient. Instructions are counted where the system lets a process do that. Data is zero and labels are
// the first class; weights are random when the plan says so.
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/session_parts.h"

enum { MOST_RUNS = 10000 };

typedef struct samples {
  double seconds[MOST_RUNS], instructions[MOST_RUNS];
  int count, disturbed;
} samples_t;

static double thread_seconds(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

// A counter of this thread's instructions; -1 where there is none.
static int open_counter(void) {
  struct perf_event_attr attributes = {
      .type = PERF_TYPE_HARDWARE, .size = sizeof attributes, .config = PERF_COUNT_HW_INSTRUCTIONS, .exclude_kernel = 1, .exclude_hv = 1};
  return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);
}

static double read_counter(int counter) {
  uint64_t value = 0;
  return counter >= 0 && read(counter, &value, sizeof value) == sizeof value ? (double)value : 0;
}

static delta_status_t fill_zero(void *self, void *const *buffers) {
  delta_session_t *session = self;
  const delta_graph_t *graph = session->programs.items[0]->parts.graph;
  for (size_t i = 0; i < delta_session_input_count(session); ++i) {
    delta_input_info_t info;
    DELTA_RETURN_IF_ERROR(delta_session_input(session, i, &info));
    for (size_t k = 0; k < graph->inputs.count; ++k) {
      const delta_tensor_t *tensor = delta_graph_tensor(graph, graph->inputs.items[k]);
      if (strcmp(tensor->name, info.name) == 0) memset(buffers[i], 0, delta_tensor_bytes(tensor));
    }
  }
  return DELTA_OK;
}

static delta_status_t run_one(delta_session_t *session, int counter, bool is_off, samples_t *samples) {
  const delta_batch_t batch = {.rows = delta_plan_rows(session->plan), .fill = fill_zero, .self = session};
  const delta_run_program_t program = session->plan->accumulate > 1 ? DELTA_RUN_ACCUMULATE : DELTA_RUN_TRAIN;
  session->reflex.is_off = session->pressure.is_off = is_off;
  const delta_live_program_t *first = session->programs.items[0];
  const double seconds = thread_seconds(), instructions = read_counter(counter);
  delta_run_report_t report = {.struct_size = sizeof report};
  DELTA_RETURN_IF_ERROR(delta_session_run(session, program, &batch, 0, &report));
  // What is done when something happens is not what is measured.
  const bool is_quiet = report.event_count == 0 && first->ran == first->executor;
  samples->disturbed += !is_quiet;
  if (!is_quiet) return DELTA_OK;
  samples->instructions[samples->count] = read_counter(counter) - instructions;
  samples->seconds[samples->count++] = thread_seconds() - seconds;
  return DELTA_OK;
}

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, compare);
  return values[count / 2];
}

static void print_pair(const char *what, double without, double with) {
  printf("%-22s without %.9g, with %.9g: %+.3f %%\n", what, without, with, 100 * (with / without - 1));
}

static delta_status_t measure(delta_session_t *session, int runs) {
  static samples_t without, with;
  const int counter = open_counter();
  for (int run = 0; run < runs; ++run) {
    DELTA_RETURN_IF_ERROR(run_one(session, counter, run % 2 == 0, run % 2 == 0 ? &without : &with));
    DELTA_RETURN_IF_ERROR(run_one(session, counter, run % 2 != 0, run % 2 != 0 ? &without : &with));
  }
  print_pair("processor seconds", median(without.seconds, without.count), median(with.seconds, with.count));
  printf("%-22s %d runs with it\n", "something happened in", with.disturbed);
  if (counter >= 0) {
    print_pair("instructions", median(without.instructions, without.count), median(with.instructions, with.count));
    close(counter);
  } else {
    printf("instructions           not counted: the system does not let this process\n");
  }
  return DELTA_OK;
}

int main(int count, char **arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: %s MODEL.plan MODEL.onnx [runs]\n", arguments[0]);
    return 2;
  }
  const delta_allocator_t allocator = delta_allocator_system();
  const int wanted = count > 3 ? atoi(arguments[3]) : 200, runs = wanted > MOST_RUNS ? MOST_RUNS : wanted < 1 ? 1 : wanted;
  delta_session_options_t options;
  delta_plan_t *plan = NULL;
  delta_session_t *session = NULL;
  delta_session_options_init(&options);
  delta_status_t status = delta_plan_load(arguments[1], allocator, &plan);
  options.plan = plan;
  options.plan_path = arguments[1];
  options.model_path = arguments[2];
  if (!status) status = delta_session_create(&options, allocator, &session);
  if (!status) status = measure(session, runs);
  delta_session_destroy(session);
  delta_plan_free(plan);
  if (!status) return 0;
  fprintf(stderr, "%s\n", delta_status_message(status));
  delta_status_free(status);
  return 1;
}
