// The import as a whole: dimensions, states, random streams, levers, memory faults.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/model_text.h"
#include "tests/support/support.h"

// ---- Dimensions

typedef struct dim_case {
  const char *name;
  const char *inputs;
  int64_t batch;
  delta_dim_binding_t dims[2];
  const char *expected; // shape of the first input, or "error: " and parts of the message, separated by |
} dim_case_t;

static const dim_case_t dim_cases[] = {
    {"fixed", "input x float32 [2,3]", 0, {{0}}, "[2, 3]"},
    {"symbolic batch", "input x float32 [N,3]", 4, {{0}}, "[4, 3]"},
    {"batch without a name", "input x float32 [?,3]", 4, {{0}}, "[4, 3]"},
    {"batch by name", "input x float32 [N,3]", 0, {{"N", 5}}, "[5, 3]"},
    {"name before batch", "input x float32 [T,N,3]; input z float32 [N,3]", 4, {{"T", 7}}, "[7, 4, 3]"},
    {"dimension without a name", "input x float32 [2,?]", 0, {{"x[1]", 6}}, "[2, 6]"},
    {"empty batch", "input x float32 [N,3]", 0, {{"N", 0}}, "[0, 3]"},
    {"nothing given", "input x float32 [N,S]; input z float32 [N,T]", 0, {{0}}, "error: 3 dimensions|'N'|'S'|'T'|--dim S=N|--batch N"},
    {"one left", "input x float32 [N,S]", 4, {{0}}, "error: 1 dimension of|is unknown|'S' (dimension 1 of input 'x'"},
    {"batch against a fixed one", "input x float32 [2,3]", 4, {{0}}, "error: 'x'|2|--batch gives 4"},
    {"batch agrees with a fixed one", "input x float32 [4,3]", 4, {{0}}, "[4, 3]"},
    {"batch for nobody", "input x float32 []", 4, {{0}}, "error: --batch 4"},
    {"name of nobody", "input x float32 [N,3]", 4, {{"M", 2}}, "error: --dim M"},
    {"negative", "input x float32 [N,3]", 0, {{"N", -2}}, "error: --dim N=-2"},
    {"no shape", "input x float32 -", 4, {{0}}, "error: 'x' has no shape"},
    {"too large", "input x float32 [N,4611686018427387904]", 4, {{0}}, "error: x"},
};

ParameterizedTestParameters(import_graph, dimensions) {
  const size_t count = sizeof dim_cases / sizeof dim_cases[0];
  int *indices = cr_malloc(count * sizeof *indices);
  for (size_t k = 0; k < count; ++k) indices[k] = (int)k;
  return cr_make_param_array(int, indices, count);
}

static void expect_parts(const char *name, const char *message, const char *parts) {
  char copy[256], *state = NULL;
  (void)snprintf(copy, sizeof copy, "%s", parts);
  for (char *part = strtok_r(copy, "|", &state); part; part = strtok_r(NULL, "|", &state)) {
    cr_expect_not_null(strstr(message, part), "%s: '%s' lacks '%s'", name, message, part);
  }
}

ParameterizedTest(int *index, import_graph, dimensions) {
  const dim_case_t *c = &dim_cases[*index];
  char text[256], shape[DELTA_SHAPE_TEXT_BYTES];
  (void)snprintf(text, sizeof text, "%s; node Relu x -> y; output y", c->inputs);
  delta_model_t *model = delta_test_model_of(text);
  const delta_import_options_t options = {
      .batch = c->batch, .dims = c->dims, .dim_count = c->dims[0].symbol ? 1 : 0, .levers = DELTA_LEVERS_ALL};
  delta_graph_t *graph = NULL;
  delta_import_facts_t facts;
  delta_status_t status = delta_import(model, &options, delta_allocator_system(), &graph, &facts);
  if (strncmp(c->expected, "error: ", 7) == 0) {
    cr_assert_not_null(status, "%s: was accepted", c->name);
    expect_parts(c->name, delta_status_message(status), c->expected + 7);
  } else {
    cr_assert_null(status, "%s: %s", c->name, delta_status_message(status));
    cr_expect_str_eq(delta_shape_text(&delta_graph_tensor(graph, delta_graph_find_input(graph, "x"))->shape, shape), c->expected);
  }
  delta_status_free(status);
  delta_graph_free(graph);
  delta_model_free(model);
}

