// Edits of drafts: a gap is kept, made again, or released. Each notes the draft as it was, changes steps, prunes, and looks for places for what has changed.
#include "planner/draft.h"

#define NONE DELTA_PROBLEM_NONE

enum { MOST_CLONES = 24 }; // steps that run again for one tensor

// ---- Ending an edit

static delta_status_t touch_buffer(delta_draft_t *draft, uint32_t buffer) {
  return delta_array_push(draft->allocator, &draft->touched, &buffer);
}

static bool share_life_and_bytes(const delta_buffer_t *a, const delta_buffer_t *b) {
  return a->first_step <= b->last_step && b->first_step <= a->last_step && delta_draft_share_bytes(a, a->offset_bytes, b);
}

// What cannot move stays where it is; those in its way move. False: one of them finds no other place.
static bool place_pinned(delta_draft_t *draft, uint32_t buffer) {
  const delta_draft_buffer_t *buffers = draft->buffers.items;
  for (uint32_t o = 0; o < draft->buffers.count && !delta_draft_place(draft, buffer); ++o) {
    const bool is_in_way = o != buffer && !buffers[o].is_gone && !buffers[o].is_pinned && buffers[o].is_placed &&
                           share_life_and_bytes(&buffers[buffer].entry, &buffers[o].entry);
    if (is_in_way && !delta_draft_place(draft, o)) return false;
  }
  return delta_draft_place(draft, buffer);
}

// Prunes and places. Without a place for everything the draft is as before.
static delta_status_t end_edit(delta_draft_t *draft, bool *out_done) {
  DELTA_RETURN_IF_ERROR(delta_draft_prune(draft));
  *out_done = delta_draft_is_sound(draft);
  // What cannot move is looked at first: others then make way.
  for (int pass = 0; pass < 2 && *out_done; ++pass) {
    for (size_t i = 0; i < draft->touched.count && *out_done; ++i) {
      const uint32_t buffer = draft->touched.items[i];
      const bool is_pinned = draft->buffers.items[buffer].is_pinned;
      if (is_pinned && pass == 0) *out_done = place_pinned(draft, buffer);
      if (!is_pinned && pass == 1) *out_done = delta_draft_place(draft, buffer);
    }
  }
  *out_done = *out_done && delta_draft_rows_hold(draft);
  if (!*out_done) delta_draft_restore(draft);
  return DELTA_OK;
}

// ---- Lists, which do not change: a step gets new ones

static delta_status_t replace(delta_draft_t *draft, uint32_t count, uint32_t from, uint32_t to, uint32_t **inout_list) {
  uint32_t k = 0;
  while (k < count && (*inout_list)[k] != from) ++k;
  if (k == count) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_region_copy(&draft->region, *inout_list, count, sizeof **inout_list, (void **)inout_list));
  (*inout_list)[k] = to;
  return DELTA_OK;
}

// Steps from `first` on read `to`, not `from`.
static delta_status_t redirect_readers(delta_draft_t *draft, uint32_t first, uint32_t from, uint32_t to) {
  for (uint32_t s = first; s < draft->steps.count; ++s) {
    delta_schedule_step_t *step = &draft->steps.items[s];
    DELTA_RETURN_IF_ERROR(replace(draft, step->input_count, from, to, &step->inputs));
  }
  return DELTA_OK;
}

static bool is_lost(const delta_draft_t *draft, uint32_t buffer) {
  return draft->dead_are_lost && draft->buffers.items[buffer].entry.last_step < draft->run_count;
}

// ---- Keep

delta_status_t delta_draft_keep(delta_draft_t *draft, uint32_t before, uint32_t after, bool *out_done) {
  *out_done = false;
  const delta_draft_buffer_t *stay = &draft->buffers.items[before], *later = &draft->buffers.items[after];
  const uint32_t writer = delta_draft_writer(draft, after);
  if (stay->is_gone || later->is_gone || stay->entry.tensor != later->entry.tensor || writer == NONE || writer < draft->run_count)
    return DELTA_OK;
  if (stay->entry.last_step >= later->entry.first_step || is_lost(draft, before)) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_draft_save(draft));
  // The step that brought the tensor back does it for nobody: it is pruned, or, when others need it, its result goes nowhere.
  uint32_t nowhere = NONE;
  DELTA_RETURN_IF_ERROR(delta_draft_add_buffer(draft, later->entry.tensor, later->entry.size_bytes, &nowhere));
  delta_schedule_step_t *step = &draft->steps.items[writer];
  DELTA_RETURN_IF_ERROR(replace(draft, step->output_count, after, nowhere, &step->outputs));
  DELTA_RETURN_IF_ERROR(redirect_readers(draft, writer, after, before));
  draft->buffers.items[before].is_final |= draft->buffers.items[after].is_final;
  draft->buffers.items[after].is_final = false;
  DELTA_RETURN_IF_ERROR(touch_buffer(draft, before));
  return end_edit(draft, out_done);
}

