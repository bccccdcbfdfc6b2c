// Export of external data: each data file of the loaded model is copied to a new one beside the new model, with new values in it. Tensors keep
// their places; where tensors share bytes, one that gets a new value moves to the end.
#ifndef DELTA_ONNX_EXPORT_EXTERNAL_H_
#define DELTA_ONNX_EXPORT_EXTERNAL_H_

#include "base/array.h"
#include "base/file.h"
#include "onnx/export.h"

typedef struct delta_export_file {
  const char *location; // new, relative to the new model
  delta_file_writer_t writer;
} delta_export_file_t;

// What became of an external initializer.
typedef struct delta_export_place {
  bool is_replaced;
  uint64_t offset_bytes; // new
} delta_export_place_t;

typedef struct delta_export_external {
  delta_allocator_t allocator;
  delta_region_t region;      // Owned; the texts.
  delta_export_file_t *files; // Owned; model->external_count of them.
  uint32_t file_count;
  delta_export_place_t *places; // Owned; model->initializer_count of them.
} delta_export_external_t;

// Writes the new data files aside. They appear under their names with commit.
DELTA_MUST_USE delta_status_t delta_export_external_write(const delta_model_t *model, const delta_export_options_t *options,
                                                          delta_export_external_t *out_external);
DELTA_MUST_USE delta_status_t delta_export_external_commit(delta_export_external_t *external);
void delta_export_external_deinit(delta_export_external_t *external); // Safe on a zeroed struct.

#endif // DELTA_ONNX_EXPORT_EXTERNAL_H_
