// Model text: see model_text.h.
#include "tests/support/model_text.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_VALUES = 256, MAX_NODES = 64, MAX_LIST = 64, MAX_ATTRIBUTES = 16 };

// A position in the text of one line.
typedef struct cursor {
  const char *at;
} cursor_t;

static void *region_of(delta_model_t *model, size_t count, size_t bytes) {
  void *pointer = NULL;
  cr_assert_null(delta_region_allocate(&model->region, count, bytes, &pointer));
  return pointer;
}

static const char *keep(delta_model_t *model, const char *text, size_t length) {
  char *copy = NULL;
  cr_assert_null(delta_region_copy_string(&model->region, text, length, &copy));
  return copy;
}

static void skip_spaces(cursor_t *cursor) { cursor->at += strspn(cursor->at, " "); }

// The next word, up to one of `ends`.
static const char *take_word(delta_model_t *model, cursor_t *cursor, const char *ends) {
  skip_spaces(cursor);
  size_t length = strcspn(cursor->at, ends);
  const char *word = keep(model, cursor->at, length);
  cursor->at += length;
  return word;
}

static delta_dtype_t dtype_of(const char *name) {
  for (int k = 0; k < DELTA_DTYPE_COUNT; ++k) {
    if (strcmp(delta_dtype_name((delta_dtype_t)k), name) == 0) return (delta_dtype_t)k;
  }
  return DELTA_DTYPE_COUNT;
}

static delta_value_id_t value_named(delta_model_t *model, const char *name) {
  uint32_t index = delta_map_find(&model->value_by_name, name);
  if (index == DELTA_MAP_NONE) {
    index = model->value_count++;
    cr_assert_lt(index, MAX_VALUES);
    model->values[index] =
        (delta_model_value_t){.name = name, .kind = DELTA_VALUE_NODE_OUTPUT, .type = {.dtype = DELTA_DTYPE_COUNT, .is_tensor = true}};
    cr_assert_null(delta_map_set(&model->value_by_name, name, index));
  }
  return (delta_value_id_t){index};
}

static delta_model_type_t take_type(delta_model_t *model, cursor_t *cursor) {
  delta_model_type_t type = {.dtype = dtype_of(take_word(model, cursor, " [")), .is_tensor = true};
  type.onnx_type = type.dtype == DELTA_DTYPE_COUNT ? 0 : delta_dtype_to_onnx(type.dtype);
  skip_spaces(cursor);
  if (*cursor->at == '-') {
    cursor->at += 1;
    return type;
  }
  cr_assert_eq(*cursor->at, '[', "a shape is missing at '%s'", cursor->at);
  type.has_shape = true;
  type.dims = region_of(model, DELTA_MAX_RANK + 2, sizeof *type.dims);
  cursor->at += 1;
  while (*cursor->at != ']') {
    const char *word = take_word(model, cursor, ",]");
    bool number = strchr("-0123456789", word[0]) != NULL;
    type.dims[type.rank++] = (delta_model_dim_t){.size = number ? atoll(word) : -1, .symbol = number || word[0] == '?' ? NULL : word};
    if (*cursor->at == ',') cursor->at += 1;
  }
  cursor->at += 1;
  return type;
}

// Elements up to one of `ends`; the last is repeated until the shape is full.
static void take_elements(delta_model_t *model, cursor_t *cursor, const char *ends, delta_model_tensor_t *tensor) {
  size_t count = (size_t)delta_shape_count(&tensor->shape);
  void *data = region_of(model, count, delta_dtype_bytes(tensor->dtype));
  double value = 0.0;
  for (size_t k = 0; k < count; ++k) {
    skip_spaces(cursor);
    if (*cursor->at == ',') cursor->at += 1;
    if (*cursor->at != '\0' && strchr(ends, *cursor->at) == NULL) value = strtod(cursor->at, (char **)&cursor->at);
    delta_element_store_double(data, tensor->dtype, k, value);
  }
  tensor->data = data;
  tensor->size_bytes = count * delta_dtype_bytes(tensor->dtype);
}

static delta_model_tensor_t tensor_of(const char *name, const delta_model_type_t *type) {
  delta_model_tensor_t tensor = {.name = name, .dtype = type->dtype, .shape = {.rank = type->rank}};
  for (int32_t d = 0; d < type->rank; ++d) tensor.shape.dims[d] = type->dims[d].size;
  return tensor;
}

