// Building of programs: messages, what trains, the list of states, outputs by kind, ranges of inputs, failing allocations.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/optimizer.h"
#include "onnx/reference/run.h"
#include "tests/support/model_file.h"
#include "tests/support/model_write.h"

enum { NOTES_BYTES = 4096 };

static void succeed(delta_status_t status) { cr_assert_null(status, "%s", delta_status_message(status)); }

static delta_model_t *load(const char *relative) {
  char path[DELTA_TEST_PATH_BYTES];
  DELTA_SKIP_WITHOUT_SHARED(relative, path);
  delta_model_t *model;
  succeed(delta_model_load(&(delta_model_options_t){.path = path}, delta_allocator_system(), &model));
  return model;
}

static delta_build_options_t training_options(int64_t batch) {
  delta_build_options_t options = {.import = {.batch = batch, .levers = DELTA_LEVERS_ALL},
                                   .loss = DELTA_LOSS_CROSS_ENTROPY,
                                   .class_axis = 1,
                                   .ignore_index = -100,
                                   .optimizer = delta_optimizer_defaults(DELTA_OPTIMIZER_ADAM),
                                   .accumulates = true};
  return options;
}

static delta_graph_t *build(const delta_model_t *model, const delta_build_options_t *options, delta_program_kind_t kind,
                            delta_build_facts_t *facts) {
  delta_graph_t *graph;
  succeed(delta_graph_build(model, options, kind, delta_allocator_system(), &graph, facts));
  succeed(delta_graph_check(graph));
  return graph;
}

static void expect_error(const delta_model_t *model, const delta_build_options_t *options, delta_program_kind_t kind, const char *text) {
  delta_graph_t *graph;
  delta_build_facts_t facts;
  const delta_status_t status = delta_graph_build(model, options, kind, delta_allocator_system(), &graph, &facts);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_INVALID_ARGUMENT, "wanted '%s', got '%s'", text, delta_status_message(status));
  cr_assert_not_null(strstr(delta_status_message(status), text), "wanted '%s', got '%s'", text, delta_status_message(status));
  cr_assert_null(graph);
  delta_status_free(status);
}

Test(build, says_what_is_wrong_with_the_loss) {
  delta_model_t *model = load("models/mlp/model.onnx");
  delta_build_options_t options = training_options(4);
  options.loss = DELTA_LOSS_NONE;
  expect_error(model, &options, DELTA_PROGRAM_TRAIN,
               "no loss: give --loss NAME (the model computes none; its outputs are 'logits' [4, 10])");
  options.loss = DELTA_LOSS_MSE;
  options.loss_output = "probabilities";
  expect_error(model, &options, DELTA_PROGRAM_TRAIN, "the model has no output 'probabilities'; it has 'logits' [4, 10]");
  options = training_options(4);
  options.class_axis = 2;
  expect_error(model, &options, DELTA_PROGRAM_TRAIN, "has no axis 2 for the classes; give --class-axis N");
  options.class_axis = -3;
  expect_error(model, &options, DELTA_PROGRAM_TRAIN, "has no axis -3");
  delta_model_free(model);
}

Test(build, says_what_is_wrong_with_the_globs) {
  delta_model_t *model = load("models/cnn/model.onnx");
  delta_build_options_t options = training_options(4);
  const char *const nothing[] = {"convx*"}, *const all[] = {"*"};
  options.freeze = nothing;
  options.freeze_count = 1;
  expect_error(model, &options, DELTA_PROGRAM_TRAIN, "--freeze 'convx*' matches none of the model's");
  options.freeze = all;
  expect_error(model, &options, DELTA_PROGRAM_TRAIN,
               "nothing to train: of the model's initializers 10 (matches --freeze), 4 (running statistic");
  options = training_options(4);
  options.optimizer = (delta_optimizer_options_t){.kind = DELTA_OPTIMIZER_NONE};
  expect_error(model, &options, DELTA_PROGRAM_TRAIN, "give --optimizer NAME");
  delta_model_free(model);
}