// ---- Rebuild

typedef struct rebuild {
  delta_draft_t *draft;
  uint32_t at;     // the step before which everything is made again
  bool *is_made;   // by problem step: it is among the clones
  uint32_t *given; // by tensor: the buffer that has it there; NONE: not known
  delta_schedule_step_t clones[MOST_CLONES];
  uint32_t clone_count;
  DELTA_ARRAY(uint32_t) pending; // tensors: the stack of the closure
} rebuild_t;

// Whether a state has its new value before a step.
static bool is_overwritten(const rebuild_t *rebuild, uint32_t state) {
  const delta_draft_t *draft = rebuild->draft;
  for (uint32_t s = 0; s < rebuild->at; ++s) {
    const delta_schedule_step_t *step = &draft->steps.items[s];
    if (step->kind != DELTA_STEP_RUN) continue;
    const delta_problem_step_t *problem_step = &draft->problem->steps[step->problem_step];
    for (uint32_t k = 0; k < problem_step->output_count; ++k) {
      if (draft->problem->tensors[problem_step->outputs[k]].becomes_state == state) return true;
    }
  }
  return false;
}

// Whether a buffer still has its tensor at the place, or would if it stayed: nobody else takes its bytes meanwhile.
static bool holds(const rebuild_t *rebuild, uint32_t b) {
  const delta_draft_t *draft = rebuild->draft;
  const delta_buffer_t *entry = &draft->buffers.items[b].entry;
  if (entry->last_step >= rebuild->at) return true;
  if (is_lost(draft, b)) return false;
  for (uint32_t o = 0; o < draft->buffers.count; ++o) {
    const delta_draft_buffer_t *other = &draft->buffers.items[o];
    if (o == b || other->is_gone || !other->is_placed) continue;
    if (other->entry.last_step < entry->last_step || other->entry.first_step > rebuild->at) continue;
    if (delta_draft_share_bytes(entry, entry->offset_bytes, &other->entry)) return false;
  }
  return true;
}

// The latest stay of a tensor that can be read at the place, or NONE.
static uint32_t find_stay(const rebuild_t *rebuild, uint32_t tensor) {
  const delta_draft_t *draft = rebuild->draft;
  uint32_t best = NONE;
  for (uint32_t b = 0; b < draft->buffers.count; ++b) {
    const delta_draft_buffer_t *buffer = &draft->buffers.items[b];
    const bool is_there = buffer->is_given || buffer->entry.first_step < rebuild->at;
    if (buffer->entry.tensor != tensor || buffer->is_gone || !is_there || !holds(rebuild, b)) continue;
    if (best == NONE || buffer->entry.last_step > draft->buffers.items[best].entry.last_step) best = b;
  }
  return best;
}

static uint32_t find_producer(const delta_problem_t *problem, uint32_t tensor) {
  for (uint32_t p = 0; p < problem->step_count; ++p) {
    for (uint32_t k = 0; k < problem->steps[p].output_count; ++k) {
      if (problem->steps[p].outputs[k] == tensor) return p;
    }
  }
  return NONE;
}

// Whether a tensor can be read at the place: from the state area, from a buffer, or from one that is made there.
static delta_status_t look_for(rebuild_t *rebuild, uint32_t tensor, bool *out_is_there, bool *out_possible) {
  const delta_problem_tensor_t *entry = &rebuild->draft->problem->tensors[tensor];
  *out_is_there = *out_possible = true;
  if (delta_problem_tensor_is_state(entry)) {
    *out_possible = (entry->flags & DELTA_TENSOR_STATE) && !is_overwritten(rebuild, tensor);
    return DELTA_OK;
  }
  if (rebuild->given[tensor] != NONE) return DELTA_OK;
  const uint32_t stay = find_stay(rebuild, tensor);
  *out_is_there = stay != NONE;
  if (stay == NONE) return DELTA_OK;
  rebuild->given[tensor] = stay;
  return touch_buffer(rebuild->draft, stay);
}

