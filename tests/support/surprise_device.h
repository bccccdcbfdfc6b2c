// A device that does not behave as planned: copies and operators that are late, copies that fail or never end, memory that shrinks. What happens when is written in
// a script, so that a run can be repeated.
#ifndef DELTA_TESTS_SUPPORT_SURPRISE_DEVICE_H_
#define DELTA_TESTS_SUPPORT_SURPRISE_DEVICE_H_

#include "runtime/device.h"

// Copies are counted from the opening of the device, writes and reads each from 0. UINT32_MAX: never.
typedef struct delta_test_surprises {
  uint64_t seed;                // of the delays that are drawn
  double copy_delay_seconds;    // each copy is late by a random part of this
  double kernel_delay_seconds;  // each operator, likewise
  double copy_bytes_per_second; // no copy is faster; 0: as fast as they are
  double kernel_slowness;       // operators take so many times as long; 0: as long as they take
  // Called before each operator, counted from the opening of the device: what happens amid a step. NULL: nothing does.
  void (*on_launch)(void *self, uint32_t launch);
  void *self;                // Borrowed.
  uint32_t write_that_fails; // with IO
  uint32_t writes_that_fail; // how many in a row
  uint32_t read_that_fails;
  uint32_t write_that_hangs;        // until delta_test_surprises_release
  uint32_t writes, reads, launches; // counted
} delta_test_surprises_t;

#define DELTA_TEST_NO_SURPRISE \
  { .write_that_fails = UINT32_MAX, .read_that_fails = UINT32_MAX, .write_that_hangs = UINT32_MAX, .writes_that_fail = 1 }

// Opens a device that follows the script: the CPU's or, in programs with the emulation of CUDA, the emulated GPU, which knows delays only; one at a time in a process. `surprises` is borrowed until it is closed, and may be changed between steps.
DELTA_MUST_USE delta_status_t delta_test_surprise_device_open(int32_t threads, delta_test_surprises_t *surprises,
                                                              delta_device_t **out_device);
// Lets a write that hangs go on.
void delta_test_surprises_release(void);

#endif // DELTA_TESTS_SUPPORT_SURPRISE_DEVICE_H_
