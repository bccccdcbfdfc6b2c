// The emulated libraries: products of matrices, convolutions and kernels that are compiled at run time, against plain loops.
#include <criterion/criterion.h>
#include <cublasLt.h>
#include <cuda.h>
#include <cudnn.h>
#include <math.h>
#include <nvrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/cuda/emulation/emulation.h"

#define CHECK(call) cr_assert_eq((int)(call), 0, "%s", #call)

enum { MOST = 1 << 13 };

// Numbers that are neither large nor simple.
static void fill(float *values, int count, int seed) {
  for (int k = 0; k < count; ++k) values[k] = sinf((float)(k * 7 + seed * 13) * 0.37f);
}

static float *to_device(const float *host, int count) {
  float *device = NULL;
  CHECK(cudaMalloc((void **)&device, (size_t)count * sizeof *host));
  CHECK(cudaMemcpy(device, host, (size_t)count * sizeof *host, cudaMemcpyHostToDevice));
  return device;
}

static void expect_near(const float *device, const double *wanted, int count, double allowed, const char *what) {
  static float host[MOST];
  CHECK(cudaMemcpy(host, device, (size_t)count * sizeof *host, cudaMemcpyDeviceToHost));
  for (int k = 0; k < count; ++k)
    cr_assert_float_eq(host[k], wanted[k], allowed, "%s, element %d: %g, not %g", what, k, host[k], wanted[k]);
}

// ---- Products: D = alpha op(A) op(B) + beta C of row-major or column-major matrices, m x k by k x n.

typedef struct product_case {
  const char *name;
  int m, n, k, batch;
  int transpose_a, transpose_b, order, is_shared_b;
  float alpha, beta;
  int epilogue;
} product_case_t;

static cublasLtMatrixLayout_t make_layout(const product_case_t *c, int rows, int columns, int batch_stride) {
  cublasLtMatrixLayout_t layout;
  const int32_t order = c->order, batch = c->batch;
  const int64_t stride = batch_stride;
  CHECK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, (uint64_t)rows, (uint64_t)columns, order == CUBLASLT_ORDER_ROW ? columns : rows));
  CHECK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_ORDER, &order, sizeof order));
  CHECK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch));
  CHECK(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof stride));
  return layout;
}

// Element (row, column) of a matrix of `rows` x `columns` as it lies.
static float element(const product_case_t *c, const float *data, int rows, int columns, int row, int column) {
  return data[c->order == CUBLASLT_ORDER_ROW ? row * columns + column : column * rows + row];
}

static void multiply(const product_case_t *c, const float *a, const float *b, const float *d, const float *bias, double *wanted) {
  for (int batch = 0; batch < c->batch; ++batch) {
    const float *ab = a + batch * c->m * c->k, *bb = b + (c->is_shared_b ? 0 : batch * c->k * c->n), *db = d + batch * c->m * c->n;
    for (int row = 0; row < c->m; ++row) {
      for (int column = 0; column < c->n; ++column) {
        double sum = 0;
        for (int k = 0; k < c->k; ++k) {
          sum += (double)(c->transpose_a ? element(c, ab, c->k, c->m, k, row) : element(c, ab, c->m, c->k, row, k)) *
                 (c->transpose_b ? element(c, bb, c->n, c->k, column, k) : element(c, bb, c->k, c->n, k, column));
        }
        sum = c->alpha * sum + c->beta * element(c, db, c->m, c->n, row, column);
        if (c->epilogue & CUBLASLT_EPILOGUE_BIAS) sum += bias[row];
        if (c->epilogue & CUBLASLT_EPILOGUE_RELU && sum < 0) sum = 0;
        wanted[batch * c->m * c->n + (c->order == CUBLASLT_ORDER_ROW ? row * c->n + column : column * c->m + row)] = sum;
      }
    }
  }
}

