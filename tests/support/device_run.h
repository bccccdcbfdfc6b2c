// Device run: evaluates a graph node by node with the kernels that a device prefers, outside any plan. For comparing kernels.
#ifndef DELTA_TESTS_SUPPORT_DEVICE_RUN_H_
#define DELTA_TESTS_SUPPORT_DEVICE_RUN_H_

#include "onnx/reference/run.h"

// Memory aligned as kernels may expect of buffers; give it to delta_reference_values_init() of values that a device runs.
delta_allocator_t delta_test_aligned_allocator(void);

// As delta_reference_run_graph(), with the first kernel of the CPU driver, or of the CUDA driver, that does not refuse each node.
DELTA_MUST_USE delta_status_t delta_test_cpu_run_graph(delta_reference_values_t *values);
DELTA_MUST_USE delta_status_t delta_test_cuda_run_graph(delta_reference_values_t *values);

#endif // DELTA_TESTS_SUPPORT_DEVICE_RUN_H_