static void keep_note(void *self, delta_log_level_t level, const char *line) {
  if (level == DELTA_LOG_NOTE) strncat(self, line, NOTES_BYTES - strlen(self) - 1);
}

typedef struct glob_case {
  const char *freeze, *train;
  uint32_t trained;
} glob_case_t;

// cnn: weight and bias of conv1, bn1, conv2, bn2, fc.
Test(build, trains_what_the_globs_say) {
  static const glob_case_t cases[] = {{NULL, NULL, 10},      {"conv*", NULL, 6},      {NULL, "fc.*", 2},
                                      {"*", "fc.weight", 1}, {"conv*", "conv2.*", 2}, {"*.bias", "bn1.bias", 1}};
  delta_model_t *model = load("models/cnn/model.onnx");
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; ++k) {
    delta_build_options_t options = training_options(4);
    options.freeze = &cases[k].freeze;
    options.freeze_count = cases[k].freeze != NULL;
    options.train = &cases[k].train;
    options.train_count = cases[k].train != NULL;
    delta_build_facts_t facts;
    delta_graph_t *graph = build(model, &options, DELTA_PROGRAM_TRAIN, &facts);
    cr_assert_eq(facts.trainable_tensors, cases[k].trained, "case %zu: %u", k, facts.trainable_tensors);
    uint32_t parameters = 0;
    for (size_t s = 0; s < graph->states.count; ++s) {
      const delta_state_t *state = &graph->states.items[s];
      parameters += state->kind == DELTA_STATE_PARAMETER;
      const bool changes = state->kind != DELTA_STATE_FROZEN && state->kind != DELTA_STATE_ACCUMULATOR;
      cr_assert_eq(!delta_tensor_is_none(state->next), changes, "case %zu: '%s'", k, state->name);
    }
    cr_assert_eq(parameters, cases[k].trained);
    delta_graph_free(graph);
  }
  delta_model_free(model);
}

Test(build, notes_globs_that_match_only_what_cannot_train) {
  delta_model_t *model = load("models/cnn/model.onnx");
  char notes[NOTES_BYTES] = "";
  delta_build_options_t options = training_options(4);
  const char *const statistics[] = {"*running_mean"};
  options.freeze = statistics;
  options.freeze_count = 1;
  options.import.log = (delta_log_sink_t){.self = notes, .write = keep_note};
  delta_build_facts_t facts;
  delta_graph_free(build(model, &options, DELTA_PROGRAM_TRAIN, &facts));
  cr_assert_not_null(strstr(notes, "--freeze '*running_mean' matches only what does not train anyway"), "%s", notes);
  cr_assert_eq(facts.trainable_tensors, 10);
  delta_model_free(model);
}

static const char *const all_models[] = {"models/mlp/model.onnx",  "models/cnn/model.onnx",  "models/dropout_mlp/model.onnx",
                                         "models/bert/model.onnx", "models/lstm/model.onnx", "models/unet/model.onnx"};

Test(build, programs_share_one_list_of_states) {
  for (size_t m = 0; m < sizeof all_models / sizeof all_models[0]; ++m) {
    delta_model_t *model = load(all_models[m]);
    const delta_build_options_t options = training_options(4);
    delta_build_facts_t facts;
    delta_graph_t *train = build(model, &options, DELTA_PROGRAM_TRAIN, &facts);
    for (int kind = DELTA_PROGRAM_ACCUMULATE; kind <= DELTA_PROGRAM_EVALUATE; ++kind) {
      delta_graph_t *graph = build(model, &options, (delta_program_kind_t)kind, &facts);
      cr_assert_eq(graph->states.count, train->states.count);
      for (size_t s = 0; s < graph->states.count; ++s) {
        const delta_state_t *a = &train->states.items[s], *b = &graph->states.items[s];
        cr_assert_str_eq(a->name, b->name);
        cr_assert(a->kind == b->kind && a->dtype == b->dtype && delta_shape_equal(&a->shape, &b->shape), "%s", a->name);
        cr_assert_eq(a->initializer, b->initializer);
      }
      delta_graph_free(graph);
    }
    delta_graph_free(train);
    delta_model_free(model);
  }
}

