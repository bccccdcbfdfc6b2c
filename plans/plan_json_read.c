// Plan from JSON text, first part. Nothing in the text is trusted: types, ranges, counts and the order of lists are checked before they are used.
#include <string.h>

#include "base/checked.h"
#include "base/map.h"
#include "plans/plan_json_read.h"

static delta_status_t malformed(const delta_plan_reader_t *reader, const char *place, const char *text) {
  return delta_status_make(MALFORMED, "%s: %s: %s", reader->name, place, text);
}

// The array of a field, with fewer entries than an index can count.
static delta_status_t get_list(const delta_plan_reader_t *reader, const delta_json_value_t *object, const char *key,
                               const delta_json_value_t **out_array, size_t *out_count) {
  DELTA_RETURN_IF_ERROR(delta_json_get_array(reader->document, object, key, out_array, out_count));
  return *out_count < UINT32_MAX ? DELTA_OK : malformed(reader, key, "too many");
}

delta_status_t delta_plan_read_bytes(const delta_plan_reader_t *reader, const delta_json_value_t *object, const char *key,
                                     uint64_t *out_value) {
  int64_t value;
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, object, key, 0, DELTA_PLAN_INTEGER_LIMIT - 1, &value));
  *out_value = (uint64_t)value;
  return DELTA_OK;
}

delta_status_t delta_plan_read_count(const delta_plan_reader_t *reader, const delta_json_value_t *object, const char *key,
                                     uint32_t *out_value) {
  int64_t value;
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, object, key, 0, UINT32_MAX, &value));
  *out_value = (uint32_t)value;
  return DELTA_OK;
}

static delta_status_t read_integer(const delta_plan_reader_t *reader, const delta_json_value_t *object, const char *key,
                                   int64_t *out_value) {
  return delta_json_get_int64(reader->document, object, key, 1 - DELTA_PLAN_INTEGER_LIMIT, DELTA_PLAN_INTEGER_LIMIT - 1, out_value);
}

static delta_status_t copy_text(const delta_plan_reader_t *reader, const char *text, const char **out_text) {
  char *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&reader->plan->region, text, strlen(text), &copy));
  *out_text = copy;
  return DELTA_OK;
}

static delta_status_t read_text(const delta_plan_reader_t *reader, const delta_json_value_t *object, const char *key,
                                const char **out_text) {
  const char *text = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_string(reader->document, object, key, &text));
  return copy_text(reader, text, out_text);
}

// Text or null.
static delta_status_t read_optional_text(const delta_plan_reader_t *reader, const delta_json_value_t *object, const char *key,
                                         const char **out_text) {
  const delta_json_value_t *member = delta_json_find(object, key);
  *out_text = NULL;
  if (member && delta_json_is_null(member)) return DELTA_OK;
  return read_text(reader, object, key, out_text);
}

// Lower-case hexadecimal digits, exactly as many as the field holds.
static delta_status_t read_digest(const delta_plan_reader_t *reader, const delta_json_value_t *object, const char *key, size_t field_bytes,
                                  char *out_text) {
  const char *text = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_string(reader->document, object, key, &text));
  const size_t length = strlen(text);
  if (length != field_bytes - 1 || strspn(text, "0123456789abcdef") != length) {
    return delta_status_make(MALFORMED, "%s: %s: expected %zu hexadecimal digits", reader->name, key, field_bytes - 1);
  }
  memcpy(out_text, text, field_bytes);
  return DELTA_OK;
}

static bool find_name(const delta_name_table_t *table, const char *name, uint32_t *out_index) {
  for (uint32_t i = 0; i < table->count; ++i) {
    if (strcmp(table->names[i], name) != 0) continue;
    *out_index = i;
    return true;
  }
  return false;
}

static delta_status_t read_choice(const delta_plan_reader_t *reader, const delta_json_value_t *object, const char *key,
                                  const delta_name_table_t *table, uint32_t *out_index) {
  const char *text = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_string(reader->document, object, key, &text));
  if (find_name(table, text, out_index)) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s: %s: this program knows no '%s'", reader->name, key, text);
}

// ---- Build options

