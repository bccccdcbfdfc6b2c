// Inlines model-local functions. A first pass finds, without expanding anything, what each function will cost, so that functions that double
// each other are refused at once; the second pass expands.
#include "onnx/functions.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "onnx/names.h"

// The deepest nesting of calls.
enum { CALL_DEPTH_LIMIT = 64 };
// Room for the prefix of an inlined name, in the estimate of costs.
enum { PREFIX_BYTES = 96 };

// How far the cost of a function is known.
typedef enum visit { UNVISITED, ACTIVE, FINISHED } visit_t;

typedef struct function_cost {
  visit_t visit;
  uint64_t bytes; // of everything that one call becomes
} function_cost_t;

typedef struct inliner {
  const delta_draft_t *draft; // Borrowed.
  delta_allocator_t allocator;
  delta_region_t *region;      // Borrowed.
  delta_draft_nodes_t *out;    // Borrowed.
  delta_map_t function_by_key; // "domain\x1fname"
  delta_names_t prefixes;      // of calls, without the slash
  delta_names_t names;         // of values and nodes, the graph's own and those made here
  function_cost_t *costs;      // Owned; one for each function.
} inliner_t;

// What the names of one call's body stand for.
typedef struct call_scope {
  const delta_draft_function_t *function;
  const delta_draft_node_t *call;
  const char *prefix;
  delta_map_t index_by_name; // name in the body -> index into `names`
  DELTA_ARRAY(const char *) names;
} call_scope_t;

static delta_status_t expand_node(inliner_t *inliner, const delta_draft_node_t *node, uint32_t depth);

// -- Finding functions -------------------------------------------------------------------------------------------------------------------

static delta_status_t append_key(delta_text_t *key, const char *domain, const char *name) {
  key->count = 0;
  return delta_text_append(key, "%s\x1f%s", domain, name);
}

static delta_status_t index_functions(inliner_t *inliner) {
  delta_text_t key;
  delta_text_init(&key, inliner->allocator);
  delta_status_t status = DELTA_OK;
  for (uint32_t i = 0; i < inliner->draft->function_count && !status; ++i) {
    const delta_draft_function_t *function = &inliner->draft->functions[i];
    status = append_key(&key, function->domain, function->name);
    if (!status && delta_map_find(&inliner->function_by_key, key.items) != DELTA_MAP_NONE)
      status = delta_status_make(MALFORMED, "function '%.200s' of domain '%.100s' is defined twice (overloads are not supported)",
                                 function->name, function->domain);
    if (!status) status = delta_map_set(&inliner->function_by_key, key.items, i);
  }
  delta_text_deinit(&key);
  return status;
}

// The function that `node` calls; DELTA_MAP_NONE for an operator.
static delta_status_t find_function(inliner_t *inliner, const delta_draft_node_t *node, uint32_t *out_index) {
  *out_index = DELTA_MAP_NONE;
  if (inliner->draft->function_count == 0) return DELTA_OK;
  delta_text_t key;
  delta_text_init(&key, inliner->allocator);
  delta_status_t status = append_key(&key, node->domain, node->op_type);
  if (!status) *out_index = delta_map_find(&inliner->function_by_key, key.items);
  delta_text_deinit(&key);
  return status;
}

static int64_t opset_of(const delta_draft_opset_t *opsets, uint32_t count, const char *domain) {
  for (uint32_t i = 0; i < count; ++i) {
    if (strcmp(opsets[i].domain, domain) == 0) return opsets[i].version;
  }
  return 0;
}

// -- Costs -------------------------------------------------------------------------------------------------------------------------------

static uint64_t cost_of_names(const char *const *names, uint32_t count) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < count; ++i) bytes += sizeof *names + PREFIX_BYTES + strlen(names[i]);
  return bytes;
}

static uint64_t cost_of_node(const delta_draft_node_t *node) {
  return sizeof *node + PREFIX_BYTES + strlen(node->name) + cost_of_names(node->inputs, node->input_count) +
         cost_of_names(node->outputs, node->output_count) + node->attribute_count * sizeof *node->attributes;
}

