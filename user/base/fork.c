// SPDX-License-Identifier: BSD-2-Clause
#include "base/fork.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/priority.h"

pid_t fork__blocked(void)
{
	sigset_t all, before;
	pid_t pid;
	int error;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pid = fork();
	if (!pid) {
		priority__restore();
		return 0;
	}
	error = errno;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	errno = error;
	return pid;
}
