// Allocator, region, array, map: contents, growth, and what happens when memory runs out.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/map.h"

static delta_allocator_t capped_at(delta_capped_allocator_t *capped, size_t limit_bytes) {
  delta_capped_allocator_init(capped, delta_allocator_system(), limit_bytes);
  return delta_capped_allocator_interface(capped);
}

Test(allocator, memory_is_zeroed_and_counted) {
  delta_capped_allocator_t capped;
  delta_allocator_t allocator = capped_at(&capped, 100);
  int32_t *numbers = NULL;
  cr_assert_null(DELTA_ALLOCATE(allocator, 10, &numbers));
  for (int i = 0; i < 10; ++i) cr_assert_eq(numbers[i], 0);
  cr_assert_eq(capped.live_bytes, 40);
  delta_release(allocator, numbers);
  cr_assert_eq(capped.live_bytes, 0);
}

Test(allocator, empty_allocation_is_valid) {
  char *nothing = NULL;
  cr_assert_null(DELTA_ALLOCATE(delta_allocator_system(), 0, &nothing));
  cr_assert_not_null(nothing);
  delta_release(delta_allocator_system(), nothing);
}

Test(allocator, product_that_overflows_is_refused) {
  int64_t *numbers = NULL;
  delta_status_t status = DELTA_ALLOCATE(delta_allocator_system(), SIZE_MAX / 4, &numbers);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_OUT_OF_MEMORY);
  cr_assert_null(numbers);
  delta_status_free(status);
}

Test(allocator, cap_refuses_and_leaves_the_block) {
  delta_capped_allocator_t capped;
  delta_allocator_t allocator = capped_at(&capped, 64);
  char *block = NULL, *other = NULL;
  cr_assert_null(DELTA_ALLOCATE(allocator, 40, &block));
  memset(block, 7, 40);
  delta_status_t status = DELTA_ALLOCATE(allocator, 25, &other);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_OUT_OF_MEMORY);
  delta_status_free(status);
  cr_assert_null(allocator.reallocate(allocator.self, block, 65));
  cr_assert_eq(block[39], 7);
  block = allocator.reallocate(allocator.self, block, 64);
  cr_assert_not_null(block);
  cr_assert_eq(capped.live_bytes, 64);
  delta_release(allocator, block);
  cr_assert_eq(capped.live_bytes, 0);
}

Test(region, blocks_are_aligned_zeroed_and_keep_their_content) {
  delta_capped_allocator_t capped;
  delta_region_t region;
  delta_region_init(&region, capped_at(&capped, 64 << 20));
  unsigned char *blocks[200];
  for (size_t i = 0; i < 200; ++i) {
    const size_t size_bytes = i * 37;
    cr_assert_null(DELTA_REGION_ALLOCATE(&region, size_bytes, &blocks[i]));
    cr_assert_eq((uintptr_t)blocks[i] % 16, 0);
    for (size_t k = 0; k < size_bytes; ++k) cr_assert_eq(blocks[i][k], 0);
    memset(blocks[i], (int)i, size_bytes);
  }
  for (size_t i = 0; i < 200; ++i) {
    for (size_t k = 0; k < i * 37; ++k) cr_assert_eq(blocks[i][k], (unsigned char)i);
  }
  cr_assert_geq(region.total_bytes, 37 * 199 * 200 / 2);
  delta_region_deinit(&region);
  cr_assert_eq(capped.live_bytes, 0);
}

Test(region, strings_and_formats) {
  delta_region_t region;
  delta_region_init(&region, delta_allocator_system());
  char *copy = NULL, *formatted = NULL;
  cr_assert_null(delta_region_copy_string(&region, "abcdef", 3, &copy));
  cr_assert_str_eq(copy, "abc");
  cr_assert_null(delta_region_format(&region, &formatted, "%s-%d-%05000d", copy, 12, 3));
  cr_assert_eq(strlen(formatted), 5007);
  cr_assert_eq(strncmp(formatted, "abc-12-000", 10), 0);
  delta_region_deinit(&region);
}

Test(region, overflow_and_cap_are_out_of_memory) {
  delta_capped_allocator_t capped;
  delta_region_t region;
  delta_region_init(&region, capped_at(&capped, 10000));
  void *pointer = NULL;
  const size_t counts[] = {SIZE_MAX, SIZE_MAX / 8, 20000};
  for (size_t i = 0; i < 3; ++i) {
    delta_status_t status = delta_region_allocate(&region, counts[i], 8, &pointer);
    cr_assert_eq(delta_status_code(status), DELTA_STATUS_OUT_OF_MEMORY);
    delta_status_free(status);
    cr_assert_null(pointer);
  }
  cr_assert_null(delta_region_allocate(&region, 10, 8, &pointer));
  delta_region_deinit(&region);
  cr_assert_eq(capped.live_bytes, 0);
}

Test(array, pushes_keep_order_also_from_inside) {
  DELTA_ARRAY(int) numbers = {0};
  delta_allocator_t allocator = delta_allocator_system();
  for (int i = 0; i < 1000; ++i) cr_assert_null(delta_array_push(allocator, &numbers, &i));
  // The element moves with the array while it is being pushed.
  while (numbers.count < numbers.capacity) cr_assert_null(delta_array_push(allocator, &numbers, &numbers.items[0]));
  cr_assert_null(delta_array_push(allocator, &numbers, &numbers.items[999]));
  cr_assert_eq(numbers.items[numbers.count - 1], 999);
  for (int i = 0; i < 1000; ++i) cr_assert_eq(numbers.items[i], i);
  delta_array_deinit(allocator, &numbers);
  cr_assert_null(numbers.items);
}

Test(array, failure_leaves_the_array_as_it_was) {
  delta_capped_allocator_t capped;
  delta_allocator_t allocator = capped_at(&capped, 8 * sizeof(int64_t));
  DELTA_ARRAY(int64_t) numbers = {0};
  for (int64_t i = 0; i < 8; ++i) cr_assert_null(delta_array_push(allocator, &numbers, &i));
  const int64_t extra = 9;
  delta_status_t status = delta_array_push(allocator, &numbers, &extra);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_OUT_OF_MEMORY);
  delta_status_free(status);
  cr_assert_eq(numbers.count, 8);
  cr_assert_eq(numbers.items[7], 7);
  status = delta_array_reserve(allocator, &numbers, SIZE_MAX);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_OUT_OF_MEMORY);
  delta_status_free(status);
  delta_array_deinit(allocator, &numbers);
  cr_assert_eq(capped.live_bytes, 0);
}

Test(map, finds_what_was_set) {
  delta_map_t map;
  delta_map_init(&map, delta_allocator_system());
  cr_assert_eq(delta_map_find(&map, "a"), DELTA_MAP_NONE);
  char key[32];
  for (uint32_t i = 0; i < 5000; ++i) {
    snprintf(key, sizeof key, "layer%u/weight", i);
    cr_assert_null(delta_map_set(&map, key, i));
  }
  cr_assert_null(delta_map_set(&map, "", 77));
  cr_assert_null(delta_map_set(&map, "layer3/weight", 33));
  cr_assert_eq(map.count, 5001);
  for (uint32_t i = 0; i < 5000; ++i) {
    snprintf(key, sizeof key, "layer%u/weight", i);
    cr_assert_eq(delta_map_find(&map, key), i == 3 ? 33 : i);
  }
  cr_assert_eq(delta_map_find(&map, ""), 77);
  cr_assert_eq(delta_map_find(&map, "layer5000/weight"), DELTA_MAP_NONE);
  delta_map_deinit(&map);
}
