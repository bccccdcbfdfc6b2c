// Ranges are written out, so that every budget is a text that a plan's --budget may have.
#include "cli/budgets.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/number.h"
#include "base/text.h"

enum { ITEM_BYTES = 64 };
static const char range_mark[] = "..";
static const char range_help[] = "a range is FROM..TO or FROM..TO:STEP, as in 4%..100%:2% or 1GiB..8GiB";

// An end or the step of a range.
typedef struct amount {
  bool is_percentage;
  double value; // percent, or bytes
} amount_t;

static delta_status_t add_text(delta_budget_list_t *list, const char *option_value, const char *text) {
  char *copy = NULL;
  if (list->texts.count == DELTA_MOST_BUDGETS)
    return delta_status_make(INVALID_ARGUMENT, "%s %s: more than %d budgets; take a larger step", list->option, option_value,
                             DELTA_MOST_BUDGETS);
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(list->allocator, strlen(text) + 1, &copy));
  memcpy(copy, text, strlen(text) + 1);
  delta_status_t status = delta_array_push(list->allocator, &list->texts, &copy);
  if (status) delta_release(list->allocator, copy);
  return status;
}

// Reads what lies before `end`; false when that is no amount.
static bool parse_amount(const char *text, const char *end, amount_t *out_amount) {
  char part[ITEM_BYTES] = "";
  uint64_t size_bytes = 0;
  if ((size_t)(end - text) >= sizeof part) return false;
  memcpy(part, text, (size_t)(end - text));
  out_amount->is_percentage = delta_number_parse_percentage(part, &out_amount->value);
  if (out_amount->is_percentage) return true;
  delta_status_t status = delta_size_parse(part, &size_bytes);
  const bool is_size = !status;
  delta_status_free(status);
  out_amount->value = (double)size_bytes;
  return is_size && size_bytes > 0 && size_bytes < (uint64_t)1 << 53;
}

static delta_status_t add_amount(delta_budget_list_t *list, const char *option_value, const amount_t *amount) {
  char text[ITEM_BYTES];
  snprintf(text, sizeof text, amount->is_percentage ? "%.10g%%" : "%.0f", amount->value);
  return add_text(list, option_value, text);
}

static delta_status_t add_range(delta_budget_list_t *list, const char *option_value, const char *item) {
  const char *mark = strstr(item, range_mark), *to_text = mark + strlen(range_mark), *colon = strchr(to_text, ':');
  const char *end = item + strlen(item);
  amount_t from, to, step;
  bool is_range = parse_amount(item, mark, &from) && parse_amount(to_text, colon ? colon : end, &to);
  step = from;
  if (colon) is_range = is_range && parse_amount(colon + 1, end, &step);
  if (!is_range)
    return delta_status_make(INVALID_ARGUMENT, "%s %s: '%s': %s, of amounts above 0", list->option, option_value, item, range_help);
  if (from.is_percentage != to.is_percentage || from.is_percentage != step.is_percentage)
    return delta_status_make(INVALID_ARGUMENT, "%s %s: '%s' mixes percentages and sizes; %s", list->option, option_value, item, range_help);
  if (to.value < from.value)
    return delta_status_make(INVALID_ARGUMENT, "%s %s: '%s' ends before it begins; give the smaller budget first", list->option,
                             option_value, item);
  const double whole_steps = floor((to.value - from.value) / step.value + 1e-6);
  for (double i = 0; i <= whole_steps; ++i)
    DELTA_RETURN_IF_ERROR(
        add_amount(list, option_value, &(amount_t){.is_percentage = from.is_percentage, .value = from.value + i * step.value}));
  return DELTA_OK;
}

static delta_status_t add_item(delta_budget_list_t *list, const char *option_value, const char *item) {
  amount_t amount;
  if (strstr(item, range_mark)) return add_range(list, option_value, item);
  const bool is_word = strcmp(item, "minimum") == 0 || strcmp(item, "unlimited") == 0;
  if (is_word || parse_amount(item, item + strlen(item), &amount)) return add_text(list, option_value, item);
  return delta_status_make(INVALID_ARGUMENT,
                           "%s %s: '%s' is no budget above 0: give sizes, percentages, minimum, unlimited or ranges, with commas",
                           list->option, option_value, item);
}

bool delta_budgets_are_many(const char *text) { return strchr(text, ',') || strstr(text, range_mark); }

delta_status_t delta_budgets_parse(const char *text, delta_budget_list_t *list) {
  for (const char *from = text;; ++from) {
    const size_t length = strcspn(from, ",");
    char item[ITEM_BYTES] = "";
    if (length >= sizeof item)
      return delta_status_make(INVALID_ARGUMENT, "%s %s: '%.*s' is no budget", list->option, text, (int)length, from);
    memcpy(item, from, length);
    DELTA_RETURN_IF_ERROR(add_item(list, text, item));
    from += length;
    if (!*from) return DELTA_OK;
  }
}

void delta_budgets_deinit(delta_budget_list_t *list) {
  for (size_t i = 0; i < list->texts.count; ++i) delta_release(list->allocator, list->texts.items[i]);
  delta_array_deinit(list->allocator, &list->texts);
}
