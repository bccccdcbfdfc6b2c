// Matrix products of cuBLAS and cuBLASLt, in float32 and float64. A workspace is filled with nonsense when the product runs, so that two that share one too early are found.
#include <cublasLt.h>
#include <math.h>
#include <stdlib.h>

#include "tests/cuda/emulation/calls.h"
#include "tests/cuda/emulation/memory.h"
#include "tests/cuda/emulation/number.h"
#include "tests/cuda/emulation/stream.h"

enum { WORKSPACE_BYTES = 64 << 10 }; // of the second algorithm

// A matrix, or a batch of them.
typedef struct matrix {
  delta_emulated_elements_t elements;
  int64_t rows, columns, row_stride, column_stride, batch_stride;
} matrix_t;

typedef struct product {
  matrix_t a, b, c, d;
  int64_t depth, batch;
  double alpha, beta;
  cublasLtEpilogue_t epilogue;
  const float *bias; // one a row of d; NULL: none
  void *workspace;
  size_t workspace_bytes;
} product_t;

struct cublasLtContext {
  char unused;
};

struct cublasContext {
  cudaStream_t stream;
  cublasMath_t math;
};

// ---- Status names

static const struct status_row {
  cublasStatus_t status;
  const char *name;
} statuses[] = {
#define STATUS(name) {name, #name},
    STATUS(CUBLAS_STATUS_SUCCESS) STATUS(CUBLAS_STATUS_NOT_INITIALIZED) STATUS(CUBLAS_STATUS_ALLOC_FAILED)
        STATUS(CUBLAS_STATUS_INVALID_VALUE) STATUS(CUBLAS_STATUS_ARCH_MISMATCH) STATUS(CUBLAS_STATUS_EXECUTION_FAILED)
            STATUS(CUBLAS_STATUS_INTERNAL_ERROR) STATUS(CUBLAS_STATUS_NOT_SUPPORTED)
#undef STATUS
};

const char *cublasGetStatusName(cublasStatus_t status) {
  for (size_t k = 0; k < sizeof statuses / sizeof *statuses; ++k) {
    if (statuses[k].status == status) return statuses[k].name;
  }
  return "an unknown status";
}

const char *cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }
const char *cublasLtGetStatusName(cublasStatus_t status) { return cublasGetStatusName(status); }
const char *cublasLtGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

// ---- Products

static double apply_epilogue(const product_t *product, double value, int64_t row) {
  if (product->bias) value += product->bias[row];
  const bool is_relu = product->epilogue == CUBLASLT_EPILOGUE_RELU || product->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
  const bool is_gelu = product->epilogue == CUBLASLT_EPILOGUE_GELU || product->epilogue == CUBLASLT_EPILOGUE_GELU_BIAS;
  if (is_relu) return value > 0 ? value : 0;
  if (is_gelu) return 0.5 * value * (1 + tanh(0.7978845608028654 * (value + 0.044715 * value * value * value)));
  return value;
}

static int64_t place_of(const matrix_t *matrix, int64_t row, int64_t column, int64_t batch) {
  return row * matrix->row_stride + column * matrix->column_stride + batch * matrix->batch_stride;
}

static void run_product(void *self, delta_emulated_team_t *team) {
  const product_t *p = self;
  (void)team;
  if (p->workspace_bytes) memset(p->workspace, DELTA_EMULATED_FILL, p->workspace_bytes);
  for (int64_t batch = 0; batch < p->batch; ++batch) {
    for (int64_t column = 0; column < p->d.columns; ++column) {
      for (int64_t row = 0; row < p->d.rows; ++row) {
        double sum = 0;
        for (int64_t k = 0; k < p->depth; ++k) {
          sum += delta_emulated_load(&p->a.elements, place_of(&p->a, row, k, batch)) *
                 delta_emulated_load(&p->b.elements, place_of(&p->b, k, column, batch));
        }
        sum *= p->alpha;
        if (p->beta != 0) sum += p->beta * delta_emulated_load(&p->c.elements, place_of(&p->c, row, column, batch));
        delta_emulated_store(&p->d.elements, place_of(&p->d, row, column, batch), apply_epilogue(p, sum, row));
      }
    }
  }
}

static bool is_matrix_on_device(const char *call, const char *name, const matrix_t *matrix, int64_t batch) {
  const int64_t last = place_of(matrix, matrix->rows - 1, matrix->columns - 1, batch - 1);
  return delta_emulated_is_device(call, name, matrix->elements.data, (size_t)(last + 1) * delta_emulated_element_bytes(&matrix->elements));
}

