/* SPDX-License-Identifier: BSD-2-Clause */
/* A target that maps a file whose file system stops answering. The file system is the target's own,
 * on FUSE, mounted on --dir DIR for the target only. Its one file, "file", has the content of
 * --file FILE. At "go" the server stops answering requests. With --answers N, it stops only after N
 * further reads. Until then it answers all requests. The target also makes the mapping executable,
 * so that a tracer reads the file. At the next "go" all requests are answered again. The target
 * answers each "go" with {"silent": 1 or 0}. --list: the target maps FILE itself as code, not the
 * silent file. Its list of libraries leads into a mapping of the silent file.
 *
 * --run: the target executes the program in the file instead, and all requests are answered. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "truth.h"

#define FILE_INODE 2
#define MAX_FILE   (4 << 20)
#define MAX_READ   (128 << 10)
#define MAX_HELD   64

static int device;
static unsigned char content[MAX_FILE];
static size_t content_bytes;

/* Shared with the server, which is a process of its own. */
static struct {
	atomic_bool silent;
	atomic_long answers; /* reads still answered when silent */
} * told;

struct request {
	struct fuse_in_header head;
	union {
		struct fuse_read_in read;
		struct fuse_init_in init;
		char name[256];
		char all[MAX_READ + 4096]; /* the kernel insists on room for a write */
	};
};

static struct request held[MAX_HELD];
static size_t n_held;

static void answer(const struct request *r, int error, const void *body, size_t len)
{
	static struct {
		struct fuse_out_header head;
		char body[MAX_READ];
	} out;

	out.head = (struct fuse_out_header){.len = (uint32_t)(sizeof(out.head) + len),
					    .error = error,
					    .unique = r->head.unique};
	memcpy(out.body, body, len);
	if (write(device, &out, out.head.len) < 0 && errno != ENOENT) /* ENOENT: interrupted */
		perror("silent: answer");
}

static struct fuse_attr attributes(uint64_t inode)
{
	struct fuse_attr attr = {.ino = inode, .nlink = 1, .blksize = 4096};

	attr.mode = inode == FILE_INODE ? S_IFREG | 0755 : S_IFDIR | 0755;
	attr.size = inode == FILE_INODE ? content_bytes : 0;
	return attr;
}

/* The kernel must not cache an answer: it has to ask each time. */
static void serve(const struct request *r)
{
	struct fuse_init_out init = {.major = FUSE_KERNEL_VERSION,
				     .minor = FUSE_KERNEL_MINOR_VERSION,
				     .max_write = MAX_READ};
	struct fuse_entry_out entry = {.nodeid = FILE_INODE, .attr = attributes(FILE_INODE)};
	struct fuse_attr_out attr = {.attr = attributes(r->head.nodeid)};
	struct fuse_open_out opened = {};
	struct fuse_statfs_out fs = {.st = {.bsize = 4096, .namelen = 255}};
	size_t off, len;

	switch (r->head.opcode) {
	case FUSE_INIT:
		answer(r, 0, &init, sizeof(init));
		break;
	case FUSE_LOOKUP:
		if (strcmp(r->name, "file"))
			answer(r, -ENOENT, NULL, 0);
		else
			answer(r, 0, &entry, sizeof(entry));
		break;
	case FUSE_GETATTR:
		answer(r, 0, &attr, sizeof(attr));
		break;
	case FUSE_OPEN:
		answer(r, 0, &opened, sizeof(opened));
		break;
	case FUSE_READ:
		off = r->read.offset < content_bytes ? r->read.offset : content_bytes;
		len = content_bytes - off < r->read.size ? content_bytes - off : r->read.size;
		answer(r, 0, content + off, len);
		break;
	case FUSE_STATFS:
		answer(r, 0, &fs, sizeof(fs));
		break;
	case FUSE_FLUSH:
	case FUSE_RELEASE:
		answer(r, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_INTERRUPT:
		break; /* these requests have no answer */
	default:
		answer(r, -ENOSYS, NULL, 0);
	}
}

static bool is_held(const struct request *r)
{
	bool wants_none = r->head.opcode == FUSE_FORGET || r->head.opcode == FUSE_BATCH_FORGET ||
			  r->head.opcode == FUSE_INTERRUPT;

	if (!told->silent || wants_none || n_held == MAX_HELD)
		return false;
	/* until these reads are used up, other requests are answered, too */
	return r->head.opcode == FUSE_READ ? atomic_fetch_sub(&told->answers, 1) <= 0
					   : told->answers <= 0;
}

static void serve_all(void)
{
	struct pollfd next = {.fd = device, .events = POLLIN};
	static struct request request;

	for (;;) {
		ssize_t n = poll(&next, 1, 10) == 1 ? read(device, &request, sizeof(request)) : 0;

		if (n < 0 && errno != EINTR && errno != ENOENT && errno != EAGAIN)
			return;
		for (size_t i = 0; !told->silent && i < n_held; i++)
			serve(&held[i]);
		n_held = told->silent ? n_held : 0;
		if (n < (ssize_t)sizeof(request.head))
			continue;
		if (is_held(&request))
			held[n_held++] = request;
		else
			serve(&request);
	}
}

static void must(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "silent: %s: %s\n", what, strerror(errno));
	_exit(2);
}

static const char *option(int argc, char **argv, const char *name)
{
	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], name))
			return argv[i + 1];
	fprintf(stderr, "silent: %s is missing\n", name);
	_exit(2);
}

/* The server ends when this process ends. Then all processes that wait for an answer continue. */
static void mount_file(const char *dir)
{
	pid_t own = getpid();
	char options[128];

	must(!unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL),
	     "namespace");
	device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
	must(device >= 0, "/dev/fuse");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 device);
	must(!mount("silent", dir, "fuse.silent", MS_NOSUID | MS_NODEV, options), "mount");
	if (!fork()) {
		must(!prctl(PR_SET_PDEATHSIG, SIGKILL) && getppid() == own, "parent");
		close(STDIN_FILENO);
		close(STDOUT_FILENO);
		serve_all();
		_exit(0);
	}
	close(device);
}

static void tell(int is)
{
	printf("{\"silent\": %d}\n", is);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct link_map *last;
	char path[4096];
	void *code;
	ssize_t n;
	int fd, source;

	truth_init(argc, argv);
	source = open(option(argc, argv, "--file"), O_RDONLY | O_CLOEXEC);
	n = source < 0 ? -1 : read(source, content, sizeof(content));
	must(n > 0, "--file");
	content_bytes = (size_t)n;
	told = mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(told != MAP_FAILED, "mmap");
	told->answers = (long)truth_number(argc, argv, "--answers", 0);
	mount_file(option(argc, argv, "--dir"));
	snprintf(path, sizeof(path), "%s/file", option(argc, argv, "--dir"));
	if (truth_flag(argc, argv, "--run")) {
		execl(path, path, NULL);
		must(false, path);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	must(fd >= 0, path);
	code = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	must(code != MAP_FAILED, "mmap");
	/* When a file is closed, the kernel asks the server. So the file is closed while the server
	 * still answers. Otherwise the end of the process would wait for an answer. */
	close(fd);
	truth_ready();
	told->silent = true;
	for (last = _r_debug.r_map; last->l_next;)
		last = last->l_next;
	if (truth_flag(argc, argv, "--list")) {
		last->l_next = code;
		must(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, source, 0) != MAP_FAILED,
		     "mmap");
	} else {
		must(!mprotect(code, 4096, PROT_READ | PROT_EXEC), "mprotect");
	}
	tell(1);
	truth_await("go");
	told->silent = false;
	last->l_next = NULL;
	tell(0);
	return truth_finish();
}
