/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to user/encode: the stacks of a profile, or of a profile and an older one, as one tree of
 * frames from the root down. Frames of the same name and module below the same callers are one
 * node, even if their addresses differ. Inlined functions are frames, and so is the leaf, the
 * allocation function. */
#ifndef MEMTRACE_ENCODE_TREE_H
#define MEMTRACE_ENCODE_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profile/profile.h"

enum frame_kind {
	FRAME_PROGRAM, /* the program's own code */
	FRAME_LIBRARY, /* code of another file */
	/* an allocation function, or a frame between it and the function that holds the memory */
	FRAME_ALLOCATOR,
	FRAME_KERNEL,	 /* code that the kernel maps into each process: [vdso] */
	FRAME_ANONYMOUS, /* code in no file: JIT code, or nothing is mapped there */
	FRAME_NOTE,	 /* not code, but a note about all stacks through this node */
	FRAME_KINDS
};

struct tree_frame {
	/* as in the profile, where a name may contain any bytes; owned by the profile or the
	 * tree */
	const char *name;
	const char *module; /* the last part of its file's path, "" for none; borrowed */
	enum frame_kind kind;
};

struct tree_node {
	uint32_t frame; /* index into frames; no meaning for the root and folded nodes */
	/* number of nodes that were too small to be shown and are folded into this one; 0: the node
	 * is one frame, or the root */
	uint32_t n_folded;
	uint32_t parent; /* index; the root's is its own, 0 */
	uint32_t depth;	 /* the root's is 0 */
	uint32_t first_child, n_children;
	/* live memory of all stacks through this node, in the profile and in the older one */
	struct estimate live, base;
	uint32_t begin, end; /* private: the range of the stacks through this node */
};

struct tree {
	struct tree_node *nodes; /* the root, then level by level. Siblings are side by side,
				  * largest first, the folded node last. */
	size_t n;
	struct tree_frame *frames; /* ascending by name and module */
	size_t n_frames;
	uint32_t depth; /* depth of the deepest node */
	/* a node is folded if its share of all bytes is smaller than this in each profile */
	double min_share;
	size_t gone_stacks; /* stacks that only the older profile has: their number, and their
			     * bytes */
	double gone_bytes;
	bool unsure; /* no interval of a change is known, because one profile was windowed or does
		      * not say how it was sampled */
	/* of a stack without samples: upper end of the 95 % interval of its live bytes, in the
	 * profile and in the older profile */
	double unseen_live, unseen_base;
	char (*addresses)[24]; /* private: names for frames without a name */
};

struct tree_options {
	double min_share; /* as in struct tree; 0: only nodes without bytes are folded */
	/* min_share is raised until the tree has no more nodes than this; at least 2; 0: no
	 * limit */
	size_t max_nodes;
	uint32_t max_depth; /* frames deeper than this are left out; 0: no limit */
};

/* Builds a tree from sorted, symbolized profiles; base may be NULL. The tree borrows from the
 * profiles, so they must outlive it. No recursion; O(n log n) for n frames of all stacks. 0 or
 * -ENOMEM. */
int tree__build(const struct profile *profile, const struct profile *base,
		const struct tree_options *options, struct tree *ret_tree);
void tree__clear(struct tree *tree);

/* By how much a node has grown since the older profile, with its 95 % interval. The two profiles'
 * errors are independent, and each may be asymmetric. The change is lowest if the new figure is at
 * its low end and the old figure at its high end. So two distances count: of the new figure to its
 * low end, and of the old figure to its high end. The distance from the change to its low end is
 * the root of the sum of their squares. For the high end it is the reverse (Zou and Donner,
 * Statistics in Medicine 27, 2008). */
struct tree_change {
	double bytes;
	struct interval interval; /* NaN: not known */
};

/* Returns by how many live bytes the node has grown since the older profile. Negative: it has
 * shrunk. */
struct tree_change tree_node__change(const struct tree *tree, const struct tree_node *node);

/* Is the change more than the sampling error? The change may still be chance, because blocks come
 * and go. If every block is recorded, the error is 0, and any difference exceeds it. profile/diff.h
 * judges chance, stack by stack. */
bool tree_change__exceeds_error(const struct tree_change *change);

#endif
