// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "capture/internal.h"
#include "capture/shield.h"

static int keep_link(struct capture *c, int fd, pid_t pid)
{
	struct capture_link *links = reallocarray(c->links, c->n_links + 1, sizeof(*links));
	int *closing;

	c->links = links ? links : c->links;
	/* Room to close them with: that must not fail. */
	closing = links ? reallocarray(c->closing, c->n_links + 1, sizeof(*closing)) : NULL;
	if (!closing) {
		close(fd);
		return -ENOMEM;
	}
	c->closing = closing;
	links[c->n_links++] = (struct capture_link){.fd = fd, .pid = pid};
	return 0;
}

static int attach_multi(struct capture *c, struct bpf_program *prog, enum probe_kind kind,
			bool ret_probe, const char *path, const uint64_t *offs,
			const uint64_t *cookies, uint32_t n, pid_t pid)
{
	int fd;

	if (!n)
		return 0;
	fd = uprobe_multi_link(bpf_program__fd(prog), kind, ret_probe, path, offs, cookies, n, pid);
	return fd < 0 ? fd : keep_link(c, fd, pid);
}

/* rank: of the point among those of its program. The functions that are called most stand first in the tables of
 * allocators. */
static int attach_perf(struct capture *c, struct bpf_program *prog, bool ret_probe,
		       const char *path, uint64_t off, uint64_t cookie, pid_t pid, uint32_t rank)
{
	int event, rc;
	int link =
		uprobe_perf_link(bpf_program__fd(prog), ret_probe, path, off, cookie, pid, &event);

	if (link < 0)
		return link;
	rc = keep_link(c, link, pid);
	if (rc) {
		close(event);
		return rc;
	}
	c->links[c->n_links - 1].rank = rank;
	rc = keep_link(c, event, pid);
	if (!rc)
		c->links[c->n_links - 1].rank = rank;
	return rc;
}

struct attach {
	struct capture *c;
	const char *path;
	const struct capture_offsets *offsets;
	pid_t pid;
};

/* The programs that stand on a list's instructions, in the order in which they are put there: the
 * return first, for no call may be seen entering and not leaving. */
struct placement {
	struct bpf_program *prog;
	enum probe_kind kind; /* of multi's two */
	bool ret_probe;
};

static int attach_list(const struct attach *a, const struct placement *place,
		       const struct capture_offset_list *list)
{
	int rc = 0;

	if (a->c->kind != PROBE_PERF)
		return attach_multi(a->c, place->prog, place->kind, place->ret_probe, a->path,
				    list->offs, list->cookies, list->n, a->pid);
	for (uint32_t i = list->n; i-- > 0 && !rc;)
		rc = attach_perf(a->c, place->prog, place->ret_probe, a->path, list->offs[i],
				 list->cookies[i], a->pid, i);
	return rc;
}

static int attach_points(void *arg)
{
	const struct attach *a = arg;
	const struct capture_offsets *o = a->offsets;
	struct memtrace_bpf *skel = a->c->skel;
	const struct placement session = {skel->progs.heap_session, PROBE_SESSION, false};
	const struct placement entry = {skel->progs.heap_entry, PROBE_MULTI, false};
	const struct placement ret = {skel->progs.heap_return, PROBE_MULTI, true};
	const struct placement exit = {skel->progs.heap_exit, PROBE_MULTI, false};
	const struct placement freeing = {skel->progs.heap_free, PROBE_MULTI, false};
	int rc;

	if (a->c->kind == PROBE_SESSION) {
		rc = attach_list(a, &session, &o->alloc);
	} else {
		rc = attach_list(a, &ret, &o->alloc);
		if (!rc)
			rc = attach_list(a, &entry, &o->alloc);
	}
	if (!rc)
		rc = attach_list(a, &exit, &o->exits);
	if (!rc)
		rc = attach_list(a, &entry, &o->throwing);
	return rc ?: attach_list(a, &freeing, &o->free);
}

int capture__attach_points(struct capture *c, const char *path,
			   const struct capture_offsets *offsets, pid_t pid)
{
	struct attach attach = {c, path, offsets, pid};

	return shield__run(attach_points, &attach);
}

