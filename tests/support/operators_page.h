// Operators page: docs/operators.md, made from the rows of the operator table.
#ifndef DELTA_TESTS_SUPPORT_OPERATORS_PAGE_H_
#define DELTA_TESTS_SUPPORT_OPERATORS_PAGE_H_

#include "base/text.h"

DELTA_MUST_USE delta_status_t delta_operators_page(delta_text_t *out_text);

#endif // DELTA_TESTS_SUPPORT_OPERATORS_PAGE_H_
