// The import walk: makes inputs, states and constants of a model's values, then lowers its live nodes one after the other.
// Shapes are inferred and constants folded by the emits on the way, so one pass is enough.
#include "onnx/lower/import.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "onnx/lower/import_state.h"

static delta_status_t state_init(delta_import_state_t *state, const delta_model_t *model, const delta_import_options_t *options,
                                 delta_allocator_t allocator) {
  *state = (delta_import_state_t){
      .model = model, .options = options, .allocator = allocator, .seed = DELTA_TENSOR_NONE, .draw = DELTA_TENSOR_NONE};
  delta_region_init(&state->scratch, allocator);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&state->scratch, model->value_count, &state->tensors));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&state->scratch, model->value_count, &state->uses));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&state->scratch, model->node_count, &state->live));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&state->scratch, model->node_count, &state->rows));
  for (uint32_t k = 0; k < model->value_count; ++k) state->tensors[k] = DELTA_TENSOR_NONE;
  return delta_graph_create(allocator, &state->graph);
}

static void state_deinit(delta_import_state_t *state) {
  delta_graph_free(state->graph);
  delta_region_deinit(&state->scratch);
}

// Nodes stand in topological order, so one walk backwards finds all that the outputs depend on.
static void find_live_nodes(delta_import_state_t *state) {
  const delta_model_t *model = state->model;
  for (uint32_t k = 0; k < model->output_count; ++k) state->uses[model->outputs[k].index] += 1;
  for (uint32_t k = model->node_count; k-- > 0;) {
    const delta_model_node_t *node = &model->nodes[k];
    for (uint32_t o = 0; o < node->output_count; ++o) {
      if (!delta_value_is_none(node->outputs[o]) && state->uses[node->outputs[o].index] > 0) state->live[k] = true;
    }
    for (uint32_t i = 0; state->live[k] && i < node->input_count; ++i) {
      if (!delta_value_is_none(node->inputs[i])) state->uses[node->inputs[i].index] += 1;
    }
    const delta_value_id_t y = state->live[k] ? delta_import_differentiated(model, node) : DELTA_VALUE_NONE;
    if (!delta_value_is_none(y)) state->uses[y.index] += 1;
  }
}

static bool declared_shape_agrees(const delta_model_type_t *declared, const delta_shape_t *shape) {
  if (!declared->has_shape) return true;
  if (declared->rank != shape->rank) return false;
  for (int32_t d = 0; d < shape->rank; ++d) {
    if (declared->dims[d].size >= 0 && declared->dims[d].size != shape->dims[d]) return false;
  }
  return true;
}

static const char *declared_shape_text(const delta_model_type_t *declared, char buffer[DELTA_SHAPE_TEXT_BYTES]) {
  delta_shape_t shape = {.rank = declared->rank < DELTA_MAX_RANK ? declared->rank : DELTA_MAX_RANK};
  for (int32_t d = 0; d < shape.rank; ++d) shape.dims[d] = declared->dims[d].size;
  return delta_shape_text(&shape, buffer);
}

static delta_status_t check_known_input(const delta_model_value_t *value, const delta_known_input_t *known) {
  if (known->dtype == value->type.dtype && declared_shape_agrees(&value->type, &known->shape)) return DELTA_OK;
  char given[DELTA_SHAPE_TEXT_BYTES], declared[DELTA_SHAPE_TEXT_BYTES];
  return delta_status_make(INVALID_ARGUMENT, "input '%.200s' is declared as %s %s, but its value is given as %s %s", value->name,
                           value->type.dtype == DELTA_DTYPE_COUNT ? "another type" : delta_dtype_name(value->type.dtype),
                           declared_shape_text(&value->type, declared), delta_dtype_name(known->dtype),
                           delta_shape_text(&known->shape, given));
}

// Names that Delta gives to its own inputs, states and outputs.
static delta_status_t check_name_is_free(const char *what, const char *name) {
  static const char prefix[] = "delta.";
  if (strncmp(name, prefix, sizeof prefix - 1) != 0) return DELTA_OK;
  return delta_status_make(UNSUPPORTED, "%s '%.200s' of the model: names that begin with '%s' are Delta's own; rename it", what, name,
                           prefix);
}

