// SPDX-License-Identifier: BSD-2-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "base/clock.h"
#include "capture/capture.h"
#include "proc/process.h"
int main(int argc, char **argv)
{
	struct capture_options o = {.interval = 512 * 1024, .kind = -1};
	struct capture *c; struct error err = {}; struct allocators *found = NULL; struct maps maps;
	uint32_t process; pid_t pid = atoi(argv[1]); int n = atoi(argv[2]), win = atoi(argv[3]), gap = atoi(argv[4]);
	struct alloc_extra x[2] = {{"exe", "my_alloc", {.role = ROLE_ALLOC, .size_arg = 1}}, {"exe", "my_free", {.role = ROLE_FREE, .ptr_arg = 1}}};
	if (argc > 5) o.interval = strtoull(argv[5], 0, 0);
	if (capture__new(&o, &c, &err) || capture__add_process(c, pid, &process, &err) || maps__read(pid, &maps) || allocators__find(pid, &maps, false, x, 2, &found, &err)) { puts(err.text); return 1; }
	for (int i = 0; i < n; i++) {
		struct abi_process_cpu a = {}, b = {};
		uint64_t t0 = clock__now_ns(CLOCK_MONOTONIC), t1, t2, t3, c0, c1, c2, c3;
		process__cpu_time_ns(pid, &c0);
		capture__counters(c, process, &a);
		found->n_attached = 0; for (size_t k = 0; k < found->n; k++) if (strstr(found->list[k]->path, "libc")) found->list[k] = found->list[--found->n];
		if (capture__attach(c, found, pid, &err)) { puts(err.text); return 1; }
		t1 = clock__now_ns(CLOCK_MONOTONIC); process__cpu_time_ns(pid, &c1);
		capture__activate(c);
		usleep(win * 1000);
		t2 = clock__now_ns(CLOCK_MONOTONIC); process__cpu_time_ns(pid, &c2);
		capture__deactivate(c);
		capture__detach(c);
		t3 = clock__now_ns(CLOCK_MONOTONIC); process__cpu_time_ns(pid, &c3);
		capture__counters(c, process, &b);
		printf("attach %.1f ms (cpu %.1f)  window %.1f (cpu %.1f)  detach %.1f (cpu %.1f)  calls %llu samples %llu\n", (t1 - t0) / 1e6, (c1-c0)/1e6, (t2 - t1) / 1e6,(c2-c1)/1e6, (t3 - t2) / 1e6,(c3-c2)/1e6,
		       (unsigned long long)(capture__alloc_calls(&b) + capture__free_calls(&b) - capture__alloc_calls(&a) - capture__free_calls(&a)), (unsigned long long)(b.samples - a.samples));
		usleep(gap * 1000);
	}
	capture__free(c);
	return 0;
}
