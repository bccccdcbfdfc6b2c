// Build: from a model and the user's choices to the graph of one program. Deterministic: the same model and options give the same graph hash.
#ifndef DELTA_ONNX_BUILD_H_
#define DELTA_ONNX_BUILD_H_

#include "onnx/lower/import.h"
#include "onnx/parts/parts.h"

// X(identifier, name, label kind: C class numbers / F floats like the output / N none, help)
#define DELTA_LOSSES(X)                                                                                          \
  X(NONE, "none", N, "no loss given")                                                                            \
  X(CROSS_ENTROPY, "cross_entropy", C, "softmax cross entropy of logits, mean over labels that are not ignored") \
  X(NLL, "nll", C, "negative log likelihood of log-probabilities, mean over labels that are not ignored")        \
  X(MSE, "mse", F, "mean of squared differences")                                                                \
  X(L1, "l1", F, "mean of absolute differences")                                                                 \
  X(BCE_WITH_LOGITS, "bce_with_logits", F, "binary cross entropy of logits, mean over elements")                 \
  X(OUTPUT, "output", N, "the model computes its own loss")
typedef enum delta_loss {
#define DELTA_LOSS_ENUM(id, name, label, help) DELTA_LOSS_##id,
  DELTA_LOSSES(DELTA_LOSS_ENUM)
#undef DELTA_LOSS_ENUM
      DELTA_LOSS_COUNT
} delta_loss_t;

// Definitions: onnx/optimizer.h. X(identifier, name, number of moments per parameter, help)
#define DELTA_OPTIMIZERS(X)                                                                             \
  X(NONE, "none", 0, "no training")                                                                     \
  X(SGD, "sgd", 1, "stochastic gradient descent, --momentum --nesterov (no moment when momentum is 0)") \
  X(ADAM, "adam", 2, "Adam; weight decay is added to the gradient")                                     \
  X(ADAMW, "adamw", 2, "Adam with decoupled weight decay")                                              \
  X(ADAGRAD, "adagrad", 1, "Adagrad")                                                                   \
  X(RMSPROP, "rmsprop", 1, "RMSprop; one more moment with --momentum")                                  \
  X(LAMB, "lamb", 2, "LAMB: Adam's direction scaled per tensor by a trust ratio")
typedef enum delta_optimizer {
#define DELTA_OPTIMIZER_ENUM(id, name, moments, help) DELTA_OPTIMIZER_##id,
  DELTA_OPTIMIZERS(DELTA_OPTIMIZER_ENUM)
#undef DELTA_OPTIMIZER_ENUM
      DELTA_OPTIMIZER_COUNT
} delta_optimizer_t;

// X(identifier, name). ACCUMULATE adds a micro-batch's gradients to accumulators; APPLY divides by the count of labels, updates and clears them.
#define DELTA_PROGRAMS(X) X(TRAIN, "train") X(ACCUMULATE, "accumulate") X(APPLY, "apply") X(EVALUATE, "evaluate")
typedef enum delta_program_kind {
#define DELTA_PROGRAM_ENUM(id, name) DELTA_PROGRAM_##id,
  DELTA_PROGRAMS(DELTA_PROGRAM_ENUM)
#undef DELTA_PROGRAM_ENUM
      DELTA_PROGRAM_COUNT
} delta_program_kind_t;

typedef struct delta_optimizer_options {
  delta_optimizer_t kind;
  double momentum, weight_decay, beta1, beta2, epsilon;
  bool nesterov;
} delta_optimizer_options_t;

typedef struct delta_build_options {
  delta_import_options_t import; // `training` is set by the program's kind
  delta_loss_t loss;
  const char *loss_output; // the output the loss is taken of; NULL: the first
  int64_t class_axis;      // may be negative
  int64_t ignore_index;
  delta_optimizer_options_t optimizer;
  double clip_gradient_norm; // 0: off
  bool accumulates;          // accumulate and apply programs exist: their accumulators are states
  const char *const *freeze; // globs over initializer names
  size_t freeze_count;
  const char *const *train; // globs; with any, only what matches trains, also what freeze matches
  size_t train_count;
  uint32_t parts;          // along the batch, that programs will be made to run in (onnx/parts/parts.h); 0 or 1: none
  uint32_t region_percent; // of the largest tensor: what runs in parts has one at least as large; 0: all that can
  bool eager;              // build the graph an eager framework would hold (levers off but for its own operators)
} delta_build_options_t;

// Why an initializer does not train. X(identifier, text)
#define DELTA_FROZEN_REASONS(X)                              \
  X(FROZEN_BY_NAME, "matches --freeze")                      \
  X(NOT_NAMED, "does not match --train")                     \
  X(STATISTIC, "running statistic of a batch normalization") \
  X(SCALAR, "scalar constant")                               \
  X(NOT_FLOAT, "not a float32 tensor")                       \
  X(NO_PATH, "does not reach the loss")                      \
  X(UNUSED, "not used by any node")
typedef enum delta_frozen_reason {
#define DELTA_REASON_ENUM(id, text) DELTA_FROZEN_##id,
  DELTA_FROZEN_REASONS(DELTA_REASON_ENUM)
#undef DELTA_REASON_ENUM
      DELTA_FROZEN_REASON_COUNT
} delta_frozen_reason_t;

typedef struct delta_build_facts {
  delta_import_facts_t import;
  int64_t trainable_parameters; // elements
  uint32_t trainable_tensors;
  uint32_t frozen_tensors[DELTA_FROZEN_REASON_COUNT];
  bool has_label;
  bool has_accuracy; // class labels: evaluation counts correct ones
  delta_dtype_t label_dtype;
  delta_shape_t label_shape;
  int64_t label_classes; // class labels lie in [0, label_classes); 0 for float labels
} delta_build_facts_t;

// Checks options against the model as if building, for messages before any work: part of delta_graph_build.
// Builds the graph of one program at options->import.batch. Inputs: the model's inputs, `label`, DELTA_NAME_RATE, DELTA_NAME_SEED as used. Outputs by kind: import.h.
// Every state's `next` is produced by a POINTWISE node of phase UPDATE, which no other node reads.
// Errors as delta_import, and: no loss given, loss output absent or of a wrong rank or type, nothing to train, globs that match nothing.
DELTA_MUST_USE delta_status_t delta_graph_build(const delta_model_t *model, const delta_build_options_t *options, delta_program_kind_t kind,
                                                delta_allocator_t allocator, delta_graph_t **out_graph, delta_build_facts_t *out_facts);

// A name Delta gave (delta.seed, delta.learning_rate), not the model's.
bool delta_is_own_name(const char *name);

// Rows of the graph's inputs: the first dimension of the label, or of the first input of the model. 1 when there is none.
int64_t delta_graph_rows(const delta_graph_t *graph);

// Range [minimum, maximum) of legal values of an integer input, found from the graph: ids that index a dimension, class numbers of a loss in the
// model. Negative indices, which ONNX counts from the end, are not among them: in data they are mistakes. minimum == maximum: unknown.
DELTA_MUST_USE delta_status_t delta_graph_input_range(const delta_graph_t *graph, delta_tensor_id_t input, int64_t *out_minimum,
                                                      int64_t *out_maximum);

#endif // DELTA_ONNX_BUILD_H_
