// SPDX-License-Identifier: BSD-2-Clause
/* Where a thread's thread-local memory is: on x86-64 below the thread pointer tp. The variables of
 * a file begin at tp minus an offset, which is the same for all threads. For the program, the
 * linker has computed the offset. It is the size of PT_TLS, rounded up so that the alignment holds
 * (Drepper, "ELF Handling For Thread-Local Storage", variant II). For libraries, the dynamic linker
 * chooses the offset, and writes it to its struct link_map (l_tls_offset). glibc tells debuggers
 * where this member is, in a variable of three 32-bit numbers: bits, elements and offset
 * (nptl_db/thread_dbP.h). */
#include "symbolize/thread_names.h"

#include <elf.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/io.h"
#include "base/search.h"
#include "base/vector.h"
#include "elf/stack_walk.h"
#include "proc/link_map.h"
#include "proc/memory.h"
#include "proc/process.h"
#include "symbolize/variables_internal.h"

#define MAX_OBJECTS 1024
#define MAX_TRIES   2 /* libc and libpthread */
#define MAX_FRAMES  128
#define MAX_BELOW   (64ULL << 20) /* no offset is larger; glibc has special values above */
#define STACK_BYTES (48u << 10)	  /* memory__read() reads no more at once */
#define RED_ZONE    128		  /* bytes below the stack pointer, which belong to the function */

/* The thread-local variables of a file. */
struct module {
	struct variables_file *file;
	uint64_t below; /* the thread pointer minus the address of the thread's copy of these
			 * variables */
	struct elf_tls tls;
};

struct stack {
	pid_t tid;
	uint64_t start;
	struct stack_frame frames[MAX_FRAMES];
	size_t n;
};

struct thread_names {
	pid_t pid;
	const struct maps *maps;
	const struct thread_state *threads;
	size_t n;
	const struct thread_state **by_tp; /* those threads whose tp is known, ascending by tp */
	size_t n_by_tp;
	struct variables *variables;
	struct module *modules;
	size_t n_modules;
	bool has_modules;      /* the search for modules was made */
	struct stack **stacks; /* the stacks that were walked */
	size_t n_stacks;
	char *name; /* the last name that was returned */
};

static int compare_tp(const void *a, const void *b)
{
	const struct thread_state *const *x = a, *const *y = b;

	if ((*x)->tp != (*y)->tp)
		return (*x)->tp < (*y)->tp ? -1 : 1;
	/* A thread of the kernel (io_uring) has the tp of the older thread that made it. */
	return ((*x)->tid > (*y)->tid) - ((*x)->tid < (*y)->tid);
}

int thread_names__new(pid_t pid, const struct maps *maps, const struct thread_state *threads,
		      size_t n, struct variables *variables, struct thread_names **ret)
{
	struct thread_names *names = calloc(1, sizeof(*names));

	if (names)
		names->by_tp = calloc(n + 1, sizeof(struct thread_state *));
	if (!names || !names->by_tp) {
		free(names);
		return -ENOMEM;
	}
	names->pid = pid;
	names->maps = maps;
	names->threads = threads;
	names->n = n;
	names->variables = variables;
	for (size_t i = 0; i < n; i++)
		if (threads[i].tp)
			names->by_tp[names->n_by_tp++] = &threads[i];
	qsort(names->by_tp, names->n_by_tp, sizeof(*names->by_tp), compare_tp);
	*ret = names;
	return 0;
}

void thread_names__free(struct thread_names *names)
{
	if (!names)
		return;
	for (size_t i = 0; i < names->n_stacks; i++)
		free(names->stacks[i]);
	free(names->stacks);
	free(names->modules);
	free(names->by_tp);
	free(names->name);
	free(names);
}

/* --- thread-local variables --- */

static struct variables_file *file_at(struct thread_names *names, uint64_t addr)
{
	const struct map_entry *entry = maps__find(names->maps, addr);
	struct variables_file *file =
		entry && entry->file.inode ? variables__find_file(names->variables, entry) : NULL;

	return file && file->binary ? file : NULL;
}

static int add_module(struct thread_names *names, struct variables_file *file, uint64_t below)
{
	struct module module = {.file = file, .below = below};

	if (elf_image__tls(file->binary->image, &module.tls) || below < module.tls.size ||
	    below > MAX_BELOW)
		return 0;
	if (VECTOR_ADD_ROOM(names->modules, names->n_modules))
		return -ENOMEM;
	names->modules[names->n_modules++] = module;
	return 0;
}

