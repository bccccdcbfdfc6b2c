// Batch normalization: which statistics a node uses at each opset and mode, and what becomes of the running ones.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/model_text.h"

typedef enum statistics { BATCH, RUNNING } statistics_t;

typedef struct form {
  const char *name;
  int opset;
  const char *outputs;
  const char *attributes;
  bool training, as_exported;
  delta_batchnorm_mode_t mode;
  statistics_t expected;
} form_t;

static const form_t forms[] = {
    {"opset 7, five outputs", 7, "y m v sm sv", "", true, false, DELTA_BATCHNORM_AS_EXPORTED, BATCH},
    {"opset 7, one output", 7, "y", "", true, false, DELTA_BATCHNORM_AS_EXPORTED, RUNNING},
    {"opset 9, five outputs", 9, "y m v sm sv", "", true, false, DELTA_BATCHNORM_AS_EXPORTED, BATCH},
    {"opset 9, one output", 9, "y", "", true, false, DELTA_BATCHNORM_AS_EXPORTED, RUNNING},
    {"opset 13, three outputs", 13, "y m v", "", true, false, DELTA_BATCHNORM_AS_EXPORTED, BATCH},
    {"opset 13, one output", 13, "y", "", true, false, DELTA_BATCHNORM_AS_EXPORTED, RUNNING},
    {"opset 13, outputs left out", 13, "y _ _", "", true, false, DELTA_BATCHNORM_AS_EXPORTED, RUNNING},
    {"opset 14, training_mode", 14, "y m v", "training_mode=1", true, false, DELTA_BATCHNORM_AS_EXPORTED, BATCH},
    {"opset 14, training_mode and one output", 14, "y", "training_mode=1", true, false, DELTA_BATCHNORM_AS_EXPORTED, BATCH},
    {"opset 14, no training_mode", 14, "y", "", true, false, DELTA_BATCHNORM_AS_EXPORTED, RUNNING},
    {"opset 15, training_mode", 15, "y m v", "training_mode=1", true, false, DELTA_BATCHNORM_AS_EXPORTED, BATCH},
    {"opset 15, no training_mode", 15, "y", "training_mode=0", true, false, DELTA_BATCHNORM_AS_EXPORTED, RUNNING},
    {"evaluation of a training form", 15, "y m v", "training_mode=1", false, false, DELTA_BATCHNORM_AS_EXPORTED, RUNNING},
    {"evaluation of an old training form", 9, "y m v sm sv", "", false, false, DELTA_BATCHNORM_AS_EXPORTED, RUNNING},
    {"evaluation as exported", 15, "y m v", "training_mode=1", false, true, DELTA_BATCHNORM_AS_EXPORTED, BATCH},
    {"all by the batch", 15, "y", "", true, false, DELTA_BATCHNORM_TRAIN, BATCH},
    {"all by the batch, evaluated", 15, "y", "", false, false, DELTA_BATCHNORM_TRAIN, RUNNING},
    {"all frozen", 15, "y m v", "training_mode=1", true, false, DELTA_BATCHNORM_FREEZE, RUNNING},
};

// Two channels of two samples: means 2 and 6, population variances 1 and 4.
#define NODE_INPUTS \
  "init x float32 [2,2] 1 4 3 8; init s float32 [2] 1 2; init b float32 [2] 0 1; init rm float32 [2] 0 10; init rv float32 [2] 4 16;"

static delta_reference_values_t run(const delta_model_t *model, const delta_graph_t *graph) {
  delta_reference_values_t values = {0};
  cr_assert_null(delta_reference_values_init(graph, delta_allocator_system(), &values));
  delta_test_fill_states(model, &values);
  delta_status_t status = delta_reference_run_graph(&values);
  cr_assert_null(status, "%s", delta_status_message(status));
  return values;
}

static void expect_floats(const char *what, const delta_reference_values_t *values, delta_tensor_id_t id, const double *expected,
                          size_t count) {
  const float *found = delta_reference_value(values, id);
  for (size_t k = 0; k < count; ++k)
    cr_expect_float_eq(found[k], expected[k], 1e-4, "%s[%zu] is %g, not %g", what, k, (double)found[k], expected[k]);
}

// The value a statistic takes; the kind it has in any case.
static void expect_statistic(const delta_graph_t *graph, const delta_reference_values_t *values, const char *name, bool updated,
                             const double *expected) {
  uint32_t index = delta_graph_find_state(graph, name);
  cr_assert_neq(index, DELTA_INDEX_NONE);
  const delta_state_t *state = &graph->states.items[index];
  cr_expect_eq(state->kind, DELTA_STATE_STATISTIC);
  cr_assert_eq(!delta_tensor_is_none(state->next), updated, "%s", name);
  if (!updated) return;
  const delta_node_t *node = delta_graph_node(graph, delta_graph_tensor(graph, state->next)->producer);
  cr_expect_eq(node->op, DELTA_CORE_POINTWISE);
  cr_expect_eq(node->phase, DELTA_PHASE_UPDATE);
  expect_floats(name, values, state->next, expected, 2);
}

ParameterizedTestParameters(import_batchnorm, statistics_by_form) {
  const size_t count = sizeof forms / sizeof forms[0];
  int *indices = cr_malloc(count * sizeof *indices);
  for (size_t k = 0; k < count; ++k) indices[k] = (int)k;
  return cr_make_param_array(int, indices, count);
}

