// Where a training step's time goes, kernel by kernel as they run in the step: share of the step, bandwidth, and that as a part of a plain copy's.
//
//   shares MODEL.plan MODEL.onnx [steps] [least percent shown]
//
// Nodes of the same operator, attributes and shapes are one row. Of each node the fastest of the steps counts, so that what else the machine does counts little.
// Bytes are those of all tensors, each counted once; a copy counts what it reads and what it writes. Weights and data are random, labels are the first class.
//
// Note [The copy to compare with]
// How fast memory is copied depends on where it stands. A weight gradient of some megabytes is in a cache when the update reads it, and a copy from there is
// several times as fast as one from memory; it is slower than that where the threads' processors have no cache in common, as those of a virtual machine may at
// one time and not at another. So each kernel is compared with a copy in its place: after every step that is measured comes one in which, before each kernel,
// its inputs are copied to its outputs by the same threads: half as many bytes as the kernel moves, each read and written. An output that stands where an input
// does is read and written in place instead, and so is what has no counterpart, as the inputs of sums. Of a node the fastest copy counts, of as many as there are
// steps, made in several ways by turns. Between the steps memory that no cache holds is copied, as much as a large program has: the speed of memcpy there counts,
// the plain copy of a program; those of other ways are printed beside it. Of the two copies the slower one is the measure: a kernel whose data stands in a cache
// is not asked to be faster than memory, and one whose data comes slower than from memory cannot be. The time in which two threads exchange a cache line tells
// whether their processors share a cache: some 30 ns where they do, beyond 100 where they do not. Steps of both kinds in one run are better run again.
//
// A row is bound by memory where that copy takes longer than its operations would at the speed of the fastest product; then "of copy" is what it is to be
// judged by. An operation of an expression counts as two, since it takes the place of a multiply-add; divisions and functions count as in `weights`.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/text.h"
#include "bench/copies.h"
#include "onnx/graph/graph_write.h"
#include "onnx/graph/virtual.h"
#include "runtime/executor_parts.h"
#include "runtime/session_parts.h"

enum { POOL_BYTES = 1 << 30, PIECE_BYTES = 16 << 20, PIECES = POOL_BYTES / 2 / PIECE_BYTES, NEAR_BYTES = 1 << 20, NEAR_RUNS = 50 };
enum { MOST_SPANS = 64, EXCHANGES = 200, EXCHANGE_ROUNDS = 20, SLICES = 32 };

// A row above so many percent of a step is to reach this part of a copy.
static const double judged_percent = 1, wanted_part = 0.6;

typedef struct share_row {
  char *label; // Owned.
  const delta_node_t *node;
  bool is_ours; // the kernel, not oneDNN's
  uint64_t nodes;
  double seconds, copy_seconds, flops, bytes; // of a step
} share_row_t;

// What a node took.
typedef struct share_times {
  double seconds, copy_seconds; // the least; 0: it did not run
} share_times_t;

// Copies that do not depend on the program.
typedef struct share_memory {
  delta_arena_t *pool;                                                          // Owned; the memory is placed as programs' is
  bench_copy_t pieces[PIECES], near;                                            // Owned.
  double piece_seconds[BENCH_WAY_COUNT][PIECES], near_seconds[BENCH_WAY_COUNT]; // the least
  double least_exchange_seconds, most_exchange_seconds; // of a cache line between two threads, over the steps; 0: there is one
} share_memory_t;

typedef struct shares {
  delta_session_t *session;      // Borrowed.
  delta_live_program_t *program; // Borrowed.
  DELTA_ARRAY(share_row_t) rows; // Owned.
  delta_map_t keys;              // label -> row
  share_times_t *times;          // Owned; by node
  bench_copy_t copy;             // Owned; that of the node at hand
  delta_status_t status;         // Owned; of what happened within a step
  enum { SHARES_WARM, SHARES_TIME, SHARES_COPY } pass;
  share_memory_t memory;
  double seconds, ours_seconds; // of a step
  double flops_per_second;      // of the fastest product
} shares_t;

