// The loss head in chunks: the same loss and gradients as in one piece, from smaller scores.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"
#include "onnx/gradient/gradient.h"
#include "onnx/loss_chunks.h"
#include "onnx/reference/run.h"
#include "tests/support/support.h"

enum { ROWS = 22, WIDTH = 5, CLASSES = 9, MOST_WANTED = 5 };

typedef struct chunk_case {
  const char *name;
  bool of_sum, has_bias, transposed, flat; // flat: the product is of rows, and a view gives it two leading dimensions
  bool has_own_bias;                       // the product adds a bias
  uint32_t levers;
  size_t chunk_bytes;
  uint32_t chunks; // wanted; 0: the loss stays in one piece
} chunk_case_t;

#define BYTES_OF(rows) ((rows)*CLASSES * sizeof(double))
static const chunk_case_t cases[] = {
    {"mean", false, false, true, true, false, DELTA_LEVERS_ALL, BYTES_OF(8), 3},
    {"sum, bias", true, true, true, false, false, DELTA_LEVERS_ALL, BYTES_OF(11), 2},
    {"plain weight, bias", false, true, false, false, false, DELTA_LEVERS_ALL, BYTES_OF(4), 6},
    {"a row each", false, true, false, true, false, DELTA_LEVERS_ALL, BYTES_OF(1), 22},
    {"sums apart", false, true, false, false, false, DELTA_LEVERS_ALL & ~(1u << DELTA_LEVER_ACCUMULATE), BYTES_OF(8), 3},
    {"small scores", false, true, false, false, false, DELTA_LEVERS_ALL, BYTES_OF(22), 0},
    {"lever off", false, true, false, false, false, DELTA_LEVERS_ALL & ~(1u << DELTA_LEVER_LOSS_CHUNKS), BYTES_OF(8), 0},
    {"bias of the product", false, false, true, false, true, DELTA_LEVERS_ALL, BYTES_OF(8), 3},
    {"bias of the product and another", false, true, true, false, true, DELTA_LEVERS_ALL, BYTES_OF(8), 0},
};

static void expect_ok(delta_status_t status, const char *what) {
  cr_assert_eq(status, DELTA_OK, "%s: %s", what, delta_status_message(status));
  delta_status_free(status);
}

static delta_tensor_id_t add_input(delta_graph_t *graph, const char *name, delta_dtype_t dtype, delta_shape_t shape) {
  delta_tensor_id_t id;
  expect_ok(delta_graph_add_input(graph, name, dtype, &shape, &id), name);
  return id;
}

// hidden, weight, bias.
typedef struct head {
  delta_graph_t *graph;
  delta_emit_t emit;
  delta_tensor_id_t xs[3];
  delta_loss_values_t loss;
} head_t;

static void build_head(const chunk_case_t *c, const delta_build_options_t *options, head_t *h) {
  expect_ok(delta_graph_create(delta_allocator_system(), &h->graph), c->name);
  delta_emit_init(&h->emit, h->graph);
  h->emit.name = "head";
  h->xs[0] = add_input(h->graph, "hidden", DELTA_DTYPE_FLOAT64, (delta_shape_t){3, {2, ROWS / 2, WIDTH}});
  h->xs[1] = add_input(h->graph, "weight", DELTA_DTYPE_FLOAT64,
                       c->transposed ? (delta_shape_t){2, {CLASSES, WIDTH}} : (delta_shape_t){2, {WIDTH, CLASSES}});
  h->xs[2] = add_input(h->graph, "bias", DELTA_DTYPE_FLOAT64, (delta_shape_t){1, {CLASSES}});
  delta_tensor_id_t hidden = h->xs[0];
  const delta_shape_t scores_shape = {3, {2, ROWS / 2, CLASSES}};
  if (c->flat) hidden = delta_emit_view(&h->emit, hidden, &(delta_shape_t){2, {ROWS, WIDTH}});
  const delta_matmul_attrs_t attrs = {.transpose_b = c->transposed};
  delta_tensor_id_t scores = c->has_own_bias ? DELTA_EMIT(&h->emit, MATMUL, attrs, hidden, h->xs[1], DELTA_TENSOR_NONE, h->xs[2])
                                             : DELTA_EMIT(&h->emit, MATMUL, attrs, hidden, h->xs[1]);
  if (c->has_bias) scores = delta_emit_binary(&h->emit, DELTA_EXPR_ADD, scores, h->xs[2]);
  scores = delta_emit_view(&h->emit, scores, &scores_shape);
  expect_ok(delta_graph_add_output(h->graph, "scores", scores), c->name);
  delta_build_facts_t facts;
  expect_ok(delta_loss_attach(&h->emit, options, &h->loss, &facts), c->name);
}

static void differentiate(const chunk_case_t *c, head_t *h, const delta_loss_values_t *loss, delta_tensor_id_t *out_gradients) {
  if (loss->head_count > 0) {
    expect_ok(delta_autodiff_outputs(&h->emit, loss->heads, loss->head_gradients, loss->head_count, h->xs, 3, c->levers, out_gradients),
              c->name);
  } else {
    const delta_tensor_id_t one = delta_emit_scalar(&h->emit, DELTA_DTYPE_FLOAT64, 1.0);
    expect_ok(delta_autodiff(&h->emit, c->of_sum ? loss->sum : loss->mean, one, h->xs, 3, c->levers, out_gradients), c->name);
  }
}

