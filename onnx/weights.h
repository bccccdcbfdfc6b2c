// Weights: whether a model came with its weights. A model may be exported for planning alone, without the data file of its weights; but one
// that has some of its weights and lacks others is a broken set of files.
#ifndef DELTA_ONNX_WEIGHTS_H_
#define DELTA_ONNX_WEIGHTS_H_

#include "onnx/model.h"

// Looks at the data files found when the model was loaded. NOT_FOUND names the first initializer without its data file when other weights
// (float initializers of rank 1 or more) have theirs; with `draws_missing` (--init random) that is no error. What will be missing at the run
// is noted: a warning for a model without any weights, a note for what will be drawn.
DELTA_MUST_USE delta_status_t delta_weights_check(const delta_model_t *model, bool draws_missing, delta_log_sink_t log);

#endif // DELTA_ONNX_WEIGHTS_H_
