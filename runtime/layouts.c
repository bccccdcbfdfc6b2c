// Every candidate layout is tried for all regions at once; each region then takes the one its nodes are fastest in.
#include "runtime/layouts.h"

#include <string.h>

#include "runtime/select.h"

// Layouts worth trying with an instruction set: the plain one, and those whose blocks fit the vectors. The last `spare` come in only where channels do not
// come in whole blocks of the first.
typedef struct layout_candidates {
  const char *instruction_set; // or how it begins
  delta_layout_t layouts[DELTA_LAYOUT_COUNT];
  uint32_t count, spare;
} layout_candidates_t;

static const layout_candidates_t candidate_rows[] = {
    {"avx512", {DELTA_LAYOUT_BLOCKED_16, DELTA_LAYOUT_CHANNELS_LAST, DELTA_LAYOUT_PLAIN, DELTA_LAYOUT_BLOCKED_8}, 4, 1},
    {"avx2", {DELTA_LAYOUT_BLOCKED_8, DELTA_LAYOUT_CHANNELS_LAST, DELTA_LAYOUT_PLAIN}, 3, 0},
    {"sm_", {DELTA_LAYOUT_PLAIN}, 1, 0},
    {"", {DELTA_LAYOUT_BLOCKED_8, DELTA_LAYOUT_CHANNELS_LAST, DELTA_LAYOUT_PLAIN}, 3, 0},
};

// A roofline alone does not tell layouts apart.
static const layout_candidates_t plain_row = {"", {DELTA_LAYOUT_PLAIN}, 1, 0};

static const layout_candidates_t *candidates_of(const delta_device_t *device) {
  if (device->profile && device->profile->entries.count == 0) return &plain_row;
  const layout_candidates_t *row = candidate_rows;
  while (strncmp(row->instruction_set, device->instruction_set, strlen(row->instruction_set)) != 0) ++row;
  return row;
}

// What one call works on.
typedef struct layout_choice {
  delta_device_t *device;
  const delta_graph_t *graph;
  const delta_layout_regions_t *regions;
  delta_profiler_t *profiler;
  delta_allocator_t allocator;
} layout_choice_t;

// The program with all regions in one layout.
typedef struct layout_candidate {
  delta_graph_t *graph;     // Owned.
  uint32_t *region_of_node; // Owned.
} layout_candidate_t;

static delta_status_t make_candidate(const layout_choice_t *choice, delta_layout_t layout, layout_candidate_t *candidate) {
  delta_layout_t *layouts = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(choice->allocator, choice->regions->count, &layouts));
  for (uint32_t r = 0; r < choice->regions->count; ++r) layouts[r] = layout;
  delta_status_t status =
      delta_graph_relayout(choice->graph, choice->regions, layouts, choice->allocator, &candidate->graph, &candidate->region_of_node);
  delta_release(choice->allocator, layouts);
  return status;
}

// What the nodes of each region take.
static void cost_regions(const layout_choice_t *choice, const layout_candidate_t *candidate, double *seconds) {
  for (uint32_t r = 0; r < choice->regions->count; ++r) seconds[r] = 0;
  for (uint32_t i = 0; i < candidate->graph->nodes.count; ++i) {
    const uint32_t region = candidate->region_of_node[i];
    if (region == DELTA_INDEX_NONE) continue;
    seconds[region] += delta_node_seconds(choice->device, candidate->graph, (delta_node_id_t){i}, delta_profiler_profile(choice->profiler));
  }
}

// Whether results of regions lie in smaller blocks and not in larger ones.
static bool wants_smaller_blocks(const layout_choice_t *choice, delta_layout_t large, delta_layout_t small) {
  for (uint32_t i = 0; i < choice->graph->nodes.count; ++i) {
    const delta_tensor_t *tensor = delta_node_output(choice->graph, &choice->graph->nodes.items[i], 0);
    if (choice->regions->of_node[i] == DELTA_INDEX_NONE || !tensor) continue;
    if (delta_layout_fits(small, &tensor->shape) && !delta_layout_fits(large, &tensor->shape)) return true;
  }
  return false;
}

