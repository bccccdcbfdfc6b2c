// Fuzz target: profiles. What the reader accepts is written and read again; estimates from it are finite.
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/profile.h"

static void check_round_trip(const delta_profile_t *profile) {
  delta_text_t text, again;
  delta_profile_t *copy = NULL;
  delta_text_init(&text, delta_allocator_system());
  delta_text_init(&again, delta_allocator_system());
  if (delta_profile_to_json(profile, &text)) abort();
  if (delta_profile_parse(text.items, text.count, "fuzz", DELTA_PROFILE_STRICT, delta_allocator_system(), &copy)) abort();
  if (delta_profile_to_json(copy, &again)) abort();
  if (strcmp(text.items, again.items) != 0) abort();
  delta_profile_free(copy);
  delta_text_deinit(&text);
  delta_text_deinit(&again);
}

// The longest that a step of a large model can take by a roofline that was accepted.
static void check_roofline(const delta_profile_t *profile) {
  static const double flops = 1e18, bytes = 1e15;
  const delta_roofline_t roofline = delta_profile_roofline(profile);
  const double slowest = flops / (roofline.flops_per_second * roofline.conv_efficiency / roofline.plain_conv_slowdown) +
                         bytes / (roofline.memory_bytes_per_second * roofline.memory_efficiency) + roofline.launch_seconds;
  if (!isfinite(slowest) || slowest <= 0) abort();
}

static delta_status_t parse(const char *text, size_t size_bytes, delta_profile_reading_t reading, delta_profile_t **out_profile) {
  return delta_profile_parse(text, size_bytes, "fuzz", reading, delta_allocator_system(), out_profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  char *text = malloc(size_bytes + 1);
  delta_profile_t *profile = NULL, *forgiven = NULL;
  if (!text) return 0;
  memcpy(text, data, size_bytes);
  text[size_bytes] = 0;
  delta_status_t status = parse(text, size_bytes, DELTA_PROFILE_STRICT, &profile);
  if (!status) check_round_trip(profile);
  if (!status) check_roofline(profile);
  delta_status_free(status);
  delta_status_free(parse(text, size_bytes, DELTA_PROFILE_FORGIVING, &forgiven));
  if (profile && !forgiven) abort();
  delta_profile_free(forgiven);
  delta_profile_free(profile);
  free(text);
  return 0;
}
