// SPDX-License-Identifier: BSD-2-Clause
#include "capture/capture.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "capture/internal.h"
#include "capture/shield.h"
#include "proc/own.h"

#define DEFAULT_PROCESSES 64
#define DEFAULT_LIVE	  (1U << 20)
#define DEFAULT_STACKS	  (1U << 16)
#define DEFAULT_SITES	  (1U << 17)
#define REGION_RING	  (1U << 21) /* bytes */
#define END_RING	  (1U << 22)

static int print_nothing(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	(void)format;
	(void)args;
	return 0;
}

static int print_all(enum libbpf_print_level level, const char *format, va_list args)
{
	return level == LIBBPF_DEBUG ? 0 : vfprintf(stderr, format, args);
}

/* Before Linux 6.1 a hash map that takes memory as entries come did so with the kernel's ordinary
 * allocator, which is not safe from every place a probe can hit: the kernel warns (and refuses,
 * with real-time preemption). 6.1 brought an allocator of BPF's own. */
static bool hash_maps_may_grow(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	bool may = btf && btf__find_by_name_kind(btf, "bpf_mem_alloc", BTF_KIND_STRUCT) > 0;

	btf__free(btf);
	return may;
}

static int on_event(void *ctx, void *data, size_t size)
{
	struct capture *c = ctx;

	if (size >= sizeof(struct abi_event) && c->on_event)
		c->on_event(c->event_ctx, data);
	return 0;
}

static int on_end(void *ctx, void *data, size_t size)
{
	struct capture *c = ctx;

	if (size >= sizeof(struct abi_end) && c->on_end)
		c->on_end(c->end_ctx, data);
	return 0;
}

static int on_region_call(void *ctx, void *data, size_t size)
{
	struct capture *c = ctx;

	if (size >= sizeof(struct abi_region_call) && c->on_region_call)
		c->on_region_call(c->region_ctx, data);
	return 0;
}

/* The rows of counters are numbered from 1 to n: the bits that tell them apart. */
static uint32_t rows_mask(uint32_t n)
{
	uint32_t mask = 1;

	while (mask < n)
		mask = mask << 1 | 1;
	return mask;
}

