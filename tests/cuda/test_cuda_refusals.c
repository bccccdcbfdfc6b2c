// What CUDA refuses and when, and how the driver answers: a thread that has no context, algorithms that a library says late that it does not have, results that name a reason,
// memory of the host that is not there.
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdlib.h>

#include "runtime/cuda/device.h"
#include "plans/plan.h"
#include "runtime/cuda/kernel.h"
#include "tests/cuda/emulation/emulation.h"
#include "tests/support/case_macros.h"
#include "tests/support/training.h"

enum { ROWS = 16, GRANULE_BYTES = 2 << 20 };

static void configure(bool refuses_late) {
  delta_emulated_settings_t settings = delta_emulated_defaults();
  settings.refuses_late = refuses_late;
  delta_emulated_reset();
  delta_emulated_configure(&settings);
}

static delta_device_t *open_device(void) {
  delta_device_t *device = NULL;
  delta_test_expect_ok(delta_device_open("cuda:0", &(delta_device_options_t){0}, delta_allocator_system(), &device), "opening");
  return device;
}

// ---- Threads

// Compiled at run time, with a table of its own.
static const delta_test_node_t moments_node = NODE(MOMENTS, delta_moments_attrs_t, 2);

// A graph of that node, which reads its tensors from `ids` as long as it lives.
static delta_status_t make_graph(delta_tensor_id_t ids[3], delta_graph_t **out_graph) {
  const delta_kernel_operand_t x = REALS(6, 40);
  DELTA_RETURN_IF_ERROR(delta_graph_create(delta_allocator_system(), out_graph));
  DELTA_RETURN_IF_ERROR(delta_graph_add_input(*out_graph, "x", x.dtype, &x.shape, &ids[0]));
  return delta_test_add_node(*out_graph, &moments_node, &ids[0], 1, &ids[1], 2);
}

// What a session does when its program for another batch is made.
static delta_status_t prepare_all(delta_device_t *device, const delta_graph_t *graph) {
  const delta_device_driver_t *driver = device->driver;
  const delta_tier_options_t options = {0};
  delta_kernel_t *kernel = NULL;
  delta_arena_t *arena = NULL;
  delta_tier_t *tier = NULL;
  uint64_t free_bytes;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, driver->kernel_prepare(device, graph, (delta_node_id_t){0}, 0, &kernel), cleanup);
  DELTA_GOTO_IF_ERROR(status, driver->free_bytes(device, &free_bytes), cleanup);
  DELTA_GOTO_IF_ERROR(status, driver->arena_reserve(device, 4 * GRANULE_BYTES, &arena), cleanup);
  DELTA_GOTO_IF_ERROR(status, driver->arena_commit(arena, 2 * GRANULE_BYTES), cleanup);
  DELTA_GOTO_IF_ERROR(status, driver->tier_create(device, &options, delta_allocator_system(), &tier), cleanup);
  status = delta_tier_reserve(tier, 1 << 16);
cleanup:
  delta_tier_destroy(tier);
  if (arena) driver->arena_destroy(arena);
  driver->kernel_destroy(kernel);
  return status;
}

typedef struct visit {
  delta_device_t *device;
  const delta_graph_t *graph;
  delta_status_t status;
} visit_t;

static void *visit(void *self) {
  visit_t *own = self;
  own->status = prepare_all(own->device, own->graph);
  delta_device_close(own->device);
  return NULL;
}

Test(cuda_refusals, a_thread_that_is_new_to_cuda_can_prepare_and_close, .timeout = 60) {
  pthread_t thread;
  configure(false);
  // Compiled here, so that the thread loads it and does not wait for a compiler.
  setenv("XDG_CACHE_HOME", DELTA_BINARY_FOLDER "/tests/cache", 1);
  visit_t own = {.device = open_device()};
  delta_graph_t *graph = NULL;
  delta_tensor_id_t ids[3];
  delta_test_expect_ok(make_graph(ids, &graph), "graph");
  own.graph = graph;
  cr_assert_eq(pthread_create(&thread, NULL, visit, &own), 0);
  pthread_join(thread, NULL);
  delta_test_expect_ok(own.status, "in another thread");
  delta_graph_free(graph);
  cr_expect_eq(delta_emulated_used_bytes(), 0);
  cr_expect_eq(delta_emulated_reports(), 0, "%s", delta_emulated_last_report());
}

// ---- Libraries