// ---- Copies in a kernel's place

typedef struct share_spans {
  struct {
    char *at;
    size_t size_bytes;
  } items[MOST_SPANS];
  uint32_t count, next;
} share_spans_t;

static void add_span(share_spans_t *spans, const void *at, const delta_tensor_t *tensor) {
  const size_t size_bytes = delta_tensor_bytes(tensor) / BENCH_LINE_BYTES * BENCH_LINE_BYTES;
  if (!at || size_bytes == 0 || spans->count == MOST_SPANS) return;
  spans->items[spans->count].at = (char *)at;
  spans->items[spans->count++].size_bytes = size_bytes;
}

static bool overlaps(const share_spans_t *spans, const char *at, size_t size_bytes) {
  for (uint32_t i = 0; i < spans->count; ++i)
    if (at < spans->items[i].at + spans->items[i].size_bytes && spans->items[i].at < at + size_bytes) return true;
  return false;
}

static void list_spans(const delta_graph_t *graph, const delta_prepared_step_t *step, share_spans_t *inputs, share_spans_t *outputs) {
  const delta_node_t *node = step->node;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_node_t *parts = delta_virtual_node(graph, node->inputs[k]);
    for (uint32_t p = 0; parts && p < parts->input_count; ++p)
      add_span(inputs, ((const void *const *)step->buffers.inputs[k])[p], delta_node_input(graph, parts, p));
    if (!parts && delta_node_input(graph, node, k)) add_span(inputs, step->buffers.inputs[k], delta_node_input(graph, node, k));
  }
  for (uint32_t k = 0; k < node->output_count; ++k) {
    const delta_tensor_t *tensor = delta_node_output(graph, node, k);
    if (tensor && !overlaps(inputs, step->buffers.outputs[k], delta_tensor_bytes(tensor)))
      add_span(outputs, step->buffers.outputs[k], tensor);
  }
}

static size_t first_bytes(share_spans_t *spans, char **out_at) {
  while (spans->next < spans->count && spans->items[spans->next].size_bytes == 0) ++spans->next;
  *out_at = spans->next < spans->count ? spans->items[spans->next].at : NULL;
  return *out_at ? spans->items[spans->next].size_bytes : 0;
}

static void drop_bytes(share_spans_t *spans, size_t size_bytes) {
  spans->items[spans->next].at += size_bytes;
  spans->items[spans->next].size_bytes -= size_bytes;
}

static double sum_bytes(const share_spans_t *spans) {
  double sum = 0;
  for (uint32_t i = 0; i < spans->count; ++i) sum += (double)spans->items[i].size_bytes;
  return sum;
}

// Lines of a slice of the first `part` of each span.
static share_spans_t slice_of(const share_spans_t *spans, double part, int slice) {
  share_spans_t result = {.count = spans->count};
  for (uint32_t i = 0; i < spans->count; ++i) {
    const double lines = part * (double)(spans->items[i].size_bytes / BENCH_LINE_BYTES);
    const size_t first = (size_t)(lines * slice / SLICES), end = (size_t)(lines * (slice + 1) / SLICES);
    result.items[i].at = spans->items[i].at + first * BENCH_LINE_BYTES;
    result.items[i].size_bytes = (end - first) * BENCH_LINE_BYTES;
  }
  return result;
}

// Inputs onto outputs as long as there are both, then in place what is left of either.
static delta_status_t list_slice(share_spans_t *inputs, share_spans_t *outputs, bench_copy_t *copy) {
  for (;;) {
    char *from, *to;
    const size_t from_bytes = first_bytes(inputs, &from), to_bytes = first_bytes(outputs, &to);
    if (from_bytes == 0 && to_bytes == 0) return DELTA_OK;
    const size_t size_bytes = from_bytes == 0 || (to_bytes > 0 && to_bytes < from_bytes) ? to_bytes : from_bytes;
    DELTA_RETURN_IF_ERROR(bench_add_jobs(copy, to_bytes > 0 ? to : from, from_bytes > 0 ? from : to, size_bytes));
    if (from_bytes > 0) drop_bytes(inputs, size_bytes);
    if (to_bytes > 0) drop_bytes(outputs, size_bytes);
  }
}

