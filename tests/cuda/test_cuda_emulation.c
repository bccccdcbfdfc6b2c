// The emulation of CUDA itself: memory and its guards, streams, events, captures, kernels, and failures that are asked for.
#include <criterion/criterion.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/kernels.h"

enum { GRANULE_BYTES = 2 << 20 };

#define CHECK(call) cr_assert_eq((call), cudaSuccess, "%s", #call)

static cudaStream_t make_stream(void) {
  cudaStream_t stream = NULL;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

static cudaEvent_t make_event(void) {
  cudaEvent_t event = NULL;
  CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return event;
}

// Device memory of `count` numbers: 1, 2, 3...
static float *make_device_floats(int count) {
  float *host = malloc((size_t)count * sizeof *host), *device = NULL;
  for (int k = 0; k < count; ++k) host[k] = (float)(k + 1);
  CHECK(cudaMalloc((void **)&device, (size_t)count * sizeof *device));
  CHECK(cudaMemcpy(device, host, (size_t)count * sizeof *device, cudaMemcpyHostToDevice));
  free(host);
  return device;
}

static void read_floats(const float *device, float *host, int count) {
  CHECK(cudaMemcpy(host, device, (size_t)count * sizeof *host, cudaMemcpyDeviceToHost));
}

static void expect_report(const char *word) {
  cr_expect_eq(delta_emulated_reports(), 1, "one report, not %u", delta_emulated_reports());
  cr_expect_not_null(strstr(delta_emulated_last_report(), word), "'%s' is not in: %s", word, delta_emulated_last_report());
  delta_emulated_reset();
}

// ---- Memory

Test(cuda_emulation, memory_has_a_size) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  size_t free_bytes, total_bytes;
  void *data = NULL, *more = NULL;
  settings.device_bytes = 10 << 20;
  delta_emulated_configure(&settings);
  CHECK(cudaMalloc(&data, 6 << 20));
  CHECK(cudaMemGetInfo(&free_bytes, &total_bytes));
  cr_expect_eq(free_bytes, 4 << 20);
  cr_expect_eq(total_bytes, 10 << 20);
  cr_expect_eq(cudaMalloc(&more, (4 << 20) + 1), cudaErrorMemoryAllocation);
  cr_expect_eq(cudaGetLastError(), cudaErrorMemoryAllocation);
  cr_expect_eq(cudaGetLastError(), cudaSuccess);
  CHECK(cudaFree(data));
  cr_expect_eq(delta_emulated_used_bytes(), 0);
}

Test(cuda_emulation, fresh_memory_is_not_a_number) {
  float *data = NULL, value;
  CHECK(cudaMalloc((void **)&data, 4096));
  read_floats(data + 1000, &value, 1);
  cr_expect(isnan(value));
  CHECK(cudaFree(data));
}

// A write behind an allocation: within its last page it is found when that is freed, beyond it at once.
Test(cuda_emulation, finds_writes_behind_an_allocation) {
  float *data = NULL;
  CHECK(cudaMalloc((void **)&data, 100 * sizeof *data));
  CHECK(delta_test_write_at(data, 100, NULL));
  CHECK(cudaDeviceSynchronize());
  CHECK(cudaFree(data));
  expect_report("4 bytes behind");
}

Test(cuda_emulation, a_guard_stops_a_write_far_behind) {
  const pid_t child = fork();
  if (child == 0) {
    float *data = NULL;
    CHECK(cudaMalloc((void **)&data, 4096));
    CHECK(delta_test_write_at(data, 1024, NULL));
    cudaDeviceSynchronize();
    _exit(0);
  }
  int status = 0;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_expect(!WIFEXITED(status) || WEXITSTATUS(status) != 0, "the write went through");
}

// Pointers of a wrong kind. `to` and `from` are 'd'evice, 'p'inned or 'h'ost memory.
typedef struct kind_case {
  char to, from;
  enum cudaMemcpyKind kind;
  size_t size_bytes;
  const char *report; // NULL: it is right
} kind_case_t;

