// Draft: what a file says, freed of protobuf but not yet resolved: values are names, calls of model-local functions are nodes, nodes stand in
// file order. Everything lives in the region of the model being made.
#ifndef DELTA_ONNX_DRAFT_H_
#define DELTA_ONNX_DRAFT_H_

#include "onnx/model.h"

typedef struct delta_draft_attribute {
  delta_attribute_t value;
  const char *reference; // inside a function: the attribute of the call that gives the value; NULL when the value is here
} delta_draft_attribute_t;

typedef struct delta_draft_node {
  const char *name;    // "" when the file has none
  const char *op_type; // never ""
  const char *domain;  // "" for ai.onnx
  int64_t opset;       // 0 until it is resolved
  const char **inputs; // "" when left out
  uint32_t input_count;
  const char **outputs;
  uint32_t output_count;
  delta_draft_attribute_t *attributes;
  uint32_t attribute_count;
} delta_draft_node_t;

typedef struct delta_draft_opset {
  const char *domain; // "" for ai.onnx
  int64_t version;
} delta_draft_opset_t;

typedef struct delta_draft_function {
  const char *name, *domain;
  const char **inputs;
  uint32_t input_count;
  const char **outputs;
  uint32_t output_count;
  delta_draft_attribute_t *defaults; // values for attributes that a call leaves out
  uint32_t default_count;
  delta_draft_opset_t *opsets;
  uint32_t opset_count;
  delta_draft_node_t *nodes;
  uint32_t node_count;
} delta_draft_function_t;

// A graph input or output, or an entry of value_info.
typedef struct delta_draft_value {
  const char *name;
  delta_model_type_t type;
} delta_draft_value_t;

typedef struct delta_draft {
  int64_t ir_version;
  bool has_ir_version, has_graph;
  const char *producer_name, *producer_version, *graph_name;
  delta_draft_opset_t *opsets;
  uint32_t opset_count;
  delta_draft_value_t *inputs, *outputs, *value_infos;
  uint32_t input_count, output_count, value_info_count;
  delta_model_tensor_t *initializers;
  uint32_t initializer_count;
  delta_draft_node_t *nodes;
  uint32_t node_count;
  delta_draft_function_t *functions;
  uint32_t function_count;
  uint32_t training_info_count;
} delta_draft_t;

#endif // DELTA_ONNX_DRAFT_H_
