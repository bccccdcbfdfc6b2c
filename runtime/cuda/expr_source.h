// Expression source: the CUDA C++ text of a kernel that computes an expression at every element, or reduces what it computes. Shapes are arguments of
// the kernel, so expressions of the same form share one compiled kernel.
#ifndef DELTA_RUNTIME_CUDA_EXPR_SOURCE_H_
#define DELTA_RUNTIME_CUDA_EXPR_SOURCE_H_

#include "base/text.h"
#include "onnx/graph/core_ops.h"

// All that the text depends on.
typedef struct delta_expr_form {
  const delta_expr_t *expr;
  delta_dtype_t inputs[DELTA_EXPR_MAX_INPUTS], outputs[DELTA_EXPR_MAX_OUTPUTS];
  bool is_each;    // of many sets of tensors: without dimensions
  uint32_t shared; // inputs that the sets share, as a mask
  int32_t rank;    // dimensions after merging, at least 1
  int32_t
      group; // neighbouring elements that a thread takes at a time: 1, or 4 where the last dimension is a multiple of it or the only one
  const delta_reduce_kind_t *kinds; // of each output; NULL: nothing is reduced, and the rest does not matter
  int32_t kept_rank;                // the first dimensions; the others are reduced
  int32_t team, teams;              // threads that share a result, a power of two; results that a block forms at a time
  bool along;                       // a team reads along the last reduced dimension; else neighbouring results are read together
} delta_expr_form_t;

// Appends the text. Its functions: delta_pointwise; delta_each; or delta_reduce and delta_combine (expr_reduce.h).
DELTA_MUST_USE delta_status_t delta_expr_source(const delta_expr_form_t *form, delta_text_t *text);

#endif // DELTA_RUNTIME_CUDA_EXPR_SOURCE_H_
