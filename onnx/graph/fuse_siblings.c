// Joining siblings: nodes over one shape of which one reads only what the other reads.
//
// The joined node stands where the first stands if all that the second reads exists there; else where the second stands if nothing before that
// reads the first's outputs. Either keeps the order of everything else, so no cycle can arise.
#include "onnx/graph/fuse_state.h"

// How far apart nodes may stand whose outputs are as large as their inputs: an output made earlier than needed is kept longer.
enum { DISTANCE_MAX = 16 };

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

static bool reads_all_of(const delta_fuse_form_t *a, const delta_fuse_form_t *b) {
  for (uint16_t k = 0; k < b->expr.input_count; ++k) {
    if (!delta_fuse_reads(a, b->inputs[k])) return false;
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
  return form->op == DELTA_CORE_REDUCE &&
         delta_shape_count(&delta_graph_tensor(fuse->graph, form->outputs[0])->shape) <= delta_shape_count(&form->shape) / 8;
}

static bool are_siblings(const delta_fuse_t *fuse, uint32_t first, uint32_t second) {
  const delta_fuse_form_t *a = fuse->forms[first], *b = fuse->forms[second];
  const delta_node_t *a_node = &fuse->graph->nodes.items[first], *b_node = &fuse->graph->nodes.items[second];
  if (a_node->phase != b_node->phase || (fuse->options.within_groups && a_node->group != b_node->group)) return false;
  if (a->op != b->op || a->axes != b->axes || a->expr.compute != b->expr.compute || !delta_shape_equal(&a->shape, &b->shape)) return false;
  if (!reads_all_of(a, b) && !reads_all_of(b, a)) return false;
  return share_large_input(fuse, a, b) && close_enough(fuse, a, first, second);
}

static bool available_at(const delta_fuse_t *fuse, const delta_fuse_form_t *form, uint32_t position) {
  for (uint16_t k = 0; k < form->expr.input_count; ++k) {
    const delta_tensor_t *input = delta_graph_tensor(fuse->graph, form->inputs[k]);
    if (input->role == DELTA_ROLE_COMPUTED && fuse->position[fuse->owner[input->producer.index]] >= position) return false;
  }
  return true;
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
  fuse->position[second] = DELTA_INDEX_NONE;
  fuse->owner[second] = first;
  fuse->position[first] = position;
  return DELTA_OK;
}

static delta_status_t try_join(delta_fuse_t *fuse, uint32_t first, uint32_t second, bool *out_joined) {
  *out_joined = false;
  if (first == second || !delta_fuse_alive(fuse, first) || !are_siblings(fuse, first, second)) return DELTA_OK;
  uint32_t position = fuse->position[first];
  if (!available_at(fuse, fuse->forms[second], position)) {
    position = fuse->position[second];
    if (!unread_before(fuse, fuse->forms[first], position)) return DELTA_OK;
  }
  delta_fuse_merge_t merge;
  if (!delta_fuse_join(fuse->forms[first], fuse->forms[second], &merge)) return DELTA_OK;
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
