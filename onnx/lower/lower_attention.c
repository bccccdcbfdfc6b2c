// Lowering of Attention to products and a softmax, and of RotaryEmbedding.
//
// Note [Grouped heads]
// When several query heads share a key and value head, the rows of those query heads are one matrix: nothing is repeated, and the gradient of the
// shared head is one product as well.
#include <math.h>

#include "onnx/lower/formula.h"
#include "onnx/lower/lower.h"

enum { INPUT_QUERY, INPUT_KEY, INPUT_VALUE, INPUT_MASK, INPUT_PAST_KEY, INPUT_PAST_VALUE, INPUT_LENGTHS };
enum { OUTPUT_Y, OUTPUT_PRESENT_KEY, OUTPUT_PRESENT_VALUE, OUTPUT_SCORES };
// What the output of scores holds: the scaled products, or those after the soft cap, after the mask, or the softmax.
enum { SCORES_PRODUCT, SCORES_CAPPED, SCORES_MASKED, SCORES_SOFTMAX, SCORES_COUNT };

typedef struct attention {
  int64_t batch, query_heads, key_heads, queries, keys, head_size, value_size;
  int64_t past; // keys that come from the past
  bool flat;    // inputs and output are [batch, sequence, heads * size]
  bool causal;
  double scale, softcap; // softcap 0: none
  int64_t scores_mode;
  delta_tensor_id_t query, key, value; // [batch, heads, sequence, size]
} attention_t;

// One of the three inputs as [batch, heads, sequence, size].
static delta_tensor_id_t split_heads(delta_lower_t *lower, uint32_t input, const char *heads_attribute) {
  static const int32_t heads_before_sequence[4] = {0, 2, 1, 3};
  delta_tensor_id_t x = delta_lower_required(lower, input);
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, x);
  if (!delta_emit_ok(&lower->emit) || shape.rank == 4) return x;
  int64_t heads = delta_lower_int(lower, heads_attribute, 0);
  if (shape.rank != 3 || heads < 1 || shape.dims[2] % heads != 0) {
    return delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "input %u has rank %d and attribute '%s' is %lld", input, shape.rank,
                            heads_attribute, (long long)heads);
  }
  const delta_shape_t apart = {.rank = 4, .dims = {shape.dims[0], shape.dims[1], heads, shape.dims[2] / heads}};
  return delta_emit_transpose(&lower->emit, delta_emit_view(&lower->emit, x, &apart), heads_before_sequence);
}

// Keys or values with those of the past before them; they are an output.
static delta_tensor_id_t with_past(delta_lower_t *lower, delta_tensor_id_t x, uint32_t past_input, uint32_t output) {
  delta_tensor_id_t past = delta_lower_input(lower, past_input);
  const delta_tensor_id_t parts[2] = {past, x};
  if (!delta_tensor_is_none(past)) x = delta_emit_concat(&lower->emit, parts, 2, 2);
  if (delta_lower_output_wanted(lower, output)) lower->outputs[output] = x;
  return x;
}

static bool read_attention(delta_lower_t *lower, attention_t *a) {
  a->flat = delta_emit_shape(&lower->emit, delta_lower_required(lower, INPUT_QUERY))->rank == 3;
  a->query = split_heads(lower, INPUT_QUERY, "q_num_heads");
  a->key = with_past(lower, split_heads(lower, INPUT_KEY, "kv_num_heads"), INPUT_PAST_KEY, OUTPUT_PRESENT_KEY);
  a->value = with_past(lower, split_heads(lower, INPUT_VALUE, "kv_num_heads"), INPUT_PAST_VALUE, OUTPUT_PRESENT_VALUE);
  const delta_shape_t q = *delta_emit_shape(&lower->emit, a->query), k = *delta_emit_shape(&lower->emit, a->key);
  const delta_shape_t v = *delta_emit_shape(&lower->emit, a->value);
  if (!delta_emit_ok(&lower->emit)) return false;
  bool fits = q.dims[0] == k.dims[0] && q.dims[0] == v.dims[0] && k.dims[1] == v.dims[1] && k.dims[2] == v.dims[2] &&
              q.dims[3] == k.dims[3] && k.dims[1] > 0 && q.dims[1] % k.dims[1] == 0 && q.dims[3] > 0;
  if (!fits) {
    char q_text[DELTA_SHAPE_TEXT_BYTES], k_text[DELTA_SHAPE_TEXT_BYTES], v_text[DELTA_SHAPE_TEXT_BYTES];
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "queries %s, keys %s and values %s do not fit", delta_shape_text(&q, q_text),
                           delta_shape_text(&k, k_text), delta_shape_text(&v, v_text));
    return false;
  }
  a->batch = q.dims[0];
  a->query_heads = q.dims[1];
  a->key_heads = k.dims[1];
  a->queries = q.dims[2];
  a->keys = k.dims[2];
  a->head_size = q.dims[3];
  a->value_size = v.dims[3];
  delta_tensor_id_t past = delta_lower_input(lower, INPUT_PAST_KEY);
  a->past = delta_tensor_is_none(past) ? 0 : delta_emit_shape(&lower->emit, past)->dims[2];
  a->causal = delta_lower_int(lower, "is_causal", 0) != 0;
  a->scale = delta_lower_float(lower, "scale", 1.0 / sqrt((double)a->head_size));
  a->softcap = delta_lower_float(lower, "softcap", 0.0);
  a->scores_mode = delta_lower_int(lower, "qk_matmul_output_mode", 0);
  if (a->scores_mode < 0 || a->scores_mode >= SCORES_COUNT) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "attribute 'qk_matmul_output_mode' is %lld", (long long)a->scores_mode);
  }
  return delta_emit_ok(&lower->emit);
}

