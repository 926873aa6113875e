// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/vector.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "capture/internal.h"
#include "capture/shield.h"

static int attach_multi(struct capture *c, struct bpf_program *prog, enum probe_kind kind,
			bool ret_probe, const char *path, const uint64_t *offs,
			const uint64_t *cookies, const uint64_t *semaphores, uint32_t n, pid_t pid)
{
	int fd;

	if (!n)
		return 0;
	fd = uprobe_multi_link(bpf_program__fd(prog), kind, ret_probe, path, offs, cookies,
			       semaphores, n, pid);
	return fd < 0 ? fd : links__keep(c, fd, pid, 0);
}

/* Attaches one perf probe. `rank`: index of the instruction in its list. Like the tables of
 * allocators, a list begins with the functions that are called most. */
static int attach_perf(struct capture *c, struct bpf_program *prog, bool ret_probe,
		       const char *path, uint64_t off, uint64_t cookie, uint64_t semaphore,
		       pid_t pid, uint32_t rank)
{
	int event, rc;
	int link = uprobe_perf_link(bpf_program__fd(prog), ret_probe, path, off, cookie, semaphore,
				    pid, &event);

	if (link < 0)
		return link;
	rc = links__keep(c, link, pid, rank);
	if (rc) {
		close(event);
		return rc;
	}
	return links__keep(c, event, pid, rank);
}

/* --- allocators --- */

/* A program to put on a list's instructions. A group with two programs places the return probe
 * first: if the entry of a call is seen, its return must be seen, too. */
struct placement {
	struct bpf_program *prog;
	enum probe_kind kind; /* only matters for uprobe_multi links */
	bool ret_probe;
};

struct group {
	struct placement places[2];
	size_t n_places;
	const struct capture_offset_list *list;
};

#define EVERYBODY_MS 5000 /* the keeper's patience for probes in thousands of processes */

struct attach {
	struct capture *c;
	const char *path;
	const struct capture_offsets *offsets;
	pid_t pid;
	bool all;      /* every function is essential */
	size_t before; /* number of links before this work */
	/* What the kernel refused: the instruction number `at` of `list`, with the error `rc`. At
	 * most one of these instructions is essential, because the work ends when an essential one
	 * is refused. */
	struct {
		const struct capture_offset_list *list;
		uint32_t at;
		int rc;
	} refused[ABI_MAX_FUNCS];
	uint32_t n_refused;
};

/* Attaches one program to n instructions of a list, beginning with instruction number `first`. */
static int attach_range(const struct attach *a, const struct placement *place,
			const struct capture_offset_list *list, uint32_t first, uint32_t n)
{
	int rc = 0;

	if (a->c->kind != PROBE_PERF)
		return attach_multi(a->c, place->prog, place->kind, place->ret_probe, a->path,
				    list->offs + first, list->cookies + first,
				    list->semaphores + first, n, a->pid);
	for (uint32_t i = first + n; i-- > first && !rc;)
		rc = attach_perf(a->c, place->prog, place->ret_probe, a->path, list->offs[i],
				 list->cookies[i], list->semaphores[i], a->pid, i);
	return rc;
}

/* Attaches all of the group's programs to n instructions of its list, or attaches nothing. */
static int attach_whole(const struct attach *a, const struct group *group, uint32_t first,
			uint32_t n)
{
	size_t before = a->c->n_links;
	int rc = 0;

	for (size_t i = 0; i < group->n_places && !rc; i++)
		rc = attach_range(a, &group->places[i], group->list, first, n);
	if (rc)
		links__roll_back(a->c, before);
	return rc;
}

/* Does this error mean that the kernel refuses a probe on the instruction? (524 is the kernel's
 * ENOTSUPP, which has no name in user space.) */
static bool is_refusal(int rc)
{
	return rc == -524 || rc == -EOPNOTSUPP || rc == -ENOEXEC || rc == -EINVAL;
}

