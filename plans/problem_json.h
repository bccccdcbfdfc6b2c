// Problem as JSON: what `deltaplan PROBLEM.json` reads and `--dump-problem` writes. docs/problem-format.md describes it.
#ifndef DELTA_PLANS_PROBLEM_JSON_H_
#define DELTA_PLANS_PROBLEM_JSON_H_

#include "base/text.h"
#include "plans/problem.h"

// Reads a problem and checks it with delta_problem_check. The text is not trusted; MALFORMED names the place. `name` stands in messages; a zero byte follows the text.
DELTA_MUST_USE delta_status_t delta_problem_from_json(const char *text, size_t size_bytes, const char *name, delta_allocator_t allocator,
                                                      delta_problem_t **out_problem);

// Appends the problem, with a line break at the end. What is read back is the same problem, but for kinds of tensors and graph nodes, which it does not have.
DELTA_MUST_USE delta_status_t delta_problem_to_json(const delta_problem_t *problem, delta_text_t *out_text);

#endif // DELTA_PLANS_PROBLEM_JSON_H_
