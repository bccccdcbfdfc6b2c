// Problems: what the check refuses, and how a graph becomes one: views, states, gradients, in-place pairs and their hazards, the state area.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "onnx/graph/emit.h"
#include "plans/plan.h"
#include "tests/support/planning.h"
#include "tests/support/support.h"

#define NONE DELTA_PROBLEM_NONE

// ---- The check. x -> (a) -> w' becoming w, y

enum { X, A, W, W_NEXT, Y, TENSOR_COUNT };

typedef struct small_problem {
  delta_problem_t frame;
  delta_problem_tensor_t tensors[TENSOR_COUNT];
  delta_problem_step_t steps[2];
  uint32_t lists[8];
  delta_inplace_pair_t pair;
} small_problem_t;

static void fill_small(small_problem_t *self) {
  static const char *const names[] = {"x", "a", "w", "w'", "y"};
  *self = (small_problem_t){.lists = {X, W, A, A, W, W_NEXT, Y}, .pair = {A, Y}};
  for (uint32_t t = 0; t < TENSOR_COUNT; ++t) {
    self->tensors[t] = (delta_problem_tensor_t){.name = names[t], .size_bytes = 64, .becomes_state = NONE};
  }
  self->tensors[X].flags = DELTA_TENSOR_INPUT;
  self->tensors[W].flags = DELTA_TENSOR_STATE;
  self->tensors[W_NEXT].becomes_state = W;
  self->tensors[Y].flags = DELTA_TENSOR_OUTPUT;
  self->steps[0] = (delta_problem_step_t){
      .name = "first", .flags = DELTA_STEP_PURE, .inputs = self->lists, .input_count = 2, .outputs = self->lists + 2, .output_count = 1};
  self->steps[1] = (delta_problem_step_t){.name = "second",
                                          .flags = DELTA_STEP_UPDATE,
                                          .inputs = self->lists + 3,
                                          .input_count = 2,
                                          .outputs = self->lists + 5,
                                          .output_count = 2,
                                          .inplace = &self->pair,
                                          .inplace_count = 1};
  self->frame = (delta_problem_t){.allocator = delta_allocator_system(),
                                  .tensors = self->tensors,
                                  .tensor_count = TENSOR_COUNT,
                                  .steps = self->steps,
                                  .step_count = 2,
                                  .alignment_bytes = 64};
}

typedef struct wrong_problem {
  void (*spoil)(small_problem_t *self);
  const char *message; // a part of it; NULL: nothing is wrong
} wrong_problem_t;

#define WRONG(name, change) \
  static void spoil_##name(small_problem_t *self) { change; }
WRONG(nothing, (void)self)
WRONG(alignment, self->frame.alignment_bytes = 48)
WRONG(bandwidth, self->frame.offload_bytes_per_second = NAN)
WRONG(start, self->frame.prefetch_start_seconds = -1)
WRONG(drag, self->frame.offload_drag = 0.95)
WRONG(no_name, self->tensors[A].name = NULL)
WRONG(no_bytes, self->tensors[A].size_bytes = 0)
WRONG(unaligned, self->tensors[A].size_bytes = 65)
WRONG(huge, (self->tensors[A].size_bytes = self->tensors[Y].size_bytes = (size_t)1 << 51))
WRONG(flags, self->tensors[A].flags = 64)
WRONG(state_and_input, self->tensors[W].flags |= DELTA_TENSOR_INPUT)
WRONG(becomes_nothing, self->tensors[W_NEXT].becomes_state = 99)
WRONG(becomes_plain, self->tensors[W_NEXT].becomes_state = A)
WRONG(two_become, self->tensors[Y].becomes_state = W)
WRONG(becomes_larger, self->tensors[W_NEXT].size_bytes = 128)
WRONG(state_is_output, self->tensors[W].flags |= DELTA_TENSOR_OUTPUT)
WRONG(input_becomes, self->tensors[X].becomes_state = W)
WRONG(index, self->lists[0] = 99)
WRONG(twice, self->lists[1] = X)
WRONG(order, self->lists[0] = A)
WRONG(two_makers, (self->lists[6] = A, self->steps[1].inplace_count = 0))
WRONG(makes_input, self->lists[2] = X)
WRONG(no_maker, self->steps[1].output_count = 1)
WRONG(hidden_update, self->steps[1].flags = DELTA_STEP_PURE)
WRONG(false_update, self->steps[0].flags = DELTA_STEP_UPDATE)
WRONG(pure_update, self->steps[1].flags |= DELTA_STEP_PURE)
WRONG(seconds, self->steps[0].seconds = -1)
WRONG(workspace, self->steps[0].workspace_bytes = 63)
WRONG(foreign_pair, self->pair.input = X)
WRONG(pair_of_state, self->pair.input = W)
WRONG(pair_onto_state, self->pair.output = W_NEXT)
WRONG(pair_sizes, self->tensors[A].size_bytes = 128)
WRONG(pair_of_output, self->tensors[A].flags = DELTA_TENSOR_OUTPUT)
#undef WRONG

