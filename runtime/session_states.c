// States and outputs of a session: first values, reading, writing, export.
#include <string.h>

#include "base/file.h"
#include "onnx/export.h"
#include "plans/plan_json.h"
#include "runtime/initial.h"
#include "runtime/session_parts.h"

static void *state_address(const delta_session_t *session, const delta_plan_state_t *state) {
  return session->device->driver->arena_address(session->arena, state->offset_bytes);
}

static const delta_plan_state_t *find_state(const delta_session_t *session, const char *name) {
  for (uint32_t i = 0; i < session->plan->state_count; ++i) {
    if (strcmp(session->plan->states[i].name, name) == 0) return &session->plan->states[i];
  }
  return NULL;
}

// Where a state that lies below can be held between two runs: in the bytes of the programs, which have room for it since they copy it there, and no content then
// but the outputs of an evaluation.
static delta_status_t stage_address(delta_session_t *session, const delta_plan_state_t *state, void **out_address) {
  if (state->size_bytes > session->committed_bytes - session->state_bytes) {
    return delta_status_make(INTERNAL, "state '%s': no program has room for its %zu bytes", state->name, state->size_bytes);
  }
  session->evaluated = NULL;
  *out_address = session->device->driver->arena_address(session->arena, session->state_bytes);
  return DELTA_OK;
}

static delta_status_t make_first_value(delta_session_t *session, const delta_plan_state_t *state, const delta_state_t *source,
                                       void *address) {
  size_t size_bytes = delta_plan_state_content_bytes(state);
  if (source->initializer != DELTA_INDEX_NONE) {
    delta_status_t status =
        delta_model_read_tensor(session->model, &session->model->initializers[source->initializer], address, size_bytes);
    if (!session->plan->init_random || delta_status_code(status) != DELTA_STATUS_NOT_FOUND) return status;
    delta_status_free(status);
    delta_initial_draw(state, session->plan->init_seed, address);
    return DELTA_OK;
  }
  int64_t count = delta_shape_count(&state->shape);
  for (int64_t i = 0; i < count; ++i) delta_element_store_double(address, state->dtype, (size_t)i, source->initial_value);
  return DELTA_OK;
}

static delta_status_t initialize_state(delta_session_t *session, const delta_plan_state_t *state, const delta_state_t *source) {
  const bool is_direct = session->device->host_addressable;
  if (is_direct && !state->is_below) return make_first_value(session, state, source, state_address(session, state));
  void *address = NULL;
  DELTA_RETURN_IF_ERROR(is_direct ? stage_address(session, state, &address)
                                  : delta_session_borrow(session, delta_plan_state_content_bytes(state), &address));
  DELTA_RETURN_IF_ERROR(make_first_value(session, state, source, address));
  return delta_session_write_piece(session, (uint32_t)(state - session->plan->states), 0, address, delta_plan_state_content_bytes(state));
}

// Gives every state its first value; every program's list is looked at, since not every program knows every state.
delta_status_t delta_session_initialize_states(delta_session_t *session) {
  bool *done = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(session->allocator, session->plan->state_count, &done));
  delta_status_t status = DELTA_OK;
  for (size_t p = 0; p < session->programs.count; ++p) {
    const delta_graph_t *graph = session->programs.items[p]->parts.graph;
    for (size_t i = 0; i < graph->states.count; ++i) {
      const delta_plan_state_t *state = find_state(session, graph->states.items[i].name);
      if (!state || done[state - session->plan->states]) continue;
      DELTA_GOTO_IF_ERROR(status, initialize_state(session, state, &graph->states.items[i]), cleanup);
      done[state - session->plan->states] = true;
    }
  }
cleanup:
  delta_session_return(session);
  delta_release(session->allocator, done);
  return status;
}

uint32_t delta_session_find_output(const delta_graph_t *graph, const char *name) {
  for (uint32_t i = 0; i < graph->outputs.count; ++i) {
    if (strcmp(graph->outputs.items[i].name, name) == 0) return i;
  }
  return DELTA_INDEX_NONE;
}

