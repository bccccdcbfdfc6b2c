// Dataset: picks the format of a SPEC, checks what it offers against what is wanted, and turns elements of the file into elements of the
// graph.
#include "runtime/data/dataset.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "base/text.h"
#include "runtime/data/source.h"

enum {
  STAGING_BYTES = 64 << 10, // file elements on their way to another type
  CHUNK_ELEMENTS = 512,     // converted at a time, on the stack
};

struct delta_dataset {
  delta_allocator_t allocator;
  delta_region_t region; // wants, arrays, and what sources put there
  const delta_data_format_t *format;
  void *source; // Owned; NULL until open.
  delta_feed_want_t *wants;
  delta_data_array_t *arrays;
  size_t want_count;
  int64_t samples;
  void *staging; // Owned; STAGING_BYTES.
};

// Whether the SPEC begins with "NAME=": an '=' before any '/'. ("./a=b.npz" is a path.)
static bool begins_with_name(const char *spec) {
  const char *equals = strchr(spec, '='), *slash = strchr(spec, '/');
  return equals && (!slash || equals < slash);
}

// A SPEC of no format, with what was probably meant.
static delta_status_t unknown_format(const char *spec) {
  static const struct {
    const char *suffix, *hint;
  } hints[] = {
      {".csv", "; for a CSV file give csv:FILE"},
      {".idx", "; for IDX files give idx:IMAGES,LABELS"},
      {"ubyte", "; for IDX files give idx:IMAGES,LABELS"},
      {".npy", "; say which input an npy file is for, as in x=FILE.npy,label=LABELS.npy"},
  };
  const char *hint = "";
  for (size_t i = 0; i < sizeof hints / sizeof hints[0]; ++i) {
    if (delta_text_ends_with(spec, hints[i].suffix)) hint = hints[i].hint;
  }
  return delta_status_make(INVALID_ARGUMENT,
                           "'%s': wanted FILE.npz, NAME=FILE.npy[:scale=S][:mean=A/B/C][:std=A/B/C],..., idx:IMAGES,LABELS, "
                           "csv:FILE[:label=COLUMN] or synthetic[:samples=N]%s",
                           spec, hint);
}

static delta_status_t find_format(const char *spec, const delta_data_format_t **out_format, const char **out_rest) {
  static const delta_data_format_t *const prefixed[] = {&delta_data_idx, &delta_data_csv, &delta_data_synthetic};
  for (size_t i = 0; i < sizeof prefixed / sizeof prefixed[0]; ++i) {
    size_t length = strlen(prefixed[i]->prefix);
    if (strncmp(spec, prefixed[i]->prefix, length) != 0) continue;
    *out_format = prefixed[i];
    *out_rest = spec + length;
    return DELTA_OK;
  }
  *out_rest = spec;
  const char *options = strstr(spec, ".npz:"), *equals = strchr(spec, '=');
  if (options && (!equals || equals > options)) {
    return delta_status_make(INVALID_ARGUMENT, "'%s': an npz file takes no options, there is '%s'; scale an array as NAME=FILE.npy:scale=S",
                             spec, options + strlen(".npz:"));
  }
  *out_format = delta_text_ends_with(spec, ".npz") && !begins_with_name(spec) ? &delta_data_npz : equals ? &delta_data_npy : NULL;
  return *out_format ? DELTA_OK : unknown_format(spec);
}

size_t delta_data_find_label(const delta_data_request_t *request) {
  size_t want = 0;
  while (want < request->want_count && strcmp(request->wants[want].name, "label") != 0) ++want;
  return want;
}

delta_status_t delta_data_find_only_input(const delta_data_request_t *request, const char *format, size_t *out_want) {
  size_t label = delta_data_find_label(request), inputs = 0;
  for (size_t want = 0; want < request->want_count; ++want) {
    if (want == label) continue;
    *out_want = want;
    ++inputs;
  }
  if (inputs == 1) return DELTA_OK;
  return delta_status_make(INVALID_ARGUMENT, "%s data have one input, but the model has %zu; give an npz file with an array for each",
                           format, inputs);
}

