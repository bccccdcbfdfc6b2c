// Layouts: physical shapes, regions, and graphs rewritten to them, which compute what the plain ones do.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "base/random.h"
#include "onnx/graph/relayout.h"
#include "onnx/graph/emit.h"
#include "onnx/reference/run.h"

#define SHAPE(...) ((delta_shape_t){.rank = (int32_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), .dims = {__VA_ARGS__}})

static void must(delta_status_t status) { cr_assert_eq(status, DELTA_OK, "%s", delta_status_message(status)); }

Test(layout, physical_shapes) {
  const struct {
    delta_layout_t layout;
    delta_shape_t plain, physical;
    uint32_t axes, physical_axes;
  } cases[] = {
      {DELTA_LAYOUT_PLAIN, SHAPE(2, 32, 5, 6), SHAPE(2, 32, 5, 6), 0xd, 0xd},
      {DELTA_LAYOUT_CHANNELS_LAST, SHAPE(2, 32, 5, 6), SHAPE(2, 5, 6, 32), 0xd, 0x7},
      {DELTA_LAYOUT_CHANNELS_LAST, SHAPE(2, 3, 5), SHAPE(2, 5, 3), 0x2, 0x4},
      {DELTA_LAYOUT_BLOCKED_8, SHAPE(2, 32, 5, 6), SHAPE(2, 4, 5, 6, 8), 0xd, 0xd},
      {DELTA_LAYOUT_BLOCKED_8, SHAPE(1, 8, 7), SHAPE(1, 1, 7, 8), 0x2, 0xa},
      {DELTA_LAYOUT_BLOCKED_16, SHAPE(2, 32, 5, 6, 7), SHAPE(2, 2, 5, 6, 7, 16), 0x3, 0x23},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const delta_shape_t physical = delta_layout_physical(cases[i].layout, &cases[i].plain);
    delta_shape_t plain;
    cr_expect(delta_shape_equal(&physical, &cases[i].physical), "case %zu", i);
    cr_expect(delta_layout_plain(cases[i].layout, cases[i].plain.rank - 2, &physical, &plain), "case %zu", i);
    cr_expect(delta_shape_equal(&plain, &cases[i].plain), "case %zu", i);
    cr_expect_eq(delta_layout_dimensions(cases[i].layout, cases[i].plain.rank, cases[i].axes), cases[i].physical_axes, "case %zu", i);
  }
  const delta_shape_t channel = SHAPE(1, 1, 4, 4), physical = delta_layout_physical(DELTA_LAYOUT_BLOCKED_8, &channel);
  cr_expect(delta_shape_equal(&physical, &SHAPE(1, 1, 4, 4, 1)), "one channel is broadcast over blocks");
  cr_expect_not(delta_layout_fits(DELTA_LAYOUT_BLOCKED_8, &SHAPE(2, 12, 5, 6)));
  cr_expect_not(delta_layout_fits(DELTA_LAYOUT_CHANNELS_LAST, &SHAPE(2, 12)));
  cr_expect_not(delta_layout_fits(DELTA_LAYOUT_BLOCKED_8, &SHAPE(2, 0, 5, 6)));
}

static delta_graph_t *graph;
static delta_emit_t emit;

static void setup(void) {
  must(delta_graph_create(delta_allocator_system(), &graph));
  delta_emit_init(&emit, graph);
  emit.name = "node";
}

static void teardown(void) {
  delta_status_free(delta_emit_finish(&emit));
  delta_graph_free(graph);
}

TestSuite(relayout, .init = setup, .fini = teardown);

static delta_tensor_id_t input(const char *name, delta_shape_t shape) {
  delta_tensor_id_t tensor;
  must(delta_graph_add_input(graph, name, DELTA_DTYPE_FLOAT32, &shape, &tensor));
  return tensor;
}

static void output(const char *name, delta_tensor_id_t tensor) {
  must(delta_emit_finish(&emit));
  must(delta_graph_add_output(graph, name, tensor));
}

static const delta_window_t window_3x3 = {
    .spatial = 2, .kernel = {3, 3}, .strides = {1, 1}, .dilations = {1, 1}, .pads_begin = {1, 1}, .pads_end = {1, 1}};
static const delta_window_t window_2x2 = {.spatial = 2, .kernel = {2, 2}, .strides = {2, 2}, .dilations = {1, 1}};

static delta_tensor_id_t conv(delta_tensor_id_t x, delta_tensor_id_t w) {
  const delta_shape_t *shape = delta_emit_shape(&emit, x);
  const delta_conv_attrs_t attrs = {.window = window_3x3, .group = 1, .data_spatial = {shape->dims[2], shape->dims[3]}};
  return DELTA_EMIT(&emit, CONV, attrs, x, w);
}

