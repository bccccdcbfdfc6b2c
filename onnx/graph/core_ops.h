// Core operators: the small set into which every ONNX operator is lowered, and for which gradients and kernels are written.
//
// The rows of DELTA_CORE_OPS give enum, names and arities, and by their second column the functions of each operator:
//   delta_infer_NAME      (onnx/graph/infer*.c)   output types and shapes, with all checks
//   delta_reference_NAME  (onnx/reference/*.c)    the plain kernel: any supported type, one thread; defines the operator
//   delta_gradient_NAME   (onnx/gradient/*.c)     emits the gradient; "none" in the gradient column: not differentiable
//
// All data is dense and row-major. Operators that slide windows may work on tensors whose physical shape is that of another layout (onnx/graph/layout.h):
// their attributes say so, and mean the plain shapes. Axes in attributes are never negative.
#ifndef DELTA_ONNX_GRAPH_CORE_OPS_H_
#define DELTA_ONNX_GRAPH_CORE_OPS_H_

#include "base/shape.h"
#include "onnx/graph/expr.h"
#include "onnx/graph/layout.h"

// Flags
enum {
  DELTA_CORE_FLAG_INPLACE =
      1 << 0, // an output may have the bytes of any input of the same shape and element size (exactly aliased); of EACH, of its own set
  DELTA_CORE_FLAG_VIEW = 1 << 1,   // no work: the output is the input's bytes
  DELTA_CORE_FLAG_RANDOM = 1 << 2, // draws random numbers by counter (still pure)
  DELTA_CORE_FLAG_LIST = 1 << 3,   // inputs and outputs beyond the least count are a list, all given; elsewhere they are optional
  DELTA_CORE_FLAG_ADDS = 1 << 4,   // the output may have the bytes of input 2, to which the rest is added
};