/* Attaches the group's programs to all instructions of its list at once. If the kernel refuses
 * this, attaches them to one instruction after the other, to find out which are refused. Leaves a
 * refused instruction out if it is not essential. */
static int attach_group(struct attach *a, const struct group *group)
{
	const struct capture_offset_list *list = group->list;
	int rc = attach_whole(a, group, 0, list->n);

	if (!is_refusal(rc))
		return rc;
	rc = 0;
	for (uint32_t i = 0; i < list->n && !rc; i++) {
		rc = attach_whole(a, group, i, 1);
		if (!is_refusal(rc))
			continue;
		a->refused[a->n_refused].list = list;
		a->refused[a->n_refused].at = i;
		a->refused[a->n_refused++].rc = rc;
		if (!list->essential[i] && !a->all)
			rc = 0;
	}
	return rc;
}

/* Attaches all groups. Freeing functions come first, and the functions that are called most come
 * last. So if an allocation is seen, the free of its block is also seen. This holds while probes
 * are placed, and while they are removed again because one is refused. */
static int attach_points(void *arg)
{
	struct attach *a = arg;
	const struct capture_offsets *o = a->offsets;
	struct memtrace_bpf *skel = a->c->skel;
	const struct placement session = {skel->progs.heap_session, PROBE_SESSION, false};
	const struct placement entry = {skel->progs.heap_entry, PROBE_MULTI, false};
	const struct placement ret = {skel->progs.heap_return, PROBE_MULTI, true};
	const struct placement exit = {skel->progs.heap_exit, PROBE_MULTI, false};
	const struct placement freeing = {skel->progs.heap_free, PROBE_MULTI, false};
	const struct placement taken = {skel->progs.heap_taken, PROBE_MULTI, false};
	const struct placement mark_alloc = {skel->progs.heap_mark_alloc, PROBE_MULTI, false};
	const struct placement mark_free = {skel->progs.heap_mark_free, PROBE_MULTI, false};
	const struct group groups[] = {
		{{freeing}, 1, &o->free},
		{{mark_free}, 1, &o->mark_free},
		{{mark_alloc}, 1, &o->mark_alloc},
		{{taken}, 1, &o->taken},
		{{exit}, 1, &o->exits},
		{{entry}, 1, &o->throwing},
		a->c->kind == PROBE_SESSION ? (struct group){{session}, 1, &o->alloc}
					    : (struct group){{ret, entry}, 2, &o->alloc},
	};
	int rc = 0;

	for (size_t i = 0; i < sizeof(groups) / sizeof(groups[0]) && !rc; i++)
		rc = attach_group(a, &groups[i]);
	if (rc)
		links__roll_back(a->c, a->before);
	return rc;
}

static int undo(void *arg)
{
	const struct attach *a = arg;

	links__roll_back(a->c, a->before);
	return 0;
}

int capture__attach_points(struct capture *c, const char *path,
			   const struct capture_offsets *offsets, pid_t pid)
{
	struct attach attach = {.c = c,
				.path = path,
				.offsets = offsets,
				.pid = pid,
				.all = true,
				.before = c->n_links};

	return shield__run(attach_points, &attach);
}

/* Frees the places of released objects and of their functions in the kernel's tables. An object's
 * places are freed only when its last link is gone. If they were freed earlier, a hit of an old
 * probe would count for the next function that gets the place. */
static void reclaim_places(struct capture *c)
{
	struct abi_func *funcs = c->skel->bss->funcs;

	if (!c->any_leaving)
		return;
	c->any_leaving = false;
	capture__pausing(c, -1);
	for (uint32_t i = 0; i < c->n_objects; i++) {
		if (!c->objects[i].leaving)
			continue;
		if (links__any_of(c, (int)i)) {
			c->any_leaving = true;
			continue;
		}
		for (uint32_t j = 0; j < c->n_funcs; j++)
			if (funcs[j].role && funcs[j].object == i) {
				funcs[j] = (struct abi_func){};
				c->everywhere[j] = PLACE_NONE;
			}
		c->objects[i] = (struct known_object){};
	}
}

