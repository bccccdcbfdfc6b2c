// Optimizer: the update of one parameter as a pointwise node over the parameter, its gradient, its moments and a few scalars.
//
// Definitions; g is the gradient (averaged, clipped), p the parameter, lr the rate, wd the weight decay, t the number of this update from 1, moments
// start at 0. Positions of epsilon are those of PyTorch 2 (torch.optim), maximize, amsgrad, dampening and foreach variants aside:
//   sgd      g += wd p;  v = momentum v + g;  p -= lr v, or lr (g + momentum v) with nesterov. (Starting v at 0 without dampening is PyTorch's v = g.)
//   adam     g += wd p;  m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2;  p -= lr / (1 - b1^t) m / (sqrt(v) / sqrt(1 - b2^t) + epsilon)
//   adamw    p *= 1 - lr wd, then adam without g += wd p (Loshchilov and Hutter, arXiv 1711.05101)
//   adagrad  g += wd p;  s += g^2;  p -= lr g / (sqrt(s) + epsilon)
//   rmsprop  g += wd p;  s = b2 s + (1 - b2) g^2;  d = g / (sqrt(s) + epsilon);  p -= lr d, or v = momentum v + d;  p -= lr v.
//            b2 is what PyTorch calls alpha.
//   lamb     m, v as adam without decay;  u = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + epsilon) + wd p;  p -= lr r u with r = |p| / |u|, or 1 where one
//            of the norms is 0 (You et al., arXiv 1904.00962, algorithm 2 with the identity as phi)
// Clipping by the global norm (torch.nn.utils.clip_grad_norm_): g *= min(limit / (norm + 1e-6), 1).
#ifndef DELTA_ONNX_OPTIMIZER_H_
#define DELTA_ONNX_OPTIMIZER_H_

#include "onnx/build.h"
#include "onnx/graph/emit.h"

enum { DELTA_OPTIMIZER_MAX_MOMENTS = 2 };

// PyTorch's default for everything but the rate.
delta_optimizer_options_t delta_optimizer_defaults(delta_optimizer_t kind);
// INVALID_ARGUMENT names the option that is out of range or does not go with the optimizer.
DELTA_MUST_USE delta_status_t delta_optimizer_check(const delta_optimizer_options_t *options);
// Moments kept for each parameter, and the name of moment k as in "conv1.weight/momentum".
uint32_t delta_optimizer_moment_count(const delta_optimizer_options_t *options);
const char *delta_optimizer_moment_name(const delta_optimizer_options_t *options, uint32_t k);

// Scalars that all updates of a step share.
typedef struct delta_optimizer_shared {
  delta_tensor_id_t rate;           // float32: lr, for adam and adamw lr / (1 - b1^t)
  delta_tensor_id_t decay;          // adamw: 1 - lr wd; else NONE
  delta_tensor_id_t correction[2];  // lamb: 1 - b1^t, 1 - b2^t; adam and adamw: [1] = sqrt(1 - b2^t); else NONE
  delta_tensor_id_t gradient_scale; // factor for every gradient; NONE: 1
} delta_optimizer_shared_t;

// Computes the shared scalars, in float64, from the rate and the count of earlier updates (int64).
delta_optimizer_shared_t delta_optimizer_prepare(delta_emit_t *emit, const delta_optimizer_options_t *options, delta_tensor_id_t rate,
                                                 delta_tensor_id_t step);

typedef struct delta_optimizer_update {
  delta_tensor_id_t parameter, gradient, moments[DELTA_OPTIMIZER_MAX_MOMENTS];
  delta_tensor_id_t next_parameter, next_moments[DELTA_OPTIMIZER_MAX_MOMENTS]; // filled: outputs of one POINTWISE node
} delta_optimizer_update_t;
void delta_optimizer_emit(delta_emit_t *emit, const delta_optimizer_options_t *options, const delta_optimizer_shared_t *shared,
                          delta_optimizer_update_t *update);

// The norm of all gradients as one vector, each times `scale` (NONE: 1): a float64 scalar, finite for all finite gradients.
delta_tensor_id_t delta_optimizer_gradient_norm(delta_emit_t *emit, const delta_tensor_id_t *gradients, size_t count,
                                                delta_tensor_id_t scale);
// scale * min(limit / (norm + 1e-6), 1).
delta_tensor_id_t delta_optimizer_clip_scale(delta_emit_t *emit, delta_tensor_id_t norm, double limit, delta_tensor_id_t scale);

#endif // DELTA_ONNX_OPTIMIZER_H_
