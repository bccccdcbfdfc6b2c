// MAX_POOL, AVERAGE_POOL and their gradients by reference.
//
// The gradients are gathered: for each data position, over the windows that read it, so that every sum is formed in float64 in one place.
#include "onnx/reference/element.h"
#include "onnx/graph/window.h"

// An index no window element or position has: the window lies in the padding alone.
enum { POOL_NO_WINDOW_INDEX = UINT8_MAX, POOL_NO_FLAT_INDEX = -1 };

typedef struct pool {
  delta_window_geometry_t window;
  int64_t planes; // images * channels
  delta_pool_index_t index;
  bool count_include_pad;
} pool_t;

static pool_t pool_of(const delta_reference_args_t *args) {
  const delta_pool_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0); // or dy: the planes are the same
  return (pool_t){.window = delta_window_geometry(&attrs->window, attrs->data_spatial, attrs->out_spatial),
                  .planes = x->shape.dims[0] * x->shape.dims[1],
                  .index = attrs->index,
                  .count_include_pad = attrs->count_include_pad};
}

// A position of `sizes` (data, windows or window elements), and the row-major number it has.
typedef struct place {
  int64_t at[DELTA_WINDOW_DIMS];
} place_t;
static place_t place_of(int64_t number, const int64_t sizes[DELTA_WINDOW_DIMS]) {
  return (place_t){{number / (sizes[1] * sizes[2]), number / sizes[2] % sizes[1], number % sizes[2]}};
}
static int64_t place_number(const place_t *place, const int64_t sizes[DELTA_WINDOW_DIMS]) {
  return (place->at[0] * sizes[1] + place->at[1]) * sizes[2] + place->at[2];
}

static int64_t pool_index(const pool_t *pool, int64_t plane, const place_t *element, const place_t *position) {
  const int64_t *data = pool->window.data;
  switch (pool->index) {
    case DELTA_POOL_INDEX_WINDOW:
      return place_number(element, pool->window.kernel);
    case DELTA_POOL_INDEX_FLAT:
      return plane * pool->window.data_count + place_number(position, data);
    default:
      return plane * pool->window.data_count + (position->at[2] * data[1] + position->at[1]) * data[0] + position->at[0];
  }
}

// A box of places.
typedef struct span {
  int64_t begin[DELTA_WINDOW_DIMS], end[DELTA_WINDOW_DIMS];
} span_t;

// Goes to the first place, or on to the next in row-major order; false when there is none.
static bool span_begin(const span_t *span, place_t *place) {
  bool any = true;
  for (int d = 0; d < DELTA_WINDOW_DIMS; ++d) {
    place->at[d] = span->begin[d];
    any = any && span->begin[d] < span->end[d];
  }
  return any;
}
static bool span_next(const span_t *span, place_t *place) {
  for (int d = DELTA_WINDOW_DIMS - 1; d >= 0; --d) {
    if (++place->at[d] < span->end[d]) return true;
    place->at[d] = span->begin[d];
  }
  return false;
}

// The window elements of one output that read inside the data.
static span_t inside_span(const delta_window_geometry_t *window, const place_t *out) {
  span_t span;
  for (int d = 0; d < DELTA_WINDOW_DIMS; ++d) delta_window_clip(window, d, out->at[d], 0, 0, &span.begin[d], &span.end[d]);
  return span;
}
static place_t element_position(const delta_window_geometry_t *window, const place_t *out, const place_t *element) {
  place_t position;
  for (int d = 0; d < DELTA_WINDOW_DIMS; ++d) position.at[d] = delta_window_position(window, d, out->at[d], element->at[d]);
  return position;
}

// The maximum of one window and its index.
static delta_number_t max_of_window(const pool_t *pool, const void *x, delta_dtype_t dtype, int64_t plane, const place_t *out,
                                    int64_t *out_index) {
  const delta_window_geometry_t *window = &pool->window;
  bool real = delta_dtype_is_float(dtype), found = false;
  span_t span = inside_span(window, out);
  delta_number_t best = delta_number_extreme(dtype, false);
  *out_index = pool->index == DELTA_POOL_INDEX_WINDOW ? POOL_NO_WINDOW_INDEX : POOL_NO_FLAT_INDEX;
  place_t element;
  for (bool more = span_begin(&span, &element); more; more = span_next(&span, &element)) {
    place_t position = element_position(window, out, &element);
    delta_number_t value = delta_number_load(x, dtype, plane * window->data_count + place_number(&position, window->data));
    if (found && !delta_number_beats(real, false, value, best)) continue;
    found = true;
    best = value;
    *out_index = pool_index(pool, plane, &element, &position);
  }
  return best;
}

delta_status_t delta_reference_max_pool(const delta_reference_args_t *args) {
  pool_t pool = pool_of(args);
  const delta_tensor_t *x = delta_reference_input(args, 0);
  const delta_tensor_t *index_tensor = args->node->output_count > 1 ? delta_reference_output(args, 1) : NULL;
  for (int64_t i = 0; i < pool.planes * pool.window.out_count; ++i) {
    int64_t index;
    place_t out = place_of(i % pool.window.out_count, pool.window.out);
    delta_number_t best = max_of_window(&pool, args->inputs[0], x->dtype, i / pool.window.out_count, &out, &index);
    delta_number_store(args->outputs[0], x->dtype, i, delta_dtype_is_float(x->dtype), best);
    if (index_tensor) delta_element_store_int64(args->outputs[1], index_tensor->dtype, (size_t)i, index);
  }
  return DELTA_OK;
}