Test(cuda_emulation, pointers_have_kinds) {
  static const kind_case_t cases[] = {
      {'d', 'h', cudaMemcpyHostToDevice, 64, NULL},
      {'d', 'p', cudaMemcpyHostToDevice, 64, NULL},
      {'p', 'd', cudaMemcpyDeviceToHost, 64, NULL},
      {'d', 'd', cudaMemcpyDeviceToDevice, 64, NULL},
      {'h', 'd', cudaMemcpyDefault, 64, NULL},
      {'p', 'h', cudaMemcpyHostToDevice, 64, "destination (64 bytes) is pinned memory"},
      {'h', 'h', cudaMemcpyHostToDevice, 64, "destination (64 bytes) is memory of the host"},
      {'d', 'd', cudaMemcpyHostToDevice, 64, "source (64 bytes) is not the host's"},
      {'d', 'd', cudaMemcpyDeviceToHost, 64, "destination (64 bytes) is not the host's"},
      {'h', 'p', cudaMemcpyDeviceToHost, 64, "source (64 bytes) is pinned memory"},
      {'d', 'h', cudaMemcpyHostToDevice, 257, "destination (257 bytes) is a part that goes beyond"},
  };
  static char host[2][512];
  void *device[2], *pinned[2];
  for (int k = 0; k < 2; ++k) {
    CHECK(cudaMalloc(&device[k], 256));
    CHECK(cudaHostAlloc(&pinned[k], 256, cudaHostAllocDefault));
  }
  for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
    const kind_case_t *row = &cases[c];
    void *to = row->to == 'd' ? device[0] : row->to == 'p' ? pinned[0] : host[0];
    void *from = row->from == 'd' ? device[1] : row->from == 'p' ? pinned[1] : host[1];
    const cudaError_t error = cudaMemcpy(to, from, row->size_bytes, row->kind);
    cr_expect_eq(error, row->report ? cudaErrorInvalidValue : cudaSuccess, "case %zu", c);
    if (row->report) expect_report(row->report);
  }
  cr_expect_eq(delta_test_axpy(1, (float *)host[0], device[0], 1, NULL), cudaErrorIllegalAddress);
  expect_report("axpy: an argument");
}

Test(cuda_emulation, virtual_memory_comes_and_goes_in_granules) {
  const CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED, .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
  const CUmemAccessDesc access = {.location = properties.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CUmemGenericAllocationHandle handles[2];
  CUdeviceptr addresses;
  size_t granule_bytes;
  cr_assert_eq(cuMemGetAllocationGranularity(&granule_bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM), CUDA_SUCCESS);
  cr_assert_eq(granule_bytes, GRANULE_BYTES);
  cr_assert_eq(cuMemAddressReserve(&addresses, 4 * granule_bytes, 0, 0, 0), CUDA_SUCCESS);
  for (int k = 0; k < 2; ++k) {
    cr_assert_eq(cuMemCreate(&handles[k], granule_bytes, &properties, 0), CUDA_SUCCESS);
    cr_assert_eq(cuMemMap(addresses + (size_t)k * granule_bytes, granule_bytes, 0, handles[k], 0), CUDA_SUCCESS);
  }
  cr_expect_eq(delta_emulated_used_bytes(), 2 * granule_bytes);
  float *data = (float *)(uintptr_t)addresses, value = 7;
  cr_expect_eq(cudaMemcpy(data, &value, sizeof value, cudaMemcpyHostToDevice), cudaErrorInvalidValue, "not accessible yet");
  expect_report("not mapped");
  cr_assert_eq(cuMemSetAccess(addresses, 2 * granule_bytes, &access, 1), CUDA_SUCCESS);
  CHECK(cudaMemcpy(data, &value, sizeof value, cudaMemcpyHostToDevice));
  // Memory outlives being shown elsewhere, and is given back when it is released and shown nowhere.
  cr_assert_eq(cuMemUnmap(addresses, granule_bytes), CUDA_SUCCESS);
  cr_assert_eq(cuMemMap(addresses + 3 * granule_bytes, granule_bytes, 0, handles[0], 0), CUDA_SUCCESS);
  cr_assert_eq(cuMemSetAccess(addresses + 3 * granule_bytes, granule_bytes, &access, 1), CUDA_SUCCESS);
  read_floats(data + 3 * granule_bytes / sizeof(float), &value, 1);
  cr_expect_eq(value, 7);
  for (int k = 0; k < 2; ++k) cr_assert_eq(cuMemRelease(handles[k]), CUDA_SUCCESS);
  cr_expect_eq(delta_emulated_used_bytes(), 2 * granule_bytes);
  cr_expect_eq(cuMemAddressFree(addresses, 4 * granule_bytes), CUDA_ERROR_INVALID_VALUE, "memory is shown there");
  expect_report("have memory");
  cr_assert_eq(cuMemUnmap(addresses + granule_bytes, granule_bytes), CUDA_SUCCESS);
  cr_assert_eq(cuMemUnmap(addresses + 3 * granule_bytes, granule_bytes), CUDA_SUCCESS);
  cr_expect_eq(delta_emulated_used_bytes(), 0);
  cr_assert_eq(cuMemAddressFree(addresses, 4 * granule_bytes), CUDA_SUCCESS);
}

// ---- Streams and events

static delta_emulated_settings_t late_copies(double seconds) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  settings.copy_delay_seconds = seconds;
  return settings;
}

