// SPDX-License-Identifier: BSD-2-Clause
/* The texts of /proc/PID/stat and /proc/PID/status. */
#include "fuzz.h"

#include "proc/process.c"

/* A process may give itself any name of up to 63 bytes. The kernel writes the rest of the line. */
static void check_comm(const char *comm)
{
	struct process_info info = {0};
	char stat[256];

	snprintf(stat, sizeof(stat),
		 "42 (%.63s) S 1 2 3 4 5 2097152 7 8 9 10 11 12 13 14 15 16 17 0 12345 19 20 21\n",
		 comm);
	require(!parse_stat(stat, &info));
	require(info.state == 'S' && info.kernel_thread && info.threads == 17);
	require(info.start_ticks == 12345 &&
		info.rss_bytes == 20 * (uint64_t)sysconf(_SC_PAGESIZE));
	require(strlen(info.comm) == strnlen(comm, 63));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const keys[] = {"Tgid", "Seccomp", "CapEff"};
	char *text = fuzz_string(data, size), name[16];
	struct process_info info = {0};
	int ret = parse_stat(text, &info);

	require(!ret || ret == -EINVAL);
	if (!ret) {
		require(info.state);
		require(strlen(info.comm) < sizeof(info.comm));
		for (const char *p = info.comm; *p; p++)
			require((unsigned char)*p >= 0x20 && *p != 0x7f);
	}
	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
		const char *value = status_value(text, keys[i]);
		size_t len = strlen(keys[i]);

		require(!value || (value[-1] == ':' && value - text >= (long)len + 1));
		require(!value || !memcmp(value - 1 - len, keys[i], len));
		require(!value || value == text + len + 1 || value[-2 - (long)len] == '\n');
	}
	check_comm(text);
	copy_name(name, sizeof(name), text, strlen(text));
	require(strlen(name) == (strlen(text) < sizeof(name) ? strlen(text) : sizeof(name) - 1));
	free(text);
	return 0;
}
