// DROPOUT and RANDOM in float32: the words of many counters at once, and what is made of them bit by bit as the reference does.
#include "base/random.h"

#include <math.h>

#include "runtime/cpu/clones.h"
#include "runtime/cpu/words.h"

enum { TILE = DELTA_WORDS_TILE, COUNTERS = TILE / 4 };

// Words come by four. What begins inside four leaves out words at the start of every tile.
static int64_t words_left_out(const delta_dropout_attrs_t *attrs) { return attrs->first % 4; }
static int64_t dropout_tile(const delta_dropout_attrs_t *attrs) { return words_left_out(attrs) ? TILE - 4 : TILE; }

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
  uint64_t key = delta_words_key(launch, 1, attrs->stream);
  // uniform >= ratio, with both sides times 2^24: exact.
  uint32_t threshold = (uint32_t)ceil(attrs->ratio * 0x1p24);
  const float *x = launch->buffers->inputs[0];
  float *y = launch->buffers->outputs[0];
  uint8_t *mask = launch->kernel->node->output_count > 1 ? launch->buffers->outputs[1] : NULL;
  const int64_t size = dropout_tile(attrs), left_out = words_left_out(attrs);
  for (int64_t tile = begin; tile < end; ++tile) {
    uint32_t words[TILE];
    int64_t start = tile * size, count = total - start < size ? total - start : size;
    delta_words_draw(key, (uint64_t)(attrs->first + start) / 4, words);
    drop_tile(words + left_out, threshold, 1 - attrs->ratio, x + start, y + start, count);
    if (mask) mask_tile(words + left_out, threshold, mask + start, count);
  }
}

delta_status_t delta_cpu_dropout_run(const delta_kernel_t *kernel, const delta_kernel_buffers_t *buffers) {
  const delta_kernel_launch_t launch = {kernel, buffers};
  int64_t count = delta_shape_count(&delta_node_input(kernel->graph, kernel->node, 0)->shape);
  const int64_t size = dropout_tile(kernel->node->attrs);
  delta_team_run(kernel->threads, (count + size - 1) / size, 4 * TILE * (int64_t)sizeof(float), dropout_tiles, &launch);
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
  uint64_t key = delta_words_key(launch, 0, attrs->stream);
  float *y = launch->buffers->outputs[0];
  for (int64_t tile = begin; tile < end; ++tile) {
    uint32_t words[TILE];
    int64_t start = tile * per_tile, count = total - start < per_tile ? total - start : per_tile;
    delta_words_draw(key, (uint64_t)tile * COUNTERS, words);
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