Test(build, equal_input_gives_equal_graphs) {
  delta_model_t *model = load("models/cnn/model.onnx");
  for (int eager = 0; eager < 2; ++eager) {
    char hashes[2][65];
    for (int k = 0; k < 2; ++k) {
      delta_build_options_t options = training_options(4);
      options.eager = eager != 0;
      delta_build_facts_t facts;
      delta_graph_t *graph = build(model, &options, DELTA_PROGRAM_TRAIN, &facts);
      delta_graph_hash(graph, hashes[k]);
      delta_graph_free(graph);
    }
    cr_assert_str_eq(hashes[0], hashes[1]);
  }
  delta_model_free(model);
}

// Every state's next value comes from a POINTWISE node of the update phase, and no other node reads it.
Test(build, next_values_are_read_by_nobody) {
  for (size_t m = 0; m < sizeof all_models / sizeof all_models[0]; ++m) {
    delta_model_t *model = load(all_models[m]);
    delta_build_options_t options = training_options(4);
    options.clip_gradient_norm = 1.0;
    for (int kind = DELTA_PROGRAM_TRAIN; kind <= DELTA_PROGRAM_EVALUATE; ++kind) {
      delta_build_facts_t facts;
      delta_graph_t *graph = build(model, &options, (delta_program_kind_t)kind, &facts);
      for (size_t s = 0; s < graph->states.count; ++s) {
        const delta_tensor_id_t next = graph->states.items[s].next;
        if (delta_tensor_is_none(next)) continue;
        const delta_node_t *producer = delta_graph_node(graph, delta_graph_tensor(graph, next)->producer);
        cr_assert(producer->op == DELTA_CORE_POINTWISE && producer->phase == DELTA_PHASE_UPDATE, "%s", graph->states.items[s].name);
        for (size_t n = 0; n < graph->nodes.count; ++n) {
          const delta_node_t *node = &graph->nodes.items[n];
          for (uint32_t i = 0; i < node->input_count; ++i) cr_assert(!delta_tensor_same(node->inputs[i], next), "%s", node->name);
        }
      }
      delta_graph_free(graph);
    }
    delta_model_free(model);
  }
}

typedef struct output_case {
  delta_program_kind_t kind;
  const char *name;
  bool wanted;
} output_case_t;

Test(build, outputs_by_kind) {
  static const output_case_t cases[] = {
      {DELTA_PROGRAM_TRAIN, DELTA_NAME_LOSS, true},
      {DELTA_PROGRAM_TRAIN, DELTA_NAME_GRADIENT_NORM, true},
      {DELTA_PROGRAM_TRAIN, "logits", false},
      {DELTA_PROGRAM_ACCUMULATE, DELTA_NAME_LOSS, true},
      {DELTA_PROGRAM_ACCUMULATE, DELTA_NAME_LOSS_SUM, true},
      {DELTA_PROGRAM_ACCUMULATE, DELTA_NAME_LABEL_COUNT, true},
      {DELTA_PROGRAM_APPLY, DELTA_NAME_GRADIENT_NORM, true},
      {DELTA_PROGRAM_APPLY, DELTA_NAME_LOSS, true},
      {DELTA_PROGRAM_EVALUATE, DELTA_NAME_LOSS_SUM, true},
      {DELTA_PROGRAM_EVALUATE, DELTA_NAME_LABEL_COUNT, true},
      {DELTA_PROGRAM_EVALUATE, DELTA_NAME_CORRECT, true},
      {DELTA_PROGRAM_EVALUATE, "logits", true},
      {DELTA_PROGRAM_EVALUATE, DELTA_NAME_LOSS, false},
  };
  delta_model_t *model = load("models/mlp/model.onnx");
  delta_build_options_t options = training_options(4);
  options.clip_gradient_norm = 1.0;
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; ++k) {
    delta_build_facts_t facts;
    delta_graph_t *graph = build(model, &options, cases[k].kind, &facts);
    cr_assert_eq(!delta_tensor_is_none(delta_graph_find_output(graph, cases[k].name)), cases[k].wanted, "%d %s", cases[k].kind,
                 cases[k].name);
    const bool forward = cases[k].kind != DELTA_PROGRAM_APPLY;
    cr_assert_eq(!delta_tensor_is_none(delta_graph_find_input(graph, "x")), forward);
    cr_assert_eq(!delta_tensor_is_none(delta_graph_find_input(graph, DELTA_NAME_LABEL)), forward);
    delta_graph_free(graph);
  }
  delta_model_free(model);
}

