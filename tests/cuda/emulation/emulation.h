// Emulation of CUDA on the CPU: what tests can set, break and ask. The calls themselves are those of tests/cuda/include.
//
// A stream is a thread with a queue, an event orders them, a copy may be late. A kernel's threads are fibers (or turns of a loop, where they never wait for each other), its
// blocks are spread over threads. Device memory is memory of the host that is not the host's to touch: it is filled with a pattern when it is given, ends at guards, and each
// pointer that a call gets is checked for its kind.
//
// Under ThreadSanitizer only what CUDA promises counts as order: enqueueing, events, graphs, synchronization, barriers. The emulation's own locks do not, so a wait
// or a barrier that is missing is a data race. One emulation a process. Functions here are for one thread, while nothing is running.
#ifndef DELTA_TESTS_CUDA_EMULATION_H_
#define DELTA_TESTS_CUDA_EMULATION_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct delta_emulated_settings {
  uint32_t devices;            // 0: a machine without a GPU
  int driver_version;          // of the GPU's driver: 13000 is CUDA 13.0; 0: there is none
  uint64_t device_bytes;       // memory of the device
  bool has_virtual_memory;     // cuMem...
  size_t granule_bytes;        // of virtual memory: a multiple of a page of the host
  int capability_major;        // 9: sm_90; the minor number is 0
  uint32_t processors;         // of the device: kernels with fewer go round their loops more often
  uint32_t most_blocks;        // of a launch whose kernel goes on in strides of the grid: small cases go round, too
  bool refuses_late;           // cuDNN tells the workspace of algorithms that it then does not run
  uint64_t seed;               // of the delays that are drawn
  double copy_delay_seconds;   // each copy is late by a random part of this
  double launch_delay_seconds; // each kernel and each call of a library, likewise
  uint32_t block_threads;      // that share the blocks of a kernel
  // Graphs run one node at a time, and those of this stream only when no other can go on: the worst order that their edges allow. Streams are numbered as they came to the capture,
  // from 0. Below 0: streams run beside each other.
  int late_stream;
} delta_emulated_settings_t;

// Of devices on which small models have to fit into small budgets.
enum { DELTA_EMULATED_SMALL_GRANULE_BYTES = 4096 };

// A device of 4 GiB in granules of 2 MiB, nothing late.
delta_emulated_settings_t delta_emulated_defaults(void);
// Settings of what is created from now on; delays hold at once.
void delta_emulated_configure(const delta_emulated_settings_t *settings);

// ---- Faults

// Lets call number `nth` (from 1, counted from now) of a name fail, and the `count` - 1 calls after it. `call` NULL: of all names.
void delta_emulated_fail(const char *call, uint32_t nth, uint32_t count);
// Lets operation number `nth` of a name (a call that enqueues, or a kernel) fail when it runs: from then on every call of the runtime fails, as after a fault on a GPU.
void delta_emulated_fail_run(const char *operation, uint32_t nth);
// The call that a fault of delta_emulated_fail has hit last; NULL: none.
const char *delta_emulated_failed_call(void);
// Ignores call number `nth` of cudaStreamWaitEvent, counted from now; 0: none.
void delta_emulated_drop_wait(uint32_t nth);
// Ends faults, ignored waits and barriers, and the error that stays; forgets reports; counts from 0.
void delta_emulated_reset(void);

// ---- What has happened

// Calls of a name since the last reset; NULL: all.
uint32_t delta_emulated_calls(const char *call);
// What the emulation found wrong: a pointer of the wrong kind, bytes written outside an allocation, threads that wait for each other. Also printed on stderr.
uint32_t delta_emulated_reports(void);
const char *delta_emulated_last_report(void); // "" when there is none
// Device memory that is allocated.
uint64_t delta_emulated_used_bytes(void);

// ---- Barriers: the places with __syncthreads() that kernels have come to, in that order.

typedef struct delta_emulated_site {
  const char *file;
  int line, number;
  uint64_t visits; // of threads, about
} delta_emulated_site_t;
uint32_t delta_emulated_site_count(void);
delta_emulated_site_t delta_emulated_site(uint32_t index);
// Threads run through the barriers of this place. NULL: of none.
void delta_emulated_drop_barrier(const delta_emulated_site_t *site);

#ifdef __cplusplus
}
#endif

#endif // DELTA_TESTS_CUDA_EMULATION_H_