/* Puts the allocator into the kernel's tables, once per file. Its index or -ENOSPC. */
static int register_object(struct capture *c, const struct allocator *a)
{
	for (uint32_t i = 0; i < c->n_objects; i++)
		if (file_id__equal(&c->objects[i].file, &a->file) &&
		    c->objects[i].family == a->family)
			return (int)i;
	/* The last one is the calibration's. */
	if (c->n_objects == ABI_MAX_OBJECTS - 1)
		return -ENOSPC;
	c->objects[c->n_objects] = (struct known_object){a->file, a->family};
	c->skel->bss->objects[c->n_objects] = a->object;
	return (int)c->n_objects++;
}

/* The same for a function of it: which ones a process uses may differ from process to process. */
static int register_func(struct capture *c, int object, const struct alloc_point *point)
{
	struct abi_func *funcs = c->skel->bss->funcs;

	for (uint32_t i = 0; i < c->n_funcs; i++)
		if (funcs[i].object == object && funcs[i].vaddr == point->func.vaddr)
			return (int)i;
	/* The last entries are the calibration's. */
	if (c->n_funcs == ABI_MAX_FUNCS - 2 * INSN_CLASSES)
		return -ENOSPC;
	funcs[c->n_funcs] = point->func;
	funcs[c->n_funcs].object = (uint8_t)object;
	funcs[c->n_funcs].cost = capture__cost_of(point);
	if (point->func.wraps)
		c->skel->bss->any_wraps = 1;
	return (int)c->n_funcs++;
}

static void add_offset(struct capture_offset_list *list, uint64_t off, uint64_t cookie)
{
	list->offs[list->n] = off;
	list->cookies[list->n++] = cookie;
}

/* again: its probes have been there before, and are among the capture's. */
static int attach_one(struct capture *c, const struct allocator *a, pid_t pid, bool again,
		      struct error *err)
{
	_cleanup_free_ struct capture_offsets *offsets = calloc(1, sizeof(*offsets));
	struct capture_probe *grown;
	uint32_t indices[ABI_MAX_FUNCS], n_indices = 0;
	size_t n_probes = c->n_probes;
	bool throwing = false;
	char path[64];
	int object, rc;

