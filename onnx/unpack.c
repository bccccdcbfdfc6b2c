// Unpacks the skeleton with protobuf-c and copies what the messages say into a draft.
#include "onnx/unpack.h"

#include <inttypes.h>
#include <string.h>

#include "base/array.h"
#include "onnx.pb-c.h"

enum { DEFAULT_LIMIT_BYTES = 64 << 20, LIMIT_PER_SKELETON_BYTE = 16 };

typedef struct unpacker {
  delta_tensor_context_t *context; // Borrowed.
  delta_region_t *region;          // Borrowed.
  delta_allocator_t messages;      // of the unpacked messages: capped
} unpacker_t;

// What is called "what 'name'" in the messages of a list's elements.
static delta_status_t annotate_element(delta_status_t status, const char *what, const char *name, size_t index) {
  if (name && *name) return delta_status_annotate(status, "%s '%.200s'", what, name);
  return delta_status_annotate(status, "%s %zu (without a name)", what, index);
}

static delta_status_t copy_text(unpacker_t *unpacker, const char *text, const char **out_text) {
  char *copy = NULL;
  *out_text = "";
  if (!text || !*text) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(unpacker->region, text, strlen(text), &copy));
  *out_text = copy;
  return DELTA_OK;
}

static delta_status_t copy_texts(unpacker_t *unpacker, char *const *texts, size_t count, const char ***out_texts) {
  DELTA_RETURN_IF_ERROR(delta_region_allocate(unpacker->region, count, sizeof **out_texts, (void **)out_texts));
  for (size_t i = 0; i < count; ++i) DELTA_RETURN_IF_ERROR(copy_text(unpacker, texts[i], &(*out_texts)[i]));
  return DELTA_OK;
}

// "ai.onnx" is the long name of the default domain.
static delta_status_t copy_domain(unpacker_t *unpacker, const char *domain, const char **out_domain) {
  if (domain && strcmp(domain, "ai.onnx") == 0) domain = "";
  return copy_text(unpacker, domain, out_domain);
}

// -- Tensors -----------------------------------------------------------------------------------------------------------------------------

static delta_status_t copy_cuts(unpacker_t *unpacker, const ProtobufCMessage *message, delta_skeleton_cut_t **out_cuts, size_t *out_count) {
  if (message->n_unknown_fields == 0) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_region_allocate(unpacker->region, message->n_unknown_fields, sizeof **out_cuts, (void **)out_cuts));
  for (unsigned i = 0; i < message->n_unknown_fields; ++i) {
    const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];
    if (field->tag != DELTA_SKELETON_CUT_FIELD || field->len != 1 + sizeof **out_cuts) continue;
    memcpy(&(*out_cuts)[(*out_count)++], field->data + 1, sizeof **out_cuts);
  }
  return DELTA_OK;
}

static delta_status_t copy_entries(unpacker_t *unpacker, const Onnx__TensorProto *tensor, delta_external_entry_t **out_entries) {
  if (tensor->n_external_data == 0) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_region_allocate(unpacker->region, tensor->n_external_data, sizeof **out_entries, (void **)out_entries));
  for (size_t i = 0; i < tensor->n_external_data; ++i) {
    const Onnx__StringStringEntryProto *entry = tensor->external_data[i];
    (*out_entries)[i] = (delta_external_entry_t){entry->key ? entry->key : "", entry->value ? entry->value : ""};
  }
  return DELTA_OK;
}