size_t delta_session_state_count(const delta_session_t *session) { return session->plan->state_count; }

delta_status_t delta_session_state(const delta_session_t *session, size_t index, delta_state_info_t *out_info) {
  if (index >= session->plan->state_count)
    return delta_status_make(INVALID_ARGUMENT, "state number %zu: there are %u", index, session->plan->state_count);
  const delta_plan_state_t *state = &session->plan->states[index];
  *out_info = (delta_state_info_t){
      .name = state->name,
      .kind = delta_state_kind_names.names[state->kind],
      .dtype = delta_dtype_name(state->dtype),
      .rank = state->shape.rank,
      .size_bytes = delta_plan_state_content_bytes(state),
  };
  memcpy(out_info->dims, state->shape.dims, sizeof out_info->dims);
  return DELTA_OK;
}

// The state called `name`, when `size_bytes` is its size.
static delta_status_t find_sized_state(const delta_session_t *session, const char *name, size_t size_bytes,
                                       const delta_plan_state_t **out_state) {
  *out_state = find_state(session, name);
  if (!*out_state) return delta_status_make(NOT_FOUND, "there is no parameter or state called '%s'", name);
  if (delta_plan_state_content_bytes(*out_state) != size_bytes) {
    return delta_status_make(INVALID_ARGUMENT, "state '%s' has %zu bytes, the buffer %zu", name, delta_plan_state_content_bytes(*out_state),
                             size_bytes);
  }
  return DELTA_OK;
}

delta_status_t delta_session_read_piece(delta_session_t *session, uint32_t index, size_t offset_bytes, void *buffer, size_t size_bytes) {
  const delta_plan_state_t *state = &session->plan->states[index];
  if (state->is_below) return delta_tier_read(session->tier, state->home_offset_bytes + offset_bytes, buffer, size_bytes);
  return session->device->driver->read(session->device, buffer, (char *)state_address(session, state) + offset_bytes, size_bytes);
}

delta_status_t delta_session_write_piece(delta_session_t *session, uint32_t index, size_t offset_bytes, const void *buffer,
                                         size_t size_bytes) {
  const delta_plan_state_t *state = &session->plan->states[index];
  if (state->is_below) return delta_tier_write(session->tier, state->home_offset_bytes + offset_bytes, buffer, size_bytes);
  return session->device->driver->write(session->device, (char *)state_address(session, state) + offset_bytes, buffer, size_bytes);
}

delta_status_t delta_session_read(delta_session_t *session, const char *name, void *buffer, size_t size_bytes) {
  const delta_plan_state_t *state = NULL;
  DELTA_RETURN_IF_ERROR(find_sized_state(session, name, size_bytes, &state));
  return delta_session_read_piece(session, (uint32_t)(state - session->plan->states), 0, buffer, size_bytes);
}

delta_status_t delta_session_write(delta_session_t *session, const char *name, const void *buffer, size_t size_bytes) {
  const delta_plan_state_t *state = NULL;
  DELTA_RETURN_IF_ERROR(find_sized_state(session, name, size_bytes, &state));
  return delta_session_write_piece(session, (uint32_t)(state - session->plan->states), 0, buffer, size_bytes);
}

// The evaluation that the plan has.
static const delta_graph_t *evaluation_graph(const delta_session_t *session) {
  size_t i = 0;
  while (i + 1 < session->programs.count && session->programs.items[i]->parts.kind != DELTA_PROGRAM_EVALUATE) ++i;
  return session->programs.items[i]->parts.graph;
}

// Index in graph->outputs of the model's output number `index`.
static uint32_t model_output(const delta_graph_t *graph, size_t index) {
  for (uint32_t i = 0; i < graph->outputs.count; ++i) {
    if (!delta_is_own_name(graph->outputs.items[i].name) && index-- == 0) return i;
  }
  return DELTA_INDEX_NONE;
}