const char *delta_data_want_text(const delta_feed_want_t *want, char buffer[DELTA_SHAPE_TEXT_BYTES]) {
  const delta_shape_t *shape = &want->shape;
  size_t used = (size_t)snprintf(buffer, DELTA_SHAPE_TEXT_BYTES, "[batch");
  for (int32_t i = 1; i < shape->rank; ++i)
    used += (size_t)snprintf(buffer + used, DELTA_SHAPE_TEXT_BYTES - used, ", %" PRId64, shape->dims[i]);
  snprintf(buffer + used, DELTA_SHAPE_TEXT_BYTES - used, "]");
  return buffer;
}

static delta_status_t copy_wants(delta_dataset_t *dataset, const delta_feed_want_t *wants, size_t want_count) {
  delta_region_t *region = &dataset->region;
  dataset->want_count = want_count;
  DELTA_RETURN_IF_ERROR(delta_region_copy(region, wants, want_count, sizeof *wants, (void **)&dataset->wants));
  DELTA_RETURN_IF_ERROR(DELTA_REGION_ALLOCATE(region, want_count, &dataset->arrays));
  for (size_t i = 0; i < want_count; ++i) {
    char *name;
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(region, wants[i].name, strlen(wants[i].name), &name));
    dataset->wants[i].name = name;
    if (wants[i].shape.rank < 1) return delta_status_make(INVALID_ARGUMENT, "input '%s' is a scalar; data need a batch dimension", name);
  }
  return DELTA_OK;
}

static bool same_sample_shape(const delta_shape_t *a, const delta_shape_t *b) {
  if (a->rank != b->rank) return false;
  for (int32_t i = 1; i < a->rank; ++i) {
    if (a->dims[i] != b->dims[i]) return false;
  }
  return true;
}

static delta_status_t check_scaling(const delta_data_array_t *array, const delta_feed_want_t *want) {
  if (!array->is_scaled) return DELTA_OK;
  if (!delta_dtype_is_float(want->dtype)) {
    return delta_status_make(INVALID_ARGUMENT, "%s: scale, mean and std need a float input; the model wants %s", array->place,
                             delta_dtype_name(want->dtype));
  }
  int64_t channels = want->shape.rank > 1 ? want->shape.dims[1] : 1;
  const size_t counts[] = {array->mean_count, array->deviation_count};
  for (size_t i = 0; i < 2; ++i) {
    if (counts[i] <= 1 || (int64_t)counts[i] == channels) continue;
    return delta_status_make(INVALID_ARGUMENT, "%s: %zu values of %s for %" PRId64 " channels (dimension 1)", array->place, counts[i],
                             i == 0 ? "mean" : "std", channels);
  }
  return DELTA_OK;
}

static delta_status_t check_array(const delta_data_array_t *array, const delta_feed_want_t *want) {
  char has[DELTA_SHAPE_TEXT_BYTES], wanted[DELTA_SHAPE_TEXT_BYTES];
  if (!same_sample_shape(&array->shape, &want->shape)) {
    const char *advice = want->has_ignore ? "give class numbers, not one-hot rows; if the classes are on another axis of the output, plan "
                                            "with --class-axis"
                                          : "reshape the array";
    return delta_status_make(MISMATCH, "%s has shape %s, the model wants %s; %s", array->place, delta_shape_text(&array->shape, has),
                             delta_data_want_text(want, wanted), advice);
  }
  if (!delta_file_dtype_converts(array->type, want->dtype)) {
    return delta_status_make(MISMATCH, "%s is %s, the model wants %s; convert the array", array->place, delta_file_dtype_name(array->type),
                             delta_dtype_name(want->dtype));
  }
  // Positions in the array must be countable in elements of either type.
  int64_t count = array->shape.dims[0], bytes;
  for (int32_t i = 1; i < array->shape.rank; ++i) {
    if (!delta_int64_mul(count, array->shape.dims[i], &count)) return delta_status_make(MISMATCH, "%s is too large", array->place);
  }
  if (!delta_int64_mul(count, (int64_t)sizeof(double), &bytes)) return delta_status_make(MISMATCH, "%s is too large", array->place);
  return check_scaling(array, want);
}

