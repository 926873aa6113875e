// SPDX-License-Identifier: BSD-2-Clause
#include "capture/watch.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/vector.h"

#define UNWANTED_NS 20000000

/* Each CPU's buffer has BUFFER_PAGES pages, a power of two. On a machine of many CPUs each buffer
 * has fewer pages, so that all buffers together take at most MAX_BYTES. But no buffer has fewer
 * than LEAST_PAGES. A record has about 100 bytes, and the buffers get the records of the whole
 * machine. */
#define BUFFER_PAGES 128
#define LEAST_PAGES  8
#define MAX_BYTES    (32 << 20)

/* Layouts from include/uapi/linux/perf_event.h. Each record is followed by the time when it was
 * made, because watch__new() asks for this part of `sample_id`, and for no other part. */
struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint32_t prot, flags;
	char filename[];
};

struct comm_record {
	struct perf_event_header header;
	uint32_t pid, tid;
};

struct lost_record {
	struct perf_event_header header;
	uint64_t id, lost;
};

struct pending {
	uint64_t time_ns;
	struct perf_event_header *record; /* a copy, owned by this struct */
};

struct watch {
	struct watch_handlers handlers;
	struct perf_buffer *buffer;
	int map_fd;
	struct pending *pending; /* records that were taken from the buffers, but not delivered
				  * yet */
	size_t n_pending, room;
	uint64_t read_ns; /* when the last reading began */
};

static void on_mmap2(struct watch *w, const struct mmap2_record *r)
{
	size_t room = r->header.size - offsetof(struct mmap2_record, filename) - sizeof(uint64_t);
	char path[4096];
	struct map_entry entry = {
		.start = r->addr,
		.end = r->addr + r->len,
		.off = r->pgoff,
		.file = {r->maj, r->min, r->ino},
		.perms = "r-xp",
		.executable = true,
		.path = path,
	};

	if (!(r->prot & PROT_EXEC) || !room || room > sizeof(path))
		return;
	memcpy(path, r->filename, room);
	path[room - 1] = '\0';
	if (!r->ino) { /* names memory without a file as /proc/PID/maps does */
		entry.off = 0;
		if (!strcmp(path, "//anon"))
			*path = '\0';
		else if (!strcmp(path, "[vdso]"))
			entry.file = FILE_ID_VDSO;
	}
	w->handlers.mapped(w->handlers.ctx, (pid_t)r->pid, &entry);
}

static void deliver(struct watch *w, const struct pending *pending)
{
	const struct perf_event_header *header = pending->record;

	switch (header->type) {
	case PERF_RECORD_MMAP2:
		if (header->size > sizeof(struct mmap2_record) + sizeof(uint64_t))
			on_mmap2(w, (const struct mmap2_record *)header);
		break;
	case PERF_RECORD_COMM:
		if ((header->misc & PERF_RECORD_MISC_COMM_EXEC) &&
		    header->size >= sizeof(struct comm_record))
			w->handlers.exec(w->handlers.ctx,
					 (pid_t)((const struct comm_record *)header)->pid,
					 pending->time_ns);
		break;
	case PERF_RECORD_LOST:
		if (header->size >= sizeof(struct lost_record))
			w->handlers.lost(w->handlers.ctx,
					 ((const struct lost_record *)header)->lost);
		break;
	}
}

/* Keeps a copy of a record until the records of the other CPUs have been read, too. */
static enum bpf_perf_event_ret on_record(void *ctx, int cpu, struct perf_event_header *header)
{
	struct watch *w = ctx;
	struct pending *p;

	(void)cpu;
	if (header->size < sizeof(struct comm_record) + sizeof(uint64_t))
		return LIBBPF_PERF_EVENT_CONT;
	if (VECTOR_RESERVE(w->pending, w->room, w->n_pending + 1))
		goto lost;
	p = &w->pending[w->n_pending];
	p->record = malloc(header->size);
	if (!p->record)
		goto lost;
	memcpy(p->record, header, header->size);
	memcpy(&p->time_ns, (char *)header + header->size - sizeof(uint64_t), sizeof(uint64_t));
	w->n_pending++;
	return LIBBPF_PERF_EVENT_CONT;
lost:
	w->handlers.lost(w->handlers.ctx, 1);
	return LIBBPF_PERF_EVENT_CONT;
}

