// SPDX-License-Identifier: BSD-2-Clause
#include "capture/features.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "capture/self.h"

#define SYSCALL_URETPROBE 335	     /* x86-64, since 6.11 */
#define PID_NS_INIT_INODE 0xEFFFFFFC /* PROC_PID_INIT_INO of the kernel */

const char *probe_kind__name(enum probe_kind kind)
{
	static const char *const names[] = {"session", "multi", "perf"};

	return kind < PROBE_KINDS ? names[kind] : "?";
}

int uprobe_multi_link(int prog_fd, enum probe_kind kind, bool ret_probe, const char *path,
		      const uint64_t *offs, const uint64_t *cookies, const uint64_t *semaphores,
		      uint32_t cnt, pid_t pid)
{
	struct {
		uint32_t prog_fd, target_fd, attach_type, flags;
		uint64_t path, offsets, ref_ctr_offsets, cookies;
		uint32_t cnt, multi_flags, pid, pad;
	} attr = {
		.prog_fd = (uint32_t)prog_fd,
		.attach_type = kind == PROBE_SESSION ? ATTACH_TYPE_UPROBE_SESSION
						     : ATTACH_TYPE_UPROBE_MULTI,
		.path = (uintptr_t)path,
		.offsets = (uintptr_t)offs,
		.ref_ctr_offsets = (uintptr_t)semaphores,
		.cookies = (uintptr_t)cookies,
		.cnt = cnt,
		.multi_flags = ret_probe ? 1 : 0,
		.pid = (uint32_t)pid,
	};
	long fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : (int)fd;
}

/* Loads a program that does nothing, with the attach type of the kind. */
static int load_nothing(enum probe_kind kind)
{
	struct bpf_insn insns[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts);
	int fd;

	if (kind == PROBE_SESSION)
		opts.expected_attach_type = (enum bpf_attach_type)ATTACH_TYPE_UPROBE_SESSION;
	else if (kind == PROBE_MULTI)
		opts.expected_attach_type = (enum bpf_attach_type)ATTACH_TYPE_UPROBE_MULTI;
	fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "memtrace_try", "GPL", insns, 2, &opts);
	return fd < 0 ? -errno : fd;
}

static int read_number(const char *path, const char *format)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	unsigned value;

	if (!f || fscanf(f, format, &value) != 1)
		return -EOPNOTSUPP;
	return (int)value;
}

int uprobe_perf_link(int prog_fd, bool ret_probe, const char *path, uint64_t off, uint64_t cookie,
		     uint64_t semaphore, pid_t pid, int *ret_event)
{
	static const char device[] = "/sys/bus/event_source/devices/uprobe";
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event = {.bpf_cookie = cookie});
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.config1 = (uintptr_t)path, /* uprobe_path */
		.config2 = off,		    /* probe_offset */
	};
	_cleanup_close_ int event = -1;
	char text[128];
	int type, bit, link;

	snprintf(text, sizeof(text), "%s/type", device);
	type = read_number(text, "%u");
	if (type < 0)
		return type;
	attr.type = (uint32_t)type;
	if (ret_probe) {
		snprintf(text, sizeof(text), "%s/format/retprobe", device);
		bit = read_number(text, "config:%u");
		if (bit < 0)
			return bit;
		attr.config |= 1ULL << bit;
	}
	if (semaphore >> 32)
		return -EINVAL;
	attr.config |= semaphore << 32; /* format/ref_ctr_offset: config:32-63 */
	/* An event for all processes is opened on one CPU, but its probe works on every CPU. */
	event = (int)syscall(SYS_perf_event_open, &attr, pid ? pid : -1, pid ? -1 : 0, -1,
			     PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return -errno;
	link = bpf_link_create(prog_fd, event, BPF_PERF_EVENT, &opts);
	if (link < 0)
		return link;
	*ret_event = take_fd(&event);
	return link;
}

