// Order: legal on any problem; updates early or late; constants and what only updates need right before their readers.
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/planning.h"

#define NONE DELTA_PROBLEM_NONE

// Positions by step; each step must stand once.
static uint32_t *positions_of(const delta_problem_t *problem, const delta_order_t *order) {
  uint32_t *positions = malloc((problem->step_count + 1) * sizeof *positions);
  memset(positions, 0xFF, (problem->step_count + 1) * sizeof *positions);
  cr_assert_eq(order->step_count, problem->step_count);
  for (uint32_t p = 0; p < order->step_count; ++p) {
    cr_assert_eq(positions[order->steps[p]], NONE);
    positions[order->steps[p]] = p;
  }
  return positions;
}

static void assert_legal(const delta_problem_t *problem, const uint32_t *positions) {
  for (uint32_t s = 0; s < problem->step_count; ++s) {
    const delta_problem_step_t *step = &problem->steps[s];
    for (uint32_t k = 0; k < step->output_count; ++k) {
      const uint32_t tensor = step->outputs[k], state = problem->tensors[tensor].becomes_state;
      for (uint32_t r = 0; r < problem->step_count; ++r) {
        for (uint32_t i = 0; i < problem->steps[r].input_count; ++i) {
          const uint32_t read = problem->steps[r].inputs[i];
          if (read == tensor) cr_assert_lt(positions[s], positions[r]);
          if (read == state && r != s) cr_assert_lt(positions[r], positions[s]);
        }
      }
    }
  }
}

Test(planner_order, is_legal_for_random_problems) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    delta_problem_t *problem = delta_test_random_problem(seed, 1 + (uint32_t)(seed % 50));
    delta_order_t order;
    delta_test_must(delta_order_make(problem, seed % 2, delta_allocator_system(), &order));
    uint32_t *positions = positions_of(problem, &order);
    assert_legal(problem, positions);
    free(positions);
    delta_order_deinit(&order);
    delta_problem_free(problem);
  }
}

// ---- Problems of few steps: inputs and outputs as text, "xw>a" reads x and w and makes a. Upper-case W' is written "Q": it becomes W.
// Letters: x input; W, V states; P becomes V, Q becomes W; y output; others plain.

typedef struct order_case {
  const char *steps[10];
  bool early;
  const char *expected; // digits of steps
} order_case_t;

enum { LETTERS = 128 };

static delta_problem_t *parse_problem(const char *const *texts) {
  delta_problem_t *problem = NULL;
  uint32_t tensor_of[LETTERS];
  memset(tensor_of, 0xFF, sizeof tensor_of);
  delta_test_must(delta_problem_create(delta_allocator_system(), &problem));
  problem->alignment_bytes = 64;
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, LETTERS, &problem->tensors));
  delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, 10, &problem->steps));
  const char *all = "xWVPQyabcdefgh";
  for (const char *letter = all; *letter; ++letter) {
    bool is_named = *letter == 'W' || *letter == 'V';
    for (int s = 0; s < 10 && texts[s]; ++s) is_named |= strchr(texts[s], *letter) != NULL;
    if (!is_named) continue;
    char *name = NULL;
    delta_test_must(delta_region_format(&problem->region, &name, "%c", *letter));
    delta_problem_tensor_t *tensor = &problem->tensors[problem->tensor_count];
    *tensor = (delta_problem_tensor_t){.name = name, .size_bytes = 64, .becomes_state = NONE};
    if (*letter == 'x') tensor->flags = DELTA_TENSOR_INPUT;
    if (*letter == 'W' || *letter == 'V') tensor->flags = DELTA_TENSOR_STATE;
    if (*letter == 'y') tensor->flags = DELTA_TENSOR_OUTPUT;
    if (*letter == 'Q' || *letter == 'P') tensor->becomes_state = tensor_of[*letter == 'Q' ? 'W' : 'V'];
    tensor_of[(int)*letter] = problem->tensor_count++;
  }
  for (int s = 0; s < 10 && texts[s]; ++s) {
    delta_problem_step_t *step = &problem->steps[problem->step_count++];
    *step = (delta_problem_step_t){.name = texts[s], .node = NONE, .flags = DELTA_STEP_PURE};
    delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, 8, &step->inputs));
    delta_test_must(DELTA_REGION_ALLOCATE(&problem->region, 8, &step->outputs));
    bool is_output = false;
    for (const char *letter = texts[s]; *letter; ++letter) {
      if (*letter == '>') {
        is_output = true;
      } else if (is_output) {
        step->outputs[step->output_count++] = tensor_of[(int)*letter];
        if (*letter == 'P' || *letter == 'Q') step->flags = DELTA_STEP_UPDATE;
      } else {
        step->inputs[step->input_count++] = tensor_of[(int)*letter];
      }
    }
  }
  delta_test_must(delta_problem_check(problem));
  return problem;
}