// As much of each tensor, slice after slice, so that threads share it as they share the kernel's elements.
static delta_status_t list_copy(const delta_graph_t *graph, const delta_prepared_step_t *step, bench_copy_t *copy) {
  share_spans_t inputs = {.count = 0}, outputs = {.count = 0};
  list_spans(graph, step, &inputs, &outputs);
  const double copied_bytes = delta_node_bytes(graph, step->node) / 2, input_bytes = sum_bytes(&inputs), output_bytes = sum_bytes(&outputs);
  copy->jobs.count = 0;
  for (int slice = 0; slice < SLICES; ++slice) {
    share_spans_t from = slice_of(&inputs, input_bytes > copied_bytes ? copied_bytes / input_bytes : 1, slice);
    share_spans_t to = slice_of(&outputs, output_bytes > copied_bytes ? copied_bytes / output_bytes : 1, slice);
    DELTA_RETURN_IF_ERROR(list_slice(&from, &to, copy));
  }
  return DELTA_OK;
}

static void keep_least(double *least, double seconds) {
  if (*least == 0 || seconds < *least) *least = seconds;
}

// Before the step at `index`.
static delta_status_t copy_before(shares_t *shares, uint32_t index) {
  const delta_executor_t *executor = shares->program->executor;
  if (index >= shares->program->schedule->step_count || !executor->steps[index].node) return DELTA_OK;
  const delta_prepared_step_t *step = &executor->steps[index];
  DELTA_RETURN_IF_ERROR(list_copy(executor->options.graph, step, &shares->copy));
  keep_least(&shares->times[step->node - executor->options.graph->nodes.items].copy_seconds,
             bench_copy_seconds(&shares->copy, shares->session->device->threads));
  return DELTA_OK;
}

// A node that runs again within a step counts as often, by its fastest run.
static void after_step(void *self, const delta_step_event_t *event) {
  shares_t *shares = self;
  if (event->node && shares->pass == SHARES_TIME)
    keep_least(&shares->times[event->node - shares->program->parts.graph->nodes.items].seconds, event->end_seconds - event->start_seconds);
  if (shares->pass == SHARES_COPY && !shares->status) shares->status = copy_before(shares, event->step + 1);
}

// ---- Copies of other memory

static delta_status_t make_memory(shares_t *shares) {
  share_memory_t *memory = &shares->memory;
  delta_device_t *device = shares->session->device;
  DELTA_RETURN_IF_ERROR(device->driver->arena_reserve(device, POOL_BYTES, &memory->pool));
  DELTA_RETURN_IF_ERROR(device->driver->arena_commit(memory->pool, POOL_BYTES));
  char *from = device->driver->arena_address(memory->pool, 0), *to = from + POOL_BYTES / 2;
  memset(from, 1, POOL_BYTES);
  DELTA_RETURN_IF_ERROR(bench_add_jobs(&memory->near, to, from, NEAR_BYTES));
  for (size_t i = 0; i < PIECES; ++i)
    DELTA_RETURN_IF_ERROR(bench_add_jobs(&memory->pieces[i], to + i * PIECE_BYTES, from + i * PIECE_BYTES, PIECE_BYTES));
  return DELTA_OK;
}

static void free_memory(shares_t *shares) {
  share_memory_t *memory = &shares->memory;
  if (memory->pool) shares->session->device->driver->arena_destroy(memory->pool);
  delta_array_deinit(delta_allocator_system(), &memory->near.jobs);
  for (size_t i = 0; i < PIECES; ++i) delta_array_deinit(delta_allocator_system(), &memory->pieces[i].jobs);
}

static atomic_int exchange_turn;

