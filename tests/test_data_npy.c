// npy: headers of all versions and spellings, and what is refused.
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "runtime/data/npy.h"
#include "tests/support/data_files.h"

typedef struct header_case {
  const char *label;
  int version;
  const char *header;
  size_t data_bytes;
  delta_status_code_t code;
  const char *message; // a part of it
} header_case_t;

#define DICT(descr, order, shape) "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape ", }\n"

static const header_case_t header_cases[] = {
    {"1.0", 1, DICT("'<f4'", "False", "(2, 3)"), 24, DELTA_STATUS_OK, NULL},
    {"2.0", 2, DICT("'<f4'", "False", "(2, 3)"), 24, DELTA_STATUS_OK, NULL},
    {"3.0", 3, DICT("'<f4'", "False", "(2, 3)"), 24, DELTA_STATUS_OK, NULL},
    {"double quotes, no commas", 1, "{\"shape\": (2,3), \"descr\":\"<f4\",\"fortran_order\":False}", 24, DELTA_STATUS_OK, NULL},
    {"Python 2 integers", 1, DICT("'<f4'", "False", "(2L, 3L)"), 24, DELTA_STATUS_OK, NULL},
    {"scalar", 1, DICT("'<f8'", "False", "()"), 8, DELTA_STATUS_OK, NULL},
    {"no samples", 1, DICT("'<f8'", "False", "(0, 4)"), 0, DELTA_STATUS_OK, NULL},
    {"native order", 1, DICT("'=i2'", "False", "(3,)"), 6, DELTA_STATUS_OK, NULL},
    {"Fortran order of one dimension", 1, DICT("'<f4'", "True", "(6,)"), 24, DELTA_STATUS_OK, NULL},
    {"Fortran order of one long dimension", 1, DICT("'<f4'", "True", "(6, 1)"), 24, DELTA_STATUS_OK, NULL},
    {"Fortran order", 1, DICT("'<f4'", "True", "(2, 3)"), 24, DELTA_STATUS_UNSUPPORTED, "Fortran"},
    {"version 4", 4, DICT("'<f4'", "False", "(2, 3)"), 24, DELTA_STATUS_UNSUPPORTED, "4.0"},
    {"objects", 1, DICT("'|O'", "False", "(3,)"), 24, DELTA_STATUS_UNSUPPORTED, "pickled"},
    {"structures", 1, DICT("[('a', '<f4'), ('b', '<i8')]", "False", "(2,)"), 24, DELTA_STATUS_UNSUPPORTED, "structures"},
    {"strings", 1, DICT("'<U3'", "False", "(2,)"), 24, DELTA_STATUS_UNSUPPORTED, "<U3"},
    {"complex", 1, DICT("'<c8'", "False", "(3,)"), 24, DELTA_STATUS_UNSUPPORTED, "<c8"},
    {"times", 1, DICT("'<M8[ns]'", "False", "(3,)"), 24, DELTA_STATUS_UNSUPPORTED, "M8"},
    {"no byte order", 1, DICT("'f4'", "False", "(6,)"), 24, DELTA_STATUS_UNSUPPORTED, "f4"},
    {"order of bytes missing for words", 1, DICT("'|f4'", "False", "(6,)"), 24, DELTA_STATUS_UNSUPPORTED, "|f4"},
    {"nine dimensions", 1, DICT("'<f4'", "False", "(1,1,1,1,1,1,1,1,6)"), 24, DELTA_STATUS_UNSUPPORTED, "dimensions"},
    {"negative dimension", 1, DICT("'<f4'", "False", "(-2, -3)"), 24, DELTA_STATUS_MALFORMED, "negative"},
    {"dimension above int64", 1, DICT("'<f4'", "False", "(9223372036854775808,)"), 24, DELTA_STATUS_MALFORMED, "2^63"},
    {"product overflows", 1, DICT("'<f4'", "False", "(4611686018427387904, 4)"), 24, DELTA_STATUS_MALFORMED, "larger"},
    {"product overflows behind a zero", 1, DICT("'<f4'", "False", "(0, 4611686018427387904, 4)"), 0, DELTA_STATUS_MALFORMED, "larger"},
    {"float dimension", 1, DICT("'<f4'", "False", "(2.5,)"), 24, DELTA_STATUS_MALFORMED, "tuple"},
    {"shape is a number", 1, DICT("'<f4'", "False", "(6)"), 24, DELTA_STATUS_MALFORMED, "tuple"},
    {"shape is a list", 1, DICT("'<f4'", "False", "[6]"), 24, DELTA_STATUS_MALFORMED, "tuple"},
    {"truncated data", 1, DICT("'<f4'", "False", "(2, 3)"), 23, DELTA_STATUS_MALFORMED, "truncated"},
    {"bytes too many", 1, DICT("'<f4'", "False", "(2, 3)"), 25, DELTA_STATUS_MALFORMED, "wrong size"},
    {"order is a number", 1, DICT("'<f4'", "0", "(6,)"), 24, DELTA_STATUS_MALFORMED, "fortran_order"},
    {"key twice", 1, "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (6,)}", 24, DELTA_STATUS_MALFORMED, "twice"},
    {"key missing", 1, "{'descr': '<f4', 'shape': (6,)}", 24, DELTA_STATUS_MALFORMED, "missing"},
    {"other key", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), 'x': 1}", 24, DELTA_STATUS_MALFORMED, "key"},
    {"text after", 1, DICT("'<f4'", "False", "(6,)") "x", 24, DELTA_STATUS_MALFORMED, "after"},
    {"no end", 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (6,), ", 24, DELTA_STATUS_MALFORMED, "string"},
    {"string without end", 1, "{'descr': '<f4, ", 24, DELTA_STATUS_MALFORMED, "does not end"},
    {"code instead of a literal", 1, "__import__('os')", 24, DELTA_STATUS_MALFORMED, "dictionary"},
    {"empty", 1, "", 24, DELTA_STATUS_MALFORMED, "dictionary"},
};

