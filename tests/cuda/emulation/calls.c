#include "tests/cuda/emulation/calls.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { REPORT_BYTES = 512, MOST_NAME_BYTES = 96 };

// A fault to come: names are compared when its turn is counted.
typedef struct fault {
  char name[MOST_NAME_BYTES]; // "": all
  atomic_uint seen;
  atomic_uint nth, count; // nth 0: none
} fault_t;

static struct {
  pthread_mutex_t lock;
  delta_emulated_settings_t settings;
  bool is_configured;
  delta_emulated_entry_t *entries;
  fault_t call_fault, run_fault;
  const char *failed_call;
  atomic_uint wait_to_drop, waits;
  atomic_int error;
  atomic_uint reports;
  char last_report[REPORT_BYTES];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local cudaError_t last_error;

static void lock_state(void) {
  delta_hidden_begin();
  pthread_mutex_lock(&state.lock);
}

static void unlock_state(void) {
  pthread_mutex_unlock(&state.lock);
  delta_hidden_end();
}

// ---- Settings

delta_emulated_settings_t delta_emulated_defaults(void) {
  return (delta_emulated_settings_t){.devices = 1,
                                     .driver_version = 13000,
                                     .device_bytes = UINT64_C(4) << 30,
                                     .has_virtual_memory = true,
                                     .capability_major = 9,
                                     .processors = 4,
                                     .most_blocks = 1 << 20,
                                     .granule_bytes = 2 << 20,
                                     .seed = 1,
                                     .block_threads = 2,
                                     .late_stream = -1};
}

void delta_emulated_configure(const delta_emulated_settings_t *settings) {
  lock_state();
  state.settings = *settings;
  state.is_configured = true;
  unlock_state();
}

const delta_emulated_settings_t *delta_emulated_settings(void) {
  lock_state();
  if (!state.is_configured) state.settings = delta_emulated_defaults();
  state.is_configured = true;
  unlock_state();
  return &state.settings;
}

// ---- Faults

static void set_fault(fault_t *fault, const char *name, uint32_t nth, uint32_t count) {
  lock_state();
  snprintf(fault->name, sizeof fault->name, "%s", name ? name : "");
  fault->seen = 0;
  fault->nth = nth;
  fault->count = count;
  unlock_state();
}

static bool is_hit(fault_t *fault, const char *name) {
  if (fault->nth == 0 || (fault->name[0] && strcmp(fault->name, name) != 0)) return false;
  const uint32_t seen = ++fault->seen;
  return seen >= fault->nth && seen - fault->nth < fault->count;
}

void delta_emulated_fail(const char *call, uint32_t nth, uint32_t count) { set_fault(&state.call_fault, call, nth, count); }

void delta_emulated_fail_run(const char *operation, uint32_t nth) { set_fault(&state.run_fault, operation, nth, 1); }

const char *delta_emulated_failed_call(void) { return state.failed_call; }

void delta_emulated_drop_wait(uint32_t nth) {
  state.waits = 0;
  state.wait_to_drop = nth;
}

bool delta_emulated_ignores_wait(void) {
  lock_state();
  const bool ignores = state.wait_to_drop && ++state.waits == state.wait_to_drop;
  unlock_state();
  return ignores;
}

bool delta_emulated_enter_run(const char *operation) {
  lock_state();
  const bool fails = is_hit(&state.run_fault, operation);
  unlock_state();
  return fails;
}

bool delta_emulated_enter(delta_emulated_entry_t *entry) {
  lock_state();
  if (!entry->is_listed) {
    entry->is_listed = true;
    entry->next = state.entries;
    state.entries = entry;
  }
  ++entry->count;
  const bool fails = is_hit(&state.call_fault, entry->name);
  if (fails) state.failed_call = entry->name;
  unlock_state();
  return fails;
}

void delta_emulated_reset(void) {
  set_fault(&state.call_fault, NULL, 0, 0);
  set_fault(&state.run_fault, NULL, 0, 0);
  delta_emulated_drop_wait(0);
  delta_emulated_drop_barrier(NULL);
  lock_state();
  for (delta_emulated_entry_t *entry = state.entries; entry; entry = entry->next) entry->count = 0;
  state.failed_call = NULL;
  last_error = cudaSuccess;
  state.error = cudaSuccess;
  state.reports = 0;
  state.last_report[0] = '\0';
  unlock_state();
}

uint32_t delta_emulated_calls(const char *call) {
  uint32_t count = 0;
  lock_state();
  for (delta_emulated_entry_t *entry = state.entries; entry; entry = entry->next) {
    if (!call || strcmp(entry->name, call) == 0) count += entry->count;
  }
  unlock_state();
  return count;
}

// ---- Errors and reports

cudaError_t delta_emulated_fault(void) {
  lock_state();
  const cudaError_t error = (cudaError_t)state.error;
  unlock_state();
  return error;
}

void delta_emulated_set_fault(cudaError_t error) {
  lock_state();
  if (state.error == cudaSuccess) state.error = (int)error;
  unlock_state();
}

cudaError_t delta_emulated_error(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t cudaGetLastError(void) {
  const cudaError_t error = delta_emulated_fault() ? delta_emulated_fault() : last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError(void) { return delta_emulated_fault() ? delta_emulated_fault() : last_error; }

void delta_emulated_report(const char *format, ...) {
  va_list arguments;
  lock_state();
  va_start(arguments, format);
  vsnprintf(state.last_report, sizeof state.last_report, format, arguments);
  va_end(arguments);
  ++state.reports;
  fprintf(stderr, "emulated CUDA: %s\n", state.last_report);
  unlock_state();
}

uint32_t delta_emulated_reports(void) { return state.reports; }

const char *delta_emulated_last_report(void) { return state.last_report; }
