// Export: writes a trained model. The file is the loaded one with new values in its initializers: names, shapes, order, opset and
// everything Delta does not understand stay as they are; tied initializers stay tied; external data stays external (a new data file beside
// the new model).
#ifndef DELTA_ONNX_EXPORT_H_
#define DELTA_ONNX_EXPORT_H_

#include "onnx/model.h"

typedef struct delta_export_options {
  const char *path; // of the new model; not a file the loaded model is read from
  bool
      for_training; // keep the given form; otherwise batch norm uses running statistics and dropout is removed (known-problems.md D3: by opset)
  // Lends the new value of an initializer, of its size and element type, until the next call; sets *out_value to NULL to keep the file's.
  // Asked more than once for a name, it gives the same.
  delta_status_t (*find_value)(void *self, const char *name, size_t size_bytes, const void **out_value);
  void *self; // Borrowed.
} delta_export_options_t;

// Writes aside and renames; the same path rules hold for external data as in loading. Errors: INVALID_ARGUMENT (the path is the
// loaded model or its data), IO, NOT_FOUND, MALFORMED.
// Memory: the file's skeleton and a small piece; tensors are written from where they are, and copied from the file in pieces.
DELTA_MUST_USE delta_status_t delta_model_export(const delta_model_t *model, const delta_export_options_t *options);

#endif // DELTA_ONNX_EXPORT_H_
