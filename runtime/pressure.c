// Pressure: margins, and a step back that is slower than the step down.
#include "runtime/pressure.h"

// What is left free for others: below the first it is short, and above the second there is enough again.
static const int64_t SHORT_SYSTEM_BYTES = INT64_C(48) << 20, ENOUGH_SYSTEM_BYTES = INT64_C(160) << 20;
static const int64_t SHORT_PROCESS_BYTES = INT64_C(2) << 20, ENOUGH_PROCESS_BYTES = INT64_C(8) << 20;
// Waiting for memory so much means that it is short whatever the other numbers say; the budget is lowered by a part each time.
static const double MOST_STALLED_PERCENT = 20, CALM_STALLED_PERCENT = 5;
enum { STALL_PARTS = 8, CALM_LOOKS = 5 };
static const double PERIOD_SECONDS = 0.25;

void delta_pressure_init(delta_pressure_t *pressure) {
  *pressure = (delta_pressure_t){.reader = delta_memory_reader_of_system(), .period_seconds = PERIOD_SECONDS, .limit_bytes = UINT64_MAX};
}

// Bytes by which `left` is short of what must stay free; negative: there are so many more.
static int64_t lacking(int64_t left_bytes, int64_t margin_bytes) {
  return left_bytes == INT64_MAX ? -INT64_MAX : margin_bytes - left_bytes;
}

static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static uint64_t less(uint64_t bytes, uint64_t taken_bytes) { return bytes > taken_bytes ? bytes - taken_bytes : 0; }

static bool lower_to(delta_pressure_t *pressure, uint64_t limit_bytes) {
  pressure->calm_looks = 0;
  if (limit_bytes >= pressure->limit_bytes || limit_bytes <= pressure->refused_bytes) return false;
  pressure->limit_bytes = limit_bytes;
  return true;
}

// Back to no limit once there has been enough for all that is wanted for a few looks.
static bool raise(delta_pressure_t *pressure, uint64_t committed_bytes, uint64_t wanted_bytes) {
  const delta_memory_numbers_t *numbers = &pressure->numbers;
  if (pressure->limit_bytes == UINT64_MAX) return false;
  const int64_t more_bytes = (int64_t)less(wanted_bytes, committed_bytes);
  const bool is_calm = lacking(numbers->system_left_bytes, ENOUGH_SYSTEM_BYTES) <= -more_bytes &&
                       lacking(numbers->process_left_bytes, ENOUGH_PROCESS_BYTES) <= -more_bytes &&
                       numbers->stalled_percent <= CALM_STALLED_PERCENT;
  pressure->calm_looks = is_calm ? pressure->calm_looks + 1 : 0;
  if (pressure->calm_looks < CALM_LOOKS) return false;
  pressure->calm_looks = 0;
  pressure->limit_bytes = UINT64_MAX;
  return true;
}

void delta_pressure_refuse(delta_pressure_t *pressure) {
  if (pressure->limit_bytes < UINT64_MAX && pressure->limit_bytes > pressure->refused_bytes)
    pressure->refused_bytes = pressure->limit_bytes;
  pressure->limit_bytes = UINT64_MAX;
}

bool delta_pressure_look(delta_pressure_t *pressure, double now_seconds, uint64_t committed_bytes, uint64_t wanted_bytes) {
  if (pressure->is_off || now_seconds < pressure->next_seconds) return false;
  pressure->next_seconds = now_seconds + pressure->period_seconds;
  pressure->reader.read(pressure->reader.self, &pressure->numbers);
  const delta_memory_numbers_t *numbers = &pressure->numbers;
  const int64_t short_bytes =
      most(lacking(numbers->system_left_bytes, SHORT_SYSTEM_BYTES), lacking(numbers->process_left_bytes, SHORT_PROCESS_BYTES));
  if (short_bytes > 0) return lower_to(pressure, less(committed_bytes, (uint64_t)short_bytes));
  if (numbers->stalled_percent > MOST_STALLED_PERCENT) return lower_to(pressure, committed_bytes - committed_bytes / STALL_PARTS);
  return raise(pressure, committed_bytes, wanted_bytes);
}
