// Fuzz target: bytes as an npy header, and as an npz archive whose arrays are all read.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/data/npz.h"

enum { MEMORY_LIMIT_BYTES = 64 << 20, PIECE_ELEMENTS = 4096 };

static void read_array(delta_npz_t *npz, size_t index) {
  static uint64_t piece[PIECE_ELEMENTS];
  const delta_npy_header_t *header;
  delta_status_t status = delta_npz_header(npz, index, &header);
  uint64_t count = status ? 0 : delta_npy_element_count(header);
  for (uint64_t first = 0; first < count && !status; first += PIECE_ELEMENTS) {
    uint64_t left = count - first;
    status = delta_npz_read(npz, index, first, left < PIECE_ELEMENTS ? left : PIECE_ELEMENTS, piece);
  }
  delta_status_free(status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  delta_npy_header_t header;
  delta_npz_t *npz = NULL;
  delta_capped_allocator_t capped;
  delta_status_free(delta_npy_parse(data, size < DELTA_NPY_PREFIX_BYTES ? size : DELTA_NPY_PREFIX_BYTES, size, &header));
  int descriptor = memfd_create("npz", 0);
  if (descriptor < 0 || write(descriptor, data, size) != (ssize_t)size) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  delta_capped_allocator_init(&capped, delta_allocator_system(), MEMORY_LIMIT_BYTES);
  delta_status_t status = delta_npz_open(path, delta_capped_allocator_interface(&capped), &npz);
  for (size_t i = 0; !status && i < delta_npz_count(npz); ++i) read_array(npz, i);
  delta_status_free(status);
  delta_npz_close(npz);
  close(descriptor);
  if (capped.live_bytes != 0) abort();
  return 0;
}
