// Lowering of Einsum to transposes, views, products and sums.
//
// Note [Einsum]
// Every dimension of every operand carries a label: a letter, or one of the dimensions that "..." stands for, counted from the last. Operands are contracted
// from left to right; after each contraction a label stays only if the output or a later operand has it. A label repeated within an operand
// is its diagonal, a slice with a long step. Two operands meet in one matrix product: labels that both have and that stay
// are its batch, those that go are summed over, the others are rows and columns.
#include <string.h>

#include "onnx/lower/lower.h"

enum { LETTER_COUNT = 128, ELLIPSIS_FIRST = LETTER_COUNT, LABEL_COUNT = LETTER_COUNT + DELTA_MAX_RANK, NO_LABEL = LABEL_COUNT };

// Labels in the order of dimensions.
typedef struct labels {
  int32_t count;
  int32_t items[DELTA_MAX_RANK];
} labels_t;

// An operand on its way: a tensor and what its dimensions are.
typedef struct operand {
  delta_tensor_id_t id;
  labels_t labels;
} operand_t;

static bool has_label(const labels_t *labels, int32_t label) {
  for (int32_t k = 0; k < labels->count; ++k) {
    if (labels->items[k] == label) return true;
  }
  return false;
}

static void push_label(delta_lower_t *lower, labels_t *labels, int32_t label) {
  if (labels->count == DELTA_MAX_RANK) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "attribute 'equation' needs more than %d dimensions", DELTA_MAX_RANK);
    return;
  }
  labels->items[labels->count++] = label;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Number of letters of a term, spaces and "..." aside.
static int32_t letter_count(const char *term, const char *end) {
  int32_t count = 0;
  for (; term < end; ++term) count += is_letter(*term);
  return count;
}

// Reads one term; "..." stands for `ellipsis` dimensions.
static void read_term(delta_lower_t *lower, const char *term, const char *end, int32_t ellipsis, labels_t *labels) {
  bool seen = false;
  labels->count = 0;
  for (const char *at = term; at < end && delta_emit_ok(&lower->emit); ++at) {
    if (is_letter(*at)) {
      push_label(lower, labels, *at);
    } else if (*at == '.' && end - at >= 3 && at[1] == '.' && at[2] == '.' && !seen) {
      for (int32_t k = ellipsis; k > 0; --k) push_label(lower, labels, ELLIPSIS_FIRST + k - 1);
      seen = true;
      at += 2;
    } else if (*at != ' ') {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'equation' has '%c' where a letter or '...' is expected", *at);
    }
  }
}

static const char *find_in(const char *text, const char *end, char c) {
  const char *found = memchr(text, c, (size_t)(end - text));
  return found != NULL ? found : end;
}

// Reads the terms left of "->" and sets each operand; *out_ellipsis is the most dimensions that "..." stands for.
static void read_operands(delta_lower_t *lower, const char *text, const char *end, operand_t *operands, int32_t *out_ellipsis) {
  *out_ellipsis = 0;
  for (uint32_t k = 0; k < lower->input_count && delta_emit_ok(&lower->emit); ++k) {
    const char *stop = find_in(text, end, ',');
    int32_t rank = delta_emit_shape(&lower->emit, delta_lower_required(lower, k))->rank;
    bool has_ellipsis = find_in(text, stop, '.') != stop;
    int32_t ellipsis = has_ellipsis ? rank - letter_count(text, stop) : 0;
    operands[k].id = lower->inputs[k];
    read_term(lower, text, stop, ellipsis > 0 ? ellipsis : 0, &operands[k].labels);
    if (delta_emit_ok(&lower->emit) && (operands[k].labels.count != rank || (stop == end) != (k + 1 == lower->input_count))) {
      (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'equation' does not fit %u inputs, of which input %u has rank %d",
                             lower->input_count, k, rank);
    }
    if (ellipsis > *out_ellipsis) *out_ellipsis = ellipsis;
    text = stop < end ? stop + 1 : end;
  }
}