static int try_perf(int prog_fd, uint64_t off)
{
	_cleanup_close_ int event = -1, link = -1;

	link = uprobe_perf_link(prog_fd, false, "/proc/self/exe", off, 1, 0, getpid(), &event);
	return link < 0 ? link : 0;
}

/* From now on the only system call that this process may make is exit. */
static int allow_leaving(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static void begin_trial(void)
{
	struct rlimit no_core = {0, 0};

	setrlimit(RLIMIT_CORE, &no_core);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Calls the probed function while exit is the only allowed system call. */
static void seccomp_child(int go)
{
	char byte;

	begin_trial();
	if (read(go, &byte, 1) != 1 || allow_leaving())
		_exit(1);
	self__stub(INSN_PUSH, 0).call(0);
	_exit(0);
}

/* In a child, makes the system call (uretprobe) that the kernel itself makes when a function with a
 * return probe returns. The child has no return probe. Returns the signal that ends the child:
 * SIGILL from the call itself, SIGSYS from a filter that forbids it. 0: no signal, because the
 * kernel has no such call. -1: unknown. */
static int signal_of_uretprobe(bool filtered)
{
	int status = 0;
	pid_t pid = fork();

	if (!pid) {
		begin_trial();
		if (filtered && allow_leaving())
			_exit(1);
		_exit(syscall(SYSCALL_URETPROBE) >= 0 || errno != ENOSYS);
	}
	if (pid < 0)
		return -1;
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	if (WIFSIGNALED(status))
		return WTERMSIG(status);
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -1;
}

static void *call_stub(void *arg)
{
	(void)arg;
	self__stub(INSN_PUSH, 0).call(0);
	return NULL;
}

/* Does a uprobe_multi link with a pid miss a second thread of the process? The trial's program adds
 * 1 to a map for each hit. */
static bool multi_sees_one_thread(void)
{
	_cleanup_close_ int map = -1, prog = -1, link = -1;
	uint64_t off, cookie = 1, hits = 0;
	uint32_t zero = 0;
	pthread_t thread;
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = (enum bpf_attach_type)ATTACH_TYPE_UPROBE_MULTI);

	map = bpf_map_create(BPF_MAP_TYPE_ARRAY, "memtrace_try", 4, 8, 1, NULL);
	if (map < 0 || self__offset((void *)self__stub(INSN_PUSH, 0).call, &off))
		return false;
	struct bpf_insn insns[] = {
		/* r1 = address of the map's only value; *r1 += 1; return 0 */
		{.code = BPF_LD | BPF_DW | BPF_IMM, .dst_reg = 1, .src_reg = 2, .imm = map},
		{.imm = 0},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 2, .imm = 1},
		{.code = BPF_STX | BPF_DW | BPF_ATOMIC, .dst_reg = 1, .src_reg = 2, .imm = BPF_ADD},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = 0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	prog = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "memtrace_try", "GPL", insns,
			     sizeof(insns) / sizeof(insns[0]), &opts);
	if (prog < 0)
		return false;
	link = uprobe_multi_link(prog, PROBE_MULTI, false, "/proc/self/exe", &off, &cookie, NULL, 1,
				 getpid());
	if (link < 0 || pthread_create(&thread, NULL, call_stub, NULL))
		return false;
	pthread_join(thread, NULL);
	bpf_map_lookup_elem(map, &zero, &hits);
	return hits == 0;
}

int features__try_kind(enum probe_kind kind)
{
	_cleanup_close_ int prog = -1, link = -1;
	uint64_t off, cookie = 1;
	int rc;

	rc = self__offset((void *)self__stub(INSN_PUSH, 0).call, &off);
	if (rc)
		return rc;
	prog = load_nothing(kind);
	if (prog < 0)
		return prog;
	if (kind == PROBE_PERF)
		return try_perf(prog, off);
	link = uprobe_multi_link(prog, kind, false, "/proc/self/exe", &off, &cookie, NULL, 1,
				 getpid());
	if (link < 0)
		return link;
	return kind == PROBE_MULTI && multi_sees_one_thread() ? -EOPNOTSUPP : 0;
}

