// SPDX-License-Identifier: BSD-2-Clause
/* Computes how much kernel memory the tables of memtrace will take, before these tables exist. The
 * result equals the kernel's own count (`memlock` in the fdinfo of a map, since Linux 6.4). */
#include <errno.h>

#include "capture/internal.h"
#include "capture/watch.h"

#define PER_CPU_BYTES	(64ULL << 20) /* limit for the counters of all processes, over all CPUs */
#define LEAST_PROCESSES 64
#define BUCKET		16 /* bytes of the kernel's struct bucket */
#define ELEMENT		64 /* bytes of struct htab_elem, and of its link in the free list */
#define PAGE		4096

static uint64_t whole(uint64_t bytes, uint64_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

static void add_hash(const struct bpf_map *map, uint64_t cpus, struct capture_footprint *sum)
{
	uint64_t entries = bpf_map__max_entries(map), buckets = 1, full;

	while (buckets < entries)
		buckets *= 2;
	full = entries *
	       (ELEMENT + whole(bpf_map__key_size(map), 8) + whole(bpf_map__value_size(map), 8));
	sum->at_once += buckets * BUCKET;
	sum->at_most += buckets * BUCKET + full;
	if (bpf_map__map_flags(map) & BPF_F_NO_PREALLOC)
		return;
	/* the kernel has one spare entry per CPU, so that an entry can be replaced */
	sum->at_once += full + cpus * full / entries;
	sum->at_most += cpus * full / entries;
	sum->for_cpus += cpus * full / entries;
}

static void add_map(const struct bpf_map *map, uint64_t cpus, struct capture_footprint *sum)
{
	uint64_t entries = bpf_map__max_entries(map), bytes = 0;
	uint64_t value = whole(bpf_map__value_size(map), 8);

	switch (bpf_map__type(map)) {
	case BPF_MAP_TYPE_HASH:
		add_hash(map, cpus, sum);
		return;
	case BPF_MAP_TYPE_PERCPU_ARRAY:
		bytes = entries * value * cpus;
		sum->for_cpus += bytes;
		break;
	case BPF_MAP_TYPE_RINGBUF:
		bytes = entries;
		break;
	case BPF_MAP_TYPE_ARRAY_OF_MAPS:
		bytes = entries * 8;
		break;
	case BPF_MAP_TYPE_TASK_STORAGE: /* the kernel allocates memory for each task that has a
					 * value */
		break;
	default:
		bytes = entries * value;
		if (bpf_map__map_flags(map) & BPF_F_MMAPABLE)
			bytes = whole(bytes, PAGE);
	}
	sum->at_once += bytes;
	sum->at_most += bytes;
}

int capture__footprint(const struct capture_options *options, int cpus,
		       struct capture_footprint *ret)
{
	struct memtrace_bpf *skel = memtrace_bpf__open();
	struct bpf_map *map;

	if (!skel)
		return -errno;
	capture__size_maps(skel, options);
	*ret = (struct capture_footprint){};
	bpf_object__for_each_map(map, skel->obj)
	{
		add_map(map, (uint64_t)cpus, ret);
	}
	memtrace_bpf__destroy(skel);
	ret->at_once += watch__bytes_for(cpus);
	ret->for_cpus += watch__bytes_for(cpus);
	ret->at_most += watch__bytes_for(cpus) +
			(options->max_unwind ? options->max_unwind : UNWIND_DEFAULT_BYTES);
	return 0;
}

uint32_t capture__processes_for(uint32_t wanted, int cpus)
{
	uint64_t most = PER_CPU_BYTES / sizeof(struct abi_process_cpu) / (uint64_t)cpus;

	most = most > LEAST_PROCESSES ? most : LEAST_PROCESSES;
	return wanted < most ? wanted : (uint32_t)most;
}

int capture__cpus(void)
{
	int cpus = libbpf_num_possible_cpus();

	return cpus > 0 ? cpus : 1;
}