// Adds what one call of function `index` becomes to its cost, following the calls inside it. The visits find recursion.
static delta_status_t measure_function(inliner_t *inliner, uint32_t index, uint32_t depth) {
  const delta_draft_function_t *function = &inliner->draft->functions[index];
  function_cost_t *cost = &inliner->costs[index];
  if (cost->visit == FINISHED) return DELTA_OK;
  if (cost->visit == ACTIVE)
    return delta_status_make(MALFORMED, "function '%.200s' calls itself, directly or through other functions", function->name);
  if (depth == CALL_DEPTH_LIMIT)
    return delta_status_make(UNSUPPORTED, "function '%.200s': calls are nested more than %d deep", function->name, CALL_DEPTH_LIMIT);
  cost->visit = ACTIVE;
  for (uint32_t i = 0; i < function->node_count; ++i) {
    const delta_draft_node_t *node = &function->nodes[i];
    uint32_t callee = DELTA_MAP_NONE;
    uint64_t bytes = cost_of_node(node);
    DELTA_RETURN_IF_ERROR(find_function(inliner, node, &callee));
    if (callee != DELTA_MAP_NONE) {
      delta_status_t status = measure_function(inliner, callee, depth + 1);
      if (status && depth < 2) return delta_status_annotate(status, "function '%.200s'", function->name);
      DELTA_RETURN_IF_ERROR(status);
      bytes += inliner->costs[callee].bytes;
    }
    // Saturates far above the limit, far below overflow.
    cost->bytes = cost->bytes + bytes < UINT32_MAX ? cost->bytes + bytes : UINT32_MAX;
  }
  cost->visit = FINISHED;
  return DELTA_OK;
}

static delta_status_t measure_graph(inliner_t *inliner) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < inliner->draft->node_count; ++i) {
    uint32_t callee = DELTA_MAP_NONE;
    DELTA_RETURN_IF_ERROR(find_function(inliner, &inliner->draft->nodes[i], &callee));
    if (callee == DELTA_MAP_NONE) continue;
    DELTA_RETURN_IF_ERROR(measure_function(inliner, callee, 0));
    bytes += inliner->costs[callee].bytes;
    if (bytes > DELTA_FUNCTIONS_LIMIT_BYTES)
      return delta_status_make(UNSUPPORTED, "function '%.200s': the model's functions become more than %d MiB of nodes when inlined",
                               inliner->draft->functions[callee].name, DELTA_FUNCTIONS_LIMIT_BYTES >> 20);
  }
  return DELTA_OK;
}

// -- Names -------------------------------------------------------------------------------------------------------------------------------

// Remembers the graph's own names, which no made-up name may equal.
static delta_status_t take_names(inliner_t *inliner) {
  const delta_draft_t *draft = inliner->draft;
  for (uint32_t i = 0; i < draft->input_count; ++i) DELTA_RETURN_IF_ERROR(delta_names_take(&inliner->names, draft->inputs[i].name));
  for (uint32_t i = 0; i < draft->initializer_count; ++i)
    DELTA_RETURN_IF_ERROR(delta_names_take(&inliner->names, draft->initializers[i].name));
  for (uint32_t i = 0; i < draft->node_count; ++i) {
    DELTA_RETURN_IF_ERROR(delta_names_take(&inliner->names, draft->nodes[i].name));
    for (uint32_t k = 0; k < draft->nodes[i].output_count; ++k)
      DELTA_RETURN_IF_ERROR(delta_names_take(&inliner->names, draft->nodes[i].outputs[k]));
  }
  return DELTA_OK;
}

// A prefix for the names inside a call: the call's name (or the function's), shortened.
static delta_status_t make_prefix(inliner_t *inliner, const delta_draft_node_t *call, const char **out_prefix) {
  char *wanted = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_format(inliner->region, &wanted, "%.64s", *call->name ? call->name : call->op_type));
  return delta_names_make(&inliner->prefixes, inliner->region, wanted, out_prefix);
}