Test(cuda_emulation, an_event_orders_two_streams) {
  enum { COUNT = 1 << 12, ROUNDS = 20 };
  const delta_emulated_settings_t settings = late_copies(4e-3);
  cudaStream_t copies = make_stream(), compute = make_stream();
  cudaEvent_t copied = make_event(), computed = make_event();
  float *x = make_device_floats(COUNT), *y = make_device_floats(COUNT), *host = NULL;
  delta_emulated_configure(&settings);
  CHECK(cudaHostAlloc((void **)&host, COUNT * sizeof *host, 0));
  for (int k = 0; k < COUNT; ++k) host[k] = 1;
  for (int round = 0; round < ROUNDS; ++round) {
    CHECK(cudaMemcpyAsync(x, host, COUNT * sizeof *host, cudaMemcpyHostToDevice, copies));
    CHECK(cudaEventRecord(copied, copies));
    CHECK(cudaStreamWaitEvent(compute, copied, 0));
    CHECK(delta_test_axpy(1, x, y, COUNT, compute)); // y grows by 1
    CHECK(cudaMemsetAsync(x, 0xff, COUNT * sizeof *x, compute));
    CHECK(cudaEventRecord(computed, compute));
    CHECK(cudaStreamWaitEvent(copies, computed, 0));
  }
  CHECK(cudaStreamSynchronize(compute));
  read_floats(y, host, COUNT);
  for (int k = 0; k < COUNT; ++k) cr_assert_float_eq(host[k], (float)(k + 1 + ROUNDS), 1e-3, "element %d is %g", k, host[k]);
}

// A call of the host that holds a stream until it is let go.
static void hold(void *self) {
  while (!atomic_load((atomic_bool *)self)) usleep(1000);
}

// Without the wait a copy comes too late.
Test(cuda_emulation, a_dropped_wait_is_a_wrong_result) {
  atomic_bool goes_on = false;
  cudaStream_t copies = make_stream(), compute = make_stream();
  cudaEvent_t copied = make_event();
  float *x = NULL, *y = make_device_floats(1), *host = NULL, value;
  CHECK(cudaMalloc((void **)&x, sizeof *x));
  CHECK(cudaHostAlloc((void **)&host, sizeof *host, 0));
  *host = 1;
  delta_emulated_drop_wait(1);
  CHECK(cudaLaunchHostFunc(copies, hold, &goes_on));
  CHECK(cudaMemcpyAsync(x, host, sizeof *host, cudaMemcpyHostToDevice, copies));
  CHECK(cudaEventRecord(copied, copies));
  CHECK(cudaStreamWaitEvent(compute, copied, 0));
  CHECK(delta_test_axpy(1, x, y, 1, compute));
  CHECK(cudaStreamSynchronize(compute));
  atomic_store(&goes_on, true);
  CHECK(cudaStreamSynchronize(copies));
  read_floats(y, &value, 1);
  cr_expect(isnan(value), "fresh memory was read: %g", value);
}

