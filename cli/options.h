// Options: a command line read by a table of rows, and the help text printed from the same rows. Both programs use it.
//
//   typedef struct { const char *output; double rate; bool verbose; } settings_t;
//   static const delta_option_t rows[] = {
//     {.section = "OUTPUT", .name = "-o", .kind = DELTA_OPTION_TEXT, .argument = "FILE",
//      .offset = offsetof(settings_t, output), .help = "Where the plan goes."},
//     {.section = "OUTPUT", .name = "--verbose", .kind = DELTA_OPTION_FLAG,
//      .offset = offsetof(settings_t, verbose), .help = "Say more."},
//   };
//
// Both `--name value` and `--name=value` are read; of an option given twice the last counts, lists collect; `--` ends options; `--help`,
// `-h` and `--version` need no row. Values are left as they were when an option is not given: the caller sets defaults first.
#ifndef DELTA_CLI_OPTIONS_H_
#define DELTA_CLI_OPTIONS_H_

#include <stddef.h>
#include <stdint.h>

#include "base/allocator.h"
#include "base/array.h"
#include "base/text.h"

// X(identifier, type that `offset` points at)
#define DELTA_OPTION_KINDS(X)                                                                                          \
  X(FLAG, bool)                     /* true when given; no argument                                               */   \
  X(FLAG_OFF, bool)                 /* false when given; no argument                                              */   \
  X(SIZE_TEXT, const char *)        /* "8GiB", or one of `choices`; the choice "N%" stands for any percentage     */   \
  X(SIZES_TEXT, const char *)       /* the same, or a list of several (cli/budgets.h), which is left to the program */ \
  X(INTEGER, int64_t)               /* decimal, within [minimum, maximum] of the row when these differ            */   \
  X(NUMBER, double)                 /* finite, within [minimum, maximum] of the row when these differ             */   \
  X(TEXT, const char *)             /* anything that is not empty                                                 */   \
  X(TEXT_LIST, delta_option_list_t) /* collects every occurrence; two rows may share one list                     */   \
  X(CHOICE, int)                    /* the index of the value in `choices`                                        */

typedef enum delta_option_kind {
#define DELTA_OPTION_ENUM(id, type) DELTA_OPTION_##id,
  DELTA_OPTION_KINDS(DELTA_OPTION_ENUM)
#undef DELTA_OPTION_ENUM
      DELTA_OPTION_KIND_COUNT
} delta_option_kind_t;

// One occurrence of a TEXT_LIST option.
typedef struct delta_option_item {
  const char *option; // the row's name: tells two rows of one list apart
  const char *text;   // Borrowed from the command line.
} delta_option_item_t;

typedef DELTA_ARRAY(delta_option_item_t) delta_option_list_t;

typedef struct delta_option {
  const char *section; // rows of one section are printed together
  const char *name;    // "--lr", "-o"
  delta_option_kind_t kind;
  const char *argument;       // placeholder: "X", "SIZE"; NULL for flags
  const char *help;           // sentences; '\n' begins a new line
  size_t offset;              // of the value in the settings
  const char *const *choices; // NULL-terminated; for CHOICE, SIZE_TEXT and SIZES_TEXT
  double minimum, maximum;
} delta_option_t;

// The choices of a budget that is no size, for SIZE_TEXT.
extern const char *const delta_budget_choices[];

// A program, as its help describes it.
typedef struct delta_program {
  const char *name;    // "deltaplan"
  const char *summary; // half a line: "plan the training of an ONNX model within a memory budget"
  const char *version;
  const char *const *synopses; // NULL-terminated; without the name: "MODEL.onnx -o MODEL.plan [options]"
  const char *description;     // paragraphs, separated by '\n'
  const char *closing;         // after the options: a title, then paragraphs, separated by '\n'; NULL: none
  const delta_option_t *options;
  size_t option_count;
  size_t positional_maximum; // more arguments than this are a usage error
} delta_program_t;

// What a command line asks for.
typedef enum delta_options_request { DELTA_OPTIONS_RUN, DELTA_OPTIONS_HELP, DELTA_OPTIONS_VERSION } delta_options_request_t;

typedef struct delta_options {
  const delta_program_t *program;
  delta_allocator_t allocator;
  delta_options_request_t request;
  DELTA_ARRAY(const char *) positionals; // Borrowed texts.
  bool *given;                           // Owned; one per row.
} delta_options_t;

// Reads argv[1 .. argc) into `settings`. A failure is a usage error (exit status 2) and INVALID_ARGUMENT, or else OUT_OF_MEMORY. --help and
// --version are looked for first, so that they work beside any mistake; then nothing else is read. Deinit in any case.
DELTA_MUST_USE delta_status_t delta_options_parse(const delta_program_t *program, int argc, char *const *argv, void *settings,
                                                  delta_allocator_t allocator, delta_options_t *out_options);
// Releases also the lists inside `settings`.
void delta_options_deinit(delta_options_t *options, void *settings);

// Whether the option of that name was on the command line. The name must be a row's.
bool delta_options_given(const delta_options_t *options, const char *name);

// Appends the whole help text, `width` columns wide.
DELTA_MUST_USE delta_status_t delta_options_help(const delta_program_t *program, size_t width, delta_text_t *text);

#endif // DELTA_CLI_OPTIONS_H_
