// Operator case: see op_case.h.
#include "tests/support/op_case.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/model_text.h"

static void expect_tensor(const delta_test_op_case_t *c, const delta_graph_t *graph, const delta_reference_values_t *values) {
  char text[512];
  (void)snprintf(text, sizeof text, "init expected %s", c->expected);
  delta_model_t *expected = delta_test_model_of(text);
  const delta_model_tensor_t *want = &expected->initializers[0];
  const delta_tensor_t *found = delta_graph_tensor(graph, graph->outputs.items[0].tensor);
  const void *data = delta_reference_value(values, graph->outputs.items[0].tensor);
  char found_text[DELTA_SHAPE_TEXT_BYTES];
  cr_assert_eq(found->dtype, want->dtype, "%s: type %s", c->name, delta_dtype_name(found->dtype));
  cr_assert(delta_shape_equal(&found->shape, &want->shape), "%s: shape %s", c->name, delta_shape_text(&found->shape, found_text));
  for (size_t k = 0; k < (size_t)delta_shape_count(&want->shape); ++k) {
    double a = delta_element_load_double(data, found->dtype, k), b = delta_element_load_double(want->data, want->dtype, k);
    bool equal = a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= 1e-5 * fmax(1.0, fabs(b));
    cr_expect(equal, "%s: element %zu is %.9g, not %.9g", c->name, k, a, b);
  }
  delta_model_free(expected);
}

void delta_test_expect_op(const delta_test_op_case_t *c) {
  delta_model_t *model = delta_test_model_of(c->model);
  const delta_import_options_t options = {.as_exported = true, .levers = DELTA_LEVERS_ALL};
  delta_graph_t *graph = NULL;
  delta_import_facts_t facts;
  delta_status_t status = delta_import(model, &options, delta_allocator_system(), &graph, &facts);
  const char *part = strncmp(c->expected, "error: ", 7) == 0 ? c->expected + 7 : NULL;
  if (part != NULL) {
    cr_assert_not_null(status, "%s: was accepted", c->name);
    cr_assert_not_null(strstr(delta_status_message(status), part), "%s: '%s' lacks '%s'", c->name, delta_status_message(status), part);
    cr_assert_not_null(strstr(delta_status_message(status), "n0"), "%s: '%s' names no node", c->name, delta_status_message(status));
  } else {
    cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
    delta_reference_values_t values = {0};
    status = delta_graph_check(graph);
    cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
    cr_assert_null(delta_reference_values_init(graph, delta_allocator_system(), &values));
    delta_test_fill_states(model, &values);
    status = delta_reference_run_graph(&values);
    cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
    expect_tensor(c, graph, &values);
    delta_reference_values_deinit(&values);
  }
  delta_status_free(status);
  delta_graph_free(graph);
  delta_model_free(model);
}
