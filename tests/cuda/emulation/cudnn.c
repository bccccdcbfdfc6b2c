// cuDNN: descriptions of tensors, filters and convolutions, and the convolutions themselves, in two and three dimensions of float32 and float64.
//
// Algorithms differ in what CUDA promises of them: some need a workspace, which is filled with nonsense when they run; those that are not deterministic give something a
// little different each time; the fast matrix units round what they read unless CUDNN_FMA_MATH is asked for.
#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/emulation/calls.h"
#include "tests/cuda/emulation/memory.h"
#include "tests/cuda/emulation/number.h"
#include "tests/cuda/emulation/stream.h"

enum { DIMS = 5, SPACE = 3 }; // a convolution is seen as one of three dimensions: n, c, d, h, w

struct cudnnContext {
  cudaStream_t stream;
};

// Dimensions are n, c and those of space, whatever the format; strides in elements.
struct cudnnTensorStruct {
  cudnnDataType_t type;
  int rank;
  int64_t dims[CUDNN_DIM_MAX], strides[CUDNN_DIM_MAX];
};

struct cudnnFilterStruct {
  struct cudnnTensorStruct tensor; // outputs, inputs of a group, space
};

struct cudnnConvolutionStruct {
  int rank; // of space
  int pads[SPACE], strides[SPACE], dilations[SPACE];
  cudnnConvolutionMode_t mode;
  int groups;
  cudnnMathType_t math;
};

// ---- Statuses and handles

const char *cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
#define STATUS(name) \
  case name:         \
    return #name;
    STATUS(CUDNN_STATUS_SUCCESS)
    STATUS(CUDNN_STATUS_NOT_INITIALIZED)
    STATUS(CUDNN_STATUS_BAD_PARAM)
    STATUS(CUDNN_STATUS_NOT_SUPPORTED)
    STATUS(CUDNN_STATUS_NOT_SUPPORTED_SHAPE)
    STATUS(CUDNN_STATUS_INTERNAL_ERROR)
    STATUS(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED)
    STATUS(CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    STATUS(CUDNN_STATUS_EXECUTION_FAILED)
#undef STATUS
  }
  return "an unknown status";
}

void cudnnGetLastErrorString(char *message, size_t most_bytes) {
  if (most_bytes) snprintf(message, most_bytes, "%s", delta_emulated_last_report());
}

size_t cudnnGetVersion(void) { return CUDNN_VERSION; }

cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_NOT_INITIALIZED);
  *handle = calloc(1, sizeof **handle);
  return *handle ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  free(handle);
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetStream(cudnnHandle_t handle, cudaStream_t *stream) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  *stream = handle->stream;
  return CUDNN_STATUS_SUCCESS;
}

// ---- Descriptions

// Create and destroy of one kind.
#define DESCRIPTOR(name, type)                                                                      \
  cudnnStatus_t cudnnCreate##name(type *descriptor) {                                               \
    DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);                       \
    *descriptor = calloc(1, sizeof **descriptor);                                                   \
    return *descriptor ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED; \
  }                                                                                                 \
  cudnnStatus_t cudnnDestroy##name(type descriptor) {                                               \
    DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);                                              \
    free(descriptor);                                                                               \
    return CUDNN_STATUS_SUCCESS;                                                                    \
  }
DESCRIPTOR(TensorDescriptor, cudnnTensorDescriptor_t)
DESCRIPTOR(FilterDescriptor, cudnnFilterDescriptor_t)
DESCRIPTOR(ConvolutionDescriptor, cudnnConvolutionDescriptor_t)
#undef DESCRIPTOR

static bool is_known_type(cudnnDataType_t type) { return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_DOUBLE; }

