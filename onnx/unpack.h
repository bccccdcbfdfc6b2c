// Unpack: from a file's bytes to a draft. The only code that sees protobuf messages; they are gone when it returns.
#ifndef DELTA_ONNX_UNPACK_H_
#define DELTA_ONNX_UNPACK_H_

#include "onnx/draft.h"
#include "onnx/tensor_data.h"

// Reads the model file of `context`. The file's skeleton and the messages together stay below limit_bytes (0: 64 MiB plus 16 times the
// skeleton). What is read goes into the context's region. MALFORMED and UNSUPPORTED name the part of the file.
DELTA_MUST_USE delta_status_t delta_unpack_model(delta_tensor_context_t *context, size_t limit_bytes, delta_draft_t *out_draft);

#endif // DELTA_ONNX_UNPACK_H_
