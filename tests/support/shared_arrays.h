// Shared arrays: the .npz files of the test material, read into tensors of a graph and compared with them.
#ifndef DELTA_TESTS_SUPPORT_SHARED_ARRAYS_H_
#define DELTA_TESTS_SUPPORT_SHARED_ARRAYS_H_

#include "onnx/reference/run.h"
#include "runtime/data/npz.h"

// Opens an archive; fails the running test when it cannot.
delta_npz_t *delta_test_open_npz(const char *path);

// Fills a tensor's buffer with the array's first elements, converted to the tensor's type. Fails the running test when the array is absent or short.
void delta_test_load_array(delta_npz_t *npz, const char *name, const delta_reference_values_t *values, delta_tensor_id_t id);

// Expects a tensor to equal an array of the same shape within `relative` times the array's largest value, plus `absolute`.
void delta_test_expect_array(delta_npz_t *npz, const char *name, const delta_reference_values_t *values, delta_tensor_id_t id,
                             double relative, double absolute);

#endif // DELTA_TESTS_SUPPORT_SHARED_ARRAYS_H_