// The mask, its last dimension filled up to the keys with what hides them; NONE when there is none.
static delta_tensor_id_t read_mask(delta_lower_t *lower, const attention_t *a) {
  delta_tensor_id_t mask = delta_lower_input(lower, INPUT_MASK);
  if (delta_tensor_is_none(mask)) return mask;
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, mask);
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, mask);
  if (dtype != DELTA_DTYPE_BOOL && !delta_dtype_is_float(dtype)) {
    return delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the mask is %s; it must be bool or of a float type", delta_dtype_name(dtype));
  }
  int64_t last = shape.rank > 0 ? shape.dims[shape.rank - 1] : 1;
  if (shape.rank == 0 || last == 1 || last >= a->keys) return mask;
  delta_pad_attrs_t attrs = {.mode = DELTA_PAD_CONSTANT, .data_shape = shape, .value = dtype == DELTA_DTYPE_BOOL ? 0.0 : -INFINITY};
  attrs.end[shape.rank - 1] = a->keys - last;
  return DELTA_EMIT(&lower->emit, PAD, attrs, mask);
}

// A score where `visible`, else minus infinity.
static uint16_t hide(delta_formula_t *f, uint16_t visible, uint16_t score) {
  return delta_formula_select(f, visible, score, delta_formula_real(f, -INFINITY));
}

// What hides keys: the mask, the order of time, the number of keys that are no padding. The positions of the inputs in the formula.
typedef struct hiding {
  bool has_mask, mask_is_bool, has_lengths;
  uint16_t mask, key, row, lengths;
} hiding_t;

static uint16_t apply_hiding(const attention_t *a, const hiding_t *hiding, delta_formula_t *f, uint16_t score) {
  if (hiding->has_mask) {
    uint16_t mask = delta_formula_input(f, hiding->mask);
    score = hiding->mask_is_bool ? hide(f, mask, score) : delta_formula_add(f, score, mask);
  }
  if (hiding->has_lengths) {
    uint16_t key = delta_formula_input(f, hiding->key), length = delta_formula_input(f, hiding->lengths);
    score = hide(f, delta_formula_binary(f, DELTA_EXPR_LT, key, length), score);
  }
  if (a->causal) {
    uint16_t last = delta_formula_add(f, delta_formula_input(f, hiding->row), delta_formula_real(f, (double)a->past));
    // Where keys are kept outside the node, padding lies at their end: the last query is that of the last key that counts.
    if (hiding->has_lengths && a->past == 0) {
      uint16_t offset = delta_formula_sub(f, delta_formula_input(f, hiding->lengths), delta_formula_real(f, (double)a->queries));
      last = delta_formula_add(f, delta_formula_input(f, hiding->row), offset);
    }
    score = hide(f, delta_formula_binary(f, DELTA_EXPR_LE, delta_formula_input(f, hiding->key), last), score);
  }
  return score;
}

