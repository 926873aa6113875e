// SPDX-License-Identifier: BSD-2-Clause
/* The agent's configuration file. */
#include "fuzz.h"

#include "cli/agent_config.h"
#include "cli/cli.h"

static void hush(const char *text)
{
	require(text && *text);
}

static int check(int n, char **argv)
{
	require(n == 2 && !strcmp(argv[0], "agent") && !strncmp(argv[1], "--", 2) && !argv[2]);
	require(strcmp(argv[1], "--config") && strncmp(argv[1], "--config=", 9));
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = fuzz_file(data, size), rc;
	struct arguments a;
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	complain_to(hush);
	rc = arguments__expand("agent", 4,
			       (char *[]){(char *)"agent", (char *)"-a", (char *)"--config", path},
			       check, &a);
	require(rc == 0 || rc == EXIT_USAGE || rc == EXIT_FAILED);
	require(a.argc >= 2 && a.argc <= 2 + AGENT_CONFIG_LINES && !a.argv[a.argc]);
	/* each argument has at least 3 characters, all of one line */
	for (int i = 2; i < a.argc; i++)
		require(strlen(a.argv[i]) >= 3 && !strpbrk(a.argv[i], "\n"));
	arguments__free(&a);
	close(fd);
	return 0;
}
