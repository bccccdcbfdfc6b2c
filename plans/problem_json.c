// Problem from and to JSON. Tensors and nodes name each other; names are looked up in a map, so that large files take linear time.
#include "plans/problem_json.h"

#include <math.h>
#include <string.h>

#include "base/checked.h"
#include "base/json.h"
#include "base/map.h"

static const int64_t LARGEST_INTEGER = INT64_C(1) << 52;

typedef struct problem_reader {
  const delta_json_document_t *document;
  const char *name; // of the text
  delta_problem_t *problem;
  delta_map_t tensors; // index by name
} problem_reader_t;

// ---- Fields

static delta_status_t read_optional_bool(const problem_reader_t *reader, const delta_json_value_t *object, const char *key,
                                         bool *inout_value) {
  return delta_json_find(object, key) ? delta_json_get_bool(reader->document, object, key, inout_value) : DELTA_OK;
}

static delta_status_t read_bytes(const problem_reader_t *reader, const delta_json_value_t *object, const char *key, bool is_optional,
                                 uint64_t *inout_bytes) {
  int64_t value = 0;
  if (is_optional && !delta_json_find(object, key)) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_json_get_int64(reader->document, object, key, 0, LARGEST_INTEGER, &value));
  *inout_bytes = (uint64_t)value;
  return DELTA_OK;
}

static delta_status_t read_number(const problem_reader_t *reader, const delta_json_value_t *object, const char *key, const char *wanted,
                                  double *inout_number) {
  if (!delta_json_find(object, key)) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_json_get_double(reader->document, object, key, inout_number));
  if (isfinite(*inout_number) && *inout_number >= 0) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s: %s: %g is no %s, or 0 for none", reader->name, key, *inout_number, wanted);
}

static delta_status_t copy_name(const problem_reader_t *reader, const delta_json_value_t *object, const char **out_name) {
  const char *text = NULL;
  char *copy = NULL;
  DELTA_RETURN_IF_ERROR(delta_json_get_string(reader->document, object, "name", &text));
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(&reader->problem->region, text, strlen(text), &copy));
  *out_name = copy;
  return DELTA_OK;
}

static delta_status_t find_tensor(const problem_reader_t *reader, const char *user, const char *tensor_name, uint32_t *out_tensor) {
  *out_tensor = delta_map_find(&reader->tensors, tensor_name);
  if (*out_tensor != DELTA_MAP_NONE) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s: '%s' names tensor '%s', which is not among the tensors", reader->name, user, tensor_name);
}

// ---- Tensors

typedef struct flag_row {
  const char *key;
  uint32_t flags;
} flag_row_t;
static const flag_row_t flag_rows[] = {{"initial", DELTA_TENSOR_INPUT},
                                       {"pinned", DELTA_TENSOR_PINNED | DELTA_TENSOR_OUTPUT},
                                       {"output", DELTA_TENSOR_OUTPUT},
                                       {"state", DELTA_TENSOR_STATE},
                                       {"below", DELTA_TENSOR_STATE | DELTA_TENSOR_BELOW}};
enum { FLAG_ROW_COUNT = sizeof flag_rows / sizeof *flag_rows };

static delta_status_t read_tensor(problem_reader_t *reader, const delta_json_value_t *value, uint32_t index) {
  delta_problem_tensor_t *tensor = &reader->problem->tensors[index];
  uint64_t bytes = 0;
  *tensor = (delta_problem_tensor_t){.kind = DELTA_CLASS_OTHER, .becomes_state = DELTA_PROBLEM_NONE};
  DELTA_RETURN_IF_ERROR(copy_name(reader, value, &tensor->name));
  DELTA_RETURN_IF_ERROR(read_bytes(reader, value, "bytes", false, &bytes));
  tensor->size_bytes = (size_t)bytes;
  for (size_t i = 0; i < FLAG_ROW_COUNT; ++i) {
    bool is_set = false;
    DELTA_RETURN_IF_ERROR(read_optional_bool(reader, value, flag_rows[i].key, &is_set));
    if (is_set) tensor->flags |= flag_rows[i].flags;
  }
  if (delta_map_find(&reader->tensors, tensor->name) != DELTA_MAP_NONE) {
    return delta_status_make(MALFORMED, "%s: two tensors are named '%s'", reader->name, tensor->name);
  }
  return delta_map_set(&reader->tensors, tensor->name, index);
}

