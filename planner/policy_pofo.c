// Beaumont, Eyraud-Dubois, Shilova, "Efficient combination of rematerialization and offloading for training DNNs" (NeurIPS 2021): along a chain, for each block in turn, what it
// saves is kept, or offloaded, or not saved: then the input of a later block is the next that is saved, kept or offloaded, and the blocks between run again as the chain's table says.
// The paper's program carries the bytes that are under way on the lanes; here a byte on a lane has a price, many prices and smaller capacities are tried, and the simulator judges.
#include <math.h>

#include "planner/chain.h"

#define NONE DELTA_PROBLEM_NONE
enum { SLOT_COUNT = DELTA_CHAIN_SLOTS + 1, PRICE_COUNT = 8, SHRINK_COUNT = 10, SHRINK_PERCENT = 3 };

// From nearly free to as dear as two lanes that hold up the work.
static const double LEAST_PRICE = 3e-3, MOST_PRICE = 2;

// What is next: a block that saves all, or a group of blocks that run again.
typedef struct pofo_choice {
  uint8_t next;  // the block behind it; the number of blocks: none
  bool is_group; // its blocks save nothing but the input of `next`
  bool offloads; // what is saved
} pofo_choice_t;

typedef struct pofo {
  delta_rival_t *rival;
  delta_chain_t chain;
  delta_chain_table_t table;
  double seconds_per_byte;
  double *cost;           // by block and slots; one block more
  pofo_choice_t *choices; // by block and slots
} pofo_t;

static double cost_at(const pofo_t *pofo, uint32_t block, uint32_t m) { return pofo->cost[block * SLOT_COUNT + m]; }

static void take_better(pofo_t *pofo, uint32_t i, uint32_t m, double cost, pofo_choice_t choice) {
  if (!(cost < pofo->cost[i * SLOT_COUNT + m])) return; // a price of infinity for no bytes is no number
  pofo->cost[i * SLOT_COUNT + m] = cost;
  pofo->choices[i * SLOT_COUNT + m] = choice;
}

static void choose_saved(pofo_t *pofo, uint32_t i, uint32_t m) {
  const delta_chain_t *chain = &pofo->chain;
  const uint32_t saved = chain->saved_slots[i];
  const uint32_t beside = chain->forward_slots[i] > chain->backward_slots[i] ? chain->forward_slots[i] : chain->backward_slots[i];
  if (m < saved + beside) return;
  const uint8_t next = (uint8_t)(i + 1);
  take_better(pofo, i, m, chain->seconds[i] + cost_at(pofo, i + 1, m - saved), (pofo_choice_t){.next = next});
  take_better(pofo, i, m, chain->seconds[i] + (double)chain->saved_bytes[i] * pofo->seconds_per_byte + cost_at(pofo, i + 1, m),
              (pofo_choice_t){.next = next, .offloads = true});
}

static void choose_group(pofo_t *pofo, uint32_t i, uint32_t m) {
  const delta_chain_t *chain = &pofo->chain;
  double passed_seconds = 0;
  for (uint32_t j = i + 1; j <= chain->block_count; ++j) {
    passed_seconds += chain->seconds[j - 1];
    // Blocks at the very end run backward at once: their forward run is the one that saves.
    const bool is_last = j == chain->block_count;
    const double seconds = (is_last ? 0 : passed_seconds) + delta_chain_seconds(&pofo->table, i, j - 1, m);
    const pofo_choice_t keeps = {.next = (uint8_t)j, .is_group = true}, offloads = {.next = (uint8_t)j, .is_group = true, .offloads = true};
    if (is_last) {
      take_better(pofo, i, m, seconds, keeps);
      continue;
    }
    if (m < chain->input_slots[j] + chain->forward_slots[j - 1]) return;
    take_better(pofo, i, m, seconds + cost_at(pofo, j, m - chain->input_slots[j]), keeps);
    take_better(pofo, i, m, seconds + (double)chain->input_bytes[j] * pofo->seconds_per_byte + cost_at(pofo, j, m), offloads);
  }
}

static void fill(pofo_t *pofo) {
  const uint32_t block_count = pofo->chain.block_count;
  for (uint32_t m = 0; m < SLOT_COUNT; ++m) pofo->cost[block_count * SLOT_COUNT + m] = 0;
  for (uint32_t i = block_count; i-- > 0;) {
    for (uint32_t m = 0; m < SLOT_COUNT; ++m) {
      pofo->cost[i * SLOT_COUNT + m] = INFINITY;
      choose_saved(pofo, i, m);
      choose_group(pofo, i, m);
    }
  }
}

// ---- From choices to actions