static delta_status_t check_arrays(delta_dataset_t *dataset) {
  for (size_t i = 0; i < dataset->want_count; ++i) {
    const delta_data_array_t *array = &dataset->arrays[i], *first = &dataset->arrays[0];
    DELTA_RETURN_IF_ERROR(check_array(array, &dataset->wants[i]));
    if (array->shape.dims[0] == first->shape.dims[0]) continue;
    return delta_status_make(MISMATCH, "%s has %" PRId64 " samples, but %s has %" PRId64 "; all arrays need the same number", array->place,
                             array->shape.dims[0], first->place, first->shape.dims[0]);
  }
  dataset->samples = dataset->arrays[0].shape.dims[0];
  if (dataset->samples < 1) return delta_status_make(MISMATCH, "%s has no samples", dataset->arrays[0].place);
  return DELTA_OK;
}

delta_status_t delta_dataset_open(const char *spec, const delta_feed_want_t *wants, size_t want_count, uint64_t seed, delta_log_sink_t log,
                                  delta_allocator_t allocator, delta_dataset_t **out_dataset) {
  delta_status_t status = DELTA_OK;
  delta_dataset_t *dataset = NULL;
  const delta_data_format_t *format;
  const char *rest;
  *out_dataset = NULL;
  if (want_count == 0) return delta_status_make(INVALID_ARGUMENT, "'%s': the model has no inputs", spec);
  DELTA_RETURN_IF_ERROR(find_format(spec, &format, &rest));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, 1, &dataset));
  dataset->allocator = allocator;
  delta_region_init(&dataset->region, allocator);
  DELTA_GOTO_IF_ERROR(status, copy_wants(dataset, wants, want_count), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_allocate(allocator, STAGING_BYTES, 1, &dataset->staging), cleanup);
  delta_data_request_t request = {.spec = rest,
                                  .wants = dataset->wants,
                                  .want_count = want_count,
                                  .seed = seed,
                                  .log = log,
                                  .allocator = allocator,
                                  .region = &dataset->region};
  assert(format);
  DELTA_GOTO_IF_ERROR(status, format->open(&request, dataset->arrays, &dataset->source), cleanup);
  dataset->format = format;
  DELTA_GOTO_IF_ERROR(status, check_arrays(dataset), cleanup);
  for (size_t want = 0; want < want_count && format->prepare; ++want) {
    DELTA_GOTO_IF_ERROR(status, format->prepare(dataset->source, want), cleanup);
  }
  *out_dataset = dataset;
  return DELTA_OK;
cleanup:
  delta_dataset_close(dataset);
  return status;
}

void delta_dataset_close(delta_dataset_t *dataset) {
  if (!dataset) return;
  if (dataset->format) dataset->format->close(dataset->source);
  delta_allocator_t allocator = dataset->allocator;
  delta_release(allocator, dataset->staging);
  delta_region_deinit(&dataset->region);
  delta_release(allocator, dataset);
}

int64_t delta_dataset_samples(const delta_dataset_t *dataset) { return dataset->samples; }

// A contiguous piece of one array on its way into a buffer.
typedef struct dataset_piece {
  const delta_feed_want_t *want;
  const delta_data_array_t *array;
  int64_t sample_elements;
  uint64_t first; // element of the array
  void *buffer;
  size_t buffer_first; // element of the buffer
} dataset_piece_t;

static int64_t sample_of(const dataset_piece_t *piece, size_t offset) {
  return piece->sample_elements == 0 ? 0 : (int64_t)((piece->first + offset) / (uint64_t)piece->sample_elements);
}

