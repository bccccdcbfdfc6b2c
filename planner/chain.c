// Chain: cutting, and the table, filled from short parts to long ones.
#include "planner/chain.h"

#include <math.h>

#define NONE DELTA_PROBLEM_NONE
enum { SLOT_COUNT = DELTA_CHAIN_SLOTS + 1 };

// ---- Cutting

// The one tensor of the forward pass that crosses a place where only one does.
static uint32_t find_crossing(const delta_rival_t *rival, uint32_t place) {
  const delta_gap_map_t *map = &rival->map;
  for (uint32_t p = place; p > 0; --p) {
    const delta_problem_step_t *step = delta_rival_step(rival, p - 1);
    for (uint32_t k = 0; k < step->output_count; ++k) {
      const uint32_t gap = delta_rival_turn_gap(rival, step->outputs[k]);
      if (gap != NONE && rival->is_on_path[step->outputs[k]] && map->begins[gap] >= place) return step->outputs[k];
    }
  }
  return NONE;
}

// Begins blocks where one tensor crosses; of too many such places, those are left out that come too soon after another.
static void find_blocks(const delta_rival_t *rival, const uint32_t *crossings, delta_chain_t *chain) {
  uint32_t place_count = 0;
  for (uint32_t p = 1; p < rival->turn; ++p) place_count += crossings[p] == 1;
  const uint32_t every = place_count / DELTA_CHAIN_MOST_BLOCKS + 1;
  uint32_t seen = 0;
  chain->inputs[0] = NONE;
  chain->block_count = 1;
  for (uint32_t p = 1; p < rival->turn; ++p) {
    if (crossings[p] != 1 || ++seen % every != 0 || chain->block_count == DELTA_CHAIN_MOST_BLOCKS) continue;
    const uint32_t tensor = find_crossing(rival, p);
    if (tensor == NONE) continue;
    chain->inputs[chain->block_count] = tensor;
    chain->begins[chain->block_count++] = p;
  }
  chain->begins[chain->block_count] = rival->turn;
}

static uint32_t block_of_place(const delta_chain_t *chain, uint32_t place) {
  uint32_t block = 0;
  while (block + 1 < chain->block_count && chain->begins[block + 1] <= place) ++block;
  return block;
}

static uint32_t slots_of(const delta_chain_t *chain, uint64_t bytes) {
  const uint64_t slots = (bytes + chain->slot_bytes - 1) / chain->slot_bytes;
  return slots > DELTA_CHAIN_SLOTS ? SLOT_COUNT : (uint32_t)slots;
}

// Bytes of saved tensors that live at each place, and the last block with one that is still to be read there.
static void note_saved(const delta_rival_t *rival, delta_chain_t *chain, int64_t *saved_bytes, uint32_t *block_at) {
  const delta_gap_map_t *map = &rival->map;
  for (uint32_t t = 0; t < rival->problem->tensor_count; ++t) {
    const uint32_t gap = delta_rival_turn_gap(rival, t);
    if (gap == NONE || delta_rival_is_tail(rival, gap)) continue;
    const int64_t bytes = (int64_t)rival->problem->tensors[t].size_bytes;
    const uint32_t made = map->begins[map->starts[t]], last = map->begins[map->starts[t + 1] - 1];
    const uint32_t block = block_of_place(chain, made);
    chain->saved_bytes[block] += (uint64_t)bytes;
    saved_bytes[made] += bytes;
    saved_bytes[last + 1] -= bytes;
    if (last >= rival->turn && block > block_at[last]) block_at[last] = block;
  }
  for (uint32_t p = 1; p <= rival->order->step_count; ++p) saved_bytes[p] += saved_bytes[p - 1];
  for (uint32_t p = rival->order->step_count; p > 0; --p) {
    if (block_at[p] > block_at[p - 1]) block_at[p - 1] = block_at[p];
  }
}

