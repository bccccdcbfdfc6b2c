// A plan for people: its programs as views, its report, its trace. Needs what delta_plan_keep_view kept.
#ifndef DELTA_PLANS_PLAN_SHOW_H_
#define DELTA_PLANS_PLAN_SHOW_H_

#include "plans/plan.h"
#include "plans/view.h"

// Keeps with program `index` what report and trace need: takes the problem over, which is the program's own, and names tensors and steps by the graph it
// was made from.
DELTA_MUST_USE delta_status_t delta_plan_keep_view(delta_plan_t *plan, uint32_t index, const delta_graph_t *graph,
                                                   const uint32_t *tensor_of_storage, delta_problem_t **inout_problem);

// Texts of a graph for a view, in `region`: types by problem tensor, operators by problem step.
DELTA_MUST_USE delta_status_t delta_view_name_graph(const delta_graph_t *graph, const uint32_t *tensor_of_storage,
                                                    const delta_problem_t *problem, delta_region_t *region, const char *const **out_types,
                                                    const char *const **out_operators);

// The name of a program kind: "train".
const char *delta_plan_program_name(delta_program_kind_t kind);

#endif // DELTA_PLANS_PLAN_SHOW_H_