static int load_kind(struct capture *c, enum probe_kind kind, bool use_tables,
		     const struct capture_options *o)
{
	/* one more for the calibration's child */
	uint32_t max_processes = (o->max_processes ? o->max_processes : DEFAULT_PROCESSES) + 1;
	struct memtrace_bpf *skel = memtrace_bpf__open();
	struct abi_config *config;
	int rc;

	if (!skel)
		return -errno;
	config = (struct abi_config *)&skel->rodata->config;
	config->interval = o->interval;
	config->max_frames = o->max_frames ? o->max_frames : ABI_STACK_FRAMES;
	c->unwind.max_chunks = (o->max_unwind ? o->max_unwind : UNWIND_DEFAULT_BYTES) /
			       sizeof(struct abi_unwind_chunk);
	if (getrandom(config->hash_seed, sizeof(config->hash_seed), 0) < 0) {
		rc = -errno;
		goto fail;
	}
	skel->rodata->returns_always = kind != PROBE_SESSION;
	skel->rodata->count_machine = o->machine;

	bpf_map__set_max_entries(skel->maps.live, o->max_live ? o->max_live : DEFAULT_LIVE);
	bpf_map__set_max_entries(skel->maps.stacks, o->max_stacks ? o->max_stacks : DEFAULT_STACKS);
	bpf_map__set_max_entries(skel->maps.sites, o->max_sites ? o->max_sites : DEFAULT_SITES);
	bpf_map__set_max_entries(skel->maps.mappings, max_processes);
	/* row 0 is nobody's */
	bpf_map__set_max_entries(skel->maps.process_cpus, max_processes + 1);
	bpf_map__set_max_entries(skel->maps.row_owners, max_processes + 1);
	bpf_map__set_max_entries(skel->maps.free_processes, max_processes);
	skel->rodata->process_rows = rows_mask(max_processes);
	bpf_map__set_max_entries(skel->maps.headless, max_processes);
	memcpy((void *)&skel->rodata->selection, &o->selection, sizeof(o->selection));
	((struct abi_selection *)&skel->rodata->selection)->self = (uint32_t)getpid();

	skel->rodata->use_tables = use_tables;
	if (!hash_maps_may_grow()) {
		bpf_map__set_map_flags(skel->maps.live, 0);
		bpf_map__set_map_flags(skel->maps.sites, 0);
		bpf_map__set_map_flags(skel->maps.stacks, 0);
		bpf_map__set_map_flags(skel->maps.threads, 0);
		bpf_map__set_map_flags(skel->maps.transfers, 0);
		bpf_map__set_map_flags(skel->maps.mappings, 0);
	}

	bpf_program__set_autoload(skel->progs.growth_user, o->growth);
	bpf_program__set_autoload(skel->progs.growth_kernel, o->growth);
	bpf_program__set_autoload(skel->progs.region_session, o->regions && kind == PROBE_SESSION);
	bpf_program__set_autoload(skel->progs.region_entry, o->regions && kind != PROBE_SESSION);
	bpf_program__set_autoload(skel->progs.region_return, o->regions && kind != PROBE_SESSION);
	bpf_program__set_autoload(skel->progs.region_sys_enter, o->regions);
	bpf_program__set_autoload(skel->progs.region_sys_exit, o->regions);
	if (o->regions)
		bpf_map__set_max_entries(skel->maps.regions, REGION_RING);
	if (o->windows)
		bpf_map__set_max_entries(skel->maps.ends, END_RING);
	bpf_program__set_autoload(skel->progs.heap_session, kind == PROBE_SESSION);
	bpf_program__set_autoload(skel->progs.heap_return, kind != PROBE_SESSION);
	if (kind != PROBE_PERF) {
		enum bpf_attach_type multi = (enum bpf_attach_type)ATTACH_TYPE_UPROBE_MULTI;

		bpf_program__set_expected_attach_type(
			skel->progs.heap_session, (enum bpf_attach_type)ATTACH_TYPE_UPROBE_SESSION);
		bpf_program__set_expected_attach_type(
			skel->progs.region_session,
			(enum bpf_attach_type)ATTACH_TYPE_UPROBE_SESSION);
		bpf_program__set_expected_attach_type(skel->progs.region_entry, multi);
		bpf_program__set_expected_attach_type(skel->progs.region_return, multi);
		bpf_program__set_expected_attach_type(skel->progs.heap_entry, multi);
		bpf_program__set_expected_attach_type(skel->progs.heap_return, multi);
		bpf_program__set_expected_attach_type(skel->progs.heap_free, multi);
		bpf_program__set_expected_attach_type(skel->progs.heap_exit, multi);
	}
	rc = memtrace_bpf__load(skel);
	for (uint32_t id = 1; id <= max_processes && !rc; id++)
		rc = bpf_map__update_elem(skel->maps.free_processes, NULL, 0, &id, sizeof(id), BPF_ANY);
	if (rc)
		goto fail;
	skel->links.task_exec = bpf_program__attach(skel->progs.task_exec);
	skel->links.task_fork = bpf_program__attach(skel->progs.task_fork);
	skel->links.task_exit = bpf_program__attach(skel->progs.task_exit);
	if (!skel->links.task_exec || !skel->links.task_fork || !skel->links.task_exit) {
		rc = -errno;
		goto fail;
	}
	c->ends = ring_buffer__new(bpf_map__fd(skel->maps.ends), on_end, c, NULL);
	if (!c->ends) {
		rc = -errno;
		goto fail;
	}
	c->events = ring_buffer__new(bpf_map__fd(skel->maps.events), on_event, c, NULL);
	if (!c->events) {
		rc = -errno;
		goto fail;
	}
	rc = o->regions ? ring_buffer__add(c->events, bpf_map__fd(skel->maps.regions),
					   on_region_call, c)
			: 0;
	if (rc) {
		ring_buffer__free(c->events);
		c->events = NULL;
		goto fail;
	}
	c->skel = skel;
	c->kind = kind;
	return 0;
fail:
	ring_buffer__free(c->ends);
	c->ends = NULL;
	memtrace_bpf__destroy(skel);
	return rc;
}

/* Unwinding by tables needs bpf_loop (Linux 5.17) and is the one large program: a verifier that has
 * had enough of it still takes the walk by frame pointers, whose stacks say that they are no more.
 */
static int load_best(struct capture *c, enum probe_kind kind, const struct capture_options *o)
{
	if (features__tables() && !load_kind(c, kind, true, o))
		return 0;
	return load_kind(c, kind, false, o);
}