static delta_status_t copy_tensor(unpacker_t *unpacker, const Onnx__TensorProto *message, bool always_inline,
                                  delta_model_tensor_t *out_tensor) {
  delta_skeleton_cut_t *cuts = NULL;
  delta_external_entry_t *entries = NULL;
  size_t cut_count = 0;
  DELTA_RETURN_IF_ERROR(copy_cuts(unpacker, &message->base, &cuts, &cut_count));
  DELTA_RETURN_IF_ERROR(copy_entries(unpacker, message, &entries));
  delta_tensor_fields_t fields = {
      .name = message->name ? message->name : "",
      .dims = message->dims,
      .dim_count = message->n_dims,
      .data_type = message->data_type,
      .is_segment = message->segment != NULL,
      .is_external = message->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL,
      .has_raw = message->has_raw_data,
      .raw = message->raw_data.data,
      .raw_bytes = message->raw_data.len,
      .floats = message->float_data,
      .float_count = message->n_float_data,
      .int32s = message->int32_data,
      .int32_count = message->n_int32_data,
      .int64s = message->int64_data,
      .int64_count = message->n_int64_data,
      .doubles = message->double_data,
      .double_count = message->n_double_data,
      .uint64_count = message->n_uint64_data,
      .string_count = message->n_string_data,
      .external = entries,
      .external_count = message->n_external_data,
      .cuts = cuts,
      .cut_count = cut_count,
  };
  return delta_tensor_data_read(unpacker->context, &fields, always_inline, out_tensor);
}

static delta_status_t copy_initializers(unpacker_t *unpacker, const Onnx__GraphProto *graph, delta_draft_t *draft) {
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(unpacker->region, graph->n_initializer, &draft->initializers));
  draft->initializer_count = (uint32_t)graph->n_initializer;
  for (size_t i = 0; i < graph->n_initializer; ++i) {
    const Onnx__TensorProto *message = graph->initializer[i];
    delta_status_t status = message->name && *message->name
                                ? copy_tensor(unpacker, message, false, &draft->initializers[i])
                                : delta_status_make(MALFORMED, "an initializer must have a name, as nodes refer to it by name");
    if (status) return annotate_element(status, "initializer", message->name, i);
  }
  if (graph->n_sparse_initializer > 0) {
    const Onnx__TensorProto *values = graph->sparse_initializer[0]->values;
    return delta_status_make(UNSUPPORTED, "sparse initializer '%.200s': sparse tensors are not supported; store it as a dense one",
                             values && values->name ? values->name : "");
  }
  return DELTA_OK;
}

// -- Attributes --------------------------------------------------------------------------------------------------------------------------

// One row per attribute type: ONNX's number, our kind, and whether the message has content of that type.
typedef struct attribute_row {
  Onnx__AttributeProto__AttributeType type;
  delta_attribute_kind_t kind;
  bool present;
} attribute_row_t;

enum { ATTRIBUTE_ROWS = 14 };

static void fill_attribute_rows(const Onnx__AttributeProto *message, attribute_row_t rows[ATTRIBUTE_ROWS]) {
#define ATTRIBUTE_TYPE(name) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##name
  const attribute_row_t filled[ATTRIBUTE_ROWS] = {
      {ATTRIBUTE_TYPE(FLOAT), DELTA_ATTRIBUTE_FLOAT, message->has_f},
      {ATTRIBUTE_TYPE(INT), DELTA_ATTRIBUTE_INT, message->has_i},
      {ATTRIBUTE_TYPE(STRING), DELTA_ATTRIBUTE_STRING, message->has_s},
      {ATTRIBUTE_TYPE(TENSOR), DELTA_ATTRIBUTE_TENSOR, message->t != NULL},
      {ATTRIBUTE_TYPE(FLOATS), DELTA_ATTRIBUTE_FLOATS, message->n_floats > 0},
      {ATTRIBUTE_TYPE(INTS), DELTA_ATTRIBUTE_INTS, message->n_ints > 0},
      {ATTRIBUTE_TYPE(STRINGS), DELTA_ATTRIBUTE_STRINGS, message->n_strings > 0},
      {ATTRIBUTE_TYPE(GRAPH), DELTA_ATTRIBUTE_GRAPH, message->g != NULL},
      {ATTRIBUTE_TYPE(GRAPHS), DELTA_ATTRIBUTE_GRAPH, message->n_graphs > 0},
      {ATTRIBUTE_TYPE(TENSORS), DELTA_ATTRIBUTE_OTHER, message->n_tensors > 0},
      {ATTRIBUTE_TYPE(SPARSE_TENSOR), DELTA_ATTRIBUTE_OTHER, message->sparse_tensor != NULL},
      {ATTRIBUTE_TYPE(SPARSE_TENSORS), DELTA_ATTRIBUTE_OTHER, message->n_sparse_tensors > 0},
      {ATTRIBUTE_TYPE(TYPE_PROTO), DELTA_ATTRIBUTE_OTHER, message->tp != NULL},
      {ATTRIBUTE_TYPE(TYPE_PROTOS), DELTA_ATTRIBUTE_OTHER, message->n_type_protos > 0},
  };
#undef ATTRIBUTE_TYPE
  memcpy(rows, filled, sizeof filled);
}

