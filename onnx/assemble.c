// Resolves a draft into a model. Each step is one pass over the nodes.
#include "onnx/assemble.h"

#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "onnx/names.h"
#include "onnx/order.h"

// How many names a message lists at most.
enum { LISTED_NAMES = 5 };

typedef struct assembler {
  delta_model_t *model;            // Borrowed.
  const delta_draft_t *draft;      // Borrowed.
  const delta_draft_node_t *nodes; // Borrowed; inlined, in file order.
  uint32_t node_count;
  delta_log_sink_t log;
  uint32_t *order; // in the model's region; order[i] is the index in `nodes` of node i of the model
} assembler_t;

// -- Header ------------------------------------------------------------------------------------------------------------------------------

static delta_status_t check_ir_version(const delta_draft_t *draft, delta_log_sink_t log) {
  if (!draft->has_ir_version) return delta_status_make(MALFORMED, "ir_version is missing (no ONNX file, or damaged)");
  if (draft->ir_version < DELTA_IR_VERSION_OLDEST || draft->ir_version > DELTA_IR_VERSION_LIMIT)
    return delta_status_make(UNSUPPORTED, "ir_version is %" PRId64 "; IR version %d and newer are read", draft->ir_version,
                             DELTA_IR_VERSION_OLDEST);
  if (draft->ir_version > DELTA_IR_VERSION_NEWEST)
    delta_log(log, DELTA_LOG_NOTE,
              "the model's IR version %" PRId64 " is newer than the newest known (%d); what is unknown in it is ignored", draft->ir_version,
              DELTA_IR_VERSION_NEWEST);
  return DELTA_OK;
}

static const delta_draft_opset_t *find_opset(const delta_draft_opset_t *opsets, uint32_t count, const char *domain) {
  for (uint32_t i = 0; i < count; ++i) {
    if (strcmp(opsets[i].domain, domain) == 0) return &opsets[i];
  }
  return NULL;
}

delta_status_t delta_assemble_check_header(const delta_draft_t *draft, delta_log_sink_t log) {
  DELTA_RETURN_IF_ERROR(check_ir_version(draft, log));
  if (!draft->has_graph) return delta_status_make(MALFORMED, "the file holds no graph (it may be cut off)");
  if (draft->opset_count == 0)
    return delta_status_make(MALFORMED, "no opset is imported: opset_import is missing (the file may be cut off)");
  const delta_draft_opset_t *opset = find_opset(draft->opsets, draft->opset_count, "");
  if (opset && opset->version >= DELTA_OPSET_OLDEST && opset->version < DELTA_OPSET_FULL)
    delta_log(log, DELTA_LOG_NOTE, "opset %" PRId64 " is older than %d; only operators that have not changed since are supported",
              opset->version, DELTA_OPSET_FULL);
  if (opset && opset->version > DELTA_OPSET_NEWEST)
    delta_log(log, DELTA_LOG_NOTE, "opset %" PRId64 " is newer than %d; operators are read as they were in %d", opset->version,
              DELTA_OPSET_NEWEST, DELTA_OPSET_NEWEST);
  if (draft->training_info_count > 0)
    delta_log(log, DELTA_LOG_NOTE, "the model's training_info is ignored; only its forward graph is used");
  return DELTA_OK;
}

// Every domain that a node uses must be imported, and the default one in a version that is read.
static delta_status_t check_opset(const delta_draft_node_t *node, const char *name) {
  if (node->opset == 0)
    return delta_status_make(MALFORMED,
                             "node '%.200s' (%.100s): no opset of its domain '%.100s' is imported (opset_import has none, or version 0)",
                             name, node->op_type, *node->domain ? node->domain : "ai.onnx");
  if (!*node->domain && node->opset < DELTA_OPSET_OLDEST)
    return delta_status_make(UNSUPPORTED, "node '%.200s' (%.100s): opset %" PRId64 " of ai.onnx does not exist; it begins at %d", name,
                             node->op_type, node->opset, DELTA_OPSET_OLDEST);
  if (!*node->domain && node->opset > DELTA_OPSET_LIMIT)
    return delta_status_make(UNSUPPORTED, "node '%.200s' (%.100s): opset %" PRId64 " of ai.onnx is not known; %d to %d are supported", name,
                             node->op_type, node->opset, DELTA_OPSET_FULL, DELTA_OPSET_NEWEST);
  return DELTA_OK;
}

// -- Values ------------------------------------------------------------------------------------------------------------------------------

