// Short forms for tables of kernel cases.
#ifndef DELTA_TESTS_SUPPORT_CASE_MACROS_H_
#define DELTA_TESTS_SUPPORT_CASE_MACROS_H_

#include <math.h>

#include "tests/support/kernel_case.h"

#define F32   DELTA_DTYPE_FLOAT32
#define F64   DELTA_DTYPE_FLOAT64
#define F16   DELTA_DTYPE_FLOAT16
#define BF16  DELTA_DTYPE_BFLOAT16
#define I32   DELTA_DTYPE_INT32
#define I64   DELTA_DTYPE_INT64
#define U8    DELTA_DTYPE_UINT8
#define BOOL8 DELTA_DTYPE_BOOL
#define SCALAR \
  {            \
    0, { 0 }   \
  }
#define SHAPE(...)                                                                 \
  {                                                                                \
    (int32_t)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), { __VA_ARGS__ } \
  }
#define NODE(op, type, ...) \
  { DELTA_CORE_##op, &(const type){__VA_ARGS__}, sizeof(type) }

// Operands: random float32, integers in [0, limit), indices in [-limit, limit), one value.
#define REALS(...) \
  { F32, SHAPE(__VA_ARGS__), DELTA_FILL_RANDOM, 0 }
#define SPECIALS(...) \
  { F32, SHAPE(__VA_ARGS__), DELTA_FILL_SPECIAL, 0 }
#define OF(dtype, fill, limit, ...) \
  { dtype, SHAPE(__VA_ARGS__), DELTA_FILL_##fill, limit }
#define VALUE(dtype, value) \
  { dtype, SCALAR, DELTA_FILL_VALUE, value }

#define CHECK_KERNEL_CASES(rows)                                                          \
  for (size_t case_index = 0; case_index < sizeof(rows) / sizeof *(rows); ++case_index) { \
    char reason[DELTA_KERNEL_CASE_REASON_BYTES] = "";                                     \
    cr_expect(delta_kernel_case_run(&(rows)[case_index], reason), "%s", reason);          \
  }

#endif // DELTA_TESTS_SUPPORT_CASE_MACROS_H_
