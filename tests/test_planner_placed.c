// Placed: the same gaps as a plain list of blocks gives, in many random packings.
#include <criterion/criterion.h>

#include "base/random.h"
#include "planner/placed.h"
#include "tests/support/support.h"

enum { MOST = 1500 };

// The definition: the lowest offset that keeps clear of every block that lives at the same time.
static uint64_t find_plainly(const delta_placed_block_t *blocks, uint32_t count, uint32_t first, uint32_t last, uint64_t size_bytes,
                             uint64_t least_bytes) {
  uint64_t offset_bytes = least_bytes;
  for (bool moved = true; moved;) {
    moved = false;
    for (uint32_t i = 0; i < count; ++i) {
      const delta_placed_block_t *b = &blocks[i];
      if (b->last < first || b->first > last || b->begin_bytes >= offset_bytes + size_bytes || b->end_bytes <= offset_bytes) continue;
      offset_bytes = b->end_bytes;
      moved = true;
    }
  }
  return offset_bytes;
}

typedef struct placed_case {
  const char *name;
  uint32_t steps, most_life, sizes;
  bool nested; // lives within each other, as a backward pass makes them
} placed_case_t;

Test(placed, gaps_are_those_of_a_plain_list) {
  static const placed_case_t cases[] = {{"short lives", 400, 8, 20, false},
                                        {"long lives", 400, 300, 5, false},
                                        {"one size", 900, 50, 1, false},
                                        {"nested", 2 * MOST, 0, 6, true},
                                        {"all at once", 1, 1, 30, false}};
  static delta_placed_block_t blocks[MOST];
  for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
    const placed_case_t *test = &cases[c];
    delta_random_sequence_t random = {c + 1};
    delta_region_t region;
    delta_placed_t placed;
    uint64_t effort = 0;
    delta_region_init(&region, delta_allocator_system());
    cr_assert_null(delta_placed_init(&placed, MOST, &region));
    for (int round = 0; round < 2; ++round) {
      delta_placed_clear(&placed);
      for (uint32_t i = 0; i < MOST; ++i) {
        uint32_t first = test->nested ? i : delta_random_below(&random, test->steps);
        uint32_t last = test->nested ? 2 * MOST - i : first + delta_random_below(&random, test->most_life);
        if (test->nested && i % 3 == 2) last = first = delta_random_below(&random, test->steps);
        const uint64_t size_bytes = 1 + delta_random_below(&random, test->sizes);
        const uint64_t least_bytes = delta_random_below(&random, 3) == 0 ? delta_random_below(&random, 200) : 0;
        const uint64_t offset_bytes = delta_placed_find(&placed, first, last, size_bytes, least_bytes, &effort);
        cr_assert_eq(offset_bytes, find_plainly(blocks, i, first, last, size_bytes, least_bytes), "%s: block %u", test->name, i);
        blocks[i] = (delta_placed_block_t){offset_bytes, offset_bytes + size_bytes, first, last};
        delta_placed_add(&placed, &blocks[i]);
      }
    }
    cr_expect_gt(effort, MOST, "%s", test->name);
    delta_region_deinit(&region);
  }
}
