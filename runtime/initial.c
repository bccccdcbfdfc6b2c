// Roles are read from shapes, and those of vectors from the names that frameworks give them.
#include "runtime/initial.h"

#include <math.h>
#include <string.h>

#include "base/random.h"

static const double two_pi = 6.283185307179586;

static bool has_one_of(const char *name, const char *const *words) {
  for (; *words; ++words) {
    if (strstr(name, *words)) return true;
  }
  return false;
}

static double vector_value(const delta_plan_state_t *state) {
  static const char *const ones[] = {"weight", "scale", "gamma", "var", NULL};
  static const char *const zeros[] = {"bias", "beta", "mean", NULL};
  return !has_one_of(state->name, zeros) && has_one_of(state->name, ones) ? 1 : 0;
}

static double he_deviation(const delta_shape_t *shape) {
  const int64_t fan_in = shape->rank > 2                   ? delta_shape_count_range(shape, 1, shape->rank)
                         : shape->dims[0] < shape->dims[1] ? shape->dims[0]
                                                           : shape->dims[1];
  return sqrt(2.0 / (double)(fan_in > 0 ? fan_in : 1));
}

// A stream of its own for each name.
static uint64_t stream_of(const char *name) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (; *name; ++name) hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
  return hash;
}

static double draw_normal(uint64_t key, uint64_t index) {
  const double radius = 1.0 - (double)delta_random_uniform(delta_random_word(key, 2 * index)); // (0, 1]
  const double angle = two_pi * (double)delta_random_uniform(delta_random_word(key, 2 * index + 1));
  return sqrt(-2.0 * log(radius)) * cos(angle);
}

void delta_initial_draw(const delta_plan_state_t *state, uint64_t seed, void *data) {
  const size_t count = (size_t)delta_shape_count(&state->shape);
  const bool is_drawn = state->shape.rank >= 2 && delta_dtype_is_float(state->dtype);
  const double deviation = is_drawn ? he_deviation(&state->shape) : 0, value = vector_value(state);
  const uint64_t key = delta_random_key(seed, 0, stream_of(state->name));
  for (size_t i = 0; i < count; ++i) delta_element_store_double(data, state->dtype, i, is_drawn ? deviation * draw_normal(key, i) : value);
}
