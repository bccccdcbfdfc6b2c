// How much memory the host can still give this process.
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/cpu/device.h"

// Reads the number behind `key` in a file of "key: N kB" lines; UINT64_MAX when absent.
static uint64_t read_kilobytes(const char *path, const char *key) {
  FILE *file = fopen(path, "r");
  if (!file) return UINT64_MAX;
  char line[256];
  uint64_t bytes = UINT64_MAX;
  size_t key_length = strlen(key);
  while (fgets(line, sizeof line, file)) {
    unsigned long long kilobytes;
    if (strncmp(line, key, key_length) == 0 && sscanf(line + key_length, ": %llu", &kilobytes) == 1) {
      bytes = (uint64_t)kilobytes * 1024;
      break;
    }
  }
  fclose(file);
  return bytes;
}

// Reads one number from a file; UINT64_MAX when absent or "max".
static uint64_t read_number(const char *path) {
  FILE *file = fopen(path, "r");
  if (!file) return UINT64_MAX;
  unsigned long long number;
  uint64_t result = fscanf(file, "%llu", &number) == 1 ? (uint64_t)number : UINT64_MAX;
  fclose(file);
  return result;
}

static uint64_t least(uint64_t a, uint64_t b) { return a < b ? a : b; }

static uint64_t left_of(uint64_t limit, uint64_t used) {
  if (limit == UINT64_MAX || used == UINT64_MAX) return UINT64_MAX;
  return limit > used ? limit - used : 0;
}

static uint64_t left_of_limit(int resource, const char *used_key) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return UINT64_MAX;
  return left_of(limit.rlim_cur, read_kilobytes("/proc/self/status", used_key));
}

// The process's own group and, as in containers, the group mounted at the root.
static uint64_t left_of_groups(void) {
  uint64_t left = left_of(read_number("/sys/fs/cgroup/memory.max"), read_number("/sys/fs/cgroup/memory.current"));
  FILE *file = fopen("/proc/self/cgroup", "r");
  if (!file) return left;
  char line[512];
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "0::/", 4) != 0) continue;
    line[strcspn(line, "\n")] = '\0';
    char limit_path[640], used_path[640];
    snprintf(limit_path, sizeof limit_path, "/sys/fs/cgroup%s/memory.max", line + 3);
    snprintf(used_path, sizeof used_path, "/sys/fs/cgroup%s/memory.current", line + 3);
    left = least(left, left_of(read_number(limit_path), read_number(used_path)));
  }
  fclose(file);
  return left;
}

delta_status_t delta_cpu_free_bytes(delta_device_t *device, uint64_t *out_free_bytes) {
  (void)device;
  uint64_t free_bytes = read_kilobytes("/proc/meminfo", "MemAvailable");
  free_bytes = least(free_bytes, left_of_limit(RLIMIT_AS, "VmSize"));
  free_bytes = least(free_bytes, left_of_limit(RLIMIT_DATA, "VmData"));
  free_bytes = least(free_bytes, left_of_groups());
  *out_free_bytes = free_bytes;
  return DELTA_OK;
}
