// Gradients through lowered operators: the gradient of every float input of a small model against central differences in float64.
// The checked function is the sum of the first output times random weights; each input moves along a random direction.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdlib.h>

#include "base/random.h"
#include "onnx/gradient/gradient.h"
#include "tests/support/model_text.h"

enum { MAX_INPUTS = 10 };

typedef struct gradient_case {
  const char *name;
  const char *model; // inputs of float64 are differentiated
} gradient_case_t;

#define RECURRENT(gates)                                                                \
  "input x float64 [3,2,2]; input w float64 [2," gates ",2]; input r float64 [2," gates \
  ",3]; input h float64 [2,2,3]; init l int32 [2] 2 3;"

static const gradient_case_t gradient_cases[] = {
    {"layer norm",
     "opset 17; input x float64 [3,4]; input s float64 [4]; input b float64 [4]; node LayerNormalization x s b -> y; output y"},
    {"rms norm", "opset 23; input x float64 [3,4]; input s float64 [4]; node RMSNormalization x s -> y; output y"},
    {"skip layer norm",
     "input x float64 [3,4]; input k float64 [3,4]; input s float64 [4]; node com.microsoft:SkipLayerNormalization x k s -> y; output y"},
    {"instance norm", "input x float64 [2,3,4]; input s float64 [3]; input b float64 [3]; node InstanceNormalization x s b -> y; output y"},
    {"group norm",
     "opset 21; input x float64 [2,4,3]; input s float64 [4]; input b float64 [4]; node GroupNormalization x s b -> y : num_groups=2; "
     "output y"},
    {"mean variance norm", "input x float64 [2,3,2,2]; node MeanVarianceNormalization x -> y; output y"},
    {"p-norm", "input x float64 [3,4]; node LpNormalization x -> y; output y"},
    {"p-norm pool", "opset 18; input x float64 [1,2,5]; node LpPool x -> y : kernel_shape=[2] strides=[2] ceil_mode=1 p=3; output y"},
    {"response norm", "input x float64 [2,5,2]; node LRN x -> y : size=3 alpha=0.5; output y"},
    {"conv transpose",
     "input x float64 [2,4,3]; input w float64 [4,3,2]; input b float64 [6]; node ConvTranspose x w b -> y : group=2 strides=[3] "
     "output_padding=[1] pads=[1,0]; output y"},
    {"resize", "input x float64 [1,1,3,4]; init s float32 [4] 1 1 2 1.5; node Resize x _ s -> y : mode='cubic'; output y"},
    {"upsample", "opset 9; input x float64 [1,1,3,2]; init s float32 [4] 1 1 2 3; node Upsample x s -> y; output y"},
    {"depth to space", "input x float64 [1,8,1,2]; node DepthToSpace x -> y : blocksize=2 mode='CRD'; output y"},
    {"crop and pad", "opset 18; input x float64 [4,3]; init s int64 [2] 3 6; node CenterCropPad x s -> y; output y"},
    {"unpool", "input x float64 [1,1,2]; init i int64 [1,1,2] 1 2; node MaxUnpool x i -> y : kernel_shape=[2] strides=[2]; output y"},
    {"col2im", "opset 18; input x float64 [1,4,9]; init i int64 [2] 4 4; init b int64 [2] 2 2; node Col2Im x i b -> y; output y"},
    {"triangle", "opset 14; input x float64 [3,4]; node Trilu x -> y : upper=0; output y"},
    {"cumulative sum", "input x float64 [3,4]; init a int64 [] 1; node CumSum x a -> y : reverse=1; output y"},
    {"cumulative product", "opset 26; input x float64 [5,2]; init a int64 [] 0; node CumProd x a -> y : exclusive=1; output y"},
    {"reversed sequences", "input x float64 [3,2,2]; init l int64 [2] 3 2; node ReverseSequence x l -> y; output y"},
    {"top k", "input x float64 [2,4]; init k int64 [1] 2; node TopK x k -> y _; output y"},
    {"one hot of values", "init i int64 [3] 1 0 2; init d int64 [] 3; input v float64 [2]; node OneHot i d v -> y; output y"},
    {"gather elements", "input x float64 [2,3]; init i int64 [2,2] -1 0 1 1; node GatherElements x i -> y : axis=1; output y"},
    {"gather nd", "input x float64 [2,3,2]; init i int64 [2,1] 1 -1; node GatherND x i -> y : batch_dims=1; output y"},
    {"scatter elements",
     "opset 16; input x float64 [3,2]; init i int64 [2,2] 0 1 0 2; input u float64 [2,2]; node ScatterElements x i u -> y : "
     "reduction='add'; output y"},
    {"scatter nd", "input x float64 [3,2]; init i int64 [2,1] 2 0; input u float64 [2,2]; node ScatterND x i u -> y; output y"},
    {"einsum, a batch of products",
     "input x float64 [2,3,2]; input z float64 [2,4,3]; node Einsum x z -> y : equation='bij,bki->bjk'; output y"},
    {"einsum, a diagonal", "input x float64 [3,2,3]; input z float64 [3]; node Einsum x z -> y : equation='iji,i->j'; output y"},
    {"einsum, three of them",
     "input x float64 [2,3]; input z float64 [3,4]; input u float64 [4]; node Einsum x z u -> y : equation='ij,jk,k->i'; output y"},
    {"rnn", RECURRENT("3") "node RNN x w r _ l h -> y : direction='bidirectional'; output y"},
    {"gru", RECURRENT("9") "input b float64 [2,18]; node GRU x w r b l h -> y : direction='bidirectional'; output y"},
    {"gru that resets the product",
     RECURRENT("9") "input b float64 [2,18]; node GRU x w r b _ h -> y : direction='bidirectional' linear_before_reset=1; output y"},
    {"lstm", RECURRENT("12") "input b float64 [2,24]; input c float64 [2,2,3]; input p float64 [2,9]; node LSTM x w r b l h c p -> y : "
                             "direction='bidirectional'; output y"},
    {"lstm's last state", RECURRENT("12") "node LSTM x w r _ l h -> _ _ y : direction='bidirectional'; output y"},
    {"attention of grouped heads",
     "opset 23; input q float64 [1,4,3,2]; input k float64 [1,2,3,2]; input v float64 [1,2,3,2]; input m float64 [3,3]; node Attention q k "
     "v m -> y : is_causal=1 softcap=2.; output y"},
    {"rotary embedding",
     "opset 23; input x float64 [1,2,3,6]; input c float64 [1,3,2]; input s float64 [1,3,2]; node RotaryEmbedding x c s -> y : "
     "interleaved=1 rotary_embedding_dim=4; output y"},
    {"grid sample",
     "opset 20; input x float64 [1,2,3,4]; input g float64 [1,2,2,2]; node GridSample x g -> y : padding_mode='border'; output y"},
    {"grid sample, cubic",
     "opset 20; input x float64 [1,1,4,3]; input g float64 [1,2,1,2]; node GridSample x g -> y : mode='cubic' padding_mode='reflection'; "
     "output y"},
    {"grid sample of a volume",
     "opset 20; input x float64 [1,1,2,3,2]; input g float64 [1,1,2,1,3]; node GridSample x g -> y : align_corners=1; output y"},
    {"quick gelu", "input x float64 [4]; node com.microsoft:QuickGelu x -> y; output y"},
    {"gelu with a bias", "input x float64 [2,3]; input b float64 [3]; node com.microsoft:BiasGelu x b -> y; output y"},
    {"fused product",
     "input x float64 [3,2,4]; input z float64 [2,5,4]; node com.microsoft:FusedMatMul x z -> y : transBatchA=1 transB=1 alpha=0.5; output "
     "y"},
};

