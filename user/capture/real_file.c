// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/far.h"
#include "capture/internal.h"
#include "files.skel.h"

/* the kernel gives no answer while another thread changes memtrace's address space */
#define ATTEMPTS 100

/* If the kernel refuses the program, that is no failure: the program is needed only for
 * containers. */
static void load(struct capture *c)
{
	libbpf_print_fn_t print = libbpf_set_print(capture__print_nothing);

	c->files_tried = true;
	c->files = files_bpf__open_and_load();
	libbpf_set_print(print);
}

void capture__free_files(struct capture *c)
{
	files_bpf__destroy(c->files);
}

struct file_id capture__real_file(struct capture *c, int fd, const struct file_id *file)
{
	struct abi_real_file of = {};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &of, .ctx_size_in = sizeof(of));
	void *page;

	/* loaded at the first call, because memtrace gives up privileges later */
	if (!c->files_tried)
		load(c);
	/* overlayfs has no device, so its major number is 0 */
	if (!c->files || file->dev_major || far__is_copy(fd))
		return *file;
	page = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
	if (page == MAP_FAILED)
		return *file;
	for (int i = 0; i < ATTEMPTS && !of.file.inode; i++) {
		of.addr = (uintptr_t)page;
		if (bpf_prog_test_run_opts(bpf_program__fd(c->files->progs.real_file), &opts))
			break;
		if (!of.file.inode)
			sched_yield();
	}
	munmap(page, 1);
	if (!of.file.inode)
		return *file;
	return (struct file_id){of.file.dev >> 20, of.file.dev & 0xfffff, of.file.inode};
}
