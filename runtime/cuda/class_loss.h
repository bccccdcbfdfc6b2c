// Launches of losses of one score per class against an integer label: CROSS_ENTROPY, NLL and their gradients.
#ifndef DELTA_RUNTIME_CUDA_CLASS_LOSS_H_
#define DELTA_RUNTIME_CUDA_CLASS_LOSS_H_

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/dtype.h"

#ifdef __cplusplus
extern "C" {
#endif

// Scores lie as [outer, classes, inner], labels and what is shaped like them as [outer, inner].
typedef struct delta_cuda_class_loss {
  delta_dtype_t dtype;  // of all but the labels: a float type
  delta_dtype_t labels; // int32 or int64
  int64_t outer, classes, inner;
  bool has_ignore;
  int64_t ignore_index;
} delta_cuda_class_loss_t;

// `weights` of the classes may be NULL, as may each output.
cudaError_t delta_cuda_cross_entropy_launch(const delta_cuda_class_loss_t *self, const void *logits, const void *labels,
                                            const void *weights, void *loss, void *weight, void *log_sum, cudaStream_t stream);
cudaError_t delta_cuda_cross_entropy_grad_launch(const delta_cuda_class_loss_t *self, const void *dloss, const void *logits,
                                                 const void *log_sum, const void *labels, const void *weights, void *dlogits,
                                                 cudaStream_t stream);
cudaError_t delta_cuda_nll_launch(const delta_cuda_class_loss_t *self, const void *log_probabilities, const void *labels,
                                  const void *weights, void *loss, void *weight, cudaStream_t stream);
cudaError_t delta_cuda_nll_grad_launch(const delta_cuda_class_loss_t *self, const void *dloss, const void *labels, const void *weights,
                                       void *gradient, cudaStream_t stream);

#ifdef __cplusplus
}
#endif

#endif // DELTA_RUNTIME_CUDA_CLASS_LOSS_H_
