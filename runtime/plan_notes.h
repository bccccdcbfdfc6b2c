// Plan notes: what is said of a model that is planned: what trains, what does not and why, and what its export has lost.
#ifndef DELTA_RUNTIME_PLAN_NOTES_H_
#define DELTA_RUNTIME_PLAN_NOTES_H_

#include "onnx/build.h"

// To `log`: notes, and a warning of what the export seems to have lost.
void delta_plan_notes(const delta_model_t *model, const delta_build_options_t *build, const delta_build_facts_t *facts,
                      delta_log_sink_t log);

#endif // DELTA_RUNTIME_PLAN_NOTES_H_