static const char *kind_text(delta_value_kind_t kind) {
  return kind == DELTA_VALUE_INPUT ? "a graph input" : kind == DELTA_VALUE_INITIALIZER ? "an initializer" : "the output of another node";
}

// Adds a value; its name must be new.
static delta_status_t add_value(delta_model_t *model, const char *name, delta_value_kind_t kind, uint32_t index, const char *owner) {
  uint32_t existing = delta_map_find(&model->value_by_name, name);
  if (existing != DELTA_MAP_NONE)
    return delta_status_make(MALFORMED, "%s '%.200s': the name is already that of %s", owner, name,
                             kind_text(model->values[existing].kind));
  model->values[model->value_count] =
      (delta_model_value_t){.name = name, .kind = kind, .index = index, .type = {.dtype = DELTA_DTYPE_COUNT, .is_tensor = true}};
  return delta_map_set(&model->value_by_name, name, model->value_count++);
}

// A graph input may repeat an initializer (IR 3 wanted that): its type must then agree.
static delta_status_t check_repeated_input(const delta_draft_value_t *input, const delta_model_tensor_t *initializer) {
  const delta_model_type_t *type = &input->type;
  bool agrees = type->is_tensor && (type->onnx_type == 0 || type->dtype == initializer->dtype) &&
                (!type->has_shape || type->rank == initializer->shape.rank);
  for (int32_t i = 0; agrees && type->has_shape && i < type->rank; ++i)
    agrees = type->dims[i].size < 0 || type->dims[i].size == initializer->shape.dims[i];
  if (agrees) return DELTA_OK;
  char shape[DELTA_SHAPE_TEXT_BYTES];
  return delta_status_make(MALFORMED, "initializer '%.200s' is %s of shape %s, but is declared as a graph input of another type or shape",
                           input->name, delta_dtype_name(initializer->dtype), delta_shape_text(&initializer->shape, shape));
}

static delta_status_t check_input_type(const delta_draft_value_t *input) {
  if (!input->type.is_tensor)
    return delta_status_make(UNSUPPORTED, "input '%.200s' is a sequence, map, optional or sparse tensor; only tensors can be fed",
                             input->name);
  if (input->type.onnx_type == 0) return delta_status_make(MALFORMED, "input '%.200s' has no element type", input->name);
  if (input->type.dtype == DELTA_DTYPE_COUNT)
    return delta_status_make(UNSUPPORTED, "input '%.200s' has an element type (TensorProto.DataType %" PRId32 ") that Delta does not store",
                             input->name, input->type.onnx_type);
  return DELTA_OK;
}

static delta_status_t add_inputs_and_initializers(assembler_t *assembler) {
  const delta_draft_t *draft = assembler->draft;
  delta_model_t *model = assembler->model;
  for (uint32_t i = 0; i < draft->initializer_count; ++i)
    DELTA_RETURN_IF_ERROR(add_value(model, draft->initializers[i].name, DELTA_VALUE_INITIALIZER, i, "initializer"));
  model->initializers = draft->initializers;
  model->initializer_count = draft->initializer_count;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&model->region, draft->input_count, &model->inputs));
  for (uint32_t i = 0; i < draft->input_count; ++i) {
    const delta_draft_value_t *input = &draft->inputs[i];
    uint32_t existing = delta_map_find(&model->value_by_name, input->name);
    if (existing != DELTA_MAP_NONE && model->values[existing].kind == DELTA_VALUE_INITIALIZER) {
      DELTA_RETURN_IF_ERROR(check_repeated_input(input, &model->initializers[model->values[existing].index]));
      continue;
    }
    DELTA_RETURN_IF_ERROR(check_input_type(input));
    DELTA_RETURN_IF_ERROR(add_value(model, input->name, DELTA_VALUE_INPUT, model->input_count, "graph input"));
    model->values[model->value_count - 1].type = input->type;
    model->inputs[model->input_count++] = (delta_value_id_t){model->value_count - 1};
  }
  return DELTA_OK;
}

