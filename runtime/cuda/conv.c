// CONV, CONV_DATA and CONV_WEIGHT by cuDNN on plain layouts: one row for each of its algorithms that give the same bits every time, so that measured times choose.
//
// The library pads both sides alike. Where a convolution does not, and its windows would not be the same, it runs on a padded copy of x in the workspace.
#include <string.h>

#include "onnx/graph/window.h"
#include "runtime/cuda/conv_direct.h"
#include "runtime/cuda/copy.h"
#include "runtime/cuda/kernel.h"

// Algorithms that want more are as good as not there: what they gain is lost in memory.
enum { MOST_WORKSPACE_BYTES = 256 << 20, LEAST_SPATIAL = 2, WORKSPACE_ALIGNMENT_BYTES = 256 };

// The three tensors of a convolution, whichever pass it is.
typedef struct conv_operands {
  const delta_tensor_t *x, *y, *weights, *bias; // bias NULL: none
} conv_operands_t;

static conv_operands_t operands_of(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_tensor_t *first = delta_node_input(graph, node, 0), *second = delta_node_input(graph, node, 1);
  const delta_tensor_t *bias = delta_node_input(graph, node, 2), *output = delta_node_output(graph, node, 0);
  switch (node->op) {
    case DELTA_CORE_CONV:
      return (conv_operands_t){first, output, second, bias};
    case DELTA_CORE_CONV_DATA:
      return (conv_operands_t){output, first, second, bias};
    default:
      return (conv_operands_t){first, second, output, NULL};
  }
}

static delta_window_geometry_t geometry_of(const delta_conv_attrs_t *attrs, const delta_shape_t *y) {
  return delta_window_geometry(&attrs->window, attrs->data_spatial, y->dims + 2);
}

const char *delta_cuda_conv_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_conv_attrs_t *attrs = node->attrs;
  const conv_operands_t operands = operands_of(graph, node);
  if (attrs->x_layout != DELTA_LAYOUT_PLAIN || attrs->y_layout != DELTA_LAYOUT_PLAIN)
    return "weights lie plain, and so must data for the library";
  if (delta_cuda_refuse_unless_float(graph, node)) return "an operand is not of a float type";
  if (operands.x->dtype != operands.weights->dtype || operands.y->dtype != operands.weights->dtype)
    return "operands are of different types";
  if (delta_shape_count(&operands.x->shape) == 0 || delta_shape_count(&operands.y->shape) == 0) return "there is nothing to convolve";
  const delta_shape_t *shapes[] = {&operands.x->shape, &operands.y->shape, &operands.weights->shape};
  for (size_t k = 0; k < sizeof shapes / sizeof *shapes; ++k) {
    if (delta_shape_count(shapes[k]) > INT32_MAX) return "an operand has more elements than the library counts";
  }
  return NULL;
}

// ---- Made once

typedef struct conv {
  cudnnTensorDescriptor_t x, y; // Owned, as are the next two.
  cudnnFilterDescriptor_t weights;
  cudnnConvolutionDescriptor_t convolution;
  bool is_padded;         // x is a copy with its padding
  delta_cuda_copy_t copy; // from x to the inside of the padded copy
  delta_cuda_copy_t back; // and the other way
  size_t padded_bytes;    // of the copy, the workspace's beginning
  size_t library_bytes;   // of the workspace, behind it
  delta_dtype_t dtype;
  int64_t images, bias_channels, bias_inner;
} conv_t;

static bool library_types_of(delta_dtype_t dtype, cudnnDataType_t *out_data, cudnnDataType_t *out_compute) {
  *out_compute = CUDNN_DATA_FLOAT;
  switch (dtype) {
    case DELTA_DTYPE_FLOAT32:
      *out_data = CUDNN_DATA_FLOAT;
      return true;
    case DELTA_DTYPE_FLOAT64:
      *out_data = *out_compute = CUDNN_DATA_DOUBLE;
      return true;
    case DELTA_DTYPE_FLOAT16:
      *out_data = CUDNN_DATA_HALF;
      return true;
    case DELTA_DTYPE_BFLOAT16:
      *out_data = CUDNN_DATA_BFLOAT16;
      return true;
    default:
      return false;
  }
}

// Spatial dimensions as the library wants them, at least two: [images, channels, spatial..].
typedef struct library_shape {
  int rank, spatial;
  int dims[2 + DELTA_WINDOW_DIMS];
} library_shape_t;

