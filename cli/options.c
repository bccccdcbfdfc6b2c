// Options: one function per kind of value, chosen by the row; everything else walks the rows.
#include "cli/options.h"

#include <assert.h>
#include <string.h>

#include "base/number.h"
#include "base/status.h"
#include "cli/budgets.h"

const char *const delta_budget_choices[] = {"N%", "minimum", "unlimited", NULL};

// The value being read: which row, from what text, to where.
typedef struct option_value {
  const delta_option_t *row;
  const char *text; // NULL for flags
  void *target;
  delta_allocator_t allocator;
} option_value_t;

static bool takes_value(const delta_option_t *row) { return row->kind != DELTA_OPTION_FLAG && row->kind != DELTA_OPTION_FLAG_OFF; }

// "a, b or c".
static delta_status_t append_choices(delta_text_t *text, const char *const *choices) {
  for (size_t i = 0; choices[i]; ++i) {
    const char *separator = i == 0 ? "" : choices[i + 1] ? ", " : " or ";
    DELTA_RETURN_IF_ERROR(delta_text_append(text, "%s%s", separator, choices[i]));
  }
  return DELTA_OK;
}

// The usage error for a value that its row does not take. `wanted` is followed by the row's choices, if it has any.
static delta_status_t refuse_value(const option_value_t *value, const char *wanted) {
  const delta_option_t *row = value->row;
  delta_text_t text;
  delta_text_init(&text, value->allocator);
  delta_status_t status = delta_text_append(&text, "%s%s", wanted, wanted[0] && row->choices ? ", " : "");
  if (!status && row->choices) status = append_choices(&text, row->choices);
  if (!status) status = delta_status_make(INVALID_ARGUMENT, "%s '%s': wanted %s", row->name, value->text, text.items);
  delta_text_deinit(&text);
  return status;
}

static delta_status_t store_flag(const option_value_t *value) {
  *(bool *)value->target = true;
  return DELTA_OK;
}

static delta_status_t store_flag_off(const option_value_t *value) {
  *(bool *)value->target = false;
  return DELTA_OK;
}

static delta_status_t check_limits(const option_value_t *value, double number) {
  const double boundless = 1e15; // a maximum that means none
  const delta_option_t *row = value->row;
  if (row->minimum == row->maximum || (number >= row->minimum && number <= row->maximum)) return DELTA_OK;
  if (row->maximum >= boundless) {
    return delta_status_make(INVALID_ARGUMENT, "%s '%s': wanted at least %.15g", row->name, value->text, row->minimum);
  }
  return delta_status_make(INVALID_ARGUMENT, "%s '%s': wanted from %.15g to %.15g", row->name, value->text, row->minimum, row->maximum);
}

static delta_status_t store_integer(const option_value_t *value) {
  int64_t number;
  if (!delta_number_parse_digits(value->text, &number)) return refuse_value(value, "an integer");
  DELTA_RETURN_IF_ERROR(check_limits(value, (double)number));
  *(int64_t *)value->target = number;
  return DELTA_OK;
}

static delta_status_t store_number(const option_value_t *value) {
  double number;
  if (!delta_number_parse(value->text, &number)) return refuse_value(value, "a decimal number");
  DELTA_RETURN_IF_ERROR(check_limits(value, number));
  *(double *)value->target = number;
  return DELTA_OK;
}

static delta_status_t store_text(const option_value_t *value) {
  if (value->text[0] == '\0') return refuse_value(value, value->row->argument);
  *(const char **)value->target = value->text;
  return DELTA_OK;
}

static delta_status_t store_list_item(const option_value_t *value) {
  delta_option_item_t item = {.option = value->row->name, .text = value->text};
  if (value->text[0] == '\0') return refuse_value(value, value->row->argument);
  return delta_array_push(value->allocator, (delta_option_list_t *)value->target, &item);
}

static bool find_choice(const char *const *choices, const char *text, int *out_index) {
  for (*out_index = 0; choices && choices[*out_index]; ++*out_index) {
    if (strcmp(choices[*out_index], text) == 0) return true;
  }
  return false;
}

static delta_status_t store_choice(const option_value_t *value) {
  int index;
  if (!find_choice(value->row->choices, value->text, &index)) return refuse_value(value, "");
  *(int *)value->target = index;
  return DELTA_OK;
}