static delta_status_t read_dims(const delta_plan_reader_t *reader, const delta_json_value_t *object, delta_import_options_t *options) {
  const delta_json_value_t *array = NULL;
  delta_dim_binding_t *dims = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(reader->document, object, "dims", &array, &options->dim_count));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&reader->plan->region, options->dim_count, &dims));
  options->dims = dims;
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value), ++dims) {
    DELTA_RETURN_IF_ERROR(read_text(reader, value, "symbol", &dims->symbol));
    DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, value, "size", 0, DELTA_MOST_ROWS, &dims->size));
  }
  return DELTA_OK;
}

static delta_status_t read_levers(const delta_plan_reader_t *reader, const delta_json_value_t *object, uint32_t *out_levers) {
  const delta_json_value_t *array = NULL;
  size_t count;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(reader->document, object, "levers", &array, &count));
  *out_levers = 0;
  uint32_t least = 0; // names stand in the table's order, each once
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value)) {
    const char *text = NULL;
    uint32_t lever;
    DELTA_RETURN_IF_ERROR(delta_json_as_string(reader->document, value, "build.levers", &text));
    if (!find_name(&delta_lever_names, text, &lever) || lever < least) {
      return delta_status_make(MALFORMED, "%s: build.levers: '%s' is unknown or out of order", reader->name, text);
    }
    *out_levers |= 1u << lever;
    least = lever + 1;
  }
  return DELTA_OK;
}

static delta_status_t read_texts(const delta_plan_reader_t *reader, const delta_json_value_t *object, const char *key,
                                 const char *const **out_texts, size_t *out_count) {
  const delta_json_value_t *array = NULL;
  const char **texts = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(reader->document, object, key, &array, out_count));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&reader->plan->region, *out_count, &texts));
  *out_texts = texts;
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value), ++texts) {
    const char *text = NULL;
    DELTA_RETURN_IF_ERROR(delta_json_as_string(reader->document, value, key, &text));
    DELTA_RETURN_IF_ERROR(copy_text(reader, text, texts));
  }
  return DELTA_OK;
}

static delta_status_t read_import_options(const delta_plan_reader_t *reader, const delta_json_value_t *object,
                                          delta_import_options_t *options) {
  uint32_t choice;
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, object, "batch", 0, DELTA_MOST_ROWS, &options->batch));
  DELTA_RETURN_IF_ERROR(read_dims(reader, object, options));
  DELTA_RETURN_IF_ERROR(read_choice(reader, object, "batchnorm", &delta_batchnorm_names, &choice));
  options->batchnorm = (delta_batchnorm_mode_t)choice;
  DELTA_RETURN_IF_ERROR(delta_json_get_bool(reader->document, object, "batchnorm_unbiased", &options->batchnorm_unbiased));
  return read_levers(reader, object, &options->levers);
}

static delta_status_t read_optimizer(const delta_plan_reader_t *reader, const delta_json_value_t *build,
                                     delta_optimizer_options_t *optimizer) {
  const delta_json_value_t *object = NULL;
  uint32_t choice;
  DELTA_RETURN_IF_ERROR(delta_json_get_object(reader->document, build, "optimizer", &object));
  DELTA_RETURN_IF_ERROR(read_choice(reader, object, "kind", &delta_optimizer_names, &choice));
  optimizer->kind = (delta_optimizer_t)choice;
#define READ_REAL(field) DELTA_RETURN_IF_ERROR(delta_json_get_double(reader->document, object, #field, &optimizer->field));
  DELTA_OPTIMIZER_REALS(READ_REAL)
#undef READ_REAL
  return delta_json_get_bool(reader->document, object, "nesterov", &optimizer->nesterov);
}

static delta_status_t read_parts(const delta_plan_reader_t *reader, const delta_json_value_t *object, delta_build_options_t *build) {
  int64_t parts, region_percent;
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, object, "parts", 0, DELTA_PARTS_MAX, &parts));
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, object, "region_percent", 0, 100, &region_percent));
  build->parts = (uint32_t)parts;
  build->region_percent = (uint32_t)region_percent;
  return DELTA_OK;
}