// "prefix/name", made different from all names there are.
static delta_status_t make_name(inliner_t *inliner, const char *prefix, const char *name, const char **out_name) {
  char *wanted = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_format(inliner->region, &wanted, "%s/%s", prefix, name));
  return delta_names_make(&inliner->names, inliner->region, wanted, out_name);
}

// -- Expanding ---------------------------------------------------------------------------------------------------------------------------

static delta_status_t bind_name(inliner_t *inliner, call_scope_t *scope, const char *inner, const char *outer) {
  DELTA_RETURN_IF_ERROR(delta_map_set(&scope->index_by_name, inner, (uint32_t)scope->names.count));
  return delta_array_push(inliner->allocator, &scope->names, &outer);
}

// Passes an input, or another output, on to the call's output: a function may return what it was given.
static delta_status_t add_identity(inliner_t *inliner, const call_scope_t *scope, const char *from, const char *to) {
  const delta_draft_t *draft = inliner->draft;
  delta_draft_node_t node = {.op_type = "Identity", .domain = "", .input_count = 1, .output_count = 1};
  node.opset = opset_of(scope->function->opsets, scope->function->opset_count, "");
  if (node.opset == 0) node.opset = opset_of(draft->opsets, draft->opset_count, "");
  DELTA_RETURN_IF_ERROR(make_name(inliner, scope->prefix, "Identity", &node.name));
  DELTA_RETURN_IF_ERROR(delta_region_copy(inliner->region, &from, 1, sizeof from, (void **)&node.inputs));
  DELTA_RETURN_IF_ERROR(delta_region_copy(inliner->region, &to, 1, sizeof to, (void **)&node.outputs));
  return delta_array_push(inliner->allocator, inliner->out, &node);
}

static const char *bound_name(const call_scope_t *scope, const char *inner) {
  uint32_t index = delta_map_find(&scope->index_by_name, inner);
  return index == DELTA_MAP_NONE ? NULL : scope->names.items[index];
}

static delta_status_t bind_inputs(inliner_t *inliner, call_scope_t *scope) {
  const delta_draft_function_t *function = scope->function;
  const delta_draft_node_t *call = scope->call;
  if (call->input_count > function->input_count || call->output_count > function->output_count)
    return delta_status_make(MALFORMED,
                             "the call gives %" PRIu32 " inputs and takes %" PRIu32 " outputs, the function has %" PRIu32 " and %" PRIu32,
                             call->input_count, call->output_count, function->input_count, function->output_count);
  for (uint32_t i = 0; i < function->input_count; ++i) {
    if (!*function->inputs[i] || bound_name(scope, function->inputs[i]))
      return delta_status_make(MALFORMED, "its input %" PRIu32 " '%.200s' has no name or the name of another input", i,
                               function->inputs[i]);
    DELTA_RETURN_IF_ERROR(bind_name(inliner, scope, function->inputs[i], i < call->input_count ? call->inputs[i] : ""));
  }
  return DELTA_OK;
}

// The body's values become the call's outputs where the function returns them, and get made-up names otherwise.
static delta_status_t bind_body(inliner_t *inliner, call_scope_t *scope) {
  const delta_draft_function_t *function = scope->function;
  const delta_draft_node_t *call = scope->call;
  uint32_t input_names = (uint32_t)scope->names.count;
  for (uint32_t i = 0; i < call->output_count; ++i) {
    if (*call->outputs[i] && !bound_name(scope, function->outputs[i]))
      DELTA_RETURN_IF_ERROR(bind_name(inliner, scope, function->outputs[i], call->outputs[i]));
  }
  delta_map_t produced;
  delta_map_init(&produced, inliner->allocator);
  delta_status_t status = DELTA_OK;
  for (uint32_t i = 0; i < function->node_count && !status; ++i) {
    for (uint32_t k = 0; k < function->nodes[i].output_count && !status; ++k) {
      const char *inner = function->nodes[i].outputs[k];
      const char *outer = NULL;
      if (!*inner) continue;
      uint32_t bound = delta_map_find(&scope->index_by_name, inner);
      if (delta_map_find(&produced, inner) != DELTA_MAP_NONE || (bound != DELTA_MAP_NONE && bound < input_names)) {
        status = delta_status_make(MALFORMED, "its value '%.200s' is made twice (node '%.200s')", inner, function->nodes[i].name);
      } else {
        status = delta_map_set(&produced, inner, 0);
      }
      if (status || bound != DELTA_MAP_NONE) continue;
      status = make_name(inliner, scope->prefix, inner, &outer);
      if (!status) status = bind_name(inliner, scope, inner, outer);
    }
  }
  for (uint32_t i = 0; i < function->output_count && !status; ++i) {
    uint32_t bound = delta_map_find(&scope->index_by_name, function->outputs[i]);
    bool is_input = bound != DELTA_MAP_NONE && bound < input_names;
    if (!is_input && delta_map_find(&produced, function->outputs[i]) == DELTA_MAP_NONE)
      status = delta_status_make(MALFORMED, "no node makes its output '%.200s'", function->outputs[i]);
  }
  delta_map_deinit(&produced);
  return status;
}