static void run_product(const product_case_t *c) {
  static float a[MOST], b[MOST], d[MOST], bias[MOST];
  static double wanted[MOST];
  const int a_count = c->m * c->k, b_count = c->k * c->n, d_count = c->m * c->n;
  fill(a, a_count * c->batch, 1), fill(b, b_count * c->batch, 2), fill(d, d_count * c->batch, 3), fill(bias, c->m, 4);
  float *on_device[] = {to_device(a, a_count * c->batch), to_device(b, b_count * c->batch), to_device(d, d_count * c->batch),
                        to_device(bias, c->m)};
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t description;
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t found[4];
  int found_count;
  const int32_t transposes[] = {c->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, c->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N};
  const uint32_t epilogue = (uint32_t)c->epilogue;
  const uint64_t workspace_bytes = 1 << 20;
  void *workspace;
  CHECK(cudaMalloc(&workspace, workspace_bytes));
  CHECK(cublasLtCreate(&handle));
  CHECK(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  CHECK(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSA, &transposes[0], sizeof transposes[0]));
  CHECK(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_TRANSB, &transposes[1], sizeof transposes[1]));
  CHECK(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  CHECK(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &on_device[3], sizeof on_device[3]));
  CHECK(cublasLtMatmulPreferenceCreate(&preference));
  CHECK(
      cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace_bytes, sizeof workspace_bytes));
  cublasLtMatrixLayout_t la = c->transpose_a ? make_layout(c, c->k, c->m, a_count) : make_layout(c, c->m, c->k, a_count),
                         lb = c->transpose_b ? make_layout(c, c->n, c->k, c->is_shared_b ? 0 : b_count)
                                             : make_layout(c, c->k, c->n, c->is_shared_b ? 0 : b_count),
                         ld = make_layout(c, c->m, c->n, d_count);
  CHECK(cublasLtMatmulAlgoGetHeuristic(handle, description, la, lb, ld, ld, preference, 4, found, &found_count));
  cr_assert_geq(found_count, 1);
  multiply(c, a, b, d, bias, wanted);
  CHECK(cublasLtMatmul(handle, description, &c->alpha, on_device[0], la, on_device[1], lb, &c->beta, on_device[2], ld, on_device[2], ld,
                       &found[0].algo, workspace, workspace_bytes, NULL));
  expect_near(on_device[2], wanted, d_count * c->batch, 1e-4, c->name);
}

Test(cuda_libraries, products) {
  static const product_case_t cases[] = {
      {"columns", 5, 7, 11, 1, 0, 0, CUBLASLT_ORDER_COL, 0, 1, 0, CUBLASLT_EPILOGUE_DEFAULT},
      {"rows", 5, 7, 11, 1, 0, 0, CUBLASLT_ORDER_ROW, 0, 1, 0, CUBLASLT_EPILOGUE_DEFAULT},
      {"A transposed", 5, 7, 11, 1, 1, 0, CUBLASLT_ORDER_ROW, 0, 1, 0, CUBLASLT_EPILOGUE_DEFAULT},
      {"B transposed", 5, 7, 11, 1, 0, 1, CUBLASLT_ORDER_ROW, 0, 1, 0, CUBLASLT_EPILOGUE_DEFAULT},
      {"both transposed", 5, 7, 11, 1, 1, 1, CUBLASLT_ORDER_COL, 0, 1, 0, CUBLASLT_EPILOGUE_DEFAULT},
      {"adding", 6, 3, 4, 1, 0, 0, CUBLASLT_ORDER_ROW, 0, 0.5f, 2, CUBLASLT_EPILOGUE_DEFAULT},
      {"a batch", 6, 3, 4, 5, 0, 1, CUBLASLT_ORDER_ROW, 0, 1, 0, CUBLASLT_EPILOGUE_DEFAULT},
      {"a batch with one B", 6, 3, 4, 5, 0, 1, CUBLASLT_ORDER_ROW, 1, 1, 0, CUBLASLT_EPILOGUE_DEFAULT},
      {"bias", 6, 3, 4, 1, 0, 0, CUBLASLT_ORDER_COL, 0, 1, 0, CUBLASLT_EPILOGUE_BIAS},
      {"bias and ReLU", 6, 3, 4, 1, 0, 0, CUBLASLT_ORDER_COL, 0, 1, 0, CUBLASLT_EPILOGUE_RELU_BIAS},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) run_product(&cases[k]);
}