// A shape that comes in as data is a constant when its value is given.
Test(import_graph, known_inputs_become_constants) {
  delta_model_t *model = delta_test_model_of("input x float32 [2,3]; input s int64 [2]; node Reshape x s -> y; output y");
  const int64_t shape[2] = {3, 2};
  const delta_known_input_t known = {.name = "s", .dtype = DELTA_DTYPE_INT64, .shape = {.rank = 1, .dims = {2}}, .data = shape};
  const delta_import_options_t options = {.known_inputs = &known, .known_input_count = 1};
  delta_import_facts_t facts;
  delta_graph_t *graph = delta_test_import(model, &options, &facts);
  cr_expect_eq(graph->inputs.count, 1);
  cr_expect_eq(delta_graph_tensor(graph, graph->outputs.items[0].tensor)->shape.dims[0], 3);
  delta_graph_free(graph);
  // A value of another type than the file declares.
  const delta_known_input_t wrong = {.name = "s", .dtype = DELTA_DTYPE_INT32, .shape = {.rank = 1, .dims = {2}}, .data = shape};
  const delta_import_options_t bad_options = {.known_inputs = &wrong, .known_input_count = 1};
  delta_status_t status = delta_import(model, &bad_options, delta_allocator_system(), &graph, &facts);
  cr_expect_eq(delta_status_code(status), DELTA_STATUS_INVALID_ARGUMENT);
  cr_expect_not_null(strstr(delta_status_message(status), "'s' is declared as int64 [2]"), "%s", delta_status_message(status));
  delta_status_free(status);
  delta_model_free(model);
}

// ---- Initializers

static delta_state_kind_t kind_of(const delta_graph_t *graph, const char *name) {
  uint32_t index = delta_graph_find_state(graph, name);
  cr_assert_neq(index, DELTA_INDEX_NONE, "%s is no state", name);
  return graph->states.items[index].kind;
}

Test(import_graph, initializers_become_states_or_constants) {
  delta_model_t *model = delta_test_model_of(
      "input x float32 [2,3]; input unused float32 [7]; init w float32 [3] 1; init scalar float32 [] 2; init ids int64 [2] 0 1;"
      "init far float32 [3] absent; init far_ids int64 [2] absent; init nobody float32 [3] 1; init onnx::Conv_12 float32 [3] 1;"
      "node Mul x w -> a; node Mul a scalar -> b; node Gather b ids -> c : axis=1; node Add x far -> d; node Gather d far_ids -> e : "
      "axis=1;"
      "node Mul x onnx::Conv_12 -> f; output c; output e; output f; output w");
  const delta_import_options_t options = {.training = true, .levers = DELTA_LEVERS_ALL};
  delta_import_facts_t facts;
  delta_graph_t *graph = delta_test_import(model, &options, &facts);
  cr_expect_eq(graph->states.count, 4);
  cr_expect_eq(kind_of(graph, "w"), DELTA_STATE_PARAMETER);
  cr_expect_eq(kind_of(graph, "far"), DELTA_STATE_PARAMETER);
  cr_expect_eq(kind_of(graph, "far_ids"), DELTA_STATE_FROZEN);
  cr_expect_eq(delta_graph_find_state(graph, "nobody"), DELTA_INDEX_NONE);
  cr_expect_eq(facts.folded_weights, 1);
  cr_expect_eq(graph->inputs.count, 2, "an input that nobody reads stays an input");
  cr_expect_str_eq(graph->outputs.items[3].name, "w");
  // The output has bytes of its own: the parameter may be updated in place.
  cr_expect_eq(delta_graph_tensor(graph, graph->outputs.items[3].tensor)->role, DELTA_ROLE_COMPUTED);
  cr_expect(delta_tensor_same(delta_graph_tensor(graph, graph->outputs.items[3].tensor)->storage, graph->outputs.items[3].tensor));
  delta_graph_free(graph);
  delta_model_free(model);
}

Test(import_graph, no_shape_may_depend_on_absent_values) {
  delta_model_t *model = delta_test_model_of("input x float32 [2,3]; init s int64 [2] absent; node Reshape x s -> y; output y");
  const delta_import_options_t options = {.training = true};
  delta_graph_t *graph = NULL;
  delta_import_facts_t facts;
  delta_status_t status = delta_import(model, &options, delta_allocator_system(), &graph, &facts);
  cr_assert_not_null(status);
  cr_expect_not_null(strstr(delta_status_message(status), "n0"), "%s", delta_status_message(status));
  delta_status_free(status);
  delta_model_free(model);
}