static delta_status_t read_build(const delta_plan_reader_t *reader, const delta_json_value_t *root) {
  delta_build_options_t *build = &reader->plan->build;
  const delta_json_value_t *object = NULL;
  uint32_t choice;
  DELTA_RETURN_IF_ERROR(delta_json_get_object(reader->document, root, "build", &object));
  DELTA_RETURN_IF_ERROR(read_import_options(reader, object, &build->import));
  reader->plan->levers = build->import.levers;
  DELTA_RETURN_IF_ERROR(read_choice(reader, object, "loss", &delta_loss_names, &choice));
  build->loss = (delta_loss_t)choice;
  DELTA_RETURN_IF_ERROR(read_optional_text(reader, object, "loss_output", &build->loss_output));
  DELTA_RETURN_IF_ERROR(read_integer(reader, object, "class_axis", &build->class_axis));
  DELTA_RETURN_IF_ERROR(read_integer(reader, object, "ignore_index", &build->ignore_index));
  DELTA_RETURN_IF_ERROR(read_optimizer(reader, object, &build->optimizer));
  DELTA_RETURN_IF_ERROR(delta_json_get_double(reader->document, object, "clip_gradient_norm", &build->clip_gradient_norm));
  DELTA_RETURN_IF_ERROR(
      delta_json_get_int64(reader->document, object, "accumulate", 1, DELTA_PLAN_INTEGER_LIMIT - 1, &reader->plan->accumulate));
  build->accumulates = reader->plan->accumulate > 1;
  DELTA_RETURN_IF_ERROR(read_texts(reader, object, "freeze", &build->freeze, &build->freeze_count));
  DELTA_RETURN_IF_ERROR(read_texts(reader, object, "train", &build->train, &build->train_count));
  DELTA_RETURN_IF_ERROR(delta_json_get_bool(reader->document, object, "eager", &build->eager));
  return read_parts(reader, object, build);
}

// ---- Model, numerics, totals

// The model is looked for beside the plan: a plan names no place outside its folder.
static delta_status_t read_model(const delta_plan_reader_t *reader, const delta_json_value_t *root) {
  const delta_json_value_t *object = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_object(reader->document, root, "model", &object));
  DELTA_RETURN_IF_ERROR(read_text(reader, object, "file", &reader->plan->model_file));
  const char *file = reader->plan->model_file;
  if (*file == 0 || strchr(file, '/') || strcmp(file, ".") == 0 || strcmp(file, "..") == 0) {
    return malformed(reader, "model.file", "expected a file name without a folder");
  }
  return read_digest(reader, object, "sha256", sizeof reader->plan->model_sha256, reader->plan->model_sha256);
}

// Left out by plans that compute as float32 says, also by those of programs that knew no other way.
static delta_status_t read_math(const delta_plan_reader_t *reader, const delta_json_value_t *object, delta_float_math_t *out_math) {
  uint32_t choice;
  *out_math = DELTA_FLOAT_MATH_FLOAT32;
  if (!delta_json_find(object, "math")) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(read_choice(reader, object, "math", &delta_float_math_names, &choice));
  if (choice != DELTA_FLOAT_MATH_TF32) return malformed(reader, "numerics.math", "expected 'tf32', or no such member");
  *out_math = (delta_float_math_t)choice;
  return DELTA_OK;
}

static delta_status_t read_numerics(const delta_plan_reader_t *reader, const delta_json_value_t *root) {
  delta_plan_numerics_t *numerics = &reader->plan->numerics;
  const delta_json_value_t *object = NULL;
  int64_t threads;
  DELTA_RETURN_IF_ERROR(delta_json_get_object(reader->document, root, "numerics", &object));
  DELTA_RETURN_IF_ERROR(read_text(reader, object, "device", &numerics->device));
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, object, "threads", 0, INT32_MAX, &threads));
  numerics->threads = (int32_t)threads;
  DELTA_RETURN_IF_ERROR(read_math(reader, object, &numerics->math));
  DELTA_RETURN_IF_ERROR(read_text(reader, object, "instruction_set", &numerics->instruction_set));
  DELTA_RETURN_IF_ERROR(read_text(reader, object, "libraries", &numerics->libraries));
  return read_digest(reader, object, "id", sizeof numerics->id, numerics->id);
}

static delta_status_t read_totals(const delta_plan_reader_t *reader, const delta_json_value_t *root) {
  delta_plan_totals_t *totals = &reader->plan->totals;
  const delta_json_value_t *object = NULL, *memory = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_object(reader->document, root, "totals", &object));
  const delta_json_value_t *budget = delta_json_find(object, "budget_bytes");
  totals->budget_bytes = totals->host_budget_bytes = UINT64_MAX;
  if (delta_json_find(object, "host_budget_bytes")) {
    DELTA_RETURN_IF_ERROR(delta_plan_read_bytes(reader, object, "host_budget_bytes", &totals->host_budget_bytes));
  }
  if (!budget || !delta_json_is_null(budget))
    DELTA_RETURN_IF_ERROR(delta_plan_read_bytes(reader, object, "budget_bytes", &totals->budget_bytes));
