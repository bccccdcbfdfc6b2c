// First the forms, forward along the nodes; then the times, forward too; then what may wait waits, backward.
#include "onnx/parts/assignment.h"

static const delta_part_time_t at_start = {0, 0};

static delta_part_tensor_t *tensor_of(const delta_part_assignment_t *a, delta_tensor_id_t id) { return &a->tensors[id.index]; }

static bool is_split(const delta_part_assignment_t *a, delta_tensor_id_t id) {
  return !delta_tensor_is_none(id) && tensor_of(a, id)->axis != DELTA_PART_WHOLE;
}

static int64_t size_along(const delta_part_assignment_t *a, delta_tensor_id_t id, int32_t axis) {
  return delta_graph_tensor(a->graph, id)->shape.dims[axis];
}

static bool has_samples(const delta_part_assignment_t *a, delta_tensor_id_t id, int32_t axis) {
  if (axis < 0 || delta_tensor_is_none(id)) return true;
  const int64_t size = size_along(a, id, axis);
  return size > 0 && size % a->options.batch == 0;
}

// -- Forms -------------------------------------------------------------------------------------------------------------------------------

static bool all_inputs_given(const delta_part_assignment_t *a, const delta_node_t *node) {
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (!delta_tensor_is_none(node->inputs[k]) && !tensor_of(a, node->inputs[k])->is_given) return false;
  }
  return true;
}

static bool any_input_split(const delta_part_assignment_t *a, const delta_node_t *node) {
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (is_split(a, node->inputs[k])) return true;
  }
  return false;
}

// Whether one of the node's tensors is large enough for the region.
static bool has_large_tensor(const delta_part_assignment_t *a, const delta_node_t *node, size_t least_bytes) {
  for (uint32_t k = 0; k < node->input_count + node->output_count; ++k) {
    const delta_tensor_id_t id = k < node->input_count ? node->inputs[k] : node->outputs[k - node->input_count];
    if (delta_tensor_is_none(id)) continue;
    const delta_tensor_t *tensor = delta_graph_tensor(a->graph, id);
    if (tensor->role != DELTA_ROLE_STATE && delta_tensor_bytes(tensor) >= least_bytes) return true;
  }
  return false;
}

static size_t least_region_bytes(const delta_part_assignment_t *a) {
  size_t largest = 0;
  for (size_t i = 0; i < a->graph->tensors.count; ++i) {
    const delta_tensor_t *tensor = &a->graph->tensors.items[i];
    if (tensor->role != DELTA_ROLE_STATE && delta_tensor_bytes(tensor) > largest) largest = delta_tensor_bytes(tensor);
  }
  return largest / 100 * a->options.region_percent;
}

// The region: nodes with large tensors, and the few between them (the narrow middle of a bottleneck), so that what goes in and out of it is little.
static delta_status_t find_region(delta_part_assignment_t *a) {
  enum { MOST_BETWEEN = 32 };
  const size_t least_bytes = least_region_bytes(a);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&a->region, a->graph->nodes.count, &a->in_region));
  uint32_t next = 0; // after the last node with a large tensor
  for (uint32_t n = 0; n < a->graph->nodes.count; ++n) {
    if (!has_large_tensor(a, &a->graph->nodes.items[n], least_bytes)) continue;
    for (uint32_t between = next > 0 && n - next <= MOST_BETWEEN ? next : n; between <= n; ++between) a->in_region[between] = true;
    next = n + 1;
  }
  return DELTA_OK;
}

static delta_status_t allocate_axes(delta_part_assignment_t *a, const delta_node_t *node, delta_part_node_t *made) {
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&a->region, node->input_count, &made->inputs));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&a->region, node->output_count, &made->outputs));
  for (uint32_t k = 0; k < node->input_count; ++k) made->inputs[k] = DELTA_PART_WHOLE;
  for (uint32_t k = 0; k < node->output_count; ++k) made->outputs[k] = DELTA_PART_WHOLE;
  return DELTA_OK;
}

// Finds the part in which elements [begin, end) of a split dimension lie.
static bool find_part(const delta_part_assignment_t *a, int64_t size, int64_t begin, int64_t end, uint32_t *out_part) {
  for (uint32_t p = 0; p < a->count; ++p) {
    if (begin < delta_part_begin(a, p, size) || end > delta_part_begin(a, p + 1, size)) continue;
    *out_part = p;
    return true;
  }
  return false;
}

