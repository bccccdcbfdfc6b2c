// Joining siblings: nodes over one shape of which one reads only what the other reads.
//
// The joined node stands where the first stands if all that the second reads exists there; else where the second stands if nothing before that reads the first's outputs; else
// where the first stands, if the small things that the second reads can be made before it. Everything else keeps its order, so no cycle can arise.
#include "onnx/graph/fuse_state.h"

// How far apart nodes may stand whose outputs are as large as their inputs: an output made earlier than needed is kept longer.
enum { DISTANCE_MAX = 16 };

// What has no more than this part of the elements that a node runs over is small.
enum { SMALL_PARTS = 8 };

// The latest few living nodes that read a tensor.
enum { RECENT_COUNT = 4 };
typedef struct recent_nodes {
  uint32_t nodes[RECENT_COUNT];
  uint32_t count; // of all ever noted
} recent_nodes_t;

static void note_recent(recent_nodes_t *recent, uint32_t node) { recent->nodes[recent->count++ % RECENT_COUNT] = node; }

static void note_inputs(recent_nodes_t *recent, const delta_fuse_form_t *form, uint32_t node) {
  for (uint16_t k = 0; k < form->expr.input_count; ++k) note_recent(&recent[form->inputs[k].index], node);
}

// An input that costs next to nothing to read beside what the node runs over: a statistic, a scale.
static bool is_small(const delta_fuse_t *fuse, const delta_fuse_form_t *form, delta_tensor_id_t input) {
  return delta_shape_count(&delta_graph_tensor(fuse->graph, input)->shape) <= delta_shape_count(&form->shape) / SMALL_PARTS;
}

// Whether one node reads all that another does, but for what is small.
static bool reads_all_of(const delta_fuse_t *fuse, const delta_fuse_form_t *a, const delta_fuse_form_t *b) {
  for (uint16_t k = 0; k < b->expr.input_count; ++k) {
    if (!delta_fuse_reads(a, b->inputs[k]) && !is_small(fuse, b, b->inputs[k])) return false;
  }
  return true;
}

// Reading less is the point: they share an input about as large as what they run over.
static bool share_large_input(const delta_fuse_t *fuse, const delta_fuse_form_t *a, const delta_fuse_form_t *b) {
  for (uint16_t k = 0; k < a->expr.input_count; ++k) {
    if (!delta_fuse_reads(b, a->inputs[k])) continue;
    if (delta_shape_count(&delta_graph_tensor(fuse->graph, a->inputs[k])->shape) >= delta_shape_count(&a->shape) / 2) return true;
  }
  return false;
}

static bool close_enough(const delta_fuse_t *fuse, const delta_fuse_form_t *form, uint32_t first, uint32_t second) {
  const uint32_t a = fuse->position[first], b = fuse->position[second];
  if ((a < b ? b - a : a - b) <= DISTANCE_MAX) return true;
  return form->op == DELTA_CORE_REDUCE && is_small(fuse, form, form->outputs[0]);
}

static bool are_siblings(const delta_fuse_t *fuse, uint32_t first, uint32_t second) {
  const delta_fuse_form_t *a = fuse->forms[first], *b = fuse->forms[second];
  const delta_node_t *a_node = &fuse->graph->nodes.items[first], *b_node = &fuse->graph->nodes.items[second];
  if (a_node->phase != b_node->phase || (fuse->options.within_groups && a_node->group != b_node->group)) return false;
  if (a->op != b->op || a->axes != b->axes || a->expr.compute != b->expr.compute || !delta_shape_equal(&a->shape, &b->shape)) return false;
  if (!reads_all_of(fuse, a, b) && !reads_all_of(fuse, b, a)) return false;
  return share_large_input(fuse, a, b) && close_enough(fuse, a, first, second);
}

static uint32_t producer_of(const delta_fuse_t *fuse, const delta_tensor_t *computed) { return fuse->owner[computed->producer.index]; }

static bool exists_at(const delta_fuse_t *fuse, delta_tensor_id_t id, uint32_t position) {
  const delta_tensor_t *tensor = delta_graph_tensor(fuse->graph, id);
  return tensor->role != DELTA_ROLE_COMPUTED || fuse->position[producer_of(fuse, tensor)] < position;
}

static bool available_at(const delta_fuse_t *fuse, const delta_fuse_form_t *form, uint32_t position) {
  for (uint16_t k = 0; k < form->expr.input_count; ++k) {
    if (!exists_at(fuse, form->inputs[k], position)) return false;
  }
  return true;
}

// How far away a place is looked for that another node has left.
enum { ROOM_DISTANCE_MAX = 64 };

// Frees the position right before another: what stands between it and the last free one moves up, in its order. False: there is none near.
static bool make_room(delta_fuse_t *fuse, uint32_t before) {
  uint32_t free_one = before;
  do {
    if (free_one == 0 || before - free_one == ROOM_DISTANCE_MAX) return false;
  } while (fuse->node_at[--free_one] != DELTA_INDEX_NONE);
  for (; free_one + 1 < before; ++free_one) delta_fuse_place(fuse, fuse->node_at[free_one + 1], free_one);
  return true;
}

// Pointwise work and views may be done earlier. Updates stay where they are, so that what reads states still reads their old values.
static bool may_move(const delta_fuse_t *fuse, uint32_t node) {
  const delta_node_t *entry = &fuse->graph->nodes.items[node];
  const bool is_pointwise = fuse->forms[node] && fuse->forms[node]->op == DELTA_CORE_POINTWISE;
  return (is_pointwise || entry->op == DELTA_CORE_VIEW) && entry->phase != DELTA_PHASE_UPDATE;
}

