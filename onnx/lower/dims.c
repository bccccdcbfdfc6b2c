// Dimensions of an import: the fixed shape of every model input, from what the file states, --batch and --dim.
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "onnx/lower/import_state.h"

const delta_known_input_t *delta_import_known_input(const delta_import_options_t *options, const char *name) {
  for (size_t k = 0; k < options->known_input_count; ++k) {
    if (strcmp(options->known_inputs[k].name, name) == 0) return &options->known_inputs[k];
  }
  return NULL;
}

// What is being found out about all dimensions together.
typedef struct dim_search {
  delta_import_state_t *state;
  delta_text_t unknown; // "'seq' (input 'ids', dimension 1), ..."
  uint32_t unknown_count;
  const char *unknown_symbols[8]; // already listed
  bool batch_used;
} dim_search_t;

enum { DIM_NAME_BYTES = 128 };

// The name --dim knows a dimension by: its symbol, or "input[k]" when it has none.
static const char *dim_name(const delta_model_dim_t *dim, const char *input, int32_t axis, char buffer[DIM_NAME_BYTES]) {
  if (dim->symbol != NULL && dim->symbol[0] != '\0') return dim->symbol;
  (void)snprintf(buffer, DIM_NAME_BYTES, "%.100s[%d]", input, axis);
  return buffer;
}

static int64_t bound_dim(const delta_import_options_t *options, const char *name) {
  for (size_t k = 0; k < options->dim_count; ++k) {
    if (strcmp(options->dims[k].symbol, name) == 0) return options->dims[k].size;
  }
  return -1;
}

// Whether `symbol` is the first dimension of some input, which --batch sets.
static bool is_batch_symbol(const delta_model_t *model, const char *symbol) {
  for (uint32_t k = 0; k < model->input_count; ++k) {
    const delta_model_type_t *type = &model->values[model->inputs[k].index].type;
    if (!type->has_shape || type->rank < 1 || type->dims[0].size >= 0 || type->dims[0].symbol == NULL) continue;
    if (strcmp(type->dims[0].symbol, symbol) == 0) return true;
  }
  return false;
}

static delta_status_t note_unknown(dim_search_t *search, const char *name, const char *input, int32_t axis) {
  const uint32_t capacity = sizeof search->unknown_symbols / sizeof search->unknown_symbols[0];
  for (uint32_t k = 0; k < search->unknown_count && k < capacity; ++k) {
    if (strcmp(search->unknown_symbols[k], name) == 0) return DELTA_OK;
  }
  if (search->unknown_count < capacity) {
    DELTA_RETURN_IF_ERROR(delta_text_append(&search->unknown, "%s'%.80s' (dimension %d of input '%.80s'; --dim %.80s=N%s)",
                                            search->unknown_count ? ", " : "", name, axis, input, name, axis == 0 ? " or --batch N" : ""));
    char *copy = NULL;
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&search->state->scratch, name, strlen(name), &copy));
    search->unknown_symbols[search->unknown_count] = copy;
  }
  search->unknown_count += 1;
  return DELTA_OK;
}

static delta_status_t resolve_dim(dim_search_t *search, const char *input, const delta_model_dim_t *dim, int32_t axis, int64_t *out_size) {
  const delta_import_options_t *options = search->state->options;
  if (dim->size >= 0) {
    *out_size = dim->size;
    if (axis != 0 || options->batch <= 0) return DELTA_OK;
    search->batch_used = true;
    if (dim->size == options->batch) return DELTA_OK;
    return delta_status_make(
        INVALID_ARGUMENT,
        "input '%.200s' has the fixed batch size %lld in the file, but --batch gives %lld; export the model with a symbolic batch", input,
        (long long)dim->size, (long long)options->batch);
  }
  char buffer[DIM_NAME_BYTES];
  const char *name = dim_name(dim, input, axis, buffer);
  *out_size = bound_dim(options, name);
  if (*out_size >= 0) return DELTA_OK;
  if (options->batch > 0 && (axis == 0 || (dim->symbol != NULL && is_batch_symbol(search->state->model, name)))) {
    search->batch_used = true;
    *out_size = options->batch;
    return DELTA_OK;
  }
  return note_unknown(search, name, input, axis);
}