Test(cuda_emulation, events_measure_time) {
  cudaStream_t stream = make_stream();
  cudaEvent_t start, end;
  float milliseconds;
  delta_emulated_settings_t settings = delta_emulated_defaults();
  atomic_bool goes_on = false;
  settings.launch_delay_seconds = 0.02;
  delta_emulated_configure(&settings);
  float *x = make_device_floats(16);
  CHECK(cudaLaunchHostFunc(stream, hold, &goes_on));
  CHECK(cudaEventCreate(&start));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventRecord(start, stream));
  for (int k = 0; k < 10; ++k) CHECK(delta_test_axpy(1, x, x, 16, stream));
  CHECK(cudaEventRecord(end, stream));
  cr_expect_eq(cudaStreamQuery(stream), cudaErrorNotReady);
  cr_expect_eq(cudaEventQuery(end), cudaErrorNotReady);
  atomic_store(&goes_on, true);
  CHECK(cudaEventSynchronize(end));
  CHECK(cudaEventElapsedTime(&milliseconds, start, end));
  cr_expect(milliseconds > 1, "%g ms", milliseconds);
  CHECK(cudaStreamSynchronize(stream));
  cr_expect_eq(cudaStreamQuery(stream), cudaSuccess);
}

// ---- Captures

// y += x in `compute`, after a copy to x and before one from y in the other streams.
static void put_step(cudaStream_t streams[3], cudaEvent_t events[4], float *host, float *x, float *y, float *result) {
  CHECK(cudaEventRecord(events[0], streams[0]));
  CHECK(cudaStreamWaitEvent(streams[1], events[0], 0));
  CHECK(cudaMemcpyAsync(x, host, sizeof *x, cudaMemcpyHostToDevice, streams[1]));
  CHECK(cudaEventRecord(events[1], streams[1]));
  CHECK(cudaStreamWaitEvent(streams[0], events[1], 0));
  CHECK(delta_test_axpy(1, x, y, 1, streams[0]));
  CHECK(cudaEventRecord(events[2], streams[0]));
  CHECK(cudaStreamWaitEvent(streams[2], events[2], 0));
  CHECK(cudaMemcpyAsync(result, y, sizeof *y, cudaMemcpyDeviceToHost, streams[2]));
  CHECK(cudaEventRecord(events[3], streams[2]));
  CHECK(cudaStreamWaitEvent(streams[0], events[3], 0));
}