static const wrong_problem_t wrong_problems[] = {
    {spoil_nothing, NULL},
    {spoil_alignment, "no power of two"},
    {spoil_bandwidth, "bandwidth"},
    {spoil_start, "start in -1 seconds"},
    {spoil_drag, "0.95 of compute's speed"},
    {spoil_no_name, "tensor 1 has no name"},
    {spoil_no_bytes, "'a' has no bytes"},
    {spoil_unaligned, "'a': 65 bytes are not a multiple"},
    {spoil_huge, "passes 2^52"},
    {spoil_flags, "'a' has unknown or contradicting flags"},
    {spoil_state_and_input, "'w' has unknown or contradicting flags"},
    {spoil_becomes_nothing, "becomes tensor 99"},
    {spoil_becomes_plain, "becomes tensor 1, which is no state"},
    {spoil_two_become, "'w'' and 'y' both become state 'w'"},
    {spoil_becomes_larger, "of 128 bytes becomes state 'w' of 64"},
    {spoil_state_is_output, "its old value would be lost"},
    {spoil_input_becomes, "is not made by a step"},
    {spoil_index, "step 'first' names tensor 99 of 5"},
    {spoil_twice, "step 'first' lists tensor 'x' twice"},
    {spoil_order, "step 'first' reads tensor 'a' before any step makes it"},
    {spoil_two_makers, "steps 'first' and 'second' both make tensor 'a'"},
    {spoil_makes_input, "step 'first' makes tensor 'x', which is given"},
    {spoil_no_maker, "in-place pair 0 is not an input and an output"},
    {spoil_hidden_update, "'second': its flags and its outputs disagree"},
    {spoil_false_update, "'first': its flags and its outputs disagree"},
    {spoil_pure_update, "'second': its flags and its outputs disagree"},
    {spoil_seconds, "takes -1 seconds"},
    {spoil_workspace, "63 bytes are not a multiple"},
    {spoil_foreign_pair, "in-place pair 0 is not an input and an output"},
    {spoil_pair_of_state, "cannot take the bytes of 'w'"},
    {spoil_pair_onto_state, "'w'' cannot take the bytes of 'a'"},
    {spoil_pair_sizes, "'y' cannot take the bytes of 'a'"},
    {spoil_pair_of_output, "'y' cannot take the bytes of 'a'"},
};

Test(problem, every_fault_is_named) {
  for (size_t i = 0; i < sizeof wrong_problems / sizeof *wrong_problems; ++i) {
    small_problem_t small;
    fill_small(&small);
    wrong_problems[i].spoil(&small);
    delta_status_t status = delta_problem_check(&small.frame);
    const char *message = delta_status_message(status), *wanted = wrong_problems[i].message;
    cr_expect_eq(delta_status_code(status), wanted ? DELTA_STATUS_MALFORMED : DELTA_STATUS_OK, "case %zu: %s", i, message);
    cr_expect(!wanted || strstr(message, wanted), "wanted '%s', got '%s'", wanted, message);
    delta_status_free(status);
  }
}

// ---- From graphs

static const delta_shape_t matrix = {.rank = 2, .dims = {2, 3}}, vector = {.rank = 1, .dims = {6}}, column = {.rank = 2, .dims = {6, 1}};

typedef struct graph_maker {
  delta_graph_t *graph;
  delta_emit_t emit;
} graph_maker_t;

static void begin_graph(graph_maker_t *maker) {
  delta_test_must(delta_graph_create(delta_allocator_system(), &maker->graph));
  delta_emit_init(&maker->emit, maker->graph);
  maker->emit.name = "node";
}

