// Inputs of a session: what they are, which values are legal, and how a batch gets into the arena.
#include <string.h>

#include "runtime/session_parts.h"

static const delta_tensor_t *input_tensor(const delta_live_program_t *program, uint32_t index) {
  return delta_graph_tensor(program->parts.graph, program->parts.graph->inputs.items[index]);
}

// The program whose inputs describe what a data reader supplies.
static const delta_live_program_t *feeding_program(const delta_session_t *session) { return session->programs.items[0]; }

// Index in graph->inputs of the model's input number `index`.
static uint32_t model_input(const delta_graph_t *graph, size_t index) {
  size_t seen = 0;
  for (uint32_t i = 0; i < graph->inputs.count; ++i) {
    if (delta_is_own_name(delta_graph_tensor(graph, graph->inputs.items[i])->name)) continue;
    if (seen++ == index) return i;
  }
  return DELTA_INDEX_NONE;
}

size_t delta_session_input_count(const delta_session_t *session) {
  const delta_graph_t *graph = feeding_program(session)->parts.graph;
  size_t count = 0;
  while (model_input(graph, count) != DELTA_INDEX_NONE) ++count;
  return count;
}

delta_status_t delta_session_describe_inputs(delta_session_t *session, delta_live_program_t *program) {
  const uint32_t count = (uint32_t)program->parts.graph->inputs.count;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(session->allocator, count, &program->inputs));
  for (uint32_t i = 0; i < count; ++i)
    DELTA_RETURN_IF_ERROR(delta_program_input(&program->parts, i, session->build.ignore_index, &program->inputs[i]));
  return DELTA_OK;
}

static delta_status_t check_range(const delta_live_program_t *program, uint32_t input, const void *data) {
  const delta_input_info_t info = program->inputs[input];
  if (info.minimum == info.maximum) return DELTA_OK;
  const delta_tensor_t *tensor = input_tensor(program, input);
  int64_t count = delta_shape_count(&tensor->shape);
  for (int64_t i = 0; i < count; ++i) {
    int64_t value = delta_element_load_int64(data, tensor->dtype, (size_t)i);
    if ((value >= info.minimum && value < info.maximum) || (info.has_ignore && value == info.ignore_value)) continue;
    return delta_status_make(MISMATCH, "input '%s': element %lld is %lld, legal are %lld to %lld", tensor->name, (long long)i,
                             (long long)value, (long long)info.minimum, (long long)info.maximum - 1);
  }
  return DELTA_OK;
}

delta_status_t delta_session_input(const delta_session_t *session, size_t index, delta_input_info_t *out_info) {
  const delta_live_program_t *program = feeding_program(session);
  uint32_t input = model_input(program->parts.graph, index);
  if (input == DELTA_INDEX_NONE)
    return delta_status_make(INVALID_ARGUMENT, "input number %zu: the model has %zu", index, delta_session_input_count(session));
  *out_info = program->inputs[input];
  return DELTA_OK;
}

int delta_session_has_fixed_batch(const delta_session_t *session) {
  for (uint32_t i = 0; i < session->model->input_count; ++i) {
    const delta_model_type_t *type = &session->model->values[session->model->inputs[i].index].type;
    if (type->has_shape && type->rank > 0 && type->dims[0].size >= 0) return 1;
  }
  return 0;
}

int delta_session_has_accuracy(const delta_session_t *session) { return feeding_program(session)->parts.facts.has_accuracy; }

// Copies the caller's feed for input `index` into place.
static delta_status_t copy_feed(delta_session_t *session, delta_live_program_t *program, uint32_t index, const delta_batch_t *batch) {
  const delta_tensor_t *tensor = input_tensor(program, index);
  size_t size_bytes = delta_tensor_bytes(tensor);
  for (size_t i = 0; i < batch->feed_count; ++i) {
    const delta_feed_t *feed = &batch->feeds[i];
    if (strcmp(feed->name, tensor->name) != 0) continue;
    if (feed->size_bytes != size_bytes) {
      char shape[DELTA_SHAPE_TEXT_BYTES];
      return delta_status_make(INVALID_ARGUMENT, "input '%s': %zu bytes given, %lld rows need %zu (%s %s)", tensor->name, feed->size_bytes,
                               (long long)batch->rows, size_bytes, delta_dtype_name(tensor->dtype),
                               delta_shape_text(&tensor->shape, shape));
    }
    DELTA_RETURN_IF_ERROR(check_range(program, index, feed->data));
    return session->device->driver->write(session->device, delta_executor_input(program->executor, index), feed->data, size_bytes);
  }
  const bool is_label = program->parts.kind == DELTA_PROGRAM_EVALUATE && strcmp(tensor->name, DELTA_NAME_LABEL) == 0;
  return delta_status_make(INVALID_ARGUMENT, "input '%s' is not among the feeds%s", tensor->name,
                           is_label ? "; an evaluation gives the loss too: where only outputs are wanted, feed any legal labels" : "");
}

