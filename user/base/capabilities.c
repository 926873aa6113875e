// SPDX-License-Identifier: BSD-2-Clause
/* This file makes three system calls itself. libcap-ng makes the same calls, but it keeps state of
 * its own and reads the text of /proc. It would also be one more library in a privileged
 * process. */
#include "base/capabilities.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORDS _LINUX_CAPABILITY_U32S_3

static uint64_t joined(uint32_t low, uint32_t high)
{
	return low | (uint64_t)high << 32;
}

int capabilities__read(struct capabilities *ret)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[WORDS];

	if (syscall(SYS_capget, &header, data))
		return -errno;
	*ret = (struct capabilities){
		.effective = joined(data[0].effective, data[1].effective),
		.permitted = joined(data[0].permitted, data[1].permitted),
		.inheritable = joined(data[0].inheritable, data[1].inheritable),
	};
	return 0;
}

int capabilities__limit(uint64_t effective, uint64_t permitted)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[WORDS] = {};
	struct capabilities now;
	int rc = capabilities__read(&now);

	if (rc)
		return rc;
	if (now.effective & CAPABILITY(CAP_SETPCAP))
		for (int cap = 0; prctl(PR_CAPBSET_READ, cap, 0, 0, 0) >= 0; cap++)
			if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0))
				return -errno;
	permitted &= now.permitted;
	effective &= permitted;
	for (int i = 0; i < WORDS; i++) {
		data[i].permitted = (uint32_t)(permitted >> (32 * i));
		data[i].effective = (uint32_t)(effective >> (32 * i));
	}
	/* This empties the ambient set, too, because the ambient set never holds capabilities that
	 * are not inheritable. */
	return syscall(SYS_capset, &header, data) ? -errno : 0;
}