static delta_tensor_id_t add_state(graph_maker_t *maker, const char *name, delta_state_kind_t kind, const delta_shape_t *shape) {
  const delta_state_t state = {.name = name, .kind = kind, .dtype = DELTA_DTYPE_FLOAT32, .shape = *shape, .initializer = DELTA_INDEX_NONE};
  uint32_t index;
  delta_test_must(delta_graph_add_state(maker->graph, &state, &index));
  return maker->graph->states.items[index].current;
}

static delta_status_t convert(graph_maker_t *maker, bool inplace, delta_allocator_t allocator, delta_problem_t **out_problem,
                              const uint32_t **out_tensors) {
  static delta_node_cost_t costs[32];
  for (size_t i = 0; i < 32; ++i) costs[i] = (delta_node_cost_t){.seconds = (double)i, .workspace_bytes = 10 * i};
  delta_test_must(delta_emit_finish(&maker->emit));
  const delta_problem_graph_options_t options = {.costs = costs, .alignment_bytes = 64, .inplace = inplace};
  return delta_problem_from_graph(maker->graph, &options, allocator, out_problem, out_tensors);
}

static const delta_problem_step_t *step_making(const delta_problem_t *problem, uint32_t tensor) {
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    for (uint32_t k = 0; k < problem->steps[s].output_count; ++k) {
      if (problem->steps[s].outputs[k] == tensor) return &problem->steps[s];
    }
  }
  return NULL;
}

static bool offers(const delta_problem_step_t *step, uint32_t input, uint32_t output) {
  for (uint32_t k = 0; k < step->inplace_count; ++k) {
    if (step->inplace[k].input == input && step->inplace[k].output == output) return true;
  }
  return false;
}

// y = exp(view(relu(x) * w)) as output; w' = w - gradient; a moment that is only written; a counter is left alone.
Test(problem, a_training_graph_becomes_a_problem) {
  graph_maker_t maker;
  delta_tensor_id_t x;
  begin_graph(&maker);
  delta_test_must(delta_graph_add_input(maker.graph, "x", DELTA_DTYPE_FLOAT32, &matrix, &x));
  const delta_tensor_id_t w = add_state(&maker, "w", DELTA_STATE_PARAMETER, &matrix);
  add_state(&maker, "count", DELTA_STATE_COUNTER, &(delta_shape_t){0});
  add_state(&maker, "m", DELTA_STATE_MOMENT, &matrix);
  maker.graph->states.items[2].current = DELTA_TENSOR_NONE;
  const delta_tensor_id_t relu = delta_emit_unary(&maker.emit, DELTA_EXPR_RELU, x);
  const delta_tensor_id_t product = delta_emit_binary(&maker.emit, DELTA_EXPR_MUL, relu, w);
  const delta_tensor_id_t flat = delta_emit_view(&maker.emit, product, &vector);
  const delta_tensor_id_t y = delta_emit_unary(&maker.emit, DELTA_EXPR_EXP, flat);
  maker.emit.phase = DELTA_PHASE_BACKWARD;
  const delta_tensor_id_t inner = delta_emit_unary(&maker.emit, DELTA_EXPR_EXP, product);
  const delta_tensor_id_t gradient = delta_emit_binary(&maker.emit, DELTA_EXPR_MUL, inner, relu);
  maker.emit.phase = DELTA_PHASE_UPDATE;
  const delta_tensor_id_t next = delta_emit_binary(&maker.emit, DELTA_EXPR_SUB, w, gradient);
  const delta_tensor_id_t moment = delta_emit_unary(&maker.emit, DELTA_EXPR_NEG, gradient);
  delta_test_must(delta_graph_add_output(maker.graph, "y", delta_emit_view(&maker.emit, y, &matrix)));
  delta_test_must(delta_graph_set_next(maker.graph, 0, next));
  delta_test_must(delta_graph_set_next(maker.graph, 2, moment));

  delta_problem_t *problem = NULL;
  const uint32_t *tensors = NULL;
  delta_test_must(convert(&maker, true, delta_allocator_system(), &problem, &tensors));
  cr_assert_eq(problem->step_count, 7); // no view among them
  cr_assert_eq(tensors[flat.index], tensors[product.index]);
  const delta_problem_tensor_t *all = problem->tensors;
  cr_assert_eq(all[tensors[x.index]].flags, DELTA_TENSOR_INPUT);
  cr_assert_eq(all[tensors[y.index]].flags, DELTA_TENSOR_OUTPUT);
  cr_assert_eq(all[tensors[w.index]].flags, DELTA_TENSOR_STATE);
  cr_assert_str_eq(all[tensors[w.index]].name, "w");
  cr_assert_eq(all[tensors[x.index]].size_bytes, 64);
  cr_assert_eq(all[tensors[next.index]].becomes_state, tensors[w.index]);
  cr_assert_str_eq(all[all[tensors[moment.index]].becomes_state].name, "m");
  cr_assert_eq(all[tensors[inner.index]].kind, DELTA_CLASS_ACTIVATIONS);
  cr_assert_eq(all[tensors[gradient.index]].kind, DELTA_CLASS_GRADIENTS);
  cr_assert_eq(all[tensors[moment.index]].kind, DELTA_CLASS_OPTIMIZER);
  cr_assert_eq(all[tensors[next.index]].kind, DELTA_CLASS_PARAMETERS);
  const delta_problem_step_t *update = step_making(problem, tensors[next.index]);
  cr_assert_eq(update->flags, DELTA_STEP_UPDATE);
  cr_assert(offers(update, tensors[w.index], tensors[next.index])); // counts when the state lies below
  cr_assert_eq(update->inplace_count, 1);
  cr_assert_eq(update->seconds, (double)update->node);
  cr_assert_eq(update->workspace_bytes, (10 * update->node + 63) / 64 * 64);
  cr_assert(offers(step_making(problem, tensors[relu.index]), tensors[x.index], tensors[relu.index]));
  cr_assert(offers(step_making(problem, tensors[product.index]), tensors[relu.index], tensors[product.index]));
  cr_assert_eq(step_making(problem, tensors[product.index])->inplace_count, 1); // not onto the state
  delta_problem_free(problem);
  delta_test_must(convert(&maker, false, delta_allocator_system(), &problem, &tensors));
  cr_assert_eq(step_making(problem, tensors[relu.index])->inplace_count, 0);
  delta_problem_free(problem);
  delta_graph_free(maker.graph);
}