// Without "->": the dimensions of "...", then the letters that occur once, in order.
static void implicit_output(delta_lower_t *lower, const operand_t *operands, int32_t ellipsis, labels_t *output) {
  uint32_t seen[LETTER_COUNT] = {0};
  output->count = 0;
  for (uint32_t k = 0; k < lower->input_count; ++k) {
    for (int32_t d = 0; d < operands[k].labels.count; ++d) {
      if (operands[k].labels.items[d] < LETTER_COUNT) seen[operands[k].labels.items[d]] += 1;
    }
  }
  for (int32_t k = ellipsis; k > 0; --k) push_label(lower, output, ELLIPSIS_FIRST + k - 1);
  for (int32_t label = 0; label < LETTER_COUNT; ++label) {
    if (seen[label] == 1) push_label(lower, output, label);
  }
}

static void check_output(delta_lower_t *lower, const operand_t *operands, const labels_t *output) {
  for (int32_t d = 0; d < output->count; ++d) {
    bool known = false, twice = false;
    for (uint32_t k = 0; k < lower->input_count; ++k) known = known || has_label(&operands[k].labels, output->items[d]);
    for (int32_t other = 0; other < d; ++other) twice = twice || output->items[other] == output->items[d];
    if (known && !twice) continue;
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'equation': a dimension of the output %s",
                           twice ? "is named twice" : "is in no input");
  }
}

// Reorders dimensions; the permuted labels are the operand's from then on.
static void permute(delta_lower_t *lower, operand_t *operand, const labels_t *order) {
  int32_t permutation[DELTA_MAX_RANK] = {0};
  for (int32_t d = 0; d < order->count; ++d) {
    while (permutation[d] < operand->labels.count && operand->labels.items[permutation[d]] != order->items[d]) ++permutation[d];
  }
  operand->id = delta_emit_transpose(&lower->emit, operand->id, permutation);
  operand->labels = *order;
}

// Keeps the diagonal of dimensions a < b, which have one label: moved last they are a matrix, and every (size + 1)-th element of it stays.
static void take_diagonal(delta_lower_t *lower, operand_t *operand, int32_t a, int32_t b) {
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, operand->id);
  int64_t size = shape.dims[a];
  if (shape.dims[b] != size) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'equation': a label repeated in one input stands for %lld and %lld",
                           (long long)size, (long long)shape.dims[b]);
    return;
  }
  int32_t permutation[DELTA_MAX_RANK] = {0}, count = 0;
  labels_t labels = {.count = 0};
  delta_shape_t flat = {.rank = shape.rank - 1};
  for (int32_t d = 0; d < shape.rank; ++d) {
    if (d == a || d == b) continue;
    labels.items[labels.count++] = operand->labels.items[d];
    flat.dims[count] = shape.dims[d];
    permutation[count++] = d;
  }
  labels.items[labels.count++] = operand->labels.items[a];
  permutation[count] = a;
  permutation[count + 1] = b;
  flat.dims[count] = size * size;
  delta_tensor_id_t matrix = delta_emit_view(&lower->emit, delta_emit_transpose(&lower->emit, operand->id, permutation), &flat);
  delta_slice_attrs_t attrs = {.shape = flat, .data_shape = flat};
  for (int32_t d = 0; d < flat.rank; ++d) attrs.steps[d] = 1;
  attrs.shape.dims[count] = size;
  if (size > 1) attrs.steps[count] = size + 1;
  operand->id = DELTA_EMIT(&lower->emit, SLICE, attrs, matrix);
  operand->labels = labels;
}

static void take_diagonals(delta_lower_t *lower, operand_t *operand) {
  for (int32_t a = 0; a < operand->labels.count && delta_emit_ok(&lower->emit); ++a) {
    for (int32_t b = a + 1; b < operand->labels.count; ++b) {
      if (operand->labels.items[a] != operand->labels.items[b]) continue;
      take_diagonal(lower, operand, a, b);
      a = -1; // the dimensions have moved
      break;
    }
  }
}

static delta_shape_t drop_dims(const delta_shape_t *shape, uint32_t axes) {
  delta_shape_t kept = {.rank = 0};
  for (int32_t d = 0; d < shape->rank; ++d) {
    if (!(axes >> d & 1u)) kept.dims[kept.rank++] = shape->dims[d];
  }
  return kept;
}