// Gives initializers the type of their tensor, and every value that has none the type that value_info or outputs declare.
static delta_status_t set_types(assembler_t *assembler) {
  delta_model_t *model = assembler->model;
  for (uint32_t i = 0; i < model->value_count; ++i) {
    delta_model_value_t *value = &model->values[i];
    if (value->kind != DELTA_VALUE_INITIALIZER) continue;
    const delta_model_tensor_t *tensor = &model->initializers[value->index];
    value->type = (delta_model_type_t){.dtype = tensor->dtype,
                                       .onnx_type = delta_dtype_to_onnx(tensor->dtype),
                                       .is_tensor = true,
                                       .has_shape = true,
                                       .rank = tensor->shape.rank};
    DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&model->region, (size_t)tensor->shape.rank, &value->type.dims));
    for (int32_t k = 0; k < tensor->shape.rank; ++k) value->type.dims[k].size = tensor->shape.dims[k];
  }
  const delta_draft_t *draft = assembler->draft;
  for (uint32_t i = 0; i < draft->value_info_count + draft->output_count; ++i) {
    const delta_draft_value_t *declared = i < draft->output_count ? &draft->outputs[i] : &draft->value_infos[i - draft->output_count];
    delta_value_id_t id = delta_model_find_value(model, declared->name);
    if (delta_value_is_none(id) || model->values[id.index].kind != DELTA_VALUE_NODE_OUTPUT) continue;
    delta_model_type_t *type = &model->values[id.index].type;
    if (type->onnx_type == 0 && !type->has_shape) *type = declared->type;
  }
  return DELTA_OK;
}

// -- Nodes -------------------------------------------------------------------------------------------------------------------------------

// Names of the model's nodes, in file order: the file's where they are unique.
static delta_status_t name_nodes(assembler_t *assembler, const char **names) {
  delta_model_t *model = assembler->model;
  delta_names_t used;
  delta_names_init(&used, model->allocator);
  delta_status_t status = DELTA_OK;
  for (uint32_t i = 0; i < assembler->node_count && !status; ++i) {
    if (*assembler->nodes[i].name) status = delta_names_make(&used, &model->region, assembler->nodes[i].name, &names[i]);
  }
  for (uint32_t i = 0; i < assembler->node_count && !status; ++i) {
    char *wanted = NULL;
    if (names[i]) continue;
    status = delta_region_format(&model->region, &wanted, "%.100s_%" PRIu32, assembler->nodes[i].op_type, i);
    if (!status) status = delta_names_make(&used, &model->region, wanted, &names[i]);
  }
  delta_names_deinit(&used);
  return status;
}

// Adds the outputs of all nodes as values; until the nodes are sorted, a value's index is its producer's place in the file.
static delta_status_t add_node_outputs(assembler_t *assembler, const char *const *names) {
  delta_model_t *model = assembler->model;
  for (uint32_t i = 0; i < assembler->node_count; ++i) {
    const delta_draft_node_t *node = &assembler->nodes[i];
    DELTA_RETURN_IF_ERROR(check_opset(node, names[i]));
    for (uint32_t k = 0; k < node->output_count; ++k) {
      if (!*node->outputs[k]) continue;
      if (delta_map_find(&model->value_by_name, node->outputs[k]) == DELTA_MAP_NONE) {
        DELTA_RETURN_IF_ERROR(add_value(model, node->outputs[k], DELTA_VALUE_NODE_OUTPUT, i, "node output"));
        continue;
      }
      const delta_model_value_t *other = &model->values[delta_map_find(&model->value_by_name, node->outputs[k])];
      return delta_status_make(
          MALFORMED, "node '%.200s' (%.100s): its output '%.200s' has the name of %s", names[i], node->op_type, node->outputs[k],
          other->kind == DELTA_VALUE_NODE_OUTPUT && other->index == i ? "another of its outputs" : kind_text(other->kind));
    }
  }
  return DELTA_OK;
}

// The values of `names`, NONE where a name is ""; *out_missing is the first name that nobody gives.
static void resolve_names(const delta_model_t *model, const char *const *names, uint32_t count, delta_value_id_t *out_ids,
                          const char **out_missing) {
  for (uint32_t i = 0; i < count; ++i) {
    out_ids[i] = *names[i] ? delta_model_find_value(model, names[i]) : DELTA_VALUE_NONE;
    if (*names[i] && delta_value_is_none(out_ids[i]) && !*out_missing) *out_missing = names[i];
  }
}

