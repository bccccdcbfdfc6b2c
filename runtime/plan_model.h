// The model of a plan.
#ifndef DELTA_RUNTIME_PLAN_MODEL_H_
#define DELTA_RUNTIME_PLAN_MODEL_H_

#include "onnx/model.h"
#include "plans/plan.h"

// Where the model is: model_path, or, where that is NULL, the plan's file name beside plan_path.
typedef struct delta_plan_model_place {
  const char *plan_path, *model_path;
  const char *external_folder;
} delta_plan_model_place_t;

// Loads it. MISMATCH when it is not the one the plan was made for.
DELTA_MUST_USE delta_status_t delta_plan_load_model(const delta_plan_t *plan, const delta_plan_model_place_t *place, delta_log_sink_t log,
                                                    delta_allocator_t allocator, delta_model_t **out_model);

#endif // DELTA_RUNTIME_PLAN_MODEL_H_
