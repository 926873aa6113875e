/* SPDX-License-Identifier: BSD-2-Clause */
/* Declarations for the files of user/capture only. */
#ifndef MEMTRACE_CAPTURE_INTERNAL_H
#define MEMTRACE_CAPTURE_INTERNAL_H

#include <bpf/libbpf.h>

#include "capture/capture.h"
#include "capture/keeper.h"
#include "memtrace.skel.h"

/* Give this to libbpf_set_print() while loading programs that the kernel may refuse. Then libbpf
 * prints nothing. Returns 0. */
int capture__print_nothing(enum libbpf_print_level level, const char *format, va_list args);

/* Makes the kernel allocate the memory of all hash maps when they are loaded, not as entries
 * come. */
void capture__preallocate(struct memtrace_bpf *skel);

/* Sets the sizes of the kernel's tables, before they are loaded. */
void capture__size_maps(struct memtrace_bpf *skel, const struct capture_options *options);

/* An allocator that is in the kernel's tables. */
struct known_object {
	struct file_id file;
	const char *family; /* NULL: this entry is free */
	uint64_t since_ns;  /* when all its probes were in place, CLOCK_MONOTONIC */
	/* capture__release() was called. When the object's last link is closed, this entry and the
	 * entries of the object's functions become free. */
	bool leaving;
};

/* Special values of `object` in a link or a choice of links. NO_OBJECT: the link belongs to no
 * allocator. ANY_OBJECT: all links, whether they belong to an allocator or not. */
#define NO_OBJECT  (-1)
#define ANY_OBJECT (-2)

/* Where to put probes: file offsets. The cookie of an offset is the index of its function in the
 * kernel's table. */
struct capture_offset_list {
	uint64_t offs[ABI_MAX_FUNCS], cookies[ABI_MAX_FUNCS];
	uint64_t semaphores[ABI_MAX_FUNCS]; /* file offsets; 0: none */
	const struct alloc_point
		*points[ABI_MAX_FUNCS]; /* NULL: no allocator's function, or a ret instruction */
	bool essential[ABI_MAX_FUNCS];	/* if this probe cannot be placed, no probe may be placed */
	uint32_t n;
};

struct capture_offsets {
	struct capture_offset_list alloc, free;		  /* entries of functions */
	struct capture_offset_list taken;		  /* inside functions: ROLE_TAKEN */
	struct capture_offset_list mark_alloc, mark_free; /* markers */
	struct capture_offset_list throwing, exits; /* entries and ret instructions of functions
						     * that may throw */
};

/* What a probe is on. */
enum capture_place_kind {
	ON_ALLOCATORS,
	ON_REGIONS,  /* mmap and its like, in libc */
	ON_SYSCALLS, /* mmap and its like as system calls: tracepoints */
	ON_FAULTS,   /* page faults: tracepoints, too */
};

/* What holds probes in place. */
struct capture_link {
	/* the keeper's slot for the descriptor of a link or, with the kind perf, of an event */
	int slot;
	pid_t pid; /* the process that the probes are in; 0: all processes */
	/* index of the object that the probed functions belong to; NO_OBJECT */
	int object;
	enum capture_place_kind on;
	uint32_t rank; /* with the kind perf: links of lower rank are closed first */
};

/* A link that is being closed. */
struct capture_closing {
	struct shield_closer *closer;
	pid_t pid;  /* `pid` of the link */
	int object; /* `object` of the link, or ANY_OBJECT */
};

#define NEW_TABLES 64 /* room for new unwind tables, each of which has a descriptor */

/* The unwind tables in the kernel. */
struct unwind_store {
	struct unwind_entry *entries; /* indexed by the binary's index */
	size_t n_entries;
	struct unwind_user *users; /* one element per process */
	size_t n_users;
	size_t n_chunks, max_chunks; /* chunks of all tables */
	uint64_t clock;		     /* advances by 1 when a table loses its last user */
	uint32_t refused;	     /* number of files so far whose table found no room */
	struct unwind_part *parts;   /* ascending by key */
	size_t n_parts;
	/* Tables that are built but not in the kernel's array yet: number, descriptor and index in
	 * `entries` of each. */
	uint32_t new_numbers[NEW_TABLES];
	int new_fds[NEW_TABLES];
	size_t new_entries[NEW_TABLES], n_new;
};
void unwind_store__free(struct unwind_store *store);

