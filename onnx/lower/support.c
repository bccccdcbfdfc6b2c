// Support check of an import: every live node gets its row of the operator table, or all that have none are reported together.
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "onnx/lower/import_state.h"

enum { LISTED_KINDS = 16, LISTED_NODES = 3 };

// One operator without a row.
typedef struct missing_op {
  const char *domain;
  const char *name;
  int32_t since; // when the operator is supported from a later opset on; else 0
  int64_t opset;
  bool has_graph; // a node has sub-graphs as attributes
  uint32_t count;
  const char *nodes[LISTED_NODES];
} missing_op_t;

typedef struct missing_ops {
  missing_op_t kinds[LISTED_KINDS];
  uint32_t kind_count;
  uint32_t other_nodes; // nodes of kinds beyond the list
  uint32_t node_count;
} missing_ops_t;

static bool has_graph_attribute(const delta_model_node_t *node) {
  for (uint32_t k = 0; k < node->attribute_count; ++k) {
    if (node->attributes[k].kind == DELTA_ATTRIBUTE_GRAPH) return true;
  }
  return false;
}

static void note_missing(missing_ops_t *missing, const delta_model_node_t *node, int32_t since) {
  missing->node_count += 1;
  missing_op_t *kind = missing->kinds;
  missing_op_t *end = missing->kinds + missing->kind_count;
  while (kind < end && (strcmp(kind->name, node->op_type) != 0 || strcmp(kind->domain, node->domain) != 0)) ++kind;
  if (kind == end) {
    if (missing->kind_count == LISTED_KINDS) {
      missing->other_nodes += 1;
      return;
    }
    missing->kind_count += 1;
    *kind = (missing_op_t){.domain = node->domain, .name = node->op_type, .since = since, .opset = node->opset};
  }
  kind->has_graph |= has_graph_attribute(node);
  if (kind->count < LISTED_NODES) kind->nodes[kind->count] = node->name;
  kind->count += 1;
}

static delta_status_t append_missing(const missing_op_t *kind, delta_text_t *text) {
  DELTA_RETURN_IF_ERROR(
      delta_text_append(text, "; %.60s%s%.60s x%u (node", kind->domain, kind->domain[0] ? "." : "", kind->name, kind->count));
  for (uint32_t k = 0; k < kind->count && k < LISTED_NODES; ++k) {
    DELTA_RETURN_IF_ERROR(delta_text_append(text, "%s '%.80s'", k ? "," : "", kind->nodes[k]));
  }
  if (kind->count > LISTED_NODES) DELTA_RETURN_IF_ERROR(delta_text_append(text, ", ..."));
  if (kind->since != 0) {
    DELTA_RETURN_IF_ERROR(delta_text_append(text, "; supported from opset %d on, the file uses %lld", kind->since, (long long)kind->opset));
  }
  if (kind->has_graph) DELTA_RETURN_IF_ERROR(delta_text_append(text, "; has sub-graphs"));
  return delta_text_append(text, ")");
}

static delta_status_t report_missing(const missing_ops_t *missing, delta_allocator_t allocator) {
  delta_status_t status = DELTA_OK;
  delta_text_t text;
  delta_text_init(&text, allocator);
  for (uint32_t k = 0; k < missing->kind_count; ++k) DELTA_GOTO_IF_ERROR(status, append_missing(&missing->kinds[k], &text), cleanup);
  if (missing->other_nodes > 0) {
    DELTA_GOTO_IF_ERROR(status, delta_text_append(&text, "; and %u nodes of other kinds", missing->other_nodes), cleanup);
  }
  status = delta_status_make(UNSUPPORTED, "%u of the model's nodes use operators that are not supported: %s", missing->node_count,
                             text.items + strlen("; "));
cleanup:
  delta_text_deinit(&text);
  return status;
}

// The row for a node, or NULL; *out_since then tells from which opset on the operator is supported, 0 for never.
static const delta_op_info_t *find_row(const delta_model_node_t *node, int32_t *out_since) {
  const delta_op_info_t *row = delta_op_find(node->domain, node->op_type);
  *out_since = 0;
  // A row of another domain (op_table.c) has that domain's versions, which the node does not state.
  if (row == NULL || strcmp(row->domain, node->domain) != 0 || node->opset >= row->since) return row;
  // Optimizers of training graphs put this one into the default domain before ONNX had it there.
  if (node->domain[0] == '\0' && strcmp(node->op_type, "LayerNormalization") == 0) return delta_op_find("com.microsoft", node->op_type);
  *out_since = row->since;
  return NULL;
}

static bool count_is_legal(uint32_t count, int32_t least, int32_t most) {
  return count >= (uint32_t)(least > 0 ? least : 0) && (most < 0 || count <= (uint32_t)most);
}

static delta_status_t check_arity(const delta_model_node_t *node, const delta_op_info_t *row) {
  bool inputs_fit = count_is_legal(node->input_count, row->min_inputs, row->max_inputs);
  if (inputs_fit && count_is_legal(node->output_count, row->min_outputs, row->max_outputs)) return DELTA_OK;
  const char *what = inputs_fit ? "outputs" : "inputs";
  uint32_t count = inputs_fit ? node->output_count : node->input_count;
  int32_t least = inputs_fit ? row->min_outputs : row->min_inputs;
  int32_t most = inputs_fit ? row->max_outputs : row->max_inputs;
  if (most < 0) {
    return delta_status_make(MALFORMED, "node '%.200s' (%s): has %u %s; the operator takes at least %d", node->name, row->name, count, what,
                             least);
  }
  return delta_status_make(MALFORMED, "node '%.200s' (%s): has %u %s; the operator takes %d to %d", node->name, row->name, count, what,
                           least, most);
}

// Whether `name` stands in the comma-separated list.
static bool list_contains(const char *list, const char *name) {
  size_t length = strlen(name);
  for (const char *at = list; *at != '\0';) {
    size_t item = strcspn(at, ",");
    if (item == length && memcmp(at, name, length) == 0) return true;
    at += item;
    at += *at == ',';
  }
  return false;
}

// One note a node about attributes that its operator does not have (exporters add their own).
static void note_unknown_attributes(const delta_import_state_t *state, const delta_model_node_t *node, const delta_op_info_t *row) {
  uint32_t count = 0;
  const char *first = NULL;
  for (uint32_t k = 0; k < node->attribute_count; ++k) {
    if (list_contains(row->attributes, node->attributes[k].name)) continue;
    if (count++ == 0) first = node->attributes[k].name;
  }
  if (count == 0) return;
  delta_log(state->options->log, DELTA_LOG_WARNING,
            "node '%.200s' (%s): %u attributes are not this operator's and ignored; the first is '%.80s'", node->name, row->name, count,
            first);
}

delta_status_t delta_import_find_rows(delta_import_state_t *state) {
  missing_ops_t missing = {0};
  for (uint32_t k = 0; k < state->model->node_count; ++k) {
    int32_t since = 0;
    if (!state->live[k]) continue;
    state->rows[k] = find_row(&state->model->nodes[k], &since);
    if (state->rows[k] == NULL) note_missing(&missing, &state->model->nodes[k], since);
  }
  if (missing.node_count > 0) return report_missing(&missing, state->allocator);
  for (uint32_t k = 0; k < state->model->node_count; ++k) {
    if (!state->live[k]) continue;
    DELTA_RETURN_IF_ERROR(check_arity(&state->model->nodes[k], state->rows[k]));
    note_unknown_attributes(state, &state->model->nodes[k], state->rows[k]);
  }
  return DELTA_OK;
}
