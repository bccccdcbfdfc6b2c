// npz: all forms of zip that writers use, and damage of every byte.
#include <criterion/criterion.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "runtime/data/npz.h"
#include "tests/support/data_files.h"
#include "tests/support/trial.h"
#include "tests/support/support.h"

enum { VALUES = 5000 };

static void fill(int32_t values[VALUES]) {
  for (int32_t i = 0; i < VALUES; ++i) values[i] = i * 7919 % 1000;
}

static void expect(delta_status_t status, delta_status_code_t code, const char *message, const char *label) {
  cr_expect_eq(delta_status_code(status), code, "%s: %s", label, delta_status_message(status));
  if (message)
    cr_expect(strstr(delta_status_message(status), message), "%s: '%s' lacks '%s'", label, delta_status_message(status), message);
  delta_status_free(status);
}

static const char *write_zip(delta_test_zip_t *zip, char path[DELTA_TEST_FILE_PATH_BYTES]) {
  return delta_test_write_file("data.npz", zip->archive.data, zip->archive.count, path);
}

Test(npz, forms) {
  static const char *const names[] = {"x", "grad/conv1.weight", "with space", "a.npy"};
  static int32_t values[VALUES], read[VALUES];
  fill(values);
  for (int form = DELTA_TEST_ZIP_STORED; form <= DELTA_TEST_ZIP_64; ++form) {
    char path[DELTA_TEST_FILE_PATH_BYTES];
    delta_test_zip_t zip = {0};
    delta_npz_t *npz = NULL;
    for (size_t i = 0; i < 4; ++i)
      delta_test_zip_add_array(&zip, names[i], "<i4", "(1000, 5)", values, sizeof values, (delta_test_zip_form_t)form);
    delta_test_zip_add(&zip, "readme.txt", "no array", 8, DELTA_TEST_ZIP_STORED);
    delta_test_zip_finish(&zip);
    cr_assert_null(delta_npz_open(write_zip(&zip, path), delta_allocator_system(), &npz), "form %d", form);
    cr_assert_eq(delta_npz_count(npz), 4);
    cr_assert_eq(delta_npz_find(npz, "y"), DELTA_NPZ_NONE);
    cr_assert_eq(delta_npz_find(npz, "readme.txt"), DELTA_NPZ_NONE);
    for (size_t i = 0; i < 4; ++i) {
      const delta_npy_header_t *header;
      size_t index = delta_npz_find(npz, names[i]);
      cr_assert_eq(index, i);
      cr_assert_str_eq(delta_npz_name(npz, index), names[i]);
      cr_assert_null(delta_npz_header(npz, index, &header));
      cr_assert_eq(header->type, DELTA_FILE_DTYPE_INT32);
      cr_assert(header->shape.rank == 2 && header->shape.dims[0] == 1000 && header->shape.dims[1] == 5);
      memset(read, 0, sizeof read);
      cr_assert_null(delta_npz_read(npz, index, 17, 4000, read));
      cr_expect_arr_eq(read, values + 17, 4000 * sizeof *read, "form %d, '%s'", form, names[i]);
    }
    delta_npz_close(npz);
    delta_test_zip_free(&zip);
  }
  delta_test_remove_folder();
}

Test(npz, a_comment_and_an_empty_archive) {
  char path[DELTA_TEST_FILE_PATH_BYTES];
  delta_test_zip_t zip = {0};
  delta_npz_t *npz = NULL;
  delta_test_zip_finish(&zip);
  zip.archive.data[zip.archive.count - 2] = 9;
  delta_test_append(&zip.archive, "a comment", 9);
  cr_assert_null(delta_npz_open(write_zip(&zip, path), delta_allocator_system(), &npz));
  cr_expect_eq(delta_npz_count(npz), 0);
  delta_npz_close(npz);
  delta_test_zip_free(&zip);
  delta_test_remove_folder();
}

