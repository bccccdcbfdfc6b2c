// Format page.
#include "tests/support/format_page.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/support/planning.h"

enum { PAGE_LIMIT_BYTES = 1 << 20, NAME_BYTES = 128 };

// Whether the name stands in the text between the two marks.
static bool has_name(const char *text, const char *before, const char *name, size_t length, const char *after) {
  char wanted[NAME_BYTES];
  cr_assert_lt(snprintf(wanted, sizeof wanted, "%s%.*s%s", before, (int)length, name, after), NAME_BYTES);
  return strstr(text, wanted) != NULL;
}

// The page names a key in backticks, or quotes it as it stands in a file.
static void expect_keys(const char *page_name, const char *page, const delta_json_value_t *value, const char *names_key, int name_levels) {
  for (const delta_json_value_t *member = delta_json_first(value); member; member = delta_json_next(member)) {
    const char *key = delta_json_key(member);
    if (key && name_levels == 0) {
      cr_expect(has_name(page, "`", key, strlen(key), "`") || has_name(page, "\"", key, strlen(key), "\""), "docs/%s has no '%s'",
                page_name, key);
    }
    const bool holds_names = key && names_key && strcmp(key, names_key) == 0 && delta_json_is_object(member);
    expect_keys(page_name, page, member, names_key, holds_names ? 2 : name_levels > 0 ? name_levels - 1 : 0);
  }
}

// Names in backticks of a table row's first cell; what is more than a name (an option, an example) does not count.
static void expect_row(const char *page_name, const char *row, const char *json, int *name_count) {
  const char *end = row + 1 + strcspn(row + 1, "|\n");
  for (const char *mark = memchr(row, '`', (size_t)(end - row)); mark && mark < end; mark = memchr(mark, '`', (size_t)(end - mark))) {
    const char *name = mark + 1;
    const size_t length = strcspn(name, "`");
    mark = name + length + 1;
    size_t letters = 0;
    while (letters < length && (isalnum((unsigned char)name[letters]) || name[letters] == '_')) ++letters;
    if (letters < length) continue;
    ++*name_count;
    cr_expect(has_name(json, "\"", name, length, "\":"), "docs/%s has '%.*s', which is not written", page_name, (int)length, name);
  }
}

void delta_test_expect_page(const char *page_name, const char *json, const char *names_key) {
  char path[512], *page = NULL;
  size_t size_bytes = 0;
  delta_json_document_t *document = NULL;
  snprintf(path, sizeof path, "%s/docs/%s", DELTA_SOURCE_FOLDER, page_name);
  delta_test_must(delta_file_read_all(path, PAGE_LIMIT_BYTES, delta_allocator_system(), &page, &size_bytes));
  delta_test_must(delta_json_parse(json, strlen(json), page_name, delta_allocator_system(), &document));
  expect_keys(page_name, page, delta_json_root(document), names_key, 0);
  int name_count = 0;
  for (const char *row = page; (row = strstr(row, "\n|")); ++row) expect_row(page_name, row + 1, json, &name_count);
  cr_expect_gt(name_count, 0, "docs/%s has no table of names", page_name);
  delta_json_free(document);
  free(page);
}
