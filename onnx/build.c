// Build: one program's graph, from import over loss and gradients to updates.
//
// Note [The list of states]
// All programs of a plan share one list of states, in one order: what import makes (initializers in file order, then the draw counter), the step counter,
// the moments of each trained parameter, and the accumulators. What trains is known only when the training graph has been differentiated, so every
// program of a training plan begins with that graph; evaluation and apply take from it the list and are made beside it.
#include "onnx/build.h"

#include <stdio.h>
#include <string.h>

#include "onnx/attention.h"
#include "onnx/eager.h"
#include "onnx/graph/accumulate.h"
#include "onnx/graph/fuse.h"
#include "onnx/graph/prune.h"
#include "onnx/loss.h"
#include "onnx/loss_chunks.h"
#include "onnx/optimizer.h"
#include "onnx/training_select.h"

// Suffixes of the states that are kept for a parameter, and names of the accumulated scalars.
#define GRADIENT_SUFFIX      "gradient"
#define ACCUMULATED_LOSS_SUM DELTA_NAME_LOSS_SUM "/accumulated"

typedef struct build {
  const delta_model_t *model;
  const delta_build_options_t *options;
  delta_program_kind_t kind;
  delta_allocator_t allocator;
  delta_build_facts_t *facts;
  delta_graph_t *graph; // Owned; the graph being built.
  delta_emit_t emit;    // into it
  uint32_t next_group;
  delta_trained_list_t trained; // Owned.
  delta_loss_values_t loss;
  uint32_t first_moment, first_accumulator; // states; parameter i's moments are consecutive, accumulators stand in the order of `trained`
  uint32_t step, loss_sum, count;           // states
} build_t;

static void start_emit(build_t *build) {
  delta_emit_init(&build->emit, build->graph);
  for (size_t n = 0; n < build->graph->nodes.count; ++n) {
    const uint32_t group = build->graph->nodes.items[n].group;
    if (group >= build->next_group) build->next_group = group + 1;
  }
  build->emit.group = build->next_group++;
}

// Names what is emitted next after a parameter's or a state's update, in a group of its own.
static delta_status_t start_update(build_t *build, const char *name) {
  char *text = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_format(&build->graph->region, &text, "%s/update", name));
  build->emit.name = text;
  build->emit.phase = DELTA_PHASE_UPDATE;
  build->emit.group = build->next_group++;
  return DELTA_OK;
}

static delta_tensor_id_t current(const build_t *build, uint32_t state) { return build->graph->states.items[state].current; }

static delta_status_t set_next(build_t *build, uint32_t state, delta_tensor_id_t next) {
  DELTA_RETURN_IF_ERROR(delta_emit_finish(&build->emit));
  return delta_graph_set_next(build->graph, state, next);
}

static void replace_graph(build_t *build, delta_graph_t *graph) {
  delta_graph_free(build->graph);
  build->graph = graph;
  start_emit(build);
}

static delta_status_t recognise_attention(build_t *build) {
  if (!delta_lever_is_on(build->options->import.levers, DELTA_LEVER_ATTENTION)) return DELTA_OK;
  delta_graph_t *rewritten = NULL;
  DELTA_RETURN_IF_ERROR(delta_attention_recognise(build->graph, build->allocator, &rewritten));
  replace_graph(build, rewritten);
  return DELTA_OK;
}

static delta_status_t import_graph(build_t *build, bool training, delta_log_sink_t log) {
  delta_import_options_t options = build->options->import;
  options.training = training;
  options.log = log;
  DELTA_RETURN_IF_ERROR(delta_import(build->model, &options, build->allocator, &build->graph, &build->facts->import));
  build->next_group = build->model->node_count + 1; // import's own groups are the nodes of the file
  start_emit(build);
  return recognise_attention(build);
}

static bool is_read(const delta_graph_t *graph, delta_tensor_id_t id) {
  for (size_t n = 0; n < graph->nodes.count; ++n) {
    const delta_node_t *node = &graph->nodes.items[n];
    for (uint32_t k = 0; k < node->input_count; ++k) {
      if (delta_tensor_same(node->inputs[k], id)) return true;
    }
  }
  return false;
}

