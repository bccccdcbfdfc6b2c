// Strided copies: rows of bytes where both sides are dense, square blocks where one side is dense across the other, single elements else.
#include "runtime/cpu/copy.h"

#include <string.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/team.h"

enum { BLOCK = 16 };

static void remove_dimension(delta_copy_t *copy, int32_t d) {
  for (int32_t i = d; i + 1 < copy->rank; ++i) {
    copy->dims[i] = copy->dims[i + 1];
    copy->to_strides[i] = copy->to_strides[i + 1];
    copy->from_strides[i] = copy->from_strides[i + 1];
  }
  --copy->rank;
}

static void merge_dimensions(delta_copy_t *copy) {
  for (int32_t d = copy->rank - 1; d >= 0; --d) {
    if (copy->dims[d] == 1 && copy->rank > 1) remove_dimension(copy, d);
  }
  for (int32_t d = copy->rank - 2; d >= 0; --d) {
    int64_t inner = copy->dims[d + 1];
    if (copy->to_strides[d] != copy->to_strides[d + 1] * inner || copy->from_strides[d] != copy->from_strides[d + 1] * inner) continue;
    copy->dims[d + 1] *= copy->dims[d];
    remove_dimension(copy, d);
  }
}

// Brings dimension d to the last but one place.
static void move_before_last(delta_copy_t *copy, int32_t d) {
  int64_t dim = copy->dims[d], to = copy->to_strides[d], from = copy->from_strides[d];
  for (; d < copy->rank - 2; ++d) {
    copy->dims[d] = copy->dims[d + 1];
    copy->to_strides[d] = copy->to_strides[d + 1];
    copy->from_strides[d] = copy->from_strides[d + 1];
  }
  copy->dims[d] = dim;
  copy->to_strides[d] = to;
  copy->from_strides[d] = from;
}

void delta_copy_init(delta_copy_t *copy, const delta_shape_t *box, size_t element_bytes, const delta_strided_t *to,
                     const delta_strided_t *from) {
  *copy = (delta_copy_t){.element_bytes = element_bytes, .rank = box->rank, .to_start = to->start, .from_start = from->start};
  for (int32_t d = 0; d < box->rank; ++d) {
    copy->dims[d] = box->dims[d];
    copy->to_strides[d] = to->strides[d];
    copy->from_strides[d] = from->strides[d];
  }
  if (box->rank == 0) {
    copy->rank = 1;
    copy->dims[0] = copy->to_strides[0] = copy->from_strides[0] = 1;
  }
  merge_dimensions(copy);
  if (copy->rank < 2 || copy->from_strides[copy->rank - 1] == 1) return;
  for (int32_t d = copy->rank - 2; d >= 0; --d) {
    if (copy->from_strides[d] != 1 || copy->to_strides[copy->rank - 1] != 1) continue;
    move_before_last(copy, d);
    copy->crosswise = true;
    return;
  }
}

// What the loops over elements are written for, once a size.
#define DELTA_COPY_TYPES(X) X(1, uint8_t) X(2, uint16_t) X(4, uint32_t) X(8, uint64_t)

// Across: element (i, j) goes to target i * to_stride + j from source i + j * from_stride. Whole lines of the source go through a small block, since lines
// that lie a power of two apart would push each other out of the cache.
#define DELTA_COPY_LOOPS(bytes, type)                                                                                                 \
  DELTA_CPU_CLONES static void copy_line_##bytes(void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t count) { \
    type *target = to;                                                                                                                \
    const type *source = from;                                                                                                        \
    for (int64_t i = 0; i < count; ++i) target[i * to_stride] = source[i * from_stride];                                              \
  }                                                                                                                                   \
  static void copy_block_##bytes(type *target, int64_t to_stride, const type *source, int64_t from_stride, int64_t rows,              \
                                 int64_t columns) {                                                                                   \
    for (int64_t i = 0; i < rows; ++i)                                                                                                \
      for (int64_t j = 0; j < columns; ++j) target[i * to_stride + j] = source[i + j * from_stride];                                  \
  }                                                                                                                                   \
  DELTA_CPU_CLONES static void copy_across_##bytes(void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t rows,  \
                                                   int64_t columns) {                                                                 \
    int64_t whole = rows == BLOCK ? columns / BLOCK * BLOCK : 0;                                                                      \
    for (int64_t begin = 0; begin < whole; begin += BLOCK) {                                                                          \
      type block[BLOCK][BLOCK];                                                                                                       \
      for (int64_t j = 0; j < BLOCK; ++j)                                                                                             \
        for (int64_t i = 0; i < BLOCK; ++i) block[i][j] = ((const type *)from)[i + (begin + j) * from_stride];                        \
      for (int64_t i = 0; i < BLOCK; ++i) memcpy((type *)to + i * to_stride + begin, block[i], sizeof block[i]);                      \
    }                                                                                                                                 \
    copy_block_##bytes((type *)to + whole, to_stride, (const type *)from + whole * from_stride, from_stride, rows, columns - whole);  \
  }