Test(cuda_emulation, a_capture_replays) {
  const delta_emulated_settings_t settings = late_copies(5e-3);
  cudaStream_t streams[3];
  cudaEvent_t events[4];
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  size_t node_count;
  float *x = make_device_floats(1), *y = make_device_floats(1), *pinned = NULL;
  for (int k = 0; k < 3; ++k) streams[k] = make_stream();
  for (int k = 0; k < 4; ++k) events[k] = make_event();
  CHECK(cudaHostAlloc((void **)&pinned, 2 * sizeof *pinned, 0));
  delta_emulated_configure(&settings);
  CHECK(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
  put_step(streams, events, &pinned[0], x, y, &pinned[1]);
  CHECK(cudaStreamEndCapture(streams[0], &graph));
  CHECK(cudaGraphGetNodes(graph, NULL, &node_count));
  cr_expect_eq(node_count, 3, "two copies and a kernel, not %zu nodes", node_count);
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  float wanted = 1;
  for (int launch = 0; launch < 10; ++launch) {
    pinned[0] = (float)launch;
    wanted += pinned[0];
    CHECK(cudaGraphLaunch(exec, streams[0]));
    CHECK(cudaStreamSynchronize(streams[0]));
    cr_assert_eq(pinned[1], wanted, "launch %d: %g, not %g", launch, pinned[1], wanted);
  }
  CHECK(cudaGraphExecDestroy(exec));
  // The streams are streams again.
  put_step(streams, events, &pinned[0], x, y, &pinned[1]);
  CHECK(cudaDeviceSynchronize());
  cr_expect_eq(pinned[1], wanted + 9);
}

// Two launches of a graph in which a stream copies to x what another adds to y; returns y.
static float replay_late(int late_stream, bool has_wait, float *pinned) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  cudaStream_t compute = make_stream(), copies = make_stream();
  cudaEvent_t forked = make_event(), copied = make_event();
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  float *x = make_device_floats(1), *y = make_device_floats(1), value;
  settings.late_stream = late_stream;
  delta_emulated_configure(&settings);
  CHECK(cudaStreamBeginCapture(compute, cudaStreamCaptureModeThreadLocal));
  CHECK(cudaEventRecord(forked, compute));
  CHECK(cudaStreamWaitEvent(copies, forked, 0));
  CHECK(cudaMemcpyAsync(x, pinned, sizeof *x, cudaMemcpyHostToDevice, copies));
  CHECK(cudaEventRecord(copied, copies));
  if (has_wait) CHECK(cudaStreamWaitEvent(compute, copied, 0));
  CHECK(delta_test_axpy(1, x, y, 1, compute));
  CHECK(cudaStreamWaitEvent(compute, copied, 0));
  CHECK(cudaStreamEndCapture(compute, &graph));
  CHECK(cudaGraphInstantiate(&exec, graph, 0));
  for (int launch = 0; launch < 2; ++launch) {
    *pinned = (float)(10 * (launch + 1));
    CHECK(cudaGraphLaunch(exec, compute));
    CHECK(cudaStreamSynchronize(compute));
  }
  CHECK(cudaGraphExecDestroy(exec));
  CHECK(cudaGraphDestroy(graph));
  read_floats(y, &value, 1);
  delta_emulated_reset();
  return value;
}

// x and y are 1 at first.
Test(cuda_emulation, a_late_stream_waits_for_all_that_can_go_on) {
  float *pinned = NULL;
  CHECK(cudaHostAlloc((void **)&pinned, sizeof *pinned, 0));
  for (int late_stream = -1; late_stream < 2; ++late_stream) cr_expect_eq(replay_late(late_stream, true, pinned), 31);
  cr_expect_eq(replay_late(0, false, pinned), 31, "compute is late");
  cr_expect_eq(replay_late(1, false, pinned), 12, "copies are late");
}

typedef enum capture_fault { UNJOINED, SYNCHRONIZED, FOREIGN_EVENT, ALLOCATED, PAGEABLE, CAPTURE_FAULTS } capture_fault_t;

Test(cuda_emulation, a_capture_refuses_what_cannot_be_in_a_graph) {
  static const cudaError_t wanted[CAPTURE_FAULTS] = {cudaErrorStreamCaptureUnjoined, cudaErrorStreamCaptureInvalidated,
                                                     cudaErrorStreamCaptureInvalidated, cudaErrorStreamCaptureInvalidated,
                                                     cudaErrorStreamCaptureInvalidated};
  for (int fault = 0; fault < CAPTURE_FAULTS; ++fault) {
    cudaStream_t stream = make_stream(), other = make_stream();
    cudaEvent_t event = make_event();
    cudaGraph_t graph = NULL;
    float *x = make_device_floats(1), host = 1;
    void *data;
    if (fault == FOREIGN_EVENT) CHECK(cudaEventRecord(event, other));
    CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    if (fault == UNJOINED) {
      CHECK(cudaEventRecord(event, stream));
      CHECK(cudaStreamWaitEvent(other, event, 0));
      CHECK(cudaMemsetAsync(x, 0, sizeof *x, other));
    }
    if (fault == SYNCHRONIZED) cr_expect_eq(cudaStreamSynchronize(stream), cudaErrorStreamCaptureUnsupported);
    if (fault == FOREIGN_EVENT) cr_expect_eq(cudaStreamWaitEvent(stream, event, 0), cudaErrorStreamCaptureIsolation);
    if (fault == ALLOCATED) cr_expect_eq(cudaMalloc(&data, 1), cudaErrorStreamCaptureUnsupported);
    if (fault == PAGEABLE)
      cr_expect_eq(cudaMemcpyAsync(x, &host, sizeof host, cudaMemcpyHostToDevice, stream), cudaErrorStreamCaptureUnsupported);
    cr_expect_eq(cudaStreamEndCapture(stream, &graph), wanted[fault], "fault %d", fault);
    cr_expect_null(graph);
    CHECK(cudaMemsetAsync(x, 0, sizeof *x, other));
    CHECK(cudaDeviceSynchronize());
    delta_emulated_reset();
  }
}

