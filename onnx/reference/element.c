// Element: row conversions, walks and strided copies for the reference kernels.
#include "onnx/reference/element.h"

#include <string.h>

delta_number_t delta_number_extreme(delta_dtype_t dtype, bool highest) {
  if (delta_dtype_is_float(dtype)) return (delta_number_t){.real = highest ? (double)INFINITY : -(double)INFINITY};
  switch (dtype) {
    case DELTA_DTYPE_INT32:
      return (delta_number_t){.integer = highest ? INT32_MAX : INT32_MIN};
    case DELTA_DTYPE_BOOL:
      return (delta_number_t){.integer = highest};
    case DELTA_DTYPE_UINT8:
      return (delta_number_t){.integer = highest ? UINT8_MAX : 0};
    default:
      return (delta_number_t){.integer = highest ? INT64_MAX : INT64_MIN};
  }
}

// Moves a row whose element type is the C type `stored`; the frequent types get a loop of their own, so that nothing is decided per element.
#define DELTA_ROW_LOAD_AS(stored, target) \
  for (int64_t i = 0; i < count; ++i) values[i * row_stride] = (target)((const stored *)data)[row.start + i * row.stride]
#define DELTA_ROW_STORE_AS(stored) \
  for (int64_t i = 0; i < count; ++i) ((stored *)data)[row.start + i * row.stride] = (stored)values[i * row_stride]

void delta_row_load_float(const void *data, delta_row_t row, int64_t count, float *values, int64_t row_stride) {
  switch (row.dtype) {
    case DELTA_DTYPE_FLOAT32:
      DELTA_ROW_LOAD_AS(float, float);
      return;
    // Not by way of float64, which would round twice.
    case DELTA_DTYPE_INT64:
      DELTA_ROW_LOAD_AS(int64_t, float);
      return;
    default:
      for (int64_t i = 0; i < count; ++i)
        values[i * row_stride] = (float)delta_element_load_double(data, row.dtype, (size_t)(row.start + i * row.stride));
  }
}

void delta_row_load_double(const void *data, delta_row_t row, int64_t count, double *values, int64_t row_stride) {
  switch (row.dtype) {
    case DELTA_DTYPE_FLOAT32:
      DELTA_ROW_LOAD_AS(float, double);
      return;
    case DELTA_DTYPE_FLOAT64:
      DELTA_ROW_LOAD_AS(double, double);
      return;
    default:
      for (int64_t i = 0; i < count; ++i)
        values[i * row_stride] = delta_element_load_double(data, row.dtype, (size_t)(row.start + i * row.stride));
  }
}

void delta_row_load_int64(const void *data, delta_row_t row, int64_t count, int64_t *values, int64_t row_stride) {
  switch (row.dtype) {
    case DELTA_DTYPE_INT64:
      DELTA_ROW_LOAD_AS(int64_t, int64_t);
      return;
    default:
      for (int64_t i = 0; i < count; ++i)
        values[i * row_stride] = delta_element_load_int64(data, row.dtype, (size_t)(row.start + i * row.stride));
  }
}

void delta_row_store_double(void *data, delta_row_t row, int64_t count, const double *values, int64_t row_stride) {
  switch (row.dtype) {
    case DELTA_DTYPE_FLOAT32:
      DELTA_ROW_STORE_AS(float);
      return;
    case DELTA_DTYPE_FLOAT64:
      DELTA_ROW_STORE_AS(double);
      return;
    default:
      for (int64_t i = 0; i < count; ++i)
        delta_element_store_double(data, row.dtype, (size_t)(row.start + i * row.stride), values[i * row_stride]);
  }
}

void delta_row_store_int64(void *data, delta_row_t row, int64_t count, const int64_t *values, int64_t row_stride) {
  switch (row.dtype) {
    case DELTA_DTYPE_INT64:
      DELTA_ROW_STORE_AS(int64_t);
      return;
    default:
      for (int64_t i = 0; i < count; ++i)
        delta_element_store_int64(data, row.dtype, (size_t)(row.start + i * row.stride), values[i * row_stride]);
  }
}

