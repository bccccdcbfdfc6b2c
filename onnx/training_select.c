// Selection of what trains: kinds and types first, then the user's globs, then whether the loss depends on it.
#include "onnx/training_select.h"

#include "base/log.h"
#include "base/text.h"
#include "onnx/gradient/gradient.h"

static const char *const reason_texts[DELTA_FROZEN_REASON_COUNT] = {
#define DELTA_REASON_TEXT(id, text) [DELTA_FROZEN_##id] = text,
    DELTA_FROZEN_REASONS(DELTA_REASON_TEXT)
#undef DELTA_REASON_TEXT
};

static bool matches_any(const char *const *globs, size_t count, const char *name) {
  for (size_t k = 0; k < count; ++k) {
    if (delta_glob_match(globs[k], name)) return true;
  }
  return false;
}

// Why an initializer could not train whatever the globs say; DELTA_FROZEN_REASON_COUNT when it could.
static delta_frozen_reason_t fixed_reason(const delta_graph_t *graph, const delta_model_tensor_t *initializer) {
  if (initializer->dtype != DELTA_DTYPE_FLOAT32) return DELTA_FROZEN_NOT_FLOAT;
  if (initializer->shape.rank == 0) return DELTA_FROZEN_SCALAR;
  const uint32_t state = delta_graph_find_state(graph, initializer->name);
  if (state == DELTA_INDEX_NONE) return DELTA_FROZEN_UNUSED;
  return graph->states.items[state].kind == DELTA_STATE_STATISTIC ? DELTA_FROZEN_STATISTIC : DELTA_FROZEN_REASON_COUNT;
}

static delta_frozen_reason_t named_reason(const delta_build_options_t *options, const char *name) {
  if (matches_any(options->train, options->train_count, name)) return DELTA_FROZEN_REASON_COUNT;
  if (matches_any(options->freeze, options->freeze_count, name)) return DELTA_FROZEN_FROZEN_BY_NAME;
  return options->train_count > 0 && options->freeze_count == 0 ? DELTA_FROZEN_NOT_NAMED : DELTA_FROZEN_REASON_COUNT;
}

// A glob must match something; one that matches only what cannot train anyway is worth a note.
static delta_status_t check_glob(const delta_model_t *model, const delta_graph_t *graph, const char *option, const char *glob,
                                 delta_log_sink_t log) {
  uint32_t matched = 0, trainable = 0;
  const char *example = NULL;
  delta_frozen_reason_t reason = DELTA_FROZEN_REASON_COUNT;
  for (uint32_t i = 0; i < model->initializer_count; ++i) {
    const delta_model_tensor_t *initializer = &model->initializers[i];
    if (!delta_glob_match(glob, initializer->name)) continue;
    const delta_frozen_reason_t why = fixed_reason(graph, initializer);
    if (why == DELTA_FROZEN_REASON_COUNT) trainable++;
    if (matched++ == 0) {
      example = initializer->name;
      reason = why;
    }
  }
  if (matched > 0 && trainable == 0) {
    delta_log(log, DELTA_LOG_NOTE, "--%s '%s' matches only what does not train anyway ('%s': %s)", option, glob, example,
              reason_texts[reason]);
  }
  if (matched > 0) return DELTA_OK;
  const uint32_t count = model->initializer_count;
  return delta_status_make(INVALID_ARGUMENT, "--%s '%s' matches none of the model's %u initializers%s%s%s", option, glob, count,
                           count > 0 ? "; they have names such as '" : "", count > 0 ? model->initializers[0].name : "",
                           count > 0 ? "'" : "");
}

static delta_status_t check_globs(const delta_model_t *model, const delta_build_options_t *options, const delta_graph_t *graph,
                                  delta_log_sink_t log) {
  for (size_t k = 0; k < options->freeze_count; ++k) DELTA_RETURN_IF_ERROR(check_glob(model, graph, "freeze", options->freeze[k], log));
  for (size_t k = 0; k < options->train_count; ++k) DELTA_RETURN_IF_ERROR(check_glob(model, graph, "train", options->train[k], log));
  return DELTA_OK;
}

