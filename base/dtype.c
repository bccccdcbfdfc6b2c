// Dtype: facts of each element type from the table's rows, conversions of 16-bit floats, access to single elements.
#include "base/dtype.h"

#include <math.h>
#include <string.h>

typedef struct dtype_facts {
  const char *name;
  size_t size_bytes;
  char kind; // F, I or B
  int32_t onnx_type;
} dtype_facts_t;

static const dtype_facts_t dtype_table[DELTA_DTYPE_COUNT] = {
#define DELTA_DTYPE_FACTS(id, name, size, kind, numpy, onnx) {name, size, #kind[0], onnx},
    DELTA_DTYPES(DELTA_DTYPE_FACTS)
#undef DELTA_DTYPE_FACTS
};

size_t delta_dtype_bytes(delta_dtype_t dtype) { return dtype_table[dtype].size_bytes; }
const char *delta_dtype_name(delta_dtype_t dtype) { return dtype_table[dtype].name; }
bool delta_dtype_is_float(delta_dtype_t dtype) { return dtype_table[dtype].kind == 'F'; }
int32_t delta_dtype_to_onnx(delta_dtype_t dtype) { return dtype_table[dtype].onnx_type; }

bool delta_dtype_from_onnx(int32_t onnx_type, delta_dtype_t *out_dtype) {
  for (int i = 0; i < DELTA_DTYPE_COUNT; ++i) {
    if (dtype_table[i].onnx_type != onnx_type) continue;
    *out_dtype = (delta_dtype_t)i;
    return true;
  }
  return false;
}

// Rounds a float64 to a float of 16 bits with `mantissa_bits` (IEEE 754 round to nearest even): 10 for half, 7 for bfloat16.
static uint16_t round_to_16_bits(double value, unsigned mantissa_bits) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  const uint32_t sign = (uint32_t)(bits >> 63) << 15;
  const uint32_t infinity = (0x7fffu >> mantissa_bits) << mantissa_bits;
  const int bias = (int)(0x3fffu >> mantissa_bits);
  const uint64_t fraction = bits & ((1ull << 52) - 1);
  const int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
  if (isnan(value)) { // Quiet, with what fits of the payload.
    return (uint16_t)(sign | infinity | 1u << (mantissa_bits - 1) | (uint32_t)(fraction >> (52 - mantissa_bits)));
  }
  if (exponent > bias) return (uint16_t)(sign | infinity);
  // Below the smallest normal number the exponent stays and the significand loses bits.
  const int smallest = 1 - bias;
  const bool subnormal = exponent < smallest;
  const unsigned shift = 52 - mantissa_bits + (subnormal ? (unsigned)(smallest - exponent) : 0);
  if (shift > 53) return (uint16_t)sign; // less than half of the smallest subnormal; also zeros and float64's own subnormals
  const uint64_t significand = 1ull << 52 | fraction;
  const uint64_t rest = significand & ((1ull << shift) - 1), half = 1ull << (shift - 1);
  uint64_t kept = significand >> shift;
  kept += rest > half || (rest == half && (kept & 1));
  // The leading bit of `kept` adds one to the exponent field, and so does a carry out of the mantissa.
  const uint32_t base = subnormal ? 0 : (uint32_t)(exponent + bias - 1) << mantissa_bits;
  const uint32_t magnitude = base + (uint32_t)kept;
  return (uint16_t)(sign | (magnitude > infinity ? infinity : magnitude));
}

uint16_t delta_float16_from_double(double value) { return round_to_16_bits(value, 10); }
uint16_t delta_bfloat16_from_double(double value) { return round_to_16_bits(value, 7); }

static float float_from_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float delta_bfloat16_to_float(uint16_t bits) { return float_from_bits((uint32_t)bits << 16); }

float delta_float16_to_float(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  if (exponent == 0x1f) return float_from_bits(sign | 0x7f800000 | fraction << 13 | (fraction ? 0x400000 : 0));
  if (exponent > 0) return float_from_bits(sign | (exponent + 127 - 15) << 23 | fraction << 13);
  const float magnitude = (float)fraction * 0x1p-24f; // exact
  return sign ? -magnitude : magnitude;
}