static delta_status_t make_inputs(delta_import_state_t *state, delta_emit_t *emit) {
  const delta_model_t *model = state->model;
  delta_shape_t *shapes = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&state->scratch, model->input_count, &shapes));
  DELTA_RETURN_IF_ERROR(delta_import_input_shapes(state, shapes));
  for (uint32_t k = 0; k < model->input_count; ++k) {
    uint32_t index = model->inputs[k].index;
    const delta_model_value_t *value = &model->values[index];
    const delta_known_input_t *known = delta_import_known_input(state->options, value->name);
    if (known != NULL) {
      DELTA_RETURN_IF_ERROR(check_known_input(value, known));
      emit->name = value->name;
      state->tensors[index] = delta_emit_constant(emit, known->dtype, &known->shape, known->data);
      continue;
    }
    if (shapes[k].rank < 0) {
      delta_log(state->options->log, DELTA_LOG_NOTE, "input '%.200s' is of a type that is not supported and not used; left out",
                value->name);
      continue;
    }
    DELTA_RETURN_IF_ERROR(check_name_is_free("input", value->name));
    DELTA_RETURN_IF_ERROR(delta_shape_validate(&shapes[k], delta_dtype_bytes(value->type.dtype), value->name));
    DELTA_RETURN_IF_ERROR(delta_graph_add_input(state->graph, value->name, value->type.dtype, &shapes[k], &state->tensors[index]));
  }
  return DELTA_OK;
}

static delta_status_t make_constant(delta_import_state_t *state, delta_emit_t *emit, const delta_model_tensor_t *tensor,
                                    delta_tensor_id_t *out_tensor) {
  const void *data = tensor->data;
  if (tensor->storage != DELTA_STORAGE_INLINE) {
    uint8_t *buffer = NULL;
    DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&state->scratch, tensor->size_bytes, &buffer));
    DELTA_RETURN_IF_ERROR(delta_model_read_tensor(state->model, tensor, buffer, tensor->size_bytes));
    data = buffer;
  }
  emit->name = tensor->name;
  *out_tensor = delta_emit_constant(emit, tensor->dtype, &tensor->shape, data);
  return DELTA_OK;
}

// An initializer is a constant when its value may decide shapes and can be had; everything else is a state whose value the runtime reads.
static bool initializer_is_constant(const delta_model_t *model, const delta_model_tensor_t *tensor) {
  if (delta_dtype_is_float(tensor->dtype) && tensor->shape.rank > 0) return false;
  return tensor->size_bytes <= DELTA_FOLD_LIMIT_BYTES && delta_model_tensor_is_available(model, tensor);
}

// The names that exporters give to weights into which they folded a batch normalization: onnx::Conv_146.
static bool is_folded_name(const char *name) {
  static const char prefix[] = "onnx::Conv_";
  return strncmp(name, prefix, sizeof prefix - 1) == 0;
}

static delta_status_t make_initializer(delta_import_state_t *state, delta_emit_t *emit, uint32_t value_index, delta_import_facts_t *facts) {
  const delta_model_value_t *value = &state->model->values[value_index];
  const delta_model_tensor_t *tensor = &state->model->initializers[value->index];
  if (initializer_is_constant(state->model, tensor)) return make_constant(state, emit, tensor, &state->tensors[value_index]);
  DELTA_RETURN_IF_ERROR(check_name_is_free("initializer", value->name));
  bool is_float = delta_dtype_is_float(tensor->dtype);
  if (is_float && is_folded_name(value->name)) facts->folded_weights += 1;
  delta_state_t made = {.name = value->name,
                        .kind = is_float && tensor->shape.rank > 0 ? DELTA_STATE_PARAMETER : DELTA_STATE_FROZEN,
                        .dtype = tensor->dtype,
                        .shape = tensor->shape,
                        .initializer = value->index,
                        .current = DELTA_TENSOR_NONE,
                        .next = DELTA_TENSOR_NONE};
  uint32_t index = 0;
  DELTA_RETURN_IF_ERROR(delta_graph_add_state(state->graph, &made, &index));
  state->tensors[value_index] = state->graph->states.items[index].current;
  return DELTA_OK;
}