static cublasStatus_t put_product(const char *call, const product_t *product, cudaStream_t stream) {
  if (product->d.rows == 0 || product->d.columns == 0 || product->batch == 0) return CUBLAS_STATUS_SUCCESS;
  const bool is_right =
      (product->depth == 0 ||
       (is_matrix_on_device(call, "A", &product->a, product->batch) && is_matrix_on_device(call, "B", &product->b, product->batch))) &&
      (product->beta == 0 || is_matrix_on_device(call, "C", &product->c, product->batch)) &&
      is_matrix_on_device(call, "D", &product->d, product->batch) &&
      (!product->bias || delta_emulated_is_device(call, "the bias", product->bias, (size_t)product->d.rows * sizeof(float))) &&
      (!product->workspace_bytes || delta_emulated_is_device(call, "the workspace", product->workspace, product->workspace_bytes));
  if (!is_right) return CUBLAS_STATUS_INVALID_VALUE;
  product_t *self = malloc(sizeof *self);
  if (!self) return CUBLAS_STATUS_ALLOC_FAILED;
  *self = *product;
  const delta_emulated_operation_t operation = {
      .name = call, .self = self, .run = run_product, .delay_seconds = delta_emulated_settings()->launch_delay_seconds};
  return delta_emulated_put(stream, &operation) == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

// ---- cuBLAS

DELTA_EMULATED_MAKE_CALL(cublasCreate_v2, cublasHandle_t, cublasStatus_t, CUBLAS_STATUS_ALLOC_FAILED)

DELTA_EMULATED_FREE_CALL(cublasDestroy_v2, cublasHandle_t, cublasStatus_t, CUBLAS_STATUS_INTERNAL_ERROR)

cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_INTERNAL_ERROR);
  (void)handle;
  *version = CUBLAS_VERSION;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_INTERNAL_ERROR);
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t workspace_bytes) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_INTERNAL_ERROR);
  (void)handle;
  const bool is_right = !workspace_bytes || delta_emulated_is_device(__func__, "the workspace", workspace, workspace_bytes);
  return is_right ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_INTERNAL_ERROR);
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

// A column-major operand of `rows` x `columns` after its transposition.
static matrix_t operand_of(const void *data, bool is_double, bool is_rounded, cublasOperation_t operation, int64_t rows, int64_t columns,
                           int64_t leading, int64_t batch_stride) {
  return (matrix_t){.elements = {.data = (void *)data, .is_double = is_double, .is_rounded = is_rounded},
                    .rows = rows,
                    .columns = columns,
                    .row_stride = operation == CUBLAS_OP_N ? 1 : leading,
                    .column_stride = operation == CUBLAS_OP_N ? leading : 1,
                    .batch_stride = batch_stride};
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                                          const void *alpha, const void *A, cudaDataType Atype, int lda, long long int strideA,
                                          const void *B, cudaDataType Btype, int ldb, long long int strideB, const void *beta, void *C,
                                          cudaDataType Ctype, int ldc, long long int strideC, int batchCount,
                                          cublasComputeType_t computeType, cublasGemmAlgo_t algo) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_EXECUTION_FAILED);
  (void)algo;
  if (Atype != Btype || Atype != Ctype || (Atype != CUDA_R_32F && Atype != CUDA_R_64F)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool is_double = Atype == CUDA_R_64F,
             is_rounded = !is_double && (computeType == CUBLAS_COMPUTE_32F_FAST_TF32 ||
                                         (computeType == CUBLAS_COMPUTE_32F && (handle->math & 7) == CUBLAS_TF32_TENSOR_OP_MATH));
  product_t product = {.a = operand_of(A, is_double, is_rounded, transa, m, k, lda, strideA),
                       .b = operand_of(B, is_double, is_rounded, transb, k, n, ldb, strideB),
                       .d = operand_of(C, is_double, false, CUBLAS_OP_N, m, n, ldc, strideC),
                       .depth = k,
                       .batch = batchCount,
                       .alpha = delta_emulated_factor(alpha, is_double),
                       .beta = delta_emulated_factor(beta, is_double),
                       .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
  product.c = product.d;
  return put_product(__func__, &product, handle->stream);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n, int k,
                            const void *alpha, const void *A, cudaDataType Atype, int lda, const void *B, cudaDataType Btype, int ldb,
                            const void *beta, void *C, cudaDataType Ctype, int ldc, cublasComputeType_t computeType,
                            cublasGemmAlgo_t algo) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_EXECUTION_FAILED);
  return cublasGemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, A, Atype, lda, 0, B, Btype, ldb, 0, beta, C, Ctype, ldc, 0, 1,
                                    computeType, algo);
}