// Sums over the dimensions whose labels neither `kept` nor `other` (or NULL) has.
static void sum_out(delta_lower_t *lower, operand_t *operand, const labels_t *kept, const labels_t *other) {
  uint32_t axes = 0;
  labels_t labels = {.count = 0};
  for (int32_t d = 0; d < operand->labels.count; ++d) {
    int32_t label = operand->labels.items[d];
    bool stays = has_label(kept, label) || (other != NULL && has_label(other, label));
    if (stays) labels.items[labels.count++] = label;
    if (!stays) axes |= 1u << d;
  }
  if (axes == 0) return;
  delta_tensor_id_t sum = delta_emit_reduce(&lower->emit, DELTA_REDUCE_SUM, operand->id, axes);
  const delta_shape_t shape = drop_dims(delta_emit_shape(&lower->emit, operand->id), axes);
  operand->id = delta_emit_view(&lower->emit, sum, &shape);
  operand->labels = labels;
}

static int64_t label_size(delta_lower_t *lower, const operand_t *operand, int32_t label) {
  const delta_shape_t *shape = delta_emit_shape(&lower->emit, operand->id);
  for (int32_t d = 0; d < operand->labels.count; ++d) {
    if (operand->labels.items[d] == label) return shape->dims[d];
  }
  return 1;
}

// A label that both have must be of one size; a dimension of 1 is repeated.
static void agree_on_sizes(delta_lower_t *lower, operand_t *a, const operand_t *b) {
  delta_shape_t shape = *delta_emit_shape(&lower->emit, a->id);
  for (int32_t d = 0; d < a->labels.count; ++d) {
    int64_t other = has_label(&b->labels, a->labels.items[d]) ? label_size(lower, b, a->labels.items[d]) : shape.dims[d];
    if (shape.dims[d] == 1) shape.dims[d] = other;
    if (shape.dims[d] == other || other == 1) continue;
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'equation': a label stands for %lld and for %lld",
                           (long long)shape.dims[d], (long long)other);
    return;
  }
  a->id = delta_emit_expand(&lower->emit, a->id, &shape);
}

// How the labels of two operands meet in a product.
typedef struct meeting {
  labels_t batch, summed, rows, columns;
} meeting_t;

static meeting_t meet(const operand_t *a, const operand_t *b, const labels_t *kept) {
  meeting_t meeting = {.batch = {.count = 0}};
  for (int32_t d = 0; d < a->labels.count; ++d) {
    int32_t label = a->labels.items[d];
    labels_t *list = !has_label(&b->labels, label) ? &meeting.rows : has_label(kept, label) ? &meeting.batch : &meeting.summed;
    list->items[list->count++] = label;
  }
  for (int32_t d = 0; d < b->labels.count; ++d) {
    if (!has_label(&a->labels, b->labels.items[d])) meeting.columns.items[meeting.columns.count++] = b->labels.items[d];
  }
  return meeting;
}

static int64_t label_product(delta_lower_t *lower, const operand_t *operand, const labels_t *labels) {
  int64_t product = 1;
  for (int32_t d = 0; d < labels->count; ++d) product *= label_size(lower, operand, labels->items[d]);
  return product;
}

// Appends labels; false when they do not fit.
static bool append_labels(labels_t *to, const labels_t *from) {
  if (to->count + from->count > DELTA_MAX_RANK) return false;
  for (int32_t d = 0; d < from->count; ++d) to->items[to->count++] = from->items[d];
  return true;
}

// An operand as [batch, outer, inner].
static delta_tensor_id_t as_matrices(delta_lower_t *lower, operand_t *operand, const labels_t *batch, const labels_t *outer,
                                     const labels_t *inner) {
  labels_t order = *batch;
  (void)append_labels(&order, outer); // all labels are the operand's own
  (void)append_labels(&order, inner);
  permute(lower, operand, &order);
  const delta_shape_t shape = {
      .rank = 3,
      .dims = {label_product(lower, operand, batch), label_product(lower, operand, outer), label_product(lower, operand, inner)}};
  return delta_emit_view(&lower->emit, operand->id, &shape);
}