// Items are the two threads of an exchange.
static void exchange_line(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  for (int i = 0; i < EXCHANGES && begin + 1 == end; ++i) {
    while (atomic_load_explicit(&exchange_turn, memory_order_acquire) != (int)begin) continue;
    atomic_store_explicit(&exchange_turn, 1 - (int)begin, memory_order_release);
  }
  (void)context;
}

static double exchange_seconds(int32_t threads) {
  double least = 0;
  for (int round = 0; round < EXCHANGE_ROUNDS && threads > 1; ++round) {
    const double start = delta_clock_seconds();
    delta_team_run(2, 2, DELTA_TEAM_LEAST_BYTES, exchange_line, NULL);
    keep_least(&least, (delta_clock_seconds() - start) / (2 * EXCHANGES));
  }
  return least;
}

static void time_memory(shares_t *shares) {
  share_memory_t *memory = &shares->memory;
  const int32_t threads = shares->session->device->threads;
  for (int way = 0; way < BENCH_WAY_COUNT; ++way) {
    for (size_t i = 0; i < PIECES; ++i) {
      memory->pieces[i].way = (bench_way_t)way;
      keep_least(&memory->piece_seconds[way][i], bench_copy_seconds(&memory->pieces[i], threads));
    }
    memory->near.way = (bench_way_t)way;
    for (int run = 0; run < NEAR_RUNS; ++run) keep_least(&memory->near_seconds[way], bench_copy_seconds(&memory->near, threads));
  }
  const double seconds = exchange_seconds(threads);
  keep_least(&memory->least_exchange_seconds, seconds);
  if (seconds > memory->most_exchange_seconds) memory->most_exchange_seconds = seconds;
}

static double far_speed(const share_memory_t *memory, bench_way_t way) {
  double seconds = 0;
  for (size_t i = 0; i < PIECES; ++i) seconds += memory->piece_seconds[way][i];
  return (double)POOL_BYTES / seconds;
}

// ---- Rows

// What an instruction of an expression counts as, where that is not two: for a vector, as many instructions as take the place of multiply-adds.
static const double weights[DELTA_EXPR_OP_COUNT] = {
    [DELTA_EXPR_DIV] = 20, [DELTA_EXPR_SQRT] = 20,  [DELTA_EXPR_RECIPROCAL] = 20, [DELTA_EXPR_EXP] = 72,   [DELTA_EXPR_EXPM1] = 90,
    [DELTA_EXPR_LOG] = 90, [DELTA_EXPR_LOG1P] = 90, [DELTA_EXPR_ERF] = 150,       [DELTA_EXPR_TANH] = 110, [DELTA_EXPR_SIGMOID] = 90,
};
// A value is widened to float64 in two halves, and each is added.
static const double sum_weight = 10, moments_weight = 18;
// Ten rounds of a generator for every four words, and a division in float64.
static const double dropout_weight = 100;

// Of all elements of a space; what does not vary from one to the next is computed once.
static double expression_flops(const delta_graph_t *graph, const delta_node_t *node, const delta_expr_t *expr, const delta_shape_t *shape) {
  bool varies[DELTA_EXPR_MAX_INSTRS] = {false};
  double flops = 0;
  for (uint16_t i = 0; i < expr->instr_count; ++i) {
    const delta_expr_instr_t *instr = &expr->instrs[i];
    if (instr->op == DELTA_EXPR_INPUT) {
      varies[i] = delta_shape_count(&delta_node_input(graph, node, instr->operands[0])->shape) == delta_shape_count(shape);
      continue;
    }
    for (int k = 0; k < delta_expr_op_info((delta_expr_op_t)instr->op)->arity; ++k) varies[i] |= varies[instr->operands[k]];
    if (varies[i]) flops += weights[instr->op] > 0 ? weights[instr->op] : 2;
  }
  return flops * (double)delta_shape_count(shape);
}