// The attribute's kind: as declared, or by its content in files older than the type field. The content must agree with the declaration;
// an absent one is the type's empty value, which some writers leave out.
static delta_status_t choose_kind(const Onnx__AttributeProto *message, delta_attribute_kind_t *out_kind) {
  attribute_row_t rows[ATTRIBUTE_ROWS];
  fill_attribute_rows(message, rows);
  bool is_declared = message->has_type && message->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
  const attribute_row_t *declared = NULL, *present = NULL;
  size_t present_count = 0;
  for (size_t i = 0; i < ATTRIBUTE_ROWS; ++i) {
    if (is_declared && rows[i].type == message->type) declared = &rows[i];
    if (!rows[i].present) continue;
    present = &rows[i];
    ++present_count;
  }
  if (is_declared && !declared) return delta_status_make(MALFORMED, "its type %d does not exist", (int)message->type);
  if (!is_declared && present_count != 1) return delta_status_make(MALFORMED, "it has no type and %zu values", present_count);
  if (declared && !declared->present && present_count > 0)
    return delta_status_make(MALFORMED, "its value is not of the type it declares (%d)", (int)message->type);
  if (declared && declared->type == ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR && !declared->present)
    return delta_status_make(MALFORMED, "it declares a tensor and has none");
  *out_kind = declared ? declared->kind : present->kind;
  return DELTA_OK;
}

static delta_status_t copy_strings(unpacker_t *unpacker, const Onnx__AttributeProto *message, delta_attribute_t *attribute) {
  char **texts = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(unpacker->region, message->n_strings, &texts));
  for (size_t i = 0; i < message->n_strings; ++i) {
    const ProtobufCBinaryData *data = &message->strings[i];
    if (data->len > 0 && memchr(data->data, 0, data->len)) return delta_status_make(MALFORMED, "its string %zu contains a zero byte", i);
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(unpacker->region, data->len ? (const char *)data->data : "", data->len, &texts[i]));
  }
  attribute->count = message->n_strings;
  attribute->strings = (const char *const *)texts;
  return DELTA_OK;
}

static delta_status_t copy_attribute_tensor(unpacker_t *unpacker, const Onnx__AttributeProto *message, delta_attribute_t *attribute) {
  delta_model_tensor_t *tensor = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(unpacker->region, 1, &tensor));
  attribute->tensor = tensor;
  delta_status_t status = copy_tensor(unpacker, message->t, true, tensor);
  return status ? delta_status_annotate(status, "tensor '%.200s'", message->t->name ? message->t->name : "") : DELTA_OK;
}

