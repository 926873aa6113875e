/* SPDX-License-Identifier: BSD-2-Clause */
/* A target whose list of libraries leads into memory that nobody provides (userfaultfd). A process
 * that follows the list from outside hangs in the kernel. "go" sets the trap and maps --file FILE
 * as code, so that a tracer reads the list. The next "go" removes the trap. The target answers each
 * "go" with {"trapped": 1 or 0}. */
#include <fcntl.h>
#include <link.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "truth.h"

#define PAGE 4096

static struct link_map *last_library(void)
{
	struct link_map *map = _r_debug.r_map;

	while (map->l_next)
		map = map->l_next;
	return map;
}

/* A page whose first reader waits until the descriptor is closed. */
static void *unfilled_page(int *ret_fd)
{
	void *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_api api = {.api = UFFD_API};
	struct uffdio_register all = {
		.range = {(uintptr_t)page, PAGE},
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	*ret_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (page == MAP_FAILED || *ret_fd < 0 || ioctl(*ret_fd, UFFDIO_API, &api) ||
	    ioctl(*ret_fd, UFFDIO_REGISTER, &all)) {
		perror("trap: userfaultfd");
		exit(2);
	}
	return page;
}

static void tell(int trapped)
{
	printf("{\"trapped\": %d}\n", trapped);
	fflush(stdout);
}

int main(int argc, char **argv)
{
	struct link_map *last;
	int fd, file = -1;

	truth_init(argc, argv);
	for (int i = 1; i + 1 < argc; i++)
		if (!strcmp(argv[i], "--file"))
			file = open(argv[i + 1], O_RDONLY | O_CLOEXEC);
	if (file < 0) {
		fprintf(stderr, "trap: --file FILE to map\n");
		return 2;
	}
	truth_ready();
	last = last_library();
	last->l_next = unfilled_page(&fd);
	if (mmap(NULL, PAGE, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0) == MAP_FAILED) {
		perror("trap: mmap");
		return 2;
	}
	tell(1);
	truth_await("go");
	last->l_next = NULL;
	close(fd);
	tell(0);
	return truth_finish();
}
