// Lowering of RotaryEmbedding: pairs of features are turned by an angle that depends on the position.
#include "onnx/lower/formula.h"
#include "onnx/lower/lower.h"

// The data as [batch, ..., size] with heads and sequence in either order.
typedef struct rotary {
  delta_shape_t shape; // rank 4
  int64_t sequence;
  int64_t turned; // features that turn; the rest stays
  bool heads_first;
  bool interleaved; // pairs are neighbours; else halves
} rotary_t;

static bool read_rotary(delta_lower_t *lower, rotary_t *r) {
  const delta_shape_t shape = *delta_emit_shape(&lower->emit, delta_lower_required(lower, 0));
  int64_t heads = delta_lower_int(lower, "num_heads", 0);
  if (!delta_emit_ok(&lower->emit)) return false;
  if (shape.rank != 4 && (shape.rank != 3 || heads < 1 || shape.dims[2] % heads != 0)) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "the input has rank %d and attribute 'num_heads' is %lld", shape.rank,
                           (long long)heads);
    return false;
  }
  r->heads_first = shape.rank == 4;
  r->shape = shape;
  if (shape.rank == 3) r->shape = (delta_shape_t){.rank = 4, .dims = {shape.dims[0], shape.dims[1], heads, shape.dims[2] / heads}};
  r->sequence = shape.dims[r->heads_first ? 2 : 1];
  r->interleaved = delta_lower_int(lower, "interleaved", 0) != 0;
  r->turned = delta_lower_int(lower, "rotary_embedding_dim", 0);
  if (r->turned == 0) r->turned = r->shape.dims[3];
  if (r->turned >= 2 && r->turned % 2 == 0 && r->turned <= r->shape.dims[3]) return true;
  (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "%lld of %lld features cannot turn in pairs", (long long)r->turned,
                         (long long)r->shape.dims[3]);
  return false;
}

// A cache of cosines or sines as it meets the data: [batch, 1, sequence, pairs], or with the sequence before the heads.
static delta_tensor_id_t read_cache(delta_lower_t *lower, const rotary_t *r, uint32_t input) {
  const delta_gather_attrs_t attrs = {.axis = 0};
  delta_tensor_id_t cache = delta_lower_required(lower, input), positions = delta_lower_input(lower, 3);
  if (!delta_tensor_is_none(positions)) cache = DELTA_EMIT(&lower->emit, GATHER, attrs, cache, positions);
  const delta_shape_t wanted = {.rank = 3, .dims = {r->shape.dims[0], r->sequence, r->turned / 2}};
  const delta_shape_t *found = delta_emit_shape(&lower->emit, cache);
  if (!delta_emit_ok(&lower->emit)) return DELTA_TENSOR_NONE;
  if (!delta_shape_equal(found, &wanted)) {
    char found_text[DELTA_SHAPE_TEXT_BYTES], wanted_text[DELTA_SHAPE_TEXT_BYTES];
    return delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "input %u gives angles of shape %s; they must be %s", input,
                            delta_shape_text(found, found_text), delta_shape_text(&wanted, wanted_text));
  }
  delta_shape_t meeting = {.rank = 4, .dims = {wanted.dims[0], wanted.dims[1], 1, wanted.dims[2]}};
  if (r->heads_first) meeting = (delta_shape_t){.rank = 4, .dims = {wanted.dims[0], 1, wanted.dims[1], wanted.dims[2]}};
  return delta_emit_view(&lower->emit, cache, &meeting);
}

// Both members of all pairs of [.., turned]: each [.., turned / 2].
static void split_pairs(delta_lower_t *lower, const rotary_t *r, delta_tensor_id_t x, delta_tensor_id_t members[2]) {
  const delta_shape_t from = *delta_emit_shape(&lower->emit, x);
  const int64_t half = r->turned / 2;
  if (!r->interleaved) {
    delta_emit_split(&lower->emit, x, 3, (const int64_t[]){half, half}, 2, members);
    return;
  }
  delta_shape_t apart = {.rank = 5, .dims = {from.dims[0], from.dims[1], from.dims[2], half, 2}}, member = from;
  member.dims[3] = half;
  delta_emit_split(&lower->emit, delta_emit_view(&lower->emit, x, &apart), 4, (const int64_t[]){1, 1}, 2, members);
  for (int k = 0; k < 2; ++k) members[k] = delta_emit_view(&lower->emit, members[k], &member);
}

static delta_tensor_id_t join_pairs(delta_lower_t *lower, const rotary_t *r, delta_tensor_id_t members[2]) {
  if (!r->interleaved) return delta_emit_concat(&lower->emit, members, 2, 3);
  delta_shape_t joined = *delta_emit_shape(&lower->emit, members[0]), apart = joined;
  apart.rank = 5;
  apart.dims[4] = 1;
  joined.dims[3] = r->turned;
  for (int k = 0; k < 2; ++k) members[k] = delta_emit_view(&lower->emit, members[k], &apart);
  return delta_emit_view(&lower->emit, delta_emit_concat(&lower->emit, members, 2, 4), &joined);
}

// (a, b) -> (a cos - b sin, a sin + b cos)
static void turn(delta_lower_t *lower, delta_tensor_id_t members[2], delta_tensor_id_t cosine, delta_tensor_id_t sine) {
  const delta_tensor_id_t inputs[4] = {members[0], members[1], cosine, sine};
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, members[0]);
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, inputs, 4);
  uint16_t a = delta_formula_input(&f, 0), b = delta_formula_input(&f, 1), c = delta_formula_input(&f, 2), s = delta_formula_input(&f, 3);
  delta_expr_output(&f.builder, delta_formula_sub(&f, delta_formula_mul(&f, a, c), delta_formula_mul(&f, b, s)));
  delta_expr_output(&f.builder, delta_formula_add(&f, delta_formula_mul(&f, a, s), delta_formula_mul(&f, b, c)));
  delta_emit_exprs(&lower->emit, &f.builder, (const delta_dtype_t[]){dtype, dtype}, inputs, 4, members);
}

delta_status_t delta_lower_rotary_embedding(delta_lower_t *lower) {
  rotary_t r = {.sequence = 0};
  if (!read_rotary(lower, &r)) return DELTA_OK;
  const delta_shape_t result = *delta_emit_shape(&lower->emit, lower->inputs[0]);
  const int64_t sizes[2] = {r.turned, r.shape.dims[3] - r.turned};
  const uint32_t parts_count = sizes[1] > 0 ? 2 : 1;
  delta_tensor_id_t parts[2], members[2];
  delta_tensor_id_t cosine = read_cache(lower, &r, 1), sine = read_cache(lower, &r, 2);
  delta_emit_split(&lower->emit, delta_emit_view(&lower->emit, lower->inputs[0], &r.shape), 3, sizes, parts_count, parts);
  split_pairs(lower, &r, parts[0], members);
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  turn(lower, members, cosine, sine);
  if (!delta_emit_ok(&lower->emit)) return DELTA_OK;
  parts[0] = join_pairs(lower, &r, members);
  lower->outputs[0] = delta_emit_view(&lower->emit, delta_emit_concat(&lower->emit, parts, parts_count, 3), &result);
  return DELTA_OK;
}
