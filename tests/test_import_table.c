// The operator table: its rows are well formed, every lowering knows the operators that name it, and docs/operators.md is up to date.
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "onnx/lower/lower.h"
#include "tests/support/model_text.h"
#include "tests/support/operators_page.h"

Test(import_table, rows_are_well_formed) {
  size_t count = 0;
  const delta_op_info_t *rows = delta_op_table(&count);
  cr_assert_gt(count, 100);
  for (size_t k = 0; k < count; ++k) {
    const delta_op_info_t *row = &rows[k];
    cr_expect_eq(delta_op_find(row->domain, row->name), row, "%s has two rows", row->name);
    cr_expect_geq(row->since, 1, "%s", row->name);
    cr_expect(row->max_inputs < 0 || (row->min_inputs >= 0 && row->min_inputs <= row->max_inputs), "%s", row->name);
    cr_expect(row->max_outputs < 0 || (row->min_outputs >= 0 && row->min_outputs <= row->max_outputs), "%s", row->name);
    cr_expect(strcmp(row->tier, "T0") == 0 || strcmp(row->tier, "T1") == 0 || strcmp(row->tier, "T2") == 0, "%s", row->name);
    cr_expect_null(strpbrk(row->attributes, " ;"), "%s: '%s'", row->name, row->attributes);
    cr_expect_null(strchr(row->notes, '|'), "%s", row->name);
    cr_expect_not_null(row->lower);
  }
  cr_expect_null(delta_op_find("", "relu"));
  cr_expect_null(delta_op_find("com.example", "Relu"));
}

// Imports one node of a family with inputs of `type`; whether that was accepted.
static bool accepts(const delta_op_info_t *row, const char *type) {
  char text[256];
  const char *inputs = row->max_inputs < 0 || row->min_inputs == 2 ? "x x" : "x";
  (void)snprintf(text, sizeof text, "opset 27; input x %s [2,3]; node %s %s -> y%s; output y", type, row->name, inputs,
                 strcmp(row->name, "Mod") == 0 ? " : fmod=1" : "");
  delta_model_t *model = delta_test_model_of(text);
  const delta_import_options_t options = {.training = true, .levers = DELTA_LEVERS_ALL};
  delta_graph_t *graph = NULL;
  delta_import_facts_t facts;
  delta_status_t status = delta_import(model, &options, delta_allocator_system(), &graph, &facts);
  bool accepted = status == NULL;
  delta_status_free(status);
  delta_graph_free(graph);
  delta_model_free(model);
  return accepted;
}

// Families of operators that one function lowers by a table of its own.
Test(import_table, families_know_their_operators) {
  delta_status_t (*const families[])(delta_lower_t *) = {delta_lower_unary, delta_lower_binary, delta_lower_variadic,
                                                         delta_lower_activation, delta_lower_reduce};
  size_t count = 0, tried = 0;
  const delta_op_info_t *rows = delta_op_table(&count);
  for (size_t k = 0; k < count; ++k) {
    for (size_t f = 0; f < sizeof families / sizeof *families; ++f) {
      if (rows[k].lower != families[f]) continue;
      tried += 1;
      cr_expect(accepts(&rows[k], "float32") || accepts(&rows[k], "int64") || accepts(&rows[k], "bool"), "%s", rows[k].name);
    }
  }
  cr_expect_gt(tried, 60);
}

Test(import_table, page_is_up_to_date) {
  delta_text_t page;
  delta_text_init(&page, delta_allocator_system());
  cr_assert_null(delta_operators_page(&page));
  char *committed = NULL;
  size_t size = 0;
  delta_status_t status =
      delta_file_read_all(DELTA_SOURCE_FOLDER "/docs/operators.md", 1 << 20, delta_allocator_system(), &committed, &size);
  cr_assert_null(status, "%s", delta_status_message(status));
  cr_expect(size == page.count && memcmp(committed, page.items, size) == 0,
            "docs/operators.md is not what the rows say: build the target 'docs'");
  free(committed);
  delta_text_deinit(&page);
}
