// Pressure: what the system says of the memory it can still give, and what follows for the budget: lower when it is short, as it was when it has been back for a while.
// The numbers come from a reader, so that a test can play them.
#ifndef DELTA_RUNTIME_PRESSURE_H_
#define DELTA_RUNTIME_PRESSURE_H_

#include <stdbool.h>
#include <stdint.h>

#include "base/status.h"

// Bytes that can still be given, negative where more is taken than may be. INT64_MAX: no limit is known.
typedef struct delta_memory_numbers {
  int64_t system_left_bytes;  // by the system and the process's group to all
  int64_t process_left_bytes; // by the limits of the process (RLIMIT_AS, RLIMIT_DATA)
  double stalled_percent;     // of the last ten seconds in which something waited for memory; 0 where that is not told
} delta_memory_numbers_t;

typedef struct delta_memory_reader {
  void (*read)(void *self, delta_memory_numbers_t *out_numbers);
  void *self; // Borrowed.
} delta_memory_reader_t;

// What this system and its files under /proc and /sys say.
delta_memory_reader_t delta_memory_reader_of_system(void);

typedef struct delta_pressure {
  delta_memory_reader_t reader;
  bool is_off;
  double period_seconds, next_seconds; // of looks, and the next
  uint64_t limit_bytes;                // what the arena may take; UINT64_MAX: there is no pressure
  uint64_t refused_bytes;              // limits up to this one have been refused: no plan fits them
  uint32_t calm_looks;                 // in a row in which there was enough again
  delta_memory_numbers_t numbers;      // of the last look
} delta_pressure_t;

void delta_pressure_init(delta_pressure_t *pressure);
// No plan fits the limit: there is none, and one so low is not asked for again.
void delta_pressure_refuse(delta_pressure_t *pressure);
// Looks, when it is time. True: limit_bytes has changed. `committed_bytes` of the arena count as given; `wanted_bytes` are what it would take without a limit.
bool delta_pressure_look(delta_pressure_t *pressure, double now_seconds, uint64_t committed_bytes, uint64_t wanted_bytes);

#endif // DELTA_RUNTIME_PRESSURE_H_
