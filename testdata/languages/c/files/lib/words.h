#include <stddef.h>

size_t count_words(const char *s);
const char *reversed(const char *s);
int by_text(const void *a, const void *b);
