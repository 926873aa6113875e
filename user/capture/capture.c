// SPDX-License-Identifier: BSD-2-Clause
#include "capture/capture.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "capture/internal.h"
#include "capture/shield.h"
#include "proc/own.h"
#include "proc/process.h"

#define DEFAULT_PROCESSES 64
#define DEFAULT_LIVE	  (1U << 20)
#define DEFAULT_STACKS	  (1U << 16)
#define DEFAULT_SITES	  (1U << 17)
#define REGION_RING	  (1U << 21) /* bytes */
#define END_RING	  (1U << 22)

int capture__print_nothing(enum libbpf_print_level level, const char *format, va_list args)
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

/* May hash maps allocate memory as entries come? Before Linux 6.1 they used the kernel's ordinary
 * allocator, which is not safe in every place that a probe can hit. The kernel then warns of each
 * program that can use such a map, even if only user space adds entries. With real-time preemption,
 * the kernel refuses the program. Linux 6.1 has an allocator of BPF's own. Distributions have put
 * it into older kernels, too. Only for these the kernel's types are searched, which takes a
 * fifteenth of the time of memtrace's start. */
static bool hash_maps_may_grow(void)
{
	unsigned int major = 0, minor = 0;
	struct utsname kernel;
	struct btf *btf;
	bool may;

	if (!uname(&kernel) && sscanf(kernel.release, "%u.%u", &major, &minor) == 2 &&
	    (major > 6 || (major == 6 && minor >= 1)))
		return true;
	btf = btf__load_vmlinux_btf();
	may = btf && btf__find_by_name_kind(btf, "bpf_mem_alloc", BTF_KIND_STRUCT) > 0;
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

/* The rows of counters have the numbers 1 to n. Returns the mask of the bits that these numbers
 * use. */
static uint32_t rows_mask(uint32_t n)
{
	uint32_t mask = 1;

	while (mask < n)
		mask = mask << 1 | 1;
	return mask;
}

void capture__preallocate(struct memtrace_bpf *skel)
{
	struct bpf_map *map;

	bpf_object__for_each_map(map, skel->obj)
	{
		if (bpf_map__type(map) == BPF_MAP_TYPE_HASH)
			bpf_map__set_map_flags(map, bpf_map__map_flags(map) & ~BPF_F_NO_PREALLOC);
	}
}

void capture__size_maps(struct memtrace_bpf *skel, const struct capture_options *o)
{
	/* one more row, for the calibration's child */
	uint32_t max_processes = (o->max_processes ? o->max_processes : DEFAULT_PROCESSES) + 1;

	bpf_map__set_max_entries(skel->maps.live, o->max_live ? o->max_live : DEFAULT_LIVE);
	bpf_map__set_max_entries(skel->maps.stacks, o->max_stacks ? o->max_stacks : DEFAULT_STACKS);
	bpf_map__set_max_entries(skel->maps.sites, o->max_sites ? o->max_sites : DEFAULT_SITES);
	bpf_map__set_max_entries(skel->maps.mappings, max_processes);
	bpf_map__set_max_entries(skel->maps.pythons, max_processes);
	/* row 0 belongs to no process */
	bpf_map__set_max_entries(skel->maps.process_cpus, max_processes + 1);
	bpf_map__set_max_entries(skel->maps.row_owners, max_processes + 1);
	bpf_map__set_max_entries(skel->maps.peaks, max_processes + 1);
	bpf_map__set_max_entries(skel->maps.free_processes, max_processes);
	bpf_map__set_max_entries(skel->maps.headless, max_processes);
	if (o->interval == 1)
		bpf_map__set_max_entries(skel->maps.scratches, ABI_SCRATCH_EXACT);
	if (o->regions)
		bpf_map__set_max_entries(skel->maps.regions, REGION_RING);
	if (o->windows)
		bpf_map__set_max_entries(skel->maps.ends, END_RING);
	if (!hash_maps_may_grow())
		capture__preallocate(skel);
}

static int load_kind(struct capture *c, enum probe_kind kind, bool use_tables,
		     const struct capture_options *o)
{
	struct memtrace_bpf *skel = memtrace_bpf__open();
	uint32_t max_processes;
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
	skel->rodata->counts_others = kind != PROBE_PERF;
	skel->rodata->count_machine = o->machine;

	capture__size_maps(skel, o);
	max_processes = bpf_map__max_entries(skel->maps.free_processes);
	skel->rodata->process_rows = rows_mask(max_processes);
	memcpy((void *)&skel->rodata->selection, &o->selection, sizeof(o->selection));
	((struct abi_selection *)&skel->rodata->selection)->self = (uint32_t)getpid();

	skel->rodata->use_tables = use_tables;

	bpf_program__set_autoload(skel->progs.fault_user, o->faults);
	bpf_program__set_autoload(skel->progs.fault_kernel, o->faults);
	bpf_program__set_autoload(skel->progs.region_session, o->regions && kind == PROBE_SESSION);
	bpf_program__set_autoload(skel->progs.region_entry, o->regions && kind != PROBE_SESSION);
	bpf_program__set_autoload(skel->progs.region_return, o->regions && kind != PROBE_SESSION);
	bpf_program__set_autoload(skel->progs.region_sys_enter, o->regions);
	bpf_program__set_autoload(skel->progs.region_sys_exit, o->regions);
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
		bpf_program__set_expected_attach_type(skel->progs.heap_taken, multi);
		bpf_program__set_expected_attach_type(skel->progs.heap_mark_alloc, multi);
		bpf_program__set_expected_attach_type(skel->progs.heap_mark_free, multi);
	}
	rc = memtrace_bpf__load(skel);
	/* libbpf tests whether the kernel supports global data. If this test runs out of memory,
	 * libbpf assumes that the kernel does not support global data, and continues without the
	 * maps for it. */
	if (!rc && (!skel->rodata || !skel->bss))
		rc = -ENOMEM;
	for (uint32_t id = 1; id <= max_processes && !rc; id++)
		rc = bpf_map__update_elem(skel->maps.free_processes, NULL, 0, &id, sizeof(id),
					  BPF_ANY);
	if (rc)
		goto fail;
	skel->links.task_exec = bpf_program__attach(skel->progs.task_exec);
	skel->links.task_fork = bpf_program__attach(skel->progs.task_fork);
	skel->links.task_exit = bpf_program__attach(skel->progs.task_exit);
	if (!skel->links.task_exec || !skel->links.task_fork || !skel->links.task_exit) {
		rc = -errno;
		goto fail;
	}
	/* Without this program, reports of deaths still tell that memory was short. They only lack
	 * the victim's size at the kill (capture__victims_unseen()). */
	skel->links.task_victim = bpf_program__attach(skel->progs.task_victim);
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
	c->loses_probes = kind == PROBE_MULTI && features__multi_loses_probes();
	return 0;
fail:
	ring_buffer__free(c->ends);
	c->ends = NULL;
	memtrace_bpf__destroy(skel);
	return rc;
}

