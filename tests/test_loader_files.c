// Loader: files. The path rules for external data, and the shared collections of good and broken models.
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/support/model_file.h"
#include "tests/support/words.h"

enum { FLOAT = 1, DATA_BYTES = 32 };

// ---- External data: where it may lie

typedef struct place_case {
  char name[40];
  char location[40];
  char offset[24], length[24]; // "" leaves the entry out
  bool with_folder;            // the further folder is given
  delta_status_code_t load_code;
  char words[60];
  bool available;
} place_case_t;

// The folder: sub/, data.bin (32 bytes), pipe, and links: in.lnk -> data.bin, out.lnk -> ../OUTSIDE/secret.bin, loop.lnk -> itself,
// hard.bin, a hard link to data.bin. The further folder has secret.bin and far.bin.
ParameterizedTestParameters(loader_files, place) {
  static place_case_t cases[] = {
      {"beside the model", "data.bin", "0", "8", false, DELTA_STATUS_OK, "", true},
      {"no offset, no length", "data.bin", "", "", false, DELTA_STATUS_OK, "", true},
      {"in a sub-folder", "sub/inner.bin", "24", "8", false, DELTA_STATUS_OK, "", true},
      {"with ./", "./data.bin", "0", "8", false, DELTA_STATUS_OK, "", true},
      {"link inside", "in.lnk", "0", "8", false, DELTA_STATUS_OK, "", true},
      {"hard link", "hard.bin", "0", "8", false, DELTA_STATUS_OK, "", true},
      {"missing", "absent.bin", "0", "8", false, DELTA_STATUS_OK, "", false},
      {"missing folder", "absent/data.bin", "0", "8", false, DELTA_STATUS_OK, "", false},
      {"absolute", "/dev/zero", "0", "8", false, DELTA_STATUS_MALFORMED, "absolute", false},
      {"parent", "../data.bin", "0", "8", false, DELTA_STATUS_MALFORMED, "'..'", false},
      {"parent inside", "sub/../data.bin", "0", "8", false, DELTA_STATUS_MALFORMED, "'..'", false},
      {"parent with backslash", "..\\data.bin", "0", "8", false, DELTA_STATUS_MALFORMED, "'..'", false},
      {"backslash", "sub\\inner.bin", "0", "8", false, DELTA_STATUS_MALFORMED, "backslash", false},
      {"URL", "http://host/data.bin", "0", "8", false, DELTA_STATUS_MALFORMED, "URL", false},
      {"empty", "", "0", "8", false, DELTA_STATUS_MALFORMED, "empty", false},
      {"the folder", ".", "0", "8", false, DELTA_STATUS_MALFORMED, "folder", false},
      {"a folder", "sub", "0", "8", false, DELTA_STATUS_MALFORMED, "folder", false},
      {"a pipe", "pipe", "0", "8", false, DELTA_STATUS_MALFORMED, "pipe", false},
      {"the model itself", "model.onnx", "0", "8", false, DELTA_STATUS_MALFORMED, "itself", false},
      {"link out", "out.lnk", "0", "8", false, DELTA_STATUS_MALFORMED, "link", false},
      {"folder link out", "out/secret.bin", "0", "8", false, DELTA_STATUS_MALFORMED, "link", false},
      {"link to itself", "loop.lnk", "0", "8", false, DELTA_STATUS_MALFORMED, "circle", false},
      {"link out, allowed", "out.lnk", "0", "8", true, DELTA_STATUS_OK, "", true},
      {"in the further folder", "far.bin", "0", "8", true, DELTA_STATUS_OK, "", true},
      {"link elsewhere", "elsewhere.lnk", "0", "8", true, DELTA_STATUS_MALFORMED, "link", false},
      {"up to the end", "data.bin", "24", "8", false, DELTA_STATUS_OK, "", true},
      {"beyond the end", "data.bin", "28", "8", false, DELTA_STATUS_MALFORMED, "beyond", false},
      {"offset beyond the end", "data.bin", "9223372036854775807", "8", false, DELTA_STATUS_MALFORMED, "beyond", false},
      {"offset too large", "data.bin", "9223372036854775808", "8", false, DELTA_STATUS_MALFORMED, "offset", false},
      {"offset negative", "data.bin", "-8", "8", false, DELTA_STATUS_MALFORMED, "offset", false},
      {"offset in hexadecimal", "data.bin", "0x8", "8", false, DELTA_STATUS_MALFORMED, "offset", false},
      {"length too short", "data.bin", "0", "4", false, DELTA_STATUS_MALFORMED, "bytes", false},
      {"length too long", "data.bin", "0", "16", false, DELTA_STATUS_MALFORMED, "bytes", false},
      {"length with text", "data.bin", "0", "8 ", false, DELTA_STATUS_MALFORMED, "length", false},
  };
  return cr_make_param_array(place_case_t, cases, sizeof cases / sizeof *cases);
}