Test(build, evaluation_needs_no_loss) {
  delta_model_t *model = load("models/dropout_mlp/model.onnx");
  const delta_build_options_t options = {.import = {.batch = 4, .levers = DELTA_LEVERS_ALL}};
  delta_build_facts_t facts;
  delta_graph_t *graph = build(model, &options, DELTA_PROGRAM_EVALUATE, &facts);
  cr_assert(delta_tensor_is_none(delta_graph_find_input(graph, DELTA_NAME_LABEL)));
  cr_assert(!facts.has_label && !facts.has_accuracy);
  delta_graph_free(graph);
  delta_model_free(model);
}

// Of linear layers, in every program; their gradients are there.
Test(build, biases_are_added_as_products_are_made) {
  static const delta_program_kind_t kinds[] = {DELTA_PROGRAM_TRAIN, DELTA_PROGRAM_ACCUMULATE, DELTA_PROGRAM_EVALUATE};
  delta_model_t *model = load("models/mlp/model.onnx");
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; ++i) {
    for (int is_on = 0; is_on < 2; ++is_on) {
      delta_build_options_t options = training_options(4);
      if (!is_on) options.import.levers &= ~(1u << DELTA_LEVER_ACCUMULATE);
      options.accumulates = kinds[i] == DELTA_PROGRAM_ACCUMULATE;
      delta_build_facts_t facts;
      delta_graph_t *graph = build(model, &options, kinds[i], &facts);
      uint32_t layers = 0, biases = 0;
      for (size_t n = 0; n < graph->nodes.count; ++n) {
        const delta_node_t *node = &graph->nodes.items[n];
        if (node->op != DELTA_CORE_MATMUL || node->phase != DELTA_PHASE_FORWARD) continue;
        ++layers;
        biases += delta_node_input(graph, node, 3) != NULL;
      }
      cr_expect_gt(layers, 0);
      cr_expect_eq(biases, is_on ? layers : 0, "program %zu: %u of %u layers have a bias of their own", i, biases, layers);
      delta_graph_free(graph);
    }
  }
  delta_model_free(model);
}

static void fill(delta_reference_values_t *values, const delta_graph_t *graph, const char *name, double first, double step) {
  const delta_tensor_id_t id = delta_graph_find_input(graph, name);
  const delta_tensor_t *tensor = delta_graph_tensor(graph, id);
  void *data = delta_reference_value(values, id);
  for (int64_t i = 0; i < delta_shape_count(&tensor->shape); ++i) {
    delta_element_store_double(data, tensor->dtype, (size_t)i, first + step * (double)i);
  }
}

static double scalar(const delta_reference_values_t *values, const char *name) {
  const delta_tensor_id_t id = delta_graph_find_output(values->graph, name);
  return delta_element_load_double(delta_reference_value(values, id), delta_graph_tensor(values->graph, id)->dtype, 0);
}