// Strides of a dense tensor: c is the fastest dimension of NHWC.
static cudnnStatus_t set_dense(struct cudnnTensorStruct *tensor, cudnnTensorFormat_t format, cudnnDataType_t type, int rank,
                               const int dims[]) {
  if (rank < 3 || rank > DIMS || format == CUDNN_TENSOR_NCHW_VECT_C) return CUDNN_STATUS_NOT_SUPPORTED;
  *tensor = (struct cudnnTensorStruct){.type = type, .rank = rank};
  for (int d = 0; d < rank; ++d) {
    if (dims[d] < 1) return CUDNN_STATUS_BAD_PARAM;
    tensor->dims[d] = dims[d];
  }
  int64_t stride = 1;
  if (format == CUDNN_TENSOR_NHWC) {
    tensor->strides[1] = 1;
    stride = dims[1];
  }
  for (int d = rank - 1; d >= 0; --d) {
    if (d == 1 && format == CUDNN_TENSOR_NHWC) continue;
    tensor->strides[d] = stride;
    stride *= dims[d];
  }
  return is_known_type(type) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnSetTensorNdDescriptor(cudnnTensorDescriptor_t tensor, cudnnDataType_t type, int rank, const int dims[],
                                         const int strides[]) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  if (rank < 3 || rank > DIMS || !is_known_type(type)) return CUDNN_STATUS_NOT_SUPPORTED;
  *tensor = (struct cudnnTensorStruct){.type = type, .rank = rank};
  for (int d = 0; d < rank; ++d) {
    if (dims[d] < 1 || strides[d] < 1) return CUDNN_STATUS_BAD_PARAM;
    tensor->dims[d] = dims[d];
    tensor->strides[d] = strides[d];
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensorNdDescriptorEx(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format, cudnnDataType_t type, int rank,
                                           const int dims[]) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  return set_dense(tensor, format, type, rank, dims);
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t tensor, cudnnTensorFormat_t format, cudnnDataType_t type, int n, int c,
                                         int h, int w) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  const int dims[] = {n, c, h, w};
  return set_dense(tensor, format, type, 4, dims);
}

cudnnStatus_t cudnnSetFilterNdDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type, cudnnTensorFormat_t format, int rank,
                                         const int dims[]) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  return set_dense(&filter->tensor, format, type, rank, dims);
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter, cudnnDataType_t type, cudnnTensorFormat_t format, int k, int c,
                                         int h, int w) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  const int dims[] = {k, c, h, w};
  return set_dense(&filter->tensor, format, type, 4, dims);
}

cudnnStatus_t cudnnSetConvolutionNdDescriptor(cudnnConvolutionDescriptor_t convolution, int rank, const int pads[], const int strides[],
                                              const int dilations[], cudnnConvolutionMode_t mode, cudnnDataType_t compute_type) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  if (rank < 1 || rank > SPACE || !is_known_type(compute_type)) return CUDNN_STATUS_NOT_SUPPORTED;
  *convolution = (struct cudnnConvolutionStruct){.rank = rank, .mode = mode, .groups = 1};
  for (int d = 0; d < rank; ++d) {
    if (pads[d] < 0 || strides[d] < 1 || dilations[d] < 1) return CUDNN_STATUS_BAD_PARAM;
    convolution->pads[d] = pads[d];
    convolution->strides[d] = strides[d];
    convolution->dilations[d] = dilations[d];
  }
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution, int pad_h, int pad_w, int stride_h, int stride_w,
                                              int dilation_h, int dilation_w, cudnnConvolutionMode_t mode, cudnnDataType_t compute_type) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  const int pads[] = {pad_h, pad_w}, strides[] = {stride_h, stride_w}, dilations[] = {dilation_h, dilation_w};
  return cudnnSetConvolutionNdDescriptor(convolution, 2, pads, strides, dilations, mode, compute_type);
}

cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution, int groups) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  if (groups < 1) return CUDNN_STATUS_BAD_PARAM;
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution, cudnnMathType_t math) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}

// ---- A convolution, seen in three dimensions of space

typedef enum role { X, W, Y, ROLES } role_t;

typedef struct pass {
  role_t result;
  delta_emulated_elements_t elements[ROLES];
  int64_t dims[ROLES][DIMS], strides[ROLES][DIMS];
  int64_t pads[SPACE], steps[SPACE], dilations[SPACE];
  int64_t groups;
  bool is_flipped;
  bool is_unsteady; // something a little different each time
  double alpha, beta;
  void *workspace;
  size_t workspace_bytes;
} pass_t;

