// Layouts: which layout each region of a program's graph lies in, by the costs of all its nodes with conversions counted. Never sees the budget.
#ifndef DELTA_RUNTIME_LAYOUTS_H_
#define DELTA_RUNTIME_LAYOUTS_H_

#include "onnx/graph/relayout.h"
#include "runtime/profiler.h"

// Where the layouts of a program come from.
typedef struct delta_layout_source {
  bool is_given;                 // `layouts` are a plan's
  const delta_layout_t *layouts; // one per region
  uint32_t count;
  bool is_forced; // every region lies in `forced` (experiments)
  delta_layout_t forced;
} delta_layout_source_t;

// Costs come from the profiler, which measures what it lacks; NULL: estimates. Takes over *inout_graph: it is replaced by the graph in its layouts, or left as it is when all regions are plain. MISMATCH when given layouts are not
// those of its regions.
DELTA_MUST_USE delta_status_t delta_layouts_apply(delta_device_t *device, const delta_layout_source_t *source, delta_profiler_t *profiler,
                                                  delta_allocator_t allocator, delta_graph_t **inout_graph, delta_layout_t **out_layouts,
                                                  uint32_t *out_count);

#endif // DELTA_RUNTIME_LAYOUTS_H_