// ---- cuBLASLt: descriptions. Each lies in the words of its opaque structure.

enum { MATRICES = 4, OPERANDS }; // A, B, C and D; and a bias

typedef struct matmul_description {
  int32_t compute_type, scale_type, transpose_a, transpose_b;
  uint32_t epilogue;
  int32_t pointer_mode;
  const void *bias;
  int64_t bias_batch_stride;
} matmul_description_t;

typedef struct layout {
  int32_t type, order;
  uint64_t rows, columns;
  int64_t leading;
  int32_t batch;
  int64_t batch_stride;
} layout_t;

typedef struct preference {
  uint64_t most_workspace_bytes;
  uint32_t reduction_mask;
  uint32_t alignments[MATRICES]; // what the caller promises of addresses; 0: nothing
} preference_t;

_Static_assert(sizeof(matmul_description_t) <= sizeof(cublasLtMatmulDescOpaque_t), "a description fits");
_Static_assert(sizeof(layout_t) <= sizeof(cublasLtMatrixLayoutOpaque_t), "a layout fits");
_Static_assert(sizeof(preference_t) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "a preference fits");

// An attribute that can be set: its number, and where it lies.
typedef struct attribute {
  int number;
  size_t offset, size_bytes;
} attribute_t;

#define ATTRIBUTE(number, type, member) \
  { number, offsetof(type, member), sizeof(((type *)0)->member) }

static cublasStatus_t set_attribute(void *object, const attribute_t *attributes, size_t count, int number, const void *value,
                                    size_t size_bytes) {
  for (size_t k = 0; k < count; ++k) {
    if (attributes[k].number != number) continue;
    if (!value || attributes[k].size_bytes != size_bytes) return CUBLAS_STATUS_INVALID_VALUE;
    memcpy((uint8_t *)object + attributes[k].offset, value, size_bytes);
    return CUBLAS_STATUS_SUCCESS;
  }
  delta_emulated_report("cublasLt: attribute %d is not emulated", number);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

DELTA_EMULATED_MAKE_CALL(cublasLtCreate, cublasLtHandle_t, cublasStatus_t, CUBLAS_STATUS_ALLOC_FAILED)

DELTA_EMULATED_FREE_CALL(cublasLtDestroy, cublasLtHandle_t, cublasStatus_t, CUBLAS_STATUS_INTERNAL_ERROR)

size_t cublasLtGetVersion(void) { return CUBLAS_VERSION; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute_type, cudaDataType scale_type) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_ALLOC_FAILED);
  *out = calloc(1, sizeof **out);
  if (!*out) return CUBLAS_STATUS_ALLOC_FAILED;
  *(matmul_description_t *)*out = (matmul_description_t){
      .compute_type = (int32_t)compute_type, .scale_type = (int32_t)scale_type, .epilogue = CUBLASLT_EPILOGUE_DEFAULT};
  return CUBLAS_STATUS_SUCCESS;
}

DELTA_EMULATED_FREE_CALL(cublasLtMatmulDescDestroy, cublasLtMatmulDesc_t, cublasStatus_t, CUBLAS_STATUS_INTERNAL_ERROR)

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t attribute, const void *value,
                                              size_t size_bytes) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_INTERNAL_ERROR);
  static const attribute_t attributes[] = {
      ATTRIBUTE(CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, matmul_description_t, compute_type),
      ATTRIBUTE(CUBLASLT_MATMUL_DESC_SCALE_TYPE, matmul_description_t, scale_type),
      ATTRIBUTE(CUBLASLT_MATMUL_DESC_POINTER_MODE, matmul_description_t, pointer_mode),
      ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSA, matmul_description_t, transpose_a),
      ATTRIBUTE(CUBLASLT_MATMUL_DESC_TRANSB, matmul_description_t, transpose_b),
      ATTRIBUTE(CUBLASLT_MATMUL_DESC_EPILOGUE, matmul_description_t, epilogue),
      ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_POINTER, matmul_description_t, bias),
      ATTRIBUTE(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, matmul_description_t, bias_batch_stride),
  };
  return set_attribute(description, attributes, sizeof attributes / sizeof *attributes, (int)attribute, value, size_bytes);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows, uint64_t columns,
                                          int64_t leading) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_ALLOC_FAILED);
  *out = calloc(1, sizeof **out);
  if (!*out) return CUBLAS_STATUS_ALLOC_FAILED;
  *(layout_t *)*out =
      (layout_t){.type = (int32_t)type, .order = CUBLASLT_ORDER_COL, .rows = rows, .columns = columns, .leading = leading, .batch = 1};
  return CUBLAS_STATUS_SUCCESS;
}