// What the library looks at before it runs: whether a bias is there when an algorithm is chosen, that it lies as was promised, that the type has such an end.
Test(cuda_libraries, biases_are_looked_at) {
  enum { SIZE = 4 };
  cublasLtHandle_t handle;
  cublasLtMatmulDesc_t description;
  cublasLtMatmulPreference_t preference;
  cublasLtMatrixLayout_t layout;
  cublasLtMatmulHeuristicResult_t found;
  int count;
  const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
  const float one = 1, zero = 0, numbers[SIZE * SIZE + 1] = {1};
  float *data = to_device(numbers, SIZE * SIZE + 1), *y = to_device(numbers, SIZE * SIZE + 1);
  const float *aligned = data, *not_aligned = data + 1;
  CHECK(cublasLtCreate(&handle));
  CHECK(cublasLtMatmulPreferenceCreate(&preference));
  CHECK(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  CHECK(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
  CHECK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, SIZE, SIZE, SIZE));
  cr_expect_neq(cublasLtMatmulAlgoGetHeuristic(handle, description, layout, layout, layout, layout, preference, 1, &found, &count), 0);
  CHECK(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &aligned, sizeof aligned));
  CHECK(cublasLtMatmulAlgoGetHeuristic(handle, description, layout, layout, layout, layout, preference, 1, &found, &count));
  CHECK(cublasLtMatmul(handle, description, &one, data, layout, data, layout, &zero, y, layout, y, layout, &found.algo, NULL, 0, NULL));
  CHECK(cudaDeviceSynchronize());
  CHECK(cublasLtMatmulDescSetAttribute(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &not_aligned, sizeof not_aligned));
  cr_expect_neq(
      cublasLtMatmul(handle, description, &one, data, layout, data, layout, &zero, y, layout, y, layout, &found.algo, NULL, 0, NULL), 0);
  cr_expect_eq(delta_emulated_reports(), 1);
  CHECK(cublasLtMatrixLayoutCreate(&layout, CUDA_R_64F, SIZE, SIZE, SIZE));
  cr_expect_neq(cublasLtMatmulAlgoGetHeuristic(handle, description, layout, layout, layout, layout, preference, 1, &found, &count), 0);
}

// ---- Convolutions

typedef struct conv_case {
  const char *name;
  int n, channels, height, width, outputs, window, pad, step, dilation, groups;
  cudnnTensorFormat_t format;
} conv_case_t;

typedef struct conv {
  const conv_case_t *c;
  int y_height, y_width, inputs; // inputs of a group
  int x_count, w_count, y_count;
} conv_t;

static int place(cudnnTensorFormat_t format, int first, int second, int height, int width, int channels, int row, int column) {
  return format == CUDNN_TENSOR_NCHW ? ((first * channels + second) * height + row) * width + column
                                     : ((first * height + row) * width + column) * channels + second;
}

// Calls the function for each product of the convolution, with the places of its three elements.
static void for_each_product(const conv_t *conv, void (*function)(const float *const data[3], const int places[3], double *out),
                             const float *const data[3], double *out) {
  const conv_case_t *c = conv->c;
  for (int n = 0; n < c->n; ++n)
    for (int k = 0; k < c->outputs; ++k)
      for (int row = 0; row < conv->y_height; ++row)
        for (int column = 0; column < conv->y_width; ++column)
          for (int i = 0; i < conv->inputs; ++i)
            for (int u = 0; u < c->window; ++u)
              for (int v = 0; v < c->window; ++v) {
                const int x_row = row * c->step - c->pad + u * c->dilation, x_column = column * c->step - c->pad + v * c->dilation;
                if (x_row < 0 || x_row >= c->height || x_column < 0 || x_column >= c->width) continue;
                const int channel = k / (c->outputs / c->groups) * conv->inputs + i;
                const int places[3] = {place(c->format, n, channel, c->height, c->width, c->channels, x_row, x_column),
                                       place(c->format, k, i, c->window, c->window, conv->inputs, u, v),
                                       place(c->format, n, k, conv->y_height, conv->y_width, c->outputs, row, column)};
                function(data, places, out);
              }
}

static void add_x(const float *const data[3], const int p[3], double *out) { out[p[0]] += (double)data[1][p[1]] * data[2][p[2]]; }
static void add_w(const float *const data[3], const int p[3], double *out) { out[p[1]] += (double)data[0][p[0]] * data[2][p[2]]; }
static void add_y(const float *const data[3], const int p[3], double *out) { out[p[2]] += (double)data[0][p[0]] * data[1][p[1]]; }