static library_shape_t library_shape_of(int64_t outer, int64_t channels, const int64_t sizes[DELTA_WINDOW_DIMS], int spatial) {
  library_shape_t shape = {.rank = 2 + spatial, .spatial = spatial, .dims = {(int)outer, (int)channels}};
  for (int d = 0; d < spatial; ++d) shape.dims[2 + d] = (int)sizes[DELTA_WINDOW_DIMS - spatial + d];
  return shape;
}

// Whether windows padded by `pads` on both sides are those of the node.
static bool is_padded_alike(const delta_window_geometry_t *window) {
  for (int d = 0; d < DELTA_WINDOW_DIMS; ++d) {
    const int64_t reach = (window->kernel[d] - 1) * window->dilations[d] + 1, room = window->data[d] + 2 * window->pads[d] - reach;
    if (room < 0 || room / window->strides[d] + 1 != window->out[d]) return false;
  }
  return true;
}

// The copies between x and its padded form, and the geometry on the latter.
static void pad(conv_t *conv, const delta_tensor_t *x, delta_window_geometry_t *window) {
  delta_shape_t shape = {.rank = 2 + DELTA_WINDOW_DIMS, .dims = {x->shape.dims[0], x->shape.dims[1]}}, padded = shape;
  delta_strided_t dense = {0}, inside = {0};
  for (int d = 0; d < DELTA_WINDOW_DIMS; ++d) {
    // What no window reads is left out at the end, and what windows read beyond the padding is added.
    const int64_t reach = (window->kernel[d] - 1) * window->dilations[d] + 1;
    shape.dims[2 + d] = window->data[d];
    padded.dims[2 + d] = (window->out[d] - 1) * window->strides[d] + reach;
    if (padded.dims[2 + d] < window->pads[d] + window->data[d]) padded.dims[2 + d] = window->pads[d] + window->data[d];
  }
  delta_shape_strides(&shape, dense.strides);
  delta_shape_strides(&padded, inside.strides);
  for (int d = 0; d < DELTA_WINDOW_DIMS; ++d) {
    inside.start += window->pads[d] * inside.strides[2 + d];
    window->pads[d] = window->pads_end[d] = 0;
    window->data[d] = padded.dims[2 + d];
  }
  conv->is_padded = true;
  conv->padded_bytes = (size_t)delta_shape_count(&padded) * delta_dtype_bytes(x->dtype);
  delta_cuda_copy_init(&conv->copy, &shape, delta_dtype_bytes(x->dtype), &inside, &dense);
  delta_cuda_copy_init(&conv->back, &shape, delta_dtype_bytes(x->dtype), &dense, &inside);
}

