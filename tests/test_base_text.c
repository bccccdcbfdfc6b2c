// Text: appending, globs, sizes with units.
#include <criterion/criterion.h>
#include <string.h>

#include "base/text.h"

Test(text, appends_grow) {
  delta_text_t text;
  delta_text_init(&text, delta_allocator_system());
  for (int i = 0; i < 300; ++i) cr_assert_null(delta_text_append(&text, "%d,", i));
  cr_assert_eq(text.count, strlen(text.items));
  cr_assert_str_eq(text.items + text.count - 4, "299,");
  delta_text_deinit(&text);
}

Test(text, empty_append_makes_a_string) {
  delta_text_t text;
  delta_text_init(&text, delta_allocator_system());
  cr_assert_null(delta_text_append(&text, "%s", ""));
  cr_assert_str_eq(text.items, "");
  delta_text_deinit(&text);
}

Test(text, failed_append_leaves_the_text) {
  delta_capped_allocator_t capped;
  delta_capped_allocator_init(&capped, delta_allocator_system(), 16);
  delta_text_t text;
  delta_text_init(&text, delta_capped_allocator_interface(&capped));
  cr_assert_null(delta_text_append(&text, "0123456789"));
  delta_status_t status = delta_text_append(&text, "abcdefghijklmnop");
  cr_assert_eq(delta_status_code(status), DELTA_STATUS_OUT_OF_MEMORY);
  delta_status_free(status);
  cr_assert_str_eq(text.items, "0123456789");
  delta_text_deinit(&text);
}

typedef struct glob_case {
  const char *pattern, *name;
  bool matches;
} glob_case_t;

static const glob_case_t glob_cases[] = {
    {"", "", true},
    {"", "a", false},
    {"*", "", true},
    {"*", "a/b.c", true},
    {"layer*.weight", "layer12/conv.weight", true},
    {"layer*.weight", "layer12/conv.bias", false},
    {"a*b*c", "aXbYbZc", true},
    {"a*b*c", "aXbYbZ", false},
    {"?", "", false},
    {"a?c", "abc", true},
    {"a?c", "ac", false},
    {"[abc]x", "bx", true},
    {"[abc]x", "dx", false},
    {"[a-c]x", "cx", true},
    {"[!a-c]x", "cx", false},
    {"[!a-c]x", "dx", true},
    {"[]]x", "]x", true},
    {"[a-]x", "-x", true},
    {"[abc", "[abc", true},
    {"*[0-9]", "layer7", true},
    {"*[0-9]", "layer", false},
    {"*a*a*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", false},
};

Test(text, globs) {
  for (size_t i = 0; i < sizeof glob_cases / sizeof *glob_cases; ++i) {
    const glob_case_t *test = &glob_cases[i];
    cr_expect_eq(delta_glob_match(test->pattern, test->name), test->matches, "'%s' against '%s'", test->pattern, test->name);
  }
}

typedef struct size_case {
  const char *text;
  uint64_t size_bytes; // UINT64_MAX: refused
} size_case_t;

static const size_case_t parse_cases[] = {
    {"0", 0},
    {"4096", 4096},
    {"17B", 17},
    {"800MB", 800000000},
    {"8GiB", 8ull << 30},
    {"1.5 GB", 1500000000},
    {"0.5KiB", 512},
    {"2TiB", 2ull << 40},
    {"1TB", 1000000000000},
    {"18446744073709551614", UINT64_MAX - 1},
    {"", UINT64_MAX},
    {"GB", UINT64_MAX},
    {"-1", UINT64_MAX},
    {"1.GB", UINT64_MAX},
    {"1..5GB", UINT64_MAX},
    {"1gb", UINT64_MAX},
    {"1 GB ", UINT64_MAX},
    {"1e9", UINT64_MAX},
    {"18446744073709551616", UINT64_MAX},
    {"99999999999TiB", UINT64_MAX},
};

Test(text, sizes_parse) {
  for (size_t i = 0; i < sizeof parse_cases / sizeof *parse_cases; ++i) {
    const size_case_t *test = &parse_cases[i];
    uint64_t size_bytes = UINT64_MAX;
    delta_status_t status = delta_size_parse(test->text, &size_bytes);
    cr_expect_eq(size_bytes, test->size_bytes, "'%s' gave %llu", test->text, (unsigned long long)size_bytes);
    cr_expect_eq(delta_status_code(status), test->size_bytes == UINT64_MAX ? DELTA_STATUS_INVALID_ARGUMENT : DELTA_STATUS_OK);
    delta_status_free(status);
  }
}

static const size_case_t print_cases[] = {
    {"0 B", 0},
    {"17 B", 17},
    {"1023 B", 1023},
    {"1.00 KiB", 1024},
    {"412 MiB", 412ull << 20},
    {"3.20 GiB", 3435973837},
    {"10.0 KiB", 10239},
    {"1.00 MiB", (1 << 20) - 1},
    {"16.0 EiB", UINT64_MAX},
};

Test(text, sizes_print) {
  for (size_t i = 0; i < sizeof print_cases / sizeof *print_cases; ++i) {
    char buffer[DELTA_SIZE_TEXT_BYTES];
    cr_expect_str_eq(delta_size_text(print_cases[i].size_bytes, buffer), print_cases[i].text);
  }
}
