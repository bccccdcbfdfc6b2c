// Rule: DELTA's own filter and director (arXiv 2203.15980), as its authors released them and with their mistakes corrected. They look at one moment at a time:
// whenever a step is over the budget, the largest and stalest tensor goes, and one ratio says how it comes back.
#ifndef DELTA_PLANNER_RULE_H_
#define DELTA_PLANNER_RULE_H_

#include "planner/release.h"

typedef struct delta_rule {
  // As released: what a step leaves behind is compared with the budget, after it has allocated; costs of operators count a thousandfold, because copies are in
  // microseconds and operators in nanoseconds, and only the producer's counts; what was rebuilt before is swapped, by a cost that is never written.
  // Otherwise: the budget is checked before the step, and a rebuild costs all that runs again.
  bool as_released;
} delta_rule_t;

// Applies the rule from the first step to the last, on a releaser that keeps everything. Steps that stay over the budget, because no tensor may go there, are left.
DELTA_MUST_USE delta_status_t delta_rule_apply(const delta_rule_t *rule, uint64_t budget_bytes, delta_releaser_t *releaser);

#endif // DELTA_PLANNER_RULE_H_
