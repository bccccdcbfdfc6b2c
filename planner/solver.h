// Integer solver: what the planner asks of a program for integer linear programming that it does not bring along. The planner writes the program as text; who calls the planner
// runs a solver on it.
#ifndef DELTA_PLANNER_SOLVER_H_
#define DELTA_PLANNER_SOLVER_H_

#include "base/text.h"

typedef struct delta_integer_solution {
  bool is_found;      // there are values; else nothing was found in time, or there is nothing
  bool is_optimal;    // proven
  bool is_infeasible; // proven
} delta_integer_solution_t;

typedef struct delta_integer_solver {
  void *self; // Borrowed.
  // Solves `program`, in the LP format, whose variables are called x0, x1, ... below `value_count`; sets their values, 0 for those that the program does not have.
  delta_status_t (*solve)(void *self, const char *program, double *values, size_t value_count, delta_integer_solution_t *out_solution);
} delta_integer_solver_t;

#endif // DELTA_PLANNER_SOLVER_H_
