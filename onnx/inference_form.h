// Inference form: turns nodes from their training form into the one that runs a trained model, on the wire level. BatchNormalization uses its
// running statistics (opset 14 and later: training_mode is removed; before: only the first output is kept), Dropout becomes Identity,
// and constants that only it has read are removed.
#ifndef DELTA_ONNX_INFERENCE_FORM_H_
#define DELTA_ONNX_INFERENCE_FORM_H_

#include "base/map.h"
#include "onnx/edits.h"

// The graph, or the body of a function, that nodes are in.
typedef struct delta_inference_scope {
  delta_edits_t *edits;       // Borrowed.
  delta_wire_range_t message; // GraphProto or FunctionProto
  bool is_function;
  int64_t opset;          // of the default domain
  delta_map_t read_names; // names that nodes read in the new form, or the scope returns
  delta_map_t left_names; // names of Dropout's further inputs, which are not read any more
} delta_inference_scope_t;

DELTA_MUST_USE delta_status_t delta_inference_scope_init(delta_inference_scope_t *scope, delta_edits_t *edits, delta_wire_range_t message,
                                                         bool is_function, int64_t opset, delta_allocator_t allocator);
void delta_inference_scope_deinit(delta_inference_scope_t *scope); // Safe on a zeroed struct.

// Whether the node in `field` is a constant that only removed inputs of Dropout read: it goes with them.
DELTA_MUST_USE delta_status_t delta_inference_form_drops(delta_inference_scope_t *scope, const delta_wire_field_t *field, bool *out_drops);

// Rewrites the node in `field`, if it is one of the two. *inner_growth is what its content grows, *growth what is inserted behind it: where a
// running statistic that BatchNormalization gives in training is read elsewhere, an Identity of its input takes its place. UNSUPPORTED names
// the node when an output that only training gives is read and has no such stand-in.
DELTA_MUST_USE delta_status_t delta_inference_form_node(delta_inference_scope_t *scope, const delta_wire_field_t *field,
                                                        int64_t *inner_growth, int64_t *growth);

#endif // DELTA_ONNX_INFERENCE_FORM_H_