static delta_status_t make_clone(rebuild_t *rebuild, uint32_t p) {
  delta_draft_t *draft = rebuild->draft;
  const delta_problem_step_t *step = &draft->problem->steps[p];
  delta_schedule_step_t *clone = &rebuild->clones[rebuild->clone_count++];
  *clone = (delta_schedule_step_t){.kind = DELTA_STEP_RUN,
                                   .lane = DELTA_LANE_COMPUTE,
                                   .problem_step = p,
                                   .input_count = step->input_count,
                                   .output_count = step->output_count,
                                   .workspace = NONE};
  rebuild->is_made[p] = true;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&draft->region, step->input_count, &clone->inputs));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&draft->region, step->output_count, &clone->outputs));
  for (uint32_t k = 0; k < step->input_count; ++k) {
    const uint32_t tensor = step->inputs[k];
    clone->inputs[k] = delta_problem_tensor_is_state(&draft->problem->tensors[tensor]) ? NONE : rebuild->given[tensor];
  }
  for (uint32_t k = 0; k < step->output_count; ++k) {
    const uint32_t tensor = step->outputs[k];
    DELTA_RETURN_IF_ERROR(delta_draft_add_buffer(draft, tensor, draft->problem->tensors[tensor].size_bytes, &clone->outputs[k]));
    if (rebuild->given[tensor] == NONE) rebuild->given[tensor] = clone->outputs[k];
  }
  return step->workspace_bytes > 0 ? delta_draft_add_buffer(draft, NONE, step->workspace_bytes, &clone->workspace) : DELTA_OK;
}

// One look at the tensor on top of the stack: its producer is cloned, or something that it needs goes on top.
static delta_status_t advance_closure(rebuild_t *rebuild, bool *out_possible) {
  const delta_problem_t *problem = rebuild->draft->problem;
  const uint32_t tensor = rebuild->pending.items[rebuild->pending.count - 1], p = find_producer(problem, tensor);
  *out_possible = p != NONE && (problem->steps[p].flags & DELTA_STEP_PURE) && problem->tensors[tensor].becomes_state == NONE &&
                  rebuild->pending.count + rebuild->clone_count <= MOST_CLONES;
  if (!*out_possible) return DELTA_OK;
  if (!rebuild->is_made[p]) {
    for (uint32_t k = 0; k < problem->steps[p].input_count; ++k) {
      bool is_there;
      DELTA_RETURN_IF_ERROR(look_for(rebuild, problem->steps[p].inputs[k], &is_there, out_possible));
      if (!*out_possible) return DELTA_OK;
      if (!is_there) return delta_array_push(rebuild->draft->allocator, &rebuild->pending, &problem->steps[p].inputs[k]);
    }
    DELTA_RETURN_IF_ERROR(make_clone(rebuild, p));
  }
  --rebuild->pending.count;
  return DELTA_OK;
}

// The output of the clones that is the tensor.
static uint32_t find_made(const rebuild_t *rebuild, uint32_t tensor) {
  for (uint32_t c = 0; c < rebuild->clone_count; ++c) {
    const delta_problem_step_t *step = &rebuild->draft->problem->steps[rebuild->clones[c].problem_step];
    for (uint32_t k = 0; k < step->output_count; ++k) {
      if (step->outputs[k] == tensor) return rebuild->clones[c].outputs[k];
    }
  }
  return NONE;
}

// Puts what makes a tensor before the step `at`; *out_made is its new buffer, NONE where that is impossible.
static delta_status_t insert_closure(rebuild_t *rebuild, uint32_t tensor, uint32_t *out_made) {
  delta_draft_t *draft = rebuild->draft;
  const delta_problem_t *problem = draft->problem;
  bool is_possible = true;
  *out_made = NONE;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&draft->region, problem->step_count, &rebuild->is_made));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&draft->region, problem->tensor_count, &rebuild->given));
  for (uint32_t t = 0; t < problem->tensor_count; ++t) rebuild->given[t] = NONE;
  DELTA_RETURN_IF_ERROR(delta_array_push(draft->allocator, &rebuild->pending, &tensor));
  while (rebuild->pending.count > 0 && is_possible) DELTA_RETURN_IF_ERROR(advance_closure(rebuild, &is_possible));
  if (!is_possible) return DELTA_OK;
  for (uint32_t c = 0; c < rebuild->clone_count; ++c)
    DELTA_RETURN_IF_ERROR(delta_draft_insert(draft, rebuild->at + c, &rebuild->clones[c]));
  *out_made = find_made(rebuild, tensor);
  return DELTA_OK;
}