static void measure_blocks(const delta_rival_t *rival, delta_chain_t *chain, const int64_t *saved_bytes, const uint32_t *block_at) {
  for (uint32_t p = 0; p < rival->order->step_count; ++p) {
    const bool is_forward = p < rival->turn;
    const uint32_t block = is_forward ? block_of_place(chain, p) : block_at[p];
    const int64_t beside = (int64_t)rival->place_bytes[p] - saved_bytes[p];
    const uint32_t slots = slots_of(chain, beside > 0 ? (uint64_t)beside : 0);
    uint32_t *most = is_forward ? &chain->forward_slots[block] : &chain->backward_slots[block];
    if (slots > *most) *most = slots;
    if (is_forward) chain->seconds[block] += delta_rival_step(rival, p)->seconds;
  }
  for (uint32_t i = 0; i < chain->block_count; ++i) {
    chain->input_bytes[i] = chain->inputs[i] == NONE ? 0 : rival->problem->tensors[chain->inputs[i]].size_bytes;
    chain->input_slots[i] = slots_of(chain, chain->input_bytes[i]);
    chain->saved_slots[i] = slots_of(chain, chain->saved_bytes[i]);
  }
}

delta_status_t delta_chain_cut(delta_rival_t *rival, delta_chain_t *out_chain) {
  const size_t place_count = (size_t)rival->order->step_count + 1;
  uint32_t *crossings = NULL, *block_at = NULL;
  int64_t *saved_bytes = NULL;
  *out_chain = (delta_chain_t){.slot_bytes = rival->capacity_bytes / DELTA_CHAIN_SLOTS + 1};
  out_chain->slot_count = (uint32_t)(rival->capacity_bytes / out_chain->slot_bytes);
  DELTA_RETURN_IF_ERROR(delta_rival_count_crossings(rival, &crossings));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, place_count, &block_at));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, place_count, &saved_bytes));
  find_blocks(rival, crossings, out_chain);
  note_saved(rival, out_chain, saved_bytes, block_at);
  measure_blocks(rival, out_chain, saved_bytes, block_at);
  return DELTA_OK;
}

// ---- Table

static size_t entry_of(const delta_chain_table_t *table, uint32_t i, uint32_t l, uint32_t m) {
  return ((size_t)i * table->chain->block_count + l) * SLOT_COUNT + m;
}

double delta_chain_seconds(const delta_chain_table_t *table, uint32_t i, uint32_t l, uint32_t m) {
  return table->seconds[entry_of(table, i, l, m)];
}

uint32_t delta_chain_choice(const delta_chain_table_t *table, uint32_t i, uint32_t l, uint32_t m) {
  return table->choices[entry_of(table, i, l, m)];
}

static void fill_entry(delta_chain_table_t *table, bool nests, uint32_t i, uint32_t l, uint32_t m) {
  const delta_chain_t *chain = table->chain;
  const size_t entry = entry_of(table, i, l, m);
  table->seconds[entry] = INFINITY;
  if (m >= chain->saved_slots[i] + chain->backward_slots[i]) {
    table->seconds[entry] = chain->seconds[i] + (i < l ? delta_chain_seconds(table, i + 1, l, m - chain->saved_slots[i]) : 0);
  }
  double passed_seconds = 0;
  for (uint32_t j = i + 1; j <= l && nests; ++j) {
    passed_seconds += chain->seconds[j - 1];
    if (m < chain->input_slots[j] + chain->forward_slots[j - 1]) return; // the pass does not get there
    const double seconds =
        passed_seconds + delta_chain_seconds(table, j, l, m - chain->input_slots[j]) + delta_chain_seconds(table, i, j - 1, m);
    if (seconds >= table->seconds[entry]) continue;
    table->seconds[entry] = seconds;
    table->choices[entry] = (uint8_t)(j - i);
  }
}

delta_status_t delta_chain_table_init(delta_chain_table_t *table, const delta_chain_t *chain, bool nests, delta_allocator_t allocator) {
  const size_t entry_count = (size_t)chain->block_count * chain->block_count * SLOT_COUNT;
  *table = (delta_chain_table_t){.chain = chain, .allocator = allocator};
  delta_status_t status = DELTA_ALLOCATE(allocator, entry_count, &table->seconds);
  if (!status) status = DELTA_ALLOCATE(allocator, entry_count, &table->choices);
  if (status) {
    delta_chain_table_deinit(table);
    return status;
  }
  for (uint32_t length = 1; length <= chain->block_count; ++length) {
    for (uint32_t i = 0; i + length <= chain->block_count; ++i) {
      for (uint32_t m = 0; m < SLOT_COUNT; ++m) fill_entry(table, nests, i, i + length - 1, m);
    }
  }
  return DELTA_OK;
}

void delta_chain_table_deinit(delta_chain_table_t *table) {
  if (!table->chain) return;
  delta_release(table->allocator, table->seconds);
  delta_release(table->allocator, table->choices);
  *table = (delta_chain_table_t){0};
}