/* Puts the allocator into the kernel's tables, once per file. Returns its index or -ENOSPC. */
static int register_object(struct capture *c, const struct allocator *a)
{
	uint32_t place = c->n_objects;

	reclaim_places(c);
	for (uint32_t i = c->n_objects; i-- > 0;) {
		const struct known_object *o = &c->objects[i];

		if (!o->family)
			place = i;
		else if (!o->leaving && file_id__equal(&o->file, &a->file) &&
			 o->family == a->family)
			return (int)i;
	}
	/* The last place is for the calibration. */
	if (place == ABI_MAX_OBJECTS - 1)
		return -ENOSPC;
	c->objects[place] = (struct known_object){.file = a->file, .family = a->family};
	c->skel->bss->objects[place] = a->object;
	c->n_objects += place == c->n_objects;
	return (int)place;
}

/* Puts a marker's arguments into the kernel's tables. Returns their index there, or -ENOSPC. */
static int register_marker(struct capture *c, const struct abi_marker *marker)
{
	bool used[ABI_MAX_MARKERS] = {};

	for (uint32_t i = 0; i < c->n_funcs; i++) {
		const struct abi_func *func = &c->skel->bss->funcs[i];

		if (abi_role__is_marker(func->role))
			used[func->marker % ABI_MAX_MARKERS] = true;
	}
	for (int i = 0; i < ABI_MAX_MARKERS; i++)
		if (!used[i]) {
			c->skel->bss->markers[i] = *marker;
			return i;
		}
	return -ENOSPC;
}

/* Puts one of the allocator's functions into the kernel's tables, if it is not there yet.
 * (Processes may use different functions of one allocator.) Returns its index or -ENOSPC. */
static int register_func(struct capture *c, int object, const struct alloc_point *point)
{
	struct abi_func *funcs = c->skel->bss->funcs;
	uint32_t place = c->n_funcs;
	int marker = 0;

	for (uint32_t i = c->n_funcs; i-- > 0;)
		if (!funcs[i].role)
			place = i;
		else if (funcs[i].object == object && funcs[i].vaddr == point->func.vaddr)
			return (int)i;
	/* The last entries are for the calibration. */
	if (place == ABI_MAX_FUNCS - 2 * INSN_CLASSES)
		return -ENOSPC;
	if (abi_role__is_marker(point->func.role))
		marker = register_marker(c, &point->marker);
	if (marker < 0)
		return marker;
	funcs[place] = point->func;
	funcs[place].marker = (uint16_t)marker;
	funcs[place].object = (uint8_t)object;
	funcs[place].cost = capture__cost_of(point);
	funcs[place].pooled |= point->func.pool_arg || point->func.pool_word;
	if (point->func.wraps == WRAPS_AWAITED)
		c->skel->bss->any_wraps = 1;
	else if (point->func.wraps)
		c->skel->bss->any_pools = 1;
	c->n_funcs += place == c->n_funcs;
	return (int)place;
}

static void add_offset(struct capture_offset_list *list, uint64_t off, uint64_t cookie,
		       const struct alloc_point *point, bool essential)
{
	list->offs[list->n] = off;
	list->cookies[list->n] = cookie;
	list->semaphores[list->n] = point ? point->semaphore : 0;
	list->points[list->n] = point;
	list->essential[list->n++] = essential;
}

/* Notes all refusals of attach->refused. 0; -EOPNOTSUPP with err when the whole allocator is
 * refused; -ENOMEM. */