struct capture {
	struct memtrace_bpf *skel;
	struct files_bpf *files; /* NULL: not loaded (yet) */
	bool files_tried;
	struct keeper *keeper;
	unsigned patience_ms; /* the keeper's usual patience */
	enum probe_kind kind;
	bool loses_probes;	/* features__multi_loses_probes(), with the kind multi */
	bool unwinding_refused; /* capture__unwinding_refused() */
	struct known_object objects[ABI_MAX_OBJECTS];
	uint32_t n_objects, n_funcs; /* how many entries were ever in use; an entry for a function
				      * is free if its role is 0 */
	bool any_leaving;
	struct capture_link *links;
	size_t n_links;
	atomic_int **closing;		  /* room for n_links places */
	struct capture_closing *closings; /* links that helper processes are closing */
	size_t n_closings, closings_room;
	struct capture_probe *probes;
	size_t n_probes, probes_room;
	struct capture_refusal *refusals;
	size_t n_refusals;
	uint64_t n_refused; /* number of different refusals noted so far */
	struct unwind_store unwind;
	enum capture_place {
		PLACE_NONE,
		PLACE_OUT, /* the function has a probe, which a pause has taken out */
		PLACE_IN,
	} everywhere[ABI_MAX_FUNCS]; /* indexed by function: its probe for all processes */
	bool everywhere_out;
	struct ring_buffer *events;
	void (*on_event)(void *ctx, const struct abi_event *event);
	void *event_ctx;
	struct ring_buffer *ends;
	void (*on_end)(void *ctx, const struct abi_end *end);
	void *end_ctx;
	void (*on_region_call)(void *ctx, const struct abi_region_call *call);
	void *region_ctx;
	/* stacks that were removed from the kernel's table since the last drain, ascending */
	struct capture_table retired;
	int cpus;			  /* possible CPUs: a per-CPU map has a value for each */
	struct abi_process_cpu *counters; /* buffer for the counters of one process */
};

/* --- refusals.c --- */

/* Finds the refusal of one of the allocator's functions in process pid, by the function's virtual
 * address. If `point` is NULL, finds the refusal of the whole allocator. Returns NULL when there is
 * none. */
const struct capture_refusal *refusals__find(const struct capture *capture,
					     const struct allocator *allocator,
					     const struct alloc_point *point, pid_t pid);
/* Notes that the kernel refuses a probe on `point`. `point` is NULL if the place is a ret
 * instruction of a function that may throw. Returns NULL if there is no memory. */
const struct capture_refusal *refusals__note(struct capture *capture,
					     const struct allocator *allocator,
					     const struct alloc_point *point, bool whole,
					     int reason);
/* Ends all refusals of one file. */
void refusals__end(struct capture *capture, const struct file_id *file);

/* --- real_file.c --- */
void capture__free_files(struct capture *capture);

/* --- links.c --- */

/* Gives the descriptor to the keeper; on failure closes it. rank: as in struct capture_link. 0 or
 * negative errno. */
int links__keep(struct capture *capture, int fd, pid_t pid, uint32_t rank);
/* Closes all links but the first n_links, the last one first. */
void links__roll_back(struct capture *capture, size_t n_links);
/* A choice of links: a link is chosen if it fits all members. */
struct link_choice {
	pid_t pid; /* -1: all links, whatever the other members say */
	enum capture_place_kind on;
	int object; /* ANY_OBJECT, or only this object's links */
};
/* Closes the chosen links. */
void links__close(struct capture *capture, const struct link_choice *choice);
/* Begins to close the chosen links. */
void links__pause(struct capture *capture, const struct link_choice *choice);
/* May a probe of the object still be in place? */
bool links__any_of(const struct capture *capture, int object);

/* Puts probes at file offsets of path in process pid, all or none. 0 or negative errno. */
int capture__attach_points(struct capture *capture, const char *path,
			   const struct capture_offsets *offsets, pid_t pid);

/* Reads the whole content of a map. 0 or negative errno. */
int capture__read_table(struct capture *capture, const struct bpf_map *map,
			struct capture_table *ret);

/* Deletes an entry of the table of live blocks, if it is there, and updates the table's filter.
 * Also takes the block out of its pool's list. */
void capture__delete_live(struct capture *capture, const struct abi_live_key *key);

/* Puts retired stacks back into the kernel's table if a site or a call of the drain names them.
 * Forgets the other retired stacks. */
void capture__put_back(struct capture *capture, const struct capture_drain *drain);

/* Deletes all records from the kernel's tables. */
void capture__clear_tables(struct capture *capture);

/* Returns the cost class of a hit at the point, for abi_func.cost. */
uint8_t capture__cost_of(const struct alloc_point *point);

#endif
