// Calls: how each function of the emulation begins (it is counted, and may have to fail) and how it says what was wrong.
#ifndef DELTA_TESTS_CUDA_CALLS_H_
#define DELTA_TESTS_CUDA_CALLS_H_

#include <cuda_runtime_api.h>
#include <stdatomic.h>

#include "tests/cuda/emulation/emulation.h"
#include "tests/cuda/emulation/sanitizers.h"

// One function that can be called; static in it.
typedef struct delta_emulated_entry {
  const char *name;
  atomic_uint count;
  atomic_bool is_listed;
  struct delta_emulated_entry *next;
} delta_emulated_entry_t;

// True: the call has to fail.
bool delta_emulated_enter(delta_emulated_entry_t *entry);

// Begins a function that returns `failure` when it has to fail.
#define DELTA_EMULATED_ENTER(failure)                               \
  do {                                                              \
    static delta_emulated_entry_t delta_entry = {.name = __func__}; \
    if (delta_emulated_enter(&delta_entry)) return failure;         \
  } while (0)

// The same for the CUDA runtime, whose errors stay where a fault on the device has happened, and are remembered.
#define DELTA_EMULATED_ENTER_RUNTIME(failure)                                        \
  do {                                                                               \
    static delta_emulated_entry_t delta_entry = {.name = __func__};                  \
    if (delta_emulated_enter(&delta_entry)) return delta_emulated_error(failure);    \
    if (delta_emulated_fault()) return delta_emulated_error(delta_emulated_fault()); \
  } while (0)

// Remembers an error of the calling thread for cudaGetLastError, and returns it.
cudaError_t delta_emulated_error(cudaError_t error);

// The error that stays after a fault on the device; cudaSuccess: none.
cudaError_t delta_emulated_fault(void);
void delta_emulated_set_fault(cudaError_t error);
// True: the operation has to fail now that it runs.
bool delta_emulated_enter_run(const char *operation);

// True: this call of cudaStreamWaitEvent is to be ignored.
bool delta_emulated_ignores_wait(void);

// Calls of the driver interface need a context, which is a thread's own matter: setting the device takes it, and so does the runtime where it takes memory.
bool delta_emulated_has_context(void);
void delta_emulated_take_context(void);

void delta_emulated_report(const char *format, ...) __attribute__((format(printf, 1, 2)));

const delta_emulated_settings_t *delta_emulated_settings(void);

#endif // DELTA_TESTS_CUDA_CALLS_H_