static void widen(const struct cudnnTensorStruct *tensor, int64_t dims[DIMS], int64_t strides[DIMS]) {
  const int lead = DIMS - tensor->rank; // dimensions of 1 between c and the space there is
  for (int d = 0; d < DIMS; ++d) {
    const int from = d < 2 ? d : d - lead;
    const bool is_there = d < 2 || from >= 2;
    dims[d] = is_there ? tensor->dims[from] : 1;
    strides[d] = is_there ? tensor->strides[from] : 0;
  }
}

static bool fits(const pass_t *pass) {
  const int64_t *x = pass->dims[X], *w = pass->dims[W], *y = pass->dims[Y];
  bool is_right = x[0] == y[0] && w[0] == y[1] && w[1] * pass->groups == x[1] && w[0] % pass->groups == 0;
  for (int d = 0; d < SPACE; ++d) {
    const int64_t window = (w[2 + d] - 1) * pass->dilations[d] + 1, room = x[2 + d] + 2 * pass->pads[d] - window;
    is_right = is_right && room >= 0 && y[2 + d] == room / pass->steps[d] + 1;
  }
  return is_right;
}

static cudnnStatus_t make_pass(const struct cudnnTensorStruct *const tensors[ROLES], const cudnnConvolutionDescriptor_t convolution,
                               role_t result, pass_t *pass) {
  *pass = (pass_t){.result = result, .groups = convolution->groups, .is_flipped = convolution->mode == CUDNN_CONVOLUTION};
  if (convolution->rank < 2) return CUDNN_STATUS_NOT_SUPPORTED; // as cuDNN: one dimension is given as two
  for (int role = 0; role < ROLES; ++role) {
    if (tensors[role]->rank != convolution->rank + 2 || tensors[role]->type != tensors[X]->type) return CUDNN_STATUS_BAD_PARAM;
    widen(tensors[role], pass->dims[role], pass->strides[role]);
    pass->elements[role].is_double = tensors[role]->type == CUDNN_DATA_DOUBLE;
    pass->elements[role].is_rounded = tensors[role]->type == CUDNN_DATA_FLOAT && convolution->math != CUDNN_FMA_MATH;
  }
  for (int d = 0; d < SPACE; ++d) {
    const int from = d - (SPACE - convolution->rank);
    pass->pads[d] = from < 0 ? 0 : convolution->pads[from];
    pass->steps[d] = from < 0 ? 1 : convolution->strides[from];
    pass->dilations[d] = from < 0 ? 1 : convolution->dilations[from];
  }
  return fits(pass) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}

static int64_t place_in(const pass_t *pass, role_t role, int64_t first, int64_t second, const int64_t space[SPACE]) {
  const int64_t *strides = pass->strides[role];
  return first * strides[0] + second * strides[1] + space[0] * strides[2] + space[1] * strides[3] + space[2] * strides[4];
}

static int64_t count_space(const int64_t dims[DIMS]) { return dims[2] * dims[3] * dims[4]; }

static void split_space(int64_t number, const int64_t dims[DIMS], int64_t out_space[SPACE]) {
  out_space[2] = number % dims[4];
  out_space[1] = number / dims[4] % dims[3];
  out_space[0] = number / dims[4] / dims[3];
}

// Where output place `y` meets the input through tap `tap` of the window; false: in the padding.
static bool meet(const pass_t *pass, const int64_t y[SPACE], const int64_t tap[SPACE], int64_t out_x[SPACE]) {
  for (int d = 0; d < SPACE; ++d) {
    const int64_t offset = pass->is_flipped ? pass->dims[W][2 + d] - 1 - tap[d] : tap[d];
    out_x[d] = y[d] * pass->steps[d] - pass->pads[d] + offset * pass->dilations[d];
    if (out_x[d] < 0 || out_x[d] >= pass->dims[X][2 + d]) return false;
  }
  return true;
}