// ---- Kernels

Test(cuda_emulation, threads_of_a_block_wait_for_each_other) {
  enum { BLOCKS = 70, COUNT = BLOCKS * 256 };
  cudaError_t (*const sums[])(const float *, float *, int, cudaStream_t) = {delta_test_block_sums, delta_test_warp_sums};
  for (size_t k = 0; k < 2; ++k) {
    cudaStream_t stream = make_stream();
    float *x = make_device_floats(COUNT), *y = make_device_floats(BLOCKS), host[BLOCKS];
    CHECK(sums[k](x, y, BLOCKS, stream));
    CHECK(cudaStreamSynchronize(stream));
    read_floats(y, host, BLOCKS);
    for (int b = 0; b < BLOCKS; ++b) {
      const double wanted = 256.0 * (b * 256) + 256.0 * 257 / 2;
      cr_assert_float_eq(host[b], wanted, 1e-6 * wanted, "block %d: %g, not %g", b, host[b], wanted);
    }
  }
}

Test(cuda_emulation, a_dropped_barrier_is_a_wrong_result) {
  cudaStream_t stream = make_stream();
  float *x = make_device_floats(64), *y = make_device_floats(64), host[64];
  CHECK(delta_test_reverse(x, y, 1, stream));
  CHECK(cudaStreamSynchronize(stream));
  read_floats(y, host, 64);
  for (int k = 0; k < 64; ++k) cr_assert_eq(host[k], (float)(64 - k));
  cr_assert_eq(delta_emulated_site_count(), 1);
  const delta_emulated_site_t site = delta_emulated_site(0);
  delta_emulated_drop_barrier(&site);
  x = make_device_floats(64);
  CHECK(cudaMemset(x, 0, 64 * sizeof *x));
  CHECK(delta_test_reverse(x, y, 1, stream));
  CHECK(cudaStreamSynchronize(stream));
  read_floats(y, host, 64);
  int wrong = 0;
  for (int k = 0; k < 64; ++k) wrong += host[k] != 0;
  cr_expect_gt(wrong, 0);
}

Test(cuda_emulation, integers_are_counted_by_all_blocks) {
  enum { COUNT = 20000 };
  int *values = malloc(COUNT * sizeof *values), *device_values = NULL, *counts = NULL, host[32];
  for (int k = 0; k < COUNT; ++k) values[k] = k % 32;
  CHECK(cudaMalloc((void **)&device_values, COUNT * sizeof *values));
  CHECK(cudaMalloc((void **)&counts, sizeof host));
  CHECK(cudaMemcpy(device_values, values, COUNT * sizeof *values, cudaMemcpyHostToDevice));
  CHECK(cudaMemset(counts, 0, sizeof host));
  CHECK(delta_test_histogram(device_values, counts, COUNT, NULL));
  CHECK(cudaMemcpy(host, counts, sizeof host, cudaMemcpyDeviceToHost));
  for (int k = 0; k < 32; ++k) cr_expect_eq(host[k], COUNT / 32);
  free(values);
}