static void scale_doubles(const dataset_piece_t *piece, size_t offset, double *values, size_t count) {
  const delta_data_array_t *array = piece->array;
  const delta_shape_t *shape = &piece->want->shape;
  bool by_channel = array->mean_count > 1 || array->deviation_count > 1;
  int64_t channel_elements = shape->rank > 2 ? delta_shape_count_range(shape, 2, shape->rank) : 1;
  for (size_t i = 0; i < count; ++i) {
    size_t channel = by_channel ? (size_t)((piece->first + offset + i) % (uint64_t)piece->sample_elements) / (size_t)channel_elements : 0;
    double mean = array->mean_count == 0 ? 0 : array->mean[array->mean_count == 1 ? 0 : channel];
    double deviation = array->deviation_count == 0 ? 1 : array->deviation[array->deviation_count == 1 ? 0 : channel];
    values[i] = (values[i] * array->scale - mean) / deviation;
  }
}

static void convert_floats(const dataset_piece_t *piece, const void *staging, size_t count) {
  double values[CHUNK_ELEMENTS];
  size_t element_bytes = delta_file_dtype_bytes(piece->array->type);
  for (size_t done = 0; done < count;) {
    size_t chunk = count - done < CHUNK_ELEMENTS ? count - done : CHUNK_ELEMENTS;
    delta_file_dtype_load_doubles(piece->array->type, (const char *)staging + done * element_bytes, chunk, values);
    if (piece->array->is_scaled) scale_doubles(piece, done, values, chunk);
    delta_file_dtype_store_doubles(piece->want->dtype, piece->buffer, piece->buffer_first + done, values, chunk);
    done += chunk;
  }
}

static delta_status_t convert_integers(const dataset_piece_t *piece, const void *staging, size_t count) {
  int64_t values[CHUNK_ELEMENTS];
  size_t element_bytes = delta_file_dtype_bytes(piece->array->type);
  for (size_t done = 0; done < count;) {
    size_t chunk = count - done < CHUNK_ELEMENTS ? count - done : CHUNK_ELEMENTS;
    size_t loaded = delta_file_dtype_load_integers(piece->array->type, (const char *)staging + done * element_bytes, chunk, values);
    size_t stored = delta_file_dtype_store_integers(piece->want->dtype, piece->buffer, piece->buffer_first + done, values, loaded);
    if (stored < loaded) {
      return delta_status_make(MISMATCH, "%s, sample %" PRId64 ": value %" PRId64 " does not fit %s", piece->array->place,
                               sample_of(piece, done + stored), values[stored], delta_dtype_name(piece->want->dtype));
    }
    if (loaded < chunk) {
      return delta_status_make(MISMATCH, "%s, sample %" PRId64 ": value %" PRIu64 " does not fit %s", piece->array->place,
                               sample_of(piece, done + loaded), (uint64_t)values[loaded], delta_dtype_name(piece->want->dtype));
    }
    done += chunk;
  }
  return DELTA_OK;
}

// Floats must be finite: one NaN or infinity in a batch spoils every weight.
static delta_status_t check_finite(const dataset_piece_t *piece, size_t count) {
  const float *floats = piece->want->dtype == DELTA_DTYPE_FLOAT32 ? (const float *)piece->buffer + piece->buffer_first : NULL;
  for (size_t i = 0; i < count; ++i) {
    double value = floats ? floats[i] : delta_element_load_double(piece->buffer, piece->want->dtype, piece->buffer_first + i);
    if (isfinite(value)) continue;
    return delta_status_make(MISMATCH, "%s, sample %" PRId64 ": the value as %s is %s; data must be finite", piece->array->place,
                             sample_of(piece, i), delta_dtype_name(piece->want->dtype), isnan(value) ? "NaN" : "inf");
  }
  return DELTA_OK;
}

