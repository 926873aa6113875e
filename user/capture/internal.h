/* SPDX-License-Identifier: BSD-2-Clause */
/* What capture.c and calibrate.c share, and nobody else sees. */
#ifndef MEMTRACE_CAPTURE_INTERNAL_H
#define MEMTRACE_CAPTURE_INTERNAL_H

#include <bpf/libbpf.h>

#include "capture/capture.h"
#include "memtrace.skel.h"

/* A file whose functions are in the kernel's tables. */
struct known_object {
	struct file_id file;
	uint32_t first_func;
};

/* The unwind tables in the kernel. */
struct unwind_store {
	struct unwind_entry *entries; /* by the binaries' index */
	size_t n_entries;
	struct unwind_user *users; /* one per process */
	size_t n_users;
	size_t n_chunks, max_chunks; /* of all tables */
	uint64_t clock;		     /* ticks when a table is let go */
	uint32_t refused;	     /* files that found no room so far */
};
void unwind_store__free(struct unwind_store *store);

struct capture {
	struct memtrace_bpf *skel;
	enum probe_kind kind;
	struct known_object objects[ABI_MAX_OBJECTS];
	uint32_t n_objects, n_funcs;
	int *link_fds; /* links and, of the kind perf, their events */
	size_t n_link_fds;
	struct capture_probe *probes;
	size_t n_probes;
	struct unwind_store unwind;
	struct ring_buffer *events;
	void (*on_event)(void *ctx, const struct abi_event *event);
	void *event_ctx;
	void (*on_region_call)(void *ctx, const struct abi_region_call *call);
	void *region_ctx;
	int cpus; /* possible ones: values of per-CPU maps */
};

/* Probes at file offsets of path in process pid: n_alloc allocating functions, then n_free freeing
 * ones. The cookie of each is its index in the table of functions. */
int capture__attach_points(struct capture *capture, const char *path, const uint64_t *offs,
			   const uint64_t *cookies, uint32_t n_alloc, uint32_t n_free, pid_t pid);

/* Empties the tables of what has been recorded so far. */
void capture__clear_tables(struct capture *capture);

/* What a probe there costs: abi_func.cost. */
uint8_t capture__cost_of(const struct probe_site *site, int role);

#endif
