// Checkpoint folder: the newest checkpoints of one training, STEP by step ("step-000000001200.safetensors"). One process at a time has it.
#ifndef DELTA_RUNTIME_CHECKPOINT_FOLDER_H_
#define DELTA_RUNTIME_CHECKPOINT_FOLDER_H_

#include <delta/checkpoint.h>

typedef struct delta_checkpoint_folder {
  delta_allocator_t allocator;
  char *path;      // Owned.
  int descriptor;  // of the folder, locked; -1: closed
  int64_t keep;    // how many stay
  char *last_path; // Owned; of the newest; NULL: there is none
} delta_checkpoint_folder_t;

// Makes the folder when it is not there (its parent is), locks it, and removes what a killed process left half written. INVALID_ARGUMENT when another
// process has it.
DELTA_MUST_USE delta_status_t delta_checkpoint_folder_open(const char *path, int64_t keep, delta_allocator_t allocator,
                                                           delta_checkpoint_folder_t *out_folder);
void delta_checkpoint_folder_close(delta_checkpoint_folder_t *folder); // Safe on a zeroed struct with descriptor -1.

// Saves the session as the newest checkpoint, then removes those that are more than `keep`.
DELTA_MUST_USE delta_status_t delta_checkpoint_folder_save(delta_checkpoint_folder_t *folder, delta_session_t *session,
                                                           const delta_training_position_t *position);

#endif // DELTA_RUNTIME_CHECKPOINT_FOLDER_H_
