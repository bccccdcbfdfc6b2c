// Status and log: text that is safe to show, annotations, joining.
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/escape.h"
#include "base/log.h"
#include "base/status.h"

Test(status, null_is_ok) {
  cr_assert_eq(delta_status_code(DELTA_OK), DELTA_STATUS_OK);
  cr_assert_str_eq(delta_status_message(DELTA_OK), "ok");
  cr_assert_null(delta_status_annotate(DELTA_OK, "never used"));
  delta_status_free(DELTA_OK);
}

Test(status, message_and_annotation) {
  delta_status_t status = delta_status_make(NOT_FOUND, "file '%s'", "a\nb");
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_NOT_FOUND);
  cr_assert_str_eq(delta_status_message(status), "file 'a\\x0ab'");
  status = delta_status_annotate(status, "model %d", 7);
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_NOT_FOUND);
  cr_assert_str_eq(delta_status_message(status), "model 7: file 'a\\x0ab'");
  delta_status_free(status);
}

Test(status, internal_errors_name_the_place) {
  delta_status_t status = delta_status_make(INTERNAL, "broken");
  cr_assert_not_null(strstr(delta_status_message(status), "broken [test_base_status.c:"));
  delta_status_free(status);
}

Test(status, join_keeps_the_first) {
  delta_status_t first = delta_status_make(IO, "first"), second = delta_status_make(MALFORMED, "second");
  delta_status_t joined = delta_status_join(first, second);
  cr_assert_str_eq(delta_status_message(joined), "first");
  cr_assert_eq(delta_status_join(joined, DELTA_OK), joined);
  cr_assert_eq(delta_status_join(DELTA_OK, joined), joined);
  delta_status_free(joined);
}

Test(status, long_messages_are_cut) {
  enum { NAME_BYTES = 1 << 20 };
  static char name[NAME_BYTES];
  memset(name, 'x', NAME_BYTES - 1);
  delta_status_t status = delta_status_make(MALFORMED, "tensor '%s'", name);
  const size_t length = strlen(delta_status_message(status));
  cr_assert_lt(length, 10000);
  cr_assert_str_eq(delta_status_message(status) + length - 3, "...");
  status = delta_status_annotate(status, "%s", name);
  cr_assert_eq(strncmp(delta_status_message(status), "tensor", 6), 0);
  delta_status_free(status);
}

Test(status, codes_have_texts) {
  for (int i = 0; i < DELTA_STATUS_CODE_COUNT; ++i) cr_assert_gt(strlen(delta_status_code_text((delta_status_code_t)i)), 1);
  cr_assert_str_eq(delta_status_code_text((delta_status_code_t)99), "unknown code");
}

typedef struct escape_case {
  const char *text, *escaped;
  size_t capacity;
} escape_case_t;

static const escape_case_t escape_cases[] = {
    {"plain", "plain", 64},
    {"tab\tdel\x7f", "tab\\x09del\\x7f", 64},
    {"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", "gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80", 64},
    {"\xc0\xaf", "\\xc0\\xaf", 64},                   // overlong
    {"\xed\xa0\x80", "\\xed\\xa0\\x80", 64},          // surrogate
    {"\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80", 64}, // above U+10FFFF
    {"\xc2\x9b[m", "\\xc2\\x9b[m", 64},               // C1 control
    {"\xe2\x80\xa8", "\\xe2\\x80\\xa8", 64},          // line separator
    {"\xe2\x82", "\\xe2\\x82", 64},                   // ends inside a character
    {"0123456789", "0123456789", 11},
    {"0123456789", "012345...", 10},
    {"01234\n", "01234...", 9},
    {"\xc3\xbc\xc3\xbc\xc3\xbc", "\xc3\xbc...", 6},
    {"abc", "..", 3},
    {"abc", "", 1},
};

Test(escape, cases) {
  for (size_t i = 0; i < sizeof escape_cases / sizeof *escape_cases; ++i) {
    const escape_case_t *test = &escape_cases[i];
    char out[64];
    const size_t length = delta_escape(test->text, strlen(test->text), out, test->capacity);
    cr_expect_str_eq(out, test->escaped, "case %zu gave '%s'", i, out);
    cr_expect_eq(length, strlen(out));
  }
}

static void keep_line(void *self, delta_log_level_t level, const char *line) { snprintf(self, 64, "%d:%s", (int)level, line); }

Test(log, lines_reach_the_sink) {
  char line[64] = "";
  delta_log((delta_log_sink_t){.self = line, .write = keep_line}, DELTA_LOG_WARNING, "plan %d\x1b", 3);
  cr_assert_str_eq(line, "2:plan 3\\x1b");
  delta_log((delta_log_sink_t){0}, DELTA_LOG_NOTE, "nobody listens");
}
