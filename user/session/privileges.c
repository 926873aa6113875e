// SPDX-License-Identifier: BSD-2-Clause
#include "session/privileges.h"

#include <errno.h>
#include <linux/capability.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/far.h"

/* Values as in linux/capability.h, which may be older than the kernel. */
#define PERFMON		   38 /* Linux 5.8 */
#define BPF		   39 /* Linux 5.8 */
#define CHECKPOINT_RESTORE 40 /* Linux 5.9 */

const char privileges_without_root[] =
	"CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE, CAP_CHECKPOINT_RESTORE and "
	"CAP_DAC_READ_SEARCH";

static const struct {
	int cap;
	const char *name;
	enum privileges_phase last; /* the last phase that needs the capability */
	bool needed;		    /* tracing is impossible without it */
	bool in_sys_admin;	    /* the kernel accepts CAP_SYS_ADMIN instead */
} table[] = {
	/* To make BPF tables and load programs. Also needed later: to make unwind tables of what a
	 * target maps, and until Linux 5.19 even to read the tables. */
	{BPF, "CAP_BPF", PRIVILEGES_STOPPED, true, true},
	/* To load programs that trace, to place probes, to be told of new mappings in targets. */
	{PERFMON, "CAP_PERFMON", PRIVILEGES_TRACING, true, true},
	/* To read memory and /proc of other users' processes, and to hold the command by ptrace. */
	{CAP_SYS_PTRACE, "CAP_SYS_PTRACE", PRIVILEGES_STOPPED, true, false},
	/* To open exactly the files that are mapped: /proc/PID/map_files. */
	{CHECKPOINT_RESTORE, "CAP_CHECKPOINT_RESTORE", PRIVILEGES_STOPPED, true, true},
	/* To read what only the owner may read of another user's process and of its files. */
	{CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", PRIVILEGES_STOPPED, false, false},
	/* To raise the priority of what must not wait for a CPU: the process that changes a
	 * target's code, and memtrace itself while it waits for what is due next. */
	{CAP_SYS_NICE, "CAP_SYS_NICE", PRIVILEGES_STOPPED, false, false},
	/* To lock more memory than the user may, for the buffers in which the kernel reports new
	 * mappings. */
	{CAP_IPC_LOCK, "CAP_IPC_LOCK", PRIVILEGES_OPENING, false, false},
	/* Kept only where asked for: privileges__override(). */
	{CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", PRIVILEGES_DETACHED, false, false},
};

#define N_TABLE (sizeof(table) / sizeof(table[0]))

static bool has(uint64_t set, int cap)
{
	return set & CAPABILITY(cap);
}

uint64_t privileges__kept(uint64_t permitted, enum privileges_phase phase,
			  const struct privileges_use *use)
{
	enum privileges_phase admin = use->admin ? PRIVILEGES_TRACING : PRIVILEGES_OPENING;
	uint64_t kept = 0;

	for (size_t i = 0; i < N_TABLE; i++) {
		if (phase <= table[i].last)
			kept |= CAPABILITY(table[i].cap);
		/* CAP_SYS_ADMIN is kept in place of a capability that is missing */
		if (table[i].in_sys_admin && !has(permitted, table[i].cap) && admin < table[i].last)
			admin = table[i].last;
	}
	if (phase <= admin)
		kept |= CAPABILITY(CAP_SYS_ADMIN);
	/* The child that reads debug information becomes the user nobody, and is killed when it
	 * takes too long. */
	if (use->as_root && phase <= PRIVILEGES_STOPPED)
		kept |= CAPABILITY(CAP_SETUID) | CAPABILITY(CAP_SETGID) | CAPABILITY(CAP_KILL);
	/* Signals are passed on to the command. */
	if (use->command)
		kept |= CAPABILITY(CAP_KILL);
	return kept & permitted;
}

bool privileges__suffice(uint64_t permitted, char *text, size_t size)
{
	bool all = true;
	size_t len = 0;

	text[0] = '\0';
	for (size_t i = 0; i < N_TABLE; i++) {
		if (!table[i].needed || has(permitted, table[i].cap) ||
		    (table[i].in_sys_admin && has(permitted, CAP_SYS_ADMIN)))
			continue;
		len += (size_t)snprintf(text + len, size > len ? size - len : 0, "%s%s",
					all ? "" : ", ", table[i].name);
		all = false;
	}
	return all;
}

static uint64_t permitted_now(void)
{
	struct capabilities now;

	return capabilities__read(&now) ? 0 : now.permitted;
}

bool privileges__missing(char *text, size_t size)
{
	return !privileges__suffice(permitted_now(), text, size);
}

bool privileges__have(int cap)
{
	return has(permitted_now(), cap);
}

int privileges__limit(enum privileges_phase phase, const struct privileges_use *use,
		      struct error *err)
{
	struct privileges_use ours = *use;
	struct capabilities now;
	int rc = capabilities__read(&now);

	if (!rc) {
		ours.as_root = !getuid() || !geteuid();
		uint64_t kept = privileges__kept(now.permitted, phase, &ours);
		uint64_t idle = CAPABILITY(CAP_DAC_OVERRIDE);

		/* from the first phase after the opening, CAP_DAC_OVERRIDE is effective only when
		 * privileges__override() says so */
		if (phase > PRIVILEGES_OPENING)
			idle &= ~now.effective;
		rc = capabilities__limit(kept & ~idle, kept);
	}
	if (!rc && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		rc = -errno;
	return rc ? error__set(err, rc, "cannot give up capabilities: %s", strerror(-rc)) : 0;
}

int privileges__begin_files(struct error *err)
{
	uint64_t caps = CAPABILITY(CAP_SYS_PTRACE) | CAPABILITY(CAP_DAC_READ_SEARCH);
	uint64_t now = permitted_now();
	int rc;

	caps |= CAPABILITY(has(now, CHECKPOINT_RESTORE) ? CHECKPOINT_RESTORE : CAP_SYS_ADMIN);
	rc = far__begin(caps & now);
	return rc ? error__set(err, rc, "cannot start mt-files: %s", strerror(-rc)) : 0;
}

bool privileges__override(bool wanted)
{
	uint64_t override = CAPABILITY(CAP_DAC_OVERRIDE);
	struct capabilities now;

	if (capabilities__read(&now) || !(now.permitted & override))
		return false;
	return wanted ? !capabilities__limit(now.effective | override, now.permitted)
		      : capabilities__limit(now.effective, now.permitted & ~override) != 0;
}
