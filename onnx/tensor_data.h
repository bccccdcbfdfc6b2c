// Tensor data: from the fields of a TensorProto to a tensor of the model: its shape and element type checked, its elements decoded when they
// are small, or found by position in the model file or a data file.
#ifndef DELTA_ONNX_TENSOR_DATA_H_
#define DELTA_ONNX_TENSOR_DATA_H_

#include "base/array.h"
#include "base/file.h"
#include "onnx/external.h"
#include "onnx/model.h"
#include "onnx/skeleton.h"

// A TensorProto, freed of protobuf's types. Borrowed from the unpacked message.
typedef struct delta_tensor_fields {
  const char *name; // "" when absent
  const int64_t *dims;
  size_t dim_count;
  int32_t data_type;
  bool is_segment, is_external, has_raw;
  const uint8_t *raw; // unaligned
  size_t raw_bytes;
  const float *floats;
  const int32_t *int32s;
  const int64_t *int64s;
  const double *doubles;
  size_t float_count, int32_count, int64_count, double_count, uint64_count, string_count;
  const delta_external_entry_t *external;
  size_t external_count;
  const delta_skeleton_cut_t *cuts;
  size_t cut_count;
} delta_tensor_fields_t;

// The data files a model names, each measured once.
typedef struct delta_external_file {
  const char *location;
  bool exists;
  uint64_t size_bytes;
} delta_external_file_t;

// What tensors are read with.
typedef struct delta_tensor_context {
  delta_allocator_t allocator;
  delta_region_t *region;   // Borrowed; gets what the tensors own.
  const delta_file_t *file; // Borrowed; the model file.
  delta_external_place_t place;
  delta_map_t file_by_location;
  DELTA_ARRAY(delta_external_file_t) files;
} delta_tensor_context_t;

void delta_tensor_context_init(delta_tensor_context_t *context, delta_allocator_t allocator, delta_region_t *region,
                               const delta_file_t *file, const delta_external_place_t *place);
void delta_tensor_context_deinit(delta_tensor_context_t *context); // Safe on a zeroed struct.

// Reads a tensor. `always_inline` decodes also a large one (not external ones). MALFORMED and UNSUPPORTED say what is wrong; the caller puts the
// tensor's name before the message.
DELTA_MUST_USE delta_status_t delta_tensor_data_read(delta_tensor_context_t *context, const delta_tensor_fields_t *fields,
                                                     bool always_inline, delta_model_tensor_t *out_tensor);

#endif // DELTA_ONNX_TENSOR_DATA_H_