// Adds 1 to a counter.
static delta_status_t count_up(build_t *build, uint32_t state) {
  DELTA_RETURN_IF_ERROR(start_update(build, build->graph->states.items[state].name));
  return set_next(build, state, delta_emit_binary_real(&build->emit, DELTA_EXPR_ADD, current(build, state), 1.0));
}

// The draw counter moves on in every program that draws, so that no two programs share a mask.
static delta_status_t count_draw(build_t *build) {
  const uint32_t draw = delta_graph_find_state(build->graph, DELTA_NAME_DRAW);
  if (draw == DELTA_INDEX_NONE || !is_read(build->graph, current(build, draw))) return DELTA_OK;
  return count_up(build, draw);
}

static delta_status_t add_state(build_t *build, const char *name, delta_state_kind_t kind, delta_dtype_t dtype, const delta_shape_t *shape,
                                uint32_t *out_state) {
  const delta_state_t state = {.name = name,
                               .kind = kind,
                               .dtype = dtype,
                               .shape = *shape,
                               .initializer = DELTA_INDEX_NONE,
                               .current = DELTA_TENSOR_NONE,
                               .next = DELTA_TENSOR_NONE};
  return delta_graph_add_state(build->graph, &state, out_state);
}

// A state beside parameter `of`: "conv1.weight/momentum".
static delta_status_t add_state_beside(build_t *build, uint32_t of, const char *suffix, delta_state_kind_t kind, uint32_t *out_state) {
  const delta_state_t parameter = build->graph->states.items[of];
  char *name = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_format(&build->graph->region, &name, "%s/%s", parameter.name, suffix));
  return add_state(build, name, kind, parameter.dtype, &parameter.shape, out_state);
}

static delta_status_t add_training_states(build_t *build) {
  const delta_optimizer_options_t *optimizer = &build->options->optimizer;
  const delta_shape_t scalar = {0};
  uint32_t state;
  DELTA_RETURN_IF_ERROR(add_state(build, DELTA_NAME_STEP, DELTA_STATE_COUNTER, DELTA_DTYPE_INT64, &scalar, &build->step));
  build->first_moment = (uint32_t)build->graph->states.count;
  for (size_t i = 0; i < build->trained.count; ++i) {
    for (uint32_t k = 0; k < delta_optimizer_moment_count(optimizer); ++k) {
      DELTA_RETURN_IF_ERROR(
          add_state_beside(build, build->trained.items[i].state, delta_optimizer_moment_name(optimizer, k), DELTA_STATE_MOMENT, &state));
    }
  }
  if (!build->options->accumulates) return DELTA_OK;
  build->first_accumulator = (uint32_t)build->graph->states.count;
  for (size_t i = 0; i < build->trained.count; ++i) {
    DELTA_RETURN_IF_ERROR(add_state_beside(build, build->trained.items[i].state, GRADIENT_SUFFIX, DELTA_STATE_ACCUMULATOR, &state));
  }
  DELTA_RETURN_IF_ERROR(add_state(build, ACCUMULATED_LOSS_SUM, DELTA_STATE_ACCUMULATOR, DELTA_DTYPE_FLOAT32, &scalar, &build->loss_sum));
  return add_state(build, DELTA_NAME_ACCUMULATED_COUNT, DELTA_STATE_ACCUMULATOR, DELTA_DTYPE_FLOAT32, &scalar, &build->count);
}

// The states of a graph whose list is shorter, completed after the model of `full`.
static delta_status_t complete_states(build_t *build, const delta_graph_t *full) {
  delta_graph_t *graph = build->graph;
  for (size_t k = 0; k < full->states.count; ++k) {
    const delta_state_t *wanted = &full->states.items[k];
    if (k >= graph->states.count) {
      uint32_t state;
      DELTA_RETURN_IF_ERROR(delta_graph_add_state(graph, wanted, &state));
    } else if (strcmp(graph->states.items[k].name, wanted->name) == 0) {
      graph->states.items[k].kind = wanted->kind;
    } else {
      return delta_status_make(INTERNAL, "state %zu is '%s' in one program and '%s' in another", k, graph->states.items[k].name,
                               wanted->name);
    }
  }
  return DELTA_OK;
}

