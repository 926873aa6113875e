// SPDX-License-Identifier: BSD-2-Clause
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "base/far.h"
#include "capture/internal.h"

/* the kernel gives no answer while another thread changes memtrace's address space */
#define ATTEMPTS 8

struct file_id capture__real_file(struct capture *c, int fd, const struct file_id *file)
{
	int prog = bpf_program__fd(c->skel->progs.real_file);
	struct abi_real_file of = {};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .ctx_in = &of, .ctx_size_in = sizeof(of));
	void *page;

	/* overlayfs has no device, so the major number is 0 */
	if (prog < 0 || file->dev_major || far__is_copy(fd))
		return *file;
	page = mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
	if (page == MAP_FAILED)
		return *file;
	for (int i = 0; i < ATTEMPTS && !of.file.inode; i++) {
		of.addr = (uintptr_t)page;
		if (bpf_prog_test_run_opts(prog, &opts))
			break;
	}
	munmap(page, 1);
	if (!of.file.inode)
		return *file;
	return (struct file_id){of.file.dev >> 20, of.file.dev & 0xfffff, of.file.inode};
}
