// Stream: a thread that runs what is put into its queue, in order. What is put into a stream that is being captured becomes a node of a graph instead.
#ifndef DELTA_TESTS_CUDA_STREAM_H_
#define DELTA_TESTS_CUDA_STREAM_H_

#include <cuda_runtime_api.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "tests/cuda/emulation/team.h"

// What a stream or a graph runs, perhaps several times. Shared by what holds it.
typedef struct delta_emulated_operation {
  const char *name; // Borrowed
  void *self;       // Owned
  void (*run)(void *self, delta_emulated_team_t *team);
  void (*destroy)(void *self); // NULL: free
  double delay_seconds;        // it is late by a random part of this; below 0: it is no work of the device (a mark, a wait)
  atomic_uint references;
} delta_emulated_operation_t;

// A point in a stream. It is reached once.
typedef struct delta_emulated_mark delta_emulated_mark_t;

// Takes `self` over, whatever comes of it. Errors are remembered for cudaGetLastError.
cudaError_t delta_emulated_put(cudaStream_t stream, const delta_emulated_operation_t *operation);
// Makes an operation that can be run; the caller drops it. NULL: no memory, and `self` is destroyed.
delta_emulated_operation_t *delta_emulated_operation_create(const delta_emulated_operation_t *operation);
void delta_emulated_operation_drop(delta_emulated_operation_t *operation);
void delta_emulated_operation_run(delta_emulated_operation_t *operation, delta_emulated_team_t *team, uint64_t *random);

// Waits for everything in a stream, or in all.
void delta_emulated_synchronize(cudaStream_t stream);
void delta_emulated_synchronize_streams(void);

// The stream of a number that CUDA gives a meaning (NULL: the default stream).
cudaStream_t delta_emulated_stream(cudaStream_t stream);

// ---- Capture (capture.c)

typedef struct delta_emulated_capture delta_emulated_capture_t;

bool delta_emulated_is_capturing(cudaStream_t stream);
bool delta_emulated_is_any_capturing(void);
// Ends all hope for what is being captured: the call cannot be in a graph. Returns the error.
cudaError_t delta_emulated_refuse_in_capture(const char *call);
cudaError_t delta_emulated_capture_put(cudaStream_t stream, const delta_emulated_operation_t *operation);
cudaError_t delta_emulated_capture_record(cudaEvent_t event, cudaStream_t stream);
cudaError_t delta_emulated_capture_wait(cudaStream_t stream, cudaEvent_t event);

// What a capture knows of a stream or of an event: the nodes that come last in it.
typedef struct delta_emulated_frontier {
  delta_emulated_capture_t *capture; // Borrowed; NULL: none
  uint64_t number;                   // of the capture; those that have ended do not come again
  uint32_t lane;                     // of a stream: its number in the capture
  uint32_t *nodes;                   // Owned
  uint32_t count;
} delta_emulated_frontier_t;
void delta_emulated_frontier_clear(delta_emulated_frontier_t *frontier);

struct CUevent_st {
  delta_emulated_mark_t *mark; // Shared; the last record; NULL: none
  bool has_time;
  delta_emulated_frontier_t frontier; // of the capture in which it was recorded last
};

// The part of a stream that the thread which enqueues uses.
delta_emulated_frontier_t *delta_emulated_stream_frontier(cudaStream_t stream);
uint64_t *delta_emulated_random_of(cudaStream_t stream);

#endif // DELTA_TESTS_CUDA_STREAM_H_