static delta_status_t copy_attribute_value(unpacker_t *unpacker, const Onnx__AttributeProto *message, delta_attribute_t *attribute) {
  delta_region_t *region = unpacker->region;
  char *text = NULL;
  switch (attribute->kind) {
    case DELTA_ATTRIBUTE_FLOAT:
      attribute->f = message->f;
      return DELTA_OK;
    case DELTA_ATTRIBUTE_INT:
      attribute->i = message->i;
      return DELTA_OK;
    case DELTA_ATTRIBUTE_STRING:
      DELTA_RETURN_IF_ERROR(delta_region_copy_string(region, message->s.len ? (const char *)message->s.data : "", message->s.len, &text));
      attribute->s = text;
      attribute->s_length = message->s.len;
      return DELTA_OK;
    case DELTA_ATTRIBUTE_FLOATS:
      attribute->count = message->n_floats;
      return delta_region_copy(region, message->floats, message->n_floats, sizeof(float), (void **)&attribute->floats);
    case DELTA_ATTRIBUTE_INTS:
      attribute->count = message->n_ints;
      return delta_region_copy(region, message->ints, message->n_ints, sizeof(int64_t), (void **)&attribute->ints);
    case DELTA_ATTRIBUTE_STRINGS:
      return copy_strings(unpacker, message, attribute);
    case DELTA_ATTRIBUTE_TENSOR:
      return copy_attribute_tensor(unpacker, message, attribute);
    case DELTA_ATTRIBUTE_GRAPH:
    case DELTA_ATTRIBUTE_OTHER:
      return DELTA_OK;
  }
  return DELTA_OK;
}

static delta_status_t copy_attribute(unpacker_t *unpacker, const Onnx__AttributeProto *message, delta_draft_attribute_t *out_attribute) {
  delta_draft_attribute_t attribute = {0};
  DELTA_RETURN_IF_ERROR(copy_text(unpacker, message->name, &attribute.value.name));
  if (!*attribute.value.name) return delta_status_make(MALFORMED, "an attribute has no name");
  delta_status_t status = DELTA_OK;
  if (message->ref_attr_name && *message->ref_attr_name) {
    status = copy_text(unpacker, message->ref_attr_name, &attribute.reference);
  } else {
    status = choose_kind(message, &attribute.value.kind);
    if (!status) status = copy_attribute_value(unpacker, message, &attribute.value);
  }
  if (status) return delta_status_annotate(status, "attribute '%.200s'", attribute.value.name);
  *out_attribute = attribute;
  return DELTA_OK;
}

static delta_status_t check_attributes_differ(const delta_draft_attribute_t *attributes, uint32_t count) {
  for (uint32_t i = 1; i < count; ++i) {
    for (uint32_t k = 0; k < i; ++k) {
      if (strcmp(attributes[i].value.name, attributes[k].value.name) == 0)
        return delta_status_make(MALFORMED, "attribute '%.200s' is given twice", attributes[i].value.name);
    }
  }
  return DELTA_OK;
}

// -- Nodes and functions -----------------------------------------------------------------------------------------------------------------

// The most attributes of a node and opset imports of a model: far above real ones, and small enough to search them in line.
enum { MAX_ATTRIBUTES = 256, MAX_OPSETS = 1000 };

static delta_status_t copy_node(unpacker_t *unpacker, const Onnx__NodeProto *message, delta_draft_node_t *node) {
  DELTA_RETURN_IF_ERROR(copy_text(unpacker, message->name, &node->name));
  DELTA_RETURN_IF_ERROR(copy_text(unpacker, message->op_type, &node->op_type));
  DELTA_RETURN_IF_ERROR(copy_domain(unpacker, message->domain, &node->domain));
  if (!*node->op_type) return delta_status_make(MALFORMED, "it has no operator (op_type)");
  DELTA_RETURN_IF_ERROR(copy_texts(unpacker, message->input, message->n_input, &node->inputs));
  DELTA_RETURN_IF_ERROR(copy_texts(unpacker, message->output, message->n_output, &node->outputs));
  node->input_count = (uint32_t)message->n_input;
  node->output_count = (uint32_t)message->n_output;
  while (node->input_count > 0 && !*node->inputs[node->input_count - 1]) --node->input_count;
  if (message->n_attribute > MAX_ATTRIBUTES)
    return delta_status_make(MALFORMED, "it has %zu attributes; at most %d are accepted", message->n_attribute, MAX_ATTRIBUTES);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(unpacker->region, message->n_attribute, &node->attributes));
  node->attribute_count = (uint32_t)message->n_attribute;
  for (size_t i = 0; i < message->n_attribute; ++i)
    DELTA_RETURN_IF_ERROR(copy_attribute(unpacker, message->attribute[i], &node->attributes[i]));
  return check_attributes_differ(node->attributes, node->attribute_count);
}

