// Fusion of whole training programs: fewer nodes, the same bits.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "onnx/build.h"
#include "onnx/graph/fuse.h"
#include "onnx/reference/run.h"
#include "tests/support/support.h"

typedef struct model_case {
  const char *path;
  delta_loss_t loss;
} model_case_t;

static const model_case_t cases[] = {
    {"models/mlp/model.onnx", DELTA_LOSS_CROSS_ENTROPY},
    {"models/cnn/model.onnx", DELTA_LOSS_CROSS_ENTROPY},
    {"models/resnet_bottleneck/model.onnx", DELTA_LOSS_CROSS_ENTROPY},
    {"models/autoencoder/model.onnx", DELTA_LOSS_MSE},
};

static void expect_ok(delta_status_t status, const char *what) {
  cr_assert_eq(status, DELTA_OK, "%s: %s", what, delta_status_message(status));
  delta_status_free(status);
}

static delta_graph_t *build(const model_case_t *c, const char *path) {
  const delta_allocator_t allocator = delta_allocator_system();
  const delta_model_options_t model_options = {.path = path};
  const delta_build_options_t options = {
      .import = {.batch = 2, .levers = DELTA_LEVERS_ALL & ~(1U << DELTA_LEVER_FUSE | 1U << DELTA_LEVER_ACCUMULATE)},
      .loss = c->loss,
      .class_axis = 1,
      .ignore_index = -100,
      .optimizer = {.kind = DELTA_OPTIMIZER_ADAMW, .weight_decay = 0.01, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8}};
  delta_model_t *model = NULL;
  delta_graph_t *graph = NULL;
  delta_build_facts_t facts;
  expect_ok(delta_model_load(&model_options, allocator, &model), c->path);
  expect_ok(delta_graph_build(model, &options, DELTA_PROGRAM_TRAIN, allocator, &graph, &facts), c->path);
  delta_model_free(model);
  return graph;
}

static void fill(const delta_graph_t *graph, delta_reference_values_t *values, delta_tensor_id_t id, uint64_t key) {
  const delta_tensor_t *tensor = delta_graph_tensor(graph, id);
  void *data = delta_reference_value(values, id);
  for (size_t i = 0; i < (size_t)delta_shape_count(&tensor->shape); ++i) {
    const double uniform = (double)delta_random_uniform(delta_random_word(key, i));
    delta_element_store_double(data, tensor->dtype, i, delta_dtype_is_float(tensor->dtype) ? uniform - 0.4 : 3 * uniform);
  }
}

static void run(const delta_graph_t *graph, delta_reference_values_t *values) {
  expect_ok(delta_reference_values_init(graph, delta_allocator_system(), values), "values");
  for (size_t i = 0; i < graph->inputs.count; ++i) fill(graph, values, graph->inputs.items[i], i);
  for (size_t i = 0; i < graph->states.count; ++i) {
    if (graph->states.items[i].initializer != DELTA_INDEX_NONE) fill(graph, values, graph->states.items[i].current, 1000 + i);
  }
  expect_ok(delta_reference_run_graph(values), "run");
}

static void expect_same(const delta_graph_t *graph, const delta_reference_values_t *before, delta_tensor_id_t a,
                        const delta_reference_values_t *after, delta_tensor_id_t b, const char *what) {
  const size_t bytes = delta_tensor_bytes(delta_graph_tensor(graph, a));
  cr_expect_eq(memcmp(delta_reference_value(before, a), delta_reference_value(after, b), bytes), 0, "%s differs", what);
}

static void run_case(const model_case_t *c, const char *path) {
  delta_graph_t *graph = build(c, path), *fused = NULL;
  expect_ok(delta_graph_fuse(graph, (delta_fuse_options_t){0}, delta_allocator_system(), &fused), "fuse");
  expect_ok(delta_graph_check(fused), "check");
  cr_expect_lt(fused->nodes.count, graph->nodes.count, "%s", c->path);
  delta_reference_values_t before, after;
  run(graph, &before);
  run(fused, &after);
  for (size_t i = 0; i < graph->outputs.count; ++i) {
    expect_same(graph, &before, graph->outputs.items[i].tensor, &after, fused->outputs.items[i].tensor, graph->outputs.items[i].name);
  }
  for (size_t i = 0; i < graph->states.count; ++i) {
    if (delta_tensor_is_none(graph->states.items[i].next)) continue;
    expect_same(graph, &before, graph->states.items[i].next, &after, fused->states.items[i].next, graph->states.items[i].name);
  }
  delta_reference_values_deinit(&before);
  delta_reference_values_deinit(&after);
  delta_graph_free(fused);
  delta_graph_free(graph);
}

Test(fuse_models, training_programs_keep_their_bits) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    char path[DELTA_TEST_PATH_BYTES];
    DELTA_SKIP_WITHOUT_SHARED(cases[i].path, path);
    run_case(&cases[i], path);
  }
}
