// SPDX-License-Identifier: BSD-2-Clause
#include "base/far.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <linux/magic.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/io.h"

#define MAX_COPY (256 << 20)
#define LOOK_MS	 2
/* how long to wait until mt-files begins the request. A busy machine may be slow */
#define START_MS   2000
#define SLOW_NS	   2000000 /* slower answers may be the fault of the file system */
#define SLOW_SHARE 0.25	   /* slow answers may take at most this share of the time */
#define BURST_MS   5000	   /* up to this much unused time of SLOW_SHARE may be used later */
#define HURRIED_MS 200	   /* replaces BURST_MS while is_hurried is true */

struct request {
	unsigned number;
	int (*fn)(int fd, const void *in, void *out); /* the address is also valid in mt-files,
						       * because mt-files is a fork of memtrace */
	size_t in_bytes, out_bytes;
	char in[FAR_MAX_BYTES];
};

struct answer {
	int rc;	     /* what fn returned: 0, FAR_NO_FD or negative errno */
	bool waited; /* fn has waited for something other than a CPU */
	char out[FAR_MAX_BYTES];
};

/* In shared memory: the number of the request that mt-files began last. A request that mt-files has
 * not begun still waits for a CPU. A request that it has begun waits for the file system. */
static atomic_uint *begun;

/* --- messages --- */

static int send_message(int sock, const void *data, size_t len, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec piece = {(void *)data, len};
	struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};

	if (fd >= 0) {
		control.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)),
						.cmsg_level = SOL_SOCKET,
						.cmsg_type = SCM_RIGHTS};
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
		message.msg_control = &control;
		message.msg_controllen = sizeof(control);
	}
	return sendmsg(sock, &message, MSG_NOSIGNAL) == (ssize_t)len ? 0 : -EPIPE;
}

/* Receives a message. *ret_fd: the descriptor that came with the message; -1: none. Returns the
 * message's length; 0 when the other end is closed; negative errno. */
static ssize_t receive_message(int sock, void *data, size_t len, int *ret_fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = {};
	struct iovec piece = {data, len};
	struct msghdr message = {.msg_iov = &piece,
				 .msg_iovlen = 1,
				 .msg_control = &control,
				 .msg_controllen = sizeof(control)};
	ssize_t n;

	*ret_fd = -1;
	do
		n = recvmsg(sock, &message, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n > 0 && message.msg_controllen >= CMSG_LEN(sizeof(int)) &&
	    control.head.cmsg_type == SCM_RIGHTS)
		memcpy(ret_fd, CMSG_DATA(&control.head), sizeof(*ret_fd));
	return n < 0 ? -errno : n;
}

/* --- in mt-files --- */

/* Returns how often this process had to wait for something other than a CPU. */
static long waits(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_SELF, &usage) ? 0 : usage.ru_nvcsw;
}

/* Answers the requests that memtrace sends, until memtrace closes the socket. */
static void work_for(int sock)
{
	static struct request request;
	static struct answer answer;
	int fd;

	while (receive_message(sock, &request, sizeof(request), &fd) > 0) {
		int got, gives, rc;
		long before = waits();

		atomic_store(begun, request.number);
		got = request.fn(fd, request.in, answer.out);
		gives = got == FAR_NO_FD ? -1 : got;
		answer.waited = waits() > before;
		answer.rc = got < 0 || got == FAR_NO_FD ? got : 0;
		rc = send_message(sock, &answer,
				  offsetof(struct answer, out) + (got < 0 ? 0 : request.out_bytes),
				  gives);
		if (gives >= 0)
			close(gives);
		if (fd >= 0)
			close(fd);
		if (rc)
			break;
	}
}

/* Forks a process for each socket that memtrace sends through `sock`. A process that is left behind
 * must not hold open a file that memtrace writes to. So all descriptors except `sock` are closed
 * first. */
