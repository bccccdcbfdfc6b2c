// Map: linear probing in a table that is at most half full; keys live in a region.
#include "base/map.h"

#include <string.h>

#include "base/checked.h"

enum { FIRST_SLOTS = 16 };

typedef struct delta_map_slot {
  const char *key; // NULL when free. Owned by the map's region.
  uint32_t hash;
  uint32_t index;
} delta_map_slot_t;

// Multiplies to 128 bits and folds the halves together.
static uint64_t fold_product(uint64_t a, uint64_t b) {
  __extension__ typedef unsigned __int128 uint128_t;
  uint128_t product = (uint128_t)a * b;
  return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// Keys come from files, so somebody may choose them to collide. The table's address, which differs from run to run, seeds the hash;
// nothing observable depends on the order of slots.
static uint32_t hash_key(const delta_map_slot_t *slots, const char *key, size_t length) {
  uint64_t hash = fold_product((uint64_t)(uintptr_t)slots ^ 0x9e3779b97f4a7c15u, length + 0xd1342543de82ef95u);
  for (size_t i = 0; i < length; i += 8) {
    uint64_t word = 0;
    memcpy(&word, key + i, length - i < 8 ? length - i : 8);
    hash = fold_product(hash ^ word, 0xa0761d6478bd642fu) ^ hash;
  }
  return (uint32_t)(hash ^ hash >> 32);
}

void delta_map_init(delta_map_t *map, delta_allocator_t allocator) {
  *map = (delta_map_t){.allocator = allocator};
  delta_region_init(&map->keys, allocator);
}

void delta_map_deinit(delta_map_t *map) {
  delta_release(map->allocator, map->slots);
  delta_region_deinit(&map->keys);
  map->slots = NULL;
  map->slot_count = map->count = 0;
}

// The slot that holds `key`, or the free slot where it belongs.
static delta_map_slot_t *find_slot(delta_map_slot_t *slots, size_t slot_count, const char *key, uint32_t hash) {
  size_t position = hash & (slot_count - 1);
  while (slots[position].key && (slots[position].hash != hash || strcmp(slots[position].key, key) != 0)) {
    position = (position + 1) & (slot_count - 1);
  }
  return &slots[position];
}

uint32_t delta_map_find(const delta_map_t *map, const char *key) {
  if (map->count == 0) return DELTA_MAP_NONE;
  const delta_map_slot_t *slot = find_slot(map->slots, map->slot_count, key, hash_key(map->slots, key, strlen(key)));
  return slot->key ? slot->index : DELTA_MAP_NONE;
}

static delta_status_t map_grow(delta_map_t *map) {
  size_t slot_count = FIRST_SLOTS;
  if (map->slot_count > 0 && !delta_size_mul(map->slot_count, 2, &slot_count)) return delta_status_make(OUT_OF_MEMORY, "a map is full");
  delta_map_slot_t *slots = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(map->allocator, slot_count, &slots));
  for (size_t i = 0; i < map->slot_count; ++i) {
    delta_map_slot_t moved = map->slots[i];
    if (!moved.key) continue;
    moved.hash = hash_key(slots, moved.key, strlen(moved.key));
    *find_slot(slots, slot_count, moved.key, moved.hash) = moved;
  }
  delta_release(map->allocator, map->slots);
  map->slots = slots;
  map->slot_count = slot_count;
  return DELTA_OK;
}

delta_status_t delta_map_set(delta_map_t *map, const char *key, uint32_t index) {
  if (map->count >= map->slot_count / 2) DELTA_RETURN_IF_ERROR(map_grow(map));
  size_t length = strlen(key);
  uint32_t hash = hash_key(map->slots, key, length);
  delta_map_slot_t *slot = find_slot(map->slots, map->slot_count, key, hash);
  if (!slot->key) {
    char *copy = NULL;
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&map->keys, key, length, &copy));
    *slot = (delta_map_slot_t){.key = copy, .hash = hash};
    ++map->count;
  }
  slot->index = index;
  return DELTA_OK;
}
