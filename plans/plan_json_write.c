// Plan to JSON text. Members stand in a fixed order, and what a reader could not read back exactly is refused here.
#include <math.h>

#include "plans/plan_json.h"

static void fail(delta_json_writer_t *writer, delta_status_t status) { writer->status = delta_status_join(writer->status, status); }

static void write_integer(delta_json_writer_t *writer, const char *key, int64_t value) {
  if (value >= DELTA_PLAN_INTEGER_LIMIT || value <= -DELTA_PLAN_INTEGER_LIMIT) {
    fail(writer,
         delta_status_make(UNSUPPORTED, "plan: %s of %lld is more than a plan file can hold", key ? key : "a number", (long long)value));
    return;
  }
  delta_json_write_int64(writer, key, value);
}

static void write_bytes(delta_json_writer_t *writer, const char *key, uint64_t value) {
  write_integer(writer, key, value < INT64_MAX ? (int64_t)value : INT64_MAX);
}

static void write_real(delta_json_writer_t *writer, const char *key, double value) {
  if (!isfinite(value)) {
    fail(writer, delta_status_make(UNSUPPORTED, "plan: %s is not a finite number", key));
    return;
  }
  delta_json_write_double(writer, key, value);
}

static void write_text(delta_json_writer_t *writer, const char *key, const char *text) {
  if (text) {
    delta_json_write_string(writer, key, text);
  } else {
    delta_json_write_null(writer, key);
  }
}

static void write_texts(delta_json_writer_t *writer, const char *key, const char *const *texts, size_t count) {
  delta_json_begin_inline_array(writer, key);
  for (size_t i = 0; i < count; ++i) delta_json_write_string(writer, NULL, texts[i]);
  delta_json_end_array(writer);
}

// Indices of buffers and steps; none is -1.
static void write_indices(delta_json_writer_t *writer, const char *key, const uint32_t *items, uint32_t count) {
  delta_json_begin_inline_array(writer, key);
  for (uint32_t i = 0; i < count; ++i) delta_json_write_int64(writer, NULL, items[i] == DELTA_PROBLEM_NONE ? -1 : (int64_t)items[i]);
  delta_json_end_array(writer);
}

// ---- Build options

static void write_levers(delta_json_writer_t *writer, uint32_t levers) {
  delta_json_begin_inline_array(writer, "levers");
  for (uint32_t i = 0; i < delta_lever_names.count; ++i) {
    if (delta_lever_is_on(levers, (delta_lever_t)i)) delta_json_write_string(writer, NULL, delta_lever_names.names[i]);
  }
  delta_json_end_array(writer);
}

static void write_import_options(delta_json_writer_t *writer, const delta_import_options_t *options) {
  if (options->known_input_count > 0 || options->as_exported) {
    fail(writer,
         delta_status_make(UNSUPPORTED, "plan: inputs given at build time and graphs exactly as exported cannot be planned to a file"));
  }
  write_integer(writer, "batch", options->batch);
  delta_json_begin_array(writer, "dims");
  for (size_t i = 0; i < options->dim_count; ++i) {
    delta_json_begin_inline_object(writer, NULL);
    delta_json_write_string(writer, "symbol", options->dims[i].symbol);
    write_integer(writer, "size", options->dims[i].size);
    delta_json_end_object(writer);
  }
  delta_json_end_array(writer);
  delta_json_write_string(writer, "batchnorm", delta_batchnorm_names.names[options->batchnorm]);
  delta_json_write_bool(writer, "batchnorm_unbiased", options->batchnorm_unbiased);
  write_levers(writer, options->levers);
}

static void write_optimizer(delta_json_writer_t *writer, const delta_optimizer_options_t *optimizer) {
  delta_json_begin_object(writer, "optimizer");
  delta_json_write_string(writer, "kind", delta_optimizer_names.names[optimizer->kind]);
#define WRITE_REAL(field) write_real(writer, #field, optimizer->field);
  DELTA_OPTIMIZER_REALS(WRITE_REAL)
#undef WRITE_REAL
  delta_json_write_bool(writer, "nesterov", optimizer->nesterov);
  delta_json_end_object(writer);
}

static void write_build(delta_json_writer_t *writer, const delta_plan_t *plan) {
  const delta_build_options_t *build = &plan->build;
  delta_json_begin_object(writer, "build");
  write_import_options(writer, &build->import);
  delta_json_write_string(writer, "loss", delta_loss_names.names[build->loss]);
  write_text(writer, "loss_output", build->loss_output);
  write_integer(writer, "class_axis", build->class_axis);
  write_integer(writer, "ignore_index", build->ignore_index);
  write_optimizer(writer, &build->optimizer);
  write_real(writer, "clip_gradient_norm", build->clip_gradient_norm);
  write_integer(writer, "accumulate", plan->accumulate);
  write_texts(writer, "freeze", build->freeze, build->freeze_count);
  write_texts(writer, "train", build->train, build->train_count);
  delta_json_write_bool(writer, "eager", build->eager);
  write_integer(writer, "parts", build->parts);
  write_integer(writer, "region_percent", build->region_percent);
  delta_json_end_object(writer);
}

