// What ThreadSanitizer finds in programs on the emulation of CUDA: each missing wait, missing barrier and access of the host is a data race, and nothing is one where they
// are in place. Each case runs in a process of its own. Prints a line a case and a total; skipped in builds without ThreadSanitizer.
//
//   run_cuda_races [CASE]
#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/apart.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/kernels.h"

enum { COUNT = 256, BLOCKS = 8 };

#define CHECK(call)                              \
  do {                                           \
    if ((call) != cudaSuccess) {                 \
      fprintf(stderr, "%s has failed\n", #call); \
      exit(1);                                   \
    }                                            \
  } while (0)

// What all cases have: three streams, an event for each edge, device and pinned memory.
typedef struct stage {
  cudaStream_t compute, offload, prefetch;
  cudaEvent_t events[4];
  float *x, *y, *pinned;
} stage_t;

static void open_stage(stage_t *stage) {
  cudaStream_t *const streams[] = {&stage->compute, &stage->offload, &stage->prefetch};
  for (int k = 0; k < 3; ++k) CHECK(cudaStreamCreateWithFlags(streams[k], cudaStreamNonBlocking));
  for (int k = 0; k < 4; ++k) CHECK(cudaEventCreateWithFlags(&stage->events[k], cudaEventDisableTiming));
  CHECK(cudaMalloc((void **)&stage->x, BLOCKS * COUNT * sizeof(float)));
  CHECK(cudaMalloc((void **)&stage->y, BLOCKS * COUNT * sizeof(float)));
  CHECK(cudaHostAlloc((void **)&stage->pinned, BLOCKS * COUNT * sizeof(float), cudaHostAllocDefault));
  CHECK(cudaMemset(stage->x, 0, BLOCKS * COUNT * sizeof(float)));
  CHECK(cudaMemset(stage->y, 0, BLOCKS * COUNT * sizeof(float)));
  CHECK(cudaDeviceSynchronize());
}

static void order(stage_t *stage, int event, cudaStream_t first, cudaStream_t second) {
  CHECK(cudaEventRecord(stage->events[event], first));
  CHECK(cudaStreamWaitEvent(second, stage->events[event], 0));
}

// A step as a plan has them: a tensor comes back, is used, and goes; every wait is needed.
enum { STEP_WAITS = 4 };
static void put_step(stage_t *stage) {
  order(stage, 0, stage->compute, stage->prefetch); // x was used by the step before
  CHECK(cudaMemcpyAsync(stage->x, stage->pinned, COUNT * sizeof(float), cudaMemcpyHostToDevice, stage->prefetch));
  order(stage, 1, stage->prefetch, stage->compute);
  CHECK(delta_test_axpy(2, stage->x, stage->y, COUNT, stage->compute));
  order(stage, 2, stage->compute, stage->offload);
  CHECK(cudaMemcpyAsync(stage->pinned + COUNT, stage->y, COUNT * sizeof(float), cudaMemcpyDeviceToHost, stage->offload));
  order(stage, 3, stage->offload, stage->compute); // y is written by the next step
}

static void run_streams(stage_t *stage, int number) {
  delta_emulated_drop_wait(number ? STEP_WAITS + (uint32_t)number : 0); // of the second step
  for (int step = 0; step < 3; ++step) put_step(stage);
  CHECK(cudaStreamSynchronize(stage->compute));
}

static void run_graph(stage_t *stage, int number) {
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  delta_emulated_drop_wait(number ? STEP_WAITS + (uint32_t)number : 0);
  CHECK(cudaStreamBeginCapture(stage->compute, cudaStreamCaptureModeThreadLocal));
  for (int step = 0; step < 3; ++step) put_step(stage);
  CHECK(cudaStreamEndCapture(stage->compute, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int launch = 0; launch < 2; ++launch) CHECK(cudaGraphLaunch(exec, stage->compute));
  CHECK(cudaStreamSynchronize(stage->compute));
}

typedef cudaError_t kernel_t(const float *x, float *y, int blocks, cudaStream_t stream);

// Runs the kernel once, so that its barriers are known, and once more without its barrier `number`.
static void run_kernel(stage_t *stage, kernel_t *kernel, int number) {
  CHECK(kernel(stage->x, stage->y, BLOCKS, stage->compute));
  CHECK(cudaStreamSynchronize(stage->compute));
  if (number == 0) return;
  if ((uint32_t)number > delta_emulated_site_count()) exit(2);
  const delta_emulated_site_t site = delta_emulated_site((uint32_t)number - 1);
  delta_emulated_drop_barrier(&site);
  CHECK(kernel(stage->x, stage->y, BLOCKS, stage->compute));
  CHECK(cudaStreamSynchronize(stage->compute));
}

static void run_block_sums(stage_t *stage, int number) { run_kernel(stage, delta_test_block_sums, number); }
static void run_warp_sums(stage_t *stage, int number) { run_kernel(stage, delta_test_warp_sums, number); }
static void run_reverse(stage_t *stage, int number) { run_kernel(stage, delta_test_reverse, number); }

static void run_all_write(stage_t *stage, int number) {
  (void)number;
  CHECK(delta_test_all_write(stage->y, 2000, stage->compute));
  CHECK(cudaStreamSynchronize(stage->compute));
}

static void run_histogram(stage_t *stage, int number) {
  (void)number;
  CHECK(delta_test_histogram((const int *)stage->x, (int *)stage->y, BLOCKS * COUNT, stage->compute));
  CHECK(cudaStreamSynchronize(stage->compute));
}

// 1: the host writes what is being copied; 2: it reads what a copy has not brought yet.
static void run_host(stage_t *stage, int number) {
  stage->pinned[0] = 1;
  CHECK(cudaMemcpyAsync(stage->x, stage->pinned, sizeof(float), cudaMemcpyHostToDevice, stage->prefetch));
  if (number == 1) stage->pinned[0] = 2;
  CHECK(cudaStreamSynchronize(stage->prefetch));
  CHECK(cudaMemcpyAsync(stage->pinned, stage->x, sizeof(float), cudaMemcpyDeviceToHost, stage->offload));
  if (number == 2) printf("%g\n", (double)stage->pinned[0]);
  CHECK(cudaStreamSynchronize(stage->offload));
  if (number == 0) printf("%g\n", (double)stage->pinned[0]);
}

typedef struct race_case {
  const char *name;
  void (*run)(stage_t *stage, int number);
  int first, last; // numbers to run with; 0 is how it should be, and finds nothing
} race_case_t;

static const race_case_t cases[] = {
    {"waits", run_streams, 0, STEP_WAITS},
    {"waits of a graph", run_graph, 0, STEP_WAITS},
    {"barriers of block sums", run_block_sums, 0, 2},
    {"barriers of warp sums", run_warp_sums, 0, 1},
    {"barriers of reverse", run_reverse, 0, 1},
    {"blocks that write the same", run_all_write, 1, 1},
    {"atomics", run_histogram, 0, 0},
    {"the host's accesses", run_host, 0, 2},
};
enum { CASES = sizeof cases / sizeof *cases };

// Exit status of this program when it runs one case.
static int run_apart(int index, int number) {
  char index_text[16], number_text[16];
  snprintf(index_text, sizeof index_text, "%d", index);
  snprintf(number_text, sizeof number_text, "%d", number);
  const char *arguments[] = {NULL, index_text, number_text, NULL};
  static delta_process_result_t result;
  return delta_apart_run(arguments, getenv("DELTA_RACES_VERBOSE"), &result);
}

int main(int argc, char **argv) {
  if (argc == 3) {
    const int index = atoi(argv[1]), number = atoi(argv[2]);
    stage_t stage;
    if (index < 0 || index >= CASES) return 1;
    open_stage(&stage);
    cases[index].run(&stage, number);
    return 0;
  }
  if (!delta_apart_finds_races("races")) return DELTA_APART_SKIP_STATUS;
  int passed = 0, failed = 0;
  for (int index = 0; index < CASES; ++index) {
    for (int number = cases[index].first; number <= cases[index].last; ++number) {
      const int status = run_apart(index, number), wanted = number == 0 ? 0 : DELTA_APART_RACE_STATUS;
      const bool is_right = status == wanted;
      printf("%s %s, number %d: %s\n", is_right ? "ok  " : "FAIL", cases[index].name, number,
             is_right                            ? (number ? "found" : "nothing is found")
             : status == 0                       ? "nothing is found"
             : status == DELTA_APART_RACE_STATUS ? "a race"
                                                 : "ended badly");
      passed += is_right;
      failed += !is_right;
    }
  }
  printf("%d passed, %d failed, 0 skipped\n", passed, failed);
  return failed > 0;
}
