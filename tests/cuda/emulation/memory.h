// Memory of the emulation: ranges that calls have given, each of one kind, and what a pointer points to.
#ifndef DELTA_TESTS_CUDA_MEMORY_H_
#define DELTA_TESTS_CUDA_MEMORY_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum delta_emulated_kind {
  DELTA_EMULATED_UNKNOWN, // the host's own
  DELTA_EMULATED_DEVICE,
  DELTA_EMULATED_PINNED,
  DELTA_EMULATED_BROKEN // begins in a range and ends outside it, or lies in device memory that is reserved and not mapped
} delta_emulated_kind_t;

// The byte that memory is filled with when it is given: four of them are a NaN.
enum { DELTA_EMULATED_FILL = 0xff };

delta_emulated_kind_t delta_emulated_kind_of(const void *data, size_t size_bytes);
// Whether `size_bytes` from `data` on are device memory; what is not is reported with these names.
bool delta_emulated_is_device(const char *call, const char *what, const void *data, size_t size_bytes);
// The same for memory that a kernel may use: the device's or pinned.
bool delta_emulated_is_reachable(const char *call, const char *what, const void *data, size_t size_bytes);

// Counts bytes of the device as used, or not used any more; false: there are not as many.
bool delta_emulated_take_bytes(size_t size_bytes);
void delta_emulated_give_bytes(size_t size_bytes);

// A range of addresses that cuMemAddressReserve gave. Its granules are mapped one by one.
bool delta_emulated_add_addresses(void *start, size_t size_bytes);
bool delta_emulated_remove_addresses(void *start, size_t size_bytes);
typedef enum delta_emulated_granule { DELTA_EMULATED_RESERVED, DELTA_EMULATED_MAPPED, DELTA_EMULATED_ACCESSIBLE } delta_emulated_granule_t;
// Whether all granules of the part are in a state (what is accessible is mapped, too); sets them to another then.
bool delta_emulated_move_granules(void *start, size_t size_bytes, delta_emulated_granule_t from, delta_emulated_granule_t to);
// What cuMemMap showed from a granule on; NULL: nothing begins there. The granule lies in a range of addresses.
void delta_emulated_set_owner(void *start, void *owner);
void *delta_emulated_owner(void *start);

#endif // DELTA_TESTS_CUDA_MEMORY_H_
