// Lowering of GridSample: every output point is a weighted sum of the data's elements around a position, which is data itself.
//
// Note [Sampling by taps]
// Along each dimension a point has a few taps: one (nearest), two (linear) or four (cubic). For each combination of taps one pointwise step gives the flat
// position in the data and the weight, and a gather fetches all channels of it. Gradients flow to the data through the gathers and to the grid through the weights.
#include "onnx/lower/formula.h"
#include "onnx/lower/lower.h"

enum { MAX_SPATIAL = 3, SUMMED_AT_ONCE = 4 };
typedef enum sample_mode { MODE_NEAREST, MODE_LINEAR, MODE_CUBIC } sample_mode_t;
typedef enum sample_padding { PADDING_ZEROS, PADDING_BORDER, PADDING_REFLECTION } sample_padding_t;

typedef struct sampling {
  int32_t spatial;
  int64_t sizes[MAX_SPATIAL]; // of the data
  int64_t batch, channels, points;
  sample_mode_t mode;
  sample_padding_t padding;
  bool align_corners;
  delta_tensor_id_t rows;                     // the data as [batch, positions, channels]
  delta_tensor_id_t coordinates[MAX_SPATIAL]; // [batch, points], in [-1, 1] inside the data
} sampling_t;

static int32_t tap_count(sample_mode_t mode) { return mode == MODE_NEAREST ? 1 : mode == MODE_LINEAR ? 2 : 4; }

static bool read_modes(delta_lower_t *lower, sampling_t *s) {
  // The names of opset 16, then those since 20.
  static const char *const modes[] = {"nearest", "bilinear", "bicubic", "linear", "cubic"};
  static const sample_mode_t meanings[] = {MODE_NEAREST, MODE_LINEAR, MODE_CUBIC, MODE_LINEAR, MODE_CUBIC};
  static const char *const paddings[] = {"zeros", "border", "reflection"};
  s->mode = meanings[delta_lower_choice(lower, "mode", delta_lower_string(lower, "mode", "linear"), modes, 5)];
  s->padding = (sample_padding_t)delta_lower_choice(lower, "padding_mode", delta_lower_string(lower, "padding_mode", "zeros"), paddings, 3);
  s->align_corners = delta_lower_int(lower, "align_corners", 0) != 0;
  return delta_emit_ok(&lower->emit);
}

static bool check_shapes(delta_lower_t *lower, const delta_shape_t *x, const delta_shape_t *grid) {
  bool fits = (x->rank == 4 || x->rank == 5) && grid->rank == x->rank && grid->dims[0] == x->dims[0] &&
              grid->dims[grid->rank - 1] == x->rank - 2 && delta_shape_count_range(x, 2, x->rank) > 0;
  char x_text[DELTA_SHAPE_TEXT_BYTES], grid_text[DELTA_SHAPE_TEXT_BYTES];
  if (!fits) {
    (void)delta_lower_fail(lower, DELTA_STATUS_MALFORMED, "a grid of shape %s does not fit data of shape %s",
                           delta_shape_text(grid, grid_text), delta_shape_text(x, x_text));
  }
  return fits;
}

// The data with channels last, and one tensor of coordinates for each dimension: a grid states the last dimension first.
static void split_inputs(delta_lower_t *lower, sampling_t *s, const delta_shape_t *x, const delta_shape_t *grid) {
  static const int32_t channels_last[3] = {0, 2, 1};
  static const int64_t ones[MAX_SPATIAL] = {1, 1, 1};
  s->spatial = x->rank - 2;
  s->batch = x->dims[0];
  s->channels = x->dims[1];
  s->points = delta_shape_count_range(grid, 1, grid->rank - 1);
  for (int32_t d = 0; d < s->spatial; ++d) s->sizes[d] = x->dims[d + 2];
  const delta_shape_t flat = {.rank = 3, .dims = {s->batch, s->channels, delta_shape_count_range(x, 2, x->rank)}};
  const delta_shape_t points = {.rank = 3, .dims = {s->batch, s->points, s->spatial}},
                      coordinate = {.rank = 2, .dims = {s->batch, s->points}};
  s->rows = delta_emit_transpose(&lower->emit, delta_emit_view(&lower->emit, lower->inputs[0], &flat), channels_last);
  delta_tensor_id_t parts[MAX_SPATIAL];
  delta_emit_split(&lower->emit, delta_emit_view(&lower->emit, lower->inputs[1], &points), 2, ones, (uint32_t)s->spatial, parts);
  for (int32_t d = 0; d < s->spatial; ++d) s->coordinates[d] = delta_emit_view(&lower->emit, parts[s->spatial - 1 - d], &coordinate);
}

static uint16_t clamp(delta_formula_t *f, uint16_t x, double high) {
  uint16_t bounded = delta_formula_binary(f, DELTA_EXPR_MIN, x, delta_formula_real(f, high));
  return delta_formula_binary(f, DELTA_EXPR_MAX, bounded, delta_formula_real(f, 0.0));
}