DELTA_EMULATED_FREE_CALL(cublasLtMatrixLayoutDestroy, cublasLtMatrixLayout_t, cublasStatus_t, CUBLAS_STATUS_INTERNAL_ERROR)

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute, const void *value,
                                                size_t size_bytes) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_INTERNAL_ERROR);
  static const attribute_t attributes[] = {
      ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_TYPE, layout_t, type),
      ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_ORDER, layout_t, order),
      ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_ROWS, layout_t, rows),
      ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_COLS, layout_t, columns),
      ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_LD, layout_t, leading),
      ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, layout_t, batch),
      ATTRIBUTE(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, layout_t, batch_stride),
  };
  return set_attribute(layout, attributes, sizeof attributes / sizeof *attributes, (int)attribute, value, size_bytes);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_ALLOC_FAILED);
  *out = calloc(1, sizeof **out);
  if (!*out) return CUBLAS_STATUS_ALLOC_FAILED;
  *(preference_t *)*out = (preference_t){.reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK};
  return CUBLAS_STATUS_SUCCESS;
}

DELTA_EMULATED_FREE_CALL(cublasLtMatmulPreferenceDestroy, cublasLtMatmulPreference_t, cublasStatus_t, CUBLAS_STATUS_INTERNAL_ERROR)

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size_bytes) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_INTERNAL_ERROR);
  static const attribute_t attributes[] = {
      ATTRIBUTE(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, preference_t, most_workspace_bytes),
      ATTRIBUTE(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, preference_t, reduction_mask),
      ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, preference_t, alignments[0]),
      ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, preference_t, alignments[1]),
      ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, preference_t, alignments[2]),
      ATTRIBUTE(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, preference_t, alignments[3]),
  };
  return set_attribute(preference, attributes, sizeof attributes / sizeof *attributes, (int)attribute, value, size_bytes);
}

// ---- cuBLASLt: products

static matrix_t matrix_of(const layout_t *layout, const void *data, int32_t transpose, bool is_rounded) {
  const bool is_by_row = layout->order == CUBLASLT_ORDER_ROW, is_transposed = transpose != CUBLAS_OP_N;
  const bool is_first_dense = is_by_row == is_transposed; // of the matrix after its transposition: whether its rows lie next to each other
  return (matrix_t){.elements = {.data = (void *)data, .is_double = layout->type == CUDA_R_64F, .is_rounded = is_rounded},
                    .rows = (int64_t)(is_transposed ? layout->columns : layout->rows),
                    .columns = (int64_t)(is_transposed ? layout->rows : layout->columns),
                    .row_stride = is_first_dense ? 1 : layout->leading,
                    .column_stride = is_first_dense ? layout->leading : 1,
                    .batch_stride = layout->batch > 1 ? layout->batch_stride : 0};
}

// What follows a product is for float32 only; a bias's address is looked at when an algorithm is chosen, too.
static bool is_supported(const matmul_description_t *description, const layout_t *const layouts[4]) {
  const int32_t type = layouts[0]->type;
  const bool is_plain = description->epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  if ((description->epilogue & CUBLASLT_EPILOGUE_BIAS) && !is_plain && !description->bias) return false;
  bool is_right = (type == CUDA_R_32F || (type == CUDA_R_64F && is_plain)) && description->pointer_mode == CUBLASLT_POINTER_MODE_HOST;
  for (int k = 0; k < 4; ++k) {
    const int64_t inner = (int64_t)(layouts[k]->order == CUBLASLT_ORDER_ROW ? layouts[k]->columns : layouts[k]->rows);
    is_right = is_right && layouts[k]->type == type && layouts[k]->batch == layouts[3]->batch && layouts[k]->leading >= inner;
  }
  return is_right;
}

// The product of four descriptions; false: their shapes do not belong together.
static bool make_product(const matmul_description_t *description, const layout_t *const layouts[4], const void *const data[4],
                         product_t *product) {
  const bool is_rounded = description->compute_type == CUBLAS_COMPUTE_32F_FAST_TF32;
  *product = (product_t){.a = matrix_of(layouts[0], data[0], description->transpose_a, is_rounded),
                         .b = matrix_of(layouts[1], data[1], description->transpose_b, is_rounded),
                         .c = matrix_of(layouts[2], data[2], CUBLAS_OP_N, false),
                         .d = matrix_of(layouts[3], data[3], CUBLAS_OP_N, false),
                         .batch = layouts[3]->batch,
                         .epilogue = (cublasLtEpilogue_t)description->epilogue};
  product->depth = product->a.columns;
  if (description->epilogue & CUBLASLT_EPILOGUE_BIAS) product->bias = description->bias;
  return product->a.columns == product->b.rows && product->a.rows == product->d.rows && product->b.columns == product->d.columns &&
         product->c.rows == product->d.rows && product->c.columns == product->d.columns;
}