bool features__multi_loses_probes(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int id = btf ? btf__find_by_name_kind(btf, "bpf_uprobe", BTF_KIND_STRUCT) : -1;
	const struct btf_type *type = id < 0 ? NULL : btf__type_by_id(btf, (uint32_t)id);
	bool remembers = false;

	for (uint16_t i = 0; type && i < btf_vlen(type); i++) {
		const char *name = btf__name_by_offset(btf, btf_members(type)[i].name_off);

		remembers = remembers || (name && !strcmp(name, "uprobe"));
	}
	btf__free(btf);
	return !remembers;
}

bool features__init_pid_ns(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) || st.st_ino == PID_NS_INIT_INODE;
}

/* In a child, runs a function of memtrace that has a return probe. The child's seccomp filter
 * allows none of the kernel's own system calls for probes. True when that kills the child. */
static bool seccomp_kills(void)
{
	_cleanup_close_ int prog = -1, link = -1;
	int go[2], status = 0;
	uint64_t off;
	pid_t pid;

	if (self__offset((void *)self__stub(INSN_PUSH, 0).call, &off) || pipe2(go, O_CLOEXEC))
		return false;
	pid = fork();
	if (!pid) {
		seccomp_child(go[0]);
		_exit(1);
	}
	if (pid > 0) {
		prog = load_nothing(PROBE_MULTI);
		if (prog >= 0)
			link = uprobe_multi_link(prog, PROBE_MULTI, true, "/proc/self/exe", &off,
						 &(uint64_t){1}, NULL, 1, pid);
		if (write(go[1], "", 1) != 1)
			kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	close(go[0]);
	close(go[1]);
	return link >= 0 && WIFSIGNALED(status);
}

void features__probe(struct features *ret)
{
	memset(ret, 0, sizeof(*ret));
	ret->btf = !access("/sys/kernel/btf/vmlinux", R_OK);
	ret->init_pid_ns = features__init_pid_ns();
	ret->tables = features__tables();
	for (int kind = 0; kind < PROBE_KINDS; kind++)
		ret->kind[kind] = features__try_kind((enum probe_kind)kind);
	ret->multi_one_thread = ret->kind[PROBE_MULTI] == -EOPNOTSUPP && multi_sees_one_thread();
	ret->seccomp_kills = features__seccomp_kills();
	ret->shadow_stacks_kill = features__shadow_stacks_kill();
}

bool features__tables(void)
{
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_KPROBE, BPF_FUNC_loop, NULL) == 1;
}

bool features__seccomp_kills(void)
{
	/* On most kernels, this check makes the full trial unnecessary, and takes a millisecond. If
	 * memtrace itself runs under a seccomp filter, the check is left out, because the signals
	 * may come from that filter. */
	if (!prctl(PR_GET_SECCOMP, 0, 0, 0, 0)) {
		int signal = signal_of_uretprobe(false);

		if (!signal || (signal > 0 && signal_of_uretprobe(true) == SIGILL))
			return false;
	}
	/* The bug came with Linux 6.11. Kernels without a usable uprobe_multi are older than that,
	 * so they do not have the bug. */
	return !features__try_kind(PROBE_MULTI) && seccomp_kills();
}

/* Does one of the file's lines contain the text? */
static bool file_has(const char *path, const char *text)
{
	_cleanup_fclose_ FILE *f = fopen(path, "re");
	char line[4096];

	while (f && fgets(line, sizeof(line), f))
		if (strstr(line, text))
			return true;
	return false;
}

bool features__shadow_stacks_kill(void)
{
	return file_has("/proc/cpuinfo", " user_shstk") &&
	       !file_has("/proc/kallsyms", " shstk_update_last_frame\n");
}