/* Does the error say that memory or descriptors ran out? Then neither the program nor the kind of
 * probe is at fault. */
static bool is_out_of_room(int rc)
{
	return rc == -ENOMEM || rc == -EMFILE || rc == -ENFILE;
}

/* Loads the programs with unwinding by tables, if the kernel accepts it. Unwinding by tables needs
 * bpf_loop (Linux 5.17), and the program that does it is the only large one. If the verifier
 * refuses that program, loads programs that walk by frame pointers instead. Each stack tells
 * whether it comes from frame pointers only. */
static int load_best(struct capture *c, enum probe_kind kind, const struct capture_options *o)
{
	int rc = features__tables() ? load_kind(c, kind, true, o) : -EOPNOTSUPP;

	if (!rc || is_out_of_room(rc))
		return rc;
	rc = load_kind(c, kind, false, o);
	c->unwinding_refused = !rc && features__tables();
	return rc;
}

/* Is the word in the first 100 bytes of the file? */
static bool is_in(const char *path, const char *word)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[101] = "";

	return fd >= 0 && io__read(fd, text, sizeof(text) - 1) > 0 && strstr(text, word);
}

/* Says what on this machine forbids BPF or probes, or a part of them, even to a privileged process;
 * "": nothing is known to do so. */
static const char *who_forbids(void)
{
	uint64_t seccomp = 0;

	if (is_in("/sys/kernel/security/lockdown", "[confidentiality]"))
		return "; this kernel is locked down (confidentiality), so no BPF program may read "
		       "its memory";
	if (!is_in("/proc/self/uid_map", " 4294967295"))
		return "; memtrace runs in a user namespace: run it as root of the host";
	if (!own__number("/proc/self/status", "Seccomp", &seccomp) && seccomp)
		return "; a seccomp filter is in force, as in a container, and may forbid bpf(2)";
	return "";
}

