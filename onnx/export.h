// Export: writes a trained model. The file is the loaded one with new values in its initializers: names, shapes, order, opset and everything
// Delta does not understand stay as they are; tied initializers stay tied; external data stays external (a new data file beside the new model).
#ifndef DELTA_ONNX_EXPORT_H_
#define DELTA_ONNX_EXPORT_H_

#include "onnx/model.h"

typedef struct delta_export_options {
  const char *path; // of the new model; may be the loaded model's own path
  bool
      for_training; // keep the given form; otherwise batch norm uses running statistics and dropout is removed (known-problems.md D3: by opset)
  // Gives the new value of an initializer, or sets *out_replaced to false to keep the file's. `buffer` has the initializer's size and element type.
  delta_status_t (*read_value)(void *self, const char *name, void *buffer, size_t size_bytes, bool *out_replaced);
  void *self; // Borrowed.
} delta_export_options_t;

// Writes aside and renames; the same path rules hold for external data as in loading. Errors: IO, NOT_FOUND, MALFORMED.
// Memory: never more than one tensor beside the file's skeleton.
DELTA_MUST_USE delta_status_t delta_model_export(const delta_model_t *model, const delta_export_options_t *options);

#endif // DELTA_ONNX_EXPORT_H_
