// Backend case: load, lower, evaluate, compare.
#include "tests/support/backend_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "onnx/lower/lower.h"
#include "tests/support/tensor_file.h"

enum { MOST_TENSORS = 64, MOST_BINDINGS = 16, PATH_BYTES = 1024 };

static const double relative_tolerance = 1e-3, absolute_tolerance = 1e-7;
static const double bfloat16_unit = 0x1p-7; // of the last place, at most, relative to the value

// One data set of a case, with the tensors of its files in the order of the model's inputs and outputs.
typedef struct data_set {
  const delta_model_t *model;
  const delta_backend_kernels_t *kernels;
  delta_tensor_file_t inputs[MOST_TENSORS];
  delta_tensor_file_t outputs[MOST_TENSORS];
  delta_graph_t *graph;
  delta_reference_values_t values;
} data_set_t;

static void data_set_deinit(data_set_t *set) {
  delta_reference_values_deinit(&set->values);
  delta_graph_free(set->graph);
  for (int i = 0; i < MOST_TENSORS; ++i) {
    delta_tensor_file_free(&set->inputs[i]);
    delta_tensor_file_free(&set->outputs[i]);
  }
}

static delta_status_t read_tensors(const delta_model_t *model, const char *folder, const char *kind, const delta_value_id_t *values,
                                   uint32_t count, delta_tensor_file_t *tensors) {
  if (count > MOST_TENSORS) return delta_status_make(UNSUPPORTED, "%u %ss; at most %d are read", (unsigned)count, kind, MOST_TENSORS);
  for (uint32_t i = 0; i < count; ++i) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "%s/%s_%u.pb", folder, kind, (unsigned)i);
    const delta_dtype_t declared = model->values[values[i].index].type.dtype;
    DELTA_RETURN_IF_ERROR(delta_tensor_file_read(path, declared, delta_allocator_system(), &tensors[i]));
  }
  return DELTA_OK;
}

// ---- From model to graph

static const delta_model_value_t *input_value(const delta_model_t *model, uint32_t i) { return &model->values[model->inputs[i].index]; }

// The sizes that the data gives to the model's symbolic dimensions.
static size_t bind_dims(const data_set_t *set, delta_dim_binding_t bindings[MOST_BINDINGS]) {
  size_t count = 0;
  for (uint32_t i = 0; i < set->model->input_count; ++i) {
    const delta_model_type_t *type = &input_value(set->model, i)->type;
    for (int32_t d = 0; d < type->rank && d < set->inputs[i].shape.rank; ++d)
      if (type->dims[d].symbol && count < MOST_BINDINGS)
        bindings[count++] = (delta_dim_binding_t){type->dims[d].symbol, set->inputs[i].shape.dims[d]};
  }
  return count;
}

// How much of the data the import is told. Shapes, axes and the like must be known when the graph is built, but what can be left to run time
// should be, so that kernels run and not only folding.
typedef enum knowledge { KNOW_NOTHING, KNOW_PARAMETERS, KNOW_EVERYTHING, KNOWLEDGE_COUNT } knowledge_t;

static bool is_told(knowledge_t knowledge, uint32_t i, const delta_tensor_file_t *tensor) {
  if (knowledge != KNOW_PARAMETERS) return knowledge == KNOW_EVERYTHING;
  // Integers and truth values; of floats short lists that are not the first input (scales, ratios, regions).
  return !delta_dtype_is_float(tensor->dtype) ||
         (i > 0 && tensor->shape.rank <= 1 && delta_shape_count(&tensor->shape) <= 2 * DELTA_MAX_RANK);
}

static delta_status_t import_with(data_set_t *set, knowledge_t knowledge) {
  delta_dim_binding_t bindings[MOST_BINDINGS];
  delta_known_input_t known[MOST_TENSORS];
  delta_import_options_t options = {.as_exported = true, .levers = DELTA_LEVERS_ALL, .dims = bindings, .known_inputs = known};
  options.dim_count = bind_dims(set, bindings);
  for (uint32_t i = 0; i < set->model->input_count; ++i) {
    const delta_tensor_file_t *tensor = &set->inputs[i];
    if (is_told(knowledge, i, tensor))
      known[options.known_input_count++] =
          (delta_known_input_t){input_value(set->model, i)->name, tensor->dtype, tensor->shape, tensor->data};
  }
  delta_import_facts_t facts;
  return delta_import(set->model, &options, delta_allocator_system(), &set->graph, &facts);
}

