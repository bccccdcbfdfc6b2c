// Form: what a POINTWISE or REDUCE node is while fusion rearranges it. Ids are those of the graph that is read.
#ifndef DELTA_ONNX_GRAPH_FUSE_FORM_H_
#define DELTA_ONNX_GRAPH_FUSE_FORM_H_

#include "onnx/graph/rewrite.h"

typedef struct delta_fuse_form {
  delta_core_op_t op; // POINTWISE or REDUCE
  delta_shape_t shape;
  uint32_t axes; // REDUCE
  delta_expr_t expr;
  delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS];
  delta_tensor_id_t outputs[DELTA_EXPR_MAX_OUTPUTS];
  delta_dtype_t dtypes[DELTA_EXPR_MAX_OUTPUTS];
  delta_reduce_kind_t kinds[DELTA_EXPR_MAX_OUTPUTS];
  bool changed; // no longer what the node says
} delta_fuse_form_t;

// A merged expression that is not yet decided for.
typedef struct delta_fuse_merge {
  delta_expr_builder_t builder;
  delta_tensor_id_t inputs[DELTA_EXPR_MAX_INPUTS];
} delta_fuse_merge_t;

// False for nodes of other operators. Instructions are borrowed from the node.
bool delta_fuse_form_of(const delta_node_t *node, delta_fuse_form_t *out_form);
// The reader with the producer's instructions in place of its outputs. False when the limits of expressions do not allow it.
bool delta_fuse_absorb(const delta_fuse_form_t *reader, const delta_fuse_form_t *producer, delta_fuse_merge_t *out_merge);
// Both expressions over the union of inputs; the second's outputs follow the first's.
bool delta_fuse_join(const delta_fuse_form_t *first, const delta_fuse_form_t *second, delta_fuse_merge_t *out_merge);
// Makes the merged expression the form's; instructions are stored in the region.
DELTA_MUST_USE delta_status_t delta_fuse_accept(delta_region_t *region, const delta_fuse_merge_t *merge, delta_fuse_form_t *form);
// Emits the form with inputs of the new graph, and name, phase and group of `node`; its results are bound to nothing.
void delta_fuse_emit_with(delta_rewrite_t *rewrite, const delta_node_t *node, const delta_fuse_form_t *form,
                          const delta_tensor_id_t *inputs, delta_tensor_id_t *out_outputs);
// Emits the form in place of `node`, whose name, phase and group it takes.
void delta_fuse_emit(delta_rewrite_t *rewrite, const delta_node_t *node, const delta_fuse_form_t *form);

// Price of evaluating one element, in additions.
uint32_t delta_fuse_cost(const delta_expr_t *expr);
bool delta_fuse_reads(const delta_fuse_form_t *form, delta_tensor_id_t id);

#endif // DELTA_ONNX_GRAPH_FUSE_FORM_H_