int capture__new(const struct capture_options *options, struct capture **ret, struct error *err)
{
	struct capture *c;
	int rc = -EOPNOTSUPP;

	libbpf_set_print(options->verbose ? print_all : print_nothing);
	c = calloc(1, sizeof(*c));
	if (!c)
		return error__set(err, -ENOMEM, "out of memory");
	c->cpus = libbpf_num_possible_cpus();
	if (c->cpus < 1) {
		free(c);
		return error__set(err, -EIO, "cannot tell the number of CPUs");
	}
	c->counters = calloc((size_t)c->cpus, sizeof(*c->counters));
	if (!c->counters) {
		free(c);
		return error__set(err, -ENOMEM, "out of memory");
	}
	for (int kind = 0; kind < PROBE_KINDS; kind++) {
		if (options->kind >= 0 && options->kind != kind)
			continue;
		rc = features__try_kind((enum probe_kind)kind);
		if (!rc)
			rc = load_best(c, (enum probe_kind)kind, options);
		if (!rc) {
			*ret = c;
			return 0;
		}
		if (rc == -E2BIG || rc == -ENOMEM) { /* no fault of the kind's */
			free(c->counters);
			free(c);
			return error__set(err, rc,
					  "the kernel has no room for tables of this size: take a "
					  "smaller --max-live or --max-stacks");
		}
	}
	free(c->counters);
	free(c);
	if (options->growth || options->regions)
		return error__set(
			err, rc,
			"what %s needs does not work on this kernel: %s (tracepoints of "
			"%s by BTF, Linux 5.17 with CONFIG_BPF_SYSCALL and CONFIG_TRACEPOINTS)",
			options->growth ? "growth" : "regions", strerror(-rc),
			options->growth ? "page faults" : "system calls");
	if (options->kind >= 0)
		return error__set(err, rc, "probes of the kind %s do not work on this kernel: %s",
				  probe_kind__name((enum probe_kind)options->kind), strerror(-rc));
	return error__set(err, rc,
			  "no kind of probe works on this kernel: %s (`memtrace check` says more; "
			  "Linux 5.15 is the oldest that can)",
			  strerror(-rc));
}

enum probe_kind capture__kind(const struct capture *c)
{
	return c->kind;
}

bool capture__needs_main_thread(const struct capture *c)
{
	return c->kind == PROBE_PERF;
}

int capture__add_process(struct capture *c, pid_t pid, uint32_t *ret_process, struct error *err)
{
	_cleanup_close_ int pidfd = -1;
	struct abi_process process = {};
	uint32_t row;
	int rc;

	pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (pidfd < 0)
		return error__set(err, -errno, "pid %d: %s", pid,
				  errno == ESRCH ? "it has ended" : strerror(errno));
	process.interval = c->skel->rodata->config.interval;
	rc = bpf_map__lookup_and_delete_elem(c->skel->maps.free_processes, NULL, 0, &process.id,
					     sizeof(process.id), 0);
	if (rc == -ENOENT)
		rc = -E2BIG;
	if (!rc) {
		row = process.id & c->skel->rodata->process_rows;
		rc = bpf_map__update_elem(c->skel->maps.row_owners, &row, sizeof(row), &process.id,
					  sizeof(process.id), BPF_ANY);
		if (!rc)
			rc = bpf_map__update_elem(c->skel->maps.processes, &pidfd, sizeof(pidfd), &process,
						  sizeof(process), BPF_NOEXIST);
		if (rc)
			capture__drop_process(c, process.id);
	}
	if (rc)
		return error__set(err, rc, "cannot take pid %d in: %s", pid,
				  rc == -E2BIG ? "too many processes" : strerror(-rc));
	*ret_process = process.id;
	return 0;
}

/* --- news of processes --- */

int capture__events(struct capture *c, void (*fn)(void *ctx, const struct abi_event *event),
		    void *ctx, uint64_t *ret_lost)
{
	int rc;

	c->on_event = fn;
	c->event_ctx = ctx;
	rc = ring_buffer__consume(c->events);
	c->on_event = NULL;
	*ret_lost = c->skel->bss->events_lost;
	return rc < 0 ? rc : 0;
}

int capture__read_ends(struct capture *c, void (*fn)(void *ctx, const struct abi_end *end), void *ctx,
		       uint64_t *ret_lost)
{
	int rc;

	c->on_end = fn;
	c->end_ctx = ctx;
	rc = ring_buffer__consume(c->ends);
	c->on_end = NULL;
	*ret_lost = c->skel->bss->ends_lost;
	return rc < 0 ? rc : 0;
}

