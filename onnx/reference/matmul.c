// MATMUL by reference: tiles of the result are summed over k in order, with both operands converted to numbers a stretch at a time.
#include "onnx/reference/element.h"

#include <string.h>

enum { MATMUL_TILE_ROWS = 16, MATMUL_TILE_COLUMNS = 64 };

// One matrix of an operand: element (row, column) is at start + row * row_stride + column * column_stride.
typedef struct matrix {
  void *written;     // of the result
  const void *added; // of the result: what is added to the product, or NULL; may be the same as `written`
  const void *bias;  // of the result: what is added to all of a column, or NULL
  const void *data;
  delta_dtype_t dtype;
  int64_t start, row_stride, column_stride;
} matrix_t;

// Computes the tile of `c` that begins at (row, column). `sum_type` is what products add up in; for integers unsigned, which wraps.
#define DEFINE_MATMUL_TILE(suffix, number_type, sum_type)                                                                               \
  static void matmul_tile_##suffix(const matrix_t *a, const matrix_t *b, const matrix_t *c, int64_t depth, int64_t row, int64_t column, \
                                   int64_t rows, int64_t columns) {                                                                     \
    sum_type sums[MATMUL_TILE_ROWS][MATMUL_TILE_COLUMNS];                                                                               \
    number_type a_column[MATMUL_TILE_ROWS], b_row[MATMUL_TILE_COLUMNS];                                                                 \
    memset(sums, 0, sizeof sums);                                                                                                       \
    for (int64_t k = 0; k < depth; ++k) {                                                                                               \
      delta_row_t a_layout = {a->dtype, a->start + row * a->row_stride + k * a->column_stride, a->row_stride};                          \
      delta_row_t b_layout = {b->dtype, b->start + k * b->row_stride + column * b->column_stride, b->column_stride};                    \
      delta_row_load_##suffix(a->data, a_layout, rows, a_column, 1);                                                                    \
      delta_row_load_##suffix(b->data, b_layout, columns, b_row, 1);                                                                    \
      for (int64_t i = 0; i < rows; ++i)                                                                                                \
        for (int64_t j = 0; j < columns; ++j) sums[i][j] += (sum_type)a_column[i] * (sum_type)b_row[j];                                 \
    }                                                                                                                                   \
    for (int64_t i = 0; i < rows; ++i) {                                                                                                \
      delta_row_t c_layout = {c->dtype, c->start + (row + i) * c->row_stride + column, 1};                                              \
      number_type results[MATMUL_TILE_COLUMNS] = {0}, bias[MATMUL_TILE_COLUMNS] = {0};                                                  \
      if (c->added) delta_row_load_##suffix(c->added, c_layout, columns, results, 1);                                                   \
      if (c->bias) delta_row_load_##suffix(c->bias, (delta_row_t){c->dtype, column, 1}, columns, bias, 1);                              \
      for (int64_t j = 0; j < columns; ++j) results[j] = (number_type)((sum_type)results[j] + sums[i][j] + (sum_type)bias[j]);          \
      delta_row_store_##suffix(c->written, c_layout, columns, results, 1);                                                              \
    }                                                                                                                                   \
  }

DEFINE_MATMUL_TILE(double, double, double)
DEFINE_MATMUL_TILE(int64, int64_t, uint64_t)

static void matmul_matrix(const matrix_t *a, const matrix_t *b, const matrix_t *c, int64_t rows, int64_t depth, int64_t columns) {
  bool real = delta_dtype_is_float(c->dtype);
  for (int64_t row = 0; row < rows; row += MATMUL_TILE_ROWS) {
    int64_t tile_rows = rows - row < MATMUL_TILE_ROWS ? rows - row : MATMUL_TILE_ROWS;
    for (int64_t column = 0; column < columns; column += MATMUL_TILE_COLUMNS) {
      int64_t tile_columns = columns - column < MATMUL_TILE_COLUMNS ? columns - column : MATMUL_TILE_COLUMNS;
      (real ? matmul_tile_double : matmul_tile_int64)(a, b, c, depth, row, column, tile_rows, tile_columns);
    }
  }
}

// Describes the last two dimensions; the strides swap when the operand is stored transposed.
static matrix_t matrix_of(const delta_tensor_t *tensor, const void *data, bool transposed) {
  int64_t width = tensor->shape.dims[tensor->shape.rank - 1];
  return (matrix_t){.data = data, .dtype = tensor->dtype, .row_stride = transposed ? 1 : width, .column_stride = transposed ? width : 1};
}

// Strides of an operand's leading dimensions, broadcast to those of the result.
static void batch_strides(const delta_shape_t *operand, const delta_shape_t *batch, int64_t strides[DELTA_MAX_RANK]) {
  delta_shape_t leading = *operand;
  leading.rank -= 2;
  delta_shape_broadcast_strides(&leading, batch, strides);
  int64_t matrix_count = delta_shape_count_range(operand, operand->rank - 2, operand->rank);
  for (int32_t d = 0; d < batch->rank; ++d) strides[d] *= matrix_count;
}

delta_status_t delta_reference_matmul(const delta_reference_args_t *args) {
  const delta_matmul_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *a = delta_reference_input(args, 0), *b = delta_reference_input(args, 1), *y = delta_reference_output(args, 0);
  int64_t rows = y->shape.dims[y->shape.rank - 2], columns = y->shape.dims[y->shape.rank - 1];
  int64_t depth = a->shape.dims[a->shape.rank - (attrs->transpose_a ? 2 : 1)];

  delta_shape_t batch = y->shape;
  batch.rank -= 2;
  delta_walk_t walk;
  delta_walk_init(&walk, &batch, 2);
  batch_strides(&a->shape, &batch, walk.strides[0]);
  batch_strides(&b->shape, &batch, walk.strides[1]);

  matrix_t a_matrix = matrix_of(a, args->inputs[0], attrs->transpose_a), b_matrix = matrix_of(b, args->inputs[1], attrs->transpose_b);
  matrix_t c_matrix = {.written = args->outputs[0],
                       .added = delta_reference_input(args, 2) ? args->inputs[2] : NULL,
                       .bias = delta_reference_input(args, 3) ? args->inputs[3] : NULL,
                       .dtype = y->dtype,
                       .row_stride = columns};
  for (bool more = delta_walk_begin(&walk); more; more = delta_walk_next(&walk)) {
    a_matrix.start = walk.offsets[0];
    b_matrix.start = walk.offsets[1];
    matmul_matrix(&a_matrix, &b_matrix, &c_matrix, rows, depth, columns);
    c_matrix.start += rows * columns;
  }
  return DELTA_OK;
}
