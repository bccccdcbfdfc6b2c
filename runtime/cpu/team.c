// Static sharing of a range of items.
#include "runtime/cpu/team.h"

#include <omp.h>

static bool is_worth_sharing(int64_t count, int64_t item_bytes) {
  if (item_bytes < 1) item_bytes = 1;
  return count > 1 && count >= (DELTA_TEAM_LEAST_BYTES + item_bytes - 1) / item_bytes;
}

// The first item of a thread, without count * thread, which could overflow.
static int64_t first_item(int64_t count, int32_t thread, int32_t size) {
  int64_t each = count / size, left = count % size;
  return each * thread + (thread < left ? thread : left);
}

void delta_team_run(int32_t threads, int64_t count, int64_t item_bytes, delta_team_part_t *part, const void *context) {
  if (count <= 0) return;
  if (threads == 1 || !is_worth_sharing(count, item_bytes)) {
    part(context, 0, count, 0);
    return;
  }
#pragma omp parallel num_threads(threads)
  {
    int32_t thread = omp_get_thread_num(), size = omp_get_num_threads();
    int64_t begin = first_item(count, thread, size), end = first_item(count, thread + 1, size);
    if (begin < end) part(context, begin, end, thread);
  }
}