// An error that lists some of the nodes that read values which nobody gives.
static delta_status_t report_missing(assembler_t *assembler, const char *const *names) {
  delta_text_t list;
  delta_text_init(&list, assembler->model->allocator);
  uint32_t missing = 0;
  delta_status_t status = DELTA_OK;
  for (uint32_t i = 0; i < assembler->node_count && !status; ++i) {
    const delta_draft_node_t *node = &assembler->nodes[i];
    for (uint32_t k = 0; k < node->input_count && !status; ++k) {
      if (!*node->inputs[k] || !delta_value_is_none(delta_model_find_value(assembler->model, node->inputs[k]))) continue;
      if (missing++ < LISTED_NAMES)
        status = delta_text_append(&list, "%snode '%.80s' reads '%.80s'", missing > 1 ? ", " : "", names[i], node->inputs[k]);
    }
  }
  if (!status && missing > LISTED_NAMES) status = delta_text_append(&list, " and %" PRIu32 " more", missing - LISTED_NAMES);
  if (!status) status = delta_status_make(MALFORMED, "%s: no node, input or initializer gives it", list.items);
  delta_text_deinit(&list);
  return status;
}

static delta_status_t report_cycle(assembler_t *assembler, const char *const *names, uint32_t count) {
  delta_text_t list;
  delta_text_init(&list, assembler->model->allocator);
  delta_status_t status = DELTA_OK;
  for (uint32_t i = 0; i < count && i < LISTED_NAMES && !status; ++i)
    status = delta_text_append(&list, "'%.80s' -> ", names[assembler->order[i]]);
  if (!status && count > LISTED_NAMES) status = delta_text_append(&list, "%" PRIu32 " more -> ", count - LISTED_NAMES);
  if (!status) status = delta_status_make(MALFORMED, "nodes need each other in a cycle: %s'%.80s'", list.items, names[assembler->order[0]]);
  delta_text_deinit(&list);
  return status;
}

// The model's nodes in file order, with resolved inputs and outputs.
static delta_status_t resolve_nodes(assembler_t *assembler, const char *const *names, delta_model_node_t *nodes) {
  delta_model_t *model = assembler->model;
  const char *missing = NULL;
  for (uint32_t i = 0; i < assembler->node_count; ++i) {
    const delta_draft_node_t *from = &assembler->nodes[i];
    delta_model_node_t *node = &nodes[i];
    *node = (delta_model_node_t){.name = names[i],
                                 .op_type = from->op_type,
                                 .domain = from->domain,
                                 .opset = from->opset,
                                 .input_count = from->input_count,
                                 .output_count = from->output_count,
                                 .attribute_count = from->attribute_count};
    DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&model->region, from->input_count, &node->inputs));
    DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&model->region, from->output_count, &node->outputs));
    DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&model->region, from->attribute_count, &node->attributes));
    resolve_names(model, from->inputs, from->input_count, node->inputs, &missing);
    resolve_names(model, from->outputs, from->output_count, node->outputs, &missing);
    for (uint32_t k = 0; k < from->attribute_count; ++k) {
      if (from->attributes[k].reference)
        return delta_status_make(MALFORMED, "node '%.200s' (%.100s): attribute '%.100s' refers to '%.100s', but it is in no function",
                                 names[i], from->op_type, from->attributes[k].value.name, from->attributes[k].reference);
      node->attributes[k] = from->attributes[k].value;
    }
  }
  return missing ? report_missing(assembler, names) : DELTA_OK;
}

// Sorts `nodes` (in file order) into model->nodes and sets the producers of their outputs.
static delta_status_t sort_nodes(assembler_t *assembler, const char *const *names, const delta_model_node_t *nodes) {
  delta_model_t *model = assembler->model;
  size_t input_count = 0;
  uint32_t *begins = NULL, *producers = NULL;
  uint32_t cycle = 0;
  bool is_sorted = true;
  delta_status_t status = DELTA_OK;
  for (uint32_t i = 0; i < assembler->node_count; ++i) input_count += nodes[i].input_count;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(model->allocator, assembler->node_count + (size_t)1, &begins), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(model->allocator, input_count, &producers), cleanup);
  for (uint32_t i = 0, edge = 0; i < assembler->node_count; ++i) {
    begins[i] = edge;
    for (uint32_t k = 0; k < nodes[i].input_count; ++k) {
      delta_value_id_t id = nodes[i].inputs[k];
      bool is_node = !delta_value_is_none(id) && model->values[id.index].kind == DELTA_VALUE_NODE_OUTPUT;
      producers[edge++] = is_node ? model->values[id.index].index : DELTA_ORDER_NONE;
    }
    begins[i + 1] = edge;
  }
  delta_order_edges_t edges = {.node_count = assembler->node_count, .begins = begins, .producers = producers};
  DELTA_GOTO_IF_ERROR(status, delta_order_sort(&edges, model->allocator, assembler->order, &cycle), cleanup);
  if (cycle > 0) DELTA_GOTO_IF_ERROR(status, report_cycle(assembler, names, cycle), cleanup);

  DELTA_GOTO_IF_ERROR(status, DELTA_REGION_ALLOCATE(&model->region, assembler->node_count, &model->nodes), cleanup);
  model->node_count = assembler->node_count;
  for (uint32_t i = 0; i < model->node_count; ++i) {
    is_sorted &= assembler->order[i] == i;
    model->nodes[i] = nodes[assembler->order[i]];
    for (uint32_t k = 0; k < model->nodes[i].output_count; ++k) {
      delta_value_id_t id = model->nodes[i].outputs[k];
      if (!delta_value_is_none(id)) model->values[id.index].index = i;
    }
  }
  if (!is_sorted) delta_log(assembler->log, DELTA_LOG_NOTE, "the nodes of the model are not in topological order; they were sorted");

