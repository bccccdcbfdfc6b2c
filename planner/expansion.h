// Expansion: what the files of the expander share. expand.c walks the base order, closure.c brings tensors back, expansion.c writes steps and buffers,
// inplace.c chooses in-place pairs once all lifetimes are known.
#ifndef DELTA_PLANNER_EXPANSION_H_
#define DELTA_PLANNER_EXPANSION_H_

#include "base/array.h"
#include "planner/planner.h"

// Where a tensor is at the current place of the walk.
typedef struct delta_residence {
  uint32_t buffer;   // that holds it now, or DELTA_PROBLEM_NONE
  uint32_t producer; // problem step, or DELTA_PROBLEM_NONE
  uint32_t uses;     // base steps so far that read it: the number of the gap it is in
  uint32_t all_uses; // base steps that read it
  bool has_tail;     // nobody but closures needs it after its last use, and it can be rebuilt
  uint32_t decision; // the first of its decisions for this gap or a later one
  bool is_split;     // that decision is for the current part of a gap that is split
  bool is_on_host;   // a copy is below; it stays valid, since tensors do not change
  size_t host_offset_bytes;
  bool is_wanted;  // brought back for its own sake, not made along with another
  bool is_visitor; // brought back since the last base step
} delta_residence_t;

// A decision that begins after a place amid a gap.
typedef struct delta_split {
  uint32_t place, decision;
} delta_split_t;

typedef struct delta_expansion {
  const delta_problem_t *problem;
  const delta_order_t *order;
  const delta_decisions_t *decisions; // never NULL
  delta_schedule_t *schedule;         // Owned; its lists of inputs and outputs are its own, its steps and buffers are those below.
  delta_allocator_t allocator;
  delta_region_t tables; // Owns the lists by tensor.
  DELTA_ARRAY(delta_schedule_step_t) steps;
  DELTA_ARRAY(delta_buffer_t) buffers;
  DELTA_ARRAY(uint32_t) visitors;    // tensors brought back since the last base step
  DELTA_ARRAY(uint32_t) pending;     // tensors that wait for others: the stack of closures
  DELTA_ARRAY(bool) is_taken;        // by buffer: another took its bytes over
  DELTA_ARRAY(bool) is_part;         // by buffer: its bytes are a part of a whole that was split in a row
  DELTA_ARRAY(delta_split_t) splits; // by place
  size_t next_split;
  delta_residence_t *at_start;   // by tensor: before the first step
  delta_residence_t *residences; // by tensor
  bool *is_overwritten;          // by state tensor: its new value has been written
} delta_expansion_t;

// ---- expand.c: an expansion can be repeated with other decisions; then it allocates nothing but what grows.

// `problem` and `order` are borrowed. INVALID_ARGUMENT when the order is not one of the problem's steps.
DELTA_MUST_USE delta_status_t delta_expansion_init(delta_expansion_t *expansion, const delta_problem_t *problem, const delta_order_t *order,
                                                   delta_allocator_t allocator);
void delta_expansion_deinit(delta_expansion_t *expansion); // Safe on a zeroed struct.
// Makes expansion->schedule of the decisions, without its peak; it is valid until the next call. Errors as delta_expand's.
DELTA_MUST_USE delta_status_t delta_expansion_make(delta_expansion_t *expansion, const delta_decisions_t *decisions);

// ---- expansion.c

// The action of the tensor's current gap.
delta_action_t delta_expansion_action(const delta_expansion_t *expansion, uint32_t tensor);
// Writes a run of a problem step whose inputs are all there. Outputs get buffers; those that are not resident become so.
DELTA_MUST_USE delta_status_t delta_expansion_run(delta_expansion_t *expansion, uint32_t problem_step);
// Copies a resident tensor below unless a copy is there; a state's new value goes to the state's home.
DELTA_MUST_USE delta_status_t delta_expansion_swap_out(delta_expansion_t *expansion, uint32_t tensor);
// Brings a tensor's copy back into a new buffer.
DELTA_MUST_USE delta_status_t delta_expansion_swap_in(delta_expansion_t *expansion, uint32_t tensor);
DELTA_MUST_USE delta_status_t delta_expansion_add_buffer(delta_expansion_t *expansion, uint32_t tensor, size_t size_bytes,
                                                         uint32_t *out_buffer);

// ---- closure.c

// Makes a tensor resident: copied back if a copy is below, else made again with everything that takes. INVALID_ARGUMENT when it cannot be made again:
// its producer is not pure, or needs a state that has been written since. Then the decisions are no plan.
DELTA_MUST_USE delta_status_t delta_expansion_ensure(delta_expansion_t *expansion, uint32_t tensor);
// Whether a step that has run may run once more here. INVALID_ARGUMENT when it is not pure, or reads a state that has been written since.
DELTA_MUST_USE delta_status_t delta_expansion_check_again(const delta_expansion_t *expansion, uint32_t problem_step);
// After a base step: those brought back go again, but for what their gap's action holds.
void delta_expansion_dismiss_visitors(delta_expansion_t *expansion);

// ---- inplace.c

// Lets outputs take the bytes of inputs that die where they begin.
DELTA_MUST_USE delta_status_t delta_expansion_choose_inplace(delta_expansion_t *expansion);

#endif // DELTA_PLANNER_EXPANSION_H_