// ---- States and programs

static void write_numerics(delta_json_writer_t *writer, const delta_plan_numerics_t *numerics) {
  delta_json_begin_object(writer, "numerics");
  delta_json_write_string(writer, "device", numerics->device);
  delta_json_write_int64(writer, "threads", numerics->threads);
  if (numerics->math == DELTA_FLOAT_MATH_TF32) delta_json_write_string(writer, "math", delta_float_math_names.names[numerics->math]);
  delta_json_write_string(writer, "instruction_set", numerics->instruction_set);
  delta_json_write_string(writer, "libraries", numerics->libraries);
  delta_json_write_string(writer, "id", numerics->id);
  delta_json_end_object(writer);
}

static void write_state(delta_json_writer_t *writer, const delta_plan_state_t *state) {
  delta_json_begin_inline_object(writer, NULL);
  delta_json_write_string(writer, "name", state->name);
  delta_json_write_string(writer, "kind", delta_state_kind_names.names[state->kind]);
  delta_json_write_string(writer, "dtype", delta_dtype_names.names[state->dtype]);
  delta_json_begin_inline_array(writer, "shape");
  for (int32_t d = 0; d < state->shape.rank; ++d) write_integer(writer, NULL, state->shape.dims[d]);
  delta_json_end_array(writer);
  write_bytes(writer, "offset_bytes", state->offset_bytes);
  write_bytes(writer, "size_bytes", state->size_bytes);
  if (state->is_below) write_bytes(writer, "home_offset_bytes", state->home_offset_bytes);
  delta_json_end_object(writer);
}

