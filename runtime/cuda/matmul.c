// MATMUL: by cuBLASLt, whose workspace is planned; by our own tiles where the library has no such type or there is nothing to multiply.
//
// The library's matrices lie by columns: a row-major y = a b is for it y' = b' a', so b is its first operand, and a bias of our columns is one of its rows. What else the
// library could do at a product's end is left to expressions: its ReLU makes 0 of NaN, which hides a training that has failed, and its GELU is another function than the
// exact one.
#include <string.h>

#include "onnx/graph/access.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/product.h"

// What the library may want; more brings little and is taken from the budget.
enum { ADDED = 2, BIAS = 3 }; // inputs that may be missing

enum { MOST_WORKSPACE_BYTES = 8 << 20, LEAST_ALIGNMENT_BYTES = 16, MOST_ALIGNMENT_BYTES = 256 };

// Batches that both operands pass through alike are one dimension.
typedef struct batches {
  int32_t rank;
  int64_t sizes[DELTA_MAX_RANK], a[DELTA_MAX_RANK], b[DELTA_MAX_RANK]; // strides in elements
} batches_t;

static void batch_strides(const delta_shape_t *operand, const delta_shape_t *batch, int64_t strides[DELTA_MAX_RANK]) {
  delta_shape_t leading = *operand;
  leading.rank -= 2;
  delta_shape_broadcast_strides(&leading, batch, strides);
  const int64_t matrix_count = delta_shape_count_range(operand, operand->rank - 2, operand->rank);
  for (int32_t d = 0; d < batch->rank; ++d) strides[d] *= matrix_count;
}

static batches_t batches_of(const delta_shape_t *a, const delta_shape_t *b, const delta_shape_t *y) {
  batches_t batches = {0};
  delta_shape_t batch = *y;
  batch.rank -= 2;
  int64_t a_strides[DELTA_MAX_RANK], b_strides[DELTA_MAX_RANK];
  batch_strides(a, &batch, a_strides);
  batch_strides(b, &batch, b_strides);
  for (int32_t d = 0; d < batch.rank; ++d) {
    const int64_t size = batch.dims[d];
    const int32_t last = batches.rank - 1;
    if (size == 1) continue;
    const bool merges = last >= 0 && batches.a[last] == a_strides[d] * size && batches.b[last] == b_strides[d] * size;
    if (!merges) batches.sizes[batches.rank++] = 1;
    batches.sizes[batches.rank - 1] *= size;
    batches.a[batches.rank - 1] = a_strides[d];
    batches.b[batches.rank - 1] = b_strides[d];
  }
  return batches;
}

// A product of `count` equal steps of each operand.
typedef struct product_shape {
  int64_t rows, depth, columns;
  bool transpose_a, transpose_b;
  batches_t batches;
} product_shape_t;

static product_shape_t product_shape_of(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_matmul_attrs_t *attrs = node->attrs;
  const delta_shape_t *a = &delta_node_input(graph, node, 0)->shape, *b = &delta_node_input(graph, node, 1)->shape;
  const delta_shape_t *y = &delta_node_output(graph, node, 0)->shape;
  product_shape_t shape = {.rows = y->dims[y->rank - 2],
                           .depth = a->dims[a->rank - (attrs->transpose_a ? 2 : 1)],
                           .columns = y->dims[y->rank - 1],
                           .transpose_a = attrs->transpose_a,
                           .transpose_b = attrs->transpose_b,
                           .batches = batches_of(a, b, y)};
  // One b for all of a's matrices: they are one matrix with more rows.
  batches_t *batches = &shape.batches;
  if (batches->rank == 1 && batches->b[0] == 0 && !shape.transpose_a && batches->a[0] == shape.rows * shape.depth) {
    shape.rows *= batches->sizes[0];
    batches->rank = 0;
  }
  return shape;
}

// ---- By cuBLASLt

typedef struct library_type {
  cudaDataType data, scale;
  cublasComputeType_t compute;
} library_type_t;