typedef struct fixture {
  delta_model_t *model;
  delta_graph_t *graph;
  delta_tensor_id_t loss, inputs[MAX_INPUTS], gradients[MAX_INPUTS];
  size_t input_count;
  uint64_t draws;
} fixture_t;

// In [-1, 1).
static double draw(fixture_t *f) { return 2.0 * (double)delta_random_uniform(delta_random_word(29, f->draws++)) - 1.0; }

static void expect_ok(delta_status_t status, const char *name) { cr_assert_null(status, "%s: %s", name, delta_status_message(status)); }

// Adds the loss and the gradients to the graph.
static void differentiate(fixture_t *f, const char *name) {
  delta_emit_t emit;
  delta_emit_init(&emit, f->graph);
  const delta_tensor_id_t y = f->graph->outputs.items[0].tensor;
  const delta_shape_t shape = *delta_emit_shape(&emit, y);
  double *weights = calloc((size_t)delta_shape_count(&shape) + 1, sizeof *weights);
  for (int64_t k = 0; k < delta_shape_count(&shape); ++k) weights[k] = draw(f);
  const delta_tensor_id_t product =
      delta_emit_binary(&emit, DELTA_EXPR_MUL, y, delta_emit_constant(&emit, DELTA_DTYPE_FLOAT64, &shape, weights));
  free(weights);
  f->loss = delta_emit_view(&emit, delta_emit_reduce(&emit, DELTA_REDUCE_SUM, product, (1u << shape.rank) - 1u), &(delta_shape_t){0});
  const delta_tensor_id_t seed = delta_emit_scalar(&emit, DELTA_DTYPE_FLOAT64, 1.0);
  expect_ok(delta_autodiff(&emit, f->loss, seed, f->inputs, f->input_count, DELTA_LEVERS_ALL, f->gradients), name);
  expect_ok(delta_emit_finish(&emit), name);
}

