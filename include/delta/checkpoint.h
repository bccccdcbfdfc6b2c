// Checkpoint: everything a training needs to go on as if it had never stopped: parameters, statistics, optimizer state, counters of steps and of random
// draws, and how far the data and the learning-rate schedule have come.
//
// A checkpoint is a safetensors file: weights stand in it under the model's names and can be read by others. The metadata has the position, the
// model's hash, the optimizer, numerics_id, and for every tensor its kind and the SHA-256 of its values.
#ifndef DELTA_CHECKPOINT_H_
#define DELTA_CHECKPOINT_H_

#include <delta/session.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DELTA_SCHEDULE_TEXT_BYTES = 128 };

// How far a training has come. The library stores it and gives it back; delta_session_run does not look at it.
typedef struct delta_training_position {
  size_t struct_size;                       // the caller sets it to sizeof(delta_training_position_t)
  int64_t step;                             // updates made
  int64_t epoch;                            // from 0: the one that the next update belongs to
  int64_t epoch_samples;                    // of that epoch that are behind it
  int64_t data_samples;                     // in an epoch; 0: not known
  uint64_t seed;                            // of shuffling and dropout
  int shuffle;                              // whether each epoch has an order of its own
  char schedule[DELTA_SCHEDULE_TEXT_BYTES]; // of the learning rate, in words, to be compared; zero-terminated
} delta_training_position_t;

// Properties: texts by name that the program that trains wants to find again. Checkpoints have them; a restored one adds its own to those that there are. NULL as a value
// takes a property away. Names and values are UTF-8, copied; at most 64 KiB each, 1024 of them.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_set_property(delta_session_t *session, const char *name, const char *value);
// NULL when there is none; borrowed until it changes.
DELTA_API const char *delta_session_property(const delta_session_t *session, const char *name);
// How many there are, and their names by number, borrowed until they change.
DELTA_API size_t delta_session_property_count(const delta_session_t *session);
DELTA_API const char *delta_session_property_name(const delta_session_t *session, size_t index); // NULL behind the last

// Writes all states, the properties and `position` to `path`: aside, made durable, then renamed, so that a file there is always whole. NOT_A_NUMBER names a state whose
// values are not finite, and nothing is written then; IO names the file. Between two runs of the session only.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_save(delta_session_t *session, const char *path,
                                                           const delta_training_position_t *position);

// Gives all states the values in the file, adds its properties and fills *out_position. The plan may be another than the one that was saved, with another budget or batch,
// but for the same model and optimizer: else MISMATCH. A damaged file is MALFORMED and names the tensor; the session is as before then. Another
// numerics_id is a warning: training goes on, but not to the last bit as it would have.
DELTA_API DELTA_MUST_USE delta_status_t delta_session_restore(delta_session_t *session, const char *path,
                                                              delta_training_position_t *out_position);

#ifdef __cplusplus
}
#endif

#endif // DELTA_CHECKPOINT_H_