#define READ_BYTES(field) DELTA_RETURN_IF_ERROR(delta_plan_read_bytes(reader, object, #field, &totals->field));
#define READ_REAL(field)  DELTA_RETURN_IF_ERROR(delta_json_get_double(reader->document, object, #field, &totals->field));
  DELTA_TOTALS_INTEGERS(READ_BYTES)
  DELTA_TOTALS_REALS(READ_REAL)
#undef READ_BYTES
#undef READ_REAL
  DELTA_RETURN_IF_ERROR(delta_json_get_object(reader->document, object, "memory", &memory));
  for (uint32_t c = 0; c < delta_class_names.count; ++c) {
    DELTA_RETURN_IF_ERROR(delta_plan_read_bytes(reader, memory, delta_class_names.names[c], &totals->memory_bytes[c]));
  }
  return DELTA_OK;
}

// ---- States

static delta_status_t read_shape(const delta_plan_reader_t *reader, const delta_json_value_t *object, delta_shape_t *out_shape) {
  const delta_json_value_t *array = NULL;
  size_t count;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(reader->document, object, "shape", &array, &count));
  if (count > DELTA_MAX_RANK) return malformed(reader, "states", "a shape has too many dimensions");
  out_shape->rank = (int32_t)count;
  int32_t d = 0;
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value), ++d) {
    DELTA_RETURN_IF_ERROR(
        delta_json_as_int64(reader->document, value, "states: a shape", 0, DELTA_PLAN_INTEGER_LIMIT - 1, &out_shape->dims[d]));
  }
  return DELTA_OK;
}

// A state with a home in the tier below says where.
static delta_status_t read_home(const delta_plan_reader_t *reader, const delta_json_value_t *object, uint64_t begin_bytes,
                                delta_plan_state_t *out_state) {
  uint64_t offset_bytes;
  out_state->is_below = delta_json_find(object, "home_offset_bytes") != NULL;
  if (!out_state->is_below) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_plan_read_bytes(reader, object, "home_offset_bytes", &offset_bytes));
  if (offset_bytes < begin_bytes || offset_bytes % DELTA_HOST_BLOCK_BYTES != 0) {
    return delta_status_make(MALFORMED, "%s: states: '%s' has a home that is not after the one before, at whole blocks", reader->name,
                             out_state->name);
  }
  out_state->home_offset_bytes = (size_t)offset_bytes;
  return DELTA_OK;
}

static delta_status_t read_state(const delta_plan_reader_t *reader, const delta_json_value_t *object, uint64_t begin_bytes,
                                 uint64_t home_begin_bytes, delta_plan_state_t *out_state) {
  uint32_t choice;
  uint64_t offset_bytes, size_bytes;
  DELTA_RETURN_IF_ERROR(read_text(reader, object, "name", &out_state->name));
  DELTA_RETURN_IF_ERROR(read_choice(reader, object, "kind", &delta_state_kind_names, &choice));
  out_state->kind = (delta_state_kind_t)choice;
  DELTA_RETURN_IF_ERROR(read_choice(reader, object, "dtype", &delta_dtype_names, &choice));
  out_state->dtype = (delta_dtype_t)choice;
  DELTA_RETURN_IF_ERROR(read_shape(reader, object, &out_state->shape));
  delta_status_t status = delta_shape_validate(&out_state->shape, delta_dtype_bytes(out_state->dtype), out_state->name);
  if (status) {
    delta_status_free(status);
    return delta_status_make(MALFORMED, "%s: states: '%s' has more elements than memory can hold", reader->name, out_state->name);
  }
  DELTA_RETURN_IF_ERROR(delta_plan_read_bytes(reader, object, "offset_bytes", &offset_bytes));
  DELTA_RETURN_IF_ERROR(delta_plan_read_bytes(reader, object, "size_bytes", &size_bytes));
  const uint64_t data_bytes = (uint64_t)delta_shape_count(&out_state->shape) * delta_dtype_bytes(out_state->dtype);
  if (offset_bytes != begin_bytes || size_bytes < data_bytes || size_bytes == 0) {
    return delta_status_make(MALFORMED, "%s: states: '%s' does not begin where the one before it ends, or is too small for its shape",
                             reader->name, out_state->name);
  }
  out_state->offset_bytes = (size_t)offset_bytes;
  out_state->size_bytes = (size_t)size_bytes;
  return read_home(reader, object, home_begin_bytes, out_state);
}

