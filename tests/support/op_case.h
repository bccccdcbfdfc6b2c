// Operator case: one small model given as text, and what its first output must be or what its import must say.
#ifndef DELTA_TESTS_SUPPORT_OP_CASE_H_
#define DELTA_TESTS_SUPPORT_OP_CASE_H_

// `expected` is a tensor ("float32 [2] 1 2") that the first output must equal, or "error: " and a part of the message.
typedef struct delta_test_op_case {
  const char *name;
  const char *model; // tests/support/model_text.h
  const char *expected;
} delta_test_op_case_t;

// Imports the model as exported, runs it by reference on zero inputs and fails the running test where it differs.
void delta_test_expect_op(const delta_test_op_case_t *c);

#endif // DELTA_TESTS_SUPPORT_OP_CASE_H_