static double node_flops(const delta_graph_t *graph, const delta_node_t *node) {
  switch (node->op) {
    case DELTA_CORE_POINTWISE: {
      const delta_pointwise_attrs_t *attrs = node->attrs;
      return expression_flops(graph, node, &attrs->expr, &attrs->shape);
    }
    case DELTA_CORE_REDUCE: {
      const delta_reduce_attrs_t *attrs = node->attrs;
      return expression_flops(graph, node, &attrs->expr, &attrs->shape) +
             sum_weight * attrs->expr.output_count * (double)delta_shape_count(&attrs->shape);
    }
    case DELTA_CORE_MOMENTS:
      return moments_weight * (double)delta_shape_count(&delta_node_input(graph, node, 0)->shape);
    case DELTA_CORE_DROPOUT:
      return dropout_weight * (double)delta_shape_count(&delta_node_input(graph, node, 0)->shape);
    default:
      return delta_node_flops(graph, node);
  }
}

typedef struct label_writer {
  delta_text_t text;
  delta_status_t status; // Owned.
} label_writer_t;

static void write_label(void *self, const char *text, size_t length) {
  label_writer_t *writer = self;
  if (!writer->status) writer->status = delta_text_append(&writer->text, "%.*s", (int)length, text);
}

static void write_tensor(label_writer_t *writer, const delta_tensor_t *tensor) {
  char text[DELTA_SHAPE_TEXT_BYTES];
  if (!tensor) return;
  write_label(writer, " ", 1);
  if (tensor->dtype != DELTA_DTYPE_FLOAT32) write_label(writer, delta_dtype_name(tensor->dtype), strlen(delta_dtype_name(tensor->dtype)));
  delta_shape_text(&tensor->shape, text);
  write_label(writer, text, strlen(text));
}

// Nodes that draw other random numbers are alike.
static void hide_stream(char *label) {
  char *stream = strstr(label, " stream=");
  if (!stream) return;
  const size_t length = 1 + strcspn(stream + 1, " ");
  memmove(stream, stream + length, strlen(stream + length) + 1);
}

// Operator, kernel, tensors and attributes.
static delta_status_t make_label(const delta_graph_t *graph, const delta_node_t *node, const char *kernel, char **out_label) {
  label_writer_t writer = {.status = DELTA_OK};
  delta_text_init(&writer.text, delta_allocator_system());
  writer.status = delta_text_append(&writer.text, "%s %s", delta_core_op_info(node->op)->name, kernel);
  for (uint32_t k = 0; k < node->input_count; ++k) write_tensor(&writer, delta_node_input(graph, node, k));
  write_label(&writer, " ->", 3);
  for (uint32_t k = 0; k < node->output_count; ++k) write_tensor(&writer, delta_node_output(graph, node, k));
  delta_graph_write_attrs((delta_graph_sink_t){.self = &writer, .write = write_label}, node);
  if (writer.status) {
    delta_text_deinit(&writer.text);
    return writer.status;
  }
  hide_stream(writer.text.items);
  *out_label = writer.text.items;
  return DELTA_OK;
}

// Takes the row's label.
static delta_status_t find_row(shares_t *shares, share_row_t *row, share_row_t **out_row) {
  uint32_t index = delta_map_find(&shares->keys, row->label);
  delta_status_t status = DELTA_OK;
  if (index == DELTA_MAP_NONE) {
    index = (uint32_t)shares->rows.count;
    DELTA_GOTO_IF_ERROR(status, delta_map_set(&shares->keys, row->label, index), cleanup);
    DELTA_GOTO_IF_ERROR(status, delta_array_push(delta_allocator_system(), &shares->rows, row), cleanup);
    row->label = NULL;
  }
  *out_row = &shares->rows.items[index];
cleanup:
  delta_release(delta_allocator_system(), row->label);
  return status;
}

