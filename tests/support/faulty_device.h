// A CPU device that does wrong what nobody is told of: a byte that changes while an operator runs, a tier that does not give back what it got, memory that is committed unasked.
#ifndef DELTA_TESTS_SUPPORT_FAULTY_DEVICE_H_
#define DELTA_TESTS_SUPPORT_FAULTY_DEVICE_H_

#include "runtime/device.h"

// Operators and copies are counted from 0 since the counts were set to 0. UINT32_MAX: never.
typedef struct delta_test_faults {
  uint32_t launch; // after this operator one bit of `*address` is another
  uint8_t *address;
  uint32_t write, read;   // the copy to, or from, the tier in which a bit changes
  uint32_t failing_write; // a copy to the tier that fails, with IO
  uint32_t commit_launch; // after this operator `commit_bytes` of the arena are committed
  delta_arena_t *arena;
  size_t commit_bytes;
  void (*on_launch)(void *self, uint32_t number); // before an operator; NULL: not told
  void *self;
  uint32_t launches, writes, reads; // counted
} delta_test_faults_t;

#define DELTA_TEST_NO_FAULT \
  { .launch = UINT32_MAX, .write = UINT32_MAX, .read = UINT32_MAX, .failing_write = UINT32_MAX, .commit_launch = UINT32_MAX }

// Opens a CPU device with these faults; one at a time in a process. `faults` is borrowed until it is closed, and may be changed between runs.
DELTA_MUST_USE delta_status_t delta_test_faulty_device_open(delta_test_faults_t *faults, delta_device_t **out_device);

#endif // DELTA_TESTS_SUPPORT_FAULTY_DEVICE_H_
