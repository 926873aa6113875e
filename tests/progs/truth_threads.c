/* SPDX-License-Identifier: BSD-2-Clause */
/* Eight threads, thr-0 to thr-7. Each allocates in its own function alloc_by_N, and the threads
 * free each other's blocks. Some blocks stay with the thread that made them, so every thread holds
 * some. The threads exist before "ready" and until the end. --blocks N: allocations per thread
 * (20000). */
#include <pthread.h>

#define TRUTH_BLOCKS_LOG2 20
#include "truth.h"

#define THREADS	  8
#define QUEUE	  4096
#define KEEP_EACH 16 /* of this many blocks, one is kept */

static pthread_mutex_t queue_lock = PTHREAD_MUTEX_INITIALIZER;
static void *queue[QUEUE];
static size_t queue_head, queue_tail;

static pthread_barrier_t start, done;
static uint64_t n_blocks;
static char names[THREADS][16];

static bool queue_put(void *p)
{
	bool ok;

	pthread_mutex_lock(&queue_lock);
	ok = queue_head - queue_tail < QUEUE;
	if (ok)
		queue[queue_head++ % QUEUE] = p;
	pthread_mutex_unlock(&queue_lock);
	return ok;
}

static void *queue_get(void)
{
	void *p = NULL;

	pthread_mutex_lock(&queue_lock);
	if (queue_head != queue_tail)
		p = queue[queue_tail++ % QUEUE];
	pthread_mutex_unlock(&queue_lock);
	return p;
}

#define ALLOC_BY(n)                                                                                \
	NOINLINE static void *alloc_by_##n(size_t size)                                            \
	{                                                                                          \
		return T_MALLOC(size);                                                             \
	}

ALLOC_BY(0)
ALLOC_BY(1)
ALLOC_BY(2)
ALLOC_BY(3)
ALLOC_BY(4)
ALLOC_BY(5)
ALLOC_BY(6)
ALLOC_BY(7)

static void *(*const alloc_by[THREADS])(size_t) = {
	alloc_by_0, alloc_by_1, alloc_by_2, alloc_by_3,
	alloc_by_4, alloc_by_5, alloc_by_6, alloc_by_7,
};

NOINLINE static void free_somebodys(void)
{
	T_FREE(queue_get());
}

static void *work(void *arg)
{
	size_t self = (size_t)(uintptr_t)arg;
	uint64_t state = truth_seed(self + 1);

	snprintf(names[self], sizeof(names[self]), "thr-%zu", self);
	pthread_setname_np(pthread_self(), names[self]);
	truth_thread(names[self]);
	pthread_barrier_wait(&done); /* the thread has its name now, and main waits for this */
	pthread_barrier_wait(&start);
	for (uint64_t i = 0; i < n_blocks; i++) {
		uint64_t r = truth_random(&state);
		void *p = alloc_by[self](16 + (r & 1023));

		if (i % KEEP_EACH && !queue_put(p))
			T_FREE(p);
		if (r >> 59 > 3) /* takes fewer blocks than queue_put() adds, so the queue fills */
			free_somebodys();
	}
	pthread_barrier_wait(&done);
	pthread_barrier_wait(&start); /* a tracer may look for the thread names until then */
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	int status;

	truth_init(argc, argv);
	n_blocks = truth_number(argc, argv, "--blocks", 20000);
	pthread_barrier_init(&start, NULL, THREADS + 1);
	pthread_barrier_init(&done, NULL, THREADS + 1);
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, work, (void *)(uintptr_t)i))
			truth_die("cannot create a thread");
	pthread_barrier_wait(&done);
	truth_ready();
	pthread_barrier_wait(&start);
	pthread_barrier_wait(&done);
	truth_print();
	status = truth_finish();
	pthread_barrier_wait(&start);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return status;
}