static void make_fixture(fixture_t *f, const gradient_case_t *c) {
  f->model = delta_test_model_of(c->model);
  const delta_import_options_t options = {.as_exported = true, .levers = DELTA_LEVERS_ALL};
  delta_import_facts_t facts;
  expect_ok(delta_import(f->model, &options, delta_allocator_system(), &f->graph, &facts), c->name);
  for (size_t k = 0; k < f->graph->inputs.count; ++k) {
    if (delta_graph_tensor(f->graph, f->graph->inputs.items[k])->dtype != DELTA_DTYPE_FLOAT64) continue;
    cr_assert_lt(f->input_count, MAX_INPUTS);
    f->inputs[f->input_count++] = f->graph->inputs.items[k];
  }
  differentiate(f, c->name);
}

static double loss_of(const fixture_t *f, delta_reference_values_t *values, const char *name) {
  expect_ok(delta_reference_run_graph(values), name);
  return *(const double *)delta_reference_value(values, f->loss);
}

// The slope of the loss along a random direction of input k, by the gradient and by differences.
static void check_input(fixture_t *f, delta_reference_values_t *values, size_t k, const char *name) {
  const double step = 1e-5;
  const size_t count = (size_t)delta_shape_count(&delta_graph_tensor(f->graph, f->inputs[k])->shape);
  double *x = delta_reference_value(values, f->inputs[k]), slope = 0.0, losses[2];
  double *saved = calloc(count + 1, sizeof *saved), *direction = calloc(count + 1, sizeof *direction);
  cr_assert(!delta_tensor_is_none(f->gradients[k]), "%s: input %zu has no gradient", name, k);
  (void)loss_of(f, values, name);
  const double *gradient = delta_reference_value(values, f->gradients[k]);
  for (size_t i = 0; i < count; ++i) {
    saved[i] = x[i];
    direction[i] = draw(f);
    slope += gradient[i] * direction[i];
  }
  for (int side = 0; side < 2; ++side) {
    for (size_t i = 0; i < count; ++i) x[i] = saved[i] + (side ? step : -step) * direction[i];
    losses[side] = loss_of(f, values, name);
  }
  for (size_t i = 0; i < count; ++i) x[i] = saved[i];
  const double measured = (losses[1] - losses[0]) / (2.0 * step);
  cr_expect(fabs(measured - slope) <= 1e-6 * fmax(1.0, fabs(slope)), "%s: along input %zu the slope is %.9g, by the gradient %.9g", name, k,
            measured, slope);
  cr_expect_neq(slope, 0.0, "%s: input %zu has no influence", name, k);
  free(saved);
  free(direction);
}

// Case parameters live in the parent's memory; they are passed by index.
ParameterizedTestParameters(import_gradient, agrees_with_differences) {
  const size_t count = sizeof gradient_cases / sizeof gradient_cases[0];
  int *indices = cr_malloc(count * sizeof *indices);
  for (size_t k = 0; k < count; ++k) indices[k] = (int)k;
  return cr_make_param_array(int, indices, count);
}

ParameterizedTest(int *index, import_gradient, agrees_with_differences) {
  const gradient_case_t *c = &gradient_cases[*index];
  fixture_t f = {.draws = 0};
  make_fixture(&f, c);
  delta_reference_values_t values = {0};
  expect_ok(delta_reference_values_init(f.graph, delta_allocator_system(), &values), c->name);
  delta_test_fill_states(f.model, &values);
  for (size_t k = 0; k < f.input_count; ++k) {
    double *x = delta_reference_value(&values, f.inputs[k]);
    const int64_t count = delta_shape_count(&delta_graph_tensor(f.graph, f.inputs[k])->shape);
    for (int64_t i = 0; i < count; ++i) x[i] = draw(&f);
  }
  for (size_t k = 0; k < f.input_count; ++k) check_input(&f, &values, k, c->name);
  delta_reference_values_deinit(&values);
  delta_graph_free(f.graph);
  delta_model_free(f.model);
}