static int compare_time(const void *a, const void *b)
{
	const struct pending *x = a, *y = b;

	return (x->time_ns > y->time_ns) - (x->time_ns < y->time_ns);
}

/* Returns the memory of all buffers. Each buffer has one more page, for its head. */
static uint64_t bytes_of(uint64_t cpus, uint64_t pages)
{
	return cpus * (pages + 1) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static uint64_t pages_for(int cpus)
{
	uint64_t pages = BUFFER_PAGES;

	while (pages > LEAST_PAGES && bytes_of((uint64_t)cpus, pages) > MAX_BYTES)
		pages /= 2;
	return pages;
}

int watch__new(const struct watch_handlers *handlers, struct watch **ret)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.sample_type = PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark = 1,
	};
	struct watch *w = calloc(1, sizeof(*w));
	int rc;

	if (!w)
		return -ENOMEM;
	w->handlers = *handlers;
	/* libbpf's reader of perf buffers needs a map to put its events into. Nobody uses this
	 * map. */
	w->map_fd = bpf_map_create(BPF_MAP_TYPE_PERF_EVENT_ARRAY, "memtrace_watch", sizeof(int),
				   sizeof(int), (uint32_t)libbpf_num_possible_cpus(), NULL);
	if (w->map_fd < 0) {
		rc = -errno;
		free(w);
		return rc;
	}
	w->buffer = perf_buffer__new_raw(w->map_fd, pages_for(libbpf_num_possible_cpus()), &attr,
					 on_record, w, NULL);
	if (!w->buffer) {
		rc = -errno;
		watch__free(w);
		return rc;
	}
	*ret = w;
	return 0;
}

void watch__free(struct watch *w)
{
	if (!w)
		return;
	perf_buffer__free(w->buffer);
	close(w->map_fd);
	for (size_t i = 0; i < w->n_pending; i++)
		free(w->pending[i].record);
	free(w->pending);
	free(w);
}

int watch__fd(const struct watch *w)
{
	return perf_buffer__epoll_fd(w->buffer);
}

uint64_t watch__bytes_for(int cpus)
{
	return bytes_of((uint64_t)cpus, pages_for(cpus));
}

uint64_t watch__bytes(const struct watch *w)
{
	return bytes_of(perf_buffer__buffer_cnt(w->buffer), pages_for(libbpf_num_possible_cpus()));
}

void watch__read(struct watch *w)
{
	w->read_ns = clock__now_ns(CLOCK_MONOTONIC);
	perf_buffer__consume(w->buffer);
}

/* Is the record wanted? The buffers get the records of the whole machine. The two kinds of records
 * that name a process begin alike. */
static bool is_wanted(const struct watch *w, const struct perf_event_header *header)
{
	if (header->type != PERF_RECORD_MMAP2 && header->type != PERF_RECORD_COMM)
		return true;
	return w->handlers.wanted(w->handlers.ctx,
				  (pid_t)((const struct comm_record *)header)->pid);
}

void watch__deliver(struct watch *w)
{
	size_t n = 0;

	/* A process moves between CPUs, and each CPU has a buffer of its own. An exec on one CPU
	 * must not be delivered after the mappings that the new program made on another CPU. So
	 * records are delivered in the order of their times. Records that were made after the
	 * reading began wait for the next reading: older records may have come into buffers that
	 * had already been read. */
	qsort(w->pending, w->n_pending, sizeof(*w->pending), compare_time);
	for (size_t i = 0; i < w->n_pending; i++) {
		struct pending *p = &w->pending[i];
		bool wanted = p->time_ns <= w->read_ns && is_wanted(w, p->record);

		if (!wanted && p->time_ns + UNWANTED_NS > w->read_ns) {
			w->pending[n++] = *p;
			continue;
		}
		if (wanted)
			deliver(w, p);
		free(p->record);
	}
	w->n_pending = n;
}