// The call's value of an attribute, the function's default, or NULL.
static const delta_draft_attribute_t *find_attribute(const call_scope_t *scope, const char *name) {
  for (uint32_t i = 0; i < scope->call->attribute_count; ++i) {
    if (strcmp(scope->call->attributes[i].value.name, name) == 0) return &scope->call->attributes[i];
  }
  for (uint32_t i = 0; i < scope->function->default_count; ++i) {
    if (strcmp(scope->function->defaults[i].value.name, name) == 0) return &scope->function->defaults[i];
  }
  return NULL;
}

// Replaces references by the values they refer to; one that refers to nothing leaves its attribute out, as ONNX says.
static delta_status_t bind_attributes(inliner_t *inliner, const call_scope_t *scope, delta_draft_node_t *node) {
  const delta_draft_attribute_t *from = node->attributes;
  uint32_t from_count = node->attribute_count;
  node->attribute_count = 0;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(inliner->region, from_count, &node->attributes));
  for (uint32_t i = 0; i < from_count; ++i) {
    const delta_draft_attribute_t *source = from[i].reference ? find_attribute(scope, from[i].reference) : &from[i];
    if (!source) continue;
    if (source->reference)
      return delta_status_make(MALFORMED, "attribute '%.200s' refers to '%.200s', which has no value itself", from[i].value.name,
                               from[i].reference);
    delta_draft_attribute_t *bound = &node->attributes[node->attribute_count++];
    *bound = *source;
    bound->value.name = from[i].value.name;
  }
  return DELTA_OK;
}

static delta_status_t bind_list(inliner_t *inliner, const call_scope_t *scope, const char **inner, uint32_t count,
                                const char ***out_names) {
  const char **names = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_allocate(inliner->region, count, sizeof *names, (void **)&names));
  for (uint32_t i = 0; i < count; ++i) {
    names[i] = *inner[i] ? bound_name(scope, inner[i]) : "";
    if (!names[i])
      return delta_status_make(MALFORMED, "reads '%.200s', which is neither an input of the function nor made in it", inner[i]);
  }
  *out_names = names;
  return DELTA_OK;
}

// A node of the body, in terms of the caller's names.
static delta_status_t bind_node(inliner_t *inliner, const call_scope_t *scope, const delta_draft_node_t *inner,
                                delta_draft_node_t *out_node) {
  delta_draft_node_t node = *inner;
  node.opset = opset_of(scope->function->opsets, scope->function->opset_count, inner->domain);
  DELTA_RETURN_IF_ERROR(bind_list(inliner, scope, inner->inputs, inner->input_count, &node.inputs));
  DELTA_RETURN_IF_ERROR(bind_list(inliner, scope, inner->outputs, inner->output_count, &node.outputs));
  while (node.input_count > 0 && !*node.inputs[node.input_count - 1]) --node.input_count;
  DELTA_RETURN_IF_ERROR(bind_attributes(inliner, scope, &node));
  DELTA_RETURN_IF_ERROR(make_name(inliner, scope->prefix, *inner->name ? inner->name : inner->op_type, &node.name));
  *out_node = node;
  return DELTA_OK;
}