static delta_status_t read_state_list(const delta_plan_reader_t *reader, const delta_json_value_t *array, delta_map_t *names) {
  delta_plan_t *plan = reader->plan;
  uint64_t end_bytes = 0, home_end_bytes = 0;
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value)) {
    delta_plan_state_t *state = &plan->states[plan->state_count];
    DELTA_RETURN_IF_ERROR(read_state(reader, value, end_bytes, home_end_bytes, state));
    if (delta_map_find(names, state->name) != DELTA_MAP_NONE) {
      return delta_status_make(MALFORMED, "%s: states: '%s' appears twice", reader->name, state->name);
    }
    DELTA_RETURN_IF_ERROR(delta_map_set(names, state->name, plan->state_count++));
    if (state->is_below) {
      home_end_bytes = state->home_offset_bytes + state->size_bytes;
    } else {
      end_bytes += state->size_bytes;
    }
  }
  if (end_bytes == plan->totals.state_bytes) return DELTA_OK;
  return malformed(reader, "totals.state_bytes", "the states do not add up to it");
}

static delta_status_t read_states(const delta_plan_reader_t *reader, const delta_json_value_t *root) {
  const delta_json_value_t *array = NULL;
  size_t count;
  DELTA_RETURN_IF_ERROR(get_list(reader, root, "states", &array, &count));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&reader->plan->region, count, &reader->plan->states));
  delta_map_t names;
  delta_map_init(&names, reader->plan->allocator);
  delta_status_t status = read_state_list(reader, array, &names);
  delta_map_deinit(&names);
  return status;
}

// ---- Programs

static delta_status_t read_layouts(const delta_plan_reader_t *reader, const delta_json_value_t *object, delta_plan_program_t *program) {
  const delta_json_value_t *array = NULL;
  size_t count;
  DELTA_RETURN_IF_ERROR(get_list(reader, object, "layouts", &array, &count));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&reader->plan->region, count, &program->layouts));
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value)) {
    const char *name = NULL;
    DELTA_RETURN_IF_ERROR(delta_json_as_string(reader->document, value, "layouts", &name));
    if (!delta_layout_find(name, &program->layouts[program->layout_count++]))
      return delta_status_make(MALFORMED, "%s: layouts: '%s' is not a layout", reader->name, name);
  }
  return DELTA_OK;
}

static delta_status_t read_kernels(const delta_plan_reader_t *reader, const delta_json_value_t *object, delta_plan_program_t *program) {
  const delta_json_value_t *array = NULL;
  size_t count;
  DELTA_RETURN_IF_ERROR(get_list(reader, object, "kernels", &array, &count));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&reader->plan->region, count, &program->kernels));
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value)) {
    const char *name = NULL;
    char *copy = NULL;
    DELTA_RETURN_IF_ERROR(delta_json_as_string(reader->document, value, "kernels", &name));
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(&reader->plan->region, name, strlen(name), &copy));
    program->kernels[program->kernel_count++] = copy;
  }
  return DELTA_OK;
}

static delta_status_t read_program(const delta_plan_reader_t *reader, const delta_json_value_t *object, uint32_t index) {
  delta_plan_t *plan = reader->plan;
  delta_plan_program_t *program = &plan->programs[index];
  const delta_json_value_t *schedule = NULL;
  uint32_t choice;
  DELTA_RETURN_IF_ERROR(read_choice(reader, object, "kind", &delta_program_names, &choice));
  program->kind = (delta_program_kind_t)choice;
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, object, "batch", 0, DELTA_MOST_ROWS, &program->batch));
  if (delta_plan_find_program(plan, program->kind, program->batch)) {
    return delta_status_make(MALFORMED, "%s: programs[%u]: a second '%s' program for batch %lld", reader->name, index,
                             delta_program_names.names[program->kind], (long long)program->batch);
  }
  DELTA_RETURN_IF_ERROR(read_digest(reader, object, "graph_hash", sizeof program->graph_hash, program->graph_hash));
  DELTA_RETURN_IF_ERROR(read_layouts(reader, object, program));
  DELTA_RETURN_IF_ERROR(read_kernels(reader, object, program));
  DELTA_RETURN_IF_ERROR(delta_json_get_object(reader->document, object, "schedule", &schedule));
  DELTA_RETURN_IF_ERROR(delta_plan_read_schedule(reader, schedule, index, &program->schedule));
  ++plan->program_count;
  if (program->schedule->arena_bytes <= plan->totals.arena_bytes - plan->totals.state_bytes) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s: programs[%u]: does not fit beside the states into totals.arena_bytes", reader->name, index);
}

