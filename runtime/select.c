// Choosing a kernel for every node: what a plan says, or the fastest that was measured, or the first row that does not refuse.
#include "runtime/select.h"

#include "base/text.h"

#include <string.h>

// Whether a node has nothing to run.
static bool is_idle(const delta_node_t *node) { return (delta_core_op_info(node->op)->flags & DELTA_CORE_FLAG_VIEW) || node->is_virtual; }

size_t delta_most_workspace_bytes(const delta_graph_t *graph, const delta_node_t *node) {
  enum { MOST_TIMES = 5, ALWAYS_BYTES = 1 << 20 };
  const double most_bytes = MOST_TIMES * delta_node_bytes(graph, node);
  return most_bytes > ALWAYS_BYTES ? (size_t)most_bytes : ALWAYS_BYTES;
}

// What a node takes by one kernel; NULL: by the one to take.
static double kernel_seconds(const delta_device_t *device, const delta_graph_t *graph, const delta_node_t *node,
                             const delta_profile_t *profile, const char *kernel) {
  if (!profile) profile = device->profile;
  if (!profile) return delta_roofline_seconds(&device->roofline, graph, node);
  char key[DELTA_PROFILE_KEY_BYTES];
  delta_profile_key(graph, node, key);
  const delta_profile_entry_t *entry =
      kernel ? delta_profile_find(profile, key, kernel) : delta_profile_best(profile, key, delta_most_workspace_bytes(graph, node));
  if (entry) return entry->seconds;
  const delta_roofline_t roofline = delta_profile_roofline(profile);
  return delta_roofline_seconds(&roofline, graph, node);
}

double delta_node_seconds(const delta_device_t *device, const delta_graph_t *graph, delta_node_id_t id, const delta_profile_t *profile) {
  const delta_node_t *node = delta_graph_node(graph, id);
  return is_idle(node) ? 0 : kernel_seconds(device, graph, node, profile, NULL);
}

// ---- One node

typedef struct node_choice {
  const delta_select_options_t *options;
  delta_node_id_t id;
  const delta_node_t *node;
  const delta_profile_t *profile; // NULL: what was measured does not count
  char key[DELTA_PROFILE_KEY_BYTES];
  delta_text_t refusals; // of the offers seen
  // The best offer so far.
  bool has_best, best_fits;
  uint32_t best_rank;
  delta_kernel_offer_t best;
  const delta_profile_entry_t *best_entry; // NULL: not measured
} node_choice_t;

static void take(node_choice_t *choice, uint32_t rank, const delta_kernel_offer_t *offer, bool fits, const delta_profile_entry_t *entry) {
  choice->has_best = true;
  choice->best_fits = fits;
  choice->best_rank = rank;
  choice->best = *offer;
  choice->best_entry = entry;
}

// Compares an offer that does not refuse with the best before it: the workspace counts first, then what was measured.
static void consider(node_choice_t *choice, uint32_t rank, const delta_kernel_offer_t *offer) {
  const bool fits = offer->workspace_bytes <= delta_most_workspace_bytes(choice->options->graph, choice->node);
  const delta_profile_entry_t *entry = delta_profile_find(choice->profile, choice->key, offer->name), *best = choice->best_entry;
  bool is_better = !choice->has_best || (fits && !choice->best_fits);
  if (choice->has_best && fits && choice->best_fits && entry) is_better = !best || delta_profile_is_better(entry, best);
  if (is_better) take(choice, rank, offer, fits, entry);
}

// The kernel that a node must be run by, or that is preferred; NULL: any.
static const char *planned_kernel(const delta_select_options_t *options, const delta_map_t *nodes, const delta_node_t *node,
                                  uint32_t *inout_planned) {
  const delta_kernel_source_t *source = &options->source;
  if (source->is_given) return source->names[(*inout_planned)++];
  if (!source->like) return NULL;
  const uint32_t index = delta_map_find(nodes, node->name);
  return index == DELTA_MAP_NONE || source->like_graph->nodes.items[index].op != node->op ? NULL : source->like->names[index];
}

// Looks at the offers in their order, as far as need be: `wanted` is taken where it is found.
static delta_status_t look_at_offers(node_choice_t *choice, const char *wanted) {
  const delta_select_options_t *options = choice->options;
  const bool is_measured = choice->profile && delta_profile_first(choice->profile, choice->key);
  for (uint32_t rank = 0;; ++rank) {
    delta_kernel_offer_t offer;
    bool exists = false;
    DELTA_RETURN_IF_ERROR(options->device->driver->kernel_query(options->device, options->graph, choice->id, rank, &offer, &exists));
    if (!exists) return DELTA_OK;
    if (offer.refusal) {
      DELTA_RETURN_IF_ERROR(delta_text_append(&choice->refusals, " %s: %s;", offer.name, offer.refusal));
    } else if (wanted && strcmp(offer.name, wanted) == 0) {
      take(choice, rank, &offer, true, NULL);
      return DELTA_OK;
    } else if (!options->source.is_given && !(choice->has_best && offer.is_last_resort)) {
      consider(choice, rank, &offer);
    }
    if (choice->has_best && choice->best_fits && !is_measured && !wanted) return DELTA_OK;
  }
}

