// Rows are few, so they are found by looking at all.
#include "runtime/tally.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "onnx/graph/plain_node.h"

void delta_tally_init(delta_tally_t *tally, delta_allocator_t allocator) { *tally = (delta_tally_t){.allocator = allocator}; }

void delta_tally_deinit(delta_tally_t *tally) {
  delta_array_deinit(tally->allocator, &tally->rows);
  if (tally->status) delta_status_free(tally->status);
  *tally = (delta_tally_t){0};
}

// The layout a node's results or operands lie in: the first that is not plain.
static const char *layout_of(const delta_node_t *node) {
  delta_layout_t layout = delta_node_output_layout(node, 0);
  for (uint32_t k = 0; layout == DELTA_LAYOUT_PLAIN && k < node->input_count; ++k) layout = delta_node_input_layout(node, k);
  return delta_layout_name(layout);
}

static delta_tally_row_t *find_row(delta_tally_t *tally, const delta_tally_row_t *wanted) {
  for (size_t i = 0; i < tally->rows.count; ++i) {
    delta_tally_row_t *row = &tally->rows.items[i];
    if (row->op == wanted->op && strcmp(row->kernel, wanted->kernel) == 0 && row->layout == wanted->layout) return row;
  }
  tally->status = delta_array_push(tally->allocator, &tally->rows, wanted);
  return tally->status ? NULL : &tally->rows.items[tally->rows.count - 1];
}

void delta_tally_add(delta_tally_t *tally, const delta_graph_t *graph, const delta_selection_t *selection,
                     const delta_step_event_t *event) {
  if (tally->status || !event->node) return;
  const size_t index = (size_t)(event->node - graph->nodes.items);
  const delta_tally_row_t wanted = {
      .op = delta_core_op_info(event->node->op)->name, .kernel = selection->names[index], .layout = layout_of(event->node)};
  delta_tally_row_t *row = find_row(tally, &wanted);
  if (!row) return;
  ++row->runs;
  row->seconds += event->end_seconds - event->start_seconds;
  row->flops += delta_node_flops(graph, event->node);
  row->bytes += delta_node_bytes(graph, event->node);
}

static int by_seconds(const void *a, const void *b) {
  const double x = ((const delta_tally_row_t *)a)->seconds, y = ((const delta_tally_row_t *)b)->seconds;
  return x < y ? 1 : x > y ? -1 : 0;
}

delta_status_t delta_tally_report(const delta_tally_t *tally, delta_log_sink_t sink) {
  if (tally->status) return delta_status_make(OUT_OF_MEMORY, "the table of times: %s", delta_status_message(tally->status));
  delta_tally_row_t *rows = NULL;
  const size_t count = tally->rows.count;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(tally->allocator, count, &rows));
  double total_seconds = 0;
  for (size_t i = 0; i < count; ++i) {
    rows[i] = tally->rows.items[i];
    total_seconds += rows[i].seconds;
  }
  qsort(rows, count, sizeof *rows, by_seconds);
  delta_log(sink, DELTA_LOG_NOTE, "%-20s %-16s %-14s %8s %10s %6s %9s %8s", "operator", "kernel", "layout", "runs", "seconds", "share",
            "GFLOP/s", "GB/s");
  for (size_t i = 0; i < count; ++i) {
    const delta_tally_row_t *row = &rows[i];
    delta_log(sink, DELTA_LOG_NOTE, "%-20s %-16s %-14s %8llu %10.4f %5.1f%% %9.1f %8.1f", row->op, row->kernel, row->layout,
              (unsigned long long)row->runs, row->seconds, 100 * row->seconds / total_seconds, row->flops / row->seconds / 1e9,
              row->bytes / row->seconds / 1e9);
  }
  delta_release(tally->allocator, rows);
  return DELTA_OK;
}