static void expect(delta_status_t status, delta_status_code_t code, const char *message, const char *label) {
  cr_expect_eq(delta_status_code(status), code, "%s: %s", label, delta_status_message(status));
  if (message)
    cr_expect(strstr(delta_status_message(status), message), "%s: '%s' lacks '%s'", label, delta_status_message(status), message);
  delta_status_free(status);
}

Test(npy, headers) {
  const unsigned char data[32] = {0};
  for (size_t i = 0; i < sizeof header_cases / sizeof header_cases[0]; ++i) {
    const header_case_t *the_case = &header_cases[i];
    delta_test_bytes_t bytes = {0};
    delta_npy_header_t header;
    delta_test_npy_raw(&bytes, the_case->version, the_case->header, data, the_case->data_bytes);
    expect(delta_npy_parse(bytes.data, bytes.count, bytes.count, &header), the_case->code, the_case->message, the_case->label);
    delta_test_bytes_free(&bytes);
  }
}

Test(npy, every_cut_is_refused) {
  const float values[6] = {1, 2, 3, 4, 5, 6};
  delta_test_bytes_t bytes = {0};
  delta_npy_header_t header;
  delta_test_npy(&bytes, "<f4", "(2, 3)", values, sizeof values);
  for (size_t count = 0; count < bytes.count; ++count) {
    expect(delta_npy_parse(bytes.data, count, count, &header), DELTA_STATUS_MALFORMED, NULL, "cut");
  }
  delta_test_bytes_free(&bytes);
}

Test(npy, header_longer_than_read) {
  static unsigned char prefix[DELTA_NPY_PREFIX_BYTES] = "\x93NUMPY\2\0\xff\xff\xff\x7f";
  delta_npy_header_t header;
  expect(delta_npy_parse(prefix, sizeof prefix, UINT64_MAX / 2, &header), DELTA_STATUS_UNSUPPORTED, "npy header of", "2 GiB header");
  expect(delta_npy_parse(prefix, sizeof prefix, 1 << 20, &header), DELTA_STATUS_MALFORMED, "truncated", "header beyond the end");
}

typedef struct type_case {
  const char *descr;
  unsigned char bytes[8]; // of two elements of the first, one or two of the others
  size_t element_bytes;
  double value; // of the first element
} type_case_t;