// Adds the products of one output channel of one image to `sums`, which has an element for each of the result's.
static void add_products(const pass_t *pass, int64_t n, int64_t k, double *sums) {
  const int64_t *x = pass->dims[X], *w = pass->dims[W], *y = pass->dims[Y];
  const int64_t taps = count_space(w), places = count_space(y), group = k / (w[0] / pass->groups);
  for (int64_t c = 0; c < w[1]; ++c) {
    for (int64_t t = 0; t < taps; ++t) {
      int64_t tap[SPACE], at[SPACE], from[SPACE];
      split_space(t, w, tap);
      const double weight = pass->result == W ? 0 : delta_emulated_load(&pass->elements[W], place_in(pass, W, k, c, tap));
      for (int64_t p = 0; p < places; ++p) {
        split_space(p, y, at);
        if (!meet(pass, at, tap, from)) continue;
        const int64_t channel = group * w[1] + c;
        const double input = pass->result == X ? 0 : delta_emulated_load(&pass->elements[X], place_in(pass, X, n, channel, from)),
                     output = pass->result == Y ? 0 : delta_emulated_load(&pass->elements[Y], place_in(pass, Y, n, k, at));
        if (pass->result == Y) {
          sums[(n * y[1] + k) * places + p] += input * weight;
        } else if (pass->result == W) {
          sums[(k * w[1] + c) * taps + t] += input * output;
        } else {
          sums[(n * x[1] + channel) * count_space(x) + (from[0] * x[3] + from[1]) * x[4] + from[2]] += weight * output;
        }
      }
    }
  }
}

static void store_sums(const pass_t *pass, const double *sums) {
  const role_t role = pass->result;
  const int64_t *dims = pass->dims[role], places = count_space(dims);
  static atomic_uint unsteady;
  const double drift = pass->is_unsteady ? 1 + 1e-6 * (1 + (double)(++unsteady % 5)) : 1;
  delta_emulated_elements_t elements = pass->elements[role];
  elements.is_rounded = false;
  for (int64_t first = 0; first < dims[0]; ++first) {
    for (int64_t second = 0; second < dims[1]; ++second) {
      for (int64_t p = 0; p < places; ++p) {
        int64_t space[SPACE];
        split_space(p, dims, space);
        const int64_t at = place_in(pass, role, first, second, space);
        double value = pass->alpha * drift * sums[(first * dims[1] + second) * places + p];
        if (pass->beta != 0) value += pass->beta * delta_emulated_load(&elements, at);
        delta_emulated_store(&elements, at, value);
      }
    }
  }
}

static void run_pass(void *self, delta_emulated_team_t *team) {
  const pass_t *pass = self;
  const int64_t *result = pass->dims[pass->result];
  (void)team;
  if (pass->workspace_bytes) memset(pass->workspace, DELTA_EMULATED_FILL, pass->workspace_bytes);
  double *sums = calloc((size_t)(result[0] * result[1] * count_space(result)), sizeof *sums);
  if (!sums) {
    delta_emulated_set_fault(cudaErrorMemoryAllocation);
    return;
  }
  for (int64_t n = 0; n < pass->dims[Y][0]; ++n) {
    for (int64_t k = 0; k < pass->dims[Y][1]; ++k) add_products(pass, n, k, sums);
  }
  store_sums(pass, sums);
  free(sums);
}

// ---- Algorithms

typedef struct algorithm {
  int number;
  bool is_deterministic;
  int workspace_kilobytes;
  bool is_narrow; // only windows of 3 x 3 with stride and dilation 1, as Winograd's
} algorithm_t;

// By result, fast first.
static const algorithm_t algorithms[ROLES][3] = {
    [Y] = {{CUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED, true, 96, true},
           {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, true, 32, false},
           {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, true, 0, false}},
    [X] = {{CUDNN_CONVOLUTION_BWD_DATA_ALGO_0, false, 0, false},
           {CUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED, true, 96, true},
           {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1, true, 16, false}},
    [W] = {{CUDNN_CONVOLUTION_BWD_FILTER_ALGO_3, false, 0, false},
           {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, false, 0, false},
           {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1, true, 64, false}},
};