// X(identifier, name, least inputs, most inputs, least outputs, most outputs, gradient, flags). Inputs -> outputs and attributes are described at the attribute structs below.
#define DELTA_CORE_OPS(X)                                                                           \
  X(CONSTANT, constant, 0, 0, 1, 1, none, 0)                                                        \
  X(VIEW, view, 1, 1, 1, 1, view, DELTA_CORE_FLAG_VIEW)                                             \
  X(POINTWISE, pointwise, 0, 16, 1, 8, pointwise, DELTA_CORE_FLAG_INPLACE | DELTA_CORE_FLAG_LIST)   \
  X(EACH, each, 1, UINT16_MAX, 1, UINT16_MAX, none, DELTA_CORE_FLAG_INPLACE | DELTA_CORE_FLAG_LIST) \
  X(REDUCE, reduce, 1, 16, 1, 8, reduce, DELTA_CORE_FLAG_LIST)                                      \
  X(MOMENTS, moments, 1, 1, 2, 2, moments, 0)                                                       \
  X(ARG_REDUCE, arg_reduce, 1, 1, 1, 1, none, 0)                                                    \
  X(MATMUL, matmul, 2, 4, 1, 1, matmul, DELTA_CORE_FLAG_ADDS)                                       \
  X(CONV, conv, 2, 3, 1, 1, conv, 0)                                                                \
  X(CONV_DATA, conv_data, 2, 3, 1, 1, conv_data, 0)                                                 \
  X(CONV_WEIGHT, conv_weight, 2, 2, 1, 1, conv_weight, 0)                                           \
  X(MAX_POOL, max_pool, 1, 1, 1, 2, max_pool, 0)                                                    \
  X(MAX_POOL_GRAD, max_pool_grad, 2, 2, 1, 1, none, 0)                                              \
  X(AVERAGE_POOL, average_pool, 1, 1, 1, 1, average_pool, 0)                                        \
  X(AVERAGE_POOL_GRAD, average_pool_grad, 1, 1, 1, 1, none, 0)                                      \
  X(SOFTMAX, softmax, 1, 1, 1, 1, softmax, DELTA_CORE_FLAG_INPLACE)                                 \
  X(SOFTMAX_GRAD, softmax_grad, 2, 2, 1, 1, none, DELTA_CORE_FLAG_INPLACE)                          \
  X(ATTENTION, attention, 3, 6, 1, 2, attention, DELTA_CORE_FLAG_RANDOM)                            \
  X(ATTENTION_GRAD, attention_grad, 6, 9, 3, 4, none, DELTA_CORE_FLAG_RANDOM)                       \
  X(CROSS_ENTROPY, cross_entropy, 2, 3, 3, 3, cross_entropy, 0)                                     \
  X(CROSS_ENTROPY_GRAD, cross_entropy_grad, 4, 5, 1, 1, none, DELTA_CORE_FLAG_INPLACE)              \
  X(NLL, nll, 2, 3, 2, 2, nll, 0)                                                                   \
  X(NLL_GRAD, nll_grad, 2, 3, 1, 1, none, 0)                                                        \
  X(DROPOUT, dropout, 3, 3, 1, 2, dropout, DELTA_CORE_FLAG_INPLACE | DELTA_CORE_FLAG_RANDOM)        \
  X(RANDOM, random, 2, 2, 1, 1, none, DELTA_CORE_FLAG_RANDOM)                                       \
  X(TRANSPOSE, transpose, 1, 1, 1, 1, transpose, 0)                                                 \
  X(SLICE, slice, 1, 1, 1, 1, slice, 0)                                                             \
  X(SLICE_GRAD, slice_grad, 1, 1, 1, 1, slice_grad, 0)                                              \
  X(SPLIT, split, 1, 1, 1, UINT16_MAX, split, DELTA_CORE_FLAG_LIST)                                 \
  X(CONCAT, concat, 1, UINT16_MAX, 1, 1, concat, DELTA_CORE_FLAG_LIST)                              \
  X(PAD, pad, 1, 1, 1, 1, pad, 0)                                                                   \
  X(PAD_GRAD, pad_grad, 1, 1, 1, 1, none, 0)                                                        \
  X(GATHER, gather, 2, 2, 1, 1, gather, 0)                                                          \
  X(GATHER_GRAD, gather_grad, 2, 2, 1, 1, gather_grad, 0)                                           \
  X(GATHER_ELEMENTS, gather_elements, 2, 2, 1, 1, gather_elements, 0)                               \
  X(SCATTER_ELEMENTS, scatter_elements, 3, 3, 1, 1, scatter_elements, 0)                            \
  X(GATHER_ND, gather_nd, 2, 2, 1, 1, gather_nd, 0)                                                 \
  X(SCATTER_ND, scatter_nd, 3, 3, 1, 1, scatter_nd, 0)                                              \
  X(TRILU, trilu, 1, 1, 1, 1, trilu, DELTA_CORE_FLAG_INPLACE)                                       \
  X(CUMSUM, cumsum, 1, 1, 1, 1, cumsum, 0)                                                          \
  X(TOPK, topk, 1, 1, 2, 2, topk, 0)                                                                \
  X(RESIZE, resize, 1, 1, 1, 1, resize, 0)                                                          \
  X(RESIZE_GRAD, resize_grad, 1, 1, 1, 1, resize_grad, 0)

typedef enum delta_core_op {
#define DELTA_CORE_ENUM(id, name, min_in, max_in, min_out, max_out, gradient, flags) DELTA_CORE_##id,
  DELTA_CORE_OPS(DELTA_CORE_ENUM)
#undef DELTA_CORE_ENUM
      DELTA_CORE_OP_COUNT
} delta_core_op_t;

// CONSTANT: () -> y. Known values, copied into place when needed.
typedef struct delta_constant_attrs {
  delta_dtype_t dtype;
  delta_shape_t shape;
  const void *data; // Owned by the graph's region.
} delta_constant_attrs_t;

// VIEW: x -> y, the same bytes under another shape of as many elements.
typedef struct delta_view_attrs {
  delta_shape_t shape;
} delta_view_attrs_t;

// POINTWISE: x... -> y... of shape `shape`, to which every input broadcasts; output k has type dtypes[k]. With no inputs it is a fill.
typedef struct delta_pointwise_attrs {
  delta_shape_t shape;
  delta_dtype_t dtypes[DELTA_EXPR_MAX_OUTPUTS];
  delta_expr_t expr;
} delta_pointwise_attrs_t;

// EACH: the same expression for `count` sets of tensors: shared..., own..., own... -> y... of the first set, y... of the second... Input k of the expression is shared by all
// sets where bit k of `shared` is set: one element. The others of a set are its own, have one shape, and so have its outputs, of types dtypes[k]. There is at least one of them.
typedef struct delta_each_attrs {
  uint32_t count;
  uint32_t shared;
  delta_dtype_t dtypes[DELTA_EXPR_MAX_OUTPUTS];
  delta_expr_t expr;
} delta_each_attrs_t;

