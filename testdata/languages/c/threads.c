// Threads: mutex, condition, barrier, once, keys, semaphore, rwlock, detached,
// cancelled, and their stacks.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_key_t key;
static sem_t sem;
static long total;
static atomic_long steps;
static _Thread_local int mine;
static int ready, onces, serial, destroyed;

static void first(void) { onces++; }
static void destroy(void *p) { (void)p; __atomic_add_fetch(&destroyed, 1, __ATOMIC_SEQ_CST); }

static void *add(void *arg) {
	pthread_once(&once, first);
	pthread_setspecific(key, arg);
	mine = 1;
	for (int i = 0; i < 10000; i++) {
		pthread_mutex_lock(&lock);
		total++;
		pthread_mutex_unlock(&lock);
		atomic_fetch_add(&steps, 1);
	}
	if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD) __atomic_add_fetch(&serial, 1, __ATOMIC_SEQ_CST);
	sem_post(&sem);
	return (void *)((long)arg * 2);
}

static void *wait_ready(void *arg) {
	(void)arg;
	pthread_mutex_lock(&lock);
	while (!ready) pthread_cond_wait(&cond, &lock);
	pthread_mutex_unlock(&lock);
	return "ready";
}

static void *forever(void *arg) { (void)arg; for (;;) pause(); }
static void *deep(void *arg) { volatile char big[4 << 20]; memset((char *)big, 1, sizeof big); (void)arg; return (void *)(long)big[12345]; }
static int plain(void *arg) { return *(int *)arg + 1; }

int main(void) {
	enum { N = 16 };
	pthread_t t[N];
	void *r;
	long sum = 0;
	pthread_barrier_init(&barrier, 0, N);
	pthread_key_create(&key, destroy);
	sem_init(&sem, 0, 0);
	for (long i = 0; i < N; i++) pthread_create(&t[i], 0, add, (void *)(i + 1));
	for (int i = 0; i < N; i++) { pthread_join(t[i], &r); sum += (long)r; }
	int posts;
	sem_getvalue(&sem, &posts);
	printf("total %ld steps %ld sum %ld once %d serial %d destroyed %d posts %d local %d\n", total, atomic_load(&steps), sum, onces, serial, destroyed, posts, mine);

	pthread_create(&t[0], 0, wait_ready, 0);
	pthread_mutex_lock(&lock);
	ready = 1;
	pthread_cond_broadcast(&cond);
	pthread_mutex_unlock(&lock);
	pthread_join(t[0], &r);
	printf("%s\n", (char *)r);

	pthread_create(&t[0], 0, forever, 0);
	pthread_cancel(t[0]);
	pthread_join(t[0], &r);
	printf("cancelled %d\n", r == PTHREAD_CANCELED);

	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 8 << 20);
	pthread_create(&t[0], &attr, deep, 0);
	pthread_join(t[0], &r);
	printf("stack %ld\n", (long)r);

	struct timespec at;
	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_nsec += 50 * 1000 * 1000;
	if (at.tv_nsec >= 1000000000) at.tv_sec++, at.tv_nsec -= 1000000000;
	pthread_mutex_lock(&lock);
	printf("timed wait %d\n", pthread_cond_timedwait(&cond, &lock, &at) == ETIMEDOUT);
	pthread_mutex_unlock(&lock);
	int one = pthread_rwlock_rdlock(&rw), two = pthread_rwlock_tryrdlock(&rw);
	printf("rwlock %d %d %d\n", one, two, pthread_rwlock_trywrlock(&rw) == EBUSY);

	thrd_t c11;
	int value = 41, result;
	thrd_create(&c11, plain, &value);
	thrd_join(c11, &result);
	printf("C11 %d\n", result);
	pthread_setname_np(pthread_self(), "renamed");
	char name[16];
	pthread_getname_np(pthread_self(), name, sizeof name);
	printf("name %s\n", name);
	return 0;
}
