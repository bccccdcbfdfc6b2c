// The numbers of a Linux system: what is available, the limits of the process and of its group, and the pressure stall information, as far as they can be read.
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "runtime/pressure.h"

// The number behind `key` in a file of "key number" lines; INT64_MAX where there is none.
static int64_t read_after(const char *path, const char *key) {
  FILE *file = fopen(path, "re");
  if (!file) return INT64_MAX;
  char line[256];
  int64_t found = INT64_MAX;
  const size_t length = strlen(key);
  while (found == INT64_MAX && fgets(line, sizeof line, file)) {
    long long number;
    if (strncmp(line, key, length) == 0 && sscanf(line + length, "%*[: ]%lld", &number) == 1) found = number;
  }
  fclose(file);
  return found;
}

static int64_t kilobytes(int64_t number) { return number == INT64_MAX ? INT64_MAX : number * 1024; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

// "max" is no number.
static int64_t read_number(const char *folder, const char *name) {
  char path[640];
  long long number;
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "re");
  if (!file) return INT64_MAX;
  const int64_t found = fscanf(file, "%lld", &number) == 1 ? number : INT64_MAX;
  fclose(file);
  return found;
}

// Pages of files that nobody has used lately are given back before anything is short.
static int64_t left_of_group(const char *folder) {
  char path[640];
  const int64_t most = read_number(folder, "memory.max"), used = read_number(folder, "memory.current");
  if (most == INT64_MAX || used == INT64_MAX) return INT64_MAX;
  snprintf(path, sizeof path, "%s/memory.stat", folder);
  const int64_t inactive = read_after(path, "inactive_file");
  return most - used + (inactive == INT64_MAX ? 0 : inactive);
}

// The process's own group and, as in containers, the one mounted at the root.
static int64_t left_of_groups(void) {
  int64_t left = left_of_group("/sys/fs/cgroup");
  FILE *file = fopen("/proc/self/cgroup", "re");
  if (!file) return left;
  char line[512], folder[576];
  while (fgets(line, sizeof line, file)) {
    if (strncmp(line, "0::/", 4) != 0) continue;
    line[strcspn(line, "\n")] = '\0';
    snprintf(folder, sizeof folder, "/sys/fs/cgroup%s", line + 3);
    left = least(left, left_of_group(folder));
  }
  fclose(file);
  return left;
}

static int64_t left_of_limit(int resource, const char *used_key) {
  struct rlimit limit;
  if (getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT64_MAX) return INT64_MAX;
  const int64_t used = kilobytes(read_after("/proc/self/status", used_key));
  return used == INT64_MAX ? INT64_MAX : (int64_t)limit.rlim_cur - used;
}

// "some avg10=1.23 avg60=..."
static double read_stalled(void) {
  FILE *file = fopen("/proc/pressure/memory", "re");
  if (!file) return 0;
  double percent = 0;
  if (fscanf(file, "some avg10=%lf", &percent) != 1) percent = 0;
  fclose(file);
  return percent;
}

static void read_system(void *self, delta_memory_numbers_t *out_numbers) {
  (void)self;
  *out_numbers = (delta_memory_numbers_t){
      .system_left_bytes = least(kilobytes(read_after("/proc/meminfo", "MemAvailable")), left_of_groups()),
      .process_left_bytes = least(left_of_limit(RLIMIT_AS, "VmSize"), left_of_limit(RLIMIT_DATA, "VmData")),
      .stalled_percent = read_stalled(),
  };
}

delta_memory_reader_t delta_memory_reader_of_system(void) { return (delta_memory_reader_t){.read = read_system}; }
