// Products by register blocks: six rows of sixteen columns are summed in registers of whichever width the processor has.
#include "runtime/cpu/product.h"

#include <string.h>

#include "runtime/cpu/clones.h"

enum { ROWS = DELTA_PRODUCT_ROWS, COLUMNS = DELTA_PRODUCT_COLUMNS };
typedef float lanes_t __attribute__((vector_size(COLUMNS * sizeof(float))));

void delta_product_pack(int64_t depth, int64_t columns, const float *b, int64_t depth_stride, int64_t column_stride, float *panels) {
  for (int64_t first = 0; first < columns; first += COLUMNS) {
    const int64_t width = columns - first < COLUMNS ? columns - first : COLUMNS;
    for (int64_t p = 0; p < depth; ++p, panels += COLUMNS) {
      const float *from = b + p * depth_stride + first * column_stride;
      for (int64_t c = 0; c < width; ++c) panels[c] = from[c * column_stride];
      for (int64_t c = width; c < COLUMNS; ++c) panels[c] = 0.0f;
    }
  }
}

static inline __attribute__((always_inline)) void store_sums(float *c, lanes_t sums, int64_t width, bool accumulate) {
  lanes_t before = {0};
  if (width == COLUMNS) {
    if (accumulate) memcpy(&before, c, sizeof before);
    before += sums;
    memcpy(c, &before, sizeof before);
  } else {
    if (accumulate) memcpy(&before, c, (size_t)width * sizeof *c);
    before += sums;
    memcpy(c, &before, (size_t)width * sizeof *c);
  }
}

// Six rows times one panel. Rows beyond the last read the last one again and are not stored.
static inline __attribute__((always_inline)) void multiply_tile(const delta_product_t *product, int64_t first_row, const float *panel,
                                                                int64_t first_column) {
  const int64_t rows = product->rows - first_row < ROWS ? product->rows - first_row : ROWS;
  const int64_t width = product->columns - first_column < COLUMNS ? product->columns - first_column : COLUMNS;
  const float *a[ROWS];
  lanes_t sums[ROWS];
  for (int i = 0; i < ROWS; ++i) {
    a[i] = product->a + (first_row + (i < rows ? i : rows - 1)) * product->a_row;
    sums[i] = (lanes_t){0};
  }
  const int64_t a_depth = product->a_depth;
  for (int64_t p = 0; p < product->depth; ++p, panel += COLUMNS) {
    lanes_t b;
    memcpy(&b, panel, sizeof b);
    for (int i = 0; i < ROWS; ++i) sums[i] += b * a[i][p * a_depth];
  }
  for (int i = 0; i < ROWS && i < rows; ++i) {
    store_sums(product->c + (first_row + i) * product->c_row + first_column, sums[i], width, product->accumulate);
  }
}

DELTA_CPU_FMA_CLONES void delta_product_run(const delta_product_t *product) {
  for (int64_t column = 0; column < product->columns; column += COLUMNS) {
    const float *panel = product->panels + column / COLUMNS * product->panel_step;
    for (int64_t row = 0; row < product->rows; row += ROWS) multiply_tile(product, row, panel, column);
  }
}
