// Compiled in one cell, run in another: counts primes below its first argument.
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
	long n = argc > 1 ? strtol(argv[1], NULL, 10) : 100, count = 0;
	for (long i = 2; i < n; i++) {
		long j = 2;
		while (j * j <= i && i % j)
			j++;
		count += j * j > i;
	}
	printf("%ld primes below %ld\n", count, n);
	return 0;
}
