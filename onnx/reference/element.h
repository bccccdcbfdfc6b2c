// Element: how the reference kernels reach the elements of tensors: as numbers, as rows of numbers, and by walking the indices of a shape.
//
// A number is a float64 for the float types and an int64 for all others; the reference kernels compute and accumulate in numbers, so that one
// body serves every storage type. Integer arithmetic wraps.
#ifndef DELTA_ONNX_REFERENCE_ELEMENT_H_
#define DELTA_ONNX_REFERENCE_ELEMENT_H_

#include <math.h>

#include "onnx/graph/access.h"

typedef union delta_number {
  double real;     // of float types
  int64_t integer; // of integer types and bool
} delta_number_t;

static inline delta_number_t delta_number_load(const void *data, delta_dtype_t dtype, int64_t index) {
  if (delta_dtype_is_float(dtype)) return (delta_number_t){.real = delta_element_load_double(data, dtype, (size_t)index)};
  return (delta_number_t){.integer = delta_element_load_int64(data, dtype, (size_t)index)};
}

// Stores a number that is `real` or not into an element of any type.
static inline void delta_number_store(void *data, delta_dtype_t dtype, int64_t index, bool real, delta_number_t value) {
  if (real) {
    delta_element_store_double(data, dtype, (size_t)index, value.real);
  } else {
    delta_element_store_int64(data, dtype, (size_t)index, value.integer);
  }
}

static inline delta_number_t delta_number_from(bool real, int64_t value) {
  return real ? (delta_number_t){.real = (double)value} : (delta_number_t){.integer = value};
}

static inline int64_t delta_wrapping_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }
static inline int64_t delta_wrapping_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }

static inline delta_number_t delta_number_add(bool real, delta_number_t a, delta_number_t b) {
  if (real) return (delta_number_t){.real = a.real + b.real};
  return (delta_number_t){.integer = delta_wrapping_add(a.integer, b.integer)};
}

static inline delta_number_t delta_number_mul(bool real, delta_number_t a, delta_number_t b) {
  if (real) return (delta_number_t){.real = a.real * b.real};
  return (delta_number_t){.integer = delta_wrapping_mul(a.integer, b.integer)};
}

// Whether `a` takes the place of `b` in a running maximum (or minimum): strictly beyond it, or the first NaN.
static inline bool delta_number_beats(bool real, bool smallest, delta_number_t a, delta_number_t b) {
  if (!real) return smallest ? a.integer < b.integer : a.integer > b.integer;
  if (isnan(b.real)) return false;
  return isnan(a.real) || (smallest ? a.real < b.real : a.real > b.real);
}

// What a maximum (minimum) over nothing is: the lowest (highest) value of the type, an infinity for float types.
delta_number_t delta_number_extreme(delta_dtype_t dtype, bool highest);

// Rows: `count` elements from element `start` on, `stride` elements apart, to or from numbers that are `row_stride` apart.
typedef struct delta_row {
  delta_dtype_t dtype;
  int64_t start, stride;
} delta_row_t;
void delta_row_load_float(const void *data, delta_row_t row, int64_t count, float *values, int64_t row_stride);
void delta_row_load_double(const void *data, delta_row_t row, int64_t count, double *values, int64_t row_stride);
void delta_row_load_int64(const void *data, delta_row_t row, int64_t count, int64_t *values, int64_t row_stride);
void delta_row_store_double(void *data, delta_row_t row, int64_t count, const double *values, int64_t row_stride);
void delta_row_store_int64(void *data, delta_row_t row, int64_t count, const int64_t *values, int64_t row_stride);

// Walk: visits every index of `dims` in row-major order and keeps the element offset of each operand. Operands get their strides after init.
//
//   delta_walk_init(&walk, &shape);
//   delta_shape_strides(&x_shape, walk.strides[0]);
//   for (bool more = delta_walk_begin(&walk); more; more = delta_walk_next(&walk)) use(walk.offsets[0]);
enum { DELTA_WALK_OPERANDS = DELTA_EXPR_MAX_INPUTS + 1 };
typedef struct delta_walk {
  int32_t rank;
  uint32_t operand_count;
  int64_t dims[DELTA_MAX_RANK];
  int64_t index[DELTA_MAX_RANK];
  int64_t strides[DELTA_WALK_OPERANDS][DELTA_MAX_RANK];
  int64_t offsets[DELTA_WALK_OPERANDS];
} delta_walk_t;

void delta_walk_init(delta_walk_t *walk, const delta_shape_t *shape, uint32_t operand_count);
// Goes to index 0 with all offsets at 0; false when there is no element.
bool delta_walk_begin(delta_walk_t *walk);
// Goes to the next index; false, and back at index 0, after the last.
bool delta_walk_next(delta_walk_t *walk);

// Copies elements of `element_bytes` over `shape`, each side with its own start and strides in elements.
void delta_copy_strided(const delta_shape_t *shape, size_t element_bytes, void *to, const delta_strided_t *to_layout, const void *from,
                        const delta_strided_t *from_layout);

// Sums in float64 beside an output of another type: the output's own bytes when it is float64, else a temporary.
typedef struct delta_sums {
  double *values; // zeroed at first
  bool owned;
} delta_sums_t;
DELTA_MUST_USE delta_status_t delta_sums_begin(const delta_reference_args_t *args, int64_t count, delta_sums_t *out_sums);
// Stores the sums into output 0 and releases the temporary.
void delta_sums_store(const delta_reference_args_t *args, int64_t count, delta_sums_t *sums);

// Element `position` of an index tensor as an index into a dimension of `size`; a negative one counts from the end. INVALID_ARGUMENT names the
// node when it is outside.
DELTA_MUST_USE delta_status_t delta_index_load(const delta_reference_args_t *args, uint32_t input, int64_t position, int64_t size,
                                               int64_t *out_index);

static inline const delta_tensor_t *delta_reference_input(const delta_reference_args_t *args, uint32_t k) {
  return delta_node_input(args->graph, args->node, k);
}
static inline const delta_tensor_t *delta_reference_output(const delta_reference_args_t *args, uint32_t k) {
  return delta_node_output(args->graph, args->node, k);
}

#endif // DELTA_ONNX_REFERENCE_ELEMENT_H_
