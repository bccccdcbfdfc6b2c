// Safetensors: what is written is read again, and what breaks the format is refused by name.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "runtime/safetensors.h"
#include "tests/support/training.h"

static const float weights[6] = {1, -2, 3.5f, 0, 5, 1e-30f};
static const int64_t steps[1] = {INT64_C(1) << 40};

static void write_sample(const char *path) {
  delta_safetensors_tensor_t tensors[] = {
      {.name = "layer.weight", .dtype = DELTA_DTYPE_FLOAT32, .shape = {.rank = 2, .dims = {2, 3}}},
      {.name = "empty", .dtype = DELTA_DTYPE_FLOAT16, .shape = {.rank = 1, .dims = {0}}},
      {.name = "\"step\\\n", .dtype = DELTA_DTYPE_INT64},
  };
  delta_safetensors_text_t texts[] = {{"format", "sample"}, {"hash", "0000"}};
  delta_safetensors_header_t header = {tensors, 3, texts, 2};
  delta_safetensors_writer_t writer;
  delta_test_expect_ok(delta_safetensors_writer_open(path, &header, delta_allocator_system(), &writer), "open");
  delta_test_expect_ok(delta_safetensors_writer_append(&writer, weights, 8), "a piece");
  delta_test_expect_ok(delta_safetensors_writer_append(&writer, weights + 2, 16), "the rest");
  delta_test_expect_ok(delta_safetensors_writer_append(&writer, steps, sizeof steps), "another tensor");
  texts[1].value = "abcd";
  delta_test_expect_ok(delta_safetensors_writer_commit(&writer, &header), "commit");
  delta_safetensors_writer_close(&writer);
}

Test(safetensors, what_is_written_is_read) {
  char path[DELTA_TEST_PATH_BYTES];
  delta_test_folder_t folder;
  delta_safetensors_t file;
  delta_test_folder_make(&folder);
  write_sample(delta_test_folder_path(&folder, "a.safetensors", path));
  delta_test_expect_ok(delta_safetensors_open(path, delta_allocator_system(), &file), "open");
  cr_expect_eq(file.header.tensor_count, 3);
  cr_expect_str_eq(delta_safetensors_text(&file, "hash"), "abcd");
  cr_expect_null(delta_safetensors_text(&file, "absent"));
  const delta_safetensors_tensor_t *weight = delta_safetensors_find(&file, "layer.weight"),
                                   *step = delta_safetensors_find(&file, "\"step\\\n");
  cr_assert(weight && step && !delta_safetensors_find(&file, "absent"));
  cr_expect(weight->dtype == DELTA_DTYPE_FLOAT32 && weight->shape.rank == 2 && weight->shape.dims[1] == 3);
  cr_expect_eq(weight->offset_bytes % 8, 0, "values are not aligned");
  float read[6];
  int64_t read_step;
  delta_test_expect_ok(delta_file_read(&file.file, weight->offset_bytes, read, sizeof read), "read");
  delta_test_expect_ok(delta_file_read(&file.file, step->offset_bytes, &read_step, sizeof read_step), "read");
  cr_expect_arr_eq(read, weights, sizeof read);
  cr_expect_eq(read_step, steps[0]);
  delta_safetensors_close(&file);
  delta_test_folder_remove(&folder);
}

// A file that was not committed leaves nothing, and too few values are not committed.
Test(safetensors, what_is_not_committed_is_not_there) {
  char path[DELTA_TEST_PATH_BYTES];
  delta_test_folder_t folder;
  delta_safetensors_t file;
  delta_safetensors_writer_t writer;
  delta_safetensors_tensor_t tensor = {.name = "w", .dtype = DELTA_DTYPE_FLOAT32, .shape = {.rank = 1, .dims = {6}}};
  delta_safetensors_header_t header = {&tensor, 1, NULL, 0};
  delta_test_folder_make(&folder);
  delta_test_folder_path(&folder, "a.safetensors", path);
  delta_test_expect_ok(delta_safetensors_writer_open(path, &header, delta_allocator_system(), &writer), "open");
  delta_test_expect_ok(delta_safetensors_writer_append(&writer, weights, 8), "a piece");
  delta_test_expect_status(delta_safetensors_writer_commit(&writer, &header), DELTA_STATUS_INTERNAL, "8 bytes|24");
  delta_safetensors_writer_close(&writer);
  delta_test_expect_status(delta_safetensors_open(path, delta_allocator_system(), &file), DELTA_STATUS_NOT_FOUND, "a.safetensors");
  delta_test_folder_remove(&folder);
}

typedef struct broken_case {
  char name[40];
  char header[200];
  int64_t length; // that the file says the header has; -1: what it has
  int data_bytes;
  delta_status_code_t code;
  char words[80];
} broken_case_t;

