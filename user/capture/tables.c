// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "capture/internal.h"
#include "proc/own.h"

static int read_counters(struct capture *c, const struct bpf_map *map, uint32_t key,
			 struct abi_process_cpu *ret)
{
	struct abi_process_cpu *cpus = c->counters;
	int rc;

	rc = bpf_map__lookup_elem(map, &key, sizeof(key), cpus, sizeof(*cpus) * (size_t)c->cpus, 0);
	if (rc)
		return rc;
	memset(ret, 0, sizeof(*ret));
	/* All fields are counts, except `marked_interval` and the fields of the countdown to the
	 * next sample. */
	for (int cpu = 0; cpu < c->cpus; cpu++) {
		const struct abi_process_cpu *one = &cpus[cpu];

		ret->samples += one->samples;
		ret->stack_ns += one->stack_ns;
		ret->armed += one->armed;
		ret->returned += one->returned;
		ret->inner += one->inner;
		ret->inner_of_pools += one->inner_of_pools;
		ret->no_births += one->no_births;
		ret->no_deaths += one->no_deaths;
		ret->pool_ends += one->pool_ends;
		ret->pool_takes += one->pool_takes;
		ret->alloc_bytes += one->alloc_bytes;
		ret->freed_bytes += one->freed_bytes;
		ret->region_calls += one->region_calls;
		ret->region_stack_ns += one->region_stack_ns;
		ret->other_looks += one->other_looks;
		ret->others_trapped += one->others_trapped;
		ret->others_visited += one->others_visited;
		ret->others_run += one->others_run;
		if (one->marked_interval > ret->marked_interval)
			ret->marked_interval = one->marked_interval;
		for (int i = 0; i < LOST_MAX; i++)
			ret->lost[i] += one->lost[i];
		for (int i = 0; i < ABI_COSTS; i++)
			ret->calls[i] += one->calls[i];
	}
	return 0;
}

/* Does the process still have its row of counters? */
static bool owns_row(struct capture *c, uint32_t process)
{
	uint32_t row = process & c->skel->rodata->process_rows, owner;

	return process &&
	       !bpf_map__lookup_elem(c->skel->maps.row_owners, &row, sizeof(row), &owner,
				     sizeof(owner), 0) &&
	       owner == process;
}

int capture__processes(struct capture *c, uint32_t **ret, size_t *ret_n)
{
	_cleanup_(capture_table__free) struct capture_table rows = {};
	int rc = capture__read_table(c, c->skel->maps.row_owners, &rows);
	uint32_t *owners = rows.values;
	size_t n = 0;

	if (rc)
		return rc;
	for (size_t i = 0; i < rows.n; i++)
		if (owners[i])
			owners[n++] = owners[i];
	*ret = owners;
	*ret_n = n;
	rows.values = NULL;
	return 0;
}

int capture__process_of(struct capture *c, pid_t pid, uint32_t *ret_process, uint64_t *ret_exec_ns)
{
	_cleanup_close_ int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	struct abi_process process;
	uint32_t key = (uint32_t)pid;
	int rc;

	if (pidfd < 0)
		return -errno;
	/* An exec by another thread than the main one moves the entry from `headless` to
	 * `processes`. In this order of look-ups, the entry is found in one of the two maps. */
	if (bpf_map__lookup_elem(c->skel->maps.headless, &key, sizeof(key), &process,
				 sizeof(process), 0)) {
		rc = bpf_map__lookup_elem(c->skel->maps.processes, &pidfd, sizeof(pidfd), &process,
					  sizeof(process), 0);
		if (rc)
			return rc;
	}
	if (process.borrowed || !owns_row(c, process.id))
		return -ENOENT;
	*ret_process = process.id;
	*ret_exec_ns = process.exec_ns;
	return 0;
}

int capture__counters(struct capture *c, uint32_t process, struct abi_process_cpu *ret)
{
	if (!owns_row(c, process))
		return -ENOENT;
	return read_counters(c, c->skel->maps.process_cpus, process & c->skel->rodata->process_rows,
			     ret);
}

int capture__peak(struct capture *c, uint32_t process, struct abi_peak *ret)
{
	uint32_t row = process & c->skel->rodata->process_rows;

	if (!owns_row(c, process))
		return -ENOENT;
	return bpf_map__lookup_elem(c->skel->maps.peaks, &row, sizeof(row), ret, sizeof(*ret), 0);
}

