#include "words.h"

#include <ctype.h>
#include <string.h>

size_t count_words(const char *s) {
	size_t n = 0;
	for (int in = 0; *s; s++) {
		if (!isspace((unsigned char)*s) && !in) n++;
		in = !isspace((unsigned char)*s);
	}
	return n;
}

const char *reversed(const char *s) {
	static char out[64];
	size_t n = strlen(s);
	for (size_t i = 0; i < n && i < sizeof out - 1; i++) out[i] = s[n - 1 - i];
	return out;
}

int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
