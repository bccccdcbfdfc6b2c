// Edits: a protobuf file rewritten on the wire level. Ranges of the source are replaced, everything else is copied byte for byte, fields nobody
// knows included. Lengths of the messages around a change follow it.
#ifndef DELTA_ONNX_EDITS_H_
#define DELTA_ONNX_EDITS_H_

#include "base/array.h"
#include "base/region.h"
#include "onnx/wire.h"

enum { DELTA_EDIT_NO_TENSOR = UINT32_MAX };

// Replaces `range` by bytes, or by the elements of a tensor, which are only asked for when they are written.
typedef struct delta_edit {
  delta_wire_range_t range;
  uint32_t number; // order of edits at one place
  uint32_t tensor; // DELTA_EDIT_NO_TENSOR for bytes
  const uint8_t *bytes;
  size_t size_bytes; // of the bytes or the tensor's elements
} delta_edit_t;

typedef struct delta_edits {
  delta_allocator_t allocator;
  delta_wire_source_t *source; // Borrowed.
  delta_region_t region;       // Owned; the bytes.
  DELTA_ARRAY(delta_edit_t) list;
} delta_edits_t;

// Gives the elements of tensor `tensor`: size_bytes bytes at *out_elements, valid until the next call.
typedef struct delta_edit_tensors {
  void *self; // Borrowed.
  delta_status_t (*elements)(void *self, uint32_t tensor, const void **out_elements);
} delta_edit_tensors_t;

void delta_edits_init(delta_edits_t *edits, delta_allocator_t allocator, delta_wire_source_t *source);
void delta_edits_deinit(delta_edits_t *edits); // Safe on a zeroed struct.

// Each function adds to *growth by how many bytes the surrounding message grows.

// Puts bytes (copied) in place of `range`; no bytes removes it, an empty range inserts.
DELTA_MUST_USE delta_status_t delta_edits_replace(delta_edits_t *edits, delta_wire_range_t range, const void *bytes, size_t size_bytes,
                                                  int64_t *growth);
// Puts a length-delimited field with this content in place of `range`.
DELTA_MUST_USE delta_status_t delta_edits_replace_field(delta_edits_t *edits, delta_wire_range_t range, uint32_t number, const void *bytes,
                                                        size_t size_bytes, int64_t *growth);
// Puts the elements of a tensor in place of `range`.
DELTA_MUST_USE delta_status_t delta_edits_replace_tensor(delta_edits_t *edits, delta_wire_range_t range, uint32_t tensor, size_t size_bytes,
                                                         int64_t *growth);
// Sets the length of the message field `field`, whose content grows by `inner_growth`.
DELTA_MUST_USE delta_status_t delta_edits_resize(delta_edits_t *edits, const delta_wire_field_t *field, int64_t inner_growth,
                                                 int64_t *growth);

// Writes the source with the edits. They must not overlap.
DELTA_MUST_USE delta_status_t delta_edits_write(delta_edits_t *edits, const delta_edit_tensors_t *tensors, delta_file_writer_t *writer);

// Copies a range of a file to a writer in pieces.
DELTA_MUST_USE delta_status_t delta_edits_copy_range(const delta_file_t *file, delta_wire_range_t range, delta_allocator_t allocator,
                                                     delta_file_writer_t *writer);

#endif // DELTA_ONNX_EDITS_H_
