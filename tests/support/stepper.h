// Stepper: trains a model step by step, whatever executes the programs. What a test knows of an executor is this table of functions.
#ifndef DELTA_TESTS_SUPPORT_STEPPER_H_
#define DELTA_TESTS_SUPPORT_STEPPER_H_

#include "onnx/build.h"

// Data for one input of a program, in the element type of the program's input.
typedef struct delta_stepper_feed {
  const char *name;
  const void *data;
  size_t size_bytes;
} delta_stepper_feed_t;

typedef struct delta_stepper delta_stepper_t;

typedef struct delta_stepper_kind {
  const char *name;
  // The model and options are borrowed and outlive the stepper. States start at the model's values. `threads` is for kinds that use them.
  delta_status_t (*create)(const delta_model_t *model, const delta_build_options_t *options, int threads, delta_allocator_t allocator,
                           delta_stepper_t **out_stepper);
  void (*destroy)(delta_stepper_t *stepper); // NULL is fine.
  // Runs one program, building it on first use, with the states as the program before left them. Inputs that no feed names are zero.
  delta_status_t (*run)(delta_stepper_t *stepper, delta_program_kind_t program, const delta_stepper_feed_t *feeds, size_t feed_count);
  // Elements of an output of the program's last run, or of a state, as float64. `count` must be the number of elements.
  delta_status_t (*read_output)(delta_stepper_t *stepper, delta_program_kind_t program, const char *name, double *values, size_t count);
  delta_status_t (*read_state)(delta_stepper_t *stepper, const char *name, double *values, size_t count);
  // Facts of a program that has run.
  const delta_build_facts_t *(*facts)(const delta_stepper_t *stepper, delta_program_kind_t program);
} delta_stepper_kind_t;

// Programs evaluated by the reference kernels.
extern const delta_stepper_kind_t delta_stepper_reference;

// Plans and sessions of the CPU driver, by policy none and eager. The model is opened again by its path. Outputs are read of the last run;
// `facts` has only what trains.
extern const delta_stepper_kind_t delta_stepper_session;
extern const delta_stepper_kind_t delta_stepper_session_eager;
// The same with all regions in one layout: plain, channels last, blocked by 8, blocked by 16.
enum { DELTA_STEPPER_LAYOUTS = 4 };
extern const delta_stepper_kind_t delta_stepper_layouts[DELTA_STEPPER_LAYOUTS];
// Of the CUDA driver, where there is a GPU or its emulation: with steps that are recorded, and with an arena that is verified.
enum { DELTA_STEPPER_CUDA = 2 };
extern const delta_stepper_kind_t delta_stepper_cuda[DELTA_STEPPER_CUDA];

#endif // DELTA_TESTS_SUPPORT_STEPPER_H_