static delta_status_t read_becomes(const problem_reader_t *reader, const delta_json_value_t *value, delta_problem_tensor_t *tensor) {
  const char *state = NULL;
  if (!delta_json_find(value, "becomes")) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_json_get_string(reader->document, value, "becomes", &state));
  return find_tensor(reader, tensor->name, state, &tensor->becomes_state);
}

// States below get their slots one behind another; what becomes of a state lives where it does.
static delta_status_t give_homes(delta_problem_t *problem) {
  size_t home_bytes = 0;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    delta_problem_tensor_t *tensor = &problem->tensors[t];
    if (!(tensor->flags & DELTA_TENSOR_BELOW)) continue;
    tensor->home_offset_bytes = home_bytes;
    if (!delta_size_add(home_bytes, tensor->size_bytes, &home_bytes))
      return delta_status_make(MALFORMED, "state '%s' lies beyond all bytes that can be counted: %zu more", tensor->name,
                               tensor->size_bytes);
  }
  problem->home_bytes = home_bytes;
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const uint32_t state = problem->tensors[t].becomes_state;
    if (state != DELTA_PROBLEM_NONE) problem->tensors[t].flags |= problem->tensors[state].flags & DELTA_TENSOR_BELOW;
  }
  return DELTA_OK;
}

static delta_status_t read_tensors(problem_reader_t *reader, const delta_json_value_t *root) {
  const delta_json_value_t *array = NULL;
  size_t count = 0;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(reader->document, root, "tensors", &array, &count));
  if (count >= DELTA_PROBLEM_NONE) return delta_status_make(UNSUPPORTED, "%s: %zu tensors are more than 2^32", reader->name, count);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&reader->problem->region, count, &reader->problem->tensors));
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value)) {
    DELTA_RETURN_IF_ERROR(read_tensor(reader, value, reader->problem->tensor_count));
    ++reader->problem->tensor_count;
  }
  uint32_t index = 0;
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value)) {
    DELTA_RETURN_IF_ERROR(read_becomes(reader, value, &reader->problem->tensors[index++]));
  }
  return give_homes(reader->problem);
}

// ---- Nodes

typedef struct kind_row {
  const char *name;
  uint32_t flag;
} kind_row_t;
static const kind_row_t kind_rows[] = {{"convolution", DELTA_STEP_CONVOLUTION}, {"product", DELTA_STEP_PRODUCT}};
enum { KIND_ROW_COUNT = sizeof kind_rows / sizeof *kind_rows };

static delta_status_t read_kind(const problem_reader_t *reader, const delta_json_value_t *value, uint32_t *inout_flags) {
  const char *kind = NULL;
  if (!delta_json_find(value, "kind")) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_json_get_string(reader->document, value, "kind", &kind));
  for (size_t i = 0; i < KIND_ROW_COUNT; ++i) {
    if (strcmp(kind, kind_rows[i].name) == 0) *inout_flags |= kind_rows[i].flag;
  }
  return DELTA_OK; // other kinds mean nothing to a planner
}

static delta_status_t read_list(const problem_reader_t *reader, const delta_json_value_t *value, const char *key, const char *user,
                                uint32_t **out_items, uint32_t *out_count) {
  const delta_json_value_t *array = NULL;
  size_t count = 0;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(reader->document, value, key, &array, &count));
  if (count >= DELTA_PROBLEM_NONE) return delta_status_make(UNSUPPORTED, "%s: node '%s' has more than 2^32 %s", reader->name, user, key);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&reader->problem->region, count, out_items));
  for (const delta_json_value_t *item = delta_json_first(array); item; item = delta_json_next(item)) {
    const char *tensor = NULL;
    DELTA_RETURN_IF_ERROR(delta_json_as_string(reader->document, item, key, &tensor));
    DELTA_RETURN_IF_ERROR(find_tensor(reader, user, tensor, &(*out_items)[(*out_count)++]));
  }
  return DELTA_OK;
}