static void run_conv(const conv_case_t *c) {
  static float x[MOST], w[MOST], y[MOST];
  static double wanted[3][MOST];
  const int reach = (c->window - 1) * c->dilation + 1;
  conv_t conv = {.c = c,
                 .y_height = (c->height + 2 * c->pad - reach) / c->step + 1,
                 .y_width = (c->width + 2 * c->pad - reach) / c->step + 1,
                 .inputs = c->channels / c->groups};
  conv.x_count = c->n * c->channels * c->height * c->width;
  conv.w_count = c->outputs * conv.inputs * c->window * c->window;
  conv.y_count = c->n * c->outputs * conv.y_height * conv.y_width;
  fill(x, conv.x_count, 1), fill(w, conv.w_count, 2), fill(y, conv.y_count, 3);
  const float *const data[3] = {x, w, y};
  memset(wanted, 0, sizeof wanted);
  for_each_product(&conv, add_x, data, wanted[0]);
  for_each_product(&conv, add_w, data, wanted[1]);
  for_each_product(&conv, add_y, data, wanted[2]);

  cudnnHandle_t handle;
  cudnnTensorDescriptor_t x_layout, y_layout;
  cudnnFilterDescriptor_t w_layout;
  cudnnConvolutionDescriptor_t description;
  const float one = 1, zero = 0;
  CHECK(cudnnCreate(&handle));
  CHECK(cudnnCreateTensorDescriptor(&x_layout));
  CHECK(cudnnCreateTensorDescriptor(&y_layout));
  CHECK(cudnnCreateFilterDescriptor(&w_layout));
  CHECK(cudnnCreateConvolutionDescriptor(&description));
  CHECK(cudnnSetTensor4dDescriptor(x_layout, c->format, CUDNN_DATA_FLOAT, c->n, c->channels, c->height, c->width));
  CHECK(cudnnSetTensor4dDescriptor(y_layout, c->format, CUDNN_DATA_FLOAT, c->n, c->outputs, conv.y_height, conv.y_width));
  CHECK(cudnnSetFilter4dDescriptor(w_layout, CUDNN_DATA_FLOAT, c->format, c->outputs, conv.inputs, c->window, c->window));
  CHECK(cudnnSetConvolution2dDescriptor(description, c->pad, c->pad, c->step, c->step, c->dilation, c->dilation, CUDNN_CROSS_CORRELATION,
                                        CUDNN_DATA_FLOAT));
  CHECK(cudnnSetConvolutionGroupCount(description, c->groups));
  CHECK(cudnnSetConvolutionMathType(description, CUDNN_FMA_MATH));

  float *dx = to_device(x, conv.x_count), *dw = to_device(w, conv.w_count), *dy = to_device(y, conv.y_count);
  float *result_x = to_device(x, conv.x_count), *result_w = to_device(w, conv.w_count), *result_y = to_device(y, conv.y_count);
  size_t workspace_bytes;
  void *workspace;
  CHECK(cudaMalloc(&workspace, 1 << 20));
  cudnnConvolutionFwdAlgoPerf_t found[4];
  int found_count;
  CHECK(cudnnGetConvolutionForwardAlgorithm_v7(handle, x_layout, w_layout, description, y_layout, 4, &found_count, found));
  cr_assert_geq(found_count, 2);
  for (int k = 0; k < found_count; ++k) {
    CHECK(cudnnGetConvolutionForwardWorkspaceSize(handle, x_layout, w_layout, description, y_layout, found[k].algo, &workspace_bytes));
    cr_expect_eq(workspace_bytes, found[k].memory);
    CHECK(cudnnConvolutionForward(handle, &one, x_layout, dx, w_layout, dw, description, found[k].algo, workspace, workspace_bytes, &zero,
                                  y_layout, result_y));
    expect_near(result_y, wanted[2], conv.y_count, 1e-4, c->name);
  }
  CHECK(cudnnConvolutionBackwardData(handle, &one, w_layout, dw, y_layout, dy, description, CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, workspace,
                                     1 << 20, &zero, x_layout, result_x));
  expect_near(result_x, wanted[0], conv.x_count, 1e-4, c->name);
  CHECK(cudnnConvolutionBackwardFilter(handle, &one, x_layout, dx, y_layout, dy, description, CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1,
                                       workspace, 1 << 20, &zero, w_layout, result_w));
  expect_near(result_w, wanted[1], conv.w_count, 1e-3, c->name);
}

Test(cuda_libraries, convolutions) {
  static const conv_case_t cases[] = {
      {"3 x 3", 2, 3, 7, 6, 4, 3, 1, 1, 1, 1, CUDNN_TENSOR_NCHW},
      {"3 x 3, channels last", 2, 3, 7, 6, 4, 3, 1, 1, 1, 1, CUDNN_TENSOR_NHWC},
      {"1 x 1", 2, 3, 5, 5, 4, 1, 0, 1, 1, 1, CUDNN_TENSOR_NCHW},
      {"stride 2", 1, 3, 9, 8, 4, 3, 1, 2, 1, 1, CUDNN_TENSOR_NCHW},
      {"dilation 2", 1, 2, 9, 9, 2, 3, 2, 1, 2, 1, CUDNN_TENSOR_NHWC},
      {"groups", 2, 6, 5, 5, 4, 3, 1, 1, 1, 2, CUDNN_TENSOR_NCHW},
      {"each channel alone", 2, 4, 5, 5, 4, 3, 1, 2, 1, 4, CUDNN_TENSOR_NHWC},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) run_conv(&cases[k]);
}