static delta_status_t copy_nodes(unpacker_t *unpacker, Onnx__NodeProto *const *messages, size_t count, delta_draft_node_t **out_nodes) {
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(unpacker->region, count, out_nodes));
  for (size_t i = 0; i < count; ++i) {
    delta_status_t status = copy_node(unpacker, messages[i], &(*out_nodes)[i]);
    if (!status) continue;
    if (messages[i]->op_type && *messages[i]->op_type) status = delta_status_annotate(status, "%.100s", messages[i]->op_type);
    return annotate_element(status, "node", messages[i]->name, i);
  }
  return DELTA_OK;
}

static delta_status_t copy_opsets(unpacker_t *unpacker, Onnx__OperatorSetIdProto *const *messages, size_t count,
                                  delta_draft_opset_t **out_opsets) {
  if (count > MAX_OPSETS)
    return delta_status_make(MALFORMED, "the opset list (opset_import) has %zu entries; at most %d are accepted", count, MAX_OPSETS);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(unpacker->region, count, out_opsets));
  for (size_t i = 0; i < count; ++i) {
    DELTA_RETURN_IF_ERROR(copy_domain(unpacker, messages[i]->domain, &(*out_opsets)[i].domain));
    (*out_opsets)[i].version = messages[i]->version;
  }
  return DELTA_OK;
}

// Defaults of attributes come as unknown fields (skeleton.h).
static delta_status_t copy_defaults(unpacker_t *unpacker, const Onnx__FunctionProto *message, delta_draft_function_t *function) {
  const ProtobufCMessage *base = &message->base;
  if (base->n_unknown_fields == 0) return DELTA_OK;
  ProtobufCAllocator allocator = {
      .alloc = unpacker->messages.allocate, .free = unpacker->messages.release, .allocator_data = unpacker->messages.self};
  if (base->n_unknown_fields > MAX_ATTRIBUTES)
    return delta_status_make(MALFORMED, "it has more than %d attributes with defaults", MAX_ATTRIBUTES);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(unpacker->region, base->n_unknown_fields, &function->defaults));
  for (unsigned i = 0; i < base->n_unknown_fields; ++i) {
    const ProtobufCMessageUnknownField *field = &base->unknown_fields[i];
    if (field->tag != DELTA_SKELETON_ATTRIBUTE_PROTO_FIELD || field->len < DELTA_SKELETON_LENGTH_BYTES) continue;
    Onnx__AttributeProto *attribute =
        onnx__attribute_proto__unpack(&allocator, field->len - DELTA_SKELETON_LENGTH_BYTES, field->data + DELTA_SKELETON_LENGTH_BYTES);
    if (!attribute) return delta_status_make(OUT_OF_MEMORY, "no memory to unpack the default of an attribute");
    delta_status_t status = copy_attribute(unpacker, attribute, &function->defaults[function->default_count]);
    onnx__attribute_proto__free_unpacked(attribute, &allocator);
    DELTA_RETURN_IF_ERROR(status);
    ++function->default_count;
  }
  return DELTA_OK;
}

static delta_status_t copy_function(unpacker_t *unpacker, const Onnx__FunctionProto *message, delta_draft_function_t *function) {
  DELTA_RETURN_IF_ERROR(copy_text(unpacker, message->name, &function->name));
  if (!*function->name) return delta_status_make(MALFORMED, "a function must have a name, as nodes call it by name");
  DELTA_RETURN_IF_ERROR(copy_domain(unpacker, message->domain, &function->domain));
  DELTA_RETURN_IF_ERROR(copy_texts(unpacker, message->input, message->n_input, &function->inputs));
  DELTA_RETURN_IF_ERROR(copy_texts(unpacker, message->output, message->n_output, &function->outputs));
  function->input_count = (uint32_t)message->n_input;
  function->output_count = (uint32_t)message->n_output;
  DELTA_RETURN_IF_ERROR(copy_defaults(unpacker, message, function));
  DELTA_RETURN_IF_ERROR(copy_opsets(unpacker, message->opset_import, message->n_opset_import, &function->opsets));
  function->opset_count = (uint32_t)message->n_opset_import;
  DELTA_RETURN_IF_ERROR(copy_nodes(unpacker, message->node, message->n_node, &function->nodes));
  function->node_count = (uint32_t)message->n_node;
  return DELTA_OK;
}