cleanup:
  delta_release(model->allocator, begins);
  delta_release(model->allocator, producers);
  return status;
}

static delta_status_t add_nodes(assembler_t *assembler) {
  delta_model_t *model = assembler->model;
  const char **names = NULL;
  delta_model_node_t *nodes = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, delta_allocate(model->allocator, assembler->node_count, sizeof *names, (void **)&names), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(model->allocator, assembler->node_count, &nodes), cleanup);
  DELTA_GOTO_IF_ERROR(status, name_nodes(assembler, names), cleanup);
  DELTA_GOTO_IF_ERROR(status, add_node_outputs(assembler, names), cleanup);
  DELTA_GOTO_IF_ERROR(status, resolve_nodes(assembler, names, nodes), cleanup);
  DELTA_GOTO_IF_ERROR(status, sort_nodes(assembler, names, nodes), cleanup);

cleanup:
  delta_release(model->allocator, (void *)names);
  delta_release(model->allocator, nodes);
  return status;
}

static delta_status_t add_outputs(assembler_t *assembler) {
  const delta_draft_t *draft = assembler->draft;
  delta_model_t *model = assembler->model;
  if (draft->output_count == 0) return delta_status_make(MALFORMED, "the graph has no output");
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&model->region, draft->output_count, &model->outputs));
  delta_map_t listed;
  delta_map_init(&listed, model->allocator);
  delta_status_t status = DELTA_OK;
  for (uint32_t i = 0; i < draft->output_count && !status; ++i) {
    const char *name = draft->outputs[i].name;
    model->outputs[i] = delta_model_find_value(model, name);
    if (delta_value_is_none(model->outputs[i])) {
      status = delta_status_make(MALFORMED, "output '%.200s': no node, input or initializer gives it", name);
    } else if (delta_map_find(&listed, name) != DELTA_MAP_NONE) {
      status = delta_status_make(MALFORMED, "output '%.200s' is listed twice", name);
    } else {
      status = delta_map_set(&listed, name, i);
    }
  }
  delta_map_deinit(&listed);
  model->output_count = draft->output_count;
  return status;
}

delta_status_t delta_assemble_model(delta_model_t *model, const delta_draft_t *draft, const delta_draft_nodes_t *nodes,
                                    delta_log_sink_t log) {
  assembler_t assembler = {.model = model, .draft = draft, .nodes = nodes->items, .node_count = (uint32_t)nodes->count, .log = log};
  size_t value_count = (size_t)draft->input_count + draft->initializer_count;
  for (size_t i = 0; i < nodes->count; ++i) value_count += nodes->items[i].output_count;
  if (value_count >= UINT32_MAX || nodes->count >= UINT32_MAX) return delta_status_make(UNSUPPORTED, "the graph has more than 2^32 values");
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&model->region, value_count, &model->values));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&model->region, nodes->count, &assembler.order));
  const delta_draft_opset_t *opset = find_opset(draft->opsets, draft->opset_count, "");
  model->opset = opset ? opset->version : 0;
  model->ir_version = draft->ir_version;
  model->producer_name = draft->producer_name;
  model->producer_version = draft->producer_version;
  model->graph_name = draft->graph_name;
  DELTA_RETURN_IF_ERROR(add_inputs_and_initializers(&assembler));
  DELTA_RETURN_IF_ERROR(add_nodes(&assembler));
  DELTA_RETURN_IF_ERROR(add_outputs(&assembler));
  return set_types(&assembler);
}
