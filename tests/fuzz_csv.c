// Fuzz target: bytes as a CSV file with one input of two columns and a label, read in order and backwards. The first byte chooses the label's column.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/data/dataset.h"

enum { MEMORY_LIMIT_BYTES = 64 << 20 };

static void read_samples(delta_dataset_t *dataset) {
  float x[2];
  int64_t label;
  void *const buffers[] = {x, &label};
  int64_t count = delta_dataset_samples(dataset);
  for (int64_t i = 0; i < 2 * count && i < 200; ++i) {
    int64_t sample = i < count ? i : 2 * count - 1 - i;
    delta_status_free(delta_dataset_read(dataset, &sample, 1, buffers));
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const delta_feed_want_t wants[] = {{.name = "x", .dtype = DELTA_DTYPE_FLOAT32, .shape = {.rank = 2, .dims = {4, 2}}},
                                     {.name = "label", .dtype = DELTA_DTYPE_INT64, .shape = {.rank = 1, .dims = {4}}, .maximum = 3}};
  char spec[64];
  delta_dataset_t *dataset = NULL;
  delta_capped_allocator_t capped;
  if (size == 0) return 0;
  int descriptor = memfd_create("csv", 0);
  if (descriptor < 0 || write(descriptor, data + 1, size - 1) != (ssize_t)size - 1) abort();
  snprintf(spec, sizeof spec, "csv:/proc/self/fd/%d:label=%d", descriptor, data[0] % 8 - 4);
  delta_capped_allocator_init(&capped, delta_allocator_system(), MEMORY_LIMIT_BYTES);
  delta_status_t status = delta_dataset_open(spec, wants, sizeof wants / sizeof wants[0], 0, (delta_log_sink_t){0},
                                             delta_capped_allocator_interface(&capped), &dataset);
  if (!status) read_samples(dataset);
  delta_status_free(status);
  delta_dataset_close(dataset);
  close(descriptor);
  if (capped.live_bytes != 0) abort();
  return 0;
}