static const order_case_t order_cases[] = {
    // Forward, backward, updates at the end: kept, or as soon as the gradient is there and the weight has been read.
    {{"xW>a", "aV>b", "b>y", "ab>c", "bV>d", "xd>e", "Vc>P", "We>Q"}, false, "01234567"},
    {{"xW>a", "aV>b", "b>y", "ab>c", "bV>d", "xd>e", "Vc>P", "We>Q"}, true, "01346572"},
    // An update stands before another reader of its state: it has to wait for it.
    {{"xW>a", "Wa>Q", "aW>y"}, true, "021"},
    {{"xW>a", "Wa>Q", "aW>y"}, false, "021"},
    // A constant runs right before its first reader, a constant that is the result last.
    {{">a", "x>b", "b>c", "ca>d", "da>y"}, true, "12034"},
    {{">y", "x>b", "b>c"}, true, "120"},
    // What only an update needs runs as soon as it can (gradient's square), or right before the update when it needs only states and inputs.
    {{"x>a", "a>b", "b>y", "Wx>c", "a>d", "Wcd>Q"}, true, "043512"},
    {{"x>a", "a>b", "b>y", "Wx>c", "a>d", "Wcd>Q"}, false, "012345"},
    // A chain of such steps, on a constant.
    {{">a", "aV>b", "x>c", "cW>d", "Wdb>Q", "d>y"}, true, "230145"},
    // An update without inputs runs when its state has been read.
    {{"xW>a", ">Q", "a>y"}, true, "012"},
    {{"xW>a", ">Q", "a>y"}, false, "021"},
    // A reader of a state's new value.
    {{"xW>a", "Wa>Q", "Q>y"}, false, "012"},
};

Test(planner_order, small_problems_have_the_order_expected) {
  for (size_t i = 0; i < sizeof order_cases / sizeof *order_cases; ++i) {
    delta_problem_t *problem = parse_problem(order_cases[i].steps);
    delta_order_t order;
    delta_test_must(delta_order_make(problem, order_cases[i].early, delta_allocator_system(), &order));
    char text[12] = {0};
    for (uint32_t p = 0; p < order.step_count; ++p) text[p] = (char)('0' + order.steps[p]);
    cr_expect_str_eq(text, order_cases[i].expected, "case %zu: %s, expected %s", i, text, order_cases[i].expected);
    delta_order_deinit(&order);
    delta_problem_free(problem);
  }
}

Test(planner_order, two_updates_that_need_each_others_old_state_are_refused) {
  delta_problem_t *problem = parse_problem((const char *const[10]){"xWV>y", "WV>Q", "WV>P"});
  delta_order_t order;
  delta_status_t status = delta_order_make(problem, true, delta_allocator_system(), &order);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_MALFORMED);
  cr_assert_not_null(strstr(delta_status_message(status), "'WV>Q' cannot be ordered"), "%s", delta_status_message(status));
  delta_status_free(status);
  delta_problem_free(problem);
}
