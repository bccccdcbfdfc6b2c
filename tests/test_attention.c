// Recognition of attention: what exporters write becomes one operator that gives the same, and what only looks like it stays.
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>

#include "base/random.h"
#include "onnx/attention.h"
#include "onnx/graph/emit.h"
#include "onnx/graph/prune.h"
#include "onnx/lower/import.h"
#include "onnx/reference/run.h"
#include "tests/support/support.h"

static void expect_ok(delta_status_t status, const char *what) {
  cr_assert_eq(status, DELTA_OK, "%s: %s", what, delta_status_message(status));
  delta_status_free(status);
}

static uint32_t count_nodes(const delta_graph_t *graph, delta_core_op_t op) {
  uint32_t count = 0;
  for (size_t n = 0; n < graph->nodes.count; ++n) count += graph->nodes.items[n].op == op;
  return count;
}

static delta_graph_t *recognise(delta_graph_t *graph, const char *what) {
  delta_graph_t *rewritten = NULL, *pruned = NULL;
  expect_ok(delta_attention_recognise(graph, delta_allocator_system(), &rewritten), what);
  expect_ok(delta_graph_check(rewritten), what);
  expect_ok(delta_graph_prune(rewritten, delta_allocator_system(), &pruned), what);
  delta_graph_free(rewritten);
  return pruned;
}

typedef struct model_case {
  const char *path;
  uint32_t layers;
  bool heads_inside; // no transposes are left around the operator
} model_case_t;

Test(attention, every_layer_of_every_export) {
  static const model_case_t rows[] = {
      {"graphs/bert_base.onnx", 12, true}, {"graphs/gpt2_small.onnx", 12, true}, {"graphs/swin_t.onnx", 12, false},
      {"models/bert/model.onnx", 2, true}, {"models/gpt2/model.onnx", 2, true},  {"models/vit/model.onnx", 2, false},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    char path[DELTA_TEST_PATH_BYTES];
    DELTA_SKIP_WITHOUT_SHARED(rows[i].path, path);
    const delta_model_options_t model_options = {.path = path};
    const delta_import_options_t options = {.batch = 2, .training = true, .levers = DELTA_LEVERS_ALL};
    delta_import_facts_t facts;
    delta_model_t *model = NULL;
    delta_graph_t *graph = NULL;
    expect_ok(delta_model_load(&model_options, delta_allocator_system(), &model), rows[i].path);
    expect_ok(delta_import(model, &options, delta_allocator_system(), &graph, &facts), rows[i].path);
    delta_graph_t *recognised = recognise(graph, rows[i].path);
    cr_expect_eq(count_nodes(recognised, DELTA_CORE_ATTENTION), rows[i].layers, "%s", rows[i].path);
    cr_expect_eq(count_nodes(recognised, DELTA_CORE_SOFTMAX), 0, "%s", rows[i].path);
    if (rows[i].heads_inside) cr_expect_eq(count_nodes(recognised, DELTA_CORE_TRANSPOSE), 0, "%s", rows[i].path);
    delta_graph_free(recognised);
    delta_graph_free(graph);
    delta_model_free(model);
  }
}

// Small attentions written in many ways. Builders return what the product with the values gives.
typedef struct fixture {
  delta_graph_t *graph;
  delta_emit_t emit;
  uint32_t input_count;
} fixture_t;

#define SHAPE(rank_, ...) ((delta_shape_t){.rank = (rank_), .dims = {__VA_ARGS__}})

static delta_tensor_id_t input_of(fixture_t *f, delta_dtype_t dtype, delta_shape_t shape) {
  char name[16];
  snprintf(name, sizeof name, "x%u", f->input_count++);
  delta_tensor_id_t id;
  expect_ok(delta_graph_add_input(f->graph, name, dtype, &shape, &id), name);
  return id;
}
static delta_tensor_id_t input(fixture_t *f, delta_shape_t shape) { return input_of(f, DELTA_DTYPE_FLOAT64, shape); }
static delta_tensor_id_t scaled(fixture_t *f, delta_tensor_id_t x, double factor) {
  return delta_emit_binary_real(&f->emit, DELTA_EXPR_MUL, x, factor);
}
static delta_tensor_id_t plus(fixture_t *f, delta_tensor_id_t x, delta_tensor_id_t y) {
  return delta_emit_binary(&f->emit, DELTA_EXPR_ADD, x, y);
}
static delta_tensor_id_t softmax(fixture_t *f, delta_tensor_id_t x) {
  const delta_softmax_attrs_t attrs = {.axis = delta_emit_shape(&f->emit, x)->rank - 1};
  return DELTA_EMIT(&f->emit, SOFTMAX, attrs, x);
}
static delta_tensor_id_t transposed(fixture_t *f, delta_tensor_id_t x, int32_t a, int32_t b, int32_t c, int32_t d) {
  return delta_emit_transpose(&f->emit, x, (const int32_t[]){a, b, c, d});
}
static delta_tensor_id_t scores(fixture_t *f) {
  return delta_emit_matmul(&f->emit, input(f, SHAPE(4, 2, 3, 4, 5)), input(f, SHAPE(4, 2, 3, 6, 5)), false, true);
}
static delta_tensor_id_t times_values(fixture_t *f, delta_tensor_id_t p) {
  return delta_emit_matmul(&f->emit, p, input(f, SHAPE(4, 2, 3, 6, 7)), false, false);
}