// The weights are zero here, so all scores are equal: every loss is log(10) and the first class is the guess.
Test(build, counts_labels_that_are_not_ignored) {
  delta_model_t *model = load("models/mlp/model.onnx");
  delta_build_options_t options = training_options(4);
  options.ignore_index = 3;
  delta_build_facts_t facts;
  delta_graph_t *graph = build(model, &options, DELTA_PROGRAM_EVALUATE, &facts);
  cr_assert(facts.has_label && facts.has_accuracy && facts.label_dtype == DELTA_DTYPE_INT64 && facts.label_classes == 10);
  cr_assert(facts.label_shape.rank == 1 && facts.label_shape.dims[0] == 4);
  delta_reference_values_t values;
  succeed(delta_reference_values_init(graph, delta_allocator_system(), &values));
  fill(&values, graph, DELTA_NAME_LABEL, 0.0, 1.0); // 0, 1, 2, 3
  succeed(delta_reference_run_graph(&values));
  cr_assert_float_eq(scalar(&values, DELTA_NAME_LABEL_COUNT), 3.0, 0.0);
  cr_assert_float_eq(scalar(&values, DELTA_NAME_CORRECT), 1.0, 0.0);
  cr_assert_float_eq(scalar(&values, DELTA_NAME_LOSS_SUM), 3.0 * 2.302585092994046, 1e-5);
  delta_reference_values_deinit(&values);
  delta_graph_free(graph);
  delta_model_free(model);
}

Test(build, mean_over_no_labels_is_nan) {
  delta_model_t *model = load("models/mlp/model.onnx");
  const delta_build_options_t options = training_options(4);
  delta_build_facts_t facts;
  delta_graph_t *graph = build(model, &options, DELTA_PROGRAM_TRAIN, &facts);
  delta_reference_values_t values;
  succeed(delta_reference_values_init(graph, delta_allocator_system(), &values));
  fill(&values, graph, DELTA_NAME_LABEL, -100.0, 0.0);
  succeed(delta_reference_run_graph(&values));
  const double loss = scalar(&values, DELTA_NAME_LOSS);
  cr_assert(loss != loss);
  delta_reference_values_deinit(&values);
  delta_graph_free(graph);
  delta_model_free(model);
}

// The element-wise losses at known points: loss and sum over the four outputs of four samples.
typedef struct element_case {
  delta_loss_t loss;
  double label, mean; // outputs are 0: the weights are zero
} element_case_t;

Test(build, element_losses) {
  static const element_case_t cases[] = {{DELTA_LOSS_MSE, 3.0, 9.0},
                                         {DELTA_LOSS_L1, -2.5, 2.5},
                                         {DELTA_LOSS_BCE_WITH_LOGITS, 1.0, 0.6931471805599453},
                                         {DELTA_LOSS_BCE_WITH_LOGITS, 0.25, 0.6931471805599453}};
  delta_model_t *model = load("models/mlp/model.onnx");
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; ++k) {
    delta_build_options_t options = training_options(4);
    options.loss = cases[k].loss;
    delta_build_facts_t facts;
    delta_graph_t *graph = build(model, &options, DELTA_PROGRAM_EVALUATE, &facts);
    cr_assert(facts.has_label && !facts.has_accuracy && facts.label_dtype == DELTA_DTYPE_FLOAT32 && facts.label_shape.dims[1] == 10);
    delta_reference_values_t values;
    succeed(delta_reference_values_init(graph, delta_allocator_system(), &values));
    fill(&values, graph, DELTA_NAME_LABEL, cases[k].label, 0.0);
    succeed(delta_reference_run_graph(&values));
    cr_assert_float_eq(scalar(&values, DELTA_NAME_LABEL_COUNT), 40.0, 0.0);
    cr_assert_float_eq(scalar(&values, DELTA_NAME_LOSS_SUM) / 40.0, cases[k].mean, 1e-6);
    delta_reference_values_deinit(&values);
    delta_graph_free(graph);
  }
  delta_model_free(model);
}

static delta_model_t *load_text(const char *text) {
  delta_test_folder_t folder;
  char path[DELTA_TEST_PATH_BYTES];
  delta_model_t *model;
  delta_test_folder_make(&folder);
  delta_test_write_model(text, delta_test_folder_path(&folder, "model.onnx", path));
  succeed(delta_model_load(&(delta_model_options_t){.path = path}, delta_allocator_system(), &model));
  delta_test_folder_remove(&folder);
  return model;
}