Test(import_graph, own_names_are_kept) {
  static const char *const models[] = {"input delta.seed int64 []; node Neg delta.seed -> y; output y",
                                       "init delta.w float32 [2] 1; node Neg delta.w -> y; output y",
                                       "input x float32 [2]; node Neg x -> delta.loss; output delta.loss"};
  for (size_t k = 0; k < sizeof models / sizeof *models; ++k) {
    delta_model_t *model = delta_test_model_of(models[k]);
    const delta_import_options_t options = {.training = true};
    delta_graph_t *graph = NULL;
    delta_import_facts_t facts;
    delta_status_t status = delta_import(model, &options, delta_allocator_system(), &graph, &facts);
    cr_expect_eq(delta_status_code(status), DELTA_STATUS_UNSUPPORTED);
    cr_expect_not_null(strstr(delta_status_message(status), "'delta."));
    delta_status_free(status);
    delta_model_free(model);
  }
}

static void count_line(void *self, delta_log_level_t level, const char *line) {
  cr_expect_eq(level, DELTA_LOG_WARNING);
  cr_expect_not_null(strstr(line, "2 attributes"), "%s", line);
  *(int *)self += 1;
}

Test(import_graph, unknown_attributes_are_noted_once_a_node) {
  delta_model_t *model = delta_test_model_of("input x float32 [2]; node Elu x -> y : alpha=1.0 colour=3 shade='x'; output y");
  int lines = 0;
  const delta_import_options_t options = {.training = true, .log = {.self = &lines, .write = count_line}};
  delta_import_facts_t facts;
  delta_graph_free(delta_test_import(model, &options, &facts));
  cr_expect_eq(lines, 1);
  delta_model_free(model);
}

// A mask of known parts: its parts are known, what they broadcast to is left to the operators that read it.
Test(import_graph, large_broadcasts_are_not_stored) {
  static const struct {
    const char *model;
    bool stored;
  } cases[] = {
      {"init r int64 [64,1] 1; init c int64 [1,64] 2; node Less r c -> m; output m", true},
      {"init r int64 [2048,1] 1; init c int64 [1,2048] 2; node Less r c -> m; output m", false},
      {"init x int64 [1,2048] 1; init s int64 [2] 2048 2048; node Expand x s -> m; output m", false},
      {"init s int64 [2] 2048 2048; node ConstantOfShape s -> m; output m", false},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; ++k) {
    delta_model_t *model = delta_test_model_of(cases[k].model);
    const delta_import_options_t options = {.training = true};
    delta_import_facts_t facts;
    delta_graph_t *graph = delta_test_import(model, &options, &facts);
    cr_expect_eq(delta_graph_tensor(graph, graph->outputs.items[0].tensor)->data != NULL, cases[k].stored, "%s", cases[k].model);
    delta_graph_free(graph);
    delta_model_free(model);
  }
}

// ---- Programs and levers

#define DROPOUT_NET                                                                                                         \
  "opset 15; input x float32 [4,2,4]; init r float32 [] 0.5; init t bool [] 1; init s float32 [2] 1; init b float32 [2] 0;" \
  "init rm float32 [2] 0; init rv float32 [2] 1; node Dropout x r t -> d; node MaxPool d -> p : kernel_shape=[2];"          \
  "node BatchNormalization p s b rm rv -> y m v : training_mode=1; output y"

static const delta_node_t *find_node(const delta_graph_t *graph, delta_core_op_t op) {
  for (size_t k = 0; k < graph->nodes.count; ++k) {
    if (graph->nodes.items[k].op == op) return &graph->nodes.items[k];
  }
  return NULL;
}

Test(import_graph, programs_have_the_same_states) {
  delta_model_t *model = delta_test_model_of(DROPOUT_NET);
  delta_graph_t *graphs[2];
  for (int training = 0; training < 2; ++training) {
    const delta_import_options_t options = {.training = training != 0, .levers = DELTA_LEVERS_ALL};
    delta_import_facts_t facts;
    graphs[training] = delta_test_import(model, &options, &facts);
    cr_expect_eq(facts.draws_random, training != 0);
    cr_expect_eq(delta_tensor_is_none(delta_graph_find_input(graphs[training], DELTA_NAME_SEED)), training == 0);
    cr_expect_eq(find_node(graphs[training], DELTA_CORE_DROPOUT) != NULL, training != 0);
  }
  cr_assert_eq(graphs[0]->states.count, graphs[1]->states.count);
  for (size_t k = 0; k < graphs[0]->states.count; ++k) {
    cr_expect_str_eq(graphs[0]->states.items[k].name, graphs[1]->states.items[k].name);
    cr_expect_eq(graphs[0]->states.items[k].kind, graphs[1]->states.items[k].kind);
  }
  cr_expect_eq(kind_of(graphs[0], DELTA_NAME_DRAW), DELTA_STATE_COUNTER);
  for (int k = 0; k < 2; ++k) delta_graph_free(graphs[k]);
  delta_model_free(model);
}

