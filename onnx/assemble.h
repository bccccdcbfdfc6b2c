// Assemble: from a draft to the lists of a model: opsets checked, names resolved to values, nodes named and sorted.
#ifndef DELTA_ONNX_ASSEMBLE_H_
#define DELTA_ONNX_ASSEMBLE_H_

#include "onnx/draft.h"
#include "onnx/functions.h"

// The IR versions and the opsets of the default domain that are read. A newer IR version within the limit gets a note, as do opsets before
// DELTA_OPSET_FULL, in which many operators meant something else: the operator table refuses those.
enum {
  DELTA_IR_VERSION_OLDEST = 3,
  DELTA_IR_VERSION_NEWEST = 14,
  DELTA_IR_VERSION_LIMIT = 99,
  DELTA_OPSET_OLDEST = 1,
  DELTA_OPSET_FULL = 7,
  DELTA_OPSET_NEWEST = 27, // later ones are read as this one, with a note
  DELTA_OPSET_LIMIT = 40,  // beyond this the number is no version that a file of these years can have
};

// Checks what the file says of itself: graph, IR version, opset imports.
DELTA_MUST_USE delta_status_t delta_assemble_check_header(const delta_draft_t *draft, delta_log_sink_t log);

// Fills values, inputs, outputs, initializers and nodes of `model` (region and value_by_name are initialised) from the draft and its inlined
// nodes. MALFORMED names the node or value: a name given twice, one that nobody gives, a cycle, a domain that is not imported.
DELTA_MUST_USE delta_status_t delta_assemble_model(delta_model_t *model, const delta_draft_t *draft, const delta_draft_nodes_t *nodes,
                                                   delta_log_sink_t log);

#endif // DELTA_ONNX_ASSEMBLE_H_