static delta_status_t describe(conv_t *conv, const conv_operands_t *operands, const delta_conv_attrs_t *attrs,
                               const delta_window_geometry_t *window, bool allows_tf32) {
  const int spatial = attrs->window.spatial > LEAST_SPATIAL ? attrs->window.spatial : LEAST_SPATIAL, first = DELTA_WINDOW_DIMS - spatial;
  const delta_shape_t *x = &operands->x->shape, *y = &operands->y->shape, *w = &operands->weights->shape;
  const library_shape_t x_shape = library_shape_of(x->dims[0], x->dims[1], window->data, spatial);
  const library_shape_t y_shape = library_shape_of(y->dims[0], y->dims[1], window->out, spatial);
  const library_shape_t w_shape = library_shape_of(w->dims[0], w->dims[1], window->kernel, spatial);
  int pads[DELTA_WINDOW_DIMS], strides[DELTA_WINDOW_DIMS], dilations[DELTA_WINDOW_DIMS];
  for (int d = 0; d < spatial; ++d) {
    pads[d] = (int)window->pads[first + d];
    strides[d] = (int)window->strides[first + d];
    dilations[d] = (int)window->dilations[first + d];
  }
  cudnnDataType_t data, compute;
  if (!library_types_of(conv->dtype, &data, &compute))
    return delta_status_make(INTERNAL, "a convolution of %s", delta_dtype_name(conv->dtype));
  DELTA_RETURN_IF_ERROR(DELTA_CUDNN_CHECK(cudnnCreateTensorDescriptor(&conv->x)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDNN_CHECK(cudnnCreateTensorDescriptor(&conv->y)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDNN_CHECK(cudnnCreateFilterDescriptor(&conv->weights)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDNN_CHECK(cudnnCreateConvolutionDescriptor(&conv->convolution)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDNN_CHECK(cudnnSetTensorNdDescriptorEx(conv->x, CUDNN_TENSOR_NCHW, data, x_shape.rank, x_shape.dims)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDNN_CHECK(cudnnSetTensorNdDescriptorEx(conv->y, CUDNN_TENSOR_NCHW, data, y_shape.rank, y_shape.dims)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDNN_CHECK(cudnnSetFilterNdDescriptor(conv->weights, data, CUDNN_TENSOR_NCHW, w_shape.rank, w_shape.dims)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDNN_CHECK(
      cudnnSetConvolutionNdDescriptor(conv->convolution, spatial, pads, strides, dilations, CUDNN_CROSS_CORRELATION, compute)));
  DELTA_RETURN_IF_ERROR(DELTA_CUDNN_CHECK(cudnnSetConvolutionGroupCount(conv->convolution, (int)attrs->group)));
  const bool is_narrow = conv->dtype == DELTA_DTYPE_FLOAT16 || conv->dtype == DELTA_DTYPE_BFLOAT16;
  return DELTA_CUDNN_CHECK(cudnnSetConvolutionMathType(conv->convolution, is_narrow     ? CUDNN_TENSOR_OP_MATH
                                                                          : allows_tf32 ? CUDNN_DEFAULT_MATH
                                                                                        : CUDNN_FMA_MATH));
}

static delta_status_t find_workspace(const delta_kernel_t *kernel, conv_t *conv) {
  const cudnnHandle_t library = delta_cuda_device(kernel->device)->cudnn;
  switch (kernel->node->op) {
    case DELTA_CORE_CONV:
      return DELTA_CUDNN_CHECK(cudnnGetConvolutionForwardWorkspaceSize(library, conv->x, conv->weights, conv->convolution, conv->y,
                                                                       (cudnnConvolutionFwdAlgo_t)delta_cuda_kernel_row(kernel)->variant,
                                                                       &conv->library_bytes));
    case DELTA_CORE_CONV_DATA:
      return DELTA_CUDNN_CHECK(cudnnGetConvolutionBackwardDataWorkspaceSize(
          library, conv->weights, conv->y, conv->convolution, conv->x,
          (cudnnConvolutionBwdDataAlgo_t)delta_cuda_kernel_row(kernel)->variant, &conv->library_bytes));
    default:
      return DELTA_CUDNN_CHECK(cudnnGetConvolutionBackwardFilterWorkspaceSize(
          library, conv->x, conv->y, conv->convolution, conv->weights,
          (cudnnConvolutionBwdFilterAlgo_t)delta_cuda_kernel_row(kernel)->variant, &conv->library_bytes));
  }
}

delta_status_t delta_cuda_conv_prepare(delta_kernel_t *kernel) {
  const delta_conv_attrs_t *attrs = kernel->node->attrs;
  const conv_operands_t operands = operands_of(kernel->graph, kernel->node);
  conv_t *conv = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &conv));
  kernel->state = conv;
  conv->dtype = operands.weights->dtype;
  const delta_shape_t *biased = kernel->node->op == DELTA_CORE_CONV ? &operands.y->shape : &operands.x->shape;
  conv->images = biased->dims[0];
  conv->bias_channels = biased->dims[1];
  conv->bias_inner = delta_shape_count_range(biased, 2, biased->rank);
  delta_window_geometry_t window = geometry_of(attrs, &operands.y->shape);
  if (!is_padded_alike(&window)) pad(conv, operands.x, &window);
  conv->padded_bytes = (size_t)delta_size_round_up(conv->padded_bytes, WORKSPACE_ALIGNMENT_BYTES);
  DELTA_RETURN_IF_ERROR(describe(conv, &operands, attrs, &window, kernel->device->math == DELTA_FLOAT_MATH_TF32));
  DELTA_RETURN_IF_ERROR(find_workspace(kernel, conv));
  if (conv->library_bytes > MOST_WORKSPACE_BYTES)
    return delta_status_make(UNSUPPORTED, "the algorithm wants %zu bytes beside its operands", conv->library_bytes);
  kernel->workspace_bytes = conv->padded_bytes + conv->library_bytes;
  return DELTA_OK;
}

void delta_cuda_conv_release(delta_kernel_t *kernel) {
  conv_t *conv = kernel->state;
  if (!conv) return;
  if (conv->convolution) cudnnDestroyConvolutionDescriptor(conv->convolution);
  if (conv->weights) cudnnDestroyFilterDescriptor(conv->weights);
  if (conv->y) cudnnDestroyTensorDescriptor(conv->y);
  if (conv->x) cudnnDestroyTensorDescriptor(conv->x);
  delta_release(kernel->device->allocator, conv);
}

// ---- Runs

// Factors of the library: of the result, and of what was there before.
typedef struct factors {
  const void *one, *zero;
} factors_t;
static factors_t factors_of(delta_dtype_t dtype) {
  static const float one = 1, zero = 0;
  static const double wide_one = 1, wide_zero = 0;
  return dtype == DELTA_DTYPE_FLOAT64 ? (factors_t){&wide_one, &wide_zero} : (factors_t){&one, &zero};
}

// x with its padding, or as it is.
static delta_status_t padded_input(const conv_t *conv, const void *x, void *workspace, cudaStream_t stream, const void **out_x) {
  *out_x = x;
  if (!conv->is_padded) return DELTA_OK;
  *out_x = workspace;
  DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(cudaMemsetAsync(workspace, 0, conv->padded_bytes, stream)));
  return DELTA_CUDA_CHECK(delta_cuda_copy_launch(&conv->copy, workspace, x, stream));
}

static delta_status_t add_bias(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const conv_t *conv = kernel->state;
  const void *bias = delta_kernel_input_data(kernel, buffers, 2);
  if (!bias) return DELTA_OK;
  return DELTA_CUDA_CHECK(
      delta_cuda_add_bias_launch(conv->dtype, conv->images, conv->bias_channels, conv->bias_inner, bias, buffers->outputs[0], stream));
}

delta_status_t delta_cuda_conv_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const conv_t *conv = kernel->state;
  const factors_t factors = factors_of(conv->dtype);
  const void *x;
  DELTA_RETURN_IF_ERROR(padded_input(conv, buffers->inputs[0], buffers->workspace, stream, &x));
  DELTA_RETURN_IF_ERROR(DELTA_CUDNN_CHECK(cudnnConvolutionForward(
      delta_cuda_device(kernel->device)->cudnn, factors.one, conv->x, x, conv->weights, buffers->inputs[1], conv->convolution,
      (cudnnConvolutionFwdAlgo_t)delta_cuda_kernel_row(kernel)->variant, (char *)buffers->workspace + conv->padded_bytes,
      conv->library_bytes, factors.zero, conv->y, buffers->outputs[0])));
  return add_bias(kernel, buffers, stream);
}

delta_status_t delta_cuda_conv_data_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const conv_t *conv = kernel->state;
  const factors_t factors = factors_of(conv->dtype);
  void *dx = conv->is_padded ? buffers->workspace : buffers->outputs[0];
  DELTA_RETURN_IF_ERROR(DELTA_CUDNN_CHECK(cudnnConvolutionBackwardData(
      delta_cuda_device(kernel->device)->cudnn, factors.one, conv->weights, buffers->inputs[1], conv->y, buffers->inputs[0],
      conv->convolution, (cudnnConvolutionBwdDataAlgo_t)delta_cuda_kernel_row(kernel)->variant,
      (char *)buffers->workspace + conv->padded_bytes, conv->library_bytes, factors.zero, conv->x, dx)));
  if (conv->is_padded) DELTA_RETURN_IF_ERROR(DELTA_CUDA_CHECK(delta_cuda_copy_launch(&conv->back, buffers->outputs[0], dx, stream)));
  return add_bias(kernel, buffers, stream);
}

delta_status_t delta_cuda_conv_weight_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const conv_t *conv = kernel->state;
  const factors_t factors = factors_of(conv->dtype);
  const void *x;
  DELTA_RETURN_IF_ERROR(padded_input(conv, buffers->inputs[0], buffers->workspace, stream, &x));
  return DELTA_CUDNN_CHECK(cudnnConvolutionBackwardFilter(
      delta_cuda_device(kernel->device)->cudnn, factors.one, conv->x, x, conv->y, buffers->inputs[1], conv->convolution,
      (cudnnConvolutionBwdFilterAlgo_t)delta_cuda_kernel_row(kernel)->variant, (char *)buffers->workspace + conv->padded_bytes,
      conv->library_bytes, factors.zero, conv->weights, buffers->outputs[0]));
}