static bool is_size(const char *text) {
  uint64_t size_bytes;
  delta_status_t status = delta_size_parse(text, &size_bytes);
  bool parsed = status == DELTA_OK;
  delta_status_free(status);
  return parsed;
}

static delta_status_t store_size_text(const option_value_t *value) {
  static const char percentage[] = "N%";
  const char *const *choices = value->row->choices;
  int index;
  bool is_word = find_choice(choices, value->text, &index) && strcmp(value->text, percentage) != 0;
  double percent;
  bool is_part = find_choice(choices, percentage, &index) && delta_number_parse_percentage(value->text, &percent);
  if (!is_word && !is_part && !is_size(value->text)) return refuse_value(value, "a size such as 800MB or 8GiB");
  *(const char **)value->target = value->text;
  return DELTA_OK;
}

static delta_status_t store_sizes_text(const option_value_t *value) {
  if (!delta_budgets_are_many(value->text)) return store_size_text(value);
  *(const char **)value->target = value->text;
  return DELTA_OK;
}

static delta_status_t store_value(const option_value_t *value) {
  static delta_status_t (*const stores[DELTA_OPTION_KIND_COUNT])(const option_value_t *) = {
      [DELTA_OPTION_FLAG] = store_flag,           [DELTA_OPTION_FLAG_OFF] = store_flag_off,
      [DELTA_OPTION_SIZE_TEXT] = store_size_text, [DELTA_OPTION_SIZES_TEXT] = store_sizes_text,
      [DELTA_OPTION_INTEGER] = store_integer,     [DELTA_OPTION_NUMBER] = store_number,
      [DELTA_OPTION_TEXT] = store_text,           [DELTA_OPTION_TEXT_LIST] = store_list_item,
      [DELTA_OPTION_CHOICE] = store_choice,
  };
  return stores[value->row->kind](value);
}

// The number of insertions, deletions and replacements that turn one name into the other. Names longer than the table are far apart.
static size_t edit_distance(const char *typed, size_t typed_length, const char *name) {
  enum { LONGEST = 48 };
  size_t distances[LONGEST + 1], name_length = strlen(name);
  if (typed_length > LONGEST || name_length > LONGEST) return LONGEST;
  for (size_t j = 0; j <= name_length; ++j) distances[j] = j;
  for (size_t i = 1; i <= typed_length; ++i) {
    size_t diagonal = distances[0];
    distances[0] = i;
    for (size_t j = 1; j <= name_length; ++j) {
      size_t replaced = diagonal + (typed[i - 1] != name[j - 1]);
      size_t shorter = distances[j - 1] < distances[j] ? distances[j - 1] : distances[j];
      diagonal = distances[j];
      distances[j] = replaced < shorter + 1 ? replaced : shorter + 1;
    }
  }
  return distances[name_length];
}

// The row nearest to what was typed, if it is near: it begins so, or at most a third is wrong.
static const delta_option_t *nearest_row(const delta_program_t *program, const char *typed, size_t typed_length) {
  const delta_option_t *nearest = NULL;
  size_t nearest_distance = typed_length / 3 + 1;
  for (size_t i = 0; i < program->option_count; ++i) {
    const delta_option_t *row = &program->options[i];
    bool begins = typed_length > 3 && strncmp(row->name, typed, typed_length) == 0;
    size_t distance = begins ? 1 : edit_distance(typed, typed_length, row->name);
    if (distance >= nearest_distance) continue;
    nearest = row;
    nearest_distance = distance;
  }
  return nearest;
}

static delta_status_t refuse_option(const delta_program_t *program, const char *typed, size_t typed_length) {
  const delta_option_t *row = nearest_row(program, typed, typed_length);
  if (row) return delta_status_make(INVALID_ARGUMENT, "no option %.*s; did you mean %s?", (int)typed_length, typed, row->name);
  return delta_status_make(INVALID_ARGUMENT, "no option %.*s; %s --help lists them", (int)typed_length, typed, program->name);
}

static const delta_option_t *find_row(const delta_program_t *program, const char *name, size_t name_length) {
  for (size_t i = 0; i < program->option_count; ++i) {
    const char *row_name = program->options[i].name;
    if (strlen(row_name) == name_length && memcmp(row_name, name, name_length) == 0) return &program->options[i];
  }
  return NULL;
}