	grown = realloc(c->probes, (c->n_probes + a->n_points) * sizeof(*grown));
	if (grown)
		c->probes = grown;
	if (!grown || !offsets)
		return error__set(err, -ENOMEM, "out of memory");
	object = register_object(c, a);
	for (uint32_t i = 0; i < a->n_points; i++) {
		const struct alloc_point *point = &a->points[i];
		int index = object < 0 ? object : register_func(c, object, point);

		if (index < 0)
			return error__set(err, index,
					  "too many different allocators: %u files with %u "
					  "functions are known already",
					  c->n_objects, c->n_funcs);
		if (!pid && c->everywhere[index] > (again ? PLACE_OUT : PLACE_NONE))
			continue;
		throwing = throwing || point->func.exits;
		add_offset(point->func.role == ROLE_FREE		   ? &offsets->free
			   : point->func.exits || point->func.blind ? &offsets->throwing
								    : &offsets->alloc,
			   point->off, (uint64_t)index);
		c->probes[n_probes++] = (struct capture_probe){point, a, pid};
		indices[n_indices++] = (uint32_t)index;
	}
	for (size_t i = 0; i < a->n_exits && throwing; i++)
		add_offset(&offsets->exits, a->exits[i], 0);
	if (!n_indices)
		return 0;
	/* The descriptor names the very file, whatever its path leads to by now. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", a->fd);
	rc = !pid && c->everywhere_out ? 0 : capture__attach_points(c, path, offsets, pid);
	if (rc == -ESRCH)
		return error__set(err, rc, "pid %d has exited while the probes were being placed",
				  pid);
	if (rc)
		return error__set(err, rc, "cannot place probes on %s in pid %d: %s", a->path, pid,
				  strerror(-rc));
	if (!again)
		c->n_probes = n_probes;
	for (uint32_t i = 0; i < n_indices && !pid; i++)
		c->everywhere[indices[i]] = c->everywhere_out ? PLACE_OUT : PLACE_IN;
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
	for (size_t i = 0; i < allocators->n_attached && !rc; i++)
		rc = attach_one(c, allocators->list[i], pid, true, err);
	if (rc)
		capture__pause(c, pid);
	return rc;
}

/* --- regions --- */

struct attach_regions {
	struct capture *c;
	const struct region_source *source;
	const char *path;
	pid_t pid;
};

static int attach_region_points(void *arg)
{
	const struct attach_regions *a = arg;
	uint64_t offs[REGION_FUNCTIONS], cookies[REGION_FUNCTIONS];
	uint32_t n = (uint32_t)a->source->n_points;
	struct capture *c = a->c;
	int rc = 0;

	for (uint32_t i = 0; i < n; i++) {
		const struct region_point *point = &a->source->points[i];

		offs[i] = point->off;
		cookies[i] = (uint64_t)point->site.delta << 8 | point->kind;
	}
	if (c->kind == PROBE_SESSION)
		return attach_multi(c, c->skel->progs.region_session, PROBE_SESSION, false,
				    a->path, offs, cookies, n, a->pid);
	/* The return first: no call may be seen entering and not leaving. */
	if (c->kind == PROBE_MULTI) {
		rc = attach_multi(c, c->skel->progs.region_return, PROBE_MULTI, true, a->path, offs,
				  cookies, n, a->pid);
		return rc ? rc
			  : attach_multi(c, c->skel->progs.region_entry, PROBE_MULTI, false,
					 a->path, offs, cookies, n, a->pid);
	}
	for (uint32_t i = 0; i < n && !rc; i++) {
		rc = attach_perf(c, c->skel->progs.region_return, true, a->path, offs[i],
				 cookies[i], a->pid, i);
		if (!rc)
			rc = attach_perf(c, c->skel->progs.region_entry, false, a->path, offs[i],
					 cookies[i], a->pid, i);
	}
	return rc;
}

int capture__attach_regions(struct capture *c, const struct region_source *source, pid_t pid,
			    struct error *err)
{
	struct attach_regions attach = {.c = c, .source = source, .pid = pid};
	size_t before = c->n_links;
	char path[64];
	int rc;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", source->fd);
	attach.path = path;
	rc = shield__run(attach_region_points, &attach);
	for (size_t i = before; i < c->n_links; i++)
		c->links[i].regions = true;
	if (rc)
		return error__set(err, rc, "cannot place probes on %s in pid %d: %s", source->path,
				  pid, strerror(-rc));
	return 0;
}

int capture__attach_region_syscalls(struct capture *c, struct error *err)
{
	struct memtrace_bpf *skel = c->skel;
	int rc = 0;

	/* The return first, as above. */
	skel->links.region_sys_exit = bpf_program__attach(skel->progs.region_sys_exit);
	if (skel->links.region_sys_exit)
		skel->links.region_sys_enter = bpf_program__attach(skel->progs.region_sys_enter);
	if (!skel->links.region_sys_enter)
		rc = -errno;
	return rc ? error__set(err, rc, "the tracepoints of system calls do not work here: %s",
			       strerror(-rc))
		  : 0;
}

/* Closes those of a process on its allocators, or on mmap and its like; or all (pid -1). */
static void close_links(struct capture *c, pid_t pid, bool regions)
{
	size_t kept = 0, n = 0;

	for (size_t i = 0; i < c->n_links; i++)
		if (pid < 0 || (c->links[i].pid == pid && c->links[i].regions == regions))
			c->closing[n++] = c->links[i].fd;
		else
			c->links[kept++] = c->links[i];
	c->n_links = kept;
	shield__close(c->closing, n);
}

static bool is_to_go(const struct capture_link *link, pid_t pid, bool regions)
{
	return link->pid == pid && link->regions == regions;
}

/* Perf events go one after the other, some 100 ms each, whoever closes them: the kernel waits for all CPUs under one
 * lock. A link that is closed takes the program from the breakpoint at once, but the breakpoint stays until it is its
 * event's turn: calls are trapped and nobody counts them. (Closed side by side, malloc's breakpoint stood for 1.7 s after its
 * program had gone.) So one helper closes them, each event with its link, and those of the functions that are called most
 * first. */
static void pause_perf(struct capture *c, pid_t pid, bool regions)
{
	size_t kept = 0, n = 0; /* of those to go, by insertion: they are some dozens */
	struct capture_link *going = calloc(c->n_links + 1, sizeof(*going));
	struct shield_closer *closer;

	if (!going) {
		close_links(c, pid, regions);
		return;
	}
	/* the last one first, among those of one rank: an event before its link, an entry before its return */
	for (size_t i = c->n_links; i-- > 0;) {
		size_t at = n;

		if (!is_to_go(&c->links[i], pid, regions))
			continue;
		for (; at && going[at - 1].rank > c->links[i].rank; at--)
			going[at] = going[at - 1];
		going[at] = c->links[i];
		n++;
	}
	for (size_t i = 0; i < c->n_links; i++)
		if (!is_to_go(&c->links[i], pid, regions))
			c->links[kept++] = c->links[i];
	c->n_links = kept;
	for (size_t i = 0; i < n; i++)
		c->closing[i] = going[i].fd;
	free(going);
	closer = n ? shield__begin_close(c->closing, n) : NULL;
	if (closer)
		c->closings[c->n_closings++] = (struct capture_closing){closer, pid};
}

/* Begins to close them. */
static void pause_links(struct capture *c, pid_t pid, bool regions)
{
	size_t kept = 0, room = c->n_closings + c->n_links;
	struct capture_closing *closings = c->closings;

	if (room > c->closings_room) {
		closings = reallocarray(closings, room, sizeof(*closings));
		if (!closings) {
			close_links(c, pid, regions); /* it takes us longer, no more */
			return;
		}
		c->closings = closings;
		c->closings_room = room;
	}
	if (c->kind == PROBE_PERF) {
		pause_perf(c, pid, regions);
		return;
	}
	for (size_t i = 0; i < c->n_links; i++) {
		struct shield_closer *closer;

		if (!is_to_go(&c->links[i], pid, regions)) {
			c->links[kept++] = c->links[i];
			continue;
		}
		closer = shield__begin_close(&c->links[i].fd, 1);
		if (closer)
			closings[c->n_closings++] = (struct capture_closing){closer, pid};
	}
	c->n_links = kept;
}

void capture__pause(struct capture *c, pid_t pid)
{
	pause_links(c, pid, false);
	if (pid)
		return;
	c->everywhere_out = true;
	for (uint32_t i = 0; i < c->n_funcs; i++)
		if (c->everywhere[i] == PLACE_IN)
			c->everywhere[i] = PLACE_OUT;
}

size_t capture__pausing(struct capture *c, pid_t pid)
{
	size_t kept = 0, n = 0;

	for (size_t i = 0; i < c->n_closings; i++) {
		if (shield__end_close(c->closings[i].closer, false))
			continue;
		n += pid < 0 || c->closings[i].pid == pid;
		c->closings[kept++] = c->closings[i];
	}
	c->n_closings = kept;
	return n;
}

void capture__detach_regions(struct capture *c, pid_t pid)
{
	pause_links(c, pid, true);
}

void capture__detach_region_syscalls(struct capture *c)
{
	bpf_link__destroy(c->skel->links.region_sys_enter);
	bpf_link__destroy(c->skel->links.region_sys_exit);
	c->skel->links.region_sys_enter = c->skel->links.region_sys_exit = NULL;
}

int capture__attach_growth(struct capture *c, struct error *err)
{
	c->skel->links.growth_user = bpf_program__attach(c->skel->progs.growth_user);
	if (c->skel->links.growth_user)
		c->skel->links.growth_kernel = bpf_program__attach(c->skel->progs.growth_kernel);
	if (c->skel->links.growth_kernel)
		return 0;
	return error__set(err, -errno, "cannot see page faults: %s", strerror(errno));
}

void capture__detach(struct capture *c)
{
	close_links(c, -1, false);
	for (size_t i = 0; i < c->n_closings; i++)
		shield__end_close(c->closings[i].closer, true);
	c->n_closings = 0;
	capture__detach_region_syscalls(c);
	bpf_link__destroy(c->skel->links.growth_user);
	bpf_link__destroy(c->skel->links.growth_kernel);
	c->skel->links.growth_user = c->skel->links.growth_kernel = NULL;
}