// A position brought into the data as the padding says; zeros leave it where it is.
static uint16_t bring_inside(delta_formula_t *f, const sampling_t *s, int32_t d, uint16_t x) {
  double high = (double)s->sizes[d] - 1.0;
  if (s->padding == PADDING_ZEROS) return x;
  if (s->padding == PADDING_BORDER) return clamp(f, x, high);
  // Back and forth between the centres, or the edges, of the first and the last element.
  double low = s->align_corners ? 0.0 : -0.5, span = s->align_corners ? high : high + 1.0;
  if (span == 0.0) return delta_formula_real(f, 0.0);
  uint16_t distance = delta_formula_unary(f, DELTA_EXPR_ABS, delta_formula_sub(f, x, delta_formula_real(f, low)));
  uint16_t phase = delta_formula_binary(f, DELTA_EXPR_FMOD, distance, delta_formula_real(f, 2.0 * span));
  uint16_t returns = delta_formula_binary(f, DELTA_EXPR_GT, phase, delta_formula_real(f, span));
  uint16_t mirrored = delta_formula_sub(f, delta_formula_real(f, 2.0 * span), phase);
  uint16_t reflected = delta_formula_add(f, delta_formula_select(f, returns, mirrored, phase), delta_formula_real(f, low));
  return clamp(f, reflected, high);
}

// ((c3 * x + c2) * x + c1) * x + c0
static uint16_t cubic(delta_formula_t *f, uint16_t x, double c3, double c2, double c1, double c0) {
  uint16_t y = delta_formula_add(f, delta_formula_mul(f, x, delta_formula_real(f, c3)), delta_formula_real(f, c2));
  y = delta_formula_add(f, delta_formula_mul(f, x, y), delta_formula_real(f, c1));
  return delta_formula_add(f, delta_formula_mul(f, x, y), delta_formula_real(f, c0));
}

// The weight of a tap; `fraction` is how far the point lies beyond the tap left of it. Cubic: convolution with a = -0.75.
static uint16_t tap_weight(delta_formula_t *f, const sampling_t *s, int32_t tap, uint16_t fraction) {
  const double a = -0.75;
  if (s->mode == MODE_NEAREST) return delta_formula_real(f, 1.0);
  if (s->mode == MODE_LINEAR) return tap == 1 ? fraction : delta_formula_sub(f, delta_formula_real(f, 1.0), fraction);
  double offset = tap - 1; // of the tap, from the one left of the point
  uint16_t signed_distance = delta_formula_sub(f, fraction, delta_formula_real(f, offset));
  uint16_t distance = offset > 0.0 ? delta_formula_unary(f, DELTA_EXPR_NEG, signed_distance) : signed_distance;
  return tap == 1 || tap == 2 ? cubic(f, distance, a + 2.0, -a - 3.0, 0.0, 1.0) : cubic(f, distance, a, -5.0 * a, 8.0 * a, -4.0 * a);
}

// Position and weight of one tap along dimension d; the position is inside the data.
static void emit_tap(delta_formula_t *f, const sampling_t *s, int32_t d, int32_t tap, uint16_t *out_position, uint16_t *out_weight) {
  double size = (double)s->sizes[d], high = size - 1.0;
  uint16_t raised = delta_formula_add(f, delta_formula_input(f, (uint16_t)d), delta_formula_real(f, 1.0));
  uint16_t point = delta_formula_mul(f, raised, delta_formula_real(f, (s->align_corners ? high : size) / 2.0));
  if (!s->align_corners) point = delta_formula_sub(f, point, delta_formula_real(f, 0.5));
  if (s->mode != MODE_CUBIC) point = bring_inside(f, s, d, point);
  uint16_t base = delta_formula_unary(f, s->mode == MODE_NEAREST ? DELTA_EXPR_ROUND : DELTA_EXPR_FLOOR, point);
  int32_t offset = s->mode == MODE_CUBIC ? tap - 1 : tap;
  uint16_t position = offset == 0 ? base : delta_formula_add(f, base, delta_formula_real(f, offset));
  if (s->mode == MODE_CUBIC) position = bring_inside(f, s, d, position);
  uint16_t after_start = delta_formula_binary(f, DELTA_EXPR_GE, position, delta_formula_real(f, 0.0));
  uint16_t before_end = delta_formula_binary(f, DELTA_EXPR_LE, position, delta_formula_real(f, high));
  uint16_t weight = tap_weight(f, s, tap, delta_formula_sub(f, point, base));
  uint16_t inside = delta_formula_binary(f, DELTA_EXPR_AND, after_start, before_end);
  *out_weight = delta_formula_select(f, inside, weight, delta_formula_real(f, 0.0));
  *out_position = clamp(f, position, high);
}

