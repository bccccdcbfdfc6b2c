// Policies: names and help of the rows.
#include "base/text.h"
#include "planner/planner.h"

#include <string.h>

static const delta_policy_info_t policies[DELTA_POLICY_COUNT] = {
#define DELTA_POLICY_ROW(id, name, help) {name, help},
    DELTA_POLICIES(DELTA_POLICY_ROW)
#undef DELTA_POLICY_ROW
};

const delta_policy_info_t *delta_policy_info(delta_policy_t policy) { return &policies[policy]; }

static delta_status_t refuse_policy(const char *name) {
  delta_text_t names;
  delta_text_init(&names, delta_allocator_system());
  delta_status_t status = DELTA_OK;
  for (int i = 0; i < DELTA_POLICY_COUNT && !status; ++i) {
    status = delta_text_append(&names, "%s%s", names.count > 0 ? ", " : "", policies[i].name);
  }
  if (!status) status = delta_status_make(INVALID_ARGUMENT, "policy '%s' does not exist; there are %s", name, names.items);
  delta_text_deinit(&names);
  return status;
}

delta_status_t delta_policy_parse(const char *name, delta_policy_t *out_policy) {
  for (int i = 0; i < DELTA_POLICY_COUNT; ++i) {
    if (strcmp(policies[i].name, name) != 0) continue;
    *out_policy = (delta_policy_t)i;
    return DELTA_OK;
  }
  return refuse_policy(name);
}
