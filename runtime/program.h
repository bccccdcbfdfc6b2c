// Program: one program of a plan with everything that is rebuilt rather than stored: graph, selection, problem.
#ifndef DELTA_RUNTIME_PROGRAM_H_
#define DELTA_RUNTIME_PROGRAM_H_

#include "planner/planner.h"
#include "plans/plan.h"
#include "runtime/integer_solver.h"
#include "runtime/layouts.h"
#include "runtime/profiler.h"
#include "runtime/select.h"

enum { DELTA_NUMERICS_ID_BYTES = 17 }; // 16 hexadecimal digits and a zero

typedef struct delta_program_parts {
  delta_program_kind_t kind;
  int64_t batch; // rows of the inputs; 0 for APPLY
  delta_graph_t *graph;
  delta_selection_t *selection;
  delta_problem_t *problem;
  const uint32_t *tensor_of_storage; // lives in the problem
  delta_layout_t *layouts;           // Owned; of each region of the graph
  uint32_t layout_count;
  delta_build_facts_t facts;
} delta_program_parts_t;

// How the parts of a program are chosen.
typedef struct delta_program_choice {
  bool plain; // the problem is that of the graph alone: no layouts, no workspaces, no padding
  delta_layout_source_t layouts;
  delta_kernel_source_t kernels;
  delta_profiler_t *profiler; // gives measured costs, and measures what is missing where it may; NULL: costs are estimated
} delta_program_choice_t;

// Builds the parts for `batch` rows. `build` is the plan's; its batch is replaced.
DELTA_MUST_USE delta_status_t delta_program_build(const delta_model_t *model, const delta_build_options_t *build, delta_program_kind_t kind,
                                                  int64_t batch, delta_device_t *device, const delta_program_choice_t *choice,
                                                  delta_allocator_t allocator, delta_program_parts_t *out_parts);
void delta_program_deinit(delta_program_parts_t *parts); // Safe on a zeroed struct.

// Writes into a plan what has been chosen for a program: the layouts of its regions, and the kernels of its nodes.
DELTA_MUST_USE delta_status_t delta_program_record(const delta_program_parts_t *parts, delta_plan_t *plan, delta_plan_program_t *program);

// A planner for built parts; they and the solver (NULL: there is none) outlive it. is_hasty: its least budget is looked for with little effort.
DELTA_MUST_USE delta_status_t delta_program_planner(const delta_program_parts_t *parts, delta_policy_t policy, uint32_t levers,
                                                    bool is_hasty, const delta_integer_solver_t *solver, delta_allocator_t allocator,
                                                    delta_planner_t **out_planner);
// Plans built parts by a policy within `capacity_bytes` (the budget less the states).
DELTA_MUST_USE delta_status_t delta_program_plan(const delta_program_parts_t *parts, delta_policy_t policy, uint32_t levers,
                                                 uint64_t capacity_bytes, delta_allocator_t allocator, delta_planner_result_t *out_result);

// The numerics_id of programs of these parts on a device: graphs, kernels, threads, instruction set, libraries.
void delta_program_numerics_id(const delta_program_parts_t *const *parts, size_t count, const delta_device_t *device,
                               char out_id[DELTA_NUMERICS_ID_BYTES]);

// Describes graph input number `input`: type, shape and, of integers, the legal values. `out_info` borrows the graph's name.
DELTA_MUST_USE delta_status_t delta_program_input(const delta_program_parts_t *parts, uint32_t input, int64_t ignore_index,
                                                  delta_input_info_t *out_info);

#endif // DELTA_RUNTIME_PROGRAM_H_
