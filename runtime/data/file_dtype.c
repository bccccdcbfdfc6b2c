// File dtype: conversion through float64 (to floats) or int64 (to integers), so that N file types and M graph types need N + M loops.
#include "runtime/data/file_dtype.h"

#include <assert.h>
#include <string.h>

typedef struct file_dtype_info {
  const char *name;
  const char *numpy;
  size_t bytes;
} file_dtype_info_t;

static const file_dtype_info_t file_dtype_infos[DELTA_FILE_DTYPE_COUNT] = {
#define DELTA_FILE_DTYPE_INFO(id, name, numpy, c_type, reading) {name, numpy, sizeof(c_type)},
    DELTA_FILE_DTYPES(DELTA_FILE_DTYPE_INFO)
#undef DELTA_FILE_DTYPE_INFO
};

size_t delta_file_dtype_bytes(delta_file_dtype_t type) { return file_dtype_infos[type].bytes; }

const char *delta_file_dtype_name(delta_file_dtype_t type) { return file_dtype_infos[type].name; }

bool delta_file_dtype_from_numpy(const char *code, size_t code_length, delta_file_dtype_t *out_type) {
  for (int type = 0; type < DELTA_FILE_DTYPE_COUNT; ++type) {
    if (strlen(file_dtype_infos[type].numpy) != code_length || memcmp(file_dtype_infos[type].numpy, code, code_length) != 0) continue;
    *out_type = (delta_file_dtype_t)type;
    return true;
  }
  return false;
}

bool delta_file_dtype_converts(delta_file_dtype_t type, delta_dtype_t dtype) {
  return delta_dtype_is_float(dtype) || type < DELTA_FILE_DTYPE_FLOAT16;
}

bool delta_file_dtype_is_same(delta_file_dtype_t type, delta_dtype_t dtype) {
  return dtype != DELTA_DTYPE_BOOL && strcmp(file_dtype_infos[type].name, delta_dtype_name(dtype)) == 0;
}

bool delta_machine_is_little_endian(void) {
  const uint16_t one = 1;
  unsigned char low;
  memcpy(&low, &one, 1);
  return low == 1;
}

void delta_file_dtype_swap(void *data, size_t count, size_t element_bytes) {
  unsigned char *bytes = data;
  for (size_t i = 0; i < count; ++i, bytes += element_bytes) {
    for (size_t low = 0, high = element_bytes - 1; low < high; ++low, --high) {
      unsigned char byte = bytes[low];
      bytes[low] = bytes[high];
      bytes[high] = byte;
    }
  }
}

#define DELTA_FILE_DTYPE_READ_NUMBER(value) (value)
#define DELTA_FILE_DTYPE_READ_TRUTH(value)  ((value) != 0)
#define DELTA_FILE_DTYPE_READ_HALF(value)   delta_float16_to_float(value)

void delta_file_dtype_load_doubles(delta_file_dtype_t type, const void *data, size_t count, double *out_values) {
  switch (type) {
#define DELTA_FILE_DTYPE_LOAD(id, name, numpy, c_type, reading)                                                            \
  case DELTA_FILE_DTYPE_##id:                                                                                              \
    for (size_t i = 0; i < count; ++i) out_values[i] = (double)DELTA_FILE_DTYPE_READ_##reading(((const c_type *)data)[i]); \
    return;
    DELTA_FILE_DTYPES(DELTA_FILE_DTYPE_LOAD)
#undef DELTA_FILE_DTYPE_LOAD
    default:
      assert(!"no element type");
  }
}

size_t delta_file_dtype_load_integers(delta_file_dtype_t type, const void *data, size_t count, int64_t *out_values) {
  switch (type) {
#define DELTA_FILE_DTYPE_LOAD(id, name, numpy, c_type, reading)                                                             \
  case DELTA_FILE_DTYPE_##id:                                                                                               \
    for (size_t i = 0; i < count; ++i) out_values[i] = (int64_t)DELTA_FILE_DTYPE_READ_##reading(((const c_type *)data)[i]); \
    break;
    DELTA_FILE_DTYPE_INTEGERS(DELTA_FILE_DTYPE_LOAD)
#undef DELTA_FILE_DTYPE_LOAD
    default:
      assert(!"not an integer type");
  }
  if (type != DELTA_FILE_DTYPE_UINT64) return count;
  for (size_t i = 0; i < count; ++i) {
    if (out_values[i] < 0) return i; // above INT64_MAX before the cast
  }
  return count;
}

void delta_file_dtype_store_doubles(delta_dtype_t dtype, void *data, size_t first, const double *values, size_t count) {
  if (dtype == DELTA_DTYPE_FLOAT32) { // by far the most common, and worth a loop of its own
    float *floats = (float *)data + first;
    for (size_t i = 0; i < count; ++i) floats[i] = (float)values[i];
    return;
  }
  for (size_t i = 0; i < count; ++i) delta_element_store_double(data, dtype, first + i, values[i]);
}

// The values an integer or bool dtype holds.
static void integer_limits(delta_dtype_t dtype, int64_t *out_minimum, int64_t *out_maximum) {
  *out_minimum = 0;
  switch (dtype) {
    case DELTA_DTYPE_BOOL:
      *out_maximum = 1;
      return;
    case DELTA_DTYPE_UINT8:
      *out_maximum = UINT8_MAX;
      return;
    case DELTA_DTYPE_INT32:
      *out_minimum = INT32_MIN;
      *out_maximum = INT32_MAX;
      return;
    default:
      assert(dtype == DELTA_DTYPE_INT64);
      *out_minimum = INT64_MIN;
      *out_maximum = INT64_MAX;
  }
}

size_t delta_file_dtype_store_integers(delta_dtype_t dtype, void *data, size_t first, const int64_t *values, size_t count) {
  int64_t minimum, maximum;
  integer_limits(dtype, &minimum, &maximum);
  for (size_t i = 0; i < count; ++i) {
    if (values[i] < minimum || values[i] > maximum) return i;
    delta_element_store_int64(data, dtype, first + i, values[i]);
  }
  return count;
}
