// SPDX-License-Identifier: BSD-2-Clause
/* Measures what a probe costs on this machine. A child of memtrace calls small functions of
 * memtrace, first without probes, then with the very probes and programs of the run. */
#include "capture/internal.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/capabilities.h"
#include "base/clock.h"

#define CALIBRATION_ROUNDS 11
#define CALIBRATION_CALLS  150
#define STEPPED_CALLS	   30	 /* calls of a stub that is single-stepped */
#define CALIBRATION_MS	   15000 /* the calibration gives up after this time */

_Static_assert(4 * INSN_CLASSES == ABI_COSTS, "kinds of probe");

/* For a normal distribution: its standard deviation, divided by the median of the absolute
 * deviations from its median. */
#define SD_OF_MEDIAN 1.4826

/* Among other code a call costs at least as much as in a loop of its own, and at most this many
 * times as much. A measured value outside these limits is noise. */
#define AMONG_MAX 1.5

/* Rare calls: pairs of an allocation and its free. Each pair comes RARE_SPIN_NS after the last
 * one. */
#define RARE_CALLS    25
#define RARE_LEFT_OUT 2 /* the mean leaves out this many of the longest pairs */
#define RARE_SPIN_NS  1e6
/* The cost of a pair rises with the time t since the last pair, like 1 - exp(-(t - RARE_FROM_NS) /
 * RARE_NS). The reason is that other code gradually evicts the kernel's code and data from the
 * caches. Measured with 5 to 1,700 us of arithmetic between pairs, on a virtual machine
 * (docs/overhead.md). */
#define RARE_FROM_NS 50e3
#define RARE_NS	     450e3

/* Functions of the child that stand for functions of targets, by class and role. */
#define STUBS (2 * INSN_CLASSES)

/* What the child measures, in nanoseconds per call or pair of calls; [0] without and [1] with
 * probes. Each stub is measured in each round, in a loop of its own and among other code. A rare
 * allocation is measured together with its free. */
struct measured {
	double ns[2][STUBS][CALIBRATION_ROUNDS], among_ns[2][STUBS][CALIBRATION_ROUNDS], rare_ns[2];
	double pair_ns[2]; /* both with probes: [0] an unsampled pair, [1] a sampled pair */
};

static int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns the median of one value per round. Leaves the order in `rounds` unchanged. */
static double median(const double *rounds)
{
	double sorted[CALIBRATION_ROUNDS];

	memcpy(sorted, rounds, sizeof(sorted));
	qsort(sorted, CALIBRATION_ROUNDS, sizeof(sorted[0]), compare_double);
	return sorted[CALIBRATION_ROUNDS / 2];
}

/* Returns the CPU time per call in one round. (The limit of overhead is a share of the target's CPU
 * time, too.) Time in which another process has the CPU does not count. But that process evicts
 * code and data from the caches, and so makes later calls slower. This extra time counts. */
static double measure(void (*fn)(const void *arg), const void *arg, int calls)
{
	uint64_t start = clock__now_ns(CLOCK_THREAD_CPUTIME_ID);

	for (int i = 0; i < calls; i++)
		fn(arg);
	return (double)(clock__now_ns(CLOCK_THREAD_CPUTIME_ID) - start) / calls;
}

/* Returns what a call adds to the time of other code. In a program, other code runs between the
 * calls and uses the caches. So a call costs more there than in a loop of calls only. The function
 * measures the other code without and with the call, so a disturbance of the machine hits both
 * measurements. */
static double measure_among(void (*fn)(const void *arg), const void *arg, int calls)
{
	uint64_t start = clock__now_ns(CLOCK_THREAD_CPUTIME_ID), middle;

	for (int i = 0; i < calls; i++)
		self__other_work();
	middle = clock__now_ns(CLOCK_THREAD_CPUTIME_ID);
	for (int i = 0; i < calls; i++) {
		self__other_work();
		fn(arg);
	}
	return ((double)(clock__now_ns(CLOCK_THREAD_CPUTIME_ID) - middle) -
		(double)(middle - start)) /
	       calls;
}

/* Returns the median of several rounds of measure() or measure_among(). */
static double measure_rounds(double (*one)(void (*fn)(const void *arg), const void *arg, int calls),
			     void (*fn)(const void *arg), int calls)
{
	double ns[CALIBRATION_ROUNDS];

	for (int round = 0; round < CALIBRATION_ROUNDS; round++)
		ns[round] = one(fn, NULL, calls);
	return median(ns);
}

