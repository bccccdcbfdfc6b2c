#include "tests/support/model_file.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- Messages

void delta_test_message_free(delta_test_message_t *message) {
  free(message->bytes);
  *message = (delta_test_message_t){0};
}

void delta_test_put_raw(delta_test_message_t *message, const void *bytes, size_t count) {
  if (message->count + count > message->capacity) {
    message->capacity = 2 * (message->count + count) + 64;
    message->bytes = realloc(message->bytes, message->capacity);
    cr_assert_not_null(message->bytes);
  }
  if (count > 0) memcpy(message->bytes + message->count, bytes, count);
  message->count += count;
}

static void put_number(delta_test_message_t *message, uint64_t value) {
  do {
    uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
    delta_test_put_raw(message, &byte, 1);
    value >>= 7;
  } while (value);
}

void delta_test_put_varint(delta_test_message_t *message, uint32_t field, uint64_t value) {
  put_number(message, (uint64_t)field << 3);
  put_number(message, value);
}

void delta_test_put_open(delta_test_message_t *message, uint32_t field, uint64_t count) {
  put_number(message, (uint64_t)field << 3 | 2);
  put_number(message, count);
}

void delta_test_put_bytes(delta_test_message_t *message, uint32_t field, const void *bytes, size_t count) {
  delta_test_put_open(message, field, count);
  delta_test_put_raw(message, bytes, count);
}

void delta_test_put_text(delta_test_message_t *message, uint32_t field, const char *text) {
  delta_test_put_bytes(message, field, text, strlen(text));
}

void delta_test_put_message(delta_test_message_t *message, uint32_t field, delta_test_message_t *inner) {
  delta_test_put_bytes(message, field, inner->bytes, inner->count);
  delta_test_message_free(inner);
}

// ---- ONNX

delta_test_message_t delta_test_value_info(const char *name, int32_t data_type, const int64_t *dims, size_t rank) {
  delta_test_message_t info = {0}, type = {0}, tensor = {0}, shape = {0};
  for (size_t i = 0; i < rank; ++i) {
    delta_test_message_t dim = {0};
    delta_test_put_varint(&dim, 1, (uint64_t)dims[i]);
    delta_test_put_message(&shape, 1, &dim);
  }
  delta_test_put_varint(&tensor, 1, (uint64_t)data_type);
  delta_test_put_message(&tensor, 2, &shape);
  delta_test_put_message(&type, 1, &tensor);
  delta_test_put_text(&info, 1, name);
  delta_test_put_message(&info, 2, &type);
  return info;
}

delta_test_message_t delta_test_tensor_head(const char *name, int32_t data_type, const int64_t *dims, size_t rank) {
  delta_test_message_t tensor = {0};
  for (size_t i = 0; i < rank; ++i) delta_test_put_varint(&tensor, 1, (uint64_t)dims[i]);
  delta_test_put_varint(&tensor, 2, (uint64_t)data_type);
  delta_test_put_text(&tensor, 8, name);
  return tensor;
}

delta_test_message_t delta_test_tensor_raw(const char *name, int32_t data_type, const int64_t *dims, size_t rank, const void *data,
                                           size_t size_bytes) {
  delta_test_message_t tensor = delta_test_tensor_head(name, data_type, dims, rank);
  delta_test_put_bytes(&tensor, 9, data, size_bytes);
  return tensor;
}

void delta_test_put_external(delta_test_message_t *tensor, const char *key, const char *value) {
  delta_test_message_t entry = {0};
  delta_test_put_text(&entry, 1, key);
  delta_test_put_text(&entry, 2, value);
  delta_test_put_message(tensor, 13, &entry);
}

delta_test_message_t delta_test_attribute_int(const char *name, int64_t value) {
  delta_test_message_t attribute = {0};
  delta_test_put_text(&attribute, 1, name);
  delta_test_put_varint(&attribute, 3, (uint64_t)value);
  delta_test_put_varint(&attribute, 20, 2);
  return attribute;
}

delta_test_message_t delta_test_attribute_reference(const char *name, const char *reference, int32_t type) {
  delta_test_message_t attribute = {0};
  delta_test_put_text(&attribute, 1, name);
  delta_test_put_text(&attribute, 21, reference);
  delta_test_put_varint(&attribute, 20, (uint64_t)type);
  return attribute;
}