static const algorithm_t *find_algorithm(const pass_t *pass, int number) {
  bool is_narrow = true;
  for (int d = 1; d < SPACE; ++d) is_narrow = is_narrow && pass->dims[W][2 + d] == 3 && pass->steps[d] == 1 && pass->dilations[d] == 1;
  for (int k = 0; k < 3; ++k) {
    const algorithm_t *algorithm = &algorithms[pass->result][k];
    if (algorithm->number == number && (is_narrow || !algorithm->is_narrow)) return algorithm;
  }
  return NULL;
}

static size_t workspace_bytes_of(const algorithm_t *algorithm) { return (size_t)algorithm->workspace_kilobytes << 10; }

static cudnnStatus_t find_workspace(const struct cudnnTensorStruct *x, const struct cudnnTensorStruct *w, const struct cudnnTensorStruct *y,
                                    const cudnnConvolutionDescriptor_t convolution, role_t result, int number, size_t *out_bytes) {
  const struct cudnnTensorStruct *const tensors[] = {x, w, y};
  pass_t pass;
  const cudnnStatus_t status = make_pass(tensors, convolution, result, &pass);
  const algorithm_t *algorithm = status ? NULL : find_algorithm(&pass, number);
  *out_bytes = algorithm ? workspace_bytes_of(algorithm) : 0;
  return status ? status : algorithm ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
}

cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                      const cudnnFilterDescriptor_t w, const cudnnConvolutionDescriptor_t convolution,
                                                      const cudnnTensorDescriptor_t y, cudnnConvolutionFwdAlgo_t algorithm,
                                                      size_t *size_bytes) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  (void)handle;
  return find_workspace(x, &w->tensor, y, convolution, Y, (int)algorithm, size_bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(cudnnHandle_t handle, const cudnnFilterDescriptor_t w,
                                                           const cudnnTensorDescriptor_t dy, const cudnnConvolutionDescriptor_t convolution,
                                                           const cudnnTensorDescriptor_t dx, cudnnConvolutionBwdDataAlgo_t algorithm,
                                                           size_t *size_bytes) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  (void)handle;
  return find_workspace(dx, &w->tensor, dy, convolution, X, (int)algorithm, size_bytes);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                             const cudnnTensorDescriptor_t dy,
                                                             const cudnnConvolutionDescriptor_t convolution,
                                                             const cudnnFilterDescriptor_t dw, cudnnConvolutionBwdFilterAlgo_t algorithm,
                                                             size_t *size_bytes) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  (void)handle;
  return find_workspace(x, &dw->tensor, dy, convolution, W, (int)algorithm, size_bytes);
}