static delta_status_t import(data_set_t *set) {
  delta_status_t status = import_with(set, KNOW_NOTHING);
  for (int knowledge = KNOW_NOTHING + 1; status && knowledge < KNOWLEDGE_COUNT; ++knowledge) {
    delta_status_free(status);
    status = import_with(set, (knowledge_t)knowledge);
  }
  return status;
}

// ---- Evaluation

static bool is_read(const delta_graph_t *graph, delta_tensor_id_t id) {
  for (size_t i = 0; i < graph->outputs.count; ++i)
    if (delta_tensor_same(graph->outputs.items[i].tensor, id)) return true;
  for (size_t i = 0; i < graph->nodes.count; ++i)
    for (uint32_t k = 0; k < graph->nodes.items[i].input_count; ++k)
      if (delta_tensor_same(graph->nodes.items[i].inputs[k], id)) return true;
  return false;
}

static delta_status_t fill_inputs(data_set_t *set) {
  for (uint32_t i = 0; i < set->model->input_count; ++i) {
    const char *name = input_value(set->model, i)->name;
    const delta_tensor_id_t id = delta_graph_find_input(set->graph, name);
    if (delta_tensor_is_none(id) || !is_read(set->graph, id)) continue; // data may even contradict the shape of what nothing reads
    if (delta_tensor_bytes(delta_graph_tensor(set->graph, id)) != set->inputs[i].size_bytes)
      return delta_status_make(MISMATCH, "input '%s': the graph's tensor has another size than the data", name);
    memcpy(delta_reference_value(&set->values, id), set->inputs[i].data, set->inputs[i].size_bytes);
  }
  return DELTA_OK;
}

static delta_status_t fill_states(data_set_t *set) {
  for (size_t i = 0; i < set->graph->states.count; ++i) {
    const delta_state_t *state = &set->graph->states.items[i];
    if (state->initializer == DELTA_INDEX_NONE || delta_tensor_is_none(state->current)) continue;
    DELTA_RETURN_IF_ERROR(delta_model_read_tensor(set->model, &set->model->initializers[state->initializer],
                                                  delta_reference_value(&set->values, state->current),
                                                  delta_tensor_bytes(delta_graph_tensor(set->graph, state->current))));
  }
  return DELTA_OK;
}

static delta_status_t evaluate(data_set_t *set, const char *folder) {
  const delta_model_t *model = set->model;
  DELTA_RETURN_IF_ERROR(read_tensors(model, folder, "input", model->inputs, model->input_count, set->inputs));
  DELTA_RETURN_IF_ERROR(import(set)); // before the outputs, whose kind may be one that no operator here gives
  DELTA_RETURN_IF_ERROR(read_tensors(model, folder, "output", model->outputs, model->output_count, set->outputs));
  DELTA_RETURN_IF_ERROR(delta_reference_values_init(set->graph, delta_test_aligned_allocator(), &set->values));
  DELTA_RETURN_IF_ERROR(fill_inputs(set));
  DELTA_RETURN_IF_ERROR(fill_states(set));
  return set->kernels->run(&set->values);
}

// ---- Comparison

static bool elements_agree(const void *data, const delta_tensor_file_t *wanted, size_t i) {
  if (!delta_dtype_is_float(wanted->dtype))
    return delta_element_load_int64(data, wanted->dtype, i) == delta_element_load_int64(wanted->data, wanted->dtype, i);
  const double a = delta_element_load_double(data, wanted->dtype, i), b = delta_element_load_double(wanted->data, wanted->dtype, i);
  const double relative = wanted->cut_bfloat16 ? bfloat16_unit : relative_tolerance;
  return a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= absolute_tolerance + relative * fabs(b);
}

static const char *output_name(const data_set_t *set, uint32_t k) { return set->model->values[set->model->outputs[k].index].name; }