static void set_action(delta_rival_t *rival, uint32_t tensor, delta_action_t action) {
  const uint32_t gap = delta_rival_turn_gap(rival, tensor);
  if (gap != NONE && delta_rival_may(rival, gap, action)) rival->actions[gap] = (uint8_t)action;
}

// `with_tails`: also what the backward pass does not read.
static void set_block(pofo_t *pofo, uint32_t block, delta_action_t action, bool with_tails) {
  delta_rival_t *rival = pofo->rival;
  for (uint32_t p = pofo->chain.begins[block]; p < pofo->chain.begins[block + 1]; ++p) {
    const delta_problem_step_t *step = delta_rival_step(rival, p);
    for (uint32_t k = 0; k < step->output_count; ++k) {
      const uint32_t gap = delta_rival_turn_gap(rival, step->outputs[k]);
      if (gap != NONE && (with_tails || !delta_rival_is_tail(rival, gap))) set_action(rival, step->outputs[k], action);
    }
  }
}

// Blocks i to l run again in m slots. Where they do so on the way to a checkpoint only, what they make is not held.
static void set_group(pofo_t *pofo, uint32_t i, uint32_t l, uint32_t m, bool is_passed) {
  while (i <= l) {
    const uint32_t choice = delta_chain_choice(&pofo->table, i, l, m);
    if (choice == 0) {
      set_block(pofo, i, is_passed ? DELTA_ACTION_REBUILD_DROP : DELTA_ACTION_REBUILD_HOLD, true);
      m -= pofo->chain.saved_slots[i++];
      continue;
    }
    const uint32_t j = i + choice;
    set_group(pofo, j, l, m - pofo->chain.input_slots[j], is_passed);
    set_group(pofo, i, j - 1, m, true);
    set_action(pofo->rival, pofo->chain.inputs[j], DELTA_ACTION_REBUILD_HOLD);
    return;
  }
}

static delta_status_t offer(pofo_t *pofo, uint32_t m) {
  if (!(cost_at(pofo, 0, m) < INFINITY)) return DELTA_OK;
  delta_rival_reset(pofo->rival);
  for (uint32_t i = 0; i < pofo->chain.block_count;) {
    const pofo_choice_t choice = pofo->choices[i * SLOT_COUNT + m];
    const delta_action_t saved = choice.offloads ? DELTA_ACTION_SWAP : DELTA_ACTION_KEEP;
    if (!choice.is_group) {
      set_block(pofo, i, saved, false);
      if (!choice.offloads) m -= pofo->chain.saved_slots[i];
    } else {
      set_group(pofo, i, choice.next - 1u, m, false);
      if (choice.next < pofo->chain.block_count) {
        set_action(pofo->rival, pofo->chain.inputs[choice.next], saved);
        if (!choice.offloads) m -= pofo->chain.input_slots[choice.next];
      }
    }
    i = choice.next;
  }
  return delta_rival_offer(pofo->rival);
}

static delta_status_t offer_prices(pofo_t *pofo) {
  const delta_problem_t *problem = pofo->rival->problem;
  const double offload = problem->offload_bytes_per_second, prefetch = problem->prefetch_bytes_per_second;
  const bool may_swap = offload > 0 && prefetch > 0;
  for (int i = 0; i < (may_swap ? PRICE_COUNT : 1); ++i) {
    const double part = LEAST_PRICE * pow(MOST_PRICE / LEAST_PRICE, (double)i / (PRICE_COUNT - 1));
    pofo->seconds_per_byte = may_swap ? part * (0.5 / offload + 0.5 / prefetch) : INFINITY;
    fill(pofo);
    for (uint32_t k = 0; k < SHRINK_COUNT; ++k)
      DELTA_RETURN_IF_ERROR(offer(pofo, pofo->chain.slot_count * (100 - k * SHRINK_PERCENT) / 100));
  }
  return DELTA_OK;
}

delta_status_t delta_rule_pofo(delta_rival_t *rival) {
  pofo_t pofo = {.rival = rival};
  delta_rival_reset(rival);
  DELTA_RETURN_IF_ERROR(delta_rival_measure(rival));
  DELTA_RETURN_IF_ERROR(delta_chain_cut(rival, &pofo.chain));
  const size_t entry_count = ((size_t)pofo.chain.block_count + 1) * SLOT_COUNT;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, entry_count, &pofo.cost));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&rival->region, entry_count, &pofo.choices));
  delta_status_t status = DELTA_OK;
  for (int nests = 0; nests < 2 && !status; ++nests) {
    status = delta_chain_table_init(&pofo.table, &pofo.chain, nests, rival->allocator);
    if (!status) status = offer_prices(&pofo);
    delta_chain_table_deinit(&pofo.table);
  }
  return status;
}