static delta_status_t accumulate_products(build_t *build, delta_accumulate_kind_t kind) {
  if (!delta_lever_is_on(build->options->import.levers, DELTA_LEVER_ACCUMULATE)) return DELTA_OK;
  delta_graph_t *rewritten = NULL;
  DELTA_RETURN_IF_ERROR(delta_graph_accumulate(build->graph, kind, build->allocator, &rewritten));
  replace_graph(build, rewritten);
  return DELTA_OK;
}

// Before differentiation, gradients then read what fused nodes read and nothing inside them; and again after it. Fusion hides additions in larger expressions.
static delta_status_t fuse(build_t *build) {
  if (!build->options->eager && !delta_lever_is_on(build->options->import.levers, DELTA_LEVER_FUSE)) return DELTA_OK;
  delta_graph_t *fused = NULL;
  DELTA_RETURN_IF_ERROR(
      delta_graph_fuse(build->graph, (delta_fuse_options_t){.within_groups = build->options->eager}, build->allocator, &fused));
  replace_graph(build, fused);
  return DELTA_OK;
}

// Not before differentiation: what only gradients read (indices of maxima, masks) would be dropped.
static delta_status_t prune(build_t *build) {
  delta_graph_t *pruned = NULL;
  DELTA_RETURN_IF_ERROR(delta_graph_prune(build->graph, build->allocator, &pruned));
  replace_graph(build, pruned);
  return DELTA_OK;
}

// The model's outputs are not outputs of a training program: keeping them to the end of the step costs memory.
static void drop_outputs(delta_graph_t *graph) {
  graph->outputs.count = 0;
  delta_map_deinit(&graph->output_names);
  delta_map_init(&graph->output_names, graph->allocator);
}

static delta_status_t attach_loss(build_t *build) { return delta_loss_attach(&build->emit, build->options, &build->loss, build->facts); }

// The training graph up to the gradients, and all states.
static delta_status_t build_gradients(build_t *build) {
  const bool logs = build->kind == DELTA_PROGRAM_TRAIN || build->kind == DELTA_PROGRAM_ACCUMULATE;
  const delta_log_sink_t log = logs ? build->options->import.log : (delta_log_sink_t){0};
  DELTA_RETURN_IF_ERROR(import_graph(build, true, log));
  if (build->options->eager) DELTA_RETURN_IF_ERROR(delta_eager_recognise(build->graph));
  DELTA_RETURN_IF_ERROR(accumulate_products(build, DELTA_ACCUMULATE_BIASES));
  DELTA_RETURN_IF_ERROR(fuse(build));
  DELTA_RETURN_IF_ERROR(attach_loss(build));
  DELTA_RETURN_IF_ERROR(delta_training_select(build->model, build->options, build->graph, log, &build->trained, build->facts));
  drop_outputs(build->graph);
  const bool sums = build->kind == DELTA_PROGRAM_ACCUMULATE;
  DELTA_RETURN_IF_ERROR(delta_loss_split(&build->emit, build->options, sums, DELTA_LOSS_CHUNK_BYTES, &build->loss));
  DELTA_RETURN_IF_ERROR(delta_training_differentiate(&build->emit, build->options, &build->loss, sums, log, &build->trained, build->facts));
  return add_training_states(build);
}

