// Dataset: arrays with a common first dimension, read in batches from files. Streamed: a dataset never holds more than one batch of staging
// bytes.
//
// One struct of functions per format (npy and npz, IDX, CSV, synthetic); everything above sees arrays by name.
#ifndef DELTA_RUNTIME_DATA_DATASET_H_
#define DELTA_RUNTIME_DATA_DATASET_H_

#include <delta/log.h>

#include "base/allocator.h"
#include "base/dtype.h"
#include "base/shape.h"

// What a program wants for one of its inputs.
typedef struct delta_feed_want {
  const char *name; // the graph input's name, or "label"
  delta_dtype_t dtype;
  delta_shape_t shape; // with the batch as first dimension
  // Half-open range of legal values for integer arrays (class numbers, ids that index an embedding); minimum == maximum: no check.
  int64_t minimum, maximum;
  bool has_ignore; // ignore_value is legal too
  int64_t ignore_value;
} delta_feed_want_t;

typedef struct delta_dataset delta_dataset_t;

// Opens the data of a --data or --eval SPEC and checks it against what the program wants: names, dtypes (uint8, int32, float64 and the like
// convert as the graph asks; float to integer is refused), rank and dimensions after the first. `wants` is copied.
// SPEC is one of
//   FILE.npz | NAME=FILE.npy[:scale=S][:mean=A/B/C][:std=A/B/C],... | idx:IMAGES,LABELS | csv:FILE[:label=COLUMN] | synthetic[:samples=N]
// scale multiplies, then mean and std apply per channel (dimension 1). idx: images are the only non-label input, bytes scaled by 1/255 if
// the graph wants floats, and [n, rows, columns] fits [batch, 1, rows, columns] and [batch, rows * columns] too. csv: the first line may be
// a header; columns but the label (a name of the header, or a number from 0 or from -1 backwards; the last by default) form one row of the
// only input. synthetic: floats are standard normal, ids and labels uniform within their range, other integers zero; by (seed, sample), so
// a sample does not depend on the batch size.
// Errors name the file and the array: NOT_FOUND, IO, MALFORMED, MISMATCH, INVALID_ARGUMENT for the SPEC.
DELTA_MUST_USE delta_status_t delta_dataset_open(const char *spec, const delta_feed_want_t *wants, size_t want_count, uint64_t seed,
                                                 delta_log_sink_t log, delta_allocator_t allocator, delta_dataset_t **out_dataset);
void delta_dataset_close(delta_dataset_t *dataset); // NULL is fine.

// Number of samples (the common first dimension; at least 1).
int64_t delta_dataset_samples(const delta_dataset_t *dataset);

// Reads `count` samples given by index into buffers[w], one per want in order: count * (elements of a sample) elements of the wanted dtype.
// Value ranges are checked here, and that floats are finite: MISMATCH names array, sample, value and range. Contiguous runs of indices are
// read at once.
DELTA_MUST_USE delta_status_t delta_dataset_read(delta_dataset_t *dataset, const int64_t *samples, int64_t count, void *const *buffers);

#endif // DELTA_RUNTIME_DATA_DATASET_H_
