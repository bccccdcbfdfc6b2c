// Format page: a page of docs/ beside a file of the format that it describes.
#ifndef DELTA_TESTS_SUPPORT_FORMAT_PAGE_H_
#define DELTA_TESTS_SUPPORT_FORMAT_PAGE_H_

// Expects that docs/NAME names every key of the JSON text, and that every name in the first column of its tables is a key there. An object `names_key` has two levels of
// keys that are names of the writer's own and not of the format; NULL: there is none.
void delta_test_expect_page(const char *page_name, const char *json, const char *names_key);

#endif // DELTA_TESTS_SUPPORT_FORMAT_PAGE_H_
