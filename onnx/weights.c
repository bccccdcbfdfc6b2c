// Counts the initializers whose data file was not there, and the weights that are.
#include "onnx/weights.h"

#include "base/log.h"

static bool is_missing(const delta_model_t *model, const delta_model_tensor_t *tensor) {
  return tensor->storage == DELTA_STORAGE_EXTERNAL && tensor->size_bytes > 0 && !model->external_files[tensor->external_file].exists;
}

// Shapes and other constants are often inline in a model without weights; they are integers, or scalars.
static bool is_weight(const delta_model_tensor_t *tensor) {
  return delta_dtype_is_float(tensor->dtype) && tensor->shape.rank > 0 && tensor->size_bytes > 0;
}

delta_status_t delta_weights_check(const delta_model_t *model, bool draws_missing, delta_log_sink_t log) {
  const delta_model_tensor_t *missing = NULL;
  uint32_t missing_count = 0, present_count = 0;
  for (uint32_t i = 0; i < model->initializer_count; ++i) {
    const delta_model_tensor_t *tensor = &model->initializers[i];
    if (is_missing(model, tensor)) {
      if (!missing) missing = tensor;
      ++missing_count;
    } else if (is_weight(tensor)) {
      ++present_count;
    }
  }
  if (!missing) return DELTA_OK;
  if (draws_missing) {
    delta_log(log, DELTA_LOG_NOTE, "%u tensor%s drawn when the plan is run: the data file ('%.200s') is missing", missing_count,
              missing_count == 1 ? " is" : "s are", missing->location);
    return DELTA_OK;
  }
  if (present_count > 0) {
    return delta_status_make(
        NOT_FOUND,
        "%s: tensor '%.200s': its data file '%.200s' is missing, and other weights are there; put it beside the model, "
        "name its folder by --external-data, or have what is missing drawn by --init random",
        model->path, missing->name, missing->location);
  }
  delta_log(log, DELTA_LOG_WARNING,
            "%s: no weights: their data file '%.200s' is missing; the plan needs only shapes, but deltarun will need the file, unless this "
            "plan is made with --init random",
            model->path, missing->location);
  return DELTA_OK;
}
