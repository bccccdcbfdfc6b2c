// Kernel case: runs one node through every kernel of a driver and through the reference, and compares results, repetitions, thread counts,
// in-place forms, and what lies around the buffers. Kernels are also prepared where memory runs out.
#ifndef DELTA_TESTS_SUPPORT_KERNEL_CASE_H_
#define DELTA_TESTS_SUPPORT_KERNEL_CASE_H_

#include "tests/support/one_node.h"

enum { DELTA_KERNEL_CASE_OPERANDS = 9, DELTA_KERNEL_CASE_REASON_BYTES = 512 };

// What an input holds. The last field says more.
typedef enum delta_fill_kind {
  DELTA_FILL_RANDOM,   // normal-like in about [-2, 2], scaled by `limit` unless that is 0
  DELTA_FILL_SPECIAL,  // the same with infinities, NaN, zeros of both signs, large and denormal numbers between
  DELTA_FILL_POSITIVE, // in about (0, 2]
  DELTA_FILL_INDICES,  // whole numbers in [-limit, limit)
  DELTA_FILL_COUNTING, // whole numbers in [0, limit)
  DELTA_FILL_VALUE,    // `limit` everywhere
} delta_fill_kind_t;

typedef struct delta_kernel_operand {
  delta_dtype_t dtype;
  delta_shape_t shape;
  delta_fill_kind_t fill;
  double limit;
} delta_kernel_operand_t;

typedef struct delta_kernel_case {
  const char *name;
  delta_test_node_t node;
  uint32_t input_count, output_count;
  delta_kernel_operand_t inputs[DELTA_KERNEL_CASE_OPERANDS];
  double tolerance;                          // absolute, and relative to the reference; 0: the same bits (any NaN for NaN)
  bool left_out[DELTA_KERNEL_CASE_OPERANDS]; // inputs that are not given
  // What the case is about when it is not a plain result.
  bool refused;      // on the CPU: every kernel but the reference refuses the node; elsewhere it runs
  const char *error; // on the CPU: a run fails, and its message has this text; elsewhere such data is not given to kernels
} delta_kernel_case_t;

// The device that cases run on; "cpu" unless a test program names another before its tests.
extern const char *delta_kernel_case_device;

// Called before (true) and after (false) each launch of a kernel, which was launched `earlier` times before on the same device. NULL: nothing is.
extern void (*delta_kernel_case_observer)(bool begins, const char *kernel_name, int earlier);

// False, with a reason, when anything is not as it should be.
bool delta_kernel_case_run(const delta_kernel_case_t *kernel_case, char reason[DELTA_KERNEL_CASE_REASON_BYTES]);

#endif // DELTA_TESTS_SUPPORT_KERNEL_CASE_H_
