// Rhu et al., "vDNN: virtualized deep neural networks for scalable, memory-efficient neural network design" (MICRO 2016): inputs of layers go below after the last forward
// step that reads them, and come back for the backward pass. Either those of layers with weights, or all.
#include "planner/rival.h"

#define NONE DELTA_PROBLEM_NONE

static delta_status_t offer_swaps(delta_rival_t *rival, bool of_all) {
  delta_rival_reset(rival);
  rival->late_offload = true;
  for (uint32_t p = 0; p < rival->turn; ++p) {
    const delta_problem_step_t *step = delta_rival_step(rival, p);
    if (!of_all && !delta_rival_is_layer(rival, p)) continue;
    for (uint32_t k = 0; k < step->input_count; ++k) {
      const uint32_t gap = delta_rival_turn_gap(rival, step->inputs[k]);
      if (gap == NONE || delta_rival_is_tail(rival, gap) || !delta_rival_may(rival, gap, DELTA_ACTION_SWAP)) continue;
      rival->actions[gap] = DELTA_ACTION_SWAP;
    }
  }
  return delta_rival_offer(rival);
}

delta_status_t delta_rule_vdnn(delta_rival_t *rival) {
  DELTA_RETURN_IF_ERROR(offer_swaps(rival, false));
  return offer_swaps(rival, true);
}
