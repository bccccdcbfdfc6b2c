#include "tests/support/words.h"

#include <ctype.h>
#include <string.h>

static bool is_word_byte(char byte) { return isalnum((unsigned char)byte) || byte == '_'; }

static bool has_word(const char *text, const char *word, size_t length) {
  for (const char *at = text; length > 0 && *at; ++at) {
    if (strncmp(at, word, length) != 0) continue;
    bool begins = at == text || !is_word_byte(at[-1]) || !is_word_byte(word[0]);
    bool ends = !is_word_byte(at[length]) || !is_word_byte(word[length - 1]) || word[length - 1] == '_';
    if (begins && ends) return true;
  }
  return false;
}

static size_t count_words(const char *text, const char *words, size_t *out_total) {
  size_t found = 0;
  *out_total = 0;
  while (*words) {
    size_t length = strcspn(words, "|");
    ++*out_total;
    found += has_word(text, words, length);
    words += length + (words[length] == '|');
  }
  return found;
}

bool delta_words_any(const char *text, const char *words) {
  size_t total;
  return count_words(text, words, &total) > 0;
}

bool delta_words_all(const char *text, const char *words) {
  size_t total;
  return count_words(text, words, &total) == total;
}