int capture__events_fd(const struct capture *c)
{
	return ring_buffer__epoll_fd(c->events);
}

int capture__judge_file(struct capture *c, const struct abi_file *file, bool wanted)
{
	uint32_t value = wanted;

	return bpf_map__update_elem(c->skel->maps.judged_files, file, sizeof(*file), &value,
				    sizeof(value), BPF_ANY);
}

/* --- attaching --- */

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

/* What is 0 stays as it is, and watch when it is negative. */
static int set_process(struct capture *c, pid_t pid, uint64_t interval, uint64_t window_ns, int watch)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct abi_process process;
	int rc;

	if (pidfd < 0)
		return -errno;
	rc = bpf_map__lookup_elem(c->skel->maps.processes, &pidfd, sizeof(pidfd), &process,
				  sizeof(process), 0);
	if (rc)
		return rc;
	process.interval = interval ? interval : process.interval;
	process.window_ns = window_ns ? window_ns : process.window_ns;
	process.watch = watch < 0 ? process.watch : (uint32_t)watch;
	rc = bpf_map__update_elem(c->skel->maps.processes, &pidfd, sizeof(pidfd), &process,
				  sizeof(process), BPF_EXIST);
	__atomic_add_fetch(&c->skel->bss->changes, 1, __ATOMIC_SEQ_CST);
	return rc;
}

int capture__set_interval(struct capture *c, pid_t pid, uint64_t interval)
{
	return set_process(c, pid, interval, 0, -1);
}

int capture__set_window(struct capture *c, pid_t pid, uint64_t start_ns)
{
	return set_process(c, pid, 0, start_ns, -1);
}