static delta_tensor_id_t build_plain(fixture_t *f) { return times_values(f, softmax(f, scores(f))); }
static delta_tensor_id_t build_scaled_then_masked(fixture_t *f) {
  return times_values(f, softmax(f, plus(f, scaled(f, scores(f), 0.3), input(f, SHAPE(4, 2, 1, 1, 6)))));
}
static delta_tensor_id_t build_masked_then_divided(fixture_t *f) {
  const delta_tensor_id_t masked = plus(f, input(f, SHAPE(2, 4, 6)), scores(f));
  return times_values(f, softmax(f, delta_emit_binary_real(&f->emit, DELTA_EXPR_DIV, masked, 3.0)));
}
static delta_tensor_id_t build_root_on_both(fixture_t *f) {
  const delta_tensor_id_t q = scaled(f, input(f, SHAPE(4, 2, 3, 4, 5)), 0.7), k = transposed(f, input(f, SHAPE(4, 2, 3, 6, 5)), 0, 1, 3, 2);
  return times_values(f, softmax(f, delta_emit_matmul(&f->emit, q, scaled(f, k, 0.7), false, false)));
}
static delta_tensor_id_t build_keys_in_three_dimensions(fixture_t *f) {
  const delta_tensor_id_t k = delta_emit_transpose(&f->emit, input(f, SHAPE(3, 6, 6, 5)), (const int32_t[]){0, 2, 1});
  const delta_tensor_id_t apart = scaled(f, delta_emit_view(&f->emit, k, &SHAPE(4, 2, 3, 5, 6)), 0.5);
  return times_values(f, softmax(f, delta_emit_matmul(&f->emit, input(f, SHAPE(4, 2, 3, 4, 5)), apart, false, false)));
}
static delta_tensor_id_t build_heads_inside(fixture_t *f) {
  const delta_tensor_id_t q = transposed(f, input(f, SHAPE(4, 2, 4, 3, 5)), 0, 2, 1, 3),
                          k = transposed(f, input(f, SHAPE(4, 2, 6, 3, 5)), 0, 2, 3, 1);
  const delta_tensor_id_t v = transposed(f, input(f, SHAPE(4, 2, 6, 3, 7)), 0, 2, 1, 3);
  const delta_tensor_id_t p =
      softmax(f, plus(f, scaled(f, delta_emit_matmul(&f->emit, q, k, false, false), 0.4), input(f, SHAPE(4, 2, 1, 4, 6))));
  return transposed(f, delta_emit_matmul(&f->emit, p, v, false, false), 0, 2, 1, 3);
}
static delta_tensor_id_t build_heads_inside_kept_outside(fixture_t *f) {
  const delta_tensor_id_t q = transposed(f, input(f, SHAPE(4, 2, 4, 3, 5)), 0, 2, 1, 3),
                          k = transposed(f, input(f, SHAPE(4, 2, 6, 3, 5)), 0, 2, 3, 1);
  const delta_tensor_id_t v = transposed(f, input(f, SHAPE(4, 2, 6, 3, 7)), 0, 2, 1, 3);
  return delta_emit_matmul(&f->emit, softmax(f, delta_emit_matmul(&f->emit, q, k, false, false)), v, false, false);
}
static delta_tensor_id_t build_chosen(fixture_t *f) {
  const delta_tensor_id_t hidden = delta_emit_scalar(&f->emit, DELTA_DTYPE_FLOAT64, -INFINITY);
  return times_values(
      f, softmax(f, delta_emit_select(&f->emit, input_of(f, DELTA_DTYPE_BOOL, SHAPE(2, 4, 6)), scaled(f, scores(f), 0.3), hidden)));
}
static delta_tensor_id_t build_hidden_where_true(fixture_t *f) {
  const delta_tensor_id_t hidden = delta_emit_scalar(&f->emit, DELTA_DTYPE_FLOAT64, -3.4028234e38);
  return times_values(f, softmax(f, delta_emit_select(&f->emit, input_of(f, DELTA_DTYPE_BOOL, SHAPE(4, 2, 1, 1, 6)), hidden, scores(f))));
}
static delta_tensor_id_t build_guarded(fixture_t *f) {
  const delta_tensor_id_t hidden = delta_emit_scalar(&f->emit, DELTA_DTYPE_FLOAT64, -INFINITY),
                          zero = delta_emit_scalar(&f->emit, DELTA_DTYPE_FLOAT64, 0.0);
  const delta_tensor_id_t rows = input_of(f, DELTA_DTYPE_BOOL, SHAPE(2, 4, 1)); // some rows see nothing
  const delta_tensor_id_t p = softmax(f, delta_emit_select(&f->emit, rows, scores(f), hidden));
  return times_values(f, delta_emit_select(&f->emit, delta_emit_unary(&f->emit, DELTA_EXPR_ISNAN, p), zero, p));
}
static delta_tensor_id_t build_dropped(fixture_t *f) {
  const delta_dropout_attrs_t attrs = {.ratio = 0.4, .stream = 11};
  const delta_tensor_id_t seed = input_of(f, DELTA_DTYPE_INT64, SHAPE(0, 0)), drawn = input_of(f, DELTA_DTYPE_INT64, SHAPE(0, 0));
  return times_values(f, DELTA_EMIT(&f->emit, DROPOUT, attrs, softmax(f, scores(f)), seed, drawn));
}
// Shifted windows: a bias of heads in one shape, a mask of windows in another.
static delta_tensor_id_t build_windows(fixture_t *f) {
  const delta_tensor_id_t q = input(f, SHAPE(4, 6, 2, 4, 5)), k = input(f, SHAPE(4, 6, 2, 4, 5));
  const delta_tensor_id_t biased = plus(f, delta_emit_matmul(&f->emit, q, k, false, true), input(f, SHAPE(4, 1, 2, 4, 4)));
  const delta_tensor_id_t masked = plus(f, delta_emit_view(&f->emit, biased, &SHAPE(5, 2, 3, 2, 4, 4)), input(f, SHAPE(5, 1, 3, 1, 4, 4)));
  const delta_tensor_id_t p = softmax(f, delta_emit_view(&f->emit, masked, &SHAPE(4, 6, 2, 4, 4)));
  return delta_emit_matmul(&f->emit, p, input(f, SHAPE(4, 6, 2, 4, 5)), false, false);
}
static delta_tensor_id_t build_matrices(fixture_t *f) {
  const delta_tensor_id_t p = softmax(f, delta_emit_matmul(&f->emit, input(f, SHAPE(2, 4, 5)), input(f, SHAPE(2, 6, 5)), false, true));
  return delta_emit_matmul(&f->emit, p, input(f, SHAPE(2, 6, 7)), false, false);
}