// Opens and reads everything.
static delta_status_t read_all(const char *path, delta_allocator_t allocator, int32_t *out_values, uint64_t capacity) {
  delta_npz_t *npz = NULL;
  delta_status_t status = DELTA_OK;
  DELTA_RETURN_IF_ERROR(delta_npz_open(path, allocator, &npz));
  for (size_t i = 0; i < delta_npz_count(npz); ++i) {
    const delta_npy_header_t *header;
    DELTA_GOTO_IF_ERROR(status, delta_npz_header(npz, i, &header), cleanup);
    uint64_t bytes = delta_npy_element_count(header) * delta_file_dtype_bytes(header->type);
    if (bytes > capacity * sizeof *out_values) {
      status = delta_status_make(INVALID_ARGUMENT, "array %zu of %llu bytes", i, (unsigned long long)bytes);
      goto cleanup;
    }
    DELTA_GOTO_IF_ERROR(status, delta_npz_read(npz, i, 0, delta_npy_element_count(header), out_values), cleanup);
  }
cleanup:
  delta_npz_close(npz);
  return status;
}

static void make_small(delta_test_zip_t *zip, delta_test_zip_form_t form) {
  const int32_t values[] = {1, 2, 3, 4, 5, 6};
  delta_test_zip_add_array(zip, "x", "<i4", "(2, 3)", values, sizeof values, form);
  delta_test_zip_add_array(zip, "label", "<i4", "(2,)", values, 8, form);
  delta_test_zip_finish(zip);
}

Test(npz, every_cut_is_refused) {
  for (int form = DELTA_TEST_ZIP_STORED; form <= DELTA_TEST_ZIP_64; ++form) {
    int32_t values[16];
    char path[DELTA_TEST_FILE_PATH_BYTES];
    delta_test_zip_t zip = {0};
    make_small(&zip, (delta_test_zip_form_t)form);
    for (size_t count = 0; count < zip.archive.count; ++count) {
      delta_test_write_file("data.npz", zip.archive.data, count, path);
      expect(read_all(path, delta_allocator_system(), values, 16), DELTA_STATUS_MALFORMED, "data.npz", "cut");
    }
    delta_test_zip_free(&zip);
  }
  delta_test_remove_folder();
}

// A changed byte is refused, or changes nothing but what carries no meaning (times, versions, attributes). Values are never wrong.
Test(npz, every_changed_byte_is_refused_or_harmless) {
  for (int form = DELTA_TEST_ZIP_STORED; form <= DELTA_TEST_ZIP_64; ++form) {
    char path[DELTA_TEST_FILE_PATH_BYTES];
    delta_test_zip_t zip = {0};
    make_small(&zip, (delta_test_zip_form_t)form);
    for (size_t i = 0; i < zip.archive.count; ++i) {
      for (int change = 1; change < 256; change *= 16) {
        int32_t values[16] = {0};
        zip.archive.data[i] ^= (unsigned char)change;
        delta_test_write_file("data.npz", zip.archive.data, zip.archive.count, path);
        zip.archive.data[i] ^= (unsigned char)change;
        delta_status_t status = read_all(path, delta_allocator_system(), values, 16);
        // The label, read last, lies over the first two values of x.
        const int32_t expected[] = {1, 2, 3, 4, 5, 6};
        if (!status) cr_expect(memcmp(values, expected, 8) == 0, "form %d, byte %zu: wrong values", form, i);
        if (status) cr_expect(strstr(delta_status_message(status), "data.npz"), "byte %zu: '%s'", i, delta_status_message(status));
        delta_status_free(status);
      }
    }
    delta_test_zip_free(&zip);
  }
  delta_test_remove_folder();
}

// A field of the small archive to overwrite, by offset from the directory's first entry.
typedef struct field_case {
  const char *label;
  delta_test_zip_form_t form;
  long offset; // from the directory's start; negative: from the file's end
  uint64_t value;
  size_t size_bytes;
  delta_status_code_t code;
  const char *message;
} field_case_t;

