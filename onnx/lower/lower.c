// What lowering functions share: reading a node's attributes and inputs, errors that name the node, running statistics and random streams.
#include "onnx/lower/lower.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "onnx/lower/import_state.h"

// Longest text of one message; longer ones are cut.
enum { MESSAGE_BYTES = 1024 };

delta_tensor_id_t delta_lower_fail(delta_lower_t *lower, delta_status_code_t code, const char *format, ...) {
  char text[MESSAGE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  (void)vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  return delta_emit_fail(&lower->emit, delta_status_make_at(__FILE__, __LINE__, code, "node '%.200s' (%s): %s", lower->node->name,
                                                            lower->node->op_type, text));
}

delta_tensor_id_t delta_lower_input(const delta_lower_t *lower, uint32_t k) {
  return k < lower->input_count ? lower->inputs[k] : DELTA_TENSOR_NONE;
}

delta_tensor_id_t delta_lower_required(delta_lower_t *lower, uint32_t k) {
  delta_tensor_id_t id = delta_lower_input(lower, k);
  if (delta_tensor_is_none(id)) return delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "input %u is required and left out", k);
  return id;
}

bool delta_lower_output_wanted(const delta_lower_t *lower, uint32_t k) {
  if (k >= lower->output_count || delta_value_is_none(lower->node->outputs[k])) return false;
  return lower->import->uses[lower->node->outputs[k].index] > 0;
}

static const char *const attribute_kind_names[] = {
    [DELTA_ATTRIBUTE_FLOAT] = "a float",
    [DELTA_ATTRIBUTE_INT] = "an integer",
    [DELTA_ATTRIBUTE_STRING] = "a string",
    [DELTA_ATTRIBUTE_TENSOR] = "a tensor",
    [DELTA_ATTRIBUTE_FLOATS] = "a list of floats",
    [DELTA_ATTRIBUTE_INTS] = "a list of integers",
    [DELTA_ATTRIBUTE_STRINGS] = "a list of strings",
    [DELTA_ATTRIBUTE_GRAPH] = "a graph",
    [DELTA_ATTRIBUTE_OTHER] = "of another kind",
};

// The attribute, or NULL when absent or (after an error) of another kind.
static const delta_attribute_t *attribute_of_kind(delta_lower_t *lower, const char *name, delta_attribute_kind_t kind) {
  const delta_attribute_t *attribute = delta_model_node_attribute(lower->node, name);
  if (attribute == NULL || attribute->kind == kind) return attribute;
  (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute '%s' is %s; it must be %s", name, attribute_kind_names[attribute->kind],
                         attribute_kind_names[kind]);
  return NULL;
}

bool delta_lower_has(const delta_lower_t *lower, const char *name) { return delta_model_node_attribute(lower->node, name) != NULL; }

int64_t delta_lower_int(delta_lower_t *lower, const char *name, int64_t fallback) {
  const delta_attribute_t *attribute = attribute_of_kind(lower, name, DELTA_ATTRIBUTE_INT);
  return attribute ? attribute->i : fallback;
}

double delta_lower_float(delta_lower_t *lower, const char *name, double fallback) {
  const delta_attribute_t *attribute = attribute_of_kind(lower, name, DELTA_ATTRIBUTE_FLOAT);
  return attribute ? (double)attribute->f : fallback;
}

const char *delta_lower_string(delta_lower_t *lower, const char *name, const char *fallback) {
  const delta_attribute_t *attribute = attribute_of_kind(lower, name, DELTA_ATTRIBUTE_STRING);
  return attribute ? attribute->s : fallback;
}

size_t delta_lower_ints(delta_lower_t *lower, const char *name, int64_t *values, size_t capacity) {
  const delta_attribute_t *attribute = attribute_of_kind(lower, name, DELTA_ATTRIBUTE_INTS);
  if (attribute == NULL) return 0;
  if (attribute->count > capacity) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute '%s' has %zu values; at most %zu make sense here", name,
                           attribute->count, capacity);
    return 0;
  }
  if (attribute->count > 0) memcpy(values, attribute->ints, attribute->count * sizeof *values);
  return attribute->count;
}

int32_t delta_lower_axis(delta_lower_t *lower, const char *what, int64_t axis, int32_t rank) {
  if (axis >= -(int64_t)rank && axis < rank) return (int32_t)(axis < 0 ? axis + rank : axis);
  (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "%s is %lld; the rank is %d, so it must be in [%d, %d]", what, (long long)axis,
                         rank, -rank, rank - 1);
  return 0;
}

