#include "tests/support/model_values.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "onnx/lower/import.h"
#include "onnx/reference/run.h"
#include "runtime/data/npz.h"
#include "tests/support/device_run.h"

typedef struct evaluation {
  delta_model_t *model;
  delta_npz_t *npz; // NULL: nothing is evaluated
  delta_graph_t *graph;
  delta_reference_values_t values;
} evaluation_t;

static void evaluation_deinit(evaluation_t *evaluation) {
  delta_reference_values_deinit(&evaluation->values);
  delta_graph_free(evaluation->graph);
  delta_npz_close(evaluation->npz);
  delta_model_free(evaluation->model);
}

// The array PREFIX/NAME.
static delta_status_t find_array(evaluation_t *evaluation, const char *prefix, const char *name, size_t *out_index,
                                 const delta_npy_header_t **out_header) {
  char *key = NULL;
  if (asprintf(&key, "%s/%s", prefix, name) < 0) return delta_status_make(OUT_OF_MEMORY, "no memory for a name");
  *out_index = delta_npz_find(evaluation->npz, key);
  delta_status_t status = *out_index == DELTA_NPZ_NONE ? delta_status_make(NOT_FOUND, "no array '%.100s'", key)
                                                       : delta_npz_header(evaluation->npz, *out_index, out_header);
  free(key);
  return status;
}

static delta_status_t import(evaluation_t *evaluation, int64_t batch) {
  const delta_model_t *model = evaluation->model;
  delta_import_options_t options = {.levers = DELTA_LEVERS_ALL};
  for (uint32_t i = 0; i < model->input_count; ++i) {
    const delta_model_value_t *input = &model->values[model->inputs[i].index];
    const delta_npy_header_t *header = NULL;
    size_t index = 0;
    if (!input->type.has_shape || input->type.rank == 0 || input->type.dims[0].size >= 0) continue;
    options.batch = batch;
    if (!evaluation->npz) continue;
    DELTA_RETURN_IF_ERROR(find_array(evaluation, "in", input->name, &index, &header));
    if (header->shape.rank > 0) options.batch = header->shape.dims[0];
  }
  delta_import_facts_t facts;
  return delta_import(model, &options, delta_allocator_system(), &evaluation->graph, &facts);
}

// Whether an array of the file has the type and shape of a tensor.
static delta_status_t check_header(const delta_npy_header_t *header, const delta_tensor_t *tensor, const char *name) {
  char found[DELTA_SHAPE_TEXT_BYTES], wanted[DELTA_SHAPE_TEXT_BYTES];
  if (strcmp(delta_file_dtype_name(header->type), delta_dtype_name(tensor->dtype)) == 0 &&
      delta_shape_equal(&header->shape, &tensor->shape))
    return DELTA_OK;
  return delta_status_make(MISMATCH, "'%.100s' is %s %s, the array %s %s", name, delta_dtype_name(tensor->dtype),
                           delta_shape_text(&tensor->shape, found), delta_file_dtype_name(header->type),
                           delta_shape_text(&header->shape, wanted));
}

static delta_status_t fill_inputs(evaluation_t *evaluation) {
  for (uint32_t i = 0; i < evaluation->model->input_count; ++i) {
    const char *name = evaluation->model->values[evaluation->model->inputs[i].index].name;
    delta_tensor_id_t id = delta_graph_find_input(evaluation->graph, name);
    const delta_npy_header_t *header = NULL;
    size_t index = 0;
    if (delta_tensor_is_none(id)) continue;
    DELTA_RETURN_IF_ERROR(find_array(evaluation, "in", name, &index, &header));
    DELTA_RETURN_IF_ERROR(check_header(header, delta_graph_tensor(evaluation->graph, id), name));
    DELTA_RETURN_IF_ERROR(
        delta_npz_read(evaluation->npz, index, 0, delta_npy_element_count(header), delta_reference_value(&evaluation->values, id)));
  }
  return DELTA_OK;
}