void delta_walk_init(delta_walk_t *walk, const delta_shape_t *shape, uint32_t operand_count) {
  *walk = (delta_walk_t){.rank = shape->rank, .operand_count = operand_count};
  memcpy(walk->dims, shape->dims, sizeof walk->dims);
}

bool delta_walk_begin(delta_walk_t *walk) {
  memset(walk->index, 0, sizeof walk->index);
  memset(walk->offsets, 0, sizeof walk->offsets);
  for (int32_t d = 0; d < walk->rank; ++d)
    if (walk->dims[d] == 0) return false;
  return true;
}

bool delta_walk_next(delta_walk_t *walk) {
  for (int32_t d = walk->rank - 1; d >= 0; --d) {
    bool carries = walk->index[d] + 1 == walk->dims[d];
    int64_t move = carries ? -walk->index[d] : 1;
    walk->index[d] += move;
    for (uint32_t k = 0; k < walk->operand_count; ++k) walk->offsets[k] += move * walk->strides[k][d];
    if (!carries) return true;
  }
  return false;
}

static void copy_row(size_t element_bytes, int64_t count, char *to, int64_t to_stride, const char *from, int64_t from_stride) {
  if (to_stride == 1 && from_stride == 1) {
    memmove(to, from, (size_t)count * element_bytes);
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    memcpy(to + i * to_stride * (int64_t)element_bytes, from + i * from_stride * (int64_t)element_bytes, element_bytes);
}

void delta_copy_strided(const delta_shape_t *shape, size_t element_bytes, void *to, const delta_strided_t *to_layout, const void *from,
                        const delta_strided_t *from_layout) {
  delta_walk_t walk;
  delta_walk_init(&walk, shape, 2);
  memcpy(walk.strides[0], to_layout->strides, sizeof walk.strides[0]);
  memcpy(walk.strides[1], from_layout->strides, sizeof walk.strides[1]);
  // The last dimension is copied as a row.
  int32_t last = shape->rank - 1;
  int64_t row_count = last >= 0 ? shape->dims[last] : 1;
  if (row_count == 0) return;
  if (last >= 0) walk.dims[last] = 1;
  for (bool more = delta_walk_begin(&walk); more; more = delta_walk_next(&walk)) {
    copy_row(element_bytes, row_count, (char *)to + (to_layout->start + walk.offsets[0]) * (int64_t)element_bytes,
             last >= 0 ? to_layout->strides[last] : 1, (const char *)from + (from_layout->start + walk.offsets[1]) * (int64_t)element_bytes,
             last >= 0 ? from_layout->strides[last] : 1);
  }
}

delta_status_t delta_sums_begin(const delta_reference_args_t *args, int64_t count, delta_sums_t *out_sums) {
  *out_sums = (delta_sums_t){.owned = delta_reference_output(args, 0)->dtype != DELTA_DTYPE_FLOAT64};
  if (out_sums->owned) return delta_allocate(args->allocator, (size_t)count, sizeof(double), (void **)&out_sums->values);
  out_sums->values = args->outputs[0];
  memset(out_sums->values, 0, (size_t)count * sizeof(double));
  return DELTA_OK;
}

void delta_sums_store(const delta_reference_args_t *args, int64_t count, delta_sums_t *sums) {
  if (!sums->owned) return;
  delta_row_t row = {delta_reference_output(args, 0)->dtype, 0, 1};
  delta_row_store_double(args->outputs[0], row, count, sums->values, 1);
  delta_release(args->allocator, sums->values);
}

delta_status_t delta_index_load(const delta_reference_args_t *args, uint32_t input, int64_t position, int64_t size, int64_t *out_index) {
  int64_t index = delta_element_load_int64(args->inputs[input], delta_reference_input(args, input)->dtype, (size_t)position);
  if (index < -size || index >= size) return delta_index_outside(args->node, input, position, index, size);
  *out_index = index < 0 ? index + size : index;
  return DELTA_OK;
}
