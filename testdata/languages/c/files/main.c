// A program of several files and a header of its own; files, locale, numbers.
#include <complex.h>
#include <dirent.h>
#include <fcntl.h>
#include <fenv.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "lib/words.h"

int main(int argc, char **argv) {
	for (int i = 1; i < argc; i++) printf("[%s]", argv[i]);
	printf(" %s\n", getenv("GIVEN"));
	int a = 0, b = 0;
	int got = scanf("%d %d", &a, &b);
	printf("scanf %d %d %d\n", got, a, b);
	printf("words %zu %s\n", count_words("a glove in a box"), reversed("evolg"));
	printf("math %.6f %.3f %d %.1f\n", pow(2, 0.5), cabs(3 + 4 * I), isnan(NAN), fma(2, 3, 4));
	setlocale(LC_ALL, "");
	printf("locale %ls %zu\n", L"→ é 漢字", mbstowcs(0, "é漢", 0));
	FILE *f = fopen("out.txt", "w+");
	fprintf(f, "%s", "line one\nline two\n");
	rewind(f);
	char *line = 0;
	size_t room = 0;
	while (getline(&line, &room, f) > 0) printf("read %s", line);
	fclose(f);
	char name[] = "/tmp/x-XXXXXX";
	int fd = mkstemp(name);
	struct stat st;
	fstat(fd, &st);
	printf("mkstemp %o %d\n", st.st_mode & 0777, fd > 2);
	FILE *t = tmpfile();
	printf("tmpfile %d\n", t != 0 && fputs("x", t) >= 0);
	mkdir("d", 0755);
	rename("out.txt", "d/moved");
	symlink("moved", "d/link");
	DIR *d = opendir("d");
	int n = 0;
	while (readdir(d)) n++;
	printf("entries %d\n", n);
	char buf[64];
	time_t when = 86400;
	strftime(buf, sizeof buf, "%F %T %Z", localtime(&when));
	printf("%s\n", buf);
	qsort(argv + 1, (size_t)argc - 1, sizeof *argv, by_text);
	for (int i = 1; i < argc; i++) printf("%s ", argv[i]);
	printf("%" PRIu64 "\n", UINT64_MAX);
	return argc == 4 ? 9 : 1;
}
