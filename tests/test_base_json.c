// JSON: checked access, broken text, written text.
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

// The code of `status`, which must mention `part`; frees it.
static delta_status_code_t code_of(delta_status_t status, const char *part) {
  const delta_status_code_t code = delta_status_code(status);
  cr_expect_not_null(strstr(delta_status_message(status), part), "'%s' lacks '%s'", delta_status_message(status), part);
  delta_status_free(status);
  return code;
}

static delta_json_document_t *parse(const char *text) {
  delta_json_document_t *document = NULL;
  delta_status_t status = delta_json_parse(text, strlen(text), "plan.json", delta_allocator_system(), &document);
  cr_assert_null(status, "%s", delta_status_message(status));
  return document;
}

Test(json, members_are_checked) {
  delta_json_document_t *document =
      parse("{\"a\": {\"list\": [{\"n\": 1.5, \"big\": 9007199254740993, \"s\": \"x\", \"huge\": 1e999}]}, \"t\": true}");
  const delta_json_value_t *root = delta_json_root(document), *a = NULL, *list = NULL;
  size_t count = 0;
  int64_t integer = 0;
  double number = 0;
  bool flag = false;
  const char *text = NULL;
  cr_assert_null(delta_json_get_object(document, root, "a", &a));
  cr_assert_null(delta_json_get_array(document, a, "list", &list, &count));
  cr_assert_eq(count, 1);
  const delta_json_value_t *item = delta_json_first(list);
  cr_assert_null(delta_json_next(item));
  cr_assert_null(delta_json_get_double(document, item, "n", &number));
  cr_assert_eq(number, 1.5);
  cr_assert_null(delta_json_get_bool(document, root, "t", &flag));
  cr_assert(flag);
  cr_assert_null(delta_json_get_string(document, item, "s", &text));
  cr_assert_str_eq(text, "x");
  cr_assert_null(delta_json_find(root, "T"));
  code_of(delta_json_get_int64(document, item, "n", 0, 9, &integer), "plan.json: a.list[0].n: expected an integer");
  code_of(delta_json_get_int64(document, item, "big", 0, INT64_MAX, &integer), "a.list[0].big: expected an integer");
  code_of(delta_json_get_int64(document, item, "s", 0, 9, &integer), "a.list[0].s: expected a number");
  code_of(delta_json_get_int64(document, item, "none", 0, 9, &integer), "a.list[0].none: expected a number, but it is missing");
  code_of(delta_json_get_double(document, item, "huge", &number), "a.list[0].huge: the number is too large");
  code_of(delta_json_get_string(document, list, "s", &text), "a.list: expected an object");
  code_of(delta_json_as_int64(document, item, "steps[3]", 0, 1, &integer), "steps[3]: expected an integer");
  cr_assert_eq(integer, 0);
  delta_json_free(document);
}

Test(json, integers_have_limits) {
  delta_json_document_t *document = parse("{\"n\": -3}");
  int64_t integer = 0;
  cr_assert_null(delta_json_get_int64(document, delta_json_root(document), "n", -3, 3, &integer));
  cr_assert_eq(integer, -3);
  cr_assert_eq(code_of(delta_json_get_int64(document, delta_json_root(document), "n", 0, 3, &integer), "n: -3 is outside 0 to 3"),
               DELTA_STATUS_MALFORMED);
  delta_json_free(document);
}

typedef struct broken_case {
  const char *text, *message;
} broken_case_t;

static const broken_case_t broken_cases[] = {
    {"", "line 1"},
    {"{\n\"a\": 1,\n}", "line 3: not valid JSON"},
    {"{} x", "not valid JSON"},
    {"[1, 2", "not valid JSON"},
    {"{\"a\": 1, \"b\": 2, \"a\": 3}", "plan.json: a: the key appears twice"},
    {"{\"a\": [0, {\"b\": 1, \"b\": 1}]}", "a[1].b: the key appears twice"},
    {"{\"a\": \"x\\u0000y\"}", "zero character"},
    {"{\"1\":1,\"2\":1,\"3\":1,\"4\":1,\"5\":1,\"6\":1,\"7\":1,\"8\":1,\"9\":1,\"10\":1,\"11\":1,\"12\":1,\"13\":1,\"14\":1,\"15\":1,"
     "\"16\":1,\"17\":1,\"18\":1,\"19\":1,\"2\":1}",
     "2: the key appears twice"},
};

Test(json, broken_text_is_malformed) {
  for (size_t i = 0; i < sizeof broken_cases / sizeof *broken_cases; ++i) {
    delta_json_document_t *document = NULL;
    delta_status_t status =
        delta_json_parse(broken_cases[i].text, strlen(broken_cases[i].text), "plan.json", delta_allocator_system(), &document);
    cr_expect_eq(code_of(status, broken_cases[i].message), DELTA_STATUS_MALFORMED, "case %zu", i);
    cr_expect_null(document);
  }
}

Test(json, escaped_backslash_before_u0000_is_text) {
  delta_json_document_t *document = parse("{\"a\": \"\\\\u0000\"}");
  const char *text = NULL;
  cr_assert_null(delta_json_get_string(document, delta_json_root(document), "a", &text));
  cr_assert_str_eq(text, "\\u0000");
  delta_json_free(document);
}

Test(json, zero_byte_inside_is_refused) {
  delta_json_document_t *document = NULL;
  cr_assert_eq(code_of(delta_json_parse("{}\0{}", 5, "x", delta_allocator_system(), &document), "not valid JSON"), DELTA_STATUS_MALFORMED);
}

