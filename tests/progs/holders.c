// SPDX-License-Identifier: BSD-2-Clause
/* Blocks that are held in every way, and blocks that are lost. For each block, prints the address
 * and whether a tool must report the block as held or lost. Then it drops its own pointers to the
 * lost blocks.
 *
 * JSON after "go": {"held": {"way": [addresses]}, "lost": {"way": [addresses]}}. A lost block is
 * one to which no pointer is left. (Freed memory may have a pointer to it, but is not searched.
 * Registers and the stack are overwritten.)
 *
 * Options: --busy THREADS: threads that allocate, link, unlink and free at full speed meanwhile.
 * --push N: N blocks a second go to the head of a list that also holds some of the printed blocks.
 * --fill N: N blocks a second go into tables, which are allocated as they are needed.
 * --count N: N blocks for each way instead of 20.
 * --large N: also holds and loses N blocks of each of LARGE_SIZES. */
#include <pthread.h>
#include <sys/mman.h>

#include "truth.h"

#define SIZE	  72 /* requested size of most blocks */
#define MAX_COUNT 2000
#define HIDE	  0x5555555555555555ull
#define MAX_LARGE 64

static const size_t LARGE_SIZES[] = {5 << 10, 32 << 10, 1 << 20};

#define N_LARGE_SIZES (sizeof(LARGE_SIZES) / sizeof(*LARGE_SIZES))

struct node {
	struct node *next, *other;
	char rest[SIZE - 2 * sizeof(struct node *)];
};

/* If LeakSanitizer is linked, it searches a mapping only after this call. */
void __lsan_register_root_region(const void *start, size_t size) __attribute__((weak));

static unsigned long count, large;

/* Variables that hold blocks. They are not static: the compiler would remove variables that are
 * never read. */
struct node *global_array[MAX_COUNT];
struct node *global_list, *global_tree;
struct node **global_table; /* a block of pointers */
uintptr_t global_tagged[MAX_COUNT];
char *global_interior[MAX_COUNT];
__thread struct node *thread_array[MAX_COUNT];
struct node **mapped_array; /* each large block is in a mapping of its own */
void *global_large[MAX_LARGE * N_LARGE_SIZES];

/* A scan does not mistake printed addresses in buffers for pointers, because they are digits. */
static bool first_way, first_addr;

static void way(const char *name)
{
	printf("%s\"%s\": [", first_way ? "" : "], ", name);
	first_way = false;
	first_addr = true;
}

static void tell(const void *p)
{
	printf("%s%" PRIuPTR, first_addr ? "" : ", ", (uintptr_t)p);
	first_addr = false;
}

NOINLINE static struct node *new_node(struct node *next)
{
	struct node *n = malloc(sizeof(*n));

	if (!n)
		abort();
	memset(n, 0, sizeof(*n));
	n->next = next;
	tell(n);
	return n;
}

NOINLINE static struct node *new_tree(unsigned long n)
{
	struct node *node;

	if (!n)
		return NULL;
	node = new_node(NULL);
	node->next = new_tree((n - 1) / 2);
	node->other = new_tree(n - 1 - (n - 1) / 2);
	return node;
}

NOINLINE static void hold_in_globals(void)
{
	way("array");
	for (unsigned long i = 0; i < count; i++)
		global_array[i] = new_node(NULL);
	way("list");
	for (unsigned long i = 0; i < count; i++)
		global_list = new_node(global_list);
	way("tree");
	global_tree = new_tree(count);
	way("table");
	global_table = calloc(count, sizeof(*global_table));
	tell(global_table);
	for (unsigned long i = 0; i < count; i++)
		global_table[i] = new_node(NULL);
	way("tagged");
	for (unsigned long i = 0; i < count; i++)
		global_tagged[i] = (uintptr_t)new_node(NULL) | 7;
	way("interior");
	for (unsigned long i = 0; i < count; i++)
		global_interior[i] = (char *)new_node(NULL) + SIZE / 2;
	way("circle");
	global_array[0]->other = new_node(NULL);
	global_array[0]->other->next = new_node(global_array[0]->other);
}

