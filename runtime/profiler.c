// Measuring: kernels are made once, run on zeroed inputs in an arena of their own, and take turns.
#include "runtime/profiler_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "onnx/graph/virtual.h"
#include "runtime/select.h"

// Five turns at most; once the patience is used up everything has had enough after one. The first run counts where it took so long that what it warms
// up is nothing beside it.
enum { MOST_SAMPLES = 5, ZERO_BLOCK_BYTES = 1 << 20, MOST_LAUNCHES = 16 };
static const double long_seconds = 0.3, enough_seconds = 0.1, patience_seconds = 20;
// Of a sample on a device with queues: what the host takes to launch is then hidden behind launches before it, as in a program.
static const double sample_seconds = 2e-4;
// A kernel whose first run takes so much longer than another's for the same node is not run again.
static const double hopeless_times = 3, hopeless_seconds = 1e-3;

// One kernel of one node to measure.
typedef struct profiled_node {
  char key[DELTA_PROFILE_KEY_BYTES];
  const delta_graph_t *graph;
  const delta_node_t *node;
  delta_kernel_t *kernel; // Owned.
  const char *kernel_name;
  uint32_t rank;
  size_t workspace_bytes;
  uint32_t launches; // behind each other, for one sample: on a device with queues
  bool is_hopeless;  // its first run is its sample
  bool is_refused;   // by its library, when it was to run
  double samples[MOST_SAMPLES];
  uint32_t sample_count;
  double spent_seconds;
} profiled_node_t;

// One call.
typedef struct profiling {
  delta_profiler_t *profiler;
  delta_device_t *device;
  DELTA_ARRAY(profiled_node_t) nodes; // Owned.
  delta_arena_t *inputs, *outputs;    // Owned. Inputs stay zero.
  const void **input_addresses;       // Owned; room for the longest list, and behind it the lists of parts
  void **output_addresses;            // Owned.
  uint32_t done, total;
  double start_seconds;
} profiling_t;

// What measuring has taken, in all calls.
static double spent_seconds(const profiling_t *profiling) {
  return profiling->profiler->seconds + delta_clock_seconds() - profiling->start_seconds;
}