// Puts the names of a list "a,b" as fields `field`; an empty list puts none.
static void put_names(delta_test_message_t *node, uint32_t field, const char *begin, const char *end) {
  while (begin < end) {
    const char *comma = memchr(begin, ',', (size_t)(end - begin));
    const char *stop = comma ? comma : end;
    delta_test_put_bytes(node, field, begin, (size_t)(stop - begin));
    begin = stop + 1;
  }
}

static void put_node(delta_test_message_t *owner, uint32_t field, const char *begin, const char *end) {
  delta_test_message_t node = {0};
  size_t length = (size_t)(end - begin);
  const char *colon = memchr(begin, ':', length), *arrow = memchr(begin, '>', length), *at = memchr(begin, '@', length);
  cr_assert(colon && arrow, "a node is written Op:inputs>outputs@name");
  const char *dot = memrchr(begin, '.', (size_t)(colon - begin));
  put_names(&node, 1, colon + 1, arrow);
  put_names(&node, 2, arrow + 1, at ? at : end);
  if (at) delta_test_put_bytes(&node, 3, at + 1, (size_t)(end - at - 1));
  const char *op = dot ? dot + 1 : begin;
  delta_test_put_bytes(&node, 4, op, (size_t)(colon - op));
  if (dot) delta_test_put_bytes(&node, 7, begin, (size_t)(dot - begin));
  delta_test_put_message(owner, field, &node);
}

void delta_test_put_nodes(delta_test_message_t *owner, uint32_t field, const char *nodes) {
  while (*nodes) {
    const char *end = nodes + strcspn(nodes, ";");
    put_node(owner, field, nodes, end);
    nodes = *end ? end + 1 : end;
  }
}

void delta_test_put_opsets(delta_test_message_t *owner, uint32_t field, const char *opsets) {
  while (*opsets) {
    delta_test_message_t opset = {0};
    size_t length = strcspn(opsets, ",");
    const char *colon = memchr(opsets, ':', length);
    delta_test_put_bytes(&opset, 1, opsets, colon ? (size_t)(colon - opsets) : 0);
    delta_test_put_varint(&opset, 2, strtoull(colon ? colon + 1 : opsets, NULL, 10));
    delta_test_put_message(owner, field, &opset);
    opsets += length + (opsets[length] == ',');
  }
}

delta_test_message_t delta_test_model_message(delta_test_message_t *graph, const char *opsets) {
  delta_test_message_t model = {0};
  delta_test_put_varint(&model, 1, 8);
  delta_test_put_message(&model, DELTA_TEST_MODEL_GRAPH, graph);
  delta_test_put_opsets(&model, DELTA_TEST_MODEL_OPSET, opsets);
  return model;
}

// ---- Folders

void delta_test_folder_make(delta_test_folder_t *folder) {
  snprintf(folder->path, sizeof folder->path, "/tmp/delta-test-XXXXXX");
  cr_assert_not_null(mkdtemp(folder->path));
}

static void remove_tree(const char *path) {
  DIR *directory = opendir(path);
  for (struct dirent *entry; directory && (entry = readdir(directory));) {
    char inner[DELTA_TEST_PATH_BYTES];
    struct stat facts;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
    if (snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name) >= (int)sizeof inner || lstat(inner, &facts) != 0) continue;
    if (S_ISDIR(facts.st_mode)) {
      remove_tree(inner);
    } else {
      unlink(inner);
    }
  }
  if (directory) closedir(directory);
  rmdir(path);
}

void delta_test_folder_remove(delta_test_folder_t *folder) { remove_tree(folder->path); }

const char *delta_test_folder_path(const delta_test_folder_t *folder, const char *name, char out_path[DELTA_TEST_PATH_BYTES]) {
  snprintf(out_path, DELTA_TEST_PATH_BYTES, "%s/%s", folder->path, name);
  return out_path;
}

void delta_test_folder_write(const delta_test_folder_t *folder, const char *name, const void *bytes, size_t count) {
  char path[DELTA_TEST_PATH_BYTES];
  FILE *file = fopen(delta_test_folder_path(folder, name, path), "wb");
  cr_assert_not_null(file);
  cr_assert_eq(fwrite(bytes, 1, count, file), count);
  fclose(file);
}

delta_status_t delta_test_load(const delta_test_folder_t *folder, const char *name, const char *external_folder,
                               delta_allocator_t allocator, delta_model_t **out_model) {
  char path[DELTA_TEST_PATH_BYTES];
  delta_model_options_t options = {.path = delta_test_folder_path(folder, name, path), .external_folder = external_folder};
  return delta_model_load(&options, allocator, out_model);
}