Test(import_graph, levers_choose_the_form) {
  delta_model_t *model = delta_test_model_of(DROPOUT_NET);
  for (int on = 0; on < 2; ++on) {
    const delta_import_options_t options = {.training = true, .levers = on ? DELTA_LEVERS_ALL : 0};
    delta_import_facts_t facts;
    delta_graph_t *graph = delta_test_import(model, &options, &facts);
    const delta_node_t *dropout = find_node(graph, DELTA_CORE_DROPOUT), *pool = find_node(graph, DELTA_CORE_MAX_POOL);
    // Off: a tensor of noise is drawn and kept. On: the data itself is dropped, and the mask drawn again when it is needed.
    cr_expect_eq(delta_node_input(graph, dropout, 0)->role == DELTA_ROLE_INPUT, on);
    cr_expect_eq(delta_node_output(graph, pool, 1)->dtype, on ? DELTA_DTYPE_UINT8 : DELTA_DTYPE_INT64);
    delta_graph_free(graph);
  }
  delta_model_free(model);
}

Test(import_graph, loss_is_one_operator_by_lever) {
  delta_model_t *model = delta_test_model_of("input x float32 [2,3]; input t int64 [2]; node SoftmaxCrossEntropyLoss x t -> y; output y");
  for (int on = 0; on < 2; ++on) {
    const delta_import_options_t options = {.training = true, .levers = on ? 1u << DELTA_LEVER_LOSS : 0};
    delta_import_facts_t facts;
    delta_graph_t *graph = delta_test_import(model, &options, &facts);
    cr_expect_eq(find_node(graph, DELTA_CORE_CROSS_ENTROPY) != NULL, on);
    cr_expect_eq(find_node(graph, DELTA_CORE_NLL) != NULL, !on);
    delta_graph_free(graph);
  }
  delta_model_free(model);
}

Test(import_graph, nodes_of_one_operator_share_a_group_and_its_name) {
  delta_model_t *model = delta_test_model_of("input x float32 [2,3]; node ReduceLogSumExp x -> h; node Relu h -> y; output y");
  const delta_import_options_t options = {.training = true};
  delta_import_facts_t facts;
  delta_graph_t *graph = delta_test_import(model, &options, &facts);
  for (size_t k = 0; k < graph->nodes.count; ++k) {
    const delta_node_t *node = &graph->nodes.items[k];
    cr_expect_str_eq(node->name, node->group == 0 ? "n0" : "n1");
  }
  cr_expect_eq(graph->nodes.items[graph->nodes.count - 1].group, 1);
  cr_expect_str_eq(delta_graph_tensor(graph, graph->outputs.items[0].tensor)->name, "y");
  delta_graph_free(graph);
  delta_model_free(model);
}

// ---- Memory

Test(import_graph, survives_every_failed_allocation) {
  delta_model_t *model = delta_test_model_of(DROPOUT_NET);
  const delta_import_options_t options = {.training = true, .levers = DELTA_LEVERS_ALL};
  for (int mode = 0; mode < 2; ++mode) {
    bool failed = true;
    for (size_t n = 1; failed; ++n) {
      delta_test_allocator_t faults;
      delta_test_allocator_init(&faults, n, mode ? DELTA_TEST_FAIL_ONCE : DELTA_TEST_FAIL_FROM_THEN_ON);
      delta_graph_t *graph = NULL;
      delta_import_facts_t facts;
      delta_status_t status = delta_import(model, &options, delta_test_allocator_interface(&faults), &graph, &facts);
      failed = faults.call_count >= n;
      if (failed) cr_assert_eq(delta_status_code(status), DELTA_STATUS_OUT_OF_MEMORY, "call %zu: %s", n, delta_status_message(status));
      cr_assert_eq(status == NULL, graph != NULL);
      delta_status_free(status);
      delta_graph_free(graph);
      cr_assert_eq(faults.live_blocks, 0, "call %zu leaks", n);
    }
  }
  delta_model_free(model);
}