static int note_refusals(struct capture *c, const struct allocator *a, const struct attach *attach,
			 struct error *err)
{
	for (uint32_t i = 0; i < attach->n_refused; i++) {
		const struct capture_offset_list *list = attach->refused[i].list;
		uint32_t at = attach->refused[i].at;
		bool whole = list->essential[at];
		const struct capture_refusal *r;

		r = refusals__note(c, a, list->points[at], whole, attach->refused[i].rc);
		if (!r)
			return error__set(err, -ENOMEM, "out of memory");
		if (whole)
			return error__set(err, -EOPNOTSUPP, "%s", r->text);
	}
	return 0;
}

/* The functions of an allocator that are to be probed now. */
struct wanted {
	struct capture_offsets offsets; /* their probes' places, one list for each kind of
					 * program */
	const struct alloc_point *points[ABI_MAX_FUNCS];
	uint32_t indices[ABI_MAX_FUNCS], n;
	int object;
};

/* Collects the functions of an allocator that are to be probed now. `again`: the allocator had
 * probes before. 0 or negative errno with err. */
static int collect_wanted(struct capture *c, const struct allocator *a, pid_t pid, bool again,
			  struct wanted *ret, struct error *err)
{
	int object = register_object(c, a);
	bool throwing = false;

	ret->object = object;
	for (uint32_t i = 0; i < a->n_points; i++) {
		const struct alloc_point *point = &a->points[i];
		int index = object < 0 ? object : register_func(c, object, point);

		if (index < 0)
			return error__set(
				err, index,
				"too many different allocators at a time: %u with %u functions "
				"are known already",
				c->n_objects, c->n_funcs);
		if ((!pid && c->everywhere[index] > (again ? PLACE_OUT : PLACE_NONE)) ||
		    refusals__find(c, a, point, pid))
			continue;
		throwing = throwing || point->func.exits;
		add_offset(point->func.role == ROLE_MARK_ALLOC	    ? &ret->offsets.mark_alloc
			   : point->func.role == ROLE_MARK_FREE	    ? &ret->offsets.mark_free
			   : abi_role__frees(point->func.role)	    ? &ret->offsets.free
			   : point->func.role == ROLE_TAKEN	    ? &ret->offsets.taken
			   : point->func.exits || point->func.blind ? &ret->offsets.throwing
								    : &ret->offsets.alloc,
			   point->place.off, (uint64_t)index, point,
			   alloc_point__is_essential(a, i));
		ret->points[ret->n] = point;
		ret->indices[ret->n++] = (uint32_t)index;
	}
	for (size_t i = 0; i < a->n_exits && throwing; i++)
		add_offset(&ret->offsets.exits, a->exits[i], 0, NULL, true);
	return 0;
}

/* Places the probes. Probes for all processes are placed in one process after the other, without a
 * beat meanwhile. So the keeper's patience is longer for that time. */
static int place(struct capture *c, struct attach *attach, pid_t pid)
{
	unsigned usual = c->patience_ms;
	int rc;

	if (!pid && c->everywhere_out)
		return 0;
	if (!pid && usual && usual < EVERYBODY_MS)
		keeper__set_patience(c->keeper, EVERYBODY_MS);
	rc = shield__run(attach_points, attach);
	if (!pid)
		keeper__set_patience(c->keeper, usual);
	return rc;
}

/* Would the kernel lose the probes of this file (features__multi_loses_probes())? */
static bool would_be_lost(const struct capture *c, const struct allocator *a)
{
	struct statfs fs;

	return c->loses_probes && !fstatfs(a->fd, &fs) && fs.f_type == OVERLAYFS_SUPER_MAGIC;
}

/* Attaches one allocator. `again`: the allocator had probes before, which are in capture.probes. 0;
 * -EOPNOTSUPP: probes on the allocator are refused; other negative errno. */
static int attach_one(struct capture *c, const struct allocator *a, pid_t pid, bool again,
		      struct error *err)
{
	_cleanup_free_ struct wanted *wanted = calloc(1, sizeof(*wanted));
	const struct capture_refusal *refusal = refusals__find(c, a, NULL, pid);
	struct attach attach = {.c = c, .pid = pid, .before = c->n_links};
	char path[64], text[512];
	int rc, noted;