// Compares type, shape and elements, or only whether each element is a value that occurs among the wanted ones.
static delta_status_t compare_output(const data_set_t *set, uint32_t k, bool any_order) {
  const char *name = output_name(set, k);
  const delta_tensor_file_t *wanted = &set->outputs[k];
  const delta_tensor_id_t id = delta_graph_find_output(set->graph, name);
  if (delta_tensor_is_none(id)) return delta_status_make(MISMATCH, "output '%s' is not in the graph", name);
  const delta_tensor_t *tensor = delta_graph_tensor(set->graph, id);
  char found_text[DELTA_SHAPE_TEXT_BYTES], wanted_text[DELTA_SHAPE_TEXT_BYTES];
  if (tensor->dtype != wanted->dtype || !delta_shape_equal(&tensor->shape, &wanted->shape))
    return delta_status_make(MISMATCH, "output '%s' is %s %s, not %s %s", name, delta_dtype_name(tensor->dtype),
                             delta_shape_text(&tensor->shape, found_text), delta_dtype_name(wanted->dtype),
                             delta_shape_text(&wanted->shape, wanted_text));
  const void *data = delta_reference_value(&set->values, id);
  for (size_t i = 0; i < (size_t)delta_shape_count(&wanted->shape); ++i) {
    bool agrees = elements_agree(data, wanted, i);
    for (size_t other = 0; any_order && !agrees && other < (size_t)delta_shape_count(&wanted->shape); ++other) {
      agrees = delta_element_load_double(data, wanted->dtype, i) == delta_element_load_double(wanted->data, wanted->dtype, other);
    }
    if (agrees) continue;
    return delta_status_make(MISMATCH, "output '%s' %s element %zu is %.9g, not %.9g", name, delta_shape_text(&wanted->shape, wanted_text),
                             i, delta_element_load_double(data, wanted->dtype, i),
                             delta_element_load_double(wanted->data, wanted->dtype, i));
  }
  return DELTA_OK;
}

// ---- Dropout in training mode, random numbers

static const char by_share[] = "by share, scale and mask";

// The ratio of a model that is one Dropout in training mode, by its inputs; 0 for other models and where nothing is dropped.
static double training_dropout_ratio(const data_set_t *set) {
  const delta_model_node_t *node = &set->model->nodes[0];
  if (set->model->node_count != 1 || strcmp(node->op_type, "Dropout") != 0 || node->input_count < 3) return 0;
  double ratio = 0.5;
  bool training = false;
  for (uint32_t i = 0; i < set->model->input_count; ++i) {
    const delta_value_id_t id = set->model->inputs[i];
    if (id.index == node->inputs[1].index) ratio = delta_element_load_double(set->inputs[i].data, set->inputs[i].dtype, 0);
    if (id.index == node->inputs[2].index) training = delta_element_load_int64(set->inputs[i].data, set->inputs[i].dtype, 0) != 0;
  }
  return training ? ratio : 0;
}

// Every element is dropped, or kept and scaled; the mask says which; about as many are kept as the ratio says.
static delta_status_t check_dropout(const data_set_t *set, double ratio) {
  const delta_tensor_file_t *x = &set->inputs[0];
  const size_t count = (size_t)delta_shape_count(&x->shape);
  const void *y = delta_reference_value(&set->values, delta_graph_find_output(set->graph, output_name(set, 0)));
  const bool *mask = NULL;
  if (set->model->output_count > 1) mask = delta_reference_value(&set->values, delta_graph_find_output(set->graph, output_name(set, 1)));
  size_t kept_count = 0;
  for (size_t i = 0; i < count; ++i) {
    const double before = delta_element_load_double(x->data, x->dtype, i), after = delta_element_load_double(y, x->dtype, i);
    const double scaled = before / (1 - ratio);
    const bool kept = mask ? mask[i] : after != 0;
    if (fabs(after - (kept ? scaled : 0)) > relative_tolerance * fabs(scaled))
      return delta_status_make(MISMATCH, "element %zu is %g: neither 0 nor %g, or not what the mask says", i, after, scaled);
    kept_count += kept;
  }
  const double share = (double)kept_count / (double)count, deviation = sqrt(ratio * (1 - ratio) / (double)count);
  if (fabs(share - (1 - ratio)) > 6 * deviation) return delta_status_make(MISMATCH, "a share of %g is kept at ratio %g", share, ratio);
  return DELTA_OK;
}