// Takes the value of `row` from the argument after it. It may begin with one dash (a negative number), but an option there means that the
// value was forgotten.
static delta_status_t take_next(const delta_program_t *program, const delta_option_t *row, int argc, char *const *argv, int *index,
                                const char **out_text) {
  const char *next = *index + 1 < argc ? argv[*index + 1] : NULL;
  if (!next || strncmp(next, "--", 2) == 0 || find_row(program, next, strlen(next))) {
    return delta_status_make(INVALID_ARGUMENT, "%s needs a value: %s %s", row->name, row->name, row->argument);
  }
  *out_text = next;
  ++*index;
  return DELTA_OK;
}

// Reads the option at argv[*index], moving on over its value.
static delta_status_t parse_option(delta_options_t *options, int argc, char *const *argv, int *index, char *settings) {
  const char *typed = argv[*index], *equals = strchr(typed, '=');
  size_t name_length = equals ? (size_t)(equals - typed) : strlen(typed);
  const delta_option_t *row = find_row(options->program, typed, name_length);
  if (!row) return refuse_option(options->program, typed, name_length);
  option_value_t value = {
      .row = row, .text = equals ? equals + 1 : NULL, .target = settings + row->offset, .allocator = options->allocator};
  if (!takes_value(row) && equals) return delta_status_make(INVALID_ARGUMENT, "%s takes no value", row->name);
  if (takes_value(row) && !equals) DELTA_RETURN_IF_ERROR(take_next(options->program, row, argc, argv, index, &value.text));
  DELTA_RETURN_IF_ERROR(store_value(&value));
  options->given[row - options->program->options] = true;
  return DELTA_OK;
}

static delta_status_t add_positional(delta_options_t *options, const char *text) {
  const delta_program_t *program = options->program;
  if (options->positionals.count == program->positional_maximum) {
    return delta_status_make(INVALID_ARGUMENT, "'%s' is one argument too many", text);
  }
  return delta_array_push(options->allocator, &options->positionals, &text);
}

static delta_options_request_t find_request(int argc, char *const *argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; ++i) {
    if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) return DELTA_OPTIONS_HELP;
    if (strcmp(argv[i], "--version") == 0) return DELTA_OPTIONS_VERSION;
  }
  return DELTA_OPTIONS_RUN;
}

delta_status_t delta_options_parse(const delta_program_t *program, int argc, char *const *argv, void *settings, delta_allocator_t allocator,
                                   delta_options_t *out_options) {
  bool options_ended = false;
  *out_options = (delta_options_t){.program = program, .allocator = allocator, .request = find_request(argc, argv)};
  DELTA_RETURN_IF_ERROR(DELTA_ALLOCATE(allocator, program->option_count, &out_options->given));
  if (out_options->request != DELTA_OPTIONS_RUN) return DELTA_OK;
  for (int i = 1; i < argc; ++i) {
    if (!options_ended && strcmp(argv[i], "--") == 0) {
      options_ended = true;
    } else if (!options_ended && argv[i][0] == '-' && argv[i][1] != '\0') {
      DELTA_RETURN_IF_ERROR(parse_option(out_options, argc, argv, &i, settings));
    } else {
      DELTA_RETURN_IF_ERROR(add_positional(out_options, argv[i]));
    }
  }
  return DELTA_OK;
}

void delta_options_deinit(delta_options_t *options, void *settings) {
  for (size_t i = 0; options->program && i < options->program->option_count; ++i) {
    const delta_option_t *row = &options->program->options[i];
    if (row->kind != DELTA_OPTION_TEXT_LIST) continue;
    delta_option_list_t *list = (delta_option_list_t *)((char *)settings + row->offset);
    delta_array_deinit(options->allocator, list);
  }
  delta_array_deinit(options->allocator, &options->positionals);
  delta_release(options->allocator, options->given);
  *options = (delta_options_t){0};
}

bool delta_options_given(const delta_options_t *options, const char *name) {
  const delta_option_t *row = find_row(options->program, name, strlen(name));
  assert(row);
  return options->given[row - options->program->options];
}
