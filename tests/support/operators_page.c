// Operators page: see operators_page.h.
#include "tests/support/operators_page.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/lower/lower.h"

static int by_domain_and_name(const void *a, const void *b) {
  const delta_op_info_t *left = *(const delta_op_info_t *const *)a, *right = *(const delta_op_info_t *const *)b;
  int order = strcmp(left->domain, right->domain);
  return order ? order : strcmp(left->name, right->name);
}

// "2", "2 to 3", "1 or more"
static const char *arity_text(int32_t least, int32_t most, char buffer[32]) {
  if (most < 0) {
    (void)snprintf(buffer, 32, "%d or more", least);
  } else if (most == least) {
    (void)snprintf(buffer, 32, "%d", least);
  } else {
    (void)snprintf(buffer, 32, "%d to %d", least, most);
  }
  return buffer;
}

static delta_status_t append_attributes(delta_text_t *text, const char *list) {
  while (*list != '\0') {
    size_t length = strcspn(list, ",");
    DELTA_RETURN_IF_ERROR(delta_text_append(text, " `%.*s`", (int)length, list));
    list += length;
    list += *list == ',';
  }
  return DELTA_OK;
}

static delta_status_t append_row(delta_text_t *text, const delta_op_info_t *row) {
  char inputs[32], outputs[32];
  DELTA_RETURN_IF_ERROR(delta_text_append(text, "| %s | %d | %s | %s | %s |", row->name, row->since, row->tier,
                                          arity_text(row->min_inputs, row->max_inputs, inputs),
                                          arity_text(row->min_outputs, row->max_outputs, outputs)));
  DELTA_RETURN_IF_ERROR(append_attributes(text, row->attributes));
  return delta_text_append(text, " |%s%s |\n", row->notes[0] ? " " : "", row->notes);
}

static delta_status_t append_rows(delta_text_t *text, const delta_op_info_t *const *rows, size_t count) {
  for (size_t k = 0; k < count; ++k) {
    if (k == 0 || strcmp(rows[k]->domain, rows[k - 1]->domain) != 0) {
      const char *domain = rows[k]->domain[0] ? rows[k]->domain : "ai.onnx (the default domain)";
      DELTA_RETURN_IF_ERROR(
          delta_text_append(text, "\n## %s\n\n| Operator | From opset | Tier | Inputs | Outputs | Attributes | Notes |\n", domain));
      DELTA_RETURN_IF_ERROR(delta_text_append(text, "|---|---|---|---|---|---|---|\n"));
    }
    DELTA_RETURN_IF_ERROR(append_row(text, rows[k]));
  }
  return DELTA_OK;
}

delta_status_t delta_operators_page(delta_text_t *out_text) {
  DELTA_RETURN_IF_ERROR(delta_text_append(
      out_text,
      "# Operators\n\n"
      "Generated from the rows of `onnx/lower/ops.inc` by the build target `docs`; a test compares this file with them.\n\n"
      "Models of opsets 7 to 27 are supported, each operator with its meaning at the model's opset. Of a newer opset operators are read "
      "as\n"
      "in 27, with a note; of opsets 1 to 6 those that have not changed since. \"From opset\" is the first at which\n"
      "the operator is supported. Tier T0 is what convolutional networks and perceptrons need, T1 transformers, U-Nets and\n"
      "recurrent networks, T2 the rest. Operators that are not listed are reported together when a model is loaded.\n"));
  size_t count = 0;
  const delta_op_info_t *table = delta_op_table(&count);
  const delta_op_info_t **rows = calloc(count, sizeof *rows);
  if (rows == NULL) return delta_status_make(OUT_OF_MEMORY, "the rows of %zu operators", count);
  for (size_t k = 0; k < count; ++k) rows[k] = &table[k];
  qsort(rows, count, sizeof *rows, by_domain_and_name);
  delta_status_t status = append_rows(out_text, rows, count);
  free(rows);
  return status;
}