delta_status_t delta_training_select(const delta_model_t *model, const delta_build_options_t *options, delta_graph_t *graph,
                                     delta_log_sink_t log, delta_trained_list_t *out_trained, delta_build_facts_t *out_facts) {
  DELTA_RETURN_IF_ERROR(check_globs(model, options, graph, log));
  for (uint32_t i = 0; i < model->initializer_count; ++i) {
    const delta_model_tensor_t *initializer = &model->initializers[i];
    delta_frozen_reason_t reason = fixed_reason(graph, initializer);
    if (reason == DELTA_FROZEN_REASON_COUNT) reason = named_reason(options, initializer->name);
    const uint32_t state = delta_graph_find_state(graph, initializer->name);
    if (reason == DELTA_FROZEN_REASON_COUNT) {
      DELTA_RETURN_IF_ERROR(
          delta_array_push(graph->allocator, out_trained, (&(delta_trained_t){.state = state, .gradient = DELTA_TENSOR_NONE})));
      continue;
    }
    out_facts->frozen_tensors[reason] += 1;
    if (state != DELTA_INDEX_NONE && graph->states.items[state].kind == DELTA_STATE_PARAMETER) {
      graph->states.items[state].kind = DELTA_STATE_FROZEN;
    }
  }
  return DELTA_OK;
}

static delta_status_t nothing_to_train(const delta_build_facts_t *facts, delta_allocator_t allocator) {
  delta_text_t text;
  delta_text_init(&text, allocator);
  delta_status_t status = DELTA_OK;
  for (int reason = 0; reason < DELTA_FROZEN_REASON_COUNT && !status; ++reason) {
    if (facts->frozen_tensors[reason] == 0) continue;
    status = delta_text_append(&text, "%s%u (%s)", text.count > 0 ? ", " : "", facts->frozen_tensors[reason], reason_texts[reason]);
  }
  if (!status) {
    status = delta_status_make(INVALID_ARGUMENT, "nothing to train: of the model's initializers %s; see --freeze and --train",
                               text.count > 0 ? text.items : "there are none");
  }
  delta_text_deinit(&text);
  return status;
}

// Keeps the parameters that a gradient reached.
static void drop_unreached(delta_graph_t *graph, delta_trained_list_t *trained, delta_build_facts_t *facts) {
  size_t kept = 0;
  for (size_t i = 0; i < trained->count; ++i) {
    const delta_trained_t item = trained->items[i];
    delta_state_t *state = &graph->states.items[item.state];
    if (delta_tensor_is_none(item.gradient)) {
      state->kind = DELTA_STATE_FROZEN;
      facts->frozen_tensors[DELTA_FROZEN_NO_PATH] += 1;
      continue;
    }
    trained->items[kept++] = item;
    facts->trainable_tensors += 1;
    facts->trainable_parameters += delta_shape_count(&state->shape);
  }
  trained->count = kept;
}

delta_status_t delta_training_differentiate(delta_emit_t *emit, const delta_build_options_t *options, const delta_loss_values_t *loss,
                                            bool of_sum, delta_trained_list_t *trained, delta_build_facts_t *facts) {
  delta_graph_t *graph = emit->graph;
  const delta_tensor_id_t value = of_sum ? loss->sum : loss->mean;
  const uint32_t levers = options->import.levers;
  delta_tensor_id_t *xs = NULL, *gradients = NULL;
  delta_status_t status;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(graph->allocator, trained->count, &xs), cleanup);
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(graph->allocator, trained->count, &gradients), cleanup);
  for (size_t i = 0; i < trained->count; ++i) xs[i] = graph->states.items[trained->items[i].state].current;
  emit->phase = DELTA_PHASE_BACKWARD;
  emit->name = "loss/gradient";
  if (loss->head_count > 0) {
    status = delta_autodiff_outputs(emit, loss->heads, loss->head_gradients, loss->head_count, xs, trained->count, levers, gradients);
  } else {
    const delta_tensor_id_t one = delta_emit_scalar(emit, delta_emit_dtype(emit, value), 1.0);
    status = delta_autodiff(emit, value, one, xs, trained->count, levers, gradients);
  }
  if (status) goto cleanup;
  for (size_t i = 0; i < trained->count; ++i) trained->items[i].gradient = gradients[i];
  drop_unreached(graph, trained, facts);
  if (trained->count == 0) status = nothing_to_train(facts, graph->allocator);
cleanup:
  delta_release(graph->allocator, gradients);
  delta_release(graph->allocator, xs);
  return status;
}
