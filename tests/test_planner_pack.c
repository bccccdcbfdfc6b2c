// Packing: blocks that live at once never overlap, and the arena stays near the largest sum of live bytes.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/clock.h"
#include "planner/pack.h"
#include "tests/support/planning.h"
#include "tests/support/sanitized.h"
#include "tests/support/support.h"

typedef struct block_list {
  delta_block_t items[4000];
  uint32_t count;
  uint64_t bound_bytes; // largest sum of live bytes
  uint32_t bound_step;
} block_list_t;

static void add_block(block_list_t *list, uint32_t first, uint32_t last, uint64_t size_bytes) {
  list->items[list->count] =
      (delta_block_t){.first = first, .last = last, .size_bytes = (size_bytes + 63) / 64 * 64, .next_in_group = list->count};
  ++list->count;
}

static bool lives_at(const delta_block_t *block, uint32_t step) { return block->first <= step && step <= block->last; }

// Whether a block is a part of a whole that lives at the step, too.
static bool lies_within(const block_list_t *list, uint32_t part, uint32_t step) {
  for (uint32_t at = list->items[part].next_in_group; at != part; at = list->items[at].next_in_group) {
    if (list->items[at].size_bytes > list->items[part].size_bytes && lives_at(&list->items[at], step)) return true;
  }
  return false;
}

static void find_bound(block_list_t *list) {
  for (uint32_t i = 0; i < list->count; ++i) {
    const uint32_t step = list->items[i].first; // a sum can only be largest where a block begins
    uint64_t live_bytes = 0;
    for (uint32_t k = 0; k < list->count; ++k) {
      if (lives_at(&list->items[k], step) && !lies_within(list, k, step)) live_bytes += list->items[k].size_bytes;
    }
    if (live_bytes <= list->bound_bytes) continue;
    list->bound_bytes = live_bytes;
    list->bound_step = step;
  }
}

// Whether two blocks are of one group; they must then have their places in it.
static bool are_grouped(const block_list_t *list, uint32_t a, uint32_t b) {
  for (uint32_t at = list->items[a].next_in_group; at != a; at = list->items[at].next_in_group) {
    const delta_block_t *block = &list->items[at];
    cr_assert_eq(block->offset_bytes - block->group_bytes, list->items[a].offset_bytes - list->items[a].group_bytes);
    if (at == b) return true;
  }
  return false;
}

static uint64_t pack_into(block_list_t *list, uint64_t capacity_bytes) {
  uint64_t end_bytes = 0;
  find_bound(list);
  const delta_pack_goal_t goal = {list->bound_bytes, list->bound_step, capacity_bytes, false};
  delta_test_must(delta_pack(list->items, list->count, &goal, delta_allocator_system(), &end_bytes));
  uint64_t largest = 0;
  for (uint32_t i = 0; i < list->count; ++i) {
    const delta_block_t *a = &list->items[i];
    if (a->offset_bytes + a->size_bytes > largest) largest = a->offset_bytes + a->size_bytes;
    for (uint32_t k = 0; k < i; ++k) {
      const delta_block_t *b = &list->items[k];
      const bool both_live = a->first <= b->last && b->first <= a->last && !are_grouped(list, i, k);
      const bool overlap = a->offset_bytes < b->offset_bytes + b->size_bytes && b->offset_bytes < a->offset_bytes + a->size_bytes;
      cr_assert(!both_live || !overlap, "blocks %u and %u overlap", i, k);
    }
  }
  cr_assert_eq(largest, end_bytes);
  cr_assert_geq(end_bytes, list->bound_bytes);
  return end_bytes;
}

static uint64_t pack(block_list_t *list) { return pack_into(list, UINT64_MAX); }

Test(planner_pack, random_blocks_never_overlap) {
  static block_list_t list;
  for (uint64_t seed = 0; seed < DELTA_TEST_SEEDS(1500); ++seed) {
    delta_test_numbers_t numbers = {seed};
    list = (block_list_t){0};
    const uint64_t count = delta_test_number(&numbers, 60), steps = 1 + delta_test_number(&numbers, 40);
    for (uint64_t i = 0; i < count; ++i) {
      const uint32_t first = (uint32_t)delta_test_number(&numbers, steps);
      add_block(&list, first, first + (uint32_t)delta_test_number(&numbers, steps - first), 1 + delta_test_number(&numbers, 2000));
    }
    pack(&list);
  }
}

// A whole that is split into parts of lives of their own, or put together from such.
static void add_whole(block_list_t *list, delta_test_numbers_t *numbers, uint32_t steps) {
  const uint32_t whole = list->count, parts = 2 + (uint32_t)delta_test_number(numbers, 3);
  const uint32_t middle = (uint32_t)delta_test_number(numbers, steps);
  const bool is_split = delta_test_number(numbers, 2);
  add_block(list, middle, middle, 0);
  if (is_split) {
    list->items[whole].first -= (uint32_t)delta_test_number(numbers, middle + 1);
  } else {
    list->items[whole].last += (uint32_t)delta_test_number(numbers, steps - middle);
  }
  for (uint32_t k = 0; k < parts; ++k) {
    const uint32_t reach = (uint32_t)delta_test_number(numbers, is_split ? steps - middle : middle + 1);
    add_block(list, is_split ? middle : middle - reach, is_split ? middle + reach : middle, 1 + delta_test_number(numbers, 2000));
    delta_block_t *part = &list->items[list->count - 1];
    part->group_bytes = list->items[whole].size_bytes;
    list->items[whole].size_bytes += part->size_bytes;
    list->items[list->count - 2].next_in_group = list->count - 1;
    part->next_in_group = whole;
  }
}

