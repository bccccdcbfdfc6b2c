// Notes from what the build counted, and from what the file's nodes give away about its exporter.
#include "runtime/plan_notes.h"

#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "onnx/training_select.h"

static void note_training(const delta_build_facts_t *facts, delta_log_sink_t log) {
  delta_log(log, DELTA_LOG_NOTE, "%u tensor%s (%lld parameter%s)", facts->trainable_tensors,
            facts->trainable_tensors == 1 ? " trains" : "s train", (long long)facts->trainable_parameters,
            DELTA_PLURAL(facts->trainable_parameters));
  for (uint32_t i = 0; i < DELTA_FROZEN_REASON_COUNT; ++i) {
    if (facts->frozen_tensors[i] == 0) continue;
    delta_log(log, DELTA_LOG_NOTE, "%u initializer%s not train: %s", facts->frozen_tensors[i],
              facts->frozen_tensors[i] == 1 ? " does" : "s do", delta_frozen_reason_text((delta_frozen_reason_t)i));
  }
}

// The nodes that read a value's elements, and not its shape alone. `last` is one more than the last of them, which may read it more than once.
typedef struct reader_count {
  uint32_t count, last;
} reader_count_t;

static void count_readers(const delta_model_t *model, reader_count_t *readers) {
  for (uint32_t n = 0; n < model->node_count; ++n) {
    const delta_model_node_t *node = &model->nodes[n];
    if (strcmp(node->op_type, "Shape") == 0 || strcmp(node->op_type, "Size") == 0) continue;
    for (uint32_t k = 0; k < node->input_count; ++k) {
      if (delta_value_is_none(node->inputs[k])) continue;
      reader_count_t *reader = &readers[node->inputs[k].index];
      if (reader->last != n + 1) ++reader->count;
      reader->last = n + 1;
    }
  }
}

// Exporters merge initializers of equal values: what begins equal then also stays equal, because it is one parameter.
static void note_tied(const delta_model_t *model, delta_log_sink_t log) {
  reader_count_t *readers = NULL;
  uint32_t tied = 0;
  const char *example = NULL;
  delta_status_t status = DELTA_ALLOCATE(model->allocator, model->value_count, &readers);
  if (status) {
    delta_status_free(status); // a plan needs no note
    return;
  }
  count_readers(model, readers);
  for (uint32_t i = 0; i < model->initializer_count; ++i) {
    const delta_model_tensor_t *initializer = &model->initializers[i];
    if (initializer->dtype != DELTA_DTYPE_FLOAT32 || initializer->shape.rank == 0) continue;
    if (readers[delta_model_find_value(model, initializer->name).index].count < 2) continue;
    if (tied++ == 0) example = initializer->name;
  }
  delta_release(model->allocator, readers);
  if (tied) {
    delta_log(log, DELTA_LOG_NOTE,
              "%u float initializer%s read by several nodes ('%s'): tied, one parameter each. If the network does not share "
              "them, its exporter merged equal values",
              tied, tied == 1 ? " is" : "s are", example);
  }
}

// Convolutions and no normalization of any kind are what PyTorch's exporters leave where they fold batch normalization away: into weights and
// biases, and into weights alone where the bias would be zero.
static void warn_of_folding(const delta_model_t *model, const delta_build_facts_t *facts, delta_log_sink_t log) {
  uint32_t convolutions = 0, normalizations = 0;
  for (uint32_t n = 0; n < model->node_count; ++n) {
    const delta_model_node_t *node = &model->nodes[n];
    normalizations += delta_text_ends_with(node->op_type, "Normalization");
    convolutions += strcmp(node->op_type, "Conv") == 0;
  }
  if (normalizations > 0) return;
  if (facts->import.folded_weights) {
    delta_log(log, DELTA_LOG_WARNING,
              "this looks like an evaluation export: no BatchNormalization, and %u weights named like onnx::Conv_146. What is there "
              "trains, but batch normalization was folded away and cannot; export with training=TrainingMode.TRAINING and "
              "do_constant_folding=False to keep it",
              facts->import.folded_weights);
  } else if (convolutions > 1 && model->producer_name && strcmp(model->producer_name, "pytorch") == 0) {
    delta_log(log, DELTA_LOG_WARNING,
              "%u Conv nodes and no normalization left to train: if the network has batch normalization, the exporter folded it away; "
              "export with optimize=False (torch.export) or do_constant_folding=False to keep it. Many networks "
              "have none, and train as they are",
              convolutions);
  }
}

void delta_plan_notes(const delta_model_t *model, const delta_build_options_t *build, const delta_build_facts_t *facts,
                      delta_log_sink_t log) {
  note_training(facts, log);
  note_tied(model, log);
  warn_of_folding(model, facts, log);
  if (facts->import.batchnorm_inference && build->import.batchnorm != DELTA_BATCHNORM_FREEZE) {
    delta_log(log, DELTA_LOG_WARNING,
              "%u BatchNormalization nodes use running statistics (inference mode), %u batch statistics; give --batchnorm train to train "
              "all of them, or --batchnorm freeze if that is meant",
              facts->import.batchnorm_inference, facts->import.batchnorm_training);
  }
}
