// Integer solver: integer programs are given to the program `cbc` of COIN-OR, where it is installed, as a process with files of its own.
#ifndef DELTA_RUNTIME_INTEGER_SOLVER_H_
#define DELTA_RUNTIME_INTEGER_SOLVER_H_

#include "planner/solver.h"

typedef struct delta_cbc {
  double limit_seconds; // of each call; 0: ten
  delta_allocator_t allocator;
} delta_cbc_t;

// Whether a folder of PATH has the program.
bool delta_cbc_is_installed(void);
// A solver that calls it; `cbc` is borrowed. Its errors: NOT_FOUND without the program, IO where files cannot be written or the program fails.
delta_integer_solver_t delta_cbc_solver(delta_cbc_t *cbc);

#endif // DELTA_RUNTIME_INTEGER_SOLVER_H_