// One combination of taps: the elements it fetches [batch, points, channels] and their weights [batch, points, 1]. Positions are exact in float64.
static void emit_combination(delta_lower_t *lower, const sampling_t *s, int32_t combination, delta_tensor_id_t pair[2]) {
  const delta_gather_attrs_t attrs = {.batch_dims = 1};
  const delta_shape_t column = {.rank = 3, .dims = {s->batch, s->points, 1}};
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, s->coordinates, (uint32_t)s->spatial);
  delta_expr_builder_init(&f.builder, DELTA_DTYPE_FLOAT64);
  uint16_t flat = delta_formula_real(&f, 0.0), weight = delta_formula_real(&f, 1.0);
  for (int32_t d = 0; d < s->spatial; ++d) {
    uint16_t position, share;
    emit_tap(&f, s, d, combination % tap_count(s->mode), &position, &share);
    combination /= tap_count(s->mode);
    flat = delta_formula_add(&f, delta_formula_mul(&f, flat, delta_formula_real(&f, (double)s->sizes[d])), position);
    weight = delta_formula_mul(&f, weight, share);
  }
  delta_tensor_id_t outputs[DELTA_EXPR_MAX_OUTPUTS];
  const delta_dtype_t dtypes[2] = {DELTA_DTYPE_INT64, delta_emit_dtype(&lower->emit, s->coordinates[0])};
  delta_expr_output(&f.builder, flat);
  delta_expr_output(&f.builder, weight);
  delta_emit_exprs(&lower->emit, &f.builder, dtypes, f.inputs, f.input_count, outputs);
  pair[0] = DELTA_EMIT(&lower->emit, GATHER_ND, attrs, s->rows, delta_emit_view(&lower->emit, outputs[0], &column));
  pair[1] = delta_emit_view(&lower->emit, outputs[1], &column);
}

// sum (NONE at first) + elements * weights of `count` pairs
static delta_tensor_id_t add_weighted(delta_lower_t *lower, delta_tensor_id_t sum, const delta_tensor_id_t *pairs, uint16_t count,
                                      delta_dtype_t dtype) {
  delta_tensor_id_t inputs[2 * SUMMED_AT_ONCE + 1];
  for (uint16_t k = 0; k < 2 * count; ++k) inputs[k] = pairs[k];
  inputs[2 * count] = sum;
  bool continues = !delta_tensor_is_none(sum);
  delta_formula_t f;
  delta_formula_init(&f, &lower->emit, inputs, 2u * count + (continues ? 1u : 0u));
  uint16_t y = continues ? delta_formula_input(&f, 2 * count) : delta_formula_real(&f, 0.0);
  for (uint16_t k = 0; k < count; ++k) {
    uint16_t product = delta_formula_mul(&f, delta_formula_input(&f, 2 * k), delta_formula_input(&f, 2 * k + 1));
    y = delta_formula_add(&f, y, product);
  }
  return delta_formula_emit(&f, y, dtype);
}

delta_status_t delta_lower_grid_sample(delta_lower_t *lower) {
  static const int32_t channels_first[3] = {0, 2, 1};
  delta_tensor_id_t x = delta_lower_required(lower, 0), grid = delta_lower_required(lower, 1), sum = DELTA_TENSOR_NONE;
  const delta_shape_t x_shape = *delta_emit_shape(&lower->emit, x), grid_shape = *delta_emit_shape(&lower->emit, grid);
  delta_dtype_t dtype = delta_emit_dtype(&lower->emit, x);
  sampling_t s = {.spatial = 0};
  if (!read_modes(lower, &s) || !check_shapes(lower, &x_shape, &grid_shape)) return DELTA_OK;
  if (!delta_dtype_is_float(dtype) || !delta_dtype_is_float(delta_emit_dtype(&lower->emit, grid))) {
    (void)delta_lower_fail(lower, DELTA_STATUS_UNSUPPORTED, "data and grid must be of a float type");
    return DELTA_OK;
  }
  split_inputs(lower, &s, &x_shape, &grid_shape);
  int32_t combinations = 1;
  for (int32_t d = 0; d < s.spatial; ++d) combinations *= tap_count(s.mode);
  for (int32_t first = 0; first < combinations && delta_emit_ok(&lower->emit); first += SUMMED_AT_ONCE) {
    delta_tensor_id_t pairs[2 * SUMMED_AT_ONCE];
    int32_t count = combinations - first < SUMMED_AT_ONCE ? combinations - first : SUMMED_AT_ONCE;
    for (int32_t k = 0; k < count && delta_emit_ok(&lower->emit); ++k) emit_combination(lower, &s, first + k, pairs + 2 * k);
    if (delta_emit_ok(&lower->emit)) sum = add_weighted(lower, sum, pairs, (uint16_t)count, dtype);
  }
  delta_shape_t result = grid_shape;
  result.dims[1] = s.channels;
  for (int32_t d = 0; d < s.spatial; ++d) result.dims[d + 2] = grid_shape.dims[d + 1];
  lower->outputs[0] = delta_emit_view(&lower->emit, delta_emit_transpose(&lower->emit, sum, channels_first), &result);
  return DELTA_OK;
}
