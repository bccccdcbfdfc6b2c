// Metrics: what happened in each step, as lines of JSON in a file.
//
// A step's object has: step, epoch, loss, learning_rate, gradient_norm (when gradients are clipped), seconds, samples_per_second,
// stall_seconds, offload_seconds, offload_stall_seconds, prefetch_seconds, prefetch_stall_seconds (when it swapped), arena_peak_bytes, host_bytes, events (texts). An evaluation's has: evaluation (true), step, epoch, loss, accuracy (when
// there is one), samples, seconds. A loss that is not finite is null.
#ifndef DELTA_RUNTIME_METRICS_H_
#define DELTA_RUNTIME_METRICS_H_

#include <delta/train.h>

#include "base/text.h"

typedef struct delta_metrics {
  int descriptor;
  char *path;        // Owned; for messages.
  delta_text_t line; // reused
} delta_metrics_t;

// Opens `path` for writing: from its beginning, or after what is there when `append` (a resumed run). IO and NOT_FOUND name it.
DELTA_MUST_USE delta_status_t delta_metrics_open(const char *path, bool append, delta_allocator_t allocator, delta_metrics_t *out_metrics);
// Writes one whole line, which has left the process when the call returns. A full disk is IO; a part of the line may be in the file then.
DELTA_MUST_USE delta_status_t delta_metrics_write_step(delta_metrics_t *metrics, const delta_train_step_t *step);
DELTA_MUST_USE delta_status_t delta_metrics_write_evaluation(delta_metrics_t *metrics, const delta_train_evaluation_t *evaluation);
// Closes the file and reports what the file system held back until then. Safe when closed or zeroed with descriptor -1.
DELTA_MUST_USE delta_status_t delta_metrics_close(delta_metrics_t *metrics);

#endif // DELTA_RUNTIME_METRICS_H_
