// Fuzz target: bytes as a safetensors file, whose values are then all read.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/safetensors.h"

enum { MEMORY_LIMIT_BYTES = 64 << 20, PIECE_BYTES = 4096 };

static void read_values(const delta_safetensors_t *file, const delta_safetensors_tensor_t *tensor) {
  uint8_t piece[PIECE_BYTES];
  for (uint64_t done = 0; done < tensor->size_bytes; done += PIECE_BYTES) {
    const uint64_t left = tensor->size_bytes - done;
    // What open has accepted lies in the file.
    if (delta_file_read(&file->file, tensor->offset_bytes + done, piece, left < PIECE_BYTES ? left : PIECE_BYTES)) abort();
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char path[64];
  delta_safetensors_t file;
  delta_capped_allocator_t capped;
  int descriptor = memfd_create("safetensors", 0);
  if (descriptor < 0 || write(descriptor, data, size) != (ssize_t)size) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
  delta_capped_allocator_init(&capped, delta_allocator_system(), MEMORY_LIMIT_BYTES);
  delta_status_t status = delta_safetensors_open(path, delta_capped_allocator_interface(&capped), &file);
  for (uint32_t i = 0; !status && i < file.header.tensor_count; ++i) read_values(&file, &file.header.tensors[i]);
  delta_status_free(status);
  delta_safetensors_close(&file);
  close(descriptor);
  if (capped.live_bytes != 0) abort();
  return 0;
}