static delta_status_t copy_functions(unpacker_t *unpacker, const Onnx__ModelProto *model, delta_draft_t *draft) {
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(unpacker->region, model->n_functions, &draft->functions));
  draft->function_count = (uint32_t)model->n_functions;
  for (size_t i = 0; i < model->n_functions; ++i) {
    delta_status_t status = copy_function(unpacker, model->functions[i], &draft->functions[i]);
    if (status) return annotate_element(status, "function", model->functions[i]->name, i);
  }
  return DELTA_OK;
}

// -- Types and values --------------------------------------------------------------------------------------------------------------------

static delta_status_t copy_shape(unpacker_t *unpacker, const Onnx__TensorShapeProto *shape, delta_model_type_t *type) {
  if (shape->n_dim > DELTA_MAX_RANK)
    return delta_status_make(UNSUPPORTED, "its declared shape has %zu dimensions; at most %d are supported", shape->n_dim, DELTA_MAX_RANK);
  type->has_shape = true;
  type->rank = (int32_t)shape->n_dim;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(unpacker->region, shape->n_dim, &type->dims));
  for (size_t i = 0; i < shape->n_dim; ++i) {
    const Onnx__TensorShapeProto__Dimension *dim = shape->dim[i];
    type->dims[i].size = -1;
    if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE) {
      if (dim->dim_value < 0)
        return delta_status_make(MALFORMED, "dimension %zu of its declared shape is %" PRId64 "; a size cannot be negative", i,
                                 dim->dim_value);
      type->dims[i].size = dim->dim_value;
    } else if (dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM && dim->dim_param && *dim->dim_param) {
      DELTA_RETURN_IF_ERROR(copy_text(unpacker, dim->dim_param, &type->dims[i].symbol));
    }
  }
  return DELTA_OK;
}

static delta_status_t copy_type(unpacker_t *unpacker, const Onnx__TypeProto *message, delta_model_type_t *type) {
  *type = (delta_model_type_t){.dtype = DELTA_DTYPE_COUNT, .is_tensor = true};
  if (!message || message->value_case == ONNX__TYPE_PROTO__VALUE__NOT_SET) return DELTA_OK;
  type->is_tensor = message->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
  if (!type->is_tensor || !message->tensor_type) return DELTA_OK;
  type->onnx_type = message->tensor_type->elem_type;
  if (!delta_dtype_from_onnx(type->onnx_type, &type->dtype)) type->dtype = DELTA_DTYPE_COUNT;
  return message->tensor_type->shape ? copy_shape(unpacker, message->tensor_type->shape, type) : DELTA_OK;
}

static delta_status_t copy_values(unpacker_t *unpacker, const char *what, Onnx__ValueInfoProto *const *messages, size_t count,
                                  delta_draft_value_t **out_values) {
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(unpacker->region, count, out_values));
  for (size_t i = 0; i < count; ++i) {
    delta_draft_value_t *value = &(*out_values)[i];
    delta_status_t status = copy_text(unpacker, messages[i]->name, &value->name);
    if (!status && !*value->name) status = delta_status_make(MALFORMED, "it must have a name, as nodes refer to it by name");
    if (!status) status = copy_type(unpacker, messages[i]->type, &value->type);
    if (status) return annotate_element(status, what, value->name, i);
  }
  return DELTA_OK;
}

