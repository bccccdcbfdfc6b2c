// Policies: names and help of the rows.
#include "base/text.h"
#include "planner/planner.h"

#include <string.h>

static const delta_policy_info_t policies[DELTA_POLICY_COUNT] = {
#define DELTA_POLICY_ROW(id, name, available, help) {name, available, help},
    DELTA_POLICIES(DELTA_POLICY_ROW)
#undef DELTA_POLICY_ROW
};

const delta_policy_info_t *delta_policy_info(delta_policy_t policy) { return &policies[policy]; }

static delta_status_t refuse_policy(const char *name, bool is_known) {
  delta_text_t names;
  delta_text_init(&names, delta_allocator_system());
  delta_status_t status = DELTA_OK;
  for (int i = 0; i < DELTA_POLICY_COUNT && !status; ++i) {
    if (policies[i].available) status = delta_text_append(&names, "%s%s", names.count > 0 ? ", " : "", policies[i].name);
  }
  if (!status) {
    status = delta_status_make(INVALID_ARGUMENT, "policy '%s' %s; this version has %s", name,
                               is_known ? "is not available yet" : "does not exist", names.items);
  }
  delta_text_deinit(&names);
  return status;
}

delta_status_t delta_policy_parse(const char *name, delta_policy_t *out_policy) {
  for (int i = 0; i < DELTA_POLICY_COUNT; ++i) {
    if (strcmp(policies[i].name, name) != 0) continue;
    if (!policies[i].available) return refuse_policy(name, true);
    *out_policy = (delta_policy_t)i;
    return DELTA_OK;
  }
  return refuse_policy(name, false);
}