// What stays.
static delta_tensor_id_t build_capped(fixture_t *f) {
  return times_values(f, softmax(f, delta_emit_unary(&f->emit, DELTA_EXPR_TANH, scores(f))));
}
static delta_tensor_id_t build_shown(fixture_t *f) {
  const delta_tensor_id_t p = softmax(f, scores(f));
  expect_ok(delta_graph_add_output(f->graph, "probabilities", p), "probabilities");
  return times_values(f, p);
}
static delta_tensor_id_t build_other_axis(fixture_t *f) {
  const delta_softmax_attrs_t attrs = {.axis = 2};
  return times_values(f, DELTA_EMIT(&f->emit, SOFTMAX, attrs, scores(f)));
}
static delta_tensor_id_t build_chosen_small(fixture_t *f) {
  const delta_tensor_id_t small = delta_emit_scalar(&f->emit, DELTA_DTYPE_FLOAT64, -10.0);
  return times_values(f, softmax(f, delta_emit_select(&f->emit, input_of(f, DELTA_DTYPE_BOOL, SHAPE(2, 4, 6)), scores(f), small)));
}
static delta_tensor_id_t build_shared_values(fixture_t *f) {
  return delta_emit_matmul(&f->emit, softmax(f, scores(f)), input(f, SHAPE(2, 6, 7)), false, false);
}

typedef struct form_case {
  const char *name;
  delta_tensor_id_t (*build)(fixture_t *f);
  bool recognised;
  uint32_t transposes; // that are left
} form_case_t;
static const form_case_t forms[] = {
    {"plain", build_plain, true, 0},
    {"scaled, then masked", build_scaled_then_masked, true, 0},
    {"masked, then divided", build_masked_then_divided, true, 0},
    {"root of the scale on both", build_root_on_both, true, 0},
    {"keys transposed in three dimensions", build_keys_in_three_dimensions, true, 0},
    {"heads inside", build_heads_inside, true, 0},
    {"heads inside, result outside", build_heads_inside_kept_outside, true, 1},
    {"chosen by Where", build_chosen, true, 0},
    {"hidden by Where", build_hidden_where_true, true, 0},
    {"guarded", build_guarded, true, 0},
    {"dropout", build_dropped, true, 0},
    {"windows", build_windows, true, 0},
    {"matrices", build_matrices, true, 0},
    {"scores capped", build_capped, false, 0},
    {"probabilities shown", build_shown, false, 0},
    {"softmax over queries", build_other_axis, false, 0},
    {"chosen against a small number", build_chosen_small, false, 0},
    {"values without heads", build_shared_values, false, 0},
};