static bool is_pick(const delta_part_assignment_t *a, const delta_node_t *node, delta_part_node_t *made) {
  if (node->op != DELTA_CORE_SLICE) return false;
  const delta_slice_attrs_t *attrs = node->attrs;
  const int32_t axis = tensor_of(a, node->inputs[0])->axis;
  if (axis == DELTA_PART_WHOLE || attrs->steps[axis] != 1 || attrs->shape.dims[axis] < 1) return false;
  made->inputs[0] = axis;
  return find_part(a, attrs->data_shape.dims[axis], attrs->starts[axis], attrs->starts[axis] + attrs->shape.dims[axis], &made->part);
}

// Whether a concatenation of whole tensors gives each part inputs of its own.
static bool is_join(const delta_part_assignment_t *a, const delta_node_t *node, delta_part_node_t *made) {
  if (node->op != DELTA_CORE_CONCAT || any_input_split(a, node) || all_inputs_given(a, node)) return false;
  const int32_t axis = ((const delta_split_attrs_t *)node->attrs)->axis;
  if (!has_samples(a, node->outputs[0], axis)) return false;
  const int64_t size = size_along(a, node->outputs[0], axis);
  int64_t begin = 0;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const int64_t end = begin + size_along(a, node->inputs[k], axis);
    uint32_t part;
    if (!find_part(a, size, begin, end, &part)) return false;
    made->inputs[k] = (int32_t)part;
    begin = end;
  }
  made->outputs[0] = axis;
  return true;
}

// Whether parts of a whole tensor would have to be cut out with nothing won: all that is split anyway can be had whole.
static bool only_cuts(const delta_part_assignment_t *a, const delta_node_t *node, const delta_part_node_t *made) {
  bool cuts = false;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (made->inputs[k] < 0 || tensor_of(a, node->inputs[k])->is_given) continue;
    if (tensor_of(a, node->inputs[k])->axis == made->inputs[k]) return false;
    cuts = true;
  }
  return cuts;
}

// Whether the program needs the result whole, and it is larger than what it is made from: parts would be there twice when they are put together.
static bool grows_to_output(const delta_part_assignment_t *a, const delta_node_t *node) {
  size_t read_bytes = 0, made_bytes = 0;
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (!delta_tensor_is_none(node->outputs[k]) && a->is_output[delta_graph_tensor(a->graph, node->outputs[k])->storage.index])
      made_bytes += delta_tensor_bytes(delta_node_output(a->graph, node, k));
  }
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_tensor_t *input = delta_node_input(a->graph, node, k);
    if (input && input->role != DELTA_ROLE_STATE) read_bytes += delta_tensor_bytes(input);
  }
  return made_bytes > read_bytes;
}

static delta_status_t is_each(delta_part_assignment_t *a, const delta_node_t *node, delta_part_node_t *made, bool *out_is) {
  *out_is = false;
  if (!any_input_split(a, node) || !a->in_region[node - a->graph->nodes.items]) return DELTA_OK;
  int32_t *found = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(a->region.allocator, node->input_count, &found));
  for (uint32_t k = 0; k < node->input_count; ++k)
    found[k] = is_split(a, node->inputs[k]) ? tensor_of(a, node->inputs[k])->axis : DELTA_PART_WHOLE;
  const delta_part_rule_t rule = {.graph = a->graph, .node = node, .found = found, .inputs = made->inputs, .outputs = made->outputs};
  bool fits = delta_part_rule_apply(&rule), sums = false;
  delta_release(a->region.allocator, found);
  for (uint32_t k = 0; fits && k < node->input_count; ++k) fits = has_samples(a, node->inputs[k], made->inputs[k]);
  for (uint32_t k = 0; fits && k < node->output_count; ++k) {
    fits = has_samples(a, node->outputs[k], made->outputs[k]);
    sums |= made->outputs[k] == DELTA_PART_SUM;
  }
  // A sum of what is given (the number of labels) makes nobody wait.
  *out_is = fits && !(sums && all_inputs_given(a, node)) && !only_cuts(a, node, made) && !grows_to_output(a, node);
  return DELTA_OK;
}

static delta_status_t find_form(delta_part_assignment_t *a, uint32_t index) {
  const delta_node_t *node = &a->graph->nodes.items[index];
  delta_part_node_t *made = &a->nodes[index];
  DELTA_RETURN_IF_ERROR(allocate_axes(a, node, made));
  bool each;
  DELTA_RETURN_IF_ERROR(is_each(a, node, made, &each));
  if (each) {
    made->form = DELTA_PART_FORM_EACH;
  } else if (is_pick(a, node, made)) {
    made->form = DELTA_PART_FORM_PICK;
  } else if (is_join(a, node, made)) {
    made->form = DELTA_PART_FORM_JOIN;
  } else {
    made->form = DELTA_PART_FORM_ONCE;
  }
  const bool cheap = node->op == DELTA_CORE_VIEW || node->op == DELTA_CORE_POINTWISE;
  const bool given = all_inputs_given(a, node) && (made->form == DELTA_PART_FORM_ONCE || (each && cheap));
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (delta_tensor_is_none(node->outputs[k])) continue;
    const bool split = (each || made->form == DELTA_PART_FORM_JOIN) && made->outputs[k] >= 0;
    *tensor_of(a, node->outputs[k]) = (delta_part_tensor_t){.axis = split ? made->outputs[k] : DELTA_PART_WHOLE, .is_given = given};
  }
  return DELTA_OK;
}