static delta_status_t copy_graph(unpacker_t *unpacker, const Onnx__GraphProto *graph, delta_draft_t *draft) {
  draft->has_graph = true;
  DELTA_RETURN_IF_ERROR(copy_text(unpacker, graph->name, &draft->graph_name));
  DELTA_RETURN_IF_ERROR(copy_values(unpacker, "input", graph->input, graph->n_input, &draft->inputs));
  draft->input_count = (uint32_t)graph->n_input;
  DELTA_RETURN_IF_ERROR(copy_values(unpacker, "output", graph->output, graph->n_output, &draft->outputs));
  draft->output_count = (uint32_t)graph->n_output;
  DELTA_RETURN_IF_ERROR(copy_values(unpacker, "value_info", graph->value_info, graph->n_value_info, &draft->value_infos));
  draft->value_info_count = (uint32_t)graph->n_value_info;
  DELTA_RETURN_IF_ERROR(copy_initializers(unpacker, graph, draft));
  DELTA_RETURN_IF_ERROR(copy_nodes(unpacker, graph->node, graph->n_node, &draft->nodes));
  draft->node_count = (uint32_t)graph->n_node;
  return DELTA_OK;
}

static delta_status_t copy_model(unpacker_t *unpacker, const Onnx__ModelProto *model, delta_draft_t *draft) {
  draft->has_ir_version = model->has_ir_version;
  draft->ir_version = model->ir_version;
  draft->training_info_count = (uint32_t)model->n_training_info;
  DELTA_RETURN_IF_ERROR(copy_text(unpacker, model->producer_name, &draft->producer_name));
  DELTA_RETURN_IF_ERROR(copy_text(unpacker, model->producer_version, &draft->producer_version));
  DELTA_RETURN_IF_ERROR(copy_opsets(unpacker, model->opset_import, model->n_opset_import, &draft->opsets));
  draft->opset_count = (uint32_t)model->n_opset_import;
  DELTA_RETURN_IF_ERROR(copy_functions(unpacker, model, draft));
  return model->graph ? copy_graph(unpacker, model->graph, draft) : DELTA_OK;
}

// -- Files -------------------------------------------------------------------------------------------------------------------------------

static delta_status_t make_skeleton(delta_tensor_context_t *context, delta_allocator_t allocator, delta_skeleton_t *out_skeleton) {
  delta_wire_source_t source = {0};
  DELTA_RETURN_IF_ERROR(delta_wire_source_init(&source, context->file, context->allocator));
  delta_status_t status = delta_skeleton_make(&source, &onnx__model_proto__descriptor, allocator, out_skeleton);
  delta_wire_source_deinit(&source);
  return status;
}

delta_status_t delta_unpack_model(delta_tensor_context_t *context, size_t limit_bytes, delta_draft_t *out_draft) {
  delta_capped_allocator_t capped;
  delta_capped_allocator_init(&capped, context->allocator, limit_bytes ? limit_bytes : SIZE_MAX);
  delta_allocator_t messages = delta_capped_allocator_interface(&capped);
  ProtobufCAllocator allocator = {.alloc = messages.allocate, .free = messages.release, .allocator_data = messages.self};
  unpacker_t unpacker = {.context = context, .region = context->region, .messages = messages};
  delta_skeleton_t skeleton = {0};
  Onnx__ModelProto *model = NULL;
  delta_draft_t draft = {0};

  delta_status_t status = make_skeleton(context, messages, &skeleton);
  if (status) return status;
  if (limit_bytes == 0) capped.limit_bytes = DEFAULT_LIMIT_BYTES + LIMIT_PER_SKELETON_BYTE * skeleton.count;
  model = onnx__model_proto__unpack(&allocator, skeleton.count, skeleton.items);
  // The skeleton is well formed, so only memory can have been missing.
  if (!model)
    DELTA_GOTO_IF_ERROR(
        status,
        delta_status_make(OUT_OF_MEMORY, "unpacking the file (%zu bytes without its weights) needs more than %zu bytes of memory",
                          skeleton.count, capped.limit_bytes),
        cleanup);
  DELTA_GOTO_IF_ERROR(status, copy_model(&unpacker, model, &draft), cleanup);
  *out_draft = draft;

cleanup:
  if (model) onnx__model_proto__free_unpacked(model, &allocator);
  delta_skeleton_deinit(&skeleton);
  return status;
}