ParameterizedTestParameters(safetensors, broken_files_are_refused) {
  static broken_case_t cases[] = {
      {"header longer than the file", "{}", 1000, 0, DELTA_STATUS_MALFORMED, "header of 1000 bytes"},
      {"header of huge length", "{}", INT64_MAX, 0, DELTA_STATUS_MALFORMED, "header"},
      {"no JSON", "{\"a\":", -1, 0, DELTA_STATUS_MALFORMED, "header"},
      {"a list", "[1, 2]", -1, 0, DELTA_STATUS_MALFORMED, "header"},
      {"a number", "12345", -1, 0, DELTA_STATUS_MALFORMED, "object"},
      {"metadata is a list", "{\"__metadata__\":[]}", -1, 0, DELTA_STATUS_MALFORMED, "object"},
      {"tensor is a number", "{\"a\":1}", -1, 0, DELTA_STATUS_MALFORMED, "'a'"},
      {"unknown type", "{\"a\":{\"dtype\":\"F8_E4M3\",\"shape\":[1],\"data_offsets\":[0,1]}}", -1, 1, DELTA_STATUS_UNSUPPORTED,
       "'a'|F8_E4M3"},
      {"no shape", "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", -1, 4, DELTA_STATUS_MALFORMED, "'a'|shape"},
      {"negative dimension", "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", -1, 4, DELTA_STATUS_MALFORMED,
       "'a'|shape"},
      {"rank too large", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", -1, 4,
       DELTA_STATUS_UNSUPPORTED, "'a'|rank of 9"},
      {"overflowing shape", "{\"a\":{\"dtype\":\"F32\",\"shape\":[4000000000,4000000000],\"data_offsets\":[0,4]}}", -1, 4,
       DELTA_STATUS_UNSUPPORTED, "'a'"},
      {"three offsets", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,8]}}", -1, 4, DELTA_STATUS_MALFORMED,
       "'a'|data_offsets"},
      {"place of another size", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", -1, 8, DELTA_STATUS_MALFORMED,
       "'a'|8|4"},
      {"end before begin", "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", -1, 8, DELTA_STATUS_MALFORMED, "'a'"},
      {"gap", "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", -1, 2, DELTA_STATUS_MALFORMED, "byte 0"},
      {"overlap",
       "{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]},\"b\":{\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[1,3]}}", -1,
       4, DELTA_STATUS_MALFORMED, "byte 2"},
      {"truncated values", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", -1, 7, DELTA_STATUS_MALFORMED, "8 bytes|7"},
      {"more values than tensors", "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", -1, 9, DELTA_STATUS_MALFORMED,
       "8 bytes|9"},
      {"metadata not of texts", "{\"__metadata__\":{\"step\":7}}", -1, 0, DELTA_STATUS_MALFORMED, "header"},
      {"a name twice",
       "{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}", -1,
       2, DELTA_STATUS_MALFORMED, "header"},
  };
  return cr_make_param_array(broken_case_t, cases, sizeof cases / sizeof *cases);
}

ParameterizedTest(broken_case_t *c, safetensors, broken_files_are_refused) {
  char path[DELTA_TEST_PATH_BYTES], bytes[512] = {0};
  delta_test_folder_t folder;
  delta_safetensors_t file;
  const size_t header_bytes = strlen(c->header);
  const uint64_t length = c->length < 0 ? header_bytes : (uint64_t)c->length;
  for (int i = 0; i < 8; ++i) bytes[i] = (char)(length >> 8 * i);
  memcpy(bytes + 8, c->header, header_bytes);
  delta_test_folder_make(&folder);
  delta_test_folder_write(&folder, "b.safetensors", bytes, 8 + header_bytes + (size_t)c->data_bytes);
  delta_status_t status = delta_safetensors_open(delta_test_folder_path(&folder, "b.safetensors", path), delta_allocator_system(), &file);
  cr_expect(strstr(delta_status_message(status), "b.safetensors"), "%s: %s", c->name, delta_status_message(status));
  delta_test_expect_status(status, c->code, c->words);
  delta_test_folder_remove(&folder);
}

// Every beginning of a good file is refused.
Test(safetensors, truncated_files_are_refused) {
  char path[DELTA_TEST_PATH_BYTES], *data = NULL;
  size_t size_bytes = 0;
  delta_test_folder_t folder;
  delta_safetensors_t file;
  delta_test_folder_make(&folder);
  write_sample(delta_test_folder_path(&folder, "a.safetensors", path));
  delta_test_expect_ok(delta_file_read_all(path, 1 << 20, delta_allocator_system(), &data, &size_bytes), "read");
  for (size_t n = 0; n < size_bytes; ++n) {
    delta_test_folder_write(&folder, "cut", data, n);
    char cut[DELTA_TEST_PATH_BYTES];
    delta_test_expect_status(delta_safetensors_open(delta_test_folder_path(&folder, "cut", cut), delta_allocator_system(), &file),
                             DELTA_STATUS_MALFORMED, "cut");
  }
  delta_release(delta_allocator_system(), data);
  delta_test_folder_remove(&folder);
}