int capture__new(const struct capture_options *options, struct capture **ret, struct error *err)
{
	struct capture *c;
	int rc = -EOPNOTSUPP;

	libbpf_set_print(options->verbose ? print_all : capture__print_nothing);
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
			rc = keeper__new(kind == PROBE_PERF, &c->keeper);
			if (rc) {
				capture__free(c);
				return error__set(
					err, rc,
					"cannot start the process that takes the probes out "
					"when memtrace hangs: %s",
					strerror(-rc));
			}
			*ret = c;
			return 0;
		}
		if (rc == -E2BIG || is_out_of_room(rc)) {
			free(c->counters);
			free(c);
			if (rc != -E2BIG && rc != -ENOMEM)
				return error__set(err, rc, "cannot open the kernel's tables: %s",
						  strerror(-rc));
			return error__set(err, rc,
					  "the kernel has no room for tables of this size: take a "
					  "smaller --max-live or --max-stacks");
		}
	}
	free(c->counters);
	free(c);
	if (options->faults || options->regions)
		return error__set(
			err, rc,
			"this kernel cannot trace %s: %s (needed: tracepoints of %s by BTF, "
			"Linux 5.17 with CONFIG_BPF_SYSCALL and CONFIG_TRACEPOINTS)",
			options->faults ? "faults" : "regions", strerror(-rc),
			options->faults ? "page faults" : "system calls");
	if (options->kind >= 0)
		return error__set(err, rc, "probes of the kind %s do not work on this kernel: %s",
				  probe_kind__name((enum probe_kind)options->kind),
				  options->kind == PROBE_PERF && rc == -EACCES ? PERF_REFUSED
									       : strerror(-rc));
	return error__set(err, rc,
			  "no kind of probe works here: %s%s (`memtrace check` says more; memtrace "
			  "needs Linux 5.15 or newer)",
			  rc == -EACCES ? PERF_REFUSED : strerror(-rc), who_forbids());
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
	uint32_t row, key = (uint32_t)pid;
	int rc;

	capture__beat(c);
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
			rc = bpf_map__update_elem(c->skel->maps.processes, &pidfd, sizeof(pidfd),
						  &process, sizeof(process), BPF_NOEXIST);
		if (rc)
			capture__drop_process(c, process.id);
	}
	/* the main thread has ended already; if it ends later, the kernel side adds this entry */
	if (!rc && process__living_thread(pid) != pid)
		bpf_map__update_elem(c->skel->maps.headless, &key, sizeof(key), &process,
				     sizeof(process), BPF_ANY);
	if (rc)
		return error__set(err, rc, "cannot trace pid %d: %s", pid,
				  rc == -E2BIG ? "too many processes are traced already"
					       : strerror(-rc));
	*ret_process = process.id;
	return 0;
}

int capture__release_process(struct capture *c, pid_t pid)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	uint32_t key = (uint32_t)pid;
	int rc;

	if (pidfd < 0)
		return -errno;
	rc = bpf_map__delete_elem(c->skel->maps.processes, &pidfd, sizeof(pidfd), 0);
	/* otherwise an exec by another thread than the main one would begin to trace the process
	 * again */
	bpf_map__delete_elem(c->skel->maps.headless, &key, sizeof(key), 0);
	/* every CPU looks up anew which process its thread belongs to */
	__atomic_add_fetch(&c->skel->bss->changes, 1, __ATOMIC_SEQ_CST);
	return rc;
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