static delta_status_t resolve_input(dim_search_t *search, const delta_model_value_t *value, uint32_t uses, delta_shape_t *shape) {
  const delta_model_type_t *type = &value->type;
  *shape = (delta_shape_t){.rank = -1};
  bool usable = type->is_tensor && type->dtype != DELTA_DTYPE_COUNT;
  if (!usable && uses == 0) return DELTA_OK;
  if (!type->is_tensor) return delta_status_make(UNSUPPORTED, "input '%.200s' is no tensor (a sequence, map or optional)", value->name);
  if (type->onnx_type == 0) return delta_status_make(MALFORMED, "input '%.200s' has no element type", value->name);
  if (!usable)
    return delta_status_make(UNSUPPORTED, "input '%.200s' has element type number %d, which is not supported", value->name,
                             type->onnx_type);
  if (!type->has_shape) {
    return delta_status_make(
        INVALID_ARGUMENT, "input '%.200s' has no shape in the file: its rank is unknown; export the model with input shapes", value->name);
  }
  if (type->rank > DELTA_MAX_RANK) {
    return delta_status_make(UNSUPPORTED, "input '%.200s' has rank %d; at most %d is supported", value->name, type->rank, DELTA_MAX_RANK);
  }
  shape->rank = type->rank;
  for (int32_t d = 0; d < type->rank; ++d) DELTA_RETURN_IF_ERROR(resolve_dim(search, value->name, &type->dims[d], d, &shape->dims[d]));
  return DELTA_OK;
}

// Every --dim must name a dimension of some input.
static delta_status_t check_bindings_are_used(const delta_import_state_t *state) {
  const delta_import_options_t *options = state->options;
  for (size_t k = 0; k < options->dim_count; ++k) {
    if (options->dims[k].size < 0) {
      return delta_status_make(INVALID_ARGUMENT, "--dim %.80s=%lld: a dimension is not negative", options->dims[k].symbol,
                               (long long)options->dims[k].size);
    }
    bool found = false;
    for (uint32_t i = 0; i < state->model->input_count && !found; ++i) {
      const delta_model_value_t *value = &state->model->values[state->model->inputs[i].index];
      for (int32_t d = 0; value->type.has_shape && d < value->type.rank && !found; ++d) {
        char buffer[DIM_NAME_BYTES];
        found =
            value->type.dims[d].size < 0 && strcmp(dim_name(&value->type.dims[d], value->name, d, buffer), options->dims[k].symbol) == 0;
      }
    }
    if (!found)
      return delta_status_make(INVALID_ARGUMENT, "--dim %.80s: no input of the model has a free dimension of this name",
                               options->dims[k].symbol);
  }
  return DELTA_OK;
}

delta_status_t delta_import_input_shapes(delta_import_state_t *state, delta_shape_t *shapes) {
  const delta_model_t *model = state->model;
  DELTA_RETURN_IF_ERROR(check_bindings_are_used(state));
  delta_status_t status = DELTA_OK;
  dim_search_t search = {.state = state};
  delta_text_init(&search.unknown, state->allocator);
  for (uint32_t k = 0; k < model->input_count; ++k) {
    const delta_model_value_t *value = &model->values[model->inputs[k].index];
    const delta_known_input_t *known = delta_import_known_input(state->options, value->name);
    if (known != NULL) {
      shapes[k] = known->shape;
      continue;
    }
    DELTA_GOTO_IF_ERROR(status, resolve_input(&search, value, state->uses[model->inputs[k].index], &shapes[k]), cleanup);
  }
  if (search.unknown_count > 0) {
    status = delta_status_make(INVALID_ARGUMENT, "%u dimension%s of the model's inputs %s unknown: %s", search.unknown_count,
                               DELTA_PLURAL(search.unknown_count), search.unknown_count == 1 ? "is" : "are", search.unknown.items);
    goto cleanup;
  }
  if (state->options->batch > 0 && !search.batch_used) {
    status = delta_status_make(INVALID_ARGUMENT, "--batch %lld: no input of the model has a free first dimension",
                               (long long)state->options->batch);
  }
cleanup:
  delta_text_deinit(&search.unknown);
  return status;
}