static void read_input(delta_model_t *model, cursor_t *cursor) {
  delta_value_id_t id = value_named(model, take_word(model, cursor, " "));
  delta_model_value_t *value = &model->values[id.index];
  value->kind = DELTA_VALUE_INPUT;
  value->index = model->input_count;
  value->type = take_type(model, cursor);
  model->inputs[model->input_count++] = id;
}

static void read_initializer(delta_model_t *model, cursor_t *cursor) {
  delta_value_id_t id = value_named(model, take_word(model, cursor, " "));
  delta_model_value_t *value = &model->values[id.index];
  value->kind = DELTA_VALUE_INITIALIZER;
  value->index = model->initializer_count;
  value->type = take_type(model, cursor);
  delta_model_tensor_t *tensor = &model->initializers[model->initializer_count++];
  *tensor = tensor_of(value->name, &value->type);
  skip_spaces(cursor);
  if (strncmp(cursor->at, "absent", 6) == 0) {
    tensor->size_bytes = (size_t)delta_shape_count(&tensor->shape) * delta_dtype_bytes(tensor->dtype);
    tensor->storage = DELTA_STORAGE_EXTERNAL;
    tensor->location = "no-such-file.bin";
  } else {
    take_elements(model, cursor, "", tensor);
  }
}

static void take_list(delta_model_t *model, cursor_t *cursor, delta_attribute_t *attribute) {
  int64_t *ints = region_of(model, MAX_LIST, sizeof *ints);
  float *floats = region_of(model, MAX_LIST, sizeof *floats);
  const char **strings = region_of(model, MAX_LIST, sizeof *strings);
  bool text = cursor->at[1] == '\'';
  bool real = strchr(cursor->at, '.') != NULL && strchr(cursor->at, '.') < strchr(cursor->at, ']');
  cursor->at += 1;
  while (*cursor->at != ']') {
    const char *word = take_word(model, cursor, ",]");
    strings[attribute->count] = text ? keep(model, word + 1, strlen(word) - 2) : NULL;
    ints[attribute->count] = strtoll(word, NULL, 10);
    floats[attribute->count++] = strtof(word, NULL);
    if (*cursor->at == ',') cursor->at += 1;
  }
  cursor->at += 1;
  attribute->kind = text ? DELTA_ATTRIBUTE_STRINGS : real ? DELTA_ATTRIBUTE_FLOATS : DELTA_ATTRIBUTE_INTS;
  attribute->strings = strings;
  attribute->ints = ints;
  attribute->floats = floats;
}

static void take_tensor_attribute(delta_model_t *model, cursor_t *cursor, delta_attribute_t *attribute) {
  delta_model_type_t type = take_type(model, cursor);
  delta_model_tensor_t *tensor = region_of(model, 1, sizeof *tensor);
  *tensor = tensor_of("value", &type);
  cr_assert_eq(*cursor->at, '{');
  cursor->at += 1;
  take_elements(model, cursor, "}", tensor);
  skip_spaces(cursor);
  cr_assert_eq(*cursor->at, '}');
  cursor->at += 1;
  attribute->kind = DELTA_ATTRIBUTE_TENSOR;
  attribute->tensor = tensor;
}

static delta_attribute_t take_attribute(delta_model_t *model, cursor_t *cursor) {
  delta_attribute_t attribute = {.name = take_word(model, cursor, "=")};
  cursor->at += 1;
  if (*cursor->at == '[') {
    take_list(model, cursor, &attribute);
  } else if (*cursor->at == '\'') {
    cursor->at += 1;
    attribute.kind = DELTA_ATTRIBUTE_STRING;
    attribute.s = take_word(model, cursor, "'");
    attribute.s_length = strlen(attribute.s);
    cursor->at += 1;
  } else if (strchr("-+.0123456789n", *cursor->at) != NULL) {
    const char *word = take_word(model, cursor, " ");
    attribute.kind = strchr(word, '.') != NULL ? DELTA_ATTRIBUTE_FLOAT : DELTA_ATTRIBUTE_INT;
    attribute.i = strtoll(word, NULL, 10);
    attribute.f = strtof(word, NULL);
  } else if (strncmp(cursor->at, "graph", 5) == 0) {
    cursor->at += 5;
    attribute.kind = DELTA_ATTRIBUTE_GRAPH;
  } else {
    take_tensor_attribute(model, cursor, &attribute);
  }
  return attribute;
}

static delta_value_id_t take_value(delta_model_t *model, cursor_t *cursor) {
  const char *word = take_word(model, cursor, " ");
  return strcmp(word, "_") == 0 ? DELTA_VALUE_NONE : value_named(model, word);
}