// Measured, an algorithm that does not run is one less to choose from: the plan has another, and trains.
Test(cuda_refusals, an_algorithm_that_is_refused_when_it_runs_is_not_chosen, .timeout = 120) {
  delta_test_training_t training;
  configure(true);
  delta_test_training_write(&training, delta_test_batchnorm);
  setenv("XDG_CACHE_HOME", training.folder.path, 1);
  delta_plan_options_t options = delta_test_plan_options(ROWS);
  options.device = "cuda:0";
  options.profile = "measure";
  delta_test_expect_ok(delta_test_training_plan(&training, &options, delta_allocator_system()), "plan");
  uint32_t convolutions = 0;
  for (uint32_t p = 0; p < training.plan->program_count; ++p) {
    const delta_plan_program_t *program = &training.plan->programs[p];
    for (uint32_t k = 0; k < program->kernel_count; ++k) {
      convolutions += strncmp(program->kernels[k], "cudnn", 5) == 0 || strcmp(program->kernels[k], "direct") == 0;
      cr_expect_null(strstr(program->kernels[k], "winograd"), "%s was chosen", program->kernels[k]);
    }
  }
  cr_expect_gt(convolutions, 0);
  delta_test_expect_ok(delta_test_training_start(&training, delta_allocator_system()), "session");
  delta_test_reset_states(training.session);
  delta_test_run(training.session, DELTA_RUN_TRAIN, 0, ROWS, 0.05);
  delta_test_training_close(&training);
}

// Of each library what means that it does not do what was asked, and what means that memory is missing: the driver goes on to another kernel, or says so.
Test(cuda_refusals, results_have_their_kinds) {
  const struct {
    delta_status_t status;
    delta_status_code_t code;
  } cases[] = {
      {delta_cudnn_status(CUDNN_STATUS_NOT_SUPPORTED, "f()"), DELTA_STATUS_UNSUPPORTED},
      {delta_cudnn_status(CUDNN_STATUS_NOT_SUPPORTED_SHAPE, "f()"), DELTA_STATUS_UNSUPPORTED},
      {delta_cudnn_status(CUDNN_STATUS_BAD_PARAM, "f()"), DELTA_STATUS_IO},
      {delta_cudnn_status(CUDNN_STATUS_INTERNAL_ERROR, "f()"), DELTA_STATUS_IO},
      {delta_cudnn_status(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED, "f()"), DELTA_STATUS_OUT_OF_MEMORY},
      {delta_cudnn_status(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, "f()"), DELTA_STATUS_OUT_OF_MEMORY},
      {delta_cublas_status(CUBLAS_STATUS_NOT_SUPPORTED, "f()"), DELTA_STATUS_UNSUPPORTED},
      {delta_cublas_status(CUBLAS_STATUS_ARCH_MISMATCH, "f()"), DELTA_STATUS_UNSUPPORTED},
      {delta_cublas_status(CUBLAS_STATUS_INVALID_VALUE, "f()"), DELTA_STATUS_IO},
      {delta_cublas_status(CUBLAS_STATUS_ALLOC_FAILED, "f()"), DELTA_STATUS_OUT_OF_MEMORY},
      {delta_nvrtc_status(NVRTC_ERROR_INVALID_OPTION, "f()"), DELTA_STATUS_UNSUPPORTED},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    cr_expect_eq(delta_status_code(cases[k].status), cases[k].code, "case %zu: %s", k, delta_status_message(cases[k].status));
    delta_status_free(cases[k].status);
  }
  delta_test_expect_status(delta_cuda_status(cudaErrorNoKernelImageForDevice, "f()", 0), DELTA_STATUS_IO, "209|-DDELTA_CUDA_ARCHITECTURES");
  cr_expect_null(delta_cudnn_status(CUDNN_STATUS_SUCCESS, "f()"));
  cr_expect_null(delta_cublas_status(CUBLAS_STATUS_SUCCESS, "f()"));
}

// ---- Memory of the host

Test(cuda_refusals, host_memory_that_is_not_there_is_named) {
  configure(false);
  delta_device_t *device = open_device();
  const delta_tier_options_t options = {0};
  delta_tier_t *tier = NULL;
  delta_test_expect_ok(device->driver->tier_create(device, &options, delta_allocator_system(), &tier), "tier");
  delta_emulated_fail("cudaMallocHost", 1, 1);
  delta_test_expect_status(delta_tier_reserve(tier, 12345678), DELTA_STATUS_OUT_OF_MEMORY,
                           "cudaMallocHost|12349440|bytes|asked|free|--host-budget");
  delta_tier_destroy(tier);
  delta_device_close(device);
}

// ---- Drivers

Test(cuda_refusals, a_missing_driver_and_an_old_one_are_told_apart) {
  static const struct {
    int version;
    const char *words;
  } cases[] = {{0, "no GPU|driver|not installed|cudaGetDeviceCount"}, {12040, "no GPU|driver|CUDA 12.4|cudaGetDeviceCount"}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    delta_emulated_settings_t settings = delta_emulated_defaults();
    delta_device_t *device = NULL;
    settings.driver_version = cases[k].version;
    delta_emulated_reset();
    delta_emulated_configure(&settings);
    delta_test_expect_status(delta_device_open("cuda", &(delta_device_options_t){0}, delta_allocator_system(), &device),
                             DELTA_STATUS_NOT_FOUND, cases[k].words);
  }
}
