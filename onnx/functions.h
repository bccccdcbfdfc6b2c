// Functions: model-local functions are inlined: each call becomes the function's nodes, with names of their own.
#ifndef DELTA_ONNX_FUNCTIONS_H_
#define DELTA_ONNX_FUNCTIONS_H_

#include "base/array.h"
#include "onnx/draft.h"

// A growing list of nodes.
typedef DELTA_ARRAY(delta_draft_node_t) delta_draft_nodes_t;

// Writes the graph's nodes, calls replaced, to `out_nodes` (released by the caller, also after an error) and sets every node's opset, 0 where
// its domain is not imported. Strings and attributes live in `region`; arrays come from `allocator`. Functions that nothing calls are ignored.
// MALFORMED names the function and the call: a function defined twice, one that calls itself, too many inputs, and so on. UNSUPPORTED: more
// than DELTA_FUNCTIONS_LIMIT_BYTES of nodes after inlining.
DELTA_MUST_USE delta_status_t delta_functions_inline(const delta_draft_t *draft, delta_allocator_t allocator, delta_region_t *region,
                                                     delta_draft_nodes_t *out_nodes);

enum { DELTA_FUNCTIONS_LIMIT_BYTES = 64 << 20 };

#endif // DELTA_ONNX_FUNCTIONS_H_
