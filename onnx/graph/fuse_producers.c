// Absorbing producers: from the last node to the first, so that a producer's readers have already become as few as they will be.
//
// No cycle can arise: an absorbed node disappears, and what it read stands before its readers.
#include <math.h>

#include "onnx/graph/fuse_state.h"

// More readers than this never recompute a producer; nor does any when that costs more additions for a pass over an output that is saved.
enum { READERS_MAX = 4, CHEAP_COST = 6 };

typedef struct reader_list {
  uint32_t nodes[READERS_MAX];
  uint32_t count;
  uint32_t last; // the one that stands last
} reader_list_t;

// The distinct living readers of all outputs; false when there are none, or too many.
static bool list_readers(const delta_fuse_t *fuse, const delta_fuse_form_t *producer, reader_list_t *list) {
  *list = (reader_list_t){0};
  for (uint16_t k = 0; k < producer->expr.output_count; ++k) {
    uint32_t cursor = fuse->first_reader[producer->outputs[k].index];
    for (uint32_t node = delta_fuse_next_reader(fuse, &cursor); node != DELTA_INDEX_NONE; node = delta_fuse_next_reader(fuse, &cursor)) {
      uint32_t i = 0;
      while (i < list->count && list->nodes[i] != node) ++i;
      if (i < list->count) continue;
      if (list->count == READERS_MAX) return false;
      list->nodes[list->count++] = node;
      if (node > list->last) list->last = node;
    }
  }
  return list->count > 0;
}

// Whether storing and loading an output changes nothing, and the program needs no output itself.
static bool outputs_can_vanish(const delta_fuse_t *fuse, const delta_fuse_form_t *producer) {
  for (uint16_t k = 0; k < producer->expr.output_count; ++k) {
    if (fuse->pinned[producer->outputs[k].index]) return false;
    if (producer->dtypes[k] != producer->expr.compute && producer->dtypes[k] != DELTA_DTYPE_BOOL) return false;
  }
  return true;
}

static bool is_uniform(const delta_fuse_t *fuse, const delta_fuse_form_t *form) {
  for (uint16_t k = 0; k < form->expr.input_count; ++k) {
    if (delta_shape_count(&delta_graph_tensor(fuse->graph, form->inputs[k])->shape) != 1) return false;
  }
  return true;
}

// Equal but for leading dimensions of 1, so that inputs broadcast to both alike.
static bool same_elements(const delta_shape_t *producer, const delta_shape_t *reader) {
  const int32_t extra = reader->rank - producer->rank;
  for (int32_t d = 0; d < reader->rank; ++d) {
    if (reader->dims[d] != (d < extra ? 1 : producer->dims[d - extra])) return false;
  }
  return extra >= 0;
}

static bool shapes_fit(const delta_fuse_t *fuse, const delta_fuse_form_t *producer, const delta_fuse_form_t *reader) {
  if (same_elements(&producer->shape, &reader->shape)) return true;
  return is_uniform(fuse, producer) && delta_fuse_cost(&producer->expr) <= CHEAP_COST;
}

// Whether reading what the producer reads at position `to` instead of `from` would pass the update of a state that it reads: the old value
// would have to be kept beside the new one.
static bool passes_update(const delta_fuse_t *fuse, const delta_fuse_form_t *producer, uint32_t from, uint32_t to) {
  for (uint16_t k = 0; k < producer->expr.input_count; ++k) {
    const delta_tensor_t *input = delta_graph_tensor(fuse->graph, producer->inputs[k]);
    const delta_tensor_t *root = delta_graph_tensor(fuse->graph, input->storage);
    if (root->role != DELTA_ROLE_STATE) continue;
    const delta_tensor_id_t next = fuse->graph->states.items[root->state].next;
    if (delta_tensor_is_none(next)) continue;
    const uint32_t update = delta_graph_tensor(fuse->graph, next)->producer.index;
    if (from < update && update < to) return true;
  }
  return false;
}

static bool before_backward(delta_phase_t phase) { return phase == DELTA_PHASE_FORWARD || phase == DELTA_PHASE_LOSS; }

static bool may_absorb(const delta_fuse_t *fuse, uint32_t producer, uint32_t reader, bool only_reader) {
  const delta_fuse_form_t *from = fuse->forms[producer], *to = fuse->forms[reader];
  if (to == NULL || to->expr.compute != from->expr.compute) return false;
  const delta_node_t *from_node = &fuse->graph->nodes.items[producer], *to_node = &fuse->graph->nodes.items[reader];
  if (fuse->options.within_groups && from_node->group != to_node->group) return false;
  const bool update_reads = to_node->phase == DELTA_PHASE_UPDATE, update_makes = from_node->phase == DELTA_PHASE_UPDATE;
  if (update_makes && !update_reads) return false;
  if (update_reads && !update_makes && !only_reader) return false;
  return shapes_fit(fuse, from, to) && !passes_update(fuse, from, producer, reader);
}

static size_t output_bytes(const delta_fuse_t *fuse, const delta_fuse_form_t *form) {
  size_t bytes = 0;
  for (uint16_t k = 0; k < form->expr.output_count; ++k) bytes += delta_tensor_bytes(delta_graph_tensor(fuse->graph, form->outputs[k]));
  return bytes;
}