static bool library_type_of(delta_dtype_t dtype, bool allows_tf32, library_type_t *out_type) {
  switch (dtype) {
    case DELTA_DTYPE_FLOAT32:
      *out_type = (library_type_t){CUDA_R_32F, CUDA_R_32F, allows_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F};
      return true;
    case DELTA_DTYPE_FLOAT64:
      *out_type = (library_type_t){CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F};
      return true;
    case DELTA_DTYPE_FLOAT16:
      *out_type = (library_type_t){CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
      return true;
    case DELTA_DTYPE_BFLOAT16:
      *out_type = (library_type_t){CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
      return true;
    default:
      return false;
  }
}

typedef struct matmul {
  cublasLtMatmulDesc_t product;   // Owned, as are the next four.
  cublasLtMatrixLayout_t b, a, y; // as the library sees them
  cublasLtMatmulPreference_t wishes;
  cublasLtMatmulAlgo_t algorithm;
  batches_t outer; // that are gone through here; the innermost one is the library's
  int64_t outer_y; // elements of y for each of them
  size_t element_bytes;
  bool is_wide; // factors are float64
} matmul_t;

const char *delta_cuda_matmul_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  library_type_t type;
  const delta_dtype_t dtype = delta_node_output(graph, node, 0)->dtype;
  if (!library_type_of(dtype, false, &type)) return "the library multiplies float types only";
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_t *input = delta_node_input(graph, node, k);
    if (input && input->dtype != dtype) return "the inputs are of different types";
  }
  if (delta_node_input(graph, node, BIAS) && dtype == DELTA_DTYPE_FLOAT64) return "the library adds no bias in float64";
  const product_shape_t shape = product_shape_of(graph, node);
  if (shape.rows == 0 || shape.depth == 0 || shape.columns == 0) return "there is nothing to multiply";
  for (int32_t d = 0; d < shape.batches.rank; ++d) {
    if (shape.batches.sizes[d] == 0) return "there is nothing to multiply";
    if (shape.batches.sizes[d] > INT32_MAX) return "there are more matrices than the library counts";
  }
  return NULL;
}

static delta_status_t make_layout(library_type_t type, int64_t rows, int64_t columns, int32_t count, int64_t stride,
                                  cublasLtMatrixLayout_t *out_layout) {
  DELTA_RETURN_IF_ERROR(DELTA_CUBLAS_CHECK(cublasLtMatrixLayoutCreate(out_layout, type.data, (uint64_t)rows, (uint64_t)columns, rows)));
  if (count == 1) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(
      DELTA_CUBLAS_CHECK(cublasLtMatrixLayoutSetAttribute(*out_layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count)));
  return DELTA_CUBLAS_CHECK(
      cublasLtMatrixLayoutSetAttribute(*out_layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
}

static delta_status_t make_product(matmul_t *matmul, const product_shape_t *shape, library_type_t type) {
  const cublasOperation_t of_b = shape->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, of_a = shape->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
  DELTA_RETURN_IF_ERROR(DELTA_CUBLAS_CHECK(cublasLtMatmulDescCreate(&matmul->product, type.compute, type.scale)));
  DELTA_RETURN_IF_ERROR(
      DELTA_CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(matmul->product, CUBLASLT_MATMUL_DESC_TRANSA, &of_b, sizeof of_b)));
  DELTA_RETURN_IF_ERROR(
      DELTA_CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(matmul->product, CUBLASLT_MATMUL_DESC_TRANSB, &of_a, sizeof of_a)));
  const batches_t *batches = &shape->batches;
  const int32_t last = batches->rank - 1, count = last >= 0 ? (int32_t)batches->sizes[last] : 1;
  const int64_t a_stride = last >= 0 ? batches->a[last] : 0, b_stride = last >= 0 ? batches->b[last] : 0;
  DELTA_RETURN_IF_ERROR(make_layout(type, shape->transpose_b ? shape->depth : shape->columns,
                                    shape->transpose_b ? shape->columns : shape->depth, count, b_stride, &matmul->b));
  DELTA_RETURN_IF_ERROR(make_layout(type, shape->transpose_a ? shape->rows : shape->depth, shape->transpose_a ? shape->depth : shape->rows,
                                    count, a_stride, &matmul->a));
  matmul->outer = *batches;
  if (last >= 0) matmul->outer.rank = last;
  matmul->outer_y = shape->rows * shape->columns * count;
  return make_layout(type, shape->columns, shape->rows, count, shape->rows * shape->columns, &matmul->y);
}