// X(identifier, name). MEAN divides by the number of elements; an empty MAX or MIN gives the type's lowest or highest value (infinities for floats).
#define DELTA_REDUCE_KINDS(X) X(SUM, "sum") X(MEAN, "mean") X(MAX, "max") X(MIN, "min") X(PROD, "prod")
typedef enum delta_reduce_kind {
#define DELTA_REDUCE_ENUM(id, name) DELTA_REDUCE_##id,
  DELTA_REDUCE_KINDS(DELTA_REDUCE_ENUM)
#undef DELTA_REDUCE_ENUM
} delta_reduce_kind_t;

// REDUCE: x... -> y...: the expression's output k over the broadcast inputs (of shape `shape`), reduced by kinds[k] over the axes in the bit mask.
// Outputs keep the rank, with 1 at reduced axes. Float sums accumulate in float64 in the reference. Prologue and reduction are one operator so that what only feeds a sum is never stored.
typedef struct delta_reduce_attrs {
  delta_shape_t shape;
  uint32_t axes; // bit d: dimension d is reduced
  delta_reduce_kind_t kinds[DELTA_EXPR_MAX_OUTPUTS];
  delta_dtype_t dtypes[DELTA_EXPR_MAX_OUTPUTS];
  delta_expr_t expr;
} delta_reduce_attrs_t;

// MOMENTS: x -> mean, variance (population) over the axes in the mask, keeping the rank; of x's type. Two passes: the variance is of (x - mean).
typedef struct delta_moments_attrs {
  uint32_t axes;
} delta_moments_attrs_t;

// ARG_REDUCE: x -> int64 index of the largest (or smallest) element along `axis`, keeping the rank.
typedef struct delta_arg_reduce_attrs {
  int32_t axis;
  bool smallest;
  bool select_last; // of equal ones the last; else the first
} delta_arg_reduce_attrs_t;

// MATMUL: a [..., m, k] (or [..., k, m] when transpose_a), b likewise, c?, bias? [n] -> y [..., m, n] = a b, to which c of y's shape and the bias of each column are
// added. Ranks are at least 2; leading dimensions of a and b broadcast.
typedef struct delta_matmul_attrs {
  bool transpose_a, transpose_b;
} delta_matmul_attrs_t;

enum { DELTA_MAX_SPATIAL = 3 };
// A sliding window over the spatial dimensions (all after the first two).
typedef struct delta_window {
  int32_t spatial; // 1..3
  int64_t kernel[DELTA_MAX_SPATIAL];
  int64_t strides[DELTA_MAX_SPATIAL];   // >= 1
  int64_t dilations[DELTA_MAX_SPATIAL]; // >= 1
  int64_t pads_begin[DELTA_MAX_SPATIAL];
  int64_t pads_end[DELTA_MAX_SPATIAL];
} delta_window_t;

// CONV: x [n, c, spatial...], w [m, c / group, kernel...], bias? [m] -> y [n, m, out...].
// CONV_DATA: dy [n, m, out...], w, bias? [c] -> dx [n, c, spatial...] with spatial = data_spatial: the gradient of CONV by x; with a bias it is ONNX's ConvTranspose.
// CONV_WEIGHT: x, dy -> dw: the gradient of CONV by w.
// The three share one attribute struct, always that of the CONV they belong to.
typedef struct delta_conv_attrs {
  delta_window_t window;
  int64_t group;
  int64_t data_spatial[DELTA_MAX_SPATIAL]; // spatial dimensions of the CONV's x
  delta_layout_t x_layout, y_layout;       // of the CONV's x and y (and dx, dy); weights are always plain
} delta_conv_attrs_t;

// X(identifier): what MAX_POOL's second output holds. WINDOW: uint8, index of the maximum within its window (row-major over the kernel; kernels of at most 255).
// FLAT: int64 index into the whole of x, row-major; FLAT_COLUMN: the same with the spatial dimensions column-major (ONNX storage_order 1).
typedef enum delta_pool_index { DELTA_POOL_INDEX_WINDOW, DELTA_POOL_INDEX_FLAT, DELTA_POOL_INDEX_FLAT_COLUMN } delta_pool_index_t;