static size_t aligned(const profiling_t *profiling, size_t size_bytes) {
  const size_t alignment_bytes = profiling->device->alignment_bytes;
  return (size_bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

static delta_status_t add_kernel(profiling_t *profiling, delta_node_id_t id, const profiled_node_t *node, uint32_t rank,
                                 const delta_kernel_offer_t *offer) {
  const delta_device_driver_t *driver = profiling->device->driver;
  profiled_node_t item = *node;
  item.rank = rank;
  item.kernel_name = offer->name;
  item.workspace_bytes = offer->workspace_bytes;
  DELTA_RETURN_IF_ERROR(driver->kernel_prepare(profiling->device, item.graph, id, rank, &item.kernel));
  const delta_status_t status = delta_array_push(profiling->profiler->allocator, &profiling->nodes, &item);
  if (status) driver->kernel_destroy(item.kernel);
  return status;
}

// The kernels that selection compares: those within the rule of workspaces, or else the first. A node that none can run is left to selection, which says so.
static delta_status_t add_kernels(profiling_t *profiling, delta_node_id_t id, const profiled_node_t *node) {
  const size_t most_bytes = delta_most_workspace_bytes(node->graph, node->node);
  delta_kernel_offer_t offer, first = {0};
  uint32_t first_rank = 0, added = 0;
  for (uint32_t rank = 0;; ++rank) {
    bool exists = false;
    DELTA_RETURN_IF_ERROR(profiling->device->driver->kernel_query(profiling->device, node->graph, id, rank, &offer, &exists));
    if (!exists) break;
    if (offer.refusal || (first.name && offer.is_last_resort)) continue;
    if (!first.name) {
      first = offer;
      first_rank = rank;
    }
    if (offer.workspace_bytes > most_bytes) continue;
    DELTA_RETURN_IF_ERROR(add_kernel(profiling, id, node, rank, &offer));
    ++added;
  }
  return first.name && added == 0 ? add_kernel(profiling, id, node, first_rank, &first) : DELTA_OK;
}

// Adds the nodes of a graph that are neither known nor among those at hand.
static delta_status_t collect(profiling_t *profiling, const delta_graph_t *graph, delta_map_t *seen) {
  delta_profiler_t *profiler = profiling->profiler;
  for (uint32_t i = 0; i < graph->nodes.count; ++i) {
    profiled_node_t item = {.graph = graph, .node = &graph->nodes.items[i], .launches = 1};
    if ((delta_core_op_info(item.node->op)->flags & DELTA_CORE_FLAG_VIEW) || item.node->is_virtual) continue;
    delta_profile_key(graph, item.node, item.key);
    if (delta_profile_first(profiler->profile, item.key) || delta_map_find(seen, item.key) != DELTA_MAP_NONE) continue;
    DELTA_RETURN_IF_ERROR(delta_map_set(seen, item.key, i));
    DELTA_RETURN_IF_ERROR(add_kernels(profiling, (delta_node_id_t){i}, &item));
  }
  return DELTA_OK;
}

// The same operator of several graphs stands side by side, and the kernels of a node: what is compared is run one after the other.
static int by_name(const void *a, const void *b) {
  const profiled_node_t *x = a, *y = b;
  int order = strcmp(x->node->name, y->node->name);
  if (order == 0) order = (x->node->op > y->node->op) - (x->node->op < y->node->op);
  if (order == 0) order = strcmp(x->key, y->key);
  return order ? order : (x->rank > y->rank) - (x->rank < y->rank);
}

// The end of the kernels of the node whose first is at `begin`.
static size_t end_of_node(const profiling_t *profiling, size_t begin) {
  size_t end = begin + 1;
  while (end < profiling->nodes.count && strcmp(profiling->nodes.items[end].key, profiling->nodes.items[begin].key) == 0) ++end;
  return end;
}

static delta_status_t collect_all(profiling_t *profiling, const delta_graph_t *const *graphs, uint32_t graph_count) {
  delta_map_t seen;
  delta_map_init(&seen, profiling->profiler->allocator);
  delta_status_t status = DELTA_OK;
  for (uint32_t g = 0; !status && g < graph_count; ++g) status = collect(profiling, graphs[g], &seen);
  delta_map_deinit(&seen);
  if (profiling->nodes.count > 1) qsort(profiling->nodes.items, profiling->nodes.count, sizeof *profiling->nodes.items, by_name);
  return status;
}

static size_t tensor_bytes(const profiling_t *profiling, const delta_graph_t *graph, delta_tensor_id_t id) {
  return delta_tensor_is_none(id) ? 0 : aligned(profiling, delta_tensor_bytes(delta_graph_tensor(graph, id)));
}

// Of a virtual tensor those of its parts.
static size_t list_bytes(const profiling_t *profiling, const delta_graph_t *graph, const delta_tensor_id_t *ids, uint32_t count) {
  size_t bytes = 0;
  for (uint32_t k = 0; k < count; ++k) {
    const delta_node_t *parts = delta_virtual_node(graph, ids[k]);
    for (uint32_t p = 0; parts && p < parts->input_count; ++p) bytes += tensor_bytes(profiling, graph, parts->inputs[p]);
    if (!parts) bytes += tensor_bytes(profiling, graph, ids[k]);
  }
  return bytes;
}

static uint32_t count_parts(const delta_graph_t *graph, const delta_node_t *node) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_node_t *parts = delta_virtual_node(graph, node->inputs[k]);
    count += parts ? parts->input_count : 0;
  }
  return count;
}

static delta_status_t make_arena(const profiling_t *profiling, size_t size_bytes, delta_arena_t **out_arena) {
  const delta_device_driver_t *driver = profiling->device->driver;
  const size_t granule_bytes = profiling->device->granule_bytes;
  const size_t whole_bytes = (size_bytes / granule_bytes + 1) * granule_bytes;
  DELTA_RETURN_IF_ERROR(driver->arena_reserve(profiling->device, whole_bytes, out_arena));
  DELTA_RETURN_IF_ERROR(driver->arena_commit(*out_arena, whole_bytes));
  void *zeros = NULL;
  DELTA_RETURN_IF_ERROR(delta_allocate(profiling->profiler->allocator, ZERO_BLOCK_BYTES, 1, &zeros));
  delta_status_t status = DELTA_OK;
  for (size_t at = 0; !status && at < whole_bytes; at += ZERO_BLOCK_BYTES) {
    const size_t block_bytes = whole_bytes - at < ZERO_BLOCK_BYTES ? whole_bytes - at : ZERO_BLOCK_BYTES;
    status = driver->write(profiling->device, driver->arena_address(*out_arena, at), zeros, block_bytes);
  }
  delta_release(profiling->profiler->allocator, zeros);
  return status;
}

