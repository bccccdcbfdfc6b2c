// npy source: NAME=FILE.npy[:scale=S][:mean=A/B/C][:std=A/B/C],... has one file for every want. Names and paths hold no comma; names hold
// no '='.
#include <string.h>

#include "base/log.h"
#include "base/number.h"
#include "runtime/data/npy.h"
#include "runtime/data/source.h"

typedef struct npy_source {
  delta_allocator_t allocator;
  delta_npy_t *files; // Owned; one per want.
  size_t count;
} npy_source_t;

static void close_npy_source(void *self) {
  npy_source_t *source = self;
  if (!source) return;
  for (size_t i = 0; i < source->count; ++i) delta_npy_close(&source->files[i]);
  delta_release(source->allocator, source->files);
  delta_release(source->allocator, source);
}

// Parses "A/B/C" into the region.
static delta_status_t parse_numbers(const delta_data_request_t *request, const char *text, const double **out_values, size_t *out_count) {
  size_t count = 1;
  for (const char *at = text; *at; ++at) count += *at == '/';
  double *values;
  char *copy, *at;
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(request->region, count, &values));
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(request->region, text, strlen(text), &copy));
  at = copy;
  for (size_t i = 0; i < count; ++i) {
    char *end = at + strcspn(at, "/");
    *end = '\0';
    if (!delta_number_parse(at, &values[i])) return delta_status_make(INVALID_ARGUMENT, "'%s': wanted numbers separated by '/'", text);
    at = end + 1;
  }
  *out_values = values;
  *out_count = count;
  return DELTA_OK;
}

// Cuts "scale=S" off the end of FILE[:scale=S]... ; *out_option stays NULL when there is none left.
static void cut_last_option(char *file, char **out_option) {
  static const char *const options[] = {":scale=", ":mean=", ":std="};
  char *colon = strrchr(file, ':');
  *out_option = NULL;
  for (size_t i = 0; colon && i < sizeof options / sizeof options[0]; ++i) {
    if (strncmp(colon, options[i], strlen(options[i])) != 0) continue;
    *colon = '\0';
    *out_option = colon + 1;
    return;
  }
}

static delta_status_t parse_option(const delta_data_request_t *request, const char *option, delta_data_array_t *array) {
  const char *value = strchr(option, '=') + 1;
  const double *values = NULL;
  size_t count = 0;
  DELTA_RETURN_IF_ERROR(parse_numbers(request, value, &values, &count));
  if (*option == 'm') {
    array->mean = values;
    array->mean_count = count;
    return DELTA_OK;
  }
  if (strncmp(option, "std", 3) == 0) {
    for (size_t i = 0; i < count; ++i) {
      if (!(values[i] > 0)) return delta_status_make(INVALID_ARGUMENT, "'%s': wanted numbers above 0", option);
    }
    array->deviation = values;
    array->deviation_count = count;
    return DELTA_OK;
  }
  if (count != 1) return delta_status_make(INVALID_ARGUMENT, "'%s': wanted one number", option);
  array->scale = values[0];
  return DELTA_OK;
}

// Opens FILE[:scale=S][:mean=...][:std=...] for a want.
static delta_status_t open_file(const delta_data_request_t *request, const char *name, char *file, delta_npy_t *out_npy,
                                delta_data_array_t *out_array) {
  char *option = NULL, *place;
  *out_array = (delta_data_array_t){.scale = 1};
  for (cut_last_option(file, &option); option; cut_last_option(file, &option)) {
    DELTA_RETURN_IF_ERROR(parse_option(request, option, out_array));
    out_array->is_scaled = true;
  }
  const char *rest = strstr(file, ".npy:");
  if (rest) {
    return delta_status_make(INVALID_ARGUMENT, "'%s': unknown option '%s' behind the file; known are scale=S, mean=A/B/C and std=A/B/C",
                             file, rest + strlen(".npy:"));
  }
  DELTA_RETURN_IF_ERROR(delta_region_format(request->region, &place, "%s: array '%s'", file, name));
  DELTA_RETURN_IF_ERROR(delta_npy_open(file, request->allocator, out_npy));
  out_array->place = place;
  out_array->type = out_npy->header.type;
  out_array->shape = out_npy->header.shape;
  return DELTA_OK;
}

static size_t find_want(const delta_data_request_t *request, const char *name) {
  size_t want = 0;
  while (want < request->want_count && strcmp(request->wants[want].name, name) != 0) ++want;
  return want;
}

// Opens one NAME=FILE... of the list.
static delta_status_t open_item(const delta_data_request_t *request, npy_source_t *source, char *item, delta_data_array_t *out_arrays) {
  char *equals = strchr(item, '=');
  if (!equals || equals == item || equals[1] == '\0') return delta_status_make(INVALID_ARGUMENT, "'%s': wanted NAME=FILE.npy", item);
  *equals = '\0';
  size_t want = find_want(request, item);
  if (want == request->want_count) {
    delta_log(request->log, DELTA_LOG_NOTE, "%s: the model does not use array '%s'", equals + 1, item);
    return DELTA_OK;
  }
  if (source->files[want].file.descriptor >= 0) return delta_status_make(INVALID_ARGUMENT, "array '%s' is given twice", item);
  return delta_status_annotate(open_file(request, item, equals + 1, &source->files[want], &out_arrays[want]), "array '%s'", item);
}

static delta_status_t open_items(const delta_data_request_t *request, npy_source_t *source, delta_data_array_t *out_arrays) {
  char *list;
  DELTA_RETURN_IF_ERROR(delta_region_copy_string(request->region, request->spec, strlen(request->spec), &list));
  while (list) {
    char *comma = strchr(list, ',');
    if (comma) *comma = '\0';
    DELTA_RETURN_IF_ERROR(open_item(request, source, list, out_arrays));
    list = comma ? comma + 1 : NULL;
  }
  for (size_t want = 0; want < request->want_count; ++want) {
    if (source->files[want].file.descriptor >= 0) continue;
    char shape[DELTA_SHAPE_TEXT_BYTES];
    return delta_status_make(NOT_FOUND, "'%s': no array '%s' (the model wants it as %s %s); add %s=FILE.npy", request->spec,
                             request->wants[want].name, delta_dtype_name(request->wants[want].dtype),
                             delta_data_want_text(&request->wants[want], shape), request->wants[want].name);
  }
  return DELTA_OK;
}

static delta_status_t open_npy_source(const delta_data_request_t *request, delta_data_array_t *out_arrays, void **out_self) {
  delta_status_t status = DELTA_OK;
  npy_source_t *source = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(request->allocator, 1, &source));
  source->allocator = request->allocator;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(request->allocator, request->want_count, &source->files), cleanup);
  source->count = request->want_count;
  for (size_t i = 0; i < source->count; ++i) source->files[i].file.descriptor = -1;
  DELTA_GOTO_IF_ERROR(status, open_items(request, source, out_arrays), cleanup);
  *out_self = source;
  return DELTA_OK;
cleanup:
  close_npy_source(source);
  return status;
}

static delta_status_t read_npy_source(void *self, size_t want, uint64_t first, size_t count, void *out_elements) {
  npy_source_t *source = self;
  return delta_npy_read_elements(&source->files[want].file, 0, &source->files[want].header, first, count, out_elements);
}

const delta_data_format_t delta_data_npy = {.prefix = "", .open = open_npy_source, .read = read_npy_source, .close = close_npy_source};