Test(planner_pack, groups_keep_their_form) {
  static block_list_t list;
  for (uint64_t seed = 0; seed < DELTA_TEST_SEEDS(600); ++seed) {
    delta_test_numbers_t numbers = {seed};
    list = (block_list_t){0};
    const uint64_t count = 1 + delta_test_number(&numbers, 30), steps = 1 + delta_test_number(&numbers, 40);
    for (uint64_t i = 0; i < count; ++i) {
      const uint32_t first = (uint32_t)delta_test_number(&numbers, steps);
      if (i % 4 == 0) add_whole(&list, &numbers, (uint32_t)steps);
      add_block(&list, first, first + (uint32_t)delta_test_number(&numbers, steps - first), 1 + delta_test_number(&numbers, 2000));
      if (i % 5 == 0) add_block(&list, first, first, 1);
    }
    pack(&list);
  }
}

Test(planner_pack, easy_sets_reach_the_bound) {
  static block_list_t list;
  list = (block_list_t){0};
  cr_assert_eq(pack(&list), 0);
  for (uint32_t i = 0; i < 50; ++i) add_block(&list, i, i, 64 * (i + 1)); // one at a time
  cr_assert_eq(pack(&list), 64 * 50);
  list = (block_list_t){0};
  for (uint32_t i = 0; i < 50; ++i) add_block(&list, i, 99 - i, 64 * (1 + i % 7)); // a stack
  cr_assert_eq(pack(&list), list.bound_bytes);
  list = (block_list_t){0};
  for (uint32_t i = 0; i < 50; ++i) add_block(&list, 0, 99, 64 * (1 + i % 7)); // all at once
  cr_assert_eq(pack(&list), list.bound_bytes);
}

// A training step: activations live from the forward to the backward pass, gradients and workspaces for a moment, sizes change from layer to layer.
static void make_training(block_list_t *list, uint64_t seed, uint32_t layers) {
  delta_test_numbers_t numbers = {seed};
  uint64_t sizes[400];
  *list = (block_list_t){0};
  for (uint32_t i = 0; i < layers; ++i) {
    sizes[i] = i == 0 || delta_test_number(&numbers, 6) == 0 ? (1 + delta_test_number(&numbers, 200)) * 4096 : sizes[i - 1];
    const uint32_t backward = 2 * layers + 3 * (layers - i);
    add_block(list, 2 * i, backward, sizes[i]);                                                     // activation
    add_block(list, 2 * i, 2 * i, delta_test_number(&numbers, 8) * 30000 + 1);                      // workspace
    add_block(list, 2 * i, 2 * i + 1, sizes[i]);                                                    // passing value
    add_block(list, backward - 2, backward, (1 + delta_test_number(&numbers, 60)) * 3000);          // weight gradient
    add_block(list, backward - 1, backward + 2, sizes[i]);                                          // gradient handed on
    if (delta_test_number(&numbers, 5) == 0) add_block(list, backward - 1, backward + 9, sizes[i]); // of a skip connection
  }
}

Test(planner_pack, training_steps_stay_within_two_percent) {
  static block_list_t list;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    make_training(&list, seed, 10 + (uint32_t)(seed * 5));
    const uint64_t end_bytes = pack(&list);
    cr_assert_leq((double)end_bytes, 1.02 * (double)list.bound_bytes, "seed %llu: %llu of %llu", (unsigned long long)seed,
                  (unsigned long long)end_bytes, (unsigned long long)list.bound_bytes);
  }
}

// What is left of a U-Net's training step when everything is removed without which the fixed orders still miss the bound by 14 %: two large workspaces
// beside skip connections, and a small block that lives long. Sizes in units of 64 bytes.
static const delta_block_t skip_connections[] = {
    {.first = 0, .last = 10, .size_bytes = 2097152}, {.first = 1, .last = 9, .size_bytes = 1048576},
    {.first = 2, .last = 9, .size_bytes = 4},        {.first = 3, .last = 7, .size_bytes = 1048576},
    {.first = 4, .last = 4, .size_bytes = 2099456},  {.first = 4, .last = 6, .size_bytes = 1048576},
    {.first = 5, .last = 8, .size_bytes = 1048576},  {.first = 7, .last = 7, .size_bytes = 2101894},
    {.first = 8, .last = 8, .size_bytes = 2099456},  {.first = 8, .last = 11, .size_bytes = 1048576},
    {.first = 11, .last = 11, .size_bytes = 3150336}};

