// Synthetic: data without files, for benchmarks. Floats are standard normal, integers with a range uniform in it, other integers and bools
// zero.
//
// Element e of sample s of an input is a function of (seed, s, the input's name, e): the same whatever the batch size and the order of
// reading.
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/random.h"
#include "runtime/data/source.h"

enum { SYNTHETIC_SAMPLES = 1024, WORDS = 4 };

typedef struct synthetic_array {
  uint64_t stream; // from the input's name
  uint64_t sample_elements;
  bool is_float;
  int64_t minimum;
  uint64_t range; // 0: always zero
} synthetic_array_t;

typedef struct synthetic_source {
  delta_allocator_t allocator;
  uint64_t seed;
  synthetic_array_t *arrays; // Owned; one per want.
} synthetic_source_t;

static void close_synthetic(void *self) {
  synthetic_source_t *source = self;
  if (!source) return;
  delta_release(source->allocator, source->arrays);
  delta_release(source->allocator, source);
}

// FNV-1a, 64 bit.
static uint64_t hash_name(const char *name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (; *name; ++name) hash = (hash ^ (unsigned char)*name) * 0x100000001b3u;
  return hash;
}

static delta_status_t parse_samples(const char *spec, int64_t *out_samples) {
  static const char option[] = ":samples=";
  *out_samples = SYNTHETIC_SAMPLES;
  if (*spec == '\0') return DELTA_OK;
  if (strncmp(spec, option, strlen(option)) == 0) {
    const bool is_number = delta_number_parse_digits(spec + strlen(option), out_samples);
    if (is_number && *out_samples > 0 && *out_samples < INT64_MAX) return DELTA_OK;
  }
  return delta_status_make(INVALID_ARGUMENT, "'synthetic%s': wanted synthetic or synthetic:samples=N", spec);
}

static delta_status_t describe_synthetic(const delta_data_request_t *request, int64_t samples, synthetic_source_t *source,
                                         delta_data_array_t *out_arrays) {
  for (size_t i = 0; i < request->want_count; ++i) {
    const delta_feed_want_t *want = &request->wants[i];
    char *place;
    bool is_float = delta_dtype_is_float(want->dtype);
    DELTA_RETURN_IF_ERROR(delta_region_format(request->region, &place, "synthetic: array '%s'", want->name));
    out_arrays[i] =
        (delta_data_array_t){.place = place, .type = is_float ? DELTA_FILE_DTYPE_FLOAT32 : DELTA_FILE_DTYPE_INT64, .shape = want->shape};
    out_arrays[i].shape.dims[0] = samples;
    source->arrays[i] = (synthetic_array_t){.stream = hash_name(want->name),
                                            .sample_elements = (uint64_t)delta_shape_count_range(&want->shape, 1, want->shape.rank),
                                            .is_float = is_float,
                                            .minimum = want->minimum,
                                            .range = (uint64_t)want->maximum - (uint64_t)want->minimum};
  }
  return DELTA_OK;
}

static delta_status_t open_synthetic(const delta_data_request_t *request, delta_data_array_t *out_arrays, void **out_self) {
  delta_status_t status = DELTA_OK;
  synthetic_source_t *source = NULL;
  int64_t samples;
  DELTA_RETURN_IF_ERROR(parse_samples(request->spec, &samples));
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(request->allocator, 1, &source));
  source->allocator = request->allocator;
  source->seed = request->seed;
  DELTA_GOTO_IF_ERROR(status, DELTA_ALLOCATE(request->allocator, request->want_count, &source->arrays), cleanup);
  DELTA_GOTO_IF_ERROR(status, describe_synthetic(request, samples, source, out_arrays), cleanup);
  *out_self = source;
  return DELTA_OK;
cleanup:
  close_synthetic(source);
  return status;
}

// Two standard normals from two words (Box and Muller, 1958). The first word is moved off zero, whose logarithm is infinite.
static void normal_pair(uint32_t first, uint32_t second, float *out_values) {
  const double two_pi = 6.283185307179586;
  double radius = sqrt(-2 * log(((double)first + 0.5) / 4294967296.0)), angle = two_pi * ((double)second / 4294967296.0);
  out_values[0] = (float)(radius * cos(angle));
  out_values[1] = (float)(radius * sin(angle));
}

// Elements of one sample, from element `first` of it on. Each counter gives four floats or two integers.
static void draw_floats(uint64_t key, uint64_t first, size_t count, float *out_values) {
  for (uint64_t element = first; element < first + count;) {
    uint32_t words[WORDS];
    float values[WORDS];
    delta_philox4x32(key, element / WORDS, 0, words);
    normal_pair(words[0], words[1], values);
    normal_pair(words[2], words[3], values + 2);
    for (uint64_t at = element % WORDS; at < WORDS && element < first + count; ++at, ++element) out_values[element - first] = values[at];
  }
}

static void draw_integers(uint64_t key, const synthetic_array_t *array, uint64_t first, size_t count, int64_t *out_values) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t words[WORDS];
    uint64_t element = first + i;
    delta_philox4x32(key, element / 2, 0, words);
    uint64_t drawn = (uint64_t)words[2 * (element % 2)] << 32 | words[2 * (element % 2) + 1];
    uint64_t scaled = (uint64_t)(((unsigned __int128)drawn * array->range) >> 64); // uniform in [0, range), but for 2^-64 of it
    out_values[i] = (int64_t)((uint64_t)array->minimum + scaled);
  }
}

static delta_status_t read_synthetic(void *self, size_t want, uint64_t first, size_t count, void *out_elements) {
  const synthetic_source_t *source = self;
  const synthetic_array_t *array = &source->arrays[want];
  for (size_t done = 0; done < count;) {
    uint64_t sample = (first + done) / array->sample_elements, within = (first + done) % array->sample_elements;
    size_t drawn = count - done;
    if (drawn > array->sample_elements - within) drawn = (size_t)(array->sample_elements - within);
    uint64_t key = delta_random_key(source->seed, sample, array->stream);
    if (array->is_float) {
      draw_floats(key, within, drawn, (float *)out_elements + done);
    } else if (array->range == 0) {
      memset((int64_t *)out_elements + done, 0, drawn * sizeof(int64_t));
    } else {
      draw_integers(key, array, within, drawn, (int64_t *)out_elements + done);
    }
    done += drawn;
  }
  return DELTA_OK;
}

const delta_data_format_t delta_data_synthetic = {
    .prefix = "synthetic", .open = open_synthetic, .read = read_synthetic, .close = close_synthetic};
