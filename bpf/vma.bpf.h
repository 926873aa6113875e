/* SPDX-License-Identifier: GPL-2.0-only */
/* Code mappings that user space has not put into the tables yet. After an exec, a fork or a dlopen,
 * user space adds them some milliseconds later. The kernel itself knows the mappings, and is asked
 * for the mapping of a single address. The file behind the mapping leads to an unwind table, if
 * user space has already made one for this file, no matter for which process.
 *
 * A table is wrong once its file has changed. So the file's size and time of change are compared
 * with those that are noted with the table. (The time of modification is of no use here, because
 * the file's owner may set it.) User space keeps the file open, so no other file gets its inode.
 *
 * Asking takes the lock of the address space, if the lock is free, and releases it. With interrupts
 * off the lock is released only later. If a second program asks on the same CPU before this
 * release, one lock is never released, and the process cannot end (fixed in Linux by commit
 * fa9dcacdcdf4, of 2026). So a program that runs with interrupts off does not ask. */
#ifndef MEMTRACE_BPF_VMA_BPF_H
#define MEMTRACE_BPF_VMA_BPF_H

#include "abi.h"
#include "compat.bpf.h"

/* A mapped part of a file, and the file's size and time of change. */
struct mapped_file {
	struct abi_file_part part;
	__u64 size, changed_s;
	__u32 changed_ns;
	__u32 pad;
};

/* Gives a mapping the unwind table of its file. Returns 0, or -1 if the file has changed since the
 * table was made. */
static __always_inline int place_table(struct abi_mapping *mapping, const struct mapped_file *file,
				       const struct abi_file_table *table)
{
	if (table->size != file->size || table->changed_s != file->changed_s ||
	    table->changed_ns != file->changed_ns)
		return -1;
	mapping->bias = mapping->start - table->shift;
	mapping->table = table->number;
	return 0;
}

#ifdef __bpf__
#include "ctime.bpf.h"
#include "maps.bpf.h"

#define VM_EXEC 4

/* The unwind tables of the file parts that user space has seen. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, ABI_MAX_FILE_PARTS);
	__type(key, struct abi_file_part);
	__type(value, struct abi_file_table);
} tables_by_file __weak SEC(".maps");

static __always_inline void read_state(struct mapped_file *file, struct inode *inode)
{
	file->size = (__u64)BPF_CORE_READ(inode, i_size);
	read_changed(inode, &file->changed_s, &file->changed_ns);
}

static __always_inline const struct abi_file_table *look_up(struct mapped_file *file,
							    struct inode *inode)
{
	file->part.file.inode = BPF_CORE_READ(inode, i_ino);
	file->part.file.dev = BPF_CORE_READ(inode, i_sb, s_dev);
	return bpf_map_lookup_elem(&tables_by_file, &file->part);
}

static long note_vma(struct task_struct *task, struct vm_area_struct *vma,
		     struct abi_mapping *found)
{
	struct mapped_file file = {.part.page = vma->vm_pgoff};
	const struct abi_file_table *table;
	struct backing_file *backing;
	struct inode *inode;

	found->start = vma->vm_start;
	found->end = vma->vm_end;
	backing = (void *)vma->vm_file;
	if (!backing || !(vma->vm_flags & VM_EXEC))
		return 0;
	found->table = ABI_MAX_TABLES; /* no table has this number */
	inode = BPF_CORE_READ(vma, vm_file, f_inode);
	read_state(&file, inode);
	table = look_up(&file, inode);
	/* On overlayfs, `inode` belongs to the file in the layer below. Since Linux 6.7 user space
	 * is told either of that file or of the overlay's own file above it. The kernel stores the
	 * path of the file above just after the struct file of the file below. A flag tells whether
	 * a struct file has such a path, but the flag's place moves from version to version, so the
	 * flag is not read. After the struct file of any other file, this code reads some other
	 * value, and finds no table for it. */
	if (!table && bpf_core_field_exists(backing->user_path))
		table = look_up(&file, BPF_CORE_READ(backing, user_path.dentry, d_inode));
	if (table)
		place_table(found, &file, table);
	return 0;
}

/* Declared in unwind.bpf.h. */
CHECKED_ONCE int ask_mapping(__u64 addr, struct abi_mapping *ret)
{
	struct abi_mapping found = {};

	if (!ret)
		return 0;
	if (use_tables)
		bpf_find_vma(bpf_get_current_task_btf(), addr, note_vma, &found, 0);
	*ret = found;
	return 0;
}

#endif

#endif