// The update of every parameter from gradients[i], each times `scale` (NONE: 1), clipped; and the step counter.
static delta_status_t emit_updates(build_t *build, const delta_tensor_id_t *gradients, delta_tensor_id_t scale) {
  const delta_optimizer_options_t *optimizer = &build->options->optimizer;
  delta_emit_t *emit = &build->emit;
  delta_tensor_id_t rate;
  DELTA_RETURN_IF_ERROR(delta_graph_add_input(build->graph, DELTA_NAME_RATE, DELTA_DTYPE_FLOAT32, &(delta_shape_t){0}, &rate));
  DELTA_RETURN_IF_ERROR(start_update(build, "optimizer"));
  delta_optimizer_shared_t shared = delta_optimizer_prepare(emit, optimizer, rate, current(build, build->step));
  shared.gradient_scale = scale;
  if (build->options->clip_gradient_norm > 0.0) {
    const delta_tensor_id_t norm = delta_optimizer_gradient_norm(emit, gradients, build->trained.count, scale);
    shared.gradient_scale = delta_optimizer_clip_scale(emit, norm, build->options->clip_gradient_norm, scale);
    DELTA_RETURN_IF_ERROR(delta_emit_finish(emit));
    DELTA_RETURN_IF_ERROR(delta_graph_add_output(build->graph, DELTA_NAME_GRADIENT_NORM, norm));
  }
  const uint32_t moments = delta_optimizer_moment_count(optimizer);
  for (size_t i = 0; i < build->trained.count; ++i) {
    const uint32_t state = build->trained.items[i].state, first = build->first_moment + (uint32_t)i * moments;
    DELTA_RETURN_IF_ERROR(start_update(build, build->graph->states.items[state].name));
    delta_optimizer_update_t update = {.parameter = current(build, state), .gradient = gradients[i]};
    for (uint32_t k = 0; k < moments; ++k) update.moments[k] = current(build, first + k);
    delta_optimizer_emit(emit, optimizer, &shared, &update);
    DELTA_RETURN_IF_ERROR(set_next(build, state, update.next_parameter));
    for (uint32_t k = 0; k < moments; ++k) DELTA_RETURN_IF_ERROR(set_next(build, first + k, update.next_moments[k]));
  }
  return count_up(build, build->step);
}

static delta_status_t add_output_copy(build_t *build, const char *name, delta_tensor_id_t id) {
  build->emit.name = name;
  build->emit.phase = DELTA_PHASE_LOSS;
  const bool constant = delta_emit_tensor(&build->emit, id)->data != NULL;
  const delta_tensor_id_t output = constant ? delta_emit_copy(&build->emit, id) : id;
  DELTA_RETURN_IF_ERROR(delta_emit_finish(&build->emit));
  return delta_graph_add_output(build->graph, name, output);
}

static delta_status_t add_sum_outputs(build_t *build) {
  DELTA_RETURN_IF_ERROR(add_output_copy(build, DELTA_NAME_LOSS_SUM, build->loss.sum));
  return add_output_copy(build, DELTA_NAME_LABEL_COUNT, build->loss.count);
}

// The gradients of parameter i: as differentiated, or accumulated in state first_accumulator + i. The caller releases the list.
static delta_status_t list_gradients(const build_t *build, bool accumulated, delta_tensor_id_t **out_gradients) {
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(build->allocator, build->trained.count, out_gradients));
  for (size_t i = 0; i < build->trained.count; ++i) {
    (*out_gradients)[i] = accumulated ? current(build, build->first_accumulator + (uint32_t)i) : build->trained.items[i].gradient;
  }
  return DELTA_OK;
}

static delta_status_t build_train(build_t *build) {
  DELTA_RETURN_IF_ERROR(build_gradients(build));
  DELTA_RETURN_IF_ERROR(delta_graph_add_output(build->graph, DELTA_NAME_LOSS, build->loss.mean));
  delta_tensor_id_t *gradients = NULL;
  DELTA_RETURN_IF_ERROR(list_gradients(build, false, &gradients));
  delta_status_t status = emit_updates(build, gradients, DELTA_TENSOR_NONE);
  if (!status) status = count_draw(build);
  delta_release(build->allocator, gradients);
  return status;
}

