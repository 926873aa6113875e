/* SPDX-License-Identifier: BSD-2-Clause */
/* When a process is killed or crashes, writes its profile into a directory. The tracer keeps the
 * limit of overhead and must not wait for a disk. So another process, mt-spool, writes the
 * profiles. mt-spool has no capabilities, and only the descriptors 0 to 2 of the tracer. It
 * continues until all profiles are written, even if the tracer ends first. */
#ifndef MEMTRACE_AGENT_SPOOL_H
#define MEMTRACE_AGENT_SPOOL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/spool_dir.h"
#include "base/error.h"

/* at most this many profiles wait to be written, because they take memory */
#define SPOOL_WAITING 32

/* What became of a profile. */
struct spool_report {
	/* The name of the profile's file. "": the report is about mt-spool itself. If `error` is 0,
	 * mt-spool has opened the directory, though late. Otherwise mt-spool has ended, and nothing
	 * is written any more. */
	char name[SPOOL_NAME];
	int32_t error;	    /* 0: the profile is in the file; else negative errno */
	uint32_t n_removed; /* older profiles that were deleted to make room for it */
};

/* {.fd = -1}: there is no spool. */
struct spool {
	int fd;
	pid_t pid;
	unsigned n_waiting; /* profiles that are not written yet */
	bool is_slow;	    /* the directory has not been opened yet */
	/* counts of profiles so far. n_written: written. n_lost: lost, because too many waited or a
	 * write failed. n_removed: deleted to make room. */
	uint64_t n_written, n_lost, n_removed;
};

/* Starts mt-spool, which opens the directory. Call it before there are probes. mt-spool begins with
 * copies of all descriptors, and closes them later. Until then, copies of the probes' descriptors
 * would keep the probes in place. 0, or negative errno with err, for example if the directory
 * cannot be written. Takes two seconds at most. If the directory's file system has not answered by
 * then, is_slow is set, and profiles wait. spool__report() tells when the file system has
 * answered. */
int spool__open(struct spool *spool, const char *dir, struct error *err);

/* Checks whether spool__open() would accept the directory. Changes nothing there. 0, also if the
 * directory's file system does not answer within two seconds; or negative errno with err. */
int spool__try(const char *dir, struct error *err);

/* Sends the profile to mt-spool if fewer than SPOOL_WAITING profiles wait; else counts it as lost.
 * 0, or negative errno if the profile could not be encoded. */
int spool__keep(struct spool *spool, const struct profile *profile);

/* Takes the next report that has come. false: there is none now. */
bool spool__report(struct spool *spool, struct spool_report *ret);

/* Waits until all profiles are written, but only for a few seconds. */
void spool__close(struct spool *spool);

#endif
