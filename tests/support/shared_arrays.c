// Shared arrays: see shared_arrays.h.
#include "tests/support/shared_arrays.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>

delta_npz_t *delta_test_open_npz(const char *path) {
  delta_npz_t *npz = NULL;
  delta_status_t status = delta_npz_open(path, delta_allocator_system(), &npz);
  cr_assert_null(status, "%s", delta_status_message(status));
  return npz;
}

// The first `count` elements as float64; the caller frees them.
static double *read_doubles(delta_npz_t *npz, const char *name, size_t count, delta_shape_t *out_shape) {
  const size_t index = delta_npz_find(npz, name);
  cr_assert_neq(index, DELTA_NPZ_NONE, "there is no array '%s'", name);
  const delta_npy_header_t *header = NULL;
  delta_status_t status = delta_npz_header(npz, index, &header);
  cr_assert_null(status, "%s", delta_status_message(status));
  cr_assert_geq(delta_npy_element_count(header), count, "array '%s' is too short", name);
  *out_shape = header->shape;
  void *elements = calloc(count + 1, delta_file_dtype_bytes(header->type));
  double *doubles = calloc(count + 1, sizeof *doubles);
  status = delta_npz_read(npz, index, 0, count, elements);
  cr_assert_null(status, "%s", delta_status_message(status));
  delta_file_dtype_load_doubles(header->type, elements, count, doubles);
  free(elements);
  return doubles;
}

void delta_test_load_array(delta_npz_t *npz, const char *name, const delta_reference_values_t *values, delta_tensor_id_t id) {
  const delta_tensor_t *tensor = delta_graph_tensor(values->graph, id);
  const size_t count = (size_t)delta_shape_count(&tensor->shape);
  delta_shape_t shape;
  double *doubles = read_doubles(npz, name, count, &shape);
  for (size_t k = 0; k < count; ++k) delta_element_store_double(delta_reference_value(values, id), tensor->dtype, k, doubles[k]);
  free(doubles);
}

void delta_test_expect_array(delta_npz_t *npz, const char *name, const delta_reference_values_t *values, delta_tensor_id_t id,
                             double relative, double absolute) {
  const delta_tensor_t *tensor = delta_graph_tensor(values->graph, id);
  const size_t count = (size_t)delta_shape_count(&tensor->shape);
  delta_shape_t shape;
  double *wanted = read_doubles(npz, name, count, &shape);
  char text[DELTA_SHAPE_TEXT_BYTES];
  cr_expect(delta_shape_equal(&shape, &tensor->shape), "'%s' has shape %s", name, delta_shape_text(&tensor->shape, text));
  double largest = 0.0, difference = 0.0;
  for (size_t k = 0; k < count; ++k) {
    const double found = delta_element_load_double(delta_reference_value(values, id), tensor->dtype, k);
    largest = fmax(largest, fabs(wanted[k]));
    difference = isfinite(found) ? fmax(difference, fabs(found - wanted[k])) : INFINITY;
  }
  cr_expect_leq(difference, relative * largest + absolute, "'%s' differs by %g where the largest value is %g", name, difference, largest);
  free(wanted);
}
