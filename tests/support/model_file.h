// Model files for tests: a small writer of protobuf messages, the ONNX messages tests need, and a temporary folder to keep them in.
#ifndef DELTA_TESTS_SUPPORT_MODEL_FILE_H_
#define DELTA_TESTS_SUPPORT_MODEL_FILE_H_

#include <stddef.h>
#include <stdint.h>

#include "onnx/model.h"
#include "tests/support/support.h"

// A message under construction. Running out of memory ends the test.
typedef struct delta_test_message {
  uint8_t *bytes; // Owned.
  size_t count, capacity;
} delta_test_message_t;

void delta_test_message_free(delta_test_message_t *message);
void delta_test_put_raw(delta_test_message_t *message, const void *bytes, size_t count); // without tag
void delta_test_put_varint(delta_test_message_t *message, uint32_t field, uint64_t value);
void delta_test_put_bytes(delta_test_message_t *message, uint32_t field, const void *bytes, size_t count);
// The tag and length of a field whose `count` bytes come later.
void delta_test_put_open(delta_test_message_t *message, uint32_t field, uint64_t count);
void delta_test_put_text(delta_test_message_t *message, uint32_t field, const char *text);
void delta_test_put_message(delta_test_message_t *message, uint32_t field, delta_test_message_t *inner); // frees `inner`

// ONNX messages. Numbers of fields are those of onnx.proto.
delta_test_message_t delta_test_value_info(const char *name, int32_t data_type, const int64_t *dims, size_t rank);
// A TensorProto without data.
delta_test_message_t delta_test_tensor_head(const char *name, int32_t data_type, const int64_t *dims, size_t rank);
delta_test_message_t delta_test_tensor_raw(const char *name, int32_t data_type, const int64_t *dims, size_t rank, const void *data,
                                           size_t size_bytes);
void delta_test_put_external(delta_test_message_t *tensor, const char *key, const char *value); // an external_data entry
delta_test_message_t delta_test_attribute_int(const char *name, int64_t value);
delta_test_message_t delta_test_attribute_reference(const char *name, const char *reference, int32_t type);
// Nodes written as "Op:in,in>out,out@name;Op:..."; an operator may be "domain.Op". They become fields `field` of `owner`.
void delta_test_put_nodes(delta_test_message_t *owner, uint32_t field, const char *nodes);
// A whole model: `graph` (freed) with ir_version 8 and these opsets: "15" or "15,my.domain:1". Functions and others can be put behind it.
delta_test_message_t delta_test_model_message(delta_test_message_t *graph, const char *opsets);
void delta_test_put_opsets(delta_test_message_t *owner, uint32_t field, const char *opsets);

// Field numbers of onnx.proto, as the tests need them.
enum {
  DELTA_TEST_MODEL_GRAPH = 7,
  DELTA_TEST_MODEL_OPSET = 8,
  DELTA_TEST_MODEL_FUNCTION = 25,
  DELTA_TEST_GRAPH_NODE = 1,
  DELTA_TEST_GRAPH_INITIALIZER = 5,
  DELTA_TEST_GRAPH_INPUT = 11,
  DELTA_TEST_GRAPH_OUTPUT = 12,
  DELTA_TEST_FUNCTION_NODE = 7,
  DELTA_TEST_FUNCTION_OPSET = 9,
  DELTA_TEST_NODE_ATTRIBUTE = 5,
  DELTA_TEST_TENSOR_LOCATION = 14,
};

// A temporary folder, removed with everything in it.
typedef struct delta_test_folder {
  char path[64];
} delta_test_folder_t;

void delta_test_folder_make(delta_test_folder_t *folder);
void delta_test_folder_remove(delta_test_folder_t *folder);
// "FOLDER/name" in `out_path`.
const char *delta_test_folder_path(const delta_test_folder_t *folder, const char *name, char out_path[DELTA_TEST_PATH_BYTES]);
void delta_test_folder_write(const delta_test_folder_t *folder, const char *name, const void *bytes, size_t count);

// Loads FOLDER/name.
DELTA_MUST_USE delta_status_t delta_test_load(const delta_test_folder_t *folder, const char *name, const char *external_folder,
                                              delta_allocator_t allocator, delta_model_t **out_model);

#endif // DELTA_TESTS_SUPPORT_MODEL_FILE_H_
