// Model: an ONNX file, read, checked and freed of protobuf. Names are interned to value ids, functions are inlined, nodes are in topological
// order. It holds shapes and small constants; weights stay in their files and are found by position.
//
// A model is immutable after loading and may be shared by threads.
#ifndef DELTA_ONNX_MODEL_H_
#define DELTA_ONNX_MODEL_H_

#include <delta/log.h>

#include "base/dtype.h"
#include "base/map.h"
#include "base/shape.h"

typedef struct delta_model delta_model_t;

// A value's index in model->values.
typedef struct delta_value_id {
  uint32_t index;
} delta_value_id_t;
#define DELTA_VALUE_NONE ((delta_value_id_t){UINT32_MAX}) // an optional input or output left out ("")

static inline bool delta_value_is_none(delta_value_id_t id) { return id.index == UINT32_MAX; }

// A dimension as the file states it: a number, a symbol, or nothing.
typedef struct delta_model_dim {
  int64_t size;       // >= 0, or -1 when symbolic or unknown
  const char *symbol; // NULL when not symbolic
} delta_model_dim_t;

// A type as the file states it. dtype is DELTA_DTYPE_COUNT when the file's type is absent or one that Delta does not store; onnx_type keeps the number (0: absent).
typedef struct delta_model_type {
  delta_dtype_t dtype;
  int32_t onnx_type;
  bool is_tensor; // false for sequences, optionals, maps
  bool has_shape;
  int32_t rank;
  delta_model_dim_t *dims;
} delta_model_type_t;

// Where a tensor's elements are.
typedef enum delta_tensor_storage {
  DELTA_STORAGE_INLINE,   // decoded, in `data`
  DELTA_STORAGE_MODEL,    // raw little-endian bytes in the model file
  DELTA_STORAGE_EXTERNAL, // raw little-endian bytes in an external data file
} delta_tensor_storage_t;

// A tensor of the file: an initializer or an attribute. Attribute tensors and small initializers (at most DELTA_INLINE_LIMIT_BYTES) are inline
// unless external.
typedef struct delta_model_tensor {
  const char *name;
  delta_dtype_t dtype;
  delta_shape_t shape;
  size_t size_bytes; // element count * element size
  delta_tensor_storage_t storage;
  const void *data;       // INLINE: size_bytes bytes, native order. Owned by the model.
  uint64_t offset_bytes;  // MODEL, EXTERNAL
  const char *location;   // EXTERNAL: as written in the file, already checked by the path rules
  uint32_t external_file; // EXTERNAL: index into the model's list of external files
} delta_model_tensor_t;
enum { DELTA_INLINE_LIMIT_BYTES = 4096 };

typedef enum delta_attribute_kind {
  DELTA_ATTRIBUTE_FLOAT,
  DELTA_ATTRIBUTE_INT,
  DELTA_ATTRIBUTE_STRING,
  DELTA_ATTRIBUTE_TENSOR,
  DELTA_ATTRIBUTE_FLOATS,
  DELTA_ATTRIBUTE_INTS,
  DELTA_ATTRIBUTE_STRINGS,
  DELTA_ATTRIBUTE_GRAPH, // recorded by kind only: operators with sub-graphs are refused by name
  DELTA_ATTRIBUTE_OTHER, // sequences, sparse tensors, types
} delta_attribute_kind_t;

typedef struct delta_attribute {
  const char *name;
  delta_attribute_kind_t kind;
  float f;
  int64_t i;
  const char *s; // zero-terminated; s_length is its true length
  size_t s_length;
  const delta_model_tensor_t *tensor;
  size_t count; // of floats, ints or strings
  const float *floats;
  const int64_t *ints;
  const char *const *strings;
} delta_attribute_t;

