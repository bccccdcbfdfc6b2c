// Help: the text of --help, from a program's description and its rows.
#include <string.h>

#include "base/status.h"
#include "cli/options.h"

enum { INDENT = 4, HELP_COLUMN = 30, NARROWEST = 20 };

// Where the next word goes.
typedef struct help_line {
  delta_text_t *text;
  size_t column; // used up already
  size_t indent; // of every line
  size_t width;
  bool has_words;
} help_line_t;

static delta_status_t append_word(help_line_t *line, const char *word, size_t length) {
  if (line->has_words && line->column + 1 + length > line->width) {
    DELTA_RETURN_IF_ERROR(delta_text_append(line->text, "\n"));
    line->column = 0;
    line->has_words = false;
  }
  int padding = line->has_words ? 1 : line->column < line->indent ? (int)(line->indent - line->column) : 0;
  DELTA_RETURN_IF_ERROR(delta_text_append(line->text, "%*s%.*s", padding, "", (int)length, word));
  line->column += (size_t)padding + length;
  line->has_words = true;
  return DELTA_OK;
}

// Appends paragraphs separated by newlines, wrapped. `column` of the first line is used up already.
static delta_status_t append_paragraphs(delta_text_t *text, const char *paragraphs, size_t column, size_t indent, size_t width) {
  help_line_t line = {.text = text, .column = column, .indent = indent, .width = width < indent + NARROWEST ? indent + NARROWEST : width};
  for (const char *at = paragraphs; *at;) {
    size_t length = strcspn(at, " \n");
    if (length > 0) DELTA_RETURN_IF_ERROR(append_word(&line, at, length));
    at += length;
    if (*at == '\n') {
      DELTA_RETURN_IF_ERROR(delta_text_append(text, "\n"));
      line.column = 0;
      line.has_words = false;
    }
    at += *at != '\0';
  }
  return delta_text_append(text, "\n");
}

// The help of a row: what it says, then the choices, then whether it is there at all.
static delta_status_t compose_row_help(const delta_option_t *row, delta_text_t *help) {
  DELTA_RETURN_IF_ERROR(delta_text_append(help, "%s", row->help));
  if (row->kind == DELTA_OPTION_CHOICE) {
    for (size_t i = 0; row->choices[i]; ++i) DELTA_RETURN_IF_ERROR(delta_text_append(help, "%s %s", i ? "," : " One of:", row->choices[i]));
    DELTA_RETURN_IF_ERROR(delta_text_append(help, "."));
  }
  if (row->kind == DELTA_OPTION_TEXT_LIST) DELTA_RETURN_IF_ERROR(delta_text_append(help, " May be repeated."));
  return DELTA_OK;
}

static delta_status_t append_row(delta_text_t *text, const delta_option_t *row, size_t width) {
  delta_text_t help;
  delta_status_t status = DELTA_OK;
  const char *space = row->argument ? " " : "", *argument = row->argument ? row->argument : "";
  size_t column = INDENT + strlen(row->name) + strlen(space) + strlen(argument);
  bool has_own_line = column + 2 > HELP_COLUMN;
  delta_text_init(&help, text->allocator);
  DELTA_GOTO_IF_ERROR(status, compose_row_help(row, &help), cleanup);
  DELTA_GOTO_IF_ERROR(status, delta_text_append(text, "%*s%s%s%s%s", INDENT, "", row->name, space, argument, has_own_line ? "\n" : ""),
                      cleanup);
  status = append_paragraphs(text, help.items, has_own_line ? 0 : column, HELP_COLUMN, width);
cleanup:
  delta_text_deinit(&help);
  return status;
}

// Whether a row before `index` has its section already.
static bool section_is_printed(const delta_program_t *program, size_t index) {
  for (size_t i = 0; i < index; ++i) {
    if (strcmp(program->options[i].section, program->options[index].section) == 0) return true;
  }
  return false;
}

static delta_status_t append_section(const delta_program_t *program, size_t first, size_t width, delta_text_t *text) {
  const char *section = program->options[first].section;
  DELTA_RETURN_IF_ERROR(delta_text_append(text, "\n%s\n", section));
  for (size_t i = first; i < program->option_count; ++i) {
    if (strcmp(program->options[i].section, section) != 0) continue;
    DELTA_RETURN_IF_ERROR(append_row(text, &program->options[i], width));
  }
  return DELTA_OK;
}

static delta_status_t append_closing(const char *closing, size_t width, delta_text_t *text) {
  size_t title = strcspn(closing, "\n");
  DELTA_RETURN_IF_ERROR(delta_text_append(text, "\n%.*s\n", (int)title, closing));
  return append_paragraphs(text, closing + title + (closing[title] == '\n'), 0, INDENT, width);
}

delta_status_t delta_options_help(const delta_program_t *program, size_t width, delta_text_t *text) {
  static const delta_option_t own_rows[] = {{.name = "--help", .help = "Print this text."},
                                            {.name = "--version", .help = "Print the version."}};
  DELTA_RETURN_IF_ERROR(delta_text_append(text, "NAME\n%*s%s - %s\n\nSYNOPSIS\n", INDENT, "", program->name, program->summary));
  for (size_t i = 0; program->synopses[i]; ++i) {
    DELTA_RETURN_IF_ERROR(delta_text_append(text, "%*s%s %s\n", INDENT, "", program->name, program->synopses[i]));
  }
  DELTA_RETURN_IF_ERROR(delta_text_append(text, "\nDESCRIPTION\n"));
  DELTA_RETURN_IF_ERROR(append_paragraphs(text, program->description, 0, INDENT, width));
  for (size_t i = 0; i < program->option_count; ++i) {
    if (!section_is_printed(program, i)) DELTA_RETURN_IF_ERROR(append_section(program, i, width, text));
  }
  DELTA_RETURN_IF_ERROR(delta_text_append(text, "\nOTHER\n"));
  for (size_t i = 0; i < sizeof own_rows / sizeof own_rows[0]; ++i) DELTA_RETURN_IF_ERROR(append_row(text, &own_rows[i], width));
  return program->closing ? append_closing(program->closing, width, text) : DELTA_OK;
}
