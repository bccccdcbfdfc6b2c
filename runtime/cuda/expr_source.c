// Expression source: what is particular to one expression; the rest of a kernel's text is that of the headers it begins and ends with.
#include "runtime/cuda/expr_source.h"

#include <inttypes.h>
#include <math.h>

#include "delta_cuda_texts.h"

static const char *storage_type(delta_dtype_t dtype) {
  static const char *const names[DELTA_DTYPE_COUNT] = {
      [DELTA_DTYPE_FLOAT32] = "float",           [DELTA_DTYPE_FLOAT64] = "double",
      [DELTA_DTYPE_FLOAT16] = "delta_float16_t", [DELTA_DTYPE_BFLOAT16] = "delta_bfloat16_t",
      [DELTA_DTYPE_INT32] = "int32_t",           [DELTA_DTYPE_INT64] = "int64_t",
      [DELTA_DTYPE_BOOL] = "delta_bool_t",       [DELTA_DTYPE_UINT8] = "uint8_t",
  };
  return names[dtype];
}

static delta_status_t append_real(delta_text_t *text, double value) {
  if (isnan(value)) return delta_text_append(text, "(work_t)NAN");
  if (isinf(value)) return delta_text_append(text, value < 0 ? "(work_t)-INFINITY" : "(work_t)INFINITY");
  return delta_text_append(text, "(work_t)%a", value);
}

static delta_status_t append_integer(delta_text_t *text, int64_t value) {
  if (value == INT64_MIN) return delta_text_append(text, "DELTA_INT64_LEAST");
  return delta_text_append(text, "(work_t)%" PRId64 "LL", value);
}

// One instruction as a constant v<i>.
static delta_status_t append_instr(delta_text_t *text, const delta_expr_t *expr, uint16_t i) {
  const delta_expr_instr_t *instr = &expr->instrs[i];
  DELTA_RETURN_IF_ERROR(delta_text_append(text, "  const work_t v%u = ", i));
  if (instr->op == DELTA_EXPR_INPUT) {
    DELTA_RETURN_IF_ERROR(delta_text_append(text, "x[%u]", instr->operands[0]));
  } else if (instr->op == DELTA_EXPR_CONST) {
    DELTA_RETURN_IF_ERROR(expr->compute == DELTA_DTYPE_INT64 ? append_integer(text, instr->immediate.integer)
                                                             : append_real(text, instr->immediate.real));
  } else {
    const delta_expr_op_info_t *info = delta_expr_op_info((delta_expr_op_t)instr->op);
    DELTA_RETURN_IF_ERROR(delta_text_append(text, "delta_op_%s(", info->name));
    for (int k = 0; k < info->arity; ++k) DELTA_RETURN_IF_ERROR(delta_text_append(text, k ? ", v%u" : "v%u", instr->operands[k]));
    DELTA_RETURN_IF_ERROR(delta_text_append(text, ")"));
  }
  return delta_text_append(text, ";\n");
}

static delta_status_t append_expression(delta_text_t *text, const delta_expr_t *expr) {
  DELTA_RETURN_IF_ERROR(delta_text_append(text, "DELTA_DEVICE void delta_expression(const work_t *x, work_t *y) {\n"));
  for (uint16_t i = 0; i < expr->instr_count; ++i) DELTA_RETURN_IF_ERROR(append_instr(text, expr, i));
  for (uint16_t k = 0; k < expr->output_count; ++k) DELTA_RETURN_IF_ERROR(delta_text_append(text, "  y[%u] = v%u;\n", k, expr->outputs[k]));
  return delta_text_append(text, "}\n");
}

// The name of a kind and what its running result begins with: extremes in the type that is compared, since a float expression may be stored as an integer.
static delta_status_t append_kind(delta_text_t *text, delta_reduce_kind_t kind, delta_dtype_t stored, bool real) {
#define DELTA_KIND_NAME(id, name) name,
  static const char *const names[] = {DELTA_REDUCE_KINDS(DELTA_KIND_NAME)};
#undef DELTA_KIND_NAME
  static const char *const extremes[DELTA_DTYPE_COUNT][2] = {
      [DELTA_DTYPE_INT32] = {"-2147483648LL", "2147483647LL"},
      [DELTA_DTYPE_BOOL] = {"0", "1"},
      [DELTA_DTYPE_UINT8] = {"0", "255"},
  };
  const char *start = kind == DELTA_REDUCE_PROD ? "1" : "0";
  if (kind == DELTA_REDUCE_MAX || kind == DELTA_REDUCE_MIN) {
    const bool highest = kind == DELTA_REDUCE_MIN;
    if (real)
      start = highest ? "INFINITY" : "-INFINITY";
    else
      start = extremes[stored][highest] ? extremes[stored][highest] : highest ? "DELTA_INT64_MOST" : "DELTA_INT64_LEAST";
  }
  return delta_text_append(text, ", %s, (number_t)%s)", names[kind], start);
}

