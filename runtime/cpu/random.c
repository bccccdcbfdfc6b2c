// DROPOUT and RANDOM in float32: the words of many counters at once, and what is made of them bit by bit as the reference does.
#include "base/random.h"

#include <math.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/team.h"

enum { TILE = 256, WORDS = 4, COUNTERS = TILE / WORDS };

// Words 0 .. TILE - 1 after the first of counter `first`: delta_random_word(key, 4 * first + i). Rounds of Philox4x32-10 side by side.
DELTA_CPU_CLONES static void draw_words(uint64_t key, uint64_t first, uint32_t *words) {
  uint32_t lanes[WORDS][COUNTERS];
  for (int i = 0; i < COUNTERS; ++i) {
    lanes[0][i] = (uint32_t)(first + (uint64_t)i);
    lanes[1][i] = (uint32_t)((first + (uint64_t)i) >> 32);
    lanes[2][i] = lanes[3][i] = 0;
  }
  uint32_t key_0 = (uint32_t)key, key_1 = (uint32_t)(key >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < COUNTERS; ++i) {
      uint64_t product_0 = (uint64_t)0xD2511F53u * lanes[0][i], product_1 = (uint64_t)0xCD9E8D57u * lanes[2][i];
      lanes[0][i] = (uint32_t)(product_1 >> 32) ^ lanes[1][i] ^ key_0;
      lanes[1][i] = (uint32_t)product_1;
      lanes[2][i] = (uint32_t)(product_0 >> 32) ^ lanes[3][i] ^ key_1;
      lanes[3][i] = (uint32_t)product_0;
    }
    key_0 += 0x9E3779B9u;
    key_1 += 0xBB67AE85u;
  }
  for (int i = 0; i < COUNTERS; ++i)
    for (int word = 0; word < WORDS; ++word) words[i * WORDS + word] = lanes[word][i];
}

// The stream's key from the node's two last inputs, seed and draw.
static uint64_t stream_key(const delta_kernel_launch_t *launch, uint32_t seed_input, uint64_t stream) {
  uint64_t numbers[2];
  for (uint32_t k = 0; k < 2; ++k) {
    const delta_tensor_t *input = delta_node_input(launch->kernel->graph, launch->kernel->node, seed_input + k);
    numbers[k] = (uint64_t)delta_element_load_int64(launch->buffers->inputs[seed_input + k], input->dtype, 0);
  }
  return delta_random_key(numbers[0], numbers[1], stream);
}

const char *delta_cpu_dropout_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  return delta_node_input(graph, node, 0)->dtype == DELTA_DTYPE_FLOAT32 ? NULL : "the input is not float32";
}

// The word's number of 24 bits is kept when it is not below `threshold`.
DELTA_CPU_CLONES static void drop_tile(const uint32_t *words, uint32_t threshold, double kept_share, const float *x, float *y,
                                       int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    float scaled = (float)((double)x[i] / kept_share);
    y[i] = (words[i] >> 8) >= threshold ? scaled : 0.0f;
  }
}

DELTA_CPU_CLONES static void mask_tile(const uint32_t *words, uint32_t threshold, uint8_t *mask, int64_t count) {
  for (int64_t i = 0; i < count; ++i) mask[i] = (words[i] >> 8) >= threshold;
}

// Items are tiles.
static void dropout_tiles(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_dropout_attrs_t *attrs = launch->kernel->node->attrs;
  int64_t total = delta_shape_count(&delta_node_input(launch->kernel->graph, launch->kernel->node, 0)->shape);
  uint64_t key = stream_key(launch, 1, attrs->stream);
  // uniform >= ratio, with both sides times 2^24: exact.
  uint32_t threshold = (uint32_t)ceil(attrs->ratio * 0x1p24);
  const float *x = launch->buffers->inputs[0];
  float *y = launch->buffers->outputs[0];
  uint8_t *mask = launch->kernel->node->output_count > 1 ? launch->buffers->outputs[1] : NULL;
  for (int64_t tile = begin; tile < end; ++tile) {
    uint32_t words[TILE];
    int64_t start = tile * TILE, count = total - start < TILE ? total - start : TILE;
    draw_words(key, (uint64_t)tile * COUNTERS, words);
    drop_tile(words, threshold, 1 - attrs->ratio, x + start, y + start, count);
    if (mask) mask_tile(words, threshold, mask + start, count);
  }
}

delta_status_t delta_cpu_dropout_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  int64_t count = delta_shape_count(&delta_node_input(kernel->graph, kernel->node, 0)->shape);
  delta_team_run(kernel->threads, (count + TILE - 1) / TILE, 4 * TILE * (int64_t)sizeof(float), dropout_tiles, &launch);
  return DELTA_OK;
}

const char *delta_cpu_random_refuse(const delta_graph_t *graph, const delta_node_t *node) {
  return delta_node_output(graph, node, 0)->dtype == DELTA_DTYPE_FLOAT32 ? NULL : "the output is not float32";
}

static double uniform_of(uint32_t word) { return (double)delta_random_uniform(word); }

// Box-Muller, of two words a number.
static double normal_of(const uint32_t *words) {
  double radius = sqrt(-2 * log(1 - uniform_of(words[0])));
  return radius * cos(2 * 3.14159265358979323846 * uniform_of(words[1]));
}

// Items are tiles of words: as many numbers, or half as many normal ones.
static void random_tiles(const void *context, int64_t begin, int64_t end, int32_t thread) {
  (void)thread;
  const delta_kernel_launch_t *launch = context;
  const delta_random_attrs_t *attrs = launch->kernel->node->attrs;
  int64_t total = delta_shape_count(&attrs->shape), per_tile = attrs->normal ? TILE / 2 : TILE;
  uint64_t key = stream_key(launch, 0, attrs->stream);
  float *y = launch->buffers->outputs[0];
  for (int64_t tile = begin; tile < end; ++tile) {
    uint32_t words[TILE];
    int64_t start = tile * per_tile, count = total - start < per_tile ? total - start : per_tile;
    draw_words(key, (uint64_t)tile * COUNTERS, words);
    for (int64_t i = 0; i < count; ++i) {
      y[start + i] = (float)(attrs->normal ? attrs->low + attrs->high * normal_of(words + 2 * i)
                                           : attrs->low + (attrs->high - attrs->low) * uniform_of(words[i]));
    }
  }
}

delta_status_t delta_cpu_random_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  const delta_random_attrs_t *attrs = kernel->node->attrs;
  int64_t per_tile = attrs->normal ? TILE / 2 : TILE;
  delta_team_run(kernel->threads, (delta_shape_count(&attrs->shape) + per_tile - 1) / per_tile, 8 * TILE * (int64_t)sizeof(float),
                 random_tiles, &launch);
  return DELTA_OK;
}