static uint32_t count_nodes(const delta_graph_t *graph, delta_core_op_t op) {
  uint32_t count = 0;
  for (size_t n = 0; n < graph->nodes.count; ++n) count += graph->nodes.items[n].op == op;
  return count;
}

static void fill(const delta_graph_t *graph, delta_reference_values_t *values) {
  for (uint32_t k = 0; k < graph->inputs.count; ++k) {
    const delta_tensor_t *tensor = delta_graph_tensor(graph, graph->inputs.items[k]);
    for (size_t i = 0; i < (size_t)delta_shape_count(&tensor->shape); ++i) {
      const double uniform = (double)delta_random_uniform(delta_random_word(k + 1, i));
      const double label = i % 7 == 3 ? -100 : floor(uniform * CLASSES); // some are ignored
      delta_element_store_double(delta_reference_value(values, graph->inputs.items[k]), tensor->dtype, i,
                                 delta_dtype_is_float(tensor->dtype) ? uniform - 0.4 : label);
    }
  }
}

static void expect_close(const chunk_case_t *c, delta_reference_values_t *values, delta_tensor_id_t found, delta_tensor_id_t wanted,
                         uint32_t which) {
  const delta_tensor_t *tensor = delta_graph_tensor(values->graph, wanted);
  cr_assert(delta_shape_equal(&delta_graph_tensor(values->graph, found)->shape, &tensor->shape), "%s: %u", c->name, which);
  const double *a = delta_reference_value(values, found), *b = delta_reference_value(values, wanted);
  for (int64_t i = 0; i < delta_shape_count(&tensor->shape); ++i) {
    cr_expect_float_eq(a[i], b[i], 1e-12 * (1 + fabs(b[i])), "%s: value %u, element %lld is %g, not %g", c->name, which, (long long)i, a[i],
                       b[i]);
  }
}

static void run_case(const chunk_case_t *c) {
  const delta_build_options_t options = {
      .import.levers = c->levers, .loss = DELTA_LOSS_CROSS_ENTROPY, .class_axis = -1, .ignore_index = -100};
  head_t h;
  build_head(c, &options, &h);
  delta_tensor_id_t wanted[MOST_WANTED] = {h.loss.sum, h.loss.mean}, found[MOST_WANTED];
  differentiate(c, &h, &h.loss, wanted + 2);
  const uint32_t losses = count_nodes(h.graph, DELTA_CORE_CROSS_ENTROPY);
  expect_ok(delta_loss_split(&h.emit, &options, c->of_sum, c->chunk_bytes, &h.loss), c->name);
  cr_expect_eq(count_nodes(h.graph, DELTA_CORE_CROSS_ENTROPY), losses + c->chunks, "%s", c->name);
  if (c->chunks > 0) {
    found[0] = h.loss.sum;
    found[1] = h.loss.mean;
    differentiate(c, &h, &h.loss, found + 2);
    expect_ok(delta_graph_check(h.graph), c->name);
    delta_reference_values_t values;
    expect_ok(delta_reference_values_init(h.graph, delta_allocator_system(), &values), c->name);
    fill(h.graph, &values);
    expect_ok(delta_reference_run_graph(&values), c->name);
    for (uint32_t k = 0; k < (c->has_bias || c->has_own_bias ? 5u : 4u); ++k) expect_close(c, &values, found[k], wanted[k], k);
    delta_reference_values_deinit(&values);
  } else {
    cr_expect_eq(h.loss.head_count, 0, "%s", c->name);
  }
  delta_graph_free(h.graph);
}

Test(loss_chunks, the_same_loss_and_gradients) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) run_case(&cases[i]);
}

// A whole training program: no tensor is as large as the scores.
Test(loss_chunks, a_language_model_never_holds_its_scores) {
  enum { SAMPLES = 1, POSITIONS = 1024, WORDS = 50257 };
  char path[DELTA_TEST_PATH_BYTES];
  DELTA_SKIP_WITHOUT_SHARED("graphs/gpt2_small.onnx", path);
  const delta_model_options_t model_options = {.path = path};
  const delta_build_options_t options = {.import = {.batch = SAMPLES, .levers = DELTA_LEVERS_ALL},
                                         .loss = DELTA_LOSS_CROSS_ENTROPY,
                                         .class_axis = -1,
                                         .ignore_index = -100,
                                         .optimizer = {.kind = DELTA_OPTIMIZER_SGD}};
  delta_model_t *model = NULL;
  delta_graph_t *graph = NULL;
  delta_build_facts_t facts;
  expect_ok(delta_model_load(&model_options, delta_allocator_system(), &model), path);
  expect_ok(delta_graph_build(model, &options, DELTA_PROGRAM_TRAIN, delta_allocator_system(), &graph, &facts), path);
  cr_expect_eq(count_nodes(graph, DELTA_CORE_CROSS_ENTROPY), 4);
  for (size_t t = 0; t < graph->tensors.count; ++t) {
    const delta_tensor_t *tensor = &graph->tensors.items[t];
    cr_expect_lt(delta_shape_count(&tensor->shape), (int64_t)SAMPLES * POSITIONS * WORDS, "'%s'", tensor->name);
  }
  delta_graph_free(graph);
  delta_model_free(model);
}