static void spin(uint64_t steps)
{
	for (volatile uint64_t i = 0; i < steps; i++)
		;
}

/* Returns the mean time of all rare pairs except the longest ones, in which something else had the
 * CPU. Measures by the clock, not by CPU time. Reading the CPU time is a system call, and would
 * bring the kernel's code back into the caches. */
static double measure_rare(enum insn_class class)
{
	struct self_stub allocate = self__stub(class, 0), release = self__stub(class, 1);
	uint64_t steps = 100000, start = clock__now_ns(CLOCK_THREAD_CPUTIME_ID);
	double ns[RARE_CALLS], sum = 0;
	int kept = RARE_CALLS - RARE_LEFT_OUT;

	spin(steps);
	steps = (uint64_t)((double)steps * RARE_SPIN_NS /
			   (double)(clock__now_ns(CLOCK_THREAD_CPUTIME_ID) - start + 1));
	for (int i = 0; i < RARE_CALLS; i++) {
		spin(steps);
		start = clock__now_ns(CLOCK_MONOTONIC);
		allocate.call(64);
		release.call(64);
		ns[i] = (double)(clock__now_ns(CLOCK_MONOTONIC) - start);
	}
	qsort(ns, RARE_CALLS, sizeof(ns[0]), compare_double);
	for (int i = 0; i < kept; i++)
		sum += ns[i];
	return sum / kept;
}

static struct self_stub stub_of(int i)
{
	return self__stub((enum insn_class)(i / 2), i % 2);
}

/* Returns how often a round calls the stub. A single-stepped call takes up to thirty times as long
 * as another call, but its measured cost does not vary more. So fewer such calls are enough. (With
 * CALIBRATION_CALLS of them in each round, they took a fifth of the CPU time of memtrace's
 * start.) */
static int calls_of(int i)
{
	return i / 2 == INSN_STEP ? STEPPED_CALLS : CALIBRATION_CALLS;
}

static void call_stub(const void *stub)
{
	((const struct self_stub *)stub)->call(64);
}

/* Calls the allocating and the freeing stub. To the kernel side, this is one block: the first stub
 * returns its argument as the block's address, and the second stub frees that address. */
static void call_pair(const void *nothing)
{
	(void)nothing;
	self__stub(INSN_PUSH, 0).call(64);
	self__stub(INSN_PUSH, 1).call(64);
}

/* Measures all stubs in each round. So a disturbance of some milliseconds hits all stubs, but only
 * a few rounds of each stub. */
static void measure_stubs(struct measured *m, int probed)
{
	for (int round = 0; round < CALIBRATION_ROUNDS; round++)
		for (int i = 0; i < STUBS; i++) {
			struct self_stub stub = stub_of(i);
			int calls = calls_of(i);

			m->ns[probed][i][round] = measure(call_stub, &stub, calls);
			m->among_ns[probed][i][round] = measure_among(call_stub, &stub, calls);
		}
}