// Inputs and states are there from the start.
static void place_sources(delta_part_assignment_t *a) {
  for (size_t i = 0; i < a->graph->tensors.count; ++i) {
    const delta_tensor_t *tensor = &a->graph->tensors.items[i];
    a->tensors[i] = (delta_part_tensor_t){.axis = DELTA_PART_WHOLE, .is_given = tensor->role != DELTA_ROLE_COMPUTED};
    if (tensor->role == DELTA_ROLE_INPUT && tensor->shape.rank > 0 && tensor->shape.dims[0] == a->options.batch) a->tensors[i].axis = 0;
  }
}

// -- Times -------------------------------------------------------------------------------------------------------------------------------

static bool is_before(delta_part_time_t a, delta_part_time_t b) { return a.stage != b.stage ? a.stage < b.stage : a.position < b.position; }

// From when the whole of a tensor can be read.
static delta_part_time_t whole_time(const delta_part_assignment_t *a, delta_tensor_id_t id) {
  const delta_part_tensor_t *tensor = tensor_of(a, id);
  if (tensor->is_given) return at_start;
  return tensor->axis == DELTA_PART_WHOLE ? tensor->time : (delta_part_time_t){tensor->time.stage, a->count - 1};
}

// The first stage in which every part may read the input along `axis`, or whole.
static uint32_t stage_for(const delta_part_assignment_t *a, delta_tensor_id_t id, int32_t axis) {
  if (axis >= 0 && tensor_of(a, id)->axis == axis) return tensor_of(a, id)->time.stage;
  const delta_part_time_t time = whole_time(a, id);
  return time.position == 0 ? time.stage : time.stage + 1;
}

static uint32_t join_stage(const delta_part_assignment_t *a, const delta_node_t *node, const delta_part_node_t *made) {
  uint32_t stage = 0;
  for (uint32_t k = 0; k < node->input_count; ++k) {
    const delta_part_time_t time = whole_time(a, node->inputs[k]);
    const bool in_time = time.position <= delta_part_at(a, time.stage, (uint32_t)made->inputs[k]);
    const uint32_t wanted = in_time ? time.stage : time.stage + 1;
    if (wanted > stage) stage = wanted;
  }
  return stage;
}

static delta_part_time_t time_of(const delta_part_assignment_t *a, const delta_node_t *node, const delta_part_node_t *made) {
  delta_part_time_t time = at_start;
  if (made->form == DELTA_PART_FORM_JOIN) return (delta_part_time_t){join_stage(a, node, made), 0};
  if (made->form == DELTA_PART_FORM_PICK) {
    const uint32_t stage = tensor_of(a, node->inputs[0])->time.stage;
    return (delta_part_time_t){stage, delta_part_at(a, stage, made->part)};
  }
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (delta_tensor_is_none(node->inputs[k])) continue;
    if (made->form == DELTA_PART_FORM_EACH) {
      const uint32_t stage = stage_for(a, node->inputs[k], made->inputs[k]);
      if (stage > time.stage) time.stage = stage;
    } else {
      const delta_part_time_t input = whole_time(a, node->inputs[k]);
      if (is_before(time, input)) time = input;
    }
  }
  return time;
}

static void place_outputs(delta_part_assignment_t *a, const delta_node_t *node, const delta_part_node_t *made) {
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (delta_tensor_is_none(node->outputs[k])) continue;
    tensor_of(a, node->outputs[k])->time = made->time;
    if (made->form == DELTA_PART_FORM_EACH && made->outputs[k] == DELTA_PART_SUM)
      tensor_of(a, node->outputs[k])->time.position = a->count - 1;
  }
}

static void find_times(delta_part_assignment_t *a) {
  for (size_t n = 0; n < a->graph->nodes.count; ++n) {
    a->nodes[n].time = time_of(a, &a->graph->nodes.items[n], &a->nodes[n]);
    place_outputs(a, &a->graph->nodes.items[n], &a->nodes[n]);
  }
}