static delta_status_t make_initializers(delta_import_state_t *state, delta_emit_t *emit, delta_import_facts_t *facts) {
  for (uint32_t k = 0; k < state->model->value_count; ++k) {
    if (state->model->values[k].kind != DELTA_VALUE_INITIALIZER || state->uses[k] == 0) continue;
    DELTA_RETURN_IF_ERROR(make_initializer(state, emit, k, facts));
  }
  return DELTA_OK;
}

// Whether every input's shape is stated in full: only then must the shapes stated for other values agree (exporters trace with one batch
// size and leave its traces in files with a symbolic one).
static bool inputs_are_fixed(const delta_model_t *model) {
  for (uint32_t k = 0; k < model->input_count; ++k) {
    const delta_model_type_t *type = &model->values[model->inputs[k].index].type;
    for (int32_t d = 0; type->has_shape && d < type->rank; ++d) {
      if (type->dims[d].size < 0) return false;
    }
  }
  return true;
}

static delta_status_t check_declared(const delta_import_state_t *state, const delta_model_node_t *node, const delta_model_value_t *value,
                                     delta_tensor_id_t id) {
  const delta_tensor_t *tensor = delta_graph_tensor(state->graph, id);
  if (value->type.dtype != DELTA_DTYPE_COUNT && value->type.dtype != tensor->dtype) {
    return delta_status_make(MALFORMED, "node '%.200s' (%s): gives '%.200s' as %s, but the file declares %s", node->name, node->op_type,
                             value->name, delta_dtype_name(tensor->dtype), delta_dtype_name(value->type.dtype));
  }
  if (declared_shape_agrees(&value->type, &tensor->shape)) return DELTA_OK;
  char computed[DELTA_SHAPE_TEXT_BYTES], declared[DELTA_SHAPE_TEXT_BYTES];
  delta_shape_text(&tensor->shape, computed);
  declared_shape_text(&value->type, declared);
  if (inputs_are_fixed(state->model)) {
    return delta_status_make(MALFORMED, "node '%.200s' (%s): gives '%.200s' the shape %s, but the file declares %s", node->name,
                             node->op_type, value->name, computed, declared);
  }
  delta_log(state->options->log, DELTA_LOG_NOTE, "node '%.200s' (%s): gives '%.200s' the shape %s; the file's %s is of another batch size",
            node->name, node->op_type, value->name, computed, declared);
  return DELTA_OK;
}

// Puts the node's name before a message that does not begin with it.
static delta_status_t annotate_node(delta_status_t status, const delta_model_node_t *node) {
  char prefix[80];
  (void)snprintf(prefix, sizeof prefix, "node '%.60s", node->name);
  if (status == DELTA_OK || strncmp(delta_status_message(status), prefix, strlen(prefix)) == 0) return status;
  return delta_status_annotate(status, "node '%.200s' (%s)", node->name, node->op_type);
}

// Gives core tensors made by a node the names of the values they stand for: reports then speak the model's language.
static delta_status_t name_tensor(delta_import_state_t *state, delta_tensor_id_t id, size_t first_new, const char *name) {
  if (id.index < first_new) return DELTA_OK;
  char *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&state->graph->region, name, strlen(name), &copy));
  state->graph->tensors.items[id.index].name = copy;
  return DELTA_OK;
}

static delta_status_t store_outputs(delta_import_state_t *state, const delta_lower_t *lower, size_t first_new) {
  const delta_model_node_t *node = lower->node;
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (delta_value_is_none(node->outputs[k])) continue;
    uint32_t index = node->outputs[k].index;
    const delta_model_value_t *value = &state->model->values[index];
    if (delta_tensor_is_none(lower->outputs[k])) {
      if (state->uses[index] == 0) continue;
      return delta_status_make(UNSUPPORTED, "node '%.200s' (%s): output %u ('%.200s') is not made here, but it is used", node->name,
                               node->op_type, k, value->name);
    }
    state->tensors[index] = lower->outputs[k];
    DELTA_RETURN_IF_ERROR(check_declared(state, node, value, lower->outputs[k]));
    DELTA_RETURN_IF_ERROR(name_tensor(state, lower->outputs[k], first_new, value->name));
  }
  return DELTA_OK;
}

