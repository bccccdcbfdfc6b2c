// Attributes of a node as it runs for one part: shapes in them are the part's, and what is drawn by position begins at the part's.
#ifndef DELTA_ONNX_PARTS_ATTRS_H_
#define DELTA_ONNX_PARTS_ATTRS_H_

#include "onnx/graph/rewrite.h"
#include "onnx/parts/assignment.h"

typedef union delta_part_attrs {
  delta_rewrite_attrs_t pointing;
  delta_view_attrs_t view;
  delta_pointwise_attrs_t pointwise;
  delta_reduce_attrs_t reduce;
  delta_dropout_attrs_t dropout;
  delta_attention_attrs_t attention;
  delta_slice_attrs_t slice;
  delta_pad_attrs_t pad;
  delta_gather_attrs_t gather;
  delta_resize_attrs_t resize;
} delta_part_attrs_t;

// Of a node that runs for each part. Attributes without shapes are lent as they are.
DELTA_MUST_USE delta_status_t delta_part_attrs_make(const delta_part_assignment_t *assignment, delta_rewrite_t *rewrite,
                                                    const delta_node_t *node, uint32_t part, delta_part_attrs_t *storage,
                                                    const void **out_attrs);

#endif // DELTA_ONNX_PARTS_ATTRS_H_