// Moves what makes a tensor before a position, and what that reads. False: that cannot be.
static bool bring_forward(delta_fuse_t *fuse, delta_tensor_id_t id, uint32_t position, int depth) {
  if (exists_at(fuse, id, position)) return true;
  const uint32_t node = producer_of(fuse, delta_graph_tensor(fuse->graph, id));
  if (depth == 0 || !may_move(fuse, node)) return false;
  const delta_fuse_form_t *form = fuse->forms[node];
  const uint32_t input_count = form ? form->expr.input_count : 1;
  for (uint32_t k = 0; k < input_count; ++k) {
    if (!bring_forward(fuse, form ? form->inputs[k] : fuse->graph->nodes.items[node].inputs[0], position, depth - 1)) return false;
  }
  if (!make_room(fuse, position)) return false;
  delta_fuse_place(fuse, node, position - 1);
  return true;
}

// Makes what a form reads available at a position where that takes no more than moving small things there.
static void bring_inputs_forward(delta_fuse_t *fuse, const delta_fuse_form_t *form, uint32_t position) {
  enum { DEPTH = 3 };
  for (uint16_t k = 0; k < form->expr.input_count; ++k) {
    if (!exists_at(fuse, form->inputs[k], position) && !is_small(fuse, form, form->inputs[k])) return;
  }
  for (uint16_t k = 0; k < form->expr.input_count; ++k) {
    if (!bring_forward(fuse, form->inputs[k], position, DEPTH)) return;
  }
}

static bool unread_before(const delta_fuse_t *fuse, const delta_fuse_form_t *form, uint32_t position) {
  for (uint16_t k = 0; k < form->expr.output_count; ++k) {
    uint32_t cursor = fuse->first_reader[form->outputs[k].index];
    for (uint32_t node = delta_fuse_next_reader(fuse, &cursor); node != DELTA_INDEX_NONE; node = delta_fuse_next_reader(fuse, &cursor)) {
      if (fuse->position[node] <= position) return false;
    }
  }
  return true;
}

// Makes the second's outputs the first's, at `position`.
static delta_status_t join(delta_fuse_t *fuse, uint32_t first, uint32_t second, const delta_fuse_merge_t *merge, uint32_t position) {
  delta_fuse_form_t *a = fuse->forms[first];
  const delta_fuse_form_t *b = fuse->forms[second];
  const uint16_t count = a->expr.output_count;
  DELTA_RETURN_IF_ERROR(delta_fuse_accept(&fuse->region, merge, a));
  for (uint16_t k = 0; k < b->expr.output_count; ++k) {
    a->outputs[count + k] = b->outputs[k];
    a->dtypes[count + k] = b->dtypes[k];
    a->kinds[count + k] = b->kinds[k];
  }
  if (position == fuse->position[second]) fuse->named_after[first] = fuse->named_after[second];
  delta_fuse_place(fuse, second, DELTA_INDEX_NONE);
  delta_fuse_place(fuse, first, position);
  fuse->owner[second] = first;
  return DELTA_OK;
}

static delta_status_t try_join(delta_fuse_t *fuse, uint32_t first, uint32_t second, bool *out_joined) {
  *out_joined = false;
  if (first == second || !delta_fuse_alive(fuse, first) || !are_siblings(fuse, first, second)) return DELTA_OK;
  delta_fuse_merge_t merge;
  if (!delta_fuse_join(fuse->forms[first], fuse->forms[second], &merge)) return DELTA_OK;
  uint32_t position = fuse->position[first];
  if (!available_at(fuse, fuse->forms[second], position) && unread_before(fuse, fuse->forms[first], fuse->position[second])) {
    position = fuse->position[second];
  } else {
    bring_inputs_forward(fuse, fuse->forms[second], position);
    if (!available_at(fuse, fuse->forms[second], position)) return DELTA_OK;
  }
  *out_joined = true;
  return join(fuse, first, second, &merge, position);
}

// Joins the node with one of the latest that read one of its inputs.
static delta_status_t join_recent(delta_fuse_t *fuse, recent_nodes_t *recent, uint32_t node) {
  const delta_fuse_form_t *form = fuse->forms[node];
  for (uint16_t k = 0; k < form->expr.input_count; ++k) {
    const recent_nodes_t *candidates = &recent[form->inputs[k].index];
    for (uint32_t i = 0; i < RECENT_COUNT && i < candidates->count; ++i) {
      const uint32_t first = candidates->nodes[i];
      bool joined;
      DELTA_RETURN_IF_ERROR(try_join(fuse, first, node, &joined));
      if (!joined) continue;
      note_inputs(recent, fuse->forms[first], first);
      return DELTA_OK;
    }
  }
  note_inputs(recent, form, node);
  return DELTA_OK;
}

delta_status_t delta_fuse_siblings(delta_fuse_t *fuse) {
  recent_nodes_t *recent = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(fuse->allocator, fuse->graph->tensors.count, &recent));
  delta_status_t status = DELTA_OK;
  for (uint32_t node = 0; node < fuse->graph->nodes.count && status == DELTA_OK; ++node) {
    // Updates stay where they are: moved forward, they would meet readers of the old value.
    if (fuse->forms[node] == NULL || !delta_fuse_alive(fuse, node) || fuse->graph->nodes.items[node].phase == DELTA_PHASE_UPDATE) continue;
    status = join_recent(fuse, recent, node);
  }
  delta_release(fuse->allocator, recent);
  return status;
}
