// Convolutions through oneDNN on other layouts than the plain one. Tensors that lie in a layout are taken as they are; plain ones are converted, a few
// images at a time, into the workspace and back while they are in cache. Where all tensors are plain, windows of single elements, side by side, gain nothing by
// that and are left to other kernels. Weights are converted to what the library likes best in any case.
#include <string.h>

#include "runtime/cpu/conv_pass.h"
#include "runtime/cpu/team.h"

enum { SLICE_BYTES = 2 << 20, CHANNEL_BLOCK = 16, ALIGNMENT_BYTES = 64, WINOGRAD_LEAST_CHANNELS = 64, WINOGRAD_LEAST_BYTES = 4 << 20 };

// One tensor of the pass.
typedef struct delta_conv_operand {
  dnnl_primitive_t reorder; // Owned; NULL: the plain layout serves
  dnnl_memory_t plain;      // Owned; the plain side of the reorder
  dnnl_memory_t blocked;    // one of the primitive's arguments
  size_t workspace_offset;  // of the converted tensor
  size_t slice_bytes;       // plain, from slice to slice; 0 for the weights
} delta_conv_operand_t;

typedef struct delta_conv_blocked {
  delta_onednn_primitive_t primitive;
  delta_conv_operand_t operands[DELTA_CONV_ROLES];
  int64_t slices;
  size_t scratchpad_offset;
  // By weight: the sum over slices, and how many floats it has.
  size_t sum_offset;
  int64_t sum_count;
} delta_conv_blocked_t;

const char *delta_cpu_conv_blocked_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const char *reason = delta_cpu_conv_refuse(graph, node);
  if (reason) return reason;
  const delta_conv_attrs_t *attrs = node->attrs;
  const delta_window_t *window = &attrs->window;
  if (attrs->x_layout != DELTA_LAYOUT_PLAIN || attrs->y_layout != DELTA_LAYOUT_PLAIN) return NULL;
  for (int32_t d = 0; d < window->spatial; ++d)
    if (window->kernel[d] > 1 || window->strides[d] > 1) return NULL;
  return "windows of single elements, side by side, gain nothing";
}

// Bytes of one image with its channels filled up to whole blocks.
static size_t blocked_image_bytes(const delta_shape_t *shape) {
  int64_t channels = (shape->dims[1] + CHANNEL_BLOCK - 1) / CHANNEL_BLOCK * CHANNEL_BLOCK;
  return (size_t)(channels * delta_shape_count_range(shape, 2, shape->rank)) * sizeof(float);
}

// Whether a tensor may lie as the library likes best, converted from and to its own layout.
static bool is_free(const delta_conv_pass_t *pass, int role, bool converts_all) {
  return converts_all || pass->layouts[role] == DELTA_LAYOUT_PLAIN;
}

// Images of one slice: the most that divide the batch and whose converted tensors stay within the limit. The weights are read once a slice, and written
// when they are the result, so a slice may be as large as they are.
static int64_t slice_images(const delta_conv_pass_t *pass, bool converts_all) {
  int64_t images = pass->shapes[DELTA_CONV_X].dims[0];
  size_t image_bytes = 0, weight_bytes = delta_tensor_bytes(pass->tensors[DELTA_CONV_W]);
  for (int role = 0; role < DELTA_CONV_ROLES; ++role) {
    if (role != DELTA_CONV_W && is_free(pass, role, converts_all)) image_bytes += blocked_image_bytes(&pass->shapes[role]);
  }
  if (image_bytes == 0) return images;
  size_t limit_bytes = weight_bytes > SLICE_BYTES ? weight_bytes : SLICE_BYTES;
  int64_t most = (int64_t)(limit_bytes / image_bytes);
  for (int64_t count = most < images ? most : images; count > 1; --count)
    if (images % count == 0) return count;
  return 1;
}