// MAX_POOL: x -> y, index?. Of equal elements the first wins; NaN wins over numbers. Padding never wins.
// MAX_POOL_GRAD: dy, index -> dx with spatial dimensions data_spatial.
// AVERAGE_POOL: x -> y; AVERAGE_POOL_GRAD: dy -> dx. The divisor is the window's size, or without count_include_pad the number of elements inside x;
// with it, what lies beyond the padding (ceil mode) does not count.
typedef struct delta_pool_attrs {
  delta_window_t window;
  int64_t out_spatial[DELTA_MAX_SPATIAL]; // given by the lowering: floor, ceil and "same" differ
  int64_t data_spatial[DELTA_MAX_SPATIAL];
  bool count_include_pad;
  delta_pool_index_t index;
  delta_layout_t layout; // of all tensors; flat indices mean plain positions
} delta_pool_attrs_t;

// SOFTMAX: x -> y along one axis; log: its logarithm. SOFTMAX_GRAD: dy, y -> dx.
typedef struct delta_softmax_attrs {
  int32_t axis;
  bool log;
} delta_softmax_attrs_t;

// ATTENTION: q [.., t, d], k [.., s, d], v [.., s, e], mask?, seed?, draw? -> y [.., t, e], log_sum? [.., t]:
//   scores = scale * q k' + mask, log_sum = log(sum(exp(scores))) over s, y = dropout(exp(scores - log_sum)) v.
// Leading dimensions are the same for q, k and v; the mask broadcasts to the scores' shape [.., t, s]. With heads_inside the tensors are [.., t, h, d],
// [.., s, h, d], [.., s, h, e] and [.., t, h, e], and the scores [.., h, t, s]. With seed and draw, probabilities are dropped as DROPOUT of the same ratio
// and stream would drop a tensor of the scores' shape. A row whose scores are all minus infinity gives NaN as a softmax does, or with hidden_rows_zero 0.
// ATTENTION_GRAD: dy, y, log_sum, q, k, v, mask?, seed?, draw? -> dq, dk, dv, dmask?, by exp(scores - log_sum). Neither keeps anything of the scores' size (but for a mask that has it).
typedef struct delta_attention_attrs {
  double scale;
  double ratio; // of dropout, 0..1; 0 without seed and draw
  uint64_t stream;
  int64_t first; // position of the first score among those that numbers are drawn for
  bool heads_inside;
  bool hidden_rows_zero;
} delta_attention_attrs_t;

// CROSS_ENTROPY: logits [.., classes at `axis`, ..], labels (int32 or int64; without the axis), weights? [classes] -> loss, weight, log_sum (each shaped as labels, of the logits' type):
//   loss = weight * (log_sum - logits[label]), log_sum = log(sum(exp(logits))), weight = weights[label], or 1; both 0 where label == ignore_index.
// CROSS_ENTROPY_GRAD: dloss, logits, log_sum, labels, weights? -> dlogits = dloss * weight * (exp(logits - log_sum) - onehot).
// NLL: log_probabilities, labels, weights? -> loss = -weight * log_probabilities[label], weight. NLL_GRAD: dloss, labels, weights? -> gradient by log_probabilities.
// Gradients by labels, weights and the `weight` output do not exist. A label outside [0, classes) that is not ignored counts as ignored; programs check ranges before the step.
typedef struct delta_class_loss_attrs {
  int32_t axis;
  int64_t classes;
  bool has_ignore;
  int64_t ignore_index;
} delta_class_loss_attrs_t;

// DROPOUT: x, seed (int64 scalar), draw (int64 scalar) -> y = x * mask / (1 - ratio), mask? (bool). mask[i] = uniform(stream key of (seed, draw, stream), first + i) >= ratio:
// base/random.h. ratio 1 gives zeros. Linear in x: its gradient is itself, with the same stream.
typedef struct delta_dropout_attrs {
  double ratio; // 0..1
  uint64_t stream;
  int64_t first; // not 0 for a part of a tensor
} delta_dropout_attrs_t;

// RANDOM: seed, draw -> y of `shape`, uniform in [low, high) or normal (mean low, standard deviation high; Box-Muller of words 2i, 2i+1).
typedef struct delta_random_attrs {
  delta_shape_t shape;
  delta_dtype_t dtype;
  bool normal;
  double low, high;
  uint64_t stream;
} delta_random_attrs_t;

