// Makes names unique. Each name in use remembers the next number to try behind it, so that a thousand equal names cost a thousand steps.
#include "onnx/names.h"

#include <inttypes.h>
#include <string.h>

void delta_names_init(delta_names_t *names, delta_allocator_t allocator) { delta_map_init(&names->next_number_by_name, allocator); }

void delta_names_deinit(delta_names_t *names) { delta_map_deinit(&names->next_number_by_name); }

delta_status_t delta_names_take(delta_names_t *names, const char *name) {
  if (delta_map_find(&names->next_number_by_name, name) != DELTA_MAP_NONE) return DELTA_OK;
  return delta_map_set(&names->next_number_by_name, name, 2);
}

delta_status_t delta_names_make(delta_names_t *names, delta_region_t *region, const char *wanted, const char **out_name) {
  char *made = NULL;
  uint32_t number = delta_map_find(&names->next_number_by_name, wanted);
  if (number == DELTA_MAP_NONE) {
    DELTA_RETURN_IF_ERROR(delta_region_copy_string(region, wanted, strlen(wanted), &made));
  } else {
    do {
      DELTA_RETURN_IF_ERROR(delta_region_format(region, &made, "%s#%" PRIu32, wanted, number++));
    } while (delta_map_find(&names->next_number_by_name, made) != DELTA_MAP_NONE);
    DELTA_RETURN_IF_ERROR(delta_map_set(&names->next_number_by_name, wanted, number));
  }
  *out_name = made;
  return delta_names_take(names, made);
}