// Says of every offer why it cannot run the node.
static delta_status_t check_choice(const node_choice_t *choice, const char *wanted) {
  const char *op = delta_core_op_info(choice->node->op)->name, *refusals = choice->refusals.items ? choice->refusals.items : "";
  if (choice->options->source.is_given && (!choice->has_best || strcmp(choice->best.name, wanted) != 0))
    return delta_status_make(
        MISMATCH, "node '%s' (%s): the plan runs it by the kernel '%s', which cannot run it here (make a new plan with deltaplan)%s%s",
        choice->node->name, op, wanted, refusals[0] ? ":" : "", refusals);
  if (choice->has_best) return DELTA_OK;
  return delta_status_make(UNSUPPORTED, "node '%s' (%s): no kernel can run it:%s", choice->node->name, op,
                           refusals[0] ? refusals : " there is none");
}

static delta_status_t select_node(const delta_select_options_t *options, delta_node_id_t id, const char *wanted,
                                  delta_selection_t *selection) {
  node_choice_t choice = {.options = options, .id = id, .node = delta_graph_node(options->graph, id)};
  delta_status_t status;
  if (!options->source.is_given && !options->source.like) choice.profile = options->profile ? options->profile : options->device->profile;
  delta_text_init(&choice.refusals, options->device->allocator);
  delta_profile_key(options->graph, choice.node, choice.key);
  DELTA_GOTO_IF_ERROR(status, look_at_offers(&choice, wanted), cleanup);
  DELTA_GOTO_IF_ERROR(status, check_choice(&choice, wanted), cleanup);
  selection->ranks[id.index] = choice.best_rank;
  selection->names[id.index] = choice.best.name;
  selection->costs[id.index] =
      (delta_node_cost_t){.seconds = kernel_seconds(options->device, options->graph, choice.node, options->profile, choice.best.name),
                          .workspace_bytes = choice.best.workspace_bytes,
                          .works_in_row = choice.best.works_in_row};
cleanup:
  delta_text_deinit(&choice.refusals);
  return status;
}

// ---- All nodes

static delta_status_t check_count(const delta_select_options_t *options) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < options->graph->nodes.count; ++i) count += !is_idle(&options->graph->nodes.items[i]);
  if (!options->source.is_given || options->source.count == count) return DELTA_OK;
  return delta_status_make(MISMATCH, "the plan gives %u nodes a kernel, the graph has %u: make a new plan with deltaplan",
                           options->source.count, count);
}

static delta_status_t name_nodes(const delta_graph_t *graph, delta_map_t *nodes) {
  for (uint32_t i = 0; graph && i < graph->nodes.count; ++i) DELTA_RETURN_IF_ERROR(delta_map_set(nodes, graph->nodes.items[i].name, i));
  return DELTA_OK;
}

static delta_status_t select_all(const delta_select_options_t *options, const delta_map_t *nodes, delta_selection_t *selection) {
  uint32_t planned = 0;
  DELTA_RETURN_IF_ERROR(check_count(options));
  for (uint32_t i = 0; i < selection->node_count; ++i) {
    const delta_node_t *node = &options->graph->nodes.items[i];
    if (is_idle(node)) continue;
    const char *wanted = planned_kernel(options, nodes, node, &planned);
    DELTA_RETURN_IF_ERROR(select_node(options, (delta_node_id_t){i}, wanted, selection));
  }
  return DELTA_OK;
}

delta_status_t delta_select(const delta_select_options_t *options, delta_allocator_t allocator, delta_selection_t **out_selection) {
  *out_selection = NULL;
  delta_selection_t *selection = NULL;
  delta_map_t nodes;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &selection));
  delta_map_init(&nodes, allocator);
  delta_status_t status = DELTA_OK;
  selection->allocator = allocator;
  selection->node_count = (uint32_t)options->graph->nodes.count;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, selection->node_count, &selection->ranks), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, selection->node_count, &selection->names), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(allocator, selection->node_count, &selection->costs), cleanup);
  DELTA_GOTO_IF_ERROR(status, name_nodes(options->source.like_graph, &nodes), cleanup);
  DELTA_GOTO_IF_ERROR(status, select_all(options, &nodes, selection), cleanup);
  *out_selection = selection;
  selection = NULL;
cleanup:
  delta_map_deinit(&nodes);
  delta_selection_free(selection);
  return status;
}

void delta_selection_free(delta_selection_t *selection) {
  if (!selection) return;
  delta_release(selection->allocator, selection->ranks);
  delta_release(selection->allocator, selection->names);
  delta_release(selection->allocator, selection->costs);
  delta_release(selection->allocator, selection);
}

void delta_selection_hash(const delta_graph_t *graph, const delta_selection_t *selection, delta_sha256_t *hash) {
  char graph_hash[DELTA_SHA256_TEXT_BYTES];
  delta_graph_hash(graph, graph_hash);
  delta_sha256_update(hash, graph_hash, strlen(graph_hash));
  for (uint32_t i = 0; i < selection->node_count; ++i) {
    const char *name = selection->names[i] ? selection->names[i] : "";
    delta_sha256_update(hash, name, strlen(name) + 1);
  }
}