// -- Waiting -----------------------------------------------------------------------------------------------------------------------------

// A node of the backward pass that reads results of the forward pass alone would run right behind them, and what it makes be kept until it is needed.
static bool begins_backward(const delta_part_assignment_t *a, const bool *begins, uint32_t index) {
  const delta_node_t *node = &a->graph->nodes.items[index];
  if (node->phase != DELTA_PHASE_BACKWARD || a->nodes[index].form != DELTA_PART_FORM_EACH) return false;
  for (uint32_t k = 0; k < node->output_count; ++k) {
    if (a->nodes[index].outputs[k] == DELTA_PART_SUM) return false;
  }
  for (uint32_t k = 0; k < node->input_count; ++k) {
    if (a->nodes[index].inputs[k] < 0) continue;
    const delta_tensor_t *input = delta_graph_tensor(a->graph, node->inputs[k]);
    if (input->role != DELTA_ROLE_COMPUTED) continue;
    if (delta_graph_node(a->graph, input->producer)->phase == DELTA_PHASE_BACKWARD && !begins[input->producer.index]) return false;
  }
  return true;
}

// The last stage in which an input of the node may be made.
static uint32_t last_stage_for(const delta_part_assignment_t *a, const delta_part_node_t *reader, uint32_t k, delta_tensor_id_t id) {
  const bool by_part =
      reader->form == DELTA_PART_FORM_PICK || (reader->form == DELTA_PART_FORM_EACH && tensor_of(a, id)->axis == reader->inputs[k]);
  const bool after_all = reader->form == DELTA_PART_FORM_ONCE && reader->time.position == a->count - 1;
  return by_part || after_all || reader->time.stage == 0 ? reader->time.stage : reader->time.stage - 1;
}

// Moves such nodes to the stage that needs them.
static delta_status_t let_wait(delta_part_assignment_t *a) {
  const delta_graph_t *graph = a->graph;
  bool *begins;
  uint32_t *last;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&a->region, graph->nodes.count, &begins));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&a->region, graph->tensors.count, &last));
  for (size_t i = 0; i < graph->tensors.count; ++i) last[i] = UINT32_MAX;
  for (uint32_t n = 0; n < graph->nodes.count; ++n) begins[n] = begins_backward(a, begins, n);
  for (uint32_t n = (uint32_t)graph->nodes.count; n-- > 0;) {
    const delta_node_t *node = &graph->nodes.items[n];
    uint32_t stage = UINT32_MAX;
    for (uint32_t k = 0; k < node->output_count; ++k) {
      if (!delta_tensor_is_none(node->outputs[k]) && last[node->outputs[k].index] < stage) stage = last[node->outputs[k].index];
    }
    if (begins[n] && stage != UINT32_MAX && stage > a->nodes[n].time.stage) {
      a->nodes[n].time.stage = stage;
      place_outputs(a, node, &a->nodes[n]);
    }
    for (uint32_t k = 0; k < node->input_count; ++k) {
      if (delta_tensor_is_none(node->inputs[k])) continue;
      const uint32_t wanted = last_stage_for(a, &a->nodes[n], k, node->inputs[k]);
      if (wanted < last[node->inputs[k].index]) last[node->inputs[k].index] = wanted;
    }
  }
  return DELTA_OK;
}

static delta_status_t assign(delta_part_assignment_t *a) {
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&a->region, a->graph->nodes.count, &a->nodes));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&a->region, a->graph->tensors.count, &a->tensors));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&a->region, a->graph->tensors.count, &a->is_output));
  for (size_t i = 0; i < a->graph->outputs.count; ++i)
    a->is_output[delta_graph_tensor(a->graph, a->graph->outputs.items[i].tensor)->storage.index] = true;
  DELTA_RETURN_IF_ERROR(find_region(a));
  place_sources(a);
  for (uint32_t n = 0; n < a->graph->nodes.count; ++n) DELTA_RETURN_IF_ERROR(find_form(a, n));
  find_times(a);
  return let_wait(a);
}

delta_status_t delta_part_assignment_init(delta_graph_t *graph, const delta_parts_options_t *options, delta_allocator_t allocator,
                                          delta_part_assignment_t *out_assignment) {
  *out_assignment = (delta_part_assignment_t){.graph = graph, .options = *options, .count = delta_parts_count(options)};
  delta_region_init(&out_assignment->region, allocator);
  const delta_status_t status = assign(out_assignment);
  if (status) delta_part_assignment_deinit(out_assignment);
  return status;
}

void delta_part_assignment_deinit(delta_part_assignment_t *assignment) { delta_region_deinit(&assignment->region); }
