// Files: what is read back, what survives a failure, and which errors name what.
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static char folder[64];

static void make_folder(void) {
  strcpy(folder, "/tmp/delta-test-XXXXXX");
  cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void) {
  char command[128];
  snprintf(command, sizeof command, "rm -r '%s'", folder);
  cr_assert_eq(system(command), 0);
}

static const char *path_of(const char *name) {
  static char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void write_file(const char *path, const char *content) {
  delta_file_writer_t writer;
  cr_assert_null(delta_file_writer_open(path, delta_allocator_system(), &writer));
  cr_assert_null(delta_file_writer_write(&writer, content, strlen(content)));
  cr_assert_null(delta_file_writer_commit(&writer));
  delta_file_writer_close(&writer);
}

static void expect_content(const char *path, const char *content) {
  char *data = NULL;
  size_t size_bytes = 0;
  cr_assert_null(delta_file_read_all(path, 1000, delta_allocator_system(), &data, &size_bytes));
  cr_assert_eq(size_bytes, strlen(content));
  cr_assert_str_eq(data, content);
  delta_release(delta_allocator_system(), data);
}

// The code of `status`, which must mention `part`; frees it.
static delta_status_code_t code_of(delta_status_t status, const char *part) {
  const delta_status_code_t code = delta_status_code(status);
  cr_expect_not_null(strstr(delta_status_message(status), part), "'%s' lacks '%s'", delta_status_message(status), part);
  delta_status_free(status);
  return code;
}

TestSuite(file, .init = make_folder, .fini = remove_folder);

Test(file, written_and_read_back) {
  const char *path = path_of("a.txt");
  write_file(path, "hello");
  expect_content(path, "hello");
  delta_file_t file = {.descriptor = -1};
  cr_assert_null(delta_file_open(path, delta_allocator_system(), &file));
  cr_assert_eq(file.size_bytes, 5);
  char part[4] = "";
  cr_assert_null(delta_file_read(&file, 1, part, 3));
  cr_assert_str_eq(part, "ell");
  cr_assert_eq(code_of(delta_file_read(&file, 3, part, 3), "truncated"), DELTA_STATUS_MALFORMED);
  cr_assert_eq(code_of(delta_file_read(&file, UINT64_MAX, part, 1), "a.txt"), DELTA_STATUS_MALFORMED);
  delta_file_close(&file);
  delta_file_close(&file);
}

Test(file, uncommitted_writes_change_nothing) {
  const char *path = path_of("a.txt");
  write_file(path, "old");
  delta_file_writer_t writer;
  cr_assert_null(delta_file_writer_open(path, delta_allocator_system(), &writer));
  cr_assert_null(delta_file_writer_write(&writer, "new", 3));
  delta_file_writer_close(&writer);
  expect_content(path, "old");
  cr_assert_eq(unlink(path), 0);
  cr_assert_eq(rmdir(folder), 0, "a temporary file was left behind");
  cr_assert_eq(mkdir(folder, 0700), 0);
}

Test(file, links_are_followed_and_permissions_kept) {
  write_file(path_of("real"), "old");
  cr_assert_eq(chmod(path_of("real"), 0640), 0);
  cr_assert_eq(symlink("real", path_of("link")), 0);
  write_file(path_of("link"), "new");
  struct stat facts;
  cr_assert_eq(lstat(path_of("link"), &facts), 0);
  cr_assert(S_ISLNK(facts.st_mode));
  expect_content(path_of("real"), "new");
  cr_assert_eq(stat(path_of("real"), &facts), 0);
  cr_assert_eq(facts.st_mode & 0777, 0640);
}

Test(file, what_is_no_regular_file_is_refused) {
  delta_allocator_t allocator = delta_allocator_system();
  delta_file_t file;
  delta_file_writer_t writer;
  cr_assert_eq(mkfifo(path_of("pipe"), 0600), 0);
  cr_assert_eq(code_of(delta_file_open(path_of("pipe"), allocator, &file), "pipe"), DELTA_STATUS_INVALID_ARGUMENT);
  cr_assert_eq(code_of(delta_file_open(folder, allocator, &file), "regular"), DELTA_STATUS_INVALID_ARGUMENT);
  cr_assert_eq(code_of(delta_file_open("/dev/null", allocator, &file), "/dev/null"), DELTA_STATUS_INVALID_ARGUMENT);
  cr_assert_eq(code_of(delta_file_open(path_of("none"), allocator, &file), "none"), DELTA_STATUS_NOT_FOUND);
  cr_assert_eq(code_of(delta_file_writer_open("/dev/null", allocator, &writer), "/dev/null"), DELTA_STATUS_INVALID_ARGUMENT);
  cr_assert_eq(code_of(delta_file_writer_open(path_of("no/where"), allocator, &writer), "no/where"), DELTA_STATUS_NOT_FOUND);
}

Test(file, limit_is_kept) {
  const char *path = path_of("a.txt");
  write_file(path, "12345");
  char *data = NULL;
  size_t size_bytes = 0;
  cr_assert_eq(code_of(delta_file_read_all(path, 4, delta_allocator_system(), &data, &size_bytes), "5 B"), DELTA_STATUS_UNSUPPORTED);
  cr_assert_null(data);
  write_file(path, "");
  expect_content(path, "");
}

Test(file, full_disk_is_an_error) {
  int descriptor = open("/dev/full", O_WRONLY);
  cr_assert_geq(descriptor, 0);
  delta_file_writer_t writer = {.descriptor = descriptor, .path = "full", .allocator = delta_allocator_system()};
  cr_assert_eq(code_of(delta_file_writer_write(&writer, "x", 1), "full"), DELTA_STATUS_IO);
  close(descriptor);
}