static delta_status_t add_nodes(shares_t *shares) {
  const delta_program_parts_t *parts = &shares->program->parts;
  for (uint32_t i = 0; i < parts->graph->nodes.count; ++i) {
    const char *kernel = parts->selection->names[i];
    const share_times_t *times = &shares->times[i];
    if (times->seconds == 0) continue;
    share_row_t row = {.node = &parts->graph->nodes.items[i], .is_ours = strncmp(kernel, "onednn", strlen("onednn")) != 0}, *found;
    DELTA_RETURN_IF_ERROR(make_label(parts->graph, row.node, kernel, &row.label));
    DELTA_RETURN_IF_ERROR(find_row(shares, &row, &found));
    const double product_speed = delta_node_flops(parts->graph, found->node) / times->seconds;
    if (product_speed > shares->flops_per_second) shares->flops_per_second = product_speed;
    ++found->nodes;
    found->seconds += times->seconds;
    found->copy_seconds += times->copy_seconds;
    found->flops += node_flops(parts->graph, found->node);
    found->bytes += delta_node_bytes(parts->graph, found->node);
    shares->seconds += times->seconds;
    if (found->is_ours) shares->ours_seconds += times->seconds;
  }
  return DELTA_OK;
}

// ---- The table

static int by_seconds(const void *a, const void *b) {
  const double x = ((const share_row_t *)a)->seconds, y = ((const share_row_t *)b)->seconds;
  return x < y ? 1 : x > y ? -1 : 0;
}

// Of the copy to compare with: Note [The copy to compare with].
static double copy_seconds(const shares_t *shares, const share_row_t *row) {
  const double far_seconds = row->bytes / far_speed(&shares->memory, BENCH_MEMCPY);
  return row->copy_seconds > far_seconds ? row->copy_seconds : far_seconds;
}

static bool is_memory_bound(const shares_t *shares, const share_row_t *row) {
  return copy_seconds(shares, row) > row->flops / shares->flops_per_second;
}

static void print_head(const shares_t *shares) {
  const share_memory_t *memory = &shares->memory;
  printf("a step's kernels take %.4f s, %.1f %% of it in kernels of our own; the fastest product reaches %.1f GFLOP/s\n", shares->seconds,
         100 * shares->ours_seconds / shares->seconds, shares->flops_per_second / 1e9);
  static const char *const ways[BENCH_WAY_COUNT] = {"memcpy", "stores", "stores around the caches"};
  printf("GB/s of copies of %d MiB that no cache holds, and of %d KiB that one holds:", POOL_BYTES / 2 >> 20, NEAR_BYTES >> 10);
  for (int way = 0; way < BENCH_WAY_COUNT; ++way)
    printf(" %s %.1f, %.1f%s", ways[way], far_speed(memory, (bench_way_t)way) / 1e9, 2.0 * NEAR_BYTES / memory->near_seconds[way] / 1e9,
           way + 1 < BENCH_WAY_COUNT ? ";" : "");
  if (memory->most_exchange_seconds > 0)
    printf("\ntwo threads exchange a cache line in %.0f to %.0f ns", 1e9 * memory->least_exchange_seconds,
           1e9 * memory->most_exchange_seconds);
  printf("\n%6s %6s %9s %7s %8s %7s %7s  %-7s %s\n", "share", "nodes", "ms/step", "GB/s", "a copy's", "of copy", "GFLOP/s", "bound",
         "kernel");
}

static void print_rows(shares_t *shares, double least_percent) {
  int judged[2] = {0}, below[2] = {0}; // of the library, of our own
  print_head(shares);
  qsort(shares->rows.items, shares->rows.count, sizeof *shares->rows.items, by_seconds);
  for (size_t i = 0; i < shares->rows.count; ++i) {
    const share_row_t *row = &shares->rows.items[i];
    const double percent = 100 * row->seconds / shares->seconds, part = copy_seconds(shares, row) / row->seconds;
    const bool is_judged = percent >= judged_percent && is_memory_bound(shares, row), is_below = is_judged && part < wanted_part;
    judged[row->is_ours] += is_judged;
    below[row->is_ours] += is_below;
    if (percent < least_percent) continue;
    printf("%5.1f%% %6llu %9.3f %7.1f %8.1f %6.2f%s %7.1f  %-7s %s\n", percent, (unsigned long long)row->nodes, 1e3 * row->seconds,
           row->bytes / row->seconds / 1e9, row->bytes / row->copy_seconds / 1e9, part, is_below ? "<" : " ",
           row->flops / row->seconds / 1e9, is_memory_bound(shares, row) ? "memory" : "compute", row->label);
  }
  printf("bound by memory and above %g %%: %d kernels of our own, %d of them below %g of a copy; %d of oneDNN, %d of them below\n",
         judged_percent, judged[true], below[true], wanted_part, judged[false], below[false]);
}

