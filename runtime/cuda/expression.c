// Expression: merges dimensions, chooses how threads share the work, compiles, launches.
#include "runtime/cuda/expression.h"

#include <string.h>

#include "runtime/cuda/expr_source.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/sources.h"

// Blocks that fill any GPU; sums that have fewer are split. A constant, since sums depend on it.
enum { BLOCK_THREADS = 256, ENOUGH_BLOCKS = 512, MOST_BLOCKS = 1 << 20, GROUP = 4, NEIGHBOURS = 32 };

// Dimensions in the order of the kernel's: kept ones first, of size 1 none, those merged that every input passes through alike.
typedef struct dimensions {
  int32_t rank, kept_rank;
  int64_t sizes[DELTA_MAX_RANK];
  int64_t strides[DELTA_EXPR_MAX_INPUTS][DELTA_MAX_RANK];
} dimensions_t;

static bool merges(const dimensions_t *dims, int32_t inputs, const int64_t strides[][DELTA_MAX_RANK], int32_t d, int64_t size) {
  for (int32_t k = 0; k < inputs; ++k) {
    if (dims->strides[k][dims->rank - 1] != strides[k][d] * size) return false;
  }
  return true;
}

static void add_dimensions(dimensions_t *dims, const delta_cuda_expression_spec_t *spec, bool reduced) {
  const int32_t inputs = spec->expr->input_count, first = dims->rank;
  int64_t strides[DELTA_EXPR_MAX_INPUTS][DELTA_MAX_RANK];
  for (int32_t k = 0; k < inputs; ++k) delta_shape_broadcast_strides(spec->input_shapes[k], spec->shape, strides[k]);
  for (int32_t d = 0; d < spec->shape->rank; ++d) {
    const int64_t size = spec->shape->dims[d];
    if ((spec->kinds && spec->axes >> d & 1) != reduced || size == 1) continue;
    if (dims->rank == first || !merges(dims, inputs, strides, d, size)) dims->sizes[dims->rank++] = 1;
    dims->sizes[dims->rank - 1] *= size;
    for (int32_t k = 0; k < inputs; ++k) dims->strides[k][dims->rank - 1] = strides[k][d];
  }
}

static dimensions_t dimensions_of(const delta_cuda_expression_spec_t *spec) {
  dimensions_t dims = {0};
  add_dimensions(&dims, spec, false);
  dims.kept_rank = dims.rank;
  if (spec->kinds) add_dimensions(&dims, spec, true);
  if (dims.rank == 0) dims.sizes[dims.rank++] = 1; // one element
  return dims;
}

static uint64_t count_of(const int64_t *sizes, int32_t begin, int32_t end) {
  uint64_t count = 1;
  for (int32_t d = begin; d < end; ++d) count *= (uint64_t)sizes[d];
  return count;
}

static uint64_t quotient_up(uint64_t a, uint64_t b) { return (a + b - 1) / b; }
static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

// Whether the last dimension with more than one element is reduced.
static bool reads_along(const delta_cuda_expression_spec_t *spec) {
  for (int32_t d = spec->shape->rank - 1; d >= 0; --d) {
    if (spec->shape->dims[d] != 1) return spec->axes >> d & 1;
  }
  return true;
}

static void plan_pointwise(delta_cuda_expression_t *self, const dimensions_t *dims, delta_expr_form_t *form) {
  form->group = dims->rank == 1 || dims->sizes[dims->rank - 1] % GROUP == 0 ? GROUP : 1;
  self->block = BLOCK_THREADS;
  self->grid[0] = (uint32_t)least(quotient_up(self->args.count, (uint64_t)form->group * BLOCK_THREADS), MOST_BLOCKS);
  self->grid[1] = 1;
}

static void plan_reduction(delta_cuda_expression_t *self, const delta_cuda_expression_spec_t *spec, const dimensions_t *dims,
                           delta_expr_form_t *form) {
  delta_expr_args_t *args = &self->args;
  form->along = reads_along(spec);
  const bool whole = dims->kept_rank == 0 && dims->rank == 1;
  form->group = form->along && (whole || dims->sizes[dims->rank - 1] % GROUP == 0) ? GROUP : 1;
  const uint64_t groups = quotient_up(args->reduced, (uint64_t)form->group);
  const int32_t most = form->along ? BLOCK_THREADS : BLOCK_THREADS / NEIGHBOURS;
  form->team = 1;
  while (form->team < most && (uint64_t)form->team * 4 < groups) form->team *= 2;
  form->teams = form->along ? BLOCK_THREADS / form->team : NEIGHBOURS;
  self->block = (uint32_t)(form->team * form->teams);
  self->grid[0] = (uint32_t)least(quotient_up(args->count, (uint64_t)form->teams), MOST_BLOCKS);
  // Splits: as many as fill the GPU, each with enough to do.
  const uint64_t wanted = self->grid[0] ? ENOUGH_BLOCKS / self->grid[0] : 0;
  const uint64_t possible = groups / ((uint64_t)form->team * 8);
  const uint64_t splits = least(wanted, possible) > 1 ? least(wanted, possible) : 1;
  args->share = quotient_up(groups, splits) * (uint64_t)form->group;
  args->splits = args->share ? (uint32_t)quotient_up(args->reduced, args->share) : 1;
  if (args->splits < 1) args->splits = 1;
  self->grid[1] = args->splits;
  if (args->splits > 1) self->workspace_bytes = (size_t)args->splits * self->output_count * args->count * sizeof(double);
}