/* Adds the program. Returns its file in *ret; NULL: it is not known. */
static int add_program(struct thread_names *names, struct variables_file **ret)
{
	struct variables_file *file = file_at(names, process__auxv(names->pid, AT_PHDR));
	struct elf_tls tls;
	uint64_t rest;

	*ret = file;
	if (!file || elf_image__tls(file->binary->image, &tls) || tls.size > MAX_BELOW)
		return 0;
	rest = -tls.vaddr & (tls.align - 1);
	return add_module(names, file, ((tls.size - rest + tls.align - 1) & -tls.align) + rest);
}

/* Reads where l_tls_offset is in a struct link_map, from the C library's file. 0: the file does not
 * tell. */
static uint64_t read_member(int fd)
{
	static const char name[] = "_thread_db_link_map_l_tls_offset";
	static const char *const names[] = {name, NULL};
	const struct elf_wanted wanted = {.fn = elf_wanted__is_listed, .ctx = names};
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	struct elf_symbol symbol;
	uint32_t words[3]; /* bits, elements, offset */
	uint64_t off;

	if (elf_image__open(fd, "libc", &wanted, &image, NULL) ||
	    elf_image__find_object(image, name, &symbol) ||
	    elf_image__vaddr_to_off(image, symbol.vaddr, &off) ||
	    io__pread(fd, words, sizeof(words), off) != sizeof(words))
		return 0;
	return words[0] == 64 && words[2] < 4096 ? words[2] : 0;
}

/* Those libraries of a process that have thread-local variables. */
struct libraries {
	struct link_object objects[MAX_OBJECTS];
	size_t n;
	uint64_t member;    /* where l_tls_offset is in a struct link_map; 0: not known */
	unsigned int tries; /* how many files were searched for `member` */
};

/* Looks at the file of an object. Returns whether it has thread-local variables. */
static bool examine(struct thread_names *names, struct libraries *l, uint64_t dynamic)
{
	const struct map_entry *entry = maps__find(names->maps, dynamic);
	_cleanup_(elf_image__cleanup) struct elf_image *image = NULL;
	_cleanup_close_ int fd = -1;
	const char *soname;
	struct elf_tls tls;

	if (entry && entry->file.inode)
		fd = maps__open_file(names->pid, entry);
	if (fd < 0 || elf_image__open_code(fd, entry->path, &image, NULL))
		return false;
	soname = elf_image__soname(image);
	/* libpthread: until glibc 2.33 */
	if (soname && !l->member && l->tries < MAX_TRIES &&
	    (!strcmp(soname, "libc.so.6") || !strcmp(soname, "libpthread.so.0"))) {
		l->member = read_member(fd);
		l->tries++;
	}
	return !elf_image__tls(image, &tls);
}

static int add_libraries(struct thread_names *names, const struct variables_file *program)
{
	_cleanup_free_ struct libraries *l = calloc(1, sizeof(*l));
	long n = l ? link_map__read(names->pid, l->objects, MAX_OBJECTS) : 0;
	int err = l ? 0 : -ENOMEM;

	for (long i = 0; i < n; i++)
		if (examine(names, l, l->objects[i].dynamic))
			l->objects[l->n++] = l->objects[i];
	for (size_t i = 0; !err && i < l->n && l->member; i++) {
		struct variables_file *file = file_at(names, l->objects[i].dynamic);
		uint64_t below;

		if (file && file != program &&
		    !memory__read(names->pid, l->objects[i].addr + l->member, &below,
				  sizeof(below)))
			err = add_module(names, file, below);
	}
	return err;
}

static int find_modules(struct thread_names *names)
{
	struct variables_file *program;
	int err = 0;

	if (!names->has_modules)
		err = add_program(names, &program);
	if (!names->has_modules && !err)
		err = add_libraries(names, program);
	names->has_modules = true;
	return err;
}

static int name_variable(struct thread_names *names, const struct module *module, uint64_t off,
			 struct variable *ret)
{
	uint64_t vaddr = module->tls.vaddr + off, start;
	char *name;
	int err = variables__find_symbol(names->variables, module->file, SYMTAB_THREAD_LOCAL, vaddr,
					 &name, &start);

	if (err)
		return err;
	free(names->name);
	names->name = name;
	*ret = (struct variable){
		.name = name,
		.off = name ? vaddr - start : off,
		.path = module->file->path,
	};
	return 0;
}

int thread_names__variable(struct thread_names *names, uint64_t addr, struct variable *ret,
			   pid_t *ret_tid)
{
	size_t i = SEARCH_FIRST(k, names->n_by_tp, names->by_tp[k]->tp > addr);
	int err;

	if (i == names->n_by_tp || names->by_tp[i]->tp - addr > MAX_BELOW)
		return -ENOENT;
	err = find_modules(names);
	if (err)
		return err;
	*ret_tid = names->by_tp[i]->tid;
	for (size_t k = 0; k < names->n_modules; k++) {
		const struct module *module = &names->modules[k];
		uint64_t off = addr - (names->by_tp[i]->tp - module->below);

		if (off < module->tls.size)
			return name_variable(names, module, off, ret);
	}
	return -ENOENT;
}