// The window element of `out` that reads `position`; false when dilation passes over it.
static bool reading_element(const delta_window_geometry_t *window, const place_t *out, const place_t *position, place_t *element) {
  for (int d = 0; d < DELTA_WINDOW_DIMS; ++d) {
    int64_t distance = position->at[d] - delta_window_position(window, d, out->at[d], 0);
    if (distance % window->dilations[d] != 0) return false;
    element->at[d] = distance / window->dilations[d];
  }
  return true;
}

// Sums what `share` gives for each window that reads `position`, in order of the windows.
typedef double share_function_t(const pool_t *pool, const delta_reference_args_t *args, int64_t plane, const place_t *out,
                                const place_t *element, const place_t *position);
static double sum_windows(const pool_t *pool, const delta_reference_args_t *args, int64_t plane, const place_t *position,
                          share_function_t *share) {
  const delta_window_geometry_t *window = &pool->window;
  span_t readers;
  for (int d = 0; d < DELTA_WINDOW_DIMS; ++d) delta_window_readers(window, d, position->at[d], &readers.begin[d], &readers.end[d]);
  double sum = 0;
  place_t out, element;
  for (bool more = span_begin(&readers, &out); more; more = span_next(&readers, &out))
    if (reading_element(window, &out, position, &element)) sum += share(pool, args, plane, &out, &element, position);
  return sum;
}

static void pool_gradient(const delta_reference_args_t *args, share_function_t *share) {
  pool_t pool = pool_of(args);
  const delta_tensor_t *dx = delta_reference_output(args, 0);
  for (int64_t i = 0; i < pool.planes * pool.window.data_count; ++i) {
    place_t position = place_of(i % pool.window.data_count, pool.window.data);
    double sum = sum_windows(&pool, args, i / pool.window.data_count, &position, share);
    delta_element_store_double(args->outputs[0], dx->dtype, (size_t)i, sum);
  }
}

static double load_dy(const pool_t *pool, const delta_reference_args_t *args, int64_t plane, const place_t *out, int64_t *out_number) {
  *out_number = plane * pool->window.out_count + place_number(out, pool->window.out);
  return delta_element_load_double(args->inputs[0], delta_reference_input(args, 0)->dtype, (size_t)*out_number);
}

// dy where the window's maximum was this element.
static double max_share(const pool_t *pool, const delta_reference_args_t *args, int64_t plane, const place_t *out, const place_t *element,
                        const place_t *position) {
  int64_t number;
  double dy = load_dy(pool, args, plane, out, &number);
  int64_t index = delta_element_load_int64(args->inputs[1], delta_reference_input(args, 1)->dtype, (size_t)number);
  return index == pool_index(pool, plane, element, position) ? dy : 0;
}

delta_status_t delta_reference_max_pool_grad(const delta_reference_args_t *args) {
  pool_gradient(args, max_share);
  return DELTA_OK;
}

// What the sum over a window is divided by.
static double average_divisor(const pool_t *pool, const place_t *out) {
  const delta_window_geometry_t *window = &pool->window;
  double count = 1;
  for (int d = 0; d < DELTA_WINDOW_DIMS; ++d) {
    int64_t begin, end;
    int64_t before = pool->count_include_pad ? window->pads[d] : 0, after = pool->count_include_pad ? window->pads_end[d] : 0;
    delta_window_clip(window, d, out->at[d], before, after, &begin, &end);
    count *= (double)(end - begin);
  }
  return count > 0 ? count : 1; // a window of nothing gives 0
}

static double average_of_window(const pool_t *pool, const void *x, delta_dtype_t dtype, int64_t plane, const place_t *out) {
  const delta_window_geometry_t *window = &pool->window;
  span_t span = inside_span(window, out);
  double sum = 0;
  place_t element;
  for (bool more = span_begin(&span, &element); more; more = span_next(&span, &element)) {
    place_t position = element_position(window, out, &element);
    sum += delta_element_load_double(x, dtype, (size_t)(plane * window->data_count + place_number(&position, window->data)));
  }
  return sum / average_divisor(pool, out);
}

delta_status_t delta_reference_average_pool(const delta_reference_args_t *args) {
  pool_t pool = pool_of(args);
  const delta_tensor_t *x = delta_reference_input(args, 0);
  for (int64_t i = 0; i < pool.planes * pool.window.out_count; ++i) {
    place_t out = place_of(i % pool.window.out_count, pool.window.out);
    double average = average_of_window(&pool, args->inputs[0], x->dtype, i / pool.window.out_count, &out);
    delta_element_store_double(args->outputs[0], x->dtype, (size_t)i, average);
  }
  return DELTA_OK;
}

static double average_share(const pool_t *pool, const delta_reference_args_t *args, int64_t plane, const place_t *out,
                            const place_t *element, const place_t *position) {
  (void)element;
  (void)position;
  int64_t number;
  double dy = load_dy(pool, args, plane, out, &number);
  return dy / average_divisor(pool, out);
}

delta_status_t delta_reference_average_pool_grad(const delta_reference_args_t *args) {
  pool_gradient(args, average_share);
  return DELTA_OK;
}