static const field_case_t field_cases[] = {
    {"encrypted", DELTA_TEST_ZIP_STORED, 8, 1, 2, DELTA_STATUS_UNSUPPORTED, "encrypted"},
    {"bzip2", DELTA_TEST_ZIP_STORED, 10, 12, 2, DELTA_STATUS_UNSUPPORTED, "method 12"},
    {"wrong checksum", DELTA_TEST_ZIP_STORED, 16, 0x12345678, 4, DELTA_STATUS_MALFORMED, "checksum"},
    {"wrong checksum, deflated", DELTA_TEST_ZIP_DEFLATED, 16, 0x12345678, 4, DELTA_STATUS_MALFORMED, "checksum"},
    {"two sizes of a stored entry", DELTA_TEST_ZIP_STORED, 20, 10, 4, DELTA_STATUS_MALFORMED, "two sizes"},
    {"a bomb", DELTA_TEST_ZIP_DEFLATED, 24, 0x7fffffff, 4, DELTA_STATUS_MALFORMED, "promises"},
    {"less than promised", DELTA_TEST_ZIP_DEFLATED, 24, 140, 4, DELTA_STATUS_MALFORMED, "x"},
    {"zip64 size without field", DELTA_TEST_ZIP_STORED, 24, 0xffffffff, 4, DELTA_STATUS_MALFORMED, "zip64"},
    {"overlap", DELTA_TEST_ZIP_STORED, 42, 100, 4, DELTA_STATUS_MALFORMED, "overlaps"},
    {"offset beyond the file", DELTA_TEST_ZIP_STORED, 42, 0x7ffffff0, 4, DELTA_STATUS_MALFORMED, "beyond"},
    {"name other than the local one", DELTA_TEST_ZIP_STORED, 46, 'y', 1, DELTA_STATUS_MALFORMED, "local"},
    {"zero in a name", DELTA_TEST_ZIP_STORED, 46, 0, 1, DELTA_STATUS_MALFORMED, "damaged"},
    {"more entries than there are", DELTA_TEST_ZIP_STORED, -12, 3, 2, DELTA_STATUS_MALFORMED, "entr"},
    {"fewer entries than there are", DELTA_TEST_ZIP_STORED, -12, 1, 2, DELTA_STATUS_MALFORMED, "more bytes"},
    {"65534 entries", DELTA_TEST_ZIP_STORED, -12, 65534, 2, DELTA_STATUS_MALFORMED, "too short"},
    {"directory elsewhere", DELTA_TEST_ZIP_STORED, -6, 1, 4, DELTA_STATUS_MALFORMED, "not where"},
    {"in parts", DELTA_TEST_ZIP_STORED, -18, 2, 2, DELTA_STATUS_UNSUPPORTED, "parts"},
    {"zip64 end record elsewhere", DELTA_TEST_ZIP_64, -34, 0xffffffffffffull, 8, DELTA_STATUS_MALFORMED, "locator"},
    {"zip64 offset beyond the file", DELTA_TEST_ZIP_64, 46 + 5 + 4 + 16, UINT64_MAX, 8, DELTA_STATUS_MALFORMED, "beyond"},
    {"zip64 size overflows", DELTA_TEST_ZIP_64, 46 + 5 + 4, UINT64_MAX - 8, 8, DELTA_STATUS_MALFORMED, "two sizes"},
};

Test(npz, wrong_fields) {
  for (size_t i = 0; i < sizeof field_cases / sizeof field_cases[0]; ++i) {
    const field_case_t *the_case = &field_cases[i];
    int32_t values[16];
    char path[DELTA_TEST_FILE_PATH_BYTES];
    delta_test_zip_t zip = {0};
    make_small(&zip, the_case->form);
    size_t end_bytes = the_case->form == DELTA_TEST_ZIP_64 ? 22 + 20 + 56 : 22;
    size_t base = the_case->offset < 0 ? zip.archive.count : zip.archive.count - end_bytes - zip.directory.count;
    for (size_t byte = 0; byte < the_case->size_bytes; ++byte) {
      zip.archive.data[base + (size_t)the_case->offset + byte] = (unsigned char)(the_case->value >> 8 * byte);
    }
    write_zip(&zip, path);
    expect(read_all(path, delta_allocator_system(), values, 16), the_case->code, the_case->message, the_case->label);
    delta_test_zip_free(&zip);
  }
  delta_test_remove_folder();
}

Test(npz, a_name_twice) {
  const int32_t values[] = {1, 2};
  int32_t read[16];
  char path[DELTA_TEST_FILE_PATH_BYTES];
  delta_test_zip_t zip = {0};
  for (int i = 0; i < 2; ++i) delta_test_zip_add_array(&zip, "x", "<i4", "(2,)", values, 8, DELTA_TEST_ZIP_STORED);
  delta_test_zip_finish(&zip);
  write_zip(&zip, path);
  expect(read_all(path, delta_allocator_system(), read, 16), DELTA_STATUS_MALFORMED, "'x.npy' is there twice", "twice");
  delta_test_zip_free(&zip);
  delta_test_remove_folder();
}

