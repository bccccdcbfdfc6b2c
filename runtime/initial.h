// Initial: first values of a state that the model does not hold, drawn by the state's role, so that a model without its weights can be timed.
#ifndef DELTA_RUNTIME_INITIAL_H_
#define DELTA_RUNTIME_INITIAL_H_

#include "plans/plan.h"

// Fills `data` with the state's values: matrices and kernels are normal with He's deviation sqrt(2 / fan-in) (of a matrix, whose fan-in depends on its
// use, the smaller dimension counts), scales and running variances are 1, everything else 0. Equal seeds give equal values.
void delta_initial_draw(const delta_plan_state_t *state, uint64_t seed, void *data);

#endif // DELTA_RUNTIME_INITIAL_H_