DELTA_COPY_TYPES(DELTA_COPY_LOOPS)
#undef DELTA_COPY_LOOPS

typedef struct delta_copy_loops {
  void (*line)(void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t count);
  void (*across)(void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t rows, int64_t columns);
} delta_copy_loops_t;

static const delta_copy_loops_t copy_loops[] = {
#define DELTA_COPY_ROW(bytes, type) [bytes] = {copy_line_##bytes, copy_across_##bytes},
    DELTA_COPY_TYPES(DELTA_COPY_ROW)
#undef DELTA_COPY_ROW
};

typedef struct delta_copy_run_context {
  const delta_copy_t *copy;
  char *to;
  const char *from;
} delta_copy_run_context_t;

// Offsets of the combination `index` of the first `count` dimensions.
static void offsets_of(const delta_copy_t *copy, int32_t count, int64_t index, int64_t *out_to, int64_t *out_from) {
  *out_to = copy->to_start;
  *out_from = copy->from_start;
  for (int32_t d = count - 1; d >= 0; --d) {
    int64_t at = index % copy->dims[d];
    index /= copy->dims[d];
    *out_to += at * copy->to_strides[d];
    *out_from += at * copy->from_strides[d];
  }
}

static void copy_line(const delta_copy_t *copy, char *to, const char *from, int64_t count) {
  int32_t last = copy->rank - 1;
  if (copy->to_strides[last] == 1 && copy->from_strides[last] == 1) {
    memcpy(to, from, (size_t)count * copy->element_bytes);
  } else {
    copy_loops[copy->element_bytes].line(to, copy->to_strides[last], from, copy->from_strides[last], count);
  }
}

// Items are elements of the only dimension.
static void copy_elements(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_copy_run_context_t *run = context;
  const delta_copy_t *copy = run->copy;
  int64_t size = (int64_t)copy->element_bytes;
  copy_line(copy, run->to + (copy->to_start + begin * copy->to_strides[0]) * size,
            run->from + (copy->from_start + begin * copy->from_strides[0]) * size, end - begin);
}

// Items are lines along the last dimension.
static void copy_lines(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_copy_run_context_t *run = context;
  const delta_copy_t *copy = run->copy;
  int64_t size = (int64_t)copy->element_bytes;
  for (int64_t line = begin; line < end; ++line) {
    int64_t to, from;
    offsets_of(copy, copy->rank - 1, line, &to, &from);
    copy_line(copy, run->to + to * size, run->from + from * size, copy->dims[copy->rank - 1]);
  }
}

static int64_t blocks_of(int64_t count) { return (count + BLOCK - 1) / BLOCK; }

// Items are bands of BLOCK rows over the last two dimensions.
static void copy_bands(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_copy_run_context_t *run = context;
  const delta_copy_t *copy = run->copy;
  int64_t size = (int64_t)copy->element_bytes;
  int32_t rows_d = copy->rank - 2, columns_d = copy->rank - 1;
  int64_t bands = blocks_of(copy->dims[rows_d]);
  for (int64_t item = begin; item < end; ++item) {
    int64_t to, from, row = item % bands * BLOCK, left = copy->dims[rows_d] - row;
    offsets_of(copy, rows_d, item / bands, &to, &from);
    copy_loops[copy->element_bytes].across(run->to + (to + row * copy->to_strides[rows_d]) * size, copy->to_strides[rows_d],
                                           run->from + (from + row) * size, copy->from_strides[columns_d], left < BLOCK ? left : BLOCK,
                                           copy->dims[columns_d]);
  }
}

void delta_copy_run(const delta_copy_t *copy, void *to, const void *from, int32_t threads) {
  const delta_copy_run_context_t run = {copy, to, from};
  int64_t outer = 1, size = 2 * (int64_t)copy->element_bytes, last = copy->dims[copy->rank - 1];
  if (last == 0) return;
  if (copy->rank == 1) {
    delta_team_run(threads, last, size, copy_elements, &run);
    return;
  }
  for (int32_t d = 0; d < copy->rank - 2; ++d) outer *= copy->dims[d];
  int64_t rows = copy->dims[copy->rank - 2];
  if (copy->crosswise) {
    delta_team_run(threads, outer * blocks_of(rows), BLOCK * last * size, copy_bands, &run);
  } else {
    delta_team_run(threads, outer * rows, last * size, copy_lines, &run);
  }
}
