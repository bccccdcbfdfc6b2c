// Chain: a forward pass cut into blocks where a single tensor goes from one to the next, with what each block takes; and the cheapest ways to run a part of it forward again and
// then backward in so many bytes (Beaumont et al., "Optimal checkpointing for heterogeneous chains", 2019: a dynamic program over parts and bytes).
#ifndef DELTA_PLANNER_CHAIN_H_
#define DELTA_PLANNER_CHAIN_H_

#include "planner/rival.h"

enum { DELTA_CHAIN_SLOTS = 200, DELTA_CHAIN_MOST_BLOCKS = 64 };

// Bytes are counted in slots, rounded up.
typedef struct delta_chain {
  uint32_t block_count;
  uint32_t begins[DELTA_CHAIN_MOST_BLOCKS + 1];  // places; the last is the turn
  uint32_t inputs[DELTA_CHAIN_MOST_BLOCKS];      // tensors that cross the beginnings; NONE for the first
  double seconds[DELTA_CHAIN_MOST_BLOCKS];       // forward
  uint32_t saved_slots[DELTA_CHAIN_MOST_BLOCKS]; // what the backward pass reads of what the block makes
  uint32_t input_slots[DELTA_CHAIN_MOST_BLOCKS];
  uint32_t forward_slots[DELTA_CHAIN_MOST_BLOCKS];  // beside what is saved, while the block runs
  uint32_t backward_slots[DELTA_CHAIN_MOST_BLOCKS]; // the same while its backward pass runs
  uint64_t slot_bytes;
  uint32_t slot_count; // of the capacity
  uint64_t saved_bytes[DELTA_CHAIN_MOST_BLOCKS], input_bytes[DELTA_CHAIN_MOST_BLOCKS];
} delta_chain_t;

// Cuts the forward pass. `rival` has been measured with everything kept. Blocks are joined where there would be more than DELTA_CHAIN_MOST_BLOCKS.
DELTA_MUST_USE delta_status_t delta_chain_cut(delta_rival_t *rival, delta_chain_t *out_chain);

// For blocks i to l in m slots: the least seconds of all forward runs when the input of i is there and the pass ends backward at i, and how that is done.
typedef struct delta_chain_table {
  const delta_chain_t *chain; // Borrowed.
  double *seconds;            // Owned.
  uint8_t *choices;           // Owned. 0: the first block is run with all it saves; j - i: the input of block j is a checkpoint
  delta_allocator_t allocator;
} delta_chain_table_t;

// `nests`: parts before a checkpoint may run forward once more, each time it takes.
DELTA_MUST_USE delta_status_t delta_chain_table_init(delta_chain_table_t *table, const delta_chain_t *chain, bool nests,
                                                     delta_allocator_t allocator);
void delta_chain_table_deinit(delta_chain_table_t *table); // Safe on a zeroed struct.
// INFINITY: it cannot be done.
double delta_chain_seconds(const delta_chain_table_t *table, uint32_t i, uint32_t l, uint32_t m);
uint32_t delta_chain_choice(const delta_chain_table_t *table, uint32_t i, uint32_t l, uint32_t m);

#endif // DELTA_PLANNER_CHAIN_H_