// y[i][j] = a[i][0] + b[0][j] where a and b are views of one vector: no element may be overwritten before it is read for others.
Test(problem, bytes_that_are_read_in_two_orders_are_not_overwritten) {
  graph_maker_t maker;
  delta_tensor_id_t x;
  begin_graph(&maker);
  delta_test_must(delta_graph_add_input(maker.graph, "x", DELTA_DTYPE_FLOAT32, &column, &x));
  const delta_shape_t row = {.rank = 2, .dims = {1, 6}};
  const delta_tensor_id_t a = delta_emit_unary(&maker.emit, DELTA_EXPR_EXP, x);
  const delta_tensor_id_t y = delta_emit_binary(&maker.emit, DELTA_EXPR_ADD, a, delta_emit_view(&maker.emit, a, &row));
  const delta_tensor_id_t square = delta_emit_binary(&maker.emit, DELTA_EXPR_MUL, a, a);
  delta_test_must(delta_graph_add_output(maker.graph, "y", y));
  delta_test_must(delta_graph_add_output(maker.graph, "square", square));
  delta_problem_t *problem = NULL;
  const uint32_t *tensors = NULL;
  delta_test_must(convert(&maker, true, delta_allocator_system(), &problem, &tensors));
  cr_assert_eq(step_making(problem, tensors[y.index])->input_count, 1);
  cr_assert_eq(step_making(problem, tensors[y.index])->inplace_count, 0);
  cr_assert(offers(step_making(problem, tensors[square.index]), tensors[a.index], tensors[square.index]));
  delta_problem_free(problem);
  delta_graph_free(maker.graph);
}

