// DROPOUT and RANDOM by reference: numbers are drawn by counter, so that drawing again gives the same.
#include "base/random.h"
#include "onnx/reference/element.h"

// The stream's key from the node's two last inputs, seed and draw.
static uint64_t stream_key(const delta_reference_args_t *args, uint32_t seed_input, uint64_t stream) {
  int64_t seed = delta_element_load_int64(args->inputs[seed_input], delta_reference_input(args, seed_input)->dtype, 0);
  int64_t draw = delta_element_load_int64(args->inputs[seed_input + 1], delta_reference_input(args, seed_input + 1)->dtype, 0);
  return delta_random_key((uint64_t)seed, (uint64_t)draw, stream);
}

static double uniform_at(uint64_t key, uint64_t index) { return (double)delta_random_uniform(delta_random_word(key, index)); }

delta_status_t delta_reference_dropout(const delta_reference_args_t *args) {
  const delta_dropout_attrs_t *attrs = args->node->attrs;
  const delta_tensor_t *x = delta_reference_input(args, 0);
  uint64_t key = stream_key(args, 1, attrs->stream);
  bool *mask = args->node->output_count > 1 ? args->outputs[1] : NULL;
  for (int64_t i = 0; i < delta_shape_count(&x->shape); ++i) {
    bool kept = uniform_at(key, (uint64_t)(attrs->first + i)) >= attrs->ratio;
    double value = delta_element_load_double(args->inputs[0], x->dtype, (size_t)i);
    delta_element_store_double(args->outputs[0], x->dtype, (size_t)i, kept ? value / (1 - attrs->ratio) : 0);
    if (mask) mask[i] = kept;
  }
  return DELTA_OK;
}

// Box-Muller: G. E. P. Box and M. E. Muller, "A note on the generation of random normal deviates", 1958.
static double normal_at(uint64_t key, uint64_t index) {
  double radius = sqrt(-2 * log(1 - uniform_at(key, 2 * index))); // of a number in (0, 1]
  return radius * cos(2 * 3.14159265358979323846 * uniform_at(key, 2 * index + 1));
}

delta_status_t delta_reference_random(const delta_reference_args_t *args) {
  const delta_random_attrs_t *attrs = args->node->attrs;
  uint64_t key = stream_key(args, 0, attrs->stream);
  for (int64_t i = 0; i < delta_shape_count(&attrs->shape); ++i) {
    double value = attrs->normal ? attrs->low + attrs->high * normal_at(key, (uint64_t)i)
                                 : attrs->low + (attrs->high - attrs->low) * uniform_at(key, (uint64_t)i);
    delta_element_store_double(args->outputs[0], attrs->dtype, (size_t)i, value);
  }
  return DELTA_OK;
}
