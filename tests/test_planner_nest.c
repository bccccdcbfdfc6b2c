// Nesting: few large blocks get places wherever there are some, however little is left.
#include <criterion/criterion.h>
#include <stdlib.h>

#include "planner/nest.h"
#include "tests/support/planning.h"
#include "tests/support/support.h"

enum { MOST_BLOCKS = 64, EFFORT = 20 * 1000 * 1000 };

typedef struct block_list {
  delta_block_t items[MOST_BLOCKS];
  uint64_t offsets[MOST_BLOCKS];
  uint32_t count;
} block_list_t;

static void add_block(block_list_t *list, uint32_t first, uint32_t last, uint64_t size_bytes) {
  list->items[list->count] = (delta_block_t){.first = first, .last = last, .size_bytes = size_bytes, .next_in_group = list->count};
  ++list->count;
}

static bool nest(block_list_t *list, uint64_t capacity_bytes) {
  delta_region_t region;
  bool found = false;
  delta_region_init(&region, delta_allocator_system());
  delta_test_must(delta_nest(list->items, list->count, capacity_bytes, EFFORT, &region, list->offsets, &found));
  delta_region_deinit(&region);
  for (uint32_t i = 0; found && i < list->count; ++i) {
    const delta_block_t *a = &list->items[i];
    cr_assert_leq(list->offsets[i] + a->size_bytes, capacity_bytes);
    cr_assert_eq(list->offsets[i] % 64, 0, "block %u is not aligned", i);
    for (uint32_t k = 0; k < i; ++k) {
      const delta_block_t *b = &list->items[k];
      const bool overlap = list->offsets[i] < list->offsets[k] + b->size_bytes && list->offsets[k] < list->offsets[i] + a->size_bytes;
      cr_assert(!overlap || a->last < b->first || b->last < a->first || a->next_in_group != i, "blocks %u and %u overlap", i, k);
    }
  }
  return found;
}

// Cuts a rectangle of steps and bytes into blocks, so that nothing is left between them: sizes are of few kinds.
static void cut(block_list_t *list, delta_test_numbers_t *numbers, uint32_t first, uint32_t last, uint64_t size, uint32_t depth) {
  const uint64_t kind = depth == 0 || list->count + 8 > MOST_BLOCKS ? 0 : delta_test_number(numbers, 5);
  if (kind > 2 && size > 1) {
    const uint64_t low = size / 2 + (size > 4 && kind == 4 ? 1 : 0);
    cut(list, numbers, first, last, low, depth - 1);
    cut(list, numbers, first, last, size - low, depth - 1);
  } else if (kind > 0 && last > first) {
    const uint32_t middle = first + (uint32_t)delta_test_number(numbers, last - first);
    cut(list, numbers, first, middle, size, depth - 1);
    cut(list, numbers, middle + 1, last, size, depth - 1);
  } else {
    add_block(list, first, last, 64 * size);
  }
}

Test(planner_nest, rectangles_that_were_cut_are_put_together_again) {
  uint32_t missed = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    delta_test_numbers_t numbers = {seed};
    block_list_t list = {0};
    cut(&list, &numbers, 0, 39, 32, 6);
    missed += !nest(&list, 64 * 32 + seed % 64);
    cr_assert(!nest(&list, 64 * 32 - 64), "seed %llu: more bytes live at once than there are", (unsigned long long)seed);
  }
  cr_assert_leq(missed, 12, "%u of 400 are missed", missed);
}

// Two halves that were made apart become a whole, which is split again: all of them lie within the whole, and another block fits beside it alone.
Test(planner_nest, a_group_keeps_its_form) {
  block_list_t list = {0};
  add_block(&list, 4, 8, 256); // the whole
  add_block(&list, 0, 4, 128); // what it is made of
  add_block(&list, 3, 4, 128);
  add_block(&list, 8, 12, 128); // what becomes of it
  add_block(&list, 8, 10, 128);
  for (uint32_t i = 0; i < 5; ++i) list.items[i].next_in_group = (i + 1) % 5;
  list.items[2].group_bytes = list.items[4].group_bytes = 128;
  add_block(&list, 0, 12, 64);
  add_block(&list, 0, 2, 128);
  add_block(&list, 11, 12, 128);
  cr_assert(nest(&list, 320));
  for (uint32_t i = 1; i < 5; ++i) cr_assert_eq(list.offsets[i], list.offsets[0] + list.items[i].group_bytes);
  cr_assert(!nest(&list, 319));
}

Test(planner_nest, the_effort_is_a_limit) {
  block_list_t list = {0};
  delta_test_numbers_t numbers = {7};
  for (uint32_t i = 0; i < MOST_BLOCKS; ++i) add_block(&list, i, i + 20, 64 * (1 + delta_test_number(&numbers, 900)));
  cr_assert(!nest(&list, 64 * 20 * 450));
}