Test(problem, a_state_written_in_another_order_than_it_is_read_is_refused) {
  graph_maker_t maker;
  begin_graph(&maker);
  const delta_shape_t square = {.rank = 2, .dims = {3, 3}};
  const delta_tensor_id_t w = add_state(&maker, "w", DELTA_STATE_PARAMETER, &square);
  maker.emit.phase = DELTA_PHASE_UPDATE;
  const delta_tensor_id_t next = delta_emit_transpose(&maker.emit, w, (const int32_t[]){1, 0});
  delta_test_must(delta_graph_set_next(maker.graph, 0, next));
  delta_problem_t *problem = NULL;
  const uint32_t *tensors = NULL;
  delta_status_t status = convert(&maker, true, delta_allocator_system(), &problem, &tensors);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_INTERNAL);
  cr_assert_not_null(strstr(delta_status_message(status), "reads state 'w' in another order"));
  delta_status_free(status);
  delta_graph_free(maker.graph);
}

static graph_maker_t make_plain_graph(void) {
  graph_maker_t maker;
  delta_tensor_id_t x;
  begin_graph(&maker);
  delta_test_must(delta_graph_add_input(maker.graph, "x", DELTA_DTYPE_FLOAT32, &(delta_shape_t){.rank = 1, .dims = {0}}, &x));
  add_state(&maker, "w", DELTA_STATE_PARAMETER, &matrix);
  add_state(&maker, "empty", DELTA_STATE_PARAMETER, &(delta_shape_t){.rank = 1, .dims = {0}});
  delta_test_must(delta_graph_add_output(maker.graph, "y", delta_emit_unary(&maker.emit, DELTA_EXPR_EXP, x)));
  return maker;
}

Test(problem, tensors_of_no_elements_have_one_unit) {
  graph_maker_t maker = make_plain_graph();
  delta_problem_t *problem = NULL;
  const uint32_t *tensors = NULL;
  delta_test_must(convert(&maker, true, delta_allocator_system(), &problem, &tensors));
  for (uint32_t t = 0; t < problem->tensor_count; ++t) cr_assert_eq(problem->tensors[t].size_bytes, 64);
  delta_problem_free(problem);
  delta_graph_free(maker.graph);
}

Test(problem, memory_may_run_out_at_any_allocation) {
  graph_maker_t maker = make_plain_graph();
  for (size_t n = 1;; ++n) {
    delta_test_allocator_t faults;
    delta_problem_t *problem = NULL;
    const uint32_t *tensors = NULL;
    delta_test_allocator_init(&faults, n, DELTA_TEST_FAIL_ONCE);
    delta_status_t status = convert(&maker, true, delta_test_allocator_interface(&faults), &problem, &tensors);
    delta_problem_free(problem);
    cr_assert_eq(faults.live_bytes, 0);
    if (!status) break;
    cr_assert_eq(delta_status_code(status), DELTA_STATUS_OUT_OF_MEMORY);
    delta_status_free(status);
  }
  delta_graph_free(maker.graph);
}

// ---- The state area

Test(problem, states_of_several_programs_share_one_area) {
  graph_maker_t first = make_plain_graph(), second;
  begin_graph(&second);
  add_state(&second, "m", DELTA_STATE_MOMENT, &(delta_shape_t){.rank = 1, .dims = {17}});
  add_state(&second, "w", DELTA_STATE_PARAMETER, &matrix);
  delta_plan_t *plan = NULL;
  delta_test_must(delta_plan_create_empty(delta_allocator_system(), &plan));
  delta_test_must(delta_plan_place_states(plan, first.graph, 64));
  delta_test_must(delta_plan_place_states(plan, second.graph, 64));
  cr_assert_eq(plan->state_count, 3);
  cr_assert_str_eq(plan->states[2].name, "m");
  cr_assert_eq(plan->states[1].offset_bytes, 64);
  cr_assert_eq(plan->states[2].offset_bytes, 128);
  cr_assert_eq(plan->states[2].size_bytes, 128);
  cr_assert_eq(plan->totals.state_bytes, 256);

  second.graph->states.items[1].shape = vector;
  delta_status_t status = delta_plan_place_states(plan, second.graph, 64);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_MISMATCH);
  cr_assert_not_null(strstr(delta_status_message(status), "state 'w': the plan has float32 [2, 3], the graph float32 [6]"));
  delta_status_free(status);
  delta_plan_free(plan);
  delta_status_free(delta_emit_finish(&first.emit));
  delta_status_free(delta_emit_finish(&second.emit));
  delta_graph_free(first.graph);
  delta_graph_free(second.graph);
}