// Stem, normalization by batch statistics, max pool with its gradient, concatenation, resize, padding, average pool, channel sums, a masked [h, w].
static void emit_network(void) {
  const delta_tensor_id_t x = input("x", SHAPE(2, 3, 8, 12)), stem = input("stem", SHAPE(16, 3, 3, 3));
  const delta_tensor_id_t w = input("w", SHAPE(32, 16, 3, 3)), scale = input("scale", SHAPE(16)), mask = input("mask", SHAPE(8, 12));
  delta_tensor_id_t mean, variance, pooled[2];
  const delta_tensor_id_t y = conv(x, stem);
  delta_emit_moments(&emit, y, 0xd, &mean, &variance);
  const delta_tensor_id_t centred = delta_emit_binary(&emit, DELTA_EXPR_SUB, y, mean);
  const delta_tensor_id_t scaled = delta_emit_binary(&emit, DELTA_EXPR_MUL, centred, delta_emit_view(&emit, scale, &SHAPE(16, 1, 1)));
  const delta_tensor_id_t masked = delta_emit_binary(&emit, DELTA_EXPR_MUL, scaled, mask);
  const delta_pool_attrs_t pool = {.window = window_2x2, .out_spatial = {4, 6}, .data_spatial = {8, 12}, .index = DELTA_POOL_INDEX_WINDOW};
  delta_emit_node(&emit, DELTA_CORE_MAX_POOL, &pool, sizeof pool, &masked, 1, pooled, 2, UINT64_MAX);
  output("pool gradient", DELTA_EMIT(&emit, MAX_POOL_GRAD, pool, pooled[0], pooled[1]));
  const delta_tensor_id_t average = DELTA_EMIT(&emit, AVERAGE_POOL, pool, masked);
  const delta_tensor_id_t both = delta_emit_concat(&emit, (const delta_tensor_id_t[]){pooled[0], average}, 2, 1);
  const delta_pad_attrs_t pad = {.begin = {0, 0, 1, 0}, .end = {0, 0, 0, 2}, .value = 0.5, .data_shape = SHAPE(2, 32, 4, 6)};
  const delta_tensor_id_t padded = DELTA_EMIT(&emit, PAD, pad, both);
  delta_tensor_id_t parts[2];
  delta_emit_split(&emit, padded, 1, (const int64_t[]){16, 16}, 2, parts);
  const delta_tensor_id_t deep = conv(parts[1], w);
  output("deep", deep);
  output("sums", delta_emit_reduce(&emit, DELTA_REDUCE_SUM, deep, 0xd));
  output("rows", delta_emit_reduce(&emit, DELTA_REDUCE_MAX, parts[0], 0x6));
  output("mean", mean);
}

static void fill_inputs(const delta_graph_t *of, const delta_reference_values_t *values) {
  for (size_t i = 0; i < of->inputs.count; ++i) {
    const delta_tensor_t *tensor = delta_graph_tensor(of, of->inputs.items[i]);
    float *data = delta_reference_value(values, of->inputs.items[i]);
    for (int64_t k = 0; k < delta_shape_count(&tensor->shape); ++k)
      data[k] = delta_random_uniform(delta_random_word(delta_random_key(3, i, 0), (uint64_t)k)) - 0.4F;
  }
}

static void run(const delta_graph_t *of, delta_reference_values_t *values) {
  must(delta_reference_values_init(of, delta_allocator_system(), values));
  fill_inputs(of, values);
  must(delta_reference_run_graph(values));
}

static void expect_same_outputs(const delta_graph_t *laid, const char *name) {
  delta_reference_values_t wanted, found;
  run(graph, &wanted);
  run(laid, &found);
  for (size_t i = 0; i < graph->outputs.count; ++i) {
    const delta_tensor_t *tensor = delta_graph_tensor(graph, graph->outputs.items[i].tensor);
    cr_assert(delta_shape_equal(&tensor->shape, &delta_graph_tensor(laid, laid->outputs.items[i].tensor)->shape), "%s: %s", name,
              graph->outputs.items[i].name);
    const float *a = delta_reference_value(&wanted, graph->outputs.items[i].tensor);
    const float *b = delta_reference_value(&found, laid->outputs.items[i].tensor);
    for (int64_t k = 0; k < delta_shape_count(&tensor->shape); ++k)
      cr_assert_float_eq(a[k], b[k], 1e-5, "%s: %s[%lld]: %g, plain %g", name, graph->outputs.items[i].name, (long long)k, b[k], a[k]);
  }
  delta_reference_values_deinit(&wanted);
  delta_reference_values_deinit(&found);
}

static uint32_t count_nodes(const delta_graph_t *of, delta_core_op_t op) {
  uint32_t count = 0;
  for (size_t i = 0; i < of->nodes.count; ++i) count += of->nodes.items[i].op == op;
  return count;
}

