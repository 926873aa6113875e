/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes memory resident in several known ways. For each function, prints the resident bytes of the
 * pages that this function touched first. */
#include <fcntl.h>
#include <sys/mman.h>

#include "truth.h"

#define PAGE 4096ul

static char *map(size_t pages)
{
	char *p = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	if (p == MAP_FAILED) {
		perror("truth_faults: mmap");
		_exit(99);
	}
	madvise(p, pages * PAGE, MADV_NOHUGEPAGE);
	return p;
}

/* Touches one page after the other, at addresses that are not the start of a page. */
#define TOUCH(name)                                                                                \
	NOINLINE static void name(char *p, size_t pages)                                           \
	{                                                                                          \
		for (size_t i = 0; i < pages; i++)                                                 \
			((volatile char *)p)[i * PAGE + 77] = 1;                                   \
	}

TOUCH(touch)
TOUCH(touch_part)
TOUCH(touch_gone)
TOUCH(touch_first)
TOUCH(touch_again)
TOUCH(touch_break)

/* The kernel touches the pages, in read(). */
NOINLINE static void read_into(int fd, char *p, size_t pages)
{
	if (read(fd, p, pages * PAGE) != (long)(pages * PAGE))
		_exit(98);
}

int main(int argc, char **argv)
{
	int zero;
	char *p;

	truth_init(argc, argv);
	zero = open("/dev/zero", O_RDONLY);
	truth_ready();
	touch(map(3000), 3000);
	p = map(1000); /* touches little of a large mapping: only touched pages are resident */
	touch_part(p, 100);
	touch_part(p, 100); /* is already resident */
	read_into(zero, map(500), 500);
	p = map(400);
	touch_gone(p, 400);
	munmap(p, 400 * PAGE);
	p = map(700);
	touch_first(p, 700);
	madvise(p, 700 * PAGE, MADV_DONTNEED);
	touch_again(p, 200);
	p = sbrk(300 * PAGE);
	touch_break((char *)(((uintptr_t)p + PAGE - 1) / PAGE * PAGE), 299);
	printf("{\"functions\": {\"touch\": %lu, \"touch_part\": %lu, \"read_into\": %lu, "
	       "\"touch_gone\": 0, \"touch_first\": 0, \"touch_again\": %lu, \"touch_break\": "
	       "%lu}}\n",
	       3000 * PAGE, 100 * PAGE, 500 * PAGE, 200 * PAGE, 299 * PAGE);
	return truth_finish();
}
