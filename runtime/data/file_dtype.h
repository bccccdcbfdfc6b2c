// File dtype: the number types that data files store, and their conversion to the types that graphs take.
//
// Files know more types than graphs do (numpy's unsigned and short integers, IDX's big-endian words). A file's elements are brought into
// this machine's byte order by the reader of the format; from there on the conversions below are the only ones.
#ifndef DELTA_RUNTIME_DATA_FILE_DTYPE_H_
#define DELTA_RUNTIME_DATA_FILE_DTYPE_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"

// X(identifier, name, numpy code, C type, how it reads: NUMBER, TRUTH of a byte, bits of a HALF)
#define DELTA_FILE_DTYPE_INTEGERS(X)          \
  X(BOOL, "bool", "b1", uint8_t, TRUTH)       \
  X(INT8, "int8", "i1", int8_t, NUMBER)       \
  X(INT16, "int16", "i2", int16_t, NUMBER)    \
  X(INT32, "int32", "i4", int32_t, NUMBER)    \
  X(INT64, "int64", "i8", int64_t, NUMBER)    \
  X(UINT8, "uint8", "u1", uint8_t, NUMBER)    \
  X(UINT16, "uint16", "u2", uint16_t, NUMBER) \
  X(UINT32, "uint32", "u4", uint32_t, NUMBER) \
  X(UINT64, "uint64", "u8", uint64_t, NUMBER)
#define DELTA_FILE_DTYPE_FLOATS(X)            \
  X(FLOAT16, "float16", "f2", uint16_t, HALF) \
  X(FLOAT32, "float32", "f4", float, NUMBER)  \
  X(FLOAT64, "float64", "f8", double, NUMBER)
#define DELTA_FILE_DTYPES(X) DELTA_FILE_DTYPE_INTEGERS(X) DELTA_FILE_DTYPE_FLOATS(X)

typedef enum delta_file_dtype {
#define DELTA_FILE_DTYPE_ENUM(id, name, numpy, c_type, reading) DELTA_FILE_DTYPE_##id,
  DELTA_FILE_DTYPES(DELTA_FILE_DTYPE_ENUM)
#undef DELTA_FILE_DTYPE_ENUM
      DELTA_FILE_DTYPE_COUNT
} delta_file_dtype_t;

size_t delta_file_dtype_bytes(delta_file_dtype_t type);
const char *delta_file_dtype_name(delta_file_dtype_t type);
// The type of a numpy code without its byte order ("f4"). False when there is none.
bool delta_file_dtype_from_numpy(const char *code, size_t code_length, delta_file_dtype_t *out_type);

// Whether values may become `dtype`: everything may become a float; only integers and bools may become integers or bools.
bool delta_file_dtype_converts(delta_file_dtype_t type, delta_dtype_t dtype);
// Whether the bytes of `type` are those of `dtype` already. Bools are not: a file may hold other bytes than 0 and 1.
bool delta_file_dtype_is_same(delta_file_dtype_t type, delta_dtype_t dtype);

bool delta_machine_is_little_endian(void);
// Reverses the bytes of each element.
void delta_file_dtype_swap(void *data, size_t count, size_t element_bytes);

// Loads `count` elements of any type as float64.
void delta_file_dtype_load_doubles(delta_file_dtype_t type, const void *data, size_t count, double *out_values);
// Loads `count` integers or bools. Returns the index of the first that int64 cannot hold, or `count`.
size_t delta_file_dtype_load_integers(delta_file_dtype_t type, const void *data, size_t count, int64_t *out_values);
// Stores `count` float64 as elements of a float dtype, from element `first` of `data` on.
void delta_file_dtype_store_doubles(delta_dtype_t dtype, void *data, size_t first, const double *values, size_t count);
// Stores `count` integers as elements of an integer or bool dtype. Returns the index of the first that the dtype cannot hold (a bool: 0 and
// 1), or `count`.
size_t delta_file_dtype_store_integers(delta_dtype_t dtype, void *data, size_t first, const int64_t *values, size_t count);

#endif // DELTA_RUNTIME_DATA_FILE_DTYPE_H_
