/* SPDX-License-Identifier: BSD-2-Clause */
/* The large blocks of targets that are traced in windows (profile/large.h). Their heap is read from
 * outside twice: when the first gap begins, and when the run stops. Blocks of the second list that
 * are not in the first were allocated meanwhile. Private to user/session. */
#ifndef MEMTRACE_SESSION_LARGE_BLOCKS_H
#define MEMTRACE_SESSION_LARGE_BLOCKS_H

#include "session/build.h"

struct session;
struct windowed_result;

/* Call it several times during the run. Starts to read the first list of each target that needs
 * one, and stores lists that have been read. Does not wait. */
void large_blocks__tend(struct session *session);

/* Call it when the run stops: begins to read the second list of each target that has a first one.
 * Does not wait. */
void large_blocks__look(struct session *session);

/* Call it after that, when the probes are out: waits for the second lists, LARGE_PATIENCE_S at most
 * for all of them. */
void large_blocks__finish(struct session *session);

void large_blocks__free(struct target *target);

/* What the lists say of a target's stacks. */
struct large_trend {
	bool known;    /* else the other members mean nothing */
	double unseen; /* bytes of blocks that no window saw */
	double blocks; /* number of these blocks */
	double all;    /* at most so many bytes are in large blocks of the run */
	double old;    /* bytes that are in both lists, and that no window saw */
	double grown;  /* bytes of live blocks that realloc made in a window */
	double rest;   /* the part of `unseen` that no stack explains */
	double error;  /* standard error of `rest`, bytes */
};

/* Corrects what windows say of each stack's live bytes and growth. results: by site. 0 or
 * -ENOMEM. */
int large_blocks__correct(const struct build *build, const struct process_sites *sites,
			  struct windowed_result *results, struct large_trend *ret);

/* Returns the live bytes of all stacks in which a window saw realloc enlarge a block to a large
 * one. */
double large_blocks__vectors(const struct build *build, const struct profile *profile,
			     const struct process_sites *sites);

/* Adds the stack LARGE_UNSEEN. vectors: live bytes of vectors with large blocks, as windows show
 * them. 0 or -ENOMEM. */
int large_blocks__add(const struct build *build, struct profile *profile,
		      const struct large_trend *trend, double vectors);

/* Gives that stack its name, after symbolization. 0 or -ENOMEM. */
int large_blocks__name(struct profile *profile);

#endif
