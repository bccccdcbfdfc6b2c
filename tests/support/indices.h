// Indices: the parameters of a test whose cases are rows of a table. Each test is a process of its own, where functions have other addresses: what it is given is a number.
#ifndef DELTA_TESTS_SUPPORT_INDICES_H_
#define DELTA_TESTS_SUPPORT_INDICES_H_

#include <criterion/parameterized.h>

// The numbers from 0 to count - 1, as size_t.
struct criterion_test_params delta_test_indices(size_t count);

#endif // DELTA_TESTS_SUPPORT_INDICES_H_
