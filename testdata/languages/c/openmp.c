// OpenMP: as many threads as the cell has processors, and more when asked.
#include <math.h>
#include <omp.h>
#include <stdio.h>

int main(void) {
	double sum = 0;
	int most = 0, tasks = 0;
	printf("threads %d\n", omp_get_max_threads());
#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 100)
	for (int i = 1; i <= 1000000; i++) sum += 1.0 / i / i;
	printf("sum %.5f\n", sqrt(sum * 6));
#pragma omp parallel num_threads(8)
	{
#pragma omp critical
		if (omp_get_thread_num() > most) most = omp_get_thread_num();
#pragma omp barrier
#pragma omp single
		for (int i = 0; i < 10; i++)
#pragma omp task
#pragma omp atomic
			tasks++;
	}
	printf("asked for 8, last %d, tasks %d\n", most, tasks);
	return 0;
}
