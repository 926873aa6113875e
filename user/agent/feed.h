/* SPDX-License-Identifier: BSD-2-Clause */
/* What the agent's tracer tells its server, and what the server asks for: datagrams over a pair of
 * SOCK_SEQPACKET sockets.
 *
 * The tracer is privileged, and keeps the limit of overhead, so it never waits for the server. The
 * tracer does not trust the server, and accepts only four requests: make a round of profiles, stop
 * tracing one of its processes, trace such a process again, give a process more windows. The tracer
 * alone decides how many processes have more windows, how many windows, and for how long. The
 * server (user/web) speaks with the network and has no privileges. It trusts the tracer. */
#ifndef MEMTRACE_AGENT_FEED_H
#define MEMTRACE_AGENT_FEED_H

#include <stdint.h>
#include <sys/types.h>

#include "proc/container.h"

/* Descriptors of the server process. */
#define FEED_FD	 3 /* the server's end of the pair of sockets */
#define GUARD_FD 4 /* file in memory with the server's TLS key and token (agent/guard.h) */
#define FIRST_FD 5 /* the first socket on which the server listens */

enum feed_kind {
	/* With a descriptor: a profile as encode_pprof() writes it, in a file in memory. */
	FEED_PROFILE = 1,
	/* A round is over. If it is complete, FEED_PROFILE, FEED_SAME, FEED_INACTIVE or
	 * FEED_LEFT_OUT was sent for each process. */
	FEED_ROUND,
	FEED_ASK,	 /* from the server: the tracer is to make a round now */
	FEED_PUSH,	 /* with a descriptor: the receivers of profiles, as text (below) */
	FEED_SAME,	 /* a process has done nothing, so its last profile is still right */
	FEED_INACTIVE,	 /* a process is not traced, because the server asked for that */
	FEED_DEACTIVATE, /* from the server: the process pid is not to be traced */
	FEED_ACTIVATE,	 /* from the server: the process pid is to be traced again */
	FEED_FAVOUR,	 /* from the server: more windows for the process pid, whose memory grows */
	FEED_LEFT_OUT,	 /* a process lives, but its profile was dropped */
};

/* The text of FEED_PUSH consists of lines. "pyroscope URL", "pyroscope-rpc URL" or "otlp URL" names
 * a receiver. "tenant NAME" and "token TOKEN" are for the receiver named last, "label NAME=VALUE"
 * is for all receivers. The largest numbers of receivers and labels: */
#define PUSH_RECEIVERS 4
#define PUSH_LABELS    16

#define FEED_FAVOURED 4 /* at most this many processes have more windows */

struct feed_message {
	uint32_t kind;
	int32_t pid; /* of the process, in all messages but FEED_ROUND, FEED_ASK and FEED_PUSH */
	/* wall clock, shortly before the figures were read. FEED_SAME: a time at which the last
	 * profile was still right. */
	uint64_t taken_ns;
	/* FEED_ROUND: 1: the round's messages named every process that lives. 0: the round failed,
	 * or a message could not be sent. In that case, a process that no message named may still
	 * live. */
	uint32_t complete;
	uint64_t n_dropped;    /* FEED_ROUND: profiles dropped so far, because the server was too
				* slow */
	uint64_t user_bytes;   /* FEED_ROUND: peak of the tracer's resident memory */
	uint64_t cpu_ns;       /* FEED_ROUND: CPU time so far of the tracer and of its children that
			        * have ended, without memtrace-web */
	uint64_t kernel_bytes; /* FEED_ROUND: tables and programs of the tracer in the kernel */
	uint64_t n_probes;     /* FEED_ROUND: number of probes on functions, whether in place now or
				* not */
	double round_s;	       /* FEED_ROUND: seconds that it took to make the round's profiles */
	double every_s;	       /* FEED_ROUND: seconds from this round's start to the next one's */
	/* FEED_ROUND: counts of profiles of killed processes so far. n_spooled: written to the
	 * spool. n_spool_lost: lost, because too many waited or a write failed. n_spool_removed:
	 * deleted, to make room for newer profiles. */
	uint64_t n_spooled, n_spool_lost, n_spool_removed;
	/* FEED_ROUND: how many profiles of killed processes still wait to be written */
	uint64_t n_spool_waiting;
	/* FEED_ROUND: the processes that have more windows than others now, and from when until
	 * when (wall clock). most_favoured: the largest number of processes that may have more
	 * windows at a time; 0: none. n_favours: how often a process got more windows so far.
	 * n_favours_refused: how often this was refused because enough other processes had more
	 * windows */
	struct {
		int32_t pid;
		uint64_t from_ns, until_ns;
	} favoured[FEED_FAVOURED];
	uint32_t n_favoured, most_favoured;
	uint64_t n_favours, n_favours_refused;
	struct container container; /* FEED_PROFILE: the process's container */
	/* FEED_INACTIVE: the reason why tracing could not be resumed; "": nobody has tried to
	 * resume it */
	char why[96];
};

/* Like packet__pair(), packet__send() and packet__receive() (agent/packet.h). */
int feed__pair(int ret[2]);
int feed__send(int fd, const struct feed_message *message, int memory);
int feed__receive(int fd, struct feed_message *ret, int *ret_memory);

#endif