static delta_status_t expand_body(inliner_t *inliner, call_scope_t *scope, uint32_t depth) {
  const delta_draft_function_t *function = scope->function;
  const delta_draft_node_t *call = scope->call;
  DELTA_RETURN_IF_ERROR(bind_inputs(inliner, scope));
  DELTA_RETURN_IF_ERROR(bind_body(inliner, scope));
  for (uint32_t i = 0; i < function->node_count; ++i) {
    const delta_draft_node_t *inner = &function->nodes[i];
    delta_draft_node_t node = {0};
    delta_status_t status = bind_node(inliner, scope, inner, &node);
    if (status) return delta_status_annotate(status, "node '%.100s' (%.100s)", inner->name, inner->op_type);
    DELTA_RETURN_IF_ERROR(expand_node(inliner, &node, depth + 1));
  }
  for (uint32_t i = 0; i < call->output_count; ++i) {
    const char *from = bound_name(scope, function->outputs[i]);
    if (!*call->outputs[i] || !from || strcmp(from, call->outputs[i]) == 0) continue;
    DELTA_RETURN_IF_ERROR(add_identity(inliner, scope, from, call->outputs[i]));
  }
  return DELTA_OK;
}

// Adds a node to the result, or what it becomes when it calls a function. Its depth is bounded, as measure_function has seen every path.
static delta_status_t expand_node(inliner_t *inliner, const delta_draft_node_t *node, uint32_t depth) {
  uint32_t callee = DELTA_MAP_NONE;
  DELTA_RETURN_IF_ERROR(find_function(inliner, node, &callee));
  if (callee == DELTA_MAP_NONE) return delta_array_push(inliner->allocator, inliner->out, node);

  call_scope_t scope = {.function = &inliner->draft->functions[callee], .call = node};
  delta_map_init(&scope.index_by_name, inliner->allocator);
  delta_status_t status = make_prefix(inliner, node, &scope.prefix);
  if (!status) status = expand_body(inliner, &scope, depth);
  delta_map_deinit(&scope.index_by_name);
  delta_array_deinit(inliner->allocator, &scope.names);
  if (status && depth < 2) return delta_status_annotate(status, "node '%.100s', function '%.100s'", node->name, scope.function->name);
  return status;
}

static delta_status_t inline_graph(inliner_t *inliner) {
  const delta_draft_t *draft = inliner->draft;
  DELTA_RETURN_IF_ERROR(index_functions(inliner));
  DELTA_RETURN_IF_ERROR(measure_graph(inliner));
  if (draft->function_count > 0) DELTA_RETURN_IF_ERROR(take_names(inliner));
  DELTA_RETURN_IF_ERROR(delta_array_reserve(inliner->allocator, inliner->out, draft->node_count));
  for (uint32_t i = 0; i < draft->node_count; ++i) {
    delta_draft_node_t node = draft->nodes[i];
    node.opset = opset_of(draft->opsets, draft->opset_count, node.domain);
    DELTA_RETURN_IF_ERROR(expand_node(inliner, &node, 0));
  }
  return DELTA_OK;
}

delta_status_t delta_functions_inline(const delta_draft_t *draft, delta_allocator_t allocator, delta_region_t *region,
                                      delta_draft_nodes_t *out_nodes) {
  inliner_t inliner = {.draft = draft, .allocator = allocator, .region = region, .out = out_nodes};
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, draft->function_count, &inliner.costs));
  delta_map_init(&inliner.function_by_key, allocator);
  delta_names_init(&inliner.prefixes, allocator);
  delta_names_init(&inliner.names, allocator);
  delta_status_t status = inline_graph(&inliner);
  delta_map_deinit(&inliner.function_by_key);
  delta_names_deinit(&inliner.prefixes);
  delta_names_deinit(&inliner.names);
  delta_release(allocator, inliner.costs);
  return status;
}
