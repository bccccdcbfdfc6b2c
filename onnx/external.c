// Resolves and opens external data files. The path is resolved first, then walked again from the folder it must lie in without following any
// symbolic link, so that a link changed in between cannot lead out.
#include "onnx/external.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

// O_NONBLOCK: opening a pipe must not wait for a writer.
enum { OPEN_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

static bool has_parent_component(const char *location) {
  for (const char *component = location; component;) {
    size_t length = strcspn(component, "/\\");
    if (length == 2 && memcmp(component, "..", 2) == 0) return true;
    component = component[length] ? component + length + 1 : NULL;
  }
  return false;
}

delta_status_t delta_external_check_location(const char *location) {
  const char *problem = NULL;
  if (!*location) {
    problem = "is empty";
  } else if (*location == '/') {
    problem = "is absolute; it must be relative to the model's folder";
  } else if (has_parent_component(location)) {
    problem = "contains '..'; it must stay in the model's folder";
  } else if (strchr(location, '\\')) {
    problem = "contains a backslash; components are separated by '/'";
  } else if (strstr(location, "://")) {
    problem = "is a URL; only files beside the model are read";
  }
  if (!problem) return DELTA_OK;
  return delta_status_make(MALFORMED, "external data location '%.200s' %s", location, problem);
}

delta_status_t delta_external_check_folder(const char *folder) {
  struct stat facts;
  if (!folder) return DELTA_OK;
  if (stat(folder, &facts) != 0)
    return delta_status_make(INVALID_ARGUMENT, "--external-data '%.200s': %s", folder,
                             errno == ENOENT ? "there is no such folder" : "it cannot be looked at");
  if (!S_ISDIR(facts.st_mode)) return delta_status_make(INVALID_ARGUMENT, "--external-data '%.200s': it is not a folder", folder);
  return DELTA_OK;
}

static delta_status_t parse_number(const char *key, const char *text, uint64_t *out_value) {
  char *end = NULL;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || errno || value > INT64_MAX)
    return delta_status_make(MALFORMED, "external data %s '%.40s' is not a decimal number from 0 to 2^63-1", key, text);
  *out_value = value;
  return DELTA_OK;
}

delta_status_t delta_external_parse(const delta_external_entry_t *entries, size_t count, delta_external_info_t *out_info) {
  delta_external_info_t info = {0};
  bool has_offset = false;
  for (size_t i = 0; i < count; ++i) {
    const char *key = entries[i].key, *value = entries[i].value;
    bool is_location = strcmp(key, "location") == 0, is_offset = strcmp(key, "offset") == 0, is_length = strcmp(key, "length") == 0;
    if ((is_location && info.location) || (is_offset && has_offset) || (is_length && info.has_length))
      return delta_status_make(MALFORMED, "external data has the key '%s' twice", key);
    if (is_location) {
      info.location = value;
    } else if (is_offset) {
      has_offset = true;
      DELTA_RETURN_IF_ERROR(parse_number(key, value, &info.offset_bytes));
    } else if (is_length) {
      info.has_length = true;
      DELTA_RETURN_IF_ERROR(parse_number(key, value, &info.length_bytes));
    }
  }
  if (!info.location) return delta_status_make(MALFORMED, "the data is external but no location is given");
  DELTA_RETURN_IF_ERROR(delta_external_check_location(info.location));
  *out_info = info;
  return DELTA_OK;
}

static delta_status_t open_error(const char *location, int error) {
  char reason[128];
  const char *text = strerror_r(error, reason, sizeof reason);
  if (error == ENOENT || error == ENOTDIR)
    return delta_status_make(
        NOT_FOUND, "external data file '%.200s' is missing; put it beside the model or name its folder by --external-data", location);
  if (error == ELOOP)
    return delta_status_make(
        MALFORMED, "external data file '%.200s' is a symbolic link that leads in a circle or changed while it was opened", location);
  return delta_status_make(IO, "cannot open external data file '%.200s': %s", location, text);
}

// Opens `relative` under the folder without following any symbolic link, where the kernel has no openat2.
static int open_by_components(int folder, char *relative) {
  int current = dup(folder);
  for (char *component = relative; current >= 0 && component;) {
    char *slash = strchr(component, '/');
    if (slash) *slash = 0;
    int flags = slash ? O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW : OPEN_FLAGS | O_NOFOLLOW;
    int next = openat(current, component, flags);
    int error = errno;
    close(current);
    errno = error;
    current = next;
    component = slash ? slash + 1 : NULL;
  }
  return current;
}