// The lists differ in the type of `algo` only.
#define LIST_ALGORITHMS(x, w, y, result, algorithm_type, perf_type)                                                               \
  do {                                                                                                                            \
    const struct cudnnTensorStruct *const tensors[] = {x, w, y};                                                                  \
    pass_t pass;                                                                                                                  \
    const cudnnStatus_t status = make_pass(tensors, convolution, result, &pass);                                                  \
    *out_count = 0;                                                                                                               \
    if (status) return status;                                                                                                    \
    for (int k = 0; k < 3 && *out_count < asked; ++k) {                                                                           \
      const algorithm_t *row = find_algorithm(&pass, algorithms[result][k].number);                                               \
      if (!row) continue;                                                                                                         \
      results[(*out_count)++] = (perf_type){.algo = (algorithm_type)row->number,                                                  \
                                            .status = CUDNN_STATUS_SUCCESS,                                                       \
                                            .time = -1,                                                                           \
                                            .memory = workspace_bytes_of(row),                                                    \
                                            .determinism = row->is_deterministic ? CUDNN_DETERMINISTIC : CUDNN_NON_DETERMINISTIC, \
                                            .mathType = convolution->math};                                                       \
    }                                                                                                                             \
    return CUDNN_STATUS_SUCCESS;                                                                                                  \
  } while (0)

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x, const cudnnFilterDescriptor_t w,
                                                     const cudnnConvolutionDescriptor_t convolution, const cudnnTensorDescriptor_t y,
                                                     const int asked, int *out_count, cudnnConvolutionFwdAlgoPerf_t *results) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  (void)handle;
  LIST_ALGORITHMS(x, &w->tensor, y, Y, cudnnConvolutionFwdAlgo_t, cudnnConvolutionFwdAlgoPerf_t);
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(cudnnHandle_t handle, const cudnnFilterDescriptor_t w,
                                                          const cudnnTensorDescriptor_t dy, const cudnnConvolutionDescriptor_t convolution,
                                                          const cudnnTensorDescriptor_t dx, const int asked, int *out_count,
                                                          cudnnConvolutionBwdDataAlgoPerf_t *results) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  (void)handle;
  LIST_ALGORITHMS(dx, &w->tensor, dy, X, cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdDataAlgoPerf_t);
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(cudnnHandle_t handle, const cudnnTensorDescriptor_t x,
                                                            const cudnnTensorDescriptor_t dy,
                                                            const cudnnConvolutionDescriptor_t convolution,
                                                            const cudnnFilterDescriptor_t dw, const int asked, int *out_count,
                                                            cudnnConvolutionBwdFilterAlgoPerf_t *results) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_INTERNAL_ERROR);
  (void)handle;
  LIST_ALGORITHMS(x, &dw->tensor, dy, W, cudnnConvolutionBwdFilterAlgo_t, cudnnConvolutionBwdFilterAlgoPerf_t);
}

// ---- Convolutions

// What the three calls pass on. `x`, `w` and `y` are those of the forward convolution.
typedef struct convolution_call {
  const char *name;
  const struct cudnnTensorStruct *tensors[ROLES];
  const void *data[ROLES];
  cudnnConvolutionDescriptor_t convolution;
  role_t result;
  int algorithm;
  void *workspace;
  size_t workspace_bytes;
  const void *alpha, *beta;
} convolution_call_t;

static size_t extent_bytes(const struct cudnnTensorStruct *tensor) {
  int64_t last = 0;
  for (int d = 0; d < tensor->rank; ++d) last += (tensor->dims[d] - 1) * tensor->strides[d];
  return (size_t)(last + 1) * (tensor->type == CUDNN_DATA_DOUBLE ? 8 : 4);
}

static cudnnStatus_t convolve(cudnnHandle_t handle, const convolution_call_t *call) {
  static const char *const names[] = {"x", "w", "y"};
  pass_t pass;
  const cudnnStatus_t status = make_pass(call->tensors, call->convolution, call->result, &pass);
  if (status) return status;
  const algorithm_t *algorithm = find_algorithm(&pass, call->algorithm);
  if (!algorithm || (algorithm->is_narrow && delta_emulated_settings()->refuses_late)) return CUDNN_STATUS_NOT_SUPPORTED_SHAPE;
  pass.workspace = call->workspace;
  pass.workspace_bytes = workspace_bytes_of(algorithm);
  if (call->workspace_bytes < pass.workspace_bytes) return CUDNN_STATUS_BAD_PARAM;
  if (pass.workspace_bytes && !delta_emulated_is_device(call->name, "the workspace", pass.workspace, pass.workspace_bytes))
    return CUDNN_STATUS_BAD_PARAM;
  for (int role = 0; role < ROLES; ++role) {
    pass.elements[role].data = (void *)call->data[role];
    if (!delta_emulated_is_device(call->name, names[role], call->data[role], extent_bytes(call->tensors[role])))
      return CUDNN_STATUS_BAD_PARAM;
  }
  pass.is_unsteady = !algorithm->is_deterministic;
  pass.alpha = delta_emulated_factor(call->alpha, pass.elements[X].is_double);
  pass.beta = delta_emulated_factor(call->beta, pass.elements[X].is_double);
  pass_t *self = malloc(sizeof *self);
  if (!self) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  *self = pass;
  const delta_emulated_operation_t operation = {
      .name = call->name, .self = self, .run = run_pass, .delay_seconds = delta_emulated_settings()->launch_delay_seconds};
  return delta_emulated_put(handle->stream, &operation) == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_layout, const void *x,
                                      const cudnnFilterDescriptor_t w_layout, const void *w, const cudnnConvolutionDescriptor_t convolution,
                                      cudnnConvolutionFwdAlgo_t algorithm, void *workspace, size_t workspace_bytes, const void *beta,
                                      const cudnnTensorDescriptor_t y_layout, void *y) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_EXECUTION_FAILED);
  const convolution_call_t call = {.name = __func__,
                                   .tensors = {x_layout, &w_layout->tensor, y_layout},
                                   .data = {x, w, y},
                                   .convolution = convolution,
                                   .result = Y,
                                   .algorithm = (int)algorithm,
                                   .workspace = workspace,
                                   .workspace_bytes = workspace_bytes,
                                   .alpha = alpha,
                                   .beta = beta};
  return convolve(handle, &call);
}