static void make_links(const delta_test_folder_t *folder, const delta_test_folder_t *further) {
  char path[DELTA_TEST_PATH_BYTES], target[DELTA_TEST_PATH_BYTES];
  cr_assert_eq(mkdir(delta_test_folder_path(folder, "sub", path), 0700), 0);
  cr_assert_eq(mkfifo(delta_test_folder_path(folder, "pipe", path), 0600), 0);
  cr_assert_eq(symlink("data.bin", delta_test_folder_path(folder, "in.lnk", path)), 0);
  cr_assert_eq(symlink("loop.lnk", delta_test_folder_path(folder, "loop.lnk", path)), 0);
  cr_assert_eq(symlink("/dev/zero", delta_test_folder_path(folder, "elsewhere.lnk", path)), 0);
  cr_assert_eq(symlink(further->path, delta_test_folder_path(folder, "out", path)), 0);
  delta_test_folder_path(further, "secret.bin", target);
  cr_assert_eq(symlink(target, delta_test_folder_path(folder, "out.lnk", path)), 0);
  delta_test_folder_path(folder, "data.bin", target);
  cr_assert_eq(link(target, delta_test_folder_path(folder, "hard.bin", path)), 0);
}

static void write_model(const delta_test_folder_t *folder, const place_case_t *test) {
  static const int64_t dims[] = {2};
  delta_test_message_t graph = {0};
  delta_test_put_nodes(&graph, DELTA_TEST_GRAPH_NODE, "Relu:kernel>y@a");
  delta_test_message_t tensor = delta_test_tensor_head("kernel", FLOAT, dims, 1);
  delta_test_put_external(&tensor, "location", test->location);
  if (*test->offset) delta_test_put_external(&tensor, "offset", test->offset);
  if (*test->length) delta_test_put_external(&tensor, "length", test->length);
  delta_test_put_external(&tensor, "something_new", "ignored");
  delta_test_put_varint(&tensor, DELTA_TEST_TENSOR_LOCATION, 1);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_INITIALIZER, &tensor);
  delta_test_message_t output = delta_test_value_info("y", FLOAT, dims, 1);
  delta_test_put_message(&graph, DELTA_TEST_GRAPH_OUTPUT, &output);
  delta_test_message_t message = delta_test_model_message(&graph, "15");
  delta_test_folder_write(folder, "model.onnx", message.bytes, message.count);
  delta_test_message_free(&message);
}

ParameterizedTest(place_case_t *test, loader_files, place) {
  delta_test_folder_t folder, further;
  uint8_t data[DATA_BYTES], read[8];
  for (size_t i = 0; i < sizeof data; ++i) data[i] = (uint8_t)i;
  delta_test_folder_make(&folder);
  delta_test_folder_make(&further);
  delta_test_folder_write(&folder, "data.bin", data, sizeof data);
  make_links(&folder, &further);
  delta_test_folder_write(&folder, "sub/inner.bin", data, sizeof data);
  delta_test_folder_write(&further, "secret.bin", data, sizeof data);
  delta_test_folder_write(&further, "far.bin", data, sizeof data);
  write_model(&folder, test);

  delta_model_t *model = NULL;
  delta_status_t status = delta_test_load(&folder, "model.onnx", test->with_folder ? further.path : NULL, delta_allocator_system(), &model);
  cr_expect_eq(delta_status_code(status), test->load_code, "%s: %s", test->name, delta_status_message(status));
  if (status) {
    cr_expect(delta_words_any(delta_status_message(status), "kernel"), "%s: %s", test->name, delta_status_message(status));
    cr_expect(delta_words_any(delta_status_message(status), test->words), "%s: %s", test->name, delta_status_message(status));
  } else {
    const delta_model_tensor_t *tensor = &model->initializers[0];
    cr_expect_eq(delta_model_tensor_is_available(model, tensor), test->available, "%s", test->name);
    delta_status_t read_status = delta_model_read_tensor(model, tensor, read, sizeof read);
    cr_expect_eq(delta_status_code(read_status), test->available ? DELTA_STATUS_OK : DELTA_STATUS_NOT_FOUND, "%s: %s", test->name,
                 delta_status_message(read_status));
    if (!read_status) cr_expect_eq(memcmp(read, data + strtoul(test->offset, NULL, 10), sizeof read), 0, "%s: other bytes", test->name);
    delta_status_free(read_status);
  }
  delta_status_free(status);
  delta_model_free(model);
  delta_test_folder_remove(&folder);
  delta_test_folder_remove(&further);
}