Test(json, deep_nesting_is_an_error) {
  enum { DEPTH = 100000 };
  static char text[DEPTH + 1];
  memset(text, '[', DEPTH);
  delta_json_document_t *document = NULL;
  cr_assert_eq(code_of(delta_json_parse(text, DEPTH, "x", delta_allocator_system(), &document), "not valid"), DELTA_STATUS_MALFORMED);
}

static void write_sample(delta_json_writer_t *writer) {
  delta_json_begin_object(writer, NULL);
  delta_json_write_string(writer, "name", "a\"b\\\n");
  delta_json_begin_inline_array(writer, "dims");
  for (int64_t i = 1; i < 4; ++i) delta_json_write_int64(writer, NULL, i);
  delta_json_end_array(writer);
  delta_json_begin_array(writer, "items");
  delta_json_begin_object(writer, NULL);
  delta_json_write_double(writer, "x", 0.1);
  delta_json_write_double(writer, "nan", NAN);
  delta_json_end_object(writer);
  delta_json_write_bool(writer, NULL, true);
  delta_json_end_array(writer);
  delta_json_begin_object(writer, "empty");
  delta_json_end_object(writer);
  delta_json_end_object(writer);
}

typedef struct writer_case {
  bool compact;
  const char *expected;
} writer_case_t;

static const writer_case_t writer_cases[] = {
    {true, "{\"name\":\"a\\\"b\\\\\\u000a\",\"dims\":[1,2,3],\"items\":[{\"x\":0.1,\"nan\":null},true],\"empty\":{}}"},
    {false,
     "{\n  \"name\": \"a\\\"b\\\\\\u000a\",\n  \"dims\": [1, 2, 3],\n  \"items\": [\n    {\n      \"x\": 0.1,\n      \"nan\": null\n    "
     "},\n"
     "    true\n  ],\n  \"empty\": {}\n}"},
};

Test(json, written_text) {
  for (size_t i = 0; i < 2; ++i) {
    delta_text_t text;
    delta_json_writer_t writer;
    delta_text_init(&text, delta_allocator_system());
    delta_json_writer_init(&writer, &text, writer_cases[i].compact);
    write_sample(&writer);
    cr_assert_null(delta_json_writer_finish(&writer));
    cr_expect_str_eq(text.items, writer_cases[i].expected);
    delta_json_free(parse(text.items));
    delta_text_deinit(&text);
  }
}

typedef struct double_case {
  double value;
  const char *text;
} double_case_t;

static const double_case_t double_cases[] = {
    {0, "0"},
    {-1, "-1"},
    {0.1, "0.1"},
    {1.0 / 3, "0.3333333333333333"},
    {1e300, "1e+300"},
    {5e-324, "5e-324"},
    {123456789012345680, "1.2345678901234568e+17"},
    {0.1 + 0.2, "0.30000000000000004"},
    {-2.5e-7, "-2.5e-07"},
};

Test(json, doubles_read_back_equal_in_few_digits) {
  for (size_t i = 0; i < sizeof double_cases / sizeof *double_cases; ++i) {
    delta_text_t text;
    delta_json_writer_t writer;
    delta_text_init(&text, delta_allocator_system());
    delta_json_writer_init(&writer, &text, true);
    delta_json_write_double(&writer, NULL, double_cases[i].value);
    cr_assert_null(delta_json_writer_finish(&writer));
    cr_expect_str_eq(text.items, double_cases[i].text);
    cr_expect_eq(strtod(text.items, NULL), double_cases[i].value);
    delta_text_deinit(&text);
  }
}

Test(json, writer_errors_stick) {
  delta_capped_allocator_t capped;
  delta_capped_allocator_init(&capped, delta_allocator_system(), 8);
  delta_text_t text;
  delta_json_writer_t writer;
  delta_text_init(&text, delta_capped_allocator_interface(&capped));
  delta_json_writer_init(&writer, &text, true);
  write_sample(&writer);
  cr_assert_eq(code_of(delta_json_writer_finish(&writer), "memory"), DELTA_STATUS_OUT_OF_MEMORY);
  delta_text_deinit(&text);
}

Test(json, writer_refuses_to_nest_too_deep) {
  delta_text_t text;
  delta_json_writer_t writer;
  delta_text_init(&text, delta_allocator_system());
  delta_json_writer_init(&writer, &text, true);
  for (int i = 0; i < 100; ++i) delta_json_begin_inline_array(&writer, NULL);
  cr_assert_eq(code_of(delta_json_writer_finish(&writer), "deep"), DELTA_STATUS_INTERNAL);
  delta_text_deinit(&text);
}

Test(json_writer, inline_objects_stay_on_one_line) {
  delta_text_t text;
  delta_text_init(&text, delta_allocator_system());
  delta_json_writer_t writer;
  delta_json_writer_init(&writer, &text, false);
  delta_json_begin_array(&writer, NULL);
  delta_json_begin_inline_object(&writer, NULL);
  delta_json_write_int64(&writer, "a", 1);
  delta_json_begin_inline_array(&writer, "b");
  delta_json_write_int64(&writer, NULL, 2);
  delta_json_end_array(&writer);
  delta_json_end_object(&writer);
  delta_json_end_array(&writer);
  cr_assert_null(delta_json_writer_finish(&writer));
  cr_assert_str_eq(text.items, "[\n  {\"a\": 1, \"b\": [2]}\n]");
  delta_text_deinit(&text);
}