// One element in its storage type.
typedef union element {
  float float32;
  double float64;
  uint16_t bits16;
  int32_t int32;
  int64_t int64;
  uint8_t byte;
} element_t;

// Copies rather than dereferences: tensor data inside a file need not be aligned.
static element_t load_element(const void *data, delta_dtype_t dtype, size_t index) {
  element_t element = {0};
  const size_t size_bytes = dtype_table[dtype].size_bytes;
  memcpy(&element, (const char *)data + index * size_bytes, size_bytes);
  return element;
}

static void store_element(void *data, delta_dtype_t dtype, size_t index, element_t element) {
  const size_t size_bytes = dtype_table[dtype].size_bytes;
  memcpy((char *)data + index * size_bytes, &element, size_bytes);
}

// The nearest integer towards zero within [minimum, maximum]; NaN gives 0.
static int64_t saturate(double value, int64_t minimum, int64_t maximum) {
  if (isnan(value)) return 0;
  if (value <= (double)minimum) return minimum;
  if (value >= (double)maximum) return maximum;
  return (int64_t)value;
}

// The floating value of a float element; the four integer types are handled by the callers.
static double float_element(element_t element, delta_dtype_t dtype) {
  switch (dtype) {
    case DELTA_DTYPE_FLOAT32:
      return (double)element.float32;
    case DELTA_DTYPE_FLOAT16:
      return (double)delta_float16_to_float(element.bits16);
    case DELTA_DTYPE_BFLOAT16:
      return (double)delta_bfloat16_to_float(element.bits16);
    default:
      return element.float64;
  }
}

static int64_t integer_element(element_t element, delta_dtype_t dtype) {
  switch (dtype) {
    case DELTA_DTYPE_INT32:
      return element.int32;
    case DELTA_DTYPE_UINT8:
      return element.byte;
    case DELTA_DTYPE_BOOL:
      return element.byte != 0;
    default:
      return element.int64;
  }
}

double delta_element_load_double(const void *data, delta_dtype_t dtype, size_t index) {
  const element_t element = load_element(data, dtype, index);
  return delta_dtype_is_float(dtype) ? float_element(element, dtype) : (double)integer_element(element, dtype);
}

int64_t delta_element_load_int64(const void *data, delta_dtype_t dtype, size_t index) {
  const element_t element = load_element(data, dtype, index);
  if (!delta_dtype_is_float(dtype)) return integer_element(element, dtype);
  return saturate(float_element(element, dtype), INT64_MIN, INT64_MAX);
}

void delta_element_store_double(void *data, delta_dtype_t dtype, size_t index, double value) {
  element_t element = {0};
  switch (dtype) {
    case DELTA_DTYPE_FLOAT32:
      element.float32 = (float)value;
      break;
    case DELTA_DTYPE_FLOAT16:
      element.bits16 = delta_float16_from_double(value);
      break;
    case DELTA_DTYPE_BFLOAT16:
      element.bits16 = delta_bfloat16_from_double(value);
      break;
    case DELTA_DTYPE_INT32:
      element.int32 = (int32_t)saturate(value, INT32_MIN, INT32_MAX);
      break;
    case DELTA_DTYPE_INT64:
      element.int64 = saturate(value, INT64_MIN, INT64_MAX);
      break;
    case DELTA_DTYPE_BOOL:
      element.byte = value != 0;
      break;
    case DELTA_DTYPE_UINT8:
      element.byte = (uint8_t)saturate(value, 0, UINT8_MAX);
      break;
    default:
      element.float64 = value;
      break;
  }
  store_element(data, dtype, index, element);
}

void delta_element_store_int64(void *data, delta_dtype_t dtype, size_t index, int64_t value) {
  element_t element = {0};
  switch (dtype) {
    case DELTA_DTYPE_FLOAT32:
      element.float32 = (float)value;
      break;
    case DELTA_DTYPE_INT32:
      element.int32 = (int32_t)value;
      break;
    case DELTA_DTYPE_INT64:
      element.int64 = value;
      break;
    case DELTA_DTYPE_BOOL:
      element.byte = value != 0;
      break;
    case DELTA_DTYPE_UINT8:
      element.byte = (uint8_t)value;
      break;
    default:
      delta_element_store_double(data, dtype, index, (double)value);
      return;
  }
  store_element(data, dtype, index, element);
}
