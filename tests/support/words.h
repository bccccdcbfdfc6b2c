// Words: whether a message names something, as a whole word.
#ifndef DELTA_TESTS_SUPPORT_WORDS_H_
#define DELTA_TESTS_SUPPORT_WORDS_H_

#include <stdbool.h>

// `words` are separated by '|' and may be of several words. A word that ends in '_' is the beginning of a name.
bool delta_words_any(const char *text, const char *words);
bool delta_words_all(const char *text, const char *words);

#endif // DELTA_TESTS_SUPPORT_WORDS_H_