// What is converted: the input where channels lie last (blocks leave it plain), the mask, and the two outputs of the region that are tensors.
Test(relayout, networks_compute_the_same) {
  static const uint32_t conversions[DELTA_LAYOUT_COUNT] = {0, 3, 2, 2};
  emit_network();
  delta_layout_regions_t regions;
  must(delta_layout_regions_init(graph, delta_allocator_system(), &regions));
  cr_assert_eq(regions.count, 1);
  for (int layout = 0; layout < DELTA_LAYOUT_COUNT; ++layout) {
    const delta_layout_t layouts[] = {(delta_layout_t)layout};
    const char *name = delta_layout_name(layouts[0]);
    delta_graph_t *laid = NULL;
    uint32_t *region_of_node = NULL;
    must(delta_graph_relayout(graph, &regions, layouts, delta_allocator_system(), &laid, &region_of_node));
    must(delta_graph_check(laid));
    cr_expect_eq(count_nodes(laid, DELTA_CORE_TRANSPOSE), conversions[layout], "%s: %u conversions", name,
                 count_nodes(laid, DELTA_CORE_TRANSPOSE));
    expect_same_outputs(laid, name);
    for (size_t i = 0; i < laid->nodes.count; ++i) {
      if (laid->nodes.items[i].op == DELTA_CORE_TRANSPOSE) cr_expect_eq(region_of_node[i], 0, "%s: conversions belong to the region", name);
    }
    delta_release(delta_allocator_system(), region_of_node);
    delta_graph_free(laid);
  }
  delta_layout_regions_deinit(&regions);
}

// Channels that blocks do not divide stay plain, and nothing is converted twice.
Test(relayout, channels_that_do_not_fit) {
  const delta_tensor_id_t x = input("x", SHAPE(1, 8, 4, 4)), odd = input("odd", SHAPE(12, 8, 3, 3)), w = input("w", SHAPE(8, 12, 3, 3));
  const delta_tensor_id_t y = delta_emit_unary(&emit, DELTA_EXPR_RELU, conv(x, odd));
  output("y", conv(y, w));
  delta_layout_regions_t regions;
  must(delta_layout_regions_init(graph, delta_allocator_system(), &regions));
  const delta_layout_t layouts[] = {DELTA_LAYOUT_BLOCKED_8};
  delta_graph_t *laid = NULL;
  must(delta_graph_relayout(graph, &regions, layouts, delta_allocator_system(), &laid, NULL));
  cr_expect_eq(count_nodes(laid, DELTA_CORE_TRANSPOSE), 2);
  expect_same_outputs(laid, "blocked");
  delta_graph_free(laid);
  delta_layout_regions_deinit(&regions);
}

// A view in between ends a region; a part without convolutions is none.
Test(relayout, regions) {
  const delta_tensor_id_t x = input("x", SHAPE(1, 8, 4, 4)), w = input("w", SHAPE(8, 8, 3, 3)), z = input("z", SHAPE(1, 8, 4, 4));
  const delta_tensor_id_t turned = delta_emit_transpose(&emit, conv(x, w), (const int32_t[]){0, 1, 3, 2});
  output("y", conv(turned, w));
  output("alone", delta_emit_unary(&emit, DELTA_EXPR_RELU, z));
  delta_layout_regions_t regions;
  must(delta_layout_regions_init(graph, delta_allocator_system(), &regions));
  cr_expect_eq(regions.count, 2);
  cr_expect_eq(regions.of_node[0], 0);
  cr_expect_eq(regions.of_node[1], DELTA_INDEX_NONE);
  cr_expect_eq(regions.of_node[2], 1);
  cr_expect_eq(regions.of_node[3], DELTA_INDEX_NONE);
  const delta_layout_t layouts[] = {DELTA_LAYOUT_BLOCKED_8, DELTA_LAYOUT_CHANNELS_LAST};
  delta_graph_t *laid = NULL;
  must(delta_graph_relayout(graph, &regions, layouts, delta_allocator_system(), &laid, NULL));
  expect_same_outputs(laid, "two layouts");
  delta_graph_free(laid);
  delta_layout_regions_deinit(&regions);
}

Test(relayout, operands_that_do_not_lie_so_are_refused) {
  const delta_tensor_id_t x = input("x", SHAPE(1, 4, 4, 12)), w = input("w", SHAPE(8, 12, 3, 3));
  const delta_conv_attrs_t blocked = {
      .window = window_3x3, .group = 1, .data_spatial = {4, 4}, .x_layout = DELTA_LAYOUT_BLOCKED_8, .y_layout = DELTA_LAYOUT_PLAIN};
  DELTA_EMIT(&emit, CONV, blocked, x, w);
  delta_status_t status = delta_emit_finish(&emit);
  cr_expect_eq(delta_status_code(status), DELTA_STATUS_MALFORMED);
  cr_expect(strstr(delta_status_message(status), "blocked_8"));
  delta_status_free(status);
}
