// Free dims: a model file whose inputs and outputs have names in place of the sizes of their dimensions after the first.
#ifndef DELTA_TESTS_SUPPORT_FREE_DIMS_H_
#define DELTA_TESTS_SUPPORT_FREE_DIMS_H_

// Rewrites the model at `from` to `to`: dimension d of every input and output, from 1 on, that has the size `size` gets the name "dimD", such as "dim1". Fails the running test when
// a file cannot be read or written.
void delta_test_free_dims(const char *from, int size, const char *to);

#endif // DELTA_TESTS_SUPPORT_FREE_DIMS_H_