size_t delta_lower_choice(delta_lower_t *lower, const char *attribute, const char *text, const char *const *names, size_t count) {
  for (size_t k = 0; k < count; ++k) {
    if (strcmp(names[k], text) == 0) return k;
  }
  char list[512];
  size_t used = 0;
  list[0] = '\0';
  for (size_t k = 0; k < count && used < sizeof list; ++k) {
    used += (size_t)snprintf(list + used, sizeof list - used, "%s'%s'", k ? ", " : "", names[k]);
  }
  (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute '%s' is '%.60s'; it must be one of %s", attribute, text, list);
  return 0;
}

// The values of a tensor: known ones, or those of an initializer that became a state, read into *out_owned.
static delta_status_t read_known(const delta_lower_t *lower, const delta_tensor_t *tensor, void **out_owned, const void **out_data) {
  *out_owned = NULL;
  *out_data = tensor->data;
  if (tensor->data != NULL || tensor->role != DELTA_ROLE_STATE) return DELTA_OK;
  uint32_t initializer = lower->emit.graph->states.items[tensor->state].initializer;
  if (initializer == DELTA_INDEX_NONE) return DELTA_OK;
  const delta_model_tensor_t *stored = &lower->model->initializers[initializer];
  DELTA_RETURN_IF_ERROR(delta_allocate(lower->import->allocator, stored->size_bytes, 1, out_owned));
  *out_data = *out_owned;
  return delta_model_read_tensor(lower->model, stored, *out_owned, stored->size_bytes);
}

// Copies the values of an input that must be known to ints or reals (the other is NULL).
static bool known_values(delta_lower_t *lower, uint32_t input, int64_t *ints, double *reals, size_t capacity, size_t *out_count) {
  *out_count = 0;
  delta_tensor_id_t id = delta_lower_required(lower, input);
  if (!delta_emit_ok(&lower->emit)) return false;
  const delta_tensor_t *tensor = delta_emit_tensor(&lower->emit, id);
  size_t count = (size_t)delta_shape_count(&tensor->shape);
  if (count > capacity) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "input %u ('%.100s') has %zu values; at most %zu make sense here", input,
                           tensor->name, count, capacity);
    return false;
  }
  if (ints != NULL && delta_dtype_is_float(tensor->dtype)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "input %u ('%.100s') is %s; it must be of an integer type", input, tensor->name,
                           delta_dtype_name(tensor->dtype));
    return false;
  }
  void *owned = NULL;
  const void *data = NULL;
  delta_status_t status = read_known(lower, tensor, &owned, &data);
  if (status) {
    (void)delta_emit_fail(&lower->emit, status);
  } else if (data == NULL && count > 0) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED,
                           "input %u ('%.100s') depends on data; shapes, axes and the like must be known when the graph is built", input,
                           tensor->name);
  } else {
    for (size_t k = 0; k < count; ++k) {
      if (ints != NULL) ints[k] = delta_element_load_int64(data, tensor->dtype, k);
      if (reals != NULL) reals[k] = delta_element_load_double(data, tensor->dtype, k);
    }
    *out_count = count;
  }
  delta_release(lower->import->allocator, owned);
  return delta_emit_ok(&lower->emit);
}

bool delta_lower_known_ints(delta_lower_t *lower, uint32_t input, int64_t *values, size_t capacity, size_t *out_count) {
  return known_values(lower, input, values, NULL, capacity, out_count);
}

bool delta_lower_known_reals(delta_lower_t *lower, uint32_t input, double *values, size_t capacity, size_t *out_count) {
  return known_values(lower, input, NULL, values, capacity, out_count);
}

bool delta_lower_axes(delta_lower_t *lower, uint32_t input, int32_t rank, uint32_t *out_mask) {
  int64_t axes[DELTA_MAX_RANK];
  size_t count = 0;
  *out_mask = 0;
  if (!delta_tensor_is_none(delta_lower_input(lower, input))) {
    (void)delta_lower_known_ints(lower, input, axes, DELTA_MAX_RANK, &count);
  } else {
    count = delta_lower_ints(lower, "axes", axes, DELTA_MAX_RANK);
  }
  for (size_t k = 0; k < count; ++k) {
    uint32_t bit = 1u << delta_lower_axis(lower, "an axis", axes[k], rank);
    if (*out_mask & bit) (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "axis %lld is given twice", (long long)axes[k]);
    *out_mask |= bit;
  }
  return count > 0 && delta_emit_ok(&lower->emit);
}

