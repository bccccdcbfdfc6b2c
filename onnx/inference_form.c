// Rewrites BatchNormalization and Dropout nodes for inference. What each looks like in training depends on the opset:
//   BatchNormalization  7-13: it trains when it has more than one output; 14+: when training_mode is 1, then outputs 1 and 2 are the new
//                       running mean and variance
//   Dropout             7-11: it trains (as exported); 12+: when its third input is true; output 1 is the mask
#include "onnx/inference_form.h"

#include <inttypes.h>
#include <string.h>

// Field numbers of onnx.proto.
enum {
  NODE_INPUT = 1,
  NODE_OUTPUT = 2,
  NODE_NAME = 3,
  NODE_OP_TYPE = 4,
  NODE_ATTRIBUTE = 5,
  NODE_DOMAIN = 7,
  ATTRIBUTE_NAME = 1,
  ATTRIBUTE_I = 3,
  ATTRIBUTE_REFERENCE = 21,
  VALUE_NAME = 1,
  GRAPH_NODE = 1,
  GRAPH_OUTPUT = 12,
  FUNCTION_OUTPUT = 5,
  FUNCTION_NODE = 7,
};

enum { OPSET_WITH_TRAINING_MODE = 14, RUNNING_MEAN_INPUT = 3, RUNNING_OUTPUTS = 2 };

// A node's fields that matter here.
typedef struct node_view {
  delta_wire_field_t op_type;
  const char *op_type_text, *domain_text, *name_text;
  uint32_t output_count;
} node_view_t;

static delta_status_t read_text(delta_edits_t *edits, const delta_wire_field_t *field, const char **out_text) {
  size_t length = (size_t)delta_wire_range_bytes(field->payload);
  char *text = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&edits->region, length + 1, &text));
  *out_text = text;
  return delta_wire_read(edits->source, field->payload, text);
}

// The first text field `number` of a message; "" when there is none.
static delta_status_t find_text(delta_edits_t *edits, delta_wire_range_t message, uint32_t number, const char **out_text) {
  *out_text = "";
  for (uint64_t position = message.begin; position < message.end;) {
    delta_wire_field_t field = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(edits->source, &position, message.end, &field));
    if (field.number == number && field.type == DELTA_WIRE_LENGTH) DELTA_RETURN_IF_ERROR(read_text(edits, &field, out_text));
  }
  return DELTA_OK;
}

static delta_status_t take_name(delta_inference_scope_t *scope, const delta_wire_field_t *field, delta_map_t *names) {
  const char *name = NULL;
  DELTA_RETURN_IF_ERROR(read_text(scope->edits, field, &name));
  return delta_map_set(names, name, 0);
}

static bool is_own_domain(const char *domain) { return !*domain || strcmp(domain, "ai.onnx") == 0; }

static delta_status_t take_node_inputs(delta_inference_scope_t *scope, delta_wire_range_t node) {
  const char *op_type = NULL, *domain = NULL;
  DELTA_RETURN_IF_ERROR(find_text(scope->edits, node, NODE_OP_TYPE, &op_type));
  DELTA_RETURN_IF_ERROR(find_text(scope->edits, node, NODE_DOMAIN, &domain));
  const bool keeps_first = strcmp(op_type, "Dropout") == 0 && is_own_domain(domain);
  uint32_t inputs = 0;
  for (uint64_t position = node.begin; position < node.end;) {
    delta_wire_field_t field = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(scope->edits->source, &position, node.end, &field));
    if (field.number != NODE_INPUT || field.type != DELTA_WIRE_LENGTH) continue;
    DELTA_RETURN_IF_ERROR(take_name(scope, &field, keeps_first && inputs++ > 0 ? &scope->left_names : &scope->read_names));
  }
  return DELTA_OK;
}

static delta_status_t take_read_names(delta_inference_scope_t *scope) {
  const uint32_t node_number = scope->is_function ? FUNCTION_NODE : GRAPH_NODE;
  const uint32_t output_number = scope->is_function ? FUNCTION_OUTPUT : GRAPH_OUTPUT;
  for (uint64_t position = scope->message.begin; position < scope->message.end;) {
    delta_wire_field_t field = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(scope->edits->source, &position, scope->message.end, &field));
    if (field.type != DELTA_WIRE_LENGTH) continue;
    if (field.number == node_number) {
      DELTA_RETURN_IF_ERROR(take_node_inputs(scope, field.payload));
    } else if (field.number == output_number && scope->is_function) {
      DELTA_RETURN_IF_ERROR(take_name(scope, &field, &scope->read_names));
    } else if (field.number == output_number) {
      const char *name = NULL;
      DELTA_RETURN_IF_ERROR(find_text(scope->edits, field.payload, VALUE_NAME, &name));
      DELTA_RETURN_IF_ERROR(delta_map_set(&scope->read_names, name, 0));
    }
  }
  return DELTA_OK;
}