// Whether every feed is for an input of the model, and has data.
static delta_status_t check_feeds(const delta_session_t *session, const delta_batch_t *batch) {
  const delta_live_program_t *program = feeding_program(session);
  if (batch->feed_count > 0 && !batch->feeds)
    return delta_status_make(INVALID_ARGUMENT, "a batch of %zu feeds has no list of them", batch->feed_count);
  for (size_t i = 0; i < batch->feed_count; ++i) {
    const delta_feed_t *feed = &batch->feeds[i];
    if (!feed->name) return delta_status_make(INVALID_ARGUMENT, "feed %zu has no name", i);
    if (delta_is_own_name(feed->name) || delta_tensor_is_none(delta_graph_find_input(program->parts.graph, feed->name)))
      return delta_status_make(INVALID_ARGUMENT, "feed '%s': the model has no such input", feed->name);
    if (!feed->data && feed->size_bytes > 0) return delta_status_make(INVALID_ARGUMENT, "feed '%s' has no data", feed->name);
  }
  return DELTA_OK;
}

enum { MOST_INPUTS = 256, STAGING_ALIGNMENT_BYTES = 64 };

// The inputs of the model, one behind the other. Returns their size.
static size_t place_inputs(const delta_live_program_t *program, size_t count, size_t *offsets) {
  size_t offset = 0;
  for (size_t i = 0; i < count; ++i) {
    offsets[i] = offset;
    offset += delta_size_round_up(delta_tensor_bytes(input_tensor(program, model_input(program->parts.graph, i))), STAGING_ALIGNMENT_BYTES);
  }
  return offset;
}

// Where the caller writes the inputs: in the arena, or, where the host cannot, in bytes of the program's.
static delta_status_t find_buffers(delta_session_t *session, delta_live_program_t *program, size_t count, void **buffers) {
  size_t offsets[MOST_INPUTS];
  const bool is_direct = session->device->host_addressable;
  const size_t size_bytes = place_inputs(program, count, offsets);
  if (!is_direct && !program->staging) DELTA_RETURN_IF_ERROR(delta_allocate(session->allocator, size_bytes, 1, &program->staging));
  for (size_t i = 0; i < count; ++i) {
    buffers[i] =
        is_direct ? delta_executor_input(program->executor, model_input(program->parts.graph, i)) : (char *)program->staging + offsets[i];
  }
  return DELTA_OK;
}

// Lets the caller write all inputs of the model where they are read.
static delta_status_t fill_in_place(delta_session_t *session, delta_live_program_t *program, const delta_batch_t *batch) {
  void *buffers[MOST_INPUTS];
  const delta_graph_t *graph = program->parts.graph;
  size_t count = 0;
  while (model_input(graph, count) != DELTA_INDEX_NONE) ++count;
  if (count > MOST_INPUTS) return delta_status_make(UNSUPPORTED, "the model has more than %d inputs", MOST_INPUTS);
  DELTA_RETURN_IF_ERROR(find_buffers(session, program, count, buffers));
  DELTA_RETURN_IF_ERROR(batch->fill(batch->self, buffers));
  for (size_t i = 0; i < count; ++i) {
    const uint32_t index = model_input(graph, i);
    void *address = delta_executor_input(program->executor, index);
    DELTA_RETURN_IF_ERROR(check_range(program, index, buffers[i]));
    if (buffers[i] == address) continue;
    DELTA_RETURN_IF_ERROR(
        session->device->driver->write(session->device, address, buffers[i], delta_tensor_bytes(input_tensor(program, index))));
  }
  return DELTA_OK;
}

// Writes a scalar of Delta's own (seed, learning rate).
static delta_status_t set_own_input(delta_session_t *session, delta_live_program_t *program, uint32_t index, double learning_rate) {
  const delta_tensor_t *tensor = input_tensor(program, index);
  void *address = delta_executor_input(program->executor, index);
  return strcmp(tensor->name, DELTA_NAME_SEED) == 0
             ? delta_session_store_int64(session, address, tensor->dtype, (int64_t)session->options.seed)
             : delta_session_store_double(session, address, tensor->dtype, learning_rate);
}

delta_status_t delta_session_feed(delta_session_t *session, delta_live_program_t *program, const delta_batch_t *batch,
                                  double learning_rate) {
  if (!batch->fill) DELTA_RETURN_IF_ERROR(check_feeds(session, batch));
  DELTA_RETURN_IF_ERROR(delta_session_commit_planned(session, program));
  for (uint32_t i = 0; i < program->parts.graph->inputs.count; ++i) {
    if (delta_is_own_name(input_tensor(program, i)->name)) {
      DELTA_RETURN_IF_ERROR(set_own_input(session, program, i, learning_rate));
    } else if (!batch->fill) {
      DELTA_RETURN_IF_ERROR(copy_feed(session, program, i, batch));
    }
  }
  return batch->fill ? fill_in_place(session, program, batch) : DELTA_OK;
}