static delta_status_t fill_states(evaluation_t *evaluation) {
  for (size_t i = 0; i < evaluation->graph->states.count; ++i) {
    const delta_state_t *state = &evaluation->graph->states.items[i];
    if (state->initializer == DELTA_INDEX_NONE || delta_tensor_is_none(state->current)) continue;
    DELTA_RETURN_IF_ERROR(delta_model_read_tensor(evaluation->model, &evaluation->model->initializers[state->initializer],
                                                  delta_reference_value(&evaluation->values, state->current),
                                                  delta_tensor_bytes(delta_graph_tensor(evaluation->graph, state->current))));
  }
  return DELTA_OK;
}

static delta_status_t compare(const void *data, const void *wanted, delta_dtype_t dtype, size_t count, double tolerance, const char *name) {
  for (size_t i = 0; i < count; ++i) {
    double a = delta_element_load_double(data, dtype, i), b = delta_element_load_double(wanted, dtype, i);
    if (a == b || (isnan(a) && isnan(b)) || fabs(a - b) <= tolerance * fmax(1, fabs(b))) continue;
    return delta_status_make(MISMATCH, "output '%.100s' element %zu is %.9g, not %.9g", name, i, a, b);
  }
  return DELTA_OK;
}

static delta_status_t compare_outputs(evaluation_t *evaluation, double tolerance) {
  for (uint32_t i = 0; i < evaluation->model->output_count; ++i) {
    const char *name = evaluation->model->values[evaluation->model->outputs[i].index].name;
    delta_tensor_id_t id = delta_graph_find_output(evaluation->graph, name);
    const delta_npy_header_t *header = NULL;
    size_t index = 0;
    if (delta_tensor_is_none(id)) return delta_status_make(MISMATCH, "output '%.100s' is not in the graph", name);
    const delta_tensor_t *tensor = delta_graph_tensor(evaluation->graph, id);
    DELTA_RETURN_IF_ERROR(find_array(evaluation, "out", name, &index, &header));
    DELTA_RETURN_IF_ERROR(check_header(header, tensor, name));
    size_t count = (size_t)delta_npy_element_count(header);
    void *wanted = malloc(delta_tensor_bytes(tensor) + 1);
    if (!wanted) return delta_status_make(OUT_OF_MEMORY, "no memory for output '%.100s'", name);
    delta_status_t status = delta_npz_read(evaluation->npz, index, 0, count, wanted);
    if (!status) status = compare(delta_reference_value(&evaluation->values, id), wanted, tensor->dtype, count, tolerance, name);
    free(wanted);
    DELTA_RETURN_IF_ERROR(status);
  }
  return DELTA_OK;
}

static delta_status_t evaluate(evaluation_t *evaluation, const char *model_path, const char *npz_path, double tolerance) {
  delta_model_options_t options = {.path = model_path};
  DELTA_RETURN_IF_ERROR(delta_model_load(&options, delta_allocator_system(), &evaluation->model));
  DELTA_RETURN_IF_ERROR(delta_npz_open(npz_path, delta_allocator_system(), &evaluation->npz));
  DELTA_RETURN_IF_ERROR(import(evaluation, 1));
  DELTA_RETURN_IF_ERROR(delta_reference_values_init(evaluation->graph, delta_test_aligned_allocator(), &evaluation->values));
  DELTA_RETURN_IF_ERROR(fill_inputs(evaluation));
  DELTA_RETURN_IF_ERROR(fill_states(evaluation));
  DELTA_RETURN_IF_ERROR(delta_reference_run_graph(&evaluation->values));
  return compare_outputs(evaluation, tolerance);
}

delta_status_t delta_test_check_values(const char *model_path, const char *npz_path, double tolerance) {
  evaluation_t evaluation = {0};
  delta_status_t status = evaluate(&evaluation, model_path, npz_path, tolerance);
  evaluation_deinit(&evaluation);
  return status;
}

delta_status_t delta_test_check_import(const char *model_path, int64_t batch) {
  evaluation_t evaluation = {0};
  delta_model_options_t options = {.path = model_path};
  delta_status_t status = delta_model_load(&options, delta_allocator_system(), &evaluation.model);
  if (!status) status = import(&evaluation, batch);
  evaluation_deinit(&evaluation);
  return status;
}
