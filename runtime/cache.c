// Cache: paths below the user's folder for caches.
#include "runtime/cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/text.h"

// Makes the folders of a path.
static bool make_folders(char *path) {
  for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    const bool is_there = mkdir(path, 0700) == 0 || errno == EEXIST;
    *slash = '/';
    if (!is_there) return false;
  }
  return true;
}

delta_status_t delta_cache_path(const char *name, delta_allocator_t allocator, char **out_path) {
  *out_path = NULL;
  const char *cache = getenv("XDG_CACHE_HOME"), *below = "";
  if (!cache || cache[0] != '/') {
    cache = getenv("HOME");
    below = "/.cache";
  }
  if (!cache || cache[0] != '/') return delta_status_make(NOT_FOUND, "no folder for caches: set XDG_CACHE_HOME or HOME");
  delta_text_t text;
  delta_text_init(&text, allocator);
  const delta_status_t status = delta_text_append(&text, "%s%s/delta/%s", cache, below, name);
  if (!status && make_folders(text.items)) {
    *out_path = text.items;
    return DELTA_OK;
  }
  const delta_status_t failure =
      status ? status : delta_status_make(IO, "cannot make the folder of the cache's file '%s': %s", text.items, strerror(errno));
  delta_text_deinit(&text);
  return failure;
}