static const char own_loss[] =
    "input x float32 [N,10]\ninit bias float32 [10] 0 1 2 3 4 5 6 7 8 9\nnode Add x bias -> y\nnode ReduceMean y -> one : keepdims=1\n"
    "output y\noutput one\n";

// The model's own loss counts once for every sample of the batch. Its one element may have any shape.
Test(build, loss_of_the_model_itself) {
  delta_model_t *model = load_text(own_loss);
  delta_build_options_t options = training_options(4);
  options.loss = DELTA_LOSS_OUTPUT;
  options.loss_output = "y";
  expect_error(model, &options, DELTA_PROGRAM_TRAIN, "output 'y' has shape [4, 10]; a loss is one number");
  options.loss_output = "one";
  delta_build_facts_t facts;
  delta_graph_t *graph = build(model, &options, DELTA_PROGRAM_ACCUMULATE, &facts);
  cr_assert(!facts.has_label && delta_tensor_is_none(delta_graph_find_input(graph, DELTA_NAME_LABEL)));
  delta_reference_values_t values;
  succeed(delta_reference_values_init(graph, delta_allocator_system(), &values));
  const delta_state_t *bias = &graph->states.items[delta_graph_find_state(graph, "bias")];
  float *data = delta_reference_value(&values, bias->current);
  for (int i = 0; i < 10; ++i) data[i] = (float)i;
  succeed(delta_reference_run_graph(&values));
  cr_assert_float_eq(scalar(&values, DELTA_NAME_LOSS), 4.5, 1e-6);
  cr_assert_float_eq(scalar(&values, DELTA_NAME_LABEL_COUNT), 4.0, 0.0);
  cr_assert_float_eq(scalar(&values, DELTA_NAME_LOSS_SUM), 18.0, 1e-5);
  delta_reference_values_deinit(&values);
  delta_graph_free(graph);
  delta_model_free(model);
}

// Masks differ from step to step, because the draw counter moves.
Test(build, draws_are_counted) {
  delta_model_t *model = load("models/dropout_mlp/model.onnx");
  const delta_build_options_t options = training_options(4);
  for (int kind = DELTA_PROGRAM_TRAIN; kind <= DELTA_PROGRAM_EVALUATE; ++kind) {
    delta_build_facts_t facts;
    delta_graph_t *graph = build(model, &options, (delta_program_kind_t)kind, &facts);
    const uint32_t draw = delta_graph_find_state(graph, DELTA_NAME_DRAW);
    cr_assert_neq(draw, DELTA_INDEX_NONE);
    const bool draws = kind == DELTA_PROGRAM_TRAIN || kind == DELTA_PROGRAM_ACCUMULATE;
    cr_assert_eq(!delta_tensor_is_none(graph->states.items[draw].next), draws, "program %d", kind);
    delta_graph_free(graph);
  }
  delta_model_free(model);
}

static delta_tensor_id_t add_ids(delta_graph_t *graph, const char *name) {
  delta_tensor_id_t id;
  succeed(delta_graph_add_input(graph, name, DELTA_DTYPE_INT64, &(delta_shape_t){.rank = 2, .dims = {2, 3}}, &id));
  return id;
}