static delta_status_t make_again(delta_draft_t *draft, uint32_t tensor, uint32_t at, uint32_t *out_made, uint32_t *out_clones) {
  rebuild_t rebuild = {.draft = draft, .at = at};
  delta_status_t status = insert_closure(&rebuild, tensor, out_made);
  delta_array_deinit(draft->allocator, &rebuild.pending);
  *out_clones = rebuild.clone_count;
  return status;
}

// The first step that computes with a buffer; NONE: only copies do.
static uint32_t find_reader(const delta_draft_t *draft, uint32_t buffer) {
  for (uint32_t s = draft->run_count; s < draft->steps.count; ++s) {
    if (draft->steps.items[s].kind == DELTA_STEP_RUN && delta_draft_reads(&draft->steps.items[s], buffer)) return s;
  }
  return NONE;
}

delta_status_t delta_draft_rebuild(delta_draft_t *draft, uint32_t after, bool *out_done) {
  *out_done = false;
  const uint32_t writer = delta_draft_writer(draft, after), reader = find_reader(draft, after);
  if (writer == NONE || writer < draft->run_count || reader == NONE || draft->steps.items[writer].kind != DELTA_STEP_SWAP_IN)
    return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_draft_save(draft));
  const delta_draft_buffer_t gone = draft->buffers.items[after];
  draft->buffers.items[after].entry.tensor = NONE; // its own copy is no source
  uint32_t made, clone_count;
  DELTA_RETURN_IF_ERROR(make_again(draft, gone.entry.tensor, reader, &made, &clone_count));
  if (made == NONE) {
    delta_draft_restore(draft);
    return DELTA_OK;
  }
  draft->buffers.items[after] = gone;
  // Where it was to be copied to it is made, with whatever takes those bytes over.
  delta_draft_buffer_t *target = &draft->buffers.items[made];
  target->entry.offset_bytes = gone.entry.offset_bytes;
  target->is_placed = true;
  target->is_final = gone.is_final;
  draft->buffers.items[after].is_final = false;
  for (size_t b = 0; b < draft->buffers.count; ++b) {
    if (draft->buffers.items[b].entry.inplace_of == after) draft->buffers.items[b].entry.inplace_of = made;
  }
  DELTA_RETURN_IF_ERROR(redirect_readers(draft, reader, after, made));
  return end_edit(draft, out_done);
}

// ---- Release

static uint32_t next_use(const delta_draft_t *draft, uint32_t buffer, uint32_t step) {
  for (uint32_t s = step + 1; s < draft->steps.count; ++s) {
    if (delta_draft_reads(&draft->steps.items[s], buffer)) return s;
  }
  return NONE;
}

// The step that copied a tensor below, where its copy still is when step `limit` comes, or NONE.
static uint32_t find_copy(const delta_draft_t *draft, uint32_t tensor, uint32_t limit) {
  uint32_t found = NONE;
  for (uint32_t s = 0; s < limit; ++s) {
    const delta_schedule_step_t *entry = &draft->steps.items[s];
    if (entry->kind != DELTA_STEP_SWAP_OUT) continue;
    const bool is_same = found != NONE && draft->steps.items[found].host_offset_bytes == entry->host_offset_bytes;
    if (draft->buffers.items[entry->inputs[0]].entry.tensor == tensor) {
      found = s;
    } else if (is_same) {
      found = NONE;
    }
  }
  return found;
}

