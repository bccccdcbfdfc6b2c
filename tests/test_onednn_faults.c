// oneDNN faults: memory that ends inside the library, which is in C++ and throws there, is a status in C. Finding, making and
// running kernels is repeated in processes of their own, where every call of operator new fails once, and where there is too little address space.
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/device.h"
#include "tests/support/case_macros.h"
#include "tests/support/one_node.h"
#include "tests/support/sanitized.h"

enum { BUFFER_BYTES = 1 << 20, MOST_INPUTS = 3, MOST_OUTPUTS = 2, MOST_CALLS = 1000 };

// ---- operator new, of this program and of the libraries it loads

static size_t failing_call; // 0: none
static bool fails_on;       // the calls after it too
static size_t call_count;

__attribute__((visibility("default"))) void *_Znwm(size_t size_bytes);

// Passes on to the C++ library; a call that is to fail asks it for more than there can be, and it throws.
void *_Znwm(size_t size_bytes) {
  static void *(*operator_new)(size_t);
  if (!operator_new) operator_new = (void *(*)(size_t))dlsym(RTLD_NEXT, "_Znwm");
  ++call_count;
  const bool fails = failing_call > 0 && (call_count == failing_call || (fails_on && call_count > failing_call));
  return operator_new(fails ? SIZE_MAX / 4 : size_bytes);
}

// A node with its graph and buffers for all its operands.
typedef struct subject {
  delta_graph_t *graph; // its node refers to the ids below
  delta_tensor_id_t input_ids[MOST_INPUTS], output_ids[MOST_OUTPUTS];
  delta_device_t *device;
  const void *inputs[MOST_INPUTS];
  void *outputs[MOST_OUTPUTS];
  void *workspace;
} subject_t;

// Makes and runs every kernel that the node has. An offer that is refused for want of memory is as good as an error.
static delta_status_t run_kernels(const subject_t *subject) {
  const delta_device_driver_t *driver = subject->device->driver;
  const delta_kernel_buffers_t buffers = {subject->inputs, subject->outputs, subject->workspace};
  bool exists = true;
  delta_status_t status = DELTA_OK;
  for (uint32_t rank = 0; !status; ++rank) {
    delta_kernel_offer_t offer;
    delta_kernel_t *kernel = NULL;
    status = driver->kernel_query(subject->device, subject->graph, (delta_node_id_t){0}, rank, &offer, &exists);
    if (status || !exists) break;
    if (offer.refusal) continue;
    status = driver->kernel_prepare(subject->device, subject->graph, (delta_node_id_t){0}, rank, &kernel);
    if (!status) status = driver->launch(subject->device, DELTA_LANE_COMPUTE, kernel, &buffers);
    driver->kernel_destroy(kernel);
  }
  return status;
}

// What is scarce in a child: one call of operator new, that and all after it, or bytes of address space beyond those in use.
typedef enum shortage { ONE_CALL, CALLS_FROM_THEN_ON, ADDRESS_SPACE } shortage_t;

// How a child ends; anything else is a crash, or the end of the process by a library.
enum { RIGHT = 10, WRONG = 11, NOT_REACHED = 12 };

static void limit_address_space(size_t extra_bytes) {
  size_t used_pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && fscanf(file, "%zu", &used_pages) != 1) used_pages = 0;
  if (file) fclose(file);
  const rlim_t limit = used_pages * (size_t)sysconf(_SC_PAGESIZE) + extra_bytes;
  setrlimit(RLIMIT_AS, &(struct rlimit){limit, limit});
}

// The first run is whole: it starts the OpenMP runtime, which ends the process where it finds no memory.
static int run_short(const subject_t *subject, shortage_t shortage, size_t amount) {
  if (run_kernels(subject)) return WRONG;
  call_count = 0;
  fails_on = shortage == CALLS_FROM_THEN_ON;
  if (shortage == ADDRESS_SPACE) {
    limit_address_space(amount);
  } else {
    failing_call = amount;
  }
  delta_status_t status = run_kernels(subject);
  failing_call = 0;
  if (shortage != ADDRESS_SPACE && call_count < amount) return status ? WRONG : NOT_REACHED;
  return !status || delta_status_code(status) == DELTA_STATUS_OUT_OF_MEMORY ? RIGHT : WRONG;
}