// Scaled, masked and capped scores. *out_shown: what the node shows of them, where it does.
static delta_tensor_id_t emit_scores(delta_lower_t *lower, const attention_t *a, delta_tensor_id_t product, delta_tensor_id_t *out_shown) {
  delta_tensor_id_t mask = read_mask(lower, a), lengths = delta_lower_input(lower, INPUT_LENGTHS), inputs[5] = {product};
  if (!delta_emit_ok(&lower->emit)) return DELTA_TENSOR_NONE;
  hiding_t hiding = {.has_mask = !delta_tensor_is_none(mask), .has_lengths = !delta_tensor_is_none(lengths)};
  uint16_t count = 1;
  hiding.mask_is_bool = hiding.has_mask && delta_emit_dtype(&lower->emit, mask) == DELTA_DTYPE_BOOL;
  if (hiding.has_mask) inputs[hiding.mask = count++] = mask;
  if (hiding.has_lengths || a->causal) inputs[hiding.key = count++] = delta_formula_positions(&lower->emit, a->keys, 0);
  if (a->causal) inputs[hiding.row = count++] = delta_formula_positions(&lower->emit, a->queries, 1);
  if (hiding.has_lengths) {
    inputs[hiding.lengths = count++] = delta_emit_view(&lower->emit, lengths, &(delta_shape_t){.rank = 4, .dims = {a->batch, 1, 1, 1}});
  }
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, inputs, count);
  uint16_t stages[SCORES_SOFTMAX];
  stages[SCORES_PRODUCT] = delta_formula_mul(&f, delta_formula_input(&f, 0), delta_formula_real(&f, a->scale));
  uint16_t capped = stages[SCORES_PRODUCT];
  if (a->softcap > 0.0) {
    capped = delta_formula_unary(&f, DELTA_EXPR_TANH, delta_formula_div(&f, capped, delta_formula_real(&f, a->softcap)));
    capped = delta_formula_mul(&f, capped, delta_formula_real(&f, a->softcap));
  }
  stages[SCORES_CAPPED] = capped;
  stages[SCORES_MASKED] = apply_hiding(a, &hiding, &f, capped);
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, product);
  delta_tensor_id_t outputs[DELTA_EXPR_MAX_OUTPUTS];
  bool shows = delta_lower_output_wanted(lower, OUTPUT_SCORES) && a->scores_mode != SCORES_SOFTMAX;
  delta_expr_output(&f.builder, stages[SCORES_MASKED]);
  if (shows) delta_expr_output(&f.builder, stages[a->scores_mode]);
  delta_emit_exprs(&lower->emit, &f.builder, (const delta_dtype_t[]){dtype, dtype}, inputs, count, outputs);
  *out_shown = shows ? outputs[1] : DELTA_TENSOR_NONE;
  return outputs[0];
}

delta_status_t delta_lower_attention(delta_lower_t *lower) {
  static const int32_t sequence_before_heads[4] = {0, 2, 1, 3};
  attention_t a = {.batch = 0};
  if (!read_attention(lower, &a)) return DELTA_OK;
  const int64_t rows = a.query_heads / a.key_heads * a.queries;
  const delta_shape_t grouped = {.rank = 4, .dims = {a.batch, a.key_heads, rows, a.head_size}};
  const delta_shape_t scores_shape = {.rank = 4, .dims = {a.batch, a.query_heads, a.queries, a.keys}};
  const delta_shape_t weights_shape = {.rank = 4, .dims = {a.batch, a.key_heads, rows, a.keys}};
  const delta_shape_t result = {.rank = 4, .dims = {a.batch, a.query_heads, a.queries, a.value_size}};
  const delta_softmax_attrs_t softmax = {.axis = 3};
  delta_emit_t *emit = &lower->emit;
  delta_tensor_id_t shown = DELTA_TENSOR_NONE;
  delta_tensor_id_t product = delta_emit_matmul(emit, delta_emit_view(emit, a.query, &grouped), a.key, false, true);
  delta_tensor_id_t scores = emit_scores(lower, &a, delta_emit_view(emit, product, &scores_shape), &shown);
  delta_tensor_id_t weights = DELTA_EMIT(emit, SOFTMAX, softmax, scores);
  if (delta_lower_output_wanted(lower, OUTPUT_SCORES)) lower->outputs[OUTPUT_SCORES] = delta_tensor_is_none(shown) ? weights : shown;
  delta_tensor_id_t y = delta_emit_matmul(emit, delta_emit_view(emit, weights, &weights_shape), a.value, false, false);
  y = delta_emit_view(emit, y, &result);
  if (a.flat) {
    int64_t width = 0;
    if (!delta_int64_mul(a.query_heads, a.value_size, &width)) return delta_status_make(UNSUPPORTED, "the result is too large");
    const delta_shape_t flat = {.rank = 3, .dims = {a.batch, a.queries, width}};
    y = delta_emit_view(emit, delta_emit_transpose(emit, y, sequence_before_heads), &flat);
  }
  lower->outputs[OUTPUT_Y] = y;
  return DELTA_OK;
}