static void make_skip_connections(block_list_t *list) {
  *list = (block_list_t){0};
  for (size_t i = 0; i < sizeof skip_connections / sizeof *skip_connections; ++i) {
    add_block(list, skip_connections[i].first, skip_connections[i].last, 64 * skip_connections[i].size_bytes);
  }
}

Test(planner_pack, workspaces_beside_skip_connections_reach_the_bound) {
  static block_list_t list;
  make_skip_connections(&list);
  const uint64_t end_bytes = pack(&list);
  cr_assert_leq((double)end_bytes, 1.004 * (double)list.bound_bytes);
}

// An encoder and a decoder: few sizes, skip connections, workspaces as large as several activations, small gradients that live to the end.
static void make_skipping_training(block_list_t *list, uint64_t seed, uint32_t levels) {
  delta_test_numbers_t numbers = {seed};
  const uint32_t end = 12 * levels;
  *list = (block_list_t){0};
  for (uint32_t i = 0; i < 2 * levels; ++i) {
    const uint32_t level = i < levels ? i : 2 * levels - 1 - i;
    const uint64_t size_bytes = (UINT64_C(64) << 20) >> level;
    const uint32_t forward = 2 * i, backward = end - 4 * i;
    add_block(list, forward, backward, size_bytes);                                            // saved by the operator
    add_block(list, forward + 1, i < levels ? 2 * (2 * levels - i) : forward + 2, size_bytes); // the skip connection
    add_block(list, forward, forward, size_bytes * delta_test_number(&numbers, 4) + 4096);     // workspaces
    add_block(list, backward, backward, size_bytes * delta_test_number(&numbers, 4) + 8192);
    add_block(list, backward - 1, backward - 1, size_bytes * delta_test_number(&numbers, 3) + 256);
    add_block(list, backward - 2, backward + 2 > end ? end : backward + 2, size_bytes); // gradient handed on
    add_block(list, backward - 1, end, 64 * (1 + delta_test_number(&numbers, 9000)));   // weight gradient
  }
}

Test(planner_pack, nearly_all_training_steps_with_skips_stay_within_two_percent) {
  static block_list_t list;
  uint32_t missed = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    make_skipping_training(&list, seed, 3 + (uint32_t)(seed % 6));
    missed += (double)pack(&list) > 1.02 * (double)list.bound_bytes;
  }
  cr_assert_leq(missed, 2, "%u of 60 miss", missed);
}

Test(planner_pack, the_first_packing_that_fits_is_enough) {
  static block_list_t list;
  make_skip_connections(&list);
  find_bound(&list);
  const uint64_t capacity_bytes = list.bound_bytes + list.bound_bytes / 5;
  const uint64_t loose_bytes = pack_into(&list, capacity_bytes);
  cr_assert_leq(loose_bytes, capacity_bytes);
  cr_assert_gt(loose_bytes, list.bound_bytes + list.bound_bytes / 50, "the search went on to %llu", (unsigned long long)loose_bytes);
  cr_assert_eq(pack_into(&list, list.bound_bytes), list.bound_bytes);
  cr_assert_geq(pack_into(&list, list.bound_bytes / 2), list.bound_bytes); // does not fit: as small as can be found
}

// One call is bounded by its effort, also where no packing reaches the bound. The limit is generous: the machine may be busy.
Test(planner_pack, many_blocks_take_little_time) {
  static block_list_t list;
  make_training(&list, 3, 390);
  while (list.count < 4000) add_block(&list, list.count % 700, list.count % 700 + list.count % 90, 64 * (list.count * 2654435761u % 5000));
  const double start_seconds = delta_clock_seconds();
  uint64_t end_bytes = 0;
  find_bound(&list);
  const delta_pack_goal_t goal = {list.bound_bytes, list.bound_step, UINT64_MAX, false};
  delta_test_must(delta_pack(list.items, list.count, &goal, delta_allocator_system(), &end_bytes));
  cr_assert_lt(delta_clock_seconds() - start_seconds, 8);
  cr_assert_leq((double)end_bytes, 1.02 * (double)list.bound_bytes);
}

Test(planner_pack, equal_blocks_give_equal_offsets) {
  static block_list_t first, second;
  make_training(&first, 9, 100);
  make_training(&second, 9, 100);
  pack(&first);
  pack(&second);
  cr_assert_arr_eq(first.items, second.items, first.count * sizeof *first.items);
}

Test(planner_pack, memory_may_run_out) {
  static block_list_t list;
  make_training(&list, 1, 20);
  find_bound(&list);
  for (size_t n = 1;; ++n) {
    delta_test_allocator_t faults;
    delta_test_allocator_init(&faults, n, DELTA_TEST_FAIL_ONCE);
    uint64_t end_bytes;
    const delta_pack_goal_t goal = {list.bound_bytes, list.bound_step, UINT64_MAX, false};
    delta_status_t status = delta_pack(list.items, list.count, &goal, delta_test_allocator_interface(&faults), &end_bytes);
    cr_assert_eq(faults.live_bytes, 0);
    if (!status) break;
    cr_assert_eq(delta_status_code(status), DELTA_STATUS_OUT_OF_MEMORY);
    delta_status_free(status);
  }
}
