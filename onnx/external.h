// External: the path rules for data files beside a model. A model may come from anywhere; it must not be able to read, or later overwrite,
// what lies outside its own folder.
//
// Rules: a location is relative, has no ".." component, no scheme and no backslash; after all symbolic links it lies in the model's folder or
// in the further folder the user named; it is a regular file and not the model file itself. Hard links cannot be told from files and are
// accepted: writing never follows them, as new files are written aside and renamed.
#ifndef DELTA_ONNX_EXTERNAL_H_
#define DELTA_ONNX_EXTERNAL_H_

#include "base/file.h"
#include "base/region.h"

// Where data files may lie.
typedef struct delta_external_place {
  const char *model_path;      // Borrowed.
  const char *external_folder; // Borrowed; NULL for none.
} delta_external_place_t;

// Checks a location as text. MALFORMED quotes it and says which rule it breaks.
DELTA_MUST_USE delta_status_t delta_external_check_location(const char *location);

// Whether the further folder, when one is given, is a folder: INVALID_ARGUMENT otherwise.
DELTA_MUST_USE delta_status_t delta_external_check_folder(const char *folder);

// Opens the data file at `location` by the rules. NOT_FOUND when there is none, MALFORMED when a rule is broken; both name the location.
DELTA_MUST_USE delta_status_t delta_external_open(const delta_external_place_t *place, const char *location, delta_allocator_t allocator,
                                                  delta_file_t *out_file);

// A pair of TensorProto.external_data.
typedef struct delta_external_entry {
  const char *key, *value;
} delta_external_entry_t;

// What the pairs say. has_length is false when the length follows from the tensor's shape.
typedef struct delta_external_info {
  const char *location; // Borrowed from the entries.
  uint64_t offset_bytes;
  bool has_length;
  uint64_t length_bytes;
} delta_external_info_t;

// Reads the pairs; unknown keys are ignored, a known key given twice is an error.
DELTA_MUST_USE delta_status_t delta_external_parse(const delta_external_entry_t *entries, size_t count, delta_external_info_t *out_info);

#endif // DELTA_ONNX_EXTERNAL_H_
