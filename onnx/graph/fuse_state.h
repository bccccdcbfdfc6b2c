// What fusion knows of the graph while it works: forms, where each node stands, who reads what.
#ifndef DELTA_ONNX_GRAPH_FUSE_STATE_H_
#define DELTA_ONNX_GRAPH_FUSE_STATE_H_

#include "onnx/graph/fuse.h"
#include "onnx/graph/fuse_form.h"

// One reader of a tensor, in a list per tensor. Entries of nodes that are gone stay and are skipped.
typedef struct delta_fuse_reader {
  uint32_t node;
  uint32_t next; // DELTA_INDEX_NONE: the last
} delta_fuse_reader_t;

typedef struct delta_fuse {
  const delta_graph_t *graph;
  delta_fuse_options_t options;
  delta_allocator_t allocator;
  delta_region_t region;     // forms and their instructions
  delta_fuse_form_t **forms; // by node; NULL: of another operator
  uint32_t *position;        // by node: where it is emitted; DELTA_INDEX_NONE: gone
  uint32_t *node_at;         // by position: the node that is emitted there; DELTA_INDEX_NONE: none
  uint32_t *owner;           // by node: the node that computes its outputs, itself unless joined with another
  uint32_t *named_after;     // by node: the last of its parts, whose name it takes
  uint32_t *last_use;        // by tensor, for storages: the last position that reads it; DELTA_INDEX_NONE: after the program
  bool *pinned;              // by tensor: a graph output or a state's next value
  uint32_t *first_reader;    // by tensor: index in `readers`
  DELTA_ARRAY(delta_fuse_reader_t) readers;
} delta_fuse_t;

DELTA_MUST_USE delta_status_t delta_fuse_init(delta_fuse_t *fuse, const delta_graph_t *graph, delta_fuse_options_t options,
                                              delta_allocator_t allocator);
void delta_fuse_deinit(delta_fuse_t *fuse); // Also after a failed init.

static inline bool delta_fuse_alive(const delta_fuse_t *fuse, uint32_t node) { return fuse->position[node] != DELTA_INDEX_NONE; }
// The node is emitted at another position from now on; DELTA_INDEX_NONE: nowhere, others compute what it did.
static inline void delta_fuse_place(delta_fuse_t *fuse, uint32_t node, uint32_t position) {
  fuse->node_at[fuse->position[node]] = DELTA_INDEX_NONE;
  fuse->position[node] = position;
  if (position != DELTA_INDEX_NONE) fuse->node_at[position] = node;
}
DELTA_MUST_USE delta_status_t delta_fuse_add_reader(delta_fuse_t *fuse, delta_tensor_id_t tensor, uint32_t node);
// The tensor's next living reader from list entry *cursor on; DELTA_INDEX_NONE at the end. Start with first_reader[tensor].
uint32_t delta_fuse_next_reader(const delta_fuse_t *fuse, uint32_t *cursor);

// Absorbs cheap or single-use producers into their readers.
DELTA_MUST_USE delta_status_t delta_fuse_producers(delta_fuse_t *fuse);
// Joins nodes that read the same.
DELTA_MUST_USE delta_status_t delta_fuse_siblings(delta_fuse_t *fuse);

#endif // DELTA_ONNX_GRAPH_FUSE_STATE_H_