static void fill(delta_reference_values_t *values) {
  for (uint32_t k = 0; k < values->graph->inputs.count; ++k) {
    const delta_tensor_id_t id = values->graph->inputs.items[k];
    const delta_tensor_t *tensor = delta_graph_tensor(values->graph, id);
    for (size_t i = 0; i < (size_t)delta_shape_count(&tensor->shape); ++i) {
      const double uniform = (double)delta_random_uniform(delta_random_word(k + 1, i));
      const bool is_float = delta_dtype_is_float(tensor->dtype);
      delta_element_store_double(delta_reference_value(values, id), tensor->dtype, i, is_float ? 4 * uniform - 2 : floor(2 * uniform));
    }
  }
}

static void run(const delta_graph_t *graph, delta_reference_values_t *values, const char *what) {
  expect_ok(delta_reference_values_init(graph, delta_allocator_system(), values), what);
  fill(values);
  expect_ok(delta_reference_run_graph(values), what);
}

static void run_form(const form_case_t *c) {
  fixture_t f = {0};
  expect_ok(delta_graph_create(delta_allocator_system(), &f.graph), c->name);
  delta_emit_init(&f.emit, f.graph);
  f.emit.name = c->name;
  const delta_tensor_id_t y = c->build(&f);
  expect_ok(delta_emit_finish(&f.emit), c->name);
  expect_ok(delta_graph_add_output(f.graph, "y", y), c->name);
  delta_graph_t *recognised = recognise(f.graph, c->name);
  cr_expect_eq(count_nodes(recognised, DELTA_CORE_ATTENTION), c->recognised, "%s", c->name);
  if (c->recognised) {
    cr_expect_eq(count_nodes(recognised, DELTA_CORE_SOFTMAX) + count_nodes(recognised, DELTA_CORE_MATMUL), 0, "%s", c->name);
    cr_expect_eq(count_nodes(recognised, DELTA_CORE_TRANSPOSE), c->transposes, "%s", c->name);
  }
  delta_reference_values_t wanted, found;
  run(f.graph, &wanted, c->name);
  run(recognised, &found, c->name);
  const double *a = delta_reference_value(&found, delta_graph_find_output(recognised, "y")), *b = delta_reference_value(&wanted, y);
  cr_assert(delta_shape_equal(&delta_graph_tensor(recognised, delta_graph_find_output(recognised, "y"))->shape,
                              &delta_graph_tensor(f.graph, y)->shape));
  for (int64_t i = 0; i < delta_shape_count(&delta_graph_tensor(f.graph, y)->shape); ++i) {
    const bool same = (isnan(a[i]) && isnan(b[i])) || fabs(a[i] - b[i]) <= 1e-12;
    cr_expect(same, "%s: element %lld is %g, not %g", c->name, (long long)i, a[i], b[i]);
  }
  delta_reference_values_deinit(&found);
  delta_reference_values_deinit(&wanted);
  delta_graph_free(recognised);
  delta_graph_free(f.graph);
}

Test(attention, forms_of_exporters) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; ++i) run_form(&forms[i]);
}

// Layers whose masks are chosen by the same condition share what is made of it.
Test(attention, layers_share_masks) {
  fixture_t f = {0};
  expect_ok(delta_graph_create(delta_allocator_system(), &f.graph), "layers");
  delta_emit_init(&f.emit, f.graph);
  f.emit.name = "layers";
  const delta_tensor_id_t condition = input_of(&f, DELTA_DTYPE_BOOL, SHAPE(2, 4, 6));
  for (int layer = 0; layer < 2; ++layer) {
    const delta_tensor_id_t hidden = delta_emit_scalar(&f.emit, DELTA_DTYPE_FLOAT64, -INFINITY);
    const delta_tensor_id_t y = times_values(&f, softmax(&f, delta_emit_select(&f.emit, condition, scores(&f), hidden)));
    expect_ok(delta_graph_add_output(f.graph, layer ? "second" : "first", y), "layers");
  }
  expect_ok(delta_emit_finish(&f.emit), "layers");
  delta_graph_t *recognised = recognise(f.graph, "layers");
  cr_expect_eq(count_nodes(recognised, DELTA_CORE_ATTENTION), 2);
  cr_expect_eq(count_nodes(recognised, DELTA_CORE_POINTWISE), 1);
  delta_graph_free(recognised);
  delta_graph_free(f.graph);
}
