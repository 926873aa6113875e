// SPDX-License-Identifier: BSD-2-Clause
/* The texts of /proc/PID/stat and /proc/PID/status. */
#include "fuzz.h"

#include "proc/process.c"

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
	copy_name(name, sizeof(name), text, strlen(text));
	require(strlen(name) == (strlen(text) < sizeof(name) ? strlen(text) : sizeof(name) - 1));
	free(text);
	return 0;
}