static int run_in_child(const subject_t *subject, shortage_t shortage, size_t amount) {
  fflush(NULL);
  const pid_t child = fork();
  cr_assert_geq(child, 0);
  if (child == 0) _exit(run_short(subject, shortage, amount));
  int outcome = 0;
  cr_assert_eq(waitpid(child, &outcome, 0), child);
  return WIFEXITED(outcome) ? WEXITSTATUS(outcome) : 128 + WTERMSIG(outcome);
}

static void make_subject(const delta_kernel_case_t *row, subject_t *subject) {
  *subject = (subject_t){0};
  cr_assert_null(delta_graph_create(delta_allocator_system(), &subject->graph));
  for (uint32_t k = 0; k < row->input_count; ++k) {
    char name[8];
    snprintf(name, sizeof name, "x%u", k);
    cr_assert_null(delta_graph_add_input(subject->graph, name, row->inputs[k].dtype, &row->inputs[k].shape, &subject->input_ids[k]));
    subject->inputs[k] = calloc(BUFFER_BYTES, 1);
  }
  cr_assert_null(
      delta_test_add_node(subject->graph, &row->node, subject->input_ids, row->input_count, subject->output_ids, row->output_count));
  for (uint32_t k = 0; k < row->output_count; ++k) subject->outputs[k] = calloc(BUFFER_BYTES, 1);
  subject->workspace = calloc(BUFFER_BYTES, 16);
  cr_assert_null(delta_device_open("cpu", &(delta_device_options_t){.threads = 1}, delta_allocator_system(), &subject->device));
}

static void free_subject(subject_t *subject) {
  for (int k = 0; k < MOST_INPUTS; ++k) free((void *)subject->inputs[k]);
  for (int k = 0; k < MOST_OUTPUTS; ++k) free(subject->outputs[k]);
  free(subject->workspace);
  delta_device_close(subject->device);
  delta_graph_free(subject->graph);
}

#define CONV(op) NODE(op, delta_conv_attrs_t, .window = {2, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, .group = 1, .data_spatial = {8, 8})

static const char *const shortages[] = {"one call of operator new", "calls of operator new from then on", "address space"};

// Runs a node in children with one amount after the other, until the amount is not reached.
static void run_amounts(const delta_kernel_case_t *row, shortage_t shortage, size_t first, size_t step, size_t most) {
  subject_t subject;
  make_subject(row, &subject);
  size_t children = 0;
  int outcome = RIGHT;
  for (size_t amount = first; amount < most && outcome != NOT_REACHED; amount += step, ++children) {
    outcome = run_in_child(&subject, shortage, amount);
    cr_expect(outcome == RIGHT || outcome == NOT_REACHED, "%s, %s: %zu: ended with %d", row->name, shortages[shortage], amount, outcome);
  }
  cr_expect_gt(children, 4, "%s, %s: nothing was scarce", row->name, shortages[shortage]);
  free_subject(&subject);
}

Test(onednn_faults, memory_that_ends_inside_the_library, .timeout = 120) {
#ifdef DELTA_TEST_SANITIZED
  cr_skip_test("a sanitizer has its own operator new, and takes much address space");
#endif
  const delta_kernel_case_t rows[] = {
      {"matmul", NODE(MATMUL, delta_matmul_attrs_t, false, false), 2, 1, .inputs = {REALS(30, 20), REALS(20, 25)}},
      {"convolution", CONV(CONV), 2, 1, .inputs = {REALS(2, 16, 8, 8), REALS(16, 16, 3, 3)}},
  };
  // Otherwise a second run would find the first one's primitives.
  cr_assert_eq(setenv("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "0", 1), 0);
  cr_assert_eq(setenv("DNNL_PRIMITIVE_CACHE_CAPACITY", "0", 1), 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    const size_t stride = i == 0 ? 1 : 23; // a convolution has many kernels
    run_amounts(&rows[i], ONE_CALL, 1, stride, MOST_CALLS);
    run_amounts(&rows[i], CALLS_FROM_THEN_ON, 1, stride, MOST_CALLS);
    run_amounts(&rows[i], ADDRESS_SPACE, 0, (size_t)1 << 20, (size_t)24 << 20);
  }
}