// Bytes that would have to be kept longer than now if the producer's inputs were read at `position`. States stay anyway.
static size_t extended_bytes(const delta_fuse_t *fuse, const delta_fuse_form_t *producer, uint32_t position) {
  size_t bytes = 0;
  for (uint16_t k = 0; k < producer->expr.input_count; ++k) {
    const delta_tensor_t *input = delta_graph_tensor(fuse->graph, producer->inputs[k]);
    const delta_tensor_t *root = delta_graph_tensor(fuse->graph, input->storage);
    if (root->role != DELTA_ROLE_STATE && fuse->last_use[input->storage.index] < position) bytes += delta_tensor_bytes(input);
  }
  return bytes;
}

// Bytes read and stored less when the readers compute what the producer makes: its inputs, its outputs, and these again by each reader; against its inputs by each reader that
// does not read them yet. Below 0: more.
static double saved_bytes(const delta_fuse_t *fuse, const delta_fuse_form_t *producer, const reader_list_t *readers) {
  double apart = (double)output_bytes(fuse, producer), together = 0;
  for (uint32_t i = 0; i < readers->count; ++i) {
    const delta_fuse_form_t *reader = fuse->forms[readers->nodes[i]];
    for (uint16_t k = 0; k < producer->expr.output_count; ++k) {
      if (delta_fuse_reads(reader, producer->outputs[k]))
        apart += (double)delta_tensor_bytes(delta_graph_tensor(fuse->graph, producer->outputs[k]));
    }
    for (uint16_t k = 0; k < producer->expr.input_count; ++k) {
      if (!delta_fuse_reads(reader, producer->inputs[k]))
        together += (double)delta_tensor_bytes(delta_graph_tensor(fuse->graph, producer->inputs[k]));
    }
  }
  for (uint16_t k = 0; k < producer->expr.input_count; ++k)
    apart += (double)delta_tensor_bytes(delta_graph_tensor(fuse->graph, producer->inputs[k]));
  return apart - together;
}

// Whether computing the same again in all readers but one takes less than the passes over an output that it saves.
static bool is_cheaper(const delta_fuse_t *fuse, const delta_fuse_form_t *producer, const reader_list_t *readers) {
  const double pass_bytes = (double)output_bytes(fuse, producer) / producer->expr.output_count;
  const double passes = saved_bytes(fuse, producer, readers) / pass_bytes;
  return passes > 0 && (double)delta_fuse_cost(&producer->expr) * (readers->count - 1) <= CHEAP_COST * fmax(1, passes);
}

// Note [Fusion rules].
static bool worth_absorbing(const delta_fuse_t *fuse, uint32_t node, const reader_list_t *readers) {
  const delta_fuse_form_t *producer = fuse->forms[node];
  const bool crosses =
      before_backward(fuse->graph->nodes.items[node].phase) && !before_backward(fuse->graph->nodes.items[readers->last].phase);
  // A statistic or a scale more to keep is no reason against it.
  const size_t stored = output_bytes(fuse, producer);
  if ((crosses || readers->count > 1) && extended_bytes(fuse, producer, readers->last) > stored + stored / 4) return false;
  if (readers->count == 1) return true;
  return is_cheaper(fuse, producer, readers);
}

// The reader reads the producer's inputs from now on.
static delta_status_t take_over_inputs(delta_fuse_t *fuse, const delta_fuse_form_t *producer, uint32_t reader) {
  for (uint16_t k = 0; k < producer->expr.input_count; ++k) {
    const delta_tensor_id_t input = producer->inputs[k];
    if (!delta_fuse_reads(fuse->forms[reader], input)) continue; // it turned out not to be needed
    DELTA_RETURN_IF_ERROR(delta_fuse_add_reader(fuse, input, reader));
    uint32_t *last_use = &fuse->last_use[delta_graph_tensor(fuse->graph, input)->storage.index];
    if (*last_use < reader) *last_use = reader;
  }
  return DELTA_OK;
}

static delta_status_t absorb(delta_fuse_t *fuse, uint32_t node) {
  const delta_fuse_form_t *producer = fuse->forms[node];
  reader_list_t readers;
  if (producer == NULL || producer->op != DELTA_CORE_POINTWISE) return DELTA_OK;
  if (!outputs_can_vanish(fuse, producer) || !list_readers(fuse, producer, &readers)) return DELTA_OK;
  for (uint32_t i = 0; i < readers.count; ++i) {
    if (!may_absorb(fuse, node, readers.nodes[i], readers.count == 1)) return DELTA_OK;
  }
  if (!worth_absorbing(fuse, node, &readers)) return DELTA_OK;
  delta_fuse_merge_t merges[READERS_MAX];
  for (uint32_t i = 0; i < readers.count; ++i) {
    if (!delta_fuse_absorb(fuse->forms[readers.nodes[i]], producer, &merges[i])) return DELTA_OK;
  }
  for (uint32_t i = 0; i < readers.count; ++i) {
    DELTA_RETURN_IF_ERROR(delta_fuse_accept(&fuse->region, &merges[i], fuse->forms[readers.nodes[i]]));
    DELTA_RETURN_IF_ERROR(take_over_inputs(fuse, producer, readers.nodes[i]));
  }
  delta_fuse_place(fuse, node, DELTA_INDEX_NONE);
  return DELTA_OK;
}

delta_status_t delta_fuse_producers(delta_fuse_t *fuse) {
  for (uint32_t node = (uint32_t)fuse->graph->nodes.count; node-- > 0;) DELTA_RETURN_IF_ERROR(absorb(fuse, node));
  return DELTA_OK;
}