// TRANSPOSE: output dimension d is input dimension permutation[d].
typedef struct delta_transpose_attrs {
  int32_t permutation[DELTA_MAX_RANK];
} delta_transpose_attrs_t;

// SLICE: y[i...] = x[starts + i * steps ...], `shape` is y's. Every index is inside x. Steps may be negative, not 0.
// SLICE_GRAD: dy -> dx of data_shape, zero elsewhere.
typedef struct delta_slice_attrs {
  delta_shape_t shape;
  delta_shape_t data_shape;
  int64_t starts[DELTA_MAX_RANK];
  int64_t steps[DELTA_MAX_RANK];
} delta_slice_attrs_t;

// SPLIT: x -> parts of sizes[k] along axis. CONCAT: the reverse (sizes unused). Count of sizes is the count of outputs.
typedef struct delta_split_attrs {
  int32_t axis;
  const int64_t *sizes; // Owned by the graph's region; NULL for CONCAT.
} delta_split_attrs_t;

#define DELTA_PAD_MODES(X) X(CONSTANT, "constant") X(REFLECT, "reflect") X(EDGE, "edge") X(WRAP, "wrap")
typedef enum delta_pad_mode {
#define DELTA_PAD_ENUM(id, name) DELTA_PAD_##id,
  DELTA_PAD_MODES(DELTA_PAD_ENUM)
#undef DELTA_PAD_ENUM
} delta_pad_mode_t;
// PAD: begin/end elements are added (negative: cut) at each side. PAD_GRAD: dy -> dx of data_shape (sums what was repeated; nothing flows from constants).
typedef struct delta_pad_attrs {
  delta_pad_mode_t mode;
  int64_t begin[DELTA_MAX_RANK];
  int64_t end[DELTA_MAX_RANK];
  double value; // CONSTANT
  delta_shape_t data_shape;
} delta_pad_attrs_t;

// GATHER: x, indices -> x.shape[:axis] + indices.shape + x.shape[axis+1:]. GATHER_GRAD: indices, dy -> dx of data_shape; duplicates sum in index order.
// GATHER_ELEMENTS: x, indices (rank of x) -> indices' shape. GATHER_ND: x, indices with batch_dims shared leading dimensions.
// In all index operators a negative index counts from the end; one outside is an error when folded or run by reference, and checked before the step where data feeds it.
typedef struct delta_gather_attrs {
  int32_t axis;
  int32_t batch_dims;       // GATHER_ND
  delta_shape_t data_shape; // GATHER_GRAD
} delta_gather_attrs_t;

#define DELTA_SCATTER_KINDS(X) X(NONE, "none") X(ADD, "add") X(MUL, "mul") X(MAX, "max") X(MIN, "min")
typedef enum delta_scatter_kind {
#define DELTA_SCATTER_ENUM(id, name) DELTA_SCATTER_##id,
  DELTA_SCATTER_KINDS(DELTA_SCATTER_ENUM)
#undef DELTA_SCATTER_ENUM
} delta_scatter_kind_t;
// SCATTER_ELEMENTS, SCATTER_ND: data, indices, updates -> data with updates applied, in index order (with NONE the last wins).
typedef struct delta_scatter_attrs {
  int32_t axis; // SCATTER_ELEMENTS
  delta_scatter_kind_t kind;
} delta_scatter_attrs_t;

// TRILU: keeps the upper (else lower) triangle of the last two dimensions, counted from diagonal k.
typedef struct delta_trilu_attrs {
  bool upper;
  int64_t k;
} delta_trilu_attrs_t;

typedef struct delta_cumsum_attrs {
  int32_t axis;
  bool exclusive, reverse;
} delta_cumsum_attrs_t;

// TOPK: x -> values, indices (int64) of the k largest (or smallest) along axis; equal ones by lower index; sorted always.
typedef struct delta_topk_attrs {
  int32_t axis;
  int64_t k;
  bool smallest;
} delta_topk_attrs_t;