int capture__watch_ends(struct capture *c, pid_t pid, bool watch)
{
	return set_process(c, pid, 0, 0, watch);
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

void capture__on_region_call(struct capture *c,
			     void (*fn)(void *ctx, const struct abi_region_call *call), void *ctx)
{
	c->on_region_call = fn;
	c->region_ctx = ctx;
}

const struct capture_probe *capture__probes(const struct capture *c, size_t *ret_n)
{
	*ret_n = c->n_probes;
	return c->probes;
}

void capture__activate(struct capture *c)
{
	__atomic_store_n(&c->skel->bss->active, 1, __ATOMIC_SEQ_CST);
}

void capture__deactivate(struct capture *c)
{
	__atomic_store_n(&c->skel->bss->active, 0, __ATOMIC_SEQ_CST);
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

void capture__free(struct capture *c)
{
	if (!c)
		return;
	capture__detach(c);
	ring_buffer__free(c->ends);
	ring_buffer__free(c->events);
	memtrace_bpf__destroy(c->skel);
	unwind_store__free(&c->unwind);
	free(c->links);
	free(c->closing);
	free(c->closings);
	free(c->probes);
	capture_table__free(&c->retired);
	free(c->counters);
	free(c);
}

/* --- reading --- */

static int read_counters(struct capture *c, const struct bpf_map *map, uint32_t key,
			 struct abi_process_cpu *ret)
{
	struct abi_process_cpu *cpus = c->counters;
	int rc;

	rc = bpf_map__lookup_elem(map, &key, sizeof(key), cpus, sizeof(*cpus) * (size_t)c->cpus, 0);
	if (rc)
		return rc;
	memset(ret, 0, sizeof(*ret));
	/* All but the countdown at the head are counts. */
	for (int cpu = 0; cpu < c->cpus; cpu++) {
		const struct abi_process_cpu *one = &cpus[cpu];

		ret->samples += one->samples;
		ret->stack_ns += one->stack_ns;
		ret->armed += one->armed;
		ret->returned += one->returned;
		ret->inner += one->inner;
		ret->no_births += one->no_births;
		ret->no_deaths += one->no_deaths;
		ret->alloc_bytes += one->alloc_bytes;
		ret->freed_bytes += one->freed_bytes;
		ret->region_calls += one->region_calls;
		ret->region_stack_ns += one->region_stack_ns;
		for (int i = 0; i < LOST_MAX; i++)
			ret->lost[i] += one->lost[i];
		for (int i = 0; i < ABI_COSTS; i++)
			ret->calls[i] += one->calls[i];
	}
	return 0;
}

/* Has the process its row of counters still? */
static bool owns_row(struct capture *c, uint32_t process)
{
	uint32_t row = process & c->skel->rodata->process_rows, owner;

	return process &&
	       !bpf_map__lookup_elem(c->skel->maps.row_owners, &row, sizeof(row), &owner, sizeof(owner), 0) &&
	       owner == process;
}

int capture__counters(struct capture *c, uint32_t process, struct abi_process_cpu *ret)
{
	if (!owns_row(c, process))
		return -ENOENT;
	return read_counters(c, c->skel->maps.process_cpus, process & c->skel->rodata->process_rows, ret);
}

int capture__machine_counters(struct capture *c, struct abi_process_cpu *ret)
{
	return read_counters(c, c->skel->maps.machine_cpus, 0, ret);
}

uint64_t capture__missed_runs(struct capture *c)
{
	struct bpf_program *prog;
	uint64_t missed = 0;

	bpf_object__for_each_program(prog, c->skel->obj)
	{
		struct bpf_prog_info info = {};
		uint32_t len = sizeof(info);

		if (bpf_program__fd(prog) >= 0 &&
		    !bpf_obj_get_info_by_fd(bpf_program__fd(prog), &info, &len))
			missed += info.recursion_misses;
	}
	return missed;
}

uint64_t capture__kernel_bytes(const struct capture *c, bool *ret_at_most)
{
	const struct bpf_map *live = c->skel->maps.live;
	uint64_t bytes, sum = c->unwind.n_chunks * sizeof(struct abi_unwind_chunk);
	struct bpf_program *prog;
	struct bpf_map *map;

	*ret_at_most = false;
	bpf_object__for_each_map(map, c->skel->obj)
	{
		if (own__fd_bytes(bpf_map__fd(map), &bytes))
			continue;
		sum += bytes;
		/* one that is full to the last entry, or a kernel that takes it for full */
		if (map == live && bytes >= (uint64_t)bpf_map__max_entries(live) *
						    (bpf_map__key_size(live) + bpf_map__value_size(live)))
			*ret_at_most = true;
	}
	bpf_object__for_each_program(prog, c->skel->obj)
		if (bpf_program__fd(prog) >= 0 && !own__fd_bytes(bpf_program__fd(prog), &bytes))
			sum += bytes;
	return sum;
}

void capture_table__free(struct capture_table *table)
{
	free(table->keys);
	free(table->values);
	memset(table, 0, sizeof(*table));
}

int capture__read_table(const struct bpf_map *map, struct capture_table *ret)
{
	size_t key_size = bpf_map__key_size(map), value_size = bpf_map__value_size(map);
	uint32_t chunk = 4096;
	struct capture_table t = {};
	_cleanup_free_ void *position = NULL;
	size_t capacity = 0;
	bool first = true;
	int rc = 0;

	/* The cursor of a hash map is a bucket number, but room for a key is asked for. */
	position = calloc(1, key_size < 8 ? 8 : key_size);
	if (!position)
		return -ENOMEM;
	while (!rc) {
		uint32_t n = chunk;
		void *grown;

		if (t.n + chunk > capacity) {
			capacity = (t.n + chunk) * 2;
			grown = realloc(t.keys, capacity * key_size);
			if (!grown)
				goto no_memory;
			t.keys = grown;
			grown = realloc(t.values, capacity * value_size);
			if (!grown)
				goto no_memory;
			t.values = grown;
		}
		rc = bpf_map_lookup_batch(bpf_map__fd(map), first ? NULL : position, position,
					  (char *)t.keys + t.n * key_size,
					  (char *)t.values + t.n * value_size, &n, NULL);
		if (rc && rc != -ENOENT && rc != -ENOSPC)
			break;
		if (rc == -ENOSPC && !n) { /* one bucket alone holds more */
			chunk *= 2;
			rc = 0;
			continue;
		}
		t.n += n;
		first = false;
		if (rc == -ENOSPC)
			rc = 0;
	}
	if (rc == -ENOENT) { /* the end */
		*ret = t;
		return 0;
	}
	capture_table__free(&t);
	return rc;
no_memory:
	capture_table__free(&t);
	return -ENOMEM;
}

/* Appends to live the blocks that were being reallocated when counting ended: they are out of the
 * table until it is known how the call went, and exist all the same. */
static int add_inflight(const struct capture_table *calls, struct capture_table *live)
{
	const struct abi_inflight *call = calls->values;
	struct abi_live_key *keys;
	struct abi_live *blocks;

	if (!calls->n)
		return 0;
	keys = realloc(live->keys, (live->n + calls->n) * sizeof(*keys));
	if (!keys)
		return -ENOMEM;
	live->keys = keys;
	blocks = realloc(live->values, (live->n + calls->n) * sizeof(*blocks));
	if (!blocks)
		return -ENOMEM;
	live->values = blocks;
	for (size_t i = 0; i < calls->n; i++) {
		if (!call[i].old_addr)
			continue;
		keys[live->n] =
			(struct abi_live_key){.addr = call[i].old_addr, .process = call[i].process};
		blocks[live->n++] = call[i].old;
	}
	return 0;
}

int capture__read_live(struct capture *c, struct capture_table *ret)
{
	return capture__read_table(c->skel->maps.live, ret);
}

void capture__delete_live(struct capture *c, const struct abi_live_key *key)
{
	if (!bpf_map_delete_elem(bpf_map__fd(c->skel->maps.live), key))
		__atomic_sub_fetch(&c->skel->bss->live_filter[abi_filter_slot(key)], 1, __ATOMIC_SEQ_CST);
}

void capture__forget_block(struct capture *c, uint32_t process, uint64_t addr)
{
	struct abi_live_key key = {.addr = addr, .process = process};

	capture__delete_live(c, &key);
}

int capture__read_sites(struct capture *c, struct capture_table *ret)
{
	return capture__read_table(c->skel->maps.sites, ret);
}

int capture__drain(struct capture *c, struct capture_drain *ret, struct error *err)
{
	int rc;

	memset(ret, 0, sizeof(*ret));
	rc = capture__read_table(c->skel->maps.live, &ret->live);
	if (!rc)
		rc = capture__read_table(c->skel->maps.sites, &ret->sites);
	if (!rc)
		rc = capture__read_table(c->skel->maps.inflight, &ret->inflight);
	if (!rc)
		rc = add_inflight(&ret->inflight, &ret->live);
	if (!rc)
		capture__put_back(c, ret);
	if (!rc)
		rc = capture__read_table(c->skel->maps.stacks, &ret->stacks);
	if (!rc)
		rc = capture__read_table(c->skel->maps.threads, &ret->threads);
	if (!rc)
		rc = capture__read_table(c->skel->maps.transfers, &ret->transfers);
	if (rc) {
		capture_drain__free(ret);
		return error__set(err, rc, "cannot read the tables back from the kernel: %s",
				  strerror(-rc));
	}
	return 0;
}

void capture__clear_tables(struct capture *c)
{
	const struct bpf_map *maps[] = {c->skel->maps.live, c->skel->maps.sites,
					c->skel->maps.stacks, c->skel->maps.threads,
					c->skel->maps.inflight, c->skel->maps.transfers};

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		struct capture_table table = {};

		if (capture__read_table(maps[i], &table))
			continue;
		for (size_t j = 0; j < table.n; j++) {
			const void *key = (char *)table.keys + j * bpf_map__key_size(maps[i]);

			if (maps[i] == c->skel->maps.live)
				capture__delete_live(c, key);
			else
				bpf_map_delete_elem(bpf_map__fd(maps[i]), key);
		}
		capture_table__free(&table);
	}
}

uint64_t capture__processes_refused(const struct capture *c)
{
	return c->skel->bss->processes_refused;
}

void capture__drop_process(struct capture *c, uint32_t process)
{
	uint32_t rows = c->skel->rodata->process_rows, row = process & rows, next = process + rows + 1, nobody = 0;

	capture__forget_mappings(c, process);
	if (!owns_row(c, process))
		return;
	/* In this order: a row that is nobody's is not counted in, and is empty when somebody gets it. */
	bpf_map__update_elem(c->skel->maps.row_owners, &row, sizeof(row), &nobody, sizeof(nobody), BPF_ANY);
	memset(c->counters, 0, sizeof(*c->counters) * (size_t)c->cpus);
	bpf_map__update_elem(c->skel->maps.process_cpus, &row, sizeof(row), c->counters,
			     sizeof(*c->counters) * (size_t)c->cpus, BPF_ANY);
	bpf_map__update_elem(c->skel->maps.free_processes, NULL, 0, &next, sizeof(next), BPF_ANY);
}

void capture_drain__free(struct capture_drain *drain)
{
	capture_table__free(&drain->live);
	capture_table__free(&drain->sites);
	capture_table__free(&drain->inflight);
	capture_table__free(&drain->stacks);
	capture_table__free(&drain->threads);
	capture_table__free(&drain->transfers);
}