static delta_status_t read_pair(const problem_reader_t *reader, const delta_json_value_t *value, const char *user,
                                delta_inplace_pair_t *out_pair) {
  uint32_t *const members[] = {&out_pair->input, &out_pair->output};
  const delta_json_value_t *item = delta_json_first(value);
  for (int i = 0; i < 2; ++i, item = item ? delta_json_next(item) : NULL) {
    const char *tensor = NULL;
    if (!item)
      return delta_status_make(MALFORMED, "%s: node '%s': 'inplace' has pairs of an input's and an output's name", reader->name, user);
    DELTA_RETURN_IF_ERROR(delta_json_as_string(reader->document, item, "inplace", &tensor));
    DELTA_RETURN_IF_ERROR(find_tensor(reader, user, tensor, members[i]));
  }
  if (!item) return DELTA_OK;
  return delta_status_make(MALFORMED, "%s: node '%s': 'inplace' has pairs of an input's and an output's name", reader->name, user);
}

static delta_status_t read_pairs(const problem_reader_t *reader, const delta_json_value_t *value, delta_problem_step_t *step) {
  const delta_json_value_t *array = NULL;
  size_t count = 0;
  if (!delta_json_find(value, "inplace")) return DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(reader->document, value, "inplace", &array, &count));
  if (count >= DELTA_PROBLEM_NONE)
    return delta_status_make(UNSUPPORTED, "%s: node '%s' has more than 2^32 pairs", reader->name, step->name);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&reader->problem->region, count, &step->inplace));
  for (const delta_json_value_t *item = delta_json_first(array); item; item = delta_json_next(item)) {
    DELTA_RETURN_IF_ERROR(read_pair(reader, item, step->name, &step->inplace[step->inplace_count++]));
  }
  return DELTA_OK;
}

static delta_status_t read_node(const problem_reader_t *reader, const delta_json_value_t *value, delta_problem_step_t *step) {
  uint64_t workspace_bytes = 0;
  bool is_pure = true, is_update = false, in_row = false;
  *step = (delta_problem_step_t){.node = DELTA_PROBLEM_NONE};
  DELTA_RETURN_IF_ERROR(copy_name(reader, value, &step->name));
  DELTA_RETURN_IF_ERROR(delta_json_get_double(reader->document, value, "compute_s", &step->seconds));
  DELTA_RETURN_IF_ERROR(read_bytes(reader, value, "workspace_bytes", true, &workspace_bytes));
  DELTA_RETURN_IF_ERROR(read_optional_bool(reader, value, "pure", &is_pure));
  DELTA_RETURN_IF_ERROR(read_optional_bool(reader, value, "in_row", &in_row));
  step->workspace_bytes = (size_t)workspace_bytes;
  DELTA_RETURN_IF_ERROR(read_list(reader, value, "inputs", step->name, &step->inputs, &step->input_count));
  DELTA_RETURN_IF_ERROR(read_list(reader, value, "outputs", step->name, &step->outputs, &step->output_count));
  for (uint32_t k = 0; k < step->output_count; ++k) {
    is_update |= reader->problem->tensors[step->outputs[k]].becomes_state != DELTA_PROBLEM_NONE;
  }
  step->flags = (is_pure && !is_update ? DELTA_STEP_PURE : 0) | (is_update ? DELTA_STEP_UPDATE : 0) | (in_row ? DELTA_STEP_IN_ROW : 0);
  DELTA_RETURN_IF_ERROR(read_kind(reader, value, &step->flags));
  return read_pairs(reader, value, step);
}

static delta_status_t read_nodes(problem_reader_t *reader, const delta_json_value_t *root) {
  const delta_json_value_t *array = NULL;
  size_t count = 0;
  DELTA_RETURN_IF_ERROR(delta_json_get_array(reader->document, root, "nodes", &array, &count));
  if (count >= DELTA_PROBLEM_NONE) return delta_status_make(UNSUPPORTED, "%s: %zu nodes are more than 2^32", reader->name, count);
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(&reader->problem->region, count, &reader->problem->steps));
  for (const delta_json_value_t *value = delta_json_first(array); value; value = delta_json_next(value)) {
    DELTA_RETURN_IF_ERROR(read_node(reader, value, &reader->problem->steps[reader->problem->step_count]));
    ++reader->problem->step_count;
  }
  return DELTA_OK;
}