Test(npz, a_bad_array_is_named) {
  int32_t values[16];
  char path[DELTA_TEST_FILE_PATH_BYTES];
  delta_test_zip_t zip = {0};
  delta_test_zip_add(&zip, "block.0/w.npy", "no array at all", 15, DELTA_TEST_ZIP_DEFLATED);
  delta_test_zip_finish(&zip);
  write_zip(&zip, path);
  expect(read_all(path, delta_allocator_system(), values, 16), DELTA_STATUS_MALFORMED, "data.npz: array 'block.0/w'", "bad array");
  delta_test_zip_free(&zip);
  delta_test_remove_folder();
}

// Deflate's longest matches: the compressed data end while output is still waiting inside zlib.
Test(npz, highly_compressible) {
  enum { COUNT = 1 << 20 };
  char path[DELTA_TEST_FILE_PATH_BYTES];
  delta_test_zip_t zip = {0};
  int32_t *zeros = calloc(COUNT, sizeof *zeros), *read = malloc(COUNT * sizeof *read);
  memset(read, 1, COUNT * sizeof *read);
  delta_test_zip_add_array(&zip, "x", "<i4", "(1048576,)", zeros, COUNT * sizeof *zeros, DELTA_TEST_ZIP_DEFLATED);
  delta_test_zip_finish(&zip);
  write_zip(&zip, path);
  expect(read_all(path, delta_allocator_system(), read, COUNT), DELTA_STATUS_OK, NULL, "zeros");
  cr_expect(memcmp(zeros, read, COUNT * sizeof *zeros) == 0);
  free(zeros);
  free(read);
  delta_test_zip_free(&zip);
  delta_test_remove_folder();
}

Test(npz, a_temporary_folder_that_is_not_there) {
  int32_t values[16];
  char path[DELTA_TEST_FILE_PATH_BYTES];
  delta_test_zip_t zip = {0};
  make_small(&zip, DELTA_TEST_ZIP_DEFLATED);
  write_zip(&zip, path);
  setenv("TMPDIR", "/nowhere/at/all", 1);
  expect(read_all(path, delta_allocator_system(), values, 16), DELTA_STATUS_IO, "/nowhere/at/all", "no folder");
  unsetenv("TMPDIR");
  delta_test_zip_free(&zip);
  delta_test_remove_folder();
}

Test(npz, allocation_failures) {
  for (int form = DELTA_TEST_ZIP_STORED; form <= DELTA_TEST_ZIP_64; ++form) {
    char path[DELTA_TEST_FILE_PATH_BYTES];
    delta_test_zip_t zip = {0};
    make_small(&zip, (delta_test_zip_form_t)form);
    write_zip(&zip, path);
    for (int failure = DELTA_TEST_FAIL_ONCE; failure <= DELTA_TEST_FAIL_FROM_THEN_ON; ++failure) {
      for (delta_test_trial_t trial = {.failure = (delta_test_failure_t)failure}; delta_test_trial_begin(&trial);) {
        int32_t values[16];
        delta_test_trial_end(&trial, read_all(path, delta_test_trial_allocator(&trial), values, 16), path);
      }
    }
    delta_test_zip_free(&zip);
  }
  delta_test_remove_folder();
}

Test(npz, shared_models) {
  enum { CAPACITY = 1 << 20 };
  char folder[DELTA_TEST_PATH_BYTES], pattern[DELTA_TEST_PATH_BYTES + 16];
  DELTA_SKIP_WITHOUT_SHARED("models", folder);
  glob_t found;
  int32_t *values = malloc(CAPACITY * sizeof *values);
  snprintf(pattern, sizeof pattern, "%s/*/*.npz", folder);
  cr_assert_eq(glob(pattern, 0, NULL, &found), 0);
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    expect(read_all(found.gl_pathv[i], delta_allocator_system(), values, CAPACITY), DELTA_STATUS_OK, NULL, found.gl_pathv[i]);
  }
  globfree(&found);
  free(values);
}