// A data file that became a link, or shorter, after loading is refused when it is read.
Test(loader_files, data_file_changes_after_loading) {
  place_case_t test = {.name = "changed", .location = "data.bin", .offset = "24"};
  delta_test_folder_t folder;
  char path[DELTA_TEST_PATH_BYTES];
  uint8_t data[DATA_BYTES] = {0}, read[8];
  delta_test_folder_make(&folder);
  delta_test_folder_write(&folder, "data.bin", data, sizeof data);
  write_model(&folder, &test);
  delta_model_t *model = NULL;
  delta_status_t status = delta_test_load(&folder, "model.onnx", NULL, delta_allocator_system(), &model);
  cr_assert_null(status, "%s", delta_status_message(status));

  delta_test_folder_write(&folder, "data.bin", data, 28);
  status = delta_model_read_tensor(model, &model->initializers[0], read, sizeof read);
  cr_expect_eq(delta_status_code(status), DELTA_STATUS_MALFORMED);
  delta_status_free(status);
  cr_expect_not(delta_model_tensor_is_available(model, &model->initializers[0]));

  cr_assert_eq(unlink(delta_test_folder_path(&folder, "data.bin", path)), 0);
  cr_assert_eq(symlink("/dev/zero", path), 0);
  status = delta_model_read_tensor(model, &model->initializers[0], read, sizeof read);
  cr_expect_eq(delta_status_code(status), DELTA_STATUS_MALFORMED);
  delta_status_free(status);
  delta_model_free(model);
  delta_test_folder_remove(&folder);
}

// ---- Shared models

static void check_model(const char *path) {
  delta_model_options_t options = {.path = path};
  delta_model_t *model = NULL;
  delta_status_t status = delta_model_load(&options, delta_allocator_system(), &model);
  cr_expect_null(status, "%s: %s", path, delta_status_message(status));
  delta_status_free(status);
  for (uint32_t i = 0; model && i < model->initializer_count; ++i) {
    const delta_model_tensor_t *tensor = &model->initializers[i];
    if (!delta_model_tensor_is_available(model, tensor)) continue;
    void *values = malloc(tensor->size_bytes + 1);
    status = delta_model_read_tensor(model, tensor, values, tensor->size_bytes);
    cr_expect_null(status, "%s: %s", path, delta_status_message(status));
    delta_status_free(status);
    free(values);
  }
  delta_model_free(model);
}

// Every NAME.onnx in a folder, and every NAME/model.onnx.
static size_t check_folder(const char *folder) {
  size_t count = 0;
  DIR *directory = opendir(folder);
  cr_assert_not_null(directory, "cannot read %s", folder);
  for (struct dirent *entry; (entry = readdir(directory));) {
    char path[DELTA_TEST_PATH_BYTES];
    size_t length = strlen(entry->d_name);
    bool is_model = length > 5 && strcmp(entry->d_name + length - 5, ".onnx") == 0;
    if (entry->d_name[0] == '.') continue;
    snprintf(path, sizeof path, "%.500s/%.400s%s", folder, entry->d_name, is_model ? "" : "/model.onnx");
    if (access(path, R_OK) != 0) continue;
    check_model(path);
    ++count;
  }
  closedir(directory);
  return count;
}