	if (a->reported)
		return 0;
	if (refusal)
		return error__set(err, -EOPNOTSUPP, "%s", refusal->text);
	if (would_be_lost(c, a)) {
		snprintf(text, sizeof(text),
			 "%.256s lies on overlayfs. Before Linux 6.12 the kernel may crash if a "
			 "container changes the file while it has uprobe_multi probes: this "
			 "allocator is not traced. --probe-kind perf traces it",
			 a->path);
		capture__refuse(c, a, pid, text);
		return error__set(err, -EOPNOTSUPP, "%s", text);
	}
	if (!wanted || VECTOR_RESERVE(c->probes, c->probes_room, c->n_probes + a->n_points))
		return error__set(err, -ENOMEM, "out of memory");
	rc = collect_wanted(c, a, pid, again, wanted, err);
	if (rc || !wanted->n)
		return rc;
	/* The descriptor names the very file, even if the file's path leads to another file by
	 * now. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
	attach.path = path;
	attach.offsets = &wanted->offsets;
	rc = place(c, &attach, pid);
	for (size_t i = attach.before; i < c->n_links; i++)
		c->links[i].object = wanted->object;
	noted = note_refusals(c, a, &attach, err);
	rc = noted ? noted : rc;
	if (rc) /* probes are left if the helper was killed half-way, or if there was no memory to
		 * note a refusal */
		shield__run(undo, &attach);
	if (rc == -ESRCH)
		return error__set(err, rc, "pid %d has exited while the probes were being placed",
				  pid);
	if (rc)
		return error__set(err, rc, "cannot place probes on %s in pid %d: %s", a->path, pid,
				  strerror(-rc));
	for (uint32_t i = 0; i < wanted->n; i++) {
		if (refusals__find(c, a, wanted->points[i], pid))
			continue;
		if (!again)
			c->probes[c->n_probes++] =
				(struct capture_probe){wanted->points[i], a, pid};
		if (!pid)
			c->everywhere[wanted->indices[i]] =
				c->everywhere_out ? PLACE_OUT : PLACE_IN;
	}
	if (!again)
		c->objects[wanted->object].since_ns = clock__now_ns(CLOCK_MONOTONIC);
	return 0;
}

int capture__attach(struct capture *c, struct allocators *allocators, pid_t pid, struct error *err)
{
	int rc = 0;

	while (!rc && allocators->n_attached < allocators->n)
		rc = attach_one(c, allocators->list[allocators->n_attached++], pid, false, err);
	return rc;
}

int capture__resume(struct capture *c, struct allocators *allocators, pid_t pid, struct error *err)
{
	int rc = 0;

	c->everywhere_out = c->everywhere_out && pid;
	for (size_t i = 0; i < allocators->n_attached && !rc; i++) {
		rc = attach_one(c, allocators->list[i], pid, true, err);
		if (rc == -EOPNOTSUPP) /* the allocator stays without probes; capture__refusals()
					* reports this */
			rc = 0;
	}
	if (rc)
		capture__pause(c, pid);
	return rc;
}

/* Does the probe have to be in the code of process pid, and of no other process? If its allocator
 * or its function was refused later, memtrace has taken the probe out. */
static bool is_own(const struct capture *c, const struct capture_probe *probe, pid_t pid)
{
	return probe->pid == pid && !refusals__find(c, probe->allocator, NULL, pid) &&
	       !refusals__find(c, probe->allocator, probe->point, pid);
}

