// Products by register blocks: six rows of sixteen columns are summed in registers of whichever width the processor has.
#include "runtime/cpu/product.h"

#include <string.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/instruction_set.h"

enum { ROWS = DELTA_PRODUCT_ROWS, COLUMNS = DELTA_PRODUCT_COLUMNS };
// Sixteen registers hold 6 x 2 sums of 8 lanes and what is multiplied; with 32 twice as wide ones, 6 x 1 of 16 lanes.
typedef float eight_t __attribute__((vector_size(8 * sizeof(float))));
typedef float sixteen_t __attribute__((vector_size(16 * sizeof(float))));

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

#define ALWAYS_INLINE static inline __attribute__((always_inline))

ALWAYS_INLINE void store_sums(float *c, const float *sums, int64_t width, bool accumulate) {
  for (int64_t j = 0; j < width; ++j) c[j] = accumulate ? c[j] + sums[j] : sums[j];
}

// Six rows times one panel. Rows beyond the last read the last one again and are not stored.
#define DEFINE_TILE(suffix, lanes_t)                                                                                                       \
  ALWAYS_INLINE void multiply_tile_##suffix(const delta_product_t *product, int64_t first_row, const float *panel, int64_t first_column) { \
    enum { LANES = sizeof(lanes_t) / sizeof(float), PARTS = COLUMNS / LANES };                                                             \
    const int64_t rows = product->rows - first_row < ROWS ? product->rows - first_row : ROWS;                                              \
    const int64_t width = product->columns - first_column < COLUMNS ? product->columns - first_column : COLUMNS;                           \
    const int64_t a_depth = product->a_depth;                                                                                              \
    const float *a[ROWS];                                                                                                                  \
    lanes_t sums[ROWS][PARTS];                                                                                                             \
    for (int i = 0; i < ROWS; ++i) {                                                                                                       \
      a[i] = product->a + (first_row + (i < rows ? i : rows - 1)) * product->a_row;                                                        \
      for (int k = 0; k < PARTS; ++k) sums[i][k] = (lanes_t){0};                                                                           \
    }                                                                                                                                      \
    for (int64_t p = 0; p < product->depth; ++p, panel += COLUMNS) {                                                                       \
      lanes_t b[PARTS];                                                                                                                    \
      for (int k = 0; k < PARTS; ++k) memcpy(&b[k], panel + k * LANES, sizeof b[k]);                                                       \
      for (int i = 0; i < ROWS; ++i)                                                                                                       \
        for (int k = 0; k < PARTS; ++k) sums[i][k] += b[k] * a[i][p * a_depth];                                                            \
    }                                                                                                                                      \
    for (int i = 0; i < ROWS && i < rows; ++i) {                                                                                           \
      float *c = product->c + (first_row + i) * product->c_row + first_column, row[COLUMNS];                                               \
      memcpy(row, sums[i], sizeof row);                                                                                                    \
      if (width == COLUMNS) {                                                                                                              \
        store_sums(c, row, COLUMNS, product->accumulate);                                                                                  \
      } else {                                                                                                                             \
        store_sums(c, row, width, product->accumulate);                                                                                    \
      }                                                                                                                                    \
    }                                                                                                                                      \
  }
DEFINE_TILE(eight, eight_t)
DEFINE_TILE(sixteen, sixteen_t)

#define DEFINE_RUN(suffix)                                                                                         \
  void run_##suffix(const delta_product_t *product) {                                                              \
    for (int64_t column = 0; column < product->columns; column += COLUMNS) {                                       \
      const float *panel = product->panels + column / COLUMNS * product->panel_step;                               \
      for (int64_t row = 0; row < product->rows; row += ROWS) multiply_tile_##suffix(product, row, panel, column); \
    }                                                                                                              \
  }
DELTA_CPU_FMA_CLONES static DEFINE_RUN(eight) DELTA_CPU_AVX512 static DEFINE_RUN(sixteen)

    void delta_product_run(const delta_product_t *product) {
  if (DELTA_CPU_HAS_AVX512 && delta_cpu_instruction_set() == DELTA_INSTRUCTION_SET_AVX512) {
    run_sixteen(product);
  } else {
    run_eight(product);
  }
}