Test(cuda_emulation, threads_that_wait_for_ever_are_reported) {
  static const struct wait_case {
    cudaError_t (*launch)(float *, cudaStream_t);
    const char *report;
  } cases[] = {{delta_test_missing_thread, "kernel missing_thread, block (0, 0, 0), thread (0, 0, 0): waits for lanes"},
               {delta_test_missing_lane, "kernel missing_lane, block (0, 0, 0), thread (6, 0, 0): a lane of the mask has left"}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    cudaStream_t stream = make_stream();
    float *y = make_device_floats(32);
    cases[k].launch(y, stream); // the fault may be known before the call returns
    cr_expect_eq(cudaStreamSynchronize(stream), cudaErrorLaunchFailure);
    cr_expect_eq(cudaStreamSynchronize(stream), cudaErrorLaunchFailure, "the error stays");
    cr_expect_eq(strncmp(delta_emulated_last_report(), cases[k].report, strlen(cases[k].report)), 0, "%s", delta_emulated_last_report());
    delta_emulated_reset();
    // The next kernel has new threads.
    CHECK(delta_test_reverse(make_device_floats(64), make_device_floats(64), 1, stream));
    CHECK(cudaStreamSynchronize(stream));
  }
}

// ---- Failures

Test(cuda_emulation, a_call_fails_by_name_and_number) {
  void *data;
  delta_emulated_fail("cudaMalloc", 2, 1);
  CHECK(cudaMalloc(&data, 16));
  cr_expect_eq(cudaMalloc(&data, 16), cudaErrorMemoryAllocation);
  cr_expect_str_eq(delta_emulated_failed_call(), "cudaMalloc");
  cr_expect_str_eq(cudaGetErrorName(cudaGetLastError()), "cudaErrorMemoryAllocation");
  CHECK(cudaMalloc(&data, 16));
  cr_expect_eq(delta_emulated_calls("cudaMalloc"), 3);
}

// Each call of a small program fails once, as its number among all.
Test(cuda_emulation, every_call_fails_by_number) {
  for (uint32_t nth = 1;; ++nth) {
    void *data = NULL;
    cudaStream_t stream = NULL;
    cudaEvent_t event = NULL;
    delta_emulated_reset();
    delta_emulated_fail(NULL, nth, 1);
    cudaError_t error = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (!error) error = cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
    if (!error) error = cudaMalloc(&data, 64);
    if (!error) error = cudaMemsetAsync(data, 0, 64, stream);
    if (!error) error = cudaEventRecord(event, stream);
    if (!error) error = cudaEventSynchronize(event);
    const char *failed = delta_emulated_failed_call();
    cr_expect_eq(error != cudaSuccess, failed != NULL, "call %u", nth);
    delta_emulated_reset();
    if (event) CHECK(cudaEventDestroy(event));
    if (stream) CHECK(cudaStreamDestroy(stream));
    CHECK(cudaFree(data));
    if (!failed) break;
    cr_assert_lt(nth, 20);
  }
  cr_expect_eq(delta_emulated_used_bytes(), 0);
}

Test(cuda_emulation, a_fault_on_the_device_stays) {
  cudaStream_t stream = make_stream();
  float *x = make_device_floats(16);
  delta_emulated_fail_run("axpy", 2);
  CHECK(delta_test_axpy(1, x, x, 16, stream));
  CHECK(cudaStreamSynchronize(stream));
  delta_test_axpy(1, x, x, 16, stream); // the fault may be known before the call returns
  cr_expect_eq(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
  cr_expect_eq(cudaMemset(x, 0, 4), cudaErrorIllegalAddress);
  cr_expect_eq(cudaGetLastError(), cudaErrorIllegalAddress);
}

Test(cuda_emulation, a_machine_without_a_gpu) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  int count = -1;
  settings.devices = 0;
  delta_emulated_configure(&settings);
  cr_expect_eq(cudaGetDeviceCount(&count), cudaErrorNoDevice);
  cr_expect_eq(cuInit(0), CUDA_ERROR_NO_DEVICE);
}
