// Where a training step's time goes, kernel by kernel as they run in the step: share of the step, bandwidth, and that as a fraction of what a plain copy
// reaches in the same run.
//
//   shares MODEL.plan MODEL.onnx [steps] [least percent shown]
//
// Nodes of the same operator, attributes and shapes are one row. Of each node the fastest of the steps counts, so that what else the machine does counts little.
// Bytes are those of all tensors, each counted once; a copy counts what it reads and what it
// writes. Weights are random when the plan says so; data is zero and labels are the first class.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/text.h"
#include "onnx/graph/graph_write.h"
#include "runtime/cpu/team.h"
#include "runtime/session_parts.h"

enum { COPY_BYTES = 64 << 20, COPY_CHUNK_BYTES = 1 << 20, COPY_RUNS = 25 };

typedef struct share_row {
  char key[DELTA_PROFILE_KEY_BYTES];
  const char *kernel;
  const delta_graph_t *graph;
  const delta_node_t *node;
  uint64_t nodes;
  double seconds, flops, bytes; // of a step
} share_row_t;

typedef struct shares {
  delta_live_program_t *program; // Borrowed.
  DELTA_ARRAY(share_row_t) rows; // Owned.
  delta_map_t keys;              // key -> row
  double *least_seconds;         // Owned; by node; 0: it does not run
  bool counts;
  double seconds; // of a step
} shares_t;

// A node that runs again within a step counts as often, by its fastest run.
static void add_step(void *self, const delta_step_event_t *event) {
  shares_t *shares = self;
  if (!event->node || !shares->counts) return;
  const double seconds = event->end_seconds - event->start_seconds;
  double *least = &shares->least_seconds[event->node - shares->program->parts.graph->nodes.items];
  if (*least == 0 || seconds < *least) *least = seconds;
}

static delta_status_t find_row(shares_t *shares, const share_row_t *row, share_row_t **out_row) {
  uint32_t index = delta_map_find(&shares->keys, row->key);
  if (index == DELTA_MAP_NONE) {
    index = (uint32_t)shares->rows.count;
    DELTA_RETURN_IF_ERROR(delta_array_push(delta_allocator_system(), &shares->rows, row));
    DELTA_RETURN_IF_ERROR(delta_map_set(&shares->keys, row->key, index));
  }
  *out_row = &shares->rows.items[index];
  return DELTA_OK;
}

static delta_status_t add_nodes(shares_t *shares) {
  const delta_program_parts_t *parts = &shares->program->parts;
  for (uint32_t i = 0; i < parts->graph->nodes.count; ++i) {
    share_row_t row = {.graph = parts->graph, .node = &parts->graph->nodes.items[i], .kernel = parts->selection->names[i]}, *found;
    if (shares->least_seconds[i] == 0) continue;
    delta_profile_key(parts->graph, row.node, row.key);
    DELTA_RETURN_IF_ERROR(find_row(shares, &row, &found));
    ++found->nodes;
    found->seconds += shares->least_seconds[i];
    found->flops += delta_node_flops(parts->graph, row.node);
    found->bytes += delta_node_bytes(parts->graph, row.node);
    shares->seconds += shares->least_seconds[i];
  }
  return DELTA_OK;
}

typedef struct copy_work {
  char *to;
  const char *from;
} copy_work_t;

static void copy_chunks(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const copy_work_t *work = context;
  memcpy(work->to + begin * COPY_CHUNK_BYTES, work->from + begin * COPY_CHUNK_BYTES, (size_t)(end - begin) * COPY_CHUNK_BYTES);
}

// Bytes a second, read and written, of the best of some copies by all threads.
static double copy_speed(int32_t threads) {
  char *from = aligned_alloc(COPY_CHUNK_BYTES, COPY_BYTES), *to = aligned_alloc(COPY_CHUNK_BYTES, COPY_BYTES);
  if (!from || !to) abort();
  memset(from, 1, COPY_BYTES);
  memset(to, 2, COPY_BYTES);
  const copy_work_t work = {to, from};
  double least = 1e9;
  for (int run = 0; run < COPY_RUNS; ++run) {
    const double start = delta_clock_seconds();
    delta_team_run(threads, COPY_BYTES / COPY_CHUNK_BYTES, COPY_CHUNK_BYTES, copy_chunks, &work);
    const double seconds = delta_clock_seconds() - start;
    least = seconds < least ? seconds : least;
  }
  free(from);
  free(to);
  return 2.0 * COPY_BYTES / least;
}

static int by_seconds(const void *a, const void *b) {
  const double x = ((const share_row_t *)a)->seconds, y = ((const share_row_t *)b)->seconds;
  return x < y ? 1 : x > y ? -1 : 0;
}

static void write_text(void *self, const char *text, size_t length) {
  (void)self;
  fwrite(text, 1, length, stdout);
}