delta_status_t delta_inference_scope_init(delta_inference_scope_t *scope, delta_edits_t *edits, delta_wire_range_t message,
                                          bool is_function, int64_t opset, delta_allocator_t allocator) {
  *scope = (delta_inference_scope_t){.edits = edits, .message = message, .is_function = is_function, .opset = opset};
  delta_map_init(&scope->read_names, allocator);
  delta_map_init(&scope->left_names, allocator);
  delta_status_t status = take_read_names(scope);
  if (status) delta_inference_scope_deinit(scope);
  return status;
}

void delta_inference_scope_deinit(delta_inference_scope_t *scope) {
  delta_map_deinit(&scope->read_names);
  delta_map_deinit(&scope->left_names);
}

static delta_status_t view_node(delta_edits_t *edits, delta_wire_range_t node, node_view_t *out_view) {
  node_view_t view = {.op_type_text = "", .domain_text = "", .name_text = ""};
  for (uint64_t position = node.begin; position < node.end;) {
    delta_wire_field_t field = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(edits->source, &position, node.end, &field));
    if (field.type != DELTA_WIRE_LENGTH) continue;
    view.output_count += field.number == NODE_OUTPUT;
    if (field.number == NODE_OP_TYPE) {
      view.op_type = field;
      DELTA_RETURN_IF_ERROR(read_text(edits, &field, &view.op_type_text));
    }
    if (field.number == NODE_DOMAIN) DELTA_RETURN_IF_ERROR(read_text(edits, &field, &view.domain_text));
    if (field.number == NODE_NAME) DELTA_RETURN_IF_ERROR(read_text(edits, &field, &view.name_text));
  }
  *out_view = view;
  return DELTA_OK;
}

// The text of field `number` that is the `index`th of its kind; "" when there are fewer.
static delta_status_t text_at(delta_edits_t *edits, delta_wire_range_t node, uint32_t number, uint32_t index, const char **out_text) {
  *out_text = "";
  for (uint64_t position = node.begin; position < node.end;) {
    delta_wire_field_t field = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(edits->source, &position, node.end, &field));
    if (field.number == number && field.type == DELTA_WIRE_LENGTH && index-- == 0) return read_text(edits, &field, out_text);
  }
  return DELTA_OK;
}

// Removes the fields called `number` from the `keep`th on.
static delta_status_t remove_fields(delta_edits_t *edits, delta_wire_range_t node, uint32_t number, uint32_t keep, int64_t *growth) {
  for (uint64_t position = node.begin; position < node.end;) {
    delta_wire_field_t field = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(edits->source, &position, node.end, &field));
    if (field.number != number || field.type != DELTA_WIRE_LENGTH) continue;
    if (keep > 0) {
      --keep;
      continue;
    }
    DELTA_RETURN_IF_ERROR(delta_edits_replace(edits, (delta_wire_range_t){field.begin, field.end}, NULL, 0, growth));
  }
  return DELTA_OK;
}

// Whether an attribute is training_mode with another value than 0, or one that a function's caller gives.
static delta_status_t is_training_mode(delta_edits_t *edits, delta_wire_range_t attribute, bool *out_is) {
  const char *name = NULL;
  *out_is = false;
  DELTA_RETURN_IF_ERROR(find_text(edits, attribute, ATTRIBUTE_NAME, &name));
  if (strcmp(name, "training_mode") != 0) return DELTA_OK;
  for (uint64_t position = attribute.begin; position < attribute.end;) {
    delta_wire_field_t field = {0};
    DELTA_RETURN_IF_ERROR(delta_wire_next(edits->source, &position, attribute.end, &field));
    *out_is |= (field.number == ATTRIBUTE_I && field.type == DELTA_WIRE_VARINT && field.varint != 0) || field.number == ATTRIBUTE_REFERENCE;
  }
  return DELTA_OK;
}

static delta_status_t remove_training_mode(delta_edits_t *edits, delta_wire_range_t node, int64_t *growth) {
  for (uint64_t position = node.begin; position < node.end;) {
    delta_wire_field_t field = {0};
    bool is_training = false;
    DELTA_RETURN_IF_ERROR(delta_wire_next(edits->source, &position, node.end, &field));
    if (field.number != NODE_ATTRIBUTE || field.type != DELTA_WIRE_LENGTH) continue;
    DELTA_RETURN_IF_ERROR(is_training_mode(edits, field.payload, &is_training));
    if (is_training) DELTA_RETURN_IF_ERROR(delta_edits_replace(edits, (delta_wire_range_t){field.begin, field.end}, NULL, 0, growth));
  }
  return DELTA_OK;
}

