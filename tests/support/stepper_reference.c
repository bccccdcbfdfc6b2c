// Stepper on the reference kernels: one set of values per program; the states' bytes are copied from program to program.
#include <string.h>

#include "onnx/reference/run.h"
#include "tests/support/stepper.h"

typedef struct program {
  delta_graph_t *graph; // Owned; NULL until built.
  delta_build_facts_t facts;
  delta_reference_values_t values;
} program_t;

struct delta_stepper {
  delta_allocator_t allocator;
  const delta_model_t *model;
  const delta_build_options_t *options;
  program_t programs[DELTA_PROGRAM_EVALUATE + 1];
  const program_t *latest; // whose values the states have; NULL before the first run
};

static delta_status_t reference_create(const delta_model_t *model, const delta_build_options_t *options, int threads,
                                       delta_allocator_t allocator, delta_stepper_t **out_stepper) {
  (void)threads;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, out_stepper));
  (*out_stepper)->allocator = allocator;
  (*out_stepper)->model = model;
  (*out_stepper)->options = options;
  return DELTA_OK;
}

static void reference_destroy(delta_stepper_t *stepper) {
  if (stepper == NULL) return;
  for (size_t k = 0; k < sizeof stepper->programs / sizeof stepper->programs[0]; ++k) {
    delta_reference_values_deinit(&stepper->programs[k].values);
    delta_graph_free(stepper->programs[k].graph);
  }
  delta_release(stepper->allocator, stepper);
}

// States that come from the file; the others start at their initial value already.
static delta_status_t load_states(const delta_model_t *model, program_t *program) {
  for (size_t k = 0; k < program->graph->states.count; ++k) {
    const delta_state_t *state = &program->graph->states.items[k];
    if (state->initializer == DELTA_INDEX_NONE || delta_tensor_is_none(state->current)) continue;
    const delta_model_tensor_t *tensor = &model->initializers[state->initializer];
    void *data = delta_reference_value(&program->values, state->current);
    DELTA_RETURN_IF_ERROR(delta_model_read_tensor(model, tensor, data, tensor->size_bytes));
  }
  return DELTA_OK;
}

static delta_status_t copy_states(const program_t *from, program_t *to) {
  if (from == to) return DELTA_OK;
  if (from->graph->states.count != to->graph->states.count) {
    return delta_status_make(INTERNAL, "programs have %zu and %zu states", from->graph->states.count, to->graph->states.count);
  }
  for (size_t k = 0; k < to->graph->states.count; ++k) {
    const delta_state_t *source = &from->graph->states.items[k], *target = &to->graph->states.items[k];
    if (strcmp(source->name, target->name) != 0 || source->kind != target->kind) {
      return delta_status_make(INTERNAL, "state %zu is '%s' in one program and '%s' in the other", k, source->name, target->name);
    }
    memcpy(delta_reference_value(&to->values, target->current), delta_reference_value(&from->values, source->current),
           delta_tensor_bytes(delta_graph_tensor(to->graph, target->current)));
  }
  return DELTA_OK;
}

static delta_status_t prepare(delta_stepper_t *stepper, delta_program_kind_t kind) {
  program_t *program = &stepper->programs[kind];
  if (program->graph == NULL) {
    DELTA_RETURN_IF_ERROR(delta_graph_build(stepper->model, stepper->options, kind, stepper->allocator, &program->graph, &program->facts));
    DELTA_RETURN_IF_ERROR(delta_graph_check(program->graph));
    DELTA_RETURN_IF_ERROR(delta_reference_values_init(program->graph, stepper->allocator, &program->values));
  }
  return stepper->latest ? copy_states(stepper->latest, program) : load_states(stepper->model, program);
}

static delta_status_t feed(program_t *program, const delta_stepper_feed_t *feeds, size_t feed_count) {
  for (size_t k = 0; k < feed_count; ++k) {
    const delta_tensor_id_t id = delta_graph_find_input(program->graph, feeds[k].name);
    if (delta_tensor_is_none(id)) continue;
    const size_t size_bytes = delta_tensor_bytes(delta_graph_tensor(program->graph, id));
    if (size_bytes != feeds[k].size_bytes) {
      return delta_status_make(MISMATCH, "input '%s' takes %zu bytes, given %zu", feeds[k].name, size_bytes, feeds[k].size_bytes);
    }
    memcpy(delta_reference_value(&program->values, id), feeds[k].data, size_bytes);
  }
  return DELTA_OK;
}

static delta_status_t reference_run(delta_stepper_t *stepper, delta_program_kind_t kind, const delta_stepper_feed_t *feeds,
                                    size_t feed_count) {
  program_t *program = &stepper->programs[kind];
  DELTA_RETURN_IF_ERROR(prepare(stepper, kind));
  DELTA_RETURN_IF_ERROR(feed(program, feeds, feed_count));
  DELTA_RETURN_IF_ERROR(delta_reference_run_graph(&program->values));
  DELTA_RETURN_IF_ERROR(delta_reference_advance_states(&program->values));
  stepper->latest = program;
  return DELTA_OK;
}

static delta_status_t read_tensor(const program_t *program, const char *name, delta_tensor_id_t id, double *values, size_t count) {
  const delta_tensor_t *tensor = delta_tensor_is_none(id) ? NULL : delta_graph_tensor(program->graph, id);
  const void *data = tensor ? delta_reference_value(&program->values, id) : NULL;
  if (data == NULL) return delta_status_make(NOT_FOUND, "there is no '%s', or it has no value yet", name);
  if ((size_t)delta_shape_count(&tensor->shape) != count) {
    return delta_status_make(MISMATCH, "'%s' has %lld elements, asked for %zu", name, (long long)delta_shape_count(&tensor->shape), count);
  }
  for (size_t i = 0; i < count; ++i) values[i] = delta_element_load_double(data, tensor->dtype, i);
  return DELTA_OK;
}

static delta_status_t reference_read_output(delta_stepper_t *stepper, delta_program_kind_t kind, const char *name, double *values,
                                            size_t count) {
  const program_t *program = &stepper->programs[kind];
  if (program->graph == NULL) return delta_status_make(NOT_FOUND, "output '%s': the program has not run", name);
  return read_tensor(program, name, delta_graph_find_output(program->graph, name), values, count);
}

static delta_status_t reference_read_state(delta_stepper_t *stepper, const char *name, double *values, size_t count) {
  const program_t *program = stepper->latest;
  if (program == NULL) return delta_status_make(NOT_FOUND, "state '%s': no program has run", name);
  const uint32_t state = delta_graph_find_state(program->graph, name);
  return read_tensor(program, name, state == DELTA_INDEX_NONE ? DELTA_TENSOR_NONE : program->graph->states.items[state].current, values,
                     count);
}

static const delta_build_facts_t *reference_facts(const delta_stepper_t *stepper, delta_program_kind_t kind) {
  return &stepper->programs[kind].facts;
}

const delta_stepper_kind_t delta_stepper_reference = {
    .name = "reference",
    .create = reference_create,
    .destroy = reference_destroy,
    .run = reference_run,
    .read_output = reference_read_output,
    .read_state = reference_read_state,
    .facts = reference_facts,
};