NOINLINE static void hold_elsewhere(void)
{
	way("thread_local");
	for (unsigned long i = 0; i < count; i++)
		thread_array[i] = new_node(NULL);
	way("mapped");
	mapped_array = mmap(NULL, MAX_COUNT * sizeof(*mapped_array), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (mapped_array == MAP_FAILED)
		abort();
	if (__lsan_register_root_region)
		__lsan_register_root_region(mapped_array, MAX_COUNT * sizeof(*mapped_array));
	for (unsigned long i = 0; i < count; i++)
		mapped_array[i] = new_node(NULL);
}

/* Makes large blocks one after the other. to: where their addresses go, or NULL. */
NOINLINE static void make_large(void **to)
{
	if (large)
		way("large");
	for (size_t i = 0; i < large * N_LARGE_SIZES; i++) {
		void *p = calloc(1, LARGE_SIZES[i % N_LARGE_SIZES]);

		if (!p)
			abort();
		tell(p);
		if (to)
			to[i] = p;
	}
}

/* --- a thread that holds blocks on its stack, and in thread-local memory --- */

static pthread_barrier_t held;

static void *holder(void *unused)
{
	struct node *volatile on_stack[MAX_COUNT];

	(void)unused;
	way("stack");
	for (unsigned long i = 0; i < count; i++)
		on_stack[i] = new_node(NULL);
	way("thread_local_of_thread");
	for (unsigned long i = 0; i < count; i++)
		thread_array[i] = new_node(NULL);
	pthread_barrier_wait(&held);
	for (;;)
		pause();
	return on_stack[0];
}

/* Only a register has the block's address, and the system call does not overwrite this register. */
static void *in_register(void *unused)
{
	struct node *node;

	(void)unused;
	way("register");
	node = new_node(NULL);
	pthread_barrier_wait(&held);
	/* Overwrites the stack below this frame, where a copy of the pointer may be left. */
	__asm__ volatile("mov %%rax, %%r12\n"
			 "xor %%ebx, %%ebx\n"
			 "lea -4096(%%rsp), %%rdi\n"
			 "mov $512, %%ecx\n"
			 "xor %%eax, %%eax\n"
			 "rep stosq\n"
			 "1: mov $34, %%eax\n" /* pause */
			 "xor %%edi, %%edi\n"
			 "xor %%esi, %%esi\n"
			 "xor %%edx, %%edx\n"
			 "xor %%r8d, %%r8d\n"
			 "xor %%r9d, %%r9d\n"
			 "xor %%r10d, %%r10d\n"
			 "xor %%r13d, %%r13d\n"
			 "xor %%r14d, %%r14d\n"
			 "xor %%r15d, %%r15d\n"
			 "syscall\n"
			 "jmp 1b\n"
			 :
			 : "r"(node)
			 : "memory", "cc", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10",
			   "r11", "r12", "r13", "r14", "r15");
	return NULL;
}

static void start(void *(*fn)(void *))
{
	pthread_t thread;

	pthread_barrier_init(&held, NULL, 2);
	if (pthread_create(&thread, NULL, fn, NULL))
		abort();
	pthread_barrier_wait(&held);
}

/* --- lost blocks --- */

NOINLINE static void lose(void)
{
	struct node *volatile last = NULL;

	way("single");
	for (unsigned long i = 0; i < count; i++)
		new_node(NULL);
	way("list");
	for (unsigned long i = 0; i < count; i++)
		last = new_node(last);
	way("tree");
	last = new_tree(count);
	way("circle");
	last = new_node(NULL);
	last->next = new_node(last);
	last->other = new_node(NULL);
	way("itself");
	last = new_node(NULL);
	last->next = last;
	/* the lost block points to a held block, which does not hold the lost block */
	way("upwards");
	last = new_node(global_list);
	way("hidden");
	last = new_node(NULL);
	global_array[1]->other = (struct node *)((uintptr_t)last ^ HIDE);
	last = NULL;
}

/* Overwrites the stack below the caller's frame, where earlier calls have left pointers. */
NOINLINE static void scrub(void)
{
	volatile char rest[1 << 16];

	for (size_t i = 0; i < sizeof(rest); i++)
		rest[i] = 0;
}

/* --- full speed --- */

#define SLOTS 4096

struct busy {
	struct node *slots[SLOTS];
	pthread_t thread;
};

static void *busy_thread(void *arg)
{
	struct busy *b = arg;
	uint64_t random = truth_seed((uint64_t)(uintptr_t)b);

	for (;;) {
		struct node **slot = &b->slots[truth_random(&random) >> 32 & (SLOTS - 1)];
		struct node **other = &b->slots[truth_random(&random) >> 32 & (SLOTS - 1)];
		struct node *n = *slot;

		switch (truth_random(&random) >> 40 & 3) {
		case 0: /* adds a block at the head of a list */
			n = malloc(sizeof(*n) + (truth_random(&random) >> 33 & 255));
			if (!n)
				abort();
			n->next = *slot;
			n->other = NULL;
			*slot = n;
			break;
		case 1: /* moves a block from one list to another */
			if (!n || slot == other)
				break;
			*slot = n->next;
			n->next = *other;
			*other = n;
			break;
		default:
			if (!n)
				break;
			*slot = n->next;
			free(n);
		}
	}
	return NULL;
}

/* --- a list that grows at its head --- */

#define PUSHES_A_S 1000 /* how many times a second blocks are pushed */

struct node *global_pushed;
static unsigned long push_rate;

static void *push_thread(void *unused)
{
	(void)unused;
	for (;;) {
		for (unsigned long i = 0; i < push_rate / PUSHES_A_S; i++) {
			struct node *n = calloc(1, sizeof(*n));

			if (!n)
				abort();
			n->next = global_pushed;
			global_pushed = n;
		}
		usleep(1000000 / PUSHES_A_S);
	}
	return NULL;
}

/* --- tables that fill up --- */

#define TABLE	   4096
#define MAX_TABLES 4096

struct node **global_tables[MAX_TABLES];
static unsigned long fill_rate;

NOINLINE static struct node **table_grow(void)
{
	struct node **table = calloc(TABLE, sizeof(*table));

	if (!table)
		abort();
	return table;
}

NOINLINE static struct node *value_new(void)
{
	struct node *value = calloc(1, sizeof(*value));

	if (!value)
		abort();
	return value;
}

static void *fill_thread(void *unused)
{
	unsigned long filled = 0;

	(void)unused;
	while (filled < TABLE * MAX_TABLES) {
		for (unsigned long i = 0; i < fill_rate / PUSHES_A_S; i++, filled++) {
			if (filled % TABLE == 0)
				global_tables[filled / TABLE % MAX_TABLES] = table_grow();
			global_tables[filled / TABLE % MAX_TABLES][filled % TABLE] = value_new();
		}
		usleep(1000000 / PUSHES_A_S);
	}
	return NULL;
}

NOINLINE static void hold_in_pushed(void)
{
	if (!push_rate)
		return;
	way("pushed");
	for (unsigned long i = 0; i < count; i++)
		global_pushed = new_node(global_pushed);
}

int main(int argc, char **argv)
{
	pthread_t pusher, filler;
	unsigned long threads = truth_number(argc, argv, "--busy", 0);

	truth_init(argc, argv);
	count = truth_number(argc, argv, "--count", 20);
	push_rate = truth_number(argc, argv, "--push", 0);
	fill_rate = truth_number(argc, argv, "--fill", 0);
	large = truth_number(argc, argv, "--large", 0);
	if (count > MAX_COUNT || large > MAX_LARGE)
		return 2;
	truth_ready();
	printf("{\"held\": {");
	first_way = true;
	hold_in_globals();
	hold_elsewhere();
	hold_in_pushed();
	make_large(global_large);
	start(holder);
	start(in_register);
	printf("]}, \"lost\": {");
	first_way = true;
	lose();
	make_large(NULL);
	printf("]}}\n");
	fflush(stdout);
	memset(truth_stdout_buffer, 0, sizeof(truth_stdout_buffer));
	scrub();
	for (unsigned long i = 0; i < threads; i++) {
		struct busy *b = calloc(1, sizeof(*b));

		if (!b || pthread_create(&b->thread, NULL, busy_thread, b))
			abort();
		mapped_array[MAX_COUNT - 1 - i] = (struct node *)b;
	}
	if (push_rate && pthread_create(&pusher, NULL, push_thread, NULL))
		abort();
	if (fill_rate && pthread_create(&filler, NULL, fill_thread, NULL))
		abort();
	return truth_finish();
}