size_t delta_session_output_count(const delta_session_t *session) {
  size_t count = 0;
  while (model_output(evaluation_graph(session), count) != DELTA_INDEX_NONE) ++count;
  return count;
}

delta_status_t delta_session_output(const delta_session_t *session, size_t index, delta_output_info_t *out_info) {
  const delta_graph_t *graph = evaluation_graph(session);
  const uint32_t output = model_output(graph, index);
  if (output == DELTA_INDEX_NONE)
    return delta_status_make(INVALID_ARGUMENT, "output number %zu: the model has %zu", index, delta_session_output_count(session));
  const delta_tensor_t *tensor = delta_graph_tensor(graph, graph->outputs.items[output].tensor);
  *out_info = (delta_output_info_t){
      .name = graph->outputs.items[output].name, .dtype = delta_dtype_name(tensor->dtype), .rank = tensor->shape.rank};
  memcpy(out_info->dims, tensor->shape.dims, sizeof out_info->dims);
  return DELTA_OK;
}

delta_status_t delta_session_read_output(delta_session_t *session, const char *name, int64_t rows, void *buffer, size_t capacity_bytes,
                                         size_t *out_size_bytes) {
  const delta_live_program_t *program = session->evaluated;
  if (!program || program->parts.batch != rows) {
    return delta_status_make(INVALID_ARGUMENT, "output '%s': the last run was no evaluation of %lld rows", name, (long long)rows);
  }
  uint32_t index = delta_session_find_output(program->parts.graph, name);
  if (index == DELTA_INDEX_NONE) return delta_status_make(NOT_FOUND, "the model has no output called '%s'", name);
  *out_size_bytes = delta_tensor_bytes(delta_graph_tensor(program->parts.graph, program->parts.graph->outputs.items[index].tensor));
  if (!buffer) return DELTA_OK;
  if (capacity_bytes < *out_size_bytes)
    return delta_status_make(INVALID_ARGUMENT, "output '%s' has %zu bytes, the buffer %zu", name, *out_size_bytes, capacity_bytes);
  return session->device->driver->read(session->device, buffer, delta_executor_output(program->ran, index), *out_size_bytes);
}

static delta_status_t get_counter(delta_session_t *session, const char *name, int64_t *out_value) {
  const delta_plan_state_t *state = find_state(session, name);
  *out_value = 0;
  return state ? delta_session_load_int64(session, state_address(session, state), state->dtype, out_value) : DELTA_OK;
}

static delta_status_t set_counter(delta_session_t *session, const char *name, int64_t value) {
  const delta_plan_state_t *state = find_state(session, name);
  return state ? delta_session_store_int64(session, state_address(session, state), state->dtype, value) : DELTA_OK;
}

delta_status_t delta_session_get_counters(delta_session_t *session, delta_counters_t *out_counters) {
  DELTA_RETURN_IF_ERROR(get_counter(session, DELTA_NAME_STEP, &out_counters->step));
  return get_counter(session, DELTA_NAME_DRAW, &out_counters->draw);
}

delta_status_t delta_session_set_counters(delta_session_t *session, delta_counters_t counters) {
  DELTA_RETURN_IF_ERROR(set_counter(session, DELTA_NAME_STEP, counters.step));
  return set_counter(session, DELTA_NAME_DRAW, counters.draw);
}

// A state that is not trained may be a mask.
static bool has_bad_value(const delta_plan_state_t *state, const void *data, const delta_shape_t *shape) {
  return state->kind == DELTA_STATE_FROZEN ? delta_has_bad_value(data, state->dtype, shape)
                                           : delta_has_infinite_value(data, state->dtype, shape);
}