// ---- Kernels compiled at run time

static CUfunction compile(const char *source, const char *name) {
  nvrtcProgram program;
  size_t size;
  CUmodule module;
  CUfunction function;
  const char *const options[] = {"--gpu-architecture=sm_90", "--std=c++17", "-DSCALE=3.0f"};
  CHECK(nvrtcCreateProgram(&program, source, "test.cu", 0, NULL, NULL));
  const nvrtcResult result = nvrtcCompileProgram(program, 3, options);
  static char log[1 << 16];
  CHECK(nvrtcGetProgramLogSize(program, &size));
  if (size < sizeof log) CHECK(nvrtcGetProgramLog(program, log));
  cr_assert_eq(result, NVRTC_SUCCESS, "%s", log);
  CHECK(nvrtcGetCUBINSize(program, &size));
  char *image = malloc(size);
  CHECK(nvrtcGetCUBIN(program, image));
  CHECK(nvrtcDestroyProgram(&program));
  CHECK(cuModuleLoadData(&module, image));
  free(image);
  CHECK(cuModuleGetFunction(&function, module, name));
  return function;
}

Test(cuda_libraries, sources_are_compiled_at_run_time) {
  enum { COUNT = 300 };
  static float x[COUNT];
  static double wanted[COUNT];
  fill(x, COUNT, 1);
  float *in = to_device(x, COUNT), *out = to_device(x, COUNT);
  CUfunction scale = compile(
      "struct pair { float factor, shift; };\n"
      "extern \"C\" __global__ void __launch_bounds__(128) scale(const float *__restrict__ x, float *y, long long count, pair p) {\n"
      "  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < count) y[i] = fmaxf(expf(x[i]) * p.factor * SCALE + p.shift, 0.0f);\n"
      "}\n",
      "scale");
  long long count = COUNT;
  struct {
    float factor, shift;
  } pair = {2, -7};
  void *arguments[] = {&in, &out, &count, &pair};
  CHECK(cuLaunchKernel(scale, (COUNT + 127) / 128, 1, 1, 128, 1, 1, 0, NULL, arguments, NULL));
  pair.factor = 100; // arguments are copied when the call is made
  CHECK(cudaDeviceSynchronize());
  for (int k = 0; k < COUNT; ++k) wanted[k] = fmax(exp(x[k]) * 6 - 7, 0);
  expect_near(out, wanted, COUNT, 1e-4, "scale");

  CUfunction turn = compile(
      "extern \"C\" __global__ void turn(const float *x, float *y) {\n"
      "  __shared__ float tile[100];\n"
      "  tile[threadIdx.x] = x[blockIdx.x * 100 + threadIdx.x];\n"
      "  __syncthreads();\n"
      "  y[blockIdx.x * 100 + threadIdx.x] = tile[99 - threadIdx.x];\n"
      "}\n",
      "turn");
  CHECK(cuLaunchKernel(turn, 3, 1, 1, 100, 1, 1, 0, NULL, arguments, NULL));
  for (int k = 0; k < COUNT; ++k) wanted[k] = x[k / 100 * 100 + 99 - k % 100];
  expect_near(out, wanted, COUNT, 0, "turn");
  float *host_pointer = x;
  arguments[0] = &host_pointer;
  cr_expect_eq(cuLaunchKernel(turn, 3, 1, 1, 100, 1, 1, 0, NULL, arguments, NULL), CUDA_ERROR_ILLEGAL_ADDRESS);
  cr_expect_eq(strncmp(delta_emulated_last_report(), "turn: an argument", 17), 0, "%s", delta_emulated_last_report());
}

Test(cuda_libraries, a_source_that_is_wrong_says_where) {
  nvrtcProgram program;
  size_t size;
  static char log[1 << 16];
  CHECK(nvrtcCreateProgram(&program, "extern \"C\" __global__ void f(float *y) {\n  y[0] = absent;\n}\n", "f.cu", 0, NULL, NULL));
  cr_expect_eq(nvrtcCompileProgram(program, 0, NULL), NVRTC_ERROR_COMPILATION);
  CHECK(nvrtcGetProgramLogSize(program, &size));
  cr_assert_lt(size, sizeof log);
  CHECK(nvrtcGetProgramLog(program, log));
  cr_expect_not_null(strstr(log, "kernel.cu:2"), "%s", log);
  cr_expect_not_null(strstr(log, "absent"), "%s", log);
  const char *const options[] = {"--no-such-option"};
  cr_expect_eq(nvrtcCompileProgram(program, 1, options), NVRTC_ERROR_INVALID_OPTION);
}
