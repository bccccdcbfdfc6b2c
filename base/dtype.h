// Element types of tensors. One row per type; the enum, names and sizes come from the rows.
#ifndef DELTA_BASE_DTYPE_H_
#define DELTA_BASE_DTYPE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// X(identifier, name, size in bytes, class F float / I integer / B bool, numpy code, ONNX TensorProto.DataType)
// UINT8 holds indices of pooling windows and image data; models may not compute in it.
#define DELTA_DTYPES(X)                 \
  X(FLOAT32, "float32", 4, F, "f4", 1)  \
  X(FLOAT64, "float64", 8, F, "f8", 11) \
  X(FLOAT16, "float16", 2, F, "f2", 10) \
  X(BFLOAT16, "bfloat16", 2, F, "", 16) \
  X(INT32, "int32", 4, I, "i4", 6)      \
  X(INT64, "int64", 8, I, "i8", 7)      \
  X(BOOL, "bool", 1, B, "b1", 9)        \
  X(UINT8, "uint8", 1, I, "u1", 2)

typedef enum delta_dtype {
#define DELTA_DTYPE_ENUM(id, name, size, kind, numpy, onnx) DELTA_DTYPE_##id,
  DELTA_DTYPES(DELTA_DTYPE_ENUM)
#undef DELTA_DTYPE_ENUM
      DELTA_DTYPE_COUNT
} delta_dtype_t;

size_t delta_dtype_bytes(delta_dtype_t dtype);
const char *delta_dtype_name(delta_dtype_t dtype);
bool delta_dtype_is_float(delta_dtype_t dtype);
// ONNX's number for the type, and back: false when Delta does not store it.
int32_t delta_dtype_to_onnx(delta_dtype_t dtype);
bool delta_dtype_from_onnx(int32_t onnx_type, delta_dtype_t *out_dtype);

// IEEE half and bfloat16, widened exactly and rounded once: to nearest even, NaN stays NaN, overflow gives infinity.
float delta_float16_to_float(uint16_t bits);
uint16_t delta_float16_from_double(double value);
float delta_bfloat16_to_float(uint16_t bits);
uint16_t delta_bfloat16_from_double(double value);

// Element access of any type, as float64 or int64. Conversions follow C, but float to integer saturates and NaN gives 0; to bool is != 0.
double delta_element_load_double(const void *data, delta_dtype_t dtype, size_t index);
void delta_element_store_double(void *data, delta_dtype_t dtype, size_t index, double value);
int64_t delta_element_load_int64(const void *data, delta_dtype_t dtype, size_t index);
void delta_element_store_int64(void *data, delta_dtype_t dtype, size_t index, int64_t value);

#endif // DELTA_BASE_DTYPE_H_
