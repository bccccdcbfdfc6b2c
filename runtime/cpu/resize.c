// RESIZE and its gradient in float32: taps made once, applied to one axis after the other. What lies between two axes goes to the workspace.
#include <string.h>

#include "onnx/graph/resize_taps.h"
#include "runtime/cpu/clones.h"
#include "runtime/cpu/team.h"

// One axis that changes.
typedef struct delta_resize_pass {
  delta_resize_taps_t taps;
  int64_t outer, inner;
} delta_resize_pass_t;

typedef struct delta_resize_state {
  bool backwards;
  int32_t pass_count;
  delta_resize_pass_t passes[DELTA_MAX_RANK];
  int64_t between; // elements of the largest value between two passes
} delta_resize_state_t;

const char *delta_cpu_resize_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  const delta_resize_attrs_t *attrs = node->attrs;
  if (attrs->coordinate == DELTA_RESIZE_TF_CROP_AND_RESIZE) return "the result may be extrapolated";
  if (delta_shape_count(&attrs->data_shape) == 0 || delta_shape_count(&attrs->out_shape) == 0) return "there are no elements";
  return delta_cpu_refuse_unless_float32(graph, node);
}

static delta_status_t add_pass(delta_kernel_t *kernel, int32_t d, delta_shape_t *shape) {
  delta_resize_state_t *state = kernel->state;
  delta_resize_pass_t *pass = &state->passes[state->pass_count];
  *pass = (delta_resize_pass_t){0};
  delta_status_t status = delta_resize_taps_init(kernel->node, d, kernel->device->allocator, &pass->taps);
  if (status || delta_resize_taps_change_nothing(&pass->taps)) {
    delta_resize_taps_deinit(&pass->taps, kernel->device->allocator);
    return status;
  }
  int64_t count = delta_shape_count(shape);
  if (state->pass_count++ > 0 && count > state->between) state->between = count;
  shape->dims[d] = state->backwards ? pass->taps.in : pass->taps.out;
  pass->outer = delta_shape_count_range(shape, 0, d);
  pass->inner = delta_shape_count_range(shape, d + 1, shape->rank);
  return DELTA_OK;
}

delta_status_t delta_cpu_resize_prepare(delta_kernel_t *kernel) {
  const delta_resize_attrs_t *attrs = kernel->node->attrs;
  delta_resize_state_t *state = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(kernel->device->allocator, 1, &state));
  kernel->state = state;
  *state = (delta_resize_state_t){.backwards = kernel->node->op == DELTA_CORE_RESIZE_GRAD};
  delta_shape_t shape = state->backwards ? attrs->out_shape : attrs->data_shape;
  for (int32_t d = 0; d < shape.rank; ++d) DELTA_RETURN_IF_ERROR(add_pass(kernel, d, &shape));
  // Two values take turns.
  size_t values = state->pass_count > 2 ? 2 : state->pass_count > 1 ? 1 : 0;
  kernel->workspace_bytes = values * (size_t)state->between * sizeof(float);
  return DELTA_OK;
}

void delta_cpu_resize_release(delta_kernel_t *kernel) {
  delta_resize_state_t *state = kernel->state;
  if (!state) return;
  for (int32_t p = 0; p < state->pass_count; ++p) delta_resize_taps_deinit(&state->passes[p].taps, kernel->device->allocator);
  delta_release(kernel->device->allocator, state);
}

DELTA_CPU_CLONES static void add_row(float weight, const float *from, float *to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] += weight * from[i];
}

typedef struct delta_resize_run {
  const delta_resize_pass_t *pass;
  bool backwards;
  const float *from;
  float *to;
} delta_resize_run_t;

// Items are outer indices: each has its own [in, inner] and [out, inner].
static void resize_slabs(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_resize_run_t *run = context;
  const delta_resize_taps_t *taps = &run->pass->taps;
  int64_t inner = run->pass->inner;
  int64_t from_count = (run->backwards ? taps->out : taps->in) * inner, to_count = (run->backwards ? taps->in : taps->out) * inner;
  for (int64_t outer = begin; outer < end; ++outer) {
    const float *from = run->from + outer * from_count;
    float *to = run->to + outer * to_count;
    memset(to, 0, (size_t)to_count * sizeof *to);
    for (int64_t k = 0; k < taps->out * taps->count; ++k) {
      float weight = (float)taps->weights[k];
      if (weight == 0) continue;
      int64_t in_row = taps->indices[k] * inner, out_row = k / taps->count * inner;
      int64_t from_row = run->backwards ? out_row : in_row, to_row = run->backwards ? in_row : out_row;
      if (inner == 1) {
        to[to_row] += weight * from[from_row];
      } else {
        add_row(weight, from + from_row, to + to_row, inner);
      }
    }
  }
}

delta_status_t delta_cpu_resize_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_resize_state_t *state = kernel->state;
  const float *from = buffers->inputs[0];
  if (state->pass_count == 0) memcpy(buffers->outputs[0], from, delta_tensor_bytes(delta_node_output(kernel->graph, kernel->node, 0)));
  for (int32_t p = 0; p < state->pass_count; ++p) {
    const delta_resize_pass_t *pass = &state->passes[p];
    float *between = (float *)buffers->workspace + p % 2 * state->between;
    const delta_resize_run_t run = {pass, state->backwards, from, p + 1 == state->pass_count ? buffers->outputs[0] : between};
    delta_team_run(kernel->threads, pass->outer, 2 * pass->taps.out * pass->taps.count * pass->inner * (int64_t)sizeof(float), resize_slabs,
                   &run);
    from = run.to;
  }
  return DELTA_OK;
}