static size_t put_field(uint8_t *out, uint32_t number, const char *text) {
  size_t length = strlen(text), count = 0;
  count += delta_wire_encode_varint((uint64_t)number << 3 | DELTA_WIRE_LENGTH, out + count);
  count += delta_wire_encode_varint(length, out + count);
  memcpy(out + count, text, length);
  return count + length;
}

// Inserts the node `to` = Identity(`from`) at byte `place`.
static delta_status_t insert_identity(delta_inference_scope_t *scope, uint64_t place, const char *from, const char *to, int64_t *growth) {
  uint8_t *node = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&scope->edits->region, strlen(from) + strlen(to) + 100, &node));
  size_t count = put_field(node, NODE_INPUT, from);
  count += put_field(node + count, NODE_OUTPUT, to);
  count += put_field(node + count, NODE_OP_TYPE, "Identity");
  return delta_edits_replace_field(scope->edits, (delta_wire_range_t){place, place}, scope->is_function ? FUNCTION_NODE : GRAPH_NODE, node,
                                   count, growth);
}

// Replaces what is read of the outputs from the second on; the outputs themselves go.
static delta_status_t drop_outputs(delta_inference_scope_t *scope, const delta_wire_field_t *field, const node_view_t *view,
                                   uint32_t stand_ins, int64_t *inner_growth, int64_t *growth) {
  delta_edits_t *edits = scope->edits;
  for (uint32_t i = 1; i < view->output_count; ++i) {
    const char *output = NULL, *input = NULL;
    DELTA_RETURN_IF_ERROR(text_at(edits, field->payload, NODE_OUTPUT, i, &output));
    if (!*output || delta_map_find(&scope->read_names, output) == DELTA_MAP_NONE) continue;
    if (i > stand_ins)
      return delta_status_make(
          UNSUPPORTED, "node '%.200s' (%.60s): its output '%.200s' exists only in training, but is read; export with --export training",
          view->name_text, view->op_type_text, output);
    DELTA_RETURN_IF_ERROR(text_at(edits, field->payload, NODE_INPUT, RUNNING_MEAN_INPUT + i - 1, &input));
    DELTA_RETURN_IF_ERROR(insert_identity(scope, field->end, input, output, growth));
  }
  return remove_fields(edits, field->payload, NODE_OUTPUT, 1, inner_growth);
}

static delta_status_t rewrite_dropout(delta_inference_scope_t *scope, const delta_wire_field_t *field, const node_view_t *view,
                                      int64_t *inner_growth, int64_t *growth) {
  static const char identity[] = "Identity";
  delta_edits_t *edits = scope->edits;
  DELTA_RETURN_IF_ERROR(drop_outputs(scope, field, view, 0, inner_growth, growth));
  DELTA_RETURN_IF_ERROR(remove_fields(edits, field->payload, NODE_INPUT, 1, inner_growth));
  DELTA_RETURN_IF_ERROR(remove_fields(edits, field->payload, NODE_ATTRIBUTE, 0, inner_growth));
  return delta_edits_replace_field(edits, (delta_wire_range_t){view->op_type.begin, view->op_type.end}, NODE_OP_TYPE, identity,
                                   sizeof identity - 1, inner_growth);
}

delta_status_t delta_inference_form_drops(delta_inference_scope_t *scope, const delta_wire_field_t *field, bool *out_drops) {
  node_view_t view = {0};
  const char *output = NULL;
  *out_drops = false;
  DELTA_RETURN_IF_ERROR(view_node(scope->edits, field->payload, &view));
  if (strcmp(view.op_type_text, "Constant") != 0 || !is_own_domain(view.domain_text)) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(text_at(scope->edits, field->payload, NODE_OUTPUT, 0, &output));
  *out_drops = delta_map_find(&scope->left_names, output) != DELTA_MAP_NONE && delta_map_find(&scope->read_names, output) == DELTA_MAP_NONE;
  return DELTA_OK;
}

delta_status_t delta_inference_form_node(delta_inference_scope_t *scope, const delta_wire_field_t *field, int64_t *inner_growth,
                                         int64_t *growth) {
  node_view_t view = {0};
  DELTA_RETURN_IF_ERROR(view_node(scope->edits, field->payload, &view));
  if (!is_own_domain(view.domain_text)) return DELTA_OK;
  if (strcmp(view.op_type_text, "Dropout") == 0) return rewrite_dropout(scope, field, &view, inner_growth, growth);
  if (strcmp(view.op_type_text, "BatchNormalization") != 0) return DELTA_OK;
  if (scope->opset >= OPSET_WITH_TRAINING_MODE) DELTA_RETURN_IF_ERROR(remove_training_mode(scope->edits, field->payload, inner_growth));
  return drop_outputs(scope, field, &view, RUNNING_OUTPUTS, inner_growth, growth);
}
