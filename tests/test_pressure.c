// Pressure: numbers that are played; what follows from them, and that it comes back later than it went. And the numbers of this system, which are sensible.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <sys/resource.h>

#include "runtime/pressure.h"

enum { LOOKS = 12 };
#define MIB(n) (INT64_C(n) << 20)

static void play(void *self, delta_memory_numbers_t *out_numbers) { *out_numbers = *(const delta_memory_numbers_t *)self; }

// The limit after some looks at the same numbers, each of which is due.
static uint64_t look(delta_pressure_t *pressure, delta_memory_numbers_t numbers, uint64_t committed_bytes, int count) {
  pressure->reader = (delta_memory_reader_t){.read = play, .self = &numbers};
  pressure->period_seconds = 0;
  for (int i = 0; i < count; ++i) delta_pressure_look(pressure, 0, committed_bytes, MIB(1000));
  return pressure->limit_bytes;
}

typedef struct pressure_case {
  const char *name;
  delta_memory_numbers_t numbers;
  uint64_t wanted_bytes; // the limit with 1000 MiB committed
} pressure_case_t;

ParameterizedTestParameters(pressure, limits) {
  static pressure_case_t cases[] = {
      {"much of everything", {MIB(4000), MIB(4000), 0}, UINT64_MAX},
      {"no limit known", {INT64_MAX, INT64_MAX, 0}, UINT64_MAX},
      {"the system is short of 40 MiB", {MIB(8), INT64_MAX, 0}, MIB(960)},
      {"the process has passed its limit by 10 MiB", {INT64_MAX, -MIB(10), 0}, MIB(988)},
      {"the larger lack counts", {MIB(8), MIB(1), 0}, MIB(960)},
      {"little, but enough", {MIB(100), MIB(4), 0}, UINT64_MAX},
      {"much is left, and yet others wait for memory", {MIB(4000), INT64_MAX, 30}, MIB(875)},
      {"more lacks than there is", {-MIB(5000), INT64_MAX, 0}, UINT64_MAX}, // nothing is left to give: it is not asked for
  };
  return cr_make_param_array(pressure_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(pressure_case_t *c, pressure, limits) {
  delta_pressure_t pressure;
  delta_pressure_init(&pressure);
  cr_expect_eq(look(&pressure, c->numbers, MIB(1000), 1), c->wanted_bytes, "%s: %llu", c->name, (unsigned long long)pressure.limit_bytes);
}

Test(pressure, what_is_back_is_taken_after_a_while) {
  static const delta_memory_numbers_t short_of_it = {MIB(8), INT64_MAX, 0}, some = {MIB(100), INT64_MAX, 0},
                                      much = {MIB(900), INT64_MAX, 0};
  delta_pressure_t pressure;
  delta_pressure_init(&pressure);
  cr_expect_eq(look(&pressure, short_of_it, MIB(1000), 1), MIB(960));
  cr_expect_eq(look(&pressure, some, MIB(960), LOOKS), MIB(960), "enough to stay, not to grow");
  cr_expect_eq(look(&pressure, much, MIB(960), 4), MIB(960), "not yet");
  cr_expect_eq(look(&pressure, some, MIB(960), 1), MIB(960), "which begins the wait anew");
  cr_expect_eq(look(&pressure, much, MIB(960), 4), MIB(960));
  cr_expect_eq(look(&pressure, much, MIB(960), 1), UINT64_MAX);
}

Test(pressure, a_refused_limit_is_not_asked_for_again) {
  static const delta_memory_numbers_t short_of_it = {MIB(8), INT64_MAX, 0}, less_short = {MIB(38), INT64_MAX, 0};
  delta_pressure_t pressure;
  delta_pressure_init(&pressure);
  cr_expect_eq(look(&pressure, short_of_it, MIB(1000), 1), MIB(960));
  delta_pressure_refuse(&pressure);
  cr_expect_eq(look(&pressure, short_of_it, MIB(1000), LOOKS), UINT64_MAX);
  cr_expect_eq(look(&pressure, less_short, MIB(1000), 1), MIB(990));
}

Test(pressure, a_look_has_its_time) {
  delta_memory_numbers_t numbers = {MIB(8), INT64_MAX, 0};
  delta_pressure_t pressure;
  delta_pressure_init(&pressure);
  pressure.reader = (delta_memory_reader_t){.read = play, .self = &numbers};
  cr_expect(delta_pressure_look(&pressure, 1, MIB(1000), MIB(1000)));
  numbers.system_left_bytes = 0;
  cr_expect_not(delta_pressure_look(&pressure, 1 + pressure.period_seconds / 2, MIB(1000), MIB(1000)));
  cr_expect(delta_pressure_look(&pressure, 1.01 + pressure.period_seconds, MIB(1000), MIB(1000)));
  pressure.is_off = true;
  numbers.system_left_bytes = -MIB(100);
  cr_expect_not(delta_pressure_look(&pressure, 100, MIB(1000), MIB(1000)));
}

#ifndef __SANITIZE_ADDRESS__ // whose shadow memory no limit of data leaves room for
Test(pressure, this_system_tells) {
  const delta_memory_reader_t reader = delta_memory_reader_of_system();
  delta_memory_numbers_t before, after;
  struct rlimit limit;
  reader.read(reader.self, &before);
  cr_expect_gt(before.system_left_bytes, 0);
  cr_expect_lt(before.system_left_bytes, INT64_C(1) << 50);
  cr_expect(before.stalled_percent >= 0 && before.stalled_percent <= 100);
  cr_assert_eq(getrlimit(RLIMIT_DATA, &limit), 0);
  limit.rlim_cur = MIB(3000);
  cr_assert_eq(setrlimit(RLIMIT_DATA, &limit), 0);
  reader.read(reader.self, &after);
  cr_expect(after.process_left_bytes > 0 && after.process_left_bytes < MIB(3000), "%lld", (long long)after.process_left_bytes);
}
#endif
