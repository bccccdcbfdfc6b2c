#include "runtime/checkpoint_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

enum { STEP_DIGITS = 12, NAME_BYTES = 64 };
static const char name_start[] = "step-", name_end[] = ".safetensors", leftover_end[] = ".safetensors.tmp-";

typedef DELTA_ARRAY(int64_t) step_list_t;

static delta_status_t folder_error(const char *path, const char *what, int error) {
  char reason[128];
  return delta_status_make(IO, "checkpoint folder '%s': cannot %s: %s", path, what, strerror_r(error, reason, sizeof reason));
}

// The step of a checkpoint's name, with what follows the digits; -1 for other names.
static int64_t parse_name(const char *name, const char **out_rest) {
  if (strncmp(name, name_start, strlen(name_start)) != 0) return -1;
  const char *digits = name + strlen(name_start);
  if (strspn(digits, "0123456789") != STEP_DIGITS) return -1;
  *out_rest = digits + STEP_DIGITS;
  return strtoll(digits, NULL, 10);
}

static int compare_steps(const void *a, const void *b) {
  const int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
  return (left > right) - (left < right);
}

// The steps of all checkpoints, ascending. What a killed process left half written is removed on the way: the lock says that nobody is writing.
static delta_status_t list_steps(const delta_checkpoint_folder_t *folder, step_list_t *steps) {
  DIR *directory = opendir(folder->path);
  if (!directory) return folder_error(folder->path, "list it", errno);
  delta_status_t status = DELTA_OK;
  for (const struct dirent *entry = readdir(directory); entry && !status; entry = readdir(directory)) {
    const char *rest = NULL;
    const int64_t step = parse_name(entry->d_name, &rest);
    if (step < 0) continue;
    if (strncmp(rest, leftover_end, strlen(leftover_end)) == 0) unlinkat(folder->descriptor, entry->d_name, 0);
    if (strcmp(rest, name_end) == 0) status = delta_array_push(folder->allocator, steps, &step);
  }
  closedir(directory);
  if (!status && steps->count > 1) qsort(steps->items, steps->count, sizeof *steps->items, compare_steps);
  return status;
}

static delta_status_t set_last(delta_checkpoint_folder_t *folder, int64_t step) {
  const size_t size_bytes = strlen(folder->path) + NAME_BYTES;
  char *path = NULL;
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(folder->allocator, size_bytes, &path));
  snprintf(path, size_bytes, "%s/%s%0*lld%s", folder->path, name_start, STEP_DIGITS, (long long)step, name_end);
  delta_release(folder->allocator, folder->last_path);
  folder->last_path = path;
  return DELTA_OK;
}

static delta_status_t lock_folder(delta_checkpoint_folder_t *folder) {
  if (mkdir(folder->path, 0777) != 0 && errno != EEXIST) return folder_error(folder->path, "make it", errno);
  folder->descriptor = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder->descriptor < 0) return folder_error(folder->path, "open it", errno);
  if (flock(folder->descriptor, LOCK_EX | LOCK_NB) == 0) return DELTA_OK;
  if (errno != EWOULDBLOCK) return folder_error(folder->path, "lock it", errno);
  return delta_status_make(INVALID_ARGUMENT, "checkpoint folder '%s': another training is using it; give another folder, or end that first",
                           folder->path);
}

delta_status_t delta_checkpoint_folder_open(const char *path, int64_t keep, delta_allocator_t allocator,
                                            delta_checkpoint_folder_t *out_folder) {
  delta_checkpoint_folder_t folder = {.allocator = allocator, .descriptor = -1, .keep = keep};
  step_list_t steps = {0};
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, strlen(path) + 1, &folder.path));
  memcpy(folder.path, path, strlen(path) + 1);
  delta_status_t status = DELTA_OK;
  DELTA_GOTO_IF_ERROR(status, lock_folder(&folder), cleanup);
  DELTA_GOTO_IF_ERROR(status, list_steps(&folder, &steps), cleanup);
  if (steps.count > 0) DELTA_GOTO_IF_ERROR(status, set_last(&folder, steps.items[steps.count - 1]), cleanup);
  *out_folder = folder;
cleanup:
  delta_array_deinit(allocator, &steps);
  if (status) delta_checkpoint_folder_close(&folder);
  return status;
}

void delta_checkpoint_folder_close(delta_checkpoint_folder_t *folder) {
  if (folder->descriptor >= 0) close(folder->descriptor);
  delta_release(folder->allocator, folder->path);
  delta_release(folder->allocator, folder->last_path);
  *folder = (delta_checkpoint_folder_t){.descriptor = -1, .allocator = folder->allocator};
}

static delta_status_t remove_oldest(const delta_checkpoint_folder_t *folder) {
  step_list_t steps = {0};
  delta_status_t status = list_steps(folder, &steps);
  for (size_t i = 0; !status && i + (size_t)folder->keep < steps.count; ++i) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%s%0*lld%s", name_start, STEP_DIGITS, (long long)steps.items[i], name_end);
    if (unlinkat(folder->descriptor, name, 0) != 0 && errno != ENOENT)
      status = folder_error(folder->path, "remove an old checkpoint", errno);
  }
  delta_array_deinit(folder->allocator, &steps);
  return status;
}

delta_status_t delta_checkpoint_folder_save(delta_checkpoint_folder_t *folder, delta_session_t *session,
                                            const delta_training_position_t *position) {
  char *before = folder->last_path;
  folder->last_path = NULL;
  delta_status_t status = set_last(folder, position->step);
  if (!status) status = delta_session_save(session, folder->last_path, position);
  if (status) {
    delta_release(folder->allocator, folder->last_path);
    folder->last_path = before;
    return status;
  }
  delta_release(folder->allocator, before);
  return remove_oldest(folder);
}
