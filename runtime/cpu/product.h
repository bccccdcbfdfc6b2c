// Product: small products of float32 matrices on the calling thread, for kernels that multiply blocks which stay in cache.
//
// The second operand is packed first: panels of DELTA_PRODUCT_COLUMNS columns, in each of which the columns of one depth lie side by side; missing columns
// of the last panel are 0. The first operand and the result have strides. Each element of a result sums in order of depth, whatever the shape.
#ifndef DELTA_RUNTIME_CPU_PRODUCT_H_
#define DELTA_RUNTIME_CPU_PRODUCT_H_

#include <stdbool.h>
#include <stdint.h>

enum { DELTA_PRODUCT_COLUMNS = 16, DELTA_PRODUCT_ROWS = 6 };

// Columns filled up to whole panels.
static inline int64_t delta_product_padded(int64_t columns) {
  return (columns + DELTA_PRODUCT_COLUMNS - 1) / DELTA_PRODUCT_COLUMNS * DELTA_PRODUCT_COLUMNS;
}

// Packs element (p, c) at b[p * depth_stride + c * column_stride] into panels of delta_product_padded(columns) * depth floats.
void delta_product_pack(int64_t depth, int64_t columns, const float *b, int64_t depth_stride, int64_t column_stride, float *panels);

typedef struct delta_product {
  int64_t rows, columns, depth;
  const float *a; // element (i, p) at a[i * a_row + p * a_depth]
  int64_t a_row, a_depth;
  const float *panels; // panel k at panels + k * panel_step
  int64_t panel_step;
  float *c; // element (i, j) at c[i * c_row + j]
  int64_t c_row;
  bool accumulate; // c += a b, else c = a b
} delta_product_t;
void delta_product_run(const delta_product_t *product);

#endif // DELTA_RUNTIME_CPU_PRODUCT_H_
