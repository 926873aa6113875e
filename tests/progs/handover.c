/* SPDX-License-Identifier: BSD-2-Clause */
/* Two pools of threads (make-1 and make-2; use-1 to use-3) pass blocks to each other by a fixed
 * script. Other blocks are held for known times. One stack has a known maximum of live memory. At
 * the end the program prints the truth as one line of JSON. */
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))
#define MAKERS	 2
#define USERS	 3
#define BLOCKS	 5000
#define AGES	 10

/* Bytes by maker. freed[maker][0]: freed by the maker itself; [1..]: by each user; [last]: by
 * nobody. */
static uint64_t freed[MAKERS][USERS + 2], allocated[MAKERS];
static void *handed[MAKERS][USERS][BLOCKS];
static pthread_barrier_t made;

static size_t size_of(size_t maker, size_t i)
{
	return 40 + 100 * maker + i % 97;
}

NOINLINE static void *make_block(size_t size)
{
	char *p = malloc(size);

	memset(p, 1, size);
	return p;
}

static void *make(void *arg)
{
	size_t self = (size_t)(uintptr_t)arg;
	char name[16];

	snprintf(name, sizeof(name), "make-%zu", self + 1);
	pthread_setname_np(pthread_self(), name);
	for (size_t i = 0; i < BLOCKS; i++) {
		size_t size = size_of(self, i), to = (i * 7 + self) % (USERS + 2);
		void *p = make_block(size);

		allocated[self] += size;
		freed[self][to] += size;
		if (!to)
			free(p);
		else if (to <= USERS)
			handed[self][to - 1][i] = p;
	}
	pthread_barrier_wait(&made);
	pthread_barrier_wait(&made); /* the thread must exist until the end */
	return NULL;
}

static void *use(void *arg)
{
	size_t self = (size_t)(uintptr_t)arg;
	char name[16];

	snprintf(name, sizeof(name), "use-%zu", self + 1);
	pthread_setname_np(pthread_self(), name);
	pthread_barrier_wait(&made);
	for (size_t maker = 0; maker < MAKERS; maker++)
		for (size_t i = 0; i < BLOCKS; i++)
			if (handed[maker][self][i])
				free(handed[maker][self][i]);
	pthread_barrier_wait(&made);
	return NULL;
}

/* --- ages --- */

/* between_ages: blocks that may belong to either of two classes */
static uint64_t by_age[AGES], between_ages;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int class_of(uint64_t ns)
{
	uint64_t end = 10000;
	int class = 0;

	for (; class < AGES - 1 && ns > end; class ++)
		end *= 10;
	return class;
}

NOINLINE static void hold(uint64_t ns)
{
	uint64_t before = now_ns(), after, end;
	char *p = malloc(200);
	struct timespec pause = {.tv_sec = (time_t)(ns / 1000000000),
				 .tv_nsec = (long)(ns % 1000000000)};
	int least, most;

	memset(p, 1, 200);
	__asm__ volatile("" : "+r"(p) : : "memory"); /* the compiler must keep malloc */
	after = now_ns();
	if (ns)
		nanosleep(&pause, NULL);
	end = now_ns();
	free(p);
	least = class_of(end - after);
	most = class_of(now_ns() - before);
	if (least == most)
		by_age[least]++;
	else
		between_ages++;
}

/* Allocates 100 blocks, frees 60, allocates 20, frees 50: 10 are left. There are 100 at most. */
NOINLINE static void *wave_block(void)
{
	char *p = malloc(1000);

	memset(p, 1, 1000);
	return p;
}

static void *wave[120];

/* All calls of wave_block() come from one place, so that there is one stack. */
static void make_wave(void)
{
	for (size_t i = 0, gone = 0; i < 120; i++) {
		wave[i] = wave_block();
		for (; gone < (i < 99 ? 0 : i < 119 ? 60 : 110); gone++)
			free(wave[gone]);
	}
}

int main(void)
{
	pthread_t threads[MAKERS + USERS];

	pthread_barrier_init(&made, NULL, MAKERS + USERS);
	for (size_t i = 0; i < MAKERS; i++)
		pthread_create(&threads[i], NULL, make, (void *)(uintptr_t)i);
	for (size_t i = 0; i < USERS; i++)
		pthread_create(&threads[MAKERS + i], NULL, use, (void *)(uintptr_t)i);
	for (size_t i = 0; i < MAKERS + USERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < 61; i++)
		hold(i == 60 ? 300000000 : (const uint64_t[]){0, 3000000, 30000000}[i % 3]);
	make_wave();
	printf("{\"makers\": [");
	for (size_t i = 0; i < MAKERS; i++) {
		printf("%s{\"allocated\": %llu, \"freed\": [", i ? ", " : "",
		       (unsigned long long)allocated[i]);
		for (size_t k = 0; k < USERS + 2; k++)
			printf("%s%llu", k ? ", " : "", (unsigned long long)freed[i][k]);
		printf("]}");
	}
	printf("], \"by_age\": [");
	for (int i = 0; i < AGES; i++)
		printf("%s%llu", i ? ", " : "", (unsigned long long)by_age[i]);
	printf("], \"between_ages\": %llu}\n", (unsigned long long)between_ages);
	return 0;
}