static delta_status_t read_problem(problem_reader_t *reader) {
  const delta_json_value_t *root = delta_json_root(reader->document);
  delta_problem_t *problem = reader->problem;
  DELTA_RETURN_IF_ERROR(read_bytes(reader, root, "budget_bytes", true, &problem->budget_bytes));
  DELTA_RETURN_IF_ERROR(read_bytes(reader, root, "host_budget_bytes", true, &problem->host_budget_bytes));
  static const char *const rate = "bandwidth: a number of bytes per second", *const start = "time: a number of seconds",
                           *const drag = "part of compute's speed";
  DELTA_RETURN_IF_ERROR(read_number(reader, root, "d2h_bytes_per_s", rate, &problem->offload_bytes_per_second));
  DELTA_RETURN_IF_ERROR(read_number(reader, root, "h2d_bytes_per_s", rate, &problem->prefetch_bytes_per_second));
  DELTA_RETURN_IF_ERROR(read_number(reader, root, "shared_bytes_per_s", rate, &problem->shared_bytes_per_second));
  DELTA_RETURN_IF_ERROR(read_number(reader, root, "d2h_start_s", start, &problem->offload_start_seconds));
  DELTA_RETURN_IF_ERROR(read_number(reader, root, "h2d_start_s", start, &problem->prefetch_start_seconds));
  DELTA_RETURN_IF_ERROR(read_number(reader, root, "d2h_start_drag", drag, &problem->offload_start_drag));
  DELTA_RETURN_IF_ERROR(read_number(reader, root, "h2d_start_drag", drag, &problem->prefetch_start_drag));
  DELTA_RETURN_IF_ERROR(read_number(reader, root, "d2h_drag", drag, &problem->offload_drag));
  DELTA_RETURN_IF_ERROR(read_number(reader, root, "h2d_drag", drag, &problem->prefetch_drag));
  DELTA_RETURN_IF_ERROR(read_tensors(reader, root));
  DELTA_RETURN_IF_ERROR(read_nodes(reader, root));
  return delta_status_annotate(delta_problem_check(problem), "%s", reader->name);
}

delta_status_t delta_problem_from_json(const char *text, size_t size_bytes, const char *name, delta_allocator_t allocator,
                                       delta_problem_t **out_problem) {
  delta_json_document_t *document = NULL;
  problem_reader_t reader = {.name = name};
  delta_status_t status = DELTA_OK;
  delta_map_init(&reader.tensors, allocator);
  DELTA_GOTO_IF_ERROR(status, delta_json_parse(text, size_bytes, name, allocator, &document), cleanup);
  reader.document = document;
  DELTA_GOTO_IF_ERROR(status, delta_problem_create(allocator, &reader.problem), cleanup);
  DELTA_GOTO_IF_ERROR(status, read_problem(&reader), cleanup);
  *out_problem = reader.problem;
  reader.problem = NULL;
cleanup:
  delta_problem_free(reader.problem);
  delta_map_deinit(&reader.tensors);
  delta_json_free(document);
  return status;
}

// ---- Writing

// Tensors with one name get numbers behind it: in the file a name is all that they have.
static delta_status_t list_names(const delta_problem_t *problem, delta_region_t *region, delta_map_t *seen, const char ***out_names) {
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, problem->tensor_count, out_names));
  for (uint32_t t = 0; t < problem->tensor_count; ++t) {
    const char *name = problem->tensors[t].name;
    for (uint32_t number = t; delta_map_find(seen, name) != DELTA_MAP_NONE; ++number) {
      char *numbered = NULL;
      DELTA_RETURN_IF_ERROR(delta_region_format(region, &numbered, "%s#%u", problem->tensors[t].name, number));
      name = numbered;
    }
    DELTA_RETURN_IF_ERROR(delta_map_set(seen, name, t));
    (*out_names)[t] = name;
  }
  return DELTA_OK;
}

static void write_tensor(delta_json_writer_t *writer, const delta_problem_t *problem, const char *const *names, uint32_t t) {
  const delta_problem_tensor_t *tensor = &problem->tensors[t];
  delta_json_begin_inline_object(writer, NULL);
  delta_json_write_string(writer, "name", names[t]);
  delta_json_write_int64(writer, "bytes", (int64_t)tensor->size_bytes);
  for (size_t i = 0; i < FLAG_ROW_COUNT; ++i) {
    if ((tensor->flags & flag_rows[i].flags) == flag_rows[i].flags) delta_json_write_bool(writer, flag_rows[i].key, true);
  }
  if (tensor->becomes_state != DELTA_PROBLEM_NONE) delta_json_write_string(writer, "becomes", names[tensor->becomes_state]);
  delta_json_end_object(writer);
}

static void write_list(delta_json_writer_t *writer, const char *const *names, const char *key, const uint32_t *items, uint32_t count) {
  delta_json_begin_inline_array(writer, key);
  for (uint32_t k = 0; k < count; ++k) delta_json_write_string(writer, NULL, names[items[k]]);
  delta_json_end_array(writer);
}