ParameterizedTest(int *index, import_batchnorm, statistics_by_form) {
  const form_t *form = &forms[*index];
  char text[512];
  (void)snprintf(text, sizeof text,
                 "opset %d;" NODE_INPUTS "node BatchNormalization x s b rm rv -> %s : momentum=0.75 epsilon=0.0 %s; output y", form->opset,
                 form->outputs, form->attributes);
  delta_model_t *model = delta_test_model_of(text);
  const delta_import_options_t options = {
      .training = form->training, .as_exported = form->as_exported, .batchnorm = form->mode, .levers = DELTA_LEVERS_ALL};
  delta_import_facts_t facts;
  delta_graph_t *graph = delta_test_import(model, &options, &facts);
  delta_reference_values_t values = run(model, graph);
  bool batch = form->expected == BATCH;
  static const double by_batch[] = {-1, -1, 1, 3}, by_running[] = {0.5, -2, 1.5, 0};
  expect_floats(form->name, &values, graph->outputs.items[0].tensor, batch ? by_batch : by_running, 4);
  expect_statistic(graph, &values, "rm", batch, (const double[]){0.5, 9});
  expect_statistic(graph, &values, "rv", batch, (const double[]){3.25, 13});
  cr_expect_eq(facts.batchnorm_training, batch);
  cr_expect_eq(facts.batchnorm_inference, !batch);
  delta_reference_values_deinit(&values);
  delta_graph_free(graph);
  delta_model_free(model);
}

Test(import_batchnorm, unbiased_variance_when_asked) {
  delta_model_t *model =
      delta_test_model_of("opset 15;" NODE_INPUTS "node BatchNormalization x s b rm rv -> y m v : momentum=0.75 training_mode=1; output y");
  const delta_import_options_t options = {.training = true, .batchnorm_unbiased = true, .levers = DELTA_LEVERS_ALL};
  delta_import_facts_t facts;
  delta_graph_t *graph = delta_test_import(model, &options, &facts);
  delta_reference_values_t values = run(model, graph);
  expect_statistic(graph, &values, "rv", true, (const double[]){3 + 0.5, 12 + 2});
  delta_reference_values_deinit(&values);
  delta_graph_free(graph);
  delta_model_free(model);
}

Test(import_batchnorm, outputs_of_the_file_and_states_are_made_apart) {
  delta_model_t *model = delta_test_model_of(
      "opset 9;" NODE_INPUTS
      "node BatchNormalization x s b rm rv -> y m v sm sv : momentum=0.75; output y; output m; output v; output sm; output sv");
  const delta_import_options_t options = {.training = true, .levers = DELTA_LEVERS_ALL};
  delta_import_facts_t facts;
  delta_graph_t *graph = delta_test_import(model, &options, &facts);
  delta_reference_values_t values = run(model, graph);
  static const double expected[5][2] = {{-1, -1}, {0.5, 9}, {3.25, 13}, {2, 6}, {1, 4}};
  for (size_t k = 1; k < 5; ++k) {
    expect_floats(graph->outputs.items[k].name, &values, graph->outputs.items[k].tensor, expected[k], 2);
    for (size_t s = 0; s < graph->states.count; ++s)
      cr_expect(!delta_tensor_same(graph->states.items[s].next, graph->outputs.items[k].tensor));
  }
  delta_reference_values_deinit(&values);
  delta_graph_free(graph);
  delta_model_free(model);
}

// What cannot be trained right is refused, with the reason.
typedef struct refusal {
  const char *model;
  const char *message;
  bool unbiased;
} refusal_t;

static const refusal_t refusals[] = {
    {"opset 7;" NODE_INPUTS "node BatchNormalization x s b rm rv -> y : spatial=0; output y", "spatial", false},
    {"opset 15;" NODE_INPUTS "node BatchNormalization x s b rm rv -> y m v sm sv : training_mode=1; output y", "5 outputs", false},
    {"opset 15;" NODE_INPUTS "init s3 float32 [3] 1; node BatchNormalization x s3 b rm rv -> y; output y", "input 1 has shape [3]", false},
    {"opset 15;" NODE_INPUTS "node Relu rm -> c; node BatchNormalization x s b c rv -> y m v : training_mode=1; output y", "no initializer",
     false},
    {"opset 15;" NODE_INPUTS "node BatchNormalization x s b rm rv -> h m v : training_mode=1; node BatchNormalization h s b rm rv -> y m2 "
     "v2 : training_mode=1; output y",
     "updated by another node", false},
    {"opset 15; init x float32 [1,2] 1; init s float32 [2] 1; init b float32 [2] 1; init rm float32 [2] 1; init rv float32 [2] 1;"
     "node BatchNormalization x s b rm rv -> y m v : training_mode=1; output y",
     "one value per channel", true},
};

Test(import_batchnorm, refusals_say_why) {
  for (size_t k = 0; k < sizeof refusals / sizeof refusals[0]; ++k) {
    delta_model_t *model = delta_test_model_of(refusals[k].model);
    const delta_import_options_t options = {.training = true, .batchnorm_unbiased = refusals[k].unbiased, .levers = DELTA_LEVERS_ALL};
    delta_graph_t *graph = NULL;
    delta_import_facts_t facts;
    delta_status_t status = delta_import(model, &options, delta_allocator_system(), &graph, &facts);
    cr_assert_not_null(status, "case %zu was accepted", k);
    cr_assert_null(graph);
    cr_expect_not_null(strstr(delta_status_message(status), refusals[k].message), "'%s' lacks '%s'", delta_status_message(status),
                       refusals[k].message);
    cr_expect_not_null(strstr(delta_status_message(status), "(BatchNormalization)"));
    delta_status_free(status);
    delta_model_free(model);
  }
}