#define DELTA_RESIZE_MODES(X) X(NEAREST, "nearest") X(LINEAR, "linear") X(CUBIC, "cubic")
// clang-format off
#define DELTA_RESIZE_COORDINATES(X) \
  X(HALF_PIXEL, "half_pixel") \
  X(HALF_PIXEL_SYMMETRIC, "half_pixel_symmetric") \
  X(PYTORCH_HALF_PIXEL, "pytorch_half_pixel") \
  X(ALIGN_CORNERS, "align_corners") \
  X(ASYMMETRIC, "asymmetric") \
  X(TF_CROP_AND_RESIZE, "tf_crop_and_resize") \
  X(TF_HALF_PIXEL_FOR_NN, "tf_half_pixel_for_nn")
// clang-format on
#define DELTA_RESIZE_ROUNDINGS(X) \
  X(ROUND_PREFER_FLOOR, "round_prefer_floor") X(ROUND_PREFER_CEIL, "round_prefer_ceil") X(FLOOR, "floor") X(CEIL, "ceil")
#define DELTA_RESIZE_ENUM(id, name) DELTA_RESIZE_##id,
typedef enum delta_resize_mode { DELTA_RESIZE_MODES(DELTA_RESIZE_ENUM) } delta_resize_mode_t;
typedef enum delta_resize_coordinate { DELTA_RESIZE_COORDINATES(DELTA_RESIZE_ENUM) } delta_resize_coordinate_t;
typedef enum delta_resize_rounding { DELTA_RESIZE_ROUNDINGS(DELTA_RESIZE_ENUM) } delta_resize_rounding_t;
#undef DELTA_RESIZE_ENUM
// RESIZE: x -> y of out_shape, separable and linear in x (ONNX Resize 10 to 19 without aspect policies, which the lowering resolves). RESIZE_GRAD: dy -> dx of data_shape.
typedef struct delta_resize_attrs {
  delta_resize_mode_t mode;
  delta_resize_coordinate_t coordinate;
  delta_resize_rounding_t rounding;
  double cubic_coefficient;
  bool exclude_outside;
  bool antialias;
  double extrapolation_value;    // TF_CROP_AND_RESIZE only
  double scales[DELTA_MAX_RANK]; // output / input, as stated or derived
  double roi_start[DELTA_MAX_RANK], roi_end[DELTA_MAX_RANK];
  delta_shape_t out_shape;
  delta_shape_t data_shape;
} delta_resize_attrs_t;

struct delta_graph;
struct delta_node;
struct delta_emit;
struct delta_gradient_args;

// Output types and shapes of a node about to be added: inputs are checked here. Fills types[k], shapes[k] for the node's outputs.
typedef struct delta_infer_args {
  const struct delta_graph *graph;
  const struct delta_node *node; // inputs, attrs, output_count set
  delta_dtype_t *types;
  delta_shape_t *shapes;
} delta_infer_args_t;

// Buffers of a node for its reference kernel. An optional input or output left out is NULL.
typedef struct delta_reference_args {
  const struct delta_graph *graph;
  const struct delta_node *node;
  const void *const *inputs;
  void *const *outputs;
  delta_allocator_t allocator; // for temporaries
} delta_reference_args_t;

typedef struct delta_core_op_info {
  const char *name;
  uint32_t min_inputs, max_inputs, min_outputs, max_outputs;
  uint32_t flags;
  delta_status_t (*infer)(const delta_infer_args_t *args);
  delta_status_t (*reference)(const delta_reference_args_t *args);
  delta_status_t (*gradient)(const struct delta_gradient_args *args); // delta_gradient_none: UNSUPPORTED naming the node
} delta_core_op_info_t;
const delta_core_op_info_t *delta_core_op_info(delta_core_op_t op);

// Runs a node's reference kernel on operands of any layout. The rows' own functions are for plain ones.
DELTA_MUST_USE delta_status_t delta_reference_node(const delta_reference_args_t *args);

#define DELTA_CORE_DECLARE(id, name, min_in, max_in, min_out, max_out, gradient_name, flags) \
  delta_status_t delta_infer_##name(const delta_infer_args_t *args);                         \
  delta_status_t delta_reference_##name(const delta_reference_args_t *args);                 \
  delta_status_t delta_gradient_##gradient_name(const struct delta_gradient_args *args);
DELTA_CORE_OPS(DELTA_CORE_DECLARE)
#undef DELTA_CORE_DECLARE

#endif // DELTA_ONNX_GRAPH_CORE_OPS_H_