// What the addresses of all calls are multiples of.
static uint32_t alignment_of(const matmul_t *matmul, const int64_t *strides, int64_t every) {
  uint64_t bits = MOST_ALIGNMENT_BYTES | (uint64_t)every * matmul->element_bytes;
  for (int32_t d = 0; d < matmul->outer.rank; ++d) bits |= (uint64_t)strides[d] * matmul->element_bytes;
  return (uint32_t)(bits & ~(bits - 1));
}

static delta_status_t make_wishes(matmul_t *matmul, const delta_device_t *device) {
  const uint64_t most_bytes = MOST_WORKSPACE_BYTES;
  DELTA_RETURN_IF_ERROR(DELTA_CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&matmul->wishes)));
  DELTA_RETURN_IF_ERROR(DELTA_CUBLAS_CHECK(
      cublasLtMatmulPreferenceSetAttribute(matmul->wishes, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most_bytes, sizeof most_bytes)));
  const bool is_one = matmul->outer.rank == 0;
  const struct {
    cublasLtMatmulPreferenceAttributes_t attribute;
    uint32_t bytes;
  } alignments[] = {
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(matmul, matmul->outer.b, 0)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(matmul, matmul->outer.a, 0)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(matmul, matmul->outer.a, is_one ? 0 : matmul->outer_y)},
      {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(matmul, matmul->outer.a, is_one ? 0 : matmul->outer_y)},
  };
  for (size_t k = 0; k < sizeof alignments / sizeof *alignments; ++k) {
    const uint32_t bytes = alignments[k].bytes < device->alignment_bytes ? alignments[k].bytes : (uint32_t)device->alignment_bytes;
    DELTA_RETURN_IF_ERROR(
        DELTA_CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(matmul->wishes, alignments[k].attribute, &bytes, sizeof bytes)));
  }
  return DELTA_OK;
}

static delta_status_t set_bias(const matmul_t *matmul, const void *bias) {
  return DELTA_CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(matmul->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias));
}

// The bias's address is known at each run only: until then one of the same alignment stands for it, which the choice of an algorithm goes by.
static delta_status_t make_epilogue(const matmul_t *matmul, const delta_device_t *device) {
  const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  DELTA_RETURN_IF_ERROR(
      DELTA_CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(matmul->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue)));
  return set_bias(matmul, (const void *)(uintptr_t)device->alignment_bytes);
}

delta_status_t delta_cuda_matmul_prepare(delta_kernel_t *kernel) {
  delta_cuda_device_t *device = delta_cuda_device(kernel->device);
  const product_shape_t shape = product_shape_of(kernel->graph, kernel->node);
  const delta_dtype_t dtype = delta_kernel_output(kernel, 0)->dtype;
  library_type_t type;
  if (!library_type_of(dtype, device->base.math == DELTA_FLOAT_MATH_TF32, &type))
    return delta_status_make(INTERNAL, "a product of %s", delta_dtype_name(dtype));
  matmul_t *matmul = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &matmul));
  kernel->state = matmul;
  matmul->element_bytes = delta_dtype_bytes(dtype);
  matmul->is_wide = dtype == DELTA_DTYPE_FLOAT64;
  DELTA_RETURN_IF_ERROR(make_product(matmul, &shape, type));
  DELTA_RETURN_IF_ERROR(make_wishes(matmul, kernel->device));
  if (delta_kernel_input(kernel, BIAS)) DELTA_RETURN_IF_ERROR(make_epilogue(matmul, kernel->device));
  cublasLtMatmulHeuristicResult_t found = {0};
  int count = 0;
  DELTA_RETURN_IF_ERROR(DELTA_CUBLAS_CHECK(cublasLtMatmulAlgoGetHeuristic(device->cublas, matmul->product, matmul->b, matmul->a, matmul->y,
                                                                          matmul->y, matmul->wishes, 1, &found, &count)));
  if (count == 0 || found.state != CUBLAS_STATUS_SUCCESS) return delta_status_make(UNSUPPORTED, "the library has no product of this form");
  matmul->algorithm = found.algo;
  kernel->workspace_bytes = found.workspaceSize;
  return DELTA_OK;
}

void delta_cuda_matmul_release(delta_kernel_t *kernel) {
  matmul_t *matmul = kernel->state;
  if (!matmul) return;
  if (matmul->wishes) cublasLtMatmulPreferenceDestroy(matmul->wishes);
  if (matmul->y) cublasLtMatrixLayoutDestroy(matmul->y);
  if (matmul->a) cublasLtMatrixLayoutDestroy(matmul->a);
  if (matmul->b) cublasLtMatrixLayoutDestroy(matmul->b);
  if (matmul->product) cublasLtMatmulDescDestroy(matmul->product);
  delta_release(kernel->device->allocator, matmul);
}