bool capture__misses_probes(const struct capture *c, pid_t pid, const struct maps *maps)
{
	_cleanup_free_ struct code_place *places = calloc(c->n_probes + 1, sizeof(*places));
	bool bare = false;

	if (!places)
		return false;
	/* the probes of an allocator stand together */
	for (size_t i = 0, end; i < c->n_probes && !bare; i = end) {
		const struct allocator *a = c->probes[i].allocator;
		size_t n = 0;

		for (end = i; end < c->n_probes && c->probes[end].allocator == a; end++)
			if (is_own(c, &c->probes[end], pid))
				places[n++] = c->probes[end].point->place;
		bare = n && patch__is_bare(pid, maps, &a->file, places, n);
	}
	return bare;
}

/* --- regions --- */

struct attach_regions {
	struct capture *c;
	const struct region_source *source;
	const char *path;
	pid_t pid;
	size_t before; /* number of links before this work */
};

static int place_region_points(const struct attach_regions *a)
{
	uint64_t offs[REGION_FUNCTIONS], cookies[REGION_FUNCTIONS];
	uint32_t n = (uint32_t)a->source->n_points;
	struct capture *c = a->c;
	int rc = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct region_point *point = &a->source->points[i];

		offs[i] = point->place.off;
		cookies[i] = (uint64_t)point->site.delta << 8 | point->kind;
	}
	if (c->kind == PROBE_SESSION)
		return attach_multi(c, c->skel->progs.region_session, PROBE_SESSION, false, a->path,
				    offs, cookies, NULL, n, a->pid);
	/* The return probe comes first: if the entry of a call is seen, its return must be seen,
	 * too. */
	if (c->kind == PROBE_MULTI) {
		rc = attach_multi(c, c->skel->progs.region_return, PROBE_MULTI, true, a->path, offs,
				  cookies, NULL, n, a->pid);
		return rc ? rc
			  : attach_multi(c, c->skel->progs.region_entry, PROBE_MULTI, false,
					 a->path, offs, cookies, NULL, n, a->pid);
	}
	for (uint32_t i = 0; i < n && !rc; i++) {
		rc = attach_perf(c, c->skel->progs.region_return, true, a->path, offs[i],
				 cookies[i], 0, a->pid, i);
		if (!rc)
			rc = attach_perf(c, c->skel->progs.region_entry, false, a->path, offs[i],
					 cookies[i], 0, a->pid, i);
	}
	return rc;
}

/* Places all of the probes or none. */
static int attach_region_points(void *arg)
{
	const struct attach_regions *a = arg;
	int rc = place_region_points(a);

	if (rc)
		links__roll_back(a->c, a->before);
	return rc;
}

static int undo_regions(void *arg)
{
	const struct attach_regions *a = arg;

	links__roll_back(a->c, a->before);
	return 0;
}

int capture__attach_regions(struct capture *c, const struct region_source *source, pid_t pid,
			    struct error *err)
{
	struct attach_regions attach = {.c = c, .source = source, .pid = pid, .before = c->n_links};
	char path[64];
	int rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", source->fd);
	attach.path = path;
	rc = shield__run(attach_region_points, &attach);
	for (size_t i = attach.before; i < c->n_links; i++)
		c->links[i].on = ON_REGIONS;
	if (rc && c->n_links > attach.before) /* the helper was killed half-way */
		shield__run(undo_regions, &attach);
	if (rc)
		return error__set(err, rc, "cannot place probes on %s in pid %d: %s", source->path,
				  pid, strerror(-rc));
	return 0;
}

/* Attaches a tracepoint's program. The keeper must be able to close the link of the tracepoint,
 * too, because the tracepoint may cost every process something. */
static int attach_program(struct capture *c, struct bpf_program *prog, enum capture_place_kind on)
{
	struct bpf_link *link = bpf_program__attach(prog);
	int fd, rc;

	if (!link)
		return -errno;
	fd = fcntl(bpf_link__fd(link), F_DUPFD_CLOEXEC, 0);
	rc = fd < 0 ? -errno : links__keep(c, fd, 0, 0);
	bpf_link__destroy(link); /* closes only libbpf's descriptor; fd is a copy */
	if (!rc)
		c->links[c->n_links - 1].on = on;
	return rc;
}