static const type_case_t type_cases[] = {
    {"|b1", {1}, 1, 1},
    {"|b1", {7}, 1, 1},
    {"|i1", {0xfe}, 1, -2},
    {"|u1", {0xfe}, 1, 254},
    {"<i2", {0xfe, 0xff}, 2, -2},
    {">i2", {0xff, 0xfe}, 2, -2},
    {"<u2", {0xfe, 0xff}, 2, 65534},
    {"<i4", {0xfe, 0xff, 0xff, 0xff}, 4, -2},
    {">u4", {0xff, 0xff, 0xff, 0xfe}, 4, 4294967294.0},
    {"<i8", {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 8, -2},
    {">i8", {0, 0, 0, 0, 0, 0, 1, 2}, 8, 258},
    {"<u8", {0, 0, 0, 0, 0, 0, 0, 0x80}, 8, 9223372036854775808.0},
    {"<f2", {0x00, 0xc0}, 2, -2},
    {">f2", {0xc0, 0x00}, 2, -2},
    {"<f4", {0, 0, 0x20, 0xc0}, 4, -2.5},
    {">f4", {0xc0, 0x20, 0, 0}, 4, -2.5},
    {"<f8", {0, 0, 0, 0, 0, 0, 4, 0xc0}, 8, -2.5},
    {">f8", {0xc0, 4, 0, 0, 0, 0, 0, 0}, 8, -2.5},
};

Test(npy, types_and_byte_orders) {
  for (size_t i = 0; i < sizeof type_cases / sizeof type_cases[0]; ++i) {
    const type_case_t *the_case = &type_cases[i];
    char path[DELTA_TEST_FILE_PATH_BYTES];
    delta_test_bytes_t bytes = {0};
    delta_npy_t npy;
    union {
      uint64_t words[1];
      unsigned char bytes[8];
    } element = {0};
    double value = 0;
    delta_test_npy(&bytes, the_case->descr, "(1,)", the_case->bytes, the_case->element_bytes);
    delta_test_write_file("a.npy", bytes.data, bytes.count, path);
    cr_assert_null(delta_npy_open(path, delta_allocator_system(), &npy), "%s", the_case->descr);
    cr_assert_null(delta_npy_read_elements(&npy.file, 0, &npy.header, 0, 1, element.bytes));
    delta_file_dtype_load_doubles(npy.header.type, element.bytes, 1, &value);
    cr_expect_eq(value, the_case->value, "%s reads as %g", the_case->descr, value);
    delta_npy_close(&npy);
    delta_test_bytes_free(&bytes);
  }
  delta_test_remove_folder();
}

Test(npy, ranges_are_checked) {
  const int32_t values[6] = {1, 2, 3, 4, 5, 6};
  char path[DELTA_TEST_FILE_PATH_BYTES];
  delta_test_bytes_t bytes = {0};
  delta_npy_t npy;
  int32_t read[6] = {0};
  delta_test_npy(&bytes, "<i4", "(3, 2)", values, sizeof values);
  cr_assert_null(delta_npy_open(delta_test_write_file("a.npy", bytes.data, bytes.count, path), delta_allocator_system(), &npy));
  cr_assert_eq(delta_npy_element_count(&npy.header), 6);
  cr_assert_null(delta_npy_read_elements(&npy.file, 0, &npy.header, 2, 3, read));
  cr_expect_arr_eq(read, values + 2, 3 * sizeof *read);
  cr_assert_null(delta_npy_read_elements(&npy.file, 0, &npy.header, 6, 0, read));
  expect(delta_npy_read_elements(&npy.file, 0, &npy.header, 4, 3, read), DELTA_STATUS_INVALID_ARGUMENT, NULL, "beyond");
  expect(delta_npy_read_elements(&npy.file, 0, &npy.header, 7, UINT64_MAX, read), DELTA_STATUS_INVALID_ARGUMENT, NULL, "far beyond");
  delta_npy_close(&npy);
  delta_test_bytes_free(&bytes);
  delta_test_remove_folder();
}

Test(npy, a_file_that_is_none) {
  char path[DELTA_TEST_FILE_PATH_BYTES];
  delta_npy_t npy;
  delta_test_write_file("text.npy", "hello, world", 12, path);
  expect(delta_npy_open(path, delta_allocator_system(), &npy), DELTA_STATUS_MALFORMED, "text.npy", "text");
  delta_test_write_file("archive.npy", "PK\3\4aaaaaaaaaaaa", 16, path);
  expect(delta_npy_open(path, delta_allocator_system(), &npy), DELTA_STATUS_MALFORMED, "zip archive", "zip");
  expect(delta_npy_open(delta_test_file_path("absent.npy", path), delta_allocator_system(), &npy), DELTA_STATUS_NOT_FOUND, "absent.npy",
         "absent");
  expect(delta_npy_open("/tmp", delta_allocator_system(), &npy), DELTA_STATUS_INVALID_ARGUMENT, "/tmp", "folder");
  delta_test_remove_folder();
}