// A node that needs more than there is cannot run, now or later.
static delta_status_t check_room(const profiling_t *profiling, size_t room_bytes) {
  uint64_t most_bytes;
  DELTA_RETURN_IF_ERROR(delta_device_free_bytes(profiling->device, &most_bytes));
  const uint64_t limit_bytes = profiling->profiler->options.limit_bytes;
  if (limit_bytes != 0 && limit_bytes < most_bytes) most_bytes = limit_bytes;
  if (room_bytes <= most_bytes) return DELTA_OK;
  char room_text[DELTA_SIZE_TEXT_BYTES], most_text[DELTA_SIZE_TEXT_BYTES];
  return delta_status_make(DOES_NOT_FIT, "one node alone needs up to %s, and there are %s: give a smaller --batch or a larger --budget",
                           delta_size_text(room_bytes, room_text), delta_size_text(most_bytes, most_text));
}

// Room for any one of the nodes.
static delta_status_t make_room(profiling_t *profiling) {
  size_t input_bytes = 0, output_bytes = 0, input_count = 0, output_count = 0;
  for (size_t i = 0; i < profiling->nodes.count; ++i) {
    const profiled_node_t *item = &profiling->nodes.items[i];
    const size_t inputs = list_bytes(profiling, item->graph, item->node->inputs, item->node->input_count);
    const size_t outputs =
        list_bytes(profiling, item->graph, item->node->outputs, item->node->output_count) + aligned(profiling, item->workspace_bytes);
    if (inputs > input_bytes) input_bytes = inputs;
    if (outputs > output_bytes) output_bytes = outputs;
    const uint32_t addresses = item->node->input_count + count_parts(item->graph, item->node);
    if (addresses > input_count) input_count = addresses;
    if (item->node->output_count > output_count) output_count = item->node->output_count;
  }
  DELTA_RETURN_IF_ERROR(check_room(profiling, input_bytes > output_bytes ? input_bytes : output_bytes));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(profiling->profiler->allocator, input_count, &profiling->input_addresses));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(profiling->profiler->allocator, output_count, &profiling->output_addresses));
  DELTA_RETURN_IF_ERROR(make_arena(profiling, input_bytes, &profiling->inputs));
  return make_arena(profiling, output_bytes, &profiling->outputs);
}

// Of a queue: between two marks, launches behind each other.
static delta_status_t time_queue(profiling_t *profiling, profiled_node_t *item, const delta_kernel_buffers_t *buffers,
                                 double *out_seconds) {
  delta_device_t *device = profiling->device;
  const delta_device_driver_t *driver = device->driver;
  DELTA_RETURN_IF_ERROR(driver->queues_reserve(device, 0, 2));
  DELTA_RETURN_IF_ERROR(driver->mark(device, DELTA_LANE_COMPUTE, 0));
  for (uint32_t i = 0; i < item->launches; ++i) DELTA_RETURN_IF_ERROR(driver->launch(device, DELTA_LANE_COMPUTE, item->kernel, buffers));
  DELTA_RETURN_IF_ERROR(driver->mark(device, DELTA_LANE_COMPUTE, 1));
  DELTA_RETURN_IF_ERROR(driver->synchronize(device));
  DELTA_RETURN_IF_ERROR(driver->elapsed(device, 0, 1, out_seconds));
  *out_seconds /= item->launches;
  return DELTA_OK;
}

static delta_status_t time_call(profiling_t *profiling, profiled_node_t *item, const delta_kernel_buffers_t *buffers, double *out_seconds) {
  const delta_device_driver_t *driver = profiling->device->driver;
  const double start_seconds = delta_clock_seconds();
  DELTA_RETURN_IF_ERROR(driver->launch(profiling->device, DELTA_LANE_COMPUTE, item->kernel, buffers));
  DELTA_RETURN_IF_ERROR(driver->synchronize(profiling->device));
  *out_seconds = delta_clock_seconds() - start_seconds;
  return DELTA_OK;
}