static void fork_for(int sock, uint64_t caps)
{
	int null = open("/dev/null", O_RDWR), fd;
	char byte;

	setsid();
	prctl(PR_SET_NAME, "mt-files");
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, sig == SIGCHLD || sig == SIGPIPE || sig == SIGUSR1 || sig == SIGTERM ||
					    sig == SIGINT || sig == SIGHUP
				    ? SIG_IGN
				    : SIG_DFL);
	if (null < 0 || dup2(null, 0) < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
		return;
	if (sock != 3 && dup2(sock, 3) < 0)
		return;
	if (syscall(SYS_close_range, 4, ~0u, 0) || capabilities__limit(caps, caps))
		return;
	while (receive_message(3, &byte, 1, &fd) > 0) {
		if (fd >= 0 && !fork()) {
			close(3);
			work_for(fd);
			_exit(0);
		}
		if (fd >= 0)
			close(fd);
	}
}

/* --- in memtrace --- */

/* An mt-files that was left behind. */
struct left {
	int sock; /* 0: none */
	uint64_t key, request;
};

static int forker; /* 0: none */
static int worker; /* 0: none */
static struct left left[FAR_MAX_LEFT];
static uint64_t given_up;
static bool is_hurried;
static double slow_left_ms = BURST_MS;

int far__begin(uint64_t caps)
{
	int pair[2];
	pid_t pid;

	begun = mmap(NULL, sizeof(*begun), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (begun == MAP_FAILED || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	pid = fork();
	if (!pid) {
		close(pair[0]);
		fork_for(pair[1], caps);
		_exit(0);
	}
	close(pair[1]);
	if (pid < 0) {
		close(pair[0]);
		return -errno;
	}
	forker = pair[0];
	return 0;
}

void far__hurry(bool hurried)
{
	is_hurried = hurried;
}

uint64_t far__given_up(void)
{
	return given_up;
}

static int have_worker(void)
{
	int pair[2], rc;

	if (worker)
		return 0;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	rc = send_message(forker, "", 1, pair[1]);
	close(pair[1]);
	if (rc)
		close(pair[0]);
	else
		worker = pair[0];
	return rc;
}

static bool may_be_slow(void)
{
	double burst_ms = is_hurried ? HURRIED_MS : BURST_MS;
	static uint64_t last_ns;
	uint64_t now_ns = clock__now_ns(CLOCK_MONOTONIC);

	slow_left_ms += last_ns ? SLOW_SHARE * (double)(now_ns - last_ns) / 1e6 : 0;
	slow_left_ms = slow_left_ms < burst_ms ? slow_left_ms : burst_ms;
	last_ns = now_ns;
	return slow_left_ms > 0;
}

static int take_answer(int sock, const struct far_work *work, bool *ret_waited)
{
	static struct answer answer;
	_cleanup_close_ int fd = -1;
	ssize_t n = receive_message(sock, &answer, sizeof(answer), &fd);
	size_t head = offsetof(struct answer, out);

	*ret_waited = false;
	if (n < (ssize_t)head) /* mt-files has ended */
		return -EPIPE;
	*ret_waited = answer.waited;
	if (answer.rc < 0)
		return answer.rc;
	if ((size_t)n != head + work->out_bytes)
		return -EPIPE;
	if (!answer.rc && fd < 0) /* the kernel had no room for the descriptor */
		return -EMFILE;
	if (work->out_bytes)
		memcpy(work->out, answer.out, work->out_bytes);
	return answer.rc ? answer.rc : take_fd(&fd);
}

static int give_up(const struct far_work *work, int rc)
{
	++*(work->given_up ? work->given_up : &given_up);
	return rc;
}

/* Takes the late answer of an mt-files that was left behind, if the answer has come. Returns true,
 * and sets *ret, if the answer also fits this request. */
static bool take_late(struct left *l, const struct far_work *work, uint64_t request, int *ret)
{
	struct pollfd late = {.fd = l->sock, .events = POLLIN};
	bool is_asked, waited;

	if (poll(&late, 1, 0) != 1)
		return false;
	is_asked = request && l->request == request;
	if (is_asked)
		*ret = take_answer(l->sock, work, &waited);
	close(l->sock);
	*l = (struct left){};
	return is_asked;
}

static int leave_behind(struct left *place, const struct far_work *work, uint64_t request)
{
	*place = (struct left){worker, work->key, request};
	worker = 0;
	return give_up(work, -ETIMEDOUT);
}

/* Waits until the worker answers. 0: it has answered, or has ended. -ETIMEDOUT: it did not begin
 * the request within START_MS, or did not answer within patience_ms after it began. */
static int wait_for(unsigned number, unsigned patience_ms)
{
	double now = clock__monotonic_s(), end_s = now + 1e-3 * START_MS;
	struct pollfd answer = {.fd = worker, .events = POLLIN};
	bool has_begun = false;

	for (; now < end_s; now = clock__monotonic_s()) {
		if (!has_begun && atomic_load(begun) == number) {
			has_begun = true;
			end_s = now + 1e-3 * patience_ms;
		}
		if (poll(&answer, 1, has_begun ? (int)ceil(1e3 * (end_s - now)) : LOOK_MS) == 1)
			return 0;
	}
	return -ETIMEDOUT;
}

int far__do(const struct far_work *work)
{
	static struct request request;
	static unsigned last_number;
	unsigned patience_ms = work->patience_ms ? work->patience_ms
			       : is_hurried	 ? FAR_HURRIED_MS
						 : FAR_PATIENCE_MS;
	struct left *place = NULL;
	uint64_t start_ns, asked;
	bool late, waited = false;
	double took_ms;
	size_t n;
	int rc;

	if (!forker)
		return work->fn(work->fd, work->in, work->out);
	if (work->in_bytes > sizeof(request.in) || work->out_bytes > FAR_MAX_BYTES)
		return -E2BIG;
	request.fn = work->fn;
	request.in_bytes = work->in_bytes;
	request.out_bytes = work->out_bytes;
	if (work->in_bytes)
		memcpy(request.in, work->in, work->in_bytes);
	n = offsetof(struct request, in) + work->in_bytes;
	request.number = 0; /* so that equal requests have equal hashes */
	asked = work->fd < 0 && !work->never_late ? hash__keyed(&request, n) : 0;
	request.number = ++last_number;
	for (size_t i = 0; i < FAR_MAX_LEFT; i++) {
		if (left[i].sock && take_late(&left[i], work, asked, &rc))
			return rc;
		if (left[i].sock && left[i].key == work->key)
			return -ETIMEDOUT;
		place = left[i].sock ? place : &left[i];
	}
	if (!place || !may_be_slow())
		return give_up(work, -EBUSY);
	rc = have_worker();
	if (rc)
		return rc == -EPIPE ? give_up(work, rc) : rc;
	start_ns = clock__now_ns(CLOCK_MONOTONIC);
	rc = send_message(worker, &request, n, work->fd);
	late = !rc && wait_for(request.number, patience_ms);
	took_ms = (double)(clock__now_ns(CLOCK_MONOTONIC) - start_ns) / 1e6;
	if (late) {
		slow_left_ms -= fmin(took_ms, patience_ms);
		return leave_behind(place, work, asked);
	}
	rc = rc ? rc : take_answer(worker, work, &waited);
	/* If the answer took long although fn did not wait, the machine is busy, and the file
	 * system is not slow. */
	slow_left_ms -= waited && took_ms * 1e6 > SLOW_NS ? took_ms : 0;
	if (rc == -EPIPE) {
		close(worker);
		worker = 0;
	}
	return rc;
}

/* --- copies --- */

static int copy(int fd)
{
	_cleanup_close_ int to = memfd_create("copy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	static char piece[1 << 20];
	size_t size = 0;
	ssize_t n;

	if (to < 0)
		return -errno;
	while ((n = io__pread(fd, piece, sizeof(piece), size)) > 0) {
		if (size + (size_t)n > MAX_COPY)
			return -EFBIG;
		if (write(to, piece, (size_t)n) != n)
			return -EIO;
		size += (size_t)n;
	}
	if (n < 0)
		return (int)n;
	if (fcntl(to, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL))
		return -errno;
	return take_fd(&to);
}

int far__keep(int fd)
{
	struct statfs fs;
	int rc = fstatfs(fd, &fs) ? -errno : fs.f_type == FUSE_SUPER_MAGIC ? copy(fd) : fd;

	if (rc != fd)
		close(fd);
	return rc;
}

bool far__is_copy(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);

	return seals >= 0 && seals & F_SEAL_WRITE;
}