static void print_tensors(const delta_graph_t *graph, const delta_node_t *node) {
  char text[DELTA_SHAPE_TEXT_BYTES];
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_t *tensor = delta_node_input(graph, node, k);
    if (tensor)
      printf(" %s%s", tensor->dtype == DELTA_DTYPE_FLOAT32 ? "" : delta_dtype_name(tensor->dtype), delta_shape_text(&tensor->shape, text));
  }
  printf(" ->");
  for (uint32_t k = 0; k < node->output_count; ++k) {
    const delta_tensor_t *tensor = delta_node_output(graph, node, k);
    if (tensor)
      printf(" %s%s", tensor->dtype == DELTA_DTYPE_FLOAT32 ? "" : delta_dtype_name(tensor->dtype), delta_shape_text(&tensor->shape, text));
  }
}

static void print_rows(shares_t *shares, double copy, double least_percent) {
  printf("a copy reaches %.1f GB/s; a step's kernels take %.4f s\n", copy / 1e9, shares->seconds);
  printf("%6s %7s %9s %7s %6s %8s  %s\n", "share", "nodes", "ms/step", "GB/s", "copy", "GFLOP/s", "kernel");
  qsort(shares->rows.items, shares->rows.count, sizeof *shares->rows.items, by_seconds);
  for (size_t i = 0; i < shares->rows.count; ++i) {
    const share_row_t *row = &shares->rows.items[i];
    const double percent = 100 * row->seconds / shares->seconds;
    if (percent < least_percent) break;
    printf("%5.1f%% %7llu %9.3f %7.1f %6.2f %8.1f  %s %s", percent, (unsigned long long)row->nodes, 1e3 * row->seconds,
           row->bytes / row->seconds / 1e9, row->bytes / row->seconds / copy, row->flops / row->seconds / 1e9,
           delta_core_op_info(row->node->op)->name, row->kernel);
    print_tensors(row->graph, row->node);
    delta_graph_write_attrs((delta_graph_sink_t){.write = write_text}, row->node);
    printf("\n");
  }
}

// The program's executor, with an observer of its own in place of the session's.
static delta_status_t observe(delta_session_t *session, shares_t *shares) {
  delta_live_program_t *program = shares->program;
  delta_executor_destroy(program->executor);
  program->executor = NULL;
  const delta_executor_options_t options = {.device = session->device,
                                            .graph = program->parts.graph,
                                            .problem = program->parts.problem,
                                            .tensor_of_storage = program->parts.tensor_of_storage,
                                            .selection = program->parts.selection,
                                            .schedule = program->schedule,
                                            .plan = session->plan,
                                            .arena = session->arena,
                                            .state_bytes = session->state_bytes,
                                            .tier = session->tier,
                                            .on_step = add_step,
                                            .self = shares};
  return delta_executor_create(&options, session->allocator, &program->executor);
}

static delta_status_t run_steps(delta_session_t *session, shares_t *shares, int steps) {
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(delta_allocator_system(), shares->program->parts.graph->nodes.count, &shares->least_seconds));
  DELTA_RETURN_IF_ERROR(observe(session, shares));
  const delta_graph_t *graph = shares->program->parts.graph;
  for (size_t i = 0; i < graph->inputs.count; ++i) {
    const delta_tensor_t *tensor = delta_graph_tensor(graph, graph->inputs.items[i]);
    memset(delta_executor_input(shares->program->executor, (uint32_t)i), 0, delta_tensor_bytes(tensor));
  }
  for (int step = 0; step <= steps; ++step) {
    const delta_run_options_t options = {.finite_outputs = {DELTA_INDEX_NONE, DELTA_INDEX_NONE}};
    delta_run_result_t result;
    shares->counts = step > 0;
    DELTA_RETURN_IF_ERROR(delta_executor_run(shares->program->executor, &options, &result));
  }
  return add_nodes(shares);
}

static delta_status_t measure(const char *plan_path, const char *model_path, int steps, double least_percent) {
  const delta_allocator_t allocator = delta_allocator_system();
  delta_session_options_t options;
  delta_plan_t *plan = NULL;
  delta_session_t *session = NULL;
  shares_t shares = {0};
  delta_map_init(&shares.keys, allocator);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_plan_load(plan_path, allocator, &plan), cleanup);
  delta_session_options_init(&options);
  options.plan = plan;
  options.plan_path = plan_path;
  options.model_path = model_path;
  DELTA_GOTO_IF_ERROR(status, delta_session_create(&options, allocator, &session), cleanup);
  shares.program = session->programs.items[0];
  DELTA_GOTO_IF_ERROR(status, run_steps(session, &shares, steps), cleanup);
  print_rows(&shares, copy_speed(session->device->threads), least_percent);
cleanup:
  delta_array_deinit(allocator, &shares.rows);
  delta_release(allocator, shares.least_seconds);
  delta_map_deinit(&shares.keys);
  delta_session_destroy(session);
  delta_plan_free(plan);
  return status;
}

int main(int count, char **arguments) {
  if (count < 3) {
    fprintf(stderr, "usage: %s MODEL.plan MODEL.onnx [steps] [least percent shown]\n", arguments[0]);
    return 2;
  }
  delta_status_t status =
      measure(arguments[1], arguments[2], count > 3 ? atoi(arguments[3]) : 4, count > 4 ? strtod(arguments[4], NULL) : 0.5);
  if (!status) return 0;
  fprintf(stderr, "%s\n", delta_status_message(status));
  delta_status_free(status);
  return 1;
}