int capture__attach_region_syscalls(struct capture *c, struct error *err)
{
	/* The program for the return comes first, as in place_region_points(). */
	int rc = attach_program(c, c->skel->progs.region_sys_exit, ON_SYSCALLS);

	if (!rc)
		rc = attach_program(c, c->skel->progs.region_sys_enter, ON_SYSCALLS);
	if (rc)
		capture__detach_region_syscalls(c);
	return rc ? error__set(err, rc, "the tracepoints of system calls do not work here: %s",
			       strerror(-rc))
		  : 0;
}

void capture__pause(struct capture *c, pid_t pid)
{
	links__pause(c, &(struct link_choice){pid, ON_ALLOCATORS, ANY_OBJECT});
	if (pid)
		return;
	c->everywhere_out = true;
	for (uint32_t i = 0; i < c->n_funcs; i++)
		if (c->everywhere[i] == PLACE_IN)
			c->everywhere[i] = PLACE_OUT;
}

bool capture__probes_file(const struct capture *c, const struct file_id *file,
			  uint64_t *ret_since_ns)
{
	for (uint32_t i = 0; i < c->n_funcs; i++) {
		const struct abi_func *func = &c->skel->bss->funcs[i];
		const struct known_object *o = &c->objects[func->object];

		if (func->role && c->everywhere[i] != PLACE_NONE && !o->leaving &&
		    file_id__equal(&o->file, file)) {
			if (ret_since_ns)
				*ret_since_ns = o->since_ns;
			return true;
		}
	}
	return false;
}

bool capture__is_releasing(struct capture *c)
{
	reclaim_places(c);
	return c->any_leaving;
}

void capture__release(struct capture *c, const struct file_id *file)
{
	size_t kept = 0;

	refusals__end(c, file);
	for (uint32_t i = 0; i < c->n_objects; i++) {
		struct known_object *o = &c->objects[i];

		if (!o->family || o->leaving || !file_id__equal(&o->file, file))
			continue;
		/* Its last probes count no calls, because the file may get new probes before these
		 * are gone. While probes are in single processes only, new ones do not come before
		 * these are gone. */
		for (uint32_t j = 0; j < c->n_funcs && !c->everywhere_out; j++)
			if (c->skel->bss->funcs[j].role && c->skel->bss->funcs[j].object == i)
				c->skel->bss->funcs[j].cost = ABI_COSTS;
		links__pause(c, &(struct link_choice){0, ON_ALLOCATORS, (int)i});
		o->leaving = c->any_leaving = true;
	}
	for (size_t i = 0; i < c->n_probes; i++)
		if (c->probes[i].pid || !file_id__equal(&c->probes[i].allocator->file, file))
			c->probes[kept++] = c->probes[i];
	c->n_probes = kept;
}

void capture__leave(struct capture *c, pid_t pid)
{
	size_t kept = 0;

	capture__pause(c, pid);
	capture__detach_regions(c, pid);
	for (size_t i = 0; i < c->n_probes; i++)
		if (c->probes[i].pid != pid)
			c->probes[kept++] = c->probes[i];
	c->n_probes = kept;
}

void capture__detach_regions(struct capture *c, pid_t pid)
{
	links__pause(c, &(struct link_choice){pid, ON_REGIONS, ANY_OBJECT});
}

void capture__detach_region_syscalls(struct capture *c)
{
	links__close(c, &(struct link_choice){0, ON_SYSCALLS, ANY_OBJECT});
}

int capture__attach_faults(struct capture *c, struct error *err)
{
	int rc = attach_program(c, c->skel->progs.fault_user, ON_FAULTS);

	if (!rc)
		rc = attach_program(c, c->skel->progs.fault_kernel, ON_FAULTS);
	return rc ? error__set(err, rc, "cannot see page faults: %s", strerror(-rc)) : 0;
}