static void list_inputs(profiling_t *profiling, const profiled_node_t *item) {
  const delta_device_driver_t *driver = profiling->device->driver;
  const void **addresses = profiling->input_addresses, **next = addresses + item->node->input_count;
  size_t offset = 0;
  for (uint32_t k = 0; k < item->node->input_count; ++k) {
    const delta_tensor_id_t id = item->node->inputs[k];
    const delta_node_t *parts = delta_virtual_node(item->graph, id);
    addresses[k] = parts ? next : delta_tensor_is_none(id) ? NULL : driver->arena_address(profiling->inputs, offset);
    for (uint32_t p = 0; parts && p < parts->input_count; ++p) {
      *next++ = driver->arena_address(profiling->inputs, offset);
      offset += tensor_bytes(profiling, item->graph, parts->inputs[p]);
    }
    if (!parts) offset += tensor_bytes(profiling, item->graph, id);
  }
}

// Runs a node for one sample.
static delta_status_t run_once(profiling_t *profiling, profiled_node_t *item, double *out_seconds) {
  const delta_device_driver_t *driver = profiling->device->driver;
  const delta_node_t *node = item->node;
  list_inputs(profiling, item);
  size_t offset = 0;
  for (uint32_t k = 0; k < node->output_count; ++k) {
    const bool is_none = delta_tensor_is_none(node->outputs[k]);
    profiling->output_addresses[k] = is_none ? NULL : driver->arena_address(profiling->outputs, offset);
    offset += list_bytes(profiling, item->graph, &node->outputs[k], 1);
  }
  const delta_kernel_buffers_t buffers = {.inputs = profiling->input_addresses,
                                          .outputs = profiling->output_addresses,
                                          .workspace = driver->arena_address(profiling->outputs, offset)};
  DELTA_RETURN_IF_ERROR(profiling->device->has_queues ? time_queue(profiling, item, &buffers, out_seconds)
                                                      : time_call(profiling, item, &buffers, out_seconds));
  item->spent_seconds += *out_seconds * item->launches;
  return DELTA_OK;
}

static void report(profiling_t *profiling) {
  const delta_profiler_options_t *options = &profiling->profiler->options;
  ++profiling->done;
  if (options->progress) options->progress(options->self, profiling->done, profiling->total);
}

// What has not run by then is left to the roofline; a kernel that has begun is waited for.
static double limit_seconds(const profiling_t *profiling) {
  const double asked_seconds = profiling->profiler->options.most_seconds;
  return asked_seconds > 0 ? asked_seconds : DELTA_PROFILER_MOST_SECONDS;
}

static uint32_t launches_of(double seconds) {
  return seconds * MOST_LAUNCHES < sample_seconds ? MOST_LAUNCHES : seconds < sample_seconds ? (uint32_t)(sample_seconds / seconds) : 1;
}

// A first launch that brings code to the device says nothing of the kernel.
static delta_status_t load(profiling_t *profiling, profiled_node_t *item) {
  double seconds;
  DELTA_RETURN_IF_ERROR(run_once(profiling, item, &seconds));
  item->spent_seconds = 0;
  return DELTA_OK;
}

static delta_status_t try_out(profiling_t *profiling, profiled_node_t *item, double *out_seconds) {
  if (profiling->device->has_queues) DELTA_RETURN_IF_ERROR(load(profiling, item));
  return run_once(profiling, item, out_seconds);
}

// A library may take a kernel when it is prepared and say only when it is to run that it does not have it: then there is one less to choose from.
static delta_status_t pass_over_refusal(profiling_t *profiling, profiled_node_t *item, delta_status_t status) {
  if (delta_status_code(status) != DELTA_STATUS_UNSUPPORTED) return status;
  delta_log(profiling->profiler->options.log, DELTA_LOG_DEBUG, "not measured: %s", delta_status_message(status));
  delta_status_free(status);
  item->is_refused = true;
  return DELTA_OK;
}