int capture__machine_counters(struct capture *c, struct abi_process_cpu *ret)
{
	return read_counters(c, c->skel->maps.machine_cpus, 0, ret);
}

bool capture__victims_unseen(const struct capture *c)
{
	return !c->skel->links.task_victim;
}

uint64_t capture__missed_runs(struct capture *c)
{
	struct bpf_program *prog;
	uint64_t missed = 0;

	bpf_object__for_each_program(prog, c->skel->obj)
	{
		struct bpf_prog_info info = {};
		uint32_t len = sizeof(info);

		/* Recursion misses of these two programs are not counted. Such a miss is a page
		 * fault in the walk of a stack, at a page that is not there. The programs would
		 * ignore this fault, so nothing is lost. */
		if (prog == c->skel->progs.fault_user || prog == c->skel->progs.fault_kernel)
			continue;
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
		/* either the table is full, or this kernel counts a table's full size in any
		 * case */
		if (map == live &&
		    bytes >= (uint64_t)bpf_map__max_entries(live) *
				     (bpf_map__key_size(live) + bpf_map__value_size(live)))
			*ret_at_most = true;
	}
	bpf_object__for_each_program(
		prog, c->skel->obj) if (bpf_program__fd(prog) >= 0 &&
					!own__fd_bytes(bpf_program__fd(prog), &bytes)) sum += bytes;
	return sum;
}

void capture_table__free(struct capture_table *table)
{
	free(table->keys);
	free(table->values);
	memset(table, 0, sizeof(*table));
}

int capture__read_table(struct capture *c, const struct bpf_map *map, struct capture_table *ret)
{
	size_t key_size = bpf_map__key_size(map), value_size = bpf_map__value_size(map);
	uint32_t chunk = 4096;
	struct capture_table t = {};
	_cleanup_free_ void *position = NULL;
	size_t capacity = 0;
	bool first = true;
	int rc = 0;

	/* The position in a hash map is a bucket number, but the kernel wants room for a key. */
	position = calloc(1, key_size < 8 ? 8 : key_size);
	if (!position)
		return -ENOMEM;
	while (!rc) {
		uint32_t n = chunk;
		void *grown;

		capture__beat(c);

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
		if (rc == -ENOSPC && !n) { /* one bucket alone holds more than `chunk` entries */
			chunk *= 2;
			rc = 0;
			continue;
		}
		t.n += n;
		first = false;
		if (rc == -ENOSPC)
			rc = 0;
	}
	if (rc == -ENOENT) { /* there are no more batches */
		*ret = t;
		return 0;
	}
	capture_table__free(&t);
	return rc;
no_memory:
	capture_table__free(&t);
	return -ENOMEM;
}

/* Appends to `live` the blocks that are being reallocated. Such a block still exists, but it is not
 * in the kernel's table until the result of the reallocation is known. */
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
	return capture__read_table(c, c->skel->maps.live, ret);
}

/* Removes a block from its pool's list. A program of the kernel side does this, because user space
 * cannot take the lock of the list. */
static void leave_pool(struct capture *c, const struct abi_live_key *key)
{
	uint64_t args[] = {key->process, key->addr};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = args, .ctx_size_in = sizeof(args));

	bpf_prog_test_run_opts(bpf_program__fd(c->skel->progs.heap_leave_pool), &opts);
}

void capture__delete_live(struct capture *c, const struct abi_live_key *key)
{
	if (!bpf_map_delete_elem(bpf_map__fd(c->skel->maps.live), key))
		__atomic_sub_fetch(&c->skel->bss->live_filter[abi_filter_slot(key)], 1,
				   __ATOMIC_SEQ_CST);
	if (c->skel->bss->n_pools)
		leave_pool(c, key);
}

void capture__forget_block(struct capture *c, uint32_t process, uint64_t addr, uint64_t until_ns)
{
	struct abi_live_key key = {.addr = addr, .process = process};
	struct abi_live now;

	if (!bpf_map_lookup_elem(bpf_map__fd(c->skel->maps.live), &key, &now) &&
	    (now.birth == BIRTH_ENDED || now.birth_ns <= until_ns))
		capture__delete_live(c, &key);
}