// Opens `relative` (free of links when it was resolved) under the folder; -1 with errno.
static int open_beneath(const char *folder_path, char *relative) {
  int folder = open(folder_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return -1;
  struct open_how how = {.flags = OPEN_FLAGS, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS};
  int descriptor = (int)syscall(SYS_openat2, folder, relative, &how, sizeof how);
  if (descriptor < 0 && (errno == ENOSYS || errno == EPERM)) descriptor = open_by_components(folder, relative);
  int error = errno;
  close(folder);
  errno = error;
  return descriptor;
}

// The part of `resolved` below `folder`, or NULL when it is not below it. Both are resolved paths.
static char *path_below(char *resolved, const char *folder) {
  size_t length = strlen(folder);
  if (length > 1 && folder[length - 1] == '/') --length;
  if (length == 1 && *folder == '/') return resolved + 1;
  return strncmp(resolved, folder, length) == 0 && resolved[length] == '/' ? resolved + length + 1 : NULL;
}

// "folder/location" with all links resolved; false with errno.
static bool resolve_path(const char *folder, const char *location, char out_resolved[PATH_MAX]) {
  char joined[PATH_MAX];
  size_t folder_bytes = strlen(folder), location_bytes = strlen(location);
  if (folder_bytes + location_bytes + 2 > sizeof joined) {
    errno = ENAMETOOLONG;
    return false;
  }
  memcpy(joined, folder, folder_bytes);
  joined[folder_bytes] = '/';
  memcpy(joined + folder_bytes + 1, location, location_bytes + 1);
  return realpath(joined, out_resolved) != NULL;
}

// The resolved folder of the model file.
static delta_status_t model_folder(const char *model_path, char out_folder[PATH_MAX]) {
  char folder[PATH_MAX];
  const char *slash = strrchr(model_path, '/');
  size_t length = slash ? (size_t)(slash - model_path) + 1 : 2;
  if (length >= sizeof folder) return delta_status_make(INVALID_ARGUMENT, "the path of the model is too long");
  memcpy(folder, slash ? model_path : "./", length);
  folder[length] = 0;
  if (!realpath(folder, out_folder)) return open_error(folder, errno);
  return DELTA_OK;
}

// Opens the resolved file when it lies in one of the two folders. Either folder may be NULL or empty.
static delta_status_t open_resolved(const char *location, char *resolved, const char *own_folder, const char *further_folder,
                                    int *out_descriptor) {
  const char *folder = own_folder;
  char *relative = path_below(resolved, own_folder);
  if (!relative && *further_folder) {
    folder = further_folder;
    relative = path_below(resolved, further_folder);
  }
  if (!relative)
    return delta_status_make(MALFORMED,
                             "external data location '%.200s' is a symbolic link that leads out of the model's folder; if that is meant, "
                             "name the folder it leads to by --external-data",
                             location);
  *out_descriptor = open_beneath(folder, relative);
  return *out_descriptor < 0 ? open_error(location, errno) : DELTA_OK;
}

static delta_status_t check_opened(const delta_external_place_t *place, const char *location, int descriptor) {
  struct stat facts, model_facts;
  if (fstat(descriptor, &facts) != 0) return open_error(location, errno);
  if (!S_ISREG(facts.st_mode))
    return delta_status_make(MALFORMED, "external data location '%.200s' is a %s, not a regular file", location,
                             S_ISDIR(facts.st_mode) ? "folder" : "pipe or device");
  if (stat(place->model_path, &model_facts) == 0 && facts.st_dev == model_facts.st_dev && facts.st_ino == model_facts.st_ino)
    return delta_status_make(MALFORMED, "external data location '%.200s' is the model file itself", location);
  return DELTA_OK;
}

delta_status_t delta_external_open(const delta_external_place_t *place, const char *location, delta_allocator_t allocator,
                                   delta_file_t *out_file) {
  char own_folder[PATH_MAX], further_folder[PATH_MAX] = "", resolved[PATH_MAX];
  DELTA_RETURN_IF_ERROR(delta_external_check_location(location));
  DELTA_RETURN_IF_ERROR(model_folder(place->model_path, own_folder));
  DELTA_RETURN_IF_ERROR(delta_external_check_folder(place->external_folder));
  if (place->external_folder && !realpath(place->external_folder, further_folder)) return open_error(place->external_folder, errno);
  bool found = resolve_path(own_folder, location, resolved);
  if (!found && errno == ENOENT && *further_folder) found = resolve_path(further_folder, location, resolved);
  if (!found) return open_error(location, errno);

  int descriptor = -1;
  DELTA_RETURN_IF_ERROR(open_resolved(location, resolved, own_folder, further_folder, &descriptor));
  delta_status_t status = check_opened(place, location, descriptor);
  if (!status) status = delta_file_adopt(descriptor, location, allocator, out_file);
  if (status) close(descriptor);
  return status;
}