delta_status_t delta_cuda_matmul_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  static const float one = 1, zero = 0;
  static const double wide_one = 1, wide_zero = 0;
  const matmul_t *matmul = kernel->state;
  const char *a = buffers->inputs[0], *b = buffers->inputs[1], *added = delta_kernel_input_data(kernel, buffers, ADDED);
  char *y = buffers->outputs[0];
  if (delta_kernel_input(kernel, BIAS)) DELTA_RETURN_IF_ERROR(set_bias(matmul, buffers->inputs[BIAS]));
  const void *product_factor = matmul->is_wide ? (const void *)&wide_one : &one,
             *nothing = matmul->is_wide ? (const void *)&wide_zero : &zero;
  const int64_t bytes = (int64_t)matmul->element_bytes;
  int64_t index[DELTA_MAX_RANK] = {0}, count = 1;
  for (int32_t d = 0; d < matmul->outer.rank; ++d) count *= matmul->outer.sizes[d];
  for (int64_t step = 0; step < count; ++step) {
    int64_t a_offset = 0, b_offset = 0;
    for (int32_t d = 0; d < matmul->outer.rank; ++d) {
      a_offset += index[d] * matmul->outer.a[d];
      b_offset += index[d] * matmul->outer.b[d];
    }
    char *y_here = y + step * matmul->outer_y * bytes;
    const char *added_here = added ? added + step * matmul->outer_y * bytes : y_here;
    DELTA_RETURN_IF_ERROR(DELTA_CUBLAS_CHECK(cublasLtMatmul(delta_cuda_device(kernel->device)->cublas, matmul->product, product_factor,
                                                            b + b_offset * bytes, matmul->b, a + a_offset * bytes, matmul->a,
                                                            added ? product_factor : nothing, added_here, matmul->y, y_here, matmul->y,
                                                            &matmul->algorithm, buffers->workspace, kernel->workspace_bytes, stream)));
    for (int32_t d = matmul->outer.rank - 1; d >= 0 && ++index[d] == matmul->outer.sizes[d]; --d) index[d] = 0;
  }
  return DELTA_OK;
}

// ---- By our own tiles

const char *delta_cuda_product_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_dtype_t dtype = delta_node_output(graph, node, 0)->dtype;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_t *input = delta_node_input(graph, node, k);
    if (input && input->dtype != dtype) return "the inputs are of different types";
  }
  enum { MOST_ROWS = 65535 * 16 };
  const product_shape_t shape = product_shape_of(graph, node);
  return shape.rows > MOST_ROWS ? "there are more rows than a grid has" : NULL;
}

delta_status_t delta_cuda_product_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const product_shape_t shape = product_shape_of(kernel->graph, kernel->node);
  delta_cuda_product_t product = {.dtype = delta_kernel_output(kernel, 0)->dtype,
                                  .rows = shape.rows,
                                  .depth = shape.depth,
                                  .columns = shape.columns,
                                  .a_row = shape.transpose_a ? 1 : shape.depth,
                                  .a_column = shape.transpose_a ? shape.rows : 1,
                                  .b_row = shape.transpose_b ? 1 : shape.columns,
                                  .b_column = shape.transpose_b ? shape.depth : 1,
                                  .batches = 1,
                                  .batch_rank = shape.batches.rank};
  for (int32_t d = 0; d < shape.batches.rank; ++d) product.batches *= (uint64_t)shape.batches.sizes[d];
  for (int32_t d = 0; d < shape.batches.rank; ++d) {
    product.batch_dims[d] = delta_divisor_of((uint64_t)shape.batches.sizes[d], product.batches);
    product.a_batch[d] = shape.batches.a[d];
    product.b_batch[d] = shape.batches.b[d];
  }
  return DELTA_CUDA_CHECK(delta_cuda_product_launch(&product, buffers->inputs[0], buffers->inputs[1],
                                                    delta_kernel_input_data(kernel, buffers, ADDED),
                                                    delta_kernel_input_data(kernel, buffers, BIAS), buffers->outputs[0], stream));
}