static delta_status_t read_programs(const delta_plan_reader_t *reader, const delta_json_value_t *root) {
  const delta_plan_totals_t *totals = &reader->plan->totals;
  const delta_json_value_t *array = NULL;
  size_t count;
  if (totals->arena_bytes < totals->state_bytes || totals->arena_bytes > totals->budget_bytes) {
    return malformed(reader, "totals.arena_bytes", "less than the states need or more than the budget allows");
  }
  DELTA_RETURN_IF_ERROR(get_list(reader, root, "programs", &array, &count));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&reader->plan->region, count, &reader->plan->programs));
  uint32_t index = 0;
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value), ++index) {
    DELTA_RETURN_IF_ERROR(read_program(reader, value, index));
  }
  return DELTA_OK;
}

// ---- The whole

static delta_status_t check_format(const delta_plan_reader_t *reader, const delta_json_value_t *root) {
  const char *format = NULL;
  int64_t version;
  DELTA_RETURN_IF_ERROR(delta_json_get_string(reader->document, root, "format", &format));
  if (strcmp(format, DELTA_PLAN_FORMAT) != 0) return malformed(reader, "format", "not a plan");
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, root, "version", 1, DELTA_PLAN_INTEGER_LIMIT - 1, &version));
  if (version == DELTA_PLAN_VERSION) return DELTA_OK;
  if (version < DELTA_PLAN_VERSION)
    return delta_status_make(MISMATCH,
                             "%s: written by an older version: plan format %lld, this program reads %d: make a new plan with deltaplan",
                             reader->name, (long long)version, (int)DELTA_PLAN_VERSION);
  return delta_status_make(MISMATCH, "%s: written by a newer version: plan format %lld, this program reads %d", reader->name,
                           (long long)version, (int)DELTA_PLAN_VERSION);
}

static delta_status_t read_plan(const delta_plan_reader_t *reader, const delta_json_value_t *root) {
  DELTA_RETURN_IF_ERROR(check_format(reader, root));
  DELTA_RETURN_IF_ERROR(read_model(reader, root));
  DELTA_RETURN_IF_ERROR(read_text(reader, root, "policy", &reader->plan->policy));
  DELTA_RETURN_IF_ERROR(read_build(reader, root));
  DELTA_RETURN_IF_ERROR(delta_json_get_double(reader->document, root, "learning_rate", &reader->plan->learning_rate));
  DELTA_RETURN_IF_ERROR(delta_json_get_bool(reader->document, root, "init_random", &reader->plan->init_random));
  DELTA_RETURN_IF_ERROR(delta_plan_read_bytes(reader, root, "init_seed", &reader->plan->init_seed));
  DELTA_RETURN_IF_ERROR(read_numerics(reader, root));
  DELTA_RETURN_IF_ERROR(read_totals(reader, root));
  DELTA_RETURN_IF_ERROR(read_states(reader, root));
  return read_programs(reader, root);
}

delta_status_t delta_plan_from_json(const char *text, size_t size_bytes, const char *name, delta_allocator_t allocator,
                                    delta_plan_t **out_plan) {
  delta_json_document_t *document = NULL;
  delta_plan_reader_t reader = {.name = name};
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_json_parse(text, size_bytes, name, allocator, &document));
  DELTA_GOTO_IF_ERROR(status, delta_plan_create_empty(allocator, &reader.plan), cleanup);
  reader.document = document;
  DELTA_GOTO_IF_ERROR(status, read_plan(&reader, delta_json_root(document)), cleanup);
  *out_plan = reader.plan;
  reader.plan = NULL;
cleanup:
  delta_plan_free(reader.plan);
  delta_json_free(document);
  return status;
}