// The inputs that sets share, or (with their places) those that they have each; all, when there are no sets.
static delta_status_t append_inputs(delta_text_t *text, const delta_expr_form_t *form, const char *list, bool shared) {
  DELTA_RETURN_IF_ERROR(delta_text_append(text, "#define %s(X)", list));
  uint16_t place = 0;
  for (uint16_t k = 0; k < form->expr->input_count; ++k) {
    if (form->is_each && (form->shared >> k & 1) != shared) continue;
    DELTA_RETURN_IF_ERROR(delta_text_append(text, " X(%u, %s", k, storage_type(form->inputs[k])));
    DELTA_RETURN_IF_ERROR(form->is_each && !shared ? delta_text_append(text, ", %u)", place++) : delta_text_append(text, ")"));
  }
  return delta_text_append(text, "\n");
}

// The lists of inputs and outputs, as macros.
static delta_status_t append_lists(delta_text_t *text, const delta_expr_form_t *form, bool real) {
  const delta_expr_t *expr = form->expr;
  if (form->is_each) {
    DELTA_RETURN_IF_ERROR(append_inputs(text, form, "DELTA_EACH_SHARED", true));
    DELTA_RETURN_IF_ERROR(append_inputs(text, form, "DELTA_EACH_OWN", false));
  } else {
    DELTA_RETURN_IF_ERROR(append_inputs(text, form, "DELTA_EACH_INPUT", false));
  }
  DELTA_RETURN_IF_ERROR(delta_text_append(text, "#define DELTA_EACH_OUTPUT(X)"));
  for (uint16_t k = 0; k < expr->output_count; ++k) {
    DELTA_RETURN_IF_ERROR(delta_text_append(text, " X(%u, %s", k, storage_type(form->outputs[k])));
    DELTA_RETURN_IF_ERROR(form->kinds ? append_kind(text, form->kinds[k], form->outputs[k], real) : delta_text_append(text, ")"));
  }
  return delta_text_append(text, "\n");
}

// Words of a set: what stands before its addresses, and these.
static int set_words(const delta_expr_form_t *form) {
  enum { BEFORE_ADDRESSES = 2 };
  int own = form->expr->output_count;
  for (uint16_t k = 0; k < form->expr->input_count; ++k) own += !(form->shared >> k & 1);
  return BEFORE_ADDRESSES + own;
}

delta_status_t delta_expr_source(const delta_expr_form_t *form, delta_text_t *text) {
  const delta_expr_t *expr = form->expr;
  const bool real = expr->compute != DELTA_DTYPE_INT64;
  DELTA_RETURN_IF_ERROR(delta_text_append(text, "#define DELTA_DEVICE_TEXT 1\n%s%s%s%s%s", delta_text_element, delta_text_index,
                                          delta_text_expr_args, delta_text_expr_math, delta_text_expr_device));
  DELTA_RETURN_IF_ERROR(
      delta_text_append(text, "typedef %s work_t;\ntypedef %s number_t;\n", storage_type(expr->compute), real ? "double" : "int64_t"));
  DELTA_RETURN_IF_ERROR(delta_text_append(text, "enum { DELTA_RANK = %d, DELTA_GROUP = %d, DELTA_INPUTS = %u, DELTA_OUTPUTS = %u };\n",
                                          form->rank, form->group, expr->input_count, expr->output_count));
  DELTA_RETURN_IF_ERROR(append_lists(text, form, real));
  DELTA_RETURN_IF_ERROR(append_expression(text, expr));
  DELTA_RETURN_IF_ERROR(delta_text_append(text, "%s", delta_text_expr_group));
  if (form->is_each) return delta_text_append(text, "enum { DELTA_SET_WORDS = %d };\n%s", set_words(form), delta_text_expr_each);
  if (!form->kinds) return delta_text_append(text, "%s", delta_text_expr_pointwise);
  return delta_text_append(text, "enum { DELTA_KEPT_RANK = %d, DELTA_TEAM = %d, DELTA_TEAMS = %d, DELTA_ALONG = %d };\n%s", form->kept_rank,
                           form->team, form->teams, form->along, delta_text_expr_reduce);
}