// a := the product of a and b, summed over labels that are in both and not in `kept`.
static void contract(delta_lower_t *lower, operand_t *a, operand_t *b, const labels_t *kept) {
  sum_out(lower, a, kept, &b->labels);
  sum_out(lower, b, kept, &a->labels);
  agree_on_sizes(lower, a, b);
  agree_on_sizes(lower, b, a);
  if (!delta_emit_ok(&lower->emit)) return;
  const meeting_t meeting = meet(a, b, kept);
  labels_t labels = meeting.batch;
  if (!append_labels(&labels, &meeting.rows) || !append_labels(&labels, &meeting.columns)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "attribute 'equation' needs more than %d dimensions", DELTA_MAX_RANK);
    return;
  }
  delta_shape_t shape = {.rank = labels.count};
  for (int32_t d = 0; d < labels.count; ++d) {
    shape.dims[d] = label_size(lower, has_label(&a->labels, labels.items[d]) ? a : b, labels.items[d]);
  }
  delta_tensor_id_t left = as_matrices(lower, a, &meeting.batch, &meeting.rows, &meeting.summed);
  delta_tensor_id_t right = as_matrices(lower, b, &meeting.batch, &meeting.summed, &meeting.columns);
  // Where nothing is summed, the product of a column and a row is a broadcast.
  delta_tensor_id_t product = meeting.summed.count > 0 ? delta_emit_matmul(&lower->emit, left, right, false, false)
                                                       : delta_emit_binary(&lower->emit, DELTA_EXPR_MUL, left, right);
  a->id = delta_emit_view(&lower->emit, product, &shape);
  a->labels = labels;
}

// The labels of the operands before `next` that the output or a later operand has.
static labels_t needed_labels(delta_lower_t *lower, const operand_t *operands, uint32_t next, const labels_t *output) {
  labels_t needed = {.count = 0};
  for (uint32_t k = 0; k < next; ++k) {
    for (int32_t d = 0; d < operands[k].labels.count; ++d) {
      int32_t label = operands[k].labels.items[d];
      bool later = has_label(output, label);
      for (uint32_t other = next; other < lower->input_count; ++other) later = later || has_label(&operands[other].labels, label);
      if (later && !has_label(&needed, label)) push_label(lower, &needed, label);
    }
  }
  return needed;
}

// Reads "a,b,...->c" into operands and the output's labels.
static void read_equation(delta_lower_t *lower, operand_t *operands, labels_t *output) {
  const char *text = delta_lower_string(lower, "equation", "");
  const char *arrow = strstr(text, "->");
  const char *end = text + strlen(text);
  int32_t ellipsis = 0;
  output->count = 0;
  read_operands(lower, text, arrow != NULL ? arrow : end, operands, &ellipsis);
  if (arrow != NULL) {
    read_term(lower, arrow + 2, end, ellipsis, output);
  } else {
    implicit_output(lower, operands, ellipsis, output);
  }
  if (delta_emit_ok(&lower->emit)) check_output(lower, operands, output);
}

delta_status_t delta_lower_einsum(delta_lower_t *lower) {
  operand_t *operands = NULL;
  labels_t output;
  if (!delta_lower_same_types(lower, 0)) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&lower->emit.graph->region, lower->input_count, &operands));
  read_equation(lower, operands, &output);
  for (uint32_t k = 0; k < lower->input_count && delta_emit_ok(&lower->emit); ++k) take_diagonals(lower, &operands[k]);
  for (uint32_t k = 1; k < lower->input_count && delta_emit_ok(&lower->emit); ++k) {
    const labels_t kept = needed_labels(lower, operands, k + 1, &output);
    contract(lower, &operands[0], &operands[k], &kept);
  }
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  sum_out(lower, &operands[0], &output, NULL);
  permute(lower, &operands[0], &output);
  lower->outputs[0] = operands[0].id;
  return DELTA_OK;
}
