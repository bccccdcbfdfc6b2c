// One node, several kernels, guarded buffers.
#include "tests/support/kernel_case.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "runtime/device.h"
#include "tests/support/support.h"

enum { GUARD_BYTES = 256, ALIGNMENT_BYTES = 64, MOST_THREADS = 3, MOST_RANKS = 8, UNTOUCHED = 0xA5, UNWRITTEN = 0xEE };

const char *delta_kernel_case_device = "cpu";
void (*delta_kernel_case_observer)(bool begins, const char *kernel_name, int earlier);

// There every node has a reference kernel, and kernels check indices.
static bool is_cpu(void) { return strcmp(delta_kernel_case_device, "cpu") == 0; }

// A buffer between guard bytes; NULL data: none.
typedef struct guarded {
  unsigned char *data;
  size_t size_bytes;
} guarded_t;

static size_t guarded_whole_bytes(size_t size_bytes) {
  return (size_bytes + 2 * GUARD_BYTES + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
}

static guarded_t guarded_make(size_t size_bytes) {
  size_t whole_bytes = guarded_whole_bytes(size_bytes);
  unsigned char *block = aligned_alloc(ALIGNMENT_BYTES, whole_bytes);
  if (!block) abort();
  memset(block, UNTOUCHED, whole_bytes);
  memset(block + GUARD_BYTES, UNWRITTEN, size_bytes);
  return (guarded_t){block + GUARD_BYTES, size_bytes};
}

static void guarded_free(guarded_t *guarded) {
  if (guarded->data) free(guarded->data - GUARD_BYTES);
  *guarded = (guarded_t){0};
}

static bool guards_hold(const guarded_t *guarded) {
  if (!guarded->data) return true;
  for (size_t i = 1; i <= GUARD_BYTES; ++i) {
    if (guarded->data[-(ptrdiff_t)i] != UNTOUCHED || guarded->data[guarded->size_bytes + i - 1] != UNTOUCHED) return false;
  }
  return true;
}

// A node and the values of its operands.
typedef struct subject {
  const delta_kernel_case_t *row;
  char *reason;
  delta_graph_t *graph;
  delta_tensor_id_t input_ids[DELTA_KERNEL_CASE_OPERANDS], output_ids[DELTA_KERNEL_CASE_OPERANDS]; // the node's lists
  guarded_t inputs[DELTA_KERNEL_CASE_OPERANDS], given[DELTA_KERNEL_CASE_OPERANDS]; // what the kernels get, and a copy to compare with
  guarded_t wanted[DELTA_KERNEL_CASE_OPERANDS];                                    // by the reference
  guarded_t firsts[MOST_RANKS][DELTA_KERNEL_CASE_OPERANDS];                        // of each kernel with one thread
  guarded_t *first;                                                                // of the kernel at hand
} subject_t;

static bool fails(subject_t *subject, const char *format, ...) {
  va_list values;
  va_start(values, format);
  size_t length = (size_t)snprintf(subject->reason, DELTA_KERNEL_CASE_REASON_BYTES, "%s: ", subject->row->name);
  vsnprintf(subject->reason + length, DELTA_KERNEL_CASE_REASON_BYTES - length, format, values);
  va_end(values);
  return false;
}

static bool fails_with(subject_t *subject, const char *what, delta_status_t status) {
  fails(subject, "%s: %s", what, delta_status_message(status));
  delta_status_free(status);
  return false;
}

static double special_value(uint32_t word, double otherwise) {
  static const double values[] = {INFINITY, -INFINITY, NAN, 0.0, -0.0, 1e-42, -3e38, 88.5, -88.5, 1e30, 5, -1, 1, 1e-20, -104, 0.5};
  uint32_t pick = word % 32;
  return pick < sizeof values / sizeof *values ? values[pick] : otherwise;
}

static double fill_value(const delta_kernel_operand_t *operand, uint64_t key, int64_t i) {
  uint32_t word = delta_random_word(key, 5 * (uint64_t)i);
  double sum = -2, uniform = (double)delta_random_uniform(word);
  for (uint64_t part = 1; part < 5; ++part) sum += (double)delta_random_uniform(delta_random_word(key, 5 * (uint64_t)i + part));
  switch (operand->fill) {
    case DELTA_FILL_SPECIAL:
      return special_value(word, sum);
    case DELTA_FILL_POSITIVE:
      return fabs(sum) + 1e-3;
    case DELTA_FILL_INDICES:
      return floor((2 * uniform - 1) * operand->limit);
    case DELTA_FILL_COUNTING:
      return floor(uniform * operand->limit);
    case DELTA_FILL_VALUE:
      return operand->limit;
    default:
      return operand->limit != 0 ? sum * operand->limit : sum;
  }
}

static bool make_graph(subject_t *subject) {
  static const char *const names[DELTA_KERNEL_CASE_OPERANDS] = {"a", "b", "c", "d", "e", "f", "g", "h", "i"};
  const delta_kernel_case_t *row = subject->row;
  delta_tensor_id_t *inputs = subject->input_ids, *outputs = subject->output_ids;
  delta_status_t status = delta_graph_create(delta_allocator_system(), &subject->graph);
  for (uint32_t k = 0; !status && k < row->input_count; ++k) {
    inputs[k] = DELTA_TENSOR_NONE;
    if (!row->left_out[k])
      status = delta_graph_add_input(subject->graph, names[k], row->inputs[k].dtype, &row->inputs[k].shape, &inputs[k]);
  }
  if (!status) status = delta_test_add_node(subject->graph, &row->node, inputs, row->input_count, outputs, row->output_count);
  return status ? fails_with(subject, "graph", status) : true;
}

static const delta_node_t *node_of(const subject_t *subject) { return &subject->graph->nodes.items[0]; }

static void make_inputs(subject_t *subject) {
  for (uint32_t k = 0; k < subject->row->input_count; ++k) {
    const delta_tensor_t *tensor = delta_node_input(subject->graph, node_of(subject), k);
    if (!tensor) continue;
    subject->inputs[k] = guarded_make(delta_tensor_bytes(tensor));
    subject->given[k] = guarded_make(delta_tensor_bytes(tensor));
    uint64_t key = delta_random_key(7, k, 0);
    for (int64_t i = 0; i < delta_shape_count(&tensor->shape); ++i)
      delta_element_store_double(subject->inputs[k].data, tensor->dtype, (size_t)i, fill_value(&subject->row->inputs[k], key, i));
    memcpy(subject->given[k].data, subject->inputs[k].data, subject->inputs[k].size_bytes);
  }
}

static void make_outputs(const subject_t *subject, guarded_t *outputs) {
  for (uint32_t k = 0; k < subject->row->output_count; ++k)
    outputs[k] = guarded_make(delta_tensor_bytes(delta_node_output(subject->graph, node_of(subject), k)));
}

static void free_all(guarded_t *buffers) {
  for (uint32_t k = 0; k < DELTA_KERNEL_CASE_OPERANDS; ++k) guarded_free(&buffers[k]);
}

static bool same_number(double got, double wanted, double tolerance) {
  if (isnan(wanted) || isnan(got)) return isnan(wanted) && isnan(got);
  if (tolerance == 0) return got == wanted && !signbit(got) == !signbit(wanted);
  return got == wanted || fabs(got - wanted) <= tolerance * (1 + fabs(wanted));
}

static bool agrees(subject_t *subject, const guarded_t *got, const guarded_t *wanted, double tolerance, const char *what) {
  for (uint32_t k = 0; k < subject->row->output_count; ++k) {
    const delta_tensor_t *tensor = delta_node_output(subject->graph, node_of(subject), k);
    for (int64_t i = 0; i < delta_shape_count(&tensor->shape); ++i) {
      double a = delta_element_load_double(got[k].data, tensor->dtype, (size_t)i);
      double b = delta_element_load_double(wanted[k].data, tensor->dtype, (size_t)i);
      if (!same_number(a, b, tolerance)) return fails(subject, "%s: output %u element %lld is %.9g, not %.9g", what, k, (long long)i, a, b);
    }
  }
  return true;
}

static bool is_untouched(subject_t *subject, const guarded_t *outputs, const guarded_t *workspace, const char *what) {
  for (uint32_t k = 0; k < DELTA_KERNEL_CASE_OPERANDS; ++k) {
    if (!guards_hold(&subject->inputs[k])) return fails(subject, "%s: bytes beside input %u were written", what, k);
    if (!guards_hold(&outputs[k])) return fails(subject, "%s: bytes beside output %u were written", what, k);
    if (subject->inputs[k].data && memcmp(subject->inputs[k].data, subject->given[k].data, subject->given[k].size_bytes) != 0)
      return fails(subject, "%s: input %u was written", what, k);
  }
  return guards_hold(workspace) || fails(subject, "%s: bytes beside the workspace were written", what);
}

static bool run_reference(subject_t *subject) {
  const void *inputs[DELTA_KERNEL_CASE_OPERANDS];
  void *outputs[DELTA_KERNEL_CASE_OPERANDS];
  make_outputs(subject, subject->wanted);
  for (uint32_t k = 0; k < DELTA_KERNEL_CASE_OPERANDS; ++k) {
    inputs[k] = subject->inputs[k].data;
    outputs[k] = subject->wanted[k].data;
  }
  const delta_reference_args_t args = {subject->graph, node_of(subject), inputs, outputs, delta_allocator_system()};
  delta_status_t status = delta_reference_node(&args);
  if (subject->row->error) {
    bool right = status && strstr(delta_status_message(status), subject->row->error);
    delta_status_free(status);
    return right || fails(subject, "the reference does not fail with '%s'", subject->row->error);
  }
  return status ? fails_with(subject, "reference", status) : true;
}

// A kernel made for a device.
typedef struct made_kernel {
  delta_device_t *device;
  delta_kernel_t *kernel;
  delta_kernel_offer_t offer;
  int launches;
} made_kernel_t;

// The buffers of one launch where the device has them: the guarded ones themselves, or copies of them, with their guards, in an arena.
enum { PLACED_BUFFERS = 2 * DELTA_KERNEL_CASE_OPERANDS + 1 };
typedef struct placed {
  delta_device_t *device;
  delta_arena_t *arena; // NULL: the host's buffers are the device's
  guarded_t *buffers[PLACED_BUFFERS];
  void *blocks[PLACED_BUFFERS], *data[PLACED_BUFFERS];
} placed_t;

static delta_status_t reserve_blocks(placed_t *placed) {
  enum { BLOCK_BYTES = 256 };
  const delta_device_driver_t *driver = placed->device->driver;
  size_t offsets[PLACED_BUFFERS], total_bytes = 0, granule_bytes = placed->device->granule_bytes;
  for (size_t k = 0; k < PLACED_BUFFERS; ++k) {
    offsets[k] = total_bytes;
    if (placed->buffers[k]->data) total_bytes += delta_size_round_up(guarded_whole_bytes(placed->buffers[k]->size_bytes), BLOCK_BYTES);
  }
  total_bytes = delta_size_round_up(total_bytes + 1, granule_bytes);
  DELTA_RETURN_IF_ERROR(driver->arena_reserve(placed->device, total_bytes, &placed->arena));
  DELTA_RETURN_IF_ERROR(driver->arena_commit(placed->arena, total_bytes));
  for (size_t k = 0; k < PLACED_BUFFERS; ++k) placed->blocks[k] = driver->arena_address(placed->arena, offsets[k]);
  return DELTA_OK;
}

static delta_status_t place(placed_t *placed) {
  const delta_device_driver_t *driver = placed->device->driver;
  const bool is_host = placed->device->host_addressable;
  if (!is_host) DELTA_RETURN_IF_ERROR(reserve_blocks(placed));
  for (size_t k = 0; k < PLACED_BUFFERS; ++k) {
    const guarded_t *buffer = placed->buffers[k];
    placed->data[k] = is_host || !buffer->data ? buffer->data : (unsigned char *)placed->blocks[k] + GUARD_BYTES;
    if (is_host || !buffer->data) continue;
    DELTA_RETURN_IF_ERROR(
        driver->write(placed->device, placed->blocks[k], buffer->data - GUARD_BYTES, guarded_whole_bytes(buffer->size_bytes)));
  }
  return DELTA_OK;
}

static delta_status_t take_back(placed_t *placed) {
  const delta_device_driver_t *driver = placed->device->driver;
  DELTA_RETURN_IF_ERROR(driver->synchronize(placed->device));
  for (size_t k = 0; k < PLACED_BUFFERS && placed->arena; ++k) {
    const guarded_t *buffer = placed->buffers[k];
    if (!buffer->data) continue;
    DELTA_RETURN_IF_ERROR(
        driver->read(placed->device, buffer->data - GUARD_BYTES, placed->blocks[k], guarded_whole_bytes(buffer->size_bytes)));
  }
  return DELTA_OK;
}

static delta_status_t launch_placed(made_kernel_t *made, placed_t *placed, int32_t aliased) {
  const void *inputs[DELTA_KERNEL_CASE_OPERANDS];
  void *results[DELTA_KERNEL_CASE_OPERANDS];
  DELTA_RETURN_IF_ERROR(place(placed));
  for (uint32_t k = 0; k < DELTA_KERNEL_CASE_OPERANDS; ++k) {
    inputs[k] = placed->data[k];
    results[k] = placed->data[DELTA_KERNEL_CASE_OPERANDS + k];
  }
  if (aliased >= 0) inputs[aliased] = results[0];
  const delta_kernel_buffers_t buffers = {inputs, results, placed->data[PLACED_BUFFERS - 1]};
  if (delta_kernel_case_observer) delta_kernel_case_observer(true, made->offer.name, made->launches);
  delta_status_t status = made->device->driver->launch(made->device, DELTA_LANE_COMPUTE, made->kernel, &buffers);
  if (delta_kernel_case_observer) delta_kernel_case_observer(false, made->offer.name, made->launches);
  ++made->launches;
  return status ? status : take_back(placed);
}

static delta_status_t launch(subject_t *subject, made_kernel_t *made, guarded_t *outputs, int32_t aliased, guarded_t *workspace) {
  placed_t placed = {.device = made->device};
  if (aliased >= 0) memcpy(outputs[0].data, subject->inputs[aliased].data, outputs[0].size_bytes);
  *workspace = guarded_make(made->offer.workspace_bytes);
  for (uint32_t k = 0; k < DELTA_KERNEL_CASE_OPERANDS; ++k) {
    placed.buffers[k] = &subject->inputs[k];
    placed.buffers[DELTA_KERNEL_CASE_OPERANDS + k] = &outputs[k];
  }
  placed.buffers[PLACED_BUFFERS - 1] = workspace;
  const delta_status_t status = launch_placed(made, &placed, aliased);
  if (placed.arena) made->device->driver->arena_destroy(placed.arena);
  return status;
}

// One run, compared with the reference and the first run.
static bool run_once(subject_t *subject, made_kernel_t *made, int32_t aliased, const char *what) {
  guarded_t outputs[DELTA_KERNEL_CASE_OPERANDS] = {0}, workspace = {0};
  make_outputs(subject, outputs);
  delta_status_t status = launch(subject, made, outputs, aliased, &workspace);
  bool right = true;
  if (subject->row->error) {
    right = (status && strstr(delta_status_message(status), subject->row->error)) || fails(subject, "%s does not fail as it should", what);
    delta_status_free(status);
  } else {
    right = status ? fails_with(subject, what, status) : agrees(subject, outputs, subject->wanted, subject->row->tolerance, what);
  }
  right = right && is_untouched(subject, outputs, &workspace, what);
  if (right && !subject->row->error && !subject->first[0].data) {
    memcpy(subject->first, outputs, sizeof subject->firsts[0]);
    memset(outputs, 0, sizeof outputs);
  } else if (right && !subject->row->error) {
    right = agrees(subject, outputs, subject->first, 0, what);
  }
  guarded_free(&workspace);
  free_all(outputs);
  return right;
}

// Launches with all inputs, and then all outputs, one behind another in `bytes`, where the inputs are.
static delta_status_t launch_in_row(const subject_t *subject, made_kernel_t *made, const guarded_t *outputs, guarded_t *bytes,
                                    placed_t *placed) {
  const void *inputs[DELTA_KERNEL_CASE_OPERANDS] = {0};
  void *results[DELTA_KERNEL_CASE_OPERANDS] = {0};
  guarded_t none = {0};
  for (size_t k = 0; k < PLACED_BUFFERS; ++k) placed->buffers[k] = &none;
  placed->buffers[0] = bytes;
  DELTA_RETURN_IF_ERROR(place(placed));
  char *at = placed->data[0];
  for (uint32_t k = 0; k < subject->row->input_count; at += subject->inputs[k++].size_bytes) inputs[k] = at;
  at = placed->data[0];
  for (uint32_t k = 0; k < subject->row->output_count; at += outputs[k++].size_bytes) results[k] = at;
  const delta_kernel_buffers_t buffers = {inputs, results, NULL};
  DELTA_RETURN_IF_ERROR(made->device->driver->launch(made->device, DELTA_LANE_COMPUTE, made->kernel, &buffers));
  return take_back(placed);
}

static bool run_in_row(subject_t *subject, made_kernel_t *made, const char *what) {
  size_t size_bytes = 0, at = 0;
  for (uint32_t k = 0; k < subject->row->input_count; ++k) size_bytes += subject->inputs[k].size_bytes;
  guarded_t bytes = guarded_make(size_bytes), outputs[DELTA_KERNEL_CASE_OPERANDS] = {0};
  placed_t placed = {.device = made->device};
  make_outputs(subject, outputs);
  for (uint32_t k = 0; k < subject->row->input_count; at += subject->inputs[k++].size_bytes)
    memcpy(bytes.data + at, subject->inputs[k].data, subject->inputs[k].size_bytes);
  const delta_status_t status = launch_in_row(subject, made, outputs, &bytes, &placed);
  if (placed.arena) made->device->driver->arena_destroy(placed.arena);
  at = 0;
  for (uint32_t k = 0; k < subject->row->output_count; at += outputs[k++].size_bytes)
    memcpy(outputs[k].data, bytes.data + at, outputs[k].size_bytes);
  bool right = status ? fails_with(subject, what, status) : agrees(subject, outputs, subject->wanted, 0, what);
  if (right && !guards_hold(&bytes)) right = fails(subject, "%s: bytes beside were written", what);
  guarded_free(&bytes);
  free_all(outputs);
  return right;
}

static bool run_kernel(subject_t *subject, made_kernel_t *made) {
  char what[128];
  snprintf(what, sizeof what, "kernel '%s', %d threads", made->offer.name, made->device->threads);
  bool right = run_once(subject, made, -1, what) && run_once(subject, made, -1, what);
  for (uint32_t k = 0; right && k < subject->row->input_count; ++k) {
    if (!subject->inputs[k].data || !delta_node_may_overwrite(subject->graph, node_of(subject), k, 0)) continue;
    snprintf(what, sizeof what, "kernel '%s', %d threads, in place of input %u", made->offer.name, made->device->threads, k);
    right = run_once(subject, made, (int32_t)k, what);
  }
  snprintf(what, sizeof what, "kernel '%s', %d threads, in a row", made->offer.name, made->device->threads);
  return right && (!made->offer.works_in_row || run_in_row(subject, made, what));
}

// Libraries promise the same bits for the same number of threads only.
static bool depends_on_threads(const char *kernel_name) { return strncmp(kernel_name, "onednn", 6) == 0; }

// Runs the kernel of one rank, unless it refuses; adds to `runs` when it does not.
static bool run_rank(subject_t *subject, delta_device_t *device, uint32_t rank, bool *out_last, int *runs) {
  made_kernel_t made = {.device = device};
  const delta_node_id_t id = {0};
  bool exists;
  delta_status_t status = device->driver->kernel_query(device, subject->graph, id, rank, &made.offer, &exists);
  if (status) return fails_with(subject, "query", status);
  *out_last = !exists || strcmp(made.offer.name, "reference") == 0;
  if (*out_last) return true;
  if (made.offer.refusal) return true;
  *runs += 1;
  if (subject->row->refused && is_cpu()) return fails(subject, "kernel '%s' does not refuse", made.offer.name);
  if (rank >= MOST_RANKS) return fails(subject, "there are more kernels than this test has room for");
  status = device->driver->kernel_prepare(device, subject->graph, id, rank, &made.kernel);
  if (status) return fails_with(subject, "prepare", status);
  subject->first = subject->firsts[rank];
  if (depends_on_threads(made.offer.name)) free_all(subject->first);
  bool right = run_kernel(subject, &made);
  device->driver->kernel_destroy(made.kernel);
  return right;
}

static bool run_device(subject_t *subject, int32_t threads) {
  const delta_device_options_t options = {.threads = threads};
  delta_device_t *device = NULL;
  delta_status_t status = delta_device_open(delta_kernel_case_device, &options, delta_allocator_system(), &device);
  if (status) return fails_with(subject, "device", status);
  bool right = true, last = false;
  int runs = 0;
  for (uint32_t rank = 0; right && !last; ++rank) right = run_rank(subject, device, rank, &last, &runs);
  if (right && runs == 0 && !(subject->row->refused && is_cpu())) right = fails(subject, "every kernel but the reference refuses");
  delta_device_close(device);
  return right;
}

// Prepares the kernels of all ranks; the first failure ends it.
static delta_status_t prepare_all(const subject_t *subject, delta_allocator_t allocator) {
  const delta_device_options_t options = {.threads = 1};
  delta_device_t *device = NULL;
  delta_status_t status = delta_device_open(delta_kernel_case_device, &options, allocator, &device);
  bool exists = true;
  for (uint32_t rank = 0; !status && exists; ++rank) {
    delta_kernel_offer_t offer;
    status = device->driver->kernel_query(device, subject->graph, (delta_node_id_t){0}, rank, &offer, &exists);
  }
  delta_device_close(device);
  return status;
}

// Each allocation fails once: that is reported, and nothing is left behind.
static bool survives_faults(subject_t *subject) {
  for (size_t n = 1;; ++n) {
    delta_test_allocator_t faults;
    delta_test_allocator_init(&faults, n, DELTA_TEST_FAIL_ONCE);
    delta_status_t status = prepare_all(subject, delta_test_allocator_interface(&faults));
    bool failed = status != NULL;
    if (failed && faults.call_count < n) return fails_with(subject, "preparing fails with memory enough", status);
    delta_status_free(status);
    if (faults.live_blocks != 0) return fails(subject, "%zu blocks are left when allocation %zu fails", (size_t)faults.live_blocks, n);
    if (faults.call_count < n) return true;
    if (!failed) return fails(subject, "allocation %zu fails unnoticed", n);
  }
}

bool delta_kernel_case_run(const delta_kernel_case_t *kernel_case, char reason[DELTA_KERNEL_CASE_REASON_BYTES]) {
  subject_t subject = {.row = kernel_case, .reason = reason};
  if (kernel_case->error && !is_cpu()) return true;
  bool right = make_graph(&subject);
  if (right) {
    make_inputs(&subject);
    right = run_reference(&subject);
  }
  right = right && survives_faults(&subject);
  for (int32_t threads = 1; right && threads <= (is_cpu() ? MOST_THREADS : 1); ++threads) right = run_device(&subject, threads);
  free_all(subject.inputs);
  free_all(subject.given);
  free_all(subject.wanted);
  for (uint32_t rank = 0; rank < MOST_RANKS; ++rank) free_all(subject.firsts[rank]);
  delta_graph_free(subject.graph);
  return right;
}
