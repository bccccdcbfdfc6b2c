// Tensor file: reads one ONNX TensorProto from a .pb file, as test collections store inputs and expected outputs.
#ifndef DELTA_TESTS_SUPPORT_TENSOR_FILE_H_
#define DELTA_TESTS_SUPPORT_TENSOR_FILE_H_

#include "base/allocator.h"
#include "base/dtype.h"
#include "base/shape.h"

typedef struct delta_tensor_file {
  delta_allocator_t allocator;
  delta_dtype_t dtype;
  delta_shape_t shape;
  void *data; // Owned; native order.
  size_t size_bytes;
  bool cut_bfloat16; // by a collection that cut float32 to bfloat16 instead of rounding (and stored it as uint16)
} delta_tensor_file_t;

// Values may be raw bytes or in the typed fields. `declared` is the type that the model states, or DELTA_DTYPE_COUNT: older collections
// store bfloat16 as uint16. UNSUPPORTED: an element type that Delta does not store.
DELTA_MUST_USE delta_status_t delta_tensor_file_read(const char *path, delta_dtype_t declared, delta_allocator_t allocator,
                                                     delta_tensor_file_t *out_tensor);
void delta_tensor_file_free(delta_tensor_file_t *tensor); // Safe on a zeroed struct.

#endif // DELTA_TESTS_SUPPORT_TENSOR_FILE_H_