// Whether the outputs are random numbers, which no other generator gives.
static bool draws_numbers(const data_set_t *set) {
  for (size_t i = 0; i < set->graph->nodes.count; ++i) {
    if (set->graph->nodes.items[i].op == DELTA_CORE_RANDOM) return true;
  }
  return false;
}

// *out_how: how the outputs were checked if not by equality; NULL otherwise.
static delta_status_t check_outputs(const data_set_t *set, const char **out_how) {
  const double ratio = training_dropout_ratio(set);
  const bool random = draws_numbers(set);
  *out_how = ratio > 0 ? by_share : random ? "by type, shape and the values that occur" : NULL;
  if (ratio > 0) return check_dropout(set, ratio);
  for (uint32_t k = 0; k < set->model->output_count; ++k) DELTA_RETURN_IF_ERROR(compare_output(set, k, random));
  return DELTA_OK;
}

// ---- The whole case

// Whether the case must pass: its tier says so, or all its operators and types are those of T0 and T1.
static bool is_required(const delta_backend_case_t *backend_case, const delta_model_t *model) {
  if (backend_case->tier) return strcmp(backend_case->tier, "T2") != 0;
  for (uint32_t i = 0; i < model->value_count; ++i) {
    const delta_model_type_t *type = &model->values[i].type;
    if (type->onnx_type && (type->dtype == DELTA_DTYPE_COUNT || type->dtype == DELTA_DTYPE_UINT8)) return false;
  }
  for (uint32_t i = 0; i < model->node_count; ++i) {
    const delta_op_info_t *info = delta_op_find(model->nodes[i].domain, model->nodes[i].op_type);
    if (!info || strcmp(info->tier, "T2") == 0 || model->nodes[i].opset < info->since) return false;
  }
  return true;
}

static delta_status_t run_data_sets(const delta_backend_case_t *backend_case, const delta_model_t *model, const char **out_how) {
  for (int n = 0;; ++n) {
    char folder[PATH_BYTES];
    snprintf(folder, sizeof folder, "%s/test_data_set_%d", backend_case->folder, n);
    if (access(folder, F_OK) != 0) return n > 0 ? DELTA_OK : delta_status_make(NOT_FOUND, "there is no '%s'", folder);
    data_set_t set = {.model = model, .kernels = backend_case->kernels};
    delta_status_t status = evaluate(&set, folder);
    if (!status) status = check_outputs(&set, out_how);
    data_set_deinit(&set);
    if (status) return status;
  }
}

delta_outcome_t delta_backend_run_case(const delta_backend_case_t *backend_case, char reason[DELTA_REASON_BYTES]) {
  char path[PATH_BYTES];
  snprintf(path, sizeof path, "%s/model.onnx", backend_case->folder);
  const delta_model_options_t options = {.path = path};
  delta_model_t *model = NULL;
  bool required = backend_case->tier && strcmp(backend_case->tier, "T2") != 0;
  const char *how = NULL;
  delta_status_t status = delta_model_load(&options, delta_allocator_system(), &model);
  if (!status) {
    required = is_required(backend_case, model);
    status = run_data_sets(backend_case, model, &how);
  }
  delta_model_free(model);

  delta_outcome_t outcome = DELTA_OUTCOME_PASSED;
  reason[0] = 0;
  if (status) {
    snprintf(reason, DELTA_REASON_BYTES, "%s", delta_status_message(status));
    const bool allowed = delta_status_code(status) == DELTA_STATUS_UNSUPPORTED && !required;
    outcome = !allowed ? DELTA_OUTCOME_FAILED : backend_case->tier ? DELTA_OUTCOME_SKIPPED : DELTA_OUTCOME_LEFT_OUT;
  } else if (how) {
    snprintf(reason, DELTA_REASON_BYTES, "%s", how);
  }
  if (backend_case->cannot_pass && (how || status)) {
    // What can be checked was; a case that nothing is known of stays skipped.
    if (!how || outcome == DELTA_OUTCOME_PASSED) outcome = DELTA_OUTCOME_SKIPPED;
    snprintf(reason, DELTA_REASON_BYTES, "cannot pass%s%s: %.400s", how ? "; checked " : "", how ? how : "", backend_case->cannot_pass);
  }
  delta_status_free(status);
  return outcome;
}