static delta_status_t compile(delta_cuda_device_t *device, const delta_expr_form_t *form, delta_cuda_expression_t *self) {
  delta_text_t text;
  delta_text_init(&text, device->base.allocator);
  delta_status_t status = delta_expr_source(form, &text);
  if (!status) status = delta_cuda_source_function(device, text.items, form->kinds ? "delta_reduce" : "delta_pointwise", &self->function);
  if (!status && self->args.splits > 1) status = delta_cuda_source_function(device, text.items, "delta_combine", &self->combine);
  delta_text_deinit(&text);
  return status;
}

delta_status_t delta_cuda_expression_prepare(delta_cuda_device_t *device, const delta_cuda_expression_spec_t *spec,
                                             delta_cuda_expression_t *out_expression) {
  delta_cuda_expression_t *self = out_expression;
  *self = (delta_cuda_expression_t){.input_count = spec->expr->input_count, .output_count = spec->expr->output_count};
  const dimensions_t dims = dimensions_of(spec);
  delta_expr_args_t *args = &self->args;
  args->count = count_of(dims.sizes, 0, spec->kinds ? dims.kept_rank : dims.rank);
  args->reduced = spec->kinds ? count_of(dims.sizes, dims.kept_rank, dims.rank) : 1;
  args->splits = 1;
  const uint64_t largest = args->count > args->reduced ? args->count : args->reduced;
  for (int32_t d = 0; d < dims.rank; ++d) {
    args->dims[d] = delta_divisor_of((uint64_t)dims.sizes[d], largest);
    for (uint16_t k = 0; k < self->input_count; ++k) args->strides[k][d] = dims.strides[k][d];
  }
  delta_expr_form_t form = {.expr = spec->expr, .rank = dims.rank, .kept_rank = dims.kept_rank, .kinds = spec->kinds};
  memcpy(form.inputs, spec->inputs, sizeof form.inputs);
  memcpy(form.outputs, spec->outputs, sizeof form.outputs);
  if (spec->kinds) {
    plan_reduction(self, spec, &dims, &form);
  } else {
    plan_pointwise(self, &dims, &form);
  }
  if (args->count == 0) return DELTA_OK;
  return compile(device, &form, self);
}

delta_status_t delta_cuda_expression_prepare_node(delta_kernel_t *kernel, const delta_cuda_expression_spec_t *spec,
                                                  const delta_dtype_t *outputs) {
  delta_cuda_expression_spec_t whole = *spec;
  for (uint16_t k = 0; k < spec->expr->input_count; ++k) {
    const delta_tensor_t *input = delta_kernel_input(kernel, k);
    whole.input_shapes[k] = &input->shape;
    whole.inputs[k] = input->dtype;
  }
  for (uint16_t k = 0; k < spec->expr->output_count; ++k) whole.outputs[k] = outputs[k];
  delta_cuda_expression_t *expression = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &expression));
  kernel->state = expression;
  DELTA_RETURN_IF_ERROR(delta_cuda_expression_prepare(delta_cuda_device(kernel->device), &whole, expression));
  kernel->workspace_bytes = expression->workspace_bytes;
  return DELTA_OK;
}

static bool is_aligned(const void *address) { return (uintptr_t)address % 16 == 0; }

delta_status_t delta_cuda_expression_run(const delta_cuda_expression_t *expression, const void *const *inputs, void *const *outputs,
                                         void *workspace, cudaStream_t stream) {
  if (expression->args.count == 0) return DELTA_OK;
  delta_expr_args_t args = expression->args;
  bool aligned = true;
  for (uint16_t k = 0; k < expression->input_count; ++k) {
    args.inputs[k] = inputs[k];
    aligned = aligned && is_aligned(inputs[k]);
  }
  for (uint16_t k = 0; k < expression->output_count; ++k) {
    args.outputs[k] = outputs[k];
    aligned = aligned && is_aligned(outputs[k]);
  }
  args.aligned = aligned;
  args.partials = workspace;
  void *parameters[] = {&args};
  DELTA_RETURN_IF_ERROR(DELTA_CU_CHECK(cuLaunchKernel(expression->function, expression->grid[0], expression->grid[1], 1, expression->block,
                                                      1, 1, 0, stream, parameters, NULL)));
  if (args.splits <= 1) return DELTA_OK;
  const uint32_t blocks = (uint32_t)least(quotient_up(args.count, BLOCK_THREADS), MOST_BLOCKS);
  return DELTA_CU_CHECK(cuLaunchKernel(expression->combine, blocks, 1, 1, BLOCK_THREADS, 1, 1, 0, stream, parameters, NULL));
}