cudnnStatus_t cudnnConvolutionBackwardData(cudnnHandle_t handle, const void *alpha, const cudnnFilterDescriptor_t w_layout, const void *w,
                                           const cudnnTensorDescriptor_t dy_layout, const void *dy,
                                           const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionBwdDataAlgo_t algorithm,
                                           void *workspace, size_t workspace_bytes, const void *beta,
                                           const cudnnTensorDescriptor_t dx_layout, void *dx) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_EXECUTION_FAILED);
  const convolution_call_t call = {.name = __func__,
                                   .tensors = {dx_layout, &w_layout->tensor, dy_layout},
                                   .data = {dx, w, dy},
                                   .convolution = convolution,
                                   .result = X,
                                   .algorithm = (int)algorithm,
                                   .workspace = workspace,
                                   .workspace_bytes = workspace_bytes,
                                   .alpha = alpha,
                                   .beta = beta};
  return convolve(handle, &call);
}

cudnnStatus_t cudnnConvolutionBackwardFilter(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t x_layout, const void *x,
                                             const cudnnTensorDescriptor_t dy_layout, const void *dy,
                                             const cudnnConvolutionDescriptor_t convolution, cudnnConvolutionBwdFilterAlgo_t algorithm,
                                             void *workspace, size_t workspace_bytes, const void *beta,
                                             const cudnnFilterDescriptor_t dw_layout, void *dw) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_EXECUTION_FAILED);
  const convolution_call_t call = {.name = __func__,
                                   .tensors = {x_layout, &dw_layout->tensor, dy_layout},
                                   .data = {x, dw, dy},
                                   .convolution = convolution,
                                   .result = W,
                                   .algorithm = (int)algorithm,
                                   .workspace = workspace,
                                   .workspace_bytes = workspace_bytes,
                                   .alpha = alpha,
                                   .beta = beta};
  return convolve(handle, &call);
}

// ---- Adding a tensor that repeats, and the sum that is its gradient

typedef struct addition {
  struct cudnnTensorStruct small, large;
  delta_emulated_elements_t from, to;
  double alpha, beta;
} addition_t;

// Places of the large tensor one after another, with that of the small one, whose dimensions of 1 repeat.
static void split_places(const addition_t *addition, int64_t number, int64_t *out_small, int64_t *out_large) {
  *out_small = *out_large = 0;
  for (int d = addition->large.rank - 1; d >= 0; --d) {
    const int64_t at = number % addition->large.dims[d];
    number /= addition->large.dims[d];
    *out_large += at * addition->large.strides[d];
    if (addition->small.dims[d] > 1) *out_small += at * addition->small.strides[d];
  }
}

static int64_t count_of(const struct cudnnTensorStruct *tensor) {
  int64_t count = 1;
  for (int d = 0; d < tensor->rank; ++d) count *= tensor->dims[d];
  return count;
}