static delta_status_t lower_node(delta_import_state_t *state, delta_lower_t *lower, uint32_t node_index) {
  const delta_model_node_t *node = &state->model->nodes[node_index];
  delta_tensor_id_t *inputs = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&state->scratch, node->input_count, &inputs));
  for (uint32_t k = 0; k < node->input_count; ++k) {
    inputs[k] = delta_value_is_none(node->inputs[k]) ? DELTA_TENSOR_NONE : state->tensors[node->inputs[k].index];
  }
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&state->scratch, node->output_count, &lower->outputs));
  for (uint32_t k = 0; k < node->output_count; ++k) lower->outputs[k] = DELTA_TENSOR_NONE;
  lower->node = node;
  lower->opset = node->opset;
  lower->inputs = inputs;
  lower->input_count = node->input_count;
  lower->output_count = node->output_count;
  lower->emit.name = node->name;
  lower->emit.group = node_index;
  lower->emit.phase = DELTA_PHASE_FORWARD;
  size_t first_new = state->graph->tensors.count;
  delta_status_t status = state->rows[node_index]->lower(lower);
  status = delta_status_join(status, delta_emit_finish(&lower->emit));
  if (status) return annotate_node(status, node);
  return store_outputs(state, lower, first_new);
}

// An output whose bytes are an input's or a state's gets bytes of its own: the caller may read it after the state has changed.
static delta_status_t make_outputs(delta_import_state_t *state, delta_emit_t *emit) {
  const delta_model_t *model = state->model;
  for (uint32_t k = 0; k < model->output_count; ++k) {
    const delta_model_value_t *value = &model->values[model->outputs[k].index];
    delta_tensor_id_t id = state->tensors[model->outputs[k].index];
    DELTA_RETURN_IF_ERROR(check_name_is_free("output", value->name));
    if (delta_tensor_is_none(id)) return delta_status_make(MALFORMED, "output '%.200s' of the graph is made by no node", value->name);
    const delta_tensor_t *tensor = delta_graph_tensor(state->graph, id);
    if (delta_graph_tensor(state->graph, tensor->storage)->role != DELTA_ROLE_COMPUTED) {
      emit->name = value->name;
      emit->group = model->node_count;
      id = delta_emit_copy(emit, id);
      if (!delta_emit_ok(emit)) return delta_emit_finish(emit);
    }
    DELTA_RETURN_IF_ERROR(delta_graph_add_output(state->graph, value->name, id));
  }
  return DELTA_OK;
}

static delta_status_t walk(delta_import_state_t *state, delta_lower_t *lower) {
  find_live_nodes(state);
  DELTA_RETURN_IF_ERROR(delta_import_find_rows(state));
  DELTA_RETURN_IF_ERROR(make_inputs(state, &lower->emit));
  DELTA_RETURN_IF_ERROR(make_initializers(state, &lower->emit, lower->facts));
  DELTA_RETURN_IF_ERROR(delta_emit_finish(&lower->emit));
  for (uint32_t k = 0; k < state->model->node_count; ++k) {
    if (state->live[k]) DELTA_RETURN_IF_ERROR(lower_node(state, lower, k));
  }
  return make_outputs(state, &lower->emit);
}

delta_status_t delta_import(const delta_model_t *model, const delta_import_options_t *options, delta_allocator_t allocator,
                            delta_graph_t **out_graph, delta_import_facts_t *out_facts) {
  *out_graph = NULL;
  *out_facts = (delta_import_facts_t){0};
  delta_import_state_t state;
  delta_lower_t lower = {
      .model = model, .options = options, .training = options->training || options->as_exported, .facts = out_facts, .import = &state};
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, state_init(&state, model, options, allocator), cleanup);
  delta_emit_init(&lower.emit, state.graph);
  lower.emit.fold = true;
  lower.emit.group = model->node_count;
  status = walk(&state, &lower);
  status = delta_status_join(status, delta_emit_finish(&lower.emit));
  if (status) goto cleanup;
  *out_graph = state.graph;
  state.graph = NULL;
cleanup:
  state_deinit(&state);
  return status;
}