typedef struct delta_model_node {
  const char *name; // unique; made from operator and index when the file has none
  const char *op_type;
  const char *domain; // "" for ai.onnx
  int64_t opset;      // version of `domain` in force for this node (a function body may import its own)
  delta_value_id_t *inputs;
  uint32_t input_count; // trailing left-out inputs are trimmed
  delta_value_id_t *outputs;
  uint32_t output_count;
  delta_attribute_t *attributes;
  uint32_t attribute_count;
} delta_model_node_t;

typedef enum delta_value_kind { DELTA_VALUE_INPUT, DELTA_VALUE_INITIALIZER, DELTA_VALUE_NODE_OUTPUT } delta_value_kind_t;

typedef struct delta_model_value {
  const char *name;
  delta_value_kind_t kind;
  uint32_t index;          // of the input, initializer, or producing node in the lists below
  delta_model_type_t type; // declared; may be empty for node outputs
} delta_model_value_t;

// A data file that tensors of the model refer to, opened by the path rules of external.h.
typedef struct delta_model_external {
  const char *location; // as written in the file
  bool exists;          // when the model was loaded
} delta_model_external_t;

struct delta_model {
  delta_allocator_t allocator;
  delta_region_t region; // Owns everything below.
  const char *path;
  char sha256[65]; // of the model file, hexadecimal
  uint64_t file_size_bytes;
  int64_t ir_version;
  int64_t opset; // of the default domain; 0 when not imported
  const char *producer_name;
  const char *producer_version;
  const char *graph_name;

  delta_model_value_t *values;
  uint32_t value_count;
  delta_value_id_t *inputs; // graph inputs that are not initializers, in file order
  uint32_t input_count;
  delta_value_id_t *outputs;
  uint32_t output_count;
  delta_model_tensor_t *initializers; // initializer i is the value with kind INITIALIZER and index i
  uint32_t initializer_count;
  delta_model_node_t *nodes; // topological order
  uint32_t node_count;
  delta_map_t value_by_name;

  const char *external_folder; // of the options; NULL for none
  delta_model_external_t *external_files;
  uint32_t external_count;
};

typedef struct delta_model_options {
  const char *path;
  const char *external_folder; // --external-data: a further folder where external data may lie; NULL for none
  size_t memory_limit_bytes;   // cap for the unpacked file; 0 chooses 64 MiB plus a multiple of the file's size without weights
  delta_log_sink_t log;
} delta_model_options_t;

// Reads and checks a model. External data files are located and measured when they exist; a missing one is an error only when its values are read
// (weights.h judges whether what is missing is meant).
// Errors: NOT_FOUND, IO, MALFORMED (one line naming file and node, tensor or field), OUT_OF_MEMORY (cap passed), UNSUPPORTED (sequence or
// optional inputs, element types Delta does not store). Operators are not judged here.
DELTA_MUST_USE delta_status_t delta_model_load(const delta_model_options_t *options, delta_allocator_t allocator,
                                               delta_model_t **out_model);
void delta_model_free(delta_model_t *model); // NULL is fine.

// Reads a tensor's elements into `buffer` of size_bytes bytes. NOT_FOUND names a missing data file, MALFORMED one too short.
DELTA_MUST_USE delta_status_t delta_model_read_tensor(const delta_model_t *model, const delta_model_tensor_t *tensor, void *buffer,
                                                      size_t size_bytes);

// Whether `path` leads to the model's file or to one of its data files. INVALID_ARGUMENT names which: nothing may be written there.
DELTA_MUST_USE delta_status_t delta_model_check_output(const delta_model_t *model, const char *path);

// The value called `name`, or DELTA_VALUE_NONE.
delta_value_id_t delta_model_find_value(const delta_model_t *model, const char *name);

// Whether the tensor's values can be had: inline, in the model file, or in an external file that exists and is long enough.
bool delta_model_tensor_is_available(const delta_model_t *model, const delta_model_tensor_t *tensor);

// The attribute called `name`, or NULL.
const delta_attribute_t *delta_model_node_attribute(const delta_model_node_t *node, const char *name);

#endif // DELTA_ONNX_MODEL_H_
