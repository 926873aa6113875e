/* SPDX-License-Identifier: BSD-2-Clause */
/* What capture.c and calibrate.c share, and nobody else sees. */
#ifndef MEMTRACE_CAPTURE_INTERNAL_H
#define MEMTRACE_CAPTURE_INTERNAL_H

#include <bpf/libbpf.h>

#include "capture/capture.h"
#include "capture/keeper.h"
#include "memtrace.skel.h"

/* How large the tables are to be, before they are loaded. */
void capture__size_maps(struct memtrace_bpf *skel, const struct capture_options *options);

/* An allocator that is in the kernel's tables. */
struct known_object {
	struct file_id file;
	const char *family; /* NULL: the place is free */
	uint64_t since_ns;  /* when it got its first probes, monotonic */
	/* released: its place, and its functions', are free when its last link is gone */
	bool leaving;
};

/* Of no allocator; of several, perhaps. */
#define NO_OBJECT  (-1)
#define ANY_OBJECT (-2)

/* Where probes are to stand: file offsets, and the index of each one's function as its cookie. */
struct capture_offset_list {
	uint64_t offs[ABI_MAX_FUNCS], cookies[ABI_MAX_FUNCS];
	const struct alloc_point
		*points[ABI_MAX_FUNCS]; /* NULL: none of an allocator's, or a ret instruction */
	bool essential[ABI_MAX_FUNCS];	/* without it there are to be no probes at all */
	uint32_t n;
};

struct capture_offsets {
	struct capture_offset_list alloc, free;	    /* entries of functions */
	struct capture_offset_list throwing, exits; /* entries and ret instructions of those that
						     * may throw */
};

/* What probes are on. */
enum capture_place_kind {
	ON_ALLOCATORS,
	ON_REGIONS,  /* mmap and its like, in libc */
	ON_SYSCALLS, /* the same as system calls: tracepoints */
	ON_FAULTS,   /* tracepoints, too */
};

/* What holds probes in place. */
struct capture_link {
	/* where the keeper has its descriptor: a link's or, of the kind perf, its event's */
	int slot;
	pid_t pid;  /* in whose memory; 0: everybody's */
	int object; /* whose functions, by its index among the objects; NO_OBJECT */
	enum capture_place_kind on;
	uint32_t rank; /* of the kind perf: those of lower rank are closed first */
};

/* A link that is being closed. */
struct capture_closing {
	struct shield_closer *closer;
	pid_t pid;  /* as of the link */
	int object; /* likewise, or ANY_OBJECT */
};

#define NEW_TABLES 64 /* at a time: a descriptor each */

/* The unwind tables in the kernel. */
struct unwind_store {
	struct unwind_entry *entries; /* by the binaries' index */
	size_t n_entries;
	struct unwind_user *users; /* one per process */
	size_t n_users;
	size_t n_chunks, max_chunks; /* of all tables */
	uint64_t clock;		     /* ticks when a table is let go */
	uint32_t refused;	     /* files that found no room so far */
	struct unwind_part *parts;   /* ascending by key */
	size_t n_parts;
	/* Made, but not among the kernel's yet. */
	uint32_t new_numbers[NEW_TABLES];
	int new_fds[NEW_TABLES];
	size_t new_entries[NEW_TABLES], n_new;
};
void unwind_store__free(struct unwind_store *store);

struct capture {
	struct memtrace_bpf *skel;
	struct keeper *keeper;
	unsigned patience_ms; /* its usual one */
	enum probe_kind kind;
	struct known_object objects[ABI_MAX_OBJECTS];
	uint32_t n_objects,
		n_funcs; /* places that are, or were, in use; a free function's role is 0 */
	bool any_leaving;
	struct capture_link *links;
	size_t n_links;
	int *closing;			  /* room for as many descriptors */
	struct capture_closing *closings; /* links on their way out, while we go on */
	size_t n_closings, closings_room;
	struct capture_probe *probes;
	size_t n_probes, probes_room;
	struct capture_refusal *refusals;
	size_t n_refusals;
	struct unwind_store unwind;
	enum capture_place {
		PLACE_NONE,
		PLACE_OUT, /* it has one, but they are out */
		PLACE_IN,
	} everywhere[ABI_MAX_FUNCS]; /* functions with a probe in all processes */
	bool everywhere_out;
	struct ring_buffer *events;
	void (*on_event)(void *ctx, const struct abi_event *event);
	void *event_ctx;
	struct ring_buffer *ends;
	void (*on_end)(void *ctx, const struct abi_end *end);
	void *end_ctx;
	void (*on_region_call)(void *ctx, const struct abi_region_call *call);
	void *region_ctx;
	/* stacks that were taken out of the kernel since the last drain, ascending */
	struct capture_table retired;
	int cpus;			  /* possible ones: values of per-CPU maps */
	struct abi_process_cpu *counters; /* one per CPU: room to read a process's */
};

/* --- links.c --- */

/* The descriptor is the keeper's from now on; on failure it is closed. rank as of the link. 0 or
 * negative errno. */
int links__keep(struct capture *capture, int fd, pid_t pid, uint32_t rank);
/* Those that were kept since there were n_links are closed again: in the order of their coming,
 * backwards. */
void links__roll_back(struct capture *capture, size_t n_links);
/* Which links are meant. */
struct link_choice {
	pid_t pid; /* -1: all */
	enum capture_place_kind on;
	int object; /* ANY_OBJECT, or this one's alone */
};
/* Closes them. */
void links__close(struct capture *capture, const struct link_choice *choice);
/* Begins to close them. */
void links__pause(struct capture *capture, const struct link_choice *choice);
/* May a probe of the object still be somewhere? */
bool links__any_of(const struct capture *capture, int object);

/* Probes at file offsets of path in process pid, all or none. */
int capture__attach_points(struct capture *capture, const char *path,
			   const struct capture_offsets *offsets, pid_t pid);

/* The whole content of a map. 0 or negative errno. */
int capture__read_table(struct capture *capture, const struct bpf_map *map,
			struct capture_table *ret);

/* Deletes an entry of the table of live blocks, if it is there: its filter has to know. */
void capture__delete_live(struct capture *capture, const struct abi_live_key *key);

/* Puts back the retired stacks that a drain's sites or calls name, and forgets the others. */
void capture__put_back(struct capture *capture, const struct capture_drain *drain);

/* Empties the tables of what has been recorded so far. */
void capture__clear_tables(struct capture *capture);

/* What a probe there costs: abi_func.cost. */
uint8_t capture__cost_of(const struct alloc_point *point);

#endif
