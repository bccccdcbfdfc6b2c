// Activations as expressions: what operators of their own, fused operators and recurrent cells have in common. Private to onnx/lower.
#ifndef DELTA_ONNX_LOWER_ACTIVATION_H_
#define DELTA_ONNX_LOWER_ACTIVATION_H_

#include "onnx/lower/lower.h"

enum { DELTA_ACTIVATION_PARAMETERS = 2 };

typedef struct delta_activation {
  const char *name;                                    // the ONNX operator's
  const char *attributes[DELTA_ACTIVATION_PARAMETERS]; // that give the parameters; NULL: no more
  double defaults[DELTA_ACTIVATION_PARAMETERS];
  uint16_t (*build)(delta_expr_builder_t *builder, uint16_t x, const double *parameters);
} delta_activation_t;

// The activation of that name, upper and lower case alike, or NULL.
const delta_activation_t *delta_activation_find(const char *name);

// x / 2 * (1 + erf(x / sqrt(2))), or its approximation by tanh.
uint16_t delta_activation_gelu(delta_expr_builder_t *builder, uint16_t x, bool by_tanh);

#endif // DELTA_ONNX_LOWER_ACTIVATION_H_