// Reads a state in pieces.
static delta_status_t is_piece_bad(delta_session_t *session, uint32_t index, void *piece, size_t piece_bytes, bool *out_bad) {
  const delta_plan_state_t *state = &session->plan->states[index];
  const size_t content_bytes = delta_plan_state_content_bytes(state), element_bytes = delta_dtype_bytes(state->dtype);
  *out_bad = false;
  for (size_t done = 0; done < content_bytes && !*out_bad; done += piece_bytes) {
    const size_t part_bytes = content_bytes - done < piece_bytes ? content_bytes - done : piece_bytes;
    const delta_shape_t shape = {.rank = 1, .dims = {(int64_t)(part_bytes / element_bytes)}};
    DELTA_RETURN_IF_ERROR(delta_session_read_piece(session, index, done, piece, part_bytes));
    *out_bad = has_bad_value(state, piece, &shape);
  }
  return DELTA_OK;
}

delta_status_t delta_session_is_state_bad(delta_session_t *session, uint32_t index, bool *out_bad) {
  enum { PIECE_BYTES = 16 * DELTA_HOST_BLOCK_BYTES };
  const delta_plan_state_t *state = &session->plan->states[index];
  if (!state->is_below && session->device->host_addressable) {
    *out_bad = has_bad_value(state, state_address(session, state), &state->shape);
    return DELTA_OK;
  }
  void *piece = NULL;
  DELTA_RETURN_IF_ERROR(delta_allocate(session->allocator, PIECE_BYTES, 1, &piece));
  delta_status_t status = is_piece_bad(session, index, piece, PIECE_BYTES, out_bad);
  delta_release(session->allocator, piece);
  return status;
}

// States are lent where they stand; those below are brought up for as long.
static delta_status_t export_value(void *self, const char *name, size_t size_bytes, const void **out_value) {
  delta_session_t *session = self;
  const delta_plan_state_t *state = find_state(session, name);
  *out_value = NULL;
  if (!state) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(find_sized_state(session, name, size_bytes, &state));
  if (!state->is_below) return delta_session_view(session, state_address(session, state), size_bytes, out_value);
  void *address = NULL;
  DELTA_RETURN_IF_ERROR(session->device->host_addressable ? stage_address(session, state, &address)
                                                          : delta_session_borrow(session, size_bytes, &address));
  DELTA_RETURN_IF_ERROR(delta_tier_read(session->tier, state->home_offset_bytes, address, size_bytes));
  *out_value = address;
  return DELTA_OK;
}

// What training has made of the model must be numbers. What was not trained is written as it was read.
delta_status_t delta_session_check_trained(delta_session_t *session) {
  for (uint32_t i = 0; i < session->plan->state_count; ++i) {
    const delta_plan_state_t *state = &session->plan->states[i];
    bool is_bad = false;
    if (state->kind == DELTA_STATE_FROZEN || state->kind == DELTA_STATE_COUNTER) continue;
    DELTA_RETURN_IF_ERROR(delta_session_is_state_bad(session, i, &is_bad));
    if (!is_bad) continue;
    return delta_status_make(NOT_A_NUMBER,
                             "state '%s' has values that are not finite numbers: nothing is written; lower --lr, clip gradients, or "
                             "check the data and the weights",
                             state->name);
  }
  return DELTA_OK;
}

delta_status_t delta_session_check_output(const delta_session_t *session, const char *path) {
  if (session->options.plan_path && delta_file_is_same(path, session->options.plan_path))
    return delta_status_make(INVALID_ARGUMENT, "cannot write '%s': it is the plan; give another path", path);
  return delta_model_check_output(session->model, path);
}

delta_status_t delta_session_export(delta_session_t *session, const char *path, int for_training) {
  DELTA_RETURN_IF_ERROR(delta_session_check_trained(session));
  DELTA_RETURN_IF_ERROR(delta_session_check_output(session, path));
  const delta_export_options_t options = {.path = path, .for_training = for_training != 0, .find_value = export_value, .self = session};
  delta_status_t status = delta_model_export(session->model, &options);
  delta_session_return(session);
  return status;
}