int capture__read_ends(struct capture *c, void (*fn)(void *ctx, const struct abi_end *end),
		       void *ctx, uint64_t *ret_lost)
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

/* Removes all verdicts. A file whose verdict is still needed is judged again at its next exec. */
static void forget_verdicts(struct capture *c)
{
	const struct bpf_map *map = c->skel->maps.judged_files;
	struct abi_file file, next;
	int rc = bpf_map__get_next_key(map, NULL, &next, sizeof(next));

	for (uint32_t i = bpf_map__max_entries(map); i > 0 && !rc; i--) {
		file = next;
		rc = bpf_map__get_next_key(map, &file, &next, sizeof(next));
		bpf_map__delete_elem(map, &file, sizeof(file), 0);
	}
}

int capture__judge_program(struct capture *c, const struct abi_program *program, bool wanted)
{
	struct abi_verdict verdict = {.changed_s = program->changed_s,
				      .changed_ns = program->changed_ns,
				      .generation = program->generation,
				      .wanted = wanted};

	int rc = bpf_map__update_elem(c->skel->maps.judged_files, &program->file,
				      sizeof(program->file), &verdict, sizeof(verdict), BPF_ANY);

	if (rc != -E2BIG)
		return rc;
	forget_verdicts(c);
	return bpf_map__update_elem(c->skel->maps.judged_files, &program->file,
				    sizeof(program->file), &verdict, sizeof(verdict), BPF_ANY);
}

/* --- what is recorded, and of whom --- */

/* Changes a process's settings. If `interval` or `window_ns` is 0, or `watch` is negative, that
 * setting stays as it is. next_part: a new part of the process's window begins. */
static int set_process(struct capture *c, pid_t pid, uint64_t interval, uint64_t window_ns,
		       int watch, bool next_part)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct abi_process process;
	uint32_t key = (uint32_t)pid;
	int rc;

	if (pidfd < 0)
		return -errno;
	rc = bpf_map__lookup_elem(c->skel->maps.processes, &pidfd, sizeof(pidfd), &process,
				  sizeof(process), 0);
	if (rc)
		return rc;
	process.interval = interval ? interval : process.interval;
	process.part = window_ns ? 0 : process.part + next_part;
	process.window_ns = window_ns ? window_ns : process.window_ns;
	process.watch = watch < 0 ? process.watch : (uint32_t)watch;
	rc = bpf_map__update_elem(c->skel->maps.processes, &pidfd, sizeof(pidfd), &process,
				  sizeof(process), BPF_EXIST);
	bpf_map__update_elem(c->skel->maps.headless, &key, sizeof(key), &process, sizeof(process),
			     BPF_EXIST); /* fails if the process's main thread is alive */
	__atomic_add_fetch(&c->skel->bss->changes, 1, __ATOMIC_SEQ_CST);
	return rc;
}

uint32_t capture__max_live(const struct capture *c)
{
	return bpf_map__max_entries(c->skel->maps.live);
}

int capture__set_interval(struct capture *c, pid_t pid, uint64_t interval)
{
	return set_process(c, pid, interval, 0, -1, false);
}

int capture__set_window(struct capture *c, pid_t pid, uint64_t start_ns)
{
	return set_process(c, pid, 0, start_ns, -1, false);
}

int capture__next_part(struct capture *c, pid_t pid)
{
	return set_process(c, pid, 0, 0, -1, true);
}

int capture__watch_ends(struct capture *c, pid_t pid, bool watch)
{
	return set_process(c, pid, 0, 0, watch, false);
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

void capture__free(struct capture *c)
{
	if (!c)
		return;
	capture__detach(c);
	keeper__free(c->keeper);
	ring_buffer__free(c->ends);
	ring_buffer__free(c->events);
	memtrace_bpf__destroy(c->skel);
	capture__free_files(c);
	unwind_store__free(&c->unwind);
	free(c->links);
	free(c->closing);
	free(c->closings);
	free(c->probes);
	free(c->refusals);
	capture_table__free(&c->retired);
	free(c->counters);
	free(c);
}