static delta_status_t add_operand(delta_kernel_t *kernel, const delta_conv_pass_t *pass, int role, const dnnl_memory_desc_t *plain,
                                  dnnl_primitive_desc_t description) {
  delta_conv_blocked_t *state = kernel->state;
  delta_conv_operand_t *operand = &state->operands[role];
  const dnnl_memory_desc_t *wanted = dnnl_primitive_desc_query_md(description, dnnl_query_exec_arg_md, pass->arguments[role]);
  if (!wanted) return delta_status_make(INTERNAL, "oneDNN does not say the layout of argument %d", pass->arguments[role]);
  DELTA_RETURN_IF_ERROR(delta_onednn_add(&state->primitive, pass->arguments[role], wanted));
  operand->blocked = state->primitive.args[state->primitive.arg_count - 1].memory;
  operand->slice_bytes = role == DELTA_CONV_W ? 0 : delta_tensor_bytes(pass->tensors[role]) / (size_t)state->slices;
  bool is_result = role == (int)pass->result, is_sum = is_result && role == DELTA_CONV_W && state->slices > 1;
  if (dnnl_memory_desc_equal(wanted, plain) && !is_sum) return DELTA_OK;
  operand->workspace_offset = delta_onednn_reserve(kernel, dnnl_memory_desc_get_size(wanted));
  if (is_sum) {
    state->sum_count = (int64_t)(dnnl_memory_desc_get_size(wanted) / sizeof(float));
    state->sum_offset = delta_onednn_reserve(kernel, dnnl_memory_desc_get_size(wanted));
  }
  DELTA_RETURN_IF_ERROR(DELTA_ONEDNN(delta_onednn_call_memory_create(&operand->plain, plain, state->primitive.engine, DNNL_MEMORY_NONE)));
  return delta_onednn_reorder(&state->primitive, is_result ? wanted : plain, is_result ? plain : wanted, &operand->reorder);
}

// Describes the pass on one slice. `plain` receives the layouts of the tensors themselves.
static delta_status_t describe_slice(const delta_conv_pass_t *pass, delta_conv_blocked_t *state, bool converts_all,
                                     dnnl_memory_desc_t plain[DELTA_CONV_ROLES], dnnl_primitive_desc_t *out_description) {
  dnnl_memory_desc_t any[DELTA_CONV_ROLES];
  const int64_t images = slice_images(pass, converts_all);
  state->slices = pass->shapes[DELTA_CONV_X].dims[0] / images;
  DELTA_RETURN_IF_ERROR(delta_conv_pass_layouts(pass, images, plain));
  for (int role = 0; role < DELTA_CONV_ROLES; ++role) {
    any[role] = plain[role];
    if (!is_free(pass, role, converts_all)) continue;
    DELTA_RETURN_IF_ERROR(
        DELTA_ONEDNN(dnnl_memory_desc_init_by_tag(&any[role], plain[role].ndims, plain[role].dims, dnnl_f32, dnnl_format_tag_any)));
  }
  return delta_conv_pass_describe(pass, &state->primitive, any, out_description);
}

// The library's plain loops, which it falls back to, are hundreds of times slower than what a conversion costs.
static bool is_plain_loop(const_dnnl_primitive_desc_t description) {
  const char *name = NULL;
  return dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, &name) == dnnl_success && strncmp(name, "ref", 3) == 0;
}