static delta_status_t check_range(const dataset_piece_t *piece, size_t count) {
  const delta_feed_want_t *want = piece->want;
  if (want->minimum == want->maximum) return DELTA_OK;
  for (size_t i = 0; i < count; ++i) {
    int64_t value = delta_element_load_int64(piece->buffer, want->dtype, piece->buffer_first + i);
    if ((value >= want->minimum && value < want->maximum) || (want->has_ignore && value == want->ignore_value)) continue;
    char ignored[48] = "";
    if (want->has_ignore) snprintf(ignored, sizeof ignored, " or %" PRId64 " (ignored)", want->ignore_value);
    return delta_status_make(MISMATCH, "%s, sample %" PRId64 ": value %" PRId64 " is outside %" PRId64 " to %" PRId64 "%s",
                             piece->array->place, sample_of(piece, i), value, want->minimum, want->maximum - 1, ignored);
  }
  return DELTA_OK;
}

static delta_status_t read_direct(delta_dataset_t *dataset, const dataset_piece_t *piece, size_t want_index, size_t count) {
  char *out = (char *)piece->buffer + piece->buffer_first * delta_dtype_bytes(piece->want->dtype);
  return dataset->format->read(dataset->source, want_index, piece->first, count, out);
}

static delta_status_t read_staged(delta_dataset_t *dataset, const dataset_piece_t *piece, size_t want_index, size_t count) {
  DELTA_RETURN_IF_ERROR(dataset->format->read(dataset->source, want_index, piece->first, count, dataset->staging));
  if (!delta_dtype_is_float(piece->want->dtype)) return convert_integers(piece, dataset->staging, count);
  convert_floats(piece, dataset->staging, count);
  return DELTA_OK;
}

// Reads `count` consecutive samples from `first_sample` on into the buffer, from its sample `position` on.
static delta_status_t read_run(delta_dataset_t *dataset, size_t want_index, int64_t first_sample, int64_t count, void *buffer,
                               int64_t position) {
  const delta_feed_want_t *want = &dataset->wants[want_index];
  const delta_data_array_t *array = &dataset->arrays[want_index];
  bool direct = delta_file_dtype_is_same(array->type, want->dtype) && !array->is_scaled;
  bool is_float = delta_dtype_is_float(want->dtype);
  int64_t sample_elements = delta_shape_count_range(&want->shape, 1, want->shape.rank);
  size_t staged = STAGING_BYTES / delta_file_dtype_bytes(array->type);
  dataset_piece_t piece = {.want = want,
                           .array = array,
                           .sample_elements = sample_elements,
                           .first = (uint64_t)(first_sample * sample_elements),
                           .buffer = buffer,
                           .buffer_first = (size_t)(position * sample_elements)};
  for (size_t left = (size_t)(count * sample_elements); left > 0;) {
    size_t taken = direct || left < staged ? left : staged;
    DELTA_RETURN_IF_ERROR((direct ? read_direct : read_staged)(dataset, &piece, want_index, taken));
    DELTA_RETURN_IF_ERROR((is_float ? check_finite : check_range)(&piece, taken));
    piece.first += taken;
    piece.buffer_first += taken;
    left -= taken;
  }
  return DELTA_OK;
}

delta_status_t delta_dataset_read(delta_dataset_t *dataset, const int64_t *samples, int64_t count, void *const *buffers) {
  for (int64_t i = 0; i < count; ++i) {
    if (samples[i] >= 0 && samples[i] < dataset->samples) continue;
    return delta_status_make(INVALID_ARGUMENT, "sample %" PRId64 " of a dataset of %" PRId64, samples[i], dataset->samples);
  }
  for (int64_t begin = 0, end; begin < count; begin = end) {
    for (end = begin + 1; end < count && samples[end] == samples[end - 1] + 1;) ++end;
    for (size_t want = 0; want < dataset->want_count; ++want) {
      DELTA_RETURN_IF_ERROR(read_run(dataset, want, samples[begin], end - begin, buffers[want], begin));
    }
  }
  return DELTA_OK;
}