static delta_status_t make_copy(delta_draft_t *draft, delta_step_kind_t kind, uint32_t buffer, uint64_t slot_bytes, uint32_t at) {
  const bool is_out = kind == DELTA_STEP_SWAP_OUT;
  delta_schedule_step_t copy = {.kind = kind,
                                .lane = is_out ? DELTA_LANE_OFFLOAD : DELTA_LANE_PREFETCH,
                                .problem_step = NONE,
                                .workspace = NONE,
                                .host_offset_bytes = (size_t)slot_bytes};
  uint32_t **list = is_out ? &copy.inputs : &copy.outputs;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&draft->region, 1, list));
  (*list)[0] = buffer;
  *(is_out ? &copy.input_count : &copy.output_count) = 1;
  return delta_draft_insert(draft, at, &copy);
}

// Copies below after `step` and back before `reader`. False: there is no room below, or no lane.
static delta_status_t insert_copies(delta_draft_t *draft, uint32_t buffer, uint32_t step, uint32_t reader, uint32_t back, bool *out_done) {
  const delta_problem_t *problem = draft->problem;
  const delta_buffer_t entry = draft->buffers.items[buffer].entry;
  const delta_problem_tensor_t *tensor = &problem->tensors[entry.tensor];
  const bool is_at_home = (tensor->flags & DELTA_TENSOR_STATE) && (tensor->flags & DELTA_TENSOR_BELOW);
  const uint32_t copied = find_copy(draft, entry.tensor, reader);
  uint64_t slot_bytes = (draft->host_bytes + DELTA_HOST_BLOCK_BYTES - 1) / DELTA_HOST_BLOCK_BYTES * DELTA_HOST_BLOCK_BYTES;
  *out_done = problem->offload_bytes_per_second > 0 && problem->prefetch_bytes_per_second > 0;
  if (!*out_done) return DELTA_OK;
  if (is_at_home) {
    slot_bytes = tensor->home_offset_bytes;
  } else if (copied != NONE) {
    slot_bytes = draft->steps.items[copied].host_offset_bytes;
  } else {
    *out_done = slot_bytes + entry.size_bytes <= draft->host_limit_bytes;
    if (!*out_done) return DELTA_OK;
    draft->host_bytes = slot_bytes + entry.size_bytes;
  }
  DELTA_RETURN_IF_ERROR(make_copy(draft, DELTA_STEP_SWAP_IN, back, slot_bytes, reader));
  const uint32_t first = step + 1 > draft->run_count ? step + 1 : draft->run_count;
  return copied == NONE && !is_at_home ? make_copy(draft, DELTA_STEP_SWAP_OUT, buffer, slot_bytes, first) : DELTA_OK;
}

delta_status_t delta_draft_release(delta_draft_t *draft, uint32_t buffer, uint32_t step, bool rebuilds, bool *out_done) {
  *out_done = false;
  const delta_draft_buffer_t entry = draft->buffers.items[buffer];
  const uint32_t reader = next_use(draft, buffer, step);
  if (entry.is_gone || entry.entry.tensor == NONE || reader == NONE || reader < draft->run_count || reader <= step + 1) return DELTA_OK;
  if (draft->problem->tensors[entry.entry.tensor].flags & DELTA_TENSOR_PINNED) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_draft_save(draft));
  uint32_t back = NONE, added = 0;
  if (rebuilds) {
    draft->buffers.items[buffer].entry.tensor = NONE; // it is not there then
    DELTA_RETURN_IF_ERROR(make_again(draft, entry.entry.tensor, reader, &back, &added));
    draft->buffers.items[buffer].entry.tensor = entry.entry.tensor;
    *out_done = back != NONE;
  } else {
    DELTA_RETURN_IF_ERROR(delta_draft_add_buffer(draft, entry.entry.tensor, entry.entry.size_bytes, &back));
    const size_t before = draft->steps.count;
    DELTA_RETURN_IF_ERROR(insert_copies(draft, buffer, step, reader, back, out_done));
    added = (uint32_t)(draft->steps.count - before);
  }
  if (!*out_done) {
    delta_draft_restore(draft);
    return DELTA_OK;
  }
  draft->buffers.items[back].is_final = entry.is_final;
  draft->buffers.items[buffer].is_final = false;
  for (size_t b = 0; b < draft->buffers.count; ++b) {
    if (draft->buffers.items[b].entry.inplace_of == buffer) draft->buffers.items[b].entry.inplace_of = back;
  }
  DELTA_RETURN_IF_ERROR(redirect_readers(draft, reader + added, buffer, back));
  return end_edit(draft, out_done);
}
