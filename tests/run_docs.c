// run_docs: prints docs/operators.md. The target `docs` writes it.
#include <stdio.h>

#include "tests/support/operators_page.h"

int main(void) {
  delta_text_t text;
  delta_text_init(&text, delta_allocator_system());
  delta_status_t status = delta_operators_page(&text);
  if (status) {
    (void)fprintf(stderr, "run_docs: %s\n", delta_status_message(status));
  } else {
    (void)fputs(text.items, stdout);
  }
  int failed = status != NULL;
  delta_status_free(status);
  delta_text_deinit(&text);
  return failed;
}
