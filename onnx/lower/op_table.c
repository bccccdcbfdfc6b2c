// The table of all ONNX operators that Delta accepts, made from the rows of onnx/lower/ops.inc.
#include <string.h>

#include "onnx/lower/lower.h"

static const delta_op_info_t op_rows[] = {
#define DELTA_OP(domain, name, since, min_in, max_in, min_out, max_out, attributes, tier, function, notes) \
  {domain, name, since, min_in, max_in, min_out, max_out, attributes, tier, function, notes},
#include "onnx/lower/ops.inc"
#undef DELTA_OP
};
enum { OP_ROW_COUNT = sizeof op_rows / sizeof op_rows[0] };

const delta_op_info_t *delta_op_table(size_t *out_count) {
  *out_count = OP_ROW_COUNT;
  return op_rows;
}

static const delta_op_info_t *find_exact(const char *domain, const char *name) {
  for (size_t k = 0; k < OP_ROW_COUNT; ++k) {
    if (op_rows[k].name[0] == name[0] && strcmp(op_rows[k].name, name) == 0 && strcmp(op_rows[k].domain, domain) == 0) return &op_rows[k];
  }
  return NULL;
}

const delta_op_info_t *delta_op_find(const char *domain, const char *name) {
  const delta_op_info_t *row = find_exact(domain, name);
  // Training artifacts keep operators of the com.microsoft domain in the default one.
  if (row == NULL && domain[0] == '\0') row = find_exact("com.microsoft", name);
  return row;
}
