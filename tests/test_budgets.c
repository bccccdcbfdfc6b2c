// Lists of budgets, as an option has them.
#include <criterion/criterion.h>
#include <string.h>

#include "cli/budgets.h"
#include "tests/support/planning.h"
#include "tests/support/words.h"

typedef struct list_case {
  const char *text;
  const char *budgets; // written out, or NULL
  const char *words;   // of the error
} list_case_t;

static const list_case_t cases[] = {
    {"8GiB", "8GiB", NULL},
    {"50%,minimum,unlimited,1.5 GB", "50% minimum unlimited 1.5 GB", NULL},
    {"4%..10%:2%", "4% 6% 8% 10%", NULL},
    {"4%..9%:2%", "4% 6% 8%", NULL},
    {"25%..100%", "25% 50% 75% 100%", NULL},
    {"0.1%..0.3%", "0.1% 0.2% 0.3%", NULL},
    {"7%..7%:2%", "7%", NULL},
    {"1KiB..3KiB,10", "1024 2048 3072 10", NULL},
    {"1000..3000:1KB", "1000 2000 3000", NULL},
    {"", NULL, "--budget"},
    {"4%,", NULL, "--budget 4%,"},
    {"4%,,5%", NULL, "--budget 4%,,5%"},
    {"0", NULL, "--budget 0|above 0"},
    {"0%", NULL, "--budget 0%|above 0"},
    {"much", NULL, "--budget much|'much'"},
    {"4%..", NULL, "--budget 4%..|FROM..TO"},
    {"..4%", NULL, "--budget ..4%|FROM..TO"},
    {"4%..100%:", NULL, "--budget 4%..100%:|FROM..TO:STEP"},
    {"4%..100%:0%", NULL, "--budget 4%..100%:0%|above 0"},
    {"0%..100%", NULL, "--budget 0%..100%|above 0"},
    {"0..1GiB:1MiB", NULL, "--budget 0..1GiB:1MiB|above 0"},
    {"4%..100%:-2%", NULL, "--budget 4%..100%:-2%|'4%..100%:-2%'"},
    {"4%..50%..100%", NULL, "--budget 4%..50%..100%|FROM..TO"},
    {"4%..100%:2%:2%", NULL, "--budget 4%..100%:2%:2%|FROM..TO"},
    {"1GiB,4%..8GiB", NULL, "--budget 1GiB,4%..8GiB|'4%..8GiB'|mixes"},
    {"4%..100%:1GiB", NULL, "--budget 4%..100%:1GiB|mixes"},
    {"100%..4%", NULL, "--budget 100%..4%|ends before it begins"},
    {"1%..100%:0.01%", NULL, "--budget 1%..100%:0.01%|more than 1000"},
    {"1..1TiB", NULL, "--budget 1..1TiB|more than 1000"},
    {"nan%..inf%", NULL, "--budget nan%..inf%|FROM..TO"},
};

static void expect_texts(const list_case_t *c, const delta_budget_list_t *list) {
  char joined[256] = "";
  for (size_t i = 0; i < list->texts.count; ++i) {
    if (i > 0) strcat(joined, " ");
    strcat(joined, list->texts.items[i]);
  }
  cr_expect_str_eq(joined, c->budgets, "'%s': '%s'", c->text, joined);
}

Test(budgets, lists) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const list_case_t *c = &cases[i];
    delta_budget_list_t list = {.allocator = delta_allocator_system(), .option = "--budget"};
    delta_status_t status = delta_budgets_parse(c->text, &list);
    cr_expect_eq(!status, c->budgets != NULL, "'%s': %s", c->text, status ? delta_status_message(status) : "is taken");
    if (!status && c->budgets) expect_texts(c, &list);
    if (status && c->words)
      cr_expect(delta_words_all(delta_status_message(status), c->words), "'%s': %s", c->text, delta_status_message(status));
    delta_status_free(status);
    delta_budgets_deinit(&list);
  }
}

Test(budgets, of_one_or_many) {
  cr_expect(delta_budgets_are_many("4%..100%"));
  cr_expect(delta_budgets_are_many("1GiB,2GiB"));
  cr_expect_not(delta_budgets_are_many("1.5 GiB"));
  cr_expect_not(delta_budgets_are_many("minimum"));
}