static delta_status_t prepare_with(delta_kernel_t *kernel, dnnl_alg_kind_t algorithm) {
  delta_conv_pass_t pass = delta_conv_pass_of(kernel->graph, kernel->node);
  pass.algorithm = algorithm;
  delta_conv_blocked_t *state = NULL;
  dnnl_memory_desc_t plain[DELTA_CONV_ROLES], bias;
  dnnl_primitive_desc_t description = NULL;
  delta_status_t status = DELTA_ALLOCATE(kernel->device->allocator, 1, &state);
  if (status) return status;
  kernel->state = state;
  DELTA_GOTO_IF_ERROR(status, delta_onednn_init(&state->primitive), cleanup);
  DELTA_GOTO_IF_ERROR(status, describe_slice(&pass, state, false, plain, &description), cleanup);
  if (is_plain_loop(description)) {
    dnnl_primitive_desc_destroy(description);
    description = NULL;
    DELTA_GOTO_IF_ERROR(status, describe_slice(&pass, state, true, plain, &description), cleanup);
  }
  for (int role = 0; role < DELTA_CONV_ROLES; ++role)
    DELTA_GOTO_IF_ERROR(status, add_operand(kernel, &pass, role, &plain[role], description), cleanup);
  if (pass.op == DELTA_CORE_CONV && pass.bias) {
    DELTA_GOTO_IF_ERROR(status, delta_onednn_dense(pass.bias->shape.dims, 1, &bias), cleanup);
    DELTA_GOTO_IF_ERROR(status, delta_onednn_add(&state->primitive, DNNL_ARG_BIAS, &bias), cleanup);
  }
  size_t scratchpad_bytes;
  DELTA_GOTO_IF_ERROR(status, delta_onednn_make(&state->primitive, description, &scratchpad_bytes), cleanup);
  state->scratchpad_offset = delta_onednn_reserve(kernel, scratchpad_bytes);
cleanup:
  if (description) dnnl_primitive_desc_destroy(description);
  return status;
}

delta_status_t delta_cpu_conv_blocked_prepare(delta_kernel_t *kernel) { return prepare_with(kernel, dnnl_convolution_direct); }

static size_t tensor_bytes(const delta_conv_pass_t *pass) {
  size_t bytes = 0;
  for (int role = 0; role < DELTA_CONV_ROLES; ++role) bytes += delta_tensor_bytes(pass->tensors[role]);
  return bytes;
}

// Winograd's algorithm: less than half of the products for windows of 3 by 3, for more workspace. Taken where there are channels enough to pay
// for its transformations, and tensors so large that the workspace is not what a budget is spent on.
const char *delta_cpu_conv_winograd_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const char *reason = delta_cpu_conv_refuse(graph, node);
  if (reason) return reason;
  const delta_conv_pass_t pass = delta_conv_pass_of(graph, node);
  const delta_window_t *window = &pass.attrs->window;
  if (pass.attrs->x_layout != DELTA_LAYOUT_BLOCKED_16 || pass.attrs->y_layout != DELTA_LAYOUT_BLOCKED_16)
    return "a tensor is not in blocks of 16";
  if (window->spatial != 2 || pass.attrs->group != 1) return "it is not a plane, or has groups";
  for (int32_t d = 0; d < window->spatial; ++d) {
    if (window->kernel[d] != 3 || window->strides[d] != 1 || window->dilations[d] != 1) return "the windows are not 3 by 3 side by side";
  }
  const int64_t *weight = pass.shapes[DELTA_CONV_W].dims;
  if (weight[0] < WINOGRAD_LEAST_CHANNELS || weight[1] < WINOGRAD_LEAST_CHANNELS) return "there are few channels";
  return tensor_bytes(&pass) < WINOGRAD_LEAST_BYTES ? "it is small for the workspace it would need" : NULL;
}

delta_status_t delta_cpu_conv_winograd_prepare(delta_kernel_t *kernel) { return prepare_with(kernel, dnnl_convolution_winograd); }

void delta_cpu_conv_blocked_release(delta_kernel_t *kernel) {
  delta_conv_blocked_t *state = kernel->state;
  if (!state) return;
  for (int role = 0; role < DELTA_CONV_ROLES; ++role) {
    if (state->operands[role].reorder) dnnl_primitive_destroy(state->operands[role].reorder);
    if (state->operands[role].plain) dnnl_memory_destroy(state->operands[role].plain);
  }
  delta_onednn_deinit(&state->primitive);
  delta_release(kernel->device->allocator, state);
}

