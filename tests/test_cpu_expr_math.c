// The vector functions of expressions against the C library's in float64, over the whole range of float32.
#include <criterion/criterion.h>
#include <math.h>

#include "onnx/graph/expr_math.h"

typedef struct function_case {
  const char *name;
  float (*function)(float x);
  double (*wanted)(double x);
} function_case_t;

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

static const function_case_t rows[] = {
    {"exp", delta_expf, exp},
    {"expm1", delta_expm1f, expm1},
    {"log", delta_logf, log},
    {"log1p", delta_log1pf, log1p},
    {"erf", delta_erff, erf},
    {"tanh", delta_tanhf, tanh},
    {"sigmoid", delta_sigmoidf, sigmoid},
};

// The distance from the true value in units of the last place of its float32.
static double ulps_from(float got, double wanted) {
  float rounded = (float)wanted;
  if (isnan(wanted)) return isnan(got) ? 0 : (double)INFINITY;
  if (isinf(rounded) || isinf(got)) return got == rounded ? 0 : (double)INFINITY;
  if (wanted == 0) return got == 0 ? 0 : (double)INFINITY;
  return fabs((double)got - wanted) / fmax(ldexp(1, ilogb(wanted) - 23), 0x1p-149);
}

static float float_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

Test(cpu_expr_math, accuracy) {
  enum { STEP = 4093 };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    double most = 0;
    float where = 0;
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += STEP) {
      float x = float_of_bits((uint32_t)bits);
      double ulps = ulps_from(rows[i].function(x), rows[i].wanted((double)x));
      if (ulps > most) most = ulps, where = x;
    }
    cr_expect(most <= 1, "%s(%.9g) is %.9g: %.3g units from %.17g", rows[i].name, (double)where, (double)rows[i].function(where), most,
              rows[i].wanted((double)where));
  }
}

Test(cpu_expr_math, special_values) {
  static const float arguments[] = {0.0f,   -0.0f,   INFINITY, -INFINITY, NAN,    1.0f,   -1.0f,   -2.0f,
                                    1e-45f, -1e-45f, 3.4e38f,  -3.4e38f,  88.72f, 88.73f, -103.9f, -104.1f};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; ++i) {
    for (size_t k = 0; k < sizeof arguments / sizeof *arguments; ++k) {
      float got = rows[i].function(arguments[k]);
      double wanted = rows[i].wanted((double)arguments[k]);
      cr_expect(ulps_from(got, wanted) <= 1 && (isnan(wanted) || !signbit(got) == !signbit(wanted)), "%s(%.9g) is %.9g, not %.9g",
                rows[i].name, (double)arguments[k], (double)got, wanted);
    }
  }
}