// ---- The steps

// The program's executor, with an observer of its own in place of the session's.
static delta_status_t observe(shares_t *shares) {
  delta_live_program_t *program = shares->program;
  delta_session_t *session = shares->session;
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
                                            .on_step = after_step,
                                            .self = shares};
  return delta_executor_create(&options, session->allocator, &program->executor);
}

static delta_status_t run_step(shares_t *shares) {
  const delta_run_options_t options = {.finite_outputs = {DELTA_INDEX_NONE, DELTA_INDEX_NONE}};
  delta_run_result_t result;
  DELTA_RETURN_IF_ERROR(delta_executor_run(shares->program->executor, &options, &result));
  const delta_status_t status = shares->status;
  shares->status = DELTA_OK;
  return status;
}

// Numbers between -1 and 1; indices and labels are 0.
static void fill_input(const delta_tensor_t *tensor, void *data) {
  memset(data, 0, delta_tensor_bytes(tensor));
  float *values = data;
  uint32_t state = 1;
  for (int64_t i = 0; tensor->dtype == DELTA_DTYPE_FLOAT32 && i < delta_shape_count(&tensor->shape); ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = (float)(int32_t)state * 0x1p-31f;
  }
}

// A step to warm up; then by turns one that is measured and one with copies.
static delta_status_t run_steps(shares_t *shares, int steps) {
  const delta_graph_t *graph = shares->program->parts.graph;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(delta_allocator_system(), graph->nodes.count, &shares->times));
  DELTA_RETURN_IF_ERROR(observe(shares));
  DELTA_RETURN_IF_ERROR(make_memory(shares));
  for (size_t i = 0; i < graph->inputs.count; ++i)
    fill_input(delta_graph_tensor(graph, graph->inputs.items[i]), delta_executor_input(shares->program->executor, (uint32_t)i));
  DELTA_RETURN_IF_ERROR(run_step(shares));
  for (int step = 0; step < steps; ++step) {
    shares->pass = SHARES_TIME;
    DELTA_RETURN_IF_ERROR(run_step(shares));
    shares->pass = SHARES_COPY;
    shares->copy.way = (bench_way_t)(step % BENCH_WAY_COUNT);
    DELTA_RETURN_IF_ERROR(run_step(shares));
    time_memory(shares);
  }
  return add_nodes(shares);
}

static delta_status_t measure(const char *plan_path, const char *model_path, int steps, double least_percent) {
  const delta_allocator_t allocator = delta_allocator_system();
  delta_session_options_t options;
  delta_plan_t *plan = NULL;
  shares_t shares = {.pass = SHARES_WARM};
  delta_map_init(&shares.keys, allocator);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_plan_load(plan_path, allocator, &plan), cleanup);
  delta_session_options_init(&options);
  options.plan = plan;
  options.plan_path = plan_path;
  options.model_path = model_path;
  DELTA_GOTO_IF_ERROR(status, delta_session_create(&options, allocator, &shares.session), cleanup);
  shares.program = shares.session->programs.items[0];
  DELTA_GOTO_IF_ERROR(status, run_steps(&shares, steps), cleanup);
  print_rows(&shares, least_percent);
cleanup:
  for (size_t i = 0; i < shares.rows.count; ++i) delta_release(allocator, shares.rows.items[i].label);
  delta_array_deinit(allocator, &shares.rows);
  delta_array_deinit(allocator, &shares.copy.jobs);
  delta_release(allocator, shares.times);
  delta_map_deinit(&shares.keys);
  free_memory(&shares);
  delta_session_destroy(shares.session);
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