Test(build, ranges_of_ids) {
  delta_graph_t *graph;
  succeed(delta_graph_create(delta_allocator_system(), &graph));
  delta_emit_t emit;
  delta_emit_init(&emit, graph);
  const delta_tensor_id_t ids = add_ids(graph, "ids"), mask = add_ids(graph, "mask"), shifted = add_ids(graph, "shifted");
  delta_tensor_id_t table;
  succeed(delta_graph_add_input(graph, "table", DELTA_DTYPE_FLOAT32, &(delta_shape_t){.rank = 2, .dims = {7, 4}}, &table));
  const delta_gather_attrs_t attrs = {.axis = 0};
  const delta_tensor_id_t narrow =
      delta_emit_cast(&emit, delta_emit_view(&emit, ids, &(delta_shape_t){.rank = 1, .dims = {6}}), DELTA_DTYPE_INT32);
  (void)DELTA_EMIT(&emit, GATHER, attrs, table, narrow);
  (void)DELTA_EMIT(&emit, GATHER, attrs, table, delta_emit_binary_real(&emit, DELTA_EXPR_ADD, shifted, 2.0));
  (void)delta_emit_cast(&emit, mask, DELTA_DTYPE_FLOAT32);
  succeed(delta_emit_finish(&emit));
  const delta_tensor_id_t inputs[4] = {ids, mask, shifted, table};
  const int64_t maxima[4] = {7, 0, 0, 0};
  for (int k = 0; k < 4; ++k) {
    int64_t minimum, maximum;
    cr_assert_null(delta_graph_input_range(graph, inputs[k], &minimum, &maximum));
    cr_assert(minimum == 0 && maximum == maxima[k], "input %d: [%lld, %lld)", k, (long long)minimum, (long long)maximum);
  }
  delta_graph_free(graph);
}

static bool has_instruction(const delta_node_t *node, delta_expr_op_t op) {
  if (node->op != DELTA_CORE_POINTWISE || node->phase != DELTA_PHASE_FORWARD) return false;
  const delta_expr_t *expr = &((const delta_pointwise_attrs_t *)node->attrs)->expr;
  for (uint16_t i = 0; i < expr->instr_count; ++i) {
    if (expr->instrs[i].op == op) return true;
  }
  return false;
}

// bert is exported with GELU and layer normalization written out. For an eager framework each is one operator: what the error function and the root of
// the variance give is not stored.
Test(build, eager_operators_are_recognised) {
  delta_model_t *model = load("models/bert/model.onnx");
  delta_build_options_t options = training_options(4);
  options.eager = true;
  delta_build_facts_t facts;
  delta_graph_t *graph = build(model, &options, DELTA_PROGRAM_TRAIN, &facts);
  int gelus = 0, norms = 0;
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    const delta_node_t *node = &graph->nodes.items[n];
    if (has_instruction(node, DELTA_EXPR_ERF)) {
      cr_assert(has_instruction(node, DELTA_EXPR_MUL) && node->input_count == 1, "'%s' stores a part of GELU", node->name);
      gelus++;
    }
    if (has_instruction(node, DELTA_EXPR_SQRT)) norms++;
    const bool part = has_instruction(node, DELTA_EXPR_DIV) && has_instruction(node, DELTA_EXPR_SUB);
    cr_assert(!part || has_instruction(node, DELTA_EXPR_ADD), "'%s' stores a part of a layer normalization", node->name);
  }
  cr_assert(gelus == 2 && norms == 5, "%d, %d", gelus, norms);
  delta_graph_free(graph);
  delta_model_free(model);
}

// Every allocation fails once, and once from then on; nothing leaks, and the status says why.
Test(build, failing_allocations) {
  delta_model_t *model = load("models/mlp/model.onnx");
  delta_build_options_t options = training_options(4);
  options.clip_gradient_norm = 1.0;
  for (int failure = DELTA_TEST_FAIL_ONCE; failure <= DELTA_TEST_FAIL_FROM_THEN_ON; ++failure) {
    for (size_t n = 1;; n += 3) {
      delta_test_allocator_t faults;
      delta_test_allocator_init(&faults, n, (delta_test_failure_t)failure);
      delta_graph_t *graph = NULL;
      delta_build_facts_t facts;
      const delta_status_t status =
          delta_graph_build(model, &options, DELTA_PROGRAM_TRAIN, delta_test_allocator_interface(&faults), &graph, &facts);
      cr_assert_eq(status != NULL, graph == NULL);
      if (status) cr_assert_eq(delta_status_code(status), DELTA_STATUS_OUT_OF_MEMORY, "%s", delta_status_message(status));
      delta_status_free(status);
      delta_graph_free(graph);
      cr_assert_eq(faults.live_bytes, 0, "allocation %zu", n);
      if (faults.call_count < n) break;
    }
  }
  delta_model_free(model);
}
