// EACH: one compiled kernel for many sets of tensors: updates of many small weights in a few launches, each with as many sets as its arguments have room for.
#include "onnx/graph/each.h"

#include "runtime/cuda/expr_args.h"
#include "runtime/cuda/expr_source.h"
#include "runtime/cuda/kernel.h"
#include "runtime/cuda/sources.h"

enum { BLOCK_THREADS = 256, GROUP = 4 };

typedef struct each {
  CUfunction function; // of the device
  uint32_t set_words, sets_at_once;
} each_t;

// Whether input k of the expression is one element that all sets share.
static bool is_shared(const delta_each_attrs_t *attrs, uint32_t k) { return attrs->shared >> k & 1; }

const char *delta_cuda_each_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_each_attrs_t *attrs = node->attrs;
  for (uint32_t i = 1; i < attrs->count; ++i) {
    for (uint32_t k = 0; k < attrs->expr.input_count; ++k) {
      const delta_tensor_t *input = delta_node_input(graph, node, delta_each_input(attrs, i, k));
      if (input->dtype != delta_node_input(graph, node, delta_each_input(attrs, 0, k))->dtype) return "its sets are of different types";
    }
  }
  return NULL;
}

static delta_status_t compile(delta_kernel_t *kernel, each_t *each) {
  const delta_each_attrs_t *attrs = kernel->node->attrs;
  delta_expr_form_t form = {.expr = &attrs->expr, .is_each = true, .shared = attrs->shared, .group = GROUP, .rank = 1};
  for (uint32_t k = 0; k < attrs->expr.input_count; ++k) form.inputs[k] = delta_kernel_input(kernel, delta_each_input(attrs, 0, k))->dtype;
  for (uint32_t k = 0; k < attrs->expr.output_count; ++k) form.outputs[k] = attrs->dtypes[k];
  delta_text_t text;
  delta_text_init(&text, kernel->device->allocator);
  delta_status_t status = delta_expr_source(&form, &text);
  if (!status) status = delta_cuda_source_function(delta_cuda_device(kernel->device), text.items, "delta_each", &each->function);
  delta_text_deinit(&text);
  return status;
}

delta_status_t delta_cuda_each_prepare(delta_kernel_t *kernel) {
  const delta_each_attrs_t *attrs = kernel->node->attrs;
  each_t *each = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &each));
  kernel->state = each;
  each->set_words = DELTA_SET_ADDRESSES + attrs->expr.output_count;
  for (uint32_t k = 0; k < attrs->expr.input_count; ++k) each->set_words += !is_shared(attrs, k);
  each->sets_at_once = DELTA_EACH_ARGS_WORDS / each->set_words;
  return compile(kernel, each);
}

// Appends a set to the arguments; gives the blocks that all sets have now.
static uint64_t add_set(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, uint32_t index, uint64_t blocks,
                        delta_each_args_t *args) {
  const delta_each_attrs_t *attrs = kernel->node->attrs;
  const each_t *each = kernel->state;
  const uint32_t first_output = index * attrs->expr.output_count;
  const uint64_t count = (uint64_t)delta_shape_count(&delta_kernel_output(kernel, first_output)->shape);
  uint64_t *words = args->words + (size_t)args->sets * each->set_words, *address = words + DELTA_SET_ADDRESSES;
  words[DELTA_SET_COUNT] = count;
  words[DELTA_SET_FIRST_BLOCK] = blocks;
  for (uint32_t k = 0; k < attrs->expr.input_count; ++k) {
    const void *input = buffers->inputs[delta_each_input(attrs, index, k)];
    if (is_shared(attrs, k))
      args->shared[k] = input;
    else
      *address++ = (uintptr_t)input;
  }
  for (uint32_t k = 0; k < attrs->expr.output_count; ++k) *address++ = (uintptr_t)buffers->outputs[first_output + k];
  for (const uint64_t *word = words + DELTA_SET_ADDRESSES; word < address; ++word) args->aligned = args->aligned && *word % 16 == 0;
  ++args->sets;
  return blocks + (count + BLOCK_THREADS * GROUP - 1) / (BLOCK_THREADS * GROUP);
}

delta_status_t delta_cuda_each_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers, cudaStream_t stream) {
  const delta_each_attrs_t *attrs = kernel->node->attrs;
  const each_t *each = kernel->state;
  for (uint32_t begin = 0; begin < attrs->count; begin += each->sets_at_once) {
    delta_each_args_t args = {.aligned = true};
    uint64_t blocks = 0;
    for (uint32_t i = begin; i < attrs->count && i < begin + each->sets_at_once; ++i) blocks = add_set(kernel, buffers, i, blocks, &args);
    void *parameters[] = {&args};
    if (blocks == 0) continue;
    DELTA_RETURN_IF_ERROR(
        DELTA_CU_CHECK(cuLaunchKernel(each->function, (unsigned)blocks, 1, 1, BLOCK_THREADS, 1, 1, 0, stream, parameters, NULL)));
  }
  return DELTA_OK;
}