static void read_node(delta_model_t *model, cursor_t *cursor) {
  delta_model_node_t *node = &model->nodes[model->node_count];
  char *name = NULL;
  cr_assert_null(delta_region_format(&model->region, &name, "n%u", model->node_count));
  const char *op = take_word(model, cursor, " ");
  const char *colon = strchr(op, ':');
  *node = (delta_model_node_t){.name = name,
                               .op_type = colon ? colon + 1 : op,
                               .domain = colon ? keep(model, op, (size_t)(colon - op)) : "",
                               .opset = colon ? 1 : model->opset,
                               .inputs = region_of(model, MAX_LIST, sizeof *node->inputs),
                               .outputs = region_of(model, MAX_LIST, sizeof *node->outputs),
                               .attributes = region_of(model, MAX_ATTRIBUTES, sizeof *node->attributes)};
  for (skip_spaces(cursor); strncmp(cursor->at, "->", 2) != 0; skip_spaces(cursor))
    node->inputs[node->input_count++] = take_value(model, cursor);
  cursor->at += 2;
  for (skip_spaces(cursor); *cursor->at != '\0' && *cursor->at != ':'; skip_spaces(cursor)) {
    delta_value_id_t id = take_value(model, cursor);
    node->outputs[node->output_count++] = id;
    if (!delta_value_is_none(id)) model->values[id.index].index = model->node_count;
  }
  cursor->at += *cursor->at == ':';
  for (skip_spaces(cursor); *cursor->at != '\0'; skip_spaces(cursor))
    node->attributes[node->attribute_count++] = take_attribute(model, cursor);
  model->node_count += 1;
}

static void read_line(delta_model_t *model, const char *line) {
  cursor_t cursor = {.at = line};
  const char *what = take_word(model, &cursor, " ");
  if (what[0] == '\0') return;
  if (strcmp(what, "opset") == 0) {
    model->opset = atoll(cursor.at);
  } else if (strcmp(what, "input") == 0) {
    read_input(model, &cursor);
  } else if (strcmp(what, "init") == 0) {
    read_initializer(model, &cursor);
  } else if (strcmp(what, "value") == 0) {
    delta_value_id_t id = value_named(model, take_word(model, &cursor, " "));
    model->values[id.index].type = take_type(model, &cursor);
  } else if (strcmp(what, "node") == 0) {
    read_node(model, &cursor);
  } else if (strcmp(what, "output") == 0) {
    model->outputs[model->output_count++] = value_named(model, take_word(model, &cursor, " "));
  } else {
    cr_assert_fail("what is '%s'?", line);
  }
}

delta_model_t *delta_test_model_of(const char *text) {
  delta_allocator_t allocator = delta_allocator_system();
  delta_model_t *model = NULL;
  cr_assert_null(DELTA_ALLOCATE(allocator, 1, &model));
  model->allocator = allocator;
  model->path = "model.onnx";
  model->opset = 13;
  delta_region_init(&model->region, allocator);
  delta_map_init(&model->value_by_name, allocator);
  model->values = region_of(model, MAX_VALUES, sizeof *model->values);
  model->inputs = region_of(model, MAX_VALUES, sizeof *model->inputs);
  model->outputs = region_of(model, MAX_VALUES, sizeof *model->outputs);
  model->initializers = region_of(model, MAX_VALUES, sizeof *model->initializers);
  model->nodes = region_of(model, MAX_NODES, sizeof *model->nodes);
  for (const char *at = text; *at != '\0';) {
    size_t length = strcspn(at, "\n;");
    read_line(model, keep(model, at, length));
    at += length;
    at += *at != '\0';
  }
  return model;
}

void delta_test_fill_states(const delta_model_t *model, delta_reference_values_t *values) {
  for (size_t k = 0; k < values->graph->states.count; ++k) {
    const delta_state_t *state = &values->graph->states.items[k];
    if (state->initializer == DELTA_INDEX_NONE) continue;
    const delta_model_tensor_t *tensor = &model->initializers[state->initializer];
    delta_status_t status = delta_model_read_tensor(model, tensor, delta_reference_value(values, state->current), tensor->size_bytes);
    cr_assert_null(status, "%s", delta_status_message(status));
  }
}

delta_graph_t *delta_test_import(const delta_model_t *model, const delta_import_options_t *options, delta_import_facts_t *facts) {
  delta_graph_t *graph = NULL;
  delta_status_t status = delta_import(model, options, delta_allocator_system(), &graph, facts);
  cr_assert_null(status, "%s", delta_status_message(status));
  status = delta_graph_check(graph);
  cr_assert_null(status, "%s", delta_status_message(status));
  return graph;
}