/* --- functions --- */

/* A copy of a part of a stack. */
struct copy {
	struct thread_names *names;
	uint64_t start;
	size_t len;
	unsigned char bytes[STACK_BYTES];
};

static bool read_word(void *ctx, uint64_t addr, uint64_t *ret)
{
	const struct copy *copy = ctx;

	if (addr < copy->start || copy->len < sizeof(*ret) ||
	    addr - copy->start > copy->len - sizeof(*ret))
		return false;
	memcpy(ret, copy->bytes + (addr - copy->start), sizeof(*ret));
	return true;
}

static bool find_rule(void *ctx, uint64_t pc, uint32_t *ret)
{
	const struct copy *copy = ctx;
	struct variables_file *file = file_at(copy->names, pc);
	const struct unwind_table *table =
		file && file->known ? variables__find_table(copy->names->variables, file) : NULL;

	if (!table)
		return false;
	*ret = unwind_table__find(table, pc - file->bias);
	return true;
}

/* Does the thread still wait at the place where it waited when its state was read? */
static bool waits(const struct thread_names *names, const struct thread_state *thread)
{
	struct thread_state now;
	uint64_t args[THREAD_ARGS];
	size_t n;

	return !thread_state__read(names->pid, thread->tid, &now, args, &n) &&
	       now.sp == thread->sp && now.pc == thread->pc;
}

static void walk(struct thread_names *names, const struct thread_state *thread, struct stack *stack)
{
	const struct map_entry *entry = maps__find(names->maps, thread->sp);
	struct stack_source source = {find_rule, read_word, NULL};
	_cleanup_free_ struct copy *copy = malloc(sizeof(*copy));

	if (!copy || !entry || !thread->pc)
		return;
	copy->names = names;
	copy->start = thread->sp;
	copy->len = entry->end - thread->sp < STACK_BYTES ? entry->end - thread->sp : STACK_BYTES;
	if (!waits(names, thread) ||
	    memory__read(names->pid, copy->start, copy->bytes, copy->len) || !waits(names, thread))
		return;
	source.ctx = copy;
	stack->n =
		stack_walk(&source, thread->pc, thread->sp, thread->bp, stack->frames, MAX_FRAMES);
}

/* Returns the frames of a thread. NULL: no memory. */
static const struct stack *stack_of(struct thread_names *names, pid_t tid)
{
	struct stack *stack;

	for (size_t i = 0; i < names->n_stacks; i++)
		if (names->stacks[i]->tid == tid)
			return names->stacks[i];
	if (VECTOR_ADD_ROOM(names->stacks, names->n_stacks))
		return NULL;
	stack = calloc(1, sizeof(*stack));
	if (!stack)
		return NULL;
	names->stacks[names->n_stacks++] = stack;
	stack->tid = tid;
	for (size_t i = 0; i < names->n; i++)
		if (names->threads[i].tid == tid && names->threads[i].sp) {
			stack->start = names->threads[i].sp - RED_ZONE;
			walk(names, &names->threads[i], stack);
		}
	return stack;
}

static int name_function(struct thread_names *names, uint64_t pc, char **ret)
{
	struct variables_file *file = file_at(names, pc);
	const char *slash;
	uint64_t start;
	int err;

	if (!file || !file->known)
		return -ENOENT;
	err = variables__find_symbol(names->variables, file, SYMTAB_FUNCTIONS, pc - file->bias, ret,
				     &start);
	if (err || *ret)
		return err;
	slash = strrchr(file->path, '/');
	return asprintf(ret, "%s+0x%" PRIx64, slash ? slash + 1 : file->path, pc - file->bias) < 0
		       ? -ENOMEM
		       : 0;
}

int thread_names__function(struct thread_names *names, pid_t tid, uint64_t addr, uint64_t low,
			   uint64_t high, char **ret)
{
	const struct stack *stack = stack_of(names, tid);
	uint64_t word;
	size_t i;

	if (!stack)
		return -ENOMEM;
	i = SEARCH_FIRST(k, stack->n, stack->frames[k].end > addr);
	if (i == stack->n || addr < stack->start ||
	    memory__read(names->pid, addr, &word, sizeof(word)) || word < low || word >= high)
		return -ENOENT;
	return name_function(names, stack->frames[i].pc, ret);
}