void delta_lower_check_indices(delta_lower_t *lower, uint32_t input, int64_t size) {
  const delta_tensor_t *tensor = delta_emit_tensor(&lower->emit, delta_lower_required(lower, input));
  if (tensor->data == NULL) return;
  int64_t count = delta_shape_count(&tensor->shape);
  for (int64_t k = 0; k < count; ++k) {
    int64_t index = delta_element_load_int64(tensor->data, tensor->dtype, (size_t)k);
    if (index >= -size && index < size) continue;
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "index %lld in input %u ('%.100s') is outside a dimension of %lld",
                           (long long)index, input, tensor->name, (long long)size);
    return;
  }
}

bool delta_lower_same_types(delta_lower_t *lower, uint32_t first) {
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, delta_lower_required(lower, first));
  for (uint32_t k = first + 1; k < lower->input_count; ++k) {
    delta_dtype_t other = delta_emit_dtype(&lower->emit, delta_lower_required(lower, k));
    if (!delta_emit_ok(&lower->emit)) return false;
    if (other == dtype) continue;
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED,
                           "input %u ('%.100s') is %s and input %u ('%.100s') is %s; they must have one type", first,
                           delta_emit_tensor(&lower->emit, lower->inputs[first])->name, delta_dtype_name(dtype), k,
                           delta_emit_tensor(&lower->emit, lower->inputs[k])->name, delta_dtype_name(other));
    return false;
  }
  return delta_emit_ok(&lower->emit);
}

void delta_lower_bind_statistic(delta_lower_t *lower, uint32_t input, delta_tensor_id_t next) {
  if (!delta_emit_ok(&lower->emit)) return;
  const delta_tensor_t *tensor = delta_emit_tensor(&lower->emit, delta_lower_required(lower, input));
  if (tensor->role != DELTA_ROLE_STATE) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED,
                           "input %u ('%.100s') is a running statistic, but no initializer that could keep it", input, tensor->name);
    return;
  }
  delta_state_t *state = &lower->emit.graph->states.items[tensor->state];
  if (!delta_tensor_is_none(state->next)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED,
                           "running statistic '%.100s' is updated by another node as well; give each node its own", state->name);
    return;
  }
  state->kind = DELTA_STATE_STATISTIC;
  delta_status_t status = delta_graph_set_next(lower->emit.graph, tensor->state, next);
  if (status) (void)delta_emit_fail(&lower->emit, status);
}

// The state that counts draws. It is made as soon as a node may draw, also in programs where none does: all programs have the same states.
static delta_status_t make_draw_state(delta_import_state_t *import) {
  if (!delta_tensor_is_none(import->draw)) return DELTA_OK;
  delta_state_t state = {.name = DELTA_NAME_DRAW,
                         .kind = DELTA_STATE_COUNTER,
                         .dtype = DELTA_DTYPE_INT64,
                         .initializer = DELTA_INDEX_NONE,
                         .current = DELTA_TENSOR_NONE,
                         .next = DELTA_TENSOR_NONE};
  uint32_t index = 0;
  DELTA_RETURN_IF_ERROR(delta_graph_add_state(import->graph, &state, &index));
  import->draw = import->graph->states.items[index].current;
  return DELTA_OK;
}

void delta_lower_may_draw(delta_lower_t *lower) {
  delta_status_t status = make_draw_state(lower->import);
  if (status) (void)delta_emit_fail(&lower->emit, status);
}

void delta_lower_random(delta_lower_t *lower, delta_tensor_id_t *out_seed, delta_tensor_id_t *out_draw, uint64_t *out_stream) {
  delta_import_state_t *import = lower->import;
  delta_lower_may_draw(lower);
  if (delta_tensor_is_none(import->seed) && delta_emit_ok(&lower->emit)) {
    const delta_shape_t scalar = {0};
    delta_status_t status = delta_graph_add_input(import->graph, DELTA_NAME_SEED, DELTA_DTYPE_INT64, &scalar, &import->seed);
    if (status) (void)delta_emit_fail(&lower->emit, status);
  }
  lower->facts->draws_random = true;
  *out_seed = import->seed;
  *out_draw = import->draw;
  *out_stream = (uint64_t)(lower->node - lower->model->nodes);
}
