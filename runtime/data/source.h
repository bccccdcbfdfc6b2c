// Source: what each data format provides to the dataset, as one struct of functions. dataset.c does everything that is the same for all of
// them: matching shapes and types with what the program wants, conversion, scaling, value ranges.
#ifndef DELTA_RUNTIME_DATA_SOURCE_H_
#define DELTA_RUNTIME_DATA_SOURCE_H_

#include "base/region.h"
#include "runtime/data/dataset.h"
#include "runtime/data/file_dtype.h"

// The array found for one want.
typedef struct delta_data_array {
  const char *place; // how messages name it: "train.npz: array 'x'"; in the request's region
  delta_file_dtype_t type;
  delta_shape_t shape; // samples first
  // (value * scale - mean[channel]) / deviation[channel], where channels are dimension 1; a count of 1 applies to all, of 0 leaves it out.
  bool is_scaled;
  double scale;
  const double *mean, *deviation; // in the request's region
  size_t mean_count, deviation_count;
} delta_data_array_t;

// What a format is asked to open.
typedef struct delta_data_request {
  const char *spec; // what follows the format's prefix
  const delta_feed_want_t *wants;
  size_t want_count;
  uint64_t seed;
  delta_log_sink_t log;
  delta_allocator_t allocator;
  delta_region_t *region; // lives as long as the source
} delta_data_request_t;

typedef struct delta_data_format {
  const char *prefix; // of the SPECs that are this format's; "" for files told apart by the form of the SPEC
  // Opens files, reads their headers and fills one array per want, in order. On failure nothing stays open.
  delta_status_t (*open)(const delta_data_request_t *request, delta_data_array_t *out_arrays, void **out_self);
  // Makes the array of a want ready once its shape is known to fit: what is costly and would be in vain before. NULL: nothing to do.
  delta_status_t (*prepare)(void *self, size_t want);
  // Reads elements [first, first + count) of the array of want `want`, in row-major order, as elements of its type in this machine's byte
  // order.
  delta_status_t (*read)(void *self, size_t want, uint64_t first, size_t count, void *out_elements);
  void (*close)(void *self);
} delta_data_format_t;

extern const delta_data_format_t delta_data_npz, delta_data_npy, delta_data_idx, delta_data_csv, delta_data_synthetic;

// The want called "label", or want_count.
size_t delta_data_find_label(const delta_data_request_t *request);
// The one want that is no label, for formats with a single input; INVALID_ARGUMENT when there are more or none. `format` stands in the
// message.
DELTA_MUST_USE delta_status_t delta_data_find_only_input(const delta_data_request_t *request, const char *format, size_t *out_want);

// "[batch, 3, 224, 224]" of what is wanted; `buffer` is returned.
const char *delta_data_want_text(const delta_feed_want_t *want, char buffer[DELTA_SHAPE_TEXT_BYTES]);

#endif // DELTA_RUNTIME_DATA_SOURCE_H_