// What an algorithm holds: its workspace, and the alignments it was found for.
enum { ALGORITHM_WORKSPACE, ALGORITHM_ALIGNMENTS, MOST_BIAS_ALIGNMENT_BYTES = 16 };

static uint64_t alignment_of(const void *address) {
  const uint64_t bits = (uintptr_t)address | MOST_BIAS_ALIGNMENT_BYTES;
  return bits & (~bits + 1);
}

// An algorithm that was found for aligned addresses reads in wide words.
static bool keeps_promises(const cublasLtMatmulAlgo_t *algorithm, const void *const data[OPERANDS]) {
  for (int k = 0; algorithm && k < OPERANDS; ++k) {
    const uint64_t alignment = algorithm->data[ALGORITHM_ALIGNMENTS + k];
    if (alignment == 0 || (uintptr_t)data[k] % alignment == 0) continue;
    static const char *const names[OPERANDS] = {"A", "B", "C", "D", "the bias"};
    delta_emulated_report("cublasLtMatmul: %s is at %p, and was promised at multiples of %d bytes", names[k], data[k], (int)alignment);
    return false;
  }
  return true;
}

// Two algorithms: one without a workspace, and one with.
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, cublasLtMatrixLayout_t a,
                                              cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked, cublasLtMatmulHeuristicResult_t results[],
                                              int *out_count) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_INTERNAL_ERROR);
  (void)handle;
  const layout_t *const layouts[4] = {(layout_t *)a, (layout_t *)b, (layout_t *)c, (layout_t *)d};
  const void *const no_data[4] = {0};
  product_t product;
  *out_count = 0;
  if (asked < 1 || !make_product((matmul_description_t *)description, layouts, no_data, &product)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported((matmul_description_t *)description, layouts)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const bool has_second = asked > 1 && ((preference_t *)preference)->most_workspace_bytes >= WORKSPACE_BYTES;
  const uint32_t *const alignments = ((preference_t *)preference)->alignments;
  const uint64_t of_bias = product.bias ? alignment_of(product.bias) : 0;
  *out_count = has_second ? 2 : 1;
  for (int k = 0; k < *out_count; ++k) {
    // The fast one first.
    const size_t workspace_bytes = has_second && k == 0 ? WORKSPACE_BYTES : 0;
    results[k] = (cublasLtMatmulHeuristicResult_t){
        .algo = {.data = {workspace_bytes, alignments[0], alignments[1], alignments[2], alignments[3], of_bias}},
        .workspaceSize = workspace_bytes,
        .state = CUBLAS_STATUS_SUCCESS,
        .wavesCount = 1};
  }
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description, const void *alpha, const void *A,
                              cublasLtMatrixLayout_t a, const void *B, cublasLtMatrixLayout_t b, const void *beta, const void *C,
                              cublasLtMatrixLayout_t c, void *D, cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algorithm,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream) {
  DELTA_EMULATED_ENTER(CUBLAS_STATUS_EXECUTION_FAILED);
  (void)handle;
  const layout_t *const layouts[4] = {(layout_t *)a, (layout_t *)b, (layout_t *)c, (layout_t *)d};
  const void *const data[OPERANDS] = {A, B, C, D, ((matmul_description_t *)description)->bias};
  product_t product;
  if (!make_product((matmul_description_t *)description, layouts, data, &product)) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_supported((matmul_description_t *)description, layouts)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (!keeps_promises(algorithm, data)) return CUBLAS_STATUS_INVALID_VALUE;
  if (algorithm && algorithm->data[ALGORITHM_WORKSPACE] > workspace_bytes) return CUBLAS_STATUS_INVALID_VALUE;
  product.workspace = workspace;
  product.workspace_bytes = algorithm ? algorithm->data[ALGORITHM_WORKSPACE] : 0;
  product.alpha = delta_emulated_factor(alpha, product.d.elements.is_double);
  product.beta = delta_emulated_factor(beta, product.d.elements.is_double);
  return put_product(__func__, &product, stream);
}
