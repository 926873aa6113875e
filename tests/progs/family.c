/* SPDX-License-Identifier: BSD-2-Clause */
/* A process with children of all kinds: by fork (this child frees blocks that it inherited), by a
 * fork in this child, by fork and exec, by vfork and exec, and by posix_spawn. Each process reports
 * what it holds at its end. Protocol as in truth.h. The truth is {"processes": {"PID": [bytes,
 * objects], ...}}.
 *
 * family hold N SIZE MS	one of the children: holds N blocks of SIZE bytes for MS ms
 * family leak N SIZE MS	allocates N blocks of SIZE bytes, one every MS ms; no report */
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))
#define TELL_FD	 9

static int truths[2];

NOINLINE static void keep(size_t size)
{
	void *p = malloc(size);

	__asm__ volatile("" : : "r"(p) : "memory");
}

static void tell(size_t bytes, int objects)
{
	char line[64];
	int n = snprintf(line, sizeof(line), "%d %zu %d\n", getpid(), bytes, objects);

	if (write(TELL_FD, line, (size_t)n) != n)
		_exit(3);
}

static void hold(int n, size_t size)
{
	for (int i = 0; i < n; i++)
		keep(size);
	tell((size_t)n * size, n);
}

static void must(int status)
{
	if (status) {
		fprintf(stderr, "family: %s\n", strerror(errno));
		exit(1);
	}
}

static void reap(pid_t pid)
{
	int status;

	must(waitpid(pid, &status, 0) != pid || status);
}

static void fork_children(char *self, void **inherited, int n)
{
	char *argv[] = {self, "hold", "4", "5000", "700", NULL};
	pid_t pid = fork();

	must(pid < 0);
	if (!pid) {
		for (int i = 0; i < n; i++)
			free(inherited[i]);
		for (int i = 0; i < 7; i++)
			keep(3000);
		pid = fork();
		if (!pid) {
			hold(3, 400);
			_exit(0);
		}
		reap(pid);
		tell(7 * 3000, 7);
		_exit(0);
	}
	reap(pid);
	pid = fork();
	must(pid < 0);
	if (!pid) {
		execv(self, argv);
		_exit(2);
	}
	reap(pid);
}

static void spawn_children(char *self)
{
	char *argv[] = {self, "hold", "6", "700", "700", NULL};
	char *spawned[] = {self, "hold", "2", "9000", "700", NULL};
	pid_t pid = vfork();

	must(pid < 0);
	if (!pid) {
		execv(self, argv);
		_exit(2);
	}
	reap(pid);
	must(posix_spawn(&pid, self, NULL, NULL, spawned, NULL));
	reap(pid);
}

int main(int argc, char **argv)
{
	static char truth[4096], buffer[8192];
	void *inherited[5];
	ssize_t n, len = 0;
	char line[8];

	if (argc == 5) {
		int leak = !strcmp(argv[1], "leak");

		if (!leak)
			hold(atoi(argv[2]), (size_t)atol(argv[3]));
		for (int i = 0; leak && i < atoi(argv[2]); i++) {
			keep((size_t)atol(argv[3]));
			usleep((useconds_t)atoi(argv[4]) * 1000);
		}
		if (!leak)
			usleep((useconds_t)atoi(argv[4]) * 1000);
		_exit(0);
	}
	setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
	must(pipe(truths) || dup2(truths[1], TELL_FD) < 0 || close(truths[1]));
	printf("ready %d\n", getpid());
	fflush(stdout);
	if (read(STDIN_FILENO, line, sizeof(line)) <= 0)
		return 1;
	for (int i = 0; i < 5; i++)
		inherited[i] = malloc(2000);
	for (int i = 0; i < 10; i++)
		keep(1000);
	fork_children(argv[0], inherited, 5);
	spawn_children(argv[0]);
	tell(5 * 2000 + 10 * 1000, 15);
	close(TELL_FD);
	while ((n = read(truths[0], truth + len, sizeof(truth) - 1 - (size_t)len)) > 0)
		len += n;
	printf("{\"processes\": {");
	for (char *p = strtok(truth, "\n"); p; p = strtok(NULL, "\n")) {
		int pid, objects;
		size_t bytes;

		must(sscanf(p, "%d %zu %d", &pid, &bytes, &objects) != 3);
		printf("%s\"%d\": [%zu, %d]", p == truth ? "" : ", ", pid, bytes, objects);
	}
	printf("}}\n");
	fflush(stdout);
	return read(STDIN_FILENO, line, sizeof(line)) < 0;
}