// The first run warms up; where that took long it counts.
static delta_status_t warm_up(profiling_t *profiling) {
  const bool has_queues = profiling->device->has_queues;
  for (size_t i = 0; i < profiling->nodes.count; ++i) {
    profiled_node_t *item = &profiling->nodes.items[i];
    const bool has_time = spent_seconds(profiling) < limit_seconds(profiling);
    double seconds = 0;
    if (has_time) DELTA_RETURN_IF_ERROR(pass_over_refusal(profiling, item, try_out(profiling, item, &seconds)));
    if (seconds > long_seconds) item->samples[item->sample_count++] = seconds;
    if (has_queues) item->launches = launches_of(seconds);
    report(profiling);
  }
  return DELTA_OK;
}

// Of the kernels of each node those that need not run again.
static void find_hopeless(profiling_t *profiling) {
  for (size_t begin = 0, end; begin < profiling->nodes.count; begin = end) {
    profiled_node_t *items = profiling->nodes.items;
    double least_seconds = INFINITY;
    end = end_of_node(profiling, begin);
    for (size_t i = begin; i < end; ++i)
      if (!items[i].is_refused && items[i].spent_seconds < least_seconds) least_seconds = items[i].spent_seconds;
    for (size_t i = begin; i < end && least_seconds > 0; ++i) {
      items[i].is_hopeless = items[i].spent_seconds > hopeless_times * least_seconds + hopeless_seconds;
      if (items[i].is_hopeless && items[i].sample_count == 0) items[i].samples[items[i].sample_count++] = items[i].spent_seconds;
    }
  }
}

// Every kernel that has run gets a sample; when time is up its first run is one.
static delta_status_t take_turns(profiling_t *profiling) {
  for (uint32_t turn = 0; turn < MOST_SAMPLES; ++turn) {
    for (size_t i = 0; i < profiling->nodes.count; ++i) {
      profiled_node_t *item = &profiling->nodes.items[i];
      const double spent = spent_seconds(profiling);
      const bool has_enough =
          item->sample_count == MOST_SAMPLES || item->spent_seconds > enough_seconds || item->is_hopeless || spent > patience_seconds;
      if (item->spent_seconds > 0 && item->sample_count == 0 && spent > limit_seconds(profiling)) {
        item->samples[item->sample_count++] = item->spent_seconds;
      } else if (item->spent_seconds > 0 && (item->sample_count == 0 || !has_enough)) {
        DELTA_RETURN_IF_ERROR(run_once(profiling, item, &item->samples[item->sample_count]));
        ++item->sample_count;
      }
      report(profiling);
    }
  }
  return DELTA_OK;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

double delta_profiler_quantile(double *samples, uint32_t count, double part) {
  qsort(samples, count, sizeof *samples, by_value);
  return samples[(uint32_t)((count - 1) * part)];
}

// Other work of the machine only ever adds, and to some kernels more than to others: of a kernel's times the lower quartile counts.
static double typical_seconds(profiled_node_t *item) { return delta_profiler_quantile(item->samples, item->sample_count, 0.25); }

static delta_status_t keep_time(profiling_t *profiling, profiled_node_t *item) {
  const delta_profile_entry_t entry = {
      .key = item->key, .kernel = item->kernel_name, .seconds = typical_seconds(item), .workspace_bytes = item->workspace_bytes};
  return delta_profile_set(profiling->profiler->profile, &entry);
}

static bool is_missing(const profiled_node_t *item) { return item->sample_count == 0 && !item->is_refused; }

// A node's kernels come into the profile together, so that one that is there is complete.
static delta_status_t keep_times(profiling_t *profiling) {
  size_t left_out = 0;
  for (size_t begin = 0, end; begin < profiling->nodes.count; begin = end) {
    size_t missing = 0;
    end = end_of_node(profiling, begin);
    for (size_t i = begin; i < end; ++i) missing += is_missing(&profiling->nodes.items[i]);
    left_out += missing > 0 ? end - begin : 0;
    for (size_t i = begin; i < end && missing == 0; ++i)
      if (!profiling->nodes.items[i].is_refused) DELTA_RETURN_IF_ERROR(keep_time(profiling, &profiling->nodes.items[i]));
  }
  if (left_out > 0)
    delta_log(profiling->profiler->options.log, DELTA_LOG_NOTE,
              "%zu of %zu kernels were not measured within %g seconds: rough speeds are assumed for them, until another run measures them",
              left_out, profiling->nodes.count, limit_seconds(profiling));
  return DELTA_OK;
}

static void deinit_profiling(profiling_t *profiling) {
  const delta_device_driver_t *driver = profiling->device->driver;
  const delta_allocator_t allocator = profiling->profiler->allocator;
  for (size_t i = 0; i < profiling->nodes.count; ++i) driver->kernel_destroy(profiling->nodes.items[i].kernel);
  delta_array_deinit(allocator, &profiling->nodes);
  if (profiling->inputs) driver->arena_destroy(profiling->inputs);
  if (profiling->outputs) driver->arena_destroy(profiling->outputs);
  delta_release(allocator, profiling->input_addresses);
  delta_release(allocator, profiling->output_addresses);
}

delta_status_t delta_profiler_measure(delta_profiler_t *profiler, const delta_graph_t *const *graphs, uint32_t graph_count) {
  if (profiler->options.only_read) return DELTA_OK;
  profiling_t profiling = {.profiler = profiler, .device = profiler->options.device, .start_seconds = delta_clock_seconds()};
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, collect_all(&profiling, graphs, graph_count), cleanup);
  if (profiling.nodes.count == 0) goto cleanup;
  profiling.total = (uint32_t)profiling.nodes.count * (1 + MOST_SAMPLES);
  DELTA_GOTO_IF_ERROR(status, make_room(&profiling), cleanup);
  DELTA_GOTO_IF_ERROR(status, warm_up(&profiling), cleanup);
  find_hopeless(&profiling);
  DELTA_GOTO_IF_ERROR(status, take_turns(&profiling), cleanup);
  profiler->is_changed = true;
  status = keep_times(&profiling);
cleanup:
  deinit_profiling(&profiling);
  profiler->seconds += delta_clock_seconds() - profiling.start_seconds;
  return delta_status_annotate(status, "measuring kernels");
}

