// Function: a kernel of a module, as the library that the emulated run-time compiler makes describes it.
#ifndef DELTA_TESTS_CUDA_EMULATED_MODULE_H_
#define DELTA_TESTS_CUDA_EMULATED_MODULE_H_

typedef struct delta_emulated_parameter {
  unsigned long size_bytes;
  int is_pointer;
} delta_emulated_parameter_t;

typedef struct delta_emulated_function {
  const char *name;
  int is_free; // of barriers, exchanges and shared memory
  int parameter_count;
  const delta_emulated_parameter_t *parameters;
  // With the address of each argument.
  void (*run_thread)(void *const *arguments);
  void (*run_block)(void *const *arguments);
} delta_emulated_function_t;

// A module has a delta_emulated_function_t of this prefix and the kernel's name.
#define DELTA_EMULATED_FUNCTION_PREFIX "delta_emulated_function_"

#endif // DELTA_TESTS_CUDA_EMULATED_MODULE_H_
