// Collects edits in any order and applies them in one pass over the source.
#include "onnx/edits.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void delta_edits_init(delta_edits_t *edits, delta_allocator_t allocator, delta_wire_source_t *source) {
  *edits = (delta_edits_t){.allocator = allocator, .source = source};
  delta_region_init(&edits->region, allocator);
}

void delta_edits_deinit(delta_edits_t *edits) {
  if (edits->list.items) delta_array_deinit(edits->allocator, &edits->list);
  delta_region_deinit(&edits->region);
}

static delta_status_t add_edit(delta_edits_t *edits, delta_edit_t edit, int64_t *growth) {
  edit.number = (uint32_t)edits->list.count;
  *growth += (int64_t)edit.size_bytes - (int64_t)delta_wire_range_bytes(edit.range);
  return delta_array_push(edits->allocator, &edits->list, &edit);
}

delta_status_t delta_edits_replace(delta_edits_t *edits, delta_wire_range_t range, const void *bytes, size_t size_bytes, int64_t *growth) {
  void *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy(&edits->region, bytes, size_bytes, 1, &copy));
  return add_edit(edits, (delta_edit_t){.range = range, .tensor = DELTA_EDIT_NO_TENSOR, .bytes = copy, .size_bytes = size_bytes}, growth);
}

delta_status_t delta_edits_replace_field(delta_edits_t *edits, delta_wire_range_t range, uint32_t number, const void *bytes,
                                         size_t size_bytes, int64_t *growth) {
  uint8_t *field = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&edits->region, size_bytes + 2 * DELTA_WIRE_VARINT_BYTES, &field));
  size_t count = delta_wire_encode_varint((uint64_t)number << 3 | DELTA_WIRE_LENGTH, field);
  count += delta_wire_encode_varint(size_bytes, field + count);
  if (size_bytes > 0) memcpy(field + count, bytes, size_bytes);
  return add_edit(edits, (delta_edit_t){.range = range, .tensor = DELTA_EDIT_NO_TENSOR, .bytes = field, .size_bytes = count + size_bytes},
                  growth);
}

delta_status_t delta_edits_replace_tensor(delta_edits_t *edits, delta_wire_range_t range, uint32_t tensor, size_t size_bytes,
                                          int64_t *growth) {
  return add_edit(edits, (delta_edit_t){.range = range, .tensor = tensor, .size_bytes = size_bytes}, growth);
}

delta_status_t delta_edits_resize(delta_edits_t *edits, const delta_wire_field_t *field, int64_t inner_growth, int64_t *growth) {
  if (inner_growth == 0) return DELTA_OK;
  uint8_t length[DELTA_WIRE_VARINT_BYTES];
  uint64_t bytes = (uint64_t)((int64_t)delta_wire_range_bytes(field->payload) + inner_growth);
  *growth += inner_growth;
  return delta_edits_replace(edits, (delta_wire_range_t){field->length_begin, field->payload.begin}, length,
                             delta_wire_encode_varint(bytes, length), growth);
}

static int compare_edits(const void *left, const void *right) {
  const delta_edit_t *a = left, *b = right;
  if (a->range.begin != b->range.begin) return a->range.begin < b->range.begin ? -1 : 1;
  return a->number < b->number ? -1 : a->number > b->number;
}

delta_status_t delta_edits_copy_range(const delta_file_t *file, delta_wire_range_t range, delta_allocator_t allocator,
                                      delta_file_writer_t *writer) {
  enum { PIECE_BYTES = 1 << 20 };
  if (range.begin == range.end) return DELTA_OK;
  size_t piece_bytes = delta_wire_range_bytes(range) < PIECE_BYTES ? (size_t)delta_wire_range_bytes(range) : PIECE_BYTES;
  uint8_t *piece = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, piece_bytes, &piece));
  delta_status_t status = DELTA_OK;
  for (uint64_t offset = range.begin; offset < range.end && !status; offset += piece_bytes) {
    uint64_t left = range.end - offset;
    size_t bytes = left < piece_bytes ? (size_t)left : piece_bytes;
    status = delta_file_read(file, offset, piece, bytes);
    if (!status) status = delta_file_writer_write(writer, piece, bytes);
  }
  delta_release(allocator, piece);
  return status;
}

delta_status_t delta_edits_write(delta_edits_t *edits, const delta_edit_tensors_t *tensors, delta_file_writer_t *writer) {
  const delta_file_t *file = edits->source->file;
  uint64_t position = 0;
  if (edits->list.count > 0) qsort(edits->list.items, edits->list.count, sizeof *edits->list.items, compare_edits);
  for (size_t i = 0; i < edits->list.count; ++i) {
    const delta_edit_t *edit = &edits->list.items[i];
    const void *content = edit->bytes;
    if (edit->range.begin < position)
      return delta_status_make(UNSUPPORTED, "the part of the file at byte %" PRIu64 " would have to be changed in two ways at once",
                               edit->range.begin);
    DELTA_RETURN_IF_ERROR(delta_edits_copy_range(file, (delta_wire_range_t){position, edit->range.begin}, edits->allocator, writer));
    position = edit->range.end;
    if (edit->tensor != DELTA_EDIT_NO_TENSOR) DELTA_RETURN_IF_ERROR(tensors->elements(tensors->self, edit->tensor, &content));
    if (edit->size_bytes > 0) DELTA_RETURN_IF_ERROR(delta_file_writer_write(writer, content, edit->size_bytes));
  }
  return delta_edits_copy_range(file, (delta_wire_range_t){position, file->size_bytes}, edits->allocator, writer);
}