// The cache holds what was measured before; without it everything is measured.
static delta_status_t open_cache(delta_profiler_t *profiler) {
  delta_status_t status = delta_profile_cache_path(profiler->profile, &profiler->cache_path);
  if (!status) status = delta_profile_read(profiler->profile, profiler->cache_path, DELTA_PROFILE_FORGIVING);
  if (!status) return DELTA_OK;
  if (delta_status_code(status) == DELTA_STATUS_OUT_OF_MEMORY) return status;
  if (delta_status_code(status) != DELTA_STATUS_NOT_FOUND)
    delta_log(profiler->options.log, DELTA_LOG_NOTE, "kernels are measured anew: %s", delta_status_message(status));
  delta_status_free(status);
  return DELTA_OK;
}

delta_status_t delta_profiler_create(const delta_profiler_options_t *options, delta_allocator_t allocator,
                                     delta_profiler_t **out_profiler) {
  *out_profiler = NULL;
  delta_profiler_t *profiler = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &profiler));
  profiler->allocator = allocator;
  profiler->options = *options;
  delta_status_t status = delta_profile_create(options->device, allocator, &profiler->profile);
  if (!status) status = options->path ? delta_profile_read(profiler->profile, options->path, DELTA_PROFILE_STRICT) : open_cache(profiler);
  if (status) {
    delta_profiler_destroy(profiler);
    return status;
  }
  *out_profiler = profiler;
  return DELTA_OK;
}

void delta_profiler_destroy(delta_profiler_t *profiler) {
  if (!profiler) return;
  delta_profile_free(profiler->profile);
  delta_release(profiler->allocator, profiler->cache_path);
  delta_release(profiler->allocator, profiler);
}

void delta_profiler_keep(delta_profiler_t *profiler) {
  if (!profiler->is_changed || !profiler->cache_path) return;
  delta_status_t status = delta_profile_write(profiler->profile, profiler->cache_path);
  if (!status) {
    profiler->is_changed = false;
    return;
  }
  delta_log(profiler->options.log, DELTA_LOG_NOTE, "what was measured is not kept: %s", delta_status_message(status));
  delta_status_free(status);
}

const delta_profile_t *delta_profiler_profile(const delta_profiler_t *profiler) { return profiler ? profiler->profile : NULL; }
double delta_profiler_seconds(const delta_profiler_t *profiler) { return profiler->seconds; }