// state + value, in float32 also where the loss is wider
static delta_status_t accumulate(build_t *build, uint32_t state, delta_tensor_id_t value) {
  DELTA_RETURN_IF_ERROR(start_update(build, build->graph->states.items[state].name));
  const delta_tensor_id_t inputs[2] = {current(build, state), value};
  delta_expr_builder_t b;
  delta_expr_builder_init(&b, DELTA_DTYPE_FLOAT32);
  const uint16_t sum = delta_expr_input(&b, 0);
  delta_expr_output(&b, delta_expr_binary(&b, DELTA_EXPR_ADD, sum, delta_expr_input(&b, 1)));
  return set_next(build, state, delta_emit_expr(&build->emit, &b, DELTA_DTYPE_FLOAT32, inputs, 2));
}

static delta_status_t build_accumulate(build_t *build) {
  DELTA_RETURN_IF_ERROR(build_gradients(build));
  DELTA_RETURN_IF_ERROR(delta_graph_add_output(build->graph, DELTA_NAME_LOSS, build->loss.mean));
  DELTA_RETURN_IF_ERROR(add_sum_outputs(build));
  for (size_t i = 0; i < build->trained.count; ++i) {
    DELTA_RETURN_IF_ERROR(accumulate(build, build->first_accumulator + (uint32_t)i, build->trained.items[i].gradient));
  }
  DELTA_RETURN_IF_ERROR(accumulate(build, build->loss_sum, build->loss.sum));
  DELTA_RETURN_IF_ERROR(accumulate(build, build->count, build->loss.count));
  return count_draw(build);
}

static delta_status_t clear(build_t *build, uint32_t state) {
  const delta_shape_t shape = build->graph->states.items[state].shape;
  DELTA_RETURN_IF_ERROR(start_update(build, build->graph->states.items[state].name));
  return set_next(build, state, delta_emit_fill(&build->emit, DELTA_DTYPE_FLOAT32, &shape, 0.0));
}

// 1 / count, and the mean loss of the accumulated micro-batches as output.
static delta_status_t emit_accumulated_mean(build_t *build, delta_tensor_id_t *out_scale) {
  delta_emit_t *emit = &build->emit;
  emit->name = DELTA_NAME_LOSS;
  emit->phase = DELTA_PHASE_UPDATE;
  const delta_tensor_id_t loss = delta_emit_binary(emit, DELTA_EXPR_DIV, current(build, build->loss_sum), current(build, build->count));
  *out_scale = delta_emit_unary(emit, DELTA_EXPR_RECIPROCAL, current(build, build->count));
  DELTA_RETURN_IF_ERROR(delta_emit_finish(emit));
  return delta_graph_add_output(build->graph, DELTA_NAME_LOSS, loss);
}

static delta_status_t emit_apply(build_t *build) {
  delta_tensor_id_t scale, *gradients = NULL;
  DELTA_RETURN_IF_ERROR(emit_accumulated_mean(build, &scale));
  DELTA_RETURN_IF_ERROR(list_gradients(build, true, &gradients));
  delta_status_t status = emit_updates(build, gradients, scale);
  delta_release(build->allocator, gradients);
  for (size_t i = 0; i < build->trained.count && !status; ++i) status = clear(build, build->first_accumulator + (uint32_t)i);
  if (!status) status = clear(build, build->loss_sum);
  if (!status) status = clear(build, build->count);
  return status;
}

// The update alone: no forward, no backward; all it reads are states and the rate.
static delta_status_t build_apply(build_t *build) {
  DELTA_RETURN_IF_ERROR(build_gradients(build));
  delta_graph_t *full = build->graph;
  build->graph = NULL;
  delta_status_t status = delta_graph_create(build->allocator, &build->graph);
  if (!status) {
    start_emit(build);
    status = complete_states(build, full);
  }
  delta_graph_free(full);
  return status ? status : emit_apply(build);
}

static delta_status_t emit_metrics(build_t *build) {
  if (build->options->loss == DELTA_LOSS_NONE) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(attach_loss(build));
  DELTA_RETURN_IF_ERROR(add_sum_outputs(build));
  if (!build->facts->has_accuracy) return DELTA_OK;
  build->emit.name = DELTA_NAME_CORRECT;
  build->emit.group = build->next_group++;
  const delta_tensor_id_t correct = delta_loss_correct(&build->emit, build->options, &build->loss);
  return add_output_copy(build, DELTA_NAME_CORRECT, correct);
}

