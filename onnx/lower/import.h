// Import: from a loaded model to the forward graph of core operators, for fixed dimensions. Shapes are inferred, constants and shape arithmetic folded
// and every ONNX operator lowered on the way, in one walk over the nodes.
#ifndef DELTA_ONNX_LOWER_IMPORT_H_
#define DELTA_ONNX_LOWER_IMPORT_H_

#include "onnx/graph/graph.h"
#include "onnx/levers.h"
#include "onnx/model.h"

// How BatchNormalization behaves in a training program. AS_EXPORTED: node by node as the file says, by the rule of its opset.
// TRAIN: all by batch statistics; FREEZE: all by running statistics. X(identifier, name)
#define DELTA_BATCHNORM_MODES(X) X(AS_EXPORTED, "as-exported") X(TRAIN, "train") X(FREEZE, "freeze")
typedef enum delta_batchnorm_mode {
#define DELTA_BATCHNORM_ENUM(id, name) DELTA_BATCHNORM_##id,
  DELTA_BATCHNORM_MODES(DELTA_BATCHNORM_ENUM)
#undef DELTA_BATCHNORM_ENUM
} delta_batchnorm_mode_t;

// The largest batch and the largest size a named dimension can be given: far above what any machine holds, and small enough for products of a few of
// them with a type's size.
#define DELTA_MOST_ROWS INT64_C(1000000000)

typedef struct delta_dim_binding {
  const char *symbol;
  int64_t size;
} delta_dim_binding_t;

// An input whose value is known when the graph is built (a shape fed as an input); it becomes a constant.
typedef struct delta_known_input {
  const char *name;
  delta_dtype_t dtype;
  delta_shape_t shape;
  const void *data;
} delta_known_input_t;

typedef struct delta_import_options {
  int64_t
      batch; // --batch: sets a symbolic (or absent) first dimension of inputs; 0: not given. A fixed one that differs is an error naming the input.
  const delta_dim_binding_t *dims;
  size_t dim_count;
  bool training;    // false: evaluation. Dropout is then the identity and batch norm uses running statistics.
  bool as_exported; // overrides `training`: every node exactly as the file says (backend tests)
  delta_batchnorm_mode_t batchnorm;
  bool batchnorm_unbiased; // running variance as PyTorch's (divided by n - 1)
  uint32_t levers;
  const delta_known_input_t *known_inputs;
  size_t known_input_count;
  delta_log_sink_t log;
} delta_import_options_t;

// What building a training program needs to know beside the graph.
typedef struct delta_import_facts {
  uint32_t batchnorm_training;  // nodes that use batch statistics
  uint32_t batchnorm_inference; // nodes that use running statistics
  uint32_t folded_weights;      // initializers with names such as onnx::Conv_146: an evaluation export
  bool draws_random;            // inputs delta.seed and state delta.draw are used
} delta_import_facts_t;

// Names of the inputs and states that Delta adds.
#define DELTA_NAME_SEED              "delta.seed"          // input: int64 scalar, the run's seed
#define DELTA_NAME_DRAW              "delta.draw"          // state: int64 scalar, counts the programs that drew random numbers
#define DELTA_NAME_RATE              "delta.learning_rate" // input: float32 scalar
#define DELTA_NAME_STEP              "delta.step"          // state: int64 scalar, counts updates
#define DELTA_NAME_LABEL             "label"               // input
#define DELTA_NAME_LOSS              "delta.loss"          // output: scalar, the mean loss
#define DELTA_NAME_LOSS_SUM          "delta.loss_sum"      // output of evaluation and accumulation
#define DELTA_NAME_LABEL_COUNT       "delta.count"         // output: number (or weight) of labels behind the sum
#define DELTA_NAME_ACCUMULATED_COUNT DELTA_NAME_LABEL_COUNT "/accumulated" // state: labels behind the accumulated sums
#define DELTA_NAME_CORRECT           "delta.correct"                       // output of evaluation with class labels
#define DELTA_NAME_GRADIENT_NORM     "delta.gradient_norm"                 // output when clipping

// Lowers `model`. Inputs and outputs of the graph carry the file's names. Float initializers of rank >= 1 that a node reads become states of kind PARAMETER (running
// statistics: STATISTIC with their `next`, in training form); float scalars, integers and bools whose values can be had become constants; what cannot be read becomes a FROZEN state.
// Errors: all operators that are not supported at once, with counts and the first node names, in one line (UNSUPPORTED); unknown symbolic dimensions, all named (INVALID_ARGUMENT,
// with the --dim to give); MALFORMED naming node, attribute and value; UNSUPPORTED for shapes that depend on data, naming the node.
DELTA_MUST_USE delta_status_t delta_import(const delta_model_t *model, const delta_import_options_t *options, delta_allocator_t allocator,
                                           delta_graph_t **out_graph, delta_import_facts_t *out_facts);

#endif // DELTA_ONNX_LOWER_IMPORT_H_