static void calibration_child(struct measured *m, int commands, int answers, pid_t parent)
{
	char byte;

	capabilities__limit(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	for (int probed = 0; probed < 2; probed++) {
		if (read(commands, &byte, 1) != 1)
			_exit(1);
		measure_stubs(m, probed);
		m->rare_ns[probed] = measure_rare(INSN_PUSH);
		if (probed)
			m->pair_ns[0] = measure_rounds(measure_among, call_pair, CALIBRATION_CALLS);
		if (write(answers, &byte, 1) != 1)
			_exit(1);
	}
	if (read(commands, &byte, 1) != 1)
		_exit(1);
	m->pair_ns[1] = measure_rounds(measure_among, call_pair, CALIBRATION_CALLS);
	if (write(answers, &byte, 1) != 1)
		_exit(1);
	_exit(0);
}

static void end_child(pid_t pid, const int *commands, const int *answers)
{
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	for (int i = 0; i < 2; i++) {
		if (commands[i] >= 0)
			close(commands[i]);
		if (answers[i] >= 0)
			close(answers[i]);
	}
}

static int ask_child(int commands, int answers)
{
	struct pollfd pfd = {.fd = answers, .events = POLLIN};
	char byte = 0;

	if (write(commands, &byte, 1) != 1)
		return -errno;
	if (poll(&pfd, 1, CALIBRATION_MS) != 1 || read(answers, &byte, 1) != 1)
		return -ETIMEDOUT;
	return 0;
}

/* Puts probes on the stubs in the child, and describes the stubs to the kernel side like an
 * allocator's functions. */
static int attach_stubs(struct capture *c, pid_t pid)
{
	_cleanup_free_ struct capture_offsets *offsets = calloc(1, sizeof(*offsets));
	uint32_t n = 0;
	int rc;

	if (!offsets)
		return -ENOMEM;

	for (int role = 0; role < 2; role++)
		for (int class = 0; class < INSN_CLASSES; class ++, n++) {
			struct self_stub stub = self__stub((enum insn_class) class, role);
			struct capture_offset_list *list = role ? &offsets->free : &offsets->alloc;
			uint32_t index = ABI_MAX_FUNCS - 1 - n;

			rc = self__offset((void *)stub.call, &list->offs[list->n]);
			if (rc)
				return rc;
			list->offs[list->n] += stub.delta;
			list->cookies[list->n++] = index;
			c->skel->bss->funcs[index] = (struct abi_func){
				.role = role ? ROLE_FREE : ROLE_ALLOC,
				.size_arg = role ? 0 : 1,
				.ptr_arg = role ? 1 : 0,
				.object = ABI_MAX_OBJECTS - 1,
				.delta = stub.delta,
				.cost = (uint8_t)(2 * class + role),
			};
		}
	return capture__attach_points(c, "/proc/self/exe", offsets, pid);
}

/* Returns how long the walk of stacks takes per call of an allocating function, on average. */
static double stacks_ns(struct capture *c, uint32_t process)
{
	struct abi_process_cpu counters;
	uint64_t calls;

	if (capture__counters(c, process, &counters))
		return 0;
	calls = capture__alloc_calls(&counters);
	return calls ? (double)counters.stack_ns / (double)calls : 0;
}

/* Returns how much more each call of a pair costs if there was no call for a very long time before
 * the pair. */
static double rare_ns(const struct measured *m, const struct calibration *usual, double stacks)
{
	double pair = m->rare_ns[1] - m->rare_ns[0] - stacks - usual->alloc_ns[INSN_PUSH] -
		      usual->free_ns[INSN_PUSH];

	return pair > 0 ? pair / 2 / (1 - exp(-(RARE_SPIN_NS - RARE_FROM_NS) / RARE_NS)) : 0;
}

/* Makes every block of the child a sample. Measures how much more a sampled pair costs than an
 * unsampled one, without the cost of the stack. */
static int calibrate_samples(struct capture *c, pid_t pid, uint32_t process,
			     const struct measured *m, const int *commands, const int *answers,
			     double *ret_ns)
{
	struct abi_process_cpu before, after;
	int rc = capture__set_interval(c, pid, 1);

	if (!rc)
		rc = capture__counters(c, process, &before);
	if (!rc)
		rc = ask_child(commands[1], answers[0]);
	if (!rc)
		rc = capture__counters(c, process, &after);
	if (!rc && after.samples > before.samples)
		*ret_ns = fmax(m->pair_ns[1] - m->pair_ns[0] -
				       (double)(after.stack_ns - before.stack_ns) /
					       (double)(after.samples - before.samples),
			       0);
	return rc;
}

/* Returns by how much the total cost of all stubs differs between rounds, as a relative standard
 * deviation. It is computed from the median of the deviations, because a disturbance may change a
 * single round by any amount. */
static double spread(const struct measured *m)
{
	double cost[CALIBRATION_ROUNDS] = {}, middle;

	for (int round = 0; round < CALIBRATION_ROUNDS; round++)
		for (int i = 0; i < STUBS; i++)
			cost[round] += m->ns[1][i][round] + m->among_ns[1][i][round];
	middle = median(cost);
	for (int round = 0; round < CALIBRATION_ROUNDS; round++)
		cost[round] = fabs(cost[round] - middle);
	return middle > 0 ? SD_OF_MEDIAN * median(cost) / middle : 0;
}

static void evaluate(const struct measured *m, double stacks, struct calibration *ret)
{
	for (int i = 0; i < STUBS; i++) {
		double stack = i % 2 ? 0 : stacks;
		double alone = fmax(median(m->ns[1][i]) - median(m->ns[0][i]) - stack, 0);
		double among = median(m->among_ns[1][i]) - median(m->among_ns[0][i]) - stack;

		(i % 2 ? ret->free_ns : ret->alloc_ns)[i / 2] =
			fmin(fmax(among, alone), AMONG_MAX * alone);
	}
	ret->spread = spread(m);
	ret->rare_ns = rare_ns(m, ret, stacks);
}

int capture__calibrate(struct capture *c, struct calibration *ret)
{
	double stacks = 0;
	int commands[2] = {-1, -1}, answers[2] = {-1, -1}, rc;
	pid_t parent = getpid(), pid = -1;
	uint32_t process = 0;
	struct measured *m;

	m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return -errno;
	if (pipe(commands) || pipe(answers)) {
		rc = -errno;
		goto out;
	}
	pid = fork();
	if (pid < 0) {
		rc = -errno;
		goto out;
	}
	if (!pid)
		calibration_child(m, commands[0], answers[1], parent);
	rc = ask_child(commands[1], answers[0]);
	if (!rc)
		rc = capture__add_process(c, pid, &process, NULL);
	if (!rc)
		rc = attach_stubs(c, pid);
	if (!rc) {
		capture__activate(c);
		rc = ask_child(commands[1], answers[0]);
		stacks = stacks_ns(c, process);
		if (!rc && c->skel->rodata->config.interval > 1)
			rc = calibrate_samples(c, pid, process, m, commands, answers,
					       &ret->sample_ns);
		capture__deactivate(c);
	}
	capture__detach(c);
	capture__clear_tables(c);
	capture__drop_process(c, process);
	if (!rc)
		evaluate(m, stacks, ret);
out:
	end_child(pid, commands, answers);
	munmap(m, sizeof(*m));
	return rc;
}

/* --- regions --- */

enum region_phase { REGIONS_UNSEEN, REGIONS_AT_LIBC, REGIONS_AT_SYSCALLS, REGION_PHASES };

struct region_measured {
	double call_ns[REGION_PHASES], other_ns[REGION_PHASES];
};

static void map_and_unmap(const void *nothing)
{
	void *p = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	munmap(p, 4096);
	(void)nothing;
}

static void other_call(const void *nothing)
{
	(void)nothing;
	syscall(SYS_getppid);
}

static void region_child(struct region_measured *m, int commands, int answers, pid_t parent)
{
	char byte;

	capabilities__limit(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	for (int phase = 0; phase < REGION_PHASES; phase++) {
		if (read(commands, &byte, 1) != 1)
			_exit(1);
		m->other_ns[phase] = measure_rounds(measure, other_call, 10 * CALIBRATION_CALLS);
		m->call_ns[phase] = measure_rounds(measure, map_and_unmap, CALIBRATION_CALLS) / 2;
		if (write(answers, &byte, 1) != 1)
			_exit(1);
	}
	_exit(0);
}

/* Runs one phase with the probes that were attached for it. */
static int run_phase(struct capture *c, const int *commands, const int *answers)
{
	int rc;

	capture__activate(c);
	rc = ask_child(commands[1], answers[0]);
	capture__deactivate(c);
	capture__detach(c);
	return rc;
}

static int attach_own_libc(struct capture *c, pid_t pid)
{
	struct region_source *source = NULL;
	struct maps maps;
	int rc = maps__read(getpid(), &maps);

	if (rc)
		return rc;
	rc = region_source__find(getpid(), &maps, false, &(struct elf_meanwhile){}, &source, NULL);
	if (!rc)
		rc = source->syscalls ? -ENOTSUP : capture__attach_regions(c, source, pid, NULL);
	region_source__free(source);
	maps__free(&maps);
	return rc;
}

static double more_than(double now, double before)
{
	return now > before ? now - before : 0;
}

int capture__calibrate_regions(struct capture *c, struct region_calibration *ret)
{
	int commands[2] = {-1, -1}, answers[2] = {-1, -1}, rc;
	pid_t parent = getpid(), pid = -1;
	uint32_t process = 0;
	struct region_measured *m;

	m = mmap(NULL, sizeof(*m), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return -errno;
	rc = pipe(commands) || pipe(answers) ? -errno : 0;
	if (!rc)
		pid = fork();
	if (!rc && pid < 0)
		rc = -errno;
	if (!pid)
		region_child(m, commands[0], answers[1], parent);
	if (!rc)
		rc = ask_child(commands[1], answers[0]);
	if (!rc)
		rc = capture__add_process(c, pid, &process, NULL);
	if (!rc)
		rc = attach_own_libc(c, pid) ?: run_phase(c, commands, answers);
	if (!rc)
		rc = capture__attach_region_syscalls(c, NULL) ?: run_phase(c, commands, answers);
	capture__detach(c);
	capture__clear_tables(c);
	ring_buffer__consume(c->events); /* drops the child's calls */
	capture__drop_process(c, process);
	if (!rc)
		*ret = (struct region_calibration){
			.libc_call_ns =
				more_than(m->call_ns[REGIONS_AT_LIBC], m->call_ns[REGIONS_UNSEEN]),
			.syscall_call_ns = more_than(m->call_ns[REGIONS_AT_SYSCALLS],
						     m->call_ns[REGIONS_UNSEEN]),
			.syscall_other_ns = more_than(m->other_ns[REGIONS_AT_SYSCALLS],
						      m->other_ns[REGIONS_UNSEEN]),
		};
	end_child(pid, commands, answers);
	munmap(m, sizeof(*m));
	return rc;
}

/* --- what calls cost --- */

static enum insn_class class_of(const struct probe_site *site)
{
	if (site->nop)
		return INSN_NOP;
	if (!site->emulated)
		return INSN_STEP;
	return site->instruction[0] == 'j' ? INSN_JUMP : INSN_PUSH;
}

/* Returns the number of the point's cost class. Each class of instruction has two cost classes: the
 * even number is for allocating functions, the odd number for freeing functions. Functions that may
 * throw have the same number of cost classes of their own, whose numbers follow. */
uint8_t capture__cost_of(const struct alloc_point *point)
{
	return (uint8_t)(2 * class_of(&point->site) + abi_role__frees(point->func.role) +
			 (point->func.exits ? 2 * INSN_CLASSES : 0));
}

static double cost_ns(const struct calibration *calibration, int cost)
{
	int class = cost / 2 % INSN_CLASSES;

	/* the function has no return probe, but a probe on its ret instruction */
	if (cost >= 2 * INSN_CLASSES)
		return calibration->free_ns[class] + calibration->free_ns[INSN_STEP];
	return cost & 1 ? calibration->free_ns[class] : calibration->alloc_ns[class];
}

double calibration__rarity_ns(const struct calibration *calibration, uint64_t calls, double over_ns)
{
	/* the time between two pairs of calls (an allocation and its free), minus RARE_FROM_NS */
	double between = calls ? 2 * over_ns / (double)calls - RARE_FROM_NS : 0;

	return between > 0 ? (double)calls * calibration->rare_ns * (1 - exp(-between / RARE_NS))
			   : 0;
}

double calibration__cost_ns(const struct calibration *calibration, const struct alloc_point *point)
{
	return cost_ns(calibration, capture__cost_of(point));
}

double calibration__samples_ns(const struct calibration *calibration,
			       const struct abi_process_cpu *counters)
{
	return calibration->sample_ns * (double)counters->samples + (double)counters->stack_ns;
}

double calibration__total_ns(const struct calibration *calibration,
			     const struct abi_process_cpu *counters)
{
	double total = 0;

	for (int cost = 0; cost < ABI_COSTS; cost++)
		total += (double)counters->calls[cost] * cost_ns(calibration, cost);
	return total + calibration__samples_ns(calibration, counters);
}

double region_calibration__total_ns(const struct region_calibration *calibration,
				    const struct abi_process_cpu *counters, bool syscalls)
{
	return (double)counters->region_calls *
	       (syscalls ? calibration->syscall_call_ns : calibration->libc_call_ns);
}

uint64_t capture__alloc_calls(const struct abi_process_cpu *counters)
{
	uint64_t n = 0;

	for (int cost = 0; cost < ABI_COSTS; cost += 2)
		n += counters->calls[cost];
	return n - counters->inner;
}

uint64_t capture__free_calls(const struct abi_process_cpu *counters)
{
	uint64_t n = 0;

	for (int cost = 1; cost < ABI_COSTS; cost += 2)
		n += counters->calls[cost];
	return n;
}

int64_t capture__net_blocks(const struct abi_process_cpu *counters)
{
	uint64_t births =
		capture__alloc_calls(counters) + counters->inner_of_pools - counters->no_births;

	return (int64_t)births - (int64_t)(capture__free_calls(counters) - counters->no_deaths);
}