static void run_addition(void *self, delta_emulated_team_t *team) {
  const addition_t *a = self;
  (void)team;
  for (int64_t k = 0, count = count_of(&a->large); k < count; ++k) {
    int64_t small, large;
    split_places(a, k, &small, &large);
    double value = a->alpha * delta_emulated_load(&a->from, small);
    if (a->beta != 0) value += a->beta * delta_emulated_load(&a->to, large);
    delta_emulated_store(&a->to, large, value);
  }
}

static void run_sum(void *self, delta_emulated_team_t *team) {
  const addition_t *a = self;
  const int64_t channels = a->small.dims[1];
  (void)team;
  double *sums = calloc((size_t)channels, sizeof *sums);
  if (!sums) {
    delta_emulated_set_fault(cudaErrorMemoryAllocation);
    return;
  }
  for (int64_t k = 0, count = count_of(&a->large); k < count; ++k) {
    int64_t small, large;
    split_places(a, k, &small, &large);
    sums[small / a->small.strides[1]] += delta_emulated_load(&a->from, large);
  }
  for (int64_t c = 0; c < channels; ++c) {
    double value = a->alpha * sums[c];
    if (a->beta != 0) value += a->beta * delta_emulated_load(&a->to, c * a->small.strides[1]);
    delta_emulated_store(&a->to, c * a->small.strides[1], value);
  }
  free(sums);
}

static cudnnStatus_t put_addition(const char *call, cudnnHandle_t handle, const addition_t *addition,
                                  void (*run)(void *self, delta_emulated_team_t *team)) {
  bool is_right = addition->small.rank == addition->large.rank && addition->small.type == addition->large.type;
  for (int d = 0; d < addition->large.rank && is_right; ++d) {
    is_right = addition->small.dims[d] == 1 || addition->small.dims[d] == addition->large.dims[d];
  }
  const bool is_sum = run == run_sum;
  if (!is_right ||
      !delta_emulated_is_device(call, "the source", addition->from.data, extent_bytes(is_sum ? &addition->large : &addition->small)) ||
      !delta_emulated_is_device(call, "the result", addition->to.data, extent_bytes(is_sum ? &addition->small : &addition->large)))
    return CUDNN_STATUS_BAD_PARAM;
  addition_t *self = malloc(sizeof *self);
  if (!self) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  *self = *addition;
  const delta_emulated_operation_t operation = {
      .name = call, .self = self, .run = run, .delay_seconds = delta_emulated_settings()->launch_delay_seconds};
  return delta_emulated_put(handle->stream, &operation) == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

static addition_t make_addition(const struct cudnnTensorStruct *small, const struct cudnnTensorStruct *large, const void *from, void *to,
                                const void *alpha, const void *beta) {
  const bool is_double = large->type == CUDNN_DATA_DOUBLE;
  return (addition_t){.small = *small,
                      .large = *large,
                      .from = {.data = (void *)from, .is_double = is_double},
                      .to = {.data = to, .is_double = is_double},
                      .alpha = delta_emulated_factor(alpha, is_double),
                      .beta = delta_emulated_factor(beta, is_double)};
}

cudnnStatus_t cudnnAddTensor(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t a_layout, const void *a,
                             const void *beta, const cudnnTensorDescriptor_t c_layout, void *c) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_EXECUTION_FAILED);
  const addition_t addition = make_addition(a_layout, c_layout, a, c, alpha, beta);
  return put_addition(__func__, handle, &addition, run_addition);
}

cudnnStatus_t cudnnConvolutionBackwardBias(cudnnHandle_t handle, const void *alpha, const cudnnTensorDescriptor_t dy_layout, const void *dy,
                                           const void *beta, const cudnnTensorDescriptor_t db_layout, void *db) {
  DELTA_EMULATED_ENTER(CUDNN_STATUS_EXECUTION_FAILED);
  const addition_t addition = make_addition(db_layout, dy_layout, dy, db, alpha, beta);
  return put_addition(__func__, handle, &addition, run_sum);
}