static delta_status_t build_evaluate(build_t *build) {
  const bool trains = build->options->loss != DELTA_LOSS_NONE && build->options->optimizer.kind != DELTA_OPTIMIZER_NONE;
  delta_graph_t *full = NULL;
  if (trains) {
    DELTA_RETURN_IF_ERROR(build_gradients(build));
    full = build->graph;
    build->graph = NULL;
  }
  delta_status_t status = import_graph(build, false, trains ? (delta_log_sink_t){0} : build->options->import.log);
  if (!status) status = emit_metrics(build);
  if (!status && full) status = complete_states(build, full);
  if (!status) status = count_draw(build);
  delta_graph_free(full);
  return status;
}

static delta_status_t check_options(const build_t *build) {
  const delta_build_options_t *options = build->options;
  DELTA_RETURN_IF_ERROR(delta_optimizer_check(&options->optimizer));
  if (!(options->clip_gradient_norm >= 0.0)) {
    return delta_status_make(INVALID_ARGUMENT, "--clip-grad-norm is %g; 0 (off) or more is wanted", options->clip_gradient_norm);
  }
  if (options->parts > DELTA_PARTS_MAX) {
    return delta_status_make(INVALID_ARGUMENT, "--split is %u; at most %d parts are wanted", options->parts, DELTA_PARTS_MAX);
  }
  if (build->kind != DELTA_PROGRAM_EVALUATE && options->optimizer.kind == DELTA_OPTIMIZER_NONE) {
    return delta_status_make(INVALID_ARGUMENT, "a program that trains needs an optimizer: give --optimizer NAME");
  }
  const bool accumulator_program = build->kind == DELTA_PROGRAM_ACCUMULATE || build->kind == DELTA_PROGRAM_APPLY;
  if (accumulator_program && !options->accumulates) {
    return delta_status_make(INTERNAL, "programs that accumulate are built with the option `accumulates`");
  }
  return DELTA_OK;
}

delta_status_t delta_graph_build(const delta_model_t *model, const delta_build_options_t *options, delta_program_kind_t kind,
                                 delta_allocator_t allocator, delta_graph_t **out_graph, delta_build_facts_t *out_facts) {
  typedef delta_status_t (*program_function_t)(build_t *);
  static const program_function_t programs[] = {
      [DELTA_PROGRAM_TRAIN] = build_train,
      [DELTA_PROGRAM_ACCUMULATE] = build_accumulate,
      [DELTA_PROGRAM_APPLY] = build_apply,
      [DELTA_PROGRAM_EVALUATE] = build_evaluate,
  };
  *out_graph = NULL;
  *out_facts = (delta_build_facts_t){0};
  delta_build_options_t own = *options;
  if (options->eager) own.import.levers = 0;
  build_t build = {.model = model, .options = &own, .kind = kind, .allocator = allocator, .facts = out_facts};
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, check_options(&build), cleanup);
  DELTA_GOTO_IF_ERROR(status, programs[kind](&build), cleanup);
  DELTA_GOTO_IF_ERROR(status, prune(&build), cleanup);
  DELTA_GOTO_IF_ERROR(status, accumulate_products(&build, DELTA_ACCUMULATE_BIASES), cleanup);
  DELTA_GOTO_IF_ERROR(status, accumulate_products(&build, DELTA_ACCUMULATE_SUMS), cleanup); // differentiation makes most of them
  DELTA_GOTO_IF_ERROR(status, fuse(&build), cleanup);
  *out_graph = build.graph;
  build.graph = NULL;
cleanup:
  if (build.emit.graph) status = delta_status_join(status, delta_emit_finish(&build.emit));
  delta_array_deinit(allocator, &build.trained);
  delta_graph_free(build.graph);
  return status;
}