int capture__read_sites(struct capture *c, struct capture_table *ret)
{
	return capture__read_table(c, c->skel->maps.sites, ret);
}

int capture__read_stacks(struct capture *c, struct capture_table *ret)
{
	return capture__read_table(c, c->skel->maps.stacks, ret);
}

int capture__drain(struct capture *c, struct capture_drain *ret, struct error *err)
{
	int rc;

	memset(ret, 0, sizeof(*ret));
	rc = capture__read_table(c, c->skel->maps.live, &ret->live);
	if (!rc)
		rc = capture__read_table(c, c->skel->maps.sites, &ret->sites);
	if (!rc)
		rc = capture__read_table(c, c->skel->maps.inflight, &ret->inflight);
	if (!rc)
		rc = add_inflight(&ret->inflight, &ret->live);
	if (!rc)
		capture__put_back(c, ret);
	if (!rc)
		rc = capture__read_table(c, c->skel->maps.stacks, &ret->stacks);
	if (!rc)
		rc = capture__read_table(c, c->skel->maps.threads, &ret->threads);
	if (!rc)
		rc = capture__read_table(c, c->skel->maps.transfers, &ret->transfers);
	if (rc) {
		capture_drain__free(ret);
		return error__set(err, rc, "cannot read the tables back from the kernel: %s",
				  strerror(-rc));
	}
	return 0;
}

void capture__clear_tables(struct capture *c)
{
	const struct bpf_map *maps[] = {c->skel->maps.live,	c->skel->maps.sites,
					c->skel->maps.stacks,	c->skel->maps.threads,
					c->skel->maps.inflight, c->skel->maps.transfers,
					c->skel->maps.pools,	c->skel->maps.pooled};

	for (size_t i = 0; i < sizeof(maps) / sizeof(maps[0]); i++) {
		struct capture_table table = {};

		if (capture__read_table(c, maps[i], &table))
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

uint64_t capture__borrowers_lost(const struct capture *c)
{
	return c->skel->bss->borrowers_lost;
}

uint64_t capture__borrowers_changes(const struct capture *c)
{
	return __atomic_load_n(&c->skel->bss->borrowers_changes, __ATOMIC_SEQ_CST);
}

void capture__borrowers(struct capture *c,
			void (*fn)(void *ctx, pid_t pid, const struct abi_borrower *borrower),
			void *ctx)
{
	int fd = bpf_map__fd(c->skel->maps.borrowers);
	uint32_t pid, next, *from = NULL;

	/* if a key is deleted meanwhile, the kernel starts again at the first key. So the loop
	 * needs a limit of steps */
	for (int i = 0; i < 2 * ABI_MAX_BORROWERS; i++) {
		struct abi_borrower borrower;
		bool last;

		if (!from && bpf_map_get_next_key(fd, NULL, &pid))
			return;
		from = &pid;
		last = bpf_map_get_next_key(fd, &pid, &next);
		if (!bpf_map_lookup_elem(fd, &pid, &borrower)) {
			fn(ctx, (pid_t)pid, &borrower);
			if (borrower.ended)
				bpf_map_delete_elem(fd, &pid);
		}
		if (last)
			return;
		pid = next;
	}
}

void capture__drop_process(struct capture *c, uint32_t process)
{
	uint32_t rows = c->skel->rodata->process_rows, row = process & rows,
		 next = process + rows + 1, nobody = 0;
	const struct abi_peak none = {};

	capture__forget_mappings(c, process);
	if (!owns_row(c, process))
		return;
	/* The owner must be removed first. A row without an owner gets no counts, so the row is
	 * still empty when the next owner gets it. */
	bpf_map__update_elem(c->skel->maps.row_owners, &row, sizeof(row), &nobody, sizeof(nobody),
			     BPF_ANY);
	memset(c->counters, 0, sizeof(*c->counters) * (size_t)c->cpus);
	bpf_map__update_elem(c->skel->maps.process_cpus, &row, sizeof(row), c->counters,
			     sizeof(*c->counters) * (size_t)c->cpus, BPF_ANY);
	bpf_map__update_elem(c->skel->maps.peaks, &row, sizeof(row), &none, sizeof(none), BPF_ANY);
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