static uint32_t candidate_count(const layout_choice_t *choice, const layout_candidates_t *row) {
  uint32_t count = row->count - row->spare;
  for (uint32_t c = count; c < row->count; ++c) count += wants_smaller_blocks(choice, row->layouts[0], row->layouts[c]);
  return count;
}

// Candidates come in the order of preference: a later one must be faster to be taken.
static delta_status_t choose_layouts(const layout_choice_t *choice, delta_layout_t *layouts) {
  const layout_candidates_t *row = candidates_of(choice->device);
  const uint32_t count = choice->regions->count, tried = candidate_count(choice, row);
  layout_candidate_t candidates[DELTA_LAYOUT_COUNT] = {0};
  const delta_graph_t *graphs[DELTA_LAYOUT_COUNT];
  double *best = NULL, *seconds;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(choice->allocator, 2 * (size_t)count, &best), cleanup);
  seconds = best + count;
  for (uint32_t c = 0; c < tried; ++c) {
    DELTA_GOTO_IF_ERROR(status, make_candidate(choice, row->layouts[c], &candidates[c]), cleanup);
    graphs[c] = candidates[c].graph;
  }
  if (choice->profiler) DELTA_GOTO_IF_ERROR(status, delta_profiler_measure(choice->profiler, graphs, tried), cleanup);
  for (uint32_t c = 0; c < tried; ++c) {
    cost_regions(choice, &candidates[c], seconds);
    for (uint32_t r = 0; r < count; ++r) {
      if (c > 0 && seconds[r] >= best[r]) continue;
      best[r] = seconds[r];
      layouts[r] = row->layouts[c];
    }
  }
cleanup:
  for (uint32_t c = 0; c < tried; ++c) {
    delta_release(choice->allocator, candidates[c].region_of_node);
    delta_graph_free(candidates[c].graph);
  }
  delta_release(choice->allocator, best);
  return status;
}

static delta_status_t take_layouts(const delta_layout_source_t *source, uint32_t count, delta_layout_t *layouts) {
  if (source->is_given && source->count != count)
    return delta_status_make(MISMATCH, "the plan gives %u regions a layout, the graph has %u: make a new plan with deltaplan",
                             source->count, count);
  for (uint32_t r = 0; r < count; ++r) layouts[r] = source->is_given ? source->layouts[r] : source->forced;
  return DELTA_OK;
}

static bool all_plain(const delta_layout_t *layouts, uint32_t count) {
  for (uint32_t r = 0; r < count; ++r) {
    if (layouts[r] != DELTA_LAYOUT_PLAIN) return false;
  }
  return true;
}

delta_status_t delta_layouts_apply(delta_device_t *device, const delta_layout_source_t *source, delta_profiler_t *profiler,
                                   delta_allocator_t allocator, delta_graph_t **inout_graph, delta_layout_t **out_layouts,
                                   uint32_t *out_count) {
  *out_layouts = NULL;
  *out_count = 0;
  delta_layout_regions_t regions;
  delta_layout_t *layouts = NULL;
  delta_graph_t *laid = NULL;
  DELTA_RETURN_IF_ERROR(delta_layout_regions_init(*inout_graph, allocator, &regions));
  const layout_choice_t choice = {device, *inout_graph, &regions, profiler, allocator};
  const bool is_chosen = !source->is_given && !source->is_forced && regions.count > 0;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, regions.count, &layouts), cleanup);
  DELTA_GOTO_IF_ERROR(status, is_chosen ? choose_layouts(&choice, layouts) : take_layouts(source, regions.count, layouts), cleanup);
  if (!all_plain(layouts, regions.count)) {
    DELTA_GOTO_IF_ERROR(status, delta_graph_relayout(*inout_graph, &regions, layouts, allocator, &laid, NULL), cleanup);
    delta_graph_free(*inout_graph);
    *inout_graph = laid;
  }
  *out_layouts = layouts;
  *out_count = regions.count;
  layouts = NULL;
cleanup:
  delta_release(allocator, layouts);
  delta_layout_regions_deinit(&regions);
  return status;
}