ParameterizedTestParameters(loader_files, shared_models) {
  static char folders[][16] = {"models", "models-odd", "graphs", "digits"};
  return cr_make_param_array(char[16], folders, sizeof folders / sizeof *folders);
}

ParameterizedTest(char folders[16], loader_files, shared_models) {
  char path[DELTA_TEST_PATH_BYTES];
  DELTA_SKIP_WITHOUT_SHARED(folders, path);
  cr_expect_gt(check_folder(path), 0);
}

// ---- Shared broken files: what the loader itself can see

// The folders whose errors are in the file. What is wrong with operators, or with the types and shapes they meet, is found later.
static bool is_file_problem(const char *file) {
  static const char *const folders[] = {"truncated/", "wire/", "nesting/", "functions/", "external/", "names/"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; ++i) {
    if (strncmp(file, folders[i], strlen(folders[i])) == 0) return true;
  }
  return false;
}

static void check_broken(const char *folder, const char *file, const char *expect, const char *words) {
  char path[DELTA_TEST_PATH_BYTES];
  snprintf(path, sizeof path, "%.500s/%.400s", folder, file);
  delta_model_options_t options = {.path = path};
  delta_test_allocator_t counter;
  delta_test_allocator_init(&counter, 0, DELTA_TEST_FAIL_ONCE);
  delta_model_t *model = NULL;
  delta_status_t status = delta_model_load(&options, delta_test_allocator_interface(&counter), &model);
  // A missing data file is found when it is read.
  for (uint32_t i = 0; !status && i < model->initializer_count; ++i) {
    void *values = malloc(model->initializers[i].size_bytes + 1);
    status = delta_model_read_tensor(model, &model->initializers[i], values, model->initializers[i].size_bytes);
    free(values);
  }
  const char *message = delta_status_message(status);
  if (strcmp(expect, "ok") == 0) cr_expect_null(status, "%s: %s", file, message);
  if (strcmp(expect, "error") == 0 && is_file_problem(file)) cr_expect_not_null(status, "%s is accepted", file);
  if (status && strcmp(expect, "ok") != 0) cr_expect(delta_words_any(message, words), "%s: no %s in: %s", file, words, message);
  cr_expect_lt(strlen(message), 1500, "%s: a message of %zu bytes", file, strlen(message));
  cr_expect_lt(counter.peak_bytes, 100u << 20, "%s: %zu bytes", file, (size_t)counter.peak_bytes);
  delta_status_free(status);
  delta_model_free(model);
  cr_expect_eq(counter.live_bytes, 0, "%s: a leak", file);
}

Test(loader_files, shared_broken) {
  char folder[DELTA_TEST_PATH_BYTES], path[DELTA_TEST_PATH_BYTES];
  DELTA_SKIP_WITHOUT_SHARED("broken", folder);
  snprintf(path, sizeof path, "%.900s/index.json", folder);
  char *text = NULL;
  size_t size_bytes = 0, count = 0;
  delta_json_document_t *document = NULL;
  delta_status_t status = delta_file_read_all(path, 16 << 20, delta_allocator_system(), &text, &size_bytes);
  cr_assert_null(status, "%s", delta_status_message(status));
  status = delta_json_parse(text, size_bytes, "index.json", delta_allocator_system(), &document);
  cr_assert_null(status, "%s", delta_status_message(status));
  for (const delta_json_value_t *entry = delta_json_first(delta_json_root(document)); entry; entry = delta_json_next(entry)) {
    const char *file = NULL, *expect = NULL;
    char words[1000] = "";
    cr_assert_null(delta_json_get_string(document, entry, "file", &file));
    cr_assert_null(delta_json_get_string(document, entry, "expect", &expect));
    if (strncmp(file, "checkpoint/", 11) == 0) continue;
    const delta_json_value_t *names = delta_json_find(entry, "message_names_any_of");
    for (const delta_json_value_t *name = names ? delta_json_first(names) : NULL; name; name = delta_json_next(name)) {
      const char *word = NULL;
      cr_assert_null(delta_json_as_string(document, name, "name", &word));
      snprintf(words + strlen(words), sizeof words - strlen(words), "%s%s", *words ? "|" : "", word);
    }
    check_broken(folder, file, expect, words);
    ++count;
  }
  cr_expect_gt(count, 0);
  delta_json_free(document);
  free(text);
}