// One list a field: buffers are many, and alike.
static void write_buffers(delta_json_writer_t *writer, const delta_schedule_t *schedule) {
  delta_json_begin_object(writer, "buffers");
#define WRITE_COLUMN(field, write, value)                   \
  delta_json_begin_inline_array(writer, #field);            \
  for (uint32_t b = 0; b < schedule->buffer_count; ++b) {   \
    write(writer, NULL, value(schedule->buffers[b].field)); \
  }                                                         \
  delta_json_end_array(writer);
#define INDEX(value) ((value) == DELTA_PROBLEM_NONE ? -1 : (int64_t)(value))
  WRITE_COLUMN(tensor, delta_json_write_int64, INDEX)
  WRITE_COLUMN(size_bytes, write_bytes, )
  WRITE_COLUMN(offset_bytes, write_bytes, )
  WRITE_COLUMN(first_step, delta_json_write_int64, INDEX)
  WRITE_COLUMN(last_step, delta_json_write_int64, INDEX)
  WRITE_COLUMN(inplace_of, delta_json_write_int64, INDEX)
#undef WRITE_COLUMN
#undef INDEX
  delta_json_end_object(writer);
}

static void write_step(delta_json_writer_t *writer, const delta_schedule_step_t *step) {
  delta_json_begin_inline_object(writer, NULL);
  const char *kind = delta_step_kind_names.names[step->kind];
  if (step->kind == DELTA_STEP_RUN) {
    delta_json_write_int64(writer, kind, step->problem_step);
    write_indices(writer, "in", step->inputs, step->input_count);
    write_indices(writer, "out", step->outputs, step->output_count);
    if (step->workspace != DELTA_PROBLEM_NONE) delta_json_write_int64(writer, "workspace", step->workspace);
  } else {
    delta_json_write_int64(writer, kind, step->kind == DELTA_STEP_SWAP_OUT ? step->inputs[0] : step->outputs[0]);
    write_bytes(writer, "host_offset_bytes", step->host_offset_bytes);
  }
  if (step->wait_count > 0) write_indices(writer, "waits", step->waits, step->wait_count);
  write_real(writer, "start", step->start_seconds);
  write_real(writer, "end", step->end_seconds);
  delta_json_end_object(writer);
}

static void write_alternatives(delta_json_writer_t *writer, const delta_schedule_t *schedule) {
  delta_json_begin_array(writer, "alternatives");
  for (uint32_t a = 0; a < schedule->alternative_count; ++a) {
    delta_json_begin_inline_object(writer, NULL);
    delta_json_write_int64(writer, "before", schedule->alternatives[a].before);
    delta_json_write_int64(writer, "after", schedule->alternatives[a].after);
    write_real(writer, "rebuild_seconds", schedule->alternatives[a].rebuild_seconds);
    delta_json_end_object(writer);
  }
  delta_json_end_array(writer);
}

static void write_schedule(delta_json_writer_t *writer, const delta_schedule_t *schedule) {
  delta_json_begin_object(writer, "schedule");
#define WRITE_BYTES(field) write_bytes(writer, #field, schedule->field);
#define WRITE_COUNT(field) delta_json_write_int64(writer, #field, schedule->field);
#define WRITE_REAL(field)  write_real(writer, #field, schedule->field);
  DELTA_SCHEDULE_BYTES(WRITE_BYTES)
  DELTA_SCHEDULE_COUNTS(WRITE_COUNT)
  DELTA_SCHEDULE_REALS(WRITE_REAL)
#undef WRITE_BYTES
#undef WRITE_COUNT
#undef WRITE_REAL
  write_buffers(writer, schedule);
  delta_json_begin_array(writer, "steps");
  for (uint32_t s = 0; s < schedule->step_count; ++s) write_step(writer, &schedule->steps[s]);
  delta_json_end_array(writer);
  if (schedule->alternative_count > 0) write_alternatives(writer, schedule);
  delta_json_end_object(writer);
}

static void write_program(delta_json_writer_t *writer, const delta_plan_program_t *program) {
  delta_json_begin_object(writer, NULL);
  delta_json_write_string(writer, "kind", delta_program_names.names[program->kind]);
  write_integer(writer, "batch", program->batch);
  delta_json_write_string(writer, "graph_hash", program->graph_hash);
  delta_json_begin_inline_array(writer, "layouts");
  for (uint32_t r = 0; r < program->layout_count; ++r) delta_json_write_string(writer, NULL, delta_layout_names.names[program->layouts[r]]);
  delta_json_end_array(writer);
  delta_json_begin_inline_array(writer, "kernels");
  for (uint32_t k = 0; k < program->kernel_count; ++k) delta_json_write_string(writer, NULL, program->kernels[k]);
  delta_json_end_array(writer);
  write_schedule(writer, program->schedule);
  delta_json_end_object(writer);
}

static void write_totals(delta_json_writer_t *writer, const delta_plan_totals_t *totals) {
  delta_json_begin_object(writer, "totals");
  if (totals->host_budget_bytes != UINT64_MAX) write_bytes(writer, "host_budget_bytes", totals->host_budget_bytes);
  if (totals->budget_bytes == UINT64_MAX) {
    delta_json_write_null(writer, "budget_bytes");
  } else {
    write_bytes(writer, "budget_bytes", totals->budget_bytes);
  }
#define WRITE_BYTES(field) write_bytes(writer, #field, totals->field);
#define WRITE_REAL(field)  write_real(writer, #field, totals->field);
  DELTA_TOTALS_INTEGERS(WRITE_BYTES)
  DELTA_TOTALS_REALS(WRITE_REAL)
#undef WRITE_BYTES
#undef WRITE_REAL
  delta_json_begin_object(writer, "memory");
  for (uint32_t c = 0; c < delta_class_names.count; ++c) write_bytes(writer, delta_class_names.names[c], totals->memory_bytes[c]);
  delta_json_end_object(writer);
  delta_json_end_object(writer);
}

static void write_plan(delta_json_writer_t *writer, const delta_plan_t *plan) {
  delta_json_begin_object(writer, NULL);
  delta_json_write_string(writer, "format", DELTA_PLAN_FORMAT);
  delta_json_write_int64(writer, "version", DELTA_PLAN_VERSION);
  delta_json_begin_object(writer, "model");
  delta_json_write_string(writer, "file", plan->model_file);
  delta_json_write_string(writer, "sha256", plan->model_sha256);
  delta_json_end_object(writer);
  delta_json_write_string(writer, "policy", plan->policy);
  write_build(writer, plan);
  write_real(writer, "learning_rate", plan->learning_rate);
  delta_json_write_bool(writer, "init_random", plan->init_random);
  write_bytes(writer, "init_seed", plan->init_seed);
  write_numerics(writer, &plan->numerics);
  write_totals(writer, &plan->totals);
  delta_json_begin_array(writer, "states");
  for (uint32_t i = 0; i < plan->state_count; ++i) write_state(writer, &plan->states[i]);
  delta_json_end_array(writer);
  delta_json_begin_array(writer, "programs");
  for (uint32_t i = 0; i < plan->program_count; ++i) write_program(writer, &plan->programs[i]);
  delta_json_end_array(writer);
  delta_json_end_object(writer);
}

delta_status_t delta_plan_to_json(const delta_plan_t *plan, delta_text_t *out_text) {
  if (plan->levers != plan->build.import.levers) {
    return delta_status_make(INTERNAL, "plan: levers %x, but its graphs were built with %x", plan->levers, plan->build.import.levers);
  }
  delta_json_writer_t writer;
  delta_json_writer_init(&writer, out_text, false);
  write_plan(&writer, plan);
  delta_status_t status = delta_json_writer_finish(&writer);
  return status ? status : delta_text_append(out_text, "\n");
}