// Converts one operand to or from its place in the workspace (or another place there).
static delta_status_t convert(const delta_conv_blocked_t *state, int role, void *plain, void *blocked, bool to_blocked) {
  const delta_conv_operand_t *operand = &state->operands[role];
  DELTA_RETURN_IF_ERROR(DELTA_ONEDNN(delta_onednn_call_memory_set_data_handle(operand->plain, plain)));
  DELTA_RETURN_IF_ERROR(DELTA_ONEDNN(delta_onednn_call_memory_set_data_handle(operand->blocked, blocked)));
  return delta_onednn_convert(&state->primitive, operand->reorder, to_blocked ? operand->plain : operand->blocked,
                              to_blocked ? operand->blocked : operand->plain);
}

typedef struct delta_conv_sum {
  float *sum;
  const float *part;
} delta_conv_sum_t;

static void add_part(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_conv_sum_t *add = context;
  for (int64_t i = begin; i < end; ++i) add->sum[i] += add->part[i];
}

// Runs one slice. The result of a pass by weight stays in the workspace while there are more.
static delta_status_t run_slice(const delta_kernel_t *kernel, const delta_conv_pass_t *pass, const void *const *tensors, const void *bias,
                                char *workspace, int64_t slice) {
  const delta_conv_blocked_t *state = kernel->state;
  const void *addresses[DELTA_CONV_ROLES + 1] = {[DELTA_CONV_ROLES] = bias};
  for (int role = 0; role < DELTA_CONV_ROLES; ++role) {
    const delta_conv_operand_t *operand = &state->operands[role];
    char *plain = (char *)(uintptr_t)tensors[role] + (size_t)slice * operand->slice_bytes;
    addresses[role] = operand->reorder ? workspace + operand->workspace_offset : plain;
    bool is_due = operand->reorder && role != (int)pass->result && (slice == 0 || role != DELTA_CONV_W);
    if (is_due) DELTA_RETURN_IF_ERROR(convert(state, role, plain, workspace + operand->workspace_offset, true));
  }
  if (state->sum_count && slice == 0) addresses[DELTA_CONV_W] = workspace + state->sum_offset;
  DELTA_RETURN_IF_ERROR(delta_onednn_execute_primitive(&state->primitive, addresses, workspace + state->scratchpad_offset));
  if (state->sum_count) {
    const delta_conv_sum_t add = {(float *)(workspace + state->sum_offset), addresses[DELTA_CONV_W]};
    if (slice > 0) delta_team_run(kernel->threads, state->sum_count, 3 * (int64_t)sizeof(float), add_part, &add);
    if (slice + 1 < state->slices) return DELTA_OK;
    return convert(state, DELTA_CONV_W, (void *)(uintptr_t)tensors[DELTA_CONV_W], add.sum, false);
  }
  const delta_conv_operand_t *result = &state->operands[pass->result];
  if (!result->reorder) return DELTA_OK;
  return convert(state, pass->result, (char *)(uintptr_t)tensors[pass->result] + (size_t)slice * result->slice_bytes,
                 workspace + result->workspace_offset, false);
}

delta_status_t delta_cpu_conv_blocked_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_conv_pass_t pass = delta_conv_pass_of(kernel->graph, kernel->node);
  const delta_conv_blocked_t *state = kernel->state;
  const void *tensors[DELTA_CONV_ROLES];
  delta_conv_pass_addresses(&pass, buffers, tensors);
  for (int64_t slice = 0; slice < state->slices; ++slice)
    DELTA_RETURN_IF_ERROR(run_slice(kernel, &pass, tensors, pass.bias ? buffers->inputs[2] : NULL, buffers->workspace, slice));
  if (pass.op == DELTA_CORE_CONV_DATA) delta_conv_pass_add_bias(&pass, kernel, buffers);
  return DELTA_OK;
}