static void write_node(delta_json_writer_t *writer, const char *const *names, const delta_problem_step_t *step) {
  delta_json_begin_inline_object(writer, NULL);
  delta_json_write_string(writer, "name", step->name);
  delta_json_write_double(writer, "compute_s", step->seconds);
  if (step->workspace_bytes > 0) delta_json_write_int64(writer, "workspace_bytes", (int64_t)step->workspace_bytes);
  if (!(step->flags & (DELTA_STEP_PURE | DELTA_STEP_UPDATE))) delta_json_write_bool(writer, "pure", false);
  if (step->flags & DELTA_STEP_IN_ROW) delta_json_write_bool(writer, "in_row", true);
  for (size_t i = 0; i < KIND_ROW_COUNT; ++i) {
    if (step->flags & kind_rows[i].flag) delta_json_write_string(writer, "kind", kind_rows[i].name);
  }
  write_list(writer, names, "inputs", step->inputs, step->input_count);
  write_list(writer, names, "outputs", step->outputs, step->output_count);
  if (step->inplace_count > 0) delta_json_begin_inline_array(writer, "inplace");
  for (uint32_t k = 0; k < step->inplace_count; ++k) {
    const uint32_t pair[] = {step->inplace[k].input, step->inplace[k].output};
    write_list(writer, names, NULL, pair, 2);
  }
  if (step->inplace_count > 0) delta_json_end_array(writer);
  delta_json_end_object(writer);
}

static delta_status_t write_problem(const delta_problem_t *problem, const char *const *names, delta_text_t *out_text) {
  delta_json_writer_t writer;
  delta_json_writer_init(&writer, out_text, false);
  delta_json_begin_object(&writer, NULL);
  if (problem->budget_bytes != UINT64_MAX) delta_json_write_int64(&writer, "budget_bytes", (int64_t)problem->budget_bytes);
  if (problem->host_budget_bytes != UINT64_MAX) delta_json_write_int64(&writer, "host_budget_bytes", (int64_t)problem->host_budget_bytes);
  delta_json_write_double(&writer, "d2h_bytes_per_s", problem->offload_bytes_per_second);
  delta_json_write_double(&writer, "h2d_bytes_per_s", problem->prefetch_bytes_per_second);
  if (problem->shared_bytes_per_second > 0) delta_json_write_double(&writer, "shared_bytes_per_s", problem->shared_bytes_per_second);
  if (problem->offload_start_seconds > 0) delta_json_write_double(&writer, "d2h_start_s", problem->offload_start_seconds);
  if (problem->prefetch_start_seconds > 0) delta_json_write_double(&writer, "h2d_start_s", problem->prefetch_start_seconds);
  if (problem->offload_start_drag > 0) delta_json_write_double(&writer, "d2h_start_drag", problem->offload_start_drag);
  if (problem->prefetch_start_drag > 0) delta_json_write_double(&writer, "h2d_start_drag", problem->prefetch_start_drag);
  if (problem->offload_drag > 0) delta_json_write_double(&writer, "d2h_drag", problem->offload_drag);
  if (problem->prefetch_drag > 0) delta_json_write_double(&writer, "h2d_drag", problem->prefetch_drag);
  delta_json_begin_array(&writer, "tensors");
  for (uint32_t t = 0; t < problem->tensor_count; ++t) write_tensor(&writer, problem, names, t);
  delta_json_end_array(&writer);
  delta_json_begin_array(&writer, "nodes");
  for (uint32_t s = 0; s < problem->step_count; ++s) write_node(&writer, names, &problem->steps[s]);
  delta_json_end_array(&writer);
  delta_json_end_object(&writer);
  DELTA_RETURN_IF_ERROR(delta_json_writer_finish(&writer));
  return delta_text_append(out_text, "\n");
}

delta_status_t delta_problem_to_json(const delta_problem_t *problem, delta_text_t *out_text) {
  const char **names = NULL;
  delta_map_t seen;
  delta_region_t region;
  delta_map_init(&seen, problem->allocator);
  delta_region_init(&region, problem->allocator);
  delta_status_t status = list_names(problem, &region, &seen, &names);
  if (!status) status = write_problem(problem, names, out_text);
  delta_map_deinit(&seen);
  delta_region_deinit(&region);
  return status;
}
